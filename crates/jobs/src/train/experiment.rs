//! One experiment: data, folds, learner, plan and device, as one value that every step of a run is handed.

use super::estimate::{Scope, estimate, is_lengthy, long};
use super::holdout::day;
use super::problem::walk;
use super::short::{fewer_folds, fold_counts, is_roomy, too_few};
use super::trial::word;
use super::{Ids, Source, Teller, Train, TrainEvent};
use crate::kinds;
use crate::progress::Count;
use crate::settings::LeftOpen;
use crate::tune::{Tuned, find, is_open};
use crate::{Memory, Settings, SplitKind};
use compute::population::Pins;
use compute::{Budget, Choice, Opened};
use files::{Error, Kind, Result, format_count, format_list, format_plural, format_seconds};
use judge::split::{Held, Splits, WalkForward, around, longest_label, walk_forward, walk_forward_on, whole};
use learn::classify::defaults;
use learn::{DeviceBudget, Learner, Plan, failed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is trained, on what, where.
pub(crate) struct Experiment {
    /// As they are used: what was tuned, or fitted into a time, is in them.
    pub(crate) settings: Settings,
    pub(crate) source: Source,
    pub(crate) splits: Splits,
    pub(crate) learner: Box<dyn Learner>,
    pub(crate) plan: Plan,
    pub(crate) at: DeviceBudget,
    /// The device, in words.
    pub(crate) device: String,
    /// What was tuned for this workload, where it is used.
    pub(crate) tuned: Option<Tuned>,
    pub(crate) notes: Vec<String>,
    /// The algorithms of products that the run kept to, for the first config of each kind, once it is trained.
    pub(crate) pins: BTreeMap<usize, Pins>,
    /// Decisions that judging takes, where they are slow enough to be counted.
    pub(crate) judging: Arc<Count>,
}

impl Experiment {
    /// Splits the data, makes the learner and plans its members for a device. With `use_tuned` the recipe is what was
    /// tuned for this workload, where the settings leave it open.
    pub(crate) fn new(
        source: Source,
        settings: &Settings,
        (mut device, mut words): (Opened, String),
        use_tuned: bool,
    ) -> Result<Experiment> {
        let mut settings = settings.with_held(Some(source.holdings.held));
        settings.left_open = LeftOpen::of(&settings);
        let mut notes = source.notes.clone();
        notes.extend(settings.overruled());
        let kind = settings.train.learner.kind();
        let use_tuned = use_tuned && settings.train.tuned && is_open(&mut settings);
        let tuned = if use_tuned { find(&source, &settings, &device, &mut notes) } else { None };
        if let Some(tuned) = &tuned {
            let before = settings.threads();
            notes.extend(apply_tuned(tuned, &mut settings, &mut device));
            if let Opened::Cpu { threads } = &device {
                words = words.replacen(&format!("{before} threads"), &format!("{threads} threads"), 1);
            }
        }
        let budget = beside(memory_budget(&settings, &device), &settings, source.bytes(), &device);
        let at = DeviceBudget { budget, device };
        let splits = split(&source, &settings).map_err(|e| source.holdings.explain(e, &source.path))?;
        if settings.refit.is_none() {
            notes.extend(fewer_folds(&settings, splits.folds.len()));
            notes.extend(held_note(&source, &settings, &splits));
            notes.extend(untested(&source, &settings, &splits));
        }
        kind.fill_in(&mut settings, &source, &at.device);
        notes.extend(kind.fit(&mut settings, &source, &splits)?);
        notes.extend(kind.device_notes(&settings, &source, &at.device));
        let learner = kind.learner(&source, &splits, &settings, &at.device)?;
        let plan = plan(&*learner, &at, tuned.as_ref())?;
        Ok(Experiment {
            settings,
            source,
            splits,
            learner,
            plan,
            at,
            device: words,
            tuned,
            notes,
            pins: BTreeMap::new(),
            judging: Arc::default(),
        })
    }

    pub(crate) fn kind(&self) -> &'static dyn kinds::Kind {
        self.settings.train.learner.kind()
    }

    /// Plans again after the settings have changed.
    fn replan(&mut self) -> Result<()> {
        self.splits = split(&self.source, &self.settings)?;
        self.notes.extend(self.kind().fit(&mut self.settings, &self.source, &self.splits)?);
        self.learner = self.kind().learner(&self.source, &self.splits, &self.settings, &self.at.device)?;
        self.plan = plan(&*self.learner, &self.at, self.tuned.as_ref())?;
        Ok(())
    }

    /// Whether PPO is trained behind it for as long, as a run of its own.
    pub(super) fn trains_baseline(&self) -> bool {
        self.settings.search.baseline && self.settings.refit.is_none()
    }

    /// Seconds that all of it would take, with a baseline that is trained for as long, where that is asked for or may
    /// be long; fits it into the time that the request allows.
    pub(super) fn estimate(&mut self, request: &Train, tell: Teller<'_>) -> Result<Option<f64>> {
        let asked = request.dry_run || request.budget.is_some();
        // What is left of a run that goes on is known once it trains.
        if !asked && (request.resume || !is_lengthy(self)) {
            return Ok(None);
        }
        let before = self.notes.len();
        let runs = if self.trains_baseline() { 2.0 } else { 1.0 };
        let timed = |own: &Experiment, most| Ok::<_, Error>(estimate(own, most)?.map(|seconds| runs * seconds));
        let mut seconds = timed(self, if asked { 700 } else { 300 })?;
        if let Some(most) = request.budget.map(|budget| budget.as_secs_f64()) {
            let (whole, mut resized) = (self.scope(), None);
            // Fewer members or folds may train at another pace, so what is left is timed again.
            while let Some(need) = seconds.filter(|need| *need > most) {
                let (before, to) = (self.scope(), self.scope().shrink(HEADROOM * most / need));
                if to == before {
                    return Err(over_budget(to, need, most, self.learner.unit()));
                }
                (self.settings.train.seeds, self.settings.split.folds) = (to.seeds, Some(to.folds));
                let mut is_resized = false;
                if to.epochs < before.epochs {
                    let (epochs, note) = self.kind().fit_units(&mut self.settings, to.epochs);
                    is_resized = epochs != to.epochs;
                    let patience = if is_resized { before.patience_of(epochs) } else { to.patience };
                    (self.settings.train.epochs, self.settings.train.patience) = (Some(epochs), Some(patience));
                    resized = note.or(resized);
                }
                self.replan()?;
                // The folds of some splits are what they are.
                if self.scope() == before && !is_resized {
                    return Err(over_budget(before, need, most, self.learner.unit()));
                }
                seconds = timed(self, 700)?;
            }
            if self.scope() != whole {
                self.notes.push(whole.taken(self.scope(), most, self.learner.unit()));
            }
            self.notes.extend(resized);
        }
        self.notes.extend(seconds.and_then(|seconds| long(seconds, self.learner.unit())));
        // Said before anything of it is done, and again at the end.
        self.notes[before..].iter().filter(|_| !request.dry_run).for_each(|note| tell(TrainEvent::Line(note)));
        Ok(seconds)
    }

    /// How much is trained.
    fn scope(&self) -> Scope {
        let (extent, folds) = (self.learner.extent(), self.splits.folds.len());
        let [epochs, patience] = [extent.units, extent.patience].map(|n| n as usize);
        Scope { seeds: self.settings.train.seeds, epochs, patience, folds }
    }

    /// Takes what was worked out down into the settings: the same settings give the same bits, whatever is tuned later
    /// and from wherever the run goes on.
    pub(super) fn settle(&mut self) {
        // Configs of policies with other numbers of accounts have other batches, each by its rule.
        let batch = self.learner.configs()[0].recipe.batch;
        if self.learner.configs().iter().all(|config| config.recipe.batch == batch)
            && !self.settings.has_candidates("batch")
        {
            *self.kind().batch(&mut self.settings) = Some(batch);
        }
        if self.settings.refit.is_none() && self.settings.split.kind != SplitKind::Cpcv {
            self.settings.split.folds = Some(self.splits.folds.len());
        }
        for path in [&mut self.settings.universe.membership, &mut self.settings.universe.factors].into_iter().flatten()
        {
            *path = std::path::absolute(&*path).unwrap_or(path.clone());
        }
    }
}

