//! Experts while they train: search and act, estimate returns (`rollout.rs`), learn.

use super::card::CardSearch;
use super::evaluator::UnitEvaluator;
use super::model::{ACTIONS, FoldMarket};
use super::replay::{Descent, Epoch, Replay, Sums, Target, TargetLoss};
use super::rollout::{Rollout, SEEN, Seen, known};
use super::{DISCRETE, Expert, Hypers, processor, threads_of};
use crate::ppo::{Walk, Walker, walk_pieces};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Problem, Progress, Score, Snapshot, Training};
use compute::nets::{Hyper, Nets};
use compute::population::{Optimiser, Pins, Recipe, Scale};
use compute::random::Permutation;
use compute::{Budget, Error, Net, Opened, Result, Tables};
use market::{Environment, OBSERVED, STATE};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use search::{Comparison, Evaluate, InfoSet, ModelKind, Outcomes, Root, Search};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Experts of one group.
pub(super) struct ExpertTraining {
    expert: Expert,
    /// The config whose shape all share.
    kind: usize,
    /// In the processor's memory.
    tables: Arc<Tables>,
    /// On the device.
    nets: Nets,
    net: Net,
    members: Vec<Member>,
    threads: ThreadPool,
    searcher: Searcher,
    every: u32,
    units: u32,
    memory: u64,
}

/// Where roots are searched.
enum Searcher {
    /// One member after the other: trees while training, and those of a walk.
    Processor { teach: Box<Search<FoldMarket>>, walk: Box<Search<FoldMarket>> },
    /// All members together.
    Card(Box<CardSearch>),
}

/// An expert.
pub(super) struct Member {
    pub(super) key: MemberKey,
    pub(super) market: Arc<FoldMarket>,
    /// `[inputs of the net]`
    scales: Vec<Option<Scale>>,
    pub(super) environment: Environment,
    replay: Replay,
    pub(super) unit: u32,
    step: u32,
    active: bool,
    due: bool,
    fault: Option<String>,
    pub(super) seen: Seen,
}

/// The counters of roots that are walked, apart from those that teach.
const WALKING: u64 = 1 << 63;

/// A member that is validated: its place, its weights, and the pieces that it walks.
type Due = (usize, Vec<f32>, Vec<Range<u32>>);

impl ExpertTraining {
    pub(super) fn new(
        expert: &Expert,
        at: &DeviceBudget,
        given: &Arc<Tables>,
        keys: &[MemberKey],
        pins: &Pins,
    ) -> Result<ExpertTraining> {
        let kind = expert.group_config(keys);
        let (config, hypers) = (&expert.spec.configs[kind], expert.spec.hypers[kind]);
        let cpu = processor(&at.device)?;
        let count = threads_of(&cpu);
        let tables = match &at.device {
            Opened::Cpu { .. } => Arc::clone(given),
            // A clone has tables of its own, in the processor's memory: nets alone are walked there.
            Opened::Cuda(_) => {
                let made = Problem::clone(&expert.folds.problem).tables(&cpu, Budget::default());
                made.map_err(|e| Error::Invalid(e.to_string()))?
            }
        };
        let made = ThreadPoolBuilder::new().num_threads(count).build();
        let threads = made.map_err(|e| Error::Invalid(format!("threads could not be started: {e}")))?;
        let setups = expert.member_setups(kind, keys);
        let nets = Nets::new(&at.device, at.budget, &config.net, given, &expert.setup(kind), &setups, pins)?;
        let member = |(key, setup): (&MemberKey, compute::nets::MemberSetup)| -> Result<Member> {
            let seed = config.recipe.seed ^ u64::from(key.id()) << 32;
            let stretches = &expert.folds.train[key.fold];
            let accounts = 0..hypers.n_envs;
            Ok(Member {
                key: *key,
                market: expert.market(key.fold)?,
                scales: setup.scales,
                environment: Environment::new(&expert.folds.data, stretches, accounts, hypers.episode, seed),
                replay: Replay::default(),
                unit: 0,
                step: 0,
                active: true,
                due: false,
                fault: None,
                seen: Seen::default(),
            })
        };
        let members = keys.iter().zip(setups).map(member).collect::<Result<Vec<_>>>()?;
        let Some(first) = members.first() else { return Err(Error::Invalid("a group without a member".into())) };
        let seed = config.recipe.seed;
        let searcher = match &at.device {
            Opened::Cpu { .. } => {
                let search = |draws| Search::new(&*first.market, &hypers.search.settings(seed, draws), count, u64::MAX);
                Searcher::Processor { teach: Box::new(search(true)?), walk: Box::new(search(false)?) }
            }
            Opened::Cuda(context) => {
                let markets: Vec<Arc<FoldMarket>> = members.iter().map(|m| Arc::clone(&m.market)).collect();
                let (settings, roots) = (hypers.search.settings(seed, true), expert.roots_at_once(kind, keys));
                Searcher::Card(Box::new(CardSearch::new(context, &config.net, &markets, &settings, roots)?))
            }
        };
        Ok(ExpertTraining {
            searcher,
            every: expert.validate_every(kind),
            units: expert.units(kind),
            memory: expert.needs(&at.device, keys, compute::population::Pace::default())?,
            net: config.net.clone(),
            expert: expert.clone(),
            kind,
            tables,
            nets,
            members,
            threads,
        })
    }

