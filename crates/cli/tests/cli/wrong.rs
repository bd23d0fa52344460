//! Data that are wrong as users have them, each with the sentence that the audit, or `check lookahead`, must say.

use super::{Place, text};
use std::fmt::Write;

const HOUR: i64 = 3600;
/// A Monday, 2024-01-08.
const MONDAY: i64 = 1_704_672_000;

/// Hours of that many days from Monday on, those wanted: weekday from 0 for Monday, and hour.
fn hours(days: i64, wanted: impl Fn(i64, i64) -> bool) -> Vec<i64> {
    let all = (0..days * 24).filter(|at| wanted(at / 24 % 7, at % 24));
    all.map(|at| MONDAY + at * HOUR).collect()
}

/// `[n]` prices that wander by about `step` a bar.
fn walk(n: usize, mut seed: u64, step: f64) -> Vec<f64> {
    let mut price = 100.0;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        price *= 1.0 + ((seed >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 4.0 * step;
        price
    };
    (0..n).map(|_| next()).collect()
}

/// One series: symbol, stamps, closes, and an extra column.
type Series = (&'static str, Vec<i64>, Vec<f64>, Option<Vec<f64>>);

fn csv(all: &[Series]) -> String {
    let mut out = String::from("symbol,time,open,high,low,close,volume,extra\n");
    for (symbol, stamps, closes, extra) in all {
        let mut before = closes[0];
        for (i, (time, close)) in stamps.iter().zip(closes).enumerate() {
            // A fall opens half-way down; a price that stands still has no range.
            let open = if close / before < 0.7 { 0.66 * before } else { before };
            let wide = if open == *close { 1.0 } else { 1.0004 };
            let (high, low) = (open.max(*close) * wide, open.min(*close) / wide);
            let extra = extra.as_ref().map_or(i as f64, |extra| extra[i]);
            writeln!(out, "{symbol},{time},{open:.6},{high:.6},{low:.6},{close:.6},{},{extra:.8}", 100 + i % 7)
                .unwrap();
            before = *close;
        }
    }
    out
}

#[test]
fn wrong_data_are_told() {
    let always = hours(60, |_, _| true);
    let n = always.len();
    let coin = |seed: u64| walk(n, seed, 0.004);
    let market = coin(1);
    let beside = |seed: u64, step: f64| -> Vec<f64> {
        market.iter().zip(walk(n, seed, step)).map(|(m, own)| m * own / 100.0).collect()
    };
    let one = |symbol, closes| vec![(symbol, always.clone(), closes, None)];
    let late = || {
        let twin = beside(2, 0.002).iter().zip(walk(n, 9, 0.0001)).map(|(c, e)| c * e / 100.0).collect();
        let mut all = vec![("TWINUSDT", always.iter().map(|t| t + 5 * HOUR).collect(), twin, None)];
        for (at, symbol) in ["AUSDT", "BUSDT", "CUSDT", "DUSDT", "EUSDT"].into_iter().enumerate() {
            all.push((symbol, always.clone(), beside(2 + at as u64, 0.002), None));
        }
        all
    };
    let twice = || {
        let copy = coin(1).iter().map(|c| c * 100.0).collect();
        vec![("AUSDT", always.clone(), coin(1), None), ("BUSDT", always.clone(), copy, None)]
    };
    let future = || {
        let closes = coin(3);
        let next = (0..n).map(|i| closes[(i + 1).min(n - 1)] / closes[i] - 1.0).collect();
        vec![("AUSDT", always.clone(), closes, Some(next))]
    };
    let same_day = || {
        let stamps = hours(200, |day, hour| day < 5 && (14..21).contains(&hour));
        let closes = walk(stamps.len(), 4, 0.004);
        let aggregate = (0..closes.len()).map(|i| closes[i / 7 * 7 + 6] / closes[i] - 1.0).collect();
        vec![("SHARE", stamps, closes, Some(aggregate))]
    };
    let crash = || {
        let stamps = hours(560, |day, hour| day < 5 && hour == 0);
        let mut closes = walk(stamps.len(), 5, 0.006);
        closes[300..].iter_mut().for_each(|c| *c *= 0.5);
        vec![("SHARE", stamps, closes, None)]
    };
    let jump = || {
        let mut closes = coin(6);
        closes[700..].iter_mut().for_each(|c| *c *= 100.0);
        closes
    };
    let stuck = || {
        let mut closes = coin(7);
        closes[400..].iter_mut().for_each(|c| *c = 100.0);
        closes
    };
    let units = || {
        let stamps = always.iter().enumerate().map(|(i, t)| if i > 1200 { t * 1000 } else { *t }).collect();
        vec![("AUSDT", stamps, coin(8), None)]
    };
    let weekdays = hours(56, |day, _| day < 5);
    let class = || vec![("FOOUSD", weekdays.clone(), walk(weekdays.len(), 9, 0.001), None)];
    let lookahead: &[&str] = &["check", "lookahead", "--features", "c = col(extra)", "--cuts", "4"];
    let answer = "a column predicts the next bar's return too well; does it contain the answer?";
    for (name, data, verb, says) in [
        ("a shifted clock", late(), &["data", "audit"][..], "its clock is 5 bars late against AUSDT"),
        ("a doubled series", twice(), &["data", "audit"], "AUSDT is the same series as BUSDT"),
        ("a wrong class", class(), &["data", "audit"], "so it is not crypto_spot: read as a commodity in USD"),
        ("a future column", future(), lookahead, answer),
        ("a same-day aggregate", same_day(), lookahead, answer),
        ("a crash", crash(), &["data", "audit"], "1 jump of about a split's size read as a move"),
        (
            "a 100-fold jump",
            one("AUSDT", jump()),
            &["data", "audit"],
            "1 jump of the price that no market makes (first 2024-02-06, price times 100); each begins a new segment",
        ),
        ("a stuck feed", one("AUSDT", stuck()), &["data", "audit"], "the price does not change in 1,039 bars (72.2 %)"),
        ("mixed units", units(), &["data", "audit"], "239 stamps in another unit than the rest"),
    ] {
        let place = Place::new();
        place.write("market.csv", &csv(&data));
        let args: Vec<&str> = verb.iter().copied().chain(["market.csv"]).collect();
        let output = place.run(&args);
        let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{name}: {says:?} is not in\n{}{}", text(&output.stdout), text(&output.stderr));
    }
}
