//! A learned market model: discrete codes with a latent of its own (after Stochastic MuZero, Antonoglou et al. 2022,
//! <https://openreview.net/forum?id=X6D9bAHhBQ1>), used where it predicts better than the bootstrap ([`Comparison`]).
//!
//! A code is a bin of the next move, in deviations known before it. A net says how probable each is at a latent, and a
//! latent follows from the one before, the code, and the observation that came with it. What a code stands for is a
//! training row, as in the bootstrap: drawn anew at every chance node from the rows of that code, the nearer to the
//! node's the forecast at its predecessor, the likelier. Its bar is moved to the node's price and rescaled, and its
//! observation is the successor's.
//!
//! So the probabilities and the latent are learned, while whole bars and observations are ones that happened: policy
//! and value nets never read a row that a decoder made up, and a successor's observation says as much about what
//! follows as it does in the data. A latent that went on by the code alone would not know what the new observation
//! tells, and a decision below the root would then find its observation worthless.
//!
//! The guarantees are the bootstrap's: rows are owned and end where training ends, a row's own continuation is at most
//! one of a node's codes, and rows within the horizon of a root that trains are not drawn. Weights, however, are fitted
//! to all training rows; they are few, and stop learning where later rows are no longer predicted better.

mod codes;
mod compare;
mod fit;
mod fitted;
mod near;
mod net;

pub use compare::{Comparison, Forecast};
pub use fitted::{FittedModel, Imagined, ModelKind, ModelRule};

use crate::bootstrap::{ANY, Drawn, Rows, any_of, moved};
use crate::market::InfoSet;
use crate::world::{Chance, Draws};
use codes::Codes;
use compute::random::{below, uniform};
use compute::{Error, Result};
use near::{Forecast as CodeForecast, Neighbours, forecast};
use net::{CODES, LATENT, Latent, LatentNet, squashed};

/// Rows that it needs at least.
const LEAST: usize = 384;
/// Rows of which the nearest is taken.
const CANDIDATES: usize = 3;
/// How often rows that may not be drawn are drawn again before one is drawn from those that may.
const TRIES: u32 = 8;

/// The model: training rows, what is a code, and the net.
#[derive(Debug)]
pub struct Learned {
    rows: Rows,
    codes: Codes,
    net: LatentNet,
    pushes: Vec<Latent>, // [rows] what each adds to the latent before it, where it follows
    near: Neighbours,
}

impl Learned {
    /// Fits a net to the rows.
    ///
    /// # Errors
    ///
    /// Where too few rows have one that follows them.
    pub fn new(rows: Rows) -> Result<Learned> {
        let before = enough(&rows)?;
        let codes = Codes::new(&rows, &before);
        let net = fit::fit(&rows, &before, &codes);
        Ok(Learned::with(rows, codes, net))
    }

    /// The model of rows whose net was fitted before, as [`weights`](Learned::weights) gave it.
    ///
    /// # Errors
    ///
    /// Where the weights are not of such rows.
    pub fn from_weights(rows: Rows, weights: &[f32]) -> Result<Learned> {
        let before = enough(&rows)?;
        if weights.len() != net::weights_of(rows.features()) || weights.iter().any(|w| !w.is_finite()) {
            return Err(Error::Invalid(format!(
                "{} weights are not those of a market model with {} features",
                weights.len(),
                rows.features()
            )));
        }
        let codes = Codes::new(&rows, &before);
        let net = LatentNet { features: rows.features(), weights: weights.to_vec() };
        Ok(Learned::with(rows, codes, net))
    }

    fn with(rows: Rows, codes: Codes, net: LatentNet) -> Learned {
        let mut pushes: Vec<Latent> = (0..rows.len() as u32).map(|row| net.encode(rows.observation(row))).collect();
        let near = Neighbours::new(&rows, &codes, &net, &pushes);
        let u = net.parts().u;
        for (before, push) in (0..).zip(&mut pushes[1..]) {
            let Some(code) = codes.behind(before) else { continue };
            push.iter_mut().zip(&u[code * LATENT..]).for_each(|(to, u)| *to += u);
        }
        Learned { codes, net, pushes, near, rows }
    }

    /// The rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The net's weights; with the rows they are the whole model.
    pub fn weights(&self) -> &[f32] {
        &self.net.weights
    }

    /// Whether the net tells situations apart; otherwise it knows only how frequent codes are.
    pub fn knows_something(&self) -> bool {
        self.net.parts().wo.iter().any(|w| *w != 0.0)
    }

