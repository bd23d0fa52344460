//! Jumps of the price: unadjusted splits told from crashes, and leaps that nothing explains.
//!
//! A split moves the price by a simple ratio between two sessions, and it stays there. So may a crash that takes less
//! than two thirds; what tells them apart is the rest: a split's day is as quiet as any other, its volume grows by as
//! much as the price falls, an adjusted close does not move with it, and the other shares do not fall on the same day.

use super::{Split, observe::PreviousBar};
use crate::series::SeriesFacts;
use files::time::rfc3339;
use std::collections::HashMap;

/// A jump to a level that looks like a split.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Jump {
    /// Start of the first bar at the new level.
    pub at: i64,
    /// Its index among the bars.
    pub index: u64,
    /// New over old.
    pub ratio: f64,
    level: f64,
    leaps: bool,           // opens and closes too far away for any market; an opening print alone is a wick
    simple: f64,           // distance from the nearest simple ratio
    scale: f64,            // typical absolute return before
    range: f64,            // high less low of the jump's bar over its open
    adjusted: Option<f64>, // return of the adjusted close
    volume: [f64; 2],      // mean before and sum after
    moved: f64,            // absolute returns after, summed
    last: f64,
    seen: u8,
    held: u8,
}

/// Follows the jumps of one series.
#[derive(Default)]
pub(crate) struct JumpWatch {
    /// Shares, indices and futures have splits.
    pub splits_possible: bool,
    pub splits: Vec<Jump>,
    /// What looked like a split and was a move.
    pub moves: Vec<Jump>,
    /// Leaps by that factor or more that are no splits: no market makes them within one bar.
    pub leap: f64,
    pub leaps: Vec<Jump>,
    /// When the price moved far between two sessions, and which way.
    pub far: Vec<(i64, bool)>,
    pub(super) pending: Vec<Jump>,
}

/// From this factor on a simple ratio that holds is a split, whatever else the day was like.
const BEYOND_CRASH: f64 = 3.5;
const RATIOS: [f64; 16] = [1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 20.0, 25.0, 30.0, 50.0, 100.0];

/// The bar that jumped, and what surrounds it.
pub(super) struct JumpBar {
    pub start: i64,
    pub index: u64,
    pub prices: [f64; 4], // open, high, low, close
    pub scale: f64,
    /// Between two sessions, or between two days.
    pub between: bool,
    pub adjusted: Option<f64>,
    pub volume_before: f64,
}

impl JumpWatch {
    /// A move of more than a quarter.
    pub(super) fn note(&mut self, bar: &JumpBar, prev: &PreviousBar) {
        let [open, high, low, close] = bar.prices;
        let before = prev.close;
        // Nobody joins three shares into two; a price that rises by half has news.
        let distance = |ratio: f64| {
            let fits = |r: &&f64| ratio < 1.0 || **r >= 2.0;
            let size = ratio.max(1.0 / ratio);
            RATIOS.iter().filter(fits).map(|r| (size / r - 1.0).abs()).fold(1.0, f64::min)
        };
        let near = (2.5 * bar.scale).clamp(0.025, 0.06);
        // A first bar may still open at the old level, or anywhere, and close at the new one.
        let late = (open / before - 1.0).abs() < 0.28;
        let by_close = late || (distance(open / before) >= near && distance(close / before) < near);
        let (ratio, level) = if by_close { (close / before, close) } else { (open / before, open) };
        let jump = Jump {
            at: bar.start,
            index: bar.index,
            ratio,
            level,
            leaps: [ratio, close / before].iter().all(|r| r.max(1.0 / r) >= self.leap),
            simple: distance(ratio),
            scale: bar.scale,
            range: if late { 0.0 } else { (high - low) / open },
            adjusted: bar.adjusted,
            volume: [bar.volume_before, 0.0],
            moved: 0.0,
            last: close,
            seen: 0,
            held: 0,
        };
        // A jump that takes back an earlier one was a slip of the feed, and so was that.
        if let Some(at) = self.pending.iter().position(|j| (j.ratio * ratio - 1.0).abs() < 0.2) {
            let slip = self.pending.remove(at);
            self.leaps.extend([slip, jump].into_iter().filter(|j| j.leaps));
            return;
        }
        let possible =
            self.splits_possible && bar.between && bar.index >= 5 && (ratio - 1.0).abs() >= (8.0 * bar.scale).max(0.28);
        if possible && jump.simple < near {
            self.pending.push(jump);
        } else if jump.leaps {
            self.leaps.push(jump);
        }
    }

