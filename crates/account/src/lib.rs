//! The one bar kernel: positions become money, with every cost counted once.
//!
//! [`step`] takes an account from the close of one bar to the close of the next. The backtest, the environment of a
//! learner, the paper account and the check of a live account all call it; there is no second accounting.
//!
//! 1. *Decide* at the close of bar t: the action becomes a target quantity, from equity and close of that bar.
//! 2. *Open* of bar t+1: the old position carries the gap, pays and receives what falls due, then the order fills, cut
//!    to what margin and volume allow, at the open moved by half the spread and the impact.
//! 3. *Inside* the bar the position may be stopped out or liquidated, the pessimistic exit first.
//! 4. *Close* of bar t+1: the account is marked. `reward = ln E(close t+1) - ln E(close t)`.
//!
//! Money is f64 in one currency; arithmetic is `+ - * /`, square root, comparisons and floor, so that a twin on another
//! device can give the same bits. [`Accounts`] is the twin over lanes, for many accounts at once; `step.cuh` and
//! `portfolio.cuh` are the twins that kernels of other rooms include, and [`Params::numbers`] and its like are what
//! they read. [`Portfolio`] holds several symbols with one balance and one margin.
//!
//! Left out: where bars and flows come from (`market`), which orders are wise (a policy), and inverse contracts, whose
//! profit is in the coin that is traded.
//!
//! ```
//! use account::{Account, Action, Bar, Params, step};
//!
//! let params = Params { fee: 0.001, ..Params::default() };
//! let mut account = Account::new(&params);
//! let bars = [Bar::flat(100.0), Bar::flat(100.0), Bar { open: 100.0, high: 110.0, close: 110.0, ..Bar::flat(100.0) }];
//!
//! // All of the equity goes long at the next open, less the fee; the bar after that gains 10 %.
//! step(&params, &mut account, Action::target(1.0), &bars[0], &bars[1]);
//! let outcome = step(&params, &mut account, Action::target(1.0), &bars[1], &bars[2]);
//! assert!((account.equity - 100_000.0 / 1.001 * 1.1).abs() < 1e-6);
//! assert!((outcome.reward - (account.equity / (100_000.0 / 1.001)).ln()).abs() < 1e-12);
//! ```

mod bar;
mod batch;
mod lanes_simd;
mod layout;
mod logarithm;
mod params;
mod portfolio;
mod show;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use bar::Bar;
pub use batch::{Accounts, GROUP, Orders, Seen};
pub use logarithm::ln_1p;
pub use params::Params;
pub use portfolio::{Portfolio, PortfolioOutcome, SymbolFill};
pub use show::{SHOWN, shown};
pub use state::{Account, Action, Event, Events, Fill, Flows, Holding, Outcome};
pub use step::{close_out, step};
