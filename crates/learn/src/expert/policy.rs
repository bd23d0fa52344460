//! What is deployed: of every row the fold that may decide, its members searching at every close, each in a market that
//! it owns.
//!
//! A member votes for what its search chose; the position with most votes is taken, flat where it has as many. A member
//! that stays flat votes for flat.

use super::SearchShape;
use super::evaluator::UnitEvaluator;
use super::model::{ACTIONS, FoldMarket, observation};
use super::training::searched;
use crate::ppo::{Deciders, FoldPolicy, preferred, seen_alone};
use crate::{Problem, failed};
use account::Action;
use compute::population::Scale;
use files::Result;
use market::{EpisodeData, Needs, OBSERVED, Policy, View};
use search::{InfoSet, Root, Search};
use std::sync::{Arc, Mutex, PoisonError};

/// The members of one fold, and the market they search in.
#[derive(Debug, Clone)]
pub struct SearchFold {
    /// Nets and weights.
    pub policy: FoldPolicy,
    /// The market; none where no member trades.
    pub market: Option<Arc<FoldMarket>>,
    /// How they search.
    pub shape: SearchShape,
}

/// Searchers of folds as one policy.
pub struct SearchPolicy {
    problem: Arc<Problem>,
    data: Arc<EpisodeData>,
    folds: Vec<SearchFold>,
    /// `[rows]` the fold that decides; none where nobody does.
    fold_of: Vec<Option<u16>>,
    /// `[rows]` the name of a row in random numbers: the same bar has the same, wherever its row lies.
    counters: Vec<u64>,
    /// The largest position of a row, as a share of equity.
    share: f64,
    /// `[slots][folds]` who decides for each slot; where it is empty, all members of a fold for all slots.
    lanes: Vec<Vec<Deciders>>,
    /// `[folds]` trees; none where nobody searches.
    searches: Vec<Option<Mutex<Search<FoldMarket>>>>,
    /// `[folds][members][threads]`
    nets: Vec<Vec<Mutex<Vec<UnitEvaluator>>>>,
}

/// What a policy of searchers is made of beside its folds.
pub struct SearchRows {
    /// The feature table.
    pub problem: Arc<Problem>,
    /// Prices and rules.
    pub data: Arc<EpisodeData>,
    /// `[rows]` the fold that decides; none where nobody does.
    pub fold_of: Vec<Option<u16>>,
    /// `[rows]` the name of a row in random numbers.
    pub counters: Vec<u64>,
    /// What a full position of one symbol is of the whole.
    pub share: f64,
}

impl SearchPolicy {
    /// Searchers on so many threads of a processor; `lanes` as in [`crate::ppo::PpoPolicy::with_lanes`].
    ///
    /// # Errors
    ///
    /// Where a net or a number of a search makes no sense.
    pub fn new(
        rows: SearchRows,
        folds: Vec<SearchFold>,
        lanes: Vec<Vec<Deciders>>,
        threads: usize,
    ) -> Result<SearchPolicy> {
        let (mut searches, mut nets) = (Vec::new(), Vec::new());
        for fold in &folds {
            let Some(market) = &fold.market else {
                searches.push(None);
                nets.push(Vec::new());
                continue;
            };
            let settings = fold.shape.settings(SEED, false);
            let search = Search::new(&**market, &settings, threads, u64::MAX).map_err(failed)?;
            searches.push(Some(Mutex::new(search)));
            let net = |params: &Vec<f32>| {
                UnitEvaluator::several(&fold.policy.net, params.clone(), market.unit, threads).map(Mutex::new)
            };
            nets.push(fold.policy.members.iter().map(net).collect::<compute::Result<_>>().map_err(failed)?);
        }
        let SearchRows { problem, data, fold_of, counters, share } = rows;
        Ok(SearchPolicy { problem, data, folds, fold_of, counters, share, lanes, searches, nets })
    }

    /// Targets of places of a view that one fold decides on.
    fn decide(&self, fold: usize, places: &[usize], view: &View<'_>) -> Result<Vec<f64>> {
        let own = &self.folds[fold];
        let deciders = |at: usize| self.lanes.get(view.slots[at] as usize).map(|lane| &lane[fold]);
        let flat = |at: &usize| deciders(*at).map_or(own.policy.flat, |own| own.flat) as f32;
        let mut votes: Vec<[f32; ACTIONS]> = places.iter().map(|at| [0.0, flat(at), 0.0]).collect();
        let scales: Vec<Scale> = own.policy.scales.iter().flatten().cloned().collect();
        if let (Some(market), Some(search)) = (&own.market, &self.searches[fold]) {
            let root = |at: usize| {
                let row = view.rows[at];
                let observed = seen_alone(&view.observed[at * OBSERVED..(at + 1) * OBSERVED], self.share);
                let mut shown = Vec::new();
                observation(&self.problem.inputs, &scales, row, &mut shown);
                let known = market.root(&self.data, row, shown, &observed, 0..0);
                Root { known, counter: self.counters[row as usize] }
            };
            for (number, nets) in self.nets[fold].iter().enumerate() {
                let asked: Vec<usize> = (0..places.len())
                    .filter(|i| deciders(places[*i]).is_none_or(|own| own.members.contains(&number)))
                    .collect();
                let roots: Vec<Root<InfoSet>> = asked.iter().map(|i| root(places[*i])).collect();
                let mut search = search.lock().unwrap_or_else(PoisonError::into_inner);
                let mut nets = nets.lock().unwrap_or_else(PoisonError::into_inner);
                let found = searched(&mut search, market, &mut nets, &roots, own.shape.roots).map_err(failed)?;
                asked.iter().zip(&found.chosen).for_each(|(i, action)| votes[*i][usize::from(*action)] += 1.0);
            }
        }
        Ok(votes.iter().map(preferred).collect())
    }
}

/// The root of what deployed searches draw; rows differ by their counters.
const SEED: u64 = 0x5eac_4ed0;

impl Policy for SearchPolicy {
    fn needs(&self) -> Needs {
        Needs { account: true, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        actions.fill(Action::target(f64::NAN));
        let fold_of = |at: usize| self.fold_of.get(view.rows[at] as usize).copied().flatten();
        let mut folds: Vec<u16> = (0..view.rows.len()).filter_map(fold_of).collect();
        folds.sort_unstable();
        folds.dedup();
        for fold in folds {
            let places: Vec<usize> = (0..view.rows.len()).filter(|at| fold_of(*at) == Some(fold)).collect();
            let targets = self.decide(usize::from(fold), &places, view)?;
            for (at, target) in places.iter().zip(targets) {
                actions[*at] = Action::target(target * self.share);
            }
        }
        Ok(())
    }
}
