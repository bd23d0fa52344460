//! The market around a symbol, against the plainest way to compute it.

use super::cluster::{Grouping, grouping};
use super::*;
use crate::labels::tests::random;
use crate::{Dataset, Options, Stream};
use bars::Timeframe;
use bars::synth::{MarketKind, Synth};

fn plan(text: &str) -> Plan {
    Plan::new(&parse(text, None).unwrap()).unwrap()
}

fn data(market: &[Bars], text: &str, threads: usize) -> Dataset {
    let options = Options { threads, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
    Dataset::new(market.to_vec(), &plan(text), &options).unwrap()
}

/// Numbers from 0 to 1.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut draw = random(seed);
    move || draw(1 << 20) as f64 / f64::from(1 << 20)
}

/// Days of shares, with late listings and missing bars.
fn shares(symbols: usize, bars: usize) -> Vec<Bars> {
    let mut market = Synth { symbols, bars, timeframe: Timeframe::D1, kind: MarketKind::Stocks, ..Synth::default() }
        .make_market(1)
        .market;
    for (s, bars) in market.iter_mut().enumerate() {
        let n = bars.len();
        let keep: Vec<usize> = (0..n).filter(|t| (t + s) % 41 != 0 && (s != 2 || *t > n / 3)).collect();
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume] {
            *column = keep.iter().map(|t| column[*t]).collect();
        }
        bars.start = keep.iter().map(|t| bars.start[*t]).collect();
        bars.end = keep.iter().map(|t| bars.end[*t]).collect();
        bars.segments = vec![0];
    }
    market
}

/// The last row of a symbol known at a time, if that is less than a bar ago.
fn fresh(bars: &Bars, time: i64) -> Option<usize> {
    let row = bars.end.iter().rposition(|end| *end <= time)?;
    (time - bars.end[row] < bars.timeframe.ns()).then_some(row)
}

