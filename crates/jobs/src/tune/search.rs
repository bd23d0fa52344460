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
use super::capacity::{Arrival, Limits, PlantedMarket, market_settings, soonest};
use crate::Settings;
use crate::kinds::{SearchRule, search_timesteps};
use crate::progress::{Sink, Update, check_stop};
use crate::train::Source;
use compute::Opened;
use files::{Result, format_count, format_seconds};
use judge::split::Splits;
use learn::{Learner, MemberKey};
use machine::Tuner;
use serde::Serialize;

/// The roots and the simulations of the table; a card has use for more roots.
const ROOTS: [usize; 5] = [16, 32, 64, 128, 256];
const ON_CARD: [usize; 5] = [64, 128, 256, 1024, 4096];
const SIMULATIONS: [usize; 3] = [8, 16, 32];
/// Bars of the planted market: its validation is short beside an iteration.
const BARS: usize = 6_000;
/// Up to this share of the time pairs are tried; the rest is for members at once.
const UNTIL: f64 = 0.9;
/// The planted market is waited for so many seconds at least.
const LOST_S: f64 = 2.0;
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
        let why = why(&rows, best, market.target_bp());

        let SearchCapacityRow { roots, simulations, n_steps, roots_per_s, .. } = rows[best].clone();
        self.learner = self.searcher(source, splits, &settings, roots, simulations)?;
        let (others, members_at_once) = self.members(tuner, roots_per_s.unwrap_or(1.0), roots * n_steps, sink)?;
        let SearchRule { scenarios, horizon, .. } = SearchRule::of(&settings);
        let search = SearchCapacity {
            timesteps: search_timesteps(&settings),
            scenarios,
            horizon,
            planted_growth_bp: market.growth_bp,
            target_growth_bp: market.target_bp(),
            rows,
        };
        let recipe = TunedRecipe::new(&self.config().recipe, members_at_once);
        let (n_envs, n_steps, simulations) = (Some(roots), Some(n_steps), Some(simulations));
        let recipe = TunedRecipe { n_envs, n_steps, roots: n_envs, simulations, ..recipe };
        Ok(Found { search: Some(search), ..Found::new(recipe, why, others) })
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
            let share = self.bench.share(UNTIL, pairs.len() - at);
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
        let (n_steps, timesteps) = (SearchRule::steps(roots), search_timesteps(self.settings));
        let (searched, iterations) = ((roots * n_steps) as f64, timesteps.div_ceil(roots * n_steps));
        // One iteration that warms up and one that counts.
        let expected = rate.map_or(0.0, |rate| 2.0 * searched * simulations as f64 / rate);
        let limits = Limits { share, expected, lost_s: LOST_S, units: "iterations", row: "pair" };
        let timed = bench.time_shape(&*learner, &limits, first, |most, _| {
            if iterations < ITERATIONS_LEAST {
                let all = format_count(timesteps as u64);
                return Ok(Arrival::Not(format!("only {iterations} iterations in {all} timesteps")));
            }
            let PlantedMarket { source, splits, .. } = self.market;
            let learner = bench.searcher(source, splits, &market_settings(self.settings), roots, simulations)?;
            let member = MemberKey { config: 0, fold: splits.folds.len() - 1, seed: 0 };
            bench.race(&*learner, member, self.market.target_bp(), most, timesteps)
        })?;
        Ok(SearchCapacityRow {
            roots,
            simulations,
            n_steps,
            iterations,
            members_at_once: timed.members_at_once,
            memory_bytes: timed.memory_bytes,
            roots_per_s: timed.unit_s.map(|seconds| searched / seconds),
            simulations_per_s: timed.unit_s.map(|seconds| searched * simulations as f64 / seconds),
            iteration_s: timed.unit_s,
            planted_s: timed.planted_s,
            chosen: false,
            note: timed.note,
        })
    }
}

/// Of pairs that arrive first the one with the fewest simulations, then the fewest roots; where none arrives, the
/// rule's, or else the one with the most simulations a second.
fn choose(rows: &[SearchCapacityRow], [roots, simulations]: [usize; 2]) -> Option<usize> {
    let is_open = |row: &SearchCapacityRow| row.roots_per_s.is_some() && row.iterations >= ITERATIONS_LEAST;
    let open = || (0..rows.len()).filter(|at| is_open(&rows[*at]));
    let near = soonest(open().map(|at| (at, rows[at].planted_s)));
    if !near.is_empty() {
        return near.into_iter().min_by_key(|at| (rows[*at].simulations, rows[*at].roots));
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
