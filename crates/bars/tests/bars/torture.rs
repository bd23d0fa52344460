//! Hostile and broken files: each is refused with file, line, column and remedy, or counted; nothing panics.

use crate::make::{self, bar, minute, npy, npy_f64, ohlcv, text};
use crate::{at, same};
use bars::audit::{Audit, Verdict};
use bars::{Bars, Market, Options, Timeframe};
use files::{Error, Kind};
use proptest::prelude::*;
use std::fmt::Write as _;

const HEADER: &str = "time,open,high,low,close,volume";

fn read(name: &str, bytes: &[u8]) -> Result<(Market, Audit), Error> {
    bars::read_bytes(name, bytes, &Options::default())
}

/// `n` good minutes with some lines put in another way.
fn minutes(n: usize, other: impl Fn(usize, String) -> String) -> Vec<u8> {
    text(HEADER, n, |i| other(i, format!("{},{}", minute(i), ohlcv(i % 40))))
}

/// An error of that kind that names the file, has a remedy, and says this.
fn refused(name: &str, bytes: &[u8], words: &str) -> Error {
    let error = read(name, bytes).map(|(_, audit)| audit).expect_err(words);
    assert!(error.message.contains(words), "{name}: `{words}` is not in: {error}");
    assert!(error.kind == Kind::Input && error.file.as_ref().is_some_and(|file| file.starts_with(name)), "{error}");
    assert!(error.remedy.is_some(), "{error}");
    error
}

#[test]
fn empty_single_and_flat_series_are_handled() {
    for empty in ["", "\n\n\n", "\u{feff}"] {
        assert!(read("X.csv", empty.as_bytes()).is_err(), "{empty:?}");
    }
    refused("X.csv", b"", "");
    refused("X.csv", b"time,open,high,low,close,volume\n", "");
    refused("X.json", b"[]", "");
    let (market, audit) = read("AAPL_1m.csv", &minutes(1, |_, line| line)).unwrap();
    assert_eq!((market.bars[0].len(), audit.verdict), (1, Verdict::Fine));
    assert_eq!(
        market.bars[0].end[0] - market.bars[0].start[0],
        60_000_000_000,
        "the name tells the timeframe of a lone bar"
    );
    let (market, _) = read("AAPL.csv", &minutes(1, |_, line| line)).unwrap();
    assert_eq!(market.bars[0].timeframe, Timeframe::D1, "nothing tells it: a day, the later availability");
    let flat = text(HEADER, 200, |i| format!("{},5,5,5,5,0", minute(i)));
    let (market, audit) = read("BTCUSDT.csv", &flat).unwrap();
    assert_eq!((audit.verdict, market.bars.len()), (Verdict::Refuse, 0), "a price that never moves is none");
    assert_eq!(
        (audit.symbols[0].stuck_bars, audit.symbols[0].zero_volume, audit.symbols[0].spikes),
        (199, Some(200), 0)
    );
    let few = text(HEADER, 30, |i| format!("{},5,5,5,5,0", minute(i)));
    assert_eq!(read("BTCUSDT.csv", &few).unwrap().1.verdict, Verdict::Fine);
}

#[test]
fn absurd_numbers() {
    for value in ["1e12", "1e308", "nan", "inf", "-inf", "0", "-3", ""] {
        let bytes =
            minutes(200, |i, line| if i == 100 { line.replacen(",160,", &format!(",{value},"), 1) } else { line });
        let bytes = String::from_utf8(bytes)
            .unwrap()
            .replace(&format!("{},120,", minute(100)), &format!("{},{value},", minute(100)));
        let (market, audit) = read("BTCUSDT.csv", bytes.as_bytes()).unwrap_or_else(|e| panic!("{value}: {e}"));
        let dropped = audit.symbols[0].bad_prices + audit.symbols[0].unreadable;
        assert_eq!((dropped, market.bars[0].len(), audit.verdict), (1, 199, Verdict::Usable), "{value}");
        assert!(audit.repairs[0].example.starts_with("BTCUSDT.csv:102"), "{value}: {}", audit.repairs[0].example);
    }
    // A spike by 1e9 below the limit stays, and is seen.
    let bytes = minutes(200, |i, line| if i == 100 { format!("{},120,2e11,118,1e11,5", minute(i)) } else { line });
    let (market, audit) = read("BTCUSDT.csv", &bytes).unwrap();
    assert_eq!((market.bars[0].len(), audit.symbols[0].bad_prices, audit.symbols[0].high), (200, 0, 2e11));
    assert!(audit.symbols[0].spikes >= 1 && audit.verdict == Verdict::Usable);
}

