//! Series against series: the same one under two names, and clocks that do not agree.
//!
//! Returns are compared, so that a copy in another unit is one too. A symbol that follows a near twin by some bars, and
//! hardly moves with it at the same time, has another clock, and whatever is learnt from the two is a false edge: it is
//! refused. Against the market of its own session calendar the same is a warning.

use crate::series::SeriesFacts;
use crate::{Bars, Timeframe};
use files::format_plural;
use std::collections::{BTreeMap, HashMap};

/// Most groups that are told apart; what moves with nothing is a group of its own.
const MOST_GROUPS: usize = 32;
/// Series that are tried as the one whose clock a group has.
const SEEDS: usize = 16;
/// Fewest bars that two series must share.
const LEAST: usize = 100;
const HOUR: i64 = 3_600_000_000_000;

/// What comparing gave, by the index of the series.
#[derive(Default)]
pub(crate) struct Comparison {
    /// A copy and the series that it is one of.
    pub copies: BTreeMap<usize, usize>,
    /// A series with another clock than its near twin.
    pub clocks: BTreeMap<usize, WrongClock>,
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Bars looked at, the last ones.
    pub(crate) const BARS: usize = 2048;

    /// Copies to the bit, which need no bars.
    pub(crate) fn by_print(seen: &[SeriesFacts]) -> Comparison {
        let mut first: HashMap<(u64, u64, Timeframe), usize> = HashMap::new();
        let mut found = Comparison::default();
        for (at, s) in seen.iter().enumerate() {
            let o = &s.observer;
            if o.bars >= 20 && o.high > o.low {
                let original = *first.entry((o.fingerprint(), o.bars, s.timeframe)).or_insert(at);
                if original != at {
                    found.copies.insert(at, original);
                }
            }
        }
        found
    }

    /// Adds what the bars tell. Series are compared that have one timeframe and begin their bars at the same minute of
    /// it.
    pub(crate) fn compare(mut self, bars: &[Bars]) -> Comparison {
        let mut grids: BTreeMap<(Timeframe, i64), Vec<usize>> = BTreeMap::new();
        for (at, b) in bars.iter().enumerate().filter(|(at, b)| b.len() > LEAST && !self.copies.contains_key(at)) {
            let step = b.timeframe.ns().max(1);
            let phase = if step < 24 * HOUR { b.start[b.len() - 1].rem_euclid(step) } else { 0 };
            grids.entry((b.timeframe, phase)).or_default().push(at);
        }
        for ((timeframe, _), members) in grids.iter().filter(|(_, members)| members.len() > 1) {
            let returns = Returns::align(bars, members);
            self.find_copies(bars, &returns);
            self.find_clocks(bars, &returns, *timeframe);
        }
        self
    }

    /// Two that move as one are one series if their volumes agree too (or there are none): funds on one index, or one
    /// coin in two dollars, move alike but trade each for itself, which is worth a warning.
    fn find_copies(&mut self, bars: &[Bars], returns: &Returns) {
        let sketches: Vec<Sketch> = returns.rows.iter().map(Sketch::draw).collect();
        for b in 0..sketches.len() {
            for a in 0..b {
                if self.copies.contains_key(&returns.of[a]) || !sketches[a].is_like(&sketches[b]) {
                    continue;
                }
                let (r, shared) = returns.correlation(a, b, 0);
                let filled = returns.filled(a).max(returns.filled(b));
                if r <= 0.9999 || shared * 20 < filled * 19 {
                    continue;
                }
                let (one, other) = (&bars[returns.of[a]], &bars[returns.of[b]]);
                if have_same_volume(one, other) {
                    self.copies.insert(returns.of[b], returns.of[a]);
                    break;
                }
                self.warnings.push(format!(
                    "{} moves as {} does (correlation {r:.5}) with a volume of its own: both count",
                    other.symbol, one.symbol
                ));
            }
        }
    }

