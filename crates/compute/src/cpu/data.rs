//! The gather from tables, and the data an engine keeps for itself.

use super::loops;
use super::memory::soon;
use crate::error::Result;
use crate::host::{copied, reserve};
use crate::net::{Net, Place};
use crate::population::{Data, Member, Scale};
use crate::tables::Tables;
use std::sync::Arc;

/// Samples whose rows are asked for before their turn.
const AHEAD: usize = 8;

/// Where a member's rows come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) scales: &'a [Option<Scale>], // [inputs]; none at all: nothing is scaled
    pub(crate) extras: &'a [f32],           // [rows, extras] numbers of dense inputs, from the first row on
}

impl<'a> Source<'a> {
    fn table(&self, table: usize) -> (&'a [f32], usize) {
        let table = self.tables.table(table).expect("tables in the processor's memory, as checked before");
        (table.values, table.stride)
    }

    fn scale(&self, i: usize) -> Option<&'a Scale> {
        self.scales.get(i).and_then(Option::as_ref)
    }

    /// A dense input of some rows into its columns of a buffer; rows behind the last one are the first.
    fn dense(&self, net: &Net, i: usize, to: (&mut [f32], usize, Place), round: bool) {
        let (values, stride, place) = to;
        let (features, all, from) = (net.inputs[i].features, net.extras(), net.extra_of(i));
        let rows = self.extras.len() / all;
        for (s, to) in values.chunks_exact_mut(stride).enumerate() {
            let x = &self.extras[if s < rows { s } else { 0 } * all + from..][..features];
            let (to, padding) = to[place.column..place.column + place.width].split_at_mut(features);
            match self.scale(i) {
                Some(scale) => loops::scale(to, x, &scale.mean, &scale.inverse, round),
                None => to.copy_from_slice(x),
            }
            if round && self.scale(i).is_none() {
                loops::round(to);
            }
            padding.fill(0.0);
        }
    }

    /// Input `i` of some samples into its columns of a buffer `[rows, stride]`, padding zero.
    pub(super) fn gather(&self, net: &Net, i: usize, rows: &[u32], to: (&mut [f32], usize, Place), round: bool) {
        let Some(own) = net.table_of(i) else { return self.dense(net, i, to, round) };
        let (values, stride, place) = to;
        let (features, window) = (net.inputs[i].features, net.inputs[i].window);
        let (table, table_stride) = self.table(own);
        let rows_of = |row: u32| {
            let last = self.tables.row(own, row) as usize;
            let first = (last + 1 - window) * table_stride;
            &table[first..first + window * table_stride]
        };
        for (s, (row, to)) in rows.iter().zip(values.chunks_exact_mut(stride)).enumerate() {
            // Rows lie anywhere in a table that no cache holds.
            if let Some(next) = rows.get(s + AHEAD) {
                soon(rows_of(*next));
            }
            let to = &mut to[place.column..place.column + place.width];
            let from = rows_of(*row);
            let (to, padding) = to.split_at_mut(window * features);
            for (to, from) in to.chunks_exact_mut(features).zip(from.chunks_exact(table_stride)) {
                match self.scale(i) {
                    Some(scale) => loops::scale(to, &from[..features], &scale.mean, &scale.inverse, round),
                    None => to.copy_from_slice(&from[..features]),
                }
            }
            if round && self.scale(i).is_none() {
                loops::round(to);
            }
            padding.fill(0.0);
        }
    }

    /// Some steps of input `i`'s windows, `t = 0` the oldest row: row `t` of sample `s` goes into `to` from `at(s, t)`
    /// on, padded with zeros to `wide`.
    #[expect(clippy::too_many_arguments, reason = "whose rows, which of them, and where to")]
    pub(super) fn walk(
        &self,
        net: &Net,
        i: usize,
        samples: &[u32],
        steps: std::ops::Range<usize>,
        round: bool,
        to: &mut [f32],
        wide: usize,
        at: impl Fn(usize, usize) -> usize,
    ) {
        let (features, window) = (net.inputs[i].features, net.inputs[i].window);
        let own = net.table_of(i).unwrap_or(0);
        let (table, stride) = self.table(own);
        for (s, row) in samples.iter().enumerate() {
            let last = self.tables.row(own, *row) as usize;
            for t in steps.clone() {
                let from = &table[(last + 1 + t - window) * stride..][..features];
                let (to, padding) = to[at(s, t)..][..wide].split_at_mut(features);
                match self.scale(i) {
                    Some(scale) => loops::scale(to, from, &scale.mean, &scale.inverse, round),
                    None if round => {
                        to.copy_from_slice(from);
                        loops::round(to);
                    }
                    None => to.copy_from_slice(from),
                }
                padding.fill(0.0);
            }
        }
    }
}

/// The tables, and [`Data`], owned; all lists one behind the other.
#[derive(Debug)]
pub(super) struct Owned {
    tables: Arc<Tables>,
    pub(super) labels: Vec<Vec<u8>>, // [heads][ids]
    weights: Option<Vec<f32>>,       // [ids]
    pub(super) lists: Vec<u32>,      // all samples of all lists
    starts: Vec<usize>,              // [lists + 1] where each list begins in `lists`
}

impl Owned {
    pub(super) fn new(tables: &Arc<Tables>, data: &Data<'_>) -> Result<Owned> {
        tables.on_cpu()?;
        let mut starts = vec![0];
        for list in &data.lists {
            starts.push(starts[starts.len() - 1] + list.len());
        }
        let mut lists = reserve(starts[starts.len() - 1], "lists of samples")?;
        data.lists.iter().for_each(|list| lists.extend_from_slice(list));
        Ok(Owned {
            tables: tables.clone(),
            labels: data.labels.iter().map(|l| copied(l, "labels")).collect::<Result<_>>()?,
            weights: data.weights.map(|w| copied(w, "weights of samples")).transpose()?,
            lists,
            starts,
        })
    }

    /// Where a member's rows come from.
    pub(super) fn source<'a>(&'a self, member: &'a Member) -> Source<'a> {
        Source { tables: &self.tables, scales: &member.scales, extras: &[] }
    }

    /// Bytes that the copy of some data takes.
    pub(super) fn need(data: &Data<'_>) -> u64 {
        let words = data.weights.map_or(0, <[f32]>::len) + data.lists.iter().map(|l| l.len()).sum::<usize>();
        let labels: usize = data.labels.iter().map(|l| l.len()).sum();
        (4 * words + labels) as u64
    }

    /// Where a list lies in all lists.
    pub(super) fn list(&self, list: usize) -> std::ops::Range<usize> {
        self.starts[list]..self.starts[list + 1]
    }

    /// Whether these rows can be gathered.
    pub(super) fn check(&self, net: &Net, rows: &[u32]) -> Result<()> {
        self.tables.check(net, rows, "these samples")
    }

    /// The weight of a sample before that of its class.
    pub(super) fn weight(&self, row: u32) -> f32 {
        self.weights.as_ref().map_or(1.0, |w| w[row as usize])
    }
}
