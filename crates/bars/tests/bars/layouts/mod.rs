//! Every layout people bring, each with a small sample made here, through one `check`.
//!
//! What is compared is one line for the file (format and verdict) and one for each series: symbol, timeframe, class,
//! number of bars, first and last bar as `start..end`, then open, high, low, close, volume and extras of the last bar.

mod answers;
mod containers;
mod text;
mod venues;

use crate::make;
use bars::Options;

fn check(name: &str, bytes: &[u8], expected: &str) {
    let got = match bars::read_bytes(name, bytes, &Options::default()) {
        Ok((market, audit)) => make::shown(&market, &audit),
        Err(error) => format!("error {error}"),
    };
    let wanted: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(got, wanted.join("\n"), "{name}:\n{}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
}

/// The same through a folder with these files.
fn check_folder(members: &[(&str, &[u8])], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in members {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let got = match crate::read(folder.path(), &Options::default()) {
        Ok((market, audit)) => make::shown(&market, &audit),
        Err(error) => format!("error {error}"),
    };
    let wanted: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(got, wanted.join("\n"), "{}", members[0].0);
}

/// January days 2024 that are trading days: 2, 3, 4, 5, 8, 9, 10, 11, 12, 16, …
fn day(i: usize) -> String {
    let days = [2, 3, 4, 5, 8, 9, 10, 11, 12, 16, 17, 18, 19, 22, 23, 24, 25, 26, 29, 30, 31];
    format!("2024-01-{:02}", days[i])
}

const HOUR_MS: i64 = 3_600_000;
const JAN_2024_MS: i64 = 1_704_067_200_000;
