//! Recurrent layers as whole windows in one kernel a pass, in bf16 on tensor cores. The kernels are in `ops/lstm.cu`.
//!
//! Which kernels serve, and how many rows a block has, follows from net, batch and the card's shared memory: never from
//! the number of members, so that a member's bits do not depend on the others.

pub(super) mod stack;

use super::{Engine, Mode};
use crate::arguments;
use crate::cuda::arguments::Address;
use crate::cuda::calls::Sums;
use crate::cuda::context::Context;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Kernel, Module};
use crate::error::Result;
use crate::net::{Layout, Recurrent};
use crate::population::{EpochState, Precision, Recipe, SlotState};
use std::sync::Arc;

/// Shared memory of the smallest cards that are supported: 99 KiB.
#[cfg(test)]
const DESKTOP: u32 = 99 << 10;

/// The kernel a layer runs in: 16 × `inputs` inputs, 16 × `units` units, 8 × `tiles` rows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    inputs: usize,
    units: usize,
    tiles: usize,
}

impl Shape {
    fn new(recurrent: &Recurrent, tiles: usize) -> Shape {
        // Kernels are made for 16, 32 and 64; what is between runs in the next larger one, on zeros.
        let made = |n: usize| n.div_ceil(16).next_power_of_two();
        Shape { inputs: made(recurrent.wide), units: made(recurrent.units), tiles }
    }

    fn threads(self) -> usize {
        64 * self.units
    }

    /// Dynamic shared memory of the backward pass: three tiles, two of gate gradients, the weights.
    fn dynamic(self) -> u32 {
        let (f, h) = (16 * self.inputs, 16 * self.units);
        let row = if self.tiles == 4 { 40 } else { 24 };
        (2 * (3 * (f + h) * row + 2 * 4 * h * row + 4 * h * (f + h + 8))) as u32
    }

    /// All shared memory of the backward pass; the static part is exchanges between warps and the rows.
    fn shared(self) -> u32 {
        self.dynamic() + (2 * self.units * 2 * self.tiles * 32 * 4 + 8 * self.tiles * 5 + 64) as u32
    }

    fn blocks(self, batch: usize) -> usize {
        batch.div_ceil(8 * self.tiles)
    }
}

/// Tiles of 8 rows that a block has, the same for all layers of a net, or nothing where the net does not fit these
/// kernels.
pub(super) fn tiles(layout: &Layout, recipe: &Recipe, shared: u32) -> Option<usize> {
    let small = layout.recurrents.iter().all(|r| r.wide <= 64 && r.units <= 64);
    if layout.recurrents.is_empty() || !small || recipe.precision != Precision::Bf16 {
        return None;
    }
    // With many inputs the registers hold two tiles only. Otherwise four; three where that leaves no multiprocessor of
    // a large card idle.
    let most = if layout.recurrents.iter().any(|r| r.wide > 32) {
        2
    } else if (2113..=3168).contains(&recipe.batch) {
        3
    } else {
        4
    };
    (2..=most).rev().find(|tiles| layout.recurrents.iter().all(|r| Shape::new(r, *tiles).shared() <= shared))
}

/// What the layers keep between the passes.
pub(super) struct Arrays {
    saved: Vec<Slice<u32>>,   // [recurrents] [P, blocks, T, 2 (h, c), tiles, threads]
    back: Vec<Slice<u32>>,    // [recurrents] [P, blocks, T, tiles, threads] gradients from the layer above
    partial: Vec<Slice<f32>>, // [recurrents] [P, blocks, size]
}

/// Cuts them.
pub(super) fn arrays(
    cut: &mut super::setup::Cutter<'_>,
    layout: &Layout,
    batch: usize,
    members: usize,
    tiles: usize,
) -> Result<Arrays> {
    let shape = |r: &Recurrent| Shape::new(r, tiles);
    let words = |r: &Recurrent| members * shape(r).blocks(batch) * r.window * tiles * shape(r).threads();
    let each = layout.recurrents.iter();
    Ok(Arrays {
        saved: each.clone().map(|r| cut.cut(2 * words(r))).collect::<Result<_>>()?,
        back: each.clone().map(|r| cut.cut(if r.output.is_none() { words(r) } else { 0 })).collect::<Result<_>>()?,
        partial: each.map(|r| cut.cut(members * shape(r).blocks(batch) * r.size())).collect::<Result<_>>()?,
    })
}

/// One layer's kernels.
struct Layer {
    shape: Shape,
    forward: Kernel<Args>,
    backward: Kernel<Args>,
}

