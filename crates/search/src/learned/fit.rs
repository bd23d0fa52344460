//! How the net is fitted: codes that really followed, several steps in a row, by gradient.
//!
//! Training runs over stretches of neighbouring rows. Every row of a stretch is a start: its latent predicts the code
//! behind it, then goes on with that code and the observation that came with it, predicts the next, and so on for
//! [`UNROLL`] steps more. What is minimised is the mean of minus the logarithm of the codes' probabilities.
//!
//! The last fifth of the time says when to stop: the weights are those that did best there. Unless they do better than
//! a net that knows only how frequent codes are, by two standard errors, it is that net which stays: where nothing is
//! to be learned, nothing is.

use super::codes::Codes;
use super::net::{
    CODES, HIDDEN, LATENT, Latent, LatentNet, PartsMut, cut, encode, parts, parts_mut, probabilities, product, squash,
};
use crate::bootstrap::Rows;
use random::SplitMix;

/// Steps behind a start's own.
pub(super) const UNROLL: usize = 3;
/// Starts of a stretch.
const STRETCH: usize = 8;
/// Stretches of a minibatch, and of a round; after each round the net is scored.
const BATCH: usize = 8;
const ROUND: usize = 512;
/// Rounds at most, and rounds without a better score before it ends.
const ROUNDS: usize = 60;
const PATIENCE: usize = 8;
/// Share of the clock times that trains; the rest says when to stop.
const TRAIN_SHARE: f64 = 0.8;
/// Stretches that score, at most.
const SCORED: usize = 256;
/// What a step counts beside the first, all later steps together as much as the first.
const LATER: f32 = 1.0 / UNROLL as f32;
/// Standard errors by which something must have been learned.
const SURE: f64 = 2.0;
const RATE: f64 = 4e-3;
const DECAY: f32 = 1e-2;
const SEED: u64 = 0x1a7e_27c0;

/// Neighbouring starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    from: u32,
    starts: u32,
}

/// Fits a net to the codes of rows.
pub(super) fn fit(rows: &Rows, before: &[u32], codes: &Codes) -> LatentNet {
    let clock = |row: u32| rows.row(row).clock;
    let (first, last) = before.iter().fold((u32::MAX, 0), |(a, b), row| (a.min(clock(*row)), b.max(clock(*row))));
    let end = first + (f64::from(last - first) * TRAIN_SHARE) as u32;
    // A start's last step is known UNROLL + 1 bars later: what scores begins behind that.
    let all = stretches(before, |row| clock(row).saturating_add(UNROLL as u32 + 1) <= end);
    let scored = thinned(&stretches(before, |row| clock(row) > end), SCORED);
    let ignorant = LatentNet::new(rows.features(), &codes.shares(), SEED);
    if all.is_empty() || scored.is_empty() {
        return ignorant;
    }
    let mut teacher = Teacher::new(rows, codes, ignorant.clone());
    let nothing_learned = teacher.losses(&scored);
    let (mut best, mut least, mut gain) = (ignorant.clone(), mean(&nothing_learned).0, (0.0, 0.0));
    let mut random = SplitMix::new(SEED ^ 1);
    let (mut order, mut at, mut since) = (all.clone(), 0, 0);
    shuffle(&mut order, &mut random);
    for round in 0..ROUNDS {
        let rate = RATE * (1.0 - 0.9 * round as f64 / ROUNDS as f64);
        for _ in 0..ROUND.min(all.len()).div_ceil(BATCH) {
            if at + BATCH > order.len() {
                shuffle(&mut order, &mut random);
                at = 0;
            }
            let batch = at..(at + BATCH).min(order.len());
            at = batch.end;
            teacher.descend(&order[batch], rate);
        }
        let losses = teacher.losses(&scored);
        let score = mean(&losses).0;
        since += 1;
        if score < least {
            (least, since) = (score, 0);
            gain = mean(&nothing_learned.iter().zip(&losses).map(|(nothing, own)| nothing - own).collect::<Vec<f64>>());
            best.weights.copy_from_slice(&teacher.net.weights);
        }
        if since >= PATIENCE {
            break;
        }
    }
    if gain.0 > SURE * gain.1 { best } else { ignorant }
}

