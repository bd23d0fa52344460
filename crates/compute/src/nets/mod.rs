//! Nets without a loss: members of one architecture that go forward, back and one step on, whatever they are trained
//! for.
//!
//! [`Nets::forward`] gives the outputs of any rows. [`Nets::backward`] takes the gradient at the outputs, which is the
//! caller's: what is learned, and by which loss, is not known here. [`Nets::optimise`] takes each member's own
//! hyper-parameters. [`Nets::descend`] is all three through many minibatches. A member may [`adopt`](Nets::adopt)
//! another's parameters and optimiser. On a processor a whole rollout can run on one thread with anybody's parameters:
//! [`Forward`].
//!
//! Nets whose LSTM layers carry a state are stepped through by [`Stepper`], and get their gradients from whole
//! sequences by [`SequenceGradient`]; on a card [`SequencePass`] does both. Here they have their parameters and their
//! optimiser ([`Nets::optimise_parts`], [`Nets::optimise_on`]).
//!
//! A [`Population`](crate::Population) is nets with lists of samples, cross-entropy and epochs.

mod descent;
#[cfg(test)]
mod descent_tests;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod tests;

pub use self::descent::Loss;
pub use crate::cpu::{Forward, Packed, Ready, Rows, SequenceGradient, SequenceLoss, Sequences, Stepper};
pub use crate::cuda::{HeadOnCard, Hypers, Segment, SequencePass, SequencesOnCard};

use crate::cpu::{Given, Plan, Source, Update};
use crate::cuda::{Array, Stream};
use crate::device::{Budget, Opened};
use crate::error::{Error, Result};
use crate::net::{Layout, Net, Parts, Start, init_by};
use crate::population::backend::Arena;
use crate::population::{Optimiser, Pace, Pins, Precision, Recipe, Rule, Scale};
use crate::random::Turn;
use crate::tables::Tables;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// How nets are set up: what is the same for all members.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Rows of each member that a way back is possible for, at most; of nets that only predict, rows of a chunk.
    pub rows: usize,
    /// How numbers are held.
    pub precision: Precision,
    /// Which optimiser; none: these nets only predict.
    pub rule: Option<Rule>,
    /// The root of first weights and of what a step leaves out.
    pub seed: u64,
    /// How layers begin, by the beginnings of their names ([`init_by`]); empty: PyTorch's default.
    pub starts: Vec<(String, Start)>,
}

impl Setup {
    /// Nets that only predict, in chunks of `rows` rows.
    pub fn inference(rows: usize, precision: Precision) -> Setup {
        Setup { rows, precision, rule: None, seed: 0, starts: vec![] }
    }

    /// The processor's plan. Nets that only predict go in chunks of its own there, and have no batch.
    fn plan(&self, net: &Net, layout: &Layout) -> Plan {
        let whole = self.recipe();
        let batch = if self.rule.is_some() { whole.batch } else { 1 };
        Plan::new(net, layout, &Recipe { batch, ..whole }, Pace::default())
    }

    /// The plan's words for it.
    pub(crate) fn recipe(&self) -> Recipe {
        let mut recipe = Recipe::new(self.rows, self.precision, self.seed);
        recipe.optimiser.rule = self.rule.unwrap_or(Rule::AdamW);
        recipe
    }
}

/// A member: its name for life, and how it scales its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberSetup {
    /// Its randomness is keyed by it.
    pub id: u32,
    /// `[inputs]` its scaling; none leaves the input as it is. Empty: none at all.
    pub scales: Vec<Option<Scale>>,
}

/// A member's hyper-parameters of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hyper {
    /// The learning rate.
    pub rate: f32,
    /// Memory of the mean.
    pub beta1: f32,
    /// Memory of the square.
    pub beta2: f32,
    /// Added to the root.
    pub eps: f32,
    /// Weight decay.
    pub decay: f32,
    /// The largest global norm of a gradient; larger ones are scaled to it.
    pub clip: Option<f32>,
    /// The gradient is divided by this first: the sum of weights of what was added up, 1 for a mean.
    pub weight: f64,
}

