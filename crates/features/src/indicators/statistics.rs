//! Statistics: scores, moments, dependence, lines.

use super::{Build, Indicator, Kind, period_from};
use crate::graph::Id;
use crate::ops::{Map, Op};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "zscore",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 2, 20)],
        outputs: &[],
        about: "Deviations of x from the mean of the last n, divided by n; no value where they are all equal.",
        build: |b| zscore(b),
    },
    Indicator {
        name: "skew",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 3, 20)],
        outputs: &[],
        about: "Skewness of the last n, of the population (no correction for small n); no value where they are all equal.",
        build: |b| b.graph.add(Op::Skew(b.period(0)), &[b.source(0)]),
    },
    Indicator {
        name: "kurtosis",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 4, 20)],
        outputs: &[],
        about: "Excess kurtosis of the last n, of the population (no correction for small n); no value where they are all equal.",
        build: |b| b.graph.add(Op::Kurtosis(b.period(0)), &[b.source(0)]),
    },
    Indicator {
        name: "autocorr",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 3, 20)],
        outputs: &[],
        about: "Correlation, over n bars, of the logarithmic return with the one before, -1 to 1; 0 where one of them does not vary.",
        build: |b| autocorr(b),
    },
    Indicator {
        name: "variance_ratio",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 3, 60), period_from("bars", 2, 5)],
        outputs: &[],
        about: "Variance, over n bars, of the returns over several bars to that many times the variance of the return over one (Lo and MacKinlay, without correction): above 1 moves continue, below 1 they reverse; no value where nothing moved.",
        build: |b| variance_ratio(b),
    },
    Indicator {
        name: "linreg_r2",
        kind: Kind::Statistics,
        sources: &["close"],
        params: &[period_from("n", 3, 20)],
        outputs: &[],
        about: "Share of the variance of the last n that the least-squares line explains, 0 to 1; 0 where they are all equal.",
        build: |b| linreg_r2(b),
    },
];

fn zscore(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let (mean, deviation) = (b.mean(x, n), b.deviation(x, n));
    let away = b.sub(x, mean);
    b.div(away, deviation)
}

fn autocorr(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let now = b.log_return(x, 1);
    let before = b.lag(now, 1);
    // 4 cov(a, b) = var(a + b) - var(a - b), and variances keep their digits at any level.
    let (sum, difference) = (b.add(now, before), b.sub(now, before));
    let [sum, difference] = [sum, difference].map(|x| b.graph.add(Op::Variance(n), &[x]));
    let product = b.sub(sum, difference);
    let covariance = b.affine(product, 0.25, 0.0);
    let deviation = b.deviation(now, n);
    let before = b.lag(deviation, 1);
    let scale = b.mul(deviation, before);
    let value = b.map(Map::OrZero, &[covariance, scale]);
    within(b, value, -1.0, 1.0)
}

fn variance_ratio(b: &mut Build<'_>) -> Id {
    let (x, n, bars) = (b.source(0), b.period(0), b.period(1));
    let [one, many] = [1, bars].map(|bars| {
        let returns = b.log_return(x, bars);
        b.graph.add(Op::Variance(n), &[returns])
    });
    let one = b.affine(one, bars as f64, 0.0);
    b.div(many, one)
}

fn linreg_r2(b: &mut Build<'_>) -> Id {
    let (x, n) = (b.source(0), b.period(0));
    let slope = b.graph.add(Op::Slope(n), &[x]);
    let square = b.map(Map::Square, &[slope]);
    let explained = b.affine(square, ((n * n) as f64 - 1.0) / 12.0, 0.0);
    let variance = b.graph.add(Op::Variance(n), &[x]);
    let share = b.map(Map::OrZero, &[explained, variance]);
    within(b, share, 0.0, 1.0)
}

/// Takes back what rounding put outside.
fn within(b: &mut Build<'_>, x: Id, least: f64, most: f64) -> Id {
    let (least, most) = (b.number(least), b.number(most));
    let above = b.map(Map::Larger, &[x, least]);
    b.map(Map::Smaller, &[above, most])
}
