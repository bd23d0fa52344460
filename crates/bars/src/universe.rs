//! Which symbols belonged when, and how splits and dividends rescale their past.
//!
//! Both are small text files a user brings along. [`Membership`] is a list of `symbol, from, to`; without it a universe
//! is today's survivors. [`Factors`] reads LEAN factor files (`yyyymmdd, price factor, split factor, reference price`;
//! the symbol is the file's name) and tables with a header: `symbol, date, factor` or `symbol, date, split, dividend`.
//!
//! Symbols compare without regard to case. Dates are the exchange's dates, the ones daily bars carry as midnight UTC.
//! **A factor changes the past only: the last price in the file is the price that was paid.**

use files::{Error, Result};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::path::Path;

const DAY: i64 = 86_400_000_000_000;

/// When each symbol belonged to the universe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Membership {
    spans: BTreeMap<String, Vec<(i64, i64)>>, // by upper-case symbol, sorted, apart
}

impl Membership {
    /// Reads `symbol, from, to` lines; the header is optional and then fixes the order. `to` is the last day inside,
    /// empty while it still belongs; `from` may be empty where it always did.
    pub fn parse(path: &Path, text: &str) -> Result<Membership> {
        let mut lines = Lines::new(path, text);
        let first = lines.peek();
        let named = first.iter().all(|field| parse_date(field).is_none()) && !first.is_empty();
        let [symbol, from, to] = if named {
            lines.next();
            let find = |names: &[&str]| first.iter().position(|f| names.contains(&header(f).as_str()));
            let symbol = find(&["symbol", "ticker", "name", "code", "instrument"]);
            let from =
                find(&["from", "start", "added", "dateadded", "entry", "since", "begin", "startdate", "fromdate"]);
            let to =
                find(&["to", "end", "removed", "dateremoved", "exit", "until", "thru", "through", "enddate", "todate"]);
            let (Some(symbol), Some(from)) = (symbol, from) else {
                let message = format!(
                    "a membership file needs the columns symbol, from and to, this one has {}",
                    first.join(", ")
                );
                return Err(Error::input(message).at(path).line(lines.line).remedy("name the columns symbol,from,to"));
            };
            [symbol, from, to.unwrap_or(usize::MAX)]
        } else {
            [0, 1, 2]
        };
        let mut membership = Membership::default();
        while let Some(fields) = lines.next() {
            let name = match fields.get(symbol) {
                Some(name) if !name.is_empty() => name,
                _ => return Err(lines.error(symbol, "the symbol is missing")),
            };
            let field = |at: usize| fields.get(at).copied().filter(|f| !f.is_empty());
            let day = |at: usize| match field(at) {
                None => Ok(None),
                Some(text) => parse_date(text).map(Some).ok_or_else(|| {
                    lines.error(at, format!("`{text}` is not a date")).remedy("write dates as 2020-08-31")
                }),
            };
            let (start, last) = (day(from)?, day(to)?);
            if let (Some(start), Some(last)) = (start, last)
                && start > last
            {
                let message = format!("{name} leaves ({}) before it joins ({})", fields[to], fields[from]);
                return Err(lines.error(to, message).remedy("swap the two dates or correct them"));
            }
            let start = start.map_or(i64::MIN, |d| i64::from(d) * DAY);
            let end = last.map_or(i64::MAX, |d| (i64::from(d) + 1) * DAY);
            membership.spans.entry(name.to_ascii_uppercase()).or_default().push((start, end));
        }
        if membership.spans.is_empty() {
            return Err(Error::input("the membership file names no symbol").at(path));
        }
        for spans in membership.spans.values_mut() {
            spans.sort_unstable();
            let mut merged: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
            for &(from, to) in spans.iter() {
                match merged.last_mut() {
                    Some(last) if from <= last.1 => last.1 = last.1.max(to),
                    _ => merged.push((from, to)),
                }
            }
            *spans = merged;
        }
        Ok(membership)
    }

    /// When that symbol belonged, `[from, to)` in nanoseconds, sorted and apart. Empty means it is not in the file; ask
    /// [`Membership::contains`], because in [`crate::Bars::member`] empty means always.
    pub fn spans(&self, symbol: &str) -> Vec<(i64, i64)> {
        self.spans.get(&symbol.to_ascii_uppercase()).cloned().unwrap_or_default()
    }

