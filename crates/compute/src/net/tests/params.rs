//! Parameters survive the way to a file and back; a file of another net, or a broken one, is a sentence.

use super::*;
use crate::error::Error;
use crate::net::params::{flatten, load, save};
use safetensors::tensor::{Dtype, TensorView};

const TEXT: &str = "fast:3x4-10-9t + raw:5 / 11 / up:3 + size:5";

const LSTM: &str = "fast:3x4-lstm10-lstm5-9t + raw:5 + slow:2x3-lstm17 / up:3";

fn sample(text: &str) -> (Net, Layout, Vec<f32>) {
    let net: Net = text.parse().unwrap();
    let layout = Layout::new(&net).unwrap();
    // Values only where there is a parameter: padding is zero.
    let mut row = vec![0.0; layout.params];
    let mut next = 0.0;
    for r in &layout.recurrents {
        for rows in [0..r.features, r.wide..r.wide + r.hidden, r.wide + r.units..r.wide + r.units + 1] {
            for (gate, unit) in (0..4).flat_map(|g| (0..r.hidden).map(move |u| (g, u))) {
                for k in rows.clone() {
                    next += 1.0;
                    row[r.at(k, unit, gate)] = next / 64.0;
                }
            }
        }
    }
    for l in &layout.linears {
        for o in 0..l.outputs {
            for c in l.columns.iter().flat_map(Clone::clone) {
                next += 1.0;
                row[l.weight + o * l.input.width + c] = next / 64.0;
            }
            row[l.bias + o] = -next;
            if let Some(norm) = l.norm {
                (row[norm.gain + o], row[norm.gain + l.output.width + o]) = (next / 8.0, -next / 4.0);
            }
        }
    }
    (net, layout, row)
}

