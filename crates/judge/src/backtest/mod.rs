//! Does it earn? Decisions walk through an account, every cost counted (docs/method.md, Backtest).
//!
//! [`walk`] asks a [`market::Policy`] at every close and takes what it decides through one [`account::Account`], or
//! through one [`account::Portfolio`] where there are several symbols, and keeps what happened: equity, fills, round
//! trips, costs. Rules, files, constants and classifiers ([`Follower`]) are policies; no learner is known here.
//! [`backtest`] does so at several multiples of the costs and a bar late, and makes the [`Backtest`] record of it
//! beside buying and holding. [`shift_positions`], [`shift_portfolio`] and [`permute_scores`] say what the same
//! trading earns by chance.
//!
//! **A backtest is no episode.** It holds through holes, invalid bars and borders of folds, the gap counted. A
//! suspected split or the end of a symbol's data closes its position at the last close, at cost, and is listed.

mod beside;
mod chance;
mod figures;
mod latency;
mod lines;
mod record;
mod signals;
mod walk;

pub use beside::{Lane, LaneEnd, decide_beside};
pub use chance::{ChanceTest, permute_scores, shift_portfolio, shift_positions};
pub use figures::{Backtest, CostMultiple, CostShares, Incidents, Part, backtest};
pub use latency::{DecisionTime, Latency, format_decision, latency};
pub use lines::{Line, four_lines, oracle};
pub use record::{Incident, PositionRow, Trade, Walked};
pub use signals::{
    Beliefs, Calibration, Exit, Follower, PortfolioRule, SignalRule, Tried, Weighting, choose_threshold, try_thresholds,
};
pub use walk::{Course, buy_and_hold, decide, decide_beforehand, walk};

#[cfg(test)]
mod tests;
