//! `features`: bars into a table of features and labels, as Parquet.

use crate::cache::Cache;
use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::train::{Market, labeling_text, load_market};
use crate::{Select, Settings, add, find, os, tables};
use bars::audit::{Audit, Verdict};
use bars::{Bars, Fingerprint, Timeframe};
use compute::allocator::give_back_freed;
use features::language::Set;
use features::{Dataset, Options, Plan, Table, read_set};
use files::{Error, Kind, Result, format_bytes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What to compute, from what, and where it goes; how labels are made is in the settings.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// What to read.
    pub select: Select,
    /// A preset, a file, or the features themselves.
    pub set: String,
    /// The table; `None` is `NAME-features.parquet` here.
    pub out: Option<PathBuf>,
    /// Compute even what was computed before.
    pub fresh: bool,
}

/// What was computed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Featured {
    /// The path that was read.
    pub data: String,
    /// The set as it was given.
    pub set: String,
    /// Of the table: one a bar.
    pub rows: u64,
    /// How many.
    pub symbols: u64,
    /// Length of a bar.
    pub timeframe: String,
    /// Timeframes of the data that were left out: a table has one.
    pub other_timeframes: Vec<String>,
    /// Instruments, costs and sessions, which decide the labels, in one line.
    #[serde(default)]
    pub instruments: String,
    /// What the audit found.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of all tables.
    pub columns: Vec<FeatureColumn>,
    /// Features left out because there is no volume.
    #[serde(rename = "left")]
    pub without_volume: Vec<String>,
    /// Columns without a value on more than a fifth of the rows.
    pub sparse: Vec<String>,
    /// Symbols without volume, where others have it: their volume features are missing.
    #[serde(rename = "silent")]
    pub symbols_without_volume: Vec<String>,
    /// Features left out because there are too few symbols for a market.
    #[serde(default, rename = "alone")]
    pub without_market: Vec<String>,
    /// Stretches of bars without a hole that matters; indicators start afresh at each.
    pub runs: u64,
    /// Rows on which every column is valid and no longer depends on where its run began, over all rows.
    pub settled_share: f64,
    /// What there is to learn; null without labels.
    pub label: Option<LabelSummary>,
    /// Reading and auditing the bars took this long.
    pub read_seconds: f64,
    /// Computing features and labels took this long; 0 where they came from the cache.
    pub compute_seconds: f64,
    /// Writing, or copying from the cache, took this long.
    pub write_seconds: f64,
    /// Rows computed over that time; null where they came from the cache, as the next two.
    pub rows_per_s: Option<f64>,
    /// Values of all tables over that time.
    pub values_per_s: Option<f64>,
    /// The same time, for one row.
    pub ns_per_bar: Option<f64>,
    /// Of the tables in memory.
    pub table_bytes: u64,
    /// The most memory this process held; null where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// What was written.
    pub files: Vec<Written>,
    /// Whether it had been computed before.
    pub cached: bool,
    /// Of the set, the label settings and every bit of the bars.
    pub hash: String,
}

/// One column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FeatureColumn {
    /// Given in the set, or its text.
    pub name: String,
    /// Its group in the set; empty: none.
    pub group: String,
    /// Timeframe of the slower table it stands in; empty: the base.
    pub table: String,
    /// What is computed.
    pub text: String,
    /// Index of the first valid value of a run.
    pub first_valid: u64,
    /// Index from which the start of the run no longer matters; null: it always does.
    pub settled: Option<u64>,
    /// Rows without a value, over all rows.
    pub missing_share: f64,
}

/// What there is to learn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LabelSummary {
    /// As it was set.
    #[serde(rename = "asked")]
    pub requested: String,
    /// As it was used.
    pub rule: String,
    /// Rows with a label.
    pub labelled: u64,
    /// Of each class.
    pub balance: Balance,
    /// Of each class, over all labels.
    pub share: Shares,
    /// Labels that are flat because both barriers were touched inside one bar.
    pub both_touched: u64,
    /// What `auto` saw on the first training span.
    pub tried: Vec<Tried>,
    /// Mean of the weights: how much of its time a label has to itself.
    pub mean_uniqueness: f64,
}

