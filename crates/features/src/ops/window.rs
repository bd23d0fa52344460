//! Something of the last n values, gathered without drift and without looking at each of them again.
//!
//! Time is cut into stretches of n bars. The window that ends at bar p of a stretch is the end of the stretch before,
//! from its bar p + 1 on, and the beginning of this one: both are gathered once, one backwards and one forwards, and
//! joined. That is three joins a bar for any n, no value is ever subtracted, and no branch depends on the data (van
//! Herk 1992, Gil and Werman 1993, who did it for extremes).
//!
//! Sums of powers are taken of x - c, where c is the first value of the stretch: it lies inside every window that ends
//! there, so a huge level with tiny moves loses no digits.

use crate::engine::{Body, Feed, Rows, State};

/// What is gathered: `K` numbers that can be joined.
pub(crate) trait Gather<const K: usize>: Copy + Send {
    /// Of no value.
    const NOTHING: [f64; K];
    /// Whether values are taken relative to one of the window.
    const RELATIVE: bool;
    /// Of one value at bar `i` of its stretch (the stretch before counts from -n).
    fn lift(self, x: f64, i: f64) -> [f64; K];
    /// Of an earlier part and the later part behind it.
    fn join(self, early: [f64; K], late: [f64; K]) -> [f64; K];
    /// The value of the window of n that ends at bar `p` of its stretch, `c` being what values were relative to.
    fn value(self, sum: [f64; K], n: f64, p: f64, c: f64) -> f64;
}

/// Nothing, in every lane.
#[inline(always)]
fn nothing<G: Gather<K>, const K: usize, const W: usize>() -> [[f64; W]; K] {
    let mut all = [[0.0; W]; K];
    for (lanes, nothing) in all.iter_mut().zip(G::NOTHING) {
        *lanes = [nothing; W];
    }
    all
}

/// One lane of what was gathered.
#[inline(always)]
fn lane<const K: usize, const W: usize>(all: &[[f64; W]; K], l: usize) -> [f64; K] {
    let mut one = [0.0; K];
    for k in 0..K {
        one[k] = all[k][l];
    }
    one
}

/// A window of n values.
pub(crate) struct Window<G, const K: usize, const W: usize> {
    gather: G,
    n: usize,
    /// Bar of the stretch that comes next, 0 to n - 1.
    phase: usize,
    /// Finite values in a row up to now.
    run: [f64; W],
    /// The beginning of this stretch.
    head: [[f64; W]; K],
    /// What values of this stretch and the one before are relative to.
    level: [f64; W],
    /// `[n, K]` before `phase`: the values of this stretch, in the first of the K places. From there on: the ends of
    /// the stretch before, each from its bar i + 1 to its last.
    kept: Rows<W>,
    /// For one lane: a window for stretches side by side, and room for their values.
    wide: Option<Box<Abreast<G, K>>>,
}

/// So many stretches of one lane go side by side.
const ABREAST: usize = 8;
type Abreast<G, const K: usize> = (Window<G, K, ABREAST>, Vec<[f64; ABREAST]>, Vec<[f64; ABREAST]>, Vec<f64>);

impl<G: Gather<K>, const K: usize, const W: usize> Window<G, K, W> {
    pub(crate) fn new(gather: G, n: usize) -> Self {
        let head = nothing::<G, K, W>();
        Window {
            gather,
            n,
            phase: 0,
            run: [0.0; W],
            head,
            level: [0.0; W],
            kept: Rows::new(f64::NAN, n * K),
            wide: None,
        }
    }

    /// What is kept of each bar of a stretch, `[n]`.
    #[inline(always)]
    fn kept(kept: &mut Rows<W>, n: usize) -> &mut [[[f64; W]; K]] {
        kept.all_mut()[..n * K].as_chunks_mut().0
    }

    /// Bars up to the end of the stretch or of `rows`. `STEADY`: every value that can be met is finite and the windows
    /// are full.
    #[inline(always)]
    fn stretch<const STEADY: bool>(&mut self, rows: &[[f64; W]], out: &mut [[f64; W]]) {
        let (gather, n, from) = (self.gather, self.n, self.phase);
        let (mut now, mut count, level) = (self.head, self.run, self.level);
        let kept = &mut Self::kept(&mut self.kept, n)[from..];
        for (i, ((x, out), kept)) in rows.iter().zip(out).zip(kept).enumerate() {
            let (tail, p) = (*kept, (from + i) as f64);
            let mut value = [0.0; W];
            for l in 0..W {
                let fine = STEADY || x[l].is_finite();
                let relative = if G::RELATIVE { x[l] - level[l] } else { x[l] };
                let lifted = if fine { gather.lift(relative, p) } else { G::NOTHING };
                let joined = gather.join(lane(&now, l), lifted);
                let whole = gather.join(lane(&tail, l), joined);
                value[l] = gather.value(whole, n as f64, p, level[l]);
                for k in 0..K {
                    now[k][l] = joined[k];
                }
                if !STEADY {
                    count[l] = if fine { count[l] + 1.0 } else { 0.0 };
                    value[l] = if count[l] >= n as f64 { value[l] } else { f64::NAN };
                }
            }
            kept[0] = *x;
            *out = value;
        }
        self.head = now;
        self.run = count;
        self.phase = (from + rows.len()) % n;
    }

