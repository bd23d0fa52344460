//! `check parity`: would a live account have done what the backtest did?
//!
//! The bars are fed one by one through streams of features; what the model says of those rows, which positions follow
//! and what the account makes of them must equal the backtest to the bit. A policy says nothing but positions, on its
//! way through its account. Then the model is started anew at the
//! beginning of each test block, as a live account would be, with a warm-up instead of the whole history: how many
//! positions change is counted. Nothing is written, and no result is shown: this is no look at what was earned.

use crate::backtest::{locked_from, model_policy, span};
use crate::features::{TableUse, check_memory, compute};
use crate::kinds::model::{Loaded, ModelFold};
use crate::kinds::test_blocks::price_table;
use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::train::{
    Answer, Asking, Holdings, Question, RowsOfFolds, answer, bytes_of_row, choose_rows, longest, nothing_to_predict,
    open_for, read_question, run_data,
};
use crate::{Select, Settings};
use account::Action;
use bars::Bars;
use features::{Clock, Dataset, Input, Options, Plan, Span, class};
use files::time::rfc3339;
use files::{Data, Error, Kind, Result, Table};
use judge::backtest::{Course, Walked, decide, walk};
use market::{Needs, OBSERVED, Policy, Targets, View};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Which run, on what.
#[derive(Debug, Clone)]
pub struct ParityRequest {
    /// The run whose model decides.
    pub run: PathBuf,
    /// What to read; `data` may be empty: the run's own.
    pub select: Select,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// Bars before a start; `None`: as many as features and windows take to settle.
    pub warm_up: Option<usize>,
    /// Ask the model about every bar alone, not about a sample of them.
    pub all: bool,
}

/// What was compared, and what differs.
#[derive(Debug, Clone, Serialize)]
pub struct Parity {
    /// The run.
    pub run: String,
    /// What was read.
    pub data: String,
    /// Whether everything was equal, from the same start.
    pub equal: bool,
    /// Device, in words.
    pub device: String,
    /// Symbols that were streamed.
    pub symbols: u64,
    /// Bars that were streamed.
    pub bars: u64,
    /// Bars that the model decided on.
    pub decided: u64,
    /// Features, probabilities, positions and equity: backtest and stream.
    pub compared: Vec<Compared>,
    /// Starts with a warm-up, one at each test block.
    pub starts: Vec<LiveStart>,
    /// From when on the data are locked: nothing of it was streamed. Null where nothing is.
    pub locked_from: Option<String>,
    /// Notes.
    pub notes: Vec<String>,
    /// Wall clock.
    pub seconds: f64,
}

/// Numbers of the backtest and of the stream.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Compared {
    /// `features`, `bars decided on`, `probabilities`, `bars asked alone`, `positions` or `equity`.
    pub what: &'static str,
    /// Numbers that were compared.
    pub compared: u64,
    /// Those that differ.
    pub different: u64,
    /// The first of them.
    pub first: Option<Difference>,
}

/// A number that differs.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Difference {
    /// Whose.
    pub symbol: String,
    /// When it became known.
    pub time: String,
    /// Which: the name of a feature, of a class.
    pub name: String,
    /// In the backtest; null where there is none.
    pub backtest: Option<f64>,
    /// From the stream.
    pub stream: Option<f64>,
}

/// A start with a warm-up, followed to the next one.
#[derive(Debug, Clone, Serialize)]
pub struct LiveStart {
    /// The fold whose test begins, from 1.
    pub fold: usize,
    /// When.
    pub from: String,
    /// The most bars of a symbol that came before.
    pub warm_up: u64,
    /// Bars until the next start.
    pub bars: u64,
    /// Bars that the backtest decided on and this start could not: the warm-up was too short.
    pub undecided: u64,
    /// Probabilities that differ from the backtest's.
    pub changed_probabilities: u64,
    /// By how much at most.
    pub largest_change: f64,
    /// Bars at which another position is wanted, the time until the first signal counted: a start knows no earlier one.
    pub changed_positions: u64,
}

