//! Walks through the ticks and reduces over the symbols that take part.

use super::Context;
use super::cluster::Clusters;
use crate::clock::Clock;
use bars::Bars;
use rayon::prelude::*;

/// Ticks that one thread walks through at a time; each begins by itself, so it changes no bit.
const CHUNK: usize = 512;

/// A market and its clock, ready to be walked through.
pub(super) struct Cross<'a> {
    pub(super) market: &'a [Bars],
    pub(super) clock: &'a Clock,
    /// Symbols in the order of their names: sums do not depend on the order of files.
    pub(super) order: Vec<usize>,
    /// Longest age of a fresh bar, in nanoseconds.
    age: i64,
    /// `[T + 1]`, `[rows]`: what becomes known at each tick.
    first: Vec<u32>,
    rows_by_tick: Vec<(u32, u32)>,
}

impl<'a> Cross<'a> {
    pub(super) fn new(market: &'a [Bars], clock: &'a Clock) -> Cross<'a> {
        let mut order: Vec<usize> = (0..market.len()).collect();
        order.sort_by(|a, b| market[*a].symbol.cmp(&market[*b].symbol).then(a.cmp(b)));
        let (first, rows_by_tick) = clock.rows_by_tick();
        let age = market.first().map_or(1, |bars| bars.timeframe.ns().max(1));
        Cross { market, clock, order, age, first, rows_by_tick }
    }

    /// Measures over all symbols, `[asked][T]`; each is taken of the `own` values there (`[S][measures][rows]`).
    pub(super) fn series(&self, asked: &[(usize, Context)], own: &[Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
        let rows = self.walk(|_, fresh, _, out: &mut Vec<Vec<f64>>| {
            out.push(
                asked.iter().map(|(at, what)| reduce(*what, fresh.iter().map(|(s, row)| own[*s][*at][*row]))).collect(),
            );
        });
        let rows: Vec<Vec<f64>> = rows.into_iter().flatten().collect();
        (0..asked.len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect()
    }

    /// `[rows]` the mean of the own values at that place over each row's cluster, from at least half of `size` symbols.
    pub(super) fn cluster_means(&self, clusters: &Clusters, own: &[Vec<Vec<f64>>], at: usize, size: usize) -> Vec<f64> {
        let least = size.div_ceil(2).max(2);
        let found = self.walk(|tick, fresh, rows_by_tick, out: &mut Vec<(u32, f64)>| {
            let Some(now) = clusters.at(tick) else { return };
            // Where each symbol's fresh row is, and what each set says, once it is asked.
            let mut of = vec![None; self.market.len()];
            fresh.iter().for_each(|(s, row)| of[*s] = Some(*row));
            let mut said: Vec<Option<f64>> = vec![None; now.sets.len()];
            for (s, row) in rows_by_tick {
                let Some(set) = now.of[*s as usize] else { continue };
                let value = *said[set].get_or_insert_with(|| {
                    mean(now.sets[set].iter().filter_map(|s| Some(own[*s][at][of[*s]?])), least)
                });
                out.push((*row, value));
            }
        });
        let mut rows = vec![f64::NAN; self.clock.tick.len()];
        found.into_iter().flatten().for_each(|(row, value)| rows[row as usize] = value);
        rows
    }

    /// Visits every tick with the fresh rows of the symbols that take part (symbol, row of the symbol; by name) and the
    /// rows that became known (symbol, row of the market); gives what each stretch of ticks wrote, in order.
    fn walk<T: Send + Default>(
        &self,
        visit: impl Fn(usize, &[(usize, usize)], &[(u32, u32)], &mut T) + Sync,
    ) -> Vec<T> {
        let ticks = self.clock.times.len();
        (0..ticks.div_ceil(CHUNK))
            .into_par_iter()
            .map(|chunk| {
                let from = chunk * CHUNK;
                let (mut rows, mut fresh, mut out) = (vec![u32::MAX; self.market.len()], Vec::new(), T::default());
                if from > 0 {
                    self.clock.cross_section(from - 1, None, &mut rows);
                }
                for tick in from..ticks.min(from + CHUNK) {
                    let rows_by_tick = &self.rows_by_tick[self.first[tick] as usize..self.first[tick + 1] as usize];
                    rows_by_tick.iter().for_each(|(s, row)| rows[*s as usize] = *row);
                    fresh.clear();
                    fresh.extend(self.order.iter().filter_map(|s| Some((*s, self.participants(*s, rows[*s], tick)?))));
                    visit(tick, &fresh, rows_by_tick, &mut out);
                }
                out
            })
            .collect()
    }

    /// The symbol's own row, if the last one it has is fresh and it is a member by then.
    fn participants(&self, symbol: usize, row: u32, tick: usize) -> Option<usize> {
        let known = (row != u32::MAX).then(|| self.clock.times[self.clock.tick[row as usize] as usize])?;
        let row = row as usize - self.clock.rows(symbol).start;
        let fresh = self.clock.times[tick].saturating_sub(known) < self.age;
        (fresh && self.is_member(symbol, row)).then_some(row)
    }

    /// Whether a symbol belonged to the universe when that bar of it began.
    pub(super) fn is_member(&self, symbol: usize, row: usize) -> bool {
        let bars = &self.market[symbol];
        bars.member.is_empty() || bars.member.iter().any(|(from, to)| (*from..*to).contains(&bars.start[row]))
    }
}

fn reduce(what: Context, values: impl Iterator<Item = f64> + Clone) -> f64 {
    match what {
        Context::Breadth { least, .. } | Context::Rising { least, .. } => {
            mean(values.map(|x| if x.is_nan() { x } else { f64::from(u8::from(x > 0.0)) }), least)
        }
        _ => mean(values, what.least()),
    }
}

/// Of the values that are there, if those are enough.
fn mean(values: impl Iterator<Item = f64>, least: usize) -> f64 {
    let (sum, n) = values.filter(|x| x.is_finite()).fold((0.0, 0usize), |(sum, n), x| (sum + x, n + 1));
    if n >= least.max(1) { sum / n as f64 } else { f64::NAN }
}
