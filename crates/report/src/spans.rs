//! Which stretch of time is for what, one strip a row: the folds of a split, say.

use crate::clock;
use crate::html::escape;
use std::fmt::Write;

/// Strips of stretches over one time axis.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// What it shows.
    pub title: String,
    /// What stretches are for, each with a colour of its own.
    pub kinds: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<SpanRow>,
}

/// One strip.
#[derive(Debug, Clone, Default)]
pub struct SpanRow {
    /// Shown at the left.
    pub name: String,
    /// Which of the kinds, and `[from, to)` in nanoseconds.
    pub parts: Vec<(usize, i64, i64)>,
    /// Shown at the right.
    pub figure: String,
}

impl Spans {
    pub(crate) fn html(&self) -> String {
        let all = || self.rows.iter().flat_map(|r| &r.parts);
        let (t0, t1) = (all().map(|p| p.1).min().unwrap_or(0), all().map(|p| p.2).max().unwrap_or(1));
        let at = |t: i64| t.saturating_sub(t0) as f64 / t1.saturating_sub(t0).max(1) as f64 * 100.0;
        let mut html = format!("<figure class=\"chart\"><figcaption><b>{}</b>", escape(&self.title));
        for (i, kind) in self.kinds.iter().enumerate() {
            let _ = write!(html, "<span class=\"key s{}\"><i></i>{}</span>", i % 8, escape(kind));
        }
        html.push_str("</figcaption>");
        for row in &self.rows {
            let (mut marks, mut says) = (String::new(), row.name.clone());
            for (kind, from, to) in &row.parts {
                let name = self.kinds.get(*kind).map_or("", String::as_str);
                let when = format!("{name}: {} to {}", clock::show(*from), clock::show(*to));
                let _ = write!(
                    marks,
                    "<rect class=\"fill s{}\" x=\"{:.2}%\" y=\"2\" width=\"{:.2}%\" height=\"14\"><title>{}</title></rect>",
                    kind % 8,
                    at(*from),
                    (at(*to) - at(*from)).max(0.1),
                    escape(&when)
                );
                let _ = write!(says, "; {when}");
            }
            let _ = write!(
                html,
                "<div class=\"strip\"><span>{}</span><svg height=\"18\" width=\"100%\" role=\"img\" aria-label=\"{}\">{marks}</svg><span>{}</span></div>",
                escape(&row.name),
                escape(&says),
                escape(&row.figure)
            );
        }
        let mut below = String::new();
        for (t, label) in clock::ticks(t0, t1, 6) {
            let x = at(t);
            let anchor = if x < 4.0 { "start" } else { "middle" };
            let anchor = if x > 96.0 { "end" } else { anchor };
            let _ = write!(below, "<text x=\"{x:.2}%\" y=\"13\" text-anchor=\"{anchor}\">{}</text>", escape(&label));
        }
        let _ = write!(
            html,
            "<div class=\"strip\"><span></span><svg height=\"18\" width=\"100%\" aria-hidden=\"true\">{below}</svg><span></span></div></figure>"
        );
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_is_drawn_and_described() {
        let day = 86_400_000_000_000;
        let row = SpanRow {
            name: "fold <1>".into(),
            parts: vec![(0, 0, 9 * day), (1, 9 * day, 10 * day)],
            ..SpanRow::default()
        };
        let spans = Spans { title: "Split".into(), kinds: vec!["train".into(), "test".into()], rows: vec![row] };
        let html = spans.html();
        assert_eq!((html.matches("<rect").count(), html.matches("class=\"key").count()), (2, 2));
        assert!(html.contains("fold &lt;1&gt;") && html.contains("test: 1970-01-10 to 1970-01-11"), "{html}");
        assert!(!Spans::default().html().contains("NaN"));
    }
}
