//! The tests of this room that use it from outside.

mod classify;
mod made;
mod noise;