    /// A split stays; a slip of the feed does not.
    pub(super) fn confirm(&mut self, close: f64, volume: f64) {
        for jump in &mut self.pending {
            jump.moved += if jump.seen > 0 { (close / jump.last - 1.0).abs() } else { 0.0 };
            jump.last = close;
            jump.volume[1] += volume;
            jump.seen += 1;
            jump.held += u8::from((0.72..1.4).contains(&(close / jump.level)));
        }
        let done: Vec<Jump> = self.pending.extract_if(.., |jump| jump.seen >= 6).collect();
        done.into_iter().for_each(|jump| self.settle(jump, 5));
    }

    /// To be called after the last bar.
    pub(super) fn finish(&mut self) {
        for jump in std::mem::take(&mut self.pending) {
            let least = jump.seen * 3 / 4 + u8::from(jump.seen * 3 % 4 > 0);
            self.settle(jump, least);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    fn settle(&mut self, jump: Jump, least: u8) {
        match () {
            () if jump.held < least && jump.leaps => self.leaps.push(jump),
            () if jump.held < least => {}
            () if jump.is_split() => self.splits.push(jump),
            () => self.moves.push(jump),
        }
    }

    /// All borders that bars must not be compared across.
    pub(crate) fn borders(&self) -> impl Iterator<Item = &Jump> {
        self.splits.iter().chain(&self.leaps)
    }
}

impl Jump {
    /// By how many times the price rose or fell.
    fn size(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }

    /// Volume after over before, against what a split of this ratio makes of it; 1 is as expected.
    fn volume_share(&self) -> Option<f64> {
        let [before, after] = self.volume;
        let after = after / f64::from(self.seen.max(1));
        (before > 0.0 && after > 0.0).then(|| after / before * self.ratio)
    }

    /// Whether its bar and those after it are like any others.
    fn is_quiet(&self) -> bool {
        self.range <= (8.0 * self.scale).max(0.08)
            && self.moved <= f64::from(self.seen.max(1)) * (3.5 * self.scale).max(0.04)
    }

    fn is_split(&self) -> bool {
        let quiet = self.is_quiet();
        let scaled = self.volume_share();
        match self.adjusted {
            _ if self.size() >= BEYOND_CRASH => true,
            // The adjusted close stays where it was: somebody knew of the split.
            Some(moved) if (moved - 1.0).abs() < 0.5 * (self.ratio - 1.0).abs() => true,
            // It moves along: only a clean split that the vendor missed looks like this.
            Some(_) => quiet && self.simple < 0.015 && scaled.is_some_and(|s| (1.0 / 3.0..3.0).contains(&s)),
            None => quiet && scaled.is_none_or(|s| (1.0 / 8.0..8.0).contains(&s)),
        }
    }

    pub(super) fn show(&self, factored: bool) -> Split {
        Split { at: rfc3339(self.at), ratio: self.ratio, factored }
    }
}

/// Takes back splits on days when much of the market moved the same way.
pub(crate) fn forget_market_moves(seen: &mut [SeriesFacts]) {
    if seen.iter().all(|s| s.observer.jumps.splits.is_empty()) {
        return;
    }
    let mut moved: HashMap<(i64, bool), usize> = HashMap::new();
    for day in seen.iter().flat_map(|s| &s.observer.jumps.far) {
        *moved.entry(*day).or_default() += 1;
    }
    let spans: Vec<(i64, i64)> = seen.iter().map(|s| (s.observer.first, s.observer.last)).collect();
    for facts in seen.iter_mut() {
        let jumps = &mut facts.observer.jumps;
        let market_wide = |jump: &mut Jump| {
            let alive = spans.iter().filter(|(first, last)| (*first..=*last).contains(&jump.at)).count();
            let same = moved.get(&(jump.at, jump.ratio > 1.0)).copied().unwrap_or(0);
            let stays = jump.adjusted.is_some_and(|a| (a - 1.0).abs() < 0.1);
            let clean = stays || jump.size() >= BEYOND_CRASH || (jump.simple < 0.015 && jump.is_quiet());
            !clean && same >= 5 && same * 4 >= alive
        };
        jumps.moves.extend(jumps.splits.extract_if(.., market_wide));
    }
}
