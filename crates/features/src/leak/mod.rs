//! The hunt for leaks: does any value know what was not known yet (docs/method.md, Leak tests)?
//!
//! A pipeline is a function from bars to values, ours or any other, and is asked six questions:
//!
//! - **prefix**: on a market that ends at a moment, are its rows the same to the bit as on the whole one? Every
//!   row is compared.
//! - **stream**: do the features that arrive bar by bar, and are saved and restored on the way, equal the batch to the
//!   bit? A stream cannot see the future, so this is the prefix test at every row.
//! - **poison**: bars after a moment become NaN, ten times as large, reversed, or another symbol's: is every row
//!   up to it as it was?
//! - **warm-up**: with the first bars left out, do values agree once they say that they have settled? They may
//!   differ by [`LeakTests::settle`] of the column's standard deviation over the sample; up to twenty times that is
//!   suspicious, for a jump of the price decays like any other start. No value comes before its column's `first_valid`,
//!   and one comes there unless none ever does.
//! - **clairvoyance**: does a column, or its change, go with the return of the bar after it (open to open)? This is
//!   what a user's own column with the answer in it looks like, which no cut can show. Beyond 0.3 (rank correlation) it
//!   is suspicious, beyond 0.9 it fails.
//! - **foresight**: does a column, or a pair of columns, tell the label in use, or the return over several bars, on
//!   the second half of the time as it did on the first? Beyond a directional correlation of 0.2, and beyond what
//!   chance gives the best of so many questions, it is suspicious; beyond 0.9 it fails. Three columns that tell it only
//!   together are not found.
//!
//! A label may look at the future, up to its `t1`: it is compared once its interval lies before the cut.

mod checks;
mod foresight;
mod market;
mod plan_pipeline;

pub use checks::CLAIRVOYANT;
pub use foresight::FORESIGHT;
pub use market::sample;
pub use plan_pipeline::PlanPipeline;

use crate::SETTLE;
use crate::labels::Labels;
use bars::Bars;
use files::{Error, Kind, Result};
use std::fmt;
use std::time::Duration;

/// What a pipeline gives for a market; rows are bars, symbol after symbol.
#[derive(Debug, Clone, Default)]
pub struct PipelineOutput {
    /// Values; names are unique.
    pub columns: Vec<Column>,
    /// `[clocks][rows]` which bar of its run a row is, 0 for the first; on a slower clock that of the slow bar which
    /// the row sees, `u32::MAX` for none. Only the warm-up test reads it.
    pub ages: Vec<Vec<u32>>,
    /// What there is to learn.
    pub labels: Option<Labels>,
    /// Columns that a stream says it cannot have, since they look at other symbols; the stream test leaves them out.
    pub unstreamed: Vec<String>,
}

/// One column of values.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// What it is called.
    pub name: String,
    /// `[rows]`, NaN where there is no value.
    pub values: Vec<f64>,
    /// What it says about its beginning; `None`: nothing, and the warm-up test leaves it out.
    pub warm: Option<WarmUp>,
}

/// What a column says about its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// Age of the first value of a run.
    pub first_valid: usize,
    /// Age from which the start of the run no longer matters, if every value since `first_valid` was there; `None`: it
    /// always does.
    pub settled: Option<usize>,
    /// Whether the first value may come later than `first_valid`: it waits for a session, a slower bar or a column of
    /// the user's.
    pub waits: bool,
    /// Which of the ages is meant.
    pub clock: usize,
}

/// Bars become values.
pub type Pipeline<'a> = dyn Fn(&[Bars]) -> Result<PipelineOutput> + Sync + 'a;

/// Who is under suspicion.
pub struct TestedPipeline<'a> {
    /// The pipeline.
    pub seen: &'a Pipeline<'a>,
    /// The same, bar by bar.
    pub stream: Option<&'a Pipeline<'a>>,
    /// The same in full precision, for the warm-up test; `None`: that test takes `seen`.
    pub exact: Option<&'a Pipeline<'a>>,
}

/// How long to look.
pub struct LeakTests<'a> {
    /// Moments at which the market is cut, and as many at which it is poisoned.
    pub cuts: usize,
    /// Times that the beginning is left out.
    pub starts: usize,
    /// What a settled value may depend on the start, in standard deviations of its column: that of the plan.
    pub settle: f64,
    /// The same seed looks at the same places.
    pub seed: u64,
    /// Each test ends early when its share of this is spent, after [`LEAST`] tries.
    pub budget: Option<Duration>,
    /// Told which test is under way, and how many tries of how many are done.
    pub progress: &'a (dyn Fn(&'static str, usize, usize) + Sync),
    /// Says when to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Every test tries at least this often, whatever the budget: each poison once.
pub const LEAST: usize = 4;

