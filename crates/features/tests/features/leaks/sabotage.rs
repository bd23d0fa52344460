//! Planted leaks (docs/method.md, Leak tests: sabotage): each must be caught, and its honest neighbours must not be.

use super::*;
use features::leak::{Column, PipelineOutput};
use features::{Bar, Stream, resample, runs};
use files::Result;
use std::ops::Range;

/// Does something to a column of our pipeline.
type Spoil = fn(&[Bars], &mut PipelineOutput);

fn shares() -> Vec<Bars> {
    market(MarketKind::Stocks, Timeframe::M5, 2, 1200)
}

fn honest() -> Plan {
    plan("rsi(14), sma(20), log_return(1), volume_ratio(20)\n[slow @1h]\nrsi(5)")
}

const HOW: LeakTests<'static> = LeakTests {
    cuts: 24,
    starts: 6,
    settle: features::SETTLE,
    seed: 7,
    budget: None,
    progress: &|_, _, _| {},
    stop: &|| false,
};

/// Hunts in a pipeline that was spoiled: `spoil` adds or changes the column `planted`.
fn hunted(market: &[Bars], labels: Option<Labeling>, spoil: Spoil) -> LeakReport {
    let pipeline = PlanPipeline::new(market, &honest(), labels, None, 1).unwrap();
    let seen = |m: &[Bars]| -> Result<PipelineOutput> {
        let mut seen = pipeline.batch(m)?;
        spoil(m, &mut seen);
        Ok(seen)
    };
    let exact = |m: &[Bars]| pipeline.exact(m);
    run_leak_tests(market, &TestedPipeline { seen: &seen, stream: None, exact: Some(&exact) }, &HOW).unwrap()
}

/// Rows of each symbol.
fn symbols(market: &[Bars]) -> Vec<Range<usize>> {
    let mut from = 0;
    market
        .iter()
        .map(|b| {
            from += b.len();
            from - b.len()..from
        })
        .collect()
}

/// A copy of a column under another name.
fn copy(seen: &mut PipelineOutput, of: &str) -> Vec<f64> {
    seen.columns.iter().find(|c| c.name == of).unwrap().values.clone()
}

fn plant(seen: &mut PipelineOutput, values: Vec<f64>) {
    seen.columns.push(Column { name: "planted".into(), values, warm: None });
}

/// Something of a column, symbol by symbol.
fn each(market: &[Bars], seen: &mut PipelineOutput, of: &str, spoil: impl Fn(&Bars, &[f64]) -> Vec<f64>) {
    let column = copy(seen, of);
    let values = market.iter().zip(symbols(market)).flat_map(|(bars, rows)| spoil(bars, &column[rows])).collect();
    plant(seen, values);
}

fn shift(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "log_return(1)", |_, x| x.iter().skip(1).chain([&f64::NAN]).copied().collect());
}

fn backward_fill(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "rsi(14)", |_, x| {
        let mut x = x.to_vec();
        for t in (0..x.len().saturating_sub(1)).rev() {
            if x[t].is_nan() {
                x[t] = x[t + 1];
            }
        }
        x
    });
}

fn global_scaler(_: &[Bars], seen: &mut PipelineOutput) {
    let x = copy(seen, "rsi(14)");
    let fine: Vec<f64> = x.iter().copied().filter(|v| v.is_finite()).collect();
    let mean = fine.iter().sum::<f64>() / fine.len() as f64;
    let sigma = (fine.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / fine.len() as f64).sqrt();
    plant(seen, x.iter().map(|v| (v - mean) / sigma).collect());
}

fn centred_average(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |bars, _| {
        let close = &bars.close;
        (0..close.len())
            .map(|t| {
                let window = &close[t.saturating_sub(2)..(t + 3).min(close.len())];
                window.iter().sum::<f64>() / window.len() as f64
            })
            .collect()
    });
}

