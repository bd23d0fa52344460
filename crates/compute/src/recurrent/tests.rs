//! The twins against each other, against themselves and against central differences. One [`Case`] has everything a call
//! can have; [`With`] says what of it a call is given.

pub(super) mod card;

use super::{Backward, Carried, Cpu, Forward, Gradients, Host, Shape, Stack};
use crate::bf16;
use crate::net::init;
use crate::ops::recurrent as plain;
use crate::population::make::noise;
use crate::population::{Precision, SlotState};

/// Rows of the table.
const TABLE: usize = 50;

/// Everything of a call; arrays have the shapes of the module's table.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) stack: Stack,
    pub(super) stride: usize,
    pub(super) table: Vec<f32>,
    pub(super) at: Vec<u32>,
    pub(super) mean: Vec<f32>,
    pub(super) inverse: Vec<f32>,
    pub(super) extras: Vec<f32>,
    pub(super) h: Vec<f32>,
    pub(super) c: Vec<f32>,
    pub(super) reset: Vec<u8>,
    pub(super) weights: Vec<f32>,
    pub(super) at_every: Vec<f32>,
    pub(super) at_last: Vec<f32>,
}

/// What of a case is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct With {
    pub(super) scale: bool,
    pub(super) begin: bool,
    pub(super) reset: bool,
    pub(super) every: bool,
    pub(super) last: bool,
}

pub(super) const ALL: With = With { scale: true, begin: true, reset: true, every: true, last: true };
const LEAST: With = With { scale: false, begin: false, reset: false, every: false, last: true };

/// Everything that comes out.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Made {
    pub(super) every: Vec<f32>,
    pub(super) last: Vec<f32>,
    pub(super) end: [Vec<f32>; 2],
    pub(super) gradient: Vec<f32>,
    pub(super) begin: [Vec<f32>; 2],
}

pub(super) fn shape(sizes: [usize; 5], hidden: &[usize], precision: Precision, gradients: Gradients) -> Shape {
    let [members, rows, window, features, extras] = sizes;
    Shape { members, rows, window, features, extras, hidden: hidden.to_vec(), precision, gradients }
}

impl Case {
    fn new(shape: Shape) -> Case {
        let stack = Stack::new(shape).unwrap();
        let Shape { members, rows, window, features, extras, .. } = *stack.shape();
        let (all, wide) = (members * rows * window, members * rows * stack.outputs());
        let some = |stream: u32, n: usize| -> Vec<f32> { (0..n).map(|i| noise(stream, i)).collect() };
        let stride = features.next_multiple_of(4) + 4;
        // Padding of a state is zero.
        let state = |stream: u32| {
            let mut made = some(stream, stack.state());
            for (l, r) in stack.layers().iter().enumerate() {
                made[stack.state_of(l)].chunks_mut(r.units).for_each(|row| row[r.hidden..].fill(0.0));
            }
            made
        };
        Case {
            stride,
            table: some(1, TABLE * stride),
            at: (0..if features > 0 { all } else { 0 }).map(|i| ((noise(2, i) + 1.0) * 24.9) as u32).collect(),
            mean: some(3, members * features).iter().map(|x| 0.2 * x).collect(),
            inverse: some(4, members * features).iter().map(|x| 1.0 + 0.3 * x).collect(),
            extras: some(5, all * extras),
            h: state(6),
            c: state(7),
            reset: (0..all).map(|i| u8::from(noise(8, i) > 0.6) * 3).collect(),
            weights: (0..members).flat_map(|m| init(stack.layout(), 5, m as u32)).collect(),
            at_every: some(9, window * wide),
            at_last: some(10, wide),
            stack,
        }
    }

