//! Data that are wrong in a way their owner does not see, each with the sentence that the audit must say.

use crate::at;
use bars::audit::Audit;
use bars::{Class, InstrumentPatch, Market, Options};
use std::fmt::Write as _;

const MINUTE: i64 = 60_000_000_000;
const DAY: i64 = 1440 * MINUTE;

/// Prices that wander by about `step` a bar, the same for the same seed: `[n]` closes.
fn wander(n: usize, seed: u64, step: f64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
    let mut price = 100.0f64;
    (0..n)
        .map(|_| {
            price *= 1.0 + 2.0 * step * (draw() + draw());
            price
        })
        .collect()
}

/// Rows `stamp,open,high,low,close,volume` of closes at these instants; the open follows the close before.
fn rows(out: &mut String, symbol: &str, stamps: &[i64], closes: &[f64]) {
    let mut open = closes[0];
    for (ns, close) in stamps.iter().zip(closes) {
        let (high, low) = (open.max(*close) * 1.0004, open.min(*close) * 0.9996);
        let time = files::time::rfc3339(*ns);
        writeln!(out, "{symbol},{time},{open:.6},{high:.6},{low:.6},{close:.6},{}", 100 + ns / MINUTE % 7).unwrap();
        open = *close;
    }
}

fn csv(series: &[(&str, Vec<i64>, Vec<f64>)]) -> Vec<u8> {
    let mut out = String::from("symbol,time,open,high,low,close,volume\n");
    series.iter().for_each(|(symbol, stamps, closes)| rows(&mut out, symbol, stamps, closes));
    out.into_bytes()
}

fn read(series: &[(&str, Vec<i64>, Vec<f64>)]) -> (Market, Audit) {
    bars::read_bytes("market.csv", &csv(series), &Options::default()).unwrap()
}

/// Every `step` of the days from `from` on, `[open, close)` in minutes after midnight UTC, on the weekdays wanted
/// (0 is Monday).
fn stamps(from: &str, days: i64, step: i64, hours: std::ops::Range<i64>, wanted: impl Fn(i64) -> bool) -> Vec<i64> {
    let first = at(from);
    (0..days)
        .map(|day| first + day * DAY)
        .filter(|day| wanted((day / DAY + 3).rem_euclid(7)))
        .flat_map(|day| (hours.start..hours.end).step_by((step / MINUTE) as usize).map(move |m| day + m * MINUTE))
        .collect()
}

/// Class, currency, days, hours and zone of the only series, its missing bars, and the note about it.
fn instrument(symbol: &str, stamps: Vec<i64>) -> String {
    let closes = wander(stamps.len(), 3, 0.001);
    let (_, audit) = read(&[(symbol, stamps, closes)]);
    let s = &audit.symbols[0];
    let i = &s.instrument;
    let note = audit.warnings.iter().find_map(|w| w.strip_prefix(&format!("{symbol}: "))).unwrap_or("");
    let hours = if i.session.round_the_clock {
        "round the clock".to_string()
    } else {
        format!("{}-{}", i.session.open, i.session.close)
    };
    let zone = &i.session.timezone;
    format!("{} {} {} {hours} {zone}, {} missing: {note}", i.class, i.currency, i.session.days, s.missing_bars)
}

