//! A step is its place in a sequence, a row does not know its company, and gradients are those of the outputs.

use super::*;
use crate::net::{flatten, init};
use crate::{Budget, Choice, Opened, Table};
use random::SplitMix;
use std::sync::Arc;

const NETS: [&str; 4] = [
    "row:3 + account:dense2 / lstm20-12t | lstm8 / policy:3 | value:1",
    "row:3 + account:dense2 / lstm16-lstm5-8 / policy:3 + value:1",
    "row:3 + account:dense2 / lstm9 | 12t-4 / policy:2 | value:1",
    "row:3 + account:dense2 / lstm9 / policy:2 + value:1",
];
const STEPS: usize = 9;

/// `[STEPS, n]` rows of sequences, the states they begin with, and where they begin anew.
struct Made {
    tables: Arc<Tables>,
    ids: Vec<u32>,
    extras: Vec<f32>,
    begin: Vec<f32>,
    reset: Vec<u8>,
    n: usize,
}

impl Made {
    fn new(n: usize, state: usize, seed: u64) -> Made {
        let mut random = SplitMix::new(seed);
        let mut draw = |n: usize| (0..n).map(|_| random.unit() as f32 * 2.0 - 1.0).collect::<Vec<f32>>();
        let values = draw(50 * 4);
        let device = Opened::new(Choice::Cpu, 1).expect("a processor").0;
        let table = Table { values: &values, stride: 4 };
        let tables = Tables::new(&device, Budget::default(), &[table], &[None]).expect("tables");
        let (extras, begin) = (draw(STEPS * n * 2), draw(n * state));
        let ids = (0..STEPS * n).map(|_| random.below(50) as u32).collect();
        let reset = (0..STEPS * n).map(|_| u8::from(random.below(5) == 0)).collect();
        Made { tables, ids, extras, begin, reset, n }
    }

    fn rows(&self) -> Rows<'_> {
        Rows { tables: &self.tables, scales: &[], ids: &self.ids, extras: &self.extras }
    }

    /// Sequence `i` alone.
    fn alone(&self, i: usize) -> Made {
        let own = |t: usize| t * self.n + i;
        let state = self.begin.len() / self.n;
        Made {
            tables: Arc::clone(&self.tables),
            ids: (0..STEPS).map(|t| self.ids[own(t)]).collect(),
            extras: (0..STEPS).flat_map(|t| self.extras[2 * own(t)..2 * own(t) + 2].to_vec()).collect(),
            begin: self.begin[i * state..(i + 1) * state].to_vec(),
            reset: (0..STEPS).map(|t| self.reset[own(t)]).collect(),
            n: 1,
        }
    }
}

/// Zeros where a state has padding.
fn clear_padding(net: &Net, begin: &mut [f32]) {
    let units: Vec<usize> = net.towers.iter().flat_map(|tower| &tower.recurrent).copied().collect();
    let all: usize = 2 * units.iter().map(|units| units.next_multiple_of(UNITS)).sum::<usize>();
    for row in begin.chunks_exact_mut(all) {
        let mut at = 0;
        for units in &units {
            for _ in 0..2 {
                let wide = units.next_multiple_of(UNITS);
                row[at + units..at + wide].fill(0.0);
                at += wide;
            }
        }
    }
}