/// Bars that the model is asked about alone, unless all are.
const ALONE: usize = 500;

/// Feeds a run's model bar by bar and holds it against its backtest.
pub fn parity(request: &ParityRequest, settings: &Settings, sink: Sink<'_>) -> Result<Parity> {
    let started_at = Instant::now();
    let own = run_data(&request.run)?;
    let select = match request.select.data.is_empty() {
        true => Select { from: request.select.from, to: request.select.to.or(own.to), ..own },
        false => request.select.clone(),
    };
    let Question { path, loaded, plan, market, known, timeframe, mut notes, .. } =
        read_question(&request.run, &select, settings, sink)?;
    check_stop()?;
    let holdings = Holdings::of_bars(&market, settings).map_err(|e| e.at(&path))?;
    let settings = &settings.with_held(Some(holdings.held)).without_labels();
    let whole = Clock::new(&market);
    let from = loaded.model.folds.first().map(|fold| fold.test_from).into_iter().chain(select.from).max();
    let locked = locked_from(&holdings, &whole, settings, from, loaded.model.refit.is_some());
    let span = span(&whole, from, locked, Some(&request.run)).map_err(|e| e.at(&path))?;
    // What is locked is not even streamed.
    let market = known_before(market, &whole, span.to());
    let symbols = market.len();
    if plan.fit(true, symbols)?.plan.sees_market() {
        return Err(Error::new(
            Kind::Usage,
            "the model's features look at the whole market, which cannot be streamed yet",
        )
        .at(&request.run)
        .remedy("check a model without features of the market; its backtest is not affected"));
    }
    // The inputs of the backtest, the streamed rows and a second copy of the bars are held beside each other.
    let bytes = bytes_of_row(&loaded.model, false) + 2 * 4 * plan.width() + 64;
    check_memory(&market, timeframe, &plan, TableUse::Inputs(bytes), settings)?;

    let (mut data, _) = compute(market, &plan, settings, sink)?;
    check_stop()?;
    let rows = choose_rows(&loaded, &data, &known, select.from)?;
    if rows.predicted() == 0 {
        return Err(nothing_to_predict(&loaded, &data, &rows, &request.run, select.from).at(&path));
    }
    let starts = plan_starts(&loaded, &data, &rows, span.to(), request.warm_up);
    data.release_values();
    let mut streamed = stream(data.base.market.clone(), &plan, settings, sink)?;
    let live = choose_rows(&loaded, &streamed, &known, select.from)?;
    streamed.release_values();

    let mut compared = vec![compare_features(&data, &rows.inputs, &live.inputs), compare_rows(&data, &rows, &live)];
    let decided = rows.predicted() as u64;
    let (device, device_words) = open_for(&loaded.model, &request.device, settings, &mut notes)?;
    let ask = |phase: &'static str, data: &Dataset, rows: RowsOfFolds, alone: bool, sink: Sink<'_>| {
        check_stop()?;
        sink(Update { phase, done: 0, total: 0, unit: "" });
        answer(&loaded, data, device.clone(), settings, rows, Asking { by_member: false, alone })
    };
    let batch = ask("asking", &data, rows, false, sink)?;
    let mut some = live.clone();
    some.folds = sample(&live.folds, if request.all { usize::MAX } else { ALONE });
    let lived = ask("asking", &data, live, false, sink)?;
    if batch.policy.is_none() {
        let alone = ask("asking about bars alone", &data, some, true, sink)?;
        compared.push(compare_probabilities("probabilities", &data, &batch.table, &lived.table, true));
        compared.push(compare_probabilities("bars asked alone", &data, &batch.table, &alone.table, false));
    }

    let table = price_table(&data.base.market, settings).map_err(|e| e.at(&path))?;
    let delisting_return = settings.account.delisting_return;
    let course = Course { market: &data.base.market, clock: &data.clock, table: &table, span, delisting_return };
    let policy = |said: &Answer| model_policy(&loaded, &data, said, settings, None).map_err(|e| e.at(&request.run));
    let (tested, live) = (policy(&batch)?, policy(&lived)?);
    sink(Update { phase: "walking", done: 0, total: 0, unit: "" });
    let wanted = decide(&course, &*tested)?;
    compared.push(compare_positions("positions", &data, &wanted, &decide(&course, &*live)?));
    if batch.policy.is_some() {
        let alone = decide(&course, &OneByOne(&*live))?;
        compared.push(compare_positions("bars asked alone", &data, &wanted, &alone));
    }
    // The backtest replays what was decided; a live account asks at every close.
    let (replayed, asked) = (walk(&course, &table.params, &wanted)?, walk(&course, &table.params, &*live)?);
    compared.push(compare_equity(&replayed, &asked));

    let mut live_starts = Vec::with_capacity(starts.len());
    for start in &starts {
        let market = start.rows.iter().zip(&data.base.market).map(|(rows, bars)| bars.part(rows.clone())).collect();
        let mut streamed = stream(market, &plan, settings, sink)?;
        let mut rows = choose_rows(&loaded, &streamed, &known, select.from)?;
        streamed.release_values();
        for rows in &mut rows.folds {
            rows.retain(|row| streamed.clock.time(*row as usize) >= start.from);
        }
        let said = match rows.predicted() {
            0 => Answer::default(),
            _ => ask("starting with a warm-up", &streamed, rows, false, sink)?,
        };
        let started = match (&batch.policy, &said.policy, Span::new(start.from, start.to)) {
            // Its account begins flat here; rows are those of the stream.
            (Some(_), Some(policy), Some(span)) => {
                let policy = OnStream { policy: Arc::clone(policy), rows: start.rows_of(&data, &streamed) };
                decide(&Course { span, ..course }, &policy)?
            }
            (Some(_), ..) => Targets::none(data.base.rows()),
            _ => decide(&course, &*policy(&said)?)?,
        };
        live_starts.push(start.judge(&data, &batch.table, &said.table, &wanted, &started));
    }
    Ok(Parity {
        run: request.run.display().to_string(),
        data: path.display().to_string(),
        equal: compared.iter().all(|c| c.different == 0),
        device: device_words,
        symbols: symbols as u64,
        bars: data.base.rows() as u64,
        decided,
        compared,
        starts: live_starts,
        locked_from: locked.map(rfc3339),
        notes,
        seconds: started_at.elapsed().as_secs_f64(),
    })
}

