//! Every indicator with every output, every preset, every label: on clean and on damaged markets.

use super::*;
use features::{Indicator, Kind as Chapter, PRESETS, catalogue};

/// Every output of every indicator, with its usual, its smallest and odd numbers; those of the market in a variant of
/// their own.
fn all(variant: &str) -> String {
    let mut text = String::new();
    for indicator in catalogue().filter(|i| i.name != "col" && (i.kind == Chapter::Market) == (variant == "market")) {
        let Indicator { name, sources, params, outputs, .. } = indicator;
        let numbers = params.iter().enumerate().map(|(i, p)| {
            let usual = p.default.unwrap_or(p.range.0);
            let value = match variant {
                "usual" | "market" => usual,
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

fn spec(cuts: usize, starts: usize) -> LeakTests<'static> {
    LeakTests { cuts, starts, ..LeakTests::default() }
}

#[test]
fn indicators_on_days() {
    let clean = market(MarketKind::Stocks, Timeframe::D1, 3, 700);
    for variant in ["usual", "smallest", "odd"] {
        let plan = plan(&all(variant));
        check(&format!("days, {variant}"), &clean, &plan, None, &spec(30, 10));
        check(&format!("days with holes, {variant}"), &damaged(clean.clone()), &plan, None, &spec(30, 10));
    }
}

#[test]
fn indicators_on_five_minutes() {
    for (kind, name) in [(MarketKind::Stocks, "shares"), (MarketKind::Fx, "currencies"), (MarketKind::Crypto, "coins")]
    {
        let clean = market(kind, Timeframe::M5, 2, 1100);
        for variant in ["usual", "smallest", "odd"] {
            let plan = plan(&all(variant));
            check(&format!("5m {name}, {variant}"), &damaged(clean.clone()), &plan, None, &spec(16, 6));
        }
    }
}

/// Averages forget slowly: here even the slowest of them has the time.
#[test]
fn indicators_settle_when_they_say() {
    let set = parse(&(all("usual") + &all("smallest") + &all("odd")), None).unwrap();
    for (settle, bars) in [(features::SETTLE, 6000), (1e-6, 9000)] {
        let long = market(MarketKind::Crypto, Timeframe::M5, 1, bars);
        let plan = Plan::with_settle(&set, settle).unwrap();
        let leaks = check("long", &long, &plan, None, &LeakTests { settle, ..spec(2, 8) });
        let silent = leaks.tests.iter().filter(|t| t.test == Test::WarmUp && t.compared == 0);
        let silent: Vec<&str> = silent.map(|t| t.column.as_str()).collect();
        // These say themselves that they never settle.
        let never = |name: &&str| ["obv_", "ad_", "adosc_", "sar_"].iter().any(|n| name.starts_with(n));
        assert!(silent.iter().all(never), "{silent:?}");
    }
}

#[test]
fn indicators_on_slower_bars() {
    let coins = market(MarketKind::Crypto, Timeframe::M5, 2, 6000);
    let shares = damaged(market(MarketKind::Stocks, Timeframe::M5, 2, 3000));
    let plan = plan(&format!(
        "close, volume@1h, rsi(14)@1h\nup = close/sma(20)@1h - 1\nsma(ema(20)@1h, 3)\n[slow @1h]\n{}[days @1d]\nclose, range, sma(2)\n",
        all("usual")
    ));
    let leaks = check("coins, hours", &coins, &plan, None, &spec(8, 8));
    for name in ["rsi(14)@1h", "up", "rsi_usual@1h", "sma(2)@1d"] {
        assert!(leaks.tests.iter().any(|t| t.test == Test::WarmUp && t.column == name && t.compared > 0), "{name}");
    }
    check("shares, hours", &shares, &plan, None, &spec(8, 8));
}

#[test]
fn presets_and_labels() {
    let (coins, days) = (
        market(MarketKind::Crypto, Timeframe::M5, 2, 2500),
        damaged(market(MarketKind::Stocks, Timeframe::D1, 4, 800)),
    );
    for (name, _, text) in PRESETS.iter().filter(|p| p.0 != "universe") {
        let plan = plan(text);
        check(name, &coins, &plan, labeling("auto"), &spec(16, 6));
        if *name != "two_timeframe" {
            check(name, &days, &plan, labeling("auto"), &spec(16, 6));
        }
    }
    for rule in ["fixed(1)", "fixed(12)", "triple(24)", "triple(6, 0.5)", "trend(20)"] {
        let plan = plan("log_return(1)");
        check(rule, &coins, &plan, labeling(rule), &spec(60, 2));
        check(rule, &days, &plan, labeling(rule), &spec(60, 2));
        check(rule, &damaged(market(MarketKind::Stocks, Timeframe::M5, 3, 900)), &plan, labeling(rule), &spec(60, 2));
    }
}

/// What happens later to any symbol changes nothing that any symbol saw of the market before.
#[test]
fn market_features_do_not_leak() {
    let days = market(MarketKind::Stocks, Timeframe::D1, 9, 500);
    let minutes = market(MarketKind::Crypto, Timeframe::M5, 6, 700);
    // What is short enough for clusters to change often; columns of the market inside other features.
    let text = all("market")
        + "cluster_return(1, 20, 3), cluster_return(3, 50, 4), market_regime(5, 10, 2)\nsma(market_return(1, 2), 5) - relative_strength(3, 2)[2]\nlog_return(1)";
    let plan = plan(&text);
    for (name, market) in [("days", days), ("minutes", minutes)] {
        // There is much to be compared.
        let seen = PlanPipeline::new(&market, &plan, None, None, 2).unwrap().batch(&market).unwrap();
        for column in &seen.columns {
            let there = column.values.iter().filter(|x| !x.is_nan()).count();
            assert!(there * 5 > column.values.len(), "{name}, {}: {there} of {}", column.name, column.values.len());
        }
        for (name, market) in [(name.to_string(), market.clone()), (format!("{name} with holes"), damaged(market))] {
            let leaks = check_seen(&name, &market, &plan, labeling("fixed(3)"), &spec(40, 4));
            let alive = leaks.tests.iter().filter(|t| t.test == Test::Prefix).count();
            assert!(alive > plan.width(), "{name}");
        }
    }
    let days = damaged(market(MarketKind::Stocks, Timeframe::D1, 8, 500));
    let (_, _, text) = PRESETS.iter().find(|p| p.0 == "universe").unwrap();
    check_seen("universe", &days, &super::plan(text), None, &spec(16, 4));
}

/// A thousand random moments.
#[test]
fn a_thousand_cuts() {
    let shares = damaged(market(MarketKind::Stocks, Timeframe::M5, 3, 400));
    let plan = plan(
        "rsi(14), ema(20), bollinger(20, 2).percent_b, session_vwap, obv, zscore(close, 20), close@1h\n[slow @1h]\nrsi(5), atr(3)",
    );
    check("a thousand cuts", &shares, &plan, labeling("triple(12)"), &spec(1000, 50));
}
