//! The record of a backtest: what it earned, what it cost, and how it would have fared otherwise.

use super::beside::{Replays, walk_beside};
use super::lines::Line;
use super::record::Walked;
use super::walk::{Course, buy_and_hold, decide, walk};
use crate::in_threads;
use crate::performance::{Activity, Performance, TrackRecord, daily_returns, performance, trading_days_per_year};
use account::{Flows, Params};
use files::time::rfc3339;
use files::{Error, Result};
use market::{Policy, Targets};
use serde::{Deserialize, Serialize};

/// What decisions would have earned. Returns are fractions (0.1 is 10 %).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Backtest {
    /// Currency of the account.
    pub currency: String,
    /// Equity at the start.
    pub capital: f64,
    /// When the first step ended.
    pub from: String,
    /// When the last did.
    pub to: String,
    /// Bars, or moments of the common clock, that were walked through.
    pub steps: u64,
    /// Net of all costs.
    pub net: Performance,
    /// Total return without any cost of trading and holding.
    pub gross_return: f64,
    /// Buying at the start and holding, at cost; its total return, yearly Sharpe ratio and largest drawdown.
    pub hold_return: f64,
    /// Its yearly Sharpe ratio.
    pub hold_sharpe_annual: Option<f64>,
    /// What was paid, by kind, in account currency.
    pub costs: CostShares,
    /// The same decisions at other costs.
    pub multiples: Vec<CostMultiple>,
    /// The same decisions one bar later, at once the costs.
    pub delayed: CostMultiple,
    /// What one side could cost before nothing is left, spread and impact included.
    pub break_even_bp_per_side: Option<f64>,
    /// Year by year.
    pub years: Vec<Part>,
    /// Fold by fold, where there are folds.
    pub folds: Vec<Part>,
    /// Symbol by symbol, what each earned as a share of the capital; empty for one.
    pub symbols: Vec<Part>,
    /// Closings that no decision asked for, by kind.
    pub incidents: Vec<Incidents>,
    /// What others earn on the same course, where a searcher decided: its net alone, itself, the oracle, nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
}

/// Money that was paid (positive) and received (negative), in account currency.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CostShares {
    /// Commissions and exchange fees.
    pub fee: f64,
    /// Half the spread of every fill.
    pub spread: f64,
    /// Market impact.
    pub impact: f64,
    /// Overnight financing.
    pub financing: f64,
    /// Borrowing of what was sold short.
    pub borrow: f64,
    /// Funding of perpetual swaps.
    pub funding: f64,
    /// Dividends, negative where they were received; not a cost.
    pub dividends: f64,
    /// All but dividends.
    pub total: f64,
    /// Notional of all fills.
    pub traded: f64,
}

/// A replay of the same decisions.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CostMultiple {
    /// What costs of trading and holding are multiplied with.
    pub multiple: f64,
    /// Net of them.
    pub total_return: f64,
    /// Of daily returns, per year.
    pub sharpe_annual: Option<f64>,
}

/// A part of the whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// A year, a fold or a symbol.
    pub name: String,
    /// What was earned in it over equity at its start.
    pub total_return: f64,
    /// Trading days in it.
    pub days: usize,
    /// Of daily returns, per year.
    pub sharpe_annual: Option<f64>,
    /// Round trips that ended in it.
    pub trades: usize,
}

/// Closings of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Incidents {
    /// `suspected split`, `end of data`, `liquidation`, …
    pub what: String,
    /// How many.
    pub count: usize,
    /// The first, `AAPL 2014-06-09`.
    pub first: String,
    /// What holding on would have added had the jumps been real, in account currency; null where it means nothing.
    pub if_real: Option<f64>,
}

/// Costs that decisions are replayed at, beside their own.
const MULTIPLES: [f64; 3] = [0.0, 2.0, 3.0];

