//! What all individuals of a generation see alike: the rows that accounts stand on, what is legal there, and the inputs
//! of their nets that no individual changes. It is made once for all of them.

use super::rollout::Spans;
use super::stack::{LANES, Stack};
use compute::population::Scale;
use compute::{Net, Tables};
use market::{EpisodeData, OBSERVED, OWN};
use rayon::prelude::*;

/// Bytes of inputs that are kept for a generation, at most; those of longer spans are made step by step.
const MOST: usize = 64 << 20;

/// Where the inputs of a pass lie: number k of account a at `k × apart + a × row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub(super) apart: usize,
    pub(super) row: usize,
    accounts: usize,
    /// Numbers of all accounts.
    pub(super) all: usize,
}

impl Places {
    /// For individuals that share their weights rows in whole lines, else accounts side by side.
    pub(super) fn new(stack: &Stack, accounts: usize, shared: bool) -> Places {
        let wide = stack.inputs().div_ceil(LANES) * LANES;
        match shared {
            true => Places { apart: 1, row: wide, accounts, all: accounts * wide },
            false => Places { apart: accounts, row: 1, accounts, all: accounts * stack.inputs() },
        }
    }
}

/// The steps of a generation.
#[derive(Debug, Default)]
pub(super) struct Views {
    pub(super) places: Places,
    /// Number of the input that an account's own numbers begin at.
    pub(super) own: usize,
    /// `[steps, accounts]` the row each stands on.
    pub(super) rows: Vec<u32>,
    /// `[steps, accounts]` bits of short, flat and long.
    pub(super) legal: Vec<u8>,
    /// `[steps][places]` inputs, without an account's own; empty where they would be too many.
    shown: Vec<f32>,
}

/// What inputs are made of.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) data: &'a EpisodeData,
    pub(super) tables: &'a Tables,
    pub(super) net: &'a Net,
    pub(super) scales: &'a [Option<Scale>],
}

impl Views {
    /// Bytes of the views of a generation.
    pub(super) fn bytes(stack: &Stack, accounts: usize, steps: usize, shared: bool) -> u64 {
        let shown = 4 * Places::new(stack, accounts, shared).all * steps;
        (5 * accounts * steps + if shown <= MOST { shown } else { 0 }) as u64
    }

    /// Makes them for the spans of a generation, on the threads of the caller's pool.
    pub(super) fn draw(&mut self, from: Sources<'_>, spans: &Spans, places: Places) {
        let (n, steps) = (spans.first.len(), spans.longest() as usize);
        let mut dense = from.net.inputs.iter().scan(0, |at, input| {
            let first = *at;
            *at += input.features;
            Some((first, input.dense))
        });
        self.places = places;
        self.own = dense.find(|(_, dense)| *dense).map_or(0, |(first, _)| first);
        self.rows.resize(steps * n, 0);
        self.legal.resize(steps * n, 0);
        let params = &from.data.table().params;
        let all = self.rows.par_chunks_mut(n).zip(self.legal.par_chunks_mut(n)).enumerate();
        all.with_min_len(64).for_each(|(t, (rows, legal))| {
            for account in 0..n {
                rows[account] = spans.first[account] + (t as u32).min(spans.steps[account] - 1);
                let [short, flat, long] = from.data.legal(&params[spans.symbols[account]], rows[account] as usize);
                legal[account] = u8::from(short) | u8::from(flat) << 1 | u8::from(long) << 2;
            }
        });
        let kept = if 4 * places.all * steps <= MOST { places.all * steps } else { 0 };
        let mut shown = std::mem::take(&mut self.shown);
        shown.clear();
        shown.resize(kept, 0.0);
        let views = &*self;
        let all = shown.par_chunks_mut(places.all).enumerate().with_min_len(16);
        all.for_each(|(t, to)| views.fill(from, t, to));
        self.shown = shown;
    }

    /// The inputs of step `t`, made in `scratch` where they are not kept; an account's own are anything.
    pub(super) fn inputs<'a>(&'a self, from: Sources<'_>, t: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        if self.shown.is_empty() {
            self.fill(from, t, scratch);
            return scratch;
        }
        &self.shown[t * self.places.all..][..self.places.all]
    }

    /// Writes the inputs of step `t`.
    fn fill(&self, Sources { data, tables, net, scales }: Sources<'_>, t: usize, to: &mut [f32]) {
        let Places { apart, row: row_apart, accounts, .. } = self.places;
        let (rows, mut first) = (&self.rows[t * accounts..][..accounts], 0);
        for (i, input) in net.inputs.iter().enumerate() {
            let table = net.table_of(i).and_then(|own| Some((own, tables.table(own)?)));
            for (account, row) in rows.iter().enumerate() {
                let place = |k: usize| (first + k) * apart + account * row_apart;
                if let Some((table_of, table)) = &table {
                    let from = tables.row(*table_of, *row) as usize * table.stride;
                    let from = &table.values[from..from + input.features];
                    match &scales[i] {
                        Some(Scale { mean, inverse }) => {
                            let scaled = from.iter().zip(mean.iter().zip(inverse));
                            scaled
                                .enumerate()
                                .for_each(|(k, (x, (mean, inverse)))| to[place(k)] = (x - mean) * inverse);
                        }
                        None => from.iter().enumerate().for_each(|(k, x)| to[place(k)] = *x),
                    }
                } else {
                    let of_row = data.row_shown(*row as usize);
                    (OWN..OBSERVED).zip(of_row).for_each(|(k, x)| to[place(k)] = x);
                }
            }
            first += input.features;
        }
    }
}