/// Labels of each class.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the classes")]
pub struct Balance {
    pub down: u64,
    pub flat: u64,
    pub up: u64,
}

/// Share of each class.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the classes")]
pub struct Shares {
    pub down: f64,
    pub flat: f64,
    pub up: f64,
}

/// A horizon that `auto` tried.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Tried {
    /// In bars.
    pub horizon: u64,
    /// Of the barriers, in standard deviations of a move over the horizon.
    pub width: f64,
    /// Labels of each class.
    pub balance: Balance,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Written {
    /// Where it is.
    pub path: String,
    /// Timeframe of a slower table; empty: the base.
    pub table: String,
    /// Of the file.
    pub rows: u64,
    /// Of the file: features, prices, labels.
    pub columns: u64,
    /// On disk.
    pub bytes: u64,
}

/// Changes whenever the same question has another answer.
const FORMAT: &str = concat!("features 2, fullbore ", env!("CARGO_PKG_VERSION"));

/// A column without a value on more than this share of the rows is spoken of.
const SPARSE: f64 = 0.2;

/// Computes the table and writes it.
pub fn features(request: &Features, settings: &Settings, sink: Sink<'_>) -> Result<Featured> {
    let plan = resolve(&read_set(&request.set)?, settings)?;
    tables::check_names(features::columns(&plan).iter().map(|c| c.1.name.as_str()))?;
    let path = find(&request.select.data)?;
    let out = match &request.out {
        Some(out) => out.clone(),
        None => PathBuf::from(format!("{}-features.parquet", add::name_of(&path)?)),
    };
    let clock = Instant::now();
    let Market { bars: market, timeframe, others: other_timeframes, instruments, findings } =
        load_market(&path, &request.select, settings, sink)?;
    let read_seconds = clock.elapsed().as_secs_f64();

    let (data_hash, key) = keys(&market, &plan, settings);
    let cache = Cache::new(settings.cache.limit);
    let clock = Instant::now();
    if let Some(cache) = cache.as_ref().filter(|_| !request.fresh)
        && let Some(mut featured) = cache.take(&key, &|table| tables::place(&out, table))?
    {
        featured.data = path.display().to_string();
        featured.set.clone_from(&request.set);
        featured.other_timeframes = other_timeframes;
        (featured.instruments, featured.notes) = (instruments, findings);
        (featured.cached, featured.read_seconds) = (true, read_seconds);
        (featured.compute_seconds, featured.write_seconds) = (0.0, clock.elapsed().as_secs_f64());
        (featured.rows_per_s, featured.values_per_s, featured.ns_per_bar) = (None, None, None);
        featured.peak_memory_bytes = os::peak_memory();
        return Ok(featured);
    }

    check_memory(&market, timeframe, &plan, TableUse::File, settings)?;
    let (data, compute_seconds) = compute(market, &plan, settings, sink)?;
    check_stop()?;
    let mut featured = describe(&data, settings, compute_seconds);
    featured.data = path.display().to_string();
    featured.set.clone_from(&request.set);
    featured.other_timeframes = other_timeframes;
    (featured.instruments, featured.notes) = (instruments, findings);
    featured.read_seconds = read_seconds;
    featured.hash = key.clone();

    let clock = Instant::now();
    let about = |table: &Table| about(table, &plan, &featured, &data_hash);
    let mut progress = |done: usize, total: usize| {
        sink(Update { phase: "writing", done: done as u64, total: total as u64, unit: "rows" });
    };
    featured.files = tables::write(&data, &out, &about, settings.threads(), &mut progress)?;
    featured.write_seconds = clock.elapsed().as_secs_f64();
    featured.peak_memory_bytes = os::peak_memory();
    if let Some(cache) = cache {
        // A cache that cannot be written costs time next time and nothing else.
        cache.put(&key, &featured);
    }
    Ok(featured)
}

/// A set against the catalogue, its columns settling as the settings say.
pub(crate) fn resolve(set: &Set, settings: &Settings) -> Result<Plan> {
    Plan::with_settle(set, settings.features.settle)
}

