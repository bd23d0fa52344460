//! The table of batches and the choice among them; and the same for what only changes the pace.
//!
//! To the same loss a batch of `B` rows needs steps in proportion to `1 + N/B` (McCandlish et al. 2018; `N` is the
//! gradient noise scale), so its time is in proportion to `(B + N) / rate(B)`. The tuner is told the rows that help,
//! `rows × N / (B + N)`, so that what it calls the fastest is what arrives first, and where it stops early is where
//! time, not rate, gets worse.

use machine::{Candidate, CandidateRow, CandidateVerdict, Timer, Tuner, nearest_index};
use serde::Serialize;

/// Batches to try: powers of two, and the 3,072 that people use.
const BATCHES: [usize; 13] = [32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 8192, 16384, 32768, 65536];

/// Of batches that arrive within this part of the soonest the smallest is taken: it makes more steps, and the clock is
/// not sharper.
const AS_SOON: f64 = 1.03;

/// Something else than usual has to be so much faster.
const WORTH_IT: f64 = 1.05;

/// The largest batch where the noise scale is not known.
const CAP: usize = 3072;

/// One batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneRow {
    /// Rows, for each member.
    pub batch: usize,
    /// Members that the memory holds at once.
    pub members_at_once: usize,
    /// Bytes of them on the device.
    pub memory_bytes: u64,
    /// Rows of all members in a second; null where nothing was timed.
    pub samples_per_s: Option<f64>,
    /// Half of the repeats lie within this part of the median around it.
    pub spread: Option<f64>,
    /// Of what large matrix products reach here; null where `probe` has not measured it.
    pub share_of_limit: Option<f64>,
    /// Predicted time to the same loss, over that of the soonest.
    pub relative_time: Option<f64>,
    /// The one that was chosen.
    pub chosen: bool,
    /// Why it was not timed.
    pub note: Option<String>,
}

/// One choice that has nothing to do with the batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneOther {
    /// `threads`, `precision` or `members at once`.
    pub what: &'static str,
    /// Which.
    pub value: String,
    /// Rows of all members in a second; null where nothing was timed.
    pub samples_per_s: Option<f64>,
    /// The one that was chosen.
    pub chosen: bool,
    /// Why it was not timed.
    pub note: Option<String>,
}

/// A batch, and who would train with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) batch: usize,
    pub(super) members: usize,
    pub(super) bytes: u64,
}

/// How many of its rows a batch is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BatchValue {
    /// The noise scale, where it is known.
    pub(super) scale: Option<f64>,
    /// No batch beyond it.
    pub(super) cap: usize,
}

impl BatchValue {
    /// For data of so many samples in the smallest fold.
    pub(super) fn new(scale: Option<f64>, samples: usize) -> BatchValue {
        let cap = match scale {
            Some(scale) => scale.min(1e9) as usize,
            // At least 32 steps an epoch.
            None => (samples / 32).min(CAP),
        };
        BatchValue { scale, cap: cap.max(BATCHES[0]) }
    }

    /// The part of a batch's rows that help.
    fn part(&self, batch: usize) -> f64 {
        self.scale.map_or(1.0, |scale| scale / (scale + batch as f64))
    }
}

/// The batches that data of so many samples allow: at least eight steps an epoch.
pub(super) fn batches(samples: usize) -> impl Iterator<Item = usize> {
    BATCHES.into_iter().filter(move |batch| *batch <= (samples / 8).max(BATCHES[0]))
}

