//! Momentum: oscillators of price.

use super::{Build, Indicator, Kind, period, period_from};
use crate::graph::Id;
use crate::ops::{Ema, Map, Op};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "rsi",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Relative strength index with Wilder's averages, seeded with the mean of the first n changes (as TA-Lib); 50 where nothing moved (TA-Lib: 0).",
        build: |b| rsi(b, b.source(0), b.period(0)),
    },
    Indicator {
        name: "stochrsi",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period_from("n", 2, 14), period_from("window", 2, 5), period("smooth", 3)],
        outputs: &["k", "d"],
        about: "Position of the RSI between its extremes, 0 to 100, not smoothed, and its simple average (as TA-Lib; others smooth k first); 50 where the RSI does not move.",
        build: |b| stochrsi(b),
    },
    Indicator {
        name: "stoch",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period("n", 14), period("smooth", 3), period("signal", 3)],
        outputs: &["k", "d", "raw"],
        about: "Stochastic: position of the close between the extremes, 0 to 100 (raw), its simple average (k), the average of that (d); 50 where there is no range (TA-Lib: 0).",
        build: |b| stoch(b),
    },
    Indicator {
        name: "williams_r",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Williams %R, -100 at the lowest low to 0 at the highest high; -50 where there is no range (TA-Lib: 0).",
        build: |b| {
            let (low, high) = b.extremes(b.period(0));
            let close = b.close();
            b.map(Map::Below, &[close, low, high])
        },
    },
    Indicator {
        name: "macd",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period_from("fast", 2, 12), period_from("slow", 2, 26), period("signal", 9)],
        outputs: &["line", "signal", "hist"],
        about: "Moving average convergence divergence; both averages start at the same bar, the fast one seeded late (as TA-Lib; others seed it early or with the first price).",
        build: |b| macd(b),
    },
    Indicator {
        name: "ppo",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period_from("fast", 2, 12), period_from("slow", 2, 26), period("signal", 9)],
        outputs: &["line", "signal", "hist"],
        about: "Percentage price oscillator, 100 (fast / slow - 1) of exponential averages, each seeded with its own first values (as TA-Lib's PPO with EMA).",
        build: |b| ppo(b),
    },
    Indicator {
        name: "roc",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("n", 10)],
        outputs: &[],
        about: "Rate of change in percent; 0 where the earlier value is 0.",
        build: |b| {
            let before = b.lag(b.source(0), b.period(0));
            b.map(Map::PercentChange, &[b.source(0), before])
        },
    },
    Indicator {
        name: "mom",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("n", 10)],
        outputs: &[],
        about: "Momentum: the change over n bars, in the units of x.",
        build: |b| b.change(b.source(0), b.period(0)),
    },
    Indicator {
        name: "trix",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("n", 15)],
        outputs: &[],
        about: "One-bar change in percent of a triple exponential average (as TA-Lib).",
        build: |b| trix(b),
    },
    Indicator {
        name: "cci",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Commodity channel index of the typical price, with the mean absolute deviation and 0.015; 0 where nothing moved.",
        build: |b| cci(b),
    },
    Indicator {
        name: "cmo",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Chande's momentum oscillator with Wilder's averages (as TA-Lib); `cmo_sum` is Chande's own; 0 where nothing moved.",
        build: |b| {
            let (gain, loss) = averages(b, b.source(0), b.period(0));
            b.map(Map::Contrast, &[gain, loss])
        },
    },
    Indicator {
        name: "cmo_sum",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("n", 14)],
        outputs: &[],
        about: "Chande's momentum oscillator with plain sums, as he defined it; 0 where nothing moved.",
        build: |b| cmo_sum(b),
    },
    Indicator {
        name: "ultimate",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period("short", 7), period("middle", 14), period("long", 28)],
        outputs: &[],
        about: "Williams' ultimate oscillator, weights 4, 2 and 1; a window without range adds 0 (as TA-Lib).",
        build: |b| ultimate(b),
    },
    Indicator {
        name: "tsi",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("long", 25), period("short", 13)],
        outputs: &[],
        about: "True strength index, 100 times the twice averaged change over the twice averaged absolute change; averages seeded with the mean of their first values; 0 where nothing moved.",
        build: |b| tsi(b),
    },
    Indicator {
        name: "adx",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Average directional index, Wilder's sums seeded with n - 1 bars (as TA-Lib); 0 where nothing moved.",
        build: |b| {
            let index = dx(b);
            b.wilder(index, b.period(0))
        },
    },
    Indicator {
        name: "dx",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Directional index, 0 to 100; 0 where there is no directional movement (TA-Lib: the previous value).",
        build: |b| dx(b),
    },
    Indicator {
        name: "plus_di",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Wilder's directional indicator up, 0 to 100; 0 where nothing moved.",
        build: |b| directional(b, Map::MoveUp),
    },
    Indicator {
        name: "minus_di",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Wilder's directional indicator down, 0 to 100; 0 where nothing moved.",
        build: |b| directional(b, Map::MoveDown),
    },
    Indicator {
        name: "aroon",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &["up", "down", "osc"],
        about: "Aroon over n + 1 bars: 100 at the bar of the highest high (lowest low), 0 n bars after it; the latest of equals counts (as TA-Lib).",
        build: |b| aroon(b),
    },
    Indicator {
        name: "bop",
        kind: Kind::Momentum,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Balance of power, (close - open) / (high - low), not smoothed; 0 where there is no range.",
        build: |b| {
            let (open, (high, low, close)) = (b.open(), b.hlc());
            b.map(Map::BodyShare, &[open, high, low, close])
        },
    },
    Indicator {
        name: "awesome",
        kind: Kind::Momentum,
        sources: &[],
        params: &[period("fast", 5), period("slow", 34)],
        outputs: &[],
        about: "Awesome oscillator: fast less slow simple average of the middle of the bar, in units of price.",
        build: |b| awesome(b),
    },
    Indicator {
        name: "efficiency",
        kind: Kind::Momentum,
        sources: &["close"],
        params: &[period("n", 10)],
        outputs: &[],
        about: "Kaufman's efficiency ratio: change over n bars to the path it took, 0 to 1; 0 where nothing moved.",
        build: |b| {
            let (change, path) = b.change_and_path(b.source(0), b.period(0));
            b.map(Map::Efficiency, &[change, path])
        },
    },
];

