//! A market becomes a data set: one table a timeframe, the map between them, the common clock, the labels.

use crate::batch::{self, Pace};
use crate::clock::Clock;
use crate::context::{Universe, market_columns};
use crate::inputs::{Slow, inputs};
use crate::labels::{Labeling, Labels, label};
use crate::plan::{Fitted, Layer, Plan};
use crate::resample::resample;
use crate::runs::runs;
use crate::table::Table;
use bars::{Bars, Timeframe};
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::ops::Range;

/// Everything a learner is given.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The bars that were given, with their features.
    pub base: Table,
    /// Slower timeframes that have features of their own.
    pub slow: Vec<Slower>,
    /// All availability times of the base.
    pub clock: Clock,
    /// The labels, if they were asked for.
    pub labels: Option<Labels>,
    /// Features left out because there is no volume.
    pub without_volume: Vec<String>,
    /// Symbols without volume whose volume features are missing, where others have it.
    pub symbols_without_volume: Vec<String>,
    /// Features left out because there are too few symbols for a market.
    pub without_market: Vec<String>,
    /// The symbols that features of the market were taken of; `None`: no feature looks at other symbols.
    pub universe: Option<Universe>,
}

/// A slower table.
#[derive(Debug, Clone)]
pub struct Slower {
    /// Its rows are completed slow bars.
    pub table: Table,
    /// `[base rows]` the last slow row that was complete when the base row became known; `u32::MAX`: none.
    pub of: Vec<u32>,
}

/// How a data set is made.
pub struct Options<'a> {
    /// At least one.
    pub threads: usize,
    /// The longest hole, in bars, that is stepped over; `None`: by timeframe.
    pub max_hole: Option<usize>,
    /// What to learn; `None`: nothing.
    pub labels: Option<Labeling>,
    /// Told what is being done, how many rows of it are done, and of how many.
    pub progress: &'a (dyn Fn(&'static str, usize, usize) + Sync),
    /// Says when to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// One slow timeframe of a market.
struct Coarse {
    timeframe: Timeframe,
    market: Vec<Bars>,
    runs: Vec<Vec<Range<usize>>>,
    /// `[S][rows]`, slow rows counted from the symbol's first.
    of: Vec<Vec<u32>>,
    /// `[S][shown][slow rows]`
    shown: Vec<Vec<Vec<f64>>>,
}

impl Dataset {
    /// Gives back what a learner has copies of: values, where they are valid, slower bars and the slower rows of each
    /// row. Bars, times, columns and labels stay.
    pub fn release_values(&mut self) {
        for table in std::iter::once(&mut self.base).chain(self.slow.iter_mut().map(|s| &mut s.table)) {
            (table.values, table.valid) = Default::default();
        }
        self.slow.iter_mut().for_each(|s| (s.of, s.table.market) = Default::default());
    }

    /// Makes the tables and labels of a market whose bars all have one timeframe.
    pub fn new(market: Vec<Bars>, plan: &Plan, options: &Options<'_>) -> Result<Dataset> {
        Dataset::new_in(None, market, plan, options)
    }

    /// [`Dataset::new`] in the memory of a table that is no longer needed.
    pub fn new_in(spare: Option<Table>, market: Vec<Bars>, plan: &Plan, options: &Options<'_>) -> Result<Dataset> {
        let symbols = market.len();
        Dataset::part_of(symbols, spare, market, plan, options)
    }

    /// The same of a part of a market that has so many symbols: what leaves is decided by the whole.
    pub(crate) fn part_of(
        symbols: usize,
        spare: Option<Table>,
        market: Vec<Bars>,
        plan: &Plan,
        options: &Options<'_>,
    ) -> Result<Dataset> {
        let timeframe = one_timeframe(&market)?;
        let some_volume = market.iter().any(|b| !b.volume.is_empty());
        let Fitted { plan, without_volume, without_market } = plan.fit(some_volume, symbols)?;
        let reads_volume = |layer: &Layer| layer.columns.contains(&crate::columns::Column::Volume);
        let symbols_without_volume =
            market.iter().filter(|b| b.volume.is_empty() && some_volume && plan.layers.iter().any(reads_volume));
        let symbols_without_volume = symbols_without_volume.map(|b| b.symbol.clone()).collect();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads.max(1))
            .build()
            .map_err(|e| Error::new(Kind::Machine, format!("threads could not be started: {e}")))?;
        let made = pool.install(|| make(market, timeframe, &plan, options, spare))?;
        Ok(Dataset { without_volume, symbols_without_volume, without_market, ..made })
    }
}

fn make(
    market: Vec<Bars>,
    timeframe: Timeframe,
    plan: &Plan,
    options: &Options<'_>,
    spare: Option<Table>,
) -> Result<Dataset> {
    let (made, clock) = if plan.sees_market() {
        let clock = Clock::new(&market);
        (tables(&market, timeframe, plan, Some(&clock), options, spare), clock)
    } else {
        // Nothing else needs the clock, so it is made beside everything else.
        rayon::join(|| tables(&market, timeframe, plan, None, options, spare), || Clock::new(&market))
    };
    let (mut base, slow, labels) = made?;
    let universe = plan.sees_market().then(|| Universe::from_market(&market));
    base.market = market;
    Ok(Dataset {
        base,
        slow,
        clock,
        labels,
        universe,
        without_volume: Vec::new(),
        symbols_without_volume: Vec::new(),
        without_market: Vec::new(),
    })
}

