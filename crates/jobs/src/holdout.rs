//! `holdout`: a run's last fold, judged once on the part of its data that stayed locked.
//!
//! It is the only way to look there. The opening is written into the ledger before anything is predicted, so one that
//! is cut off counts too; it counts for the series, whichever run opens it and whatever their file is called. From the
//! second opening on it is a holdout no longer, and the record says so. What the first opening of a run showed stays in
//! its folder: `holdout.json`, and `holdout/` with returns, trades and positions.

use crate::backtest::model_policy;
use crate::kinds::classifier::{judged, leave_out_not_finite, member_name};
use crate::kinds::model::{self, Loaded};
use crate::kinds::test_blocks::price_table;
use crate::kinds::trading::{Block, beliefs_of, distances, horizon, portfolio_notes};
use crate::progress::{Update, check_stop};
use crate::runs::finished_run;
use crate::train::{
    Asking, Experiment, Ids, NetAlone, RowsOfFolds, answer, ledger_path, load, open, started_trials, stored_request,
    write_json,
};
use crate::trials::{Family, returns_in};
use crate::{Settings, TrainEvent, backtest};
use features::{Fold, Span};
use files::time::rfc3339;
use files::{Error, Kind, Lock, Result, format_plural};
use judge::backtest::{Backtest, Course, Follower, Latency, backtest as walk_policy, decide};
use judge::evidence::{Evidence, Findings, HoldoutResult};
use judge::ledger::{Ledger, Opening, StartedTrial};
use judge::split::Holdout;
use judge::{Baselines, Truth, mean_probabilities};
use learn::MemberKey;
use learn::classify::{self, Query};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Which run.
#[derive(Debug, Clone, Default)]
pub struct HoldoutRequest {
    /// Its folder, or its name under `runs/`.
    pub run: PathBuf,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
}

/// What a run is worth on its holdout; `holdout.json` of its folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HoldoutRecord {
    /// How often the holdout of these data has been opened, this time counted.
    pub opening: u64,
    /// Whether it still was one: opened for the first time, and never released.
    pub is_holdout: bool,
    /// When it was opened.
    pub opened: String,
    /// The first moment of it.
    pub from: String,
    /// The last.
    pub to: String,
    /// Trading days; null where nothing can be traded, as what follows.
    pub days: Option<u64>,
    /// Round trips.
    pub trades: Option<u64>,
    /// Yearly Sharpe ratio, net of costs; null where nothing was traded.
    pub net_sharpe: Option<f64>,
    /// The same at twice the costs.
    pub net_sharpe_2x: Option<f64>,
    /// Every opening so far, this one last.
    pub openings: Vec<HoldoutOpening>,
    /// What its predictions are worth: the same record as of the test samples.
    pub judged: Option<Map<String, Value>>,
    /// What its decisions would have earned; null for ready arrays, which have no prices.
    pub backtest: Option<Backtest>,
    /// The verdict of the training, weighed again with what the holdout showed; null where there was none.
    #[serde(default)]
    pub evidence: Option<Evidence>,
}

/// An opening of a holdout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HoldoutOpening {
    /// When.
    pub time: String,
    /// The run that opened it.
    pub run: String,
}

/// A holdout that was opened.
#[derive(Debug, Clone, Serialize)]
pub struct HoldoutOpened {
    /// The run's folder.
    pub folder: String,
    /// What was read.
    pub data: String,
    /// Instruments, costs and sessions in one line; null for ready arrays.
    pub instruments: Option<String>,
    /// In words.
    pub device: String,
    /// What it showed.
    #[serde(flatten)]
    pub record: HoldoutRecord,
    /// How long decisions of a searcher take; absent from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What its predictions are worth, for people.
    #[serde(skip)]
    pub sentences: Vec<String>,
    /// Notes.
    pub notes: Vec<String>,
    /// Wall clock.
    pub seconds: f64,
}

/// What the first opening of a run showed; none where it opened nothing.
pub fn read_holdout(run: &Path) -> Option<HoldoutRecord> {
    serde_json::from_slice(&files::read_file(&run.join(FILE), LONGEST).ok()?).ok()
}

const FILE: &str = "holdout.json";
/// No `holdout.json` is longer.
const LONGEST: u64 = 256 << 20;

