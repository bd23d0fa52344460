//! The losses of many rows side by side, compiled for processors that fuse products beside the build's own
//! instructions, and chosen at run time.
//!
//! Discrete policies go in loops over single numbers, column by column, which become SIMD; continuous ones row by row.
//! The arithmetic is that of [`super::loss`], one rounding for each step and sums in the order of the rows, so the bits
//! are those of [`policy_loss`] row by row, on every processor.

#![expect(unsafe_code, reason = "calling a function compiled for instructions that were just found")]

use super::Actions;
use super::loss::{LossSums, Taken, Terms, policy_loss, value_loss};
use super::maths::{exp, ln};

/// Rows whose columns are looked at together.
const ROWS: usize = 128;

/// What a value is fitted to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Targets {
    /// The value as it was.
    pub(super) old: f32,
    /// As it should be.
    pub(super) wanted: f32,
}

/// Outputs `[rows, outputs]`, the gradient at them, and what was done.
type Policy<'a> = (&'a [f32], &'a mut [f32], &'a [Taken]);
/// Values `[rows]`, the gradient at them, and what they should be.
type Values<'a> = (&'a [f32], &'a mut [f32], &'a [Targets]);

/// Gradients of both losses at the outputs of some rows; `norm` is taken off advantages, and what they are multiplied
/// with.
pub(super) fn losses(terms: &Terms, norm: [f32; 2], policy: Policy<'_>, values: Values<'_>, sums: &mut LossSums) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fused(terms: &Terms, norm: [f32; 2], policy: Policy<'_>, values: Values<'_>, sums: &mut LossSums) {
            each(terms, norm, policy, values, sums);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both.
            return unsafe { fused(terms, norm, policy, values, sums) };
        }
    }
    each(terms, norm, policy, values, sums);
}

#[inline(always)]
fn each(terms: &Terms, [shift, scale]: [f32; 2], policy: Policy<'_>, values: Values<'_>, sums: &mut LossSums) {
    let wide = terms.actions.outputs();
    let (z, d_z, taken) = policy;
    match terms.actions {
        Actions::Discrete => {
            let rows = z.chunks(ROWS * wide).zip(d_z.chunks_mut(ROWS * wide)).zip(taken.chunks(ROWS));
            for ((z, d_z), taken) in rows {
                discrete(terms, [shift, scale], z, taken, d_z, sums);
            }
        }
        Actions::Continuous => {
            for ((z, d_z), taken) in z.chunks_exact(wide).zip(d_z.chunks_exact_mut(wide)).zip(taken) {
                let taken = Taken { advantage: (taken.advantage - shift) * scale, ..*taken };
                policy_loss(terms, z, &taken, d_z, sums);
            }
        }
    }
    let (value, d_value, targets) = values;
    for ((value, d_value), targets) in value.iter().zip(d_value).zip(targets) {
        *d_value = value_loss(terms, *value, targets.old, targets.wanted, sums);
    }
}

/// [`policy_loss`] of up to [`ROWS`] rows of three actions. Loops and no chains of iterators: what those call may stay
/// outside of the function that is compiled for fused products.
#[inline(always)]
fn discrete(terms: &Terms, [shift, scale]: [f32; 2], z: &[f32], taken: &[Taken], d_z: &mut [f32], sums: &mut LossSums) {
    let Terms { clip, entropy_weight, rows, .. } = *terms;
    let n = taken.len().min(ROWS);
    const NONE: [f32; ROWS] = [0.0; ROWS];
    let mut logs = [NONE; 3]; // first the outputs
    let mut p = [NONE; 3];
    let [mut old, mut advantage, mut action, mut whole] = [NONE; 4];
    let mut legal = [0u32; ROWS];
    for (i, (z, taken)) in z.chunks_exact(3).zip(taken).enumerate().take(n) {
        for a in 0..3 {
            logs[a][i] = z[a];
        }
        (old[i], action[i], legal[i]) = (taken.log_probability, taken.action, u32::from(taken.legal));
        advantage[i] = (taken.advantage - shift) * scale;
    }
    for i in 0..n {
        let mut most = f32::NEG_INFINITY;
        for (a, z) in logs.iter().enumerate() {
            most = most.max(if legal[i] >> a & 1 == 1 { z[i] } else { f32::NEG_INFINITY });
        }
        for a in 0..3 {
            logs[a][i] -= most;
            p[a][i] = if legal[i] >> a & 1 == 1 { exp(logs[a][i]) } else { 0.0 };
        }
        whole[i] = p[0][i] + p[1][i] + p[2][i];
    }
    for i in 0..n {
        for p in &mut p {
            p[i] /= whole[i];
        }
    }
    for sum in &mut whole[..n] {
        *sum = ln(*sum);
    }
    let possible = [ln(2.0), ln(3.0)];
    let (least, most) = (1.0 - clip.policy, 1.0 + clip.policy);
    let [mut surrogate, mut ratio, mut log_ratio, mut entropy] = [NONE; 4];
    let [mut slope, mut own, mut weight] = [NONE; 3];
    for i in 0..n {
        for (a, log) in logs.iter_mut().enumerate() {
            log[i] = if legal[i] >> a & 1 == 1 { log[i] - whole[i] } else { 0.0 };
        }
        let new = if action[i] == 0.0 { logs[0][i] } else { logs[2][i] };
        let new = if action[i] == 1.0 { logs[1][i] } else { new };
        log_ratio[i] = new - old[i];
        own[i] = -(p[0][i] * logs[0][i] + p[1][i] * logs[1][i] + p[2][i] * logs[2][i]);
    }
    for i in 0..n {
        let r = exp(log_ratio[i].min(20.0));
        // Not `clamp`, which can panic: a loop with a way out is not made SIMD.
        let above = if r < least { least } else { r };
        let limited = if above > most { most } else { above };
        let (free, held) = (r * advantage[i], limited * advantage[i]);
        surrogate[i] = free.min(held);
        slope[i] = if free <= held { -free } else { 0.0 };
        ratio[i] = r;
    }
    for i in 0..n {
        let choices = (legal[i] & 1) + (legal[i] >> 1 & 1) + (legal[i] >> 2 & 1);
        let nats = if choices == 2 { possible[0] } else { possible[1] };
        let (share, weighed) = (own[i] / nats, entropy_weight / nats);
        entropy[i] = if choices > 1 { share } else { 1.0 };
        weight[i] = if choices > 1 { weighed } else { 0.0 };
    }
    for (a, p) in p.iter_mut().enumerate() {
        for i in 0..n {
            let chosen = if action[i] == a as f32 { 1.0 } else { 0.0 };
            let to_entropy = weight[i] * p[i] * (logs[a][i] + own[i]);
            let d = (slope[i] * (chosen - p[i]) + to_entropy) / rows;
            p[i] = if legal[i] >> a & 1 == 1 { d } else { 0.0 };
        }
    }
    let mut all = *sums;
    for (i, d_z) in d_z.chunks_exact_mut(3).enumerate().take(n) {
        for a in 0..3 {
            d_z[a] = p[a][i];
        }
        all.rows += 1.0;
        all.policy -= f64::from(surrogate[i]);
        all.kl += f64::from((ratio[i] - 1.0) - log_ratio[i]);
        all.clipped += f64::from(u8::from((ratio[i] - 1.0).abs() > clip.policy));
        all.entropy += f64::from(entropy[i]);
    }
    *sums = all;
}

