//! The rows of one symbol and timeframe, in order, each time once.
//!
//! Rows come in by file and symbol ([`Intake`]). When they outgrow the memory that may be used they are sorted and moved to a
//! scratch file, and later merged from there in windows; so a file of any size passes through. What is done to the rows is
//! counted; what could not be repaired is an error.

use crate::audit::watch::Watch;
use crate::audit::{Audit, LeftOut, Verdict, conclude};
use crate::ingest::{Part, Rows, Tally};
use crate::instrument::Hints;
use crate::recognise::names::Side;
use crate::recognise::{StampMarks, mode_step};
use crate::scan::{Meta, Progress};
use crate::{Bars, Class, Duplicates, Instrument, Market, Options, Order, Splits, Timeframe};
use files::time::{civil, days, rfc3339};
use files::{Error, Kind, MISSING_TIME, Result, Scratch};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

const DAY: i64 = 86_400_000_000_000;
/// Rows merged from a scratch file at a time.
const WINDOW: usize = 32_768;

/// Rows by file and symbol.
pub(crate) struct Intake {
    options: Options,
    scratch_folder: Option<PathBuf>,
    scratch: Option<Scratch>,
    pub metas: Vec<Meta>,
    /// Counts that belong to a file but to no symbol of it.
    pub file_tally: Vec<Tally>,
    lots: Vec<Lot>,
    index: HashMap<(usize, String), usize>,
    held: usize,
    /// Bytes of all files.
    pub bytes: u64,
    pub left_out: Vec<LeftOut>,
    /// Some symbols that were not asked for.
    passed_over: Vec<String>,
}

/// One symbol's rows of one file.
pub(crate) struct Lot {
    pub file: usize,
    symbol: String,
    blocks: Vec<Block>,
    pub tally: Tally,
    pub flow: Flow,
    rows: usize,
}

enum Block {
    Memory(Rows),
    /// Sorted, as 8-byte little-endian columns: label, end, five values, extras.
    Disk {
        at: u64,
        rows: usize,
        extras: usize,
    },
}

/// In which order stamps come, and how far apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    last: Option<i64>,
    pub ups: u64,
    pub downs: u64,
    /// The first stamp that came before its predecessor, and the first that came after it.
    first_down: Option<i64>,
    first_up: Option<i64>,
    step: i64,
    count: u64,
    steps: HashMap<i64, u64>,
}

impl Flow {
    fn see(&mut self, labels: &[i64]) {
        let mut last = match self.last {
            Some(last) => last,
            None => match labels.first() {
                Some(first) => *first,
                None => return,
            },
        };
        for (i, label) in labels.iter().enumerate() {
            if i == 0 && self.last.is_none() {
                continue;
            }
            let step = label - last;
            last = *label;
            if step == self.step {
                self.count += 1;
                continue;
            }
            self.flush();
            self.step = step;
            self.count = 1;
            if step < 0 {
                self.first_down.get_or_insert(*label);
            } else if step > 0 {
                self.first_up.get_or_insert(*label);
            }
        }
        self.last = Some(last);
    }

    fn flush(&mut self) {
        if self.count == 0 {
            return;
        }
        match self.step {
            s if s > 0 => self.ups += self.count,
            s if s < 0 => self.downs += self.count,
            _ => {}
        }
        let key = self.step.abs();
        if self.steps.len() < 4096 || self.steps.contains_key(&key) {
            *self.steps.entry(key).or_default() += self.count;
        }
        self.count = 0;
    }

    /// The rows against the file's own direction, and the first such stamp.
    pub(crate) fn out_of_order(&self) -> (u64, Option<i64>) {
        if self.downs > self.ups { (self.ups, self.first_up) } else { (self.downs, self.first_down) }
    }

    pub(crate) fn newest_first(&self) -> bool {
        self.downs > self.ups
    }

    fn timeframe(&self) -> Option<Timeframe> {
        // Weighted by how often each step occurs; capped so that a long file costs no more.
        let most = self.steps.values().max().copied().unwrap_or(0).max(1);
        mode_step(
            self.steps.iter().flat_map(|(step, n)| std::iter::repeat_n(*step, ((n * 1000).div_ceil(most)) as usize)),
        )
    }
}

