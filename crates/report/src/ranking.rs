//! Named values as bars, one a line, beside what chance reaches: features by importance.

use crate::html::escape;
use std::fmt::Write;

/// Horizontal bars.
#[derive(Debug, Clone, Default)]
pub struct Ranking {
    /// What it shows.
    pub title: String,
    /// A sentence below the title.
    pub description: String,
    /// From top to bottom.
    pub rows: Vec<RankRow>,
}

/// One bar.
#[derive(Debug, Clone, Default)]
pub struct RankRow {
    /// Shown at the left.
    pub name: String,
    /// How long the bar is.
    pub value: f64,
    /// What chance reaches, drawn as a line across: a bar that ends before it is drawn in grey.
    pub noise: f64,
    /// The value as shown at the right.
    pub text: String,
}

impl Ranking {
    pub(crate) fn html(&self) -> String {
        let values = || self.rows.iter().flat_map(|r| [r.value, r.noise]).filter(|v| v.is_finite());
        let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let at = |value: f64| 100.0 * (value - low) / (high - low).max(f64::MIN_POSITIVE);
        let mut html = format!("<figure class=\"chart\"><figcaption><b>{}</b></figcaption>", escape(&self.title));
        if !self.description.is_empty() {
            let _ = write!(html, "<p class=\"about\">{}</p>", escape(&self.description));
        }
        for RankRow { name, value, noise, text } in &self.rows {
            let (from, to) = (at(value.min(0.0)), at(value.max(0.0)));
            let bar = match value.is_finite() {
                true => format!(
                    "<rect class=\"fill {}\" x=\"{from:.2}%\" y=\"3\" width=\"{:.2}%\" height=\"10\"/>",
                    if value > noise { "s0" } else { "s7" },
                    (to - from).max(0.2)
                ),
                false => String::new(),
            };
            let noise = match noise.is_finite() {
                true => format!("<line class=\"noise\" x1=\"{0:.2}%\" x2=\"{0:.2}%\" y1=\"0\" y2=\"16\"/>", at(*noise)),
                false => String::new(),
            };
            let _ = write!(
                html,
                "<div class=\"strip wide\"><span title=\"{0}\">{0}</span><svg height=\"16\" width=\"100%\" aria-hidden=\"true\">{bar}{noise}</svg>\
                 <span>{1}</span></div>",
                escape(name),
                escape(text)
            );
        }
        html.push_str("</figure>");
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_start_at_zero_and_noise_is_a_line() {
        let row = |name: &str, value: f64| RankRow { name: name.into(), value, noise: 0.1, text: format!("{value}") };
        let rows = vec![row("a", 0.4), row("b", -0.1), row("<c>", f64::NAN)];
        let ranking = Ranking { title: "t".into(), rows, ..Ranking::default() };
        let html = ranking.html();
        assert!(html.contains("fill s0\" x=\"20.00%\" y=\"3\" width=\"80.00%\""), "{html}");
        assert!(
            html.contains("fill s7\" x=\"0.00%\" y=\"3\" width=\"20.00%\"") && html.contains("x1=\"40.00%\""),
            "{html}"
        );
        assert_eq!((html.matches("<rect").count(), html.matches("&lt;c&gt;").count()), (2, 2));
    }
}
