//! `backtest`: what decisions would have earned, every cost counted.
//!
//! Decisions come from a trained model, a rule over features, a simple policy, or a file of anybody's own positions. A
//! backtest is a look at the data: it stops at the holdout, locks it as a training does, and is written into the ledger
//! before anything is seen.

use crate::features::check_walk_memory;
use crate::kinds::model::Loaded;
use crate::kinds::test_blocks::price_table;
use crate::kinds::trading::{distances, portfolio_notes};
use crate::progress::{Sink, Update, check_stop};
use crate::runs::find_run;
use crate::small_table::{Rows, read_rows};
use crate::train::{
    Answer, Asked, Holdings, Market, NetAlone, Predict, ask, fingerprint, ledger_path, load_market, run_data, walk_spec,
};
use crate::trials::Family;
use crate::{Select, Settings, TradingSettings, add, find, home, os};
use account::Action;
use bars::{Bars, Fingerprint, instrument_text};
use features::{Clock, Dataset, Plan, Span, class, precise, read_set};
use files::time::rfc3339;
use files::{Column, Data, Error, Kind, ParquetWriter, Result, Table, format_plural, replace_bytes};
use judge::backtest::{
    Backtest, Beliefs, ChanceTest, Course, Exit, Follower, Latency, PortfolioRule, SignalRule, Walked, buy_and_hold,
    decide, decide_beforehand, shift_portfolio, shift_positions,
};
use judge::deflated::DeflatedSharpe;
use judge::evidence::Findings;
use judge::ledger::{Ledger, Trial};
use judge::split::held_out_from;
use market::{Constant, Funding, Policy, Targets};
use random::SplitMix;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What to test on what, and where it goes; costs and sizes are in the settings.
#[derive(Debug, Clone)]
pub struct BacktestRequest {
    /// What to read; of a run, `data` may be empty: its own data.
    pub select: Select,
    /// Who decides.
    pub decisions: Decisions,
    /// `auto`, `cpu`, `cuda`, `cuda:1`; of a run.
    pub device: String,
    /// The folder; `None` is `NAME-backtest` here.
    pub out: Option<PathBuf>,
}

/// Who decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Decisions {
    /// A run's model, each bar by the fold that may.
    Run(PathBuf),
    /// Comparisons of features: long while the first holds, short while the second does.
    Rule {
        /// `sma(20) > sma(50)`
        long: String,
        /// The same for short positions.
        short: Option<String>,
    },
    /// A simple policy.
    Policy(PolicyName),
    /// A file with time, target and, for several symbols, symbol.
    Positions(PathBuf),
}

/// A simple policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyName {
    /// Everything is bought at the first open and held.
    BuyAndHold,
    /// Nothing is done.
    Flat,
    /// Long, flat or short at random, changed every twenty bars in the mean.
    Random,
}

impl PolicyName {
    /// All of them with their names.
    pub const NAMES: &'static [(&'static str, PolicyName)] =
        &[("buy-and-hold", PolicyName::BuyAndHold), ("flat", PolicyName::Flat), ("random", PolicyName::Random)];
}

/// What decisions would have earned, and where the details are.
#[derive(Debug, Clone, Serialize)]
pub struct Backtested {
    /// The folder with `returns`, `trades`, `positions` and `prices` as Parquet, and `backtest.json`.
    pub folder: String,
    /// What was read.
    pub data: String,
    /// Instruments, costs and sessions in one line.
    pub instruments: String,
    /// Who decided, in words.
    pub decisions: String,
    /// From when on the data are locked; null where nothing is.
    pub locked_from: Option<String>,
    /// How many different backtests and trainings have looked at these data by now; null where this is none.
    pub trials: Option<u64>,
    /// The record.
    pub backtest: Backtest,
    /// How long decisions of a searcher take; absent from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What is left of the Sharpe ratio when these are counted; null where this is no trial or has no ratio.
    pub deflated: Option<DeflatedSharpe>,
    /// What the same positions earn at other times; null where that was not judged.
    pub chance: Option<ChanceTest>,
    /// Notes.
    pub notes: Vec<String>,
    /// The most memory this process held; null where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// Wall clock.
    pub seconds: f64,
}

/// Bars, and who decides about them.
struct Decided {
    path: PathBuf,
    market: Vec<Bars>,
    clock: Clock,
    policy: Box<dyn Policy>,
    /// Of a policy that searches, its net alone.
    net: Option<NetAlone>,
    /// Who decides, in words.
    words: String,
    instruments: String,
    /// `[folds]` number and first moment of each; empty without folds.
    folds: Vec<(usize, i64)>,
    /// What makes it a trial of its own, as text; none where nothing was chosen.
    identity: Option<String>,
    /// Whether predictions of a model become a portfolio by `trading.`.
    follows_signals: bool,
    /// Whether a model was trained on everything, and so is asked about what came after it alone.
    is_refit: bool,
    notes: Vec<String>,
}

