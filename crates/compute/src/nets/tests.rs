//! Nets without a loss: against the plain operations, against a population, against differences, on every device there
//! is.

use super::{Batch, Forward, Hyper, MemberSetup, Nets, OnCard, Rows, Setup, StepOptions};
use crate::cuda::{Array, Context, Plain, Slab, Stream};
use crate::device::{Budget, Opened};
use crate::net::{Layout, Net, Start};
use crate::ops::{loss, optimise, step, whole};
use crate::population::fixtures::{self, Fixture, Trainee};
use crate::population::tests::{cards, devices};
use crate::population::{
    Data, EpochState, Member, Optimiser, Pins, Population, Precision, Recipe, Rule, Scale, SlotState, State,
};
use crate::random::{Turn, philox, uniform};
use crate::tables::{Table, Tables};
use std::sync::Arc;

/// A tower for actions and one for a value, over a table, a branch and numbers of each row.
const TWO: &str = "fast:5x3-12t + slow:7 + account:dense3 / 20-9t | (slow account) 16 / policy:5 + size:2 | value:1";
/// The same where all towers read everything.
const SHARED: &str = "fast:5x3-12t + slow:7 + account:dense3 / 20-9t | 16 / policy:5 + size:2 | value:1";

fn number(stream: u64, i: usize) -> f32 {
    2.0 * uniform(philox(stream, [i as u32, 0, 7, 0])[0]) - 1.0
}

fn numbers(stream: u64, n: usize) -> Vec<f32> {
    (0..n).map(|i| number(stream, i)).collect()
}

/// A net, tables for it, members that scale differently, and a batch.
pub(super) struct World {
    net: Net,
    layout: Layout,
    values: Vec<Vec<f32>>, // [tables]
    member_setups: Vec<MemberSetup>,
    pub(super) rows: usize,
    ids: Vec<u32>,
    extras: Vec<f32>,
}

const TABLE_ROWS: usize = 300;

impl World {
    pub(super) fn new(net: &str, members: usize, rows: usize) -> World {
        let net: Net = net.parse().unwrap();
        let stride = |features: usize| features.next_multiple_of(4);
        let read: Vec<usize> = net.inputs.iter().filter(|i| !i.dense).map(|i| i.features).collect();
        let values: Vec<Vec<f32>> =
            read.iter().enumerate().map(|(i, f)| numbers(i as u64, TABLE_ROWS * stride(*f))).collect();
        let scale = |id: u64, i: usize, features: usize| {
            let inverse = (0..features).map(|f| 1.0 + 0.3 * number(80 + id, f + 50 * i)).collect();
            id.is_multiple_of(2)
                .then(|| Scale { mean: (0..features).map(|f| 0.2 * number(90 + id, f)).collect(), inverse })
        };
        let member_setup = |id: u64| MemberSetup {
            id: id as u32 + 3,
            scales: net.inputs.iter().enumerate().map(|(i, input)| scale(id, i, input.features)).collect(),
        };
        let id = |k: usize| 10 + philox(5, [k as u32, 0, 0, 0])[0] % (TABLE_ROWS as u32 - 10);
        World {
            layout: Layout::new(&net).unwrap(),
            member_setups: (0..members as u64).map(member_setup).collect(),
            rows,
            ids: if values.is_empty() { vec![] } else { (0..members * rows).map(id).collect() },
            extras: numbers(70, members * rows * net.extras()),
            values,
            net,
        }
    }

    fn tables(&self, device: &Opened) -> Arc<Tables> {
        let read = self.net.inputs.iter().filter(|i| !i.dense);
        let tables: Vec<Table<'_>> = (read.zip(&self.values))
            .map(|(input, values)| Table { values, stride: input.features.next_multiple_of(4) })
            .collect();
        Tables::new(device, Budget::default(), &tables, &vec![None; tables.len()]).unwrap()
    }

    pub(super) fn nets(&self, device: &Opened, precision: Precision) -> Nets {
        self.made(device, precision, &self.member_setups).unwrap()
    }

    fn made(&self, device: &Opened, precision: Precision, member_setups: &[MemberSetup]) -> crate::Result<Nets> {
        let setup = Setup { rule: Some(Rule::AdamW), seed: 4, ..Setup::inference(self.rows.max(1), precision) };
        let tables = self.tables(device);
        Nets::new(device, Budget::default(), &self.net, &tables, &setup, member_setups, &Pins::default())
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { rows: self.rows, ids: &self.ids, extras: &self.extras }
    }

    /// `[inputs][rows, window × features]` of one member, as the plain operations read them.
    fn inputs<R: crate::ops::Real>(&self, member: usize, precision: Precision) -> Vec<Vec<R>> {
        let rows = member * self.rows..(member + 1) * self.rows;
        let one = |(i, input): (usize, &crate::net::Input)| {
            let scale = self.member_setups[member].scales[i].as_ref();
            let each = rows.clone().flat_map(|row| {
                let values = match self.net.table_of(i) {
                    Some(table) => {
                        let stride = input.features.next_multiple_of(4);
                        let table = Table { values: &self.values[table], stride };
                        return crate::ops::gather::gather::<R>(
                            table,
                            self.ids[row],
                            input.window,
                            input.features,
                            scale,
                            precision,
                        );
                    }
                    None => &self.extras[row * self.net.extras() + self.net.extra_of(i)..][..input.features],
                };
                let mut padded = values.to_vec();
                padded.resize(input.features.next_multiple_of(4), 0.0);
                let table = Table { values: &padded, stride: padded.len() };
                crate::ops::gather::gather::<R>(table, 0, 1, input.features, scale, precision)
            });
            each.collect()
        };
        self.net.inputs.iter().enumerate().map(one).collect()
    }
}

pub(super) fn near(what: &str, got: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let scale = wanted.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        assert!((g - w).abs() <= tolerance * scale, "{what}[{i}]: {g} is not {w}; the largest is {scale}");
    }
}

