//! `search`: policies that search at every close, in a market that was fitted on the training part of their fold; the
//! search teaches the net, and the net guides the search. Selected by what they make of their validation with search,
//! judged, deployed and kept as `ppo` is. Every result has four lines: the net alone, with search, the oracle, nothing.

use super::market_models::MarketModelRow;
use super::model::{self, KeptSearch};
use super::policies::{
    Stoppable, episodes, folds_of_rows, gradient_recipe, net_policy, pace_figures, policies_of, policy_info, processor,
    refuse_evolving, refuse_members, refuse_what_is_not_a_policys, spec, tested, trading_data, units, usage,
};
use super::ppo::PpoKind;
use super::price_trend::is_price_trend;
use super::{Evaluation, Figure, Kind, KindInfo, MoreFigure, Validated};
use crate::progress::{Count, check_stop};
use crate::train::{Answer, Experiment, Ids, ModelRows, NetAlone, RowsOfFolds, Source, memory_budget, parameters};
use crate::{PpoSettings, Settings};
use account::Action;
use compute::Opened;
use compute::population::Precision;
use features::{Dataset, Input};
use files::{Error, Result, format_count};
use judge::split::Splits;
use learn::expert::{
    Expert, Hypers, ModelRule, SearchFold, SearchPolicy, SearchRows, SearchShape, SelectionRule, Spec, Trend,
};
use learn::ppo::{Deciders, FoldPolicy};
use learn::{Config, Learner, Problem, Trained};
use market::{EpisodeData, Needs, Policy, View};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct SearchKind;

const FIGURES: &[Figure] = &[
    Figure { name: "train_growth", tag: "rollout/ep_rew_mean", label: Some("earned") },
    Figure { name: "valid_growth", tag: "eval/mean_reward", label: Some("validation") },
    Figure { name: "valid_error", tag: "eval/standard_error", label: None },
    Figure { name: "net_growth", tag: "eval/net_alone", label: Some("net alone") },
    Figure { name: "net_error", tag: "eval/net_standard_error", label: None },
    Figure { name: "entropy", tag: "train/entropy", label: Some("entropy") },
    Figure { name: "policy_loss", tag: "train/policy_loss", label: None },
    Figure { name: "value_loss", tag: "train/value_loss", label: None },
    Figure { name: "root_value", tag: "search/root_value", label: None },
    Figure { name: "changed", tag: "search/changed", label: None },
    Figure { name: "model_crps", tag: "market/crps", label: None },
    Figure { name: "model_coverage", tag: "market/coverage", label: None },
    Figure { name: "model_learned", tag: "market/learned", label: None },
    Figure { name: "bootstrap_crps", tag: "market/bootstrap_crps", label: None },
    Figure { name: "bootstrap_coverage", tag: "market/bootstrap_coverage", label: None },
    Figure { name: "learned_crps", tag: "market/learned_crps", label: None },
    Figure { name: "learned_coverage", tag: "market/learned_coverage", label: None },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
    Figure { name: "learning_rate", tag: "train/learning_rate", label: None },
];

/// Roots of a member where nothing was set: seconds of two cores.
const TIMESTEPS: usize = 16_384;
/// Roots of an iteration: accounts times steps.
const ROOTS: usize = 1024;
/// Accounts, all of them roots of one batch; twice as many for symbols by the hundred, which they are spread over.
const ACCOUNTS: usize = 64;
/// Simulations and scenarios of a root; of nets with more parameters than [`WIDE`] half as many.
const SIMULATIONS: usize = 16;
const SCENARIOS: usize = 64;
const WIDE: u64 = 1 << 20;
const HORIZON: usize = 8;
/// Rows of a minibatch, at most.
const BATCH: usize = 256;

/// How accounts are searched where settings leave it open: a fixed rule of data, net and what else is set. It looks at
/// no clock and at no free memory, so the same data and settings give the same bits on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SearchRule {
    pub(crate) n_envs: usize,
    pub(crate) n_steps: usize,
    pub(crate) roots: usize,
    pub(crate) simulations: usize,
    pub(crate) scenarios: usize,
    pub(crate) horizon: usize,
}

