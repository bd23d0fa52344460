//! The ledger under threads, processes, kills, damage and hands that want to change it.

use super::*;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

fn trial(id: &str, symbols: &[&str], from: i64, to: i64) -> Trial {
    Trial {
        id: id.into(),
        symbols: symbols.iter().map(|s| s.to_string()).collect(),
        span: Span::new(from, to).unwrap(),
        code: "0.1.0".into(),
        data: format!("data of {id}"),
        folds: 8,
        seeds: vec![1, u64::MAX],
        parent: (id != "a").then(|| "a".to_string()),
        what: (id != "a").then(|| format!("what {id} is")),
    }
}

fn named(symbols: &[&str]) -> Vec<String> {
    symbols.iter().map(|s| s.to_string()).collect()
}

fn span(from: i64, to: i64) -> Span {
    Span::new(from, to).unwrap()
}

#[test]
fn a_trial_is_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/ledger.sqlite");
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.verify().unwrap(), 0);
    let (a, b) = (trial("a", &["GOLD"], 0, 10), trial("b", &["GOLD", "OIL"], 5, 20));
    let first = ledger.start(&a).unwrap();
    let second = ledger.start(&b).unwrap();
    let third = ledger.start(&a).unwrap();
    assert_eq!((first.row, second.row, third.row), (1, 2, 3));
    let metrics = json!({"mcc": 0.1, "loss": [1.5, null], "note": "it's \"so\"\n"});
    ledger.finish(&first, &metrics, Some("returns/1")).unwrap();
    ledger.fail(&second, "no memory").unwrap();
    // As another process, later.
    let ledger = Ledger::open(&path).unwrap();
    let family = ledger.family(&named(&["GOLD"]), span(0, 100)).unwrap();
    assert_eq!(family.iter().map(|row| &row.trial).collect::<Vec<_>>(), [&a, &b, &a]);
    assert_eq!(family[0].outcome, Outcome::Finished { metrics, returns: Some("returns/1".into()) });
    assert_eq!(family[1].outcome, Outcome::Failed { why: "no memory".into() });
    assert_eq!(family[2].outcome, Outcome::Crashed);
    assert!(family[0].time > 1_600_000_000_000_000_000 && family[0].time <= family[2].time);
    assert_eq!(ledger.count(&named(&["GOLD"]), span(0, 100)).unwrap(), 2, "configurations, not starts");
    // What failed may be resumed from the run's folder; what finished has finished.
    let again: StartedTrial = serde_json::from_str(&serde_json::to_string(&second).unwrap()).unwrap();
    assert_eq!([&first, &again].map(|trial| ledger.finished(trial).unwrap()), [true, false]);
    ledger.finish(&again, &json!({}), None).unwrap();
    assert!(ledger.finished(&again).unwrap());
    assert!(ledger.finish(&again, &json!({}), None).unwrap_err().message.contains("finished already"));
    assert!(ledger.fail(&first, "too late").unwrap_err().message.contains("finished already"));
    assert_eq!(ledger.verify().unwrap(), 6);
}

#[test]
fn overlapping_trials_form_a_family() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger")).unwrap();
    let started = ledger.start(&trial("a", &["GOLD", "OIL"], 10, 20)).unwrap();
    ledger.start(&trial("b", &["GOLD"], 20, 30)).unwrap();
    ledger.start(&trial("c", &["CORN"], 0, 100)).unwrap();
    let check = |symbols: &[&str], from, to, expected: &[&str]| {
        let rows = ledger.family(&named(symbols), span(from, to)).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.trial.id.as_str()).collect::<Vec<_>>(),
            expected,
            "{symbols:?} {from} {to}"
        );
        assert_eq!(ledger.count(&named(symbols), span(from, to)).unwrap(), expected.len());
    };
    check(&["GOLD"], 0, 100, &["a", "b"]);
    check(&["GOLD"], 19, 20, &["a"]);
    check(&["GOLD"], 20, 21, &["b"]);
    check(&["GOLD"], 0, 10, &[]);
    check(&["GOLD"], 30, 40, &[]);
    check(&["OIL"], 0, 100, &["a"]);
    check(&["OIL", "CORN"], 0, 100, &["a", "c"]);
    check(&["gold"], 0, 100, &[]);
    check(&[], 0, 100, &[]);
    // A look at the holdout is a trial on it.
    let openings = |symbol: &str, span: Span| ledger.openings(&named(&[symbol]), span).unwrap();
    assert_eq!(openings("OIL", span(50, 60)).len(), 0);
    assert_eq!(ledger.open_holdout(&started, span(50, 60), "runs/a").unwrap().len(), 1);
    let both = ledger.open_holdout(&started, span(55, 70), "runs/b").unwrap();
    assert_eq!(both.iter().map(|opening| opening.by.as_str()).collect::<Vec<_>>(), ["runs/a", "runs/b"]);
    assert!(both[0].row < both[1].row && both[0].time <= both[1].time);
    // What it showed is a row of its own, and no look.
    ledger.judge_holdout(&started, &json!({"net_sharpe": 1.0})).unwrap();
    assert_eq!(openings("OIL", span(60, 61)).len(), 1);
    assert_eq!(openings("CORN", span(50, 60)).len(), 0);
    check(&["GOLD"], 50, 51, &["a"]);
    assert_eq!(ledger.family(&named(&["GOLD"]), span(50, 51)).unwrap()[0].holdouts, 2);
    assert!(ledger.start(&trial("d", &[], 0, 1)).is_err() && ledger.start(&trial("", &["GOLD"], 0, 1)).is_err());
    let strange = StartedTrial { row: 2, ..started.clone() };
    assert!(ledger.fail(&strange, "").unwrap_err().message.contains("did not start"));
    assert!(ledger.open_holdout(&StartedTrial { row: u64::MAX, ..started }, span(0, 1), "").is_err());
    assert_eq!(ledger.verify().unwrap(), 6);
}

