//! Policies while they train: collect, estimate advantages, update.

use super::collect::Block;
use super::cpu::Cpu;
use super::cuda::Cuda;
use super::entropy::Multipliers;
use super::loss::LossSums;
use super::memory::state_of;
use super::{HyperFactors, Hypers, Ppo, Reward};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Progress, Score, Snapshot, Training};
use compute::nets::{Hyper, Nets};
use compute::population::{Optimiser, Pins, Precision, Scale};
use compute::{Error, Net, Opened, Result, Tables};
use market::STATE;
use std::sync::Arc;

/// Policies of one group.
pub(crate) struct PpoTraining {
    group: Group,
    members: Vec<Member>,
    engine: Engine,
    every: u32,
    /// Updates that members do: all of the schedule, unless they stop before.
    units: u32,
    memory: u64,
}

/// What the members of a group share.
pub(super) struct Group {
    pub(super) ppo: Ppo,
    pub(super) tables: Arc<Tables>,
    pub(super) nets: Nets,
    pub(super) net: Net,
    pub(super) shape: Hypers,
    /// Rows of a minibatch.
    pub(super) batch: usize,
    pub(super) seed: u64,
    pub(super) precision: Precision,
    /// Updates of a whole training, which schedules are made for.
    pub(super) updates: u32,
}

impl Group {
    /// What a member's optimiser goes by in its next update: rates are those of whole updates.
    pub(super) fn hyper(&self, member: &Member) -> Hyper {
        let config = &self.ppo.spec.configs[member.key.config];
        let own = f64::from(config.rate) * f64::from(member.factors.rate);
        let rate = own * config.recipe.schedule.factor(member.unit + 1, self.updates);
        let Optimiser { beta1, beta2, eps, decay, clip, .. } = config.recipe.optimiser;
        Hyper { rate: rate as f32, beta1, beta2, eps, decay, clip, weight: 1.0 }
    }

    /// The seed of a member's episodes.
    pub(super) fn episode_seed(&self, member: &Member) -> u64 {
        self.seed ^ u64::from(member.key.id()) << 32
    }
}

/// Where accounts step: collects, estimates advantages and updates.
enum Engine {
    Cpu(Box<Cpu>),
    Cuda(Box<Cuda>),
}

impl Engine {
    /// Begins an update of all active members; a processor does all of it.
    fn begin_update(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        match self {
            Engine::Cpu(cpu) => cpu.iterate(group, members),
            Engine::Cuda(cuda) => cuda.begin_update(group, members),
        }
    }

    /// Waits for it.
    fn end_update(&mut self, members: &mut [Member]) -> Result<()> {
        match self {
            Engine::Cpu(_) => Ok(()),
            Engine::Cuda(cuda) => cuda.end_update(members),
        }
    }

    /// `[due][pieces]` what members make of their validation, taking what they prefer.
    fn walk(&mut self, group: &mut Group, members: &[Member], due: &[usize]) -> Result<Vec<Vec<(f64, usize)>>> {
        match self {
            Engine::Cpu(cpu) => due.iter().map(|at| cpu.walk(group, &members[*at], *at)).collect(),
            // All walk side by side, and those that are not due are not asked.
            Engine::Cuda(cuda) => {
                let mut all = cuda.walk(group, members)?;
                Ok(due.iter().map(|at| std::mem::take(&mut all[*at])).collect())
            }
        }
    }

    /// Numbers of that of a member.
    fn state_numbers(&self, group: &Group, at: usize) -> usize {
        match self {
            Engine::Cpu(cpu) => cpu.blocks[at].iter().map(Block::numbers).sum(),
            Engine::Cuda(_) => group.shape.n_envs as usize * (3 + STATE + state_of(&group.net)),
        }
    }

    /// A member's accounts between two updates, block by block: `3 + STATE` numbers of each account, and what a net
    /// remembers of it.
    fn state(&self, at: usize) -> Result<Vec<f64>> {
        match self {
            Engine::Cpu(cpu) => Ok(cpu.blocks[at].iter().flat_map(Block::state).collect()),
            Engine::Cuda(cuda) => cuda.state(at),
        }
    }

    /// Sets a member's accounts to such a state; false where it is none of theirs.
    fn restore(&mut self, group: &Group, at: usize, returns: &ReturnScale, mut state: &[f64]) -> Result<bool> {
        match self {
            Engine::Cpu(cpu) => Ok(cpu.blocks[at].iter_mut().all(|block| {
                let (own, rest) = state.split_at(block.numbers());
                state = rest;
                block.restore(own)
            })),
            Engine::Cuda(cuda) => cuda.restore(group, at, returns, state),
        }
    }
}

