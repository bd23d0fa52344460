//! What volatility alone would guess (docs/method.md, Measures: baselines).
//!
//! How far the next move goes can be told to some degree, because volatility clusters; which way it goes cannot. A
//! label of three classes has both in it, so a correlation over all three may be made of nothing that could be traded.
//! [`VolatilityRule`] shows how much of it is: on one side of a threshold it says flat, on the other the direction that
//! was more frequent in training.

use super::Confusion;
use features::class::{DOWN, FLAT, UP};

/// Returns of the short and of the long deviation.
const SPANS: [usize; 2] = [20, 200];

/// Samples a rule is fitted on at most; more move the threshold by less than it matters.
const MOST: usize = 100_000;

/// Down, flat, up.
const CLASSES: usize = 3;

/// `[bars]` the deviation of the last 20 logarithmic returns at each close, and the same over that of the last 200,
/// which is 1 where nothing moved in either; NaN where there are not so many. `starts` are bars whose return is no
/// return, in order: the first, and whichever begin a segment. A price at or below zero has no return to it and none
/// from it: what follows begins anew.
pub fn volatility(close: &[f64], starts: &[usize]) -> Vec<[f32; 2]> {
    let mut sums: Vec<[f64; 2]> = Vec::with_capacity(close.len()); // of returns and of their squares, up to each bar
    let mut all = Vec::with_capacity(close.len());
    let (mut sum, mut begun) = ([0.0f64; 2], 0);
    let mut starts = starts.iter().copied().peekable();
    for (at, price) in close.iter().enumerate() {
        let starts_here = starts.next_if_eq(&at).is_some();
        let before = at.checked_sub(1).filter(|_| !starts_here).map(|before| close[before]);
        let one = before.filter(|before| *before > 0.0 && *price > 0.0).map(|before| (price / before).ln());
        match one.filter(|one| one.is_finite()) {
            Some(one) => sum = [sum[0] + one, sum[1] + one * one],
            None => (sum, begun) = ([0.0; 2], at),
        }
        sums.push(sum);
        let deviation = |span: usize| {
            let from = at.checked_sub(span).filter(|from| *from >= begun)?;
            let [mean, square] = [0, 1].map(|i| (sum[i] - sums[from][i]) / span as f64);
            // Rounding may leave a hair below nothing.
            Some((square - mean * mean).max(0.0).sqrt())
        };
        let [short, long] = SPANS.map(|span| deviation(span).unwrap_or(f64::NAN));
        all.push([short as f32, if long == 0.0 { 1.0 } else { (short / long) as f32 }]);
    }
    all
}

/// A guess by volatility alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolatilityRule {
    /// Which of the two figures.
    by: usize,
    /// The threshold.
    at: f32,
    /// Whether it says flat below it, or above.
    flat_below: bool,
    /// What it says on the other side.
    way: u8,
}

impl VolatilityRule {
    /// The rule with the best correlation on training samples, among nine thresholds of each figure; the first of
    /// equals. None where there is nothing to tell apart.
    pub fn fit(values: &[[f32; 2]], truth: &[u8]) -> Option<VolatilityRule> {
        let known = |(v, _): &(&[f32; 2], &u8)| v.iter().all(|x| x.is_finite());
        let step = values.len().div_ceil(MOST).max(1);
        let samples: Vec<([f32; 2], u8)> =
            values.iter().zip(truth).step_by(step).filter(known).map(|(v, t)| (*v, *t)).collect();
        let count = |class: u8| samples.iter().filter(|s| s.1 == class).count();
        let way = if count(UP) > count(DOWN) { UP } else { DOWN };
        let mut best: Option<(f64, VolatilityRule)> = None;
        for by in 0..2 {
            let mut sorted: Vec<f32> = samples.iter().map(|s| s.0[by]).collect();
            sorted.sort_by(f32::total_cmp);
            for tenth in 1..10 {
                let Some(at) = sorted.get(sorted.len() * tenth / 10).copied() else { continue };
                for flat_below in [true, false] {
                    let rule = VolatilityRule { by, at, flat_below, way };
                    let mut counts = vec![0u64; CLASSES * CLASSES];
                    for (values, truth) in &samples {
                        counts[usize::from(*truth) * CLASSES + usize::from(rule.side(*values))] += 1;
                    }
                    let mcc = Confusion::new(CLASSES, counts).map_or(0.0, |c| c.mcc());
                    if best.as_ref().is_none_or(|(most, _)| mcc > *most) {
                        best = Some((mcc, rule));
                    }
                }
            }
        }
        best.map(|(_, rule)| rule)
    }

    /// The class it says; none where volatility is not known.
    pub fn guess(&self, values: [f32; 2]) -> Option<u8> {
        values.iter().all(|x| x.is_finite()).then(|| self.side(values))
    }

