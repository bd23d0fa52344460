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
