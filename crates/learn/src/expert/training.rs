//! Experts while they train: search and act, estimate returns, learn.

use super::card::CardSearch;
use super::evaluator::UnitEvaluator;
use super::model::{ACTIONS, FoldMarket, observation};
use super::replay::{Descent, Epoch, Replay, Sums, Target, TargetLoss};
use super::returns::Course;
use super::{DISCRETE, Expert, Hypers, processor, threads_of};
use crate::ppo::{Walk, Walker, walk_pieces};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Problem, Progress, Score, Snapshot, Training};
use compute::nets::{Hyper, Nets};
use compute::population::{Optimiser, Pins, Precision, Scale};
use compute::random::{Permutation, Stream, below, philox, uniform};
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
struct Member {
    key: MemberKey,
    market: Arc<FoldMarket>,
    /// `[inputs of the net]`
    scales: Vec<Option<Scale>>,
    environment: Environment,
    replay: Replay,
    unit: u32,
    step: u32,
    active: bool,
    due: bool,
    fault: Option<String>,
    seen: Seen,
}

/// What the last iteration saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    /// Mean growth of equity in a step.
    growth: f64,
    /// Share of roots at which the search would change the position.
    changed: f64,
    /// Mean of what a root was worth to the search, in units of the market.
    value: f64,
    policy_loss: f64,
    value_loss: f64,
    entropy: f64,
    norm: f64,
    rate: f64,
}

/// Numbers of it in a snapshot.
const SEEN: usize = 8;

impl Seen {
    fn numbers(&self) -> [f64; SEEN] {
        let Seen { growth, changed, value, policy_loss, value_loss, entropy, norm, rate } = *self;
        [growth, changed, value, policy_loss, value_loss, entropy, norm, rate]
    }

    fn of([growth, changed, value, policy_loss, value_loss, entropy, norm, rate]: [f64; SEEN]) -> Seen {
        Seen { growth, changed, value, policy_loss, value_loss, entropy, norm, rate }
    }
}

/// Values of rows that are asked for at once, behind a rollout.
const CHUNK: usize = 512;

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
        let seed = self.expert.spec.configs[self.kind].recipe.seed;
        let threads = self.threads.current_num_threads();
        let (expert, member) = (&self.expert, &mut self.members[at]);
        let Searcher::Processor { teach, .. } = &mut self.searcher else {
            return Err(Error::Invalid("members of a card go together".into()));
        };
        let mut evaluators = UnitEvaluator::several(&self.net, params, member.market.unit, threads)?;
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
        let seed = self.expert.spec.configs[self.kind].recipe.seed;
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
                let mut evaluators = UnitEvaluator::several(net, params, member.market.unit, 1)?;
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
        let shape = self.hypers().search;
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
                        UnitEvaluator::several(&self.net, params.clone(), member.market.unit, threads)?;
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

/// A member's steps of one iteration.
struct Rollout {
    hypers: Hypers,
    courses: Vec<Course>,
    targets: Vec<Target>,
    /// Episodes that were cut off, by account and step, and what is shown there.
    cut: Vec<(usize, usize)>,
    asked: Vec<(u32, [f32; OBSERVED])>,
    grown: f64,
    changed: usize,
    worth: f64,
}

impl Rollout {
    fn new(hypers: &Hypers) -> Rollout {
        let n = hypers.n_envs as usize;
        Rollout {
            hypers: *hypers,
            courses: vec![Course::default(); n],
            targets: Vec::with_capacity(n * hypers.n_steps as usize),
            cut: Vec::new(),
            asked: Vec::new(),
            grown: 0.0,
            changed: 0,
            worth: 0.0,
        }
    }

    /// The step of a member's whole training.
    fn number(&self, member: &Member, t: u32) -> u32 {
        member.unit.wrapping_mul(self.hypers.n_steps).wrapping_add(t)
    }

