//! `predict`: what a trained model says about bars: a classifier probabilities, a policy what it wants to hold.
//!
//! A policy looks at its account, so that one is walked along: flat where the prediction begins, then trading every bar
//! at cost.
//!
//! Bars are read as they were for the training ([`model_settings`]), so that features are the same to the bit; what a
//! caller sets over that is taken, and named in the notes.

use super::Holdings;
use super::arrays::are_ready;
use super::experiment::beside;
use super::source::{Market, fingerprint, input_bytes, load_market, longest};
use super::{memory_budget, open};
use crate::backtest::{bar_known_at, model_policy, wanted};
use crate::features::{TableUse, bar_bytes, check_memory, compute as compute_features, resolve};
use crate::kinds::classifier::{leave_out_not_finite, member_name};
use crate::kinds::model::{About, Loaded, Model, ModelFold, about, read, universe};
use crate::progress::{Sink, Update, check_stop};
use crate::{Refit, Select, Settings, add, find, os};
use account::Action;
use bars::{Bars, Timeframe};
use compute::Opened;
use features::{Dataset, Input, Plan, Samples, Span, class, read_set};
use files::time::rfc3339;
use files::{Column, Data, Error, Kind, ParquetWriter, Result, Table, format_bytes, format_list, format_plural};
use judge::backtest::{Backtest, Course, Latency, Walked, four_lines, latency};
use judge::ledger::Known;
use judge::mean_probabilities;
use judge::measure::most_likely;
use learn::classify::{self, Query};
use learn::{DeviceBudget, MemberKey, Problem};
use market::Policy;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Which model, about what.
#[derive(Debug, Clone, Default)]
pub struct Predict {
    /// The run's folder, or the model in it.
    pub run: PathBuf,
    /// What to read.
    pub select: Select,
    /// The file; `None` is `NAME-predictions.parquet` here.
    pub out: Option<PathBuf>,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// Write one row per member instead of their mean.
    pub members: bool,
    /// Write what the model wants to hold from the next open on beside its probabilities.
    pub positions: bool,
}

/// What was predicted.
#[derive(Debug, Clone, Serialize)]
pub struct Predicted {
    /// The file.
    pub path: String,
    /// What was read.
    pub data: String,
    /// Instruments, costs and sessions in one line.
    pub instruments: String,
    /// In words.
    pub device: String,
    /// Rows of the file.
    pub rows: u64,
    /// Bars that were asked about.
    pub bars: u64,
    /// Bars of the data that no fold may be asked about, or whose windows are not whole.
    pub left_out: u64,
    /// Members whose probabilities are not finite: `fold 2, seed 1`. The others predict without them.
    pub members_left_out: Vec<String>,
    /// Bars of the training data's holdout: locked, so nobody is asked about them.
    pub locked: u64,
    /// Share of each guess; empty of policies.
    pub guesses: Vec<f64>,
    /// Of policies, the share of bars at which they want to be short, flat and long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<f64>,
    /// Bars asked about a second.
    pub bars_per_s: f64,
    /// The most memory this process held; null where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// Notes.
    pub notes: Vec<String>,
}

/// The settings to ask a model with: its bars are read, mended and put together as they were for the training. What a
/// caller wants otherwise is set over these.
pub fn model_settings(run: &Path) -> Result<Settings> {
    let About { folder, model, .. } = about(run)?;
    let mut settings = match &model.reading {
        Some(reading) => Settings::from_read_settings(reading).map_err(|e| e.at(&folder.join("model.json")))?,
        None => Settings::default(),
    };
    // Models of older versions keep only this.
    settings.features.max_hole = model.max_hole;
    // A policy is shown the account that it was trained on.
    if let Some(account) = &model.account {
        settings.take_section(account).map_err(|e| e.at(&folder.join("model.json")))?;
    }
    Ok(settings)
}

/// The same to test what a run's model would have earned: with the account and the split that the run had.
pub fn run_settings(run: &Path) -> Result<Settings> {
    if crate::runs::find_run(run).is_err() && run.to_str().is_some_and(|data| find(data).is_ok()) {
        return Err(Error::new(Kind::Usage, "these are data, and no run whose model could decide")
            .at(run)
            .remedy("say who decides with <rule>, <policy> or <positions>, or give a run"));
    }
    let mut settings = model_settings(run)?;
    let mut own = Settings::default();
    own.read(&crate::runs::find_run(run)?)?;
    (settings.account, settings.split, settings.trading) = (own.account, own.split, own.trading);
    Ok(settings)
}

