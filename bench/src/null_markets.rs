//! How often the judge finds something where there is nothing, and how often its intervals hold the truth: many markets
//! without drift, each walked forward by logistic regression, judged and traded (docs/method.md, Leak tests: null).

use account::Params;
use bars::synth::{MarketKind, Synth};
use bars::{Bars, Timeframe};
use features::labels::{Labeling, Rule, label};
use features::{Clock, Fold, Samples, Span, class, runs};
use judge::backtest::{Course, walk};
use judge::measure::{Logistic, predicted};
use judge::performance::{SharpeRatio, TrackRecord, performance, trading_days_per_year};
use judge::split::{WalkForward, walk_forward};
use judge::{Baselines, Truth};
use market::{AccountOptions, PriceTable, Targets};
use random::{SplitMix, mix};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A kind of market and label.
struct Setting {
    name: &'static str,
    symbols: usize,
    bars: usize,
    timeframe: Timeframe,
    ahead: usize,
}

const SETTINGS: [Setting; 4] = [
    Setting { name: "1 h, 12 bars ahead", symbols: 1, bars: 7000, timeframe: Timeframe::H1, ahead: 12 },
    Setting { name: "daily, 20 days ahead", symbols: 1, bars: 1500, timeframe: Timeframe::D1, ahead: 20 },
    Setting { name: "daily, 20 days ahead, 8 symbols", symbols: 8, bars: 1200, timeframe: Timeframe::D1, ahead: 20 },
    Setting { name: "daily, 1 day ahead", symbols: 1, bars: 1500, timeframe: Timeframe::D1, ahead: 1 },
];

/// What one market gave.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    covered: bool,
    above: bool,
    three_class_above: bool,
    free: Option<(bool, bool)>, // PSR(0) above 0.95 at no cost, and whether the interval of the ratio holds 0
    at_cost: Option<bool>,
}

/// Judges so many markets of each kind.
pub(crate) fn judge(paths: usize, threads: usize) -> Result<Value, String> {
    let clock = Instant::now();
    let mut rows = Vec::new();
    for setting in &SETTINGS {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut own = Vec::new();
            loop {
                let path = next.fetch_add(1, Ordering::Relaxed);
                if path >= paths {
                    return own;
                }
                own.push(one(setting, path as u64));
            }
        };
        let found: Vec<Result<Option<Found>, String>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        let found = found.into_iter().collect::<Result<Vec<Option<Found>>, String>>()?;
        let judged: Vec<Found> = found.into_iter().flatten().collect();
        let share = |of: &dyn Fn(&Found) -> Option<bool>| {
            let known: Vec<bool> = judged.iter().filter_map(of).collect();
            known.iter().filter(|x| **x).count() as f64 / known.len().max(1) as f64
        };
        rows.push(json!({
            "market": setting.name,
            "paths": judged.len(),
            "direction_interval_holds_0": share(&|f| Some(f.covered)),
            "direction_p_below_0.05": share(&|f| Some(f.above)),
            "three_class_interval_above_0": share(&|f| Some(f.three_class_above)),
            "sharpe_interval_holds_0_free": share(&|f| f.free.map(|x| x.1)),
            "psr_above_0.95_free": share(&|f| f.free.map(|x| x.0)),
            "psr_above_0.95_at_cost": share(&|f| f.at_cost),
        }));
    }
    Ok(json!({"settings": rows, "threads": threads, "seconds": clock.elapsed().as_secs_f64()}))
}

/// Prices without drift whose volatility clusters; symbols share half of their variance.
fn market_of(setting: &Setting, seed: u64) -> Vec<Bars> {
    let kind = if setting.timeframe == Timeframe::D1 { MarketKind::Stocks } else { MarketKind::Crypto };
    let synth = Synth {
        seed: 1,
        symbols: setting.symbols,
        bars: setting.bars,
        timeframe: setting.timeframe,
        kind,
        ragged: false,
        ..Synth::default()
    };
    let mut market = synth.make_market(1).market;
    let mut random = SplitMix::new(mix(seed ^ 0x6e75_6c6c));
    let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let common: Vec<f64> = (0..setting.bars).map(|_| normal()).collect();
    for bars in &mut market {
        let (mut price, mut variance) = (100.0, 1.0f64);
        for (t, common) in common.iter().enumerate().take(bars.len()) {
            let z = 0.5f64.sqrt() * (common + normal());
            let r = 0.01 * variance.sqrt() * z;
            let (open, close) = (price, price * (1.0 + r).max(0.5));
            (bars.open[t], bars.close[t]) = (open, close);
            (bars.high[t], bars.low[t]) = (open.max(close) * 1.001, open.min(close) * 0.999);
            price = close;
            variance = 0.05 + 0.1 * variance * z * z + 0.85 * variance;
        }
        bars.segments = vec![0];
        bars.volume.clear();
    }
    market
}

