//! The tables of a market as streams make them: the streaming twin of [`Dataset::new`].
//!
//! Every symbol goes through a [`Stream`] bar by bar. Values, what is settled, where runs begin and which slower row is
//! seen are what the stream said when the bar arrived; bars and clock are taken as they are. Each stream is saved and
//! restored now and then, as one that lives through restarts.

use crate::batch::interrupted;
use crate::clock::Clock;
use crate::dataset::{Dataset, Options, Slower, one_timeframe};
use crate::plan::{Fitted, Plan};
use crate::resample::{Bar, resample};
use crate::stream::{Row, Stream};
use crate::table::{Feature, Table};
use crate::values::Values;
use bars::{Bars, Timeframe};
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A stream is saved and restored before the first of these rows, then after so many more.
const RESTART: (usize, usize) = (59, 173);

impl Dataset {
    /// The tables of a market, bar by bar; labels are not made. Features of the market are refused: one symbol's bars
    /// do not tell what the others did.
    pub fn streamed(market: Vec<Bars>, plan: &Plan, options: &Options<'_>) -> Result<Dataset> {
        let volume = market.iter().any(|b| !b.volume.is_empty());
        let Fitted { plan, without_volume, without_market } = plan.fit(volume, market.len())?;
        let made = Dataset::streamed_fitted(market, &plan, volume, options)?;
        Ok(Dataset { without_volume, without_market, ..made })
    }

    /// The same of a plan that has lost what these data are too few for. `volume`: whether the whole market has any.
    pub(crate) fn streamed_fitted(
        market: Vec<Bars>,
        plan: &Plan,
        volume: bool,
        options: &Options<'_>,
    ) -> Result<Dataset> {
        let timeframe = one_timeframe(&market)?;
        plan.check_alone()?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads.max(1))
            .build()
            .map_err(|e| Error::new(Kind::Machine, format!("threads could not be started: {e}")))?;
        let (all, done) = (market.iter().map(Bars::len).sum(), AtomicUsize::new(0));
        let progress =
            |more: usize| (options.progress)("streaming", done.fetch_add(more, Ordering::Relaxed) + more, all);
        let each = |bars| stream_symbol(bars, plan, volume, options, &progress);
        let streamed = pool.install(|| market.par_iter().map(each).collect::<Result<Vec<Streamed>>>())?;
        let (mut base, mut slow) = (Vec::new(), Vec::new());
        for (symbol, streamed) in streamed.into_iter().enumerate() {
            base.push(streamed.base);
            for (at, one) in streamed.slow.into_iter().enumerate() {
                if symbol == 0 {
                    slow.push((one.timeframe, one.columns.clone(), Vec::new(), Vec::new()));
                }
                slow[at].2.push(one.rows);
                slow[at].3.push(one.of);
            }
        }
        let columns = plan.layers[0].outputs.iter().map(|o| Feature::new(o, &plan.layers[0], Some(timeframe)));
        let mut base = table(timeframe, columns.collect(), base);
        let slow = slow.into_iter().map(|(timeframe, columns, rows, of)| {
            let mut table = table(timeframe, columns, rows);
            table.market = market.iter().map(|bars| Ok(resample(bars, timeframe)?.0)).collect::<Result<_>>()?;
            let local = of.into_iter().zip(&table.offsets);
            let counted = |row: u32, from: usize| if row == u32::MAX { row } else { from as u32 + row };
            let of = local.flat_map(|(of, from)| of.into_iter().map(move |row| counted(row, *from))).collect();
            Ok(Slower { table, of })
        });
        let slow = slow.collect::<Result<_>>()?;
        let clock = Clock::new(&market);
        base.market = market;
        Ok(Dataset {
            base,
            slow,
            clock,
            labels: None,
            without_volume: Vec::new(),
            symbols_without_volume: Vec::new(),
            without_market: Vec::new(),
            universe: None,
        })
    }
}

/// What the stream of one symbol said.
struct Streamed {
    base: Rows,
    slow: Vec<StreamedSlow>,
}

