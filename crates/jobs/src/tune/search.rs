//! The capacity of a device for policies that search: roots and simulations at once inside the memory budget, with what
//! each pair costs and brings.
//!
//! Every pair takes real iterations on the user's data (roots and simulations a second, time of an iteration) and then
//! trains one policy of the same layers on a small market with a planted signal until its validation with search
//! reaches a set share of the best growth: more simulations teach more and take longer, so a rate alone chooses badly.
//! Accounts are as many as roots, so that all of them are searched in one batch, and an iteration has about as many
//! roots whatever the pair is. A pair is left out, with its reason, where memory or time do not allow it.

use super::TunedRecipe;
use super::bench::{Bench, Found, nothing_fits};
use super::capacity::{Arrival, PlantedMarket, REACH, market_settings};
use crate::Settings;
use crate::kinds::{SearchRule, search_timesteps};
use crate::progress::{Sink, Update, check_stop};
use crate::train::Source;
use compute::Opened;
use files::{Result, format_bytes, format_count, format_seconds};
use judge::split::Splits;
use learn::{Learner, MemberKey};
use machine::Tuner;
use serde::Serialize;
use std::time::Instant;

/// The roots and the simulations of the table; a card has use for more roots.
const ROOTS: [usize; 5] = [16, 32, 64, 128, 256];
const ON_CARD: [usize; 5] = [64, 128, 256, 1024, 4096];
const SIMULATIONS: [usize; 3] = [8, 16, 32];
/// Bars of the planted market: its validation is short beside an iteration.
const BARS: usize = 6_000;
/// Up to this share of the time pairs are tried; the rest is for members at once.
const UNTIL: f64 = 0.9;
/// Of a pair's time, what its clock of iterations may take; the rest is for the planted market.
const TIMED: f64 = 0.3;
/// A pair that takes so many times as long as the quickest, and this many seconds at least, is not waited for.
const LOST: (f64, f64) = (2.0, 2.0);
/// Of pairs that arrive within this part of the first the cheaper is taken: a clock is no sharper.
const AS_SOON: f64 = 1.1;
/// Fewer iterations in all timesteps are no training.
const ITERATIONS_LEAST: usize = 16;

/// What roots and simulations cost and bring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchCapacity {
    /// Roots of a member in its whole training.
    pub timesteps: usize,
    /// Scenarios of a root, the same for all pairs.
    pub scenarios: usize,
    /// Bars that a search looks ahead.
    pub horizon: usize,
    /// The best mean growth of a bar on the planted market, in basis points.
    pub planted_growth_bp: f64,
    /// The growth that is waited for.
    pub target_growth_bp: f64,
    /// One for each pair, by roots, then by simulations.
    pub rows: Vec<SearchCapacityRow>,
}

/// One pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchCapacityRow {
    /// Roots in one batch, and accounts of a member.
    pub roots: usize,
    /// Simulations of each.
    pub simulations: usize,
    /// Steps of each account in an iteration.
    pub n_steps: usize,
    /// Iterations in all timesteps.
    pub iterations: usize,
    /// Members that the memory holds at once.
    pub members_at_once: usize,
    /// Bytes of one member, market, trees and tables included.
    pub memory_bytes: u64,
    /// Roots of one member in a second, learning included; null where nothing was timed.
    pub roots_per_s: Option<f64>,
    /// Simulations in a second.
    pub simulations_per_s: Option<f64>,
    /// Seconds of one iteration of one member.
    pub iteration_s: Option<f64>,
    /// Seconds until the planted market's growth was reached; null where it was not.
    pub planted_s: Option<f64>,
    /// The one that runs take.
    pub chosen: bool,
    /// Why something is missing, or why it is not chosen.
    pub note: Option<String>,
}

/// Roots and simulations that settings have by the rule.
pub(super) fn rule(settings: &Settings) -> [usize; 2] {
    let SearchRule { roots, simulations, .. } = SearchRule::of(settings);
    [roots, simulations]
}

