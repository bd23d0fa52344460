//! Stamps as files write them, to nanoseconds since 1970.
//!
//! One parser takes every shape met so far: `2019-01-02 03:04:05.678`, ISO 8601 with `T`, `Z` and offsets, `20190102
//! 030405`, `2.1.2019`, `1/2/2019 9:30`, `02-Jan-2019`, `Jan 02, 2019`, `2019-10-17 09-AM`. Which of day and month
//! comes first cannot be seen in one stamp, so the caller settles it for a whole column ([`Column::guess`]). Epochs
//! carry their unit in their size ([`epoch_ns`]): a number of bars' age is in seconds below 1e11, in milliseconds below
//! 1e14, and so on.

use std::cmp::Ordering;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Which part of a date comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// 2019-12-31
    Ymd,
    /// 31.12.2019
    Dmy,
    /// 12/31/2019
    Mdy,
}

/// How a column writes its stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Day, month, year in which order.
    pub order: Order,
    /// Whether each stamp states its zone.
    pub zoned: bool,
    /// Whether the sample left the order open (no day above 12).
    pub ambiguous: bool,
}

/// One stamp: nanoseconds since 1970, and whether it stated its zone (else it is a wall clock read as UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub ns: i64,
    /// Whether a zone was stated.
    pub zoned: bool,
}

/// Reads one stamp; `None` if it is none, or lies outside 1678 to 2261.
pub fn parse(cell: &[u8], order: Order) -> Option<Stamp> {
    if order == Order::Ymd
        && let Some(stamp) = fixed(cell)
    {
        return Some(stamp);
    }
    Reader { rest: cell.trim_ascii(), compact: false }.stamp(order)
}

/// Reads a time of day: `09:30`, `9:30:15.5`, `093000`, `9:30 PM`; nanoseconds since midnight.
pub fn parse_clock(cell: &[u8]) -> Option<i64> {
    let mut reader = Reader { rest: cell.trim_ascii(), compact: false };
    let ns = reader.clock()?;
    reader.rest.is_empty().then_some(ns)
}

impl Column {
    /// Settles how a column writes its stamps from a sample of its cells; `None` if more than 2 % are no stamps (one
    /// odd cell is always forgiven in eight).
    pub fn guess<'a>(cells: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Column> {
        let orders = [Order::Ymd, Order::Dmy, Order::Mdy];
        let mut best: Option<(usize, i128, Column)> = None;
        let mut fits = 0;
        for order in orders {
            let (mut good, mut bad, mut zoned) = (0usize, 0usize, 0usize);
            let mut last = None;
            let mut steps = Vec::new();
            for cell in cells.clone() {
                match parse(cell, order) {
                    Some(stamp) => {
                        good += 1;
                        zoned += usize::from(stamp.zoned);
                        if let Some(last) = last.replace(stamp.ns) {
                            steps.push(stamp.ns.abs_diff(last));
                        }
                    }
                    None => bad += 1,
                }
            }
            if good == 0 || (bad > 0 && bad * 50 > good + bad && !(bad == 1 && good >= 7)) {
                continue;
            }
            fits += 1;
            // Between two orders that both read, the one with the shorter typical step is right: swapping day and month
            // scatters consecutive days over months.
            let total: i128 = steps.iter().map(|s| i128::from(*s)).sum();
            let typical = total.checked_div(steps.len() as i128).unwrap_or(0);
            let column = Column { order, zoned: zoned * 2 > good, ambiguous: false };
            let better = match &best {
                None => true,
                Some((count, step, _)) => match good.cmp(count) {
                    Ordering::Greater => true,
                    Ordering::Equal => typical < *step,
                    Ordering::Less => false,
                },
            };
            if better {
                best = Some((good, typical, column));
            } else if let Some((count, step, chosen)) = &mut best
                && *count == good
                && *step == typical
            {
                chosen.ambiguous = true;
            }
        }
        let (_, _, mut column) = best?;
        // Numeric dates with slashes and no evidence are American, with dots they are not.
        if column.ambiguous && fits > 1 && column.order == Order::Dmy {
            let slash = cells.clone().next().is_some_and(|c| c.contains(&b'/'));
            column.order = if slash { Order::Mdy } else { Order::Dmy };
        }
        Some(column)
    }
}

