//! The model of a training part: the bootstrap, or the learned one where it predicts better.

use super::Learned;
use super::compare::{Comparison, compare};
use super::net::{LATENT, Latent};
use crate::bootstrap::{Bootstrap, Drawn, Rows};
use crate::market::{InfoSet, MarketModel};
use crate::world::{Chance, Draws};
use account::Bar;
use compute::Result;

/// Which model is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelRule {
    /// The learned one where it predicts better on rows held out, else the bootstrap.
    #[default]
    Auto,
    /// The bootstrap; nothing is compared.
    Bootstrap,
    /// The learned one, however the comparison ends.
    Learned,
}

/// Which model it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// Rows drawn by how near their predecessors are.
    Bootstrap,
    /// Codes with learned probabilities.
    Learned,
}

impl ModelKind {
    /// Its name in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Bootstrap => "bootstrap",
            ModelKind::Learned => "learned",
        }
    }
}

/// A model of either kind.
#[derive(Debug)]
pub enum FittedModel {
    /// Rows drawn by how near their predecessors are.
    Bootstrap(Bootstrap),
    /// Codes with learned probabilities.
    Learned(Learned),
}

/// A state of either kind of model: a training row or the root, and what the latent before it carries on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Imagined {
    pub(super) drawn: Drawn,
    pub(super) carried: Latent,
}

impl FittedModel {
    /// Fits the model of training rows. Where both kinds are fitted they are compared, by what they say of the next
    /// move and of the move over `horizon` bars; where rows are too few for that there is no comparison.
    ///
    /// # Errors
    ///
    /// Where too few rows have one that follows them.
    pub fn fit(rows: Rows, rule: ModelRule, horizon: usize) -> Result<(FittedModel, Option<Comparison>)> {
        let compared = if rule == ModelRule::Bootstrap { None } else { compare(&rows, horizon)? };
        let is_learned = match rule {
            ModelRule::Auto => compared.as_ref().is_some_and(Comparison::learned_is_better),
            ModelRule::Bootstrap => false,
            ModelRule::Learned => true,
        };
        let model = match is_learned {
            true => FittedModel::Learned(Learned::new(rows)?),
            false => FittedModel::Bootstrap(Bootstrap::new(rows)?),
        };
        Ok((model, compared))
    }

    /// Which kind it is.
    pub fn kind(&self) -> ModelKind {
        match self {
            FittedModel::Bootstrap(_) => ModelKind::Bootstrap,
            FittedModel::Learned(_) => ModelKind::Learned,
        }
    }

    /// The rows.
    pub fn rows(&self) -> &Rows {
        match self {
            FittedModel::Bootstrap(model) => model.rows(),
            FittedModel::Learned(model) => model.rows(),
        }
    }
}

impl MarketModel for FittedModel {
    type State = Imagined;

    fn features(&self) -> usize {
        self.rows().features()
    }

    fn root(&self, known: &InfoSet) -> Imagined {
        Imagined { drawn: Drawn { row: None, bar: known.bar }, carried: [0.0; LATENT] }
    }

    fn bar<'a>(&self, state: &'a Imagined) -> &'a Bar {
        &state.drawn.bar
    }

    fn draw(&self, known: &InfoSet, state: &Imagined, draws: Draws, count: usize, to: &mut Vec<Chance<Imagined>>) {
        match self {
            FittedModel::Bootstrap(model) => model.follow(known, &state.drawn, draws, count, |drawn| {
                let market = Imagined { drawn, carried: [0.0; LATENT] };
                to.push(Chance { probability: 1.0 / count as f32, market });
            }),
            FittedModel::Learned(model) => model.follow(known, state, draws, count, to),
        }
    }

    fn observe(&self, known: &InfoSet, state: &Imagined, to: &mut [f32]) -> [f32; 2] {
        self.rows().observe(known, &state.drawn, to)
    }

    fn row(&self, state: &Imagined) -> Option<u32> {
        state.drawn.row
    }
}
