//! A market made from a seed: what tests, benchmarks and the demo train on when there is no data, or when the truth
//! must be known.
//!
//! Two worlds. The *lifelike* one ([`world`]) has a market factor and sectors, regimes, volatility that clusters,
//! jumps, sessions, holidays, late listings and delistings; nothing in it can be predicted but volatility. The
//! *planted* one ([`Plant`], docs/method.md) carries a signal of known strength in the extra column `plant` and states
//! the best a trader can earn from it.
//!
//! Every number is drawn by Philox4x32-10 from (seed, stream, step, index): a symbol is a stream of its own, so that
//! the bits are the same for any number of threads, and no function of the platform's math library is used, so that
//! they are the same everywhere.

mod calendar;
mod plant;
mod random;
mod world;

pub use plant::{Optimum, Plant};
pub use world::Regime;

use crate::{Bars, Class, Instrument, Timeframe, VolumeKind};
use calendar::Grid;
use random::Stream;
use rayon::prelude::*;
use std::fmt;
use world::World;

/// A market to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Synth {
    /// The same seed gives the same bits.
    pub seed: u64,
    /// How many symbols.
    pub symbols: usize,
    /// Bars of a symbol that lives from the first day to the last; fewer where the calendar ends first (the year 2261).
    pub bars: usize,
    /// Length of a bar.
    pub timeframe: Timeframe,
    /// What kind of market.
    pub kind: MarketKind,
    /// No bar starts before this, in nanoseconds.
    pub start: i64,
    /// Whether some symbols are listed late and some delisted.
    pub ragged: bool,
    /// A signal of known strength in place of the lifelike world; every symbol then lives all the time.
    pub plant: Option<Plant>,
}

/// What kind of market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarketKind {
    /// US shares: New York hours, weekends, holidays, gaps over night.
    Stocks,
    /// Coins: round the clock, all week, twice to three times as wild.
    Crypto,
    /// Currencies: round the clock from Sunday to Friday 17:00 New York.
    Fx,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticMarket {
    /// `[S]` sorted by symbol.
    pub market: Vec<Bars>,
    /// What only the maker knows.
    pub truth: Truth,
}

/// What only the maker knows; its text is a few lines for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// `[T]` the market's regime at each bar of the common calendar; empty with a plant.
    pub regimes: Vec<Regime>,
    /// The plant and the best that can be earned from it.
    pub plant: Option<Optimum>,
}

/// 655 US shares, 1,250 days.
impl Default for Synth {
    fn default() -> Synth {
        Synth {
            seed: 1,
            symbols: 655,
            bars: 1250,
            timeframe: Timeframe::D1,
            kind: MarketKind::Stocks,
            start: 1_546_387_200_000_000_000, // 2019-01-02
            ragged: true,
            plant: None,
        }
    }
}

impl Synth {
    /// Says which setting is wrong, if one is.
    pub fn check(&self) -> Result<(), String> {
        if self.symbols == 0 || self.symbols > 1_000_000 {
            return Err(format!("symbols: {} must be from 1 to 1000000", self.symbols));
        }
        if self.bars == 0 || self.bars > 100_000_000 {
            return Err(format!("bars: {} must be from 1 to 100000000", self.bars));
        }
        if self.timeframe.ns() < 1_000_000_000 {
            return Err(format!("timeframe: {} must be at least a second", self.timeframe));
        }
        // 1800 to 2200; the calendar counts nanoseconds and ends in 2260.
        if !(-62_000..=84_000).contains(&self.start.div_euclid(86_400_000_000_000)) {
            return Err(format!("start: {} ns must lie between the years 1801 and 2199", self.start));
        }
        self.plant.map_or(Ok(()), |plant| plant.check())
    }

    /// Makes the market on that many threads.
    ///
    /// # Panics
    ///
    /// Where [`Synth::check`] has something to say.
    pub fn make_market(&self, threads: usize) -> SyntheticMarket {
        if let Err(wrong) = self.check() {
            panic!("{wrong}");
        }
        let grid = Grid::new(self);
        let world = self.plant.is_none().then(|| World::new(self, &grid));
        let one = |symbol: usize| match (&self.plant, &world) {
            (Some(plant), _) => plant.bars(self, &grid, symbol),
            (None, Some(world)) => world.bars(self, &grid, symbol),
            (None, None) => unreachable!("there is a world where there is no plant"),
        };
        let market = match rayon::ThreadPoolBuilder::new().num_threads(threads.clamp(1, 1024).min(self.symbols)).build()
        {
            Ok(pool) if threads > 1 && self.symbols > 1 => {
                pool.install(|| (0..self.symbols).into_par_iter().map(one).collect())
            }
            _ => (0..self.symbols).map(one).collect(),
        };
        let regimes = world.map(|world| world.regimes(&grid)).unwrap_or_default();
        SyntheticMarket { market, truth: Truth { regimes, plant: self.plant.map(|plant| plant.optimum()) } }
    }

    /// `SYN001`, wide enough that names sort as numbers do; coins are quoted in USDT and say so.
    fn symbol_name(&self, symbol: usize) -> String {
        let width = self.symbols.to_string().len().max(3);
        let quote = if self.kind == MarketKind::Crypto { "USDT" } else { "" };
        format!("SYN{:0width$}{quote}", symbol + 1)
    }

    fn instrument(&self) -> Instrument {
        let mut instrument = match self.kind {
            MarketKind::Stocks => Instrument::preset(Class::Equity, "USD"),
            MarketKind::Crypto => Instrument::preset(Class::CryptoSpot, "USDT"),
            MarketKind::Fx => Instrument::preset(Class::Fx, "USD"),
        };
        if self.kind == MarketKind::Crypto {
            instrument.tick = 1e-4;
        }
        if let Some(plant) = &self.plant {
            // What L5 asks for: the cost of a side and nothing else.
            (instrument.tick, instrument.lot, instrument.min_notional, instrument.shortable) = (0.0, 0.0, 0.0, true);
            instrument.volume = VolumeKind::None;
            let costs = &mut instrument.costs;
            (costs.fee_bp, costs.maker_bp, costs.spread_bp) = (plant.cost_bp, plant.cost_bp, 0.0);
            (costs.borrow_bp_per_year, costs.impact, costs.funding) = (0.0, 0.0, false);
        }
        instrument
    }

    /// Draws that belong to one symbol alone.
    fn stream(&self, symbol: usize) -> Stream {
        Stream::new(self.seed, 4096 + symbol as u32)
    }

    /// Empty columns for the bars `[from, to)` of the calendar.
    fn columns(&self, grid: &Grid, symbol: usize, from: usize, to: usize) -> Bars {
        let column = || Vec::with_capacity(to - from);
        Bars {
            symbol: self.symbol_name(symbol),
            instrument: self.instrument(),
            timeframe: self.timeframe,
            start: grid.start[from..to].to_vec(),
            end: grid.end[from..to].to_vec(),
            open: column(),
            high: column(),
            low: column(),
            close: column(),
            volume: column(),
            extras: Vec::new(),
            segments: vec![0],
            member: Vec::new(),
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plant) = &self.plant {
            return plant.fmt(f);
        }
        let share = |wanted| {
            100.0 * self.regimes.iter().filter(|r| **r == wanted).count() as f64 / self.regimes.len().max(1) as f64
        };
        write!(
            f,
            "no signal except volatility; calm {:.0} % of bars, trend {:.0} %, crisis {:.0} %",
            share(Regime::Calm),
            share(Regime::Trend),
            share(Regime::Crisis)
        )
    }
}

#[cfg(test)]
mod tests;