/// Tests decisions.
pub fn backtest(request: &BacktestRequest, settings: &Settings, sink: Sink<'_>) -> Result<Backtested> {
    let started_at = Instant::now();
    let Decided {
        path,
        market,
        clock,
        policy,
        net,
        words,
        instruments,
        folds,
        identity,
        follows_signals,
        is_refit,
        mut notes,
    } = match &request.decisions {
        Decisions::Run(run) => by_model(run, request, settings, sink)?,
        _ => by_bars(request, settings, sink)?,
    };
    let out = match &request.out {
        Some(out) => out.clone(),
        None => PathBuf::from(format!("{}-backtest", add::name_of(&path)?)),
    };
    let holdings = Holdings::of_bars(&market, settings).map_err(|e| e.at(&path))?;
    let settings = &settings.with_held(Some(holdings.held));
    let first = folds.first().map(|(_, from)| *from).into_iter().chain(request.select.from).max();
    let run = match &request.decisions {
        Decisions::Run(run) => Some(run),
        _ => None,
    };
    let locked_from = locked_from(&holdings, &clock, settings, run.and(first), is_refit);
    let span = span(&clock, first, locked_from, run.map(PathBuf::as_path)).map_err(|e| e.at(&path))?;

    sink(Update { phase: "prices", done: 0, total: 0, unit: "" });
    let table = price_table(&market, settings).map_err(|e| e.at(&path))?;
    notes.extend(table.notes.iter().cloned());
    if follows_signals {
        notes.extend(portfolio_notes(&market, &table, &settings.trading.rule()));
    }
    check_stop()?;

    // Written down before anything is seen.
    let ledger = Ledger::open(&ledger_path()?)?;
    let end = clock.times.last().copied().unwrap_or(0).saturating_add(1);
    holdings.lock_span(&ledger, locked_from.and_then(|from| Span::new(from, end)))?;
    let trial = identity.map(|identity| trial(&identity, &market, &holdings, settings, span));
    let started = trial.as_ref().map(|trial| ledger.start(trial)).transpose()?;
    sink(Update { phase: "walking", done: 0, total: 0, unit: "" });
    let delisting_return = settings.account.delisting_return;
    let course = Course { market: &market, clock: &clock, table: &table, span, delisting_return };
    // Asked once: whoever looks at an account is slow to ask, and its decisions can be walked again.
    let tested = decide(&course, &*policy).and_then(|decided| {
        let (mut backtest, walked) = judge::backtest::backtest(&course, &decided, &folds, settings.threads())?;
        let beside = |net: &NetAlone| net.stand_beside((&mut backtest, &walked), &course, &*policy, settings);
        let latency = net.as_ref().map(beside).transpose()?.flatten();
        Ok((backtest, walked, decided, latency))
    });
    let (backtest, walked, decided, latency) = match (tested, &started) {
        (Ok(tested), _) => tested,
        (Err(why), Some(started)) => {
            ledger.fail(started, &why.message)?;
            return Err(why.at(&path));
        }
        (Err(why), None) => return Err(why.at(&path)),
    };
    if let Some(started) = &started {
        let id = keep_returns(&walked)?;
        let metrics = serde_json::json!({
            "net_return": backtest.net.total_return,
            "net_sharpe": backtest.net.sharpe_annual,
        });
        ledger.finish(started, &metrics, Some(&id))?;
    }
    let trials = trial.as_ref().map(|trial| ledger.count(&trial.symbols, trial.span)).transpose()?;
    let mut found = Findings::default();
    if let Some(trial) = &trial {
        let family = Family::of(&ledger, &trial.symbols, trial.span)?;
        found = family.count_in(found, &walked.daily_returns().1)?;
    }
    let chance = match market.as_slice() {
        [_] if !walked.trades.is_empty() => {
            sink(Update { phase: "chance", done: 0, total: 0, unit: "" });
            shift_positions(&course, &decided, 1, settings.general.seed, settings.threads()).ok()
        }
        [_, _, ..] if policy.needs().account && !walked.trades.is_empty() => {
            sink(Update { phase: "chance", done: 0, total: 0, unit: "" });
            shift_portfolio(&course, &decided, settings.general.seed, settings.threads()).ok()
        }
        _ => None,
    };
    save(&out, &market, &backtest, &walked, settings.threads())?;
    notes.extend(latency.and_then(|own| own.note()));
    Ok(Backtested {
        folder: out.display().to_string(),
        data: path.display().to_string(),
        instruments,
        decisions: words,
        locked_from: locked_from.map(rfc3339),
        trials: trials.map(|n| n as u64),
        backtest,
        latency,
        deflated: found.deflated,
        chance,
        notes,
        peak_memory_bytes: os::peak_memory(),
        seconds: started_at.elapsed().as_secs_f64(),
    })
}

