//! Data for tests: random tables with something to learn in them, and populations of members that differ in everything.

use super::{Data, Member, Pace, Pins, Population, Precision, Recipe, Scale, Schedule};
use crate::cuda::{Context, Engine, KernelPath};
use crate::device::{Budget, Opened};
use crate::error::Result;
use crate::net::{Layout, Net};
use crate::random::{philox, uniform};
use crate::tables::{Table, Tables};
use std::sync::Arc;

/// Data that owns itself.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) net: Net,
    tables: Vec<(Vec<f32>, usize)>,
    maps: Vec<Option<Vec<u32>>>,
    labels: Vec<Vec<u8>>,
    weights: Vec<f32>,
    pub(crate) lists: Vec<Vec<u32>>,
}

/// A number in -1..1, by its place.
pub(crate) fn noise(stream: u32, index: usize) -> f32 {
    let words = philox(99, [(index / 4) as u32, 0, stream, 0]);
    2.0 * uniform(words[index % 4]) - 1.0
}

impl Made {
    /// Rows for a net: the first table has `rows`, others a third of them behind a map. Lists take every row, every
    /// second, ...
    pub(crate) fn new(net: &str, rows: usize) -> Made {
        let net: Net = net.parse().unwrap();
        let mut tables = Vec::new();
        let mut maps = Vec::new();
        for (i, input) in net.inputs.iter().enumerate() {
            let stride = input.features.next_multiple_of(4);
            let count = if i == 0 { rows } else { rows / 3 + input.window };
            let values: Vec<f32> = (0..count * stride).map(|k| noise(i as u32, k)).collect();
            tables.push((values, stride));
            // A slow row for every fast one, never before its window is whole.
            maps.push((i > 0).then(|| (0..rows).map(|r| (r / 3 + input.window - 1) as u32).collect()));
        }
        let (first, stride) = &tables[0];
        let label = |r: usize, h: usize, classes: usize| {
            let x = first[r * stride] + first[r * stride + h % stride] + 0.3 * noise(77 + h as u32, r);
            (((x + 2.0) / 4.0 * classes as f32) as usize).min(classes - 1) as u8
        };
        let labels =
            net.heads.iter().enumerate().map(|(h, head)| (0..rows).map(|r| label(r, h, head.classes)).collect());
        let labels: Vec<Vec<u8>> = labels.collect();
        let weights = (0..rows).map(|r| 1.0 + 0.5 * noise(55, r)).collect();
        let from = net.inputs[0].window - 1;
        let lists = (1..=4).map(|step| (from..rows).step_by(step).map(|r| r as u32).collect()).collect();
        Made { net, tables, maps, labels, weights, lists }
    }

    /// Its tables on a device.
    pub(crate) fn tables(&self, device: &Opened) -> Result<Arc<Tables>> {
        let tables: Vec<Table<'_>> =
            self.tables.iter().map(|(values, stride)| Table { values, stride: *stride }).collect();
        let maps: Vec<Option<&[u32]>> = self.maps.iter().map(Option::as_deref).collect();
        Tables::new(device, Budget::default(), &tables, &maps)
    }

    /// Its tables on a card.
    pub(crate) fn card(&self, context: &Arc<Context>) -> Arc<Tables> {
        self.tables(&Opened::Cuda(context.clone())).unwrap()
    }

    /// A population of it, with all the memory there is.
    pub(crate) fn population(&self, device: &Opened, recipe: &Recipe, members: &[Member]) -> Population {
        let tables = self.tables(device).unwrap();
        Population::new(device, Budget::default(), &self.net, &tables, &self.data(), recipe, members).unwrap()
    }

    /// The same with algorithms that are pinned.
    pub(crate) fn pinned(&self, device: &Opened, recipe: &Recipe, members: &[Member], pins: &Pins) -> Population {
        let tables = self.tables(device).unwrap();
        let (net, budget, pace) = (&self.net, Budget::default(), Pace::default());
        Population::paced(device, budget, net, &tables, &self.data(), recipe, members, pins, pace).unwrap()
    }

    /// An engine of it on a card.
    pub(crate) fn engine(
        &self,
        path: KernelPath,
        context: &Arc<Context>,
        recipe: &Recipe,
        members: &[Member],
        pins: &Pins,
    ) -> Engine {
        let (net, layout, pace) = (&self.net, Layout::new(&self.net).unwrap(), Pace::default());
        let (tables, data) = (self.card(context), self.data());
        Engine::new(path, pace, context, net, &layout, &tables, &data, recipe, members, pins, None).unwrap()
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data {
            labels: self.labels.iter().map(Vec::as_slice).collect(),
            weights: Some(&self.weights),
            lists: self.lists.iter().map(Vec::as_slice).collect(),
        }
    }

    /// A member that differs from every other: its list, its rate, its scaling, its class weights, its epochs.
    pub(crate) fn member(&self, id: u32) -> Member {
        let scale = |i: usize, features: usize| Scale {
            mean: (0..features).map(|f| 0.1 * noise(id + 1000, f + 64 * i)).collect(),
            inverse: (0..features).map(|f| 1.0 + 0.2 * noise(id + 2000, f + 64 * i)).collect(),
        };
        let weights =
            |h: usize, classes: usize| (0..classes).map(|c| 1.0 + 0.3 * noise(id + 3000, c + 256 * h)).collect();
        Member {
            id,
            train: id as usize % 4,
            valid: (id % 5 != 4).then_some((id as usize + 1) % 4),
            epochs: 2 + id % 3,
            rate: 0.002 * (1.0 + id as f32 / 8.0),
            scales: self
                .net
                .inputs
                .iter()
                .enumerate()
                .map(|(i, input)| id.is_multiple_of(2).then(|| scale(i, input.features)))
                .collect(),
            class_weights: self
                .net
                .heads
                .iter()
                .enumerate()
                .map(|(h, head)| if id.is_multiple_of(3) { Vec::new() } else { weights(h, head.classes) })
                .collect(),
        }
    }

    /// The same with ids of their own: the first table turned round in pieces as long as its window and once over, and
    /// reached through a map.
    pub(crate) fn behind_a_map(&self) -> Made {
        let (rows, stride) = (self.labels[0].len(), self.tables[0].1);
        let (first, window) = (&self.tables[0].0, self.net.inputs[0].window);
        // Row r of the old table with its window is piece `rows - 1 - r` of the new one; rows without a whole window
        // have a piece of their own.
        let mut values = Vec::new();
        for row in (0..rows).rev() {
            let from = (row + 1).saturating_sub(window);
            let piece = &first[from * stride..(row + 1) * stride];
            values.extend(vec![7.0; window * stride - piece.len()]);
            values.extend(piece);
        }
        let map = (0..rows).map(|row| ((rows - row) * window - 1) as u32).collect();
        let mut made = self.clone();
        (made.tables[0].0, made.maps[0]) = (values, Some(map));
        made
    }

    /// Gives the table a number that is none.
    pub(crate) fn spoil(&mut self, row: usize) {
        let stride = self.tables[0].1;
        self.tables[0].0[row * stride] = f32::NAN;
    }
}

/// A recipe that uses everything.
pub(crate) fn recipe(batch: usize, precision: Precision) -> Recipe {
    Recipe { schedule: Schedule::cosine(0.2, 0.1), ..Recipe::new(batch, precision, 42) }
}