/// The file with other tensors: `change` may alter name, shape, type and bytes, or drop a tensor.
type Raw = (String, Dtype, Vec<usize>, Vec<u8>);
fn rewritten(layout: &Layout, row: &[f32], change: impl Fn(&mut Vec<Raw>)) -> Vec<u8> {
    let mut raw: Vec<Raw> = flatten(layout, row)
        .into_iter()
        .map(|(name, shape, v)| (name, Dtype::F32, shape, v.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    change(&mut raw);
    let views = raw.iter().map(|(n, d, s, b)| (n.as_str(), TensorView::new(*d, s.clone(), b).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn parameters_round_trip() {
    for text in [TEXT, LSTM, "5-3", "128-64t-3", "a:6-9n-11ntd5 + b:3x2-lstm4d9-7n / 13n / 3"] {
        let (net, layout, row) = sample(text);
        let file = save(&net, &layout, &row);
        assert_eq!(load(&net, &layout, &file).unwrap(), row, "{text}");
        assert_eq!(save(&net, &layout, &row), file, "{text}: the same bytes");
    }
}

#[test]
fn names_shapes_and_metadata_are_readable() {
    let (net, layout, row) = sample(TEXT);
    let names: Vec<(String, Vec<usize>)> = flatten(&layout, &row).into_iter().map(|(n, s, _)| (n, s)).collect();
    let weights: Vec<&(String, Vec<usize>)> = names.iter().step_by(2).collect();
    let wanted = [("fast.0", 10, 12), ("fast.1", 9, 10), ("trunk.0", 11, 14), ("head.up", 3, 11), ("head.size", 5, 11)];
    for (got, (name, o, i)) in weights.iter().zip(wanted) {
        assert_eq!(**got, (format!("{name}.weight"), vec![o, i]));
    }
    assert_eq!(names[1], ("fast.0.bias".to_string(), vec![10]));
    // Of the trunk's first row the columns of fast, then those of raw, without the padding between.
    let (_, _, trunk) = &flatten(&layout, &row)[4];
    assert_eq!(trunk.len(), 11 * 14);
    assert!(trunk.windows(2).all(|v| v[1] - v[0] == 1.0 / 64.0));
    let file = save(&net, &layout, &row);
    let (_, header) = safetensors::SafeTensors::read_metadata(&file).unwrap();
    let about = header.metadata().clone().unwrap();
    assert_eq!(about.len(), 1);
    assert_eq!(about["fullbore"], format!("{{\"format\":1,\"net\":\"{net}\"}}"));
}

#[test]
fn lstm_tensors_match_pytorch() {
    let (_, layout, row) = sample(LSTM);
    let names: Vec<(String, Vec<usize>)> = flatten(&layout, &row).into_iter().map(|(n, s, _)| (n, s)).collect();
    let wanted = [
        ("fast.lstm.0.weight_ih", vec![40, 3]),
        ("fast.lstm.0.weight_hh", vec![40, 10]),
        ("fast.lstm.0.bias", vec![40]),
        ("fast.lstm.1.weight_ih", vec![20, 10]),
        ("fast.lstm.1.weight_hh", vec![20, 5]),
        ("fast.lstm.1.bias", vec![20]),
        ("slow.lstm.0.weight_ih", vec![68, 2]),
        ("slow.lstm.0.weight_hh", vec![68, 17]),
        ("slow.lstm.0.bias", vec![68]),
        ("fast.0.weight", vec![9, 5]),
    ];
    for (got, (name, shape)) in names.iter().zip(wanted) {
        assert_eq!(*got, (name.to_string(), shape));
    }
    // `sample` counts in PyTorch's order: i of every unit, then f, g, o.
    let all: Vec<f32> = flatten(&layout, &row)[..9].iter().flat_map(|t| t.2.clone()).collect();
    assert!(all.iter().enumerate().all(|(i, v)| *v == (i + 1) as f32 / 64.0));
}

#[test]
fn two_biases_are_read_as_their_sum() {
    let (net, layout, row) = sample(LSTM);
    let le = |values: Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let split = |raw: &mut Vec<Raw>| {
        for part in raw.extract_if(.., |t| t.0.contains("lstm") && t.0.ends_with(".bias")).collect::<Vec<_>>() {
            let values: Vec<f32> = part.3.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let (a, b) = (values.iter().map(|v| v - 1.5).collect(), values.iter().map(|_| 1.5).collect());
            raw.push((format!("{}_ih", part.0), Dtype::F32, part.2.clone(), le(a)));
            raw.push((format!("{}_hh", part.0), Dtype::F32, part.2, le(b)));
        }
    };
    assert_eq!(load(&net, &layout, &rewritten(&layout, &row, split)).unwrap(), row);
    let message = |change: &dyn Fn(&mut Vec<Raw>)| {
        load(&net, &layout, &rewritten(&layout, &row, change)).unwrap_err().to_string()
    };
    let one = message(&|raw| {
        split(raw);
        raw.retain(|t| t.0 != "fast.lstm.1.bias_hh");
    });
    assert!(one.contains("tensor `fast.lstm.1.bias_hh` is missing"), "{one}");
    let three = message(&|raw| raw.push(("fast.lstm.0.bias_ih".into(), Dtype::F32, vec![40], vec![0; 160])));
    assert!(three.contains("has no `fast.lstm.0.bias_ih`"), "{three}");
    let none = message(&|raw| raw.retain(|t| t.0 != "slow.lstm.0.bias"));
    assert!(none.contains("tensor `slow.lstm.0.bias` is missing"), "{none}");
}

#[test]
fn half_precision_is_read() {
    let (net, layout, row) = sample("5-7-3");
    for dtype in [Dtype::F16, Dtype::BF16] {
        let file = rewritten(&layout, &row, |raw| {
            for (_, d, _, bytes) in raw {
                let values = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
                *bytes = match dtype {
                    Dtype::F16 => values.flat_map(|v| half::f16::from_f32(v).to_le_bytes()).collect(),
                    _ => values.flat_map(|v| half::bf16::from_f32(v).to_le_bytes()).collect(),
                };
                *d = dtype;
            }
        });
        // 64ths up to 59 / 64 fit into both.
        assert_eq!(load(&net, &layout, &file).unwrap(), row, "{dtype:?}");
    }
}

#[test]
fn mismatched_tensors_are_named() {
    let (net, layout, row) = sample("5-7-3");
    let message = |file: &[u8]| match load(&net, &layout, file) {
        Err(Error::Invalid(message)) => message,
        other => panic!("{other:?}"),
    };
    let zeros = |n: usize| vec![0u8; n];
    type Change<'a> = &'a dyn Fn(&mut Vec<Raw>);
    let cases: [(Change<'_>, &str); 6] = [
        (&|raw| drop(raw.remove(3)), "tensor `head.class.bias` is missing"),
        (&|raw| raw.push(("trunk.1.bias".into(), Dtype::F32, vec![1], zeros(4))), "has no `trunk.1.bias`"),
        (&|raw| raw[0] = ("trunk.0.weight".into(), Dtype::F32, vec![5, 7], zeros(140)), "[5, 7]; the net needs [7, 5]"),
        (&|raw| raw[1] = ("trunk.0.bias".into(), Dtype::F64, vec![7], zeros(56)), "tensor `trunk.0.bias` is F64"),
        (&|raw| raw[1] = ("trunk.0.bias".into(), Dtype::I32, vec![7], zeros(28)), "tensor `trunk.0.bias` is I32"),
        (&|raw| raw[1].3[8..12].copy_from_slice(&f32::NAN.to_le_bytes()), "tensor `trunk.0.bias` is NaN at element 2"),
    ];
    for (change, wanted) in cases {
        let message = message(&rewritten(&layout, &row, change));
        assert!(message.contains(wanted), "wanted {wanted}: {message}");
    }
    assert!(message(b"").contains("not a safetensors file"));
    assert!(message(&u64::MAX.to_le_bytes()).contains("header is over"));
    assert!(message(&vec![0; 1 << 20]).contains("this net has at most"));
    // The same shapes with another activation are another net.
    let (other, ..) = sample("5-7t-3");
    assert!(message(&save(&other, &layout, &row)).contains("are of the net `5-7t-3`, not of `5-7-3`"));
}

#[test]
fn another_format_is_refused() {
    let (net, layout, row) = sample("5-7-3");
    for (about, wanted) in [("{\"format\":2}", "format `2`"), ("{", "not valid JSON"), ("[]", "format `null`")] {
        let raw: Vec<(String, Vec<u8>)> = vec![("x".into(), vec![0; 4])];
        let views = raw.iter().map(|(n, b)| (n.as_str(), TensorView::new(Dtype::F32, vec![1], b).unwrap()));
        let file = safetensors::serialize(views, Some([("fullbore".to_string(), about.to_string())].into())).unwrap();
        let message = load(&net, &layout, &file).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
    }
    assert!(load(&net, &layout, &save(&net, &layout, &row)).is_ok());
}

proptest! {
    #[test]
    fn parameters_of_any_net_round_trip(net in any_net()) {
        let (net, layout, row) = sample(&net.to_string());
        prop_assert_eq!(load(&net, &layout, &save(&net, &layout, &row)), Ok(row));
    }

    #[test]
    fn hostile_bytes_are_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
        in_header in any::<bool>(),
    ) {
        let (net, layout, row) = sample("5-7-3");
        let mut file = save(&net, &layout, &row);
        let header = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
        for (at, byte) in changes {
            let at = at.index(if in_header { header } else { file.len() });
            file[at] = byte;
        }
        if shorten {
            file.truncate(cut.index(file.len()));
        }
        // Either a row of the right length with finite numbers, or a sentence.
        match load(&net, &layout, &file) {
            Ok(row) => prop_assert!(row.len() == layout.params && row.iter().all(|v| v.is_finite())),
            Err(Error::Invalid(_)) => {}
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn any_bytes_are_an_error(file in prop::collection::vec(any::<u8>(), 0..200)) {
        let (net, layout, _) = sample("5-7-3");
        prop_assert!(load(&net, &layout, &file).is_err());
    }
}