impl Intake {
    pub(crate) fn new(options: Options, scratch_folder: Option<PathBuf>) -> Intake {
        Intake {
            options,
            scratch_folder,
            scratch: None,
            metas: Vec::new(),
            file_tally: Vec::new(),
            lots: Vec::new(),
            index: HashMap::new(),
            held: 0,
            bytes: 0,
            left_out: Vec::new(),
            passed_over: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lots.is_empty() && self.metas.is_empty()
    }

    /// A new file begins.
    pub(crate) fn begin(&mut self, meta: Meta) -> usize {
        self.metas.push(meta);
        self.file_tally.push(Tally::default());
        self.metas.len() - 1
    }

    /// Rows of a file.
    pub(crate) fn part(&mut self, file: usize, part: Part) -> Result<()> {
        let symbol = match part.symbol {
            Some(symbol) => symbol,
            None if self.metas[file].many => {
                self.file_tally[file].add(part.tally);
                return Ok(());
            }
            None => self.metas[file].symbol.clone(),
        };
        let wanted = &self.options.symbols;
        if !wanted.is_empty() && !wanted.iter().any(|w| w.eq_ignore_ascii_case(&symbol)) {
            if self.passed_over.len() < 12 && !self.passed_over.contains(&symbol) {
                self.passed_over.push(symbol);
            }
            return Ok(());
        }
        let lots = &mut self.lots;
        let at = *self.index.entry((file, symbol)).or_insert_with_key(|(_, symbol)| {
            lots.push(Lot {
                file,
                symbol: symbol.clone(),
                blocks: Vec::new(),
                tally: Tally::default(),
                flow: Flow::default(),
                rows: 0,
            });
            lots.len() - 1
        });
        let lot = &mut lots[at];
        lot.tally.add(part.tally);
        lot.flow.see(&part.rows.label);
        lot.rows += part.rows.len();
        self.held += part.rows.bytes();
        match lot.blocks.last_mut() {
            _ if part.rows.len() == 0 => {}
            // Joined while they are still in the cache; growing a large vector moves pages, not bytes.
            Some(Block::Memory(rows)) => rows.extend(&part.rows),
            _ => lot.blocks.push(Block::Memory(part.rows)),
        }
        if self.held as u64 > self.options.memory / 3 {
            return self.spill();
        }
        Ok(())
    }

    /// Moves everything held to the scratch file, sorted.
    fn spill(&mut self) -> Result<()> {
        let Some(folder) = &self.scratch_folder else {
            // What `read` holds is joined once more, so a third is the most that is safe.
            return Err(Error::new(
                Kind::Machine,
                format!("the data outgrow the {} MiB that may be used", self.options.memory >> 20),
            )
            .remedy("raise --memory, choose fewer --symbols, or run `fullbore data add`, which streams"));
        };
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(Scratch::create(folder)?),
        };
        for lot in &mut self.lots {
            self.options.check_stop()?;
            let mut disk = Vec::new();
            let mut rows: Option<Rows> = None;
            for block in lot.blocks.drain(..) {
                match (block, &mut rows) {
                    (Block::Memory(more), Some(rows)) => rows.extend(&more),
                    (Block::Memory(more), None) => rows = Some(more),
                    (block, _) => disk.push(block),
                }
            }
            lot.blocks = disk;
            if let Some(rows) = rows {
                lot.blocks.push(write_block(scratch, sorted(rows))?);
            }
        }
        self.held = 0;
        Ok(())
    }

