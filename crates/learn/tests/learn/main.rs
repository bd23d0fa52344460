//! The tests of this room that use it from outside.

mod bandit;
#[path = "../bandit/mod.rs"]
mod bandit_learner;
mod classify;
mod evolve;
mod evolve_evosax;
mod expert;
mod made;
mod noise;
mod pbt;
mod ppo;
mod ppo_torch;
