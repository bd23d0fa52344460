//! Labels against hand-made paths, against plain twins, and against the future.

use super::*;
use bars::synth::{MarketKind as World, Synth};
use bars::{Class, Instrument, Timeframe};

/// Nanoseconds of a test bar.
const BAR: i64 = 10;

/// A symbol with these prices (open, high, low, close), bar `i` over `[10 i, 10 i + 10)`.
pub(crate) fn bars(prices: &[[f64; 4]]) -> Bars {
    let column = |i: usize| prices.iter().map(|bar| bar[i]).collect();
    let n = prices.len() as i64;
    Bars {
        symbol: "TEST".into(),
        instrument: Instrument::preset(Class::Metal, "USD"),
        timeframe: Timeframe::Fixed(BAR),
        start: (0..n).map(|i| BAR * i).collect(),
        end: (0..n).map(|i| BAR * i + BAR).collect(),
        open: column(0),
        high: column(1),
        low: column(2),
        close: column(3),
        volume: Vec::new(),
        extras: Vec::new(),
        segments: vec![0],
        member: Vec::new(),
    }
}

/// One run a symbol.
pub(crate) fn whole(market: &[Bars]) -> Vec<Vec<Range<usize>>> {
    market.iter().map(|bars| std::iter::once(0..bars.len()).collect()).collect()
}

/// Numbers below the argument, from a seed.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = random::SplitMix::new(seed);
    move |below| random.below(below as usize) as u64
}

/// A random walk with gaps, a few bars missing, moves around the costs of gold.
pub(crate) fn walk(draw: &mut impl FnMut(u64) -> u64, n: usize) -> Bars {
    let mut price: f64 = 100.0;
    let mut step = |scale: f64| ((draw(2001) as f64 - 1000.0) / 1000.0) * scale;
    let prices: Vec<[f64; 4]> = (0..n)
        .map(|_| {
            let open = price * step(2e-4).exp();
            let close = open * step(2e-3).exp();
            price = close;
            [open, open.max(close) * step(1e-3).abs().exp(), open.min(close) * (-step(1e-3).abs()).exp(), close]
        })
        .collect();
    let mut bars = bars(&prices);
    let mut shift = 0;
    for i in 0..n {
        shift += if draw(9) == 0 { BAR * draw(5) as i64 } else { 0 };
        bars.start[i] += shift;
        bars.end[i] += shift;
    }
    bars
}

fn spec(rule: &str, cost_bp: Option<f64>) -> Labeling {
    Labeling { rule: rule.parse().unwrap(), cost_bp, ..Labeling::default() }
}

fn labels_of(bars: &Bars, spec: &Labeling) -> Labels {
    let market = [bars.clone()];
    label(&market, &whole(&market), spec, 1).unwrap()
}

/// Closes that swing by 1 % and end at 100: σ is 1 %, and the last of them is the first row that has one. Entry
/// follows.
const CALM: usize = triple::RETURNS + 1;

fn after_calm(future: &[[f64; 4]]) -> Bars {
    let swing = |i: usize| if i.is_multiple_of(2) { 100.0 } else { 100.0 * (0.01f64).exp() };
    let mut prices: Vec<[f64; 4]> = (0..CALM).map(|i| [swing(i); 4]).collect();
    prices.extend(future);
    bars(&prices)
}

/// Bars that stay at a price.
fn at(price: f64, n: usize) -> Vec<[f64; 4]> {
    vec![[price; 4]; n]
}

