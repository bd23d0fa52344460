//! Nets whose LSTM layers carry a state on a card, beside the processor's. Where there is no card the test says so.

use super::*;
use crate::cuda::Graph;
use crate::net::UNITS;
use crate::population::tests::cards;
use crate::{Choice, Table};
use random::SplitMix;

const NETS: [&str; 6] = [
    "row:3 + account:dense2 / lstm20-12t | lstm8 / policy:3 | value:1",
    "row:3 + account:dense2 / lstm16-lstm5-8 / policy:3 + value:1",
    "row:3 + account:dense2 / lstm9 | 12t-4 / policy:2 | value:1",
    "row:3 + account:dense2 / lstm9 / policy:2 + value:1",
    "account:dense2 + row:3 / 7 | lstm70-16 / policy:3 | value:1",
    "row:3 + account:dense2 / lstm64-64t | lstm64-64t / policy:3 | value:1",
];
const P: usize = 3;
const ROWS: usize = 7;
const STEPS: usize = 9;

/// All of one case, `[P]` where it is a member's.
struct Made {
    values: Vec<f32>,
    scales: Vec<Vec<Option<Scale>>>,
    ids: Vec<Vec<u32>>,    // [STEPS, ROWS]
    extras: Vec<Vec<f32>>, // [STEPS, ROWS, 2]
    begin: Vec<Vec<f32>>,  // [ROWS, state]
    reset: Vec<Vec<u8>>,   // [STEPS, ROWS]
    d_out: Vec<Vec<Vec<f32>>>,
}

impl Made {
    fn new(net: &Net) -> Made {
        let mut random = SplitMix::new(11);
        let mut draw = |n: usize| (0..n).map(|_| random.unit() as f32 * 2.0 - 1.0).collect::<Vec<f32>>();
        let units: Vec<usize> = net.towers.iter().flat_map(|tower| &tower.recurrent).copied().collect();
        // Padding is zeros.
        let mut state = || -> Vec<f32> {
            let wide = |units: &usize| units.next_multiple_of(UNITS);
            let mut half = |units: &usize| [draw(*units), vec![0.0; wide(units) - units]].concat();
            units.iter().flat_map(|units| [half(units), half(units)].concat()).collect()
        };
        let begin = (0..P).map(|_| (0..ROWS).flat_map(|_| state()).collect()).collect();
        let values = draw(50 * 4);
        let all = STEPS * ROWS;
        let extras = (0..P).map(|_| draw(2 * all)).collect();
        let d_out = (0..P).map(|_| net.heads.iter().map(|head| draw(all * head.classes)).collect()).collect();
        let scale = |m: usize| Scale { mean: vec![0.1 * m as f32; 3], inverse: vec![1.0 + 0.5 * m as f32; 3] };
        let of_input = |m: usize| net.inputs.iter().map(move |i| (!i.dense && m > 0).then(|| scale(m))).collect();
        let ids = (0..P).map(|_| (0..all).map(|_| random.below(50) as u32).collect()).collect();
        let reset = (0..P).map(|_| (0..all).map(|_| u8::from(random.below(5) == 0)).collect()).collect();
        Made { values, scales: (0..P).map(of_input).collect(), ids, extras, begin, reset, d_out }
    }

    fn tables(&self, device: &Opened) -> Arc<Tables> {
        let table = Table { values: &self.values, stride: 4 };
        Tables::new(device, Budget::default(), &[table], &[None]).expect("tables")
    }

    fn members(&self) -> Vec<MemberSetup> {
        let member = |(id, scales): (usize, &Vec<Option<Scale>>)| MemberSetup { id: id as u32, scales: scales.clone() };
        self.scales.iter().enumerate().map(member).collect()
    }
}

