//! A value from the one before: exponential averages, sums without end, the parabolic stop.
//!
//! A value that does not exist ends the memory of its lane: the next one begins the warm-up again.

use crate::engine::{Body, Feed, State};

/// What is left of the start after `settled` bars, as a share of its weight. One stage of an indicator may add up with others, a
/// ratio near one magnifies what is left, and an oscillator in a calm stretch remembers a wild start, so this is a hundredth of what
/// METHOD.md L3 allows.
const LEFT: f64 = 1e-8;

/// Bars until a start weighs no more than [`LEFT`] in an average with that factor.
pub(super) fn memory(alpha: f64) -> usize {
    if alpha >= 1.0 { 0 } else { (LEFT.ln() / (-alpha).ln_1p()).ceil() as usize }
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

    /// Bars after its first result until the start no longer matters.
    pub(super) fn memory(self) -> usize {
        memory(self.alpha)
    }
}

/// [`Ema`] with its state.
#[derive(Clone)]
pub(crate) struct Average<const W: usize> {
    how: Ema,
    value: [f64; W],
    /// Values in a row up to now.
    run: [f64; W],
}

impl<const W: usize> Average<W> {
    pub(crate) fn new(how: Ema) -> Self {
        Average { how, value: [0.0; W], run: [0.0; W] }
    }

    /// Whether every lane has its seed and gives results.
    #[inline(always)]
    pub(crate) fn is_steady(&self) -> bool {
        let Ema { skip, seed, hold, .. } = self.how;
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
    fn go(self, (averages, x, out): Four<'a, W>) {
        let bars = out[0].len();
        let alpha: [f64; 4] = std::array::from_fn(|k| averages[k].how.alpha);
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
        let Ema { alpha, skip, seed, over, hold } = self.how;
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
                let sum = if run[l] == seeded { sum / over as f64 } else { sum };
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
        state.lanes(std::slice::from_mut(&mut self.value));
        state.lanes(std::slice::from_mut(&mut self.run));
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
        feed.clean || super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.lanes(std::slice::from_mut(&mut self.value));
        state.lanes(std::slice::from_mut(&mut self.going));
    }
}

/// The sum of everything since the run began, with the rounding carried along (Neumaier's way), so that millions of bars add up.
pub(super) struct Cumulate<const W: usize> {
    sum: [f64; W],
    lost: [f64; W],
}

impl<const W: usize> Cumulate<W> {
    pub(super) fn new() -> Self {
        Cumulate { sum: [0.0; W], lost: [0.0; W] }
    }
}

impl<const W: usize> Body<W> for Cumulate<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (mut sum, mut lost) = (self.sum, self.lost);
        for (out, x) in out.iter_mut().zip(feed.arg(0, 0)) {
            for l in 0..W {
                let fine = feed.clean || x[l].is_finite();
                let next = sum[l] + x[l];
                // What of the smaller one the sum could not hold.
                let part = if sum[l].abs() >= x[l].abs() { (sum[l] - next) + x[l] } else { (x[l] - next) + sum[l] };
                sum[l] = if fine { next } else { 0.0 };
                lost[l] = if fine { lost[l] + part } else { 0.0 };
                out[l] = if fine { sum[l] + lost[l] } else { f64::NAN };
            }
        }
        (self.sum, self.lost) = (sum, lost);
        feed.clean
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.lanes(std::slice::from_mut(&mut self.sum));
        state.lanes(std::slice::from_mut(&mut self.lost));
    }
}

/// Wilder's parabolic stop and reverse, as TA-Lib has it: the first direction is that of the first directional movement.
pub(super) struct Sar<const W: usize> {
    step: f64,
    most: f64,
    lanes: [Stop; W],
}

/// One lane's stop.
#[derive(Clone, Copy, Default)]
struct Stop {
    /// Bars in a row up to now, counted to 2.
    bars: f64,
    /// 1 while it follows a rise, 0 while it follows a fall.
    long: f64,
    stop: f64,
    extreme: f64,
    speed: f64,
}

impl<const W: usize> Sar<W> {
    pub(super) fn new(step: f64, most: f64) -> Self {
        Sar { step: step.min(most), most, lanes: [Stop::default(); W] }
    }
}

impl Stop {
    /// Takes a bar and the one before it; gives the stop that was in force during it.
    #[inline(always)]
    fn step(&mut self, high: [f64; 2], low: [f64; 2], step: f64, most: f64) -> f64 {
        let larger = |a: f64, b: f64| if a > b { a } else { b };
        let smaller = |a: f64, b: f64| if a < b { a } else { b };
        let ([mut h1, h], [mut l1, l]) = (high, low);
        if self.bars < 2.0 {
            self.bars += 1.0;
            if self.bars < 2.0 {
                return f64::NAN;
            }
            let (up, down) = (h - h1, l1 - l);
            let falling = (down > 0.0) & (down > up);
            let (extreme, stop) = if falling { (l, h1) } else { (h, l1) };
            *self = Stop { bars: 2.0, long: if falling { 0.0 } else { 1.0 }, stop, extreme, speed: step };
            // The rule then meets the bar that chose the side, with itself as the bar before.
            (h1, l1) = (h, l);
        }
        let long = self.long > 0.0;
        let (top, bottom) = (larger(h1, h), smaller(l1, l));
        let turned = if long { l <= self.stop } else { h >= self.stop };
        let shown;
        if turned {
            self.long = 1.0 - self.long;
            shown = if long { larger(self.extreme, top) } else { smaller(self.extreme, bottom) };
            self.speed = step;
            self.extreme = if long { l } else { h };
        } else {
            shown = self.stop;
            let further = if long { h > self.extreme } else { l < self.extreme };
            if further {
                self.extreme = if long { h } else { l };
                self.speed = smaller(self.speed + step, most);
            }
        }
        let next = shown + self.speed * (self.extreme - shown);
        self.stop = if self.long > 0.0 { smaller(next, bottom) } else { larger(next, top) };
        shown
    }
}

impl<const W: usize> Body<W> for Sar<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (high, low) = (feed.arg(0, 1), feed.arg(1, 1));
        for (l, lane) in self.lanes.iter_mut().enumerate() {
            let mut now = *lane;
            for (t, out) in out.iter_mut().enumerate() {
                let (h, low) = ([high[t][l], high[t + 1][l]], [low[t][l], low[t + 1][l]]);
                if h[1].is_finite() & low[1].is_finite() {
                    out[l] = now.step(h, low, self.step, self.most);
                } else {
                    now = Stop::default();
                    out[l] = f64::NAN;
                }
            }
            *lane = now;
        }
        super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        for lane in &mut self.lanes {
            for number in [&mut lane.bars, &mut lane.long, &mut lane.stop, &mut lane.extreme, &mut lane.speed] {
                state.number(number);
            }
        }
    }
}