/// `[rows, 4]` columns that know nothing of what comes: returns over some bars in their own deviations, and volatility.
fn columns(market: &[Bars]) -> Vec<[f32; 4]> {
    let mut all = Vec::new();
    for bars in market {
        let ln: Vec<f64> = bars.close.iter().map(|x| x.ln()).collect();
        let mut variance = 1e-4;
        for t in 0..bars.len() {
            let over = |n: usize| if t >= n { ln[t] - ln[t - n] } else { 0.0 };
            variance += (over(1) * over(1) - variance) / 20.0;
            let deviation = variance.sqrt().max(1e-6);
            let scaled = |n: usize| (over(n) / deviation / (n as f64).sqrt()).clamp(-5.0, 5.0) as f32;
            all.push([scaled(1), scaled(5), scaled(24), (100.0 * deviation - 1.0).clamp(-3.0, 3.0) as f32]);
        }
    }
    all
}

fn one(setting: &Setting, seed: u64) -> Result<Option<Found>, String> {
    let text = |e: files::Error| e.to_string();
    let market = market_of(setting, seed);
    let clock = Clock::new(&market);
    let spec = Labeling { rule: Rule::Fixed { horizon: setting.ahead }, cost_bp: Some(20.0), ..Labeling::default() };
    let cut: Vec<_> = market.iter().map(|bars| runs(bars, None)).collect();
    let labels = label(&market, &cut, &spec, 1).map_err(text)?;
    let samples = Samples::new(&clock, &labels, |row| {
        let symbol = (0..market.len()).find(|s| clock.rows(*s).contains(&row)).unwrap_or(0);
        row - clock.rows(symbol).start >= 30
    });
    let splits =
        walk_forward(&samples, &clock.times, &WalkForward { folds: 5, ..WalkForward::default() }).map_err(text)?;
    let x = columns(&market);
    let rows = |positions: &[u32]| -> Vec<f32> {
        positions.iter().flat_map(|at| x[samples.rows[*at as usize] as usize]).collect()
    };
    let truth_of = |positions: &[u32]| -> Vec<u8> {
        positions.iter().map(|at| class::index(samples.class[*at as usize], 3)).collect()
    };
    let said = |fold: &Fold| {
        Logistic::fit(&rows(&fold.train), 4, &truth_of(&fold.train), 3)
            .map_or(Vec::new(), |m| m.predict(&rows(&fold.test)))
    };
    let ensemble: Vec<Vec<f32>> = splits.folds.iter().map(said).collect();
    let symbols: Vec<u32> = samples
        .rows
        .iter()
        .map(|row| (0..market.len()).find(|s| clock.rows(*s).contains(&(*row as usize))).unwrap_or(0) as u32)
        .collect();
    let truth = Truth { samples: &samples, classes: 3, symbols: &symbols, folds: &splits.folds };
    let Some(judged) = truth.judge(&ensemble, &Baselines::default()).map_err(text)? else { return Ok(None) };
    let (Some(direction), Some(whole), Some(p)) =
        (judged.directional_interval, judged.mcc_interval, judged.directional_p)
    else {
        return Ok(None);
    };
    let mut found = Found {
        covered: direction.low <= 0.0 && direction.high >= 0.0,
        above: p <= 0.05,
        three_class_above: whole.low > 0.0,
        ..Found::default()
    };

    // The most likely of up and down is held from the next open on, each symbol with its share.
    let mut targets = Targets::none(clock.tick.len());
    for (fold, p) in splits.folds.iter().zip(&ensemble) {
        for (at, guess) in fold.test.iter().zip(predicted(p, 3)) {
            let row = samples.rows[*at as usize] as usize;
            let side = f64::from(guess) - 1.0;
            targets.actions[row].target = side / market.len() as f64;
        }
    }
    let table = PriceTable::new(&market, &AccountOptions::default(), None).map_err(text)?;
    let (first, last) = (splits.folds.first(), splits.folds.last());
    let span = first.zip(last).and_then(|(a, b)| Span::new(a.spans.test.from(), b.spans.test.to()));
    let Some(span) = span else { return Ok(None) };
    let course = Course { market: &market, clock: &clock, table: &table, span, delisting_return: 0.0 };
    let above = |multiple: f64| {
        let params: Vec<Params> = table.params.iter().map(|p| p.with_costs(multiple)).collect();
        let (days, returns) = walk(&course, &params, &targets).ok()?.daily_returns();
        let sharpe = SharpeRatio::new(&returns)?;
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let p = performance(&TrackRecord::new(&returns, per_year)).ok()?;
        let (annual, error) = (p.sharpe_annual?, p.sharpe_annual_error?);
        let holds = (annual - 1.96 * error..=annual + 1.96 * error).contains(&0.0);
        Some((sharpe.probability_above(0.0)? > 0.95, holds))
    };
    found.free = above(0.0);
    found.at_cost = above(1.0).map(|x| x.0);
    Ok(Some(found))
}
