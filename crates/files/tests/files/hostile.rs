//! Hostile files: each is refused for its own reason; and none of thousands of mutations panics.

use std::fs;

use files::{Archive, fuzz, read_feather, read_json, read_npz, read_parquet};
use random::SplitMix;

use crate::{caps, check_error, corpus, seed};

#[test]
fn zips() {
    for (name, says) in [
        ("climb", "not a plain relative path"),
        ("absolute", "not a plain relative path"),
        ("drive", "not a plain relative path"),
        ("backslash", "not a plain relative path"),
        ("nul", "not a plain relative path"),
        ("symlink", "symbolic link"),
        ("twice", "two members"),
        ("encrypted", "encrypted"),
        ("method", "method 12"),
        ("size_too_small", "declares 10"),
        ("size_too_large", "declares 1048576"),
        ("size_huge", "bomb"),
        ("crc", "checksum"),
        ("two_names", "disagree"),
        ("overlap", "overlap"),
        ("count", "ends too early"),
        ("glued", "missing at the end"),
        ("cut", "missing at the end"),
        ("records_differ", "records differ"),
        ("bomb", "bomb"),
        ("bomb_liar", "declares 1048576"),
    ] {
        let result = Archive::open(&seed("zip", &format!("{name}.zip")), &caps()).and_then(|a| a.source(0).map(|_| ()));
        let error = result.err().unwrap_or_else(|| panic!("{name} was not refused"));
        check_error(error, says);
    }
    let few = files::Caps { members: 1, ..caps() };
    check_error(Archive::open(&seed("zip", "plain.zip"), &few).err().unwrap(), "limit is 1");
}

#[test]
fn honest_zips() {
    let names = |name: &str| {
        let archive = Archive::open(&seed("zip", name), &caps()).unwrap();
        let sources: Vec<_> = (0..archive.members().len()).map(|i| archive.source(i).unwrap()).collect();
        sources.iter().for_each(|s| assert!(!s.bytes(&caps()).unwrap().is_empty()));
        let paths: Vec<_> = sources.iter().map(|s| s.path().to_string_lossy().replace('\\', "/")).collect();
        paths.iter().map(|p| p[p.find(name).unwrap()..].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("plain.zip"), ["plain.zip/a.csv", "plain.zip/dir/b.csv"]);
    assert_eq!(names("zip64.zip"), ["zip64.zip/a.csv"]);
    // As Python writes what is larger than 2 GiB.
    assert_eq!(names("two_records.zip"), ["two_records.zip/a.csv", "two_records.zip/dir/b.csv"]);
    assert_eq!(names("macos.zip"), ["macos.zip/a.csv"]);
    assert!(names("empty.zip").is_empty());
}

/// Hostile arrays and what their errors say.
pub(crate) const ARRAYS: &[(&str, &str)] = &[
    ("object.npy", "pickles"),
    ("object.npz", "pickles"),
    ("complex.npy", "dtype <c16"),
    ("month.npy", "dtype <M8[M]"),
    ("huge_shape.npy", "the limit is"),
    ("overflow_shape.npy", "too large"),
    ("no_bytes.npy", "no bytes"),
    ("wide.npy", "dtype <U400000000"),
    ("many_axes.npy", "header"),
    ("subarray.npy", "nested"),
    ("deep.npy", "header"),
    ("header_len.npy", "limit"),
    ("far_date.npy", "outside the years"),
    ("cut.npy", "bytes follow"),
    ("long.npy", "bytes follow"),
    ("climb.npz", "relative path"),
    ("other.npz", "not a numpy array"),
];

#[test]
fn arrays() {
    for (name, says) in ARRAYS {
        let error = read_npz(&seed("npz", name), &caps()).err().unwrap_or_else(|| panic!("{name} was not refused"));
        check_error(error, says);
    }
}

#[test]
fn columnar() {
    for (name, says) in [
        ("cut", "damaged"),
        ("cut_footer", "damaged"),
        ("footer_len", "damaged"),
        ("rows", "limit is"),
        ("page_size", "limit of 1.0 GiB"),
        ("page_size_hidden", "limit of 1.0 GiB"),
    ] {
        let result = read_parquet(&seed("parquet", &format!("{name}.parquet")), &caps(), None, &mut |_| Ok(()));
        check_error(result.err().unwrap_or_else(|| panic!("{name} was not refused")), says);
    }
    for (name, says) in [
        ("cut", "end is missing"),
        ("no_magic", "end is missing"),
        ("footer_len", "footer claims"),
        ("declares_terabytes", "limit of 2.0 GiB"),
    ] {
        let result = read_feather(&seed("feather", &format!("{name}.feather")), &caps(), &mut |_| Ok(()));
        check_error(result.err().unwrap_or_else(|| panic!("{name} was not refused")), says);
    }
}

#[test]
fn documents() {
    for name in ["ragged", "mixed", "twice", "deep", "deep_objects", "cut", "nan", "range", "latin"] {
        let error = read_json(&seed("json", &format!("{name}.json")), &caps()).err();
        check_error(error.unwrap_or_else(|| panic!("{name} was not refused")), "");
    }
}

/// Runs every seed as it is, cut at many places, and with bytes changed.
fn check_corpus(target: &str, run: fn(&[u8])) {
    let mut random = SplitMix::new(7);
    // A longer run by hand: FULLBORE_MUTATIONS=50.
    let scale: usize = std::env::var("FULLBORE_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut seeds: Vec<_> = fs::read_dir(corpus(target)).unwrap().map(|e| e.unwrap().path()).collect();
    seeds.sort();
    assert!(seeds.len() > 5, "the corpus of {target} is missing");
    for path in seeds {
        let seed = fs::read(&path).unwrap();
        run(&seed);
        // The large ones are bombs and long lines: slow, and their point is made.
        let cases = scale * if seed.len() > 1 << 16 { 2 } else { 30 };
        for _ in 0..cases {
            run(&seed[..random.below(seed.len())]);
        }
        let mut mutated = seed.clone();
        for _ in 0..cases * 2 {
            mutated.copy_from_slice(&seed);
            for _ in 0..=random.below(4) {
                let at = random.below(mutated.len());
                let Some(byte) = mutated.get_mut(at) else { continue };
                // Single bits, and the values that lengths are forged with.
                *byte = match random.below(4) {
                    0 => 0xff,
                    1 => 0x7f,
                    2 => 0,
                    _ => *byte ^ 1 << random.below(8),
                };
            }
            run(&mutated);
        }
    }
}

#[test]
fn mutated_csv() {
    check_corpus("csv", fuzz::csv);
}

#[test]
fn mutated_json() {
    check_corpus("json", fuzz::json);
}

#[test]
fn mutated_npz() {
    check_corpus("npz", fuzz::npz);
}

#[test]
fn mutated_zip() {
    check_corpus("zip", fuzz::zip);
}

#[test]
fn mutated_feather() {
    check_corpus("feather", fuzz::feather);
}

#[test]
fn mutated_parquet() {
    check_corpus("parquet", fuzz::parquet);
}

#[test]
fn too_many_columns_are_the_reason() {
    let row = |cell: &str| vec![cell; 10_000].join(",");
    let csv = format!("{}\n{}\n{}\n", row("a"), row("1.5"), row("2.5"));
    let source = files::Source::from_bytes("wide.csv", csv.into_bytes());
    let error = files::CsvHead::sniff(&source, &files::Caps::default()).expect_err("it is too wide");
    check_error(error, "it has 10000 columns, the limit is 4096");
}