impl Default for LeakTests<'_> {
    fn default() -> Self {
        LeakTests {
            cuts: 100,
            starts: 20,
            settle: SETTLE,
            seed: 1,
            budget: None,
            progress: &|_, _, _| {},
            stop: &|| false,
        }
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// The market is cut.
    Prefix,
    /// Bars arrive one by one.
    Stream,
    /// Later bars are changed.
    Poison,
    /// The first bars are left out.
    WarmUp,
    /// Does a column know the next return?
    Clairvoyance,
    /// Does a column, or a pair, know the label?
    Foresight,
}

impl Test {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Test; 6] =
        [Test::Prefix, Test::Stream, Test::Poison, Test::WarmUp, Test::Clairvoyance, Test::Foresight];
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Test::Prefix => "prefix",
            Test::Stream => "stream",
            Test::Poison => "poison",
            Test::WarmUp => "warm-up",
            Test::Clairvoyance => "clairvoyance",
            Test::Foresight => "foresight",
        })
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was found.
    Passed,
    /// Look at it.
    Suspicious,
    /// It is a leak, or a warm-up that is not what was declared.
    Failed,
}

/// What was found in one column by one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The question.
    pub test: Test,
    /// Of which column.
    pub column: String,
    /// The answer.
    pub verdict: Verdict,
    /// Tries: cuts, poisons, starts; rows where all were looked at.
    pub tried: usize,
    /// Values that were compared, over all tries; 0: nothing could be said (too few bars to settle, say).
    pub compared: u64,
    /// Values that were not as they should be.
    pub wrong: u64,
    /// The worst of them.
    pub worst: Option<Case>,
}

/// One value that is not as it should be, or, where all is well, the one that came nearest to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Whose.
    pub symbol: String,
    /// When its row became known, in nanoseconds.
    pub time: i64,
    /// What was done to see it.
    pub what: String,
    /// On all the data.
    pub before: f64,
    /// After it was done.
    pub after: f64,
    /// How far apart, in the units of the test: values, standard deviations, correlation. Infinite where only one of
    /// the two exists.
    pub difference: f64,
}

/// Everything that was asked and answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeakReport {
    /// By test, then column.
    pub tests: Vec<Outcome>,
    /// Rows of the market.
    pub rows: usize,
    /// Columns that hold the level of a price. Where it was adjusted backwards, levels know of later splits, dividends
    /// and rolls, and no test here can tell.
    pub price_levels: Vec<String>,
}

impl LeakReport {
    /// The worst of all answers.
    pub fn verdict(&self) -> Verdict {
        self.tests.iter().map(|t| t.verdict).max().unwrap_or(Verdict::Passed)
    }

    /// The columns that did not pass a test.
    pub fn caught(&self, test: Test) -> Vec<&str> {
        let bad = self.tests.iter().filter(|t| t.test == test && t.verdict != Verdict::Passed);
        bad.map(|t| t.column.as_str()).collect()
    }
}

/// Asks a pipeline all questions on a market.
///
/// # Panics
///
/// If a column has more or fewer rows than the market.
pub fn run_leak_tests(market: &[Bars], suspect: &TestedPipeline<'_>, spec: &LeakTests<'_>) -> Result<LeakReport> {
    let rows = market.iter().map(Bars::len).sum();
    let whole = (suspect.seen)(market)?;
    whole.check(rows);
    let mut tests = checks::prefix(market, suspect.seen, &whole, spec)?;
    if let Some(stream) = suspect.stream {
        tests.extend(checks::stream(market, stream, &whole, spec)?);
    }
    tests.extend(checks::poison(market, suspect.seen, &whole, spec)?);
    tests.extend(checks::clairvoyance(market, &whole, spec)?);
    tests.extend(foresight::foresight(market, &whole, spec)?);
    let price_levels = foresight::price_levels(market, &whole);
    drop(whole);
    tests.extend(checks::warm_up(market, suspect.exact.unwrap_or(suspect.seen), spec)?);
    tests.sort_by_key(|t| t.test);
    Ok(LeakReport { tests, rows, price_levels })
}

impl PipelineOutput {
    fn check(&self, rows: usize) {
        for column in &self.columns {
            assert_eq!(column.values.len(), rows, "rows of {}", column.name);
            assert!(
                column.warm.is_none_or(|w| self.ages.get(w.clock).is_some_and(|a| a.len() == rows)),
                "{}",
                column.name
            );
        }
        assert!(self.labels.as_ref().is_none_or(|l| l.class.len() == rows), "rows of the labels");
    }
}

fn check_stop(spec: &LeakTests<'_>) -> Result<()> {
    if (spec.stop)() { Err(Error::new(Kind::Interrupted, "interrupted before everything was checked")) } else { Ok(()) }
}