fn label_as_feature(_: &[Bars], seen: &mut PipelineOutput) {
    let class = seen.labels.as_ref().unwrap().class.iter();
    let values = class.map(|c| if *c == features::labels::NONE { f64::NAN } else { f64::from(*c) }).collect();
    plant(seen, values);
}

/// The close of the hour, while it is still going on.
fn unfinished_hour(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |bars, _| {
        let mut buckets = bars.instrument.session.buckets(Timeframe::H1).unwrap();
        let hour: Vec<i64> = bars.start.iter().map(|s| buckets.bucket_at(*s).end).collect();
        hour.iter().map(|h| bars.close[hour.partition_point(|x| x <= h) - 1]).collect()
    });
}

fn high_of_the_whole_day(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |bars, _| {
        let day = bars.instrument.session.trading_days(&bars.start);
        let top = |d: &i32| day.iter().zip(&bars.high).filter(|x| x.0 == d).map(|x| *x.1).fold(0.0, f64::max);
        day.iter().map(top).collect()
    });
}

fn by_the_last_row(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |_, x| x.iter().map(|v| v / x[x.len() - 1]).collect());
}

/// A slow bar is seen from its start on.
fn start_as_availability(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |bars, _| {
        let (slow, _) = resample(bars, Timeframe::H1).unwrap();
        let of = |end: &i64| slow.start.partition_point(|s| s < end).checked_sub(1);
        bars.end.iter().map(|end| of(end).map_or(f64::NAN, |row| slow.close[row])).collect()
    });
}

/// Only the open of the next bar, which is when a decision made now is filled.
fn next_open(market: &[Bars], seen: &mut PipelineOutput) {
    each(market, seen, "sma(20)", |bars, _| bars.open.iter().skip(1).chain([&f64::NAN]).copied().collect());
}

#[test]
fn planted_leaks_are_caught() {
    let market = shares();
    let cases: &[(&str, Spoil, &[Test])] = &[
        ("shift -1", shift, &[Test::Prefix, Test::Poison, Test::Clairvoyance]),
        ("backward fill", backward_fill, &[Test::Prefix]),
        ("a scaler over everything", global_scaler, &[Test::Prefix, Test::Poison]),
        ("a centred average", centred_average, &[Test::Prefix, Test::Poison]),
        ("the label as a feature", label_as_feature, &[Test::Prefix, Test::Poison]),
        ("the unfinished hour", unfinished_hour, &[Test::Prefix, Test::Poison]),
        ("the high of the whole day", high_of_the_whole_day, &[Test::Prefix, Test::Poison]),
        ("divided by the last row", by_the_last_row, &[Test::Prefix, Test::Poison]),
        ("start as availability", start_as_availability, &[Test::Prefix, Test::Poison]),
        ("the next open", next_open, &[Test::Prefix, Test::Poison]),
    ];
    for (name, spoil, tests) in cases {
        let leaks = hunted(&market, labeling("fixed(3)"), *spoil);
        for test in *tests {
            assert_eq!(leaks.caught(*test), ["planted"], "{name}: {test}");
        }
        // Its neighbours are honest.
        for outcome in leaks.tests.iter().filter(|t| t.column != "planted") {
            assert_eq!(outcome.verdict, Verdict::Passed, "{name}: {outcome:?}");
        }
        let case = leaks.tests.iter().find(|t| t.column == "planted" && t.test == tests[0]).unwrap();
        assert!(case.worst.as_ref().is_some_and(|w| w.difference > 0.0 && !w.what.is_empty()) && case.wrong > 0);
    }
}

