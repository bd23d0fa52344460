//! A value from values of the same bar.
//!
//! A function here sees finite numbers only: where one argument is missing, so is the result, whatever the function
//! would say. Divisions that can meet a zero say what they give there; a plain quotient gives nothing.

use crate::engine::{Body, Feed, State};

/// Declares the functions: name, arguments, whether a finite argument can give a value that is not (`!`), and the
/// definition.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident ( $($arg:ident),+ ) $mark:tt $value:expr;)*) => {
        /// The functions of one bar.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Map { $($(#[$doc])* $name,)* }

        impl Map {
            /// Every one.
            #[cfg(test)]
            pub(super) const ALL: &[Map] = &[$(Map::$name),*];

            /// How many arguments it takes.
            pub(crate) fn arity(self) -> usize {
                match self { $(Map::$name => [$(stringify!($arg)),+].len(),)* }
            }
        }

        impl<const W: usize> Body<W> for Map {
            #[inline(always)]
            fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
                match self { $(Map::$name => {
                    #[inline(always)]
                    fn f($($arg: f64),+) -> f64 { $value }
                    each!(f, feed, out, $mark, $($arg),+)
                })* }
            }

            fn state(&mut self, _: &mut State<'_>) {}
        }
    };
}

/// The loop over a block, for one to four arguments. It is one plain loop, because that is what becomes lanes; whether
/// a value is missing is gathered on the way.
macro_rules! each {
    ($f:ident, $feed:ident, $out:ident, $mark:tt, $a:ident) => {
        each!(@fill $f, $feed, $out, $mark, $out.as_flattened_mut().iter_mut().zip($feed.arg(0, 0).as_flattened()), (y, a), y, a)
    };
    ($f:ident, $feed:ident, $out:ident, $mark:tt, $a:ident, $b:ident) => {{
        let (a, b) = ($feed.arg(0, 0).as_flattened(), $feed.arg(1, 0).as_flattened());
        each!(@fill $f, $feed, $out, $mark, $out.as_flattened_mut().iter_mut().zip(a).zip(b), ((y, a), b), y, a, b)
    }};
    ($f:ident, $feed:ident, $out:ident, $mark:tt, $a:ident, $b:ident, $c:ident) => {{
        let (a, b, c) = ($feed.arg(0, 0).as_flattened(), $feed.arg(1, 0).as_flattened(), $feed.arg(2, 0).as_flattened());
        each!(@fill $f, $feed, $out, $mark, $out.as_flattened_mut().iter_mut().zip(a).zip(b).zip(c), (((y, a), b), c), y, a, b, c)
    }};
    ($f:ident, $feed:ident, $out:ident, $mark:tt, $a:ident, $b:ident, $c:ident, $d:ident) => {{
        let (a, b) = ($feed.arg(0, 0).as_flattened(), $feed.arg(1, 0).as_flattened());
        let (c, d) = ($feed.arg(2, 0).as_flattened(), $feed.arg(3, 0).as_flattened());
        each!(
            @fill $f, $feed, $out, $mark,
            $out.as_flattened_mut().iter_mut().zip(a).zip(b).zip(c).zip(d), ((((y, a), b), c), d), y, a, b, c, d
        )
    }};
    (@fill $f:ident, $feed:ident, $out:ident, $mark:tt, $zip:expr, $pattern:pat, $y:ident, $($arg:ident),+) => {{
        let mut missing = 0u64;
        if $feed.clean {
            for $pattern in $zip {
                *$y = $f($(*$arg),+);
                missing |= if checks!($mark) { super::missing(*$y) } else { 0 };
            }
            // Hardly ever, so it is not chosen at every value.
            if missing >> 63 != 0 {
                $out.as_flattened_mut().iter_mut().filter(|y| !y.is_finite()).for_each(|y| *y = f64::NAN);
            }
        } else {
            for $pattern in $zip {
                let value = $f($(*$arg),+);
                let fine = $($arg.is_finite())&+ & value.is_finite();
                *$y = if fine { value } else { f64::NAN };
                missing |= u64::from(!fine) << 63;
            }
        }
        missing >> 63 == 0
    }};
}

