//! Series over a number that counts: epochs, generations, steps.

use crate::chart::{Frame, Scale, WIDTH};
use crate::html::escape;
use std::fmt::Write;

/// Curves over one axis of whole numbers.
#[derive(Debug, Clone, Default)]
pub struct Curves {
    /// What it shows.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// What is counted: `epoch`.
    pub axis: String,
    /// In the order of the legend.
    pub series: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// For the tooltip; the first of each colour is in the legend.
    pub name: String,
    /// Curves of one colour belong together; eight are told apart.
    pub colour: usize,
    /// Drawn thin and left out of the tooltip: one of many beside those that matter.
    pub faint: bool,
    /// `[n]` rising.
    pub x: Vec<f64>,
    /// `[n]`; NaN breaks the curve.
    pub y: Vec<f64>,
}

impl Curves {
    pub(crate) fn html(&self) -> String {
        let xs = || self.series.iter().flat_map(|s| s.x.iter().copied()).filter(|x| x.is_finite());
        let (x0, x1) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let (x0, x1) = match x0.is_finite() {
            true => (x0, x1.max(x0 + 1.0)),
            false => (0.0, 1.0),
        };
        let x = Scale::exact(x0, x1);
        let y = Scale::around(self.series.iter().flat_map(|s| s.y.iter().copied()), false);
        let height = 240.0;
        let (mut marks, mut legend) = (String::new(), Vec::new());
        for curve in &self.series {
            let class = format!("s{}", curve.colour % 8);
            if legend.iter().all(|(_, known)| *known != class) {
                legend.push((curve.name.as_str(), class.clone()));
            }
            let (mut path, mut down) = (String::new(), false);
            for (at, value) in curve.x.iter().zip(&curve.y) {
                let (across, up) = (x.at(*at), y.at(*value));
                if !(across.is_finite() && up.is_finite()) {
                    down = false;
                    continue;
                }
                let pen = if down { "L" } else { "M" };
                let _ = write!(path, "{pen}{:.1} {:.1}", across * WIDTH, (1.0 - up) * height);
                down = true;
            }
            if !path.is_empty() {
                let _ = match curve.faint {
                    true => write!(marks, "<path class=\"line faint {class}\" d=\"{path}\"/>"),
                    false => {
                        let name = escape(&curve.name);
                        write!(marks, "<path class=\"line {class}\" data-name=\"{name}\" d=\"{path}\"/>")
                    }
                };
            }
        }
        let names: Vec<&str> = self.series.iter().filter(|s| !s.faint).map(|s| s.name.as_str()).collect();
        Frame {
            title: &self.title,
            alt_text: format!("{}: {}, {} {x0} to {x1}", self.title, names.join(", "), self.axis),
            legend,
            height,
            y,
            unit: &self.unit,
            x: x.ticks(8).into_iter().map(|(value, label)| (x.at(value), label)).collect(),
            marks,
            data: format!(" data-t0=\"{x0}\" data-t1=\"{x1}\" data-axis=\"{}\"", escape(&self.axis)),
        }
        .html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_one_colour_have_one_entry_and_what_is_no_number_breaks_them() {
        let curve = |name: &str, colour, y: &[f64]| Curve {
            name: name.into(),
            colour,
            faint: false,
            x: (1..=y.len()).map(|x| x as f64).collect(),
            y: y.to_vec(),
        };
        let series = vec![curve("fold 1", 0, &[0.1, f64::NAN, 0.3]), curve("fold 1 <2>", 0, &[0.2, 0.2, 0.2])];
        let html = Curves { axis: "epoch".into(), series, ..Curves::default() }.html();
        assert_eq!(html.matches("class=\"key").count(), 0, "one colour needs no legend");
        assert_eq!(html.matches("class=\"line s0\"").count(), 2);
        assert!(html.contains("&lt;2&gt;") && !html.contains("NaN"), "{html}");
        for y in [&[][..], &[0.5]] {
            let html = Curves { series: vec![curve("x", 0, y)], ..Curves::default() }.html();
            assert!(html.contains("<svg") && !html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }
}
