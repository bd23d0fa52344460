//! Accounts side by side: many on the bars of one symbol, in one pass over them.
//!
//! Other costs, a delay, shifts in time and thresholds change what an account pays or decides, never what it meets:
//! each is an account of its own, and lanes of eight take a bar together. They end with what [`super::walk`] gives.

use super::walk::{Asking, Course, Moment, times_of};
use account::{Account, Accounts, Action, Bar, Orders, Params, step};
use features::Span;
use files::Result;
use market::{Needs, OBSERVED, Policy, RowTime, Targets, View, legal_sides, observe};
use std::ops::Range;

/// Walks a policy through accounts of one symbol, one for each of `params`; `at_close` is given the number of each step
/// and what the accounts are worth behind it.
///
/// # Errors
///
/// The policy's own.
pub(super) fn walk_beside(
    course: &Course<'_>,
    params: &[Params],
    policy: &dyn Policy,
    mut at_close: impl FnMut(usize, &[f64]),
) -> Result<Accounts> {
    let (bars, rows, table) = (&course.market[0], course.rows(0), course.table.symbol(0));
    let n = params.len();
    let (mut now, slots): (Vec<u32>, Vec<u32>) = (vec![0; n], (0..n as u32).collect());
    let [mut target, mut stop, mut limit, mut equity] = [(); 4].map(|()| vec![0.0; n]);
    let (times, mut asking, mut accounts) = (times_of(course, policy), Asking::new(policy, n), Accounts::new(params));
    for t in rows.start..rows.end.saturating_sub(1) {
        now.fill(t as u32);
        let show = |row: usize, slot: usize, observed: &mut [f32], legal: &mut [bool]| {
            observe(&params[slot], &accounts.account(slot), &table[row], times[row], observed);
            legal.copy_from_slice(&legal_sides(&params[slot], &table[row]));
        };
        let moment = Moment { time: bars.end[t], rows: &now, slots: &slots };
        for (i, action) in asking.ask(moment, show, None)?.iter().enumerate() {
            (target[i], stop[i], limit[i]) = (action.target, action.stop, action.limit);
        }
        let mut next = table[t + 1];
        if t + 2 == rows.end {
            next.close_out = 1.0;
        }
        accounts.step(Orders { target: &target, stop: &stop, limit: &limit }, &table[t], &next);
        accounts.equity(&mut equity);
        at_close(t - rows.start, &equity);
    }
    Ok(accounts)
}

/// An account of one symbol that walks through a part of a course, beside others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lane {
    /// Where it walks, from flat.
    pub span: Span,
    /// What is decided is kept, and the last position stays open, as [`super::decide`] does; else it is closed at cost,
    /// as [`super::walk`] does, and only what it is worth is kept.
    pub keeps: bool,
}

/// Where a lane ended.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneEnd {
    /// What was decided, where it is kept.
    pub targets: Option<Targets>,
    /// Equity at the end, as a multiple of that at the start.
    pub growth: f64,
    /// Steps from close to close.
    pub steps: usize,
}

/// `[lanes]` what a policy that looks at its account decides where several accounts of one symbol walk side by side: it
/// is asked once at a close for all that are there, and a slot of its view is the number of a lane.
///
/// A policy that answers about many closes as fast as about one ([`Needs::closes_at_once`]) is asked ahead: about the
/// closes that come if it goes on as expected. Its answers count up to the first close at which an account is shown
/// something else, so that every decision is the one of a walk close by close, to the bit.
///
/// # Errors
///
/// The policy's own.
///
/// # Panics
///
/// If there is another number of symbols than one.
pub fn decide_beside(course: &Course<'_>, lanes: &[Lane], policy: &dyn Policy) -> Result<Vec<LaneEnd>> {
    let walk = LaneWalk::new(course, lanes, policy);
    let needs = policy.needs();
    let most = if needs.memory == 0 { needs.closes_at_once.max(1) } else { 1 };
    let mut accounts = vec![Account::new(walk.params); lanes.len()];
    let mut decided: Vec<Option<Targets>> =
        lanes.iter().map(|lane| lane.keeps.then(|| Targets::none(course.clock.tick.len()))).collect();
    let (mut memory, mut counter) = (policy.start(lanes.len()), 0);
    let (mut shown, mut actions, mut expected) = (Shown::default(), Vec::new(), Expected::new(lanes.len()));
    let closes = walk.closes();
    let (mut t, mut ahead) = (closes.start, 1);
    while t < closes.end {
        let end = (t + ahead).min(closes.end);
        walk.show_ahead(accounts.clone(), t..end, &expected, &mut shown);
        actions.clear();
        actions.resize(shown.rows.len(), Action::target(f64::NAN));
        if !actions.is_empty() {
            policy.act(&shown.view(counter), &mut memory, &mut actions)?;
            counter += 1;
        }
        let from = t;
        while t < end && walk.is_shown(&accounts, t, &shown, t - from) {
            for place in shown.places(t - from) {
                let (lane, action) = (shown.slots[place] as usize, actions[place]);
                if let Some(decided) = &mut decided[lane] {
                    decided.actions[t] = action;
                }
                walk.step(lane, &mut accounts[lane], t, action);
            }
            t += 1;
        }
        expected.take(&shown, &actions, from, t);
        ahead = (2 * (t - from)).clamp(FEWEST.min(most), most);
    }
    let ends = decided.into_iter().zip(&accounts).zip(&walk.rows);
    Ok(ends
        .map(|((targets, account), rows)| LaneEnd {
            targets,
            growth: account.equity / walk.params.capital,
            steps: rows.len().saturating_sub(1),
        })
        .collect())
}