#[test]
fn ledger_rows_cannot_be_changed_or_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::open(&path).unwrap();
    for id in ["a", "b", "c"] {
        ledger.start(&trial(id, &["GOLD"], 0, 10)).unwrap();
    }
    let other = Connection::open(&path).unwrap();
    let row = |at: i64| {
        format!(
            "({at}, 0, 'started', 'x', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '')"
        )
    };
    for statement in [
        "UPDATE event SET trial = 'x' WHERE row = 2".to_string(),
        "UPDATE event SET hash = hash".to_string(),
        "DELETE FROM event WHERE row = 3".to_string(),
        "DELETE FROM event".to_string(),
        format!("INSERT OR REPLACE INTO event VALUES {}", row(2)),
        format!("REPLACE INTO event VALUES {}", row(1)),
        format!("INSERT INTO event VALUES {}", row(5)),
        format!("INSERT INTO event VALUES {}", row(0)),
    ] {
        let message = other.execute_batch(&statement).unwrap_err().to_string();
        assert!(message.contains("append-only"), "{statement}: {message}");
    }
    assert_eq!(ledger.verify().unwrap(), 3);
    // A row at the end without a hash is let in by SQLite; the chain says so, and nothing is put behind it.
    other.execute_batch(&format!("INSERT INTO event VALUES {}", row(4))).unwrap();
    let check = |error: Error, row: u64| {
        assert_eq!((error.kind, error.line), (Kind::State, Some(row)), "{error}");
        assert!(error.message.contains(&format!("broken at row {row}")) && error.remedy.is_some(), "{error}");
    };
    check(ledger.verify().unwrap_err(), 4);
    check(ledger.start(&trial("d", &["GOLD"], 0, 10)).unwrap_err(), 4);
    check(ledger.count(&named(&["GOLD"]), span(0, 10)).unwrap_err(), 4);
    // Whoever takes the triggers away to change a row is found out twice.
    let words: String =
        other.query_row("SELECT sql FROM sqlite_master WHERE name = 'event_no_update'", [], |r| r.get(0)).unwrap();
    for (change, row) in [
        ("UPDATE event SET metrics = '{}' WHERE row = 2", 2),
        ("UPDATE event SET previous = '' WHERE row = 2", 2),
        ("UPDATE event SET time = time + 1 WHERE row = 1", 1),
    ] {
        other.execute_batch(&format!("DROP TRIGGER event_no_update; {change}")).unwrap();
        let error = Ledger::open(&path).unwrap_err();
        assert!(error.message.contains("triggers were changed"), "{error}");
        other.execute_batch(&words).unwrap();
        check(Ledger::open(&path).unwrap().verify().unwrap_err(), row);
    }
}