/// The bars of each symbol that became known before a moment.
fn known_before(market: Vec<Bars>, clock: &Clock, time: i64) -> Vec<Bars> {
    let known = |symbol: usize| clock.rows(symbol).filter(|row| clock.time(*row) < time).count();
    market.into_iter().enumerate().map(|(symbol, bars)| bars.part(0..known(symbol))).collect()
}

/// The tables of a market, bar by bar.
fn stream(market: Vec<Bars>, plan: &Plan, settings: &Settings, sink: Sink<'_>) -> Result<Dataset> {
    let stop = stop_flag();
    let sink = Mutex::new(sink);
    let progress = |phase: &'static str, done: usize, total: usize| {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink(Update { phase, done: done as u64, total: total as u64, unit: "rows" });
    };
    let options = Options {
        threads: settings.threads(),
        max_hole: settings.features.max_hole,
        labels: None,
        progress: &progress,
        stop: &|| stop.load(Ordering::Relaxed),
    };
    Dataset::streamed(market, plan, &options)
}

/// `[folds]` at most so many of the rows, from all over them.
fn sample(folds: &[Vec<u32>], most: usize) -> Vec<Vec<u32>> {
    let all: usize = folds.iter().map(Vec::len).sum();
    let step = all.div_ceil(most.max(1)).max(1);
    folds.iter().map(|rows| rows.iter().copied().step_by(step).collect()).collect()
}

/// A start with a warm-up: from when, up to when, and which bars of each symbol are streamed.
struct PlannedStart {
    fold: usize,
    from: i64,
    to: i64,
    rows: Vec<std::ops::Range<usize>>, // [S]
    warm_up: usize,
}

