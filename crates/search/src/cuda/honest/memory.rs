//! What a search takes on a card: a place for everything that its trees can hold, and arrays of what is known and found
//! of its roots.

use super::super::arguments::Honest;
use super::super::packed::Shape;
use super::super::{counted, put};
use super::{ACTIONS, FOUND, HonestModels, MOST_EACH, MOST_ROWS, ROOT_FLOATS, ROOT_NUMBERS, ROOT_WORDS, STATE};
use crate::select;
use crate::settings::{RootRule, Settings};
use account::SHOWN;
use compute::Result;
use compute::cuda::{Slab, Stream};

/// As `honest.cuh` has them: words of a decision, an afterstate and a market, and numbers of a market.
const DECISION: usize = 18;
const AFTER: usize = 3;
const MARKET: usize = 4;
const PRICES: usize = 4;
/// Rows of one pass of a wide net, about: what is shown of them lies on the card.
const WIDE_ROWS: usize = 1 << 17;

/// What a tree takes.
pub(super) struct Extent {
    pub(super) words: usize,
    pub(super) doubles: usize,
    /// Rows that are evaluated at once, at most.
    pub(super) rows: usize,
}

impl Extent {
    pub(super) fn of(settings: &Settings) -> Extent {
        let (sims, codes, scenarios) = (settings.simulations as usize, settings.codes, settings.scenarios);
        let decisions = 1 + ACTIONS * scenarios + sims * codes;
        let markets = 1 + scenarios + sims * codes;
        Extent {
            words: decisions * DECISION + (ACTIONS + sims) * AFTER + markets * MARKET,
            doubles: STATE * decisions + PRICES * markets,
            rows: (ACTIONS * scenarios).max(codes),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (4 * self.words + 8 * self.doubles + 4 * (SHOWN + 1) * self.rows) as u64
    }
}

/// Roots of a block, at most: their codes are rows of one product.
pub(super) fn most_each(settings: &Settings) -> usize {
    (MOST_ROWS / settings.codes).clamp(1, MOST_EACH)
}

/// Roots of each wide net that go at once.
pub(super) fn wide_per(settings: &Settings, nets: usize, roots: usize) -> usize {
    (WIDE_ROWS / Extent::of(settings).rows / nets).clamp(1, roots.div_ceil(nets).max(1))
}

pub(super) fn shared_of(shape: &Shape, weights_inside: bool) -> usize {
    shape.shared(MOST_ROWS) + if weights_inside { 4 * shape.words } else { 0 }
}

/// Bytes of what is known of roots and what is found of them.
pub(super) fn roots_bytes(features: usize, roots: usize) -> u64 {
    (roots * (8 * ROOT_NUMBERS + 4 * (features + ROOT_FLOATS + ROOT_WORDS + FOUND + 2))) as u64
}

pub(super) fn arrays(
    models: &HonestModels,
    slab: &mut Slab,
    stream: &Stream,
    settings: &Settings,
    discount: f32,
    roots: usize,
    trees: usize,
) -> Result<Honest> {
    let (features, extent) = (models.models.features as usize, Extent::of(settings));
    let (rule, considered, init, base) = match settings.rule {
        RootRule::Puct { init, base } => (0, 0, init, base),
        RootRule::Gumbel { considered, .. } => (1, considered.min(ACTIONS), 0.0, 1.0),
    };
    let sequences: Vec<u32> =
        (0..=considered).flat_map(|n| select::halving(n, settings.simulations as usize)).collect();
    Ok(Honest {
        models: models.models.clone(),
        numbers: slab.array(roots * ROOT_NUMBERS)?,
        floats: slab.array(roots * (features + ROOT_FLOATS))?,
        root_words: slab.array(roots * ROOT_WORDS)?,
        sequences: put(slab, stream, &sequences)?,
        words: slab.array(trees * extent.words)?,
        doubles: slab.array(trees * extent.doubles)?,
        worths: slab.array(trees * ACTIONS * settings.scenarios)?,
        found: slab.array(roots * FOUND)?,
        word_stride: counted(extent.words)?,
        double_stride: counted(extent.doubles)?,
        roots: counted(roots)?,
        scenarios: settings.scenarios as u32,
        codes: settings.codes as u32,
        simulations: settings.simulations,
        depth: settings.depth,
        rule,
        considered: considered as u32,
        init,
        base,
        discount,
        seed: settings.seed,
    })
}
