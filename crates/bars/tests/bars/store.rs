//! To disk and back: what is added is what was read, however it was read, and what fails leaves nothing behind.

use crate::make::{bar, minute, text};
use crate::{read, same};
use bars::audit::{Audit, Verdict};
use bars::store::{self, Entry};
use bars::synth::Synth;
use bars::{Bars, Options, Timeframe};
use files::Kind;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn add(path: &Path, folder: &Path, options: &Options) -> files::Result<(Vec<Entry>, Audit)> {
    store::add_set(path, options, folder, "set", false, &|_| {})
}

/// Everything in a folder that is no dot file, and what a killed run could have left.
fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| n != ".catalogue.lock")
        .collect();
    names.sort();
    names
}

/// A long table of synthetic bars; `order` says which row comes when.
fn long_csv(symbols: usize, bars: usize, order: impl Fn(usize) -> usize) -> Vec<u8> {
    let made =
        Synth { symbols, bars, ragged: false, timeframe: Timeframe::M5, ..Synth::default() }.make_market(1).market;
    let mut rows: Vec<(usize, String)> = Vec::new();
    for i in 0..bars {
        for b in &made {
            let row = format!(
                "{},{},{},{},{},{},{}",
                b.symbol,
                b.start[i] / 1_000_000,
                b.open[i],
                b.high[i],
                b.low[i],
                b.close[i],
                b.volume[i]
            );
            rows.push((order(rows.len()), row));
        }
    }
    rows.sort_by_key(|(at, _)| *at);
    let mut out = String::from("symbol,time,open,high,low,close,volume\n");
    rows.iter().for_each(|(_, row)| writeln!(out, "{row}").unwrap());
    out.into_bytes()
}

#[test]
fn added_set_reads_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("BTCUSDT_1m.csv");
    let line = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        let extra = if i == 3 { String::new() } else { format!("{}", 0.1 * i as f64) };
        format!("{},{o},{h},{l},{},{v},{extra}", minute(i), l + (h - c) / 3.0)
    };
    std::fs::write(&source, text("time,open,high,low,close,volume,rsi", 40, line)).unwrap();
    let home = folder.path().join("data");
    let (entries, audit) = add(&source, &home, &Options::default()).unwrap();
    assert_eq!(audit.verdict, Verdict::Fine);
    assert_eq!(
        (entries.len(), entries[0].file.as_str(), entries[0].bars, entries[0].symbols),
        (1, "set.parquet", 40, 1)
    );
    assert_eq!((entries[0].timeframe.as_str(), entries[0].verdict.as_str()), ("1m", "fine"));
    assert_eq!((entries[0].first.as_str(), entries[0].last.as_str()), ("2024-01-02T00:00:00Z", "2024-01-02T00:39:00Z"));
    assert_eq!(store::list_sets(&home).unwrap(), entries);
    assert_eq!(store::find_set(&home, "set").unwrap(), Some(home.join("set.parquet")));
    assert_eq!(store::find_set(&home, "other").unwrap(), None);
    assert_eq!(std::fs::metadata(home.join("set.parquet")).unwrap().len(), entries[0].bytes);
    let (before, _) = read(&source, &Options::default()).unwrap();
    let (after, _) = read(&home.join("set.parquet"), &Options::default()).unwrap();
    assert!(same(&before.bars[0], &after.bars[0]), "{:?}\n{:?}", before.bars[0], after.bars[0]);
    assert_eq!(before.bars[0].instrument, after.bars[0].instrument);
    assert_eq!(listing(&home), ["catalogue.json", "set.parquet"]);
}

#[test]
fn a_market_in_memory_is_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut market = Synth { symbols: 3, bars: 300, ..Synth::default() }.make_market(1).market;
    market[1].volume = Vec::new();
    market[2].extras = vec![("beta".into(), vec![1.5; market[2].len()])];
    let entries = store::write_set(&market, folder.path(), "made", false, "a test").unwrap();
    assert_eq!((entries[0].symbols, entries[0].origin.as_str()), (3, "a test"));
    let (back, audit) = read(&folder.path().join("made.parquet"), &Options::default()).unwrap();
    assert_eq!(audit.symbols.len(), 3);
    for (made, back) in market.iter().zip(&back.bars) {
        let wanted = Bars { extras: back.extras.clone(), ..made.clone() };
        assert!(same(&wanted, back), "{}", made.symbol);
    }
    assert_eq!(back.bars[2].extras[0].1, market[2].extras[0].1);
}

