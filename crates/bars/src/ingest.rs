//! One stretch of a file to rows: UTC, one symbol each, prices f64, checked, in file order.

use crate::recognise::{Layout, Prices, TimeColumns};
use crate::{BadBars, Options};
use files::{Data, Error, MISSING_TIME, Result, Table, time};
use std::path::Path;

const DAY: i64 = 86_400_000_000_000;
/// No price of any market; beyond it a number is a mistake.
const ABSURD: f64 = 1e12;
/// Nor is this a volume, in any unit.
const ABSURD_VOLUME: f64 = 1e18;

/// Rows of one symbol. All columns have the same length.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    /// `[n]` the stamp, UTC nanoseconds; later the start of the bar.
    pub stamp: Vec<i64>,
    /// `[n]` the end where the file states it ([`MISSING_TIME`] elsewhere), or empty; later the end of the bar.
    pub end: Vec<i64>,
    /// open, high, low, close, volume, each `[n]`; a missing volume is NaN
    pub values: [Vec<f64>; 5],
    /// each `[n]`
    pub extras: Vec<Vec<f64>>,
}

/// What was counted while rows came in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub rows: u64,
    pub unreadable: u64,
    pub bad_prices: u64,
    /// Of them, those the user wants to keep.
    pub bad_kept: u64,
    pub range: u64,
    pub bad_volumes: u64,
    pub absent: u64,
    pub bad_extras: u64,
    pub units: [u64; 4],
    /// Days since 1970 that lost rows here: no holidays, whatever is left of them.
    pub dropped_days: Vec<i32>,
    pub examples: Examples,
}

/// One case of each kind, with file, line and value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Examples {
    pub unreadable: Option<String>,
    pub bad_price: Option<String>,
    pub range: Option<String>,
    pub bad_volume: Option<String>,
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowFate {
    Keep,
    Unreadable,
    /// A wide table's symbol before its first listing.
    Absent,
    BadPrice,
    BadPriceKept,
    Range,
    RangeKept,
}

impl Tally {
    /// Counts each fate; gives the rows that stay.
    fn count_fates(&mut self, stamps: &[i64], fates: impl Iterator<Item = (usize, RowFate)>) -> Vec<u32> {
        let mut kept = Vec::new();
        for (row, fate) in fates {
            match fate {
                RowFate::Keep => {}
                RowFate::Unreadable => self.unreadable += 1,
                RowFate::Absent => self.absent += 1,
                RowFate::BadPrice => self.bad_prices += 1,
                RowFate::BadPriceKept => {
                    self.bad_prices += 1;
                    self.bad_kept += 1;
                }
                RowFate::Range | RowFate::RangeKept => self.range += 1,
            }
            if matches!(fate, RowFate::Keep | RowFate::RangeKept | RowFate::BadPriceKept) {
                kept.push(row as u32);
            } else if matches!(fate, RowFate::BadPrice | RowFate::Range) {
                let day = stamps[row].div_euclid(DAY) as i32;
                if self.dropped_days.last() != Some(&day) {
                    self.dropped_days.push(day);
                }
            }
        }
        kept
    }

