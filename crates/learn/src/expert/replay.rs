//! Recent targets: what searches and accounts found in the last iterations, and how a net learns from it.

use crate::ppo::softmax;
use compute::nets::{Batch, Loss};
use compute::random::Permutation;
use market::OBSERVED;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a net is to say of one decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    pub(super) row: u32,
    pub(super) observed: [f32; OBSERVED],
    /// Legal actions, a bit each.
    pub(super) legal: u8,
    /// The improved policy.
    pub(super) policy: [f32; 3],
    /// What the decision was worth, in units of the market.
    pub(super) value: f32,
}

/// Words of a target in a snapshot.
const WORDS: usize = 2 + OBSERVED + 4;

/// Targets of the last iterations, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Replay {
    targets: VecDeque<Target>,
}

impl Replay {
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Takes an iteration's targets in, and forgets the oldest beyond `most`.
    pub(super) fn add(&mut self, targets: impl IntoIterator<Item = Target>, most: usize) {
        self.targets.extend(targets);
        while self.targets.len() > most {
            self.targets.pop_front();
        }
    }

    /// Bytes of `n` targets in memory, in the order of an epoch too.
    pub(super) fn bytes(n: u64) -> u64 {
        n * (size_of::<Target>() + 4 + 4 * OBSERVED + size_of::<Target>()) as u64
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&(self.targets.len() as u32).to_le_bytes());
        for target in &self.targets {
            let words = [target.row, u32::from(target.legal)].into_iter();
            let floats = target.observed.iter().chain(&target.policy).chain([&target.value]).map(|x| x.to_bits());
            words.chain(floats).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
    }

    /// Reads one back, and what is behind it; none where it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<(Replay, &[u8])> {
        let (count, rest) = bytes.split_at_checked(4)?;
        let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
        let (own, rest) = rest.split_at_checked(count.checked_mul(4 * WORDS)?)?;
        let target = |bytes: &[u8]| {
            let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"));
            let float = |at: usize| f32::from_bits(word(at));
            Target {
                row: word(0),
                legal: word(1) as u8,
                observed: std::array::from_fn(|i| float(2 + i)),
                policy: std::array::from_fn(|i| float(2 + OBSERVED + i)),
                value: float(5 + OBSERVED),
            }
        };
        Some((Replay { targets: own.chunks_exact(4 * WORDS).map(target).collect() }, rest))
    }
}

/// The replays of all members in the order of one epoch, `rows` each: a member that does not go has a place holder
/// again and again, from which it learns nothing.
pub(super) struct Epoch {
    rows: usize,
    batch: usize,
    ids: Vec<u32>,
    observed: Vec<f32>,
    targets: Vec<Target>,
}

impl Epoch {
    /// `[members]` replays with their orders, and whether they go; all that go are equally long.
    ///
    /// # Panics
    ///
    /// Where one that goes has fewer targets than another.
    pub(super) fn new(replays: &[(&Replay, Permutation, bool)], batch: usize, anywhere: u32) -> Epoch {
        let rows = replays.iter().filter(|(.., goes)| *goes).map(|(replay, ..)| replay.len()).max().unwrap_or(0);
        let none = Target { row: anywhere, observed: [0.0; OBSERVED], legal: 7, policy: [0.0, 1.0, 0.0], value: 0.0 };
        let mut targets = Vec::with_capacity(replays.len() * rows);
        let mut order = vec![0u32; rows];
        for (replay, permutation, goes) in replays {
            if *goes {
                assert_eq!(replay.len(), rows, "replays of members that go together are equally long");
                permutation.fill(0, &mut order);
                targets.extend(order.iter().map(|at| replay.targets[*at as usize]));
            } else {
                targets.extend(std::iter::repeat_n(none, rows));
            }
        }
        Epoch {
            rows,
            batch,
            ids: targets.iter().map(|target| target.row).collect(),
            observed: targets.iter().flat_map(|target| target.observed).collect(),
            targets,
        }
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { rows: self.rows, ids: &self.ids, extras: &self.observed }
    }
}

/// Sums over the rows of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) rows: f64,
    pub(super) policy: f64,
    pub(super) value: f64,
    pub(super) entropy: f64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Sums) {
        self.rows += other.rows;
        self.policy += other.policy;
        self.value += other.value;
        self.entropy += other.entropy;
    }
}

/// What a member did in an epoch.
#[derive(Default)]
pub(super) struct Descent {
    /// Of the minibatch under way: where its pieces begin, and their sums.
    pieces: Vec<(usize, Sums)>,
    pub(super) sums: Sums,
    pub(super) steps: u32,
    pub(super) norm: Option<f32>,
}

/// Cross-entropy to the improved policy and half the squared error of the value, in the mean over a minibatch.
pub(super) struct TargetLoss<'a> {
    pub(super) epoch: &'a Epoch,
    pub(super) value_weight: f32,
    pub(super) descents: &'a [Mutex<Descent>],
}

