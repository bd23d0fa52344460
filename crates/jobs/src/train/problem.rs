//! A data set becomes a problem: which columns go into which input, and which rows may be learned from.
//!
//! Columns of the group `strategy` are one row; the other base columns are the window `fast`; each slower table is a
//! window of its own. The indicator net takes everything as one row. A row is usable where every row of every window is
//! settled, lies in one run of one symbol, and the symbol belonged to the universe.

use super::Learner;
use crate::Settings;
use bars::Bars;
use features::labels::{First, Labeling, Labels, label};
use features::{Dataset, Samples, Table};
use files::{Error, Kind, Result};
use judge::split::{Embargo, WalkForward, walk_forward};
use learn::{Input, Problem};
use std::ops::Range;

/// The group whose columns are one row.
const ROW: &str = "strategy";

/// The inputs a learner reads, without their windows yet.
pub(crate) fn inputs(data: &Dataset, learner: Learner) -> Vec<Input> {
    let base = &data.base;
    let all = || 0..base.columns.len();
    let is_row = |c: &usize| base.columns[*c].group == ROW;
    let (windows, row): (Vec<usize>, Vec<usize>) = match learner {
        Learner::Mlp => (Vec::new(), all().collect()),
        Learner::Lstm => (all().filter(|c| !is_row(c)).collect(), all().filter(is_row).collect()),
    };
    let mut inputs = Vec::new();
    if !windows.is_empty() {
        inputs.push(input("fast".into(), base, &windows, None));
    }
    for slow in &data.slow {
        // Rows before the first slow bar are never samples; any row will do for them.
        let map = slow.of.iter().map(|row| if *row == u32::MAX { 0 } else { *row }).collect();
        let columns: Vec<usize> = (0..slow.table.columns.len()).collect();
        let name = if data.slow.len() == 1 { "slow".into() } else { format!("slow_{}", slow.table.timeframe) };
        inputs.push(input(name, &slow.table, &columns, Some(map)));
    }
    if !row.is_empty() {
        inputs.push(input(if windows.is_empty() { "row" } else { ROW }.into(), base, &row, None));
    }
    inputs
}

/// Some columns of a table as an input.
fn input(name: String, table: &Table, columns: &[usize], map: Option<Vec<u32>>) -> Input {
    let stride = columns.len().next_multiple_of(4);
    let mut values = vec![0.0; table.rows() * stride];
    for (to, from) in values.chunks_exact_mut(stride).zip(table.values.chunks_exact(table.stride)) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = from[*column];
        }
    }
    let columns = columns.iter().map(|c| table.columns[*c].name.clone()).collect();
    Input { name, columns, stride, values, map, window: 0 }
}

/// The samples that windows of these lengths (one for each input) allow, put together with the inputs.
///
/// A horizon that was chosen for its balance is chosen again where the first fold's training turns out to end earlier
/// than was thought when the data set was made: only samples show where it does.
pub(crate) fn problem(
    data: &mut Dataset,
    inputs: Vec<Input>,
    windows: &[usize],
    look_back: usize,
    settings: &Settings,
) -> Result<Problem> {
    let usable = usable(data, &inputs, windows);
    let mut samples = Samples::new(&data.base.market, labels(data)?, |row| usable[row]);
    // Where training ends goes by the horizon alone, so each horizon comes up at most once.
    while let Some(end) = too_far(data, &samples, look_back, settings)
        && let Some(how) = settings.labeling()
    {
        let how = Labeling { first: First::Until(end), ..how };
        data.labels = Some(label(&data.base.market, &data.base.runs, &how, settings.threads())?);
        samples = Samples::new(&data.base.market, labels(data)?, |row| usable[row]);
    }
    if samples.is_empty() {
        return Err(Error::input(format!(
            "no row has a label and whole windows of {} rows",
            windows.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
        ))
        .remedy(
            "more bars, shorter windows in <train.net>, or features that need less warm-up (`fullbore features <show>`)",
        ));
    }
    Ok(Problem { inputs, ids: data.base.rows(), classes: 3, samples, ..Problem::default() })
}

fn labels(data: &Dataset) -> Result<&Labels> {
    data.labels.as_ref().ok_or_else(|| {
        Error::new(Kind::Usage, "nothing is to be learned: label.rule is none").remedy("leave out <label.rule=none>")
    })
}

