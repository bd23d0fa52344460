//! What is read for a training: bars with features and labels, or ready arrays (`arrays.rs`).

use super::arrays;
use super::holdout::Holdings;
use super::problem::problem;
use super::short::{PRESENT_LEAST, SETTLED_LEAST, fit_windows, left_out, too_few};
use crate::audit::{describe_instruments, findings};
use crate::features::{TableUse, bar_bytes, check_memory, compute, describe, label, one_timeframe, resolve};
use crate::progress::{Sink, check_stop, shared};
use crate::{LabelSummary, Select, Settings, find};
use bars::{Bars, Fingerprint, Timeframe};
use compute::Net;
use compute::allocator::give_back_freed;
use features::labels::Rule;
use features::{Dataset, Input, preset, read_set};
use files::{Error, Kind, Result};
use learn::Problem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Everything a training starts from.
pub(crate) struct Source {
    /// The path that was read.
    pub(crate) path: PathBuf,
    /// What there is to learn from.
    pub(crate) problem: Arc<Problem>,
    /// `[configs]` the net of each, which fits it.
    pub(crate) nets: Vec<Net>,
    /// Distinct availability times, rising.
    pub(crate) ticks: Vec<i64>,
    /// Of every bit that was read.
    pub(crate) fingerprint: String,
    /// What the ids are.
    pub(crate) ids: Ids,
    /// Instruments, costs and sessions in one line; none for ready arrays.
    pub(crate) instruments: Option<String>,
    /// What the ledger knows of the data.
    pub(crate) holdings: Holdings,
    /// Notes.
    pub(crate) notes: Vec<String>,
    /// Seconds for reading, and for features and labels.
    pub(crate) seconds: [f64; 2],
}

/// What an id of the problem is.
pub(crate) enum Ids {
    /// A row of the base table.
    Bars {
        /// The tables, without the values that went into the problem.
        data: Box<Dataset>,
        /// The set as text, so that it can be computed again.
        set: String,
        /// What there is to learn.
        label: Option<LabelSummary>,
        /// `[rows]` which have whole, settled windows, labelled or not.
        usable: Vec<bool>,
        /// How they were labelled.
        rule: Option<Rule>,
    },
    /// A row of ready arrays.
    Ready {
        /// `[ids]` which symbol, if the arrays say.
        symbol: Option<Vec<u32>>,
        /// Their names.
        symbols: Vec<String>,
        /// Whether it is known when each was known; else the order of rows stands for it.
        timed: bool,
    },
}

/// Reads data and makes of them what a learner learns from; `set` are the features, where they are not the settings' or
/// the learner's own.
pub(crate) fn load(select: &Select, set: Option<&str>, settings: &Settings, sink: Sink<'_>) -> Result<Source> {
    let path = find(&select.data)?;
    if arrays::are_ready(&path) {
        return arrays::read(path, select, set, settings, sink);
    }
    if let Some(rows) = settings.train.label_horizon {
        return Err(Error::new(
            Kind::Usage,
            "`train.label_horizon` is for ready arrays that came with labels; labels of bars are made here",
        )
        .at(&path)
        .remedy(format!(
            "say how far labels of bars look: <label.rule=\"triple({rows})\">; ready arrays are called x_fast, x_slow, x_strategy or x, with labels y"
        )));
    }
    from_bars(path, select, set, settings, sink)
}

/// Bars of one timeframe, as they were read.
pub(crate) struct Market {
    pub(crate) bars: Vec<Bars>,
    pub(crate) timeframe: Timeframe,
    /// Timeframes that were left out.
    pub(crate) others: Vec<String>,
    /// Instruments, costs and sessions in one line.
    pub(crate) instruments: String,
    /// What the audit found.
    pub(crate) findings: Vec<String>,
}

