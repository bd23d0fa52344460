//! Everything trains as a population: members with their own data, rate and pace, in one arena and one step.
//!
//! A [`Population`] is nets of one shape. Each member has a row of the arena `[P, params]` and a [`State`] beside it on
//! the device: how far it is in which epoch, at which rate, whether it is active and whether it is due for validation.
//! One step is one batch for every active member at its own cursor. The host asks for a chunk of steps, then looks once
//! at `active` and `due`.
//!
//! What a member becomes does not depend on how many others there are, on its slot or on the chunks: its order of
//! samples is keyed by its id, its sums have a fixed order, and a member that is due waits for its validation.

pub(crate) mod backend;
pub(crate) mod check;
mod describe;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
pub(crate) mod make;
#[cfg(test)]
mod parts;
mod slots;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) mod world;

pub use describe::{
    Data, EpochState, Member, Optimiser, Pace, Pins, Precision, Recipe, Rule, Scale, Schedule, Score, Shape, SlotState,
    State, Status,
};
pub use snapshot::Snapshot;

use crate::device::{Budget, Device, Opened};
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
use crate::tables::Tables;
use backend::{Arena, Backend};
use std::sync::Arc;

/// The host looks at the members' states at least after so many steps.
pub const CHUNK: u32 = 32;

/// Nets of one shape that train side by side on one device.
pub struct Population {
    net: Net,
    layout: Layout,
    recipe: Recipe,
    backend: Box<dyn Backend>,
    /// `[P]` by slot, as they were when the host looked last; only `steps` lets them change on the device.
    states: Vec<State>,
    device: Device,
    needed: u64,
}

impl Population {
    /// Sets up members on a device: checks everything, counts the memory, refuses what does not fit, and draws the
    /// first weights.
    pub fn new(
        device: &Opened,
        budget: Budget,
        net: &Net,
        tables: &Arc<Tables>,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
    ) -> Result<Population> {
        Population::paced(device, budget, net, tables, data, recipe, members, &Pins::default(), Pace::default())
    }

    /// The same, with the algorithms of an earlier run or of a tuning, and batches that go through the net in parts.
    #[expect(clippy::too_many_arguments, reason = "a population is these things")]
    pub fn paced(
        device: &Opened,
        budget: Budget,
        net: &Net,
        tables: &Arc<Tables>,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
        pins: &Pins,
        pace: Pace,
    ) -> Result<Population> {
        let layout = Layout::new(net)?;
        check::check(net, tables, data, recipe, members)?;
        check::pace(recipe, pace)?;
        let needed = Population::need(device, net, data, recipe, members, pace)?;
        let most = device.room(budget, tables.bytes(), true)?;
        if needed > most {
            return Err(Error::Memory {
                what: format!("a population of {} with batches of {}", members.len(), describe_batch(recipe, pace)),
                device: device.name(),
                needed,
                budget: most,
                fits: fits(device, most, net, data, recipe, members, pace)?,
            });
        }
        let mut backend: Box<dyn Backend> = match device {
            Opened::Cpu { threads } => {
                Box::new(crate::cpu::Engine::paced(pace, net, &layout, tables, data, recipe, members, *threads)?)
            }
            Opened::Cuda(context) => {
                let path = crate::cuda::KernelPath::Rule;
                let layout = &layout;
                Box::new(crate::cuda::Engine::new(
                    path, pace, context, net, layout, tables, data, recipe, members, pins, None,
                )?)
            }
        };
        let states = backend.states()?;
        Ok(Population { net: net.clone(), layout, recipe: *recipe, backend, states, device: device.device(), needed })
    }

    /// Bytes that such a population takes on the device beside its tables.
    pub fn need(
        device: &Opened,
        net: &Net,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
        pace: Pace,
    ) -> Result<u64> {
        let layout = Layout::new(net)?;
        Ok(match device {
            Opened::Cpu { threads } => crate::cpu::need(net, &layout, data, recipe, members.len(), *threads, pace),
            Opened::Cuda(context) => crate::cuda::need(context.gpu().shared, net, &layout, data, recipe, members, pace),
        })
    }

    /// Makes what steps and validations of all members need (kernels, graphs), so that a device without room for it
    /// says so before the first step. Nobody needs to call it.
    pub fn prepare(&mut self) -> Result<()> {
        self.backend.prepare(self.states.len())
    }

