//! Conditional bootstrap in row space: what may follow is drawn from what followed similar rows of the training part.
//!
//! A code is a training row. Every chance node draws its codes anew, from rows whose predecessors lie near the node's
//! observation; only one of them may be the node's own continuation, so that no code gives away what follows it. The
//! whole bar is moved to the node's price and rescaled by the ratio of the volatilities known at the two closes. The
//! observation that follows is the drawn row's, as it is: indicators are never computed again inside a tree.
//!
//! Near means: in the same cell of at most three columns, which are those that best predict the distribution of the
//! next move on rows held out for it ([`ModelScore`]). Rows near the border of a cell also see the one beside it.

mod cells;
mod rows;
mod score;

pub use rows::{Rows, TrainingRow};
pub(crate) use rows::{no_row_left, reached_behind};
pub use score::ModelScore;
pub(crate) use score::{Sorted, outcome};

use crate::market::{InfoSet, MarketModel};
use crate::world::{Chance, Draws};
use account::Bar;
use cells::Key;
pub(crate) use cells::{COLUMNS, Cells};
use compute::random::below;
use compute::{Error, Result};

/// Rows that a model needs at least, and that a root must leave to be drawn.
pub const LEAST_ROWS: usize = 64;
/// How often a row that may not be drawn is drawn again before one is drawn from those that may.
const TRIES: u32 = 8;
/// What sets the random numbers of such a draw apart.
pub(crate) const ANY: u32 = 1 << 31;
/// Volatilities may differ by this factor; beyond it the move is taken for that of another world.
const RATIO: (f64, f64) = (0.2, 5.0);
/// What a price is left of itself at least.
const LOWEST: f64 = 0.05;

/// The model: training rows, and which of them are near which.
#[derive(Debug)]
pub struct Bootstrap {
    rows: Rows,
    cells: Cells,
    score: ModelScore,
}

/// A training row as a code, or the root.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    pub(crate) row: Option<u32>,
    pub(crate) bar: Bar,
}

impl Bootstrap {
    /// Chooses the columns by their score on rows held out at the end, then takes all rows.
    ///
    /// # Errors
    ///
    /// Where too few rows have one that follows them.
    pub fn new(rows: Rows) -> Result<Bootstrap> {
        let before = rows.predecessors();
        if before.len() < LEAST_ROWS {
            return Err(Error::Invalid(format!(
                "{} rows with one that follows; a market model needs at least {LEAST_ROWS}, so give a longer training \
                 part",
                before.len()
            )));
        }
        let (columns, score) = score::choose(&rows, &before);
        let cells = Cells::new(&rows, &before, &columns);
        Ok(Bootstrap { rows, cells, score })
    }

    /// How well the model did on the rows that were held out while its columns were chosen.
    pub fn score(&self) -> &ModelScore {
        &self.score
    }

    /// The rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The cells, for a card.
    pub(crate) fn cells(&self) -> &Cells {
        &self.cells
    }

    fn key(&self, known: &InfoSet, state: &Drawn) -> Key {
        match state.row {
            None => self.cells.key(&known.observation),
            Some(row) => self.cells.key(self.rows.observation(row)),
        }
    }

    /// Draws codes behind a state, all alike probable.
    pub(crate) fn follow(
        &self,
        known: &InfoSet,
        state: &Drawn,
        draws: Draws,
        count: usize,
        mut push: impl FnMut(Drawn),
    ) {
        let key = self.key(known, state);
        let mut used = false;
        for code in 0..count as u32 {
            let before = self.pick(known, state, &key, (draws, code), &mut used);
            let bar = moved(&state.bar, &self.rows.row(before).bar, &self.rows.row(before + 1).bar);
            push(Drawn { row: Some(before + 1), bar });
        }
    }

