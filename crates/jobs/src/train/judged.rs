//! Members and configs as the judge sees them, and as lines of the result.

use super::source::{Ids, Source};
use files::Result;
use judge::split::Splits;
use judge::{Member, Truth, VolatilityBaseline};
use learn::classify::Trained;
use serde::Serialize;

/// A member's line of the result.
#[derive(Debug, Clone, Serialize)]
pub struct MemberRow {
    /// Its set of hyper-parameters, from 1.
    pub config: usize,
    /// From 1.
    pub fold: usize,
    /// From 1.
    pub seed: u32,
    /// Epochs it was trained for.
    pub epochs: u32,
    /// The epoch whose weights were kept; null where no score was a number.
    pub best_epoch: Option<u32>,
    /// Correlation on its validation samples at that epoch.
    pub valid_mcc: Option<f64>,
    /// Correlation on its test samples.
    pub test_mcc: Option<f64>,
    /// Why it ended: `patience`, `epochs`, or what was not finite.
    pub ended: String,
}

/// What the predictions of a run are held against; `symbols` `[samples]` is the symbol of each sample.
pub(crate) fn truth<'a>(source: &'a Source, splits: &'a Splits, symbols: &'a [u32]) -> Truth<'a> {
    Truth { samples: &source.problem.samples, classes: source.problem.classes, symbols, folds: &splits.folds }
}

/// What volatility alone would give; `None` for ready arrays, which have no prices.
pub(crate) fn volatility_baseline(source: &Source, truth: &Truth<'_>) -> Result<Option<VolatilityBaseline>> {
    match &source.ids {
        Ids::Bars { data, .. } => truth.volatility_baseline(&data.base),
        Ids::Ready { .. } => Ok(None),
    }
}

/// The members as the judge sees them; `probabilities` are those on each one's fold's test.
pub(crate) fn judge_members<'a>(members: &[Trained], probabilities: &'a [Vec<f32>]) -> Vec<Member<'a>> {
    let one = |(member, probabilities): (&Trained, &'a Vec<f32>)| Member {
        config: member.config,
        fold: member.fold,
        score: member.best.as_ref().map(|b| b.worth),
        probabilities,
    };
    members.iter().zip(probabilities).map(one).collect()
}

/// A line for each member; `probabilities` are those on its fold's test.
pub(crate) fn member_rows(
    truth: &Truth<'_>,
    members: &[Trained],
    probabilities: &[Vec<f32>],
) -> Result<Vec<MemberRow>> {
    let row = |(member, p): (&Trained, &Vec<f32>)| -> Result<MemberRow> {
        Ok(MemberRow {
            config: member.config + 1,
            fold: member.fold + 1,
            seed: member.seed + 1,
            epochs: member.history.last().map_or(0, |e| e.epoch),
            best_epoch: member.best.as_ref().map(|b| b.epoch),
            valid_mcc: member.best.as_ref().map(|b| b.worth),
            test_mcc: truth.test_mcc(member.fold, p)?,
            ended: match &member.stopped {
                None => "not yet".into(),
                Some(learn::classify::Stopped::Patience) => "patience".into(),
                Some(learn::classify::Stopped::Epochs) => "epochs".into(),
                Some(learn::classify::Stopped::Fault(why)) => why.clone(),
            },
        })
    };
    let mut rows = members.iter().zip(probabilities).map(row).collect::<Result<Vec<MemberRow>>>()?;
    // Configs may have been trained in another order.
    rows.sort_by_key(|m| (m.config, m.fold, m.seed));
    Ok(rows)
}

/// A config's line of the result, where there are several.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigRow {
    /// From 1.
    pub config: usize,
    /// What is its own, as in `rate 0.001, decay 0.1`.
    pub what: String,
    /// As text.
    pub net: String,
    /// Rows of a batch.
    pub batch: u64,
    /// Before the schedule.
    pub rate: f64,
    /// Mean over its members of the best correlation on their validation samples; null while nothing is known.
    pub valid_mcc: Option<f64>,
    /// Correlation on test samples if it had been taken in every fold. No one may choose by it.
    pub test_mcc: Option<f64>,
    /// Folds, from 1, in which it was chosen.
    pub chosen: Vec<usize>,
}

/// All members, and the config that was selected for each fold.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) members: &'a [Trained],
    /// `[folds]`
    pub(crate) configs: &'a [usize],
}
