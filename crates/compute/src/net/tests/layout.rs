//! Everything has its place, and no two things share one.

use super::*;

fn layout(text: &str) -> (Net, Layout) {
    let net: Net = text.parse().unwrap();
    let layout = Layout::new(&net).unwrap();
    (net, layout)
}

#[test]
fn one_input_is_its_own_concatenation() {
    let (net, made) = layout("5-7-3");
    let strides: Vec<usize> = made.buffers.iter().map(|b| b.stride).collect();
    assert_eq!(strides, [8, 8, 8]);
    let [trunk, head] = made.linears.as_slice() else { panic!("two layers") };
    assert_eq!((trunk.name.as_str(), head.name.as_str()), ("trunk.0", "head.class"));
    assert_eq!((trunk.inputs(), trunk.outputs, head.inputs(), head.outputs), (5, 7, 7, 3));
    assert_eq!((trunk.weight, trunk.bias, head.weight, head.bias, made.params), (0, 64, 128, 192, 256));
    assert_eq!((trunk.passes_back, head.passes_back), (false, true));
    assert_eq!(head.activation, Activation::Identity);
    assert_eq!(made.gathered(&net), [Some(Place { buffer: 0, column: 0, width: 8 })]);
    assert_eq!(made.parameters(), 7 * 6 + 3 * 8);
}

#[test]
fn a_head_alone_reads_the_input() {
    let (_, made) = layout("5-3");
    assert_eq!(made.linears[0].input, Place { buffer: 0, column: 0, width: 8 });
    assert!(!made.linears[0].passes_back);
}

#[test]
fn branches_write_into_the_concatenation() {
    let (net, made) = layout("fast:3x4-10-9t + raw:5 + slow:2-6 / 11 / up:3 + size:5");
    // Inputs (the raw one needs no buffer of its own), concatenation, a hidden layer of fast, trunk, two heads.
    let strides: Vec<usize> = made.buffers.iter().map(|b| b.stride).collect();
    assert_eq!(strides, [16, 0, 8, 32, 16, 16, 8, 8]);
    let find = |name: &str| made.linears.iter().find(|l| l.name == name).unwrap();
    assert_eq!(find("fast.0").output, Place { buffer: 4, column: 0, width: 16 });
    assert_eq!(find("fast.1").output, Place { buffer: 3, column: 0, width: 16 });
    assert_eq!(find("slow.0").output, Place { buffer: 3, column: 24, width: 8 });
    assert_eq!(
        made.gathered(&net),
        [
            Place { buffer: 0, column: 0, width: 16 },
            Place { buffer: 3, column: 16, width: 8 },
            Place { buffer: 2, column: 0, width: 8 },
        ]
        .map(Some)
    );
    let trunk = find("trunk.0");
    assert_eq!(trunk.input, Place { buffer: 3, column: 0, width: 32 });
    assert_eq!(trunk.columns, [0..9, 16..21, 24..30]);
    let passing: Vec<&str> = made.linears.iter().filter(|l| l.passes_back).map(|l| l.name.as_str()).collect();
    assert_eq!(passing, ["fast.1", "trunk.0", "head.up", "head.size"]);
    assert_eq!(find("head.up").input, find("head.size").input);
}

#[test]
fn inputs_that_only_stand_side_by_side_get_no_gradient() {
    let (net, made) = layout("a:4 + b:9 / 8 / 3");
    assert!(!made.linears[0].passes_back);
    assert_eq!(made.linears[0].columns, [0..4, 8..17]);
    assert!(made.gathered(&net).iter().all(|place| place.is_some_and(|p| p.buffer == 2)));
}

#[test]
fn an_lstm_alone_writes_the_concatenation() {
    let (net, made) = layout("17x50-lstm20-3");
    let strides: Vec<usize> = made.buffers.iter().map(|b| b.stride).collect();
    assert_eq!(strides, [0, 24, 8]);
    let [lstm] = made.recurrents.as_slice() else { panic!("one recurrent layer") };
    assert_eq!((lstm.name.as_str(), lstm.input, lstm.below, lstm.window), ("rows.lstm.0", 0, None, 50));
    assert_eq!((lstm.features, lstm.wide, lstm.hidden, lstm.units), (17, 32, 20, 32));
    assert_eq!(lstm.output, Some(Place { buffer: 1, column: 0, width: 24 }));
    assert_eq!((lstm.weight, lstm.size(), lstm.bias()), (0, 65 * 128, 64 * 128));
    assert_eq!(lstm.at(33, 2, 3), 33 * 128 + 2 * 4 + 3);
    let [head] = made.linears.as_slice() else { panic!("one head") };
    assert_eq!((head.input, head.columns[0].clone(), head.passes_back), (lstm.output.unwrap(), 0..20, true));
    assert_eq!(head.weight, 65 * 128);
    assert_eq!(made.gathered(&net), [None]);
    assert_eq!(made.parameters(), 80 * (17 + 20 + 1) + 3 * 21);
}