/// One row in fifty knows the next: few cuts meet it, and the stream meets every row.
#[test]
fn a_rare_leak_is_caught_by_the_stream() {
    let market = shares();
    let pipeline = PlanPipeline::new(&market, &honest(), None, None, 1).unwrap();
    let seen = |m: &[Bars]| -> Result<PipelineOutput> {
        let mut seen = pipeline.batch(m)?;
        let column = seen.columns.iter_mut().find(|c| c.name == "sma(20)").unwrap();
        for row in (20..column.values.len() - 1).step_by(50) {
            column.values[row] = column.values[row + 1];
        }
        Ok(seen)
    };
    let stream = |m: &[Bars]| pipeline.stream(m);
    let leaks =
        run_leak_tests(&market, &TestedPipeline { seen: &seen, stream: Some(&stream), exact: None }, &HOW).unwrap();
    assert_eq!(leaks.caught(Test::Stream), ["sma(20)"]);
}

/// No false alarm: the same pipeline with columns that only look like leaks.
#[test]
fn honest_pipelines_pass() {
    fn fill_forward(market: &[Bars], seen: &mut PipelineOutput) {
        each(market, seen, "rsi(14)", |_, x| {
            let mut last = f64::NAN;
            x.iter()
                .map(|v| {
                    if v.is_finite() {
                        last = *v;
                    }
                    last
                })
                .collect()
        });
    }
    fn expanding_scaler(market: &[Bars], seen: &mut PipelineOutput) {
        each(market, seen, "log_return(1)", |_, x| {
            let (mut n, mut sum) = (0.0, 0.0);
            x.iter()
                .map(|v| {
                    if v.is_finite() {
                        n += 1.0;
                        sum += v;
                    }
                    v - sum / n
                })
                .collect()
        });
    }
    fn high_of_the_day_so_far(market: &[Bars], seen: &mut PipelineOutput) {
        each(market, seen, "sma(20)", |bars, _| {
            let day = bars.instrument.session.trading_days(&bars.start);
            let mut top = 0.0f64;
            (0..bars.len())
                .map(|t| {
                    top = if t > 0 && day[t] == day[t - 1] { top.max(bars.high[t]) } else { bars.high[t] };
                    top
                })
                .collect()
        });
    }
    for spoil in [fill_forward as Spoil, expanding_scaler, high_of_the_day_so_far] {
        let leaks = hunted(&damaged(shares()), labeling("triple(12)"), spoil);
        assert_eq!(leaks.verdict(), Verdict::Passed, "{:?}", leaks.tests.iter().find(|t| t.verdict != Verdict::Passed));
    }
}

/// What the user brings cannot be cut or poisoned into showing itself, but it goes with the next return.
#[test]
fn an_answer_among_the_users_columns_is_seen() {
    let mut market = shares();
    for bars in &mut market {
        let n = bars.len();
        let next = |t: usize| if t + 2 < n { bars.open[t + 2] / bars.open[t + 1] - 1.0 } else { f64::NAN };
        let answer: Vec<f64> = (0..n).map(next).collect();
        let class = answer.iter().map(|r| if r.is_nan() { *r } else { r.signum() }).collect();
        let price = (0..n).map(|t| bars.open.get(t + 2).copied().unwrap_or(f64::NAN)).collect();
        let noise = (0..n).map(|t| (t * 7919 % 1000) as f64).collect();
        bars.extras =
            vec![("answer".into(), answer), ("class".into(), class), ("price".into(), price), ("noise".into(), noise)];
    }
    let plan = plan("a = col(answer)\nc = col(class)\np = col(price)\nn = col(noise)\nlate = col(answer, 2)");
    let leaks = check_plan(&market, &plan, None, &HOW);
    let verdict =
        |column: &str| leaks.tests.iter().find(|t| t.test == Test::Clairvoyance && t.column == column).unwrap().verdict;
    assert_eq!(
        ["a", "c", "p", "n", "late"].map(verdict),
        [Verdict::Failed, Verdict::Suspicious, Verdict::Failed, Verdict::Passed, Verdict::Passed]
    );
    for test in [Test::Prefix, Test::Stream, Test::Poison] {
        assert_eq!(leaks.caught(test), [""; 0], "{test}");
    }
}