    /// A stretch begins with `first`: gathers the ends of the one before from its values.
    #[inline(always)]
    fn turn<const STEADY: bool>(&mut self, first: &[f64; W]) {
        let (gather, n) = (self.gather, self.n);
        let mut level = [0.0; W];
        if G::RELATIVE {
            for l in 0..W {
                level[l] = if STEADY || first[l].is_finite() { first[l] } else { 0.0 };
            }
        }
        let mut now = nothing::<G, K, W>();
        self.head = now;
        self.level = level;
        for (i, slot) in Self::kept(&mut self.kept, n).iter_mut().enumerate().rev() {
            let (x, p) = (slot[0], i as f64 - n as f64);
            // Of the bars behind this one; at the last bar of a stretch nothing of the one before is left in the
            // window.
            *slot = now;
            for l in 0..W {
                let fine = STEADY || x[l].is_finite();
                let relative = if G::RELATIVE { x[l] - level[l] } else { x[l] };
                let lifted = if fine { gather.lift(relative, p) } else { G::NOTHING };
                let joined = gather.join(lifted, lane(&now, l));
                for k in 0..K {
                    now[k][l] = joined[k];
                }
            }
        }
    }

    /// One lane, whole stretches: they do not depend on each other, so they go side by side as if they were symbols.
    #[inline(always)]
    fn abreast(&mut self, x: &[f64], out: &mut [f64]) {
        let n = self.n;
        let wide = self.wide.get_or_insert_with(|| {
            let window = Window::<G, K, ABREAST>::new(self.gather, n);
            Box::new((window, vec![[0.0; ABREAST]; n], vec![[0.0; ABREAST]; n], vec![0.0; n]))
        });
        let (window, rows, made, past) = &mut **wide;
        // The stretch before a stretch is its neighbour; before the first one it is what was kept.
        for (past, kept) in past.iter_mut().zip(&*Self::kept(&mut self.kept, n)) {
            *past = kept[0][0];
        }
        let mut stretches = [&x[..0]; ABREAST];
        for (j, stretch) in stretches.iter_mut().enumerate() {
            *stretch = &x[j * n..(j + 1) * n];
        }
        crate::simd::side_by_side(&stretches, 0, rows, f64::MAX);
        for ((kept, row), past) in Window::<G, K, ABREAST>::kept(&mut window.kept, n).iter_mut().zip(&*rows).zip(&*past)
        {
            kept[0][0] = *past;
            kept[0][1..].copy_from_slice(&row[..ABREAST - 1]);
        }
        window.phase = 0;
        window.turn::<true>(&rows[0]);
        window.stretch::<true>(rows, made);
        crate::simd::transpose_lanes(made, out);
        for (kept, last) in Self::kept(&mut self.kept, n).iter_mut().zip(&x[(ABREAST - 1) * n..]) {
            kept[0] = [*last; W];
        }
        self.phase = 0;
    }

    /// Whole stretches of a few bars, all finite: what is kept of one stays in registers until the next.
    #[inline(always)]
    fn brief<const N: usize>(&mut self, rows: &[[f64; W]], out: &mut [[f64; W]]) {
        let (gather, kept) = (self.gather, Self::kept(&mut self.kept, N));
        let mut past: [[f64; W]; N] = std::array::from_fn(|i| kept[i][0]);
        let (mut level, mut head) = (self.level, self.head);
        for (x, out) in rows.as_chunks::<N>().0.iter().zip(out.as_chunks_mut::<N>().0) {
            level = if G::RELATIVE { x[0] } else { [0.0; W] };
            // The ends of the stretch before, as in `turn`.
            let mut ends = [nothing::<G, K, W>(); N];
            for i in (1..N).rev() {
                for l in 0..W {
                    let relative = if G::RELATIVE { past[i][l] - level[l] } else { past[i][l] };
                    let joined = gather.join(gather.lift(relative, i as f64 - N as f64), lane(&ends[i], l));
                    for k in 0..K {
                        ends[i - 1][k][l] = joined[k];
                    }
                }
            }
            head = nothing::<G, K, W>();
            for i in 0..N {
                for l in 0..W {
                    let relative = if G::RELATIVE { x[i][l] - level[l] } else { x[i][l] };
                    let joined = gather.join(lane(&head, l), gather.lift(relative, i as f64));
                    let whole = gather.join(lane(&ends[i], l), joined);
                    out[i][l] = gather.value(whole, N as f64, i as f64, level[l]);
                    for k in 0..K {
                        head[k][l] = joined[k];
                    }
                }
            }
            past = *x;
        }
        kept.iter_mut().zip(past).for_each(|(kept, past)| kept[0] = past);
        (self.level, self.head) = (level, head);
    }

