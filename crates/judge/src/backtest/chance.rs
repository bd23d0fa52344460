//! What the same trading earns by chance.
//!
//! One symbol: positions are shifted in time as a whole by whole trading days, the last days following the first, so
//! that they are as long, as often and at the same times of day as before; only what they knew of the moment is gone.
//! Several symbols: scores change hands between symbols, so that the portfolio is as large and trades as much; where
//! there are positions and no scores, all symbols are shifted together. All of it is walked through the account at
//! cost. A Sharpe ratio that many of these reach is none.

use super::beside::walk_beside;
use super::signals::Beliefs;
use super::walk::{Course, decide, walk};
use crate::in_threads;
use crate::measure::sorted_quantile;
use account::Action;
use market::{Needs, Policy, Targets, View};
use random::{SplitMix, mix};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Draws, where there are as many.
const DRAWS: usize = 1000;

/// Below this many trading days nothing is judged.
const LEAST_DAYS: usize = 200;

/// The net Sharpe ratio beside those of chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChanceTest {
    /// What was drawn, in words.
    pub how: String,
    /// How many draws.
    pub draws: usize,
    /// Sharpe ratio of a day as it is.
    pub sharpe_daily: f64,
    /// The mean of the draws'.
    pub mean: f64,
    /// Nineteen of twenty draws lie below.
    pub high: f64,
    /// How often chance is at least as good: `(1 + draws that are) / (1 + draws)`.
    pub p: f64,
}

impl ChanceTest {
    fn new(how: &str, sharpe_daily: f64, mut drawn: Vec<f64>) -> ChanceTest {
        let draws = drawn.len();
        let reached = drawn.iter().filter(|x| **x >= sharpe_daily).count();
        drawn.sort_by(f64::total_cmp);
        ChanceTest {
            how: how.into(),
            draws,
            sharpe_daily,
            mean: drawn.iter().sum::<f64>() / draws as f64,
            high: sorted_quantile(&drawn, 0.95),
            p: (1 + reached) as f64 / (1 + draws) as f64,
        }
    }
}

/// Shifts the positions of one symbol by whole trading days, at least `least` either way: every shift there is, or
/// [`DRAWS`] of them. `Err` says why nothing is judged.
pub fn shift_positions(
    course: &Course<'_>,
    policy: &dyn Policy,
    least: usize,
    seed: u64,
    threads: usize,
) -> Result<ChanceTest, String> {
    let decided = decide(course, policy).map_err(|e| e.message)?;
    let days = TradingDays::new(course, &decided.actions);
    let count = days.first.len();
    enough_days(count)?;
    let least = least.max(1);
    let mut shifts: Vec<usize> = (least..=count.saturating_sub(least)).collect();
    if shifts.len() < 100 {
        return Err(format!("{} shifts are possible, and 100 are needed", shifts.len()));
    }
    draw_some(&mut shifts, DRAWS, seed);
    let groups: Vec<&[usize]> = shifts.chunks(64).collect();
    let drawn = in_threads(groups.len(), threads, |group| days.sharpes(course, groups[group]));
    let drawn = drawn.into_iter().collect::<Result<Vec<_>, String>>()?;
    let own = days.sharpes(course, &[0])?;
    let how = "positions shifted by whole trading days";
    Ok(ChanceTest::new(how, own[0], drawn.into_iter().flatten().collect()))
}