/// A memory limit below the data makes rows go through a scratch file; the outcome is the same to the byte.
#[test]
fn streamed_and_in_memory_add_write_the_same_bytes() {
    let n = 4 * 3000;
    let mix = |i: usize| (i * 7919) % 12_007;
    let orders: [(&str, &dyn Fn(usize) -> usize); 4] =
        [("ascending", &|i| i), ("newest first", &|i| n - i), ("shuffled", &mix), ("by symbol", &|i| i % 4 * n + i)];
    for (name, order) in orders {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("market.csv");
        let mut bytes = long_csv(4, n / 4, order);
        // The last rows once more, as they are: duplicates across blocks.
        let tail = bytes.len() - 2000;
        let cut = tail + bytes[tail..].iter().position(|b| *b == b'\n').unwrap() + 1;
        bytes.extend_from_within(cut..);
        std::fs::write(&source, &bytes).unwrap();
        let mut seen: Option<(Vec<u8>, Audit)> = None;
        for (memory, threads) in [(4 << 30, 1), (4 << 30, 2), (4 << 30, 16), (200_000, 1), (300_000, 2), (60_000, 16)] {
            let home = folder.path().join(format!("{memory}-{threads}"));
            let options = Options { memory, threads, ..Options::default() };
            let (entries, audit) = add(&source, &home, &options).unwrap();
            assert_eq!((entries[0].bars, entries[0].symbols), (n as u64, 4), "{name} {memory}");
            assert_eq!(listing(&home), ["catalogue.json", "set.parquet"], "{name} {memory}");
            let file = std::fs::read(home.join("set.parquet")).unwrap();
            match &seen {
                Some((first, audited)) => {
                    assert!(*first == file, "{name}: {memory} bytes of memory and {threads} threads change the file");
                    assert_eq!(format!("{audited:?}"), format!("{audit:?}"), "{name} {memory} {threads}");
                }
                None => seen = Some((file, audit)),
            }
        }
        let (held, _) = read(&source, &Options::default()).unwrap();
        let (stored, _) = read(&folder.path().join("60000-16/set.parquet"), &Options::default()).unwrap();
        assert!(held.bars.len() == 4 && held.bars.iter().zip(&stored.bars).all(|(a, b)| same(a, b)), "{name}");
        let small = Options { memory: 60_000, ..Options::default() };
        let error = read(&source, &small).unwrap_err();
        assert!(error.kind == Kind::Memory && error.remedy.unwrap().contains("data add"), "{name}");
    }
}

#[test]
fn streaming_resolves_conflicts_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("ETHUSDT.csv");
    let line = |i: usize| {
        let [o, h, l, c, v] = bar(i % 2000);
        // Twelve times come again later, with another volume.
        format!("{},{o},{h},{l},{c},{}", minute(i % 2000), if i < 2000 { v } else { 1.0 })
    };
    std::fs::write(&source, text("time,open,high,low,close,volume", 2012, line)).unwrap();
    for duplicates in [bars::Duplicates::First, bars::Duplicates::Last] {
        let mut files = Vec::new();
        for memory in [1 << 30, 30_000] {
            let home = folder.path().join(format!("{duplicates:?}{memory}"));
            let mut options = Options { memory, ..Options::default() };
            options.repairs.duplicates = duplicates;
            let (_, audit) = add(&source, &home, &options).unwrap();
            assert_eq!((audit.symbols[0].conflicts, audit.symbols[0].out_of_order, audit.bars), (12, 1, 2000));
            files.push(std::fs::read(home.join("set.parquet")).unwrap());
        }
        assert!(files[0] == files[1], "{duplicates:?}");
    }
}

#[test]
fn existing_set_is_replaced_only_with_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("data");
    let small = Synth { symbols: 1, bars: 50, ..Synth::default() }.make_market(1).market;
    let large = Synth { symbols: 2, bars: 60, ..Synth::default() }.make_market(1).market;
    store::write_set(&small, &home, "set", false, "").unwrap();
    let error = store::write_set(&large, &home, "set", false, "").unwrap_err();
    assert!(error.kind == Kind::State && error.message.contains("`set` already") && error.remedy.is_some());
    assert_eq!(store::list_sets(&home).unwrap()[0].bars, 50);
    for round in 0..3 {
        let entries = store::write_set(&large, &home, "set", true, "").unwrap();
        assert_eq!(listing(&home).len(), 2, "round {round}: {:?}", listing(&home));
        assert_eq!(store::find_set(&home, "set").unwrap(), Some(home.join(&entries[0].file)));
        assert_eq!(read(&home.join(&entries[0].file), &Options::default()).unwrap().1.bars, 120);
    }
    store::write_set(&small, &home, "set-b", false, "").unwrap();
    store::write_set(&small, &home, "set", true, "").unwrap();
    let names: Vec<String> = store::list_sets(&home).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["set", "set-b"], "another set is not touched");
    assert!(store::find_set(&home, "set-b").unwrap().unwrap().exists());
}