/// Mean, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0) / n).sqrt())
}

/// Rows that fulfil a condition, in stretches of neighbours.
fn stretches(before: &[u32], belongs: impl Fn(u32) -> bool) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for row in before.iter().copied().filter(|row| belongs(*row)) {
        match all.last_mut() {
            Some(own) if own.from + own.starts == row && own.starts < STRETCH as u32 => own.starts += 1,
            _ => all.push(Stretch { from: row, starts: 1 }),
        }
    }
    all
}

fn thinned(all: &[Stretch], most: usize) -> Vec<Stretch> {
    let count = all.len().min(most);
    (0..count).map(|i| all[i * all.len() / count]).collect()
}

fn shuffle(order: &mut [Stretch], random: &mut SplitMix) {
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
}

/// A net with its optimiser and its scratch memory.
struct Teacher<'a> {
    rows: &'a Rows,
    codes: &'a Codes,
    net: LatentNet,
    gradient: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
    observed: Vec<Observed>, // [STRETCH + UNROLL]
}

/// A row on the way forth and back.
#[derive(Clone, Copy)]
struct Observed {
    hidden: [f32; HIDDEN],
    slopes: [f32; HIDDEN],
    q: Latent,
    /// What the loss changes with `q`.
    dq: Latent,
}

/// A latent of a start.
#[derive(Clone, Copy)]
struct Step {
    z: Latent,
    slopes: Latent,
    /// What the loss changes with the codes' logits.
    dlogits: [f32; CODES],
}

const OBSERVED: Observed =
    Observed { hidden: [0.0; HIDDEN], slopes: [0.0; HIDDEN], q: [0.0; LATENT], dq: [0.0; LATENT] };
const STEP: Step = Step { z: [0.0; LATENT], slopes: [0.0; LATENT], dlogits: [0.0; CODES] };