/// Lets scores change hands between symbols, [`DRAWS`] times. A draw is one order of all symbols: where one has a
/// score, it takes that of the next in this order that has one. `Err` says why nothing is judged.
pub fn permute_scores(
    course: &Course<'_>,
    beliefs: &Arc<Beliefs>,
    portfolio: &(dyn Fn(Arc<Beliefs>) -> Box<dyn Policy> + Sync),
    seed: u64,
    threads: usize,
) -> Result<ChanceTest, String> {
    let sharpe = |beliefs: Arc<Beliefs>| {
        let mut sums = Sums::default();
        let walked = walk(course, &course.table.params, &*portfolio(beliefs)).map_err(|e| e.message)?;
        walked.daily_returns().1.iter().for_each(|r| sums.add(*r));
        Ok::<Sums, String>(sums)
    };
    let own = sharpe(beliefs.clone())?;
    enough_days(own.days)?;
    if course.market.len() < 10 {
        return Err(format!("{} symbols; 10 are needed to let scores change hands", course.market.len()));
    }
    let rows = rows_by_tick(course, beliefs);
    let drawn = in_threads(DRAWS, threads, |draw| {
        let mut order: Vec<usize> = (0..course.market.len()).collect();
        shuffle(&mut order, &mut SplitMix::new(mix(seed) ^ mix(!(draw as u64))));
        Ok(sharpe(Arc::new(change_hands(beliefs, &rows, &order)))?.sharpe())
    });
    let drawn = drawn.into_iter().collect::<Result<Vec<f64>, String>>()?;
    Ok(ChanceTest::new("scores that change hands between symbols", own.sharpe(), drawn))
}

/// Shifts the positions of several symbols together by whole trading days, at least one either way. As many shifts as
/// [`ROWS`] rows allow, at least [`FEWEST`] where there are as many days, at most [`DRAWS`]. `Err` says why nothing is
/// judged.
pub fn shift_portfolio(
    course: &Course<'_>,
    decided: &Targets,
    seed: u64,
    threads: usize,
) -> Result<ChanceTest, String> {
    let days = PortfolioDays::new(course, decided);
    enough_days(days.count)?;
    let mut shifts: Vec<usize> = (1..days.count).collect();
    let rows: usize = days.symbols.iter().map(|symbol| symbol.places.len()).sum();
    draw_some(&mut shifts, (ROWS / rows.max(1)).clamp(FEWEST, DRAWS), seed);
    let sharpe = |targets: &Targets| {
        let walked = walk(course, &course.table.params, targets).map_err(|e| e.message)?;
        let mut sums = Sums::default();
        walked.daily_returns().1.iter().for_each(|r| sums.add(*r));
        Ok::<f64, String>(sums.sharpe())
    };
    let own = sharpe(decided)?;
    let drawn = in_threads(shifts.len(), threads, |at| sharpe(&days.shifted(shifts[at], decided.actions.len())));
    let drawn = drawn.into_iter().collect::<Result<Vec<f64>, String>>()?;
    Ok(ChanceTest::new("positions of all symbols shifted together by whole trading days", own, drawn))
}

/// Rows that all shifts of a portfolio walk through together, about; and shifts at the least: with fewer no p of 0.01
/// can be seen.
const ROWS: usize = 200_000_000;
const FEWEST: usize = 199;

fn enough_days(days: usize) -> Result<(), String> {
    if days >= LEAST_DAYS {
        return Ok(());
    }
    Err(format!("{days} trading days, and {LEAST_DAYS} are needed"))
}

/// Keeps so many of them, drawn without repetition, in their order.
fn draw_some(all: &mut Vec<usize>, some: usize, seed: u64) {
    if all.len() > some {
        shuffle(all, &mut SplitMix::new(mix(seed)));
        all.truncate(some);
        all.sort_unstable();
    }
}

fn shuffle(all: &mut [usize], random: &mut SplitMix) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}

/// `[ticks]` symbol and row of every score of that moment.
fn rows_by_tick(course: &Course<'_>, beliefs: &Beliefs) -> Vec<Vec<(usize, usize)>> {
    let mut rows = vec![Vec::new(); course.clock.times.len()];
    for symbol in 0..course.clock.symbols() {
        for row in course.clock.rows(symbol).filter(|row| beliefs[*row].is_some()) {
            rows[course.clock.tick[row] as usize].push((symbol, row));
        }
    }
    rows
}