impl Default for Hyper {
    fn default() -> Hyper {
        let Optimiser { beta1, beta2, eps, decay, clip, .. } = Optimiser::default();
        Hyper { rate: 1e-3, beta1, beta2, eps, decay, clip, weight: 1.0 }
    }
}

impl Hyper {
    pub(crate) fn optimiser(&self, rule: Rule) -> Optimiser {
        let Hyper { beta1, beta2, eps, decay, clip, .. } = *self;
        Optimiser { rule, beta1, beta2, eps, decay, clip }
    }

    pub(crate) fn check(&self, member: usize) -> Result<()> {
        let shares = [("beta1", self.beta1), ("beta2", self.beta2)];
        if let Some((name, beta)) = shares.into_iter().find(|(_, beta)| !(0.0..1.0).contains(beta)) {
            return Err(Error::Invalid(format!(
                "member {member}: {name} is {beta}; at least 0 and below 1 is possible"
            )));
        }
        let numbers =
            [("rate", self.rate), ("eps", self.eps), ("decay", self.decay), ("clip", self.clip.unwrap_or(1.0))];
        if let Some((name, value)) = numbers.into_iter().find(|(_, x)| !(x.is_finite() && *x >= 0.0)) {
            return Err(Error::Invalid(format!("member {member}: {name} is {value}; give a number of at least 0")));
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            let weight = self.weight;
            return Err(Error::Invalid(format!("member {member}: a weight of {weight}; give a number above 0")));
        }
        Ok(())
    }
}

/// Rows of some members: `n` members with `rows` each.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Rows of each member.
    pub rows: usize,
    /// `[n, rows]` ids of the tables; empty where no input reads one.
    pub ids: &'a [u32],
    /// `[n, rows, extras]` the numbers of dense inputs, in the net's order; empty where there is none.
    pub extras: &'a [f32],
}

/// Rows of all members that lie on a card.
#[derive(Clone, Copy)]
pub struct OnCard<'a> {
    /// Rows of each member.
    pub rows: usize,
    /// `[P, rows]` ids of the tables; none where no input reads one.
    pub ids: Option<&'a Array<u32>>,
    /// `[P, rows, extras]` the numbers of dense inputs, in the net's order; none where there is none.
    pub extras: Option<&'a Array<f32>>,
}

/// What a step of the optimiser on a card may be given.
#[derive(Clone, Copy, Default)]
pub struct StepOptions<'a> {
    /// `[P]` words that are 0 for members who are left out.
    pub mask: Option<&'a Array<u32>>,
    /// `[P, parts, params]` gradients that somebody else wrote: they are added in order, and stand for that of a way
    /// back.
    pub parts: Option<&'a Array<f32>>,
    /// `[P]` is given the global norms of the gradients, before clipping; not finite where a member stays as it was, 0
    /// where it was left out.
    pub norms: Option<&'a Array<f32>>,
}

/// Rows of a slice of the heads' sums where a caller's kernel may do the heads of such nets on a card
/// ([`HeadOnCard`]); none where it may not.
pub fn head_slice(net: &Net, precision: Precision, rows: usize) -> Option<usize> {
    crate::cuda::head_slice(net, &Layout::new(net).ok()?, precision, rows)
}

/// Nets of one architecture on one device.
pub struct Nets {
    net: Net,
    layout: Layout,
    setup: Setup,
    member_setups: Vec<MemberSetup>,
    tables: Arc<Tables>,
    /// `[P]` steps of the optimiser that are done.
    steps: Vec<u32>,
    /// What the last forward pass of all members was of, where a way back is possible.
    last: Option<Last>,
    needed: u64,
    /// Whether passes leave values out where the net has a dropout.
    training: bool,
    twin: Twin,
}

/// A batch of all members.
#[derive(Debug)]
struct Last {
    rows: usize,
    ids: Vec<u32>,
    extras: Vec<f32>,
}

enum Twin {
    Cpu(Box<crate::cpu::Nets>),
    Cuda(Box<crate::cuda::Nets>),
}

