//! Logs and events on a disk that is full: an error, nothing torn, and on it goes. This binary starts itself again
//! under a limit.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use report::{Events, Log, log_path, read_log};
use serde_json::{Map, Value};

const FOLDER: &str = "FULLBORE_TEST_FULL";

fn fields(i: u64, words: &str) -> Map<String, Value> {
    [("i".to_string(), Value::from(i)), ("words".to_string(), Value::from(words))].into_iter().collect()
}

/// No file may grow beyond some 64 KiB here: a write stops in the middle of a row, as on a full disk. Nothing in the
/// parent's own run.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let mut log = Log::open(folder).expect("opens");
    let long = "word ".repeat(50);
    let full = (0..10_000).find(|i| log.add_row("row", fields(*i, &long)).is_err()).expect("the file is full");
    assert!(full > 50, "{full}");
    for _ in 0..3 {
        let error = log.add_row("row", fields(full, &"word ".repeat(5000))).expect_err("full");
        assert_eq!(error.kind, files::Kind::Machine, "{error}");
        assert_eq!(read_log(&log_path(folder)).expect("nothing is torn").len() as u64, full);
    }
    let trouble = log.trouble();
    assert!(trouble.len() == 1 && trouble[0].contains("log.jsonl lacks 4 rows"), "{trouble:?}");
    let error = (0..10_000).find_map(|_| log.add_message(&long).err()).expect("full");
    assert_eq!(error.kind, files::Kind::Machine, "{error}");
    let text = std::fs::read_to_string(folder.join("training.log")).expect("text");
    assert!(text.ends_with("word\n"), "cut back to the last whole line");
    let mut events = Events::create(folder, 0).expect("made");
    let many: Vec<String> = (0..50).map(|i| format!("tag/{i}")).collect();
    let error = (0..10_000).find_map(|s| events.scalars(s, many.iter().map(|t| (t.as_str(), 1.0))).err());
    assert_eq!(error.expect("full").kind, files::Kind::Machine);
}

/// Rows that found no room wait, and are written in their order when there is.
#[test]
fn rows_are_written_again_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = Log::open(folder.path()).expect("opens");
    log.add_row("row", fields(1, "one")).expect("written");
    // No file can be opened there meanwhile.
    let (path, aside) = (log_path(folder.path()), folder.path().join("aside"));
    log.retain(folder.path(), |row| row.kind != "row").expect("rewritten");
    std::fs::rename(&path, &aside).expect("moved");
    std::fs::create_dir(&path).expect("in the way");
    for i in 2..5 {
        log.add_row("row", fields(i, "waits")).expect_err("no file");
    }
    assert!(log.trouble()[0].contains("lacks 3 rows"), "{:?}", log.trouble());
    std::fs::remove_dir(&path).expect("removed");
    std::fs::rename(&aside, &path).expect("back");
    log.add_row("row", fields(5, "on time")).expect("written");
    let rows = read_log(&path).expect("rows");
    let all: Vec<u64> = rows.iter().filter_map(|row| row.number("i")).map(|i| i as u64).collect();
    assert_eq!(all, [2, 3, 4, 5]);
    assert!(log.trouble()[0].contains("3 rows came late"), "{:?}", log.trouble());
}

#[test]
fn full_disk_tears_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"trap '' XFSZ; ulimit -f 64; exec "$0" --exact child --nocapture"#;
    let exe = std::env::current_exe().expect("this binary");
    let output =
        Command::new("sh").arg("-c").arg(script).arg(exe).env(FOLDER, folder.path()).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // There is space again.
    let before = read_log(&log_path(folder.path())).expect("rows").len();
    let mut log = Log::open(folder.path()).expect("opens");
    log.add_row("row", fields(1, "again")).expect("written");
    let rows = read_log(&log_path(folder.path())).expect("rows");
    assert_eq!((rows.len(), rows[before].text("words")), (before + 1, Some("again")));
}