    /// Where its accounts are, as roots.
    fn roots(&self, expert: &Expert, member: &mut Member, t: u32) -> Vec<Root<InfoSet>> {
        let (id, step, n) = (member.key.id(), self.number(member, t), u64::from(self.hypers.n_envs));
        let horizon = Some(self.hypers.search.horizon);
        let view = member.environment.view();
        let (rows, observed) = (view.rows.to_vec(), view.observed.to_vec());
        let places = rows.iter().zip(observed.chunks_exact(OBSERVED)).zip(0u64..);
        places
            .map(|((row, observed), i)| Root {
                known: known(expert, member, *row, observed, horizon),
                counter: u64::from(id) << 40 ^ (u64::from(step) * n + i),
            })
            .collect()
    }

    /// Takes a step by what the search from these roots found, which begins at `first`.
    fn step(
        &mut self,
        member: &mut Member,
        roots: &[Root<InfoSet>],
        found: &Outcomes,
        first: usize,
        t: u32,
        seed: u64,
    ) {
        let (id, unit, step) = (member.key.id(), member.market.unit, self.number(member, t));
        let view = member.environment.view();
        let mut wanted = Vec::with_capacity(roots.len());
        for (i, (root, legal)) in roots.iter().zip(view.legal.chunks_exact(3)).enumerate() {
            let at = first + i;
            let legal = legal.iter().enumerate().fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a);
            let improved: [f32; ACTIONS] = std::array::from_fn(|a| found.policy[at * ACTIONS + a]);
            let bits = philox(seed, [i as u32, step, Stream::Action as u32, id]);
            // What a position is worth must not stand for what the market was like when it was taken.
            let action = match uniform(bits[1]) < self.hypers.explored {
                true => any_legal(legal, bits[2]),
                false => drawn(&improved, uniform(bits[0])),
            };
            wanted.push(action as f64 - 1.0);
            self.changed += usize::from(found.chosen[at] != found.held[at]);
            self.worth += f64::from(found.value[at] / unit);
            self.courses[i].values.push(f64::from(found.value[at]));
            self.targets.push(Target {
                row: view.rows[i],
                observed: view.observed[i * OBSERVED..(i + 1) * OBSERVED].try_into().expect("an observation"),
                legal,
                policy: without(&improved, &member.market.prior_of(&root.known)),
                value: 0.0,
            });
        }
        member.environment.step(&wanted);
        for (i, course) in self.courses.iter_mut().enumerate() {
            let reward = member.environment.rewards()[i];
            self.grown += reward;
            course.rewards.push(reward);
            let truncated = member.environment.truncated()[i];
            course.ends.push((truncated || member.environment.terminated()[i]).then_some(0.0));
            if truncated {
                let (row, observed) = member.environment.last(i);
                self.cut.push((i, t as usize));
                self.asked.push((row, observed.try_into().expect("an observation")));
            }
        }
    }

    /// What a net can learn from all steps.
    fn finish(mut self, expert: &Expert, member: &mut Member, evaluator: &mut UnitEvaluator) -> Result<Vec<Target>> {
        let Hypers { n_envs, search: shape, realised, .. } = self.hypers;
        let (n, unit, gamma) = (n_envs as usize, member.market.unit, expert.gamma);
        let view = member.environment.view();
        let last = view.rows.iter().zip(view.observed.chunks_exact(OBSERVED));
        self.asked.extend(last.map(|(row, observed)| (*row, observed.try_into().expect("an observation"))));
        let values = valued(expert, member.key.fold, evaluator, &self.asked)?;
        let (of_cut, of_last) = values.split_at(self.cut.len());
        let (courses, targets) = (&mut self.courses, &mut self.targets);
        self.cut.iter().zip(of_cut).for_each(|((i, t), value)| courses[*i].ends[*t] = Some(f64::from(*value)));
        courses.iter_mut().zip(of_last).for_each(|(course, value)| course.behind = f64::from(*value));
        for (i, course) in courses.iter().enumerate() {
            let returns = course.returns(shape.horizon as usize, f64::from(gamma));
            for (t, (earned, root)) in returns.iter().zip(&course.values).enumerate() {
                let share = f64::from(realised);
                let value = share * earned + (1.0 - share) * root;
                targets[t * n + i].value = (value / f64::from(unit)) as f32;
            }
        }
        let rows = targets.len() as f64;
        let (growth, changed, value) = (self.grown / rows, self.changed as f64 / rows, self.worth / rows);
        member.seen = Seen { growth, changed, value, ..Seen::default() };
        Ok(self.targets)
    }
}

