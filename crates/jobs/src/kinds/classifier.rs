//! What classifiers share: trained by `learn::classify`, selected by Matthews' correlation on validation samples,
//! judged on test samples, kept as `predictions.parquet` and the folder `model`.

use super::{Figure, Judgement, Kind, PerConfig, defaults, model};
use crate::Settings;
use crate::train::{Experiment, Ids, MemberRow, Source, guess, symbol_names};
use compute::Opened;
use compute::population::Score;
use features::{Input, InputLayout, class};
use files::{Column, Data, ParquetWriter, Result, Table};
use judge::measure::Confusion;
use judge::split::Splits;
use judge::{Member, Truth, ensemble, select_configs, validation_scores};
use learn::classify::{Classify, Query, Spec, predict};
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

const FIGURES: &[Figure] = &[
    Figure { name: "train_loss", tag: "train/loss", label: Some("loss") },
    Figure { name: "valid_loss", tag: "valid/loss", label: Some("validation") },
    Figure { name: "valid_mcc", tag: "valid/mcc", label: Some("MCC") },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
];

impl Kind for Classifier {
    fn name(&self) -> &'static str {
        self.name
    }

    fn layout(&self) -> InputLayout {
        self.layout
    }

    fn features(&self, symbols: usize) -> &'static str {
        (self.features)(symbols)
    }

    fn net(&self, inputs: &[Input], classes: usize) -> String {
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
        settings.classify.balance.to_string()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn selected_by(&self) -> &'static str {
        "valid_mcc"
    }

    fn unjudged(&self, experiment: &Experiment, members: &[Trained]) -> Result<Vec<MemberRow>> {
        let symbols = experiment.source.sample_symbols();
        rows(experiment, &truth(experiment, &symbols), members, &vec![Vec::new(); members.len()])
    }

    fn judge(&self, experiment: &Experiment, members: &[Trained]) -> Result<Judgement> {
        let predictions = predictions(experiment, members)?;
        let symbols = experiment.source.sample_symbols();
        let truth = truth(experiment, &symbols);
        let rows = rows(experiment, &truth, members, &predictions)?;
        let members = judge_members(members, &predictions);
        let (configs, folds) = (experiment.learner.configs().len(), experiment.splits.folds.len());
        let selected = select_configs(&members, configs, folds);
        // Ready arrays have no prices, and so no volatility.
        let volatility = match &experiment.source.ids {
            Ids::Bars { data, .. } => truth.volatility_baseline(&data.base)?,
            Ids::Ready { .. } => None,
        };
        let judge = |config_of: &dyn Fn(usize) -> usize| {
            truth.judge(&ensemble(&members, folds, config_of), experiment.settings.general.seed, volatility)
        };
        let judged = judge(&|fold| selected[fold])?;
        let mut per_config = Vec::new();
        if configs > 1 {
            for (at, valid) in validation_scores(&members, configs, |_| true).into_iter().enumerate() {
                per_config.push(PerConfig { valid, judged: judge(&|_| at)? });
            }
        }
        Ok(Judgement { rows, judged, selected, per_config, predictions })
    }

    fn save(&self, experiment: &Experiment, members: &[Trained], of: &Judgement, folder: &Path) -> Result<()> {
        write_predictions(&folder.join("predictions.parquet"), experiment, members, of)?;
        model::write(&folder.join("model"), experiment, members, &of.selected)
    }
}

/// Classifiers as the settings have them.
pub(crate) fn classify(source: &Source, splits: &Splits, settings: &Settings, device: &Opened) -> Result<Classify> {
    let samples = splits.folds.iter().map(|f| f.train.len()).min().unwrap_or(0);
    let config = |((_, own), net): (&(String, Settings), &compute::Net)| {
        let recipe = defaults::recipe(own, samples, matches!(device, Opened::Cuda(_)));
        Config { net: net.clone(), rate: defaults::rate(&own.classify, recipe.batch), recipe }
    };
    let spec = Spec {
        configs: settings.configs().iter().zip(&source.nets).map(config).collect(),
        epochs: settings.train.epochs as u32,
        patience: settings.train.patience as u32,
        seeds: settings.train.seeds as u32,
        balance: settings.classify.balance,
        score: mcc,
    };
    Classify::new(&source.problem, &splits.folds, spec)
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
    let Experiment { source, splits, learner, at, .. } = experiment;
    let test =
        |fold: usize| splits.folds[fold].test.iter().map(|at| source.problem.samples.rows[*at as usize]).collect();
    let mut all = vec![Vec::new(); members.len()];
    for (number, config) in learner.configs().iter().enumerate() {
        let mine = members.iter().enumerate().filter(|(_, m)| m.config == number);
        let mine = mine.filter_map(|(at, m)| Some((at, m, &m.best.as_ref()?.params)));
        let (places, queries): (Vec<usize>, Vec<Query<'_>>) = mine
            .map(|(at, m, params)| {
                (at, Query { id: m.id, scaler: &learner.scalers()[m.fold], params, ids: test(m.fold) })
            })
            .unzip();
        let predicted = predict(&source.problem, &config.net, &config.recipe, at, &queries)?;
        places.into_iter().zip(predicted).for_each(|(at, predicted)| all[at] = predicted);
    }
    Ok(all)
}

/// What predictions are held against; `symbols` `[samples]` is the symbol of each sample.
fn truth<'a>(experiment: &'a Experiment, symbols: &'a [u32]) -> Truth<'a> {
    let problem = &experiment.source.problem;
    Truth { samples: &problem.samples, classes: problem.classes, symbols, folds: &experiment.splits.folds }
}

/// The members as the judge sees them; `predictions` are those on each one's fold's test.
pub(crate) fn judge_members<'a>(members: &[Trained], predictions: &'a [Vec<f32>]) -> Vec<Member<'a>> {
    let one = |(member, probabilities): (&Trained, &'a Vec<f32>)| Member {
        config: member.config,
        fold: member.fold,
        score: member.best.as_ref().map(|b| b.score),
        probabilities,
    };
    members.iter().zip(predictions).map(one).collect()
}

/// A line for each member.
fn rows(
    experiment: &Experiment,
    truth: &Truth<'_>,
    members: &[Trained],
    predictions: &[Vec<f32>],
) -> Result<Vec<MemberRow>> {
    let unit = experiment.learner.unit();
    let row = |(m, p): (&Trained, &Vec<f32>)| Ok(MemberRow::new(m, unit, truth.test_mcc(m.fold, p)?));
    let mut rows = members.iter().zip(predictions).map(row).collect::<Result<Vec<MemberRow>>>()?;
    // Configs may have been trained in another order.
    rows.sort_by_key(|m| (m.config, m.fold, m.seed));
    Ok(rows)
}

/// Every member's probabilities on its fold's test.
fn write_predictions(path: &Path, experiment: &Experiment, members: &[Trained], of: &Judgement) -> Result<()> {
    let Experiment { source, splits, learner, settings, .. } = experiment;
    let (samples, classes) = (&source.problem.samples, source.problem.classes);
    let mut writer = ParquetWriter::create(path, &[])?.threads(settings.threads());
    let symbols = symbol_names(source);
    for (member, p) in members.iter().zip(&of.predictions).filter(|(_, p)| !p.is_empty()) {
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
            let chosen = i8::from(of.selected[member.fold] == member.config);
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