/// `=>`: finite arguments give finite values. `!`: they may not.
macro_rules! checks {
    (=>) => {
        false
    };
    (!) => {
        true
    };
}

maps! {
    /// `a + b`
    Add(a, b) ! a + b;
    /// `a - b`
    Sub(a, b) ! a - b;
    /// `a * b`
    Mul(a, b) ! a * b;
    /// `a / b`, nothing where b is zero
    Div(a, b) ! a / b;
    /// `a - b`, 0 where the two differ by the rounding of a mean alone
    Step(a, b) => { let step = a - b; if step.abs() <= 2e-14 * a.abs() { 0.0 } else { step } };
    /// `|a|`
    Abs(a) => a.abs();
    /// The larger
    Larger(a, b) => larger(a, b);
    /// The smaller
    Smaller(a, b) => smaller(a, b);
    /// Root, nothing below zero
    Root(a) ! a.sqrt();
    /// Root of something that only rounding can make negative
    RootAbove(a) => larger(a, 0.0).sqrt();
    /// Natural logarithm, nothing at zero and below
    Ln(a) ! ln(a);
    /// -1, 0 or 1
    Sign(a) => if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { 0.0 };
    /// The mean of two
    Middle(a, b) => (a + b) * 0.5;
    /// The mean of three: the typical price
    Typical(h, l, c) => (h + l + c) / 3.0;
    /// The mean of four
    Mean4(o, h, l, c) => (o + h + l + c) * 0.25;
    /// True range from high, low and the close before
    TrueRange(h, l, c) => larger(h, c) - smaller(l, c);
    /// What of a is above zero
    Gain(a) => larger(a, 0.0);
    /// What of a is below zero, as a positive number
    Loss(a) => larger(-a, 0.0);
    /// Directional movement up: high, low, the high before, the low before
    MoveUp(h, l, h1, l1) => { let (up, down) = (h - h1, l1 - l); if (up > 0.0) & (up > down) { up } else { 0.0 } };
    /// Directional movement down: high, low, the high before, the low before
    MoveDown(h, l, h1, l1) => { let (up, down) = (h - h1, l1 - l); if (down > 0.0) & (down > up) { down } else { 0.0 } };
    /// `100 a / b`, 0 where b is zero
    Percent(a, b) => if b == 0.0 { 0.0 } else { 100.0 * (a / b) };
    /// `100 a / (a + b)`, 50 where both are zero
    Balance(a, b) => { let sum = a + b; if sum == 0.0 { 50.0 } else { 100.0 * (a / sum) } };
    /// `100 (a - b) / (a + b)`, 0 where both are zero
    Contrast(a, b) => { let sum = a + b; if sum == 0.0 { 0.0 } else { 100.0 * ((a - b) / sum) } };
    /// `100 |a - b| / (a + b)`, 0 where both are zero
    Disparity(a, b) => { let sum = a + b; if sum == 0.0 { 0.0 } else { 100.0 * ((a - b).abs() / sum) } };
    /// Where c stands between low and high, 0 to 100, 50 where they are equal
    Place(c, l, h) => { let range = h - l; if range == 0.0 { 50.0 } else { 100.0 * ((c - l) / range) } };
    /// `a / b`, 0 where b is zero
    OrZero(a, b) => if b == 0.0 { 0.0 } else { a / b };
    /// Where the close stands in the bar, -1 at its low to 1 at its high, 0 where there is no range
    CloseInBar(h, l, c) => { let range = h - l; if range == 0.0 { 0.0 } else { ((c - l) - (h - c)) / range } };
    /// `ln(a / b)` to the last digits also where they are nearly equal; nothing unless both are above zero
    LogRatio(a, b) ! log_ratio(a, b);
    /// `a / b - 1`, nothing where b is zero
    Relative(a, b) ! (a - b) / b;
    /// `100 (a / b - 1)`, 0 where b is zero
    PercentChange(a, b) ! if b == 0.0 { 0.0 } else { 100.0 * ((a - b) / b) };
    /// The factor of Kaufman's average from change and path; where there was no path it is the fastest, as TA-Lib has
    /// it
    KamaFactor(change, path) => {
        let ratio = if path <= change.abs() { 1.0 } else { change.abs() / path };
        let factor = ratio * (2.0 / 3.0 - 2.0 / 31.0) + 2.0 / 31.0;
        factor * factor
    };
    /// Kaufman's ratio: how much of the path was change, at most 1, 0 where there was no path
    Efficiency(change, path) => if path == 0.0 { 0.0 } else { smaller(change.abs() / path, 1.0) };
    /// Where c stands between low and high of values up to 100: 0 to 100, 50 where what is between them is rounding
    PlaceInHundred(c, l, h) => { let range = h - l; if range < 1e-9 { 50.0 } else { 100.0 * ((c - l) / range) } };
    /// How far c is below high, 0 to -100, -50 where there is no range
    Below(c, l, h) => { let range = h - l; if range == 0.0 { -50.0 } else { -100.0 * ((h - c) / range) } };
    /// `(x - mean) / (0.015 deviation)`, 0 where the deviation is rounding (the mean of 100,000 equal values is off by
    /// 2e-12)
    Channel(x, mean, deviation) => {
        if deviation <= 1e-13 * mean.abs() { 0.0 } else { (x - mean) / (0.015 * deviation) }
    };
    /// The close less the true low: close, low and the close before
    Pressure(c, l, c1) => c - smaller(l, c1);
    /// b with the sign of a, 0 where a is zero
    Signed(a, b) => if a > 0.0 { b } else if a < 0.0 { -b } else { 0.0 };
    /// b where a is above zero, else 0
    WhereUp(a, b) => if a > 0.0 { b } else { 0.0 };
    /// b where a is below zero, else 0
    WhereDown(a, b) => if a < 0.0 { b } else { 0.0 };
    /// Choppiness from the sum of true ranges, the range, and ln n: 0 to 100, 50 where there is no range
    Choppiness(sum, range, ln_n) ! if range == 0.0 { 50.0 } else { 100.0 * (ln(sum / range) / ln_n) };
    /// Open to close as a share of the bar, 0 where there is no range
    BodyShare(o, h, l, c) => { let range = h - l; if range == 0.0 { 0.0 } else { (c - o) / range } };
    /// The shadow above the body as a share of the bar, 0 where there is no range
    UpperShare(o, h, l, c) => { let range = h - l; if range == 0.0 { 0.0 } else { (h - larger(o, c)) / range } };
    /// The shadow below the body as a share of the bar, 0 where there is no range
    LowerShare(o, h, l, c) => { let range = h - l; if range == 0.0 { 0.0 } else { (smaller(o, c) - l) / range } };
    /// 1 where the bar lies within the one before
    Inside(h, l, h1, l1) => if (h < h1) & (l > l1) { 1.0 } else { 0.0 };
    /// 1 where the bar reaches beyond the one before on both sides
    Outside(h, l, h1, l1) => if (h > h1) & (l < l1) { 1.0 } else { 0.0 };
    /// `0.5 u² - (2 ln 2 - 1) v²`: Garman and Klass, u = ln(high / low), v = ln(close / open)
    GarmanKlass(u, v) => 0.5 * u * u - (2.0 * std::f64::consts::LN_2 - 1.0) * v * v;
    /// Rogers and Satchell's variance of one bar from ln of high, low and close over open
    RogersSatchell(h, l, c) => h * (h - c) + l * (l - c);
    /// `a²` where a is below zero, else 0
    SquareBelow(a) ! { let below = smaller(a, 0.0); below * below };
    /// `a²`
    Square(a) ! a * a;
}

