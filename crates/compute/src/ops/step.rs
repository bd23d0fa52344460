//! A member's training step, whole and plain: what `population/backend.rs` says, once more as loops.

use super::{Real, gather, loss, optimise, whole};
use crate::net::{Layout, Net};
use crate::population::{Data, Member, Precision, Recipe, State};
use crate::random::{Permutation, Turn};
use crate::tables::Tables;

/// A member that trains alone, one batch a step.
#[derive(Debug, Clone)]
pub struct PlainMember<'a> {
    /// The net.
    pub net: &'a Net,
    /// Where its parameters lie.
    pub layout: &'a Layout,
    /// The rows it reads.
    pub tables: &'a Tables,
    /// What it learns of them.
    pub data: &'a Data<'a>,
    /// How.
    pub recipe: &'a Recipe,
    /// Who.
    pub member: &'a Member,
    /// How far; as an engine begins it.
    pub state: State,
    /// `[params]`
    pub params: Vec<f32>,
    /// `[params]` the optimiser's mean of gradients.
    pub mean: Vec<f32>,
    /// `[params]` the optimiser's mean of squares.
    pub square: Vec<f32>,
    /// `[params]` the last sum of gradients.
    pub gradient: Vec<f32>,
    /// `[params]` the average of the parameters; kept where the recipe has one.
    pub average: Vec<f32>,
}

impl PlainMember<'_> {
    /// One step, tail rows included; the epoch's end leaves the member due.
    pub fn step(&mut self) {
        let (s, batch) = (self.state, self.recipe.batch);
        if s.slot.active == 0 || s.slot.due == 1 {
            return;
        }
        let list = self.data.lists[self.member.train];
        let order = Permutation::new(s.epoch.samples, self.recipe.seed, s.slot.id, s.epoch.done);
        let (mut rows, mut live) = (vec![], vec![]);
        for i in s.epoch.cursor..s.epoch.cursor + batch as u32 {
            rows.push(if i < s.epoch.samples { list[order.at(i) as usize] } else { list[0] });
            live.push(if i < s.epoch.samples { 1.0 } else { 0.0 });
        }
        let (loss, weight) = self.gradient_of(&rows, &live);
        let state = &mut self.state;
        let norm = if weight == 0.0 { 0.0 } else { optimise::norm(&self.gradient, weight) };
        if !norm.is_finite() {
            (state.slot.fault, state.slot.active) = (1, 0);
            return;
        }
        if weight != 0.0 {
            let rate = f64::from(state.slot.rate) * self.recipe.schedule.factor(state.slot.step + 1, state.slot.total);
            let step = optimise::Step::new(&self.recipe.optimiser, rate, state.slot.step + 1, norm, weight);
            optimise::optimise(&step, &mut self.params, &mut self.mean, &mut self.square, &self.gradient);
            if let Some(memory) = self.recipe.average {
                let memory = if state.slot.step == 0 { 0.0 } else { memory };
                let fresh = (1.0 - f64::from(memory)) as f32;
                self.average.iter_mut().zip(&self.params).for_each(|(a, p)| *a = memory * *a + fresh * p);
            }
        }
        advance(state, batch, loss, weight, norm);
    }

    fn gradient_of(&mut self, rows: &[u32], live: &[f32]) -> (f64, f64) {
        let precision = self.recipe.precision;
        let (net, layout) = (self.net, self.layout);
        let turn = Some(Turn { seed: self.recipe.seed, member: self.state.slot.id, step: self.state.slot.step });
        let buffers = whole::forward(
            net,
            layout,
            &self.params,
            &inputs(net, self.tables, self.member, rows, precision),
            rows.len(),
            turn,
            precision,
        );
        let logits = whole::logits(layout, &buffers, rows.len());
        let weights = weights(self.data, self.member, rows, live);
        let (loss, back) = losses(self.data, &logits, rows, &weights, self.recipe.smoothing, precision);
        self.gradient = whole::backward(layout, &self.params, &buffers, &back, rows.len(), turn, precision);
        (loss, weights[0].iter().map(|w| f64::from(*w)).sum())
    }
}

/// What a step does to a member's state once its parameters are changed.
pub fn advance(state: &mut State, batch: usize, loss: f64, weight: f64, norm: f64) {
    if state.epoch.cursor == 0 {
        (state.epoch.loss, state.epoch.weight) = (0.0, 0.0);
    }
    state.epoch.loss += loss;
    state.epoch.weight += weight;
    state.slot.norm = norm as f32;
    state.slot.step += 1;
    state.epoch.cursor = state.epoch.cursor.saturating_add(batch as u32);
    if state.epoch.cursor >= state.epoch.samples {
        state.epoch.cursor = 0;
        state.epoch.done += 1;
        state.slot.due = 1;
        if state.epoch.done >= state.epoch.epochs {
            state.slot.active = 0;
        }
    }
}

/// `[inputs][rows, window × features]` everything a batch brings.
///
/// # Panics
/// Where the tables are on a card.
pub fn inputs<R: Real>(net: &Net, tables: &Tables, member: &Member, rows: &[u32], precision: Precision) -> Vec<Vec<R>> {
    let one = |(i, input): (usize, &crate::net::Input)| {
        let scale = member.scales.get(i).and_then(Option::as_ref);
        let each = rows.iter().flat_map(|&row| {
            let own = net.table_of(i).expect("an input with a table");
            let table = tables.table(own).expect("tables in the processor's memory");
            gather::gather(table, tables.row(own, row), input.window, input.features, scale, precision)
        });
        each.collect()
    };
    net.inputs.iter().enumerate().map(one).collect()
}

/// `[heads][rows]` weights: `live × weights[row] × class_weights[head][label]`.
pub fn weights(data: &Data<'_>, member: &Member, rows: &[u32], live: &[f32]) -> Vec<Vec<f32>> {
    let head = |(head, labels): (usize, &&[u8])| {
        let each = rows.iter().zip(live).map(|(&row, live)| {
            let row = row as usize;
            let class = member.class_weights.get(head).filter(|w| !w.is_empty());
            live * (data.weights.map_or(1.0, |w| w[row]) * class.map_or(1.0, |w| w[usize::from(labels[row])]))
        });
        each.collect()
    };
    data.labels.iter().enumerate().map(head).collect()
}

/// The loss of all heads and rows, and the gradient at the logits `[heads][rows, classes]`.
pub fn losses<R: Real>(
    data: &Data<'_>,
    logits: &[Vec<R>],
    rows: &[u32],
    weights: &[Vec<f32>],
    smoothing: f32,
    precision: Precision,
) -> (f64, Vec<Vec<R>>) {
    let mut total = 0.0;
    let mut back = Vec::new();
    for ((logits, labels), weights) in logits.iter().zip(&data.labels).zip(weights) {
        let classes = logits.len() / rows.len().max(1);
        let mut dz = vec![R::default(); logits.len()];
        for (i, &row) in rows.iter().enumerate() {
            let at = i * classes..(i + 1) * classes;
            let weight = R::from_f64(f64::from(weights[i]));
            let label = labels[row as usize];
            total += loss::softmax_cross_entropy(&logits[at.clone()], label, weight, smoothing, &mut dz[at]);
        }
        back.push(dz.into_iter().map(|x| x.rounded_to(precision)).collect());
    }
    (total, back)
}
