//! The operations that indicators are made of, each one definition over lanes.
//!
//! - `map`: a value from values of the same bar;
//! - `window`: something of the last n values, gathered without drift (sums, extremes, moments, slopes);
//! - `scan`: a value from the last one (exponential averages, sums without end, parabolic stops).
//!
//! **A running sum is never corrected by subtracting what leaves the window.** Windows are put together from two halves
//! that are each summed afresh, so ten million bars leave no trace and a spike is forgotten when it leaves.

mod map;
mod scan;
mod session;
mod window;

#[cfg(test)]
mod tests;

use crate::engine::{Body, Feed, Kernel, State};
pub(crate) use map::Map;
pub(crate) use scan::{Average, Ema, Sums, memory, together};
pub(crate) use session::Since;

/// An operation, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// A column from outside.
    Input(usize),
    /// The same number at every bar.
    Const(f64),
    /// The value so many bars ago.
    Lag(usize),
    /// Of values of the same bar.
    Map(Map),
    /// `x * a + b`
    Affine(f64, f64),
    /// Sum of the last n.
    Sum(usize),
    /// Mean of the last n: of equal values exactly that value.
    Mean(usize),
    /// Largest of the last n.
    Max(usize),
    /// Smallest of the last n.
    Min(usize),
    /// Bars since the largest of the last n; of equals the latest.
    SinceMax(usize),
    /// Bars since the smallest of the last n; of equals the latest.
    SinceMin(usize),
    /// Variance of the last n, divided by n.
    Variance(usize),
    /// Third standardised moment of the last n; invalid where they are all equal.
    Skew(usize),
    /// Fourth standardised moment of the last n, less 3; invalid where they are all equal.
    Kurtosis(usize),
    /// Mean of the last n with weights 1 to n.
    Weighted(usize),
    /// Slope per bar of the least-squares line through the last n.
    Slope(usize),
    /// Mean absolute deviation of the last n from their mean; the mean is the second argument.
    MeanDeviation(usize),
    /// Exponential average.
    Ema(Ema),
    /// `y + a * (x - y)` with a factor of its own at each bar, seeded with the value before the first factor.
    Adaptive,
    /// Sum from the beginning of the run.
    Cumulate,
    /// Parabolic stop and reverse of high and low: acceleration, and its limit.
    Sar(f64, f64),
    /// Something since the trading day began; the second argument is the day.
    Session(Since),
}

impl Op {
    /// How many arguments it takes.
    pub(crate) fn arity(&self) -> usize {
        match self {
            Op::Input(_) | Op::Const(_) => 0,
            Op::Map(map) => map.arity(),
            Op::MeanDeviation(_) | Op::Adaptive | Op::Sar(..) | Op::Session(_) => 2,
            _ => 1,
        }
    }

    /// How many earlier values of its arguments it reads; what it remembers itself does not count.
    pub(crate) fn lookback(&self) -> usize {
        match *self {
            Op::MeanDeviation(n) => n - 1,
            Op::Sum(n) | Op::Max(n) | Op::Min(n) if n <= window::SHORT => n - 1,
            Op::Adaptive | Op::Sar(..) => 1,
            _ => 0,
        }
    }

    /// How many valid bars it takes before it gives its first value.
    pub(crate) fn delay(&self) -> usize {
        match *self {
            Op::Lag(n) => n,
            Op::Sum(n) | Op::Mean(n) | Op::Max(n) | Op::Min(n) | Op::SinceMax(n) | Op::SinceMin(n) => n - 1,
            Op::Variance(n) => n - 1,
            // The mean, its second argument, has waited for the window already.
            Op::MeanDeviation(_) => 0,
            Op::Skew(n) | Op::Kurtosis(n) | Op::Weighted(n) | Op::Slope(n) => n - 1,
            Op::Ema(ema) => ema.delay(),
            Op::Sar(..) | Op::Session(_) => 1,
            _ => 0,
        }
    }

    /// Bars after which what it remembers is the same, to the last bit, wherever it began: an informed guess, for
    /// whoever checks it. `before` is that of its arguments, `first` the index of its first value; `None`: never.
    pub(crate) fn forgets(&self, first: usize, before: usize) -> Option<usize> {
        match self {
            Op::Ema(ema) => {
                // A difference shrinks to the last bit, which then is lost by chance, the sooner the larger the factor.
                let times = |n: f64| (n / ema.alpha).ceil() as usize;
                Some((first + times(48.0)).max(before + times(16.0)))
            }
            // By how it usually goes: its factor is seldom small for long, and stops meet when they turn.
            Op::Adaptive => Some(before + 1500),
            Op::Sar(..) => Some(before + 1000),
            // Two days of minutes: the first day of a run counts for nothing.
            Op::Session(_) => Some(before + 2 * 1440),
            Op::Cumulate => None,
            Op::Lag(n) => Some(before + n),
            op => Some(before + 2 * op.beat().max(op.lookback())),
        }
    }

    /// Whether it looks at the values of one bar, and remembers nothing.
    pub(crate) fn is_instant(&self) -> bool {
        matches!(self, Op::Map(_) | Op::Affine(..))
    }

    /// Bars after which what it does with a bar's position repeats.
    pub(crate) fn beat(&self) -> usize {
        match *self {
            Op::Sum(n) | Op::Max(n) | Op::Min(n) if n <= window::SHORT => 1,
            Op::Sum(n) | Op::Mean(n) | Op::Max(n) | Op::Min(n) | Op::SinceMax(n) | Op::SinceMin(n) => n,
            Op::Variance(n) | Op::Skew(n) | Op::Kurtosis(n) | Op::Weighted(n) | Op::Slope(n) => n,
            _ => 1,
        }
    }

