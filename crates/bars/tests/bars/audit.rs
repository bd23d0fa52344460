//! Planted defects, one by one: each is found where it was planted and nothing else is; then what each repair does
//! about it.

use crate::at;
use bars::audit::{Audit, Verdict};
use bars::synth::{MarketKind, Synth};
use bars::{
    BadBars, Duplicates, Factors, Market, Membership, Options, RefusedSymbols, Repairs, RowOrder, Splits, Timeframe,
};
use std::fmt::Write as _;
use std::path::Path;

/// One line of the file: time in milliseconds, open, high, low, close, volume.
#[derive(Clone, Copy)]
struct Row(i64, [f64; 5]);

/// `[symbol][row]`
type Rows = Vec<Vec<Row>>;

const HOUR: i64 = 3_600_000;

fn made(symbols: usize, bars: usize, timeframe: Timeframe, kind: MarketKind) -> Rows {
    let start = at("2019-01-02 00:00:00");
    let market =
        Synth { seed: 7, symbols, bars, timeframe, kind, start, ragged: false, plant: None }.make_market(1).market;
    let rows = |b: &bars::Bars| {
        (0..b.len())
            .map(|i| Row(b.start[i] / 1_000_000, [b.open[i], b.high[i], b.low[i], b.close[i], b.volume[i]]))
            .collect()
    };
    market.iter().map(rows).collect()
}

/// Five shares, 400 days.
fn daily() -> Rows {
    made(5, 400, Timeframe::D1, MarketKind::Stocks)
}

fn csv(rows: &Rows) -> Vec<u8> {
    let mut out = String::from("symbol,time,open,high,low,close,volume\n");
    for (at, rows) in rows.iter().enumerate() {
        for Row(time, [o, h, l, c, v]) in rows {
            writeln!(out, "S{},{time},{o},{h},{l},{c},{v}", at + 1).unwrap();
        }
    }
    out.into_bytes()
}

fn read(rows: &Rows, options: &Options) -> files::Result<(Market, Audit)> {
    bars::read_bytes("market.csv", &csv(rows), options)
}

/// What the audit found, apart from closures: `S2 duplicates 1 usable`.
fn found(audit: &Audit) -> String {
    let mut out = Vec::new();
    for s in &audit.symbols {
        let counts = [
            ("holes", s.holes),
            ("missing", s.missing_bars),
            ("duplicates", s.duplicates),
            ("conflicts", s.conflicts),
            ("disorder", s.out_of_order),
            ("unreadable", s.unreadable),
            ("bad", s.bad_prices),
            ("range", s.range_violations),
            ("stuck", s.stuck_bars),
            ("spikes", s.spikes),
            ("zero", s.zero_volume.unwrap_or(0)),
            ("splits", s.suspected_splits.len() as u64),
            ("jumps", s.zone_jumps),
            ("units", s.mixed_units),
        ];
        let seen: String = counts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(" {what} {n}")).collect();
        if !seen.is_empty() || s.verdict != Verdict::Fine {
            out.push(format!("{}{seen} {:?}", s.symbol, s.verdict).to_lowercase());
        }
    }
    out.join(", ")
}