pub(super) fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// Forward, backward and one step of every member against the plain operations.
fn check(name: &str, device: &Opened, net: &str, rows: usize, precision: Precision) {
    let world = World::new(net, 3, rows);
    let case = format!("{name}, {net}, {rows} rows, {precision:?}");
    let near_by = if precision == Precision::Bf16 { 1e-2 } else { 2e-5 };
    let mut nets = world.nets(device, precision);
    let mut out = vec![vec![]; world.net.heads.len()];
    nets.set_training(true);
    nets.forward(0..3, world.batch(), &mut out).unwrap();
    let d_out: Vec<Vec<f32>> = out.iter().enumerate().map(|(h, out)| numbers(40 + h as u64, out.len())).collect();
    let refs: Vec<&[f32]> = d_out.iter().map(Vec::as_slice).collect();
    let before: Vec<Vec<f32>> = (0..3).map(|m| nets.params(m).unwrap()).collect();
    nets.backward(&refs).unwrap();
    let hyper = |m: usize| Hyper {
        rate: 0.01 * (m + 1) as f32,
        beta1: 0.9 - 0.1 * m as f32,
        beta2: 0.99 + 0.001 * m as f32,
        eps: 1e-3 * (m + 1) as f32,
        decay: 0.1 * m as f32,
        clip: [None, Some(0.5), Some(1e3)][m],
        weight: 1.0 + m as f64,
    };
    let norms = nets.optimise(&[0, 1, 2].map(hyper), None).unwrap();
    for m in 0..3 {
        let inputs = world.inputs::<f32>(m, precision);
        let turn = Some(Turn { seed: 4, member: world.member_setups[m].id, step: 0 });
        let values = whole::forward(&world.net, &world.layout, &before[m], &inputs, rows, turn, precision);
        for (h, (head, wanted)) in world.net.heads.iter().zip(whole::logits(&world.layout, &values, rows)).enumerate() {
            let got = &out[h][m * rows * head.classes..(m + 1) * rows * head.classes];
            near(&format!("{case}: output {h} of member {m}"), got, &wanted, near_by);
        }
        let given = |(d, head): (&Vec<f32>, &crate::net::Head)| -> Vec<f32> {
            let own = &d[m * rows * head.classes..(m + 1) * rows * head.classes];
            own.iter().map(|x| crate::ops::Real::rounded_to(*x, precision)).collect()
        };
        let given: Vec<Vec<f32>> = d_out.iter().zip(&world.net.heads).map(given).collect();
        let gradient = whole::backward(&world.layout, &before[m], &values, &given, rows, turn, precision);
        near(&format!("{case}: gradient of member {m}"), &nets.gradient(m).unwrap(), &gradient, near_by);
        // From here on with the gradient that was made, so that an eps or a square does not enlarge a last bit.
        let (gradient, hyper) = (nets.gradient(m).unwrap(), hyper(m));
        let norm = optimise::norm(&gradient, hyper.weight);
        assert!((norm as f32 - norms[m]).abs() < 1e-5 * norms[m], "{case}: {norm} is not {}", norms[m]);
        let step = optimise::Step::new(&hyper.optimiser(Rule::AdamW), f64::from(hyper.rate), 1, norm, hyper.weight);
        let (mut params, mut mean, mut square) =
            (before[m].clone(), vec![0.0; gradient.len()], vec![0.0; gradient.len()]);
        optimise::optimise(&step, &mut params, &mut mean, &mut square, &gradient);
        near(&format!("{case}: params of member {m}"), &nets.params(m).unwrap(), &params, 2e-6);
        let kept = nets.optimiser(m).unwrap();
        assert_eq!(kept.2, 1);
        near(&format!("{case}: mean"), &kept.0, &mean, 2e-6);
        near(&format!("{case}: square"), &kept.1, &square, 2e-6);
    }
}

#[test]
fn passes_match_the_reference_loops() {
    for (name, device) in devices() {
        for precision in [Precision::F32, Precision::Bf16] {
            for (net, rows) in [
                (SHARED, 70),
                ("16-64-1", 33),
                ("16-24t-256", 40),
                ("8-1", 1),
                ("account:dense6 / 24-24t / policy:3 + value:1", 130),
                ("fast:5x3-12n + b:4 / 16n / up:3 + size:1", 50),
                ("fast:6x5-lstm12 + account:dense2 / 16 / policy:4 + value:1", 40),
            ] {
                check(&name, &device, net, rows, precision);
            }
            for net in [
                TWO,
                // Towers with norms add up beside the gradient of what all towers read.
                "fast:5x3-12n + b:4 + c:dense3 / 16n-8n | (b c) 12n-9 | (fast) 20 / up:3 + size:1 | v:2 | w:1",
                "fast:6x5-lstm12 + b:4-8t + c:dense3 / 16t | (b c) 9 | (c) 12-8 / p:3 | v:1 + w:1 | u:2",
                "fast:5x3-12d20 + b:4 / 16nd25-24d10 / up:3 + size:1",
                "fast:6x5-lstm12d30 + account:dense2 / 16d20 | (account) 12d50 / policy:4 | value:1",
            ] {
                check(&name, &device, net, 70, precision);
            }
            if matches!(device, Opened::Cpu { .. }) {
                check(&name, &device, "a:300-600d10 + b:dense4 / 512 | 300-8 / policy:3 | value:1", 70, precision);
            }
        }
    }
}

/// A population's step done by hand, for the cases that PyTorch did.
struct ByHand<'a> {
    fixture: &'a Fixture,
    nets: Nets,
    step: u32,
}

