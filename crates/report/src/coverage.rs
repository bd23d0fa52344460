//! What is there and what is missing, one strip a symbol over one time axis.

use crate::clock;
use crate::html::escape;
use std::fmt::Write;

/// A timeline of coverage.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// What it shows.
    pub title: String,
    /// One line each, in this order.
    pub strips: Vec<Strip>,
}

/// One symbol's line.
#[derive(Debug, Clone, Default)]
pub struct Strip {
    /// Shown at the left.
    pub name: String,
    /// Stretches with data, `[from, to)` in nanoseconds.
    pub present: Vec<(i64, i64)>,
    /// Stretches where data should be and is not.
    pub missing: Vec<(i64, i64)>,
    /// Moments to point at, each with its tooltip.
    pub marks: Vec<(i64, String)>,
    /// Shown at the right: `99.2 %`.
    pub figure: String,
}

impl Coverage {
    pub(crate) fn html(&self) -> String {
        let spans = || self.strips.iter().flat_map(|s| s.present.iter().chain(&s.missing));
        let (t0, t1) = (spans().map(|s| s.0).min().unwrap_or(0), spans().map(|s| s.1).max().unwrap_or(1));
        let at = |t: i64| t.saturating_sub(t0) as f64 / t1.saturating_sub(t0).max(1) as f64 * 100.0;
        let mut html = format!(
            "<figure class=\"chart coverage\"><figcaption><b>{}</b><span class=\"key there\"><i></i>there</span>\
             <span class=\"key gone\"><i></i>missing</span></figcaption>",
            escape(&self.title)
        );
        for strip in &self.strips {
            let mut marks = String::new();
            for (class, list) in [("there", &strip.present), ("gone", &strip.missing)] {
                for (from, to) in list {
                    let _ = write!(
                        marks,
                        "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{}\" width=\"{:.2}%\" height=\"{}\"><title>{} to {}</title></rect>",
                        at(*from),
                        if class == "there" { 4 } else { 1 },
                        // A hole of an hour in six years must still be seen.
                        (at(*to) - at(*from)).max(if class == "there" { 0.05 } else { 0.35 }),
                        if class == "there" { 8 } else { 14 },
                        clock::show(*from),
                        clock::show(*to)
                    );
                }
            }
            for (t, text) in &strip.marks {
                let _ = write!(
                    marks,
                    "<circle class=\"mark\" cx=\"{:.2}%\" cy=\"8\" r=\"3.5\"><title>{}</title></circle>",
                    at(*t),
                    escape(text)
                );
            }
            let says = format!("{}: {}, {} stretches missing", strip.name, strip.figure, strip.missing.len());
            let _ = write!(
                html,
                "<div class=\"strip\"><span>{}</span><svg height=\"16\" width=\"100%\" role=\"img\" aria-label=\"{}\">{marks}</svg><span>{}</span></div>",
                escape(&strip.name),
                escape(&says),
                escape(&strip.figure)
            );
        }
        let mut below = String::new();
        for (t, label) in clock::ticks(t0, t1, 6) {
            let x = at(t);
            let anchor = if x < 4.0 {
                "start"
            } else if x > 96.0 {
                "end"
            } else {
                "middle"
            };
            let _ = write!(below, "<text x=\"{x:.2}%\" y=\"13\" text-anchor=\"{anchor}\">{}</text>", escape(&label));
        }
        let _ = write!(
            html,
            "<div class=\"strip\"><span></span><svg height=\"18\" width=\"100%\" aria-hidden=\"true\">{below}</svg><span></span></div></figure>"
        );
        html
    }
}
