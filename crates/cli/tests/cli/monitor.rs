//! The dashboard as a user meets it: plain lines, one object, and a real terminal.

use super::train::{ROW, market, small};
use super::{Place, code, text, wait_for};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn finished_run_as_text_and_json() {
    let place = Place::new();
    market(&place, true, "3000");
    let set = format!("p = col(plant), {ROW}");
    let (run, exit) = place.json(&small(&set, "runs/coin", "6"));
    assert_eq!(exit, 0, "{run}");

    // The newest run is found without a word; a name or a path finds it too.
    let (told, exit) = place.json(&["monitor"]);
    assert_eq!((exit, &told["state"], &told["name"]), (0, &Value::from("finished"), &Value::from("coin")), "{told}");
    for name in ["coin", "runs/coin", "runs"] {
        assert_eq!(place.json(&["monitor", name]).0["name"], "coin", "{name}");
    }
    assert_eq!(told["judged"]["mcc"], run["judged"]["mcc"]);
    assert_eq!((&told["at"], &told["last"], &told["members"]), (&6.0.into(), &6.0.into(), &4.into()));
    assert_eq!((&told["done_percent"], &told["members_ended"]), (&100.0.into(), &4.into()));
    // Each member's best is what the run says it is.
    for (mine, theirs) in told["by_member"].as_array().unwrap().iter().zip(run["members"].as_array().unwrap()) {
        assert_eq!(mine["best_at"].as_f64(), theirs["best_epoch"].as_f64(), "{mine} and {theirs}");
        assert_eq!(mine["best"], theirs["valid_mcc"]);
    }
    let phases = |of: &Value| of.as_array().unwrap().iter().map(|p| p["name"].clone()).collect::<Vec<_>>();
    assert_eq!(phases(&told["phases"]), phases(&run["phases"]));
    let mut shape = told;
    blank(&mut shape);
    insta::assert_snapshot!("json_of_monitor", serde_json::to_string_pretty(&shape).unwrap());

    // Standard output is no terminal here, so that lines come with and without --once.
    let lines = text(&place.run(&["monitor", "coin", "--once"]).stdout);
    assert_eq!(lines, text(&place.run(&["monitor", "coin"]).stdout));
    assert!(lines.lines().all(|l| l.chars().count() <= 100) && !lines.contains('\u{1b}'), "{lines}");
    for part in ["finished", "epoch 6 of 6, 100 %", "best so far: valid MCC", "Judged on test samples", "train loss"] {
        assert!(lines.contains(part), "{part} is missing in\n{lines}");
    }

    // What somebody else's program wrote into the log is counted, and does no harm.
    let log = place.path().join("runs/coin/log.jsonl");
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, [&whole[..], b"no row\n{\"time\":\"2026\",\"kind\":\"epo"].concat()).unwrap();
    let (torn, exit) = place.json(&["monitor"]);
    assert_eq!((exit, &torn["skipped_lines"], &torn["at"]), (0, &1.into(), &6.0.into()), "{torn}");

    let (none, exit) = place.json(&["monitor", "elsewhere"]);
    assert_eq!((exit, &none["schema"], &none["error"]["kind"]), (3, &"monitor/1".into(), &"input".into()), "{none}");
    assert!(none["error"]["remedy"].as_str().unwrap().contains("runs list"));
}

#[test]
fn missing_run_is_an_error_with_a_remedy() {
    let place = Place::new();
    let output = place.run(&["monitor"]);
    assert_eq!(code(&output), 3);
    assert!(text(&output.stderr).contains("fullbore train DATA"), "{}", text(&output.stderr));
}

/// Numbers and what changes from run to run become their kind.
fn blank(value: &mut Value) {
    match value {
        Value::Number(_) => *value = "[number]".into(),
        Value::String(text) if text.contains("20") || text.contains('%') => *value = "[text]".into(),
        Value::Array(all) => {
            all.truncate(1);
            all.iter_mut().for_each(blank);
        }
        Value::Object(map) => {
            map.values_mut().for_each(blank);
            // Which member is best may hang on the last bit, and so on the processor.
            if let Some(member) = map.get_mut("member") {
                *member = "[text]".into();
            }
        }
        _ => {}
    }
}

