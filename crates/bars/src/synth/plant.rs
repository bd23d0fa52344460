//! The plant: a signal of known strength, and the best that can be earned from it (docs/method.md, Leak tests: power).
//!
//! `r(open t+1 → open t+2) = μ·x_t + σ·ε`, with `x_t = ±1` a Markov chain that stays with probability ρ, published at
//! close t as the extra column `plant`. σ is constant, `open(t+1) = close(t)`, there are no jumps, no regimes, and no
//! rounding of prices.
//!
//! A trader who decides at close t fills at open t+1, so the signal arrives just in time; a bar of delay leaves `2ρ -
//! 1` of it.

use super::Synth;
use super::calendar::Grid;
use crate::Bars;
use random::normal::{exp, ln, quantile};
use std::fmt;

/// A signal in the extra column `plant`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plant {
    /// How often the signal's sign is the sign of the return it speaks of, Φ(μ/σ); 0.8 is "20 % noise".
    pub accuracy: f64,
    /// ρ, the probability that the signal stays as it is from one bar to the next.
    pub stay: f64,
    /// Cost of one side in bp of what is traded; becomes the instrument's fee.
    pub cost_bp: f64,
    /// σ, the noise of one bar's return in bp.
    pub sigma_bp: f64,
}

impl Default for Plant {
    fn default() -> Plant {
        Plant { accuracy: 0.8, stay: 0.9, cost_bp: 5.0, sigma_bp: 20.0 }
    }
}

/// The plant's figures, per bar and as fractions of the notional (0.001 is 10 bp).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimum {
    /// μ, the mean return in the signal's direction.
    pub mu: f64,
    /// σ.
    pub sigma: f64,
    /// ρ.
    pub stay: f64,
    /// Cost of one side.
    pub cost: f64,
    /// V* = max(0, μ - 2c(1-ρ)): the best mean net return of positions -1, 0, 1 of fixed notional.
    pub value: f64,
    /// μ - 2c(1-ρ): what always holding the signal earns, also where that is less than nothing.
    pub always_in: f64,
    /// Mean growth of log equity when `always_in` compounds: less (σ² + μ²)/2, to second order.
    pub log_growth: f64,
    /// Φ(μ/σ): the best share of directions of open t+1 → t+2 that can be told at close t.
    pub accuracy: f64,
    /// 2Φ(μ/σ) - 1: the best Matthews correlation of the same two-class label.
    pub mcc: f64,
}

impl Plant {
    /// Says which setting is wrong, if one is.
    pub fn check(&self) -> Result<(), String> {
        for (name, value, low, high) in [
            ("accuracy", self.accuracy, 0.5, 0.9999),
            ("stay", self.stay, 0.0, 1.0),
            ("cost_bp", self.cost_bp, 0.0, 10_000.0),
            ("sigma_bp", self.sigma_bp, 0.001, 800.0),
        ] {
            if !(low..=high).contains(&value) {
                return Err(format!("plant.{name}: {value} must be from {low} to {high}"));
            }
        }
        Ok(())
    }

    /// What can be earned from it, in closed form.
    pub fn optimum(&self) -> Optimum {
        let (sigma, cost) = (self.sigma_bp * 1e-4, self.cost_bp * 1e-4);
        let mu = sigma * quantile(self.accuracy);
        let always_in = mu - 2.0 * cost * (1.0 - self.stay);
        Optimum {
            mu,
            sigma,
            stay: self.stay,
            cost,
            value: always_in.max(0.0),
            always_in,
            log_growth: always_in - 0.5 * (sigma * sigma + mu * mu),
            accuracy: self.accuracy,
            mcc: 2.0 * self.accuracy - 1.0,
        }
    }

    /// One symbol with a chain of its own, over the whole calendar.
    pub(super) fn bars(&self, synth: &Synth, grid: &Grid, symbol: usize) -> Bars {
        let Optimum { mu, sigma, stay, .. } = self.optimum();
        let stream = synth.stream(symbol);
        let [u_first, u_price, u_volume, _] = stream.uniforms(0, 8);
        let mut bars = synth.columns(grid, symbol, 0, grid.len());
        let mut plant = Vec::with_capacity(grid.len());
        let mut price = 5.0 * exp(u_price * ln(100.0));
        let volume = 1e5 * exp(u_volume * ln(200.0));
        let mut signal = if u_first < 0.5 { -1.0 } else { 1.0 }; // x of the bar before
        for t in 0..grid.len() {
            let [noise, z1, z2, z3] = stream.normals(t, 0);
            let [u_stay, ..] = stream.uniforms(t, 1);
            let [z_volume, ..] = stream.normals(t, 3);
            // Bar t runs from open t to open t+1: the signal of bar t-1 speaks of it.
            let total = mu * signal + sigma * noise;
            let open = price;
            let close = open * (1.0 + total);
            let (mut high, mut low) = (open.max(close), open.min(close));
            let mut level = 0.0;
            for (k, z) in [z1, z2, z3].into_iter().enumerate() {
                let left = 4.0 - k as f64; // quarters of the bar
                level += (total - level) / left + sigma * (0.25 * (left - 1.0) / left).sqrt() * z;
                let inside = open * (1.0 + level.max(-0.99));
                (high, low) = (high.max(inside), low.min(inside));
            }
            if u_stay >= stay {
                signal = -signal;
            }
            bars.open.push(open);
            bars.high.push(high);
            bars.low.push(low);
            bars.close.push(close);
            bars.volume
                .push((volume * grid.busy[t] * exp(0.35 * z_volume + 0.3 * noise.abs().min(6.0))).round().max(1.0));
            plant.push(signal);
            price = close;
        }
        bars.extras.push(("plant".to_string(), plant));
        bars
    }
}

impl fmt::Display for Optimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bp = |x: f64| x * 1e4;
        writeln!(
            f,
            "mu {:.3} bp, sigma {:.3} bp per bar; the signal persists with probability {:.3}",
            bp(self.mu),
            bp(self.sigma),
            self.stay
        )?;
        writeln!(f, "cost {:.3} bp per side", bp(self.cost))?;
        writeln!(f, "best net value {:.3} bp per bar of fixed notional", bp(self.value))?;
        writeln!(
            f,
            "always in the market {:.3} bp per bar, log growth {:.3} bp",
            bp(self.always_in),
            bp(self.log_growth)
        )?;
        write!(f, "best accuracy {:.4}, best two-class MCC {:.4}", self.accuracy, self.mcc)
    }
}
