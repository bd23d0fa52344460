//! What classifiers share: trained by `learn::classify`, selected by Matthews' correlation on validation samples,
//! judged on test samples, kept as `predictions.parquet` and the folder `model`.

use super::importance::{ColumnImportance, importance};
use super::test_blocks::{keep_returns, members_of};
use super::trading::{TradedSignals, Trading, check_exit, paths_of};
use super::{Evaluation, Figure, Kind, KindInfo, Metric, PathRecord, PathsRecord, model};
use crate::train::{Answer, Experiment, Ids, Judged, ModelRows, Source, answer_with_classes, guess, symbol_names};
use crate::{EvolveSettings, PpoSettings, SearchSettings, Settings};
use compute::Opened;
use compute::population::{Recipe, Score};
use features::{Fold, FoldKind, Input, InputLayout, class};
use files::{Column, Data, ParquetWriter, Result, Table, format_plural};
use judge::backtest::Backtest;
use judge::evidence::Findings;
use judge::ledger::StartedTrial;
use judge::measure::{Confusion, Interval};
use judge::split::Splits;
use judge::{Baselines, Member, Truth, ensemble};
use learn::classify::{Classify, Query, Spec, defaults, predict};
use learn::{Config, Learner, Trained};
use std::path::Path;

/// A classifier: what it reads, and its default net.
pub(crate) struct Classifier {
    pub(super) name: &'static str,
    pub(super) layout: InputLayout,
    pub(super) features: fn(usize) -> &'static str,
    /// What follows a window in the default net, by the units it would have.
    pub(super) branch: fn(usize) -> String,
    pub(super) trunk: &'static str,
}

/// Rows of the fast and of the slow window of the default net, and units of what reads them.
const FAST: (usize, usize) = (50, 64);
const SLOW: (usize, usize) = (24, 24);

/// What classifiers learn to do.
pub(crate) const TASK: &str = "classify";

const FIGURES: &[Figure] = &[
    Figure { name: "train_loss", tag: "train/loss", label: Some("loss") },
    Figure { name: "valid_loss", tag: "valid/loss", label: Some("validation") },
    Figure { name: "valid_mcc", tag: "valid/mcc", label: Some("MCC") },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
];

/// Matthews' correlation, which is never below -1.
const MCC: Metric = Metric {
    name: "valid_mcc",
    part: "valid",
    label: "MCC",
    unit: "",
    decimals: 4,
    higher_is_better: true,
    worst: -1.0,
};

const METRICS: &[Metric] = &[MCC, Metric { name: "test_mcc", part: "test", ..MCC }];

impl Kind for Classifier {
    fn info(&self) -> KindInfo {
        let Classifier { name, layout, features, .. } = *self;
        KindInfo { name, task: TASK, is_labelled: true, layout, features, metrics: METRICS, counts_decisions: false }
    }

    fn net(&self, settings: &Settings, inputs: &[Input], classes: usize) -> String {
        if let Some(net) = &settings.classify.net {
            return net.clone();
        }
        let branch = |input: &Input| {
            let (name, wide) = (&input.name, input.columns.len());
            let (window, units) = match name.as_str() {
                "strategy" | "row" => (1, 0),
                "fast" | "x" => FAST,
                _ => SLOW,
            };
            // Ready windows say how long they are; a row is a window of one.
            let window = if input.window > 0 && window > 1 { input.window } else { window };
            match window {
                1 => format!("{name}:{wide}"),
                _ => format!("{name}:{wide}x{window}{}", (self.branch)(units)),
            }
        };
        let branches: Vec<String> = inputs.iter().map(branch).collect();
        format!("{} / {} / direction:{classes}", branches.join(" + "), self.trunk)
    }

    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>> {
        Ok(Box::new(classify(source, splits, settings, device)?))
    }

    fn identity(&self, settings: &Settings) -> String {
        format!("{}{}", settings.classify.balance, settings.trading.identity())
    }