    #[inline(always)]
    fn block<const STEADY: bool>(&mut self, rows: &[[f64; W]], out: &mut [[f64; W]]) {
        let mut at = 0;
        while at < out.len() {
            if STEADY && W == 1 && self.phase == 0 && self.n > 1 && out.len() - at >= ABREAST * self.n {
                let bars = ABREAST * self.n;
                self.abreast(rows[at..at + bars].as_flattened(), out[at..at + bars].as_flattened_mut());
                at += bars;
                continue;
            }
            if STEADY && W > 1 && K == 1 && self.phase == 0 && self.n == 3 {
                let bars = (out.len() - at) / 3 * 3;
                self.brief::<3>(&rows[at..at + bars], &mut out[at..at + bars]);
                at += bars;
                if at == out.len() {
                    break;
                }
            }
            if self.phase == 0 {
                self.turn::<STEADY>(&rows[at]);
            }
            let bars = (self.n - self.phase).min(out.len() - at);
            self.stretch::<STEADY>(&rows[at..at + bars], &mut out[at..at + bars]);
            at += bars;
        }
    }
}

impl<G: Gather<K>, const K: usize, const W: usize> Body<W> for Window<G, K, W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let rows = feed.arg(0, 0);
        let full = self.run.iter().all(|run| *run >= (self.n - 1) as f64);
        if feed.clean && full {
            self.block::<true>(rows, out);
            self.run.iter_mut().for_each(|run| *run += feed.bars as f64);
            // Moments of equal values have no shape; everything else of finite values is finite.
            K < 3 || super::all_finite(out)
        } else {
            self.block::<false>(rows, out);
            super::all_finite(out)
        }
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.count(&mut self.phase);
        self.phase %= self.n;
        state.up_to(&mut self.run, self.n);
        // Where a stretch ends only its values matter; inside one, of its bars the values, of those ahead what was
        // gathered.
        let border = state.is_brief() && self.phase == 0;
        if !border {
            state.lanes(std::slice::from_mut(&mut self.level));
            state.lanes(&mut self.head);
        }
        for (i, slot) in Self::kept(&mut self.kept, self.n).iter_mut().enumerate() {
            let value = border || state.is_brief() && i < self.phase;
            state.lanes(&mut slot[..if value { 1 } else { K }]);
        }
    }
}

/// The sum.
#[derive(Clone, Copy)]
pub(crate) struct Sum;

impl Gather<1> for Sum {
    const NOTHING: [f64; 1] = [0.0];
    const RELATIVE: bool = false;

    #[inline(always)]
    fn lift(self, x: f64, _: f64) -> [f64; 1] {
        [x]
    }

    #[inline(always)]
    fn join(self, [early]: [f64; 1], [late]: [f64; 1]) -> [f64; 1] {
        [early + late]
    }

    #[inline(always)]
    fn value(self, [sum]: [f64; 1], _: f64, _: f64, _: f64) -> f64 {
        sum
    }
}

/// The mean.
#[derive(Clone, Copy)]
pub(crate) struct Mean;

impl Gather<1> for Mean {
    const NOTHING: [f64; 1] = [0.0];
    const RELATIVE: bool = true;

    #[inline(always)]
    fn lift(self, x: f64, _: f64) -> [f64; 1] {
        [x]
    }

    #[inline(always)]
    fn join(self, [early]: [f64; 1], [late]: [f64; 1]) -> [f64; 1] {
        [early + late]
    }

    #[inline(always)]
    fn value(self, [sum]: [f64; 1], n: f64, _: f64, c: f64) -> f64 {
        c + sum * (1.0 / n)
    }
}

/// The largest, or the smallest.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<const LARGEST: bool>;

