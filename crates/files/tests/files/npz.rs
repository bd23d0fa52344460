//! Numpy arrays: every dtype in every order.

use files::{Data, MISSING_TIME, read_npy, read_npz};

use crate::{bytes, caps, check_data, check_error, seed, text};

pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, body: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(body);
    file
}

#[track_caller]
fn check(code: &str, body: &[u8], want: Data) {
    let file = npy(&format!("'{code}'"), false, &format!("({},)", want.len()), body);
    let array = read_npy(&bytes("a.npy", file), &caps()).unwrap();
    assert_eq!((array.name.as_str(), &array.shape[..]), ("a", &[want.len()][..]));
    check_data(&array.data, &want);
}

/// The same values in both byte orders.
macro_rules! both {
    ($code:literal, [$($value:expr),*], $want:expr) => {
        check(concat!("<", $code), &[$($value.to_le_bytes().to_vec()),*].concat(), $want);
        check(concat!(">", $code), &[$($value.to_be_bytes().to_vec()),*].concat(), $want);
    };
}

#[test]
fn numbers_of_every_width_and_byte_order() {
    check("|i1", &[1, 255], Data::I64(vec![1, -1]));
    check("|u1", &[1, 255], Data::I64(vec![1, 255]));
    check("|b1", &[0, 1], Data::I64(vec![0, 1]));
    both!("i2", [1i16, -2i16], Data::I64(vec![1, -2]));
    both!("i4", [1i32, -2i32], Data::I64(vec![1, -2]));
    both!("i8", [1i64, i64::MIN], Data::I64(vec![1, i64::MIN]));
    both!("u2", [1u16, u16::MAX], Data::I64(vec![1, 65_535]));
    both!("u4", [1u32, u32::MAX], Data::I64(vec![1, 4_294_967_295]));
    both!("u8", [1u64, 2u64], Data::I64(vec![1, 2]));
    both!("u8", [1u64, u64::MAX], Data::F64(vec![1.0, u64::MAX as f64]));
    both!("f8", [1.5f64, f64::NAN], Data::F64(vec![1.5, f64::NAN]));
    both!("f4", [1.5f32, f32::NEG_INFINITY], Data::F64(vec![1.5, f64::NEG_INFINITY]));
    // 1.5, smallest subnormal, infinity, largest.
    both!("f2", [0x3e00u16, 1u16, 0x7c00u16, 0x7bffu16], Data::F64(vec![1.5, 2f64.powi(-24), f64::INFINITY, 65504.0]));
}

#[test]
fn times_of_every_unit() {
    let time = |ns: i64| Data::Time { ns: vec![ns, MISSING_TIME], utc: true };
    for (unit, ns) in [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)] {
        check(&format!("<M8[{unit}]"), &[7i64.to_le_bytes(), i64::MIN.to_le_bytes()].concat(), time(7 * ns));
        check(&format!(">M8[{unit}]"), &[7i64.to_be_bytes(), i64::MIN.to_be_bytes()].concat(), time(7 * ns));
    }
    for (unit, seconds) in [("m", 60), ("h", 3600), ("D", 86_400), ("W", 604_800), ("15m", 900)] {
        let body = [7i64.to_le_bytes(), i64::MIN.to_le_bytes()].concat();
        check(&format!("<M8[{unit}]"), &body, time(7 * seconds * 1_000_000_000));
    }
}

#[test]
fn strings() {
    check("|S3", b"ab\0abc\xe9\0\0", text(&["ab", "abc", "é"]));
    let wide = |order: fn(u32) -> [u8; 4]| "aé😀\0".chars().flat_map(|c| order(c as u32)).collect::<Vec<u8>>();
    check("<U2", &wide(u32::to_le_bytes), text(&["aé", "😀"]));
    check(">U2", &wide(u32::to_be_bytes), text(&["aé", "😀"]));
}

#[test]
fn fortran_order_is_transposed() {
    let body: Vec<u8> = [1f64, 4.0, 2.0, 5.0, 3.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let array = read_npy(&bytes("a.npy", npy("'<f8'", true, "(2, 3)", &body)), &caps()).unwrap();
    assert_eq!(array.shape, [2, 3]);
    check_data(&array.data, &Data::F64(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let cube: Vec<u8> = (0..24i64).flat_map(i64::to_le_bytes).collect();
    let array = read_npy(&bytes("a.npy", npy("'<i8'", true, "(2, 3, 4)", &cube)), &caps()).unwrap();
    let want = (0..24).map(|k| (k / 12) + 2 * (k / 4 % 3) + 6 * (k % 4)).collect();
    check_data(&array.data, &Data::I64(want));
    let array = read_npy(&bytes("a.npy", npy("'|S1'", true, "(2, 2)", b"acbd")), &caps()).unwrap();
    check_data(&array.data, &text(&["a", "b", "c", "d"]));
}

#[test]
fn numpy_files_are_read() {
    let arrays = read_npz(&seed("npz", "plain.npz"), &caps()).unwrap();
    let names: Vec<&str> = arrays.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["time", "close", "volume", "up", "name"]);
    check_data(&arrays[0].data, &Data::Time { ns: (0..6).map(|s| s * 1_000_000_000).collect(), utc: true });
    check_data(&arrays[4].data, &text(&["a", "bc", "a", "bc", "a", "bc"]));
    let arrays = read_npz(&seed("npz", "matrix.npz"), &caps()).unwrap();
    check_data(&arrays[0].data, &Data::F64((0..12).map(f64::from).collect()));
    check_data(&arrays[1].data, &Data::F64((0..6).map(f64::from).collect()));
    for version in ["v1.npy", "v2.npy", "v3.npy"] {
        let array = read_npy(&seed("npz", version), &caps()).unwrap();
        check_data(&array.data, &Data::F64((0..6).map(|x| f64::from(x) * 1.5).collect()));
    }
    assert_eq!(read_npy(&seed("npz", "scalar.npy"), &caps()).unwrap().shape, [0usize; 0]);
    assert_eq!(read_npy(&seed("npz", "empty.npy"), &caps()).unwrap().shape, [0, 5]);
}

#[test]
fn records_are_split_by_field() {
    let arrays = read_npz(&seed("npz", "records.npy"), &caps()).unwrap();
    let names: Vec<&str> = arrays.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["records.time", "records.close", "records.name"]);
    check_data(&arrays[1].data, &Data::F64(vec![2.5, 3.5]));
    check_data(&arrays[2].data, &text(&["x", "y"]));
    assert_eq!(read_npz(&seed("npz", "aligned.npy"), &caps()).unwrap().len(), 2);
    check_error(read_npy(&seed("npz", "records.npy"), &caps()).unwrap_err(), "structured array");
}