    /// Looks for other clocks: in each session calendar against its market and for near twins, then for near twins
    /// among all.
    fn find_clocks(&mut self, bars: &[Bars], returns: &Returns, timeframe: Timeframe) {
        let (lags, original) = (lags(timeframe), |at: &usize| !self.copies.contains_key(&returns.of[*at]));
        let all: Vec<usize> = (0..returns.rows.len()).filter(original).collect();
        if all.len() < 2 {
            return;
        }
        let mut calendars: Vec<Vec<usize>> = Vec::new();
        let session = |at: usize| &bars[returns.of[at]].instrument.session;
        for &at in &all {
            match calendars.iter_mut().find(|members| session(members[0]) == session(at)) {
                Some(members) => members.push(at),
                None => calendars.push(vec![at]),
            }
        }
        let mut followers: Vec<Place> = Vec::new();
        if calendars.len() > 1 {
            calendars.push(all.clone());
        }
        let last = calendars.len() - 1;
        for (i, members) in calendars.into_iter().enumerate() {
            for group in group_by_market(returns, &lags, members) {
                let on_time: Vec<&Place> = group.iter().filter(|p| p.lag == 0).collect();
                for late in group.iter().filter(|p| p.lag != 0) {
                    if self.clocks.contains_key(&returns.of[late.at]) {
                        continue;
                    }
                    match on_time.iter().find_map(|p| returns.twins(p.at, late.at, late.lag).map(|r| (p.at, r))) {
                        Some((twin, [r, now])) => {
                            self.clocks.insert(
                                returns.of[late.at],
                                WrongClock {
                                    twin: bars[returns.of[twin]].symbol.clone(),
                                    bars: returns.bars_of(late.lag, timeframe) as i64 * late.lag.signum(),
                                    r,
                                    now,
                                },
                            );
                        }
                        None if on_time.len() >= 4 && (i < last || last == 0) => followers.push(*late),
                        None => {}
                    }
                }
            }
        }
        followers.retain(|p| !self.clocks.contains_key(&returns.of[p.at]));
        followers.sort_by_key(|p| (p.lag, p.at));
        for like in followers.chunk_by(|a, b| a.lag == b.lag) {
            let names: Vec<&str> = like.iter().map(|p| bars[returns.of[p.at]].symbol.as_str()).collect();
            let one = names.len() == 1;
            let verb = match (like[0].lag > 0, one) {
                (true, true) => "follows",
                (true, false) => "follow",
                (false, true) => "leads",
                (false, false) => "lead",
            };
            self.warnings.push(format!(
                "{} {verb} the market of {} session by {} (correlation {:.2} there, {:.2} at the same time): check {}",
                super::name_some(&names),
                if one { "its" } else { "their" },
                format_plural(returns.bars_of(like[0].lag, timeframe), "bar"),
                like[0].best,
                like[0].now,
                if one { "its clock" } else { "their clocks" },
            ));
        }
    }
}

/// A series whose stamps are some bars late (early below 0) against a near twin.
#[derive(Debug, Clone)]
pub(crate) struct WrongClock {
    twin: String,
    pub bars: i64,
    r: f64,
    now: f64,
}

impl WrongClock {
    /// `5 bars late`.
    pub(crate) fn describe(&self) -> String {
        let late = if self.bars > 0 { "late" } else { "early" };
        format!("{} {late}", format_plural(self.bars.unsigned_abs(), "bar"))
    }
}

impl std::fmt::Display for WrongClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "its clock is {} against {}: returns correlate by {:.3} at that lag and by {:.2} at the same time",
            self.describe(),
            self.twin,
            self.r,
            self.now
        )
    }
}

/// A series of a group that moves together, and how many bars it is behind the others.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    lag: i64,
    best: f64, // correlation with the others at that lag
    now: f64,  // and at the same time
}

/// Groups of series that move together, at one lag or another; lag 0 is the clock of most. A series is compared with
/// the mean of those that move with it at the same time, so that this grows with the number of series, not of pairs.
fn group_by_market(returns: &Returns, lags: &[i64], mut left: Vec<usize>) -> Vec<Vec<Place>> {
    let mut groups = Vec::new();
    while left.len() > 1 && groups.len() < MOST_GROUPS {
        let partners = |seed: usize| -> Vec<usize> {
            left.iter().copied().filter(|at| *at == seed || returns.correlation(seed, *at, 0).0 >= 0.3).collect()
        };
        let seeds = (0..left.len().min(SEEDS)).map(|i| left[i * left.len() / left.len().min(SEEDS)]);
        // Of equally many the first.
        let Some(mut core) = seeds.map(partners).reduce(|a, b| if b.len() > a.len() { b } else { a }) else { break };
        let mut group = place_beside(returns, lags, &left, &core);
        if let Some(lag) = most_frequent_lag(&group).filter(|lag| *lag != 0) {
            core = group.iter().filter(|p| p.lag == lag).map(|p| p.at).collect();
            group = place_beside(returns, lags, &left, &core);
        }
        left.retain(|at| group.iter().all(|p| p.at != *at));
        groups.push(group);
    }
    groups
}