impl<const LARGEST: bool> Gather<1> for Extreme<LARGEST> {
    const NOTHING: [f64; 1] = [if LARGEST { f64::NEG_INFINITY } else { f64::INFINITY }];
    const RELATIVE: bool = false;

    #[inline(always)]
    fn lift(self, x: f64, _: f64) -> [f64; 1] {
        [x]
    }

    #[inline(always)]
    fn join(self, [early]: [f64; 1], [late]: [f64; 1]) -> [f64; 1] {
        let keep = if LARGEST { early > late } else { early < late };
        [if keep { early } else { late }]
    }

    #[inline(always)]
    fn value(self, [x]: [f64; 1], _: f64, _: f64, _: f64) -> f64 {
        x
    }
}

/// Bars since the largest, or the smallest; the latest of equals counts.
#[derive(Clone, Copy)]
pub(crate) struct Since<const LARGEST: bool>;

impl<const LARGEST: bool> Gather<2> for Since<LARGEST> {
    const NOTHING: [f64; 2] = [if LARGEST { f64::NEG_INFINITY } else { f64::INFINITY }, 0.0];
    const RELATIVE: bool = false;

    #[inline(always)]
    fn lift(self, x: f64, i: f64) -> [f64; 2] {
        [x, i]
    }

    #[inline(always)]
    fn join(self, early: [f64; 2], late: [f64; 2]) -> [f64; 2] {
        let keep = if LARGEST { early[0] > late[0] } else { early[0] < late[0] };
        [if keep { early[0] } else { late[0] }, if keep { early[1] } else { late[1] }]
    }

    #[inline(always)]
    fn value(self, [_, i]: [f64; 2], _: f64, p: f64, _: f64) -> f64 {
        p - i
    }
}

/// Central moments: K = 2 the variance (divided by n), 3 the skew, 4 the kurtosis less 3.
#[derive(Clone, Copy)]
pub(crate) struct Moments<const K: usize>;

impl<const K: usize> Gather<K> for Moments<K> {
    const NOTHING: [f64; K] = [0.0; K];
    const RELATIVE: bool = true;

    #[inline(always)]
    fn lift(self, x: f64, _: f64) -> [f64; K] {
        let mut powers = [x; K];
        for k in 1..K {
            powers[k] = powers[k - 1] * x;
        }
        powers
    }

    #[inline(always)]
    fn join(self, early: [f64; K], late: [f64; K]) -> [f64; K] {
        let mut sums = early;
        for k in 0..K {
            sums[k] += late[k];
        }
        sums
    }

    #[inline(always)]
    fn value(self, sums: [f64; K], n: f64, _: f64, _: f64) -> f64 {
        let m = sums[0] / n;
        let two = sums[1] / n - m * m;
        let two = if two > 0.0 { two } else { 0.0 };
        // Below this share of the raw moment, what is left is rounding: all values are equal.
        let flat = two <= 1e-13 * (sums[1] / n);
        if K == 2 {
            return if flat { 0.0 } else { two };
        }
        let three = sums[2] / n - m * (3.0 * (sums[1] / n) - 2.0 * m * m);
        let value = if K == 3 {
            three / (two * two.sqrt())
        } else {
            let four = sums[K - 1] / n - m * (4.0 * (sums[2] / n) - m * (6.0 * (sums[1] / n) - 3.0 * m * m));
            four / (two * two) - 3.0
        };
        if flat { f64::NAN } else { value }
    }
}

/// The mean with weights 1 to n, or the slope of the line of least squares.
#[derive(Clone, Copy)]
pub(crate) struct Trend<const SLOPE: bool>;

impl<const SLOPE: bool> Gather<2> for Trend<SLOPE> {
    const NOTHING: [f64; 2] = [0.0; 2];
    const RELATIVE: bool = true;

    #[inline(always)]
    fn lift(self, x: f64, i: f64) -> [f64; 2] {
        [x, x * i]
    }

    #[inline(always)]
    fn join(self, early: [f64; 2], late: [f64; 2]) -> [f64; 2] {
        [early[0] + late[0], early[1] + late[1]]
    }

    #[inline(always)]
    fn value(self, [sum, by_bar]: [f64; 2], n: f64, p: f64, c: f64) -> f64 {
        if SLOPE {
            let middle = p - (n - 1.0) * 0.5;
            (by_bar - middle * sum) * (12.0 / (n * (n * n - 1.0)))
        } else {
            // The bar before the window has weight 0.
            c + (by_bar - (p - n) * sum) * (2.0 / (n * (n + 1.0)))
        }
    }
}