/// Decisions that need bars alone.
fn by_bars(request: &BacktestRequest, settings: &Settings, sink: Sink<'_>) -> Result<Decided> {
    let path = find(&request.select.data)?;
    // Features warm up on the bars before those that are asked about.
    let history = Select { from: None, ..request.select.clone() };
    let Market { bars: market, others, instruments, findings, timeframe } =
        load_market(&path, &history, settings, sink)?;
    check_stop()?;
    check_walk_memory(&market, settings).map_err(|e| e.at(&path))?;
    let mut notes = findings;
    if !others.is_empty() {
        notes.push(format!("bars of {} were left out: one timeframe is tested, here {timeframe}", others.join(", ")));
    }
    let clock = Clock::new(&market);
    let (policy, words) = policy_of(&request.decisions, &market, &clock, settings, &mut notes)?;
    let identity = identity(&request.decisions, request.select.from)?;
    Ok(Decided {
        path,
        market,
        clock,
        policy,
        net: None,
        words,
        instruments,
        folds: Vec::new(),
        identity,
        follows_signals: false,
        is_refit: false,
        notes,
    })
}

/// Decisions of a model, each bar by the fold that may be asked: a policy's own, or probabilities corrected and turned
/// into positions as its validation said.
fn by_model(run: &Path, request: &BacktestRequest, settings: &Settings, sink: Sink<'_>) -> Result<Decided> {
    let own = run_data(run)?;
    let select = match request.select.data.is_empty() {
        true => Select { from: request.select.from, to: request.select.to.or(own.to), ..own },
        false => request.select.clone(),
    };
    let from = select.from;
    let question = Predict {
        run: run.to_path_buf(),
        select,
        out: None,
        device: request.device.clone(),
        members: false,
        positions: false,
    };
    let Asked { path, loaded, data, answer, instruments, same_bars, notes, .. } = ask(&question, true, settings, sink)?;
    let model = &loaded.model;
    let other = Some((settings.trading.rule(), settings.trading.exit));
    let policy = model_policy(&loaded, &data, &answer, settings, other).map_err(|e| e.at(run))?;
    let follows_signals = answer.policy.is_none();
    let folds: Vec<(usize, i64)> = model.folds.iter().map(|fold| (fold.number + 1, fold.test_from)).collect();
    let words = format!("the model of {}, {}", run.display(), format_plural(folds.len() as u64, "fold"));
    // The run's own backtest was part of its trial.
    let mut trained = Settings::default();
    let as_trained = same_bars
        && from.is_none()
        && trained.read(&find_run(run)?).is_ok()
        && trained.account.identity() == settings.account.identity()
        && trained.trading.identity() == settings.trading.identity();
    let identity = (!as_trained)
        .then(|| format!("model {} {from:?}{}", model.split.as_deref().unwrap_or(""), settings.trading.identity()));
    let (clock, is_refit) = (data.clock.clone(), model.refit.is_some());
    if is_refit && same_bars {
        return Err(Error::input("all of these bars are in the training of this refit, or from before its first test")
            .at(&path)
            .remedy("give data that reach beyond it"));
    }
    Ok(Decided {
        path,
        market: data.base.market,
        clock,
        policy,
        net: answer.net,
        words,
        instruments,
        folds,
        identity,
        follows_signals,
        is_refit,
        notes,
    })
}

