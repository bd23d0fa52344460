//! A clock that only moves when work moves it, and work of a known rate.

use super::*;
use std::cell::Cell;
use std::path::Path;

/// Stands still until it is told.
#[derive(Default)]
struct Fake(Cell<Duration>);

impl Fake {
    fn pass(&self, seconds: f64) {
        self.0.set(self.0.get() + Duration::from_secs_f64(seconds));
    }
}

impl Clock for Fake {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

fn tuner<'a>(clock: &'a Fake, memory: Option<&Path>) -> Tuner<'a> {
    Tuner {
        memory: memory.map(Path::to_path_buf),
        machine: "m".into(),
        version: "1".into(),
        budget: 1000,
        fresh: false,
        limits: TimingLimits::default(),
        clock,
    }
}

/// Candidates `c0`, `c1`, … of these rates, each 100 bytes larger than the one before; zero or less fails.
fn candidates(rates: &[f64]) -> Vec<Candidate<f64>> {
    let one =
        |(i, rate): (usize, &f64)| Candidate { label: format!("c{i}"), bytes: 100 * (i as u64 + 1), config: *rate };
    rates.iter().enumerate().map(one).collect()
}

/// Tunes over work that takes exactly as long as its rate says, and gives how often it was run.
fn run(tuner: &Tuner<'_>, clock: &Fake, rates: &[f64], begin: usize) -> (TuneResult, usize) {
    let mut runs = 0;
    let tuned = tuner.tune("work", &candidates(rates), begin, |rate, timer| {
        // Setting up takes an hour that must not count.
        clock.pass(3600.0);
        timer.time(|| {
            runs += 1;
            if *rate <= 0.0 {
                return Err(format!("it broke at {rate}"));
            }
            clock.pass(0.5 / rate);
            Ok(0.5)
        })
    });
    (tuned, runs)
}

fn verdicts(tuned: &TuneResult) -> String {
    let letter = |row: &CandidateRow| match row.verdict {
        CandidateVerdict::Best => 'B',
        CandidateVerdict::Slower => 's',
        CandidateVerdict::Plateau => 'p',
        CandidateVerdict::TooLarge => 'L',
        CandidateVerdict::Failed => 'F',
    };
    tuned.rows.iter().map(letter).collect()
}

#[test]
fn tuner_searches_both_ways_and_stops_on_a_plateau() {
    let clock = Fake::default();
    let check = |rates: &[f64], begin: usize, winner: Option<usize>, expected: &str| {
        let (tuned, _) = run(&tuner(&clock, None), &clock, rates, begin);
        assert_eq!((tuned.winner, &*verdicts(&tuned)), (winner, expected), "{rates:?} from {begin}");
        assert!(!tuned.remembered && tuned.warnings.is_empty());
    };
    check(&[], 0, None, "");
    check(&[], 7, None, "");
    check(&[10.0], 0, Some(0), "B");
    check(&[10.0, 20.0, 30.0, 40.0], 0, Some(3), "sssB");
    check(&[10.0, 20.0, 18.0, 17.0, 99.0], 0, Some(1), "sBssp");
    // One worse, then one as good: no plateau yet.
    check(&[10.0, 20.0, 18.0, 19.5, 18.0, 99.0], 0, Some(5), "sssssB");
    // Within 5 % is not worse.
    check(&[20.0, 19.5, 19.4, 19.3, 19.2], 0, Some(0), "Bssss");
    // From a starting point: up to the plateau, then down to one.
    check(&[1.0, 30.0, 50.0, 40.0, 30.0, 20.0, 10.0], 2, Some(2), "ssBsspp");
    check(&[1.0, 2.0, 30.0, 60.0, 50.0, 40.0, 30.0], 4, Some(3), "pssBsss");
    check(&[10.0, 20.0], 99, Some(1), "sB");
    // Equal rates: the one met first.
    check(&[10.0, 10.0], 0, Some(0), "Bs");
}

