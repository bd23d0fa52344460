//! Who decides: a policy knows rows of the table and what accounts are shown, never a learner or the future.

/// What a policy is shown at a close, for `n` accounts.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// `[n]` rows of the table, as of the close.
    pub rows: &'a [u32],
    /// `[n, OBSERVED]` what accounts are shown of themselves.
    pub observed: &'a [f32],
    /// `[n, 3]` whether short, flat and long are legal; flat always is.
    pub legal: &'a [bool],
    /// Steps since the start, for what draws at random.
    pub counter: u64,
}

/// What a policy needs of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Rows before its own that it reads.
    pub window: usize,
    /// Numbers that it remembers for an account.
    pub memory: usize,
}

/// Decides targets; classifiers, recurrent nets, searchers, rules and constants all do.
pub trait Policy {
    /// What it needs of a table and of memory.
    fn needs(&self) -> Needs;

    /// The memory of `n` accounts that begin.
    fn start(&self, n: usize) -> Vec<f32> {
        vec![0.0; n * self.needs().memory]
    }

    /// Writes `targets` `[n]`, in full positions; not finite decides nothing. `memory` is `[n, needs().memory]`.
    fn act(&self, view: &View<'_>, memory: &mut [f32], targets: &mut [f64]);
}

/// The same target, always: flat, or buying and holding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant(pub f64);

impl Policy for Constant {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn act(&self, _: &View<'_>, _: &mut [f32], targets: &mut [f64]) {
        targets.fill(self.0);
    }
}
