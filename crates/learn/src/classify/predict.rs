//! Predictions of trained members: probabilities for any ids, the same bits whoever asks.

use crate::plan::smaller;
use crate::scale::Scaler;
use crate::{DeviceBudget, Problem, failed};
use compute::nets::{Batch, MemberSetup, Setup};
use compute::population::{Pace, Pins, Recipe};
use compute::{Net, Nets, Opened};
use files::Result;

/// A member, and the ids its predictions are wanted of.
pub struct Query<'a> {
    /// Its name.
    pub id: u32,
    /// Its fold's scaling.
    pub scaler: &'a Scaler,
    /// A row of the arena.
    pub params: &'a [f32],
    /// What is predicted.
    pub ids: Vec<u32>,
    /// Whether each id is asked about alone, as by a live account, in a chunk that is otherwise empty.
    pub alone: bool,
}

/// Members on the device at once; predicting is short, and each takes an arena.
const AT_ONCE: usize = 16;

/// Rows of a chunk. Evaluation goes in fixed chunks, so that a row's bits do not depend on its company.
const ROWS: usize = 2048;

/// The algorithms that predictions of a run keep to, beside those of its training: those of `pins`, and where it names
/// none for a product, the one that is chosen now.
pub fn predict_pins(device: &Opened, net: &Net, recipe: &Recipe, pins: &Pins) -> compute::Result<Pins> {
    Nets::plan_pins(device, net, &Setup::inference(ROWS, recipe.precision), pins)
}

/// `[queries][ids, classes]` probabilities, by the algorithms of the run that made the members. Labels and weights of
/// the problem are not looked at.
pub fn predict(
    problem: &Problem,
    net: &Net,
    recipe: &Recipe,
    at: &DeviceBudget,
    pins: &Pins,
    queries: &[Query<'_>],
) -> Result<Vec<Vec<f32>>> {
    if queries.iter().all(|q| q.ids.is_empty()) {
        return Ok(queries.iter().map(|_| Vec::new()).collect());
    }
    let classes = net.heads.first().map_or(1, |h| h.classes);
    let tables = problem.tables(&at.device, at.budget)?;
    let mut all = Vec::with_capacity(queries.len());
    // Fewer members at once, then fewer rows at once, where the memory is short.
    let (mut left, mut at_once, mut pace) = (queries, AT_ONCE, Pace::default());
    while !left.is_empty() {
        let (queries, later) = left.split_at(at_once.min(left.len()));
        let member_setup =
            |q: &Query<'_>| MemberSetup { id: q.id, scales: q.scaler.scales.iter().cloned().map(Some).collect() };
        let member_setups: Vec<MemberSetup> = queries.iter().map(member_setup).collect();
        let setup = Setup::inference(pace.rows(ROWS), recipe.precision);
        let made = Nets::new(&at.device, at.budget, net, &tables, &setup, &member_setups, pins);
        let mut nets = match (made, smaller(pace, ROWS)) {
            (Ok(nets), _) => nets,
            (Err(why), _) if why.is_memory() && queries.len() > 1 => {
                at_once = queries.len() / 2;
                continue;
            }
            (Err(why), Some(smaller)) if why.is_memory() => {
                pace = smaller;
                continue;
            }
            (Err(why), _) => return Err(failed(why)),
        };
        let mut out = vec![Vec::new(); net.heads.len()];
        for (i, q) in queries.iter().enumerate() {
            nets.set_params(i, q.params).map_err(failed)?;
            let mut logits = Vec::with_capacity(q.ids.len() * classes);
            for ids in q.ids.chunks(if q.alone { 1 } else { q.ids.len().max(1) }) {
                nets.forward(i..i + 1, Batch { rows: ids.len(), ids, extras: &[] }, &mut out).map_err(failed)?;
                logits.append(&mut out[0]);
            }
            all.push(softmax(logits, classes));
        }
        left = later;
    }
    Ok(all)
}

/// Logits to probabilities, in f64 about the largest.
fn softmax(mut logits: Vec<f32>, classes: usize) -> Vec<f32> {
    for row in logits.chunks_exact_mut(classes) {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|z| f64::from(z - most).exp()).sum();
        row.iter_mut().for_each(|z| *z = (f64::from(*z - most).exp() / sum) as f32);
    }
    logits
}
