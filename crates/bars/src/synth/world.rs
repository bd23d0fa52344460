//! The lifelike world: log returns = beta · market + sector + own, each with the variance the calendar and the regime
//! allow.
//!
//! The market walks through calm, trend and crisis (a Markov chain by the day, shared by all). A symbol's own part
//! follows GARCH(1,1) by the bar, with rare jumps on top. A bar's path runs from the close before to its own close as a
//! Brownian bridge through the open and three points; high and low are its extremes, so they hold by construction.
//!
//! Nothing here can be predicted from the past but the size of moves, and a trend's drift, which is far below its
//! noise.

use super::calendar::Grid;
use super::random::{Stream, uniform};
use super::{MarketKind, Synth};
use crate::Bars;
use random::normal::{exp, ln, quantile};

/// State of the whole market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Low volatility, slow rise.
    Calm,
    /// A drift up or down.
    Trend,
    /// High volatility, falling, everything moves together.
    Crisis,
}

/// Daily deviations and jumps of a kind of market.
struct Scale {
    market: f64,
    sector: f64,
    own: [f64; 2],    // lowest and highest of all symbols
    jumps: f64,       // a day
    prices: [f64; 2], // lowest and highest first price
    volume: [f64; 2], // lowest and highest daily volume
}

impl Scale {
    fn market_scale(kind: MarketKind) -> Scale {
        match kind {
            MarketKind::Stocks => Scale {
                market: 0.008,
                sector: 0.005,
                own: [0.009, 0.022],
                jumps: 0.012,
                prices: [5.0, 500.0],
                volume: [1e5, 2e7],
            },
            MarketKind::Crypto => Scale {
                market: 0.025,
                sector: 0.012,
                own: [0.015, 0.045],
                jumps: 0.03,
                prices: [5.0, 500.0],
                volume: [1e5, 1e8],
            },
            MarketKind::Fx => Scale {
                market: 0.0030,
                sector: 0.0020,
                own: [0.0025, 0.0050],
                jumps: 0.006,
                prices: [0.6, 1.8],
                volume: [3e4, 2e5],
            },
        }
    }
}

const SECTORS: usize = 11;

/// What all symbols share.
pub(super) struct World {
    regimes: Vec<(Regime, f64)>, // [D] by trading day, with the sign of its drift
    market: Vec<f64>,            // [T] log return of the market
    sectors: Vec<Vec<f64>>,      // [K, T] log return of each sector that is in use, without the market
}

impl World {
    pub(super) fn new(synth: &Synth, grid: &Grid) -> World {
        let days = grid.day.last().map_or(0, |&day| day as usize + 1);
        let regimes = walk_regimes(Stream::new(synth.seed, 0), days);
        let scale = Scale::market_scale(synth.kind);
        let path = |id: u32, drift: f64, deviation: f64| -> Vec<f64> {
            let stream = Stream::new(synth.seed, id);
            let mut draws = [0.0; 4];
            (0..grid.len())
                .map(|t| {
                    if t % 4 == 0 {
                        draws = stream.normals(t / 4, 0);
                    }
                    let (regime, sign) = regimes[grid.day[t] as usize];
                    let variance = grid.variance[t];
                    drift * regime.drift() * sign * variance
                        + deviation * regime.volatility() * variance.sqrt() * draws[t % 4]
                })
                .collect()
        };
        let market = path(1, scale.market, scale.market);
        let sectors = (0..SECTORS.min(synth.symbols)).map(|k| path(16 + k as u32, 0.0, scale.sector)).collect();
        World { regimes, market, sectors }
    }

    pub(super) fn regimes(&self, grid: &Grid) -> Vec<Regime> {
        grid.day.iter().map(|&day| self.regimes[day as usize].0).collect()
    }

