//! The loop: steps, validation, best, patience; group after group.

use super::keep::Saved;
use super::member::{Last, Stopped, Trained};
use super::pace::rows;
use super::plan::{in_parts, own_pace, smaller};
use super::{Classify, News, Plan, Spent};
use crate::{Problem, failed};
use compute::population::{CHUNK, Pace, Score, Status};
use compute::{Budget, Opened, Population};
use files::Result;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A chunk of steps should not take longer than this, so that a stop is heard and progress is seen.
const PATIENT: Duration = Duration::from_millis(250);

/// A training run that lasts is saved at least this often.
const OFTEN: Duration = Duration::from_secs(120);

/// What a training is told and tells.
pub struct Hooks<'a> {
    /// Told what happens.
    pub news: &'a mut dyn FnMut(News<'_>),
    /// Says when to stop; what was done is saved first.
    pub stop: &'a dyn Fn() -> bool,
    /// Keeps a state from which the run can go on.
    pub save: &'a mut dyn FnMut(&Saved) -> Result<()>,
    /// A state is kept after every so many epochs; 0: only by time and at the end.
    pub every: u32,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// `[members]` config by config, fold by fold.
    pub members: Vec<Trained>,
    /// Where the time went.
    pub spent: Spent,
    /// Whether it was stopped before its end; what was done is saved.
    pub interrupted: bool,
    /// In how many parts batches went through the net at the end.
    pub pace: Pace,
}