/// Times the sizes (rising) from the one nearest to `start` on, and chooses.
pub(super) fn table<E: std::fmt::Display>(
    tuner: &Tuner<'_>,
    sizes: &[Size],
    start: usize,
    value: BatchValue,
    mut measure: impl FnMut(&Size, &mut Timer<'_>, &dyn Fn(f64) -> f64) -> Result<(), E>,
) -> (Vec<TuneRow>, Option<usize>, Vec<CandidateRow>) {
    let tried = sizes.iter().filter(|s| s.batch <= value.cap);
    let candidates: Vec<Candidate<Size>> =
        tried.map(|s| Candidate { label: s.batch.to_string(), bytes: s.bytes, config: *s }).collect();
    let begin = nearest_index(&candidates.iter().map(|c| c.config.batch).collect::<Vec<_>>(), start);
    let tuned = tuner.tune("batch", &candidates, begin, |size, timer| {
        let part = value.part(size.batch);
        measure(size, timer, &|rows| rows * part)
    });
    let helps = |i: usize| tuned.rows.get(i).and_then(|row| row.units_per_s);
    let best = (0..candidates.len()).filter_map(helps).fold(0.0, f64::max);
    let mut rows: Vec<TuneRow> = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        let seen = tuned.rows.get(i);
        rows.push(TuneRow {
            batch: size.batch,
            members_at_once: size.members,
            memory_bytes: size.bytes,
            samples_per_s: helps(i).map(|rate| rate / value.part(size.batch)),
            spread: seen.and_then(|row| row.spread),
            share_of_limit: None,
            relative_time: helps(i).map(|rate| best / rate),
            chosen: false,
            note: match seen {
                None => Some(beyond(value)),
                Some(row) => why(row),
            },
        });
    }
    let chosen = rows.iter().position(|row| row.relative_time.is_some_and(|time| time <= AS_SOON));
    if let Some(chosen) = chosen {
        rows[chosen].chosen = true;
    }
    (rows, chosen, tuned.rows)
}

fn beyond(value: BatchValue) -> String {
    match value.scale {
        Some(_) => "larger than the noise scale: more rows would hardly help".into(),
        None => format!("larger than {}, the maximum when the noise scale is not known", value.cap),
    }
}

fn why(row: &CandidateRow) -> Option<String> {
    match row.verdict {
        CandidateVerdict::Plateau => Some("not timed: its neighbours were ever slower".into()),
        _ => row.why.clone(),
    }
}

