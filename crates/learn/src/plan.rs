//! A training planned for a device: its members, and how many of them the memory holds at once.
//!
//! Where one member's batch is too large for the memory, it goes through the net in parts, twice as many until it fits.
//! That changes the order of sums, and with it bits: one number of parts serves all members of a run, and a run that
//! goes on keeps to it ([`Plan::with_pace`]).

use crate::member::{CONFIGS, FOLDS, SEEDS};
use crate::{DeviceBudget, Learner, MemberKey, TrainState, Trained, failed};
use compute::Opened;
use compute::population::Pace;
use files::{Error, Kind, Result};
use std::ops::Range;

/// A training, planned for a device.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `[configs × folds × seeds]` config by config, fold by fold; configs that can be trained at once lie together.
    pub members: Vec<MemberKey>,
    /// Members that are trained at once, group after group.
    pub groups: Vec<Group>,
    /// In how many parts a batch goes through the net: as many as it takes to fit one member.
    pub pace: Pace,
    /// Bytes that one member takes so, and that it would take with whole batches.
    one: [u64; 2],
}

/// Members that are trained at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which of all members.
    pub members: Range<usize>,
    /// Bytes they take on the device.
    pub bytes: u64,
}

impl Plan {
    /// Plans a training: as few groups as the memory allows.
    pub fn new(learner: &dyn Learner, at: &DeviceBudget) -> Result<Plan> {
        check(learner)?;
        let extent = learner.extent();
        let mut configs: Vec<usize> = (0..learner.configs().len()).collect();
        configs.sort_by_key(|config| learner.alike(*config));
        let places = configs.iter().flat_map(|config| (0..extent.folds).map(move |fold| (*config, fold)));
        let members = places
            .flat_map(|(config, fold)| (0..extent.seeds).map(move |seed| MemberKey { config, fold, seed }))
            .collect();
        let (groups, pace, one) = (Vec::new(), Pace::default(), [0; 2]);
        Plan { members, groups, pace, one }.with_pace(learner, at, pace)
    }

    /// The same with batches in at least as many parts: for a run that began so and goes on.
    pub fn with_pace(mut self, learner: &dyn Learner, at: &DeviceBudget, least: Pace) -> Result<Plan> {
        let most = at.bytes(learner.problem())?;
        // Members of a fold and kind need the same; the largest one decides for all.
        let first = |key: &&MemberKey| key.seed == 0 && learner.alike(key.config) == key.config;
        let firsts: Vec<MemberKey> = self.members.iter().filter(first).copied().collect();
        let one = |pace: Pace| -> Result<u64> {
            let each = firsts.iter().map(|key| needs(learner, &at.device, &[*key], pace));
            each.collect::<Result<Vec<u64>>>().map(|all| all.into_iter().max().unwrap_or(0))
        };
        let (mut pace, batch) = (least, largest_batch(learner));
        let mut bytes = one(pace)?;
        while bytes > most {
            // One that does not fit in the smallest parts is refused here, before anything has begun.
            let Some(smaller) = smaller(pace, batch) else {
                let parts =
                    if pace.parts > 1 { format!(", even in parts of {},", pace.rows(batch)) } else { String::new() };
                return Err(Error::new(
                    Kind::Memory,
                    format!(
                        "one member with batches of {batch}{parts} needs {} on {}, and {} may be taken",
                        files::format_bytes(bytes),
                        at.device.name(),
                        files::format_bytes(most)
                    ),
                )
                .remedy(format!(
                    "{}, or raise <memory> by {}MiB at least",
                    learner.how_to_need_less(),
                    (bytes - most).div_ceil(1 << 20)
                )));
            };
            pace = smaller;
            bytes = one(pace)?;
        }
        let whole = one(Pace::default())?;
        (self.pace, self.one) = (pace, [bytes, whole]);
        self.groups = self.pack(learner, &at.device, most)?;
        Ok(self)
    }

    /// As many members at once as fit into so many bytes, from the first on; one always does.
    fn pack(&self, learner: &dyn Learner, device: &Opened, most: u64) -> Result<Vec<Group>> {
        let need = |members: Range<usize>| needs(learner, device, &self.members[members], self.pace);
        let mut groups = Vec::new();
        for kind in self.members.chunk_by(|a, b| learner.alike(a.config) == learner.alike(b.config)) {
            let from = groups.last().map_or(0, |g: &Group| g.members.end);
            let (end, mut start, mut count) = (from + kind.len(), from, 0);
            while start < end {
                // Memory grows with the members, so halving finds the most that fit.
                let (mut few, mut many) = (1, end - start);
                while few < many {
                    let middle = (few + many).div_ceil(2);
                    if need(start..start + middle)? <= most {
                        few = middle;
                    } else {
                        many = middle - 1;
                    }
                }
                start += few;
                count += 1;
            }
            // Groups of equal size end together; a last one of a single member would leave the device empty.
            let each = kind.len().div_ceil(count);
            for start in (from..end).step_by(each) {
                let members = start..(start + each).min(end);
                groups.push(Group { bytes: need(members.clone())?, members });
            }
        }
        Ok(groups)
    }

    /// Cuts groups of more than `most` members into equal parts.
    pub fn limit_group(&mut self, learner: &dyn Learner, device: &Opened, most: usize) -> Result<()> {
        let mut groups = Vec::new();
        for group in &self.groups {
            let all = group.members.len();
            let each = all.div_ceil(all.div_ceil(most.max(1)).max(1)).max(1);
            for start in group.members.clone().step_by(each) {
                let mut part = group.clone();
                part.members = start..(start + each).min(group.members.end);
                if part.members != group.members {
                    part.bytes = needs(learner, device, &self.members[part.members.clone()], self.pace)?;
                }
                groups.push(part);
            }
        }
        self.groups = groups;
        Ok(())
    }

