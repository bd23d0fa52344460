//! Labels: what became of a row, and when that was known (docs/method.md, Labels).
//!
//! The sample of row `t` is known at `t0 = end[t]` and enters at `open[t+1]`, never before. A [`Rule`] looks at the
//! bars after it and gives a class, -1, 0 or 1, and `t1`, the moment the class was known; a split purges by it. Costs
//! decide what counts as a move.
//!
//! **No label reads a bar that starts at or after its `t1`,** but for the one open that happens at `t1`.
//!
//! **Whether there is a label depends on rows, never on what happened.** The row `t+1+h` must exist in the same run
//! even where a barrier was touched long before: otherwise the end of the data would hold quick touches alone, and a
//! learner would take the end for lively. The same goes for a bar that opens before the row it follows is known (bars
//! that overlap): its open could not have been traded. Prices at or below zero have no logarithm; labels that would
//! need it are left out.

mod auto;
mod fixed;
mod rule;
#[cfg(test)]
pub(crate) mod tests;
mod trend;
mod triple;
mod weight;

pub use rule::Rule;
pub use triple::{Barriers, sigma};
pub use weight::weigh;

use crate::class;
use crate::clock::{Clock, known_times};
use bars::Bars;
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// The class of a row without a label.
pub const NONE: i8 = i8::MIN;

/// Rows that one core labels at a time: what a row gets depends on no other.
const PIECE: usize = 1 << 14;

/// The `t1` of a row without a label.
pub const NEVER: i64 = i64::MIN;

/// How to label.
#[derive(Debug, Clone, PartialEq)]
pub struct Labeling {
    /// What the future is asked.
    pub rule: Rule,
    /// What a round trip costs, in hundredths of a percent; `None` takes twice what a side of the instrument costs.
    pub cost_bp: Option<f64>,
    /// Bars over which σ of the triple barrier forgets.
    pub span: f64,
    /// Where the first training span ends; `auto` looks no further.
    pub first: TrainEnd,
    /// The longest horizon that `auto` may choose, in bars: a short series has no room for long labels.
    pub longest: usize,
}

/// Where the first training span ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrainEnd {
    /// After that share of the clock's times, for those who do not split (yet).
    Share(f64),
    /// At that moment, in nanoseconds since 1970 UTC: a label that was known then is the last that counts.
    Until(i64),
}

/// Of all times, where nobody says how they will be split: the 40 % before the first test block, less the 15 % of it
/// that validate, of what a holdout of 15 % and the rows at the end that have no label yet leave.
const SHARE: f64 = 0.28;

impl Default for Labeling {
    fn default() -> Labeling {
        let (first, longest) = (TrainEnd::Share(SHARE), auto::HORIZONS[auto::HORIZONS.len() - 1]);
        Labeling { rule: Rule::Auto, cost_bp: None, span: 100.0, first, longest }
    }
}

/// Labels of all rows, symbol after symbol.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// `[rows]` -1, 0, 1, or [`NONE`] where there is none: end of data, border of a run, warm-up of σ.
    pub class: Vec<i8>,
    /// `[rows]` when the class was known; [`NEVER`] where there is none.
    pub t1: Vec<i64>,
    /// `[rows]` average uniqueness, 0 where there is none.
    pub weight: Vec<f32>,
    /// The rule that was used, never `Auto`.
    pub rule: Rule,
    /// Labels that are flat because both barriers were touched inside one bar.
    pub both_touched: u64,
    /// Labels of each class: down, flat, up.
    pub balance: [u64; 3],
    /// What `auto` saw on the first training span: horizon, width and balance, in the order in which they were tried.
    pub tried: Vec<(usize, f64, [u64; 3])>,
    /// The moment at which that span ends: nothing that was known later had a say. `None` for other rules, and where
    /// there is no span.
    pub until: Option<i64>,
}

/// Labels the rows of a market on that many threads; the bits do not depend on their number.
///
/// `runs` are the rows of each symbol, counted from 0, that belong together: rising ranges that no label may cross.
///
/// # Panics
///
/// If the runs are not those of the market.
pub fn label(market: &[Bars], runs: &[Vec<Range<usize>>], spec: &Labeling, threads: usize) -> Result<Labels> {
    label_in(PIECE, market, runs, spec, threads)
}

