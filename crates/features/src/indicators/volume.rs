//! Volume: flows, and prices weighted by them.

use super::{Build, Indicator, Kind, period, period_from};
use crate::graph::Id;
use crate::ops::{Ema, Map, Op, Since};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "obv",
        kind: Kind::Volume,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "On-balance volume, counted from the volume of the run's first bar (as TA-Lib), valid from the second; it never settles, `obv_flow` does.",
        build: |b| obv(b),
    },
    Indicator {
        name: "obv_flow",
        kind: Kind::Volume,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Volume of rising less volume of falling closes, as a share of all volume of n bars, -1 to 1; 0 where there was none.",
        build: |b| {
            let signed = signed_volume(b);
            share_of_volume(b, signed)
        },
    },
    Indicator {
        name: "ad",
        kind: Kind::Volume,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Accumulation and distribution line, counted from the run's first bar; it never settles, `cmf` does.",
        build: |b| {
            let flow = money_flow(b);
            b.graph.add(Op::Cumulate, &[flow])
        },
    },
    Indicator {
        name: "adosc",
        kind: Kind::Volume,
        sources: &[],
        params: &[period_from("fast", 2, 3), period_from("slow", 2, 10)],
        outputs: &[],
        about: "Chaikin's oscillator: fast less slow exponential average of the accumulation and distribution line, both seeded with its first value (as TA-Lib).",
        build: |b| adosc(b),
    },
    Indicator {
        name: "cmf",
        kind: Kind::Volume,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Chaikin's money flow: accumulation and distribution of n bars as a share of their volume, -1 to 1; 0 where there was none.",
        build: |b| {
            let flow = money_flow(b);
            share_of_volume(b, flow)
        },
    },
    Indicator {
        name: "mfi",
        kind: Kind::Volume,
        sources: &[],
        params: &[period_from("n", 2, 14)],
        outputs: &[],
        about: "Money flow index of the typical price, 0 to 100; 50 where nothing flowed (TA-Lib: 0). Typical prices that differ by rounding alone are equal.",
        build: |b| mfi(b),
    },
    Indicator {
        name: "vwap",
        kind: Kind::Volume,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Typical price of the last n bars weighted by volume (rolling; `session_vwap` starts with the trading day).",
        build: |b| {
            let (typical, volume) = (b.typical(), b.volume());
            b.weighted_by(typical, volume, b.period(0))
        },
    },
    Indicator {
        name: "session_vwap",
        kind: Kind::Volume,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Typical price since the trading day began weighted by volume; the run's first day, which may have begun before the data, has none.",
        build: |b| session_vwap(b),
    },
    Indicator {
        name: "force",
        kind: Kind::Volume,
        sources: &[],
        params: &[period("n", 13)],
        outputs: &[],
        about: "Elder's force index: exponential average of the close's change times volume.",
        build: |b| {
            let close = b.close();
            let (change, volume) = (b.change(close, 1), b.volume());
            let force = b.mul(change, volume);
            b.ema(force, b.period(0))
        },
    },
    Indicator {
        name: "volume_ratio",
        kind: Kind::Volume,
        sources: &[],
        params: &[period("n", 20)],
        outputs: &[],
        about: "Volume over its simple average of n bars with this one.",
        build: |b| {
            let volume = b.volume();
            let mean = b.mean(volume, b.period(0));
            b.div(volume, mean)
        },
    },
];

/// Volume with the sign of the close's change.
fn signed_volume(b: &mut Build<'_>) -> Id {
    let (close, volume) = (b.close(), b.volume());
    let change = b.change(close, 1);
    b.map(Map::Signed, &[change, volume])
}

/// Volume weighted with where the close stands in its bar, -1 to 1.
fn money_flow(b: &mut Build<'_>) -> Id {
    let ((high, low, close), volume) = (b.hlc(), b.volume());
    let place = b.map(Map::CloseInBar, &[high, low, close]);
    b.mul(place, volume)
}

/// The sum of a flow over the sum of the volume.
fn share_of_volume(b: &mut Build<'_>, flow: Id) -> Id {
    let volume = b.volume();
    let (flow, volume) = (b.sum(flow, b.period(0)), b.sum(volume, b.period(0)));
    b.map(Map::OrZero, &[flow, volume])
}

fn obv(b: &mut Build<'_>) -> Id {
    // The first bar's volume counts although its close has no change: all volume, less what a bar's sign takes from it,
    // does that.
    let (volume, signed) = (b.volume(), signed_volume(b));
    let taken = b.sub(volume, signed);
    let (all, taken) = (b.graph.add(Op::Cumulate, &[volume]), b.graph.add(Op::Cumulate, &[taken]));
    b.sub(all, taken)
}

/// The averages of the line are told from the line by averages of its steps, so that nothing grows without end: with `d
/// = line - average`, `d' = (1 - a) (d + step)`, which is `(1 - a) / a` times the average of the steps.
fn adosc(b: &mut Build<'_>) -> Id {
    let hold = b.period(0).max(b.period(1)) - 1;
    let flow = money_flow(b);
    let [fast, slow] = [b.period(0), b.period(1)].map(|n| {
        let alpha = 2.0 / (n as f64 + 1.0);
        let average = b.graph.add(Op::Ema(Ema { alpha, skip: 1, seed: 0, over: 1, hold }), &[flow]);
        b.affine(average, (1.0 - alpha) / alpha, 0.0)
    });
    b.sub(slow, fast)
}

fn mfi(b: &mut Build<'_>) -> Id {
    let (typical, volume) = (b.typical(), b.volume());
    let before = b.lag(typical, 1);
    let change = b.map(Map::Step, &[typical, before]);
    let flow = b.mul(typical, volume);
    let [up, down] = [Map::WhereUp, Map::WhereDown].map(|side| {
        let flow = b.map(side, &[change, flow]);
        b.sum(flow, b.period(0))
    });
    b.map(Map::Balance, &[up, down])
}

fn session_vwap(b: &mut Build<'_>) -> Id {
    let (typical, volume) = (b.typical(), b.volume());
    let traded = b.mul(typical, volume);
    let (traded, volume) = (b.session(Since::Sum, traded), b.session(Since::Sum, volume));
    b.div(traded, volume)
}
