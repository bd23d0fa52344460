//! Columns that a user brings in with the answer in them: no cut of the data shows these, only what they tell.

use super::*;
use features::labels::Rule;
use random::SplitMix;

const HOW: LeakTests<'static> = LeakTests {
    cuts: 4,
    starts: 4,
    settle: features::SETTLE,
    seed: 7,
    budget: None,
    progress: &|_, _, _| {},
    stop: &|| false,
};

const AHEAD: usize = 12;

fn labels() -> Labeling {
    Labeling { rule: Rule::Fixed { horizon: AHEAD }, cost_bp: Some(0.0), ..Labeling::default() }
}

/// A column that a user brings: its name, and how it is made of a symbol's bars.
type Brought<'a> = (&'a str, &'a dyn Fn(&Bars, &mut SplitMix) -> Vec<f64>);

/// A market with columns of its own, each made from a symbol's bars.
fn with_columns(columns: &[Brought<'_>]) -> Vec<Bars> {
    let mut market = market(MarketKind::Crypto, Timeframe::M5, 2, 9000);
    for bars in &mut market {
        let mut random = SplitMix::new(bars.len() as u64 + bars.close[7].to_bits());
        for (name, make) in columns {
            let values = make(bars, &mut random);
            bars.extras.push(((*name).to_string(), values));
        }
    }
    market
}

/// What the label will earn.
fn answer(bars: &Bars) -> Vec<f64> {
    let at = |t: usize| bars.open[t.min(bars.len() - 1)];
    (0..bars.len()).map(|t| (at(t + 1 + AHEAD) / at(t + 1)).ln()).collect()
}

fn normal(random: &mut SplitMix) -> f64 {
    random::normal::quantile(random.unit().clamp(1e-9, 1.0 - 1e-9))
}

/// Columns that the test of foresight does not pass, with their verdicts.
fn caught(market: &[Bars], set: &str) -> Vec<(String, Verdict)> {
    let pipeline = PlanPipeline::new(market, &plan(set), Some(labels()), None, 2).unwrap();
    let seen = |m: &[Bars]| pipeline.batch(m);
    let report = run_leak_tests(market, &TestedPipeline { seen: &seen, stream: None, exact: None }, &HOW).unwrap();
    let of = report.tests.iter().filter(|t| t.test == Test::Foresight);
    assert!(of.clone().all(|t| t.compared > 0), "every column is judged");
    of.filter(|t| t.verdict != Verdict::Passed).map(|t| (t.column.clone(), t.verdict)).collect()
}

#[test]
fn columns_with_the_answer_in_them_are_caught() {
    let exact = |bars: &Bars, _: &mut SplitMix| answer(bars);
    let noisy = |bars: &Bars, random: &mut SplitMix| {
        let answer = answer(bars);
        let size = (answer.iter().map(|x| x * x).sum::<f64>() / answer.len() as f64).sqrt();
        answer.iter().map(|x| x + 1.5 * size * normal(random)).collect::<Vec<f64>>()
    };
    // The high of a day that is not over yet.
    let day_high = |bars: &Bars, _: &mut SplitMix| {
        let day = bars.instrument.session.trading_days(&bars.start);
        let mut high = vec![0.0f64; bars.len()];
        for (at, same) in day.chunk_by(|a, b| a == b).scan(0, |from, same| {
            *from += same.len();
            Some((*from - same.len(), same.len()))
        }) {
            let most = bars.high[at..at + same].iter().copied().fold(0.0, f64::max);
            high[at..at + same].fill(most);
        }
        high
    };
    let made = with_columns(&[("exact", &exact), ("noisy", &noisy), ("day_high", &day_high)]);
    let found = caught(&made, "rsi(14), log_return(1), e = col(exact), n = col(noisy), d = col(day_high)");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["e", "n", "d"], "{found:?}");
    assert_eq!([0, 1, 2].map(|at| found[at].1), [Verdict::Failed, Verdict::Suspicious, Verdict::Failed]);
    // As anybody would use it.
    let found = caught(&made, "h = col(day_high)/close - 1, s = col(day_high)/sma(20), log_return(1)");
    assert_eq!(found.first(), Some(&("h".to_string(), Verdict::Failed)), "{found:?}");
}

#[test]
fn two_columns_that_are_the_answer_together_are_caught() {
    // Each alone is a coin; their product is the label.
    let coin = |_: &Bars, random: &mut SplitMix| -> f64 { if random.unit() < 0.5 { -1.0 } else { 1.0 } };
    let mut market = with_columns(&[("a", &|bars: &Bars, random: &mut SplitMix| {
        (0..bars.len()).map(|_| coin(bars, random)).collect()
    })]);
    for bars in &mut market {
        let a = bars.extras[0].1.clone();
        let b = answer(bars).iter().zip(&a).map(|(x, a)| a * x.signum()).collect();
        bars.extras.push(("b".into(), b));
    }
    let found = caught(&market, "rsi(14), log_return(1), volatility(20), a = col(a), b = col(b)");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "{found:?}");
}

#[test]
fn honest_columns_pass() {
    let noise = |bars: &Bars, random: &mut SplitMix| (0..bars.len()).map(|_| normal(random)).collect::<Vec<f64>>();
    let made = with_columns(&[("x", &noise), ("y", &noise)]);
    let set = "rsi(14), sma(20), log_return(1), log_return(24), volatility(20), bollinger(20), x = col(x), y = col(y)";
    assert_eq!(caught(&made, set), []);
}

/// What an adjustment for a later split adds to a level cannot be caught, so such levels are named; ratios are not.
#[test]
fn levels_of_prices_are_named_since_adjustment_cannot_be_caught() {
    let adjusted = |bars: &Bars, _: &mut SplitMix| {
        // Split twenty for one in the middle: what came before is divided.
        let factor = |t: usize| if t < bars.len() / 2 { 0.05 } else { 1.0 };
        (0..bars.len()).map(|t| factor(t) * bars.close[t]).collect()
    };
    let market = with_columns(&[("adjusted", &adjusted)]);
    let set = "a = col(adjusted), s = sma(20), r = rsi(14), g = log_return(1), d = close / sma(20) - 1";
    let pipeline = PlanPipeline::new(&market, &plan(set), Some(labels()), None, 2).unwrap();
    let seen = |m: &[Bars]| pipeline.batch(m);
    let report = run_leak_tests(&market, &TestedPipeline { seen: &seen, stream: None, exact: None }, &HOW).unwrap();
    assert_eq!(report.price_levels, ["a", "s"]);
}