#[cfg(test)]
mod tests {
    use super::super::loss::Clip;
    use super::*;
    use random::SplitMix;

    #[test]
    fn rows_side_by_side_have_the_bits_of_one_after_the_other() {
        let mut random = SplitMix::new(5);
        for (actions, n) in [(Actions::Discrete, 300), (Actions::Discrete, 1), (Actions::Continuous, 37)] {
            let wide = actions.outputs();
            let clip = Clip { policy: 0.2, value: Some(0.1) };
            let terms = Terms { actions, clip, entropy_weight: -0.03, value_weight: 0.5, rows: n as f32 };
            let mut draw = |n: usize| (0..n).map(|_| random.unit() as f32 * 4.0 - 2.0).collect::<Vec<f32>>();
            let (mut z, value, logs, advantages) = (draw(n * wide), draw(n), draw(n), draw(n));
            if n > 100 {
                (z[30], z[60], z[90]) = (f32::NAN, 300.0, -300.0);
            }
            let taken = |(i, advantage): (usize, &f32)| {
                let legal = [7, 7, 6, 3, 2, 5][random.below(6)];
                let action = match actions {
                    Actions::Discrete => {
                        (0..3).cycle().skip(random.below(3)).find(|a| legal >> a & 1 == 1).unwrap_or(1) as f32
                    }
                    Actions::Continuous => logs[i] * 0.3,
                };
                Taken { action, legal, log_probability: -logs[i].abs(), advantage: *advantage }
            };
            let taken: Vec<Taken> = advantages.iter().enumerate().map(taken).collect();
            let targets: Vec<Targets> = logs.iter().map(|x| Targets { old: x * 0.5, wanted: -x }).collect();
            let (mut d_z, mut d_value, mut sums) = (vec![0.0; n * wide], vec![0.0; n], LossSums::default());
            let policy = (&*z, &mut *d_z, &*taken);
            losses(&terms, [0.1, 1.7], policy, (&value, &mut d_value, &targets), &mut sums);
            let (mut d_one, mut d_value_one, mut sums_one) = (vec![0.0; n * wide], vec![0.0; n], LossSums::default());
            for (i, taken) in taken.iter().enumerate() {
                let own = Taken { advantage: (taken.advantage - 0.1) * 1.7, ..*taken };
                let columns = i * wide..(i + 1) * wide;
                policy_loss(&terms, &z[columns.clone()], &own, &mut d_one[columns], &mut sums_one);
            }
            for i in 0..n {
                d_value_one[i] = value_loss(&terms, value[i], targets[i].old, targets[i].wanted, &mut sums_one);
            }
            let bits = |x: &[f32]| x.iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect::<Vec<_>>();
            assert_eq!((bits(&d_z), bits(&d_value)), (bits(&d_one), bits(&d_value_one)), "{actions:?}, {n} rows");
            assert_eq!(format!("{sums:?}"), format!("{sums_one:?}"), "{actions:?}, {n} rows");
        }
    }
}
