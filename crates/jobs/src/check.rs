//! `check lookahead`: does any column of the user's own set know what was not known yet (docs/method.md, Leak tests)?

use crate::features::resolve;
use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::train::{Market, load_market};
use crate::{Select, Settings, find};
use bars::{Bars, Timeframe};
use features::leak::{
    Case, LeakReport, LeakTests, PlanPipeline, Test, TestedPipeline, Verdict, run_leak_tests, sample,
};
use features::{Plan, read_set};
use files::time::rfc3339;
use files::{Error, Kind, Result, format_bytes, format_plural};
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to look at, and in what; how labels are made is in the settings.
#[derive(Debug, Clone, Default)]
pub struct Check {
    /// What to read.
    pub select: Select,
    /// A preset, a file, or the features themselves.
    pub set: String,
    /// Moments at which the market is cut, and as many at which it is poisoned; `None`: as many as 20 seconds allow,
    /// 1,000 at most.
    pub cuts: Option<usize>,
    /// Every symbol and every bar, however long it takes.
    pub all: bool,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The path that was read.
    pub data: String,
    /// The set as it was given.
    pub set: String,
    /// The label as it was used; null without labels.
    pub label: Option<String>,
    /// The worst of all verdicts.
    pub verdict: Verdict,
    /// Symbols that were looked at.
    pub symbols: u64,
    /// Symbols of the data.
    pub all_symbols: u64,
    /// Bars that were looked at.
    pub rows: u64,
    /// Bars of the data.
    pub all_rows: u64,
    /// Length of a bar.
    pub timeframe: String,
    /// One entry a test.
    pub tests: Vec<Tested>,
    /// Which tests could judge each column: those that had bars enough for it.
    pub columns: Vec<ColumnTests>,
    /// What the audit found; what could not be looked at, and why.
    pub notes: Vec<String>,
    /// Root of what was looked at.
    pub seed: u64,
    /// Wall clock without reading.
    pub seconds: f64,
}

/// A column and the tests that could judge it.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnTests {
    /// Its name.
    pub column: String,
    /// Tests that compared something of it.
    pub judged_by: Vec<Test>,
}

impl Checked {
    /// Whether something knows the future, or may: a warm-up that is longer than declared is no look ahead.
    pub fn is_leak(&self) -> bool {
        let suspicious = |t: &Tested| t.verdict == Verdict::Suspicious && t.test != Test::WarmUp;
        self.tests.iter().any(|t| t.verdict == Verdict::Failed || suspicious(t))
    }
}

/// One test over all columns.
#[derive(Debug, Clone, Serialize)]
pub struct Tested {
    /// Which.
    pub test: Test,
    /// Columns it was put to, labels among them.
    pub columns: u64,
    /// Columns of which it could say nothing: too few bars for them to settle, or for a correlation.
    pub silent: u64,
    /// Cuts, poisons or starts; rows for the stream and the correlation.
    pub tried: u64,
    /// Values that were compared.
    pub compared: u64,
    /// The worst of its columns.
    pub verdict: Verdict,
    /// Columns that did not pass, the worst first.
    pub caught: Vec<Caught>,
    /// The largest difference that still passed, for tests that allow one; else null.
    pub largest: Option<f64>,
    /// The most that passes, for those tests.
    pub allowed: Option<f64>,
}

/// A column that did not pass.
#[derive(Debug, Clone, Serialize)]
pub struct Caught {
    /// Its name.
    pub column: String,
    /// How bad.
    pub verdict: Verdict,
    /// Values that were not as they should be.
    pub wrong: u64,
    /// Whose value was the worst.
    pub symbol: String,
    /// When its row became known.
    pub time: String,
    /// What was done to see it.
    pub what: String,
    /// On all the data; null: no value.
    pub before: Option<f64>,
    /// After it was done; null: no value.
    pub after: Option<f64>,
}

/// Time for the tests when nothing is said.
const BUDGET: Duration = Duration::from_secs(20);
/// A correlation with the next return that is not suspicious yet.
const CORRELATION: f64 = features::leak::CLAIRVOYANT.0;
/// Symbols of a sample.
const SYMBOLS: usize = 8;
/// Values of a sample.
const VALUES: usize = 6_000_000;
/// Cuts at most when nothing is said.
const CUTS: usize = 1000;