    /// Lots by symbol and timeframe.
    fn series(&mut self) -> Result<Vec<Series>> {
        if self.lots.is_empty() && !self.passed_over.is_empty() {
            let there = self.passed_over.join(", ");
            return Err(Error::new(
                Kind::Usage,
                format!("none of the symbols {} is in the data", self.options.symbols.join(", ")),
            )
            .remedy(format!("there are {there}{}", if self.passed_over.len() == 12 { ", …" } else { "" })));
        }
        let mut by_key: BTreeMap<(String, Timeframe), Vec<Lot>> = BTreeMap::new();
        let mut odd = Vec::new();
        for mut lot in std::mem::take(&mut self.lots) {
            lot.flow.flush();
            let meta = &self.metas[lot.file];
            let told = meta.timeframe.filter(|_| meta.timeframe_stated);
            match told.or_else(|| lot.flow.timeframe()).or(meta.timeframe) {
                Some(timeframe) => by_key.entry((lot.symbol.clone(), timeframe)).or_default().push(lot),
                None => odd.push(lot),
            }
        }
        // One row tells no timeframe: it joins its symbol's other rows, or stands as a day.
        for lot in odd {
            let known = by_key.keys().find(|(symbol, _)| *symbol == lot.symbol).map(|(_, t)| *t);
            let timeframe = known.unwrap_or(Timeframe::D1);
            if lot.rows > 2 {
                self.metas[lot.file].warnings.push(format!("the stamps of {} follow no timeframe", lot.symbol));
            }
            by_key.entry((lot.symbol.clone(), timeframe)).or_default().push(lot);
        }
        let mut all = Vec::new();
        for ((symbol, timeframe), lots) in by_key {
            let quotes = lots.iter().filter(|l| self.metas[l.file].quote).count();
            if quotes > 0 && quotes < lots.len() {
                // Trades and quotes of one symbol are two series.
                let (quote, trade): (Vec<Lot>, Vec<Lot>) = lots.into_iter().partition(|l| self.metas[l.file].quote);
                all.push(Series { symbol: symbol.clone(), timeframe, lots: trade });
                all.push(Series { symbol: format!("{symbol}:quote"), timeframe, lots: quote });
            } else {
                all.push(Series { symbol, timeframe, lots });
            }
        }
        all.sort_by(|a, b| (&a.symbol, a.timeframe).cmp(&(&b.symbol, b.timeframe)));
        Ok(all)
    }
}

/// The lots of one symbol and timeframe.
pub(crate) struct Series {
    pub symbol: String,
    pub timeframe: Timeframe,
    lots: Vec<Lot>,
}

/// What a series was, once its rows have gone by.
pub(crate) struct Seen {
    pub symbol: String,
    pub timeframe: Timeframe,
    pub instrument: Instrument,
    pub watch: Watch,
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
    let series = intake.series()?;
    let total: u64 = series.iter().flat_map(|s| &s.lots).map(|l| l.rows as u64).sum();
    let done = std::sync::atomic::AtomicU64::new(0);
    let metas = &intake.metas;
    let run = |series: Series| -> Result<(Bars, Seen)> {
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
        let volume = if seen.watch.with_volume == 0 { Vec::new() } else { volume };
        let segments = segments(&seen, options);
        let member = options.membership.as_ref().map(|m| m.spans(&symbol)).unwrap_or_default();
        let extras = seen.extras.iter().cloned().zip(rows.extras).collect();
        let bars = Bars {
            symbol,
            instrument: seen.instrument.clone(),
            timeframe,
            start: rows.label,
            end: rows.end,
            open,
            high,
            low,
            close,
            volume,
            extras,
            segments,
            member,
        };
        Ok((bars, seen))
    };
    let outcome: Result<Vec<(Bars, Seen)>> = if series.len() > 1 && options.threads > 1 {
        pool(options.threads)?.install(|| series.into_par_iter().map(run).collect())
    } else {
        series.into_iter().map(run).collect()
    };
    let (bars, seen): (Vec<Bars>, Vec<Seen>) = outcome?.into_iter().unzip();
    let audit = conclude(seen, &intake, options)?;
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
    sink: &mut dyn FnMut(&Head<'_>, Rows) -> Result<()>,
) -> Result<Audit> {
    let series = intake.series()?;
    let total: u64 = series.iter().flat_map(|s| &s.lots).map(|l| l.rows as u64).sum();
    let mut done = 0;
    let mut all = Vec::new();
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
        let union = &extras[&timeframe];
        let seen = one.run(&intake.metas, options, scratch.as_mut(), &mut |mut rows| {
            options.check_stop()?;
            done += rows.len() as u64;
            progress(Progress { phase: "writing", done: done.min(total), total, unit: "bars" });
            let n = rows.len();
            let take = |name: &String| match mine.iter().position(|m| m == name) {
                Some(at) => std::mem::take(&mut rows.extras[at]),
                None => vec![f64::NAN; n],
            };
            rows.extras = union.iter().map(take).collect();
            sink(&Head { symbol: &symbol, timeframe, timeframes: extras.len(), extras: union }, rows)
        })?;
        all.push(seen);
    }
    conclude(all, &intake, options)
}