#[test]
fn hand_made_paths() {
    // σ = 1 %, h = 4: barriers of triple(4) at ± 2 %, that is 102.02 and 98.02.
    let quiet = at(100.0, 5);
    let with = |i: usize, bar: [f64; 4]| {
        let mut bars = quiet.clone();
        bars[i] = bar;
        bars
    };
    let end = |bars: i64| Some((CALM as i64 + bars) * BAR);
    // (name, rule, cost in bp, future, class, t1, both)
    type Case = (&'static str, &'static str, Option<f64>, Vec<[f64; 4]>, i8, Option<i64>, u64);
    let cases: Vec<Case> = vec![
        ("up in the entry bar", "triple(4)", None, with(0, [100.0, 102.1, 99.0, 100.0]), 1, end(1), 0),
        ("up in the third bar", "triple(4)", None, with(2, [100.0, 102.1, 99.0, 100.0]), 1, end(3), 0),
        ("up in the last bar", "triple(4)", None, with(3, [100.0, 102.1, 99.0, 100.0]), 1, end(4), 0),
        ("too late", "triple(4)", None, with(4, [100.0, 120.0, 80.0, 100.0]), 0, end(4), 0),
        ("down", "triple(4)", None, with(1, [100.0, 101.0, 98.0, 100.0]), -1, end(2), 0),
        ("not quite", "triple(4)", None, with(1, [100.0, 102.0, 98.03, 100.0]), 0, end(4), 0),
        ("wider", "triple(4, 2)", None, with(1, [100.0, 102.1, 98.0, 100.0]), 0, end(4), 0),
        ("wider, touched", "triple(4, 2)", None, with(1, [100.0, 104.1, 98.0, 100.0]), 1, end(2), 0),
        ("both in one bar", "triple(4)", None, with(1, [100.0, 103.0, 97.0, 100.0]), 0, end(2), 1),
        ("gap above, then below", "triple(4)", None, with(1, [103.0, 104.0, 97.0, 100.0]), 1, end(2), 0),
        ("gap below, then above", "triple(4)", None, with(1, [97.0, 104.0, 96.0, 100.0]), -1, end(2), 0),
        ("both never narrower than cost", "triple(4)", Some(150.0), with(1, [100.0, 103.0, 97.1, 100.0]), 0, end(4), 0),
        ("twice the cost", "triple(4)", Some(150.0), with(1, [100.0, 103.1, 97.1, 100.0]), 1, end(2), 0),
        ("vertical, beyond half of 2 %", "triple(4)", None, with(4, [101.01; 4]), 1, end(4), 0),
        ("vertical, flat within it", "triple(4)", None, with(4, [101.0; 4]), 0, end(4), 0),
        ("vertical, down", "triple(4)", None, with(4, [98.99; 4]), -1, end(4), 0),
        ("vertical, narrower barriers", "triple(4, 0.5)", None, with(4, [100.6; 4]), 1, end(4), 0),
        ("vertical, dearer", "triple(4, 0.5)", Some(70.0), with(4, [100.6; 4]), 0, end(4), 0),
        (
            "no row for the vertical",
            "triple(4)",
            None,
            with(0, [100.0, 110.0, 99.0, 100.0])[..4].to_vec(),
            NONE,
            None,
            0,
        ),
        ("price below zero", "triple(4)", None, with(1, [1.0, 1.0, -37.0, -37.0]), -1, end(2), 0),
        ("fixed up", "fixed(4)", None, with(4, [100.021, 0.0, 0.0, 0.0]), 1, end(4), 0),
        ("fixed flat", "fixed(4)", None, with(4, [100.019, 0.0, 0.0, 0.0]), 0, end(4), 0),
        ("fixed down", "fixed(4)", None, with(4, [99.97, 0.0, 0.0, 0.0]), -1, end(4), 0),
        ("fixed dearer", "fixed(4)", Some(5.0), with(4, [99.97, 0.0, 0.0, 0.0]), 0, end(4), 0),
        ("fixed for nothing", "fixed(4)", Some(0.0), with(4, [100.0001, 0.0, 0.0, 0.0]), 1, end(4), 0),
        ("fixed, exactly still", "fixed(4)", Some(0.0), quiet.clone(), 0, end(4), 0),
        ("fixed, end of data", "fixed(5)", None, quiet.clone(), NONE, None, 0),
        ("fixed, below zero", "fixed(4)", None, with(4, [-3.0; 4]), NONE, None, 0),
        ("trend up", "trend(6)", None, (0..7).map(|i| [100.0 + f64::from(i); 4]).collect(), 1, end(6), 0),
        ("trend down", "trend(6)", None, (0..7).map(|i| [100.0 - f64::from(i); 4]).collect(), -1, end(6), 0),
        (
            "trend within cost",
            "trend(6)",
            Some(1000.0),
            (0..7).map(|i| [100.0 + f64::from(i); 4]).collect(),
            0,
            end(6),
            0,
        ),
        ("no trend", "trend(6)", None, (0..7).map(|i| [100.0 + f64::from(i % 2); 4]).collect(), 0, end(6), 0),
        // Down by 5 at once and up by less over 20 bars: the line rises, and whoever buys loses.
        (
            "trend against the move",
            "trend(20)",
            None,
            std::iter::once([100.0; 4]).chain((0..20).map(|i| [95.0 + 0.2 * f64::from(i); 4])).collect(),
            0,
            end(20),
            0,
        ),
        ("trend of nothing", "trend(6)", Some(0.0), at(100.0, 7), 0, end(6), 0),
        ("trend, end of data", "trend(6)", None, at(100.0, 6), NONE, None, 0),
        (
            "trend, below zero",
            "trend(6)",
            None,
            with(3, [-1.0; 4]).into_iter().chain(at(100.0, 2)).collect(),
            NONE,
            None,
            0,
        ),
    ];
    for (name, rule, cost, future, class, t1, both) in cases {
        let labels = labels_of(&after_calm(&future), &spec(rule, cost));
        let t = CALM - 1;
        assert_eq!((labels.class[t], labels.t1[t]), (class, t1.unwrap_or(NEVER)), "{name}");
        assert_eq!(labels.weight[t] > 0.0, class != NONE, "{name}");
        assert_eq!(labels.both_touched, both, "{name}");
    }
}

