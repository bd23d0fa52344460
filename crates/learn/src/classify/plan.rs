//! A training laid out: lists, scales and weights of each fold, members, and how many of them the memory holds at once.
//!
//! Where one member's batch is too large for the memory, it goes through the net in parts, twice as many until it fits.
//! That changes the order of sums, and with it bits: one number of parts serves all members of a run, and a run that
//! goes on keeps to it ([`Plan::at`]).

use super::member::{CONFIGS, FOLDS, SEEDS, Who};
use super::{Classify, Saved, Trained};
use crate::scale::{Scaler, fit, split_id};
use crate::{Problem, failed};
use compute::population::{Data, Member, Pace, Scale};
use compute::{Budget, Net, Opened, Population};
use features::Fold;
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::ops::Range;

/// A training, laid out for a device.
#[derive(Clone)]
pub struct Plan {
    /// `[ids]` the class of each id, from 0; 0 for ids of no sample.
    pub(crate) labels: Vec<u8>,
    /// `[ids]` average uniqueness of each id's label.
    pub(crate) weights: Vec<f32>,
    /// `[folds]` ids to train on, ids to validate on, ids to be judged on.
    pub(crate) lists: Vec<[Vec<u32>; 3]>,
    /// `[folds]`
    pub scalers: Vec<Scaler>,
    /// Names the split that the folds are of.
    pub split: u64,
    /// `[folds][classes]`
    pub(crate) class_weights: Vec<Vec<f32>>,
    /// `[configs × folds × seeds]` config by config, fold by fold; configs that can be trained at once lie together.
    pub(crate) members: Vec<Who>,
    /// `[configs]` the first config with the same net and recipe.
    pub(crate) jobs: Vec<usize>,
    /// Members that are trained at once, group after group.
    pub groups: Vec<Group>,
    /// In how many parts a batch goes through the net: as many as it takes to fit one member.
    pub pace: Pace,
    /// Bytes that one member takes so, and that it would take with whole batches.
    pub(crate) one: [u64; 2],
}

/// Members that are trained at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which of all members.
    pub members: Range<usize>,
    /// Bytes they take on the device.
    pub bytes: u64,
}

/// Lays a training out: as few groups as the memory allows.
pub fn plan(problem: &Problem, folds: &[Fold], how: &Classify<'_>, device: &Opened, budget: Budget) -> Result<Plan> {
    check(problem, folds, how)?;
    let mut labels = vec![0; problem.ids];
    let mut weights = vec![1.0; problem.ids];
    let samples = &problem.samples;
    for ((id, class), weight) in samples.rows.iter().zip(&samples.class).zip(&samples.weight) {
        labels[*id as usize] = features::class::index(*class, problem.classes);
        weights[*id as usize] = *weight;
    }
    let ids = |positions: &[u32]| positions.iter().map(|at| samples.rows[*at as usize]).collect::<Vec<u32>>();
    let lists: Vec<[Vec<u32>; 3]> = folds.iter().map(|f| [ids(&f.train), ids(&f.valid), ids(&f.test)]).collect();
    let split = split_id(folds);
    let scalers: Vec<Scaler> = folds.par_iter().map(|fold| fit(problem, fold, split)).collect();
    scalers.iter().zip(folds).try_for_each(|(scaler, fold)| scaler.precedes(fold.spans.test.from()))?;
    let class_weights = lists.iter().map(|[train, ..]| {
        let mut sums = vec![0.0f64; problem.classes];
        train.iter().for_each(|id| sums[usize::from(labels[*id as usize])] += f64::from(weights[*id as usize]));
        if how.balance { balanced(&sums) } else { vec![1.0; sums.len()] }
    });
    let class_weights = class_weights.collect();
    let jobs: Vec<usize> = (0..how.configs()).map(|config| how.job(config)).collect();
    let mut configs: Vec<usize> = (0..jobs.len()).collect();
    configs.sort_by_key(|config| jobs[*config]);
    let places = configs.iter().flat_map(|config| (0..folds.len()).map(move |fold| (*config, fold)));
    let members =
        places.flat_map(|(config, fold)| (0..how.seeds).map(move |seed| Who { config, fold, seed })).collect();
    let (groups, pace, one) = (Vec::new(), Pace::default(), [0; 2]);
    Plan { labels, weights, lists, scalers, split, class_weights, members, jobs, groups, pace, one }
        .at(problem, how, device, budget, pace)
}

impl Plan {
    /// Number of members.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Whether the scalers are of these folds and of this problem: they are looked at wherever they are used.
    ///
    /// # Errors
    ///
    /// Where one is from elsewhere.
    pub fn belongs(&self, problem: &Problem) -> Result<()> {
        self.scalers.iter().try_for_each(|scaler| scaler.belongs(self.split, &problem.data))
    }

    /// Steps that all members take together at most.
    pub fn steps(&self, how: &Classify<'_>) -> u64 {
        let of = |who: &Who| self.lists[who.fold][0].len().div_ceil(how.of(who.config).recipe.batch) as u64;
        self.members.iter().map(|m| of(m) * u64::from(how.epochs)).sum()
    }