/// Asks the model; the settings are best made by [`model_settings`].
pub fn predict(request: &Predict, settings: &Settings, sink: Sink<'_>) -> Result<Predicted> {
    let Asked { path, loaded, data, mut answer, spans, instruments, device, asked, locked, mut notes, .. } =
        ask(request, request.positions, settings, sink)?;
    let (mut held, clock) = (Vec::new(), Instant::now());
    if request.positions || answer.policy.is_some() {
        let (columns, shares) = positions(&loaded, &data, &answer, &spans, settings).map_err(|e| e.at(&request.run))?;
        answer.table.columns.extend(columns);
        if let (Some(_), Some(first)) = (&answer.policy, spans.first()) {
            held = shares;
            notes.push(format!(
                "targets are of an account that starts flat on {} and trades these bars at cost: one that starts at \
                 another time may want something else at first",
                rfc3339(first.from()).chars().take(10).collect::<String>()
            ));
        }
    }
    let walking = clock.elapsed().as_secs_f64();
    let Answer { mut table, predicted, members_left_out, .. } = answer;
    let out = match &request.out {
        Some(out) => out.clone(),
        None => PathBuf::from(format!("{}-predictions.parquet", add::name_of(&path)?)),
    };
    let classes = loaded.model.classes;
    let mut guesses = vec![0u64; classes];
    if let Some(Data::I8(guess)) = table.columns.iter().find(|c| c.name == "guess").map(|c| &c.data) {
        guess.iter().for_each(|g| guesses[usize::from(class::index(*g, classes))] += 1);
    }
    let written = table.rows;
    let mut writer = ParquetWriter::create(&out, &[])?.threads(settings.threads());
    writer.write(&std::mem::take(&mut table))?;
    writer.finish()?;
    // A policy is asked while it walks.
    let (device, seconds) = (device.0, device.1 + if held.is_empty() { 0.0 } else { walking });
    Ok(Predicted {
        path: out.display().to_string(),
        data: path.display().to_string(),
        instruments,
        device,
        rows: written as u64,
        bars: predicted as u64,
        left_out: (asked - predicted - locked) as u64,
        members_left_out,
        locked: locked as u64,
        guesses: guesses.iter().map(|n| *n as f64 / written.max(1) as f64).collect(),
        wanted: held,
        bars_per_s: predicted as f64 / seconds.max(1e-9),
        peak_memory_bytes: os::peak_memory(),
        notes,
    })
}

/// The column `target`: the weight to hold from the next open on, 1 all long and -1 all short; and when each bar began.
/// Where positions end at barriers, `stop` and `limit`: their distance from that open as a share of it, 0 for as
/// before. Beside it the shares of bars that want to be short, flat and long.
fn positions(
    loaded: &Loaded,
    data: &Dataset,
    answer: &Answer,
    spans: &[Span],
    settings: &Settings,
) -> Result<(Vec<Column>, Vec<f64>)> {
    let table = &answer.table;
    let targets = wanted(data, &*model_policy(loaded, data, answer, settings, None)?, spans, settings)?;
    let column = |name: &str| table.columns.iter().find(|c| c.name == name).map(|c| &c.data);
    let mut wanted = vec![Action::target(f64::NAN); table.rows];
    let mut start = vec![files::MISSING_TIME; table.rows];
    if let (Some(Data::Names { codes, .. }), Some(Data::Time { ns, .. })) = (column("symbol"), column("time")) {
        for row in 0..table.rows {
            let symbol = codes[row] as usize;
            if let Some(t) = bar_known_at(&data.clock, symbol, ns[row]) {
                wanted[row] = targets.actions[data.base.offsets[symbol] + t];
                start[row] = data.base.market[symbol].start[t];
            }
        }
    }
    let column = |name: &str, of: fn(&Action) -> f64| Column::f64(name, wanted.iter().map(of).collect());
    let mut columns = vec![Column::time("bar_start", start), column("target", |action| action.target)];
    if targets.actions.iter().any(|action| action.stop > 0.0 || action.limit > 0.0) {
        columns.extend([column("stop", |action| action.stop), column("limit", |action| action.limit)]);
    }
    let share = |of: fn(f64) -> bool| {
        wanted.iter().filter(|action| of(action.target)).count() as f64 / table.rows.max(1) as f64
    };
    Ok((columns, vec![share(|x| x < 0.0), share(|x| x == 0.0), share(|x| x > 0.0)]))
}

