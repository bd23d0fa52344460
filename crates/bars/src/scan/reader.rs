//! One file to rows, whatever its container.

use super::lean::Lean;
use super::{LARGE, arrays, coerce, qlib};
use crate::audit::FileNote;
use crate::ingest::{Batch, Part, Tally};
use crate::recognise::names::{FileName, Side, parse_file_name};
use crate::recognise::{Evidence, Layout, Prices, StampMarks, TimeColumns};
use crate::store::StoredMetadata;
use crate::{Class, InstrumentPatch, Options, Timeframe, VolumeKind};
use files::{
    Archive, Caps, Container, CsvBlock, CsvHead, CsvKind, Data, Error, Kind, Result, Source, Table, format_bytes,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What reading a file gives, in order.
pub(crate) enum Event {
    Begin(Box<FileMeta>),
    Part(Box<Part>),
    /// Bytes of this file read so far.
    Bytes(u64),
}

/// What is known of a file (or member, or array) before its rows.
#[derive(Debug, Clone)]
pub(crate) struct FileMeta {
    pub note: FileNote,
    pub warnings: Vec<String>,
    pub symbol: String,
    /// Rows name their symbols themselves.
    pub many: bool,
    pub side: Option<Side>,
    pub quote: bool,
    pub stamp: StampMarks,
    pub extras: Vec<String>,
    pub volume: Option<VolumeKind>,
    pub class: Option<Class>,
    pub words: Vec<String>,
    /// Bars stand on Saturdays.
    pub saturdays: bool,
    /// The IANA zone of stamps that do not state one.
    pub zone: Option<String>,
    /// The timeframe the sample or the path told.
    pub timeframe: Option<Timeframe>,
    /// The path states it beyond doubt.
    pub timeframe_stated: bool,
    /// When the file was last written.
    pub modified: Option<i64>,
    /// What a file of ours says of its instruments.
    pub stored: Option<Arc<BTreeMap<String, InstrumentPatch>>>,
}

type EventSink<'a> = &'a mut dyn FnMut(Event) -> Result<()>;

/// Reads one file, whatever it is.
pub(super) fn read_file(
    path: &Path,
    options: &Options,
    threads: usize,
    streaming: bool,
    emit: EventSink<'_>,
) -> Result<()> {
    if path.is_dir() {
        return read_qlib(path, options, emit);
    }
    let source = Source::open(path)?;
    crate::store::check_stored(path)?;
    let reader = Reader { caps: Caps::default(), options, threads, streaming, modified: modified(path) };
    reader.read_source(&source, None, emit)
}

/// The line of the first NUL of something that is text otherwise.
fn find_nul(source: &Source) -> Result<Option<u64>> {
    let head = source.head(64 << 10)?;
    let text = head.iter().filter(|b| matches!(b, b'\t' | b'\n' | b'\r' | 32..=126)).count();
    let at = head.iter().position(|b| *b == 0).filter(|_| text * 10 >= head.len() * 9);
    Ok(at.map(|at| head[..at].iter().filter(|b| **b == b'\n').count() as u64 + 1))
}

fn modified(path: &Path) -> Option<i64> {
    let time = std::fs::metadata(path).ok()?.modified().ok()?;
    i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos()).ok()
}

pub(super) struct Reader<'a> {
    pub caps: Caps,
    pub options: &'a Options,
    pub threads: usize,
    pub streaming: bool,
    pub modified: Option<i64>,
}

