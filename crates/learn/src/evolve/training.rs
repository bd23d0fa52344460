//! Evolved policies while they train: ask, let individuals trade, tell.

use super::cuda::{self, Card};
use super::rollout::{Course, Spans, Worker};
use super::span::mean_steps;
use super::stack::{Line, Stack, ZEROS};
use super::strategy::{Counted, Drawn, KeptDraw, State, Strategy};
use super::views::{Sources, Views};
use super::{Evolve, Fitness, Hypers};
use crate::ppo::{Walker, walk_pieces};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Problem, Progress, Score, Snapshot, Training};
use compute::population::{Pace, Pins, Precision, Scale};
use compute::{Budget, Choice, Error, Opened, Result, Tables};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Search distributions of one group.
pub(super) struct EvolveTraining {
    evolve: Evolve,
    /// The config whose shape all share.
    kind: usize,
    stack: Arc<Stack>,
    tables: Arc<Tables>,
    members: Vec<Member>,
    threads: ThreadPool,
    /// One for each thread; none where a card does their work.
    workers: Vec<Mutex<Worker>>,
    card: Option<Card>,
    /// `[members]` normals of the generation.
    kept: Vec<Vec<Mutex<KeptDraw>>>,
    /// `[members, individuals]` bits of how fit each is; threads write their own.
    fitness: Vec<AtomicU64>,
    /// Draws that a thread takes at once.
    each: usize,
    every: u32,
    units: u32,
    memory: u64,
}

/// A search distribution.
struct Member {
    key: MemberKey,
    search: Box<dyn Strategy>,
    scales: Vec<Option<Scale>>,
    /// The weights of its middle, where individuals share them.
    base: Vec<Line>,
    spans: Spans,
    /// Steps of a generation, in the mean.
    steps: f64,
    views: Views,
    unit: u32,
    active: bool,
    due: bool,
    fault: Option<String>,
    seen: Seen,
    /// Whether the card has gone on since `search` and `seen` were brought from there.
    stale: bool,
}

impl Member {
    /// Behind a generation: whether a validation is due, and whether it can go on.
    fn settle(&mut self, every: u32, units: u32, finite: bool) {
        self.due = self.unit.is_multiple_of(every) || self.unit >= units;
        if !finite {
            self.fault = Some(format!("the step of generation {} is not finite", self.unit));
            (self.active, self.due) = (false, false);
        }
    }
}

/// What the last generation saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    best: f64,
    mean: f64,
    rate: f64,
}

impl Seen {
    fn new(fitness: &[f64], rate: f64) -> Seen {
        let best = fitness.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Seen { best, mean: fitness.iter().sum::<f64>() / fitness.len() as f64, rate }
    }
}

impl EvolveTraining {
    pub(super) fn new(
        evolve: &Evolve,
        at: &DeviceBudget,
        given: &Arc<Tables>,
        keys: &[MemberKey],
    ) -> Result<EvolveTraining> {
        let kind = evolve.group_config(keys);
        let (stack, hypers) = (Arc::clone(&evolve.stacks[kind]), &evolve.spec.hypers[kind]);
        let count = evolve.threads(&at.device);
        let mut builder = ThreadPoolBuilder::new().num_threads(count);
        if evolve.speed.pinned {
            builder = builder.start_handler(crate::os::pin_thread);
        }
        let made = builder.build();
        let threads = made.map_err(|e| Error::Invalid(format!("threads could not be started: {e}")))?;
        let tables = match &at.device {
            Opened::Cpu { .. } => Arc::clone(given),
            // A clone has tables of its own, in the processor's memory.
            Opened::Cuda(_) => {
                let cpu = Opened::new(Choice::Cpu, count)?.0;
                let made = Problem::clone(&evolve.folds.problem).tables(&cpu, Budget::default());
                made.map_err(|e| Error::Invalid(e.to_string()))?
            }
        };
        let member = |key: &MemberKey| -> Result<Member> {
            Ok(Member {
                key: *key,
                search: evolve.begin_search(*key)?,
                scales: evolve.folds.scalers[key.fold].scales_of(&evolve.spec.configs[kind].net),
                base: vec![ZEROS; hypers.factors(&stack).map_or(0, |factors| factors.base_lines)],
                spans: Spans::default(),
                steps: mean_steps(hypers, &evolve.folds.train[key.fold]),
                views: Views::default(),
                unit: 0,
                active: true,
                due: false,
                fault: None,
                seen: Seen::default(),
                stale: false,
            })
        };
        let members = keys.iter().map(member).collect::<Result<Vec<_>>>()?;
        let card = match &at.device {
            Opened::Cpu { .. } => None,
            Opened::Cuda(context) => match cuda::fits(context, evolve, kind) {
                Some(shape) => Some(Card::new(context, evolve, kind, keys, given, shape)?),
                None => None,
            },
        };
        let in_bf16 = evolve.spec.configs[kind].recipe.precision == Precision::Bf16;
        if card.is_none() && in_bf16 && hypers.rank > 0 {
            return Err(Error::Invalid("individuals of low rank compute in f32 on a processor".into()));
        }
        let each = hypers.draws_of_task(count, evolve.speed.at_once);
        let worker = |_| Mutex::new(Worker::new(&evolve.folds.data, &stack, hypers, each));
        let room = |_: &MemberKey| Drawn::room(hypers.draws() as usize, hypers.numbers(&stack));
        let training = EvolveTraining {
            workers: (0..if card.is_some() { 0 } else { count }).map(worker).collect(),
            kept: if card.is_some() { Vec::new() } else { keys.iter().map(room).collect() },
            card,
            fitness: (0..keys.len() * hypers.population as usize).map(|_| AtomicU64::new(0)).collect(),
            each,
            every: evolve.validate_every(&at.device, kind),
            units: evolve.units(kind),
            memory: evolve.needs(&at.device, keys, Pace::default())?,
            evolve: evolve.clone(),
            kind,
            stack,
            tables,
            members,
            threads,
        };
        (0..keys.len()).try_for_each(|at| training.send_member(at))?;
        Ok(training)
    }