/// [`label`], so many rows at a time.
fn label_in(
    piece: usize,
    market: &[Bars],
    runs: &[Vec<Range<usize>>],
    spec: &Labeling,
    threads: usize,
) -> Result<Labels> {
    spec.check()?;
    let rows: usize = market.iter().map(Bars::len).sum();
    if rows >= u32::MAX as usize {
        return Err(Error::input(format!("{rows} bars are more than can be labelled at once"))
            .remedy("take fewer symbols, a shorter time or longer bars"));
    }
    check_runs(market, runs);
    let pieces = |n: usize| (0..n).step_by(piece).map(move |from| from..n.min(from.saturating_add(piece)));
    let crew = Workers::new(threads.min(market.iter().map(|bars| pieces(bars.len()).len()).sum()))?;
    let paths = crew.map(market.iter().zip(runs).collect(), |(bars, runs)| Path::new(bars, runs, spec));

    let (rule, tried, until) = match spec.rule {
        Rule::Auto => {
            let until = auto::first_span(&Clock::new(market).times, spec.first);
            let upto = until.unwrap_or(i64::MIN);
            let known = |path: &Path| path.known.partition_point(|known| *known < upto);
            let (rule, tried) = auto::choose(spec.longest, auto::median_sigma(&paths, upto), |horizon, width| {
                let each = paths.iter().zip(runs).flat_map(|(p, r)| pieces(known(p)).map(move |rows| (p, r, rows)));
                let each = each.collect();
                let counts = crew.map(each, |(path, runs, rows)| auto::count(path, runs, rows, (horizon, width), upto));
                counts.into_iter().fold([0; 3], add)
            });
            (rule, tried, until)
        }
        rule => (rule, Vec::new(), None),
    };

    let (mut class, mut t1, mut weight) = (vec![NONE; rows], vec![NEVER; rows], vec![0.0; rows]);
    let mut last = vec![weight::NONE; rows];
    let mut jobs = Vec::with_capacity(market.len());
    let (mut classes, mut ends, mut lasts) = (&mut class[..], &mut t1[..], &mut last[..]);
    for (path, runs) in paths.iter().zip(runs) {
        for rows in pieces(path.start.len()) {
            let n = rows.len();
            let out = LabelsOut {
                class: classes.split_off_mut(..n).unwrap_or_default(),
                t1: ends.split_off_mut(..n).unwrap_or_default(),
                last: lasts.split_off_mut(..n).unwrap_or_default(),
            };
            jobs.push((path, runs, rows, out));
        }
    }
    let counts = crew.map(jobs, |(path, runs, rows, out)| path.label(runs, rule, rows, out));
    let (balance, both_touched) =
        counts.into_iter().fold(([0; 3], 0), |sum, count| (add(sum.0, count.0), sum.1 + count.1));
    let (mut lasts, mut weights) = (&last[..], &mut weight[..]);
    let each = paths.iter().map(|path| {
        let n = path.start.len();
        (lasts.split_off(..n).unwrap_or_default(), weights.split_off_mut(..n).unwrap_or_default())
    });
    crew.map(each.collect(), |(last, weight)| weight::uniqueness(last, weight));
    Ok(Labels { class, t1, weight, rule, both_touched, balance, tried, until })
}

impl Labeling {
    fn check(&self) -> Result<()> {
        let usage = |message: String, remedy: &str| Err(Error::new(Kind::Usage, message).remedy(remedy));
        if let Err(wrong) = self.rule.check() {
            return usage(wrong, "write auto, fixed(12), triple(24) or trend(48)");
        }
        match self.cost_bp {
            Some(cost) if !(0.0..=10_000.0).contains(&cost) => {
                return usage(format!("a round trip cannot cost {cost} bp"), "give 0 to 10000; 1 bp is 0.01 %");
            }
            _ => {}
        }
        if let TrainEnd::Share(share) = self.first
            && !(share > 0.0 && share < 1.0)
        {
            return usage(
                format!("a first training span of {share} of the time is not possible"),
                "give a share between 0 and 1",
            );
        }
        if !(self.span >= 1.0 && self.span.is_finite()) {
            return usage(format!("a span of {} bars is not possible", self.span), "give 1 or more; 100 is usual");
        }
        Ok(())
    }
}

/// The label of one row.
struct Mark {
    class: i8,
    /// Last bar it spans; the first is `t + 1`.
    last: usize,
    t1: i64,
    both: bool,
}

/// Where the labels of some rows of a symbol go, `[n]` each.
struct LabelsOut<'a> {
    class: &'a mut [i8],
    t1: &'a mut [i64],
    /// The last bar each spans, from the symbol's first.
    last: &'a mut [u32],
}

/// One symbol as the rules see it, `[n]` each.
struct Path<'a> {
    start: &'a [i64],
    known: Cow<'a, [i64]>,
    open: &'a [f64],
    high: &'a [f64],
    low: &'a [f64],
    /// Of the triple barrier; empty for other rules.
    sigma: Vec<f64>,
    /// For trends; empty for other rules.
    log_open: Vec<f64>,
    /// Of a round trip, as a log move.
    cost: f64,
}

