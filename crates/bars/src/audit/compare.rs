//! Series against series: the same one under two names, and clocks that do not agree.
//!
//! Returns are compared, so that a copy in another unit is one too. A symbol that follows a near twin by some bars, and
//! hardly moves with it at the same time, has another clock, and whatever is learnt from the two is a false edge: it is
//! refused. Against the market of its own session calendar the same is a warning.

use crate::series::SeriesFacts;
use crate::{Bars, Timeframe};
use files::format_plural;
use std::collections::{BTreeMap, HashMap};

/// Bars looked at, the last ones.
const BARS: usize = 4096;
/// Pairs are compared at every lag up to this many symbols; above it only those that the market suspects.
const ALL_PAIRS: usize = 32;
/// Fewest bars that two series must share.
const LEAST: usize = 100;
const HOUR: i64 = 3_600_000_000_000;

/// What comparing gave, by the index of the series.
#[derive(Default)]
pub(crate) struct Comparison {
    /// A copy and the series that it is one of.
    pub copies: BTreeMap<usize, usize>,
    /// Why its clock is wrong.
    pub clocks: HashMap<usize, String>,
    pub warnings: Vec<String>,
}

impl Comparison {
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

    /// Adds what the bars tell. Series are compared that have one timeframe and begin their bars at the same minute of it.
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
        let sketches: Vec<Sketch> = returns.series.iter().map(|r| Sketch::draw(r)).collect();
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

    fn find_clocks(&mut self, bars: &[Bars], returns: &Returns, timeframe: Timeframe) {
        let lags = lags(timeframe);
        let n = returns.series.len();
        let mut suspects: Vec<usize> = (0..n).filter(|_| n <= ALL_PAIRS).collect();
        let mut followers: Vec<(usize, i64, f64, f64)> = Vec::new();
        let mut calendars: Vec<(usize, Sum)> = Vec::new(); // the first of each session calendar, and the sum of all
        let session = |at: usize| &bars[returns.of[at]].instrument.session;
        for at in (0..n).filter(|at| !self.copies.contains_key(&returns.of[*at])) {
            match calendars.iter_mut().find(|(first, _)| session(*first) == session(at)) {
                Some((_, sum)) => sum.add(&returns.series[at]),
                None => calendars.push((at, Sum::of(&returns.series[at]))),
            }
        }
        for at in (0..n).filter(|at| !self.copies.contains_key(&returns.of[*at])) {
            let Some((_, sum)) =
                calendars.iter().find(|(first, sum)| sum.members > 4 && session(*first) == session(at))
            else {
                continue;
            };
            let market = sum.mean_without(&returns.series[at]);
            let r = |lag: i64| correlation(&market, &returns.series[at], lag);
            let (now, shared) = r(0);
            if shared < LEAST {
                continue;
            }
            let best = lags.iter().map(|lag| (*lag, r(*lag))).filter(|(_, (_, n))| *n >= LEAST);
            let Some((lag, (best, _))) = best.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { continue };
            if best >= 0.3 && now < 0.5 * best {
                followers.push((at, lag, best, now));
                if n > ALL_PAIRS {
                    suspects.push(at);
                }
            }
        }
        for &at in &suspects {
            let free = |s: &Self| !s.clocks.contains_key(&returns.of[at]);
            for other in (0..n).filter(|other| *other != at) {
                if !free(self) || self.clocks.contains_key(&returns.of[other]) {
                    continue;
                }
                // Without bars at the same time there is no saying which of the two is late.
                let (now, shared) = returns.correlation(other, at, 0);
                if shared < LEAST || now >= 0.5 {
                    continue;
                }
                // Near twins are rare, and few bars show that two are none.
                let twin = |lag: &&i64| {
                    let (r, shared) = returns.last_correlation(other, at, **lag);
                    if shared >= LEAST && r < 0.7 {
                        return false;
                    }
                    let (r, shared) = returns.correlation(other, at, **lag);
                    shared >= LEAST && r >= 0.9 && now < 0.5 * r
                };
                let Some(lag) = lags.iter().find(twin) else { continue };
                // Of two the one that comes later is late, unless the market says that the other is early.
                let odd = |i: usize| followers.iter().any(|f| f.0 == i);
                if *lag < 0 && !odd(at) || odd(other) && !odd(at) {
                    continue;
                }
                let r = returns.correlation(other, at, *lag).0;
                let late = if *lag > 0 { "late" } else { "early" };
                self.clocks.insert(
                    returns.of[at],
                    format!(
                        "its clock is {} {late} against {}: returns correlate by {r:.3} at that lag and by {now:.2} at the same time",
                        format_plural(returns.bars_of(*lag, timeframe), "bar"),
                        bars[returns.of[other]].symbol
                    ),
                );
            }
        }
        for (at, lag, best, now) in followers.into_iter().filter(|f| !self.clocks.contains_key(&returns.of[f.0])) {
            let verb = if lag > 0 { "follows" } else { "leads" };
            self.warnings.push(format!(
                "{} {verb} the market of its session by {} (correlation {best:.2} there, {now:.2} at the same time): check its clock",
                bars[returns.of[at]].symbol,
                format_plural(returns.bars_of(lag, timeframe), "bar")
            ));
        }
    }
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
    of: Vec<usize>,        // index of each series
    times: Vec<i64>,       // [time]
    series: Vec<Vec<f32>>, // [series][time], NaN where it has no bar
}