    /// Brings a member to the card, where one does the work.
    fn send_member(&self, at: usize) -> Result<()> {
        let (Some(card), Member { search, unit, active, .. }) = (&self.card, &self.members[at]) else { return Ok(()) };
        if card.put(at, &search.state(), *unit, *active)? { Ok(()) } else { Err(not_ours()) }
    }

    /// Brings a member back from there, with what its last generation saw.
    fn fetch_member(&mut self, at: usize) -> Result<()> {
        let (Some(card), member) = (&self.card, &mut self.members[at]) else { return Ok(()) };
        if !member.stale {
            return Ok(());
        }
        let fitness = card.fitness(at)?;
        if !member.search.restore(&card.state(at)?) {
            return Err(not_ours());
        }
        member.seen = Seen::new(&fitness, self.evolve.rate(member.key.config, member.unit - 1));
        member.stale = false;
        Ok(())
    }

    /// Generations on the card: as many as until one is due, and no more than are asked for.
    fn generations_on_card(&mut self, at_most: u32) -> Result<()> {
        let Some(card) = &mut self.card else { return Ok(()) };
        let (every, end) = (self.every, self.units);
        let left = |m: &Member| (every - m.unit % every).min(end.saturating_sub(m.unit).max(1));
        let active = self.members.iter().filter(|m| m.active);
        let generations = active.map(left).min().unwrap_or(0).min(at_most);
        let units: Vec<u32> = self.members.iter().map(|m| m.unit).collect();
        let (evolve, members) = (&self.evolve, &self.members);
        let done = card.run(&units, generations, |at, unit| evolve.rate(members[at].key.config, unit) as f32)?;
        for (member, done) in self.members.iter_mut().zip(done).filter(|(m, _)| m.active && generations > 0) {
            (member.unit, member.stale) = (done.unit, true);
            member.settle(every, end, done.failed.is_none());
        }
        Ok(())
    }

    fn member(&mut self, id: u32) -> Result<(usize, &mut Member)> {
        let found = self.members.iter_mut().enumerate().find(|(_, m)| m.key.id() == id);
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }
}

/// What a generation on the processor needs. It runs inside of the pool, so that threads are woken once for all that is
/// done between two looks.
struct Generation<'a> {
    evolve: &'a Evolve,
    kind: usize,
    stack: &'a Stack,
    tables: &'a Tables,
    members: &'a mut [Member],
    workers: &'a [Mutex<Worker>],
    kept: &'a [Vec<Mutex<KeptDraw>>],
    fitness: &'a [AtomicU64],
    each: usize,
    every: u32,
    units: u32,
}

