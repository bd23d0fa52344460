//! A world of fixed tables, with evaluations to go with it: what other programs' searches are compared on.

use crate::evaluate::Evaluate;
use crate::world::{Chance, Draws, Step, World};
use compute::{Error, Result};

/// Everything that a search asks for, by state: `S` states, `A` actions, `K` codes. The market is the code that was
/// drawn last, 0 at a root; the account is the state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableWorld {
    /// A.
    pub actions: usize,
    /// K.
    pub codes: usize,
    /// `[S, A]` logits of a state's actions.
    pub logits: Vec<f32>,
    /// `[S]` what it is worth.
    pub value: Vec<f32>,
    /// `[S, A, K]` what an action earns.
    pub reward: Vec<f32>,
    /// `[S, A, K]` what later rewards count.
    pub discount: Vec<f32>,
    /// `[S, A, K]` the state that follows.
    pub next: Vec<u32>,
    /// `[K, K]` logits of the codes, by the code before.
    pub chance_logits: Vec<f32>,
    /// `[S, A]` what an afterstate is worth.
    pub afterstate: Vec<f32>,
}

impl TableWorld {
    /// Refuses tables whose lengths do not fit, or that lead to a state that is not there.
    ///
    /// # Errors
    ///
    /// Names what does not fit.
    pub fn check(&self) -> Result<()> {
        let (states, actions, codes) = (self.value.len(), self.actions, self.codes);
        let lengths = [
            ("logits", self.logits.len(), states * actions),
            ("rewards", self.reward.len(), states * actions * codes),
            ("discounts", self.discount.len(), states * actions * codes),
            ("states that follow", self.next.len(), states * actions * codes),
            ("logits of codes", self.chance_logits.len(), codes * codes),
            ("afterstates", self.afterstate.len(), states * actions),
        ];
        if let Some((name, has, needs)) = lengths.iter().find(|(_, has, needs)| has != needs) {
            return Err(Error::Invalid(format!("{has} {name}; {states} states need {needs}")));
        }
        match self.next.iter().find(|next| **next as usize >= states) {
            Some(next) => Err(Error::Invalid(format!("a table leads to state {next}; it has {states}"))),
            None => Ok(()),
        }
    }

    /// `[K]` how probable the codes behind a code are.
    pub(crate) fn probabilities(&self, before: usize) -> impl Iterator<Item = f32> {
        let own = &self.chance_logits[before * self.codes..(before + 1) * self.codes];
        let sum: f32 = own.iter().map(|z| z.exp()).sum();
        own.iter().map(move |z| z.exp() / sum)
    }
}

impl World for TableWorld {
    type Known = u32;
    type Market = usize;
    type Account = usize;

    fn actions(&self) -> usize {
        self.actions
    }

    fn inputs(&self) -> usize {
        1
    }

    fn start(&self, known: &u32) -> (usize, usize) {
        (0, *known as usize)
    }

    fn draw(&self, _: &u32, market: &usize, _: Draws, count: usize, to: &mut Vec<Chance<usize>>) {
        debug_assert_eq!(count, self.codes, "as many codes as the tables have");
        let all = self.probabilities(*market).enumerate();
        to.extend(all.map(|(market, probability)| Chance { probability, market }));
    }

    fn step(&self, _: &u32, account: &usize, action: usize, _: &usize, next: &usize) -> Step<usize> {
        let at = (account * self.actions + action) * self.codes + next;
        Step { account: self.next[at] as usize, reward: self.reward[at], discount: self.discount[at] }
    }

    fn legal(&self, _: &u32, _: &usize, _: &usize) -> u32 {
        u32::MAX >> (32 - self.actions)
    }

    fn held(&self, _: &usize) -> usize {
        0
    }

    fn observe(&self, _: &u32, _: &usize, account: &usize, to: &mut [f32]) {
        to[0] = *account as f32;
    }

    fn afterstate(&self, _: &usize, account: &usize, action: usize, _: f32) -> f32 {
        self.afterstate[account * self.actions + action]
    }
}

/// The evaluations of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableEvaluator<'a>(pub &'a TableWorld);

impl Evaluate for TableEvaluator<'_> {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        let each = logits.chunks_exact_mut(self.0.actions).zip(values).zip(shown);
        for ((logits, value), state) in each {
            let state = *state as usize;
            logits.copy_from_slice(&self.0.logits[state * self.0.actions..][..self.0.actions]);
            *value = self.0.value[state];
        }
        Ok(())
    }
}