#[test]
fn the_class_agrees_with_what_the_bars_show() {
    let working = |d: i64| d < 5;
    let all = |_: i64| true;
    // Oil is no coin, by its name and by its weekends.
    let week = || stamps("2024-01-08 00:00:00", 28, 15 * MINUTE, 0..1440, working);
    assert_eq!(instrument("XBRUSD", week()), "commodity USD Mon-Fri round the clock America/New_York, 0 missing: ");
    assert_eq!(
        instrument("FOOUSD", week()),
        "commodity USD Mon-Fri round the clock America/New_York, 0 missing: \
         no bar on a Saturday, so it is not crypto_spot: read as a commodity in USD"
    );
    assert_eq!(
        instrument("BTCUSD", week()),
        "crypto_spot USD Mon-Fri round the clock America/New_York, 0 missing: \
         no bar on a Saturday: a coin traded from Monday to Friday"
    );
    let always = || stamps("2024-01-08 00:00:00", 28, 15 * MINUTE, 0..1440, all);
    assert_eq!(instrument("BTCUSD", always()), "crypto_spot USD Mon-Sun round the clock UTC, 0 missing: ");
    assert_eq!(
        instrument("XAUUSD", always()),
        "metal USD Mon-Sun round the clock UTC, 0 missing: \
         bars on all seven days, which metal does not trade: the session is all week"
    );
    assert_eq!(
        instrument("THING", week()),
        "commodity USD Mon-Fri round the clock America/New_York, 0 missing: \
         bars at nearly every hour from Monday to Friday, so it is not a share: read as a commodity"
    );
    assert_eq!(
        instrument("NAS100", week()),
        "index USD Mon-Fri round the clock America/New_York, 0 missing: \
         bars at nearly every hour from Monday to Friday: the session is round the clock"
    );
    // 03:45 to 10:00 UTC are the hours of Mumbai.
    let mumbai = stamps("2024-01-08 00:00:00", 28, 5 * MINUTE, 225..600, working);
    assert_eq!(
        instrument("NMDC", mumbai),
        "equity INR Mon-Fri 09:15-15:30 Asia/Kolkata, 0 missing: \
         bars in the hours of Asia/Kolkata, not of America/New_York: read as a share in INR"
    );
    // New York's hours in winter, alone and with those before and after the session.
    let share = "equity USD Mon-Fri 09:30-16:00 America/New_York, 0 missing: ";
    assert_eq!(instrument("NMDC", stamps("2024-01-08 00:00:00", 28, 5 * MINUTE, 870..1260, working)), share);
    assert_eq!(instrument("NMDC", stamps("2024-01-08 00:00:00", 28, 5 * MINUTE, 540..1435, working)), share);
    // Half of Europe opens at 08:00 UTC: the hours are known, the currency is not.
    let europe = instrument("SAPX", stamps("2024-01-08 00:00:00", 28, 5 * MINUTE, 480..990, working));
    assert!(europe.contains("check its class, currency and time zone"), "{europe}");
    assert!(europe.starts_with("equity USD Mon-Fri 03:00-11:30 America/New_York"), "{europe}");
}

#[test]
fn a_clock_in_indian_time_makes_an_indian_share() {
    let mut text = String::from("Date,Open,High,Low,Close,Volume\n");
    let closes = wander(20 * 75, 5, 0.001);
    let wall = stamps("2024-01-08 00:00:00", 28, 5 * MINUTE, 555..930, |d| d < 5);
    for (ns, c) in wall.iter().zip(&closes) {
        let time = files::time::rfc3339(*ns).replace('T', " ").replace('Z', "");
        writeln!(text, "{time},{c},{},{},{c},10", c * 1.001, c * 0.999).unwrap();
    }
    let (market, audit) = bars::read_bytes("MGLX.csv", text.as_bytes(), &Options::default()).unwrap();
    let i = &market.bars[0].instrument;
    assert_eq!((i.class, i.currency.as_str(), i.session.timezone.as_str()), (Class::Equity, "INR", "Asia/Kolkata"));
    assert!(
        audit.warnings.iter().any(|w| w.contains("the file's clock is that of Asia/Kolkata")),
        "{:?}",
        audit.warnings
    );
    assert_eq!(audit.symbols[0].missing_bars, 0);
}

#[test]
fn what_the_user_sets_outlives_what_the_bars_show() {
    let week = stamps("2024-01-08 00:00:00", 28, 15 * MINUTE, 0..1440, |d| d < 5);
    let series = [("FOOUSD", week.clone(), wander(week.len(), 3, 0.001))];
    let set = |name: &str, class: &str| {
        let patch = InstrumentPatch { class: Some(class.into()), ..InstrumentPatch::default() };
        Options { instruments: [(name.to_string(), patch)].into(), ..Options::default() }
    };
    let (market, _) = bars::read_bytes("m.csv", &csv(&series), &set("FOOUSD", "metal")).unwrap();
    assert_eq!(market.bars[0].instrument.class, Class::Metal);
    let (_, audit) = bars::read_bytes("m.csv", &csv(&series), &set("FOUSD", "metal")).unwrap();
    let said = "set under [instrument] but not in the data: FOUSD (did you mean FOOUSD?); there are FOOUSD";
    assert!(audit.warnings.iter().any(|w| w == said), "{:?}", audit.warnings);
}