impl Trainee for ByHand<'_> {
    fn begin(&mut self, row: &[f32]) -> crate::Result<()> {
        self.nets.set_params(0, row)
    }

    fn logits(&mut self, rows: &[u32]) -> crate::Result<Vec<Vec<f32>>> {
        let mut out = vec![vec![]; self.fixture.net.heads.len()];
        let extras = self.fixture.extras(rows);
        self.nets.forward(0..1, Batch { rows: rows.len(), ids: rows, extras: &extras }, &mut out)?;
        Ok(out)
    }

    fn step(&mut self) -> crate::Result<State> {
        let Fixture { recipe, member, .. } = self.fixture;
        let data = self.fixture.data();
        let rows = data.lists[0];
        let out = self.logits(rows)?;
        let weights = step::weights(&data, member, rows, &vec![1.0; rows.len()]);
        let (loss, back) = step::losses(&data, &out, rows, &weights, recipe.smoothing, recipe.precision);
        self.nets.backward(&back.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        self.step += 1;
        let weight: f64 = weights[0].iter().map(|w| f64::from(*w)).sum();
        let Optimiser { beta1, beta2, eps, decay, clip, .. } = recipe.optimiser;
        let rate = (f64::from(member.rate) * recipe.schedule.factor(self.step, member.epochs)) as f32;
        let norm = self.nets.optimise(&[Hyper { rate, beta1, beta2, eps, decay, clip, weight }], None)?[0];
        Ok(State {
            slot: SlotState { step: self.step, due: 1, norm, ..SlotState::default() },
            epoch: EpochState { done: self.step, loss, weight, ..EpochState::default() },
        })
    }

    fn params(&mut self) -> crate::Result<Vec<f32>> {
        self.nets.params(0)
    }

    fn gradient(&mut self) -> crate::Result<Vec<f32>> {
        self.nets.gradient(0)
    }
}

#[test]
fn whole_nets_match_pytorch() {
    for (_, device) in devices() {
        fixtures::each(|fixture| {
            let layout = &fixture.layout;
            if layout.linears.iter().any(|l| l.dropout > 0) || layout.recurrents.iter().any(|r| r.dropout > 0) {
                return Ok(());
            }
            let rows = fixture.data().lists[0].len();
            let rule = Some(fixture.recipe.optimiser.rule);
            let setup = Setup { rule, ..Setup::inference(rows, fixture.recipe.precision) };
            let member_setups = [MemberSetup { id: 7, scales: fixture.member.scales.clone() }];
            let tables = fixture.tables(&device)?;
            let pins = Pins::default();
            let nets = Nets::new(&device, Budget::default(), &fixture.net, &tables, &setup, &member_setups, &pins)?;
            fixtures::judge(fixture, &mut ByHand { fixture, nets, step: 0 })
        });
    }
}

/// A stream of a card, and memory on it.
struct Card {
    stream: Stream,
    slab: Slab,
}

impl Card {
    fn new(context: &Arc<Context>, bytes: u64) -> Card {
        Card { stream: Stream::new(context).unwrap(), slab: context.slab(bytes).unwrap() }
    }

    fn put<T: Plain>(&mut self, values: &[T]) -> Array<T> {
        let to = self.slab.array(values.len()).unwrap();
        to.put(&self.stream, values).unwrap();
        to
    }
}

const RECURRENT: &str = "fast:6x5-lstm12 + account:dense2 / 16 / policy:4 + value:1";

#[test]
fn a_card_works_on_a_stream_and_in_a_graph() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        for (net, precision) in
            [SHARED, RECURRENT].into_iter().flat_map(|net| [(net, Precision::F32), (net, Precision::Bf16)])
        {
            let world = World::new(net, 3, 40);
            let (heads, params) = (&world.net.heads, world.layout.params);
            let (mut host, mut nets) = (world.nets(&device, precision), world.nets(&device, precision));
            let mut card = Card::new(&context, (4 << 20) + 32 * params as u64);
            let d_out: Vec<Vec<f32>> = heads.iter().map(|head| numbers(40, 3 * 40 * head.classes)).collect();
            let (ids, extras) = (card.put(&world.ids), card.put(&world.extras));
            let given: Vec<Array<f32>> = d_out.iter().map(|d| card.put(d)).collect();
            let (parts, mask) = (card.put(&numbers(9, 6 * params)), card.put(&[1u32, 0, 1]));
            let (norms, out) = (card.put(&[7.0f32; 3]), nets.head_arrays(40).unwrap());
            let hypers = |times: f32| {
                [0.01, 0.02, 0.03].map(|rate| Hyper {
                    rate: times * rate,
                    beta1: 0.9 - rate * times,
                    decay: rate,
                    clip: (rate > 0.01).then_some(0.1),
                    weight: f64::from(times),
                    ..Hyper::default()
                })
            };
            let card_hypers = nets.hypers(&hypers(1.0)).unwrap();
            let stream = &card.stream;
            let work = |nets: &mut Nets| {
                nets.forward_on(stream, OnCard { rows: 40, ids: Some(&ids), extras: Some(&extras) }, &out)?;
                nets.backward_on(stream, &given)?;
                let masked = StepOptions { mask: Some(&mask), norms: Some(&norms), ..StepOptions::default() };
                nets.optimise_on(stream, &card_hypers, masked)?;
                nets.optimise_on(stream, &card_hypers, StepOptions { parts: Some(&parts), ..StepOptions::default() })?;
                nets.adopt_on(stream, 0, 2)
            };
            // Once as it is, which loads everything, then from a graph, with other hyper-parameters each time.
            let taken = || context.taken.load(std::sync::atomic::Ordering::Relaxed);
            let before = taken();
            assert!(stream.capture(|| work(&mut nets)).err().unwrap().to_string().contains("run them once"));
            work(&mut nets).unwrap();
            stream.wait().unwrap();
            let graph = stream.capture(|| work(&mut nets)).unwrap();
            assert_eq!(taken(), before, "{net}: memory that no need counts");
            let (mut made, refs) = (vec![vec![]; heads.len()], d_out.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut seen = vec![];
            for step in 1..=3u8 {
                let hypers = hypers(f32::from(step));
                if step > 1 {
                    card_hypers.put(stream, &hypers).unwrap();
                    graph.launch(stream).unwrap();
                }
                host.forward(0..3, world.batch(), &mut made).unwrap();
                host.backward(&refs).unwrap();
                seen = host.optimise(&hypers, Some(&[true, false, true])).unwrap();
                host.optimise_parts(&numbers(9, 6 * params), &hypers, None).unwrap();
                host.adopt(0, 2).unwrap();
            }
            let case = format!("{net} {precision:?}");
            for (made, out) in made.iter().zip(&out) {
                assert_eq!(bits(&out.get(stream).unwrap()), bits(made), "{case}");
            }
            assert_eq!(bits(&norms.get(stream).unwrap()), bits(&seen), "{case}");
            assert!(seen[0] > 0.0 && seen[1] == 0.0, "{seen:?}");
            let whole = nets.params_on_card().unwrap().get(stream).unwrap();
            for m in 0..3 {
                let params = nets.params(m).unwrap();
                assert_eq!(bits(&params), bits(&host.params(m).unwrap()), "{case}");
                assert_eq!(bits(&params), bits(&whole[m * params.len()..(m + 1) * params.len()]));
                assert_eq!(nets.optimiser(m).unwrap(), host.optimiser(m).unwrap());
                assert_eq!(nets.optimiser(m).unwrap().2, if m == 1 { 3 } else { 6 });
            }
            // The graph keeps what it needs when the nets are gone.
            let before = norms.get(stream).unwrap();
            drop(nets);
            graph.launch(stream).unwrap();
            assert_ne!(norms.get(stream).unwrap(), before);
        }
    }
    let world = World::new(SHARED, 1, 4);
    let device = Opened::Cpu { threads: 1 };
    let mut nets = world.nets(&device, Precision::F32);
    assert!(nets.card().is_err() && nets.head_arrays(4).is_err() && nets.settle().is_ok());
}