/// A model's decisions, by its predictions and what its validation said; with another portfolio and exit than its own
/// where they are given.
pub(crate) fn model_policy(
    loaded: &Loaded,
    data: &Dataset,
    answer: &Answer,
    settings: &Settings,
    other: Option<(PortfolioRule, Exit)>,
) -> Result<Box<dyn Policy>> {
    let (model, table) = (&loaded.model, &answer.table);
    if let Some(policy) = &answer.policy {
        if settings.trading != TradingSettings::default() {
            let what = "`trading.` turns predictions into positions, and a policy decides by itself";
            return Err(Error::new(Kind::Usage, what).remedy("leave those settings out"));
        }
        return Ok(Box::new(Arc::clone(policy)));
    }
    let rules: Vec<&SignalRule> = model.folds.iter().filter_map(|fold| fold.trading.as_ref()).collect();
    if rules.len() != model.folds.iter().filter(|fold| !fold.seeds.is_empty()).count() {
        return Err(Error::new(Kind::State, "the model does not say how its probabilities become positions")
            .remedy("it is of an earlier version: train again with `fullbore train`"));
    }
    let market = &data.base.market;
    let beliefs = Arc::new(beliefs(loaded, data, table));
    let own = rules.first().map(|rule| (rule.portfolio, rule.exit));
    let (portfolio, exit) = other.or(own).unwrap_or_default();
    let barriers = distances(data, exit, rules.first().and_then(|rule| rule.barriers))?;
    let prices = if market.len() > 1 { Some(price_table(market, settings)?) } else { None };
    let horizon = rules.first().map_or(1, |rule| rule.horizon);
    Ok(Follower { market, table: prices.as_ref(), horizon, portfolio, barriers }.policy(beliefs))
}

/// What a policy wants at every close; one that looks at an account begins flat with each of the spans, and wants
/// nothing outside of them.
pub(crate) fn wanted(data: &Dataset, policy: &dyn Policy, spans: &[Span], settings: &Settings) -> Result<Targets> {
    if !policy.needs().account {
        return decide_beforehand(&data.clock, policy);
    }
    let (market, clock) = (&data.base.market, &data.clock);
    let table = price_table(market, settings)?;
    let delisting_return = settings.account.delisting_return;
    let mut all = Targets::none(data.base.rows());
    for span in spans {
        let decided = decide(&Course { market, clock, table: &table, span: *span, delisting_return }, policy)?;
        let own = (0..data.base.rows()).filter(|row| span.contains(clock.time(*row)));
        own.for_each(|row| all.actions[row] = decided.actions[row]);
    }
    Ok(all)
}

/// The bar of a symbol that became known at a moment; rows of a symbol become known in their order.
pub(crate) fn bar_known_at(clock: &Clock, symbol: usize, time: i64) -> Option<usize> {
    let rows = clock.rows(symbol);
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if clock.time(middle) < time { low = middle + 1 } else { high = middle }
    }
    (low < rows.end).then(|| low - rows.start)
}

/// Corrected probabilities of down and up less their fold's threshold; none where a fold never trades.
fn beliefs(loaded: &Loaded, data: &Dataset, table: &Table) -> Beliefs {
    let mut beliefs: Beliefs = vec![None; data.base.rows()];
    let column = |name: &str| table.columns.iter().find(|c| c.name == name).map(|c| &c.data);
    let (Some(Data::Names { codes, .. }), Some(Data::Time { ns, .. }), Some(Data::U32(folds))) =
        (column("symbol"), column("time"), column("fold"))
    else {
        return beliefs;
    };
    let classes = class::names(loaded.model.classes);
    let p: Vec<&Vec<f32>> = classes
        .iter()
        .filter_map(|name| match column(&format!("p_{name}")) {
            Some(Data::F32(p)) => Some(p),
            _ => None,
        })
        .collect();
    for row in 0..table.rows {
        let Some(fold) = loaded.model.folds.iter().find(|fold| fold.number as u32 + 1 == folds[row]) else { continue };
        let Some(SignalRule { calibration, threshold: Some(threshold), .. }) = &fold.trading else { continue };
        let said: Vec<f32> = p.iter().map(|p| p[row]).collect();
        let q = calibration.apply(&said);
        let symbol = codes[row] as usize;
        let at = |side: i8| q[usize::from(class::index(side, classes.len()))] - threshold;
        if let Some(t) = bar_known_at(&data.clock, symbol, ns[row]) {
            beliefs[data.base.offsets[symbol] + t] = Some([at(-1), at(1)]);
        }
    }
    beliefs
}

/// From when on the data are locked. What is locked stays locked where it is; of data that nobody has looked at the
/// holdout is a share of the clock. A model, which begins at `from`, may be asked about what came after a holdout.
pub(crate) fn locked_from(
    holdings: &Holdings,
    clock: &Clock,
    settings: &Settings,
    from: Option<i64>,
    is_refit: bool,
) -> Option<i64> {
    if let Some(from) = from.filter(|_| !holdings.known.locks.is_empty()) {
        // A refit was trained on what had been opened.
        return holdings.known.locked_after(from, !is_refit);
    }
    let fresh = || held_out_from(&clock.times, &walk_spec(settings, clock.times.len()));
    holdings.held.locked_from.or_else(fresh)
}

