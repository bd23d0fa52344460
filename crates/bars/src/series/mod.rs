//! The rows of one symbol and timeframe, in order, each time once.
//!
//! Rows come in by file and symbol ([`Intake`]). When they outgrow the memory that may be used they are sorted and
//! moved to a scratch file, and later merged from there in windows (`order`); so a file of any size passes through.
//! What is done to the rows (`clean`) is counted; what could not be repaired is an error.

mod clean;
mod intake;
mod order;

use crate::audit::observe::BarObserver;
use crate::audit::{Audit, Comparison, Verdict, conclude, forget_market_moves};
use crate::ingest::{Rows, Tally};
use crate::instrument::{Hints, SeenBars, reconcile};
use crate::recognise::names::Side;
use crate::scan::{FileMeta, Progress};
use crate::{Bars, Class, Clocks, Instrument, Market, Options, Repairs, RowOrder, Splits, Timeframe};
use clean::Cleaner;
use files::time::rfc3339;
use files::{Error, Kind, Result, Scratch};
use intake::FileRows;
pub(crate) use intake::Intake;
use order::{Block, join_files, merge_in_order, sort_rows};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The lots of one symbol and timeframe.
pub(crate) struct Series {
    pub symbol: String,
    pub timeframe: Timeframe,
    parts: Vec<FileRows>,
}

/// What a series was, once its rows have gone by.
pub(crate) struct SeriesFacts {
    pub symbol: String,
    pub timeframe: Timeframe,
    pub instrument: Instrument,
    /// What the bars changed about the instrument that its name gave.
    pub instrument_note: Option<String>,
    pub observer: BarObserver,
    pub files: Vec<usize>,
    pub tally: Tally,
    pub duplicates: u64,
    pub conflicts: u64,
    pub duplicate_example: Option<String>,
    pub conflict_example: Option<String>,
    pub out_of_order: u64,
    pub order_example: Option<String>,
    pub newest_first: bool,
    pub one_sided: u64,
    pub paired: bool,
    pub outside: Option<u64>,
    pub modified: Option<i64>,
    pub last_end: i64,
    /// The first and the last stamp before a choice of time.
    pub span: Option<(i64, i64)>,
    pub extras: Vec<String>,
    pub rows: u64,
    /// Epochs in another unit than most of their file.
    pub mixed_units: u64,
}

/// Collects all series into memory.
pub(crate) fn to_market(
    mut intake: Intake,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Market, Audit)> {
    let series = intake.take_series()?;
    let total: u64 = series.iter().flat_map(|s| &s.parts).map(|l| l.rows as u64).sum();
    let done = std::sync::atomic::AtomicU64::new(0);
    let metas = &intake.metas;
    let run = |series: Series| -> Result<(Bars, SeriesFacts)> {
        options.check_stop()?;
        let symbol = series.symbol.clone();
        let timeframe = series.timeframe;
        let mut all: Option<Rows> = None;
        let seen = series.run(metas, options, None, &mut |rows| {
            match &mut all {
                Some(held) => held.extend(&rows),
                None => all = Some(rows),
            }
            Ok(())
        })?;
        let n = done.fetch_add(seen.rows, std::sync::atomic::Ordering::Relaxed) + seen.rows;
        progress(Progress { phase: "ordering", done: n, total, unit: "bars" });
        let rows = all.unwrap_or_default();
        let [open, high, low, close, volume] = rows.values;
        let volume = if seen.observer.with_volume == 0 { Vec::new() } else { volume };
        let member = options.membership.as_ref().map(|m| m.spans(&symbol)).unwrap_or_default();
        let extras = seen.extras.iter().cloned().zip(rows.extras).collect();
        let bars = Bars {
            symbol,
            instrument: seen.instrument.clone(),
            timeframe,
            start: rows.stamp,
            end: rows.end,
            open,
            high,
            low,
            close,
            volume,
            extras,
            segments: Vec::new(),
            member,
        };
        Ok((bars, seen))
    };
    let outcome: Result<Vec<(Bars, SeriesFacts)>> = if series.len() > 1 && options.threads > 1 {
        build_thread_pool(options.threads)?.install(|| series.into_par_iter().map(run).collect())
    } else {
        series.into_iter().map(run).collect()
    };
    let (mut bars, mut seen): (Vec<Bars>, Vec<SeriesFacts>) = outcome?.into_iter().unzip();
    forget_market_moves(&mut seen);
    bars.iter_mut().zip(&seen).for_each(|(bars, seen)| bars.segments = segments(seen, options));
    let comparison = Comparison::by_print(&seen).compare(&bars);
    if options.repairs.clocks == Clocks::Shift {
        for (at, clock) in &comparison.clocks {
            let Bars { start, end, timeframe, .. } = &mut bars[*at];
            let late = if timeframe.is_daily_or_longer() { 0 } else { clock.bars * timeframe.ns() };
            start.iter_mut().chain(end).for_each(|ns| *ns -= late);
        }
    }
    let audit = conclude(seen, comparison, &intake, options)?;
    // What is refused does not trade: a refused symbol is left out, and of a refused whole nothing is handed on.
    let fine = |at: usize| audit.symbols[at].verdict != Verdict::Refuse && audit.verdict != Verdict::Refuse;
    let kept = bars.into_iter().enumerate().filter(|(at, b)| fine(*at) && !b.is_empty()).map(|(_, b)| b).collect();
    Ok((Market { bars: kept }, audit))
}

