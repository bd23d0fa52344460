//! The probability of backtest overfitting, by combinatorially symmetric cross-validation (Bailey, Borwein, López de
//! Prado and Zhu 2015).
//!
//! The days are cut into 16 blocks. For each of the 12,870 ways to take half of them, the config with the best Sharpe
//! ratio inside that half is looked up in the other half. Choosing overfits where it ranks no better than the middle
//! there; the probability is the share of such halves. Columns are configs (the mean over their seeds) on common days.
//!
//! A half's ratio needs two sums of each config. They are kept for every subset of the first eight blocks and of the
//! last eight, so that a half is two additions and not a walk over its days. Halves are independent and come back in
//! order: the figures do not depend on threads.

use crate::deflated::check_columns;
use crate::performance::NO_DEVIATION;
use files::Result;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Below this many configs the question does not apply.
pub const LEAST_CONFIGS: usize = 10;

/// Blocks of days; fewer days than this cannot be judged.
pub const BLOCKS: usize = 16;

/// Subsets of half of the blocks.
const SUBSETS: usize = 1 << (BLOCKS / 2);

/// How much of what a choice among configs found was in the choosing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overfitting {
    /// Configs among which was chosen.
    pub configs: usize,
    /// Days that were used: a multiple of 16, the last ones.
    pub days: usize,
    /// The share of halves whose best config ranks in the lower half of the other: 0.5 where choosing is worth nothing.
    pub probability: f64,
    /// Slope of the chosen config's ratio in the other half on its ratio in its own: how much of it lasts; null where
    /// the latter does not vary.
    pub slope: Option<f64>,
    /// The share of halves whose best config loses in the other.
    pub loss_probability: f64,
}

/// Judges the choice among configs by their daily net returns, `[configs][days]`. `None` below [`LEAST_CONFIGS`]
/// configs or [`BLOCKS`] days.
///
/// # Errors
///
/// Where configs have different numbers of days, or a return is not finite.
pub fn overfitting(configs: &[&[f64]]) -> Result<Option<Overfitting>> {
    let days = check_columns(configs)?;
    let block = days / BLOCKS;
    if configs.len() < LEAST_CONFIGS || block == 0 {
        return Ok(None);
    }
    let used = block * BLOCKS;
    let sums = Sums::new(configs, days - used, block);
    let halves: Vec<u16> = (0..=u16::MAX).filter(|half| half.count_ones() as usize == BLOCKS / 2).collect();
    let choices: Vec<Choice> = halves
        .par_iter()
        .with_min_len(64)
        .map_init(|| [vec![0.0; configs.len()], vec![0.0; configs.len()]], |ratios, half| sums.choose(*half, ratios))
        .collect();

    let share = |of: fn(&Choice) -> bool| choices.iter().filter(|c| of(c)).count() as f64 / choices.len() as f64;
    let mean = |of: fn(&Choice) -> f64| choices.iter().map(of).sum::<f64>() / choices.len() as f64;
    let (inside, outside) = (mean(|c| c.inside), mean(|c| c.outside));
    let variance: f64 = choices.iter().map(|c| (c.inside - inside).powi(2)).sum();
    let covariance: f64 = choices.iter().map(|c| (c.inside - inside) * (c.outside - outside)).sum();
    Ok(Some(Overfitting {
        configs: configs.len(),
        days: used,
        probability: share(|c| c.overfits),
        slope: (variance > 1e-24).then(|| covariance / variance),
        loss_probability: share(|c| c.outside < 0.0),
    }))
}

/// The config that was best in one half.
struct Choice {
    /// Its ratio there.
    inside: f64,
    /// Its ratio in the other half.
    outside: f64,
    /// Whether it ranks there no better than the middle.
    overfits: bool,
}

/// Sums of returns over subsets of blocks.
struct Sums {
    /// `[configs]` mean over all days: what is summed are differences to it, so that squares do not cancel.
    means: Vec<f64>,
    /// `[side, subset, config]` sum and sum of squares, of the first eight blocks and of the last.
    sums: Vec<[f64; 2]>,
    /// Days of a half.
    days: f64,
}