impl Bench<'_> {
    /// Roots and simulations of policies that search, and members at once.
    pub(super) fn roots_and_simulations(
        &mut self,
        source: &Source,
        splits: &Splits,
        tuner: &Tuner<'_>,
        sink: Sink<'_>,
    ) -> Result<Found> {
        let mut settings = self.settings.clone();
        settings.train.learner.kind().fill_in(&mut settings, source, &self.at.device);
        let by_rule = rule(&settings);
        let market = PlantedMarket::new(&settings, BARS)?;
        let table = Table { bench: self, source, splits, settings: &settings, market: &market };
        let mut rows = table.measure(&pairs(&self.at.device, by_rule), sink)?;
        rows.sort_by_key(|row| (row.roots, row.simulations));
        let best = choose(&rows, by_rule).ok_or_else(|| nothing_fits(rows.iter().find_map(|row| row.note.clone())))?;
        rows[best].chosen = true;
        let target = REACH * market.growth_bp;
        let why = why(&rows, best, target);

        let SearchCapacityRow { roots, simulations, n_steps, roots_per_s, .. } = rows[best].clone();
        self.learner = self.searcher(source, splits, &settings, roots, simulations)?;
        let (others, members_at_once) = self.members(tuner, roots_per_s.unwrap_or(1.0), roots * n_steps, sink)?;
        let SearchRule { scenarios, horizon, .. } = SearchRule::of(&settings);
        let search = SearchCapacity {
            timesteps: search_timesteps(&settings),
            scenarios,
            horizon,
            planted_growth_bp: market.growth_bp,
            target_growth_bp: target,
            rows,
        };
        let recipe = TunedRecipe {
            batch: self.config().recipe.batch,
            precision: self.config().recipe.precision,
            threads: None,
            members_at_once,
            noise_scale: None,
            n_envs: Some(roots),
            n_steps: Some(n_steps),
            at_once: None,
            pinned: false,
            roots: Some(roots),
            simulations: Some(simulations),
        };
        let (rows, seen) = (Vec::new(), Vec::new());
        Ok(Found { noise: None, rows, others, recipe, why, capacity: None, search: Some(search), seen })
    }

    /// The learner that searches so many roots with so many simulations.
    fn searcher(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        roots: usize,
        simulations: usize,
    ) -> Result<Box<dyn Learner>> {
        let own = searching(settings, roots, simulations);
        own.train.learner.kind().learner(source, splits, &own, &self.at.device)
    }
}

/// Settings with so many roots, as many accounts, and so many simulations.
fn searching(settings: &Settings, roots: usize, simulations: usize) -> Settings {
    let mut own = settings.clone();
    (own.ppo.n_envs, own.search.roots) = (Some(roots), Some(roots));
    (own.ppo.n_steps, own.search.simulations) = (Some(SearchRule::steps(roots)), Some(simulations));
    own
}

/// All pairs, the rule's first: what it takes tells how long others are worth waiting for.
fn pairs(device: &Opened, [roots, simulations]: [usize; 2]) -> Vec<(usize, usize)> {
    let counts = if matches!(device, Opened::Cuda(_)) { ON_CARD } else { ROOTS };
    let mut all: Vec<(usize, usize)> = counts.iter().flat_map(|r| SIMULATIONS.map(|s| (*r, s))).collect();
    // Near the rule first, so that a short budget has seen what matters.
    let far = |(r, s): &(usize, usize)| {
        let apart = |a: usize, b: usize| (a as f64 / b as f64).ln().abs();
        apart(*r, roots) + apart(*s, simulations)
    };
    all.sort_by(|a, b| far(a).total_cmp(&far(b)));
    if !all.contains(&(roots, simulations)) {
        all.insert(0, (roots, simulations));
    }
    all
}

/// Pairs are measured by this.
struct Table<'a, 'b> {
    bench: &'a Bench<'b>,
    source: &'a Source,
    splits: &'a Splits,
    settings: &'a Settings,
    market: &'a PlantedMarket,
}

impl Table<'_, '_> {
    fn measure(&self, pairs: &[(usize, usize)], sink: Sink<'_>) -> Result<Vec<SearchCapacityRow>> {
        let (mut rows, mut first): (Vec<SearchCapacityRow>, Option<f64>) = (Vec::new(), None);
        for (at, (roots, simulations)) in pairs.iter().enumerate() {
            let (done, total) = (at as u64, pairs.len() as u64);
            sink(Update { phase: "timing roots and simulations", done, total, unit: "" });
            let left = UNTIL * self.bench.most.as_secs_f64() - self.bench.began.elapsed().as_secs_f64();
            let share = left.max(0.0) / (pairs.len() - at) as f64;
            // A root costs about as much as its simulations.
            let rate = rows.iter().rev().find_map(|row| Some(row.roots_per_s? * row.simulations as f64));
            rows.push(self.row(*roots, *simulations, share, rate, &mut first)?);
            check_stop()?;
        }
        Ok(rows)
    }

