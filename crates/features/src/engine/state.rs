//! What an engine remembers, as a list of 64-bit words: one visit saves it, the same visit restores it.

/// Goes through an engine's numbers in a fixed order.
pub(crate) enum State<'a> {
    /// Words are added.
    Save(&'a mut Vec<u64>),
    /// Words are taken from the front; `short` says that there were too few.
    Load { words: &'a [u64], short: bool },
}

impl State<'_> {
    /// One word.
    pub(crate) fn word(&mut self, word: &mut u64) {
        match self {
            State::Save(words) => words.push(*word),
            State::Load { words, short } => match words.split_first() {
                Some((first, rest)) => {
                    *word = *first;
                    *words = rest;
                }
                None => *short = true,
            },
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
        for value in rows.iter_mut().flatten() {
            self.number(value);
        }
    }
}