/// The share of a budget that is planned for: a time that is measured for a moment is not exact.
const HEADROOM: f64 = 0.9;

fn over_budget(least: Scope, need: f64, most: f64, unit: &str) -> Error {
    let Scope { seeds, epochs, folds, .. } = least;
    let parts = [(seeds, "seed"), (epochs, unit), (folds, "fold")].map(|(n, of)| format_plural(n as u64, of));
    let (parts, need, most) = (format_list(&parts, "and"), format_seconds(need), format_seconds(most));
    Error::new(Kind::Usage, format!("{parts} take about {need}, more than the budget of {most}"))
        .remedy("give more time with <budget>, a smaller net with <train.net>, or fewer bars with <from>")
}

/// Opens the device that was asked for; the text says which it is and why.
pub(crate) fn open(device: &str, settings: &Settings) -> Result<(Opened, String)> {
    let choice: Choice = device.parse().map_err(|e: compute::Error| Error::new(Kind::Usage, e.to_string()))?;
    Opened::new(choice, settings.threads()).map_err(failed)
}

/// The memory that may be taken of the device: what was set, of the host's memory on a processor, of its own on a card.
/// Where nothing was, half of what the host has available, or 80 % of what is free on the card.
pub(crate) fn memory_budget(settings: &Settings, device: &Opened) -> Budget {
    match (settings.general.memory, device) {
        (memory, Opened::Cpu { .. }) => Budget::Bytes(memory.bytes()),
        (Memory::Auto, Opened::Cuda(_)) => Budget::default(),
        (memory, Opened::Cuda(_)) => memory.to_string().parse().unwrap_or_default(),
    }
}

