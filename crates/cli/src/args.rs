//! What may be typed.

use crate::flags::{self, Flags};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Trains trading models at the speed of the hardware.
#[derive(Debug, Parser)]
#[command(
    name = "fullbore",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "\
Examples:
  fullbore demo                          a market made, read, audited, trained on, on one page
  fullbore probe                         what this machine is, and how fast
  fullbore bench net                     how fast a net trains here
  fullbore data audit prices.csv         what is in this file, and may it be used?
  fullbore data add ~/bars --name mine   any folder of bars into the catalogue
  fullbore data list                     what is in the catalogue
  fullbore features prices.csv           indicators and labels as a table
  fullbore train prices.csv              classifiers, walked forward and judged
  fullbore tune prices.csv               the batch that learns fastest here, for later runs
  fullbore monitor                       how the newest run is getting on

Exit codes: 0 done, 1 the answer is no, 2 usage, 3 bad input, 4 machine, 5 run state, 70 a bug, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags that mean the same on every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print one JSON object on standard output, also on failure
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Read settings from a TOML file, or from a run folder
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Change one setting, as in --set repair.order=refuse
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// No progress on standard error
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a synthetic market, read it, audit it, train on it, and show it on one page
    Demo(Demo),
    /// Say what this machine is, how fast, and how full
    Probe(Probe),
    /// Time work on this machine
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Box<Bench>),
    /// Bars: look at them, take them in, make them, list them
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "\
Examples:
  fullbore data audit prices.csv
  fullbore data add ~/bars --name mine
  fullbore data synth --kind crypto --timeframe 5m --years 6 --count 1
  fullbore data list"
    )]
    Data(Box<Data>),
    /// Compute indicators and labels, and write them as a table
    Features(Box<Features>),
    /// Train classifiers: every fold and seed side by side, judged on what they never saw
    Train(Box<Train>),
    /// Choose batch, precision, threads and members at once for a training, without training
    Tune(Box<Tune>),
    /// Ask a trained model for the probabilities of down, flat and up
    Predict(Box<Predict>),
    /// Runs: list them, show one, go on with one
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "\
Examples:
  fullbore runs list
  fullbore runs show runs/gold-lstm-2026-11-15
  fullbore runs resume runs/gold-lstm-2026-11-15"
    )]
    Runs(Box<Runs>),
    /// Watch a run: metrics, machine, time left; the run does not notice
    Monitor(Monitor),
    /// Hunt for mistakes that make results too good to be true
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "\
Examples:
  fullbore check lookahead prices.csv --features my-set.txt
  fullbore check selftest"
    )]
    Check(Box<Check>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// Say whether any feature or label knows what was not known yet
    Lookahead(Lookahead),
    /// Say whether training finds a signal that was planted, and nothing where there is nothing
    Selftest(Selftest),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List the runs in a folder
    List(RunsList),
    /// Say what a run is, how far it came and what it found
    Show(RunsShow),
    /// Go on with a run that was cut, to the same end
    Resume(RunsResume),
}

