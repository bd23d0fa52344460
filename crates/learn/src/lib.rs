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
//!
//! Two members of one fold, which differ in their seed alone, learn what one column knows:
//!
//! ```
//! use compute::population::{Precision, Recipe};
//! use compute::{Budget, Choice, Opened};
//! use features::{Fold, FoldKind, FoldSpans, Samples, Span};
//! use learn::classify::{Classify, Spec};
//! use learn::{Config, DeviceBudget, Hooks, Input, Plan, Problem, train};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let class: Vec<i8> = (0..400).map(|t| if t / 3 % 2 == 0 { -1 } else { 1 }).collect();
//! let values = class.iter().flat_map(|class| [f32::from(*class), 0.0, 0.0, 0.0]).collect();
//! let input = Input { name: "row".into(), columns: vec!["known".into()], stride: 4, values, map: None, window: 0 };
//! let (t0, t1) = ((0..400).collect(), (1..401).collect());
//! let samples = Samples { rows: (0..400).collect(), t0, t1, class, weight: vec![1.0; 400] };
//! let problem = Problem { inputs: vec![input], ids: 400, classes: 2, samples, ..Problem::default() };
//! let span = |from, to| Span::new(from, to).expect("it starts before it ends");
//! let spans = FoldSpans { train: span(0, 300), valid: span(301, 350), test: span(351, 401) };
//! let (train_on, valid, test) = ((0..299).collect(), (301..349).collect(), (351..400).collect());
//! let kind = FoldKind::Forward;
//! let fold = Fold { number: 0, kind, train: train_on, valid, test, spans, purged: 4, embargoed: 0 };
//!
//! let recipe = Recipe::new(32, Precision::F32, 1);
//! let configs = vec![Config { net: "row:1 / 4 / direction:2".parse()?, recipe, rate: 0.02 }];
//! let score = |score: &compute::population::Score| -score.loss;
//! let spec = Spec { configs, epochs: 20, stop_after: None, patience: 20, seeds: 2, balance: true, score };
//! let learner = Classify::new(&Arc::new(problem), &[fold], spec)?;
//! let at = DeviceBudget { device: Opened::new(Choice::Cpu, 2)?.0, budget: Budget::default() };
//! let plan = Plan::new(&learner, &at)?;
//! let hooks = &mut Hooks { event: &mut |_| {}, stop: &|| false, save: &mut |_| Ok(()), every: 0 };
//! let outcome = train(&learner, &plan, &at, None, hooks)?;
//! assert_eq!(outcome.members.len(), 2);
//! assert!(outcome.members.iter().all(|member| member.best.as_ref().is_some_and(|best| best.score > -0.1)));
//! # Ok(())
//! # }
//! ```

pub mod checkpoint;
pub mod classify;
mod error;
pub mod evolve;
pub mod expert;
mod learner;
mod member;
mod noise;
mod os;
mod pacer;
mod plan;
mod policies;
pub mod ppo;
mod problem;
pub mod ready;
mod run;
pub mod scale;
mod state;

pub use error::failed;
pub use features::Input;
pub use learner::{Config, DeviceBudget, Learner, Progress, Score, Snapshot, Training};
pub use member::{Best, Extent, Last, MemberKey, Metrics, Stopped, Trained, Validation};
pub use noise::{Noise, NoisePhase, NoiseSpec};
pub use pacer::Pacer;
pub use plan::{Group, Plan};
pub use policies::PolicySpec;
pub use problem::Problem;
pub use run::{CHECKPOINT_EVERY, Hooks, Outcome, RunEvent, Spent, train};
pub use state::TrainState;