impl Reader<'_> {
    pub(super) fn read_source(&self, source: &Source, lean: Option<&Lean>, emit: EventSink<'_>) -> Result<()> {
        let file = file_name_of(source.path());
        match source.container()? {
            Container::Text => self.read_text(source, &file, lean, emit),
            Container::Json => {
                let json = files::read_json(source, &self.caps)?;
                let mut table = json.table;
                coerce::coerce_text_columns(&mut table);
                let file = match json_symbol(&json.scalars) {
                    Some(symbol) => FileName { symbol, ..file },
                    None => file,
                };
                self.read_table(source.path(), "JSON", &file, None, table, None, emit)
            }
            Container::Parquet => {
                let skipped: Vec<String> =
                    files::parquet_columns(source, &self.caps)?.into_iter().filter(|c| !c.1).map(|c| c.0).collect();
                // Our own files say their timeframe; a thin series would mislead.
                let about = StoredMetadata::read(source)?;
                let own = about.as_ref().and_then(StoredMetadata::timeframe);
                let file = FileName { timeframe: own.or(file.timeframe), stated: own.is_some(), ..file };
                let mut batches = Batches::new(self, source.path(), "Parquet", &file, skipped);
                batches.stored = about.map(|a| Arc::new(a.instruments()));
                files::read_parquet(source, &self.caps, None, &mut |table| batches.push(table, emit))?;
                batches.finish(emit)
            }
            Container::Feather => {
                let mut batches = Batches::new(self, source.path(), "feather", &file, Vec::new());
                files::read_feather(source, &self.caps, &mut |table| batches.push(table, emit))?;
                batches.finish(emit)
            }
            Container::Npz => self.read_arrays(source, &file, files::read_npz(source, &self.caps)?, "NPZ", emit),
            Container::Npy => {
                // Its name is the file's, which is read with more care than an array's.
                let array = files::Array { name: String::new(), ..files::read_npy(source, &self.caps)? };
                self.read_arrays(source, &file, vec![array], "NPY", emit)
            }
            Container::Zip => self.read_zip(source, emit),
            Container::Unknown if find_nul(source)?.is_some() => {
                let line = find_nul(source)?.unwrap_or(1);
                Err(Error::input("the text holds NUL bytes")
                    .at(source.path())
                    .line(line)
                    .remedy("the file is damaged: get it again"))
            }
            Container::Unknown => Err(Error::input("the format was not recognised").at(source.path()).remedy(
                "Fullbore reads CSV, JSON, Parquet, feather, NPZ, zip and gzip; convert the file to one of them",
            )),
        }
    }

    fn read_zip(&self, source: &Source, emit: EventSink<'_>) -> Result<()> {
        let archive = Archive::open(source, &self.caps)?;
        let mut read = 0;
        let mut failed = None;
        for (at, member) in archive.members().iter().enumerate() {
            let lean = Lean::from_path(source.path(), &member.name);
            let inner = archive.source(at)?;
            // Read-me files and the like are passed over, unless there is nothing else.
            match self.read_source(&inner, lean.as_ref(), emit) {
                Ok(()) => read += 1,
                Err(error) if error.kind == Kind::Input && archive.members().len() > 1 => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if read == 0 => Err(error),
            _ if read == 0 => Err(Error::input("the archive is empty").at(source.path())),
            _ => Ok(()),
        }
    }

    fn read_text(&self, source: &Source, file: &FileName, lean: Option<&Lean>, emit: EventSink<'_>) -> Result<()> {
        let head = CsvHead::sniff(source, &self.caps)?;
        let given = Evidence {
            path: source.path(),
            container: "CSV",
            file,
            header: &head.header,
            sample: &head.sample,
            options: self.options,
            lean,
        };
        let mut layout = Layout::recognise(&given)?;
        if head.bom {
            layout.why.push("begins with a byte order mark".into());
        }
        match head.delimiter {
            b',' => {}
            b'\t' => layout.why.push("fields are separated by tabs".into()),
            other => layout.why.push(format!("fields are separated by `{}`", other as char)),
        }
        if head.decimal == files::Decimal::Comma {
            layout.why.push("numbers are written with a decimal comma".into());
        }
        if let TimeColumns::Stamp(at) | TimeColumns::DateAndClock(at, _) = layout.time
            && let Some(column) = head.times[at]
            && column.order != files::time::Order::Ymd
        {
            let order = if column.order == files::time::Order::Dmy { "day before month" } else { "month before day" };
            layout.why.push(format!("dates are written {order}"));
            if column.ambiguous {
                layout.warnings.push(format!("day and month could be swapped in the dates; they are read as {order}"));
            }
        }
        if source.is_gzip()? {
            layout.format.push_str(", gzip");
        }
        self.check_memory(source, &head, &layout)?;
        let kinds = column_kinds(&head, &layout);
        emit(Event::Begin(Box::new(self.file_meta(source.path(), file, lean, &layout))))?;
        let wanted: Vec<usize> = (0..kinds.len()).filter(|at| kinds[*at] != CsvKind::Skip).collect();
        let place: Vec<Option<usize>> = (0..kinds.len()).map(|at| wanted.iter().position(|w| *w == at)).collect();
        let csv = head.csv(source.clone(), kinds, self.caps.clone());
        let mut rows = 0u64;
        let mut unreadable = 0u64;
        let mut first = None;
        let mut bytes = 0;
        // Zones, checks and the split by symbol run where the text was parsed; only the joining is left to one thread.
        let to_parts = |mut block: CsvBlock| {
            let table = std::mem::take(&mut block.table);
            let n = table.rows;
            let line = |row: usize| Some(block.line(row));
            let batch =
                Batch { path: source.path(), layout: &layout, place: &place, line: &line, options: self.options };
            let parts = if n > 0 { batch.parts(table)? } else { Vec::new() };
            Ok((n, parts, block))
        };
        csv.read(self.threads, &to_parts, &mut |(n, parts, block)| {
            rows += n as u64 + block.unreadable.len() as u64;
            bytes += block.bytes as u64;
            if !block.unreadable.is_empty() || block.bad_extras > 0 {
                unreadable += block.unreadable.len() as u64;
                let mut tally = Tally {
                    rows: block.unreadable.len() as u64,
                    unreadable: block.unreadable.len() as u64,
                    bad_extras: block.bad_extras,
                    ..Tally::default()
                };
                if let Some(u) = block.unreadable.first() {
                    let name = source.path().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                    tally.examples.unreadable =
                        Some(format!("{name}:{}:{}: `{}` is not {}", u.line, u.field, u.text, u.wanted));
                    first.get_or_insert_with(|| u.clone());
                }
                emit(Event::Part(Box::new(Part { symbol: None, rows: Default::default(), tally })))?;
            }
            for part in parts {
                emit(Event::Part(Box::new(part)))?;
            }
            emit(Event::Bytes(bytes))
        })?;
        let most = (rows as f64 * self.options.repairs.unreadable).max(1.0);
        if let Some(first) = first
            && (unreadable as f64 > most || unreadable == rows)
        {
            return Err(Error::input(format!(
                "`{}` is not {}; {unreadable} of {rows} rows cannot be read",
                first.text, first.wanted
            ))
            .at(source.path())
            .line(first.line)
            .column(first.field)
            .remedy("correct the rows, or raise repair.unreadable (the share of rows that may be dropped)"));
        }
        Ok(())
    }

    /// Refuses what would not fit into memory, before it is read.
    fn check_memory(&self, source: &Source, head: &CsvHead, layout: &Layout) -> Result<()> {
        if self.streaming || source.is_gzip()? {
            return Ok(());
        }
        let rows = source.len() as f64 / head.row_bytes.max(1.0);
        // Every column is held twice for a moment while blocks are joined.
        let wanted = rows * 8.0 * (8 + layout.extras.len()) as f64 * 2.0;
        if wanted > self.options.memory as f64 && source.len() > LARGE {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "about {:.0} million rows need {} of memory, and {} may be used",
                    rows / 1e6,
                    format_bytes(wanted as u64),
                    format_bytes(self.options.memory)
                ),
            )
            .at(source.path())
            .remedy("raise <memory>, or run `fullbore data add` first: it streams and then needs less"));
        }
        Ok(())
    }

    fn read_arrays(
        &self,
        source: &Source,
        file: &FileName,
        arrays: Vec<files::Array>,
        container: &str,
        emit: EventSink<'_>,
    ) -> Result<()> {
        let names: Vec<String> = arrays.iter().map(|a| format!("{}{:?}", a.name, a.shape)).collect();
        let (found, left) = arrays::arrays_to_tables(arrays);
        if found.is_empty() {
            return Err(Error::input(format!("no array holds bars; arrays are {}", names.join(", ")))
                .at(source.path())
                .remedy(
                    "store one array for each field (time, open, high, low, close, volume), or [n, 6] for each symbol",
                ));
        }
        for found in found {
            let file = match &found.symbol {
                Some(symbol) => FileName { symbol: symbol.clone(), ..file.clone() },
                None => file.clone(),
            };
            let mut why = found.why;
            if !left.is_empty() {
                why = format!("{why}; left out: {}", left.join(", "));
            }
            self.read_table(source.path(), container, &file, found.symbol, found.table, Some(why), emit)?;
        }
        Ok(())
    }

    /// A table that is whole in memory.
    #[expect(clippy::too_many_arguments, reason = "each is a different fact about one table")]
    fn read_table(
        &self,
        path: &Path,
        container: &str,
        file: &FileName,
        symbol: Option<String>,
        table: Table,
        why: Option<String>,
        emit: EventSink<'_>,
    ) -> Result<()> {
        if table.rows == 0 {
            return Err(Error::input("there are no rows").at(path).remedy("check the export that made the file"));
        }
        let sample = take_sample(&table);
        let mut layout = self.recognise_layout(path, container, file, &sample)?;
        layout.why.extend(why);
        if let (Some(symbol), [group]) = (symbol, &mut layout.groups[..]) {
            group.symbol.get_or_insert(symbol);
        }
        emit(Event::Begin(Box::new(self.file_meta(path, file, None, &layout))))?;
        let place: Vec<Option<usize>> = (0..table.columns.len()).map(Some).collect();
        let batch = Batch { path, layout: &layout, place: &place, line: &|_| None, options: self.options };
        for part in batch.parts(table)? {
            emit(Event::Part(Box::new(part)))?;
        }
        Ok(())
    }

    fn recognise_layout(&self, path: &Path, container: &str, file: &FileName, sample: &Table) -> Result<Layout> {
        Layout::recognise(&Evidence { path, container, file, header: &[], sample, options: self.options, lean: None })
    }

    fn file_meta(&self, path: &Path, file: &FileName, lean: Option<&Lean>, layout: &Layout) -> FileMeta {
        let mut words = file.words.clone();
        // `nse50` is about `nse`.
        words.extend(file.words.iter().map(|w| w.trim_end_matches(|c: char| c.is_ascii_digit()).to_string()));
        let mut extras: Vec<String> = layout.extras.iter().map(|(_, n)| n.clone()).collect();
        let quote = matches!(layout.groups[0].prices, Prices::Quote { .. });
        if quote {
            extras.push("spread".into());
        }
        FileMeta {
            note: FileNote {
                file: path.display().to_string(),
                count: 1,
                format: layout.format.clone(),
                why: layout.why.clone(),
            },
            warnings: layout.warnings.clone(),
            symbol: file.symbol.clone(),
            many: layout.symbol.is_some(),
            side: file.side,
            quote: lean.is_some_and(|l| l.quote),
            stamp: layout.stamp,
            extras,
            volume: layout.volume,
            class: layout.class.or_else(|| perpetual(file)),
            words,
            saturdays: layout.saturdays,
            zone: layout.zone.name().map(str::to_string),
            timeframe: layout.timeframe,
            timeframe_stated: lean.is_some() || file.stated,
            modified: self.modified,
            stored: None,
        }
    }
}

