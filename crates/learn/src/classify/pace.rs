//! Members at once, and real steps for a clock: what a tuner needs of a plan. None of it changes a bit of a training.

use super::{Classify, Plan};
use crate::{Problem, failed};
use compute::net::Layout;
use compute::population::{CHUNK, Status};
use compute::{Budget, Error, Opened, Population};
use files::Result;
use std::ops::Range;

impl Plan {
    /// Bytes that these members would take on the device together with whole batches.
    pub fn need(&self, problem: &Problem, how: &Classify<'_>, device: &Opened, members: Range<usize>) -> Result<u64> {
        let (data, described) = self.describe(how, members);
        let own = Population::need(device, &how.net, &data, &how.recipe, &described).map_err(failed)?;
        Ok(own + problem.tables_need(device))
    }

    /// Cuts groups of more than `most` members into equal parts.
    pub fn at_once(&mut self, problem: &Problem, how: &Classify<'_>, device: &Opened, most: usize) -> Result<()> {
        let mut groups = Vec::new();
        for group in &self.groups {
            let all = group.members.len();
            let each = all.div_ceil(all.div_ceil(most.max(1)).max(1)).max(1);
            for start in group.members.clone().step_by(each) {
                let mut part = group.clone();
                part.members = start..(start + each).min(group.members.end);
                if part.members != group.members {
                    part.bytes = self.need_at(problem, how, device, self.pace, part.members.clone())?;
                }
                groups.push(part);
            }
        }
        self.groups = groups;
        Ok(())
    }

    /// `[members]` samples of an epoch.
    pub(super) fn sizes(&self, members: Range<usize>) -> Vec<u64> {
        self.members[members].iter().map(|who| self.lists[who.fold][0].len() as u64).collect()
    }

    /// Samples of the smallest fold's training list.
    pub fn fewest(&self) -> usize {
        self.lists.iter().map(|[train, ..]| train.len()).min().unwrap_or(0)
    }
}

/// Members that take real steps on the real data without a training: their weights are thrown away.
pub struct Paced {
    population: Population,
    tables: u64,       // bytes
    samples: Vec<u64>, // [members] of an epoch
    batch: u64,
}

impl Paced {
    /// Sets these members of a plan up, as a training would.
    pub fn new(
        problem: &Problem,
        plan: &Plan,
        how: &Classify<'_>,
        device: &Opened,
        budget: Budget,
        members: Range<usize>,
    ) -> Result<Paced> {
        // They never end: a clock wants all of them.
        let how = &Classify { epochs: u32::MAX, ..how.clone() };
        let samples = plan.sizes(members.clone());
        let (data, described) = plan.describe(how, members);
        let tables = problem.tables(device, budget)?;
        let made =
            Population::new(device, budget, &how.net, &tables, &data, &how.recipe, &described).map_err(failed)?;
        Ok(Paced { population: made, tables: tables.bytes(), samples, batch: how.recipe.batch as u64 })
    }

    /// At least `steps` steps of some member, in chunks as in training and without validation; the rows that all
    /// trained on.
    pub fn steps(&mut self, steps: u32) -> Result<u64> {
        let before = self.rows();
        let mut left = steps.max(1);
        while left > 0 {
            let chunk = left.min(CHUNK);
            let was = most(&self.population.statuses());
            let statuses = self.population.steps(chunk).map_err(failed)?;
            if let Some(bad) = statuses.iter().find(|s| s.fault) {
                let why = self.population.fault(bad.id).map_err(failed)?;
                return Err(failed(why.unwrap_or_else(|| Error::Asked("a member stopped".into()))));
            }
            left = left.saturating_sub(most(&statuses).saturating_sub(was).max(1));
            if statuses.iter().any(|s| s.due) {
                self.population.stop_waiting().map_err(failed)?;
            }
        }
        Ok(self.rows() - before)
    }

    /// Bytes on the device, tables included.
    pub fn memory(&self) -> u64 {
        self.tables + self.population.memory()
    }

    /// Where everything of the net lies.
    pub fn layout(&self) -> &Layout {
        self.population.layout()
    }

    fn rows(&self) -> u64 {
        rows(&self.population.statuses(), &self.samples, self.batch)
    }
}

/// Rows that all members have trained on; the last batch of an epoch has fewer than the others.
pub(super) fn rows(statuses: &[Status], samples: &[u64], batch: u64) -> u64 {
    let of = |(status, samples): (&Status, &u64)| {
        let within = u64::from(status.step).saturating_sub(u64::from(status.epoch) * samples.div_ceil(batch));
        u64::from(status.epoch) * samples + (within * batch).min(*samples)
    };
    statuses.iter().zip(samples).map(of).sum()
}

fn most(statuses: &[Status]) -> u32 {
    statuses.iter().map(|s| s.step).max().unwrap_or(0)
}