    /// Samples that all members are trained on together at most.
    pub fn samples(&self, how: &Classify<'_>) -> u64 {
        self.samples_of(how, &self.members)
    }

    /// Samples that members have still before them at most, where the run goes on from a state.
    pub fn left(&self, how: &Classify<'_>, from: Option<&Saved>) -> u64 {
        let Some(saved) = from else { return self.samples(how) };
        let epochs = |m: &Trained| match m.stopped {
            Some(_) => 0,
            None => how.epochs.saturating_sub(m.history.last().map_or(0, |e| e.epoch)),
        };
        saved.members.iter().map(|m| self.lists[m.fold][0].len() as u64 * u64::from(epochs(m))).sum()
    }

    fn samples_of(&self, how: &Classify<'_>, members: &[Who]) -> u64 {
        members.iter().map(|who| self.lists[who.fold][0].len() as u64 * u64::from(how.epochs)).sum()
    }

    /// For each kind of member (another net or recipe), its first group alone, which is enough to learn its pace, and
    /// the samples that all of its kind are trained on together at most.
    pub fn firsts(&self, how: &Classify<'_>) -> Vec<(Plan, u64)> {
        let mut firsts: Vec<(usize, Plan, u64)> = Vec::new();
        for group in &self.groups {
            let job = self.job(&group.members);
            let members = &self.members[group.members.clone()];
            let samples = self.samples_of(how, members);
            match firsts.iter_mut().find(|(other, ..)| *other == job) {
                Some((_, _, sum)) => *sum += samples,
                None => {
                    let groups = vec![Group { members: 0..members.len(), bytes: group.bytes }];
                    firsts.push((job, Plan { groups, members: members.to_vec(), ..self.clone() }, samples));
                }
            }
        }
        firsts.into_iter().map(|(_, plan, samples)| (plan, samples)).collect()
    }

    /// The config whose net and recipe some members of a group share.
    pub(super) fn job(&self, members: &Range<usize>) -> usize {
        self.members.get(members.start).map_or(0, |who| self.jobs[who.config])
    }