/// On a processor, where memory was set, what is held beside the nets is part of it. The figure follows from the data
/// alone: parts of a batch, and so bits, depend on it.
pub(super) fn beside(budget: Budget, settings: &Settings, held: u64, device: &Opened) -> Budget {
    match (budget, device) {
        (Budget::Bytes(bytes), Opened::Cpu { .. }) if settings.general.memory != Memory::Auto => {
            Budget::Bytes(bytes.saturating_sub(held).max(1))
        }
        _ => budget,
    }
}

/// The walk forward that the settings ask for; where they leave the number of folds open, the largest whose test blocks
/// are long enough.
pub(crate) fn split(source: &Source, settings: &Settings) -> Result<Splits> {
    let samples = &source.problem.samples;
    if settings.refit.is_some() {
        return whole(samples, &source.ticks, settings.held.and_then(|held| held.locked_from));
    }
    let mut fewest = None;
    for folds in fold_counts(settings) {
        match cut(source, settings, folds) {
            Ok(splits) if is_roomy(&splits.folds, &samples.t0) => return Ok(splits),
            // Fewer folds that fail are no better.
            Err(_) if matches!(fewest, Some(Ok(_))) => {}
            splits => fewest = Some(splits),
        }
    }
    let splits = fewest.unwrap_or_else(|| Err(Error::new(Kind::Usage, "a split needs at least one fold")));
    match (&source.ids, splits) {
        // What is wrong with a setting stays what it is.
        (Ids::Bars { data, .. }, Err(error)) if error.kind == Kind::Input => {
            let label = longest_label(samples, &source.ticks);
            Err(too_few(data, &source.windows(), label, settings, Some(error)).at(&source.path))
        }
        (_, splits) => splits,
    }
}

/// Time cut as the settings say, into so many folds where they leave that open.
fn cut(source: &Source, settings: &Settings, folds: usize) -> Result<Splits> {
    let (samples, ticks) = (&source.problem.samples, &source.ticks);
    let spec = WalkForward { folds, ..walk(settings, ticks.len()) };
    let split = &settings.split;
    if split.kind.is_around() && split.test_days.is_some() {
        return Err(Error::new(Kind::Usage, "the last days are tested by a walk forward, not by kfold or cpcv")
            .remedy("leave <split.test_days> out, or choose <split.kind=walk>"));
    }
    match (split.kind, &source.ids) {
        (SplitKind::KFold, _) => around(samples, ticks, &spec, folds, 1),
        (SplitKind::Cpcv, _) => around(samples, ticks, &spec, split.groups, split.test_groups),
        // A tick is the end of a bar, and belongs to the trading day of the moment before it.
        (_, Ids::Bars { data, .. }) if split.test_days.is_some() => {
            let moments: Vec<i64> = ticks.iter().map(|tick| tick - 1).collect();
            let days = data.base.market[0].instrument.session.trading_days(&moments);
            walk_forward_on(samples, ticks, &days, &spec)
        }
        _ => walk_forward(samples, ticks, &spec),
    }
}

