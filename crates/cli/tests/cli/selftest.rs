//! The null and power tests (docs/method.md, Leak tests) as a user meets them: what was planted is found, and markets
//! with nothing in them give nothing.

use super::{Place, code, text};
use serde_json::Value;

/// Runs the test and holds every case to the bound that docs/method.md names, whatever the program itself says of it.
fn check(place: &Place, args: &[&str]) {
    let args = [&["check", "selftest", "--device", "cpu", "--threads", "2"], args].concat();
    let (tested, exit) = place.json(&args);
    assert_eq!(
        (exit, &tested["schema"], &tested["passed"]),
        (0, &Value::from("selftest/1"), &Value::from(true)),
        "{tested}"
    );
    let cases = tested["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["planted", "late", "labels", "walk", "flips"]);
    let checks: Vec<(&str, bool)> = tested["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["passed"] == true))
        .collect();
    assert_eq!(checks, [("costs", true), ("poison", true)], "{tested}");
    for case in cases {
        let number = |field: &str| case[field].as_f64().unwrap();
        let (mcc, n) = (number("directional_mcc"), number("independent"));
        assert!(n > 1000.0 && n <= number("samples") + 1e-6, "{case}");
        match case["name"].as_str() {
            // L5: nine tenths of 0.60; and no more than there is.
            Some("planted") => assert!(mcc >= 0.54 && mcc < 0.6 + 3.0 / n.sqrt(), "{case}"),
            Some("labels") => assert!(mcc.abs() < 3.0 / n.sqrt() && number("mcc").abs() < 3.0 / n.sqrt(), "{case}"),
            _ => assert!(mcc.abs() < 3.0 / n.sqrt(), "{case}"),
        }
    }
}

#[test]
fn mlp_finds_the_planted_signal_and_no_other() {
    check(&Place::new(), &["--learner", "mlp"]);
}

#[test]
fn lstm_finds_the_planted_signal_and_no_other() {
    check(&Place::new(), &["--learner", "lstm", "--seed", "3"]);
}

#[test]
fn selftest_works_on_user_data() {
    let place = Place::new();
    // The signal of the data themselves is gone from what is made of them.
    let synth = ["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "2", "--bars", "5000", "--plant"];
    let (value, exit) = place.json(&[&synth[..], &["--name", "coins"]].concat());
    assert_eq!(exit, 0, "{value}");
    let set = "p = col(plant), r = log_return(1), v = volatility(20)";
    let args = ["coins", "--learner", "mlp", "--features", set, "--labels", "fixed(2)", "--set", "label.cost_bp=0"];
    let (tested, exit) = place.json(&[&["check", "selftest", "--device", "cpu"], &args[..]].concat());
    // Labels of two bars overlap: there are fewer independent ones than samples.
    let walk = &tested["cases"][3];
    assert!(walk["independent"].as_f64().unwrap() < 0.8 * walk["samples"].as_f64().unwrap(), "{tested}");
    assert_eq!((exit, &tested["passed"]), (0, &true.into()), "{tested}");
}

#[test]
fn selftest_reports_a_learner_that_does_not_learn() {
    let place = Place::new();
    let args = [
        "check",
        "selftest",
        "--learner",
        "mlp",
        "--device",
        "cpu",
        "--set",
        "train.rate=0.000000001",
        "--set",
        "train.epochs=1",
    ];
    let output = place.run(&args);
    assert_eq!(code(&output), 1, "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("do not trust"), "{}", text(&output.stdout));
}
