//! What learners of policies share, whichever way they learn: how their members are counted, what the folds of a
//! problem are to an account that trades, and which nets fit.

use crate::ppo::{EpisodeTable, longest_piece, mean_growth, pieces};
use crate::scale::{Scaler, fit, split_id};
use crate::{Config, Extent, MemberKey, Problem};
use compute::nets::MemberSetup;
use compute::{Error as ComputeError, Net};
use features::Fold;
use files::{Error, Kind, Result};
use market::{EpisodeData, OBSERVED};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Validations of a member at most: all are kept, and the memory of a long training must not grow.
const VALIDATIONS: u64 = 256;

/// How policies are trained; `H` is what their learner asks of a config beside net, recipe and rate. What changes a bit
/// is in here.
#[derive(Clone)]
pub struct PolicySpec<H> {
    /// Sets of hyper-parameters, each with members of its own; at least one.
    pub configs: Vec<Config>,
    /// `[configs]` what the learner adds.
    pub hypers: Vec<H>,
    /// `[configs]` updates, generations or iterations of a member.
    pub units: Vec<u32>,
    /// Members end after so many units, on the schedule of all; none: they do all.
    pub stop_after: Option<u32>,
    /// A member ends after so many units without a better score.
    pub patience: u32,
    /// Members of each fold.
    pub seeds: u32,
}

impl<H: Clone> PolicySpec<H> {
    /// The configs and what the learner adds to each.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Config, &H)> {
        assert_eq!(self.configs.len(), self.hypers.len(), "hyper-parameters for each config");
        assert_eq!(self.configs.len(), self.units.len(), "units of each config");
        self.configs.iter().zip(&self.hypers)
    }

    /// Units of a config's members.
    pub(crate) fn units_of(&self, config: usize) -> u32 {
        self.units[config].min(self.stop_after.unwrap_or(u32::MAX))
    }

    /// How many members a config has and how long they train.
    pub(crate) fn extent(&self, folds: usize) -> Extent {
        let units = (0..self.configs.len()).map(|config| self.units_of(config)).max().unwrap_or(0);
        Extent { folds, seeds: self.seeds, units, patience: self.patience }
    }

    /// The first config with the net, the recipe, the units and the `shape` of `config`.
    pub(crate) fn alike<S: PartialEq>(&self, config: usize, shape: impl Fn(&H) -> S) -> usize {
        let of = |at: usize| {
            let Config { net, recipe, .. } = &self.configs[at];
            (net, recipe, self.units[at], shape(&self.hypers[at]))
        };
        (0..config).find(|at| of(*at) == of(config)).unwrap_or(config)
    }

    /// The same with other configs and units. The same configs with another batch, say, keep what else they have;
    /// others are like the first.
    pub(crate) fn with(&self, configs: Vec<Config>, units: u32) -> PolicySpec<H> {
        let hypers = match configs.len() == self.configs.len() {
            true => self.hypers.clone(),
            false => vec![self.hypers[0].clone(); configs.len()],
        };
        PolicySpec { units: vec![units; configs.len()], configs, hypers, ..*self }
    }

    /// The config of a member whose snapshot begins with these bytes, and its number; none where it is not of this run.
    pub(crate) fn config_of(&self, snapshot: &[u8]) -> Option<(usize, u32)> {
        let id = u32::from_le_bytes(snapshot.get(..4)?.try_into().ok()?);
        let of = |config: &usize| MemberKey { config: config + 1, fold: 0, seed: 0 }.id() > id;
        Some(((0..self.configs.len()).find(of)?, id))
    }

    /// The snapshot of a net and its two moments, the last arrays behind a head of so many bytes at least.
    pub(crate) fn read_snapshot(&self, bytes: &[u8], head: usize, error: &str) -> compute::Result<crate::Snapshot> {
        let not_ours = || ComputeError::Invalid(error.into());
        let (config, id) = self.config_of(bytes).ok_or_else(not_ours)?;
        let params = self.configs[config].params()?;
        let from = bytes.len().checked_sub(12 * params).filter(|from| *from >= head).ok_or_else(not_ours)?;
        let weights = bytes[from..from + 4 * params].chunks_exact(4);
        let weights = weights.map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
        Ok(crate::Snapshot { id, weights, bytes: bytes.to_vec() })
    }
}

/// Units between two validations, of which one costs `validation` and a unit costs `unit`: as many as cost the same, as
/// long as there are at most [`VALIDATIONS`] validations in `units`.
pub(crate) fn validate_every(units: u32, validation: u64, unit: u64) -> u32 {
    let units = u64::from(units.max(1));
    validation.div_ceil(unit.max(1)).clamp(units.div_ceil(VALIDATIONS), units) as u32
}

