//! The catalogue is whole: names, words, and every output builds at its defaults and at its smallest numbers.

use super::*;
use std::collections::HashSet;

/// Builds one output with these numbers on the default sources; gives the graph and the value's node.
fn build(indicator: &Indicator, params: Vec<f64>, output: usize) -> (Graph, Id) {
    let (mut graph, mut columns) = (Graph::default(), Vec::new());
    let mut sources = Vec::new();
    for source in indicator.sources {
        // What has to be said is the close here.
        let source = if source.is_empty() { "close" } else { source };
        let source =
            find(source).unwrap_or_else(|| panic!("{} is taken of {source}, which is unknown", indicator.name));
        assert!(source.sources.is_empty() && source.params.is_empty(), "{} is taken of a column", indicator.name);
        let (graph, columns) = (&mut graph, &mut columns);
        sources.push((source.build)(&mut Build { graph, columns, sources: vec![], params: vec![], output: 0 }));
    }
    let (graph_place, columns) = (&mut graph, &mut columns);
    let id = (indicator.build)(&mut Build { graph: graph_place, columns, sources, params, output });
    (graph, id)
}

fn outputs(indicator: &Indicator) -> usize {
    indicator.outputs.len().max(1)
}

#[test]
fn there_are_as_many_outputs_as_the_guide_says() {
    let all: usize = catalogue().map(outputs).sum();
    let plain: usize = catalogue().filter(|i| i.kind == Kind::Price).map(outputs).sum();
    assert!(all - plain >= 80, "{all} outputs, {plain} of them columns and arithmetic");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/features.md")).unwrap();
    assert!(page.contains(&format!("catalogue of {all} outputs")), "docs/guide/features.md: there are {all} outputs");
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut names = HashSet::new();
    for indicator in catalogue() {
        assert!(names.insert(indicator.name), "two indicators are called {}", indicator.name);
        let mut own = HashSet::new();
        let params = indicator.params.iter().map(|p| p.name);
        for name in std::iter::once(indicator.name).chain(indicator.outputs.iter().copied()).chain(params) {
            let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(!name.is_empty() && name.chars().all(fine), "{}: {name}", indicator.name);
        }
        assert!(indicator.outputs.iter().all(|o| own.insert(o)), "{}: an output twice", indicator.name);
        assert!(indicator.about.ends_with('.'), "{}: about is a sentence", indicator.name);
    }
}

#[test]
fn indicator_groups_are_in_order() {
    let kinds: Vec<Kind> = catalogue().map(|i| i.kind).collect();
    assert!(kinds.is_sorted(), "{kinds:?}");
}

#[test]
fn every_output_builds_at_its_defaults_and_at_its_smallest_numbers() {
    for indicator in catalogue() {
        let defaults: Vec<f64> = indicator.params.iter().map(|p| p.default.unwrap_or(p.range.0)).collect();
        let smallest: Vec<f64> = indicator.params.iter().map(|p| p.range.0).collect();
        for (param, value) in indicator.params.iter().zip(&defaults) {
            assert!(param.range.0 <= *value && *value <= param.range.1, "{}: {}", indicator.name, param.name);
        }
        for params in [defaults, smallest] {
            let mut nodes = HashSet::new();
            for output in 0..outputs(indicator) {
                let (graph, id) = build(indicator, params.clone(), output);
                let spec = graph.node(id);
                let settled = graph.settled_alone(id, 1e-5);
                assert!(settled.is_none_or(|s| s >= spec.first), "{} {params:?}: {spec:?}", indicator.name);
                nodes.insert(format!("{:?} {id:?}", graph.nodes()));
            }
            let wide = params.iter().all(|p| *p > 1.0);
            assert!(!wide || nodes.len() == outputs(indicator), "{} {params:?}: two outputs are one", indicator.name);
        }
    }
}

/// At the bars at which TA-Lib begins.
#[test]
fn first_values_appear_where_declared() {
    const CASES: &[(&str, &[f64], usize, usize)] = &[
        ("sma", &[20.0], 0, 19),
        ("dema", &[20.0], 0, 38),
        ("tema", &[20.0], 0, 57),
        ("kama", &[10.0], 0, 10),
        ("rsi", &[14.0], 0, 14),
        ("stochrsi", &[14.0, 5.0, 3.0], 1, 20),
        ("stoch", &[14.0, 3.0, 3.0], 1, 17),
        ("macd", &[12.0, 26.0, 9.0], 0, 25),
        ("macd", &[12.0, 26.0, 9.0], 2, 33),
        ("ppo", &[12.0, 26.0, 9.0], 0, 25),
        ("trix", &[15.0], 0, 43),
        ("cci", &[20.0], 0, 19),
        ("ultimate", &[7.0, 14.0, 28.0], 0, 28),
        ("plus_di", &[14.0], 0, 14),
        ("dx", &[14.0], 0, 14),
        ("adx", &[14.0], 0, 27),
        ("aroon", &[14.0], 2, 14),
        ("atr", &[14.0], 0, 14),
        ("sar", &[0.02, 0.2], 0, 1),
        ("obv", &[], 0, 1),
        ("ad", &[], 0, 0),
        ("adosc", &[3.0, 10.0], 0, 9),
        ("mfi", &[14.0], 0, 14),
        ("ichimoku", &[9.0, 26.0, 52.0], 3, 77),
        ("yang_zhang", &[20.0], 0, 20),
    ];
    for (name, params, output, first) in CASES {
        let (graph, id) = build(find(name).unwrap(), params.to_vec(), *output);
        assert_eq!(graph.node(id).first, *first, "{name}");
    }
}

