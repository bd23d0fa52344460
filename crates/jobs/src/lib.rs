//! A verb without its words: settings, folders, and one function a verb.
//!
//! Each verb is a plain request, the [`Settings`] it runs under, and a sink for [`Update`]s; it gives a result that
//! serialises. Nothing here prints, and flags are named where a setting is declared: the command line, a page or Python
//! put words around it.
//!
//! A market is made, put into a catalogue, and audited, as `fullbore data synth` and `fullbore data audit` do:
//!
//! ```
//! use jobs::{Select, Settings, Synth, audit, synth};
//!
//! # fn main() -> files::Result<()> {
//! let folder = tempfile::tempdir().expect("a folder");
//! let mut settings = Settings::default();
//! settings.set("synth.count=2")?;
//! settings.set("synth.bars=300")?;
//! assert!(settings.set("synth.bars=many").is_err());
//!
//! let request = Synth { name: Some("made".into()), out: Some(folder.path().into()), replace: false };
//! let made = synth(&request, &settings, &mut |_update| {})?;
//! assert_eq!((made.symbols, made.bars), (2, 600));
//!
//! let select = Select { data: folder.path().display().to_string(), ..Select::default() };
//! let audited = audit(&select, &settings, &mut |_update| {})?;
//! assert_eq!(audited.audit.bars, made.bars);
//! # Ok(())
//! # }
//! ```

mod add;
mod audit;
mod backtest;
mod bench;
mod cache;
mod check;
mod demo;
mod features;
mod holdout;
mod home;
mod kinds;
mod list;
mod memory;
mod monitor;
mod os;
mod page;
mod parity;
mod probe;
mod progress;
mod refit;
mod remove;
mod run_report;
mod runs;
mod settings;
mod small_table;
mod source;
mod synth;
mod tables;
mod train;
mod trials;
mod tune;

pub use self::features::{Balance, FeatureColumn, Featured, Features, LabelSummary, Shares, Tried, Written, features};
pub use add::{Add, Added, add};
pub use audit::{Audited, audit};
pub use backtest::{BacktestRequest, Backtested, Decisions, PolicyName, backtest};
pub use bars::nearest;
pub use bench::{BENCH_SEARCH_SECONDS, BenchSearch, BenchedSearch, SearchBenchRow, bench_search};
pub use bench::{BenchCell, BenchNet, BenchRow, BenchedNet, bench_net};
pub use bench::{HonestOnCard, bench_market, bench_models, bench_roots};
pub use check::{Caught, Check, Checked, ColumnTests, Tested, check};
pub use demo::training::{DemoTraining, Found, Verdict as FoundVerdict};
pub use demo::{Damage, Demo, DemoFeatures, Demoed, demo};
pub use holdout::{HoldoutOpened, HoldoutOpening, HoldoutRecord, HoldoutRequest, holdout, read_holdout};
pub use home::{data_folder, home};
pub use kinds::{
    ColumnImportance, ForecastRow, HeldOut, LearnerKind, MarketModelRow, Measured, Metric, PathRecord, PathsRecord,
};
pub use list::{List, Listed, list};
pub use memory::{Memory, available};
pub use monitor::Monitor;
pub use parity::{Compared, Difference, LiveStart, Parity, ParityRequest, parity};
pub use probe::{Probed, Watched, probe, quick, watch};
pub use progress::{Update, stop_flag};
pub use refit::{Refit, RefitRequest, refit};
pub use remove::{DataRemoved, RunRemoved, data_remove, runs_remove};
pub use run_report::{Reported, report_run};
pub use runs::{
    CheckpointRow, RunDifference, RunRow, RunShown, RunsCompared, RunsListed, WeightsRow, runs_compare, runs_list,
    runs_resume, runs_show,
};
pub use settings::{
    AccountSettings, Band, BarSettings, CacheSettings, Candidates, ClassifySettings, EvolveAlgorithm, EvolveSettings,
    FeatureSettings, Flag, GeneralSettings, Key, LabelSettings, PpoSettings, RewardKind, SearchSettings, Settings,
    SplitKind, SplitSettings, SynthSettings, Takes, TradingSettings, TrainSettings, UniverseSettings,
};
pub use source::{Select, find, instant};
pub use synth::{Planted, Synth, Synthesised, synth};
pub use train::{
    Baseline, ConfigRow, FoldRow, Judged, MemberRow, Phase, Predict, Predicted, Train, TrainEvent, TrainRun, Units,
    model_settings, predict, run_settings, train,
};
pub use train::{SelfCase, SelfCheck, SelfTest, SelfTested, selftest};
pub use trials::{LackingRun, TrialLine, TrialsListed, trials};
pub use tune::{
    Capacity, CapacityRow, SearchCapacity, SearchCapacityRow, Tune, TuneOther, TuneRow, TuneRun, TunedRecipe, tune,
};
