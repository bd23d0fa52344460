//! The learned model's net: observation → encoding → latent → probabilities of codes, in plain arithmetic.
//!
//! `q = W2·f(W1·x + b1) + b2` is what an observation says, `z = f(q)` the latent at a root, and behind a code
//! `z' = f(q' + A·z + U[code])`, where `q'` belongs to the observation that came with the code. Probabilities are a
//! softmax of `Wo·z + bo`. Matrices lie as `[inputs, outputs]`, so that inner loops run along outputs.
//!
//! `f(x) = x (27 + x²) / (27 + 9x²)`, cut at ±3, where it is ±1 with slope 0: close to the hyperbolic tangent, and made
//! of operations that have the same bits on every machine.

use random::SplitMix;

pub(super) const HIDDEN: usize = 32;
pub(super) const LATENT: usize = 16;
/// Codes, at most.
pub(super) const CODES: usize = 16;
/// Observations are cut at so many deviations: one wild number must not push all units to their ends.
const MOST: f32 = 6.0;

pub(super) type Latent = [f32; LATENT];

/// Weights in one array, in the order of [`Parts`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LatentNet {
    pub(super) features: usize,
    pub(super) weights: Vec<f32>,
}

/// The arrays of weights.
pub(super) struct Parts<'a> {
    pub(super) w1: &'a [f32], // [features, HIDDEN]
    pub(super) b1: &'a [f32], // [HIDDEN]
    pub(super) w2: &'a [f32], // [HIDDEN, LATENT]
    pub(super) b2: &'a [f32], // [LATENT]
    pub(super) a: &'a [f32],  // [LATENT, LATENT]
    pub(super) u: &'a [f32],  // [CODES, LATENT]
    pub(super) wo: &'a [f32], // [LATENT, CODES]
    pub(super) bo: &'a [f32], // [CODES]
}

/// The same, to be written.
pub(super) struct PartsMut<'a> {
    pub(super) w1: &'a mut [f32],
    pub(super) b1: &'a mut [f32],
    pub(super) w2: &'a mut [f32],
    pub(super) b2: &'a mut [f32],
    pub(super) a: &'a mut [f32],
    pub(super) u: &'a mut [f32],
    pub(super) wo: &'a mut [f32],
    pub(super) bo: &'a mut [f32],
}

/// Lengths of the arrays.
pub(super) fn lengths(features: usize) -> [usize; 8] {
    [features * HIDDEN, HIDDEN, HIDDEN * LATENT, LATENT, LATENT * LATENT, CODES * LATENT, LATENT * CODES, CODES]
}

pub(super) fn weights_of(features: usize) -> usize {
    lengths(features).iter().sum()
}

pub(super) fn parts(features: usize, mut weights: &[f32]) -> Parts<'_> {
    let mut next = |length: usize| {
        let (own, rest) = weights.split_at(length);
        weights = rest;
        own
    };
    let [w1, b1, w2, b2, a, u, wo, bo] = lengths(features).map(&mut next);
    Parts { w1, b1, w2, b2, a, u, wo, bo }
}

pub(super) fn parts_mut(features: usize, mut weights: &mut [f32]) -> PartsMut<'_> {
    let mut next = |length: usize| {
        let (own, rest) = std::mem::take(&mut weights).split_at_mut(length);
        weights = rest;
        own
    };
    let [w1, b1, w2, b2, a, u, wo, bo] = lengths(features).map(&mut next);
    PartsMut { w1, b1, w2, b2, a, u, wo, bo }
}

impl LatentNet {
    /// Weights to begin with: the first say nothing of codes but how frequent each is.
    pub(super) fn new(features: usize, shares: &[f64], seed: u64) -> LatentNet {
        let mut random = SplitMix::new(seed);
        let mut weights = vec![0.0; weights_of(features)];
        let parts = parts_mut(features, &mut weights);
        let mut fill = |to: &mut [f32], scale: f64| {
            to.iter_mut().for_each(|w| *w = ((2.0 * random.unit() - 1.0) * scale) as f32);
        };
        fill(parts.w1, (3.0 / features as f64).sqrt());
        fill(parts.b1, 0.5);
        fill(parts.w2, (3.0 / HIDDEN as f64).sqrt());
        fill(parts.a, 0.5 * (3.0 / LATENT as f64).sqrt());
        parts.bo.fill(UNUSED);
        parts.bo.iter_mut().zip(shares).for_each(|(to, share)| *to = share.max(1e-6).ln() as f32);
        LatentNet { features, weights }
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        parts(self.features, &self.weights)
    }

    /// What an observation says, before `f`.
    pub(super) fn encode(&self, observation: &[f32]) -> Latent {
        let parts = self.parts();
        let (mut hidden, mut q) = ([0.0; HIDDEN], [0.0; LATENT]);
        encode(&parts, observation, &mut hidden, &mut [0.0; HIDDEN], &mut q);
        q
    }

    /// What a latent carries into the one behind it, before the code is known.
    pub(super) fn carry(&self, z: &Latent) -> Latent {
        let mut carried = [0.0; LATENT];
        product(self.parts().a, z, &mut carried);
        carried
    }

    /// Probabilities of codes.
    pub(super) fn probabilities(&self, z: &Latent) -> [f32; CODES] {
        probabilities(&self.parts(), z)
    }
}

/// The logit of a code that does not exist.
const UNUSED: f32 = -1e9;

/// `q` of an observation; `hidden` and its slopes are kept for the way back.
pub(super) fn encode(
    parts: &Parts<'_>,
    observation: &[f32],
    hidden: &mut [f32; HIDDEN],
    slopes: &mut [f32; HIDDEN],
    q: &mut Latent,
) {
    hidden.copy_from_slice(parts.b1);
    for (row, x) in parts.w1.chunks_exact(HIDDEN).zip(observation) {
        let x = cut(*x);
        hidden.iter_mut().zip(row).for_each(|(to, w)| *to += x * w);
    }
    for (h, slope) in hidden.iter_mut().zip(slopes) {
        (*h, *slope) = squash(*h);
    }
    q.copy_from_slice(parts.b2);
    product(parts.w2, hidden, q);
}

/// What is read of an observation's number.
pub(super) fn cut(x: f32) -> f32 {
    if x.is_finite() { x.clamp(-MOST, MOST) } else { 0.0 }
}

/// Softmax of the codes' logits.
pub(super) fn probabilities(parts: &Parts<'_>, z: &Latent) -> [f32; CODES] {
    let mut p = [0.0; CODES];
    p.copy_from_slice(parts.bo);
    product(parts.wo, z, &mut p);
    let most = p.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    p.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f32 = p.iter().sum();
    p.iter_mut().for_each(|x| *x /= sum);
    p
}

/// Adds `xᵀ·w` to `to`; `w` is `[inputs, OUT]`.
pub(super) fn product<const OUT: usize>(w: &[f32], x: &[f32], to: &mut [f32; OUT]) {
    for (row, x) in w.chunks_exact(OUT).zip(x) {
        to.iter_mut().zip(row).for_each(|(to, w)| *to += x * w);
    }
}

/// `f` and its slope.
#[inline]
pub(super) fn squash(x: f32) -> (f32, f32) {
    let x = x.clamp(-3.0, 3.0);
    let u = x * x;
    let below = 1.0 / (3.0 + u);
    let root = (9.0 - u) * below * (1.0 / 3.0);
    (x * (27.0 + u) * below * (1.0 / 9.0), root * root)
}

/// `f` of all.
pub(super) fn squashed(mut q: Latent) -> Latent {
    q.iter_mut().for_each(|x| *x = squash(*x).0);
    q
}
