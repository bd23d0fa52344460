//! Searches of experts on a card: all roots of all members at a step are one search, with one upload and one download.

use super::model::{ACTIONS, FoldMarket};
use compute::cuda::Context;
use compute::{Error, Net, Result};
use search::cuda::{HonestModel, HonestModels, HonestRoot, HonestSearch};
use search::{InfoSet, Outcomes, Root, Settings};
use std::sync::Arc;

/// A search by several nets, each in the market of its fold.
pub(super) struct CardSearch {
    search: HonestSearch,
    markets: Vec<Arc<FoldMarket>>,
    /// `[nets]` which of the markets is a net's.
    market_of: Vec<usize>,
}

impl CardSearch {
    /// Nets of one shape, whose parameters are still to be set, with the market of each; `roots` go at once.
    pub(super) fn new(
        context: &Arc<Context>,
        net: &Net,
        of_nets: &[Arc<FoldMarket>],
        settings: &Settings,
        roots: usize,
    ) -> Result<CardSearch> {
        let mut markets: Vec<Arc<FoldMarket>> = Vec::new();
        let mut market_of = Vec::new();
        for market in of_nets {
            let found = markets.iter().position(|own| Arc::ptr_eq(own, market));
            market_of.push(found.unwrap_or(markets.len()));
            if found.is_none() {
                markets.push(Arc::clone(market));
            }
        }
        let Some(first) = markets.first() else { return Err(Error::Invalid("no net searches".into())) };
        let discount = first.discount();
        let models = markets.iter().map(|market| match market.bootstrap() {
            Some(model) => Ok(HonestModel { model, unit: market.unit }),
            None => Err(Error::Invalid("a card searches in bootstraps alone".into())),
        });
        let models = Arc::new(HonestModels::new(context, &models.collect::<Result<Vec<_>>>()?)?);
        let search = HonestSearch::new(&models, net, of_nets.len(), settings, discount, roots.max(1))?;
        Ok(CardSearch { search, markets, market_of })
    }

    /// How it works, in words.
    pub(super) fn describe(&self) -> &'static str {
        self.search.describe()
    }

    /// The parameters of a net.
    pub(super) fn set_params(&mut self, net: usize, params: &[f32]) -> Result<()> {
        self.search.set_params(net, params)
    }

    /// Searches from roots of nets, with draws at the root or without; what was found is in their order.
    pub(super) fn run(&mut self, roots: &[(usize, &Root<InfoSet>)], draws: bool) -> Result<Outcomes> {
        let root = |(net, root): &(usize, &'_ Root<InfoSet>)| {
            let model = self.market_of[*net];
            (*net, model, self.markets[model].prior_of(&root.known))
        };
        let mut all = Vec::with_capacity(roots.len());
        for own in roots {
            let (net, model, prior): (usize, usize, [f32; ACTIONS]) = root(own);
            all.push(HonestRoot { root: own.1, model, net, prior });
        }
        self.search.run_scaled(&all, if draws { 1.0 } else { 0.0 })
    }
}