impl Nets {
    /// Sets nets up on a device: checks everything, counts the memory, refuses what does not fit, and draws the first
    /// weights.
    ///
    /// # Errors
    ///
    /// Where something does not fit the net, or the device.
    pub fn new(
        device: &Opened,
        budget: Budget,
        net: &Net,
        tables: &Arc<Tables>,
        setup: &Setup,
        member_setups: &[MemberSetup],
        pins: &Pins,
    ) -> Result<Nets> {
        let layout = Layout::new(net)?;
        check(net, tables, setup, member_setups)?;
        let needed = Nets::need(device, net, setup, member_setups)?;
        let most = device.room(budget, tables.bytes(), false)?;
        if needed > most {
            return Err(Error::Memory {
                what: format!("{} nets with {} rows each", member_setups.len(), setup.rows),
                device: device.name(),
                needed,
                budget: most,
                fits: "fewer members or fewer rows at once would fit".into(),
            });
        }
        // Orthogonal rows of a wide layer take seconds.
        let first: Vec<Vec<f32>> = member_setups
            .par_iter()
            .map(|member_setup| init_by(&layout, setup.seed, member_setup.id, &setup.starts))
            .collect::<Result<_>>()?;
        let twin = match device {
            Opened::Cpu { threads } => {
                tables.on_cpu()?;
                Twin::Cpu(Box::new(crate::cpu::Nets::new(setup.plan(net, &layout), &first, false, *threads)?))
            }
            Opened::Cuda(context) => {
                let (recipe, (net, layout, own)) = (setup.recipe(), on_card(net, &layout, member_setups)?);
                let made = crate::cuda::Nets::new(context, &net, &layout, tables, setup, &recipe, &own, pins, &first);
                Twin::Cuda(Box::new(made?))
            }
        };
        let (net, setup, tables) = (net.clone(), setup.clone(), tables.clone());
        let steps = vec![0; member_setups.len()];
        Ok(Nets {
            net,
            layout,
            setup,
            member_setups: member_setups.to_vec(),
            tables,
            steps,
            last: None,
            needed,
            training: false,
            twin,
        })
    }

    /// Bytes that such nets take on the device beside their tables.
    pub fn need(device: &Opened, net: &Net, setup: &Setup, member_setups: &[MemberSetup]) -> Result<u64> {
        let layout = Layout::new(net)?;
        match device {
            Opened::Cpu { threads } => {
                Ok(crate::cpu::need_of(&setup.plan(net, &layout), member_setups.len(), *threads, false))
            }
            Opened::Cuda(context) => {
                let (recipe, (net, layout, own)) = (setup.recipe(), on_card(net, &layout, member_setups)?);
                Ok(crate::cuda::nets_need(context.gpu().shared, &net, &layout, setup, &recipe, &own))
            }
        }
    }

    /// Whether passes from here on leave values out where the net has a dropout, as the steps of a training do; at
    /// first they do not. A way back of such a net follows a pass that does.
    pub fn set_training(&mut self, training: bool) {
        self.last = None;
        self.training = training;
    }

    /// Which algorithms the products of such nets take, to be stored with a run: those of `pins`, and for shapes
    /// that are not named there those that are chosen now.
    ///
    /// # Errors
    ///
    /// Where the net is none, or an algorithm of `pins` is unknown here.
    pub fn plan_pins(device: &Opened, net: &Net, setup: &Setup, pins: &Pins) -> Result<Pins> {
        let layout = Layout::new(net)?;
        match device {
            Opened::Cpu { .. } => Ok(Pins::default()),
            Opened::Cuda(context) => {
                let (net, layout, _) = on_card(net, &layout, &[])?;
                crate::cuda::nets_pins(context, &net, &layout, setup, pins)
            }
        }
    }