#[test]
fn a_card_takes_any_number_of_rows() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        for precision in [Precision::F32, Precision::Bf16] {
            // As many as it was set up for, fewer, more than twice as many, and of nets that only predict.
            for (rows, inference) in [(40, false), (17, false), (93, false), (93, true), (1, true)] {
                let world = World::new(SHARED, 2, rows);
                let setup = Setup { seed: 4, ..Setup::inference(40, precision) };
                let setup = if inference { setup } else { Setup { rule: Some(Rule::AdamW), ..setup } };
                let (tables, pins) = (world.tables(&device), Pins::default());
                let make = || {
                    Nets::new(&device, Budget::default(), &world.net, &tables, &setup, &world.member_setups, &pins)
                        .unwrap()
                };
                let (mut host, mut nets) = (make(), make());
                let mut card = Card::new(&context, 4 << 20);
                let (ids, extras) = (card.put(&world.ids), card.put(&world.extras));
                let out = nets.head_arrays(rows).unwrap();
                let given = OnCard { rows, ids: Some(&ids), extras: Some(&extras) };
                nets.forward_on(&card.stream, given, &out).unwrap();
                let mut made = vec![vec![]; 3];
                host.forward(0..2, world.batch(), &mut made).unwrap();
                for (made, out) in made.iter().zip(&out) {
                    assert_eq!(bits(&out.get(&card.stream).unwrap()), bits(made), "{rows} {inference} {precision:?}");
                }
                // The outputs themselves as a gradient.
                let back = nets.backward_on(&card.stream, &out);
                assert_eq!(back.is_ok(), !inference && rows <= 40, "{rows} {inference}");
                if back.is_ok() {
                    host.backward(&made.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
                    assert_eq!(bits(&nets.gradient(1).unwrap()), bits(&host.gradient(1).unwrap()), "{rows}");
                }
                // Parameters that somebody else wrote.
                let all = nets.params_on_card().unwrap();
                let twice: Vec<f32> = all.get(&card.stream).unwrap().iter().map(|x| 2.0 * x).collect();
                all.put(&card.stream, &twice).unwrap();
                nets.params_changed_on(&card.stream).unwrap();
                nets.forward_on(&card.stream, given, &out).unwrap();
                for (m, row) in twice.chunks_exact(world.layout.params).enumerate() {
                    host.set_params(m, row).unwrap();
                }
                host.forward(0..2, world.batch(), &mut made).unwrap();
                assert_eq!(
                    bits(&out[2].get(&card.stream).unwrap()),
                    bits(&made[2]),
                    "{rows} {inference} {precision:?}"
                );
            }
        }
    }
}

