//! Nets and the ways to fit them, always as a population. It is handed folds as data and knows no symbol by name.

pub mod checkpoint;
mod problem;
pub mod ready;

pub use problem::{Input, Problem};