/// A policy.
pub(super) struct Member {
    pub(super) key: MemberKey,
    pub(super) hypers: Hypers,
    pub(super) factors: HyperFactors,
    pub(super) scales: Vec<Option<Scale>>,
    pub(super) unit: u32,
    pub(super) step: u32,
    pub(super) active: bool,
    due: bool,
    pub(super) fault: Option<String>,
    pub(super) multipliers: Multipliers,
    pub(super) returns: ReturnScale,
    pub(super) seen: Seen,
}

/// The running deviation of discounted returns, by which rewards are divided.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ReturnScale {
    pub(super) count: f64,
    pub(super) mean: f64,
    pub(super) squares: f64,
}

impl ReturnScale {
    /// Takes more returns in (Chan, Golub and LeVeque 1979).
    pub(super) fn add(&mut self, count: f64, mean: f64, squares: f64) {
        let (all, apart) = (self.count + count, mean - self.mean);
        self.squares += squares + apart * apart * self.count * count / all;
        self.mean += apart * count / all;
        self.count = all;
    }

    pub(super) fn deviation(&self) -> f64 {
        let variance = if self.count > 1.0 { self.squares / self.count } else { 1.0 };
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    }
}

/// What the last update saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) losses: LossSums,
    /// Mean growth of equity in a step.
    pub(super) growth: f64,
    /// How much of the returns' variance the values explain.
    pub(super) explained: f64,
    pub(super) norm: f64,
    pub(super) rate: f64,
    /// What the entropy weighed in the loss.
    pub(super) entropy_weight: f64,
}

impl PpoTraining {
    pub(crate) fn new(
        ppo: &Ppo,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        keys: &[MemberKey],
        pins: &Pins,
    ) -> Result<PpoTraining> {
        let (config, shape) = ppo.shared(keys);
        let kind = ppo.group_config(keys);
        let (net, recipe, shape) = (config.net.clone(), config.recipe, *shape);
        let (setup, setups) = (ppo.setup(&at.device, keys), ppo.member_setups(keys));
        let nets = Nets::new(&at.device, at.budget, &net, tables, &setup, &setups, pins)?;
        let member = |key: &MemberKey| Member {
            key: *key,
            hypers: ppo.spec.hypers[key.config],
            factors: HyperFactors::default(),
            scales: ppo.folds.scalers[key.fold].scales_of(&config.net),
            unit: 0,
            step: 0,
            active: true,
            due: false,
            fault: None,
            multipliers: Multipliers::default(),
            returns: ReturnScale::default(),
            seen: Seen::default(),
        };
        let members: Vec<Member> = keys.iter().map(member).collect();
        let mut group = Group {
            ppo: ppo.clone(),
            tables: Arc::clone(tables),
            nets,
            net,
            shape,
            batch: recipe.batch,
            seed: recipe.seed,
            precision: recipe.precision,
            updates: ppo.spec.units[kind],
        };
        let engine = match &at.device {
            Opened::Cpu { threads } => Engine::Cpu(Box::new(Cpu::new(&group, &members, *threads)?)),
            Opened::Cuda(_) => Engine::Cuda(Box::new(Cuda::new(&mut group, &members, at, pins)?)),
        };
        let memory = ppo.needs_together(&at.device, keys)?;
        let units = ppo.units(kind);
        Ok(PpoTraining { group, members, engine, every: ppo.validate_every(&at.device, &shape, units), units, memory })
    }

    /// Sets what a member's hyper-parameters are, as multiples of its config's; from its next update on.
    pub(crate) fn set_factors(&mut self, id: u32, factors: HyperFactors) -> Result<()> {
        let (at, member) = self.member(id)?;
        member.factors = factors;
        let of_config = self.group.ppo.spec.hypers[self.members[at].key.config];
        let own = factors.apply(&of_config);
        self.members[at].hypers = own;
        match (&mut self.engine, own.reward) {
            (Engine::Cpu(cpu), reward) => cpu.blocks[at].iter_mut().for_each(|block| block.reward = reward),
            (Engine::Cuda(cuda), Reward::Drawdown(weight)) => cuda.set_risk(at, weight)?,
            (Engine::Cuda(_), _) => {}
        }
        Ok(())
    }

    /// Lets a member that has stopped go on, as far as another; what that one has it adopts next.
    pub(crate) fn revive(&mut self, from: u32, to: u32) -> Result<()> {
        let (_, source) = self.member(from)?;
        let (unit, step) = (source.unit, source.step);
        let (_, target) = self.member(to)?;
        (target.unit, target.step, target.active, target.due, target.fault) = (unit, step, true, false, None);
        Ok(())
    }