    fn member(&mut self, id: u32) -> Result<(usize, &mut Member)> {
        let found = self.members.iter_mut().enumerate().find(|(_, m)| m.key.id() == id);
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }

    fn hypers(&self) -> Hypers {
        self.expert.spec.hypers[self.kind]
    }

    /// An iteration of all active members: search and act, estimate returns, learn.
    fn iterate(&mut self) -> Result<()> {
        let active: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].active).collect();
        let collected = match &self.searcher {
            Searcher::Processor { .. } => active.iter().map(|at| self.collect(*at)).collect::<Result<Vec<_>>>()?,
            Searcher::Card(_) => self.collect_all(&active)?,
        };
        let most = (self.hypers().rows() * u64::from(self.hypers().replay)) as usize;
        for (at, targets) in active.into_iter().zip(collected) {
            self.members[at].replay.add(targets, most);
        }
        self.learn()?;
        for member in self.members.iter_mut().filter(|m| m.active) {
            member.unit += 1;
            member.due = member.unit.is_multiple_of(self.every) || member.unit >= self.units;
        }
        Ok(())
    }

    /// A member's accounts take their steps, each decided by a search; what a net can learn from that.
    fn collect(&mut self, at: usize) -> Result<Vec<Target>> {
        let (params, hypers) = (self.nets.params(at)?, self.hypers());
        let Recipe { seed, precision, .. } = self.expert.spec.configs[self.kind].recipe;
        let threads = self.threads.current_num_threads();
        let (expert, member) = (&self.expert, &mut self.members[at]);
        let Searcher::Processor { teach, .. } = &mut self.searcher else {
            return Err(Error::Invalid("members of a card go together".into()));
        };
        let mut evaluators = UnitEvaluator::several(&self.net, &params, precision, member.market.unit, threads)?;
        let mut rollout = Rollout::new(&hypers);
        for t in 0..hypers.n_steps {
            let roots = rollout.roots(expert, member, t);
            let found = searched(teach, &member.market, &mut evaluators, &roots, hypers.search.roots)?;
            rollout.step(member, &roots, &found, 0, t, seed);
        }
        rollout.finish(expert, member, &mut evaluators[0])
    }

    /// The same for all of these members, whose roots of a step are one search on the card.
    fn collect_all(&mut self, active: &[usize]) -> Result<Vec<Vec<Target>>> {
        let hypers = self.hypers();
        let Recipe { seed, precision, .. } = self.expert.spec.configs[self.kind].recipe;
        let mut params = Vec::with_capacity(active.len());
        let Searcher::Card(card) = &mut self.searcher else {
            return Err(Error::Invalid("members of a processor go one after the other".into()));
        };
        for at in active {
            let own = self.nets.params(*at)?;
            card.set_params(*at, &own)?;
            params.push(own);
        }
        let (expert, threads) = (&self.expert, &self.threads);
        let members = self.members.iter_mut().enumerate().filter(|(at, _)| active.contains(at));
        let mut going: Vec<(usize, &mut Member, Rollout)> =
            members.map(|(at, member)| (at, member, Rollout::new(&hypers))).collect();
        let n = hypers.n_envs as usize;
        for t in 0..hypers.n_steps {
            let roots: Vec<Vec<Root<InfoSet>>> = threads.install(|| {
                going.par_iter_mut().map(|(_, member, rollout)| rollout.roots(expert, member, t)).collect()
            });
            let all: Vec<(usize, &Root<InfoSet>)> =
                going.iter().zip(&roots).flat_map(|((at, ..), own)| own.iter().map(|root| (*at, root))).collect();
            let found = card.run(&all, true)?;
            threads.install(|| {
                let each = going.par_iter_mut().zip(&roots).enumerate();
                each.for_each(|(i, ((_, member, rollout), roots))| rollout.step(member, roots, &found, i * n, t, seed));
            });
        }
        let net = &self.net;
        threads.install(|| {
            let each = going.into_par_iter().zip(params);
            each.map(|((_, member, rollout), params)| {
                let mut evaluators = UnitEvaluator::several(net, &params, precision, member.market.unit, 1)?;
                rollout.finish(expert, member, &mut evaluators[0])
            })
            .collect()
        })
    }

    /// Goes through the targets of the last iterations.
    fn learn(&mut self) -> Result<()> {
        let Hypers { n_epochs, vf_coef, .. } = self.hypers();
        let config = &self.expert.spec.configs[self.kind];
        let (seed, batch, iterations) = (config.recipe.seed, config.recipe.batch, self.expert.spec.units[self.kind]);
        let hyper = |member: &Member| {
            let own = &self.expert.spec.configs[member.key.config];
            let rate = f64::from(own.rate) * own.recipe.schedule.factor(member.unit + 1, iterations);
            let Optimiser { beta1, beta2, eps, decay, clip, .. } = own.recipe.optimiser;
            Hyper { rate: rate as f32, beta1, beta2, eps, decay, clip, weight: 1.0 }
        };
        let hypers: Vec<Hyper> = self.members.iter().map(hyper).collect();
        for epoch in 0..n_epochs {
            let goes: Vec<bool> = self.members.iter().map(|m| m.active).collect();
            let anywhere = self.members[0].environment.view().rows[0];
            let order = |m: &Member| {
                let number = m.unit.wrapping_mul(n_epochs).wrapping_add(epoch);
                Permutation::new(m.replay.len().max(1) as u32, seed, m.key.id(), number)
            };
            let replays: Vec<(&Replay, Permutation, bool)> =
                self.members.iter().map(|m| (&m.replay, order(m), m.active)).collect();
            let ordered = Epoch::new(&replays, batch, anywhere);
            let descents: Vec<Mutex<Descent>> = self.members.iter().map(|_| Mutex::default()).collect();
            let loss = TargetLoss { epoch: &ordered, value_weight: vf_coef, descents: &descents };
            self.nets.descend(ordered.batch(), batch, &hypers, &goes, &loss)?;
            for ((member, descent), hyper) in self.members.iter_mut().zip(descents).zip(&hypers) {
                if !member.active {
                    continue;
                }
                let Descent { sums, steps, norm, .. } = descent.into_inner().unwrap_or_else(PoisonError::into_inner);
                let Sums { rows, policy, value, entropy } = sums;
                let rows = rows.max(1.0);
                member.step += steps;
                member.seen = Seen {
                    policy_loss: policy / rows,
                    value_loss: value / rows,
                    entropy: entropy / rows / f64::from(ACTIONS as u32).ln(),
                    norm: norm.map_or(0.0, f64::from),
                    rate: f64::from(hyper.rate),
                    ..member.seen
                };
                if norm.is_some_and(|norm| !norm.is_finite()) {
                    member.fault = Some(format!("the gradient is not finite in iteration {}", member.unit + 1));
                    member.active = false;
                }
            }
        }
        Ok(())
    }

    /// `[members][pieces]` what members make of their validation with search; each has its pieces.
    fn walk_with_search(&mut self, due: &[Due]) -> Result<Vec<Vec<(f64, usize)>>> {
        let (shape, precision) = (self.hypers().search, self.expert.spec.configs[self.kind].recipe.precision);
        let threads = self.threads.current_num_threads();
        let expert = &self.expert;
        let roots_of = |member: &Member, walk: &Walk| -> Vec<Root<InfoSet>> {
            let (rows, observed) = walk.view();
            let root = |(row, observed): (&u32, &[f32])| Root {
                known: known(expert, member, *row, observed, None),
                counter: WALKING | u64::from(*row),
            };
            rows.iter().zip(observed.chunks_exact(OBSERVED)).map(root).collect()
        };
        let mut walks: Vec<Walk> = due.iter().map(|(.., pieces)| Walk::new(&expert.folds.data, pieces)).collect();
        match &mut self.searcher {
            Searcher::Processor { walk: search, .. } => {
                for ((at, params, _), walk) in due.iter().zip(&mut walks) {
                    let member = &self.members[*at];
                    let mut evaluators =
                        UnitEvaluator::several(&self.net, params, precision, member.market.unit, threads)?;
                    for _ in 0..walk.steps() {
                        let roots = roots_of(member, walk);
                        let found = searched(search, &member.market, &mut evaluators, &roots, shape.roots)?;
                        walk.step(DISCRETE, &one_hot(&found.chosen));
                    }
                }
            }
            Searcher::Card(card) => {
                due.iter().try_for_each(|(at, params, _)| card.set_params(*at, params))?;
                let members = &self.members;
                for step in 0..walks.iter().map(Walk::steps).max().unwrap_or(0) {
                    let roots: Vec<Vec<Root<InfoSet>>> = self.threads.install(|| {
                        let each = due.par_iter().zip(&walks);
                        let roots = |((at, ..), walk): (&(usize, _, _), &Walk)| {
                            if step < walk.steps() { roots_of(&members[*at], walk) } else { Vec::new() }
                        };
                        each.map(roots).collect()
                    });
                    let own = due.iter().zip(&roots);
                    let all: Vec<(usize, &Root<InfoSet>)> =
                        own.flat_map(|((at, ..), roots)| roots.iter().map(|root| (*at, root))).collect();
                    let found = card.run(&all, false)?;
                    let mut from = 0;
                    for (walk, roots) in walks.iter_mut().zip(&roots).filter(|(_, roots)| !roots.is_empty()) {
                        walk.step(DISCRETE, &one_hot(&found.chosen[from..from + roots.len()]));
                        from += roots.len();
                    }
                }
            }
        }
        Ok(walks.iter().map(Walk::growth).collect())
    }
}

