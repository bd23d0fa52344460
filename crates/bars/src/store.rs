//! Bars on disk: Parquet (zstd) beside a small catalogue.
//!
//! A data set is one file a timeframe, rows sorted by symbol and time: `symbol, start, end, open, high, low, close,
//! volume`, then the extras. They are written in a folder of their own, whoever else writes; one lock on the catalogue
//! then covers the rest: whether the name is free, the rename into place, `catalogue.json` (by rename), and the removal
//! of what was replaced. So a reader (or a crash, or a second writer) sees the old set or the new one. A stored file is
//! read only if size and hash are those of the catalogue.

use crate::audit::{Audit, Verdict};
use crate::ingest::Rows;
use crate::series::{ChunkHeader, stream};
use crate::{Bars, Instrument, InstrumentPatch, Options, Progress, Timeframe};
use files::time::rfc3339;
use files::{Caps, Column, Data, Draft, Error, Kind, ParquetWriter, Result, Source, Table, replace_bytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Rows of a row group.
const GROUP: usize = 262_144;
const CATALOGUE: &str = "catalogue.json";
/// How the origin of a made market begins; its kind follows.
pub const SYNTHETIC: &str = "synthetic";

/// One data set of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What the user calls it.
    pub name: String,
    /// Its file, beside the catalogue.
    pub file: String,
    /// `5m`, `1d`, …
    pub timeframe: String,
    /// How many symbols.
    pub symbols: u64,
    /// How many bars.
    pub bars: u64,
    /// Start of the first bar, RFC 3339 UTC.
    pub first: String,
    /// Start of the last bar.
    pub last: String,
    /// Size of the file.
    pub bytes: u64,
    /// Where it came from.
    pub origin: String,
    /// The audit's verdict when it was added.
    pub verdict: String,
    /// xxh3 of the file, to notice damage and to key caches.
    pub hash: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Catalogue {
    version: u32,
    sets: Vec<Entry>,
}

/// Converts what lies behind a path and enters it into the catalogue of a folder. Data that the audit refuses are not
/// entered: the list of entries is then empty.
pub fn add_set(
    path: &Path,
    options: &Options,
    folder: &Path,
    name: &str,
    replace: bool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Vec<Entry>, Audit)> {
    let name = check_name(name)?;
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder", &e))?;
    check_name_is_free(folder, name, replace)?;
    let intake = crate::scan::read_into(path, options, Some(folder), progress)?;
    let draft = draft(folder, name)?;
    let mut store = StoreWriter::new(&draft, name, "read");
    let audit = stream(intake, options, progress, &mut |head, rows| store.push(head, rows))?;
    if audit.verdict == Verdict::Refuse {
        return Ok((Vec::new(), audit));
    }
    let verdict = if audit.verdict == Verdict::Fine { "fine" } else { "usable" };
    let origin = path.display().to_string();
    let mut entries = store.finish(&origin, verdict)?;
    if audit.symbols.iter().any(|s| s.verdict == Verdict::Refuse) {
        entries = drop_refused_symbols(&draft, name, entries, &audit, &origin, verdict)?;
    }
    Ok((add_to_catalogue(folder, name, &draft, entries, replace)?, audit))
}

/// Writes bars that are in memory and enters them into the catalogue.
pub fn write_set(market: &[Bars], folder: &Path, name: &str, replace: bool, origin: &str) -> Result<Vec<Entry>> {
    let name = check_name(name)?;
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder", &e))?;
    check_name_is_free(folder, name, replace)?;
    let mut extras: BTreeMap<Timeframe, Vec<String>> = BTreeMap::new();
    for bars in market {
        let known = extras.entry(bars.timeframe).or_default();
        for (name, _) in &bars.extras {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    let draft = draft(folder, name)?;
    let mut store = StoreWriter::new(&draft, name, "made");
    let mut order: Vec<&Bars> = market.iter().collect();
    order.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    for bars in order {
        let union = &extras[&bars.timeframe];
        let n = bars.len();
        let volume = if bars.volume.is_empty() { vec![f64::NAN; n] } else { bars.volume.clone() };
        let extra = |name: &String| {
            bars.extras.iter().find(|(e, _)| e == name).map_or_else(|| vec![f64::NAN; n], |(_, values)| values.clone())
        };
        let rows = Rows {
            stamp: bars.start.clone(),
            end: bars.end.clone(),
            values: [bars.open.clone(), bars.high.clone(), bars.low.clone(), bars.close.clone(), volume],
            extras: union.iter().map(extra).collect(),
        };
        let head = ChunkHeader {
            symbol: &bars.symbol,
            timeframe: bars.timeframe,
            extras: union,
            instrument: &bars.instrument,
        };
        store.push(&head, rows)?;
    }
    let entries = store.finish(origin, "fine")?;
    add_to_catalogue(folder, name, &draft, entries, replace)
}

/// Refuses a file of a catalogue that is not as it was written. Other files pass.
pub(crate) fn check_stored(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // A catalogue that cannot be read is no reason to refuse a file beside it; who asks by name is told.
    let sets = if name.ends_with(".parquet") { list_sets(folder).unwrap_or_default() } else { Vec::new() };
    let Some(entry) = sets.into_iter().find(|e| e.file == name) else { return Ok(()) };
    let bytes = std::fs::metadata(path).map_err(|e| Error::io(path, "opening the file", &e))?.len();
    let damage = if bytes != entry.bytes {
        format!("has {bytes} bytes, and {} were written", entry.bytes)
    } else if hash_file(path)? != entry.hash {
        "is damaged: its content is not what was written".to_string()
    } else {
        return Ok(());
    };
    let remedy = match entry.origin.strip_prefix(SYNTHETIC) {
        Some(made) => {
            format!("make it again ({}): fullbore data synth … <name={}> <replace>", made.trim(), entry.name)
        }
        None => format!("add it again: fullbore data add {} <name={}> <replace>", entry.origin, entry.name),
    };
    Err(Error::new(Kind::State, format!("the stored set `{}` {damage}", entry.name)).at(path).remedy(remedy))
}

/// Rewrites files that are not in the catalogue yet, without the symbols that the audit refused. What is refused is
/// known only when all rows have gone by, and it is rare: a second pass is cheaper than holding every symbol back.
fn drop_refused_symbols(
    draft: &Draft,
    name: &str,
    entries: Vec<Entry>,
    audit: &Audit,
    origin: &str,
    verdict: &str,
) -> Result<Vec<Entry>> {
    let mut store = StoreWriter::new(draft, name, "kept");
    for entry in &entries {
        let timeframe: Timeframe = entry.timeframe.parse().unwrap_or(Timeframe::D1);
        let refused = |symbol: &str| {
            audit
                .symbols
                .iter()
                .any(|s| s.symbol == symbol && s.timeframe == entry.timeframe && s.verdict == Verdict::Refuse)
        };
        let source = Source::open(&draft.path().join(&entry.file))?;
        files::read_parquet(&source, &Caps::default(), None, &mut |mut table| {
            let extras: Vec<String> = table.columns.iter().skip(8).map(|c| c.name.clone()).collect();
            let mut numbers = table.columns.split_off(3).into_iter().map(|c| match c.data {
                Data::F64(values) => values,
                _ => vec![f64::NAN; table.rows],
            });
            let values: [Vec<f64>; 5] = std::array::from_fn(|_| numbers.next().unwrap_or_default());
            let rest: Vec<Vec<f64>> = numbers.collect();
            let [
                Column { data: symbols, .. },
                Column { data: Data::Time { ns: label, .. }, .. },
                Column { data: Data::Time { ns: end, .. }, .. },
            ] = &mut table.columns[..]
            else {
                return Err(
                    Error::new(Kind::State, "a file just written reads back with other content").at(source.path())
                );
            };
            let rows = Rows { stamp: std::mem::take(label), end: std::mem::take(end), values, extras: rest };
            let mut from = 0;
            while from < rows.len() {
                let symbol = symbols.text(from).unwrap_or_default();
                let to = (from..rows.len()).find(|at| symbols.text(*at) != Some(symbol)).unwrap_or(rows.len());
                let instrument = audit.symbols.iter().find(|s| s.symbol == symbol && s.timeframe == entry.timeframe);
                if let Some(instrument) = instrument.filter(|_| !refused(symbol)).map(|s| &s.instrument) {
                    let picked: Vec<u32> = (from as u32..to as u32).collect();
                    store.push(
                        &ChunkHeader { symbol, timeframe, extras: &extras, instrument },
                        rows.select_rows(&picked),
                    )?;
                }
                from = to;
            }
            Ok(())
        })?;
    }
    store.finish(origin, verdict)
}

/// The data sets of a folder, by name; none where there is no catalogue.
pub fn list_sets(folder: &Path) -> Result<Vec<Entry>> {
    Ok(read_catalogue(folder)?.sets)
}

/// The file of a data set; of several timeframes `NAME-5m` names one.
pub fn find_set(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    let sets = list_sets(folder)?;
    let exact = sets.iter().find(|e| file_stem(&e.file) == name);
    let named: Vec<&Entry> = sets.iter().filter(|e| e.name == name).collect();
    match (exact.or(named.first().copied().filter(|_| named.len() == 1)), &named[..]) {
        (Some(entry), _) => Ok(Some(folder.join(&entry.file))),
        (None, []) => Ok(None),
        (None, many) => {
            let stems: Vec<String> = many.iter().map(|e| file_stem(&e.file).to_string()).collect();
            Err(Error::new(Kind::Usage, format!("`{name}` has {} timeframes", many.len()))
                .remedy(format!("say which: {}", stems.join(", "))))
        }
    }
}

/// The key of a stored file's metadata.
const METADATA_KEY: &str = "fullbore";

/// What a stored file says about itself: names alone do not tell a future from a share, nor a thin series its
/// timeframe.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredMetadata {
    version: u32,
    timeframe: String,
    instruments: Vec<SymbolGroup>,
}

/// Symbols that are traded alike.
#[derive(Debug, Serialize, Deserialize)]
struct SymbolGroup {
    instrument: InstrumentPatch,
    symbols: Vec<String>,
}

impl StoredMetadata {
    /// What a file of ours says; `None` for files of others.
    pub(crate) fn read(source: &Source) -> Result<Option<StoredMetadata>> {
        Ok(files::parquet_metadata(source, METADATA_KEY)?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) fn timeframe(&self) -> Option<Timeframe> {
        self.timeframe.parse().ok()
    }

    pub(crate) fn instruments(self) -> BTreeMap<String, InstrumentPatch> {
        let each = |like: SymbolGroup| like.symbols.into_iter().map(move |s| (s, like.instrument.clone()));
        self.instruments.into_iter().flat_map(each).collect()
    }

    fn add_symbol(&mut self, symbol: &str, instrument: &Instrument) {
        let instrument = InstrumentPatch::from_instrument(instrument);
        match self.instruments.iter_mut().find(|l| l.instrument == instrument) {
            Some(like) => like.symbols.push(symbol.to_string()),
            None => self.instruments.push(SymbolGroup { instrument, symbols: vec![symbol.to_string()] }),
        }
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::new(Kind::State, format!("the metadata cannot be written: {e}")))
    }
}

/// A folder beside the sets that a set is written in.
fn draft(folder: &Path, name: &str) -> Result<Draft> {
    Draft::create(&folder.join(name)).map_err(|e| Error::io(folder, "making a folder to write in", &e))
}

/// Files being written, one a timeframe.
struct StoreWriter<'a> {
    draft: &'a Draft,
    name: &'a str,
    pass: &'static str,
    files: BTreeMap<Timeframe, Output>,
}

struct Output {
    file: String,
    writer: ParquetWriter,
    extras: Vec<String>,
    about: StoredMetadata,
    names: Vec<String>,
    codes: Vec<u32>,
    rows: Rows,
    bars: u64,
    symbols: u64,
    carried: bool, // the first name was counted with an earlier group
    first: i64,
    last: i64,
}

impl<'a> StoreWriter<'a> {
    fn new(draft: &'a Draft, name: &'a str, pass: &'static str) -> StoreWriter<'a> {
        StoreWriter { draft, name, pass, files: BTreeMap::new() }
    }

    fn push(&mut self, head: &ChunkHeader<'_>, rows: Rows) -> Result<()> {
        if !self.files.contains_key(&head.timeframe) {
            let file = format!("{}-{}", self.pass, head.timeframe);
            let output = Output {
                writer: ParquetWriter::create(&self.draft.path().join(&file), &[])?,
                file,
                extras: head.extras.to_vec(),
                about: StoredMetadata { version: 1, timeframe: head.timeframe.to_string(), instruments: Vec::new() },
                names: Vec::new(),
                codes: Vec::new(),
                rows: Rows { extras: vec![Vec::new(); head.extras.len()], ..Rows::default() },
                bars: 0,
                symbols: 0,
                carried: false,
                first: i64::MAX,
                last: i64::MIN,
            };
            self.files.insert(head.timeframe, output);
        }
        let Some(out) = self.files.get_mut(&head.timeframe) else { return Ok(()) };
        if out.names.last().is_none_or(|n| n != head.symbol) {
            out.names.push(head.symbol.to_string());
            out.about.add_symbol(head.symbol, head.instrument);
        }
        out.codes.resize(out.codes.len() + rows.len(), out.names.len() as u32 - 1);
        out.bars += rows.len() as u64;
        out.first = out.first.min(rows.stamp.first().copied().unwrap_or(i64::MAX));
        out.last = out.last.max(rows.stamp.last().copied().unwrap_or(i64::MIN));
        out.rows.extend(&rows);
        if out.rows.len() >= GROUP { out.flush() } else { Ok(()) }
    }

    fn finish(self, origin: &str, verdict: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for (timeframe, mut out) in self.files {
            out.flush()?;
            out.writer.annotate(METADATA_KEY, out.about.text()?);
            let bytes = out.writer.finish()?;
            let path = self.draft.path().join(&out.file);
            entries.push(Entry {
                name: self.name.to_string(),
                hash: hash_file(&path)?,
                file: out.file,
                timeframe: timeframe.to_string(),
                symbols: out.symbols,
                bars: out.bars,
                first: rfc3339(out.first),
                last: rfc3339(out.last),
                bytes,
                origin: origin.to_string(),
                verdict: verdict.to_string(),
            });
        }
        Ok(entries)
    }
}

impl Output {
    fn flush(&mut self) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let empty = Rows { extras: vec![Vec::new(); self.extras.len()], ..Rows::default() };
        let rows = std::mem::replace(&mut self.rows, empty);
        let n = rows.len();
        let last = self.names.last().cloned();
        let names = std::mem::take(&mut self.names);
        self.symbols += names.len() as u64 - u64::from(self.carried);
        let codes = std::mem::take(&mut self.codes);
        let [open, high, low, close, volume] = rows.values;
        let mut columns = vec![
            Column { name: "symbol".into(), data: Data::Names { codes, names } },
            Column::time("start", rows.stamp),
            Column::time("end", rows.end),
            Column::f64("open", open),
            Column::f64("high", high),
            Column::f64("low", low),
            Column::f64("close", close),
            Column::f64("volume", volume),
        ];
        columns.extend(self.extras.iter().cloned().zip(rows.extras).map(|(name, values)| Column::f64(name, values)));
        self.writer.write(&Table { columns, rows: n })?;
        // The symbol may go on in the next group.
        self.carried = last.is_some();
        self.names.extend(last);
        Ok(())
    }
}

fn read_catalogue(folder: &Path) -> Result<Catalogue> {
    let path = folder.join(CATALOGUE);
    if !path.exists() {
        return Ok(Catalogue { version: 1, sets: Vec::new() });
    }
    let bytes = Source::open(&path)?.bytes(&Caps::default())?;
    let damaged = |what: String| {
        let mut error = Error::new(Kind::State, what).at(&path);
        error.remedy = Some("restore the file, or move it away and run `fullbore data add` again".into());
        error
    };
    let found: Catalogue =
        serde_json::from_slice(&bytes).map_err(|e| damaged(format!("the catalogue cannot be read: {e}")))?;
    if found.version != 1 {
        return Err(damaged(format!("the catalogue has version {}, this program reads version 1", found.version)));
    }
    Ok(found)
}

fn check_name_is_free(folder: &Path, name: &str, replace: bool) -> Result<()> {
    if !replace && read_catalogue(folder)?.sets.iter().any(|e| e.name == name) {
        return Err(Error::new(Kind::State, format!("the catalogue has a data set `{name}` already"))
            .at(&folder.join(CATALOGUE))
            .remedy("add <replace>, or choose another <name>"));
    }
    Ok(())
}

/// Takes a set out of the catalogue, by its name or by that of one of its files, and then removes its files. Gives what
/// is gone; nothing where the catalogue has no such set.
pub fn remove_set(folder: &Path, name: &str) -> Result<Vec<Entry>> {
    if !folder.join(CATALOGUE).exists() {
        return Ok(Vec::new());
    }
    let _lock = lock_catalogue(folder)?;
    let mut all = read_catalogue(folder)?;
    let named = all.sets.iter().any(|e| e.name == name);
    let is_it = |e: &Entry| if named { e.name == name } else { file_stem(&e.file) == name };
    let (gone, stay): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut all.sets).into_iter().partition(is_it);
    if gone.is_empty() {
        return Ok(gone);
    }
    all.sets = stay;
    // The catalogue first: a file that it does not name is nobody's, a name without its file would be an error.
    write_catalogue(folder, &all)?;
    for entry in &gone {
        let path = folder.join(&entry.file);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(&path, "removing it", &e)),
            _ => {}
        }
    }
    Ok(gone)
}