/// The counters of roots that are walked, apart from those that teach.
const WALKING: u64 = 1 << 63;

/// What is known at a row to an account that is shown this; rows within a horizon may not be drawn.
fn known(expert: &Expert, member: &Member, row: u32, observed: &[f32], horizon: Option<u32>) -> InfoSet {
    let mut shown = Vec::new();
    observation(&expert.folds.problem.inputs, &expert.scalers[member.key.fold].scales, row, &mut shown);
    let clock = expert.clocks[row as usize];
    let excluded = horizon.map_or(0..0, |bars| clock.saturating_sub(bars)..clock.saturating_add(bars + 1));
    member.market.root(&expert.folds.data, row, shown, observed, excluded)
}

/// Searches from all roots, so many in a batch.
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
    Ok(all)
}

/// Values of what is shown at rows, by the net alone.
fn valued(
    expert: &Expert,
    fold: usize,
    evaluator: &mut UnitEvaluator,
    asked: &[(u32, [f32; OBSERVED])],
) -> Result<Vec<f32>> {
    let mut values = Vec::with_capacity(asked.len());
    for part in asked.chunks(CHUNK) {
        let mut shown = Vec::new();
        for (row, observed) in part {
            observation(&expert.folds.problem.inputs, &expert.scalers[fold].scales, *row, &mut shown);
            shown.extend_from_slice(observed);
        }
        let (mut logits, mut own) = (vec![0.0; part.len() * ACTIONS], vec![0.0; part.len()]);
        evaluator.evaluate(&shown, &mut logits, &mut own)?;
        values.append(&mut own);
    }
    Ok(values)
}

/// The action that a policy takes where this was drawn, uniform in [0, 1).
fn drawn(policy: &[f32; ACTIONS], draw: f32) -> usize {
    let last = (0..ACTIONS).rev().find(|a| policy[*a] > 0.0).unwrap_or(1);
    let mut sum = 0.0;
    let first = (0..ACTIONS).find(|a| {
        sum += policy[*a];
        policy[*a] > 0.0 && draw < sum
    });
    first.unwrap_or(last)
}

/// One of the legal actions, each as likely.
fn any_legal(legal: u8, word: u32) -> usize {
    let number = below(word, legal.count_ones().max(1));
    (0..ACTIONS).filter(|action| legal >> action & 1 != 0).nth(number as usize).unwrap_or(1)
}

/// An improved policy without what a trend added: that guides a search, and is not learned, or it would be added again
/// in every iteration.
fn without(policy: &[f32; ACTIONS], prior: &[f32; ACTIONS]) -> [f32; ACTIONS] {
    let own: [f32; ACTIONS] = std::array::from_fn(|a| policy[a] * (-prior[a]).exp());
    let sum: f32 = own.iter().sum();
    own.map(|p| p / sum)
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
                precision: Precision::F32,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_action_is_a_legal_one() {
        for legal in 1..8u8 {
            let mut seen = [0; ACTIONS];
            (0..300u32).for_each(|i| seen[any_legal(legal, philox(1, [i, 0, 0, 0])[0])] += 1);
            let share = 300 / legal.count_ones();
            for (action, count) in seen.into_iter().enumerate() {
                match legal >> action & 1 != 0 {
                    true => assert!(count > share / 2 && count < 2 * share + 1, "{legal} {seen:?}"),
                    false => assert_eq!(count, 0, "{legal} {seen:?}"),
                }
            }
        }
    }
}