/// Batches of one file: the first shows what the columns are.
struct Batches<'a> {
    reader: &'a Reader<'a>,
    path: &'a Path,
    container: &'static str,
    file: &'a FileName,
    skipped: Vec<String>,
    stored: Option<Arc<BTreeMap<String, InstrumentPatch>>>,
    held: Vec<Table>, // until there are enough rows to judge by
    layout: Option<(Layout, Vec<Option<usize>>)>,
    rows: u64,
}

impl<'a> Batches<'a> {
    fn new(
        reader: &'a Reader<'a>,
        path: &'a Path,
        container: &'static str,
        file: &'a FileName,
        skipped: Vec<String>,
    ) -> Self {
        Batches { reader, path, container, file, skipped, stored: None, held: Vec::new(), layout: None, rows: 0 }
    }

    fn push(&mut self, mut table: Table, emit: EventSink<'_>) -> Result<()> {
        coerce::coerce_text_columns(&mut table);
        self.reader.options.check_stop()?;
        if table.rows == 0 {
            return Ok(());
        }
        if self.layout.is_none() {
            let rows: usize = self.held.iter().map(|t| t.rows).sum::<usize>() + table.rows;
            self.held.push(table);
            return if rows < 2048 { Ok(()) } else { self.fix_layout(emit) };
        }
        self.send_parts(table, emit)
    }

