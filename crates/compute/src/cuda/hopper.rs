//! Gradients of activations on Hopper's own units (`ops/hopper.cu`): product, derivative and bias sums in one kernel.
//!
//! Taken by a fixed rule of shape and card, never by the clock: another way would mean other bits. A pin can ask for it
//! where it is possible.

use super::arguments::{Address, Packer};
use super::blaslt::Addresses;
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Arg, Function, Module};
use crate::arguments;
use crate::error::Result;
use crate::net::Activation;
use crate::population::SlotState;
use cudarc::driver::sys;
use std::sync::Arc;

/// What a stored choice of this way says.
pub(super) const PIN: &str = "hopper";

/// Rows and columns of a block's tile, columns of `dY` a stage holds, and stages; as in the kernel.
const ROWS: usize = 128;
/// Blocks that share what they fetch of the weights, where there is enough to do.
const PAIR: usize = 2;
const COLUMNS: usize = 256;
const DEPTH: usize = 32;
const STAGES: usize = 6;
/// Rows that are added up to one partial sum of the bias gradient: those of half a block.
const SUMMED: usize = 64;
/// Stages, a rounded tile, barriers.
const SHARED: usize = STAGES * (ROWS + COLUMNS) * DEPTH * 2 + ROWS * COLUMNS * 2 + 1024;

/// The kernels: for blocks alone and in pairs, with the same bits.
pub(super) struct Hopper {
    back: Function,
    back_pairs: Function,
    context: Arc<Context>,
}

/// The shape of a product back: `dX[batch, inputs] = dY[batch, outputs] W[outputs, inputs]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// From row to row of `dX` and of `y`, and of `dY`.
    pub(super) input_stride: usize,
    pub(super) output_stride: usize,
    /// From member to member of the weights.
    pub(super) params: usize,
}

/// A product of the slots from a first one on.
pub(super) struct Back {
    pub(super) shape: Shape,
    /// `dY`, weights and `dX`.
    pub(super) at: Addresses,
    /// The output of the layer before, whose derivative is applied.
    pub(super) y: u64,
    pub(super) derivative: Activation,
    pub(super) states: Slice<SlotState>,
    pub(super) mode: Mode,
    /// `[S, blocks, inputs]` column sums of what is written.
    pub(super) partial: Slice<f32>,
    /// How far the same layer of the other tower is, where both towers of one slot go at once.
    pub(super) twin: Option<Twin>,
}

/// Elements from a matrix of one tower to that of the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Twin {
    pub(super) dy: usize,
    pub(super) weights: usize,
    pub(super) dx: usize,
    pub(super) y: usize,
    pub(super) partial: usize,
}

arguments! {
    /// What the kernels take beside the tensors.
    struct Work in "../ops/hopper.cu" {
        states: Slice<SlotState>,
        y: u64 as Address,
        partial: Slice<f32>,
        stride: usize as u64,
        member: usize as u64,
        partial_member: usize as u64,
        batch: usize as u32,
        inputs: usize as u32,
        outputs: usize as u32,
        slots: usize as u32,
        mode: Mode as u32,
        act: Activation as u32,
        blocks: usize as u32,
        each: u32,
    }
}

/// Partial sums of a bias gradient.
pub(super) fn blocks(batch: usize) -> usize {
    batch.div_ceil(SUMMED)
}

impl Shape {
    /// Whether the kernel can do it on this card: copies want rows and members that begin on 16 bytes.
    pub(super) fn possible(&self, context: &Context, derivative: Activation) -> bool {
        let even = [self.inputs, self.outputs, self.input_stride, self.output_stride, self.params];
        let applied = matches!(derivative, Activation::Identity | Activation::Relu);
        let known = kernels::HOPPER.pick(context.gpu().capability).is_some() && can_describe_tensors();
        known && applied && even.iter().all(|n| n % 8 == 0 && *n > 0)
    }

    /// Whether it beats the library with a pass behind it, as measured on an H200: tiles for half of the processors do,
    /// for all of them where a tile is long work; narrower and shallower ones were not measured. Layers of so many
    /// towers go at once.
    pub(super) fn beats_library(&self, towers: usize) -> bool {
        let tiles = towers * self.tiles();
        self.inputs >= 128 && self.outputs >= 64 && tiles >= if self.outputs <= 512 { 64 } else { 128 }
    }

    /// Whether the card is full for long: blocks in pairs then win, and products one after another, as measured on an
    /// H200 (a step at batch 65536: 2.05 ms before, 2.02 in pairs, 2.00 also one after another). With a quarter of that
    /// work pairs gain nothing, at batch 4096 they lose.
    pub(super) fn fills_card(&self) -> bool {
        self.tiles() >= 2048
    }