/// Taken by whoever changes the catalogue; it dies with its process.
fn lock_catalogue(folder: &Path) -> Result<File> {
    let path = folder.join(".catalogue.lock");
    let lock = File::options().create(true).append(true).open(&path);
    let lock = lock.map_err(|e| Error::io(&path, "opening the lock", &e))?;
    lock.lock().map_err(|e| Error::io(&path, "locking the catalogue", &e))?;
    Ok(lock)
}

fn write_catalogue(folder: &Path, catalogue: &Catalogue) -> Result<()> {
    let text = serde_json::to_vec_pretty(catalogue)
        .map_err(|e| Error::new(Kind::State, format!("the catalogue cannot be written: {e}")))?;
    replace_bytes(&folder.join(CATALOGUE), &text)
}

/// Puts files into place and enters them, under a lock that dies with its process. Whoever came second waits for a
/// moment, and is told if the name is taken.
fn add_to_catalogue(
    folder: &Path,
    name: &str,
    draft: &Draft,
    mut entries: Vec<Entry>,
    replace: bool,
) -> Result<Vec<Entry>> {
    let _lock = lock_catalogue(folder)?;
    check_name_is_free(folder, name, replace)?;
    let mut all = read_catalogue(folder)?;
    let several = entries.len() > 1;
    for entry in &mut entries {
        let stem = if several { format!("{name}-{}", entry.timeframe) } else { name.to_string() };
        let file = unused_file_name(&all.sets, &stem);
        files::rename(&draft.path().join(&entry.file), &folder.join(&file))
            .map_err(|e| Error::io(&folder.join(&file), "renaming the file into place", &e))?;
        entry.file = file;
    }
    all.sets.retain(|e| e.name != name);
    all.sets.extend_from_slice(&entries);
    all.sets.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    write_catalogue(folder, &all)?;
    // What the set had before, and what killed runs left: the catalogue no longer names it.
    let stems: Vec<&str> = entries.iter().map(|e| file_stem(&e.file)).collect();
    for file in
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned())
    {
        let mine = stems.contains(&file_stem(&file)) || file.starts_with(&format!("{name}-"));
        let ours =
            file.ends_with(".parquet") && mine && file_stem(&file).strip_prefix(name).is_some_and(is_timeframe_tail);
        if ours && !all.sets.iter().any(|e| e.file == file) {
            let _ = std::fs::remove_file(folder.join(file));
        }
    }
    Ok(entries)
}

