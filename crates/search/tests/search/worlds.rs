//! Small markets whose laws are known, with evaluators to go with them.
//!
//! `Regimes` is a drift that has a sign, +1 or -1, which stays with probability ρ: r = μ·x + σ·ε, and the sign is seen.
//! With μ = 0 it is a walk without drift. A planted leak makes the model tell the move that will really come.

use account::{Account, Bar, Params};
use compute::Result;
use random::SplitMix;
use search::{Bootstrap, Chance, Draws, Evaluate, InfoSet, MarketModel, MarketWorld, Rows, TrainingRow};

/// The law of a market.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Regimes {
    pub(crate) drift: f64,
    pub(crate) deviation: f64,
    pub(crate) stay: f64,
    /// Whether the model is told what the observation's third number is: the next move and the next sign.
    pub(crate) leak: bool,
}

/// Cost of one side.
pub(crate) const COST: f64 = 5e-4;
pub(crate) const DISCOUNT: f64 = 0.95;

/// A sign, and the bar it was seen at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    sign: f32,
    bar: Bar,
    depth: u32,
}

pub(crate) fn bar_behind(before: f64, moved: f64) -> Bar {
    let close = before * moved.exp();
    Bar { open: before, high: before.max(close), low: before.min(close), close, ..Bar::flat(close) }
}

impl Regimes {
    fn follow(&self, state: &State, stays: bool, noise: f64) -> State {
        // The move to the next close belongs to the sign that was seen.
        let moved = self.drift * f64::from(state.sign) + self.deviation * noise;
        let sign = if stays { state.sign } else { -state.sign };
        State { sign, bar: bar_behind(state.bar.close, moved), depth: state.depth + 1 }
    }
}

impl MarketModel for Regimes {
    type State = State;

    fn features(&self) -> usize {
        1
    }

    fn root(&self, known: &InfoSet) -> State {
        State { sign: known.observation[0], bar: known.bar, depth: 0 }
    }

    fn bar<'a>(&self, state: &'a State) -> &'a Bar {
        &state.bar
    }

    fn draw(&self, known: &InfoSet, state: &State, draws: Draws, count: usize, to: &mut Vec<Chance<State>>) {
        for code in 0..count as u32 {
            let words = draws.words(code);
            let noise = f64::from(compute::random::normals(words)[0]);
            let mut market = self.follow(state, f64::from(compute::random::uniform(words[3])) < self.stay, noise);
            if self.leak && state.depth == 0 {
                market.sign = known.time[1];
                market.bar = bar_behind(state.bar.close, f64::from(known.time[0]));
            }
            to.push(Chance { probability: 1.0 / count as f32, market });
        }
    }

    fn observe(&self, _: &InfoSet, state: &State, to: &mut [f32]) -> [f32; 2] {
        to[0] = state.sign;
        [0.0; 2]
    }
}

pub(crate) fn params() -> Params {
    Params { fee: COST, ..Params::default() }
}

/// An account is shown its position.
fn show(_: &Params, account: &Account, _: &Bar, _: [f32; 2], to: &mut [f32]) {
    to[0] = account.action as f32;
}

pub(crate) fn world(law: Regimes) -> MarketWorld<Regimes> {
    world_of(law)
}

pub(crate) fn world_of<M: MarketModel>(model: M) -> MarketWorld<M> {
    MarketWorld::new(model, DISCOUNT as f32, show, 1)
}

/// A bootstrap of rows of a law, whose one column knows nothing.
pub(crate) fn bootstrap(law: Regimes, seed: u64, n: usize) -> Bootstrap {
    let mut random = SplitMix::new(seed);
    let (mut observations, mut rows, mut close, mut before) = (Vec::new(), Vec::new(), 100.0, 0.0);
    for (clock, (_, moved)) in path(law, seed, n).into_iter().enumerate() {
        let bar = bar_behind(close, before);
        (close, before) = (bar.close, moved);
        observations.push(random.unit() as f32);
        rows.push(TrainingRow { bar, time: [0.0; 2], clock: clock as u32, continues: true });
    }
    Bootstrap::new(Rows::cut(&observations, 1, &rows, |_| true).unwrap()).unwrap()
}