/// The time that is walked through: from the first bar asked about to the holdout.
pub(crate) fn span(clock: &Clock, from: Option<i64>, locked_from: Option<i64>, run: Option<&Path>) -> Result<Span> {
    let (first, last) = (clock.times.first().copied().unwrap_or(0), clock.times.last().copied().unwrap_or(0));
    let (from, to) = (from.unwrap_or(first), locked_from.unwrap_or(last.saturating_add(1)));
    Span::new(from, to).ok_or_else(|| {
        let day = |time: i64| rfc3339(time).chars().take(10).collect::<String>();
        Error::new(
            Kind::State,
            format!("everything from {} on is the locked holdout, and {} is not before it", day(to), day(from)),
        )
        .remedy(match run {
            Some(run) => format!("test other data; `fullbore holdout {}` judges the run there, once", run.display()),
            None => {
                "test earlier data; <release-holdout> of a training makes the holdout ordinary data for ever".into()
            }
        })
    })
}

/// Who decides, and that in words.
fn policy_of(
    decisions: &Decisions,
    market: &[Bars],
    clock: &Clock,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<(Box<dyn Policy>, String)> {
    Ok(match decisions {
        Decisions::Run(run) => {
            return Err(Error::new(Kind::Usage, "a run decides by its model").at(run));
        }
        Decisions::Policy(PolicyName::BuyAndHold) => (Box::new(buy_and_hold(clock)), "buying and holding".into()),
        Decisions::Policy(PolicyName::Flat) => (Box::new(Constant(0.0)), "doing nothing".into()),
        Decisions::Policy(PolicyName::Random) => {
            let words = format!("at random, with seed {}", settings.general.seed);
            (Box::new(weigh(at_random(market, settings.general.seed), clock)), words)
        }
        Decisions::Rule { long, short } => {
            let targets = by_rule(long, short.as_deref(), market, settings)?;
            let words = match short {
                Some(short) => format!("long while {long}, short while {short}"),
                None => format!("long while {long}"),
            };
            (Box::new(weigh(targets, clock)), words)
        }
        Decisions::Positions(path) => {
            (Box::new(by_file(path, market, clock, notes)?), format!("positions of {}", path.display()))
        }
    })
}

/// Targets of single symbols become weights: each symbol that has a bar is given the same share.
fn weigh(mut targets: Targets, clock: &Clock) -> Targets {
    let shares = buy_and_hold(clock);
    targets.actions.iter_mut().zip(shares.actions).for_each(|(action, share)| action.target *= share.target);
    targets
}

fn at_random(market: &[Bars], seed: u64) -> Targets {
    let one = |(symbol, bars): (usize, &Bars)| {
        let mut random = SplitMix::new(random::mix(seed ^ random::mix(symbol as u64 + 1)));
        let draw = move |now: &mut f64, _| {
            if random.below(20) == 0 {
                *now = [-1.0, 0.0, 1.0][random.below(3)];
            }
            Some(*now)
        };
        (0..bars.len()).scan(0.0, draw)
    };
    market.iter().enumerate().flat_map(one).collect()
}

/// Long while every comparison of the first rule holds, short while every one of the second does.
fn by_rule(long: &str, short: Option<&str>, market: &[Bars], settings: &Settings) -> Result<Targets> {
    let (long, short) = (Comparisons::read(long)?, short.map(Comparisons::read).transpose()?);
    let mut sides: Vec<f64> = Vec::new();
    for bars in market {
        let holds = |rule: &Comparisons| rule.hold(bars, settings);
        let (up, down) = (holds(&long)?, short.as_ref().map(holds).transpose()?);
        sides.extend((0..bars.len()).map(|t| {
            let down = down.as_ref().is_some_and(|down| down[t]);
            f64::from(i8::from(up[t])) - f64::from(i8::from(down))
        }));
    }
    Ok(sides.into_iter().collect())
}

/// Comparisons that must all hold: `sma(20) > sma(50) and rsi(14) < 70`.
struct Comparisons {
    text: String,
    plan: Plan,
}

impl Comparisons {
    fn read(text: &str) -> Result<Comparisons> {
        let wrong = |why: String| {
            Error::new(Kind::Usage, format!("`{text}` is not a rule: {why}")).remedy(
                "write comparisons of features, as in `sma(20) > sma(50)` or `rsi(14) < 30 and close > sma(200)`",
            )
        };
        let mut features = Vec::new();
        for part in text.split(" and ") {
            let sides: Vec<&str> = part.split(['>', '<']).map(str::trim).collect();
            let [left, right] = sides[..] else {
                return Err(wrong(format!("`{}` is not one comparison with > or <", part.trim())));
            };
            if left.is_empty() || right.is_empty() || right.starts_with('=') {
                return Err(wrong(format!("`{}` has an empty side", part.trim())));
            }
            let (more, less) = if part.contains('>') { (left, right) } else { (right, left) };
            features.push(format!("({more}) - ({less})"));
        }
        let set = read_set(&features.join(", ")).map_err(|e| wrong(e.message))?;
        Ok(Comparisons { text: text.to_string(), plan: Plan::new(&set).map_err(|e| wrong(e.message))? })
    }

    /// `[n]` whether all hold; not while an indicator warms up.
    fn hold(&self, bars: &Bars, settings: &Settings) -> Result<Vec<bool>> {
        let columns = precise(bars, &self.plan, settings.features.max_hole).map_err(|mut e| {
            e.message = format!("`{}`: {}", self.text, e.message);
            e
        })?;
        Ok((0..bars.len()).map(|t| columns.iter().all(|(_, values)| values[t] > 0.0)).collect())
    }
}

/// Targets from a file. A row's time is a bar's, so that it counts as decided at the close of the bar that starts then,
/// or of the last one that started before; it fills at the next open, and holds until the next row.
fn by_file(path: &Path, market: &[Bars], clock: &Clock, notes: &mut Vec<String>) -> Result<Targets> {
    let names: &[&str] = &["target", "position", "signal", "weight", "side"];
    let rows = read_rows(path, "positions", &[names, &["stop"], &["limit"]])?;
    check_brackets(path, &rows, market)?;
    let mut targets = Targets::none(clock.tick.len());
    let (mut outside, mut strange) = (0u64, Vec::new());
    for (at, (name, time)) in rows.symbol.iter().zip(&rows.time).enumerate() {
        let symbol = match market {
            [_] if name.is_empty() => Some(0),
            _ => market.iter().position(|bars| bars.symbol.eq_ignore_ascii_case(name)),
        };
        let Some(symbol) = symbol else {
            if !strange.contains(name) {
                strange.push(name.clone());
            }
            continue;
        };
        let starts = &market[symbol].start;
        match starts.partition_point(|start| start <= time).checked_sub(1) {
            Some(t) => {
                let number = |column: usize| rows.numbers[column].get(at).copied().filter(|x| *x > 0.0).unwrap_or(0.0);
                let (target, stop, limit) = (rows.numbers[0][at], number(1), number(2));
                targets.actions[clock.rows(symbol).start + t] = Action { target, stop, limit };
            }
            None => outside += 1,
        }
    }
    if strange.len() == market.len().max(1) && market.len() == 1 && rows.symbol.iter().all(|s| !s.is_empty()) {
        let own = &market[0].symbol;
        return Err(Error::input(format!("the positions are of {}, and the bars of {own}", strange.join(", ")))
            .at(path)
            .remedy("give the bars that the positions are of"));
    }
    if !strange.is_empty() {
        notes.push(format!("positions of {} were left out: the data do not have them", strange.join(", ")));
    }
    if outside > 0 {
        notes.push(format!("{} lie before the first bar and were left out", format_plural(outside, "position")));
    }
    notes.push(
        "a position's time is read as the start of the bar at whose close it was decided: it fills at the next open"
            .into(),
    );
    Ok(targets)
}

/// Refuses stops and limits that are prices, and those of several symbols.
fn check_brackets(path: &Path, rows: &Rows, market: &[Bars]) -> Result<()> {
    for (name, column) in ["stop", "limit"].iter().zip(&rows.numbers[1..]) {
        if market.len() > 1 && column.iter().any(|x| *x > 0.0) {
            return Err(Error::input(format!("positions of several symbols have a column `{name}`"))
                .at(path)
                .remedy("leave it out: stops and limits are for one symbol"));
        }
        if let Some(at) = column.iter().position(|x| *x < 0.0 || *x >= 1.0) {
            return Err(Error::input(format!("`{name}` is {}, and should be at least 0 and below 1", column[at]))
                .at(path)
                .line(at as u64 + 2)
                .remedy("give its distance from the next open as a share of it, 0 to keep the one there is"));
        }
    }
    Ok(())
}

/// Funding rates of a file.
pub(crate) fn read_funding(path: &Path) -> Result<Funding> {
    let rate: &[&str] = &["fundingrate", "rate", "funding", "lastfundingrate"];
    let mark: &[&str] = &["markprice", "mark", "markopen"];
    let rows = read_rows(path, "funding rates", &[rate, mark])?;
    let mut funding = Funding::default();
    for (at, (symbol, time)) in rows.symbol.iter().zip(&rows.time).enumerate() {
        if rows.numbers[0][at].is_finite() {
            funding.add(symbol, *time, rows.numbers[0][at], rows.numbers[1].get(at).copied());
        }
    }
    funding.sort();
    Ok(funding)
}

/// What makes decisions a trial of their own; none for policies in which nothing was chosen.
fn identity(decisions: &Decisions, from: Option<i64>) -> Result<Option<String>> {
    Ok(match decisions {
        Decisions::Policy(_) => None,
        Decisions::Run(run) => Some(format!("run {} {from:?}", run.display())),
        Decisions::Rule { long, short } => Some(format!("rule {long} {short:?} {from:?}")),
        Decisions::Positions(path) => {
            let mut hash = Fingerprint::new();
            hash.add_text(&String::from_utf8_lossy(&files::read_file(path, 4 << 30)?));
            Some(format!("positions {} {from:?}", hash.to_hex()))
        }
    })
}

/// What the ledger is told.
fn trial(identity: &str, market: &[Bars], holdings: &Holdings, settings: &Settings, span: Span) -> Trial {
    let mut hash = Fingerprint::new();
    hash.add_text("backtest 1");
    hash.add_text(identity);
    hash.add_text(&settings.account.identity());
    hash.add_text(&format!("{:?}", settings.features.max_hole));
    for bars in market {
        hash.add_text(&bars.symbol);
        hash.add_text(&instrument_text(&bars.instrument));
    }
    Trial {
        id: hash.to_hex(),
        symbols: market.iter().map(|bars| holdings.name_of(&bars.symbol)).collect(),
        span,
        code: env!("CARGO_PKG_VERSION").into(),
        data: fingerprint(market),
        folds: 1,
        seeds: vec![settings.general.seed],
        parent: None,
        what: Some(format!("backtest: {identity}")),
    }
}

/// Writes the daily returns of a trial into the home folder, under the hash of what they are, which it gives.
pub(crate) fn keep_returns(walked: &Walked) -> Result<String> {
    let table = daily(walked);
    let mut hash = Fingerprint::new();
    for column in &table.columns {
        hash.add_text(&format!("{:?}", column.data));
    }
    let (id, folder) = (hash.to_hex(), home()?.join("returns"));
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "making the folder of returns", &e))?;
    write(&folder.join(format!("{id}.parquet")), &table, 1)?;
    Ok(id)
}