/// Working days of four hundred, closes of a share, and its adjusted close where one is given, as a daily file.
fn daily(series: &[(&str, Vec<f64>, Option<f64>)], crash: f64) -> (Market, Audit) {
    let days = stamps("2019-01-07 00:00:00", 560, 1440 * MINUTE, 0..1, |d| d < 5);
    let mut out = String::from("symbol,time,open,high,low,close,adj_close,volume\n");
    for (symbol, closes, adjusted) in series {
        let mut before = closes[0];
        for (i, close) in closes.iter().enumerate() {
            // A crash opens half-way down and is a wide bar; a split opens at the new level.
            let jump = (close / before - 1.0).abs() > 0.25;
            let open = if jump && crash > 0.0 {
                before * (1.0 - crash)
            } else if jump {
                *close
            } else {
                before
            };
            let (high, low) = (open.max(*close) * 1.004, open.min(*close) * 0.996);
            let adj =
                adjusted.map_or(String::new(), |factor| (if i < 300 { close * factor } else { *close }).to_string());
            let volume = if i < 300 {
                1000
            } else if adjusted.is_some_and(|f| f < 1.0) {
                2000
            } else {
                1100
            };
            let time = files::time::rfc3339(days[i]);
            writeln!(out, "{symbol},{time},{open},{high},{low},{close},{adj},{volume}").unwrap();
            before = *close;
        }
    }
    bars::read_bytes("market.csv", out.as_bytes(), &Options::default()).unwrap()
}

/// A share that loses that share of its price on day 300 and goes on from there.
fn falling(seed: u64, ratio: f64) -> Vec<f64> {
    let mut closes = wander(400, seed, 0.006);
    closes[300] = closes[299];
    closes[300..].iter_mut().for_each(|c| *c *= ratio);
    closes
}

#[test]
fn a_crash_is_no_split() {
    let found = |(market, audit): &(Market, Audit)| {
        let splits: Vec<&str> =
            audit.symbols.iter().filter(|s| !s.suspected_splits.is_empty()).map(|s| s.symbol.as_str()).collect();
        let cut: Vec<&str> = market.bars.iter().filter(|b| b.segments.len() > 1).map(|b| b.symbol.as_str()).collect();
        assert_eq!(splits, cut);
        splits.join(" ")
    };
    // Two for one without an adjusted close, and with one that knows of it.
    assert_eq!(found(&daily(&[("A", falling(1, 0.5), None)], 0.0)), "A");
    assert_eq!(found(&daily(&[("A", falling(1, 0.5), Some(0.5))], 0.0)), "A");
    // The adjusted close falls along, and the volume does not double; the bar is wide.
    assert_eq!(found(&daily(&[("A", falling(1, 0.515), Some(1.0))], 0.0)), "");
    let wide = daily(&[("A", falling(1, 0.5), None)], 0.34);
    assert_eq!(found(&wide), "");
    let said = "1 jump of about a split's size read as a move: market, volume, range or adjusted close speak against a \
                split (first A on 2020-03-02, price times 0.660)";
    assert!(wide.1.warnings.iter().any(|w| w == said), "{:?}", wide.1.warnings);
    // Twelve shares fall on one day, one of them by half; a split on a day of its own stays one.
    let mut market: Vec<(String, Vec<f64>)> = (0..12).map(|i| (format!("S{i}"), falling(10 + i, 0.9))).collect();
    market[3].1 = falling(13, 0.48);
    market[5].1 = wander(400, 15, 0.006);
    market[5].1[200..].iter_mut().for_each(|c| *c *= 0.5);
    let series: Vec<(&str, Vec<f64>, Option<f64>)> =
        market.iter().map(|(s, c)| (s.as_str(), c.clone(), None)).collect();
    assert_eq!(found(&daily(&series, 0.0)), "S5");
}

