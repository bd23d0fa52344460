//! The one door to wider instructions.
//!
//! A kernel is written once, over lanes, in plain Rust. Here its body is compiled a second time with AVX2 and FMA and
//! chosen at run time. Both give the same bits: lanes never mix, no sum is reordered, and a fused multiply-add is
//! rounded once wherever it runs (in software on a machine without it). On other processors the body is compiled once,
//! for what they have.

use crate::engine::{Body, Feed};

/// Runs a kernel over a block, on the widest instructions there are.
#[inline]
pub(crate) fn run<const W: usize, B: Body<W>>(body: &mut B, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        #[expect(unsafe_code, reason = "the features were detected")]
        return unsafe { run_wide(body, feed, out) };
    }
    body.body(feed, out)
}

/// Calls a function on the widest instructions there are.
pub(crate) fn call<A, R>(function: impl Inlined<A, R>, args: A) -> R {
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        #[expect(unsafe_code, reason = "the features were detected")]
        return unsafe { call_wide(function, args) };
    }
    function.call(args)
}

/// A function that is worth compiling twice; `go` must be `#[inline(always)]`.
pub(crate) trait Inlined<A, R> {
    fn call(self, args: A) -> R;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn call_wide<A, R>(function: impl Inlined<A, R>, args: A) -> R {
    function.call(args)
}

/// Blocks of columns, `[F][bars]` rows of lanes, become rows of the table: lane l's to `places[l]`, `stride` apart.
/// Says whether every value fitted into f32.
pub(crate) fn rows<const W: usize>(columns: &[&[[f64; W]]], places: &mut [&mut [f32]; W], stride: usize) -> bool {
    let bars = columns.first().map_or(0, |c| c.len());
    #[cfg(target_arch = "x86_64")]
    let (whole, done, fine) = if has_wide() {
        #[expect(unsafe_code, reason = "the features were detected")]
        unsafe {
            tiles(columns, places, stride)
        }
    } else {
        (0, 0, true)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let (whole, done, fine) = (0, 0, true);
    // What is left: columns beyond the last four, and bars beyond the last four.
    let mut wrong = false;
    for (f, column) in columns.iter().enumerate() {
        let from = if f < whole { done } else { 0 };
        for (t, row) in column.iter().enumerate().take(bars).skip(from) {
            for (value, place) in row.iter().zip(places.iter_mut()) {
                let value = *value as f32;
                wrong |= !value.is_finite();
                place[t * stride + f] = value;
            }
        }
    }
    fine && !wrong
}

/// Four columns at a time; gives how many columns and bars are done, and whether every value is finite in f32.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn tiles<const W: usize>(columns: &[&[[f64; W]]], places: &mut [&mut [f32]; W], stride: usize) -> (usize, usize, bool) {
    use std::arch::x86_64::{_mm_add_ps, _mm_setzero_ps, _mm_storeu_ps, _mm_sub_ps, _mm256_add_ps};
    use std::arch::x86_64::{_mm256_castps256_ps128, _mm256_cvtpd_ps, _mm256_extractf128_ps, _mm256_loadu_pd};
    use std::arch::x86_64::{_mm256_set_m128, _mm256_setzero_ps, _mm256_storeu_ps};
    let (fours, bars) = (columns.len() / 4, columns.first().map_or(0, |c| c.len()));
    let done = if W == 1 { bars - bars % 4 } else { bars };
    // Looked at once here, instead of at every load and store.
    assert!(columns.iter().all(|c| c.len() == bars) && fours * 4 <= stride, "columns of one length, within the row");
    assert!(places.iter().all(|p| p.len() >= bars * stride), "a place for every row");
    // A sum of everything: where it is finite, so was everything. (Where it is not, somebody looks more closely.)
    let mut sum = _mm_setzero_ps();
    // Values i to i + 3 of four columns, to where four rows have those columns.
    let mut four = |tile: usize, i: usize, rows: [*mut f32; 4]| {
        let columns = &columns[tile * 4..tile * 4 + 4];
        #[expect(unsafe_code, reason = "i + 4 <= bars * W, and rows point to four numbers each: asserted above")]
        unsafe {
            let load = |k: usize| _mm256_loadu_pd(columns[k].as_ptr().cast::<f64>().add(i));
            for (value, row) in round_and_transpose([load(0), load(1), load(2), load(3)]).into_iter().zip(rows) {
                sum = _mm_add_ps(sum, value);
                // Not past the cache: that was tried, also with whole lines, and takes longer.
                _mm_storeu_ps(row, value);
            }
        }
    };
    let starts: [*mut f32; W] = std::array::from_fn(|l| places[l].as_mut_ptr());
    let at = |l: usize, t: usize, tile: usize| starts[l].wrapping_add(t * stride + tile * 4);
    // Rows are written from their first column to their last, so that memory sees whole lines.
    if W == 1 {
        for t in (0..done).step_by(4) {
            for tile in 0..fours {
                four(tile, t, [at(0, t, tile), at(0, t + 1, tile), at(0, t + 2, tile), at(0, t + 3, tile)]);
            }
        }
    } else {
        let eights = if W == 8 { fours / 2 } else { 0 };
        let mut sums = [_mm256_setzero_ps(); 2];
        for t in 0..done {
            for eight in 0..eights {
                let columns = &columns[eight * 8..eight * 8 + 8];
                #[expect(unsafe_code, reason = "there are eight lanes, and eight columns in every row: asserted above")]
                unsafe {
                    for half in 0..2 {
                        // Four lanes of a column, and beside them those of the column four further on.
                        let four = |k: usize| {
                            _mm256_cvtpd_ps(_mm256_loadu_pd(columns[k].as_ptr().cast::<f64>().add(t * W + half * 4)))
                        };
                        let pair = |k: usize| _mm256_set_m128(four(k + 4), four(k));
                        for (i, row) in transpose_halves([pair(0), pair(1), pair(2), pair(3)]).into_iter().enumerate() {
                            sums[i % 2] = _mm256_add_ps(sums[i % 2], row);
                            _mm256_storeu_ps(at(half * 4 + i, t, eight * 2), row);
                        }
                    }
                }
            }
            for half in 0..W / 4 {
                let l = half * 4;
                for tile in eights * 2..fours {
                    four(tile, t * W + l, [at(l, t, tile), at(l + 1, t, tile), at(l + 2, t, tile), at(l + 3, t, tile)]);
                }
            }
        }
        let [one, two] = sums.map(|s| _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps::<1>(s)));
        sum = _mm_add_ps(sum, _mm_add_ps(one, two));
    }
    (fours * 4, done, is_zero(_mm_sub_ps(sum, sum)))
}