/// Computes a data set, and says how long it took.
pub(crate) fn compute(market: Vec<Bars>, plan: &Plan, settings: &Settings, sink: Sink<'_>) -> Result<(Dataset, f64)> {
    let clock = Instant::now();
    let stop = stop_flag();
    let sink = Mutex::new(sink);
    let progress = |phase: &'static str, done: usize, total: usize| {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink(Update { phase, done: done as u64, total: total as u64, unit: "rows" });
    };
    let data = Dataset::new(
        market,
        plan,
        &Options {
            threads: settings.threads(),
            max_hole: settings.features.max_hole,
            labels: settings.labeling(),
            progress: &progress,
            stop: &|| stop.load(Ordering::Relaxed),
        },
    )?;
    give_back_freed();
    Ok((data, clock.elapsed().as_secs_f64()))
}

/// What a data set is like.
pub(crate) fn describe(data: &Dataset, settings: &Settings, compute_seconds: f64) -> Featured {
    let tables = || {
        std::iter::once((&data.base, String::new()))
            .chain(data.slow.iter().map(|s| (&s.table, s.table.timeframe.to_string())))
    };
    let columns: Vec<FeatureColumn> = tables()
        .flat_map(|(table, name)| {
            let rows = table.rows().max(1) as f64;
            table.columns.iter().map(move |c| FeatureColumn {
                name: c.name.clone(),
                group: c.group.clone(),
                table: name.clone(),
                text: c.text.clone(),
                first_valid: c.first_valid as u64,
                settled: c.settled.map(|s| s as u64),
                missing_share: c.invalid as f64 / rows,
            })
        })
        .collect();
    let shown = |c: &FeatureColumn| if c.table.is_empty() { c.name.clone() } else { format!("{}@{}", c.name, c.table) };
    let rows = data.base.rows();
    let values: usize = tables().map(|(table, _)| table.rows() * table.columns.len()).sum();
    let over = compute_seconds.max(1e-9);
    Featured {
        data: String::new(),
        set: String::new(),
        rows: rows as u64,
        symbols: data.base.market.len() as u64,
        timeframe: data.base.timeframe.to_string(),
        other_timeframes: Vec::new(),
        instruments: String::new(),
        notes: Vec::new(),
        sparse: columns.iter().filter(|c| c.missing_share > SPARSE).map(shown).collect(),
        columns,
        without_volume: data.without_volume.clone(),
        symbols_without_volume: data.symbols_without_volume.clone(),
        without_market: data.without_market.clone(),
        runs: data.base.runs.iter().map(|runs| runs.len() as u64).sum(),
        settled_share: data.base.settled.iter().filter(|s| **s).count() as f64 / rows.max(1) as f64,
        label: label(data, settings),
        read_seconds: 0.0,
        compute_seconds,
        write_seconds: 0.0,
        rows_per_s: Some(rows as f64 / over),
        values_per_s: Some(values as f64 / over),
        ns_per_bar: Some(1e9 * compute_seconds / rows.max(1) as f64),
        table_bytes: tables().map(|(table, _)| table.bytes() as u64).sum(),
        peak_memory_bytes: os::peak_memory(),
        files: Vec::new(),
        cached: false,
        hash: String::new(),
    }
}

pub(crate) fn label(data: &Dataset, settings: &Settings) -> Option<LabelSummary> {
    let labels = data.labels.as_ref()?;
    let balance = |[down, flat, up]: [u64; 3]| Balance { down, flat, up };
    let labelled: u64 = labels.balance.iter().sum();
    let [down, flat, up] = labels.balance.map(|n| n as f64 / labelled.max(1) as f64);
    let weight: f64 = labels.weight.iter().map(|w| f64::from(*w)).sum();
    Some(LabelSummary {
        requested: settings.labels.rule.map(|rule| rule.to_string()).unwrap_or_default(),
        rule: labels.rule.to_string(),
        labelled,
        balance: balance(labels.balance),
        share: Shares { down, flat, up },
        both_touched: labels.both_touched,
        tried: labels
            .tried
            .iter()
            .map(|(h, width, b)| Tried { horizon: *h as u64, width: *width, balance: balance(*b) })
            .collect(),
        mean_uniqueness: weight / labelled.max(1) as f64,
    })
}

