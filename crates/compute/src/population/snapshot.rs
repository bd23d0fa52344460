//! All that a member is, as plain data: what a population made anew continues from with the same bits.
//!
//! A [`Snapshot`] holds the member's [`State`], its row of every arena that outlives a step, and the text of its net.
//! As bytes it is, all numbers little-endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `FBmember` |
//! | 4, 4 | the version of this format, 1; flags: 1 there is an average of the weights, 2 there is a gradient |
//! | 8, n | the length of the net's text, and the text |
//! | 72 | the state, field after field |
//! | 4 × params each | parameters, mean, square, then the average and the gradient where there are any |
//!
//! The length follows from the net, so that nothing is taken before it is known to be there.

use super::backend::Arena;
use super::{Population, State};
use crate::error::{Error, Result};
use crate::net::{Layout, Net};

const MAGIC: &[u8; 8] = b"FBmember";
const VERSION: u32 = 1;
const AVERAGE: u32 = 1;
const GRADIENT: u32 = 2;
/// Bytes of a state.
const STATE: usize = 72;

/// A member as it was between two steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its net, as text.
    pub net: String,
    /// How far it is.
    pub state: State,
    /// `[params]` its weights, never their average.
    pub params: Vec<f32>,
    /// `[params]` the optimiser's mean of gradients.
    pub mean: Vec<f32>,
    /// `[params]` the optimiser's mean of squares.
    pub square: Vec<f32>,
    /// `[params]` the average of its weights, where its recipe has one.
    pub average: Option<Vec<f32>>,
    /// `[params]` the gradient that stopped it, where one did: the reason is read from it.
    pub gradient: Option<Vec<f32>>,
}

impl Population {
    /// A member as it is now.
    pub fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let slot = self.slot(id)?;
        let state = self.states[slot];
        let backend = &mut self.backend;
        Ok(Snapshot {
            net: self.net.to_string(),
            state,
            params: backend.read(slot, Arena::Params)?,
            mean: backend.read(slot, Arena::Mean)?,
            square: backend.read(slot, Arena::Square)?,
            average: self.recipe.average.map(|_| backend.read(slot, Arena::Average)).transpose()?,
            gradient: (state.fault == 1).then(|| backend.read(slot, Arena::Gradient)).transpose()?,
        })
    }

    /// Puts a member back to where a snapshot of it was taken, in this population or in another of the same net, data,
    /// recipe and pins that has this member. It continues with the same bits.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let slot = self.slot(snapshot.state.id)?;
        let state = self.fitting(snapshot, &self.states[slot])?;
        let rows = [
            (Arena::Mean, Some(&snapshot.mean)),
            (Arena::Square, Some(&snapshot.square)),
            (Arena::Average, snapshot.average.as_ref()),
            (Arena::Gradient, snapshot.gradient.as_ref()),
            (Arena::Params, Some(&snapshot.params)),
        ];
        for (arena, row) in rows {
            if let Some(row) = row {
                self.backend.write(slot, arena, row)?;
            }
        }
        self.states[slot] = state;
        self.backend.set_states(&self.states)
    }

    /// The state a member has after a restore, or why it cannot be restored.
    fn fitting(&self, snapshot: &Snapshot, now: &State) -> Result<State> {
        let (was, id) = (&snapshot.state, snapshot.state.id);
        let refuse = |what: String| Err(Error::Asked(format!("the snapshot of member {id} {what}")));
        let net = self.net.to_string();
        if snapshot.net != net {
            return refuse(format!("is of the net `{}`, not of `{net}`", short(&snapshot.net)));
        }
        let rows = [&snapshot.params, &snapshot.mean, &snapshot.square];
        let rows = rows.into_iter().chain(&snapshot.average).chain(&snapshot.gradient);
        if let Some(row) = rows.into_iter().find(|row| row.len() != self.layout.params) {
            return refuse(format!("has a row of {} numbers, and this net has {}", row.len(), self.layout.params));
        }
        if snapshot.average.is_some() != self.recipe.average.is_some() {
            let (has, other) = if snapshot.average.is_some() { ("has an", "none") } else { ("has no", "one") };
            return refuse(format!("{has} average of the weights, and this recipe asks for {other}"));
        }
        for (what, was, now) in [("samples", was.samples, now.samples), ("epochs", was.epochs, now.epochs)] {
            if was != now {
                return refuse(format!("is of a training of {was} {what}, and here it has {now}"));
            }
        }
        if was.rate.to_bits() != now.rate.to_bits() {
            return refuse(format!("is of a rate of {}, and here it is {}", was.rate, now.rate));
        }
        // What a member can be between two steps; anything else was not written by a population.
        let batch = self.recipe.batch as u64;
        let steps = u64::from(was.epoch) * u64::from(was.samples).div_ceil(batch) + u64::from(was.cursor) / batch;
        let known = [was.active, was.due, was.fault].iter().all(|flag| *flag <= 1)
            && was.cursor < was.samples.max(1)
            && u64::from(was.cursor) % batch == 0
            && u64::from(was.step) == steps
            && (was.active == 0 || was.epoch < was.epochs);
        if was.total != now.total || !known {
            return refuse(format!(
                "stands at step {} of {}, epoch {}, sample {}: no place between two batches of {batch}; it is of another recipe",
                was.step, was.total, was.epoch, was.cursor
            ));
        }
        // Where its data lies is this population's affair.
        Ok(State { index: now.index, list: now.list, ..*was })
    }
}

