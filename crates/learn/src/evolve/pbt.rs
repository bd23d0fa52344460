//! Population-based training (Jaderberg et al. 2017, <https://arxiv.org/abs/1711.09846>) over [`crate::ppo`]: policies
//! that learn by gradients, and whose learning rate, band of the entropy and weight of drawdowns evolve meanwhile.
//!
//! A member is a whole population: it is never split over groups, has one snapshot, and is one trial with all that it
//! tried. Its individuals are members of one [`PpoTraining`], numbered `seed · population + i`, so that each has
//! accounts and random numbers of its own. All are validated at the same updates. The best by validation is what the
//! member's score is of, and what is deployed.
//!
//! At a border (the first validation behind every so many updates) individuals are ordered by validation, those with
//! equal growth by their number. Each of the worst quarter **exploits**: it adopts weights, optimiser, scale of
//! returns, multipliers of the entropy and hyper-parameters of one of the best quarter. Then it **explores**: each
//! hyper-parameter is multiplied with 0.8 or 1.25, and stays between 1/64 and 64 times the config's; the weight of
//! drawdowns counts where the reward has one. Its accounts and its random numbers stay its own. An individual whose
//! gradient was not finite has stopped: it comes last, and all such individuals adopt at the next border, where they go
//! on as far as those they adopt from. Who adopts from whom and what is multiplied with what follows from `philox(seed,
//! [i, border, STREAM_PERTURBATION, member])`, borders from 1; at border 0 the first individual has the config's
//! hyper-parameters, the others have them times powers of 1.25. So a population's bits depend on its config, fold and
//! seed alone.

use crate::ppo::{HyperFactors, Ppo, PpoTraining};
use crate::scale::Scaler;
use crate::{Config, DeviceBudget, Extent, Learner, MemberKey, Problem, Progress, Score, Snapshot, Training};
use compute::population::{Pace, Pins};
use compute::random::{Stream, philox};
use compute::{Error, Opened, Result, Tables};
use std::sync::Arc;

/// Individuals at least: a quarter is one.
const LEAST: u32 = 4;

/// Borders of a training where none were set.
const BORDERS: u32 = 20;

/// Populations of policies: the [`Learner`].
#[derive(Clone)]
pub struct Pbt {
    /// With a member for each individual.
    ppo: Ppo,
    population: u32,
    every: Option<u32>,
    seeds: u32,
}

impl Pbt {
    /// Populations of so many individuals, one for each member that `ppo` has. They exploit and explore after every so
    /// many updates, or twenty times in a training.
    pub fn new(ppo: Ppo, population: u32, every: Option<u32>) -> files::Result<Pbt> {
        let seeds = ppo.extent().seeds;
        let all = seeds.checked_mul(population).filter(|all| population >= LEAST && *all < crate::member::SEEDS);
        let Some(all) = all else {
            let what = format!("{seeds} populations of {population} policies for each fold");
            let error = files::Error::new(files::Kind::Usage, what);
            return Err(
                error.remedy("give an <evolve.population> of at least 4, and fewer than 4096 with all <train.seeds>")
            );
        };
        Ok(Pbt { ppo: ppo.with_seeds(all), population, every, seeds })
    }

    /// The individuals of members.
    fn individuals(&self, members: &[MemberKey]) -> Vec<MemberKey> {
        let own = |key: &MemberKey| {
            let (key, first) = (*key, key.seed * self.population);
            (first..first + self.population).map(move |seed| MemberKey { seed, ..key })
        };
        members.iter().flat_map(own).collect()
    }

    /// Updates between two borders.
    fn every(&self, config: usize) -> u32 {
        self.every.unwrap_or_else(|| self.ppo.units(config) / BORDERS).max(1)
    }
}