    /// The same with batches in at least so many parts: for a run that began so and goes on.
    pub fn at(
        mut self,
        problem: &Problem,
        how: &Classify<'_>,
        device: &Opened,
        budget: Budget,
        least: Pace,
    ) -> Result<Plan> {
        let most = budget.bytes(problem.free(device)?);
        // Members of a fold and kind need the same; the largest one decides for all.
        let first = |who: &Who| who.seed == 0 && self.jobs[who.config] == who.config;
        let firsts: Vec<usize> = (0..self.members.len()).filter(|i| first(&self.members[*i])).collect();
        let one = |pace: Pace| -> Result<u64> {
            let each = firsts.iter().map(|i| self.need_at(problem, how, device, pace, *i..*i + 1));
            each.collect::<Result<Vec<u64>>>().map(|all| all.into_iter().max().unwrap_or(0))
        };
        let (mut pace, batch) = (least, how.largest());
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
                        device.name(),
                        files::format_bytes(most)
                    ),
                )
                .remedy("a smaller net, fewer rows or a larger <memory>"));
            };
            pace = smaller;
            bytes = one(pace)?;
        }
        let whole = one(Pace::default())?;
        (self.pace, self.one) = (pace, [bytes, whole]);
        self.groups = self.pack(problem, how, device, most)?;
        Ok(self)
    }

    /// That batches go in parts, and what it saves; nothing where they are whole.
    pub fn said(&self, how: &Classify<'_>) -> Option<String> {
        let [bytes, whole] = self.one.map(files::format_bytes);
        (self.pace.parts > 1)
            .then(|| format!("{}: {bytes} for a member instead of {whole}", in_parts(self.pace, how.largest())))
    }

    /// Bytes of some members at a pace.
    pub(super) fn need_at(
        &self,
        problem: &Problem,
        how: &Classify<'_>,
        device: &Opened,
        pace: Pace,
        members: Range<usize>,
    ) -> Result<u64> {
        let own = how.of(self.job(&members));
        let (data, described) = self.describe(how, members);
        let pace = own_pace(pace, own.recipe.batch);
        let own = Population::need_paced(device, &own.net, &data, &own.recipe, &described, pace).map_err(failed)?;
        Ok(own + problem.tables_need(device))
    }

    /// As many members at once as fit into so many bytes, from the first on; one always does.
    fn pack(&self, problem: &Problem, how: &Classify<'_>, device: &Opened, most: u64) -> Result<Vec<Group>> {
        let need = |members: Range<usize>| self.need_at(problem, how, device, self.pace, members);
        let mut groups = Vec::new();
        for kind in self.members.chunk_by(|a, b| self.jobs[a.config] == self.jobs[b.config]) {
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

    /// A group's data and members, in the engine's words.
    pub(crate) fn describe(&self, how: &Classify<'_>, members: Range<usize>) -> (Data<'_>, Vec<Member>) {
        let members = &self.members[members];
        let mut folds: Vec<usize> = members.iter().map(|who| who.fold).collect();
        folds.sort_unstable();
        folds.dedup();
        let lists = folds.iter().flat_map(|fold| self.lists[*fold][..2].iter().map(Vec::as_slice)).collect();
        let data = Data { labels: vec![&self.labels], weights: Some(&self.weights), lists };
        let member = |who: &Who| {
            let at = folds.binary_search(&who.fold).expect("it is one of them");
            Member {
                id: who.id(),
                train: 2 * at,
                valid: Some(2 * at + 1),
                epochs: how.epochs,
                rate: how.rate_of(who.config),
                scales: self.scalers[who.fold].scales.iter().cloned().map(Some).collect::<Vec<Option<Scale>>>(),
                class_weights: vec![self.class_weights[who.fold].clone()],
            }
        };
        (data, members.iter().map(member).collect())
    }
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

/// No class weighs more than so many times its own share: a class of a hundredth would else drown the others in its
/// noise.
const HEAVIEST: f64 = 10.0;

/// Weights that give every class the same sum, as far as [`HEAVIEST`] allows; a class that is not there has 1.
fn balanced(sums: &[f64]) -> Vec<f32> {
    let all: f64 = sums.iter().sum();
    let weight = |sum: &f64| if *sum > 0.0 { (all / (sums.len() as f64 * sum)).min(HEAVIEST) } else { 1.0 };
    sums.iter().map(|sum| weight(sum) as f32).collect()
}

/// What cannot be trained, said before anything begins.
fn check(problem: &Problem, folds: &[Fold], how: &Classify<'_>) -> Result<()> {
    let wrong = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
    for config in 0..how.configs() {
        fits(problem, &how.of(config).net)?;
    }
    if folds.is_empty() || how.seeds == 0 || how.seeds >= SEEDS || how.epochs == 0 {
        return wrong(
            format!("{} folds, {} seeds, {} epochs: there is nothing to train", folds.len(), how.seeds, how.epochs),
            "at least one of each, and fewer than 4096 seeds",
        );
    }
    if folds.len() > FOLDS as usize || how.configs() > CONFIGS as usize {
        return wrong(
            format!("{} folds of {} sets of hyper-parameters are too many", folds.len(), how.configs()),
            "at most 1024 of each",
        );
    }
    if let Some(fold) = folds.iter().find(|f| f.train.is_empty() || f.valid.is_empty()) {
        return wrong(
            format!(
                "fold {} has {} training and {} validation samples",
                fold.number + 1,
                fold.train.len(),
                fold.valid.len()
            ),
            "fewer <split.folds>, or more data",
        );
    }
    Ok(())
}

/// Whether a net can read what there is and says what is asked.
fn fits(problem: &Problem, net: &Net) -> Result<()> {
    let wrong = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
    let (asked, has) = (net.inputs.len(), problem.inputs.len());
    if asked != has {
        return wrong(format!("the net `{}` has {asked} inputs and the data have {has}", net), "change <train.net>");
    }
    for (input, data) in net.inputs.iter().zip(&problem.inputs) {
        if input.features != data.columns.len() {
            let (asks, has, name) = (input.features, data.columns.len(), &data.name);
            return wrong(
                format!("the net `{}` reads {asks} features of `{name}`, which has {has}", net),
                "change <train.net> or <features.set>",
            );
        }
        if data.window > 0 && input.window > data.window {
            return wrong(
                format!("the net `{}` reads {} rows of `{}`, which has {}", net, input.window, data.name, data.window),
                "change <train.net>",
            );
        }
    }
    if net.heads.len() != 1 || net.heads[0].classes != problem.classes {
        return wrong(
            format!("the net `{}` does not end in one head of {} classes", net, problem.classes),
            "let it end so, as in 16x50-lstm64-3",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{balanced, own_pace};
    use compute::population::Pace;

    #[test]
    fn a_small_batch_goes_in_no_more_parts_than_are_worth_it() {
        let parts = |parts, batch| own_pace(Pace { parts }, batch).parts;
        assert_eq!([parts(1, 8), parts(4, 4096), parts(4, 128), parts(4, 127), parts(64, 1024)], [1, 4, 4, 4, 32]);
        assert_eq!([parts(8, 64), parts(8, 63), parts(128, 32), parts(128, 16)], [2, 2, 1, 1]);
    }

    #[test]
    fn rare_classes_weigh_more_but_not_without_end() {
        assert_eq!(balanced(&[1.0, 1.0, 2.0]), [4.0 / 3.0, 4.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(balanced(&[50.0, 0.0, 50.0]), [2.0 / 3.0, 1.0, 2.0 / 3.0]);
        assert_eq!(balanced(&[500.0, 1.0, 499.0])[1], 10.0);
    }
}
