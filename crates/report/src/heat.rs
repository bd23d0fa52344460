//! A matrix in colours, from -1 (cold) over 0 (paper) to 1 (warm).

use crate::chart::format_tooltip;
use crate::html::escape;
use std::fmt::Write;

/// A heat map, of correlations say.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// Names of the rows and of the columns.
    pub names: (Vec<String>, Vec<String>),
    /// `[rows][columns]`, -1 to 1; what is not finite stays blank.
    pub values: Vec<Vec<f64>>,
}

impl Heat {
    pub(crate) fn html(&self) -> String {
        let (rows, columns) = (&self.names.0, &self.names.1);
        let (head, tall) = (56.0, if rows.len() > 16 { 16.0 } else { 22.0 });
        let (mut cells, mut left, mut above) = (String::new(), String::new(), String::new());
        let short = |name: &str| {
            if name.chars().count() > 10 { name.chars().take(9).chain(['…']).collect() } else { name.to_string() }
        };
        for (r, row) in rows.iter().enumerate() {
            let y = head + r as f64 * tall;
            let _ = write!(
                left,
                "<text x=\"84\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
                y + tall / 2.0 + 4.0,
                escape(&short(row))
            );
            for (c, column) in columns.iter().enumerate() {
                let value = self.values.get(r).and_then(|v| v.get(c)).copied().unwrap_or(f64::NAN);
                if !value.is_finite() {
                    continue;
                }
                let shade = (value.clamp(-1.0, 1.0) * 5.0).round() as i64;
                let class = if shade < 0 { format!("c{}", -shade) } else { format!("w{shade}") };
                let wide = 100.0 / columns.len() as f64;
                let _ = write!(
                    cells,
                    "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{y:.0}\" width=\"{:.2}%\" height=\"{tall}\"><title>{} and {}: {}</title></rect>",
                    c as f64 * wide,
                    wide * 0.985,
                    escape(row),
                    escape(column),
                    format_tooltip(value)
                );
            }
        }
        for (c, column) in columns.iter().enumerate() {
            let _ = write!(
                above,
                "<svg x=\"{:.2}%\" y=\"{}\" overflow=\"visible\"><text transform=\"rotate(-40)\">{}</text></svg>",
                (c as f64 + 0.45) * 100.0 / columns.len() as f64,
                head - 6.0,
                escape(&short(column))
            );
        }
        let high = head + rows.len() as f64 * tall + 2.0;
        format!(
            "<figure class=\"chart heat\"><figcaption><b>{}</b><span class=\"ramp\"><em>−1</em>{}<em>+1</em></span></figcaption>\
             <div class=\"frame\"><svg class=\"axis\" width=\"90\" height=\"{high}\" aria-hidden=\"true\">{left}</svg>\
             <svg class=\"plot\" width=\"100%\" height=\"{high}\" role=\"img\" aria-label=\"{}\">{above}{cells}</svg>\
             <svg class=\"axis\" width=\"30\" height=\"1\" aria-hidden=\"true\"></svg></div></figure>",
            escape(&self.title),
            ["c5", "c4", "c3", "c2", "c1", "w0", "w1", "w2", "w3", "w4", "w5"]
                .map(|c| format!("<i class=\"{c}\"></i>"))
                .concat(),
            escape(&format!("{}: {} by {} values from -1 to 1", self.title, rows.len(), columns.len())),
        )
    }
}
