//! Every indicator with every output, every preset, every label: on clean and on damaged markets.

use super::*;
use features::{Indicator, PRESETS, catalogue};

/// Every output of every indicator, with its usual, its smallest and odd numbers.
fn all(variant: &str) -> String {
    let mut text = String::new();
    for indicator in catalogue().filter(|i| i.name != "col") {
        let Indicator { name, sources, params, outputs, .. } = indicator;
        let numbers = params.iter().enumerate().map(|(i, p)| {
            let usual = p.default.unwrap_or(p.range.0);
            let value = match variant {
                "usual" => usual,
                "smallest" => p.range.0,
                _ => (usual * 0.7 + [3.0, 5.0, 2.0][i % 3]).clamp(p.range.0, p.range.1),
            };
            if p.whole { value.round() } else { value }.to_string()
        });
        let args: Vec<String> =
            sources.iter().map(|s| if s.is_empty() { "close".into() } else { s.to_string() }).chain(numbers).collect();
        let call = if args.is_empty() { name.to_string() } else { format!("{name}({})", args.join(", ")) };
        if outputs.is_empty() {
            text += &format!("{name}_{variant} = {call}\n");
        }
        for output in *outputs {
            text += &format!("{name}_{output}_{variant} = {call}.{output}\n");
        }
    }
    text
}

fn how(cuts: usize, starts: usize) -> Hunt<'static> {
    Hunt { cuts, starts, ..Hunt::default() }
}

#[test]
fn indicators_on_days() {
    let clean = market(Kind::Stocks, Timeframe::D1, 3, 700);
    for variant in ["usual", "smallest", "odd"] {
        let plan = plan(&all(variant));
        check(&format!("days, {variant}"), &clean, &plan, None, &how(30, 10));
        check(&format!("days with holes, {variant}"), &damaged(clean.clone()), &plan, None, &how(30, 10));
    }
}

#[test]
fn indicators_on_five_minutes() {
    for (kind, name) in [(Kind::Stocks, "shares"), (Kind::Fx, "currencies"), (Kind::Crypto, "coins")] {
        let clean = market(kind, Timeframe::M5, 2, 1100);
        for variant in ["usual", "smallest", "odd"] {
            let plan = plan(&all(variant));
            check(&format!("5m {name}, {variant}"), &damaged(clean.clone()), &plan, None, &how(16, 6));
        }
    }
}

/// Averages forget slowly: here even the slowest of them has the time.
#[test]
fn indicators_settle_when_they_say() {
    let long = market(Kind::Crypto, Timeframe::M5, 1, 9000);
    let plan = plan(&(all("usual") + &all("smallest") + &all("odd")));
    let leaks = check("long", &long, &plan, None, &how(2, 12));
    let silent = leaks.tests.iter().filter(|t| t.test == Test::WarmUp && t.compared == 0);
    let silent: Vec<&str> = silent.map(|t| t.column.as_str()).collect();
    // These say themselves that they never settle.
    let never = |name: &&str| ["obv_", "ad_", "adosc_", "sar_"].iter().any(|n| name.starts_with(n));
    assert!(silent.iter().all(never), "{silent:?}");
}

#[test]
fn indicators_on_slower_bars() {
    let coins = market(Kind::Crypto, Timeframe::M5, 2, 6000);
    let shares = damaged(market(Kind::Stocks, Timeframe::M5, 2, 3000));
    let plan = plan(&format!(
        "close, volume@1h, rsi(14)@1h\nup = close/sma(20)@1h - 1\nsma(ema(20)@1h, 3)\n[slow @1h]\n{}[days @1d]\nclose, range, sma(2)\n",
        all("usual")
    ));
    let leaks = check("coins, hours", &coins, &plan, None, &how(8, 8));
    for name in ["rsi(14)@1h", "up", "rsi_usual@1h", "sma(2)@1d"] {
        assert!(leaks.tests.iter().any(|t| t.test == Test::WarmUp && t.column == name && t.compared > 0), "{name}");
    }
    check("shares, hours", &shares, &plan, None, &how(8, 8));
}

#[test]
fn presets_and_labels() {
    let (coins, days) =
        (market(Kind::Crypto, Timeframe::M5, 2, 2500), damaged(market(Kind::Stocks, Timeframe::D1, 4, 800)));
    for (name, _, text) in PRESETS {
        let plan = plan(text);
        check(name, &coins, &plan, labeling("auto"), &how(16, 6));
        if *name != "two_timeframe" {
            check(name, &days, &plan, labeling("auto"), &how(16, 6));
        }
    }
    for rule in ["fixed(1)", "fixed(12)", "triple(24)", "triple(6, 0.5)", "trend(20)"] {
        let plan = plan("log_return(1)");
        check(rule, &coins, &plan, labeling(rule), &how(60, 2));
        check(rule, &days, &plan, labeling(rule), &how(60, 2));
        check(rule, &damaged(market(Kind::Stocks, Timeframe::M5, 3, 900)), &plan, labeling(rule), &how(60, 2));
    }
}

/// A thousand moments, as METHOD.md asks.
#[test]
fn a_thousand_cuts() {
    let shares = damaged(market(Kind::Stocks, Timeframe::M5, 3, 400));
    let plan = plan(
        "rsi(14), ema(20), bollinger(20, 2).percent_b, session_vwap, obv, zscore(close, 20), close@1h\n[slow @1h]\nrsi(5), atr(3)",
    );
    check("a thousand cuts", &shares, &plan, labeling("triple(12)"), &how(1000, 50));
}
