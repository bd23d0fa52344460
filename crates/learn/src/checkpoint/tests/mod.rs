//! Checkpoints under every fault we can stage within one process; killed processes and full disks are in
//! `tests/checkpoints.rs`.

mod damage;
mod faults;
mod faulty;
mod writer;

use std::path::Path;

use super::{About, Generation, Store, newest};

/// Parts whose every byte tells the save they belong to.
fn parts(step: u64) -> Vec<(&'static str, Vec<u8>)> {
    let fill = |length: u64, salt: u64| (0..length).map(|i| (i * 31 + step * 7 + salt) as u8).collect();
    vec![
        ("weights", fill(3000 + step, 1)),
        ("optimiser", fill(500, 2)),
        ("empty", Vec::new()),
        ("list.json", fill(9, 3)),
    ]
}

fn about(step: u64) -> About {
    let (net, data, config) = ("12 > 3".to_string(), "d1".to_string(), "c1".to_string());
    About { net, data, config, step, epoch: step / 10, ..About::default() }
}

fn save(store: &mut Store, step: u64) -> files::Result<u64> {
    let parts = parts(step);
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, bytes)| (*name, &**bytes)).collect();
    store.save(&about(step), &parts)
}

/// Opens as after a restart; the step of the newest generation, which must be of one piece.
fn found(folder: &Path) -> Option<u64> {
    let generation = Store::open(folder).expect("opens").newest().expect("one is whole")?;
    whole(&generation);
    Some(generation.about.step)
}

fn whole(generation: &Generation) {
    let step = generation.about.step;
    assert_eq!(generation.about, about(step));
    for (name, bytes) in parts(step) {
        assert_eq!(generation.read(name).expect("whole"), bytes, "{name} of step {step}");
    }
}

fn generations(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("generations")).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn two_generations_stay_and_the_newest_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("checkpoints");
    assert_eq!(newest(&path).expect("nothing yet"), None);
    let mut store = Store::open(&path).expect("opens");
    assert_eq!(store.newest().expect("empty"), None);
    for step in 1..=5 {
        assert_eq!(save(&mut store, step).expect("saved"), step);
        let generation = store.newest().expect("whole").expect("there");
        assert_eq!((generation.number, generation.about.step, generation.passed.len()), (step, step, 0));
        whole(&generation);
    }
    assert_eq!(generations(&path), ["000004", "000005"]);
    assert_eq!(std::fs::read_to_string(path.join("LATEST")).expect("a hint"), "000005\n");
    let mut store = Store::open(&path).expect("opens").keep(3);
    assert_eq!(save(&mut store, 9).expect("saved"), 6);
    assert_eq!(generations(&path), ["000004", "000005", "000006"]);
    let again = store.newest().expect("whole").expect("there");
    assert_eq!(again.parts().map(|p| p.0).collect::<Vec<_>>(), ["weights", "optimiser", "empty", "list.json"]);
    assert_eq!(again.read("nothing").expect_err("no such part").kind, files::Kind::State);
}

#[test]
fn partial_generations_are_swept_and_foreign_files_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let mut store = Store::open(path).expect("opens");
    save(&mut store, 1).expect("saved");
    let place = path.join("generations");
    for half in ["000002", "000007"] {
        std::fs::create_dir(place.join(half)).expect("made");
        std::fs::write(place.join(half).join("weights"), b"half").expect("written");
    }
    std::fs::write(place.join("000007/MANIFEST.tmp"), b"{").expect("written");
    for stranger in ["7", "notes", "999999999999999999999", "-00001", "+00002"] {
        std::fs::create_dir(place.join(stranger)).expect("made");
    }
    // A reader sweeps nothing.
    let seen = newest(path).expect("whole").expect("there");
    assert_eq!((seen.number, seen.passed.len()), (1, 2));
    assert!(seen.passed[0].contains("000007") && seen.passed[0].contains("no MANIFEST"), "{:?}", seen.passed);
    assert_eq!(generations(path).len(), 8);
    let store = Store::open(path).expect("opens");
    assert_eq!(generations(path), ["+00002", "-00001", "000001", "7", "999999999999999999999", "notes"]);
    assert!(store.newest().expect("whole").expect("there").passed.is_empty());
}

#[test]
fn differing_settings_are_named_with_both_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("opens");
    save(&mut store, 1).expect("saved");
    let generation = store.newest().expect("whole").expect("there");
    generation.expect(&about(77)).expect("step and epoch may differ");
    let other = About { net: "12 > 5".into(), config: "c2".into(), ..about(1) };
    let error = generation.expect(&other).expect_err("another net");
    assert_eq!(error.kind, files::Kind::State);
    for word in ["12 > 3", "12 > 5", "c1", "c2"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
    assert!(!error.message.contains("d1"), "{}", error.message);
    let error = generation.expect(&About { data: "d2".into(), ..about(1) }).expect_err("other data");
    assert!(error.message.contains("`d1`") && error.message.contains("`d2`") && error.remedy.is_some());
}

#[test]
fn another_version_or_device_is_named_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let on = |device: &str, precision: &str, config: &str| About {
        device: device.into(),
        precision: precision.into(),
        config: config.into(),
        ..about(1)
    };
    let mut store = Store::open(folder.path()).expect("opens");
    store.save(&on("NVIDIA H200", "bf16", "c1"), &[]).expect("saved");
    let mut generation = store.newest().expect("whole").expect("there");
    generation.expect(&on("NVIDIA H200", "bf16", "c1")).expect("the same");
    // The card is not seen: the precision is another, and with it the hash of the settings.
    let error = generation.expect(&on("cpu", "f32", "c2")).expect_err("no card");
    for word in ["`NVIDIA H200`", "`cpu`", "`bf16`", "`f32`"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
    assert!(!error.message.contains("c1"), "{}", error.message);
    let error = generation.expect(&on("NVIDIA H200", "bf16", "c2")).expect_err("other settings");
    assert!(error.message.contains("its settings is `c1`"), "{}", error.message);
    // What an older program did not write is not compared.
    (generation.about.device, generation.about.precision) = Default::default();
    generation.expect(&on("cpu", "f32", "c1")).expect("nothing differs that is known");
    generation.program = "0.0.9".into();
    let error = generation.expect(&on("cpu", "f32", "c2")).expect_err("another version");
    assert!(error.message.contains("version 0.0.9") && !error.message.contains("settings"), "{}", error.message);
}
