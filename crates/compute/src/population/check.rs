//! Whether data, recipe and members fit the net, said before anything is started. Both twins ask here, so that neither
//! tests a border later.

use super::{Data, Member, Optimiser, Pace, Recipe};
use crate::error::{Error, Result};
use crate::net::Net;
use crate::tables::Tables;

/// What is wrong with them, or nothing.
pub(crate) fn check(net: &Net, tables: &Tables, data: &Data<'_>, recipe: &Recipe, members: &[Member]) -> Result<()> {
    ensure(!net.has_memory(), || no_memory(net))?;
    tables.serve(net)?;
    labels(net, tables, data)?;
    for (i, list) in data.lists.iter().enumerate() {
        tables.check(net, list, &format!("list {i}"))?;
    }
    let samples = data.lists.iter().map(|list| list.len()).sum::<usize>();
    ensure(u32::try_from(samples).is_ok(), || {
        format!("all lists together have {samples} samples; at most {} are possible: use fewer lists", u32::MAX)
    })?;
    settings(recipe)?;
    ensure(!members.is_empty(), || "a population needs at least one member".into())?;
    members.iter().enumerate().try_for_each(|(i, each)| member(net, data, each, &members[..i]))
}

/// What to say where a net carries a state and nobody does.
pub(crate) fn no_memory(net: &Net) -> String {
    format!(
        "`{net}` has LSTM layers that carry a state from row to row, and here rows do not follow each other: put LSTM \
         layers at the beginning of an input's branch, as in `16x50-lstm64-3`"
    )
}

/// Whether batches can be cut so.
pub(crate) fn pace(recipe: &Recipe, pace: Pace) -> Result<()> {
    ensure((1..=recipe.batch).contains(&(pace.parts as usize)), || {
        format!("a batch of {} rows in {} parts; 1 to {} are possible", recipe.batch, pace.parts, recipe.batch)
    })
}

fn labels(net: &Net, tables: &Tables, data: &Data<'_>) -> Result<()> {
    let ids = tables.ids();
    ensure(data.labels.len() == net.heads.len(), || {
        format!("{} heads and {} columns of labels; give one for each head", net.heads.len(), data.labels.len())
    })?;
    if let Some(input) = net.inputs.iter().find(|i| i.dense) {
        return Err(Error::Invalid(format!("input {} is dense; a population reads rows of tables only", input.name)));
    }
    for (head, labels) in net.heads.iter().zip(&data.labels) {
        ensure(head.classes >= 2, || format!("head {}: 1 class; a classifier has 2 to 256", head.name))?;
        ensure(labels.len() == ids, || {
            format!("head {}: {} labels for {ids} ids; give one for each id", head.name, labels.len())
        })?;
        let wrong = labels.iter().position(|&label| usize::from(label) >= head.classes);
        ensure(wrong.is_none(), || {
            let row = wrong.unwrap_or(0);
            format!("head {}: id {row} has class {} of {}; count classes from 0", head.name, labels[row], head.classes)
        })?;
    }
    if let Some(weights) = data.weights {
        ensure(weights.len() == ids, || {
            format!("{} weights for {ids} ids; give one for each id, or none at all", weights.len())
        })?;
        all_weights("id", weights)?;
    }
    Ok(())
}

fn settings(recipe: &Recipe) -> Result<()> {
    // A cursor is 32 bits, and stands at most one batch behind the list.
    ensure((1..=1 << 24).contains(&recipe.batch), || {
        format!("a batch of {} rows; 1 to {} are possible", recipe.batch, 1 << 24)
    })?;
    let Optimiser { beta1, beta2, eps, decay, clip, .. } = recipe.optimiser;
    for (name, beta) in [("beta1", beta1), ("beta2", beta2)] {
        ensure((0.0..1.0).contains(&beta), || format!("{name} is {beta}; at least 0 and below 1 is possible"))?;
    }
    for (name, value) in
        [("eps", eps), ("decay", decay), ("clip", clip.unwrap_or(1.0)), ("floor", recipe.schedule.floor)]
    {
        ensure(value.is_finite() && value >= 0.0, || format!("{name} is {value}; give a number of at least 0"))?;
    }
    for (name, share) in [("smoothing", recipe.smoothing), ("average", recipe.average.unwrap_or(0.0))] {
        ensure((0.0..1.0).contains(&share), || format!("{name} is {share}; at least 0 and below 1 is possible"))?;
    }
    let warmup = recipe.schedule.warmup;
    ensure((0.0..=1.0).contains(&warmup), || format!("warmup is {warmup}; it is a share of the steps, 0 to 1"))
}

fn member(net: &Net, data: &Data<'_>, member: &Member, before: &[Member]) -> Result<()> {
    let id = member.id;
    let lists = data.lists.len();
    ensure(before.iter().all(|other| other.id != id), || format!("two members have the id {id}; give each its own"))?;
    for list in [Some(member.train), member.valid].into_iter().flatten() {
        ensure(list < lists, || format!("member {id}: there is no list {list} among {lists}; name one from 0"))?;
    }
    ensure(!data.lists[member.train].is_empty(), || {
        format!("member {id}: its training list {} is empty; give it samples", member.train)
    })?;
    ensure(member.rate.is_finite() && member.rate >= 0.0, || {
        format!("member {id}: a learning rate of {}; give a number of at least 0", member.rate)
    })?;
    let (inputs, heads) = (net.inputs.len(), net.heads.len());
    ensure(member.scales.len() == inputs && member.class_weights.len() == heads, || {
        format!(
            "member {id}: {} scales for {inputs} inputs and class weights for {} of {heads} heads; give one of each, empty where there is none",
            member.scales.len(),
            member.class_weights.len()
        )
    })?;
    for (input, scale) in net.inputs.iter().zip(&member.scales) {
        let Some(scale) = scale else { continue };
        ensure(scale.mean.len() == input.features && scale.inverse.len() == input.features, || {
            format!(
                "member {id}: means of {} and deviations of {} features for the {} of input {}; give one of each for each feature",
                scale.mean.len(),
                scale.inverse.len(),
                input.features,
                input.name
            )
        })?;
    }
    for (head, weights) in net.heads.iter().zip(&member.class_weights) {
        ensure(weights.is_empty() || weights.len() == head.classes, || {
            format!(
                "member {id}: {} class weights for the {} classes of head {}; give one for each class, or none",
                weights.len(),
                head.classes,
                head.name
            )
        })?;
        all_weights(&format!("member {id}, head {}: class", head.name), weights)?;
    }
    Ok(())
}

fn all_weights(what: &str, weights: &[f32]) -> Result<()> {
    let wrong = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0));
    ensure(wrong.is_none(), || {
        let at = wrong.unwrap_or(0);
        format!("{what} {at} has the weight {}; weights are finite and at least 0", weights[at])
    })
}

fn ensure(fine: bool, what: impl FnOnce() -> String) -> Result<()> {
    if fine { Ok(()) } else { Err(Error::Invalid(what())) }
}
