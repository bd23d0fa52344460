//! Series over time, thinned to their extremes per pixel.

use crate::chart::{Frame, Scale, WIDTH};
use crate::clock;
use std::fmt::Write;

/// Series over one time axis.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// Equal ratios look equal; ignored where a value is not above zero.
    pub log: bool,
    /// Up to eight have colours of their own.
    pub series: Vec<Line>,
}

/// One series.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// For the legend.
    pub name: String,
    /// `[n]` nanoseconds since 1970, rising.
    pub time: Vec<i64>,
    /// `[n]`; NaN breaks the line.
    pub value: Vec<f64>,
}

impl Lines {
    pub(crate) fn html(&self) -> String {
        let times = || self.series.iter().flat_map(|s| s.time.first().into_iter().chain(s.time.last())).copied();
        let (t0, t1) = (times().min().unwrap_or(0), times().max().unwrap_or(1));
        let span = (t1.saturating_sub(t0)).max(1) as f64;
        let y = Scale::around(self.series.iter().flat_map(|s| s.value.iter().copied()), self.log);
        let height = 260.0;
        let mut marks = String::new();
        for (i, line) in self.series.iter().enumerate() {
            let mut path = String::new();
            let mut down = false;
            for (at, value) in thin(&line.time, &line.value, t0, span) {
                let v = y.at(value);
                if !v.is_finite() {
                    down = false;
                    continue;
                }
                let _ = write!(path, "{}{:.1} {:.1}", if down { "L" } else { "M" }, at * WIDTH, (1.0 - v) * height);
                down = true;
            }
            let _ = write!(
                marks,
                "<path class=\"line s{}\" data-name=\"{}\" d=\"{path}\"/>",
                i % 8,
                crate::html::escape(&line.name)
            );
        }
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        Frame {
            title: &self.title,
            alt_text: format!("{}: {}, from {} to {}", self.title, names.join(", "), clock::show(t0), clock::show(t1)),
            legend: self.series.iter().enumerate().map(|(i, s)| (s.name.as_str(), format!("s{}", i % 8))).collect(),
            height,
            y,
            unit: &self.unit,
            x: clock::ticks(t0, t1, 6).into_iter().map(|(t, l)| ((t - t0) as f64 / span, l)).collect(),
            marks,
            // Milliseconds, because a script's numbers end at 2^53.
            data: format!(" data-t0=\"{}\" data-t1=\"{}\"", t0 / 1_000_000, t1 / 1_000_000),
        }
        .html()
    }
}

/// First, lowest, highest and last point of each pixel column, in their order, as (`0..1`, value).
fn thin(time: &[i64], value: &[f64], t0: i64, span: f64) -> Vec<(f64, f64)> {
    let points = time.iter().zip(value).map(|(t, v)| (t.saturating_sub(t0) as f64 / span, *v));
    let n = time.len().min(value.len());
    if n <= 2 * WIDTH as usize {
        return points.collect();
    }
    let points: Vec<(f64, f64)> = points.collect();
    let mut kept = Vec::with_capacity(4 * WIDTH as usize);
    for column in points.chunk_by(|a, b| (a.0 * WIDTH) as i64 == (b.0 * WIDTH) as i64) {
        let by = |pick: fn(f64, f64) -> bool| {
            (0..column.len())
                .filter(|&i| column[i].1.is_finite())
                .reduce(|a, b| if pick(column[b].1, column[a].1) { b } else { a })
        };
        let mut few = [Some(0), by(|a, b| a < b), by(|a, b| a > b), Some(column.len() - 1)];
        few.sort();
        let mut last = None;
        for i in few.into_iter().flatten() {
            if last != Some(i) {
                kept.push(column[i]);
                last = Some(i);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_million_points_are_thinned_and_keep_the_spike() {
        let n = 500_000;
        let time: Vec<i64> = (0..n).map(|i| i * 60_000_000_000).collect();
        let mut value: Vec<f64> = (0..n).map(|i| 100.0 + (i as f64 * 0.001).sin()).collect();
        value[123_456] = 1e6;
        value[400_001] = -1e6;
        value[300_000] = f64::NAN;
        let thinned = thin(&time, &value, 0, (n * 60_000_000_000) as f64);
        assert!(thinned.len() <= 4 * 1001, "{}", thinned.len());
        assert!(thinned.iter().any(|p| p.1 == 1e6) && thinned.iter().any(|p| p.1 == -1e6));
        assert!(thinned.windows(2).all(|w| w[0].0 <= w[1].0));
        let lines = Lines { series: vec![Line { name: "x".into(), time, value }], ..Lines::default() };
        assert!(lines.html().len() < 80_000);
    }

    #[test]
    fn nothing_and_one_point() {
        for n in [0, 1, 2] {
            let line = Line { name: "x".into(), time: vec![5; n], value: vec![1.0; n] };
            assert!(Lines { series: vec![line], ..Lines::default() }.html().contains("<svg"));
        }
        assert!(!Lines::default().html().contains("NaN"));
    }
}
