//! The input columns of one symbol, as a layer wants them.

use crate::columns::Column;
use crate::context::MarketColumn;
use crate::plan::{Layer, missing_extra};
use bars::{Bars, Session, Timeframe};
use files::Result;
use files::time::{civil, days};
use std::borrow::Cow;
use std::f64::consts::TAU;

/// Values of slower timeframes at the rows of one symbol.
pub(crate) struct Slow<'a> {
    pub(crate) timeframe: Timeframe,
    /// `[rows]` the slow row each row sees; `u32::MAX`: none.
    pub(crate) of: &'a [u32],
    /// `[shown][slow rows]`
    pub(crate) values: &'a [Vec<f64>],
}

/// `[columns][rows]`; `market` is what is known of the market, nothing where nothing was asked.
pub(crate) fn inputs<'a>(
    layer: &Layer,
    bars: &'a Bars,
    slow: &[Slow<'_>],
    market: &'a [MarketColumn],
) -> Result<Vec<Cow<'a, [f64]>>> {
    let mut days = None;
    layer
        .columns
        .iter()
        .map(|column| {
            Ok(match column {
                Column::Open => Cow::Borrowed(bars.open.as_slice()),
                Column::High => Cow::Borrowed(bars.high.as_slice()),
                Column::Low => Cow::Borrowed(bars.low.as_slice()),
                Column::Close => Cow::Borrowed(bars.close.as_slice()),
                Column::Volume if bars.volume.is_empty() => Cow::Owned(vec![f64::NAN; bars.len()]),
                Column::Volume => Cow::Borrowed(bars.volume.as_slice()),
                Column::Extra(name) => match bars.extras.iter().find(|e| e.0 == *name) {
                    Some((_, values)) => Cow::Borrowed(values.as_slice()),
                    None => {
                        let have: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
                        return Err(missing_extra(name, &have));
                    }
                },
                Column::Slow(timeframe, at) => {
                    let slow = slow.iter().find(|s| s.timeframe == *timeframe);
                    let at_row =
                        |s: &Slow<'_>, row: &u32| s.values[*at].get(*row as usize).copied().unwrap_or(f64::NAN);
                    Cow::Owned(slow.map_or_else(
                        || vec![f64::NAN; bars.len()],
                        |s| s.of.iter().map(|row| at_row(s, row)).collect(),
                    ))
                }
                Column::Context(what) => match market.iter().find(|a| a.what == *what) {
                    Some(column) => Cow::Borrowed(column.values.as_slice()),
                    None => Cow::Owned(vec![f64::NAN; bars.len()]),
                },
                calendar => {
                    let session = &bars.instrument.session;
                    let days = days.get_or_insert_with(|| session.trading_days(&bars.start));
                    Cow::Owned(place_in_time(calendar, session, &bars.end, days))
                }
            })
        })
        .collect()
}

/// A column of the calendar: known for every bar, whatever its prices.
pub(crate) fn place_in_time(column: &Column, session: &Session, end: &[i64], day: &[i32]) -> Vec<f64> {
    // The day changes rarely, so what belongs to it is computed once.
    let by_day = |value: &dyn Fn(i32) -> f64| {
        let (mut last, mut held) = (None, 0.0);
        let mut one = |d: i32| {
            if last != Some(d) {
                (last, held) = (Some(d), value(d));
            }
            held
        };
        day.iter().map(|d| one(*d)).collect()
    };
    let week = |d: i32| TAU * f64::from((d + 3).rem_euclid(7)) / 7.0;
    let year = |d: i32| {
        let (y, ..) = civil(i64::from(d));
        let first = days(y, 1, 1).unwrap_or(0);
        let length = days(y + 1, 1, 1).unwrap_or(first + 365) - first;
        TAU * (i64::from(d) - first) as f64 / length as f64
    };
    match column {
        Column::Day => day.iter().map(|d| f64::from(*d)).collect(),
        Column::WeekdaySin => by_day(&|d| week(d).sin()),
        Column::WeekdayCos => by_day(&|d| week(d).cos()),
        Column::YearSin => by_day(&|d| year(d).sin()),
        Column::YearCos => by_day(&|d| year(d).cos()),
        Column::HourSin | Column::HourCos => {
            let sine = *column == Column::HourSin;
            let on_circle = |minute: usize| {
                let angle = TAU * minute as f64 / 1440.0;
                if sine { angle.sin() } else { angle.cos() }
            };
            if end.len() < 1440 {
                return session.clock_minutes(end).into_iter().map(|m| on_circle(usize::from(m))).collect();
            }
            let circle: Vec<f64> = (0..1440).map(on_circle).collect();
            session.clock_minutes(end).into_iter().map(|m| circle[usize::from(m)]).collect()
        }
        _ => vec![f64::NAN; end.len()],
    }
}