/// A start at the first bar of every test block. A warm-up is as long as the slowest column takes to settle and the
/// longest window to fill, on every timeframe.
fn plan_starts(
    loaded: &Loaded,
    data: &Dataset,
    rows: &RowsOfFolds,
    end: i64,
    warm_up: Option<usize>,
) -> Vec<PlannedStart> {
    let windows = longest(&loaded.nets);
    let longest = |mapped: bool| {
        let own = rows.inputs.iter().zip(&windows).filter(move |(input, _)| input.map.is_some() == mapped);
        own.map(|(_, window)| *window)
    };
    let settled = |table: &features::Table| table.columns.iter().filter_map(|c| c.settled).max().unwrap_or(0);
    let base = settled(&data.base) + longest(false).max().unwrap_or(1);
    let slow: Vec<usize> = data.slow.iter().zip(longest(true)).map(|(s, window)| settled(&s.table) + window).collect();
    // The first bar of a symbol that is needed for a decision at its bar `t`.
    let needed = |symbol: usize, t: usize| {
        let mut first = t - t.min(warm_up.unwrap_or(base));
        for (slower, need) in data.slow.iter().zip(&slow).filter(|_| warm_up.is_none()) {
            let (offset, table) = (data.base.offsets[symbol], &slower.table);
            let Some(seen) = slower.of.get(offset + t).filter(|row| **row != u32::MAX) else { continue };
            let of = *seen as usize - table.offsets[symbol];
            // One more, which the first bars may not fill.
            let start = table.market[symbol].start[of - of.min(need + 1)];
            first = first.min(data.base.market[symbol].start.partition_point(|own| *own < start));
        }
        first
    };
    let asked: Vec<&ModelFold> = loaded.model.folds.iter().filter(|fold| !fold.seeds.is_empty()).collect();
    let mut starts = Vec::new();
    for (at, fold) in asked.iter().enumerate() {
        let (from, to) = (fold.test_from, asked.get(at + 1).map_or(end, |next| next.test_from.min(end)));
        let mut longest = 0;
        let rows = (0..data.base.market.len()).map(|symbol| {
            let known = |time: i64| data.clock.rows(symbol).filter(|row| data.clock.time(*row) < time).count();
            let (first, last) = (known(from), known(to));
            if first >= last {
                return 0..0;
            }
            let begin = needed(symbol, first);
            longest = longest.max(first - begin);
            begin..last
        });
        let rows: Vec<_> = rows.collect();
        if from < to && rows.iter().any(|rows| !rows.is_empty()) {
            starts.push(PlannedStart { fold: fold.number + 1, from, to, rows, warm_up: longest });
        }
    }
    starts
}

/// A policy that is asked about one row after the other, never about several at once.
struct OneByOne<'a>(&'a dyn Policy);

impl Policy for OneByOne<'_> {
    fn needs(&self) -> Needs {
        Needs { closes_at_once: 0, ..self.0.needs() }
    }

    fn start(&self, n: usize) -> Vec<f64> {
        self.0.start(n)
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        for (at, action) in actions.iter_mut().enumerate() {
            let own = at..at + 1;
            let view = View {
                rows: &view.rows[own.clone()],
                slots: &view.slots[own],
                observed: view.observed.get(at * OBSERVED..(at + 1) * OBSERVED).unwrap_or_default(),
                legal: view.legal.get(at * 3..(at + 1) * 3).unwrap_or_default(),
                ..*view
            };
            self.0.act(&view, memory, std::slice::from_mut(action))?;
        }
        Ok(())
    }
}

/// A policy whose rows are those of a stream that began later; what the stream has not is not decided.
struct OnStream {
    policy: Arc<dyn Policy>,
    /// `[rows]` the row of the stream.
    rows: Vec<Option<u32>>,
}

impl Policy for OnStream {
    fn needs(&self) -> Needs {
        self.policy.needs()
    }

