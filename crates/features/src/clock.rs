//! The common clock: when each row of each symbol is known.
//!
//! A time of the clock is a moment at which a bar of some symbol became known, each moment once; its position is a
//! *tick*. Rows are counted through all symbols in their order (row 0 is the first bar of the first symbol), here as
//! everywhere behind the bars.
//!
//! A row is known when its bar and all bars before it are. Ends rise in nearly every file, and then that is `end`;
//! where a file states ends that overlap, a row waits for the longest.

use bars::Bars;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// The common clock of a market.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// `[T]` moments at which some row became known, rising.
    pub times: Vec<i64>,
    /// `[rows]` position of each row's moment in `times`.
    pub tick: Vec<u32>,
    /// `[S + 1]` first row of each symbol.
    offsets: Vec<usize>,
}

impl Clock {
    /// The clock of these symbols.
    ///
    /// # Panics
    ///
    /// With 2³² rows or more: rows are `u32` from here on.
    pub fn new(market: &[Bars]) -> Clock {
        let mut offsets = vec![0];
        offsets.extend(market.iter().scan(0, |rows, bars| {
            *rows += bars.len();
            Some(*rows)
        }));
        let rows = offsets[market.len()];
        assert!(u32::try_from(rows).is_ok_and(|rows| rows < u32::MAX), "{rows} rows are more than 32 bits can count");
        let times = match (merge_times(market), market) {
            // Nobody else's moments lie between those of one symbol.
            (Cow::Borrowed(times), [_]) => {
                return Clock { times: times.to_vec(), tick: (0..rows as u32).collect(), offsets };
            }
            (times, _) => times.into_owned(),
        };
        let mut tick = vec![0; rows];
        let mut each = Vec::with_capacity(market.len());
        let mut rest = &mut tick[..];
        for bars in market {
            let (mine, others) = rest.split_at_mut(bars.len());
            each.push((bars, mine));
            rest = others;
        }
        each.into_par_iter().for_each(|(bars, tick)| fill_ticks(&times, &bars.end, tick));
        Clock { times, tick, offsets }
    }

    /// When a row became known.
    pub fn time(&self, row: usize) -> i64 {
        self.times[self.tick[row] as usize]
    }

    /// Number of symbols.
    pub fn symbols(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of a symbol.
    pub fn rows(&self, symbol: usize) -> Range<usize> {
        self.offsets[symbol]..self.offsets[symbol + 1]
    }

    /// The last row of a symbol known at a tick; `None` before its first.
    pub fn as_of(&self, symbol: usize, tick: usize) -> Option<usize> {
        let rows = self.rows(symbol);
        let known = self.tick[rows.clone()].partition_point(|t| *t as usize <= tick);
        (known > 0).then(|| rows.start + known - 1)
    }

    /// Writes the last known row of every symbol, `u32::MAX` where there is none, into `rows` (`[S]`).
    ///
    /// Rows older than `oldest` ticks are left out: a delisted share is not part of today's market.
    pub fn cross_section(&self, tick: usize, oldest: Option<usize>, rows: &mut Vec<u32>) {
        let fresh = |row: &usize| oldest.is_none_or(|oldest| tick - self.tick[*row] as usize <= oldest);
        rows.clear();
        rows.extend(
            (0..self.offsets.len() - 1).map(|s| self.as_of(s, tick).filter(fresh).map_or(u32::MAX, |r| r as u32)),
        );
    }

    /// Walks through all ticks in order; the whole walk costs as much as there are rows, whatever the number of
    /// symbols.
    pub fn walk(&self) -> Walk<'_> {
        let (first, rows_by_tick) = self.rows_by_tick();
        Walk { clock: self, tick: 0, first, rows_by_tick, rows: vec![u32::MAX; self.offsets.len() - 1] }
    }

