//! First weights: PyTorch's defaults. Of a `Linear` weights and biases alike are uniform in `(-1/√inputs, 1/√inputs)`,
//! of an `LSTM` all are in `(-1/√units, 1/√units)`.
//!
//! Keyed by seed, member, number of the tensor (weights `2 l`, bias `2 l + 1` of layer `l`; behind those of all layers
//! three for each recurrent one: `weight_ih`, `weight_hh`, `bias`) and the element's place in the tensor without
//! padding, as a file has it, so that another padding gives the same net. Padding is zero. The gain of a norm is 1, its
//! shift 0.

use super::Layout;
use crate::error::Result;
use crate::host::filled;
use crate::random::{Stream, normals, words};
use rayon::prelude::*;

/// `[params]` a member's row of the arena at the start.
pub fn init(layout: &Layout, seed: u64, member: u32) -> Vec<f32> {
    let mut row = vec![0.0; layout.params];
    init_row(layout, seed, member, &mut row);
    row
}

/// The same into a row of zeros.
fn init_row(layout: &Layout, seed: u64, member: u32, row: &mut [f32]) {
    let draw = |tensor: usize, inputs: usize| {
        let bound = (1.0 / (inputs as f64).sqrt()) as f32;
        words(seed, Stream::Init, tensor as u32, member).map(move |w| centred(w) * bound)
    };
    for (r, recurrent) in layout.recurrents.iter().enumerate() {
        for (p, part) in recurrent.parts().into_iter().enumerate() {
            let tensor = 2 * layout.linears.len() + 3 * r + p;
            for (place, value) in part.places.into_iter().zip(draw(tensor, recurrent.hidden)) {
                row[place] = value;
            }
        }
    }
    for (l, linear) in layout.linears.iter().enumerate() {
        let draws = |tensor| draw(tensor, linear.inputs());
        let mut weights = draws(2 * l);
        for output in 0..linear.outputs {
            let at = linear.weight + output * linear.input.width;
            for column in linear.columns.iter().cloned().flatten() {
                row[at + column] = weights.next().unwrap_or_default();
            }
        }
        for (place, value) in row[linear.bias..][..linear.outputs].iter_mut().zip(draws(2 * l + 1)) {
            *place = value;
        }
        if let Some(norm) = linear.norm {
            row[norm.gain..][..linear.outputs].fill(1.0);
        }
    }
}

/// How a layer's weights begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// PyTorch's default: uniform, biases too.
    Uniform,
    /// A matrix whose rows, or columns where these are fewer, are orthogonal and as long as this gain; biases 0 (Saxe,
    /// McClelland and Ganguli 2014; `torch.nn.init.orthogonal_`).
    Orthogonal(f32),
}

/// [`init`] with other beginnings: of a layer the last of `starts` whose text its name begins with decides, PyTorch's
/// default where none does. `("", Orthogonal(√2))` and then `("head.policy", Orthogonal(0.01))` is usual for policies.
/// Time grows with the cube of a layer's width.
///
/// # Errors
///
/// Where the memory is not enough for the row.
pub fn init_by(layout: &Layout, seed: u64, member: u32, starts: &[(String, Start)]) -> Result<Vec<f32>> {
    let mut row = filled(0.0, layout.params, "parameters")?;
    init_row(layout, seed, member, &mut row);
    let gain = |name: &str| {
        let start = starts.iter().rev().find(|(begins, _)| name.starts_with(begins.as_str()));
        start.and_then(|(_, start)| if let Start::Orthogonal(gain) = start { Some(*gain) } else { None })
    };
    // Places, shape, number and gain of each matrix: the largest take seconds, so all are made side by side.
    let mut matrices: Vec<(Vec<usize>, [usize; 2], usize, f32)> = Vec::new();
    for (r, recurrent) in layout.recurrents.iter().enumerate() {
        let Some(gain) = gain(&recurrent.name) else { continue };
        for (p, part) in recurrent.parts().into_iter().enumerate() {
            match part.shape.as_slice() {
                [rows, columns] => {
                    let tensor = 2 * layout.linears.len() + 3 * r + p;
                    matrices.push((part.places, [*rows, *columns], tensor, gain));
                }
                _ => part.places.into_iter().for_each(|at| row[at] = 0.0),
            }
        }
    }
    for (l, linear) in layout.linears.iter().enumerate() {
        let Some(gain) = gain(&linear.name) else { continue };
        matrices.push((super::params::places(linear).collect(), [linear.outputs, linear.inputs()], 2 * l, gain));
        row[linear.bias..][..linear.outputs].fill(0.0);
    }
    let make = |(_, shape, tensor, _): &(Vec<usize>, [usize; 2], usize, f32)| {
        orthogonal(*shape, words(seed, Stream::Init, *tensor as u32, member))
    };
    let made: Vec<Vec<f64>> = matrices.par_iter().map(make).collect();
    for ((places, _, _, gain), made) in matrices.iter().zip(made) {
        places.iter().zip(made).for_each(|(at, value)| row[*at] = (f64::from(*gain) * value) as f32);
    }
    Ok(row)
}