    /// The outputs of any rows of some members: `[heads][n, rows, outputs]`. Where it is of all members and of no more
    /// rows than [`Setup::rows`], [`backward`](Nets::backward) can follow.
    ///
    /// # Errors
    ///
    /// Where the rows are not there, or the lengths do not fit.
    pub fn forward(&mut self, members: Range<usize>, batch: Batch<'_>, out: &mut [Vec<f32>]) -> Result<()> {
        self.last = None;
        self.settle()?;
        let ids = self.fitting(&members, batch)?;
        let (n, heads) = (members.len(), &self.net.heads);
        if out.len() != heads.len() {
            return Err(Error::Invalid(format!("{} outputs for {} heads; give one for each", out.len(), heads.len())));
        }
        for (out, head) in out.iter_mut().zip(heads) {
            out.clear();
            out.resize(n * batch.rows * head.classes, 0.0);
        }
        let each = batch.rows * self.net.extras();
        match &mut self.twin {
            Twin::Cpu(nets) if batch.rows > 0 => {
                let tasks: Vec<(usize, Source<'_>, &[u32])> = (members.clone().enumerate())
                    .map(|(i, slot)| {
                        let extras = &batch.extras[i * each..(i + 1) * each];
                        let source = Source { tables: &self.tables, scales: &self.member_setups[slot].scales, extras };
                        (slot, source, &ids[i * batch.rows..(i + 1) * batch.rows])
                    })
                    .collect();
                let mut parts: Vec<Vec<&mut [f32]>> = (0..n).map(|_| Vec::new()).collect();
                for (out, head) in out.iter_mut().zip(heads) {
                    let rows = out.chunks_exact_mut(batch.rows * head.classes);
                    parts.iter_mut().zip(rows).for_each(|(part, rows)| part.push(rows));
                }
                let turn =
                    |i: usize| Turn { seed: self.setup.seed, member: self.member_setups[i].id, step: self.steps[i] };
                let turns: Option<Vec<Turn>> = self.training.then(|| members.clone().map(turn).collect());
                nets.forward(&tasks, turns.as_deref(), &mut parts);
            }
            Twin::Cpu(_) => {}
            Twin::Cuda(nets) => nets.forward(members.clone(), batch.rows, (&ids, batch.extras), self.training, out)?,
        }
        if self.setup.rule.is_some() && members == (0..self.member_setups.len()) && batch.rows <= self.setup.rows {
            self.last = Some(Last { rows: batch.rows, ids, extras: batch.extras.to_vec() });
        }
        Ok(())
    }

    /// The gradient of every member's parameters, from the gradient at the outputs of the last forward pass:
    /// `[heads][P, rows, outputs]`. In bf16 it is rounded first, as everything that flows back.
    ///
    /// # Errors
    ///
    /// Where no forward pass of all members came before it, or the lengths do not fit.
    pub fn backward(&mut self, d_out: &[&[f32]]) -> Result<()> {
        self.follows()?;
        let Some(last) = &self.last else {
            return Err(Error::Invalid(format!(
                "a way back needs a forward pass of all members, of at most {} rows, by nets that have an optimiser",
                self.setup.rows
            )));
        };
        let p = self.member_setups.len();
        let fits = |(d_out, head): (&&[f32], &crate::net::Head)| d_out.len() == p * last.rows * head.classes;
        if d_out.len() != self.net.heads.len() || !d_out.iter().zip(&self.net.heads).all(fits) {
            return Err(Error::Invalid(
                "the gradient at the outputs is not as long as the outputs; give one for each".into(),
            ));
        }
        let each = last.rows * self.net.extras();
        match &mut self.twin {
            Twin::Cpu(nets) => {
                let task = |(i, member_setup): (usize, &'_ MemberSetup)| Given {
                    source: Source {
                        tables: &self.tables,
                        scales: &self.member_setups[i].scales,
                        extras: &last.extras[i * each..(i + 1) * each],
                    },
                    ids: &last.ids[i * last.rows..(i + 1) * last.rows],
                    d_out: (d_out.iter().zip(&self.net.heads))
                        .map(|(d, h)| &d[i * last.rows * h.classes..(i + 1) * last.rows * h.classes])
                        .collect(),
                    turn: Turn { seed: self.setup.seed, member: member_setup.id, step: self.steps[i] },
                };
                let mut tasks: Vec<Given<'_>> = self.member_setups.iter().enumerate().map(task).collect();
                nets.backward(&mut tasks);
                Ok(())
            }
            Twin::Cuda(nets) => nets.backward(last.rows, d_out),
        }
    }

    /// One step of the optimiser for every member that the mask does not leave out, each by its own hyper-parameters.
    /// Says the global norms of the gradients, before clipping; a member whose norm is not finite stays as it was.
    ///
    /// # Errors
    ///
    /// Where there are not as many as members, or one makes no sense.
    pub fn optimise(&mut self, hypers: &[Hyper], mask: Option<&[bool]>) -> Result<Vec<f32>> {
        self.optimise_parts(&[], hypers, mask)
    }

    /// The same with gradients that somebody else wrote in parts, `[P, parts, params]`: they are added in order first.
    ///
    /// # Errors
    ///
    /// As [`optimise`](Nets::optimise), or where the parts are no whole rows.
    pub fn optimise_parts(&mut self, parts: &[f32], hypers: &[Hyper], mask: Option<&[bool]>) -> Result<Vec<f32>> {
        let (p, params) = (self.member_setups.len(), self.layout.params);
        let rule = self.learns()?;
        self.settle()?;
        if hypers.len() != p || mask.is_some_and(|mask| mask.len() != p) || !parts.len().is_multiple_of(p * params) {
            return Err(Error::Invalid(format!(
                "{} hyper-parameters, a mask of {} and {} numbers of gradients for {p} members of {params}; give one for each",
                hypers.len(),
                mask.map_or(p, <[bool]>::len),
                parts.len()
            )));
        }
        hypers.iter().enumerate().try_for_each(|(i, hyper)| hyper.check(i))?;
        let each = parts.len() / p;
        let go = |i: usize| mask.is_none_or(|mask| mask[i]);
        let norms = match &mut self.twin {
            Twin::Cpu(nets) => {
                let update = |(i, hyper): (usize, &Hyper)| Update {
                    go: go(i),
                    optimiser: hyper.optimiser(rule),
                    rate: hyper.rate,
                    t: self.steps[i] + 1,
                    weight: hyper.weight,
                    parts: &parts[i * each..(i + 1) * each],
                    norm: 0.0,
                };
                let mut updates: Vec<Update<'_>> = hypers.iter().enumerate().map(update).collect();
                nets.optimise(&mut updates);
                updates.iter().map(|u| u.norm as f32).collect::<Vec<f32>>()
            }
            Twin::Cuda(nets) => {
                return nets.optimise(hypers, &(0..p).map(go).collect::<Vec<bool>>(), parts);
            }
        };
        for (i, (step, norm)) in self.steps.iter_mut().zip(&norms).enumerate() {
            *step += u32::from(go(i) && norm.is_finite());
        }
        Ok(norms)
    }

    /// [`forward`](Nets::forward) of all members on a card, put on a stream and part of its graph where that is
    /// captured: outputs `[heads]` `[P, rows, outputs]`. More rows than [`Setup::rows`] go in chunks of as many; a way
    /// back can follow where they are no more. What is to be captured has to run once before, which loads it. A graph
    /// keeps all that it reaches.
    ///
    /// An id that is none of the tables', or has no whole window in one, is replaced on the card by one that has:
    /// [`settle`](Nets::settle), and every call that waits, then fails once and names it.
    ///
    /// # Errors
    ///
    /// On a processor, or where the lengths do not fit.
    pub fn forward_on(&mut self, stream: &Stream, batch: OnCard<'_>, out: &[Array<f32>]) -> Result<()> {
        self.last = None;
        self.forgets()?;
        let training = self.training;
        self.card()?.forward_on(stream, batch, training, out)
    }

    /// [`backward`](Nets::backward) in the same way, from the gradient at the outputs of the last
    /// [`forward_on`](Nets::forward_on), `[heads]` `[P, rows, outputs]`.
    ///
    /// # Errors
    ///
    /// As there, and where no such pass came before it.
    pub fn backward_on(&mut self, stream: &Stream, d_out: &[Array<f32>]) -> Result<()> {
        self.learns()?;
        self.follows()?;
        self.forgets()?;
        self.card()?.backward_on(stream, d_out)
    }

    /// Where each head's kernel reads and writes, if heads may be the caller's ([`head_slice`]).
    ///
    /// # Errors
    ///
    /// On a processor.
    pub fn heads_on_card(&mut self) -> Result<Option<Vec<HeadOnCard>>> {
        Ok(self.card()?.heads_on_card())
    }

    /// `[P, params]` the gradient of the last way back.
    ///
    /// # Errors
    ///
    /// On a processor, or where there is no optimiser.
    pub fn gradient_on_card(&mut self) -> Result<Array<f32>> {
        self.learns()?;
        Ok(self.card()?.gradient_on_card())
    }

    /// The inputs of at most [`Setup::rows`] rows of all members, for nets whose heads are the caller's. It is put on
    /// this very stream, beside whatever passes are under way: what was made of the rows before them has to be done.
    ///
    /// # Errors
    ///
    /// As [`forward_on`](Nets::forward_on), and where heads are no caller's.
    pub fn rows_on(&mut self, stream: &Stream, batch: OnCard<'_>) -> Result<()> {
        self.last = None;
        self.card()?.rows_on(stream, batch)
    }

    /// [`forward_on`](Nets::forward_on) of the rows of the last [`rows_on`](Nets::rows_on), up to the heads.
    ///
    /// # Errors
    ///
    /// Where there are no such rows.
    pub fn hidden_on(&mut self, stream: &Stream) -> Result<()> {
        self.last = None;
        self.card()?.hidden_on(stream)
    }

    /// [`backward_on`](Nets::backward_on) from what the caller's kernel wrote at the heads and before them.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn backward_past_heads_on(&mut self, stream: &Stream) -> Result<()> {
        self.learns()?;
        self.card()?.backward_past_heads_on(stream)
    }

