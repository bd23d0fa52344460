//! Accounts side by side: many on the bars of one symbol, in one pass over them.
//!
//! Other costs, a delay, shifts in time and thresholds change what an account pays or decides, never what it meets:
//! each is an account of its own, and lanes of eight take a bar together. They end with what [`super::walk`] gives.

use super::walk::{Asking, Course, Moment, times_of};
use account::{Account, Accounts, Action, Orders, Params, step};
use features::Span;
use files::Result;
use market::{Needs, Policy, Targets, View, legal_sides, observe};

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
/// # Errors
///
/// The policy's own.
///
/// # Panics
///
/// If there is another number of symbols than one.
pub fn decide_beside(course: &Course<'_>, lanes: &[Lane], policy: &dyn Policy) -> Result<Vec<LaneEnd>> {
    let ([bars], [params]) = (course.market, &course.table.params[..]) else { panic!("lanes are of one symbol") };
    let table = course.table.symbol(0);
    let rows: Vec<std::ops::Range<usize>> =
        lanes.iter().map(|lane| Course { span: lane.span, ..*course }.rows(0)).collect();
    let mut accounts = vec![Account::new(params); lanes.len()];
    let mut decided: Vec<Option<Targets>> =
        lanes.iter().map(|lane| lane.keeps.then(|| Targets::none(course.clock.tick.len()))).collect();
    let (times, mut asking) = (times_of(course, policy), Asking::new(policy, lanes.len()));
    let first = rows.iter().filter(|own| !own.is_empty()).map(|own| own.start).min().unwrap_or(0);
    let end = rows.iter().map(|own| own.end).max().unwrap_or(0);
    let (mut now, mut slots) = (Vec::new(), Vec::new());
    for t in first..end {
        slots.clear();
        slots.extend((0..lanes.len() as u32).filter(|lane| rows[*lane as usize].contains(&t)));
        now.clear();
        now.resize(slots.len(), t as u32);
        if slots.is_empty() {
            continue;
        }
        let show = |row: usize, slot: usize, observed: &mut [f32], legal: &mut [bool]| {
            observe(params, &accounts[slot], &table[row], times[row], observed);
            legal.copy_from_slice(&legal_sides(params, &table[row]));
        };
        let actions = asking.ask(Moment { time: bars.end[t], rows: &now, slots: &slots }, show, None)?;
        for (lane, action) in slots.iter().map(|lane| *lane as usize).zip(actions) {
            if let Some(decided) = &mut decided[lane] {
                decided.actions[t] = *action;
            }
            // The last close decides on an open that nobody walks to.
            if t + 1 < rows[lane].end {
                let mut next = table[t + 1];
                if t + 2 == rows[lane].end && !lanes[lane].keeps {
                    next.close_out = 1.0;
                }
                step(params, &mut accounts[lane], *action, &table[t], &next);
            }
        }
    }
    let ends = decided.into_iter().zip(&accounts).zip(&rows);
    Ok(ends
        .map(|((targets, account), rows)| LaneEnd {
            targets,
            growth: account.equity / params.capital,
            steps: rows.len().saturating_sub(1),
        })
        .collect())
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