    fn rate(&self, settings: &Settings, batch: usize) -> f32 {
        settings.classify.rate.unwrap_or_else(|| defaults::rate(batch)) as f32
    }

    fn rate_rule(&self, settings: &Settings) -> &'static str {
        match settings.classify.rate {
            Some(_) => "as set, whatever the batch",
            None => {
                "1e-3 at batches of 512, scaled with the square root of the batch, between a quarter and four times that"
            }
        }
    }

    fn figures(&self, _: &Settings) -> &'static [Figure] {
        FIGURES
    }

    fn open(&self, asked: ModelRows<'_>) -> Result<Answer> {
        answer_with_classes(asked)
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        let mut predictions = predictions(experiment, members)?;
        let several = experiment.learner.configs().len() > 1;
        let name = |m: &Trained| member_name(several.then_some(m.config), m.fold, m.seed);
        let wrong = leave_out_not_finite(members.iter().map(name).zip(&mut predictions));
        let note = |name| format!("{name}: its probabilities on test samples are not finite, and it is left out");
        let notes = wrong.into_iter().map(note).collect();
        let symbols = experiment.source.sample_symbols();
        let mut tested = Tested {
            experiment,
            members,
            predictions,
            symbols,
            beside: Baselines::default(),
            notes,
            traded: None,
            paths: None,
        };
        // Ready arrays have no prices, and so no volatility.
        if let Ids::Bars { data, .. } = &experiment.source.ids {
            tested.beside.volatility = tested.truth().volatility_baseline(&data.base)?;
        }
        let columns = experiment.source.problem.inputs.iter().map(|input| input.columns.len()).sum();
        let rows = |fold: usize, positions: &[u32]| last_rows(experiment, fold, positions);
        tested.beside.logistic = tested.truth().logistic_baseline(columns, &rows, experiment.settings.threads())?;
        Ok(Box::new(tested))
    }
}

/// Classifiers on their test samples.
struct Tested<'a> {
    experiment: &'a Experiment,
    members: &'a [Trained],
    predictions: Vec<Vec<f32>>, // [members][test, classes] empty where a member predicts nothing
    symbols: Vec<u32>,          // [samples] the symbol of each
    beside: Baselines,
    notes: Vec<String>, // members that were left out
    traded: Option<TradedSignals>,
    paths: Option<PathsRecord>, // of folds around their tests
}

impl Tested<'_> {
    fn truth(&self) -> Truth<'_> {
        let (problem, folds) = (&self.experiment.source.problem, &self.experiment.splits.folds);
        Truth { samples: &problem.samples, classes: problem.classes, symbols: &self.symbols, folds }
    }

    fn is_around(&self) -> bool {
        self.experiment.splits.folds.iter().any(|fold| fold.kind == FoldKind::Around)
    }

    /// `[paths]` what the predictions of each are worth: `ensemble` `[folds][test, classes]`. None where a path has
    /// none.
    fn judge_paths(&self, ensemble: &[Vec<f32>]) -> Result<Vec<Option<judge::Judged>>> {
        let Experiment { source, splits, .. } = self.experiment;
        let (samples, classes) = (&source.problem.samples, source.problem.classes);
        let path = |path: &Vec<usize>| {
            let part = |(number, (group, fold)): (usize, (&[i64], &usize))| {
                let (own, said) = (&splits.folds[*fold], &ensemble[*fold]);
                let inside = |at: &&u32| (group[0]..group[1]).contains(&samples.t0[**at as usize]);
                let first = own.test.iter().take_while(|at| !inside(at)).count();
                let test: Vec<u32> = own.test.iter().filter(inside).copied().collect();
                let said = said.get(first * classes..(first + test.len()) * classes).unwrap_or_default().to_vec();
                (Fold { number, test, ..own.clone() }, said)
            };
            let parts = splits.groups.windows(2).zip(path).enumerate().map(part);
            let (folds, said): (Vec<Fold>, Vec<Vec<f32>>) = parts.unzip();
            Truth { folds: &folds, ..self.truth() }.judge(&said, &self.beside)
        };
        paths_of(self.experiment).iter().map(path).collect()
    }
}