#[test]
fn a_truncated_ledger_is_detected_by_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let backup = folder.path().join("backup");
    let ledger = Ledger::open(&path).unwrap();
    ledger.start(&trial("a", &["GOLD"], 0, 10)).unwrap();
    ledger.db.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    let lost = ledger.start(&trial("b", &["GOLD"], 0, 10)).unwrap();
    let older = Ledger::open(&backup).unwrap();
    assert_eq!(older.verify().unwrap(), 1);
    assert!(older.finish(&lost, &json!({}), None).unwrap_err().message.contains("did not start"));
    // Another trial in its row does not hide it.
    older.start(&trial("b", &["GOLD"], 0, 11)).unwrap();
    assert!(older.finish(&lost, &json!({}), None).is_err());
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, make: &dyn Fn(&Path), message: &str| {
        let path = folder.path().join(name);
        make(&path);
        let before = std::fs::read(&path).unwrap();
        let error = Ledger::open(&path).unwrap_err();
        assert!(error.message.contains(message) && error.remedy.is_some(), "{name}: {error}");
        assert_eq!((error.kind, error.file.as_deref()), (Kind::State, Some(path.as_path())), "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name} was touched");
    };
    check("text", &|path| std::fs::write(path, "not a database").unwrap(), "not a database");
    check("long", &|path| std::fs::write(path, vec![b'x'; 100_000]).unwrap(), "not a database");
    check(
        "foreign",
        &|path| Connection::open(path).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap(),
        "not a ledger",
    );
    check(
        "application",
        &|path| Connection::open(path).unwrap().execute_batch("PRAGMA application_id = 7").unwrap(),
        "not a ledger",
    );
    let newer = |path: &Path| {
        drop(Ledger::open(path).unwrap());
        Connection::open(path)
            .unwrap()
            .execute_batch("PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
    };
    check("newer", &newer, "version 2");
    let more = |path: &Path| {
        drop(Ledger::open(path).unwrap());
        let sql = "CREATE TABLE more (x); PRAGMA wal_checkpoint(TRUNCATE)";
        Connection::open(path).unwrap().execute_batch(sql).unwrap();
    };
    check("more", &more, "changed or damaged");
    // A file of no bytes is what a kill leaves between making the file and filling it.
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(Ledger::open(&empty).unwrap().verify().unwrap(), 0);
    let error = Ledger::open(folder.path()).unwrap_err();
    assert!(error.remedy.is_some(), "{error}");
    let under = Ledger::open(&folder.path().join("text/ledger")).unwrap_err();
    assert!(under.file.is_some(), "{under}");
}

#[test]
fn damage_is_reported_with_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::open(&path).unwrap();
    for i in 0..40 {
        let started = ledger.start(&trial(&format!("trial-{i:02}"), &["GOLD"], 0, 10)).unwrap();
        ledger.finish(&started, &json!({"mark": format!("metrics-{i:02}")}), None).unwrap();
    }
    assert_eq!(ledger.verify().unwrap(), 80);
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    // SQLite leaves copies behind where pages were split.
    let find = |text: &str| -> Vec<usize> {
        whole.windows(text.len()).enumerate().filter(|(_, w)| *w == text.as_bytes()).map(|(at, _)| at).collect()
    };
    let flipped = |places: &[usize], mask: u8| {
        let mut bytes = whole.clone();
        places.iter().for_each(|at| bytes[*at] ^= mask);
        let path = folder.path().join("flipped");
        std::fs::write(&path, bytes).unwrap();
        Ledger::open(&path).and_then(|ledger| ledger.verify())
    };
    for i in [0, 7, 39] {
        let places = find(&format!("trics-{i:02}"));
        let error = flipped(&places, 1).unwrap_err();
        assert_eq!(error.line, Some(2 * i + 2), "{error}");
        // No valid text any more.
        let error = flipped(&places, 0x80).unwrap_err();
        assert_eq!(error.line, Some(2 * i + 2), "{error}");
    }
    // Anywhere: what is still said to be whole has all its rows, unchanged; nothing panics.
    let mut reported = 0;
    for at in (0..whole.len()).step_by(whole.len() / 300) {
        match flipped(&[at], 0x10) {
            Ok(rows) => assert_eq!(rows, 80, "byte {at}"),
            Err(error) => {
                assert!(error.remedy.is_some() && !error.message.is_empty());
                reported += 1;
            }
        }
    }
    assert!(reported > 150, "only {reported} of 300 flips were reported");
    let short = folder.path().join("short");
    std::fs::write(&short, &whole[..whole.len() / 2]).unwrap();
    assert!(Ledger::open(&short).and_then(|ledger| ledger.verify()).is_err());
}

