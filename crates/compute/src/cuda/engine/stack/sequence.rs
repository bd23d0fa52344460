//! Nets whose LSTM layers carry a state, on a card: some steps of some rows of every member, forward and back.
//!
//! A net is its LSTM layers ([`Stack`], one for each tower) and the plain net behind them, which is what [`Nets`] are
//! of on a card; a member's row of parameters has both. A pass gathers the rows, walks the LSTM layers through all
//! steps, and hands every h to the plain net; on the way back the gradient there goes to the LSTM layers, which write
//! their part of the same gradient. The processor's twins are `Stepper` and `SequenceGradient`. All work is put on the
//! stream that is given and may be captured.

use super::Stack;
use crate::arguments;
use crate::cuda::array::{Array, Memory};
use crate::cuda::context::Context;
use crate::cuda::graph::{self, Event, Stream};
use crate::cuda::kernels;
use crate::cuda::memory::{Slab, Slice, aligned};
use crate::cuda::module::{Grid, Kernel, Module};
use crate::device::Budget;
use crate::error::{Error, Result};
use crate::net::{Net, PAD, Parts};
use crate::nets::{MemberSetup, Nets, OnCard};
use crate::population::Precision;
use crate::recurrent::{self, Backward, Carried, Forward, Gradients, Shape};
use std::sync::Arc;

/// Rows of sequences on a card. `P` members, `T` steps of `B` rows each.
#[derive(Clone, Copy)]
pub struct SequencesOnCard<'a> {
    /// `[P, T × B]` ids of the tables; none where no input reads one.
    pub ids: Option<&'a Array<u32>>,
    /// `[P, T × B, extras]` the numbers of dense inputs, in the net's order; none where there is none.
    pub extras: Option<&'a Array<f32>>,
    /// What rows begin with, [`SequencePass::state`] numbers.
    pub begin: &'a Array<f32>,
    /// `[T, P, B]` not 0 where a row begins anew: its state is cleared before that step, and no gradient passes there.
    pub reset: Option<&'a Array<u8>>,
    /// What rows end with goes here; it may be what they began with.
    pub end: Option<&'a Array<f32>>,
}

/// h or c of one LSTM layer in the states of all rows: `[P, B, units]`, `before × P × B` numbers behind the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Numbers of a row's state that lie in front of it.
    pub before: usize,
    /// Its numbers of a row, padding included.
    pub units: usize,
    /// Where these are in a row of states as a processor has it.
    pub column: usize,
}

/// Passes of so many rows and steps through nets whose LSTM layers carry a state.
pub struct SequencePass {
    parts: Parts,
    towers: Vec<Option<Tower>>,
    inputs: Vec<GivenInput>,
    kernels: Kernels,
    x: Array<f32>,     // [T, P, B, features] all inputs side by side
    below: Array<f32>, // [P, T × B, widths] what the plain net reads
    /// Where towers fork from the stream of a call.
    begun: Event,
    members: usize,
    rows: usize,
    steps: usize,
    params: usize,
}

/// The LSTM layers of one tower.
struct Tower {
    stack: Stack,
    shape: recurrent::Stack,
    every: Array<f32>, // [T, P, B, units] every h of the top layer, then the gradients there
    /// Where its state begins in that of all.
    state: usize,
    /// Where its weights begin in a member's row.
    weights: usize,
    side: Stream,
    done: Event,
}

/// Where one input of the whole net comes from.
struct GivenInput {
    table: Option<(Array<f32>, Option<Array<u32>>)>,
    scale: Option<(Array<f32>, Array<f32>)>, // [P, features] mean and inverse
    stride: usize,
    features: usize,
    /// Of its first number among all inputs, and among dense ones.
    column: usize,
    extra: usize,
}

struct Kernels {
    feed: Kernel<Feed>,
    read_h: Kernel<ReadHidden>,
    give_h: Kernel<GiveHidden>,
}

/// The LSTM layers of each tower that has some.
fn shapes(
    parts: &Parts,
    precision: Precision,
    sizes: [usize; 3],
    learns: bool,
) -> Result<Vec<Option<recurrent::Stack>>> {
    let [members, rows, window] = sizes;
    let shape = |hidden: &Vec<usize>| {
        let shape = Shape {
            members,
            rows,
            window,
            features: 0,
            extras: parts.features,
            hidden: hidden.clone(),
            precision,
            gradients: if learns { Gradients::Weights } else { Gradients::None },
        };
        (!hidden.is_empty()).then(|| recurrent::Stack::new(shape)).transpose()
    };
    parts.hidden.iter().map(shape).collect()
}

