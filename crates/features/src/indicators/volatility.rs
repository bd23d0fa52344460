//! Volatility: ranges, deviations, bands, realised volatilities.

use super::{Build, Indicator, Kind, period, period_from, real};
use crate::graph::Id;
use crate::ops::{Map, Op};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "true_range",
        kind: Kind::Volatility,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "True range: the bar's range, extended to the previous close; the first bar has none (as TA-Lib).",
        build: |b| b.true_range(),
    },
    Indicator {
        name: "atr",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 14)],
        outputs: &[],
        about: "Average true range, Wilder's average.",
        build: |b| b.atr(b.period(0)),
    },
    Indicator {
        name: "natr",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 14)],
        outputs: &[],
        about: "Average true range in percent of the close.",
        build: |b| {
            let (range, close) = (b.atr(b.period(0)), b.close());
            b.map(Map::Percent, &[range, close])
        },
    },
    Indicator {
        name: "std",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Standard deviation of the last n, divided by n (as TA-Lib).",
        build: |b| b.deviation(b.source(0), b.period(0)),
    },
    Indicator {
        name: "variance",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Variance of the last n, divided by n (as TA-Lib).",
        build: |b| b.graph.add(Op::Variance(b.period(0)), &[b.source(0)]),
    },
    Indicator {
        name: "bollinger",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period_from("n", 2, 20), real("k", 0.01, 100.0, 2.0)],
        outputs: &["middle", "upper", "lower", "percent_b", "width"],
        about: "Bollinger's bands, simple average and deviations divided by n; percent_b is 0 at the lower and 1 at the upper band, 0.5 where nothing moved; width is (upper - lower) / middle.",
        build: |b| bollinger(b),
    },
    Indicator {
        name: "keltner",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 20), period("range", 10), real("k", 0.01, 100.0, 2.0)],
        outputs: &["middle", "upper", "lower", "place"],
        about: "Keltner's channel in its later form: exponential average of the close, Wilder's average true range (Keltner: simple averages of typical price and range); place is 0 at the lower and 1 at the upper band.",
        build: |b| keltner(b),
    },
    Indicator {
        name: "donchian",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &["upper", "lower", "middle", "place"],
        about: "Donchian's channel: highest high and lowest low of the last n bars with this one (some leave it out); place is the position of the close, 0 to 1, 0.5 where there is no range.",
        build: |b| donchian(b),
    },
    Indicator {
        name: "volatility",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Realised volatility from closes: standard deviation of logarithmic returns, divided by n - 1; per bar, not annualised.",
        build: |b| {
            let returns = b.log_return(b.source(0), 1);
            let variance = b.sample_variance(returns, b.period(0));
            b.map(Map::RootAbove, &[variance])
        },
    },
    Indicator {
        name: "downside",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Downside deviation: root mean square of the negative logarithmic returns, the others counted as 0; per bar, not annualised.",
        build: |b| {
            let returns = b.log_return(b.source(0), 1);
            let below = b.map(Map::SquareBelow, &[returns]);
            b.root_mean(below, b.period(0))
        },
    },
    Indicator {
        name: "parkinson",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Parkinson's volatility from high and low; per bar, not annualised.",
        build: |b| parkinson(b),
    },
    Indicator {
        name: "garman_klass",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Garman and Klass' volatility from open, high, low and close, without the overnight term; per bar, not annualised.",
        build: |b| garman_klass(b),
    },
    Indicator {
        name: "rogers_satchell",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Rogers and Satchell's volatility, which allows a drift; per bar, not annualised.",
        build: |b| {
            let variance = rogers_satchell(b);
            b.root_mean(variance, b.period(0))
        },
    },
    Indicator {
        name: "yang_zhang",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Yang and Zhang's volatility: overnight and open-to-close variances, divided by n - 1, with Rogers and Satchell's, k = 0.34 / (1.34 + (n + 1) / (n - 1)); per bar, not annualised.",
        build: |b| yang_zhang(b),
    },
    Indicator {
        name: "ulcer",
        kind: Kind::Volatility,
        sources: &["close"],
        params: &[period("n", 14)],
        outputs: &[],
        about: "Ulcer index: root mean square, over n bars, of the percentage drawdown from the highest of n bars.",
        build: |b| {
            let high = b.highest(b.source(0), b.period(0));
            let fall = b.map(Map::PercentChange, &[b.source(0), high]);
            let square = b.map(Map::Square, &[fall]);
            b.root_mean(square, b.period(0))
        },
    },
    Indicator {
        name: "chop",
        kind: Kind::Volatility,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Choppiness: 100 ln(sum of true ranges / range of n bars) / ln n; 50 where there is no range.",
        build: |b| chop(b),
    },
];