impl SearchRule {
    /// What settings say, and the rule where they say nothing, for so many symbols and nets of so many parameters.
    fn new(settings: &Settings, symbols: usize, parameters: u64) -> SearchRule {
        let (shared, own) = (&settings.ppo, &settings.search);
        let n_envs = shared.n_envs.or(own.roots).unwrap_or(ACCOUNTS * if symbols > 2 * ACCOUNTS { 2 } else { 1 });
        let less = if parameters > WIDE { 2 } else { 1 };
        SearchRule {
            n_envs,
            n_steps: shared.n_steps.unwrap_or_else(|| SearchRule::steps(n_envs)),
            roots: own.roots.unwrap_or(n_envs),
            simulations: own.simulations.unwrap_or(SIMULATIONS / less),
            scenarios: own.scenarios.unwrap_or(SCENARIOS / less),
            horizon: own.horizon.unwrap_or(HORIZON),
        }
    }

    /// Of settings that were filled in; without that, what a small net takes for one symbol.
    pub(crate) fn of(settings: &Settings) -> SearchRule {
        SearchRule::new(settings, 1, 0)
    }

    /// Steps of so many accounts in an iteration.
    pub(crate) fn steps(accounts: usize) -> usize {
        (ROOTS / accounts.max(1)).clamp(2, ROOTS)
    }
}

/// Roots of a member in its whole training.
pub(crate) fn timesteps(settings: &Settings) -> usize {
    settings.ppo.timesteps.unwrap_or(TIMESTEPS)
}

fn hypers(settings: &Settings) -> Hypers {
    let (shared, own) = (&settings.ppo, &settings.search);
    let SearchRule { n_envs, n_steps, roots, simulations, scenarios, horizon } = SearchRule::of(settings);
    Hypers {
        n_envs: n_envs as u32,
        n_steps: n_steps as u32,
        search: SearchShape {
            simulations: simulations as u32,
            scenarios: scenarios as u32,
            codes: own.codes as u32,
            horizon: horizon as u32,
            roots: roots as u32,
            rule: own.rule.unwrap_or_default(),
        },
        replay: own.replay as u32,
        n_epochs: own.n_epochs as u32,
        realised: own.realised as f32,
        explored: own.explored as f32,
        vf_coef: shared.vf_coef as f32,
        episode: shared.episode as u32,
    }
}

fn config(settings: &Settings, net: &compute::Net) -> Result<Config> {
    let batch = settings.classify.batch.unwrap_or(BATCH).min(hypers(settings).rows() as usize);
    let precision = settings.train.precision.unwrap_or(Precision::F32);
    if precision == Precision::Tf32 {
        return Err(usage("nets that search compute in f32 or bf16", "choose <train.precision=f32> or bf16"));
    }
    let recipe = gradient_recipe(settings, batch, precision);
    Ok(Config { net: net.clone(), recipe, rate: SearchKind.rate(settings, batch) })
}

fn iterations(settings: &Settings) -> u32 {
    units(settings, timesteps(settings), hypers(settings).rows())
}

/// Columns that are computed of the trend of a price, whatever they are called, counted through all inputs.
fn trend(data: &Dataset, settings: &Settings) -> Result<Trend> {
    let columns = data.row_columns().enumerate();
    let columns: Vec<usize> = columns.filter(|(_, column)| is_price_trend(&column.text)).map(|(at, _)| at).collect();
    let inverted = settings.search.invert_trend;
    if inverted && columns.is_empty() {
        let what = "there is no trend to invert: no feature is computed of an indicator of trends of a price";
        let remedy = "add one, as in <features.set=\"close/sma(50) - 1, rsi(14)\">, or leave <search.invert_trend> out";
        return Err(Error::new(files::Kind::Usage, what).remedy(remedy));
    }
    Ok(Trend { columns, weight: settings.search.trend_prior as f32, inverted })
}