/// The last step of each trading day.
fn day_ends(walked: &Walked) -> impl Iterator<Item = usize> {
    let days = &walked.days;
    (0..days.len()).filter(|at| days.get(at + 1).is_none_or(|next| *next > days[*at]))
}

/// Day by day: equity at its end and the return of it.
fn daily(walked: &Walked) -> Table {
    let (mut day, mut equity, mut returns): (Vec<i64>, Vec<f64>, Vec<f64>) = Default::default();
    let mut before = walked.equity.first().copied().unwrap_or(1.0);
    for at in day_ends(walked) {
        let end = walked.equity[at + 1];
        day.push(i64::from(walked.days[at]) * 86_400_000_000_000);
        equity.push(end);
        returns.push(if before > 0.0 { end / before - 1.0 } else { 0.0 });
        before = end;
    }
    let rows = day.len();
    Table {
        columns: vec![Column::time("day", day), Column::f64("equity", equity), Column::f64("return", returns)],
        rows,
    }
}

/// The same with what a report shows beside it: equity without costs and of holding, and the mean exposure of each day.
fn daily_beside(walked: &Walked) -> Table {
    let mut table = daily(walked);
    let ends: Vec<usize> = day_ends(walked).collect();
    let mut add = |name: &str, values: Vec<f64>| table.columns.push(Column::f64(name, values));
    for (name, equity) in [("gross_equity", &walked.gross_equity), ("hold_equity", &walked.hold_equity)] {
        if equity.len() == walked.equity.len() {
            add(name, ends.iter().map(|at| equity[at + 1]).collect());
        }
    }
    let (mut long, mut short) = (vec![0.0; ends.len()], vec![0.0; ends.len()]);
    let mut from = 0;
    for (day, end) in ends.iter().enumerate() {
        let (first, last, steps) = (walked.times[from], walked.times[*end], (end + 1 - from) as f64);
        let held = &walked.positions;
        let held = &held[held.partition_point(|p| p.time < first)..held.partition_point(|p| p.time <= last)];
        for position in held {
            let side = if position.weight > 0.0 { &mut long } else { &mut short };
            side[day] += position.weight / steps;
        }
        from = end + 1;
    }
    add("long", long);
    add("short", short);
    table
}