/// A start fades as the average of averages does, and the tolerance decides how long that takes.
#[test]
fn columns_settle_by_their_decay() {
    for (text, settled) in [
        ("sma(20)", [19, 19]),
        ("rsi(14)", [148, 241]),
        ("adx(14)", [196, 295]),
        ("ema(20)", [118, 187]),
        ("sma(ema(20), 10)", [127, 196]),
    ] {
        let set = crate::language::parse(text, None).unwrap();
        let at = |settle: f64| {
            let plan = crate::plan::Plan::with_settle(&set, settle).unwrap();
            plan.layers[0].settled_alone(plan.layers[0].outputs[0].id).unwrap()
        };
        assert_eq!([1e-3, 1e-6].map(at), settled, "{text}");
    }
}

/// Name, text, columns, most columns of volume.
const PRESETS: &[(&str, &str, std::ops::RangeInclusive<usize>, usize)] = &[
    ("basic", include_str!("../presets/basic.txt"), 18..=22, 3),
    ("full", include_str!("../presets/full.txt"), 80..=84, 8),
    ("universe", include_str!("../presets/universe.txt"), 32..=36, 3),
    ("two_timeframe", include_str!("../presets/two_timeframe.txt"), 32..=40, 8),
];

#[test]
fn presets_settle_and_are_free_of_scale() {
    for (name, text, columns, volume) in PRESETS {
        let set = crate::language::parse(text, None).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let plan = crate::plan::Plan::new(&set).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert!(columns.contains(&plan.width()), "{name}: {} columns", plan.width());
        let gone = plan.without_volume().1;
        assert!(gone.len() <= *volume, "{name}: {} columns of volume: {gone:?}", gone.len());
        for layer in &plan.layers {
            let mut ids = HashSet::new();
            for output in &layer.outputs {
                let settled = layer.settled_alone(output.id);
                assert!(settled.is_some_and(|s| s <= 350), "{name}: {} settles at {settled:?}", output.name);
                assert!(ids.insert(output.id), "{name}: {} is there twice", output.name);
            }
        }
    }
}

/// Ten times the prices and a hundred times the volume leave every feature where it was.
#[test]
fn presets_are_independent_of_price_scale() {
    for (name, text, ..) in PRESETS {
        let plan = crate::plan::Plan::new(&crate::language::parse(text, None).unwrap()).unwrap();
        for layer in &plan.layers {
            let [small, large] = [1.0, 10.0].map(|scale| run(layer, scale));
            for (output, (a, b)) in layer.outputs.iter().zip(small.iter().zip(&large)) {
                let near = (a - b).abs() <= 1e-6 * a.abs().max(1e-3);
                assert!(near && a.is_finite() && a.abs() < 20.0, "{name}: {} is {a}, then {b}", output.name);
            }
        }
    }
}

/// The last row of a layer over a wandering price.
fn run(layer: &crate::plan::Layer, scale: f64) -> Vec<f64> {
    const BARS: usize = 900;
    let mut engine = crate::engine::Engine::<1>::new(&layer.graph, BARS);
    let mut seed = 7u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut price = 100.0;
    let mut bars = Vec::new(); // [BARS][open, high, low, close, volume, day]
    for i in 0..BARS {
        let open = price;
        price *= 1.0 + 0.01 * (random() - 0.49);
        let (high, low) = (open.max(price) * (1.0 + 0.003 * random()), open.min(price) * (1.0 - 0.003 * random()));
        bars.push([
            open * scale,
            high * scale,
            low * scale,
            price * scale,
            (1.0 + random()) * scale * scale,
            (i / 50) as f64,
        ]);
    }
    engine.run(BARS, &mut |column, rows| {
        for (row, bar) in rows.iter_mut().zip(&bars) {
            row[0] = match &layer.columns[column] {
                Column::Open => bar[0],
                Column::High => bar[1],
                Column::Low => bar[2],
                Column::Close => bar[3],
                Column::Volume => bar[4],
                Column::Day => bar[5],
                _ => 0.5,
            };
        }
        true
    });
    layer.outputs.iter().map(|output| engine.block(output.id.index(), BARS).0[BARS - 1][0]).collect()
}