    /// Adds another's counts; examples stay the first met.
    pub(crate) fn add(&mut self, other: Tally) {
        self.rows += other.rows;
        self.unreadable += other.unreadable;
        self.bad_prices += other.bad_prices;
        self.bad_kept += other.bad_kept;
        self.range += other.range;
        self.bad_volumes += other.bad_volumes;
        self.absent += other.absent;
        self.bad_extras += other.bad_extras;
        self.dropped_days.extend(other.dropped_days);
        for (mine, theirs) in self.units.iter_mut().zip(other.units) {
            *mine += theirs;
        }
        let Examples { unreadable, bad_price, range, bad_volume } = other.examples;
        self.examples.unreadable = self.examples.unreadable.take().or(unreadable);
        self.examples.bad_price = self.examples.bad_price.take().or(bad_price);
        self.examples.range = self.examples.range.take().or(range);
        self.examples.bad_volume = self.examples.bad_volume.take().or(bad_volume);
    }
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.stamp.len()
    }

    /// Bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * 8 * (1 + usize::from(!self.end.is_empty()) + 5 + self.extras.len())
    }

    /// All columns of numbers, extras last.
    pub(crate) fn numbers_mut(&mut self) -> impl Iterator<Item = &mut Vec<f64>> {
        self.values.iter_mut().chain(self.extras.iter_mut())
    }

    /// Keeps the rows at these indices, in this order.
    pub(crate) fn select_rows(&self, rows: &[u32]) -> Rows {
        let f = |v: &Vec<f64>| rows.iter().map(|r| v[*r as usize]).collect();
        let t = |v: &Vec<i64>| if v.is_empty() { Vec::new() } else { rows.iter().map(|r| v[*r as usize]).collect() };
        let [o, h, l, c, v] = &self.values;
        Rows {
            stamp: t(&self.stamp),
            end: t(&self.end),
            values: [f(o), f(h), f(l), f(c), f(v)],
            extras: self.extras.iter().map(f).collect(),
        }
    }

    /// Adds rows of the same shape behind.
    pub(crate) fn extend(&mut self, other: &Rows) {
        // A file may learn of ends or extras later than another; what it did not have is missing.
        if self.end.is_empty() && !other.end.is_empty() {
            self.end = vec![MISSING_TIME; self.len()];
        }
        while self.extras.len() < other.extras.len() {
            self.extras.push(vec![f64::NAN; self.len()]);
        }
        let total = self.len() + other.len();
        if !self.end.is_empty() || !other.end.is_empty() {
            self.end.extend_from_slice(&other.end);
            self.end.resize(total, MISSING_TIME);
        }
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            mine.extend_from_slice(theirs);
        }
        for (at, mine) in self.extras.iter_mut().enumerate() {
            if let Some(theirs) = other.extras.get(at) {
                mine.extend_from_slice(theirs);
            }
            mine.resize(total, f64::NAN);
        }
        self.stamp.extend_from_slice(&other.stamp);
    }
}

/// The stamps of a batch as nanoseconds, and whether their zone is stated.
pub(crate) fn read_stamps<'a>(at: TimeColumns, get: &dyn Fn(usize) -> Option<&'a Data>) -> (Vec<i64>, bool) {
    read_stamps_counting_units(at, get, &mut [0; 4])
}

fn read_stamps_counting_units<'a>(
    at: TimeColumns,
    get: &dyn Fn(usize) -> Option<&'a Data>,
    units: &mut [u64; 4],
) -> (Vec<i64>, bool) {
    let stamps = |at: usize| match get(at) {
        Some(Data::Time { ns, utc }) => (ns.clone(), *utc),
        Some(Data::I64(v)) => (v.iter().map(|x| date_number(*x)).collect(), false),
        Some(Data::F64(v)) => (v.iter().map(|x| date_number(*x as i64)).collect(), false),
        _ => (Vec::new(), false),
    };
    match at {
        TimeColumns::Stamp(at) | TimeColumns::DateNumber(at) => stamps(at),
        TimeColumns::Epoch(at) => {
            let mut count = |found: Option<(i64, time::Unit)>| match found {
                Some((ns, unit)) => {
                    units[unit as usize] += 1;
                    ns
                }
                None => MISSING_TIME,
            };
            let ns = match get(at) {
                Some(Data::I64(v)) => v.iter().map(|x| count(time::epoch_ns(*x))).collect(),
                Some(Data::F64(v)) => v.iter().map(|x| count(float_epoch(*x))).collect(),
                _ => Vec::new(),
            };
            (ns, true)
        }
        TimeColumns::DateAndClock(date, clock) => {
            let (mut ns, utc) = stamps(date);
            let of_day = |row: usize| match get(clock) {
                Some(Data::Clock(v)) => v[row],
                Some(Data::I64(v)) => time::parse_clock(format!("{:06}", v[row]).as_bytes()).unwrap_or(MISSING_TIME),
                _ => MISSING_TIME,
            };
            for (row, ns) in ns.iter_mut().enumerate().filter(|(_, ns)| **ns != MISSING_TIME) {
                let clock = of_day(row);
                *ns = if clock == MISSING_TIME { MISSING_TIME } else { *ns + clock };
            }
            (ns, utc)
        }
        TimeColumns::SinceMidnight(at, day) => {
            let ms = |x: i64| if (0..=86_400_000).contains(&x) { day + x * 1_000_000 } else { MISSING_TIME };
            let ns = match get(at) {
                Some(Data::I64(v)) => v.iter().map(|x| ms(*x)).collect(),
                Some(Data::F64(v)) => {
                    v.iter().map(|x| if x.is_finite() { ms(*x as i64) } else { MISSING_TIME }).collect()
                }
                _ => Vec::new(),
            };
            (ns, false)
        }
    }
}