    pub(super) fn forward(&self, with: With) -> Forward<Host<'_>> {
        Forward {
            scale: (with.scale && self.stack.shape().features > 0).then_some((&self.mean[..], &self.inverse[..])),
            extras: (self.stack.shape().extras > 0).then_some(&self.extras[..]),
            begin: with.begin.then_some(Carried { h: &self.h, c: &self.c }),
            reset: with.reset.then_some(&self.reset[..]),
            ..Forward::of(&self.table[..], self.stride, &self.at[..])
        }
    }

    fn blank(&self) -> Made {
        let Shape { members, rows, window, gradients, .. } = *self.stack.shape();
        let wide = members * rows * self.stack.outputs();
        let state = || [vec![7.0; self.stack.state()], vec![7.0; self.stack.state()]];
        let back = self.stack.trains();
        Made {
            every: vec![7.0; window * wide],
            last: vec![7.0; wide],
            end: state(),
            gradient: vec![7.0; if back { self.weights.len() } else { 0 }],
            begin: if gradients == Gradients::State { state() } else { Default::default() },
        }
    }

    /// One step of it: the same weights, and arrays of that step.
    fn step(&self, t: usize) -> Case {
        let mut one = self.clone();
        let all = self.stack.shape().clone();
        one.stack = Stack::new(Shape { window: 1, ..all.clone() }).unwrap();
        let rows = all.members * all.rows;
        let wide = rows * self.stack.outputs();
        one.at_every = self.at_every[t * wide..(t + 1) * wide].to_vec();
        if all.features > 0 {
            one.at = self.at[t * rows..(t + 1) * rows].to_vec();
        }
        one.extras = self.extras[t * rows * all.extras..(t + 1) * rows * all.extras].to_vec();
        one.reset = self.reset[t * rows..(t + 1) * rows].to_vec();
        one
    }

    /// One member of it alone.
    fn only(&self, member: usize) -> Case {
        let mut one = self.clone();
        let all = self.stack.shape().clone();
        one.stack = Stack::new(Shape { members: 1, ..all.clone() }).unwrap();
        let pick = |from: &[f32], each: usize| -> Vec<f32> {
            from.chunks(each.max(1) * all.members)
                .flat_map(|t| t[member * each..(member + 1) * each].to_vec())
                .collect()
        };
        let (rows, step) = (member * all.rows..(member + 1) * all.rows, all.rows * all.members);
        one.at = self.at.chunks(step).flat_map(|t| &t[rows.clone()]).copied().collect();
        one.reset = self.reset.chunks(step).flat_map(|t| &t[rows.clone()]).copied().collect();
        one.mean = pick(&self.mean, all.features);
        one.inverse = pick(&self.inverse, all.features);
        one.extras = pick(&self.extras, all.rows * all.extras);
        one.at_every = pick(&self.at_every, all.rows * self.stack.outputs());
        one.at_last = pick(&self.at_last, all.rows * self.stack.outputs());
        one.weights = pick(&self.weights, self.stack.params());
        one.h = self.state_of(&self.h, member);
        one.c = self.state_of(&self.c, member);
        one
    }

    /// One member's part of a state.
    fn state_of(&self, all: &[f32], member: usize) -> Vec<f32> {
        let each = self.stack.layers().iter().enumerate().flat_map(|(l, r)| {
            let size = self.stack.shape().rows * r.units;
            all[self.stack.state_of(l)][member * size..(member + 1) * size].to_vec()
        });
        each.collect()
    }
}

