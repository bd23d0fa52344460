//! A value from the one before: exponential averages, sums without end, the parabolic stop.
//!
//! A value that does not exist ends the memory of its lane: the next one begins the warm-up again.

use super::map::{larger, smaller};
use crate::engine::{Body, Feed, State};

/// Bars until no more than `left` of the start is in the last of averages with these factors, each of the one before.
///
/// The first forgets at its own pace; a later one forgets its own start and takes in what the one before still has:
/// two Wilder averages of 14 take 170 bars to a share of 5e-5, not twice the 134 that one takes.
pub(crate) fn memory(factors: &[f64], left: f64) -> usize {
    let mut shares = vec![1.0; factors.len()];
    let mut bars = 0;
    while shares.last().is_some_and(|share| *share > left) {
        let mut before = 0.0;
        for (share, alpha) in shares.iter_mut().zip(factors) {
            *share += alpha * (before - *share);
            before = *share;
        }
        bars += 1;
    }
    bars
}

/// An exponential average: `y = alpha x + (1 - alpha) y`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ema {
    /// Weight of the newest value.
    pub(crate) alpha: f64,
    /// Values left out at the beginning, before the seed.
    pub(crate) skip: usize,
    /// Values the seed is the sum of.
    pub(crate) seed: usize,
    /// What that sum is divided by.
    pub(crate) over: usize,
    /// Values after the seed before the first result.
    pub(crate) hold: usize,
}

impl Ema {
    /// The usual one: `alpha = 2 / (n + 1)`, seeded with the mean of the first n.
    pub(crate) fn usual(n: usize) -> Ema {
        Ema { alpha: 2.0 / (n as f64 + 1.0), skip: 0, seed: n, over: n, hold: 0 }
    }

    /// Wilder's: `alpha = 1 / n`, seeded with the mean of the first n.
    pub(crate) fn wilder(n: usize) -> Ema {
        Ema { alpha: 1.0 / n as f64, skip: 0, seed: n, over: n, hold: 0 }
    }

    /// The index of its first result.
    pub(super) fn delay(self) -> usize {
        self.skip + self.seed + self.hold - usize::from(self.seed + self.hold > 0)
    }
}

/// [`Ema`] with its state.
#[derive(Clone)]
pub(crate) struct Average<const W: usize> {
    spec: Ema,
    value: [f64; W],
    /// Values in a row up to now.
    run: [f64; W],
}

impl<const W: usize> Average<W> {
    pub(crate) fn new(spec: Ema) -> Self {
        Average { spec, value: [0.0; W], run: [0.0; W] }
    }

    /// Whether every lane has its seed and gives results.
    #[inline(always)]
    pub(crate) fn is_steady(&self) -> bool {
        let Ema { skip, seed, hold, .. } = self.spec;
        self.run.iter().all(|run| *run >= (skip + seed + hold) as f64)
    }
}

/// Four steady averages over a block without a missing value, side by side.
pub(crate) fn together<const W: usize>(averages: &mut [Average<W>; 4], x: [&[f64]; 4], out: [&mut [f64]; 4]) {
    crate::simd::call(Together, (averages, x, out));
}

struct Together;

type Four<'a, const W: usize> = (&'a mut [Average<W>; 4], [&'a [f64]; 4], [&'a mut [f64]; 4]);

impl<'a, const W: usize> crate::simd::Inlined<Four<'a, W>, ()> for Together {
    #[inline(always)]
    fn call(self, (averages, x, out): Four<'a, W>) {
        let bars = out[0].len();
        let alpha: [f64; 4] = std::array::from_fn(|k| averages[k].spec.alpha);
        let mut y: [f64; 4] = std::array::from_fn(|k| averages[k].value[0]);
        let [x0, x1, x2, x3] = x.map(|x| &x[..bars]);
        let [o0, o1, o2, o3] = out.map(|out| &mut out[..bars]);
        for t in 0..bars {
            let now = [x0[t], x1[t], x2[t], x3[t]];
            for k in 0..4 {
                y[k] = y[k].mul_add(1.0 - alpha[k], alpha[k] * now[k]);
            }
            (o0[t], o1[t], o2[t], o3[t]) = (y[0], y[1], y[2], y[3]);
        }
        for k in 0..4 {
            averages[k].value[0] = y[k];
            averages[k].run[0] += bars as f64;
        }
    }
}