/// Puts runs side by side: `place[t][l] = runs[l][at + t]`. Says whether no value is larger than `most`, or missing.
#[inline]
pub(crate) fn side_by_side<const W: usize>(runs: &[&[f64]; W], at: usize, place: &mut [[f64; W]], most: f64) -> bool {
    let bars = place.len();
    if bars == 0 {
        return true; // some run may have ended long before
    }
    let (mut done, mut fine) = (0, true);
    if W == 1 {
        done = bars;
        let place = place.as_flattened_mut();
        place.copy_from_slice(&runs[0][at..at + bars]);
        fine = call(Within, (place, most));
    }
    #[cfg(target_arch = "x86_64")]
    if W > 1 && has_wide() {
        done = bars - bars % 4;
        #[expect(unsafe_code, reason = "the features were detected")]
        unsafe {
            fine = side_by_side_wide(runs, at, &mut place[..done], most);
        }
    }
    for (t, row) in place.iter_mut().enumerate().skip(done) {
        for (value, run) in row.iter_mut().zip(runs) {
            *value = run[at + t];
            fine &= value.abs() <= most;
        }
    }
    fine
}

/// Whether no value is larger, or missing.
struct Within;

impl Inlined<(&mut [f64], f64), bool> for Within {
    #[inline(always)]
    fn call(self, (values, most): (&mut [f64], f64)) -> bool {
        let mut beyond = 0u64;
        for x in values {
            beyond |= if x.abs() <= most { 0 } else { u64::MAX };
        }
        beyond == 0
    }
}

