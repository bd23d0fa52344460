//! Readers and writers, from outside: one module per format, and the fuzz corpora replayed and mutated.

mod arrays;
mod columnar;
mod gzip;
mod hostile;
mod json;
mod lock;
mod npz;
mod real;
mod replace;
mod sniff;

use std::path::PathBuf;

use files::{Caps, Data, Error, Source};

/// The seeds of the fuzzers.
fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn seed(target: &str, name: &str) -> Source {
    Source::open(&corpus(target).join(name)).unwrap()
}

fn bytes(name: &str, content: impl AsRef<[u8]>) -> Source {
    Source::from_bytes(name, content.as_ref().to_vec())
}

fn caps() -> Caps {
    Caps::default()
}

/// An error must be about the input, name the file, say this, and offer a remedy or a place.
#[track_caller]
fn check_error(error: Error, says: &str) {
    assert_eq!(error.kind, files::Kind::Input, "{error}");
    assert!(error.file.is_some(), "no file: {error}");
    assert!(error.message.contains(says), "{says:?} is not in {:?}", error.message);
    assert!(error.remedy.is_some() || error.line.is_some(), "no remedy: {error}");
}

/// Equal values; NaN equals NaN.
#[track_caller]
fn check_data(got: &Data, want: &Data) {
    match (got, want) {
        (Data::F64(a), Data::F64(b)) => {
            let same = a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()));
            assert!(same, "{a:?} is not {b:?}");
        }
        _ => assert_eq!(got, want),
    }
}

fn text(values: &[&str]) -> Data {
    let mut text = files::Text::default();
    values.iter().for_each(|v| text.push(v));
    Data::Text(text)
}
