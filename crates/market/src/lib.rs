//! Accounts on the table: what bars mean for money, what an account is shown, and who decides.
//!
//! 1. [`PriceTable`] turns bars into rows of [`account::Bar`]: prices in f64, exchange rates, what falls due, and what
//!    was known at each close to size and price an order.
//! 2. [`Environment`] lets accounts live through episodes on that table, and [`observe`] says what they are shown.
//! 3. A [`Policy`] decides, from rows of the table and what accounts are shown; [`Targets`] are decisions that are
//!    known beforehand.
//!
//! **What sizes or prices an order is known at the close before it.** What happens (prices, funding, dividends,
//! financing) belongs to its bar, is booked there, and never enters an observation.

mod currency;
mod environment;
mod flows;
mod known;
mod observation;
mod observation_simd;
mod options;
mod policy;
mod table;

pub use environment::{Environment, EpisodeData, STATE, count_starts, row_times};
pub use flows::Funding;
pub use observation::{OBSERVED, OBSERVED_NAMES, RowTime, legal_sides, observe};
pub use observation_simd::{OWN, observe_lanes};
pub use options::{AccountOptions, FlatBefore, Sizing};
pub use policy::{Constant, Needs, Policy, Targets, View};
pub use table::{CAPITAL, PriceTable};
