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
#[derive(Debug, Clone)]
pub struct FoldPolicy {
    /// Their net; its policy's head says what an action is.
    pub net: Net,
    /// `[inputs]` how its inputs are scaled.
    pub scales: Vec<Option<Scale>>,
    /// Weights of those that trade.
    pub members: Vec<Vec<f32>>,
    /// How many stay flat.
    pub flat: usize,
}

/// Policies of folds as one.
pub struct PpoPolicy {
    tables: Arc<Tables>,
    folds: Vec<FoldPolicy>,
    /// `[rows]` the fold that decides; none where nobody does.
    fold_of: Vec<Option<u16>>,
    /// `[folds]` memory of a pass.
    passes: Vec<Mutex<Forward>>,
    /// The largest position of a row, as a share of equity: a portfolio divides it among its symbols.
    share: f64,
}

impl PpoPolicy {
    /// Policies on a processor; `share` is what a full position of one symbol is of the whole.
    ///
    /// # Errors
    ///
    /// Where a net is none.
    pub fn new(
        tables: &Arc<Tables>,
        folds: Vec<FoldPolicy>,
        fold_of: Vec<Option<u16>>,
        share: f64,
    ) -> Result<PpoPolicy> {
        let pass = |fold: &FoldPolicy| Forward::new(&fold.net, Precision::F32, ROWS).map(Mutex::new).map_err(failed);
        let passes = folds.iter().map(pass).collect::<Result<_>>()?;
        Ok(PpoPolicy { tables: Arc::clone(tables), folds, fold_of, passes, share })
    }

    /// Targets of rows that one fold decides on.
    fn decide(&self, fold: usize, ids: &[u32], observed: &[f32], legal: &[u8]) -> Result<Vec<f64>> {
        let (pass, fold) = (&self.passes[fold], &self.folds[fold]);
        let actions = Actions::of(&fold.net);
        let wide: usize = fold.net.heads.iter().map(|head| head.classes).sum();
        let all = (fold.members.len() + fold.flat) as f32;
        let mut sums = vec![[0.0f32, fold.flat as f32, 0.0]; ids.len()];
        let mut middles = vec![0.0f64; ids.len()];
        let mut pass = pass.lock().unwrap_or_else(PoisonError::into_inner);
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

impl PpoPolicy {
    /// What an account of one symbol would be shown: it has learned on such, and a portfolio shows a position as a
    /// share of the whole.
    fn seen_alone(&self, observed: &[f32]) -> [f32; OBSERVED] {
        let mut own: [f32; OBSERVED] = observed.try_into().expect("an observation");
        SHARES.iter().for_each(|at| own[*at] = (f64::from(own[*at]) / self.share) as f32);
        own
    }
}

/// What of an observation is a share of equity in one symbol: position, pending, margin used.
const SHARES: [usize; 3] = [0, 1, 5];

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
                let shown = |at: &usize| self.seen_alone(&view.observed[at * OBSERVED..(at + 1) * OBSERVED]);
                let observed: Vec<f32> = places.iter().flat_map(shown).collect();
                let bits = |at: &usize| {
                    let own = view.legal[at * 3..(at + 1) * 3].iter().enumerate();
                    own.fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a)
                };
                let legal: Vec<u8> = places.iter().map(bits).collect();
                let targets = self.decide(usize::from(fold), &ids, &observed, &legal)?;
                for (at, target) in places.iter().zip(targets) {
                    actions[*at] = Action::target(target * self.share);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::OBSERVED_NAMES;

    #[test]
    fn shares_of_a_portfolio_are_seen_as_those_of_an_account_of_its_own() {
        let opened = compute::Opened::new(compute::Choice::Cpu, 1).unwrap().0;
        let tables = Tables::new(&opened, compute::Budget::default(), &[], &[]).unwrap();
        let policy = PpoPolicy::new(&tables, Vec::new(), Vec::new(), 0.25).unwrap();
        let seen = policy.seen_alone(&[0.25, -0.125, 1.5, 2.0, 0.1, 0.2, 0.5, 3.0]);
        assert_eq!(seen, [1.0, -0.5, 1.5, 2.0, 0.1, 0.8, 0.5, 3.0]);
        assert_eq!(SHARES.map(|at| OBSERVED_NAMES[at]), ["position", "pending", "margin_used"]);
    }
}
