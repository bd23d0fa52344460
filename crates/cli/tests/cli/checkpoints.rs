//! Checkpoints as a user meets them: which there are, the weights beside them, a bit that fell over, a disk that is
//! full.

use super::train::{ROW, market, small};
use super::{Place, code, text, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn bytes(place: &Place, path: &str) -> Vec<u8> {
    std::fs::read(place.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Generations that have a manifest, in order.
fn generations(place: &Place, run: &str) -> Vec<String> {
    let folder = place.path().join(run).join("checkpoints/generations");
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let whole = found.filter(|entry| entry.path().join("MANIFEST").exists());
    let mut names: Vec<String> = whole.map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

const MEMBERS: [&str; 4] = ["fold-1-seed-1", "fold-1-seed-2", "fold-2-seed-1", "fold-2-seed-2"];

#[test]
fn best_and_last_weights_are_saved() {
    let place = Place::new();
    market(&place, true, "4000");
    let mut args = small(ROW, "run", "8");
    args.extend(["--set", "train.checkpoint=2"]);
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    for (member, row) in MEMBERS.iter().zip(run["members"].as_array().unwrap()) {
        let best = bytes(&place, &format!("run/checkpoints/best/{member}.safetensors"));
        assert_eq!(best, bytes(&place, &format!("run/model/{member}.safetensors")), "{member}");
        // Where the last epoch was the best, the two are one.
        let last = bytes(&place, &format!("run/checkpoints/last/{member}.safetensors"));
        assert_eq!(last == best, row["best_epoch"] == row["epochs"], "{row}");
    }
    let (shown, exit) = place.json(&["runs", "show", "run"]);
    let rows = shown["checkpoints"].as_array().unwrap();
    assert_eq!((exit, rows.len()), (0, 2), "{shown}");
    assert_eq!(
        (&rows[0]["last"], &rows[0]["kind"], &rows[0]["epoch"]),
        (&true.into(), &"end".into(), &8.into()),
        "{shown}"
    );
    assert_eq!((&rows[1]["last"], &rows[1]["kind"]), (&Value::from(false), &Value::from("periodic")), "{shown}");
    assert_eq!(rows[0]["best_value"], shown["run"]["best_value"], "{shown}");
    assert_eq!(
        shown["weights"].as_array().unwrap().iter().map(|w| w["members"].as_u64().unwrap()).collect::<Vec<_>>(),
        [4, 4]
    );
    let words = text(&place.run(&["runs", "show", "run"]).stdout);
    assert!(words.contains("end, latest") && words.contains("best weights of 4 members"), "{words}");
    // What is damaged is shown as such.
    let newest = generations(&place, "run").pop().unwrap();
    std::fs::write(place.path().join(format!("run/checkpoints/generations/{newest}/best.bin")), b"").unwrap();
    let words = text(&place.run(&["runs", "show", "run"]).stdout);
    assert!(words.contains("unusable: best.bin has 0 bytes") && words.contains("periodic, latest"), "{words}");
}

#[test]
fn run_killed_before_its_last_log_line_finishes_on_resume() {
    let place = Place::new();
    market(&place, true, "4000");
    let (run, exit) = place.json(&small(ROW, "run", "2"));
    assert_eq!(exit, 0, "{run}");
    // As a kill between the ledger and `run.json` leaves it: found by `cargo xtask soak kills`.
    let path = place.path().join("run/run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"state\": \"finished\"", "\"state\": \"running\"")).unwrap();
    let before = bytes(&place, "run/predictions.parquet");
    let (again, exit) = place.json(&["runs", "resume", "run"]);
    assert_eq!((exit, &again["judged"]), (0, &run["judged"]), "{again}");
    assert_eq!(bytes(&place, "run/predictions.parquet"), before);
    let (listed, _) = place.json(&["runs", "list", "."]);
    assert_eq!(listed["runs"][0]["state"], "finished", "{listed}");
}

#[test]
fn corrupted_checkpoint_falls_back_to_the_previous_with_the_same_result() {
    let place = Place::new();
    market(&place, true, "4000");
    let args = |out: &'static str| {
        let mut args = small(ROW, out, "30");
        args.extend(["--patience", "30", "--set", "train.checkpoint=1"]);
        args
    };
    let whole = place.run(&args("whole"));
    assert_eq!(code(&whole), 0, "{}", text(&whole.stderr));
    // Two generations are there, and the run is cut in the middle.
    place.abort(&args("cut"), "checkpoints/LATEST#2");
    assert_eq!(generations(&place, "cut").len(), 2);
    let folder = place.path().join("cut/checkpoints/generations");
    let newest = generations(&place, "cut").pop().unwrap();
    let part = folder.join(&newest).join("members.bin");
    let mut damaged = std::fs::read(&part).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    std::fs::write(&part, damaged).unwrap();
    let resumed = place.run(&["runs", "resume", "cut"]);
    assert_eq!(code(&resumed), 0, "{}", text(&resumed.stderr));
    let said = text(&resumed.stderr);
    assert!(said.contains(&format!("checkpoint {newest} was skipped")) && said.contains("members.bin"), "{said}");
    for member in MEMBERS {
        for folder in ["model", "checkpoints/best", "checkpoints/last"] {
            let file = format!("{folder}/{member}.safetensors");
            assert_eq!(bytes(&place, &format!("cut/{file}")), bytes(&place, &format!("whole/{file}")), "{file}");
        }
    }
    assert_eq!(bytes(&place, "cut/predictions.parquet"), bytes(&place, "whole/predictions.parquet"));
}

/// A small disk of its own, where the system lets us have one (as root on Linux).
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Small<'a>> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(at).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(Small(at))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn full_disk_does_not_stop_training_or_change_the_result() {
    let place = Place::new();
    market(&place, true, "4000");
    let args = |out: &'static str| {
        let mut args = small(ROW, out, "60");
        args.extend(["--patience", "60", "--set", "train.checkpoint=1"]);
        args
    };
    let whole = place.run(&args("whole"));
    assert_eq!(code(&whole), 0, "{}", text(&whole.stderr));
    let disk = place.path().join("small");
    std::fs::create_dir(&disk).unwrap();
    // Without a small disk the same is done on a large one, where nothing fails.
    let small_disk = Small::mount(&disk, "size=24m");
    let mut child = place.command(&args("small/run")).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a generation", &mut child, || !generations(&place, "small/run").is_empty());
    // Full for a while: no checkpoint can be written; then there is space again.
    if small_disk.is_some() {
        let filler = disk.join("filler");
        let _ = std::fs::write(&filler, vec![1; 24 << 20]);
        std::thread::sleep(Duration::from_millis(400));
        std::fs::remove_file(&filler).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for member in MEMBERS {
        let file = format!("model/{member}.safetensors");
        assert_eq!(bytes(&place, &format!("small/run/{file}")), bytes(&place, &format!("whole/{file}")), "{file}");
    }
    assert_eq!(bytes(&place, "small/run/predictions.parquet"), bytes(&place, "whole/predictions.parquet"));
    drop(small_disk);
}
