//! Which rows a search from a training root may not draw: those within its horizon, by clock time.
//!
//! A horizon is counted in bars of the root's own symbol. Symbols of other hours have more or fewer clock times in
//! between, and none of them may tell what the root's future was.

use super::model::newest;
use account::Bar;
use std::ops::Range;

/// Rows of training samples and their clock times.
#[derive(Clone, Copy)]
pub(super) struct Clocked<'a> {
    /// Rows of training samples, as stretches of neighbours.
    pub(super) stretches: &'a [Range<u32>],
    /// `[rows of the table]` the number of each row's clock time.
    pub(super) clocks: &'a [u32],
}

impl Clocked<'_> {
    /// Clock times from `bars` bars of a row's symbol before it to as many behind it, and at least as many clock times.
    /// `symbol` are the rows of its symbol; those that are no training samples have no clock time and are never drawn.
    pub(super) fn within(&self, row: u32, bars: u32, symbol: &Range<u32>) -> Range<u32> {
        let clock = self.clocks[row as usize];
        let near = row.saturating_sub(bars).max(symbol.start)..row.saturating_add(bars + 1).min(symbol.end);
        let (mut first, mut last) = (clock.saturating_sub(bars), clock.saturating_add(bars));
        let from = self.stretches.partition_point(|own| own.end <= near.start);
        for own in self.stretches[from..].iter().take_while(|own| own.start < near.end) {
            first = first.min(self.clocks[own.start.max(near.start) as usize]);
            last = last.max(self.clocks[own.end.min(near.end) as usize - 1]);
        }
        first..last.saturating_add(1)
    }

    /// Rows that a market model of this training part draws, and the fewest of them that a root leaves; `offsets` are
    /// where the rows of each symbol begin, and where the last ends.
    pub(super) fn drawn(&self, bars: &[Bar], offsets: &[usize], horizon: u32) -> (usize, usize) {
        let from = newest(self.stretches, self.clocks);
        let last = self.stretches.iter().map(|own| self.clocks[own.end as usize - 1]).max().unwrap_or(0);
        // `[clock times + 1]` rows that are drawn before each.
        let mut before = vec![0usize; last as usize + 2];
        for row in self.stretches.iter().flat_map(|own| own.start + 1..own.end) {
            let kept = self.clocks[row as usize - 1] >= from && bars[row as usize].tradable != 0.0;
            before[self.clocks[row as usize] as usize + 1] += usize::from(kept);
        }
        let mut sum = 0;
        before.iter_mut().for_each(|rows| {
            sum += *rows;
            *rows = sum;
        });
        let at = |clock: u32| before[(clock as usize).min(before.len() - 1)];
        let mut fewest = sum;
        for own in self.stretches {
            let symbol = offsets.partition_point(|first| *first <= own.start as usize);
            let symbol = offsets[symbol - 1] as u32..offsets[symbol] as u32;
            for row in own.clone() {
                let near = self.within(row, horizon, &symbol);
                fewest = fewest.min(sum - (at(near.end) - at(near.start)));
            }
        }
        (sum, fewest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symbol of every hour in rows 0 to 239, then one of 7 hours a day in rows 240 to 309, both for ten days.
    fn two_calendars() -> (Vec<u32>, [Range<u32>; 2]) {
        let opened = (0..240).filter(|hour| (9..16).contains(&(hour % 24)));
        ((0..240).chain(opened).collect(), [0..240, 240..310])
    }

    #[test]
    fn a_horizon_is_counted_in_bars_of_the_roots_symbol() {
        let (clocks, symbols) = two_calendars();
        // The last bar of each is no sample.
        let stretches = [0..239, 240..309];
        let part = Clocked { stretches: &stretches, clocks: &clocks };
        // Noon of the fifth day: 8 hours each way of the first; of the second 8 bars are a night more.
        assert_eq!(part.within(108, 8, &symbols[0]), 100..117);
        let row = 240 + 4 * 7 + 3;
        assert_eq!(clocks[row as usize], 108);
        let near = part.within(row, 8, &symbols[1]);
        assert_eq!(near, clocks[row as usize - 8]..clocks[row as usize + 8] + 1);
        assert_eq!(near, 83..134);
        // Never fewer clock times than bars, also where its bars lie close or end.
        assert_eq!(part.within(240, 8, &symbols[1]), 1..clocks[248] + 1);
        assert_eq!(part.within(308, 8, &symbols[1]), clocks[300]..clocks[308] + 9);
        assert_eq!(part.within(3, 8, &symbols[0]), 0..12);
    }

    #[test]
    fn a_gap_ends_no_horizon_and_a_symbol_does() {
        let clocks: Vec<u32> = (0..40).chain((0..40).map(|i| 3 * i)).collect();
        // Two samples are missing inside the second symbol, none between the two.
        let stretches = [0..40, 40..50, 52..80];
        let part = Clocked { stretches: &stretches, clocks: &clocks };
        assert_eq!(part.within(48, 4, &(40..80)), 3 * 4..3 * 12 + 1);
        assert_eq!(part.within(38, 4, &(0..40)), 34..43);
        assert_eq!(part.within(41, 4, &(40..80)), 0..16);
    }

    #[test]
    fn the_fewest_rows_that_a_root_leaves_are_counted() {
        let (clocks, _) = two_calendars();
        let (stretches, bars) = ([0..239, 240..309], vec![Bar::flat(1.0); 310]);
        let part = Clocked { stretches: &stretches, clocks: &clocks };
        let (all, fewest) = part.drawn(&bars, &[0, 240, 310], 8);
        assert_eq!(all, 238 + 68);
        // By hand: the root that hides most.
        let symbols = [0..240, 240..310];
        let hidden = |row: u32| {
            let near = part.within(row, 8, &symbols[usize::from(row >= 240)]);
            (1..239).chain(241..309).filter(|row| near.contains(&clocks[*row as usize])).count()
        };
        let most = (0..239).chain(240..309).map(hidden).max().unwrap();
        assert_eq!(fewest, all - most);
        assert_eq!(part.drawn(&bars, &[0, 240, 310], 240).1, 0);
        // What cannot be traded is not drawn.
        let closed = vec![Bar { tradable: 0.0, ..Bar::flat(1.0) }; 310];
        assert_eq!(part.drawn(&closed, &[0, 240, 310], 8), (0, 0));
    }
}
