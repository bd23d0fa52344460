//! What a search plays through: what may come, what an action does, what a net is shown.
//!
//! The market goes its way whatever is decided, so a world has two parts: its *market*, which is drawn, and its
//! *account*, which follows from the market and the actions. A node of the tree is one of each.

use compute::random::{Stream, philox};

/// A world that can be searched. It owns all that it draws from.
pub trait World: Sync {
    /// What is known at a root: owned, and nothing behind its close.
    type Known: Sync;
    /// What is observed of the market at a node.
    type Market: Copy + Send + Sync;
    /// What depends on actions.
    type Account: Copy + Send + Sync;

    /// Actions of every decision, at most 32.
    fn actions(&self) -> usize;

    /// Numbers that a net is shown of a node.
    fn inputs(&self) -> usize;

    /// Market and account of a root.
    fn start(&self, known: &Self::Known) -> (Self::Market, Self::Account);

    /// Puts the codes that may follow behind `to`: `count` that are drawn, or fewer where that is all there is. Their
    /// probabilities add up to 1. They depend on the market alone, so all actions share them.
    fn draw(
        &self,
        known: &Self::Known,
        market: &Self::Market,
        draws: Draws,
        count: usize,
        to: &mut Vec<Chance<Self::Market>>,
    );

    /// What an action makes of an account when the market goes from one code to the next.
    fn step(
        &self,
        known: &Self::Known,
        account: &Self::Account,
        action: usize,
        now: &Self::Market,
        next: &Self::Market,
    ) -> Step<Self::Account>;

    /// The legal actions, a bit each; never none.
    fn legal(&self, known: &Self::Known, market: &Self::Market, account: &Self::Account) -> u32;

    /// The action that keeps what the account holds.
    fn held(&self, account: &Self::Account) -> usize;

    /// Writes what a net is shown, `[inputs]`.
    fn observe(&self, known: &Self::Known, market: &Self::Market, account: &Self::Account, to: &mut [f32]);

    /// The training row that a market is; none where every market that is drawn is a new one.
    fn row(&self, _market: &Self::Market) -> Option<u32> {
        None
    }

    /// Adds what is believed of the root's actions beforehand to the net's logits, `[A]`.
    fn root_prior(&self, _known: &Self::Known, _logits: &mut [f32]) {}

    /// What an afterstate is worth before its code is seen, where `value` is what the decision is worth. Only the
    /// reference mode asks, which has nodes for afterstates.
    fn afterstate(&self, _market: &Self::Market, _account: &Self::Account, _action: usize, value: f32) -> f32 {
        value
    }
}

/// One of the codes that may follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chance<M> {
    /// How probable it is.
    pub probability: f32,
    /// The market that is then observed.
    pub market: M,
}

/// What a step gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<A> {
    /// The account behind it.
    pub account: A,
    /// What was earned.
    pub reward: f32,
    /// What later rewards count beside it; 0 where the account has ended.
    pub discount: f32,
}

/// The random numbers of one chance node: they follow from the seed, the root and the codes seen since, so they are
/// the same whatever was decided and in whatever order the tree grew.
#[derive(Debug, Clone, Copy)]
pub struct Draws {
    seed: u64,
    path: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64, path: u64) -> Draws {
        Draws { seed, path }
    }

    /// Four words; every index has its own.
    pub fn words(&self, index: u32) -> [u32; 4] {
        philox(self.seed, [index, self.path as u32, Stream::Chance as u32, (self.path >> 32) as u32])
    }
}

/// The path of a root: its counter.
pub(crate) fn root_path(counter: u64) -> u64 {
    random::mix(counter.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// The path behind one more code.
pub(crate) fn path_behind(path: u64, code: u32) -> u64 {
    random::mix(path ^ (u64::from(code) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93))
}