impl Evaluation for Tested<'_> {
    fn test_figures(&self, member: usize) -> Result<Vec<Option<f64>>> {
        Ok(vec![self.truth().test_mcc(self.members[member].fold, &self.predictions[member])?])
    }

    fn judge(&self, config_of: &dyn Fn(usize) -> usize) -> Result<Option<Judged>> {
        let folds = self.experiment.splits.folds.len();
        let ensemble = ensemble(&judge_members(self.members, &self.predictions), folds, config_of);
        if self.is_around() {
            // The path in the middle stands for all.
            let mut paths: Vec<judge::Judged> = self.judge_paths(&ensemble)?.into_iter().flatten().collect();
            paths.sort_by(|a, b| a.mcc.total_cmp(&b.mcc));
            return Ok(paths.get(paths.len().saturating_sub(1) / 2).map(judged));
        }
        let record = self.truth().judge(&ensemble, &self.beside)?;
        Ok(record.as_ref().map(judged))
    }

    fn importance(&self, selected: &[usize]) -> Result<Vec<ColumnImportance>> {
        importance(self.experiment, self.members, selected)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn seal(&self, selected: &[usize], trials: &[StartedTrial]) -> Result<Option<model::Sealed>> {
        if self.is_around() {
            return Ok(None);
        }
        let judged = self.experiment.settings.refit.as_ref().map(|refit| vec![refit.trading.clone()]);
        let rules = judged.or_else(|| self.traded.as_ref().map(|traded| traded.rules.clone())).unwrap_or_default();
        let deployed = |trading| model::Deployed { trading, ..model::Deployed::default() };
        let deployed: Vec<model::Deployed> = rules.into_iter().map(deployed).collect();
        model::seal(self.experiment, self.members, selected, &deployed, trials).map(Some)
    }

    fn trade(&mut self, selected: &[usize]) -> Result<Option<Backtest>> {
        if self.experiment.settings.refit.is_some() {
            return Ok(None);
        }
        if self.is_around() {
            return self.trade_paths(selected);
        }
        let Some(trading) = Trading::new(self.experiment)? else { return Ok(None) };
        self.traded = trading.trade(&members_of(self.members, &|fold| selected[fold]))?;
        if let Some(traded) = &mut self.traded {
            self.notes.append(&mut traded.notes);
        }
        Ok(self.traded.as_ref().map(|own| own.traded.backtest.clone()))
    }

    fn paths(&self) -> Option<PathsRecord> {
        self.paths.clone()
    }

    fn keep_returns(&self) -> Result<Vec<Option<String>>> {
        let configs = self.experiment.learner.configs().len();
        if self.is_around() && configs > 1 {
            return Ok(vec![None; configs]);
        }
        // What was traded is of the configs that folds chose; each config is a trial with returns of its own.
        let trading = if configs > 1 { Trading::new(self.experiment)? } else { None };
        keep_returns(self.experiment, self.traded.as_ref().map(|own| &own.traded), |config| match &trading {
            Some(trading) => trading.walk_members(&members_of(self.members, &|_| config)),
            None => Ok(None),
        })
    }

    fn findings(&self, judged: &Judged) -> Option<(Findings, Vec<f64>)> {
        // A verdict is about what walks forward.
        if self.is_around() {
            return None;
        }
        let traded = self.traded.as_ref();
        let horizon = traded.map_or(1, |traded| traded.horizon);
        let found = Findings::new(traded.map(|own| &own.traded.backtest), record(judged).as_ref(), horizon);
        Some(match traded {
            Some(own) => own.traded.findings(found, &self.experiment.settings),
            None => (found, Vec::new()),
        })
    }

    fn save(&self, selected: &[usize], folder: &Path, sealed: Option<&model::Sealed>) -> Result<()> {
        if self.predictions.iter().any(|p| !p.is_empty()) {
            write_predictions(&folder.join("predictions.parquet"), self, selected)?;
        }
        if let (Some(traded), Ids::Bars { data, .. }) = (&self.traded, &self.experiment.source.ids) {
            traded.traded.save(folder, &data.base.market, &self.experiment.settings)?;
        }
        sealed.map_or(Ok(()), |sealed| {
            model::write(&folder.join("model"), self.experiment, self.members, selected, sealed)
        })
    }
}

