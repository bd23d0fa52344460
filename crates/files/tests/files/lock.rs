//! One folder, one process: two at once, one that is killed, and who only looks. This binary starts itself again as the
//! other process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use files::{Kind, Lock};

const FOLDER: &str = "FULLBORE_TEST_LOCK";

/// What the other process does: takes the folder, says so, and keeps it until its input ends. Nothing in the parent's
/// own run.
#[test]
fn other_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut out = std::io::stdout();
    match Lock::acquire(folder.as_ref()) {
        Ok(_lock) => {
            writeln!(out, "taken").expect("told");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        Err(error) => {
            writeln!(out, "refused {} {:?} {error}", error.remedy.is_some(), error.kind).expect("told");
        }
    }
}

fn start(folder: &std::path::Path) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "lock::other_process", "--nocapture"]).env(FOLDER, folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines().map_while(Result::ok);
    let word = lines.find(|l| l.starts_with("taken") || l.starts_with("refused")).expect("it speaks");
    (child, word)
}

#[test]
fn second_process_is_refused_and_told_the_first_pid() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(Lock::holder(folder.path()), None);
    let lock = Lock::acquire(folder.path()).expect("free");
    let holder = Lock::holder(folder.path()).expect("held");
    assert_eq!(holder.pid, std::process::id());
    assert!(holder.since.ends_with('Z'), "{holder:?}");
    if cfg!(target_os = "linux") {
        assert!(holder.start > 0 && holder.boot.len() == 36, "{holder:?}");
    }
    let (mut child, word) = start(folder.path());
    assert!(word.starts_with("refused true State"), "{word}");
    assert!(word.contains(&format!("process {}, since", std::process::id())), "{word}");
    child.wait().expect("gone");
    assert!(Lock::acquire(folder.path()).is_err(), "nor twice in one process");
    drop(lock);
    assert_eq!(Lock::holder(folder.path()), None);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left behind");
    Lock::acquire(folder.path()).expect("free again");
}

#[test]
fn a_killed_process_holds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut child, word) = start(folder.path());
    assert_eq!(word, "taken");
    let error = Lock::acquire(folder.path()).expect_err("held");
    assert!(error.message.contains(&child.id().to_string()), "{error}");
    assert_eq!(error.kind, Kind::State);
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(folder.path().join(".lock").exists(), "its file is still there");
    assert_eq!(Lock::holder(folder.path()), None);
    Lock::acquire(folder.path()).expect("free");
}

#[test]
fn a_lock_file_of_another_boot_or_full_of_nonsense_holds_nothing() {
    let stale =
        [&b"{\"pid\":1,\"boot\":\"another\",\"start\":7,\"since\":\"2026-01-01T00:00:00Z\"}"[..], b"", b"\xff\0{"];
    for text in stale {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(".lock"), text).expect("written");
        assert_eq!(Lock::holder(folder.path()), None);
        let _lock = Lock::acquire(folder.path()).expect("stale");
        assert_eq!(Lock::holder(folder.path()).expect("held").pid, std::process::id());
    }
    let missing = tempfile::tempdir().expect("a folder").path().join("none");
    assert!(Lock::acquire(&missing).is_err());
    assert_eq!(Lock::holder(&missing), None);
}

/// All see the stale file at once, and take, let go and look as fast as they can: never are two inside.
#[test]
fn lock_is_exclusive_under_contention() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(".lock"), "{\"pid\":1,\"boot\":\"x\",\"start\":7,\"since\":\"\"}")
        .expect("written");
    let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    Lock::holder(folder.path());
                    if let Ok(_lock) = Lock::acquire(folder.path()) {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(entered.load(Ordering::SeqCst) >= 200);
}
