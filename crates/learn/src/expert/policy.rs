//! What is deployed: of every row the fold that may decide, its members searching at every close, each in a market that
//! it owns.
//!
//! Folds decide one after the other, and a tree is built anew for every root, so a policy has one set of trees,
//! whatever the number of its folds: the fold that decides has it, with the nets of its members.
//!
//! Members draw scenarios of their own, by the seed that each was trained with, so that they err apart. At a close that
//! the market was fitted on, rows within the horizon are not drawn, as while training.
//!
//! A member votes for what its search chose; the position with most votes is taken, flat where it has as many. A member
//! that stays flat votes for flat.

use super::SearchShape;
use super::card::CardSearch;
use super::evaluator::UnitEvaluator;
use super::model::{ACTIONS, FoldMarket, observation};
use super::training::searched;
use crate::ppo::{Deciders, Deciding, FoldPolicy, preferred};
use crate::{Problem, failed};
use account::Action;
use compute::Opened;
use compute::population::{Precision, Scale};
use files::Result;
use market::{EpisodeData, Needs, Policy, View};
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
    /// How their nets compute on a processor; on a card they do in bf16.
    pub precision: Precision,
}

/// Searchers of folds as one policy.
pub struct SearchPolicy {
    problem: Arc<Problem>,
    data: Arc<EpisodeData>,
    folds: Vec<SearchFold>,
    deciding: Deciding,
    /// `[rows]` the name of a row in random numbers: the same bar has the same, wherever its row lies.
    counters: Vec<u64>,
    device: Opened,
    /// Bytes that trees may take, at most.
    most: u64,
    /// The fold that decided last, and where it searches.
    current: Mutex<Option<(usize, FoldSearch)>>,
}

/// Where the members of a fold search.
enum FoldSearch {
    /// One after the other.
    Processor(Box<Processor>),
    /// All together.
    Card(Box<CardSearch>),
}

struct Processor {
    shape: SearchShape,
    trees: Search<FoldMarket>,
    nets: Vec<Vec<UnitEvaluator>>, // [members][threads]
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
    /// Searchers on a device, whose trees take at most so many bytes; `lanes` as in
    /// [`crate::ppo::PpoPolicy::with_lanes`].
    ///
    /// # Errors
    ///
    /// Where a net or a number of a search makes no sense, or there is no memory for it.
    pub fn new(
        rows: SearchRows,
        folds: Vec<SearchFold>,
        lanes: Vec<Vec<Deciders>>,
        (device, most): (&Opened, u64),
    ) -> Result<SearchPolicy> {
        let SearchRows { problem, data, fold_of, counters, share } = rows;
        let deciding = Deciding { fold_of, share, lanes };
        let (device, current) = (device.clone(), Mutex::default());
        let policy = SearchPolicy { problem, data, folds, deciding, counters, device, most, current };
        // What cannot be searched is an error now, not in the middle of a walk.
        for fold in policy.folds.iter().filter(|fold| fold.market().is_some()) {
            if let Opened::Cpu { threads } = &policy.device {
                fold.shape.fit_into(*threads, policy.most).map_err(failed)?;
            }
        }
        Ok(policy)
    }