impl Tested<'_> {
    /// Walks every path; where there is one alone, its backtest is the run's.
    fn trade_paths(&mut self, selected: &[usize]) -> Result<Option<Backtest>> {
        let Experiment { splits, .. } = self.experiment;
        let folds = splits.folds.len();
        let ensemble = ensemble(&judge_members(self.members, &self.predictions), folds, |fold| selected[fold]);
        let judged = self.judge_paths(&ensemble)?;
        let members = members_of(self.members, &|fold| selected[fold]);
        let mut traded = match Trading::new(self.experiment)? {
            Some(trading) => Some(trading.trade_paths(&members)?),
            None => None,
        };
        let record = |(at, judged): (usize, &Option<judge::Judged>)| {
            let tested = traded.as_ref().and_then(|traded| traded.get(at)).map(|own| &own.traded.backtest);
            PathRecord::new(at + 1, judged.as_ref().map(|judged| judged.mcc), tested)
        };
        let paths: Vec<PathRecord> = judged.iter().enumerate().map(record).collect();
        self.paths = Some(PathsRecord::new(folds, splits.groups.len().saturating_sub(1), splits.embargo, paths));
        if let Some(traded) = &mut traded {
            self.notes.append(&mut traded.first_mut().map_or_else(Vec::new, |first| std::mem::take(&mut first.notes)));
            if traded.len() == 1 {
                self.traded = traded.pop();
            }
        }
        Ok(self.traded.as_ref().map(|own| own.traded.backtest.clone()))
    }
}

/// The record that classifiers are judged by, of a run that has one.
pub(crate) fn record(judged: &Judged) -> Option<judge::Judged> {
    serde_json::from_value(judged.record.clone().into()).ok()
}

/// The record with its figures, and what is said of it.
pub(crate) fn judged(record: &judge::Judged) -> Judged {
    Judged {
        is_enough: record.no_interval.is_none(),
        ..Judged::new(record, vec![Some(record.mcc)], METRICS, sentences(record))
    }
}

/// What classifiers were judged to be, for people.
fn sentences(j: &judge::Judged) -> Vec<String> {
    let [accuracy, test, train] = [j.accuracy, j.test_majority_accuracy, j.majority_accuracy].map(|s| 100.0 * s);
    let accuracy = format!(
        "accuracy {accuracy:.2} % (always the most frequent class of the test: {test:.2} %; of each fold's training: \
         {train:.2} %), macro-F1 {:.4}",
        j.macro_f1
    );
    if let Some(why) = &j.no_interval {
        let samples = format_plural(j.samples, "sample");
        return vec![format!("not enough data for a verdict: {why}"), format!("{accuracy}, over {samples}")];
    }
    let figure = |x: Option<f64>| METRICS[1].format(x);
    let interval =
        |i: &Option<Interval>| i.as_ref().map_or(String::new(), |i| format!(" (95 %: {:.4} to {:.4}", i.low, i.high));
    let closed = |text: String| if text.is_empty() { text } else { text + ")" };
    let p = j.directional_p.map_or(String::new(), |p| match p {
        p if p < 1e-4 => ", p < 0.0001".into(),
        p => format!(", p {p:.4}"),
    });
    let direction = closed(interval(&j.directional_interval) + if j.directional_interval.is_some() { &p } else { "" });
    let mut all = vec![
        format!(
            "direction: MCC {}{direction}; repeating the last label: {}",
            figure(j.directional_mcc),
            figure(j.persistence_mcc)
        ),
        format!(
            "all classes: MCC {:.4}{} over {}",
            j.mcc,
            closed(interval(&j.mcc_interval)),
            format_plural(j.samples, "sample")
        ),
    ];
    all.extend(j.volatility_mcc.map(|baseline| {
        let some = j.volatility_samples.filter(|n| *n != j.samples);
        let some = some.map_or(String::new(), |n| format!(" (of {})", format_plural(n, "sample")));
        format!("volatility alone: MCC {baseline:.4} over all classes{some}; it says nothing about direction")
    }));
    all.extend(j.logistic.map(|logistic| {
        format!(
            "logistic regression on the same columns: direction MCC {}, all classes {:.4}, log-loss {:.4}",
            figure(logistic.directional_mcc),
            logistic.mcc,
            logistic.log_loss
        )
    }));
    all.push(accuracy);
    let prior = match (j.prior_log_loss, j.prior_brier) {
        (Some(loss), Some(brier)) => format!(" (class shares of the training: {loss:.4} and {brier:.4})"),
        _ => String::new(),
    };
    all.push(format!(
        "log-loss {:.4}, Brier score {:.4}{prior}, calibration error {:.4}",
        j.log_loss, j.brier, j.calibration_error
    ));
    all
}