#[test]
fn sigma_is_the_weighted_root_mean_square() {
    let mut draw = random(11);
    let bars = walk(&mut draw, 200);
    let runs = [0..90, 90..91, 95..200];
    let sigma = triple::sigma(&bars.close, &runs, 30.0);
    for (t, got) in sigma.iter().enumerate() {
        let run = runs.iter().find(|run| run.contains(&t));
        let returns: Vec<f64> = run.map_or(Vec::new(), |run| {
            (run.start + 1..=t).rev().map(|i| (bars.close[i] / bars.close[i - 1]).ln()).collect()
        });
        if returns.len() < 20 {
            assert!(got.is_nan(), "{t}");
            continue;
        }
        let weights: Vec<f64> = (0..returns.len()).map(|age| (1.0 - 2.0 / 31.0f64).powi(age as i32)).collect();
        let square: f64 = returns.iter().zip(&weights).map(|(r, w)| r * r * w).sum();
        let expected = (square / weights.iter().sum::<f64>()).sqrt();
        assert!((got - expected).abs() < 1e-12 * expected, "{t}: {got} {expected}");
    }
}

/// The rules once more, as their definitions say, one row at a time: class, t1, last bar, both.
fn twin(bars: &Bars, run: &Range<usize>, t: usize, rule: Rule, cost: f64, span: f64) -> Option<(i8, i64, usize, bool)> {
    let sign = |moved: f64, least: f64| i8::from(moved > least) - i8::from(moved < -least);
    let reach = match rule {
        Rule::Fixed { horizon } | Rule::Triple { horizon, .. } => horizon,
        Rule::Trend { longest } => longest,
        Rule::Auto => unreachable!(),
    };
    let exit = t + 1 + reach;
    if !run.contains(&t) || exit >= run.end {
        return None;
    }
    let entry = bars.open[t + 1];
    let vertical = |least: f64| (sign((bars.open[exit] / entry).ln(), least), bars.start[exit], exit - 1, false);
    match rule {
        Rule::Triple { horizon, width } => {
            if t - run.start < 20 {
                return None;
            }
            let sigma = triple::sigma(&bars.close, std::slice::from_ref(run), span)[t];
            let far = (width * sigma * (horizon as f64).sqrt()).max(2.0 * cost);
            let (upper, lower) = (entry * far.exp(), entry / far.exp());
            let touched = (t + 1..exit).find(|b| bars.high[*b] >= upper || bars.low[*b] <= lower);
            Some(touched.map_or_else(
                || vertical(cost.max(0.5 * far)),
                |b| {
                    let (up, down) = (bars.high[b] >= upper, bars.low[b] <= lower);
                    let class = match bars.open[b] {
                        open if open >= upper => 1,
                        open if open <= lower => -1,
                        _ => i8::from(up) - i8::from(down),
                    };
                    (class, bars.end[b], b, class == 0)
                },
            ))
        }
        Rule::Trend { longest } => {
            let log: Vec<f64> = bars.open[t + 1..=exit].iter().map(|open| open.ln()).collect();
            let (mut best, mut class) = (0.0, 0);
            for length in (longest / 4).max(5)..=longest {
                let y = &log[..=length];
                let n = y.len() as f64;
                let (mx, my) = ((n - 1.0) / 2.0, y.iter().sum::<f64>() / n);
                let xx: f64 = (0..y.len()).map(|x| (x as f64 - mx).powi(2)).sum();
                let slope = y.iter().enumerate().map(|(x, y)| (x as f64 - mx) * (y - my)).sum::<f64>() / xx;
                let rest: f64 = y.iter().enumerate().map(|(x, y)| (y - my - slope * (x as f64 - mx)).powi(2)).sum();
                let value = slope / (rest / (n - 2.0) / xx).sqrt();
                if value.abs() > best {
                    best = value.abs();
                    let gained = value.signum() * (y[length] - y[0]);
                    class = if best >= 2.0 && gained > cost { value.signum() as i8 } else { 0 };
                }
            }
            let got = trend::Scan::new(longest).clearest(&log).unwrap().t_squared.sqrt();
            assert!((got - best).abs() <= 1e-8 * best, "{got} {best}");
            Some((class, bars.start[exit], exit - 1, false))
        }
        _ => Some(vertical(cost)),
    }
}