#[test]
fn a_leap_of_the_price_is_mentioned() {
    for (ratio, shown) in [(710.0, "710"), (1.0 / 710.0, "1/710"), (100.0, "100")] {
        let (market, audit) = daily(&[("A", falling(1, ratio), None)], 0.0);
        let kind = if ratio == 100.0 {
            "1 suspected unadjusted split (first"
        } else {
            "1 jump of the price that no market makes (first"
        };
        let said = format!("{kind} 2020-03-02, price times {shown}); each begins a new segment");
        assert!(audit.symbols[0].reasons.contains(&said), "{:?}", audit.symbols[0].reasons);
        assert_eq!(market.bars[0].segments, [0, 300]);
    }
    // A decimal slip comes and goes; both ends are named. Coins have them too.
    let stamps = stamps("2024-01-08 00:00:00", 10, 60 * MINUTE, 0..1440, |_| true);
    let mut closes = wander(stamps.len(), 3, 0.002);
    closes[100..110].iter_mut().for_each(|c| *c *= 10.0);
    let (market, audit) = read(&[("BTCUSDT", stamps, closes)]);
    assert!(
        audit.symbols[0].reasons[0].starts_with("2 jumps of the price that no market makes (first 2024-01-12"),
        "{:?}",
        audit.symbols[0].reasons
    );
    assert_eq!(market.bars[0].segments, [0, 100, 110]);
}

/// Holes, missing bars, and where the longest hole begins and ends.
fn holes(symbol: &str, stamps: Vec<i64>) -> String {
    let closes = wander(stamps.len(), 4, 0.0005);
    let (_, audit) = read(&[(symbol, stamps, closes)]);
    let s = &audit.symbols[0];
    let longest = s.longest_hole.as_ref().map_or(String::new(), |h| format!(" {} to {}", h.from, h.to));
    format!("{} holes, {} missing{longest}", s.holes, s.missing_bars)
}

/// The stamps of a session in a zone, on working days.
fn session(zone: &str, from: &str, days: i64, step: i64, hours: std::ops::Range<i64>) -> Vec<i64> {
    let patch =
        InstrumentPatch { timezone: Some(zone.into()), open: Some("00:00".into()), ..InstrumentPatch::default() };
    let mut traded = bars::Instrument::preset(Class::Index, "EUR");
    patch.apply(&mut traded).unwrap();
    let mut clock = traded.session.session_clock();
    stamps(from, days, step, hours, |d| d < 5)
        .into_iter()
        .map(|wall| {
            // Noon of that day by the zone's own clock tells its offset at the hours traded.
            let midnight = clock.session_at(wall.div_euclid(DAY) * DAY + DAY / 2).open;
            midnight + wall.rem_euclid(DAY)
        })
        .collect()
}

#[test]
fn a_change_of_clocks_is_no_hole() {
    // Frankfurt and New York change their clocks weeks apart.
    let berlin = session("Europe/Berlin", "2023-01-09 00:00:00", 330, 5 * MINUTE, 540..1050);
    assert_eq!(holes("GER40", berlin), "0 holes, 0 missing");
    // Currencies open on Sunday at 17:00 New York: Sunday 22:00 or 21:00 UTC.
    let week = session("America/New_York", "2023-01-09 00:00:00", 330, 60 * MINUTE, 0..1440);
    let currencies: Vec<i64> = week.iter().map(|ns| ns - 7 * 60 * MINUTE).collect();
    assert_eq!(holes("EURUSD", currencies), "0 holes, 0 missing");
    // A daily bar that begins at midnight in London stands on Sunday evening in summer.
    let london: Vec<i64> = session("Europe/London", "2023-01-09 00:00:00", 330, 1440 * MINUTE, 0..1);
    assert_eq!(holes("EURUSD", london), "0 holes, 0 missing");
    let mut tel_aviv = session("Asia/Jerusalem", "2023-01-09 00:00:00", 330, 1440 * MINUTE, 0..1);
    tel_aviv.iter_mut().for_each(|ns| *ns -= DAY);
    assert_eq!(holes("KEN.TA", tel_aviv), "0 holes, 0 missing");
}