impl<const W: usize> Body<W> for Average<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let x = feed.arg(0, 0);
        let Ema { alpha, skip, seed, over, hold } = self.spec;
        let beta = 1.0 - alpha;
        let mut y = self.value;
        let seeded = (skip + seed) as f64;
        if feed.clean && self.is_steady() {
            for (out, x) in out.iter_mut().zip(x) {
                for l in 0..W {
                    y[l] = y[l].mul_add(beta, alpha * x[l]);
                }
                *out = y;
            }
            self.run.iter_mut().for_each(|run| *run += feed.bars as f64);
            self.value = y;
            return true;
        }
        let mut run = self.run;
        for (out, x) in out.iter_mut().zip(x) {
            for l in 0..W {
                let fine = x[l].is_finite();
                run[l] = if fine { run[l] + 1.0 } else { 0.0 };
                // While the seed is gathered the value is its sum; with its last value it becomes the mean.
                let sum = if run[l] <= skip as f64 { 0.0 } else { y[l] + x[l] };
                // Divided by one in between: a choice of divisors has lanes, a division that is left out has none.
                let sum = sum / if run[l] == seeded { over as f64 } else { 1.0 };
                let next = y[l].mul_add(beta, alpha * x[l]);
                y[l] = if !fine {
                    0.0
                } else if run[l] <= seeded {
                    sum
                } else {
                    next
                };
                out[l] = if fine & (run[l] >= seeded + hold as f64) { y[l] } else { f64::NAN };
            }
        }
        self.run = run;
        self.value = y;
        super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        let Ema { skip, seed, hold, .. } = self.spec;
        state.lanes(std::slice::from_mut(&mut self.value));
        state.up_to(&mut self.run, skip + seed + hold);
    }
}

/// An average whose factor is given at each bar; seeded with the value before the first factor.
pub(super) struct Adaptive<const W: usize> {
    value: [f64; W],
    going: [f64; W],
}

impl<const W: usize> Adaptive<W> {
    pub(super) fn new() -> Self {
        Adaptive { value: [0.0; W], going: [0.0; W] }
    }
}

impl<const W: usize> Body<W> for Adaptive<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (x, factor) = (feed.arg(0, 1), feed.arg(1, 0));
        let (mut y, mut going) = (self.value, self.going);
        if feed.clean && going.iter().all(|going| *going > 0.0) {
            for ((out, now), a) in out.iter_mut().zip(&x[1..]).zip(factor) {
                for l in 0..W {
                    y[l] = a[l].mul_add(now[l] - y[l], y[l]);
                }
                *out = y;
            }
            // What is not finite stays so: then it was the long way after all.
            if y.iter().all(|y| y.is_finite()) {
                self.value = y;
                return true;
            }
            y = self.value;
        }
        for (t, out) in out.iter_mut().enumerate() {
            for l in 0..W {
                let (before, now, a) = (x[t][l], x[t + 1][l], factor[t][l]);
                let from = if going[l] > 0.0 { y[l] } else { before };
                let next = a.mul_add(now - from, from);
                let fine = next.is_finite();
                y[l] = if fine { next } else { 0.0 };
                going[l] = if fine { 1.0 } else { 0.0 };
                out[l] = if fine { next } else { f64::NAN };
            }
        }
        (self.value, self.going) = (y, going);
        super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.lanes(std::slice::from_mut(&mut self.value));
        state.lanes(std::slice::from_mut(&mut self.going));
    }
}

/// The sum of everything since the run began, with the rounding carried along (Knuth's way), so that millions of bars
/// add up.
pub(super) struct Cumulate<const W: usize> {
    sum: [f64; W],
    lost: [f64; W],
}

