//! Nanoseconds since 1970 as dates for the eye, and round instants for an axis.

use files::time::{civil, days};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `2024-03-01`, with ` 14:30` where that is not midnight.
pub(crate) fn show(ns: i64) -> String {
    let (y, m, d) = civil(ns.div_euclid(DAY));
    let s = ns.rem_euclid(DAY) / SECOND;
    let date = format!("{y:04}-{m:02}-{d:02}");
    if s == 0 { date } else { format!("{date} {:02}:{:02}", s / 3600, s / 60 % 60) }
}

/// About `n` round instants inside `[lo, hi]`, each with a label that is as short as its neighbours allow.
pub(crate) fn ticks(lo: i64, hi: i64, n: usize) -> Vec<(i64, String)> {
    let want = (hi.saturating_sub(lo) / n.max(1) as i64).max(1);
    // A month is 30.4 days; one that fits only nearly is taken all the same.
    let months = (want as f64 / (30.4 * DAY as f64)).round() as i64;
    if months >= 1 {
        return by_month(lo, hi, months);
    }
    let steps = [1, 2, 5, 10, 30].map(|s| s * SECOND).into_iter();
    let steps = steps.chain([60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200].map(|s| s * SECOND));
    let step = steps.chain([DAY, 2 * DAY, 5 * DAY, 7 * DAY, 14 * DAY]).find(|&s| s >= want).unwrap_or(28 * DAY);
    let first = lo.div_euclid(step) * step;
    (0..100).map(|i| first + i * step).filter(|t| (lo..=hi).contains(t)).map(|t| (t, short(t, step))).collect()
}

fn by_month(lo: i64, hi: i64, months: i64) -> Vec<(i64, String)> {
    let step = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600].into_iter().find(|&s| s >= months).unwrap_or(1200);
    let (y, m, _) = civil(lo.div_euclid(DAY));
    let first = (y * 12 + m - 1).div_euclid(step) * step;
    let mut found = Vec::new();
    for i in 0..100 {
        let month = first + i * step;
        let (y, m) = (month.div_euclid(12), month.rem_euclid(12));
        // Outside the years that nanoseconds reach there is nothing to mark.
        let Some(t) = days(y, m + 1, 1).and_then(|days| days.checked_mul(DAY)) else { continue };
        if (lo..=hi).contains(&t) {
            let label = if m == 0 { y.to_string() } else { MONTHS[m as usize].to_string() };
            found.push((t, label));
        }
    }
    found
}

fn short(t: i64, step: i64) -> String {
    let (_, m, d) = civil(t.div_euclid(DAY));
    let s = t.rem_euclid(DAY) / SECOND;
    if s == 0 {
        format!("{d} {}", MONTHS[m as usize - 1])
    } else if step >= 60 * SECOND {
        format!("{:02}:{:02}", s / 3600, s / 60 % 60)
    } else {
        format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_round_instants() {
        assert_eq!(show(0), "1970-01-01");
        assert_eq!(show(1_709_217_000 * SECOND), "2024-02-29 14:30");
        assert_eq!(show(-SECOND), "1969-12-31 23:59");
        let labels = |lo: i64, hi: i64| ticks(lo * DAY, hi * DAY, 6).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(0, 365 * 6 + 1), ["1970", "1971", "1972", "1973", "1974", "1975", "1976"]);
        assert_eq!(labels(0, 100), ["1970", "Feb", "Mar", "Apr"]);
        assert!(ticks(i64::MIN / 2, i64::MAX / 2, 6).len() < 20);
        assert_eq!(ticks(5, 5, 6).len(), 0);
    }
}