/// What changes added and what they took, bar by bar.
fn gain_and_loss(b: &mut Build<'_>, x: Id) -> (Id, Id) {
    let change = b.change(x, 1);
    (b.map(Map::Gain, &[change]), b.map(Map::Loss, &[change]))
}

/// Wilder's averages of both.
fn averages(b: &mut Build<'_>, x: Id, n: usize) -> (Id, Id) {
    let (gain, loss) = gain_and_loss(b, x);
    (b.wilder(gain, n), b.wilder(loss, n))
}

fn rsi(b: &mut Build<'_>, x: Id, n: usize) -> Id {
    let (gain, loss) = averages(b, x, n);
    b.map(Map::Balance, &[gain, loss])
}

fn stochrsi(b: &mut Build<'_>) -> Id {
    let (n, window, smooth) = (b.period(0), b.period(1), b.period(2));
    let rsi = rsi(b, b.source(0), n);
    let (low, high) = (b.lowest(rsi, window), b.highest(rsi, window));
    let k = b.map(Map::PlaceInHundred, &[rsi, low, high]);
    if b.output == 0 { k } else { b.mean(k, smooth) }
}

fn stoch(b: &mut Build<'_>) -> Id {
    let (n, smooth, signal) = (b.period(0), b.period(1), b.period(2));
    let raw = b.place(n);
    match b.output {
        0 => b.mean(raw, smooth),
        1 => {
            let k = b.mean(raw, smooth);
            b.mean(k, signal)
        }
        _ => raw,
    }
}

/// The line, its average, or the line less its average.
fn with_signal(b: &mut Build<'_>, line: Id, n: usize) -> Id {
    match b.output {
        0 => line,
        1 => b.ema(line, n),
        _ => {
            let signal = b.ema(line, n);
            b.sub(line, signal)
        }
    }
}

fn macd(b: &mut Build<'_>) -> Id {
    let (x, n, m, signal) = (b.source(0), b.period(0), b.period(1), b.period(2));
    let (fast, slow) = (n.min(m), n.max(m));
    let late = Ema { skip: slow - fast, ..Ema::usual(fast) };
    let (quick, calm) = (b.graph.add(Op::Ema(late), &[x]), b.ema(x, slow));
    let line = b.sub(quick, calm);
    with_signal(b, line, signal)
}

