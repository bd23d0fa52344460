//! A small world for tests: tables, labels, weights, lists and members for any net, from a seed. Both twins are tested
//! in it.

use super::{Data, Member, Precision, Recipe, Scale, Schedule, State};
use crate::device::{Budget, Opened};
use crate::error::Result;
use crate::net::{Layout, Net, init};
use crate::ops::step::PlainMember;
use crate::random::{philox, uniform};
use crate::tables::{Table, Tables};
use std::sync::Arc;

/// Owns what [`Data`] borrows.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) layout: Layout,
    pub(crate) tables: Vec<(Vec<f32>, usize)>,
    pub(crate) maps: Vec<Option<Vec<u32>>>,
    pub(crate) labels: Vec<Vec<u8>>,
    pub(crate) weights: Option<Vec<f32>>,
    pub(crate) lists: Vec<Vec<u32>>,
    pub(crate) recipe: Recipe,
    pub(crate) members: Vec<Member>,
}

/// The `i`th number of a sequence, from -1 to 1.
pub(crate) fn number(seed: u64, i: usize) -> f32 {
    uniform(philox(seed, [i as u32, 0, 99, 0])[0]) * 2.0 - 1.0
}

impl World {
    /// A net in its text, samples of a training list, rows of a batch. One member, validated on a second list, with
    /// weights of rows and classes and a scale for every second input; every input but the first has a table of half
    /// the rows.
    pub(crate) fn new(net: &str, samples: usize, batch: usize, precision: Precision) -> World {
        let net: Net = net.parse().expect("a net");
        let before = net.inputs.iter().map(|i| 2 * i.window).max().unwrap_or(0);
        let rows = before + samples + samples / 2 + 1;
        let table = |i: usize| {
            let (stride, rows) = (net.inputs[i].features.next_multiple_of(4), if i == 0 { rows } else { rows / 2 + 1 });
            ((0..rows * stride).map(|k| number(10 + i as u64, k)).collect(), stride)
        };
        let map = |i: usize| (i > 0).then(|| (0..rows as u32).map(|row| row / 2).collect());
        let label = |h: usize| -> Vec<u8> {
            let classes = net.heads[h].classes as u32;
            (0..rows as u32).map(|k| (philox(50 + h as u64, [k, 0, 0, 0])[0] % classes) as u8).collect()
        };
        let (inputs, heads) = (0..net.inputs.len(), 0..net.heads.len());
        let first = before as u32;
        World {
            tables: inputs.clone().map(table).collect(),
            maps: inputs.map(map).collect(),
            labels: heads.map(label).collect(),
            weights: Some((0..rows).map(|k| 1.0 + 0.9 * number(70, k)).collect()),
            lists: vec![
                (first..first + samples as u32).rev().collect(),
                (first + samples as u32..rows as u32).collect(),
            ],
            recipe: Recipe { schedule: Schedule::one_cycle(0.8, 0.1), ..Recipe::new(batch, precision, 5) },
            members: vec![member(&net, 0)],
            layout: Layout::new(&net).expect("a net"),
            net,
        }
    }

    /// So many members, each with its own id, rate, scale, epochs, and every third with a shorter list.
    pub(crate) fn with_members(mut self, n: usize) -> World {
        let list = self.lists[0].clone();
        self.lists.push(list[..list.len().div_ceil(3)].to_vec());
        self.members = (0..n as u32).map(|id| member(&self.net, id)).collect();
        for member in self.members.iter_mut().filter(|m| m.id % 3 == 2) {
            member.train = 2;
        }
        self
    }

    /// Its tables, in the processor's memory.
    pub(crate) fn tables(&self) -> Result<Arc<Tables>> {
        let tables: Vec<Table<'_>> =
            self.tables.iter().map(|(values, stride)| Table { values, stride: *stride }).collect();
        let maps: Vec<Option<&[u32]>> = self.maps.iter().map(Option::as_deref).collect();
        Tables::new(&Opened::Cpu { threads: 1 }, Budget::default(), &tables, &maps)
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data {
            labels: self.labels.iter().map(Vec::as_slice).collect(),
            weights: self.weights.as_deref(),
            lists: self.lists.iter().map(Vec::as_slice).collect(),
        }
    }

    /// The plain twin of one member, fresh.
    pub(crate) fn plain<'a>(&'a self, tables: &'a Tables, data: &'a Data<'a>, index: usize) -> PlainMember<'a> {
        let member = &self.members[index];
        let empty = vec![0.0; self.layout.params];
        PlainMember {
            net: &self.net,
            layout: &self.layout,
            tables,
            data,
            recipe: &self.recipe,
            member,
            state: State::first(
                member,
                index,
                data.lists[..member.train].iter().map(|l| l.len()).sum(),
                data.lists[member.train].len(),
                self.recipe.batch,
            ),
            average: init(&self.layout, self.recipe.seed, member.id),
            params: init(&self.layout, self.recipe.seed, member.id),
            mean: empty.clone(),
            square: empty.clone(),
            gradient: empty,
        }
    }
}

fn member(net: &Net, id: u32) -> Member {
    let scale = |(i, input): (usize, &crate::net::Input)| {
        let some = |seed: u64| (0..input.features).map(|k| number(seed + u64::from(id), k)).collect::<Vec<_>>();
        let inverse = some(200).iter().map(|x| 1.0 + 0.5 * x).collect();
        (i % 2 == 0).then(|| Scale { mean: some(100).iter().map(|x| 0.2 * x).collect(), inverse })
    };
    Member {
        id,
        train: 0,
        valid: Some(1),
        epochs: 2 + id % 3,
        rate: 1e-2 / (1 + id) as f32,
        scales: net.inputs.iter().enumerate().map(scale).collect(),
        class_weights: net
            .heads
            .iter()
            .enumerate()
            .map(
                |(h, head)| if h % 2 == 1 { vec![] } else { (0..head.classes).map(|c| 0.5 + c as f32 / 4.0).collect() },
            )
            .collect(),
    }
}