    fn side(&self, values: [f32; 2]) -> u8 {
        if (values[self.by] < self.at) == self.flat_below { FLAT } else { self.way }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::{SplitMix, mix};

    /// Prices whose steps are large for a while and small for a while, up or down by chance.
    fn prices(n: usize, seed: u64) -> Vec<f64> {
        let mut draw = SplitMix::new(mix(seed));
        let mut price = 100.0f64;
        let mut one = |bar: usize| {
            let size = if (bar / 300).is_multiple_of(2) { 1e-4 } else { 1e-2 };
            let sign = if draw.bits() >> 63 == 1 { 1.0 } else { -1.0 };
            price *= 1.0 + sign * size;
            price
        };
        (0..n).map(&mut one).collect()
    }

    #[test]
    fn deviations_are_those_of_the_last_returns_and_cross_no_border() {
        let close = prices(900, 3);
        let all = volatility(&close, &[0, 500]);
        let plain = |at: usize, span: usize| {
            let returns: Vec<f64> = (at + 1 - span..=at).map(|i| (close[i] / close[i - 1]).ln()).collect();
            let mean = returns.iter().sum::<f64>() / span as f64;
            (returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / span as f64).sqrt()
        };
        for at in [20, 250, 480, 499, 520, 700, 899] {
            assert!((f64::from(all[at][0]) - plain(at, 20)).abs() < 1e-9, "{at}");
        }
        assert!((f64::from(all[480][1]) - plain(480, 20) / plain(480, 200)).abs() < 1e-6);
        // 20 returns need 21 bars of one segment.
        let known: Vec<usize> = (0..900).filter(|i| all[*i][0].is_finite()).collect();
        assert_eq!(known, (20..500).chain(520..900).collect::<Vec<_>>());
        assert!(all[520..700].iter().all(|v| v[1].is_nan()) && all[700][1].is_finite());
    }

    #[test]
    fn constant_prices_are_flat() {
        // A day on which nothing moves, between two that do.
        let mut close = prices(900, 3);
        let flat = close[300];
        close[300..560].fill(flat);
        let all = volatility(&close, &[0]);
        assert!(all[200..].iter().all(|v| v.iter().all(|x| x.is_finite())), "no sample is left out");
        assert_eq!((all[400][0], all[400][1], all[559]), (0.0, 0.0, [0.0, 1.0]));
        // Flat labels where nothing moves: the rule says so there as well.
        let truth: Vec<u8> = (0..900).map(|at| if (320..560).contains(&at) { 1 } else { 2 }).collect();
        let rule = VolatilityRule::fit(&all, &truth).unwrap();
        assert_eq!([all[400], all[559], all[700]].map(|v| rule.guess(v)), [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn a_negative_price_restarts_the_window_only() {
        for bad in [0.0, -3.0, f64::NAN] {
            let mut close = prices(900, 3);
            close[300] = bad;
            let all = volatility(&close, &[0]);
            // The returns to it and from it are gone; 20 later ones are known at bar 321.
            let known: Vec<usize> = (0..900).filter(|i| all[*i][0].is_finite()).collect();
            assert_eq!(known, (20..300).chain(321..900).collect::<Vec<_>>(), "{bad}");
            assert_eq!(all[521..], volatility(&close[301..], &[0])[220..], "{bad}");
        }
        // Two of them in a row have a ratio, but no return.
        let mut close = prices(60, 3);
        close[20..40].fill(-3.0);
        assert!(volatility(&close, &[0])[20..60].iter().all(|v| v[0].is_nan()));
    }

    #[test]
    fn volatility_finds_flat_bars_but_no_direction() {
        let close = prices(12_000, 5);
        let values = volatility(&close, &[0]);
        let truth = |at: usize| {
            let next: f64 = (close[at + 1] / close[at]).ln();
            if next.abs() < 1e-3 { 1 } else { [0, 2][usize::from(next > 0.0)] }
        };
        let truth: Vec<u8> = (0..11_999).map(truth).collect();
        let rule = VolatilityRule::fit(&values[..6000], &truth[..6000]).unwrap();
        let pairs: Vec<(u8, u8)> = (6000..11_999).filter_map(|at| Some((truth[at], rule.guess(values[at])?))).collect();
        let (truth, guessed): (Vec<u8>, Vec<u8>) = pairs.into_iter().unzip();
        let confusion = Confusion::count(3, &truth, &guessed).unwrap();
        assert!(confusion.mcc() > 0.4, "{}", confusion.mcc());
        // One direction for all: no correlation with which way it went.
        assert!(confusion.directional_mcc().is_none_or(|m| m.abs() < 1e-9));
        assert_eq!(VolatilityRule::fit(&[[f32::NAN; 2]; 5], &[0; 5]), None);
        assert_eq!(rule.guess([f32::NAN, 1.0]), None);
    }
}
