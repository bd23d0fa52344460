//! What all charts share: scales, round ticks, numbers for the eye, and the frame around the marks.
//!
//! A frame is two drawings beside each other: marks on `0..1000` by `0..height`, stretched sideways to whatever room
//! there is, and the labels of the value axis, which are never stretched. Text sits at percentages, lines keep their
//! width: no scaling, no script.

use crate::html::escape;
use files::format_number;
use std::fmt::Write;

/// Width of the marks' own units.
pub(crate) const WIDTH: f64 = 1000.0;

/// Maps values to `0..1`, bottom to top or left to right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    lo: f64,
    hi: f64,
    log: bool,
}

impl Scale {
    /// Spans the finite values, a little wider; `log` holds only if all are above zero.
    pub(crate) fn around(values: impl Iterator<Item = f64> + Clone, log: bool) -> Scale {
        let (lo, hi) = extremes(values);
        let log = log && lo > 0.0;
        let (lo, hi) = if log { (lo.ln(), hi.ln()) } else { (lo, hi) };
        let pad = if hi > lo { (hi - lo) * 0.04 } else { lo.abs().max(1.0) * 0.05 };
        Scale { lo: lo - pad, hi: hi + pad, log }
    }

    /// From zero (or the lowest, if that is below) to the highest.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let (lo, hi) = extremes(values);
        let (lo, hi) = (lo.min(0.0), hi.max(0.0));
        let pad = if hi > lo { (hi - lo) * 0.06 } else { 1.0 };
        Scale { lo: if lo < 0.0 { lo - pad } else { 0.0 }, hi: if hi > 0.0 { hi + pad } else { 0.0 }, log: false }
    }

    /// Exactly from `lo` to `hi`.
    pub(crate) fn exact(lo: f64, hi: f64) -> Scale {
        Scale { lo, hi: if hi > lo { hi } else { lo + 1.0 }, log: false }
    }

    /// Where a value lies.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.ln() } else { value };
        (value - self.lo) / (self.hi - self.lo)
    }

    /// Round values inside, each with its label.
    pub(crate) fn ticks(&self, n: usize) -> Vec<(f64, String)> {
        let (lo, hi) = if self.log { (self.lo.exp(), self.hi.exp()) } else { (self.lo, self.hi) };
        let mut values = if self.log && hi / lo > 4.0 { decades(lo, hi, n) } else { round_steps(lo, hi, n) };
        values.retain(|v| (lo..=hi).contains(v));
        let step = values.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        values.into_iter().map(|v| (v, tick_label(v, step))).collect()
    }

    /// For the script: the two ends and whether they are logarithms.
    fn data(&self) -> String {
        format!(" data-y0=\"{}\" data-y1=\"{}\"{}", self.lo, self.hi, if self.log { " data-log=\"1\"" } else { "" })
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|v| v.is_finite());
    let (lo, hi) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    // Half the range of f64 keeps every difference finite.
    if lo > hi { (0.0, 1.0) } else { (lo.max(-f64::MAX / 4.0), hi.min(f64::MAX / 4.0)) }
}

fn round_steps(lo: f64, hi: f64, n: usize) -> Vec<f64> {
    let rough = (hi - lo) / n.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(rough);
    let first = (lo / step).ceil();
    (0..2 * n + 2)
        .map(|i| (first + i as f64) * step)
        .take_while(|v| *v <= hi)
        .map(|v| if v == 0.0 { 0.0 } else { v })
        .collect()
}

fn decades(lo: f64, hi: f64, n: usize) -> Vec<f64> {
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    let skip = ((last - first) as usize / n.max(1)).max(1);
    let within: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (first..=last).step_by(skip).flat_map(|p| within.iter().map(move |m| m * 10f64.powi(p))).collect()
}