/// That the days tested are not the last before the holdout, where bars without a sample lie between them.
fn untested(source: &Source, settings: &Settings, splits: &Splits) -> Option<String> {
    let days = settings.split.test_days?;
    let (fold, held) = (splits.folds.last()?, splits.holdout.as_ref()?);
    let last = source.problem.samples.t0[*fold.test.last()? as usize];
    let [from, to] = [last + 1, held.span.from()].map(|time| source.ticks.partition_point(|tick| *tick < time));
    let skipped = to.saturating_sub(from + splits.embargo + longest_label(&source.problem.samples, &source.ticks));
    (skipped > 0).then(|| {
        format!(
            "the {} tested end on {}: between them and the holdout {} no sample (what follows a suspected split, or a \
             long hole, has to settle again); factors of the splits close such borders: <universe.factors>",
            format_plural(days as u64, "day"),
            day(last - 1),
            if skipped == 1 { "1 bar has".into() } else { format!("{} bars have", format_count(skipped as u64)) },
        )
    })
}

/// What to say where an earlier run on these data changes what is held out.
fn held_note(source: &Source, settings: &Settings, splits: &Splits) -> Option<String> {
    if source.holdings.held == Held::default() {
        return None;
    }
    let own = settings.with_held(None);
    let spec = WalkForward { folds: splits.folds.len(), ..walk(&own, source.ticks.len()) };
    let plain = walk_forward(&source.problem.samples, &source.ticks, &spec).ok()?.holdout;
    source.holdings.note(splits, plain.map(|holdout| holdout.span.from()))
}

fn plan(learner: &dyn Learner, at: &DeviceBudget, tuned: Option<&Tuned>) -> Result<Plan> {
    let mut plan = Plan::new(learner, at)?;
    if let Some(most) = tuned.and_then(|t| t.recipe.members_at_once) {
        plan.limit_group(learner, &at.device, most)?;
    }
    Ok(plan)
}

/// Takes what was tuned into the settings, where they leave it open; notes about it.
fn apply_tuned(tuned: &Tuned, settings: &mut Settings, device: &mut Opened) -> Vec<String> {
    let recipe = &tuned.recipe;
    *settings.train.learner.kind().batch(settings) = Some(recipe.batch);
    let usual = defaults::precision(matches!(device, Opened::Cuda(_)));
    let is_taken = settings.train.precision.is_none() && recipe.precision != usual;
    if is_taken {
        settings.train.precision = Some(recipe.precision);
    }
    let is_searched = crate::tune::is_searched(settings);
    let mut taken = format!("{} {}", if is_searched { "population" } else { "batch" }, recipe.batch);
    if let Some(rollout) = settings.train.learner.kind().rollout(settings) {
        (*rollout.n_envs, *rollout.n_steps) = (recipe.n_envs, recipe.n_steps);
        let of = |n: Option<usize>| n.map_or("auto".into(), |n| n.to_string());
        taken = format!("environments {}, steps {}, {taken}", of(recipe.n_envs), of(recipe.n_steps));
    }
    if is_taken {
        taken += &format!(", precision {}", word(recipe.precision));
    }
    let chosen = [recipe.n_envs, recipe.n_steps, recipe.roots, recipe.simulations];
    if let Some(searching) = settings.train.learner.kind().searching(settings) {
        searching.into_iter().zip(chosen).for_each(|((_, own), value)| *own = value);
        let of = |n: Option<usize>| n.map_or("auto".into(), |n| n.to_string());
        taken = format!(
            "{} roots with {} simulations, {} steps, {taken}",
            of(recipe.roots),
            of(recipe.simulations),
            of(recipe.n_steps)
        );
    }
    if let (Opened::Cpu { threads }, None, Some(tuned)) = (device, settings.general.threads, recipe.threads) {
        *threads = tuned.min(*threads);
        taken += &format!(", threads {threads}");
    }
    if let (None, Some(at_once)) = (settings.evolve.at_once, recipe.at_once) {
        settings.evolve.at_once = Some(at_once);
        taken += &format!(", individuals of a thread at once {at_once}");
    }
    if recipe.pinned && !settings.evolve.pinned {
        settings.evolve.pinned = true;
        taken += ", threads pinned";
    }
    if let Some(most) = recipe.members_at_once {
        taken += &format!(", members at once {most}");
    }
    let day: String = tuned.at.chars().take(10).collect();
    let mut notes = vec![format!("tuned on {day}: {taken} (<train.tuned=false> goes by the rule instead)")];
    notes.extend(settings.train.learner.kind().fit_tuned(settings));
    notes
}
