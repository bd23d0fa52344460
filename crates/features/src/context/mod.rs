//! The market around a symbol: what all symbols did, as of availability.
//!
//! At a tick of the common [`Clock`] a symbol takes part if its last bar is *fresh* (known less than one bar ago), it
//! is a member of the universe by then, and it has the value asked for. Each measure is taken of every symbol by
//! itself, with the operations indicators are made of, and then reduced over those that take part, in the order of
//! their names; with fewer than the least number it does not exist. A row of a symbol sees the tick at which it became
//! known, and so only bars that were known then, of any symbol.
//!
//! | written | what |
//! | --- | --- |
//! | `market_return(1, 5)` | mean of the logarithmic returns over n bars, from at least 5 symbols |
//! | `market_breadth(20, 5)` | share of symbols that close above their own mean of n bars |
//! | `market_rising(1, 5)` | share of symbols that close higher than n bars ago |
//! | `market_volatility(20, 5)` | mean of the symbols' realised volatilities |
//! | `market_regime(20, 250, 5)` | the same against its mean over that many ticks before, less 1 |
//! | `cluster_return(1, 250, 5)` | mean return of the symbols that went with this one ([`cluster`]) |
//! | `relative_strength(20, 5)` | own return less the market's |
//!
//! Columns of the context enter the graph like any column, so they can be lagged, averaged and combined in a feature
//! set. All look back a finite way and count as settled when they are there; a symbol that was listed before the data
//! begin may join them a few bars later than it would have, so the warm-up test (L3) is not asked of them. The prefix
//! and poison tests (L1, L2) are.
//!
//! What it leaves out: slower timeframes, and streams of one symbol, which cannot know the others; both are refused.

mod cluster;
mod cross;
#[cfg(test)]
mod tests;
mod universe;

pub use universe::Universe;

use crate::batch;
use crate::clock::Clock;
use crate::inputs::inputs;
use crate::language::parse;
use crate::plan::Plan;
use bars::Bars;
use cluster::{Clusters, clusters};
use cross::Cross;
use files::Result;
use rayon::prelude::*;
use std::ops::Range;

/// What is asked of the market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// Mean return over `bars` bars, of at least `least` symbols.
    Return { bars: usize, least: usize },
    /// Share of closes above their own mean.
    Breadth { bars: usize, least: usize },
    /// Share of closes above that of `bars` bars ago.
    Rising { bars: usize, least: usize },
    /// Mean volatility.
    Volatility { bars: usize, least: usize },
    /// Mean volatility against its own past.
    Regime { bars: usize, long: usize, least: usize },
    /// Mean return of the symbols that went together over the window.
    Cluster { bars: usize, window: usize, size: usize },
}

/// What is taken of every symbol by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SymbolMeasure {
    Return(usize),
    Above(usize),
    Volatility(usize),
}

/// What the rows of one symbol see of the market.
#[derive(Debug, Clone)]
pub(crate) struct MarketColumn {
    pub(crate) what: Context,
    /// `[rows]`, NaN where it does not exist.
    pub(crate) values: Vec<f64>,
}

impl Context {
    /// With fewer symbols it never exists.
    pub(crate) fn least(self) -> usize {
        match self {
            Context::Return { least, .. }
            | Context::Breadth { least, .. }
            | Context::Rising { least, .. }
            | Context::Volatility { least, .. }
            | Context::Regime { least, .. } => least,
            Context::Cluster { size, .. } => size,
        }
    }

    /// Bars before its own that it looks back on; a moment of the common clock counts as one. A cluster was found up to
    /// a fifth of its window ago.
    pub(crate) fn reach(self) -> usize {
        match self {
            Context::Return { bars, .. }
            | Context::Breadth { bars, .. }
            | Context::Rising { bars, .. }
            | Context::Volatility { bars, .. } => bars,
            Context::Regime { bars, long, .. } => bars.saturating_add(long),
            Context::Cluster { bars, window, .. } => bars.saturating_add(window).saturating_add(window / 5),
        }
    }

    fn measure(self) -> SymbolMeasure {
        match self {
            Context::Return { bars, .. } | Context::Rising { bars, .. } | Context::Cluster { bars, .. } => {
                SymbolMeasure::Return(bars)
            }
            Context::Breadth { bars, .. } => SymbolMeasure::Above(bars),
            Context::Volatility { bars, .. } | Context::Regime { bars, .. } => SymbolMeasure::Volatility(bars),
        }
    }
}

