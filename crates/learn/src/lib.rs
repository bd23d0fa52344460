//! Nets and the ways to fit them, always as a population. It is handed folds as data and knows no symbol by name.
//!
//! [`Problem`] is what there is to learn from ([`ready`] makes one of arrays that people have), [`scale`] each fold's
//! own scaling. A way of learning is a [`Learner`] and its [`Training`]; [`classify`] is one. Every fold, every seed
//! and every set of hyper-parameters (a config) is a member: a [`Plan`] says which train at once, [`train`] is the loop
//! for all of them, [`TrainState`] is where a run goes on from, and [`checkpoint`] keeps it on disk.
//!
//! **What a member becomes depends on its config, its fold and its seed**: not on its group, its neighbours, the number
//! of threads, or on how often the run was cut and continued. Where the memory is not enough for one member, batches go
//! through the net in parts: the same training but for the order of sums, so the parts are kept in every checkpoint
//! ([`TrainState::pace`]) and a run that goes on has the same.

pub mod checkpoint;
pub mod classify;
mod error;
mod learner;
mod member;
mod pacer;
mod plan;
mod problem;
pub mod ready;
mod run;
pub mod scale;
mod state;

pub use error::failed;
pub use features::Input;
pub use learner::{Config, DeviceBudget, Learner, Progress, Score, Snapshot, Training};
pub use member::{Best, Extent, Last, MemberKey, Metrics, Stopped, Trained, Validation};
pub use pacer::Pacer;
pub use plan::{Group, Plan};
pub use problem::Problem;
pub use run::{Hooks, Outcome, RunEvent, Spent, train};
pub use state::TrainState;