/// Reads the bars of a path, those of the timeframe that has most of them.
pub(crate) fn load_market(path: &Path, select: &Select, settings: &Settings, sink: Sink<'_>) -> Result<Market> {
    let options = select.narrow(settings.options()?);
    let (market, audit) = shared(sink, |progress| bars::read(path, &options, progress))?;
    let (bars, timeframe, others) = one_timeframe(market.bars, &audit)?;
    // Of many symbols, what reading and auditing left behind is as much as the bars.
    give_back_freed();
    let instruments = describe_instruments(&bars);
    Ok(Market { bars, timeframe, others, instruments, findings: findings(&audit) })
}

fn from_bars(path: PathBuf, select: &Select, set: Option<&str>, settings: &Settings, sink: Sink<'_>) -> Result<Source> {
    let (kind, clock) = (settings.train.learner.kind(), Instant::now());
    let Market { bars: market, timeframe, others, instruments, findings } = load_market(&path, select, settings, sink)?;
    let reading = clock.elapsed().as_secs_f64();
    let holdings = Holdings::of_bars(&market, settings).map_err(|e| e.at(&path))?;
    let settings = &settings.with_held(Some(holdings.held));
    let mut notes = findings;
    if !others.is_empty() {
        notes.push(format!(
            "bars of {} were left out: a model has one base timeframe, here {timeframe}",
            others.join(", ")
        ));
    }
    let chosen = set.map_or_else(|| settings.features.or((kind.info().features)(market.len())), str::to_string);
    let set = read_set(&slower(&chosen, timeframe))?;
    let mut plan = resolve(&set, settings)?;
    let fingerprint = fingerprint(&market);
    check_memory(&market, timeframe, &plan, TableUse::Traded, settings)?;
    let (mut data, mut computing) = compute(market, &plan, settings, sink)?;
    check_stop()?;
    let costly = data.costly_columns(SETTLED_LEAST, PRESENT_LEAST);
    if !costly.is_empty() {
        let is_costly = |timeframe: Option<Timeframe>, name: &str| {
            costly.iter().any(|c| c.timeframe == timeframe && c.name == name)
        };
        let rest = set.without(is_costly);
        if rest.groups.is_empty() {
            return Err(too_few(&data, &[], 1, settings, None).at(&path));
        }
        notes.extend(left_out(&costly, data.base.runs.iter().flatten().map(|run| run.len()).max().unwrap_or(0)));
        plan = resolve(&rest, settings)?;
        let market = std::mem::take(&mut data.base.market);
        drop(data);
        let seconds;
        (data, seconds) = compute(market, &plan, settings, sink)?;
        computing += seconds;
        check_stop()?;
    }
    if !data.without_volume.is_empty() {
        notes.push(format!("left out because the data have no volume: {}", data.without_volume.join(", ")));
    }
    if !data.symbols_without_volume.is_empty() {
        let n = data.symbols_without_volume.len();
        notes.push(format!(
            "{n} of {} symbols have no volume, so their volume features are missing: {}",
            data.base.market.len(),
            few(&data.symbols_without_volume)
        ));
    }
    if !data.without_market.is_empty() {
        notes.push(format!(
            "left out because there are too few symbols for market features: {}",
            data.without_market.join(", ")
        ));
    }
    let featured = describe(&data, settings, computing);
    if !featured.sparse.is_empty() {
        notes.push(format!("without a value on more than a fifth of the rows: {}", featured.sparse.join(", ")));
    }
    let mut inputs = data.inputs(kind.info().layout);
    let (nets, shorter) = fit_windows(&data, &mut inputs, settings, if kind.info().is_labelled { LABELS } else { 0 })?;
    notes.extend(shorter);
    let windows = longest(&nets);
    let problem = Problem {
        data: fingerprint.clone(),
        ..problem(&mut data, inputs, &windows, settings).map_err(|e| e.at(&path))?
    };
    let problem = Arc::new(problem);
    let label = if kind.info().is_labelled { label(&data, settings) } else { None };
    let usable = data.usable_rows(&problem.inputs, &windows);
    let rule = data.labels.as_ref().map(|labels| labels.rule);
    // The problem has its own copy of columns and labels; what stays are bars and times.
    data.release_values();
    data.labels = None;
    give_back_freed();
    let ticks = data.clock.times.clone();
    let ids = Ids::Bars { data: Box::new(data), set: plan.text().to_string(), label, usable, rule };
    let seconds = [reading, computing];
    let instruments = Some(instruments);
    let mut source = Source { path, problem, nets, ticks, fingerprint, ids, instruments, holdings, notes, seconds };
    source.notes.extend(source.without_samples());
    Ok(source)
}