#[test]
fn a_full_disk_refuses_the_trial_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger")).unwrap();
    let started = ledger.start(&trial("a", &["GOLD"], 0, 10)).unwrap();
    let pages: i64 = ledger.db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let limit =
        |pages: i64| ledger.db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0));
    limit(pages).unwrap();
    let large = json!("x".repeat(100_000));
    let error = ledger.finish(&started, &large, None).unwrap_err();
    assert!(error.kind == Kind::Machine && error.remedy.is_some(), "{error}");
    assert_eq!(ledger.verify().unwrap(), 1);
    limit(1 << 30).unwrap();
    ledger.finish(&started, &large, None).unwrap();
    assert_eq!(ledger.verify().unwrap(), 2);
}

#[test]
fn threads_lose_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                // All of them make it at once.
                let ledger = Ledger::open(path).unwrap();
                for i in 0..15 {
                    let started = ledger.start(&trial(&format!("{thread}-{i}"), &["GOLD"], 0, 10)).unwrap();
                    ledger.finish(&started, &json!(i), None).unwrap();
                }
            });
        }
    });
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.verify().unwrap(), 4 * 15 * 2);
    let family = ledger.family(&named(&["GOLD"]), span(0, 10)).unwrap();
    assert!(family.len() == 60 && family.iter().all(|row| matches!(row.outcome, Outcome::Finished { .. })));
}

const CHILD: &str = "FULLBORE_TEST_LEDGER";