    /// Whether the file names that symbol.
    pub fn contains(&self, symbol: &str) -> bool {
        self.spans.contains_key(&symbol.to_ascii_uppercase())
    }

    /// The symbols named, in upper case, sorted.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        self.spans.keys().map(String::as_str)
    }
}

/// Split and dividend factors of many symbols.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Factors {
    steps: BTreeMap<String, Vec<FactorStep>>, // by upper-case symbol, rising `before`
}

/// What bars before a day are multiplied by; later steps are already included.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FactorStep {
    before: i32, // bars of earlier days, back to the previous step, are rescaled
    price: f64,
    volume: f64,
    cash: f64, // dividend a share on that day, turned into a factor once the close before it is known
}

impl Factors {
    /// Reads one file: LEAN's, or a table.
    ///
    /// LEAN: a row holds for bars up to and including its date; prices times `price factor · split factor`, volume over
    /// `split factor`. Table: `date` is the first day at the new level. `factor` multiplies every price before it (and
    /// divides the volume); `split` is new shares for one old (2 is two for one; 0 and empty are none); `dividend` is
    /// money per share.
    pub fn parse(path: &Path, text: &str) -> Result<Factors> {
        let mut lines = Lines::new(path, text);
        let first = lines.peek();
        let lean = first.len() >= 3 && first[0].len() == 8 && first.iter().all(|f| f.parse::<f64>().is_ok());
        let mut steps: BTreeMap<String, Vec<FactorStep>> = BTreeMap::new();
        if lean {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_ascii_uppercase()).unwrap_or_default();
            let rows = steps.entry(stem).or_default();
            while let Some(fields) = lines.next() {
                let (price, split) = (lines.parse_positive(&fields, 1)?, lines.parse_positive(&fields, 2)?);
                let before = lines.parse_date(&fields, 0)?.saturating_add(1);
                rows.push(FactorStep { before, price: price * split, volume: 1.0 / split, cash: 0.0 });
            }
            // A date given twice: the later line counts.
            rows.sort_by_key(|step| step.before);
            rows.reverse();
            rows.dedup_by_key(|step| step.before);
            rows.reverse();
        } else {
            let columns = FactorColumns::find(&mut lines)?;
            while let Some(fields) = lines.next() {
                let name = match fields.get(columns.symbol) {
                    Some(name) if !name.is_empty() => name.to_ascii_uppercase(),
                    _ => return Err(lines.error(columns.symbol, "the symbol is missing")),
                };
                let mut step =
                    FactorStep { before: lines.parse_date(&fields, columns.date)?, price: 1.0, volume: 1.0, cash: 0.0 };
                if let Some(at) = columns.factor {
                    step.price = lines.parse_positive(&fields, at)?;
                    step.volume = 1.0 / step.price;
                }
                if let Some(at) = columns.split
                    && let Some(split) = lines.parse_optional(&fields, at)?
                {
                    step.price /= split;
                    step.volume *= split;
                }
                if let Some(at) = columns.dividend {
                    step.cash = lines.parse_optional(&fields, at)?.unwrap_or(0.0);
                }
                steps.entry(name).or_default().push(step);
            }
            for rows in steps.values_mut() {
                rows.sort_by_key(|step| step.before);
                for i in (1..rows.len()).rev() {
                    rows[i - 1].price *= rows[i].price;
                    rows[i - 1].volume *= rows[i].volume;
                }
            }
        }
        if steps.values().all(Vec::is_empty) {
            return Err(Error::input("the factor file has no row").at(path));
        }
        Ok(Factors { steps })
    }

    /// Takes in another file's symbols; one that both have is an error, because their factors would multiply.
    pub fn merge(&mut self, other: Factors) -> Result<()> {
        if let Some(symbol) = other.steps.keys().find(|symbol| self.steps.contains_key(*symbol)) {
            return Err(Error::input(format!("two factor files give factors for {symbol}")).remedy("keep one of them"));
        }
        self.steps.extend(other.steps);
        Ok(())
    }

    /// Whether there are factors for that symbol.
    pub fn contains(&self, symbol: &str) -> bool {
        self.steps.contains_key(&symbol.to_ascii_uppercase())
    }

    /// What prices and volume of a bar at that time are multiplied by, by its UTC date. Dividends given as money are
    /// left out, since they need the close before; [`Factors::apply`] has it.
    pub fn at(&self, symbol: &str, ns: i64) -> (f64, f64) {
        self.at_day(symbol, utc_day(ns))
    }

    /// The same for a day since 1970.
    pub fn at_day(&self, symbol: &str, day: i32) -> (f64, f64) {
        let steps = self.steps_of(symbol);
        steps.get(steps.partition_point(|step| step.before <= day)).map_or((1.0, 1.0), |step| (step.price, step.volume))
    }

    /// Whether a jump of raw prices by `ratio` (new over old) in the bar that starts at `ns` is a step of that size.
    /// `tolerance` is in logarithms (0.05 is about 5 %); the step may lie up to five days earlier, since weekends and
    /// holidays lie between.
    pub fn explains_jump(&self, symbol: &str, ns: i64, ratio: f64, tolerance: f64) -> bool {
        let (steps, day) = (self.steps_of(symbol), utc_day(ns));
        steps.iter().enumerate().any(|(i, step)| {
            let after = steps.get(i + 1).map_or(1.0, |next| next.price);
            let expected = (step.price / after).ln();
            (day - 5..=day + 1).contains(&step.before)
                && (ratio.ln() - expected).abs() <= tolerance
                && expected.abs() > 1e-9
        })
    }

    /// Rescales the columns of one symbol, oldest bar first, and says how many bars changed.
    pub fn apply(&self, symbol: &str, start: &[i64], prices: [&mut [f64]; 4], volume: &mut [f64]) -> usize {
        let days: Vec<i32> = start.iter().map(|&ns| utc_day(ns)).collect();
        self.apply_days(symbol, &days, prices, volume)
    }

    /// The same with the bars' trading days, `[n]` (see [`crate::Session::trading_days`]): right for intraday bars
    /// whose session spans midnight UTC. `prices` are open, high, low, close, each `[n]`; `volume` is `[n]` or empty.
    pub fn apply_days(&self, symbol: &str, days: &[i32], prices: [&mut [f64]; 4], volume: &mut [f64]) -> usize {
        let steps = self.steps_of(symbol);
        let [open, high, low, close] = prices;
        // Newest step first: `cash` gathers the dividends paid after the bar at hand.
        let (mut at, mut cash, mut changed) = (steps.len(), 1.0, 0);
        for i in (0..days.len()).rev() {
            while at > 0 && days[i] < steps[at - 1].before {
                at -= 1;
                // Bar i is the last before that step, and its close is still as it was traded.
                let share = steps[at].cash / close[i];
                if share > 0.0 && share < 1.0 {
                    cash *= 1.0 - share;
                }
            }
            let Some(step) = steps.get(at) else { continue };
            let factor = step.price * cash;
            for column in [&mut *open, &mut *high, &mut *low, &mut *close] {
                column[i] *= factor;
            }
            if let Some(v) = volume.get_mut(i) {
                *v *= step.volume;
            }
            changed += usize::from(factor != 1.0 || step.volume != 1.0);
        }
        changed
    }

    fn steps_of(&self, symbol: &str) -> &[FactorStep] {
        self.steps.get(&symbol.to_ascii_uppercase()).map_or(&[], Vec::as_slice)
    }
}