    /// The row before the next code.
    fn pick(&self, known: &InfoSet, state: &Drawn, key: &Key, (draws, code): (Draws, u32), used: &mut bool) -> u32 {
        let own = |row: u32| state.row == Some(row);
        let may = |row: u32, used: bool| {
            let near_root = known.excluded.contains(&self.rows.row(row + 1).clock);
            !(near_root || used && own(row))
        };
        let mut range = self.cells.members();
        for attempt in 0..TRIES {
            let words = draws.words(code * TRIES + attempt);
            range = self.cells.near(key, [words[0], words[1], words[2]]);
            let row = range[below(words[3], range.len() as u32) as usize];
            if may(row, *used) {
                *used |= own(row);
                return row;
            }
        }
        // Nearly all of the cell may not be drawn: one of those that may, of the cell or of the smallest part around it
        // that has any, but for the node's own continuation: what is drawn does not depend on `used`.
        let word = draws.words(ANY | code)[0];
        let mut parts = std::iter::once(range).chain(self.cells.around(key));
        let found = parts.find_map(|part| any_of(part.iter().copied(), |row| may(row, true), word));
        found.unwrap_or_else(|| {
            self.rows.note_none_left();
            self.cells.members()[0]
        })
    }
}

/// One of the rows that may be drawn, all alike probable; none where none may.
pub(crate) fn any_of(rows: impl Iterator<Item = u32> + Clone, may: impl Fn(u32) -> bool, word: u32) -> Option<u32> {
    let count = rows.clone().filter(|row| may(*row)).count() as u32;
    if count == 0 {
        return None;
    }
    rows.filter(|row| may(*row)).nth(below(word, count) as usize)
}

impl MarketModel for Bootstrap {
    type State = Drawn;

    fn features(&self) -> usize {
        self.rows.features()
    }

    fn root(&self, known: &InfoSet) -> Drawn {
        Drawn { row: None, bar: known.bar }
    }

    fn bar<'a>(&self, state: &'a Drawn) -> &'a Bar {
        &state.bar
    }

    fn draw(&self, known: &InfoSet, state: &Drawn, draws: Draws, count: usize, to: &mut Vec<Chance<Drawn>>) {
        let push = |market| to.push(Chance { probability: 1.0 / count as f32, market });
        self.follow(known, state, draws, count, push);
    }

    fn observe(&self, known: &InfoSet, state: &Drawn, to: &mut [f32]) -> [f32; 2] {
        self.rows.observe(known, state, to)
    }

    fn row(&self, state: &Drawn) -> Option<u32> {
        state.row
    }
}

/// The bar that follows `now` if what went from `before` to `next` happens there: every price's distance from the close
/// before it, scaled by the ratio of the volatilities known at the two closes.
pub(crate) fn moved(now: &Bar, before: &Bar, next: &Bar) -> Bar {
    let mut ratio = 1.0;
    if now.sigma > 0.0 && before.sigma > 0.0 {
        ratio = (now.sigma / before.sigma).clamp(RATIO.0, RATIO.1);
    }
    // No price falls below a small share of the one before.
    let fall = 1.0 - next.low * next.split / before.close;
    if ratio * fall > 1.0 - LOWEST {
        ratio = (1.0 - LOWEST) / fall;
    }
    let price = |p: f64| now.close * (1.0 + ratio * (p * next.split / before.close - 1.0));
    // What falls due is a share of the price.
    let due = |flow: f64| flow * next.split / before.close * now.close;
    Bar {
        open: price(next.open),
        high: price(next.high),
        low: price(next.low),
        close: price(next.close),
        fx_open: now.fx_close * next.fx_open / before.fx_close,
        fx_close: now.fx_close * next.fx_close / before.fx_close,
        tradable: next.tradable,
        split: 1.0,
        dividend: due(next.dividend),
        funding_open: due(next.funding_open),
        funding_inside: due(next.funding_inside),
        swap_open: next.swap_open,
        swap_inside: next.swap_inside,
        borrow_open: next.borrow_open,
        borrow_inside: next.borrow_inside,
        // That the data end there, or a series is cut, is no event of the market.
        close_out: 0.0,
        sigma: next.sigma * ratio,
        volume: now.volume,
        half_spread: next.half_spread * ratio,
        flat_next: next.flat_next,
    }
}

#[cfg(test)]
mod tests;
