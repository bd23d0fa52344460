//! Low-rank OpenAI-ES ("Evolution Strategies at the Hyperscale", Sarkar et al. 2025,
//! <https://arxiv.org/abs/2511.16652>): [`super::OpenAi`] whose perturbation of a matrix is a product of two thin ones.
//!
//! Of a layer with weights `W` `[inputs, outputs]` and biases `c`, an individual on side `s` of a draw has
//! `W + s σ A Bᵀ / √r` and `c + s σ z`, with `A` `[inputs, r]`, `B` `[outputs, r]` and `z` standard normals. So a draw
//! is `(inputs + outputs) · r + outputs` numbers of a layer instead of `(inputs + 1) · outputs`. And a row times such
//! weights is `x W`, which the rows of all individuals have in common, plus `(x A) Bᵀ`, which costs next to nothing: no
//! individual's weights are ever made. The sum over draws, `Σ weight · A Bᵀ`, goes through the factors too.
//!
//! **Numbers of a draw** lie layer by layer: `A` as `[r, inputs]`, `B` as `[r, outputs]`, then the normals of the
//! biases, without padding. They follow from counters as those of any search do, with `d` the numbers of a draw.
//! **Sums over draws** are those of any search: slices of 64 draws from 0 by fma in order (of a draw, factor by factor:
//! `fma(weight · a, b, sum)`), then slices in order.
//!
//! [`Strategy::ask`] makes whole individuals: it is what the fast pass (`low_rank_simd`) is held to.

use super::fused_simd::add_weighted;
use super::openai::OpenAi;
use super::stack::{LANES, Line};
use super::strategy::{Normals, SLICE, State, Strategy};
use compute::population::Optimiser;
use rayon::prelude::*;

/// A normal distribution of one deviation over factors of the weights, whose middle moves by Adam.
#[derive(Debug, Clone)]
pub struct LowRank {
    factors: Factors,
    whole: OpenAi,
}

impl LowRank {
    /// Around a middle, whose layers are `[inputs, outputs]` and lie behind each other as [`super`] says; of the
    /// optimiser the memories, what is added to the root, and the decay are used.
    ///
    /// # Panics
    ///
    /// Panics where the layers are not those of the middle, or where there is no rank.
    pub fn new(mean: Vec<f32>, layers: &[[usize; 2]], rank: usize, sigma: f32, optimiser: Optimiser) -> LowRank {
        let factors = Factors::new(layers, rank);
        assert_eq!(factors.parameters, mean.len(), "the layers of the middle");
        LowRank { factors, whole: OpenAi::new(mean, sigma, optimiser) }
    }
}

impl Strategy for LowRank {
    fn mean(&self) -> &[f32] {
        self.whole.mean()
    }

    fn sides(&self) -> usize {
        self.whole.sides()
    }

    fn numbers(&self) -> usize {
        self.factors.numbers
    }

    fn factors(&self) -> Option<(&Factors, f32)> {
        Some((&self.factors, self.whole.sigma))
    }

    fn ask(&self, side: f32, from: usize, z: &[f32], x: &mut [f32]) {
        assert!(from == 0 && x.len() == self.mean().len(), "factors make whole individuals");
        self.factors.perturbation(z, x);
        let by = side * self.whole.sigma;
        x.iter_mut().zip(self.mean()).for_each(|(x, mean)| *x = by.mul_add(*x, *mean));
    }

    fn tell(&mut self, fitness: &[f64], normals: &dyn Normals, rate: f32) {
        self.whole.climb(fitness, rate, |weights, sums| self.factors.weighted_sums(normals, weights, sums));
    }

    fn sigma(&self) -> f64 {
        self.whole.sigma()
    }

    fn moved(&self) -> f64 {
        self.whole.moved()
    }

    fn state(&self) -> State {
        self.whole.state()
    }

    fn restore(&mut self, state: &State) -> bool {
        self.whole.restore(state)
    }
}

/// How the numbers of a draw are factors of the layers' perturbations.
#[derive(Debug, Clone)]
pub struct Factors {
    pub(super) rank: usize,
    pub(super) layers: Vec<LayerFactors>,
    parameters: usize,
    /// Of a draw.
    numbers: usize,
    /// Lines of a draw as it is laid, and of the shared weights.
    pub(super) lines: usize,
    pub(super) base_lines: usize,
}