/// An account that holds a position since the last close.
pub(crate) fn account(position: f64) -> Account {
    let (params, mut account) = (Params { fee: 0.0, ..params() }, Account::new(&params()));
    let flat = Bar::flat(100.0);
    account::step(&params, &mut account, account::Action::target(position), &flat, &flat);
    account
}

/// What is known at a root; `next` is the move and the sign that come, which only a leak reads.
pub(crate) fn known(sign: f64, account: Account, close: f64, next: (f64, f64)) -> InfoSet {
    let time = [next.0 as f32, next.1 as f32];
    InfoSet { observation: vec![sign as f32], bar: Bar::flat(close), time, params: params(), account, excluded: 0..0 }
}

/// What keeping the position for ever is worth, or nothing at all; all actions are alike to it.
#[derive(Clone, Copy)]
pub(crate) struct Hold(pub(crate) Option<Regimes>);

impl Evaluate for Hold {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        logits.fill(0.0);
        for (shown, value) in shown.chunks_exact(2).zip(values) {
            let worth = |law: Regimes| hold(law, f64::from(shown[0]), f64::from(shown[1])) as f32;
            *value = self.0.map_or(0.0, worth);
        }
        Ok(())
    }
}

/// Expected reward of a bar: the logarithm of what one unit of equity becomes.
fn growth(law: Regimes, sign: f64, position: f64) -> f64 {
    position * law.drift * sign - 0.5 * position * position * law.deviation.powi(2)
        + 0.5 * position * law.deviation.powi(2)
}

/// Keeping a position for ever: the sign is expected to fade by 2ρ - 1 a bar.
fn hold(law: Regimes, sign: f64, position: f64) -> f64 {
    let fade = DISCOUNT * (2.0 * law.stay - 1.0);
    let level = growth(law, 0.0, position) / (1.0 - DISCOUNT);
    level + position * law.drift * sign / (1.0 - fade)
}

/// Signs and positions, with what they are worth by a policy: `[2, 3]`.
pub(crate) type Values = [[f64; 3]; 2];

pub(crate) fn sign_of(x: usize) -> f64 {
    2.0 * x as f64 - 1.0
}

/// One step of value: the action `a` (position a - 1) from sign `x` and position `p`.
fn action_value(law: Regimes, values: &Values, x: usize, p: usize, a: usize) -> f64 {
    let sides = (a as f64 - p as f64).abs();
    let next = law.stay * values[x][a] + (1.0 - law.stay) * values[1 - x][a];
    growth(law, sign_of(x), a as f64 - 1.0) - sides * COST + DISCOUNT * next
}

/// What the best policy is worth, by value iteration.
pub(crate) fn optimum(law: Regimes) -> Values {
    let mut values = Values::default();
    for _ in 0..2000 {
        let before = values;
        for (x, p) in (0..2).flat_map(|x| (0..3).map(move |p| (x, p))) {
            let all = (0..3).map(|a| action_value(law, &before, x, p, a));
            values[x][p] = all.fold(f64::NEG_INFINITY, f64::max);
        }
    }
    values
}

/// What a policy `[2, 3, 3]` (probabilities of actions) is worth.
pub(crate) fn worth_of(law: Regimes, policy: &[[[f64; 3]; 3]; 2]) -> Values {
    let mut values = Values::default();
    for _ in 0..2000 {
        let before = values;
        for (x, p) in (0..2).flat_map(|x| (0..3).map(move |p| (x, p))) {
            values[x][p] = (0..3).map(|a| policy[x][p][a] * action_value(law, &before, x, p, a)).sum();
        }
    }
    values
}

/// A path of the market: `[n]` signs, and the move behind each.
pub(crate) fn path(law: Regimes, seed: u64, n: usize) -> Vec<(f64, f64)> {
    let mut random = SplitMix::new(seed);
    let mut sign = 1.0;
    let mut path = Vec::with_capacity(n);
    for i in 0..n as u32 {
        let words = random::philox(seed ^ 0x51ed, [i, 0, 0, 0]);
        let moved = law.drift * sign + law.deviation * f64::from(compute::random::normals(words)[0]);
        path.push((sign, moved));
        sign = if random.unit() < law.stay { sign } else { -sign };
    }
    path
}

/// Mean and standard error.
pub(crate) fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (square / n).sqrt())
}