#[test]
fn irregular_times_are_handled() {
    let gap = minutes(300, |i, line| if (100..110).contains(&i) { String::new() } else { line });
    let (_, audit) = read("BTCUSDT.csv", &gap).unwrap();
    assert_eq!((audit.rows, audit.symbols[0].holes, audit.symbols[0].missing_bars), (290, 1, 10));
    let units = |i: usize| match i {
        10 => "1704153600".to_string(),
        20 => "1704154200000000000".to_string(),
        _ => (1_704_153_000_000 + 60_000 * i as i64).to_string(),
    };
    let (market, audit) = read("BTCUSDT.csv", &text(HEADER, 60, |i| format!("{},{}", units(i), ohlcv(i)))).unwrap();
    assert_eq!((audit.symbols[0].mixed_units, audit.symbols[0].holes, market.bars[0].len()), (2, 0, 60));
    assert!(audit.repairs.iter().any(|r| r.what == "rescaled_time" && r.count == 2));
    // A leap second does not exist for a clock of 86,400 seconds a day: the row is read or counted, never moved.
    let leap = minutes(200, |i, line| if i == 60 { line.replace("01:00:00", "00:59:60") } else { line });
    let (_, audit) = read("BTCUSDT.csv", &leap).unwrap();
    assert_eq!(audit.symbols[0].unreadable + audit.bars, 200);
    // 2024-02-30, 24:01, a month 13.
    for wrong in ["2024-02-30 00:00:00", "2024-01-02 24:01:00", "2024-13-02 00:00:00", "yesterday"] {
        let bytes = minutes(200, |i, line| if i == 60 { format!("{wrong},{}", ohlcv(0)) } else { line });
        let (_, audit) = read("BTCUSDT.csv", &bytes).unwrap();
        assert_eq!((audit.symbols[0].unreadable, audit.bars), (1, 199), "{wrong}");
    }
    // Bars that end after the file was written may be unfinished.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("BTCUSDT.csv");
    std::fs::write(&path, text(HEADER, 30, |i| format!("{},{}", minute(i).replace("2024", "2124"), ohlcv(i)))).unwrap();
    let (_, audit) = crate::read(&path, &Options::default()).unwrap();
    assert!(audit.symbols[0].unfinished_last && audit.verdict == Verdict::Usable, "{:?}", audit.reasons);
}

#[test]
fn daylight_saving_in_new_york() {
    // Half-hours of wall time from Friday to Monday around both changes of 2024; the zone is told.
    let options = Options { timezone: Some("America/New_York".into()), ..Options::default() };
    for (sunday, utc_before, utc_after) in [("2024-03-10", 5, 4), ("2024-11-03", 4, 5)] {
        let mut lines = format!("{HEADER}\n");
        let start = at(&format!("{sunday} 00:00:00")) + utc_before * 3_600_000_000_000;
        for i in 0..96i64 {
            let utc = start + i * 1_800_000_000_000;
            // The clock changes at 02:00 wall time, two hours into that Sunday.
            let behind = if i < 4 { utc_before } else { utc_after };
            let wall = files::time::rfc3339(utc - behind * 3_600_000_000_000).replace(['T', 'Z'], " ");
            writeln!(lines, "{},{}", wall.trim(), ohlcv(i as usize)).unwrap();
        }
        let (market, audit) = bars::read_bytes("SPY.csv", lines.as_bytes(), &options).unwrap();
        let b = &market.bars[0];
        assert_eq!((b.len(), audit.symbols[0].duplicates, audit.symbols[0].out_of_order), (96, 0, 0), "{sunday}");
        assert_eq!((b.start[0], b.start[95]), (start, start + 95 * 1_800_000_000_000), "{sunday}");
        assert!(b.start.windows(2).all(|w| w[1] - w[0] == 1_800_000_000_000), "{sunday}: no hour is lost or doubled");
    }
    let wrong = Options { timezone: Some("Mars/Olympus".into()), ..Options::default() };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("A.csv"), minutes(9, |_, line| line)).unwrap();
    assert_eq!(crate::read(folder.path(), &wrong).unwrap_err().kind, Kind::Usage);
}

