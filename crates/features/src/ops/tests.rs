//! Every operation against the plainest way to compute it, in any number of lanes and any cut into blocks.
//!
//! Lanes, neighbours and cuts may change no bit; against the reference an error of 1e-12 of the window's scale is
//! allowed, and what is missing must be missing at exactly the same bars.

use super::*;
use crate::engine::Engine;
use crate::graph::Graph;
use random::SplitMix;

mod drift;
mod maps;

/// One argument of one lane.
type Column = Vec<f64>;

/// Equal to the bit; two missing values are equal.
pub(super) fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// A graph of one operation on inputs.
pub(super) fn graph_of(op: &Op) -> Graph {
    let mut graph = Graph::default();
    let args: Vec<_> = (0..op.arity()).map(|i| graph.add(Op::Input(i), &[])).collect();
    graph.add(op.clone(), &args);
    graph
}

/// Runs an operation over up to `W` lanes, `lanes[lane][argument][bar]`; `cuts` are the lengths of blocks, the last one
/// again and again.
pub(super) fn run<const W: usize>(op: &Op, lanes: &[Vec<Column>], cuts: &[usize]) -> Vec<Column> {
    let graph = graph_of(op);
    let node = graph.nodes().len() - 1;
    let mut engine = Engine::<W>::new(&graph, *cuts.iter().max().unwrap());
    let length = |lane: &Vec<Column>| lane[0].len();
    let longest = lanes.iter().map(length).max().unwrap_or(0);
    let mut made: Vec<Column> = vec![Vec::new(); lanes.len()];
    let (mut at, mut cut) = (0, 0);
    while at < longest {
        let bars = cuts[cut.min(cuts.len() - 1)].min(longest - at);
        engine.run(bars, &mut |column, place: &mut [[f64; W]]| {
            for (t, place) in place.iter_mut().enumerate() {
                for (l, place) in place.iter_mut().enumerate() {
                    // As in a batch: a lane that is not there repeats the first, one that has ended repeats its last
                    // bar.
                    let x = &lanes.get(l).unwrap_or(&lanes[0])[column];
                    *place = x.get(at + t).or(x.last()).copied().unwrap_or(f64::NAN);
                }
            }
            all_finite(place)
        });
        let (block, clean) = engine.block(node, bars);
        assert!(!clean || block.iter().flatten().all(|y| y.is_finite()), "{op:?}: said to be finite, {block:?}");
        for (l, made) in made.iter_mut().enumerate() {
            let rows = length(&lanes[l]).saturating_sub(at).min(bars);
            made.extend(block[..rows].iter().map(|row| row[l]));
        }
        (at, cut) = (at + bars, cut + 1);
    }
    made
}

/// What a reference says of one bar: the value, and the size that its error is measured by.
pub(super) type Expected = (f64, f64);

/// Holds an operation against its reference, lane by lane, for every width and cut.
pub(super) fn check(op: &Op, lanes: &[Vec<Column>], reference: &dyn Fn(&[Column]) -> Vec<Expected>) {
    assert_eq!(lanes.len(), 8);
    let whole = lanes.iter().map(|l| l[0].len()).max().unwrap().max(1);
    let plain: Vec<Column> =
        lanes.iter().map(|lane| run::<1>(op, std::slice::from_ref(lane), &[whole]).remove(0)).collect();
    for (lane, made) in lanes.iter().zip(&plain) {
        let expected = reference(lane);
        assert_eq!(made.len(), expected.len(), "{op:?}");
        for (t, (y, (value, scale))) in made.iter().zip(&expected).enumerate() {
            let near = if value.is_nan() { y.is_nan() } else { (y - value).abs() <= 1e-12 * scale };
            assert!(
                near,
                "{op:?} at {t} of {}: {y:e} instead of {value:e}, scale {scale:e}\n{:?}",
                made.len(),
                tail(lane, t)
            );
        }
    }
    let equal = |made: Vec<Column>, plain: &[Column], spec: &str| {
        for (l, (made, plain)) in made.iter().zip(plain).enumerate() {
            assert_eq!(made.len(), plain.len());
            let differs = (0..made.len()).find(|t| !same(made[*t], plain[*t]));
            assert!(
                differs.is_none(),
                "{op:?}, {spec}, lane {l} at {differs:?} of {}: {:e} and {:e}",
                made.len(),
                made[differs.unwrap_or(0)],
                plain[differs.unwrap_or(0)]
            );
        }
    };
    for cuts in [&[1][..], &[2], &[7], &[32], &[256], &[whole], &[3, 1, 250, 5, 40]] {
        for (lane, plain) in lanes.iter().zip(&plain) {
            equal(
                run::<1>(op, std::slice::from_ref(lane), cuts),
                std::slice::from_ref(plain),
                &format!("alone, {cuts:?}"),
            );
        }
        equal(run::<4>(op, &lanes[..4], cuts), &plain[..4], &format!("4 lanes, {cuts:?}"));
        equal(run::<4>(op, &lanes[4..7], cuts), &plain[4..7], &format!("3 of 4 lanes, {cuts:?}"));
        equal(run::<8>(op, lanes, cuts), &plain, &format!("8 lanes, {cuts:?}"));
    }
}

