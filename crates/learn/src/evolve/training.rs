//! Evolved policies while they train: ask, let individuals trade, tell.

use super::cuda::{self, Card};
use super::rollout::{Course, Spans, Worker};
use super::stack::{Line, Stack, ZEROS};
use super::strategy::{Counted, State, Strategy};
use super::{Evolve, Fitness, Hypers};
use crate::ppo::{Walker, mean_growth, walk_pieces};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Problem, Progress, Score, Snapshot, Training};
use compute::population::{Pins, Scale};
use compute::{Budget, Choice, Error, Opened, Result, Tables};
use rayon::{ThreadPool, ThreadPoolBuilder};
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
    /// `[members, individuals]` bits of how fit each is; threads write their own.
    fitness: Vec<AtomicU64>,
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

/// Threads that individuals are divided among. With a card that has no kernels for them, those of the machine.
pub(super) fn threads(device: &Opened) -> usize {
    match device {
        Opened::Cpu { threads } => *threads,
        Opened::Cuda(_) => std::thread::available_parallelism().map_or(1, |n| n.get()),
    }
}

impl EvolveTraining {
    pub(super) fn new(
        evolve: &Evolve,
        at: &DeviceBudget,
        given: &Arc<Tables>,
        keys: &[MemberKey],
    ) -> Result<EvolveTraining> {
        let kind = evolve.shared(keys);
        let (stack, hypers) = (Arc::clone(&evolve.stacks[kind]), &evolve.spec.hypers[kind]);
        let count = threads(&at.device).max(1);
        let made = ThreadPoolBuilder::new().num_threads(count).build();
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
                scales: evolve.folds.scales(&evolve.spec.configs[kind].net, key.fold),
                base: vec![ZEROS; hypers.factors(&stack).map_or(0, |factors| factors.base_lines)],
                spans: Spans::default(),
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
        let each = hypers.draws_of_task(count);
        let worker = |_| Mutex::new(Worker::new(&evolve.folds.data, &stack, hypers, each));
        let training = EvolveTraining {
            workers: (0..if card.is_some() { 0 } else { count }).map(worker).collect(),
            card,
            fitness: (0..keys.len() * hypers.population as usize).map(|_| AtomicU64::new(0)).collect(),
            every: evolve.validate_every(kind),
            units: evolve.units(kind),
            memory: evolve.needs(&at.device, keys, compute::population::Pace::default())?,
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

    /// What a member's individuals trade on in this generation.
    fn course<'a>(&'a self, member: &'a Member) -> Course<'a> {
        let Hypers { actions, fitness, .. } = self.evolve.spec.hypers[member.key.config];
        Course {
            data: &self.evolve.folds.data,
            tables: &self.tables,
            stack: &self.stack,
            net: &self.evolve.spec.configs[self.kind].net,
            scales: &member.scales,
            base: &member.base,
            spans: &member.spans,
            actions,
            fitness,
        }
    }

    fn normals(&self, member: &Member) -> Counted {
        let (seed, parameters) = (self.evolve.spec.configs[self.kind].recipe.seed, member.search.numbers());
        Counted { seed, member: member.key.id(), generation: member.unit, parameters }
    }

    /// A generation of all active members: ask, let individuals trade, tell.
    fn generation(&mut self) {
        let seed = self.evolve.spec.configs[self.kind].recipe.seed;
        for member in self.members.iter_mut().filter(|m| m.active) {
            let (hypers, stretches) =
                (&self.evolve.spec.hypers[member.key.config], &self.evolve.folds.train[member.key.fold]);
            member.spans.draw(&self.evolve.folds.data, stretches, hypers, seed, [member.key.id(), member.unit]);
            if let Some((factors, _)) = member.search.factors() {
                factors.lay_base(member.search.mean(), &mut member.base);
            }
        }
        self.trade();
        let (population, threads) = (self.evolve.spec.hypers[self.kind].population as usize, &self.threads);
        let normals: Vec<Counted> = self.members.iter().map(|member| self.normals(member)).collect();
        let all = self.members.iter_mut().zip(&normals).zip(self.fitness.chunks_exact(population));
        for ((member, normals), fitness) in all.filter(|((m, _), _)| m.active) {
            let fitness: Vec<f64> = fitness.iter().map(|f| f64::from_bits(f.load(Ordering::Relaxed))).collect();
            let rate = self.evolve.rate(member.key.config, member.unit);
            threads.install(|| member.search.tell(&fitness, normals, rate as f32));
            member.seen = Seen::new(&fitness, rate);
            member.unit += 1;
            member.settle(self.every, self.units, member.search.moved().is_finite());
        }
    }

    /// All individuals of all active members trade; threads take draws one by one, or few by few where individuals
    /// share their weights, so that none waits for another.
    fn trade(&self) {
        let active: Vec<(usize, &Member)> = self.members.iter().enumerate().filter(|(_, m)| m.active).collect();
        let courses: Vec<(Course<'_>, Counted)> =
            active.iter().map(|(_, member)| (self.course(member), self.normals(member))).collect();
        let hypers = &self.evolve.spec.hypers[self.kind];
        let (draws, sides, population) =
            (hypers.draws() as usize, hypers.algorithm.sides(), hypers.population as usize);
        let each = hypers.draws_of_task(self.workers.len());
        let tasks = draws.div_ceil(each);
        let next = AtomicUsize::new(0);
        let (workers, all) = (&self.workers, &self.fitness);
        self.threads.broadcast(|thread| {
            let mut worker = workers[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                let (member, first) = (task / tasks, task % tasks * each);
                let Some(((at, member), (course, normals))) = active.get(member).zip(courses.get(member)) else {
                    break;
                };
                let own = first as u32..(first + each).min(draws) as u32;
                worker.run(course, &*member.search, normals, own, |side, fitness| {
                    let place = at * population + first * sides + side;
                    all[place].store(fitness.to_bits(), Ordering::Relaxed);
                });
            }
        });
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
        let none = vec![0.0; middle.len()];
        let state = State { numbers: vec![0.0; 2], arrays: vec![middle.to_vec(), none.clone(), none] };
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
        let steps = self.evolve.spec.hypers[self.kind].steps();
        let member = |m: &Member| Progress {
            id: m.key.id(),
            active: m.active,
            due: m.due,
            unit: m.unit,
            step: m.unit,
            samples: steps * u64::from(m.unit),
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
        for _ in 0..at_most {
            if self.members.iter().any(|m| m.due) || self.members.iter().all(|m| !m.active) {
                break;
            }
            self.generation();
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
                precision: config.recipe.precision,
                tables: &self.tables,
                scales: &member.scales,
                actions: self.evolve.spec.hypers[self.kind].actions,
            };
            let walked = self.threads.install(|| walk_pieces(walker, &folds.data, &folds.valid[fold]))?;
            // Where everything is training there is nothing to select by.
            let (growth, error) = if folds.is_validated[fold] { mean_growth(&walked) } else { (f64::NAN, f64::NAN) };
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
    let id = u32::from_le_bytes(bytes.get(..4).ok_or_else(not_ours)?.try_into().expect("four bytes"));
    let mut configs = 0..evolve.spec.configs.len();
    let of = |config: &usize| MemberKey { config: config + 1, fold: 0, seed: 0 }.id() > id;
    let stack = &evolve.stacks[configs.find(of).ok_or_else(not_ours)?];
    let kept = Kept::read(bytes, stack.parameters)?;
    let middle = kept.state.arrays.first().ok_or_else(not_ours)?;
    Ok(Snapshot { id: kept.id, weights: stack.scatter(middle), bytes: bytes.to_vec() })
}