    /// At most so many steps of every active member, at most [`CHUNK`] and no more than the next member needs to become
    /// due; then what they say, in the order in which they were given. Members that are due wait.
    pub fn steps(&mut self, most: u32) -> Result<Vec<Status>> {
        // No further than the first that will be due: a longer chunk would only let the others run ahead of it.
        let running = self.states.iter().filter(|s| s.slot.active == 1 && s.slot.due == 0);
        let batch = u32::try_from(self.recipe.batch).unwrap_or(u32::MAX);
        let next = running.map(|s| (s.epoch.samples - s.epoch.cursor).div_ceil(batch)).min().unwrap_or(0);
        let steps = next.min(most).min(CHUNK);
        if steps > 0 {
            let used = slots::compact(&mut self.states, &mut *self.backend)?;
            self.backend.steps(used, steps)?;
            self.states = self.backend.states()?;
        }
        Ok(slots::statuses(&self.states))
    }

    /// Validates every member that is due on its list, and lets them go on.
    pub fn validate(&mut self) -> Result<Vec<Score>> {
        let due = self.states.iter().rposition(|s| s.slot.due == 1);
        let Some(last) = due else { return Ok(Vec::new()) };
        let scores = self.score(last + 1)?;
        self.states.iter_mut().for_each(|s| s.slot.due = 0);
        self.backend.set_states(&self.states)?;
        Ok(scores)
    }

    /// Lets every member that is due go on without its validation.
    pub fn stop_waiting(&mut self) -> Result<()> {
        self.states.iter_mut().for_each(|s| s.slot.due = 0);
        self.backend.set_states(&self.states)
    }

    /// Scores every member on its validation list now, due or not, and leaves them as they are.
    pub fn score_all(&mut self) -> Result<Vec<Score>> {
        let all: Vec<State> = self.states.iter().map(|s| s.with_due(1)).collect();
        let before = std::mem::replace(&mut self.states, all);
        let scored = self.backend.set_states(&self.states).and_then(|()| self.score(self.states.len()));
        self.states = before;
        self.backend.set_states(&self.states)?;
        scored
    }

    /// Scores of those among the first slots that are due, in the order in which the members were given.
    fn score(&mut self, used: usize) -> Result<Vec<Score>> {
        let sums = self.backend.score(slots::rounded(used, self.states.len()))?;
        let due = self.states.iter().zip(sums).filter(|(state, _)| state.slot.due == 1);
        let score = |(state, sums): (&State, backend::Sums)| {
            let loss = if sums.weight > 0.0 { sums.loss / sums.weight } else { f64::NAN };
            (state.slot.index, Score { id: state.slot.id, epoch: state.epoch.done, loss, confusion: sums.confusion })
        };
        let mut scores: Vec<(u32, Score)> = due.map(score).collect();
        scores.sort_by_key(|s| s.0);
        Ok(scores.into_iter().map(|s| s.1).collect())
    }

    /// Ends a member's training; its parameters stay.
    pub fn stop(&mut self, id: u32) -> Result<()> {
        let state = self.states.iter_mut().find(|s| s.slot.id == id).ok_or_else(|| unknown(id))?;
        (state.slot.active, state.slot.due) = (0, 0);
        self.backend.set_states(&self.states)
    }

