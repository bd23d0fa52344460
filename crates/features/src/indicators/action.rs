//! Price action: shapes of bars, distance to extremes.

use super::{Indicator, Kind, period};
use crate::ops::{Map, Op};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "body",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Open to close as a share of the bar's range, -1 to 1; 0 where there is no range.",
        build: |b| {
            let (open, (high, low, close)) = (b.open(), b.hlc());
            b.map(Map::BodyShare, &[open, high, low, close])
        },
    },
    Indicator {
        name: "upper_shadow",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Part above the body as a share of the bar's range; 0 where there is no range.",
        build: |b| {
            let (open, (high, low, close)) = (b.open(), b.hlc());
            b.map(Map::UpperShare, &[open, high, low, close])
        },
    },
    Indicator {
        name: "lower_shadow",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Part below the body as a share of the bar's range; 0 where there is no range.",
        build: |b| {
            let (open, (high, low, close)) = (b.open(), b.hlc());
            b.map(Map::LowerShare, &[open, high, low, close])
        },
    },
    Indicator {
        name: "close_place",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Position of the close in its bar, 0 at the low to 1 at the high, 0.5 where there is no range.",
        build: |b| {
            let (high, low, close) = b.hlc();
            let place = b.map(Map::Place, &[close, low, high]);
            b.affine(place, 0.01, 0.0)
        },
    },
    Indicator {
        name: "range",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The bar's range over its close.",
        build: |b| {
            let (high, low, close) = b.hlc();
            let range = b.sub(high, low);
            b.div(range, close)
        },
    },
    Indicator {
        name: "gap",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The open over the previous close, less 1.",
        build: |b| {
            let (open, close) = (b.open(), b.close());
            let before = b.lag(close, 1);
            b.relative(open, before)
        },
    },
    Indicator {
        name: "inside",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "1 where the bar lies inside the previous bar, without touching its ends, else 0.",
        build: |b| {
            let (high, low, _) = b.hlc();
            let (high_before, low_before) = (b.lag(high, 1), b.lag(low, 1));
            b.map(Map::Inside, &[high, low, high_before, low_before])
        },
    },
    Indicator {
        name: "outside",
        kind: Kind::Action,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "1 where the bar extends beyond the previous bar on both sides, else 0.",
        build: |b| {
            let (high, low, _) = b.hlc();
            let (high_before, low_before) = (b.lag(high, 1), b.lag(low, 1));
            b.map(Map::Outside, &[high, low, high_before, low_before])
        },
    },
    Indicator {
        name: "drawdown",
        kind: Kind::Action,
        sources: &["close"],
        params: &[period("n", 100)],
        outputs: &[],
        about: "x over its highest of the last n, less 1: 0 or below.",
        build: |b| {
            let high = b.highest(b.source(0), b.period(0));
            b.relative(b.source(0), high)
        },
    },
    Indicator {
        name: "runup",
        kind: Kind::Action,
        sources: &["close"],
        params: &[period("n", 100)],
        outputs: &[],
        about: "x over its lowest of the last n, less 1: 0 or above.",
        build: |b| {
            let low = b.lowest(b.source(0), b.period(0));
            b.relative(b.source(0), low)
        },
    },
    Indicator {
        name: "distance_high",
        kind: Kind::Action,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "The close over the highest high of the last n bars, less 1: 0 or below.",
        build: |b| {
            let (close, (_, high)) = (b.close(), b.extremes(b.period(0)));
            b.relative(close, high)
        },
    },
    Indicator {
        name: "distance_low",
        kind: Kind::Action,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "The close over the lowest low of the last n bars, less 1: 0 or above.",
        build: |b| {
            let (close, (low, _)) = (b.close(), b.extremes(b.period(0)));
            b.relative(close, low)
        },
    },
    Indicator {
        name: "since_high",
        kind: Kind::Action,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Bars since the highest high of the last n, over n: 0 at the high, below 1; the latest of equals counts.",
        build: |b| {
            let high = b.high();
            let since = b.graph.add(Op::SinceMax(b.period(0)), &[high]);
            b.affine(since, 1.0 / b.real(0), 0.0)
        },
    },
    Indicator {
        name: "since_low",
        kind: Kind::Action,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Bars since the lowest low of the last n, over n: 0 at the low, below 1; the latest of equals counts.",
        build: |b| {
            let low = b.low();
            let since = b.graph.add(Op::SinceMin(b.period(0)), &[low]);
            b.affine(since, 1.0 / b.real(0), 0.0)
        },
    },
];
