//! Many minibatches in one call: against passes one by one, and with the same bits on any number of threads.

use super::tests::{World, bits, near};
use super::{Batch, Hyper, Loss};
use crate::device::Opened;
use crate::population::Precision;
use std::ops::Range;
use std::sync::Mutex;

/// Half the squared distance to a number of each row, in the mean; member 1 stops before its third minibatch.
struct Quadratic {
    rows: usize,
    all: usize,
    /// `[calls]` member, minibatch and first row of each piece.
    pieces: Mutex<Vec<(usize, usize, usize)>>,
    norms: Mutex<Norms>,
}

impl Quadratic {
    fn wanted(member: usize, row: usize) -> f32 {
        ((member * 31 + row * 7) % 11) as f32 / 11.0
    }
}

impl Loss for Quadratic {
    fn losses(&self, member: usize, minibatch: usize, rows: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]) {
        let n = self.rows.min(self.all - minibatch * self.rows) as f32;
        for (out, d_out) in out.iter().zip(d_out) {
            let each = out.len() / rows.len();
            for (i, (z, d)) in out.iter().zip(d_out).enumerate() {
                *d = (z - Quadratic::wanted(member, minibatch * self.rows + rows.start + i / each)) / n;
            }
        }
        self.pieces.lock().unwrap().push((member, minibatch, rows.start));
    }

    fn goes(&self, member: usize, minibatch: usize) -> bool {
        (member, minibatch) != (1, 2)
    }

    fn stepped(&self, member: usize, minibatch: usize, norm: f32) -> bool {
        self.norms.lock().unwrap().push((member, minibatch, norm));
        true
    }
}

/// Member, minibatch and norm of each step.
type Norms = Vec<(usize, usize, f32)>;

/// Parameters of all members after three epochs, and the norms of their steps; in one call for each epoch, or by
/// passes.
fn descended(world: &World, threads: usize, rows: usize, passes: bool) -> (Vec<Vec<f32>>, Norms) {
    let device = Opened::Cpu { threads };
    let mut nets = world.nets(&device, Precision::F32);
    let hypers = [Hyper { clip: Some(0.5), ..Hyper::default() }; 3];
    let batch: Batch<'_> = world.batch();
    let (pieces, norms) = (Mutex::default(), Mutex::default());
    let loss = Quadratic { rows, all: world.rows, pieces, norms };
    for epoch in 0..3 {
        // The last member stands still at first.
        let mask = [true, true, epoch > 0];
        if passes {
            nets.descend_by_passes(batch, rows, &hypers, &mask, &loss).unwrap();
        } else {
            nets.descend(batch, rows, &hypers, &mask, &loss).unwrap();
        }
    }
    let mut norms = loss.norms.into_inner().unwrap();
    norms.sort_by_key(|(member, ..)| *member);
    let steps: Vec<u32> = (0..3).map(|i| nets.optimiser(i).unwrap().2).collect();
    let each = world.rows.div_ceil(rows) as u32;
    assert_eq!(steps, [3 * each, 3 * 2.min(each), 2 * each]);
    ((0..3).map(|i| nets.params(i).unwrap()).collect(), norms)
}

const NARROW: &str = "fast:5x3-12t + slow:7 + account:dense3 / 20-9t | (slow account) 16 / policy:5 + size:2 | value:1";
const WIDE: &str = "slow:7 + account:dense3 / 640-512t | 16 / policy:3 | value:1";

#[test]
fn minibatches_in_one_call_are_those_of_passes() {
    for (net, all, rows) in [(NARROW, 700, 200), (NARROW, 60, 60), (WIDE, 150, 40)] {
        let world = World::new(net, 3, all);
        let (params, norms) = descended(&world, 1, rows, false);
        let (wanted, wanted_norms) = descended(&world, 2, rows, true);
        assert_eq!(norms.len(), wanted_norms.len(), "{net}");
        for (i, (got, wanted)) in params.iter().zip(&wanted).enumerate() {
            near(&format!("member {i} of {net}"), got, wanted, 1e-5);
        }
        for threads in [2, 5] {
            let (again, norms_again) = descended(&world, threads, rows, false);
            assert_eq!(norms_again, norms, "{net}: {threads} threads");
            again.iter().zip(&params).for_each(|(a, b)| assert_eq!(bits(a), bits(b), "{net}: {threads} threads"));
        }
    }
}

#[test]
fn pieces_depend_on_the_minibatch_alone() {
    let world = World::new(NARROW, 3, 700);
    let seen = |threads: usize| {
        let mut nets = world.nets(&Opened::Cpu { threads }, Precision::F32);
        let (pieces, norms) = (Mutex::default(), Mutex::default());
        let loss = Quadratic { rows: 300, all: 700, pieces, norms };
        nets.descend(world.batch(), 300, &[Hyper::default(); 3], &[true; 3], &loss).unwrap();
        let mut pieces = loss.pieces.into_inner().unwrap();
        pieces.sort_unstable();
        pieces
    };
    let one = seen(1);
    assert!(one.len() > 9, "{one:?}");
    assert_eq!(seen(5), one);
}

#[test]
fn what_cannot_be_descended_is_refused() {
    let world = World::new(NARROW, 3, 50);
    let mut nets = world.nets(&Opened::Cpu { threads: 1 }, Precision::F32);
    let (pieces, norms) = (Mutex::default(), Mutex::default());
    let loss = Quadratic { rows: 50, all: 50, pieces, norms };
    for (rows, hypers, mask) in [(0, 3, 3), (51, 3, 3), (50, 2, 3), (50, 3, 2)] {
        let (hypers, mask) = (vec![Hyper::default(); hypers], vec![true; mask]);
        let why = nets.descend(world.batch(), rows, &hypers, &mask, &loss).unwrap_err().to_string();
        assert!(why.contains("minibatches of"), "{why}");
    }
}