/// Four bars of four runs at a time; `place` has a multiple of four rows.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn side_by_side_wide<const W: usize>(runs: &[&[f64]; W], at: usize, place: &mut [[f64; W]], most: f64) -> bool {
    use std::arch::x86_64::{_CMP_NLE_UQ, _mm256_andnot_pd, _mm256_cmp_pd, _mm256_movemask_pd, _mm256_or_pd};
    use std::arch::x86_64::{_mm256_set1_pd, _mm256_setzero_pd};
    let bars = place.len();
    let runs: [&[f64]; W] = std::array::from_fn(|l| &runs[l][at..at + bars]);
    let (sign, most) = (_mm256_set1_pd(-0.0), _mm256_set1_pd(most));
    let mut beyond = _mm256_setzero_pd();
    for (i, four_rows) in place.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        for four in 0..W / 4 {
            let k = four * 4;
            let rows = transpose4([
                load(runs[k], i * 4),
                load(runs[k + 1], i * 4),
                load(runs[k + 2], i * 4),
                load(runs[k + 3], i * 4),
            ]);
            for (place, row) in four_rows.iter_mut().zip(rows) {
                beyond = _mm256_or_pd(beyond, _mm256_cmp_pd::<_CMP_NLE_UQ>(_mm256_andnot_pd(sign, row), most));
                store(place, k, row);
            }
        }
    }
    _mm256_movemask_pd(beyond) == 0
}

/// Adds columns of finite values to sums, each with what it could not hold, as `ops` does value by value; gives how
/// many values of each column were taken.
pub(crate) fn add_up(columns: &[&[f64]; 4], sum: &mut [f64; 4], lost: &mut [f64; 4]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        #[expect(unsafe_code, reason = "the features were detected")]
        return unsafe { add_up_wide(columns, sum, lost) };
    }
    let _ = (columns, sum, lost);
    0
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_up_wide(columns: &[&[f64]; 4], sum: &mut [f64; 4], lost: &mut [f64; 4]) -> usize {
    use std::arch::x86_64::{_mm256_add_pd, _mm256_sub_pd};
    let bars = columns.iter().map(|column| column.len()).min().unwrap_or(0);
    let done = bars - bars % 4;
    let (mut all, mut rest) = (load(sum, 0), load(lost, 0));
    for t in (0..done).step_by(4) {
        for x in transpose4([load(columns[0], t), load(columns[1], t), load(columns[2], t), load(columns[3], t)]) {
            let next = _mm256_add_pd(all, x);
            let held = _mm256_sub_pd(next, all);
            let part = _mm256_add_pd(_mm256_sub_pd(all, _mm256_sub_pd(next, held)), _mm256_sub_pd(x, held));
            (all, rest) = (next, _mm256_add_pd(rest, part));
        }
    }
    store(sum, 0, all);
    store(lost, 0, rest);
    done
}