    fn fix_layout(&mut self, emit: EventSink<'_>) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        let Some(first) = held.first() else { return Ok(()) };
        let sample = if held.len() == 1 { take_sample(first) } else { take_sample(&join_tables(&held)) };
        let mut layout = self.reader.recognise_layout(self.path, self.container, self.file, &sample)?;
        if !self.skipped.is_empty() {
            layout.why.push(format!("left out (nested or unreadable types): {}", self.skipped.join(", ")));
        }
        let place = (0..first.columns.len()).map(Some).collect();
        let meta = self.reader.file_meta(self.path, self.file, None, &layout);
        emit(Event::Begin(Box::new(FileMeta { stored: self.stored.clone(), ..meta })))?;
        self.layout = Some((layout, place));
        for table in held.drain(..) {
            self.send_parts(table, emit)?;
        }
        Ok(())
    }

    fn send_parts(&mut self, table: Table, emit: EventSink<'_>) -> Result<()> {
        let Some((layout, place)) = &self.layout else { return Ok(()) };
        let before = self.rows;
        self.rows += table.rows as u64;
        let options = self.reader.options;
        let line = |row: usize| Some(before + row as u64 + 1);
        let batch = Batch { path: self.path, layout, place, line: &line, options };
        for part in batch.parts(table)? {
            emit(Event::Part(Box::new(part)))?;
        }
        Ok(())
    }