#[test]
fn sizes_read_the_same_in_every_room() {
    for n in [0, 1, 900, 1 << 10, 104_600, 64 << 20, 512 << 20, 3 << 29, 5 << 40] {
        let (what, device, fits) = Default::default();
        let error = compute::Error::Memory { what, device, needed: n, budget: n, fits }.to_string();
        assert!(error.contains(&format!(" needs {} of ", files::format_bytes(n))), "{error}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_figure_and_never_run() {
    let clock = Fake::default();
    let mut tight = tuner(&clock, None);
    tight.budget = 250;
    let (tuned, _) = run(&tight, &clock, &[10.0, 20.0, 30.0, 0.0], 3);
    assert_eq!((tuned.winner, &*verdicts(&tuned)), (Some(1), "sBLL"));
    let why = tuned.rows[2].why.as_deref().expect("a reason");
    assert!(why.contains("300 bytes") && why.contains("250 bytes"), "{why}");
    tight.budget = 0;
    let (tuned, runs) = run(&tight, &clock, &[10.0, 20.0], 0);
    assert_eq!((tuned.winner, &*verdicts(&tuned), runs), (None, "LL", 0));
}

#[test]
fn failed_candidate_does_not_stop_tuning() {
    let clock = Fake::default();
    let (tuned, _) = run(&tuner(&clock, None), &clock, &[-1.0, 20.0, -2.0, 30.0], 0);
    assert_eq!((tuned.winner, &*verdicts(&tuned)), (Some(3), "FsFB"));
    assert_eq!(tuned.rows[2].why.as_deref(), Some("it broke at -2"));
    assert_eq!((tuned.rows[2].units_per_s, tuned.rows[2].spread), (None, None));
    let (tuned, _) = run(&tuner(&clock, None), &clock, &[-1.0, -2.0], 0);
    assert_eq!((tuned.winner, &*verdicts(&tuned)), (None, "FF"));
    // A closure that times nothing, and work that does nothing.
    let ones = candidates(&[1.0]);
    let idle = tuner(&clock, None).tune("work", &ones, 0, |_, _| Ok::<(), String>(()));
    assert_eq!(idle.rows[0].why.as_deref(), Some("nothing was timed"));
    let empty = tuner(&clock, None).tune("work", &ones, 0, |_, timer| timer.time(|| Ok::<f64, String>(0.0)));
    assert_eq!((empty.winner, empty.rows[0].why.as_deref()), (None, Some("a run did no work")));
}

#[test]
fn it_warms_up_and_repeats_until_the_spread_is_small() {
    let clock = Fake::default();
    let check = |times: &dyn Fn(usize) -> f64, repeats: usize, rate: f64| {
        let mut run = 0;
        let tuned = tuner(&clock, None).tune("work", &candidates(&[1.0]), 0, |_, timer| {
            timer.time(|| {
                clock.pass(times(run));
                run += 1;
                Ok::<f64, String>(2.0)
            })
        });
        let row = &tuned.rows[0];
        assert_eq!((row.repeats, run), (repeats, repeats + 2), "two warm-ups");
        assert!((row.units_per_s.unwrap_or(0.0) - rate).abs() < 1e-6 * rate, "{row:?}");
    };
    check(&|_| 0.001, 3, 2000.0);
    // A slow start is warm-up and does not count.
    check(&|run| if run < 2 { 9.0 } else { 0.001 }, 3, 2000.0);
    // One bad run among many is outvoted.
    check(&|run| if run == 3 { 0.01 } else { 0.001 }, 5, 2000.0);
    // Never steady: the cap ends it.
    check(&|run| if run % 2 == 0 { 0.001 } else { 0.002 }, 30, 1500.0);
    // Slow work is run once more after its warm-up, no longer.
    check(&|_| 5.0, 1, 0.4);
    // A clock too coarse to see it gives a rate all the same.
    check(&|_| 0.0, 3, 2e9);
}

#[test]
fn the_spread_is_that_of_the_middle_half() {
    assert_eq!(median_and_spread(&[4.0]), (4.0, 0.0));
    assert_eq!(median_and_spread(&[1.0, 3.0]), (2.0, 0.5));
    assert_eq!(median_and_spread(&[5.0, 1.0, 3.0, 2.0, 4.0]), (3.0, 2.0 / 3.0));
}

#[test]
fn winner_is_saved_per_machine_workload_and_version() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("deep/er/tuned.json");
    let clock = Fake::default();
    let rates = [10.0, 30.0, 20.0];
    let again = |change: &dyn Fn(&mut Tuner<'_>)| {
        let mut tuner = tuner(&clock, Some(&path));
        change(&mut tuner);
        let (tuned, runs) = run(&tuner, &clock, &rates, 0);
        assert!(tuned.warnings.is_empty(), "{:?}", tuned.warnings);
        assert_eq!(tuned.remembered, runs == 0);
        (tuned.winner, tuned.remembered)
    };
    assert_eq!(again(&|_| {}), (Some(1), false));
    assert_eq!(again(&|_| {}), (Some(1), true));
    assert_eq!(again(&|t| t.machine = "other".into()), (Some(1), false));
    assert_eq!(again(&|t| t.fresh = true), (Some(1), false));
    assert_eq!(again(&|_| {}), (Some(1), true), "others beside it did not take its place");
    assert_eq!(again(&|t| t.budget = 150), (Some(0), false), "the winner no longer fits");
    assert_eq!(again(&|_| {}), (Some(0), true));
    assert_eq!(again(&|t| t.version = "2".into()), (Some(1), false), "another version is measured anew");
    assert_eq!(again(&|t| t.version = "2".into()), (Some(1), true));
    // Another workload knows nothing of it; a winner that is no candidate any more does not count.
    let tuner = tuner(&clock, Some(&path));
    let other = tuner.tune("play", &candidates(&[1.0]), 0, |_, timer| timer.time(|| Ok::<f64, String>(1.0)));
    assert!(!other.remembered);
    assert!(!run(&tuner, &clock, &[10.0], 0).0.remembered);
}

#[test]
fn table_is_saved_and_failures_do_not_win() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("tuned.json");
    let clock = Fake::default();
    let tuner = tuner(&clock, Some(&path));
    assert_eq!(run(&tuner, &clock, &[-1.0], 0).0.winner, None);
    assert!(!path.exists(), "nothing won, nothing is kept");
    let first = run(&tuner, &clock, &[10.0, -1.0, 20.0], 0).0;
    let second = run(&tuner, &clock, &[10.0, -1.0, 20.0], 0).0;
    assert!(second.remembered && second.rows == first.rows);
}