/// WarmUp-ups that are declared too short, or begin elsewhere.
#[test]
fn false_declarations_are_caught() {
    let market = market(MarketKind::Crypto, Timeframe::M5, 2, 1500);
    let set = parse("ema(20), sma(20), rsi(14), open\n[slow @1h]\nsma(5)", None).unwrap();
    let settle = 1e-6;
    let pipeline = PlanPipeline::new(&market, &Plan::with_settle(&set, settle).unwrap(), None, None, 1).unwrap();
    let seen = |m: &[Bars]| pipeline.batch(m);
    let caught = |column: &'static str, first: isize, settled: fn(usize) -> usize| {
        let exact = |m: &[Bars]| -> Result<PipelineOutput> {
            let mut seen = pipeline.exact(m)?;
            for column in seen.columns.iter_mut().filter(|c| c.name == column) {
                let warm = column.warm.as_mut().unwrap();
                warm.first_valid = (warm.first_valid as isize + first) as usize;
                warm.settled = warm.settled.map(settled);
            }
            Ok(seen)
        };
        let leaks = run_leak_tests(
            &market,
            &TestedPipeline { seen: &seen, stream: None, exact: Some(&exact) },
            &LeakTests { settle, ..HOW },
        )
        .unwrap();
        leaks.caught(Test::WarmUp).iter().map(|c| c.to_string()).collect::<Vec<_>>()
    };
    for column in ["ema(20)", "sma(20)", "rsi(14)", "sma(5)@1h"] {
        assert_eq!(caught(column, 0, |s| s), [""; 0], "{column}: as declared");
        assert_eq!(caught(column, -1, |s| s), [column], "{column}: first_valid too small");
        assert_eq!(caught(column, 1, |s| s + 1), [column], "{column}: first_valid too large");
    }
    for column in ["ema(20)", "rsi(14)"] {
        assert_eq!(caught(column, 0, |s| s / 3), [column], "{column}: settled too small");
    }
}

/// A price that falls by 70 % in one bar, and one that never moves, are no false declarations.
#[test]
fn what_the_data_do_to_a_warm_up_is_no_failure() {
    let mut market = market(MarketKind::Stocks, Timeframe::D1, 1, 1200);
    let set = parse("rsi(7), rsi(14), t = true_range/atr(14)", None).unwrap();
    let checked = |market: &[Bars]| {
        let tests = LeakTests { starts: 60, ..HOW };
        check_plan(market, &Plan::new(&set).unwrap(), None, &tests)
    };
    for bars in &mut market {
        for prices in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
            // Many starts lie among the first bars.
            prices.iter_mut().enumerate().for_each(|(i, p)| *p = if i < 20 { 100.0 } else { 28.0 } + 0.5 * *p);
        }
    }
    let leaks = checked(&market);
    let felt = leaks.tests.iter().filter(|t| t.test == Test::WarmUp).filter_map(|t| Some(t.worst.as_ref()?.difference));
    let most = felt.fold(0.0, f64::max);
    assert!(most > features::SETTLE, "the fall is felt: {most}");
    assert_eq!(leaks.verdict(), Verdict::Suspicious, "{:?}", leaks.caught(Test::WarmUp));

    for bars in &mut market {
        for prices in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
            prices.fill(0.12);
        }
    }
    assert_eq!(checked(&market).verdict(), Verdict::Passed);
}