    fn tiles(&self) -> usize {
        self.batch.div_ceil(ROWS) * self.inputs.div_ceil(COLUMNS)
    }
}

/// Whether the driver can describe tensors to the copy engine.
fn can_describe_tensors() -> bool {
    // SAFETY: only looks whether the symbol is there.
    unsafe { sys::culib().get::<*const std::ffi::c_void>(b"cuTensorMapEncodeTiled").is_ok() }
}

/// Rows of bf16: how long, how many, from row to row and from member to member.
struct Rows {
    at: u64,
    width: usize,
    rows: usize,
    stride: usize,
    member: usize,
}

impl Hopper {
    /// The kernel, where this card has the units for it.
    pub(super) fn load(context: &Arc<Context>) -> Result<Option<Hopper>> {
        if kernels::HOPPER.pick(context.gpu().capability).is_none() || !can_describe_tensors() {
            return Ok(None);
        }
        let module = Module::load(context, &kernels::HOPPER)?;
        let (back, back_pairs) = (module.function("back")?, module.function("back_pairs")?);
        for function in [&back, &back_pairs] {
            function.allow_shared(u32::try_from(SHARED).unwrap_or(u32::MAX))?;
        }
        Ok(Some(Hopper { back, back_pairs, context: context.clone() }))
    }

    /// Puts one product on a stream.
    pub(super) fn back(&self, stream: &Stream, b: &Back) -> Result<()> {
        self.back_by(stream, b, if b.shape.fills_card() { PAIR } else { 1 })
    }

    /// The same by blocks alone or in pairs.
    fn back_by(&self, stream: &Stream, b: &Back, pair: usize) -> Result<()> {
        let s = &b.shape;
        let n = |x: usize| u32::try_from(x).unwrap_or(u32::MAX);
        // From slot to slot, or from tower to tower.
        let apart = b.twin.unwrap_or(Twin {
            dy: s.batch * s.output_stride,
            weights: s.params,
            dx: s.batch * s.input_stride,
            y: s.batch * s.input_stride,
            partial: blocks(s.batch) * s.inputs,
        });
        let slots = if b.twin.is_some() { 2 } else { b.states.len() };
        let dy = Rows { at: b.at.left, width: s.outputs, rows: s.batch, stride: s.output_stride, member: apart.dy };
        let w = Rows { at: b.at.right, width: s.inputs, rows: s.outputs, stride: s.inputs, member: apart.weights };
        let dx = Rows { at: b.at.out, width: s.inputs, rows: s.batch, stride: s.input_stride, member: apart.dx };
        let maps =
            [self.map(&dy, slots, [DEPTH, ROWS])?, self.map(&w, slots, [64, DEPTH])?, self.map(&dx, slots, [64, 64])?];
        let work = Packer::pack(&Work {
            states: b.states,
            y: b.y,
            partial: b.partial,
            stride: s.input_stride,
            member: apart.y,
            partial_member: apart.partial,
            batch: s.batch,
            inputs: s.inputs,
            outputs: s.outputs,
            slots,
            mode: b.mode,
            act: b.derivative,
            blocks: blocks(s.batch),
            each: if b.twin.is_some() { 2 } else { 1 },
        });
        let args = [Arg::Bytes(&maps[0]), Arg::Bytes(&maps[1]), Arg::Bytes(&maps[2]), Arg::Bytes(work.bytes())];
        // Blocks stay and take tile after tile; which block does a tile changes no bit of it.
        let tiles = s.batch.div_ceil(ROWS * pair) * s.inputs.div_ceil(COLUMNS) * slots;
        let blocks = pair * tiles.min(self.context.gpu().multiprocessors as usize / pair).max(1);
        let (grid, block) = ([n(blocks), 1, 1], [384, 1, 1]);
        let back = if pair == PAIR { &self.back_pairs } else { &self.back };
        // SAFETY: the addresses are of the engine's slab, laid out for these shapes.
        unsafe { back.launch(stream, grid, block, n(SHARED), &args) }
    }

