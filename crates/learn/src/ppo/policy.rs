//! What is deployed: of every row the fold that may decide, its seeds as one.
//!
//! Members give probabilities of short, flat and long, which are averaged, and the most probable is taken; of
//! continuous targets the middle is averaged. A member that stays flat counts as sure of flat.

use super::Actions;
use super::collect::{continuous_target, preferred};
use super::loss::{normal, softmax};
use crate::failed;
use account::Action;
use compute::nets::{Forward, Rows};
use compute::population::{Precision, Scale};
use compute::{Net, Tables};
use files::Result;
use market::{Needs, OBSERVED, Policy, View};
use std::sync::{Arc, Mutex, PoisonError};

/// The members of one fold.
#[derive(Debug, Clone, Default)]
pub struct FoldPolicy {
    /// `[inputs]` how its inputs are scaled.
    pub scales: Vec<Option<Scale>>,
    /// Weights of those that trade.
    pub members: Vec<Vec<f32>>,
    /// How many stay flat.
    pub flat: usize,
}

/// Policies of folds as one.
pub struct PpoPolicy {
    actions: Actions,
    tables: Arc<Tables>,
    folds: Vec<FoldPolicy>,
    /// `[rows]` the fold that decides; none where nobody does.
    fold_of: Vec<Option<u16>>,
    pass: Mutex<Forward>,
    /// The largest position of a row, as a share of equity: a portfolio divides it among its symbols.
    share: f64,
}

impl PpoPolicy {
    /// Policies of one architecture on a processor; `share` is what a full position of one symbol is of the whole.
    ///
    /// # Errors
    ///
    /// Where the net is none.
    pub fn new(
        net: &Net,
        actions: Actions,
        tables: &Arc<Tables>,
        folds: Vec<FoldPolicy>,
        fold_of: Vec<Option<u16>>,
        share: f64,
    ) -> Result<PpoPolicy> {
        let pass = Mutex::new(Forward::new(net, Precision::F32, ROWS).map_err(failed)?);
        Ok(PpoPolicy { actions, tables: Arc::clone(tables), folds, fold_of, pass, share })
    }

    /// Targets of rows that one fold decides on.
    fn decide(&self, fold: &FoldPolicy, ids: &[u32], observed: &[f32], legal: &[u8]) -> Result<Vec<f64>> {
        let (actions, wide) = (self.actions, self.actions.outputs() + 1);
        let all = (fold.members.len() + fold.flat) as f32;
        let mut sums = vec![[0.0f32, fold.flat as f32, 0.0]; ids.len()];
        let mut middles = vec![0.0f64; ids.len()];
        let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = vec![0.0; ids.len() * wide];
        for params in &fold.members {
            let rows = Rows { tables: &self.tables, scales: &fold.scales, ids, extras: observed };
            pass.with(params).and_then(|mut net| net.run(rows, &mut out)).map_err(failed)?;
            for (i, (z, legal)) in out.chunks_exact(wide).zip(legal).enumerate() {
                match actions {
                    Actions::Discrete => softmax(z, *legal).0.iter().zip(&mut sums[i]).for_each(|(p, sum)| *sum += p),
                    Actions::Continuous => middles[i] += continuous_target(normal(z).0, *legal),
                }
            }
        }
        Ok(match actions {
            Actions::Discrete => sums.iter().map(preferred).collect(),
            Actions::Continuous => middles.iter().map(|sum| sum / f64::from(all.max(1.0))).collect(),
        })
    }
}

/// Rows that go through a net at once.
const ROWS: usize = 256;

impl Policy for PpoPolicy {
    fn needs(&self) -> Needs {
        Needs { account: true, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        actions.fill(Action::target(f64::NAN));
        let fold_of = |at: usize| self.fold_of.get(view.rows[at] as usize).copied().flatten();
        // At one close all rows are mostly of one fold.
        let mut folds: Vec<u16> = (0..view.rows.len()).filter_map(fold_of).collect();
        folds.sort_unstable();
        folds.dedup();
        for fold in folds {
            let places: Vec<usize> = (0..view.rows.len()).filter(|at| fold_of(*at) == Some(fold)).collect();
            for places in places.chunks(ROWS) {
                let ids: Vec<u32> = places.iter().map(|at| view.rows[*at]).collect();
                let shown = |at: &usize| &view.observed[at * OBSERVED..(at + 1) * OBSERVED];
                let observed: Vec<f32> = places.iter().flat_map(shown).copied().collect();
                let bits = |at: &usize| {
                    let own = view.legal[at * 3..(at + 1) * 3].iter().enumerate();
                    own.fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a)
                };
                let legal: Vec<u8> = places.iter().map(bits).collect();
                let targets = self.decide(&self.folds[usize::from(fold)], &ids, &observed, &legal)?;
                for (at, target) in places.iter().zip(targets) {
                    actions[*at] = Action::target(target * self.share);
                }
            }
        }
        Ok(())
    }
}