/// Closes of what is shown with its trades: the one symbol, or of several those that earned and lost most.
fn prices(market: &[Bars], walked: &Walked) -> Table {
    const SHOWN: usize = 8;
    const POINTS: usize = 300_000;
    let mut shown: Vec<usize> = (0..market.len()).collect();
    if shown.len() > SHOWN {
        let earned = |symbol: usize| walked.earned.get(symbol).copied().unwrap_or(0.0);
        shown.retain(|symbol| walked.trades.iter().any(|trade| trade.symbol == *symbol));
        shown.sort_by(|a, b| earned(*b).total_cmp(&earned(*a)).then(a.cmp(b)));
        let middle = SHOWN / 2..shown.len().saturating_sub(SHOWN / 2).max(SHOWN / 2).min(shown.len());
        if middle.start < middle.end {
            shown.drain(middle);
        }
    }
    let (mut codes, mut time, mut close): (Vec<u32>, Vec<i64>, Vec<f64>) = Default::default();
    let (first, last) = (walked.times.first().copied(), walked.times.last().copied());
    for (code, symbol) in shown.iter().enumerate() {
        let bars = &market[*symbol];
        let from = bars.end.partition_point(|end| Some(*end) < first);
        let to = bars.end.partition_point(|end| Some(*end) <= last).max(from);
        // Of each group of bars the lowest and the highest close stay, so that no spike is lost.
        let group = (2 * (to - from) * shown.len()).div_ceil(POINTS).max(1);
        for at in (from..to).step_by(group) {
            let own = at..(at + group).min(to);
            let by = |a: &usize, b: &usize| bars.close[*a].total_cmp(&bars.close[*b]);
            let (low, high) = (own.clone().min_by(by).unwrap_or(at), own.max_by(by).unwrap_or(at));
            for bar in if low == high { vec![low] } else { vec![low.min(high), low.max(high)] } {
                codes.push(code as u32);
                time.push(bars.end[bar]);
                close.push(bars.close[bar]);
            }
        }
    }
    let names: Vec<String> = shown.iter().map(|symbol| market[*symbol].symbol.clone()).collect();
    let rows = codes.len();
    let symbols = Column { name: "symbol".into(), data: Data::Names { codes, names } };
    Table { columns: vec![symbols, Column::time("time", time), Column::f64("close", close)], rows }
}