    /// [`optimise`](Nets::optimise) in the same way. Hyper-parameters are read when the work runs, so that they may be
    /// changed between two launches of a graph.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn optimise_on(&mut self, stream: &Stream, hypers: &Hypers, options: StepOptions<'_>) -> Result<()> {
        self.learns()?;
        self.card()?.optimise_on(stream, hypers, options)
    }

    /// [`adopt`](Nets::adopt) in the same way: one copy.
    ///
    /// # Errors
    ///
    /// On a processor, or where there is no such member.
    pub fn adopt_on(&mut self, stream: &Stream, from: usize, to: usize) -> Result<()> {
        self.member_setup(from)?;
        self.member_setup(to)?;
        self.card()?.adopt_on(stream, from, to)
    }

    /// Hyper-parameters of all members in the card's memory, for [`optimise_on`](Nets::optimise_on).
    ///
    /// # Errors
    ///
    /// On a processor, where there are not as many as members, or where one makes no sense.
    pub fn hypers(&mut self, each: &[Hyper]) -> Result<Hypers> {
        self.card()?.hypers(each)
    }

    /// `[heads]` new arrays `[P, rows, outputs]` of zeros on the card, for outputs or for the gradients at them.
    ///
    /// # Errors
    ///
    /// On a processor, or where the memory is not enough.
    pub fn head_arrays(&mut self, rows: usize) -> Result<Vec<Array<f32>>> {
        self.card()?.head_arrays(rows)
    }

    /// `[P, params]` the parameters on the card, for kernels of other rooms. Whoever changes them calls
    /// [`params_changed_on`](Nets::params_changed_on) next.
    ///
    /// # Errors
    ///
    /// On a processor.
    pub fn params_on_card(&mut self) -> Result<Array<f32>> {
        Ok(self.card()?.params())
    }

    /// `[P, params]` their bf16 copies, which products read; none where nets are held in f32.
    ///
    /// # Errors
    ///
    /// On a processor.
    pub fn copies_on_card(&mut self) -> Result<Option<Array<u16>>> {
        Ok(self.card()?.copies())
    }

    /// Follows a change of the parameters on the card, on a stream.
    ///
    /// # Errors
    ///
    /// On a processor.
    pub fn params_changed_on(&mut self, stream: &Stream) -> Result<()> {
        self.card()?.params_changed_on(stream)
    }

    /// Whether passes on a stream do their matrix products and nothing else, with the same plans in the same order, on
    /// what the last whole pass left: to time products alone. Outputs and gradients then mean nothing.
    ///
    /// # Errors
    ///
    /// On a processor.
    pub fn set_only_products(&mut self, only: bool) -> Result<()> {
        self.card()?.set_only_products(only);
        Ok(())
    }

    /// Waits for what was put on streams; every call without a stream does so first.
    ///
    /// # Errors
    ///
    /// Where an id that lay on the card was none of the tables', or had no whole window. It says so once.
    pub fn settle(&mut self) -> Result<()> {
        match &mut self.twin {
            Twin::Cuda(nets) => nets.settle(),
            Twin::Cpu(_) => Ok(()),
        }
    }

    /// What they were set up with.
    pub(crate) fn described(&self) -> (&Net, &Setup, &[MemberSetup]) {
        (&self.net, &self.setup, &self.member_setups)
    }

    /// Whether rows can be gone through by themselves.
    fn forgets(&self) -> Result<()> {
        match self.net.has_memory() {
            true => Err(Error::Invalid(crate::population::check::no_memory(&self.net))),
            false => Ok(()),
        }
    }

    pub(crate) fn card(&mut self) -> Result<&mut crate::cuda::Nets> {
        match &mut self.twin {
            Twin::Cuda(nets) => Ok(nets),
            Twin::Cpu(_) => Err(Error::Invalid("nets on a processor have no stream; call them without one".into())),
        }
    }

    /// Whether a way back can follow what passes do now.
    fn follows(&self) -> Result<()> {
        match self.layout.drops() && !self.training {
            true => Err(Error::Invalid(format!(
                "`{}` has a dropout, and its passes left nothing out; a way back needs `set_training(true)` first",
                self.net
            ))),
            false => Ok(()),
        }
    }

    fn learns(&self) -> Result<Rule> {
        let inference_only = || Error::Invalid("these nets only predict; set them up with an optimiser".into());
        self.setup.rule.ok_or_else(inference_only)
    }

    /// One member's parameters, optimiser state and step become another's; their names stay.
    ///
    /// # Errors
    ///
    /// Where there is no such member.
    pub fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        self.member_setup(from)?;
        self.member_setup(to)?;
        self.settle()?;
        match &mut self.twin {
            Twin::Cpu(nets) => nets.adopt(from, to)?,
            Twin::Cuda(nets) => nets.adopt(from, to)?,
        }
        self.steps[to] = self.steps[from];
        Ok(())
    }

    /// `[params]` a member's parameters, as the layout says.
    pub fn params(&mut self, member: usize) -> Result<Vec<f32>> {
        self.read(member, Arena::Params)
    }

    /// Replaces a member's parameters.
    pub fn set_params(&mut self, member: usize, row: &[f32]) -> Result<()> {
        self.write(member, Arena::Params, row)
    }

    /// `[params]` a member's last gradient, not yet divided by its weight.
    pub fn gradient(&mut self, member: usize) -> Result<Vec<f32>> {
        self.read(member, Arena::Gradient)
    }

    /// What the optimiser knows of a member: the means of gradients and of squares, and the steps done.
    pub fn optimiser(&mut self, member: usize) -> Result<(Vec<f32>, Vec<f32>, u32)> {
        let (mean, square) = (self.read(member, Arena::Mean)?, self.read(member, Arena::Square)?);
        let step = match &mut self.twin {
            Twin::Cpu(_) => self.steps[member],
            Twin::Cuda(nets) => nets.step(member)?,
        };
        Ok((mean, square, step))
    }

    /// Replaces it.
    pub fn set_optimiser(&mut self, member: usize, mean: &[f32], square: &[f32], step: u32) -> Result<()> {
        self.write(member, Arena::Mean, mean)?;
        self.write(member, Arena::Square, square)?;
        self.steps[member] = step;
        match &mut self.twin {
            Twin::Cpu(_) => Ok(()),
            Twin::Cuda(nets) => nets.set_step(member, step),
        }
    }

    /// Which algorithms its products take, to be stored with the run.
    pub fn pins(&self) -> Pins {
        match &self.twin {
            Twin::Cpu(_) => Pins::default(),
            Twin::Cuda(nets) => nets.pins(),
        }
    }

    /// The net.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Where everything of the net lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes they take on the device beside the tables.
    pub fn memory(&self) -> u64 {
        self.needed
    }

    fn read(&mut self, member: usize, arena: Arena) -> Result<Vec<f32>> {
        self.there(member, arena)?;
        match &mut self.twin {
            Twin::Cpu(nets) => nets.read(member, arena),
            Twin::Cuda(nets) => nets.read(member, arena),
        }
    }

    fn write(&mut self, member: usize, arena: Arena, row: &[f32]) -> Result<()> {
        self.there(member, arena)?;
        if row.len() != self.layout.params {
            return Err(Error::Invalid(format!("{} numbers for a net that has {}", row.len(), self.layout.params)));
        }
        match &mut self.twin {
            Twin::Cpu(nets) => nets.write(member, arena, row),
            Twin::Cuda(nets) => nets.write(member, arena, row),
        }
    }

    /// Nets that only predict have parameters alone.
    fn there(&mut self, member: usize, arena: Arena) -> Result<()> {
        self.settle()?;
        self.member_setup(member)?;
        if arena == Arena::Params { Ok(()) } else { self.learns().map(drop) }
    }

    fn member_setup(&self, member: usize) -> Result<&MemberSetup> {
        let all = self.member_setups.len();
        self.member_setups.get(member).ok_or_else(|| Error::Invalid(format!("there is no member {member} among {all}")))
    }

    /// The ids of a batch, checked; zeros where no table is read.
    fn fitting(&self, members: &Range<usize>, batch: Batch<'_>) -> Result<Vec<u32>> {
        self.forgets()?;
        if members.end > self.member_setups.len() || members.start > members.end {
            return Err(Error::Invalid(format!(
                "members {members:?} of {}; name those that are there",
                self.member_setups.len()
            )));
        }
        let rows = members.len() * batch.rows;
        let (tables, extras) = (!self.tables.is_empty(), rows * self.net.extras());
        if batch.extras.len() != extras || (tables && batch.ids.len() != rows) {
            return Err(Error::Invalid(format!(
                "{} ids and {} extras for {} members of {} rows; {rows} and {extras} are wanted",
                batch.ids.len(),
                batch.extras.len(),
                members.len(),
                batch.rows
            )));
        }
        if !tables {
            return Ok(vec![0; rows]);
        }
        self.tables.check(&self.net, batch.ids, "these rows")?;
        Ok(batch.ids.to_vec())
    }
}

