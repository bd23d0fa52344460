//! Whole nets against PyTorch: `tests/fixtures/*.safetensors`, made by `oracles/fixtures/compute.py`, which says what
//! is in a file.
//!
//! Each case fits into one batch, so one step is one epoch and the order of samples changes nothing but rounding.
//! [`check`] runs a backend through all cases: logits and gradients at the start, then loss, norm and parameters for
//! five steps. A number is right within the tolerance times the largest of its tensor: 1e-5 in f32, 1e-3 in bf16, where
//! the order of a sum can turn a rounding.

use super::backend::{Arena, Backend};
use super::{Data, Member, Optimiser, Precision, Recipe, Rule, Scale, State};
use crate::device::{Budget, Opened};
use crate::error::Result;
use crate::net::params::{Tensor, flatten, load, save};
use crate::net::{Layout, Net};
use crate::tables::{Table, Tables};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use std::sync::Arc;

const STEPS: usize = 5;
const FILES: [(&str, &[u8]); 28] = [
    ("plain_f32", include_bytes!("../../tests/fixtures/plain_f32.safetensors")),
    ("branches_f32", include_bytes!("../../tests/fixtures/branches_f32.safetensors")),
    ("tail_f32", include_bytes!("../../tests/fixtures/tail_f32.safetensors")),
    ("head_alone_f32", include_bytes!("../../tests/fixtures/head_alone_f32.safetensors")),
    ("plain_bf16", include_bytes!("../../tests/fixtures/plain_bf16.safetensors")),
    ("branches_bf16", include_bytes!("../../tests/fixtures/branches_bf16.safetensors")),
    ("tail_bf16", include_bytes!("../../tests/fixtures/tail_bf16.safetensors")),
    ("head_alone_bf16", include_bytes!("../../tests/fixtures/head_alone_bf16.safetensors")),
    ("lstm_1_f32", include_bytes!("../../tests/fixtures/lstm_1_f32.safetensors")),
    ("lstm_2_f32", include_bytes!("../../tests/fixtures/lstm_2_f32.safetensors")),
    ("lstm_3_f32", include_bytes!("../../tests/fixtures/lstm_3_f32.safetensors")),
    ("fast_slow_f32", include_bytes!("../../tests/fixtures/fast_slow_f32.safetensors")),
    ("lstm_1_bf16", include_bytes!("../../tests/fixtures/lstm_1_bf16.safetensors")),
    ("lstm_2_bf16", include_bytes!("../../tests/fixtures/lstm_2_bf16.safetensors")),
    ("lstm_3_bf16", include_bytes!("../../tests/fixtures/lstm_3_bf16.safetensors")),
    ("fast_slow_bf16", include_bytes!("../../tests/fixtures/fast_slow_bf16.safetensors")),
    ("smooth_f32", include_bytes!("../../tests/fixtures/smooth_f32.safetensors")),
    ("norms_f32", include_bytes!("../../tests/fixtures/norms_f32.safetensors")),
    ("drops_f32", include_bytes!("../../tests/fixtures/drops_f32.safetensors")),
    ("extras_f32", include_bytes!("../../tests/fixtures/extras_f32.safetensors")),
    ("smooth_bf16", include_bytes!("../../tests/fixtures/smooth_bf16.safetensors")),
    ("norms_bf16", include_bytes!("../../tests/fixtures/norms_bf16.safetensors")),
    ("drops_bf16", include_bytes!("../../tests/fixtures/drops_bf16.safetensors")),
    ("extras_bf16", include_bytes!("../../tests/fixtures/extras_bf16.safetensors")),
    ("towers_f32", include_bytes!("../../tests/fixtures/towers_f32.safetensors")),
    ("dense_f32", include_bytes!("../../tests/fixtures/dense_f32.safetensors")),
    ("towers_bf16", include_bytes!("../../tests/fixtures/towers_bf16.safetensors")),
    ("dense_bf16", include_bytes!("../../tests/fixtures/dense_bf16.safetensors")),
];