/// 20190102, 201901020304 and 20190102030405 to nanoseconds; [`MISSING_TIME`] for what is no such date.
pub(crate) fn date_number(x: i64) -> i64 {
    let (date, clock) = match x {
        19_000_101..=21_001_231 => (x, 0),
        190_001_010_000..=210_012_312_359 => (x / 10_000, x % 10_000 * 100),
        19_000_101_000_000..=21_001_231_235_959 => (x / 1_000_000, x % 1_000_000),
        _ => return MISSING_TIME,
    };
    let (h, m, s) = (clock / 10_000, clock / 100 % 100, clock % 100);
    let days = time::days(date / 10_000, date / 100 % 100, date % 100).filter(|_| h < 24 && m < 60 && s < 60);
    days.map_or(MISSING_TIME, |days| days * DAY + ((h * 60 + m) * 60 + s) * 1_000_000_000)
}

/// Epochs with a fraction: seconds and milliseconds keep it.
fn float_epoch(x: f64) -> Option<(i64, time::Unit)> {
    if !(1e8..9e18).contains(&x) {
        return None;
    }
    let (ns, unit) = time::epoch_ns(x as i64)?;
    let scale = match unit {
        time::Unit::S => 1e9,
        time::Unit::Ms => 1e6,
        time::Unit::Us => 1e3,
        time::Unit::Ns => 1.0,
    };
    Some((ns.checked_add((x.fract() * scale).round() as i64)?, unit))
}

/// A batch on its way in.
pub(crate) struct Batch<'a> {
    pub path: &'a Path,
    pub layout: &'a Layout,
    /// `place[i]` is where column `i` of the layout stands in the table.
    pub place: &'a [Option<usize>],
    /// The line of a row, where the container has lines.
    pub line: &'a dyn Fn(usize) -> Option<u64>,
    pub options: &'a Options,
}

/// One symbol's rows of a batch.
pub(crate) struct Part {
    /// `None`: the file's own symbol.
    pub symbol: Option<String>,
    pub rows: Rows,
    pub tally: Tally,
}