/// `[n, A]` 1 for what was chosen.
fn one_hot(chosen: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; chosen.len() * ACTIONS];
    chosen.iter().enumerate().for_each(|(i, action)| out[i * ACTIONS + usize::from(*action)] = 1.0);
    out
}

/// Searches from all roots, so many in a batch. As on a card, a search that asked for a row behind the end of its
/// model's training, or had none left to draw, is an error.
pub(super) fn searched<E: Evaluate>(
    search: &mut Search<FoldMarket>,
    market: &FoldMarket,
    evaluators: &mut [E],
    roots: &[Root<InfoSet>],
    at_once: u32,
) -> Result<Outcomes> {
    let mut all = Outcomes { actions: ACTIONS, ..Outcomes::default() };
    for roots in roots.chunks((at_once as usize).max(1)) {
        all.append(search.run(market, evaluators, roots)?);
    }
    market.check_drawn().map(|()| all)
}

impl Training for ExpertTraining {
    fn memory(&self) -> u64 {
        self.memory
    }

    fn kernel_paths(&self) -> Vec<String> {
        match &self.searcher {
            Searcher::Processor { .. } => Vec::new(),
            Searcher::Card(card) => vec![card.describe().to_string()],
        }
    }

    fn pins(&self) -> Pins {
        self.nets.pins()
    }