    /// Updates of a chunk of steps, which ends with an update, where a state can be kept.
    pub(super) fn updates_in(&self, steps: u32) -> u32 {
        let Hypers { n_envs, n_steps, n_epochs, .. } = self.group.shape;
        steps.div_ceil((n_epochs * (n_envs * n_steps).div_ceil(self.group.batch as u32)).max(1))
    }

    /// Begins an update; false where a member waits for its validation, or none trains any more.
    pub(super) fn begin_update(&mut self) -> Result<bool> {
        if self.members.iter().any(|m| m.due) || self.members.iter().all(|m| !m.active) {
            return Ok(false);
        }
        self.engine.begin_update(&mut self.group, &mut self.members)?;
        Ok(true)
    }

    /// Waits for the update that was begun.
    pub(super) fn end_update(&mut self) -> Result<()> {
        self.engine.end_update(&mut self.members)?;
        for member in self.members.iter_mut().filter(|m| m.active) {
            // It may have ended the update before there was a gradient.
            if member.seen.losses.kl.is_nan() {
                let what = "how far the policy moved is not a number";
                member.fault = Some(format!("{what} in update {}", member.unit + 1));
                member.active = false;
                continue;
            }
            let entropy = member.seen.losses.mean(member.seen.losses.entropy) as f32;
            // The update went by what the multipliers were.
            member.seen.entropy_weight = f64::from(member.multipliers.weight);
            member.multipliers = member.multipliers.next(member.hypers.entropy, entropy);
            member.unit += 1;
            member.due = member.unit.is_multiple_of(self.every) || member.unit >= self.units;
        }
        Ok(())
    }

    fn member(&mut self, id: u32) -> Result<(usize, &mut Member)> {
        let found = self.members.iter_mut().enumerate().find(|(_, m)| m.key.id() == id);
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }
}

impl Training for PpoTraining {
    fn memory(&self) -> u64 {
        self.memory
    }

    fn kernel_paths(&self) -> Vec<String> {
        match &self.engine {
            Engine::Cpu(_) => Vec::new(),
            Engine::Cuda(cuda) => vec![cuda.describe()],
        }
    }

    fn pins(&self) -> Pins {
        let mut pins = self.group.nets.pins();
        if let Engine::Cuda(cuda) = &self.engine {
            pins.0.extend(cuda.pins().0);
        }
        pins
    }