/// Bytes of a pass beside its stacks.
fn own_bytes(net: &Net, parts: &Parts, shapes: &[Option<recurrent::Stack>], sizes: [usize; 3]) -> u64 {
    let rows: usize = sizes.iter().product();
    let every = shapes.iter().flatten().map(|shape| aligned::<f32>(rows * shape.outputs())).sum::<u64>();
    let scales = net.inputs.iter().map(|input| 2 * aligned::<f32>(sizes[0] * input.features)).sum::<u64>();
    aligned::<f32>(rows * parts.features) + aligned::<f32>(rows * parts.rest.extras()) + every + scales
}

impl SequencePass {
    /// Bytes of a card's memory that passes of `rows` rows and `steps` steps take beside nets of so many members.
    ///
    /// # Errors
    ///
    /// Where the net carries no state.
    pub fn need(
        context: &Context,
        net: &Net,
        precision: Precision,
        [members, rows, steps]: [usize; 3],
        learns: bool,
    ) -> Result<u64> {
        let parts = parts_of(net)?;
        let shapes = shapes(&parts, precision, [members, rows, steps], learns)?;
        let stacks = shapes.iter().flatten().map(|shape| Stack::need(context, shape)).sum::<Result<u64>>()?;
        Ok(stacks + own_bytes(net, &parts, &shapes, [members, rows, steps]))
    }

    /// Memory and kernels for `rows` rows and `steps` steps of every member. Nets with an optimiser have a way back
    /// where they were set up for `rows × steps` rows.
    ///
    /// # Errors
    ///
    /// Where the nets carry no state, are not on a card, or the memory is not enough.
    pub fn new(nets: &mut Nets, budget: Budget, rows: usize, steps: usize) -> Result<SequencePass> {
        let (net, setup, member_setups) = nets.described();
        let (net, members) = (net.clone(), member_setups.to_vec());
        let (precision, learns, most) = (setup.precision, setup.rule.is_some(), setup.rows);
        if learns && most != rows * steps {
            return Err(Error::Invalid(format!(
                "sequences of {steps} steps of {rows} rows through nets that were set up for {most} rows; set them up \
                 for {}",
                rows * steps
            )));
        }
        let (parts, params) = (parts_of(&net)?, nets.layout().params);
        let sizes = [members.len(), rows, steps];
        let shapes = shapes(&parts, precision, sizes, learns)?;
        let card = nets.card()?;
        let (context, tables) = (card.context().clone(), card.tables().clone());
        let mut slab = context.slab(own_bytes(&net, &parts, &shapes, sizes))?;
        let (mut towers, mut state) = (Vec::new(), 0);
        for (t, shape) in shapes.into_iter().enumerate() {
            let Some(shape) = shape else {
                towers.push(None);
                continue;
            };
            let every = slab.array(sizes.iter().product::<usize>() * shape.outputs())?;
            let stack = Stack::new(&context, budget, &shape)?;
            let own = 2 * shape.state();
            let (side, done) = (Stream::new(&context)?, Event::new(&context, false)?);
            towers.push(Some(Tower { stack, shape, every, state, weights: parts.starts[t], side, done }));
            state += own;
        }
        let stream = Stream::new(&context)?;
        let (mut inputs, mut column) = (Vec::new(), 0);
        for (i, input) in net.inputs.iter().enumerate() {
            let table = net.table_of(i).map(|t| Ok::<_, Error>((tables.array(t)?, tables.stride(t)))).transpose()?;
            let stride = table.as_ref().map_or(0, |(_, stride)| *stride);
            inputs.push(GivenInput {
                table: table.map(|(table, _)| table),
                scale: scale(&mut slab, &stream, &members, i, input.features)?,
                stride,
                features: input.features,
                column,
                extra: if input.dense { net.extra_of(i) } else { 0 },
            });
            column += input.features;
        }
        let module = Module::load(&context, &kernels::SEQUENCE)?;
        let kernels = Kernels {
            feed: module.kernel("feed")?,
            read_h: module.kernel("read_h")?,
            give_h: module.kernel("give_h")?,
        };
        let all: usize = sizes.iter().product();
        let (x, below) = (slab.array(all * parts.features)?, slab.array(all * parts.rest.extras())?);
        stream.wait()?;
        let (begun, members) = (Event::new(&context, false)?, members.len());
        Ok(SequencePass { parts, towers, inputs, kernels, x, below, begun, members, rows, steps, params })
    }

    /// Numbers of the states of all rows of all members.
    pub fn state(&self) -> usize {
        self.towers.iter().flatten().map(|tower| 2 * tower.shape.state()).sum()
    }

