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
//! | 72 | the state: 11 words of slot and epoch, rate, norm, `total`, loss and weight |
//! | 4 × params each | parameters, mean, square, then the average and the gradient where there are any |
//!
//! The length follows from the net, so that nothing is taken before it is known to be there.

use super::backend::Arena;
use super::{EpochState, Population, SlotState, State};
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
            gradient: (state.slot.fault == 1).then(|| backend.read(slot, Arena::Gradient)).transpose()?,
        })
    }

    /// Puts a member back to where a snapshot of it was taken, in this population or in another of the same net, data,
    /// recipe and pins that has this member. It continues with the same bits.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let slot = self.slot(snapshot.state.slot.id)?;
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
        let (was, id) = (&snapshot.state, snapshot.state.slot.id);
        let refuse = |what: String| Err(Error::Invalid(format!("the snapshot of member {id} {what}")));
        let net = self.net.to_string();
        if snapshot.net != net {
            return refuse(format!("was taken of the net `{}`, not of `{net}`", short(&snapshot.net)));
        }
        let rows = [&snapshot.params, &snapshot.mean, &snapshot.square];
        let rows = rows.into_iter().chain(&snapshot.average).chain(&snapshot.gradient);
        if let Some(row) = rows.into_iter().find(|row| row.len() != self.layout.params) {
            return refuse(format!("has a row of {} numbers; this net has {}", row.len(), self.layout.params));
        }
        if snapshot.average.is_some() != self.recipe.average.is_some() {
            let (has, other) = if snapshot.average.is_some() { ("has an", "none") } else { ("has no", "one") };
            return refuse(format!("{has} average of the weights; this recipe asks for {other}"));
        }
        for (what, was, now) in
            [("samples", was.epoch.samples, now.epoch.samples), ("epochs", was.epoch.epochs, now.epoch.epochs)]
        {
            if was != now {
                return refuse(format!("was taken in a training with {was} {what}; this one has {now}"));
            }
        }
        if was.slot.rate.to_bits() != now.slot.rate.to_bits() {
            return refuse(format!("was taken at a learning rate of {}; here it is {}", was.slot.rate, now.slot.rate));
        }
        // What a member can be between two steps; anything else was not written by a population.
        let batch = self.recipe.batch as u64;
        let steps = u64::from(was.epoch.done) * u64::from(was.epoch.samples).div_ceil(batch)
            + u64::from(was.epoch.cursor) / batch;
        let known = [was.slot.active, was.slot.due, was.slot.fault].iter().all(|flag| *flag <= 1)
            && was.epoch.cursor < was.epoch.samples.max(1)
            && u64::from(was.epoch.cursor) % batch == 0
            && u64::from(was.slot.step) == steps
            && (was.slot.active == 0 || was.epoch.done < was.epoch.epochs);
        if was.slot.total != now.slot.total || !known {
            return refuse(format!(
                "is at step {} of {}, epoch {}, sample {}, which is not between two batches of {batch}; it belongs to another recipe",
                was.slot.step, was.slot.total, was.epoch.done, was.epoch.cursor
            ));
        }
        // Where its data lies is this population's affair.
        Ok(State {
            slot: SlotState { index: now.slot.index, ..was.slot },
            epoch: EpochState { list: now.epoch.list, ..was.epoch },
        })
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
        let State { slot, epoch } = &self.state;
        let flags = [slot.id, slot.index, slot.active, slot.due, slot.fault];
        // All lists together are short enough for 32 bits.
        let numbers = [epoch.cursor, epoch.done, slot.step, epoch.samples, epoch.list as u32, epoch.epochs];
        bytes.extend(flags.into_iter().chain(numbers).flat_map(u32::to_le_bytes));
        bytes.extend(slot.rate.to_le_bytes());
        bytes.extend(slot.norm.to_le_bytes());
        bytes.extend(slot.total.to_le_bytes());
        bytes.extend(epoch.loss.to_le_bytes());
        bytes.extend(epoch.weight.to_le_bytes());
        for row in rows {
            bytes.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        }
        bytes
    }

    /// From bytes that [`to_bytes`](Snapshot::to_bytes) made; anything else is refused with the reason.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot> {
        let mut from = Reader { left: bytes };
        if from.take::<8>()? != *MAGIC {
            return Err(no("it does not start with `FBmember`"));
        }
        let [version] = from.words()?;
        if version != VERSION {
            return Err(no(&format!("it is of version {version}, and this program reads version {VERSION}")));
        }
        let [flags] = from.words()?;
        if flags > AVERAGE + GRADIENT {
            return Err(no(&format!("its flags {flags:#x} are not known")));
        }
        let length = usize::try_from(u64::from_le_bytes(from.take()?)).unwrap_or(usize::MAX);
        let Some((text, rest)) = from.left.split_at_checked(length) else { return Err(no("it ends within its net")) };
        from.left = rest;
        let text = std::str::from_utf8(text).map_err(|_| no("its net is not text"))?;
        let net: Net = text.parse().map_err(|e| no(&format!("its net cannot be read: {e}")))?;
        let params = Layout::new(&net)?.params;
        let [id, index, active, due, fault, cursor, done, step, samples, list, epochs] = from.words()?;
        let (rate, norm) = (f32::from_le_bytes(from.take()?), f32::from_le_bytes(from.take()?));
        let [total] = from.words()?;
        let (loss, weight) = (f64::from_le_bytes(from.take()?), f64::from_le_bytes(from.take()?));
        let state = State {
            slot: SlotState { id, index, active, due, fault, step, total, rate, norm },
            epoch: EpochState { cursor, done, samples, epochs, list: list.into(), loss, weight },
        };
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

    fn words<const N: usize>(&mut self) -> Result<[u32; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u32::from_le_bytes(self.take()?);
        }
        Ok(words)
    }
}

fn no(why: &str) -> Error {
    Error::Invalid(format!("this is not a snapshot of a member: {why}; use another copy, or start again"))
}

/// A stranger's words, short and without control characters.
fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_snapshots_round_trip_byte_for_byte() {
        let mut bytes = b"FBmember".to_vec();
        let net = "2-3";
        bytes.extend([1u32, 0].iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend((net.len() as u64).to_le_bytes());
        bytes.extend(net.as_bytes());
        // id, index, active, due, fault, cursor, epoch, step, samples, list, epochs
        bytes.extend((101u32..=111).flat_map(|w| w.to_le_bytes()));
        bytes.extend([0.5f32, 0.25].iter().flat_map(|x| x.to_le_bytes()));
        bytes.extend(114u32.to_le_bytes());
        bytes.extend([1.5f64, 2.5].iter().flat_map(|x| x.to_le_bytes()));
        let params = Layout::new(&net.parse().unwrap()).unwrap().params;
        bytes.extend((0..3 * params).flat_map(|i| (i as f32).to_le_bytes()));

        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        let slot = SlotState {
            id: 101,
            index: 102,
            active: 103,
            due: 104,
            fault: 105,
            step: 108,
            total: 114,
            rate: 0.5,
            norm: 0.25,
        };
        let epoch = EpochState { cursor: 106, done: 107, samples: 109, epochs: 111, list: 110, loss: 1.5, weight: 2.5 };
        assert_eq!(snapshot.state, State { slot, epoch });
        assert_eq!(snapshot.square[params - 1], (3 * params - 1) as f32);
        assert_eq!(snapshot.to_bytes(), bytes);
    }
}
