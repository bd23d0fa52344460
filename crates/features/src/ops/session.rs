//! Something since the trading day began. The first day of a run may have begun before the data did, so it counts for
//! nothing.

use crate::engine::{Body, Feed, State};

/// What is kept of the day so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// The sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The first.
    First,
}

/// [`Since`] with its state. Arguments: the value, and the number of its trading day.
pub(super) struct Session<const W: usize> {
    since: Since,
    day: [f64; W],
    value: [f64; W],
}

impl<const W: usize> Session<W> {
    pub(super) fn new(since: Since) -> Self {
        // The day of no bar, and the value of a day whose beginning was not seen, are NaN.
        Session { since, day: [f64::NAN; W], value: [f64::NAN; W] }
    }
}

impl<const W: usize> Body<W> for Session<W> {
    #[inline(always)]
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        let (x, days) = (feed.arg(0, 0), feed.arg(1, 0));
        for ((out, x), day) in out.iter_mut().zip(x).zip(days) {
            for l in 0..W {
                let fresh = (day[l] != self.day[l]) & !self.day[l].is_nan();
                let held = self.value[l];
                let joined = match self.since {
                    Since::Sum => held + x[l],
                    Since::Max => {
                        if held > x[l] {
                            held
                        } else {
                            x[l]
                        }
                    }
                    Since::Min => {
                        if held < x[l] {
                            held
                        } else {
                            x[l]
                        }
                    }
                    Since::First => held,
                };
                // A value that is missing spoils the rest of its day.
                let joined = if held.is_finite() & x[l].is_finite() { joined } else { f64::NAN };
                let first = if x[l].is_finite() { x[l] } else { f64::NAN };
                self.value[l] = if fresh { first } else { joined };
                self.day[l] = day[l];
                out[l] = self.value[l];
            }
        }
        super::all_finite(out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.lanes(std::slice::from_mut(&mut self.day));
        state.lanes(std::slice::from_mut(&mut self.value));
    }
}
