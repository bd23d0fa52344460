//! Asking trained members: probabilities for any ids, the same bits whoever asks.

use super::plan::smaller;
use crate::scale::Scaler;
use crate::{Problem, failed};
use compute::population::{Data, Member, Pace, Pins, Recipe};
use compute::{Budget, Net, Opened, Population};
use files::Result;

/// A member and what it is asked.
pub struct Asked<'a> {
    /// Its name.
    pub id: u32,
    /// Its fold's scaling.
    pub scaler: &'a Scaler,
    /// A row of the arena.
    pub params: &'a [f32],
    /// What it is asked about.
    pub ids: Vec<u32>,
}

/// Members on the device at once; asking is short, and each takes an arena.
const AT_ONCE: usize = 16;

/// Rows of a batch of the population that asks; it never trains, so they only cost memory.
const ROWS: usize = 2048;

/// `[members][ids, classes]` probabilities. Labels and weights of the problem are not looked at.
pub fn ask(
    problem: &Problem,
    net: &Net,
    recipe: &Recipe,
    device: &Opened,
    budget: Budget,
    members: &[Asked<'_>],
) -> Result<Vec<Vec<f32>>> {
    // Given weights are asked, so nothing is averaged.
    let recipe = &Recipe { average: None, batch: ROWS, ..*recipe };
    let (labels, classes) = (vec![0u8; problem.ids], net.heads.first().map_or(1, |h| h.classes));
    let mut all = Vec::with_capacity(members.len());
    if members.iter().all(|m| m.ids.is_empty()) {
        return Ok(members.iter().map(|_| Vec::new()).collect());
    }
    let tables = problem.tables(device, budget)?;
    // Fewer at once, then fewer rows at once, where the memory is short.
    let (mut left, mut at_once, mut pace) = (members, AT_ONCE, Pace::default());
    while !left.is_empty() {
        let (members, later) = left.split_at(at_once.min(left.len()));
        // A population wants a list to train on; a single id does.
        let Some(one) = members.iter().find_map(|m| m.ids.first().copied()) else {
            all.extend(members.iter().map(|_| Vec::new()));
            left = later;
            continue;
        };
        let data = Data { labels: vec![&labels], weights: None, lists: vec![std::slice::from_ref(&one)] };
        let member = |m: &Asked<'_>| Member {
            id: m.id,
            train: 0,
            valid: None,
            epochs: 1,
            rate: 1e-3,
            scales: m.scaler.scales.iter().cloned().map(Some).collect(),
            class_weights: vec![Vec::new()],
        };
        let described: Vec<Member> = members.iter().map(member).collect();
        let made = Population::paced(device, budget, net, &tables, &data, recipe, &described, &Pins::default(), pace);
        let mut population = match (made, smaller(pace, ROWS)) {
            (Ok(population), _) => population,
            (Err(why), _) if why.is_memory() && members.len() > 1 => {
                at_once = members.len() / 2;
                continue;
            }
            (Err(why), Some(smaller)) if why.is_memory() => {
                pace = smaller;
                continue;
            }
            (Err(why), _) => return Err(failed(why)),
        };
        for m in members {
            population.set_params(m.id, m.params).map_err(failed)?;
            let logits = population.logits(m.id, &m.ids).map_err(failed)?.swap_remove(0);
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