/// Where a factor table has what.
struct FactorColumns {
    symbol: usize,
    date: usize,
    factor: Option<usize>,
    split: Option<usize>,
    dividend: Option<usize>,
}

impl FactorColumns {
    fn find(lines: &mut Lines<'_>) -> Result<FactorColumns> {
        let first = lines.peek();
        if first.len() >= 3 && parse_date(first[1]).is_some() {
            return Ok(FactorColumns { symbol: 0, date: 1, factor: Some(2), split: None, dividend: None });
        }
        lines.next();
        let find = |names: &[&str]| first.iter().position(|f| names.contains(&header(f).as_str()));
        let symbol = find(&["symbol", "ticker", "name", "code", "instrument"]);
        let day = find(&["date", "exdate", "effectivedate", "day"]);
        let factor = find(&["factor", "adjfactor", "adjustmentfactor", "pricefactor"]);
        let split = find(&["split", "splits", "stocksplits", "ratio", "splitratio", "splitfactor"]);
        let dividend = find(&["dividend", "dividends", "exdividend", "cash", "amount"]);
        match (symbol, day) {
            (Some(symbol), Some(date)) if factor.or(split).or(dividend).is_some() => {
                Ok(FactorColumns { symbol, date, factor, split, dividend })
            }
            _ => Err(Error::input(format!(
                "a factor table needs the columns symbol, date and one of factor, split, dividend; this one has {}",
                first.join(", ")
            ))
            .at(lines.path)
            .line(lines.line)
            .remedy("name the columns symbol,date,factor, or bring LEAN factor files")),
        }
    }
}