/// Opens the holdout of a run; threads and memory alone are taken from the settings, the others are the run's.
pub fn holdout(
    request: &HoldoutRequest,
    pace: &Settings,
    tell: &mut (dyn FnMut(TrainEvent<'_>) + Send),
) -> Result<HoldoutOpened> {
    let clock = Instant::now();
    let (folder, run) = finished_run(&request.run, "there is nothing to judge")?;
    let wrong = |what: &str, remedy: String| Error::new(Kind::State, what).at(&folder).remedy(remedy);
    let loaded = model::read(&folder)?;
    if let Some(refit) = &loaded.model.refit {
        let remedy = format!("`fullbore holdout {}` judges its recipe", refit.run);
        return Err(wrong("a refit is not judged itself, and has seen what its run left out", remedy));
    }
    let Some((_, end)) = loaded.model.holdout else {
        return Err(wrong("this run held nothing out", "train with <split.holdout=0.15>".into()));
    };
    let _lock = Lock::acquire(&folder)?;

    // The experiment as it was: the same bars (and none that came since), the same samples, the same folds.
    let (mut train, settings) = stored_request(&folder, &run)?;
    if loaded.model.set.is_some() {
        train.select.to = Some(train.select.to.map_or(end - 1, |to| to.min(end - 1)));
    }
    let settings = settings.with_pace(pace);
    let source = load(&train.select, train.set.as_deref(), &settings, &mut |u| tell(TrainEvent::Update(u)))?;
    let changed = |what: &str| {
        Error::new(Kind::State, format!("{what}, so that the holdout is not the one that the run left out"))
            .at(&source.path)
            .remedy("bring the data back as they were; or train again: what is locked stays locked")
    };
    if source.fingerprint != loaded.model.data {
        return Err(changed("the data have changed since the run was trained"));
    }
    let changed = changed("folds come out otherwise than when the run was trained");
    let experiment = Experiment::new(source, &settings, open(&request.device, &settings)?, false)?;
    let same = experiment.learner.scalers().first().map(|scaler| model::hex(scaler.split)) == loaded.model.split;
    let held = experiment.splits.holdout.clone().filter(|_| same).ok_or(changed)?;
    check_stop()?;

    // Written down before anything is seen.
    let fold = loaded.model.folds.iter().rposition(|fold| !fold.seeds.is_empty()).unwrap_or(0);
    let trials = started_trials(&run, &folder)?;
    let config = loaded.model.folds[fold].config.as_ref().map_or(0, |config| config.number.saturating_sub(1));
    let trial = trials.get(config).ok_or_else(|| wrong("run.json does not name its trial", "train again".into()))?;
    let ledger = Ledger::open(&ledger_path()?)?;
    let span = Span::new(held.span.from(), end).unwrap_or(held.span);
    let by = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone()).display().to_string();
    let openings = ledger.open_holdout(trial, span, &by)?;
    let released = experiment.source.holdings.known.released.is_some_and(|to| to > span.from());

    tell(TrainEvent::Update(Update { phase: "judging", done: 0, total: 0, unit: "" }));
    let mut notes = experiment.source.notes.clone();
    let made = judge_block(&experiment, &loaded, fold, &held, span, &mut notes)?;
    if released {
        notes.push("a part of it was released before: runs since then may have trained on it".into());
    }
    let mut record = made.record(&openings, released, span);
    record.evidence = weigh(&folder, &record, &ledger, trial)?;
    // The ledger first: a result is written there before anybody sees it.
    ledger.judge_holdout(
        trial,
        &json!({
            "opening": record.opening, "days": record.days, "trades": record.trades,
            "net_sharpe": record.net_sharpe, "net_sharpe_2x": record.net_sharpe_2x,
            "mcc": record.judged.as_ref().and_then(|judged| judged.get("mcc")),
        }),
    )?;
    if read_holdout(&folder).is_none() {
        if let (Some((record, walked)), Ids::Bars { data, .. }) = (&made.traded, &experiment.source.ids) {
            backtest::save(&folder.join("holdout"), &data.base.market, record, walked, settings.threads())?;
        }
        write_json(&folder.join(FILE), &record)?;
        // The verdict on the page is this one from now on; a page that cannot be written can be made later.
        if let Err(why) = crate::report_run(&folder) {
            notes.push(format!("the report was not written again: {why}"));
        }
    }
    Ok(HoldoutOpened {
        folder: folder.display().to_string(),
        data: experiment.source.path.display().to_string(),
        instruments: experiment.source.instruments.clone(),
        device: experiment.device.clone(),
        record,
        latency: made.latency,
        sentences: made.judged.map_or_else(Vec::new, |judged| judged.sentences),
        notes,
        seconds: clock.elapsed().as_secs_f64(),
    })
}

/// The verdict in `result.json`, weighed again with every trial that the ledger has by now. A holdout that the run
/// failed stays failed, however often it is opened.
fn weigh(folder: &Path, record: &HoldoutRecord, ledger: &Ledger, trial: &StartedTrial) -> Result<Option<Evidence>> {
    let result = files::read_file(&folder.join("result.json"), LONGEST).ok();
    let result: Option<Value> = result.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let before = result.and_then(|mut result| serde_json::from_value(result.get_mut("evidence")?.take()).ok());
    let failed = |first: &HoldoutRecord| first.opening == 1 && first.net_sharpe_2x.is_none_or(|sharpe| sharpe <= 0.0);
    let first = read_holdout(folder).filter(failed);
    let shown = first.as_ref().unwrap_or(record);
    let (Some(Evidence { findings, .. }), Some(days), Some(trades)) = (before, shown.days, shown.trades) else {
        return Ok(None);
    };
    let held = HoldoutResult {
        sharpe_annual: shown.net_sharpe,
        sharpe_annual_twice: shown.net_sharpe_2x,
        days: days as usize,
        trades: trades as usize,
        opening: shown.opening as usize,
    };
    let mut found = Findings { holdout: Some(held), ..findings };
    let daily = returns_in(&folder.join("backtest/returns.parquet"));
    if let (Some(row), Some(daily)) = (ledger.trials()?.into_iter().find(|row| row.row == trial.row), daily) {
        let daily: Vec<f64> = daily.into_values().collect();
        found = Family::of(ledger, &row.trial.symbols, row.trial.span)?.count_in(found, &daily)?;
    }
    let name = folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
    Ok(Some(found.weigh(&name)))
}

/// A fold's ensemble on the holdout.
struct JudgedBlock {
    judged: Option<crate::Judged>,
    traded: Option<(Backtest, judge::backtest::Walked)>,
    latency: Option<Latency>,
}

impl JudgedBlock {
    fn record(&self, openings: &[Opening], released: bool, span: Span) -> HoldoutRecord {
        let traded = self.traded.as_ref().map(|(record, _)| record);
        let at = |multiple: f64| {
            let of = |record: &Backtest| record.multiples.iter().find(|m| m.multiple == multiple).copied();
            traded.filter(|record| record.costs.traded > 0.0).and_then(of).and_then(|m| m.sharpe_annual)
        };
        HoldoutRecord {
            opening: openings.len() as u64,
            is_holdout: openings.len() == 1 && !released,
            opened: openings.last().map_or_else(String::new, |opening| rfc3339(opening.time)),
            from: rfc3339(span.from()),
            to: rfc3339(span.to() - 1),
            days: traded.map(|record| record.net.days as u64),
            trades: traded.map(|record| record.net.round_trips.count as u64),
            net_sharpe: at(1.0),
            net_sharpe_2x: at(2.0),
            openings: openings
                .iter()
                .map(|opening| HoldoutOpening { time: rfc3339(opening.time), run: opening.by.clone() })
                .collect(),
            judged: self.judged.as_ref().map(|judged| judged.record.clone()),
            backtest: traded.cloned(),
            evidence: None,
        }
    }
}

/// Trades the holdout with the policy of a fold, by its place in the model: there is nothing else to judge it by.
fn trade_block(
    experiment: &Experiment,
    loaded: &Loaded,
    place: usize,
    span: Span,
    notes: &mut Vec<String>,
) -> Result<JudgedBlock> {
    let Experiment { source, settings, at, .. } = experiment;
    let Ids::Bars { data, usable, .. } = &source.ids else {
        return Err(Error::input("policies trade, and ready arrays have no prices"));
    };
    let inside = |row: &u32| usable[*row as usize] && span.contains(data.clock.time(*row as usize));
    let mut folds = vec![Vec::new(); loaded.model.folds.len()];
    folds[place] = (0..usable.len() as u32).filter(inside).collect();
    let rows = RowsOfFolds::of(folds, source.problem.inputs.clone());
    let opened = answer(loaded, data, at.device.clone(), settings, rows, Asking::default())?;
    let fold = &loaded.model.folds[place];
    if fold.flat.len() == fold.seeds.len() {
        notes.push("the last fold stays flat: no seed of it was above flat by a standard error in validation".into());
    }
    let table = price_table(&data.base.market, settings)?;
    notes.extend(table.notes.iter().cloned());
    let (market, clock, delisting_return) = (&data.base.market, &data.clock, settings.account.delisting_return);
    let course = Course { market, clock, table: &table, span, delisting_return };
    let policy = model_policy(loaded, data, &opened, settings, None)?;
    // Asked once: whoever looks at an account is slow to ask, and its decisions can be walked again.
    let decided = decide(&course, &*policy)?;
    let (mut backtest, walked) = walk_policy(&course, &decided, &[], settings.threads())?;
    let beside = |net: &NetAlone| net.stand_beside((&mut backtest, &walked), &course, &*policy, settings);
    let latency = opened.net.as_ref().map(beside).transpose()?.flatten();
    notes.extend(latency.and_then(|own| own.note()));
    Ok(JudgedBlock { judged: None, traded: Some((backtest, walked)), latency })
}

/// Predicts the holdout with the members of a fold, by their place in the model, and judges what they say of it.
fn judge_block(
    experiment: &Experiment,
    loaded: &Loaded,
    place: usize,
    held: &Holdout,
    span: Span,
    notes: &mut Vec<String>,
) -> Result<JudgedBlock> {
    if loaded.model.account.is_some() {
        return trade_block(experiment, loaded, place, span, notes);
    }
    let Experiment { source, splits, settings, at, .. } = experiment;
    let (problem, model, fold) = (&source.problem, &loaded.model, &loaded.model.folds[place]);
    let (samples, classes) = (&problem.samples, problem.classes);
    // Every bar is decided on, labelled or not; ready arrays have nothing but samples.
    let rows: Vec<u32> = match &source.ids {
        Ids::Bars { data, usable, .. } => {
            let inside = |row: &u32| usable[*row as usize] && span.contains(data.clock.time(*row as usize));
            (0..usable.len() as u32).filter(inside).collect()
        }
        Ids::Ready { .. } => held.samples.iter().map(|at| samples.rows[*at as usize]).collect(),
    };
    let config = fold.config.as_ref().map(|config| config.number.saturating_sub(1));
    let id = |seed: u32| MemberKey { config: config.unwrap_or(0), fold: fold.number, seed }.id();
    let scaler = &loaded.scalers[place];
    let members = fold.seeds.iter().zip(&loaded.params[place]);
    let queries: Vec<Query<'_>> = members
        .map(|(seed, params)| Query { id: id(*seed), scaler, params, ids: rows.clone(), alone: false })
        .collect();
    let recipe = fold.config.as_ref().map_or(&model.recipe, |config| &config.recipe);
    let mut said = classify::predict(problem, &loaded.nets[place], recipe, at, &model.pins, &queries)?;
    let names = fold.seeds.iter().map(|seed| member_name(config, fold.number, *seed));
    let wrong = leave_out_not_finite(names.zip(&mut said));
    notes.extend(wrong.iter().map(|name| format!("{name}: its probabilities are not finite, and it is left out")));
    let mean = mean_probabilities(&said.iter().filter(|p| !p.is_empty()).map(Vec::as_slice).collect::<Vec<_>>());
    if mean.is_empty() {
        return Err(Error::new(Kind::State, "no member predicts anything finite there").remedy("train again"));
    }

    let places: HashMap<u32, usize> = rows.iter().enumerate().map(|(at, row)| (*row, at)).collect();
    let known = held.samples.iter().filter_map(|at| Some((*at, *places.get(&samples.rows[*at as usize])?)));
    let (test, known): (Vec<u32>, Vec<usize>) = known.unzip();
    let p: Vec<f32> = known.iter().flat_map(|at| &mean[at * classes..(at + 1) * classes]).copied().collect();
    let block = Fold { number: 0, test, ..splits.folds[fold.number].clone() };
    let symbols = source.sample_symbols();
    let truth = Truth { samples, classes, symbols: &symbols, folds: std::slice::from_ref(&block) };
    let volatility = match &source.ids {
        Ids::Bars { data, .. } => truth.volatility_baseline(&data.base)?,
        Ids::Ready { .. } => None,
    };
    let record = truth.judge_holdout(&[p], &Baselines { volatility, ..Baselines::default() })?;
    let mut made = JudgedBlock { judged: record.as_ref().map(judged), traded: None, latency: None };

    let (Ids::Bars { data, rule: Some(rule), .. }, Some(trading)) = (&source.ids, &fold.trading) else {
        return Ok(made);
    };
    if trading.threshold.is_none() {
        let fold = format_plural(fold.number as u64 + 1, "fold");
        notes.push(format!("the last of {fold} does not trade: no threshold earned its keep on validation data"));
    }
    let table = price_table(&data.base.market, settings)?;
    notes.extend(table.notes.iter().cloned());
    notes.extend(portfolio_notes(&data.base.market, &table, &trading.portfolio));
    let block = Block { rows, probabilities: mean, rule: Some(trading.clone()) };
    let beliefs = Arc::new(beliefs_of(data, &[block]));
    let follower = Follower {
        market: &data.base.market,
        table: Some(&table),
        horizon: horizon(*rule),
        portfolio: trading.portfolio,
        barriers: distances(data, trading.exit, trading.barriers)?,
    };
    let policy = follower.policy(beliefs);
    let course = Course {
        market: &data.base.market,
        clock: &data.clock,
        table: &table,
        span,
        delisting_return: settings.account.delisting_return,
    };
    made.traded = Some(walk_policy(&course, &*policy, &[], settings.threads())?);
    Ok(made)
}