/// The bars of the finest timeframe, and the names of the others; an error for what the audit refuses.
pub(crate) fn one_timeframe(market: Vec<Bars>, audit: &Audit) -> Result<(Vec<Bars>, Timeframe, Vec<String>)> {
    if audit.verdict == Verdict::Refuse {
        let why: Vec<&str> = audit.reasons.iter().take(3).map(String::as_str).collect();
        return Err(Error::input(format!("the audit refuses these data: {}", why.join("; ")))
            .remedy("`fullbore data audit` shows everything; the [repair] settings decide what is repaired"));
    }
    let mut all: Vec<Timeframe> = market.iter().map(|b| b.timeframe).collect();
    all.sort();
    all.dedup();
    let Some(finest) = all.first().copied() else {
        return Err(Error::input("there are no bars").remedy("check <symbols>, <from> and <to>"));
    };
    let others = all[1..].iter().map(Timeframe::to_string).collect();
    Ok((market.into_iter().filter(|b| b.timeframe == finest).collect(), finest, others))
}

/// The hash of the bars, and that of everything the table depends on.
fn keys(market: &[Bars], plan: &Plan, settings: &Settings) -> (String, String) {
    let mut data = Fingerprint::new();
    market.iter().for_each(|bars| data.add_bars(bars));
    let data = data.to_hex();
    let mut all = Fingerprint::new();
    let (hole, settle) = (settings.features.max_hole, settings.features.settle);
    for text in [FORMAT, plan.text(), &labeling_text(settings.labeling()), &format!("{hole:?} {settle:?}"), &data] {
        all.add_text(text);
    }
    (data, all.to_hex())
}

/// What the metadata of a file says.
fn about(table: &Table, plan: &Plan, featured: &Featured, data_hash: &str) -> String {
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|c| json!({"name": c.name, "group": c.group, "text": c.text, "first_valid": c.first_valid, "settled": c.settled}))
        .collect();
    json!({
        "format": "features/1",
        "engine": env!("CARGO_PKG_VERSION"),
        "timeframe": table.timeframe.to_string(),
        "set": plan.text(),
        "columns": columns,
        "label": featured.label.as_ref().map(|l| l.rule.clone()),
        "data_hash": data_hash,
    })
    .to_string()
}

/// What is done with tables of features, which takes memory beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableUse {
    /// The inputs of a net are a copy, and it makes so many bytes of a row.
    Inputs(usize),
    /// The same, and once the inputs are given back the decisions are walked through an account.
    Tested(usize),
    /// The inputs of a net are a copy, and once the tables are given back what was learned is traded.
    Traded,
    /// A group of rows is turned into columns, which are encoded beside it.
    File,
}

/// Bytes of bars in memory.
pub(crate) fn bar_bytes(market: &[Bars]) -> usize {
    market.iter().map(|b| b.len() * 8 * (6 + usize::from(!b.volume.is_empty()) + b.extras.len())).sum()
}

