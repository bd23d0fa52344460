//! What the decisions of a searcher stand beside: its net alone, the best that was possible, and doing nothing.
//!
//! The best is the *oracle*: it knows every bar of the course. It is marked, nothing is ever selected by it, and the
//! distance to it is the price of not knowing what comes.

use super::record::Walked;
use super::walk::{Course, decide, walk};
use crate::performance::{TrackRecord, performance, trading_days_per_year};
use account::{Account, Action, step};
use files::Result;
use market::{Constant, Policy, Targets, legal_sides};
use serde::{Deserialize, Serialize};

/// What somebody's decisions earned, net of costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Who decided.
    pub name: String,
    /// From the first equity to the last.
    pub total_return: f64,
    /// Of daily returns, per year.
    pub sharpe_annual: Option<f64>,
    /// Round trips.
    pub trades: usize,
    /// Whether it knew what comes: no such line is ever selected by.
    pub knows_the_future: bool,
}

impl Line {
    fn new(name: &str, walked: &Walked, knows_the_future: bool) -> Line {
        let (days, returns) = walked.daily_returns();
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let found = performance(&TrackRecord::new(&returns, per_year)).ok();
        let [first, last] = [walked.equity.first(), walked.equity.last()].map(|equity| equity.copied().unwrap_or(1.0));
        Line {
            name: name.into(),
            total_return: last / first - 1.0,
            sharpe_annual: found.and_then(|p| p.sharpe_annual.or(p.sharpe_annual_uncorrected)),
            trades: walked.trades.len(),
            knows_the_future,
        }
    }
}

/// The names of a searcher's own lines.
pub(super) const NET_ALONE: &str = "net alone";
pub(super) const WITH_SEARCH: &str = "net with search";

/// The four lines of a searcher, which has walked the course: its net alone, itself, the oracle, and nothing.
///
/// # Errors
///
/// The policy's own.
pub fn four_lines(course: &Course<'_>, net: &dyn Policy, searched: &Walked) -> Result<Vec<Line>> {
    let walked = |policy: &dyn Policy| walk(course, &course.table.params, policy);
    Ok(vec![
        Line::new(NET_ALONE, &walked(&decide(course, net)?)?, false),
        Line::new(WITH_SEARCH, searched, false),
        Line::new("ORACLE", &walked(&oracle(course))?, true),
        Line::new("flat", &walked(&Constant(0.0))?, false),
    ])
}

/// The decisions that earn most on the true path: dynamic programming over short, flat and long, each step by the
/// account itself, every cost counted. Of two ways to the same decision the one with more equity goes on. Several
/// symbols have an equal share each.
pub fn oracle(course: &Course<'_>) -> Targets {
    let mut best = Targets::none(course.clock.tick.len());
    let share = 1.0 / course.market.len() as f64;
    for symbol in 0..course.market.len() {
        let first = course.table.offsets[symbol];
        for (row, target) in best_positions(course, symbol) {
            best.actions[first + row] = Action::target(target * share);
        }
    }
    best
}

/// Rows of a symbol in the span, and the position to want at the close of each.
fn best_positions(course: &Course<'_>, symbol: usize) -> Vec<(usize, f64)> {
    let (rows, table, params) = (course.rows(symbol), course.table.symbol(symbol), &course.table.params[symbol]);
    let start: [Option<Account>; 3] = [None, Some(Account::new(params)), None];
    let mut states = start;
    // Where each decision came from, [steps, 3].
    let mut from: Vec<[u8; 3]> = Vec::new();
    for t in rows.start..rows.end.saturating_sub(1) {
        let mut next = table[t + 1];
        if t + 2 == rows.end {
            next.close_out = 1.0;
        }
        let legal = legal_sides(params, &table[t]);
        let (mut reached, mut came): ([Option<Account>; 3], [u8; 3]) = ([None; 3], [1; 3]);
        for action in (0..3).filter(|action| legal[*action]) {
            // Keeping comes first, so that of equals nothing is traded.
            for before in [action, 1, 0, 2] {
                let Some(mut account) = states[before] else { continue };
                step(params, &mut account, Action::target(action as f64 - 1.0), &table[t], &next);
                if reached[action].as_ref().is_none_or(|best| account.equity > best.equity) {
                    (reached[action], came[action]) = (Some(account), before as u8);
                }
            }
        }
        from.push(came);
        states = reached;
    }
    let equity = |state: usize| states[state].as_ref().map_or(f64::NEG_INFINITY, |account| account.equity);
    let mut at = [0, 2].into_iter().fold(1, |best, state| if equity(state) > equity(best) { state } else { best });
    let mut found: Vec<(usize, f64)> = Vec::with_capacity(from.len());
    for (step, came) in from.iter().enumerate().rev() {
        found.push((rows.start + step, at as f64 - 1.0));
        at = usize::from(came[at]);
    }
    found
}