/// `[STEPS, n, outputs]` step by step.
fn stepped(net: &Net, params: &[f32], made: &Made, precision: Precision, at_once: usize) -> Vec<f32> {
    let mut stepper = Stepper::new(net, precision, at_once).expect("a stepper");
    stepper.take(params).expect("parameters");
    let (n, state, wide) = (made.n, stepper.state(), stepper.outputs());
    let (mut states, mut all) = (made.begin.clone(), Vec::new());
    for t in 0..STEPS {
        for (state, reset) in states.chunks_exact_mut(state).zip(&made.reset[t * n..(t + 1) * n]) {
            if *reset != 0 {
                state.fill(0.0);
            }
        }
        let rows = Rows {
            ids: &made.ids[t * n..(t + 1) * n],
            extras: &made.extras[2 * t * n..2 * (t + 1) * n],
            ..made.rows()
        };
        let mut out = vec![0.0; n * wide];
        stepper.step(rows, &mut states, &mut out).expect("a step");
        all.extend(out);
    }
    all
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn a_step_has_the_bits_of_its_place_in_a_sequence_and_of_a_row_alone() {
    for (text, precision) in NETS.iter().flat_map(|net| [(net, Precision::F32), (net, Precision::Bf16)]) {
        let net: Net = text.parse().expect("a net");
        let params = init(&Layout::new(&net).expect("a layout"), 3, 0);
        let mut gradients = SequenceGradient::new(&net, precision, 32, STEPS).expect("memory");
        gradients.take(&params).expect("parameters");
        for n in [1, 7, 32] {
            let mut made = Made::new(n, gradients.state(), 5);
            clear_padding(&net, &mut made.begin);
            let steps = stepped(&net, &params, &made, precision, 40);
            assert_eq!(bits(&steps), bits(&stepped(&net, &params, &made, precision, 3)), "{text}: in parts");
            let wide = steps.len() / (STEPS * n);
            let (mut seen, mut gradient) = (Vec::new(), vec![0.0; params.len()]);
            let sequences = Sequences { rows: made.rows(), begin: &made.begin, reset: &made.reset };
            let mut loss = |places: Range<usize>, out: &[Vec<f32>], _: &mut [Vec<f32>]| {
                for row in 0..places.len() {
                    out.iter().for_each(|out| {
                        let own = out.len() / places.len();
                        seen.extend_from_slice(&out[row * own..(row + 1) * own]);
                    });
                }
            };
            gradients.gradient(sequences, &mut loss, &mut gradient).expect("a gradient");
            assert_eq!(bits(&seen), bits(&steps), "{text}, {n} sequences");
            for i in [0, n - 1] {
                let alone = stepped(&net, &params, &made.alone(i), precision, 8);
                let beside: Vec<f32> =
                    (0..STEPS).flat_map(|t| &steps[(t * n + i) * wide..(t * n + i + 1) * wide]).copied().collect();
                assert_eq!(bits(&alone), bits(&beside), "{text}: sequence {i} of {n}");
            }
        }
    }
}

/// Along directions in one tensor at a time, against small differences of the outputs.
#[test]
fn gradients_are_those_of_the_outputs() {
    for text in NETS {
        let net: Net = text.parse().expect("a net");
        let layout = Layout::new(&net).expect("a layout");
        let params = init(&layout, 3, 0);
        let mut gradients = SequenceGradient::new(&net, Precision::F32, 6, STEPS).expect("memory");
        gradients.take(&params).expect("parameters");
        let mut made = Made::new(5, gradients.state(), 5);
        clear_padding(&net, &mut made.begin);
        let wide: usize = net.heads.iter().map(|head| head.classes).sum();
        let mut random = SplitMix::new(8);
        let weights: Vec<f32> = (0..STEPS * made.n * wide).map(|_| random.unit() as f32 * 2.0 - 1.0).collect();
        let value = |params: &[f32]| -> f64 {
            let out = stepped(&net, params, &made, Precision::F32, 5);
            out.iter().zip(&weights).map(|(out, weight)| f64::from(*out) * f64::from(*weight)).sum()
        };
        let mut loss = |places: Range<usize>, _: &[Vec<f32>], d_out: &mut [Vec<f32>]| {
            for (row, place) in places.clone().enumerate() {
                let mut at = place * wide;
                for d in d_out.iter_mut() {
                    let own = d.len() / places.len();
                    d[row * own..(row + 1) * own].copy_from_slice(&weights[at..at + own]);
                    at += own;
                }
            }
        };
        let mut gradient = vec![9.0; params.len()];
        let sequences = Sequences { rows: made.rows(), begin: &made.begin, reset: &made.reset };
        gradients.gradient(sequences, &mut loss, &mut gradient).expect("a gradient");
        // What is padding has no gradient.
        let marked = |row: &[f32]| {
            flatten(&layout, row).iter().map(|t| t.2.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>()).sum::<f64>()
        };
        let all: f64 = gradient.iter().map(|x| f64::from(*x).powi(2)).sum();
        assert!((all - marked(&gradient)).abs() <= 1e-9 * all, "{text}: padding");
        let counted: Vec<f32> = (0..params.len()).map(|i| i as f32).collect();
        for (name, _, places) in flatten(&layout, &counted) {
            let places: Vec<usize> = places.iter().map(|at| *at as usize).collect();
            let direction: Vec<f32> = places.iter().map(|_| random.unit() as f32 * 2.0 - 1.0).collect();
            let moved = |by: f32| {
                let mut moved = params.clone();
                places.iter().zip(&direction).for_each(|(at, d)| moved[*at] += by * d);
                value(&moved)
            };
            let step = 4e-3f32;
            let found = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
            let given: f64 = places.iter().zip(&direction).map(|(at, d)| f64::from(gradient[*at] * d)).sum();
            let scale = places.iter().map(|at| f64::from(gradient[*at]).abs()).sum::<f64>();
            assert!(scale > 1e-3, "{text} {name}: no gradient");
            assert!((found - given).abs() < 5e-3 * scale, "{text} {name}: {found} and {given} of {scale}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let plain: Net = "row:3 / 8 / 3".parse().expect("a net");
    assert!(Stepper::new(&plain, Precision::F32, 4).expect_err("no state").to_string().contains("no state"));
    let net: Net = NETS[0].parse().expect("a net");
    let error = crate::nets::Forward::new(&net, Precision::F32, 4).expect_err("a state").to_string();
    assert!(error.contains("carry a state"), "{error}");
    let mut stepper = Stepper::new(&net, Precision::F32, 4).expect("a stepper");
    assert!(stepper.take(&[0.0]).is_err());
    let params = init(&Layout::new(&net).expect("a layout"), 3, 0);
    stepper.take(&params).expect("parameters");
    let made = Made::new(1, stepper.state(), 5);
    let rows = Rows { ids: &[0], extras: &[0.0, 0.0], ..made.rows() };
    assert!(stepper.step(rows, &mut [0.0], &mut [0.0; 4]).is_err());
    assert!(stepper.step(Rows { ids: &[50], ..rows }, &mut made.begin.clone(), &mut [0.0; 4]).is_err());
    let mut gradients = SequenceGradient::new(&net, Precision::F32, 1, STEPS).expect("memory");
    let sequences = Sequences { rows: made.rows(), begin: &made.begin, reset: &made.reset };
    let mut loss = |_: Range<usize>, _: &[Vec<f32>], _: &mut [Vec<f32>]| {};
    assert!(gradients.gradient(sequences, &mut loss, &mut [0.0]).is_err());
}