impl<const W: usize> Cumulate<W> {
    pub(super) fn new() -> Self {
        Cumulate { sum: [0.0; W], lost: [0.0; W] }
    }
}

/// The sum, and what it could not hold: that is exact, whichever is the larger.
#[inline(always)]
fn add(sum: f64, x: f64) -> (f64, f64) {
    let next = sum + x;
    let held = next - sum;
    (next, (sum - (next - held)) + (x - held))
}

impl<const W: usize> Cumulate<W> {
    /// Takes a bar of which values may be missing.
    #[inline(always)]
    fn take(&mut self, x: [f64; W]) {
        for (l, x) in x.into_iter().enumerate() {
            let fine = x.is_finite();
            let (next, part) = add(self.sum[l], x);
            self.sum[l] = if fine { next } else { 0.0 };
            self.lost[l] = if fine { self.lost[l] + part } else { 0.0 };
        }
    }
}

impl<const W: usize> Body<W> for Cumulate<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let each = out.iter_mut().zip(feed.arg(0, 0));
        // In a copy, which can stay in registers.
        let Cumulate { mut sum, mut lost } = *self;
        if feed.clean {
            for (out, x) in each {
                for l in 0..W {
                    let (next, part) = add(sum[l], x[l]);
                    (sum[l], lost[l]) = (next, lost[l] + part);
                    out[l] = sum[l] + lost[l];
                }
            }
            *self = Cumulate { sum, lost };
        } else {
            let mut now = Cumulate { sum, lost };
            for (out, x) in each {
                now.take(*x);
                for l in 0..W {
                    out[l] = if x[l].is_finite() { now.sum[l] + now.lost[l] } else { f64::NAN };
                }
            }
            *self = now;
        }
        feed.clean
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.lanes(std::slice::from_mut(&mut self.sum));
        state.lanes(std::slice::from_mut(&mut self.lost));
    }
}

/// A few sums without end of one symbol, side by side as if each were a symbol: an addition waits for the one before,
/// so four take the time of one.
pub(crate) struct Sums(Cumulate<4>);

impl Sums {
    /// So many at once.
    pub(crate) const MOST: usize = 4;

    pub(crate) fn new() -> Sums {
        Sums(Cumulate::new())
    }

    /// Takes bars: a column for each sum; `clean` says that all of it is finite.
    pub(crate) fn add(&mut self, columns: &[&[f64]], clean: bool) {
        let Some(first) = columns.first() else { return };
        // Lanes without a column add up the first.
        let columns: [&[f64]; Sums::MOST] = std::array::from_fn(|l| *columns.get(l).unwrap_or(first));
        let Cumulate { sum, lost } = &mut self.0;
        let done = if clean { crate::simd::add_up(&columns, sum, lost) } else { 0 };
        (done..first.len()).for_each(|t| self.0.take(columns.map(|column| column[t])));
    }

    /// What the first so many remember.
    pub(crate) fn state(&mut self, sums: usize, words: &mut Vec<u64>) {
        (0..sums).for_each(|lane| Body::state(&mut self.0, &mut State::Take { lane, words: &mut *words }));
    }
}

/// Wilder's parabolic stop and reverse, as TA-Lib has it: the first direction is that of the first directional
/// movement.
pub(super) struct Sar<const W: usize> {
    step: f64,
    most: f64,
    /// Bars in a row up to now, counted to 2.
    bars: [f64; W],
    /// 1 while it follows a rise, 0 while it follows a fall.
    long: [f64; W],
    stop: [f64; W],
    extreme: [f64; W],
    speed: [f64; W],
}

impl<const W: usize> Sar<W> {
    pub(super) fn new(step: f64, most: f64) -> Self {
        let none = [0.0; W];
        Sar { step: step.min(most), most, bars: none, long: none, stop: none, extreme: none, speed: none }
    }