/// The kernels of a net's recurrent layers.
pub(super) struct Fused {
    layers: Vec<Layer>,
}

impl Fused {
    /// Loads them.
    pub(super) fn new(context: &Arc<Context>, layout: &Layout, tiles: usize) -> Result<Fused> {
        let module = Module::load(context, &kernels::LSTM)?;
        let layer = |r: &Recurrent| -> Result<Layer> {
            let shape = Shape::new(r, tiles);
            let end = format!("{}_{}_{tiles}", shape.inputs, shape.units);
            let forward = module.typed(&format!("lstm_forward_{end}"))?;
            let backward: Kernel<Args> = module.typed(&format!("lstm_backward_{end}"))?;
            backward.allow_shared(shape.dynamic())?;
            Ok(Layer { shape, forward, backward })
        };
        Ok(Fused { layers: layout.recurrents.iter().map(layer).collect::<Result<_>>()? })
    }

    /// How each layer is done, for people.
    pub(super) fn describe(&self, layout: &Layout) -> Vec<String> {
        let each = layout.recurrents.iter().zip(&self.layers);
        each.map(|(r, l)| format!("{}: whole window in one kernel, {} rows a block", r.name, 8 * l.shape.tiles))
            .collect()
    }
}

impl Engine {
    /// The recurrent layers of one input, from the table to the last h.
    pub(super) fn fused_forward(
        &self,
        fused: &Fused,
        input: usize,
        (first, slots): (usize, usize),
        mode: Mode,
        choose: bool,
    ) -> Result<()> {
        for i in self.recurrents_of(input) {
            let layer = &fused.layers[i];
            // The lowest layer of the first input decides which rows; all others follow.
            let choose = choose && input == 0 && self.layout.recurrents[i].below.is_none();
            let args = self.fused_args(fused, i, (first, slots), mode, choose, false);
            let grid = [layer.shape.blocks(self.recipe.batch), slots, 1];
            // SAFETY: the addresses are of this engine's slab, laid out for these shapes.
            unsafe { layer.forward.send(&self.main, grid, layer.shape.threads(), 0, &args)? };
        }
        Ok(())
    }

    /// Gradients of all recurrent layers, from the last h down.
    pub(super) fn fused_backward(&self, fused: &Fused, first: usize, slots: usize) -> Result<()> {
        let (batch, params) = (self.recipe.batch, self.layout.params);
        for (i, recurrent) in self.layout.recurrents.iter().enumerate().rev() {
            let layer = &fused.layers[i];
            let args = self.fused_args(fused, i, (first, slots), Mode::Step, false, true);
            let blocks = layer.shape.blocks(batch);
            let (threads, shared) = (2 * layer.shape.threads(), layer.shape.dynamic() as usize);
            // SAFETY: as above.
            unsafe { layer.backward.send(&self.main, [blocks, slots, 1], threads, shared, &args)? };
            let size = recurrent.size();
            let partial = self.fused_arrays().partial[i].part(first * blocks * size, slots * blocks * size);
            let sums = Sums { partial: partial.address(), blocks, width: size };
            let to = self.at.gradient.address() + 4 * (first * params + recurrent.weight) as u64;
            self.calls.sum_partials(&self.main, &self.at.states.part(first, slots), &sums, to, params)?;
        }
        Ok(())
    }

    /// The recurrent layers of an input, from below.
    pub(super) fn recurrents_of(&self, input: usize) -> impl Iterator<Item = usize> {
        let each = self.layout.recurrents.iter().enumerate();
        each.filter(move |(_, r)| r.input == input).map(|(i, _)| i).collect::<Vec<_>>().into_iter()
    }

    fn fused_arrays(&self) -> &Arrays {
        self.at.fused.as_ref().expect("laid out wherever these kernels are loaded")
    }

