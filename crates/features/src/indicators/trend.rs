//! Trend: averages, lines, stops.

use super::{Build, Indicator, Kind, period, period_from, real};
use crate::graph::Id;
use crate::ops::{Map, Op};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "sma",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Simple moving average.",
        build: |b| b.mean(b.source(0), b.period(0)),
    },
    Indicator {
        name: "ema",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Exponential moving average, 2 / (n + 1), seeded with the mean of the first n (as TA-Lib).",
        build: |b| b.ema(b.source(0), b.period(0)),
    },
    Indicator {
        name: "wilder",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 14)],
        outputs: &[],
        about: "Wilder's moving average (RMA, SMMA), 1 / n, seeded with the mean of the first n.",
        build: |b| b.wilder(b.source(0), b.period(0)),
    },
    Indicator {
        name: "wma",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Weighted moving average, weights 1 to n.",
        build: |b| weighted(b, b.source(0), b.period(0)),
    },
    Indicator {
        name: "dema",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Double exponential average, 2 e - ema(e), each stage seeded with the mean of its first n (as TA-Lib).",
        build: |b| dema(b),
    },
    Indicator {
        name: "tema",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Triple exponential average, 3 e1 - 3 e2 + e3, each stage seeded with the mean of its first n (as TA-Lib).",
        build: |b| tema(b),
    },
    Indicator {
        name: "trima",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Triangular moving average: a simple average of a simple average, together n bars long (as TA-Lib).",
        build: |b| trima(b),
    },
    Indicator {
        name: "kama",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period_from("n", 2, 10)],
        outputs: &[],
        about: "Kaufman's adaptive average, 2 to 30 bars, seeded with the previous price; without any move it is the fastest (as TA-Lib).",
        build: |b| kama(b),
    },
    Indicator {
        name: "hma",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Hull's moving average: wma(2 wma(n / 2) - wma(n), √n), both rounded down.",
        build: |b| hma(b),
    },
    Indicator {
        name: "vwma",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Average weighted by volume; no value where there was none.",
        build: |b| {
            let volume = b.volume();
            b.weighted_by(b.source(0), volume, b.period(0))
        },
    },
    Indicator {
        name: "linreg",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Value at this bar of the least-squares line through the last n.",
        build: |b| linreg(b),
    },
    Indicator {
        name: "linreg_slope",
        kind: Kind::Trend,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Slope per bar of the least-squares line through the last n.",
        build: |b| b.graph.add(Op::Slope(b.period(0)), &[b.source(0)]),
    },
    Indicator {
        name: "sar",
        kind: Kind::Trend,
        sources: &[],
        params: &[real("step", 0.0, 1.0, 0.02), real("most", 0.0, 1.0, 0.2)],
        outputs: &[],
        about: "Wilder's parabolic stop; the first side is that of the first directional movement, rising when in doubt (as TA-Lib). It keeps a trace of the start until both turn together, so it counts as never settled.",
        build: |b| {
            let (high, low, _) = b.hlc();
            b.graph.add(Op::Sar(b.real(0), b.real(1)), &[high, low])
        },
    },
    Indicator {
        name: "ichimoku",
        kind: Kind::Trend,
        sources: &[],
        params: &[period("tenkan", 9), period("kijun", 26), period("span", 52)],
        outputs: &["tenkan", "kijun", "span_a", "span_b"],
        about: "Ichimoku: middles of the highest high and lowest low; the spans are those drawn at this bar, computed `kijun` bars ago (some draw one bar less). The lagging line would look ahead and is left out.",
        build: |b| ichimoku(b),
    },
];

fn weighted(b: &mut Build<'_>, x: Id, n: usize) -> Id {
    b.graph.add(Op::Weighted(n), &[x])
}

fn dema(b: &mut Build<'_>) -> Id {
    let once = b.ema(b.source(0), b.period(0));
    let twice = b.ema(once, b.period(0));
    // 2 e1 - e2, from the difference: two numbers of the size of a price would lose digits.
    let ahead = b.sub(once, twice);
    b.add(once, ahead)
}

fn tema(b: &mut Build<'_>) -> Id {
    let once = b.ema(b.source(0), b.period(0));
    let twice = b.ema(once, b.period(0));
    let thrice = b.ema(twice, b.period(0));
    let ahead = b.sub(once, twice);
    let ahead = b.affine(ahead, 3.0, 0.0);
    b.add(thrice, ahead)
}

fn trima(b: &mut Build<'_>) -> Id {
    let n = b.period(0);
    let once = b.mean(b.source(0), n.div_ceil(2));
    b.mean(once, n / 2 + 1)
}

fn kama(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let (change, path) = b.change_and_path(x, n);
    let factor = b.map(Map::KamaFactor, &[change, path]);
    b.graph.add(Op::Adaptive, &[x, factor])
}

fn hma(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let (half, full) = (weighted(b, x, n / 2), weighted(b, x, n));
    let ahead = b.sub(half, full);
    let raw = b.add(half, ahead);
    weighted(b, raw, n.isqrt())
}

fn linreg(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let mean = b.mean(x, n);
    let slope = b.graph.add(Op::Slope(n), &[x]);
    let rise = b.affine(slope, (n as f64 - 1.0) / 2.0, 0.0);
    b.add(mean, rise)
}

fn ichimoku(b: &mut Build<'_>) -> Id {
    let (fast, slow, span) = (b.period(0), b.period(1), b.period(2));
    match b.output {
        0 => b.middle(fast),
        1 => b.middle(slow),
        2 => {
            let (tenkan, kijun) = (b.middle(fast), b.middle(slow));
            let span = b.map(Map::Middle, &[tenkan, kijun]);
            b.lag(span, slow)
        }
        _ => {
            let span = b.middle(span);
            b.lag(span, slow)
        }
    }
}