/// What the plain loops make of a case.
pub(super) fn plainly(case: &Case, with: With) -> Made {
    let mut made = case.blank();
    let stack = &case.stack;
    let Shape { members, rows, window, precision, .. } = *stack.shape();
    let (hidden, units) = (stack.outputs(), stack.top().units);
    let call = case.forward(with);
    for m in 0..members {
        let w = &case.weights[m * stack.params()..(m + 1) * stack.params()];
        let (x, begin) = (plain::inputs(stack, &call, m), plain::Begin::<f32>::new(stack, &call, m));
        let all = plain::forward(stack, w, &x, &begin);
        let top = &all[all.len() - 1];
        let mut at_h = vec![0.0f32; window * rows * units];
        for t in 0..window {
            for b in 0..rows {
                let (here, there) = ((t * rows + b) * units, ((t * members + m) * rows + b) * hidden);
                made.every[there..there + hidden].copy_from_slice(&top.h[here..here + hidden]);
                let last = (m * rows + b) * hidden;
                for u in 0..hidden {
                    let mut g = if with.every { case.at_every[there + u] } else { 0.0 };
                    if t + 1 == window {
                        made.last[last + u] = top.h[here + u];
                        g += if with.last { case.at_last[last + u] } else { 0.0 };
                    }
                    at_h[here + u] = bf16::held(g, precision);
                }
            }
        }
        for (l, r) in stack.layers().iter().enumerate() {
            let start = stack.state_of(l).start + m * rows * r.units;
            let place = start..start + rows * r.units;
            made.end[0][place.clone()].copy_from_slice(&all[l].h[(window - 1) * rows * r.units..]);
            made.end[1][place].copy_from_slice(&all[l].end);
        }
        if !stack.trains() {
            continue;
        }
        let back = plain::backward(stack, w, &all, &begin, &at_h);
        made.gradient[m * stack.params()..(m + 1) * stack.params()].copy_from_slice(&back.w);
        if stack.shape().gradients == Gradients::State {
            for (l, r) in stack.layers().iter().enumerate() {
                let start = stack.state_of(l).start + m * rows * r.units;
                made.begin[0][start..start + rows * r.units].copy_from_slice(&back.h[l]);
                made.begin[1][start..start + rows * r.units].copy_from_slice(&back.c[l]);
            }
        }
    }
    made
}

fn outputs<'a>(call: Forward<Host<'a>>, made: &'a mut Made) -> Forward<Host<'a>> {
    let [h, c] = &mut made.end;
    Forward { every: Some(&mut made.every), last: Some(&mut made.last), end: Some(Carried { h, c }), ..call }
}

/// What the processor makes of it.
pub(super) fn on_cpu(case: &Case, with: With, threads: usize) -> Made {
    let mut cpu = Cpu::new(&case.stack, threads).unwrap();
    cpu.take(&case.weights, case.stack.params()).unwrap();
    let mut made = case.blank();
    let mut back = case.blank();
    cpu.forward(outputs(case.forward(with), &mut made)).unwrap();
    if case.stack.trains() {
        let [h, c] = &mut back.begin;
        let state = case.stack.shape().gradients == Gradients::State;
        cpu.backward(Backward {
            every: with.every.then_some(&case.at_every[..]),
            last: with.last.then_some(&case.at_last[..]),
            members: None,
            gradient: &mut back.gradient,
            stride: case.stack.params(),
            add: false,
            begin: state.then_some(Carried { h, c }),
        })
        .unwrap();
        (made.gradient, made.begin) = (back.gradient, back.begin);
    }
    made
}

/// ‖a - b‖ / ‖b‖.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    off / norm(&mut b.iter().map(|b| f64::from(*b))).max(1e-30)
}

/// Everything within a distance, relative to its norm; gradients within twice that.
pub(super) fn near(a: &Made, b: &Made, limit: f64, place: &str) {
    let gradient = 2.0 * limit;
    let mut worst = [0f64; 2]; // values, gradients
    for (what, limit, a, b) in [
        ("every", limit, &a.every, &b.every),
        ("last", limit, &a.last, &b.last),
        ("h at the end", limit, &a.end[0], &b.end[0]),
        ("c at the end", limit, &a.end[1], &b.end[1]),
        ("gradient", gradient, &a.gradient, &b.gradient),
        ("gradient of h", gradient, &a.begin[0], &b.begin[0]),
        ("gradient of c", gradient, &a.begin[1], &b.begin[1]),
    ] {
        assert_eq!(a.len(), b.len(), "{place}: {what}");
        let off = apart(a, b);
        let kind = usize::from(what.starts_with("gradient"));
        worst[kind] = worst[kind].max(off);
        assert!(off < limit, "{place}: {what} {off:.1e} apart");
    }
    crate::population::tests::say(&format!("apart: values {:.1e}, gradients {:.1e}: {place}", worst[0], worst[1]));
}