/// Walks what a policy decides at cost, at other costs and a bar late, beside buying and holding. `folds` are moments
/// at which one begins, with its number. Walks of a portfolio go `threads` at a time; on one symbol all others are
/// accounts of one pass.
///
/// # Errors
///
/// Where there are fewer than two bars to walk through; the policy's own.
pub fn backtest(
    course: &Course<'_>,
    policy: &dyn Policy,
    folds: &[(usize, i64)],
    threads: usize,
) -> Result<(Backtest, Walked)> {
    let params = &course.table.params;
    let at = |multiple: f64| params.iter().map(|p| p.with_costs(multiple)).collect::<Vec<Params>>();
    let targets = decide(course, policy)?;
    let (late, hold) = (targets.delayed(1, &course.table.offsets), buy_and_hold(course.clock));
    let multiples = MULTIPLES.map(|multiple| (at(multiple), &targets));
    let others: Vec<(Vec<Params>, &Targets)> =
        multiples.into_iter().chain([(at(1.0), &late), (at(1.0), &hold)]).collect();
    let (mut walked, equities) = match course.market {
        [_] => (walk(course, params, &targets)?, replay_beside(course, &others)?),
        _ => {
            let runs: Vec<(&Vec<Params>, &Targets)> =
                std::iter::once((params, &targets)).chain(others.iter().map(|(params, own)| (params, *own))).collect();
            let walks = in_threads(runs.len(), threads, |at| walk(course, runs[at].0, runs[at].1));
            let mut walks = walks.into_iter().collect::<Result<Vec<Walked>>>()?;
            (walks.remove(0), walks.into_iter().map(|walked| walked.equity).collect())
        }
    };
    if walked.times.len() < 2 {
        return Err(Error::input("there are fewer than two bars to walk through").remedy("give more data"));
    }
    let [free, twice, thrice, late, held] = &equities[..] else { unreachable!("as many as there are others") };
    let days = Days::new(&walked, course.table.risk_free);
    let benchmark = days.returns(held)?;
    let returns = days.returns(&walked.equity)?;
    let results: Vec<f64> = walked.trades.iter().map(|trade| trade.result).collect();
    let capital = params[0].capital;
    let flows = walked.flows;
    let gross = total(free);
    let activity = Activity {
        traded_sum: walked.traded,
        exposure_sum: walked.exposure.iter().sum(),
        exposure_bars: walked.exposure.len(),
        costs: flows.costs().max(0.0),
        gross_profit: capital * total(&walked.equity) + flows.costs(),
    };
    let record = TrackRecord {
        benchmark: Some(&benchmark),
        round_trips: &results,
        activity: Some(activity),
        ..days.record(&returns)
    };
    let sharpe = |returns: &[f64]| days.sharpe(returns);
    let replay = |multiple: f64, equity: &[f64]| -> Result<CostMultiple> {
        let sharpe_annual = sharpe(&days.returns(equity)?);
        Ok(CostMultiple { multiple, total_return: total(equity), sharpe_annual })
    };
    let multiples = vec![replay(0.0, free)?, replay(1.0, &walked.equity)?, replay(2.0, twice)?, replay(3.0, thrice)?];
    let traded = flows.traded;
    let net = performance(&record)?;
    let made = Backtest {
        currency: course.table.currency.clone(),
        capital,
        from: rfc3339(walked.times[0]),
        to: rfc3339(walked.times[walked.times.len() - 1]),
        steps: walked.times.len() as u64,
        net,
        gross_return: gross,
        hold_return: total(held),
        hold_sharpe_annual: sharpe(&benchmark),
        costs: CostShares::new(&flows),
        multiples,
        delayed: replay(1.0, late)?,
        break_even_bp_per_side: (traded > 0.0).then(|| 1e4 * capital * gross / traded),
        years: days.parts(&walked, &returns, |day| Some(year_of(day)), &|year: i64| year.to_string()),
        folds: fold_parts(&walked, &days, &returns, folds),
        symbols: symbol_parts(course, &walked, capital),
        incidents: incidents(&walked),
        lines: Vec::new(),
    };
    (walked.gross_equity, walked.hold_equity) = (free.clone(), held.clone());
    Ok((made, walked))
}

/// `[others]` equity `[steps + 1]` of other decisions and costs on one symbol, as accounts of one pass.
fn replay_beside(course: &Course<'_>, others: &[(Vec<Params>, &Targets)]) -> Result<Vec<Vec<f64>>> {
    let (params, targets): (Vec<Params>, Vec<&Targets>) = others.iter().map(|(params, own)| (params[0], *own)).unzip();
    let mut equities: Vec<Vec<f64>> = params.iter().map(|params| vec![params.capital]).collect();
    walk_beside(course, &params, &Replays(targets), |_, equity| {
        equities.iter_mut().zip(equity).for_each(|(all, now)| all.push(*now));
    })?;
    Ok(equities)
}

/// From the first equity to the last.
fn total(equity: &[f64]) -> f64 {
    let first = equity.first().copied().unwrap_or(1.0);
    equity.last().copied().unwrap_or(first) / first - 1.0
}

impl CostShares {
    fn new(flows: &Flows) -> CostShares {
        CostShares {
            fee: flows.fee,
            spread: flows.spread,
            impact: flows.impact,
            financing: flows.swap,
            borrow: flows.borrow,
            funding: flows.funding,
            dividends: flows.dividend,
            total: flows.costs(),
            traded: flows.traded,
        }
    }
}

/// Trading days of a walk.
struct Days {
    days: Vec<i32>,   // [D] rising
    last: Vec<usize>, // [D] the last step of each
    per_year: f64,
    risk_free: f64, // of a day
}

