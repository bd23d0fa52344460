//! Policies that evolve, as a user trains them.

use super::policies::{
    Policies, claims_nothing, earns_again, growth, has_parity, market, number, others_refuse, same_run,
};
use super::{Place, text};
use serde_json::Value;

const EVOLVE: Policies = Policies { learner: "evolve", small: &["--net", "16t-16t"] };

/// Members of a run that are deployed so.
fn deployed(run: &Value, how: &str) -> usize {
    run["members"].as_array().expect("members").iter().filter(|member| member["deployed"] == how).count()
}

/// Each algorithm captures what is planted and claims nothing where nothing is; the model is used like any other.
#[test]
fn evolved_policies_are_judged_and_kept_like_any_model() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "6000", "0.8");
    market(&place, "nothing", "1", "6000", "0.5");
    let more = ["--timesteps", "1000000", "--folds", "2", "--seeds", "2"];
    let mut flat = Vec::new();
    for (algorithm, own) in [
        ("openai", &["--rank", "0"][..]),
        ("openai-bf16", &["--rank", "0", "--precision", "bf16"]),
        ("openai-rank-1", &["--rank", "1"]),
        ("sep-cma", &["--algorithm", "sep-cma"]),
        ("snes", &["--algorithm", "snes"]),
        ("cem", &["--algorithm", "cem"]),
        ("pbt", &["--algorithm", "pbt", "--reward", "drawdown", "--set", "ppo.drawdown_weight=0.1"]),
    ] {
        let more = [&more[..], own].concat();
        let run = EVOLVE.train(&place, "planted", algorithm, &more);
        assert_eq!(run["members"].as_array().map(Vec::len), Some(4), "{run}");
        let earned = growth(&run["backtest"]["net"], &run["backtest"]);
        assert!(earned > 0.8 * best, "{algorithm}: {earned} bp a bar of {best}");
        let nothing = EVOLVE.train(&place, "nothing", &format!("{algorithm}-nothing"), &more);
        claims_nothing(&nothing);
        let stay = deployed(&nothing, "flat");
        assert_eq!(stay + deployed(&nothing, "trades"), 4, "{algorithm}: {nothing}");
        assert_eq!(nothing["notes"].to_string().contains(" flat: "), stay > 0, "{algorithm}: {nothing}");
        flat.push(stay);
        assert_eq!(deployed(&run, "trades"), 4, "{algorithm}: {run}");
    }
    // Flat is a candidate: who earned nothing on validation data stays out, and the run says so. The luckiest of many
    // validations may be above flat where there is nothing to learn.
    assert!(flat.iter().filter(|members| **members > 0).count() >= 2, "{flat:?}");
    // A run is one trial, however many individuals, seeds and folds it has.
    for data in ["planted", "nothing"] {
        let (trials, exit) = place.json(&["trials", data]);
        assert_eq!((exit, &trials["trials"]), (0, &7.into()), "{trials}");
    }
    // The same seed gives the same with another number of threads.
    let run = EVOLVE.train(&place, "planted", "one", &[&more[..], &["--threads", "1"]].concat());
    let again = EVOLVE.train(&place, "planted", "many", &[&more[..], &["--threads", "5"]].concat());
    same_run(&run, &again);
    place.same_files("one/model/model.json", "many/model/model.json");
    EVOLVE.goes_on(&place, "planted", &more, ("one", &run));

    earns_again(&place, "one", &run["backtest"]);
    let (said, exit) = place.json(&["predict", "one", "planted", "--out", "p.parquet"]);
    assert!(exit == 0 && said["wanted"].as_array().is_some_and(|shares| shares.len() == 3), "{said}");
    has_parity(&place, "one");
    let log = std::fs::read_to_string(place.path().join("one/log.jsonl")).expect("a log");
    assert!(["mean_fitness", "best_fitness", "generations_per_s"].iter().all(|name| log.contains(name)), "{log}");
}

/// The last days that can be tested, where a split of the price lies between them and the holdout: nothing behind it
/// has settled yet.
#[test]
fn days_without_a_settled_row_are_not_tested() {
    let place = Place::new();
    let mut rows = String::from("time,open,high,low,close,volume\n");
    let (mut days, mut price) = ((0..).filter(|day| day % 7 < 5), 200.0_f64);
    for bar in 0..1500_u32 {
        price *= 1.0 + 0.01 * (f64::from(bar) * 1.7).sin() * (f64::from(bar) * 0.31).cos();
        let shown = if bar < 1190 { price } else { price / 2.0 };
        // Monday, 2014-01-06.
        let day = 1_388_966_400_i64 + 86_400 * days.next().unwrap_or_default();
        let (high, low) = (1.004 * shown, 0.996 * shown);
        rows += &format!("{day},{shown:.4},{high:.4},{low:.4},{shown:.4},1000\n");
    }
    place.write("SHARE.csv", &rows);
    let features = ["--features", "log_return(1), close/sma(100) - 1"];
    let small = ["--learner", "evolve", "--device", "cpu", "--net", "8t-8t", "--timesteps", "20000"];
    // More days than there are: what cut the bars is named, not a number of bars that there are.
    let (refused, exit) = place.json(&[&["train", "SHARE.csv", "--test-days", "1400"], &features[..], &small].concat());
    assert!(exit != 0 && refused["error"].to_string().contains("fewer than 1400 days with samples"), "{refused}");
    assert!(refused["error"].to_string().contains("--factors"), "{refused}");
    let args = [&["train", "SHARE.csv", "--test-days", "30", "--out", "run"], &features[..], &small].concat();
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    let notes = run["notes"].to_string();
    assert!(notes.contains("the 30 days tested end on") && notes.contains("--factors"), "{notes}");
    assert_eq!(run["folds"][0]["test"], 30, "{run}");
    let steps = number(&run["backtest"]["steps"]);
    assert!((29.0..=33.0).contains(&steps), "{steps} bars were traded");
    let verdict = run["evidence"]["sentence"].as_str().unwrap_or_default();
    assert!(verdict.starts_with("not enough data") && verdict.ends_with("test days (60 are needed)"), "{run}");
}