impl Returns {
    fn align(bars: &[Bars], members: &[usize]) -> Returns {
        let mut times: Vec<i64> = Vec::new();
        for at in members {
            let start = &bars[*at].start;
            times.extend(&start[start.len().saturating_sub(BARS)..]);
        }
        times.sort_unstable();
        times.dedup();
        times.drain(..times.len().saturating_sub(BARS));
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
            row
        };
        let series = members.iter().map(one).collect();
        Returns { of: members.to_vec(), times, series }
    }

    fn correlation(&self, a: usize, b: usize, lag: i64) -> (f64, usize) {
        correlation(&self.series[a], &self.series[b], lag)
    }

    fn filled(&self, at: usize) -> usize {
        self.series[at].iter().filter(|r| !r.is_nan()).count()
    }

    /// The same over the last bars alone.
    fn last_correlation(&self, a: usize, b: usize, lag: i64) -> (f64, usize) {
        let from = self.times.len().saturating_sub(512);
        correlation(&self.series[a][from..], &self.series[b][from..], lag)
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
    members: usize,
    sum: Vec<(f32, u32)>, // [time], and how many have a bar there
}

impl Sum {
    fn of(row: &[f32]) -> Sum {
        let mut sum = Sum { members: 0, sum: vec![(0.0, 0); row.len()] };
        sum.add(row);
        sum
    }

    fn add(&mut self, row: &[f32]) {
        self.members += 1;
        for ((sum, n), r) in self.sum.iter_mut().zip(row).filter(|(_, r)| !r.is_nan()) {
            *sum += r;
            *n += 1;
        }
    }

    /// The mean of the others of one member.
    fn mean_without(&self, row: &[f32]) -> Vec<f32> {
        let mean = |((sum, n), r): (&(f32, u32), &f32)| match (*n, r.is_nan()) {
            (0, _) | (1, false) => f32::NAN,
            (n, true) => sum / n as f32,
            (n, false) => (sum - r) / (n - 1) as f32,
        };
        self.sum.iter().zip(row).map(mean).collect()
    }
}

/// Whether the volumes of two differ by one factor alone at their common bars; so do those of which one has none.
fn have_same_volume(a: &Bars, b: &Bars) -> bool {
    if a.volume.is_empty() || b.volume.is_empty() {
        return true;
    }
    let (mut i, mut j) = (a.len().saturating_sub(BARS), b.len().saturating_sub(BARS));
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
fn correlation(a: &[f32], b: &[f32], lag: i64) -> (f64, usize) {
    let shift = lag.unsigned_abs() as usize;
    if shift >= a.len() {
        return (0.0, 0);
    }
    let (a, b) = if lag >= 0 { (&a[..a.len() - shift], &b[shift..]) } else { (&a[shift..], &b[..b.len() - shift]) };
    let (mut ab, mut aa, mut bb, mut n) = (0.0f64, 0.0f64, 0.0f64, 0usize);
    for (x, y) in a.iter().zip(b).filter(|(x, y)| !x.is_nan() && !y.is_nan()) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        ab += x * y;
        aa += x * x;
        bb += y * y;
        n += 1;
    }
    if aa > 0.0 && bb > 0.0 { (ab / (aa * bb).sqrt(), n) } else { (0.0, n) }
}

/// The signs of 256 returns spread over the series: unlike ones need no second look.
struct Sketch {
    up: [u64; 4],
    there: [u64; 4],
}

impl Sketch {
    fn draw(row: &[f32]) -> Sketch {
        let mut sketch = Sketch { up: [0; 4], there: [0; 4] };
        for bit in 0..256 {
            let r = row[bit * row.len() / 256];
            if !r.is_nan() {
                sketch.there[bit / 64] |= 1 << (bit % 64);
                sketch.up[bit / 64] |= u64::from(r > 0.0) << (bit % 64);
            }
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