/// Hunts for leaks; writes nothing.
pub fn check(request: &Check, settings: &Settings, sink: Sink<'_>) -> Result<Checked> {
    let plan = resolve(&read_set(&request.set)?, settings)?;
    let path = find(&request.select.data)?;
    let Market { bars: whole, timeframe, others, findings, .. } = load_market(&path, &request.select, settings, sink)?;
    check_stop()?;
    let (all_symbols, all_rows) = (whole.len() as u64, whole.iter().map(|b| b.len() as u64).sum());
    let market = if request.all { whole } else { some(&whole, &plan, timeframe) };
    fits(&market, &plan, settings)?;

    let clock = Instant::now();
    let pipeline =
        PlanPipeline::new(&market, &plan, settings.labeling(), settings.features.max_hole, settings.threads())?;
    let (seen, exact, live) =
        (|m: &[Bars]| pipeline.batch(m), |m: &[Bars]| pipeline.exact(m), |m: &[Bars]| pipeline.stream(m));
    let in_order = market.iter().all(|bars| bars.end.is_sorted_by(|a, b| a < b));
    let cuts = request.cuts.unwrap_or(CUTS);
    let stop = stop_flag();
    let sink = Mutex::new(sink);
    let spec = LeakTests {
        cuts,
        starts: cuts.div_ceil(5).max(4),
        settle: settings.features.settle,
        seed: settings.general.seed,
        budget: (request.cuts.is_none() && !request.all).then_some(BUDGET),
        progress: &|phase, done, total| {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink(Update { phase, done: done as u64, total: total as u64, unit: "" });
        },
        stop: &|| stop.load(Ordering::Relaxed),
    };
    let stream: Option<&features::leak::Pipeline<'_>> = if in_order { Some(&live) } else { None };
    let leaks = run_leak_tests(&market, &TestedPipeline { seen: &seen, stream, exact: Some(&exact) }, &spec)?;

    let mut notes = findings;
    if !in_order {
        notes.push("bars of these data end out of order, so they cannot be streamed".to_string());
    }
    if !pipeline.without_volume().is_empty() {
        notes.push(format!("not checked: {}: the data have no volume", pipeline.without_volume().join(", ")));
    }
    if !pipeline.without_market().is_empty() {
        let names = pipeline.without_market().join(", ");
        let many = if market.len() == 1 { "1 symbol is".to_string() } else { format!("{} symbols are", market.len()) };
        notes.push(format!("not checked: {names}: {many} too few for market features"));
    }
    if !others.is_empty() {
        notes.push(format!("bars of {} were left out: a table has one timeframe", others.join(", ")));
    }
    if !leaks.price_levels.is_empty() {
        let names = leaks.price_levels.join(", ");
        notes.push(format!(
            "not judged: whether prices were adjusted backwards. The level of such a price knows of later splits, \
             dividends and rolls, and no test can tell; these columns hold one: {names}. Take ratios instead, as in \
             `close / sma(20) - 1`"
        ));
    }
    let never = leaks.tests.iter().filter(|t| t.test == Test::WarmUp && t.compared == 0).count();
    if never > 0 {
        notes.push(format!(
            "{} not seen to settle: never settling, or too few bars",
            format_plural(never as u64, "column")
        ));
    }
    Ok(Checked {
        data: path.display().to_string(),
        set: request.set.clone(),
        label: pipeline.rule().map(|rule| rule.to_string()),
        verdict: leaks.verdict(),
        symbols: market.len() as u64,
        all_symbols,
        rows: leaks.rows as u64,
        all_rows,
        timeframe: timeframe.to_string(),
        columns: judged_by(&leaks),
        tests: Test::ALL.into_iter().filter_map(|test| tested(&leaks, test, settings.features.settle)).collect(),
        notes,
        seed: settings.general.seed,
        seconds: clock.elapsed().as_secs_f64(),
    })
}

/// A sample of a market: as many symbols as any feature looks at, each long enough for what looks back furthest, and
/// one with volume if the market has any.
fn some(whole: &[Bars], plan: &Plan, timeframe: Timeframe) -> Vec<Bars> {
    let least = plan.symbols();
    let symbols = least.max(SYMBOLS).min(whole.len().max(1));
    let deep = plan.reach(timeframe).saturating_mul(2);
    let bars = (VALUES / plan.width().max(1)).max(deep.saturating_mul(symbols));
    let mut market = sample(whole, SYMBOLS, least, bars);
    if market.iter().all(|b| b.volume.is_empty()) {
        let loud: Vec<Bars> = whole.iter().filter(|b| !b.volume.is_empty()).cloned().collect();
        if let (Some(last), Some(one)) = (market.last_mut(), sample(&loud, 1, 1, bars / symbols).pop()) {
            *last = one;
        }
    }
    market
}