impl Days {
    fn new(walked: &Walked, risk_free: f64) -> Days {
        let (mut days, mut last): (Vec<i32>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, day) in walked.days.iter().enumerate() {
            match days.last() {
                // A day that comes again after a later one belongs to that.
                Some(now) if day <= now => *last.last_mut().expect("as many as days") = at,
                _ => {
                    days.push(*day);
                    last.push(at);
                }
            }
        }
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        Days { days, last, per_year, risk_free: risk_free / per_year }
    }

    /// Returns of these days; what is earned beyond money without risk counts.
    fn record<'a>(&self, returns: &'a [f64]) -> TrackRecord<'a> {
        let risk_free = self.risk_free;
        TrackRecord { risk_free, minimum_return: risk_free, ..TrackRecord::new(returns, self.per_year) }
    }

    /// Per year.
    fn sharpe(&self, returns: &[f64]) -> Option<f64> {
        performance(&self.record(returns)).ok().and_then(|p| p.sharpe_annual.or(p.sharpe_annual_uncorrected))
    }

    /// `[D]` returns of a walk over the same steps.
    fn returns(&self, equity: &[f64]) -> Result<Vec<f64>> {
        let mut ends = vec![equity[0]];
        // What an account that is gone still owes is nothing that a return could say.
        ends.extend(self.last.iter().map(|at| equity[at + 1].max(0.0)));
        daily_returns(&ends)
    }

    /// Parts of the days by a key that rises with them.
    fn parts<K: PartialEq + Copy>(
        &self,
        walked: &Walked,
        returns: &[f64],
        key: impl Fn(i32) -> Option<K>,
        name: &dyn Fn(K) -> String,
    ) -> Vec<Part> {
        let mut parts: Vec<(K, std::ops::Range<usize>)> = Vec::new();
        for (at, day) in self.days.iter().enumerate() {
            let Some(own) = key(*day) else { continue };
            match parts.last_mut() {
                Some((last, range)) if *last == own => range.end = at + 1,
                _ => parts.push((own, at..at + 1)),
            }
        }
        let part = |(key, range): (K, std::ops::Range<usize>)| {
            let own = &returns[range.clone()];
            let steps = range.start.checked_sub(1).map_or(0, |at| self.last[at] + 1)..self.last[range.end - 1] + 1;
            let times = walked.times[steps.start]..=walked.times[steps.end - 1];
            Part {
                name: name(key),
                total_return: own.iter().fold(1.0, |growth, r| growth * (1.0 + r)) - 1.0,
                days: own.len(),
                sharpe_annual: self.sharpe(own),
                trades: walked.trades.iter().filter(|trade| times.contains(&trade.closed)).count(),
            }
        };
        parts.into_iter().map(part).collect()
    }
}

fn year_of(day: i32) -> i64 {
    rfc3339(i64::from(day) * 86_400_000_000_000).get(..4).and_then(|year| year.parse().ok()).unwrap_or(0)
}

fn fold_parts(walked: &Walked, days: &Days, returns: &[f64], folds: &[(usize, i64)]) -> Vec<Part> {
    let fold_of = |day: i32| {
        let at = days.days.binary_search(&day).ok()?;
        let time = walked.times[days.last[at]];
        folds.iter().rev().find(|(_, from)| *from <= time).map(|(number, _)| *number)
    };
    days.parts(walked, returns, fold_of, &|number| number.to_string())
}

fn symbol_parts(course: &Course<'_>, walked: &Walked, capital: f64) -> Vec<Part> {
    if course.market.len() < 2 {
        return Vec::new();
    }
    let part = |(symbol, earned): (usize, &f64)| Part {
        name: course.market[symbol].symbol.clone(),
        total_return: earned / capital,
        days: 0,
        sharpe_annual: None,
        trades: walked.trades.iter().filter(|trade| trade.symbol == symbol).count(),
    };
    let mut parts: Vec<Part> = walked.earned.iter().enumerate().map(part).collect();
    parts.retain(|part| part.trades > 0 || part.total_return != 0.0);
    parts.sort_by(|a, b| b.total_return.total_cmp(&a.total_return));
    parts
}

fn incidents(walked: &Walked) -> Vec<Incidents> {
    let mut all: Vec<Incidents> = Vec::new();
    for incident in &walked.incidents {
        let real = incident.if_real.unwrap_or(0.0);
        match all.iter_mut().find(|kind| kind.what == incident.what) {
            Some(kind) => {
                kind.count += 1;
                kind.if_real = kind.if_real.map(|sum| sum + real);
            }
            None => all.push(Incidents {
                what: incident.what.to_string(),
                count: 1,
                first: format!("{} {}", incident.symbol, &rfc3339(incident.time)[..10]),
                if_real: incident.if_real,
            }),
        }
    }
    all
}
