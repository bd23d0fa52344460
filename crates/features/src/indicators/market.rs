//! Market: what all symbols did, seen from each of them.

use super::{Indicator, Kind, period, period_from};
use crate::columns::Column;
use crate::context::Context;

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "market_return",
        kind: Kind::Market,
        sources: &[],
        params: &[period("n", 1), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Mean of all symbols' logarithmic returns over n bars, equally weighted; needs at least m symbols.",
        build: |b| b.column(Column::Context(Context::Return { bars: b.period(0), least: b.period(1) })),
    },
    Indicator {
        name: "market_breadth",
        kind: Kind::Market,
        sources: &[],
        params: &[period_from("n", 2, 20), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Share of all symbols that close above their own mean of n bars, 0 to 1; needs at least m symbols.",
        build: |b| b.column(Column::Context(Context::Breadth { bars: b.period(0), least: b.period(1) })),
    },
    Indicator {
        name: "market_rising",
        kind: Kind::Market,
        sources: &[],
        params: &[period("n", 1), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Share of all symbols that close higher than n bars ago, 0 to 1; needs at least m symbols.",
        build: |b| b.column(Column::Context(Context::Rising { bars: b.period(0), least: b.period(1) })),
    },
    Indicator {
        name: "market_volatility",
        kind: Kind::Market,
        sources: &[],
        params: &[period_from("n", 2, 20), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Mean of all symbols' realised volatility over n bars, per bar, not annualised; needs at least m symbols.",
        build: |b| b.column(Column::Context(Context::Volatility { bars: b.period(0), least: b.period(1) })),
    },
    Indicator {
        name: "market_regime",
        kind: Kind::Market,
        sources: &[],
        params: &[period_from("n", 2, 20), period_from("long", 2, 250), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Volatility of the market over n bars divided by its mean over the window before, less 1; needs at least m symbols.",
        build: |b| {
            let (bars, long, least) = (b.period(0), b.period(1), b.period(2));
            b.column(Column::Context(Context::Regime { bars, long, least }))
        },
    },
    Indicator {
        name: "cluster_return",
        kind: Kind::Market,
        sources: &[],
        params: &[period("n", 1), period_from("window", 10, 250), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Mean logarithmic return over n bars of the symbols most correlated with this one over the window: the smallest branch of Ward's tree over past correlations with at least m symbols.",
        build: |b| {
            let (bars, window, size) = (b.period(0), b.period(1), b.period(2));
            b.column(Column::Context(Context::Cluster { bars, window, size }))
        },
    },
    Indicator {
        name: "relative_strength",
        kind: Kind::Market,
        sources: &[],
        params: &[period("n", 20), period_from("symbols", 2, 5)],
        outputs: &[],
        about: "Own logarithmic return over n bars less the mean of all symbols; needs at least m symbols.",
        build: |b| {
            let (bars, least) = (b.period(0), b.period(1));
            let close = b.close();
            let own = b.log_return(close, bars);
            let market = b.column(Column::Context(Context::Return { bars, least }));
            b.sub(own, market)
        },
    },
];
