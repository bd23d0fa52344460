//! The length of a bar.

use std::fmt;
use std::str::FromStr;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The length of a bar: a fixed number of nanoseconds, or calendar months.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timeframe {
    /// That many nanoseconds; a day is 24 hours, a week seven days.
    Fixed(i64),
    /// That many calendar months.
    Months(i64),
}

impl Timeframe {
    /// One minute.
    pub const M1: Timeframe = Timeframe::Fixed(MINUTE);
    /// Five minutes.
    pub const M5: Timeframe = Timeframe::Fixed(5 * MINUTE);
    /// One hour.
    pub const H1: Timeframe = Timeframe::Fixed(HOUR);
    /// One day.
    pub const D1: Timeframe = Timeframe::Fixed(DAY);

    /// Its usual length in nanoseconds (a month counts 30 days).
    pub fn ns(self) -> i64 {
        match self {
            Timeframe::Fixed(ns) => ns,
            Timeframe::Months(n) => n * 30 * DAY,
        }
    }

    /// Whether a bar is a day or longer.
    pub fn is_daily_or_longer(self) -> bool {
        self.ns() >= DAY
    }
}

/// `5m`, `1h`, `1d`, `1w`, `1mo`.
impl fmt::Display for Timeframe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = match *self {
            Timeframe::Months(n) => return write!(f, "{n}mo"),
            Timeframe::Fixed(ns) => ns,
        };
        for (unit, name) in [(7 * DAY, "w"), (DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (1_000_000, "ms")] {
            if ns > 0 && ns % unit == 0 {
                return write!(f, "{}{name}", ns / unit);
            }
        }
        write!(f, "{ns}ns")
    }
}

/// Reads `5m`, `M5`, `5min`, `PT5M`, `1h`, `H1`, `60`, `daily`, `D1`, `P1D`, `1w`, `W1`, `1mo`, `MN1`, `1M`.
impl FromStr for Timeframe {
    type Err = String;

    fn from_str(s: &str) -> Result<Timeframe, String> {
        let bad = || format!("`{s}` is not a timeframe (write 5m, 1h, 1d, 1w or 1mo)");
        match s.to_ascii_lowercase().as_str() {
            "daily" | "day" => return Ok(Timeframe::D1),
            "weekly" | "week" => return Ok(Timeframe::Fixed(7 * DAY)),
            "hourly" | "hour" => return Ok(Timeframe::H1),
            "minute" => return Ok(Timeframe::M1),
            "monthly" | "month" => return Ok(Timeframe::Months(1)),
            _ => {}
        }
        // ISO 8601: P1D, PT5M, PT1H.
        if let Some(rest) = s.strip_prefix("PT") {
            return split(rest).and_then(|(n, unit)| make(n, unit, false)).ok_or_else(bad);
        }
        if let Some(rest) = s.strip_prefix('P') {
            return split(rest).and_then(|(n, unit)| make(n, unit, true)).ok_or_else(bad);
        }
        let digits_first = s.starts_with(|c: char| c.is_ascii_digit());
        if digits_first {
            // `1M` is a month on exchanges that write minutes as `1m`.
            return split(s).and_then(|(n, unit)| make(n, unit, unit == "M")).ok_or_else(bad);
        }
        // MetaTrader: M5, H1, D1, W1, MN1.
        let at = s.find(|c: char| c.is_ascii_digit()).ok_or_else(bad)?;
        let n: i64 = s[at..].parse().map_err(|_| bad())?;
        make(n, &s[..at], s[..at].eq_ignore_ascii_case("mn")).ok_or_else(bad)
    }
}

fn split(s: &str) -> Option<(i64, &str)> {
    let at = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    Some((s[..at].parse().ok()?, &s[at..]))
}

fn make(n: i64, unit: &str, m_is_month: bool) -> Option<Timeframe> {
    if !(1..=100_000).contains(&n) {
        return None;
    }
    let months = || n.checked_mul(30 * DAY).map(|_| Timeframe::Months(n));
    let unit = match unit.to_ascii_lowercase().as_str() {
        "m" | "mo" | "mn" | "mon" | "month" if m_is_month => return months(),
        "mo" | "mon" | "month" | "months" => return months(),
        "s" | "sec" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "t" | "minute" | "minutes" => MINUTE,
        "h" | "hr" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "wk" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    };
    n.checked_mul(unit).map(Timeframe::Fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_spellings_are_read() {
        for (text, shown) in [
            ("5m", "5m"),
            ("M5", "5m"),
            ("PT5M", "5m"),
            ("5min", "5m"),
            ("1h", "1h"),
            ("H1", "1h"),
            ("60m", "1h"),
            ("PT1H", "1h"),
            ("H4", "4h"),
            ("1d", "1d"),
            ("D1", "1d"),
            ("P1D", "1d"),
            ("daily", "1d"),
            ("1w", "1w"),
            ("W1", "1w"),
            ("1mo", "1mo"),
            ("MN1", "1mo"),
            ("1M", "1mo"),
            ("minute", "1m"),
            ("8h", "8h"),
            ("30s", "30s"),
        ] {
            assert_eq!(text.parse::<Timeframe>().map(|t| t.to_string()), Ok(shown.to_string()), "{text}");
        }
        for text in
            ["", "m", "0m", "5x", "M", "H", "USDT", "2024", "99999999999999999999m", "99999w", "99999mo", "P", "PT"]
        {
            assert!(text.parse::<Timeframe>().is_err(), "{text}");
        }
    }
}