#[test]
fn labels_equal_the_reference_on_random_walks() {
    let mut draw = random(5);
    let rules =
        ["fixed(1)", "fixed(7)", "triple(1)", "triple(5)", "triple(12, 0.2)", "triple(24)", "trend(5)", "trend(30)"];
    let (mut labelled, mut both) = (0, 0);
    for round in 0..64 {
        let market: Vec<Bars> = (0..3)
            .map(|_| {
                let n = draw(160) as usize;
                walk(&mut draw, n)
            })
            .collect();
        let runs: Vec<Vec<Range<usize>>> = market
            .iter()
            .map(|bars| {
                let n = bars.len();
                let mut cuts: Vec<usize> = (0..4).map(|_| draw(n as u64 + 1) as usize).collect();
                cuts.sort_unstable();
                if round % 2 == 0 { std::iter::once(0..n).collect() } else { vec![cuts[0]..cuts[1], cuts[2]..cuts[3]] }
            })
            .collect();
        let cost_bp = [None, Some(0.0), Some(15.0)][round % 3];
        let spec = spec(rules[round % rules.len()], cost_bp);
        let cost = cost_bp.unwrap_or(2.0) * 1e-4;
        let labels = label(&market, &runs, &spec, 1).unwrap();
        let mut first = 0;
        let (mut seen_both, mut balance) = (0, [0; 3]);
        for (bars, runs) in market.iter().zip(&runs) {
            let expected: Vec<_> = (0..bars.len())
                .map(|t| runs.iter().find_map(|run| twin(bars, run, t, spec.rule, cost, spec.span)))
                .collect();
            for (t, mark) in expected.iter().enumerate() {
                let row = first + t;
                let Some((class, t1, last, both)) = *mark else {
                    assert_eq!((labels.class[row], labels.t1[row], labels.weight[row]), (NONE, NEVER, 0.0));
                    continue;
                };
                assert_eq!((labels.class[row], labels.t1[row]), (class, t1), "{} row {t}", spec.rule);
                // O(n²): on each bar, count all labels that span it.
                let spans = |b: usize| {
                    let on = |(i, mark): (usize, &Option<(i8, i64, usize, bool)>)| {
                        mark.is_some_and(|(_, t1, last, _)| {
                            assert!(bars.start[last] < t1);
                            i < b && b <= last
                        })
                    };
                    expected.iter().enumerate().filter(|pair| on(*pair)).count()
                };
                let shares: f64 = (t + 1..=last).map(|b| 1.0 / spans(b) as f64).sum();
                let weight = shares / (last - t) as f64;
                assert!((f64::from(labels.weight[row]) - weight).abs() < 1e-7, "{} {weight}", labels.weight[row]);
                seen_both += u64::from(both);
                balance[(class + 1) as usize] += 1;
                labelled += 1;
            }
            first += bars.len();
        }
        assert_eq!((labels.both_touched, labels.balance), (seen_both, balance));
        both += seen_both;
    }
    assert!(labelled > 5000 && both > 10, "{labelled} {both}");
}