impl Generation<'_> {
    /// What a member's individuals trade on.
    fn course<'a>(&'a self, member: &'a Member) -> Course<'a> {
        let Hypers { actions, fitness, .. } = self.evolve.spec.hypers[member.key.config];
        let net = &self.evolve.spec.configs[self.kind].net;
        let Member { base, spans, views, scales, .. } = member;
        let sources = Sources { data: &self.evolve.folds.data, tables: self.tables, net, scales };
        Course { sources, stack: self.stack, base, spans, views, actions, fitness }
    }

    fn counted(&self, member: &Member) -> Counted {
        let (seed, parameters) = (self.evolve.spec.configs[self.kind].recipe.seed, member.search.numbers());
        Counted { seed, member: member.key.id(), generation: member.unit, parameters }
    }

    /// A generation of all active members: ask, let individuals trade, tell. Where it was stopped before all had
    /// traded, nothing is told: false, and members are where they were.
    fn run(&mut self) -> bool {
        let (evolve, config) = (self.evolve, &self.evolve.spec.configs[self.kind]);
        for member in self.members.iter_mut().filter(|m| m.active) {
            let (hypers, stretches) = (&evolve.spec.hypers[member.key.config], &evolve.folds.train[member.key.fold]);
            let key = [member.key.id(), member.unit];
            member.spans.draw(&evolve.folds.data, stretches, hypers, config.recipe.seed, key);
            let scales = &member.scales;
            let sources = Sources { data: &evolve.folds.data, tables: self.tables, net: &config.net, scales };
            member.views.draw(sources, self.stack, &member.spans, hypers.rank > 0);
            if let Some((factors, _)) = member.search.factors() {
                factors.lay_base(member.search.mean(), &mut member.base);
            }
        }
        if !self.trade() {
            return false;
        }
        let population = evolve.spec.hypers[self.kind].population as usize;
        let counted: Vec<Counted> = self.members.iter().map(|member| self.counted(member)).collect();
        let normals = counted.into_iter().zip(self.kept).map(|(counted, kept)| Drawn { counted, kept });
        let all = self.members.iter_mut().zip(normals).zip(self.fitness.chunks_exact(population));
        for ((member, normals), fitness) in all.filter(|((m, _), _)| m.active) {
            let fitness: Vec<f64> = fitness.iter().map(|f| f64::from_bits(f.load(Ordering::Relaxed))).collect();
            let rate = evolve.rate(member.key.config, member.unit);
            member.search.tell(&fitness, &normals, rate as f32);
            member.seen = Seen::new(&fitness, rate);
            member.unit += 1;
            member.settle(self.every, self.units, member.search.moved().is_finite());
        }
        true
    }

    /// All individuals of all active members trade. Threads take a few draws at a time, and fewer towards the end, so
    /// that none waits for another. False where they were stopped before all had traded.
    fn trade(&self) -> bool {
        let active: Vec<(usize, &Member)> = self.members.iter().enumerate().filter(|(_, m)| m.active).collect();
        let mut courses: Vec<(Course<'_>, Drawn<'_>)> = Vec::with_capacity(active.len());
        for (at, member) in &active {
            let normals = Drawn { counted: self.counted(member), kept: &self.kept[*at] };
            courses.push((self.course(member), normals));
        }
        let hypers = &self.evolve.spec.hypers[self.kind];
        let (draws, sides, population) =
            (hypers.draws() as usize, hypers.algorithm.sides(), hypers.population as usize);
        let queue = Queue { next: AtomicUsize::new(0), draws, all: draws * active.len(), each: self.each };
        let (workers, all, stop) = (self.workers, self.fitness, &*self.evolve.stop);
        rayon::broadcast(|thread| {
            let mut worker = workers[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
            while !stop.load(Ordering::Relaxed)
                && let Some((member, own)) = queue.take(workers.len())
            {
                let (((at, member), (course, normals)), first) = ((active[member], &courses[member]), own.start);
                let own = own.start as u32..own.end as u32;
                worker.run(course, &*member.search, normals, own, |side, fitness| {
                    let place = at * population + first * sides + side;
                    all[place].store(fitness.to_bits(), Ordering::Relaxed);
                });
            }
        });
        // What was taken has traded.
        queue.next.load(Ordering::Relaxed) == queue.all
    }
}

/// Draws of all members that no thread has taken yet.
struct Queue {
    next: AtomicUsize,
    /// Draws of a member, and of all.
    draws: usize,
    all: usize,
    /// Draws that a thread takes at once.
    each: usize,
}

impl Queue {
    /// The next draws of a member, for one of so many threads: as many as a thread takes at once, but half of an equal
    /// share of what is left at most.
    fn take(&self, threads: usize) -> Option<(usize, Range<usize>)> {
        let mut at = self.next.load(Ordering::Relaxed);
        while at < self.all {
            let (member, first) = (at / self.draws, at % self.draws);
            let count = ((self.all - at) / (2 * threads.max(1))).clamp(1, self.each).min(self.draws - first);
            match self.next.compare_exchange_weak(at, at + count, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((member, first..first + count)),
                Err(now) => at = now,
            }
        }
        None
    }
}

#[cfg(test)]
impl EvolveTraining {
    pub(super) fn card(&mut self) -> &mut Card {
        self.card.as_mut().expect("on a card")
    }

