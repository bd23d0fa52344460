//! What a run is, as hashes: one of everything that changes a bit, for checkpoints; one of a trial's configuration, for
//! the ledger.

use super::Experiment;
use super::source::Ids;
use bars::{Fingerprint, instrument_text};
use compute::population::Recipe;
use features::Span;
use features::labels::{Labeling, Rule, TrainEnd};
use judge::ledger::Trial;
use learn::checkpoint::About;
use report::Run;
use serde::Serialize;
use serde_json::json;
use std::path::Path;

/// The hash of everything that changes a bit of the result, but for the data.
pub(super) fn config_hash(experiment: &Experiment) -> String {
    let Experiment { source, learner, settings, splits, .. } = experiment;
    let mut hash = Fingerprint::new();
    let set = match &source.ids {
        Ids::Bars { set, .. } => set.as_str(),
        Ids::Ready { .. } => "",
    };
    let (first, others) = learner.configs().split_first().expect("there is at least one config");
    let extent = learner.extent();
    let own = identity(experiment, 0);
    for text in [
        env!("CARGO_PKG_VERSION"),
        &first.net.to_string(),
        &json!(first.recipe).to_string(),
        &format!("{} {} {} {} {own}", first.rate, extent.units, extent.patience, extent.seeds),
        set,
        &labeling_text(settings.labeling()),
        &format!("{:?}", settings.features.max_hole),
        &format!("{:016x}", splits.id()),
    ] {
        hash.add_text(text);
    }
    if let Some(refit) = &settings.refit {
        hash.add_text(&format!("refit of {}", refit.trial));
    }
    for (number, other) in others.iter().enumerate() {
        hash.add_text(&other.net.to_string());
        hash.add_text(&format!("{} {}", other.rate, json!(other.recipe)));
        // Where it is as in the first, the text is that of versions in which it always was.
        let identity = identity(experiment, number + 1);
        if identity != own {
            hash.add_text(&identity);
        }
    }
    hash.to_hex()
}

/// What changes a bit of a config beside its net, recipe and rate.
fn identity(experiment: &Experiment, config: usize) -> String {
    let own = experiment.settings.configs().swap_remove(config).1;
    experiment.kind().identity(&own)
}

/// The hash of a trial's configuration (docs/method.md, Ledger): features, label, learner, hyper-parameters, costs,
/// universe, and how time is cut; behind it the root seed. Seeds inside a run are averaged and no trials, another run
/// with another root seed is one: else the best of fifty would count as one. A version of the program is none.
fn trial_id(experiment: &Experiment, number: usize) -> String {
    let Experiment { source, learner, settings, splits, .. } = experiment;
    let mut hash = Fingerprint::new();
    let config = &learner.configs()[number];
    let recipe = Recipe { seed: 0, ..config.recipe };
    let (kind, extent, identity) = (experiment.kind(), learner.extent(), identity(experiment, number));
    hash.add_text("trial 3");
    hash.add_text(kind.info().name);
    hash.add_text(&config.net.to_string());
    hash.add_text(&json!(recipe).to_string());
    hash.add_text(&format!("{} {} {} {identity}", config.rate, learner.units(number), extent.patience));
    hash.add_text(&format!("{:016x}", splits.id()));
    match &source.ids {
        Ids::Bars { data, set, .. } => {
            hash.add_text(set);
            hash.add_text(&labeling_text(settings.labeling()));
            hash.add_text(&format!("{:?}", settings.features.max_hole));
            let mut market: Vec<_> = data.base.market.iter().collect();
            market.sort_by(|a, b| a.symbol.cmp(&b.symbol));
            for bars in market {
                hash.add_text(&bars.symbol);
                hash.add_text(&bars.timeframe.to_string());
                hash.add_text(&format!("{} {:?}", instrument_text(&bars.instrument), bars.member));
            }
        }
        // Ready arrays are features, labels and universe in one.
        Ids::Ready { .. } => hash.add_text(&source.fingerprint),
    }
    format!("{}@{}", hash.to_hex(), settings.general.seed)
}

/// How rows are labelled, field by field: hashes of it are kept in checkpoints, caches and the ledger, so this text
/// stays whatever types and fields are called.
pub(crate) fn labeling_text(labeling: Option<Labeling>) -> String {
    // The longest horizon of `auto` follows from the data.
    let Some(Labeling { rule, cost_bp, span, first, .. }) = labeling else { return "None".into() };
    let rule = match rule {
        Rule::Auto => "Auto".to_string(),
        Rule::Fixed { horizon } => format!("Fixed {{ horizon: {horizon} }}"),
        Rule::Triple { horizon, width } => format!("Triple {{ horizon: {horizon}, width: {width:?} }}"),
        Rule::Trend { longest } => format!("Trend {{ longest: {longest} }}"),
    };
    let first = match first {
        TrainEnd::Share(share) => format!("Share({share:?})"),
        TrainEnd::Until(until) => format!("Until({until})"),
    };
    format!("Some(Labeling {{ rule: {rule}, cost_bp: {cost_bp:?}, span: {span:?}, first: {first} }})")
}

