//! Open, high, low, close; bars stand side by side, so nights and weekends take no room.

use crate::chart::{Frame, Scale, WIDTH, format_tooltip};
use crate::clock;
use std::fmt::Write;

/// A candlestick chart; more than 240 bars are joined into wider candles.
#[derive(Debug, Clone, Default)]
pub struct Candles {
    /// What it shows.
    pub title: String,
    /// Of the prices.
    pub unit: String,
    /// `[n]` nanoseconds since 1970, rising.
    pub time: Vec<i64>,
    /// `[n]`
    pub open: Vec<f64>,
    /// `[n]`
    pub high: Vec<f64>,
    /// `[n]`
    pub low: Vec<f64>,
    /// `[n]`
    pub close: Vec<f64>,
}

impl Candles {
    pub(crate) fn html(&self) -> String {
        let n = [self.open.len(), self.high.len(), self.low.len(), self.close.len()]
            .into_iter()
            .fold(self.time.len(), usize::min);
        let each = n.div_ceil(240).max(1);
        let groups = n.div_ceil(each);
        let y = Scale::around(self.low[..n].iter().chain(&self.high[..n]).copied(), false);
        let (height, step) = (260.0, WIDTH / groups.max(1) as f64);
        let place = |v: f64| (1.0 - y.at(v)) * height;
        let mut marks = String::new();
        for (i, from) in (0..n).step_by(each).enumerate() {
            let to = (from + each).min(n);
            let (open, close) = (self.open[from], self.close[to - 1]);
            let high = self.high[from..to].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let low = self.low[from..to].iter().copied().fold(f64::INFINITY, f64::min);
            if ![open, high, low, close].iter().all(|v| v.is_finite()) {
                continue;
            }
            let (x, class) = ((i as f64 + 0.5) * step, if close >= open { "up" } else { "down" });
            let (top, bottom) = (place(open.max(close)), place(open.min(close)));
            let _ = write!(
                marks,
                "<g class=\"{class}\"><title>{}  open {} high {} low {} close {}</title>\
                 <path class=\"wick\" d=\"M{x:.1} {:.1}V{:.1}\"/><rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></g>",
                clock::show(self.time[from]),
                format_tooltip(open),
                format_tooltip(high),
                format_tooltip(low),
                format_tooltip(close),
                place(high),
                place(low),
                x - step * 0.34,
                step * 0.68,
                (bottom - top).max(1.0),
            );
        }
        Frame {
            title: &self.title,
            alt_text: match n {
                0 => format!("{}: no bars", self.title),
                n => format!(
                    "{}: {n} bars from {} to {}",
                    self.title,
                    clock::show(self.time[0]),
                    clock::show(self.time[n - 1])
                ),
            },
            legend: Vec::new(),
            height,
            y,
            unit: &self.unit,
            x: self.labels(n),
            marks,
            data: String::new(),
        }
        .html()
    }

    /// Dates under the first bars of a round day or hour: about six.
    fn labels(&self, n: usize) -> Vec<(f64, String)> {
        let (Some(&t0), Some(&t1)) = (self.time.first(), self.time[..n].last()) else { return Vec::new() };
        let ticks = clock::ticks(t0, t1, 6);
        let at = |t: i64| self.time[..n].partition_point(|&s| s < t) as f64 / n as f64;
        let mut labels: Vec<(f64, String)> = Vec::new();
        for (t, label) in ticks {
            let x = at(t) + 0.5 / n as f64;
            // Nights and weekends take no room, so two round instants may fall on one bar: the later one is its own.
            if labels.last().is_some_and(|last| x - last.0 < 0.07) {
                labels.pop();
            }
            labels.push((x, label));
        }
        labels
    }
}