/// One case: what goes in, and what PyTorch made of it.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) net: Net,
    pub(crate) layout: Layout,
    pub(crate) recipe: Recipe,
    pub(crate) member: Member,
    tables: Vec<(Vec<f32>, usize)>, // [inputs] values [rows, stride], stride; of dense inputs too
    maps: Vec<Option<Vec<u32>>>,    // [inputs][rows]
    labels: Vec<Vec<u8>>,           // [heads][rows]
    weights: Option<Vec<f32>>,      // [rows]
    samples: Vec<u32>,              // [n]
    wanted: Trace,
}

/// What a backend, or PyTorch, did with a case.
struct Trace {
    logits: Vec<Vec<f32>>,    // [heads][n, classes] at the start
    gradient: Vec<Tensor>,    // of the mean loss, at the start
    losses: Vec<f64>,         // [steps]
    norms: Vec<f64>,          // [steps]
    params: Vec<Vec<Tensor>>, // [steps + 1]
}

impl Fixture {
    /// Its tables on a device.
    pub(crate) fn tables(&self, device: &Opened) -> Result<Arc<Tables>> {
        let read = || (0..self.net.inputs.len()).filter(|i| !self.net.inputs[*i].dense);
        let tables: Vec<Table<'_>> =
            read().map(|i| Table { values: &self.tables[i].0, stride: self.tables[i].1 }).collect();
        let maps: Vec<Option<&[u32]>> = read().map(|i| self.maps[i].as_deref()).collect();
        Tables::new(device, Budget::default(), &tables, &maps)
    }

    /// `[rows, extras]` the numbers of dense inputs.
    pub(crate) fn extras(&self, rows: &[u32]) -> Vec<f32> {
        let mut extras = Vec::new();
        for row in rows {
            let dense = self.net.inputs.iter().zip(&self.tables).filter(|(input, _)| input.dense);
            dense.for_each(|(i, (values, stride))| extras.extend(&values[*row as usize * stride..][..i.features]));
        }
        extras
    }

    /// The data as an engine wants it.
    pub(crate) fn data(&self) -> Data<'_> {
        Data {
            labels: self.labels.iter().map(Vec::as_slice).collect(),
            weights: self.weights.as_deref(),
            lists: vec![&self.samples],
        }
    }

    fn read(name: &'static str, file: &[u8]) -> Fixture {
        let (_, header) = SafeTensors::read_metadata(file).unwrap();
        let about: Value = serde_json::from_str(&header.metadata().as_ref().unwrap()["fixture"]).unwrap();
        let tensors = SafeTensors::deserialize(file).unwrap();
        let words = |name: &str| -> Option<(Vec<usize>, Vec<[u8; 4]>)> {
            let tensor = tensors.tensor(name).ok()?;
            Some((tensor.shape().to_vec(), tensor.data().as_chunks().0.to_vec()))
        };
        let floats =
            |name: &str| words(name).map(|(s, w)| (s, w.into_iter().map(f32::from_le_bytes).collect::<Vec<_>>()));
        let ids = |name: &str| words(name).map(|(_, w)| w.into_iter().map(u32::from_le_bytes).collect::<Vec<_>>());
        let number = |key: &str| about[key].as_f64().unwrap() as f32;
        let list = |key: &str| about[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();

        let net: Net = about["net"].as_str().unwrap().parse().unwrap();
        let layout = Layout::new(&net).unwrap();
        let each = |prefix: &str| {
            let blank = flatten(&layout, &vec![0.0; layout.params]);
            let one = |(name, shape, _): Tensor| {
                let (found, values) = floats(&format!("{prefix}.{name}")).unwrap();
                assert_eq!(found, shape, "{name}");
                (name, shape, values)
            };
            blank.into_iter().map(one).collect::<Vec<_>>()
        };
        let scale = |i: usize| {
            let (_, mean) = floats(&format!("scale.{i}.mean"))?;
            Some(Scale { mean, inverse: floats(&format!("scale.{i}.inverse"))?.1 })
        };
        let inputs = 0..net.inputs.len();
        Fixture {
            name,
            recipe: Recipe {
                batch: about["batch"].as_u64().unwrap() as usize,
                precision: if about["precision"] == "bf16" { Precision::Bf16 } else { Precision::F32 },
                optimiser: Optimiser {
                    rule: if about["rule"] == "adam" { Rule::Adam } else { Rule::AdamW },
                    beta1: number("beta1"),
                    beta2: number("beta2"),
                    eps: number("eps"),
                    decay: number("decay"),
                    clip: about["clip"].as_f64().map(|c| c as f32),
                },
                schedule: serde_json::from_value(about["schedule"].clone()).unwrap(),
                smoothing: number("smoothing"),
                average: about["average"].as_f64().map(|d| d as f32),
                seed: 1,
            },
            member: Member {
                id: 7,
                train: 0,
                valid: None,
                epochs: STEPS as u32 + 1,
                rate: number("rate"),
                scales: inputs.clone().map(scale).collect(),
                class_weights: net
                    .heads
                    .iter()
                    .map(|h| floats(&format!("class_weights.{}", h.name)).map_or(vec![], |(_, w)| w))
                    .collect(),
            },
            tables: inputs
                .clone()
                .map(|i| floats(&format!("table.{i}")).map(|(shape, values)| (values, shape[1])).unwrap())
                .collect(),
            maps: inputs.map(|i| ids(&format!("map.{i}"))).collect(),
            labels: net
                .heads
                .iter()
                .map(|h| tensors.tensor(&format!("labels.{}", h.name)).unwrap().data().to_vec())
                .collect(),
            weights: floats("weights").map(|(_, w)| w),
            samples: ids("samples").unwrap(),
            wanted: Trace {
                logits: net.heads.iter().map(|h| floats(&format!("logits.{}", h.name)).unwrap().1).collect(),
                gradient: each("gradient"),
                losses: list("loss"),
                norms: list("norm"),
                params: (0..=STEPS).map(|step| each(&format!("params.{step}"))).collect(),
            },
            net,
            layout,
        }
    }
}