#[test]
fn each_timeframe_has_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("in");
    std::fs::create_dir_all(&source).unwrap();
    for (name, step) in [("BTC_USDT-1m.csv", 1), ("BTC_USDT-5m.csv", 5), ("ETH_USDT-5m.csv", 5)] {
        let line = |i: usize| {
            format!("{},{}", minute(step * i), crate::make::ohlcv(i + step + usize::from(name.starts_with('E'))))
        };
        std::fs::write(source.join(name), text("date,open,high,low,close,volume", 30, line)).unwrap();
    }
    let home = folder.path().join("data");
    let (entries, audit) = add(&source, &home, &Options::default()).unwrap();
    let shown: Vec<(&str, u64, &str)> =
        entries.iter().map(|e| (e.file.as_str(), e.symbols, e.timeframe.as_str())).collect();
    assert_eq!(shown, [("set-1m.parquet", 1, "1m"), ("set-5m.parquet", 2, "5m")]);
    assert_eq!((audit.bars, audit.symbols.len()), (90, 3));
    let error = store::find_set(&home, "set").unwrap_err();
    assert!(error.kind == Kind::Usage && error.remedy.unwrap().contains("set-1m, set-5m"));
    assert_eq!(store::find_set(&home, "set-5m").unwrap(), Some(home.join("set-5m.parquet")));
}

#[test]
fn refused_data_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let twin = |i: usize| format!("{},{}", minute(1440 * i), crate::make::ohlcv(i));
    for names in [&["AAPL", "MSFT"][..], &["AAPL", "MSFT", "GOOG", "NVDA", "AMD", "IBM"][..]] {
        let source = folder.path().join(format!("in{}", names.len()));
        std::fs::create_dir_all(&source).unwrap();
        for (at, name) in names.iter().enumerate() {
            // The first two hold the same series; the others differ.
            let line = |i: usize| {
                if at < 2 { twin(i) } else { format!("{},{}", minute(1440 * i), crate::make::ohlcv(i + at)) }
            };
            std::fs::write(source.join(format!("{name}.csv")), text("date,open,high,low,close,volume", 30, line))
                .unwrap();
        }
        let home = folder.path().join(format!("data{}", names.len()));
        let mut strict = Options::default();
        strict.repairs.refused = bars::RefusedSymbols::Refuse;
        if names.len() == 2 {
            let (entries, audit) = add(&source, &home, &strict).unwrap();
            assert_eq!((audit.verdict, entries.len()), (Verdict::Refuse, 0));
            assert_eq!(listing(&home), Vec::<String>::new());
            assert_eq!(store::list_sets(&home).unwrap(), []);
            continue;
        }
        let (entries, audit) = add(&source, &home, &Options::default()).unwrap();
        assert_eq!((audit.verdict, audit.bars, entries[0].symbols, entries[0].bars), (Verdict::Usable, 150, 5, 150));
        let dropped = audit.repairs.iter().find(|r| r.what == "dropped_symbol").unwrap();
        assert_eq!((dropped.count, dropped.example.starts_with("MSFT: the same series as AAPL")), (1, true));
        let (market, _) = read(&home.join(&entries[0].file), &Options::default()).unwrap();
        let left: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
        assert_eq!(left, ["AAPL", "AMD", "GOOG", "IBM", "NVDA"]);
        assert_eq!(listing(&home).len(), 2, "{:?}", listing(&home));
        assert_eq!(store::add_set(&source, &strict, &home, "strict", false, &|_| {}).unwrap().0, []);
        assert_eq!(listing(&home).len(), 2);
    }
}

