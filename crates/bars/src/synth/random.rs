//! Random numbers by counter, equal to the bit on every platform.
//!
//! Words are those of Philox. Normals by inversion ([`random::normal`]); a draw has 32 bits, so a normal stays within
//! 6.3.

use random::normal::quantile;
use random::philox;

/// One stream of draws; a draw is named by its step and index and can be asked for in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    seed: u64,
    id: u32,
}

impl Stream {
    pub(super) fn new(seed: u64, id: u32) -> Stream {
        Stream { seed, id }
    }

    /// Four 32-bit draws.
    pub(super) fn draw(&self, step: usize, index: u32) -> [u32; 4] {
        philox(self.seed, [step as u32, (step as u64 >> 32) as u32, index, self.id])
    }

    /// Four draws from (0, 1).
    pub(super) fn uniforms(&self, step: usize, index: u32) -> [f64; 4] {
        self.draw(step, index).map(uniform)
    }

    /// Four draws from N(0, 1).
    pub(super) fn normals(&self, step: usize, index: u32) -> [f64; 4] {
        self.draw(step, index).map(|bits| quantile(uniform(bits)))
    }
}

/// The middle of one of 2³² equal parts of (0, 1).
pub(super) fn uniform(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) * (1.0 / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_normal_moments() {
        let stream = Stream::new(7, 3);
        let n = 100_000;
        let (mut m1, mut m2, mut m4, mut lag) = (0.0, 0.0, 0.0, 0.0);
        for step in 0..n {
            for z in stream.normals(step, 0) {
                (m1, m2, m4) = (m1 + z, m2 + z * z, m4 + z * z * z * z);
            }
            lag += stream.normals(step, 0)[0] * stream.normals(step + 1, 0)[0];
        }
        assert!(quantile(uniform(0)) > -6.4 && quantile(uniform(u32::MAX)) < 6.4);
        let count = 4.0 * n as f64;
        assert!((m1 / count).abs() < 0.006 && (m2 / count - 1.0).abs() < 0.01 && (m4 / count - 3.0).abs() < 0.06);
        assert!((lag / n as f64).abs() < 0.012);
    }
}
