//! Logs that are killed at every byte, resumed, and written to a disk that is full.

use super::*;
use std::fs;

fn fields(step: u64) -> Map<String, Value> {
    let pairs = [("step", Value::from(step)), ("loss", Value::from(0.5 / step as f64)), ("name", Value::from("a\nb"))];
    pairs.into_iter().map(|(k, v)| (k.to_string(), v)).collect()
}

fn steps(folder: &Path) -> Vec<u64> {
    read_log(&log_path(folder)).expect("rows").iter().map(|r| r.number("step").expect("a step") as u64).collect()
}

fn three(folder: &Path) -> Log {
    let mut log = Log::open(folder).expect("opens");
    for step in 1..=3 {
        log.add_row("epoch", fields(step)).expect("written");
        log.add_message(&format!("epoch {step}\nof 3")).expect("written");
    }
    log
}

#[test]
fn log_rows_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = three(folder.path());
    let mut odd = fields(4);
    odd.insert("loss".into(), Value::from(f64::NAN));
    log.add_row("odd", odd).expect("written");
    log.sync().expect("synced");
    let rows = read_log(&log_path(folder.path())).expect("rows");
    assert_eq!(rows.len(), 4);
    assert_eq!((rows[0].kind.as_str(), &rows[0].fields), ("epoch", &fields(1)));
    assert!(rows[0].time.starts_with("20") && rows[0].time.ends_with('Z'), "{}", rows[0].time);
    assert_eq!((rows[3].number("loss"), rows[3].text("name")), (None, Some("a\nb")));
    let text = fs::read_to_string(folder.path().join(SENTENCES)).expect("text");
    assert_eq!(text.lines().count(), 3);
    assert!(text.lines().all(|l| l.contains("Z epoch ") && l.ends_with("of 3")), "{text}");
    let mut taken = fields(1);
    taken.insert("kind".into(), Value::from(1));
    assert!(log.add_row("epoch", taken).is_err());
}

#[test]
fn cut_at_any_byte_only_the_torn_row_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(three(folder.path()));
    let whole = fs::read(log_path(folder.path())).expect("rows");
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
    for length in 0..=whole.len() {
        fs::write(log_path(folder.path()), &whole[..length]).expect("written");
        fs::write(folder.path().join(SENTENCES), "one\ntw").expect("written");
        // A row is whole once its last brace is there, with or without the end of the line.
        let full = ends.iter().filter(|end| **end <= length).count();
        let expected: Vec<u64> = (1..=full as u64).collect();
        assert_eq!(steps(folder.path()), expected, "read while it is torn at {length}");
        let mut log = Log::open(folder.path()).expect("opens");
        let kept = fs::read(log_path(folder.path())).expect("rows");
        assert_eq!(kept, whole[..full.checked_sub(1).map_or(0, |i| ends[i] + 1)], "at {length}");
        log.add_row("epoch", fields(9)).expect("written");
        log.add_message("three").expect("written");
        assert_eq!(steps(folder.path()), [expected, vec![9]].concat());
        let text = fs::read_to_string(folder.path().join(SENTENCES)).expect("text");
        assert!(text.starts_with("one\ntw\n") && text.ends_with("three\n"), "{text}");
    }
}

#[test]
fn rows_after_the_checkpoint_are_dropped_on_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(three(folder.path()));
    let path = log_path(folder.path());
    let mut bytes = fs::read(&path).expect("rows");
    let first: Vec<u8> = bytes.iter().copied().take_while(|b| *b != b'\n').collect();
    bytes.splice(0..0, *b"# not a row\n");
    bytes.extend(b"{\"time\":\"torn");
    fs::write(&path, &bytes).expect("written");
    let mut log = Log::open(folder.path()).expect("opens");
    log.retain(folder.path(), |row| row.number("step").is_none_or(|s| s < 2.0)).expect("rewritten");
    let text = fs::read(&path).expect("rows");
    assert_eq!(text, [b"# not a row\n", &*first, b"\n"].concat());
    log.add_row("epoch", fields(2)).expect("written");
    assert_eq!(fs::read_to_string(&path).expect("rows").lines().count(), 3);
    let error = read_log(&path).expect_err("a line that is not a row");
    assert_eq!((error.line, error.file.as_deref()), (Some(1), Some(&*path)));
    // Nothing to cut: the file stays as it is.
    let before = fs::read(&path).expect("rows");
    log.retain(folder.path(), |_| true).expect("rewritten");
    assert_eq!(fs::read(&path).expect("rows"), before);
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn long_lines_and_missing_files() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(read_log(&log_path(folder.path())).is_err());
    assert!(Log::open(&folder.path().join("none")).is_err());
    let mut log = Log::open(folder.path()).expect("opens");
    let long: String = "x".repeat(300_000);
    log.add_row("long", [("text".to_string(), Value::from(long.clone()))].into_iter().collect()).expect("written");
    drop(log);
    let path = log_path(folder.path());
    let mut bytes = fs::read(&path).expect("rows");
    bytes.extend(format!("{{\"kind\":\"{long}").as_bytes());
    fs::write(&path, &bytes).expect("written");
    drop(Log::open(folder.path()).expect("opens"));
    assert_eq!(read_log(&path).expect("rows").len(), 1);
    assert_eq!(fs::metadata(&path).expect("there").len() as usize, bytes.len() - 300_009);
    let too_long = Value::from("x".repeat(LONGEST));
    let mut log = Log::open(folder.path()).expect("opens");
    assert!(log.add_row("long", [("text".to_string(), too_long)].into_iter().collect()).is_err());
}
