//! Policies on a card: an iteration (rollout, advantages, minibatches) stays there, in captured graphs. The host says
//! what an update goes by in one copy, enqueues graphs, and reads nothing back before the update is over.
//!
//! [`arrays`] is what lies on the card. Around a net of any shape, [`passes`] puts the kernels of `ppo.cu` between the
//! net's own; small nets in bf16 have one kernel for each whole phase instead ([`small`]), and few accounts of wide
//! nets one for the rollout ([`wide`]). Policies that remember go through whole sequences ([`recurrent`]).

mod arguments;
mod arrays;
mod heads;
mod passes;
mod recurrent;
mod small;
#[cfg(test)]
pub(crate) mod tests;
mod wide;

pub(crate) use arguments::EpisodeTable;
pub(crate) use arrays::{table as episode_table, table_bytes as episode_table_bytes};

use super::training::{Group, Member, ReturnScale};
use super::{LossSums, Ppo, memory};
use crate::{DeviceBudget, MemberKey};
use arguments::{Decide, Estimate, Moments, Report};
use arrays::{Arrays, REPORT, Sizes};
use compute::cuda::{Context, Graph, Grid, Image, Kernel, Module, Stream};
use compute::nets::{Hyper, Hypers as CardHypers, Nets, StepOptions};
use compute::population::Pins;
use compute::{Error, Opened, Result, image};
use passes::Passes;
use recurrent::Recurrent;
use small::Small;
use std::sync::Arc;
use wide::Wide;

static PPO: Image = image!("ppo");

/// What members have beside their nets on the card.
pub(super) struct Cuda {
    stream: Stream,
    arrays: Arrays,
    path: Path,
    phases: Phases,
    graphs: Option<Graphs>,
    walk_graph: Option<(Graph, usize)>,
}

/// How the net is gone through.
enum Path {
    Passes(Box<Passes>),
    Small(Box<Small>),
    Recurrent(Box<Recurrent>),
}

/// What is replayed, once it has run without.
struct Graphs {
    /// Steps of a rollout, and how often; none where a rollout is one kernel.
    steps: Option<(Graph, usize)>,
    estimate: Graph,
    minibatches: (Graph, usize),
}

/// Nodes that a graph of repeated work has at most.
const NODES: usize = 1000;

/// A graph of as much of `all` as it can have, captured by `capture`, and how often it is launched for all of it.
fn repeated(all: usize, mut capture: impl FnMut(usize) -> Result<Graph>) -> Result<(Graph, usize)> {
    let one = capture(1)?;
    let most = (NODES / one.nodes().max(1)).clamp(1, 16);
    let each = (1..=most).rev().find(|each| all.is_multiple_of(*each)).unwrap_or(1);
    Ok((if each == 1 { one } else { capture(each)? }, all / each))
}

/// Bytes on the card beside the nets that learn.
pub(super) fn need(context: &Arc<Context>, ppo: &Ppo, keys: &[MemberKey]) -> Result<u64> {
    let sizes = Sizes::new(context, ppo, keys)?;
    if sizes.accounts > 0 {
        return Ok(sizes.bytes() + arrays::table_bytes(&ppo.folds) + recurrent::need(context, ppo, keys, &sizes)?);
    }
    let acting = if sizes.slices > 0 { 0 } else { passes::need(context, ppo, keys)? };
    let (config, _) = ppo.shared(keys);
    let wide = if sizes.slices > 0 { None } else { wide::division(context, ppo, keys) };
    let exchange = wide.map_or(0, |division| division.bytes(keys.len(), config.net.inputs[0].features));
    Ok(sizes.bytes() + arrays::table_bytes(&ppo.folds) + acting + exchange)
}

/// Rows that the nets that learn are set up for: one that has a kernel of its own for minibatches needs none, and one
/// that remembers goes through whole accounts.
pub(super) fn rows(context: &Context, ppo: &Ppo, keys: &[MemberKey], batch: usize) -> usize {
    let (config, shape) = ppo.shared(keys);
    if config.net.has_memory() {
        return memory::accounts_of(shape, batch) * shape.n_steps as usize;
    }
    if small::fits(context, ppo, keys).is_some() { batch.min(32) } else { batch }
}

