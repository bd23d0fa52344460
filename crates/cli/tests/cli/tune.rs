//! `fullbore tune`, and that `train` takes what it saved: said aloud, written down, the same bits twice, never in a run
//! that goes on.

use super::{Place, code, text};
use serde_json::Value;

const ROW: &str = "p = col(plant), r = log_return(1), v = volatility(20)";

/// More than 64 MiB of parameters.
const WIDE: &str = "row:3 / 4096-4096 / way:3";

fn market(place: &Place) {
    let args = ["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "1", "--bars", "5000"];
    let (value, code) = place.json(&[&args[..], &["--name", "coin", "--seed", "7", "--plant"]].concat());
    assert_eq!(code, 0, "{value}");
}

/// What tuning and training have in common.
fn same(verb: &str) -> Vec<&str> {
    let mut args = vec![verb, "coin", "--learner", "mlp", "--features", ROW, "--labels", "fixed(1)"];
    args.extend(["--set", "label.cost_bp=0", "--folds", "2", "--seeds", "2", "--device", "cpu"]);
    args
}

fn tune(place: &Place) -> Value {
    let (tuned, exit) = place.json(&[same("tune"), vec!["--budget", "3s"]].concat());
    assert_eq!((exit, &tuned["schema"]), (0, &Value::from("tune/1")), "{tuned}");
    tuned
}

fn train(place: &Place, out: &str, more: &[&str]) -> Value {
    let (run, exit) = place.json(&[&same("train")[..], &["--epochs", "3", "--out", out], more].concat());
    assert_eq!(exit, 0, "{run}");
    run
}

/// Writes another batch into the saved recipe, so that what a run takes cannot be anything else.
fn change(place: &Place, batch: u64) {
    let path = place.path().join("home/tuned.json");
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    saved["entries"][0]["choice"]["batch"] = batch.into();
    std::fs::write(&path, saved.to_string()).unwrap();
}

#[test]
fn tune_saves_a_result_that_train_uses() {
    let place = Place::new();
    market(&place);
    let before = train(&place, "before", &[]);
    let tuned = tune(&place);
    let rows = tuned["rows"].as_array().unwrap();
    let chosen: Vec<&Value> = rows.iter().filter(|r| r["chosen"] == true).collect();
    assert!(chosen.len() == 1 && chosen[0]["batch"] == tuned["chosen"]["batch"], "{tuned}");
    for row in rows.iter().filter(|r| !r["samples_per_s"].is_null()) {
        assert!(row["samples_per_s"].as_f64().unwrap() > 0.0 && row["memory_bytes"].as_u64().unwrap() > 0, "{row}");
        assert!(row["relative_time"].as_f64().unwrap() >= 1.0, "{row}");
    }
    assert!(rows.iter().all(|r| r["note"].is_string() || !r["samples_per_s"].is_null()), "{tuned}");
    assert!(tuned["noise"]["batches"].as_u64().unwrap() >= 16, "{tuned}");
    // A planted signal is a gradient that can be seen; no batch is beyond its noise.
    let scale = tuned["noise_scale"].as_f64().unwrap_or(f64::INFINITY);
    assert!(chosen[0]["batch"].as_f64().unwrap() <= scale.max(32.0), "{tuned}");
    assert!(tuned["why"].as_str().unwrap().contains("noise"), "{tuned}");
    assert_eq!(tuned["rule_batch"], before["batch"], "{tuned}");

    change(&place, 48);
    let first = train(&place, "first", &[]);
    assert_eq!(first["batch"], 48);
    let today = &tuned["tuned_at"].as_str().unwrap()[..10];
    assert!(first["notes"].to_string().contains(&format!("tuned on {today}: batch 48")), "{first}");
    // Written down, as settings and in the run.
    let read = |path: &str| std::fs::read_to_string(place.path().join(path)).unwrap();
    assert!(read("first/settings.toml").contains("batch = 48"), "{}", read("first/settings.toml"));
    let run: Value = serde_json::from_str(&read("first/run.json")).unwrap();
    assert_eq!(
        (&run["more"]["recipe"]["recipe"]["batch"], &run["more"]["tuned"]["recipe"]["batch"]),
        (&48.into(), &48.into()),
        "{run}"
    );
    // The same bits again; and from the run's settings, whatever was tuned since.
    train(&place, "second", &[]);
    change(&place, 96);
    let third = train(&place, "third", &["--settings", "first"]);
    assert_eq!(third["batch"], 48);
    let bits = |run: &str| std::fs::read(place.path().join(run).join("predictions.parquet")).unwrap();
    assert!(bits("first") == bits("second") && bits("first") == bits("third"));
    assert_eq!(train(&place, "fourth", &[])["batch"], 96);
    // Without it, or where the batch is given, nothing tuned is taken; and another workload has none.
    let rule = train(&place, "rule", &["--no-tuned"]);
    assert!(rule["batch"] == before["batch"] && bits("rule") == bits("before"), "{rule}");
    assert!(!rule["notes"].to_string().contains("tuned on"), "{rule}");
    assert_eq!(train(&place, "given", &["--batch-size", "80"])["batch"], 80);
    assert_eq!(train(&place, "other", &["--net", "row:3 / 24 / way:3"])["batch"], before["batch"]);
}

#[test]
fn resumed_run_keeps_its_batch() {
    let place = Place::new();
    market(&place);
    let long = ["--epochs", "40", "--set", "train.checkpoint=2", "--quiet", "--out"];
    let whole = place.run(&[&same("train")[..], &long, &["whole"]].concat());
    assert_eq!(code(&whole), 0, "{}", text(&whole.stderr));
    let cut = [&same("train")[..], &long, &["cut"]].concat();
    place.abort(&cut, "checkpoints/LATEST#2");
    tune(&place);
    change(&place, 48);
    let (went, exit) = place.json(&["runs", "resume", "cut"]);
    assert_eq!(exit, 0, "{went}");
    let bits = |run: &str| std::fs::read(place.path().join(run).join("predictions.parquet")).unwrap();
    assert!(bits("cut") == bits("whole"));
}

/// Policies: the table has every number of environments, timed or with its reason; `train` takes what was chosen whole.
#[test]
fn policies_are_tuned_by_environments() {
    let place = Place::new();
    market(&place);
    let of = |verb: &'static str| vec![verb, "coin", "--learner", "ppo", "--features", ROW, "--device", "cpu"];
    let (small, long) = (["--net", "8", "--folds", "2", "--seeds", "1"], ["--timesteps", "200000"]);
    let limits = ["--budget", "6s", "--memory", "100MiB", "--set", "ppo.n_envs=7"];
    let (tuned, exit) = place.json(&[&of("tune")[..], &small, &long, &limits].concat());
    assert_eq!((exit, &tuned["schema"]), (0, &"tune/1".into()), "{tuned}");
    let rows = tuned["capacity"]["rows"].as_array().unwrap();
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_else(|| panic!("{field}: {row}"));
    let envs: Vec<u64> = rows.iter().filter(|r| r["what"] == "n_envs").map(|r| number(r, "n_envs")).collect();
    assert_eq!(envs, [16, 32, 64, 128, 256, 1024, 4096, 16_384]);
    for row in rows {
        let (rate, update) = (&row["steps_per_s"], &row["update_s"]);
        assert_eq!(rate.is_null(), update.is_null(), "{row}");
        assert!(number(row, "memory_bytes") > 0 && (!row["planted_s"].is_null() || row["note"].is_string()), "{row}");
        if let (Some(rate), Some(update)) = (rate.as_f64(), update.as_f64()) {
            let steps = (number(row, "n_envs") * number(row, "n_steps")) as f64;
            assert!((rate * update / steps - 1.0).abs() < 1e-9, "{row}");
        }
    }
    let last = &rows[7];
    assert!(last["steps_per_s"].is_null() && last["note"].to_string().contains("the memory budget is"), "{last}");
    let chosen = rows.iter().rfind(|r| r["chosen"] == true).unwrap_or_else(|| panic!("{tuned}"));
    for (field, of_row) in [("n_envs", "n_envs"), ("n_steps", "n_steps"), ("batch", "batch_size")] {
        assert_eq!(tuned["chosen"][field], chosen[of_row], "{tuned}");
    }
    assert!(number(chosen, "updates") >= 16 && tuned["why"].to_string().contains("planted market"), "{tuned}");
    assert!(tuned["notes"].to_string().contains("ppo.n_envs = 7 of the settings is ignored"), "{tuned}");
    assert!(!place.path().join("home/ledger.sqlite").exists());

    // The rule's shape is what runs take without it.
    let plan = |more: &[&str]| {
        let (plan, exit) = place.json(&[&of("train")[..], &small, &long, &["--dry-run"], more].concat());
        assert_eq!(exit, 0, "{plan}");
        plan
    };
    let rule = plan(&["--no-tuned"]);
    let shape: Vec<u64> = tuned["rule_shape"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(number(&rule, "updates"), 200_000u64.div_ceil(shape[0] * shape[1]), "{rule}");
    assert_eq!(rule["batch"], tuned["rule_batch"], "{rule}");

    // What a run takes cannot be anything else; it is written down.
    let path = place.path().join("home/tuned.json");
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (field, value) in [("n_envs", 24), ("n_steps", 32), ("batch", 96)] {
        saved["entries"][0]["choice"][field] = value.into();
    }
    std::fs::write(&path, saved.to_string()).unwrap();
    let (run, exit) = place.json(&[&of("train")[..], &small, &["--timesteps", "3000", "--out", "run"]].concat());
    assert_eq!((exit, &run["batch"], &run["updates"]), (0, &96.into(), &4.into()), "{run}");
    assert!(run["notes"].to_string().contains("environments 24, steps 32, batch 96"), "{run}");
    let kept = std::fs::read_to_string(place.path().join("run/settings.toml")).unwrap();
    assert!(["n_envs = 24", "n_steps = 32", "batch = 96"].iter().all(|part| kept.contains(part)), "{kept}");
    // Part of it set by hand: none of it is taken.
    for set in [["--n-envs", "16"], ["--n-steps", "64"], ["--batch-size", "50"]] {
        assert!(!plan(&set)["notes"].to_string().contains("tuned on"), "{set:?}");
    }
}

/// Evolved policies: the table has every population, timed or with its reason; `train` takes what was chosen whole.
#[test]
fn evolved_policies_are_tuned_by_population() {
    let place = Place::new();
    market(&place);
    let of = |verb: &'static str| vec![verb, "coin", "--learner", "evolve", "--features", ROW, "--device", "cpu"];
    let small = ["--net", "8", "--folds", "2", "--seeds", "1"];
    let limits = ["--timesteps", "20000000", "--budget", "6s", "--set", "evolve.population=12"];
    let (tuned, exit) = place.json(&[&of("tune")[..], &small, &limits].concat());
    assert_eq!((exit, &tuned["schema"]), (0, &"tune/1".into()), "{tuned}");
    let rows = tuned["capacity"]["rows"].as_array().unwrap();
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_else(|| panic!("{field}: {row}"));
    let of_what = |what: &str| rows.iter().filter(|r| r["what"] == what).collect::<Vec<&Value>>();
    let populations: Vec<u64> = of_what("population").iter().map(|r| number(r, "batch_size")).collect();
    assert_eq!(populations, [32, 64, 128, 256, 512, 1024, 4096]);
    let accounts: Vec<u64> = of_what("accounts").iter().map(|r| number(r, "n_envs")).collect();
    assert_eq!(accounts, [4, 16]);
    for row in rows {
        assert!(number(row, "memory_bytes") > 0 && (!row["planted_s"].is_null() || row["note"].is_string()), "{row}");
        let steps = number(row, "batch_size") * number(row, "n_envs") * number(row, "n_steps");
        assert_eq!(number(row, "updates"), 20_000_000u64.div_ceil(steps), "{row}");
        if let (Some(rate), Some(generation)) = (row["steps_per_s"].as_f64(), row["update_s"].as_f64()) {
            assert!((rate * generation / steps as f64 - 1.0).abs() < 1e-9, "{row}");
        }
    }
    let chosen = rows.iter().rfind(|r| r["chosen"] == true).unwrap_or_else(|| panic!("{tuned}"));
    for (field, of_row) in [("n_envs", "n_envs"), ("n_steps", "n_steps"), ("batch", "batch_size")] {
        assert_eq!(tuned["chosen"][field], chosen[of_row], "{tuned}");
    }
    assert!(number(chosen, "updates") >= 50 && tuned["why"].to_string().contains("planted market"), "{tuned}");
    assert!(tuned["notes"].to_string().contains("evolve.population = 12 of the settings is ignored"), "{tuned}");
    let others = tuned["others"].to_string();
    assert!(["individuals at once", "pinning"].iter().all(|what| others.contains(what)), "{others}");

    // What a run takes is written down, and its pace changes no bit.
    let path = place.path().join("home/tuned.json");
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (field, value) in [("n_envs", 4), ("n_steps", 32), ("batch", 12), ("at_once", 2)] {
        saved["entries"][0]["choice"][field] = value.into();
    }
    saved["entries"][0]["choice"]["pinned"] = true.into();
    saved["entries"][0]["choice"]["precision"] = "bf16".into();
    std::fs::write(&path, saved.to_string()).unwrap();
    let train = |out: &str, more: &[&str]| {
        let long = ["--timesteps", "80000", "--out", out];
        let (run, exit) = place.json(&[&of("train")[..], &small, &long, more].concat());
        assert_eq!(exit, 0, "{run}");
        run
    };
    let run = train("run", &[]);
    let notes = run["notes"].to_string();
    assert!(notes.contains(", precision bf16") && notes.contains("of a thread at once 2, threads pinned"), "{run}");
    assert_eq!(run["precision"], "bf16", "{run}");
    // bf16 was timed where the processor multiplies it.
    let folder = std::fs::read_to_string(place.path().join("run/run.json")).unwrap();
    let multiplies = folder.contains("avx512bf16");
    assert_eq!(others.contains("\"what\":\"precision\""), multiplies, "{others}");
    let kept = std::fs::read_to_string(place.path().join("run/settings.toml")).unwrap();
    let parts = ["population = 12", "n_envs = 4", "n_steps = 32", "at_once = 2", "pinned = true", "\"bf16\""];
    assert!(parts.iter().all(|part| kept.contains(part)), "{kept}");
    let same = ["--no-tuned", "--population", "12", "--n-envs", "4", "--n-steps", "32", "--threads", "1"];
    train("plain", &[&same[..], &["--precision", "bf16"]].concat());
    let bits = |run: &str| {
        let folder = std::fs::read_dir(place.path().join(run).join("checkpoints/last")).unwrap();
        let mut all: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
        all.sort();
        all.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    let own = bits("run");
    assert!(!own.is_empty() && own == bits("plain"));
    // With fewer timesteps fewer individuals leave 50 generations; another way of searching is another workload.
    let plan = |more: &[&str]| {
        let (plan, exit) = place.json(&[&of("train")[..], &small, &["--dry-run"], more].concat());
        assert_eq!(exit, 0, "{plan}");
        plan
    };
    let few = plan(&["--timesteps", "40000"]);
    assert_eq!((&few["batch"], number(&few, "generations")), (&6.into(), 53), "{few}");
    let notes = few["notes"].to_string();
    assert!(notes.contains("tuned on") && notes.contains("a population of 6 with 4 accounts of 32 steps"), "{notes}");
    let is_tuned = |more: &[&str]| plan(more)["notes"].to_string().contains("tuned on");
    assert!(is_tuned(&[]) && is_tuned(&["--algorithm", "openai", "--rank", "0"]));
    for other in [&["--algorithm", "snes"][..], &["--rank", "1"], &["--try", "evolve.algorithm=openai,snes"]] {
        assert!(!is_tuned(other), "{other:?}");
    }
    let own = ["--algorithm", "snes", "--sigma", "0.2", "--budget", "1s"];
    let (tuned, exit) = place.json(&[&of("tune")[..], &small, &own].concat());
    assert_eq!(exit, 0, "{tuned}");
    assert!(is_tuned(&["--algorithm", "snes"]) && !is_tuned(&["--algorithm", "cem"]) && is_tuned(&[]));
}

#[test]
fn tune_text_explains_its_choice() {
    let place = Place::new();
    market(&place);
    let output = place.run(&[same("tune"), vec!["--budget", "2s", "--set", "train.batch=77"]].concat());
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{said}{}", text(&output.stderr));
    for part in ["gradient noise scale", "time to the same loss", "Chosen", "learning rate", "tuned.json", "77"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    assert_eq!(
        said.lines().skip_while(|l| *l != "Batches").take_while(|l| !l.is_empty()).filter(|l| l.contains('*')).count(),
        1,
        "{said}"
    );
    assert!(!place.path().join("runs").exists() && !place.path().join("home/ledger.sqlite").exists());
}

#[test]
fn tune_refuses_what_train_refuses() {
    let place = Place::new();
    market(&place);
    let wrong: [(&[&str], i32, &str); 6] = [
        (&["tune", "nowhere.csv"], 3, "nowhere"),
        (&["tune", "coin", "--learner", "forest"], 2, "write lstm"),
        (&["tune", "coin", "--net", "fast:3x5-lstm8 / 3"], 2, "net"),
        (&["tune", "coin", "--learner", "mlp", "--features", ROW, "--folds", "5000"], 2, "1000"),
        (&["tune", "coin", "--budget", "soon"], 2, "10m"),
        (
            &[
                "tune",
                "coin",
                "--learner",
                "mlp",
                "--features",
                ROW,
                "--net",
                WIDE,
                "--device",
                "cpu",
                "--memory",
                "64MiB",
            ],
            4,
            "needs",
        ),
    ];
    for (args, expected, part) in wrong {
        let (value, code) = place.json(args);
        assert_eq!((code, &value["schema"]), (expected, &"tune/1".into()), "{args:?}: {value}");
        assert!(value.to_string().contains(part), "{args:?}: {value}");
    }
}