/// Classes of the labels of bars: down, flat and up.
pub(super) const LABELS: usize = 3;

/// `[configs]` the net of each: the one that was set, or the learner's own for these inputs.
pub(super) fn nets(settings: &Settings, inputs: &[Input], classes: usize) -> Result<Vec<Net>> {
    let net = |own: &Settings| {
        let kind = own.train.learner.kind();
        kind.refuse_net(own)?;
        let net = kind.net(own, inputs, classes).parse();
        net.map_err(|e: compute::Error| Error::new(Kind::Usage, e.to_string()))
    };
    settings.configs().iter().map(|(_, own)| net(own)).collect()
}

/// `[inputs]` the longest window that any of these nets reads: one list of samples serves all.
pub(crate) fn longest(nets: &[Net]) -> Vec<usize> {
    let inputs = nets.first().map_or(0, |net| net.inputs.len());
    let window = |at: usize| nets.iter().filter_map(|net| Some(net.inputs.get(at)?.window)).max().unwrap_or(1);
    (0..inputs).map(window).collect()
}

/// The preset for two timeframes is made for bars of five minutes and an hour: other bars get a slow timeframe of about
/// twelve of them.
fn slower(set: &str, timeframe: Timeframe) -> String {
    if set.trim() != "two_timeframe" || timeframe == Timeframe::M5 {
        return set.to_string();
    }
    let slow = match timeframe {
        Timeframe::Months(n) => Timeframe::Months(3 * n),
        Timeframe::Fixed(base) => {
            let usual = match base / Timeframe::M1.ns().max(1) {
                ..=1 => 15 * Timeframe::M1.ns(),
                2..=5 => Timeframe::H1.ns(),
                6..=29 => 4 * Timeframe::H1.ns(),
                30..=239 => Timeframe::D1.ns(),
                240..=1440 => 7 * Timeframe::D1.ns(),
                _ => 4 * base,
            };
            // Bars of seven minutes do not make up four hours.
            Timeframe::Fixed(if usual > base && usual % base.max(1) == 0 { usual } else { 12 * base })
        }
    };
    preset("two_timeframe").unwrap_or_default().replace("@1h", &format!("@{slow}"))
}

/// The hash of every bit of the bars.
pub(crate) fn fingerprint(market: &[Bars]) -> String {
    let mut data = Fingerprint::new();
    market.iter().for_each(|bars| data.add_bars(bars));
    data.to_hex()
}

/// Bytes of a net's inputs in memory.
pub(super) fn input_bytes(inputs: &[Input]) -> usize {
    inputs.iter().map(|input| 4 * (input.values.len() + input.map.as_ref().map_or(0, Vec::len))).sum()
}

impl Source {
    /// What it holds in memory while a training runs: bars, inputs and samples.
    pub(crate) fn bytes(&self) -> u64 {
        let held = match &self.ids {
            // The clock of the rows, and whether they have settled.
            Ids::Bars { data, .. } => bar_bytes(&data.base.market) + 6 * data.base.rows() + 8 * data.clock.times.len(),
            Ids::Ready { .. } => 0,
        };
        // Row, class, times and weight of a sample, and its places in the folds and the lists of their members.
        let samples = (25 + 36) * self.problem.samples.rows.len() + 8 * self.ticks.len();
        (held + samples + input_bytes(&self.problem.inputs)) as u64
    }