    /// Bytes of its trees by now: none before its first decision.
    pub fn tree_bytes(&self) -> u64 {
        match &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((_, FoldSearch::Processor(own))) => own.trees.bytes(),
            Some((_, FoldSearch::Card(_))) | None => 0,
        }
    }

    /// Where a fold searches, in the memory of the fold before it.
    fn searching<'c>(
        &self,
        current: &'c mut Option<(usize, FoldSearch)>,
        fold: usize,
        market: &Arc<FoldMarket>,
    ) -> compute::Result<&'c mut FoldSearch> {
        let before = current.take();
        let search = match before {
            Some((own, search)) if own == fold => search,
            before => {
                let before = before.map(|(_, search)| search);
                FoldSearch::new(&self.folds[fold], market, (&self.device, self.most), before)?
            }
        };
        Ok(&mut current.insert((fold, search)).1)
    }

    /// Targets of places of a view that one fold decides on.
    fn decide(&self, fold: usize, places: &[usize], view: &View<'_>) -> Result<Vec<f64>> {
        let own = &self.folds[fold];
        let deciders = |at: usize| self.deciding.deciders(view.slots[at], fold);
        let flat = |at: &usize| deciders(*at).map_or(own.policy.flat, |own| own.flat) as f32;
        let mut votes: Vec<[f32; ACTIONS]> = places.iter().map(|at| [0.0, flat(at), 0.0]).collect();
        let scales: Vec<Scale> = own.policy.scales.iter().flatten().cloned().collect();
        if let Some(market) = own.market() {
            let known = |at: &usize| {
                let row = view.rows[*at];
                let observed = self.deciding.seen_alone(view, *at);
                let mut shown = Vec::new();
                observation(&self.problem.inputs, &scales, row, &mut shown);
                let excluded = market.within(&shown, &self.data.table().bars[row as usize], own.shape.horizon);
                market.root(&self.data, row, shown, &observed, excluded)
            };
            let members = own.policy.members.len();
            let asked = |number: usize| -> Vec<usize> {
                let is_asked = |i: &usize| deciders(places[*i]).is_none_or(|own| own.members.contains(&number));
                (0..places.len()).filter(is_asked).collect()
            };
            let asked: Vec<Vec<usize>> = (0..members).map(asked).collect();
            let known: Vec<InfoSet> = places.iter().map(known).collect();
            let root = |number: usize, i: usize| {
                let row = self.counters[view.rows[places[i]] as usize];
                Root { known: known[i].clone(), counter: counter_of(row, own.policy.seeds[number]) }
            };
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            match self.searching(&mut current, fold, market).map_err(failed)? {
                FoldSearch::Processor(search) => {
                    let Processor { trees, nets, .. } = &mut **search;
                    for ((number, asked), nets) in asked.iter().enumerate().zip(nets) {
                        let roots: Vec<Root<InfoSet>> = asked.iter().map(|i| root(number, *i)).collect();
                        let found = searched(trees, market, nets, &roots, own.shape.roots).map_err(failed)?;
                        asked.iter().zip(&found.chosen).for_each(|(i, action)| votes[*i][usize::from(*action)] += 1.0);
                    }
                }
                FoldSearch::Card(search) => {
                    let own = asked.iter().enumerate().flat_map(|(net, asked)| asked.iter().map(move |i| (net, *i)));
                    let own: Vec<(usize, usize)> = own.collect();
                    let roots: Vec<Root<InfoSet>> = own.iter().map(|(net, i)| root(*net, *i)).collect();
                    let all: Vec<(usize, &Root<InfoSet>)> = own.iter().map(|(net, _)| *net).zip(&roots).collect();
                    let found = search.run(&all, false).map_err(failed)?;
                    own.iter().zip(&found.chosen).for_each(|((_, i), action)| votes[*i][usize::from(*action)] += 1.0);
                }
            }
        }
        Ok(votes.iter().map(preferred).collect())
    }
}

impl SearchFold {
    /// The market, where members search in it.
    fn market(&self) -> Option<&Arc<FoldMarket>> {
        self.market.as_ref().filter(|_| !self.policy.members.is_empty())
    }
}

impl FoldSearch {
    /// The search of a fold, in the trees of the one before where they are of the same shape.
    fn new(
        fold: &SearchFold,
        market: &Arc<FoldMarket>,
        (device, most): (&Opened, u64),
        before: Option<FoldSearch>,
    ) -> compute::Result<FoldSearch> {
        let (shape, settings, net) = (fold.shape, fold.shape.settings(SEED, false), &fold.policy.net);
        Ok(match device {
            Opened::Cpu { threads } => {
                let kept = match before {
                    Some(FoldSearch::Processor(before)) if before.shape == shape => Some(before.trees),
                    _ => None,
                };
                let trees = match kept {
                    Some(trees) => trees,
                    None => Search::new(&**market, &settings, *threads, most)?,
                };
                let nets =
                    |params: &Vec<f32>| UnitEvaluator::several(net, params, fold.precision, market.unit, *threads);
                let nets = fold.policy.members.iter().map(nets).collect::<compute::Result<_>>()?;
                FoldSearch::Processor(Box::new(Processor { shape, trees, nets }))
            }
            Opened::Cuda(context) => {
                drop(before);
                let markets = vec![Arc::clone(market); fold.policy.members.len()];
                let mut search = CardSearch::new(context, net, &markets, &settings, AT_ONCE)?;
                let mut members = fold.policy.members.iter().enumerate();
                members.try_for_each(|(net, params)| search.set_params(net, params))?;
                FoldSearch::Card(Box::new(search))
            }
        })
    }
}

/// Roots that go to a card at once; more go in several goes.
pub(super) const AT_ONCE: usize = 1 << 12;

/// Closes whose roots are searched at once.
const CLOSES: usize = 16;

/// The root of what deployed searches draw; rows and members differ by their counters.
const SEED: u64 = 0x5eac_4ed0;

/// The counter of a row's search by the member of a seed.
fn counter_of(row: u64, seed: u32) -> u64 {
    row.wrapping_add(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Policy for SearchPolicy {
    fn needs(&self) -> Needs {
        Needs { account: true, closes_at_once: CLOSES, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        self.deciding.act(view, usize::MAX, actions, |fold, places| self.decide(fold, places, view))
    }
}
