//! Gradients of whole nets by central differences in f64.

use super::{step, whole};
use crate::population::Precision;
use crate::population::world::World;
use crate::random::Turn;

/// The loss of a batch as a function of the parameters, in f64, and its gradient as the backward pass says it.
fn check(net: &str) {
    let turn = Some(Turn { seed: 3, member: 1, step: 4 });
    let world = World::new(net, 7, 16, Precision::F32);
    let (tables, data) = (world.tables().expect("tables"), world.data());
    let (member, layout) = (&world.members[0], &world.layout);
    // Seven samples and two rows of the tail, which must change nothing.
    let rows: Vec<u32> = world.lists[0].iter().chain(&[world.lists[0][0]; 2]).copied().collect();
    let live: Vec<f32> = (0..rows.len()).map(|i| if i < 7 { 1.0 } else { 0.0 }).collect();
    let inputs: Vec<Vec<f64>> = step::inputs(&world.net, &tables, member, &rows, Precision::F32);
    let weights = step::weights(&data, member, &rows, &live);
    let mut params: Vec<f64> = world.plain(&tables, &data, 0).params.iter().map(|&p| f64::from(p)).collect();
    let run = |params: &[f64]| {
        let buffers = whole::forward(&world.net, layout, params, &inputs, rows.len(), turn, Precision::F32);
        let logits = whole::logits(layout, &buffers, rows.len());
        let (loss, back) = step::losses(&data, &logits, &rows, &weights, 0.1, Precision::F32);
        (loss, buffers, back)
    };
    let (loss, buffers, back) = run(&params);
    let gradient = whole::backward(layout, &params, &buffers, &back, rows.len(), turn, Precision::F32);
    assert!(loss.is_finite() && loss > 0.0);
    let mut seen = vec![false; params.len()];
    let mut tensors: Vec<(&str, Vec<usize>)> = vec![];
    for r in &layout.recurrents {
        let rows = (0..r.features).chain(r.wide..r.wide + r.hidden).chain([r.wide + r.units]);
        let units = rows.flat_map(|row| (0..r.hidden).map(move |unit| r.at(row, unit, 0)));
        tensors.push((&r.name, units.flat_map(|at| at..at + 4).collect()));
    }
    for linear in &layout.linears {
        let outputs = 0..linear.outputs;
        let weights = outputs.clone().flat_map(|o| {
            let row = linear.weight + o * linear.input.width;
            linear.columns.iter().flat_map(move |c| c.clone().map(move |c| row + c))
        });
        let norm = linear.norm.map(|n| [n.gain, n.gain + linear.output.width]);
        let vectors = [linear.bias].into_iter().chain(norm.into_iter().flatten());
        let vectors = vectors.flat_map(|at| (0..linear.outputs).map(move |o| at + o));
        tensors.push((&linear.name, weights.chain(vectors).collect()));
    }
    for (name, places) in tensors {
        for at in places {
            let (h, kept) = (1e-5, params[at]);
            params[at] = kept + h;
            let above = run(&params).0;
            params[at] = kept - h;
            let below = run(&params).0;
            params[at] = kept;
            let difference = (above - below) / (2.0 * h);
            let off = (difference - gradient[at]).abs();
            assert!(
                off < 1e-7 * (1.0 + difference.abs()),
                "{net}: {name} at {at}: {difference} is not {}",
                gradient[at]
            );
            seen[at] = true;
        }
    }
    for (at, seen) in seen.iter().enumerate() {
        assert!(*seen || (gradient[at] == 0.0 && params[at] == 0.0), "{net}: padding at {at} has {}", gradient[at]);
    }
}

#[test]
fn gradients_equal_finite_differences() {
    check("5-3");
    check("4-6t-3");
    check("3x4-9-7t-5i-4");
    check("a:3x2-5t + b:4 / 6 / up:3 + size:4");
    check("a:3-5t-4 + b:4x3-3 + c:2 / 6t-5 / up:3 + size:2 + more:5");
    check("a:3-5t + b:4-3 / up:3 + size:2");
    check("a:3 + b:4 / up:3 + size:2");
}

#[test]
fn gradients_through_norms_and_dropouts_equal_finite_differences() {
    check("4-6nt-3");
    check("5-9ni-7nd30-4");
    check("4-8td40-6d20-3");
    check("a:3x2-5nt + b:4-3d50 + c:2 / 6nid10 / up:3 + size:4");
    check("a:3x4-lstm5d30-4ntd20 + b:2 + c:2x3-lstm3d50 / 5n / up:3 + size:2");
    check("2x3-lstm4-lstm3d40-2");
}

#[test]
fn gradients_through_time_equal_finite_differences() {
    check("3x5-lstm4-2");
    check("2-lstm3-2");
    check("2x4-lstm3-lstm2-4t-2");
    check("2x3-lstm3-lstm1-lstm2-2");
    check("a:3x4-lstm5-4t + b:2 + c:2x3-lstm3 / 5 / up:3 + size:2");
    check("a:3x2-lstm2-lstm3 + b:2x3-lstm2 / up:3 + size:2");
}