/// `[members, rows, window, features, extras]` and hidden units.
const SIZES: [([usize; 5], &[usize]); 9] = [
    ([1, 1, 1, 1, 0], &[1]),
    ([2, 7, 5, 6, 3], &[20]),
    ([3, 33, 4, 5, 1], &[16, 9]),
    ([1, 65, 3, 0, 7], &[24, 17, 5]),
    ([2, 40, 6, 16, 0], &[64]),
    ([1, 50, 3, 13, 4], &[33, 64, 48]),
    ([2, 31, 2, 70, 9], &[40]),
    ([1, 18, 4, 12, 5], &[100, 30]),
    ([1, 100, 9, 20, 12], &[32, 32]),
];

const WAYS: [With; 5] = [
    ALL,
    LEAST,
    With { every: true, last: false, ..LEAST },
    With { begin: true, every: true, ..LEAST },
    With { scale: true, reset: true, ..LEAST },
];

/// Every size in every way in two precisions, with one of the gradients by turns; or one of so many of these.
fn each(one_of: usize, mut check: impl FnMut(&Case, With, Precision, &str)) {
    let mut turn: usize = 0;
    for (s, (sizes, hidden)) in SIZES.iter().enumerate() {
        for (w, with) in WAYS.iter().enumerate() {
            for precision in [Precision::F32, Precision::Bf16] {
                turn += 1;
                if !turn.is_multiple_of(one_of) {
                    continue;
                }
                let gradients = [Gradients::Weights, Gradients::State, Gradients::None][(s + w) % 3];
                let case = Case::new(shape(*sizes, hidden, precision, gradients));
                check(&case, *with, precision, &format!("{sizes:?} {hidden:?} {precision:?} {gradients:?} {with:?}"));
            }
        }
    }
}

#[test]
fn the_cpu_matches_the_reference_loops() {
    each(1, |case, with, precision, place| {
        let limit = if precision == Precision::Bf16 { 2e-3 } else { 5e-6 };
        near(&on_cpu(case, with, 2), &plainly(case, with), limit, place);
    });
}

#[test]
fn bits_do_not_depend_on_threads_or_neighbours() {
    for precision in [Precision::F32, Precision::Bf16] {
        let case = Case::new(shape([3, 70, 5, 6, 3], &[20, 9], precision, Gradients::State));
        let one = on_cpu(&case, ALL, 1);
        for threads in [2, 3, 7] {
            assert!(on_cpu(&case, ALL, threads) == one, "{threads} threads");
        }
        for member in 0..3 {
            let alone = on_cpu(&case.only(member), ALL, 1);
            let params = case.stack.params();
            assert!(alone.gradient == one.gradient[member * params..(member + 1) * params], "member {member}");
            assert!(alone.end[1] == case.state_of(&one.end[1], member), "member {member}");
        }
    }
}

/// The window of a case, one step at a time with the state carried on.
fn step_by_step(case: &Case, with: With, mut run: impl FnMut(&Case, With) -> Made) -> Made {
    let mut made = case.blank();
    made.every.clear();
    let (mut h, mut c) = (case.h.clone(), case.c.clone());
    for t in 0..case.stack.shape().window {
        let mut one = case.step(t);
        (one.h, one.c) = (h, c);
        let out = run(&one, With { begin: with.begin || t > 0, ..with });
        made.every.extend(out.every);
        (made.last, made.end) = (out.last, out.end.clone());
        [h, c] = out.end;
    }
    made
}

/// Whether the window and its single steps give the same bits.
fn same_in_steps(case: &Case, with: With, run: impl Fn(&Case, With) -> Made, place: &str) {
    let (whole, steps) = (run(case, with), step_by_step(case, with, &run));
    assert!(whole.every == steps.every && whole.last == steps.last && whole.end == steps.end, "{place}");
    let last = &whole.every[whole.every.len() - whole.last.len()..];
    assert!(last == &whole.last[..], "{place}: the last h is the last of every h");
}

#[test]
fn a_window_equals_its_single_steps_to_the_bit() {
    each(1, |case, with, _, place| same_in_steps(case, with, |case, with| on_cpu(case, with, 2), place));
}