/// Whose rows a sink is given.
pub(crate) struct Head<'a> {
    pub symbol: &'a str,
    pub timeframe: Timeframe,
    /// How many timeframes there are in all.
    pub timeframes: usize,
    pub extras: &'a [String],
}

/// Where segments begin: at the first bar, and after each suspected split that no factor explains.
fn segments(seen: &Seen, options: &Options) -> Vec<usize> {
    let mut starts = vec![0];
    if options.repairs.splits == Splits::Segment {
        starts.extend(seen.watch.splits.iter().map(|j| j.index as usize).filter(|i| *i > 0));
        starts.sort_unstable();
        starts.dedup();
    }
    starts
}

/// A pool of that many threads.
pub(crate) fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .build()
        .map_err(|e| Error::new(Kind::Machine, format!("threads could not be started: {e}")))
}

impl Series {
    fn extras(&self, metas: &[Meta]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for lot in &self.lots {
            for name in &metas[lot.file].extras {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        if self.pairs(metas) && !names.iter().any(|n| n == "spread") {
            names.push("spread".into());
        }
        names
    }

    /// Bid in one file, ask in another.
    fn pairs(&self, metas: &[Meta]) -> bool {
        let has = |side| self.lots.iter().any(|l| metas[l.file].side == Some(side));
        has(Side::Bid) && has(Side::Ask)
    }

    /// Puts the rows in order, repairs and watches them, and hands them to the sink.
    fn run(
        self,
        metas: &[Meta],
        options: &Options,
        scratch: Option<&mut Scratch>,
        sink: &mut dyn FnMut(Rows) -> Result<()>,
    ) -> Result<Seen> {
        let extras = self.extras(metas);
        let pairs = self.pairs(metas);
        let first = &metas[self.lots[0].file];
        let instrument = instrument(&self.symbol, &self.lots, metas, options)?;
        let mut seen = Seen {
            watch: Watch::new(self.timeframe, instrument.class),
            instrument,
            timeframe: self.timeframe,
            files: self.lots.iter().map(|l| l.file).collect(),
            tally: Tally::default(),
            duplicates: 0,
            conflicts: 0,
            duplicate_example: None,
            conflict_example: None,
            out_of_order: 0,
            order_example: None,
            newest_first: self.lots.iter().any(|l| l.flow.newest_first()),
            one_sided: 0,
            paired: pairs,
            outside: None,
            modified: self.lots.iter().filter_map(|l| metas[l.file].modified).max(),
            last_end: 0,
            extras: extras.clone(),
            rows: self.lots.iter().map(|l| l.rows as u64).sum(),
            mixed_units: 0,
            symbol: self.symbol.clone(),
        };
        for lot in &self.lots {
            let units = &lot.tally.units;
            seen.mixed_units += units.iter().sum::<u64>() - units.iter().max().copied().unwrap_or(0);
            seen.tally.add(lot.tally.clone());
            let (n, at) = lot.flow.out_of_order();
            seen.out_of_order += n;
            let file = Path::new(&metas[lot.file].note.file)
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let shown = at.filter(|_| n > 0).map(|at| format!("{file}: {} comes out of turn", rfc3339(at)));
            seen.order_example = seen.order_example.take().or(shown);
        }
        if seen.out_of_order > 0 && options.repairs.order == Order::Refuse {
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
        let mut clean = Clean { options, seen: &mut seen, file: first.note.file.clone(), held: None };
        let mut forward = |clean: &mut Clean<'_>, rows: Rows| -> Result<()> {
            if let Some(rows) = clean.finish(rows, stamp, timeframe, &symbol, spans.as_deref()) {
                sink(rows)?;
            }
            Ok(())
        };
        if pairs {
            let rows = pair(self, metas, &extras, &mut clean)?;
            forward(&mut clean, rows)?;
        } else {
            ordered(self.lots, metas, &extras, scratch, &mut |rows, last| {
                let rows = clean.dedupe(rows, last)?;
                forward(&mut clean, rows)
            })?;
        }
        seen.watch.end();
        Ok(seen)
    }
}

fn instrument(symbol: &str, lots: &[Lot], metas: &[Meta], options: &Options) -> Result<Instrument> {
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
    if meta.saturdays && instrument.class == Class::Equity && meta.class.is_none() {
        // No exchange for shares is open on Saturdays.
        instrument = Instrument::guess(name, &Hints { class: Some(Class::CryptoSpot), ..hints }).0;
    }
    let patch = options.instruments.iter().find(|(name, _)| name.eq_ignore_ascii_case(symbol)).map(|(_, p)| p);
    if let Some(patch) = patch {
        patch.apply(&mut instrument).map_err(|m| Error::new(Kind::Usage, format!("[instrument.{symbol}]: {m}")))?;
    }
    Ok(instrument)
}

/// Duplicates out, stamps to bars.
struct Clean<'a> {
    options: &'a Options,
    seen: &'a mut Seen,
    file: String,
    held: Option<Rows>, // the last row of a window: its successor may repeat its time
}

impl Clean<'_> {
    /// Leaves one row a time.
    fn dedupe(&mut self, rows: Rows, last: bool) -> Result<Rows> {
        let mut rows = match self.held.take() {
            Some(mut held) => {
                held.extend(&rows);
                held
            }
            None => rows,
        };
        let n = rows.len();
        let repeats = rows.label.windows(2).any(|w| w[0] == w[1]);
        if repeats {
            let mut keep: Vec<u32> = Vec::with_capacity(n);
            for i in 0..n {
                let Some(before) = keep.last().map(|k| *k as usize).filter(|k| rows.label[*k] == rows.label[i]) else {
                    keep.push(i as u32);
                    continue;
                };
                let same = rows.values.iter().all(|v| v[before] == v[i] || (v[before].is_nan() && v[i].is_nan()));
                let at = rfc3339(rows.label[i]);
                if same {
                    self.seen.duplicates += 1;
                    self.seen.duplicate_example.get_or_insert_with(|| format!("{} has {at} twice", self.seen.symbol));
                } else {
                    self.seen.conflicts += 1;
                    let (a, b) = (rows.values[3][before], rows.values[3][i]);
                    self.seen
                        .conflict_example
                        .get_or_insert_with(|| format!("{} has {at} with close {a} and with {b}", self.seen.symbol));
                }
                match self.options.repairs.duplicates {
                    Duplicates::First => {}
                    Duplicates::Last => {
                        if let Some(k) = keep.last_mut() {
                            *k = i as u32;
                        }
                    }
                    Duplicates::Refuse => {
                        return Err(Error::input(format!("{at} occurs twice for {}", self.seen.symbol))
                            .at(Path::new(&self.file))
                            .remedy("remove one of the rows, or set repair.duplicates = \"last\" or \"first\""));
                    }
                }
            }
            rows = rows.pick(&keep);
        }
        if !last && rows.len() > 0 {
            let n = rows.len() as u32;
            self.held = Some(rows.pick(&[n - 1]));
            rows.truncate(n as usize - 1);
        }
        Ok(rows)
    }