    fn finish(mut self, emit: EventSink<'_>) -> Result<()> {
        if self.layout.is_none() {
            self.fix_layout(emit)?;
        }
        if self.layout.is_none() {
            return Err(Error::input("there are no rows").at(self.path).remedy("check the export that made the file"));
        }
        Ok(())
    }
}

/// The first rows of a table.
fn take_sample(table: &Table) -> Table {
    let n = table.rows.min(8192);
    let cut = |data: &Data| match data {
        Data::F64(v) => Data::F64(v[..n].to_vec()),
        Data::I64(v) => Data::I64(v[..n].to_vec()),
        Data::F32(v) => Data::F32(v[..n].to_vec()),
        Data::I8(v) => Data::I8(v[..n].to_vec()),
        Data::U32(v) => Data::U32(v[..n].to_vec()),
        Data::Bool(v) => Data::Bool(v[..n].to_vec()),
        Data::Clock(v) => Data::Clock(v[..n].to_vec()),
        Data::Time { ns, utc } => Data::Time { ns: ns[..n].to_vec(), utc: *utc },
        Data::Names { codes, names } => Data::Names { codes: codes[..n].to_vec(), names: names.clone() },
        Data::Text(text) => {
            let mut some = files::Text::default();
            text.iter().take(n).for_each(|t| some.push(t));
            Data::Text(some)
        }
    };
    let columns = table.columns.iter().map(|c| files::Column { name: c.name.clone(), data: cut(&c.data) }).collect();
    Table { columns, rows: n }
}

/// Small tables one behind the other; columns whose types differ keep the first table's rows only where they agree.
fn join_tables(tables: &[Table]) -> Table {
    let mut all = tables[0].clone();
    for table in &tables[1..] {
        for (mine, theirs) in all.columns.iter_mut().zip(&table.columns) {
            match (&mut mine.data, &theirs.data) {
                (Data::F64(a), Data::F64(b)) => a.extend(b),
                (Data::I64(a), Data::I64(b)) => a.extend(b),
                (Data::I64(a), Data::F64(b)) => {
                    let mut f: Vec<f64> = a.iter().map(|x| *x as f64).collect();
                    f.extend(b);
                    mine.data = Data::F64(f);
                }
                (Data::F64(a), Data::I64(b)) => a.extend(b.iter().map(|x| *x as f64)),
                (Data::Clock(a), Data::Clock(b)) => a.extend(b),
                (Data::Time { ns: a, .. }, Data::Time { ns: b, .. }) => a.extend(b),
                (Data::Names { codes, names }, theirs) => {
                    for row in 0..theirs.len() {
                        let Some(text) = theirs.text(row) else {
                            codes.push(u32::MAX);
                            continue;
                        };
                        let code = names.iter().position(|n| n == text).unwrap_or_else(|| {
                            names.push(text.to_string());
                            names.len() - 1
                        });
                        codes.push(code as u32);
                    }
                }
                _ => return tables[0].clone(),
            }
        }
        all.rows += table.rows;
    }
    all
}