/// Neither is NaN here.
#[inline(always)]
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[inline(always)]
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Natural logarithm to within one unit in the last place, without branches, so that a block of them runs in lanes.
///
/// x = 2^k m with m in [√½, √2); ln m = 2 artanh s, s = (m - 1) / (m + 1), by a polynomial in s² (the minimax
/// coefficients that fdlibm made known). NaN at zero and below.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Subnormal numbers are lifted into the normal range.
    let tiny = x < f64::MIN_POSITIVE;
    let lifted = if tiny { x * 18_014_398_509_481_984.0 } else { x }; // 2^54
    let bits = lifted.to_bits();
    // The exponent, 1023 too large, of x / √½: only shifts that lanes have.
    let biased = bits.wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_667f_3bcd) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(biased << 52).wrapping_add(1023 << 52));
    // As a number, without a conversion that has no lanes: 2^52 + k + 1023, less 2^52 + 1023.
    let k = f64::from_bits(biased | 0x4330_0000_0000_0000) - 4_503_599_627_371_519.0;
    let k = if tiny { k - 54.0 } else { k };
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (3.999_999_999_940_942e-1 + w * (2.222_219_843_214_978_4e-1 + w * 1.531_383_769_920_937_3e-1));
    let odd = z
        * (6.666_666_666_666_735e-1
            + w * (2.857_142_874_366_239e-1 + w * (1.818_357_216_161_805e-1 + w * 1.479_819_860_511_658_6e-1)));
    let half = 0.5 * f * f;
    let value = k * LN2_HIGH - ((half - (s * (half + (even + odd)) + k * LN2_LOW)) - f);
    if x > 0.0 { value } else { f64::NAN }
}