/// Flags change the plan, `auto` is legal for each, and what is not for evolution is refused.
#[test]
fn flags_of_evolution_change_the_plan() {
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let plan = |more: &[&str]| EVOLVE.plan(&place, more);
    let usual = plan(&[]);
    let flags = ["--population", "--sigma", "--rank", "--algorithm", "--timesteps", "--n-envs", "--n-steps", "--net"];
    let auto: Vec<&str> = flags.into_iter().chain(["--reward"]).flat_map(|flag| [flag, "auto"]).collect();
    let auto = plan(&auto);
    for field in ["net", "batch", "generations", "folds"] {
        assert_eq!(usual[field], auto[field], "{field}");
    }
    // 50,000,000 steps in generations of 128 individuals with 8 accounts of 256 steps.
    assert_eq!((&usual["batch"], &usual["generations"]), (&128.into(), &191.into()), "{usual}");
    // What was left open leaves 50 generations, and no span is longer than what is traded on.
    for (more, wanted) in [
        (&["--timesteps", "1000000"][..], "a population of 8 with 8 accounts of 256 steps"),
        (&["--timesteps", "100000"], "a population of 6 with 1 account of 256 steps"),
        (&["--timesteps", "100000", "--n-envs", "4"], "with 4 accounts of 64 steps"),
        (&["--n-steps", "100000"], "accounts take at most"),
    ] {
        let few = plan(more);
        assert!(few["generations"].as_u64().is_some_and(|n| n >= 50), "{few}");
        assert!(few["notes"].to_string().contains(wanted), "{few}");
    }
    let short = plan(&["--timesteps", "100000", "--n-envs", "64", "--n-steps", "256"]);
    assert!(short["notes"].to_string().contains("2 generations in 100,000 timesteps, fewer than 50"), "{short}");
    // So does a budget, unless the population was set; a machine that needs none of it is left alone.
    for (more, is_open) in [(&["--budget", "1s"][..], true), (&["--budget", "1s", "--population", "128"], false)] {
        let tight = plan(more);
        let (generations, notes) = (tight["generations"].as_u64().unwrap_or_default(), tight["notes"].to_string());
        let is_few = notes.contains("fewer than 50: give more");
        assert_eq!(generations < 50, is_few, "{tight}");
        assert!(!is_open || !is_few, "{tight}");
        let is_small = notes.contains("so that the budget leaves at least 50 generations");
        assert_eq!(tight["batch"].as_u64() < Some(128), is_small, "{tight}");
    }
    let shown = place.run(&["train", "planted", "--learner", "evolve", "--device", "cpu", "--dry-run"]);
    assert!(text(&shown.stdout).contains(", population of 128, "), "{}", text(&shown.stdout));
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
    let late = plan(&["--algorithm", "pbt", "--timesteps", "81920", "--set", "evolve.exploit_every=1000"]);
    assert!(late["notes"].to_string().contains("nobody adopts from another"), "{late}");
    let cases: [(&[&str], &str); 18] = [
        (&["--set", "evolve.exploit_every=10"], "population-based"),
        (&["--algorithm", "cem", "--set", "ppo.schedule=cosine"], "ppo.schedule is of a learning rate"),
        (&["--set", "ppo.drawdown_weight=0.5"], "counts drawdowns"),
        (&["--algorithm", "pbt", "--set", "ppo.drawdown_weight=0.5"], "counts drawdowns"),
        (&["--population", "1048576", "--n-envs", "1024"], "one generation takes"),
        (&["--timesteps", "4096", "--population", "64", "--n-envs", "1"], "more than the 4,096 of"),
        (&["--algorithm", "snes", "--rank", "2"], "of openai"),
        (&["--algorithm", "cem", "--set", "train.rate=0.1"], "of openai"),
        (&["--algorithm", "pbt", "--sigma", "0.1"], "population-based"),
        (&["--try", "evolve.algorithm=openai,pbt"], "runs of their own"),
        (&["--entropy", "0.2..0.8"], "evolution goes by"),
        (&["--batch-size", "64"], "not a batch"),
        (&["--precision", "tf32"], "f32 or in bf16"),
        (&["--precision", "bf16", "--rank", "1"], "low rank compute in f32"),
        (&["--labels", "fixed(3)"], "not from labels"),
        (&["--net", "8n"], "plain stack"),
        (&["--population", "7"], "even"),
        (&["--split", "kfold"], "walk forward"),
    ];
    EVOLVE.refuses(&place, &cases);
    others_refuse(&place, &["ppo", "mlp"], &["--population", "8"], "`evolve.`");
    others_refuse(&place, &["ppo"], &["--set", "ppo.drawdown_weight=0.5"], "counts drawdowns");
}