impl Sums {
    /// Of the days behind the first `skipped`, `block` in each block.
    fn new(configs: &[&[f64]], skipped: usize, block: usize) -> Sums {
        let n = configs.len();
        let mut sums = vec![[0.0; 2]; 2 * SUBSETS * n];
        let mut means = Vec::with_capacity(n);
        for (at, config) in configs.iter().enumerate() {
            let used = &config[skipped..];
            let mean = used.iter().sum::<f64>() / used.len() as f64;
            means.push(mean);
            let blocks: Vec<[f64; 2]> = used
                .chunks_exact(block)
                .map(|days| {
                    days.iter().fold([0.0; 2], |[sum, squares], r| [sum + (r - mean), squares + (r - mean).powi(2)])
                })
                .collect();
            for (side, blocks) in blocks.chunks_exact(BLOCKS / 2).enumerate() {
                for subset in 1..SUBSETS {
                    // A subset is the one without its first block, and that block.
                    let place = |subset: usize| (side * SUBSETS + subset) * n + at;
                    let (rest, added) = (sums[place(subset & (subset - 1))], blocks[subset.trailing_zeros() as usize]);
                    sums[place(subset)] = [rest[0] + added[0], rest[1] + added[1]];
                }
            }
        }
        Sums { means, sums, days: (block * BLOCKS / 2) as f64 }
    }

    /// The best config of a half, the first of equals, and its place in the other half.
    fn choose(&self, half: u16, [inside, outside]: &mut [Vec<f64>; 2]) -> Choice {
        self.ratios(half, inside);
        self.ratios(!half, outside);
        let best = (1..inside.len()).fold(0, |best, n| if inside[n] > inside[best] { n } else { best });
        let at = outside[best];
        let below = outside.iter().filter(|x| **x < at).count();
        let equal = outside.iter().filter(|x| **x == at).count();
        // Equals share the mean of their ranks: ω = (below + (equal + 1)/2) / (N + 1), and ln(ω/(1 - ω)) ≤ 0 where
        // ω ≤ 1/2.
        Choice { inside: inside[best], outside: at, overfits: 2 * below + equal <= outside.len() }
    }