/// What a case asks of whatever trains.
pub(crate) trait Trainee {
    /// Begins with this row of parameters.
    fn begin(&mut self, row: &[f32]) -> Result<()>;
    /// `[heads][rows, classes]`
    fn logits(&mut self, rows: &[u32]) -> Result<Vec<Vec<f32>>>;
    /// One step and the state after it; it then waits no longer if it is due.
    fn step(&mut self) -> Result<State>;
    /// `[params]` as they are.
    fn params(&mut self) -> Result<Vec<f32>>;
    /// `[params]` the last gradient, not divided by the weight sum.
    fn gradient(&mut self) -> Result<Vec<f32>>;
}

impl Trainee for Box<dyn Backend + '_> {
    fn begin(&mut self, row: &[f32]) -> Result<()> {
        self.write(0, Arena::Params, row)
    }

    fn logits(&mut self, rows: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.as_mut().logits(0, rows)
    }

    fn step(&mut self) -> Result<State> {
        self.steps(1, 1)?;
        let mut states = self.states()?;
        let state = states[0];
        states[0].slot.due = 0;
        self.set_states(&states)?;
        Ok(state)
    }

    fn params(&mut self) -> Result<Vec<f32>> {
        self.read(0, Arena::Params)
    }

    fn gradient(&mut self) -> Result<Vec<f32>> {
        self.read(0, Arena::Gradient)
    }
}

/// Runs a backend through every case. `make` gives it with one member in slot 0, ready for its first step.
pub(crate) fn check(make: impl for<'a> Fn(&'a Fixture) -> Result<Box<dyn Backend + 'a>>) {
    each(|fixture| match fixture.net.extras() {
        0 => judge(fixture, &mut make(fixture)?),
        // A population has rows of tables alone.
        _ => Ok(()),
    });
}

