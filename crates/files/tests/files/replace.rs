//! Files appear whole or not at all.

use std::fs;
use std::io::Write;

use files::{Column, ParquetWriter, Replace, Table, replace_bytes};

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