/// The unit of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// An epoch in whichever unit its size tells, to nanoseconds. `None` below 1e8 (1973 in seconds) and beyond 2261.
#[inline]
pub fn epoch_ns(value: i64) -> Option<(i64, Unit)> {
    let (scale, unit) = match value {
        100_000_000..100_000_000_000 => (SECOND, Unit::S),
        100_000_000_000..100_000_000_000_000 => (1_000_000, Unit::Ms),
        100_000_000_000_000..100_000_000_000_000_000 => (1_000, Unit::Us),
        100_000_000_000_000_000.. => (1, Unit::Ns),
        _ => return None,
    };
    Some((value.checked_mul(scale)?, unit))
}

/// Days since 1970 of a civil date; `None` if there is no such date.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > month_length(year, month) || !(1678..=2261).contains(&year) {
        return None;
    }
    // Count in years that begin in March, so that the leap day is the last of its year.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// The civil date (year, month, day) of a day since 1970.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// `2019-01-02T03:04:05Z`, with milliseconds to nanoseconds only where they are not zero.
pub fn rfc3339(ns: i64) -> String {
    let (year, month, day) = civil(ns.div_euclid(DAY));
    let in_day = ns.rem_euclid(DAY);
    let (s, sub) = (in_day / SECOND, in_day % SECOND);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    if sub != 0 {
        let digits = format!("{sub:09}");
        let digits = if sub % 1_000_000 == 0 {
            &digits[..3]
        } else if sub % 1_000 == 0 {
            &digits[..6]
        } else {
            &digits[..]
        };
        text.push('.');
        text.push_str(digits);
    }
    text.push('Z');
    text
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The commonest shape without branches on its content: `YYYY-MM-DD HH:MM:SS` and nothing behind it.
#[inline(always)]
pub(crate) fn fixed(cell: &[u8]) -> Option<Stamp> {
    let c: &[u8; 19] = cell.try_into().ok()?;
    let time = clock_fixed(c)?;
    Some(Stamp { ns: date_fixed(c)?.checked_mul(DAY)?.checked_add(time)?, zoned: false })
}

/// Days since 1970 of the first ten characters `YYYY-MM-DD`.
#[inline(always)]
pub(crate) fn date_fixed(c: &[u8; 19]) -> Option<i64> {
    let d = |i: usize| c[i].wrapping_sub(b'0');
    let worst = d(0).max(d(1)).max(d(2)).max(d(3)).max(d(5)).max(d(6)).max(d(8)).max(d(9));
    if worst > 9 || c[4] != b'-' || c[7] != b'-' {
        return None;
    }
    let n = |i: usize| i64::from(d(i));
    days(n(0) * 1000 + n(1) * 100 + n(2) * 10 + n(3), n(5) * 10 + n(6), n(8) * 10 + n(9))
}

/// Nanoseconds since midnight of `_HH:MM:SS` from the tenth character on.
#[inline(always)]
pub(crate) fn clock_fixed(c: &[u8; 19]) -> Option<i64> {
    let d = |i: usize| c[i].wrapping_sub(b'0');
    let worst = d(11).max(d(12)).max(d(14)).max(d(15)).max(d(17)).max(d(18));
    if worst > 9 || c[13] != b':' || c[16] != b':' || !matches!(c[10], b' ' | b'T') {
        return None;
    }
    let n = |i: usize| i64::from(d(i)) * 10 + i64::from(d(i + 1));
    let (h, m, s) = (n(11), n(14), n(17));
    // A leap second is read as the second after it.
    (h < 24 && m < 60 && s <= 60).then(|| ((h * 60 + m) * 60 + s) * SECOND)
}

struct Reader<'a> {
    rest: &'a [u8],
    compact: bool, // the date was eight digits
}