/// Whether minibatches of these members are large enough for a whole card.
pub(super) fn fills_a_card(context: &Context, ppo: &Ppo, keys: &[MemberKey]) -> bool {
    !keys.is_empty() && small::fits(context, ppo, keys).is_some_and(|shape| shape.on_hopper())
}

impl Cuda {
    pub(super) fn new(group: &mut Group, members: &[Member], at: &DeviceBudget, pins: &Pins) -> Result<Cuda> {
        let Opened::Cuda(context) = &at.device else {
            return Err(Error::Invalid("policies on a card need one".into()));
        };
        let keys: Vec<MemberKey> = members.iter().map(|m| m.key).collect();
        let stream = Stream::new(context)?;
        let sizes = Sizes::new(context, &group.ppo, &keys)?;
        let table = arrays::table(context, &stream, &group.ppo.folds, group.shape.episode)?;
        let mut arrays = Arrays::new(context, &stream, group, members, sizes, table)?;
        let module = Module::load(context, &PPO)?;
        let path = match small::fits(context, &group.ppo, &keys) {
            _ if group.net.has_memory() => {
                Path::Recurrent(Box::new(Recurrent::new(&stream, &module, group, at, &keys, &arrays, pins)?))
            }
            Some(shape) => Path::Small(Box::new(Small::new(context, &stream, group, members, &mut arrays, shape)?)),
            None => {
                let division = wide::division(context, &group.ppo, &keys);
                let wide = division.map(|d| Wide::new(context, &stream, group, members, &arrays, d)).transpose()?;
                Path::Passes(Box::new(Passes::new(&module, group, at, &keys, &mut arrays, pins, wide)?))
            }
        };
        let hypers: Vec<Hyper> = members.iter().map(|m| group.hyper(m)).collect();
        let phases = Phases::new(&module, &arrays, group.nets.hypers(&hypers)?)?;
        Ok(Cuda { stream, arrays, path, phases, graphs: None, walk_graph: None })
    }

    /// Which kernels do the work, for people.
    pub(super) fn describe(&self) -> String {
        match &self.path {
            Path::Small(_) => "one kernel for each phase of an update, accounts and net together".into(),
            Path::Passes(passes) if passes.has_rollout() => {
                "a rollout in one kernel that keeps the policy's weights, minibatches in captured graphs".into()
            }
            Path::Passes(_) => "accounts between the passes of the net, in captured graphs".into(),
            Path::Recurrent(recurrent) => recurrent.describe(),
        }
    }

    /// The algorithms of nets that act.
    pub(super) fn pins(&self) -> Pins {
        match &self.path {
            Path::Passes(passes) => passes.pins(),
            Path::Recurrent(recurrent) => recurrent.pins(),
            Path::Small(_) => Pins::default(),
        }
    }

    /// Collect, estimate advantages, update: enqueued, and nothing is waited for.
    pub(super) fn begin_update(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        let Cuda { stream, arrays, path, phases, graphs, .. } = self;
        let sizes = arrays.sizes;
        let words = members.iter_mut().flat_map(|member| {
            let rate = group.hyper(member).rate;
            member.seen.rate = f64::from(rate);
            [member.unit, u32::from(member.active), member.multipliers.weight.to_bits(), rate.to_bits()]
        });
        let words: Vec<u32> = words.collect();
        let nets = &mut group.nets;
        arrays.words.put(stream, &words)?;
        phases.begin.launch(stream, blocks(sizes.p, 1, 1), &phases.report)?;
        path.begin(stream, nets)?;
        match graphs {
            Some(Graphs { steps, estimate, minibatches }) => {
                if let Some((steps, times)) = steps {
                    (0..*times).try_for_each(|_| steps.launch(stream))?;
                }
                estimate.launch(stream)?;
                let (minibatches, times) = minibatches;
                (0..*times).try_for_each(|_| minibatches.launch(stream))?;
            }
            // What is captured has to have run before.
            None => {
                (0..sizes.t).try_for_each(|_| path.steps(stream, 1))?;
                path.value_later(stream, nets)?;
                path.estimate(stream, phases, &sizes)?;
                path.first_rows(stream, nets)?;
                (0..sizes.minibatches).try_for_each(|_| path.minibatch(stream, nets, phases, &sizes))?;
                let steps = match path {
                    Path::Small(_) => None,
                    Path::Passes(passes) if passes.has_rollout() => None,
                    _ => Some(repeated(sizes.t, |n| stream.capture(|| path.steps(stream, n)))?),
                };
                let estimate = stream.capture(|| {
                    path.value_later(stream, nets)?;
                    path.estimate(stream, phases, &sizes)?;
                    path.first_rows(stream, nets)
                })?;
                let minibatches = repeated(sizes.minibatches, |n| {
                    stream.capture(|| (0..n).try_for_each(|_| path.minibatch(stream, nets, phases, &sizes)))
                })?;
                *graphs = Some(Graphs { steps, estimate, minibatches });
            }
        }
        phases.end.launch(stream, blocks(sizes.p, 1, 1), &phases.report)
    }

