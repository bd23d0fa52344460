//! What all individuals of a generation see alike: the rows that accounts stand on, what is legal there, and the inputs
//! of their nets that no individual changes. It is made once for all of them.

use super::rollout::Spans;
use super::stack::{LANES, Line, Stack, ZEROS};
use super::stack_simd::words;
use compute::population::Scale;
use compute::{Net, Tables, bf16};
use market::{EpisodeData, OBSERVED, OWN};
use rayon::prelude::*;

/// Bytes of inputs that are kept for a generation, at most; those of longer spans are made step by step.
const MOST: usize = 64 << 20;

/// Where the inputs of a pass lie: word k of account a at `k × apart + a × row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub(super) apart: usize,
    pub(super) row: usize,
    accounts: usize,
    /// Words of all accounts, in whole lines.
    pub(super) all: usize,
    /// Whether a word is a pair of numbers in bf16.
    pub(super) in_pairs: bool,
}

impl Places {
    /// For individuals that share their weights rows in whole lines, else accounts side by side.
    pub(super) fn new(stack: &Stack, accounts: usize, shared: bool) -> Places {
        let (words, in_pairs) = (stack.words(), stack.in_pairs);
        let wide = words.next_multiple_of(LANES);
        match shared {
            true => Places { apart: 1, row: wide, accounts, all: accounts * wide, in_pairs },
            false => {
                let all = (accounts * words).next_multiple_of(LANES);
                Places { apart: accounts, row: 1, accounts, all, in_pairs }
            }
        }
    }

    /// Writes a number of an account, by its place among the numbers of the words.
    fn set(&self, to: &mut [u32], place: usize, account: usize, x: f32) {
        let word = |word: usize| word * self.apart + account * self.row;
        if !self.in_pairs {
            to[word(place)] = x.to_bits();
            return;
        }
        let (to, bits) = (&mut to[word(place / 2)], bf16::round(x).to_bits());
        *to = if place.is_multiple_of(2) { *to & 0xffff_0000 | bits >> 16 } else { *to & 0xffff | bits };
    }
}

/// The steps of a generation.
#[derive(Debug, Default)]
pub(super) struct Views {
    pub(super) places: Places,
    /// The word of the input that an account's own numbers begin at.
    pub(super) own: usize,
    /// `[steps, accounts]` the row each stands on.
    pub(super) rows: Vec<u32>,
    /// `[steps, accounts]` bits of short, flat and long.
    pub(super) legal: Vec<u8>,
    /// `[steps][places]` inputs, without an account's own; empty where they would be too many.
    shown: Vec<Line>,
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
    pub(super) fn draw(&mut self, from: Sources<'_>, stack: &Stack, spans: &Spans, shared: bool) {
        let (n, steps) = (spans.first.len(), spans.longest() as usize);
        let places = Places::new(stack, n, shared);
        let mut dense = from.net.inputs.iter().scan(0, |at, input| {
            let first = *at;
            *at += input.features;
            Some((first, input.dense))
        });
        self.places = places;
        let own = stack.place(dense.find(|(_, dense)| *dense).map_or(0, |(first, _)| first));
        self.own = if places.in_pairs { own / 2 } else { own };
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
        let lines = places.all / LANES;
        let kept = if 4 * places.all * steps <= MOST { lines * steps } else { 0 };
        let mut shown = std::mem::take(&mut self.shown);
        shown.resize(kept, ZEROS);
        let views = &*self;
        let all = shown.par_chunks_mut(lines).enumerate().with_min_len(16);
        all.for_each(|(t, to)| views.fill(from, stack, t, to));
        self.shown = shown;
    }

    /// The inputs of step `t`, made in `scratch` where they are not kept; an account's own are anything.
    pub(super) fn inputs<'a>(
        &'a self,
        from: Sources<'_>,
        stack: &Stack,
        t: usize,
        scratch: &'a mut [Line],
    ) -> &'a [Line] {
        if self.shown.is_empty() {
            self.fill(from, stack, t, scratch);
            return scratch;
        }
        let lines = self.places.all / LANES;
        &self.shown[t * lines..][..lines]
    }

    /// Writes the inputs of step `t`.
    fn fill(&self, Sources { data, tables, net, scales }: Sources<'_>, stack: &Stack, t: usize, to: &mut [Line]) {
        let (places, to) = (self.places, words(to));
        let (rows, mut first) = (&self.rows[t * places.accounts..][..places.accounts], 0);
        for (i, input) in net.inputs.iter().enumerate() {
            let table = net.table_of(i).and_then(|own| Some((own, tables.table(own)?)));
            for (account, row) in rows.iter().enumerate() {
                let mut set = |k: usize, x: f32| places.set(to, stack.place(first + k), account, x);
                if let Some((table_of, table)) = &table {
                    let from = tables.row(*table_of, *row) as usize * table.stride;
                    let from = &table.values[from..from + input.features];
                    match &scales[i] {
                        Some(Scale { mean, inverse }) => {
                            let scaled = from.iter().zip(mean.iter().zip(inverse));
                            scaled.enumerate().for_each(|(k, (x, (mean, inverse)))| set(k, (x - mean) * inverse));
                        }
                        None => from.iter().enumerate().for_each(|(k, x)| set(k, *x)),
                    }
                } else {
                    let of_row = data.row_shown(*row as usize);
                    (OWN..OBSERVED).zip(of_row).for_each(|(k, x)| set(k, x));
                }
            }
            first += input.features;
        }
    }
}
