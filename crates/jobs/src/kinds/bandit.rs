//! A learner that is no classifier, in tests alone: the bandit of `learn`'s tests, entered as any learner is.
//!
//! It has no labels and no classes: a row is a step, an action is one of two, and the one with a reward is told by the
//! sign of the first column. So what goes through here is what any learner can rely on: settings, samples without a
//! class, folds, checkpoints, the log, `monitor`, the judged run, `runs resume`.

#[path = "../../../learn/tests/bandit/mod.rs"]
mod learner;

use super::{Evaluation, Figure, Kind, KindInfo, Metric};
use crate::Settings;
use crate::train::{Experiment, Judged, Source, write_json};
use compute::Opened;
use compute::population::{Precision, Recipe};
use features::{Input, InputLayout};
use files::{Result, format_plural};
use judge::split::Splits;
use learn::{Config, Learner, Trained, failed};
use learner::Bandit;
use serde_json::json;
use std::path::Path;

pub(super) struct BanditKind;

/// The share of rows at which the preferred action has the reward.
const REWARD: Metric = Metric {
    name: "valid_reward",
    part: "valid",
    label: "reward",
    unit: "",
    decimals: 3,
    higher_is_better: true,
    worst: 0.0,
};

const METRICS: &[Metric] = &[REWARD, Metric { name: "test_reward", part: "test", ..REWARD }];

const FIGURES: &[Figure] = &[
    Figure { name: "train_reward", tag: "train/reward", label: Some("reward") },
    Figure { name: "valid_reward", tag: "valid/reward", label: Some("validation") },
];

/// The bandit of an experiment.
fn bandit(source: &Source, splits: &Splits, settings: &Settings) -> Bandit {
    let config = |((_, own), net): (&(String, Settings), &compute::Net)| {
        let batch = own.classify.batch.unwrap_or(64);
        let precision = own.train.precision.unwrap_or(Precision::F32);
        Config {
            net: net.clone(),
            recipe: Recipe::new(batch, precision, own.general.seed),
            rate: BanditKind.rate(own, batch),
        }
    };
    let configs = settings.configs().iter().zip(&source.nets).map(config).collect();
    let input = &source.problem.inputs[0];
    let best = input.values.chunks_exact(input.stride).map(|row| u32::from(row[0] > 0.0)).collect();
    let [epochs, patience] = settings.train.epochs_and_patience();
    let extent = [settings.train.seeds as u32, epochs, patience];
    Bandit::new(&source.problem, &splits.folds, configs, best, extent)
}

impl Kind for BanditKind {
    fn info(&self) -> KindInfo {
        KindInfo {
            name: "bandit",
            task: "choose",
            is_labelled: false,
            layout: InputLayout::Row,
            features: |_| "p = col(plant), r = log_return(1), v = volatility(20)",
            metrics: METRICS,
            counts_decisions: false,
        }
    }

    fn net(&self, settings: &Settings, inputs: &[Input], classes: usize) -> String {
        assert_eq!(classes, 0, "a step has no class");
        let own = || format!("{}:{} / 8 / action:2", inputs[0].name, inputs[0].columns.len());
        settings.classify.net.clone().unwrap_or_else(own)
    }

    fn learner(&self, source: &Source, splits: &Splits, settings: &Settings, _: &Opened) -> Result<Box<dyn Learner>> {
        Ok(Box::new(bandit(source, splits, settings)))
    }

    fn identity(&self, _: &Settings) -> String {
        String::new()
    }

    fn rate(&self, settings: &Settings, _: usize) -> f32 {
        settings.classify.rate.unwrap_or(0.02) as f32
    }

    fn rate_rule(&self, _: &Settings) -> &'static str {
        "whatever the batch"
    }

    fn figures(&self, _: &Settings) -> &'static [Figure] {
        FIGURES
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        let Experiment { source, splits, settings, at, .. } = experiment;
        let bandit = bandit(source, splits, settings);
        let reward = |m: &Trained| {
            let test = splits.folds[m.fold].test.iter();
            let ids: Vec<u32> = test.map(|at| source.problem.samples.rows[*at as usize]).collect();
            m.best.as_ref().map(|best| bandit.test(at, m.key(), &best.params, &ids).map_err(failed)).transpose()
        };
        let rewards = members.iter().map(reward).collect::<Result<_>>()?;
        Ok(Box::new(Played { experiment, members, rewards }))
    }
}

/// Bandits on their test rows.
struct Played<'a> {
    experiment: &'a Experiment,
    members: &'a [Trained],
    rewards: Vec<Option<f64>>, // [members]
}