/// When the last label of the first fold's training was known, if the choice of the horizon looked further. Samples
/// that cannot be split say so elsewhere.
fn too_far(data: &Dataset, samples: &Samples, look_back: usize, settings: &Settings) -> Option<i64> {
    let until = data.labels.as_ref()?.until?;
    // How many test blocks there are does not move the first.
    let how = WalkForward { folds: 1, ..walk(settings, data.clock.times.len(), look_back) };
    let first = walk_forward(samples, &data.clock.times, &how).ok()?;
    let end = first.folds.first()?.spans.train.to() - 1;
    (until > end).then_some(end)
}

/// The walk forward that the settings ask for, on a clock of so many ticks.
pub(crate) fn walk(settings: &Settings, ticks: usize, look_back: usize) -> WalkForward {
    let s = &settings.split;
    WalkForward {
        folds: s.folds,
        tested: s.tested,
        validation: s.validation,
        rolling: s.rolling.map(|share| (share * ticks as f64).round() as usize),
        embargo: s.embargo.map_or(Embargo::Auto { window: look_back }, Embargo::Ticks),
        holdout: s.holdout,
        test_days: None,
    }
}

/// `[rows]` whether a row's windows are whole, settled and of the universe.
pub(crate) fn usable(data: &Dataset, inputs: &[Input], windows: &[usize]) -> Vec<bool> {
    let base = streaks(&data.base);
    let slow: Vec<Vec<u32>> = data.slow.iter().map(|s| streaks(&s.table)).collect();
    // Inputs with a map are the slower tables, in their order.
    let longest = |mapped: bool| inputs.iter().zip(windows).filter(move |(i, _)| i.map.is_some() == mapped);
    let need = longest(false).map(|(_, w)| *w as u32).max().unwrap_or(1);
    let slow_need: Vec<u32> = longest(true).map(|(_, w)| *w as u32).collect();
    let mut usable: Vec<bool> = base.iter().map(|streak| *streak >= need).collect();
    for ((slower, streaks), need) in data.slow.iter().zip(&slow).zip(slow_need) {
        for (usable, of) in usable.iter_mut().zip(&slower.of) {
            *usable &= *of != u32::MAX && streaks[*of as usize] >= need;
        }
    }
    for (bars, rows) in data.base.market.iter().zip(data.base.offsets.windows(2)) {
        outside(bars, &mut usable[rows[0]..rows[1]]);
    }
    usable
}

/// Clears the rows at whose time a symbol did not belong to the universe.
fn outside(bars: &Bars, usable: &mut [bool]) {
    if bars.member.is_empty() {
        return;
    }
    for (usable, end) in usable.iter_mut().zip(&bars.end) {
        *usable &= bars.member.iter().any(|(from, to)| from <= end && end < to);
    }
}

/// `[rows]` how many settled rows of one run end at each row, itself included.
fn streaks(table: &Table) -> Vec<u32> {
    let mut streaks = vec![0; table.rows()];
    for (runs, rows) in table.runs.iter().zip(table.offsets.windows(2)) {
        for run in runs {
            let run: Range<usize> = rows[0] + run.start..rows[0] + run.end;
            let mut streak = 0;
            for row in run {
                streak = if table.settled[row] { streak + 1 } else { 0 };
                streaks[row] = streak;
            }
        }
    }
    streaks
}