    /// Takes a bar and the one before it, while there may be no side yet; gives the stop that was in force during it.
    #[inline(always)]
    fn begin(&mut self, l: usize, high: [f64; 2], low: [f64; 2]) -> f64 {
        if self.bars[l] >= 2.0 {
            return self.follow(l, high, low);
        }
        self.bars[l] += 1.0;
        if self.bars[l] < 2.0 {
            return f64::NAN;
        }
        let (up, down) = (high[1] - high[0], low[0] - low[1]);
        let falling = (down > 0.0) & (down > up);
        self.long[l] = if falling { 0.0 } else { 1.0 };
        (self.extreme[l], self.stop[l]) = if falling { (low[1], high[0]) } else { (high[1], low[0]) };
        self.speed[l] = self.step;
        // The rule then meets the bar that chose the side, with itself as the bar before.
        self.follow(l, [high[1]; 2], [low[1]; 2])
    }

    /// The rule, once there is a side. Both sides are worked out and one is chosen: a choice has lanes, a branch on
    /// prices has none.
    #[inline(always)]
    fn follow(&mut self, l: usize, [h1, h]: [f64; 2], [l1, low]: [f64; 2]) -> f64 {
        let (stop, extreme, speed) = (self.stop[l], self.extreme[l], self.speed[l]);
        let rising = mask(self.long[l] > 0.0);
        let (top, bottom) = (larger(h1, h), smaller(l1, low));
        let turned = (rising & mask(low <= stop)) | (!rising & mask(h >= stop));
        let further = (rising & mask(h > extreme)) | (!rising & mask(low < extreme));
        let over = choose(rising, larger(extreme, top), smaller(extreme, bottom));
        let shown = choose(turned, over, stop);
        let quicker = choose(further, smaller(speed + self.step, self.most), speed);
        let speed = choose(turned, self.step, quicker);
        // The bar's ends, as the side that is followed sees them.
        let (far, near) = (choose(rising, h, low), choose(rising, low, h));
        let extreme = choose(turned, near, choose(further, far, extreme));
        let rising = rising ^ turned;
        let next = shown + speed * (extreme - shown);
        self.stop[l] = choose(rising, smaller(next, bottom), larger(next, top));
        self.long[l] = f64::from_bits(rising & 1f64.to_bits());
        (self.extreme[l], self.speed[l]) = (extreme, speed);
        shown
    }
}

/// All bits or none: as wide as the numbers it chooses from, so that lanes need not be packed and spread again for it.
#[inline(always)]
fn mask(yes: bool) -> u64 {
    if yes { u64::MAX } else { 0 }
}

#[inline(always)]
fn choose(mask: u64, yes: f64, no: f64) -> f64 {
    f64::from_bits((yes.to_bits() & mask) | (no.to_bits() & !mask))
}

impl<const W: usize> Body<W> for Sar<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (high, low) = (feed.arg(0, 1), feed.arg(1, 1));
        // In a copy, which can stay in registers.
        let Sar { step, most, bars, long, stop, extreme, speed } = *self;
        let mut now = Sar { step, most, bars, long, stop, extreme, speed };
        let steady = feed.clean && bars.iter().all(|bars| *bars >= 2.0);
        if steady {
            for ((out, h), low) in out.iter_mut().zip(high.windows(2)).zip(low.windows(2)) {
                for l in 0..W {
                    out[l] = now.follow(l, [h[0][l], h[1][l]], [low[0][l], low[1][l]]);
                }
            }
        } else {
            for (t, out) in out.iter_mut().enumerate() {
                for l in 0..W {
                    let (h, low) = ([high[t][l], high[t + 1][l]], [low[t][l], low[t + 1][l]]);
                    if h[1].is_finite() & low[1].is_finite() {
                        out[l] = now.begin(l, h, low);
                    } else {
                        (now.bars[l], now.long[l], now.stop[l], now.extreme[l], now.speed[l]) =
                            (0.0, 0.0, 0.0, 0.0, 0.0);
                        out[l] = f64::NAN;
                    }
                }
            }
        }
        *self = now;
        steady || super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        for lanes in [&mut self.bars, &mut self.long, &mut self.stop, &mut self.extreme, &mut self.speed] {
            state.lanes(std::slice::from_mut(lanes));
        }
    }
}
