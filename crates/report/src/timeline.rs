//! Series over time that can be zoomed: the page's script draws them from packed numbers beside the frame.
//!
//! All timelines of a page show one range of time: what is zoomed in one is zoomed in all. Times are differences in
//! their greatest common unit, values differences in 32,768ths of their range, both in bytes of seven bits and base64:
//! a quarter of a million closes take about half a megabyte, and every one of them is there to be zoomed to.

use crate::clock;
use crate::html::{escape, harmless};
use crate::sha256::encode_base64;
use serde_json::{Value, json};
use std::fmt::Write;

/// A chart over time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// What it shows.
    pub title: String,
    /// A sentence below the title.
    pub description: String,
    /// What the values are.
    pub scale: TimeScale,
    /// Of the plot, in pixels.
    pub height: u32,
    /// The first is drawn on top.
    pub series: Vec<TimeSeries>,
    /// Instants to mark with a line and a few letters: borders of folds.
    pub borders: Vec<(i64, String)>,
    /// Entries and exits, on the first series.
    pub trades: Vec<TradeMark>,
    /// Key values for those who cannot see it, name and value.
    pub facts: Vec<(String, String)>,
}

/// What values are, and so how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeScale {
    /// Plain numbers.
    #[default]
    Number,
    /// Fractions, written as percent.
    Percent,
    /// 1 is the beginning, written as percent of change; equal ratios look equal where they are large.
    Growth,
}

/// One series.
#[derive(Debug, Clone, Default)]
pub struct TimeSeries {
    /// For the legend.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// `[n]` nanoseconds since 1970, rising.
    pub time: Vec<i64>,
    /// `[n]`; NaN breaks the line.
    pub value: Vec<f64>,
    /// `[n]` the other edge of a band; empty for all else.
    pub upper: Vec<f64>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Look {
    /// The one that matters.
    #[default]
    Main,
    /// Beside it, dashed.
    Dashed,
    /// What it is compared with.
    Soft,
    /// Filled down to zero.
    Area,
    /// Filled down to zero, in the second colour.
    OtherArea,
    /// Filled between `value` and `upper`.
    Band,
}

/// A position from its opening to its closing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TradeMark {
    /// Nanoseconds since 1970.
    pub opened: i64,
    /// Nanoseconds since 1970.
    pub closed: i64,
    /// Whether it was long.
    pub long: bool,
    /// Price of the entry.
    pub entry: f64,
    /// Price of the exit.
    pub exit: f64,
    /// What it earned, as a fraction of equity.
    pub result: f64,
}

impl Look {
    fn name(self) -> &'static str {
        match self {
            Look::Main => "main",
            Look::Dashed => "dashed",
            Look::Soft => "soft",
            Look::Area => "area",
            Look::OtherArea => "other",
            Look::Band => "band",
        }
    }
}

impl Timeline {
    pub(crate) fn html(&self) -> String {
        let mut html = format!("<figure class=\"chart timeline\"><figcaption><b>{}</b>", escape(&self.title));
        for series in self.series.iter().filter(|_| self.series.len() > 1) {
            let _ = write!(html, "<span class=\"key {}\"><i></i>{}</span>", series.look.name(), escape(&series.name));
        }
        html.push_str("<span class=\"range\" aria-live=\"polite\"></span>");
        html.push_str("<button type=\"button\" class=\"reset\" hidden>Reset zoom</button></figcaption>");
        if !self.description.is_empty() {
            let _ = write!(html, "<p class=\"about\">{}</p>", escape(&self.description));
        }
        let times = || self.series.iter().flat_map(|s| s.time.first().into_iter().chain(s.time.last()));
        let (from, to) = (times().min().copied().unwrap_or(0), times().max().copied().unwrap_or(0));
        let label = format!(
            "{}. {} From {} to {}. Arrow keys move, plus and minus zoom, Home shows everything.",
            self.title,
            self.description,
            clock::show(from),
            clock::show(to)
        );
        let _ = write!(
            html,
            "<svg class=\"zoom\" width=\"100%\" height=\"{}\" tabindex=\"0\" role=\"group\" aria-roledescription=\"zoomable chart\" \
             aria-label=\"{}\"></svg>",
            self.height + if self.borders.is_empty() { 28 } else { 40 },
            escape(&label)
        );
        if !self.facts.is_empty() {
            let _ = write!(html, "<div class=\"unseen\"><table><caption>{}</caption><tbody>", escape(&self.title));
            for (name, value) in &self.facts {
                let _ = write!(html, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(value));
            }
            html.push_str("</tbody></table></div>");
        }
        // Inside a script nothing ends it but `</`, which JSON may write otherwise.
        let data: String = self.data().to_string().replace('<', "\\u003c").chars().map(harmless).collect();
        let _ = write!(html, "<script type=\"application/json\">{data}</script></figure>");
        html
    }