    /// Waits for the update that was begun, and takes what it reports.
    pub(super) fn end_update(&mut self, members: &mut [Member]) -> Result<()> {
        let report = self.arrays.report.get(&self.stream)?;
        for (member, seen) in members.iter_mut().zip(report.as_chunks::<REPORT>().0).filter(|(m, _)| m.active) {
            let [rows, policy, value, entropy, kl, clipped, growth, explained, steps, count, mean, squares, _, norm] =
                *seen;
            member.seen.losses = LossSums { rows, policy, value, entropy, kl, clipped };
            (member.seen.growth, member.seen.explained, member.seen.norm) = (growth, explained, norm);
            member.step += steps as u32;
            member.returns = ReturnScale { count, mean, squares };
            if !norm.is_finite() {
                member.fault = Some(format!("the gradient is not finite in update {}", member.unit + 1));
                member.active = false;
            }
        }
        Ok(())
    }

    /// `[members][pieces]` what members make of their validation, taking what they prefer.
    pub(super) fn walk(&mut self, group: &mut Group, members: &[Member]) -> Result<Vec<Vec<(f64, usize)>>> {
        let Cuda { stream, arrays, path, walk_graph, .. } = self;
        let sizes = arrays.sizes;
        arrays.begin_walk(stream)?;
        path.begin_walk(stream, &mut group.nets)?;
        match path {
            Path::Small(small) => small.walk(stream)?,
            Path::Passes(_) | Path::Recurrent(_) => {
                // Who has arrived stays there, so a few steps too many change nothing.
                let steps = sizes.walk_steps.next_multiple_of(WALK);
                if walk_graph.is_none() {
                    path.walk(stream)?;
                    let walk = |n| stream.capture(|| (0..n).try_for_each(|_| path.walk(stream)));
                    *walk_graph = Some(repeated(steps, walk)?);
                }
                if let Some((graph, times)) = walk_graph {
                    (0..*times).try_for_each(|_| graph.launch(stream))?;
                }
            }
        }
        let equity = arrays.walkers.equity.get(stream)?;
        let of = |(member, equity): (&Member, &[f64])| {
            let folds = &group.ppo.folds;
            let each = folds.valid[member.key.fold].iter().zip(equity);
            // Ruin counts as the loss of all but a ten-thousandth.
            let growth = |(piece, equity): (&std::ops::Range<u32>, &f64)| {
                let capital = folds.data.params(piece.start).capital;
                ((equity / capital).max(1e-4).ln(), piece.len() - 1)
            };
            each.map(growth).collect()
        };
        Ok(members.iter().zip(equity.chunks_exact(sizes.pieces.max(1))).map(of).collect())
    }

    /// A member's accounts between two updates, as blocks on a processor have them.
    pub(super) fn state(&self, at: usize) -> Result<Vec<f64>> {
        let remembered = match &self.path {
            Path::Recurrent(recurrent) => recurrent.states(&self.stream, at)?,
            Path::Passes(_) | Path::Small(_) => Vec::new(),
        };
        self.arrays.state(&self.stream, at, &remembered)
    }

