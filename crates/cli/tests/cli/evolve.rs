//! Policies that evolve, as a user trains them.

use super::Place;
use super::ppo::{market, number};
use serde_json::Value;

const SMALL: [&str; 8] = [
    "--learner",
    "evolve",
    "--device",
    "cpu",
    "--features",
    "p = col(plant), log_return(1), volatility(20)",
    "--net",
    "16t-16t",
];

fn train(place: &Place, data: &str, out: &str, more: &[&str]) -> (Value, i32) {
    place.json(&[&["train", data, "--out", out], &SMALL[..], more].concat())
}

/// Each algorithm captures what is planted and claims nothing where nothing is; the model is used like any other.
#[test]
fn evolved_policies_are_judged_and_kept_like_any_model() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "6000", "0.8");
    market(&place, "nothing", "1", "6000", "0.5");
    let more = ["--timesteps", "1000000", "--folds", "2", "--seeds", "2"];
    for (algorithm, own) in [
        ("openai", &["--rank", "0"][..]),
        ("openai-rank-1", &["--rank", "1"]),
        ("sep-cma", &["--algorithm", "sep-cma"]),
        ("snes", &["--algorithm", "snes"]),
        ("cem", &["--algorithm", "cem"]),
        ("pbt", &["--algorithm", "pbt", "--reward", "drawdown", "--set", "ppo.drawdown_weight=0.1"]),
    ] {
        let more = [&more[..], own].concat();
        let (run, exit) = train(&place, "planted", algorithm, &more);
        assert_eq!(exit, 0, "{run}");
        assert_eq!((&run["learner"], run["members"].as_array().map(Vec::len)), (&"evolve".into(), Some(4)), "{run}");
        let record = &run["backtest"];
        let growth = 1e4 * (1.0 + number(&record["net"]["total_return"])).ln() / number(&record["steps"]);
        assert!(growth > 0.8 * best, "{algorithm}: {growth} bp a bar of {best}");

        let out = format!("{algorithm}-nothing");
        let (run, exit) = train(&place, "nothing", &out, &more);
        assert_eq!(exit, 0, "{run}");
        let net = &run["backtest"]["net"];
        let low = net["sharpe_annual"].as_f64().zip(net["sharpe_annual_error"].as_f64());
        assert!(low.is_none_or(|(sharpe, error)| sharpe - 1.96 * error <= 0.0), "{algorithm}: {net}");
    }
    // The same seed gives the same with another number of threads.
    let (run, _) = train(&place, "planted", "one", &[&more[..], &["--threads", "1"]].concat());
    let (again, _) = train(&place, "planted", "many", &[&more[..], &["--threads", "5"]].concat());
    for field in ["judged", "members", "backtest"] {
        assert_eq!(run[field], again[field], "{field}");
    }
    let read = |path: &str| std::fs::read(place.path().join(path)).expect(path);
    assert!(read("one/model/model.json") == read("many/model/model.json"));
    // Killed just before its model is written, it goes on to the same one.
    let args = [&["train", "planted", "--out", "cut"], &SMALL[..], &more].concat();
    place.abort(&args, "model.json");
    let (resumed, exit) = place.json(&["runs", "resume", "cut"]);
    assert_eq!((exit, &resumed["members"]), (0, &run["members"]), "{resumed}");
    assert!(read("one/model/model.json") == read("cut/model/model.json"));

    let (tested, exit) = place.json(&["backtest", "one", "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]["net"]), (0, &run["backtest"]["net"]), "{tested}");
    let (said, exit) = place.json(&["predict", "one", "planted", "--out", "p.parquet"]);
    assert!(exit == 0 && said["wanted"].as_array().is_some_and(|shares| shares.len() == 3), "{said}");
    let (parity, exit) = place.json(&["check", "parity", "one"]);
    assert_eq!((exit, &parity["equal"]), (0, &true.into()), "{parity}");
    let log = std::fs::read_to_string(place.path().join("one/log.jsonl")).expect("a log");
    assert!(["mean_fitness", "best_fitness", "generations_per_s"].iter().all(|name| log.contains(name)), "{log}");
}

/// Flags change the plan, `auto` is legal for each, and what is not for evolution is refused.
#[test]
fn flags_of_evolution_change_the_plan() {
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let plan = |more: &[&str]| {
        let args = ["train", "planted", "--learner", "evolve", "--device", "cpu", "--dry-run"];
        let (plan, exit) = place.json(&[&args[..], more].concat());
        assert_eq!(exit, 0, "{more:?}: {plan}");
        plan
    };
    let usual = plan(&[]);
    let flags = ["--population", "--sigma", "--rank", "--algorithm", "--timesteps", "--n-envs", "--n-steps", "--net"];
    let auto: Vec<&str> = flags.into_iter().chain(["--reward"]).flat_map(|flag| [flag, "auto"]).collect();
    let auto = plan(&auto);
    for field in ["net", "batch", "generations", "folds"] {
        assert_eq!(usual[field], auto[field], "{field}");
    }
    // 50,000,000 steps in generations of 128 individuals with 8 accounts of 256 steps.
    assert_eq!((&usual["batch"], &usual["generations"]), (&128.into(), &191.into()), "{usual}");
    let few = plan(&["--timesteps", "1000000"]);
    assert!(few["generations"].as_u64().is_some_and(|n| n >= 50), "{few}");
    let set = plan(&[
        "--population",
        "32",
        "--sigma",
        "0.1",
        "--algorithm",
        "sep-cma",
        "--timesteps",
        "409600",
        "--n-envs",
        "4",
        "--n-steps",
        "64",
        "--net",
        "32,16",
        "--continuous",
    ]);
    assert_eq!((&set["batch"], &set["generations"]), (&32.into(), &50.into()), "{set}");
    assert!(set["net"].as_str().is_some_and(|net| net.ends_with("/ 32-16 / policy:2")), "{set}");
    // Steps of 4 policies: 20 updates of 8 accounts with 128 steps.
    let pbt = ["--algorithm", "pbt", "--population", "4", "--timesteps", "81920", "--entropy", "0.2..0.9"];
    let pbt = plan(&[&pbt[..], &["--n-envs", "8"]].concat());
    assert_eq!((&pbt["updates"], &pbt["generations"]), (&20.into(), &Value::Null), "{pbt}");
    assert!(pbt["net"].as_str().is_some_and(|net| net.ends_with("| value:1")), "{pbt}");
    for (more, wanted) in [
        (&["--algorithm", "snes", "--rank", "2"][..], "of openai"),
        (&["--algorithm", "cem", "--set", "train.rate=0.1"], "of openai"),
        (&["--algorithm", "pbt", "--sigma", "0.1"], "population-based"),
        (&["--try", "evolve.algorithm=openai,pbt"], "runs of their own"),
        (&["--entropy", "0.2..0.8"][..], "evolution goes by"),
        (&["--batch-size", "64"], "not a batch"),
        (&["--precision", "bf16"], "f32"),
        (&["--labels", "fixed(3)"], "not from labels"),
        (&["--net", "8n"], "plain stack"),
        (&["--population", "7"], "even"),
        (&["--split", "kfold"], "walk forward"),
    ] {
        let args = ["train", "planted", "--learner", "evolve", "--device", "cpu", "--out", "x"];
        let (refused, exit) = place.json(&[&args[..], more].concat());
        assert!(exit == 2 && refused.to_string().contains(wanted), "{more:?}: {exit} {refused}");
    }
    for learner in ["ppo", "mlp"] {
        let args = ["train", "planted", "--learner", learner, "--device", "cpu", "--out", "x", "--population", "8"];
        let (refused, exit) = place.json(&args);
        assert!(exit == 2 && refused.to_string().contains("`evolve.`"), "{learner}: {exit} {refused}");
    }
}