/// What each column of a CSV is wanted as.
fn column_kinds(head: &CsvHead, layout: &Layout) -> Vec<CsvKind> {
    let mut kinds = vec![CsvKind::Skip; head.fields];
    for group in &layout.groups {
        let prices: Vec<usize> = match &group.prices {
            Prices::Ohlc(at) => at.to_vec(),
            Prices::Quote { bid, ask } => bid.iter().chain(ask).copied().collect(),
        };
        for at in prices {
            kinds[at] = CsvKind::Number;
        }
        // A volume that cannot be read is missing; the bar is still a bar.
        if let Some(at) = group.volume {
            kinds[at] = CsvKind::Extra;
        }
    }
    for (at, _) in &layout.extras {
        kinds[*at] = CsvKind::Extra;
    }
    if let Some(at) = layout.symbol {
        kinds[at] = CsvKind::Names;
    }
    let dates = files::time::Column { order: files::time::Order::Ymd, zoned: false, ambiguous: false };
    let stamp = |at: usize| CsvKind::Time(head.times[at].unwrap_or(dates));
    match layout.time {
        TimeColumns::Stamp(at) | TimeColumns::DateNumber(at) => kinds[at] = stamp(at),
        TimeColumns::Epoch(at) => {
            kinds[at] =
                if matches!(head.sample.columns[at].data, Data::F64(_)) { CsvKind::Number } else { CsvKind::Epoch }
        }
        TimeColumns::SinceMidnight(at, _) => kinds[at] = CsvKind::Epoch,
        TimeColumns::DateAndClock(date, clock) => {
            kinds[date] = stamp(date);
            kinds[clock] = CsvKind::Clock;
        }
    }
    if let Some(at) = layout.end {
        kinds[at] = if head.times[at].is_some() { stamp(at) } else { CsvKind::Epoch };
    }
    kinds
}

fn file_name_of(path: &Path) -> FileName {
    parse_file_name(&path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default())
}

/// What a JSON answer says of its symbol: a value beside the rows, or the name in capitals that they stand under.
fn json_symbol(scalars: &[(String, String)]) -> Option<String> {
    let beside = ["name", "symbol", "pair", "instrument", "ticker"];
    let outside = scalars.iter().find(|(key, _)| beside.contains(&key.to_lowercase().as_str()));
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().trim().to_lowercase();
    let inside = || scalars.iter().find(|(key, _)| beside[1..].contains(&last(key).as_str()));
    if let Some((_, name)) = outside.or_else(inside).filter(|(_, name)| !name.trim().is_empty()) {
        let name = clean_name(name.trim());
        return Some(if name.bytes().any(|b| b.is_ascii_uppercase()) { name } else { name.to_uppercase() });
    }
    let (_, path) = scalars.iter().find(|(key, _)| key == "rows")?;
    let key = path.rsplit('.').next().unwrap_or_default();
    let ticker = key.len() >= 3
        && key.bytes().any(|b| b.is_ascii_uppercase())
        && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_/:^=".contains(&b));
    // Kraken marks coins with X and money with Z: XXBTZUSD is XBTUSD.
    let plain = key.strip_prefix('X').filter(|rest| rest.len() == 7 && rest[3..].starts_with('Z'));
    ticker.then(|| plain.map_or_else(|| key.to_string(), |rest| format!("{}{}", &rest[..3], &rest[4..])))
}

/// `ETH/USD_PT5M@BinanceUS` is `ETH/USD`.
fn clean_name(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    match name.rsplit_once('_') {
        Some((symbol, timeframe)) if timeframe.parse::<Timeframe>().is_ok() => symbol.to_string(),
        _ => name.to_string(),
    }
}

fn perpetual(file: &FileName) -> Option<Class> {
    let has = |w: &str| file.words.iter().any(|x| x == w);
    (has("futures") && file.symbol.contains(':')).then_some(Class::CryptoPerp)
}

/// A qlib folder: a table for each symbol and frequency.
fn read_qlib(folder: &Path, options: &Options, emit: EventSink<'_>) -> Result<()> {
    let reader = Reader { caps: Caps::default(), options, threads: 1, streaming: true, modified: None };
    let mut read = 0;
    for calendar in qlib::read_calendars(folder)? {
        for symbol in qlib::list_symbols(folder)? {
            options.check_stop()?;
            let Some(table) = qlib::read_symbol(&symbol, &calendar)? else { continue };
            let name = symbol.file_name().map(|n| n.to_string_lossy().to_uppercase()).unwrap_or_default();
            let file = FileName { symbol: name, timeframe: calendar.timeframe, ..FileName::default() };
            reader.read_table(
                &symbol,
                "qlib folder",
                &file,
                None,
                table,
                Some(format!("calendar `{}` gives the times", calendar.frequency)),
                emit,
            )?;
            read += 1;
        }
    }
    if read == 0 {
        return Err(Error::input("a qlib folder without calendars or features")
            .at(folder)
            .remedy("dump it again with qlib's dump_bin"));
    }
    Ok(())
}