    /// `[individuals]` of the last generation.
    pub(super) fn last_fitness(&self, at: usize) -> Vec<f64> {
        let population = self.fitness.len() / self.members.len();
        let own = &self.fitness[at * population..][..population];
        let here = || own.iter().map(|f| f64::from_bits(f.load(Ordering::Relaxed))).collect();
        self.card.as_ref().map_or_else(here, |card| card.fitness(at).unwrap())
    }

    /// Sets the middle of a distribution.
    pub(super) fn plant(&mut self, at: usize, middle: &[f32]) {
        let mut state = self.members[at].search.state();
        state.arrays[0] = middle.to_vec();
        assert!(self.members[at].search.restore(&state));
        self.send_member(at).unwrap();
    }

    /// All of a distribution, and the generations it has done.
    pub(super) fn stands(&mut self, at: usize) -> (State, u32) {
        self.fetch_member(at).unwrap();
        (self.members[at].search.state(), self.members[at].unit)
    }
}

impl Training for EvolveTraining {
    fn memory(&self) -> u64 {
        self.memory
    }

    fn kernel_paths(&self) -> Vec<String> {
        let path = "individuals are made and trade in one kernel; a generation is one graph";
        self.card.iter().map(|_| path.to_string()).collect()
    }

    fn pins(&self) -> Pins {
        Pins::default()
    }