/// Those of `left` that move with the mean of `core`, at one lag or another; `core` itself at least.
fn place_beside(returns: &Returns, lags: &[i64], left: &[usize], core: &[usize]) -> Vec<Place> {
    let mut inside = vec![false; returns.rows.len()];
    core.iter().for_each(|at| inside[*at] = true);
    let sum = Sum::over(core.iter().map(|at| &returns.rows[*at]), returns.times.len());
    let mean = sum.mean(None);
    let place = |&at: &usize| {
        let row = &returns.rows[at];
        let own;
        let market = if inside[at] {
            own = sum.mean(Some(row));
            &own
        } else {
            &mean
        };
        let alone = inside[at].then_some(Place { at, lag: 0, best: 1.0, now: 1.0 });
        let (now, shared) = correlation(market, row, 0);
        if shared < LEAST {
            return alone;
        }
        // What both have hardly changes with the lag, so the products alone find the best one.
        let rough = lags.iter().map(|lag| (*lag, dot(&market.values, &row.values, *lag)));
        let (lag, _) = rough.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (best, shared) = correlation(market, row, lag);
        match shared >= LEAST && best >= 0.3 && now < 0.5 * best {
            true => Some(Place { at, lag, best, now }),
            false if now >= 0.3 => Some(Place { at, lag: 0, best: now, now }),
            false => alone,
        }
    };
    left.iter().filter_map(place).collect()
}

/// The lag that most have; of equally many the earliest, since of two the later one is late.
fn most_frequent_lag(group: &[Place]) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    group.iter().for_each(|p| *counts.entry(p.lag).or_default() += 1);
    counts.into_iter().min_by_key(|(lag, n)| (std::cmp::Reverse(*n), *lag)).map(|(lag, _)| lag)
}

/// Lags in bars: near ones, and whole hours up to fourteen, as wrong zones make them.
fn lags(timeframe: Timeframe) -> Vec<i64> {
    let step = timeframe.ns().max(1);
    let near = if step >= 24 * HOUR { 3 } else { 24 };
    let mut lags: Vec<i64> = (1..=near).collect();
    lags.extend((1..=28).map(|half| half * HOUR / 2 / step).filter(|lag| *lag > near && step < 24 * HOUR));
    lags.dedup();
    lags.iter().flat_map(|lag| [*lag, -lag]).collect()
}

/// Returns of several series on one row of times.
struct Returns {
    of: Vec<usize>,  // index of each series
    times: Vec<i64>, // [time]
    rows: Vec<Row>,  // [series]
}

/// Returns of one series; 0 in all three where it has no bar.
struct Row {
    values: Vec<f32>,  // [time]
    squares: Vec<f32>, // [time]
    there: Vec<f32>,   // [time] 1 where it has a bar
}

impl Row {
    /// From returns with NaN where there is none.
    fn new(mut values: Vec<f32>) -> Row {
        let there = values.iter().map(|r| f32::from(u8::from(!r.is_nan()))).collect();
        values.iter_mut().filter(|r| r.is_nan()).for_each(|r| *r = 0.0);
        Row { squares: values.iter().map(|r| r * r).collect(), values, there }
    }
}

impl Returns {
    fn align(bars: &[Bars], members: &[usize]) -> Returns {
        let mut times: Vec<i64> = Vec::new();
        for at in members {
            let start = &bars[*at].start;
            let last = &start[start.len().saturating_sub(Comparison::BARS)..];
            if !times.ends_with(last) {
                times.extend(last);
                // Two rising lists: a stable sort joins them.
                times.sort();
                times.dedup();
                times.drain(..times.len().saturating_sub(Comparison::BARS));
            }
        }
        let one = |at: &usize| {
            let b = &bars[*at];
            let mut row = vec![f32::NAN; times.len()];
            let from = b.start.partition_point(|t| *t < times[0]).max(1);
            let mut slot = 0;
            for i in from..b.len() {
                while times[slot] < b.start[i] {
                    slot += 1;
                }
                row[slot] = (b.close[i] / b.close[i - 1]).ln() as f32;
            }
            standardise(&mut row);
            Row::new(row)
        };
        let rows = members.iter().map(one).collect();
        Returns { of: members.to_vec(), times, rows }
    }

    fn correlation(&self, a: usize, b: usize, lag: i64) -> (f64, usize) {
        correlation(&self.rows[a], &self.rows[b], lag)
    }

    /// The correlations of near twins, of which `b` is that many bars late: there, and at the same time.
    fn twins(&self, a: usize, b: usize, lag: i64) -> Option<[f64; 2]> {
        let (r, shared) = self.correlation(a, b, lag);
        if shared < LEAST || r < 0.9 {
            return None;
        }
        // Without bars at the same time there is no saying which of the two is late.
        let (now, shared) = self.correlation(a, b, 0);
        (shared >= LEAST && now < 0.5 * r).then_some([r, now])
    }

    fn filled(&self, at: usize) -> usize {
        self.rows[at].there.iter().filter(|there| **there > 0.0).count()
    }

    /// How many bars a lag is as a rule: series that begin at other times of the day lie between.
    fn bars_of(&self, lag: i64, timeframe: Timeframe) -> u64 {
        let lag = lag.unsigned_abs() as usize;
        let mut apart: Vec<i64> = self.times.iter().zip(&self.times[lag..]).map(|(from, to)| to - from).collect();
        apart.sort_unstable();
        let step = timeframe.ns().max(1);
        apart.get(apart.len() / 2).map_or(lag as u64, |ns| ((ns + step / 2) / step).max(1) as u64)
    }
}

