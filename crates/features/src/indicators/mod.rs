//! The catalogue: every indicator, once.
//!
//! An indicator is a name, what it takes, what it gives, and a function that adds its nodes to a graph. Batch, stream,
//! warm-up and settling all follow from the graph, so nothing about an indicator is said twice. Where the field
//! disagrees about a definition, `about` names the variant.

mod action;
mod calendar;
mod market;
mod momentum;
mod price;
mod statistics;
mod trend;
mod volatility;
mod volume;

#[cfg(test)]
mod tests;

use crate::columns::Column;
use crate::graph::{Graph, Id};
use crate::ops::{Ema, Map, Op, Since};

/// One entry of the catalogue.
#[derive(Debug)]
pub struct Indicator {
    /// As a feature set writes it.
    pub name: &'static str,
    /// Its chapter.
    pub kind: Kind,
    /// What it is taken of, with what is taken when nothing is said: `["close"]`. Empty: it reads the bar itself.
    pub sources: &'static [&'static str],
    /// Its numbers, in order.
    pub params: &'static [Param],
    /// Its outputs by name, the usual one first; empty: there is one, without a name.
    pub outputs: &'static [&'static str],
    /// One sentence, and the variant where the field disagrees.
    pub about: &'static str,
    pub(crate) build: fn(&mut Build<'_>) -> Id,
}

/// Chapters of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Prices, columns and arithmetic.
    Price,
    /// Averages and stops.
    Trend,
    /// Oscillators.
    Momentum,
    /// Ranges and deviations.
    Volatility,
    /// Of the volume.
    Volume,
    /// Moments, scores, lines.
    Statistics,
    /// Shapes of bars, distance to extremes.
    Action,
    /// Time of day, week and year.
    Calendar,
    /// What all symbols did.
    Market,
}

/// A number an indicator takes.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// What it is.
    pub name: &'static str,
    /// Taken when nothing is said; `None`: it must be said.
    pub default: Option<f64>,
    /// Smallest and largest that are legal; whole numbers of bars when `whole`.
    pub range: (f64, f64),
    /// Whether only whole numbers are legal.
    pub whole: bool,
}

/// A period: a whole number of bars.
pub(crate) const fn period(name: &'static str, default: usize) -> Param {
    Param { name, default: Some(default as f64), range: (1.0, LONGEST), whole: true }
}

/// A period that has to be at least that long.
pub(crate) const fn period_from(name: &'static str, least: usize, default: usize) -> Param {
    Param { name, default: Some(default as f64), range: (least as f64, LONGEST), whole: true }
}

/// A number that need not be whole.
pub(crate) const fn real(name: &'static str, least: f64, most: f64, default: f64) -> Param {
    Param { name, default: Some(default), range: (least, most), whole: false }
}

/// No window is longer.
pub(crate) const LONGEST: f64 = 100_000.0;

/// What a definition is given, and the words it is written in.
pub(crate) struct Build<'a> {
    pub(crate) graph: &'a mut Graph,
    pub(crate) columns: &'a mut Vec<Column>,
    pub(crate) sources: Vec<Id>,
    pub(crate) params: Vec<f64>,
    /// Which of its outputs is wanted.
    pub(crate) output: usize,
}