/// Where the factors of a layer lie: among the numbers of a draw, and in whole lines once they are laid.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerFactors {
    inputs: usize,
    outputs: usize,
    /// Its first parameter.
    first: usize,
    /// `A`, `B` and the biases.
    numbers: [usize; 3],
    pub(super) lines: [usize; 3],
    /// The first line of the shared weights.
    pub(super) base: usize,
}

/// Outputs that are summed up at once.
const CHUNK: usize = 256;

impl Factors {
    pub(super) fn new(layers: &[[usize; 2]], rank: usize) -> Factors {
        assert!(rank > 0, "a rank");
        let mut all = Factors { rank, layers: Vec::new(), parameters: 0, numbers: 0, lines: 0, base_lines: 0 };
        for [inputs, outputs] in layers {
            let (at, line) = (all.numbers, all.lines);
            let lines = [inputs, outputs].map(|wide| rank * wide.div_ceil(LANES));
            all.layers.push(LayerFactors {
                inputs: *inputs,
                outputs: *outputs,
                first: all.parameters,
                numbers: [at, at + rank * inputs, at + rank * (inputs + outputs)],
                lines: [line, line + lines[0], line + lines[0] + lines[1]],
                base: all.base_lines,
            });
            all.parameters += (inputs + 1) * outputs;
            all.numbers += rank * (inputs + outputs) + outputs;
            all.base_lines += (inputs + 1) * outputs.div_ceil(LANES);
            all.lines += lines[0] + lines[1] + outputs.div_ceil(LANES);
        }
        all
    }

    /// Numbers of a draw of such layers.
    pub(super) fn count(layers: &[[usize; 2]], rank: usize) -> usize {
        layers.iter().map(|[inputs, outputs]| rank * (inputs + outputs) + outputs).sum()
    }