    /// A member's parameters and what the optimiser knows of them become another's, without a way over the host; its
    /// data, rate and place in its epoch stay its own.
    pub fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        self.backend.adopt(from, to)
    }

    /// What all members say now, in the order in which they were given.
    pub fn statuses(&self) -> Vec<Status> {
        slots::statuses(&self.states)
    }

    /// `[heads][rows, classes]` a member's logits on any ids.
    pub fn logits(&mut self, id: u32, rows: &[u32]) -> Result<Vec<Vec<f32>>> {
        let slot = self.slot(id)?;
        self.backend.logits(slot, rows)
    }

    /// A member's parameters, its row of the arena: the average where the recipe has one.
    pub fn params(&mut self, id: u32) -> Result<Vec<f32>> {
        let slot = self.slot(id)?;
        self.backend.read(slot, if self.recipe.average.is_some() { Arena::Average } else { Arena::Params })
    }

    /// A member's last gradient, that of the weighted mean loss before clipping, as a row of the arena; its length is
    /// the norm of its [`Status`]. Zeros before the first step.
    pub fn gradient(&mut self, id: u32) -> Result<Vec<f32>> {
        let slot = self.slot(id)?;
        let norm = f64::from(self.states[slot].slot.norm);
        let mut row = self.backend.read(slot, Arena::Gradient)?;
        // The arena has sums, and the norm is of what they were divided by the batch's weight.
        let length = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let scale = if length > 0.0 { norm / length } else { 0.0 };
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
        Ok(row)
    }

    /// Replaces a member's parameters, and their average where there is one.
    pub fn set_params(&mut self, id: u32, row: &[f32]) -> Result<()> {
        if row.len() != self.layout.params {
            return Err(Error::Invalid(format!("{} parameters for a net that has {}", row.len(), self.layout.params)));
        }
        let slot = self.slot(id)?;
        if self.recipe.average.is_some() {
            self.backend.write(slot, Arena::Average, row)?;
        }
        self.backend.write(slot, Arena::Params, row)
    }

    /// A member's parameters as safetensors, under readable names.
    pub fn save(&mut self, id: u32) -> Result<Vec<u8>> {
        let row = self.params(id)?;
        Ok(crate::net::save(&self.net, &self.layout, &row))
    }

    /// Which algorithms its products take, to be stored with the run.
    pub fn pins(&self) -> Pins {
        self.backend.pins()
    }

    /// Times the algorithms for every product and keeps the fastest. For a tuning before a run: what it chooses changes
    /// bits, so a run takes [`pins`](Population::pins) from here and never tunes itself. Gradients and activations are
    /// overwritten, members are not.
    pub fn tune(&mut self) -> Result<()> {
        self.backend.tune()
    }

    /// How each layer's products are done, for people.
    pub fn kernel_paths(&self) -> Vec<String> {
        self.backend.kernel_paths()
    }

    /// The net.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Where everything of the net lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Bytes it takes there beside its tables.
    pub fn memory(&self) -> u64 {
        self.needed
    }

    fn slot(&self, id: u32) -> Result<usize> {
        self.states.iter().position(|s| s.slot.id == id).ok_or_else(|| unknown(id))
    }

    /// Why a member stopped by itself: the first tensor that is not finite, by name. Its parameters are as before that
    /// step.
    pub fn fault(&mut self, id: u32) -> Result<Option<Error>> {
        let slot = self.slot(id)?;
        let state = self.states[slot];
        if state.slot.fault == 0 {
            return Ok(None);
        }
        let mut tensor = None;
        for (arena, what) in [(Arena::Params, ""), (Arena::Gradient, "the gradient of ")] {
            let row = self.backend.read(slot, arena)?;
            let bad = crate::net::flatten(&self.layout, &row).into_iter().find(|t| t.2.iter().any(|x| !x.is_finite()));
            tensor = tensor.or(bad.map(|t| format!("{what}{}", t.0)));
        }
        // Every tensor alone may be finite while the square of their norm is not.
        let tensor = tensor.unwrap_or_else(|| "the norm of the gradient".into());
        Ok(Some(Error::NotFinite { member: state.slot.id, step: state.slot.step + 1, tensor }))
    }
}

fn unknown(id: u32) -> Error {
    Error::Invalid(format!("there is no member {id} in this population"))
}

/// Rows of a batch, and its parts where it has several.
fn describe_batch(recipe: &Recipe, pace: Pace) -> String {
    match pace.count(recipe.batch) {
        1 => recipe.batch.to_string(),
        parts => format!("{} in {parts} parts of {}", recipe.batch, pace.rows(recipe.batch)),
    }
}

/// What would fit: fewer members, or a smaller batch.
fn fits(
    device: &Opened,
    budget: u64,
    net: &Net,
    data: &Data<'_>,
    recipe: &Recipe,
    members: &[Member],
    pace: Pace,
) -> Result<String> {
    let (mut few, mut many) = (0, members.len());
    while few < many {
        let middle = (few + many).div_ceil(2);
        if Population::need(device, net, data, recipe, &members[..middle], pace)? <= budget {
            few = middle;
        } else {
            many = middle - 1;
        }
    }
    let mut batch = recipe.batch;
    while batch > 1 {
        batch /= 2;
        if Population::need(device, net, data, &Recipe { batch, ..*recipe }, members, pace)? <= budget {
            break;
        }
    }
    let smaller = Recipe { batch, ..*recipe };
    let with_batch = batch >= 1 && Population::need(device, net, data, &smaller, members, pace)? <= budget;
    Ok(match (few, with_batch) {
        (0, false) => "even one member does not fit: a smaller table, net or batch is needed".into(),
        (0, true) => format!("batches of {batch} would fit"),
        (n, false) => format!("{n} members at once would fit"),
        (n, true) => format!("{n} members at once, or batches of {batch}, would fit"),
    })
}