impl Reader<'_> {
    fn stamp(&mut self, order: Order) -> Option<Stamp> {
        let day = self.date(order)?;
        let mut ns = 0;
        let mut zoned = false;
        let before = self.rest;
        while let Some(b' ' | b'T' | b't' | b',' | b';' | b'_') = self.peek() {
            self.rest = &self.rest[1..];
        }
        if !self.rest.is_empty() {
            // `201901020304` runs on without a mark.
            let runs_on = self.compact && self.peek().is_some_and(|b| b.is_ascii_digit());
            if self.rest.len() == before.len() && !runs_on && !matches!(self.peek(), Some(b'Z' | b'z' | b'+')) {
                return None;
            }
            if !matches!(self.peek(), Some(b'Z' | b'z' | b'+' | b'U' | b'G')) {
                ns = self.clock()?;
            }
            if let Some(offset) = self.offset()? {
                ns -= offset;
                zoned = true;
            }
        }
        if !self.rest.is_empty() {
            return None;
        }
        Some(Stamp { ns: day.checked_mul(DAY)?.checked_add(ns)?, zoned })
    }

    fn date(&mut self, order: Order) -> Option<i64> {
        // `Jan 02, 2019`
        if self.peek()?.is_ascii_alphabetic() {
            let month = self.month_name()?;
            self.separator()?;
            let (day, _) = self.digits(2)?;
            self.skip(b',');
            self.separator()?;
            let (year, n) = self.digits(4)?;
            return if order == Order::Mdy { days(full_year(year, n)?, month, day) } else { None };
        }
        let (first, n) = self.digits(8)?;
        if n == 8 {
            self.compact = true;
            return (order == Order::Ymd).then(|| days(first / 10_000, first / 100 % 100, first % 100))?;
        }
        self.separator()?;
        if self.peek()?.is_ascii_alphabetic() {
            // `02-Jan-2019`
            let month = self.month_name()?;
            self.separator()?;
            let (year, n) = self.digits(4)?;
            return if order == Order::Dmy { days(full_year(year, n)?, month, first) } else { None };
        }
        let (second, m) = self.digits(2)?;
        self.separator()?;
        let (third, k) = self.digits(4)?;
        match order {
            Order::Ymd if n == 4 && m <= 2 && k <= 2 => days(first, second, third),
            Order::Dmy if n <= 2 => days(full_year(third, k)?, second, first),
            Order::Mdy if n <= 2 => days(full_year(third, k)?, first, second),
            _ => None,
        }
    }

    fn clock(&mut self) -> Option<i64> {
        let (first, n) = self.digits(6)?;
        let (mut h, mut m, mut s, mut sub) = (first, 0, 0, 0);
        match n {
            6 => (h, m, s) = (first / 10_000, first / 100 % 100, first % 100),
            3 | 4 => (h, m) = (first / 100, first % 100),
            5 => (h, m, s) = (first / 10_000, first / 100 % 100, first % 100),
            1 | 2 => {
                if self.skip(b':') {
                    m = self.digits(2)?.0;
                    if self.skip(b':') {
                        s = self.digits(2)?.0;
                    }
                } else if !matches!(self.peek(), Some(b'-' | b' ' | b'A' | b'P' | b'a' | b'p')) {
                    return None;
                }
            }
            _ => return None,
        }
        if self.skip(b'.') || self.skip(b',') {
            let from = self.rest.len();
            let (value, n) = self.digits(9)?;
            sub = value * 10i64.pow(9 - u32::try_from(n).ok()?);
            // Digits beyond nanoseconds say nothing.
            while self.peek().is_some_and(|b| b.is_ascii_digit()) && from - self.rest.len() < 20 {
                self.rest = &self.rest[1..];
            }
        }
        let before = self.rest;
        while matches!(self.peek(), Some(b' ' | b'-')) {
            self.rest = &self.rest[1..];
        }
        let half = match self.rest {
            [b'A' | b'a', b'M' | b'm', rest @ ..] => Some((0, rest)),
            [b'P' | b'p', b'M' | b'm', rest @ ..] => Some((12, rest)),
            _ => None,
        };
        match half {
            Some((add, rest)) if (1..=12).contains(&h) => {
                h = h % 12 + add;
                self.rest = rest;
            }
            Some(_) => return None,
            None => {
                // An hour alone needs its AM or PM.
                if n <= 2
                    && m == 0
                    && s == 0
                    && before.len() != self.rest.len()
                    && !matches!(before.first(), Some(b' ' | b'-'))
                {
                    return None;
                }
                self.rest = before;
            }
        }
        (h < 24 && m < 60 && s <= 60).then(|| ((h * 60 + m) * 60 + s) * SECOND + sub)
    }

    /// `Z`, `UTC`, `GMT`, `+05:30`, `-0500`, `+09`; `Some(None)` where nothing stands.
    fn offset(&mut self) -> Option<Option<i64>> {
        while self.skip(b' ') {}
        let sign = match self.peek() {
            None => return Some(None),
            Some(b'Z' | b'z') => {
                self.rest = &self.rest[1..];
                return Some(Some(0));
            }
            Some(b'U' | b'G') => {
                let known = self.rest.strip_prefix(b"UTC").or_else(|| self.rest.strip_prefix(b"GMT"))?;
                self.rest = known;
                return Some(Some(0));
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let (first, n) = self.digits(4)?;
        let (h, m) = match n {
            4 => (first / 100, first % 100),
            2 if self.skip(b':') => (first, self.digits(2)?.0),
            2 => (first, 0),
            _ => return None,
        };
        (h <= 15 && m < 60).then(|| Some(sign * (h * 60 + m) * 60 * SECOND))
    }

    fn digits(&mut self, most: usize) -> Option<(i64, usize)> {
        let mut value = 0;
        let mut n = 0;
        while n < most
            && let Some(d) = self.rest.get(n).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10)
        {
            value = value * 10 + i64::from(d);
            n += 1;
        }
        self.rest = &self.rest[n..];
        (n > 0).then_some((value, n))
    }

    fn month_name(&mut self) -> Option<i64> {
        const NAMES: [&[u8; 3]; 12] =
            [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
        let letters = self.rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let word = self.rest.get(..letters.min(3))?;
        let month = NAMES.iter().position(|n| word.eq_ignore_ascii_case(*n))?;
        self.rest = &self.rest[letters..];
        i64::try_from(month + 1).ok()
    }

    fn separator(&mut self) -> Option<()> {
        matches!(self.peek()?, b'-' | b'/' | b'.' | b' ').then(|| self.rest = &self.rest[1..])
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }
}

fn full_year(year: i64, digits: usize) -> Option<i64> {
    match digits {
        4 => Some(year),
        2 => Some(if year < 70 { 2000 + year } else { 1900 + year }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, order: Order, expected: Option<&str>) {
        let got = parse(text.as_bytes(), order).map(|s| rfc3339(s.ns));
        assert_eq!(got.as_deref(), expected, "{text} as {order:?}");
    }

    #[test]
    fn common_date_formats_are_read() {
        use Order::{Dmy, Mdy, Ymd};
        for (text, order, expected) in [
            ("2019-01-02 03:04:05", Ymd, "2019-01-02T03:04:05Z"),
            ("2019-01-02", Ymd, "2019-01-02T00:00:00Z"),
            ("2018/10/15", Ymd, "2018-10-15T00:00:00Z"),
            ("2015.03.09", Ymd, "2015-03-09T00:00:00Z"),
            ("2015.03.09 14:00", Ymd, "2015-03-09T14:00:00Z"),
            ("20101115 020100", Ymd, "2010-11-15T02:01:00Z"),
            ("20101115", Ymd, "2010-11-15T00:00:00Z"),
            ("201011150201", Ymd, "2010-11-15T02:01:00Z"),
            ("20101115020130", Ymd, "2010-11-15T02:01:30Z"),
            ("19980102 00:00", Ymd, "1998-01-02T00:00:00Z"),
            ("2017-08-18 07:59:59.999", Ymd, "2017-08-18T07:59:59.999Z"),
            ("2021-12-31 23:01:00.000000", Ymd, "2021-12-31T23:01:00Z"),
            ("2019-03-31T23:00:00.000000000Z", Ymd, "2019-03-31T23:00:00Z"),
            ("2013-02-01 00:00:00+00:00", Ymd, "2013-02-01T00:00:00Z"),
            ("2023-04-14 00:00:00+09:00", Ymd, "2023-04-13T15:00:00Z"),
            ("2023-04-14T00:00:00-0500", Ymd, "2023-04-14T05:00:00Z"),
            ("2023-04-14 10:00 UTC", Ymd, "2023-04-14T10:00:00Z"),
            ("2019-10-17 09-AM", Ymd, "2019-10-17T09:00:00Z"),
            ("2019-10-17 12-AM", Ymd, "2019-10-17T00:00:00Z"),
            ("2019-10-17 12-PM", Ymd, "2019-10-17T12:00:00Z"),
            ("01.01.2017 22:00:00.000", Dmy, "2017-01-01T22:00:00Z"),
            ("31/12/19", Dmy, "2019-12-31T00:00:00Z"),
            ("02-Jan-2019", Dmy, "2019-01-02T00:00:00Z"),
            ("3/11/2020", Mdy, "2020-03-11T00:00:00Z"),
            ("11/5/2019 9:30", Mdy, "2019-11-05T09:30:00Z"),
            ("11/5/2019 9:30 PM", Mdy, "2019-11-05T21:30:00Z"),
            ("Jan 02, 2019", Mdy, "2019-01-02T00:00:00Z"),
            ("1968-12-05T23:00:00.000Z", Ymd, "1968-12-05T23:00:00Z"),
            ("2016-12-31 23:59:60", Ymd, "2017-01-01T00:00:00Z"),
            ("2020-02-29", Ymd, "2020-02-29T00:00:00Z"),
        ] {
            check(text, order, Some(expected));
        }
        for (text, order) in [
            ("11:34", Ymd),
            ("", Ymd),
            ("2019-13-01", Ymd),
            ("2019-02-29", Ymd),
            ("2019-01-02 25:00", Ymd),
            ("31/12/2019", Mdy),
            ("2019-01-02x", Ymd),
            ("1600-01-01", Ymd),
            ("9999-01-01", Ymd),
            ("2019-10-17 13-PM", Ymd),
            ("123.45", Ymd),
            ("2019-01-02 03:04:05 foo", Ymd),
            ("2019-01-02 09", Ymd),
            ("1.5.", Dmy),
        ] {
            check(text, order, None);
        }
    }

    #[test]
    fn settles_day_and_month_for_a_column() {
        let guess = |cells: &[&str]| Column::guess(cells.iter().map(|c| c.as_bytes())).map(|c| c.order);
        assert_eq!(guess(&["01/02/2019", "13/02/2019"]), Some(Order::Dmy));
        assert_eq!(guess(&["01/02/2019", "01/13/2019"]), Some(Order::Mdy));
        // Consecutive days, none above 12: the shorter steps are right.
        assert_eq!(guess(&["3/11/2020", "3/10/2020", "3/9/2020"]), Some(Order::Mdy));
        assert_eq!(guess(&["11/3/2020", "10/3/2020", "9/3/2020"]), Some(Order::Dmy));
        assert_eq!(guess(&["2019-01-02"]), Some(Order::Ymd));
        assert_eq!(guess(&["5/5/2020"]), Some(Order::Mdy));
        assert_eq!(guess(&["5.6.2020"]), Some(Order::Dmy));
        assert_eq!(guess(&["abc", "2019-01-02"]), None);
        assert_eq!(guess(&["12.5", "13.5"]), None);
    }

    #[test]
    fn epoch_unit_is_inferred_from_size() {
        for (value, unit) in [
            (1_502_928_000, Unit::S),
            (1_502_928_000_000, Unit::Ms),
            (1_735_689_600_000_000, Unit::Us),
            (1_735_689_600_000_000_000, Unit::Ns),
        ] {
            assert_eq!(epoch_ns(value).map(|e| e.1), Some(unit), "{value}");
        }
        assert_eq!(epoch_ns(20_190_102), None);
        assert_eq!(epoch_ns(-5), None);
        assert_eq!(epoch_ns(i64::MAX).map(|e| e.1), Some(Unit::Ns));
    }

    #[test]
    fn civil_is_the_inverse_of_days() {
        for day in (-106_000..106_000).step_by(7) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), Some(day));
        }
    }
}