    fn progress(&self) -> Vec<Progress> {
        let member = |m: &Member| Progress {
            id: m.key.id(),
            active: m.active,
            due: m.due,
            unit: m.unit,
            step: m.unit,
            samples: (m.steps * f64::from(m.unit)).round() as u64,
            fault: m.fault.clone(),
        };
        self.members.iter().map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        let waits = self.members.iter().any(|m| m.due) || self.members.iter().all(|m| !m.active);
        if self.card.is_some() && !waits {
            self.generations_on_card(at_most)?;
            return Ok(self.progress());
        }
        if !waits {
            let EvolveTraining { evolve, stack, tables, members, workers, kept, fitness, .. } = self;
            let (kind, each, every, units) = (self.kind, self.each, self.every, self.units);
            let mut generation =
                Generation { evolve, kind, stack, tables, members, workers, kept, fitness, each, every, units };
            self.threads.install(|| {
                for _ in 0..at_most {
                    let members = &*generation.members;
                    if members.iter().any(|m| m.due) || members.iter().all(|m| !m.active) {
                        break;
                    }
                    if !generation.run() {
                        break;
                    }
                }
            });
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        for at in 0..self.members.len() {
            if self.members[at].due {
                self.fetch_member(at)?;
            }
        }
        let mut scores = Vec::new();
        let config = &self.evolve.spec.configs[self.kind];
        for member in self.members.iter_mut().filter(|m| m.due) {
            let (folds, fold) = (&self.evolve.folds, member.key.fold);
            let walker = Walker {
                net: &config.net,
                params: &self.stack.scatter(member.search.mean()),
                // A policy is deployed in f32, and so it is selected in f32 whatever its individuals compute in.
                precision: Precision::F32,
                tables: &self.tables,
                scales: &member.scales,
                actions: self.evolve.spec.hypers[self.kind].actions,
            };
            let walked = self.threads.install(|| walk_pieces(walker, &folds.data, &folds.valid[fold]))?;
            let (growth, error) = folds.growth(fold, &walked);
            member.due = false;
            let Seen { best, mean, rate } = member.seen;
            // Growth in basis points; a Sharpe ratio as it is.
            let unit = match self.evolve.spec.hypers[member.key.config].fitness {
                Fitness::Growth | Fitness::Drawdown(_) => 1e4,
                Fitness::Sharpe => 1.0,
            };
            let metrics = Metrics::new(&[
                ("mean_fitness", unit * mean),
                ("best_fitness", unit * best),
                ("valid_growth", 1e4 * growth),
                ("valid_error", 1e4 * error),
                ("sigma", member.search.sigma()),
                ("moved", member.search.moved()),
                ("learning_rate", rate),
            ]);
            let (id, unit) = (member.key.id(), member.unit);
            scores.push(Score { id, unit, step: unit, score: 1e4 * growth, metrics });
        }
        Ok(scores)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|m| m.due = false);
        Ok(())
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let (at, _) = self.member(id)?;
        self.fetch_member(at)?;
        Ok(self.stack.scatter(self.members[at].search.mean()))
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let (at, _) = self.member(id)?;
        self.fetch_member(at)?;
        let member = &self.members[at];
        let State { numbers, arrays } = member.search.state();
        let flags = u32::from(member.active) | u32::from(member.due) << 1;
        let mut bytes = Vec::new();
        for word in [id, member.unit, flags, numbers.len() as u32, arrays.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let Seen { best, mean, rate } = member.seen;
        let numbers = [best, mean, rate].into_iter().chain(numbers);
        numbers.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        arrays.iter().flatten().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Ok(Snapshot { id, weights: self.stack.scatter(member.search.mean()), bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let parameters = self.stack.parameters;
        let (at, member) = self.member(snapshot.id)?;
        let kept = Kept::read(&snapshot.bytes, parameters)?;
        (member.unit, member.seen, member.stale) = (kept.unit, kept.seen, false);
        (member.active, member.due) = (kept.flags & 1 == 1, kept.flags & 2 == 2);
        if !member.search.restore(&kept.state) {
            return Err(not_ours());
        }
        self.send_member(at)
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, _) = self.member(from)?;
        let (to, _) = self.member(to)?;
        self.fetch_member(from)?;
        self.fetch_member(to)?;
        let state = self.members[from].search.state();
        if !self.members[to].search.restore(&state) {
            return Err(not_ours());
        }
        self.send_member(to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let (at, member) = self.member(id)?;
        (member.active, member.due) = (false, false);
        self.card.as_ref().map_or(Ok(()), |card| card.stop(at))
    }
}

fn not_ours() -> Error {
    Error::Invalid("the snapshot of a search is not of this run".into())
}

/// What the bytes of a snapshot say.
struct Kept {
    id: u32,
    unit: u32,
    flags: u32,
    seen: Seen,
    state: State,
}

/// Words in front of a snapshot's numbers, and bytes of those.
const WORDS: usize = 5;

impl Kept {
    fn read(bytes: &[u8], parameters: usize) -> Result<Kept> {
        let (head, rest) = bytes.split_at_checked(4 * WORDS).ok_or_else(not_ours)?;
        let word = |at: usize| u32::from_le_bytes(head[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let (numbers, arrays) = (3 + word(3) as usize, word(4) as usize);
        let sized = numbers.checked_mul(8).zip(arrays.checked_mul(4 * parameters));
        let (numbers, _) = sized.filter(|(n, a)| n.checked_add(*a) == Some(rest.len())).ok_or_else(not_ours)?;
        let (numbers, arrays) = rest.split_at(numbers);
        let numbers: Vec<f64> =
            numbers.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect();
        let array = |bytes: &[u8]| {
            bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect()
        };
        let arrays: Vec<Vec<f32>> = arrays.chunks_exact(4 * parameters).map(array).collect();
        let seen = Seen { best: numbers[0], mean: numbers[1], rate: numbers[2] };
        let state = State { numbers: numbers[3..].to_vec(), arrays };
        Ok(Kept { id: word(0), unit: word(1), flags: word(2), seen, state })
    }
}

/// A snapshot from its bytes: the middle of the distribution is its first array.
pub(super) fn read_snapshot(evolve: &Evolve, bytes: &[u8]) -> Result<Snapshot> {
    let stack = &evolve.stacks[evolve.spec.config_of(bytes).ok_or_else(not_ours)?.0];
    let kept = Kept::read(bytes, stack.parameters)?;
    let middle = kept.state.arrays.first().ok_or_else(not_ours)?;
    Ok(Snapshot { id: kept.id, weights: stack.scatter(middle), bytes: bytes.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::super::stack::tests::put_inputs;
    use super::super::stack_simd::{Pass, Scratch, forward};
    use super::super::{Algorithm, Normals, Spec};
    use super::*;
    use crate::Config;
    use crate::ppo::card_tests::{FEATURES, card, market};
    use crate::ppo::{Actions, continuous_target};
    use account::{Account, Action, step};
    use compute::nets::{Forward, Rows};
    use compute::population::Recipe;

    const SEED: u64 = 7;

    const KEY: MemberKey = MemberKey { config: 0, fold: 0, seed: 0 };

    /// Searches on a market, of four generations.
    fn evolve(hypers: Hypers, precision: Precision, layers: &str) -> Evolve {
        let (problem, data, folds) = market(9);
        let recipe = Recipe::new(hypers.population as usize, precision, SEED);
        let outputs = hypers.actions.outputs();
        let net = format!("row:{FEATURES} + account:dense8 / {layers} / policy:{outputs}").parse().unwrap();
        let configs = vec![Config { net, recipe, rate: 0.03 }];
        let spec = Spec { configs, hypers: vec![hypers], units: vec![4], stop_after: None, patience: 4, seeds: 1 };
        Evolve::new(&problem, &data, &folds, spec).unwrap()
    }

    fn at() -> DeviceBudget {
        DeviceBudget { device: Opened::new(Choice::Cpu, 2).unwrap().0, budget: Budget::default() }
    }

    /// A search of one member on a device.
    fn begin(evolve: &Evolve, at: &DeviceBudget) -> EvolveTraining {
        let tables = evolve.problem().tables(&at.device, at.budget).unwrap();
        EvolveTraining::new(evolve, at, &tables, &[KEY]).unwrap()
    }

    /// A search of one member on a market, behind its first generation.
    fn first_generation(hypers: Hypers, precision: Precision, layers: &str) -> (Evolve, EvolveTraining) {
        let evolve = evolve(hypers, precision, layers);
        let mut training = begin(&evolve, &at());
        training.advance(1).unwrap();
        (evolve, training)
    }

    /// A population in mirrored draws, by growth.
    fn hypers(population: u32, n_envs: u32, n_steps: u32) -> Hypers {
        let (algorithm, actions, fitness) = (Algorithm::OpenAi, Actions::Discrete, Fitness::Growth);
        Hypers { algorithm, population, sigma: 0.1, rank: 0, n_envs, n_steps, actions, fitness }
    }

    /// A generation that was stopped leaves its members where they were, and they go on with the same bits.
    #[test]
    fn a_stopped_generation_changes_nothing() {
        let start = || first_generation(hypers(64, 4, 400), Precision::F32, "64t-64t");
        let end = |training: &mut EvolveTraining| {
            while training.progress()[0].unit < 4 {
                training.skip_validation().unwrap();
                training.advance(1).unwrap();
            }
            training.stands(0)
        };
        let (evolve, mut training) = start();
        training.skip_validation().unwrap();
        let before = training.stands(0);
        evolve.stop.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let progress = training.advance(2).unwrap();
            assert!(progress[0].unit == 1 && progress[0].active && !progress[0].due, "{progress:?}");
        }
        assert_eq!(training.stands(0), before);
        // At any time during one.
        for milliseconds in [1, 5, 20] {
            evolve.stop.store(false, Ordering::Relaxed);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
                    evolve.stop.store(true, Ordering::Relaxed);
                });
                training.advance(1).unwrap();
            });
            training.skip_validation().unwrap();
        }
        evolve.stop.store(false, Ordering::Relaxed);
        assert_eq!(end(&mut training), end(&mut start().1));
    }

    /// What is timed takes a moment, however long a generation is.
    #[test]
    fn a_long_generation_is_timed_by_a_brief_one() {
        let operations = |evolve: &dyn Learner, stack: &Stack, members: usize| {
            2.0 * stack.parameters as f64 * evolve.samples(KEY) as f64 * members as f64
        };
        for (own, members) in [(hypers(512, 256, 1024), 1), (hypers(4, 1 << 16, 1024), 2), (hypers(4096, 8, 256), 24)] {
            let (evolve, at) = (evolve(own, Precision::F32, "64t-64t"), at());
            let keys: Vec<MemberKey> = (0..members).map(|seed| MemberKey { seed, ..KEY }).collect();
            let brief = evolve.brief(&at.device, &keys).expect("a generation is long");
            let [was, now] =
                [&evolve as &dyn Learner, &*brief].map(|own| operations(own, &evolve.stacks[0], keys.len()));
            assert!(was > 1e11 && now < 1.5 * super::super::BRIEF, "{was:e} {now:e}");
            let steps = |own: &dyn Learner| u64::from(own.units(0)) * own.samples(KEY);
            assert!(steps(&*brief) >= steps(&evolve), "it ends before it is timed");
        }
        assert!(evolve(hypers(64, 4, 256), Precision::F32, "64t-64t").brief(&at().device, &[KEY]).is_none());
    }

    /// A policy whose individuals are rounded is selected by what is deployed, on any device: its weights in f32.
    #[test]
    fn validations_are_in_f32() {
        for at in [Some(at()), card()].into_iter().flatten() {
            let evolve = evolve(hypers(16, 2, 60), Precision::Bf16, "64t-64t");
            let mut training = begin(&evolve, &at);
            while !training.progress()[0].due {
                training.advance(1).unwrap();
            }
            assert_eq!(training.card.is_some(), matches!(at.device, Opened::Cuda(_)));
            let score = training.validate().unwrap()[0].score;
            let (folds, config) = (&evolve.folds, &evolve.spec.configs[0]);
            let params = training.weights(KEY.id()).unwrap();
            let growth = |precision| {
                let walker = Walker {
                    net: &config.net,
                    params: &params,
                    precision,
                    tables: &training.tables,
                    scales: &training.members[0].scales,
                    actions: Actions::Discrete,
                };
                1e4 * folds.growth(0, &walk_pieces(walker, &folds.data, &folds.valid[0]).unwrap()).0
            };
            assert_eq!((config.recipe.precision, score), (Precision::Bf16, growth(Precision::F32)));
        }
    }

    /// The outputs of individual `x` on one row: in f32 by the pass of other nets, in bf16 by its own for one row.
    fn outputs_of(training: &EvolveTraining, x: &[f32], scales: &[Option<Scale>], row: u32, shown: &[f32]) -> Vec<f32> {
        let (stack, tables) = (&training.stack, &training.tables);
        let config = &training.evolve.spec.configs[0];
        let mut out = vec![0.0; stack.outputs()];
        if config.recipe.precision == Precision::F32 {
            let mut pass = Forward::new(&config.net, Precision::F32, 1).unwrap();
            let input = Rows { tables, scales, ids: &[row], extras: shown };
            pass.with(&stack.scatter(x)).unwrap().run(input, &mut out).unwrap();
            return out;
        }
        let (table, number) = (tables.table(0).unwrap(), tables.row(0, row) as usize);
        let Some(Scale { mean, inverse }) = &scales[0] else { panic!("features are scaled") };
        let features = &table.values[number * table.stride..][..FEATURES];
        let scaled = features.iter().zip(mean.iter().zip(inverse)).map(|(x, (mean, inverse))| (x - mean) * inverse);
        let given: Vec<f32> = scaled.chain(shown.iter().copied()).collect();
        let mut weights = [vec![ZEROS; stack.lines]];
        stack.lay(x, &mut weights[0]);
        let mut values = [[vec![ZEROS; stack.widest()], vec![ZEROS; stack.widest()]]];
        put_inputs(stack, &given, &mut values[0][0]);
        let scratch = &mut Scratch::new();
        forward(
            stack,
            &mut Pass {
                weights: &weights,
                shared: None,
                values: &mut values,
                scratch,
                tiles: None,
                out: &mut out,
                rows: 1,
            },
        );
        out
    }

    /// Individuals in lanes earn what one account after the other earns whose net takes a pass of its own; those of low
    /// rank what whole individuals earn, in layers that end within a line, fill one, and fill several.
    #[test]
    fn individuals_earn_what_single_accounts_earn() {
        let (discrete, continuous) = (Actions::Discrete, Actions::Continuous);
        for (n_envs, n_steps, actions, precision, rank, layers) in [
            (1, 90, discrete, Precision::F32, 0, "64t-20t"),
            (4, 60, discrete, Precision::F32, 0, "64t-20t"),
            (5, 700, discrete, Precision::F32, 0, "64t-20t"),
            (3, 40, continuous, Precision::F32, 0, "64t-20t"),
            (1, 90, discrete, Precision::Bf16, 0, "64t-20t"),
            (4, 60, discrete, Precision::Bf16, 0, "64t-20t"),
            (5, 700, discrete, Precision::Bf16, 0, "64t-20t"),
            (3, 40, continuous, Precision::Bf16, 0, "64t-20t"),
            (4, 60, discrete, Precision::F32, 1, "64t-20t"),
            (5, 90, discrete, Precision::F32, 1, "256t-256t"),
            (5, 90, discrete, Precision::F32, 1, "96t-200"),
            (5, 300, discrete, Precision::F32, 3, "17"),
            (3, 40, discrete, Precision::F32, 3, "64t-20t"),
            (1, 40, continuous, Precision::F32, 3, "64t-20t"),
        ] {
            let (algorithm, fitness) = (Algorithm::OpenAi, Fitness::Growth);
            let hypers = Hypers { algorithm, population: 6, sigma: 0.1, rank, n_envs, n_steps, actions, fitness };
            let (evolve, training) = first_generation(hypers, precision, layers);
            let (data, key) = (&evolve.folds.data, MemberKey { config: 0, fold: 0, seed: 0 });
            let (search, stack) = (evolve.begin_search(key).unwrap(), &evolve.stacks[0]);
            let scales = evolve.folds.scalers[0].scales_of(&evolve.spec.configs[0].net);
            let mut spans = Spans::default();
            spans.draw(data, &evolve.folds.train[0], &hypers, SEED, [key.id(), 0]);
            let (seed, member) = (SEED, key.id());
            let normals = Counted { seed, member, generation: 0, parameters: search.numbers() };
            for (individual, found) in training.last_fitness(0).into_iter().enumerate() {
                let (mut z, mut x) = (vec![0.0; search.numbers()], vec![0.0; stack.parameters]);
                normals.fill(individual as u32 / 2, 0, &mut z);
                search.ask(if individual % 2 == 0 { 1.0 } else { -1.0 }, 0, &z, &mut x);
                let mut grown = 0.0;
                for account in 0..n_envs as usize {
                    let params = &data.table().params[spans.symbols[account]];
                    let mut own = Account::new(params);
                    for t in 0..spans.steps[account] {
                        let row = (spans.first[account] + t) as usize;
                        let shown = data.observe(params, &(&own).into(), row);
                        let out = outputs_of(&training, &x, &scales, row as u32, &shown);
                        let legal = data.legal(params, row);
                        let bits = u8::from(legal[0]) | 2 | u8::from(legal[2]) << 2;
                        let target = match actions {
                            Actions::Discrete => {
                                let best =
                                    |best: usize, a: usize| if legal[a] && out[a] > out[best] { a } else { best };
                                [0, 2].into_iter().fold(1, best) as f64 - 1.0
                            }
                            Actions::Continuous => continuous_target(out[0], bits),
                        };
                        let bars = &data.table().bars;
                        grown += step(params, &mut own, Action::target(target), &bars[row], &bars[row + 1]).reward;
                    }
                }
                let wanted = grown / spans.all() as f64;
                // A continuous target that is rounded otherwise is another one by as much.
                let near = (found - wanted).abs() < if rank > 0 && actions == continuous { 1e-7 } else { 1e-8 };
                assert!(
                    near,
                    "{n_envs} accounts in {precision:?}, {layers} of rank {rank}, individual {individual}: {found}, {wanted}"
                );
            }
        }
    }

    /// Individuals in bf16 are ranked much as in f32.
    #[test]
    fn fitness_in_bf16_is_near_that_in_f32() {
        let (algorithm, actions, fitness) = (Algorithm::OpenAi, Actions::Discrete, Fitness::Growth);
        let (population, n_envs, n_steps) = (64, 4, 256);
        let hypers = Hypers { algorithm, population, sigma: 0.1, rank: 0, n_envs, n_steps, actions, fitness };
        let [one, two] = [Precision::F32, Precision::Bf16]
            .map(|precision| first_generation(hypers, precision, "64t-64t").1.last_fitness(0));
        assert_ne!(one, two);
        let centred = |x: &[f64]| -> Vec<f64> {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            x.iter().map(|x| x - mean).collect()
        };
        let (one, two) = (centred(&one), centred(&two));
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let correlation = product(&one, &two) / (product(&one, &one) * product(&two, &two)).sqrt();
        assert!(correlation > 0.95, "{correlation}");
    }

    #[test]
    fn every_draw_is_taken_once_and_the_last_ones_singly() {
        for (draws, members, each, threads) in [(128, 1, 2, 2), (7, 3, 4, 16), (1, 1, 1, 1), (100, 2, 8, 2)] {
            let queue = Queue { next: AtomicUsize::new(0), draws, all: draws * members, each };
            let taken: Vec<(usize, Range<usize>)> = std::iter::from_fn(|| queue.take(threads)).collect();
            let each_draw = taken.iter().flat_map(|(member, own)| own.clone().map(|draw| (*member, draw)));
            let wanted = (0..members).flat_map(|member| (0..draws).map(move |draw| (member, draw)));
            assert!(each_draw.eq(wanted), "{taken:?}");
            assert!(taken.iter().all(|(_, own)| own.len() <= each) && taken[taken.len() - 1].1.len() == 1, "{taken:?}");
        }
    }

    /// What threads do when each takes its next draws as soon as it is done with its last: the share of their time that
    /// they work, for draws that take equally long and for draws of which some take a quarter longer.
    #[test]
    fn draws_are_shared_evenly_among_2_8_or_16_threads() {
        let cases = [(2, 0.0, 0.99), (8, 0.0, 0.99), (16, 0.0, 0.99), (8, 0.25, 0.97), (16, 0.25, 0.93)];
        for (threads, uneven, least) in cases {
            // 256 individuals, both sides of a draw together.
            let queue = Queue { next: AtomicUsize::new(0), draws: 128, all: 128, each: (128 / (4 * threads)).max(1) };
            let (mut busy_until, mut worked) = (vec![0.0_f64; threads], 0.0);
            loop {
                let free = (0..threads).min_by(|a, b| busy_until[*a].total_cmp(&busy_until[*b])).unwrap();
                let Some((_, own)) = queue.take(threads) else { break };
                let took: f64 = own.map(|draw| 1.0 + uneven * f64::from(u8::from(draw % 3 == 0))).sum();
                (busy_until[free], worked) = (busy_until[free] + took, worked + took);
            }
            let share = worked / (threads as f64 * busy_until.into_iter().fold(0.0, f64::max));
            assert!(share >= least, "{threads} threads, {uneven}: {share}");
        }
    }
}
