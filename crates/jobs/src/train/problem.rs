//! A data set becomes a problem: its usable rows are labelled, with a horizon that no fold's validation had a say in.

use super::short::{fold_counts, too_few};
use super::source::LABELS;
use crate::{Settings, SplitKind};
use features::labels::{Labeling, Rule, TrainEnd, label};
use features::{Dataset, Input, Samples};
use files::{Error, Kind, Result};
use judge::split::{WalkForward, walk_forward};
use learn::Problem;

/// The samples that windows of these lengths (one for each input) allow, put together with the inputs.
///
/// A horizon that was chosen for its balance is chosen again where it leaves too little of the first validation, and
/// where the first fold's training ends earlier than was assumed when the data set was made: only samples show where it
/// does.
pub(crate) fn problem(
    data: &mut Dataset,
    inputs: Vec<Input>,
    windows: &[usize],
    settings: &Settings,
) -> Result<Problem> {
    let usable = data.usable_rows(&inputs, windows);
    let labelled = settings.train.learner.info().is_labelled;
    let mut samples = if labelled { data.samples(&usable).ok_or_else(no_labels)? } else { data.steps(&usable) };
    let longest = longest_horizon(data, &usable, settings);
    if labelled
        && let Some(spec) = settings.labeling()
        && let Some(Rule::Triple { horizon, .. }) = data.labels.as_ref().map(|labels| labels.rule)
        && spec.rule == Rule::Auto
        && horizon > longest
    {
        data.labels =
            Some(label(&data.base.market, &data.base.runs, &Labeling { longest, ..spec }, settings.threads())?);
        samples = data.samples(&usable).ok_or_else(no_labels)?;
    }
    // Where training ends goes by the horizon alone, so each horizon comes up at most once.
    while labelled
        && let Some(end) = earlier_training_end(data, &samples, settings)
        && let Some(spec) = settings.labeling()
    {
        let spec = Labeling { first: TrainEnd::Until(end), longest, ..spec };
        data.labels = Some(label(&data.base.market, &data.base.runs, &spec, settings.threads())?);
        samples = data.samples(&usable).ok_or_else(no_labels)?;
    }
    if samples.is_empty() {
        let windows: Vec<(bool, usize)> = inputs.iter().map(|i| i.map.is_some()).zip(windows.iter().copied()).collect();
        return Err(too_few(data, &windows, 1, settings, None));
    }
    let classes = if labelled { LABELS } else { 0 };
    Ok(Problem { inputs, ids: data.base.rows(), classes, samples, ..Problem::default() })
}

fn no_labels() -> Error {
    Error::new(Kind::Usage, "there is nothing to learn: label.rule is none").remedy("leave out <label.rule=none>")
}

/// The longest horizon that `auto` may choose: half of the first fold's validation, so that the purge leaves the other.
fn longest_horizon(data: &Dataset, usable: &[bool], settings: &Settings) -> usize {
    let mut ticks: Vec<u32> = (0..usable.len()).filter(|row| usable[*row]).map(|row| data.clock.tick[row]).collect();
    ticks.sort_unstable();
    ticks.dedup();
    let s = &settings.split;
    (ticks.len() as f64 * (1.0 - s.holdout) * (1.0 - s.tested) * s.validation / 2.0) as usize
}

/// When the last label of the first fold's training was known, if the choice of the horizon looked further. Samples
/// that cannot be split say so elsewhere.
fn earlier_training_end(data: &Dataset, samples: &Samples, settings: &Settings) -> Option<i64> {
    let until = data.labels.as_ref()?.until?;
    // How many test blocks there are does not move the first.
    let spec = WalkForward { folds: 1, ..walk(settings, data.clock.times.len()) };
    let first = walk_forward(samples, &data.clock.times, &spec).ok()?;
    let end = first.folds.first()?.spans.train.to() - 1;
    (until > end).then_some(end)
}

/// The walk forward of the settings, on a clock of `ticks` moments.
pub(crate) fn walk(settings: &Settings, ticks: usize) -> WalkForward {
    let s = &settings.split;
    let first = (s.kind == SplitKind::Rolling).then_some((1.0 - s.holdout) * (1.0 - s.tested));
    let rolling = s.rolling.or(first);
    WalkForward {
        folds: fold_counts(settings)[0],
        tested: s.tested,
        validation: s.validation,
        rolling: rolling.map(|share| ((share * ticks as f64).round() as usize).max(2)),
        embargo: s.embargo.unwrap_or(0),
        holdout: s.holdout,
        test_days: s.test_days.map(|days| days as u32),
        held: settings.held.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::compute;
    use bars::synth::Synth;
    use bars::{Bars, Timeframe};
    use features::labels::Rule;
    use features::{InputLayout, Plan, read_set};

    fn market(symbols: usize, bars: usize, timeframe: Timeframe) -> Vec<Bars> {
        Synth { symbols, bars, timeframe, ragged: false, ..Synth::default() }.make_market(1).market
    }

    fn made(market: Vec<Bars>, set: &str, settings: &Settings) -> (Dataset, Vec<Input>) {
        let plan = Plan::new(&read_set(set).unwrap()).unwrap();
        let (data, _) = compute(market, &plan, settings, &mut |_| {}).unwrap();
        let inputs = data.inputs(InputLayout::Row);
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
            let problem = problem(&mut data, inputs, &[1], &settings).unwrap();
            let spec = walk(&settings, data.clock.times.len());
            let fold = walk_forward(&problem.samples, &data.clock.times, &spec).unwrap().folds.remove(0);
            let labels = data.labels.as_ref().unwrap();
            let until = labels.until.unwrap();
            assert!(until < fold.spans.train.to() && until < fold.spans.valid.from(), "{more:?}");
            // What it saw is enough, and is counted among what the fold trains on.
            assert!(labels.tried.iter().any(|(.., classes)| classes.iter().sum::<u64>() > 50), "{more:?}");
            let Rule::Triple { horizon, .. } = labels.rule else { panic!("{}", labels.rule) };
            assert!(labels.tried.iter().any(|(h, ..)| *h == horizon));
            again += usize::from(until < guess);
            first += usize::from(until == guess);
        }
        // The guess does where nothing is out of the ordinary; it is mended where the embargo is long or labels end
        // early.
        assert!(again >= 2 && first >= 5, "{again} and {first}");
    }
}