/// `[rows, columns]` from normals, by Gram and Schmidt, twice over each vector.
fn orthogonal([rows, columns]: [usize; 2], words: impl Iterator<Item = u32>) -> Vec<f64> {
    let (few, long) = (rows.min(columns), rows.max(columns));
    let words: Vec<u32> = words.take((few * long).next_multiple_of(4)).collect();
    let mut vectors: Vec<f64> = words.as_chunks().0.iter().flat_map(|w| normals(*w)).map(f64::from).collect();
    vectors.truncate(few * long);
    for v in 0..few {
        let (before, from) = vectors.split_at_mut(v * long);
        let own = &mut from[..long];
        for _ in 0..2 {
            for other in before.chunks_exact(long) {
                let along = dot(own, other);
                own.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = own.iter().map(|x| x * x).sum::<f64>().sqrt();
        own.iter_mut().for_each(|x| *x /= length);
    }
    if rows <= columns {
        return vectors;
    }
    (0..rows * columns).map(|i| vectors[i % columns * long + i / columns]).collect()
}

/// The sum of products, in eight sums side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// Uniform in (-1, 1) without its ends and without 0: the middles of 2²⁴ equal parts, exact in f32.
fn centred(bits: u32) -> f32 {
    (2 * (bits >> 8) as i32 + 1 - (1 << 24)) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Activation, Branch, Head, Input, Layer, Net};

    fn net(widths: &[usize]) -> Layout {
        let inputs = ["fast", "slow"].map(|name| Input::new(name, 3, 7));
        let layer = |width: &usize| Layer::new(*width, Activation::Relu);
        let net = Net {
            inputs: inputs.to_vec(),
            branches: vec![Branch { layers: vec![layer(&9)], ..Branch::default() }, Branch::default()],
            trunk: widths.iter().map(layer).collect(),
            heads: vec![Head { name: "up".into(), classes: 3 }],
            towers: vec![],
        };
        Layout::new(&net).unwrap()
    }

    #[test]
    fn centred_is_open_and_symmetric() {
        assert_eq!(centred(0), -centred(u32::MAX));
        assert!(centred(0) > -1.0 && centred((1 << 31) - 1) < 0.0 && centred(1 << 31) > 0.0);
    }

    #[test]
    fn values_fill_their_bounds_and_padding_is_zero() {
        let layout = net(&[50, 13]);
        let row = init(&layout, 5, 2);
        assert_eq!(row.len(), layout.params);
        let mut real = 0;
        for l in &layout.linears {
            let bound = 1.0 / (l.inputs() as f32).sqrt();
            let values: Vec<f32> = (0..l.outputs)
                .flat_map(|o| l.columns.iter().cloned().flatten().map(move |c| l.weight + o * l.input.width + c))
                .chain(l.bias..l.bias + l.outputs)
                .map(|at| row[at])
                .collect();
            assert_eq!(values.len(), l.outputs * (l.inputs() + 1));
            assert!(values.iter().all(|v| *v != 0.0 && v.abs() < bound), "{}", l.name);
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            // A uniform's deviation is bound / √3.
            assert!(mean.abs() < 4.0 * bound / (3.0 * values.len() as f32).sqrt(), "{}: {mean}", l.name);
            let square = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
            assert!((square / (bound * bound) - 1.0 / 3.0).abs() < 1.2 / (values.len() as f32).sqrt(), "{}", l.name);
            real += values.len();
        }
        assert_eq!(row.iter().filter(|v| **v != 0.0).count(), real);
    }

    #[test]
    fn an_lstm_fills_its_bounds_and_keeps_its_own_counters() {
        let layout = Layout::new(&"fast:3x7-lstm20-lstm9 + slow:5x2-lstm30 / 8 / up:3".parse().unwrap()).unwrap();
        let row = init(&layout, 5, 2);
        let mut real = 0;
        for r in &layout.recurrents {
            let bound = 1.0 / (r.hidden as f32).sqrt();
            for part in r.parts() {
                let values: Vec<f32> = part.places.iter().map(|at| row[*at]).collect();
                assert_eq!(values.len(), part.shape.iter().product::<usize>());
                assert!(values.iter().all(|v| *v != 0.0 && v.abs() < bound), "{}", part.name);
                let square = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
                assert!((square / (bound * bound) - 1.0 / 3.0).abs() < 1.2 / (values.len() as f32).sqrt());
            }
            real += r.parameters();
        }
        assert_eq!(row.iter().filter(|v| **v != 0.0).count(), layout.parameters());
        assert_eq!(layout.parameters() - real, 8 * 40 + 3 * 9);
        // Two linear layers have the tensors 0 to 3; the first `weight_ih` is tensor 4, drawn as a file has it.
        let first: Vec<f32> = words(5, Stream::Init, 4, 2).take(4).map(|w| centred(w) / 20f32.sqrt()).collect();
        let r = &layout.recurrents[0];
        for (place, wanted) in [r.at(0, 0, 0), r.at(1, 0, 0), r.at(2, 0, 0), r.at(0, 1, 0)].into_iter().zip(first) {
            assert!((row[place] - wanted).abs() < 1e-7);
        }
        // The layers behind draw as they did without a recurrent branch before them.
        let plain = Layout::new(&"fast:9 + slow:30 / 8 / up:3".parse().unwrap()).unwrap();
        let (a, b) = (&layout.linears[0], &plain.linears[0]);
        assert_eq!((a.columns.clone(), a.input.width), (b.columns.clone(), b.input.width));
        assert_eq!(
            row[a.weight..a.weight + 8 * a.input.width],
            init(&plain, 5, 2)[b.weight..b.weight + 8 * b.input.width]
        );
    }

    #[test]
    fn orthogonal_weights_are_orthogonal_and_as_long_as_their_gain() {
        let layout = Layout::new(&"fast:3x7-lstm5 + b:20-9n / 33-6 / up:3 + v:1".parse().unwrap()).unwrap();
        let starts = [(String::new(), Start::Orthogonal(1.5)), ("head.v".into(), Start::Orthogonal(0.01))];
        let starts: Vec<_> = starts.into_iter().chain([("trunk.1".to_string(), Start::Uniform)]).collect();
        let (row, plain) = (init_by(&layout, 5, 2, &starts).unwrap(), init(&layout, 5, 2));
        for (name, shape, values) in crate::net::flatten(&layout, &row) {
            let [rows, columns] = shape[..] else {
                let same = name.starts_with("trunk.1") || name.ends_with("norm.weight");
                assert!(same || values.iter().all(|x| *x == 0.0), "{name}");
                continue;
            };
            if name.starts_with("trunk.1") {
                let usual = crate::net::flatten(&layout, &plain).into_iter().find(|t| t.0 == name).unwrap().2;
                assert_eq!(values, usual);
                continue;
            }
            let gain: f64 = if name.starts_with("head.v") { 0.01 } else { 1.5 };
            let at = |v: usize, i: usize| {
                f64::from(if rows <= columns { values[v * columns + i] } else { values[i * columns + v] })
            };
            for (a, b) in (0..rows.min(columns)).flat_map(|a| (0..=a).map(move |b| (a, b))) {
                let product: f64 = (0..rows.max(columns)).map(|i| at(a, i) * at(b, i)).sum();
                let wanted = if a == b { gain * gain } else { 0.0 };
                assert!((product - wanted).abs() < 1e-5 * gain * gain, "{name}: {a} and {b} give {product}");
            }
        }
        assert_ne!(row, init_by(&layout, 5, 3, &starts).unwrap());
        assert_eq!(plain, init_by(&layout, 5, 2, &[]).unwrap());
    }

    #[test]
    fn members_seeds_and_tensors_differ_and_padding_does_not_matter() {
        let layout = net(&[16, 16, 16]);
        let row = init(&layout, 5, 2);
        assert_eq!(row, init(&layout, 5, 2));
        assert_ne!(row, init(&layout, 6, 2));
        assert_ne!(row, init(&layout, 5, 3));
        let [.., a, b, _] = layout.linears.as_slice() else { panic!("two layers of one shape") };
        assert_ne!(row[a.weight..][..256], row[b.weight..][..256]);
        // The concatenation is 9 columns and 7 of padding, then 21: the row is drawn as if the padding were not there.
        let trunk = layout.linears.iter().find(|l| l.name == "trunk.0").unwrap();
        let drawn: Vec<f32> =
            words(5, Stream::Init, 2, 2).map(|w| centred(w) * (1.0 / 30f64.sqrt()) as f32).take(60).collect();
        for (output, expected) in drawn.chunks(30).enumerate() {
            let at = trunk.weight + output * trunk.input.width;
            assert_eq!(row[at..at + 9], expected[..9]);
            assert_eq!(row[at + 9..at + 16], [0.0; 7]);
            assert_eq!(row[at + 16..at + 37], expected[9..]);
        }
    }
}