impl SymbolMeasure {
    /// As a feature set would say it.
    fn text(self) -> String {
        match self {
            SymbolMeasure::Return(bars) => format!("log_return({bars})"),
            SymbolMeasure::Above(bars) => format!("close/sma({bars}) - 1"),
            SymbolMeasure::Volatility(bars) => format!("volatility({bars})"),
        }
    }
}

/// The context of every symbol's rows, `[S]`. The bits depend on no number of threads.
pub(crate) fn market_columns(
    market: &[Bars],
    clock: &Clock,
    runs: &[Vec<Range<usize>>],
    asked: &[Context],
) -> Result<Vec<Vec<MarketColumn>>> {
    let mut measures: Vec<SymbolMeasure> = Vec::new();
    let ones = asked.iter().any(|a| matches!(a, Context::Cluster { .. })).then_some(SymbolMeasure::Return(1));
    for own in asked.iter().map(|a| a.measure()).chain(ones) {
        if !measures.contains(&own) {
            measures.push(own);
        }
    }
    let at = |own: SymbolMeasure| measures.iter().position(|o| *o == own).unwrap_or(0);
    let text: Vec<String> = measures.iter().map(|own| own.text()).collect();
    let plan = Plan::new(&parse(&text.join("\n"), None)?)?;
    let layer = &plan.layers[0];
    let ids: Vec<_> = layer.outputs.iter().map(|o| o.id).collect();
    // [S][measures][rows]
    let each = market.par_iter().zip(runs).map(|(bars, runs)| {
        let inputs = inputs(layer, bars, &[], &[])?;
        Ok(batch::compute_columns(&layer.graph, &ids, &inputs, runs))
    });
    let own: Vec<Vec<Vec<f64>>> = each.collect::<Result<_>>()?;
    let cross = Cross::new(market, clock);

    let mut seen: Vec<Vec<MarketColumn>> = vec![Vec::with_capacity(asked.len()); market.len()];
    // What is the same for all symbols, [asked][T].
    let common: Vec<Context> = asked.iter().copied().filter(|a| !matches!(a, Context::Cluster { .. })).collect();
    let series = cross.series(&common.iter().map(|a| (at(a.measure()), *a)).collect::<Vec<_>>(), &own);
    for (what, values) in common.iter().zip(series) {
        let values = if let Context::Regime { long, .. } = what { against_past(&values, *long) } else { values };
        for (s, seen) in seen.iter_mut().enumerate() {
            let values = clock.tick[clock.rows(s)].iter().map(|tick| values[*tick as usize]).collect();
            seen.push(MarketColumn { what: *what, values });
        }
    }
    // What is not; returns over several lengths share their clusters.
    let mut found: Vec<((usize, usize), Clusters)> = Vec::new();
    for what in asked {
        if let Context::Cluster { bars, window, size } = *what {
            if found.iter().all(|f| f.0 != (window, size)) {
                found.push(((window, size), clusters(&cross, &own, at(SymbolMeasure::Return(1)), window, size)));
            }
            let Some((_, clusters)) = found.iter().find(|f| f.0 == (window, size)) else { continue };
            let rows = cross.cluster_means(clusters, &own, at(SymbolMeasure::Return(bars)), size);
            for (s, seen) in seen.iter_mut().enumerate() {
                seen.push(MarketColumn { what: *what, values: rows[clock.rows(s)].to_vec() });
            }
        }
    }
    Ok(seen)
}

/// Each value over the mean of that many before it, less 1. Ticks without a value neither have one nor count.
fn against_past(values: &[f64], long: usize) -> Vec<f64> {
    let mut past: Vec<f64> = Vec::new();
    let against = values.iter().map(|value| {
        if value.is_nan() {
            return f64::NAN;
        }
        // Added up afresh, so that nothing is left of what has gone.
        let before = past.len().checked_sub(long).map(|from| past[from..].iter().sum::<f64>() / long as f64);
        past.push(*value);
        before.filter(|before| *before > 0.0).map_or(f64::NAN, |before| value / before - 1.0)
    });
    against.collect()
}