/// What a model says about bars, and the bars.
pub(crate) struct Asked {
    /// What was read.
    pub(crate) path: PathBuf,
    pub(crate) loaded: Loaded,
    /// Bars and times; the columns are gone.
    pub(crate) data: Dataset,
    /// What it says, and who decides by it.
    pub(crate) answer: Answer,
    /// The time that may be asked about, whatever is locked left out.
    spans: Vec<Span>,
    pub(crate) instruments: String,
    /// In words, and the seconds it took.
    pub(crate) device: (String, f64),
    /// Whether these are the bars that it was trained on, to the bit.
    pub(crate) same_bars: bool,
    asked: usize,
    locked: usize,
    pub(crate) notes: Vec<String>,
}

/// A model and the bars it is to be asked about.
pub(crate) struct Question {
    /// What was read.
    pub(crate) path: PathBuf,
    pub(crate) loaded: Loaded,
    pub(crate) plan: Plan,
    pub(crate) market: Vec<Bars>,
    /// What the ledger knows of them.
    pub(crate) known: Known,
    pub(crate) timeframe: Timeframe,
    pub(crate) instruments: String,
    /// Whether these are the bars that it was trained on, to the bit.
    pub(crate) same_bars: bool,
    pub(crate) notes: Vec<String>,
}

/// Reads a model and bars, and refuses bars that it cannot be asked about. The history before those that are asked
/// about is read too.
pub(crate) fn read_question(run: &Path, select: &Select, settings: &Settings, sink: Sink<'_>) -> Result<Question> {
    let loaded = read(run)?;
    let model = &loaded.model;
    let Some(set) = &model.set else {
        return Err(Error::new(
            Kind::Usage,
            "the model was trained on ready arrays, and there is no feature set to compute",
        )
        .remedy("its predictions on its own data are in predictions.parquet of the run"));
    };
    let path = find(&select.data)?;
    if are_ready(&path) {
        return Err(Error::new(Kind::Usage, "the model reads bars, and this is a file of ready arrays")
            .at(&path)
            .remedy("give the bars that they were made of"));
    }
    moved(model, settings)?;
    // Bars before those that are asked about warm the features up.
    let history = Select { from: None, ..select.clone() };
    let Market { bars: market, timeframe, instruments, findings, .. } = load_market(&path, &history, settings, sink)?;
    if model.timeframe.as_deref() != Some(timeframe.to_string().as_str()) {
        let was = model.timeframe.clone().unwrap_or_default();
        return Err(Error::input(format!("the model was trained on bars of {was}, and these are of {timeframe}"))
            .at(&path)
            .remedy(format!("give bars of {was}, or train a model on these")));
    }
    let plan = resolve(&read_set(set)?, settings)?;
    let mut known = Holdings::of_bars(&market, settings).map_err(|e| e.at(&path))?.known;
    // A refit was trained on what had been opened.
    known.locks.retain(|lock| model.refit.is_none() || !lock.is_opened);
    let same_bars = fingerprint(&market) == model.data;
    let mut notes = read_otherwise(model, settings, same_bars);
    notes.extend(loaded.note.clone());
    notes.extend(model.refit.as_ref().map(Refit::note));
    notes.extend(model.account.iter().flat_map(|account| settings.account_settings().differences(account)));
    if !same_bars {
        // Of its own bars the training has said it.
        notes.extend(findings);
    }
    let symbols: Vec<String> = market.iter().map(|b| b.symbol.clone()).collect();
    if universe(&symbols) != universe(&model.symbols) {
        let strange = symbols.iter().filter(|s| !model.symbols.contains(s)).count();
        if plan.sees_market() {
            return Err(Error::input(format!(
                "the model reads the whole market of {} symbols, and these data have another one ({strange} it never saw)",
                model.symbols.len()
            ))
            .at(&path)
            .remedy("give the bars of the universe it was trained on"));
        }
        if strange > 0 {
            notes.push(format!("{strange} of {} symbols were not in training", symbols.len()));
        }
    }
    Ok(Question { path, loaded, plan, market, known, timeframe, instruments, same_bars, notes })
}