#[test]
fn inactive_members_are_untouched_and_gradients_accumulate() {
    let case = Case::new(shape([3, 5, 4, 4, 2], &[18], Precision::F32, Gradients::Weights));
    let (whole, params) = (on_cpu(&case, ALL, 2), case.stack.params());
    let awake = SlotState { active: 1, ..SlotState::default() };
    let states = [awake, SlotState { due: 1, ..awake }, awake];
    let mut cpu = Cpu::new(&case.stack, 2).unwrap();
    cpu.take(&case.weights, params).unwrap();
    let mut made = case.blank();
    for round in 1..3 {
        let call = Forward { members: Some(&states[..]), ..case.forward(ALL) };
        cpu.forward(outputs(call, &mut made)).unwrap();
        cpu.backward(Backward {
            every: Some(&case.at_every[..]),
            last: Some(&case.at_last[..]),
            members: Some(&states[..]),
            gradient: &mut made.gradient,
            stride: params,
            add: round > 1,
            begin: None,
        })
        .unwrap();
    }
    let wide = 5 * 18;
    for t in 0..4 {
        let step = |m: usize| (t * 3 + m) * wide..(t * 3 + m + 1) * wide;
        assert_eq!(made.every[step(0)], whole.every[step(0)]);
        assert_eq!(made.every[step(1)], vec![7.0; wide]);
    }
    assert_eq!(made.gradient[params..2 * params], vec![7.0; params]);
    let twice: Vec<f32> = whole.gradient[2 * params..].iter().map(|x| 2.0 * x).collect();
    assert!(apart(&made.gradient[2 * params..], &twice) < 1e-6);
}

#[test]
fn rows_of_weights_may_have_others_between_them() {
    let case = Case::new(shape([2, 5, 3, 4, 2], &[18], Precision::F32, Gradients::Weights));
    let (whole, params) = (on_cpu(&case, ALL, 1), case.stack.params());
    let mut wide = vec![9.0; 2 * params + 5];
    wide[..params].copy_from_slice(&case.weights[..params]);
    wide[params + 5..].copy_from_slice(&case.weights[params..]);
    let mut cpu = Cpu::new(&case.stack, 1).unwrap();
    cpu.take(&wide, params + 5).unwrap();
    let mut made = case.blank();
    cpu.forward(outputs(case.forward(ALL), &mut made)).unwrap();
    assert!(made.every == whole.every);
    let mut gradient = vec![3.0; wide.len()];
    let (every, last) = (Some(&case.at_every[..]), Some(&case.at_last[..]));
    let gradient_ = &mut gradient[..];
    cpu.backward(Backward {
        every,
        last,
        members: None,
        gradient: gradient_,
        stride: params + 5,
        add: false,
        begin: None,
    })
    .unwrap();
    assert!(gradient[..params] == whole.gradient[..params] && gradient[params + 5..] == whole.gradient[params..]);
    assert_eq!(gradient[params..params + 5], [3.0; 5]);
}

