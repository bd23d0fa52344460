//! Accounts that live through episodes, for learners that try things out.
//!
//! An episode starts at a random row of a stretch and goes on for a fixed length, or until ruin; it crosses no border
//! of a stretch, and stretches cross no border of a fold, run, segment or membership. An account whose episode ended
//! starts the next one in the same step. What it was before that is kept: an episode that was cut off (`truncated`) has
//! a future that a learner may estimate from its own last observation, one that ended (`terminated`) has none. A cut
//! episode is not closed out; only spans that are judged are.

use crate::observation::{OBSERVED, RowTime, legal_sides, log_bars};
use crate::policy::View;
use crate::table::PriceTable;
use account::{Account, Accounts, Event, Flows, Holding, Orders, Params, shown};
use std::ops::Range;
use std::sync::Arc;

/// Logarithms of bars held that are kept at hand.
const LOGARITHMS: u32 = 1 << 16;

/// What episodes are played on; any number of environments share it.
#[derive(Debug, Clone)]
pub struct EpisodeData {
    table: PriceTable,
    times: Vec<RowTime>,
    /// `[rows]` logarithm of the bars to a forced close.
    log_to_close: Vec<f32>,
}

impl EpisodeData {
    /// A table and the times of its rows, `[rows]`.
    ///
    /// # Panics
    ///
    /// If there is not a time for each row.
    pub fn new(table: PriceTable, times: Vec<RowTime>) -> EpisodeData {
        assert_eq!(times.len(), table.bars.len(), "a time for each row");
        let log_to_close = times.iter().map(|time| log_bars(f64::from(time.bars_to_close))).collect();
        EpisodeData { table, times, log_to_close }
    }

    /// Prices and rules.
    pub fn table(&self) -> &PriceTable {
        &self.table
    }

    /// Rules and costs of the symbol that a row is of.
    pub fn params(&self, row: u32) -> &Params {
        &self.table.params[self.symbol(row)]
    }

    /// `[rows]` time of day, and logarithm of the bars to a forced close.
    pub fn times(&self) -> (Vec<f32>, &[f32]) {
        (self.times.iter().map(|time| time.time_of_day).collect(), &self.log_to_close)
    }

    /// Time of day and bars to a forced close of a row.
    pub fn row_time(&self, row: u32) -> RowTime {
        self.times[row as usize]
    }

    /// The symbol that a row is of.
    pub fn symbol(&self, row: u32) -> usize {
        self.table.offsets.partition_point(|from| *from <= row as usize) - 1
    }

    /// What an account is shown at the close of a row.
    pub fn observe(&self, params: &Params, holding: &Holding, row: usize) -> [f32; OBSERVED] {
        self.observe_held(params, holding, row, log_bars(holding.bars_held))
    }

    /// The same where ln(1 + bars held) is at hand.
    #[inline]
    pub fn observe_held(&self, params: &Params, holding: &Holding, row: usize, log_held: f32) -> [f32; OBSERVED] {
        let logarithms = [log_held, self.log_to_close[row]];
        shown(params, holding, &self.table.bars[row], self.times[row].time_of_day, logarithms)
    }

    /// What all accounts are shown alike at the close of a row, behind the [`OWN`](crate::OWN) of each.
    #[inline]
    pub fn row_shown(&self, row: usize) -> [f32; 2] {
        [self.times[row].time_of_day, self.log_to_close[row]]
    }

    /// Whether short, flat and long are legal at the close of a row; flat always is.
    pub fn legal(&self, params: &Params, row: usize) -> [bool; 3] {
        legal_sides(params, &self.table.bars[row])
    }
}

/// Accounts on one table, each in its own episode.
#[derive(Debug, Clone)]
pub struct Environment {
    data: Arc<EpisodeData>,
    /// The number of the first account; where episodes start depends on an account's number.
    first: u32,
    /// `[length]` logarithm of so many bars held, at most [`LOGARITHMS`].
    log_held: Vec<f32>,
    params: Vec<Params>,
    stretches: Vec<Range<u32>>,
    /// `[stretches]` how many starts there are up to each, the last for all.
    starts: Vec<u64>,
    length: u32,
    seed: u64,
    accounts: Accounts,
    /// `[n]` 0, 1, …
    slots: Vec<u32>,
    /// `[n]` the row at whose close each account decides.
    rows: Vec<u32>,
    /// `[n]` the row behind the last that its episode reaches.
    ends: Vec<u32>,
    /// `[n]` episodes that each has begun.
    episodes: Vec<u64>,
    counter: u64,
    observed: Vec<f32>,
    legal: Vec<bool>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// `[n]` of the accounts whose episode ended in the last step, what they were shown at its end.
    last_rows: Vec<u32>,
    last_observed: Vec<f32>,
}

