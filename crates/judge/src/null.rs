//! Markets with nothing in them (docs/method.md, Leak tests: null): whatever finds something here is broken.
//!
//! [`permute`] deals the labels out anew, in blocks; [`walk`] simulates prices without drift at the asset's own
//! volatility; [`flip`] turns bars upside down at random; [`delay`] moves features back in time, and [`poison`] changes
//! the future. Volatility stays what it was in the last two, and it
//! clusters, so it may be predicted there; direction may not. [`bound`] is what noise reaches.

use bars::Bars;
use features::Samples;
use files::{Error, Result};
use random::{SplitMix, mix};

/// Bars over which the volatility of [`walk`] forgets.
const SPAN: f64 = 100.0;

/// Three deviations of the correlation of nothing with nothing over `n` independent samples: 3/√n.
pub fn bound(n: f64) -> f64 {
    3.0 / n.max(1.0).sqrt()
}

/// Permutes the classes of each symbol (`[n]`, a number for each sample) in blocks of `block` samples: which classes
/// there are and how they follow one another stays, what they have to do with their rows is gone.
///
/// # Errors
///
/// Where there is not one symbol for each sample, or a block is empty.
pub fn permute(samples: &mut Samples, symbols: &[u32], block: usize, seed: u64) -> Result<()> {
    if symbols.len() != samples.len() || block == 0 {
        let what =
            format!("{} samples of {} symbols cannot be dealt out in blocks of {block}", samples.len(), symbols.len());
        return Err(Error::input(what));
    }
    let most = symbols.iter().max().map_or(0, |s| *s as usize + 1);
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); most];
    symbols.iter().enumerate().for_each(|(at, symbol)| of[*symbol as usize].push(at));
    for (symbol, places) in of.iter().enumerate() {
        let classes: Vec<i8> = places.iter().map(|at| samples.class[*at]).collect();
        let mut blocks: Vec<&[i8]> = classes.chunks(block).collect();
        let mut random = SplitMix::new(mix(seed) ^ mix(!(symbol as u64)));
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, random.below(i + 1));
        }
        for (at, class) in places.iter().zip(blocks.concat()) {
            samples.class[*at] = class;
        }
    }
    Ok(())
}

/// Gives every sample of one symbol the features of the sample `by` places before it; the first ones have none and go.
pub fn delay(samples: &mut Samples, by: usize) {
    let by = by.min(samples.len());
    samples.rows.truncate(samples.rows.len() - by);
    samples.t0.drain(..by);
    samples.t1.drain(..by);
    samples.class.drain(..by);
    samples.weight.drain(..by);
}

/// The same bars with other prices: a walk without drift whose steps are as wide as the asset's moves were lately. A
/// bar opens where the one before closed; its shadows, volume and other columns stay.
pub fn walk(bars: &Bars, seed: u64) -> Bars {
    let mut random = SplitMix::new(mix(seed) ^ mix(hash(&bars.symbol)));
    let moves = |t: usize| bars.close[t] / bars.close[t - 1] - 1.0;
    let n = bars.len();
    let mut variance = (1..n).map(|t| moves(t) * moves(t)).filter(|v| v.is_finite()).sum::<f64>() / n.max(2) as f64;
    let mut made = bars.clone();
    let mut price = bars.open.first().copied().unwrap_or(1.0);
    for t in 0..n {
        // Twelve uniforms: near enough to the normal curve, and the same on every machine.
        let z = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let (open, close) = (price, price * (1.0 + variance.sqrt() * z).max(0.05));
        let (above, below) = shadows(bars, t);
        (made.open[t], made.close[t]) = (open, close);
        (made.high[t], made.low[t]) = (open.max(close) * above, open.min(close) * below);
        price = close;
        // What the asset did at t widens or narrows the step at t + 1.
        let square = if t > 0 { moves(t) * moves(t) } else { variance };
        if square.is_finite() {
            variance += (square - variance) * 2.0 / (SPAN + 1.0);
        }
    }
    made
}

/// The same bars, each turned upside down with probability one half: moves are as large as before, their directions are
/// a coin's.
pub fn flip(bars: &Bars, seed: u64) -> Bars {
    let mut random = SplitMix::new(mix(seed) ^ mix(hash(&bars.symbol)));
    let mut made = bars.clone();
    let first = bars.open.first().copied().unwrap_or(1.0);
    let (mut before, mut price) = (first, first); // the last close as it was, and as it is now
    for t in 0..bars.len() {
        let all = [bars.open[t], bars.high[t], bars.low[t], bars.close[t]].map(|p| p / before);
        let [open, high, low, close] = if random.below(2) == 0 {
            all
        } else {
            let [open, high, low, close] = all.map(|ratio| 1.0 / ratio);
            [open, low, high, close]
        };
        (made.open[t], made.high[t]) = (price * open, price * high);
        (made.low[t], made.close[t]) = (price * low, price * close);
        (before, price) = (bars.close[t], made.close[t]);
    }
    made
}

/// The same bars up to the moment `t`, and another future behind it: prices of another walk go on from the last close,
/// volume and other columns come in reverse. Nothing that is known at `t` may change.
pub fn poison(bars: &Bars, t: i64, seed: u64) -> Bars {
    let from = bars.end.partition_point(|end| *end <= t);
    let (other, mut made) = (walk(bars, !seed), bars.clone());
    if from == 0 || from == bars.len() {
        return if from == 0 { other } else { made };
    }
    let scale = bars.close[from - 1] / other.open[from];
    for (own, other) in [
        (&mut made.open, &other.open),
        (&mut made.high, &other.high),
        (&mut made.low, &other.low),
        (&mut made.close, &other.close),
    ] {
        own[from..].iter_mut().zip(&other[from..]).for_each(|(own, other)| *own = scale * other);
    }
    made.volume.get_mut(from..).into_iter().for_each(<[f64]>::reverse);
    made.extras.iter_mut().for_each(|(_, column)| column[from..].reverse());
    made
}