/// The longest look back of any window, in base bars: its rows and the finite part of what they are computed from,
/// slower values and the market around a symbol included.
pub(crate) fn look_back(data: &Dataset, inputs: &[Input], windows: &[usize]) -> usize {
    let deepest = |table: &Table| table.columns.iter().map(|c| c.reach).max().unwrap_or(0);
    let mut slow = data.slow.iter();
    let each = inputs.iter().zip(windows).map(|(input, window)| match &input.map {
        None => window + deepest(&data.base),
        Some(_) => slow.next().map_or(0, |s| {
            let bars = (s.table.timeframe.ns() as u64).div_ceil(data.base.timeframe.ns().max(1) as u64) as usize;
            (window + deepest(&s.table)) * bars.max(1)
        }),
    });
    each.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::compute;
    use bars::Timeframe;
    use bars::synth::Synth;
    use features::labels::Rule;
    use features::{Plan, read_set};

    fn market(symbols: usize, bars: usize, timeframe: Timeframe) -> Vec<Bars> {
        Synth { symbols, bars, timeframe, ragged: false, ..Synth::default() }.make_market(1).market
    }

    fn made(market: Vec<Bars>, set: &str, settings: &Settings) -> (Dataset, Vec<Input>) {
        let plan = Plan::new(&read_set(set).unwrap()).unwrap();
        let (data, _) = compute(market, &plan, settings, &mut |_| {}).unwrap();
        let inputs = inputs(&data, Learner::Mlp);
        (data, inputs)
    }

    #[test]
    fn a_horizon_is_chosen_before_the_first_validation() {
        let day = market(3, 1500, Timeframe::D1);
        let minutes = market(2, 3000, Timeframe::M5);
        // Bars of which the last third has no run long enough for a label: the samples end early.
        let mut broken = market(1, 3000, Timeframe::M5);
        broken[0].segments = std::iter::once(0).chain((2000..3000).step_by(3)).collect();
        let (mut again, mut first) = (0, 0);
        for (market, more) in [
            (&day, &[][..]),
            (&minutes, &[]),
            (&broken, &[]),
            (&minutes, &["split.tested=0.9"]),
            (&minutes, &["split.validation=0.5"]),
            (&minutes, &["split.holdout=0"]),
            (&minutes, &["split.holdout=0.5"]),
            (&minutes, &["split.embargo=900"]),
            (&minutes, &["split.rolling=0.2"]),
            (&day, &["split.tested=0.8", "split.validation=0.3", "split.holdout=0.3"]),
        ] {
            let mut settings = Settings::default();
            more.iter().for_each(|pair| settings.set(pair).unwrap());
            let (mut data, inputs) = made(market.clone(), "log_return(1), close/sma(120) - 1", &settings);
            let guess = data.labels.as_ref().unwrap().until.unwrap();
            let look_back = look_back(&data, &inputs, &[1]);
            let problem = problem(&mut data, inputs, &[1], look_back, &settings).unwrap();
            let how = walk(&settings, data.clock.times.len(), look_back);
            let fold = walk_forward(&problem.samples, &data.clock.times, &how).unwrap().folds.remove(0);
            let labels = data.labels.as_ref().unwrap();
            let until = labels.until.unwrap();
            assert!(until < fold.spans.train.to() && until < fold.spans.valid.from(), "{more:?}");
            // What it saw is enough, and is counted among what the fold trains on.
            assert!(labels.tried.iter().any(|(_, classes)| classes.iter().sum::<u64>() > 50), "{more:?}");
            let Rule::Triple { horizon, .. } = labels.rule else { panic!("{}", labels.rule) };
            assert!(labels.tried.iter().any(|(h, _)| *h == horizon));
            again += usize::from(until < guess);
            first += usize::from(until == guess);
        }
        // The guess does where nothing is out of the ordinary; it is mended where the embargo is long or labels end
        // early.
        assert!(again >= 2 && first >= 5, "{again} and {first}");
    }

    #[test]
    fn a_look_back_has_the_windows_of_slower_values_and_of_the_market() {
        let mut settings = Settings::default();
        settings.set("label.rule=none").unwrap();
        let minutes = market(6, 1200, Timeframe::M5);
        for (set, least, most) in [
            ("sma(100)", 99, 101),
            ("sma(50)@1h", 600, 720),
            ("close/sma(50)@1h - 1, rsi(14)", 600, 720),
            ("sma(sma(50)@1h, 20)", 619, 740),
            ("market_return(30)", 30, 32),
            ("market_regime(20, 250)", 270, 272),
            ("cluster_return(5, 250)", 255, 310),
            ("sma(market_return(30), 40)", 69, 72),
            ("[slow @1h]\nsma(30)", 30 * 12, 32 * 13),
        ] {
            let (data, inputs) = made(minutes.clone(), set, &settings);
            let windows = vec![1; inputs.len()];
            let back = look_back(&data, &inputs, &windows);
            assert!((least..=most).contains(&back), "{set}: {back}");
        }
    }
}