/// Each symbol takes the score of the next one in `order` that has one at that moment.
fn change_hands(beliefs: &Beliefs, rows: &[Vec<(usize, usize)>], order: &[usize]) -> Beliefs {
    let mut changed: Beliefs = vec![None; beliefs.len()];
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, symbol)| place[*symbol] = at);
    for own in rows.iter().filter(|own| !own.is_empty()) {
        let mut there = own.clone();
        there.sort_unstable_by_key(|(symbol, _)| place[*symbol]);
        let next = there.iter().cycle().skip(1);
        for ((_, row), (_, from)) in there.iter().zip(next) {
            changed[*row] = beliefs[*from];
        }
    }
    changed
}

/// Daily returns, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    days: usize,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, r: f64) {
        self.days += 1;
        self.sum += r;
        self.squares += r * r;
    }

    /// Mean over deviation; 0 where returns do not vary.
    fn sharpe(&self) -> f64 {
        let n = self.days as f64;
        let variance = (self.squares - self.sum * self.sum / n) / (n - 1.0);
        if variance > 1e-24 { self.sum / n / variance.sqrt() } else { 0.0 }
    }
}

const DAY: i64 = 86_400_000_000_000;

/// The decisions of one symbol by trading day and time of day.
struct TradingDays {
    /// `[bars of the span]` what is wanted at each close: a decision holds until the next.
    wanted: Vec<Action>,
    /// `[bars]` the trading day of each, by its number in `first`.
    day: Vec<usize>,
    /// `[bars]` start behind midnight of its trading day, in nanoseconds.
    clock: Vec<i64>,
    /// `[days]` the first bar of each.
    first: Vec<usize>,
}

impl TradingDays {
    fn new(course: &Course<'_>, actions: &[Action]) -> TradingDays {
        let (bars, rows) = (&course.market[0], course.rows(0));
        let numbers = bars.instrument.session.trading_days(&bars.start[rows.clone()]);
        let mut days = TradingDays { wanted: Vec::new(), day: Vec::new(), clock: Vec::new(), first: Vec::new() };
        let (mut wanted, mut last) = (Action::target(0.0), i32::MIN);
        for (at, (row, number)) in rows.zip(&numbers).enumerate() {
            wanted = if actions[row].target.is_finite() { actions[row] } else { Action::target(wanted.target) };
            // A day that comes again after a later one belongs to that.
            if *number > last {
                last = *number;
                days.first.push(at);
            }
            days.wanted.push(wanted);
            days.day.push(days.first.len() - 1);
            days.clock.push(bars.start[row] - i64::from(last) * DAY);
        }
        days
    }

    /// `[shifts]` Sharpe ratio of a day, each with decisions of so many days later.
    fn sharpes(&self, course: &Course<'_>, shifts: &[usize]) -> Result<Vec<f64>, String> {
        let params = vec![course.table.params[0]; shifts.len()];
        let mut before = vec![params[0].capital; shifts.len()];
        let mut sums = vec![Sums::default(); shifts.len()];
        let shifted = Shifted { days: self, shifts, from: course.rows(0).start };
        let walked = walk_beside(course, &params, &shifted, |t, equity| {
            if self.day.get(t + 2) != Some(&self.day[t + 1]) {
                for ((sums, before), after) in sums.iter_mut().zip(&mut before).zip(equity) {
                    sums.add(if *before > 0.0 { after.max(0.0) / *before - 1.0 } else { 0.0 });
                    *before = *after;
                }
            }
        });
        walked.map_err(|e| e.message)?;
        Ok(sums.iter().map(Sums::sharpe).collect())
    }
}

/// The decisions of several symbols by trading day and time of day.
struct PortfolioDays {
    symbols: Vec<SymbolDays>,
    /// Trading days of all symbols together.
    count: usize,
}