    fn progress(&self) -> Vec<Progress> {
        let rows = u64::from(self.group.shape.n_envs) * u64::from(self.group.shape.n_steps);
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
        for _ in 0..self.updates_in(at_most) {
            if !self.begin_update()? {
                break;
            }
            self.end_update()?;
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let due: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].due).collect();
        let mut scores = Vec::new();
        // A card walks with all members: not for a half in which nobody is due.
        if due.is_empty() {
            return Ok(scores);
        }
        let walked = self.engine.walk(&mut self.group, &self.members, &due)?;
        for (at, walked) in due.into_iter().zip(walked) {
            let (growth, error) = self.group.ppo.folds.growth(self.members[at].key.fold, &walked);
            let reward = walked.iter().map(|(growth, _)| growth).sum::<f64>() / walked.len().max(1) as f64;
            let reward = if growth.is_finite() { reward } else { f64::NAN };
            let member = &mut self.members[at];
            member.due = false;
            let Seen { losses, growth: grown, explained, norm, rate, entropy_weight } = member.seen;
            let metrics = Metrics::new(&[
                ("train_growth", 1e4 * grown),
                ("valid_growth", 1e4 * growth),
                ("valid_error", 1e4 * error),
                ("valid_reward", reward),
                ("entropy", losses.mean(losses.entropy)),
                ("entropy_weight", entropy_weight),
                ("approx_kl", losses.mean(losses.kl)),
                ("clip_fraction", losses.mean(losses.clipped)),
                ("policy_loss", losses.mean(losses.policy)),
                ("value_loss", losses.mean(losses.value)),
                ("explained_variance", explained),
                ("norm", norm),
                ("learning_rate", rate),
                ("return_count", member.returns.count),
                ("return_mean", member.returns.mean),
                ("return_squares", member.returns.squares),
            ]);
            scores.push(Score {
                id: member.key.id(),
                unit: member.unit,
                step: member.step,
                score: 1e4 * growth,
                metrics,
            });
        }
        Ok(scores)
    }

    fn validate_all(&mut self) -> Result<Vec<Score>> {
        self.members.iter_mut().for_each(|member| member.due = member.active);
        self.validate()
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|m| m.due = false);
        Ok(())
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let (at, _) = self.member(id)?;
        self.group.nets.params(at)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let (at, _) = self.member(id)?;
        let weights = self.group.nets.params(at)?;
        let (mean, square, optimised) = self.group.nets.optimiser(at)?;
        let member = &self.members[at];
        let mut bytes = Vec::new();
        let flags = u32::from(member.active) | u32::from(member.due) << 1;
        [id, member.unit, member.step, optimised, flags].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        let Multipliers { least, most, weight } = member.multipliers;
        [least, most, weight].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        let ReturnScale { count, mean: returns, squares } = member.returns;
        let numbers = [count, returns, squares].into_iter().chain(self.engine.state(at)?);
        numbers.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        weights.iter().chain(&mean).chain(&square).for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Ok(Snapshot { id, weights, bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let (at, _) = self.member(snapshot.id)?;
        let bad = || Error::Invalid("the snapshot of a policy is not of this run".into());
        let numbers = 3 + self.engine.state_numbers(&self.group, at);
        let (head, rest) = snapshot.bytes.split_at_checked(HEAD).ok_or_else(bad)?;
        let (state, arrays) = rest.split_at_checked(8 * numbers).ok_or_else(bad)?;
        let member = &mut self.members[at];
        let word = |at: usize| u32::from_le_bytes(head[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let numbers: Vec<f64> =
            state.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect();
        (member.unit, member.step) = (word(1), word(2));
        (member.active, member.due) = (word(4) & 1 == 1, word(4) & 2 == 2);
        member.multipliers = Multipliers {
            least: f32::from_bits(word(5)),
            most: f32::from_bits(word(6)),
            weight: f32::from_bits(word(7)),
        };
        let returns = ReturnScale { count: numbers[0], mean: numbers[1], squares: numbers[2] };
        member.returns = returns;
        if !self.engine.restore(&self.group, at, &returns, &numbers[3..])? {
            return Err(bad());
        }
        let params = snapshot.weights.len();
        let floats: Vec<f32> =
            arrays.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
        if floats.len() != 3 * params {
            return Err(bad());
        }
        self.group.nets.set_params(at, &floats[..params])?;
        self.group.nets.set_optimiser(at, &floats[params..2 * params], &floats[2 * params..], word(3))
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, source) = self.member(from)?;
        let (returns, multipliers) = (source.returns, source.multipliers);
        let (to, target) = self.member(to)?;
        (target.returns, target.multipliers) = (returns, multipliers);
        if let Engine::Cuda(cuda) = &mut self.engine {
            cuda.adopt(from, to)?;
        }
        self.group.nets.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let (_, member) = self.member(id)?;
        (member.active, member.due) = (false, false);
        Ok(())
    }
}

#[cfg(test)]
impl PpoTraining {
    /// An update of all members, without a validation.
    pub(super) fn update(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|m| m.due = false);
        self.advance(1).map(drop)
    }

    pub(crate) fn nets(&mut self) -> &mut Nets {
        &mut self.group.nets
    }

    pub(super) fn cuda(&self) -> &Cuda {
        self.parts().2
    }

    pub(super) fn parts(&self) -> (&Group, &[Member], &Cuda) {
        match &self.engine {
            Engine::Cuda(cuda) => (&self.group, &self.members, cuda),
            Engine::Cpu(_) => panic!("not on a card"),
        }
    }

    /// What is on a processor: the group, its members and `[members][blocks]` their accounts.
    pub(super) fn on_processor(&self) -> (&Group, &[Member], &[Vec<Block>]) {
        match &self.engine {
            Engine::Cpu(cpu) => (&self.group, &self.members, &cpu.blocks),
            Engine::Cuda(_) => panic!("not on a processor"),
        }
    }

    /// An update on a processor from a rollout that `fill` writes to the blocks of each member.
    pub(super) fn update_from(&mut self, mut fill: impl FnMut(usize, &mut Block)) {
        let Engine::Cpu(cpu) = &mut self.engine else { panic!("not on a processor") };
        for (p, blocks) in cpu.blocks.iter_mut().enumerate() {
            blocks.iter_mut().for_each(|block| {
                block.begin();
                block.rollout.advantage.clear();
                fill(p, block);
            });
        }
        cpu.update(&mut self.group, &mut self.members).unwrap();
    }

    pub(super) fn parts_mut(&mut self) -> (&mut Group, &mut Cuda) {
        match &mut self.engine {
            Engine::Cuda(cuda) => (&mut self.group, cuda),
            Engine::Cpu(_) => panic!("not on a card"),
        }
    }

    /// Sets the weight of the entropy in all members' losses.
    pub(super) fn set_entropy_weight(&mut self, weight: f32) {
        self.members.iter_mut().for_each(|member| member.multipliers.weight = weight);
    }

    pub(super) fn walks(&mut self) -> Result<Vec<Vec<(f64, usize)>>> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.engine.walk(&mut self.group, &self.members, &all)
    }
}

/// Bytes in front of a snapshot's numbers.
pub(super) const HEAD: usize = 8 * 4;