impl Evaluation for Played<'_> {
    fn test_figures(&self, member: usize) -> Result<Vec<Option<f64>>> {
        Ok(vec![self.rewards[member]])
    }

    fn judge(&self, config_of: &dyn Fn(usize) -> usize) -> Result<Option<Judged>> {
        let all = self.members.iter().zip(&self.rewards).filter(|(m, _)| m.config == config_of(m.fold));
        let rewards: Vec<f64> = all.filter_map(|(_, reward)| *reward).collect();
        if rewards.is_empty() {
            return Ok(None);
        }
        let reward = rewards.iter().sum::<f64>() / rewards.len() as f64;
        let samples: usize = self.experiment.splits.folds.iter().map(|fold| fold.test.len()).sum();
        let record = json!({"samples": samples, "reward": reward, "chance": 0.5});
        let sentence = format!("reward {reward:.3} over {}", format_plural(samples as u64, "step"));
        Ok(Some(Judged::new(&record, vec![Some(reward)], METRICS, vec![sentence])))
    }

    fn save(&self, selected: &[usize], folder: &Path, _: Option<&super::model::Sealed>) -> Result<()> {
        let weights = |m: &Trained| m.best.as_ref().map(|best| best.params.clone());
        let own = self.members.iter().filter(|m| selected[m.fold] == m.config);
        write_json(&folder.join("policy.json"), &own.map(weights).collect::<Vec<_>>())
    }
}

mod tests {
    use crate::train::{Train, TrainEvent, train};
    use crate::{Monitor, Select, Settings, Tune, runs_list, runs_resume, runs_show, tune};
    use bars::Timeframe;
    use bars::synth::{MarketKind, Plant, Synth};
    use report::summarise;
    use serde_json::Value;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// How the test program, started once more, is told what to do: `job`, data, run folder, device.
    const JOB: &str = "FULLBORE_BANDIT_JOB";

    fn settings() -> Settings {
        let mut settings = Settings::default();
        for pair in [
            "train.learner=bandit",
            "train.epochs=8",
            "train.patience=8",
            "train.seeds=2",
            "train.checkpoint=1",
            "train.try=[\"rate = 0.02, 0.00001\"]",
            "split.folds=2",
            "threads=2",
        ] {
            settings.set(pair).expect(pair);
        }
        settings
    }

