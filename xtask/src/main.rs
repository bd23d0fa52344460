//! Checks and chores: `cargo xtask <verb>`.
//!
//! `test` is everything a change must pass, `soak` is for hours, `bench` is for figures, `rooms` keeps ARCHITECTURE.md
//! in step with `rooms.toml`, `kernels` compiles CUDA. What a verb needs beyond Rust (Python packages, cargo-fuzz,
//! large inputs) it installs or makes itself, in the cache folder ([`cache`]), never in the working tree; only a
//! browser is installed in the system ([`browser`]).
//!
//! Nothing here is part of the product, and nothing of the product is named here: this crate sees the rooms only
//! through `cargo` and through the `fullbore` binary, as a user would.

mod bench;
mod browser;
mod cache;
mod kernels;
mod licences;
mod process;
mod rooms;
mod soak;
mod test;
mod tidy;
mod today;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// An error is a sentence that says what to do.
type Result<T> = std::result::Result<T, String>;

const HELP: &str = "\
Checks and chores of Fullbore.

  cargo xtask test [ROOM]                 everything a change must pass; with ROOM (bars, files, cli, ...) only that room's tests
  cargo xtask rooms [--write]             compare rooms.toml, the Cargo.toml files and ARCHITECTURE.md; --write rewrites its tables
  cargo xtask licences                    no GPL, LGPL or AGPL, and no crate without a known licence
  cargo xtask tidy                        rules for code and prose that no lint holds
  cargo xtask kernels [--check]           compile .cu files that changed to PTX and cubins; --check compiles all and compares
  cargo xtask oracles [PART]              only the Python oracles; with PART the cases that have it in their name
  cargo xtask oracles --peers             the account beside vectorbt and backtesting.py; installs 1 GB the first time
  cargo xtask bench [NAME]                figures into bench/RESULTS.md; NAME is csv, convert, synth or features
  cargo xtask bench gpu [--ours PATH] [--python PATH] [--root PATH] [--only TEXT] [--case N,N] [--quick]
                                          nets on the GPU beside PyTorch; --ours is a built fullbore-bench, --python has torch, --root is the
                                          working tree, --only the cases with TEXT in their name, --case those of these numbers (from 1), --quick
                                          leaves out torch.compile; a section of some cases is shown, not written
  cargo xtask bench backtest              accounts through bars beside vectorbt
  cargo xtask bench cpu-net [the same]    nets on the CPU beside PyTorch
  cargo xtask bench classify [the same]   whole epochs of the two-timeframe classifier beside PyTorch, on the GPU; --ours is a built fullbore,
                                          --quick leaves out the curves of five seeds; cpu-classify is the same on the CPU
  cargo xtask bench ppo [the same] [--rounds N] [--seconds S] [--keep FILE]
                                          whole updates of policies beside JAX and PyTorch, on the GPU; --ours is a built fullbore-bench, --quick is
                                          one round without torch.compile and command buffers, --seconds is how long a process is timed, and what is
                                          in FILE is not measured again; cpu-ppo is the same on the CPU, beside Stable-Baselines3 too
  cargo xtask bench search [the same]     searches on the GPU beside mctx, and honest ones; --quick is one round; cpu-search is the same on the CPU
  cargo xtask bench evolve [the same]     whole generations of evolved policies on the GPU beside JAX, and individuals of low rank beside the
                                          plain pass of their net; cpu-evolve [--threads N,N] is the same on the CPU, beside evosax too, and
                                          beside other work
  cargo xtask soak fuzz [--minutes N] [--target T] [--sanitizer address|none]
                                          N minutes (default 10) on each fuzz target; outcome into bench/SOAK.md
  cargo xtask soak kill [--rounds N]      SIGKILL at N random instants (default 200) of `fullbore data add`; outcome into bench/SOAK.md
  cargo xtask soak writers [--rounds N] [--fullbore PATH]
                                          two and four `fullbore data add` at once under one name, N rounds (default
                                          1000); outcome into bench/SOAK.md
  cargo xtask soak kills [--learner lstm|ppo|evolve] [--algorithm NAME] [--times N] [--seed S] [--fullbore PATH]
                                          N SIGKILLs (default 100) to `fullbore train` and `runs resume` at random instants; every run must end
                                          with the bits of an undisturbed one; outcome into bench/SOAK.md
  cargo xtask soak memory [--updates N] [--device D] [--fullbore PATH]
                                          N updates (default 5000) of small policies, on the CPU unless told: the last tenth may hold 1.02 times the memory of the
                                          first, and the first validation comes within 5 s; outcome into bench/SOAK.md
  cargo xtask soak flips [--times N] [--seed S] [--fullbore PATH]
                                          N flipped bits (default 10000) in a model's folder; `fullbore predict` must refuse each; outcome into
                                          bench/SOAK.md