#[test]
fn invalid_ids_on_a_card_are_reported_and_harmless() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        let world = World::new(SHARED, 2, 16);
        let mut card = Card::new(&context, 1 << 20);
        let extras = card.put(&world.extras);
        let stream = &card.stream;
        // With a map that leads an id, which the world never asks for, to a row that has no window of three.
        let read = |i: usize, stride: usize| Table { values: &world.values[i], stride };
        let map: Vec<u32> = (0..TABLE_ROWS as u32).map(|i| if i == 5 { 1 } else { i }).collect();
        let tables = [read(0, 8), read(1, 8)];
        let tables = Tables::new(&device, Budget::default(), &tables, &[Some(&map), None]).unwrap();
        let setup = Setup { rule: Some(Rule::AdamW), ..Setup::inference(16, Precision::F32) };
        let mut nets =
            Nets::new(&device, Budget::default(), &world.net, &tables, &setup, &world.member_setups, &Pins::default())
                .unwrap();
        let (out, clean) = (nets.head_arrays(16).unwrap(), nets.head_arrays(16).unwrap());
        let ids = card.slab.array(32).unwrap();
        let given = OnCard { rows: 16, ids: Some(&ids), extras: Some(&extras) };
        for (bad, words) in [
            (300, "300 is none of the 300 ids"),
            (u32::MAX, "4294967295 is none of the 300 ids"),
            (0, "reaches before the table; leave out 0"),
            (1, "reaches before the table"),
            (5, "ends at row 1 of input fast reaches before the table; leave out 5"),
        ] {
            // In its place is the first id that has whole windows.
            let with = |at: u32| -> Vec<u32> {
                world.ids.iter().enumerate().map(|(i, id)| if i == 21 { at } else { *id }).collect()
            };
            ids.put(stream, &with(2)).unwrap();
            nets.forward_on(stream, given, &clean).unwrap();
            nets.settle().unwrap();
            ids.put(stream, &with(bad)).unwrap();
            nets.forward_on(stream, given, &out).unwrap();
            for (out, clean) in out.iter().zip(&clean) {
                assert_eq!(bits(&out.get(stream).unwrap()), bits(&clean.get(stream).unwrap()), "{bad}");
            }
            let message = nets.params(0).unwrap_err().to_string();
            assert!(
                message.contains("rows on the card") && message.contains(words),
                "`{message}` does not say `{words}`"
            );
            nets.params(0).unwrap();
        }
        // What does not fit is refused before anything is put on the stream.
        let short = ids.part(0, 31).unwrap();
        let refused = |result: crate::Result<()>, words: &str| {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(words), "`{message}` does not say `{words}`");
        };
        refused(nets.forward_on(stream, OnCard { ids: Some(&short), ..given }, &out), "31 ids; 32 are wanted");
        refused(nets.forward_on(stream, OnCard { ids: None, ..given }, &out), "0 ids; 32 are wanted");
        refused(nets.forward_on(stream, OnCard { extras: None, ..given }, &out), "0 extras; 96 are wanted");
        refused(nets.forward_on(stream, given, &out[..2]), "2 arrays of outputs; 3 are wanted");
        nets.forward_on(stream, given, &out).unwrap();
        let swapped = [out[1].clone(), out[0].clone(), out[2].clone()];
        refused(nets.backward_on(stream, &swapped), "gradients of head.policy; 160 are wanted");
        let card_hypers = nets.hypers(&[Hyper::default(); 2]).unwrap();
        refused(card_hypers.put(stream, &[Hyper::default()]), "1 hyper-parameters for 2 members");
        refused(card_hypers.put(stream, &[Hyper { beta2: 1.0, ..Hyper::default() }; 2]), "beta2 is 1");
        let step = |parts| StepOptions { parts: Some(parts), ..StepOptions::default() };
        refused(nets.optimise_on(stream, &card_hypers, step(&extras)), "parts of 96 numbers");
        let mask = StepOptions { mask: Some(&ids), ..StepOptions::default() };
        refused(nets.optimise_on(stream, &card_hypers, mask), "32 words of a mask; 2 are wanted");
        refused(nets.adopt_on(stream, 0, 2), "no member 2");
    }
}

#[test]
fn dropout_applies_only_in_training() {
    for (name, device) in devices() {
        let world = World::new("fast:5x3-12d50 + b:4 / 16d50 / up:3", 2, 40);
        let plain = World::new("fast:5x3-12 + b:4 / 16 / up:3", 2, 40);
        let (mut nets, mut without) = (world.nets(&device, Precision::F32), plain.nets(&device, Precision::F32));
        let pass = |nets: &mut Nets| {
            let mut out = vec![vec![]];
            nets.forward(0..2, world.batch(), &mut out).unwrap();
            out.remove(0)
        };
        let (predicted, wanted) = (pass(&mut nets), pass(&mut without));
        near(&name, &predicted, &wanted, 2e-6);
        let d_out = vec![1.0; predicted.len()];
        let message = nets.backward(&[&d_out]).unwrap_err().to_string();
        assert!(message.contains("set_training"), "{message}");
        nets.set_training(true);
        let trained = pass(&mut nets);
        assert_ne!(bits(&trained), bits(&predicted), "{name}");
        assert_eq!(bits(&pass(&mut nets)), bits(&trained), "{name}: one step leaves out the same");
        nets.backward(&[&d_out]).unwrap();
        nets.optimise(&[Hyper { rate: 0.0, decay: 0.0, ..Hyper::default() }; 2], None).unwrap();
        assert_ne!(bits(&pass(&mut nets)), bits(&trained), "{name}: the next one others");
        nets.set_training(false);
        assert_eq!(bits(&pass(&mut nets)), bits(&predicted), "{name}");
    }
}