    /// `[T + 1]` where the rows of each tick begin; `[rows]` symbol and row, by tick, then symbol. A counting sort.
    pub fn rows_by_tick(&self) -> (Vec<u32>, Vec<(u32, u32)>) {
        let mut first = vec![0; self.times.len() + 1];
        self.tick.iter().for_each(|t| first[*t as usize + 1] += 1);
        for t in 1..first.len() {
            first[t] += first[t - 1];
        }
        let mut next = first.clone();
        let mut rows_by_tick = vec![(0, 0); self.tick.len()];
        for symbol in 0..self.offsets.len() - 1 {
            for row in self.rows(symbol) {
                let at: &mut u32 = &mut next[self.tick[row] as usize];
                rows_by_tick[*at as usize] = (symbol as u32, row as u32);
                *at += 1;
            }
        }
        (first, rows_by_tick)
    }
}

/// A walk through the ticks of a [`Clock`].
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    clock: &'a Clock,
    tick: usize,
    /// `[T + 1]` where the rows of each tick begin.
    first: Vec<u32>,
    /// `[rows]` symbol and row that became known.
    rows_by_tick: Vec<(u32, u32)>,
    /// `[S]`
    rows: Vec<u32>,
}

impl Walk<'_> {
    /// The next tick and the last known row of every symbol at it (`[S]`, `u32::MAX` where there is none).
    ///
    /// Not an `Iterator`, because it lends the same cross-section again and again.
    #[expect(clippy::should_implement_trait, reason = "what is lent cannot be an iterator's item")]
    pub fn next(&mut self) -> Option<(usize, &[u32])> {
        let tick = self.tick;
        if tick == self.clock.times.len() {
            return None;
        }
        for (symbol, row) in &self.rows_by_tick[self.first[tick] as usize..self.first[tick + 1] as usize] {
            self.rows[*symbol as usize] = *row;
        }
        self.tick += 1;
        Some((tick, &self.rows))
    }
}

/// When each row is known: `end`, or the latest end so far.
pub(crate) fn known_times(end: &[i64]) -> Cow<'_, [i64]> {
    if end.is_sorted() {
        return Cow::Borrowed(end);
    }
    let latest = end.iter().scan(i64::MIN, |latest, end| {
        *latest = (*latest).max(*end);
        Some(*latest)
    });
    Cow::Owned(latest.collect())
}

/// Where each moment is in `times`, which hold them all, at which a row of a symbol with these ends is known.
fn fill_ticks(times: &[i64], end: &[i64], tick: &mut [u32]) {
    let first = position_of_first(times, end);
    // A symbol that misses no tick, from its first to its last, has them in a row; they rise, as ticks do.
    if times.get(first..first + end.len()) == Some(end) {
        tick.iter_mut().zip(first as u32..).for_each(|(tick, at)| *tick = at);
        return;
    }
    let mut at = first;
    for (tick, time) in tick.iter_mut().zip(&*known_times(end)) {
        // The next one, nearly always.
        at = if times.get(at + 1) == Some(time) { at + 1 } else { gallop(times, at, *time) };
        *tick = at as u32;
    }
}

/// Where the first of some times would be in others, which rise.
fn position_of_first(times: &[i64], some: &[i64]) -> usize {
    some.first().map_or(0, |first| times.partition_point(|t| t < first))
}

/// All times of all symbols, each once: merged by halves, so that symbols on one grid collapse at the first step.
fn merge_times(market: &[Bars]) -> Cow<'_, [i64]> {
    match market {
        [] => Cow::Borrowed(&[]),
        [one] if crate::simd::call(IsRising, &one.end[..]) => Cow::Borrowed(&one.end),
        [one] => {
            let mut times = known_times(&one.end).into_owned();
            times.dedup();
            Cow::Owned(times)
        }
        _ => {
            let (left, right) = market.split_at(market.len() / 2);
            let (left, right) = rayon::join(|| merge_times(left), || merge_times(right));
            merge_two(left, right)
        }
    }
}

/// Whether each time is later than the one before.
struct IsRising;

impl crate::simd::Inlined<&[i64], bool> for IsRising {
    #[inline(always)]
    fn call(self, times: &[i64]) -> bool {
        // One plain loop without a way out becomes lanes.
        let mut back = false;
        for (early, late) in times.iter().zip(times.get(1..).unwrap_or_default()) {
            back |= late <= early;
        }
        !back
    }
}