impl<'a> Teacher<'a> {
    fn new(rows: &'a Rows, codes: &'a Codes, net: LatentNet) -> Teacher<'a> {
        let zeros = || vec![0.0; net.weights.len()];
        Teacher {
            rows,
            codes,
            gradient: zeros(),
            mean: zeros(),
            square: zeros(),
            steps: 0,
            observed: vec![OBSERVED; STRETCH + UNROLL],
            net,
        }
    }

    /// `[stretches]` mean loss of each one's starts.
    fn losses(&mut self, stretches: &[Stretch]) -> Vec<f64> {
        let loss = |stretch: &Stretch| {
            self.encode(*stretch);
            let one = |start: u32| self.forth(stretch.from, start, &mut [STEP; UNROLL + 1]).1;
            (0..stretch.starts).map(one).sum::<f64>() / f64::from(stretch.starts)
        };
        stretches.iter().map(loss).collect()
    }

    /// A step of AdamW against the gradient of a minibatch.
    fn descend(&mut self, batch: &[Stretch], rate: f64) {
        self.gradient.fill(0.0);
        let starts: u32 = batch.iter().map(|stretch| stretch.starts).sum();
        for stretch in batch {
            let rows = self.encode(*stretch);
            for start in 0..stretch.starts {
                let mut steps = [STEP; UNROLL + 1];
                let (count, _) = self.forth(stretch.from, start, &mut steps);
                self.back(stretch.from, start, &steps[..count], 1.0 / starts as f32);
            }
            self.back_to_rows(stretch.from, rows);
        }
        self.steps += 1;
        const BETA: (f32, f32) = (0.9, 0.99);
        let unbiased = |beta: f32| 1.0 / (1.0 - beta.powi(self.steps));
        let (first, second, rate) = (unbiased(BETA.0), unbiased(BETA.1), rate as f32);
        let moments = self.mean.iter_mut().zip(&mut self.square);
        // How frequent codes are does not decay.
        let decaying = self.net.weights.len() - CODES;
        let weights = self.net.weights.iter_mut().zip(&self.gradient).enumerate();
        for ((at, (weight, gradient)), (mean, square)) in weights.zip(moments) {
            *mean = BETA.0 * *mean + (1.0 - BETA.0) * gradient;
            *square = BETA.1 * *square + (1.0 - BETA.1) * gradient * gradient;
            let step = *mean * first / ((*square * second).sqrt() + 1e-8);
            let decay = if at < decaying { DECAY * *weight } else { 0.0 };
            *weight -= rate * (step + decay);
        }
    }

    /// What all rows of a stretch say, and of those that its last starts come to; how many rows.
    fn encode(&mut self, stretch: Stretch) -> usize {
        let parts = parts(self.net.features, &self.net.weights);
        let mut rows = stretch.starts as usize;
        while rows < stretch.starts as usize + UNROLL && self.codes.behind(stretch.from + rows as u32).is_some() {
            rows += 1;
        }
        for (own, row) in self.observed.iter_mut().zip(stretch.from..).take(rows) {
            encode(&parts, self.rows.observation(row), &mut own.hidden, &mut own.slopes, &mut own.q);
            own.dq = [0.0; LATENT];
        }
        rows
    }

    /// The steps of a start: how many, and its loss.
    fn forth(&self, from: u32, start: u32, steps: &mut [Step; UNROLL + 1]) -> (usize, f64) {
        let parts = parts(self.net.features, &self.net.weights);
        let (mut loss, mut count) = (0.0, 0);
        for at in 0..=UNROLL {
            let place = start as usize + at;
            let Some(code) = self.codes.behind(from + place as u32) else { break };
            let mut z = self.observed[place].q;
            if at > 0 {
                product(parts.a, &steps[at - 1].z, &mut z);
                let came = self.codes.behind(from + place as u32 - 1).expect("the step before");
                let push = &parts.u[came * LATENT..(came + 1) * LATENT];
                z.iter_mut().zip(push).for_each(|(z, u)| *z += u);
            }
            let step = &mut steps[at];
            for ((to, slope), q) in step.z.iter_mut().zip(&mut step.slopes).zip(z) {
                (*to, *slope) = squash(q);
            }
            let p = probabilities(&parts, &step.z);
            let weight = if at == 0 { 1.0 } else { LATER };
            loss -= f64::from(weight * p[code].max(1e-9).ln());
            step.dlogits = p.map(|p| weight * p);
            step.dlogits[code] -= weight;
            count += 1;
        }
        (count, loss)
    }

    /// The gradient of a start's steps, the last first.
    fn back(&mut self, from: u32, start: u32, steps: &[Step], share: f32) {
        let own = parts(self.net.features, &self.net.weights);
        let PartsMut { a, u, wo, bo, .. } = parts_mut(self.net.features, &mut self.gradient);
        let mut later: Latent = [0.0; LATENT]; // what the loss changes with the sum of the step behind
        for (at, step) in steps.iter().enumerate().rev() {
            let place = start as usize + at;
            let dlogits = step.dlogits.map(|d| d * share);
            outer(wo, &step.z, &dlogits);
            bo.iter_mut().zip(dlogits).for_each(|(to, d)| *to += d);
            let mut sum: Latent = [0.0; LATENT];
            for (i, (to, slope)) in sum.iter_mut().zip(step.slopes).enumerate() {
                let of_codes = dot(&own.wo[i * CODES..(i + 1) * CODES], &dlogits);
                *to = (of_codes + dot(&own.a[i * LATENT..(i + 1) * LATENT], &later)) * slope;
            }
            // Several starts share a row.
            self.observed[place].dq.iter_mut().zip(sum).for_each(|(to, d)| *to += d);
            if at > 0 {
                outer(a, &steps[at - 1].z, &sum);
                let came = self.codes.behind(from + place as u32 - 1).expect("the step before");
                u[came * LATENT..(came + 1) * LATENT].iter_mut().zip(sum).for_each(|(to, d)| *to += d);
            }
            later = sum;
        }
    }

    /// The gradient of what rows say.
    fn back_to_rows(&mut self, from: u32, rows: usize) {
        let own = parts(self.net.features, &self.net.weights);
        let PartsMut { w1, b1, w2, b2, .. } = parts_mut(self.net.features, &mut self.gradient);
        for (row, observed) in (from..).zip(&self.observed[..rows]) {
            outer(w2, &observed.hidden, &observed.dq);
            b2.iter_mut().zip(observed.dq).for_each(|(to, d)| *to += d);
            let mut dhidden = [0.0; HIDDEN];
            for (i, (to, slope)) in dhidden.iter_mut().zip(observed.slopes).enumerate() {
                *to = dot(&own.w2[i * LATENT..(i + 1) * LATENT], &observed.dq) * slope;
            }
            b1.iter_mut().zip(dhidden).for_each(|(to, d)| *to += d);
            for (row, x) in w1.chunks_exact_mut(HIDDEN).zip(self.rows.observation(row)) {
                let x = cut(*x);
                row.iter_mut().zip(dhidden).for_each(|(to, d)| *to += x * d);
            }
        }
    }
}