const LEAK_RULES: [&str; 5] = ["fixed(6)", "triple(6)", "triple(24)", "triple(12, 0.5)", "trend(12)"];

/// L1: what was known at T is what it is today.
#[test]
fn prefixes_give_the_same_labels() {
    let mut draw = random(23);
    for round in 0..200 {
        let spec = spec(LEAK_RULES[round % LEAK_RULES.len()], None);
        let reach = match spec.rule {
            Rule::Fixed { horizon } | Rule::Triple { horizon, .. } => horizon,
            Rule::Trend { longest } => longest,
            Rule::Auto => unreachable!(),
        };
        let bars = walk(&mut draw, 150);
        let full = labels_of(&bars, &spec);
        // At T the last bar has just opened: its open is known, its other prices are not.
        let n = 1 + draw(150) as usize;
        let mut cut = bars.clone();
        for times in [&mut cut.start, &mut cut.end] {
            times.truncate(n);
        }
        for prices in [&mut cut.open, &mut cut.high, &mut cut.low, &mut cut.close] {
            prices.truncate(n);
        }
        for prices in [&mut cut.high, &mut cut.low, &mut cut.close] {
            prices[n - 1] = f64::NAN;
        }
        let known_at = cut.start[n - 1];
        let before = labels_of(&cut, &spec);
        for t in 0..n {
            if t + 1 + reach >= n {
                assert_eq!(before.class[t], NONE);
                continue;
            }
            assert_eq!((before.class[t], before.t1[t]), (full.class[t], full.t1[t]), "{} row {t} of {n}", spec.rule);
            assert!(before.class[t] == NONE || before.t1[t] <= known_at);
            // Weights: the same as soon as every label that may share a bar exists.
            if before.class[t] != NONE && t + 2 * reach < n {
                assert_eq!(before.weight[t].to_bits(), full.weight[t].to_bits());
            }
        }
    }
}