    /// What the product of the thin matrices is multiplied with, so that its numbers have deviation 1.
    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.rank as f32).sqrt()
    }

    /// The whole perturbation of a draw.
    fn perturbation(&self, z: &[f32], e: &mut [f32]) {
        let scale = self.scale();
        for layer in &self.layers {
            let LayerFactors { inputs, outputs, first, numbers: [a, b, bias], .. } = *layer;
            for input in 0..inputs {
                for output in 0..outputs {
                    let factor =
                        |sum: f32, k: usize| z[a + k * inputs + input].mul_add(z[b + k * outputs + output], sum);
                    e[first + input * outputs + output] = scale * (0..self.rank).fold(0.0, factor);
                }
            }
            e[first + inputs * outputs..][..outputs].copy_from_slice(&z[bias..bias + outputs]);
        }
    }

    /// Lays the weights of the middle into lines, whose padding is zero and stays so: of each layer a row of outputs
    /// for each input, and one for the biases.
    pub(super) fn lay_base(&self, mean: &[f32], lines: &mut [Line]) {
        for LayerFactors { inputs, outputs, first, base, .. } in &self.layers {
            let (own, wide) = (&mean[*first..][..(inputs + 1) * outputs], outputs.div_ceil(LANES));
            let rows = lines[*base..][..(inputs + 1) * wide].chunks_exact_mut(wide);
            for (own, row) in own.chunks_exact(*outputs).zip(rows) {
                own.chunks(LANES).zip(row).for_each(|(own, line)| line.0[..own.len()].copy_from_slice(own));
            }
        }
    }

    /// Lays a draw into lines, whose padding is zero and stays so: of each layer `A` as `[r]` rows of inputs, `B` as
    /// `[r]` rows of outputs, and a row of the biases.
    pub(super) fn lay(&self, z: &[f32], lines: &mut [Line]) {
        let mut row = |from: &[f32], at: usize| {
            let own = lines[at..].iter_mut();
            from.chunks(LANES).zip(own).for_each(|(from, line)| line.0[..from.len()].copy_from_slice(from));
        };
        for layer in &self.layers {
            let LayerFactors { inputs, outputs, numbers: [a, b, bias], lines: [la, lb, lbias], .. } = *layer;
            for k in 0..self.rank {
                row(&z[a + k * inputs..][..inputs], la + k * inputs.div_ceil(LANES));
                row(&z[b + k * outputs..][..outputs], lb + k * outputs.div_ceil(LANES));
            }
            row(&z[bias..bias + outputs], lbias);
        }
    }

    /// For each parameter the sum over draws of its weight times its perturbation. The factors of a slice of draws are
    /// kept while threads divide rows of weights, so they change no bit.
    fn weighted_sums(&self, normals: &dyn Normals, weights: &[f32], sums: &mut [f32]) {
        let (numbers, scale) = (self.numbers, self.scale());
        sums.fill(0.0);
        let mut kept = vec![0.0f32; SLICE.min(weights.len()) * numbers];
        for (slice, weights) in weights.chunks(SLICE).enumerate() {
            let draws = kept.par_chunks_mut(numbers).zip(weights).enumerate();
            draws.filter(|(_, (_, weight))| **weight != 0.0).for_each(|(at, (z, _))| {
                normals.fill((slice * SLICE + at) as u32, 0, z);
            });
            let kept = &kept;
            for layer in &self.layers {
                let LayerFactors { inputs, outputs, first, numbers: [a, b, bias], .. } = *layer;
                let rows = sums[first..][..(inputs + 1) * outputs].par_chunks_mut(outputs).enumerate();
                rows.for_each(|(input, row)| {
                    let mut sum = [0.0f32; CHUNK];
                    for (chunk, row) in row.chunks_mut(CHUNK).enumerate() {
                        let (sum, from) = (&mut sum[..row.len()], chunk * CHUNK);
                        sum.fill(0.0);
                        for (z, weight) in kept.chunks_exact(numbers).zip(weights).filter(|(_, w)| **w != 0.0) {
                            if input == inputs {
                                add_weighted(*weight, &z[bias + from..][..sum.len()], sum);
                                continue;
                            }
                            for k in 0..self.rank {
                                let by = weight * z[a + k * inputs + input];
                                add_weighted(by, &z[b + k * outputs + from..][..sum.len()], sum);
                            }
                        }
                        let scale = if input == inputs { 1.0 } else { scale };
                        row.iter_mut().zip(sum).for_each(|(all, own)| *all = scale.mul_add(*own, *all));
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::low_rank_simd::{Base, forward};
    use super::super::stack::{Stack, ZEROS};
    use super::super::stack_simd;
    use super::super::strategy::{Counted, weighted_sums};
    use super::*;
    use compute::net::Layout;
    use compute::population::Precision;

    /// A search over a net, and the normals of a generation.
    fn search(text: &str, rank: usize) -> (Stack, LowRank, Counted) {
        let net: compute::Net = text.parse().unwrap();
        let stack = Stack::new(&net, Precision::F32).unwrap();
        let mean = stack.gather(&compute::net::init(&Layout::new(&net).unwrap(), 5, 1));
        let search = LowRank::new(mean, &stack.shapes(), rank, 0.3, Optimiser::default());
        let normals = Counted { seed: 3, member: 1, generation: 2, parameters: search.numbers() };
        (stack, search, normals)
    }

    const NETS: [&str; 4] = [
        "a:dense18 / 64t-64t / policy:3",
        "a:dense5 / 7-33t / policy:2",
        "a:dense40 / 100 / policy:3",
        "a:dense64 / 256t-256t / policy:3",
    ];

    /// A pass through the shared weights and the factors is one through weights that were made.
    #[test]
    fn factors_pass_as_whole_individuals_do() {
        let mut random = random::SplitMix::new(3);
        for (text, rank, rows, draws) in
            [(NETS[0], 1, 4, 3), (NETS[1], 3, 6, 2), (NETS[2], 2, 1, 1), (NETS[3], 1, 5, 2), (NETS[0], 16, 9, 1)]
        {
            let (stack, search, normals) = search(text, rank);
            let (factors, sigma) = search.factors().unwrap();
            let mut base = vec![ZEROS; factors.base_lines];
            factors.lay_base(search.mean(), &mut base);
            let mut z = vec![0.0; search.numbers()];
            let mut laid = vec![vec![ZEROS; factors.lines]; draws];
            for (draw, laid) in laid.iter_mut().enumerate() {
                normals.fill(draw as u32, 0, &mut z);
                factors.lay(&z, laid);
            }
            // What lies in the padding of inputs must not be read.
            let dirt = Line([f32::NAN; LANES]);
            let wide = stack.inputs().div_ceil(LANES);
            let given: Vec<f32> = (0..rows * stack.inputs()).map(|_| random.unit() as f32 * 4.0 - 2.0).collect();
            let fill = |values: &mut Vec<Line>| {
                for (own, to) in given.chunks_exact(stack.inputs()).zip(values.chunks_exact_mut(wide)) {
                    own.chunks(LANES).zip(to).for_each(|(own, line)| line.0[..own.len()].copy_from_slice(own));
                }
            };
            let mut values = vec![[vec![dirt; rows * stack.widest()], vec![dirt; rows * stack.widest()]]; 2 * draws];
            values.iter_mut().for_each(|values| fill(&mut values[0]));
            let last = forward(&stack, Base { weights: &base, factors, sigma }, &laid, &mut values, rows);
            for (individual, values) in values.iter().enumerate() {
                normals.fill(individual as u32 / 2, 0, &mut z);
                let mut x = vec![0.0; stack.parameters];
                search.ask([1.0, -1.0][individual % 2], 0, &z, &mut x);
                let mut weights = vec![ZEROS; stack.lines];
                stack.lay(&x, &mut weights);
                let mut whole = [[vec![ZEROS; rows * stack.widest()], vec![ZEROS; rows * stack.widest()]]];
                let inputs = stack_simd::floats(&mut whole[0][0]);
                for (row, own) in given.chunks_exact(stack.inputs()).enumerate() {
                    own.iter().enumerate().for_each(|(k, x)| inputs[k * rows + row] = *x);
                }
                let (weights, mut out) = ([weights], vec![0.0f32; stack.outputs() * rows]);
                let scratch = &mut stack_simd::Scratch::new();
                let mut pass = stack_simd::Pass {
                    weights: &weights,
                    shared: None,
                    values: &mut whole,
                    scratch,
                    tiles: None,
                    out: &mut out,
                    rows,
                };
                stack_simd::forward(&stack, &mut pass);
                let most = out.iter().fold(1.0f32, |a, b| a.max(b.abs()));
                let lines = stack.layers[stack.layers.len() - 1].lines;
                for (row, found) in values[last].chunks_exact(lines).take(rows).enumerate() {
                    for o in 0..stack.outputs() {
                        let (a, b) = (out[o * rows + row], found[o / LANES].0[o % LANES]);
                        assert!((a - b).abs() < 3e-5 * most, "{text}, rank {rank}: {a} and {b} of {most}");
                    }
                }
            }
        }
    }

    /// Sums through factors are sums of whole perturbations, and those of a matrix have deviation 1.
    #[test]
    fn factors_move_the_middle_as_whole_perturbations_do() {
        struct Whole<'a>(&'a LowRank, Counted);
        impl Normals for Whole<'_> {
            fn fill(&self, draw: u32, from: usize, out: &mut [f32]) {
                let (mut z, mut e) = (vec![0.0; self.0.numbers()], vec![0.0; self.0.mean().len()]);
                self.1.fill(draw, 0, &mut z);
                self.0.factors.perturbation(&z, &mut e);
                out.copy_from_slice(&e[from..from + out.len()]);
            }
        }
        for (text, rank) in [(NETS[0], 1), (NETS[1], 4), (NETS[2], 3)] {
            let (_, search, normals) = search(text, rank);
            let whole = Whole(&search, normals);
            // More draws than a slice has, and one that does not count.
            let weights: Vec<f32> = (0..100).map(|i| if i == 7 { 0.0 } else { (i as f32 * 0.37).sin() }).collect();
            let [mut wanted, mut found] = [vec![0.0; search.mean().len()], vec![0.0; search.mean().len()]];
            weighted_sums(&whole, &weights, &mut wanted, None);
            search.factors.weighted_sums(&normals, &weights, &mut found);
            for (at, (a, b)) in wanted.iter().zip(&found).enumerate() {
                assert!((a - b).abs() < 1e-4, "{text}, rank {rank}, parameter {at}: {a} and {b}");
            }
            let mut e = vec![0.0; search.mean().len()];
            let squares: f64 = (0..400)
                .map(|draw| {
                    whole.fill(draw, 0, &mut e);
                    e.iter().map(|x| f64::from(x * x)).sum::<f64>() / e.len() as f64
                })
                .sum();
            assert!((squares / 400.0 - 1.0).abs() < 0.1, "{text}, rank {rank}: a variance of {}", squares / 400.0);
        }
    }
}