/// The sum of several series at every time.
struct Sum {
    values: Vec<f32>, // [time]
    count: Vec<f32>,  // [time] how many have a bar there
}

impl Sum {
    fn over<'a>(rows: impl Iterator<Item = &'a Row>, times: usize) -> Sum {
        let mut sum = Sum { values: vec![0.0; times], count: vec![0.0; times] };
        for row in rows {
            sum.values.iter_mut().zip(&row.values).for_each(|(sum, r)| *sum += r);
            sum.count.iter_mut().zip(&row.there).for_each(|(n, there)| *n += there);
        }
        sum
    }

    /// The mean, without one of the members if that is given.
    fn mean(&self, without: Option<&Row>) -> Row {
        let mean = |at: usize| {
            let (r, there) = without.map_or((0.0, 0.0), |row| (row.values[at], row.there[at]));
            let n = self.count[at] - there;
            if n > 0.5 { (self.values[at] - r) / n } else { f32::NAN }
        };
        Row::new((0..self.values.len()).map(mean).collect())
    }
}

/// Whether the volumes of two differ by one factor alone at their common bars; so do those of which one has none.
fn have_same_volume(a: &Bars, b: &Bars) -> bool {
    if a.volume.is_empty() || b.volume.is_empty() {
        return true;
    }
    let (mut i, mut j) = (a.len().saturating_sub(Comparison::BARS), b.len().saturating_sub(Comparison::BARS));
    let mut ratios: Vec<f64> = Vec::new();
    while i < a.len() && j < b.len() {
        match a.start[i].cmp(&b.start[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                if a.volume[i] > 0.0 && b.volume[j] > 0.0 {
                    ratios.push(b.volume[j] / a.volume[i]);
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let Some(usual) = ratios.get(ratios.len() / 2).copied() else { return true };
    let near = ratios.iter().filter(|r| (*r / usual - 1.0).abs() < 0.01).count();
    near * 20 >= ratios.len() * 19
}

/// Mean 0, mean distance from it 1, and no single bar beyond five, so that a few leaps do not decide.
fn standardise(row: &mut [f32]) {
    let filled = || row.iter().filter(|r| r.is_finite());
    let n = filled().count().max(1) as f32;
    let mean = filled().sum::<f32>() / n;
    let spread = (filled().map(|r| (r - mean).abs()).sum::<f32>() / n).max(1e-12);
    row.iter_mut().for_each(|r| *r = if r.is_finite() { ((*r - mean) / spread).clamp(-5.0, 5.0) } else { f32::NAN });
}

/// Correlation of `a` with `b` that many bars later, and the bars that both have.
fn correlation(a: &Row, b: &Row, lag: i64) -> (f64, usize) {
    let product = |x: &[f32], y: &[f32]| f64::from(dot(x, y, lag));
    let shared = product(&a.there, &b.there) as usize;
    let (aa, bb) = (product(&a.squares, &b.there), product(&a.there, &b.squares));
    if aa > 0.0 && bb > 0.0 { (product(&a.values, &b.values) / (aa * bb).sqrt(), shared) } else { (0.0, shared) }
}

/// The sum of products of `a` and what is in `b` that many places later.
fn dot(a: &[f32], b: &[f32], lag: i64) -> f32 {
    const LANES: usize = 16;
    let shift = (lag.unsigned_abs() as usize).min(a.len());
    let (a, b) = if lag >= 0 { (&a[..a.len() - shift], &b[shift..]) } else { (&a[shift..], &b[..b.len() - shift]) };
    let mut sums = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}

/// The signs of 256 returns spread over the series: unlike ones need no second look.
struct Sketch {
    up: [u64; 4],
    there: [u64; 4],
}

impl Sketch {
    fn draw(row: &Row) -> Sketch {
        let mut sketch = Sketch { up: [0; 4], there: [0; 4] };
        for bit in 0..256 {
            let at = bit * row.values.len() / 256;
            sketch.there[bit / 64] |= u64::from(row.there[at] > 0.0) << (bit % 64);
            sketch.up[bit / 64] |= u64::from(row.values[at] > 0.0) << (bit % 64);
        }
        sketch
    }

    fn is_like(&self, other: &Sketch) -> bool {
        let both: [u64; 4] = std::array::from_fn(|i| self.there[i] & other.there[i]);
        let unlike: u32 = (0..4).map(|i| ((self.up[i] ^ other.up[i]) & both[i]).count_ones()).sum();
        let shared: u32 = both.iter().map(|b| b.count_ones()).sum();
        shared >= 32 && unlike * 25 <= shared
    }
}
