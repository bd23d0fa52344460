//! Mistakes that were made once: each has a test, so that it does not come back.

use bars::{Options, read_bytes};

/// First start and end, timeframe and symbols of a file.
fn check(name: &str, text: &str, first: &str, end: &str, timeframe: &str, symbols: &[&str]) {
    let (market, audit) =
        read_bytes(name, text.as_bytes(), &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let names: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!(names, symbols, "{name} {:?}", audit.files);
    let bars = &market.bars[0];
    let shown = |ns: i64| files::time::rfc3339(ns);
    assert_eq!(
        (shown(bars.start[0]).as_str(), shown(bars.end[0]).as_str(), bars.timeframe.to_string().as_str()),
        (first, end, timeframe),
        "{name} {:?}",
        audit.files
    );
}

/// A line a bar: the stamps of `days` sessions from Monday 2024-02-19 on, at these minutes of the day.
fn sessions(days: i64, minutes: &[i64]) -> String {
    let monday = files::time::days(2024, 2, 19).unwrap();
    let mut text = String::from("datetime,open,high,low,close,volume\n");
    for day in (0..days).filter(|d| d % 7 < 5) {
        for minute in minutes {
            let at = (monday + day) * 86_400 + minute * 60;
            let stamp = files::time::rfc3339(at * 1_000_000_000);
            text.push_str(&format!("{},10,12,9,11,100\n", stamp.trim_end_matches('Z').replace('T', " ")));
        }
    }
    text
}

fn every(step: i64, from: i64, to: i64) -> Vec<i64> {
    (from..=to).step_by(step as usize).collect()
}

#[test]
fn exchange_local_times_are_not_read_as_utc() {
    let (open, close) = (9 * 60 + 30, 16 * 60);
    for (what, minutes, first, end, timeframe) in [
        ("1h start", every(60, open, close - 30), "2024-02-19T14:30:00Z", "2024-02-19T15:30:00Z", "1h"),
        ("1h end", every(60, open + 60, close + 30), "2024-02-19T14:30:00Z", "2024-02-19T15:30:00Z", "1h"),
        ("30m start", every(30, open, close - 30), "2024-02-19T14:30:00Z", "2024-02-19T15:00:00Z", "30m"),
        ("30m end", every(30, open + 30, close), "2024-02-19T14:30:00Z", "2024-02-19T15:00:00Z", "30m"),
        ("15m end", every(15, open + 15, close), "2024-02-19T14:30:00Z", "2024-02-19T14:45:00Z", "15m"),
        ("5m end", every(5, open + 5, close), "2024-02-19T14:30:00Z", "2024-02-19T14:35:00Z", "5m"),
        ("extended", every(5, 4 * 60, 20 * 60 - 5), "2024-02-19T09:00:00Z", "2024-02-19T09:05:00Z", "5m"),
    ] {
        // The class decides by the name before the mark; the rest says which case failed.
        check(&format!("AAPL {what}.csv"), &sessions(26, &minutes), first, end, timeframe, &["AAPL"]);
    }
    // An index of India; and what is in UTC already stays there.
    let nifty = every(5, 9 * 60 + 15, 15 * 60 + 25);
    check("NIFTY.csv", &sessions(12, &nifty), "2024-02-19T03:45:00Z", "2024-02-19T03:50:00Z", "5m", &["NIFTY"]);
    let utc = every(5, 14 * 60 + 30, 20 * 60 + 55);
    check("AAPL.csv", &sessions(12, &utc), "2024-02-19T14:30:00Z", "2024-02-19T14:35:00Z", "5m", &["AAPL"]);
}

#[test]
fn numeric_symbols_are_read() {
    let mut text = String::from("date,open,high,low,close,volume,code\n");
    for (code, close) in [("000001", 10), ("600000", 11)] {
        for day in 1..=28 {
            text.push_str(&format!("2024-02-{day:02},10,12,9,{close}.{day},100,{code}\n"));
        }
    }
    check("cn.csv", &text, "2024-02-01T00:00:00Z", "2024-02-02T00:00:00Z", "1d", &["000001", "600000"]);
}

#[test]
fn date_and_time_without_separator_are_read() {
    for (ending, step) in [("", "1m"), ("00", "1m")] {
        let rows: String = (0..50).map(|m| format!("2024010200{m:02}{ending},10,12,9,11,100\n")).collect();
        let text = format!("date,open,high,low,close,volume\n{rows}");
        check("X.csv", &text, "2024-01-02T00:00:00Z", "2024-01-02T00:01:00Z", step, &["X"]);
    }
}

#[test]
fn quarter_and_year_bars_end_where_the_next_begins() {
    let rows: String = (2000..2020).map(|y| format!("{y}-01-01,10,12,9,11\n")).collect();
    check(
        "Y.csv",
        &format!("date,open,high,low,close\n{rows}"),
        "2000-01-01T00:00:00Z",
        "2001-01-01T00:00:00Z",
        "12mo",
        &["Y"],
    );
    let rows: String = (0..40).map(|q| format!("{}-{:02}-01,10,12,9,11\n", 2000 + q / 4, q % 4 * 3 + 1)).collect();
    check(
        "Q.csv",
        &format!("date,open,high,low,close\n{rows}"),
        "2000-01-01T00:00:00Z",
        "2000-04-01T00:00:00Z",
        "3mo",
        &["Q"],
    );
}

#[test]
fn missing_week_is_a_hole_and_weekend_is_a_closure() {
    let monday = files::time::days(2024, 1, 1).unwrap();
    for (missing, holes, bars) in [(0, 0, 0), (3, 0, 0), (5, 1, 5), (10, 1, 10)] {
        let mut text = String::from("date,open,high,low,close\n");
        let gone = |day: i64| (70..70 + missing / 5 * 7 + missing % 5).contains(&day);
        for day in (0..200).filter(|d| d % 7 < 5 && !gone(*d)) {
            let (y, m, d) = files::time::civil(monday + day);
            text.push_str(&format!("{y}-{m:02}-{d:02},10,12,9,{}\n", 10.0 + day as f64 / 100.0));
        }
        let (_, audit) = read_bytes("IBM.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!((audit.symbols[0].holes, audit.symbols[0].missing_bars), (holes, bars), "{missing} days away");
    }
    // Nine days of hourly rates with one weekend.
    let mut text = String::from("time,open,high,low,close\n");
    for hour in (0..9 * 24).filter(|h| !(4 * 24 + 22..6 * 24 + 22).contains(h)) {
        let stamp = files::time::rfc3339(((monday + 7) * 24 + hour) * 3_600_000_000_000);
        text.push_str(&format!("{stamp},1.1,1.2,1.0,{}\n", 1.1 + hour as f64 / 1e4));
    }
    let (_, audit) = read_bytes("EURUSD.csv", text.as_bytes(), &Options::default()).unwrap();
    assert_eq!((audit.symbols[0].closures, audit.symbols[0].holes), (1, 0));
}

#[test]
fn hundred_thousand_symbols_are_read() {
    let rows: String = (0..100_000).map(|s| format!("2024-01-02,S{s},10,12,9,11,100\n")).collect();
    let text = format!("date,symbol,open,high,low,close,volume\n{rows}");
    let (_, audit) = read_bytes("all.csv", text.as_bytes(), &Options::default()).unwrap();
    assert_eq!(audit.symbols.len(), 100_000);
}

#[test]
fn missing_symbols_are_reported() {
    let mut options = Options { symbols: vec!["X".into(), "NOPE".into()], ..Options::default() };
    options.instruments.insert("GHOST".into(), bars::InstrumentPatch::default());
    let text = "date,open,high,low,close\n2024-01-02,10,12,9,11\n2024-01-03,10,12,9,11\n2024-01-04,10,12,9,11\n";
    let (_, audit) = read_bytes("X.csv", text.as_bytes(), &options).unwrap();
    let said = audit.warnings.join("\n");
    assert!(said.contains("NOPE") && said.contains("GHOST"), "{said}");
    for (text, missing) in [
        ("date,close\n2024-01-02,10\n2024-01-03,11\n", "open, high and low were not found"),
        ("date,open,high,low\n2024-01-02,10,12,9\n2024-01-03,11,12,9\n", "close was not found"),
    ] {
        let error = read_bytes("prices.csv", text.as_bytes(), &Options::default()).unwrap_err();
        assert!(error.message.contains(missing), "{error}");
    }
}
