//! Nets and the ways to fit them, always as a population. It is handed folds as data and knows no symbol by name.
//!
//! [`Problem`] is what there is to learn from ([`ready`] makes one of arrays that people have), [`scale`] each fold's
//! own scaling, [`classify`] trains classifiers, [`checkpoint`] keeps states from which a run goes on.

pub mod checkpoint;
pub mod classify;
mod error;
mod problem;
pub mod ready;
pub mod scale;

pub use error::failed;
pub use features::Input;
pub use problem::Problem;