    fn start(&self, n: usize) -> Vec<f64> {
        self.policy.start(n)
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        // A row that nobody decides about is none of the policy's.
        let rows: Vec<u32> = view.rows.iter().map(|row| self.rows[*row as usize].unwrap_or(u32::MAX)).collect();
        self.policy.act(&View { rows: &rows, ..*view }, memory, actions)
    }
}

impl PlannedStart {
    /// `[rows]` which row of the stream each row of the whole is.
    fn rows_of(&self, data: &Dataset, streamed: &Dataset) -> Vec<Option<u32>> {
        let mut rows = vec![None; data.base.rows()];
        for (symbol, own) in self.rows.iter().enumerate() {
            let (whole, part) = (data.base.offsets[symbol], streamed.base.offsets[symbol]);
            own.clone().for_each(|t| rows[whole + t] = Some((part + t - own.start) as u32));
        }
        rows
    }

    /// Counts what differs from the backtest between this start and the next.
    fn judge(&self, data: &Dataset, batch: &Table, live: &Table, wanted: &Targets, live_wanted: &Targets) -> LiveStart {
        let own = |time: i64| self.from <= time && time < self.to;
        let answers = Answers::new(live);
        let (mut undecided, mut changed, mut largest) = (0, 0, 0.0f64);
        let all = Answers::new(batch);
        for (place, p) in all.rows.iter().filter(|((_, time), _)| own(*time)) {
            let Some(live) = answers.rows.get(place) else {
                undecided += 1;
                continue;
            };
            for (column, other) in all.p.iter().zip(&answers.p) {
                let (a, b) = (column[*p], other[*live]);
                changed += u64::from(a.to_bits() != b.to_bits());
                largest = largest.max(f64::from((a - b).abs()));
            }
        }
        let (mut bars, mut positions) = (0, 0);
        for row in (0..data.base.rows()).filter(|row| own(data.clock.time(*row))) {
            let [a, b] = [wanted, live_wanted].map(|targets| targets.actions[row].target);
            bars += 1;
            positions += u64::from(!same(a, b));
        }
        LiveStart {
            fold: self.fold,
            from: rfc3339(self.from),
            warm_up: self.warm_up as u64,
            bars,
            undecided,
            changed_probabilities: changed,
            largest_change: largest,
            changed_positions: positions,
        }
    }
}

/// Whether two numbers are equal to the bit; what does not exist is equal to what does not.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

impl Compared {
    fn new(what: &'static str) -> Compared {
        Compared { what, compared: 0, different: 0, first: None }
    }

    /// Compares one number; `place` says whose and when, and what it is.
    fn pair(&mut self, a: f64, b: f64, place: impl FnOnce() -> (String, i64, String)) {
        self.compared += 1;
        if same(a, b) {
            return;
        }
        self.different += 1;
        if self.first.is_none() {
            let (symbol, time, name) = place();
            let some = |x: f64| x.is_finite().then_some(x);
            let (time, backtest, stream) = (rfc3339(time), some(a), some(b));
            self.first = Some(Difference { symbol, time, name, backtest, stream });
        }
    }
}

/// What every row reads, on every timeframe.
fn compare_features(data: &Dataset, batch: &[Input], live: &[Input]) -> Compared {
    let mut compared = Compared::new("features");
    for (a, b) in batch.iter().zip(live) {
        for row in 0..data.base.rows() {
            let read = |input: &'_ Input| {
                let at = input.map.as_ref().map_or(row, |map| map[row] as usize) * input.stride;
                input.values.get(at..at + input.columns.len()).map(<[f32]>::to_vec).unwrap_or_default()
            };
            let (a_values, b_values) = (read(a), read(b));
            for (c, name) in a.columns.iter().enumerate() {
                let [x, y] = [&a_values, &b_values].map(|v| v.get(c).map_or(f64::NAN, |x| f64::from(*x)));
                compared.pair(x, y, || place(data, row, name));
            }
        }
    }
    compared
}

fn place(data: &Dataset, row: usize, name: &str) -> (String, i64, String) {
    (data.base.market[data.base.place(row).0].symbol.clone(), data.clock.time(row), name.to_string())
}