/// Runs every series through a sink, one after another, without holding any of them whole.
pub(crate) fn stream(
    mut intake: Intake,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
    sink: &mut dyn FnMut(&ChunkHeader<'_>, Rows) -> Result<()>,
) -> Result<Audit> {
    let series = intake.take_series()?;
    let total: u64 = series.iter().flat_map(|s| &s.parts).map(|l| l.rows as u64).sum();
    let mut done = 0;
    let (mut all, mut tails) = (Vec::new(), Vec::new());
    // 50 kB each.
    let compared = series.len() <= 4096;
    let mut scratch = intake.scratch.take();
    // Files may bring different extras; a store has the same columns for all symbols of a timeframe.
    let mut extras: BTreeMap<Timeframe, Vec<String>> = BTreeMap::new();
    for one in &series {
        let known = extras.entry(one.timeframe).or_default();
        for name in one.extras(&intake.metas) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    for one in series {
        let (symbol, timeframe) = (one.symbol.clone(), one.timeframe);
        let mine = one.extras(&intake.metas);
        let (traded, _) = resolve_instrument(&symbol, timeframe, &one.parts, &intake.metas, options)?;
        let union = &extras[&timeframe];
        let mut tail = Tail::default();
        let seen = one.run(&intake.metas, options, scratch.as_mut(), &mut |mut rows| {
            options.check_stop()?;
            if compared {
                tail.push(&rows);
            }
            done += rows.len() as u64;
            progress(Progress { phase: "writing", done: done.min(total), total, unit: "bars" });
            let n = rows.len();
            let take = |name: &String| match mine.iter().position(|m| m == name) {
                Some(at) => std::mem::take(&mut rows.extras[at]),
                None => vec![f64::NAN; n],
            };
            rows.extras = union.iter().map(take).collect();
            sink(&ChunkHeader { symbol: &symbol, timeframe, extras: union, instrument: &traded }, rows)
        })?;
        tails.push(tail.into_bars(&seen));
        all.push(seen);
    }
    forget_market_moves(&mut all);
    let comparison = Comparison::by_print(&all).compare(&tails);
    // Stamps are moved when bars are read; what is stored is what was there.
    let clocks = if options.repairs.clocks == Clocks::Shift { Clocks::Keep } else { options.repairs.clocks };
    let options = Options { repairs: Repairs { clocks, ..options.repairs.clone() }, ..options.clone() };
    conclude(all, comparison, &intake, &options)
}

/// The last bars of a series, as far as series are compared by them.
#[derive(Default)]
struct Tail {
    start: Vec<i64>,
    close: Vec<f64>,
    volume: Vec<f64>,
}

impl Tail {
    fn push(&mut self, rows: &Rows) {
        // One bar more, for the first return.
        let most = Comparison::BARS + 1;
        let from = rows.len().saturating_sub(most);
        self.start.extend(&rows.stamp[from..]);
        self.close.extend(&rows.values[3][from..]);
        self.volume.extend(&rows.values[4][from..]);
        let old = self.start.len().saturating_sub(most);
        self.start.drain(..old);
        self.close.drain(..old);
        self.volume.drain(..old);
    }

    fn into_bars(self, seen: &SeriesFacts) -> Bars {
        let volume = if seen.observer.with_volume == 0 { Vec::new() } else { self.volume };
        Bars {
            symbol: seen.symbol.clone(),
            instrument: seen.instrument.clone(),
            timeframe: seen.timeframe,
            start: self.start,
            end: Vec::new(),
            open: Vec::new(),
            high: Vec::new(),
            low: Vec::new(),
            close: self.close,
            volume,
            extras: Vec::new(),
            segments: Vec::new(),
            member: Vec::new(),
        }
    }
}

/// Whose rows a sink is given.
pub(crate) struct ChunkHeader<'a> {
    pub symbol: &'a str,
    pub timeframe: Timeframe,
    pub extras: &'a [String],
    pub instrument: &'a Instrument,
}

/// Where segments begin: at the first bar, and at each suspected split or leap of the price.
fn segments(seen: &SeriesFacts, options: &Options) -> Vec<usize> {
    let mut starts = vec![0];
    if options.repairs.splits == Splits::Segment {
        starts.extend(seen.observer.jumps.borders().map(|j| j.index as usize).filter(|i| *i > 0));
        starts.sort_unstable();
        starts.dedup();
    }
    starts
}

/// A pool of that many threads.
pub(crate) fn build_thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .build()
        .map_err(|e| Error::new(Kind::Machine, format!("threads could not be started: {e}")))
}

