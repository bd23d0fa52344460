//! What a file is, by its content.

use files::{Caps, Container};

use crate::{bytes, check_error, corpus, seed};

#[test]
fn known_containers() {
    let check = |content: &[u8], want| assert_eq!(bytes("x.csv", content).container().unwrap(), want);
    check(b"time,open\n1,2\n", Container::Text);
    check(b"", Container::Text);
    check(b"caf\xe9;1\n", Container::Text);
    check(b"\xef\xbb\xbf \n[[1]]", Container::Json);
    check(b"{\"a\":1}", Container::Json);
    check(b"ARROW1\0\0", Container::Feather);
    check(b"FEA1\0\0", Container::Unknown);
    check(b"PAR1", Container::Parquet);
    check(b"\x93NUMPY\x01\0", Container::Npy);
    check(b"a,b\n1,\0\n", Container::Unknown);
    check(&(0..=255).collect::<Vec<u8>>(), Container::Unknown);
    for (target, name, want) in [
        ("zip", "plain.zip", Container::Zip),
        ("zip", "zip64.zip", Container::Zip),
        ("zip", "empty.zip", Container::Zip),
        ("npz", "plain.npz", Container::Npz),
        ("npz", "v2.npy", Container::Npy),
        ("parquet", "zstd.parquet", Container::Parquet),
        ("feather", "lz4.feather", Container::Feather),
        ("csv", "gz.csv.gz", Container::Text),
        ("json", "bom.json", Container::Json),
    ] {
        assert_eq!(seed(target, name).container().unwrap(), want, "{name}");
    }
}

#[test]
fn known_and_not_read() {
    let check = |content: &[u8], says: &str| check_error(bytes("x.csv", content).container().unwrap_err(), says);
    check(b"\x80\x04\x95rest", "pickle");
    check(b"\x89HDF\r\n\x1a\n", "HDF5");
    check(b"SQLite format 3\0", "SQLite");
    check(b"\xd0\xcf\x11\xe0", "old Excel");
    check(b"\xff\xfet\0i\0", "UTF-16");
    check(&b"time,open".iter().flat_map(|b| [*b, 0]).collect::<Vec<u8>>(), "UTF-16");
    check(b"\x28\xb5\x2f\xfd", "zstd");
    check(&std::fs::read(corpus("zip").join("xlsx.zip")).unwrap(), "Excel workbook");
    let caps = Caps::default();
    let v1 = files::read_feather(&seed("feather", "version1.feather"), &caps, &mut |_| Ok(())).unwrap_err();
    check_error(v1, "version 1");
}