    /// One pair, in about so many seconds; `rate` are the simulations a second that others made.
    fn row(
        &self,
        roots: usize,
        simulations: usize,
        share: f64,
        rate: Option<f64>,
        first: &mut Option<f64>,
    ) -> Result<SearchCapacityRow> {
        let bench = self.bench;
        let learner = bench.searcher(self.source, self.splits, self.settings, roots, simulations)?;
        let (n_steps, memory_bytes) = (SearchRule::steps(roots), bench.needs(&*learner, 1)?);
        let searched = (roots * n_steps) as f64;
        let mut row = SearchCapacityRow {
            roots,
            simulations,
            n_steps,
            iterations: search_timesteps(self.settings).div_ceil(roots * n_steps),
            members_at_once: bench.group(&*learner)?.0,
            memory_bytes,
            roots_per_s: None,
            simulations_per_s: None,
            iteration_s: None,
            planted_s: None,
            chosen: false,
            note: None,
        };
        let budget = bench.at.bytes(learner.problem())?;
        if memory_bytes > budget {
            let note = format!("needs {}, the memory budget is {}", format_bytes(memory_bytes), format_bytes(budget));
            return Ok(SearchCapacityRow { members_at_once: 0, note: Some(note), ..row });
        }
        // One iteration that warms up and one that counts.
        let expected = rate.map_or(0.0, |rate| 2.0 * searched * simulations as f64 / rate);
        if expected > share {
            row.note = Some(format!(
                "left out: two iterations take about {}, and {} are left for this pair; a larger <budget> allows it",
                format_seconds(expected),
                format_seconds(share)
            ));
            return Ok(row);
        }
        let clock = Instant::now();
        match bench.unit_time(&*learner, TIMED * share) {
            Ok(seconds) => {
                (row.iteration_s, row.roots_per_s) = (Some(seconds), Some(searched / seconds));
                row.simulations_per_s = Some(searched * simulations as f64 / seconds);
            }
            Err(why) => return Ok(SearchCapacityRow { note: Some(why.to_string()), ..row }),
        }
        if row.iterations < ITERATIONS_LEAST {
            let all = format_count(search_timesteps(self.settings) as u64);
            row.note = Some(format!("only {} iterations in {all} timesteps", row.iterations));
            return Ok(row);
        }
        let left = (share - clock.elapsed().as_secs_f64()).max(0.5 * (1.0 - TIMED) * share);
        let most = first.map_or(left, |first| left.min((LOST.0 * first).max(LOST.1)));
        let own = searching(&market_settings(self.settings), roots, simulations);
        let PlantedMarket { source, splits, growth_bp } = self.market;
        let learner = own.train.learner.kind().learner(source, splits, &own, &bench.at.device)?;
        let member = MemberKey { config: 0, fold: splits.folds.len() - 1, seed: 0 };
        match bench.race(&*learner, member, REACH * growth_bp, most, search_timesteps(self.settings)) {
            Ok(Arrival::After(seconds)) => {
                row.planted_s = Some(seconds);
                *first = Some(first.map_or(seconds, |first| first.min(seconds)));
            }
            Ok(Arrival::Not(note)) => row.note = Some(note),
            Err(why) => row.note = Some(why.to_string()),
        }
        Ok(row)
    }
}

/// Whether a pair can be taken: it was timed, and leaves iterations enough.
fn is_open(row: &SearchCapacityRow) -> bool {
    row.roots_per_s.is_some() && row.iterations >= ITERATIONS_LEAST
}

fn seconds(row: &SearchCapacityRow) -> f64 {
    row.planted_s.unwrap_or(f64::INFINITY)
}

/// Of pairs that arrive first the one with the fewest simulations, then the fewest roots; where none arrives, the
/// rule's, or else the one with the most simulations a second.
fn choose(rows: &[SearchCapacityRow], [roots, simulations]: [usize; 2]) -> Option<usize> {
    let open = || (0..rows.len()).filter(|at| is_open(&rows[*at]));
    let soonest = open().map(|at| seconds(&rows[at])).fold(f64::INFINITY, f64::min);
    if soonest.is_finite() {
        let near = open().filter(|at| seconds(&rows[*at]) <= AS_SOON * soonest);
        return near.min_by_key(|at| (rows[*at].simulations, rows[*at].roots));
    }
    let by_rule = open().find(|at| (rows[*at].roots, rows[*at].simulations) == (roots, simulations));
    let rate = |at: &usize| rows[*at].simulations_per_s.unwrap_or(0.0);
    by_rule.or_else(|| open().max_by(|a, b| rate(a).total_cmp(&rate(b))))
}

