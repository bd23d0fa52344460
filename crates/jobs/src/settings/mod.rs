//! Settings: defaults, then a TOML file, then `--set key=value`, then flags.
//!
//! A file for each section. In it every key is declared once with its default, what is legal, its help and its flag
//! ([`section!`](key::section)), and everything else follows from that: the parser, the error that names the nearest
//! key, the file that documents the defaults and the help of the flags. A learner with hyper-parameters of its own
//! adds a file like `classify.rs`, listed in [`Settings`] and [`keys`].
//!
//! `auto` is legal for every key and means the default. What is wrong is a usage error that names file, line and
//! column.

mod account;
mod bars;
mod cache;
mod candidates;
mod classify;
mod evolve;
mod features;
mod form;
mod general;
mod instrument;
mod key;
mod labels;
mod parse;
mod ppo;
mod read;
mod repair;
mod search;
mod split;
mod synth;
#[cfg(test)]
mod tests;
mod trading;
mod train;
mod universe;

pub use self::account::AccountSettings;
pub use self::bars::BarSettings;
pub use self::features::FeatureSettings;
pub use self::synth::SynthSettings;
pub use self::trading::TradingSettings;
pub use self::train::TrainSettings;
pub use cache::CacheSettings;
pub use candidates::Candidates;
pub use classify::ClassifySettings;
pub use evolve::{EvolveAlgorithm, EvolveSettings};
pub use general::GeneralSettings;
pub use key::{Flag, Key, Takes};
pub use labels::LabelSettings;
pub use ppo::{Band, PpoSettings, RewardKind};
pub(crate) use read::{ReadSettings, SectionSettings};
pub use search::SearchSettings;
pub use split::{SplitKind, SplitSettings};
pub use universe::UniverseSettings;

use ::bars::Repairs;
use ::features::labels::{Labeling, TrainEnd};
use files::Result;
use std::collections::BTreeMap;

/// Everything that a verb can be set to, resolved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What every verb that works for a while takes.
    pub general: GeneralSettings,
    /// How the stamps of bars are read.
    pub bars: BarSettings,
    /// What is repaired in bars, and how.
    pub repair: Repairs,
    /// Which symbols belong to the universe and when, and what their prices are multiplied with.
    pub universe: UniverseSettings,
    /// What is computed from the bars.
    pub features: FeatureSettings,
    /// What is predicted.
    pub labels: LabelSettings,
    /// How any learner is trained.
    pub train: TrainSettings,
    /// The hyper-parameters of classifiers.
    pub classify: ClassifySettings,
    /// The hyper-parameters of policies that learn by trying.
    pub ppo: PpoSettings,
    /// The hyper-parameters of policies that evolve.
    pub evolve: EvolveSettings,
    /// The hyper-parameters of policies that search.
    pub search: SearchSettings,
    /// How time is cut into folds.
    pub split: SplitSettings,
    /// The account that decisions are turned into money with.
    pub account: AccountSettings,
    /// How predictions of several symbols become a portfolio.
    pub trading: TradingSettings,
    /// The cache of feature tables.
    pub cache: CacheSettings,
    /// The market that `data synth` makes.
    pub synth: SynthSettings,
    /// What the ledger says of the time to hold out, once it was looked up: no key of a file.
    pub(crate) held: Option<judge::split::Held>,
    /// The stretches of neighbouring bars that folds train on, once the data were split, where spans of a learner are
    /// cut by them: no key of a file.
    pub(crate) stretches: Option<learn::evolve::TrainStretches>,
    /// What was left open of a unit of work, before rules and what was tuned filled it in: no key of a file.
    pub(crate) left_open: LeftOpen,
    /// The recipe of a run that is trained once more, on everything: no key of a file.
    pub(crate) refit: Option<crate::Refit>,
    /// `[instrument.SYMBOL]`, each value checked; see [`Settings::patches`].
    instruments: BTreeMap<String, toml::Table>,
}

/// What settings left open of a unit of work; nothing where they were not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeftOpen {
    pub(crate) population: bool,
    pub(crate) n_envs: bool,
    pub(crate) n_steps: bool,
}

impl LeftOpen {
    /// Of settings as they were given.
    pub(crate) fn of(settings: &Settings) -> LeftOpen {
        let is_tried = |key| settings.has_candidates(key);
        LeftOpen {
            population: settings.evolve.population.is_none() && !is_tried("evolve.population"),
            n_envs: settings.ppo.n_envs.is_none() && !is_tried("ppo.n_envs"),
            n_steps: settings.ppo.n_steps.is_none() && !is_tried("ppo.n_steps"),
        }
    }
}

/// Every key but those of `[instrument.SYMBOL]`, in the order they are shown.
fn keys() -> Vec<Key> {
    let sections = [
        general::keys(),
        bars::keys(),
        repair::keys(),
        universe::keys(),
        features::keys(),
        labels::keys(),
        train::keys(),
        classify::keys(),
        ppo::keys(),
        evolve::keys(),
        search::keys(),
        split::keys(),
        account::keys(),
        trading::keys(),
        cache::keys(),
        synth::keys(),
    ];
    sections.into_iter().flatten().collect()
}

impl Settings {
    /// What the reader of bars is given; reads the membership and factor files.
    pub fn options(&self) -> Result<::bars::Options> {
        Ok(::bars::Options {
            timezone: self.bars.timezone.clone(),
            label: self.bars.stamp,
            repairs: self.repair.clone(),
            instruments: self.patches(),
            membership: self.universe.membership.as_deref().map(crate::source::membership).transpose()?,
            factors: self.universe.factors.as_deref().map(crate::source::factors).transpose()?,
            memory: self.general.memory.bytes(),
            threads: self.threads(),
            stop: crate::stop_flag(),
            ..::bars::Options::default()
        })
    }

    /// How rows are labelled; `None`: not at all.
    pub fn labeling(&self) -> Option<Labeling> {
        let LabelSettings { rule, cost_bp, span } = self.labels;
        let first = TrainEnd::Share(self.split.first());
        rule.map(|rule| Labeling { rule, cost_bp, span, first, ..Labeling::default() })
    }

    /// The same with what the ledger says of the time to hold out.
    pub(crate) fn with_held(&self, held: Option<judge::split::Held>) -> Settings {
        Settings { held, ..self.clone() }
    }

    /// The same where no labels are made.
    pub(crate) fn without_labels(&self) -> Settings {
        let mut own = self.clone();
        own.labels.rule = None;
        own
    }

    /// The same with the threads and the memory of others, where those are set: they change no bit.
    pub(crate) fn with_pace(mut self, pace: &Settings) -> Settings {
        if pace.general.threads.is_some() {
            self.general.threads = pace.general.threads;
        }
        if pace.general.memory != crate::Memory::Auto {
            self.general.memory = pace.general.memory;
        }
        self
    }

    /// Threads to use on this machine.
    pub fn threads(&self) -> usize {
        self.general.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
    }
}