#[test]
fn recurrent_branches_stand_beside_others() {
    let (net, made) = layout("fast:16x50-lstm64-lstm30-9t + raw:5 + slow:12x24-lstm33 / 11 / up:3");
    // No buffer for either window, nor for the raw input; the concatenation, what fast's layer reads, trunk, head.
    let strides: Vec<usize> = made.buffers.iter().map(|b| b.stride).collect();
    assert_eq!(strides, [0, 0, 0, 64, 32, 16, 8]);
    let [low, high, slow] = made.recurrents.as_slice() else { panic!("three recurrent layers") };
    assert_eq!((low.below, low.features, low.wide, low.units, low.output), (None, 16, 16, 64, None));
    assert_eq!((high.below, high.features, high.wide, high.units), (Some(0), 64, 64, 32));
    assert_eq!(high.output, Some(Place { buffer: 4, column: 0, width: 32 }));
    assert_eq!((slow.input, slow.below, slow.window, slow.wide, slow.units), (2, None, 24, 16, 48));
    assert_eq!(slow.output, Some(Place { buffer: 3, column: 24, width: 40 }));
    assert_eq!(made.linears.iter().map(|l| l.passes_back).collect::<Vec<_>>(), [true; 3]);
    assert_eq!(made.linears[0].columns[0], 0..30);
    assert_eq!(made.linears[1].columns, [0..9, 16..21, 24..57]);
    assert_eq!(made.gathered(&net), [None, Some(Place { buffer: 3, column: 16, width: 8 }), None]);
}

proptest! {
    #[test]
    fn nothing_overlaps(net in any_net()) {
        let made = Layout::new(&net).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(made.params % 64, 0);
        prop_assert_eq!((made.inputs, made.heads), (net.inputs.len(), net.heads.len()));
        // Parameters: on borders, one behind the other, inside the row.
        let mut end = 0;
        for (i, r) in made.recurrents.iter().enumerate() {
            prop_assert_eq!((r.weight % 64, r.wide % 16, r.units % 16), (0, 0, 0));
            prop_assert!(r.weight >= end && r.features <= r.wide && r.hidden <= r.units);
            end = r.weight + r.size();
            prop_assert_eq!(r.window, net.inputs[r.input].window);
            match r.below.map(|below| &made.recurrents[below]) {
                Some(below) => prop_assert!(r.below == Some(i - 1) && below.input == r.input && below.output.is_none()
                    && (r.features, r.wide) == (below.hidden, below.units)),
                None => prop_assert_eq!(r.features, net.inputs[r.input].features),
            }
        }
        for l in &made.linears {
            prop_assert_eq!((l.weight % 64, l.bias % 64), (0, 0));
            prop_assert!(l.weight >= end && l.bias >= l.weight + l.input.width * l.output.width);
            end = l.bias + l.output.width;
        }
        prop_assert!(end <= made.params);
        // Every column of every buffer is written at most once: by a gathered input or by a layer.
        let mut written: Vec<Vec<bool>> = made.buffers.iter().map(|b| vec![false; b.stride]).collect();
        let outputs = made.linears.iter().map(|l| l.output);
        let last = made.recurrents.iter().filter_map(|r| r.output);
        for place in made.gathered(&net).into_iter().flatten().chain(last).chain(outputs) {
            prop_assert_eq!((place.column % PAD, place.width % PAD), (0, 0));
            for column in &mut written[place.buffer][place.column..place.column + place.width] {
                prop_assert!(!std::mem::replace(column, true), "{:?}", place);
            }
        }
        // And no layer reads what nobody wrote.
        for l in &made.linears {
            prop_assert!(written[l.input.buffer][l.input.column..l.input.column + l.input.width].iter().all(|w| *w));
            prop_assert!(l.columns.iter().all(|c| c.end <= l.input.width && !c.is_empty()));
            prop_assert!(l.columns.windows(2).all(|c| c[0].end <= c[1].start));
        }
        let last = &made.linears[made.linears.len() - made.heads..];
        prop_assert!(last.iter().all(|l| l.name.starts_with("head.") && l.activation == Activation::Identity));
    }
}
