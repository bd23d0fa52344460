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
        let longest =
            |names: &[String]| names.iter().map(|name| name.chars().count().min(LONGEST)).max().unwrap_or(0) as f64;
        // About 7 pixels a letter; names of columns lie at 40 degrees.
        let (wide, head) = ((12.0 + 7.0 * longest(rows)).max(90.0), (16.0 + 4.6 * longest(columns)).max(56.0));
        let tall = if rows.len() > 16 { 16.0 } else { 22.0 };
        let (mut cells, mut left, mut above) = (String::new(), String::new(), String::new());
        for (r, row) in rows.iter().enumerate() {
            let y = head + r as f64 * tall;
            let _ = write!(
                left,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
                wide - 6.0,
                y + tall / 2.0 + 4.0,
                escape(&shorten(row))
            );
            for (c, column) in columns.iter().enumerate() {
                let value = self.values.get(r).and_then(|v| v.get(c)).copied().unwrap_or(f64::NAN);
                if !value.is_finite() {
                    continue;
                }
                let shade = (value.clamp(-1.0, 1.0) * 5.0).round() as i64;
                let class = if shade < 0 { format!("c{}", -shade) } else { format!("w{shade}") };
                let share = 100.0 / columns.len() as f64;
                let _ = write!(
                    cells,
                    "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{y:.0}\" width=\"{:.2}%\" height=\"{tall}\"><title>{} and {}: {}</title></rect>",
                    c as f64 * share,
                    share * 0.985,
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
                escape(&shorten(column))
            );
        }
        let high = head + rows.len() as f64 * tall + 2.0;
        format!(
            "<figure class=\"chart heat\"><figcaption><b>{}</b><span class=\"ramp\"><em>−1</em>{}<em>+1</em></span></figcaption>\
             <div class=\"frame\"><svg class=\"axis\" width=\"{wide}\" height=\"{high}\" aria-hidden=\"true\">{left}</svg>\
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

/// Letters of a name at most; the tip of a cell has all of it.
const LONGEST: usize = 28;

/// A name that is too long loses its middle: names of features differ at both ends.
fn shorten(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST {
        return name.to_string();
    }
    let (first, last) = (&letters[..LONGEST / 2], &letters[letters.len() - (LONGEST / 2 - 1)..]);
    first.iter().chain(&['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_lose_their_middle() {
        assert_eq!(shorten("bollinger_percent_b"), "bollinger_percent_b");
        let long = ["volatility_regime_of_the_market@1h.fast", "volatility_regime_of_the_market@1h.slow"].map(shorten);
        assert!(long[0] != long[1] && long.iter().all(|name| name.chars().count() == LONGEST), "{long:?}");
        let names = (vec!["a".to_string()], vec!["a_name_of_twenty_two_x".to_string()]);
        let html = Heat { title: "t".into(), names, values: vec![vec![0.5]] }.html();
        assert!(html.contains(">a_name_of_twenty_two_x</text>"), "{html}");
    }
}