/// An error where something was set that other learners alone go by.
fn refuse_what_is_not_ours(settings: &Settings) -> Result<()> {
    refuse_evolving(settings)?;
    refuse_what_is_not_a_policys(settings)?;
    let PpoSettings { timesteps, n_envs, n_steps, episode, gamma, vf_coef, max_grad_norm, schedule, .. } =
        settings.ppo.clone();
    let usual = PpoSettings::default();
    let ours = PpoSettings { timesteps, n_envs, n_steps, episode, gamma, vf_coef, max_grad_norm, schedule, ..usual };
    if settings.ppo != ours {
        let what = "of `ppo.` a search goes by timesteps, n_envs, n_steps, episode, gamma, vf_coef, max_grad_norm and \
                    schedule alone, and its actions are short, flat and long";
        return Err(usage(what, "choose <train.learner=ppo>, or leave the others out"));
    }
    Ok(())
}

/// Whether the text of a net has recurrent layers, or an input that is a window of rows.
pub(crate) fn has_memory(net: &str) -> bool {
    let digit_first = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_recurrent = |part: &str| part.strip_prefix("lstm").is_some_and(digit_first);
    let is_window = |part: &str| {
        let rows = part.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(['x', '×']);
        digit_first(part) && rows.is_some_and(digit_first)
    };
    net.split(['-', ',', '|', '/', '+', ':', ' ']).any(|part| is_recurrent(part) || is_window(part))
}

/// An error where a whole training has fewer roots than accounts: a single iteration would take many times as long as
/// what was asked for.
fn refuse_idle_accounts(settings: &Settings) -> Result<()> {
    let (accounts, roots) = (SearchRule::of(settings).n_envs, timesteps(settings));
    if accounts <= roots.max(ROOTS) {
        return Ok(());
    }
    let [accounts, roots] = [accounts, roots].map(|n| format_count(n as u64));
    let what = format!("{accounts} accounts, and {roots} roots in a whole training: most would never take a step");
    let remedy = "give fewer accounts with <ppo.n_envs> or <search.roots>, or more roots with <ppo.timesteps>";
    Err(Error::new(files::Kind::Usage, what).remedy(remedy))
}

/// The experts of settings, and the bars they trade.
fn expert<'a>(
    source: &'a Source,
    splits: &Splits,
    settings: &Settings,
    device: &Opened,
) -> Result<(Expert, &'a Dataset, Arc<EpisodeData>)> {
    let data = trading_data(source, splits)?;
    let all: Vec<Settings> = settings.configs().into_iter().map(|(_, own)| own).collect();
    all.iter().try_for_each(refuse_what_is_not_ours)?;
    if all.iter().any(|own| own.ppo.gamma != settings.ppo.gamma) {
        return Err(usage("a fold has one market, and so one `ppo.gamma`", "set <ppo.gamma> for all configs"));
    }
    all.iter().try_for_each(refuse_idle_accounts)?;
    if settings.has_candidates("search.roots") && all.iter().any(|own| own.ppo.n_envs.is_some()) {
        let what = "roots in a batch change no bit where accounts are set, so configs of several would be the same";
        return Err(usage(what, "try <ppo.n_envs> alone, or leave it out"));
    }
    if settings.search.baseline && all.len() > 1 {
        let what = "a baseline has the net of the search, and several configs are tried";
        return Err(usage(what, "leave <search.baseline> or <try> out"));
    }
    let configs = all.iter().zip(&source.nets).map(|(own, net)| config(own, net)).collect::<Result<_>>()?;
    let (hypers, iterations) = (all.iter().map(hypers).collect(), all.iter().map(iterations).collect());
    let spec = Spec {
        policies: spec(settings, configs, hypers, iterations),
        gamma: settings.ppo.gamma as f32,
        trend: trend(data, settings)?,
        model: model_rule(settings, device)?,
    };
    let episodes = episodes(data, settings)?;
    Ok((Expert::new(&source.problem, &episodes, &splits.folds, spec)?, data, episodes))
}

