//! `fullbore`: words in, wiring, exit code. The only place that prints.
//!
//! `args` is what was typed, `flags` what of it is a setting; `commands` has one file a verb; `out` is the one door to
//! standard output; `fail` turns errors into words, JSON and exit codes; `progress` draws on standard error;
//! `interrupt` hears Ctrl-C; `show` makes figures readable; `terminal` takes the whole screen and gives it back.
//!
//! Exit codes: 0 done; 1 the answer is no; 2 usage; 3 bad input; 4 machine; 5 run state; 70 our bug; 130 interrupted.

mod args;
mod commands;
mod fail;
mod flags;
mod interrupt;
mod os;
mod out;
#[cfg(test)]
#[path = "../tests/cli/pages.rs"]
mod pages;
mod progress;
mod show;
mod terminal;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Where there is no memory the last word is an error like any other.
#[global_allocator]
static ALLOCATOR: compute::allocator::Allocator = compute::allocator::Allocator;

fn main() -> ExitCode {
    fail::quiet_panics();
    let typed: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let (json, schema) = args::peek_json_and_schema(&typed);
    interrupt::listen(json, schema);
    fail::explain_exhausted_memory(json, schema);
    let ended = catch_unwind(AssertUnwindSafe(|| commands::run(&typed, json, schema)));
    let code = match ended {
        Ok(Ok(code)) => code,
        Ok(Err(fail::Failure::Closed)) => 0,
        Ok(Err(fail::Failure::Error(error))) => fail::report(&error, json, schema, &typed),
        Err(payload) => fail::bug(payload.as_ref(), json, schema),
    };
    ExitCode::from(code)
}
