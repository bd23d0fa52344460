//! What every way of searching has: a distribution that is asked for individuals and told how fit they were.
//!
//! A draw is a row of normals `z`. An individual lies at the middle of the distribution plus a side of a draw; ways
//! that mirror have two individuals of each draw, one on either side. Normals follow from their counters ([`Counted`]):
//! whoever needs them fills them again, or takes them from where the generation keeps them ([`Drawn`]).

use super::fused_simd::{add_weighted, add_weighted_squares};
use super::low_rank::Factors;
use compute::random::fill_perturbation;
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The normals of one generation.
pub trait Normals: Sync {
    /// Writes those of the parameters from `from` on, a multiple of 4.
    fn fill(&self, draw: u32, from: usize, out: &mut [f32]);
}

/// Normals by counter: element `draw × padded + number` of the sequence of seed, member and generation, where `padded`
/// are the numbers of a draw rounded up to a multiple of 4.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// The root of all randomness.
    pub seed: u64,
    /// Whose generation it is.
    pub member: u32,
    /// From 0.
    pub generation: u32,
    /// Numbers of a draw.
    pub parameters: usize,
}

impl Normals for Counted {
    fn fill(&self, draw: u32, from: usize, out: &mut [f32]) {
        debug_assert!(from.is_multiple_of(4), "whole blocks");
        let first = draw * self.parameters.div_ceil(4) as u32 + (from / 4) as u32;
        fill_perturbation(self.seed, self.member, self.generation, first, out);
    }
}

/// [`Counted`] normals of which those of a generation are kept once they are drawn, where there is room: they are
/// needed when an individual is made and again when the distribution is told.
pub(super) struct Drawn<'a> {
    pub(super) counted: Counted,
    /// `[draws]`; none where they would be too many.
    pub(super) kept: &'a [Mutex<KeptDraw>],
}

/// The normals of a draw, and the generation that they are of.
#[derive(Debug, Default)]
pub(super) struct KeptDraw {
    generation: Option<u32>,
    z: Vec<f32>,
}

/// Bytes of normals that are kept of a member, at most: more would not stay near a core.
const KEPT: usize = 16 << 20;

impl Drawn<'_> {
    /// Bytes that are kept of so many draws.
    pub(super) fn bytes(draws: usize, numbers: usize) -> usize {
        let all = 4 * draws * numbers;
        if all <= KEPT { all } else { 0 }
    }

    /// Room for what is kept.
    pub(super) fn room(draws: usize, numbers: usize) -> Vec<Mutex<KeptDraw>> {
        let count = if Drawn::bytes(draws, numbers) > 0 { draws } else { 0 };
        let draw = || Mutex::new(KeptDraw { generation: None, z: vec![0.0; numbers] });
        (0..count).map(|_| draw()).collect()
    }
}

impl Normals for Drawn<'_> {
    fn fill(&self, draw: u32, from: usize, out: &mut [f32]) {
        let Some(kept) = self.kept.get(draw as usize) else { return self.counted.fill(draw, from, out) };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.generation != Some(self.counted.generation) {
            self.counted.fill(draw, 0, &mut kept.z);
            kept.generation = Some(self.counted.generation);
        }
        out.copy_from_slice(&kept.z[from..from + out.len()]);
    }
}

/// A search distribution.
pub trait Strategy: Send + Sync {
    /// `[parameters]` its middle: what is validated and deployed.
    fn mean(&self) -> &[f32];

    /// Individuals of a draw: 2 where each draw is mirrored.
    fn sides(&self) -> usize;

    /// Normals of a draw: one for each parameter, unless individuals are made of [`Factors`].
    fn numbers(&self) -> usize {
        self.mean().len()
    }

    /// How draws are factors of what individuals differ by, and the deviation; none where they are all of it.
    fn factors(&self) -> Option<(&Factors, f32)> {
        None
    }

    /// Writes the parameters from `from` on of the individual on a side of a draw: 1 or -1.
    fn ask(&self, side: f32, from: usize, z: &[f32], x: &mut [f32]);

    /// Moves the distribution to where individuals were fitter; `fitness` is `[draws, sides]`, `rate` what this
    /// generation's learning rate is.
    fn tell(&mut self, fitness: &[f64], normals: &dyn Normals, rate: f32);

    /// Its deviation, in the mean over parameters.
    fn sigma(&self) -> f64;

    /// Length of the last move of the middle.
    fn moved(&self) -> f64;

    /// All that it is between two generations.
    fn state(&self) -> State;

    /// Puts it back; false where it is no state of such a distribution.
    #[must_use]
    fn restore(&mut self, state: &State) -> bool;
}

/// All that a distribution is between two generations; the first array is its middle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Counters and deviations.
    pub numbers: Vec<f64>,
    /// `[arrays][parameters]`
    pub arrays: Vec<Vec<f32>>,
}

/// Takes the arrays of a state, where they are as many and as long as these.
pub(super) fn restore_arrays(state: &State, own: &mut [&mut Vec<f32>]) -> bool {
    let fits = state.arrays.len() == own.len() && state.arrays.iter().zip(&*own).all(|(a, b)| a.len() == b.len());
    if fits {
        own.iter_mut().zip(&state.arrays).for_each(|(own, kept)| own.copy_from_slice(kept));
    }
    fits
}

/// Draws that are summed up before they are added to the sum of all: a card gives each to a block of its own.
pub(super) const SLICE: usize = 64;

/// Parameters that a thread sums up at once.
const CHUNK: usize = 256;

/// For each parameter `Σ weight · z`, and `Σ weight · z²` where it is asked for: slices of [`SLICE`] draws are summed
/// in order from 0 with one rounding for each draw, then their sums in order. Threads divide parameters, so they change
/// no bit.
pub(super) fn weighted_sums(normals: &dyn Normals, weights: &[f32], sums: &mut [f32], squares: Option<&mut [f32]>) {
    let parameters = sums.len();
    let mut none = Vec::new();
    let squared = squares.is_some();
    let squares = squares.unwrap_or_else(|| {
        none.resize(parameters, 0.0);
        &mut none
    });
    let chunks = sums.par_chunks_mut(CHUNK).zip(squares.par_chunks_mut(CHUNK)).enumerate();
    chunks.for_each(|(chunk, (sums, squares))| {
        let mut z = [0.0f32; CHUNK];
        let z = &mut z[..sums.len()];
        sums.fill(0.0);
        squares.fill(0.0);
        for (slice, weights) in weights.chunks(SLICE).enumerate() {
            let (mut sum, mut square) = ([0.0f32; CHUNK], [0.0f32; CHUNK]);
            for (at, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                normals.fill((slice * SLICE + at) as u32, chunk * CHUNK, z);
                add_weighted(*weight, z, &mut sum);
                if squared {
                    add_weighted_squares(*weight, z, &mut square);
                }
            }
            sums.iter_mut().zip(sum).for_each(|(all, own)| *all += own);
            squares.iter_mut().zip(square).for_each(|(all, own)| *all += own);
        }
    });
}

/// Length of a vector, summed in order.
pub(super) fn length(x: impl Iterator<Item = f32>) -> f64 {
    x.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}
