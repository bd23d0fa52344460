//! Accounts on the table: what bars mean for money, what an account is shown, and who decides.
//!
//! 1. [`PriceTable`] turns bars into rows of [`account::Bar`]: prices in f64, exchange rates, what falls due, and what
//!    was known at each close to size and price an order.
//!
//! **What sizes or prices an order is known at the close before it.** What happens (prices, funding, dividends,
//! financing) belongs to its bar, is booked there, and never enters an observation.

mod currency;
mod flows;
mod known;
mod options;
mod table;

pub use flows::Funding;
pub use options::{AccountOptions, FlatBefore, Sizing};
pub use table::{CAPITAL, PriceTable};
