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
  fullbore demo                          a synthetic market, audited and trained on, on one page
  fullbore probe                         this machine: hardware and speed
  fullbore bench net                     how fast a net trains here
  fullbore bench search                  how fast a search looks ahead here
  fullbore data audit prices.csv         what a file holds, and whether it is usable
  fullbore data add ~/bars --name mine   a folder of bars, added to the catalogue
  fullbore data list                     what is in the catalogue
  fullbore features prices.csv           indicators and labels as a table
  fullbore train prices.csv              classifiers, judged on unseen data (walk forward)
  fullbore backtest prices.csv --rule 'sma(20) > sma(50)'
                                         what a rule would have earned, every cost counted
  fullbore holdout runs/gold             the run on its locked holdout, once
  fullbore refit runs/gold               its recipe on all data, as the model to trade
  fullbore tune prices.csv               the batch size that learns fastest here
  fullbore monitor                       progress of the newest run
  fullbore report RUN                    a run on one page: verdict, equity, trades, folds

Exit codes: 0 done, 1 the answer is no, 2 usage, 3 bad input, 4 machine, 5 run state, 70 a bug, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags that mean the same on every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
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
    /// Make a synthetic market, audit it, train on it, and write a report page
    Demo(Demo),
    /// Show the hardware, speed and load of this machine
    Probe(Probe),
    /// Measure how fast this machine works
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Box<Bench>),
    /// Audit, add, generate, list and remove bars
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
    /// Train classifiers or policies, all folds and seeds side by side, and judge them on unseen data
    Train(Box<Train>),
    /// Measure which batch size, precision, threads and members at once train fastest
    Tune(Box<Tune>),
    /// Test what decisions would have earned, every cost counted
    #[command(after_help = "\
Examples:
  fullbore backtest runs/gold-lstm-2026-11-15
  fullbore backtest prices.csv --rule 'sma(20) > sma(50)'
  fullbore backtest prices.csv --rule 'rsi(14) < 30' --short 'rsi(14) > 70' --capital 50000
  fullbore backtest prices.csv --policy buy-and-hold
  fullbore backtest prices.csv --positions mine.csv")]
    Backtest(Box<Backtest>),
    /// Judge a run on its locked holdout: the only look at it, written to the ledger first
    Holdout(Holdout),
    /// Train the recipe of a judged run on all data, as the model to trade
    Refit(Refit),
    /// Predict the probabilities of down, flat and up with a trained model
    Predict(Box<Predict>),
    /// Write the report of a run: one page that needs no network, and the same as data
    #[command(after_help = "\
RUN is a run's folder or its name under runs/. The page (report.html) and what it shows as data
(report.json) are written into the run's folder, from what is there alone; `train` does so at its end.

Examples:
  fullbore report gold-lstm-2026-11-15
  fullbore report runs/gold-lstm-2026-11-15 --json | jq .page")]
    Report(RunsShow),
    /// List, show, compare, resume and remove runs
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "\
Examples:
  fullbore runs list
  fullbore runs show gold-lstm-2026-11-15
  fullbore runs compare gold-lstm-2026-11-15 gold-mlp-2026-11-15
  fullbore runs resume gold-lstm-2026-11-15
  fullbore runs remove gold-lstm-2026-11-15"
    )]
    Runs(Box<Runs>),
    /// Show every trial on a data set: what it was, what it gave, and how many count
    #[command(after_help = "\
Examples:
  fullbore trials
  fullbore trials prices.csv")]
    Trials(Box<Trials>),
    /// Watch a run: metrics, machine load and time left; the run is not affected
    Monitor(Monitor),
    /// Find mistakes that make results too good to be true
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "\
Examples:
  fullbore check lookahead prices.csv --features my-set.txt
  fullbore check parity runs/gold-lstm-2026-11-15
  fullbore check selftest"
    )]
    Check(Box<Check>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// Check that no feature or label uses future data
    Lookahead(Lookahead),
    /// Check that a model fed bar by bar, as a live account is, decides what its backtest did
    Parity(Parity),
    /// Check that training finds a planted signal, and finds nothing where there is none
    Selftest(Selftest),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List the runs in a folder
    List(RunsList),
    /// Show the state, progress and results of a run
    Show(RunsShow),
    /// Show in what two runs differ: settings, then figures
    Compare(RunsCompare),
    /// Continue an interrupted run; the result is as if it had never stopped
    Resume(RunsResume),
    /// Remove a run's files; its trials stay in the ledger
    Remove(RunsShow),
}