/// The bytes that are made of a row beside its features.
pub(crate) fn bytes_of_row(model: &Model, by_member: bool) -> usize {
    // A policy trades while it is asked: a row's prices and times, and what is wanted there.
    let traded = if model.account.is_some() { size_of::<account::Bar>() + 12 + 48 } else { 0 };
    model.folds.iter().map(|fold| answer_bytes(model, fold, by_member)).max().unwrap_or(0) + ROW_BYTES + traded
}

/// Opens the device that a model is asked on. Policies decide bar after bar, on a processor, but for those that were
/// judged searching on a card.
pub(crate) fn open_for(
    model: &Model,
    device: &str,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<(Opened, String)> {
    let on_card = model.folds.iter().any(|fold| fold.searched_on_card);
    if model.account.is_none() || on_card {
        let opened = open(device, settings)?;
        if on_card && matches!(opened.0, Opened::Cpu { .. }) {
            let what = "this policy was judged searching on a GPU in bf16; on the processor some decisions may differ";
            notes.push(what.into());
        }
        return Ok(opened);
    }
    if device.starts_with("cuda") {
        notes.push("a policy decides bar after bar, on the processor: no GPU was used".into());
    }
    open("cpu", settings)
}

/// Reads bars and asks a model about them; nothing is written. `walked` says that its decisions are walked through an
/// account afterwards, which takes memory too.
pub(crate) fn ask(request: &Predict, walked: bool, settings: &Settings, sink: Sink<'_>) -> Result<Asked> {
    let Question { path, loaded, plan, market, known, timeframe, instruments, same_bars, mut notes } =
        read_question(&request.run, &request.select, settings, sink)?;
    let own = settings.without_labels();
    let made = bytes_of_row(&loaded.model, request.members);
    // What a policy says is walked in any case.
    let walked = walked || loaded.model.account.is_some();
    let table_use = if walked { TableUse::Tested(made) } else { TableUse::Inputs(made) };
    check_memory(&market, timeframe, &plan, table_use, &own).map_err(|e| e.at(&path))?;
    let (mut data, _) = compute_features(market, &plan, &own, sink)?;
    check_stop()?;
    let (device, device_words) = open_for(&loaded.model, &request.device, settings, &mut notes)?;
    let clock = Instant::now();
    sink(Update { phase: "asking", done: 0, total: 0, unit: "" });
    let rows = choose_rows(&loaded, &data, &known, request.select.from)?;
    // The rows have their own copy of the columns; what stays are bars and times.
    data.release_values();
    if rows.predicted() == 0 {
        return Err(nothing_to_predict(&loaded, &data, &rows, &request.run, request.select.from).at(&path));
    }
    let (locked, asked, spans) = (rows.locked, rows.asked, rows.spans(&data));
    let asking = Asking { by_member: request.members, alone: false };
    let answer = answer(&loaded, &data, device, settings, rows, asking)?;
    let note = |name| format!("{name}: its probabilities are not finite, and it is left out");
    notes.extend(answer.members_left_out.iter().map(note));
    if answer.silent > 0 {
        notes.push(format!("{} get no prediction, since no member of their fold is left", bars_of(answer.silent)));
    }
    let device = (device_words, clock.elapsed().as_secs_f64());
    Ok(Asked { path, loaded, data, answer, spans, instruments, device, same_bars, asked, locked, notes })
}

/// How a model is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asking {
    /// One row per member instead of their mean.
    pub(crate) by_member: bool,
    /// Bar by bar.
    pub(crate) alone: bool,
}

/// A model, and the rows that it is to be asked about.
pub(crate) struct ModelRows<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) data: &'a Dataset,
    pub(crate) rows: RowsOfFolds,
    pub(crate) device: Opened,
    pub(crate) settings: &'a Settings,
    pub(crate) asking: Asking,
}

/// Asks a model about rows, as its kind does.
pub(crate) fn answer(
    loaded: &Loaded,
    data: &Dataset,
    device: Opened,
    settings: &Settings,
    rows: RowsOfFolds,
    asking: Asking,
) -> Result<Answer> {
    loaded.model.learner.kind().open(ModelRows { loaded, data, rows, device, settings, asking })
}

