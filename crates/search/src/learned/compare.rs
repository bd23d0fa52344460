//! Which of the two models predicts better, on rows that neither was fitted to.
//!
//! Both are fitted to the first three quarters of the training part. From rows of the last quarter each draws paths, as
//! a search draws them: what is scored is what is used. The scores are those of the next move and of the move over a
//! horizon, in deviations known beforehand: CRPS, and the share of outcomes inside the central 80 % of what was drawn
//! (the coverage of the probability integral transform). Standard errors are those of paired differences of blocks of
//! time, so neighbours that move together count once.

use super::Learned;
use super::fitted::FittedModel;
use crate::bootstrap::{Bootstrap, Rows, Sorted, outcome};
use crate::market::{InfoSet, MarketModel};
use crate::world::{Draws, path_behind, root_path};
use compute::Result;

/// Share of the clock times that fits.
const FIT_SHARE: f64 = 0.75;
/// Draws of the next bar, and how many of them go on to the horizon. Of the 200 and the 50 ranks that an outcome can
/// have among them, four fifths are central.
const DRAWS: usize = 199;
const PATHS: usize = 49;
const CENTRAL: f64 = 0.8;
/// Roots at most.
const ROOTS: usize = 800;
/// Blocks of time, at most and at least; none is shorter than the horizon.
const BLOCKS: usize = 20;
const LEAST_BLOCKS: usize = 6;
/// Bars of a horizon that are scored, at most.
const MOST_BARS: usize = 32;
const SEED: u64 = 0xc0de_5c0e;
/// Numbers of a comparison.
const NUMBERS: usize = 16;

/// What a model's forecasts of rows held out are worth.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Forecast {
    /// Mean CRPS of the next move; smaller is better.
    pub crps: f64,
    /// Share of next moves inside the central 80 %.
    pub coverage: f64,
    /// Mean CRPS of the move over the horizon.
    pub crps_ahead: f64,
    /// Share of moves over the horizon inside the central 80 %.
    pub coverage_ahead: f64,
}

/// Both models on the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Comparison {
    /// The bootstrap's.
    pub bootstrap: Forecast,
    /// The learned model's.
    pub learned: Forecast,
    /// Standard errors of the four differences.
    pub errors: Forecast,
    /// Whether the learned model found anything that tells what comes; without, it is not better.
    pub found: bool,
    /// Bars of the horizon.
    pub horizon: u32,
    /// Rows held out.
    pub roots: u32,
    /// Blocks of time that they make.
    pub blocks: u32,
}

impl Comparison {
    /// How many numbers it is.
    pub const NUMBERS: usize = NUMBERS;

    /// Whether the learned model is to be used: its next moves score better by more than a standard error, its moves
    /// over the horizon not worse by more than one, and neither coverage is further from 80 % than the bootstrap's by
    /// more than two, which is as near as two models of the same coverage nearly always come.
    pub fn learned_is_better(&self) -> bool {
        let Comparison { bootstrap, learned, errors, found, .. } = *self;
        let off = |coverage: f64| (coverage - CENTRAL).abs();
        let covers = |learned: f64, bootstrap: f64, error: f64| off(learned) <= off(bootstrap) + 2.0 * error;
        found
            && bootstrap.crps - learned.crps > errors.crps
            && learned.crps_ahead - bootstrap.crps_ahead <= errors.crps_ahead
            && covers(learned.coverage, bootstrap.coverage, errors.coverage)
            && covers(learned.coverage_ahead, bootstrap.coverage_ahead, errors.coverage_ahead)
    }

    /// All of it as numbers.
    pub fn numbers(&self) -> [f64; NUMBERS] {
        let of = |own: &Forecast| [own.crps, own.coverage, own.crps_ahead, own.coverage_ahead];
        let [a, b, c] = [of(&self.bootstrap), of(&self.learned), of(&self.errors)];
        let counts = [self.horizon, self.roots, self.blocks, u32::from(self.found)].map(f64::from);
        std::array::from_fn(|i| if i < 12 { [a, b, c][i / 4][i % 4] } else { counts[i - 12] })
    }

    /// From such numbers.
    pub fn from_numbers(numbers: [f64; NUMBERS]) -> Comparison {
        let of = |at: usize| Forecast {
            crps: numbers[at],
            coverage: numbers[at + 1],
            crps_ahead: numbers[at + 2],
            coverage_ahead: numbers[at + 3],
        };
        let [horizon, roots, blocks] = [12, 13, 14].map(|at| numbers[at] as u32);
        let found = numbers[15] != 0.0;
        Comparison { bootstrap: of(0), learned: of(4), errors: of(8), found, horizon, roots, blocks }
    }
}