#[test]
fn a_hole_begins_with_the_bars_that_were_dropped() {
    let all = stamps("2024-01-08 00:00:00", 56, 5 * MINUTE, 0..1440, |d| d < 5);
    let closes = wander(all.len(), 4, 0.0002);
    let (zero, gone) =
        (at("2024-02-06 00:00:00")..at("2024-02-08 00:00:00"), at("2024-02-08 00:00:00")..at("2024-02-08 14:00:00"));
    let mut out = String::from("time,open,high,low,close,volume\n");
    for (ns, c) in all.iter().zip(&closes).filter(|(ns, _)| !gone.contains(ns)) {
        let c = if zero.contains(ns) { 0.0 } else { *c };
        writeln!(out, "{},{c},{},{},{c},5", files::time::rfc3339(*ns), c * 1.001, c * 0.999).unwrap();
    }
    let options = Options {
        repairs: bars::Repairs { refused: bars::RefusedSymbols::Drop, ..Default::default() },
        ..Options::default()
    };
    let (_, audit) = bars::read_bytes("EURUSD.csv", out.as_bytes(), &options).unwrap();
    let hole = audit.symbols[0].longest_hole.clone().unwrap();
    assert_eq!(
        (hole.from.as_str(), hole.to.as_str(), hole.bars),
        ("2024-02-06T00:00:00Z", "2024-02-08T14:00:00Z", 744)
    );
}

/// Hourly coins that share a market, the last one like the first.
fn coins(n: usize) -> Vec<(String, Vec<i64>, Vec<f64>)> {
    let stamps = stamps("2024-01-08 00:00:00", 60, 60 * MINUTE, 0..1440, |_| true);
    let market = wander(stamps.len(), 99, 0.004);
    let coin = |i: usize| {
        let own = wander(stamps.len(), 200 + (i % (n - 1)) as u64, 0.002);
        let noise = wander(stamps.len(), 500 + i as u64, 0.0001);
        market.iter().zip(own).zip(noise).map(|((m, o), e)| m * o * e / 1e4).collect()
    };
    (0..n).map(|i| (format!("C{i:02}USDT"), stamps.clone(), coin(i))).collect()
}

fn borrow(coins: &[(String, Vec<i64>, Vec<f64>)]) -> Vec<(&str, Vec<i64>, Vec<f64>)> {
    coins.iter().map(|(s, t, c)| (s.as_str(), t.clone(), c.clone())).collect()
}

fn read_coins(coins: &[(String, Vec<i64>, Vec<f64>)]) -> (Market, Audit) {
    read(&borrow(coins))
}

#[test]
fn two_clocks_in_one_universe_are_found() {
    for n in [8, 40] {
        let mut market = coins(n);
        let (kept, audit) = read_coins(&market);
        assert_eq!(kept.bars.len(), n, "{:?}", audit.reasons);
        assert!(!audit.warnings.iter().any(|w| w.contains("clock")), "{:?}", audit.warnings);
        // The twin of the first is five hours late.
        market[n - 1].1.iter_mut().for_each(|ns| *ns += 5 * 60 * MINUTE);
        let (kept, audit) = read_coins(&market);
        let late = audit.symbols.last().unwrap();
        assert!(
            late.reasons[0].starts_with("its clock is 5 bars late against C00USDT: returns correlate by "),
            "{:?}",
            late.reasons
        );
        assert_eq!(kept.bars.len(), n - 1);
        let note = format!("two clocks: 1 of {n} symbols is 5 bars late against near twins among the other {}", n - 1);
        assert!(audit.warnings.iter().any(|w| w.starts_with(&note)), "{:?}", audit.warnings);
        // Stored and read again it is the same.
        let folder = tempfile::tempdir().unwrap();
        let (source, home) = (folder.path().join("m.csv"), folder.path().join("data"));
        std::fs::write(&source, csv(&borrow(&market))).unwrap();
        let (entries, stored) = bars::store::add_set(&source, &Options::default(), &home, "m", false, &|_| {}).unwrap();
        assert_eq!((entries[0].symbols, &stored.warnings), (n as u64 - 1, &audit.warnings));
        assert_eq!(entries[0].file, "m.parquet");
        // Moved, it is on time; kept, it stays late.
        for (clocks, first) in [(bars::Clocks::Shift, market[0].1[0]), (bars::Clocks::Keep, market[n - 1].1[0])] {
            let repairs = bars::Repairs { clocks, ..Default::default() };
            let options = Options { repairs, ..Options::default() };
            let (kept, audit) = bars::read_bytes("m.csv", &csv(&borrow(&market)), &options).unwrap();
            assert_eq!((kept.bars.len(), kept.bars[n - 1].start[0]), (n, first), "{:?}", audit.reasons);
            assert!(audit.warnings.iter().any(|w| w.starts_with("two clocks: 1 of")), "{:?}", audit.warnings);
        }
        // Without its twin there is only the market, and that is a warning.
        market.remove(0);
        let (kept, audit) = read_coins(&market);
        assert_eq!(kept.bars.len(), n - 1, "{:?}", audit.reasons);
        let said = format!("C{:02}USDT follows the market of its session by 5 bars", n - 1);
        assert!(audit.warnings.iter().any(|w| w.starts_with(&said)), "{:?}", audit.warnings);
    }
}