/// Refuses a net that does not read what accounts see or does not end in these outputs.
pub(crate) fn check_net(problem: &Problem, net: &Net, outputs: &[usize], who: &str, remedy: &str) -> Result<()> {
    let heads: Vec<usize> = net.heads.iter().map(|head| head.classes).collect();
    let tables: Vec<usize> = net.inputs.iter().filter(|i| !i.dense).map(|i| i.features).collect();
    let columns: Vec<usize> = problem.inputs.iter().map(|input| input.columns.len()).collect();
    if heads == outputs && tables == columns && net.extras() == OBSERVED {
        return Ok(());
    }
    let value = if outputs.len() > 1 { " and a value" } else { "" };
    let what = format!(
        "the net `{net}` does not fit: {who} reads {columns:?} features and {OBSERVED} numbers of its account, and ends \
         in {} outputs{value}",
        outputs[0]
    );
    Err(Error::new(Kind::Usage, what).remedy(remedy))
}

/// Members of nets whose inputs are scaled by their folds.
pub(crate) fn member_setups(scalers: &[Scaler], net: &Net, members: &[MemberKey]) -> Vec<MemberSetup> {
    members.iter().map(|key| MemberSetup { id: key.id(), scales: scalers[key.fold].scales_of(net) }).collect()
}

/// What the folds of a problem are to a policy, whichever way it learns.
pub(crate) struct Folds {
    pub(crate) problem: Arc<Problem>,
    pub(crate) data: Arc<EpisodeData>,
    /// `[folds]` rows that episodes may use, as stretches of neighbours.
    pub(crate) train: Vec<Vec<Range<u32>>>,
    /// `[folds]` the same of validation, cut into pieces of about one length.
    pub(crate) valid: Vec<Vec<Range<u32>>>,
    /// `[folds]` the block of time that each of those is in, common to all symbols.
    blocks: Vec<Vec<u32>>,
    /// `[folds]` whether that is a validation; else members are not selected.
    pub(crate) is_validated: Vec<bool>,
    pub(crate) scalers: Vec<Scaler>,
    /// What episodes of a length are played on, once a card has it.
    pub(crate) on_card: Mutex<Option<(u32, EpisodeTable)>>,
}

impl Folds {
    /// Folds whose samples are steps; `data` has a row for each id of the problem. One that cannot be traded on is
    /// refused.
    pub(crate) fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold]) -> Result<Folds> {
        assert_eq!(data.table().bars.len(), problem.ids, "a row of prices for each id");
        let rows_of = |list: &[u32]| -> Vec<u32> {
            let mut rows: Vec<u32> = list.iter().map(|at| problem.samples.rows[*at as usize]).collect();
            rows.sort_unstable();
            rows
        };
        let train: Vec<Vec<Range<u32>>> = folds.iter().map(|fold| stretches(&rows_of(&fold.train))).collect();
        let cut = |fold: &Fold| cut_in_time(problem, data, &fold.valid);
        let (mut valid, mut blocks): (Vec<Vec<Range<u32>>>, Vec<Vec<u32>>) = folds.par_iter().map(cut).unzip();
        // Where everything is training the last weights are taken; a moment of it is walked, and not counted.
        let is_validated: Vec<bool> = folds.iter().map(|fold| !fold.valid.is_empty()).collect();
        for at in (0..folds.len()).filter(|at| !is_validated[*at]) {
            let long = train[at].iter().find(|stretch| stretch.len() >= 3);
            valid[at] = long.map(|stretch| stretch.start..stretch.start + 3).into_iter().collect();
            blocks[at] = vec![0; valid[at].len()];
        }
        if let Some(at) = (0..folds.len()).find(|at| train[*at].is_empty() || valid[*at].is_empty()) {
            let what =
                format!("fold {} has too few neighbouring bars to trade on, in training or in validation", at + 1);
            return Err(Error::new(Kind::Usage, what).remedy("use fewer <split.folds>, or give more data"));
        }
        let split = split_id(folds);
        let scalers: Vec<Scaler> = folds.par_iter().map(|fold| fit(problem, fold, split)).collect();
        scalers.iter().zip(folds).try_for_each(|(scaler, fold)| scaler.precedes(fold.spans.test.from()))?;
        let (problem, data) = (Arc::clone(problem), Arc::clone(data));
        let on_card = Mutex::default();
        Ok(Folds { problem, data, train, valid, blocks, is_validated, scalers, on_card })
    }

    /// The mean growth of a fold's walked validation and its error; not a number where everything is training, and
    /// there is nothing to select by. A walk of fewer pieces is of some that are evenly spread.
    pub(crate) fn growth(&self, fold: usize, walked: &[(f64, usize)]) -> (f64, f64) {
        if !self.is_validated[fold] {
            return (f64::NAN, f64::NAN);
        }
        let (blocks, n) = (&self.blocks[fold], walked.len().max(1));
        mean_growth(walked.iter().enumerate().map(|(i, own)| (blocks[i * blocks.len() / n], *own)))
    }

    /// Steps of the longest piece of all validations.
    pub(crate) fn longest_walk(&self) -> u64 {
        let all = self.valid.iter().flatten().map(|piece| piece.len() as u64 - 1);
        all.max().unwrap_or(0)
    }

    /// Rows that the longest validation walks through.
    pub(crate) fn walked(&self) -> u64 {
        let all = self.valid.iter().map(|pieces| pieces.iter().map(ExactSizeIterator::len).sum::<usize>());
        all.max().unwrap_or(0) as u64
    }
}

