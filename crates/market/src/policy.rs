//! Who decides: a policy knows rows of the table and what accounts are shown, never a learner or the future.
//!
//! Whoever walks accounts makes the memory with [`Policy::start`], then calls [`Policy::act`] at every close. Nets,
//! searchers, rules, files and constants are all asked in this way; what is drawn at random follows from a seed and a
//! counter, so that a walk can be repeated.

use account::Action;
use files::Result;
use std::sync::Arc;

/// What a policy is shown at a close, for `n` accounts, or for the `n` symbols of a portfolio that have a bar.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// `[n]` rows of the table, as of the close.
    pub rows: &'a [u32],
    /// `[n]` the place in memory of each: an account, or a symbol of a portfolio.
    pub slots: &'a [u32],
    /// `[n, OBSERVED]` what accounts are shown of themselves; may be empty unless [`Needs::account`].
    pub observed: &'a [f32],
    /// `[n, 3]` whether short, flat and long are legal, flat always is; may be empty unless [`Needs::account`].
    pub legal: &'a [bool],
    /// Closes since the start, for what draws at random.
    pub counter: u64,
    /// Draw by this seed, the slot and the counter, as learners do; none: take what is best.
    pub seed: Option<u64>,
}

/// What a policy needs of a table and of who walks it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Rows before its own that it reads.
    pub window: usize,
    /// Numbers that it remembers for a slot.
    pub memory: usize,
    /// Whether it looks at the account. What others decide is the same at any cost, and known before a walk.
    pub account: bool,
    /// Closes that are worth asking about at once, where what it decides about a row depends on nothing but what is
    /// shown of that row, whatever the counter and the rows beside it; 0: it is asked about one after the other.
    pub closes_at_once: usize,
}

/// Decides what to hold; classifiers, recurrent nets, searchers, portfolios, rules and constants all do.
pub trait Policy {
    /// What it needs of a table and of memory.
    fn needs(&self) -> Needs;

    /// The memory of `n` slots that begin; zeros begin a slot again.
    fn start(&self, n: usize) -> Vec<f64> {
        vec![0.0; n * self.needs().memory]
    }

    /// Writes `actions` `[n]`; a target that is not finite decides nothing. `memory` is `[slots, needs().memory]`.
    ///
    /// # Errors
    ///
    /// Where what it runs on fails, a device for instance.
    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()>;
}

impl<P: Policy + ?Sized> Policy for Arc<P> {
    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn start(&self, n: usize) -> Vec<f64> {
        (**self).start(n)
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        (**self).act(view, memory, actions)
    }
}

/// The same target, always: flat, or buying and holding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant(pub f64);

impl Policy for Constant {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn act(&self, _: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        actions.fill(Action::target(self.0));
        Ok(())
    }
}

/// Decisions that are known beforehand: those of a file or a rule, or of a policy that was walked before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Targets {
    /// `[rows]`
    pub actions: Vec<Action>,
}

impl Targets {
    /// Nothing decided at any row.
    pub fn none(rows: usize) -> Targets {
        Targets { actions: vec![Action::target(f64::NAN); rows] }
    }

    /// The same decisions, so many bars later; `offsets` `[S + 1]` are the first rows of symbols.
    pub fn delayed(&self, bars: usize, offsets: &[usize]) -> Targets {
        let mut late = Targets::none(self.actions.len());
        for symbol in offsets.windows(2) {
            let to = (symbol[0] + bars).min(symbol[1]);
            late.actions[to..symbol[1]].copy_from_slice(&self.actions[symbol[0]..symbol[1] - (to - symbol[0])]);
        }
        late
    }
}

impl Policy for Targets {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        view.rows.iter().zip(actions).for_each(|(row, action)| *action = self.actions[*row as usize]);
        Ok(())
    }
}

impl FromIterator<f64> for Targets {
    fn from_iter<T: IntoIterator<Item = f64>>(targets: T) -> Targets {
        Targets { actions: targets.into_iter().map(Action::target).collect() }
    }
}