/// Which market model may be searched in. A card has kernels for the bootstrap alone.
fn model_rule(settings: &Settings, device: &Opened) -> Result<ModelRule> {
    match (device, settings.search.model) {
        (Opened::Cuda(_), ModelRule::Learned) => {
            let what = "the learned market model is searched on the processor";
            Err(usage(what, "use <device> cpu, or leave <search.model> out"))
        }
        (Opened::Cuda(_), _) => Ok(ModelRule::Bootstrap),
        (Opened::Cpu { .. }, rule) => Ok(rule),
    }
}

/// The length of a bar.
pub(super) fn bar_seconds(data: &Dataset) -> f64 {
    data.base.timeframe.ns() as f64 / 1e9
}

/// `[rows]` the name of each row in random numbers, by its symbol and its time: the same bar draws the same wherever
/// its row lies.
fn counters(data: &Dataset) -> Vec<u64> {
    let mut all = Vec::with_capacity(data.base.rows());
    for (symbol, bars) in data.base.market.iter().enumerate() {
        let name = bars
            .symbol
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let rows = data.clock.rows(symbol);
        all.extend(rows.map(|row| random::mix(name ^ data.clock.time(row) as u64)));
    }
    all
}

/// How the members of an experiment search.
pub(super) struct Searching {
    expert: Expert,
    problem: Arc<Problem>,
    data: Arc<EpisodeData>,
    /// `[configs]`
    shapes: Vec<(SearchShape, Precision)>,
    counters: Vec<u64>,
    device: Opened,
    /// Bytes that trees may take.
    memory: u64,
    judging: Arc<Count>,
}

/// A policy that counts its decisions, so that judging shows how far it is.
struct Counted {
    policy: SearchPolicy,
    /// `[rows]` the fold that decides.
    fold_of: Vec<Option<u16>>,
    judging: Arc<Count>,
}

