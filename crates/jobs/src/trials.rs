//! `trials`: what was tried on a data set, and what is left of a result when all of it is counted.

use crate::progress::{Sink, Update};
use crate::runs::RUNS;
use crate::train::{Holdings, ledger_path, load_market};
use crate::{Select, Settings, find, home};
use features::Span;
use files::time::rfc3339;
use files::{Caps, Data, Error, Kind, Result, Source, read_parquet};
use judge::deflated::{TrialFamily, deflate, mean_correlation};
use judge::evidence::Findings;
use judge::ledger::{Ledger, Outcome, StartedTrial, TrialRow};
use judge::overfitting::overfitting;
use judge::performance::{SharpeRatio, TrackRecord, performance, trading_days_per_year};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Trials that a result is held against.
pub(crate) struct Family {
    /// How many, each counted once.
    trials: usize,
    /// `[trials with returns]` configuration, and returns by trading day.
    returns: Vec<(String, BTreeMap<i32, f64>)>,
}

impl Family {
    /// Every trial on any of these symbols in this time. Returns that are no longer there do not count, their trial
    /// does.
    pub(crate) fn of(ledger: &Ledger, symbols: &[String], span: Span) -> Result<Family> {
        let rows = ledger.family(symbols, span)?;
        // A trial that was started more than once counts once, with what its last end gave.
        let mut last: BTreeMap<&str, &TrialRow> = BTreeMap::new();
        for row in &rows {
            let finished = matches!(row.outcome, Outcome::Finished { .. });
            if finished || !last.contains_key(row.trial.id.as_str()) {
                last.insert(&row.trial.id, row);
            }
        }
        let mut returns = Vec::new();
        for row in last.values() {
            if let Outcome::Finished { returns: Some(id), .. } = &row.outcome
                && let Some(own) = read_returns(id)?
            {
                returns.push((row.trial.config().to_string(), own));
            }
        }
        Ok(Family { trials: last.len(), returns })
    }