impl Series {
    fn extras(&self, metas: &[FileMeta]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for lot in &self.parts {
            for name in &metas[lot.file].extras {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        if self.has_bid_and_ask(metas) && !names.iter().any(|n| n == "spread") {
            names.push("spread".into());
        }
        names
    }

    /// Bid in one file, ask in another.
    fn has_bid_and_ask(&self, metas: &[FileMeta]) -> bool {
        let has = |side| self.parts.iter().any(|l| metas[l.file].side == Some(side));
        has(Side::Bid) && has(Side::Ask)
    }

    /// Puts the rows in order, repairs and watches them, and hands them to the sink.
    fn run(
        self,
        metas: &[FileMeta],
        options: &Options,
        scratch: Option<&mut Scratch>,
        sink: &mut dyn FnMut(Rows) -> Result<()>,
    ) -> Result<SeriesFacts> {
        let extras = self.extras(metas);
        let pairs = self.has_bid_and_ask(metas);
        let first = &metas[self.parts[0].file];
        let (instrument, note) = resolve_instrument(&self.symbol, self.timeframe, &self.parts, metas, options)?;
        let mut seen = SeriesFacts {
            observer: BarObserver::new(self.timeframe, &instrument, &extras),
            instrument,
            instrument_note: note,
            timeframe: self.timeframe,
            files: self.parts.iter().map(|l| l.file).collect(),
            tally: Tally::default(),
            duplicates: 0,
            conflicts: 0,
            duplicate_example: None,
            conflict_example: None,
            out_of_order: 0,
            order_example: None,
            newest_first: self.parts.iter().any(|l| l.stamp_order.newest_first()),
            one_sided: 0,
            paired: pairs,
            outside: None,
            modified: self.parts.iter().filter_map(|l| metas[l.file].modified).max(),
            last_end: 0,
            span: None,
            extras: extras.clone(),
            rows: self.parts.iter().map(|l| l.rows as u64).sum(),
            mixed_units: 0,
            symbol: self.symbol.clone(),
        };
        for lot in &self.parts {
            let units = &lot.tally.units;
            seen.mixed_units += units.iter().sum::<u64>() - units.iter().max().copied().unwrap_or(0);
            seen.tally.add(lot.tally.clone());
            let (n, at) = lot.stamp_order.out_of_order();
            seen.out_of_order += n;
            let file = Path::new(&metas[lot.file].note.file)
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let shown = at.filter(|_| n > 0).map(|at| format!("{file}: {} is out of order", rfc3339(at)));
            seen.order_example = seen.order_example.take().or(shown);
        }
        if seen.out_of_order > 0 && options.repairs.order == RowOrder::Refuse {
            return Err(Error::input(format!(
                "{} rows are out of order ({})",
                seen.out_of_order,
                seen.order_example.unwrap_or_default()
            ))
            .at(Path::new(&first.note.file))
            .remedy("sort the file by time, or set repair.order = \"sort\""));
        }
        let stamp = first.stamp;
        let (symbol, timeframe) = (self.symbol.clone(), self.timeframe);
        let spans = options.membership.as_ref().map(|m| m.spans(&symbol));
        let mut clean = Cleaner { options, seen: &mut seen, file: first.note.file.clone(), held: None };
        let mut forward = |clean: &mut Cleaner<'_>, rows: Rows| -> Result<()> {
            if let Some(rows) = clean.finish(rows, stamp, timeframe, &symbol, spans.as_deref()) {
                sink(rows)?;
            }
            Ok(())
        };
        if pairs {
            let rows = pair_bid_ask(self, metas, &extras, &mut clean)?;
            forward(&mut clean, rows)?;
        } else {
            merge_in_order(self.parts, metas, &extras, scratch, &mut |rows, last| {
                let rows = clean.dedupe(rows, last)?;
                forward(&mut clean, rows)
            })?;
        }
        seen.observer.finish();
        Ok(seen)
    }
}

/// The instrument by name, by what the bars show, by what the file and the user state, in this order; and what the bars
/// changed.
fn resolve_instrument(
    symbol: &str,
    timeframe: Timeframe,
    lots: &[FileRows],
    metas: &[FileMeta],
    options: &Options,
) -> Result<(Instrument, Option<String>)> {
    let meta = &metas[lots[0].file];
    let mut words = meta.words.clone();
    words.extend(
        Path::new(&meta.note.file)
            .components()
            .rev()
            .skip(1)
            .take(5)
            .map(|c| c.as_os_str().to_string_lossy().to_lowercase()),
    );
    let hints = Hints { class: meta.class, volume: meta.volume, words };
    let name = symbol.trim_end_matches(":quote");
    let (mut instrument, _) = Instrument::guess(name, &hints);
    if meta.saturdays && instrument.class == Class::Equity && instrument.currency == "USD" && meta.class.is_none() {
        // No exchange for shares is open on Saturdays.
        instrument = Instrument::guess(name, &Hints { class: Some(Class::CryptoSpot), ..hints }).0;
    }
    let stored = meta.stored.as_ref().and_then(|s| s.get(symbol));
    let mut note = None;
    if meta.class.is_none() && stored.is_none() {
        let stamps: Vec<i64> = lots.iter().flat_map(|lot| &lot.stamp_order.sampled).copied().collect();
        let seen = SeenBars { stamps: &stamps, step: timeframe.ns(), zone: meta.zone.as_deref() };
        note = reconcile(name, &mut instrument, &seen);
        if let Some(volume) = meta.volume.filter(|_| note.is_some()) {
            instrument.volume = volume;
        }
    }
    if let Some(stored) = stored {
        let damaged =
            |m: String| Error::input(format!("the stored instrument of {symbol}: {m}")).at(Path::new(&meta.note.file));
        stored.apply(&mut instrument).map_err(damaged)?;
    }
    let patch = options.instruments.iter().find(|(name, _)| name.eq_ignore_ascii_case(symbol)).map(|(_, p)| p);
    if let Some(patch) = patch {
        patch.apply(&mut instrument).map_err(|m| Error::new(Kind::Usage, format!("[instrument.{symbol}]: {m}")))?;
    }
    Ok((instrument, note))
}

/// Bid and ask files become one series of middle prices; times that only one side has are dropped and counted.
fn pair_bid_ask(series: Series, metas: &[FileMeta], extras: &[String], clean: &mut Cleaner<'_>) -> Result<Rows> {
    let (bid, ask): (Vec<FileRows>, Vec<FileRows>) =
        series.parts.into_iter().partition(|l| metas[l.file].side == Some(Side::Bid));
    if bid.iter().chain(&ask).flat_map(|l| &l.blocks).any(|b| matches!(b, Block::Disk { .. })) {
        return Err(Error::new(Kind::Memory, "bid and ask files are joined in memory, and these do not fit")
            .remedy("raise <memory>"));
    }
    let spread = extras.iter().position(|n| n == "spread");
    let bid = clean.dedupe(sort_rows(join_files(bid, metas, extras)), true)?;
    let ask = clean.dedupe(sort_rows(join_files(ask, metas, extras)), true)?;
    let (mut i, mut j) = (0, 0);
    let (mut from_bid, mut from_ask) = (Vec::new(), Vec::new());
    while i < bid.len() && j < ask.len() {
        match bid.stamp[i].cmp(&ask.stamp[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                from_bid.push(i as u32);
                from_ask.push(j as u32);
                i += 1;
                j += 1;
            }
        }
    }
    clean.seen.one_sided = (bid.len() + ask.len() - 2 * from_bid.len()) as u64;
    let (mut rows, ask) = (bid.select_rows(&from_bid), ask.select_rows(&from_ask));
    if let Some(at) = spread {
        rows.extras[at] = ask.values[3].iter().zip(&rows.values[3]).map(|(a, b)| a - b).collect();
    }
    for (mine, theirs) in rows.values.iter_mut().zip(&ask.values) {
        mine.iter_mut().zip(theirs).for_each(|(b, a)| *b = if b.is_nan() { *a } else { (*b + a) / 2.0 });
    }
    Ok(rows)
}
