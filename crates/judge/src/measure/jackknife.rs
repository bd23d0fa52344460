//! How sure a figure of counts is: blocks of days are left out in turn (Quenouille 1956, Tukey 1958).
//!
//! Days hang together and labels reach over several of them, so the unit is a block of days. With `B` blocks, `θ` the
//! figure of all and `θ_i` the one without block `i`:
//!
//! ```text
//! error² = Σ (θ_i - mean of θ_i)² / (1 - r/(3·L))
//! interval = θ ± t(0.975, B - 1)·error        p = 1 - T(θ/error, B - 1)
//! ```
//!
//! `r` is how many days a label stays open and `L` the length of a block. Labels that overlap tie a block to its
//! neighbours: with overlap falling evenly over `r` days the variance of a block's mean is short of the true one by
//! `r/(3L)`, which the divisor gives back. Student's t instead of the normal distribution counts that few blocks tell
//! little about their own spread. The usual factor `(B - 1)/B` is left out: a figure of counts is no mean, guesses hang
//! together over more than a block, and with it ten blocks cover 0 in 92 of 100 null markets.

use super::{Confusion, Interval};
use files::{Error, Result};
use random::student;
use serde::{Deserialize, Serialize};

/// Days of a block at least.
pub const WEEK: usize = 5;

/// Blocks that an interval takes at least.
pub const LEAST_BLOCKS: usize = 10;

/// A figure with what is known of its error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Of all days.
    pub point: f64,
    /// Its standard error.
    pub error: f64,
    /// 95 % interval.
    pub interval: Interval,
    /// How likely a figure at least as large is where the true one is 0.
    pub p: f64,
    /// Blocks that were left out in turn.
    pub blocks: usize,
}

/// In how many blocks `days` are cut whose labels stay open for `reach` days: of at least a week and of three times the
/// reach, or of twice or once the reach where that would leave fewer than [`LEAST_BLOCKS`]. `None` where even that
/// does.
pub fn blocks(days: usize, reach: usize) -> Option<usize> {
    [3, 2, 1].iter().map(|times| days / (times * reach).max(WEEK)).find(|blocks| *blocks >= LEAST_BLOCKS)
}

/// The estimate of a figure over days, each a matrix; `reach` is how many days a label stays open. `None` where days
/// make fewer than [`LEAST_BLOCKS`] blocks.
///
/// # Errors
///
/// Where days have different numbers of classes or together too many samples.
pub fn estimate(days: &[Confusion], reach: usize, figure: impl Fn(&Confusion) -> f64) -> Result<Option<Estimate>> {
    let Some(blocks) = blocks(days.len(), reach) else { return Ok(None) };
    let classes = days[0].classes();
    if days.iter().any(|day| day.classes() != classes) {
        return Err(Error::input("matrices of different numbers of classes cannot be judged together"));
    }
    let sum = |of: &[Confusion]| -> Result<Confusion> {
        let mut all = Confusion::new(classes, vec![0; classes * classes])?;
        of.iter().try_for_each(|day| all.add(day))?;
        Ok(all)
    };
    let border = |block: usize| days.len() * block / blocks;
    let parts = (0..blocks).map(|b| sum(&days[border(b)..border(b + 1)])).collect::<Result<Vec<Confusion>>>()?;
    let all = sum(&parts)?;
    let without = |part: &Confusion| {
        let rest = all.counts().iter().zip(part.counts()).map(|(all, own)| all - own).collect();
        Confusion::new(classes, rest).map(|rest| figure(&rest))
    };
    let left = parts.iter().map(without).collect::<Result<Vec<f64>>>()?;
    Ok(Some(from_left_out(figure(&all), &left, reach as f64 * blocks as f64 / days.len() as f64)))
}

/// From the figure of all and those without a block each; `overlap` is the reach of a label over the length of a block.
fn from_left_out(point: f64, left: &[f64], overlap: f64) -> Estimate {
    let n = left.len() as f64;
    let mean = left.iter().sum::<f64>() / n;
    let squares: f64 = left.iter().map(|x| (x - mean) * (x - mean)).sum();
    let error = (squares / (1.0 - overlap.min(1.0) / 3.0)).sqrt();
    let half = student::quantile(0.975, left.len() - 1) * error;
    // A figure that no block changes is not uncertain: it is 0, or it is not.
    let p = match error > 0.0 {
        true => student::cdf(-point / error, left.len() - 1),
        false => f64::from(u8::from(point <= 0.0)),
    };
    let interval = Interval { point, low: point - half, high: point + half };
    Estimate { point, error, interval, p, blocks: left.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix;
    use random::normal::quantile;

    #[test]
    fn blocks_are_long_where_there_are_days_enough() {
        // Weeks; three, two and one times the reach; then none.
        assert_eq!([blocks(60, 1), blocks(50, 1), blocks(49, 1)], [Some(12), Some(10), None]);
        assert_eq!([blocks(600, 20), blocks(599, 20), blocks(399, 20)], [Some(10), Some(14), Some(19)]);
        assert_eq!([blocks(200, 20), blocks(199, 20), blocks(0, 0)], [Some(10), None, None]);
    }

    /// Days of one sample each of labels that look `reach` days ahead, and guesses that stay for a while.
    fn null_days(seed: u64, days: usize, reach: usize) -> Vec<Confusion> {
        let mut random = SplitMix::new(seed);
        let mut normal = || quantile(random.unit().clamp(1e-9, 1.0 - 1e-9));
        let returns: Vec<f64> = (0..days + reach).map(|_| normal()).collect();
        let mut state = 0.0;
        (0..days)
            .map(|day| {
                state = 0.9 * state + normal();
                let up = returns[day..day + reach].iter().sum::<f64>() > 0.0;
                let (truth, guess) = (u8::from(up), u8::from(state > 0.0));
                Confusion::count(2, &[truth], &[guess]).unwrap()
            })
            .collect()
    }

    #[test]
    fn intervals_cover_what_is_not_there() {
        // 400 markets each without anything to find: an interval of 95 % holds 0 in about 380 of them, and at most 7 %
        // are above it at 5 %.
        for (days, reach) in [(260, 20), (400, 20), (700, 20), (120, 1), (250, 5)] {
            let (mut covered, mut above) = (0, 0);
            for seed in 0..400 {
                let found = estimate(&null_days(seed, days, reach), reach, Confusion::mcc).unwrap().unwrap();
                covered += usize::from(found.interval.low <= 0.0 && found.interval.high >= 0.0);
                above += usize::from(found.p <= 0.05);
            }
            assert!((368..=393).contains(&covered), "{days} days, {reach} ahead: {covered} of 400 cover 0");
            assert!(above <= 28, "{days} days, {reach} ahead: {above} of 400 above 0");
        }
    }

    #[test]
    fn a_figure_without_error_is_certain() {
        let right = vec![Confusion::count(2, &[0, 1], &[0, 1]).unwrap(); 60];
        let found = estimate(&right, 1, Confusion::mcc).unwrap().unwrap();
        assert_eq!((found.point, found.error, found.p, found.blocks), (1.0, 0.0, 0.0, 12));
        let never = vec![Confusion::count(2, &[0, 1], &[0, 0]).unwrap(); 60];
        assert_eq!(estimate(&never, 1, Confusion::mcc).unwrap().unwrap().p, 1.0);
        let mut mixed = right;
        mixed.push(Confusion::count(3, &[0], &[0]).unwrap());
        assert!(estimate(&mixed, 1, Confusion::mcc).is_err());
    }
}