/// The last values up to bar t, for a message.
fn tail(lane: &[Column], t: usize) -> Vec<&[f64]> {
    lane.iter().map(|x| &x[(t + 1).saturating_sub(12)..=t]).collect()
}

/// The kinds of data that hurt.
const KINDS: usize = 9;

/// A column of a kind: none missing, some missing, ties, constant, huge level with tiny moves, tiny, large, a spike,
/// mostly missing.
fn column(kind: usize, bars: usize, random: &mut SplitMix) -> Column {
    let mut price = 100.0;
    let mut walk = |random: &mut SplitMix| {
        price *= 1.0 + 0.02 * (random.unit() - 0.5);
        price
    };
    let mut x: Column = (0..bars)
        .map(|_| match kind {
            2 => random.below(4) as f64,
            3 => 0.1,
            4 => 1e6 + 0.02 * (random.unit() - 0.5),
            5 => walk(random) * 1e-10,
            6 => (random.unit() - 0.5) * 1e8,
            _ => walk(random),
        })
        .collect();
    let missing = [0.0, 0.03, 0.02, 0.01, 0.0, 0.01, 0.02, 0.0, 0.7][kind];
    for x in &mut x {
        if random.unit() < missing {
            *x = [f64::NAN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random.below(4)];
        }
    }
    if kind == 7 && bars > 0 {
        x[random.below(bars)] = 1e12;
    }
    x
}

/// Lengths of the eight lanes: empty, one, odd, large.
const LENGTHS: [usize; 8] = [0, 1, 2, 7, 33, 257, 400, 513];

/// Eight lanes of a kind, of different lengths, in some order.
fn lanes(kind: usize, args: usize, random: &mut SplitMix) -> Vec<Vec<Column>> {
    let turn = random.below(8);
    (0..8).map(|l| (0..args).map(|_| column(kind, LENGTHS[(l + turn) % 8], random)).collect()).collect()
}

/// Something of each whole window of n finite values; elsewhere nothing.
fn windows(x: &[f64], n: usize, value: impl Fn(&[f64]) -> Expected) -> Vec<Expected> {
    (0..x.len())
        .map(|t| match (t + 1).checked_sub(n).map(|from| &x[from..=t]) {
            Some(window) if window.iter().all(|x| x.is_finite()) => value(window),
            _ => (f64::NAN, 0.0),
        })
        .collect()
}

