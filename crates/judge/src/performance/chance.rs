//! Where equity would have gone by chance: the same days, their mean taken out, drawn in blocks.

use super::mean;
use random::{SplitMix, mix};
use serde::{Deserialize, Serialize};

/// What chance gives, day by day: 95 % of the paths lie between the two. 1 is the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChanceBand {
    /// `[days]`
    pub low: Vec<f64>,
    /// `[days]`
    pub high: Vec<f64>,
}

/// Neighbouring days that are drawn together.
const BLOCK: usize = 10;
const DRAWS: usize = 400;

impl ChanceBand {
    /// The band of daily returns; none below 20 days and where returns do not vary. Same returns, same bits.
    pub fn new(returns: &[f64]) -> Option<ChanceBand> {
        let days = returns.len();
        if days < 20 || returns.iter().all(|r| *r == returns[0]) {
            return None;
        }
        let middle = mean(returns);
        let mut paths = vec![1.0; DRAWS * days]; // [days, DRAWS]
        for draw in 0..DRAWS {
            let mut random = SplitMix::new(mix(!(draw as u64)));
            let (mut growth, mut start) = (1.0, 0);
            for day in 0..days {
                if day % BLOCK == 0 {
                    start = random.below(days);
                }
                growth *= (1.0 + returns[(start + day % BLOCK) % days] - middle).max(0.0);
                paths[day * DRAWS + draw] = growth;
            }
        }
        let (mut low, mut high) = (Vec::with_capacity(days), Vec::with_capacity(days));
        for day in paths.chunks_exact_mut(DRAWS) {
            day.sort_by(f64::total_cmp);
            low.push(day[DRAWS / 40]);
            high.push(day[DRAWS - 1 - DRAWS / 40]);
        }
        Some(ChanceBand { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_spreads_with_the_root_of_time_and_knows_no_drift() {
        let mut random = SplitMix::new(3);
        let returns: Vec<f64> = (0..1000).map(|_| 0.01 + 0.02 * (random.unit() - 0.5)).collect();
        let band = ChanceBand::new(&returns).expect("a band");
        // The deviation of a day is 0.02/√12; of the sum of n days √n of that, and 1.96 of it to either side.
        for day in [249, 999] {
            let wide = 1.96 * 0.02 / 12f64.sqrt() * ((day + 1) as f64).sqrt();
            let (low, high) = (band.low[day].ln(), band.high[day].ln());
            assert!((low + wide).abs() < 0.25 * wide && (high - wide).abs() < 0.25 * wide, "{low} {high} {wide}");
        }
        assert_eq!(ChanceBand::new(&returns), Some(band));
        assert_eq!(ChanceBand::new(&[0.0; 300]), None);
        assert_eq!(ChanceBand::new(&returns[..19]), None);
    }
}
