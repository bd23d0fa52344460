//! First weights: PyTorch's defaults. Of a `Linear` weights and biases alike are uniform in `(-1/√inputs, 1/√inputs)`,
//! of an `LSTM` all are in `(-1/√units, 1/√units)`.
//!
//! Keyed by seed, member, number of the tensor (weights `2 l`, bias `2 l + 1` of layer `l`; behind those of all layers
//! three for each recurrent one: `weight_ih`, `weight_hh`, `bias`) and the element's place in the tensor without
//! padding, as a file has it, so that another padding gives the same net. Padding is zero. The gain of a norm is 1, its
//! shift 0.

use super::Layout;
use crate::random::{Stream, words};

/// `[params]` a member's row of the arena at the start.
pub fn init(layout: &Layout, seed: u64, member: u32) -> Vec<f32> {
    let mut row = vec![0.0; layout.params];
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
    row
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
        let inputs = ["fast", "slow"].map(|name| Input { name: name.into(), features: 3, window: 7 });
        let layer = |width: &usize| Layer::new(*width, Activation::Relu);
        let net = Net {
            inputs: inputs.to_vec(),
            branches: vec![Branch { layers: vec![layer(&9)], ..Branch::default() }, Branch::default()],
            trunk: widths.iter().map(layer).collect(),
            heads: vec![Head { name: "up".into(), classes: 3 }],
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