/// Classifiers as the settings have them.
fn classify(source: &Source, splits: &Splits, settings: &Settings, device: &Opened) -> Result<Classify> {
    let of_policies = |own: &Settings| {
        own.ppo != PpoSettings::default()
            || own.evolve != EvolveSettings::default()
            || own.search != SearchSettings::default()
    };
    if settings.configs().iter().any(|(_, own)| of_policies(own)) {
        let what = format!(
            "`ppo.`, `evolve.` or `search.` is of policies, and `{}` is a classifier",
            settings.train.learner.name()
        );
        return Err(files::Error::new(files::Kind::Usage, what)
            .remedy("choose <train.learner=ppo>, evolve or search, or leave it out"));
    }
    if let Ids::Bars { data, rule: Some(rule), .. } = &source.ids {
        check_exit(&data.base.market, *rule, settings)?;
    }
    let samples = splits.folds.iter().map(|f| f.train.len()).min().unwrap_or(0);
    let kind = settings.train.learner.kind();
    let config = |((_, own), net): (&(String, Settings), &compute::Net)| {
        let recipe = recipe(own, samples, matches!(device, Opened::Cuda(_)));
        Config { net: net.clone(), rate: kind.rate(own, recipe.batch), recipe }
    };
    let [epochs, patience] = settings.train.epochs_and_patience();
    let spec = Spec {
        configs: settings.configs().iter().zip(&source.nets).map(config).collect(),
        epochs,
        stop_after: settings.refit.as_ref().map(|refit| refit.epochs),
        // Without validation nothing gets better.
        patience: if settings.refit.is_some() { u32::MAX } else { patience },
        seeds: settings.train.seeds as u32,
        balance: settings.classify.balance,
        score: mcc,
    };
    Classify::new(&source.problem, &splits.folds, spec)
}

/// The recipe as the settings have it; `samples` are those of the smallest fold.
fn recipe(settings: &Settings, samples: usize, cuda: bool) -> Recipe {
    let own = &settings.classify;
    let batch = own.batch.unwrap_or_else(|| defaults::batch(samples));
    let precision = settings.train.precision.unwrap_or_else(|| defaults::precision(cuda));
    let mut recipe = defaults::recipe(batch, precision, settings.general.seed);
    recipe.optimiser.decay = own.decay as f32;
    recipe.optimiser.clip = (own.clip > 0.0).then_some(own.clip as f32);
    recipe.schedule = defaults::schedule(own.schedule, own.warmup as f32);
    recipe.smoothing = own.smoothing as f32;
    recipe.average = (own.average > 0.0).then_some(own.average as f32);
    recipe
}

/// Matthews' correlation of a validation.
fn mcc(score: &Score) -> f64 {
    let counts = score.confusion.first().cloned().unwrap_or_default();
    let classes = counts.len().isqrt();
    Confusion::new(classes, counts).map_or(f64::NAN, |c| c.mcc())
}