    /// Stamps become start and end; the range is cut; factors are applied; the audit sees the result.
    fn finish(
        &mut self,
        mut rows: Rows,
        stamp: StampMarks,
        timeframe: Timeframe,
        symbol: &str,
        spans: Option<&[(i64, i64)]>,
    ) -> Option<Rows> {
        let given = std::mem::take(&mut rows.end);
        let mut end = Vec::with_capacity(rows.len());
        for (i, label) in rows.label.iter_mut().enumerate() {
            let stated = given.get(i).copied().filter(|e| *e != MISSING_TIME && *e > *label);
            let (start, stop) = span(*label, stamp, timeframe);
            *label = start;
            end.push(stated.map_or(stop, border));
        }
        rows.end = end;
        if self.options.from.is_some() || self.options.to.is_some() {
            let from = rows.label.partition_point(|t| self.options.from.is_some_and(|from| *t < from));
            let to = rows.label.partition_point(|t| self.options.to.is_none_or(|to| *t < to));
            if from > 0 || to < rows.len() {
                let kept: Vec<u32> = (from as u32..to.max(from) as u32).collect();
                rows = rows.pick(&kept);
            }
        }
        if rows.len() == 0 {
            return None;
        }
        if let Some(factors) = &self.options.factors {
            let [o, h, l, c, v] = &mut rows.values;
            factors.apply(symbol, &rows.label, [o, h, l, c], v);
        }
        if let Some(spans) = spans {
            let outside =
                rows.label.iter().filter(|t| !spans.iter().any(|(from, to)| (*from..*to).contains(*t))).count();
            *self.seen.outside.get_or_insert(0) += outside as u64;
        }
        self.seen.last_end = rows.end.last().copied().unwrap_or(0);
        self.seen.watch.push(&rows);
        Some(rows)
    }
}

