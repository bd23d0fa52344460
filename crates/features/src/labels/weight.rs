//! Average uniqueness (López de Prado 2018, ch. 4): how much of a label's time it has to itself.
//!
//! A label of row `t` spans the bars `t+1 ..= last`. With `c[b]` labels of the symbol on bar `b`, its weight is the
//! mean of `1 / c[b]` over its bars. A weight needs prices only up to its own `t1`: whether another label is still open
//! on a bar was settled before that bar, and whether it exists depends on rows, not on prices.
//!
//! The prefix sums of `1 / c` are integers (units of 2⁻⁴⁰): their differences are exact however long the series is,
//! where sums of f64 would lose a digit each time the series grows tenfold.

/// No label.
pub(super) const NONE: u32 = u32::MAX;

/// One, in units of the prefix sums.
const ONE: u64 = 1 << 40;

/// Writes the weight of each row (`[n]`, 0 where there is no label), given the last bar its label spans (`[n]`,
/// [`NONE`] for none).
pub(super) fn uniqueness(last: &[u32], weight: &mut [f32]) {
    let span = |(t, last): (usize, &u32)| (*last != NONE).then_some((t + 1, *last as usize));
    weigh(last.len(), last.iter().enumerate().map(span), weight);
}

/// Writes the weight of each label (`[n]`), given the bars it spans, first and last among `bars` of one symbol (`None`:
/// no label, weight 0).
///
/// # Panics
///
/// If a label ends before it begins or behind the last bar.
pub fn weigh(bars: usize, spans: impl Iterator<Item = Option<(usize, usize)>> + Clone, weight: &mut [f32]) {
    let mut change = vec![0i32; bars + 1]; // labels that begin at a bar, less those that ended before it
    for (first, last) in spans.clone().flatten() {
        change[first] += 1;
        change[last + 1] -= 1;
    }
    let mut sum = vec![0u64; bars + 1]; // of 1 / c over the bars before
    let mut open = 0i32;
    for b in 0..bars {
        open += change[b];
        let c = open as u64;
        // Wrapping: only differences over one label are read, and those fit.
        sum[b + 1] = sum[b].wrapping_add((ONE + c / 2).checked_div(c).unwrap_or(0));
    }
    for (weight, span) in weight.iter_mut().zip(spans) {
        *weight = span.map_or(0.0, |(first, last)| {
            let shares = sum[last + 1].wrapping_sub(sum[first]);
            (shares as f64 / ((last + 1 - first) as f64 * ONE as f64)) as f32
        });
    }
}
