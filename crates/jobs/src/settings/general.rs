//! What every verb that works for a while takes: memory, threads, seed.

use super::form::{Form, parsed, whole};
use super::key::section;
use crate::memory::Memory;

section! {
    /// What every verb that works for a while takes.
    GeneralSettings at general, "";

    /// Memory limit; auto is half of what is available, or 80 % of what is free on a GPU.
    memory: Memory = Memory::Auto, parsed("8GiB, 512MiB (64MiB at least), 80% or auto").flag("memory", "SIZE");
    /// Number of threads; auto is every core.
    threads: Option<usize> = None, whole(1..=4096).or_auto().flag("threads", "N");
    /// Random seed: the same seed gives the same result.
    seed: u64 = 1, whole_u64().flag("seed", "N");
}

/// A whole number from 0, as TOML can write it.
fn whole_u64() -> Form<u64> {
    let read = |value: &toml::Value| value.as_integer().and_then(|v| u64::try_from(v).ok()).ok_or(None);
    Form::new("a whole number from 0", read, |value| toml::Value::Integer(*value as i64)).range()
}