    /// What the script draws from.
    fn data(&self) -> Value {
        let series = self.series.iter().map(|s| {
            let n = s.time.len().min(s.value.len());
            let mut one = json!({"name": s.name, "look": s.look.name(), "time": packed_times(&s.time[..n])});
            one["value"] = packed_values(&s.value[..n]);
            if s.look == Look::Band {
                one["upper"] = packed_values(&s.upper[..n.min(s.upper.len())]);
            }
            one
        });
        let ms = |ns: i64| ns / 1_000_000;
        let mut data = json!({
            "scale": match self.scale {
                TimeScale::Number => "number",
                TimeScale::Percent => "percent",
                TimeScale::Growth => "growth",
            },
            "height": self.height,
            "series": series.collect::<Vec<Value>>(),
            "borders": self.borders.iter().map(|(at, name)| json!([ms(*at), name])).collect::<Vec<Value>>(),
        });
        if !self.trades.is_empty() {
            let mut trades = self.trades.clone();
            trades.sort_by_key(|t| t.opened);
            let of = |value: &dyn Fn(&TradeMark) -> f64| packed_values(&trades.iter().map(value).collect::<Vec<f64>>());
            let held: Vec<u64> = trades.iter().map(|t| ms(t.closed.saturating_sub(t.opened)).max(0) as u64).collect();
            data["trades"] = json!({
                "opened": packed_times(&trades.iter().map(|t| t.opened).collect::<Vec<i64>>()),
                "held": pack(held.into_iter()),
                "side": trades.iter().map(|t| if t.long { '+' } else { '-' }).collect::<String>(),
                "entry": of(&|t| t.entry),
                "exit": of(&|t| t.exit),
                "result": of(&|t| t.result),
            });
        }
        data
    }
}

/// Rising times as differences in their greatest common unit, in milliseconds.
fn packed_times(ns: &[i64]) -> Value {
    let ms: Vec<i64> = ns.iter().map(|t| t / 1_000_000).collect();
    let steps = || ms.windows(2).map(|w| (w[1] - w[0]).max(0) as u64);
    let unit = steps().fold(0, divisor).max(1);
    json!({"from": ms.first().copied().unwrap_or(0), "unit": unit, "steps": pack(ms.first().map(|_| 0).into_iter().chain(steps().map(|s| s / unit)))})
}

/// Values as differences in 32,768ths of their range; what is not finite is 0, all else from 1 up.
fn packed_values(values: &[f64]) -> Value {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
    let step = ((high - low) / 32_768.0).max(f64::MIN_POSITIVE);
    let mut before = 0i64;
    let words = values.iter().map(|v| {
        if !v.is_finite() {
            return 0;
        }
        let now = ((v - low) / step).round() as i64;
        let change = now - std::mem::replace(&mut before, now);
        // Small changes of either sign are small numbers.
        1 + ((change << 1) ^ (change >> 63)) as u64
    });
    json!({"low": low, "step": step, "steps": pack(words)})
}

/// Whole numbers in bytes of seven bits, the low ones first, as base64.
fn pack(numbers: impl Iterator<Item = u64>) -> String {
    let mut bytes = Vec::new();
    for mut number in numbers {
        while number > 127 {
            bytes.push((number & 127) as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    encode_base64(&bytes)
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_small_and_what_is_missing_is_zero() {
        assert_eq!(pack([0, 1, 127, 128, 300].into_iter()), encode_base64(&[0, 1, 127, 128, 1, 172, 2]));
        let minute = 60_000_000_000;
        let times = packed_times(&[10 * minute, 15 * minute, 25 * minute]);
        assert_eq!((&times["from"], &times["unit"]), (&json!(600_000), &json!(300_000)));
        assert_eq!(times["steps"], json!(encode_base64(&[0, 1, 2])));
        let values = packed_values(&[1.0, f64::NAN, 2.0, 2.0]);
        // 0 is the lowest, then a hole, then 32,768 steps up (65,537 as three bytes), then no change.
        assert_eq!(values["steps"], json!(encode_base64(&[1, 0, 129, 128, 4, 1])));
        assert_eq!(packed_values(&[])["steps"], json!(""));
        assert_eq!(packed_values(&[f64::NAN, f64::INFINITY])["steps"], json!(encode_base64(&[0, 0])));
    }

    #[test]
    fn six_years_of_five_minutes_stay_small() {
        let n = 425_000;
        let time: Vec<i64> = (0..n).map(|i| i * 300_000_000_000).collect();
        let mut random = 7u64;
        let mut price = 1300.0;
        let value: Vec<f64> = (0..n)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                price += ((random >> 33) as f64 / 2f64.powi(31) - 0.5) * 1.5;
                price
            })
            .collect();
        let series = vec![TimeSeries { name: "close".into(), time, value, ..TimeSeries::default() }];
        let html = Timeline { series, height: 300, ..Timeline::default() }.html();
        assert!(html.len() < 1_300_000, "{}", html.len());
    }

    #[test]
    fn names_end_no_script_and_nothing_is_fine_too() {
        let name = "</script><script>alert(1)</script>";
        let series = vec![TimeSeries { name: name.into(), time: vec![1], value: vec![1.0], ..TimeSeries::default() }];
        let html =
            Timeline { title: name.into(), series, borders: vec![(5, name.into())], ..Timeline::default() }.html();
        assert_eq!(html.matches("</script>").count(), 1, "{html}");
        assert!(Timeline::default().html().contains("<svg"));
    }
}