/// An error if the tables and what is made of them would not fit into the budget, with the least that is enough.
pub(crate) fn check_memory(
    market: &[Bars],
    timeframe: Timeframe,
    plan: &Plan,
    table_use: TableUse,
    settings: &Settings,
) -> Result<()> {
    let rows: usize = market.iter().map(Bars::len).sum();
    let bars = bar_bytes(market);
    let columns = features::columns(plan);
    let mut slower: Vec<Option<Timeframe>> = columns.iter().map(|c| c.0).collect();
    slower.sort();
    slower.dedup();
    let (mut need, mut inputs) = (bars as f64, bars as f64);
    for of in slower {
        let wide = columns.iter().filter(|c| c.0 == of).count();
        let part = of.map_or(1.0, |slow| timeframe.ns() as f64 / slow.ns().max(1) as f64);
        let row = wide.next_multiple_of(4) * 4 + wide.div_ceil(64) * 8 + 1 + 4;
        inputs += part * (rows * row) as f64;
        let beside = match (table_use, of) {
            (TableUse::Inputs(made) | TableUse::Tested(made), None) => (rows * (row + made)) as f64,
            (TableUse::Inputs(_) | TableUse::Tested(_) | TableUse::Traded, _) => part * (rows * row) as f64,
            // Twelve columns of a file are no features; the tables are written one after the other.
            (TableUse::File, None) => (2 * rows.min(tables::GROUP) * (row + 12 * 8)) as f64,
            (TableUse::File, Some(_)) => 0.0,
        };
        need += part * (rows * row) as f64 + beside + if of.is_some() { part * bars as f64 } else { 0.0 };
    }
    // Class, end and weight of a label; the clock.
    need += rows as f64 * (13.0 + 12.0);
    match table_use {
        TableUse::Traded => {
            // Who learns by trading has prices of its own.
            let own = if settings.train.learner.info().is_labelled { 0 } else { size_of::<account::Bar>() + 12 };
            need = need.max(inputs + (rows * (walk_bytes(settings) + own)) as f64);
        }
        TableUse::Tested(made) => need = need.max((bars + rows * (walk_bytes(settings) + made)) as f64),
        TableUse::Inputs(_) | TableUse::File => {}
    }
    within_memory(need as u64, &format!("{rows} rows of {} features", columns.len()), "a smaller set", settings)
}

/// Bytes of a row while decisions are walked through an account: its prices, its place among samples and folds, what is
/// predicted for it and held there; and in every thread that trades by chance, what is believed and wanted.
fn walk_bytes(settings: &Settings) -> usize {
    size_of::<account::Bar>() + 64 + 160 + 48 * (1 + settings.threads())
}

/// An error if bars and a walk through them would not fit into the budget, with the least that is enough.
pub(crate) fn check_walk_memory(market: &[Bars], settings: &Settings) -> Result<()> {
    let rows: usize = market.iter().map(Bars::len).sum();
    let need = bar_bytes(market) + rows * walk_bytes(settings);
    within_memory(need as u64, &format!("{rows} bars and a walk through them"), "larger bars", settings)
}

