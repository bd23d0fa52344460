//! Validation: a policy that takes what it prefers walks through pieces of the span side by side, each from flat and
//! closed at cost.

use super::Actions;
use super::collect::greedy;
use account::{Accounts, Orders, Params};
use compute::nets::{Forward, Rows, Stepper};
use compute::population::{Precision, Scale};
use compute::{Net, Result, Tables};
use market::{EpisodeData, OBSERVED};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Pieces that a span is cut into, about.
const PIECES: usize = 64;
/// A piece has at least so many rows, where its stretch has.
const SHORTEST: usize = 64;

/// Stretches cut into pieces of about one length; each has at least three rows: one to decide at, one to close at, and
/// the close behind it.
pub(crate) fn pieces(stretches: &[Range<u32>]) -> Vec<Range<u32>> {
    let all: usize = stretches.iter().map(ExactSizeIterator::len).sum();
    let longest = all.div_ceil(PIECES).max(SHORTEST);
    let cut = |stretch: &Range<u32>| {
        let parts = stretch.len().div_ceil(longest) as u32;
        let (from, rows) = (stretch.start, stretch.len() as u32);
        (0..parts).map(move |part| from + rows * part / parts..from + rows * (part + 1) / parts)
    };
    stretches.iter().flat_map(cut).filter(|piece| piece.len() >= 3).collect()
}

/// Accounts on pieces, some of them or all.
pub(crate) struct Walk {
    data: Arc<EpisodeData>,
    pieces: Vec<Range<u32>>,
    params: Vec<Params>,
    accounts: Accounts,
    rows: Vec<u32>,
    observed: Vec<f32>,
    targets: Vec<f64>,
    /// `[n]` equity at the end of those that are there.
    ended: Vec<Option<f64>>,
}

impl Walk {
    pub(crate) fn new(data: &Arc<EpisodeData>, pieces: &[Range<u32>]) -> Walk {
        let params: Vec<Params> = pieces.iter().map(|piece| *data.params(piece.start)).collect();
        let mut walk = Walk {
            data: Arc::clone(data),
            accounts: Accounts::new(&params),
            rows: pieces.iter().map(|piece| piece.start).collect(),
            observed: vec![0.0; pieces.len() * OBSERVED],
            targets: vec![0.0; pieces.len()],
            ended: vec![None; pieces.len()],
            pieces: pieces.to_vec(),
            params,
        };
        (0..pieces.len()).for_each(|i| walk.show(i));
        walk
    }

    /// Steps of the longest piece.
    pub(crate) fn steps(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len() - 1).max().unwrap_or(0)
    }

    /// What is shown now: rows and observations.
    pub(crate) fn view(&self) -> (&[u32], &[f32]) {
        (&self.rows, &self.observed)
    }

    fn show(&mut self, i: usize) {
        let shown = self.data.observe(&self.params[i], &self.accounts.holding(i), self.rows[i] as usize);
        self.observed[i * OBSERVED..(i + 1) * OBSERVED].copy_from_slice(&shown);
    }

    /// Takes what the outputs `[n, heads]` prefer; those of the policy come first.
    pub(crate) fn step(&mut self, actions: Actions, out: &[f32]) {
        let wide = out.len() / self.rows.len();
        for (i, z) in out.chunks_exact(wide).enumerate() {
            let legal = self.data.legal(&self.params[i], self.rows[i] as usize);
            let legal = legal.iter().enumerate().fold(0, |bits, (a, legal)| bits | u8::from(*legal) << a);
            // The last decision closes.
            let closes = self.rows[i] + 2 >= self.pieces[i].end;
            self.targets[i] = if closes { 0.0 } else { greedy(actions, &z[..actions.outputs()], legal) };
        }
        self.accounts.step_each(Orders::targets(&self.targets), &self.data.table().bars, &self.rows);
        for i in 0..self.rows.len() {
            // Who is at the end stays there; what happens to it no longer counts.
            if self.rows[i] + 2 < self.pieces[i].end {
                self.rows[i] += 1;
                self.show(i);
            } else if self.ended[i].is_none() {
                self.ended[i] = Some(self.accounts.holding(i).equity);
            }
        }
    }

    /// `[n]` logarithm of what each piece made of its capital, and its steps.
    pub(crate) fn growth(&self) -> Vec<(f64, usize)> {
        let each = self.ended.iter().zip(&self.params).zip(&self.pieces);
        // Ruin counts as the loss of all but a ten-thousandth.
        let growth = |((equity, params), piece): ((&Option<f64>, &Params), &Range<u32>)| {
            ((equity.unwrap_or(params.capital) / params.capital).max(1e-4).ln(), piece.len() - 1)
        };
        each.map(growth).collect()
    }
}