/// The lines of a small table with their numbers; blank lines and `#` comments are skipped.
struct Lines<'a> {
    path: &'a Path,
    rest: std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>,
    separator: char,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(path: &'a Path, text: &'a str) -> Lines<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let head = text.lines().find(|line| !is_blank(line)).unwrap_or("");
        let separator = [',', ';', '\t', ' '].into_iter().find(|s| head.contains(*s)).unwrap_or(',');
        Lines { path, rest: text.lines().enumerate().peekable(), separator, line: 0 }
    }

    /// The fields of the next line, which stays.
    fn peek(&mut self) -> Vec<&'a str> {
        while self.rest.next_if(|(_, line)| is_blank(line)).is_some() {}
        let separator = self.separator;
        self.rest.peek().map(|(_, line)| split_fields(line, separator)).unwrap_or_default()
    }

    fn next(&mut self) -> Option<Vec<&'a str>> {
        while self.rest.next_if(|(_, line)| is_blank(line)).is_some() {}
        let (at, line) = self.rest.next()?;
        self.line = at as u64 + 1;
        Some(split_fields(line, self.separator))
    }

    fn error(&self, column: usize, message: impl Into<String>) -> Error {
        Error::input(message).at(self.path).line(self.line).column(column as u64 + 1)
    }

    fn parse_date(&self, fields: &[&str], column: usize) -> Result<i32> {
        let text = fields.get(column).copied().unwrap_or("");
        parse_date(text).ok_or_else(|| {
            self.error(column, format!("`{text}` is not a date")).remedy("write dates as 2020-08-31 or 20200831")
        })
    }

    fn parse_positive(&self, fields: &[&str], column: usize) -> Result<f64> {
        let text = fields.get(column).copied().unwrap_or("");
        let bad = || self.error(column, format!("`{text}` is not a factor; a factor is a number above 0"));
        text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0).ok_or_else(bad)
    }

    /// Empty, NaN and 0 are none.
    fn parse_optional(&self, fields: &[&str], column: usize) -> Result<Option<f64>> {
        match fields.get(column).copied().unwrap_or("") {
            "" => Ok(None),
            text if text.parse::<f64>().is_ok_and(|x| x == 0.0 || x.is_nan()) => Ok(None),
            _ => self.parse_positive(fields, column).map(Some),
        }
    }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn split_fields(line: &str, separator: char) -> Vec<&str> {
    line.split(separator).map(|field| field.trim().trim_matches('"').trim()).collect()
}

/// `Date Added`, `date_added` and `DATEADDED` are one name.
fn header(field: &str) -> String {
    field.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_ascii_lowercase()
}

/// Days since 1970 of `2020-08-31`, `20200831` or either with a time behind.
fn parse_date(text: &str) -> Option<i32> {
    let parse = |y: &str, m: &str, d: &str| {
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if !(digits(y) && digits(m) && digits(d)) {
            return None;
        }
        let date = Date::new(y.parse().ok()?, m.parse().ok()?, d.parse().ok()?).ok()?;
        // Nanoseconds end in 2262.
        (1678..=2261).contains(&date.year()).then(|| (date - Date::constant(1970, 1, 1)).get_days())
    };
    let day = text.split(['T', ' ']).next()?;
    match day.len() {
        8 => parse(day.get(..4)?, day.get(4..6)?, day.get(6..)?),
        10 if matches!(day.as_bytes()[4], b'-' | b'/') && day.as_bytes()[7] == day.as_bytes()[4] => {
            parse(day.get(..4)?, day.get(5..7)?, day.get(8..)?)
        }
        _ => None,
    }
}

