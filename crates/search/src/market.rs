//! A market model with accounts on it: the world that a trading policy is searched in.
//!
//! Actions are short, flat and long. What they earn is counted by `account::step` and by nothing else.

use crate::world::{Chance, Draws, Step, World};
use account::{Account, Action, Bar, Params, ln_1p};

/// What may come, by a model that was fitted on the training part of a fold and owns all that it draws from.
pub trait MarketModel: Sync {
    /// What is observed of the market at a node, with the bar that it is.
    type State: Copy + Send + Sync;

    /// Numbers of an observation.
    fn features(&self) -> usize;

    /// The state at a root.
    fn root(&self, known: &InfoSet) -> Self::State;

    /// The bar of a state.
    fn bar<'a>(&self, state: &'a Self::State) -> &'a Bar;

    /// As [`World::draw`].
    fn draw(&self, known: &InfoSet, state: &Self::State, draws: Draws, count: usize, to: &mut Vec<Chance<Self::State>>);

    /// Writes the observation of a state, `[features]`, and gives its time of day and its bars to a forced close.
    fn observe(&self, known: &InfoSet, state: &Self::State, to: &mut [f32]) -> [f32; 2];

    /// As [`World::row`].
    fn row(&self, _state: &Self::State) -> Option<u32> {
        None
    }
}

/// What is known at the close of a root's bar, owned: nothing behind it can be reached from here.
#[derive(Debug, Clone, PartialEq)]
pub struct InfoSet {
    /// `[features]` the root's row as the net reads it.
    pub observation: Vec<f32>,
    /// Its bar.
    pub bar: Bar,
    /// Time of day, and bars to a forced close.
    pub time: [f32; 2],
    /// Rules and costs of the account.
    pub params: Params,
    /// The account.
    pub account: Account,
    /// Clock times, those of training rows, that a model may not draw: the horizon of a root that is one of them.
    /// Empty elsewhere.
    pub excluded: std::ops::Range<u32>,
}

/// Writes what an account is shown of itself at the close of a bar: time of day and bars to a forced close come last.
pub type ShowAccount = fn(&Params, &Account, &Bar, [f32; 2], &mut [f32]);

/// What accounts are shown as `account::shown` has it: the only way that a card knows.
pub fn show_account(params: &Params, account: &Account, bar: &Bar, [time_of_day, to_close]: [f32; 2], to: &mut [f32]) {
    let logarithms = [account.bars_held, f64::from(to_close)].map(|bars| ln_1p(bars) as f32);
    to.copy_from_slice(&account::shown(params, &account.into(), bar, time_of_day, logarithms));
}

/// A market model with accounts on it.
#[derive(Debug)]
pub struct MarketWorld<M> {
    model: M,
    discount: f32,
    show: ShowAccount,
    shown: usize,
}

/// Positions of the actions.
const TARGETS: [f64; 3] = [-1.0, 0.0, 1.0];

impl<M: MarketModel> MarketWorld<M> {
    /// Accounts whose rewards count `discount` for every bar that they come later; `show` writes `shown` numbers of an
    /// account.
    pub fn new(model: M, discount: f32, show: ShowAccount, shown: usize) -> MarketWorld<M> {
        MarketWorld { model, discount, show, shown }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The target position of an action: short, flat and long are 0, 1 and 2.
    pub fn target(action: usize) -> f64 {
        TARGETS[action]
    }
}

/// Legal actions at the close of a bar, a bit each; flat always is.
pub(crate) fn legal(params: &Params, bar: &Bar) -> u32 {
    let open = bar.flat_next == 0.0;
    let side = |legal: bool, action: u32| u32::from(legal) << action;
    side(params.shortable && open, 0) | side(true, 1) | side(open, 2)
}

impl<M: MarketModel> World for MarketWorld<M> {
    type Known = InfoSet;
    type Market = M::State;
    type Account = Account;

    fn actions(&self) -> usize {
        TARGETS.len()
    }

    fn inputs(&self) -> usize {
        self.model.features() + self.shown
    }

    fn start(&self, known: &InfoSet) -> (M::State, Account) {
        (self.model.root(known), known.account)
    }

    fn draw(&self, known: &InfoSet, market: &M::State, draws: Draws, count: usize, to: &mut Vec<Chance<M::State>>) {
        self.model.draw(known, market, draws, count, to);
    }

    fn step(
        &self,
        known: &InfoSet,
        account: &Account,
        action: usize,
        now: &M::State,
        next: &M::State,
    ) -> Step<Account> {
        let mut account = *account;
        let order = Action::target(TARGETS[action]);
        let outcome = account::step(&known.params, &mut account, order, self.model.bar(now), self.model.bar(next));
        let discount = if account.terminated { 0.0 } else { self.discount };
        Step { account, reward: outcome.reward as f32, discount }
    }

    fn legal(&self, known: &InfoSet, market: &M::State, _: &Account) -> u32 {
        legal(&known.params, self.model.bar(market))
    }

    fn held(&self, account: &Account) -> usize {
        // What was decided last, also where its order still waits.
        if account.action < 0.0 {
            0
        } else if account.action > 0.0 {
            2
        } else {
            1
        }
    }

    fn row(&self, market: &M::State) -> Option<u32> {
        self.model.row(market)
    }

    fn observe(&self, known: &InfoSet, market: &M::State, account: &Account, to: &mut [f32]) {
        let (observation, own) = to.split_at_mut(self.model.features());
        let time = self.model.observe(known, market, observation);
        (self.show)(&known.params, account, self.model.bar(market), time, own);
    }
}
