//! Which samples of a file are taken: those of some symbols, from when to when.
//!
//! A sample is inside `from..to` where it was known at `from` or later and its label by `to`: what is kept aside behind
//! `to` is not learned from through a label either. With bars it is the same, since there are no bars behind `to` for a
//! label to look at.

use super::NO_TIME;
use super::sizes::Sizes;
use super::times::{Moments, Times};
use files::time::rfc3339;
use files::{Error, Kind, Result};

/// Which samples are taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Only {
    /// Only these symbols; empty means all.
    pub symbols: Vec<String>,
    /// Only samples that were known at this time or later, in nanoseconds.
    pub from: Option<i64>,
    /// Only samples whose labels were known by then.
    pub to: Option<i64>,
}

impl Only {
    /// All of them.
    pub const ALL: Only = Only { symbols: Vec::new(), from: None, to: None };

    /// Refuses what the file cannot tell.
    pub(super) fn check(&self, sizes: &Sizes) -> Result<()> {
        let usage = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy));
        if self.in_time() && sizes.t0.is_none() {
            return usage(
                "samples cannot be chosen by time: the file has no t0, so when they were known is not in it".into(),
                "save t0 with the arrays, as datetime64 or epochs",
            );
        }
        if !self.symbols.is_empty() && sizes.symbol.is_none() {
            return usage(
                "samples cannot be chosen by symbol: the file has no symbol".into(),
                "save symbol with the arrays, as strings or whole numbers",
            );
        }
        Ok(())
    }

    /// Refuses to compare dates with numbers that somebody counted.
    pub(super) fn check_clock(&self, t0: Option<&Moments>) -> Result<()> {
        match self.in_time() && t0.is_some_and(|t0| !t0.instants) {
            true => Err(Error::new(
                Kind::Usage,
                "samples cannot be chosen by time: t0 holds whole numbers that are no stamps",
            )
            .remedy("save t0 as datetime64 or epochs")),
            false => Ok(()),
        }
    }

    /// Whether samples are chosen by time.
    fn in_time(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// `[ids]` whether each is taken; none where all are.
    pub(super) fn taken(
        &self,
        times: &Times,
        names: &[String],
        symbol: Option<&[u32]>,
        notes: &mut Vec<String>,
    ) -> Result<Option<Vec<bool>>> {
        if *self == Only::ALL {
            return Ok(None);
        }
        if let Some(strange) = self.symbols.iter().find(|s| !names.contains(s)) {
            let some = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            let more = if names.len() > 5 { format!(" and {} more", names.len() - 5) } else { String::new() };
            return Err(Error::new(Kind::Usage, format!("there is no sample of the symbol {strange}"))
                .remedy(format!("the file has {some}{more}")));
        }
        let mine: Vec<bool> = names.iter().map(|name| self.symbols.is_empty() || self.symbols.contains(name)).collect();
        let known = |id: usize| times.is_known(id);
        let of_mine = |id: usize| symbol.is_none_or(|symbol| mine[symbol[id] as usize]);
        let early = |id: usize| self.from.is_some_and(|from| times.t0[id] < from);
        let late = |id: usize| self.to.is_some_and(|to| times.t0[id] >= to);
        let reaches = |id: usize| self.to.is_some_and(|to| times.t1[id] > to);
        let n = times.t0.len();
        let taken: Vec<bool> = (0..n).map(|id| of_mine(id) && !early(id) && !late(id) && !reaches(id)).collect();
        if !(0..n).any(|id| taken[id] && known(id)) {
            let all = || times.t0.iter().filter(|t| **t != NO_TIME);
            let span = match (all().min(), all().max()) {
                (Some(first), Some(last)) if self.in_time() => {
                    format!("they run from {} to {}", rfc3339(*first), rfc3339(*last))
                }
                _ => "choose more of them".to_string(),
            };
            return Err(Error::new(Kind::Usage, "no sample is of the chosen symbols and time").remedy(span));
        }
        let count = |left: &dyn Fn(usize) -> bool| (0..n).filter(|id| known(*id) && left(*id)).count();
        let outside = count(&|id| early(id) || late(id));
        let through = count(&|id| !early(id) && !late(id) && reaches(id));
        let others = count(&|id| !of_mine(id));
        if others > 0 {
            notes.push(format!("{others} of {n} samples are of other symbols and left out"));
        }
        if self.in_time() {
            let label = if through > 0 {
                format!(", and {through} more whose labels are known only after its end")
            } else {
                String::new()
            };
            notes.push(format!("{outside} of {n} samples are outside the chosen time and left out{label}"));
        }
        Ok(Some(taken))
    }
}