/// Which bars are decided on, by which fold.
fn compare_rows(data: &Dataset, batch: &RowsOfFolds, live: &RowsOfFolds) -> Compared {
    let mut compared = Compared::new("bars decided on");
    let by_row = |rows: &RowsOfFolds| {
        let mut folds = vec![f64::NAN; data.base.rows()];
        for (fold, rows) in rows.folds.iter().enumerate() {
            rows.iter().for_each(|row| folds[*row as usize] = fold as f64 + 1.0);
        }
        folds
    };
    for (row, (a, b)) in by_row(batch).into_iter().zip(by_row(live)).enumerate() {
        if !(a.is_nan() && b.is_nan()) {
            compared.pair(a, b, || place(data, row, "fold"));
        }
    }
    compared
}

/// Probabilities by symbol and time.
struct Answers<'a> {
    rows: HashMap<(u32, i64), usize>,
    p: Vec<&'a [f32]>, // [classes]
}

impl Answers<'_> {
    fn new(table: &Table) -> Answers<'_> {
        let column = |name: &str| table.columns.iter().find(|c| c.name == name).map(|c| &c.data);
        let rows = match (column("symbol"), column("time")) {
            (Some(Data::Names { codes, .. }), Some(Data::Time { ns, .. })) => {
                codes.iter().copied().zip(ns.iter().copied()).zip(0..).collect()
            }
            _ => HashMap::new(),
        };
        let p = table.columns.iter().filter(|c| c.name.starts_with("p_")).filter_map(|c| match &c.data {
            Data::F32(p) => Some(p.as_slice()),
            _ => None,
        });
        Answers { rows, p: p.collect() }
    }
}

/// What the model says; with `all`, of bars of which only one of the two says anything as well.
fn compare_probabilities(what: &'static str, data: &Dataset, batch: &Table, live: &Table, all: bool) -> Compared {
    let (a, b) = (Answers::new(batch), Answers::new(live));
    let mut compared = Compared::new(what);
    let mut places: Vec<&(u32, i64)> =
        b.rows.keys().chain(a.rows.keys().filter(|place| all && !b.rows.contains_key(place))).collect();
    places.sort_unstable_by_key(|(symbol, time)| (*time, *symbol));
    let names = class::names(a.p.len().max(2));
    for place in places {
        let at = |of: &Answers<'_>, k: usize| of.rows.get(place).map_or(f64::NAN, |row| f64::from(of.p[k][*row]));
        for (k, name) in names.iter().enumerate().take(a.p.len()) {
            let symbol = || data.base.market[place.0 as usize].symbol.clone();
            compared.pair(at(&a, k), at(&b, k), || (symbol(), place.1, format!("p_{name}")));
        }
    }
    compared
}

/// What is to be held from the next open on.
fn compare_positions(what: &'static str, data: &Dataset, batch: &Targets, live: &Targets) -> Compared {
    let mut compared = Compared::new(what);
    for (row, (a, b)) in batch.actions.iter().zip(&live.actions).enumerate() {
        compared.pair(a.target, b.target, || place(data, row, "target"));
    }
    compared
}