/// Compares the models on rows; none where they are too few.
pub(super) fn compare(rows: &Rows, horizon: usize) -> Result<Option<Comparison>> {
    let horizon = horizon.clamp(1, MOST_BARS);
    let clock = |row: &u32| rows.row(*row).clock;
    let before = rows.predecessors();
    let Some((first, last)) = before.iter().map(clock).min().zip(before.iter().map(clock).max()) else {
        return Ok(None);
    };
    let end = first + (f64::from(last - first) * FIT_SHARE) as u32;
    let fit = || Rows::cut(rows.observations(), rows.features(), rows.all(), |row| row.clock <= end);
    let held = held_out(rows, &before, horizon, end);
    let span = last.saturating_sub(end) as usize;
    let blocks = (span / horizon).min(BLOCKS);
    if blocks < LEAST_BLOCKS || held.is_empty() {
        return Ok(None);
    }
    // One after the other: each has a copy of its rows.
    let score = |model: FittedModel| held.iter().map(|row| scored(&model, rows, *row, horizon)).collect::<Vec<_>>();
    let Ok(learned) = fit().and_then(Learned::new) else { return Ok(None) };
    let found = learned.knows_something();
    let of_learned = score(FittedModel::Learned(learned));
    let Ok(bootstrap) = fit().and_then(Bootstrap::new) else { return Ok(None) };
    let scores = [score(FittedModel::Bootstrap(bootstrap)), of_learned];
    // The blocks' mean differences, by which errors are counted.
    let block = |row: &u32| (((clock(row) - end - 1) as usize * blocks) / span.max(1)).min(blocks - 1);
    let mut sums = vec![([0.0; 4], 0u32); blocks];
    for (at, row) in held.iter().enumerate() {
        let (own, count) = &mut sums[block(row)];
        (0..4).for_each(|i| own[i] += scores[1][at][i] - scores[0][at][i]);
        *count += 1;
    }
    let means: Vec<[f64; 4]> =
        sums.iter().filter(|(_, n)| *n > 0).map(|(own, n)| own.map(|x| x / f64::from(*n))).collect();
    if means.len() < LEAST_BLOCKS {
        return Ok(None);
    }
    let mean = |own: &[[f64; 4]], i: usize| own.iter().map(|x| x[i]).sum::<f64>() / own.len() as f64;
    let error = |i: usize| {
        let (middle, n) = (mean(&means, i), means.len() as f64);
        (means.iter().map(|x| (x[i] - middle).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt()
    };
    let forecast =
        |of: &dyn Fn(usize) -> f64| Forecast { crps: of(0), coverage: of(1), crps_ahead: of(2), coverage_ahead: of(3) };
    Ok(Some(Comparison {
        bootstrap: forecast(&|i| mean(&scores[0], i)),
        learned: forecast(&|i| mean(&scores[1], i)),
        errors: forecast(&error),
        found,
        horizon: horizon as u32,
        roots: held.len() as u32,
        blocks: means.len() as u32,
    }))
}

/// Rows behind the end of the fit with a whole horizon behind them, evenly spread.
fn held_out(rows: &Rows, before: &[u32], horizon: usize, end: u32) -> Vec<u32> {
    let whole = |at: &usize| {
        let (row, last) = (before[*at], before.get(at + horizon - 1));
        rows.row(row).clock > end && last == Some(&(row + horizon as u32 - 1))
    };
    let all: Vec<u32> = (0..before.len()).filter(whole).map(|at| before[at]).collect();
    let count = all.len().min(ROOTS);
    (0..count).map(|i| all[i * all.len() / count]).collect()
}

/// CRPS and coverage of the next move, then those of the horizon.
fn scored(model: &FittedModel, rows: &Rows, row: u32, horizon: usize) -> [f64; 4] {
    let bar = rows.row(row).bar;
    let params = account::Params::default();
    let known = InfoSet {
        observation: rows.observation(row).to_vec(),
        bar,
        time: rows.row(row).time,
        account: account::Account::new(&params),
        params,
        excluded: 0..0,
    };
    let path = root_path(u64::from(row));
    let (mut first, mut next) = (Vec::with_capacity(DRAWS), Vec::new());
    model.draw(&known, &model.root(&known), Draws::new(SEED, path), DRAWS, &mut first);
    let deviation = if bar.sigma > 0.0 { bar.sigma } else { 1.0 };
    let moved = |close: f64| (close / bar.close - 1.0) / deviation;
    let one = Sorted::new(first.iter().map(|chance| moved(model.bar(&chance.market).close)));
    let ahead: Vec<f64> = first
        .iter()
        .take(PATHS)
        .enumerate()
        .map(|(number, chance)| {
            let (mut state, mut path) = (chance.market, path_behind(path, number as u32));
            for _ in 1..horizon {
                next.clear();
                model.draw(&known, &state, Draws::new(SEED, path), 1, &mut next);
                state = next[0].market;
                path = path_behind(path, 0);
            }
            moved(model.bar(&state).close)
        })
        .collect();
    let grown = |row: u32| {
        let (now, next) = (&rows.row(row).bar, &rows.row(row + 1).bar);
        next.close * next.split / now.close
    };
    let real = (row..row + horizon as u32).map(grown).product::<f64>();
    // In deviations of the whole horizon, so that both scores have one scale.
    let root = (horizon as f64).sqrt();
    let far = Sorted::new(ahead.into_iter().map(|x| x / root));
    let (y, y_far) = (outcome(rows, row), (real - 1.0) / deviation / root);
    let inside = |sorted: &Sorted, y: f64| f64::from(u8::from((0.1..=0.9).contains(&sorted.below(y))));
    [one.crps(y), inside(&one, y), far.crps(y_far), inside(&far, y_far)]
}