/// Closes that are asked about behind one that came otherwise than expected.
const FEWEST: usize = 4;

/// Lanes on the bars of one symbol.
struct LaneWalk<'a> {
    lanes: &'a [Lane],
    params: &'a Params,
    table: &'a [Bar],
    times: Vec<RowTime>,
    /// `[lanes]` the bars of each.
    rows: Vec<Range<usize>>,
}

impl<'a> LaneWalk<'a> {
    fn new(course: &Course<'a>, lanes: &'a [Lane], policy: &dyn Policy) -> LaneWalk<'a> {
        let ([_], [params]) = (course.market, &course.table.params[..]) else { panic!("lanes are of one symbol") };
        let rows = lanes.iter().map(|lane| Course { span: lane.span, ..*course }.rows(0)).collect();
        LaneWalk { lanes, params, table: course.table.symbol(0), times: times_of(course, policy), rows }
    }

    /// From the first close of any lane to the last.
    fn closes(&self) -> Range<usize> {
        let walked = || self.rows.iter().filter(|own| !own.is_empty());
        walked().map(|own| own.start).min().unwrap_or(0)..walked().map(|own| own.end).max().unwrap_or(0)
    }

    fn show(&self, account: &Account, t: usize) -> ([f32; OBSERVED], [bool; 3]) {
        let mut observed = [0.0; OBSERVED];
        if let Some(time) = self.times.get(t) {
            observe(self.params, account, &self.table[t], *time, &mut observed);
        }
        (observed, legal_sides(self.params, &self.table[t]))
    }

    /// The last close decides on an open that nobody walks to.
    fn step(&self, lane: usize, account: &mut Account, t: usize, action: Action) {
        let end = self.rows[lane].end;
        if t + 1 < end {
            let mut next = self.table[t + 1];
            if t + 2 == end && !self.lanes[lane].keeps {
                next.close_out = 1.0;
            }
            step(self.params, account, action, &self.table[t], &next);
        }
    }

    /// What accounts are shown at some closes if they go on as expected.
    fn show_ahead(&self, mut accounts: Vec<Account>, closes: Range<usize>, expected: &Expected, shown: &mut Shown) {
        shown.clear();
        for t in closes.clone() {
            for lane in (0..self.lanes.len()).filter(|lane| self.rows[*lane].contains(&t)) {
                let (observed, legal) = self.show(&accounts[lane], t);
                shown.push(t, lane, &observed, &legal);
                if t + 1 < closes.end {
                    self.step(lane, &mut accounts[lane], t, expected.at(lane, t));
                }
            }
            shown.ends.push(shown.rows.len());
        }
    }

    /// Whether accounts are shown at a close what was expected.
    fn is_shown(&self, accounts: &[Account], t: usize, shown: &Shown, number: usize) -> bool {
        number == 0
            || shown.places(number).all(|place| {
                let (observed, _) = self.show(&accounts[shown.slots[place] as usize], t);
                let expected = &shown.observed[place * OBSERVED..(place + 1) * OBSERVED];
                expected.iter().zip(&observed).all(|(a, b)| a.to_bits() == b.to_bits())
            })
    }
}

/// What a policy is shown at some closes in a row.
#[derive(Default)]
struct Shown {
    /// `[closes]` where the rows of each end.
    ends: Vec<usize>,
    rows: Vec<u32>,
    slots: Vec<u32>,
    observed: Vec<f32>, // [rows, OBSERVED]
    legal: Vec<bool>,   // [rows, 3]
}

impl Shown {
    fn clear(&mut self) {
        self.ends.clear();
        self.rows.clear();
        self.slots.clear();
        self.observed.clear();
        self.legal.clear();
    }

    fn push(&mut self, row: usize, slot: usize, observed: &[f32], legal: &[bool]) {
        self.rows.push(row as u32);
        self.slots.push(slot as u32);
        self.observed.extend(observed);
        self.legal.extend(legal);
    }

    fn places(&self, close: usize) -> Range<usize> {
        close.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[close]
    }

    fn view(&self, counter: u64) -> View<'_> {
        let Shown { rows, slots, observed, legal, .. } = self;
        View { rows, slots, observed, legal, counter, seed: None }
    }
}

/// What is expected to be decided: what was said about a close on the wrong account, else the decision before it.
struct Expected {
    /// `[lanes]` the last decision of each.
    last: Vec<Action>,
    /// `[lanes]` what was said of the closes from `from` on.
    said: Vec<Vec<Action>>,
    from: usize,
}

impl Expected {
    fn new(lanes: usize) -> Expected {
        Expected { last: vec![Action::target(f64::NAN); lanes], said: vec![Vec::new(); lanes], from: 0 }
    }

    fn at(&self, lane: usize, t: usize) -> Action {
        self.said[lane].get(t - self.from).copied().unwrap_or(self.last[lane])
    }

    /// What was said from close `from` on, of which decisions before close `t` count.
    fn take(&mut self, shown: &Shown, actions: &[Action], from: usize, t: usize) {
        self.said.iter_mut().for_each(Vec::clear);
        self.from = t;
        for close in from..from + shown.ends.len() {
            for place in shown.places(close - from) {
                let lane = shown.slots[place] as usize;
                self.last[lane] = actions[place];
                if close >= t {
                    self.said[lane].push(actions[place]);
                }
            }
        }
    }
}

/// Decisions that are known beforehand, other ones for each account.
pub(super) struct Replays<'a>(pub(super) Vec<&'a Targets>);

impl Policy for Replays<'_> {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> Result<()> {
        for ((row, slot), action) in view.rows.iter().zip(view.slots).zip(actions) {
            *action = self.0[*slot as usize].actions[*row as usize];
        }
        Ok(())
    }
}