/// Asks a classifier about rows on a device, within the memory that may be used.
pub(crate) fn answer_with_classes(asked: ModelRows<'_>) -> Result<Answer> {
    let ModelRows { loaded, data, rows, device, settings, asking } = asked;
    let held = held_bytes(loaded, data, &rows, asking.by_member);
    let at = DeviceBudget { budget: beside(memory_budget(settings, &device), settings, held, &device), device };
    predict_rows(loaded, data, &at, rows, asking).map_err(|e| match e.kind {
        Kind::Memory => {
            let held = format_bytes(held);
            e.remedy(format!("give more with <memory>: bars, features and predictions take {held} of it"))
        }
        _ => e,
    })
}

/// Refuses to go on where a file that the training read is no longer there, and says how to do without.
fn moved(model: &Model, settings: &Settings) -> Result<()> {
    let mine = model.reading.as_ref().map(Settings::from_read_settings).transpose()?.unwrap_or_default();
    let files = [
        (
            "the training read its factors here",
            "give the new place with <universe.factors>, or go without: <universe.factors=auto>",
            &settings.universe.factors,
            &mine.universe.factors,
        ),
        (
            "the training read its membership here",
            "give the new place with <universe.membership>, or go without: <universe.membership=auto>",
            &settings.universe.membership,
            &mine.universe.membership,
        ),
    ];
    for (read, remedy, here, then) in files {
        if let Some(path) = here.as_ref().filter(|path| Some(*path) == then.as_ref() && !path.exists()) {
            return Err(Error::input(format!("{read}, and it is no longer there")).at(path).remedy(remedy));
        }
    }
    Ok(())
}

/// How bars are read otherwise than for the training, a sentence each; nothing where they are the same to the bit.
fn read_otherwise(model: &Model, settings: &Settings, same_bars: bool) -> Vec<String> {
    match &model.reading {
        Some(then) => settings.read_settings().differences(then, same_bars),
        None if same_bars => Vec::new(),
        None => vec![
            "the model is of a version that did not keep how its bars were read: zone, stamps, repairs, factors, membership and sessions are \
             those said here, and features may differ"
                .into(),
        ],
    }
}

/// Which rows each fold is asked about, and how many there are of the others.
#[derive(Clone)]
pub(crate) struct RowsOfFolds {
    pub(crate) folds: Vec<Vec<u32>>, // [folds] rows
    pub(crate) inputs: Vec<Input>,
    asked: usize,
    locked: usize,
    /// The first and the last moment of what is locked.
    locked_times: Option<(i64, i64)>,
    /// Known before the first test.
    early: usize,
    /// Without whole, settled windows.
    unready: usize,
}

impl RowsOfFolds {
    /// These rows, and no others that were asked about.
    pub(crate) fn of(folds: Vec<Vec<u32>>, inputs: Vec<Input>) -> RowsOfFolds {
        RowsOfFolds { folds, inputs, asked: 0, locked: 0, locked_times: None, early: 0, unready: 0 }
    }

    /// From the first row that is asked about to the end of the data, what is locked left out.
    pub(crate) fn spans(&self, data: &Dataset) -> Vec<Span> {
        let times = || self.folds.iter().flatten().map(|row| data.clock.time(*row as usize));
        let (Some(from), Some(to)) = (times().min(), data.clock.times.last()) else { return Vec::new() };
        let to = to.saturating_add(1);
        let parts = match self.locked_times {
            Some((first, last)) => vec![(from, first), (from.max(last.saturating_add(1)), to)],
            None => vec![(from, to)],
        };
        parts.into_iter().filter_map(|(from, to)| Span::new(from, to)).collect()
    }

    pub(crate) fn predicted(&self) -> usize {
        self.folds.iter().map(Vec::len).sum()
    }
}