    /// `[inputs]` whether each is of a slower table, and the longest window that is read of it.
    pub(super) fn windows(&self) -> Vec<(bool, usize)> {
        let slow = self.problem.inputs.iter().map(|input| input.map.is_some());
        slow.zip(longest(&self.nets)).collect()
    }

    /// `[samples]` the number of each sample's symbol.
    pub(crate) fn sample_symbols(&self) -> Vec<u32> {
        self.ids.symbol_numbers(&self.problem.samples.rows)
    }

    /// `[symbols]` how many samples each gives.
    fn samples_of(&self, symbols: usize) -> Vec<usize> {
        let mut counts = vec![0; symbols];
        for symbol in self.sample_symbols() {
            if let Some(count) = counts.get_mut(symbol as usize) {
                *count += 1;
            }
        }
        counts
    }

    /// The symbols that give samples, in order: what is learned from and judged.
    pub(crate) fn judged(&self) -> Vec<String> {
        let all = self.ids.symbols();
        let counts = self.samples_of(all.len());
        all.into_iter().zip(counts).filter(|(_, n)| *n > 0).map(|(symbol, _)| symbol).collect()
    }

    /// That some symbols give no sample, and which.
    pub(super) fn without_samples(&self) -> Option<String> {
        let all = self.ids.symbols();
        let (n, counts) = (all.len(), self.samples_of(all.len()));
        let none: Vec<String> =
            all.into_iter().zip(counts).filter(|(_, n)| *n == 0).map(|(symbol, _)| symbol).collect();
        (!none.is_empty()).then(|| {
            let some = few(&none);
            format!("{} of {n} symbols give no sample, and are neither learned from nor judged: {some}", none.len())
        })
    }
}

/// The first few names, and how many more there are.
fn few(names: &[String]) -> String {
    const FEW: usize = 5;
    let some = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{some} and {} more", names.len() - FEW) } else { some }
}

impl Ids {
    /// `[ids]` the number of each id's symbol.
    pub(crate) fn symbol_numbers(&self, ids: &[u32]) -> Vec<u32> {
        match self {
            Ids::Bars { data, .. } => ids.iter().map(|id| data.base.place(*id as usize).0 as u32).collect(),
            Ids::Ready { symbol: Some(symbol), .. } => ids.iter().map(|id| symbol[*id as usize]).collect(),
            Ids::Ready { symbol: None, .. } => vec![0; ids.len()],
        }
    }

    /// All symbols, in order.
    pub(crate) fn symbols(&self) -> Vec<String> {
        match self {
            Ids::Bars { data, .. } => data.base.market.iter().map(|b| b.symbol.clone()).collect(),
            Ids::Ready { symbols, .. } => symbols.clone(),
        }
    }
}

/// The name of a data set, for a folder.
pub(crate) fn name(path: &Path) -> String {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    stem.chars().map(plain).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::synth::Synth;

    #[test]
    fn bars_of_any_length_have_a_slow_timeframe() {
        let bars = Synth { symbols: 1, bars: 50, ..Synth::default() }.make_market(1).market.remove(0);
        for (base, slow) in [
            ("1m", "15m"),
            ("5m", "1h"),
            ("7m", "84m"),
            ("15m", "4h"),
            ("1h", "1d"),
            ("8h", "1w"),
            ("1d", "1w"),
            ("1w", "4w"),
            ("1mo", "3mo"),
        ] {
            let timeframe: Timeframe = base.parse().unwrap();
            let set = slower("two_timeframe", timeframe);
            let made = read_set(&set).unwrap().groups.iter().find_map(|g| g.timeframe).unwrap();
            assert_eq!(made, slow.parse().unwrap(), "{base}");
            let refused = features::resample(&Bars { timeframe, ..bars.clone() }, made).err();
            assert!(refused.is_none_or(|e| !e.message.contains("cannot be made of")), "{base}");
        }
        assert_eq!(slower("rsi(14)", Timeframe::H1), "rsi(14)");
    }
}