#[test]
fn malformed_text_is_handled() {
    // NUL bytes in a row: that row is unreadable and nothing else; among the first bytes they make the file no text.
    let nul = |n: usize| minutes(3000, |i, line| if i == n { line.replace(",1", ",\u{0}1") } else { line });
    let (_, audit) = read("BTCUSDT.csv", &nul(2500)).unwrap();
    assert_eq!((audit.symbols[0].unreadable, audit.bars), (1, 2999));
    assert!(audit.repairs[0].example.starts_with("BTCUSDT.csv:2502:2: "), "{}", audit.repairs[0].example);
    refused("BTCUSDT.csv", &nul(7), "the text holds NUL bytes");
    // The last line is cut off.
    let mut cut = minutes(300, |_, line| line);
    cut.truncate(cut.len() - 14);
    let (_, audit) = read("BTCUSDT.csv", &cut).unwrap();
    assert_eq!(audit.symbols[0].unreadable + audit.bars, 300);
    // Columns under the wrong names.
    let error = refused(
        "X.csv",
        &text("time,open,low,high,close,volume", 50, |i| format!("{},{}", minute(i), ohlcv(i))),
        "break high ≥ low",
    );
    assert!(error.message.contains("swapped"), "{error}");
    // A line longer than any row: bounded by the caps.
    let mut long = minutes(30, |_, line| line);
    long.extend(std::iter::repeat_n(b'7', 3 << 20));
    assert!(read("X.csv", &long).is_err());
    let one = vec![b'x'; 5 << 20];
    refused("X.csv", &one, "");
    refused("X.csv", "a,b\rc,d\r".as_bytes(), "carriage return");
    refused("notes.txt", b"Dear reader, this is a letter.\nIt holds no bars.\n", "");
    refused("X.csv", &text("time,price,qty", 50, |i| format!("{},{},1", minute(i), i + 1)), "ticks, not bars");
    refused(
        "X.csv",
        &text("open,high,low,close", 50, |i| {
            let [o, h, l, c, _] = bar(i);
            format!("{o},{h},{l},{c}")
        }),
        "no column holds times",
    );
    // More than one row in a hundred cannot be read: the first is named with line and column.
    let error = refused(
        "X.csv",
        &minutes(100, |i, line| if i > 90 { line.replace(",1", ",?") } else { line }),
        "rows cannot be read",
    );
    assert_eq!((error.line, error.column), (Some(93), Some(2)));
    // Quotes that never close, fields that never end.
    let _ = read("X.csv", &minutes(50, |i, line| if i == 3 { format!("\"{line}") } else { line }))
        .map(|(_, audit)| assert!(audit.bars >= 48));
    let wide = minutes(300, |i, line| if i == 3 { format!("{line}{}", ",1".repeat(500)) } else { line });
    assert_eq!(read("BTCUSDT.csv", &wide).unwrap().1.symbols[0].unreadable, 1);
}

#[test]
fn hostile_containers() {
    let good = npy_f64(
        "(6, 6)",
        &(0..6).flat_map(|i| [1.7e9 + 60.0 * i as f64].into_iter().chain(bar(i))).collect::<Vec<_>>(),
    );
    let error =
        refused("X.npz", &make::zip(&[("BTCUSDT.npy", &npy("'|O'", "(6, 6)", b"\x80\x04K\x01."))]), "object array");
    assert!(error.remedy.unwrap().contains("allow_pickle") || error.message.contains("pickle"));
    refused("X.npy", &npy("'|O'", "(6,)", b"junk"), "object array");
    refused("X.npy", &npy_f64("(99999999999, 6)", &[1.0; 12]), "");
    refused("X.npy", &npy_f64("(18446744073709551615, 18446744073709551615)", &[1.0; 12]), "");
    refused("X.npy", &good[..good.len() - 9], "");
    refused("X.zip", &make::zip(&[("../x.csv", &minutes(20, |_, line| line))]), "");
    refused("X.zip", &make::zip(&[("/etc/x.csv", &minutes(20, |_, line| line))]), "");
    refused("X.npz", &make::zip(&[("A.npy", &good), ("A.npy", &good)]), "");
    // A size that only the directory claims; true bombs are tested where they are inflated, in `files`.
    refused("X.zip", &make::zip_claiming(&[("x.csv", &minutes(20, |_, line| line))], Some(u32::MAX - 1)), "");
    // Fortran order and big-endian numbers are converted.
    let rows: Vec<[f64; 6]> = (0..6)
        .map(|i| {
            let [o, h, l, c, v] = bar(i);
            [1.7e9 + 60.0 * i as f64, o, h, l, c, v]
        })
        .collect();
    let fortran: Vec<f64> = (0..6).flat_map(|k| rows.iter().map(move |r| r[k])).collect();
    let mut turned = npy_f64("(6, 6)", &fortran);
    let at = turned.windows(5).position(|w| w == b"False").unwrap();
    turned[at..at + 5].copy_from_slice(b"True ");
    let big = npy("'>f8'", "(6, 6)", &rows.iter().flatten().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>());
    let (wanted, _) = read("BTCUSDT.npy", &good).unwrap();
    for bytes in [turned, big] {
        assert!(same(&read("BTCUSDT.npy", &bytes).unwrap().0.bars[0], &wanted.bars[0]));
    }
    let gz = make::gzip(&minutes(40, |_, line| line));
    assert_eq!(read("BTCUSDT.csv.gz", &gz).unwrap().1.bars, 40);
    assert!(read("BTCUSDT.csv.gz", &gz[..gz.len() / 2]).is_err(), "a gzip that ends early is not a shorter file");
}