/// The rows of bars that start at `from` or later, by fold; `ledger` is what it knows of these series.
pub(crate) fn choose_rows(loaded: &Loaded, data: &Dataset, ledger: &Known, from: Option<i64>) -> Result<RowsOfFolds> {
    let model = &loaded.model;
    let inputs = data.inputs(model.learner.info().layout);
    for (has, wants) in inputs.iter().zip(&model.inputs) {
        if has.columns != wants.columns {
            return Err(Error::input(format!(
                "the features of `{}` are not those of the model: {} and {}",
                wants.name,
                has.columns.join(", "),
                wants.columns.join(", ")
            ))
            .remedy("data without volume lose features; give the kind of data that the model was trained on"));
        }
    }
    if inputs.len() != model.inputs.len() {
        return Err(Error::input(format!("the data have {} inputs, the model {}", inputs.len(), model.inputs.len())));
    }
    let windows = longest(&loaded.nets);
    let usable = data.usable_rows(&inputs, &windows);
    let time = |row: usize| data.clock.time(row);
    // Each bar goes to the newest fold whose test had begun when the bar became known, and who has anybody to ask.
    let fold_of = |row: usize| model.folds.iter().rposition(|f| f.test_from <= time(row) && !f.seeds.is_empty());
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); model.folds.len()];
    let known: Vec<bool> = data.base.market.iter().map(|b| model.symbols.contains(&b.symbol)).collect();
    let closed = |row: usize| {
        let held = model.holdout.is_some_and(|(from, to)| (from..to).contains(&time(row)));
        let symbol = data.base.place(row).0;
        // Under another name, or of another run, it is as locked.
        held && known[symbol] || ledger.is_locked(symbol, time(row))
    };
    let (mut asked, mut locked, mut early, mut unready) = (0, 0, 0, 0);
    let mut locked_times: Option<(i64, i64)> = None;
    for (row, is_usable) in usable.into_iter().enumerate() {
        let (symbol, bar) = data.base.place(row);
        if from.is_some_and(|from| data.base.market[symbol].start[bar] < from) {
            continue;
        }
        asked += 1;
        match fold_of(row) {
            _ if !is_usable => unready += 1,
            None => early += 1,
            Some(_) if closed(row) => {
                locked += 1;
                let (first, last) = locked_times.unwrap_or((i64::MAX, i64::MIN));
                locked_times = Some((first.min(time(row)), last.max(time(row))));
            }
            Some(fold) => rows[fold].push(row as u32),
        }
    }
    Ok(RowsOfFolds { folds: rows, inputs, asked, locked, locked_times, early, unready })
}

/// Why nothing can be predicted.
pub(crate) fn nothing_to_predict(
    loaded: &Loaded,
    data: &Dataset,
    rows: &RowsOfFolds,
    run: &Path,
    from: Option<i64>,
) -> Error {
    let model = &loaded.model;
    let day = |time: i64| rfc3339(time);
    let mut why = Vec::new();
    if rows.asked == 0 {
        let last = data.base.market.iter().filter_map(|bars| bars.start.last()).max();
        why.push(match (from, last) {
            (Some(from), Some(last)) => format!("the last bar is of {}, before {}", day(*last), day(from)),
            _ => "there are no bars".into(),
        });
    }
    let bars = bars_of;
    if rows.locked > 0 {
        why.push(format!("{} of the locked holdout of its training", bars(rows.locked)));
    }
    if let Some(first) = model.folds.first().filter(|_| rows.early > 0) {
        why.push(format!("{} from before its first test ({})", bars(rows.early), day(first.test_from)));
    }
    if rows.unready > 0 {
        let windows = longest(&loaded.nets).into_iter().max().unwrap_or(1);
        let columns = data.base.columns.iter().chain(data.slow.iter().flat_map(|s| &s.table.columns));
        let late = columns.max_by_key(|c| c.settled.unwrap_or(usize::MAX));
        let late = late.map_or(String::new(), |c| match c.settled {
            Some(settled) => format!(", and `{}` settles after {}", c.name, bars(settled)),
            None => format!(", and `{}` never settles", c.name),
        });
        let history = format!("windows are of {}{late}", format_plural(windows as u64, "row"));
        why.push(format!("{} without enough history before them ({history})", bars(rows.unready)));
    }
    let run = run.display();
    let open = format!("; `fullbore holdout {run}` judges the run on its holdout, once");
    let open = if rows.locked > 0 { open } else { String::new() };
    Error::input(format!("the model has nothing to predict here: {}", format_list(&why, "and")))
        .remedy(format!("give bars from after its training, with the history before them{open}"))
}

/// Bytes of a row beside its features: the clock, whether it is usable and settled, and a share of a small net.
const ROW_BYTES: usize = 32;

/// Bytes of a row that is predicted: ids and probabilities of every member of its fold, and what goes into the file,
/// with its encoding.
fn answer_bytes(model: &Model, fold: &ModelFold, by_member: bool) -> usize {
    let (seeds, probabilities) = (fold.seeds.len(), 4 * model.classes);
    let written = if by_member { seeds } else { 1 };
    seeds * (4 + probabilities) + written * 2 * (21 + probabilities)
}