/// A tmux server of our own, ended with the test.
struct Tmux(String);

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-L", &self.0, "-f", "/dev/null"]).args(args).output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn pane(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    fn line(&self, words: &str) {
        self.run(&["send-keys", "-l", words]);
        self.press("Enter");
    }

    /// Whether the other screen is shown, and the cursor.
    fn flags(&self) -> String {
        self.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}"]).trim().to_string()
    }

    /// Waits until the pane gives something.
    fn until<T>(&self, what: &str, mut look: impl FnMut(&str) -> Option<T>) -> T {
        for _ in 0..6000 {
            if let Some(found) = look(&self.pane()) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{what} never came; the pane is\n{}", self.pane());
    }

    fn sees(&self, what: &str) {
        self.until(what, |pane| pane.contains(what).then_some(()));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

/// A training that ends with the test.
struct Training(Child);

impl Drop for Training {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn long_training(place: &Place) -> Training {
    let mut command = place.command(&small(ROW, "runs/coin", "1000000"));
    command.args(["--patience", "1000000", "--quiet"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut training = Training(command.spawn().unwrap());
    let log = place.path().join("runs/coin/log.jsonl");
    let begun = || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("\"kind\":\"epoch\""));
    wait_for("an epoch", &mut training.0, begun);
    training
}

/// The number behind `epoch` in the third line: `epoch 12 of 1,000,000`, `epoch 11 to 12 of 1,000,000`.
fn epoch(pane: &str) -> Option<u64> {
    let (before, _) = pane.split_once(" of 1,000,000")?;
    before.rsplit(' ').next()?.replace(',', "").parse().ok()
}

fn tmux_is_installed() -> bool {
    let installed = Command::new("tmux").arg("-V").output().is_ok();
    if !installed {
        use std::io::Write;
        // Written past the capture of the test runner, so that it is seen that nothing was tested.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: tmux is not installed, so the dashboard was not seen in a terminal");
    }
    installed
}

#[test]
fn the_monitor_ends_with_its_terminal() {
    if !tmux_is_installed() {
        return;
    }
    let place = Place::new();
    market(&place, false, "3000");
    assert_eq!(place.json(&small(ROW, "runs/coin", "1")).1, 0);
    let tmux = Tmux(format!("fullbore-closed-{}", std::process::id()));
    let folder = place.path().display().to_string();
    tmux.run(&["new-session", "-d", "-x", "100", "-y", "30", "-c", &folder, "env LC_ALL=C.UTF-8 sh"]);
    tmux.line(&format!("sh -c 'echo $$ > pid; exec {} monitor'", env!("CARGO_BIN_EXE_fullbore")));
    tmux.sees("q quits");
    let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
    tmux.run(&["kill-server"]);
    let alive = || Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success();
    for _ in 0..600 {
        if !alive() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = Command::new("kill").args(["-KILL", pid.trim()]).output();
    panic!("the monitor goes on without a terminal");
}

#[test]
fn monitor_in_a_terminal_updates_and_restores_it() {
    if !tmux_is_installed() {
        return;
    }
    let place = Place::new();
    market(&place, false, "3000");
    let mut training = long_training(&place);
    let (told, _) = place.json(&["monitor"]);
    assert_eq!(told["state"], "running", "{told}");
    assert_eq!(told["says"], format!("process {}", training.0.id()));
    assert!(told["machine"]["process_memory_bytes"].as_u64().unwrap() > 1 << 20, "{told}");

    let tmux = Tmux(format!("fullbore-{}", std::process::id()));
    let folder = place.path().display().to_string();
    tmux.run(&["new-session", "-d", "-x", "100", "-y", "30", "-c", &folder, "env LC_ALL=C.UTF-8 PS1='$ ' sh"]);
    let monitor = format!("sh -c 'echo $$ > pid; exec {} monitor'; echo left=$?", env!("CARGO_BIN_EXE_fullbore"));
    tmux.line(&monitor);
    let first = tmux.until("an epoch", epoch);
    tmux.until("a later epoch", |pane| epoch(pane).filter(|now| *now > first));
    assert_eq!(tmux.flags(), "1 0 0", "the other screen, no cursor, no wrapping");
    tmux.sees("CPU recent");
    let pane = tmux.pane();
    for part in ["coin", "running", "MCC", "loss", "4 members", "machine", "core", "RAM process", "q quits"] {
        assert!(pane.contains(part), "{part} is missing in\n{pane}");
    }
    assert!(pane.lines().all(|l| l.chars().count() <= 100), "{pane}");
    tmux.press("Down");
    tmux.press("Down");
    tmux.sees("MCC · fold 1 seed 1");
    tmux.press("Tab");
    tmux.press("?");
    tmux.sees("this page, and back");
    tmux.press("?");
    tmux.press("Space");
    tmux.sees("paused");
    tmux.press("Space");
    tmux.run(&["resize-window", "-x", "44", "-y", "12"]);
    tmux.sees("valid MCC");
    tmux.run(&["resize-window", "-x", "100", "-y", "30"]);
    tmux.sees("CPU recent");
    tmux.press("q");
    tmux.sees("left=0");
    assert!(tmux.pane().contains("coin continues"), "{}", tmux.pane());
    assert_eq!(tmux.flags(), "0 1 1", "as it was");
    // What is typed is seen again, and the shell reads lines.
    tmux.line("echo ba''ck");
    tmux.until("the echo", |pane| (pane.contains("echo ba''ck") && pane.contains("\nback")).then_some(()));
    assert!(training.0.try_wait().unwrap().is_none(), "the training goes on");

    // A signal from outside gives the terminal back as well.
    tmux.line("clear");
    tmux.line(&monitor);
    tmux.until("an epoch", epoch);
    let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
    assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    tmux.sees("left=130");
    assert_eq!(tmux.flags(), "0 1 1");

    // Killed while it is watched: said at once, with the way on. Its folder removed: said too.
    tmux.line("clear");
    tmux.line(&monitor);
    tmux.until("an epoch", epoch);
    training.0.kill().unwrap();
    training.0.wait().unwrap();
    tmux.sees("crashed: no process works on it: resume with `fullbore runs resume runs/coin`");
    let lines = text(&place.run(&["monitor", "--once"]).stdout);
    assert!(lines.contains("crashed") && lines.contains("fullbore runs resume runs/coin"), "{lines}");
    std::fs::remove_dir_all(place.path().join("runs/coin")).unwrap();
    tmux.sees("gone: the folder runs/coin is no longer there");
    tmux.press("C-c");
    tmux.sees("left=0");
    assert_eq!(tmux.flags(), "0 1 1");
}