    /// Sets a member's accounts to such a state; false where it is none of theirs.
    pub(super) fn restore(&mut self, group: &Group, at: usize, returns: &ReturnScale, state: &[f64]) -> Result<bool> {
        let numbers = memory::state_of(&group.net);
        let Some(remembered) = self.arrays.restore(&self.stream, group, (at, numbers), returns, state)? else {
            return Ok(false);
        };
        match &self.path {
            Path::Recurrent(recurrent) => recurrent.set_states(&self.stream, at, &remembered)?,
            Path::Passes(_) | Path::Small(_) => {}
        }
        Ok(true)
    }

    /// What drawdowns weigh in a member's rewards from its next step on.
    pub(super) fn set_risk(&mut self, at: usize, weight: f32) -> Result<()> {
        self.arrays.members.reward_weight.part(at, 1)?.put(&self.stream, &[weight])?;
        self.stream.wait()
    }

    /// The running scale of a member's rewards becomes another's.
    pub(super) fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        let returns = &self.arrays.returns;
        returns.part(3 * to, 3)?.copy_from(&self.stream, &returns.part(3 * from, 3)?)?;
        self.stream.wait()
    }
}

/// Steps of a validation are a multiple of this, so that a graph can have several.
const WALK: usize = 8;

impl Path {
    /// Before the first step: a rollout that is one kernel is whole after it.
    fn begin(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match self {
            Path::Passes(passes) => passes.begin(stream, nets),
            Path::Small(small) => small.rollout(stream),
            Path::Recurrent(recurrent) => recurrent.begin(stream, nets),
        }
    }

    fn begin_walk(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match self {
            Path::Passes(passes) => passes.take_params(stream, nets),
            Path::Small(_) => Ok(()),
            Path::Recurrent(recurrent) => recurrent.begin_walk(stream, nets),
        }
    }

    /// One step of a validation.
    fn walk(&mut self, stream: &Stream) -> Result<()> {
        match self {
            Path::Passes(passes) => passes.walk(stream),
            Path::Small(_) => Ok(()),
            Path::Recurrent(recurrent) => recurrent.walk(stream),
        }
    }

    /// Some steps of the rollout.
    fn steps(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        match self {
            Path::Passes(passes) if !passes.has_rollout() => passes.steps(stream, steps),
            Path::Recurrent(recurrent) => recurrent.steps(stream, steps),
            Path::Passes(_) | Path::Small(_) => Ok(()),
        }
    }

    /// Values that a rollout left open.
    fn value_later(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match self {
            Path::Passes(passes) => passes.value_later(stream, nets),
            Path::Small(small) => small.values(stream),
            Path::Recurrent(recurrent) => recurrent.value_later(stream),
        }
    }

    /// The scale of rewards, advantages, and what minibatches are centred by.
    fn estimate(&self, stream: &Stream, phases: &Phases, sizes: &Sizes) -> Result<()> {
        phases.estimate_advantages(stream, sizes)?;
        match self {
            Path::Recurrent(recurrent) => recurrent.moments(stream)?,
            Path::Passes(_) | Path::Small(_) => phases.add_moments(stream, sizes)?,
        }
        phases.centre_minibatches(stream, sizes)
    }

    /// Before the first minibatch of an update, whose order is known.
    fn first_rows(&self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match self {
            Path::Passes(passes) => passes.first_rows(stream, nets),
            Path::Recurrent(_) | Path::Small(_) => Ok(()),
        }
    }

    fn minibatch(&mut self, stream: &Stream, nets: &mut Nets, phases: &Phases, sizes: &Sizes) -> Result<()> {
        let options = StepOptions { mask: Some(&phases.decide.goes), norms: Some(&phases.decide.norms), parts: None };
        match self {
            Path::Passes(passes) => {
                let decide = |side: &Stream| phases.decide(side, sizes);
                passes.minibatch(stream, nets, decide, |nets| nets.optimise_on(stream, &phases.hypers, options))
            }
            Path::Recurrent(recurrent) => {
                recurrent.losses(stream, nets)?;
                phases.decide(stream, sizes)?;
                recurrent.back(stream, nets)?;
                nets.optimise_on(stream, &phases.hypers, options)
            }
            Path::Small(small) => {
                small.minibatch(stream)?;
                nets.optimise_on(stream, &phases.hypers, StepOptions { parts: Some(small.gradient()), ..options })
            }
        }
    }
}

