//! Many minibatches in one call, by the caller's loss.
//!
//! On a processor a member goes through all its minibatches on one thread while others help with parts of them: rows go
//! forward, through the loss and back while they are in the cache, and no thread sleeps between two steps.

use super::{Batch, Hyper, Nets, Twin};
use crate::cpu::{Descending, Source};
use crate::error::{Error, Result};
use std::ops::Range;

/// What minibatches are trained by. Rows of a minibatch come in pieces, from any thread; everything else of a member
/// comes in order.
pub trait Loss: Sync {
    /// Some rows of a member's minibatch: from the outputs `[heads][rows, outputs]` the gradient at them. Which pieces
    /// a minibatch has depends on the net and its size alone.
    fn losses(&self, member: usize, minibatch: usize, rows: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]);

    /// After the losses of all rows: whether the member takes the step. If not, it is done with this call.
    fn goes(&self, member: usize, minibatch: usize) -> bool;

    /// After the step: the global norm of the gradient, before clipping; where it is not finite no step was taken.
    /// Whether the member goes on.
    fn stepped(&self, member: usize, minibatch: usize, norm: f32) -> bool;
}

impl Nets {
    /// Steps of all members that the mask does not leave out, through minibatches of `rows` rows of the batch in order,
    /// the last one as small as it is.
    ///
    /// # Errors
    ///
    /// Where the rows are not there, the lengths do not fit, or nets only predict.
    pub fn descend(
        &mut self,
        batch: Batch<'_>,
        rows: usize,
        hypers: &[Hyper],
        mask: &[bool],
        loss: &dyn Loss,
    ) -> Result<()> {
        let (p, extras) = (self.member_setups.len(), self.net.extras());
        let rule = self.learns()?;
        self.follows()?;
        self.settle()?;
        self.last = None;
        if hypers.len() != p || mask.len() != p || !(1..=self.setup.rows).contains(&rows) {
            return Err(Error::Invalid(format!(
                "{} hyper-parameters and a mask of {} for {p} members, minibatches of {rows} rows where {} are possible",
                hypers.len(),
                mask.len(),
                self.setup.rows
            )));
        }
        hypers.iter().enumerate().try_for_each(|(i, hyper)| hyper.check(i))?;
        let ids = self.fitting(&(0..p), batch)?;
        if let Twin::Cpu(nets) = &mut self.twin {
            let task = |(i, hyper): (usize, &Hyper)| Descending {
                source: Source {
                    tables: &self.tables,
                    scales: &self.member_setups[i].scales,
                    extras: &batch.extras[i * batch.rows * extras..(i + 1) * batch.rows * extras],
                },
                ids: &ids[i * batch.rows..(i + 1) * batch.rows],
                rows,
                member: i,
                seed: self.setup.seed,
                id: self.member_setups[i].id,
                go: mask[i],
                optimiser: hyper.optimiser(rule),
                rate: hyper.rate,
                weight: hyper.weight,
                done: self.steps[i],
                loss,
            };
            let mut tasks: Vec<Descending<'_>> = hypers.iter().enumerate().map(task).collect();
            nets.descend(&mut tasks);
            let done: Vec<u32> = tasks.iter().map(|task| task.done).collect();
            self.steps.copy_from_slice(&done);
            return Ok(());
        }
        self.descend_by_passes(batch, rows, hypers, mask, loss)
    }

    /// The same in whole passes of all members.
    pub(super) fn descend_by_passes(
        &mut self,
        batch: Batch<'_>,
        rows: usize,
        hypers: &[Hyper],
        mask: &[bool],
        loss: &dyn Loss,
    ) -> Result<()> {
        let (p, extras) = (self.member_setups.len(), self.net.extras());
        let mut goes = mask.to_vec();
        let classes: Vec<usize> = self.net.heads.iter().map(|head| head.classes).collect();
        let mut out = vec![Vec::new(); classes.len()];
        for (minibatch, first) in (0..batch.rows).step_by(rows).enumerate() {
            let n = rows.min(batch.rows - first);
            let of_member = |i: usize| i * batch.rows + first..i * batch.rows + first + n;
            let ids: Vec<u32> = if batch.ids.is_empty() {
                Vec::new()
            } else {
                (0..p).flat_map(|i| batch.ids[of_member(i)].iter().copied()).collect()
            };
            let columns = |i: usize| of_member(i).start * extras..of_member(i).end * extras;
            let dense: Vec<f32> = (0..p).flat_map(|i| batch.extras[columns(i)].iter().copied()).collect();
            self.forward(0..p, Batch { rows: n, ids: &ids, extras: &dense }, &mut out)?;
            let mut d_out: Vec<Vec<f32>> = out.iter().map(|out| vec![0.0; out.len()]).collect();
            for i in (0..p).filter(|i| goes[*i]) {
                let part = |(out, classes): (&Vec<f32>, &usize)| out[i * n * classes..(i + 1) * n * classes].to_vec();
                let own: Vec<Vec<f32>> = out.iter().zip(&classes).map(part).collect();
                let mut d_own: Vec<Vec<f32>> = own.iter().map(|own| vec![0.0; own.len()]).collect();
                loss.losses(i, minibatch, 0..n, &own, &mut d_own);
                for ((d_out, d_own), classes) in d_out.iter_mut().zip(&d_own).zip(&classes) {
                    d_out[i * n * classes..(i + 1) * n * classes].copy_from_slice(d_own);
                }
            }
            for (i, goes) in goes.iter_mut().enumerate() {
                *goes = *goes && loss.goes(i, minibatch);
            }
            if goes.iter().all(|goes| !goes) {
                return Ok(());
            }
            self.backward(&d_out.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            let norms = self.optimise(hypers, Some(&goes))?;
            for (i, (goes, norm)) in goes.iter_mut().zip(norms).enumerate() {
                *goes = *goes && loss.stepped(i, minibatch, norm);
            }
        }
        Ok(())
    }
}