impl Environment {
    /// Accounts of these numbers over stretches of rows (of at least two), each episode `length` steps long. An account
    /// lives the same episodes whatever other numbers are beside it.
    ///
    /// # Panics
    ///
    /// If there is no account, no step, no stretch of two rows, or rows lie outside the table.
    pub fn new(
        data: &Arc<EpisodeData>,
        stretches: &[Range<u32>],
        accounts: Range<u32>,
        length: u32,
        seed: u64,
    ) -> Environment {
        let (n, table) = (accounts.len(), &data.table);
        let stretches: Vec<Range<u32>> = stretches.iter().filter(|s| s.len() >= 2).cloned().collect();
        assert!(!stretches.is_empty() && n > 0 && length > 0, "accounts need steps to take");
        assert!(stretches.iter().all(|s| s.end as usize <= table.bars.len()), "rows of the table");
        let starts = count_starts(&stretches, length);
        let params = vec![table.params[0]; n];
        let mut made = Environment {
            data: Arc::clone(data),
            first: accounts.start,
            log_held: (0..=length.min(LOGARITHMS)).map(|bars| log_bars(f64::from(bars))).collect(),
            accounts: Accounts::new(&params).with_rewards(),
            params,
            stretches,
            starts,
            length,
            seed,
            slots: (0..n as u32).collect(),
            rows: vec![0; n],
            ends: vec![0; n],
            episodes: vec![0; n],
            counter: 0,
            observed: vec![0.0; n * OBSERVED],
            legal: vec![true; n * 3],
            rewards: vec![0.0; n],
            terminated: vec![false; n],
            truncated: vec![false; n],
            last_rows: vec![0; n],
            last_observed: vec![0.0; n * OBSERVED],
        };
        (0..n).for_each(|i| made.begin(i));
        (0..n).for_each(|i| made.show(i));
        made
    }

    /// Starts the next episode of an account: a function of seed, account and episode.
    fn begin(&mut self, i: usize) {
        let episode = self.episodes[i];
        self.episodes[i] += 1;
        let counter = [self.first + i as u32, episode as u32, (episode >> 32) as u32, 0x4550_4953];
        let [low, high, ..] = random::philox(self.seed, counter);
        let draw = u64::from(low) | u64::from(high) << 32;
        let all = self.starts[self.starts.len() - 1];
        let at = ((u128::from(draw) * u128::from(all)) >> 64) as u64;
        let place = self.starts.partition_point(|upto| *upto <= at);
        let before = if place == 0 { 0 } else { self.starts[place - 1] };
        let stretch = &self.stretches[place];
        let row = stretch.start + (at - before) as u32;
        self.rows[i] = row;
        self.ends[i] = stretch.end.min(row.saturating_add(self.length).saturating_add(1));
        self.params[i] = *self.data.params(row);
        self.accounts.replace(i, &self.params[i]);
    }

    /// Writes what an account is shown at its row.
    fn show(&mut self, i: usize) {
        let (row, data, holding) = (self.rows[i] as usize, &*self.data, self.accounts.holding(i));
        // Bars held are whole, and at most as many as an episode has steps.
        let held = self.log_held.get(holding.bars_held as usize);
        let logarithms = [held.map_or_else(|| log_bars(holding.bars_held), |log| *log), data.log_to_close[row]];
        let (bar, time_of_day) = (&data.table.bars[row], data.times[row].time_of_day);
        let observed = shown(&self.params[i], &holding, bar, time_of_day, logarithms);
        self.observed[i * OBSERVED..(i + 1) * OBSERVED].copy_from_slice(&observed);
        self.legal[i * 3..(i + 1) * 3].copy_from_slice(&legal_sides(&self.params[i], bar));
    }

