//! What is done to a market: it is cut, poisoned, or begins later.

use crate::clock::known_times;
use bars::Bars;

/// Rows of one symbol that two markets share: where they begin in each, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) symbol: usize,
    pub(super) whole: usize,
    pub(super) part: usize,
    pub(super) rows: usize,
}

/// How many bars of each symbol are known at a moment.
pub(super) fn known_at(market: &[Bars], time: i64) -> Vec<usize> {
    market.iter().map(|bars| known_times(&bars.end).partition_point(|end| *end <= time)).collect()
}

/// The market with only these rows of each symbol; symbols without any are left out.
pub(super) fn rows_of(market: &[Bars], rows: impl Fn(usize) -> std::ops::Range<usize>) -> (Vec<Bars>, Vec<Shared>) {
    let (mut part, mut shared) = (Vec::new(), Vec::new());
    let (mut whole, mut at) = (0, 0);
    for (symbol, bars) in market.iter().enumerate() {
        let range = rows(symbol);
        if !range.is_empty() {
            shared.push(Shared { symbol, whole: whole + range.start, part: at, rows: range.len() });
            at += range.len();
            part.push(bars.part(range));
        }
        whole += bars.len();
    }
    (part, shared)
}

/// The last bars of a few symbols, `bars` of them in all: symbols from all over the list, and among those that are
/// long; shorter ones as well where there would be fewer than `least`.
pub fn sample(market: &[Bars], symbols: usize, least: usize, bars: usize) -> Vec<Bars> {
    let mut lengths: Vec<usize> = market.iter().map(Bars::len).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let half = lengths.first().map_or(0, |longest| longest.div_ceil(2));
    let enough = lengths.get(least.clamp(1, lengths.len().max(1)) - 1).copied().unwrap_or(0);
    let long: Vec<&Bars> = market.iter().filter(|b| b.len() >= half.min(enough)).collect();
    let many = symbols.max(least).clamp(1, long.len().max(1));
    let each = (bars / many).max(1);
    let chosen = (0..many).filter_map(|i| long.get(i * long.len() / many));
    chosen.map(|b| b.part(b.len() - b.len().min(each)..b.len())).collect()
}

/// What the future is overwritten with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    Nothing,
    TimesTen,
    Reversed,
    Other,
}

impl Poison {
    pub(super) const ALL: [Poison; 4] = [Poison::Nothing, Poison::TimesTen, Poison::Reversed, Poison::Other];

    pub(super) fn describe(self) -> &'static str {
        match self {
            Poison::Nothing => "NaN",
            Poison::TimesTen => "ten times the values",
            Poison::Reversed => "the bars in reverse",
            Poison::Other => "bars of another symbol",
        }
    }

    /// The market with this in place of all values after the first `kept` bars of each symbol; times stay as they are.
    pub(super) fn apply(self, market: &[Bars], kept: &[usize]) -> Vec<Bars> {
        let each = market.iter().zip(kept).enumerate().map(|(s, (bars, &kept))| {
            // Alone in the market, a symbol meets its own past.
            let other = &market[(s + 1) % market.len()];
            let mut bars = bars.clone();
            let Bars { open, high, low, close, volume, extras, .. } = &mut bars;
            let prices = [(open, &other.open), (high, &other.high), (low, &other.low), (close, &other.close)];
            for (mine, theirs) in prices.into_iter().chain([(volume, &other.volume)]) {
                self.overwrite(mine.get_mut(kept..).unwrap_or_default(), theirs);
            }
            for (i, (_, mine)) in extras.iter_mut().enumerate() {
                self.overwrite(&mut mine[kept..], other.extras.get(i).map_or(&[], |e| &e.1));
            }
            bars
        });
        each.collect()
    }

    fn overwrite(self, future: &mut [f64], other: &[f64]) {
        match self {
            Poison::Nothing => future.fill(f64::NAN),
            Poison::TimesTen => future.iter_mut().for_each(|x| *x *= 10.0),
            Poison::Reversed => future.reverse(),
            Poison::Other if other.is_empty() => future.fill(1.0),
            Poison::Other => future.iter_mut().zip(other.iter().cycle()).for_each(|(x, y)| *x = *y),
        }
    }
}