impl Build<'_> {
    /// Its source, the first unless it has two.
    pub(crate) fn source(&self, i: usize) -> Id {
        self.sources[i]
    }

    /// A number as a count of bars.
    pub(crate) fn period(&self, i: usize) -> usize {
        self.params[i] as usize
    }

    /// A number.
    pub(crate) fn real(&self, i: usize) -> f64 {
        self.params[i]
    }

    pub(crate) fn column(&mut self, column: Column) -> Id {
        let at = self.columns.iter().position(|c| *c == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.graph.add(Op::Input(at), &[])
    }

    pub(crate) fn open(&mut self) -> Id {
        self.column(Column::Open)
    }

    pub(crate) fn high(&mut self) -> Id {
        self.column(Column::High)
    }

    pub(crate) fn low(&mut self) -> Id {
        self.column(Column::Low)
    }

    pub(crate) fn close(&mut self) -> Id {
        self.column(Column::Close)
    }

    pub(crate) fn volume(&mut self) -> Id {
        self.column(Column::Volume)
    }

    /// High, low and close.
    pub(crate) fn hlc(&mut self) -> (Id, Id, Id) {
        (self.high(), self.low(), self.close())
    }

    /// A function of values of the same bar.
    pub(crate) fn map(&mut self, map: Map, args: &[Id]) -> Id {
        self.graph.add(Op::Map(map), args)
    }

    pub(crate) fn number(&mut self, value: f64) -> Id {
        self.graph.add(Op::Const(value), &[])
    }

    pub(crate) fn add(&mut self, a: Id, b: Id) -> Id {
        self.map(Map::Add, &[a, b])
    }

    pub(crate) fn sub(&mut self, a: Id, b: Id) -> Id {
        self.map(Map::Sub, &[a, b])
    }

    pub(crate) fn mul(&mut self, a: Id, b: Id) -> Id {
        self.map(Map::Mul, &[a, b])
    }

    /// Nothing where b is zero.
    pub(crate) fn div(&mut self, a: Id, b: Id) -> Id {
        self.map(Map::Div, &[a, b])
    }

    /// `x * a + b`
    pub(crate) fn affine(&mut self, x: Id, a: f64, b: f64) -> Id {
        self.graph.add(Op::Affine(a, b), &[x])
    }

    pub(crate) fn lag(&mut self, x: Id, bars: usize) -> Id {
        if bars == 0 { x } else { self.graph.add(Op::Lag(bars), &[x]) }
    }

    /// `x` less its value so many bars ago.
    pub(crate) fn change(&mut self, x: Id, bars: usize) -> Id {
        let before = self.lag(x, bars);
        self.sub(x, before)
    }

    pub(crate) fn sum(&mut self, x: Id, n: usize) -> Id {
        self.graph.add(Op::Sum(n), &[x])
    }

    /// The plain mean of the last n.
    pub(crate) fn mean(&mut self, x: Id, n: usize) -> Id {
        if n == 1 { x } else { self.graph.add(Op::Mean(n), &[x]) }
    }

    pub(crate) fn highest(&mut self, x: Id, n: usize) -> Id {
        self.graph.add(Op::Max(n), &[x])
    }

    pub(crate) fn lowest(&mut self, x: Id, n: usize) -> Id {
        self.graph.add(Op::Min(n), &[x])
    }

    pub(crate) fn ema(&mut self, x: Id, n: usize) -> Id {
        self.graph.add(Op::Ema(Ema::usual(n)), &[x])
    }

    pub(crate) fn wilder(&mut self, x: Id, n: usize) -> Id {
        self.graph.add(Op::Ema(Ema::wilder(n)), &[x])
    }

    /// Deviation of the last n from their mean, dividing by n.
    pub(crate) fn deviation(&mut self, x: Id, n: usize) -> Id {
        let variance = self.graph.add(Op::Variance(n), &[x]);
        self.map(Map::RootAbove, &[variance])
    }

    pub(crate) fn ln(&mut self, x: Id) -> Id {
        self.map(Map::Ln, &[x])
    }

    /// `ln(x / base)`, accurate where they are near each other.
    pub(crate) fn log_ratio(&mut self, x: Id, base: Id) -> Id {
        self.map(Map::LogRatio, &[x, base])
    }

    pub(crate) fn log_return(&mut self, x: Id, bars: usize) -> Id {
        let before = self.lag(x, bars);
        self.log_ratio(x, before)
    }

    /// `x / base - 1`
    pub(crate) fn relative(&mut self, x: Id, base: Id) -> Id {
        self.map(Map::Relative, &[x, base])
    }

    /// Root of the mean of the last n.
    pub(crate) fn root_mean(&mut self, x: Id, n: usize) -> Id {
        let mean = self.mean(x, n);
        self.map(Map::RootAbove, &[mean])
    }

    /// Variance of the last n, dividing by n - 1.
    pub(crate) fn sample_variance(&mut self, x: Id, n: usize) -> Id {
        let variance = self.graph.add(Op::Variance(n), &[x]);
        self.affine(variance, n as f64 / (n as f64 - 1.0), 0.0)
    }

    /// Lowest low and highest high of the last n bars.
    pub(crate) fn extremes(&mut self, n: usize) -> (Id, Id) {
        let (high, low, _) = self.hlc();
        (self.lowest(low, n), self.highest(high, n))
    }

    /// Where the close stands between the extremes of the last n bars, 0 to 100, 50 where there is no range.
    pub(crate) fn place(&mut self, n: usize) -> Id {
        let (low, high) = self.extremes(n);
        let close = self.close();
        self.map(Map::Place, &[close, low, high])
    }

    /// The middle of the highest high and the lowest low of the last n bars.
    pub(crate) fn middle(&mut self, n: usize) -> Id {
        let (low, high) = self.extremes(n);
        self.map(Map::Middle, &[high, low])
    }

    /// `middle + k width`
    pub(crate) fn band(&mut self, middle: Id, width: Id, k: f64) -> Id {
        let away = self.affine(width, k, 0.0);
        self.add(middle, away)
    }

    /// Where x stands between bands k widths from the middle: 0 at the lower, 1 at the upper, 0.5 where the width is
    /// zero.
    pub(crate) fn place_in_band(&mut self, x: Id, middle: Id, width: Id, k: f64) -> Id {
        let away = self.sub(x, middle);
        let away = self.map(Map::OrZero, &[away, width]);
        self.affine(away, 0.5 / k, 0.5)
    }

    /// The mean of the last n values of x, each with its weight.
    pub(crate) fn weighted_by(&mut self, x: Id, weight: Id, n: usize) -> Id {
        let product = self.mul(x, weight);
        let (sum, weights) = (self.sum(product, n), self.sum(weight, n));
        self.div(sum, weights)
    }

    /// Something of x since the trading day began.
    pub(crate) fn session(&mut self, since: Since, x: Id) -> Id {
        let day = self.column(Column::Day);
        self.graph.add(Op::Session(since), &[x, day])
    }

    /// The change over n bars, and the sum of the absolute changes on the way.
    pub(crate) fn change_and_path(&mut self, x: Id, n: usize) -> (Id, Id) {
        let change = self.change(x, n);
        let step = self.change(x, 1);
        let step = self.map(Map::Abs, &[step]);
        (change, self.sum(step, n))
    }

    /// High, low, and the close before: the true range.
    pub(crate) fn true_range(&mut self) -> Id {
        let (high, low, close) = self.hlc();
        let before = self.lag(close, 1);
        self.map(Map::TrueRange, &[high, low, before])
    }

    /// Wilder's average of the true range.
    pub(crate) fn atr(&mut self, n: usize) -> Id {
        let range = self.true_range();
        self.wilder(range, n)
    }

    pub(crate) fn typical(&mut self) -> Id {
        let (high, low, close) = self.hlc();
        self.map(Map::Typical, &[high, low, close])
    }
}

/// All indicators, in the order of their chapters.
pub fn catalogue() -> impl Iterator<Item = &'static Indicator> {
    [
        price::LIST,
        trend::LIST,
        momentum::LIST,
        volatility::LIST,
        volume::LIST,
        statistics::LIST,
        action::LIST,
        calendar::LIST,
        market::LIST,
    ]
    .into_iter()
    .flatten()
}

/// The indicator of that name.
pub(crate) fn find(name: &str) -> Option<&'static Indicator> {
    catalogue().find(|i| i.name == name)
}