impl Rows {
    fn truncate(&mut self, n: usize) {
        self.label.truncate(n);
        self.end.truncate(n);
        self.numbers_mut().for_each(|v| v.truncate(n));
    }

    /// Adds a range of another's rows behind; both have the same extras and ends.
    fn extend_range(&mut self, other: &Rows, from: usize, to: usize) {
        self.label.extend_from_slice(&other.label[from..to]);
        if !other.end.is_empty() {
            self.end.extend_from_slice(&other.end[from..to]);
        }
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            mine.extend_from_slice(&theirs[from..to]);
        }
        for (mine, theirs) in self.extras.iter_mut().zip(&other.extras) {
            mine.extend_from_slice(&theirs[from..to]);
        }
    }
}

/// Venues write the last millisecond (or microsecond) of a bar as its end; the bar is over one such unit later.
fn border(end: i64) -> i64 {
    let unit = [1_000_000, 1_000, 1].into_iter().find(|unit| (end + unit) % 1_000_000_000 == 0);
    end + unit.unwrap_or(0)
}

/// Start and end of the bar a stamp marks.
fn span(label: i64, stamp: StampMarks, timeframe: Timeframe) -> (i64, i64) {
    match (stamp, timeframe) {
        (StampMarks::Start, Timeframe::Fixed(ns)) => (label, label + ns),
        (StampMarks::Start, Timeframe::Months(n)) => (label, add_months(label, n)),
        (StampMarks::End { add }, Timeframe::Fixed(ns)) => (label + add - ns, label + add),
        (StampMarks::End { add }, Timeframe::Months(n)) => (add_months(label + add, -n), label + add),
        (StampMarks::MonthEnd, timeframe) => {
            let end = (label.div_euclid(DAY) + 1) * DAY;
            let n = if let Timeframe::Months(n) = timeframe { n } else { 1 };
            (add_months(end, -n), end)
        }
    }
}

fn add_months(ns: i64, months: i64) -> i64 {
    let (year, month, day) = civil(ns.div_euclid(DAY));
    let at = year * 12 + month - 1 + months;
    let (year, month) = (at.div_euclid(12), at.rem_euclid(12) + 1);
    // The 31st of a shorter month is its last day.
    let days = (0..4).find_map(|back| days(year, month, day - back)).unwrap_or(0);
    days * DAY + ns.rem_euclid(DAY)
}

/// Rows sorted by stamp; equal stamps keep their order.
fn sorted(rows: Rows) -> Rows {
    if rows.label.is_sorted() {
        return rows;
    }
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|i| rows.label[*i as usize]);
    rows.pick(&order)
}

/// Gives rows the extras of the whole series.
fn widen(mut rows: Rows, mine: &[String], all: &[String]) -> Rows {
    if mine != all {
        let n = rows.len();
        let take = |name: &String| match mine.iter().position(|m| m == name) {
            Some(at) if at < rows.extras.len() => std::mem::take(&mut rows.extras[at]),
            _ => vec![f64::NAN; n],
        };
        rows.extras = all.iter().map(take).collect();
    }
    rows
}