fn within_memory(need: u64, what: &str, smaller: &str, settings: &Settings) -> Result<()> {
    let budget = settings.general.memory.bytes();
    if need <= budget {
        return Ok(());
    }
    let (takes, least) = (format_bytes(need), need.div_ceil(1 << 20));
    Err(Error::new(
        Kind::Memory,
        format!("{what} take {takes}, more than the {} that may be used", format_bytes(budget)),
    )
    .remedy(format!("take fewer symbols, a shorter time or {smaller}, or raise <memory> to {least}MiB at least")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::synth::Synth;
    use files::{Caps, Data, Source};
    use std::path::Path;

    /// Three symbols of daily bars in a folder, and the settings to read them without a home.
    fn market(folder: &Path) -> (PathBuf, Settings) {
        let made = Synth { symbols: 3, bars: 400, ..Synth::default() }.make_market(1);
        bars::store::write_set(&made.market, folder, "m", true, "a test").expect("stored");
        let mut settings = Settings::default();
        for pair in ["cache.limit=0", "label.rule=triple(6)", "threads=2"] {
            settings.set(pair).expect("a legal setting");
        }
        (bars::store::find_set(folder, "m").expect("listed").expect("there"), settings)
    }

    fn request(data: &Path, set: &str, out: &Path) -> Features {
        let select = Select { data: data.display().to_string(), ..Select::default() };
        Features { select, set: set.into(), out: Some(out.to_path_buf()), fresh: false }
    }

    /// One column of a file as numbers, NaN where it is null.
    fn column(path: &Path, name: &str) -> Vec<f64> {
        let mut all = Vec::new();
        let source = Source::open(path).expect("opened");
        files::read_parquet(&source, &Caps::default(), Some(&[name.to_string()]), &mut |table| {
            match &table.columns[0].data {
                Data::F64(v) => all.extend(v),
                Data::I64(v) => all.extend(v.iter().map(|x| *x as f64)),
                Data::Time { ns, .. } => {
                    all.extend(ns.iter().map(|t| if *t == i64::MIN { f64::NAN } else { *t as f64 }))
                }
                other => panic!("{name} is {other:?}"),
            }
            Ok(())
        })
        .expect("read");
        all
    }

    #[test]
    fn written_features_match_the_computed_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (data, settings) = market(folder.path());
        let set = "rsi(14)\ngap = open/close[1] - 1\nvolume_ratio(20)\n[slow @1w]\nrsi(14)\nret = log_return(1)\n";
        let out = folder.path().join("t.parquet");
        let featured = features(&request(&data, set, &out), &settings, &mut |_| {}).expect("computed");
        assert_eq!((featured.files.len(), featured.columns.len(), featured.cached), (2, 5, false));

        let market = bars::read(&data, &settings.options().expect("options"), &|_| {}).expect("read").0.bars;
        let plan = Plan::new(&read_set(set).expect("a set")).expect("a plan");
        let (expected, _) = compute(market, &plan, &settings, &mut |_| {}).expect("computed");
        let slow = folder.path().join("t@1w.parquet");
        let check = |path: &Path, table: &Table| {
            for (at, c) in table.columns.iter().enumerate() {
                let got = column(path, &c.name);
                let want: Vec<f64> = (0..table.rows()).map(|row| f64::from(table.row(row)[at])).collect();
                assert!(
                    got.len() == want.len() && got.iter().zip(&want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan())),
                    "{}",
                    c.name
                );
            }
            let settled: Vec<bool> = column(path, "settled").iter().map(|s| *s == 1.0).collect();
            assert_eq!(settled, table.settled);
            let closes: Vec<f64> = table.market.iter().flat_map(|b| b.close.clone()).collect();
            assert_eq!(column(path, "close"), closes);
        };
        check(&out, &expected.base);
        check(&slow, &expected.slow[0].table);
        let labels = expected.labels.expect("labels");
        let same = |got: Vec<f64>, want: &dyn Fn(usize) -> Option<f64>| {
            got.iter().enumerate().all(|(i, x)| want(i).map_or(x.is_nan(), |w| *x == w))
        };
        assert!(same(column(&out, "label"), &|i| (labels.class[i] != i8::MIN).then_some(f64::from(labels.class[i]))));
        assert!(same(column(&out, "t1"), &|i| (labels.t1[i] != i64::MIN).then_some(labels.t1[i] as f64)));
        assert!(same(column(&out, "weight"), &|i| Some(f64::from(labels.weight[i]))));
        let of = &expected.slow[0].of;
        assert!(same(column(&out, "row@1w"), &|i| (of[i] != u32::MAX).then_some(f64::from(of[i]))));

        let about =
            files::parquet_metadata(&Source::open(&out).expect("opened"), "fullbore").expect("read").expect("there");
        let about: serde_json::Value = serde_json::from_str(&about).expect("JSON");
        assert_eq!(
            (about["label"].as_str(), about["columns"][0]["first_valid"].as_u64()),
            (Some("triple(6)"), Some(14))
        );
        assert_eq!(about["set"], plan.text());
    }

    #[test]
    fn too_large_a_request_is_refused_with_figures() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (data, mut settings) = market(folder.path());
        let market = bars::read(&data, &settings.options().expect("options"), &|_| {}).expect("read").0.bars;
        let plan = Plan::new(&read_set("full").expect("a set")).expect("a plan");
        assert!(check_memory(&market, Timeframe::D1, &plan, TableUse::File, &settings).is_ok());
        let mut many = Vec::new();
        (0..400).for_each(|_| many.extend(market.iter().cloned()));
        settings.general.memory = crate::Memory::Bytes(64 << 20);
        let error = check_memory(&many, Timeframe::D1, &plan, TableUse::File, &settings).expect_err("too much");
        assert!(error.kind == Kind::Memory && error.message.contains("64.0 MiB"), "{error}");
    }

    #[test]
    fn a_feature_may_not_take_the_name_of_a_column() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (data, settings) = market(folder.path());
        let out = folder.path().join("t.parquet");
        for set in ["close, rsi(14)", "label = rsi(14)"] {
            let error = features(&request(&data, set, &out), &settings, &mut |_| {}).expect_err(set);
            assert!(error.kind == Kind::Usage && !out.exists(), "{error}");
        }
    }
}