/// Bytes held on a processor beside nets and tables.
fn held_bytes(loaded: &Loaded, data: &Dataset, rows: &RowsOfFolds, by_member: bool) -> u64 {
    let model = &loaded.model;
    let fold = |(fold, rows): (&ModelFold, &Vec<u32>)| rows.len() * answer_bytes(model, fold, by_member);
    let answers: usize = model.folds.iter().zip(&rows.folds).map(fold).sum();
    let weights: usize = loaded.params.iter().flatten().map(|params| 4 * params.len()).sum();
    let times = 14 * data.base.rows();
    (bar_bytes(&data.base.market) + input_bytes(&rows.inputs) + answers + weights + times) as u64
}

fn bars_of(n: usize) -> String {
    format_plural(n as u64, "bar")
}

/// What a model says, and who decides by it.
#[derive(Default)]
pub(crate) struct Answer {
    /// Symbol, time, fold, (seed,) and of classifiers probabilities and guess.
    pub(crate) table: Table,
    predicted: usize,
    members_left_out: Vec<String>,
    /// Bars of folds whose members were all left out.
    silent: usize,
    /// Who decides; none of a classifier, whose probabilities become positions by the rule of each fold.
    pub(crate) policy: Option<Arc<dyn Policy>>,
    /// Of a policy that searches, its net alone.
    pub(crate) net: Option<NetAlone>,
}

/// What a searcher stands beside: its net without the search.
pub(crate) struct NetAlone {
    pub(crate) policy: Box<dyn Policy>,
    /// `[rows]` the fold that searches there; none where nobody does.
    pub(crate) searches: Vec<Option<u16>>,
    /// The length of a bar.
    pub(crate) bar_seconds: f64,
}

impl NetAlone {
    /// Adds the lines that a searcher stands beside to what it earned; how long decisions take.
    pub(crate) fn stand_beside(
        &self,
        (backtest, walked): (&mut Backtest, &Walked),
        course: &Course<'_>,
        searcher: &dyn Policy,
        settings: &Settings,
    ) -> Result<Option<Latency>> {
        backtest.lines = four_lines(course, &*self.policy, walked)?;
        latency(course, [&*self.policy, searcher], &self.searches, (self.bar_seconds, settings.search.latency))
    }
}

impl Answer {
    /// A policy that decides on these rows.
    pub(crate) fn of_policy(loaded: &Loaded, data: &Dataset, rows: &[Vec<u32>], policy: Arc<dyn Policy>) -> Answer {
        let predicted = rows.iter().map(Vec::len).sum();
        let mut table = Rows::new(0, false, predicted);
        let folds = loaded.model.folds.iter().zip(rows);
        folds.for_each(|(fold, rows)| table.push(data, fold.number, None, rows, &[]));
        Answer { table: table.table(data), predicted, policy: Some(policy), ..Answer::default() }
    }
}