    /// One symbol from its listing to its end.
    #[expect(clippy::needless_range_loop, reason = "t names a bar of the calendar in a dozen columns")]
    pub(super) fn bars(&self, synth: &Synth, grid: &Grid, symbol: usize) -> Bars {
        let stream = synth.stream(symbol);
        let scale = Scale::market_scale(synth.kind);
        let [u_beta, u_own, u_price, u_volume] = stream.uniforms(0, 8);
        let beta = 0.6 + 0.9 * u_beta;
        let own = scale.own[0] + (scale.own[1] - scale.own[0]) * u_own;
        let volume = log_uniform(scale.volume, u_volume);
        let sector = &self.sectors[symbol % self.sectors.len()];
        let (from, to) = listing_span(synth, stream, grid.len(), symbol);

        let mut bars = synth.columns(grid, symbol, from, to);
        let ticks = (1.0 / bars.instrument.tick).round();
        let round = |price: f64| (price * ticks).round().max(1.0) / ticks;
        // GARCH(1,1) with mean 1; faster bars remember longer.
        let intraday = !synth.timeframe.is_daily_or_longer();
        let (alpha, persistence) = if intraday { (0.05, 0.94) } else { (0.08, 0.90) };
        let mut heat: f64 = 1.0;
        let mut last = ln(log_uniform(scale.prices, u_price)); // log price at the last close, never rounded
        for t in from..to {
            let [z, z_gap, z1, z2] = stream.normals(t, 0);
            let bits = stream.draw(t, 1);
            let (z3, z_volume, u_jump) = (normal(bits[0]), normal(bits[1]), uniform(bits[2]));
            let regime = self.regimes[grid.day[t] as usize].0;
            let (variance, gap) = (grid.variance[t], grid.gap[t]);

            let shared = beta * regime.correlation() * self.market[t] + sector[t];
            let own_deviation = own * regime.volatility().sqrt() * (heat * variance).sqrt();
            let total = shared + own_deviation * z;
            let common = regime.volatility() * regime.volatility() * variance;
            let deviation = (own_deviation * own_deviation
                + common * (beta * beta * scale.market * scale.market + scale.sector * scale.sector))
                .sqrt();
            heat = (1.0 - alpha - persistence + heat * (alpha * z * z + persistence)).min(25.0);

            // A jump comes with the night's news where there is a night, else somewhere inside the bar; while a market
            // is open news moves it sooner and by less.
            let open_all_bar = intraday && gap == 0.0;
            let (often, large) = if open_all_bar { (4.0, 0.25) } else { (1.0, 1.0) };
            let (jump, jump_at) = if u_jump < often * scale.jumps * variance {
                let [u_size, u_sign, u_at, _] = stream.uniforms(t, 2);
                let size = large * own * (2.0 - 2.5 * ln(u_size));
                let at = if gap > 0.0 { 0 } else { 1 + (u_at * 4.0) as usize };
                (if u_sign < 0.5 { -size } else { size }, at)
            } else {
                (0.0, 0)
            };

            // The path at the open, at three points, at the close.
            let mut path = [0.0; 5];
            let (mut time, mut level) = (0.0, 0.0);
            for (k, z) in [z_gap, z1, z2, z3].into_iter().enumerate() {
                let next = gap + (1.0 - gap) * 0.25 * k as f64;
                let (left, step) = (1.0 - time, next - time);
                level += (total - level) * step / left + deviation * (step * (1.0 - next) / left).sqrt() * z;
                time = next;
                path[k] = level;
            }
            path[4] = total;
            for level in &mut path[jump_at..] {
                *level += jump;
            }

            let prices = path.map(|level| round(exp(last + level)));
            bars.open.push(prices[0]);
            bars.high.push(prices.iter().fold(prices[0], |a, &b| a.max(b)));
            bars.low.push(prices.iter().fold(prices[0], |a, &b| a.min(b)));
            bars.close.push(prices[4]);
            last += path[4];
            let surprise = ((total + jump).abs() / deviation).min(6.0);
            bars.volume.push((volume * grid.busy[t] * exp(0.35 * z_volume + 0.3 * surprise - 0.3)).round().max(1.0));
        }
        bars
    }
}

impl Regime {
    /// Volatility as a multiple of the usual.
    fn volatility(self) -> f64 {
        match self {
            Regime::Calm => 0.75,
            Regime::Trend => 1.0,
            Regime::Crisis => 2.4,
        }
    }

    /// Daily drift as a multiple of the market's daily deviation.
    fn drift(self) -> f64 {
        match self {
            Regime::Calm => 0.05,
            Regime::Trend => 0.12,
            Regime::Crisis => 0.10,
        }
    }

    /// Betas rise when it matters.
    fn correlation(self) -> f64 {
        if self == Regime::Crisis { 1.25 } else { 1.0 }
    }
}

/// `[days]` of regimes, each with the sign of its drift: calm rises, crises fall, a trend keeps the sign it began with.
fn walk_regimes(stream: Stream, days: usize) -> Vec<(Regime, f64)> {
    let mut state = (Regime::Calm, 1.0);
    (0..days)
        .map(|day| {
            let [u, sign, ..] = stream.uniforms(day, 0);
            let sign = if sign < 0.6 { 1.0 } else { -1.0 };
            state = match state.0 {
                Regime::Calm if u < 0.012 => (Regime::Trend, sign),
                Regime::Calm if u < 0.016 => (Regime::Crisis, -1.0),
                Regime::Trend if u < 0.015 => (Regime::Calm, 1.0),
                Regime::Trend if u < 0.025 => (Regime::Crisis, -1.0),
                Regime::Crisis if u < 0.04 => (Regime::Calm, 1.0),
                _ => state,
            };
            state
        })
        .collect()
}

/// The part of the calendar a symbol lives in: 15 % are listed late, 10 % leave early, the first one never does either.
fn listing_span(synth: &Synth, stream: Stream, bars: usize, symbol: usize) -> (usize, usize) {
    let [late, when, leaves, until] = stream.uniforms(0, 9);
    if !synth.ragged || symbol == 0 || bars < 8 {
        return (0, bars);
    }
    let part = |share: f64| (share * bars as f64) as usize;
    let from = if late < 0.15 { part(0.6 * when) } else { 0 };
    let to = if leaves < 0.10 { (from + bars / 4 + part(0.7 * until)).min(bars) } else { bars };
    (from, to)
}

fn log_uniform([low, high]: [f64; 2], u: f64) -> f64 {
    low * exp(u * ln(high / low))
}

fn normal(bits: u32) -> f64 {
    quantile(uniform(bits))
}
