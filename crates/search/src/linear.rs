//! A world of rows of numbers that shrink and move with the action: what searches are timed in, beside `mctx`.

use crate::world::{Chance, Draws, Step, World};
use compute::{Error, Result};

/// Numbers that a row may have, at most.
const MOST: usize = 64;

/// A row follows from the one before as `row · shrink + (action - 1) · push`; its first number is the reward. The same
/// for everybody and without chance, so that programs are compared and not worlds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearWorld {
    /// Numbers of a row, 1 to 64.
    pub inputs: usize,
    /// Actions of every decision.
    pub actions: usize,
    /// What is left of a row.
    pub shrink: f32,
    /// By how much an action moves it.
    pub push: f32,
    /// What later rewards count.
    pub discount: f32,
}

impl LinearWorld {
    /// Refuses a world whose rows are empty or too long.
    ///
    /// # Errors
    ///
    /// Says how long they are.
    pub fn check(&self) -> Result<()> {
        match self.inputs {
            1..=MOST => Ok(()),
            _ => Err(Error::Invalid(format!("rows of {} numbers; 1 to {MOST} are possible", self.inputs))),
        }
    }
}

/// A row; numbers behind the world's are 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearRow(pub(crate) [f32; MOST]);

impl LinearRow {
    /// A row of so many numbers as the world has.
    ///
    /// # Panics
    ///
    /// Where they are more than 64.
    pub fn new(numbers: &[f32]) -> LinearRow {
        let mut row = [0.0; MOST];
        row[..numbers.len()].copy_from_slice(numbers);
        LinearRow(row)
    }
}

impl World for LinearWorld {
    type Known = LinearRow;
    type Market = ();
    type Account = LinearRow;

    fn actions(&self) -> usize {
        self.actions
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn start(&self, known: &LinearRow) -> ((), LinearRow) {
        ((), *known)
    }

    fn draw(&self, _: &LinearRow, (): &(), _: Draws, _: usize, to: &mut Vec<Chance<()>>) {
        to.push(Chance { probability: 1.0, market: () });
    }

    fn step(&self, _: &LinearRow, row: &LinearRow, action: usize, (): &(), (): &()) -> Step<LinearRow> {
        let moved = (action as f32 - 1.0) * self.push;
        let mut account = *row;
        account.0[..self.inputs].iter_mut().for_each(|x| *x = *x * self.shrink + moved);
        Step { reward: account.0[0], discount: self.discount, account }
    }

    fn legal(&self, _: &LinearRow, (): &(), _: &LinearRow) -> u32 {
        u32::MAX >> (32 - self.actions)
    }

    fn held(&self, _: &LinearRow) -> usize {
        1.min(self.actions - 1)
    }

    fn observe(&self, _: &LinearRow, (): &(), row: &LinearRow, to: &mut [f32]) {
        to.copy_from_slice(&row.0[..self.inputs]);
    }
}
