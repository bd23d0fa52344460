//! Rows as they come in, by file and symbol; sorted to a scratch file when they outgrow memory.

use super::Series;
use super::order::{Block, sort_rows, write_block};
use crate::audit::LeftOut;
use crate::ingest::{Part, Rows, Tally};
use crate::recognise::most_common_step;
use crate::scan::FileMeta;
use crate::{Options, Timeframe};
use files::{Error, Kind, Result, Scratch, format_bytes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Rows by file and symbol.
pub(crate) struct Intake {
    options: Options,
    scratch_folder: Option<PathBuf>,
    pub scratch: Option<Scratch>,
    pub metas: Vec<FileMeta>,
    /// Counts that belong to a file but to no symbol of it.
    pub file_tally: Vec<Tally>,
    lots: Vec<FileRows>,
    index: HashMap<(usize, String), usize>,
    held: usize,
    /// Bytes of all files.
    pub bytes: u64,
    pub left_out: Vec<LeftOut>,
    /// Some symbols that were not asked for.
    unselected: Vec<String>,
    /// Symbols that the membership file does not list.
    pub unlisted: BTreeSet<String>,
}

/// One symbol's rows of one file.
pub(crate) struct FileRows {
    pub file: usize,
    pub symbol: String,
    pub(super) blocks: Vec<Block>,
    pub tally: Tally,
    pub stamp_order: StampOrder,
    pub rows: usize,
}

/// In which order stamps come, and how far apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct StampOrder {
    last: Option<i64>,
    pub ups: u64,
    pub downs: u64,
    /// The first stamp that came before its predecessor, and the first that came after it.
    first_down: Option<i64>,
    first_up: Option<i64>,
    step: i64,
    count: u64,
    steps: HashMap<i64, u64>,
    /// Every `stride`-th stamp, at most [`SAMPLED`].
    pub sampled: Vec<i64>,
    stride: usize,
    skip: usize, // stamps until the next one is taken
}

/// Stamps kept of a file's symbol, spread over all of it.
const SAMPLED: usize = 4096;

impl StampOrder {
    fn add_stamps(&mut self, labels: &[i64]) {
        self.sample(labels);
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

    fn sample(&mut self, labels: &[i64]) {
        let mut at = self.skip;
        while at < labels.len() {
            self.sampled.push(labels[at]);
            if self.sampled.len() == SAMPLED {
                let mut odd = false;
                self.sampled.retain(|_| {
                    odd = !odd;
                    odd
                });
                self.stride = 2 * self.stride.max(1);
            }
            at += self.stride.max(1);
        }
        self.skip = at - labels.len();
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
        most_common_step(
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
            unselected: Vec::new(),
            unlisted: BTreeSet::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lots.is_empty() && self.metas.is_empty()
    }

    /// A new file begins.
    pub(crate) fn add_file(&mut self, meta: FileMeta) -> usize {
        self.metas.push(meta);
        self.file_tally.push(Tally::default());
        self.metas.len() - 1
    }

    /// Rows of a file.
    pub(crate) fn add_part(&mut self, file: usize, part: Part) -> Result<()> {
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
            if self.unselected.len() < 12 && !self.unselected.contains(&symbol) {
                self.unselected.push(symbol);
            }
            return Ok(());
        }
        // A listed universe is the list.
        if self.options.membership.as_ref().is_some_and(|members| !members.contains(&symbol)) {
            self.unlisted.insert(symbol);
            return Ok(());
        }
        let lots = &mut self.lots;
        let at = *self.index.entry((file, symbol)).or_insert_with_key(|(_, symbol)| {
            lots.push(FileRows {
                file,
                symbol: symbol.clone(),
                blocks: Vec::new(),
                tally: Tally::default(),
                stamp_order: StampOrder::default(),
                rows: 0,
            });
            lots.len() - 1
        });
        let lot = &mut lots[at];
        lot.tally.add(part.tally);
        lot.stamp_order.add_stamps(&part.rows.stamp);
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
                Kind::Memory,
                format!("the data outgrow the {} of memory that may be used", format_bytes(self.options.memory)),
            )
            .remedy("raise <memory>, choose fewer <symbols>, or run `fullbore data add`, which streams"));
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
                lot.blocks.push(write_block(scratch, sort_rows(rows))?);
            }
        }
        self.held = 0;
        Ok(())
    }

    /// Lots by symbol and timeframe.
    pub(super) fn take_series(&mut self) -> Result<Vec<Series>> {
        if self.lots.is_empty() && !self.unselected.is_empty() {
            let there = self.unselected.join(", ");
            return Err(Error::new(
                Kind::Usage,
                format!("none of the symbols {} is in the data", self.options.symbols.join(", ")),
            )
            .remedy(format!("the data hold {there}{}", if self.unselected.len() == 12 { ", …" } else { "" })));
        }
        if let (true, Some(first), Some(members)) =
            (self.lots.is_empty(), self.unlisted.first(), &self.options.membership)
        {
            let listed = members.symbols().take(3).collect::<Vec<_>>().join(", ");
            return Err(Error::input(format!(
                "none of the symbols is in the membership file: the data hold {first}{}, and it lists {listed}, …",
                if self.unlisted.len() > 1 { ", …" } else { "" }
            ))
            .remedy("write symbols in universe.membership as the data do"));
        }
        let mut by_key: BTreeMap<(String, Timeframe), Vec<FileRows>> = BTreeMap::new();
        let mut odd = Vec::new();
        for mut lot in std::mem::take(&mut self.lots) {
            lot.stamp_order.flush();
            let meta = &self.metas[lot.file];
            let told = meta.timeframe.filter(|_| meta.timeframe_stated);
            // Steps of rows in no order tell nothing; the sample was sorted before it was asked.
            let mixed = meta.timeframe.filter(|_| lot.stamp_order.out_of_order().0 * 10 > lot.rows as u64);
            match told.or(mixed).or_else(|| lot.stamp_order.timeframe()).or(meta.timeframe) {
                Some(timeframe) => by_key.entry((lot.symbol.clone(), timeframe)).or_default().push(lot),
                None => odd.push(lot),
            }
        }
        // One row tells no timeframe: it joins its symbol's other rows, or stands as a day.
        let known: HashMap<String, Timeframe> = by_key.keys().rev().cloned().collect();
        for lot in odd {
            let timeframe = known.get(&lot.symbol).copied().unwrap_or(Timeframe::D1);
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
                let (quote, trade): (Vec<FileRows>, Vec<FileRows>) =
                    lots.into_iter().partition(|l| self.metas[l.file].quote);
                all.push(Series { symbol: symbol.clone(), timeframe, parts: trade });
                all.push(Series { symbol: format!("{symbol}:quote"), timeframe, parts: quote });
            } else {
                all.push(Series { symbol, timeframe, parts: lots });
            }
        }
        all.sort_by(|a, b| (&a.symbol, a.timeframe).cmp(&(&b.symbol, b.timeframe)));
        Ok(all)
    }
}
