//! What passes on different instructions, of different company and in different precision have in common.

#![expect(unsafe_code, reason = "passes for narrower instructions, and lines as words")]

use super::bf16_simd;
use super::bf16_tanh_simd::of as tanh_of;
use super::lanes_simd::Plain;
use super::stack::tests::put_inputs;
use super::stack::{Dense, Line, Stack, ZEROS};
use super::stack_simd::{Pass, Scratch, Shared, forward, layers, words};
use super::wide_simd as wide;
use crate::ppo::card_tests::skip;
use compute::population::Precision;

const NETS: [&str; 6] = [
    "a:dense18 / 64t-64t / policy:3",
    "a:dense9 / 20-33t / policy:2",
    "a:dense40 / 100t / policy:5",
    "a:dense7 / 130t-64 / policy:3",
    "a:dense5 / policy:3",
    "row:3 + a:dense8 / 64t-16t-80t / policy:4",
];

/// Individuals of a net with weights and inputs of their own.
struct Crew {
    stack: Stack,
    rows: usize,
    weights: Vec<Vec<Line>>,
    values: Vec<[Vec<Line>; 2]>,
}

impl Crew {
    fn new(text: &str, precision: Precision, individuals: usize, rows: usize) -> Crew {
        let mut random = random::SplitMix::new(4);
        let stack = Stack::new(&text.parse().unwrap(), precision).unwrap();
        let mut weights = vec![vec![ZEROS; stack.lines]; individuals];
        for own in &mut weights {
            let x: Vec<f32> = (0..stack.parameters).map(|_| random.unit() as f32 - 0.5).collect();
            stack.lay(&x, own);
        }
        let memory = || vec![ZEROS; rows * stack.widest()];
        let mut values: Vec<[Vec<Line>; 2]> = (0..individuals).map(|_| [memory(), memory()]).collect();
        for own in &mut values {
            let given: Vec<f32> = (0..rows * stack.inputs()).map(|_| random.unit() as f32 * 4.0 - 2.0).collect();
            put_inputs(&stack, &given, &mut own[0]);
        }
        Crew { stack, rows, weights, values }
    }

    /// The outputs of some of them.
    fn run(&self, own: std::ops::Range<usize>, by: impl Fn(&Stack, &mut Pass<'_>)) -> Vec<f32> {
        let (mut values, mut out) = (self.values[own.clone()].to_vec(), vec![0.0; own.len() * self.each()]);
        let (weights, scratch) = (&self.weights[own], &mut Scratch::new());
        by(
            &self.stack,
            &mut Pass {
                weights,
                shared: None,
                values: &mut values,
                scratch,
                tiles: None,
                out: &mut out,
                rows: self.rows,
            },
        );
        out
    }

    /// Outputs of an individual.
    fn each(&self) -> usize {
        self.stack.outputs() * self.rows
    }
}

/// What a processor with wider instructions would not run gives the same within rounding: layers of one and several
/// lines, heads of few and many outputs, one individual and several.
#[test]
fn narrower_instructions_compute_the_same() {
    for text in NETS {
        for (individuals, rows) in [(1, 1), (2, 4), (1, 7), (3, 4), (4, 9)] {
            let crew = Crew::new(text, Precision::F32, individuals, rows);
            let plain = crew.run(0..individuals, layers::<Plain>);
            for level in 1..=wide::level() {
                let found = crew.run(0..individuals, |stack, pass| match level {
                    // SAFETY: the features were detected.
                    1 => unsafe { wide::forward_avx2(stack, pass) },
                    _ => unsafe { wide::forward_avx512(stack, pass) },
                });
                let close = found.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 2e-5);
                assert!(close, "{text}, {individuals} × {rows} rows: {found:?} and {plain:?}");
            }
        }
    }
}

/// Products in bf16 have the same bits with instructions for them and without.
#[test]
fn bf16_has_the_same_bits_everywhere() {
    for text in NETS {
        for (individuals, rows) in [(1, 1), (2, 4), (1, 7), (3, 4), (4, 9)] {
            let crew = Crew::new(text, Precision::Bf16, individuals, rows);
            let bits = |by: fn(&Stack, &mut Pass<'_>)| -> Vec<u32> {
                crew.run(0..individuals, by).into_iter().map(f32::to_bits).collect()
            };
            let (found, emulated) = (bits(bf16_simd::forward_in_pairs), bits(bf16_simd::forward_emulated));
            assert_eq!(found, emulated, "{text}, {individuals} × {rows} rows");
            assert!(crew.run(0..individuals, forward).iter().all(|x| x.is_finite()), "{text}");
        }
    }
}

/// Blocks in tile registers are products of pairs in their order: those of 32 inputs at once, the first and the second
/// of each pair apart, the bias last.
#[test]
fn tiles_add_products_in_their_order() {
    for (text, rows) in [
        (NETS[0], 4),
        (NETS[0], 8),
        ("a:dense47 / 128t-64t / policy:3", 20),
        ("row:3 + a:dense8 / 64t-16t / policy:4", 16),
    ] {
        let mut crew = Crew::new(text, Precision::Bf16, 3, rows);
        let (weights, scratch) = (crew.weights.clone(), &mut Scratch::new());
        let Some(tiles) = scratch.hold_tiles(&crew.stack, rows) else {
            return skip("no tile registers in this processor");
        };
        let stack = crew.stack.clone();
        let given: Vec<Vec<u32>> = crew.values.iter_mut().map(|own| words(&mut own[0]).to_vec()).collect();
        let mut out = vec![0.0; 3 * crew.each()];
        let (tiles, values) = (Some(&tiles), &mut crew.values);
        forward(&stack, &mut Pass { weights: &weights, shared: None, values, scratch, tiles, out: &mut out, rows });
        // Outputs of both first layers are there still.
        for (individual, own) in crew.values.iter_mut().enumerate() {
            let [second, first] = own;
            let layer = &stack.layers[0];
            let input = |row: usize, k: usize| given[individual][k * rows + row];
            check_layer(layer, &weights[individual], rows, input, words(first));
            let each = layer.lines.div_ceil(2) * 16;
            let input = |row: usize, k: usize| words(first)[row * each + k];
            check_layer(&stack.layers[1], &weights[individual], rows, input, words(second));
        }
    }
}

