//! What honest searches are timed in: a market that is a walk, accounts on its last rows, and such a search on a card.
//! `bench search` and `fullbore-bench search` time the same.

use super::search::{FEATURES, INPUTS};
use account::{Account, Bar, Params};
use compute::cuda::Context;
use compute::{Net, Result};
use market::{OBSERVED, RowTime, observe};
use random::{SplitMix, normal};
use search::cuda::{HonestModel, HonestModels, HonestRoot, HonestSearch};
use search::{Bootstrap, InfoSet, MarketWorld, Root, Rows, TrainingRow};
use std::sync::Arc;
use std::time::Instant;

/// Rows of the market that accounts are searched in.
const TRAINING_ROWS: u32 = 20_000;
const DISCOUNT: f32 = 0.99;

/// A walk of 20,000 rows whose 56 features know nothing.
///
/// # Errors
///
/// Where no market can be fitted on it.
pub fn bench_market() -> Result<MarketWorld<Bootstrap>> {
    let mut random = SplitMix::new(7);
    let mut draw = || normal::quantile(random.unit().max(1e-12));
    let (mut rows, mut observations, mut close) = (Vec::new(), Vec::new(), 100.0);
    for clock in 0..TRAINING_ROWS {
        let open = close;
        close *= 1.0 + 1e-3 * draw();
        let bar = Bar { open, high: open.max(close), low: open.min(close), close, sigma: 1e-3, ..Bar::flat(close) };
        rows.push(TrainingRow { bar, time: [0.5, 0.0], clock, continues: true });
        observations.extend((0..FEATURES).map(|_| draw() as f32));
    }
    let model = Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |_| true)?)?;
    Ok(MarketWorld::new(model, DISCOUNT, show, INPUTS - FEATURES))
}

/// What an account is shown of itself, as in training.
fn show(params: &Params, account: &Account, bar: &Bar, [time_of_day, bars_to_close]: [f32; 2], to: &mut [f32]) {
    observe(params, account, bar, RowTime { time_of_day, bars_to_close }, to);
}

/// Flat accounts at the last rows of a market.
pub fn bench_roots(world: &MarketWorld<Bootstrap>, roots: usize) -> Vec<InfoSet> {
    let rows = world.model().rows();
    let root = |at: usize| {
        let row = rows.len() - 1 - at % rows.len();
        let observation = rows.observations()[row * FEATURES..(row + 1) * FEATURES].to_vec();
        let params = Params { fee: 5e-4, ..Params::default() };
        let (bar, account) = (rows.all()[row].bar, Account::new(&params));
        InfoSet { observation, bar, time: [0.5, 0.0], params, account, excluded: 0..0 }
    };
    (0..roots).map(root).collect()
}

/// A market on a card; any number of [`HonestOnCard`] share it.
///
/// # Errors
///
/// Where the card fails, or its memory is not enough.
pub fn bench_models(context: &Arc<Context>, world: &MarketWorld<Bootstrap>) -> Result<Arc<HonestModels>> {
    HonestModels::new(context, &[HonestModel { model: world.model(), unit: 1.0 }]).map(Arc::new)
}

/// An honest search by one net on a card, with its roots.
pub struct HonestOnCard {
    models: Arc<HonestModels>,
    search: HonestSearch,
    settings: search::Settings,
    roots: Vec<Root<InfoSet>>,
}

impl HonestOnCard {
    /// A search from all roots by a net with these parameters.
    ///
    /// # Errors
    ///
    /// Where net and settings make no sense on a card, or its memory is not enough.
    pub fn new(
        models: &Arc<HonestModels>,
        net: &Net,
        params: &[f32],
        settings: &search::Settings,
        known: Vec<InfoSet>,
    ) -> Result<HonestOnCard> {
        let mut search = HonestSearch::new(models, net, 1, settings, DISCOUNT, known.len())?;
        search.set_params(0, params)?;
        let roots = known.into_iter().zip(0..).map(|(known, counter)| Root { known, counter }).collect();
        Ok(HonestOnCard { models: Arc::clone(models), search, settings: settings.clone(), roots })
    }

    /// Seconds of a search: all roots go to the card and what was found comes back, as a step of a training does it.
    ///
    /// # Errors
    ///
    /// Where the card fails.
    pub fn whole_s(&mut self) -> Result<f64> {
        let all = on_card(&self.roots);
        let clock = Instant::now();
        self.search.run(&all)?;
        Ok(clock.elapsed().as_secs_f64())
    }

    /// Seconds of the same without the way there and back, of [`at_once`](HonestOnCard::at_once) roots.
    ///
    /// # Errors
    ///
    /// Where the card fails.
    pub fn on_card_s(&mut self) -> Result<f64> {
        let all = on_card(&self.roots);
        let clock = Instant::now();
        self.search.again(&all)?;
        Ok(clock.elapsed().as_secs_f64())
    }

    /// Roots that are on the card at once: all of them, or fewer where the net is wide.
    pub fn at_once(&self) -> usize {
        self.search.at_once().min(self.roots.len())
    }

    /// Rows that the net computes in a search: each root itself, all actions on all scenarios, and all codes of every
    /// simulation. A card computes them also for a simulation that ends where nothing is to be evaluated.
    pub fn evaluations(&self) -> usize {
        let search::Settings { scenarios, codes, simulations, .. } = &self.settings;
        self.roots.len() * (1 + 3 * scenarios + codes * *simulations as usize)
    }

    /// Bytes of trees, roots, nets and market.
    pub fn bytes(&self) -> u64 {
        self.search.bytes() + self.models.bytes()
    }

    /// How it works, in words.
    pub fn describe(&self) -> &'static str {
        self.search.describe()
    }
}

fn on_card(roots: &[Root<InfoSet>]) -> Vec<HonestRoot<'_>> {
    roots.iter().map(|root| HonestRoot { root, model: 0, net: 0, prior: [0.0; 3] }).collect()
}

const _: () = assert!(INPUTS - FEATURES == OBSERVED);