impl Learner for Pbt {
    fn unit(&self) -> &'static str {
        self.ppo.unit()
    }

    fn configs(&self) -> &[Config] {
        self.ppo.configs()
    }

    fn problem(&self) -> &Problem {
        self.ppo.problem()
    }

    fn extent(&self) -> Extent {
        Extent { seeds: self.seeds, ..self.ppo.extent() }
    }

    fn units(&self, config: usize) -> u32 {
        self.ppo.units(config)
    }

    fn scalers(&self) -> &[Scaler] {
        self.ppo.scalers()
    }

    fn alike(&self, config: usize) -> usize {
        self.ppo.alike(config)
    }

    fn with(&self, configs: Vec<Config>, updates: u32) -> Box<dyn Learner> {
        Box::new(Pbt { ppo: self.ppo.remade(configs, updates), ..self.clone() })
    }

    fn samples(&self, member: MemberKey) -> u64 {
        u64::from(self.population) * self.ppo.samples(member)
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> Result<u64> {
        self.ppo.needs_together(device, &self.individuals(members))
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> Result<Box<dyn Training>> {
        let inner = PpoTraining::new(&self.ppo, at, tables, &self.individuals(members), pins)?;
        let populations = members.iter().map(|key| Population::new(self, *key)).collect();
        let mut training = PbtTraining { pbt: self.clone(), inner, populations, messages: Vec::new() };
        (0..members.len()).try_for_each(|at| training.set_factors(at))?;
        Ok(Box::new(training))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> Result<Snapshot> {
        let kept = Kept::read(bytes, self.population as usize)?;
        let best = self.ppo.read_snapshot(kept.individuals[kept.population.best])?;
        Ok(Snapshot { id: kept.id, weights: best.weights, bytes: bytes.to_vec() })
    }
}

/// Populations of one group.
struct PbtTraining {
    pbt: Pbt,
    inner: PpoTraining,
    populations: Vec<Population>,
    messages: Vec<String>,
}

/// A population between two updates, but for what its individuals are as policies.
struct Population {
    key: MemberKey,
    /// `[individuals]`
    ids: Vec<u32>,
    own: Evolved,
    /// `[individuals]` whether it was reported that it has stopped. A snapshot has no word of it: it says who is
    /// active, and of a population that goes on the others have stopped.
    reported: Vec<bool>,
}

/// What evolved in a population.
#[derive(Debug, Clone, PartialEq)]
struct Evolved {
    /// `[individuals]`
    factors: Vec<HyperFactors>,
    /// The individual that the last validation liked best.
    best: usize,
    /// The update behind the last border, and borders so far.
    last: u32,
    borders: u32,
}

impl Population {
    fn new(pbt: &Pbt, key: MemberKey) -> Population {
        let seed = pbt.configs()[key.config].recipe.seed;
        let first = |i: u32| {
            let [_, rate, entropy, risk] = philox(seed, [i, 0, Stream::Perturbation as u32, key.id()]);
            let power = |word: u32, most: u32| power(word % (2 * most + 1), most);
            match i {
                0 => HyperFactors::default(),
                _ => HyperFactors { rate: power(rate, 4), entropy: power(entropy, 2), risk: power(risk, 2) },
            }
        };
        let ids = pbt.individuals(&[key]).iter().map(|key| key.id()).collect();
        let own = Evolved { factors: (0..pbt.population).map(first).collect(), best: 0, last: 0, borders: 0 };
        Population { key, ids, own, reported: vec![false; pbt.population as usize] }
    }
}

/// `1.25^(n - most)`
fn power(n: u32, most: u32) -> f32 {
    let times = |x: f32, by: f32, times: u32| (0..times).fold(x, |x, _| x * by);
    if n >= most { times(1.0, 1.25, n - most) } else { times(1.0, 0.8, most - n) }
}

/// `[n]` individuals from the best on, equals by their number; what is not a number comes behind, and who has no score
/// because it has stopped comes last.
fn order(scores: &[Option<f64>]) -> Vec<usize> {
    let number = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
    let value = |at: usize| (scores[at].is_some(), scores[at].map_or(f64::NEG_INFINITY, number));
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // As numbers 0 and -0 are equals, and a stable sort keeps them as they are.
    order.sort_by(|a, b| value(*b).partial_cmp(&value(*a)).expect("numbers"));
    order
}

/// Who of a population adopts from whom at a border, and the hyper-parameters that it has then: the worst quarter, and
/// all who have stopped.
fn exploit_and_explore(
    seed: u64,
    member: u32,
    border: u32,
    scores: &[Option<f64>],
    factors: &[HyperFactors],
) -> Vec<(usize, usize, HyperFactors)> {
    let (order, quarter) = (order(scores), scores.len() / 4);
    let stopped = scores.iter().filter(|score| score.is_none()).count();
    let sources = &order[..quarter.min(scores.len() - stopped)];
    let worst = order[order.len() - quarter.max(stopped)..].iter();
    let moved = |at: &usize| {
        let [source, words @ ..] = philox(seed, [*at as u32, border, Stream::Perturbation as u32, member]);
        let from = sources[((u64::from(source) * sources.len() as u64) >> 32) as usize];
        let [rate, entropy, risk] = words.map(|word| if word & 1 == 0 { 0.8 } else { 1.25 });
        let was = factors[from];
        let scaled = |was: f32, by: f32| (was * by).clamp(1.0 / 64.0, 64.0);
        let own = HyperFactors {
            rate: scaled(was.rate, rate),
            entropy: scaled(was.entropy, entropy),
            risk: scaled(was.risk, risk),
        };
        (*at, from, own)
    };
    worst.map(moved).collect()
}

impl PbtTraining {
    fn population(&self, id: u32) -> Result<usize> {
        let found = self.populations.iter().position(|p| p.key.id() == id);
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }

    /// Brings the hyper-parameters of a population's individuals to where they train.
    fn set_factors(&mut self, at: usize) -> Result<()> {
        let Population { ids, own, .. } = &self.populations[at];
        ids.iter().zip(&own.factors).try_for_each(|(id, factors)| self.inner.set_factors(*id, *factors))
    }

    /// The individual that the last validation liked best.
    fn best(&self, id: u32) -> Result<u32> {
        let Population { ids, own, .. } = &self.populations[self.population(id)?];
        Ok(ids[own.best])
    }

    /// What a validation of a population saw: that of its best individual, and then a border where one is due.
    fn settle(&mut self, at: usize, seen: &[Option<Score>]) -> Result<Score> {
        let Population { key, ids, own, reported } = &mut self.populations[at];
        let scores: Vec<Option<f64>> = seen.iter().map(|score| score.as_ref().map(|s| s.score)).collect();
        own.best = order(&scores)[0];
        let best = seen[own.best].clone().expect("one was validated");
        let finite: Vec<f64> = scores.iter().flatten().copied().filter(|score| score.is_finite()).collect();
        let (hypers, factors) = (self.pbt.ppo.hypers(key.config), own.factors[own.best]);
        let entropy = factors.apply(hypers).entropy;
        let metrics = best.metrics.with(&[
            ("population_growth", finite.iter().sum::<f64>() / finite.len() as f64),
            ("individual", (own.best + 1) as f64),
            ("least_entropy", f64::from(entropy.least)),
            ("most_entropy", f64::from(entropy.most)),
            ("risk_factor", f64::from(factors.risk)),
        ]);
        let score = Score { id: key.id(), metrics, ..best };
        let every = self.pbt.every(key.config);
        if score.unit / every > own.last / every && score.unit < self.pbt.units(key.config) {
            (own.last, own.borders) = (score.unit, own.borders + 1);
            let seed = self.pbt.configs()[key.config].recipe.seed;
            for (to, from, factors) in exploit_and_explore(seed, key.id(), own.borders, &scores, &own.factors) {
                if seen[to].is_none() {
                    self.inner.revive(ids[from], ids[to])?;
                    reported[to] = false;
                }
                self.inner.adopt(ids[from], ids[to])?;
                self.inner.set_factors(ids[to], factors)?;
                own.factors[to] = factors;
            }
        }
        Ok(score)
    }

    /// Takes down which individuals have stopped and were not reported yet, where others go on.
    fn report_faults(&mut self) {
        let all = self.inner.progress();
        let each = self.populations.iter_mut().zip(all.chunks_exact(self.pbt.population as usize));
        for (Population { key, reported, .. }, own) in each.filter(|(_, own)| own.iter().any(|p| p.active)) {
            for (at, why) in own.iter().enumerate().filter_map(|(at, p)| Some((at, p.fault.as_ref()?))) {
                if !std::mem::replace(&mut reported[at], true) {
                    let MemberKey { fold, seed, .. } = *key;
                    self.messages.push(format!(
                        "fold {} seed {}: individual {} of the population has stopped, since {why}; at the next border \
                         it goes on from one of the best",
                        fold + 1,
                        seed + 1,
                        at + 1
                    ));
                }
            }
        }
    }
}

impl Training for PbtTraining {
    fn memory(&self) -> u64 {
        self.inner.memory()
    }

    fn kernel_paths(&self) -> Vec<String> {
        self.inner.kernel_paths()
    }

    fn pins(&self) -> Pins {
        self.inner.pins()
    }

    fn progress(&self) -> Vec<Progress> {
        let all = self.inner.progress();
        let populations = self.populations.iter().zip(all.chunks_exact(self.pbt.population as usize));
        let of = |(population, own): (&Population, &[Progress])| {
            // All that train are equally far.
            let going = own.iter().filter(|p| p.active);
            let furthest = going.max_by_key(|p| p.unit).or_else(|| own.iter().max_by_key(|p| p.unit));
            let (unit, step) = furthest.map_or((0, 0), |p| (p.unit, p.step));
            let has_stopped = |(p, reported): (&Progress, &bool)| p.fault.is_some() || *reported;
            let all_stopped = own.iter().zip(&population.reported).all(has_stopped);
            let fault = own.iter().find_map(|p| p.fault.clone()).filter(|_| all_stopped);
            Progress {
                id: population.key.id(),
                active: own.iter().any(|p| p.active),
                due: own.iter().any(|p| p.due),
                unit,
                step,
                samples: own.iter().map(|p| p.samples).sum(),
                fault,
            }
        };
        populations.map(of).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        self.inner.advance(at_most)?;
        self.report_faults();
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let mut seen = self.inner.validate()?;
        let mut scores = Vec::new();
        for at in 0..self.populations.len() {
            let own = |id: &u32| seen.iter().position(|s| s.id == *id).map(|place| seen.swap_remove(place));
            let own: Vec<Option<Score>> = self.populations[at].ids.iter().map(own).collect();
            if own.iter().any(Option::is_some) {
                scores.push(self.settle(at, &own)?);
            }
        }
        Ok(scores)
    }

    fn messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.inner.skip_validation()
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let best = self.best(id)?;
        self.inner.weights(best)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let at = self.population(id)?;
        let individuals = self.populations[at].ids.clone();
        let individuals =
            individuals.into_iter().map(|id| self.inner.snapshot(id)).collect::<Result<Vec<Snapshot>>>()?;
        let Evolved { factors, best, last, borders } = &self.populations[at].own;
        let mut bytes = Vec::new();
        for word in [id, *best as u32, *last, *borders] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for HyperFactors { rate, entropy, risk } in factors {
            [rate, entropy, risk].into_iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        }
        individuals.iter().for_each(|own| bytes.extend_from_slice(&(own.bytes.len() as u32).to_le_bytes()));
        individuals.iter().for_each(|own| bytes.extend_from_slice(&own.bytes));
        Ok(Snapshot { id, weights: individuals[*best].weights.clone(), bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let at = self.population(snapshot.id)?;
        let kept = Kept::read(&snapshot.bytes, self.pbt.population as usize)?;
        for (own, id) in kept.individuals.iter().zip(&self.populations[at].ids) {
            let own = self.pbt.ppo.read_snapshot(own)?;
            if own.id != *id {
                return Err(not_ours());
            }
            self.inner.restore(&own)?;
        }
        let n = self.pbt.population as usize;
        let active: Vec<bool> = self.inner.progress()[at * n..][..n].iter().map(|p| p.active).collect();
        let goes_on = active.contains(&true);
        self.populations[at].reported = active.into_iter().map(|active| goes_on && !active).collect();
        self.populations[at].own = kept.population;
        self.set_factors(at)
    }

    /// How far it is, its borders and so its random numbers stay its own.
    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, to) = (self.population(from)?, self.population(to)?);
        for i in 0..self.pbt.population as usize {
            self.inner.adopt(self.populations[from].ids[i], self.populations[to].ids[i])?;
        }
        self.populations[to].own.factors = self.populations[from].own.factors.clone();
        self.populations[to].own.best = self.populations[from].own.best;
        self.set_factors(to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let at = self.population(id)?;
        self.populations[at].ids.iter().try_for_each(|id| self.inner.stop(*id))
    }
}

fn not_ours() -> Error {
    Error::Invalid("the snapshot of a population is not of this run".into())
}

/// What the bytes of a snapshot say.
struct Kept<'a> {
    id: u32,
    population: Evolved,
    /// `[individuals]` snapshots of policies.
    individuals: Vec<&'a [u8]>,
}

impl<'a> Kept<'a> {
    fn read(bytes: &'a [u8], n: usize) -> Result<Kept<'a>> {
        let (head, mut rest) = bytes.split_at_checked(4 * (4 + 4 * n)).ok_or_else(not_ours)?;
        let words: Vec<u32> =
            head.chunks_exact(4).map(|x| u32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
        let (first, others) = words.split_at(4);
        let (factors, lengths) = others.split_at(3 * n);
        let factors = factors.chunks_exact(3).map(|x| {
            let [rate, entropy, risk] = [x[0], x[1], x[2]].map(f32::from_bits);
            HyperFactors { rate, entropy, risk }
        });
        let mut individuals = Vec::new();
        for length in lengths {
            let (own, left) = rest.split_at_checked(*length as usize).ok_or_else(not_ours)?;
            individuals.push(own);
            rest = left;
        }
        let best = first[1] as usize;
        if !rest.is_empty() || best >= n {
            return Err(not_ours());
        }
        let population = Evolved { factors: factors.collect(), best, last: first[2], borders: first[3] };
        Ok(Kept { id: first[0], population, individuals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ppo::card_tests::ppo;
    use crate::ppo::{Actions, Reward};
    use compute::population::Precision;
    use compute::{Budget, Choice};

    /// An individual that has stopped goes on at the next border with what another has; it is reported once.
    #[test]
    fn an_individual_that_stopped_is_revived() {
        let case = (Actions::Discrete, Precision::F32, "16t | 16t", Reward::Drawdown(0.1));
        let pbt = Pbt::new(ppo(case, 8, 96).with_seeds(1), 4, Some(1)).unwrap();
        let pbt = Pbt { ppo: pbt.ppo.remade(pbt.configs().to_vec(), 200), ..pbt };
        let at = DeviceBudget { device: Opened::new(Choice::Cpu, 2).unwrap().0, budget: Budget::default() };
        let tables = pbt.problem().tables(&at.device, at.budget).unwrap();
        let key = MemberKey { config: 0, fold: 0, seed: 0 };
        let faulty = 2;
        let run = || {
            let inner = PpoTraining::new(&pbt.ppo, &at, &tables, &pbt.individuals(&[key]), &Pins::default()).unwrap();
            let populations = vec![Population::new(&pbt, key)];
            let mut training = PbtTraining { pbt: pbt.clone(), inner, populations, messages: Vec::new() };
            training.set_factors(0).unwrap();
            let (mean, square, step) = training.inner.nets().optimiser(faulty).unwrap();
            training.inner.nets().set_optimiser(faulty, &vec![f32::NAN; mean.len()], &square, step).unwrap();
            let mut units = Vec::new();
            while training.populations[0].own.borders == 0 && units.len() < 200 {
                training.advance(1).unwrap();
                let stopped: Vec<bool> = training.inner.progress().iter().map(|p| !p.active).collect();
                assert_eq!(stopped, [false, false, true, false], "who met no number");
                assert!(training.progress()[0].active && training.progress()[0].fault.is_none());
                units.extend(training.validate().unwrap().iter().map(|score| score.unit));
            }
            let messages = training.messages();
            assert!(messages.len() == 1 && messages[0].contains("individual 3"), "{messages:?}");
            let all = training.inner.progress();
            assert!(all.iter().all(|p| p.active && p.fault.is_none() && p.unit == all[0].unit), "{all:?}");
            let ids = training.populations[0].ids.clone();
            let mut weights = ids.iter().map(|id| training.inner.weights(*id).unwrap()).collect::<Vec<_>>();
            let own = weights.swap_remove(faulty);
            assert!(own.iter().all(|x| x.is_finite()) && weights.contains(&own), "adopted from nobody");
            // Its snapshot says so too.
            let kept = training.snapshot(key.id()).unwrap();
            training.restore(&kept).unwrap();
            assert_eq!(training.snapshot(key.id()).unwrap(), kept);
            training.skip_validation().unwrap();
            training.advance(1).unwrap();
            let all = training.inner.progress();
            assert!(all.iter().all(|p| p.active && p.unit == all[0].unit), "{all:?}");
            assert!(training.messages().is_empty());
            let end = training.inner.weights(ids[faulty]).unwrap();
            assert!(end != own && end.iter().all(|x| x.is_finite()), "it does not learn");
            (units, end)
        };
        assert_eq!(run(), run());
    }

    /// Who had stopped before a run was resumed is not reported again, and counts where all the others stop too: then
    /// the population has a fault.
    #[test]
    fn an_individual_that_stopped_before_a_resume_is_remembered() {
        let case = (Actions::Discrete, Precision::F32, "16t | 16t", Reward::Growth);
        let pbt = Pbt::new(ppo(case, 8, 96).with_seeds(1), 4, Some(1)).unwrap();
        let at = DeviceBudget { device: Opened::new(Choice::Cpu, 2).unwrap().0, budget: Budget::default() };
        let tables = pbt.problem().tables(&at.device, at.budget).unwrap();
        let key = MemberKey { config: 0, fold: 0, seed: 0 };
        let begin = || {
            let inner = PpoTraining::new(&pbt.ppo, &at, &tables, &pbt.individuals(&[key]), &Pins::default()).unwrap();
            let populations = vec![Population::new(&pbt, key)];
            PbtTraining { pbt: pbt.clone(), inner, populations, messages: Vec::new() }
        };
        let poison = |training: &mut PbtTraining, at: usize| {
            let (mean, square, step) = training.inner.nets().optimiser(at).unwrap();
            training.inner.nets().set_optimiser(at, &vec![f32::NAN; mean.len()], &square, step).unwrap();
        };
        let mut before = begin();
        poison(&mut before, 2);
        before.advance(1).unwrap();
        before.skip_validation().unwrap();
        assert_eq!(before.messages().len(), 1);
        let mut training = begin();
        training.restore(&before.snapshot(key.id()).unwrap()).unwrap();
        training.advance(1).unwrap();
        training.skip_validation().unwrap();
        assert!(training.messages().is_empty() && training.progress()[0].active);
        assert_eq!(training.progress()[0].fault, None);
        [0, 1, 3].into_iter().for_each(|at| poison(&mut training, at));
        training.advance(1).unwrap();
        let Progress { active, fault, .. } = &training.progress()[0];
        assert!(!active && fault.is_some(), "all have stopped: {fault:?}");
    }

    #[test]
    fn the_worst_quarter_adopts_from_the_best_and_explores() {
        let scores = [1.0, 3.0, f64::NAN, 3.0, 2.0, -1.0, 0.5, 0.0].map(Some);
        assert_eq!(order(&scores), [1, 3, 4, 0, 6, 7, 5, 2]);
        let factors: Vec<HyperFactors> =
            (0..8).map(|i| HyperFactors { rate: power(i, 4), ..HyperFactors::default() }).collect();
        let mut sources = std::collections::BTreeSet::new();
        for border in 1..20 {
            let moved = exploit_and_explore(7, 5, border, &scores, &factors);
            assert_eq!(moved, exploit_and_explore(7, 5, border, &scores, &factors));
            assert_eq!(moved.iter().map(|m| m.0).collect::<Vec<_>>(), [5, 2]);
            for (_, from, own) in moved {
                sources.insert(from);
                for (own, was) in [(own.rate, factors[from].rate), (own.entropy, 1.0), (own.risk, 1.0)] {
                    assert!(own == 0.8 * was || own == 1.25 * was, "{own} of {was}");
                }
            }
        }
        assert_eq!(sources.into_iter().collect::<Vec<_>>(), [1, 3]);
        // Equals are ordered by their number alone.
        assert_eq!(order(&[Some(0.0), Some(-0.0), Some(0.0)]), [0, 1, 2]);
        for equal in [1.0, f64::NAN] {
            let moved = exploit_and_explore(7, 5, 1, &[Some(equal); 8], &factors);
            assert!(moved.iter().map(|m| m.0).eq([6, 7]) && moved.iter().all(|m| m.1 < 2), "{equal}: {moved:?}");
        }
        // All who have stopped adopt, however many they are, and nobody adopts from them.
        for stopped in 1..8 {
            let scores: Vec<Option<f64>> = (0..8).map(|i| (i >= stopped).then_some(f64::from(i))).collect();
            let moved = exploit_and_explore(7, 5, 1, &scores, &factors);
            assert_eq!(moved.len(), (stopped as usize).max(2));
            assert!(moved.iter().filter(|m| scores[m.0].is_none()).count() == stopped as usize, "{moved:?}");
            assert!(moved.iter().all(|m| scores[m.1].is_some() && m.0 != m.1), "{moved:?}");
        }
        assert_eq!([power(0, 2), power(2, 2), power(4, 2)], [0.8 * 0.8, 1.0, 1.25 * 1.25]);
    }
}