/// Writes the record and its tables into a folder.
pub(crate) fn save(out: &Path, market: &[Bars], backtest: &Backtest, walked: &Walked, threads: usize) -> Result<()> {
    std::fs::create_dir_all(out).map_err(|e| Error::io(out, "making the folder", &e))?;
    let names: Vec<String> = market.iter().map(|bars| bars.symbol.clone()).collect();
    let symbols = |codes: Vec<u32>| Column { name: "symbol".into(), data: Data::Names { codes, names: names.clone() } };
    write(&out.join("returns.parquet"), &daily_beside(walked), threads)?;
    write(&out.join("prices.parquet"), &prices(market, walked), threads)?;
    let trades = &walked.trades;
    let numbers = |name: &str, of: &dyn Fn(&judge::backtest::Trade) -> f64| {
        Column::f64(name, trades.iter().map(of).collect::<Vec<f64>>())
    };
    let table = Table {
        columns: vec![
            symbols(trades.iter().map(|t| t.symbol as u32).collect()),
            Column::time("opened", trades.iter().map(|t| t.opened).collect()),
            Column::time("closed", trades.iter().map(|t| t.closed).collect()),
            numbers("quantity", &|t| t.quantity),
            numbers("entry", &|t| t.entry),
            numbers("exit", &|t| t.exit),
            numbers("result", &|t| t.result),
            numbers("result_share", &|t| t.result_share),
        ],
        rows: trades.len(),
    };
    write(&out.join("trades.parquet"), &table, threads)?;
    let positions = &walked.positions;
    let table = Table {
        columns: vec![
            Column::time("time", positions.iter().map(|p| p.time).collect()),
            symbols(positions.iter().map(|p| p.symbol as u32).collect()),
            Column::f64("quantity", positions.iter().map(|p| p.quantity).collect()),
            Column::f64("weight", positions.iter().map(|p| p.weight).collect()),
        ],
        rows: positions.len(),
    };
    write(&out.join("positions.parquet"), &table, threads)?;
    let text = serde_json::to_string_pretty(backtest)
        .map_err(|e| Error::new(Kind::Machine, format!("the record cannot be written: {e}")))?;
    replace_bytes(&out.join("backtest.json"), text.as_bytes())
}

fn write(path: &Path, table: &Table, threads: usize) -> Result<()> {
    let mut writer = ParquetWriter::create(path, &[])?.threads(threads);
    writer.write(table)?;
    writer.finish().map(drop)
}