/// Calls `one` with every case.
pub(crate) fn each(one: impl Fn(&Fixture) -> Result<()>) {
    for (name, file) in FILES {
        one(&Fixture::read(name, file)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Takes it through a case and panics where PyTorch has another number.
pub(crate) fn judge(fixture: &Fixture, trainee: &mut impl Trainee) -> Result<()> {
    match difference(fixture, trainee)? {
        Some(what) => panic!("{}: {what}", fixture.name),
        None => Ok(()),
    }
}

/// The first number that PyTorch has otherwise.
pub(crate) fn difference(fixture: &Fixture, trainee: &mut impl Trainee) -> Result<Option<String>> {
    Ok(compare(fixture, &run(fixture, trainee)?).err())
}

fn run(fixture: &Fixture, trainee: &mut impl Trainee) -> Result<Trace> {
    let (net, layout) = (&fixture.net, &fixture.layout);
    let first: Vec<(&String, &Vec<usize>, Vec<u8>)> = fixture.wanted.params[0]
        .iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = first.iter().map(|(n, s, b)| (n, TensorView::new(Dtype::F32, s.to_vec(), b).unwrap()));
    let row = load(net, layout, &safetensors::serialize(views, None).unwrap())?;
    trainee.begin(&row)?;
    let mut trace = Trace {
        logits: trainee.logits(&fixture.samples)?,
        gradient: vec![],
        losses: vec![],
        norms: vec![],
        params: vec![flatten(layout, &row)],
    };
    for step in 1..=STEPS as u32 {
        // Every step ends an epoch, and there is no list to validate on.
        let state = trainee.step()?;
        assert_eq!(
            (state.slot.step, state.epoch.done, state.slot.fault, state.slot.due),
            (step, step, 0, 1),
            "{}",
            fixture.name
        );
        if step == 1 {
            let sums = trainee.gradient()?;
            let mean: Vec<f32> = sums.iter().map(|g| (f64::from(*g) / state.epoch.weight) as f32).collect();
            trace.gradient = flatten(layout, &mean);
        }
        trace.losses.push(state.epoch.loss / state.epoch.weight);
        trace.norms.push(f64::from(state.slot.norm));
        let row = trainee.params()?;
        assert_eq!(load(net, layout, &save(net, layout, &row))?, row, "{}: padding stays zero", fixture.name);
        trace.params.push(flatten(layout, &row));
    }
    Ok(trace)
}

fn compare(fixture: &Fixture, got: &Trace) -> std::result::Result<(), String> {
    let wanted = &fixture.wanted;
    // A card's tanh is right to 2⁻¹¹, which rounds some h to the next bf16, and the steps after it carry that on:
    // single numbers may be further away then, whole tensors not. A norm behind it divides by the deviation of a few
    // units, which makes that larger.
    let normed = fixture.layout.linears.iter().any(|l| l.norm.is_some());
    let (tolerance, norm) = match (fixture.recipe.precision, fixture.layout.recurrents.is_empty()) {
        (Precision::F32, _) => (1e-5, 1e-5),
        (_, true) => (1e-3, 1e-3),
        (_, false) if normed => (1e-2, 5e-3),
        (_, false) => (5e-3, 2e-3),
    };
    let near = |what: &str, got: &[f32], wanted: &[f32]| {
        if got.len() != wanted.len() {
            return Err(format!("{what} has {} numbers, PyTorch's {}", got.len(), wanted.len()));
        }
        let scale = wanted.iter().fold(0f32, |m, v| m.max(v.abs())).max(f32::MIN_POSITIVE);
        let far = got.iter().zip(wanted).position(|(g, w)| g.is_nan() || (g - w).abs() > tolerance * scale);
        let square = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let off =
            square(&mut got.iter().zip(wanted).map(|(g, w)| g - w)) / square(&mut wanted.iter().copied()).max(1e-30);
        if wanted.len() > 1 && off > norm {
            return Err(format!("{what} is {off:.1e} from PyTorch's by norm"));
        }
        far.map_or(Ok(()), |i| {
            let (g, w) = (got[i], wanted[i]);
            let off = (g - w).abs() / scale;
            Err(format!("{what}[{i}] is {g}, PyTorch has {w}: {off:.1e} of the largest, {scale}"))
        })
    };
    let tensors = |what: &str, got: &[Tensor], wanted: &[Tensor]| {
        let mut pairs = got.iter().zip(wanted);
        pairs.try_for_each(|((name, _, g), (_, _, w))| near(&format!("{what} {name}"), g, w))
    };
    for (head, (g, w)) in fixture.net.heads.iter().zip(got.logits.iter().zip(&wanted.logits)) {
        near(&format!("logits of {}", head.name), g, w)?;
    }
    tensors("gradient of", &got.gradient, &wanted.gradient)?;
    for step in 0..STEPS {
        let at = |what: &str| format!("step {}: {what}", step + 1);
        near(&at("loss"), &[got.losses[step] as f32], &[wanted.losses[step] as f32])?;
        near(&at("norm"), &[got.norms[step] as f32], &[wanted.norms[step] as f32])?;
        tensors(&at(""), &got.params[step + 1], &wanted.params[step + 1])?;
    }
    Ok(())
}
