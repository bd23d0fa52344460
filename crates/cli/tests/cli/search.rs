//! Policies that search, as a user trains them.

use super::Place;
use super::policies::{Policies, claims_nothing, growth, has_parity, market, number, others_refuse, same_run};
use serde_json::Value;

const SEARCH: Policies = Policies {
    learner: "search",
    small: &[
        "--net",
        "16t-16t",
        "--simulations",
        "4",
        "--scenarios",
        "32",
        "--n-envs",
        "32",
        "--n-steps",
        "16",
        "--timesteps",
        "6144",
        "--folds",
        "2",
        "--seeds",
        "2",
        "--horizon",
        "4",
        "--set",
        "train.rate=0.003",
    ],
};

/// What is planted is captured, the four lines are there, and the model is used like any other.
#[test]
fn searchers_are_judged_beside_four_lines_and_kept_like_any_model() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "4000", "0.8");
    let run = SEARCH.train(&place, "planted", "run", &["--threads", "2"]);
    assert_eq!(run["members"].as_array().map(Vec::len), Some(4), "{run}");
    let record = &run["backtest"];
    let earned = growth(&record["net"], record);
    assert!(earned > 0.8 * best, "{earned} bp a bar of {best}");
    let lines = record["lines"].as_array().expect("lines");
    let names: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["net alone", "net with search", "ORACLE", "flat"], "{record}");
    let marked: Vec<bool> = lines.iter().filter_map(|line| line["knows_the_future"].as_bool()).collect();
    assert_eq!(marked, [false, false, true, false]);
    let [own, whole] = [&lines[1]["total_return"], &record["net"]["total_return"]].map(number);
    assert!((own / whole - 1.0).abs() < 1e-9, "{own} and {whole}");
    assert!(growth(&lines[2], record) > earned && number(&lines[3]["total_return"]) == 0.0, "{record}");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("a page");
    assert!(page.contains("ORACLE (knows what comes"), "the report has the lines");
    takes_time(&run);
    assert!(page.contains("99th percentile"), "the report has the time of a decision");
    // Which market model was searched in, and what both were worth, stands in the result, on the page and in the log.
    let models = run["market_models"].as_array().expect("market models");
    assert_eq!(models.iter().map(|own| &own["fold"]).collect::<Vec<_>>(), [1, 2], "{run}");
    for own in models {
        let [bootstrap, learned] = ["bootstrap", "learned"].map(|model| number(&own["held_out"][model]["crps"]));
        let is_known = own["model"] == "bootstrap" || own["model"] == "learned" && learned < bootstrap;
        assert!(bootstrap > 0.0 && learned > 0.0 && is_known, "{own}");
    }
    assert!(page.contains("Market models on rows held out"), "the report has the models");
    for line in ["validation with search, mean", "net alone, mean"] {
        assert!(page.contains(line), "the report has the rolling evaluation: {line}");
    }
    assert!(run["notes"].to_string().contains("the market model is"), "{run}");
    let log = std::fs::read_to_string(place.path().join("run/log.jsonl")).expect("a log");
    assert!(["model_learned", "bootstrap_crps", "learned_crps"].iter().all(|name| log.contains(name)), "{log}");
    assert!(["net_growth", "simulations_per_s", "model_crps"].iter().all(|name| log.contains(name)), "{log}");

    // Four members with 6,144 roots each, 512 in an iteration, not all of which are validated.
    let shown = super::text(&place.run(&["runs", "show", "run"]).stdout);
    assert!(shown.contains("48 iterations done by all members") && !shown.contains("epoch"), "{shown}");

    // The same seed gives the same with another number of threads.
    let again = SEARCH.train(&place, "planted", "again", &["--threads", "5"]);
    same_run(&run, &again);
    place.same_files("run/model/model.json", "again/model/model.json");

    // The model owns its market: asked again it decides the same, also bar by bar.
    let (tested, exit) = place.json(&["backtest", "run", "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]), (0, record), "{tested}");
    takes_time(&tested);
    let (said, exit) = place.json(&["predict", "run", "planted", "--out", "p.parquet"]);
    assert!(exit == 0 && said["wanted"].as_array().is_some_and(|shares| shares.len() == 3), "{said}");
    has_parity(&place, "run");
    let (opened, exit) = place.json(&["holdout", "run"]);
    assert!(exit == 0 && opened["net_sharpe"].as_f64().is_some_and(|sharpe| sharpe > 0.0), "{opened}");
    let names = |record: &Value| -> Vec<String> {
        let lines = record["backtest"]["lines"].as_array().into_iter().flatten();
        lines.filter_map(|line| line["name"].as_str().map(str::to_string)).collect()
    };
    assert_eq!(names(&opened), ["net alone", "net with search", "ORACLE", "flat"], "{opened}");
    takes_time(&opened);
    for (file, key) in [("run/holdout.json", "/backtest/lines"), ("run/holdout/backtest.json", "/lines")] {
        let text = std::fs::read(place.path().join(file)).expect("a record");
        let record: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(record.pointer(key), opened.pointer("/backtest/lines"), "{file}");
    }
    let shown = super::text(&place.run(&["holdout", "run"]).stdout);
    assert!(["net with search", "ORACLE", "99th percentile"].iter().all(|part| shown.contains(part)), "{shown}");
    let (refit, exit) = place.json(&["refit", "run", "--out", "refit", "--device", "cpu"]);
    assert_eq!(exit, 0, "{refit}");
    market(&place, "new", "1", "4600", "0.8");
    let (new, exit) = place.json(&["predict", "refit", "new", "--out", "r.parquet"]);
    assert!(exit == 0 && new["bars"].as_u64().is_some_and(|n| n > 100), "{new}");
    let path = place.path().join("run/model/fold-1-market.bin");
    let mut bytes = std::fs::read(&path).expect("a market");
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let (changed, exit) = place.json(&["predict", "run", "planted", "--out", "p.parquet"]);
    assert!(exit == 5 && changed.to_string().contains("was changed"), "{exit} {changed}");
}

/// How long a decision takes is there, beside the lines and in seconds; how long is the machine's.
fn takes_time(shown: &Value) {
    let latency = &shown["latency"];
    assert_eq!((number(&latency["bar_seconds"]), number(&latency["budget_share"])), (3600.0, 0.1), "{latency}");
    for line in ["net_alone", "with_search"] {
        let own = &latency[line];
        let [closes, median, p99, share] =
            ["closes", "median_seconds", "p99_seconds", "share_of_bar"].map(|field| number(&own[field]));
        assert!(closes >= 20.0 && median > 0.0 && median <= p99 && (share * 3600.0 / p99 - 1.0).abs() < 1e-9, "{own}");
    }
}

/// PPO that was trained for as long is a run and a trial of its own, and stands beside the search.
#[test]
fn a_baseline_is_trained_for_as_long_as_a_search() {
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let small = ["--set", "search.latency=0", "--baseline"];
    let run = SEARCH.train(&place, "planted", "run", &small);
    let baseline = &run["baseline"];
    for field in ["search_seconds", "seconds", "timesteps"] {
        assert!(number(&baseline[field]) > 0.0, "{run}");
    }
    assert_eq!(baseline["line"]["name"], "PPO, trained as long", "{baseline}");
    let other = std::fs::read(place.path().join("run-ppo/result.json")).expect("a run of its own");
    let other: Value = serde_json::from_slice(&other).expect("JSON");
    assert_eq!((&other["learner"], &other["net"]), (&"ppo".into(), &run["net"]), "{other}");
    assert_eq!(other["members"].as_array().map(Vec::len), run["members"].as_array().map(Vec::len));
    assert_eq!(other["backtest"]["net"]["total_return"], baseline["line"]["total_return"]);
    let blocks = |run: &Value| run["folds"].as_array().expect("folds").iter().map(|f| f["test"].clone()).collect();
    let [own, its]: [Vec<Value>; 2] = [&run, &other].map(blocks);
    assert_eq!(own, its);
    let (trials, exit) = place.json(&["trials"]);
    assert!(exit == 0 && trials.to_string().contains("run-ppo"), "{trials}");
    let settings = std::fs::read_to_string(place.path().join("run/settings.toml")).expect("settings");
    assert!(settings.contains("rule = \"gumbel\""), "what auto chose is written out: {settings}");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("a page");
    assert!(page.contains("PPO, trained as long"), "the report has the fifth line");
    let notes = run["notes"].to_string();
    assert!(notes.contains("of training, the search was trained for"), "{notes}");
    // No decision takes no time.
    assert_eq!(notes.contains("one decision of a hundred with search"), !run["latency"].is_null(), "{notes}");
    SEARCH.refuses(&place, &[(&["--baseline", "--try", "rate=1e-3,1e-4"], "several configs are tried")]);
    // The plan names the second run, and a budget is for both.
    let plan = SEARCH.plan(&place, &["--net", "8t", "--baseline"]);
    let alone = SEARCH.plan(&place, &["--net", "8t"]);
    assert_eq!((&plan["trains_baseline"], &alone["trains_baseline"]), (&true.into(), &Value::Null), "{plan}");
    assert!([&plan, &alone].iter().all(|plan| number(&plan["estimate_seconds"]) > 0.0), "{plan} {alone}");
    let shown = super::text(&place.run(&["train", "planted", "--learner", "search", "--baseline", "--dry-run"]).stdout);
    assert!(shown.contains("then PPO with the same net") && shown.contains("iterations and PPO"), "{shown}");
    others_refuse(&place, &["ppo"], &["--baseline"], "`search.`");
}

/// A baseline that is stopped ends as stopped, and goes on with the run that it stands beside.
#[test]
#[cfg(unix)]
fn a_baseline_that_is_stopped_goes_on() {
    use std::process::{Command, Stdio};
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let small = ["--set", "search.latency=0", "--baseline", "--json"];
    let train = SEARCH.small("planted", "run", &small);
    let mut child = place.command(&train).stdout(Stdio::piped()).spawn().expect("it starts");
    let log = place.path().join("run-ppo/log.jsonl");
    let trains = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("\"phase\""));
    super::wait_for("the baseline", &mut child, trains);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    let stopped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &stopped["interrupted"]), (Some(130), &true.into()), "{stopped}");
    assert_eq!((&stopped["folder"], &stopped["baseline"]), (&"run".into(), &Value::Null), "{stopped}");
    let (resumed, exit) = place.json(&["runs", "resume", "run"]);
    assert_eq!((exit, &resumed["folder"]), (0, &"run".into()), "{resumed}");
    let read = |file: &str| -> Value {
        serde_json::from_slice(&std::fs::read(place.path().join(file)).expect(file)).expect("JSON")
    };
    let (run, other) = (read("run/result.json"), read("run-ppo/result.json"));
    assert_eq!((&run["baseline"], &run["members"]), (&resumed["baseline"], &stopped["members"]), "{run}");
    assert_eq!(run["baseline"]["line"]["total_return"], other["backtest"]["net"]["total_return"], "{run}");
    assert!(run["notes"].to_string().contains("the search was trained for"), "{run}");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("a page");
    assert!(page.contains("PPO, trained as long"), "the report has the fifth line");
    // Then all of it is done.
    let (refused, exit) = place.json(&["runs", "resume", "run"]);
    assert!(exit != 0 && refused.to_string().contains("is finished"), "{refused}");
}

