//! Files appear whole or not at all.

use std::fs;
use std::io::Write;

use files::{Column, Draft, ParquetWriter, Replace, Scratch, Table, remove_folder, replace_bytes, sweep};

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

/// What a killed process left goes; what somebody writes and what is not ours stays.
#[test]
fn only_files_of_dead_processes_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let living = Replace::create(&dir.path().join("live.parquet")).unwrap();
    let filling = Draft::create(&dir.path().join("live")).unwrap();
    let theirs =
        [".theirs", "theirs.tmp", ".x.1-0.tmp", ".x.fullbore.tmp", ".x.1-y.fullbore.tmp", "x.1-0.fullbore.tmp"];
    theirs.iter().for_each(|name| fs::write(dir.path().join(name), "x").unwrap());
    let before = names(dir.path());
    fs::write(dir.path().join(".dead.parquet.1-0.fullbore.tmp"), "x").unwrap();
    fs::create_dir_all(dir.path().join(".dead.1-1.fullbore.tmp/full")).unwrap();
    assert_eq!((sweep(dir.path()), sweep(dir.path())), (2, 0));
    assert_eq!(names(dir.path()), before);
    drop((living, filling));
    assert_eq!(names(dir.path()).len(), theirs.len());
}

#[test]
fn a_process_sweeps_where_it_first_writes() {
    let dir = tempfile::tempdir().unwrap();
    let stray = |folder: &str| {
        let folder = dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".dead.1-0.fullbore.tmp"), "x").unwrap();
        folder
    };
    replace_bytes(&stray("file").join("a"), b"x").unwrap();
    Draft::create(&stray("draft").join("a")).unwrap().commit().unwrap();
    drop(Scratch::create(&stray("scratch")).unwrap());
    for (folder, left) in [("file", &["a"][..]), ("draft", &["a"]), ("scratch", &[])] {
        assert_eq!(names(&dir.path().join(folder)), left, "{folder}");
    }
}

#[test]
fn a_draft_appears_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("a");
    let draft = Draft::create(&place).unwrap();
    fs::write(draft.path().join("one"), "x").unwrap();
    draft.commit().unwrap();
    drop(draft);
    assert_eq!((names(dir.path()), names(&place)), (vec!["a".to_string()], vec!["one".to_string()]));
    // One that is there stays, until somebody removes it.
    let second = Draft::create(&place).unwrap();
    fs::write(second.path().join("two"), "x").unwrap();
    assert!(second.commit().is_err());
    remove_folder(&place);
    second.commit().unwrap();
    assert_eq!((names(dir.path()), names(&place)), (vec!["a".to_string()], vec!["two".to_string()]));
}

/// Windows refuses to replace an open file; a debug build on Linux does too, so that every test would notice.
#[test]
#[cfg(all(target_os = "linux", debug_assertions))]
fn nothing_that_is_open_here_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    replace_bytes(&path, b"old").unwrap();
    let open = fs::File::open(&path).unwrap();
    let error = replace_bytes(&path, b"new").unwrap_err().to_string();
    assert!(error.contains("still open in this process"), "{error}");
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"old".to_vec(), vec!["a.txt".to_string()]));
    // Who lets go meanwhile is waited for.
    let reader = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(open);
    });
    replace_bytes(&path, b"new").unwrap();
    reader.join().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    // A folder with an open file in it cannot take another name.
    let draft = Draft::create(&dir.path().join("folder")).unwrap();
    let open = fs::File::create(draft.path().join("one")).unwrap();
    assert!(draft.commit().is_err());
    drop(open);
    draft.commit().unwrap();
}
