//! Accounts side by side: many on the bars of one symbol, in one pass over them.
//!
//! Other costs, a delay, shifts in time and thresholds change what an account pays or decides, never what it meets:
//! each is an account of its own, and lanes of eight take a bar together. They end with what [`super::walk`] gives.

use super::walk::{Asking, Course, Moment, times_of};
use account::{Accounts, Action, Orders, Params};
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
