//! Which way a trend feature points: up where the price rose, or down, as `sma(20)/close - 1` does.
//!
//! On the rows that a market is fitted on, which are training rows of its fold, the sign of the feature is correlated
//! with the sign of the price's change over the bars before it, for several numbers of bars. The strongest correlation
//! that is no chance says which way. What has none, as a squared distance from an average, is no trend: its sign says
//! nothing of where the price went.

use search::Rows;

/// Bars over which a price changed.
const BARS: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
/// A weaker correlation is none. What a price is above its average reaches 0.6 and more over about as many bars; a
/// distance from it up to 0.3, where a price drifts.
const LEAST: f64 = 0.4;
/// So is one of fewer standard errors.
const ERRORS: f64 = 2.0;
/// A smaller change of a logarithm is a rounding error.
const UNCHANGED: f64 = 1e-9;

/// 1 where a column is above `zero` after a price rose, -1 where it is below; none where it shows no trend.
pub(super) fn orientation(rows: &Rows, column: usize, zero: f32) -> Option<f32> {
    let prices = log_prices(rows);
    let signs: Vec<f64> =
        rows.observations().chunks_exact(rows.features()).map(|row| sign(f64::from(row[column] - zero), 0.0)).collect();
    let of = |bars: usize| {
        let known = (bars..prices.len()).filter(|row| prices[*row].since >= bars);
        let pairs = known.map(|row| (signs[row], sign(prices[row].log - prices[row - bars].log, UNCHANGED)));
        let (correlation, count) = correlation(pairs)?;
        // Changes overlap: only every `bars` rows tell something new.
        let error = (bars as f64 / count as f64).sqrt();
        (correlation.abs() >= LEAST.max(ERRORS * error)).then_some(correlation)
    };
    let strongest = BARS.into_iter().filter_map(of).max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    Some(strongest.signum() as f32)
}

/// The logarithm of a price, splits taken out, and how many bars came before it without a gap.
struct LogPrice {
    log: f64,
    since: usize,
}

/// `[rows]`
fn log_prices(rows: &Rows) -> Vec<LogPrice> {
    let mut prices: Vec<LogPrice> = Vec::with_capacity(rows.len());
    for (at, row) in rows.all().iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &rows.all()[at]).filter(|before| before.continues);
        let change = before.map(|before| (row.bar.close * row.bar.split / before.bar.close).ln());
        let next = match (prices.last(), change) {
            (Some(last), Some(change)) if change.is_finite() => {
                LogPrice { log: last.log + change, since: last.since + 1 }
            }
            _ => LogPrice { log: 0.0, since: 0 },
        };
        prices.push(next);
    }
    prices
}

/// 1, -1, or 0 where it is as small as that or no number.
fn sign(x: f64, small: f64) -> f64 {
    if x > small {
        1.0
    } else if x < -small {
        -1.0
    } else {
        0.0
    }
}

/// The correlation of pairs, and how many there are; none where one of both never changes.
fn correlation(pairs: impl Iterator<Item = (f64, f64)>) -> Option<(f64, usize)> {
    let (mut n, mut sums) = (0usize, [0.0; 5]);
    for (x, y) in pairs {
        n += 1;
        sums.iter_mut().zip([x, y, x * x, y * y, x * y]).for_each(|(sum, add)| *sum += add);
    }
    let [x, y, xx, yy, xy] = sums.map(|sum| sum / n.max(1) as f64);
    let spread = (xx - x * x) * (yy - y * y);
    (spread > 0.0).then(|| ((xy - x * y) / spread.sqrt(), n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::Bar;
    use random::{SplitMix, normal};
    use search::TrainingRow;

    /// Closes that drift, with a split in the middle.
    fn closes(count: usize) -> Vec<f64> {
        let (mut random, mut close) = (SplitMix::new(5), 100.0f64);
        let mut next = || {
            close *= (0.0005 + 0.01 * normal::quantile(random.unit())).exp();
            close
        };
        (0..count).map(|_| next()).collect()
    }

    /// Rows of one symbol whose only column is made of the closes up to each.
    fn rows(closes: &[f64], split_at: usize, column: impl Fn(&[f64]) -> f64) -> Rows {
        let row = |at: usize| {
            let factor = if at < split_at { 1.0 } else { 0.1 };
            let bar = Bar { split: if at == split_at { 10.0 } else { 1.0 }, ..Bar::flat(factor * closes[at]) };
            TrainingRow { bar, time: [0.5, 0.0], clock: at as u32, continues: at + 1 < closes.len() }
        };
        let all: Vec<TrainingRow> = (0..closes.len()).map(row).collect();
        let observations: Vec<f32> = (0..closes.len()).map(|at| column(&closes[..=at]) as f32).collect();
        Rows::cut(&observations, 1, &all, |_| true).unwrap()
    }

    /// How far a close is above the mean of so many.
    fn above(closes: &[f64], bars: usize) -> f64 {
        let own = &closes[closes.len().saturating_sub(bars)..];
        closes[closes.len() - 1] / (own.iter().sum::<f64>() / own.len() as f64) - 1.0
    }

    #[test]
    fn a_feature_points_to_where_the_price_went() {
        let closes = closes(3000);
        let check = |wanted: Option<f32>, zero: f32, column: &dyn Fn(&[f64]) -> f64| {
            for split_at in [usize::MAX, 1500] {
                assert_eq!(orientation(&rows(&closes, split_at, column), 0, zero), wanted);
            }
        };
        for bars in [5, 20, 100] {
            check(Some(1.0), 0.0, &|closes| above(closes, bars));
            check(Some(-1.0), 0.0, &|closes| -above(closes, bars));
            // Scaled, it is nothing elsewhere.
            check(Some(-1.0), 2.0, &|closes| 2.0 - 30.0 * above(closes, bars));
            // The square of a distance, less than its usual size or more.
            check(None, 0.0, &|closes| above(closes, bars).powi(2) - 1e-4 * bars as f64 / 3.0);
        }
        check(None, 0.0, &|closes| (closes.len() * 7 % 11) as f64 - 5.0);
        check(None, 0.0, &|_| 1.0);
        check(None, 0.0, &|_| f64::NAN);
        // Too few rows tell nothing.
        assert_eq!(orientation(&rows(&closes[..12], 99, |closes| above(closes, 5)), 0, 0.0), None);
    }

    #[test]
    fn what_lies_across_a_gap_is_no_change() {
        let closes = closes(40);
        let mut all = rows(&closes, 99, |closes| above(closes, 5)).all().to_vec();
        all.iter_mut().for_each(|row| row.continues = row.clock % 4 != 3);
        let observations: Vec<f32> = vec![0.0; all.len()];
        let prices = log_prices(&Rows::cut(&observations, 1, &all, |_| true).unwrap());
        assert!(prices.iter().enumerate().all(|(at, price)| price.since == at % 4 && (at % 4 > 0 || price.log == 0.0)));
    }
}