    /// The other process: a home of its own, and a life that can be ended.
    #[test]
    fn child() {
        let Ok(words) = std::env::var(JOB) else { return };
        let [job, data, folder, device] = words.split('\n').collect::<Vec<_>>().try_into().expect("four words");
        let folder = PathBuf::from(folder);
        let mut waits = |event: TrainEvent<'_>| {
            let half = matches!(&event, TrainEvent::Update(u) if u.phase == "training" && 2 * u.done >= u.total);
            if job == "half" && half && folder.join("checkpoints/best").exists() {
                std::fs::write(folder.join("waits"), "").expect("written");
                loop {
                    std::thread::park();
                }
            }
        };
        let select = Select { data: data.into(), ..Select::default() };
        if job == "tune" {
            let request = Tune { select, device: device.into(), budget: Some(Duration::from_secs(3)) };
            let tuned = tune(&request, &settings(), &mut |_| {}).expect("tuned");
            // Without gradients of samples there is no noise scale: the rate of the steps decides.
            assert!(tuned.noise.is_none() && tuned.noise_scale.is_none() && tuned.rate_rule == "whatever the batch");
            assert_eq!((tuned.learner.name(), tuned.rule_batch), ("bandit", 64));
            assert!(tuned.rows.iter().any(|row| row.chosen && row.batch == tuned.chosen.batch), "{tuned:?}");
            return;
        }
        if job == "resume" {
            runs_resume(&folder, &Settings::default(), &mut waits).expect("resumed");
            return;
        }
        let request = Train { select, out: Some(folder.clone()), device: device.into(), ..Train::default() };
        train(&request, &settings(), &mut waits).expect("trained");
    }

    fn start(place: &Path, job: &str, data: &Path, folder: &Path, device: &str) -> Child {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "kinds::bandit::tests::child", "--nocapture"])
            .env(JOB, [job, &data.display().to_string(), &folder.display().to_string(), device].join("\n"))
            .env("FULLBORE_HOME", place.join("home"))
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts")
    }

    fn json(path: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
    }

    /// A market whose column `plant` knows the next bar, as a file.
    fn market(place: &Path) -> PathBuf {
        let synth = Synth {
            seed: 3,
            kind: MarketKind::Crypto,
            symbols: 1,
            bars: 1500,
            timeframe: Timeframe::M5,
            ..Synth::default()
        };
        let market = Synth { plant: Some(Plant::default()), ..synth }.make_market(1).market;
        bars::store::write_set(&market, place, "planted", true, "test").expect("written");
        bars::store::find_set(place, "planted").expect("read").expect("there")
    }

    /// Trained whole; and killed half-way, seen by `monitor`, resumed: the same bits and the same judgement.
    fn goes_through_the_spine(device: &str) {
        let place = tempfile::tempdir().expect("a folder");
        let place = place.path();
        let data = market(place);
        let (whole, cut) = (place.join("whole"), place.join("cut"));
        assert!(start(place, "whole", &data, &whole, device).wait().expect("it ends").success());

        let mut child = start(place, "half", &data, &cut, device);
        while !cut.join("waits").exists() {
            assert!(child.try_wait().expect("a child").is_none(), "it ended before it was killed");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut monitor = Monitor::open(Some(&cut)).expect("a run");
        let seen = summarise(monitor.state());
        assert_eq!(
            (seen.state.as_str(), seen.axis.as_str(), seen.last, seen.members),
            ("running", "update", Some(8.0), 8)
        );
        assert!(seen.at >= 1.0 && seen.judged.is_none(), "{seen:?}");
        assert_eq!(seen.best.expect("a best").metric, "valid_reward");
        child.kill().expect("killed");
        child.wait().expect("it ends");
        monitor.refresh();
        assert_eq!(monitor.state().describe_status().0, "crashed");
        assert!(!cut.join("result.json").exists());
        assert!(start(place, "resume", &data, &cut, device).wait().expect("it ends").success());

        // The same bits.
        let [result, again] = [&whole, &cut].map(|run| json(&run.join("result.json")));
        for field in ["judged", "members", "configs", "balance", "updates"] {
            assert_eq!(result[field], again[field], "{field}");
        }
        for file in ["policy.json", "split.parquet"] {
            let [a, b] = [&whole, &cut].map(|run| std::fs::read(run.join(file)).expect(file));
            assert!(a == b, "{file}");
        }
        // Judged by its own measure: the useful rate was chosen for every fold, and finds the column.
        let member = &result["members"][0];
        assert!(member["best_update"].as_u64().is_some() && member["updates"] == 8, "{member}");
        assert!(result["judged"]["reward"].as_f64().is_some_and(|reward| reward > 0.9), "{result}");
        assert_eq!(result["configs"][0]["chosen"], serde_json::json!([1, 2]));
        assert!(result["configs"][0]["test_reward"].as_f64() > result["configs"][1]["test_reward"].as_f64());
        assert_eq!((&result["balance"], &result["label"]), (&serde_json::json!([]), &Value::Null));

        // Read back by what reads any run.
        monitor.refresh();
        let seen = summarise(monitor.state());
        assert_eq!((seen.state.as_str(), seen.members_ended), ("finished", 8));
        assert_eq!(seen.judged.expect("judged")["reward"], result["judged"]["reward"]);
        let shown = runs_show(&cut).expect("a run");
        assert_eq!((shown.unit.as_str(), shown.epochs), ("update", 64));
        let judged = shown.judged.expect("judged");
        assert_eq!((judged.metric.name, judged.value), ("test_reward", result["judged"]["reward"].as_f64()));
        assert!(shown.last.iter().any(|line| line.contains("test reward")), "{:?}", shown.last);
        let listed = runs_list(place).expect("runs");
        assert_eq!(listed.runs.len(), 2);
        assert_eq!(listed.metric().map(|metric| metric.head()), Some("valid reward".into()));
    }

    #[test]
    fn a_learner_without_classes_is_tuned_by_its_rate() {
        let place = tempfile::tempdir().expect("a folder");
        let data = market(place.path());
        let mut child = start(place.path(), "tune", &data, place.path(), "cpu");
        assert!(child.wait().expect("it ends").success());
    }

    #[test]
    fn a_learner_without_classes_goes_through_the_whole_spine() {
        goes_through_the_spine("cpu");
    }

    #[test]
    fn a_learner_without_classes_goes_through_the_whole_spine_on_a_card() {
        match compute::cuda::gpus() {
            Ok(found) if !found.is_empty() => goes_through_the_spine("cuda"),
            _ => skip("no GPU"),
        }
    }

    /// As xtask's `test.rs` reads it.
    #[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
    fn skip(why: &str) {
        use std::io::Write;
        let log = std::env::var_os("FULLBORE_SKIP_LOG");
        match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
            Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).expect("written"),
            None => println!("SKIP: {why}"),
        }
    }

    #[test]
    fn verbs_about_classes_refuse_a_learner_without_them() {
        let mut settings = settings();
        settings.set("train.try=auto").expect("legal");
        let refused = crate::selftest(&crate::SelfTest::default(), &settings, &mut |_| {}).expect_err("no classes");
        assert!(refused.to_string().contains("`bandit` learns to choose"), "{refused}");
    }
}
