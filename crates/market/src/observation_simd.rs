//! What eight accounts are shown of themselves at once: the bits of `observation`, account by account.
//!
//! Plain loops over lanes, compiled for AVX-512, for AVX2 and for everything else; which one runs is decided when it is
//! called.

use account::{GROUP, Seen};

/// Numbers of [`crate::OBSERVED_NAMES`] that are an account's own: all but the time of day and the bars to a forced
/// close, which belong to the row.
pub const OWN: usize = 6;

/// `[OWN][lanes]` what placed accounts are shown of themselves; `log_held` is the logarithm of so many bars held, as
/// far as accounts can hold.
#[inline]
pub fn observe_lanes(seen: &Seen<'_>, log_held: &[f32]) -> [[f32; GROUP]; OWN] {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
        fn avx512(seen: &Seen<'_>, log_held: &[f32]) -> [[f32; GROUP]; OWN] {
            lanes(seen, log_held)
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(seen: &Seen<'_>, log_held: &[f32]) -> [[f32; GROUP]; OWN] {
            lanes(seen, log_held)
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("fma") {
            #[expect(unsafe_code, reason = "the features were detected")]
            return unsafe { avx512(seen, log_held) };
        }
        if has!("avx2") && has!("fma") {
            #[expect(unsafe_code, reason = "the features were detected")]
            return unsafe { avx2(seen, log_held) };
        }
    }
    lanes(seen, log_held)
}

#[inline(always)]
fn lanes(seen: &Seen<'_>, log_held: &[f32]) -> [[f32; GROUP]; OWN] {
    let mut shown = [[0.0; GROUP]; OWN];
    let most = log_held.len() - 1;
    #[expect(clippy::needless_range_loop, reason = "a loop over lanes of many arrays is what becomes vectors")]
    for i in 0..GROUP {
        let (quantity, equity) = (seen.quantity[i], seen.equity[i]);
        let unit = seen.multiplier[i] * seen.close[i] * seen.fx[i];
        let positive = if equity > 0.0 { equity } else { f64::INFINITY };
        let position = quantity * unit / positive;
        let moved = if seen.entry[i] > 0.0 { seen.close[i] / seen.entry[i] - 1.0 } else { 0.0 };
        let side = if quantity > 0.0 { 1.0 } else { -1.0 };
        let deviation = seen.sigma[i] * seen.bars_held[i].sqrt();
        let in_deviations = side * moved / deviation;
        let unrealised = if (deviation > 0.0) & (quantity != 0.0) { in_deviations } else { 0.0 };
        shown[0][i] = position as f32;
        shown[1][i] = ((seen.target[i] - quantity) * unit / positive) as f32;
        shown[2][i] = unrealised.clamp(-10.0, 10.0) as f32;
        shown[4][i] = (1.0 - equity / seen.peak[i]) as f32;
        shown[5][i] = (position.abs() / seen.leverage[i]) as f32;
    }
    // Whole numbers of 32 bits, so that they are converted side by side.
    let most = most as u32;
    let bars = seen.bars_held.map(|bars| (bars as i32 as u32).min(most));
    shown[3].iter_mut().zip(bars).for_each(|(to, bars)| *to = log_held[bars as usize]);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::log_bars;
    use account::{Accounts, Bar, Params, shown};
    use random::SplitMix;

    #[test]
    fn lanes_show_what_single_accounts_are_shown() {
        let mut random = SplitMix::new(5);
        let mut price = 100.0;
        let bars: Vec<Bar> = (0..300)
            .map(|_| {
                let open = price;
                price *= 1.0 + 0.06 * (random.unit() - 0.5);
                let (high, low) = (1.02 * open.max(price), 0.98 * open.min(price));
                let sigma = if random.below(9) == 0 { 0.0 } else { 0.01 * random.unit() };
                Bar { open, high, low, close: price, sigma, ..Bar::flat(open) }
            })
            .collect();
        let n = 13;
        let params: Vec<Params> = (0..n)
            .map(|i| Params { leverage: 1.0 + i as f64, fraction: 0.5 + i as f64, ..Params::default() })
            .collect();
        let log_held: Vec<f32> = (0..300).map(|bars| log_bars(f64::from(bars))).collect();
        let mut accounts = Accounts::new(&params);
        let mut held = 0;
        for t in 0..200 {
            let rows: Vec<u32> = (0..n as u32).map(|i| t + 7 * i).collect();
            accounts.place(&bars, &rows);
            let lanes: Vec<[[f32; GROUP]; OWN]> = accounts.seen().map(|seen| observe_lanes(&seen, &log_held)).collect();
            for i in 0..n {
                let holding = accounts.holding(i);
                held += usize::from(holding.bars_held > 1.0);
                let logarithms = [log_bars(holding.bars_held), 0.0];
                let wanted = shown(&params[i], &holding, &bars[rows[i] as usize], 0.0, logarithms);
                let found: [f32; OWN] = std::array::from_fn(|k| lanes[i / GROUP][k][i % GROUP]);
                assert_eq!(found.map(f32::to_bits), wanted[..OWN].iter().map(|x| x.to_bits()).collect::<Vec<_>>()[..]);
            }
            let targets: Vec<f64> = (0..n).map(|_| random.below(3) as f64 - 1.0).collect();
            accounts.step_placed(&targets);
        }
        assert!(held > 100, "{held}");
    }
}