/// Which tests compared something of each column, in the order of the columns.
fn judged_by(leaks: &LeakReport) -> Vec<ColumnTests> {
    let mut columns: Vec<ColumnTests> = Vec::new();
    for outcome in &leaks.tests {
        let at = columns.iter().position(|c| c.column == outcome.column).unwrap_or_else(|| {
            columns.push(ColumnTests { column: outcome.column.clone(), judged_by: Vec::new() });
            columns.len() - 1
        });
        if outcome.compared > 0 {
            columns[at].judged_by.push(outcome.test);
        }
    }
    columns
}

/// The columns of one test, summed up; `None` where it was not put. `settle` is what the warm-up allows.
fn tested(leaks: &LeakReport, test: Test, settle: f64) -> Option<Tested> {
    let of: Vec<_> = leaks.tests.iter().filter(|t| t.test == test).collect();
    let apart = |worst: &Option<Case>| worst.as_ref().map_or(0.0, |w| w.difference);
    let mut bad: Vec<_> = of.iter().filter(|t| t.verdict != Verdict::Passed).collect();
    bad.sort_by(|a, b| b.verdict.cmp(&a.verdict).then(apart(&b.worst).total_cmp(&apart(&a.worst))));
    let some = |value: f64| value.is_finite().then_some(value);
    let caught = bad.into_iter().filter_map(|t| {
        let worst = t.worst.as_ref()?;
        Some(Caught {
            column: t.column.clone(),
            verdict: t.verdict,
            wrong: t.wrong,
            symbol: worst.symbol.clone(),
            time: rfc3339(worst.time),
            what: worst.what.clone(),
            before: some(worst.before),
            after: some(worst.after),
        })
    });
    let allowed = match test {
        Test::WarmUp => Some(settle),
        Test::Clairvoyance => Some(CORRELATION),
        Test::Foresight => Some(features::leak::FORESIGHT.0),
        Test::Prefix | Test::Stream | Test::Poison => None,
    };
    let fine = of.iter().filter(|t| t.verdict == Verdict::Passed).map(|t| apart(&t.worst));
    Some(Tested {
        test,
        columns: of.len() as u64,
        silent: of.iter().filter(|t| t.compared == 0).count() as u64,
        tried: of.first()?.tried as u64,
        compared: of.iter().map(|t| t.compared).sum(),
        verdict: of.iter().map(|t| t.verdict).max()?,
        caught: caught.collect(),
        largest: allowed.map(|_| fine.fold(0.0, f64::max)),
        allowed,
    })
}

/// An error if two sets of values would not fit into the budget.
fn fits(market: &[Bars], plan: &Plan, settings: &Settings) -> Result<()> {
    let values = market.iter().map(Bars::len).sum::<usize>() as f64 * (plan.width() + 8) as f64;
    let (need, budget) = (values * 28.0, settings.general.memory.bytes() as f64);
    if need <= budget {
        return Ok(());
    }
    Err(Error::new(
        Kind::Memory,
        format!(
            "the check takes {}, more than the {} that may be used",
            format_bytes(need as u64),
            format_bytes(budget as u64)
        ),
    )
    .remedy("leave <all> out, or take fewer symbols or a shorter time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::synth::Synth;

    #[test]
    fn a_sample_has_what_the_features_need() {
        let mut market = Synth { symbols: 30, bars: 400, ..Synth::default() }.make_market(1).market;
        let timeframe = market[0].timeframe;
        let plan = |set: &str| Plan::new(&read_set(set).unwrap()).unwrap();
        let (few, many) = (plan("rsi(14), market_return(1)"), plan("rsi(14), market_return(1, 20)"));
        assert_eq!([&few, &many].map(|p| some(&market, p, timeframe).len()), [8, 20]);
        assert_eq!(some(&market[..12], &many, timeframe).len(), 12, "no more than there are");
        // Short ones do where long ones are too few, and only then.
        for bars in &mut market[5..] {
            *bars = sample(std::slice::from_ref(bars), 1, 1, 60).remove(0);
        }
        assert_eq!([&few, &many].map(|p| some(&market, p, timeframe).len()), [5, 20]);
        // Long enough for the longest window, however many columns there are.
        let wide: Vec<String> = (2..602).map(|n| format!("market_return({n}, 30)")).collect();
        let deep = plan(&wide.join(", "));
        assert!(VALUES / deep.width() / 30 < 400 && some(&market, &deep, timeframe)[0].len() == 400);
        // One symbol of all has volume, a short one, and it is looked at.
        for (_, bars) in market.iter_mut().enumerate().filter(|(s, _)| *s != 20) {
            bars.volume.clear();
        }
        assert!(some(&market, &few, timeframe).iter().any(|b| !b.volume.is_empty()));
    }
}