impl Policy for Counted {
    fn needs(&self) -> Needs {
        self.policy.needs()
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        check_stop()?;
        self.policy.act(view, memory, actions)?;
        let decided = view.rows.iter().filter(|row| self.fold_of[**row as usize].is_some()).count();
        self.judging.done.fetch_add(decided as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Searching {
    /// Members of folds as one policy; `configs` `[folds]` say how each searches.
    pub(super) fn policy(
        &self,
        folds: Vec<FoldPolicy>,
        configs: &[usize],
        fold_of: Vec<Option<u16>>,
        share: f64,
        lanes: Vec<Vec<Deciders>>,
    ) -> Result<Box<dyn Policy>> {
        let fold = |(number, policy): (usize, FoldPolicy)| {
            let trades = !policy.members.is_empty();
            let market = trades.then(|| self.expert.market(number)).transpose().map_err(learn::failed)?;
            let (shape, precision) = self.shapes[configs[number]];
            Ok(SearchFold { policy, market, shape, precision })
        };
        let folds = folds.into_iter().enumerate().map(fold).collect::<Result<Vec<_>>>()?;
        let (problem, data) = (Arc::clone(&self.problem), Arc::clone(&self.data));
        let (judging, counters) = (Arc::clone(&self.judging), self.counters.clone());
        let rows = SearchRows { problem, data, fold_of: fold_of.clone(), counters, share };
        let policy = SearchPolicy::new(rows, folds, lanes, (&self.device, self.memory))?;
        Ok(Box::new(Counted { policy, fold_of, judging }))
    }

    /// So many decisions are to come.
    pub(super) fn expect(&self, decisions: usize) {
        self.judging.total.fetch_add(decisions as u64, Ordering::Relaxed);
    }

    /// The market model of every fold.
    pub(super) fn market_models(&self) -> Result<Vec<MarketModelRow>> {
        let names: Vec<&String> = self.problem.inputs.iter().flat_map(|input| &input.columns).collect();
        let row = |fold| {
            let market = self.expert.market(fold).map_err(learn::failed)?;
            let trend = market.trend_column().map(|column| names[column].clone());
            Ok(MarketModelRow::new(fold, &market, trend))
        };
        (0..self.expert.extent().folds).map(row).collect()
    }

    /// What a model keeps of a fold: how its members search, and the market.
    pub(super) fn keep(&self, fold: usize, config: usize) -> Result<KeptSearch> {
        let market = self.expert.market(fold).map_err(learn::failed)?.to_bytes();
        Ok(KeptSearch { shape: self.shapes[config].0, market, on_card: matches!(self.device, Opened::Cuda(_)) })
    }
}

impl Kind for SearchKind {
    fn info(&self) -> KindInfo {
        KindInfo { counts_decisions: true, ..policy_info("search") }
    }

    fn net(&self, settings: &Settings, inputs: &[Input], classes: usize) -> String {
        PpoKind.net(settings, inputs, classes)
    }

    fn refuse_net(&self, settings: &Settings) -> Result<()> {
        match settings.classify.net.as_deref().filter(|net| has_memory(net)) {
            Some(net) => {
                let what = format!("the net `{net}` has a memory or a window, and a search reads one row");
                Err(usage(what, "give layers without memory, as in <train.net=64t-64t>"))
            }
            None => Ok(()),
        }
    }

    fn learner(&self, source: &Source, splits: &Splits, settings: &Settings, at: &Opened) -> Result<Box<dyn Learner>> {
        Ok(Box::new(expert(source, splits, settings, at)?.0))
    }

    fn fill_in(&self, settings: &mut Settings, source: &Source, _: &Opened) {
        let symbols = if let Ids::Bars { data, .. } = &source.ids { data.base.market.len() } else { 1 };
        let parameters = source.nets.iter().map(parameters).max().unwrap_or(0);
        let rule = SearchRule::new(settings, symbols, parameters);
        // What is tried stays open: other accounts have other steps.
        let tried: Vec<String> = settings.train.candidates.iter().map(|tried| tried.key.to_string()).collect();
        let is_tried = |keys: &[&str]| keys.iter().any(|key| tried.iter().any(|tried| tried == key));
        let (shared, own) = (&mut settings.ppo, &mut settings.search);
        let accounts = ["ppo.n_envs", "search.roots"];
        for (keys, own, value) in [
            (&accounts[..], &mut shared.n_envs, rule.n_envs),
            (&["ppo.n_envs", "search.roots", "ppo.n_steps"], &mut shared.n_steps, rule.n_steps),
            (&accounts, &mut own.roots, rule.roots),
            (&["search.simulations"], &mut own.simulations, rule.simulations),
            (&["search.scenarios"], &mut own.scenarios, rule.scenarios),
            (&["search.horizon"], &mut own.horizon, rule.horizon),
        ] {
            if !is_tried(keys) {
                own.get_or_insert(value);
            }
        }
        if !is_tried(&["search.rule"]) {
            own.rule.get_or_insert_default();
        }
    }

    fn tuned_for(&self, settings: &Settings, net: &compute::Net) -> Value {
        let SearchRule { scenarios, horizon, .. } = SearchRule::new(settings, 1, parameters(net));
        let own = &settings.search;
        json!({
            "scenarios": scenarios,
            "codes": own.codes,
            "horizon": horizon,
            "rule": own.rule.unwrap_or_default(),
            "model": format!("{:?}", own.model).to_lowercase(),
        })
    }

    fn searching<'s>(&self, settings: &'s mut Settings) -> Option<[(&'static str, &'s mut Option<usize>); 4]> {
        let (shared, own) = (&mut settings.ppo, &mut settings.search);
        Some([
            ("ppo.n_envs", &mut shared.n_envs),
            ("ppo.n_steps", &mut shared.n_steps),
            ("search.roots", &mut own.roots),
            ("search.simulations", &mut own.simulations),
        ])
    }

    fn identity(&self, settings: &Settings) -> String {
        let (own, gamma) = (&settings.search, settings.ppo.gamma);
        let trend = format!("{} {}", own.trend_prior, own.invert_trend);
        let market = format!("{gamma} {trend} {:?}", own.model);
        // How many roots go in a batch is pace; the accounts that follow from it are in here.
        let mut hypers = hypers(settings);
        hypers.search.roots = 0;
        format!("{hypers:?}{} {market}{}", iterations(settings), settings.account.identity())
    }

    fn rate(&self, settings: &Settings, _: usize) -> f32 {
        settings.classify.rate.unwrap_or(1e-3) as f32
    }

    fn rate_rule(&self, settings: &Settings) -> &'static str {
        match settings.classify.rate {
            Some(_) => "as set, whatever the batch",
            None => "1e-3, whatever the batch",
        }
    }

    fn figures(&self, _: &Settings) -> &'static [Figure] {
        FIGURES
    }