fn check(name: &str, plant: impl Fn(&mut Rows), expected: &str) {
    let mut rows = daily();
    plant(&mut rows);
    let (_, audit) = read(&rows, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(found(&audit), expected, "{name}: {:?}", audit.reasons);
    let repaired = audit.repairs.iter().any(|r| !r.policy.is_empty() && r.count > 0);
    assert_eq!(
        audit.verdict == Verdict::Fine,
        expected.is_empty() || !expected.contains("usable") && !repaired,
        "{name}"
    );
}

#[test]
fn each_defect_is_found_and_nothing_else() {
    check("clean", |_| {}, "");
    check(
        "duplicate",
        |r| {
            let row = r[1][100];
            r[1].insert(101, row);
        },
        "s2 duplicates 1 usable",
    );
    check(
        "conflict",
        |r| {
            let Row(t, [o, h, l, c, v]) = r[1][100];
            r[1].insert(101, Row(t, [o, h, l, (c + h + l) / 3.0, v]));
        },
        "s2 conflicts 1 usable",
    );
    check("swapped", |r| r[2].swap(100, 101), "s3 disorder 1 usable");
    check("newest first", |r| r[2].reverse(), "");
    check(
        "hole",
        |r| {
            r[3].drain(200..203);
        },
        "s4 holes 1 missing 3 usable",
    );
    check(
        "holiday of all",
        |r| {
            r.iter_mut().for_each(|rows| {
                rows.remove(200);
            })
        },
        "",
    );
    check(
        "spike",
        |r| {
            let b = &mut r[0][150].1;
            b[3] *= 1.6;
            b[1] = b[1].max(b[3]);
        },
        "s1 spikes 1 usable",
    );
    check("wick", |r| r[0][150].1[1] *= 1.5, "s1 spikes 1 usable");
    check(
        "split",
        |r| {
            r[0][250..].iter_mut().for_each(|row| {
                row.1[..4].iter_mut().for_each(|p| *p *= 0.5);
                row.1[4] *= 2.0;
            })
        },
        "s1 splits 1 usable",
    );
    check(
        "join",
        |r| r[0][250..].iter_mut().for_each(|row| row.1[..4].iter_mut().for_each(|p| *p *= 10.0)),
        "s1 splits 1 usable",
    );
    check(
        "stuck",
        |r| {
            let c = r[4][99].1[3];
            r[4][100..106].iter_mut().for_each(|row| row.1[..4].fill(c));
        },
        "s5 stuck 6 fine",
    );
    check(
        "stuck for long",
        |r| {
            let c = r[4][99].1[3];
            r[4][100..].iter_mut().for_each(|row| row.1[..4].fill(c));
        },
        "s5 stuck 300 refuse",
    );
    check("no volume", |r| r[1][50..55].iter_mut().for_each(|row| row.1[4] = 0.0), "s2 zero 5 fine");
    check(
        "bad prices",
        |r| {
            r[0][20].1[0] = 0.0;
            r[0][40].1[2] = -1.0;
            r[0][60].1[3] = f64::NAN;
            r[0][80].1[1] = 1e13;
        },
        "s1 holes 4 missing 4 bad 4 usable",
    );
    check("high below close", |r| r[0][20].1[1] = r[0][20].1[2] * 0.999, "s1 holes 1 missing 1 range 1 usable");
    check("seconds", |r| r[0][100..103].iter_mut().for_each(|row| row.0 /= 1000), "s1 units 3 usable");
}

#[test]
fn copies_of_a_series_are_left_out_and_reported() {
    let mut rows = daily();
    rows[3] = rows[0].clone();
    let (market, audit) = read(&rows, &Options::default()).unwrap();
    assert_eq!((found(&audit).as_str(), audit.verdict), ("s4 refuse", Verdict::Usable));
    assert!(audit.symbols[3].reasons[0].contains("the same series as S1"));
    let left: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!((left, audit.bars), (vec!["S1", "S2", "S3", "S5"], 1600));
    let strict =
        Options { repairs: Repairs { refused: RefusedSymbols::Refuse, ..Repairs::default() }, ..Options::default() };
    let (market, audit) = read(&rows, &strict).unwrap();
    assert_eq!((audit.verdict, market.bars.len()), (Verdict::Refuse, 0));
    // However many copies there are, the original stays.
    rows[1] = rows[0].clone();
    rows[2] = rows[0].clone();
    let (market, audit) = read(&rows, &Options::default()).unwrap();
    let left: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!((audit.verdict, left), (Verdict::Usable, vec!["S1", "S5"]));
}

#[test]
fn closures_are_distinguished_from_holes() {
    // Weekends, and the holidays of New York in 2019, are closures of daily shares.
    let (_, audit) = read(&daily(), &Options::default()).unwrap();
    assert!(audit.symbols.iter().all(|s| s.closures > 75 && s.holes == 0));
    // Coins never close: one day without bars is a hole.
    let mut coins = made(1, 400, Timeframe::D1, MarketKind::Crypto);
    coins[0].remove(200);
    let (_, audit) = bars::read_bytes("BTCUSDT.csv", &csv(&coins), &Options::default()).unwrap();
    assert_eq!((audit.symbols[0].closures, audit.symbols[0].holes, audit.symbols[0].missing_bars), (0, 1, 1));
    // Half-hours of shares: nights and weekends recur, a morning that is missing does not.
    let mut half = made(1, 13 * 35, Timeframe::Fixed(30 * 60_000_000_000), MarketKind::Stocks);
    let (_, audit) = read(&half, &Options::default()).unwrap();
    assert_eq!((audit.symbols[0].holes, audit.symbols[0].zone_jumps), (0, 0), "{:?}", audit.symbols[0].longest_hole);
    let closures = audit.symbols[0].closures;
    half[0].drain(13 * 20..13 * 20 + 4);
    let (_, audit) = read(&half, &Options::default()).unwrap();
    assert_eq!(
        (audit.symbols[0].closures, audit.symbols[0].holes, audit.symbols[0].missing_bars),
        (closures - 1, 1, 4)
    );
    // The session moves by an hour and stays there.
    let mut moved = made(1, 13 * 35, Timeframe::Fixed(30 * 60_000_000_000), MarketKind::Stocks);
    moved[0][13 * 20..].iter_mut().for_each(|row| row.0 += HOUR);
    let (_, audit) = read(&moved, &Options::default()).unwrap();
    assert_eq!(audit.symbols[0].zone_jumps, 1);
    assert!(audit.warnings.iter().any(|w| w.contains("opening hour moves 1 time ")), "{:?}", audit.warnings);
}

#[test]
fn survivorship_bias_is_reported() {
    let warned = |rows: &Rows, options: &Options| {
        read(rows, options).unwrap().1.warnings.iter().any(|w| w.contains("survivorship"))
    };
    let mut rows = made(10, 60, Timeframe::D1, MarketKind::Stocks);
    assert!(warned(&rows, &Options::default()));
    let text = "symbol,from,to\ns1,2019-02-01,2019-02-28\nS2,,\nS99,2019-01-01,\n";
    let membership = Membership::parse(Path::new("members.csv"), text).unwrap();
    let options = Options { membership: Some(membership), ..Options::default() };
    assert!(!warned(&rows, &options), "a membership file answers it");
    let (market, audit) = read(&rows, &options).unwrap();
    assert_eq!(market.bars[0].member, [(at("2019-02-01 00:00:00"), at("2019-03-01 00:00:00"))]);
    let s1 = audit.symbols.iter().find(|s| s.symbol == "S1").unwrap();
    let inside = market.bars[0]
        .start
        .iter()
        .filter(|t| (at("2019-02-01 00:00:00")..at("2019-03-01 00:00:00")).contains(*t))
        .count();
    assert_eq!(s1.outside_membership, Some(60 - inside as u64));
    assert_eq!(audit.symbols.iter().find(|s| s.symbol == "S2").unwrap().outside_membership, Some(0));
    assert!(audit.warnings.iter().any(|w| w.contains("1 symbol of the membership file without bars")));
    let said = "not in the membership file, left out: 8 symbols (S10, S3, S4, …)";
    assert!(audit.warnings.iter().any(|w| w == said), "{:?}", audit.warnings);
    assert_eq!((market.bars.len(), audit.symbols.len()), (2, 2));
    let strangers = Membership::parse(Path::new("members.csv"), "X1,2019-01-01,\nX2,2019-01-01,\n").unwrap();
    let error = read(&rows, &Options { membership: Some(strangers), ..Options::default() }).unwrap_err();
    assert!(error.message.contains("the data hold S1, …, and it lists X1, X2"), "{error}");
    rows[4].truncate(30);
    assert!(!warned(&rows, &Options::default()), "one was delisted");
    assert!(!warned(&made(9, 60, Timeframe::D1, MarketKind::Stocks), &Options::default()), "nine are a handful");
}

#[test]
fn split_with_a_factor_is_not_suspected() {
    let mut rows = daily();
    rows[0][250..].iter_mut().for_each(|row| row.1[..4].iter_mut().for_each(|p| *p /= 4.0));
    let (market, _) = read(&rows, &Options::default()).unwrap();
    assert_eq!(market.bars[0].segments, [0, 250]);
    let date = &files::time::rfc3339(rows[0][250].0 * 1_000_000)[..10];
    let factors = Factors::parse(Path::new("factors.csv"), &format!("symbol,date,split\nS1,{date},4\n")).unwrap();
    let (market, audit) = read(&rows, &Options { factors: Some(factors), ..Options::default() }).unwrap();
    assert_eq!((market.bars[0].segments.as_slice(), audit.verdict), (&[0][..], Verdict::Fine), "{:?}", audit.reasons);
    let [old, new] = [&rows[0][249].1, &rows[0][250].1];
    assert_eq!(
        (market.bars[0].close[249], market.bars[0].volume[249]),
        (old[3] / 4.0, old[4] * 4.0),
        "the past is rescaled"
    );
    assert_eq!((market.bars[0].close[250], market.bars[0].volume[250]), (new[3], new[4]), "what was paid last stays");
}

/// Repairs, a plant, and what becomes of it: rows left of the first symbol and the repair that is listed, or the error.
fn policy(repairs: Repairs, plant: impl Fn(&mut Rows)) -> Result<(Market, Audit), files::Error> {
    let mut rows = daily();
    plant(&mut rows);
    read(&rows, &Options { repairs, ..Options::default() })
}

fn repair(audit: &Audit) -> Vec<(&str, u64)> {
    audit.repairs.iter().map(|r| (r.what, r.count)).collect()
}

#[test]
fn each_repair_policy_is_applied() {
    let usual = Repairs::default;
    let swap = |r: &mut Rows| r[0].swap(100, 101);
    let (market, audit) = policy(usual(), swap).unwrap();
    assert_eq!((repair(&audit), market.bars[0].len()), (vec![("sorted", 1)], 400));
    let error = policy(Repairs { order: RowOrder::Refuse, ..usual() }, swap).unwrap_err();
    assert!(
        error.message.contains("1 rows are out of order")
            && error.file.is_some()
            && error.remedy.unwrap().contains("repair.order")
    );

    let close = daily()[0][100].1[3];
    let conflict = |r: &mut Rows| {
        let Row(t, [o, h, l, c, v]) = r[0][100];
        r[0].insert(101, Row(t, [o, h, l, c, v + 1.0]));
    };
    let volume = daily()[0][100].1[4];
    for (duplicates, wanted) in [(Duplicates::First, volume), (Duplicates::Last, volume + 1.0)] {
        let (market, audit) = policy(Repairs { duplicates, ..usual() }, conflict).unwrap();
        assert_eq!((market.bars[0].close[100], market.bars[0].volume[100], market.bars[0].len()), (close, wanted, 400));
        assert_eq!(repair(&audit), [("dropped_conflicting", 1)]);
        assert!(audit.repairs[0].policy.contains(&format!("{duplicates:?}").to_lowercase()));
    }
    let error = policy(Repairs { duplicates: Duplicates::Refuse, ..usual() }, conflict).unwrap_err();
    assert!(error.message.contains("occurs twice for S1") && error.remedy.unwrap().contains("repair.duplicates"));

    let range = |r: &mut Rows| r[0][20].1[1] = r[0][20].1[2] * 0.999;
    for (bad, left, listed) in [(BadBars::Drop, 399, "dropped_range"), (BadBars::Keep, 400, "kept_range")] {
        let (market, audit) = policy(Repairs { range: bad, ..usual() }, range).unwrap();
        assert_eq!((market.bars[0].len(), repair(&audit)), (left, vec![(listed, 1)]));
        assert!(audit.repairs[0].example.starts_with("market.csv:22: open "), "{}", audit.repairs[0].example);
    }
    let error = policy(Repairs { range: BadBars::Refuse, ..usual() }, range).unwrap_err();
    assert!(error.line == Some(22) && error.remedy.unwrap().contains("repair.range"));

    let zero = |r: &mut Rows| r[0][20].1[0] = 0.0;
    let (market, audit) = policy(usual(), zero).unwrap();
    assert_eq!((market.bars[0].len(), repair(&audit)), (399, vec![("dropped_bad_price", 1)]));
    let error = policy(Repairs { bad_prices: BadBars::Refuse, ..usual() }, zero).unwrap_err();
    assert!(error.line == Some(22) && error.remedy.unwrap().contains("repair.bad_prices"));
    // A bar whose open lies outside its range cannot stand: `Keep` drops it as well.
    let (market, audit) = policy(Repairs { bad_prices: BadBars::Keep, ..usual() }, zero).unwrap();
    assert_eq!((market.bars[0].len(), repair(&audit)), (399, vec![("dropped_bad_price", 1)]));
    // A bar that is whole but negative can (oil in April 2020).
    let negative = |r: &mut Rows| r[0][20].1[..4].copy_from_slice(&[-2.0, -1.0, -3.0, -2.0]);
    let (market, audit) = policy(Repairs { bad_prices: BadBars::Keep, ..usual() }, negative).unwrap();
    assert_eq!((market.bars[0].len(), market.bars[0].low[20]), (400, -3.0));
    assert!(repair(&audit).contains(&("kept_bad_price", 1)), "{:?}", repair(&audit));

    let split = |r: &mut Rows| r[0][250..].iter_mut().for_each(|row| row.1[..4].iter_mut().for_each(|p| *p *= 0.5));
    let (market, audit) = policy(usual(), split).unwrap();
    assert_eq!((market.bars[0].segments.as_slice(), repair(&audit)), (&[0, 250][..], vec![("segmented", 1)]));
    let (market, audit) = policy(Repairs { splits: Splits::Keep, ..usual() }, split).unwrap();
    assert_eq!((market.bars[0].segments.as_slice(), repair(&audit)), (&[0][..], vec![]));
    assert_eq!(audit.symbols[0].suspected_splits.len(), 1, "seen all the same");
}

#[test]
fn unreadable_rows_are_dropped_up_to_a_share() {
    let mut text = String::from_utf8(csv(&daily())).unwrap();
    for n in 1..=30 {
        let line = text.lines().nth(50 * n).unwrap().to_string();
        text = text.replacen(&line, &line.replacen(',', ",x", 1), 1);
        let outcome = bars::read_bytes("market.csv", text.as_bytes(), &Options::default());
        // One in a hundred of 2,000 rows.
        if n <= 20 {
            let (_, audit) = outcome.unwrap();
            assert_eq!(
                (repair(&audit)[0], audit.rows, audit.bars),
                (("dropped_unreadable", n as u64), 2000, 2000 - n as u64)
            );
            assert!(audit.repairs[0].example.starts_with("market.csv:51:2: `x"), "{}", audit.repairs[0].example);
        } else {
            let error = outcome.unwrap_err();
            assert_eq!((error.line, error.column), (Some(51), Some(2)));
            assert!(
                error.message.contains(&format!("{n} of 2000 rows"))
                    && error.remedy.unwrap().contains("repair.unreadable")
            );
        }
    }
}

#[test]
fn time_range_and_symbols_are_selected() {
    let rows = daily();
    let options = Options {
        symbols: vec!["s2".into(), "S4".into()],
        from: Some(at("2019-06-03 00:00:00")),
        to: Some(at("2019-07-01 00:00:00")),
        ..Options::default()
    };
    let (market, _) = read(&rows, &options).unwrap();
    let names: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!((names, market.bars[0].len()), (vec!["S2", "S4"], 20));
    assert!(
        market.bars[0].start[0] >= at("2019-06-03 00:00:00") && market.bars[0].start[19] < at("2019-07-01 00:00:00")
    );
    let none = Options { symbols: vec!["NOPE".into()], ..Options::default() };
    let error = read(&rows, &none).unwrap_err();
    assert!(error.kind == files::Kind::Usage && error.remedy.unwrap().contains("S1, S2"));
}
