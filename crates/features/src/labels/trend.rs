//! Trend scanning (López de Prado 2020): the sign of the clearest straight line that starts at the entry.
//!
//! For every length `L` from a quarter of the longest (at least 5) to the longest, a line is fitted through the
//! logarithms of `open[t+1 ..= t+1+L]`; the one whose slope has the largest |t| is taken. The class is the sign of its
//! slope where |t| ≥ 2 and the move over those `L` bars goes that way by more than the round-trip cost, else flat: a
//! fall and a long recovery that does not make up for it is a line that rises, and a loss to whoever bought. Whichever
//! line won, the choice has looked at all of them: the label is known at the open that ends the longest.

use super::rule::SHORTEST;
use super::{Mark, Path};

/// The lines of a longest length, ready to be fitted.
pub(super) struct Scan {
    longest: usize,
    shortest: usize,
    /// `[longest + 1]` for `n = x + 1` points: `1 / n`, and `1 / Σ (x - mean)²`.
    inverse: Vec<[f64; 2]>,
}

/// The line with the largest |t|.
pub(super) struct Line {
    /// Its last point, from 0.
    length: usize,
    /// t-value of its slope, squared.
    pub(super) t_squared: f64,
    /// Sign of its slope.
    sign: i8,
}

impl Scan {
    pub(super) fn new(longest: usize) -> Scan {
        let inverse = (1..=longest + 1).map(|n| n as f64).map(|n| [1.0 / n, 12.0 / (n * (n * n - 1.0))]).collect();
        Scan { longest, shortest: (longest / 4).max(SHORTEST), inverse }
    }

    /// The label of row `t`; the caller sees to it that row `t + 1 + longest` exists.
    pub(super) fn mark(&self, path: &Path, t: usize) -> Option<Mark> {
        let log = &path.log_open[t + 1..=t + 1 + self.longest];
        let line = self.clearest(log)?;
        let moved = log[line.length] - log[0];
        let class = if line.t_squared >= 4.0 && f64::from(line.sign) * moved > path.cost { line.sign } else { 0 };
        Some(Mark { class, last: t + self.longest, t1: path.start[t + 1 + self.longest], both: false })
    }

    /// Grows the line point by point (`log` is `[longest + 1]`); the shortest of equals wins. `None` where a point is
    /// no number.
    ///
    /// Sums of squares are kept around the running means (Welford), so that nothing is lost by subtracting large from
    /// large.
    pub(super) fn clearest(&self, log: &[f64]) -> Option<Line> {
        let mut best = Line { length: self.shortest, t_squared: 0.0, sign: 0 };
        let (mut mean, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for (x, (log_x, [inverse_n, inverse_xx])) in log.iter().zip(&self.inverse).enumerate().skip(1) {
            let n = (x + 1) as f64;
            let y = log_x - log[0];
            let step = y - mean;
            mean += step * inverse_n;
            yy += step * (y - mean);
            xy += 0.5 * n * (y - mean); // x less the mean of the x before it is n / 2
            if x >= self.shortest {
                let explained = xy * xy * inverse_xx;
                // A line through all points leaves nothing but rounding; the floor keeps its t finite.
                let rest = (yy - explained).max(1e-12 * yy);
                let t_squared = explained * (n - 2.0) / rest;
                if t_squared > best.t_squared {
                    best = Line { length: x, t_squared, sign: if xy > 0.0 { 1 } else { -1 } };
                }
            }
        }
        mean.is_finite().then_some(best)
    }
}