/// The bars of one symbol in the span.
struct SymbolDays {
    /// The row of the first.
    from: usize,
    /// `[bars]` trading day, by its number among all, and when it became known behind midnight, in nanoseconds.
    places: Vec<(usize, i64)>,
    /// `[bars]` what is wanted at each close: a decision holds until the next.
    wanted: Vec<f64>,
}

impl PortfolioDays {
    fn new(course: &Course<'_>, decided: &Targets) -> PortfolioDays {
        // A close belongs to the day that ends with it.
        let known: Vec<i64> = course.clock.times.iter().map(|time| time - 1).collect();
        let numbers = course.market[0].instrument.session.trading_days(&known);
        let mut all: Vec<i32> = Vec::new();
        let mut symbols = Vec::new();
        for symbol in 0..course.market.len() {
            let (rows, first) = (course.rows(symbol), course.clock.rows(symbol).start);
            let ticks = rows.clone().map(|row| course.clock.tick[first + row] as usize);
            let days: Vec<(i32, i64)> = ticks.map(|t| (numbers[t], known[t] - i64::from(numbers[t]) * DAY)).collect();
            all.extend(days.iter().map(|(day, _)| day));
            let mut now = 0.0;
            let wanted = |row: usize| {
                let target = decided.actions[first + row].target;
                now = if target.is_finite() { target } else { now };
                now
            };
            let wanted = rows.clone().map(wanted).collect();
            symbols.push((first + rows.start, days, wanted));
        }
        all.sort_unstable();
        all.dedup();
        let number = |day: i32| all.partition_point(|other| *other < day);
        let place = |(from, days, wanted): (usize, Vec<(i32, i64)>, Vec<f64>)| SymbolDays {
            from,
            places: days.into_iter().map(|(day, clock)| (number(day), clock)).collect(),
            wanted,
        };
        PortfolioDays { symbols: symbols.into_iter().map(place).collect(), count: all.len() }
    }

    /// Decisions of so many days later, the last days followed by the first. What was not listed then is not held.
    fn shifted(&self, by: usize, rows: usize) -> Targets {
        let mut targets = Targets::none(rows);
        for SymbolDays { from, places, wanted } in &self.symbols {
            for (at, (day, clock)) in places.iter().enumerate() {
                let then = ((day + by) % self.count, *clock);
                let reached = places.partition_point(|place| *place <= then);
                let is_over = reached == places.len() && places.last().is_some_and(|last| last.0 < then.0);
                let now = if reached == 0 || is_over { 0.0 } else { wanted[reached - 1] };
                targets.actions[from + at] = Action::target(now);
            }
        }
        targets
    }
}

/// Decisions of so many days later, for each account. It remembers where it stands in the day that decisions are taken
/// from: the first bar that is not reached yet, and the end of that day.
struct Shifted<'a> {
    days: &'a TradingDays,
    /// `[accounts]`
    shifts: &'a [usize],
    /// The row of the first bar.
    from: usize,
}

impl Policy for Shifted<'_> {
    fn needs(&self) -> Needs {
        Needs { memory: 2, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> files::Result<()> {
        let TradingDays { wanted, day, clock, first } = self.days;
        for (((row, slot), own), action) in
            view.rows.iter().zip(view.slots).zip(memory.chunks_exact_mut(2)).zip(actions)
        {
            let t = *row as usize - self.from;
            if t == 0 || day[t - 1] != day[t] {
                let from = (day[t] + self.shifts[*slot as usize]) % first.len();
                let end = first.get(from + 1).copied().unwrap_or(day.len());
                (own[0], own[1]) = (first[from] as f64, end as f64);
            }
            let (mut next, end) = (own[0] as usize, own[1] as usize);
            let before = next;
            while next < end && clock[next] <= clock[t] {
                next += 1;
            }
            own[0] = next as f64;
            let now = if next == 0 { Action::target(0.0) } else { wanted[next - 1] };
            // A decision that is said again sets no stop and no limit.
            *action = if next > before { now } else { Action::target(now.target) };
        }
        Ok(())
    }
}
