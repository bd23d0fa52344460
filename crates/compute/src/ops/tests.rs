//! Gradients of whole nets by central differences in f64.

use super::{step, whole};
use crate::population::Precision;
use crate::population::world::World;

/// The loss of a batch as a function of the parameters, in f64, and its gradient as the backward pass says it.
fn check(net: &str) {
    let world = World::new(net, 7, 16, Precision::F32);
    let data = world.data();
    let (member, layout) = (&world.members[0], &world.layout);
    // Seven samples and two rows of the tail, which must change nothing.
    let rows: Vec<u32> = world.lists[0].iter().chain(&[world.lists[0][0]; 2]).copied().collect();
    let live: Vec<f32> = (0..rows.len()).map(|i| if i < 7 { 1.0 } else { 0.0 }).collect();
    let inputs: Vec<Vec<f64>> = step::inputs(&world.net, &data, member, &rows, Precision::F32);
    let weights = step::weights(&data, member, &rows, &live);
    let mut params: Vec<f64> = world.plain(&data, 0).params.iter().map(|&p| f64::from(p)).collect();
    let run = |params: &[f64]| {
        let buffers = whole::forward(&world.net, layout, params, &inputs, rows.len(), Precision::F32);
        let logits = whole::logits(layout, &buffers, rows.len());
        let (loss, back) = step::losses(&data, &logits, &rows, &weights, Precision::F32);
        (loss, buffers, back)
    };
    let (loss, buffers, back) = run(&params);
    let gradient = whole::backward(layout, &params, &buffers, &back, rows.len(), Precision::F32);
    assert!(loss.is_finite() && loss > 0.0);
    let mut seen = vec![false; params.len()];
    for linear in &layout.linears {
        let outputs = 0..linear.outputs;
        let weights = outputs.clone().flat_map(|o| {
            let row = linear.weight + o * linear.input.width;
            linear.columns.iter().flat_map(move |c| c.clone().map(move |c| row + c))
        });
        for at in weights.chain(outputs.map(|o| linear.bias + o)) {
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
                "{net}: {} at {at}: {difference} is not {}",
                linear.name,
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
fn gradients_are_the_slopes() {
    check("5-3");
    check("4-6t-3");
    check("3x4-9-7t-5i-4");
    check("a:3x2-5t + b:4 / 6 / up:3 + size:4");
    check("a:3-5t-4 + b:4x3-3 + c:2 / 6t-5 / up:3 + size:2 + more:5");
    check("a:3-5t + b:4-3 / up:3 + size:2");
    check("a:3 + b:4 / up:3 + size:2");
}