#[test]
fn invalid_calls_are_refused_with_a_reason() {
    let good = shape([1, 2, 3, 4, 1], &[5], Precision::F32, Gradients::Weights);
    for (shape, word) in [
        (Shape { rows: 0, ..good.clone() }, "at least one"),
        (Shape { features: 0, extras: 0, ..good.clone() }, "0 extras"),
        (Shape { hidden: vec![], ..good.clone() }, "0 recurrent layers"),
        (Shape { hidden: vec![5, 300], ..good.clone() }, "300 units"),
        (Shape { rows: usize::MAX, ..good.clone() }, "counted"),
    ] {
        let why = Stack::new(shape).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
    let case = Case::new(good);
    let mut cpu = Cpu::new(&case.stack, 1).unwrap();
    let why = cpu.forward(case.forward(ALL)).unwrap_err().to_string();
    assert!(why.contains("weights"), "{why}");
    cpu.take(&case.weights, case.stack.params()).unwrap();
    assert!(cpu.take(&case.weights, case.stack.params() - 1).is_err());
    let far = vec![TABLE as u32; case.at.len()];
    for (call, word) in [
        (Forward { extras: None, ..case.forward(ALL) }, "no extras"),
        (Forward { at: &case.at[1..], ..case.forward(ALL) }, "at has 5"),
        (Forward { at: &far[..], ..case.forward(ALL) }, "row 50"),
        (Forward { reset: Some(&case.reset[1..]), ..case.forward(ALL) }, "reset has 5"),
        (Forward { stride: 3, ..case.forward(ALL) }, "3 columns"),
    ] {
        let why = cpu.forward(call).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
    let mut gradient = vec![0.0; case.stack.params()];
    let mut back = |cpu: &mut Cpu, last: Option<&[f32]>| {
        let (gradient, stride) = (&mut gradient[..], case.stack.params());
        cpu.backward(Backward { every: None, last, members: None, gradient, stride, add: false, begin: None })
    };
    assert!(back(&mut cpu, Some(&case.at_last)).unwrap_err().to_string().contains("forward"));
    cpu.forward(case.forward(ALL)).unwrap();
    assert!(back(&mut cpu, None).unwrap_err().to_string().contains("nothing"));
    back(&mut cpu, Some(&case.at_last)).unwrap();
    assert!(back(&mut cpu, Some(&case.at_last)).is_err(), "one way back for each way forward");
}

#[test]
fn gradients_match_central_differences() {
    for (hidden, with) in [
        (&[3][..], ALL),
        (&[3], With { every: false, ..LEAST }),
        (&[4, 2], With { every: true, last: false, ..ALL }),
        (&[2, 3, 2], ALL),
    ] {
        let case = Case::new(shape([1, 2, 4, 2, 1], hidden, Precision::F32, Gradients::State));
        let (stack, call) = (&case.stack, case.forward(with));
        let (units, outputs) = (stack.top().units, stack.outputs());
        let wide = |from: &[f32]| -> Vec<f64> { from.iter().map(|x| f64::from(*x)).collect() };
        let (mut w, x) = (wide(&case.weights), wide(&plain::inputs(stack, &call, 0)));
        let mut begin = plain::Begin::<f64>::new(stack, &call, 0);
        let mut at_h = vec![0.0f64; 4 * 2 * units];
        for i in 0..4 * 2 {
            for u in 0..outputs {
                let last = (i >= 6 && with.last).then(|| case.at_last[(i - 6) * outputs + u]);
                let every = with.every.then(|| case.at_every[i * outputs + u]);
                at_h[i * units + u] = f64::from(last.unwrap_or(0.0)) + f64::from(every.unwrap_or(0.0));
            }
        }
        let loss = |w: &[f64], begin: &plain::Begin<f64>| -> f64 {
            let all = plain::forward(stack, w, &x, begin);
            all[all.len() - 1].h.iter().zip(&at_h).map(|(h, g)| h * g).sum()
        };
        let all = plain::forward(stack, &w, &x, &begin);
        let made = plain::backward(stack, &w, &all, &begin, &at_h);
        let close = |above: f64, below: f64, got: f64, what: &str| {
            let difference = (above - below) / 2e-5;
            assert!((difference - got).abs() < 1e-8 * (1.0 + difference.abs()), "{what}: {difference} is not {got}");
        };
        let mut moved = 0;
        for at in 0..w.len() {
            // Padding of states is zero, so weights there move nothing; all others are looked at.
            let kept = w[at];
            w[at] = kept + 1e-5;
            let above = loss(&w, &begin);
            w[at] = kept - 1e-5;
            let below = loss(&w, &begin);
            w[at] = kept;
            if kept != 0.0 {
                close(above, below, made.w[at], &format!("{hidden:?} {with:?} weight {at}"));
                moved += usize::from(above != below);
            }
        }
        assert!(moved > 50, "{moved} weights matter");
        for l in 0..begin.h.len() {
            for at in 0..begin.h[l].len() {
                for cell in [false, true] {
                    let place = |b: &mut plain::Begin<f64>, d: f64| {
                        let all = if cell { &mut b.c } else { &mut b.h };
                        all[l][at] += d;
                    };
                    place(&mut begin, 1e-5);
                    let above = loss(&w, &begin);
                    place(&mut begin, -2e-5);
                    let below = loss(&w, &begin);
                    place(&mut begin, 1e-5);
                    let got = if cell { made.c[l][at] } else { made.h[l][at] };
                    close(above, below, got, &format!("{hidden:?} {with:?} state {l} {at} {cell}"));
                }
            }
        }
    }
}