/// L2: bars that start at or after t1 may hold anything, but for the one open at t1 itself.
#[test]
fn changes_after_t1_do_not_change_labels() {
    let mut draw = random(29);
    for round in 0..300 {
        let spec = spec(LEAK_RULES[round % LEAK_RULES.len()], [None, Some(0.0)][round % 2]);
        let bars = walk(&mut draw, 120);
        let full = labels_of(&bars, &spec);
        let t = draw(80) as usize;
        if full.class[t] == NONE {
            continue;
        }
        let first = bars.start.partition_point(|start| *start < full.t1[t]);
        let touch = matches!(spec.rule, Rule::Triple { horizon, .. } if first < t + 1 + horizon);
        let reads_open = !touch && bars.start[first] == full.t1[t];
        let mut poisoned = bars.clone();
        let other = walk(&mut draw, 120);
        for b in first..bars.len() {
            let reversed = bars.len() - 1 - (b - first);
            let poison = |own: &[f64], other: &[f64]| match round % 4 {
                0 => f64::NAN,
                1 => own[b] * 10.0,
                2 => own[reversed],
                _ => other[b],
            };
            if b > first || !reads_open {
                poisoned.open[b] = poison(&bars.open, &other.open);
            }
            poisoned.high[b] = poison(&bars.high, &other.high);
            poisoned.low[b] = poison(&bars.low, &other.low);
            poisoned.close[b] = poison(&bars.close, &other.close);
        }
        let labels = labels_of(&poisoned, &spec);
        assert_eq!((labels.class[t], labels.t1[t]), (full.class[t], full.t1[t]), "{} row {t}", spec.rule);
        // NaN is no price: it takes labels away that share bars with this one. Any price leaves its weight as it is.
        if round % 4 > 0 {
            assert_eq!(labels.weight[t].to_bits(), full.weight[t].to_bits(), "{} row {t}", spec.rule);
        }
        if reads_open {
            poisoned.open[first] = bars.open[t + 1] * if full.class[t] == 1 { 0.9 } else { 1.1 };
            let changed = labels_of(&poisoned, &spec).class[t];
            assert!(!matches!(spec.rule, Rule::Fixed { .. }) || changed != full.class[t], "the open at t1 matters");
        }
    }
}

/// A market where the balance is known to be found, on any number of threads to the same bits.
#[test]
fn auto_balances_a_market_on_any_number_of_threads() {
    for kind in [World::Stocks, World::Crypto, World::Fx] {
        let market = Synth { symbols: 40, bars: 600, kind, ..Synth::default() }.make_market(2).market;
        let runs = whole(&market);
        let labels = label(&market, &runs, &Labeling::default(), 1).unwrap();
        let Rule::Triple { horizon, width } = labels.rule else { panic!("{}", labels.rule) };
        let (.., chosen) = *labels.tried.last().unwrap();
        assert!(chosen.iter().all(|c| 5 * c >= chosen.iter().sum::<u64>()), "{kind:?}: {:?}", labels.tried);
        assert_eq!(labels.tried.last().map(|(h, k, _)| (*h, *k)), Some((horizon, width)), "the first that is right");
        assert_eq!(labels.balance.iter().sum::<u64>(), labels.class.iter().filter(|c| **c != NONE).count() as u64);
        for threads in [2, 16] {
            assert_eq!(label(&market, &runs, &Labeling::default(), threads).unwrap(), labels);
        }
        // What auto counted is what its rule gives on the first span.
        let times = Clock::new(&market).times;
        let until = times[(times.len() as f64 * 0.28) as usize - 1];
        assert_eq!(labels.until, Some(until));
        let mut classes = [0; 3];
        for (class, t1) in labels.class.iter().zip(&labels.t1).filter(|(class, _)| **class != NONE) {
            classes[(class + 1) as usize] += u64::from(*t1 <= until);
        }
        assert_eq!(classes, chosen);
    }
}

/// One symbol is shared out in pieces of rows, and none of them shows.
#[test]
fn labels_are_independent_of_piece_size() {
    let mut market = Synth { symbols: 2, bars: 2000, kind: World::Crypto, ..Synth::default() }.make_market(3).market;
    let mut runs = whole(&market);
    runs[0] = vec![0..700, 701..1500, 1500..1501, 1600..2000];
    market[1].open[900] = f64::NAN;
    for rule in ["auto", "fixed(12)", "triple(24)", "trend(48)"] {
        let spec = spec(rule, None);
        let labels = label_in(usize::MAX, &market, &runs, &spec, 1).unwrap();
        assert!(labels.balance.iter().sum::<u64>() > 3000, "{rule}: {:?}", labels.balance);
        for (piece, threads) in [(1, 2), (7, 1), (64, 3), (1999, 2), (2000, 2)] {
            assert_eq!(label_in(piece, &market, &runs, &spec, threads).unwrap(), labels, "{rule} by {piece}");
        }
    }
}

