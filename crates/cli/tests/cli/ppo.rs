//! Policies that learn by trying, as a user trains them.

use super::policies::{
    Policies, claims_nothing, earns_again, growth, has_parity, market, number, others_refuse, same_run,
};
use super::{Place, code, text};
use serde_json::Value;

const PPO: Policies =
    Policies { learner: "ppo", small: &["--n-envs", "32", "--n-steps", "64", "--set", "train.rate=0.003"] };

/// What a model of a policy is for: it is asked, tested, fed bar by bar, opened once and trained again; and no bit of
/// it can be changed unseen.
#[test]
fn a_policy_is_kept_and_used_like_any_model() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "6000", "0.8");
    let more = ["--timesteps", "100000", "--folds", "3", "--seeds", "2"];
    let run = PPO.train(&place, "planted", "run", &[&more[..], &["--threads", "2"]].concat());
    assert_eq!(run["label"], Value::Null);
    assert_eq!(run["members"].as_array().map(Vec::len), Some(6));
    let record = &run["backtest"];
    let total = number(&record["net"]["total_return"]);
    let earned = growth(&record["net"], record);
    assert!(earned > 0.8 * best, "{earned} bp a bar of {best}");
    for file in ["result.json", "report.html", "backtest/returns.parquet", "model/model.json", "model/MANIFEST"] {
        assert!(place.path().join("run").join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("a page");
    assert!(page.contains("Mean entropy of the policy") && page.contains("band, least"), "the band is drawn");
    let log = std::fs::read_to_string(place.path().join("run/log.jsonl")).expect("a log");
    assert!(log.contains("\"least_entropy\":0.2") && log.contains("\"most_entropy\":0.8"), "the band is logged");
    // What rewards were divided by is part of the model, for each seed.
    let model = std::fs::read_to_string(place.path().join("run/model/model.json")).expect("a model");
    let model: Value = serde_json::from_str(&model).expect("JSON");
    for fold in model["folds"].as_array().expect("folds") {
        let scales = fold["return_scales"].as_array().expect("scales");
        assert_eq!(scales.len(), 2, "{fold}");
        assert!(scales.iter().all(|own| number(&own["count"]) > 0.0 && number(&own["squares"]) > 0.0), "{fold}");
    }

    // The same seed gives the same with another number of threads.
    let again = PPO.train(&place, "planted", "again", &[&more[..], &["--threads", "1"]].concat());
    same_run(&run, &again);
    let read = |path: &str| std::fs::read(place.path().join(path)).expect(path);
    place.same_files("run/model/model.json", "again/model/model.json");

    // The model gives the same bits as the run.
    let (tested, exit) = place.json(&["backtest", "run", "--out", "tested"]);
    assert_eq!((exit, &tested["trials"]), (0, &Value::Null), "{tested}");
    for file in ["backtest.json", "trades.parquet", "returns.parquet"] {
        place.same_files(&format!("tested/{file}"), &format!("run/backtest/{file}"));
    }
    let (other, exit) = place.json(&["backtest", "run", "--leverage", "0.5", "--out", "half"]);
    assert!(exit == 0 && other["notes"].to_string().contains("is shown another account"), "{other}");
    let (refused, exit) = place.json(&["backtest", "run", "--set", "trading.gross=2", "--out", "x"]);
    assert!(exit == 2 && refused.to_string().contains("a policy decides by itself"), "{exit} {refused}");

    // What it wants is what it did; fed back as anybody's positions it earns the same.
    for flag in [&[][..], &["--positions"]] {
        let args = ["predict", "run", "planted", "--out", "p.parquet"];
        let (said, exit) = place.json(&[&args[..], flag].concat());
        assert_eq!((exit, said["guesses"].as_array().map(Vec::len)), (0, Some(0)), "{said}");
        let wanted: f64 = said["wanted"].as_array().expect("shares").iter().map(number).sum();
        assert!((wanted - 1.0).abs() < 1e-9 && said["notes"].to_string().contains("starts flat"), "{said}");
        assert!(said["locked"].as_u64().is_some_and(|n| n > 100), "{said}");
    }
    let (own, exit) = place.json(&["backtest", "planted", "--positions", "p.parquet", "--out", "own"]);
    assert_eq!(exit, 0, "{own}");
    let same = number(&own["backtest"]["net"]["total_return"]);
    assert!((same / total - 1.0).abs() < 1e-9, "{same} and {total}");
    market(&place, "new", "1", "7000", "0.8");
    let (new, exit) = place.json(&["predict", "run", "new", "--out", "new.parquet"]);
    assert!(exit == 0 && new["bars"].as_u64().is_some_and(|n| n > 1000), "{new}");
    let (refused, exit) = place.json(&["predict", "run", "planted", "--members", "--out", "m.parquet"]);
    assert!(exit == 2 && refused.to_string().contains("decide as one"), "{exit} {refused}");

    // Fed bar by bar it decides the same.
    let parity = has_parity(&place, "run");
    let compared: Vec<&str> =
        parity["compared"].as_array().expect("rows").iter().filter_map(|c| c["what"].as_str()).collect();
    assert_eq!(compared, ["features", "bars decided on", "positions", "bars asked alone", "equity"]);
    let changed: u64 =
        parity["starts"].as_array().expect("starts").iter().filter_map(|s| s["changed_positions"].as_u64()).sum();
    let bars: u64 = parity["starts"].as_array().expect("starts").iter().filter_map(|s| s["bars"].as_u64()).sum();
    assert!(changed * 20 < bars && bars > 1000, "{changed} of {bars}");
    let (short, _) = place.json(&["check", "parity", "run", "--warm-up", "3"]);
    assert!(short["starts"][0]["undecided"].as_u64().is_some_and(|n| n > 5), "{short}");

    // The holdout is opened once, and counted.
    let (opened, exit) = place.json(&["holdout", "run"]);
    assert_eq!((exit, &opened["opening"], &opened["judged"]), (0, &1.into(), &Value::Null), "{opened}");
    assert!(opened["net_sharpe"].as_f64().is_some_and(|sharpe| sharpe > 0.0), "{opened}");
    let text_of = text(&place.run(&["holdout", "run"]).stdout);
    assert!(text_of.contains("Backtest there") && !text_of.contains("Judged there"), "{text_of}");

    // Its recipe is trained on everything, which was opened by now; the seeds that stay flat are those of the run.
    let (refit, exit) = place.json(&["refit", "run", "--out", "refit", "--device", "cpu"]);
    assert_eq!((exit, &refit["judged"], &refit["backtest"]), (0, &Value::Null, &Value::Null), "{refit}");
    let model: Value = serde_json::from_slice(&read("refit/model/model.json")).expect("JSON");
    let first: Value = serde_json::from_slice(&read("run/model/model.json")).expect("JSON");
    assert_eq!(model["folds"].as_array().map(Vec::len), Some(1));
    assert_eq!(model["folds"][0].get("flat"), first["folds"][2].get("flat"), "{model}");
    let (new, exit) = place.json(&["predict", "refit", "new", "--out", "r.parquet"]);
    assert!(exit == 0 && new["notes"].to_string().contains("not judged itself"), "{new}");

    // A bit of a part that is another is seen.
    let weights = place.path().join("run/model/fold-2-seed-1.safetensors");
    let mut bytes = std::fs::read(&weights).expect("weights");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    std::fs::write(&weights, bytes).expect("written");
    let (changed, exit) = place.json(&["predict", "run", "planted", "--out", "p.parquet"]);
    assert!(exit == 5 && changed.to_string().contains("was changed"), "{exit} {changed}");
}

/// What is not for policies is refused, and so is what is for them alone.
#[test]
fn what_policies_do_not_go_by_is_refused() {
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let cases: [(&[&str], &str); 14] = [
        (&["--split", "kfold"], "walk forward"),
        (&["--labels", "fixed(3)"], "not from labels"),
        (&["--try", "decay=0,0.1"], "are of classifiers"),
        (&["--net", "row:3 / 8 / direction:3"], "a policy reads"),
        (&["--set", "ppo.ent_coef=0.01"], "kept in a band"),
        (&["--try", "ppo.timesteps=10,20"], "cannot be tried"),
        (&["--entropy", "0.8..0.2"], "cannot be"),
        (&["--entropy", "5..9"], "cannot be kept in the band 5..9"),
        (&["--entropy", "0.9..3"], "from 0 to 1"),
        (&["--entropy", "0..0.00001"], "at least 0.01 wide"),
        (&["--entropy", "-1.5..9", "--continuous"], "from -3.59 to 2.42"),
        (&["--try", "ppo.entropy=0.2..0.8,-1.5..1.5"], "cannot be kept in the band -1.5..1.5"),
        (&["--set", "ppo.drawdown_weight=2"], "counts drawdowns"),
        (&["--set", "ppo.clip_range=0"], "above 0"),
    ];
    PPO.refuses(&place, &cases);
    for more in [["--n-envs", "8"], ["--try", "ppo.gamma=0.9,0.99"], ["--reward", "sharpe"]] {
        others_refuse(&place, &["mlp"], &more, "is of policies");
    }
}

/// Every flag of policies does what it says, and `auto` is legal for each.
#[test]
fn flags_of_policies_change_the_plan() {
    let place = Place::new();
    market(&place, "planted", "2", "3000", "0.8");
    let plan = |more: &[&str]| PPO.plan(&place, more);
    let usual = plan(&[]);
    let flags = ["--n-envs", "--n-steps", "--batch-size", "--net", "--entropy", "--precision", "--timesteps"];
    let flags = flags.into_iter().chain(["--memory", "--reward", "--test-days"]);
    let auto = plan(&flags.flat_map(|flag| [flag, "auto"]).collect::<Vec<_>>());
    for field in ["net", "batch", "updates", "precision", "folds"] {
        assert_eq!(usual[field], auto[field], "{field}");
    }
    // 5,900 samples are 46 stretches of 128, so 32 accounts; a shorter training has fewer, to have its updates.
    assert_eq!((&usual["batch"], &usual["updates"]), (&512.into(), &489.into()), "32 · 128 / 8, 2,000,000 / 4,096");
    let short = plan(&["--timesteps", "100000"]);
    assert_eq!((&short["batch"], &short["updates"]), (&128.into(), &98.into()), "8 · 128 / 8, 100,000 / 1,024");
    let wide = plan(&["--net", "1024,1024", "--n-envs", "8", "--n-steps", "8", "--timesteps", "640"]);
    assert_eq!((&wide["batch"], &wide["updates"]), (&4.into(), &10.into()), "8 · 8 / 16, 640 / 64");
    let set = plan(&[
        "--n-envs",
        "16",
        "--n-steps",
        "32",
        "--batch-size",
        "100",
        "--net",
        "32,16",
        "--entropy",
        "0.3..0.6",
        "--precision",
        "f32",
        "--timesteps",
        "51200",
        "--memory",
        "80%",
        "--reward",
        "drawdown",
        "--test-days",
        "20",
        "--symbols",
        "SYN001USDT",
        "--continuous",
        "--set",
        "ppo.learning_rate=0.01",
    ]);
    assert_eq!(
        (&set["batch"], &set["updates"], &set["rate"]),
        (&100.into(), &100.into(), &f64::from(0.01f32).into()),
        "{set}"
    );
    assert!(set["net"].as_str().is_some_and(|net| net.contains("32-16 | 32-16 / policy:2")), "{set}");
    assert_ne!((&set["folds"], &set["samples"]), (&usual["folds"], &usual["samples"]));
    // A band in nats begins below 0, and what may be left out may be called none.
    plan(&["--continuous", "--entropy", "-1.5..1.5"]);
    plan(&["--set", "ppo.target_kl=none", "--set", "ppo.clip_range_vf=none", "--set", "ppo.max_grad_norm=none"]);
    plan(&["--reward", "drawdown", "--set", "ppo.drawdown_weight=2"]);
}

/// Values of policies are tried like those of any learner: each config with its own, and each a trial.
#[test]
fn hyper_parameters_of_policies_are_tried() {
    let place = Place::new();
    market(&place, "planted", "1", "4000", "0.8");
    let more = ["--timesteps", "40000", "--folds", "2", "--seeds", "1"];
    let tried = ["--try", "ppo.clip_range=0.2,0.00001", "--try", "ppo.n_steps=64,32"];
    let run = PPO.train(&place, "planted", "run", &[&more[..], &tried].concat());
    let configs = run["configs"].as_array().expect("configs");
    assert_eq!((configs.len(), &configs[3]["what"]), (4, &"ppo.clip_range 0.00001, ppo.n_steps 32".into()), "{run}");
    // Half of the steps in an update, twice the updates.
    let updates = |config: u64| {
        let own = run["members"].as_array().expect("members").iter().filter(|m| m["config"] == config);
        own.filter_map(|m| m["updates"].as_u64()).max()
    };
    assert_eq!((updates(1), updates(2)), (Some(20), Some(40)), "{run}");
    // Who may hardly move learns hardly anything.
    let score = |config: usize| number(&configs[config]["valid_growth"]);
    assert!(score(0) > score(2) && score(1) > score(3), "{run}");
    let (trials, exit) = place.json(&["trials", "planted"]);
    assert_eq!((exit, &trials["trials"]), (0, &4.into()), "{trials}");
    // Killed just before its model is written, it goes on to the same one.
    PPO.goes_on(&place, "planted", &[&more[..], &tried].concat(), ("run", &run));
    // Folds that chose other nets than others are one model.
    let tried = ["--try", "net=16t,8t-8t"];
    let run = PPO.train(&place, "planted", "nets", &[&more[..], &tried].concat());
    earns_again(&place, "nets", &run["backtest"]);
}

/// One policy for all symbols; they share the capital.
#[test]
fn one_policy_trades_many_symbols() {
    let place = Place::new();
    let best = market(&place, "many", "6", "3000", "0.8");
    let run = PPO.train(&place, "many", "run", &["--timesteps", "100000", "--folds", "2", "--seeds", "1"]);
    let record = &run["backtest"];
    let earned = growth(&record["net"], record);
    // A sixth of the capital in each of six: the mean of them, at a fraction of the variance.
    assert!(earned > 0.7 * best, "{earned} bp a bar of {best}");
    earns_again(&place, "run", record);
    has_parity(&place, "run");
    let said = place.run(&["predict", "run", "many", "--out", "p.parquet"]);
    assert!(code(&said) == 0 && text(&said.stdout).contains("wanted from the next open on"), "{}", text(&said.stderr));
}

/// Continuous targets capture what is planted as well; without anything planted nothing is claimed.
#[test]
fn policies_capture_a_signal_and_claim_nothing_without_one() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "6000", "0.8");
    let more = ["--timesteps", "200000", "--folds", "2", "--seeds", "2", "--continuous"];
    let run = PPO.train(&place, "planted", "continuous", &more);
    let earned = growth(&run["backtest"]["net"], &run["backtest"]);
    assert!(earned > 0.8 * best, "{earned} bp a bar of {best}");

    market(&place, "nothing", "1", "6000", "0.5");
    for (out, more) in [("discrete", &[][..]), ("any", &["--continuous"])] {
        let args = ["--timesteps", "60000", "--folds", "3", "--seeds", "2"];
        let run = PPO.train(&place, "nothing", out, &[&args[..], more].concat());
        claims_nothing(&run);
        let verdict = run["evidence"]["verdict"].as_str().unwrap_or("none");
        assert!(!["evidence", "promising", "suspicious"].contains(&verdict), "{}", run["evidence"]);
    }
}