/// Chooses among things that only change the pace: `usual`, unless another is clearly faster.
pub(super) fn others<C, E: std::fmt::Display>(
    tuner: &Tuner<'_>,
    what: &'static str,
    candidates: &[Candidate<C>],
    begin: usize,
    usual: usize,
    measure: impl FnMut(&C, &mut Timer<'_>) -> Result<(), E>,
) -> (Vec<TuneOther>, usize) {
    let tuned = tuner.tune(what, candidates, begin, measure);
    let rate = |i: usize| tuned.rows[i].units_per_s.unwrap_or(0.0);
    let chosen = tuned.winner.filter(|best| rate(*best) > WORTH_IT * rate(usual)).unwrap_or(usual);
    let row = |(i, row): (usize, &CandidateRow)| TuneOther {
        what,
        value: row.label.clone(),
        samples_per_s: row.units_per_s,
        chosen: i == chosen,
        note: why(row),
    };
    (tuned.rows.iter().enumerate().map(row).collect(), chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Clock, TimingLimits};
    use std::cell::Cell;
    use std::time::Duration;

    /// Stands still until work moves it.
    #[derive(Default)]
    struct Fake(Cell<f64>);

    impl Clock for Fake {
        fn now(&self) -> Duration {
            Duration::from_secs_f64(self.0.get())
        }
    }

    fn tuner<'a>(clock: &'a Fake, budget: u64) -> Tuner<'a> {
        Tuner {
            memory: None,
            machine: "m".into(),
            version: "1".into(),
            budget,
            fresh: true,
            limits: TimingLimits::default(),
            clock,
        }
    }

    /// A device that takes `1 / most` seconds for a row and `each` seconds for a step.
    fn run(most: f64, each: f64, scale: Option<f64>, samples: usize, budget: u64) -> (Vec<TuneRow>, Option<usize>) {
        let clock = Fake::default();
        let sizes: Vec<Size> = batches(samples).map(|batch| Size { batch, members: 4, bytes: batch as u64 }).collect();
        let value = BatchValue::new(scale, samples);
        let (rows, chosen, _) = table(&tuner(&clock, budget), &sizes, 512, value, |size, timer, helps| {
            timer.time(|| {
                let rows = size.batch as f64;
                clock.0.set(clock.0.get() + each + rows / most);
                Ok::<f64, String>(helps(rows))
            })
        });
        (rows, chosen.map(|i| sizes[i].batch))
    }

    #[test]
    fn the_fastest_batch_within_the_noise_scale_is_chosen() {
        // With 1 M rows a second and 1 ms a step, (B + N)(1/B + 1/1000) is least near B = sqrt(1000 N).
        for (scale, wanted) in [(64.0, 64), (250.0, 128), (1000.0, 512), (4000.0, 2048), (16_000.0, 3072)] {
            let (rows, chosen) = run(1e6, 1e-3, Some(scale), 1 << 20, u64::MAX);
            assert_eq!(chosen, Some(wanted), "{scale}: {rows:?}");
            let row = rows.iter().find(|r| r.chosen).unwrap();
            assert_eq!(Some(row.batch), chosen);
            let rate = row.batch as f64 / (1e-3 + row.batch as f64 / 1e6);
            assert!((row.samples_per_s.unwrap() / rate - 1.0).abs() < 1e-9, "{row:?}");
            for row in rows.iter().filter(|r| r.batch as f64 > scale) {
                assert!(row.samples_per_s.is_none() && row.note.as_ref().unwrap().contains("noise scale"), "{row:?}");
            }
        }
        // A scale below the smallest batch leaves the smallest.
        assert_eq!(run(1e6, 1e-3, Some(3.0), 1 << 20, u64::MAX).1, Some(32));
    }

    #[test]
    fn a_device_without_a_cost_of_a_step_takes_small_batches() {
        let (rows, chosen) = run(1e5, 0.0, Some(2000.0), 1 << 20, u64::MAX);
        // (32 + 2000) and (64 + 2000) are within 3 %, so the smallest; 1024 takes half as long again.
        assert_eq!(chosen, Some(32), "{rows:?}");
        let late = rows.iter().find(|r| r.batch == 1024).unwrap().relative_time.unwrap();
        assert!((late - 3024.0 / 2032.0).abs() < 1e-6, "{late}");
    }

    #[test]
    fn without_a_noise_scale_the_rate_decides_up_to_a_cap() {
        let (rows, chosen) = run(1e7, 1e-3, None, 1 << 20, u64::MAX);
        assert_eq!(chosen, Some(3072));
        assert!(rows.iter().find(|r| r.batch == 4096).unwrap().note.as_ref().unwrap().contains("3072"));
        // 20,000 samples: 32 steps an epoch are batches of 625 at most.
        assert_eq!(run(1e7, 1e-3, None, 20_000, u64::MAX).1, Some(512));
        // Where the rate is the same everywhere, the smallest does.
        assert_eq!(run(1e6, 0.0, None, 1 << 20, u64::MAX).1, Some(32));
    }

    #[test]
    fn batches_beyond_memory_are_not_chosen() {
        let (rows, chosen) = run(1e7, 1e-3, Some(1e9), 1 << 20, 600);
        assert_eq!(chosen, Some(512));
        let large = rows.iter().find(|r| r.batch == 1024).unwrap();
        assert!(large.samples_per_s.is_none() && large.note.as_ref().unwrap().contains("budget"), "{large:?}");
        assert_eq!(run(1e7, 1e-3, Some(1e9), 1 << 20, 1).1, None);
        // Few samples: at least eight steps an epoch, and always one batch to try.
        assert_eq!(batches(1000).collect::<Vec<_>>(), [32, 64]);
        assert_eq!(batches(3).collect::<Vec<_>>(), [32]);
    }

    #[test]
    fn pace_settings_keep_their_default_unless_another_is_clearly_faster() {
        let clock = Fake::default();
        let check = |rates: &[f64], usual: usize, wanted: usize| {
            let one = |(i, rate): (usize, &f64)| Candidate { label: i.to_string(), bytes: 0, config: *rate };
            let candidates: Vec<Candidate<f64>> = rates.iter().enumerate().map(one).collect();
            let (rows, chosen) = others(&tuner(&clock, 1), "threads", &candidates, usual, usual, |rate, timer| {
                timer.time(|| {
                    if *rate <= 0.0 {
                        return Err("it broke");
                    }
                    clock.0.set(clock.0.get() + 1.0 / rate);
                    Ok(1.0)
                })
            });
            assert_eq!(chosen, wanted, "{rates:?}");
            assert_eq!(rows.iter().map(|r| r.chosen).collect::<Vec<_>>(), {
                let mut marks = vec![false; rates.len()];
                marks[wanted] = true;
                marks
            });
        };
        check(&[10.0, 20.0], 1, 1);
        check(&[20.5, 20.0], 1, 1);
        check(&[30.0, 20.0], 1, 0);
        check(&[0.0, 20.0], 1, 1);
        check(&[20.0, 0.0], 1, 0);
        check(&[0.0, 0.0], 1, 1);
    }
}
