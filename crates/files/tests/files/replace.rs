//! Files appear whole or not at all.

use std::fs;
use std::io::Write;

use files::{Column, ParquetWriter, Replace, Table, replace_bytes, sweep};

fn names(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn commit_replaces_and_drop_leaves_the_old() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    replace_bytes(&path, b"old").unwrap();
    let mut file = Replace::create(&path).unwrap();
    file.write_all(&[b'x'; 1 << 20]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(file);
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"old".to_vec(), vec!["a.txt".to_string()]));
    let mut file = Replace::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    file.commit().unwrap();
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"new".to_vec(), vec!["a.txt".to_string()]));
}

#[test]
fn failures_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Replace::create(dir.path()).is_err());
    assert!(Replace::create(&dir.path().join("none/a.txt")).is_err());
    // The destination turns into a folder between create and commit.
    let path = dir.path().join("a");
    let file = Replace::create(&path).unwrap();
    fs::create_dir_all(path.join("full")).unwrap();
    assert!(file.commit().is_err());
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn parquet_without_finish_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let mut writer = ParquetWriter::create(&path, &[]).unwrap();
    writer.write(&Table { columns: vec![Column::f64("x", vec![1.0])], rows: 1 }).unwrap();
    // Other columns are refused, and then the file never appears.
    assert!(writer.write(&Table { columns: vec![Column::f64("y", vec![1.0])], rows: 1 }).is_err());
    drop(writer);
    assert!(names(dir.path()).is_empty());
}

/// What a killed process left goes; what somebody writes, what is young and what is not ours stays.
#[test]
fn only_what_the_dead_left_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let aged = |path: &std::path::Path| {
        let file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(600)).unwrap();
    };
    for name in [".dead.parquet.1-0.tmp", ".young.parquet.1-1.tmp", "theirs.tmp", ".theirs"] {
        std::fs::write(dir.path().join(name), "x").unwrap();
    }
    let living = Replace::create(&dir.path().join("live.parquet")).unwrap();
    let names = || -> Vec<String> {
        let mut all: Vec<String> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    };
    let before = names();
    for name in before.iter().filter(|n| !n.contains("young")) {
        aged(&dir.path().join(name));
    }
    assert_eq!(sweep(dir.path()), 1);
    let left: Vec<String> = before.into_iter().filter(|n| !n.contains("dead")).collect();
    assert_eq!(names(), left);
    drop(living);
}