#[test]
fn truncated_and_corrupted_files_are_errors() {
    let table = make::table(files::Column::time("time", (0..500).map(|i| at(&minute(i))).collect()), 500);
    for (name, whole) in [("X.parquet", make::parquet(&table)), ("X.feather", make::feather(&table))] {
        assert_eq!(read(name, &whole).unwrap().1.bars, 500);
        for cut in [1, 4, 9, 100, whole.len() / 2, whole.len() - 20] {
            let error = read(name, &whole[..whole.len() - cut]).map(|(_, a)| a).expect_err(name);
            assert!(error.file.is_some() && error.kind == Kind::Input, "{name} cut by {cut}: {error}");
        }
        // One bent byte: an error or bars, never a panic and never more rows than there were.
        for at in (0..whole.len()).step_by(61) {
            let mut bent = whole.clone();
            bent[at] ^= 0x5a;
            if let Ok((_, audit)) = read(name, &bent) {
                assert!(audit.bars <= 500, "{name} byte {at}");
            }
        }
    }
}

/// A row: step to the next bar, and four prices and a volume in hundredths.
fn some_bars() -> impl Strategy<Value = Vec<(i64, [f64; 5])>> {
    let row = (1i64..4, 100u32..90_000, 0u32..500, 0u32..99, 0u32..500, 0u32..500, 0u64..9_000_000_000);
    let to_row = |(step, low, up, _, a, b, volume): (i64, u32, u32, u32, u32, u32, u64)| {
        let price = |hundredths: u32| f64::from(hundredths) / 100.0;
        let (high, open, close) = (low + up, low + a.min(up), low + b.min(up));
        (step, [price(open), price(high), price(low), price(close), volume as f64 / 1000.0])
    };
    prop::collection::vec(row.prop_map(to_row), 25..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bars_written_as_text_read_back_equal(rows in some_bars(), style in 0usize..6) {
        let mut time = 1_704_067_200i64;
        let mut wanted: Vec<(i64, [f64; 5])> = Vec::new();
        let separator = if style == 1 { ";" } else { "," };
        let mut out = HEADER.replace(',', separator) + "\n";
        for (i, (step, prices)) in rows.iter().enumerate() {
            // Most steps are one minute, so that the timeframe is one.
            time += 60 * if i % 5 == 0 { *step } else { 1 };
            wanted.push((time, *prices));
            let stamp = match style {
                0 | 1 => files::time::rfc3339(time * 1_000_000_000),
                2 => (time * 1000).to_string(),
                3 => format!("{time}000000000"),
                4 => files::time::rfc3339(time * 1_000_000_000).replace(['T', 'Z'], " ").trim().to_string(),
                _ => time.to_string(),
            };
            let cells: Vec<String> = prices.iter().map(f64::to_string).collect();
            writeln!(out, "{stamp}{separator}{}", cells.join(separator)).unwrap();
        }
        let mut options = Options::default();
        options.repairs.splits = bars::Splits::Keep;
        let (market, audit) = bars::read_bytes("BTCUSDT.csv", out.as_bytes(), &options).unwrap();
        prop_assert_eq!(audit.rows, rows.len() as u64);
        prop_assert_eq!(market.bars.len(), 1, "{:?}", audit.reasons);
        let b: &Bars = &market.bars[0];
        prop_assert_eq!(b.timeframe, Timeframe::M1);
        let got: Vec<(i64, [f64; 5])> =
            (0..b.len()).map(|i| (b.start[i] / 1_000_000_000, [b.open[i], b.high[i], b.low[i], b.close[i], b.volume[i]])).collect();
        prop_assert_eq!(got, wanted);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0usize..8) {
        let heads: [&[u8]; 8] = [b"", b"time,open,high,low,close\n2024-01-02,1,2,", b"[[1704067200000,1,2,", b"{\"t\":[1,2],\"o\":[", b"PK\x03\x04", b"PAR1", b"ARROW1\0\0", b"\x93NUMPY\x01\x00"];
        bytes.splice(0..0, heads[kind].iter().copied());
        for name in ["x.csv", "x.json", "x.npz", "equity/usa/minute/spy/20240102_trade.zip"] {
            let _ = read(name, &bytes);
        }
    }

    #[test]
    fn corrupted_tables_never_panic(at in 0usize..2000, with in any::<u8>(), cut in 0usize..2000) {
        let mut bytes = minutes(40, |_, line| line);
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        bytes[at] = with;
        if let Ok((market, audit)) = read("BTCUSDT.csv", &bytes) {
            prop_assert!(audit.bars <= 41 && market.bars.iter().all(|b| b.start.is_sorted_by(|x, y| x < y)));
        }
        let _ = read("BTCUSDT.csv", &bytes[cut..]);
    }
}
