//! Returns month by month: a table whose cells are coloured.

use crate::html::escape;
use std::fmt::Write;

/// Months in columns, years in rows.
#[derive(Debug, Clone, Default)]
pub struct Months {
    /// What it shows.
    pub title: String,
    /// Year, `[12]` returns as fractions where there are days, and the year's.
    pub years: Vec<(i64, [Option<f64>; 12], f64)>,
}

const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Months {
    pub(crate) fn html(&self) -> String {
        let all = || self.years.iter().flat_map(|y| y.1.iter().flatten()).map(|r| r.abs());
        // The darkest shade is for the largest move, so that quiet and wild records both show their pattern.
        let most = all().fold(0.0, f64::max).max(1e-9);
        let mut html = format!(
            "<figure class=\"table months\"><figcaption><b>{}</b><small>percent</small></figcaption><div class=\"scroll\" tabindex=\"0\">\
             <table><thead><tr><th scope=\"col\">year</th>",
            escape(&self.title)
        );
        NAMES.iter().for_each(|name| {
            let _ = write!(html, "<th scope=\"col\">{name}</th>");
        });
        html.push_str("<th scope=\"col\">year</th></tr></thead><tbody>");
        for (year, months, whole) in &self.years {
            let _ = write!(html, "<tr><th scope=\"row\">{year}</th>");
            for month in months {
                let Some(value) = month.filter(|v| v.is_finite()) else {
                    html.push_str("<td></td>");
                    continue;
                };
                let shade = (value / most * 5.0).round().clamp(-5.0, 5.0) as i64;
                let class = if shade < 0 { format!("w{}", -shade) } else { format!("c{shade}") };
                let _ = write!(html, "<td class=\"{class}\">{}</td>", percent(value));
            }
            let _ = write!(html, "<td class=\"sum\">{}</td></tr>", percent(*whole));
        }
        html.push_str("</tbody></table></div></figure>");
        html
    }
}

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value).replace("-0.0", "0.0").replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_warm_gains_cold_and_months_without_days_blank() {
        let mut months = [None; 12];
        (months[0], months[1], months[2]) = (Some(0.1), Some(-0.05), Some(-0.0001));
        let html = Months { title: "a<b".into(), years: vec![(2020, months, 0.045)] }.html();
        for cell in ["c5\">10.0", "w3\">\u{2212}5.0", "c0\">0.0", "sum\">4.5", "a&lt;b"] {
            assert!(html.contains(cell), "{cell}: {html}");
        }
        assert_eq!(html.matches("<td></td>").count(), 9);
        assert!(Months::default().html().contains("<table>"));
    }
}