impl Batch<'_> {
    /// Splits a table into rows by symbol; bad rows are dropped, kept or refused as the options say.
    pub(crate) fn parts(&self, mut table: Table) -> Result<Vec<Part>> {
        let layout = self.layout;
        let mut tally = Tally { rows: table.rows as u64, ..Tally::default() };
        let (mut label, stated) = read_stamps_counting_units(
            layout.time,
            &|at| Some(&table.columns.get(self.place.get(at).copied()??)?.data),
            &mut tally.units,
        );
        if label.len() != table.rows {
            return Err(Error::input("a column changed its type within the file").at(self.path));
        }
        if !stated {
            layout.zone.to_utc(&mut label);
        }
        let end = match layout.end {
            Some(at) => {
                let at = as_time(at, &table, self.place);
                let (mut end, stated) =
                    read_stamps(at, &|at| Some(&table.columns.get(self.place.get(at).copied()??)?.data));
                if !stated {
                    layout.zone.to_utc(&mut end);
                }
                end
            }
            None => Vec::new(),
        };
        let codes = match layout.symbol.and_then(|at| self.take_column(&mut table, at)) {
            Some(Data::Names { codes, names }) => Some((codes, names)),
            Some(Data::Text(text)) => Some(encode(text.iter())),
            Some(Data::I64(v)) => {
                Some(encode(v.iter().map(|x| x.to_string()).collect::<Vec<_>>().iter().map(String::as_str)))
            }
            _ => None,
        };
        let extras: Vec<Vec<f64>> = layout.extras.iter().map(|(at, _)| self.take_numbers(&mut table, *at)).collect();
        let mut parts = Vec::new();
        let many = layout.groups.len() > 1;
        for group in &layout.groups {
            let mut extras = extras.clone();
            let prices = match &group.prices {
                Prices::Ohlc(at) => at.map(|at| self.take_numbers(&mut table, at)),
                Prices::Quote { bid, ask } => {
                    let bid = bid.map(|at| self.take_numbers(&mut table, at));
                    let ask = ask.map(|at| self.take_numbers(&mut table, at));
                    extras.push(bid[3].iter().zip(&ask[3]).map(|(b, a)| (a - b) / layout.scale).collect());
                    let [bo, bh, bl, bc] = &bid;
                    let [ao, ah, al, ac] = &ask;
                    [midpoints(bo, ao), midpoints(bh, ah), midpoints(bl, al), midpoints(bc, ac)]
                }
            };
            let [o, h, l, c] = prices;
            let volume =
                group.volume.map_or_else(|| vec![f64::NAN; label.len()], |at| self.take_numbers(&mut table, at));
            let mut rows = Rows {
                stamp: if many { label.clone() } else { std::mem::take(&mut label) },
                end: if many { end.clone() } else { Vec::new() },
                values: [o, h, l, c, volume],
                extras,
            };
            if !many {
                rows.end.clone_from(&end);
            }
            if layout.scale != 1.0 {
                for v in rows.values[..4].iter_mut().flatten() {
                    *v /= layout.scale;
                }
            }
            let mut tally = std::mem::take(&mut tally);
            let bad_volumes = self.forget_bad_volumes(&mut rows, &mut tally.examples);
            let fates = self.check(&rows, many, codes.as_ref(), &mut tally.examples)?;
            match (&codes, fates) {
                (None, None) => {
                    tally.bad_volumes = bad_volumes.len() as u64;
                    parts.push(Part { symbol: group.symbol.clone(), rows, tally });
                }
                (None, Some(fates)) => {
                    tally.bad_volumes = bad_volumes.len() as u64;
                    let kept = tally.count_fates(&rows.stamp, fates.iter().copied().enumerate());
                    parts.push(Part { symbol: group.symbol.clone(), rows: rows.select_rows(&kept), tally });
                }
                (Some((codes, names)), fates) => {
                    split_by_symbol(&rows, fates.as_deref(), codes, names, &bad_volumes, tally, &mut parts)
                }
            }
        }
        Ok(parts)
    }

    fn take_column(&self, table: &mut Table, at: usize) -> Option<Data> {
        let column = table.columns.get_mut(self.place.get(at).copied()??)?;
        Some(std::mem::replace(&mut column.data, Data::F64(Vec::new())))
    }

    fn take_numbers(&self, table: &mut Table, at: usize) -> Vec<f64> {
        let rows = table.rows;
        match self.take_column(table, at) {
            Some(Data::F64(v)) if v.len() == rows => v,
            Some(Data::I64(v)) => v.into_iter().map(|x| x as f64).collect(),
            _ => vec![f64::NAN; rows],
        }
    }

    /// Makes volumes missing that are negative or beyond any market; gives their rows.
    fn forget_bad_volumes(&self, rows: &mut Rows, examples: &mut Examples) -> Vec<u32> {
        let volume = &mut rows.values[4];
        let bad = |v: f64| !v.is_nan() && !(0.0..=ABSURD_VOLUME).contains(&v);
        if !volume.iter().fold(false, |any, v| any | bad(*v)) {
            return Vec::new();
        }
        let found: Vec<u32> = (0..volume.len() as u32).filter(|row| bad(volume[*row as usize])).collect();
        for row in &found {
            let was = std::mem::replace(&mut volume[*row as usize], f64::NAN);
            examples.bad_volume.get_or_insert_with(|| self.example(*row as usize, &format!("volume {was}")));
        }
        found
    }

    /// Looks at every row; `None` if all may stay, else what becomes of each.
    fn check(
        &self,
        rows: &Rows,
        wide: bool,
        codes: Option<&(Vec<u32>, Vec<String>)>,
        examples: &mut Examples,
    ) -> Result<Option<Vec<RowFate>>> {
        let [o, h, l, c, _] = &rows.values;
        let n = rows.len();
        let fine = |i: usize| {
            let (o, h, l, c) = (o[i], h[i], l[i], c[i]);
            // `max` and `min` pass over NaN, hence the look at the sum.
            l > 0.0
                && h < ABSURD
                && h >= o.max(c)
                && l <= o.min(c)
                && !(o + c).is_nan()
                && rows.stamp[i] != MISSING_TIME
        };
        let clean = (0..n).fold(true, |all, i| all & fine(i));
        let named = codes.is_none_or(|(codes, _)| codes.iter().all(|code| *code != u32::MAX));
        if clean && named {
            return Ok(None);
        }
        let mut fates = vec![RowFate::Keep; n];
        for (i, fate) in fates.iter_mut().enumerate() {
            let prices = [o[i], h[i], l[i], c[i]];
            if rows.stamp[i] == MISSING_TIME {
                examples.unreadable.get_or_insert_with(|| self.example(i, "no readable time"));
                *fate = RowFate::Unreadable;
            } else if codes.is_some_and(|(codes, _)| codes[i] == u32::MAX) {
                examples.unreadable.get_or_insert_with(|| self.example(i, "no symbol"));
                *fate = RowFate::Unreadable;
            } else if wide && prices.iter().all(|p| p.is_nan()) {
                *fate = RowFate::Absent;
            } else if prices.iter().any(|p| !(*p > 0.0 && *p < ABSURD)) {
                examples.bad_price.get_or_insert_with(|| self.example(i, &format_prices(&prices)));
                let what = || format!("a price is missing, zero, negative or absurd: {}", format_prices(&prices));
                self.apply_policy(self.options.repairs.bad_prices, i, what, "repair.bad_prices")?;
                // Only what is a number and in order can be kept: a negative price, not a missing one.
                let whole = prices.iter().all(|p| p.abs() < ABSURD) && h[i] >= o[i].max(c[i]) && l[i] <= o[i].min(c[i]);
                let keep = whole && self.options.repairs.bad_prices == BadBars::Keep;
                *fate = if keep { RowFate::BadPriceKept } else { RowFate::BadPrice };
            } else if h[i] < o[i].max(c[i]) || l[i] > o[i].min(c[i]) {
                examples.range.get_or_insert_with(|| self.example(i, &format_prices(&prices)));
                let what = || format!("high or low between open and close: {}", format_prices(&prices));
                self.apply_policy(self.options.repairs.range, i, what, "repair.range")?;
                *fate = if self.options.repairs.range == BadBars::Keep { RowFate::RangeKept } else { RowFate::Range };
            }
        }
        Ok(Some(fates))
    }

    fn apply_policy(&self, policy: BadBars, row: usize, message: impl Fn() -> String, key: &str) -> Result<()> {
        if policy != BadBars::Refuse {
            return Ok(());
        }
        let mut error =
            Error::input(message()).at(self.path).remedy(format!("correct the row, or set {key} = \"drop\""));
        error.line = (self.line)(row);
        Err(error)
    }

    fn example(&self, row: usize, what: &str) -> String {
        let file = self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        match (self.line)(row) {
            Some(line) => format!("{file}:{line}: {what}"),
            None => format!("{file}, row {}: {what}", row + 1),
        }
    }
}