/// Holds rows of a layer, whole fours of rows and lines of it, to its definition.
fn check_layer(
    layer: &Dense,
    weights: &[Line],
    rows: usize,
    mut input: impl FnMut(usize, usize) -> u32,
    found: &[u32],
) {
    let half = |word: u32, second: bool| f32::from_bits(if second { word & 0xffff_0000 } else { word << 16 });
    let (own, each) = (&weights[layer.at..], layer.lines.div_ceil(2) * 16);
    for (row, output) in (0..rows).flat_map(|row| (0..layer.lines / 4 * 64).map(move |output| (row, output))) {
        let weight = |k: usize| own[k * layer.lines + output / 16].0[output % 16].to_bits();
        let mut sum = 0.0f32;
        for first in (0..layer.words).step_by(16) {
            let mut halves = [0.0f32; 2];
            for k in first..layer.words.min(first + 16) {
                let (x, w) = (input(row, k), weight(k));
                for (sum, second) in halves.iter_mut().zip([false, true]) {
                    *sum = half(x, second).mul_add(half(w, second), *sum);
                }
            }
            sum += halves[0] + halves[1];
        }
        let wanted = compute::bf16::round(tanh_of(sum + f32::from_bits(weight(layer.words)))).to_bits();
        let found = half(found[row * each + output / 2], output % 2 == 1).to_bits();
        assert_eq!(found, wanted, "row {row}, output {output}");
    }
}

/// Inputs that individuals share are read where they are, with the bits that they have where each individual has all.
#[test]
fn shared_inputs_change_no_bit() {
    for (text, precision) in NETS.into_iter().flat_map(|text| [(text, Precision::F32), (text, Precision::Bf16)]) {
        for (individuals, rows) in [(1, 4), (3, 4), (2, 8), (3, 5), (2, 1)] {
            let mut crew = Crew::new(text, precision, individuals, rows);
            let (count, first, apart) = (2, crew.stack.words() - 3, individuals * rows + 3);
            let mut own = vec![0; count * apart];
            let shared = words(&mut crew.values[0][0]).to_vec();
            for (individual, values) in crew.values.iter_mut().enumerate() {
                let all = words(&mut values[0])[..crew.stack.words() * rows].chunks_exact_mut(rows);
                for ((k, all), shared) in all.enumerate().zip(shared.chunks_exact(rows)) {
                    match k.checked_sub(first).filter(|k| *k < count) {
                        Some(k) => own[k * apart + individual * rows..][..rows].copy_from_slice(all),
                        None => all.copy_from_slice(shared),
                    }
                }
            }
            let apart_from_all = crew.run(0..individuals, forward);
            let together = crew.run(0..individuals, |stack, pass| {
                pass.values.iter_mut().for_each(|values| values[0].fill(ZEROS));
                let shared = Some(Shared { words: &shared, own: &own, apart, first, count });
                forward(
                    stack,
                    &mut Pass {
                        shared,
                        values: pass.values,
                        scratch: pass.scratch,
                        tiles: None,
                        out: pass.out,
                        ..*pass
                    },
                );
            });
            assert!(apart_from_all.iter().any(|x| *x != 0.0));
            assert_eq!(together, apart_from_all, "{text}, {individuals} × {rows} rows");
        }
    }
}

/// An individual's outputs are the same whoever else is in the pass.
#[test]
fn neighbours_change_no_bit() {
    for precision in [Precision::F32, Precision::Bf16] {
        let crew = Crew::new(NETS[0], precision, 4, 4);
        // Individual by individual.
        let run = |own: std::ops::Range<usize>| {
            let out = crew.run(own.clone(), forward);
            let of = |i: usize| out.chunks_exact(4).skip(i).step_by(own.len()).flatten().copied();
            (0..own.len()).flat_map(of).collect::<Vec<f32>>()
        };
        let (all, each) = (run(0..4), crew.each());
        assert!(all.iter().any(|x| *x != 0.0));
        for i in 0..4 {
            assert_eq!(run(i..i + 1), all[i * each..(i + 1) * each], "individual {i}");
        }
        assert_eq!(run(1..3), all[each..3 * each]);
    }
}

/// Rounding into pairs is that of `compute`, for any length.
#[test]
fn pairs_are_rounded_to_the_nearest() {
    let mut random = random::SplitMix::new(6);
    for count in [0, 1, 15, 16, 17, 40] {
        let [first, second] = [0, 1].map(|_| (0..count).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>());
        let mut found = vec![7; count];
        bf16_simd::pair(&first, &second, &mut found);
        for i in 0..count {
            let [low, high] = [first[i], second[i]].map(|x| compute::bf16::round(x).to_bits());
            assert_eq!(found[i], low >> 16 | high);
        }
    }
}