/// Hands over all rows in order of time; `true` with the last.
fn ordered(
    lots: Vec<Lot>,
    metas: &[Meta],
    extras: &[String],
    scratch: Option<&mut Scratch>,
    each: &mut dyn FnMut(Rows, bool) -> Result<()>,
) -> Result<()> {
    let on_disk = lots.iter().flat_map(|l| &l.blocks).any(|b| matches!(b, Block::Disk { .. }));
    if !on_disk {
        return each(sorted(join(lots, metas, extras)), true);
    }
    let Some(scratch) = scratch else { return each(Rows::default(), true) };
    let mut cursors = Vec::new();
    for lot in lots {
        let mine = &metas[lot.file].extras;
        let mut rest: Option<Rows> = None;
        for block in lot.blocks {
            match block {
                Block::Memory(rows) => match &mut rest {
                    Some(held) => held.extend(&rows),
                    None => rest = Some(rows),
                },
                Block::Disk { at, rows, extras: n } => cursors.push(Cursor {
                    from: Some((at, rows, n)),
                    next: 0,
                    window: Rows::default(),
                    row: 0,
                    names: mine.clone(),
                }),
            }
        }
        if let Some(rows) = rest {
            let window = widen(with_ends(sorted(rows)), mine, extras);
            cursors.push(Cursor { from: None, next: 0, window, row: 0, names: mine.clone() });
        }
    }
    merge(cursors, extras, scratch, each)
}

/// A sorted block being read.
struct Cursor {
    from: Option<(u64, usize, usize)>, // where it lies on disk, its rows, its extras
    next: usize,                       // first row not read yet
    window: Rows,
    row: usize, // of the window
    names: Vec<String>,
}

impl Cursor {
    /// The stamp it stands at; reads the next window where it must.
    fn head(&mut self, scratch: &mut Scratch, extras: &[String]) -> Result<Option<i64>> {
        if self.row == self.window.len()
            && let Some((at, rows, n)) = self.from
            && self.next < rows
        {
            let upto = (self.next + WINDOW).min(rows);
            let window = read_block(scratch, at, rows, n, self.next, upto)?;
            self.window = widen(window, &self.names, extras);
            self.next = upto;
            self.row = 0;
        }
        Ok(self.window.label.get(self.row).copied())
    }
}

fn merge(
    mut cursors: Vec<Cursor>,
    extras: &[String],
    scratch: &mut Scratch,
    each: &mut dyn FnMut(Rows, bool) -> Result<()>,
) -> Result<()> {
    // Equal stamps come in the order of their blocks, which is the order of the files.
    let mut heap = BinaryHeap::new();
    for (i, cursor) in cursors.iter_mut().enumerate() {
        if let Some(label) = cursor.head(scratch, extras)? {
            heap.push(Reverse((label, i)));
        }
    }
    let empty = || Rows { extras: vec![Vec::new(); extras.len()], ..Rows::default() };
    let mut out = empty();
    while let Some(Reverse((_, i))) = heap.pop() {
        // Take all rows up to the next cursor's head at once.
        let limit = heap.peek().map(|Reverse(next)| *next);
        let cursor = &mut cursors[i];
        let rest = &cursor.window.label[cursor.row..];
        let take = match limit {
            None => rest.len(),
            Some((label, j)) => rest.partition_point(|t| *t < label || (*t == label && i < j)).max(1),
        };
        out.extend_range(&cursor.window, cursor.row, cursor.row + take);
        cursor.row += take;
        if let Some(label) = cursor.head(scratch, extras)? {
            heap.push(Reverse((label, i)));
        }
        if out.len() >= WINDOW {
            each(std::mem::replace(&mut out, empty()), false)?;
        }
    }
    each(out, true)
}

