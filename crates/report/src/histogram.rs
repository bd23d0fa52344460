//! A distribution, with the normal curve of the same mean and deviation over it.

use crate::chart::{Frame, Scale, WIDTH, format_tooltip};
use std::fmt::Write;

/// A histogram of values; the tails beyond 5 robust deviations are counted in the outermost columns.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// What it shows.
    pub title: String,
    /// Of the values, under the axis.
    pub unit: String,
    /// Any order; those that are not finite are left out.
    pub values: Vec<f64>,
}

impl Histogram {
    pub(crate) fn html(&self) -> String {
        const COLUMNS: usize = 61;
        let mut sorted: Vec<f64> = self.values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len().max(1) as f64;
        let mean = sorted.iter().map(|v| v / n).sum::<f64>();
        let sd = sorted.iter().map(|v| (v - mean) * ((v - mean) / n)).sum::<f64>().sqrt();
        let quantile = |q: f64| sorted.get(((n - 1.0) * q) as usize).copied().unwrap_or(0.0);
        // A quarter to three quarters is 1.35 deviations of a normal law, and no outlier moves it.
        let robust = (quantile(0.75) - quantile(0.25)) / 1.349;
        let reach = 5.0
            * if robust > 0.0 {
                robust
            } else if sd > 0.0 {
                sd
            } else {
                1.0
            };
        let (lo, hi) = ((mean - reach).max(quantile(0.0)), (mean + reach).min(quantile(1.0)));
        let x = Scale::exact(lo, hi);
        let mut counts = [0u64; COLUMNS];
        for v in &sorted {
            counts[((x.at(*v) * COLUMNS as f64) as i64).clamp(0, COLUMNS as i64 - 1) as usize] += 1;
        }
        let (height, step) = (260.0, WIDTH / COLUMNS as f64);
        let wide = (hi - lo).max(f64::MIN_POSITIVE) / COLUMNS as f64;
        let normal =
            |v: f64| if sd > 0.0 { n * wide / sd / 2.506_628 * (-0.5 * ((v - mean) / sd).powi(2)).exp() } else { 0.0 };
        let y = Scale::from_zero(counts.iter().map(|c| *c as f64).chain([normal(mean)]));
        let mut marks = String::new();
        for (i, count) in counts.iter().enumerate().filter(|c| *c.1 > 0) {
            let from = lo + wide * i as f64;
            let tall = (y.at(*count as f64) * height).max(0.7);
            let _ = write!(
                marks,
                "<rect class=\"fill s0\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{} to {}: {count}</title></rect>",
                i as f64 * step + step * 0.06,
                height - tall,
                step * 0.88,
                format_tooltip(from),
                format_tooltip(from + wide)
            );
        }
        if sd > 0.0 {
            let mut path = String::new();
            for i in 0..=100 {
                let at = f64::from(i) / 100.0;
                let v = normal(lo + at * (hi - lo));
                let _ =
                    write!(path, "{}{:.0} {:.1}", if i == 0 { "M" } else { "L" }, at * WIDTH, (1.0 - y.at(v)) * height);
            }
            let _ = write!(marks, "<path class=\"line s1\" d=\"{path}\"/>");
        }
        Frame {
            title: &self.title,
            alt_text: format!(
                "{}: {} values, mean {}, standard deviation {}",
                self.title,
                sorted.len(),
                format_tooltip(mean),
                format_tooltip(sd)
            ),
            legend: vec![("seen", "s0".into()), ("normal", "s1".into())],
            height,
            y,
            unit: &self.unit,
            x: x.ticks(6).into_iter().map(|(v, label)| (x.at(v), label)).collect(),
            marks,
            data: String::new(),
        }
        .html()
    }
}