/// L2 for the horizon: nothing after the first training span has a say in it.
#[test]
fn auto_reads_nothing_after_the_first_span() {
    let mut market = Synth { symbols: 12, bars: 500, kind: World::Crypto, ..Synth::default() }.make_market(1).market;
    let runs = whole(&market);
    let tried = label(&market, &runs, &Labeling::default(), 1).unwrap().tried;
    assert!(tried.iter().all(|(.., classes)| classes.iter().sum::<u64>() > 0));
    let until = auto::first_span(&Clock::new(&market).times, Labeling::default().first).unwrap();
    for poison in [10.0, f64::NAN] {
        for bars in &mut market {
            let after = bars.start.partition_point(|start| *start < until);
            let opens = after + usize::from(bars.start.get(after) == Some(&until));
            bars.open[opens..].iter_mut().for_each(|price| *price *= poison);
            for prices in [&mut bars.high, &mut bars.low, &mut bars.close] {
                prices[after..].iter_mut().for_each(|price| *price *= poison);
            }
        }
        assert_eq!(label(&market, &runs, &Labeling::default(), 1).unwrap().tried, tried);
    }
}

#[test]
fn auto_chooses_the_shortest_balanced_horizon() {
    // What each horizon and width gives; nothing where they are not named. σ is so many costs.
    let check = |seen: &[(usize, f64, [u64; 3])], longest, sigma, horizon, width| {
        let count = |h, k| seen.iter().find(|s| (s.0, s.1) == (h, k)).map_or([0; 3], |s| s.2);
        assert_eq!(auto::choose(longest, sigma, count).0, Rule::Triple { horizon, width }, "{seen:?}");
    };
    let (dear, cheap) = (0.3, f64::INFINITY);
    check(&[(3, 1.0, [10, 80, 10]), (6, 1.0, [20, 60, 20]), (12, 1.0, [33, 34, 33])], 96, cheap, 6, 1.0);
    check(&[(3, 1.0, [10, 80, 10]), (3, 0.5, [20, 60, 20]), (6, 1.0, [33, 34, 33])], 96, cheap, 3, 0.5);
    check(&[(3, 0.75, [20, 60, 20]), (3, 1.5, [33, 34, 33])], 96, cheap, 3, 0.75);
    check(&[(3, 1.0, [1, 98, 1]), (6, 1.5, [19, 62, 19]), (12, 1.0, [1, 3, 0])], 96, cheap, 6, 1.5);
    check(&[(3, 1.0, [10, 80, 10]), (6, 1.0, [2, 6, 1])], 96, cheap, 6, 1.0); // 1 of 9 is more than 10 of 100
    // A barrier of five costs is preferred: 0.3 · √96 · 1.5 has it, and no shorter horizon does.
    let balanced = [20, 60, 20];
    check(&[(3, 1.0, balanced), (96, 1.0, balanced), (96, 1.5, balanced)], 96, dear, 3, 1.0);
    check(&[(3, 1.0, balanced), (96, 1.0, balanced), (96, 1.5, balanced)], 96, 0.4, 96, 1.5);
    check(&[(3, 1.0, balanced), (96, 1.0, balanced)], 96, 0.6, 96, 1.0);
    // No longer than there is room for, and the shortest where there is no room at all.
    check(&[(3, 1.0, [1, 8, 1]), (6, 1.0, balanced)], 5, cheap, 3, 1.0);
    check(&[(3, 1.0, balanced)], 0, cheap, 3, 1.0);
    check(&[(3, 1.0, [0, 9, 0]), (6, 1.0, [0, 0, 0])], 96, cheap, 3, 1.0);
    check(&[], 96, cheap, 3, 1.0);
    let hundred: Vec<i64> = (0..100).collect();
    for (times, first, until) in [
        (&[][..], TrainEnd::Share(0.34), None),
        (&[1, 2], TrainEnd::Share(0.34), None),
        (&[1, 2, 3], TrainEnd::Share(0.34), Some(1)),
        (&hundred, TrainEnd::Share(0.25), Some(24)),
        (&hundred, TrainEnd::Until(7), Some(7)),
        (&hundred, TrainEnd::Until(-1), None),
        (&[], TrainEnd::Until(7), None),
    ] {
        assert_eq!(auto::first_span(times, first), until, "{first:?}");
    }
}