    /// What a layer's kernels take.
    fn fused_args(
        &self,
        fused: &Fused,
        i: usize,
        (first, slots): (usize, usize),
        mode: Mode,
        choose: bool,
        back: bool,
    ) -> Args {
        let (at, layout, batch) = (&self.at, &self.layout, self.recipe.batch);
        let (r, arrays) = (&layout.recurrents[i], self.fused_arrays());
        let words = |l: usize| {
            let shape = fused.layers[l].shape;
            shape.blocks(batch) * layout.recurrents[l].window * shape.tiles * shape.threads()
        };
        let saved = |l: usize| arrays.saved[l].address() + (4 * first * 2 * words(l)) as u64;
        let grads = |l: usize| arrays.back[l].address() + (4 * first * words(l)) as u64;
        let weights = at.shadow.as_ref().map_or(0, Slice::address) + 2 * (first * layout.params + r.weight) as u64;
        let stride = r.output.map_or(0, |place| layout.buffers[place.buffer].stride);
        let place = |buffers: &[Slice<u8>]| {
            r.output.map(|p| buffers[p.buffer].address() + 2 * (first * batch * stride + p.column) as u64)
        };
        // A layer above reads every h of this one, so it is kept in every pass then.
        let keep = mode == Mode::Step || r.output.is_none();
        let size = r.size() * fused.layers[i].shape.blocks(batch);
        // Windows begin with nothing and are never cleared here.
        Args {
            states: Some(self.states_of(first, slots)),
            epochs: self.epochs_of(first, slots),
            seed: self.recipe.seed,
            lists: Some(at.lists),
            rows: Some(at.rows.part(first * batch, slots * batch)),
            live: Some(at.live.part(first * batch, slots * batch)),
            table: Some(self.rows[r.input].table),
            stride: self.rows[r.input].stride,
            map: self.rows[r.input].map,
            mean: at.means[r.input],
            inverse: at.inverses[r.input],
            valid_list: Some(at.valid_at),
            valid_count: Some(at.valid_count),
            chunk: Some(at.chunk),
            below: r.below.map(saved),
            weights,
            master: self.in_params(first, r.weight).at,
            params: layout.params,
            saved: keep.then(|| saved(i)),
            out: place(&at.values),
            out_stride: stride,
            out_member: batch * stride,
            delta: place(&at.deltas).filter(|_| back),
            above: (back && r.output.is_none()).then(|| grads(i)),
            down: r.below.filter(|_| back).map(grads),
            partial: arrays.partial[i].address() + (4 * first * size) as u64,
            batch,
            mode,
            choose,
            features: r.features,
            window: r.window,
            wide: r.wide,
            units: r.units,
            out_width: r.output.map_or(0, |p| p.width),
            below_threads: r.below.map_or(0, |l| fused.layers[l].shape.threads()),
            ..Args::default()
        }
    }
}

