//! Loops of fused products over parameters, and sums of accounts. One rounding for each everywhere, so the bits are the
//! same on every processor; where it has such instructions, sixteen or eight at a time.

/// `fn name(args) = kernel`, compiled for AVX-512, for AVX2 with fused products, and for everything else.
macro_rules! fused {
    ($(#[$about:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$about])*
        pub(super) fn $name($($arg: $kind),*) {
            #[inline(always)]
            fn kernel($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,fma")]
                fn avx512($($arg: $kind),*) {
                    kernel($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $kind),*) {
                    kernel($($arg),*);
                }
                use std::arch::is_x86_feature_detected as has;
                if has!("fma") && has!("avx512f") && has!("avx512vl") {
                    #[expect(unsafe_code, reason = "the features were detected")]
                    return unsafe { avx512($($arg),*) };
                }
                if has!("fma") && has!("avx2") {
                    #[expect(unsafe_code, reason = "the features were detected")]
                    return unsafe { avx2($($arg),*) };
                }
            }
            kernel($($arg),*);
        }
    };
}

fused! {
    /// `x = by · z + mean`
    fn perturb(by: f32, z: &[f32], mean: &[f32], x: &mut [f32]) {
        x.iter_mut().zip(mean).zip(z).for_each(|((x, mean), z)| *x = by.mul_add(*z, *mean));
    }
}

fused! {
    /// `x = (by · deviation) · z + mean`
    fn perturb_each(by: f32, deviation: &[f32], z: &[f32], mean: &[f32], x: &mut [f32]) {
        let own = mean.iter().zip(deviation);
        x.iter_mut().zip(own).zip(z).for_each(|((x, (mean, deviation)), z)| *x = (by * deviation).mul_add(*z, *mean));
    }
}

fused! {
    /// `sum += weight · z`
    fn add_weighted(weight: f32, z: &[f32], sum: &mut [f32]) {
        sum.iter_mut().zip(z).for_each(|(sum, z)| *sum = weight.mul_add(*z, *sum));
    }
}

fused! {
    /// `sum += weight · z²`
    fn add_weighted_squares(weight: f32, z: &[f32], sum: &mut [f32]) {
        sum.iter_mut().zip(z).for_each(|(sum, z)| *sum = weight.mul_add(*z * *z, *sum));
    }
}

fused! {
    /// A step of accounts: what each has grown and its square, how far it is below its peak, and was at worst.
    fn add_growth(growth: &[f64], grown: &mut [f64], squares: &mut [f64], below: &mut [f64], worst: &mut [f64]) {
        let (sums, falls) = (grown.iter_mut().zip(squares), below.iter_mut().zip(worst));
        for ((growth, (grown, square)), (below, worst)) in growth.iter().zip(sums).zip(falls) {
            *grown += growth;
            *square += growth * growth;
            let fall = *below - growth;
            *below = if fall > 0.0 { fall } else { 0.0 };
            *worst = if *below > *worst { *below } else { *worst };
        }
    }
}

fused! {
    /// Of short, flat and long the largest output that is legal, flat where it is as large as another.
    fn prefer_side(short: &[f32], flat: &[f32], long: &[f32], legal: &[u8], targets: &mut [f64]) {
        let n = targets.len();
        let (short, flat, long, legal) = (&short[..n], &flat[..n], &long[..n], &legal[..n]);
        for i in 0..n {
            let down = (legal[i] & 1 == 1) & (short[i] > flat[i]);
            let best = if down { short[i] } else { flat[i] };
            let up = (legal[i] & 4 == 4) & (long[i] > best);
            let other = if down { -1.0 } else { 0.0 };
            targets[i] = if up { 1.0 } else { other };
        }
    }
}

/// What Adam is given in a step: both memories, what is left of the first beginnings, and the rest of its numbers.
#[derive(Clone, Copy)]
pub(super) struct AdamStep {
    pub(super) betas: [f32; 2],
    pub(super) left: [f32; 2],
    pub(super) eps: f32,
    pub(super) decay: f32,
    pub(super) rate: f32,
}

fused! {
    /// A step of Adam uphill; the gradient becomes the move.
    fn climb(by: AdamStep, gradient: &mut [f32], first: &mut [f32], second: &mut [f32], x: &mut [f32]) {
        let AdamStep { betas: [beta1, beta2], left: [first_left, second_left], eps, decay, rate } = by;
        for ((x, g), (first, second)) in x.iter_mut().zip(gradient).zip(first.iter_mut().zip(second)) {
            *first = beta1 * *first + (1.0 - beta1) * *g;
            *second = beta2 * *second + (1.0 - beta2) * *g * *g;
            let step = (*first / first_left) / ((*second / second_left).sqrt() + eps);
            *g = rate * (step - decay * *x);
            *x += *g;
        }
    }
}