#[test]
fn interrupted_and_failed_runs_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("market.csv");
    std::fs::write(&source, long_csv(4, 800, |i| i)).unwrap();
    let home = folder.path().join("data");
    let stopped = Options { stop: Arc::new(AtomicBool::new(true)), ..Options::default() };
    assert_eq!(add(&source, &home, &stopped).unwrap_err().kind, Kind::Interrupted);
    assert_eq!(listing(&home), Vec::<String>::new());
    // Stopped while it writes, with rows on disk already.
    let options = Options { memory: 50_000, threads: 1, ..Options::default() };
    let stop = options.stop.clone();
    let outcome = store::add_set(&source, &options, &home, "set", false, &|p| {
        if p.phase == "writing" {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert_eq!(outcome.unwrap_err().kind, Kind::Interrupted);
    assert_eq!(listing(&home), Vec::<String>::new());
    let mut strict = Options::default();
    strict.repairs.duplicates = bars::Duplicates::Refuse;
    let mut bytes = std::fs::read(&source).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    bytes.extend_from_within(last..);
    std::fs::write(&source, bytes).unwrap();
    assert_eq!(add(&source, &home, &strict).unwrap_err().kind, Kind::Input);
    assert_eq!(listing(&home), Vec::<String>::new());
}

#[test]
fn damage_and_invalid_names_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let market = Synth { symbols: 1, bars: 50, ..Synth::default() }.make_market(1).market;
    for name in ["", "a/b", "../x", ".hidden", "a b", "ü", &"x".repeat(101), "a\\b", "a~2"] {
        let error = store::write_set(&market, folder.path(), name, false, "").unwrap_err();
        assert!(error.kind == Kind::Usage && error.remedy.is_some(), "{name}");
    }
    assert_eq!(store::list_sets(folder.path()).unwrap(), []);
    for damage in ["", "{", "[]", "{\"version\":2,\"sets\":[]}", "{\"version\":1,\"sets\":[{}]}"] {
        std::fs::write(folder.path().join("catalogue.json"), damage).unwrap();
        let error = store::list_sets(folder.path()).unwrap_err();
        assert!(error.kind == Kind::State && error.file.is_some() && error.remedy.is_some(), "{damage}: {error}");
        assert_eq!(
            store::write_set(&market, folder.path(), "set", false, "").unwrap_err().kind,
            Kind::State,
            "{damage}"
        );
        assert_eq!(listing(folder.path()), ["catalogue.json"], "{damage}");
    }
}

#[test]
fn writers_of_one_name_neither_lose_nor_mix() {
    let folder = tempfile::tempdir().unwrap();
    let made = |seed: u64, bars: usize| Synth { symbols: 1, bars, seed, ..Synth::default() }.make_market(1).market;
    let markets: Vec<Vec<Bars>> = (0..4).map(|i| made(i, 20 + i as usize)).collect();
    let (mut told, mut done) = (0, 0);
    for round in 0..50 {
        let home = folder.path().join(round.to_string());
        let (replace, writers) = (round % 2 == 0, if round % 4 < 2 { 2 } else { 4 });
        let outcomes: Vec<files::Result<Vec<Entry>>> = std::thread::scope(|scope| {
            let write = |i: usize| store::write_set(&markets[i], &home, "set", replace, &format!("source {i}"));
            let all: Vec<_> = (0..writers).map(|i| scope.spawn(move || write(i))).collect();
            all.into_iter().map(|w| w.join().unwrap()).collect()
        });
        let entries = store::list_sets(&home).unwrap();
        assert_eq!(entries.len(), 1);
        let won = outcomes.iter().filter(|o| o.is_ok()).count();
        assert_eq!(won, if replace { writers } else { 1 }, "round {round}");
        for error in outcomes.iter().filter_map(|o| o.as_ref().err()) {
            assert!(error.to_string().contains("has a data set `set` already"), "{error}");
            told += 1;
        }
        done += won;
        // The entry and the file are of one source, and nothing else lies about.
        let of: usize = entries[0].origin.strip_prefix("source ").unwrap().parse().unwrap();
        let (market, _) = read(&home.join(&entries[0].file), &Options::default()).unwrap();
        assert_eq!((entries[0].bars, market.bars[0].close.clone()), (20 + of as u64, markets[of][0].close.clone()));
        assert_eq!(listing(&home), ["catalogue.json", &entries[0].file]);
    }
    assert!(told > 0 && done > 50);
}

#[test]
fn stored_bars_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let market = Synth { symbols: 2, bars: 200, ..Synth::default() }.make_market(1).market;
    let entries = store::write_set(&market, folder.path(), "set", false, "/data/bars.csv").unwrap();
    let path = folder.path().join(&entries[0].file);
    let whole = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&path, &Options::default()).unwrap_err()
    };
    for at in (0..60).map(|i| i * whole.len() / 60) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = refused(&flipped);
        assert_eq!(error.kind, Kind::State, "{error}");
        assert!(error.message.contains("the stored set `set` is damaged"), "{error}");
        let remedy = "add it again: fullbore data add /data/bars.csv <name=set> <replace>";
        assert_eq!(error.remedy.as_deref(), Some(remedy));
    }
    let error = refused(&whole[..whole.len() - 1]);
    assert!(error.message.contains(&format!("bytes, and {} were written", whole.len())), "{error}");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(read(&path, &Options::default()).unwrap().0.bars.len(), 2);
    // A file that no catalogue names is nobody's business.
    let copy = folder.path().join("copy.parquet");
    std::fs::write(&copy, &whole).unwrap();
    assert_eq!(read(&copy, &Options::default()).unwrap().0.bars.len(), 2);
}
