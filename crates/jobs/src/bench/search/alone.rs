//! What the net of a search does by itself: the same layers on as many rows as the search evaluates together.

use super::{ACTIONS, INPUTS};
use compute::cuda::Context;
use compute::population::Precision;
use compute::{Budget, Net, Opened};
use files::Result;
use learn::failed;
use machine::{NetLoad, StepKind, measure_net};
use search::{Evaluate, NetEvaluator, Towers};
use std::sync::Arc;
use std::time::Instant;

/// Passes between two looks at the clock.
const PASSES: usize = 8;

/// A net that counts the leaves it was asked about.
pub(super) struct Counted {
    pub(super) net: NetEvaluator,
    pub(super) leaves: u64,
}

impl Evaluate for Counted {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> compute::Result<()> {
        self.leaves += values.len() as u64;
        self.net.evaluate(shown, logits, values)
    }

    fn towers(&mut self) -> Option<&mut dyn Towers> {
        self.net.towers().is_some().then_some(self as &mut dyn Towers)
    }
}

impl Towers for Counted {
    fn values(&mut self, shown: &[f32], values: &mut [f32]) -> compute::Result<()> {
        self.leaves += values.len() as u64;
        self.net.values(shown, values)
    }

    fn logits(&mut self, shown: &[f32], logits: &mut [f32]) -> compute::Result<()> {
        self.net.logits(shown, logits)
    }
}

/// Seconds of a batch of rows on a processor, all threads together. With `values_alone` the value's layers alone, where
/// the net has such.
pub(super) fn batch_s(nets: &mut [Counted], batch: usize, values_alone: bool) -> Result<f64> {
    let each = batch.div_ceil(nets.len());
    let parts = nets.iter_mut().enumerate().map(|(at, net)| (net, each.min(batch.saturating_sub(at * each))));
    let run = |net: &mut Counted, rows: usize| {
        let shown = vec![0.1; rows * INPUTS];
        let (mut logits, mut values) = (vec![0.0; rows * ACTIONS], vec![0.0; rows]);
        (0..PASSES).try_for_each(|_| match net.net.towers().filter(|_| values_alone) {
            Some(towers) => towers.values(&shown, &mut values),
            None => net.net.evaluate(&shown, &mut logits, &mut values),
        })
    };
    let clock = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = parts.map(|(net, rows)| scope.spawn(move || run(net, rows))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    })
    .map_err(failed)?;
    Ok(clock.elapsed().as_secs_f64() / PASSES as f64)
}

/// Rows a second of a net's layers on a card, in batches of so many.
pub(super) fn rate_on_card(context: &Arc<Context>, net: &Net, batch: usize, budget: u64, seconds: f64) -> Option<f64> {
    let mut net = net.clone();
    // Inputs from a table, and outputs as classes: what `bench net` times.
    net.inputs.iter_mut().for_each(|input| input.dense = false);
    net.heads.iter_mut().for_each(|head| head.classes = head.classes.max(2));
    let (precision, step) = (Precision::Bf16, StepKind::Infer);
    let load = NetLoad { net, batch, members: 1, precision, step, tune: false, seconds };
    let rate = measure_net(&Opened::Cuda(Arc::clone(context)), Budget::Bytes(budget), &load);
    rate.ok().map(|rate| rate.samples_per_s)
}