/// What the account is worth behind every step.
fn compare_equity(batch: &Walked, live: &Walked) -> Compared {
    let mut compared = Compared::new("equity");
    for (at, time) in batch.times.iter().enumerate() {
        let live = live.equity.get(at + 1).copied().unwrap_or(f64::NAN);
        compared.pair(batch.equity[at + 1], live, || (String::new(), *time, "equity".into()));
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::synth::Synth;
    use features::{InputLayout, read_set};
    use files::Column;

    fn made() -> (Dataset, Vec<Input>) {
        let market = Synth { symbols: 2, bars: 90, ..Synth::default() }.make_market(1).market;
        let plan = Plan::new(&read_set("a = body, b = rsi(14)\n[slow @1w]\nc = body").unwrap()).unwrap();
        let options = Options { threads: 1, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        let data = Dataset::streamed(market, &plan, &options).unwrap();
        let inputs = data.inputs(InputLayout::Windows);
        (data, inputs)
    }

    #[test]
    fn a_feature_that_differs_by_a_bit_is_found_and_named() {
        let (data, inputs) = made();
        let rows = data.base.rows() as u64;
        assert_eq!(
            compare_features(&data, &inputs, &inputs.clone()),
            Compared { compared: 3 * rows, ..Compared::new("features") }
        );
        let (row, mut other) = (data.base.rows() - 7, inputs.clone());
        let value = &mut other[0].values[row * inputs[0].stride + 1];
        *value = f32::from_bits(value.to_bits() ^ 1);
        let compared = compare_features(&data, &inputs, &other);
        let first = compared.first.unwrap();
        assert_eq!((compared.different, first.symbol, first.name), (1, data.base.market[1].symbol.clone(), "b".into()));
        assert_eq!(first.time, rfc3339(data.clock.time(row)));
        // A slower row is read by all bars of its week.
        let mut other = inputs.clone();
        let last = inputs[1].values.len() - inputs[1].stride;
        other[1].values[last] += 1.0;
        let compared = compare_features(&data, &inputs, &other);
        assert!(compared.different > 0 && compared.first.unwrap().name == "c");
        // One that does not exist is not equal to one that does.
        let mut other = inputs.clone();
        other[0].values[row * inputs[0].stride] = f32::NAN;
        assert_eq!(compare_features(&data, &inputs, &other).different, 1);
    }

    #[test]
    fn probabilities_rows_positions_and_equity_that_differ_are_counted() {
        let (data, inputs) = made();
        let first = data.base.market[0].len();
        let table = |p: [f32; 3]| {
            let names = data.base.market.iter().map(|b| b.symbol.clone()).collect();
            let times = [40, first + 40, first + 41].map(|row| data.clock.time(row)).to_vec();
            let symbols = Column { name: "symbol".into(), data: Data::Names { codes: vec![0, 1, 1], names } };
            let down = p.map(|p| 1.0 - p).to_vec();
            let columns = vec![
                symbols,
                Column::time("time", times),
                Column::f32("p_down", down),
                Column::f32("p_up", p.to_vec()),
            ];
            Table { columns, rows: 3 }
        };
        let (a, b) = (table([0.25, 0.5, 0.75]), table([0.25, 0.5, 0.875]));
        let equal = compare_probabilities("probabilities", &data, &a, &a, true);
        assert_eq!((equal.compared, equal.different), (6, 0));
        let other = compare_probabilities("probabilities", &data, &a, &b, true);
        let at = other.first.unwrap();
        assert_eq!((other.different, at.name.as_str(), at.backtest, at.stream), (2, "p_down", Some(0.25), Some(0.125)));
        let none = compare_probabilities("probabilities", &data, &a, &Table::default(), true);
        assert_eq!((none.compared, none.different), (6, 6));

        let rows = |folds: Vec<Vec<u32>>| RowsOfFolds::of(folds, inputs.clone());
        let (a, b) = (rows(vec![vec![40, 41], vec![42]]), rows(vec![vec![40], vec![42, 43]]));
        assert_eq!((compare_rows(&data, &a, &a).different, compare_rows(&data, &a, &b).different), (0, 2));
        assert_eq!(sample(&[vec![1, 2, 3, 4, 5], vec![6, 7]], 3), [vec![1, 4], vec![6]]);

        let flat = Targets::none(data.base.rows());
        let mut long = flat.clone();
        long.actions[first + 3].target = 1.0;
        let compared = compare_positions("positions", &data, &flat, &long);
        assert_eq!((compared.compared, compared.different), (data.base.rows() as u64, 1));
        let walked = |equity: f64| Walked { times: vec![1, 2], equity: vec![1.0, 1.0, equity], ..Walked::default() };
        let compared = compare_equity(&walked(1.0), &walked(1.0 + f64::EPSILON));
        assert_eq!((compared.compared, compared.different), (2, 1));
    }
}