/// This very test as another process, which writes trials into the ledger and says so until it is killed.
fn child(path: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger::tests::kills_lose_no_row_that_was_promised", "--nocapture"])
        .env(CHILD, path)
        .env("FULLBORE_TEST_NAME", name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn write_until_killed(path: &Path) -> ! {
    let name = std::env::var("FULLBORE_TEST_NAME").unwrap();
    let ledger = Ledger::open(path).unwrap();
    for i in 0.. {
        let started = ledger.start(&trial(&format!("{name}-{i}"), &["GOLD"], 0, 10)).unwrap();
        writeln!(std::io::stdout(), "started {} {}", started.row, started.hash).unwrap();
        ledger.finish(&started, &json!(i), None).unwrap();
        writeln!(std::io::stdout(), "finished {}", started.row).unwrap();
    }
    unreachable!("the loop has no end")
}

#[test]
fn kills_lose_no_row_that_was_promised() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let (mut started, mut finished) = (Vec::new(), Vec::new());
    for round in 0..6 {
        // Two at once; each is killed in the middle of whatever it does after so many lines.
        let mut children: Vec<Child> = (0..2).map(|which| child(&path, &format!("{round}-{which}"))).collect();
        let outputs: Vec<_> = children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
        for (which, (mut child, output)) in children.into_iter().zip(outputs).enumerate() {
            let mut left = 3 + 2 * round + which;
            let mut killed = false;
            for line in output.lines().map_while(Result::ok) {
                match line.split_whitespace().collect::<Vec<_>>()[..] {
                    ["started", row, hash] => started.push((row.parse::<u64>().unwrap(), hash.to_string())),
                    ["finished", row] => finished.push(row.parse::<u64>().unwrap()),
                    _ => continue,
                }
                left = left.saturating_sub(1);
                if left == 0 && !killed {
                    child.kill().unwrap();
                    killed = true;
                }
            }
            assert!(killed, "the child ended by itself");
            child.wait().unwrap();
        }
        let ledger = Ledger::open(&path).unwrap();
        ledger.verify().unwrap();
        let family = ledger.family(&named(&["GOLD"]), span(0, 10)).unwrap();
        let at = |row: u64| family.iter().find(|it| it.row == row);
        for (row, hash) in &started {
            let id = at(*row).map(|it| it.trial.id.clone()).expect("a start that was promised is there");
            ledger.holds(&ledger.db, &StartedTrial { row: *row, trial: id, hash: hash.clone() }).unwrap();
        }
        assert!(finished.iter().all(|row| matches!(at(*row).unwrap().outcome, Outcome::Finished { .. })));
        let crashed = family.iter().filter(|row| row.outcome == Outcome::Crashed).count();
        assert!(crashed <= 2 * (round + 1), "at most one a kill");
        assert!(family.len() >= started.len());
    }
    assert!(started.len() > 20);
}

/// Closes of a random walk, and the starts of bars of this length; `seed` tells walks apart.
fn walk(seed: u64, bars: usize, every: i64) -> (Vec<i64>, Vec<f64>) {
    let mut state = seed;
    let mut price = 100.0f64;
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    let close = (0..bars).map(|_| {
        price *= 1.0 + 0.01 * step(&mut state);
        price
    });
    let close = close.collect();
    ((0..bars as i64).map(|at| at * every).collect(), close)
}

const DAY: i64 = 86_400_000_000_000;

#[test]
fn a_series_is_known_by_its_returns() {
    let (start, close) = walk(1, 1000, DAY);
    let own = Series::new("GOLD", &start, &close, 1);
    let other = |close: &[f64]| Series::new("X", &start, close, 1);
    let scaled: Vec<f64> = close.iter().map(|c| c * 1.3579).collect();
    // Split four for one at a third, dividends now and then: single days differ.
    let adjusted: Vec<f64> = (0..1000).map(|at| close[at] * if at < 333 { 0.25 } else { 1.0 }).collect();
    let later: Vec<i64> = start.iter().map(|t| t + DAY / 3).collect();
    assert!(own.is_same(&other(&close)) && own.is_same(&other(&scaled)) && own.is_same(&other(&adjusted)));
    assert!(own.is_same(&Series::new("X", &later, &close, 1)), "read in another zone");
    // A part of it, longer data, and a set of many symbols, of which fewer times are kept.
    assert!(own.is_same(&Series::new("X", &start[900..], &close[900..], 1)));
    assert!(own.is_same(&Series::new("X", &start[..300], &close[..300], 500)));
    let (_, noise) = walk(2, 1000, DAY);
    let near: Vec<f64> = close.iter().zip(&noise).map(|(a, b)| a * (b / 100.0).powf(0.3)).collect();
    assert!(!own.is_same(&other(&noise)) && !own.is_same(&other(&near)) && !own.is_same(&other(&[5.0; 1000])));
    // Too few common days say nothing; hours do, where data are short.
    let (minutes, short) = walk(3, 10 * 288, DAY / 288);
    let hours = |from: usize| Series::new("X", &minutes[from..], &short[from..], 1);
    assert!(hours(0).is_same(&hours(1000)) && !hours(0).is_same(&own));
    let kept = Series::from_json("GOLD", &own.to_json()).unwrap();
    assert_eq!(kept, own);
    assert_eq!(Series::from_json("GOLD", &json!(["0", ""])), None);
}

#[test]
fn a_holdout_stays_locked_whatever_its_symbol_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
    let (start, close) = walk(1, 1000, DAY);
    let of = |name: &str, bars: std::ops::Range<usize>| vec![Series::new(name, &start[bars.clone()], &close[bars], 1)];
    let days = |from: i64, to: i64| span(from * DAY, to * DAY);
    let gold = of("GOLD", 0..800);
    let known = ledger.identify(&gold, days(0, 800)).unwrap();
    assert_eq!((known.names.as_slice(), known.locked_from()), (&named(&["GOLD"])[..], None));
    ledger.lock_holdout(&known, &gold, Some(days(700, 800))).unwrap();
    assert_eq!(ledger.verify().unwrap(), 2);
    // Under another name, and with more data behind it.
    let renamed = of("XAU", 0..1000);
    let known = ledger.identify(&renamed, days(0, 1000)).unwrap();
    assert_eq!((known.names.as_slice(), known.locked_from()), (&named(&["GOLD"])[..], Some(700 * DAY)));
    ledger.lock_holdout(&known, &renamed, Some(days(700, 1000))).unwrap();
    assert_eq!(ledger.verify().unwrap(), 4, "its returns reach further, and so does the lock");
    let known = ledger.identify(&of("Y", 900..1000), days(900, 1000)).unwrap();
    assert_eq!((known.names.as_slice(), known.locks.len()), (&named(&["GOLD"])[..], 1));
    ledger.lock_holdout(&known, &of("Y", 900..1000), Some(days(950, 1000))).unwrap();
    assert_eq!(ledger.verify().unwrap(), 4, "all of it is there already");
    // Data of before it is free, and another series of that name is another one.
    assert_eq!(ledger.identify(&of("GOLD", 0..500), days(0, 500)).unwrap().locked_from(), None);
    let (_, noise) = walk(2, 1000, DAY);
    let other = vec![Series::new("GOLD", &start, &noise, 1)];
    let known = ledger.identify(&other, days(0, 1000)).unwrap();
    assert_eq!((known.names.as_slice(), known.locked_from()), (&named(&["GOLD~2"])[..], None));
    // Released, it is ordinary for ever.
    let known = ledger.identify(&renamed, days(0, 1000)).unwrap();
    ledger.release_holdouts(&known).unwrap();
    let known = ledger.identify(&renamed, days(0, 1000)).unwrap();
    assert_eq!((known.locked_from(), known.released), (None, Some(1000 * DAY)));
}