/// All rows of lots that lie in memory.
fn join(lots: Vec<Lot>, metas: &[Meta], extras: &[String]) -> Rows {
    let mut blocks: Vec<Rows> = Vec::new();
    for lot in lots {
        let mine = &metas[lot.file].extras;
        for block in lot.blocks {
            if let Block::Memory(rows) = block {
                blocks.push(widen(rows, mine, extras));
            }
        }
    }
    if blocks.len() == 1 {
        return blocks.pop().unwrap_or_default();
    }
    let total: usize = blocks.iter().map(Rows::len).sum();
    let ends = blocks.iter().any(|b| !b.end.is_empty());
    let mut all = Rows { extras: vec![Vec::new(); extras.len()], ..Rows::default() };
    all.label.reserve_exact(total);
    if ends {
        all.end.reserve_exact(total);
        for block in &mut blocks {
            if block.end.is_empty() {
                block.end = vec![MISSING_TIME; block.len()];
            }
        }
    }
    all.numbers_mut().for_each(|v| v.reserve_exact(total));
    // Blocks are let go one by one, so that the peak is one copy and a block.
    for block in blocks {
        all.extend_range(&block, 0, block.len());
    }
    all
}

fn with_ends(mut rows: Rows) -> Rows {
    if rows.end.is_empty() {
        rows.end = vec![MISSING_TIME; rows.len()];
    }
    rows
}

fn write_block(scratch: &mut Scratch, rows: Rows) -> Result<Block> {
    let rows = with_ends(rows);
    let mut bytes = Vec::with_capacity(rows.len() * 8);
    let mut at = None;
    for column in [&rows.label, &rows.end] {
        bytes.clear();
        column.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
        at.get_or_insert(scratch.append(&bytes)?);
    }
    for column in rows.values.iter().chain(&rows.extras) {
        bytes.clear();
        column.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
        scratch.append(&bytes)?;
    }
    Ok(Block::Disk { at: at.unwrap_or(0), rows: rows.len(), extras: rows.extras.len() })
}

fn read_block(scratch: &mut Scratch, at: u64, rows: usize, extras: usize, from: usize, to: usize) -> Result<Rows> {
    let mut bytes = vec![0u8; (to - from) * 8];
    let mut column = |index: usize| -> Result<Vec<[u8; 8]>> {
        scratch.read(at + ((index * rows + from) * 8) as u64, &mut bytes)?;
        Ok(bytes.as_chunks::<8>().0.to_vec())
    };
    let times = |raw: Vec<[u8; 8]>| raw.into_iter().map(i64::from_le_bytes).collect();
    let floats = |raw: Vec<[u8; 8]>| raw.into_iter().map(f64::from_le_bytes).collect();
    let label = times(column(0)?);
    let end = times(column(1)?);
    let mut values: [Vec<f64>; 5] = Default::default();
    for (i, v) in values.iter_mut().enumerate() {
        *v = floats(column(2 + i)?);
    }
    let extras = (0..extras).map(|i| column(7 + i).map(floats)).collect::<Result<_>>()?;
    Ok(Rows { label, end, values, extras })
}

/// Bid and ask files become one series of middle prices; times that only one side has are dropped and counted.
fn pair(series: Series, metas: &[Meta], extras: &[String], clean: &mut Clean<'_>) -> Result<Rows> {
    let (bid, ask): (Vec<Lot>, Vec<Lot>) = series.lots.into_iter().partition(|l| metas[l.file].side == Some(Side::Bid));
    if bid.iter().chain(&ask).flat_map(|l| &l.blocks).any(|b| matches!(b, Block::Disk { .. })) {
        return Err(Error::new(Kind::Machine, "bid and ask files are joined in memory, and these do not fit")
            .remedy("raise --memory"));
    }
    let spread = extras.iter().position(|n| n == "spread");
    let bid = clean.dedupe(sorted(join(bid, metas, extras)), true)?;
    let ask = clean.dedupe(sorted(join(ask, metas, extras)), true)?;
    let (mut i, mut j) = (0, 0);
    let (mut from_bid, mut from_ask) = (Vec::new(), Vec::new());
    while i < bid.len() && j < ask.len() {
        match bid.label[i].cmp(&ask.label[j]) {
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
    let (mut rows, ask) = (bid.pick(&from_bid), ask.pick(&from_ask));
    if let Some(at) = spread {
        rows.extras[at] = ask.values[3].iter().zip(&rows.values[3]).map(|(a, b)| a - b).collect();
    }
    for (mine, theirs) in rows.values.iter_mut().zip(&ask.values) {
        mine.iter_mut().zip(theirs).for_each(|(b, a)| *b = if b.is_nan() { *a } else { (*b + a) / 2.0 });
    }
    Ok(rows)
}