/// `[members][test, classes]` what each member predicts with its best weights for its fold's test samples; nothing
/// where it has none.
pub(crate) fn predictions(experiment: &Experiment, members: &[Trained]) -> Result<Vec<Vec<f32>>> {
    let Experiment { source, splits, .. } = experiment;
    let test =
        |fold: usize| splits.folds[fold].test.iter().map(|at| source.problem.samples.rows[*at as usize]).collect();
    predictions_of(experiment, &members.iter().collect::<Vec<_>>(), &test)
}

/// The same for rows of its fold's choosing: `[members][rows, classes]`.
pub(crate) fn predictions_of(
    experiment: &Experiment,
    members: &[&Trained],
    rows: &dyn Fn(usize) -> Vec<u32>,
) -> Result<Vec<Vec<f32>>> {
    let Experiment { source, learner, at, pins, .. } = experiment;
    let mut all = vec![Vec::new(); members.len()];
    for (number, config) in learner.configs().iter().enumerate() {
        let mine = members.iter().enumerate().filter(|(_, m)| m.config == number);
        let mine = mine.filter_map(|(at, m)| Some((at, m, &m.best.as_ref()?.params)));
        let (places, queries): (Vec<usize>, Vec<Query<'_>>) = mine
            .map(|(at, m, params)| {
                (at, Query { id: m.id, scaler: &learner.scalers()[m.fold], params, ids: rows(m.fold), alone: false })
            })
            .unzip();
        let pins = pins.get(&learner.alike(number)).cloned().unwrap_or_default();
        let predicted = predict(&source.problem, &config.net, &config.recipe, at, &pins, &queries)?;
        places.into_iter().zip(predicted).for_each(|(at, predicted)| all[at] = predicted);
    }
    Ok(all)
}

/// `[positions, columns]` the last row of every input's window, as a fold's members see it: scaled by that fold.
fn last_rows(experiment: &Experiment, fold: usize, positions: &[u32]) -> Vec<f32> {
    let Experiment { source, learner, .. } = experiment;
    let problem = &source.problem;
    let scales = &learner.scalers()[fold].scales;
    let mut rows = Vec::new();
    for at in positions {
        let id = problem.samples.rows[*at as usize];
        for (input, scale) in problem.inputs.iter().zip(scales) {
            let row = input.map.as_ref().map_or(id, |map| map[id as usize]) as usize * input.stride;
            let values = &input.values[row..row + input.columns.len()];
            rows.extend(
                values
                    .iter()
                    .zip(&scale.mean)
                    .zip(&scale.inverse)
                    .map(|((x, mean), inverse)| ((x - mean) * inverse).clamp(-10.0, 10.0)),
            );
        }
    }
    rows
}

/// Takes away what a member says whose probabilities are not all finite, and names it: the others go on without it.
pub(crate) fn leave_out_not_finite<'a>(members: impl Iterator<Item = (String, &'a mut Vec<f32>)>) -> Vec<String> {
    let wrong = members.filter(|(_, own)| !own.iter().all(|p| p.is_finite()));
    wrong
        .map(|(name, own)| {
            own.clear();
            name
        })
        .collect()
}

/// What a member is called; its config has a number only where there are several.
pub(crate) fn member_name(config: Option<usize>, fold: usize, seed: u32) -> String {
    let config = config.map_or(String::new(), |config| format!("config {}, ", config + 1));
    format!("{config}fold {}, seed {}", fold + 1, seed + 1)
}

/// The members as the judge sees them; `predictions` are those on each one's fold's test.
pub(crate) fn judge_members<'a>(members: &[Trained], predictions: &'a [Vec<f32>]) -> Vec<Member<'a>> {
    let one = |(member, probabilities): (&Trained, &'a Vec<f32>)| Member {
        config: member.config,
        fold: member.fold,
        probabilities,
    };
    members.iter().zip(predictions).map(one).collect()
}