/// Why this pair, in a sentence.
fn why(rows: &[SearchCapacityRow], chosen: usize, target: f64) -> String {
    let own = &rows[chosen];
    let pair = |row: &SearchCapacityRow| {
        format!("{} roots with {} simulations", format_count(row.roots as u64), format_count(row.simulations as u64))
    };
    let Some(took) = own.planted_s else {
        return format!(
            "no pair reached {target:.2} bp a bar on the planted market in its time, so {} are kept, which the rule \
             takes; a larger <budget> waits longer",
            pair(own)
        );
    };
    let others = rows.iter().enumerate().filter(|(at, _)| *at != chosen);
    let next = others.filter_map(|(_, row)| Some((row, row.planted_s?))).min_by(|a, b| a.1.total_cmp(&b.1));
    let next = next.map_or(String::new(), |(row, time)| match time < took {
        true => format!("; {} take {:.2} times as long and cost more", pair(row), time / took),
        false => format!("; {} take {:.2} times as long", pair(row), time / took),
    });
    let faster = rows.iter().filter(|row| row.simulations_per_s > own.simulations_per_s);
    let rate = |row: &SearchCapacityRow| row.simulations_per_s.unwrap_or(0.0);
    let fastest = faster.max_by(|a, b| rate(a).total_cmp(&rate(b))).map_or(String::new(), |row| {
        let [more, less] = [row, own].map(|row| format_count(rate(row).round() as u64));
        format!(", though {} make more simulations a second ({more} against {less})", pair(row))
    });
    format!(
        "{} are the cheapest that reach {target:.2} bp a bar on the planted market within 10 % of the shortest time \
         ({}){next}{fastest}",
        pair(own),
        format_seconds(took)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roots, simulations, simulations a second and seconds to the return.
    fn rows(all: &[(usize, usize, f64, f64)]) -> Vec<SearchCapacityRow> {
        let some = |x: f64| (x > 0.0).then_some(x);
        let row = |(roots, simulations, rate, planted): &(usize, usize, f64, f64)| SearchCapacityRow {
            roots: *roots,
            simulations: *simulations,
            n_steps: SearchRule::steps(*roots),
            iterations: 32_768usize.div_ceil(roots * SearchRule::steps(*roots)),
            members_at_once: 4,
            memory_bytes: 1,
            roots_per_s: some(rate / *simulations as f64),
            simulations_per_s: some(*rate),
            iteration_s: some(1.0),
            planted_s: some(*planted),
            chosen: false,
            note: None,
        };
        all.iter().map(row).collect()
    }

    #[test]
    fn the_soonest_pair_is_chosen_and_not_the_best_rate() {
        let check = |all: &[(usize, usize, f64, f64)], wanted: Option<(usize, usize)>, part: &str| {
            let rows = rows(all);
            let chosen = choose(&rows, [64, 16]);
            assert_eq!(chosen.map(|at| (rows[at].roots, rows[at].simulations)), wanted, "{all:?}");
            let text = chosen.map_or(String::new(), |at| why(&rows, at, 3.9));
            assert!(text.contains(part), "{part}: {text}");
        };
        let fast = [(64, 8, 2e4, 6.0), (64, 16, 3e4, 4.0), (256, 32, 9e4, 8.0)];
        check(&fast, Some((64, 16)), "though 256 roots with 32 simulations make more simulations a second");
        // Within a tenth the cheaper is taken.
        check(&[(64, 8, 2e4, 4.2), (64, 16, 3e4, 4.0)], Some((64, 8)), "0.95 times as long and cost more");
        check(&[(32, 16, 2e4, 4.2), (64, 16, 3e4, 4.0)], Some((32, 16)), "the cheapest");
        // 4,096 roots leave four iterations.
        check(&[(64, 16, 3e4, 9.0), (4096, 16, 9e5, 1.0)], Some((64, 16)), "64 roots");
        // Nobody arrived: the rule's; without it the best rate.
        check(&[(16, 32, 9e4, 0.0), (64, 16, 3e4, 0.0)], Some((64, 16)), "which the rule takes");
        check(&[(16, 32, 9e4, 0.0), (16, 8, 3e4, 0.0)], Some((16, 32)), "no pair reached");
        check(&[(64, 16, 0.0, 0.0)], None, "");
    }

    #[test]
    fn pairs_begin_with_the_rules() {
        let cpu = Opened::Cpu { threads: 2 };
        let all = pairs(&cpu, [64, 16]);
        assert_eq!((all[0], all.len()), ((64, 16), 15));
        let own = pairs(&cpu, [48, 5]);
        assert_eq!((own[0], own.len()), ((48, 5), 16));
    }
}