/// The phases that are the same for all nets.
struct Phases {
    begin: Kernel<Report>,
    end: Kernel<Report>,
    returns: Kernel<Estimate>,
    scales: Kernel<Estimate>,
    advantages: Kernel<Estimate>,
    explained: Kernel<Estimate>,
    moments: Kernel<Moments>,
    moments_end: Kernel<Moments>,
    decides: Kernel<Decide>,
    hypers: CardHypers,
    report: Report,
    estimate: Estimate,
    centre: Moments,
    decide: Decide,
}

impl Phases {
    fn new(module: &Arc<Module>, a: &Arrays, hypers: CardHypers) -> Result<Phases> {
        Ok(Phases {
            begin: module.kernel("begin_update")?,
            end: module.kernel("end_update")?,
            returns: module.kernel("returns")?,
            scales: module.kernel("scales")?,
            advantages: module.kernel("advantages")?,
            explained: module.kernel("explained")?,
            moments: module.kernel("moments")?,
            moments_end: module.kernel("moments_end")?,
            decides: module.kernel("decide")?,
            report: Report {
                words: a.words.clone(),
                unit: a.members.unit.clone(),
                goes: a.goes.clone(),
                entropy_weight: a.members.entropy_weight.clone(),
                rate: hypers.rate.clone(),
                norms: a.norms.clone(),
                totals: a.totals.clone(),
                returns: a.returns.clone(),
                report: a.report.clone(),
                clock: a.clock.clone(),
            },
            estimate: Estimate {
                members: a.members.clone(),
                standing: a.standing.clone(),
                seen: a.seen.clone(),
                carried: a.carried.clone(),
                partial: a.partial.clone(),
                returns: a.returns.clone(),
                scale: a.scale.clone(),
                totals: a.totals.clone(),
            },
            centre: Moments {
                members: a.members.clone(),
                advantage: a.seen.advantage.clone(),
                order: a.seen.order.clone(),
                partial: a.moment_partial.clone(),
                centre: a.centre.clone(),
                per_epoch: a.sizes.per_epoch as u32,
            },
            decide: a.decide(),
            hypers,
        })
    }

    /// The scale of rewards, and advantages.
    fn estimate_advantages(&self, stream: &Stream, sizes: &Sizes) -> Result<()> {
        let accounts = blocks(sizes.n.div_ceil(32), sizes.p, 32);
        self.returns.launch(stream, accounts, &self.estimate)?;
        self.scales.launch(stream, blocks(sizes.p, 1, 256), &self.estimate)?;
        self.advantages.launch(stream, accounts, &self.estimate)?;
        self.explained.launch(stream, blocks(sizes.p, 1, 256), &self.estimate)
    }

    /// The order of rows, and sums of the advantages of every minibatch.
    fn add_moments(&self, stream: &Stream, sizes: &Sizes) -> Result<()> {
        let of_minibatches = [sizes.batch.div_ceil(arrays::SLICE), sizes.minibatches, sizes.p].map(|n| n as u32);
        let grid = Grid { blocks: of_minibatches, threads: [256, 1, 1], shared: 0 };
        self.moments.launch(stream, grid, &self.centre)
    }

    /// What minibatches are centred by, out of those.
    fn centre_minibatches(&self, stream: &Stream, sizes: &Sizes) -> Result<()> {
        self.moments_end.launch(stream, blocks(sizes.minibatches.div_ceil(32), sizes.p, 32), &self.centre)
    }

    /// What a minibatch saw, and who goes on.
    fn decide(&self, stream: &Stream, sizes: &Sizes) -> Result<()> {
        self.decides.launch(stream, blocks(sizes.p, 1, 256), &self.decide)
    }
}

/// Blocks in two directions, of so many threads.
fn blocks(x: usize, y: usize, threads: u32) -> Grid {
    Grid { blocks: [x as u32, y as u32, 1], threads: [threads, 1, 1], shared: 0 }
}
