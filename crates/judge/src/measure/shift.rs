//! What guesses are worth by chance: the same guesses at other times (docs/method.md, Measures: baselines).
//!
//! Guesses are shifted around in time as a whole, the last following the first, so that they are as often up and stay
//! up for as long as before; only what they knew of the moment is gone. A correlation that most shifts reach is none.

use super::Confusion;
use super::bootstrap::quantile;
use files::{Error, Kind, Result};
use random::{SplitMix, mix};
use serde::{Deserialize, Serialize};

/// What the shifts gave, in directional Matthews correlation ([`Confusion::directional_mcc`]; 0 where there is none).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShiftTest {
    /// Of the guesses as they are.
    pub point: f64,
    /// Number of shifts.
    pub draws: usize,
    /// Their mean.
    pub mean: f64,
    /// Nineteen of twenty lie below.
    pub high: f64,
    /// How often chance is at least as good: `(1 + shifts that are) / (1 + shifts)`.
    pub p: f64,
}

/// Shifts the guesses of one symbol, `[n]` in the order of time, by at least `least` samples (the reach of a label)
/// either way.
///
/// # Errors
///
/// Where there are fewer than `2 × least + 2` samples, no draws, or classes other than two or three.
pub fn shift_test(
    classes: usize,
    truth: &[u8],
    guessed: &[u8],
    least: usize,
    draws: usize,
    seed: u64,
) -> Result<ShiftTest> {
    let n = truth.len();
    let least = least.max(1);
    if n < least.saturating_mul(2).saturating_add(2) || draws == 0 {
        let what = format!("{n} samples cannot be shifted by at least {least}, {draws} times");
        return Err(Error::new(Kind::Usage, what).remedy("more samples, and 1000 draws"));
    }
    let value = |guessed: &[u8]| -> Result<f64> {
        let both = Confusion::count(classes, truth, guessed)?.directional();
        // A shift at which truth and guess never both have a direction shows none: it counts as 0.
        both.map(|both| both.mcc()).ok_or_else(|| Error::input(format!("{classes} classes have no direction")))
    };
    let point = value(guessed)?;
    // Written twice in a row, every shift is a slice.
    let twice = [guessed, guessed].concat();
    let mut all = Vec::with_capacity(draws);
    for draw in 0..draws {
        let mut random = SplitMix::new(mix(seed) ^ mix(!(draw as u64)));
        let by = least + random.below(n - 2 * least + 1);
        all.push(value(&twice[by..by + n])?);
    }
    let reached = all.iter().filter(|x| **x >= point).count();
    let mean = all.iter().sum::<f64>() / draws as f64;
    all.sort_by(f64::total_cmp);
    Ok(ShiftTest { point, draws, mean, high: quantile(&all, 0.95), p: (1 + reached) as f64 / (1 + draws) as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of ups and downs that stays for a while, and guesses that know it or do not.
    fn chain(seed: u64, n: usize) -> Vec<u8> {
        let mut random = SplitMix::new(seed);
        let mut state = 0;
        let step = |_| {
            if random.below(10) == 0 {
                state = 2 - state;
            }
            state
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn shift_test_separates_informed_from_random_guesses() {
        let truth = chain(1, 4000);
        let mut random = SplitMix::new(9);
        let noisy: Vec<u8> = truth.iter().map(|t| if random.below(5) == 0 { 2 - t } else { *t }).collect();
        let knows = shift_test(3, &truth, &noisy, 1, 500, 7).expect("enough");
        assert!(knows.point > 0.5 && knows.p < 0.003 && knows.mean.abs() < 0.05, "{knows:?}");
        // A chain of its own is no better than its own shifts, though it stays up as long as the truth does.
        let other = shift_test(3, &truth, &chain(2, 4000), 1, 500, 7).expect("enough");
        assert!(other.p > 0.02, "{other:?}");
        assert_eq!(shift_test(3, &truth, &noisy, 1, 500, 7), Ok(knows), "same seed, same bits");
    }

    #[test]
    fn too_few_samples_are_refused() {
        assert!(shift_test(3, &[0, 2, 0], &[0, 2, 0], 1, 10, 1).is_err());
        assert!(shift_test(3, &[0, 2, 0, 2], &[0, 2, 0, 2], 1, 0, 1).is_err());
        assert!(shift_test(4, &[0, 2, 0, 2], &[0, 2, 0, 2], 1, 10, 1).is_err());
        assert!(shift_test(3, &[0, 2, 0, 2], &[0, 2, 0], 1, 10, 1).is_err());
        // Nothing but flat is no mistake: it has no direction, and neither have its shifts.
        assert_eq!(shift_test(3, &[0, 2, 0, 2], &[1; 4], 1, 10, 1).map(|s| (s.point, s.p)), Ok((0.0, 1.0)));
        assert_eq!(shift_test(2, &[0, 1, 0, 1], &[0, 1, 0, 1], 1, 10, 1).map(|s| s.point), Ok(1.0));
    }
}
