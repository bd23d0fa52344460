//! What an engine remembers, as a list of 64-bit words: one visit saves it, the same visit restores it.

/// Goes through an engine's numbers in a fixed order.
pub(crate) enum State<'a> {
    /// Words are added.
    Save(&'a mut Vec<u64>),
    /// Words are taken from the front; `short` says that there were too few.
    Load { words: &'a [u64], short: bool },
    /// Words of one lane are added, of what still matters only: where they are equal, so is everything that follows.
    Take { lane: usize, words: &'a mut Vec<u64> },
    /// What was taken goes into a lane.
    Give { lane: usize, words: &'a [u64] },
}

impl State<'_> {
    /// Whether only what still matters is visited.
    pub(crate) fn is_brief(&self) -> bool {
        matches!(self, State::Take { .. } | State::Give { .. })
    }

    /// Whether this lane is visited.
    pub(crate) fn visits(&self, lane: usize) -> bool {
        !matches!(self, State::Take { lane: only, .. } | State::Give { lane: only, .. } if *only != lane)
    }

    /// One word.
    pub(crate) fn word(&mut self, word: &mut u64) {
        match self {
            State::Save(words) | State::Take { words, .. } => words.push(*word),
            State::Load { words, short } => match words.split_first() {
                Some((first, rest)) => {
                    *word = *first;
                    *words = rest;
                }
                None => *short = true,
            },
            State::Give { words, .. } => {
                if let Some((first, rest)) = words.split_first() {
                    *word = *first;
                    *words = rest;
                }
            }
        }
    }

    /// A number, every bit of it.
    pub(crate) fn number(&mut self, number: &mut f64) {
        let mut word = number.to_bits();
        self.word(&mut word);
        *number = f64::from_bits(word);
    }

    /// A count.
    pub(crate) fn count(&mut self, count: &mut usize) {
        let mut word = *count as u64;
        self.word(&mut word);
        *count = word as usize;
    }

    /// Rows of lanes.
    pub(crate) fn lanes<const W: usize>(&mut self, rows: &mut [[f64; W]]) {
        // All of them are there, nearly always, and then they are copied.
        if let State::Load { words, .. } = self
            && let Some((mine, rest)) = words.split_at_checked(rows.len() * W)
        {
            rows.as_flattened_mut().iter_mut().zip(mine).for_each(|(value, word)| *value = f64::from_bits(*word));
            *words = rest;
            return;
        }
        for row in rows {
            match self {
                State::Take { lane, .. } | State::Give { lane, .. } => {
                    let lane = *lane;
                    self.number(&mut row[lane]);
                }
                _ => row.iter_mut().for_each(|value| self.number(value)),
            }
        }
    }

    /// Counts of which only this matters: how far they are from being enough.
    pub(crate) fn up_to<const W: usize>(&mut self, counts: &mut [f64; W], enough: usize) {
        match self {
            State::Take { lane, words } => words.push(counts[*lane].min(enough as f64).to_bits()),
            _ => self.lanes(std::slice::from_mut(counts)),
        }
    }
}