impl Snapshot {
    /// As bytes, to be stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rows =
            [Some(&self.params), Some(&self.mean), Some(&self.square), self.average.as_ref(), self.gradient.as_ref()];
        let rows: Vec<&Vec<f32>> = rows.into_iter().flatten().collect();
        let numbers = rows.iter().map(|row| row.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(24 + self.net.len() + STATE + 4 * numbers);
        bytes.extend(MAGIC);
        let average = if self.average.is_some() { AVERAGE } else { 0 };
        let gradient = if self.gradient.is_some() { GRADIENT } else { 0 };
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((average | gradient).to_le_bytes());
        bytes.extend((self.net.len() as u64).to_le_bytes());
        bytes.extend(self.net.as_bytes());
        let s = &self.state;
        let words = [s.id, s.index, s.active, s.due, s.fault, s.cursor, s.epoch, s.step, s.samples, s.list, s.epochs];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(s.rate.to_le_bytes());
        bytes.extend(s.norm.to_le_bytes());
        bytes.extend(s.total.to_le_bytes());
        bytes.extend(s.loss.to_le_bytes());
        bytes.extend(s.weight.to_le_bytes());
        for row in rows {
            bytes.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        }
        bytes
    }

    /// From bytes that [`to_bytes`](Snapshot::to_bytes) made; anything else is refused with the reason.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot> {
        let mut from = Reader { left: bytes };
        if from.take::<8>()? != *MAGIC {
            return Err(no("it does not begin as one does"));
        }
        let version = from.word()?;
        if version != VERSION {
            return Err(no(&format!("it is of version {version}, and this program reads version {VERSION}")));
        }
        let flags = from.word()?;
        if flags > AVERAGE + GRADIENT {
            return Err(no(&format!("its flags {flags:#x} are not known")));
        }
        let length = usize::try_from(u64::from_le_bytes(from.take()?)).unwrap_or(usize::MAX);
        let Some((text, rest)) = from.left.split_at_checked(length) else { return Err(no("it ends within its net")) };
        from.left = rest;
        let text = std::str::from_utf8(text).map_err(|_| no("its net is no text"))?;
        let net: Net = text.parse().map_err(|e| no(&format!("its net cannot be read: {e}")))?;
        let params = Layout::new(&net)?.params;
        let mut state = State::default();
        let s = &mut state;
        for word in [
            &mut s.id,
            &mut s.index,
            &mut s.active,
            &mut s.due,
            &mut s.fault,
            &mut s.cursor,
            &mut s.epoch,
            &mut s.step,
            &mut s.samples,
            &mut s.list,
            &mut s.epochs,
        ] {
            *word = from.word()?;
        }
        (s.rate, s.norm) = (f32::from_le_bytes(from.take()?), f32::from_le_bytes(from.take()?));
        s.total = from.word()?;
        (s.loss, s.weight) = (f64::from_le_bytes(from.take()?), f64::from_le_bytes(from.take()?));
        let rows = 3 + u64::from(flags.count_ones());
        let wanted = 4 * rows * params as u64;
        if from.left.len() as u64 != wanted {
            let got = from.left.len();
            return Err(no(&format!("{got} bytes follow its state, and its net `{}` has {wanted}", short(text))));
        }
        let mut row = || {
            let (row, rest) = from.left.split_at(4 * params);
            from.left = rest;
            row.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect::<Vec<f32>>()
        };
        Ok(Snapshot {
            net: net.to_string(),
            state,
            params: row(),
            mean: row(),
            square: row(),
            average: (flags & AVERAGE != 0).then(&mut row),
            gradient: (flags & GRADIENT != 0).then(&mut row),
        })
    }
}

/// What is not yet read.
struct Reader<'a> {
    left: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.left.split_first_chunk().ok_or_else(|| no("it is cut off"))?;
        self.left = rest;
        Ok(*first)
    }

    fn word(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }
}

fn no(why: &str) -> Error {
    Error::Asked(format!("these bytes are no snapshot of a member: {why}; take it from another copy, or begin anew"))
}

/// A stranger's words, short and without control characters.
fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