Environment: FULLBORE_CACHE (else XDG_CACHE_HOME/fullbore, else ~/.cache/fullbore) holds the virtual environments, tools and inputs;
FULLBORE_BROWSER names a Chromium for the oracle of reports, which is else looked for on the PATH, or installed with apt-get by root;
CI=true turns every skip into a failure but those for want of hardware (\"no GPU\", and instructions of the processor).";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] | ["help" | "-h" | "--help"] => {
            // `cargo xtask | head` may close the pipe early; that is no error.
            let _ = writeln!(std::io::stdout(), "{HELP}");
            Ok(true)
        }
        ["test"] => test::all(None),
        ["test", room] if !room.starts_with('-') => test::all(Some(room)),
        ["rooms"] => rooms::check().map(print_message),
        ["rooms", "--write"] => rooms::write().map(print_message),
        ["licences"] => licences::check().map(print_message),
        ["tidy"] => tidy::check().map(print_message),
        ["kernels"] => kernels::write().map(print_message),
        ["kernels", "--check"] => kernels::check().map(print_message),
        ["oracles"] => test::oracles_alone(None),
        ["oracles", "--peers"] => test::backtesters(),
        ["oracles", part] => test::oracles_alone(Some(part)),
        ["bench"] => bench::run(None).map(|()| true),
        ["bench", "gpu", flags @ ..] => bench::gpu(flags).map(|()| true),
        ["bench", "backtest"] => bench::backtest().map(|()| true),
        ["bench", "cpu-net", flags @ ..] => bench::cpu_net(flags).map(|()| true),
        ["bench", "classify", flags @ ..] => bench::classify(flags).map(|()| true),
        ["bench", "cpu-classify", flags @ ..] => bench::cpu_classify(flags).map(|()| true),
        ["bench", "ppo", flags @ ..] => bench::ppo(flags).map(|()| true),
        ["bench", "cpu-ppo", flags @ ..] => bench::cpu_ppo(flags).map(|()| true),
        ["bench", "search", flags @ ..] => bench::search(flags).map(|()| true),
        ["bench", "cpu-search", flags @ ..] => bench::cpu_search(flags).map(|()| true),
        ["bench", "evolve", flags @ ..] => bench::evolve(flags).map(|()| true),
        ["bench", "cpu-evolve", flags @ ..] => bench::cpu_evolve(flags).map(|()| true),
        ["bench", name] if !name.starts_with('-') => bench::run(Some(name)).map(|()| true),
        ["soak", "fuzz", flags @ ..] => soak::fuzz(flags),
        ["soak", "kill", flags @ ..] => soak::kill(flags),
        ["soak", "writers", flags @ ..] => soak::writers(flags),
        ["soak", "kills", flags @ ..] => soak::run_kills(flags),
        ["soak", "memory", flags @ ..] => soak::run_memory(flags),
        ["soak", "flips", flags @ ..] => soak::run_flips(flags),
        other => {
            eprintln!("`{}` is not a chore here.\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print_message(line: String) -> bool {
    println!("{line}");
    true
}

/// Where `--root` said that the working tree is.
static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// The root of the working tree. Where this program was carried to a machine without the tree it was built in, the
/// current folder.
fn root() -> PathBuf {
    if let Some(told) = ROOT.get() {
        return told.clone();
    }
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    if !here.exists() {
        return std::env::current_dir().unwrap_or_else(|_| ".".into());
    }
    here.parent().map(PathBuf::from).unwrap_or(here)
}