/// A number with as many decimals as its step needs, in thousands, millions or billions where that is shorter.
fn tick_label(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let size = value.abs().max(if step.is_finite() { step } else { 0.0 });
    let (unit, name) = match size {
        s if s >= 1e15 || (s > 0.0 && s < 1e-6) => return format!("{value:e}"),
        s if s >= 1e9 => (1e9, " B"),
        s if s >= 1e6 => (1e6, " M"),
        s if s >= 1e5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let step = if step.is_finite() { step / unit } else { size / unit };
    let whole =
        |d: &i32| (step * 10f64.powi(*d) - (step * 10f64.powi(*d)).round()).abs() < 0.01 && step * 10f64.powi(*d) > 0.5;
    let decimals = (0..8).find(whole).unwrap_or(if step > 0.0 { 3 } else { 0 }) as usize;
    minus(&format!("{:.decimals$}{name}", value / unit))
}

/// A number for a tooltip: six significant digits.
pub(crate) fn format_tooltip(value: f64) -> String {
    minus(&format_number(value, 6))
}

fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

/// A chart with its title, legend, marks and axes.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// What a person who cannot see it is told.
    pub(crate) alt_text: String,
    /// Names and style classes of the series; one or none draws no legend.
    pub(crate) legend: Vec<(&'a str, String)>,
    /// Height of the marks in pixels, and in their own units.
    pub(crate) height: f64,
    pub(crate) y: Scale,
    /// Unit of the values, written once above the axis.
    pub(crate) unit: &'a str,
    /// Labels under the marks: where (`0..1`), what.
    pub(crate) x: Vec<(f64, String)>,
    /// SVG on `0..1000` by `0..height`.
    pub(crate) marks: String,
    /// More attributes of the marks, for the script.
    pub(crate) data: String,
}

impl Frame<'_> {
    /// The whole as HTML.
    pub(crate) fn html(&self) -> String {
        let h = self.height;
        let (mut grid, mut labels, mut below) = (String::new(), String::new(), String::new());
        let mut widest = 0;
        for (value, text) in self.y.ticks(6) {
            let y = (1.0 - self.y.at(value)) * h;
            widest = widest.max(text.chars().count());
            let zero = if value == 0.0 { " zero" } else { "" };
            let _ = write!(grid, "<line class=\"grid{zero}\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let _ = write!(labels, "<text x=\"8\" y=\"{:.1}\">{}</text>", y.clamp(8.0, h) + 3.5, escape(&text));
        }
        for (at, text) in &self.x {
            let anchor = if *at < 0.04 {
                "start"
            } else if *at > 0.96 {
                "end"
            } else {
                "middle"
            };
            let _ = write!(
                below,
                "<text x=\"{:.2}%\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
                at * 100.0,
                h + 17.0,
                escape(text)
            );
        }
        let mut html = String::from("<figure class=\"chart\">");
        let unit = if self.unit.is_empty() { String::new() } else { format!("<small>{}</small>", escape(self.unit)) };
        let _ = write!(html, "<figcaption><b>{}</b>{unit}", escape(self.title));
        if self.legend.len() > 1 {
            for (name, class) in &self.legend {
                let _ = write!(html, "<span class=\"key {class}\"><i></i>{}</span>", escape(name));
            }
        }
        let _ = write!(
            html,
            "</figcaption><div class=\"frame\"><svg class=\"plot\" width=\"100%\" height=\"{tall}\" role=\"img\" aria-label=\"{says}\">{grid}\
             <svg viewBox=\"0 0 {WIDTH} {h}\" width=\"100%\" height=\"{h}\" preserveAspectRatio=\"none\"{ends}{data}>{marks}</svg>\
             {below}</svg><svg class=\"axis\" width=\"{wide}\" height=\"{tall}\" aria-hidden=\"true\">{labels}</svg></div></figure>",
            says = escape(&self.alt_text),
            tall = h + 24.0,
            wide = 14 + widest * 7,
            ends = self.y.data(),
            data = self.data,
            marks = self.marks,
        );
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |lo, hi| Scale::exact(lo, hi).ticks(5).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(-0.05, 0.05), ["−0.04", "−0.02", "0", "0.02", "0.04"]);
        assert_eq!(labels(0.0, 12.5e6), ["0", "2.5 M", "5.0 M", "7.5 M", "10.0 M", "12.5 M"]);
        assert_eq!(labels(1.0512, 1.0524), ["1.05125", "1.05150", "1.05175", "1.05200", "1.05225"]);
        for (lo, hi) in [(0.0, f64::MAX / 4.0), (1.0, 1.0), (f64::NAN, 1.0), (-1e-300, 1e-300)] {
            assert!(Scale::around([lo, hi].into_iter(), true).ticks(5).len() < 14, "{lo} {hi}");
        }
    }
}