/// Windows up to this length are gathered value by value, oldest first: that is as quick as anything else.
pub(crate) const SHORT: usize = 6;

/// A window of a few values.
pub(crate) struct Short<G, const W: usize> {
    gather: G,
    n: usize,
    /// Finite values in a row up to now.
    run: [f64; W],
}

impl<G: Gather<1>, const W: usize> Short<G, W> {
    pub(crate) fn new(gather: G, n: usize) -> Self {
        Short { gather, n, run: [0.0; W] }
    }
}

impl<G: Gather<1>, const W: usize> Body<W> for Short<G, W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (n, gather) = (self.n, self.gather);
        let rows = feed.arg(0, n - 1);
        let x = rows.as_flattened();
        if feed.clean && self.run.iter().all(|run| *run >= (n - 1) as f64) {
            // Neighbours in memory, whichever symbol or bar they belong to.
            let out = out.as_flattened_mut();
            match n {
                2 => joined::<G, 2>(gather, x, W, out),
                3 => joined::<G, 3>(gather, x, W, out),
                4 => joined::<G, 4>(gather, x, W, out),
                5 => joined::<G, 5>(gather, x, W, out),
                6 => joined::<G, 6>(gather, x, W, out),
                _ => out.copy_from_slice(&x[..out.len()]),
            }
            self.run.iter_mut().for_each(|run| *run += feed.bars as f64);
            return true;
        }
        for (t, y) in out.iter_mut().enumerate() {
            for l in 0..W {
                self.run[l] = if rows[t + n - 1][l].is_finite() { self.run[l] + 1.0 } else { 0.0 };
                let mut value = [rows[t][l]];
                for row in &rows[t + 1..t + n] {
                    value = gather.join(value, [row[l]]);
                }
                y[l] = if self.run[l] >= n as f64 { value[0] } else { f64::NAN };
            }
        }
        super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.up_to(&mut self.run, self.n);
    }
}

/// `N` values that lie `step` apart, oldest first. Nothing that was written is read again: a processor may be very slow
/// to write a choice over one of its own.
#[inline(always)]
fn joined<G: Gather<1>, const N: usize>(gather: G, x: &[f64], step: usize, out: &mut [f64]) {
    let parts: [&[f64]; N] = std::array::from_fn(|back| &x[back * step..back * step + out.len()]);
    for (i, y) in out.iter_mut().enumerate() {
        let mut value = [parts[0][i]];
        for part in &parts[1..] {
            value = gather.join(value, [part[i]]);
        }
        [*y] = value;
    }
}

/// Mean absolute deviation from a mean that is given: every value is looked at, oldest first.
pub(crate) struct Deviation {
    n: usize,
    /// Always one.
    one: f64,
}

impl Deviation {
    pub(crate) fn new(n: usize) -> Deviation {
        Deviation { n, one: 1.0 }
    }
}

impl<const W: usize> Body<W> for Deviation {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let Deviation { n, one } = *self;
        let (x, mean) = (feed.arg(0, n - 1).as_flattened(), feed.arg(1, 0).as_flattened());
        let out = out.as_flattened_mut();
        // Lanes here are neighbours in memory, whichever symbol or bar they belong to: so many that no addition waits
        // for the one before.
        let mut at = 0;
        while at + 24 <= out.len() {
            sums::<24>(&x[at..], &mean[at..], W, n, one, &mut out[at..at + 24]);
            at += 24;
        }
        while at + 8 <= out.len() {
            sums::<8>(&x[at..], &mean[at..], W, n, one, &mut out[at..at + 8]);
            at += 8;
        }
        while at < out.len() {
            sums::<1>(&x[at..], &mean[at..], W, n, one, &mut out[at..at + 1]);
            at += 1;
        }
        // The mean is NaN unless the whole window is there.
        feed.clean
    }

    fn state(&mut self, _: &mut State<'_>) {}
}

/// `N` neighbouring deviations: values `step` apart belong to the same lane. A difference is taken as `one * x - mean`,
/// which is the same number: additions and fused products have units of their own, and so both are busy. The compiler
/// must not know that it is one.
#[inline(always)]
fn sums<const N: usize>(x: &[f64], mean: &[f64], step: usize, n: usize, one: f64, out: &mut [f64]) {
    let mut sums = [0.0; N];
    let mut means = [0.0; N];
    means.copy_from_slice(&mean[..N]);
    for back in 0..n {
        let x = &x[back * step..back * step + N];
        for i in 0..N {
            sums[i] += x[i].mul_add(one, -means[i]).abs();
        }
    }
    for i in 0..N {
        out[i] = sums[i] / n as f64;
    }
}