/// What the processor makes of it: `[P]` outputs of all heads, gradients, and states at the end.
fn on_processor(net: &Net, made: &Made, precision: Precision, params: &[Vec<f32>]) -> Vec<[Vec<f32>; 3]> {
    let tables = made.tables(&Opened::new(Choice::Cpu, 1).expect("a processor").0);
    let member = |m: usize| {
        let mut gradients = SequenceGradient::new(net, precision, ROWS, STEPS).expect("memory");
        gradients.take(&params[m]).expect("parameters");
        let rows = Rows { tables: &tables, scales: &made.scales[m], ids: &made.ids[m], extras: &made.extras[m] };
        let (mut seen, mut gradient) = (vec![Vec::new(); net.heads.len()], vec![0.0; params[m].len()]);
        let mut loss = |own: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]| {
            for (h, head) in net.heads.iter().enumerate() {
                seen[h].extend_from_slice(&out[h]);
                d_out[h].copy_from_slice(&made.d_out[m][h][own.start * head.classes..own.end * head.classes]);
            }
        };
        let given = Sequences { rows, begin: &made.begin[m], reset: &made.reset[m] };
        gradients.gradient(given, &mut loss, &mut gradient).expect("a gradient");
        let mut stepper = Stepper::new(net, precision, ROWS).expect("a stepper");
        stepper.take(&params[m]).expect("parameters");
        let (mut states, wide) = (made.begin[m].clone(), stepper.outputs());
        for t in 0..STEPS {
            let own = t * ROWS..(t + 1) * ROWS;
            for (state, reset) in states.chunks_exact_mut(stepper.state()).zip(&made.reset[m][own.clone()]) {
                if *reset != 0 {
                    state.fill(0.0);
                }
            }
            let rows =
                Rows { ids: &made.ids[m][own.clone()], extras: &made.extras[m][2 * own.start..2 * own.end], ..rows };
            stepper.step(rows, &mut states, &mut vec![0.0; ROWS * wide]).expect("a step");
        }
        [seen.concat(), gradient, states]
    };
    (0..P).map(member).collect()
}

/// `[P][ROWS, state]` as the segments of a card, and back.
fn to_card(pass: &SequencePass, states: &[Vec<f32>]) -> Vec<f32> {
    let mut all = vec![0.0; pass.state()];
    each_place(pass, |m, row, of_card, of_row| {
        let wide = states[m].len() / ROWS;
        all[of_card].copy_from_slice(&states[m][row * wide + of_row.start..row * wide + of_row.end]);
    });
    all
}

fn from_card(pass: &SequencePass, all: &[f32]) -> Vec<Vec<f32>> {
    let wide = pass.state() / (P * ROWS);
    let mut states = vec![vec![0.0; ROWS * wide]; P];
    each_place(pass, |m, row, of_card, of_row| {
        states[m][row * wide + of_row.start..row * wide + of_row.end].copy_from_slice(&all[of_card]);
    });
    states
}

fn each_place(pass: &SequencePass, mut f: impl FnMut(usize, usize, Range<usize>, Range<usize>)) {
    for Segment { before, units, column } in pass.segments() {
        for (m, row) in (0..P).flat_map(|m| (0..ROWS).map(move |row| (m, row))) {
            let first = before * P * ROWS + (m * ROWS + row) * units;
            f(m, row, first..first + units, column..column + units);
        }
    }
}

fn near(ours: &[f32], theirs: &[f32], most: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut ours.iter().zip(theirs).map(|(a, b)| f64::from(a - b)));
    let all = norm(&mut theirs.iter().map(|x| f64::from(*x)));
    assert!(apart <= most * all && all > 0.0, "{what}: {apart} apart of {all}");
}