/// Asks memory for values that are read next: more runs side by side than the processor foresees by itself.
pub(crate) fn prefetch<const W: usize>(runs: &[&[f64]; W], from: usize, bars: usize) {
    #[cfg(target_arch = "x86_64")]
    for run in runs {
        let next = run.get(from..).unwrap_or_default();
        for value in next.iter().take(bars).step_by(8) {
            #[expect(unsafe_code, reason = "the value is there, and nothing is read")]
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(std::ptr::from_ref(value).cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (runs, from, bars);
}

/// The other way: `out[l * n + i] = rows[i][l]`, n being the number of rows.
pub(crate) fn transpose_lanes<const W: usize>(rows: &[[f64; W]], out: &mut [f64]) {
    let n = rows.len();
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if has_wide() && W.is_multiple_of(4) {
        done = n - n % 4;
        #[expect(unsafe_code, reason = "the features were detected")]
        unsafe {
            transpose_lanes_wide(rows, done, out);
        }
    }
    for (i, row) in rows.iter().enumerate().skip(done) {
        for (l, value) in row.iter().enumerate() {
            out[l * n + i] = *value;
        }
    }
}

/// Four rows of four lanes at a time; `done` is a multiple of four.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn transpose_lanes_wide<const W: usize>(rows: &[[f64; W]], done: usize, out: &mut [f64]) {
    let (n, flat) = (rows.len(), rows.as_flattened());
    for i in (0..done).step_by(4) {
        for four in 0..W / 4 {
            let from = i * W + four * 4;
            let lanes = transpose4([
                load(flat, from),
                load(flat, from + W),
                load(flat, from + 2 * W),
                load(flat, from + 3 * W),
            ]);
            for (k, lane) in lanes.into_iter().enumerate() {
                store(out, (four * 4 + k) * n + i, lane);
            }
        }
    }
}

/// Rows of a square of four become its columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn transpose4([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
    use std::arch::x86_64::{_mm256_permute2f128_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd};
    let (ab, ab2) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd, cd2) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd::<0x20>(ab, cd),
        _mm256_permute2f128_pd::<0x20>(ab2, cd2),
        _mm256_permute2f128_pd::<0x31>(ab, cd),
        _mm256_permute2f128_pd::<0x31>(ab2, cd2),
    ]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn store(place: &mut [f64], at: usize, row: __m256d) {
    if let Some(place) = place[at..at + 4].first_chunk_mut::<4>() {
        #[expect(unsafe_code, reason = "there is room for four")]
        unsafe {
            std::arch::x86_64::_mm256_storeu_pd(place.as_mut_ptr(), row);
        }
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128, __m256, __m256d};

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn load(x: &[f64], at: usize) -> __m256d {
    let x: &[f64; 4] = x[at..at + 4].first_chunk().unwrap_or(&[0.0; 4]);
    #[expect(unsafe_code, reason = "four values are there")]
    unsafe {
        std::arch::x86_64::_mm256_loadu_pd(x.as_ptr())
    }
}

/// Rounds four rows of four and turns them into columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn round_and_transpose(rows: [__m256d; 4]) -> [__m128; 4] {
    use std::arch::x86_64::{_mm_movehl_ps, _mm_movelh_ps, _mm_unpackhi_ps, _mm_unpacklo_ps, _mm256_cvtpd_ps};
    let [a, b, c, d] = rows;
    let (a, b, c, d) = (_mm256_cvtpd_ps(a), _mm256_cvtpd_ps(b), _mm256_cvtpd_ps(c), _mm256_cvtpd_ps(d));
    let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
    let (ab2, cd2) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
    [_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab), _mm_movelh_ps(ab2, cd2), _mm_movehl_ps(cd2, ab2)]
}

/// Four rows of twice four: each half of them is turned by itself, so that lane i of columns 0 to 3 has those of 4 to 7
/// behind it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn transpose_halves([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    use std::arch::x86_64::{_mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps};
    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let (ab2, cd2) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    [
        _mm256_shuffle_ps::<0x44>(ab, cd),
        _mm256_shuffle_ps::<0xee>(ab, cd),
        _mm256_shuffle_ps::<0x44>(ab2, cd2),
        _mm256_shuffle_ps::<0xee>(ab2, cd2),
    ]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn is_zero(sums: __m128) -> bool {
    use std::arch::x86_64::{_mm_cmpeq_ps, _mm_movemask_ps, _mm_setzero_ps};
    _mm_movemask_ps(_mm_cmpeq_ps(sums, _mm_setzero_ps())) == 0b1111
}

#[cfg(target_arch = "x86_64")]
fn has_wide() -> bool {
    // Both lookups are one load and a test after the first time.
    !NARROW.load(std::sync::atomic::Ordering::Relaxed)
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
}

/// Set by the test that compares the two.
static NARROW: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Leaves the wider instructions alone from now on, in this process: for the test that both give the same bits.
#[cfg(test)]
pub(crate) fn force_narrow(on: bool) {
    NARROW.store(on, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_wide<const W: usize, B: Body<W>>(body: &mut B, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
    body.body(feed, out)
}
