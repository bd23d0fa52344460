//! Damaged, swapped, hostile and newer generations.

use std::fs;
use std::path::{Path, PathBuf};

use files::Kind;
use proptest::prelude::*;

use super::super::manifest::{Fault, MAX_PARTS, Manifest, tail};
use super::super::{About, Store, newest};
use super::{about, generations, save, whole};

const FILES: [&str; 5] = ["MANIFEST", "weights", "optimiser", "empty", "list.json"];

/// Three generations, all kept.
fn three() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("opens").keep(3);
    for step in 1..=3 {
        save(&mut store, step).expect("saved");
    }
    folder
}

fn place(folder: &Path, generation: u64, file: &str) -> PathBuf {
    folder.join(format!("generations/{generation:06}/{file}"))
}

/// One way to spoil a file of the newest generation; false where it would leave the file as it was.
fn spoil(folder: &Path, file: &str, kind: u8, at: usize, bit: u8) -> bool {
    let path = place(folder, 3, file);
    let mut bytes = fs::read(&path).expect("a file");
    match kind {
        0 if bytes.is_empty() => return false,
        0 => {
            let at = at % bytes.len();
            bytes[at] ^= 1 << (bit % 8);
        }
        1 if bytes.is_empty() => return false,
        1 => bytes.truncate(at % bytes.len()),
        2 => bytes.push(bit),
        3 if bytes.is_empty() => return false,
        3 => bytes.clear(),
        4 => {
            fs::remove_file(&path).expect("removed");
            return true;
        }
        // The same file of the generation before.
        5 => {
            let before = fs::read(place(folder, 2, file)).expect("a file");
            if before == bytes {
                return false;
            }
            bytes = before;
        }
        // Another file of this generation.
        6 => {
            let other = FILES[at % FILES.len()];
            if other == file {
                return false;
            }
            bytes = fs::read(place(folder, 3, other)).expect("a file");
        }
        _ => {
            fs::remove_file(&path).expect("removed");
            fs::create_dir(&path).expect("made");
            return true;
        }
    }
    fs::write(&path, bytes).expect("written");
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_files_are_detected_and_the_previous_generation_is_used(
        file in 0..FILES.len(), kind in 0u8..8, at in any::<u16>(), bit in any::<u8>()
    ) {
        static WHOLE: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
        let folder = tempfile::tempdir().expect("a folder");
        for generation in 1..=3 {
            fs::create_dir_all(place(folder.path(), generation, "")).expect("made");
            for file in FILES {
                let from = place(WHOLE.get_or_init(three).path(), generation, file);
                fs::copy(from, place(folder.path(), generation, file)).expect("copied");
            }
        }
        prop_assume!(spoil(folder.path(), FILES[file], kind, at as usize, bit));
        let found = newest(folder.path()).expect("one is whole").expect("there");
        prop_assert_eq!(found.number, 2);
        whole(&found);
        prop_assert_eq!(found.passed.len(), 1);
        prop_assert!(found.passed[0].contains("000003"), "{}", found.passed[0]);
        // Where a manifest is gone it is half a generation; else it stays until two newer ones are whole.
        let mut store = Store::open(folder.path()).expect("opens");
        save(&mut store, 4).expect("saved");
        let found = store.newest().expect("whole").expect("there");
        prop_assert_eq!((found.about.step, found.passed.len()), (4, 0));
        prop_assert!(generations(folder.path()).contains(&"000002".to_string()), "the second whole one is kept");
        prop_assert!(!generations(folder.path()).contains(&"000001".to_string()));
    }

    #[test]
    fn no_bytes_make_the_manifest_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), sign in any::<bool>()) {
        if sign {
            let tail = tail(&bytes);
            bytes.extend(tail.as_bytes());
        }
        prop_assert!(Manifest::parse(&bytes).is_err());
    }
}

#[test]
fn swapped_generations_are_noticed() {
    let folder = three();
    let (two, three) = (place(folder.path(), 2, ""), place(folder.path(), 3, ""));
    let aside = folder.path().join("aside");
    for (from, to) in [(&two, &aside), (&three, &two), (&aside, &three)] {
        fs::rename(from, to).expect("renamed");
    }
    let found = newest(folder.path()).expect("one is whole").expect("there");
    assert_eq!((found.number, found.passed.len()), (1, 2));
    assert!(found.passed[0].contains("that of generation 000002"), "{:?}", found.passed);
}

