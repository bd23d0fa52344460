//! `fullbore bench net` and `fullbore bench search`

use super::{Place, code, text};

/// A small net on the processor, quickly.
const QUICK: [&str; 8] = ["bench", "net", "8-16-3", "--batch", "16,64", "--device", "cpu", "--seconds=0.01"];

#[test]
fn json_of_bench_net() {
    let (value, code) = Place::new().json(&[&QUICK[..], &["--members", "3", "--threads", "1"]].concat());
    assert_eq!(code, 0, "{value}");
    assert_eq!((&value["net"], &value["members"]), (&"8-16-3".into(), &3.into()), "{value}");
    assert_eq!(value["parameters"], 8 * 16 + 16 + 16 * 3 + 3);
    assert_eq!(value["precision"], "f32");
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|r| r["batch"].as_u64().expect("a number")).collect::<Vec<_>>(), [16, 64]);
    for cell in rows.iter().flat_map(|r| [&r["train"], &r["infer"]]) {
        for field in ["samples_per_s", "ms_per_step", "tflops", "share_of_limit", "memory_bytes"] {
            assert!(cell[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {cell}");
        }
    }
    assert!([16, 64].contains(&value["best_train_batch"].as_u64().expect("a batch")), "{value}");
}

#[test]
fn bench_net_marks_the_fastest_and_reports_what_does_not_fit() {
    let place = Place::new();
    let output = place.run(&QUICK);
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("* ").count(), 3, "one in training, one in inference, one in the legend:\n{said}");
    let large =
        ["bench", "net", "8-4096-4096-3", "--batch", "16", "--device", "cpu", "--seconds=0.01", "--memory=64MiB"];
    let (value, code) = place.json(&large);
    assert_eq!(code, 0, "{value}");
    let why = value["rows"][0]["refused"].as_str().expect("a reason");
    assert!(why.contains("the budget is") && value["rows"][0]["train"].is_null(), "{why}");
}

#[test]
fn bench_net_refuses_invalid_arguments() {
    let place = Place::new();
    let check = |args: &[&str], wanted: u8, part: &str| {
        let (value, code) = place.json(&[&["bench", "net"], args].concat());
        assert_eq!(code, i32::from(wanted), "{value}");
        assert!(value["error"]["message"].as_str().is_some_and(|m| m.contains(part)), "{part}: {value}");
    };
    check(&["8-x-3"], 2, "column");
    check(&["8-9999-3"], 2, "4,096");
    check(&["--device", "tpu"], 2, "`tpu` is not a device");
    check(&["--device", "cpu", "--precision", "f16"], 2, "f16");
    check(&["--device", "cpu", "--seconds", "0"], 2, "not a usable time");
    check(&["--device", "cpu", "--tune"], 2, "--tune");
    // Either there is no such card, or there is no driver at all.
    check(&["--device", "cuda:99"], 4, "");
}

/// A small search on the processor, quickly.
const SEARCH: [&str; 13] = [
    "bench",
    "search",
    "--net",
    "8t",
    "--roots",
    "16,32",
    "--simulations",
    "4",
    "--device",
    "cpu",
    "--seconds=0.001",
    "--threads",
    "2",
];

#[test]
fn json_of_bench_search() {
    let (mut value, code) = Place::new().json(&SEARCH);
    assert_eq!(code, 0, "{value}");
    // What a clock or this machine's memory says differs from run to run; its unit is in the name.
    for row in value["rows"].as_array_mut().expect("rows") {
        for field in [
            "simulations_per_s",
            "roots_per_s",
            "search_ms",
            "leaves_per_s",
            "inference_rows_per_s",
            "share_of_inference",
        ] {
            assert!(row[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {row}");
            row[field] = "[measured]".into();
        }
        assert!(row["searches"].as_u64().is_some_and(|n| n >= 1), "{row}");
        row["searches"] = "[count]".into();
    }
    for field in ["device", "budget_bytes"] {
        value[field] = "[this machine]".into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).expect("text"));
}

#[test]
fn bench_search_shows_a_table_and_what_does_not_fit() {
    let place = Place::new();
    let output = place.run(&SEARCH);
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{said}{}", text(&output.stderr));
    for part in ["Honest: 64 scenarios", "Reference: one leaf", "net alone", "of the net", "memory budget"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    let large = ["bench", "search", "--net", "8t", "--mcts-batch-size", "16", "--simulations", "4,20000"];
    let more = ["--device", "cpu", "--seconds=0.001", "--mode", "honest", "--memory", "64MiB"];
    let (value, code) = place.json(&[&large[..], &more].concat());
    assert_eq!((code, &value["schema"]), (0, &"bench_search/1".into()), "{value}");
    let [small, large] = [&value["rows"][0], &value["rows"][1]];
    assert!(small["refused"].is_null() && small["simulations_per_s"].is_number(), "{small}");
    let why = large["refused"].as_str().expect("a reason");
    assert!(why.contains("the memory budget is 64.0 MiB") && large["search_ms"].is_null(), "{large}");
    for (args, exit, part) in [
        (&["--mode", "quick"][..], 2, "--mode"),
        (&["--net", "8-x"], 2, "column"),
        (&["--net", "lstm64"], 2, "`lstm64` has a memory"),
        (&["--roots", "0"], 2, "0"),
        (&["--seconds", "0"], 2, "not a usable time"),
        (&["--device", "cuda:99"], 4, ""),
    ] {
        let (value, code) = place.json(&[&["bench", "search"], args].concat());
        assert_eq!((code, &value["schema"]), (exit, &"bench_search/1".into()), "{value}");
        assert!(value["error"]["message"].as_str().is_some_and(|m| m.contains(part)), "{part}: {value}");
    }
    // The remedies name what the help does.
    let remedy = |args: &[&str]| place.json(&[&["bench", "search"], args].concat()).0["error"]["remedy"].clone();
    assert_eq!(remedy(&["--seconds", "0"]), "0.3 is the default, 3600 the maximum");
    assert_eq!(remedy(&["--net", "lstm64"]), "give layers without memory, as in --net 64t-64t");
}