#[test]
fn damaged_tuned_file_is_set_aside() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("tuned.json");
    let clock = Fake::default();
    for (i, damage) in
        ["{\"schema\": \"tuned/1\", \"entr", "\u{0}", "{\"schema\": \"tuned/9\", \"entries\": []}"].iter().enumerate()
    {
        std::fs::write(&path, damage).expect("damaged");
        let (tuned, _) = run(&tuner(&clock, Some(&path)), &clock, &[10.0, 20.0], 0);
        assert_eq!((tuned.winner, tuned.remembered), (Some(1), false));
        assert!(tuned.warnings.len() == 1 && tuned.warnings[0].contains("set aside"), "{:?}", tuned.warnings);
        let kept = std::fs::read_to_string(home.path().join(format!("tuned.json.damaged-{}", i + 1)));
        assert_eq!(kept.expect("set aside"), *damage);
        assert!(run(&tuner(&clock, Some(&path)), &clock, &[10.0, 20.0], 0).0.remembered);
    }
}

#[test]
fn unwritable_tuned_file_is_a_warning() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("file");
    std::fs::write(&file, "in the way").expect("written");
    let clock = Fake::default();
    let (tuned, _) = run(&tuner(&clock, Some(&file.join("tuned.json"))), &clock, &[10.0, 20.0], 0);
    assert_eq!(tuned.winner, Some(1));
    assert!(tuned.warnings.iter().any(|w| w.contains("could not be saved")), "{:?}", tuned.warnings);
}

#[test]
fn concurrent_tuners_keep_both_winners() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("tuned.json");
    std::thread::scope(|scope| {
        for machine in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let clock = Fake::default();
                let mut tuner = tuner(&clock, Some(path));
                tuner.machine = format!("machine {machine}");
                assert_eq!(run(&tuner, &clock, &[10.0, 20.0], 0).0.winner, Some(1));
            });
        }
    });
    assert_eq!(tuned_store::load(&path, &mut Vec::new()).len(), 8);
}

#[test]
fn system_clock_is_monotonic() {
    let clock = SystemClock::default();
    let before = clock.now();
    assert!(clock.now() >= before);
}
