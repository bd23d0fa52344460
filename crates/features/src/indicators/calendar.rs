//! Calendar: time of day, week and year on circles, and the trading day so far.

use super::{Indicator, Kind};
use crate::columns::Column;
use crate::ops::{Map, Since};

pub(super) const LIST: &[Indicator] = &[
    Indicator {
        name: "hour_sin",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Time of day at the exchange when the bar becomes known, on a circle of 24 hours: sine.",
        build: |b| b.column(Column::HourSin),
    },
    Indicator {
        name: "hour_cos",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Time of day at the exchange when the bar becomes known, on a circle of 24 hours: cosine.",
        build: |b| b.column(Column::HourCos),
    },
    Indicator {
        name: "weekday_sin",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The trading day's position in the week, on a circle of seven days: sine.",
        build: |b| b.column(Column::WeekdaySin),
    },
    Indicator {
        name: "weekday_cos",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The trading day's position in the week, on a circle of seven days: cosine.",
        build: |b| b.column(Column::WeekdayCos),
    },
    Indicator {
        name: "year_sin",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The day's position in the year, on a circle: sine.",
        build: |b| b.column(Column::YearSin),
    },
    Indicator {
        name: "year_cos",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The day's position in the year, on a circle: cosine.",
        build: |b| b.column(Column::YearCos),
    },
    Indicator {
        name: "session_open_distance",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "The close over the trading day's first open, less 1; the run's first day has none.",
        build: |b| {
            let (open, close) = (b.open(), b.close());
            let first = b.session(Since::First, open);
            b.relative(close, first)
        },
    },
    Indicator {
        name: "session_place",
        kind: Kind::Calendar,
        sources: &[],
        params: &[],
        outputs: &[],
        about: "Position of the close in the trading day so far, 0 at its low to 1 at its high, 0.5 where there is no range; the run's first day has none.",
        build: |b| {
            let (high, low, close) = b.hlc();
            let (high, low) = (b.session(Since::Max, high), b.session(Since::Min, low));
            let place = b.map(Map::Place, &[close, low, high]);
            b.affine(place, 0.01, 0.0)
        },
    },
];
