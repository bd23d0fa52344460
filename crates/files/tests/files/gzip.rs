//! Gzip around anything: undone on the way, damage told.

use std::io::{Read, Write};

use files::{Caps, Source};

use crate::{bytes, caps};

fn gz(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn read(source: &Source) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    source.reader().unwrap().read_to_end(&mut all).map_err(|e| e.to_string())?;
    Ok(all)
}

#[track_caller]
fn check(file: Vec<u8>, want: Result<&[u8], &str>) {
    let source = bytes("a.csv.gz", &file);
    let got = read(&source);
    match want {
        Ok(want) => {
            assert_eq!(got.as_deref(), Ok(want));
            assert_eq!(source.bytes(&caps()).unwrap(), want);
            assert_eq!(source.head(4).unwrap(), &want[..want.len().min(4)]);
        }
        Err(says) => {
            let got = got.unwrap_err();
            assert!(got.contains(says), "{got}");
            let error = source.bytes(&caps()).unwrap_err();
            assert!(error.message.contains(says) && error.file.is_some(), "{error}");
        }
    }
}

#[test]
fn members_padding_and_damage() {
    let a = gz(b"time,open\n");
    check(a.clone(), Ok(b"time,open\n"));
    check([a.clone(), gz(b""), gz(b"1,2\n")].concat(), Ok(b"time,open\n1,2\n"));
    check([a.clone(), vec![0; 1 << 17]].concat(), Ok(b"time,open\n"));
    check([a.clone(), b"garbage".to_vec()].concat(), Err("other bytes follow"));
    check([a.clone(), vec![0; 9], b"x".to_vec()].concat(), Err("other bytes follow"));
    check(a[..a.len() - 3].to_vec(), Err("too early"));
    check(a[..12].to_vec(), Err("too early"));
    let mut flipped = a.clone();
    let crc = flipped.len() - 8;
    flipped[crc] ^= 1;
    check(flipped, Err("damaged gzip"));
}

#[test]
fn plain_bytes_pass() {
    check(b"\x1f\x8b".to_vec(), Ok(b"\x1f\x8b"));
    check(Vec::new(), Ok(b""));
    assert!(!bytes("a", b"x").is_gzip().unwrap() && bytes("a", gz(b"x")).is_gzip().unwrap());
}

#[test]
fn bombs_are_refused() {
    let bomb = bytes("bomb.gz", gz(&vec![0; 80 << 20]));
    assert!(read(&bomb).err().is_some_and(|e| e.contains("bomb")));
    let small = Caps { inflated: 1000, ..caps() };
    assert!(bytes("a.gz", gz(&[0; 1001])).bytes(&small).unwrap_err().message.contains("limit of 1,000 bytes"));
    assert_eq!(bytes("a.gz", gz(&[0; 1000])).bytes(&small).unwrap().len(), 1000);
}

#[test]
fn folders_and_missing_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Source::open(folder.path()).unwrap_err().message.contains("folder"));
    let error = Source::open(&folder.path().join("none.csv")).unwrap_err();
    assert_eq!(error.remedy.as_deref(), Some("check the path"));
}

#[test]
fn bombs_are_bounded_in_memory() {
    // Members of 8 MiB at about 110:1, which is below what looks like a bomb; together more than memory should hold.
    let mut random = random::SplitMix::new(1);
    let mut block = vec![0; 8 << 20];
    block[..64 << 10].iter_mut().for_each(|b| *b = random.below(256) as u8);
    let bomb = gz(&block).repeat(65);
    assert!(bomb.len() as u64 * 150 > 65 * block.len() as u64);
    let error = bytes("a.npz", bomb).bytes(&caps()).unwrap_err();
    assert!(error.to_string().contains("more than the limit of 512 MiB"), "{error}");
}
