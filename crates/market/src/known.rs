//! What is known at a close and sizes or prices the next order: volatility and usual volume.
//!
//! **Row t depends on bars up to t alone.**

use bars::{Bars, VolumeKind};
use std::collections::HashMap;

/// Bars over which σ forgets, as in labels.
const SPAN: f64 = 100.0;

/// `[n]` deviation of one bar's return; 0 where it is not known yet.
pub(crate) fn sigma(bars: &Bars) -> Vec<f64> {
    let mut borders: Vec<usize> = bars.segments.clone();
    borders.push(bars.len());
    let runs: Vec<_> = borders.windows(2).map(|pair| pair[0]..pair[1]).filter(|run| !run.is_empty()).collect();
    let mut sigma = features::labels::sigma(&bars.close, &runs, SPAN);
    sigma.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
    sigma
}

/// Values of one time of day that the median is taken of.
const DAYS: usize = 20;
/// Fewer than these give no median.
const LEAST: usize = 5;

/// `[n]` usual volume of the next bar in units: the median of the last 20 bars at the time of day that followed the
/// row's own last; 0 where it is not known or volume does not count units.
pub(crate) fn usual_volume(bars: &Bars) -> Vec<f64> {
    let counts = matches!(bars.instrument.volume, VolumeKind::Units | VolumeKind::Quote);
    if !counts || bars.volume.is_empty() {
        return vec![0.0; bars.len()];
    }
    // Bars of a day and longer have one time of day.
    let daily = bars.timeframe.is_daily_or_longer();
    let minutes = if daily { vec![0; bars.len()] } else { bars.instrument.session.clock_minutes(&bars.start) };
    let mut slots: HashMap<u16, Recent> = HashMap::new();
    let mut followed_by: HashMap<u16, u16> = HashMap::new();
    let mut before = None;
    let mut usual = Vec::with_capacity(bars.len());
    for (t, slot) in minutes.into_iter().enumerate() {
        if let Some(before) = before {
            followed_by.insert(before, slot);
        }
        before = Some(slot);
        let units = match bars.instrument.volume {
            VolumeKind::Quote => bars.volume[t] / (bars.close[t] * bars.instrument.multiplier),
            _ => bars.volume[t],
        };
        if units.is_finite() && units >= 0.0 {
            slots.entry(slot).or_default().push(units);
        }
        let next = followed_by.get(&slot).copied().unwrap_or(slot);
        usual.push(slots.get(&next).and_then(Recent::median).unwrap_or(0.0));
    }
    usual
}

/// The last values of a time of day, in order of time and of size.
#[derive(Debug, Clone, Default)]
struct Recent {
    in_time: Vec<f64>, // a ring
    at: usize,
    sorted: Vec<f64>,
}

impl Recent {
    fn push(&mut self, value: f64) {
        if self.in_time.len() < DAYS {
            self.in_time.push(value);
        } else {
            let gone = std::mem::replace(&mut self.in_time[self.at], value);
            self.at = (self.at + 1) % DAYS;
            self.sorted.remove(self.sorted.partition_point(|x| *x < gone));
        }
        self.sorted.insert(self.sorted.partition_point(|x| *x < value), value);
    }

    fn median(&self) -> Option<f64> {
        let n = self.sorted.len();
        (n >= LEAST).then(|| 0.5 * (self.sorted[(n - 1) / 2] + self.sorted[n / 2]))
    }
}