    /// How these lie.
    pub fn segments(&self) -> Vec<Segment> {
        let (mut segments, mut column, all) = (Vec::new(), 0, self.members * self.rows);
        for tower in self.towers.iter().flatten() {
            let units: usize = tower.shape.layers().iter().map(|layer| layer.units).sum();
            for (of_c, kind) in [(0, 0), (1, units)] {
                let (mut before, mut own) = (tower.state / all + kind, column);
                for layer in tower.shape.layers() {
                    segments.push(Segment { before, units: layer.units, column: own + of_c * layer.units });
                    (before, own) = (before + layer.units, own + 2 * layer.units);
                }
            }
            column += 2 * units;
        }
        segments
    }

    /// How the LSTM layers are done, for people.
    pub fn kernel_paths(&self) -> Vec<String> {
        self.towers.iter().flatten().flat_map(|tower| tower.stack.kernel_paths()).collect()
    }

    /// Reads the LSTM weights of all members; to be called after every change of theirs.
    ///
    /// # Errors
    ///
    /// Where the nets are not on this card.
    pub fn take_on(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        let weights = nets.params_on_card()?;
        for tower in self.towers.iter_mut().flatten() {
            graph::hold(stream, [tower.stack.memory(), weights.memory()])?;
            let own = weights.slice();
            tower.stack.take(stream, &own.part(tower.weights, own.len() - tower.weights), self.params)?;
        }
        Ok(())
    }

    /// All steps of all rows: outputs `[heads]` `[P, T × B, outputs]`.
    ///
    /// # Errors
    ///
    /// Where lengths do not fit, or no weights were taken.
    pub fn forward_on(
        &mut self,
        stream: &Stream,
        nets: &mut Nets,
        given: SequencesOnCard<'_>,
        out: &[Array<f32>],
    ) -> Result<()> {
        let (n, state) = (self.members * self.rows * self.steps, self.state());
        for (what, found, wanted) in [
            ("numbers of states", given.begin.len(), state),
            ("numbers of states at the end", given.end.map_or(state, Array::len), state),
            ("resets", given.reset.map_or(n, Array::len), n),
        ] {
            if found != wanted {
                return Err(Error::Invalid(format!("{found} {what} of sequences; {wanted} are wanted")));
            }
        }
        for input in &self.inputs {
            let wide = self.inputs.iter().filter(|i| i.table.is_none()).map(|i| i.features).sum::<usize>();
            let feed = Feed {
                ids: input.table.as_ref().and(given.ids.cloned()),
                map: input.table.as_ref().and_then(|(_, map)| map.clone()),
                table: input.table.as_ref().map(|(table, _)| table.clone()),
                mean: input.scale.as_ref().map(|scale| scale.0.clone()),
                inverse: input.scale.as_ref().map(|scale| scale.1.clone()),
                extras: given.extras.cloned(),
                to: self.x.clone(),
                stride: input.stride,
                features: input.features,
                column: input.column,
                width: self.parts.features,
                extras_width: wide,
                extras_column: input.extra,
                steps: self.steps,
                batch: self.rows,
            };
            self.kernels.feed.launch(stream, self.grid(input.features), &feed)?;
        }
        let memory: Vec<&Arc<Memory>> = [given.begin.memory(), self.x.memory()]
            .into_iter()
            .chain(given.end.map(Array::memory))
            .chain(given.reset.map(Array::memory))
            .chain(self.towers.iter().flatten().map(|tower| tower.stack.memory()))
            .collect();
        graph::hold(stream, memory)?;
        self.begun.record(stream)?;
        for tower in self.towers.iter_mut().flatten() {
            let own = tower.shape.state();
            let carried = |states: &Array<f32>| {
                let (h, c) = (states.slice().part(tower.state, own), states.slice().part(tower.state + own, own));
                Carried { h, c }
            };
            let call = Forward {
                extras: Some(self.x.slice()),
                begin: Some(carried(given.begin)),
                reset: given.reset.map(Array::slice),
                every: Some(tower.every.slice()),
                end: given.end.map(carried),
                ..Forward::of(Slice::none(0), 1, Slice::none(0))
            };
            // Towers go side by side: a step of one leaves most of the card idle.
            tower.side.after(&self.begun)?;
            tower.stack.forward(&tower.side, &call)?;
            tower.done.record(&tower.side)?;
        }
        self.towers.iter().flatten().try_for_each(|tower| stream.after(&tower.done))?;
        let mut column = 0;
        for (t, tower) in self.towers.iter().enumerate() {
            let (from, width) = match tower {
                Some(tower) => (tower.every.clone(), tower.shape.outputs()),
                None => (self.x.clone(), self.parts.features),
            };
            debug_assert_eq!(width, self.parts.rest.inputs[t].features);
            let read = ReadHidden {
                from,
                to: self.below.clone(),
                width,
                to_width: self.parts.rest.extras(),
                column,
                steps: self.steps,
                batch: self.rows,
            };
            self.kernels.read_h.launch(stream, self.grid(width), &read)?;
            column += width;
        }
        let rows = OnCard { rows: self.rows * self.steps, ids: given.ids, extras: Some(&self.below) };
        nets.card()?.forward_on(stream, rows, false, out)
    }

