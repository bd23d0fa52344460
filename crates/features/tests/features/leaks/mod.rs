//! The leak tests (docs/method.md) over everything the room computes, and the sabotage that proves that they
//! can see.

mod everything;
mod foresight;
mod real;
mod sabotage;

use bars::synth::{MarketKind, Synth};
use bars::{Bars, Timeframe};
use features::Plan;
use features::labels::{Labeling, Rule};
use features::language::parse;
use features::leak::{LeakReport, LeakTests, PlanPipeline, Test, TestedPipeline, Verdict, run_leak_tests};

/// Some symbols that live all the time.
fn market(kind: MarketKind, timeframe: Timeframe, symbols: usize, bars: usize) -> Vec<Bars> {
    Synth { symbols, bars, timeframe, kind, ragged: false, ..Synth::default() }.make_market(2).market
}

/// The same with what files have: long and short holes, missing volume, a segment border, a late listing.
fn damaged(mut market: Vec<Bars>) -> Vec<Bars> {
    for (s, bars) in market.iter_mut().enumerate() {
        let n = bars.len();
        let gone = |t: usize| match s % 3 {
            0 => (n / 3..n / 3 + 45).contains(&t) || t % 97 == 5,
            1 => t < n / 5 || (n / 2..n / 2 + 6).contains(&t),
            _ => (n * 3 / 4..n * 3 / 4 + 130).contains(&t),
        };
        let keep: Vec<usize> = (0..n).filter(|t| !gone(*t)).collect();
        let take = |column: &mut Vec<f64>| {
            if !column.is_empty() {
                *column = keep.iter().map(|t| column[*t]).collect();
            }
        };
        let Bars { open, high, low, close, volume, .. } = bars;
        [open, high, low, close, volume].into_iter().for_each(take);
        bars.start = keep.iter().map(|t| bars.start[*t]).collect();
        bars.end = keep.iter().map(|t| bars.end[*t]).collect();
        let n = bars.len();
        for t in [n / 7, n / 2, n / 2 + 1, n - 40] {
            if let Some(volume) = bars.volume.get_mut(t) {
                *volume = f64::NAN;
            }
        }
        if s % 3 == 2 {
            bars.segments = vec![0, n / 4 + 1];
        }
    }
    market
}

fn plan(text: &str) -> Plan {
    Plan::new(&parse(text, None).unwrap_or_else(|e| panic!("{text}: {e}"))).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn labeling(rule: &str) -> Option<Labeling> {
    Some(Labeling { rule: rule.parse::<Rule>().unwrap(), ..Labeling::default() })
}

/// Hunts in our own pipeline.
fn check_plan(market: &[Bars], plan: &Plan, labels: Option<Labeling>, spec: &LeakTests<'_>) -> LeakReport {
    let pipeline = PlanPipeline::new(market, plan, labels, None, 1).unwrap();
    let (seen, stream, exact) =
        (|m: &[Bars]| pipeline.batch(m), |m: &[Bars]| pipeline.stream(m), |m: &[Bars]| pipeline.exact(m));
    run_leak_tests(market, &TestedPipeline { seen: &seen, stream: Some(&stream), exact: Some(&exact) }, spec).unwrap()
}

/// Our own pipeline has no leak, also where some columns look at other symbols: those have no stream and say nothing of
/// their warm-up.
fn check_seen(name: &str, market: &[Bars], plan: &Plan, labels: Option<Labeling>, spec: &LeakTests<'_>) -> LeakReport {
    let leaks = check_plan(market, plan, labels, spec);
    let bad: Vec<String> = leaks
        .tests
        .iter()
        .filter(|t| t.verdict != Verdict::Passed)
        .map(|t| format!("{} {}: {} wrong, {:?}", t.test, t.column, t.wrong, t.worst))
        .collect();
    assert!(bad.is_empty(), "{name}: {} of {}\n{}", bad.len(), leaks.tests.len(), bad.join("\n"));
    let silent =
        leaks.tests.iter().filter(|t| t.compared == 0 && [Test::Prefix, Test::Stream, Test::Poison].contains(&t.test));
    assert_eq!(silent.count(), 0, "{name}: nothing was compared");
    leaks
}

/// Our own pipeline has no leak.
fn check(name: &str, market: &[Bars], plan: &Plan, labels: Option<Labeling>, spec: &LeakTests<'_>) -> LeakReport {
    let leaks = check_seen(name, market, plan, labels, spec);
    assert!(leaks.tests.len() >= 4 * plan.width(), "{name}: {} answers", leaks.tests.len());
    leaks
}
