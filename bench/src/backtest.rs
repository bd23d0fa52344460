//! Many accounts over one long series: what `xtask bench backtest` times beside vectorbt.

use account::{Accounts, Bar, Orders, Params};
use random::SplitMix;
use serde_json::{Value, json};
use std::time::Instant;

/// Bars of a random walk, opens at the close before, as the peer makes them.
fn walk(n: usize) -> Vec<Bar> {
    let mut random = SplitMix::new(1);
    let mut close = 1500.0;
    (0..n)
        .map(|_| {
            let open = close;
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            close *= 1.0 + 2e-4 * normal;
            let (high, low) = (open.max(close), open.min(close));
            Bar { open, high, low, close, half_spread: 1e-4, sigma: 2e-4, ..Bar::flat(close) }
        })
        .collect()
}

/// `[bars, accounts]` targets: long, short and flat are each chosen at 2 % of the bars, else nothing is decided.
fn targets(bars: usize, accounts: usize) -> Vec<i8> {
    let mut random = SplitMix::new(2);
    let draw = |at: f64| match at {
        at if at < 0.02 => 1,
        at if at < 0.04 => -1,
        at if at < 0.06 => 0,
        _ => i8::MIN,
    };
    (0..bars * accounts).map(|_| draw(random.unit())).collect()
}

/// Walks accounts through all bars, keeps equity at every close and gives yearly Sharpe ratios of days of 288 bars.
pub(crate) fn time(bars: usize, accounts: usize, threads: usize, rounds: usize) -> Result<Value, String> {
    let (walk, targets) = (walk(bars), targets(bars, accounts));
    let mut best = f64::INFINITY;
    let mut sharpe = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let per = accounts.div_ceil(threads.max(1)).next_multiple_of(8);
        sharpe = std::thread::scope(|scope| {
            let chunks: Vec<_> = (0..accounts)
                .step_by(per)
                .map(|from| {
                    let (walk, targets) = (&walk, &targets);
                    scope.spawn(move || chunk(walk, targets, from..accounts.min(from + per), accounts))
                })
                .collect();
            chunks.into_iter().flat_map(|chunk| chunk.join().unwrap_or_default()).collect::<Vec<f64>>()
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    let steps = (bars - 1) * accounts;
    Ok(json!({
        "bars": bars, "accounts": accounts, "threads": threads, "seconds": best,
        "bar_accounts_per_s": steps as f64 / best, "sharpe_sum": sharpe.iter().sum::<f64>(),
    }))
}

fn chunk(walk: &[Bar], targets: &[i8], own: std::ops::Range<usize>, accounts: usize) -> Vec<f64> {
    let params = Params { fee: 1e-4, ..Params::default() };
    let mut all = Accounts::new(&vec![params; own.len()]);
    let mut wanted = vec![0.0; own.len()];
    let mut equity = vec![0.0; own.len() * (walk.len() - 1)];
    for (t, row) in equity.chunks_exact_mut(own.len()).enumerate() {
        let decided = &targets[t * accounts + own.start..t * accounts + own.end];
        for (wanted, decided) in wanted.iter_mut().zip(decided) {
            *wanted = if *decided == i8::MIN { f64::NAN } else { f64::from(*decided) };
        }
        all.step(Orders::targets(&wanted), &walk[t], &walk[t + 1]);
        all.equity(row);
    }
    const DAY: usize = 288;
    let days: Vec<&[f64]> = equity.chunks_exact(own.len()).step_by(DAY).collect();
    (0..own.len())
        .map(|account| {
            let returns: Vec<f64> = days.windows(2).map(|pair| pair[1][account] / pair[0][account] - 1.0).collect();
            let n = returns.len() as f64;
            let mean = returns.iter().sum::<f64>() / n;
            let variance = returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
            mean / variance.sqrt() * 365f64.sqrt()
        })
        .collect()
}