fn utc_day(ns: i64) -> i32 {
    ns.div_euclid(DAY) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> i64 {
        i64::from(parse_date(text).unwrap()) * DAY
    }

    fn members(text: &str) -> Result<Membership> {
        Membership::parse(Path::new("members.csv"), text)
    }

    #[test]
    fn membership_spans_are_sorted_and_merged() {
        let text = "to,Symbol,From\n2020-12-31,aapl,2020-01-01\n,AAPL,2021-06-01\n2021-02-01,AAPL,2021-01-01\n\n# gone\n2015-06-30,YHOO,\n";
        let m = members(text).unwrap();
        assert_eq!(m.spans("AAPL"), [(at("2020-01-01"), at("2021-02-02")), (at("2021-06-01"), i64::MAX)]);
        assert_eq!(m.spans("yhoo"), [(i64::MIN, at("2015-07-01"))]);
        assert!(m.spans("MSFT").is_empty() && !m.contains("MSFT"));
        assert_eq!(m.symbols().collect::<Vec<_>>(), ["AAPL", "YHOO"]);
        assert_eq!(
            members("A,2020-01-01,\nB,2020-01-01,2020-01-01\n").unwrap().spans("B"),
            [(at("2020-01-01"), at("2020-01-02"))]
        );
        assert_eq!(members("A;20200101;20200102\r\n").unwrap().spans("A").len(), 1);
        assert_eq!(members("\u{feff}ticker\tstart\nA\t2020-01-01").unwrap().spans("a")[0].1, i64::MAX);
    }

    #[test]
    fn membership_errors_name_the_line() {
        for (text, line, says) in [
            ("symbol,from,to\nA,2020-01-02,2020-01-01\n", 2, "leaves"),
            ("symbol,from,to\nA,2020-01-02,\n,2020-01-01,\n", 3, "symbol is missing"),
            ("A,2020-01-01,2020-13-01", 1, "not a date"),
            ("A,2020-02-30,2021-01-01\nB,2020-01-01,", 1, "not a date"),
            ("who,when\nA,2020-01-01", 1, "needs the columns"),
        ] {
            let error = members(text).unwrap_err();
            assert_eq!(error.line, Some(line), "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(error.to_string().starts_with("members.csv:"), "{error}");
        }
        assert!(members("").is_err());
    }

    #[test]
    fn factors_scale_earlier_prices() {
        let f = Factors::parse(
            Path::new("f.csv"),
            "symbol,date,factor\nabc,2020-06-01,0.5\nABC,2021-06-01,0.25\nX,2020-01-01,2\n",
        )
        .unwrap();
        assert_eq!(f.at("Abc", at("2020-05-31")), (0.125, 8.0));
        assert_eq!(f.at("Abc", at("2020-06-01")), (0.25, 4.0));
        assert_eq!(f.at("Abc", at("2021-06-01")), (1.0, 1.0));
        assert_eq!(f.at("none", 0), (1.0, 1.0));
        assert!(
            f.explains_jump("abc", at("2020-06-01"), 0.51, 0.05)
                && !f.explains_jump("abc", at("2020-06-01"), 0.4, 0.05)
        );
        assert!(
            f.explains_jump("abc", at("2020-06-03"), 0.5, 0.05) && !f.explains_jump("abc", at("2020-07-01"), 0.5, 0.05)
        );
        assert!(!f.explains_jump("abc", at("2020-06-01"), f64::NAN, 0.05));
    }

    #[test]
    fn splits_and_dividends_leave_no_gap() {
        // Close 100, then a dividend of 10 opens at 90; close 90, then three for one opens at 30.
        let f = Factors::parse(
            Path::new("f.csv"),
            "Date,Symbol,Dividends,Stock Splits\n2020-01-02,A,10,0\n2020-01-03,A,0,3\n",
        )
        .unwrap();
        let start: Vec<i64> = ["2020-01-01", "2020-01-02", "2020-01-03"].map(at).to_vec();
        let mut close = vec![100.0, 90.0, 30.0];
        let (mut open, mut high, mut low) = (close.clone(), close.clone(), close.clone());
        let mut volume = vec![10.0, 10.0, 30.0];
        let changed = f.apply("a", &start, [&mut open, &mut high, &mut low, &mut close], &mut volume);
        assert_eq!(changed, 2);
        for (&adjusted, v) in close.iter().zip(volume) {
            assert!((adjusted - 30.0).abs() < 1e-12 && v == 30.0, "{adjusted} {v}");
        }
        assert_eq!(f.at("A", start[0]).0, 1.0 / 3.0);
    }

    #[test]
    fn factor_errors_name_the_line() {
        for (name, text, line, says) in [
            ("aapl.csv", "20200101,1,1,1\n20200201,0,1,1\n", 2, "not a factor"),
            ("aapl.csv", "20200101,1,1,1\nfoo,1,1,1\n", 2, "not a date"),
            ("aapl.csv", "20200101,1,1,1\n20200301\n", 2, "not a factor"),
            ("t.csv", "symbol,date,factor\nA,2020-01-01,-1\n", 2, "not a factor"),
            ("t.csv", "symbol,when\nA,2020-01-01\n", 1, "needs the columns"),
        ] {
            let error = Factors::parse(Path::new(name), text).unwrap_err();
            assert_eq!(error.line, Some(line), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(Factors::parse(Path::new("x.csv"), "").is_err());
        let one = |name: &str| Factors::parse(Path::new(name), "20200101,1,0.5,1\n").unwrap();
        let mut both = one("a.csv");
        both.merge(one("b.csv")).unwrap();
        assert!(both.contains("A") && both.contains("B") && both.merge(one("A.csv")).is_err());
    }

    #[test]
    fn lean_factor_files_remove_the_split() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/raw/lean/equity/usa/factor_files");
        let mut factors = Factors::default();
        for name in ["aapl", "spy", "uso", "eem"] {
            let path = folder.join(format!("{name}.csv"));
            let Ok(text) = std::fs::read_to_string(&path) else {
                #[expect(clippy::print_stderr, reason = "a skipped test says so")]
                {
                    eprintln!("skipped: {} is not here", path.display());
                }
                return;
            };
            factors.merge(Factors::parse(&path, &text).unwrap()).unwrap();
        }
        // Four for one on 2020-08-31; the row of 2020-08-28 holds up to that Friday.
        let (price, volume) = factors.at("AAPL", at("2020-08-28"));
        assert!((price - 0.9967882 * 0.25).abs() < 1e-12 && volume == 4.0);
        assert_eq!(factors.at("AAPL", at("2020-08-31")), (0.9967882, 1.0));
        assert_eq!(factors.at("AAPL", at("2021-03-01")), (1.0, 1.0));
        assert!((factors.at("AAPL", at("1980-12-12")).0 - 0.8613657 * 0.00892857).abs() < 1e-12);
        assert!(factors.explains_jump("aapl", at("2020-08-31"), 129.04 / 499.23, 0.05));
        assert!(!factors.explains_jump("aapl", at("2020-08-26"), 0.25, 0.05));
        // One for eight.
        assert!(factors.explains_jump("USO", at("2020-04-29"), 8.05, 0.1));
        // Prices around the split join up: 499.23 raw on the 28th, 129.04 on the 31st.
        let start = [at("2020-08-28"), at("2020-08-31")];
        let mut close = [499.23, 129.04];
        let (mut open, mut high, mut low) = (close, close, close);
        factors.apply("aapl", &start, [&mut open, &mut high, &mut low, &mut close], &mut []);
        assert!((close[1] / close[0] - 1.034).abs() < 0.001, "{close:?}");
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "[a-z0-9,;\\-\n\"# .€]{0,200}") {
            let _ = members(&text);
            let _ = Factors::parse(Path::new("x.csv"), &text);
        }

        #[test]
        fn spans_are_sorted_and_apart(days in prop::collection::vec((0i32..400, 0i32..50), 1..20)) {
            let text: String = days.iter().map(|&(from, length)| {
                let day = |d: i32| Date::constant(2020, 1, 1).checked_add(jiff::Span::new().days(d)).unwrap();
                format!("A,{},{}\n", day(from), day(from + length))
            }).collect();
            let spans = members(&text).unwrap().spans("a");
            prop_assert!(spans.iter().all(|(from, to)| from < to) && spans.windows(2).all(|w| w[0].1 < w[1].0));
            for probe in 0..460 {
                let inside = days.iter().any(|&(from, length)| (from..=from + length).contains(&probe));
                let ns = at("2020-01-01") + i64::from(probe) * DAY;
                prop_assert_eq!(inside, spans.iter().any(|&(from, to)| from <= ns && ns < to));
            }
        }
    }
}