fn merge_two<'a>(a: Cow<'a, [i64]>, b: Cow<'a, [i64]>) -> Cow<'a, [i64]> {
    let (a, b) = if a.len() < b.len() { (b, a) } else { (a, b) };
    // On one grid, the shorter is a piece of the longer.
    let first = position_of_first(&a, &b);
    if a.get(first..first + b.len()) == Some(&*b) {
        return a;
    }
    let mut both = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        both.push(x.min(y));
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    both.extend_from_slice(&a[i..]);
    both.extend_from_slice(&b[j..]);
    Cow::Owned(both)
}

/// Where `time` is in `times`, which hold it at or after `from`; cheap when it is near.
fn gallop(times: &[i64], from: usize, time: i64) -> usize {
    let mut step = 1;
    while from + step < times.len() && times[from + step] <= time {
        step *= 2;
    }
    let low = from + step / 2;
    low + times[low..(from + step).min(times.len())].partition_point(|t| *t < time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::tests::{bars, random};
    use std::collections::BTreeSet;

    /// A symbol whose bars end at these times.
    fn ends(end: &[i64]) -> Bars {
        let mut bars = bars(&vec![[1.0; 4]; end.len()]);
        bars.start = (0..end.len() as i64).collect();
        bars.end = end.to_vec();
        bars
    }

    /// Every answer of the clock against the definition, by plain search.
    fn check(market: &[Bars]) {
        let clock = Clock::new(market);
        let known: Vec<Vec<i64>> =
            market.iter().map(|b| (0..b.len()).map(|i| *b.end[..=i].iter().max().unwrap()).collect()).collect();
        let times: BTreeSet<i64> = known.iter().flatten().copied().collect();
        assert_eq!(clock.times, times.into_iter().collect::<Vec<_>>());
        let all: Vec<i64> = known.iter().flatten().copied().collect();
        assert!(clock.tick.iter().map(|t| clock.times[*t as usize]).eq(all.iter().copied()));
        let mut walk = clock.walk();
        let mut rows = Vec::new();
        for (tick, now) in clock.times.iter().enumerate() {
            let mut first = 0;
            let expected: Vec<Option<usize>> = known
                .iter()
                .map(|known| {
                    let last = known.iter().rposition(|time| time <= now).map(|i| first + i);
                    first += known.len();
                    last
                })
                .collect();
            let as_u32: Vec<u32> = expected.iter().map(|row| row.map_or(u32::MAX, |row| row as u32)).collect();
            for (symbol, row) in expected.iter().enumerate() {
                assert_eq!(clock.as_of(symbol, tick), *row);
            }
            clock.cross_section(tick, None, &mut rows);
            assert_eq!(rows, as_u32);
            assert_eq!(walk.next(), Some((tick, as_u32.as_slice())));
            clock.cross_section(tick, Some(2), &mut rows);
            let fresh = |row: &u32| *row != u32::MAX && tick <= clock.tick[*row as usize] as usize + 2;
            assert!(rows.iter().zip(&as_u32).all(|(got, row)| *got == if fresh(row) { *row } else { u32::MAX }));
        }
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn clock_equals_brute_force() {
        check(&[]);
        check(&[ends(&[])]);
        check(&[ends(&[7])]);
        check(&[ends(&[1, 2, 3]), ends(&[1, 2, 3])]);
        check(&[ends(&[1, 5, 9]), ends(&[]), ends(&[2, 5, 50])]);
        // Ends that overlap or coincide: the later row waits.
        check(&[ends(&[1, 8, 4, 9]), ends(&[3, 3, 6])]);
        let mut draw = random(7);
        for round in 0..200 {
            let market: Vec<Bars> = (0..draw(6))
                .map(|_| {
                    let mut end: Vec<i64> = (0..draw(40)).map(|_| draw(60) as i64).collect();
                    if round % 4 > 0 {
                        end.sort_unstable();
                        end.dedup();
                    }
                    ends(&end)
                })
                .collect();
            check(&market);
        }
    }
}