/// A file name that no set has, so that one is replaced by the catalogue's rename alone: `NAME.parquet`,
/// `NAME~2.parquet`, … What a killed run left under that name is nobody's.
fn unused_file_name(sets: &[Entry], stem: &str) -> String {
    let name = |n: u32| if n == 1 { format!("{stem}.parquet") } else { format!("{stem}~{n}.parquet") };
    (1..).map(name).find(|file| !sets.iter().any(|e| e.file == *file)).unwrap_or_else(|| name(1))
}

/// A file's name without ending and generation.
fn file_stem(file: &str) -> &str {
    let stem = file.strip_suffix(".parquet").unwrap_or(file);
    stem.split_once('~').map_or(stem, |(stem, _)| stem)
}

/// Nothing, or `-5m`.
fn is_timeframe_tail(tail: &str) -> bool {
    tail.is_empty() || tail.strip_prefix('-').is_some_and(|t| t.parse::<Timeframe>().is_ok_and(|p| p.to_string() == t))
}

fn check_name(name: &str) -> Result<&str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.chars().all(fine) {
        return Err(Error::new(Kind::Usage, format!("`{name}` cannot be a data set's name"))
            .remedy("use letters, digits, '-', '_' and '.', beginning with a letter or digit"));
    }
    Ok(name)
}

fn hash_file(path: &Path) -> Result<String> {
    let fail = |e: std::io::Error| Error::io(path, "reading back", &e);
    let mut file = File::open(path).map_err(fail)?;
    let mut hash = Xxh3::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut block).map_err(fail)?;
        if n == 0 {
            return Ok(format!("{:016x}", hash.digest()));
        }
        hash.update(&block[..n]);
    }
}