/// Whose validation it is: a net, its weights and what it reads.
#[derive(Clone, Copy)]
pub(crate) struct Walker<'a> {
    pub(crate) net: &'a Net,
    pub(crate) params: &'a [f32],
    pub(crate) precision: Precision,
    pub(crate) tables: &'a Tables,
    pub(crate) scales: &'a [Option<Scale>],
    pub(crate) actions: Actions,
}

/// `[pieces]` what a policy makes of them on a processor, and their steps; on the threads of the pool that it runs in.
pub(crate) fn walk_pieces(
    walker: Walker<'_>,
    data: &Arc<EpisodeData>,
    pieces: &[Range<u32>],
) -> Result<Vec<(f64, usize)>> {
    let Walker { net, params, precision, tables, scales, actions } = walker;
    let wide: usize = net.heads.iter().map(|head| head.classes).sum();
    // Pieces that are as long as each other end together.
    let parts: Vec<_> = pieces.chunks(pieces.len().div_ceil(8).max(8)).collect();
    let packed = (!net.has_memory()).then(|| Forward::new(net, precision, 1)?.pack(params)).transpose()?;
    let part = |pieces: &&[Range<u32>]| -> Result<Vec<(f64, usize)>> {
        let mut walk = Walk::new(data, pieces);
        let mut out = vec![0.0; pieces.len() * wide];
        if net.has_memory() {
            let mut net = Stepper::new(net, precision, pieces.len())?;
            net.take(params)?;
            let mut states = vec![0.0; pieces.len() * net.state()];
            for _ in 0..walk.steps() {
                let (ids, extras) = walk.view();
                net.step(Rows { tables, scales, ids, extras }, &mut states, &mut out)?;
                walk.step(actions, &out);
            }
            return Ok(walk.growth());
        }
        let mut pass = Forward::new(net, precision, pieces.len())?;
        let Some(packed) = &packed else { return Ok(Vec::new()) };
        let mut ready = pass.with_packed(packed)?;
        for _ in 0..walk.steps() {
            let (ids, extras) = walk.view();
            ready.run(Rows { tables, scales, ids, extras }, &mut out)?;
            walk.step(actions, &out);
        }
        Ok(walk.growth())
    };
    Ok(parts.par_iter().map(part).collect::<Result<Vec<_>>>()?.concat())
}

/// The mean growth of a step over pieces, and its standard error.
pub(crate) fn mean_growth(pieces: &[(f64, usize)]) -> (f64, f64) {
    let steps: usize = pieces.iter().map(|(_, steps)| steps).sum();
    let (n, steps) = (pieces.len() as f64, steps.max(1) as f64);
    let sum: f64 = pieces.iter().map(|(growth, _)| growth).sum();
    let mean = sum / n.max(1.0);
    let squares: f64 = pieces.iter().map(|(growth, _)| (growth - mean) * (growth - mean)).sum();
    let error = if pieces.len() > 1 { (squares / (n - 1.0) * n).sqrt() } else { f64::INFINITY };
    (sum / steps, error / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_their_stretches() {
        let stretches = [10..500, 700..5000, 6000..6002];
        let cut = pieces(&stretches);
        assert_eq!(cut.iter().map(ExactSizeIterator::len).sum::<usize>(), 490 + 4300);
        assert!(cut.iter().all(|p| (40..=76).contains(&p.len())), "{cut:?}");
        assert_eq!((cut[0].start, cut.last().unwrap().end), (10, 5000));
        let (mean, error) = mean_growth(&[(0.1, 10), (0.3, 10)]);
        assert!((mean - 0.02).abs() < 1e-12 && (error - 0.01).abs() < 1e-12, "{mean} {error}");
    }
}
