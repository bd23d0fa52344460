//! Golden bytes, known checksums, and a reader of our own that takes files apart again.

use super::*;
use std::fs;

/// Fields of a message: number, and the value as bytes (numbers as eight of them).
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, varint(&mut bytes).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("kind {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        bytes = rest;
        found.push((key >> 3, value.to_vec()));
    }
    found
}

fn field(bytes: &[u8], number: u64) -> Option<Vec<u8>> {
    fields(bytes).into_iter().find(|f| f.0 == number).map(|f| f.1)
}

/// The events of a file, each record's checksums compared.
fn events(path: &Path) -> Vec<Vec<u8>> {
    let all = fs::read(path).expect("a file");
    let (mut bytes, mut found) = (&all[..], Vec::new());
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
        let check = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        assert_eq!(check(8), record::masked(&bytes[..8]));
        assert_eq!(check(12 + length), record::masked(&bytes[12..12 + length]));
        found.push(bytes[12..12 + length].to_vec());
        bytes = &bytes[16 + length..];
    }
    found
}

#[test]
fn checksums_match_the_standard() {
    // RFC 3720, B.4, and the usual check word.
    assert_eq!(record::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(record::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(record::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(record::crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    assert_eq!(record::crc32c(b""), 0);
}

#[test]
fn an_event_is_these_bytes() {
    let version = Message::event(1.5, 0).text(3, "brain.Event:2");
    assert_eq!(version.bytes(), b"\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0dbrain.Event:2");
    let value = Message::new().text(1, "loss").float(2, 0.5);
    let scalar = Message::event(1.5, 300).message(5, Message::new().message(1, value));
    let expected = b"\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f";
    assert_eq!(scalar.bytes(), expected);
    let record = record::frame(version.bytes());
    assert_eq!(record[..8], 24u64.to_le_bytes());
    assert_eq!(record.len(), 24 + 16);
}

#[test]
fn event_file_round_trips() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = Events::create(&folder.path().join("tensorboard/fold0"), 0).expect("made");
    let name = file.path().file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.starts_with("events.out.tfevents.1") || name.starts_with("events.out.tfevents.2"), "{name}");
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{name}");
    file.text("settings", "`lr` = 3e-4\nü").expect("written");
    file.scalars(7, [("train/loss", 0.25), ("valid/mcc", f64::NAN)]).expect("written");
    file.scalars(1 << 40, [("train/loss", -1e300)]).expect("written");
    let found = events(file.path());
    assert_eq!(found.len(), 4);
    assert_eq!(field(&found[0], 3).expect("a version"), b"brain.Event:2");
    let text = field(&field(&found[1], 5).expect("a summary"), 1).expect("a value");
    assert_eq!(field(&text, 1).expect("a tag"), b"settings/text_summary");
    assert_eq!(field(&field(&text, 8).expect("a tensor"), 8).expect("text"), "`lr` = 3e-4\nü".as_bytes());
    assert_eq!(field(&found[2], 2).expect("a step"), 7u64.to_le_bytes());
    let values = fields(&field(&found[2], 5).expect("a summary"));
    assert_eq!(values.len(), 2);
    assert_eq!(field(&values[0].1, 2).expect("a number"), 0.25f32.to_le_bytes());
    assert_eq!(field(&values[1].1, 1).expect("a tag"), b"valid/mcc");
    assert_eq!(field(&found[3], 2).expect("a step"), (1u64 << 40).to_le_bytes());
}

#[test]
fn a_resumed_run_has_a_second_file_that_starts_behind_the_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Events::create(folder.path(), 0).expect("made");
    let second = Events::create(folder.path(), 40).expect("made");
    assert!(second.path() > first.path(), "read in the order of their names");
    let found = events(second.path());
    assert_eq!(field(&found[1], 2).expect("a step"), 40u64.to_le_bytes());
    assert_eq!(field(&field(&found[1], 7).expect("a session"), 1).expect("a status"), 1u64.to_le_bytes());
}