#[derive(Debug, Args)]
pub(crate) struct RunsCompare {
    /// A run's folder, or its name under runs/
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RunsList {
    /// Folder of runs
    #[arg(default_value = "runs", value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RunsShow {
    /// The run's folder, or its name under runs/
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run continues with its own settings: only --threads and --memory can be changed, --set and --settings are refused."
)]
pub(crate) struct RunsResume {
    /// The run's folder, or its name under runs/
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
RUN is a run's folder, its name under runs/, or a folder of runs (the newest is shown).
Keys: q quits (the run continues), tab and arrows select metric and member, space pauses, ? shows help.
With --once, or when standard output is not a terminal, the state is printed as plain lines.

Examples:
  fullbore monitor                               the newest run under runs/
  fullbore monitor gold-lstm-2026-11-15
  fullbore monitor --once                        the current state, in a few lines
  watch -n 60 fullbore monitor --json            for programs")]
pub(crate) struct Monitor {
    /// The run [default: the newest under runs/]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Print the current state as plain lines, and exit
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
DATA is bars (any file, folder or name in the catalogue), or a ready .npz with x_fast [N,T,F],
x_slow, x_strategy and labels. The learner lstm reads two windows and a row (feature set
two_timeframe); mlp reads one row of indicators (feature set full, or universe for 20 symbols or
more); ppo reads that row and its account, and learns to trade by trying (--timesteps, --n-envs,
--n-steps, --entropy, --reward, --continuous; the rest under ppo. in the settings); evolve searches
for the weights of such a policy by generations of individuals (--algorithm, --population, --sigma,
and those flags of ppo but --entropy); search looks ahead at every close, in a market fitted on the
training part (--roots, --simulations, --scenarios, --horizon, --invert-trend, and --timesteps,
--n-envs and --n-steps of ppo), and with --baseline stands beside PPO that was trained for as long.
With ready arrays --symbols, --from and --to select samples by symbol, t0 and t1.
On a GPU --memory means the memory of the GPU: auto is 80 % of what is free.

Examples:
  fullbore train XAUUSD.csv                                 the two-timeframe LSTM, 8 folds, 2 seeds
  fullbore train mine --learner mlp --seeds 4               the indicator net over all symbols
  fullbore train mine --learner ppo --net 256,256           a policy that trades, by PPO
  fullbore train mine --learner evolve --symbols BPCL       the same by evolution, on one symbol
  fullbore train mine --learner search --roots 128          the same by search, 128 roots in a batch
  fullbore train mine --dry-run                             show split, plan, memory and time only
  fullbore train mine --budget 10m                          as much as ten minutes allow
  fullbore train mine --try rate=1e-3,3e-4 --try decay=0,0.1    four configs, chosen by validation
  fullbore train mine --split cpcv                          judge on combinatorial folds, no model
  fullbore train windows.npz --label-horizon 12 --batch-size 3072 --epochs 500
  fullbore train mine --net \"fast:16x50-lstm64d10 + slow:12x24-lstm24 + strategy:9 / 32 / direction:3\"

Of several configs, each fold uses the one with the best validation score up to that fold, and every
config counts as a trial. Every trial is written to the ledger when it starts. Ctrl-C saves the run;
`fullbore runs resume RUN` continues it.")]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) what: LearnArgs,
    #[command(flatten)]
    _flags: Flags<flags::Train>,
    #[command(flatten)]
    _policies: Flags<flags::Try>,
    /// Reduce folds, seeds and epochs to fit into this time: 90s, 10m, 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<String>,
    /// Run folder [default: runs/NAME-LEARNER-DATE]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Make the locked holdout of these data ordinary data, for ever
    #[arg(long)]
    pub(crate) release_holdout: bool,
    /// Show the plan with its memory and time, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What is learned from what, and where: the same for `train` and `tune`.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    _flags: Flags<flags::Learn>,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Training steps on the real data are timed for each batch size within the memory budget; the gradient
noise scale shows how large a batch still helps learning. The choice is saved in tuned.json in
FULLBORE_HOME. `fullbore train` with --batch-size auto uses it for the same workload (net, size of
the data, labels, device, version), reports it, and records it in the run folder.
On a GPU --memory means the memory of the GPU: auto is 80 % of what is free.

Policies (--learner ppo) are tuned by environments (16 to 16384), then steps and minibatch. A row
shows steps/s, memory, the time of an update, and the time to a set return on a market with a
planted signal. What does not fit the memory or the time is left out with the reason.

Examples:
  fullbore tune XAUUSD.csv                                  for the two-timeframe LSTM
  fullbore tune mine --learner mlp --seeds 4                for the indicator net
  fullbore tune mine --learner ppo --net 2048,1024,512      for policies
  fullbore tune mine --budget 2m                            measure longer
  fullbore tune mine --json | jq .chosen
  fullbore train mine --no-tuned                            train by the fixed rule instead

The weights trained on the way are discarded. Only tuned.json is written.")]
#[command(mut_arg("train.precision", |arg| arg.help("Number format: f32, tf32, bf16, or auto for the fastest here")))]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) what: LearnArgs,
    #[command(flatten)]
    _flags: Flags<flags::Tune>,
    /// Time to spend, apart from reading the data: 10s, 2m [default: 20s, or 2m for policies]
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each bar is predicted by the newest fold whose test span had begun when the bar became known; members
are averaged. Bars are read as in training: time zone, stamps, repairs, factors, membership and
sessions come with the model. Flags given here override that, which the notes report. A policy looks
at its account: one starts flat with the first bar that is asked about, and trades along at cost.
On a GPU --memory means the memory of the GPU: auto is 80 % of what is free.

Examples:
  fullbore predict runs/gold-lstm-2026-11-15 XAUUSD.csv
  fullbore predict runs/gold-lstm-2026-11-15 XAUUSD.csv --members --out by-member.parquet")]
pub(crate) struct Predict {
    /// The run's folder, its name under runs/, or the model in it
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// File, folder, or name in the catalogue
    pub(crate) data: String,
    /// Parquet file for the probabilities, or the targets of a policy [default: NAME-predictions.parquet]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write one row per member instead of their mean
    #[arg(long)]
    pub(crate) members: bool,
    /// Write the position to hold from the next open on as a column `target`
    #[arg(long, conflicts_with = "members")]
    pub(crate) positions: bool,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The last fold's members judge the part of the run's data that no fold saw: the figures of the test
samples, and a backtest with that fold's calibration and threshold. The opening is written to the
ledger before anything is predicted, and counts for the data, whichever run opens them; the second
opening is no holdout any more and says so. Only --threads and --memory can be changed, --set and
--settings are refused.

Examples:
  fullbore holdout runs/gold-lstm-2026-11-15
  fullbore holdout gold-lstm-2026-11-15 --json | jq .net_sharpe_2x")]
pub(crate) struct Holdout {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The config that the last fold chose is trained on everything up to the end, or up to a holdout that
nobody has opened: as many epochs as the members of the run took to their best in the median, on the
run's own schedule, with the calibration and the threshold of its last fold. The new run folder is
for `predict` and `backtest` on bars that come later; it was not judged itself, and says which run
judged its recipe. Ctrl-C saves it; `fullbore runs resume` continues it.

Examples:
  fullbore refit runs/gold-lstm-2026-11-15
  fullbore refit gold-lstm-2026-11-15 --out gold-to-trade")]
pub(crate) struct Refit {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Run folder of the refit [default: runs/NAME-LEARNER-refit-DATE]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
pub(crate) struct Backtest {
    /// Run whose model decides; with --rule, --policy or --positions the data: file, folder, or name
    #[arg(value_name = "RUN|DATA")]
    pub(crate) run: String,
    /// Data for the run's model [default: its own]
    #[arg(conflicts_with = "Decides")]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) decides: Decides,
    /// Short while this holds; without it a rule is long or flat
    #[arg(long, value_name = "RULE", requires = "rule")]
    pub(crate) short: Option<String>,
    /// Folder for returns, trades and positions [default: NAME-backtest]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Device that the model runs on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto", conflicts_with = "Decides")]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) account: Flags<flags::Account>,
    #[command(flatten)]
    pub(crate) seed: Flags<flags::Seed>,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Trials {
    /// File, folder, or name: trials on these data [default: all trials]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Decides {
    /// Long while comparisons of features hold, as in 'sma(20) > sma(50) and rsi(14) < 70'
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Option<String>,
    /// A simple policy: buy-and-hold, flat, random
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// Targets from a file: time, target (1 long, 0 flat, -1 short) and, for several symbols, symbol
    #[arg(long, value_name = "FILE")]
    pub(crate) positions: Option<PathBuf>,
}

impl Decides {
    /// Whether a run's model decides.
    pub(crate) fn is_model(&self) -> bool {
        self.rule.is_none() && self.policy.is_none() && self.positions.is_none()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Convert bars to Parquet in the catalogue
    Add(Add),
    /// Check what a file or folder holds, and whether it is usable
    Audit(Audit),
    /// Generate a synthetic market from a seed
    Synth(Synth),
    /// List the catalogue
    List(List),
    /// Remove a data set from the catalogue, with its files
    Remove(DataRemove),
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
    /// Train fewer folds and seeds, for a few seconds instead of a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Device to run on: auto, cpu, cuda, cuda:1
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
  fullbore probe                inspect and measure (a second or two), and save the profile
  fullbore probe --quick        check the accelerator within 5 seconds; nothing is written
  fullbore probe --watch 60     load of cores, memory and GPUs, one line per second
  fullbore probe --json | jq .cpu_rates

--quick exits with 0 if the accelerator works or there is none, and with 4 if it cannot be used.")]
pub(crate) struct Probe {
    /// Only check whether the accelerator works
    #[arg(long, conflicts_with = "watch")]
    pub(crate) quick: bool,
    /// Show the load of the machine once per second
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure training and inference speed of a net for several batch sizes
    Net(BenchNet),
    /// Measure the simulations per second of a search, by roots and simulations
    Search(BenchSearch),
}

#[derive(Debug, Args)]
#[command(after_help = "\
honest is the search of `train --learner search`: accounts in a market model, every action tried on
all scenarios of a root, 16 codes per simulation, 8 bars ahead. reference is the search of mctx: one
leaf per simulation. --net is written as for train (layers of policy and value, each with its own),
or as a whole net: 'row:64 / 256-256 / policy:3 + value:1' shares its layers.

leaves are rows that the net evaluates; net alone is what the same layers do by themselves, on as
many rows at once as a simulation of all roots evaluates. Rows that would not fit into --memory are
shown and not run.

On a GPU --memory means the memory of the GPU: auto is 80 % of what is free.

Examples:
  fullbore bench search                                         the usual net, 16 to 8,192 roots
  fullbore bench search --net 256,256 --roots 128,1024 --simulations 32
  fullbore bench search --net 2048,1024,512 --device cuda --roots 16,512,4096
  fullbore bench search --mode honest --threads 1 --json")]
pub(crate) struct BenchSearch {
    /// Layers of policy and value, or a whole net that reads 64 numbers
    #[arg(long, value_name = "NET", default_value = "64t-64t")]
    pub(crate) net: String,
    /// Roots that are searched in one batch
    #[arg(long, value_name = "N,N", alias = "mcts-batch-size", value_delimiter = ',',
        default_value = "16,32,128,256,1024,8192", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) roots: Vec<u32>,
    /// Simulations of a root
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "16,32,128",
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) simulations: Vec<u32>,
    /// Scenarios of a root, on which every action is tried (honest)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=65_535))]
    pub(crate) scenarios: u32,
    /// What is searched: auto (all that the device has), honest or reference
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) mode: String,
    /// Number format of the net: auto (bf16 on a GPU, f32 on a CPU), f32 or bf16
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(crate) precision: String,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Seconds per measurement; a longer search runs once
    #[arg(long, value_name = "S", default_value_t = jobs::BENCH_SEARCH_SECONDS)]
    pub(crate) seconds: f64,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
How a net is written: 64-128-128-3 reads 64 features, has two layers of 128 (ReLU) and 3 classes; t
after a width means tanh; fast:16x50-64t + slow:12-32 / 128 / direction:3 has two inputs (one of
them 50 rows of 16) with a layer each, a shared layer, and a head; 16x50-lstm64-3 reads its 50 rows
with an LSTM of 64 units.

On a GPU --memory means the memory of the GPU: auto is 80 % of what is free.

Examples:
  fullbore bench net                                          a small classifier
  fullbore bench net 128-2048-1024-512-3 --batch 1024,4096    a wide one
  fullbore bench net 64-128-128-3 --members 64                64 of them side by side
  fullbore bench net --device cpu --threads 1 --json")]
pub(crate) struct BenchNet {
    /// The net
    #[arg(default_value = "64-128-128-3")]
    pub(crate) net: String,
    /// Batch sizes, in rows per member
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "16,64,512,1024,3072,4096,16384,65536",
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) batch: Vec<u32>,
    /// Members trained side by side, each with its own weights
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4095))]
    pub(crate) members: u32,
    /// Number format: auto (bf16 on a GPU, f32 on a CPU), f32, tf32 or bf16
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(crate) precision: String,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Seconds per measurement
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    pub(crate) seconds: f64,
    /// First choose the fastest matrix product algorithms (NVIDIA GPUs only)
    #[arg(long)]
    pub(crate) tune: bool,
    #[command(flatten)]
    _pace: Flags<flags::Pace>,
}

/// What to read, and how.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// File, folder, or name in the catalogue
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

/// Which part of the data, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
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

Data that the audit refuses are not added; the exit code is then 1.")]
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
    /// Show the plan, and do nothing
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
  fullbore features prices.csv                                 the preset `full`, labels chosen by auto
  fullbore features mine --features basic --out basic.parquet
  fullbore features mine --features \"rsi(14), close/ema(50) - 1\" --labels \"triple(24, 1.5)\"
  fullbore features mine --features my-set.txt --symbols BTCUSDT,ETHUSDT --from 2023-01-01
  fullbore features --list
  fullbore features --show basic

Missing values are null; nothing is filled in. Results of earlier runs are taken from the cache.")]
pub(crate) struct Features {
    /// File, folder, or name in the catalogue
    #[arg(required_unless_present_any = ["list", "show"], conflicts_with_all = ["list", "show"])]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    _flags: Flags<flags::Table>,
    /// Parquet file for the table [default: NAME-features.parquet]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Compute again, even if the result is in the cache
    #[arg(long)]
    pub(crate) fresh: bool,
    /// List every indicator and preset, and do nothing
    #[arg(long, conflicts_with = "show")]
    pub(crate) list: bool,
    /// Show the columns of a feature set and their warm-up, and do nothing
    #[arg(long, value_name = "SET")]
    pub(crate) show: Option<String>,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore check lookahead prices.csv
  fullbore check lookahead mine --features \"rsi(14), col(my_signal)\" --labels \"triple(24)\"
  fullbore check lookahead mine --features my-set.txt --all --cuts 1000
  fullbore check lookahead mine --json | jq .verdict

The features are computed again on data that are cut off, poisoned after some bar, streamed bar by
bar, or started later: no row may change. A column that correlates strongly with the return of the
next bar is suspicious. The exit code is 1 when a leak is found. Nothing is written.")]
pub(crate) struct Lookahead {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    _flags: Flags<flags::Table>,
    /// Number of cuts and poisonings [default: as many as 20 seconds allow, at most 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cuts: Option<u32>,
    /// Check every symbol and every bar, not a sample
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore check parity runs/gold-lstm-2026-11-15
  fullbore check parity runs/gold-lstm-2026-11-15 newer.csv --all
  fullbore check parity runs/gold-lstm-2026-11-15 --warm-up 2000 --json | jq .starts

The bars are streamed one by one; features, probabilities, positions and equity must equal the
backtest to the bit. Then the model is started anew at each test block with a warm-up instead of the
whole history, and positions that change are counted. The exit code is 1 when anything differs from
the same start. Nothing is written, and the locked holdout is not looked at.")]
pub(crate) struct Parity {
    /// Run whose model decides
    pub(crate) run: PathBuf,
    /// Data for the run's model: file, folder, or name [default: its own]
    pub(crate) data: Option<String>,
    /// Bars before a start [default: as many as features and windows take to settle]
    #[arg(long, value_name = "BARS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) warm_up: Option<u32>,
    /// Ask the model about every bar alone, not about a sample of 500
    #[arg(long)]
    pub(crate) all: bool,
    /// Device that the model runs on: auto, cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    #[command(flatten)]
    _account: Flags<flags::Account>,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Four small trainings: one on a market with a planted signal, of which 90 % must be found, and three on
markets without a signal, made from DATA or a synthetic market: labels shuffled, prices replaced by a
random walk without drift, bars turned upside down. On those three a correlation beyond 3/\u{221a}n
means a mistake in the features, in the labels or in Fullbore.

Examples:
  fullbore check selftest
  fullbore check selftest prices.csv --features my-set.txt --learner mlp")]
pub(crate) struct Selftest {
    /// File, folder, or name in the catalogue [default: a synthetic market]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) how: ReadArgs,
    #[command(flatten)]
    _flags: Flags<flags::Tested>,
    /// Device to run on: auto, cpu, cuda, cuda:1
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(crate) device: String,
    #[command(flatten)]
    _seed: Flags<flags::Seed>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data synth                                           655 stocks, 1,250 daily bars each
  fullbore data synth --kind crypto --count 1 --timeframe 5m --years 6
  fullbore data synth --plant --accuracy 0.7 --name planted     with a signal of known value
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullbore data remove mine

Files outside the catalogue are never touched. Runs keep what they need to predict.")]
pub(crate) struct DataRemove {
    /// Name in the catalogue
    pub(crate) name: String,
    /// Folder of the catalogue [default: data in FULLBORE_HOME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

/// Whether JSON is wanted and which schema it has, read off the words before they are parsed, for the case that they
/// cannot be.
pub(crate) fn peek_json_and_schema(typed: &[OsString]) -> (bool, &'static str) {
    let words: Vec<&str> = typed.iter().skip(1).take_while(|w| *w != "--").filter_map(|w| w.to_str()).collect();
    let json = words.contains(&"--json");
    let after = |word: &str| words.iter().position(|w| *w == word);
    // The verb is the first word that is one; what stands before it are flags and their values.
    let verbs = [
        "demo", "probe", "bench", "data", "features", "train", "tune", "backtest", "holdout", "refit", "predict",
        "report", "runs", "monitor", "check",
    ];
    let verb = verbs.into_iter().filter_map(|verb| Some((after(verb)?, verb))).min();
    let schema = match verb {
        Some((_, "demo")) => "demo/1",
        Some((_, "probe")) => "probe/1",
        Some((_, "bench")) if words.contains(&"search") => "bench_search/1",
        Some((_, "bench")) => "bench/1",
        Some((_, "features")) => "features/1",
        Some((_, "train")) => "train/1",
        Some((_, "tune")) => "tune/1",
        Some((_, "backtest")) => "backtest/1",
        Some((_, "holdout")) => "holdout/1",
        Some((_, "refit")) => "train/1",
        Some((_, "predict")) => "predict/1",
        Some((_, "report")) => "report/1",
        Some((_, "runs")) => "runs/1",
        Some((_, "monitor")) => "monitor/1",
        Some((_, "check")) if words.contains(&"selftest") => "selftest/1",
        Some((_, "check")) if words.contains(&"parity") => "parity/1",
        Some((_, "check")) => "check/1",
        Some((data, _)) => words[data..].iter().find_map(|w| schema_of(w)).unwrap_or("usage/1"),
        None => "usage/1",
    };
    (json, schema)
}

fn schema_of(verb: &str) -> Option<&'static str> {
    [("add", "add/1"), ("audit", "audit/1"), ("synth", "synth/1"), ("list", "list/1"), ("remove", "remove/1")]
        .into_iter()
        .find_map(|(name, schema)| (name == verb).then_some(schema))
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use crate::pages::commands;
    use clap::Parser;

    #[test]
    fn documented_commands_parse() {
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