/// How far a bar reaches above and below its body, as ratios.
fn shadows(bars: &Bars, t: usize) -> (f64, f64) {
    let (open, close) = (bars.open[t], bars.close[t]);
    ((bars.high[t] / open.max(close)).max(1.0), (bars.low[t] / open.min(close)).min(1.0))
}

fn hash(symbol: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(symbol.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::synth::{MarketKind, Plant, Synth};

    fn planted() -> Bars {
        let plant = Some(Plant::default());
        let synth = Synth {
            symbols: 1,
            bars: 20_000,
            kind: MarketKind::Crypto,
            timeframe: bars::Timeframe::M5,
            plant,
            ..Synth::default()
        };
        synth.make_market(1).market.remove(0)
    }

    fn moves(bars: &Bars) -> Vec<f64> {
        bars.close.windows(2).map(|w| w[1] / w[0] - 1.0).collect()
    }

    /// Correlation of the planted column with the return it speaks of.
    fn known(bars: &Bars) -> f64 {
        let plant = &bars.extras[0].1;
        let n = bars.len() - 2;
        let pairs = || (0..n).map(|t| (plant[t], bars.open[t + 2] / bars.open[t + 1] - 1.0));
        let dot: f64 = pairs().map(|(x, r)| x * r).sum();
        dot / (n as f64 * pairs().map(|(_, r)| r * r).sum::<f64>()).sqrt()
    }

    fn lawful(bars: &Bars) {
        for t in 0..bars.len() {
            let (o, h, l, c) = (bars.open[t], bars.high[t], bars.low[t], bars.close[t]);
            let slack = 1.0 + 1e-12;
            assert!(l > 0.0 && l <= o.min(c) * slack && h * slack >= o.max(c), "bar {t}: {o} {h} {l} {c}");
        }
    }

    #[test]
    fn nulls_keep_the_size_of_moves_and_know_no_direction() {
        let bars = planted();
        assert!(known(&bars) > 0.5, "{}", known(&bars));
        for (null, exact) in [(flip(&bars, 3), true), (walk(&bars, 3), false)] {
            lawful(&null);
            assert!(known(&null).abs() < bound(bars.len() as f64), "{}", known(&null));
            let size = |b: &Bars| (moves(b).iter().map(|r| r * r).sum::<f64>() / b.len() as f64).sqrt();
            assert!(
                (size(&null) / size(&bars) - 1.0).abs() < if exact { 0.001 } else { 0.05 },
                "{} {}",
                size(&null),
                size(&bars)
            );
            assert_eq!((null.start, null.extras), (bars.start.clone(), bars.extras.clone()));
        }
        assert_eq!(flip(&bars, 3), flip(&bars, 3));
        assert_ne!(flip(&bars, 3).close, flip(&bars, 4).close);
        assert_ne!(walk(&bars, 3).close, walk(&bars, 4).close);
    }

    #[test]
    fn flips_mirror_or_leave_a_bar() {
        let bars = planted();
        let null = flip(&bars, 9);
        let (was, is) = (moves(&bars), moves(&null));
        let kept = was.iter().zip(&is).filter(|(a, b)| (*a - *b).abs() < 1e-9).count();
        let turned = was.iter().zip(&is).filter(|(a, b)| ((1.0 + *a) * (1.0 + *b) - 1.0).abs() < 1e-9).count();
        assert!(kept + turned >= was.len(), "{kept} {turned}");
        assert!(kept.abs_diff(turned) < 600, "{kept} {turned}");
    }

    #[test]
    fn labels_stay_with_their_symbol_and_leave_their_rows() {
        let n = 3000;
        let class: Vec<i8> = (0..n).map(|i| if i % 2 == 0 { [-1, 0, 1][i / 7 % 3] } else { 1 }).collect();
        let symbols: Vec<u32> = (0..n).map(|i| (i % 2) as u32).collect();
        let t0: Vec<i64> = (0..n as i64).collect();
        let before = Samples { rows: (0..n as u32).collect(), t1: t0.clone(), t0, class, weight: vec![1.0; n] };
        let mut after = before.clone();
        permute(&mut after, &symbols, 5, 1).expect("it fits");
        let counts = |s: &Samples, symbol: u32| {
            [-1, 0, 1].map(|c| s.class.iter().zip(&symbols).filter(|(x, y)| **x == c && **y == symbol).count())
        };
        assert_eq!([counts(&before, 0), counts(&before, 1)], [counts(&after, 0), counts(&after, 1)]);
        let same = before.class.iter().zip(&after.class).step_by(2).filter(|(a, b)| a == b).count();
        assert!(same < 620, "{same} of 1500 where a third is chance");
        assert!(permute(&mut after, &symbols[1..], 5, 1).is_err() && permute(&mut after, &symbols, 0, 1).is_err());
    }

    #[test]
    fn empty_and_odd_bars_are_handled() {
        let mut bars = planted();
        bars.close[3] = f64::NAN;
        let _ = (walk(&bars, 1), flip(&bars, 1));
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
            column.clear();
        }
        (bars.start, bars.end) = (Vec::new(), Vec::new());
        assert!(walk(&bars, 1).is_empty() && flip(&bars, 1).is_empty());
    }
}