/// A label that says it was known before it was, and one that looks further than it says.
#[test]
fn labels_that_know_too_early_are_caught() {
    fn early(_: &[Bars], seen: &mut PipelineOutput) {
        let labels = seen.labels.as_mut().unwrap();
        labels.t1.iter_mut().filter(|t| **t != features::labels::NEVER).for_each(|t| *t -= 40 * 60_000_000_000);
    }
    let leaks = hunted(&shares(), labeling("fixed(12)"), early);
    assert_eq!(leaks.caught(Test::Poison), ["label"]);
    fn flipped(_: &[Bars], seen: &mut PipelineOutput) {
        let labels = seen.labels.as_mut().unwrap();
        let ups = labels.class.iter().filter(|c| **c == 1).count();
        let downs = labels.class.iter().filter(|c| **c == -1).count();
        let class = &mut labels.class;
        if ups % 2 == 0 || downs % 2 == 0 {
            class.iter_mut().filter(|c| [-1, 1].contains(*c)).for_each(|c| *c = -*c);
        }
    }
    let leaks = hunted(&shares(), labeling("fixed(12)"), flipped);
    assert!(leaks.caught(Test::Prefix).contains(&"label"));
}

/// A stream that forgets, or sees the future of its hour.
#[test]
fn a_stream_that_is_not_the_batch_is_caught() {
    let market = shares();
    let plan = plan("ema(20), log_return(1)");
    let pipeline = PlanPipeline::new(&market, &plan, None, None, 1).unwrap();
    let seen = |m: &[Bars]| pipeline.batch(m);
    let forgetful = |m: &[Bars]| -> Result<PipelineOutput> {
        let mut all = pipeline.stream(m)?;
        for (bars, rows) in m.iter().zip(symbols(m)) {
            let mut stream = Stream::new(&plan, &bars.instrument, bars.timeframe, &[], true, None)?;
            let run = runs(bars, None)[0].clone();
            for t in run.start + 400..run.end {
                let extras = Vec::new();
                stream.push(
                    &Bar {
                        start: bars.start[t],
                        end: bars.end[t],
                        open: bars.open[t],
                        high: bars.high[t],
                        low: bars.low[t],
                        close: bars.close[t],
                        volume: bars.volume[t],
                        extras,
                    },
                    false,
                )?;
                if t > run.start + 500 {
                    all.columns[0].values[rows.start + t] = f64::from(stream.row().values[0]);
                }
            }
        }
        Ok(all)
    };
    let leaks =
        run_leak_tests(&market, &TestedPipeline { seen: &seen, stream: Some(&forgetful), exact: None }, &HOW).unwrap();
    assert_eq!(leaks.caught(Test::Stream), ["ema(20)"]);
    assert_eq!(leaks.caught(Test::Prefix), [""; 0]);
}

/// One symbol of six is a day ahead: the others' view of the market knows it, and is caught.
#[test]
fn planted_market_leak_is_caught() {
    let market = market(MarketKind::Stocks, Timeframe::D1, 6, 300);
    let plan =
        plan("log_return(1), market_return(1), market_volatility(5), relative_strength(5), cluster_return(1, 20, 3)");
    let pipeline = PlanPipeline::new(&market, &plan, None, None, 1).unwrap();
    let early = market[2].symbol.clone();
    let seen = |m: &[Bars]| -> Result<PipelineOutput> {
        let mut m = m.to_vec();
        for bars in m.iter_mut().filter(|b| b.symbol == early && !b.is_empty()) {
            bars.close.rotate_left(1);
        }
        pipeline.batch(&m)
    };
    let exact = |m: &[Bars]| pipeline.exact(m);
    let leaks =
        run_leak_tests(&market, &TestedPipeline { seen: &seen, stream: None, exact: Some(&exact) }, &HOW).unwrap();
    for test in [Test::Prefix, Test::Poison] {
        let caught = leaks.caught(test);
        for name in ["market_return(1)", "market_volatility(5)", "relative_strength(5)", "cluster_return(1, 20, 3)"] {
            assert!(caught.contains(&name), "{test}: {name} is not among {caught:?}");
        }
        let wrong = leaks.tests.iter().find(|t| t.test == test && t.column == "market_return(1)").unwrap().wrong;
        let own = leaks.tests.iter().find(|t| t.test == test && t.column == "log_return(1)").unwrap().wrong;
        assert!(wrong > 2 * own, "{test}: others see it too: {wrong} and {own}");
    }
}