    /// Puts into the findings what the number of trials leaves of daily returns.
    pub(crate) fn count_in(&self, mut found: Findings, daily: &[f64]) -> Result<Findings> {
        found.trials = self.trials.max(1);
        let sharpes: Vec<f64> = self
            .returns
            .iter()
            .filter_map(|(_, own)| SharpeRatio::new(&own.values().copied().collect::<Vec<f64>>()))
            .map(|sharpe| sharpe.daily)
            .collect();
        let all: Vec<&BTreeMap<i32, f64>> = self.returns.iter().map(|(_, own)| own).collect();
        let columns = on_common_days(&all);
        let correlation = mean_correlation(&columns.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        if let Some(sharpe) = SharpeRatio::new(daily) {
            let family = TrialFamily { trials: found.trials, sharpes: &sharpes, correlation };
            found.deflated = deflate(&sharpe, &family)?;
        }
        let configs = self.configs();
        let columns = on_common_days(&configs.iter().collect::<Vec<_>>());
        found.overfitting = overfitting(&columns.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        Ok(found)
    }

    /// `[configurations]` returns by day, the mean over root seeds.
    fn configs(&self) -> Vec<BTreeMap<i32, f64>> {
        let mut by_config: BTreeMap<&str, Vec<&BTreeMap<i32, f64>>> = BTreeMap::new();
        self.returns.iter().for_each(|(config, own)| by_config.entry(config).or_default().push(own));
        let mean = |seeds: Vec<&BTreeMap<i32, f64>>| {
            let days: Vec<i32> = common_days(&seeds);
            let at = |day: &i32| seeds.iter().map(|own| own[day]).sum::<f64>() / seeds.len() as f64;
            days.iter().map(|day| (*day, at(day))).collect()
        };
        by_config.into_values().map(mean).collect()
    }
}

/// Days that all have, in their order.
fn common_days(all: &[&BTreeMap<i32, f64>]) -> Vec<i32> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    first.keys().filter(|day| others.iter().all(|own| own.contains_key(day))).copied().collect()
}

/// `[n][days]` on the days that all have; nothing where those are too few to say anything.
fn on_common_days(all: &[&BTreeMap<i32, f64>]) -> Vec<Vec<f64>> {
    let days = common_days(all);
    if days.len() < 30 {
        return Vec::new();
    }
    all.iter().map(|own| days.iter().map(|day| own[day]).collect()).collect()
}

/// Daily returns of a trial by their id; none where the file is no longer there or cannot be read.
fn read_returns(id: &str) -> Result<Option<BTreeMap<i32, f64>>> {
    Ok(returns_in(&home()?.join("returns").join(format!("{id}.parquet"))))
}

/// Daily returns in a file; none where it cannot be read.
pub(crate) fn returns_in(path: &Path) -> Option<BTreeMap<i32, f64>> {
    if !path.exists() {
        return None;
    }
    let mut all = BTreeMap::new();
    let read = Source::open(path).and_then(|source| {
        read_parquet(&source, &Caps::default(), None, &mut |table| {
            let column = |name: &str| table.columns.iter().find(|c| c.name == name).map(|c| &c.data);
            if let (Some(Data::Time { ns, .. }), Some(Data::F64(returns))) = (column("day"), column("return")) {
                let rows = ns.iter().zip(returns).filter(|(_, r)| r.is_finite());
                all.extend(rows.map(|(day, r)| (day.div_euclid(86_400_000_000_000) as i32, *r)));
            }
            Ok(())
        })
    });
    read.is_ok().then_some(all)
}

/// The ledger, as far as it is about a data set.
#[derive(Debug, Clone, Serialize)]
pub struct TrialsListed {
    /// The file of the ledger.
    pub ledger: String,
    /// When its first row was written; null where there is none. What was tried before is not counted.
    pub since: Option<String>,
    /// Rows of its chain, each checked against its hash and the row before.
    pub rows: u64,
    /// What was asked about: a data set, or null for everything.
    pub data: Option<String>,
    /// Trials that count: configurations with a root seed, however often each was started.
    pub trials: u64,
    /// Of these, different configurations.
    pub configs: u64,
    /// Every start, the newest last.
    pub starts: Vec<TrialLine>,
    /// Runs in the folder `runs` whose row this ledger does not have.
    pub lacking: Vec<LackingRun>,
}

/// One start of a trial.
#[derive(Debug, Clone, Serialize)]
pub struct TrialLine {
    /// Its row.
    pub row: u64,
    /// When it started.
    pub time: String,
    /// The hash of its configuration, and behind `@` the root seed.
    pub id: String,
    /// What it was, in words; null where an older version wrote it.
    pub what: Option<String>,
    /// Symbols it was judged on.
    pub symbols: Vec<String>,
    /// `finished`, `failed`, or `not finished`.
    pub outcome: &'static str,
    /// Why it failed.
    pub why: Option<String>,
    /// Correlation of predictions with what happened, direction alone; null where there is none.
    pub direction_mcc: Option<f64>,
    /// Yearly net Sharpe ratio; null where nothing was traded or returns are not there.
    pub sharpe_annual: Option<f64>,
    /// How often it opened a holdout.
    pub holdouts: usize,
}

/// A run that the ledger does not have.
#[derive(Debug, Clone, Serialize)]
pub struct LackingRun {
    /// Its folder.
    pub folder: String,
    /// The row it says it has.
    pub row: u64,
}

/// Lists what was tried; `select` names a data set, without it everything is listed.
pub fn trials(select: Option<&Select>, settings: &Settings, sink: Sink<'_>) -> Result<TrialsListed> {
    let path = ledger_path()?;
    let mut listed = TrialsListed {
        ledger: path.display().to_string(),
        since: None,
        rows: 0,
        data: None,
        trials: 0,
        configs: 0,
        starts: Vec::new(),
        lacking: Vec::new(),
    };
    let about = select.map(|select| about(select, settings, sink)).transpose()?;
    listed.data = about.as_ref().map(|(data, ..)| data.clone());
    let ledger = path.exists().then(|| Ledger::open(&path)).transpose()?;
    if let Some(ledger) = &ledger {
        listed.rows = ledger.verify()?;
        listed.since = ledger.since()?.map(rfc3339);
        let rows = match &about {
            Some((_, symbols, span)) => ledger.family(symbols, *span)?,
            None => ledger.trials()?,
        };
        let ids: BTreeSet<&str> = rows.iter().map(|row| row.trial.id.as_str()).collect();
        let configs: BTreeSet<&str> = rows.iter().map(|row| row.trial.config()).collect();
        (listed.trials, listed.configs) = (ids.len() as u64, configs.len() as u64);
        listed.starts = rows.iter().map(line).collect::<Result<Vec<TrialLine>>>()?;
    }
    listed.lacking = lacking(ledger.as_ref())?;
    Ok(listed)
}

/// What data are called, the names of their series in the ledger, and their time.
fn about(select: &Select, settings: &Settings, sink: Sink<'_>) -> Result<(String, Vec<String>, Span)> {
    let path = find(&select.data)?;
    let market = load_market(&path, select, settings, sink)?.bars;
    sink(Update { phase: "ledger", done: 0, total: 0, unit: "" });
    let holdings = Holdings::of_bars(&market, settings).map_err(|e| e.at(&path))?;
    let first = market.iter().filter_map(|bars| bars.start.first()).min();
    let last = market.iter().filter_map(|bars| bars.end.last()).max();
    let span = first.zip(last).and_then(|(first, last)| Span::new(*first, *last));
    let span = span.ok_or_else(|| Error::new(Kind::Input, "there are no bars").at(&path))?;
    let symbols = market.iter().map(|bars| holdings.name_of(&bars.symbol)).collect();
    Ok((path.display().to_string(), symbols, span))
}

fn line(row: &TrialRow) -> Result<TrialLine> {
    let (outcome, why, metrics, returns) = match &row.outcome {
        Outcome::Finished { metrics, returns } => ("finished", None, Some(metrics), returns.as_deref()),
        Outcome::Failed { why } => ("failed", Some(why.clone()), None, None),
        Outcome::Crashed => ("not finished", None, None, None),
    };
    let returns = returns.map(read_returns).transpose()?.flatten();
    let sharpe = |own: BTreeMap<i32, f64>| {
        let days: Vec<i32> = own.keys().copied().collect();
        let returns: Vec<f64> = own.into_values().collect();
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let found = performance(&TrackRecord::new(&returns, per_year)).ok()?;
        found.sharpe_annual.or(found.sharpe_annual_uncorrected)
    };
    Ok(TrialLine {
        row: row.row,
        time: rfc3339(row.time),
        id: row.trial.id.clone(),
        what: row.trial.what.clone(),
        symbols: row.trial.symbols.clone(),
        outcome,
        why,
        direction_mcc: metrics.and_then(|m| m["judged"]["directional_mcc"].as_f64()),
        sharpe_annual: returns.and_then(sharpe),
        holdouts: row.holdouts,
    })
}

/// Runs in the folder `runs` that say they are in a ledger, and are not in this one.
fn lacking(ledger: Option<&Ledger>) -> Result<Vec<LackingRun>> {
    let mut lacking = Vec::new();
    for run in report::list_runs(Path::new(RUNS))? {
        let noted = run.run.as_ref().and_then(|run| run.more.get("ledger")).cloned().unwrap_or(Value::Null);
        let noted = if noted.is_array() { noted } else { Value::Array(vec![noted]) };
        let Ok(started) = serde_json::from_value::<Vec<StartedTrial>>(noted) else { continue };
        let unknown = |trial: &&StartedTrial| ledger.is_none_or(|ledger| ledger.expect_started(trial).is_err());
        if let Some(trial) = started.iter().find(unknown) {
            lacking.push(LackingRun { folder: run.folder.display().to_string(), row: trial.row });
        }
    }
    Ok(lacking)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(from: i32, returns: &[f64]) -> BTreeMap<i32, f64> {
        returns.iter().enumerate().map(|(at, r)| (from + at as i32, *r)).collect()
    }

    #[test]
    fn many_trials_leave_less_of_a_result() {
        let mut random = random::SplitMix::new(4);
        let mut noise = || (0..260).map(|_| 0.0006 + 0.01 * (random.unit() - 0.5)).collect::<Vec<f64>>();
        let own = noise();
        let trials = |count: usize, others: Vec<Vec<f64>>| {
            let named = others.into_iter().chain([own.clone()]).enumerate();
            let returns = named.map(|(at, r)| (format!("config {at}"), days(100, &r))).collect();
            let family = Family { trials: count, returns };
            family.count_in(Findings::default(), &own).unwrap()
        };
        let alone = trials(1, Vec::new());
        let many = trials(40, (0..30).map(|_| noise()).collect());
        let [one, all] = [&alone, &many].map(|found| found.deflated.unwrap().probability);
        assert!(one > 0.9 && all < one - 0.1, "{one} {all}");
        assert_eq!((alone.trials, many.trials, alone.overfitting.is_none()), (1, 40, true));
        assert!(many.overfitting.unwrap().configs == 31);
    }

    #[test]
    fn seeds_of_a_configuration_are_averaged_on_common_days() {
        let seed = |from, r: f64| ("a".to_string(), days(from, &[r; 40]));
        let family = Family { trials: 3, returns: vec![seed(0, 0.1), seed(5, 0.3), ("b".into(), days(0, &[0.0; 40]))] };
        let configs = family.configs();
        assert_eq!(configs.len(), 2);
        assert_eq!((configs[0].len(), *configs[0].keys().next().unwrap()), (35, 5));
        assert!(configs[0].values().all(|r| (r - 0.2).abs() < 1e-12));
        assert_eq!(on_common_days(&[&days(0, &[0.0; 40]), &days(20, &[0.0; 40])]).len(), 0, "20 days are too few");
    }
}