    /// Whether it ever forgets the start.
    pub(crate) fn settles(&self) -> bool {
        !matches!(self, Op::Cumulate | Op::Sar(..))
    }

    /// The least factor by which it forgets, where that takes no fixed number of bars.
    pub(crate) fn factor(&self) -> Option<f64> {
        match self {
            Op::Ema(ema) if ema.alpha < 1.0 => Some(ema.alpha),
            // Its factor may be as small as the slowest average's, squared.
            Op::Adaptive => Some((2.0f64 / 31.0).powi(2)),
            _ => None,
        }
    }
}

/// The kernel of an operation.
pub(crate) fn kernel<const W: usize>(op: &Op) -> Box<dyn Kernel<W>> {
    use window::{Deviation, Extreme, Moments, SHORT, Short, Since as SinceExtreme, Trend, Window};
    match *op {
        Op::Const(c) => Box::new(Constant(c)),
        // The engine has these itself.
        Op::Input(_) | Op::Lag(_) => Box::new(Constant(f64::NAN)),
        Op::Map(map) => Box::new(map),
        Op::Affine(a, b) => Box::new(Affine(a, b)),
        Op::Sum(n) if n <= SHORT => Box::new(Short::<_, W>::new(window::Sum, n)),
        Op::Max(n) if n <= SHORT => Box::new(Short::<_, W>::new(Extreme::<true>, n)),
        Op::Min(n) if n <= SHORT => Box::new(Short::<_, W>::new(Extreme::<false>, n)),
        Op::Sum(n) => Box::new(Window::<_, 1, W>::new(window::Sum, n)),
        Op::Mean(n) => Box::new(Window::<_, 1, W>::new(window::Mean, n)),
        Op::Max(n) => Box::new(Window::<_, 1, W>::new(Extreme::<true>, n)),
        Op::Min(n) => Box::new(Window::<_, 1, W>::new(Extreme::<false>, n)),
        Op::SinceMax(n) => Box::new(Window::<_, 2, W>::new(SinceExtreme::<true>, n)),
        Op::SinceMin(n) => Box::new(Window::<_, 2, W>::new(SinceExtreme::<false>, n)),
        Op::Variance(n) => Box::new(Window::<_, 2, W>::new(Moments::<2>, n)),
        Op::Skew(n) => Box::new(Window::<_, 3, W>::new(Moments::<3>, n)),
        Op::Kurtosis(n) => Box::new(Window::<_, 4, W>::new(Moments::<4>, n)),
        Op::Weighted(n) => Box::new(Window::<_, 2, W>::new(Trend::<false>, n)),
        Op::Slope(n) => Box::new(Window::<_, 2, W>::new(Trend::<true>, n)),
        Op::MeanDeviation(n) => Box::new(Deviation::new(n)),
        Op::Ema(ema) => Box::new(scan::Average::<W>::new(ema)),
        Op::Adaptive => Box::new(scan::Adaptive::<W>::new()),
        Op::Cumulate => Box::new(scan::Cumulate::<W>::new()),
        Op::Sar(step, most) => Box::new(scan::Sar::<W>::new(step, most)),
        Op::Session(since) => Box::new(session::Session::<W>::new(since)),
    }
}

/// The same number at every bar.
struct Constant(f64);

impl<const W: usize> Body<W> for Constant {
    #[inline(always)]
    fn body(&mut self, _: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        out.fill([self.0; W]);
        self.0.is_finite()
    }

    fn state(&mut self, _: &mut State<'_>) {}
}

/// `x * a + b`, rounded twice.
struct Affine(f64, f64);

impl<const W: usize> Body<W> for Affine {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        for (y, x) in out.as_flattened_mut().iter_mut().zip(feed.arg(0, 0).as_flattened()) {
            *y = x * self.0 + self.1;
        }
        feed.clean
    }

    fn state(&mut self, _: &mut State<'_>) {}
}

/// Has the highest bit where a number is not finite: its exponent is then all ones, and one more carries into the sign.
/// Lanes do that in two steps, and gather it in a third.
#[inline(always)]
pub(crate) fn missing(x: f64) -> u64 {
    (x.to_bits() & f64::INFINITY.to_bits()).wrapping_add(1 << 52)
}

/// Whether every value is finite.
#[inline(always)]
pub(crate) fn all_finite<const W: usize>(rows: &[[f64; W]]) -> bool {
    // One plain loop without a way out is quicker than a search.
    rows.as_flattened().iter().fold(0, |all, x| all | missing(*x)) >> 63 == 0
}

/// No input is larger: beyond it, sums and squares of a window could leave the numbers.
pub(crate) const LARGEST: f64 = 1e60;

/// Makes what is too large, or not finite, missing; says whether there was nothing of the kind.
#[inline(always)]
pub(crate) fn bounded<const W: usize>(rows: &mut [[f64; W]]) -> bool {
    let mut missing = 0u64;
    for x in rows.as_flattened() {
        missing |= u64::from(x.is_nan() | (x.abs() > LARGEST));
    }
    if missing != 0 {
        rows.as_flattened_mut().iter_mut().filter(|x| x.abs() > LARGEST).for_each(|x| *x = f64::NAN);
    }
    missing == 0
}