/// Asks each fold about its rows.
fn predict_rows(
    loaded: &Loaded,
    data: &Dataset,
    at: &DeviceBudget,
    of: RowsOfFolds,
    Asking { by_member, alone }: Asking,
) -> Result<Answer> {
    let (model, rows) = (&loaded.model, &of.folds);
    let (ids, samples) = (data.base.rows(), Samples::default());
    let problem = Problem { inputs: of.inputs, ids, classes: model.classes, samples, ..Problem::default() };
    let recipe = |at: usize| model.folds[at].config.as_ref().map_or(&model.recipe, |c| &c.recipe);
    let alike = |a: usize, b: usize| loaded.nets[a] == loaded.nets[b] && recipe(a).precision == recipe(b).precision;
    let mut predicted = Vec::new();
    // Folds that lie behind one another and have one net are predicted together.
    let places: Vec<usize> = (0..model.folds.len()).collect();
    for places in places.chunk_by(|a, b| alike(*a, *b)) {
        let mut queries = Vec::new();
        for at in places {
            let (fold, scaler) = (&model.folds[*at], &loaded.scalers[*at]);
            let config = fold.config.as_ref().map_or(0, |c| c.number.saturating_sub(1));
            for (seed, params) in fold.seeds.iter().zip(&loaded.params[*at]) {
                let id = MemberKey { config, fold: fold.number, seed: *seed }.id();
                queries.push(Query { id, scaler, params, ids: rows[*at].clone(), alone });
            }
        }
        predicted.extend(classify::predict(
            &problem,
            &loaded.nets[places[0]],
            recipe(places[0]),
            at,
            &model.pins,
            &queries,
        )?);
    }
    let name = |fold: &ModelFold, seed: &u32| {
        member_name(fold.config.as_ref().map(|c| c.number.saturating_sub(1)), fold.number, *seed)
    };
    let names: Vec<String> = model.folds.iter().flat_map(|f| f.seeds.iter().map(move |seed| name(f, seed))).collect();
    let members_left_out = leave_out_not_finite(names.into_iter().zip(&mut predicted));
    let mut predicted = predicted.into_iter();
    let written = |(fold, rows): (&ModelFold, &Vec<u32>)| rows.len() * if by_member { fold.seeds.len() } else { 1 };
    let most = model.folds.iter().zip(rows).map(written).sum();
    let mut table = Rows::new(model.classes, by_member, most);
    let mut silent = 0;
    for (fold, rows) in model.folds.iter().zip(rows) {
        let each: Vec<Vec<f32>> = predicted.by_ref().take(fold.seeds.len()).collect();
        let finite = || fold.seeds.iter().zip(&each).filter(|(_, p)| !p.is_empty());
        if finite().next().is_none() {
            silent += rows.len();
        } else if by_member {
            finite().for_each(|(seed, p)| table.push(data, fold.number, Some(*seed), rows, p));
        } else {
            let mean = mean_probabilities(&finite().map(|(_, p)| p.as_slice()).collect::<Vec<_>>());
            table.push(data, fold.number, None, rows, &mean);
        }
    }
    let predicted = rows.iter().map(Vec::len).sum::<usize>() - silent;
    if predicted == 0 {
        let all = format_list(&members_left_out, "and");
        return Err(Error::input(format!("no member can predict these bars, since no probability is finite: {all}"))
            .remedy("look for absurd values with `fullbore data audit`, or train again with `fullbore train`"));
    }
    Ok(Answer { table: table.table(data), predicted, members_left_out, silent, policy: None, net: None })
}

/// Columns of the file as they grow.
struct Rows {
    classes: usize,
    symbol: Vec<u32>,
    time: Vec<i64>,
    fold: Vec<u32>,
    seed: Option<Vec<u32>>,
    /// `[classes][rows]`
    p: Vec<Vec<f32>>,
    guess: Vec<i8>,
}

impl Rows {
    fn new(classes: usize, by_member: bool, rows: usize) -> Rows {
        Rows {
            classes,
            symbol: Vec::with_capacity(rows),
            time: Vec::with_capacity(rows),
            fold: Vec::with_capacity(rows),
            seed: by_member.then(|| Vec::with_capacity(rows)),
            p: (0..classes).map(|_| Vec::with_capacity(rows)).collect(),
            guess: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, data: &Dataset, fold: usize, seed: Option<u32>, rows: &[u32], p: &[f32]) {
        for (at, row) in rows.iter().enumerate() {
            let p = &p[at * self.classes..(at + 1) * self.classes];
            self.symbol.push(data.base.place(*row as usize).0 as u32);
            self.time.push(data.clock.time(*row as usize));
            self.fold.push(fold as u32 + 1);
            if let (Some(seeds), Some(seed)) = (&mut self.seed, seed) {
                seeds.push(seed + 1);
            }
            self.p.iter_mut().zip(p).for_each(|(column, p)| column.push(*p));
            if self.classes > 0 {
                self.guess.push(guess(p));
            }
        }
    }

    fn table(self, data: &Dataset) -> Table {
        let rows = self.time.len();
        let names = data.base.market.iter().map(|b| b.symbol.clone()).collect();
        let mut columns = vec![
            Column { name: "symbol".into(), data: Data::Names { codes: self.symbol, names } },
            Column::time("time", self.time),
            Column { name: "fold".into(), data: Data::U32(self.fold) },
        ];
        columns.extend(self.seed.map(|seed| Column { name: "seed".into(), data: Data::U32(seed) }));
        let names = if self.classes > 0 { class::names(self.classes).iter() } else { [].iter() };
        columns.extend(names.zip(self.p).map(|(name, values)| Column::f32(format!("p_{name}"), values)));
        if self.classes > 0 {
            columns.push(Column { name: "guess".into(), data: Data::I8(self.guess) });
        }
        Table { columns, rows }
    }
}

/// The class of the largest probability, the first of equals: -1, 0 or 1.
pub(crate) fn guess(p: &[f32]) -> i8 {
    class::label(most_likely(p) as u8, p.len())
}