/// Adds `x·dᵀ` to `to`, `[inputs, outputs]`.
fn outer<const OUT: usize>(to: &mut [f32], x: &[f32], d: &[f32; OUT]) {
    for (row, x) in to.chunks_exact_mut(OUT).zip(x) {
        row.iter_mut().zip(d).for_each(|(to, d)| *to += x * d);
    }
}

/// A sum of products in lanes, so that it is the same for any width of a processor.
fn dot<const N: usize>(a: &[f32], b: &[f32; N]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to += a * b);
    }
    let halves = [lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6], lanes[3] + lanes[7]];
    (halves[0] + halves[2]) + (halves[1] + halves[3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::TrainingRow;
    use account::Bar;

    /// What the gradient says is what the loss does.
    #[test]
    fn gradients_are_those_of_differences() {
        let mut random = SplitMix::new(2);
        let (mut observations, mut all, mut close) = (Vec::new(), Vec::new(), 100.0);
        for clock in 0..60 {
            close *= 1.0 + 0.02 * (random.unit() - 0.5);
            observations.extend([random.unit() as f32 - 0.5, 2.0 * random.unit() as f32 - 1.0]);
            let bar = Bar { sigma: 0.01, ..Bar::flat(close) };
            all.push(TrainingRow { bar, time: [0.0; 2], clock, continues: clock != 30 });
        }
        let rows = Rows::cut(&observations, 2, &all, |_| true).unwrap();
        let before = rows.predecessors();
        let codes = Codes::new(&rows, &before);
        let mut net = LatentNet::new(2, &codes.shares(), 3);
        // A head that is not zero, so that all gradients are there.
        net.weights.iter_mut().for_each(|w| *w += 0.2 * (random.unit() as f32 - 0.5));
        // A stretch before a gap has fewer steps behind its last starts.
        let batch = [Stretch { from: 3, starts: 8 }, Stretch { from: 25, starts: 5 }, Stretch { from: 40, starts: 3 }];
        let mut teacher = Teacher::new(&rows, &codes, net);
        let weights = teacher.net.weights.clone();
        teacher.descend(&batch, 0.0);
        let gradient = teacher.gradient.clone();
        assert_eq!(teacher.net.weights, weights);
        let ends: Vec<usize> = super::super::net::lengths(2)
            .iter()
            .scan(0, |end, n| {
                *end += n;
                Some(*end)
            })
            .collect();
        for part in 0..ends.len() {
            let from = if part == 0 { 0 } else { ends[part - 1] };
            let largest = (from..ends[part]).max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs())).unwrap();
            for at in [largest, from + (ends[part] - from) / 3] {
                let mut loss = |change: f32| {
                    teacher.net.weights[at] = weights[at] + change;
                    let losses = teacher.losses(&batch).into_iter().zip(&batch);
                    let loss = losses.map(|(loss, own)| loss * f64::from(own.starts)).sum::<f64>() / 16.0;
                    teacher.net.weights[at] = weights[at];
                    loss
                };
                let slope = (loss(1e-2) - loss(-1e-2)) / 2e-2;
                let own = f64::from(gradient[at]);
                assert!((slope - own).abs() < 0.02 * own.abs() + 3e-4, "part {part}, weight {at}: {slope} {own}");
            }
        }
    }
}
