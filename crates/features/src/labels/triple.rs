//! Triple barrier (López de Prado 2018, ch. 3): which of two prices is met first, within `h` bars.
//!
//! The barriers lie at `entry · exp(± max(k·σ_t·√h, 2·cost))`: as far as a usual move over the horizon, and never so
//! near that cost eats the prize. Bars `t+1 ..= t+h` are scanned; the first touch decides and is known at the end of
//! its bar. Both barriers inside one bar say nothing about their order: flat, and counted. An open beyond a barrier is
//! a touch of that barrier alone, because the price was there before it could be anywhere else. Untouched, the move is
//! measured at `open[t+1+h]`, and is flat unless it exceeds the cost and half the distance of the barrier: with the
//! cost alone hardly a bar of a day would be flat.
//!
//! `σ_t` is the root of the exponentially weighted mean of squared one-bar log returns of closes up to `t`, with
//! weights `(1 - α)^age`, normalised, `α = 2 / (span + 1)`, counted from the start of the run; below [`RETURNS`] of
//! them there is none.

use super::{Labeling, Mark, Path, Rule, round_trip_cost};
use bars::Bars;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Returns that σ needs.
pub(super) const RETURNS: usize = 20;

/// The label of row `t`; the caller sees to it that row `t + 1 + h` exists.
pub(super) fn mark(path: &Path, t: usize, h: usize, k: f64) -> Option<Mark> {
    let entry = path.open[t + 1];
    let sigma = path.sigma[t];
    if !sigma.is_finite() || !entry.is_finite() || entry <= 0.0 {
        return None;
    }
    let distance = distance(sigma, h, k, path.cost);
    let factor = distance.exp();
    let (upper, lower) = (entry * factor, entry / factor);
    // A price that stood still and costs nothing has barriers without width, which would be touched by standing still.
    if lower < entry && entry < upper {
        let [open, high, low] = [path.open, path.high, path.low].map(|column| &column[t + 1..=t + h]);
        if let Some(i) = first_beyond(open, high, low, upper, lower) {
            let last = t + 1 + i;
            let (class, both) = if open[i] >= upper {
                (1, false)
            } else if open[i] <= lower {
                (-1, false)
            } else {
                let (up, down) = (high[i] >= upper, low[i] <= lower);
                (i8::from(up) - i8::from(down), up && down)
            };
            return Some(Mark { class, last, t1: path.known[last], both });
        }
    }
    let class = path.settle(entry, t + 1 + h, path.cost.max(0.5 * distance))?;
    // Where bars overlap, the last one scanned may end after the next one opens.
    Some(Mark { class, last: t + h, t1: path.start[t + 1 + h].max(path.known[t + h]), both: false })
}

/// How far a barrier lies from the entry, as a log move.
fn distance(sigma: f64, h: usize, k: f64, cost: f64) -> f64 {
    (k * sigma * (h as f64).sqrt()).max(2.0 * cost)
}

/// The barriers of one symbol's label, for who leaves a position where its label was decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Barriers {
    /// Bars of the label.
    pub horizon: usize,
    /// Distance in standard deviations of a move over the horizon.
    pub width: f64,
    /// Bars over which σ forgets.
    pub span: f64,
    /// Of a round trip, as a log move; a barrier is at least twice as far away.
    pub cost: f64,
}

impl Barriers {
    /// Those of a label with this rule; `None` where it has none.
    pub fn new(labeling: &Labeling, rule: Rule, bars: &Bars) -> Option<Barriers> {
        let Rule::Triple { horizon, width } = rule else { return None };
        Some(Barriers { horizon, width, span: labeling.span, cost: round_trip_cost(labeling, bars) })
    }

    /// `[n]` how far both lie from the open behind each row, as a log move that is known at its close; NaN where there
    /// is no σ yet, or no distance.
    pub fn distances(&self, close: &[f64], runs: &[Range<usize>]) -> Vec<f64> {
        let mut all = sigma(close, runs, self.span);
        for x in &mut all {
            let far = distance(*x, self.horizon, self.width, self.cost);
            *x = if x.is_finite() && far > 0.0 { far } else { f64::NAN };
        }
        all
    }
}

/// The first bar that reaches a barrier. Bars are asked eight at a time, which the compiler turns into vectors.
fn first_beyond(open: &[f64], high: &[f64], low: &[f64], upper: f64, lower: f64) -> Option<usize> {
    // The open is asked too: a file that is kept as it is may open above its high.
    let beyond = |i: usize| (high[i] >= upper) | (low[i] <= lower) | (open[i] >= upper) | (open[i] <= lower);
    let n = open.len().min(high.len()).min(low.len());
    let mut from = 0;
    while from + 8 <= n && !(from..from + 8).fold(false, |any, i| any | beyond(i)) {
        from += 8;
    }
    (from..n).find(|i| beyond(*i))
}

/// `[n]` σ of each row: the deviation of one bar's return, weighted by `span`, from closes up to the row's own; NaN
/// where there are too few. Returns do not cross the borders of `runs`.
pub fn sigma(close: &[f64], runs: &[Range<usize>], span: f64) -> Vec<f64> {
    let keep = 1.0 - 2.0 / (span + 1.0);
    let mut sigma = vec![f64::NAN; close.len()];
    for run in runs {
        let (mut sum, mut weight, mut returns) = (0.0, 0.0, 0);
        for t in run.start + 1..run.end {
            let r = (close[t] / close[t - 1]).ln();
            if r.is_finite() {
                sum = keep * sum + r * r;
                weight = keep * weight + 1.0;
                returns += 1;
            } else {
                // No price above zero, no return: counting starts anew.
                (sum, weight, returns) = (0.0, 0.0, 0);
            }
            if returns >= RETURNS {
                sigma[t] = (sum / weight).sqrt();
            }
        }
    }
    sigma
}
