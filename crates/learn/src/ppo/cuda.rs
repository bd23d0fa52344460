//! Policies on a card: passes of nets are the card's, accounts step on the host.

use super::collect::{Block, Draw, member_blocks};
use super::cpu::{estimate, update};
use super::training::{Group, Member};
use super::walk::Walk;
use compute::Result;
use compute::nets::Batch;
use std::sync::Arc;

/// What members have beside their nets on the card.
pub(super) struct Cuda {
    /// `[members][blocks]` their accounts.
    pub(super) blocks: Vec<Vec<Block>>,
}

impl Cuda {
    pub(super) fn new(group: &Group, members: &[Member]) -> Cuda {
        Cuda { blocks: members.iter().map(|m| member_blocks(&group.ppo, m)).collect() }
    }

    /// Collect, estimate advantages, update.
    pub(super) fn iterate(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        self.collect(group, members)?;
        estimate(members, &mut self.blocks);
        update(group, members, &self.blocks, None)
    }

    /// Every member's accounts take their steps, passes of all members and accounts in one.
    fn collect(&mut self, group: &mut Group, members: &[Member]) -> Result<()> {
        let (actions, steps, seed) = (group.shape.actions, group.shape.n_steps, group.seed);
        let accounts = group.shape.n_envs as usize;
        self.blocks.iter_mut().flatten().for_each(Block::begin);
        for t in 0..steps {
            let (mut ids, mut extras) = (Vec::new(), Vec::new());
            for block in self.blocks.iter().flatten() {
                ids.extend_from_slice(block.environment.view().rows);
                extras.extend_from_slice(block.environment.view().observed);
            }
            let out = outputs(group, 0..members.len(), accounts, &ids, &extras)?;
            let wide = actions.outputs() + 1;
            let each = members.iter().zip(&mut self.blocks).zip(out.chunks_exact(accounts * wide));
            for ((member, blocks), out) in each {
                let step = member.unit.wrapping_mul(steps).wrapping_add(t);
                let draw = Draw { seed, member: member.key.id(), step };
                for block in blocks {
                    let own = block.accounts.start as usize * wide..block.accounts.end as usize * wide;
                    block.step(actions, &out[own], draw);
                }
            }
        }
        for (at, blocks) in self.blocks.iter_mut().enumerate() {
            for block in blocks {
                let (ids, observed) = block.unvalued();
                let out = outputs(group, at..at + 1, ids.len(), &ids, &observed)?;
                let wide = actions.outputs() + 1;
                let values: Vec<f32> = out.chunks_exact(wide).map(|z| z[wide - 1]).collect();
                block.value(&values);
            }
        }
        Ok(())
    }

    /// `[pieces]` what a member makes of its validation, taking what it prefers.
    pub(super) fn walk(&self, group: &mut Group, member: &Member, at: usize) -> Result<Vec<(f64, usize)>> {
        let (actions, folds) = (group.shape.actions, Arc::clone(&group.ppo.folds));
        let mut walk = Walk::new(&folds.data, &folds.valid[member.key.fold]);
        for _ in 0..walk.steps() {
            let (ids, observed) = walk.view();
            let out = outputs(group, at..at + 1, ids.len(), ids, observed)?;
            walk.step(actions, &out);
        }
        Ok(walk.growth())
    }
}

/// `[members, rows, outputs]` of rows of some members, policy and value side by side.
fn outputs(
    group: &mut Group,
    members: std::ops::Range<usize>,
    rows: usize,
    ids: &[u32],
    extras: &[f32],
) -> Result<Vec<f32>> {
    let mut out = [Vec::new(), Vec::new()];
    group.nets.forward(members, Batch { rows, ids, extras }, &mut out)?;
    let wide = group.shape.actions.outputs();
    let rows = out[0].chunks_exact(wide).zip(&out[1]);
    Ok(rows.flat_map(|(z, value)| z.iter().copied().chain([*value])).collect())
}