    /// The gradient of all members from that at the outputs of the last pass, `[heads]` `[P, T × B, outputs]`.
    ///
    /// # Errors
    ///
    /// Where no pass came before it, or these nets have no optimiser.
    pub fn backward_on(&mut self, stream: &Stream, nets: &mut Nets, d_out: &[Array<f32>]) -> Result<()> {
        let card = nets.card()?;
        card.backward_on(stream, d_out)?;
        let ((at_inputs, stride), gradient) = (card.input_gradient(), card.gradient());
        self.begun.record(stream)?;
        let mut column = 0;
        let grids: Vec<Grid> = self.parts.rest.inputs.iter().map(|input| self.grid(input.features)).collect();
        for (t, input) in self.parts.rest.inputs.iter().enumerate() {
            if let Some(tower) = &mut self.towers[t] {
                let give = GiveHidden {
                    from: at_inputs.clone(),
                    to: tower.every.clone(),
                    stride,
                    column,
                    width: input.features,
                    steps: self.steps,
                    batch: self.rows,
                };
                tower.side.after(&self.begun)?;
                self.kernels.give_h.launch(&tower.side, grids[t], &give)?;
                let call = Backward {
                    every: Some(tower.every.slice()),
                    last: None,
                    members: None,
                    gradient: gradient.part(tower.weights, gradient.len() - tower.weights),
                    stride: self.params,
                    add: false,
                    begin: None,
                };
                graph::hold(stream, [tower.stack.memory(), at_inputs.memory()])?;
                tower.stack.backward(&tower.side, &call)?;
                tower.done.record(&tower.side)?;
            }
            column += input.features.next_multiple_of(PAD);
        }
        self.towers.iter().flatten().try_for_each(|tower| stream.after(&tower.done))
    }

    /// Threads for so many columns of all rows.
    fn grid(&self, columns: usize) -> Grid {
        let blocks = (self.rows * self.steps * columns).div_ceil(256);
        let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Grid { blocks: [word(blocks), word(self.members), 1], threads: [256, 1, 1], shared: 0 }
    }
}

fn parts_of(net: &Net) -> Result<Parts> {
    match net.has_memory() {
        true => Parts::of(net),
        false => Err(Error::Invalid(format!("`{net}` carries no state from row to row; go through it as a whole"))),
    }
}

/// `[P, features]` what an input's numbers are scaled by, where a member scales it.
fn scale(
    slab: &mut Slab,
    stream: &Stream,
    members: &[MemberSetup],
    input: usize,
    features: usize,
) -> Result<Option<(Array<f32>, Array<f32>)>> {
    let of = |member: &'_ MemberSetup| member.scales.get(input).cloned().flatten();
    if members.iter().all(|member| of(member).is_none()) {
        return Ok(None);
    }
    let (mut mean, mut inverse) = (Vec::new(), Vec::new());
    for member in members {
        let own = of(member);
        mean.extend(own.as_ref().map_or(vec![0.0; features], |scale| scale.mean.clone()));
        inverse.extend(own.map_or(vec![1.0; features], |scale| scale.inverse));
    }
    let made: (Array<f32>, Array<f32>) = (slab.array(mean.len())?, slab.array(inverse.len())?);
    made.0.put(stream, &mean)?;
    made.1.put(stream, &inverse)?;
    Ok(Some(made))
}

arguments! {
    struct Feed in "../../../ops/sequence.cu" {
        ids: Option<Array<u32>>,
        map: Option<Array<u32>>,
        table: Option<Array<f32>>,
        mean: Option<Array<f32>>,
        inverse: Option<Array<f32>>,
        extras: Option<Array<f32>>,
        to: Array<f32>,
        stride: usize as u32,
        features: usize as u32,
        column: usize as u32,
        width: usize as u32,
        extras_width: usize as u32,
        extras_column: usize as u32,
        steps: usize as u32,
        batch: usize as u32,
    }
}

arguments! {
    struct ReadHidden in "../../../ops/sequence.cu" {
        from: Array<f32>,
        to: Array<f32>,
        width: usize as u32,
        to_width: usize as u32,
        column: usize as u32,
        steps: usize as u32,
        batch: usize as u32,
    }
}

arguments! {
    struct GiveHidden in "../../../ops/sequence.cu" {
        from: Array<f32>,
        to: Array<f32>,
        stride: usize as u32,
        column: usize as u32,
        width: usize as u32,
        steps: usize as u32,
        batch: usize as u32,
    }
}
