//! What a leaf is worth, and which actions are likely there: a net, or in tests a table.

use compute::nets::{Forward, Rows};
use compute::population::Precision;
use compute::{Budget, Choice, Error, Net, Opened, Result, Tables};
use std::sync::Arc;

/// Evaluates leaves; one belongs to one thread.
pub trait Evaluate: Send {
    /// Of `n` leaves, shown as `[n, inputs]`: logits of their actions `[n, A]` and values `[n]`. A leaf's numbers do
    /// not depend on the others.
    ///
    /// # Errors
    ///
    /// Where the lengths do not fit.
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()>;
}

/// A net with a head of as many logits as actions, then one of one value.
#[derive(Debug)]
pub struct NetEvaluator {
    forward: Forward,
    params: Arc<Vec<f32>>,
    tables: Arc<Tables>,
    outputs: Vec<f32>, // [ROWS, A + 1]
    inputs: usize,
    actions: usize,
}

/// Rows of a pass.
const ROWS: usize = 512;

impl NetEvaluator {
    /// The net with these parameters, `[params]`. Its inputs are rows of numbers, in its order and as they go into the
    /// first layer: whoever scales inputs scales them before.
    ///
    /// # Errors
    ///
    /// Where an input is a window, the heads are not those of a policy with a value, or the parameters do not fit.
    pub fn new(net: &Net, params: &Arc<Vec<f32>>) -> Result<NetEvaluator> {
        let mut net = net.clone();
        if let Some(window) = net.inputs.iter().find(|input| input.window != 1) {
            return Err(Error::Invalid(format!(
                "input {} reads {} rows; a search shows one row at a time, give a net without windows",
                window.name, window.window
            )));
        }
        let [policy, value] = net.heads.as_slice() else {
            return Err(Error::Invalid(format!("{} heads; a search needs a policy and a value", net.heads.len())));
        };
        if value.classes != 1 {
            return Err(Error::Invalid(format!("a value of {} numbers; a search needs one", value.classes)));
        }
        let actions = policy.classes;
        // The same layers at the same places: only where the numbers come from differs.
        net.inputs.iter_mut().for_each(|input| input.dense = true);
        let mut forward = Forward::new(&net, Precision::F32, ROWS)?;
        forward.with(params)?;
        let device = Opened::new(Choice::Cpu, 1)?.0;
        Ok(NetEvaluator {
            tables: Tables::new(&device, Budget::default(), &[], &[])?,
            outputs: vec![0.0; ROWS * (actions + 1)],
            inputs: net.extras(),
            params: Arc::clone(params),
            forward,
            actions,
        })
    }

    /// One for each thread.
    ///
    /// # Errors
    ///
    /// As [`new`](NetEvaluator::new).
    pub fn several(net: &Net, params: &Arc<Vec<f32>>, threads: usize) -> Result<Vec<NetEvaluator>> {
        (0..threads.max(1)).map(|_| NetEvaluator::new(net, params)).collect()
    }
}

impl Evaluate for NetEvaluator {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        let (actions, wide) = (self.actions, self.actions + 1);
        if shown.len() != values.len() * self.inputs || logits.len() != values.len() * actions {
            return Err(Error::Invalid(format!(
                "{} numbers and {} logits for {} leaves of a net with {} inputs and {actions} actions",
                shown.len(),
                logits.len(),
                values.len(),
                self.inputs
            )));
        }
        let parts = logits.chunks_mut(ROWS * actions).zip(values.chunks_mut(ROWS));
        let mut net = self.forward.with(&self.params)?;
        for ((logits, values), shown) in parts.zip(shown.chunks(ROWS * self.inputs)) {
            let out = &mut self.outputs[..values.len() * wide];
            net.run(Rows { tables: &self.tables, scales: &[], ids: &[], extras: shown }, out)?;
            for ((z, own), value) in out.chunks_exact(wide).zip(logits.chunks_exact_mut(actions)).zip(values) {
                own.copy_from_slice(&z[..actions]);
                *value = z[actions];
            }
        }
        Ok(())
    }
}
