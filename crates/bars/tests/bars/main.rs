//! The room as its users see it: a path or bytes in, bars and an audit out.
//!
//! `layouts` walks every layout people bring, `real` the files of `../shared/data`, `torture` what nobody should bring,
//! `store` the way to disk and back, `audit` planted defects and the policies that mend them, `wrong` data that a user
//! would not notice, `regressions` mistakes that were made once. `make` builds the containers by hand, so that no
//! reader is tested with its own writer alone.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod audit;
mod layouts;
mod make;
mod real;
mod regressions;
mod store;
mod torture;
mod wrong;

use bars::audit::Audit;
use bars::{Bars, Market, Options};
use std::path::Path;

/// Reads a path with these options.
fn read(path: &Path, options: &Options) -> files::Result<(Market, Audit)> {
    bars::read(path, options, &|_| {})
}

/// Nanoseconds of a stamp written as `2024-01-02 03:04:05`.
fn at(text: &str) -> i64 {
    files::time::parse(text.as_bytes(), files::time::Order::Ymd).unwrap().ns
}

/// Whether two series are the same to the bit, NaN included.
fn same(a: &Bars, b: &Bars) -> bool {
    let bits = |v: &[f64]| v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect::<Vec<_>>();
    let numbers = |x: &Bars| [&x.open, &x.high, &x.low, &x.close, &x.volume].map(|v| bits(v));
    let extras = |x: &Bars| x.extras.iter().map(|(name, v)| (name.clone(), bits(v))).collect::<Vec<_>>();
    (&a.symbol, a.timeframe, &a.start, &a.end, numbers(a), extras(a))
        == (&b.symbol, b.timeframe, &b.start, &b.end, numbers(b), extras(b))
}