#[test]
fn extremes() {
    for rule in ["auto", "fixed(3)", "triple(3)", "trend(5)", "fixed(1000000)", "triple(100000)", "trend(100000)"] {
        let none = label(&[], &[], &spec(rule, None), 4).unwrap();
        assert_eq!((none.class.len(), none.balance), (0, [0; 3]), "{rule}");
        assert_ne!(none.rule, Rule::Auto);
        for n in [0, 1, 2, 21, 22] {
            let market = [bars(&at(100.0, n)), bars(&[]), bars(&at(5.0, 1))];
            let labels = label(&market, &whole(&market), &spec(rule, None), 4).unwrap();
            assert_eq!(labels.class.len(), n + 1);
            assert_eq!(labels.balance[0] + labels.balance[2], 0);
        }
        // Prices that stand still are flat, with and without cost.
        let far = rule.contains("000");
        for cost in [None, Some(0.0)] {
            let labels = labels_of(&bars(&at(100.0, 300)), &spec(rule, cost));
            assert!(labels.class.iter().all(|class| *class == 0 || *class == NONE), "{rule}");
            assert_eq!((labels.balance[1] == 0, labels.both_touched), (far, 0), "{rule}");
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let labels = labels_of(&bars(&at(bad, 60)), &spec(rule, Some(0.0)));
            assert_eq!(labels.balance, [0; 3], "{rule} {bad}");
        }
    }
    // A bar that opens before the row it follows is known cannot be entered.
    let mut late = bars(&at(100.0, 10));
    late.end[4] += 3;
    let labels = labels_of(&late, &spec("fixed(2)", None));
    assert_eq!(labels.class, [0, 0, 0, 0, NONE, 0, 0, NONE, NONE, NONE]);
    // No label leaves its run, and none is outside of runs.
    let market = [bars(&at(100.0, 10))];
    let labels = label(&market, &[vec![1..4, 5..9]], &spec("fixed(1)", None), 1).unwrap();
    assert_eq!(labels.class, [NONE, 0, NONE, NONE, NONE, 0, 0, NONE, NONE, NONE]);
}

#[test]
fn wrong_settings_are_refused_with_a_remedy() {
    let good = Labeling::default();
    for spec in [
        Labeling { rule: Rule::Fixed { horizon: 0 }, ..good.clone() },
        Labeling { rule: Rule::Triple { horizon: 3, width: f64::NAN }, ..good.clone() },
        Labeling { cost_bp: Some(-1.0), ..good.clone() },
        Labeling { cost_bp: Some(f64::NAN), ..good.clone() },
        Labeling { span: 0.5, ..good.clone() },
        Labeling { first: TrainEnd::Share(0.0), ..good.clone() },
        Labeling { first: TrainEnd::Share(f64::NAN), ..good.clone() },
        Labeling { span: f64::INFINITY, ..good },
    ] {
        let error = label(&[], &[], &spec, 1).unwrap_err();
        assert!(error.kind == Kind::Usage && error.remedy.is_some(), "{error}");
    }
}
