//! All roots of a search: blocks of them on threads, each block on one.
//!
//! A block's work is one thread's, and a leaf's evaluation does not depend on the leaves beside it, so neither the
//! number of threads nor which roots make a block changes a bit.

use crate::block::Block;
use crate::evaluate::Evaluate;
use crate::outcome::Outcomes;
use crate::settings::{RootRule, Settings};
use crate::tree::Tree;
use crate::world::World;
use compute::random::{Stream, philox};
use compute::{Error, Result};
use std::sync::Mutex;
use std::sync::PoisonError;

/// A root: what is known there, and its name in the random numbers.
#[derive(Debug, Clone)]
pub struct Root<K> {
    /// What is known, owned.
    pub known: K,
    /// The same counter and seed draw the same.
    pub counter: u64,
}

/// A search with its memory, which is taken once.
pub struct Search<W: World> {
    settings: Settings,
    blocks: Vec<Block<W>>, // [threads]
    actions: usize,
}

impl<W: World> Search<W> {
    /// Takes the memory for a search on so many threads.
    ///
    /// # Errors
    ///
    /// Where a setting makes no sense, or the trees need more than `most` bytes.
    pub fn new(world: &W, settings: &Settings, threads: usize, most: u64) -> Result<Search<W>> {
        let actions = world.actions();
        Search::<W>::fit_into(actions, settings, threads, most)?;
        let blocks = (0..threads.max(1)).map(|_| Block::new(settings, actions)).collect();
        Ok(Search { settings: settings.clone(), blocks, actions })
    }

    /// Bytes that the trees of such a search take.
    ///
    /// # Errors
    ///
    /// Where a setting makes no sense.
    pub fn need(world: &W, settings: &Settings, threads: usize) -> Result<u64> {
        Search::<W>::need_for(world.actions(), settings, threads)
    }

    /// The same before there is a world, by how many actions it has.
    ///
    /// # Errors
    ///
    /// Where a setting makes no sense.
    pub fn need_for(actions: usize, settings: &Settings, threads: usize) -> Result<u64> {
        settings.check(actions)?;
        let each = Tree::<W>::bytes(settings.capacity(actions));
        Ok(each * (settings.block() * threads.max(1)) as u64)
    }

    /// An error where such trees need more than `most` bytes.
    ///
    /// # Errors
    ///
    /// That, or where a setting makes no sense.
    pub fn fit_into(actions: usize, settings: &Settings, threads: usize, most: u64) -> Result<()> {
        let needed = Search::<W>::need_for(actions, settings, threads)?;
        if needed <= most {
            return Ok(());
        }
        let Settings { simulations, scenarios, codes, .. } = settings;
        Err(Error::Memory {
            what: format!("trees of {simulations} simulations with {scenarios} scenarios and {codes} codes"),
            device: "cpu".into(),
            needed,
            budget: most,
            fits: "fewer simulations, scenarios or codes would fit".into(),
        })
    }

    /// Bytes that its trees have taken.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().flat_map(|block| &block.trees).map(Tree::taken).sum()
    }

    /// Searches from all roots, on as many threads as there are evaluators, at most those it was made for.
    ///
    /// # Errors
    ///
    /// Where an evaluation fails.
    pub fn run<E: Evaluate>(&mut self, world: &W, evaluators: &mut [E], roots: &[Root<W::Known>]) -> Result<Outcomes> {
        let gumbels = gumbels_of(&self.settings, roots, self.actions);
        self.run_with(world, evaluators, roots, &gumbels)
    }

    /// The same with Gumbel draws that are given, `[R, A]`.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the roots' actions, or an evaluation fails.
    pub fn run_with<E: Evaluate>(
        &mut self,
        world: &W,
        evaluators: &mut [E],
        roots: &[Root<W::Known>],
        gumbels: &[f32],
    ) -> Result<Outcomes> {
        let (actions, settings) = (self.actions, &self.settings);
        if gumbels.len() != roots.len() * actions || world.actions() != actions {
            return Err(Error::Invalid(format!(
                "{} Gumbel draws for {} roots of {actions} actions; give one for each",
                gumbels.len(),
                roots.len()
            )));
        }
        if evaluators.is_empty() {
            return Err(Error::Invalid("no evaluator; give one for each thread".into()));
        }
        // No thread is left without work while others have several roots.
        let threads = evaluators.len().min(self.blocks.len());
        let each = settings.block().min(roots.len().div_ceil(threads)).max(1);
        let work = Mutex::new(roots.chunks(each).zip(gumbels.chunks(each * actions)).enumerate());
        let done: Mutex<Vec<(usize, Result<Outcomes>)>> = Mutex::new(Vec::new());
        let walk = |block: &mut Block<W>, evaluator: &mut E| {
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, (roots, gumbels))) = next else { return };
                let found = block.search(world, evaluator, settings, roots, gumbels).map(|()| {
                    let mut outcomes = Outcomes::default();
                    for (tree, gumbels) in block.trees.iter().zip(gumbels.chunks_exact(actions)) {
                        outcomes.push(world, tree, settings, gumbels);
                    }
                    outcomes
                });
                done.lock().unwrap_or_else(PoisonError::into_inner).push((number, found));
            }
        };
        let mut pairs = self.blocks.iter_mut().zip(evaluators);
        let first = pairs.next();
        std::thread::scope(|scope| {
            let helpers = roots.len().div_ceil(each).saturating_sub(1);
            for (block, evaluator) in pairs.take(helpers) {
                scope.spawn(|| walk(block, evaluator));
            }
            if let Some((block, evaluator)) = first {
                walk(block, evaluator);
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        let mut outcomes = Outcomes { actions, ..Outcomes::default() };
        for (_, found) in done {
            outcomes.append(found?);
        }
        Ok(outcomes)
    }
}

/// `[R, A]` the draws of all roots, scaled; zeros where none are needed.
pub(crate) fn gumbels_of<K>(settings: &Settings, roots: &[Root<K>], actions: usize) -> Vec<f32> {
    match settings.rule {
        RootRule::Puct { .. } => vec![0.0; roots.len() * actions],
        RootRule::Gumbel { scale, .. } => {
            let own = |root: &Root<K>| gumbels(settings.seed, root.counter, actions);
            roots.iter().flat_map(own).map(|gumbel| scale * gumbel).collect()
        }
    }
}

/// `[A]` a root's draws from the Gumbel distribution.
fn gumbels(seed: u64, counter: u64, actions: usize) -> Vec<f32> {
    let word = |action: usize| {
        let words = philox(seed, [action as u32 / 4, counter as u32, Stream::Noise as u32, (counter >> 32) as u32]);
        words[action % 4]
    };
    // Uniform inside (0, 1): neither logarithm is infinite.
    let draw = |action| -(-((f64::from(word(action)) + 0.5) / 4_294_967_296.0).ln()).ln() as f32;
    (0..actions).map(draw).collect()
}