impl<'a> Path<'a> {
    fn new(bars: &'a Bars, runs: &[Range<usize>], spec: &Labeling) -> Path<'a> {
        let (mut sigma, mut log_open) = (Vec::new(), Vec::new());
        match spec.rule {
            Rule::Auto | Rule::Triple { .. } => sigma = triple::sigma(&bars.close, runs, spec.span),
            Rule::Trend { .. } => log_open = bars.open.iter().map(|open| open.ln()).collect(),
            Rule::Fixed { .. } => {}
        }
        Path {
            start: &bars.start,
            known: known_times(&bars.end),
            open: &bars.open,
            high: &bars.high,
            low: &bars.low,
            sigma,
            log_open,
            cost: round_trip_cost(spec, bars),
        }
    }

    /// Labels some rows of the symbol; how many of each class, and how often both barriers were touched.
    fn label(&self, runs: &[Range<usize>], rule: Rule, rows: Range<usize>, out: LabelsOut) -> ([u64; 3], u64) {
        let LabelsOut { class, t1, last } = out;
        let (mut balance, mut both) = ([0; 3], 0);
        let mut note = |t: usize, mark: Mark| {
            let at = t - rows.start;
            class[at] = mark.class;
            t1[at] = mark.t1;
            last[at] = mark.last as u32;
            balance[usize::from(class::index(mark.class, 3))] += 1;
            both += u64::from(mark.both);
        };
        match rule {
            Rule::Auto => unreachable!("auto was resolved"),
            Rule::Fixed { horizon: h } => self.each(runs, h, &rows, |t| fixed::mark(self, t, h), &mut note),
            Rule::Triple { horizon: h, width } => {
                self.each(runs, h, &rows, |t| triple::mark(self, t, h, width), &mut note);
            }
            Rule::Trend { longest } => {
                let scan = trend::Scan::new(longest);
                self.each(runs, longest, &rows, |t| scan.mark(self, t), &mut note);
            }
        }
        (balance, both)
    }

    /// Marks each of these rows that can have a label: its horizon ends inside its run, and its entry could be traded.
    fn each(
        &self,
        runs: &[Range<usize>],
        horizon: usize,
        rows: &Range<usize>,
        mark: impl Fn(usize) -> Option<Mark>,
        mut note: impl FnMut(usize, Mark),
    ) {
        for run in runs {
            for t in run.start.max(rows.start)..run.end.saturating_sub(1 + horizon).min(rows.end) {
                if self.start[t + 1] >= self.known[t]
                    && let Some(mark) = mark(t)
                {
                    note(t, mark);
                }
            }
        }
    }

    /// The class of a move from a price to the open of a bar, flat unless it exceeds `least`; `None` where it has no
    /// logarithm.
    fn settle(&self, entry: f64, bar: usize, least: f64) -> Option<i8> {
        let moved = (self.open[bar] / entry).ln();
        let sided = entry > 0.0 && moved.is_finite();
        sided.then_some(if moved > least { 1 } else { -i8::from(moved < -least) })
    }
}

/// What a round trip costs, as a log move.
fn round_trip_cost(spec: &Labeling, bars: &Bars) -> f64 {
    // A rebate above the spread is no reason to call a loss a gain.
    spec.cost_bp.unwrap_or_else(|| (2.0 * bars.instrument.costs.side_bp()).max(0.0)) * 1e-4
}

/// Who does the work: a pool, or this thread alone.
struct Workers(Option<rayon::ThreadPool>);

impl Workers {
    fn new(threads: usize) -> Result<Workers> {
        if threads <= 1 {
            return Ok(Workers(None));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(1024)).build();
        pool.map(|pool| Workers(Some(pool)))
            .map_err(|e| Error::new(Kind::Machine, format!("threads could not be started: {e}")).remedy("give fewer"))
    }

    /// Answers in the order of the questions.
    fn map<T: Send, R: Send>(&self, items: Vec<T>, work: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
        match &self.0 {
            Some(pool) => pool.install(|| items.into_par_iter().map(work).collect()),
            None => items.into_iter().map(work).collect(),
        }
    }
}

fn add(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn check_runs(market: &[Bars], runs: &[Vec<Range<usize>>]) {
    assert_eq!(runs.len(), market.len(), "runs belong to another market");
    for (bars, runs) in market.iter().zip(runs) {
        let mut end = 0;
        for run in runs {
            assert!(end <= run.start && run.start <= run.end, "runs of {} do not rise: {run:?}", bars.symbol);
            end = run.end;
        }
        assert!(end <= bars.len(), "runs of {} reach beyond its {} bars", bars.symbol, bars.len());
    }
}