/// A fold's validation cut into pieces of about one length, and the block of time that the middle of each is in. Blocks
/// divide the times of all symbols evenly, into about as many as a symbol that is always there has pieces.
fn cut_in_time(problem: &Problem, data: &EpisodeData, list: &[u32]) -> (Vec<Range<u32>>, Vec<u32>) {
    let of = |at: &u32| (problem.samples.rows[*at as usize], problem.samples.t0[*at as usize]);
    let mut timed: Vec<(u32, i64)> = list.iter().map(of).collect();
    timed.sort_unstable();
    let stretches = stretches(&timed.iter().map(|(row, _)| *row).collect::<Vec<u32>>());
    let place = |row: u32| timed.partition_point(|(own, _)| *own < row);
    let inside = |stretch: &Range<u32>| timed[place(stretch.start)..][..stretch.len()].iter().map(|(_, time)| *time);
    let mut times: Vec<i64> = stretches.iter().flat_map(inside).collect();
    times.sort_unstable();
    times.dedup();
    let mut symbols: Vec<usize> = stretches.iter().map(|stretch| data.symbol(stretch.start)).collect();
    symbols.dedup();
    let longest = longest_piece(times.len(), symbols.len());
    let count = times.len().div_ceil(longest);
    let pieces = pieces(&stretches, longest);
    let block = |piece: &Range<u32>| {
        let middle = timed[place(piece.start + piece.len() as u32 / 2)].1;
        (times.partition_point(|time| *time < middle) * count / times.len()) as u32
    };
    let blocks = pieces.iter().map(block).collect();
    (pieces, blocks)
}

/// Neighbouring rows as ranges of at least two.
pub(crate) fn stretches(rows: &[u32]) -> Vec<Range<u32>> {
    let runs = rows.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() >= 2);
    runs.map(|run| run[0]..run[run.len() - 1] + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::{Bar, Params};
    use features::Samples;
    use market::{PriceTable, RowTime};

    /// Pieces of all symbols are cut at about the same times, and those of one time are in one block.
    #[test]
    fn pieces_of_symbols_share_blocks_of_time() {
        const EACH: usize = 400;
        for symbols in [1, 5] {
            let all = symbols * EACH;
            let table = PriceTable {
                bars: vec![Bar::flat(1.0); all],
                offsets: (0..=symbols).map(|s| s * EACH).collect(),
                params: vec![Params::default(); symbols],
                currency: "USD".into(),
                risk_free: 0.0,
                notes: Vec::new(),
            };
            let data = EpisodeData::new(table, vec![RowTime::default(); all]);
            // In the order of time; the last symbol is there in the second half alone, and no last row is a sample.
            let there = |t: usize, s: usize| s == 0 || s + 1 < symbols || t >= EACH / 2;
            let each = (0..EACH - 1).flat_map(|t| (0..symbols).filter(move |s| there(t, *s)).map(move |s| (t, s)));
            let (rows, t0): (Vec<u32>, Vec<i64>) = each.map(|(t, s)| ((s * EACH + t) as u32, t as i64)).unzip();
            let n = rows.len();
            let t1 = t0.iter().map(|t| t + 1).collect();
            let samples = Samples { rows, t0, t1, class: Vec::new(), weight: vec![1.0; n] };
            let problem = Problem { ids: all, samples, ..Problem::default() };
            let (pieces, blocks) = cut_in_time(&problem, &data, &(0..n as u32).collect::<Vec<_>>());
            let middle = |piece: &Range<u32>| (piece.start as usize + piece.len() / 2) % EACH;
            let count = if symbols == 1 { 7 } else { 8 };
            for (piece, block) in pieces.iter().zip(&blocks) {
                assert_eq!(middle(piece) * count / (EACH - 1), *block as usize, "{piece:?} of {symbols} symbols");
            }
            let own: Vec<u32> = blocks[..count].to_vec();
            assert_eq!(
                own,
                (0..count as u32).collect::<Vec<_>>(),
                "a symbol that is always there has one piece a block"
            );
            assert_eq!(pieces.len(), if symbols == 1 { 7 } else { 4 * 8 + 4 });
        }
    }
}