/// Trains all members, or goes on where a saved state ended.
pub fn train(
    problem: &Problem,
    plan: &Plan,
    how: &Classify<'_>,
    device: &Opened,
    budget: Budget,
    from: Option<Saved>,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome> {
    plan.belongs(problem)?;
    let fresh = || Saved::new(plan.members.iter().map(|who| Trained::new(*who)).collect());
    let mut saved = from.unwrap_or_else(fresh);
    let mut spent = Spent::default();
    // Groups are pace: a run that goes on may have others, so a group is the members that are not at their end.
    let left = |saved: &Saved| saved.members.iter().any(|m| m.stopped.is_none());
    // A run that goes on keeps to its parts, unless it needs more by now.
    saved.pace.parts = saved.pace.parts.max(plan.pace.parts);
    let mut groups: VecDeque<Range<usize>> = plan.groups.iter().map(|g| g.members.clone()).collect();
    let mut number = 0;
    let tables = problem.tables(device, budget)?;
    while let Some(group) = groups.pop_front() {
        if saved.members[group.clone()].iter().all(|m| m.stopped.is_some()) {
            number += 1;
            continue;
        }
        let clock = Instant::now();
        let (data, members) = plan.describe(how, group.clone());
        let job = plan.job(&group);
        let own = how.of(job);
        let pace = own_pace(saved.pace, own.recipe.batch);
        let (recipe, pins) = (&own.recipe, saved.pins.entry(job).or_default().clone());
        let made = Population::paced(device, budget, &own.net, &tables, &data, recipe, &members, &pins, pace);
        let made = made.and_then(|mut population| population.prepare().map(|()| population));
        let mut population = match made {
            Ok(population) => population,
            // Somebody else took memory after it was planned with. Fewer members at once change no bit, so they come
            // first.
            Err(why) if why.is_memory() && group.len() > 1 => {
                let middle = group.start + group.len().div_ceil(2);
                groups.push_front(middle..group.end);
                groups.push_front(group.start..middle);
                (hooks.news)(News::Less(format!(
                    "{} members at once instead of {}: {why}",
                    middle - group.start,
                    group.len()
                )));
                continue;
            }
            Err(why) if why.is_memory() && smaller(saved.pace, recipe.batch).is_some() => {
                saved.pace = smaller(saved.pace, recipe.batch).unwrap_or(saved.pace);
                groups.push_front(group);
                (hooks.news)(News::Less(format!("{} from here on: {why}", in_parts(saved.pace, recipe.batch))));
                continue;
            }
            Err(why) => return Err(failed(why)),
        };
        saved.pins.insert(job, population.pins());
        // Groups may be others than when the state was kept: members of later ones go on waiting.
        for snapshot in saved.running.iter().filter(|s| members.iter().any(|m| m.id == s.state.id)) {
            population.restore(snapshot).map_err(failed)?;
        }
        for trained in saved.members[group.clone()].iter().filter(|m| m.stopped.is_some()) {
            population.stop(trained.id).map_err(failed)?;
        }
        spent.setup += clock.elapsed().as_secs_f64();
        (hooks.news)(News::Group {
            number,
            of: number + 1 + groups.len(),
            members: members.len(),
            memory: tables.bytes() + population.memory(),
            ways: population.ways(),
        });
        let sizes = plan.sizes(group.clone());
        let done = run(&mut population, group.clone(), &sizes, &own, &mut saved, &mut spent, hooks)?;
        keep(&mut population, group, &mut saved, &mut spent, hooks)?;
        if !done {
            return Ok(Outcome { members: saved.members, spent, interrupted: true, pace: saved.pace });
        }
        number += 1;
    }
    debug_assert!(!left(&saved), "every member is in a group");
    Ok(Outcome { members: saved.members, spent, interrupted: false, pace: saved.pace })
}

/// One group to its end; false if it was stopped before. `sizes` are samples of an epoch, of each member.
fn run(
    population: &mut Population,
    group: Range<usize>,
    sizes: &[u64],
    how: &Classify<'_>,
    saved: &mut Saved,
    spent: &mut Spent,
    hooks: &mut Hooks<'_>,
) -> Result<bool> {
    let (mut chunk, mut kept) = (1, Instant::now());
    let mut kept_epoch = least_epoch(&population.statuses());
    let trained = |statuses: &[Status]| rows(statuses, sizes, how.recipe.batch as u64);
    let before = trained(&population.statuses());
    loop {
        if (hooks.stop)() {
            return Ok(false);
        }
        let clock = Instant::now();
        let statuses = population.steps(chunk).map_err(failed)?;
        let took = clock.elapsed();
        spent.train += took.as_secs_f64();
        // Pace alone: how many steps go between two looks changes no bit.
        chunk = if took > PATIENT { (chunk / 2).max(1) } else { (chunk * 2).min(CHUNK) };
        (hooks.news)(News::Samples(trained(&statuses) - before));
        for status in statuses.iter().filter(|s| s.fault) {
            end(population, &mut saved.members[group.clone()], status.id, hooks)?;
        }
        if statuses.iter().any(|s| s.due) {
            let clock = Instant::now();
            let scores = population.validate().map_err(failed)?;
            for score in scores {
                let status = statuses.iter().find(|s| s.id == score.id).expect("a score is a member's");
                seen(population, &mut saved.members[group.clone()], &score, status, how, hooks)?;
            }
            spent.validate += clock.elapsed().as_secs_f64();
        }
        let statuses = population.statuses();
        if statuses.iter().all(|s| !s.active) {
            return Ok(true);
        }
        let epoch = least_epoch(&statuses);
        let due = hooks.every > 0 && epoch / hooks.every > kept_epoch / hooks.every;
        if due || kept.elapsed() > OFTEN {
            keep(population, group.clone(), saved, spent, hooks)?;
            (kept, kept_epoch) = (Instant::now(), epoch);
        }
    }
}

/// Takes a validation down, keeps the weights of the best, and ends a member whose patience has ended.
fn seen(
    population: &mut Population,
    members: &mut [Trained],
    score: &Score,
    status: &Status,
    how: &Classify<'_>,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    let member = members.iter_mut().find(|m| m.id == score.id).expect("a score is a member's");
    let best = member.see(score, status.step, status.loss, status.norm, (how.worth)(score));
    if best {
        let params = population.params(score.id).map_err(failed)?;
        member.best.as_mut().expect("it was just seen").params = params;
    }
    let epoch = member.history.last().expect("it was just seen").clone();
    (hooks.news)(News::Epoch { member, epoch: &epoch, best });
    if score.epoch >= how.epochs || member.impatient(how.patience) {
        member.stopped = Some(if score.epoch >= how.epochs { Stopped::Epochs } else { Stopped::Patience });
        member.last = Some(Last { epoch: score.epoch, params: population.params(score.id).map_err(failed)? });
        population.stop(score.id).map_err(failed)?;
        (hooks.news)(News::Ended(member));
    }
    Ok(())
}

/// A member that met a number which is not finite: named once, and left as it was.
fn end(population: &mut Population, members: &mut [Trained], id: u32, hooks: &mut Hooks<'_>) -> Result<()> {
    let member = members.iter_mut().find(|m| m.id == id).expect("a status is a member's");
    if member.stopped.is_none() {
        let why = population.fault(id).map_err(failed)?.map_or_else(String::new, |why| why.to_string());
        member.stopped = Some(Stopped::Fault(why));
        (hooks.news)(News::Ended(member));
    }
    Ok(())
}

/// Keeps a state from which the run can go on.
fn keep(
    population: &mut Population,
    group: Range<usize>,
    saved: &mut Saved,
    spent: &mut Spent,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    let clock = Instant::now();
    let members = &saved.members[group];
    saved.running.retain(|s| members.iter().all(|m| m.id != s.state.id));
    for member in members.iter().filter(|m| m.stopped.is_none()) {
        saved.running.push(population.snapshot(member.id).map_err(failed)?);
    }
    (hooks.save)(saved)?;
    spent.save += clock.elapsed().as_secs_f64();
    (hooks.news)(News::Saved);
    Ok(())
}

fn least_epoch(statuses: &[Status]) -> u32 {
    statuses.iter().filter(|s| s.active).map(|s| s.epoch).min().unwrap_or(0)
}