#[test]
fn without_a_whole_generation_the_error_names_them_all() {
    let folder = three();
    (1..=3).for_each(|n| fs::write(place(folder.path(), n, "weights"), b"").expect("written"));
    let error = newest(folder.path()).expect_err("none is whole");
    assert_eq!(error.kind, Kind::State);
    for word in ["000001", "000002", "000003", "weights has 0 bytes"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[test]
fn a_generation_that_changes_after_it_was_found_is_refused() {
    let folder = three();
    let found = newest(folder.path()).expect("whole").expect("there");
    spoil(folder.path(), "weights", 0, 5, 5);
    assert_eq!(found.read("weights").expect_err("changed").kind, Kind::State);
    found.read("optimiser").expect("as it was");
    fs::remove_dir_all(folder.path().join("generations")).expect("removed");
    assert!(found.read("optimiser").is_err());
}

/// A manifest as a hostile or newer program might write it: our ending, any beginning.
fn signed(body: &str) -> Vec<u8> {
    let mut text = body.as_bytes().to_vec();
    text.extend(tail(body.as_bytes()).as_bytes());
    text
}

fn head(parts: &str) -> String {
    let about = r#"{"net":"","data":"","config":"","step":0,"epoch":0}"#;
    format!(r#"{{"format":1,"program":"","generation":3,"about":{about},"parts":[{parts}]"#)
}

#[test]
fn hostile_manifests_are_passed_over() {
    let part = |name: &str, length: &str| format!(r#"{{"name":"{name}","length":{length},"xxh3":"00"}}"#);
    let many: Vec<String> = (0..100_000).map(|i| part(&format!("p{i}"), "1")).collect();
    let some: Vec<String> = (0..MAX_PARTS + 1).map(|i| part(&format!("p{i}"), "1")).collect();
    let deep = format!(r#"{{"format":1,"about":{}1{}"#, "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        head(&part("../../weights", "1")),
        head(&part("a/b", "1")),
        head(&part("/etc/passwd", "1")),
        head(&part("C:\\\\x", "1")),
        head(&part("", "1")),
        head(&part(".hidden", "1")),
        head(&part("Manifest", "1")),
        head(&part("weights", "18446744073709551615")),
        head(&part("weights", "10737418240")),
        head(&part("weights", "1e300")),
        head(&part("weights", "-1")),
        head(&[part("weights", "3003"), part("Weights", "3003")].join(",")),
        head(&part(&"w".repeat(65), "1")),
        head(&some.join(",")),
        head(&many.join(",")),
        head("").replace("\"generation\":3", "\"generation\":1"),
        head("").replace("\"format\":1", "\"format\":\"1\""),
        head("").replace("\"format\":1", "\"format\":0"),
        deep,
        "{".to_string(),
        String::new(),
    ];
    for body in bodies {
        let folder = three();
        fs::write(place(folder.path(), 3, "MANIFEST"), signed(&body)).expect("written");
        let found = newest(folder.path()).expect("one is whole").expect("there");
        let shown: String = body.chars().take(80).collect();
        assert_eq!((found.number, found.passed.len()), (2, 1), "{shown}");
        assert!(found.passed[0].len() < 400, "{}", found.passed[0]);
    }
    let folder = three();
    fs::write(place(folder.path(), 3, "MANIFEST"), vec![b' '; 5 << 20]).expect("written");
    assert_eq!(newest(folder.path()).expect("one is whole").expect("there").number, 2);
}

#[test]
fn a_newer_format_is_refused_and_not_passed_over() {
    let folder = three();
    let text = signed("{\n  \"format\": 7,\n  \"shape\": \"nobody knows\"");
    fs::write(place(folder.path(), 3, "MANIFEST"), text).expect("written");
    let error = newest(folder.path()).expect_err("newer");
    assert_eq!(error.kind, Kind::State);
    assert!(error.message.contains("format 7") && error.remedy.is_some(), "{error}");
    // One that only looks newer because a bit fell over is damaged.
    let text = fs::read_to_string(place(folder.path(), 2, "MANIFEST")).expect("text");
    fs::write(place(folder.path(), 3, "MANIFEST"), text.replace("\"format\": 1", "\"format\": 3")).expect("written");
    assert_eq!(newest(folder.path()).expect("one is whole").expect("there").number, 2);
}

/// The file as format 1 writes it, to the byte: what is on disks today must be readable tomorrow.
const GOLDEN: &str = r#"{
  "format": 1,
  "program": "0.1.0",
  "generation": 12,
  "about": {
    "net": "12 > 3",
    "data": "d1",
    "config": "c1",
    "step": 40,
    "epoch": 4,
    "more": {
      "best": 0.25
    }
  },
  "parts": [
    {
      "name": "weights",
      "length": 3,
      "xxh3": "06b05ab6733a618578af5f94892f3950"
    }
  ],
  "xxh3": "aa80f8e31a03b735c3ff4b312712a695"
}
"#;

#[test]
fn the_manifest_format_is_stable() {
    let mut about = about(40);
    about.more.insert("best".into(), 0.25.into());
    let mut manifest = Manifest::of(12, &about, &[("weights", b"abc")]).expect("plain names");
    manifest.program = "0.1.0".into();
    let text = String::from_utf8(manifest.bytes().expect("short")).expect("text");
    assert_eq!(text, GOLDEN);
    assert_eq!(Manifest::parse(text.as_bytes()), Ok(manifest));
    assert!(matches!(Manifest::parse(&text.as_bytes()[1..]), Err(Fault::Damaged(_))));
}

#[test]
fn names_that_could_leave_the_folder_are_not_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("opens");
    save(&mut store, 1).expect("saved");
    for name in ["", "../x", "a/b", "a\\b", "MANIFEST", "manifest.tmp", ".x", "ü", "a b"] {
        let error = store.save(&About::default(), &[(name, b"x")]).expect_err(name);
        assert_eq!(error.kind, Kind::State);
    }
    assert!(store.save(&About::default(), &[("a", b"x"), ("A", b"x")]).is_err());
    assert_eq!(generations(folder.path()), ["000001"]);
}