#[test]
fn one_series_under_two_names_counts_once() {
    let mut market = coins(8);
    // In another unit, and a copy to the last digit.
    market[6].2 = market[2].2.iter().map(|c| c * 100.0).collect();
    market[7].2 = market[3].2.clone();
    let (kept, audit) = read_coins(&market);
    let names: Vec<&str> = kept.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!(names, ["C00USDT", "C01USDT", "C02USDT", "C03USDT", "C04USDT", "C05USDT"], "{:?}", audit.reasons);
    for said in [
        "C02USDT is the same series as C06USDT: a copy, another unit, or a wrong name; it counts once",
        "C03USDT is the same series as C07USDT: a copy, another unit, or a wrong name; it counts once",
    ] {
        assert!(audit.warnings.iter().any(|w| w == said), "{:?}", audit.warnings);
    }
    let repairs = bars::Repairs { copies: bars::Copies::Keep, ..Default::default() };
    let options = Options { repairs, ..Options::default() };
    let (kept, _) = bars::read_bytes("m.csv", &csv(&borrow(&market)), &options).unwrap();
    assert_eq!(kept.bars.len(), 8);
}

#[test]
fn half_of_a_universe_with_another_clock_is_found() {
    // Twenty coins and a twin of each, those five hours late.
    let mut market = coins(21);
    market.pop();
    let noise = |i: usize, n: usize| wander(n, 900 + i as u64, 0.0001);
    let late: Vec<_> = market
        .iter()
        .enumerate()
        .map(|(i, (symbol, stamps, closes))| {
            let closes = closes.iter().zip(noise(i, closes.len())).map(|(c, e)| c * e / 100.0).collect();
            (format!("L{symbol}"), stamps.iter().map(|ns| ns + 300 * MINUTE).collect(), closes)
        })
        .collect();
    market.extend(late);
    // The half that is late is left out, and one more on time keeps it the smaller half.
    let (kept, audit) = read_coins(&market[..39]);
    assert_eq!(kept.bars.len(), 20, "{:?}", audit.reasons);
    assert!(kept.bars.iter().all(|b| b.symbol.starts_with('C')));
    let said = "two clocks: 19 of 39 symbols are 5 bars late against near twins among the other 20 (LC00USDT, ";
    assert!(audit.warnings.iter().any(|w| w.starts_with(said)), "{:?}", audit.warnings);
    assert_eq!(audit.warnings.iter().filter(|w| w.contains("clock")).count(), 1, "{:?}", audit.warnings);
}