arguments! {
    /// What both passes of `lstm.cu` take.
    #[derive(Default)]
    struct Args in "../../ops/lstm.cu" {
        states: Option<Slice<SlotState>>,
        epochs: Option<Slice<EpochState>>,
        seed: u64,
        lists: Option<Slice<u32>>,
        rows: Option<Slice<u32>>,
        live: Option<Slice<f32>>,
        table: Option<Slice<f32>>,
        stride: usize as u64,
        map: Option<Slice<u32>>,
        mean: Option<Slice<f32>>,
        inverse: Option<Slice<f32>>,
        valid_list: Option<Slice<u32>>,
        valid_count: Option<Slice<u32>>,
        chunk: Option<Slice<u32>>,
        below: Option<u64> as Address,
        weights: u64 as Address,
        master: u64 as Address,
        params: usize as u64,
        saved: Option<u64> as Address,
        out: Option<u64> as Address,
        out_stride: usize as u64,
        out_member: usize as u64,
        h0: Option<u64> as Address,
        c0: Option<u64> as Address,
        reset: Option<u64> as Address,
        h_end: Option<u64> as Address,
        c_end: Option<u64> as Address,
        delta: Option<u64> as Address,
        above: Option<u64> as Address,
        down: Option<u64> as Address,
        partial: u64 as Address,
        batch: usize as u32,
        mode: Mode as u32,
        choose: bool as u32,
        features: usize as u32,
        window: usize as u32,
        wide: usize as u32,
        units: usize as u32,
        out_width: usize as u32,
        below_threads: usize as u32,
        spare: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(batch: usize, precision: Precision) -> Recipe {
        Recipe::new(batch, precision, 1)
    }

    fn tiles_of(net: &str, batch: usize, shared: u32) -> Option<usize> {
        let layout = Layout::new(&net.parse().unwrap()).unwrap();
        tiles(&layout, &recipe(batch, Precision::Bf16), shared)
    }

    #[test]
    fn rows_of_a_block_follow_batch_inputs_and_shared_memory() {
        let large = 227 << 10;
        assert_eq!(tiles_of("16x50-lstm64-3", 3072, large), Some(3));
        assert_eq!(tiles_of("16x50-lstm64-3", 4096, large), Some(4));
        assert_eq!(tiles_of("16x50-lstm64-3", 512, large), Some(4));
        assert_eq!(tiles_of("16x50-lstm64-lstm64-3", 512, large), Some(2));
        assert_eq!(tiles_of("16x50-lstm96-3", 512, large), None);
        assert_eq!(tiles_of("80x50-lstm64-3", 512, large), None);
        assert_eq!(tiles_of("16-64-3", 512, large), None);
    }

    #[test]
    fn desktop_cards_have_a_kernel_for_every_net_but_the_widest() {
        for (inputs, hidden, expected) in [
            (16, 16, Some(4)),
            (16, 32, Some(4)),
            (16, 64, Some(3)),
            (32, 32, Some(4)),
            (32, 64, Some(3)),
            (64, 32, Some(2)),
            (64, 64, None),
        ] {
            assert_eq!(tiles_of(&format!("{inputs}x9-lstm{hidden}-3"), 512, DESKTOP), expected, "{inputs} {hidden}");
        }
    }

    #[test]
    fn whole_windows_are_for_bf16_alone() {
        let layout = Layout::new(&"16x50-lstm64-3".parse().unwrap()).unwrap();
        for precision in [Precision::F32, Precision::Tf32] {
            assert_eq!(tiles(&layout, &recipe(64, precision), 227 << 10), None);
        }
    }

    /// Launches the forward pass of the only layer with some of its arguments replaced.
    fn forward_with(engine: &Engine, window: usize, change: impl FnOnce(&mut Args)) -> Vec<u16> {
        let fused = engine.fused.as_ref().unwrap();
        let layer = &fused.layers[0];
        let mut args = engine.fused_args(fused, 0, (0, 1), Mode::Always, false, false);
        args.window = window;
        change(&mut args);
        let grid = [layer.shape.blocks(engine.recipe.batch), 1, 1];
        let threads = layer.shape.threads();
        // SAFETY: as in `fused_forward`; what is replaced are arrays of this batch.
        unsafe { layer.forward.send(&engine.main, grid, threads, 0, &args).unwrap() };
        let place = engine.layout.recurrents[0].output.unwrap();
        let bytes = engine.main.get(&engine.at.values[place.buffer]).unwrap();
        bytes.as_chunks().0.iter().map(|two| u16::from_ne_bytes(*two)).collect()
    }

    #[test]
    fn a_carried_state_gives_the_bits_of_the_window_and_a_reset_begins_anew() {
        use crate::population::Pins;
        use crate::population::make::Made;
        for context in crate::population::tests::cards() {
            let (batch, window) = (40, 6);
            let made = Made::new("16x6-lstm64-3", 200);
            let members = [made.member(0)];
            let recipe = recipe(batch, Precision::Bf16);
            let engine = made.engine(crate::cuda::KernelPath::Rule, &context, &recipe, &members, &Pins::default());
            let rows: Vec<u32> = (0..batch as u32).map(|i| 50 + 3 * i).collect();
            let ask = |back: u32| {
                let rows: Vec<u32> = rows.iter().map(|row| row - back).collect();
                engine.main.put(&engine.at.rows, &rows).unwrap();
            };
            ask(0);
            let whole = forward_with(&engine, window, |_| ());
            assert!(whole.iter().any(|h| *h != 0));

            let mut slab = context.slab(1 << 20).unwrap();
            let state: [Slice<f32>; 2] = [slab.cut(batch * 64).unwrap(), slab.cut(batch * 64).unwrap()];
            let mask: Slice<u8> = slab.cut(window * batch).unwrap();
            let [h, c] = state.map(|s| Some(s.address()));
            let mut last = Vec::new();
            for t in 0..window {
                ask((window - 1 - t) as u32);
                last = forward_with(&engine, 1, |args| {
                    (args.h_end, args.c_end) = (h, c);
                    if t > 0 {
                        (args.h0, args.c0) = (h, c);
                    }
                });
            }
            assert!(last == whole, "one step at a time");

            // Cleared before step 2, a window of 6 is one of 4.
            ask(0);
            let four = forward_with(&engine, 4, |_| ());
            let cleared: Vec<u8> = (0..window * batch).map(|i| u8::from(i / batch == 2)).collect();
            engine.main.put(&mask, &cleared).unwrap();
            let masked = forward_with(&engine, window, |args| args.reset = Some(mask.address()));
            assert!(masked == four, "a mask");
            assert!(four != whole);
        }
    }
}