struct StreamedSlow {
    timeframe: Timeframe,
    columns: Vec<Feature>,
    rows: Rows,
    /// `[base rows]` the slow row that is seen, counted from the symbol's first; `u32::MAX`: none.
    of: Vec<u32>,
    /// The first slow row of the segment: nothing of an earlier one is seen.
    first: usize,
}

/// Rows of one symbol as they came.
#[derive(Default)]
struct Rows {
    values: Vec<f32>, // [rows, F]
    valid: Vec<u64>,
    settled: Vec<bool>,
    runs: Vec<Range<usize>>,
}

impl Rows {
    fn push(&mut self, row: Row<'_>) {
        let at = self.settled.len();
        if row.begins || at == 0 {
            self.runs.push(at..at);
        }
        if let Some(run) = self.runs.last_mut() {
            run.end = at + 1;
        }
        self.values.extend_from_slice(row.values);
        self.valid.extend_from_slice(row.valid);
        self.settled.push(row.settled);
    }
}

fn stream_symbol(
    bars: &Bars,
    plan: &Plan,
    volume: bool,
    options: &Options<'_>,
    progress: &dyn Fn(usize),
) -> Result<Streamed> {
    let names: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
    let make = || Stream::new(plan, &bars.instrument, bars.timeframe, &names, volume, options.max_hole);
    let mut stream = make()?;
    let mut base = Rows::default();
    base.values.reserve_exact(bars.len() * stream.columns().len());
    let mut slow: Vec<StreamedSlow> = stream
        .slow()
        .map(|(timeframe, columns, _)| StreamedSlow {
            timeframe,
            columns: columns.to_vec(),
            rows: Rows::default(),
            of: Vec::with_capacity(bars.len()),
            first: 0,
        })
        .collect();
    let mut segments = bars.segments.iter().copied().skip_while(|s| *s == 0).peekable();
    for row in 0..bars.len() {
        let fresh = segments.next_if_eq(&row).is_some();
        if row % RESTART.1 == RESTART.0 {
            let state = stream.save();
            stream = make()?;
            stream.restore(&state)?;
            progress(if row < RESTART.1 { row } else { RESTART.1 });
            if (options.stop)() {
                return Err(interrupted());
            }
        }
        stream.push(&Bar::of(bars, row), fresh)?;
        base.push(stream.row());
        for (slow, (_, _, rows)) in slow.iter_mut().zip(stream.slow()) {
            if fresh {
                slow.first = slow.rows.settled.len();
            }
            rows.for_each(|row| slow.rows.push(row));
            let known = slow.rows.settled.len();
            slow.of.push(if known > slow.first { known as u32 - 1 } else { u32::MAX });
        }
    }
    Ok(Streamed { base, slow })
}

/// The rows of all symbols, one after another.
fn table(timeframe: Timeframe, mut columns: Vec<Feature>, symbols: Vec<Rows>) -> Table {
    let (width, words) = (columns.len(), columns.len().div_ceil(64));
    let stride = width.next_multiple_of(4);
    let mut offsets = vec![0];
    symbols.iter().for_each(|rows| offsets.push(offsets[offsets.len() - 1] + rows.settled.len()));
    let rows = offsets[symbols.len()];
    let (mut valid, mut settled, mut runs) = (Vec::with_capacity(rows * words), Vec::with_capacity(rows), Vec::new());
    let mut values = Values::zeros(rows * stride);
    let mut rest = &mut values[..];
    for symbol in symbols {
        let (own, others) = rest.split_at_mut(symbol.settled.len() * stride);
        rest = others;
        for (to, from) in own.chunks_exact_mut(stride.max(1)).zip(symbol.values.chunks_exact(width.max(1))) {
            to[..width].copy_from_slice(from);
        }
        valid.extend(symbol.valid);
        settled.extend(symbol.settled);
        runs.push(symbol.runs);
    }
    for (at, column) in columns.iter_mut().enumerate() {
        let missing = valid.chunks_exact(words).filter(|row: &&[u64]| row[at / 64] >> (at % 64) & 1 == 0);
        column.invalid = missing.count() as u64;
    }
    Table { timeframe, columns, stride, market: Vec::new(), offsets, runs, values, valid, settled }
}