    fn progress(&self) -> Vec<Progress> {
        let rows = self.hypers().rows();
        let member = |m: &Member| Progress {
            id: m.key.id(),
            active: m.active,
            due: m.due,
            unit: m.unit,
            step: m.step,
            samples: rows * u64::from(m.unit),
            fault: m.fault.clone(),
        };
        self.members.iter().map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        // A chunk ends with an iteration, where a state can be kept.
        let Hypers { n_epochs, .. } = self.hypers();
        let batch = self.expert.spec.configs[self.kind].recipe.batch as u64;
        let each = u64::from(n_epochs) * self.hypers().rows().div_ceil(batch);
        for _ in 0..u64::from(at_most).div_ceil(each.max(1)) {
            if self.members.iter().any(|m| m.due) || self.members.iter().all(|m| !m.active) {
                break;
            }
            self.iterate()?;
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let mut scores = Vec::new();
        let mut due: Vec<Due> = Vec::new();
        for at in (0..self.members.len()).filter(|at| self.members[*at].due).collect::<Vec<_>>() {
            due.push((at, self.nets.params(at)?, self.expert.pieces(&self.hypers(), self.members[at].key.fold)));
        }
        // Where everything is training there is nothing to select by.
        let is_validated = |own: &Self, at: usize| own.expert.folds.is_validated[own.members[at].key.fold];
        let selecting: Vec<(usize, Vec<f32>, Vec<Range<u32>>)> =
            due.iter().filter(|(at, ..)| is_validated(self, *at)).cloned().collect();
        let mut walked = self.walk_with_search(&selecting)?.into_iter();
        for (at, params, pieces) in due {
            let (validated, fold) = (is_validated(self, at), self.members[at].key.fold);
            let walker = Walker {
                net: &self.net,
                params: &params,
                precision: self.expert.spec.configs[self.kind].recipe.precision,
                tables: &self.tables,
                scales: &self.members[at].scales,
                actions: DISCRETE,
            };
            let alone = self.threads.install(|| walk_pieces(walker, &self.expert.folds.data, &pieces))?;
            let (net, net_error) = self.expert.folds.growth(fold, &alone);
            let with_search = if validated { walked.next().unwrap_or_default() } else { Vec::new() };
            let (growth, error) = self.expert.folds.growth(fold, &with_search);
            let member = &mut self.members[at];
            member.due = false;
            let Seen { growth: grown, changed, value, policy_loss, value_loss, entropy, norm, rate } = member.seen;
            let (crps, coverage) = member.market.score();
            let compared = member.market.comparison();
            let of = |figure: fn(&Comparison) -> f64| compared.map_or(f64::NAN, figure);
            let metrics = Metrics::new(&[
                ("train_growth", 1e4 * grown),
                ("valid_growth", 1e4 * growth),
                ("valid_error", 1e4 * error),
                ("net_growth", 1e4 * net),
                ("net_error", 1e4 * net_error),
                ("entropy", entropy),
                ("policy_loss", policy_loss),
                ("value_loss", value_loss),
                ("root_value", value),
                ("changed", changed),
                ("model_crps", crps),
                ("model_coverage", coverage),
                ("model_learned", f64::from(u8::from(member.market.model() == ModelKind::Learned))),
                ("bootstrap_crps", of(|both| both.bootstrap.crps)),
                ("bootstrap_coverage", of(|both| both.bootstrap.coverage)),
                ("learned_crps", of(|both| both.learned.crps)),
                ("learned_coverage", of(|both| both.learned.coverage)),
                ("norm", norm),
                ("learning_rate", rate),
            ]);
            let (id, unit, step) = (member.key.id(), member.unit, member.step);
            scores.push(Score { id, unit, step, score: 1e4 * growth, metrics });
        }
        Ok(scores)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|m| m.due = false);
        Ok(())
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let (at, _) = self.member(id)?;
        self.nets.params(at)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let (at, _) = self.member(id)?;
        let weights = self.nets.params(at)?;
        let (mean, square, optimised) = self.nets.optimiser(at)?;
        let member = &self.members[at];
        let flags = u32::from(member.active) | u32::from(member.due) << 1;
        let mut bytes = Vec::new();
        [id, member.unit, member.step, optimised, flags].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        let numbers = member.seen.numbers().into_iter().chain(member.environment.state());
        numbers.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        member.replay.write(&mut bytes);
        weights.iter().chain(&mean).chain(&square).for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Ok(Snapshot { id, weights, bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let accounts = self.hypers().n_envs as usize;
        let (at, member) = self.member(snapshot.id)?;
        let (head, rest) = snapshot.bytes.split_at_checked(HEAD).ok_or_else(not_ours)?;
        let (numbers, rest) = rest.split_at_checked(8 * (SEEN + accounts * STATE)).ok_or_else(not_ours)?;
        let (replay, arrays) = Replay::read(rest).ok_or_else(not_ours)?;
        let word = |at: usize| u32::from_le_bytes(head[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let numbers: Vec<f64> =
            numbers.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect();
        let (seen, state) = numbers.split_at(SEEN);
        (member.unit, member.step, member.replay) = (word(1), word(2), replay);
        (member.active, member.due) = (word(4) & 1 == 1, word(4) & 2 == 2);
        member.seen = Seen::of(seen.try_into().expect("what was seen"));
        if !member.environment.restore(state) {
            return Err(not_ours());
        }
        let params = snapshot.weights.len();
        let floats: Vec<f32> =
            arrays.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
        if floats.len() != 3 * params {
            return Err(not_ours());
        }
        self.nets.set_params(at, &floats[..params])?;
        self.nets.set_optimiser(at, &floats[params..2 * params], &floats[2 * params..], word(3))
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, _) = self.member(from)?;
        let (to, _) = self.member(to)?;
        self.nets.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let (_, member) = self.member(id)?;
        (member.active, member.due) = (false, false);
        Ok(())
    }
}

/// Bytes in front of a snapshot's numbers.
pub(super) const HEAD: usize = 5 * 4;

fn not_ours() -> Error {
    Error::Invalid("the snapshot of an expert is not of this run".into())
}