fn as_time(at: usize, table: &Table, place: &[Option<usize>]) -> TimeColumns {
    let data = place.get(at).copied().flatten().and_then(|p| table.columns.get(p)).map(|c| &c.data);
    if matches!(data, Some(Data::Time { .. })) { TimeColumns::Stamp(at) } else { TimeColumns::Epoch(at) }
}

fn midpoints(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect()
}

fn format_prices(prices: &[f64; 4]) -> String {
    format!("open {}, high {}, low {}, close {}", prices[0], prices[1], prices[2], prices[3])
}

fn encode<'a>(texts: impl Iterator<Item = &'a str>) -> (Vec<u32>, Vec<String>) {
    let mut names: Vec<String> = Vec::new();
    let mut known: std::collections::HashMap<String, u32> = std::collections::HashMap::new();
    let codes = texts
        .map(|t| {
            if t.is_empty() {
                return u32::MAX;
            }
            *known.entry(t.to_string()).or_insert_with(|| {
                names.push(t.to_string());
                names.len() as u32 - 1
            })
        })
        .collect();
    (codes, names)
}

/// Rows of many symbols, apart; file order within each.
fn split_by_symbol(
    rows: &Rows,
    fates: Option<&[RowFate]>,
    codes: &[u32],
    names: &[String],
    bad_volumes: &[u32],
    batch: Tally,
    parts: &mut Vec<Part>,
) {
    let mut by_name: Vec<Vec<(usize, RowFate)>> = vec![Vec::new(); names.len()];
    let mut nameless = Tally { rows: 0, ..batch };
    for (row, code) in codes.iter().enumerate() {
        let fate = fates.map_or(RowFate::Keep, |f| f[row]);
        match by_name.get_mut(*code as usize) {
            Some(list) => list.push((row, fate)),
            None => {
                nameless.rows += 1;
                nameless.unreadable += 1;
            }
        }
    }
    // What cannot be told apart by symbol (units, examples) stays with the first.
    let mut rest = Some(nameless);
    for (name, list) in names.iter().zip(by_name).filter(|(_, list)| !list.is_empty()) {
        let mut tally = rest.take().unwrap_or_default();
        tally.rows += list.len() as u64;
        if !bad_volumes.is_empty() {
            let bad = |(row, _): &&(usize, RowFate)| bad_volumes.binary_search(&(*row as u32)).is_ok();
            tally.bad_volumes = list.iter().filter(bad).count() as u64;
        }
        let kept = tally.count_fates(&rows.stamp, list.into_iter());
        parts.push(Part { symbol: Some(name.clone()), rows: rows.select_rows(&kept), tally });
    }
    if let Some(tally) = rest.filter(|t| t.rows > 0) {
        parts.push(Part { symbol: None, rows: Rows::default(), tally });
    }
}
