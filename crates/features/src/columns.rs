//! The columns a graph starts from: the bar itself, its place in the calendar, what the user brought, values of a
//! slower timeframe.

use crate::context::Context;
use bars::Timeframe;

/// A column from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    Open,
    High,
    Low,
    Close,
    Volume,
    /// Number of the trading day.
    Day,
    /// Time of day at the instrument's exchange, when the bar becomes known, on a circle of 24 hours.
    HourSin,
    HourCos,
    /// Trading day of the week on a circle of seven.
    WeekdaySin,
    WeekdayCos,
    /// Day of the year on a circle.
    YearSin,
    YearCos,
    /// A column the user brought.
    Extra(String),
    /// A value of the last completed bar of a slower timeframe: which timeframe, and which of its outputs.
    Slow(Timeframe, usize),
    /// What all symbols did, as of this row.
    Context(Context),
}
