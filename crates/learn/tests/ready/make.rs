//! Files of arrays, made by hand.

/// An array as numpy would write it.
pub(crate) fn npy(descr: &str, fortran: bool, shape: &[usize], body: &[u8]) -> Vec<u8> {
    let mut file = head(descr, fortran, shape);
    file.extend(body);
    file
}

pub(crate) fn head(descr: &str, fortran: bool, shape: &[usize]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let axes: String = shape.iter().map(|n| format!("{n},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({axes}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file
}

pub(crate) fn f32s(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    npy("<f4", false, shape, &values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
}

pub(crate) fn f64s(shape: &[usize], values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    npy("<f8", false, shape, &values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>())
}

pub(crate) fn i64s(values: &[i64]) -> Vec<u8> {
    npy("<i8", false, &[values.len()], &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
}

pub(crate) fn strings(values: &[&str]) -> Vec<u8> {
    let body: Vec<u8> = values.iter().flat_map(|s| s.bytes().chain([0; 8]).take(8).collect::<Vec<u8>>()).collect();
    npy("|S8", false, &[values.len()], &body)
}

/// An archive whose members are stored.
pub(crate) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in arrays {
        let name = format!("{name}.npy");
        let at = file.len() as u32;
        let mut sizes = Vec::new();
        sizes.extend(crc(data).to_le_bytes());
        sizes.extend([data.len() as u32; 2].iter().flat_map(|n| n.to_le_bytes()));
        sizes.extend((name.len() as u32).to_le_bytes()); // and no extra field
        file.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
        file.extend(&sizes);
        file.extend(name.bytes());
        file.extend(data);
        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
        directory.extend(&sizes);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (at, size, count) = (file.len() as u32, directory.len() as u32, arrays.len() as u16);
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count; 2].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([size, at].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([0; 2]);
    file
}

fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> =
        (0..256).map(|n| (0..8).fold(n, |c: u32, _| if c & 1 == 1 { 0xedb8_8320 ^ c >> 1 } else { c >> 1 })).collect();
    !bytes.iter().fold(!0, |c, b| table[((c ^ u32::from(*b)) & 255) as usize] ^ c >> 8)
}