/// What nets are of on a card. Of a net that carries a state that is the plain net behind its LSTM layers, with rows of
/// parameters of the whole and without scales: what it reads is no table's.
fn on_card(net: &Net, layout: &Layout, members: &[MemberSetup]) -> Result<(Net, Layout, Vec<MemberSetup>)> {
    if !net.has_memory() {
        return Ok((net.clone(), layout.clone(), members.to_vec()));
    }
    let plain = Layout { recurrents: vec![], ..layout.clone() };
    let own = members.iter().map(|member| MemberSetup { id: member.id, scales: vec![] }).collect();
    Ok((Parts::of(net)?.rest, plain, own))
}

/// Whether tables, setup and members fit the net.
fn check(net: &Net, tables: &Tables, setup: &Setup, member_setups: &[MemberSetup]) -> Result<()> {
    tables.serve(net)?;
    if member_setups.is_empty() || !(1..=1 << 24).contains(&setup.rows) {
        return Err(Error::Invalid(format!(
            "{} members with {} rows; at least one member, and 1 to {} rows are possible",
            member_setups.len(),
            setup.rows,
            1 << 24
        )));
    }
    for (i, member_setup) in member_setups.iter().enumerate() {
        let id = member_setup.id;
        if member_setups[..i].iter().any(|other| other.id == id) {
            return Err(Error::Invalid(format!("two members have the id {id}; give each its own")));
        }
        let fits = |(scale, input): (&Option<Scale>, &crate::net::Input)| {
            scale.as_ref().is_none_or(|s| s.mean.len() == input.features && s.inverse.len() == input.features)
        };
        let scales = &member_setup.scales;
        let whole = scales.is_empty() || scales.len() == net.inputs.len();
        if !whole || !scales.iter().zip(&net.inputs).all(fits) {
            return Err(Error::Invalid(format!(
                "member {id}: its scales do not fit the {} inputs; give a mean and a deviation for each feature, or none",
                net.inputs.len()
            )));
        }
    }
    Ok(())
}