    /// Describes rows to the copy engine, which takes boxes of so many columns and rows at once and swizzles them by
    /// the columns' bytes.
    fn map(&self, rows: &Rows, slots: usize, [columns, lines]: [usize; 2]) -> Result<Vec<u8>> {
        let wide = |x: usize| x as u64;
        let dims = [wide(rows.width), wide(rows.rows), wide(slots)];
        let strides = [2 * wide(rows.stride), 2 * wide(rows.member)];
        let taken = [columns, lines, 1].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let swizzle = match columns {
            32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            _ => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        };
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: all arrays have three dimensions' worth of numbers; the driver checks them and touches no memory of
        // the card.
        let made = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                3,
                rows.at as *mut std::ffi::c_void,
                dims.as_ptr(),
                strides.as_ptr(),
                taken.as_ptr(),
                [1; 3].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        self.context.call("cuTensorMapEncodeTiled", made.result())?;
        Ok(map.opaque.iter().flat_map(|w| w.to_ne_bytes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::make::noise;
    use crate::population::tests::cards;

    #[test]
    fn blocks_in_pairs_make_the_same_bits() {
        for context in cards().iter().filter(|c| c.gpu().capability == (9, 0)) {
            let (stream, hopper) = (Stream::new(context).unwrap(), Hopper::load(context).unwrap().unwrap());
            for (batch, inputs, outputs) in
                [(5, 16, 8), (300, 264, 72), (1000, 520, 264), (130, 2048, 40), (3000, 1024, 96)]
            {
                // Three members, of which one sits out.
                let slots = 3;
                let mut slab = context.slab(1 << 28).unwrap();
                let mut random = |stream_of: u32, len: usize| {
                    let slice = slab.cut::<u16>(len).unwrap();
                    let bits = |i| (noise(stream_of, i).to_bits() >> 16) as u16;
                    stream.put(&slice, &(0..len).map(bits).collect::<Vec<u16>>()).unwrap();
                    slice
                };
                let dy = random(1, slots * batch * outputs);
                let weights = random(2, slots * outputs * inputs);
                let y = random(3, slots * batch * inputs);
                let dx = slab.cut::<u16>(slots * batch * inputs).unwrap();
                let partial = slab.cut::<f32>(slots * blocks(batch) * inputs).unwrap();
                let states = slab.cut::<SlotState>(slots).unwrap();
                let state = |slot| SlotState { active: u32::from(slot != 1), ..SlotState::default() };
                stream.put(&states, &(0..slots).map(state).collect::<Vec<SlotState>>()).unwrap();
                let at = |slice: &Slice<u16>| slice.address();
                let params = inputs * outputs;
                let back = Back {
                    shape: Shape { batch, inputs, outputs, input_stride: inputs, output_stride: outputs, params },
                    at: Addresses { left: at(&dy), right: at(&weights), out: at(&dx), bias: 0, accumulate: false },
                    y: at(&y),
                    derivative: Activation::Relu,
                    states,
                    mode: Mode::Step,
                    partial,
                    twin: None,
                };
                let made = [1, PAIR].map(|pair| {
                    stream.fill(&dx, 0x7f).unwrap();
                    stream.fill(&partial, 0x7f).unwrap();
                    hopper.back_by(&stream, &back, pair).unwrap();
                    stream.wait().unwrap();
                    let sums: Vec<u32> = stream.get(&partial).unwrap().into_iter().map(f32::to_bits).collect();
                    (stream.get(&dx).unwrap(), sums)
                });
                assert!(made[0] == made[1], "{batch} {inputs} {outputs}");
                let members: Vec<&[u16]> = made[1].0.chunks(batch * inputs).collect();
                assert!(members[1].iter().all(|x| *x == 0x7f7f), "it sat out");
                for member in [members[0], members[2]] {
                    assert!(
                        member.iter().all(|x| *x != 0x7f7f) && member.iter().any(|x| *x != 0),
                        "everything is written"
                    );
                }
            }
        }
    }

    #[test]
    fn only_the_largest_go_in_pairs() {
        let fills = |batch, inputs, outputs| {
            let params = inputs * outputs;
            Shape { batch, inputs, outputs, input_stride: inputs, output_stride: outputs, params }.fills_card()
        };
        assert!(fills(65536, 2048, 1024) && fills(65536, 1024, 512));
        assert!(!fills(16384, 2048, 1024) && !fills(4096, 2048, 1024) && !fills(65536, 256, 256));
    }

    #[test]
    fn hopper_is_used_only_where_it_was_measured_to_win() {
        let pays = |towers: usize, batch, inputs, outputs| {
            let params = inputs * outputs;
            Shape { batch, inputs, outputs, input_stride: inputs, output_stride: outputs, params }.beats_library(towers)
        };
        for (batch, inputs, outputs, expected) in [
            (65536, 2048, 1024, true),
            (65536, 1024, 512, true),
            (16384, 128, 128, true),
            (4096, 2048, 1024, true),
            (4096, 512, 256, true),
            (2048, 1024, 512, true),
            (1024, 2048, 1024, false),
            (1024, 1024, 512, false),
            (512, 256, 256, false),
            (65536, 64, 64, false),
            (65536, 256, 8, false),
        ] {
            assert_eq!(pays(1, batch, inputs, outputs), expected, "{batch} {inputs} {outputs}");
        }
        // Both towers at once have twice the tiles.
        assert!(pays(2, 1024, 2048, 1024) && pays(2, 1024, 1024, 512) && !pays(2, 512, 1024, 512));
    }
}