/// What a run that began said it is.
pub(super) fn noted(run: &Run) -> About {
    let words = run.more.get("about");
    let word = |name: &str| words.and_then(|w| w[name].as_str()).unwrap_or_default().to_string();
    About {
        net: word("net"),
        data: run.data.clone(),
        config: run.settings.clone(),
        precision: word("precision"),
        device: word("device"),
        instructions: word("instructions"),
        ..About::default()
    }
}

/// A name as settings write it.
pub(super) fn word(value: impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_string()
}

/// A trial is a configuration and a root seed, on what it is judged on.
pub(super) fn trial(experiment: &Experiment, number: usize, folder: &Path) -> Trial {
    let Experiment { source, settings, splits, learner, .. } = experiment;
    let config = &learner.configs()[number];
    // What is not judged is in no family.
    let judged = || splits.folds.iter().filter(|fold| !fold.test.is_empty()).map(|fold| fold.spans.test);
    let first = judged().map(Span::from).min();
    let last = judged().map(Span::to).max();
    let span = first.zip(last).and_then(|(from, to)| Span::new(from, to));
    let labels = match &source.ids {
        Ids::Bars { label: Some(label), .. } => format!(", labels {}", label.rule),
        _ => String::new(),
    };
    let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    Trial {
        id: trial_id(experiment, number),
        // Arrays that name no symbol are a family of their own.
        symbols: match source.judged() {
            symbols if symbols.is_empty() => vec![source.fingerprint.clone()],
            symbols => symbols.iter().map(|symbol| source.holdings.name_of(symbol)).collect(),
        },
        span: span.unwrap_or_else(|| Span::new(0, 1).expect("0 is before 1")),
        code: env!("CARGO_PKG_VERSION").into(),
        data: source.fingerprint.clone(),
        folds: splits.folds.len() as u32,
        seeds: (0..settings.train.seeds as u64).collect(),
        parent: settings.refit.as_ref().map(|refit| refit.trial.clone()),
        what: Some(format!(
            "{name}: {} {}{labels}, rate {:.2e}{}",
            settings.train.learner.name(),
            config.net,
            config.rate,
            tried(settings, number)
        )),
    }
}

/// What else of a config is tried than net and rate; nothing where it is alone.
fn tried(settings: &crate::Settings, number: usize) -> String {
    let mut all = settings.configs();
    let words = if all.len() > 1 { all.swap_remove(number).0 } else { String::new() };
    let more: Vec<&str> =
        words.split(", ").filter(|word| ["ppo.", "evolve.", "search."].iter().any(|of| word.starts_with(of))).collect();
    if more.is_empty() { String::new() } else { format!(", {}", more.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_labeling_is_stable_across_versions() {
        // As programs before this one wrote it into checkpoints and the ledger.
        let labeling =
            |rule, cost_bp, first| Some(Labeling { rule, cost_bp, span: 100.0, first, ..Labeling::default() });
        for (labeling, text) in [
            (None, "None"),
            (
                labeling(Rule::Auto, None, TrainEnd::Share(0.25)),
                "Some(Labeling { rule: Auto, cost_bp: None, span: 100.0, first: Share(0.25) })",
            ),
            (
                labeling(Rule::Fixed { horizon: 1 }, Some(0.0), TrainEnd::Until(-7)),
                "Some(Labeling { rule: Fixed { horizon: 1 }, cost_bp: Some(0.0), span: 100.0, first: Until(-7) })",
            ),
            (
                labeling(Rule::Triple { horizon: 24, width: 1.5 }, Some(2.5), TrainEnd::Share(0.5)),
                "Some(Labeling { rule: Triple { horizon: 24, width: 1.5 }, cost_bp: Some(2.5), span: 100.0, \
                 first: Share(0.5) })",
            ),
            (
                labeling(Rule::Trend { longest: 48 }, None, TrainEnd::Share(1.0)),
                "Some(Labeling { rule: Trend { longest: 48 }, cost_bp: None, span: 100.0, first: Share(1.0) })",
            ),
        ] {
            assert_eq!(labeling_text(labeling), text);
        }
    }
}