fn ppo(b: &mut Build<'_>) -> Id {
    let (x, n, m, signal) = (b.source(0), b.period(0), b.period(1), b.period(2));
    let (fast, slow) = (b.ema(x, n.min(m)), b.ema(x, n.max(m)));
    let line = b.map(Map::PercentChange, &[fast, slow]);
    with_signal(b, line, signal)
}

fn trix(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let once = b.ema(x, n);
    let twice = b.ema(once, n);
    let thrice = b.ema(twice, n);
    let before = b.lag(thrice, 1);
    b.map(Map::PercentChange, &[thrice, before])
}

fn cci(b: &mut Build<'_>) -> Id {
    let (typical, n) = (b.typical(), b.period(0));
    let mean = b.mean(typical, n);
    let deviation = b.graph.add(Op::MeanDeviation(n), &[typical, mean]);
    b.map(Map::Channel, &[typical, mean, deviation])
}

fn cmo_sum(b: &mut Build<'_>) -> Id {
    let (gain, loss) = gain_and_loss(b, b.source(0));
    let (gains, losses) = (b.sum(gain, b.period(0)), b.sum(loss, b.period(0)));
    b.map(Map::Contrast, &[gains, losses])
}

fn ultimate(b: &mut Build<'_>) -> Id {
    let mut periods = [b.period(0), b.period(1), b.period(2)];
    // The shortest has the most weight, in whatever order they come.
    periods.sort_unstable();
    let (_, low, close) = b.hlc();
    let before = b.lag(close, 1);
    let pressure = b.map(Map::Pressure, &[close, low, before]);
    let range = b.true_range();
    let [short, middle, long] = periods.map(|n| {
        let (pressure, range) = (b.sum(pressure, n), b.sum(range, n));
        b.map(Map::Percent, &[pressure, range])
    });
    let (short, middle) = (b.affine(short, 4.0, 0.0), b.affine(middle, 2.0, 0.0));
    let sum = b.add(short, middle);
    let sum = b.add(sum, long);
    b.affine(sum, 1.0 / 7.0, 0.0)
}

fn tsi(b: &mut Build<'_>) -> Id {
    let (long, short) = (b.period(0), b.period(1));
    let change = b.change(b.source(0), 1);
    let size = b.map(Map::Abs, &[change]);
    let [change, size] = [change, size].map(|x| {
        let once = b.ema(x, long);
        b.ema(once, short)
    });
    b.map(Map::Percent, &[change, size])
}

/// Wilder's average as his directional system seeds it: with n - 1 bars, and the first result one bar later.
fn directional_average(b: &mut Build<'_>, x: Id, n: usize) -> Id {
    let spec = Ema { alpha: 1.0 / n as f64, skip: 0, seed: n - 1, over: n, hold: 1 };
    b.graph.add(Op::Ema(spec), &[x])
}

/// The average directional movement to one side.
fn movement(b: &mut Build<'_>, side: Map) -> Id {
    let (high, low, _) = b.hlc();
    let (high_before, low_before) = (b.lag(high, 1), b.lag(low, 1));
    let movement = b.map(side, &[high, low, high_before, low_before]);
    directional_average(b, movement, b.period(0))
}

fn directional(b: &mut Build<'_>, side: Map) -> Id {
    let movement = movement(b, side);
    let range = b.true_range();
    let range = directional_average(b, range, b.period(0));
    b.map(Map::Percent, &[movement, range])
}

fn dx(b: &mut Build<'_>) -> Id {
    // The true range would divide both sides and cancels.
    let (up, down) = (movement(b, Map::MoveUp), movement(b, Map::MoveDown));
    b.map(Map::Disparity, &[up, down])
}

fn aroon(b: &mut Build<'_>) -> Id {
    let n = b.period(0);
    let (high, low, _) = b.hlc();
    let since_high = b.graph.add(Op::SinceMax(n + 1), &[high]);
    let since_low = b.graph.add(Op::SinceMin(n + 1), &[low]);
    let left = match b.output {
        0 => b.affine(since_high, -1.0, n as f64),
        1 => b.affine(since_low, -1.0, n as f64),
        _ => b.sub(since_low, since_high),
    };
    b.affine(left, 100.0 / n as f64, 0.0)
}

fn awesome(b: &mut Build<'_>) -> Id {
    let (high, low, _) = b.hlc();
    let middle = b.map(Map::Middle, &[high, low]);
    let (fast, slow) = (b.mean(middle, b.period(0)), b.mean(middle, b.period(1)));
    b.sub(fast, slow)
}
