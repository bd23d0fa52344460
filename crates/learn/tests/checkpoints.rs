//! Checkpoints of processes that are killed, and on disks that are full. This binary starts itself again as the one
//! that saves.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use learn::checkpoint::{About, Generation, Store, Writer};

/// Names the folder and the part a child plays.
const FOLDER: &str = "FULLBORE_TEST_CHECKPOINTS";
const PART: &str = "FULLBORE_TEST_PART";

/// Every byte tells the save it belongs to; long enough that kills fall into the middle of a write.
fn bytes(step: u64, salt: u64) -> Vec<u8> {
    (0..200_000 + step % 1000).map(|i| (i * 13 + step * 7 + salt) as u8).collect()
}

fn about(step: u64) -> About {
    About { net: "net".into(), data: "data".into(), config: "config".into(), step, ..About::default() }
}

fn whole(generation: &Generation) -> u64 {
    let step = generation.about.step;
    for (salt, name) in [(1, "weights"), (2, "optimiser"), (3, "order")] {
        assert!(generation.read(name).expect("whole") == bytes(step, salt), "{name} is not of step {step}");
    }
    step
}

/// What a child does; in the parent's own run there is no part to play, and this is nothing.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let save = |store: &mut Store, step: u64, times: usize| {
        let parts = [bytes(step, 1).repeat(times), bytes(step, 2), bytes(step, 3)];
        store.save(&about(step), &[("weights", &parts[0]), ("optimiser", &parts[1]), ("order", &parts[2])])
    };
    match std::env::var(PART).as_deref() {
        Ok("for ever") => {
            let store = Store::open(folder).expect("opens");
            let mut step = store.newest().expect("one is whole").map_or(0, |g| whole(&g));
            let mut writer = Writer::new(store, &[]).expect("a thread");
            loop {
                step += 1;
                writer
                    .submit(about(step), |staging| {
                        staging.put("weights", &bytes(step, 1));
                        staging.put("optimiser", &bytes(step, 2));
                        staging.put("order", &bytes(step, 3));
                        Ok(())
                    })
                    .expect("saved");
                // Every third save is waited for and told; the others run into the next one.
                if step.is_multiple_of(3) {
                    writer.wait().expect("saved");
                    writeln!(std::io::stdout(), "saved {step}").expect("told");
                }
            }
        }
        // Files may not grow beyond a limit here; the parent says how a save of twenty times the size must end.
        Ok("limit") => {
            let mut store = Store::open(folder).expect("opens");
            save(&mut store, 1, 1).expect("small enough");
            let error = save(&mut store, 2, 20).expect_err("too large");
            assert_eq!(error.kind, files::Kind::Machine, "{error}");
            assert!(error.remedy.is_some());
            assert_eq!(whole(&store.newest().expect("whole").expect("there")), 1);
            save(&mut store, 3, 1).expect("small enough again");
            assert_eq!(whole(&store.newest().expect("whole").expect("there")), 3);
        }
        other => panic!("no such part: {other:?}"),
    }
}

fn myself() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "child", "--nocapture"]).stderr(Stdio::inherit());
    command
}

#[test]
fn repeated_kills_always_leave_a_whole_generation() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("checkpoints");
    let (mut last, mut grew) = (0, 0);
    for round in 0..30u64 {
        let mut child =
            myself().env(FOLDER, &path).env(PART, "for ever").stdout(Stdio::piped()).spawn().expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut saved = |line: String| line.strip_prefix("saved ").and_then(|n| n.parse::<u64>().ok());
        // It has begun to save; then at any instant.
        let mut known = lines.by_ref().find_map(&mut saved).expect("it saves");
        let until = Instant::now() + Duration::from_micros(round * 7919 % 20_000);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        known = lines.filter_map(saved).last().unwrap_or(known);
        let generation = Store::open(&path).expect("opens").newest().expect("one is whole").expect("there");
        let step = whole(&generation);
        assert!(generation.passed.is_empty(), "a kill damages nothing: {:?}", generation.passed);
        assert!(step >= known && step >= last, "step {step} after {known} and {last} were saved");
        grew += u64::from(step > last);
        last = step;
    }
    assert_eq!(grew, 30, "every life got further than the one before");
}

#[cfg(unix)]
#[test]
fn a_file_size_limit_fails_only_that_save() {
    let folder = tempfile::tempdir().expect("a folder");
    let exe = std::env::current_exe().expect("this binary");
    // 2,048 blocks of 512 bytes, or of 1,024: larger than a small save and smaller than a large one. The signal that
    // goes with the limit is ignored, so that the write fails as on a full disk.
    let script = r#"trap '' XFSZ; ulimit -f 2048; exec "$0" --exact child --nocapture"#;
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(exe).env(FOLDER, folder.path()).env(PART, "limit");
    let output = command.output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Unlimited again, here: what the child left is whole, and nothing is half.
    let mut store = Store::open(folder.path()).expect("opens");
    assert_eq!(whole(&store.newest().expect("whole").expect("there")), 3);
    store.save(&about(4), &[("weights", &bytes(2, 1).repeat(20))]).expect("there is room");
}

/// A small disk of its own, where the system lets us have one (as root on Linux).
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path) -> Option<Small<'a>> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(at).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(Small(at))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_what_was_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    // Without a small disk the same saves are done on a large one, where they must succeed.
    let small = Small::mount(folder.path());
    let path = folder.path().join("checkpoints");
    let mut store = Store::open(&path).expect("opens");
    let save = |store: &mut Store, step: u64| {
        let parts = [bytes(step, 1), bytes(step, 2), bytes(step, 3)];
        store.save(&about(step), &[("weights", &parts[0]), ("optimiser", &parts[1]), ("order", &parts[2])])
    };
    save(&mut store, 1).expect("600 kB fit");
    let filler = folder.path().join("filler");
    std::fs::write(&filler, vec![1; 1_000_000]).expect("it fits beside one checkpoint");
    for step in 2..5 {
        let outcome = save(&mut store, step);
        if small.is_some() {
            let error = outcome.expect_err("full");
            assert_eq!(error.kind, files::Kind::Machine, "{error}");
            assert!(error.remedy.as_ref().is_some_and(|r| r.contains("space")), "{error:?}");
            assert_eq!(whole(&store.newest().expect("whole").expect("kept")), 1);
            assert_eq!(
                std::fs::read_dir(path.join("generations")).expect("a folder").count(),
                1,
                "nothing half is left"
            );
        } else {
            outcome.expect("a large disk");
        }
    }
    std::fs::remove_file(&filler).expect("space returns");
    save(&mut store, 5).expect("there is space again");
    assert_eq!(whole(&store.newest().expect("whole").expect("there")), 5);
}