/// Outputs, gradients and states are those of the processor, and a captured pass has the bits of the first.
#[test]
fn sequences_on_a_card_are_those_of_the_processor() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        for (text, precision) in NETS
            .iter()
            .flat_map(|net| [Precision::F32, Precision::Tf32, Precision::Bf16].map(|precision| (net, precision)))
        {
            let what = format!("{text} in {precision:?}");
            let net: Net = text.parse().expect("a net");
            let made = Made::new(&net);
            let (rule, rows) = (Some(Rule::AdamW), ROWS * STEPS);
            let setup = Setup { rows, precision, rule, seed: 3, starts: vec![] };
            let (tables, members) = (made.tables(&device), made.members());
            let mut nets =
                Nets::new(&device, Budget::default(), &net, &tables, &setup, &members, &Pins::default()).expect("nets");
            let mut pass = SequencePass::new(&mut nets, Budget::default(), ROWS, STEPS).expect("a pass");
            let params: Vec<Vec<f32>> = (0..P).map(|m| nets.params(m).expect("parameters")).collect();
            let wanted = on_processor(&net, &made, precision, &params);
            let stream = Stream::new(&context).expect("a stream");
            let mut slab = context.slab(1 << 20).expect("memory");
            let ids = slab.array(P * rows).expect("ids");
            ids.put(&stream, &made.ids.concat()).expect("a copy");
            let extras = slab.array(P * rows * 2).expect("extras");
            extras.put(&stream, &made.extras.concat()).expect("a copy");
            let begin = slab.array(pass.state()).expect("states");
            begin.put(&stream, &to_card(&pass, &made.begin)).expect("a copy");
            let end = slab.array(pass.state()).expect("states");
            // Steps first.
            let steps_first = |t: usize| (0..P).flat_map(move |m| (0..ROWS).map(move |row| (m, t * ROWS + row)));
            let resets: Vec<u8> = (0..STEPS).flat_map(steps_first).map(|(m, at)| made.reset[m][at]).collect();
            let reset = slab.array(resets.len()).expect("resets");
            reset.put(&stream, &resets).expect("a copy");
            let (out, d_out) = (nets.head_arrays(rows).expect("outputs"), nets.head_arrays(rows).expect("gradients"));
            for (h, d_out) in d_out.iter().enumerate() {
                let given: Vec<f32> = made.d_out.iter().flat_map(|of| &of[h]).copied().collect();
                d_out.put(&stream, &given).expect("a copy");
            }
            let given = SequencesOnCard {
                ids: Some(&ids),
                extras: Some(&extras),
                begin: &begin,
                reset: Some(&reset),
                end: Some(&end),
            };
            let mut whole = |nets: &mut Nets| {
                pass.take_on(&stream, nets)?;
                pass.forward_on(&stream, nets, given, &out)?;
                pass.backward_on(&stream, nets, &d_out)
            };
            let mut seen = Vec::new();
            whole(&mut nets).expect("a pass");
            let graph: Graph = stream.capture(|| whole(&mut nets)).expect("a graph");
            for round in 0..2 {
                if round == 1 {
                    for array in out.iter().chain([&end]) {
                        array.fill(&stream, 0).expect("zeros");
                    }
                    graph.launch(&stream).expect("a launch");
                }
                let outputs: Vec<Vec<f32>> = out.iter().map(|out| out.get(&stream).expect("outputs")).collect();
                let gradients: Vec<Vec<f32>> = (0..P).map(|m| nets.gradient(m).expect("a gradient")).collect();
                seen.push((outputs, gradients, end.get(&stream).expect("states")));
            }
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            let all_bits = |(out, gradients, end): &(Vec<Vec<f32>>, Vec<Vec<f32>>, Vec<f32>)| {
                bits(&[out.concat(), gradients.concat(), end.clone()].concat())
            };
            assert!(all_bits(&seen[0]) == all_bits(&seen[1]), "{what}: a graph has other bits");
            let (outputs, gradients, end) = &seen[0];
            let most = match precision {
                Precision::F32 => 2e-5,
                Precision::Tf32 => 5e-3,
                Precision::Bf16 => 2e-2,
            };
            for m in 0..P {
                let own: Vec<f32> = (outputs.iter().zip(&net.heads))
                    .flat_map(|(out, head)| &out[m * rows * head.classes..(m + 1) * rows * head.classes])
                    .copied()
                    .collect();
                near(&own, &wanted[m][0], most, &format!("{what}: outputs of {m}"));
                near(&gradients[m], &wanted[m][1], most, &format!("{what}: gradient of {m}"));
                near(&from_card(&pass, end)[m], &wanted[m][2], most, &format!("{what}: states of {m}"));
            }
        }
    }
}

/// What would compute something else is refused.
#[test]
fn passes_that_do_not_fit_are_refused() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        let net: Net = NETS[0].parse().expect("a net");
        let made = Made::new(&net);
        let setup = Setup { rows: 10, precision: Precision::F32, rule: Some(Rule::AdamW), seed: 3, starts: vec![] };
        let (tables, members, pins) = (made.tables(&device), made.members(), Pins::default());
        let mut nets = Nets::new(&device, Budget::default(), &net, &tables, &setup, &members, &pins).expect("nets");
        let refused =
            SequencePass::new(&mut nets, Budget::default(), ROWS, STEPS).map(drop).expect_err("too many rows");
        assert!(refused.to_string().contains("set them up for 63"), "{refused}");
        let stream = Stream::new(&context).expect("a stream");
        let out = nets.head_arrays(10).expect("outputs");
        let rows = OnCard { rows: 10, ids: None, extras: None };
        let refused = nets.forward_on(&stream, rows, &out).expect_err("no rows by themselves").to_string();
        assert!(refused.contains("carry a state"), "{refused}");
    }
}