#[test]
fn inference_keeps_its_pinned_algorithms() {
    for (name, device) in devices() {
        for net in ["16-320-256t-3", "6x5-lstm96-64-3", "16-64-3"] {
            let world = World::new(net, 1, 100);
            let setup = Setup::inference(64, Precision::Bf16);
            let pins = Nets::plan_pins(&device, &world.net, &setup, &Pins::default()).unwrap();
            assert_eq!(Nets::plan_pins(&device, &world.net, &setup, &pins).unwrap(), pins, "{name} {net}");
            // Small nets, cards without the library and processors have none.
            assert_eq!(pins.0.is_empty(), name != "cuda" || net == "16-64-3", "{name} {net}: {pins:?}");
            // What is not known here is chosen anew: a model may be asked anywhere.
            let strange = Pins(pins.0.keys().map(|key| (key.clone(), "9 9 9".into())).collect());
            let pass = |pins: &Pins| {
                let tables = world.tables(&device);
                let mut nets =
                    Nets::new(&device, Budget::default(), &world.net, &tables, &setup, &world.member_setups, pins)
                        .unwrap();
                let mut out = vec![vec![]];
                nets.forward(0..1, world.batch(), &mut out).unwrap();
                bits(&out[0])
            };
            assert!(pass(&pins) == pass(&Pins::default()) && pass(&pins) == pass(&strange), "{name} {net}");
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    // In f64, by the plain operations; what the devices do is held against these.
    let world = World::new(TWO, 1, 6);
    let inputs: Vec<Vec<f64>> = world.inputs(0, Precision::F32);
    let mut params: Vec<f64> = crate::net::init(&world.layout, 4, 3).into_iter().map(f64::from).collect();
    let d_out: Vec<Vec<f64>> = (world.net.heads.iter().enumerate())
        .map(|(h, head)| numbers(40 + h as u64, 6 * head.classes).into_iter().map(f64::from).collect())
        .collect();
    let run = |params: &[f64]| {
        let values = whole::forward(&world.net, &world.layout, params, &inputs, 6, None, Precision::F32);
        let out = whole::logits(&world.layout, &values, 6);
        let sum: f64 = out.iter().zip(&d_out).flat_map(|(o, d)| o.iter().zip(d)).map(|(o, d)| o * d).sum();
        (sum, values)
    };
    let values = run(&params).1;
    let gradient = whole::backward(&world.layout, &params, &values, &d_out, 6, None, Precision::F32);
    let mut seen = 0;
    for at in 0..params.len() {
        let kept = params[at];
        if kept == 0.0 {
            continue;
        }
        params[at] = kept + 1e-5;
        let above = run(&params).0;
        params[at] = kept - 1e-5;
        let difference = (above - run(&params).0) / 2e-5;
        params[at] = kept;
        assert!((difference - gradient[at]).abs() < 1e-7 * (1.0 + difference.abs()), "{at}: {difference}");
        seen += 1;
    }
    assert_eq!(seen, world.layout.parameters());
}

#[test]
fn nets_trained_by_hand_match_a_population() {
    for (name, device) in devices() {
        for net in ["16-64-3", "6x4-lstm12-8-3", "24x10-512-512t-3"] {
            let (world, rows) = (World::new(net, 2, 96), 96);
            let labels: Vec<u8> = (0..TABLE_ROWS).map(|i| (philox(9, [i as u32, 0, 0, 0])[0] % 3) as u8).collect();
            let list = &world.ids[..rows];
            let tables = world.tables(&device);
            let member = |member_setup: &MemberSetup| Member {
                id: member_setup.id,
                train: 0,
                valid: None,
                epochs: 9,
                rate: 0.01,
                scales: member_setup.scales.clone(),
                class_weights: vec![vec![]],
            };
            let members: Vec<Member> = world.member_setups.iter().map(member).collect();
            let data = Data { labels: vec![&labels], weights: None, lists: vec![list] };
            let recipe = Recipe::new(rows, Precision::F32, 4);
            let mut population =
                Population::new(&device, Budget::default(), &world.net, &tables, &data, &recipe, &members).unwrap();
            let mut nets = world.nets(&device, Precision::F32);
            for step in 0..4 {
                population.steps(1).unwrap();
                population.stop_waiting().unwrap();
                // The rows in the order of each member's epoch.
                let order =
                    |member_setup: &MemberSetup| crate::random::Permutation::new(rows as u32, 4, member_setup.id, step);
                let ids: Vec<u32> = (world.member_setups.iter())
                    .flat_map(|member_setup| (0..rows as u32).map(move |i| (member_setup, i)))
                    .map(|(member_setup, i)| list[order(member_setup).at(i) as usize])
                    .collect();
                let mut out = vec![vec![]];
                nets.forward(0..2, Batch { rows, ids: &ids, extras: &[] }, &mut out).unwrap();
                let mut d_out = vec![0.0; out[0].len()];
                for ((z, dz), id) in out[0].chunks(3).zip(d_out.chunks_mut(3)).zip(&ids) {
                    loss::softmax_cross_entropy(z, labels[*id as usize], 1.0, 0.0, dz);
                }
                nets.backward(&[&d_out]).unwrap();
                nets.optimise(&[Hyper { rate: 0.01, weight: rows as f64, ..Hyper::default() }; 2], None).unwrap();
            }
            for (m, member_setup) in world.member_setups.iter().enumerate() {
                let (got, wanted) = (nets.params(m).unwrap(), population.params(member_setup.id).unwrap());
                // The powers of e differ in their last bit between the plain softmax and the fast one, and AdamW makes
                // a step of the smallest gradient: single numbers come 3e-4 of the largest apart. On a card the
                // population's head is fused with its loss as well: there the rows are compared as a whole.
                if name.starts_with("cpu") {
                    near(&format!("{name} {net}"), &got, &wanted, 6e-4);
                }
                let square = |x: f32| f64::from(x).powi(2);
                let apart: f64 = got.iter().zip(&wanted).map(|(g, w)| square(g - w)).sum();
                let whole: f64 = wanted.iter().map(|w| square(*w)).sum();
                assert!(apart.sqrt() < 1e-3 * whole.sqrt(), "{name} {net}: {}", (apart / whole).sqrt());
            }
        }
    }
}

#[test]
fn members_train_independently() {
    for (name, device) in devices() {
        let world = World::new(SHARED, 3, 40);
        let d_out: Vec<Vec<f32>> = world.net.heads.iter().map(|head| numbers(40, 3 * 40 * head.classes)).collect();
        let refs: Vec<&[f32]> = d_out.iter().map(Vec::as_slice).collect();
        let mut out = vec![vec![]; 3];
        let mut nets = world.nets(&device, Precision::F32);
        let mut step = |nets: &mut Nets, mask: Option<&[bool]>| {
            nets.forward(0..3, world.batch(), &mut out).unwrap();
            nets.backward(&refs).unwrap();
            nets.optimise(&[Hyper::default(); 3], mask).unwrap()
        };
        let first = nets.params(1).unwrap();
        step(&mut nets, Some(&[true, false, true]));
        assert_eq!(nets.params(1).unwrap(), first, "{name}: a masked member stays");
        assert_ne!(nets.params(0).unwrap(), nets.params(2).unwrap());
        assert_eq!((nets.optimiser(0).unwrap().2, nets.optimiser(1).unwrap().2), (1, 0));
        // The one that adopts is the other from then on: parameters, optimiser and step.
        nets.adopt(0, 1).unwrap();
        let (a, b) = (nets.optimiser(0).unwrap(), nets.optimiser(1).unwrap());
        assert!(a == b && nets.params(0).unwrap() == nets.params(1).unwrap(), "{name}");
        assert!(nets.adopt(0, 3).is_err() && nets.adopt(0, 0).is_ok());
        // Parts are added in order, and stand for the gradient of a way back.
        step(&mut nets, None);
        let mut other = world.nets(&device, Precision::F32);
        step(&mut other, Some(&[false; 3]));
        let params = world.layout.params;
        let parts: Vec<f32> = (0..3)
            .flat_map(|m| {
                let (whole, noise) = (other.gradient(m).unwrap(), numbers(60 + m as u64, params));
                let rest: Vec<f32> = whole.iter().zip(&noise).map(|(g, n)| g - n).collect();
                noise.into_iter().chain(rest).collect::<Vec<f32>>()
            })
            .collect();
        let norms = other.optimise_parts(&parts, &[Hyper::default(); 3], None).unwrap();
        for m in 0..3 {
            let own = &parts[m * 2 * params..(m + 1) * 2 * params];
            let sum: Vec<f32> = own[..params].iter().zip(&own[params..]).map(|(a, b)| a + b).collect();
            assert_eq!(bits(&other.gradient(m).unwrap()), bits(&sum), "{name}");
            assert!((f64::from(norms[m]) - optimise::norm(&sum, 1.0)).abs() < 1e-4);
        }
        // A gradient that is not finite changes nobody, and is said.
        let spoiled = vec![f32::NAN; 3 * params];
        let before = other.params(2).unwrap();
        let norms = other.optimise_parts(&spoiled, &[Hyper::default(); 3], None).unwrap();
        assert!(norms.iter().all(|n| !n.is_finite()));
        assert_eq!((other.params(2).unwrap(), other.optimiser(2).unwrap().2), (before, 1), "{name}");
    }
}

#[test]
fn bits_do_not_depend_on_neighbours_or_threads() {
    let world = World::new(TWO, 3, 300);
    let run = |threads: usize, member_setups: &[MemberSetup], from: usize| {
        let mut nets = world.made(&Opened::Cpu { threads }, Precision::F32, member_setups).unwrap();
        let (n, rows) = (member_setups.len(), world.rows);
        let extras = rows * world.net.extras();
        let batch = Batch {
            rows,
            ids: &world.ids[from * rows..(from + n) * rows],
            extras: &world.extras[from * extras..(from + n) * extras],
        };
        let mut out = vec![vec![]; 3];
        for _ in 0..2 {
            nets.forward(0..n, batch, &mut out).unwrap();
            let d_out: Vec<&[f32]> = out.iter().map(Vec::as_slice).collect();
            nets.backward(&d_out).unwrap();
            nets.optimise(&vec![Hyper::default(); n], None).unwrap();
        }
        (0..n).map(|m| bits(&nets.params(m).unwrap())).collect::<Vec<_>>()
    };
    let all = run(1, &world.member_setups, 0);
    assert!(run(3, &world.member_setups, 0) == all && run(16, &world.member_setups, 0) == all);
    assert_eq!(run(2, &world.member_setups[1..2], 1)[0], all[1]);
}

/// Two towers of one shape go together where a member is alone; its bits are those it has in company, and inputs that
/// are taken in one pass are those of a gather.
#[test]
fn twin_towers_have_the_bits_of_each_by_itself() {
    for context in cards() {
        let device = Opened::Cuda(context.clone());
        let towers = ["256-128 | 256-128", "2048-1024-512 | 2048-1024-512", "72-40 | 72-40"];
        for (towers, rows) in towers.into_iter().zip([300, 1024, 1]) {
            let world = World::new(&format!("row:21 + account:dense3 / {towers} / policy:3 | value:1"), 2, rows);
            let d_out: Vec<Vec<f32>> = world.net.heads.iter().map(|h| numbers(40, 2 * rows * h.classes)).collect();
            let run = |members: std::ops::Range<usize>, on_stream: bool| {
                let setups = &world.member_setups[members.clone()];
                let mut nets = world.made(&device, Precision::Bf16, setups).unwrap();
                let part = |of: &[f32], each: usize| of[members.start * each..members.end * each].to_vec();
                let ids = &world.ids[members.start * rows..members.end * rows];
                let extras = part(&world.extras, rows * world.net.extras());
                let gradients: Vec<Vec<f32>> =
                    d_out.iter().zip(&world.net.heads).map(|(d, h)| part(d, rows * h.classes)).collect();
                let mut card = Card::new(&context, 8 << 20);
                let (on_card, shown) = (card.put(ids), card.put(&extras));
                let given: Vec<Array<f32>> = gradients.iter().map(|d| card.put(d)).collect();
                let (out, mut made) = (nets.head_arrays(rows).unwrap(), vec![vec![]; 2]);
                for _ in 0..2 {
                    if on_stream {
                        let batch = OnCard { rows, ids: Some(&on_card), extras: Some(&shown) };
                        nets.forward_on(&card.stream, batch, &out).unwrap();
                        nets.backward_on(&card.stream, &given).unwrap();
                        card.stream.wait().unwrap();
                    } else {
                        nets.forward(0..members.len(), Batch { rows, ids, extras: &extras }, &mut made).unwrap();
                        nets.backward(&gradients.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
                    }
                    nets.optimise(&vec![Hyper::default(); members.len()], None).unwrap();
                }
                (0..members.len()).map(|m| bits(&nets.params(m).unwrap())).collect::<Vec<_>>()
            };
            let both = run(0..2, false);
            assert!(run(0..2, true) == both, "{towers}: on a stream");
            for (m, in_company) in both.iter().enumerate() {
                assert!(run(m..m + 1, m == 0)[0] == *in_company, "{towers}: member {m}");
            }
            assert!(both[0] != both[1]);
        }
    }
}

#[test]
fn layers_start_from_their_configured_init() {
    for (_, device) in devices() {
        let world = World::new(SHARED, 2, 4);
        let starts = vec![(String::new(), Start::Orthogonal(1.4)), ("head.policy".into(), Start::Orthogonal(0.01))];
        let setup = Setup { starts: starts.clone(), seed: 8, ..Setup::inference(4, Precision::F32) };
        let tables = world.tables(&device);
        let make = |setup: &Setup| {
            Nets::new(&device, Budget::default(), &world.net, &tables, setup, &world.member_setups, &Pins::default())
        };
        let mut nets = make(&setup).unwrap();
        let first = crate::net::init_by(&world.layout, 8, world.member_setups[1].id, &starts).unwrap();
        assert_eq!(nets.params(1).unwrap(), first);
        // Nets that only predict have no way back and no optimiser.
        let mut out = vec![vec![]; 3];
        nets.forward(0..2, world.batch(), &mut out).unwrap();
        assert!(nets.backward(&out.iter().map(Vec::as_slice).collect::<Vec<_>>()).is_err());
        assert!(nets.optimise(&[Hyper::default(); 2], None).is_err());
        assert!(nets.gradient(0).is_err() && nets.optimiser(0).is_err());
    }
}

#[test]
fn one_thread_forward_matches_the_batched_forward() {
    for net in [TWO, "16-64-3", "account:dense6 / 24-24t / policy:3 + value:1", "fast:6x5-lstm12 + b:dense2 / 16 / p:4"]
    {
        for precision in [Precision::F32, Precision::Bf16] {
            let world = World::new(net, 2, 37);
            let device = Opened::Cpu { threads: 1 };
            let (tables, mut nets) = (world.tables(&device), world.nets(&device, precision));
            let mut out = vec![vec![]; world.net.heads.len()];
            nets.forward(0..2, world.batch(), &mut out).unwrap();
            let mut with = Forward::new(&world.net, precision, 40).unwrap();
            let (wide, extras) = (with.outputs(), world.net.extras());
            for m in 0..2 {
                // The caller's own parameters, in blocks of any size.
                let params = nets.params(m).unwrap();
                let mut ready = with.with(&params).unwrap();
                let mut made = vec![0.0; 37 * wide];
                for (first, n) in [(0, 16), (16, 1), (17, 20)] {
                    let from = m * 37 + first;
                    let rows = Rows {
                        tables: &tables,
                        scales: &world.member_setups[m].scales,
                        ids: world.ids.get(from..from + n).unwrap_or_default(),
                        extras: &world.extras[from * extras..(from + n) * extras],
                    };
                    ready.run(rows, &mut made[first * wide..(first + n) * wide]).unwrap();
                }
                let mut at = 0;
                for (head, out) in world.net.heads.iter().zip(&out) {
                    let own: Vec<f32> = made.chunks(wide).flat_map(|row| row[at..at + head.classes].to_vec()).collect();
                    near(net, &own, &out[m * 37 * head.classes..(m + 1) * 37 * head.classes], 2e-6);
                    at += head.classes;
                }
            }
            let rows = Rows { tables: &tables, scales: &[], ids: &[1], extras: &[] };
            assert!(with.with(&[1.0]).is_err());
            let params = nets.params(0).unwrap();
            assert!(with.with(&params).unwrap().run(rows, &mut vec![0.0; 41 * wide]).is_err());
        }
    }
}

#[test]
fn invalid_requests_are_refused() {
    let device = Opened::Cpu { threads: 1 };
    let world = World::new(TWO, 2, 8);
    let mut nets = world.nets(&device, Precision::F32);
    let mut out = vec![vec![]; 3];
    let refused = |result: crate::Result<()>, words: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(words), "`{message}` does not say `{words}`");
    };
    refused(nets.backward(&[]), "needs a forward pass of all members");
    refused(nets.forward(0..3, world.batch(), &mut out), "members 0..3 of 2");
    refused(nets.forward(0..1, world.batch(), &mut out), "8 and 24 are wanted");
    refused(nets.forward(0..2, Batch { ids: &[0; 16], ..world.batch() }, &mut out), "reaches before the table");
    refused(nets.forward(0..2, Batch { ids: &[9999; 16], ..world.batch() }, &mut out), "is none of the 300 ids");
    refused(nets.forward(0..2, world.batch(), &mut out[..1]), "1 outputs for 3 heads");
    nets.forward(0..1, Batch { rows: 8, ids: &world.ids[..8], extras: &world.extras[..24] }, &mut out).unwrap();
    refused(nets.backward(&[]), "needs a forward pass of all members");
    nets.forward(0..2, world.batch(), &mut out).unwrap();
    refused(nets.backward(&[&[0.0]]), "not as long as the outputs");
    refused(nets.optimise(&[Hyper::default()], None).map(drop), "1 hyper-parameters");
    let bad = Hyper { beta2: 1.0, ..Hyper::default() };
    refused(nets.optimise(&[Hyper::default(), bad], None).map(drop), "member 1: beta2 is 1");
    let bad = Hyper { weight: 0.0, ..Hyper::default() };
    refused(nets.optimise(&[bad; 2], None).map(drop), "a weight of 0");
    refused(nets.optimise_parts(&[0.0; 7], &[Hyper::default(); 2], None).map(drop), "7 numbers of gradients");
    let same = [world.member_setups[0].clone(), world.member_setups[0].clone()];
    refused(world.made(&device, Precision::F32, &same).map(drop), "two members have the id 3");
    let short = [MemberSetup { id: 1, scales: vec![None] }];
    refused(world.made(&device, Precision::F32, &short).map(drop), "do not fit the 3 inputs");
    let tables = World::new("16-3", 1, 1).tables(&device);
    let setup = Setup::inference(4, Precision::F32);
    let made =
        Nets::new(&device, Budget::default(), &world.net, &tables, &setup, &world.member_setups, &Pins::default());
    refused(made.map(drop), "2 inputs and 1 tables");
    let made = Nets::new(
        &device,
        Budget::Bytes(100),
        &world.net,
        &world.tables(&device),
        &setup,
        &world.member_setups,
        &Pins::default(),
    );
    assert!(made.err().unwrap().is_memory());
}
