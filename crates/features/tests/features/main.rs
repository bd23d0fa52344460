//! The room as its users see it: a market and a feature set in, tables out, and the same from a stream.
//!
//! `make` builds markets with everything that happens to data; `streams` holds the stream against the table, `tables`
//! walks threads, company and degenerate input, `plans` the errors of a set, `leaks` hunts for the future.

mod leaks;
mod make;
mod plans;
mod streams;
mod tables;