/// With the learned model wanted, every fold searches in one, the planted market is captured, and the model is kept.
#[test]
fn a_learned_market_is_searched_where_it_is_wanted() {
    let place = Place::new();
    let best = market(&place, "planted", "1", "4000", "0.8");
    let run = SEARCH.train(&place, "planted", "run", &["--set", "search.model=learned"]);
    let record = &run["backtest"];
    let earned = growth(&record["net"], record);
    assert!(earned > 0.8 * best, "{earned} bp a bar of {best}");
    let models = run["market_models"].as_array().expect("market models");
    assert!(models.len() == 2 && models.iter().all(|own| own["model"] == "learned"), "{run}");
    let (tested, exit) = place.json(&["backtest", "run", "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]), (0, record), "{tested}");
}

/// Where nothing is planted nothing is claimed; killed before its model is written, a run goes on to the same one.
#[test]
fn searchers_claim_nothing_where_nothing_is_and_go_on() {
    let place = Place::new();
    market(&place, "nothing", "1", "3000", "0.5");
    let run = SEARCH.train(&place, "nothing", "run", &[]);
    claims_nothing(&run);
    SEARCH.goes_on(&place, "nothing", &[], ("run", &run));
}

/// Flags change the plan, `auto` is legal for each, and what is not for searchers is refused.
#[test]
fn flags_of_a_search_change_the_plan() {
    let place = Place::new();
    market(&place, "planted", "1", "3000", "0.8");
    let plan = |more: &[&str]| SEARCH.plan(&place, more);
    let usual = plan(&[]);
    let flags = [
        "--roots",
        "--simulations",
        "--scenarios",
        "--horizon",
        "--n-envs",
        "--n-steps",
        "--batch-size",
        "--net",
        "--timesteps",
    ];
    let auto: Vec<&str> = flags.into_iter().flat_map(|flag| [flag, "auto"]).collect();
    let auto = plan(&auto);
    for field in ["net", "batch", "iterations", "folds"] {
        assert_eq!(usual[field], auto[field], "{field}");
    }
    // 16,384 roots in iterations of 64 accounts with 16 steps.
    assert_eq!((&usual["batch"], &usual["iterations"]), (&256.into(), &16.into()), "{usual}");
    // As many accounts as roots, and half the steps; accounts that are set keep theirs.
    let many = plan(&["--mcts-batch-size", "128", "--batch-size", "64", "--invert-trend"]);
    assert_eq!((&many["batch"], &many["iterations"]), (&64.into(), &16.into()), "{many}");
    let apart = plan(&["--roots", "32", "--n-envs", "128", "--n-steps", "16"]);
    assert_eq!(apart["iterations"], 8, "{apart}");
    let (refused, exit) = place.json(&["train", "planted", "--learner", "search", "--net", "lstm64", "--dry-run"]);
    assert_eq!((exit, &refused["error"]["remedy"]), (2, &"give layers without memory, as in --net 64t-64t".into()));
    let cases: [(&[&str], &str); 14] = [
        (&["--continuous"], "short, flat and long"),
        (&["--entropy", "0.2..0.8"], "a search goes by"),
        (&["--population", "8"], "`evolve.`"),
        (&["--precision", "tf32"], "in f32 or bf16"),
        (&["--set", "search.model=best"], "auto, bootstrap or learned"),
        (&["--set", "search.rule=best"], "gumbel or puct, or auto"),
        (&["--net", "lstm64"], "has a memory"),
        (&["--net", "16x50-64t"], "has a memory or a window"),
        (&["--labels", "fixed(3)"], "not from labels"),
        (&["--net", "row:3 / 8 / direction:3"], "a search reads"),
        (&["--split", "kfold"], "walk forward"),
        (&["--try", "ppo.gamma=0.9,0.99"], "one market"),
        (&["--roots", "20000"], "20,000 accounts, and 16,384 roots"),
        (&["--n-envs", "16", "--try", "search.roots=8,16"], "change no bit where accounts are set"),
    ];
    SEARCH.refuses(&place, &cases);
    others_refuse(&place, &["ppo", "evolve", "mlp"], &["--simulations", "8"], "`search.`");
}

/// The trend's features are known by what they are computed of. Turned over they are another trial, of which the ledger
/// has a row of its own; where there is none, there is nothing to turn over.
#[test]
fn an_inverted_trend_is_a_trial_of_its_own() {
    let place = Place::new();
    market(&place, "trend", "1", "1500", "0.8");
    let train = |out: &str, features: &str, more: &[&str]| {
        let own = ["train", "trend", "--learner", "search", "--device", "cpu", "--out", out, "--features", features];
        let small = ["--net", "8t", "--folds", "2", "--seeds", "1", "--simulations", "1", "--scenarios", "4"];
        let less = ["--n-envs", "16", "--timesteps", "64", "--horizon", "2", "--set", "search.model=bootstrap"];
        place.json(&[&own[..], &small, &less, more].concat())
    };
    let features = "v = volatility(20), above = close/sma(10) - 1, r = log_return(1)";
    let runs = [("first", &[][..]), ("again", &[]), ("turned", &["--invert-trend"])];
    let [first, again, turned] = runs.map(|(out, more)| {
        let (run, exit) = train(out, features, more);
        assert_eq!(exit, 0, "{run}");
        assert_eq!(run["market_models"][0]["trend"], "above", "{run}");
        assert_eq!(run["market_models"][0]["trend_reversed"], false, "{run}");
        assert!(run["notes"].to_string().contains("the sign of `above`"), "{run}");
        run
    });
    assert_eq!(first["members"], again["members"]);
    assert_ne!(first["members"], turned["members"]);
    let trials = || {
        let (trials, exit) = place.json(&["trials", "trend"]);
        assert_eq!(exit, 0, "{trials}");
        trials["trials"].as_u64().expect("a count")
    };
    assert_eq!(trials(), 2);
    // Another batch of roots changes no bit, and another rule is another trial.
    let (batch, exit) = train("batch", features, &["--roots", "4"]);
    assert_eq!((exit, &batch["members"], trials()), (0, &first["members"], 2), "{batch}");
    let (puct, exit) = train("puct", features, &["--set", "search.rule=puct"]);
    assert_eq!((exit, trials()), (0, 3), "{puct}");
    let kept = std::fs::read_to_string(place.path().join("puct/model/model.json")).expect("a model");
    assert!(kept.contains("\"rule\": \"puct\""), "{kept}");
    let (tested, exit) = place.json(&["backtest", "puct", "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]), (0, &puct["backtest"]), "{tested}");
    // Above its average after the price fell, it counts reversed; how far away it is says nothing.
    let (run, exit) = train("reversed", "v = volatility(20), below = sma(10)/close - 1, r = log_return(1)", &[]);
    assert_eq!((exit, &run["market_models"][0]["trend"]), (0, &"below".into()), "{run}");
    assert_eq!(run["market_models"][0]["trend_reversed"], true, "{run}");
    assert!(run["notes"].to_string().contains("the sign of `below`, reversed"), "{run}");
    let square = "v = volatility(20), far = (close/sma(10) - 1)*(close/sma(10) - 1)*10000 - 1, r = log_return(1)";
    let (run, exit) = train("square", square, &[]);
    assert_eq!((exit, &run["market_models"][0]["trend"]), (0, &Value::Null), "{run}");
    let (refused, exit) = train("none", "v = volatility(20), r = log_return(1)", &["--invert-trend"]);
    assert!(exit == 2 && refused.to_string().contains("no trend to invert"), "{exit} {refused}");
    // Weighed by nothing it is not believed, and the presets have one.
    let (run, exit) = train("nothing", features, &["--set", "search.trend_prior=0"]);
    assert_eq!((exit, &run["market_models"][0]["trend"]), (0, &Value::Null), "{run}");
    for preset in ["basic", "full"] {
        let (plan, exit) = train("plan", preset, &["--invert-trend", "--dry-run"]);
        assert_eq!(exit, 0, "{preset}: {plan}");
    }
}

/// Roots and simulations are tuned at once: every pair is timed or has its reason, and `train` takes what was chosen.
#[test]
fn searchers_are_tuned_by_roots_and_simulations() {
    let place = Place::new();
    market(&place, "coin", "1", "3000", "0.8");
    let row = "p = col(plant), r = log_return(1), v = volatility(20)";
    let of = |verb: &'static str| vec![verb, "coin", "--learner", "search", "--features", row, "--device", "cpu"];
    let small = ["--net", "8t", "--folds", "2", "--seeds", "1", "--scenarios", "8", "--horizon", "3"];
    let limits = ["--budget", "8s", "--memory", "100MiB", "--set", "search.simulations=7"];
    let (tuned, exit) = place.json(&[&of("tune")[..], &small, &limits].concat());
    assert_eq!((exit, &tuned["schema"]), (0, &"tune/1".into()), "{tuned}");
    let whole = |row: &Value, field: &str| row[field].as_u64().unwrap_or_else(|| panic!("{field}: {row}"));
    let rows = tuned["search"]["rows"].as_array().expect("rows");
    let pairs: Vec<(u64, u64)> = rows.iter().map(|r| (whole(r, "roots"), whole(r, "simulations"))).collect();
    let all: Vec<(u64, u64)> = [16, 32, 64, 128, 256].iter().flat_map(|r| [8, 16, 32].map(|s| (*r, s))).collect();
    assert_eq!(pairs, all, "{tuned}");
    for row in rows {
        let rates = ["roots_per_s", "simulations_per_s", "iteration_s"].map(|field| row[field].as_f64());
        assert!(rates.iter().all(Option::is_some) || rates.iter().all(Option::is_none), "{row}");
        assert!(whole(row, "memory_bytes") > 0 && (!row["planted_s"].is_null() || row["note"].is_string()), "{row}");
        if let [Some(roots), Some(simulations), Some(seconds)] = rates {
            let searched = (whole(row, "roots") * whole(row, "n_steps")) as f64;
            assert!((roots * seconds / searched - 1.0).abs() < 1e-9, "{row}");
            assert!((simulations / roots / whole(row, "simulations") as f64 - 1.0).abs() < 1e-9, "{row}");
        }
    }
    let chosen = rows.iter().find(|r| r["chosen"] == true).unwrap_or_else(|| panic!("{tuned}"));
    for field in ["roots", "simulations", "n_steps"] {
        assert_eq!(tuned["chosen"][field], chosen[field], "{tuned}");
    }
    assert!(tuned["why"].to_string().contains("planted market") && tuned["rule_search"][0] == 64, "{tuned}");
    assert!(tuned["notes"].to_string().contains("search.simulations = 7 of the settings is ignored"), "{tuned}");

    // What a run takes cannot be anything else; part of it set by hand, none of it is taken.
    let path = place.path().join("home/tuned.json");
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (field, value) in [("roots", 24), ("n_envs", 24), ("n_steps", 10), ("simulations", 3), ("batch", 48)] {
        saved["entries"][0]["choice"][field] = value.into();
    }
    std::fs::write(&path, saved.to_string()).unwrap();
    let (run, exit) = place.json(&[&of("train")[..], &small, &["--timesteps", "480", "--out", "run"]].concat());
    assert_eq!((exit, &run["batch"], &run["iterations"]), (0, &48.into(), &2.into()), "{run}");
    assert!(run["notes"].to_string().contains("24 roots with 3 simulations, 10 steps, batch 48"), "{run}");
    let kept = std::fs::read_to_string(place.path().join("run/settings.toml")).unwrap();
    assert!(
        ["n_envs = 24", "n_steps = 10", "roots = 24", "simulations = 3"].iter().all(|p| kept.contains(p)),
        "{kept}"
    );
    for set in [["--roots", "16"], ["--simulations", "4"], ["--n-envs", "8"], ["--batch-size", "50"]] {
        let (plan, exit) = place.json(&[&of("train")[..], &small, &set, &["--dry-run"]].concat());
        assert!(exit == 0 && !plan["notes"].to_string().contains("tuned on"), "{set:?}: {plan}");
    }
    let output = place.run(&[&of("tune")[..], &small, &["--budget", "2s"]].concat());
    let said = super::text(&output.stdout);
    // Lines are wrapped.
    let plain = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["Roots and simulations", "planted return", "Chosen", "without tuning 64 roots with 16 simulations"] {
        assert!(plain.contains(part), "{part}:\n{said}");
    }
}

/// A folder of files by the hundred is one universe: one policy, whose accounts on all symbols are roots of the same
/// batch, judged as a portfolio and symbol by symbol, within the memory that was set.
#[test]
fn two_hundred_files_are_searched_as_one_universe() {
    let place = Place::new();
    let folder = place.path().join("files");
    std::fs::create_dir(&folder).expect("a folder");
    let mut state = 7u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    for file in 0..200u64 {
        let mut trend = 1.0;
        let (mut text, mut close) = ("Date,Open,High,Low,Close,Volume\n".to_string(), 50.0 + file as f64);
        for bar in 0..260u64 {
            // A trend that lasts for ten bars in the mean, and that the last move shows.
            trend *= if draw() > 0.4 { -1.0 } else { 1.0 };
            let open = close;
            close *= 1.0 + 0.01 * trend + 0.01 * draw();
            // 2018-01-01 was a Monday.
            let day = bar / 5 * 7 + bar % 5;
            let date = day_of_2018(day);
            let (high, low) = (1.002 * open.max(close), 0.998 * open.min(close));
            text += &format!("{date},{open:.4},{high:.4},{low:.4},{close:.4},{}\n", 100_000 + bar);
        }
        std::fs::write(folder.join(format!("S{file:03}.csv")), text).expect("written");
    }
    let mut args = vec!["train", "files", "--learner", "search", "--device", "cpu", "--net", "8t", "--folds", "2"];
    args.extend(["--features", "r = log_return(1), v = volatility(10)", "--seeds", "2", "--memory", "300MiB"]);
    args.extend(["--simulations", "2", "--scenarios", "4", "--horizon", "2", "--timesteps", "2048"]);
    let (plan, exit) = place.json(&[&args[..], &["--dry-run"]].concat());
    assert_eq!((exit, plan["iterations"].as_u64()), (0, Some(2)), "{plan}");
    assert!(plan["memory_bytes"].as_u64().is_some_and(|n| n > 0) && plan["estimate_seconds"].is_number(), "{plan}");
    let (run, exit) = place.json(&[&args[..], &["--out", "run"]].concat());
    assert_eq!(exit, 0, "{run}");
    assert_eq!(run["members"].as_array().map(Vec::len), Some(4), "{run}");
    let kept = std::fs::read_to_string(place.path().join("run/settings.toml")).expect("settings");
    // Twice as many accounts as for a few symbols, all of them in one batch.
    assert!(["n_envs = 128", "roots = 128", "n_steps = 8"].iter().all(|part| kept.contains(part)), "{kept}");
    let record = &run["backtest"];
    assert_eq!(record["lines"].as_array().map(Vec::len), Some(4), "{record}");
    // Symbols that were traded.
    assert!(record["symbols"].as_array().is_some_and(|all| all.len() > 150), "{record}");
    for member in run["members"].as_array().expect("members") {
        assert!(member["best_iteration"].is_number() && member["test_growth"].is_number(), "{member}");
    }
    let (said, exit) = place.json(&["predict", "run", "files", "--out", "p.parquet"]);
    assert!(exit == 0 && said["wanted"].as_array().is_some_and(|shares| shares.len() == 3), "{said}");
    let (tested, exit) = place.json(&["backtest", "run", "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]), (0, record), "{tested}");
}

/// The day of 2018 behind so many days.
fn day_of_2018(mut day: u64) -> String {
    for (month, days) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
        if day < days {
            return format!("2018-{:02}-{:02}", month + 1, day + 1);
        }
        day -= days;
    }
    format!("2019-01-{:02}", day + 1)
}