/// A policy that remembers is trained, kept and used like any other; evolution has none.
#[test]
fn a_policy_that_remembers_is_kept_and_used() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "4000", "0.8");
    let more = ["--net", "lstm16,16t", "--timesteps", "100000", "--folds", "2", "--seeds", "2"];
    let run = PPO.train(&place, "planted", "run", &[&more[..], &["--threads", "2"]].concat());
    assert!(run["net"].to_string().contains("lstm16-16t | lstm16-16t / policy:3"), "{run}");
    let earned = growth(&run["backtest"]["net"], &run["backtest"]);
    assert!(earned > 0.5 * best, "{earned} bp a bar of {best}");
    let again = PPO.train(&place, "planted", "again", &[&more[..], &["--threads", "1"]].concat());
    same_run(&run, &again);
    earns_again(&place, "run", &run["backtest"]);
    for file in ["backtest.json", "trades.parquet", "returns.parquet"] {
        place.same_files(&format!("tested/{file}"), &format!("run/backtest/{file}"));
    }
    let (said, exit) = place.json(&["predict", "run", "planted", "--out", "p.parquet"]);
    assert_eq!(exit, 0, "{said}");
    has_parity(&place, "run");
    let (opened, exit) = place.json(&["holdout", "run"]);
    assert_eq!(exit, 0, "{opened}");
    let (refit, exit) = place.json(&["refit", "run", "--out", "refit"]);
    assert_eq!(exit, 0, "{refit}");

    PPO.plan(&place, &["--net", "lstm64,64"]);
    others_refuse(&place, &["evolve"], &["--net", "lstm8"], "net");
}