fn bollinger(b: &mut Build<'_>) -> Id {
    let (x, n, k) = (b.source(0), b.period(0), b.real(1));
    let middle = b.mean(x, n);
    if b.output == 0 {
        return middle;
    }
    let deviation = b.deviation(x, n);
    match b.output {
        1 => b.band(middle, deviation, k),
        2 => b.band(middle, deviation, -k),
        3 => b.place_in_band(x, middle, deviation, k),
        _ => {
            let width = b.affine(deviation, 2.0 * k, 0.0);
            b.div(width, middle)
        }
    }
}

fn keltner(b: &mut Build<'_>) -> Id {
    let (close, k) = (b.close(), b.real(2));
    let middle = b.ema(close, b.period(0));
    if b.output == 0 {
        return middle;
    }
    let range = b.atr(b.period(1));
    match b.output {
        1 => b.band(middle, range, k),
        2 => b.band(middle, range, -k),
        _ => b.place_in_band(close, middle, range, k),
    }
}

fn donchian(b: &mut Build<'_>) -> Id {
    let n = b.period(0);
    match b.output {
        0 => b.extremes(n).1,
        1 => b.extremes(n).0,
        2 => b.middle(n),
        _ => {
            let place = b.place(n);
            b.affine(place, 0.01, 0.0)
        }
    }
}

fn parkinson(b: &mut Build<'_>) -> Id {
    let (high, low, _) = b.hlc();
    let range = b.log_ratio(high, low);
    let square = b.map(Map::Square, &[range]);
    let mean = b.mean(square, b.period(0));
    let variance = b.affine(mean, 0.25 / std::f64::consts::LN_2, 0.0);
    b.map(Map::RootAbove, &[variance])
}

fn garman_klass(b: &mut Build<'_>) -> Id {
    let (open, (high, low, close)) = (b.open(), b.hlc());
    let (range, body) = (b.log_ratio(high, low), b.log_ratio(close, open));
    let variance = b.map(Map::GarmanKlass, &[range, body]);
    b.root_mean(variance, b.period(0))
}

/// Rogers and Satchell's variance of one bar.
fn rogers_satchell(b: &mut Build<'_>) -> Id {
    let (open, (high, low, close)) = (b.open(), b.hlc());
    let parts = [high, low, close].map(|x| b.log_ratio(x, open));
    b.map(Map::RogersSatchell, &parts)
}

fn yang_zhang(b: &mut Build<'_>) -> Id {
    let n = b.period(0);
    let (open, close) = (b.open(), b.close());
    let before = b.lag(close, 1);
    let (overnight, body) = (b.log_ratio(open, before), b.log_ratio(close, open));
    let (overnight, body) = (b.sample_variance(overnight, n), b.sample_variance(body, n));
    let bars = rogers_satchell(b);
    let bars = b.mean(bars, n);
    let k = 0.34 / (1.34 + (n as f64 + 1.0) / (n as f64 - 1.0));
    let (body, bars) = (b.affine(body, k, 0.0), b.affine(bars, 1.0 - k, 0.0));
    let sum = b.add(overnight, body);
    let variance = b.add(sum, bars);
    b.map(Map::RootAbove, &[variance])
}

fn chop(b: &mut Build<'_>) -> Id {
    let n = b.period(0);
    let ranges = b.true_range();
    let sum = b.sum(ranges, n);
    let (low, high) = b.extremes(n);
    let range = b.sub(high, low);
    let ln_n = b.number((n as f64).ln());
    b.map(Map::Choppiness, &[sum, range, ln_n])
}