/// Every member's probabilities on its fold's test.
fn write_predictions(path: &Path, of: &Tested<'_>, selected: &[usize]) -> Result<()> {
    let Experiment { source, splits, learner, settings, .. } = of.experiment;
    let (samples, classes) = (&source.problem.samples, source.problem.classes);
    let mut writer = ParquetWriter::create(path, &[])?.threads(settings.threads());
    let symbols = symbol_names(source);
    for (member, p) in of.members.iter().zip(&of.predictions).filter(|(_, p)| !p.is_empty()) {
        let test = &splits.folds[member.fold].test;
        let at = |of: &dyn Fn(usize) -> i64| test.iter().map(|at| of(*at as usize)).collect::<Vec<i64>>();
        let ids: Vec<u32> = test.iter().map(|at| samples.rows[*at as usize]).collect();
        let mut columns = vec![
            Column {
                name: "symbol".into(),
                data: Data::Names { codes: source.ids.symbol_numbers(&ids), names: symbols.clone() },
            },
            Column::time("time", at(&|i| samples.t0[i])),
            Column { name: "fold".into(), data: Data::U32(vec![member.fold as u32 + 1; test.len()]) },
            Column { name: "seed".into(), data: Data::U32(vec![member.seed + 1; test.len()]) },
        ];
        if learner.configs().len() > 1 {
            let config = Data::U32(vec![member.config as u32 + 1; test.len()]);
            let chosen = i8::from(selected[member.fold] == member.config);
            columns.insert(2, Column { name: "config".into(), data: config });
            columns.insert(3, Column { name: "chosen".into(), data: Data::I8(vec![chosen; test.len()]) });
        }
        for (at, name) in class::names(classes).iter().enumerate() {
            columns.push(Column::f32(format!("p_{name}"), p.iter().skip(at).step_by(classes).copied().collect()));
        }
        columns.push(Column { name: "guess".into(), data: Data::I8(p.chunks_exact(classes).map(guess).collect()) });
        let label = test.iter().map(|at| samples.class[*at as usize]).collect();
        columns.push(Column { name: "label".into(), data: Data::I8(label) });
        columns.push(Column::time("t1", at(&|i| samples.t1[i])));
        writer.write(&Table { columns, rows: test.len() })?;
    }
    writer.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_says_nothing_finite_is_named_and_left_out_alone() {
        let mut said = vec![vec![0.5, 0.5], vec![0.2, f32::NAN], vec![], vec![f32::INFINITY]];
        let names = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(fold, seed)| member_name(None, fold, seed));
        let wrong = leave_out_not_finite(names.into_iter().zip(&mut said));
        assert_eq!(said, [vec![0.5, 0.5], vec![], vec![], vec![]]);
        assert_eq!(wrong, ["fold 1, seed 2", "fold 2, seed 2"]);
        assert_eq!(member_name(Some(1), 0, 1), "config 2, fold 1, seed 2");
    }

    #[test]
    fn settings_that_say_nothing_are_the_learners_own_recipe() {
        let mut settings = Settings::default();
        for (samples, cuda) in [(0, false), (200_000, true), (5_000_000, false)] {
            let own = defaults::recipe(defaults::batch(samples), defaults::precision(cuda), settings.general.seed);
            assert_eq!(recipe(&settings, samples, cuda), own);
        }
        let own = recipe(&settings, 0, false);
        for pair in ["decay=0.2", "clip=0", "schedule=constant", "warmup=0.1", "smoothing=0.1", "average=0.9"] {
            settings.set(&format!("train.{pair}")).expect(pair);
        }
        let set = recipe(&settings, 0, false);
        assert_eq!((set.optimiser.decay, set.optimiser.clip, set.smoothing, set.average), (0.2, None, 0.1, Some(0.9)));
        assert_eq!((set.schedule.warmup, set.schedule.floor), (0.1, 1.0));
        assert_eq!((set.batch, set.precision, set.seed), (own.batch, own.precision, own.seed));
    }
}