    /// What a policy is shown; it is greedy unless a seed is put in.
    pub fn view(&self) -> View<'_> {
        let Environment { rows, slots, observed, legal, counter, .. } = self;
        View { rows, slots, observed, legal, counter: *counter, seed: None }
    }

    /// Takes every account one bar further; targets are `[n]`.
    ///
    /// # Panics
    ///
    /// If there is not a target for each.
    pub fn step(&mut self, targets: &[f64]) {
        self.accounts.step_each(Orders::targets(targets), &self.data.table.bars, &self.rows);
        self.accounts.rewards(&mut self.rewards);
        self.counter += 1;
        for i in 0..self.rows.len() {
            self.rows[i] += 1;
            self.terminated[i] = self.accounts.events(i).contains(Event::Ruined);
            self.truncated[i] = !self.terminated[i] && self.rows[i] + 1 >= self.ends[i];
            self.show(i);
            if self.terminated[i] || self.truncated[i] {
                self.last_rows[i] = self.rows[i];
                let own = i * OBSERVED..(i + 1) * OBSERVED;
                self.last_observed[own.clone()].copy_from_slice(&self.observed[own]);
                self.begin(i);
                self.show(i);
            }
        }
    }

    /// `[n]` rewards of the last step.
    pub fn rewards(&self) -> &[f64] {
        &self.rewards
    }

    /// `[n]` whose account was ruined in the last step: no value follows.
    pub fn terminated(&self) -> &[bool] {
        &self.terminated
    }

    /// `[n]` whose episode was cut off in the last step: a value follows from [`Environment::last`].
    pub fn truncated(&self) -> &[bool] {
        &self.truncated
    }

    /// Row and observation `[OBSERVED]` of account `i` at the end of its last episode.
    pub fn last(&self, i: usize) -> (u32, &[f32]) {
        (self.last_rows[i], &self.last_observed[i * OBSERVED..(i + 1) * OBSERVED])
    }

    /// Account `i` as it stands.
    pub fn account(&self, i: usize) -> Account {
        self.accounts.account(i)
    }

    /// `[n, STATE]` all that the accounts and their episodes are between two steps.
    pub fn state(&self) -> Vec<f64> {
        let each = |i: usize| {
            let a = self.accounts.account(i);
            let Flows { fee, spread, impact, swap, borrow, funding, dividend, traded, closed } = a.flows;
            let place =
                [f64::from(self.rows[i]), f64::from(self.ends[i]), self.episodes[i] as f64, self.counter as f64];
            let held = [a.equity, a.peak, a.quantity, a.target, a.action, a.mark, a.fx, a.entry, a.bars_held];
            let orders = [a.stop, a.limit, f64::from(u8::from(a.terminated))];
            let flows = [fee, spread, impact, swap, borrow, funding, dividend, traded, closed];
            place.into_iter().chain(held).chain(orders).chain(flows)
        };
        (0..self.rows.len()).flat_map(each).collect()
    }

    /// Puts the accounts back to where [`Environment::state`] was taken; false where it is not of such accounts.
    #[must_use]
    pub fn restore(&mut self, state: &[f64]) -> bool {
        let rows = self.data.table.bars.len() as f64;
        // Four numbers of its place, then what it holds.
        let fits = |own: &[f64]| {
            own[..4].iter().all(|x| *x >= 0.0 && x.fract() == 0.0 && *x < 9e15)
                && own[0] + 1.0 < own[1]
                && own[1] <= rows
        };
        if state.len() != self.rows.len() * STATE || !state.chunks_exact(STATE).all(fits) {
            return false;
        }
        for (i, own) in state.chunks_exact(STATE).enumerate() {
            (self.rows[i], self.ends[i]) = (own[0] as u32, own[1] as u32);
            (self.episodes[i], self.counter) = (own[2] as u64, own[3] as u64);
            self.params[i] = *self.data.params(self.rows[i]);
            self.accounts.replace(i, &self.params[i]);
            let &[equity, peak, quantity, target, action, mark, fx, entry, bars_held, stop, limit, ended] =
                own[4..16].first_chunk().expect("twelve numbers");
            let &[fee, spread, impact, swap, borrow, funding, dividend, traded, closed] =
                own[16..STATE].first_chunk().expect("nine numbers");
            let flows = Flows { fee, spread, impact, swap, borrow, funding, dividend, traded, closed };
            let terminated = ended != 0.0;
            let account = Account {
                equity,
                peak,
                quantity,
                target,
                action,
                mark,
                fx,
                entry,
                bars_held,
                stop,
                limit,
                terminated,
                flows,
            };
            self.accounts.set_account(i, &account);
            self.show(i);
        }
        true
    }
}

/// `[stretches]` how many starts of episodes there are up to each, the last for all. Short stretches have one start; in
/// others an episode of full length fits behind any.
pub fn count_starts(stretches: &[Range<u32>], length: u32) -> Vec<u64> {
    let up_to = stretches.iter().scan(0, |sum, stretch| {
        *sum += u64::from((stretch.len() as u32).saturating_sub(length).max(1));
        Some(*sum)
    });
    up_to.collect()
}

/// Numbers of an account and its episode in [`Environment::state`].
pub const STATE: usize = 25;

/// `[rows]` time of day and bars to a forced close, by the hours of each session.
pub fn row_times(market: &[bars::Bars], table: &PriceTable) -> Vec<RowTime> {
    let mut times = Vec::with_capacity(table.bars.len());
    for (symbol, bars) in market.iter().enumerate() {
        let minutes = bars.instrument.session.clock_minutes(&bars.start);
        let step = (bars.timeframe.ns() as f64 / 60e9).max(1.0);
        let rows = table.symbol(symbol);
        let forced = rows.iter().any(|bar| bar.flat_next != 0.0) && bars.member.is_empty();
        let close = i64::from(bars.instrument.session.close.0);
        for minute in minutes {
            let left = (close - i64::from(minute)).rem_euclid(1440) as f64 / step;
            times.push(RowTime {
                time_of_day: f32::from(minute) / 1440.0,
                bars_to_close: if forced { left as f32 } else { 0.0 },
            });
        }
    }
    times
}