/// A measure of one symbol over bars that all exist.
fn mean_of(market: &[Bars], time: i64, least: usize, own: impl Fn(&Bars, usize) -> Option<f64>) -> f64 {
    let values: Vec<f64> = market.iter().filter_map(|bars| own(bars, fresh(bars, time)?)).collect();
    if values.len() < least { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn log_return(bars: &Bars, row: usize, n: usize) -> Option<f64> {
    Some((bars.close[row] / bars.close[row.checked_sub(n)?]).ln())
}

fn volatility(bars: &Bars, row: usize, n: usize) -> Option<f64> {
    let returns: Vec<f64> = (0..n).map(|i| log_return(bars, row.checked_sub(i)?, 1)).collect::<Option<_>>()?;
    let mean = returns.iter().sum::<f64>() / n as f64;
    Some((returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0)).sqrt())
}

#[test]
fn market_features_equal_brute_force() {
    let market = shares(9, 260);
    let data = data(
        &market,
        "market_return(1), market_return(5, 7), market_breadth(10), market_rising(3), market_volatility(10)\nmarket_regime(10, 40), relative_strength(5, 7)",
        2,
    );
    let above = |bars: &Bars, row: usize| {
        let from = (row + 1).checked_sub(10)?;
        Some(f64::from(u8::from(bars.close[row] > bars.close[from..=row].iter().sum::<f64>() / 10.0)))
    };
    let rising = |bars: &Bars, row: usize| Some(f64::from(u8::from(log_return(bars, row, 3)? > 0.0)));
    let wild = |time: i64| mean_of(&market, time, 5, |b, row| volatility(b, row, 10));
    let times = &data.clock.times;
    let all: Vec<f64> = times.iter().map(|t| wild(*t)).collect();
    let mut valid = [0; 7];
    for row in 0..data.base.rows() {
        let (s, at) = data.base.place(row);
        let time = market[s].end[at];
        let five = mean_of(&market, time, 7, |b, row| log_return(b, row, 5));
        let tick = data.clock.tick[row] as usize;
        let past: Vec<f64> = all[..tick].iter().rev().copied().filter(|x| !x.is_nan()).take(40).collect();
        let regime = if past.len() < 40 { f64::NAN } else { all[tick] / (past.iter().sum::<f64>() / 40.0) - 1.0 };
        let want = [
            mean_of(&market, time, 5, |b, row| log_return(b, row, 1)),
            five,
            mean_of(&market, time, 5, above),
            mean_of(&market, time, 5, rising),
            all[tick],
            regime,
            log_return(&market[s], at, 5).unwrap_or(f64::NAN) - five,
        ];
        for (c, want) in want.into_iter().enumerate() {
            let got = f64::from(data.base.row(row)[c]);
            let near = (got - want).abs() <= 1e-6 * want.abs().max(1e-3);
            assert!(near || (got.is_nan() && want.is_nan()), "row {row}, column {c}: {got}, not {want}");
            valid[c] += usize::from(!got.is_nan());
        }
    }
    assert!(valid.iter().all(|n| *n > data.base.rows() / 2), "{valid:?}");
    // A market is seen by everyone alike: settled when it is there.
    assert!(data.base.settled.iter().filter(|s| **s).count() > data.base.rows() / 2);
}

#[test]
fn threads_and_symbol_order_change_no_bit() {
    let market = shares(12, 700);
    let text =
        "log_return(1), market_return(1), market_regime(20, 100), cluster_return(1, 60, 3), relative_strength(20)";
    let one = data(&market, text, 1);
    for threads in [2, 5] {
        let many = data(&market, text, threads);
        assert!(one.base.values.iter().zip(many.base.values.iter()).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    let turned: Vec<Bars> = market.iter().rev().cloned().collect();
    let other = data(&turned, text, 2);
    for (s, bars) in market.iter().enumerate() {
        for t in 0..bars.len() {
            let a = one.base.row(one.base.offsets[s] + t);
            let b = other.base.row(other.base.offsets[market.len() - 1 - s] + t);
            assert!(a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()), "{} bar {t}: {a:?} {b:?}", bars.symbol);
        }
    }
    let clustered = one.base.columns[3].invalid as usize;
    assert!(clustered < one.base.rows() / 2, "{clustered} of {} rows have no cluster", one.base.rows());
}

#[test]
fn only_universe_members_count() {
    let mut market = shares(7, 200);
    let border = market[0].start[100];
    // Two that leave and one that comes: five members before, five after... and nobody else counts.
    market[5].member = vec![(i64::MIN, border)];
    market[6].member = vec![(border, i64::MAX)];
    let data = data(&market, "close, market_return(1, 5)", 1);
    for row in 0..data.base.rows() {
        let (s, at) = data.base.place(row);
        let member = |b: &Bars, row: usize| {
            b.member.is_empty() || b.member.iter().any(|m| m.0 <= b.start[row] && b.start[row] < m.1)
        };
        let want = mean_of(&market, market[s].end[at], 5, |b, row| log_return(b, row, 1).filter(|_| member(b, row)));
        let got = f64::from(data.base.row(row)[1]);
        assert!((got - want).abs() < 1e-8 || (got.is_nan() && want.is_nan()), "row {row}: {got}, not {want}");
    }
}

#[test]
fn single_symbols_have_no_market_features() {
    let one = shares(1, 100);
    let text = "log_return(1), market_return(1), strength = relative_strength(5), cluster_return(1, 20, 2), market_rising(1, 2)";
    let alone = data(&one, text, 1);
    assert_eq!(alone.base.columns.len(), 1);
    assert_eq!(
        alone.without_market,
        ["market_return(1)", "strength", "cluster_return(1, 20, 2)", "market_rising(1, 2)"]
    );
    assert_eq!(alone.universe, None);
    // Two are enough for what says so.
    let two = data(&shares(2, 100), text, 1);
    assert_eq!((two.base.columns.len(), two.without_market.len()), (3, 2));
    assert!(two.base.columns[2].invalid < two.base.rows() as u64);
    assert_eq!(two.universe.map(|u| u.symbols.len()), Some(2));

    let options = Options { threads: 1, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
    let error = Dataset::new(one.clone(), &plan("market_return(1)"), &options).unwrap_err();
    assert!(error.message.contains("the data have one symbol"), "{error}");
    let stream = Stream::new(&plan(text), &one[0].instrument, Timeframe::D1, &[], true, None);
    let error = stream.err().unwrap();
    assert!(error.message.contains("`market_return(1)` looks at the market") && error.remedy.is_some(), "{error}");
    assert!(crate::precise(&one[0], &plan(text), None).is_err());
    for text in ["market_return(1)@1w", "[slow @1w]\nrelative_strength(3)"] {
        let error = Plan::new(&parse(text, None).unwrap()).unwrap_err();
        assert!(error.message.contains("looks at all symbols") && error.line.is_some(), "{error}");
    }
    assert!(plan(text).sees_market() && !plan("close").sees_market());
    assert!(!plan(text).with_symbols(1).0.sees_market());
}

#[test]
fn universe_equality_depends_on_names() {
    let market = shares(8, 10);
    let universe = Universe::from_market(&market);
    let turned: Vec<Bars> = market.iter().rev().cloned().collect();
    assert_eq!(Universe::from_market(&turned), universe);
    assert_eq!(Universe::from_market(&turned).hash(), universe.hash());
    universe.check(&turned).unwrap();
    assert_ne!(Universe::from_market(&market[1..]).hash(), universe.hash());
    let names = |list: [&str; 2]| Universe { symbols: list.map(str::to_string).to_vec() }.hash();
    assert_ne!(names(["a", "b\n1:c"]), names(["a\n1:b", "c"]));
    let error = universe.check(&market[1..]).unwrap_err();
    assert!(error.message.contains(&format!("missing {}; too many none", market[0].symbol)), "{error}");
    let mut other = market.clone();
    (0..7).for_each(|s| other[s].symbol = format!("other {s}"));
    let error = universe.check(&other).unwrap_err();
    assert!(error.message.contains("and 2 more") && error.message.contains("too many other 0"), "{error}");
    assert!(error.remedy.is_some());
}

/// Three groups that share a factor, and one series that is too short.
#[test]
fn clusters_find_planted_groups() {
    let mut draw = uniform(5);
    let window = 120;
    let factors: Vec<Vec<f64>> = (0..3).map(|_| (0..window).map(|_| draw() - 0.5).collect()).collect();
    let mut moves: Vec<Vec<f64>> =
        (0..15).map(|i| factors[i % 3].iter().map(|f| f + 0.4 * (draw() - 0.5)).collect()).collect();
    moves[4].iter_mut().step_by(3).for_each(|x| *x = f64::NAN);
    moves.push(vec![f64::NAN; window]);
    moves[15][..window / 2 - 1].fill(0.1);
    let found = grouping(moves.clone(), 5);
    for i in 0..15 {
        let set = &found.sets[found.of[i].unwrap()];
        assert_eq!(*set, (0..15).filter(|k| k % 3 == i % 3).collect::<Vec<_>>(), "{i}");
    }
    assert_eq!(found.of[15], None);
    // Larger than a group: branches that hold more than one. As large as all: the whole market. Larger: nothing.
    assert!(grouping(moves.clone(), 6).sets.iter().all(|set| set.len() >= 10));
    assert_eq!(grouping(moves.clone(), 15).sets, [(0..15).collect::<Vec<_>>()]);
    assert_eq!(grouping(moves, 16), Grouping { of: vec![None; 16], sets: vec![] });
    assert_eq!(grouping(vec![vec![0.0; 10]; 5], 2).sets, Vec::<Vec<usize>>::new());
}

/// The chain finds the tree that looking for the nearest pair again and again finds.
#[test]
fn cluster_tree_equals_wards_method() {
    let mut draw = uniform(9);
    for n in [2, 3, 7, 24] {
        let moves: Vec<Vec<f64>> = (0..n).map(|_| (0..30).map(|_| draw() - 0.5).collect()).collect();
        // Plainly: sum of squared distances to the centre grows least.
        let mean: Vec<f64> = (0..30).map(|t| moves.iter().map(|m| m[t]).sum::<f64>() / n as f64).collect();
        let points: Vec<Vec<f64>> = moves
            .iter()
            .map(|m| {
                let away: Vec<f64> = m.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
                let own = away.iter().sum::<f64>() / 30.0;
                let norm = away.iter().map(|x| (x - own).powi(2)).sum::<f64>().sqrt();
                away.iter().map(|x| (x - own) / norm).collect()
            })
            .collect();
        let spread = |set: &[usize]| {
            let centre: Vec<f64> =
                (0..30).map(|t| set.iter().map(|i| points[*i][t]).sum::<f64>() / set.len() as f64).collect();
            set.iter().map(|i| points[*i].iter().zip(&centre).map(|(x, c)| (x - c).powi(2)).sum::<f64>()).sum::<f64>()
        };
        let mut sets: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
        let mut branches = sets.clone();
        while sets.len() > 1 {
            let pairs = (0..sets.len()).flat_map(|a| (a + 1..sets.len()).map(move |b| (a, b)));
            let cost = |(a, b): &(usize, usize)| {
                spread(&[&sets[*a][..], &sets[*b]].concat()) - spread(&sets[*a]) - spread(&sets[*b])
            };
            let (a, b) = pairs.min_by(|x, y| cost(x).total_cmp(&cost(y))).unwrap();
            let mut both = [&sets[a][..], &sets[b]].concat();
            both.sort_unstable();
            branches.push(both.clone());
            sets.remove(b);
            sets[a] = both;
        }
        for size in 2..=n {
            let found = grouping(moves.clone(), size);
            for i in 0..n {
                let smallest =
                    branches.iter().filter(|b| b.contains(&i) && b.len() >= size).min_by_key(|b| b.len()).unwrap();
                assert_eq!(found.sets[found.of[i].unwrap()], *smallest, "{n} symbols, {i}, size {size}");
            }
        }
    }
}