    /// Samples that all members are trained on together at most.
    pub fn samples(&self, learner: &dyn Learner) -> u64 {
        samples(learner, &self.members)
    }

    /// Samples that members have still before them at most, where the run goes on from a state.
    pub fn samples_left(&self, learner: &dyn Learner, from: Option<&TrainState>) -> u64 {
        let Some(state) = from else { return self.samples(learner) };
        let running = state.members.iter().filter(|m| m.stopped.is_none());
        let units = |m: &Trained| learner.units(m.config).saturating_sub(m.units());
        running.map(|m| learner.samples(m.key()) * u64::from(units(m))).sum()
    }

    /// For each kind of member (those that train in one group), its first group alone, which is enough to learn its
    /// pace, and the samples that all of its kind are trained on together at most.
    pub fn firsts(&self, learner: &dyn Learner) -> Vec<(Plan, u64)> {
        let mut firsts: Vec<(usize, Plan, u64)> = Vec::new();
        for group in &self.groups {
            let members = &self.members[group.members.clone()];
            let (kind, samples) = (learner.alike(members[0].config), samples(learner, members));
            match firsts.iter_mut().find(|(other, ..)| *other == kind) {
                Some((_, _, sum)) => *sum += samples,
                None => {
                    let groups = vec![Group { members: 0..members.len(), bytes: group.bytes }];
                    let plan = Plan { groups, members: members.to_vec(), pace: self.pace, one: self.one };
                    firsts.push((kind, plan, samples));
                }
            }
        }
        firsts.into_iter().map(|(_, plan, samples)| (plan, samples)).collect()
    }

    /// That batches go in parts, and what it saves; nothing where they are whole.
    pub fn parts_message(&self, learner: &dyn Learner) -> Option<String> {
        let [bytes, whole] = self.one.map(files::format_bytes);
        (self.pace.parts > 1).then(|| {
            format!("{}: {bytes} for a member instead of {whole}", in_parts(self.pace, largest_batch(learner)))
        })
    }
}

/// Bytes of members of one group, tables included; a small batch beside a large one goes in fewer parts.
fn needs(learner: &dyn Learner, device: &Opened, members: &[MemberKey], pace: Pace) -> Result<u64> {
    let batch = members.first().map_or(0, |key| learner.configs()[key.config].recipe.batch);
    let own = learner.needs(device, members, own_pace(pace, batch)).map_err(failed)?;
    Ok(own + learner.problem().tables_need(device))
}

fn samples(learner: &dyn Learner, members: &[MemberKey]) -> u64 {
    members.iter().map(|key| learner.samples(*key) * u64::from(learner.units(key.config))).sum()
}

fn largest_batch(learner: &dyn Learner) -> usize {
    learner.configs().iter().map(|config| config.recipe.batch).max().unwrap_or(0)
}

/// Parts have at least so many rows: below it time grows and memory hardly shrinks.
const LEAST: usize = 32;

/// Twice as many parts, unless they would be too small.
pub(crate) fn smaller(pace: Pace, batch: usize) -> Option<Pace> {
    let parts = pace.parts.saturating_mul(2);
    (Pace { parts }.rows(batch) >= LEAST).then_some(Pace { parts })
}

/// A run's pace for one of its batches: a small one beside a large one goes in no more parts than are worth it.
pub(crate) fn own_pace(pace: Pace, batch: usize) -> Pace {
    if pace.parts == 1 || pace.rows(batch) >= LEAST {
        return pace;
    }
    let mut own = Pace::default();
    while let Some(more) = smaller(own, batch).filter(|more| more.parts <= pace.parts) {
        own = more;
    }
    own
}

/// `batches of 65536 in 8 parts of 8192`
pub(crate) fn in_parts(pace: Pace, batch: usize) -> String {
    format!("batches of {batch} in {} parts of {}", pace.count(batch), pace.rows(batch))
}

/// Refuses what cannot be trained, before anything begins.
fn check(learner: &dyn Learner) -> Result<()> {
    let (extent, configs) = (learner.extent(), learner.configs().len());
    let wrong = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
    if extent.folds == 0 || extent.seeds == 0 || extent.seeds >= SEEDS || extent.units == 0 {
        return wrong(
            format!(
                "{} folds, {} seeds, {} {}s: there is nothing to train",
                extent.folds,
                extent.seeds,
                extent.units,
                learner.unit()
            ),
            "give at least one of each, and fewer than 4096 seeds",
        );
    }
    if extent.folds > FOLDS as usize || configs > CONFIGS as usize {
        return wrong(
            format!("{} folds of {configs} sets of hyper-parameters are too many", extent.folds),
            "at most 1024 of each",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::own_pace;
    use compute::population::Pace;

    #[test]
    fn a_small_batch_is_split_into_no_more_parts_than_pay_off() {
        let parts = |parts, batch| own_pace(Pace { parts }, batch).parts;
        assert_eq!([parts(1, 8), parts(4, 4096), parts(4, 128), parts(4, 127), parts(64, 1024)], [1, 4, 4, 4, 32]);
        assert_eq!([parts(8, 64), parts(8, 63), parts(128, 32), parts(128, 16)], [2, 2, 1, 1]);
    }
}
