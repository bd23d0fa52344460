//! One column a category.

use crate::chart::{Frame, Scale, WIDTH, format_tooltip};
use crate::html::escape;
use std::fmt::Write;

/// A bar chart; negative values hang down.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// What it shows.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// Name and value, in this order.
    pub columns: Vec<(String, f64)>,
}

impl Columns {
    pub(crate) fn html(&self) -> String {
        let n = self.columns.len().max(1) as f64;
        let y = Scale::from_zero(self.columns.iter().map(|c| c.1));
        let (height, step) = (220.0, WIDTH / n);
        let zero = (1.0 - y.at(0.0)) * height;
        let mut marks = String::new();
        for (i, (name, value)) in self.columns.iter().enumerate().filter(|(_, c)| c.1.is_finite()) {
            let top = (1.0 - y.at(*value)) * height;
            let wide = step * if n > 60.0 { 0.9 } else { 0.62 };
            let _ = write!(
                marks,
                "<rect class=\"fill {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\"><title>{}: {}</title></rect>",
                if *value < 0.0 { "s1" } else { "s0" },
                (i as f64 + 0.5) * step - wide / 2.0,
                top.min(zero),
                (top - zero).abs().max(0.7),
                escape(name),
                format_tooltip(*value)
            );
        }
        // Names that would run into each other are thinned; the tooltip has them all.
        let longest = self.columns.iter().map(|c| c.0.chars().count()).max().unwrap_or(1).clamp(3, 14);
        let every = (n * longest as f64 / 44.0).ceil().max(1.0) as usize;
        let named = self.columns.iter().enumerate().step_by(every);
        Frame {
            title: &self.title,
            alt_text: format!("{}: {} columns", self.title, self.columns.len()),
            legend: Vec::new(),
            height,
            y,
            unit: &self.unit,
            x: named.map(|(i, c)| ((i as f64 + 0.5) / n, c.0.chars().take(14).collect())).collect(),
            marks,
            data: String::new(),
        }
        .html()
    }
}
