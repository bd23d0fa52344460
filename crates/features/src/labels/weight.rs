//! Average uniqueness (López de Prado 2018, ch. 4): how much of a label's time it has to itself.
//!
//! A label of row `t` spans the bars `t+1 ..= last`. With `c[b]` labels of the symbol on bar `b`, its weight is the mean of `1 / c[b]`
//! over its bars. A weight needs prices only up to its own `t1`: whether another label is still open on a bar was settled before that
//! bar, and whether it exists depends on rows, not on prices.
//!
//! The prefix sums of `1 / c` are integers (units of 2⁻⁴⁰): their differences are exact however long the series is, where sums of f64
//! would lose a digit each time the series grows tenfold.

/// No label.
pub(super) const NONE: u32 = u32::MAX;

/// One, in units of the prefix sums.
const ONE: u64 = 1 << 40;

/// Writes the weight of each row (`[n]`, 0 where there is no label), given the last bar its label spans (`[n]`, [`NONE`] for none).
pub(super) fn uniqueness(last: &[u32], weight: &mut [f32]) {
    let n = last.len();
    let mut change = vec![0i32; n + 1]; // labels that begin at a bar, less those that ended before it
    for (t, last) in last.iter().enumerate().filter(|(_, last)| **last != NONE) {
        change[t + 1] += 1;
        change[*last as usize + 1] -= 1;
    }
    let mut sum = vec![0u64; n + 1]; // [n + 1] of 1 / c over the bars before
    let mut open = 0i32;
    for b in 0..n {
        open += change[b];
        let c = open as u64;
        // Wrapping: only differences over one label are read, and those fit.
        sum[b + 1] = sum[b].wrapping_add((ONE + c / 2).checked_div(c).unwrap_or(0));
    }
    for (t, (weight, last)) in weight.iter_mut().zip(last).enumerate() {
        *weight = match *last {
            NONE => 0.0,
            last => {
                let bars = last as usize - t;
                let shares = sum[last as usize + 1].wrapping_sub(sum[t + 1]);
                (shares as f64 / (bars as f64 * ONE as f64)) as f32
            }
        };
    }
}