/// `ln(a / b)`: the quotient rounds, what it lost is known exactly and put back, so that neighbours keep all digits of
/// their ratio.
#[inline(always)]
fn log_ratio(a: f64, b: f64) -> f64 {
    let q = a / b;
    let lost = (-q).mul_add(b, a) / a;
    if b > 0.0 { ln(q) + lost } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::{ln, log_ratio};

    #[test]
    fn logarithms_of_ratios_keep_the_digits_of_small_changes() {
        for i in 1..100_000 {
            let change = f64::from(i) * 1e-9;
            let (a, b) = (70_000.0 * (1.0 + change), 70_000.0);
            let exact = ((a - b) / b).ln_1p();
            assert!((log_ratio(a, b) / exact - 1.0).abs() < 1e-14, "{change}: {} {exact}", log_ratio(a, b));
            assert!((log_ratio(b, a) / exact + 1.0).abs() < 1e-14);
        }
        assert_eq!(log_ratio(3.0, 3.0), 0.0);
        assert!((log_ratio(1e8, 1e-8) - 1e16f64.ln()).abs() < 1e-13);
        assert!(log_ratio(-1.0, -2.0).is_nan() && log_ratio(0.0, 1.0).is_nan() && log_ratio(1.0, 0.0).is_nan());
    }

    #[test]
    fn logarithms_are_within_a_unit_in_the_last_place() {
        let mut x = 1e-310;
        while x < 1e308 {
            let (pipeline, theirs) = (ln(x), x.ln());
            let unit = (theirs.abs() * f64::EPSILON).max(f64::MIN_POSITIVE);
            assert!((pipeline - theirs).abs() <= unit, "ln {x:e}: {pipeline:e} instead of {theirs:e}");
            x *= 1.000_913;
        }
        for i in 0..200_000 {
            let x = 0.5 + f64::from(i) * 1e-5;
            assert!((ln(x) - x.ln()).abs() <= f64::EPSILON * x.ln().abs().max(f64::MIN_POSITIVE), "ln {x}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert!(ln(0.0).is_nan() && ln(-1.0).is_nan() && ln(f64::NAN).is_nan());
    }
}