/// A sum that loses nothing to speak of (Neumaier).
pub(super) fn total(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for x in values {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    sum + lost
}

/// Central moments of a window, 2 to 4, and the largest distance from its first value; taken of distances, which are
/// nearly exact.
pub(super) fn moments(window: &[f64]) -> ([f64; 3], f64) {
    let n = window.len() as f64;
    let away = |x: &f64| x - window[0];
    let mean = total(window.iter().map(away)) / n;
    let moment = |k: i32| total(window.iter().map(|x| (away(x) - mean).powi(k))) / n;
    let equal = window.iter().all(|x| x == &window[0]);
    let spread = window.iter().map(|x| away(x).abs()).fold(0.0, f64::max);
    (if equal { [0.0; 3] } else { [moment(2), moment(3), moment(4)] }, spread)
}

/// The value of a window operation over one window, and its scale.
pub(super) fn of_window(op: &Op, window: &[f64]) -> Expected {
    let n = window.len() as f64;
    let size = window.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let since = |better: fn(f64, f64) -> bool| {
        let (mut best, mut at) = (window[0], 0);
        for (i, x) in window.iter().enumerate() {
            if !better(best, *x) {
                (best, at) = (*x, i);
            }
        }
        (window.len() - 1 - at) as f64
    };
    match op {
        Op::Sum(_) => (total(window.iter().copied()), n * size),
        Op::Mean(_) => (total(window.iter().copied()) / n, size),
        Op::Max(_) => (window.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
        Op::Min(_) => (window.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
        Op::SinceMax(_) => (since(|best, x| best > x), 0.0),
        Op::SinceMin(_) => (since(|best, x| best < x), 0.0),
        Op::Variance(_) => {
            let ([two, ..], spread) = moments(window);
            (two, spread * spread)
        }
        Op::Skew(_) | Op::Kurtosis(_) => {
            let ([two, three, four], spread) = moments(window);
            // The moments are good to their share of the spread; dividing by the deviation magnifies what they lack.
            let reach = 8.0 * spread * spread / two;
            match op {
                _ if two == 0.0 => (f64::NAN, 0.0),
                Op::Skew(_) => (three / two.powf(1.5), reach.powf(1.5)),
                _ => (four / (two * two) - 3.0, reach * reach),
            }
        }
        Op::Weighted(_) => {
            let sum = total(window.iter().enumerate().map(|(i, x)| (x - window[0]) * (i as f64 + 1.0)));
            (window[0] + sum / (n * (n + 1.0) / 2.0), size)
        }
        Op::Slope(_) => {
            let sum = total(window.iter().enumerate().map(|(i, x)| (x - window[0]) * (i as f64 - (n - 1.0) / 2.0)));
            (sum / (n * (n * n - 1.0) / 12.0), moments(window).1)
        }
        _ => panic!("{op:?} is not a window"),
    }
}

#[test]
fn windows_equal_brute_force() {
    let kinds: [fn(usize) -> Op; 10] = [
        Op::Sum,
        Op::Max,
        Op::Min,
        Op::SinceMax,
        Op::SinceMin,
        Op::Variance,
        Op::Skew,
        Op::Kurtosis,
        Op::Weighted,
        Op::Slope,
    ];
    let mut random = SplitMix::new(1);
    for op in kinds {
        for (i, n) in [1, 2, 3, 5, 14, 33, 64, 257, 513, 514].into_iter().enumerate() {
            if matches!(op(n), Op::Slope(1)) {
                continue; // a line needs two points; the catalogue does not let it through
            }
            for kind in 0..KINDS {
                if n > 64 && (kind + i) % 3 > 0 {
                    continue; // the reference is slow
                }
                let lanes = lanes(kind, 1, &mut random);
                check(&op(n), &lanes, &|args| windows(&args[0], n, |window| of_window(&op(n), window)));
            }
        }
    }
}

#[test]
fn deviations_from_a_given_mean_equal_brute_force() {
    let mut random = SplitMix::new(2);
    for n in [1, 2, 5, 20, 64, 514] {
        for kind in 0..KINDS {
            let mut lanes = lanes(kind, 2, &mut random);
            for lane in &mut lanes {
                let means = windows(&lane[0], n, |w| (total(w.iter().copied()) / n as f64, 0.0));
                lane[1] = means.into_iter().map(|m| m.0).collect();
            }
            check(&Op::MeanDeviation(n), &lanes, &|args| {
                let mut expected = windows(&args[0], n, |w| {
                    let mean = total(w.iter().copied()) / n as f64;
                    let size = w.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                    (total(w.iter().map(|x| (x - mean).abs())) / n as f64, size)
                });
                // Where the mean is given and the window is not, there is nothing either.
                expected.iter_mut().zip(&args[1]).for_each(|(e, mean)| {
                    if !mean.is_finite() {
                        e.0 = f64::NAN;
                    }
                });
                expected
            });
        }
    }
}

#[test]
fn lags_numbers_and_lines_equal_brute_force() {
    let mut random = SplitMix::new(3);
    for kind in 0..KINDS {
        let lanes = lanes(kind, 1, &mut random);
        for n in [1, 2, 7, 31, 256, 513, 600] {
            // What was there is passed on as it was.
            check(&Op::Lag(n), &finite_or_nan(&lanes), &|args| {
                (0..args[0].len()).map(|t| (t.checked_sub(n).map_or(f64::NAN, |t| args[0][t]), 0.0)).collect()
            });
        }
        for (a, b) in [(1.0, 0.0), (-1.0, 0.0), (0.1, 3.0), (0.0, -1.0)] {
            check(&Op::Affine(a, b), &finite_or_nan(&lanes), &|args| {
                args[0].iter().map(|x| (x * a + b, 0.0)).collect()
            });
        }
    }
    for c in [0.0, -1.5, 1e300] {
        let graph = graph_of(&Op::Const(c));
        let mut engine = Engine::<4>::new(&graph, 9);
        engine.run(9, &mut |_, _| panic!("a number has no input"));
        assert_eq!(engine.block(0, 9), (&[[c; 4]; 9][..], true));
    }
}

/// These two pass on what they are given; what is not finite never reaches them but as NaN.
fn finite_or_nan(lanes: &[Vec<Column>]) -> Vec<Vec<Column>> {
    let mut lanes = lanes.to_vec();
    lanes.iter_mut().flatten().flatten().filter(|x| !x.is_finite()).for_each(|x| *x = f64::NAN);
    lanes
}

/// Stretches of finite bars: for each bar, how many finite ones in a row end there (of all arguments).
fn in_a_row(args: &[Column]) -> Vec<usize> {
    let mut run = 0;
    (0..args[0].len())
        .map(|t| {
            run = if args.iter().all(|x| x[t].is_finite()) { run + 1 } else { 0 };
            run
        })
        .collect()
}

/// The largest of the last `run` values up to t.
fn largest(x: &[f64], t: usize, run: usize) -> f64 {
    x[t + 1 - run..=t].iter().fold(0.0, |most: f64, x| most.max(x.abs()))
}

#[test]
fn averages_equal_brute_force() {
    let mut random = SplitMix::new(4);
    let mut all = Vec::new();
    for n in [1, 2, 3, 14, 100, 512, 514] {
        all.extend([Ema::usual(n), Ema::wilder(n), Ema { skip: n / 2, ..Ema::usual(n) }]);
        if n > 1 {
            let alpha = 1.0 / n as f64;
            all.push(Ema { alpha, skip: 0, seed: n - 1, over: n, hold: 1 });
            all.push(Ema { alpha, skip: 1, seed: 0, over: 1, hold: n - 1 });
        }
    }
    for spec in all {
        for kind in 0..KINDS {
            check(&Op::Ema(spec), &lanes(kind, 1, &mut random), &|args| {
                let x = &args[0];
                let first = spec.delay();
                in_a_row(args)
                    .into_iter()
                    .enumerate()
                    .map(|(t, run)| {
                        if run <= first {
                            return (f64::NAN, 0.0);
                        }
                        // All of it again from the beginning of the stretch.
                        let values = &x[t + 1 - run..=t];
                        let (seed, rest) = values[spec.skip..].split_at(spec.seed);
                        let from = total(seed.iter().copied()) / spec.over as f64;
                        let value = rest.iter().fold(from, |y, x| y + spec.alpha * (x - y));
                        (value, 10.0 * largest(x, t, run))
                    })
                    .collect()
            });
        }
    }
}

#[test]
fn sums_without_end_equal_brute_force() {
    let mut random = SplitMix::new(5);
    for kind in 0..KINDS {
        check(&Op::Cumulate, &lanes(kind, 1, &mut random), &|args| {
            let x = &args[0];
            let sum = |(t, run): (usize, usize)| match run {
                0 => (f64::NAN, 0.0),
                run => (total(x[t + 1 - run..=t].iter().copied()), 0.01 * largest(x, t, run)),
            };
            in_a_row(args).into_iter().enumerate().map(sum).collect()
        });
    }
}

#[test]
fn adaptive_averages_equal_brute_force() {
    let mut random = SplitMix::new(6);
    for kind in 0..KINDS {
        let mut lanes = lanes(kind, 2, &mut random);
        for lane in &mut lanes {
            // A factor is known from some bar on, and for as long as the values go on.
            let rows = in_a_row(&lane[..1]);
            lane[1] = rows.iter().map(|run| if *run > 3 { random.unit().powi(2) } else { f64::NAN }).collect();
        }
        check(&Op::Adaptive, &lanes, &|args| {
            let (x, factor) = (&args[0], &args[1]);
            let mut y = f64::NAN;
            (0..x.len())
                .map(|t| {
                    let from = if y.is_nan() && t > 0 { x[t - 1] } else { y };
                    y = from + factor[t] * (x[t] - from);
                    let run = in_a_row(&[x[..=t].to_vec()])[t];
                    (y, 10.0 * largest(x, t, run.max(1)))
                })
                .collect()
        });
    }
}

#[test]
fn session_values_equal_brute_force() {
    let mut random = SplitMix::new(7);
    for since in [Since::Sum, Since::Max, Since::Min, Since::First] {
        for kind in 0..KINDS {
            let mut lanes = finite_or_nan(&lanes(kind, 2, &mut random));
            for lane in &mut lanes {
                let mut day = 19_000.0;
                lane[1].iter_mut().for_each(|d| {
                    day += if random.below(9) == 0 { 1.0 + random.below(3) as f64 } else { 0.0 };
                    *d = day;
                });
            }
            check(&Op::Session(since), &lanes, &|args| {
                let (x, day) = (&args[0], &args[1]);
                (0..x.len())
                    .map(|t| {
                        let from = (0..=t).rev().take_while(|i| day[*i] == day[t]).last().unwrap_or(t);
                        let so_far = &x[from..=t];
                        // The first day may have begun before the data did.
                        if from == 0 || so_far.iter().any(|x| x.is_nan()) {
                            return (f64::NAN, 0.0);
                        }
                        let values = so_far.iter().copied();
                        match since {
                            Since::Sum => (total(values), so_far.len() as f64 * largest(x, t, so_far.len())),
                            Since::Max => (values.fold(f64::NEG_INFINITY, f64::max), 0.0),
                            Since::Min => (values.fold(f64::INFINITY, f64::min), 0.0),
                            Since::First => (so_far[0], 0.0),
                        }
                    })
                    .collect()
            });
        }
    }
}

/// Wilder's stop over one stretch, told as TA-Lib tells it: one pass for each side.
fn sar(high: &[f64], low: &[f64], step: f64, most: f64) -> Vec<f64> {
    let mut made = vec![f64::NAN; high.len()];
    if high.len() < 2 {
        return made;
    }
    let step = step.min(most);
    let (up, down) = (high[1] - high[0], low[0] - low[1]);
    let mut long = !(down > 0.0 && down > up);
    let (mut extreme, mut stop) = if long { (high[1], low[0]) } else { (low[1], high[0]) };
    let mut speed = step;
    let (mut new_high, mut new_low) = (high[1], low[1]);
    for t in 1..high.len() {
        let (before_high, before_low) = (new_high, new_low);
        (new_high, new_low) = (high[t], low[t]);
        if long {
            if new_low <= stop {
                long = false;
                stop = extreme.max(before_high).max(new_high);
                made[t] = stop;
                (speed, extreme) = (step, new_low);
                stop = (stop + speed * (extreme - stop)).max(before_high).max(new_high);
            } else {
                made[t] = stop;
                if new_high > extreme {
                    extreme = new_high;
                    speed = (speed + step).min(most);
                }
                stop = (stop + speed * (extreme - stop)).min(before_low).min(new_low);
            }
        } else if new_high >= stop {
            long = true;
            stop = extreme.min(before_low).min(new_low);
            made[t] = stop;
            (speed, extreme) = (step, new_high);
            stop = (stop + speed * (extreme - stop)).min(before_low).min(new_low);
        } else {
            made[t] = stop;
            if new_low < extreme {
                extreme = new_low;
                speed = (speed + step).min(most);
            }
            stop = (stop + speed * (extreme - stop)).max(before_high).max(new_high);
        }
    }
    made
}

#[test]
fn parabolic_stops_equal_wilders() {
    let mut random = SplitMix::new(8);
    for (step, most) in [(0.02, 0.2), (0.0, 0.0), (1.0, 1.0), (0.5, 0.1)] {
        for kind in 0..KINDS {
            let mut lanes = lanes(kind, 2, &mut random);
            for lane in &mut lanes {
                for t in 0..lane[0].len() {
                    lane[1][t] = lane[0][t] - lane[0][t].abs() * 0.02 * random.unit();
                }
            }
            check(&Op::Sar(step, most), &lanes, &|args| {
                let rows = in_a_row(args);
                let whole = |(t, run): (usize, &usize)| {
                    let stretch = t + 1 - run..t + 1;
                    let stop = sar(&args[0][stretch.clone()], &args[1][stretch], step, most);
                    (stop.last().copied().unwrap_or(f64::NAN), 10.0 * largest(&args[0], t, (*run).max(1)))
                };
                rows.iter().enumerate().map(whole).collect()
            });
        }
    }
}

/// First value and warm-up are those that the operation declares.
#[test]
fn first_values_appear_where_declared() {
    let mut random = SplitMix::new(9);
    let mut ops =
        vec![Op::Cumulate, Op::Sar(0.02, 0.2), Op::Ema(Ema { alpha: 0.1, skip: 3, seed: 4, over: 5, hold: 2 })];
    for n in [2, 3, 50] {
        ops.extend([
            Op::Lag(n),
            Op::Sum(n),
            Op::Mean(n),
            Op::Max(n),
            Op::Min(n),
            Op::SinceMax(n),
            Op::SinceMin(n),
            Op::Variance(n),
        ]);
        ops.extend([Op::Skew(n), Op::Kurtosis(n), Op::Weighted(n), Op::Slope(n)]);
        ops.extend([Op::Ema(Ema::usual(n)), Op::Ema(Ema::wilder(n))]);
    }
    for op in ops {
        let args = (0..op.arity()).map(|_| column(0, 200, &mut random)).collect();
        let made = run::<1>(&op, &[args], &[64]).remove(0);
        assert_eq!(made.iter().position(|y| y.is_finite()), Some(op.delay()), "{op:?}");
        assert!(made[op.delay()..].iter().all(|y| y.is_finite()), "{op:?}");
    }
}

/// Whatever can be raised to the fourth power goes in, and is forgotten when it leaves.
#[test]
fn huge_value_is_forgotten() {
    let mut x: Column = (0..300).map(|i| 100.0 + (f64::from(i) * 0.7).sin()).collect();
    (x[150], x[151]) = (1e70, -1e70);
    for op in
        [Op::Variance(5), Op::Skew(5), Op::Kurtosis(5), Op::Sum(5), Op::Weighted(5), Op::Slope(5), Op::Affine(3.0, 0.0)]
    {
        let mut graph = graph_of(&op);
        let input = graph.add(Op::Input(0), &[]);
        let id = graph.add(op.clone(), &[input]);
        let after = graph.add(Op::Ema(Ema::usual(3)), &[id]);
        for block in [1, 32] {
            let mut engine = Engine::<1>::new(&graph, block);
            let mut made: Column = Vec::new();
            for at in (0..300).step_by(block) {
                let bars = block.min(300 - at);
                engine.run(bars, &mut |_, place| {
                    place.as_flattened_mut().copy_from_slice(&x[at..at + bars]);
                    true
                });
                made.extend(engine.block(after.index(), bars).0.as_flattened());
            }
            assert!(made[200..].iter().all(|y| y.is_finite()), "{op:?}, blocks of {block}: {:?}", &made[200..202]);
        }
    }
}