    /// How fast it goes: roots and simulations.
    fn more_figures(&self, of: &Validated<'_>, rate: f64) -> Vec<MoreFigure> {
        let simulations = f64::from(hypers(of.settings).search.simulations);
        let (name, tag) = (Some("simulations_per_s"), "time/simulations_per_s");
        let mut all = vec![MoreFigure { name, tag, value: rate * simulations }];
        all.extend(pace_figures(of, self.event_step(of), rate));
        all
    }

    /// Roots that were searched.
    fn event_step(&self, of: &Validated<'_>) -> u64 {
        u64::from(of.validation.unit) * hypers(of.settings).rows()
    }

    fn open(&self, asked: ModelRows<'_>) -> Result<Answer> {
        let ModelRows { loaded, data, rows, device, settings, asking } = asked;
        let RowsOfFolds { folds: rows, inputs, .. } = rows;
        refuse_members(asking.by_member)?;
        let (problem, net) = net_policy(loaded, model::ModelFold::net_flat, data, inputs, &rows, settings)?;
        let folds = policies_of(loaded, |fold| &fold.flat).into_iter().zip(&loaded.markets).zip(&loaded.model.folds);
        let rule = SelectionRule::default();
        let none = SearchShape { simulations: 1, scenarios: 2, codes: 1, horizon: 1, roots: 1, rule };
        let fold = |((policy, market), own): ((FoldPolicy, &Option<_>), &model::ModelFold)| {
            // Where nobody trades nobody searches.
            let precision = own.config.as_ref().map_or(&loaded.model.recipe, |config| &config.recipe).precision;
            SearchFold { policy, market: market.clone(), shape: own.search.unwrap_or(none), precision }
        };
        let fold_of = folds_of_rows(data, &rows);
        let is_searched = |fold: &u16| loaded.model.folds[usize::from(*fold)].search.is_some();
        let searches = fold_of.iter().map(|fold| fold.filter(is_searched)).collect();
        let searching = SearchRows {
            problem: Arc::new(problem),
            data: episodes(data, settings)?,
            fold_of: fold_of.clone(),
            counters: counters(data),
            share: 1.0 / data.base.market.len() as f64,
        };
        let on_card = loaded.model.folds.iter().any(|fold| fold.searched_on_card);
        let device = match device {
            Opened::Cuda(_) if on_card => device,
            _ => processor(settings)?,
        };
        let memory = memory_budget(settings, &device).bytes(u64::MAX);
        let policy = SearchPolicy::new(searching, folds.map(fold).collect(), Vec::new(), (&device, memory))?;
        let mut answer = Answer::of_policy(loaded, data, &rows, Arc::new(Stoppable(policy)));
        let bar_seconds = bar_seconds(data);
        answer.net = Some(NetAlone { policy: Box::new(Stoppable(net)), searches, bar_seconds });
        Ok(answer)
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        let Experiment { source, splits, settings, .. } = experiment;
        let (expert, data, episodes) = expert(source, splits, settings, &experiment.at.device)?;
        let precision = |own: &Settings| own.train.precision.unwrap_or(Precision::F32);
        let shapes = settings.configs().iter().map(|(_, own)| (hypers(own).search, precision(own))).collect();
        let searching = Searching {
            expert,
            problem: Arc::clone(&source.problem),
            data: episodes,
            shapes,
            counters: counters(data),
            device: experiment.at.device.clone(),
            memory: experiment.at.budget.bytes(u64::MAX),
            judging: Arc::clone(&experiment.judging),
        };
        tested(experiment, members, Some(searching))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_follows_from_symbols_and_net() {
        let rule = |set: &[&str], symbols: usize, parameters: u64| {
            let mut settings = Settings::default();
            set.iter().for_each(|pair| settings.set(pair).unwrap());
            let SearchRule { n_envs, n_steps, roots, simulations, scenarios, horizon } =
                SearchRule::new(&settings, symbols, parameters);
            (n_envs, n_steps, roots, simulations, scenarios, horizon)
        };
        assert_eq!(rule(&[], 1, 14_000), (64, 16, 64, 16, 64, 8));
        assert_eq!(rule(&[], 655, 14_000), (128, 8, 128, 16, 64, 8));
        assert_eq!(rule(&[], 1, 5_000_000), (64, 16, 64, 8, 32, 8));
        // Roots that are set alone are the accounts too, and an iteration stays as long.
        assert_eq!(rule(&["search.roots=256"], 1, 1), (256, 4, 256, 16, 64, 8));
        assert_eq!(rule(&["search.roots=32", "ppo.n_envs=128"], 1, 1), (128, 8, 32, 16, 64, 8));
        assert_eq!(rule(&["search.roots=4096"], 1, 1), (4096, 2, 4096, 16, 64, 8));
        assert_eq!(rule(&["ppo.n_steps=5", "search.simulations=3", "search.horizon=2"], 1, 1), (64, 5, 64, 3, 64, 2));
    }

    #[test]
    fn roots_in_a_batch_are_no_trial_of_their_own() {
        let identity = |set: &[&str]| {
            let mut settings = Settings::default();
            set.iter().for_each(|pair| settings.set(pair).unwrap());
            SearchKind.identity(&settings)
        };
        assert_eq!(identity(&["ppo.n_envs=64", "search.roots=16"]), identity(&[]));
        // Set alone, they are the accounts too.
        assert_ne!(identity(&["search.roots=16"]), identity(&[]));
        assert_eq!(identity(&["search.rule=gumbel"]), identity(&[]));
        assert_ne!(identity(&["search.rule=puct"]), identity(&[]));
    }

    #[test]
    fn nets_with_a_memory_are_known_by_their_text() {
        for net in ["lstm64", "64t-lstm64", "lstm24-16t | lstm24-16t", "16x50-lstm64-3", "row:16x50-64t / 3", "3×5-8"]
        {
            assert!(has_memory(net), "{net}");
        }
        for net in ["64t-64t", "64,64", "16t | 8", "row:3 + account:dense8 / 8 / policy:3 | value:1", "lstm:3-8 / 3"] {
            assert!(!has_memory(net), "{net}");
        }
    }

    /// What is tuned is tuned for one search: another market model, horizon, or number of scenarios takes another time.
    #[test]
    fn what_was_tuned_for_one_search_is_for_no_other() {
        let net = |text: &str| format!("row:2 + account:dense8 / {text} / policy:3 + value:1").parse().unwrap();
        let of = |sets: &[&str], net: &compute::Net| {
            let mut settings = Settings::default();
            sets.iter().for_each(|set| settings.set(set).unwrap());
            SearchKind.tuned_for(&settings, net)
        };
        let (small, wide) = (net("64"), net("2048-2048"));
        let usual = of(&[], &small);
        let same = ["search.scenarios=64", "search.codes=16", "search.horizon=8", "search.rule=gumbel"];
        assert_eq!(of(&same, &small), usual, "what auto takes is what auto was tuned for");
        assert_eq!(of(&["search.simulations=4", "search.roots=7"], &small), usual, "these are tuned");
        for other in ["scenarios=8", "codes=4", "horizon=3", "rule=puct", "model=learned"] {
            assert_ne!(of(&[&format!("search.{other}")], &small), usual, "{other}");
        }
        assert_ne!(of(&[], &wide), usual);
        assert_eq!(of(&["search.scenarios=64"], &wide), usual);
    }
}