#[derive(Debug, Args)]
pub(crate) struct RunsList {
    /// Folder of runs
    #[arg(default_value = "runs", value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RunsShow {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run goes on with its own settings: only --threads and --memory may change, --set and --settings are refused."
)]
pub(crate) struct RunsResume {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
RUN is a run's folder, its name under runs/, or a folder of runs, of which the newest is taken.
Keys: q leaves (the run goes on), tab and arrows pick metric and member, space pauses, ? helps.
Plain lines come with --once, and where standard output is not a terminal.

Examples:
  fullbore monitor                               the newest run under runs/
  fullbore monitor gold-lstm-2026-11-15
  fullbore monitor --once                        how far it is, in a few lines
  watch -n 60 fullbore monitor --json            for programs")]
pub(crate) struct Monitor {
    /// The run [default: the newest under runs/]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Say how it stands in plain lines, and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
DATA is bars (any file, folder or name in the catalogue), or a ready .npz with x_fast [N,T,F],
x_slow, x_strategy and labels. The learner lstm reads two windows and a row (features
two_timeframe); mlp reads one row of indicators (features full, or universe where there are 20
symbols or more). Of ready arrays --symbols, --from and --to take samples by symbol, t0 and t1.
On a card --memory is of the card's own: auto is 80 % of what is free there.

Examples:
  fullbore train XAUUSD.csv                                 the two-timeframe LSTM, 8 folds, 2 seeds
  fullbore train mine --learner mlp --seeds 4               the indicator net over all symbols
  fullbore train mine --dry-run                             split, plan, memory and time; nothing is done
  fullbore train mine --budget 10m                          as much as ten minutes allow
  fullbore train mine --try rate=1e-3,3e-4 --try decay=0,0.1    four configs, chosen by validation
  fullbore train windows.npz --label-horizon 12 --batch-size 3072 --epochs 500
  fullbore train mine --net \"fast:16x50-lstm64d10 + slow:12x24-lstm24 + strategy:9 / 32 / way:3\"

Of several configs the one with the best validation up to a fold is taken for that fold, and every
config is a trial. Every trial is written to the ledger when it starts. Ctrl-C saves; `fullbore runs resume RUN` goes on.")]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) what: Learned,
    #[command(flatten)]
    _flags: Flags<flags::Train>,
    /// Fit folds, seeds and epochs into a time: 90s, 10m, 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<String>,
    /// Run folder [default: runs/NAME-LEARNER-DATE]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Say what would be done, with memory and time, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What is learned from what, and where: the same for `train` and `tune`.
#[derive(Debug, Args)]
pub(crate) struct Learned {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    _flags: Flags<flags::Learn>,
    /// auto, cpu, cuda or cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Real steps of the real net on the real data are timed, batch by batch, within the memory budget; the
gradient noise scale says how large a batch still helps learning. What is chosen is kept in
tuned.json at home, and `fullbore train` of the same workload (net, size of the data, labels, device,
version) with --batch-size auto takes it, says so, and writes it into its run folder.
On a card --memory is of the card's own: auto is 80 % of what is free there.

Examples:
  fullbore tune XAUUSD.csv                                  for the two-timeframe LSTM
  fullbore tune mine --learner mlp --seeds 4                for the indicator net
  fullbore tune mine --budget 2m                            look longer
  fullbore tune mine --json | jq .chosen
  fullbore train mine --no-tuned                            train by the fixed rule all the same

The weights it trains for a moment are thrown away. Nothing is written but tuned.json.")]
#[command(mut_arg("train.precision", |arg| arg.help("f32, tf32, bf16, or auto for what is fastest here")))]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) what: Learned,
    #[command(flatten)]
    _flags: Flags<flags::Tune>,
    /// About so long at most, reading apart: 10s, 2m [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each bar is judged by the newest fold whose test had begun when the bar became known; members are
averaged. Bars are read as they were for the training: zone, stamps, repairs, factors, membership
and sessions come with the model. What is said here wins over that, and is named in the notes.
On a card --memory is of the card's own: auto is 80 % of what is free there.

Examples:
  fullbore predict runs/gold-lstm-2026-11-15 XAUUSD.csv
  fullbore predict runs/gold-lstm-2026-11-15 XAUUSD.csv --members --out by-member.parquet")]
pub(crate) struct Predict {
    /// The run's folder, or the model in it
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// A file, a folder, or a name in the catalogue
    pub(crate) data: String,
    /// The probabilities, as Parquet [default: NAME-predictions.parquet]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// A row for each member instead of their mean
    #[arg(long)]
    pub(crate) members: bool,
    /// auto, cpu, cuda or cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Convert bars to Parquet in the catalogue
    Add(Add),
    /// Say what is in a file or folder, and whether it may be used
    Audit(Audit),
    /// Make a market of known properties from a seed
    Synth(Synth),
    /// List the catalogue
    List(List),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore demo
  fullbore demo --quick
  fullbore demo --out /tmp/demo --seed 7
  fullbore demo --json | jq .training.found")]
pub(crate) struct Demo {
    /// Folder for the page, the data and the run [default: runs/demo-DATE]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Train a smaller net for a few seconds instead of a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the training runs: auto, cpu, cuda, cuda:1
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(crate) device: String,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore probe                look and measure, a second or two; keeps the machine's profile
  fullbore probe --quick        does the accelerator work? within 5 seconds, and nothing is written
  fullbore probe --watch 60     cores, memory and GPUs, a line a second
  fullbore probe --json | jq .cpu_rates

--quick exits with 0 where the accelerator works or there is none, with 4 where there is one that cannot be used.")]
pub(crate) struct Probe {
    /// Only say whether the accelerator works
    #[arg(long, conflicts_with = "watch")]
    pub(crate) quick: bool,
    /// Show how full the machine is, once a second
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// How fast a net trains and infers here, batch by batch
    Net(BenchNet),
}

#[derive(Debug, Args)]
#[command(after_help = "\
A net in words: 64-128-128-3 reads 64 features, has two layers of 128 (ReLU) and 3 classes; t
behind a width is tanh; fast:16x50-64t + slow:12-32 / 128 / direction:3 has two inputs (one of
them 50 rows of 16), a layer each, a common one, and a head; 16x50-lstm64-3 walks through its
50 rows with an LSTM of 64 units.

On a card --memory is of the card's own: auto is 80 % of what is free there.

Examples:
  fullbore bench net                                          a small classifier
  fullbore bench net 128-2048-1024-512-3 --batch 1024,4096    a wide one
  fullbore bench net 64-128-128-3 --members 64                64 of them side by side
  fullbore bench net --device cpu --threads 1 --json")]
pub(crate) struct BenchNet {
    /// The net
    #[arg(default_value = "64-128-128-3")]
    pub(crate) net: String,
    /// Rows of a batch, for each member
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "16,64,512,1024,3072,4096,16384,65536",
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) batch: Vec<u32>,
    /// Members side by side, each with weights of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4095))]
    pub(crate) members: u32,
    /// auto (bf16 on a card, f32 on a processor), f32, tf32 or bf16
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(crate) precision: String,
    /// auto, cpu, cuda or cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Seconds for each cell of the table
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    pub(crate) seconds: f64,
    /// Choose the algorithms of matrix products by the clock first; for NVIDIA cards
    #[arg(long)]
    pub(crate) tune: bool,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

/// What to read, and how.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A file, a folder, or a name in the catalogue
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) how: How,
}

/// Which part of the data, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Only these symbols
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) symbols: Vec<String>,
    /// Only bars that start at or after this (UTC)
    #[arg(long, value_name = "DATE")]
    pub(crate) from: Option<String>,
    /// Only bars that start before this (UTC)
    #[arg(long, value_name = "DATE")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    _flags: Flags<flags::Read>,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data add prices.csv
  fullbore data add ~/freqtrade/user_data/data/binance --name binance
  fullbore data add ES.csv --timezone America/Chicago --stamp end --name es-5m
  fullbore data add ~/bars --dry-run

Data that the audit refuses are not added, and the exit code is 1.")]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Name in the catalogue [default: that of the file or folder]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Folder of the catalogue [default: data in FULLBORE_HOME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Replace an entry of that name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data audit prices.csv
  fullbore data audit ~/bars --symbols BTCUSDT,ETHUSDT --from 2023-01-01
  fullbore data audit EURUSD.csv --timezone -05:00 --set repair.duplicates=refuse
  fullbore data audit prices.csv --json | jq .verdict

The exit code is 1 when the verdict is `refuse`. Nothing is written.")]
pub(crate) struct Audit {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Show every symbol, not only the worst 20
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore features prices.csv                                 the preset `full`, labels by auto
  fullbore features mine --features basic --out basic.parquet
  fullbore features mine --features \"rsi(14), close/ema(50) - 1\" --labels \"triple(24, 1.5)\"
  fullbore features mine --features my-set.txt --symbols BTCUSDT,ETHUSDT --from 2023-01-01
  fullbore features --list
  fullbore features --show basic

Values that do not exist are null; nothing is filled. What was computed before comes from the cache.")]
pub(crate) struct Features {
    /// A file, a folder, or a name in the catalogue
    #[arg(required_unless_present_any = ["list", "show"], conflicts_with_all = ["list", "show"])]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    _flags: Flags<flags::Table>,
    /// The table, as Parquet [default: NAME-features.parquet]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Compute even what is in the cache
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Show every indicator and preset, and do nothing
    #[arg(long, conflicts_with = "show")]
    pub(crate) list: bool,
    /// Show what a set computes and how long its columns take to warm up, and do nothing
    #[arg(long, value_name = "SET")]
    pub(crate) show: Option<String>,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore check lookahead prices.csv
  fullbore check lookahead mine --features \"rsi(14), col(my_signal)\" --labels \"triple(24)\"
  fullbore check lookahead mine --features my-set.txt --all --cuts 1000
  fullbore check lookahead mine --json | jq .verdict

The data are cut, poisoned after a moment, streamed and begun later, and no row may change; a column that goes with the return
of the next bar is suspicious. The exit code is 1 when a leak is found. Nothing is written.")]
pub(crate) struct Lookahead {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    _flags: Flags<flags::Table>,
    /// Cut and poison so often, however long it takes [default: what 20 seconds allow, 1000 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cuts: Option<u32>,
    /// Every symbol and every bar, not a sample
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Four small trainings: one on a market with a planted signal, of which nine tenths must be found, and
three on markets with nothing in them, made of DATA or of a synthetic market: labels dealt out anew,
prices walked without drift, bars turned upside down. There a correlation beyond 3/\u{221a}n is a
mistake somewhere: in the features, in the labels, or here.

Examples:
  fullbore check selftest
  fullbore check selftest prices.csv --features my-set.txt --learner mlp")]
pub(crate) struct Selftest {
    /// A file, a folder, or a name in the catalogue [default: a synthetic market]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) how: How,
    #[command(flatten)]
    _flags: Flags<flags::Tested>,
    /// Where it runs: auto, cpu, cuda, cuda:1
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(crate) device: String,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data synth                                           655 shares, 1,250 daily bars each
  fullbore data synth --kind crypto --count 1 --timeframe 5m --years 6
  fullbore data synth --plant --accuracy 0.7 --name planted     a signal of known worth
  fullbore data synth --seed 2 --out ./market

The same seed and settings make the same bars on every machine.")]
#[command(mut_arg("synth.bars", |arg| arg.conflicts_with("synth.years")))]
pub(crate) struct Synth {
    #[command(flatten)]
    _flags: Flags<flags::Market>,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
    /// Name in the catalogue [default: from the kind, size and seed]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Folder of the catalogue [default: data in FULLBORE_HOME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Replace an entry of that name
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data list
  fullbore data list --out ./market --json")]
pub(crate) struct List {
    /// Folder of the catalogue [default: data in FULLBORE_HOME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

/// Whether JSON is wanted and which schema it has, read off the words before they are parsed, for the case that they
/// cannot be.
pub(crate) fn glance(typed: &[OsString]) -> (bool, &'static str) {
    let words: Vec<&str> = typed.iter().skip(1).take_while(|w| *w != "--").filter_map(|w| w.to_str()).collect();
    let json = words.contains(&"--json");
    let after = |word: &str| words.iter().position(|w| *w == word);
    // The verb is the first word that is one; what stands before it are flags and their values.
    let verb = ["demo", "probe", "bench", "data", "features", "train", "tune", "predict", "runs", "monitor", "check"]
        .into_iter()
        .filter_map(|verb| Some((after(verb)?, verb)))
        .min();
    let schema = match verb {
        Some((_, "demo")) => "demo/1",
        Some((_, "probe")) => "probe/1",
        Some((_, "bench")) => "bench/1",
        Some((_, "features")) => "features/1",
        Some((_, "train")) => "train/1",
        Some((_, "tune")) => "tune/1",
        Some((_, "predict")) => "predict/1",
        Some((_, "runs")) => "runs/1",
        Some((_, "monitor")) => "monitor/1",
        Some((_, "check")) if words.contains(&"selftest") => "selftest/1",
        Some((_, "check")) => "check/1",
        Some((data, _)) => words[data..].iter().find_map(|w| schema_of(w)).unwrap_or("usage/1"),
        None => "usage/1",
    };
    (json, schema)
}

fn schema_of(verb: &str) -> Option<&'static str> {
    [("add", "add/1"), ("audit", "audit/1"), ("synth", "synth/1"), ("list", "list/1")]
        .into_iter()
        .find_map(|(name, schema)| (name == verb).then_some(schema))
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use crate::pages::commands;
    use clap::Parser;

    #[test]
    fn every_command_in_the_documents_is_one() {
        let all = commands();
        assert!(all.len() > 30, "{} commands; are the pages gone?", all.len());
        for shown in &all {
            let typed = ["fullbore"].into_iter().chain(shown.args.iter().map(String::as_str));
            if let Err(why) = Cli::try_parse_from(typed) {
                panic!("{}:{}: {why}", shown.page, shown.line);
            }
            // Output that no test sees would grow old.
            let checked = shown.runs || shown.output.is_empty() || !shown.page.starts_with("docs/guide");
            assert!(checked && (shown.exact || shown.runs), "{}:{}: mark the block `run`", shown.page, shown.line);
        }
    }
}