impl TargetLoss<'_> {
    fn descent(&self, member: usize) -> MutexGuard<'_, Descent> {
        self.descents[member].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loss for TargetLoss<'_> {
    fn losses(&self, member: usize, minibatch: usize, rows: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]) {
        let Epoch { rows: all, batch, targets, .. } = self.epoch;
        let first = minibatch * batch;
        let share = 1.0 / (*batch).min(all - first) as f32;
        let own = &targets[member * all + first + rows.start..member * all + first + rows.end];
        let mut sums = Sums { rows: own.len() as f64, ..Sums::default() };
        let (d_policy, d_value) = d_out.split_at_mut(1);
        let policies = own.iter().zip(out[0].chunks_exact(3)).zip(d_policy[0].chunks_exact_mut(3));
        for ((target, z), d) in policies {
            let (p, log) = softmax(z, target.legal);
            for a in 0..3 {
                d[a] = share * (p[a] - target.policy[a]);
                sums.policy -= f64::from(target.policy[a] * log[a]);
                sums.entropy -= f64::from(p[a] * log[a]);
            }
        }
        for ((target, value), d) in own.iter().zip(&out[1]).zip(&mut d_value[0]) {
            let error = value - target.value;
            // Of large errors only the sign counts: a single jump of the market must not move the net far.
            *d = share * self.value_weight * error.clamp(-LARGE, LARGE);
            sums.value += 0.5 * f64::from(error) * f64::from(error);
        }
        self.descent(member).pieces.push((rows.start, sums));
    }

    fn goes(&self, member: usize, _: usize) -> bool {
        let mut descent = self.descent(member);
        // Pieces come in any order, and are added in one.
        descent.pieces.sort_unstable_by_key(|piece| piece.0);
        let mut sums = Sums::default();
        descent.pieces.drain(..).for_each(|piece| sums.add(&piece.1));
        descent.sums.add(&sums);
        true
    }

    fn stepped(&self, member: usize, _: usize, norm: f32) -> bool {
        let mut descent = self.descent(member);
        descent.steps += 1;
        descent.norm = Some(norm);
        norm.is_finite()
    }
}

/// An error of a value from which on only its sign counts, in deviations of a bar's move.
const LARGE: f32 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(row: u32) -> Target {
        let value = row as f32 * 0.5;
        Target { row, observed: [value; OBSERVED], legal: 5, policy: [0.25, 0.0, 0.75], value }
    }

    #[test]
    fn the_oldest_is_forgotten_and_bytes_come_back() {
        let mut replay = Replay::default();
        replay.add((0..7).map(target), 10);
        replay.add((7..14).map(target), 10);
        assert_eq!((replay.len(), replay.targets[0].row, replay.targets[9].row), (10, 4, 13));
        let mut bytes = Vec::new();
        replay.write(&mut bytes);
        bytes.extend([1, 2]);
        let (read, rest) = Replay::read(&bytes).unwrap();
        assert_eq!((read, rest), (replay, &[1u8, 2][..]));
        assert!(Replay::read(&bytes[..20]).is_none());
    }

    #[test]
    #[should_panic(expected = "equally long")]
    fn no_member_that_goes_learns_from_a_place_holder() {
        let [mut long, mut short] = [Replay::default(), Replay::default()];
        long.add((0..3).map(target), 3);
        short.add((0..2).map(target), 3);
        let order = |n| Permutation::new(n, 1, 0, 0);
        let idle = Epoch::new(&[(&long, order(3), true), (&short, order(2), false)], 2, 0);
        assert_eq!(idle.rows, 3, "who does not go may be shorter");
        Epoch::new(&[(&long, order(3), true), (&short, order(2), true)], 2, 0);
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let mut replay = Replay::default();
        replay.add((0..3).map(target), 3);
        let epoch = Epoch::new(&[(&replay, Permutation::new(3, 1, 0, 0), true)], 2, 0);
        let loss_of = |z: &[f32], v: f32, target: &Target| {
            let (_, log) = softmax(z, target.legal);
            let cross: f32 = (0..3).map(|a| -target.policy[a] * log[a]).sum();
            (cross + 0.5 * 0.25 * (v - target.value) * (v - target.value)) / 2.0
        };
        let descents = [Mutex::default()];
        let loss = TargetLoss { epoch: &epoch, value_weight: 0.25, descents: &descents };
        let out = [vec![0.3, -0.4, 0.1, 0.9, 0.2, -0.5], vec![0.7, -0.2]];
        let mut d = [vec![0.0; 6], vec![0.0; 2]];
        loss.losses(0, 0, 0..2, &out, &mut d);
        for row in 0..2 {
            let (z, target) = (&out[0][row * 3..row * 3 + 3], &epoch.targets[row]);
            for a in [0, 2] {
                let mut moved = z.to_vec();
                moved[a] += 1e-2;
                let slope = (loss_of(&moved, out[1][row], target) - loss_of(z, out[1][row], target)) / 1e-2;
                assert!((slope - d[0][row * 3 + a]).abs() < 5e-3, "{slope} {}", d[0][row * 3 + a]);
            }
            assert_eq!(d[0][row * 3 + 1], 0.0, "what is not legal is not moved");
            let expected = 0.25 * (out[1][row] - target.value) / 2.0;
            assert!((d[1][row] - expected).abs() < 1e-6);
        }
    }
}
