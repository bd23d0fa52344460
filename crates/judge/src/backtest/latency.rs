//! How long a decision takes where it is asked for as live trading does: one close at a time, about every symbol that
//! has a bar then.
//!
//! A backtest asks about several closes and accounts at once, so its own pace says little of that. Seconds depend on
//! the machine and on what else it does: they belong to no result that has to come out the same again.

use super::walk::{Asking, Course, Moments, times_of};
use account::Account;
use files::{Result, format_fixed, format_seconds};
use market::{Policy, legal_sides, observe};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What decisions took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecisionTime {
    /// Closes that were timed, evenly spread.
    pub closes: usize,
    /// Seconds of a decision about all symbols of a close, in the median.
    pub median_seconds: f64,
    /// The same at the 99th percentile.
    pub p99_seconds: f64,
    /// That as a share of the length of a bar.
    pub share_of_bar: f64,
}

/// What decisions of a searcher took, beside those of its net.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The length of a bar.
    pub bar_seconds: f64,
    /// The share of it that a decision may take.
    pub budget_share: f64,
    /// The net alone.
    pub net_alone: DecisionTime,
    /// The net with search.
    pub with_search: DecisionTime,
}

impl Latency {
    /// What decisions took by the name of their line; none of others.
    pub fn of_line(&self, name: &str) -> Option<&DecisionTime> {
        match name {
            super::lines::NET_ALONE => Some(&self.net_alone),
            super::lines::WITH_SEARCH => Some(&self.with_search),
            _ => None,
        }
    }

    /// That a decision with search takes longer than it may, where it does.
    pub fn note(&self) -> Option<String> {
        let DecisionTime { p99_seconds, share_of_bar, .. } = self.with_search;
        (share_of_bar > self.budget_share).then(|| {
            format!(
                "on this machine one decision of a hundred with search takes {} or longer, {} % of a bar; the budget is \
                 {} % (<search.latency>): fewer <search.simulations> or <search.scenarios> are faster",
                format_decision(p99_seconds),
                format_fixed(100.0 * share_of_bar, 1),
                format_fixed(100.0 * self.budget_share, 1)
            )
        })
    }
}

/// `25 µs`, `3.2 ms`, `420 ms`, `3.2 s`
pub fn format_decision(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", format_fixed(1e6 * s, 0)),
        s if s < 0.1 => format!("{} ms", format_fixed(1e3 * s, 1)),
        s => format_seconds(s),
    }
}

/// Closes that are timed, at most and at least, and the seconds that are enough for fewer than the most.
const MOST: usize = 200;
const LEAST: usize = 20;
const ENOUGH: f64 = 3.0;

/// Times decisions of a net and of the searcher that it guides on a course; `searches` `[rows]` is the fold that
/// searches there. None where nobody searches.
///
/// # Errors
///
/// The policies' own.
pub fn latency(
    course: &Course<'_>,
    [net, searcher]: [&dyn Policy; 2],
    searches: &[Option<u16>],
    (bar_seconds, budget_share): (f64, f64),
) -> Result<Option<Latency>> {
    let timed = |policy: &dyn Policy| time_decisions(course, policy, searches, bar_seconds);
    let (Some(net_alone), Some(with_search)) = (timed(net)?, timed(searcher)?) else { return Ok(None) };
    Ok(Some(Latency { bar_seconds, budget_share, net_alone, with_search }))
}

fn time_decisions(
    course: &Course<'_>,
    policy: &dyn Policy,
    searches: &[Option<u16>],
    bar_seconds: f64,
) -> Result<Option<DecisionTime>> {
    let moments = Moments::of(course);
    let fold_at = |at: usize| moments.at(at).rows.iter().find_map(|row| searches[*row as usize]);
    let closes: Vec<usize> = (0..moments.len()).filter(|at| fold_at(*at).is_some()).collect();
    let (table, times) = (course.table, times_of(course, policy));
    let mut asking = Asking::new(policy, course.market.len());
    let mut ask = |at: usize| -> Result<f64> {
        let show = |row: usize, symbol: usize, observed: &mut [f32], legal: &mut [bool]| {
            let (params, bar) = (&table.params[symbol], &table.bars[row]);
            observe(params, &Account::new(params), bar, times[row], observed);
            legal.copy_from_slice(&legal_sides(params, bar));
        };
        let clock = Instant::now();
        asking.ask(moments.at(at), show, None)?;
        Ok(clock.elapsed().as_secs_f64())
    };
    let Some(first) = closes.first() else { return Ok(None) };
    // What is made ready for the first decision of a fold is ready long before it in live trading.
    ask(*first)?;
    let count = ((ENOUGH / ask(*first)?.max(1e-9)) as usize).clamp(LEAST, MOST).min(closes.len());
    let (mut seconds, mut last) = (Vec::with_capacity(count), fold_at(*first));
    for i in 0..count {
        let at = closes[i * closes.len() / count];
        if fold_at(at) != last {
            ask(at)?;
            last = fold_at(at);
        }
        seconds.push(ask(at)?);
    }
    seconds.sort_unstable_by(f64::total_cmp);
    let p99_seconds = seconds[(99 * count).div_ceil(100) - 1];
    Ok(Some(DecisionTime {
        closes: count,
        median_seconds: seconds[count / 2],
        p99_seconds,
        share_of_bar: p99_seconds / bar_seconds,
    }))
}