    /// Bytes it takes beside its rows.
    pub fn bytes(&self) -> u64 {
        Learned::bytes_of(self.rows.len(), self.rows.features())
    }

    /// The same of so many rows and features.
    pub fn bytes_of(rows: usize, features: usize) -> u64 {
        (rows * (size_of::<Latent>() + 4 * CODES + 13) + 4 * net::weights_of(features)) as u64
    }

    /// Draws codes behind a state: the rows that they are, and what the latent carries into each.
    fn follow(&self, known: &InfoSet, state: &Imagined, draws: Draws, count: usize, to: &mut Vec<Chance<Imagined>>) {
        // One latent, one forecast and one product serve all codes of the node.
        let mut sum = match state.drawn.row {
            None => self.net.encode(&known.observation),
            Some(row) => self.pushes[row as usize],
        };
        sum.iter_mut().zip(state.carried).for_each(|(to, carried)| *to += carried);
        let latent = squashed(sum);
        let carried = self.net.carry(&latent);
        let mut cumulated = self.net.probabilities(&latent);
        let forecast = forecast(&cumulated);
        let place = self.near.place(&forecast);
        (1..self.codes.len()).for_each(|code| cumulated[code] += cumulated[code - 1]);
        let cumulated = &cumulated[..self.codes.len() - 1];
        let (mut near, mut used): ([Option<&[u32]>; CODES], bool) = ([None; CODES], false);
        for number in 0..count as u32 {
            let first = draws.words(number * TRIES);
            let drawn = uniform(first[0]);
            let code = cumulated.iter().filter(|sum| drawn >= **sum).count();
            let members = *near[code].get_or_insert_with(|| self.near.around(code, place));
            let before = self.pick(known, state, (code, members, &forecast), (draws, number, first), &mut used);
            let bar = moved(&state.drawn.bar, &self.rows.row(before).bar, &self.rows.row(before + 1).bar);
            let market = Imagined { drawn: Drawn { row: Some(before + 1), bar }, carried };
            to.push(Chance { probability: 1.0 / count as f32, market });
        }
    }

    /// The row before the bar that a code is: the nearest of a few that may be drawn; `first` are the words of the
    /// first attempt.
    fn pick(
        &self,
        known: &InfoSet,
        state: &Imagined,
        (code, members, forecast): (usize, &[u32], &CodeForecast),
        (draws, number, first): (Draws, u32, [u32; 4]),
        used: &mut bool,
    ) -> u32 {
        let own = |row: u32| state.drawn.row == Some(row);
        let may = |row: u32, used: bool| {
            let near_root = known.excluded.contains(&self.rows.row(row + 1).clock);
            !(near_root || used && own(row))
        };
        for attempt in 0..TRIES {
            let words = if attempt == 0 { first } else { draws.words(number * TRIES + attempt) };
            let (mut nearest, mut least) = (0, f32::INFINITY);
            for word in &words[1..=CANDIDATES] {
                let at = below(*word, members.len() as u32) as usize;
                let far = self.near.distance(members[at], forecast);
                if far < least {
                    (nearest, least) = (at, far);
                }
            }
            if may(members[nearest], *used) {
                *used |= own(members[nearest]);
                return members[nearest];
            }
        }
        // Nearly none of them may be drawn: one of those that may, of those near, of the code or of the codes beside
        // it.
        let word = draws.words(ANY | number)[0];
        let beside = (1..self.codes.len()).flat_map(|far| [code.checked_sub(far), Some(code + far)]).flatten();
        let others = beside.filter(|other| *other < self.codes.len()).map(|other| self.near.all(other));
        let mut parts = [members, self.near.all(code)].into_iter().chain(others);
        let found = parts.find_map(|part| any_of(part.iter().copied(), |row| may(row, true), word));
        found.unwrap_or_else(|| {
            self.rows.note_none_left();
            members[0]
        })
    }
}

/// Rows with a follower, where they are enough.
fn enough(rows: &Rows) -> Result<Vec<u32>> {
    let before = rows.predecessors();
    if before.len() < LEAST {
        return Err(Error::Invalid(format!(
            "{} rows with one that follows; a learned market model needs at least {LEAST}, so give a longer training \
             part, or the bootstrap",
            before.len()
        )));
    }
    Ok(before)
}

#[cfg(test)]
mod tests;
