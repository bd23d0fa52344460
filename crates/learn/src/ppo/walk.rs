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

/// Pieces that a span of time is cut into, about.
const PIECES: usize = 64;
/// The longest piece of a short span has so many rows, however many pieces that are: shorter ones would mostly be what
/// opening and closing costs.
const SHORTEST: usize = 64;
/// A short span of several symbols is cut into at least so many pieces, unless they have fewer rows than this.
const FEWEST: usize = 8;
const SHORTEST_OF_MANY: usize = 16;

/// Rows of the longest piece of a span of so many times. Many symbols say more than one about a short span, so its
/// pieces may be shorter there.
pub(crate) fn longest_piece(times: usize, symbols: usize) -> usize {
    let many = times.div_ceil(FEWEST).clamp(SHORTEST_OF_MANY, SHORTEST);
    times.div_ceil(PIECES).max(if symbols > 1 { many } else { SHORTEST })
}

/// Stretches cut into pieces of about one length; each has at least three rows: one to decide at, one to close at, and
/// the close behind it.
pub(crate) fn pieces(stretches: &[Range<u32>], longest: usize) -> Vec<Range<u32>> {
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

/// The mean growth of a step over pieces, and its standard error. Pieces in the same block of time share what their
/// market did, and are one observation: the error is that of the blocks' sums, whatever the number of symbols.
pub(crate) fn mean_growth(pieces: impl Iterator<Item = (u32, (f64, usize))>) -> (f64, f64) {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (block, (growth, steps)) in pieces {
        blocks.resize(blocks.len().max(block as usize + 1), (0.0, 0));
        let own = &mut blocks[block as usize];
        *own = (own.0 + growth, own.1 + steps);
    }
    blocks.retain(|(_, steps)| *steps > 0);
    let steps: usize = blocks.iter().map(|(_, steps)| steps).sum();
    let (n, steps) = (blocks.len() as f64, steps.max(1) as f64);
    let sum: f64 = blocks.iter().map(|(growth, _)| growth).sum();
    let mean = sum / steps;
    // Blocks may have few steps: symbols come and go.
    let apart = |(growth, steps): &(f64, usize)| growth - mean * *steps as f64;
    let squares: f64 = blocks.iter().map(|block| apart(block) * apart(block)).sum();
    let error = if blocks.len() > 1 { (squares / (n - 1.0) * n).sqrt() } else { f64::INFINITY };
    (mean, error / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::Bar;
    use market::{PriceTable, RowTime};

    #[test]
    fn pieces_cover_their_stretches() {
        let stretches = [10..500, 700..5000, 6000..6002];
        let cut = pieces(&stretches, longest_piece(4792, 1));
        assert_eq!(cut.iter().map(ExactSizeIterator::len).sum::<usize>(), 490 + 4300);
        assert!(cut.iter().all(|p| (40..=76).contains(&p.len())), "{cut:?}");
        assert_eq!((cut[0].start, cut.last().unwrap().end), (10, 5000));
        // A short span is cut further where many symbols speak for it.
        assert_eq!([60, 100, 600, 6400].map(|times| longest_piece(times, 1)), [64, 64, 64, 100]);
        assert_eq!([60, 200, 400, 600, 6400].map(|times| longest_piece(times, 50)), [16, 25, 50, 64, 100]);
    }

    #[test]
    fn the_error_is_that_of_blocks_of_time() {
        let (mean, error) = mean_growth([(0, (0.1, 10)), (1, (0.3, 10))].into_iter());
        assert!((mean - 0.02).abs() < 1e-12 && (error - 0.01).abs() < 1e-12, "{mean} {error}");
        // One block says nothing of the error.
        assert_eq!(mean_growth([(3, (0.1, 10)), (3, (0.3, 10))].into_iter()).1, f64::INFINITY);
        // As many symbols as there may be that do the same are one symbol.
        let mut random = random::SplitMix::new(4);
        let one: Vec<(u32, (f64, usize))> =
            (0..20).map(|block| (block, (random.unit() - 0.4, 60 + block as usize % 2))).collect();
        let (mean, error) = mean_growth(one.iter().copied());
        for symbols in [2, 50] {
            let (same_mean, same_error) = mean_growth((0..symbols).flat_map(|_| one.iter().copied()));
            assert!((same_mean - mean).abs() < 1e-12, "{symbols} symbols: {same_mean} and {mean}");
            assert!((same_error / error - 1.0).abs() < 1e-9, "{symbols} symbols: {same_error} and {error}");
        }
        // Independent symbols do say more.
        let many = (0..50u32 * 20).map(|at| (at % 20, (random.unit() - 0.4, 60)));
        assert!(mean_growth(many).1 < 0.3 * error);
    }

    /// Six bars, the market rising from 100 to 120; a side of a trade costs 1 %.
    fn six_bars() -> Arc<EpisodeData> {
        let closes = [100.0f64, 100.0, 105.0, 110.0, 112.0, 120.0];
        let open = |t: usize| if t == 0 { closes[0] } else { closes[t - 1] };
        let bar = |t: usize| {
            let (low, high) = (open(t).min(closes[t]), open(t).max(closes[t]));
            Bar { open: open(t), high, low, ..Bar::flat(closes[t]) }
        };
        let table = PriceTable {
            bars: (0..closes.len()).map(bar).collect(),
            offsets: vec![0, closes.len()],
            params: vec![Params { fee: 0.01, ..Params::default() }],
            currency: "USD".into(),
            risk_free: 0.0,
            notes: Vec::new(),
        };
        Arc::new(EpisodeData::new(table, vec![RowTime::default(); closes.len()]))
    }

    /// A walk by hand: from flat, at cost, closed at cost by its last decision.
    #[test]
    fn a_walk_begins_flat_and_is_closed_at_cost() {
        let data = six_bars();
        // All six bars, and their second half beside them.
        let grown = |z: [f32; 3]| {
            let mut walk = Walk::new(&data, &[0..6, 3..6]);
            assert_eq!((walk.steps(), walk.view().0), (5, &[0, 3][..]));
            assert!(walk.view().1.chunks_exact(OBSERVED).all(|shown| shown[0] == 0.0), "they begin flat");
            for _ in 0..walk.steps() {
                walk.step(Actions::Discrete, &[z, z].concat());
            }
            let growth = walk.growth();
            assert_eq!([growth[0].1, growth[1].1], [5, 2]);
            [growth[0].0, growth[1].0]
        };
        let near = |found: [f64; 2], wanted: [f64; 2]| {
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}, by hand {wanted:?}");
        };
        near(grown([0.0, 1.0, 0.0]), [0.0, 0.0]);
        // Bought at the open of the bar behind the first decision (100, and 110), all of the equity less the fee; sold
        // at the open of the last bar (112), where the last decision closes, less the fee again. The rise to 120 is
        // that of a bar without a position.
        let long = |bought: f64| (112.0 / bought * 0.99 / 1.01f64).ln();
        near(grown([0.0, 0.0, 1.0]), [long(100.0), long(110.0)]);
        // Sold short for as much as is left behind the fee, bought back at 112.
        let short = |sold: f64| {
            let units = 1.0 / (1.01 * sold);
            (1.0 - units * sold * 0.01 + units * (sold - 112.0) - units * 112.0 * 0.01f64).ln()
        };
        near(grown([1.0, 0.0, 0.0]), [short(100.0), short(110.0)]);
    }
}