/// The tables, of which the base still lacks its market, and the labels. The clock is given where features look at the
/// market.
fn tables(
    market: &[Bars],
    timeframe: Timeframe,
    plan: &Plan,
    clock: Option<&Clock>,
    options: &Options<'_>,
    spare: Option<Table>,
) -> Result<(Table, Vec<Slower>, Option<Labels>)> {
    let cuts: Vec<Vec<Range<usize>>> = market.par_iter().map(|bars| runs(bars, options.max_hole)).collect();
    let coarse: Vec<Coarse> =
        plan.layers[1..].iter().map(|layer| coarse(layer, market, options)).collect::<Result<_>>()?;
    let labels = match &options.labels {
        None => None,
        Some(spec) => {
            (options.progress)("labels", 0, 0);
            Some(label(market, &cuts, spec, options.threads)?)
        }
    };
    let columns = match clock {
        Some(clock) => {
            (options.progress)("market", 0, 0);
            market_columns(market, clock, &cuts, &plan.context())?
        }
        None => Vec::new(),
    };
    let rows = market.iter().map(Bars::len).sum();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let progress = |more: usize| {
        let done = done.fetch_add(more, std::sync::atomic::Ordering::Relaxed) + more;
        (options.progress)("features", done, rows);
    };
    let pace = Pace { threads: options.threads.max(1), progress: &progress, stop: options.stop };
    let slower = |s: usize| -> Vec<Slow<'_>> {
        coarse.iter().map(|c| Slow { timeframe: c.timeframe, of: &c.of[s], values: &c.shown[s] }).collect()
    };
    let mut base = batch::compute_table(&plan.layers[0], timeframe, market, &cuts, &slower, &columns, &pace, spare)?;
    base.runs = cuts;
    let quiet = Pace { progress: &|_| {}, ..pace };
    let mut slow = Vec::new();
    for (layer, coarse) in plan.layers[1..].iter().zip(coarse) {
        if layer.outputs.is_empty() {
            continue;
        }
        let (market, runs) = (coarse.market, coarse.runs);
        let mut table =
            batch::compute_table(layer, coarse.timeframe, &market, &runs, &|_| Vec::new(), &[], &quiet, None)?;
        (table.market, table.runs) = (market, runs);
        let mut of = Vec::with_capacity(base.rows());
        for (s, rows) in coarse.of.iter().enumerate() {
            let from = table.offsets[s] as u32;
            of.extend(rows.iter().map(|row| if *row == u32::MAX { u32::MAX } else { from + row }));
        }
        slow.push(Slower { table, of });
    }
    Ok((base, slow, labels))
}

/// The slow bars of every symbol, and what the base layer sees of them.
fn coarse(layer: &Layer, market: &[Bars], options: &Options<'_>) -> Result<Coarse> {
    let timeframe = layer.timeframe.unwrap_or(Timeframe::D1);
    let each = market.par_iter().map(|bars| {
        let (slow, of) = resample(bars, timeframe)?;
        let cuts = runs(&slow, options.max_hole);
        let shown = batch::compute_columns(&layer.graph, &layer.shown, &inputs(layer, &slow, &[], &[])?, &cuts);
        Ok((slow, of, cuts, shown))
    });
    let mut all = Coarse { timeframe, market: Vec::new(), runs: Vec::new(), of: Vec::new(), shown: Vec::new() };
    for (slow, of, cuts, shown) in each.collect::<Result<Vec<_>>>()? {
        all.market.push(slow);
        all.of.push(of);
        all.runs.push(cuts);
        all.shown.push(shown);
    }
    Ok(all)
}

/// The timeframe of all bars.
pub(crate) fn one_timeframe(market: &[Bars]) -> Result<Timeframe> {
    let first = market.first().ok_or_else(|| Error::new(Kind::Input, "there are no bars"))?.timeframe;
    match market.iter().find(|b| b.timeframe != first) {
        None => Ok(first),
        Some(other) => Err(Error::new(
            Kind::Input,
            format!(
                "the data hold bars of {first} ({}) and of {} ({})",
                market[0].symbol, other.timeframe, other.symbol
            ),
        )
        .remedy("give the bars of one timeframe; slower ones are made from them by @1h and the like")),
    }
}

/// The base features of one symbol in full precision: name and `[rows]`, NaN where there is no value. Refuses features
/// of the market, which one symbol does not have.
pub fn precise(bars: &Bars, plan: &Plan, max_hole: Option<usize>) -> Result<Vec<(String, Vec<f64>)>> {
    plan.check_alone()?;
    let mut slow = Vec::new();
    for layer in &plan.layers[1..] {
        let timeframe = layer.timeframe.unwrap_or(Timeframe::D1);
        let (coarse, of) = resample(bars, timeframe)?;
        let cuts = runs(&coarse, max_hole);
        slow.push((
            timeframe,
            of,
            batch::compute_columns(&layer.graph, &layer.shown, &inputs(layer, &coarse, &[], &[])?, &cuts),
        ));
    }
    let slow: Vec<Slow<'_>> =
        slow.iter().map(|(timeframe, of, values)| Slow { timeframe: *timeframe, of, values }).collect();
    let layer = &plan.layers[0];
    let ids: Vec<_> = layer.outputs.iter().map(|o| o.id).collect();
    let values = batch::compute_columns(&layer.graph, &ids, &inputs(layer, bars, &slow, &[])?, &runs(bars, max_hole));
    Ok(layer.outputs.iter().map(|o| o.name.clone()).zip(values).collect())
}
