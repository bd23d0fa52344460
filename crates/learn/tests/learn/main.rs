//! The tests of this room that use it from outside.

mod bandit;
mod classify;
mod made;
mod noise;