#[test]
fn like_prices_with_volumes_of_their_own_are_two_series() {
    let market = coins(6);
    let (stamps, closes) = (&market[0].1, &market[0].2);
    let table = |apart: f64, volume: &dyn Fn(usize) -> usize| {
        let mut out = String::from("symbol,time,open,high,low,close,volume\n");
        for (symbol, second) in [("AUSDT", false), ("BUSDT", true)] {
            for (i, (ns, c)) in stamps.iter().zip(closes).enumerate() {
                let (c, v) = if second { (c + apart * (i % 5) as f64, volume(i)) } else { (*c, 100 + i % 7) };
                writeln!(out, "{symbol},{},{c},{c},{c},{c},{v}", files::time::rfc3339(*ns)).unwrap();
            }
        }
        bars::read_bytes("m.csv", out.as_bytes(), &Options::default()).unwrap()
    };
    let (own, unit) = (|i: usize| 100 + i * 31 % 97, |i: usize| 1000 * (100 + i % 7));
    // Two venues with nearly one price are two series. No two have the same price to the last digit at every bar: that
    // is one series, wherever its volume is from.
    let (market, audit) = table(1e-5, &own);
    assert_eq!(market.bars.len(), 2, "{:?}", audit.reasons);
    let said = "BUSDT moves as AUSDT does (correlation 1.00000) with a volume of its own: both count";
    assert!(audit.warnings.iter().any(|w| w == said), "{:?}", audit.warnings);
    for (apart, volume) in [(1e-5, &unit as &dyn Fn(usize) -> usize), (0.0, &unit), (0.0, &own)] {
        let (market, audit) = table(apart, volume);
        assert_eq!(market.bars.len(), 1, "{:?}", audit.warnings);
    }
}

#[test]
fn negative_and_absurd_volumes_are_found() {
    let stamps = stamps("2024-01-08 00:00:00", 20, 60 * MINUTE, 0..1440, |_| true);
    let closes = wander(stamps.len(), 5, 0.002);
    let table = |odd: &str| {
        let mut out = String::from("time,open,high,low,close,volume\n");
        for (i, (ns, c)) in stamps.iter().zip(&closes).enumerate() {
            let volume = if i == 200 { odd.to_string() } else { (100 + i % 50).to_string() };
            writeln!(out, "{},{c},{c},{c},{c},{volume}", files::time::rfc3339(*ns)).unwrap();
        }
        bars::read_bytes("BTCUSDT.csv", out.as_bytes(), &Options::default()).unwrap()
    };
    for odd in ["-5", "1e30"] {
        let (market, audit) = table(odd);
        assert_eq!(market.bars[0].volume.iter().position(|v| v.is_nan()), Some(200));
        let (s, repair) = (&audit.symbols[0], audit.repairs.iter().find(|r| r.what == "missing_volume").unwrap());
        assert_eq!((s.bad_volumes, repair.count), (1, 1));
        assert_eq!(s.reasons, ["1 row with a negative or absurd volume, read as missing (0.2 %)"]);
        assert!(repair.example.starts_with("BTCUSDT.csv:202: volume "), "{}", repair.example);
    }
    let (_, audit) = table("1000000000000");
    let said = "1 symbol with a volume that no market has, the largest 8e9 times the usual one of BTCUSDT at 2024-01-16T08:00:00Z";
    assert!(audit.warnings.iter().any(|w| w.starts_with(said)), "{:?}", audit.warnings);
    let (market, audit) = table("0");
    assert_eq!((market.bars[0].volume[200], audit.symbols[0].bad_volumes), (0.0, 0));
    assert!(!audit.warnings.iter().any(|w| w.contains("volume that")), "{:?}", audit.warnings);
}

#[test]
fn twins_that_begin_at_other_times_are_kept() {
    // Daily bars of one index: a future's from midnight, a fund's from the exchange's opening.
    let days = |from| stamps(from, 600, DAY, 0..1440, |day| day < 5);
    let closes = wander(days("2022-01-03 00:00:00").len(), 7, 0.01);
    let noise = wander(closes.len(), 8, 0.0005);
    let fund = closes.iter().zip(noise).map(|(c, e)| c * e / 100.0).collect();
    let series = [("ESF", days("2022-01-03 00:00:00"), closes), ("SPY", days("2022-01-03 14:30:00"), fund)];
    let (kept, audit) = read(&series);
    assert_eq!(kept.bars.len(), 2, "{:?} {:?}", audit.reasons, audit.symbols.last().map(|s| &s.reasons));
}

#[test]
fn one_leap_makes_no_clock_late() {
    let mut market = coins(8);
    for (coin, at) in [(1, 900), (2, 903)] {
        market[coin].2[at..].iter_mut().for_each(|c| *c *= 1000.0);
    }
    let (_, audit) = read_coins(&market);
    let texts = audit.symbols.iter().flat_map(|s| &s.reasons).chain(&audit.warnings);
    assert!(!texts.clone().any(|t| t.contains("clock")), "{:?}", texts.collect::<Vec<_>>());
}