    /// Sharpe ratio of a day of every config in a half; 0 where its returns do not vary, as those of one that never
    /// trades.
    fn ratios(&self, half: u16, into: &mut [f64]) {
        let n = self.means.len();
        let row = |side: usize, subset: u16| &self.sums[(side * SUBSETS + usize::from(subset)) * n..][..n];
        let (low, high) = (row(0, half & 0xff), row(1, half >> 8));
        for (ratio, ((low, high), mean)) in into.iter_mut().zip(low.iter().zip(high).zip(&self.means)) {
            let (sum, squares) = (low[0] + high[0], low[1] + high[1]);
            let spread = squares - sum * sum / self.days;
            let deviation = (spread.max(0.0) / (self.days - 1.0)).sqrt();
            // What rounding leaves of a difference of equal sums is no spread.
            let varies = deviation > NO_DEVIATION && spread > 1e-13 * squares;
            *ratio = if varies { (mean + sum / self.days) / deviation } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix;
    use random::normal::quantile;

    /// Normal returns, `[configs][days]`; config `k` earns `edge[k]` deviations a day.
    fn market(seed: u64, days: usize, edges: &[f64]) -> Vec<Vec<f64>> {
        let mut random = SplitMix::new(seed);
        let mut normal = || quantile(random.unit().clamp(1e-9, 1.0 - 1e-9));
        edges.iter().map(|edge| (0..days).map(|_| 0.01 * (edge + normal())).collect()).collect()
    }

    fn judge(configs: &[Vec<f64>]) -> Option<Overfitting> {
        overfitting(&configs.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
    }

    /// The definition, day by day.
    fn slow(configs: &[Vec<f64>]) -> (f64, f64, f64) {
        let days = configs[0].len();
        let (block, n) = (days / 16, configs.len());
        let ratio = |config: &[f64], half: u16| {
            let taken: Vec<f64> = (0..16 * block)
                .filter(|day| half >> (day / block) & 1 == 1)
                .map(|day| config[days - 16 * block + day])
                .collect();
            let mean = taken.iter().sum::<f64>() / taken.len() as f64;
            mean / (taken.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (taken.len() - 1) as f64).sqrt()
        };
        let mut found = Vec::new();
        for half in (0..=u16::MAX).filter(|half| half.count_ones() == 8) {
            let inside: Vec<f64> = configs.iter().map(|config| ratio(config, half)).collect();
            let outside: Vec<f64> = configs.iter().map(|config| ratio(config, !half)).collect();
            let best = (0..n).max_by(|a, b| inside[*a].total_cmp(&inside[*b])).unwrap();
            let rank = 1 + outside.iter().filter(|x| **x < outside[best]).count();
            let omega = rank as f64 / (n + 1) as f64;
            found.push((inside[best], outside[best], (omega / (1.0 - omega)).ln()));
        }
        assert_eq!(found.len(), 12_870);
        let count = found.len() as f64;
        let (x, y) = (found.iter().map(|f| f.0).sum::<f64>() / count, found.iter().map(|f| f.1).sum::<f64>() / count);
        let slope = found.iter().map(|f| (f.0 - x) * (f.1 - y)).sum::<f64>()
            / found.iter().map(|f| (f.0 - x).powi(2)).sum::<f64>();
        let share = |of: &dyn Fn(&(f64, f64, f64)) -> bool| found.iter().filter(|f| of(f)).count() as f64 / count;
        (share(&|f| f.2 <= 0.0), slope, share(&|f| f.1 < 0.0))
    }

    #[test]
    fn block_sums_agree_with_days() {
        // 5 days more than 16 blocks of 4: they are dropped from the start.
        let configs = market(5, 69, &[0.0, 0.1, -0.1, 0.05, 0.0, 0.02, 0.2, 0.0, -0.05, 0.0, 0.0]);
        let found = judge(&configs).unwrap();
        let (probability, slope, loss) = slow(&configs);
        assert_eq!((found.configs, found.days), (11, 64));
        assert!((found.probability - probability).abs() < 1e-12, "{found:?}, not {probability}");
        assert!((found.slope.unwrap() - slope).abs() < 1e-9 && (found.loss_probability - loss).abs() < 1e-12);
        assert!(found.probability > 0.05 && found.probability < 0.95, "the case should tell: {found:?}");
    }

    #[test]
    fn skill_lasts_and_luck_does_not() {
        let mut edges = [0.0; 20];
        let luck: f64 = (0..8).map(|seed| judge(&market(seed, 320, &edges)).unwrap().probability).sum::<f64>() / 8.0;
        assert!((0.3..0.75).contains(&luck), "{luck}");
        edges[7] = 0.5;
        let skill = judge(&market(1, 320, &edges)).unwrap();
        assert!(skill.probability < 0.01 && skill.loss_probability < 0.01, "{skill:?}");
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let configs = market(2, 160, &[0.01; 30]);
        let of = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| judge(&configs).unwrap())
        };
        let bits = |o: Overfitting| (o.probability.to_bits(), o.slope.map(f64::to_bits), o.loss_probability.to_bits());
        assert_eq!(bits(of(1)), bits(of(3)));
    }

    #[test]
    fn edges_are_defined() {
        assert_eq!(judge(&market(1, 160, &[0.0; 9])), None);
        assert_eq!(judge(&market(1, 15, &[0.0; 12])), None);
        assert_eq!(judge(&[]), None);
        assert!(judge(&market(1, 16, &[0.0; 12])).is_some(), "one day a block");
        // Equal configs rank in the middle, and choosing among them is worth nothing.
        let one = market(4, 64, &[0.1]);
        let same = judge(&vec![one[0].clone(); 12]).unwrap();
        assert_eq!((same.probability, same.loss_probability < 1.0), (1.0, true));
        // Configs that never trade neither win nor lose.
        let flat = judge(&vec![vec![0.0; 64]; 12]).unwrap();
        assert_eq!((flat.probability, flat.slope, flat.loss_probability), (1.0, None, 0.0));
        assert!(overfitting(&[&[0.0, 1.0], &[0.0]]).is_err());
        assert!(overfitting(&[&[0.0, f64::NAN]]).is_err());
    }
}
