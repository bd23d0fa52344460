//! `fullbore check lookahead`

use super::{Place, code, text};

/// A walk of 700 days with a column that holds the answer, and one that does not.
fn with_an_answer() -> String {
    let (mut seed, mut price) = (7u64, 100.0f64);
    let mut moves = Vec::new();
    for _ in 0..702 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        moves.push(((seed >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 0.02);
    }
    let mut rows = String::from("time,open,high,low,close,volume,answer,noise\n");
    for day in 0..700 {
        let open = price;
        price *= 1.0 + moves[day];
        let (high, low) = (open.max(price) + 0.1, open.min(price) - 0.1);
        let (time, volume, next, noise) =
            (1_546_300_800 + day * 86_400, 1000 + day * 13 % 997, moves[day + 1], day * 7919 % 1000);
        rows += &format!("{time},{open:.4},{high:.4},{low:.4},{price:.4},{volume},{next:.6},{noise}\n");
    }
    rows
}

#[test]
fn json_of_check() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &with_an_answer());
    let check = |set: &str, expected: i32| {
        let args = ["check", "lookahead", "BTCUSDT.csv", "--features", set, "--labels", "fixed(3)", "--cuts", "8"];
        place.scrubbed(&args, expected)
    };
    insta::assert_snapshot!("json_of_check", check("rsi(14), n = col(noise)", 0));
    insta::assert_snapshot!("json_of_check_with_a_leak", check("rsi(14), a = col(answer)", 1));
}

#[test]
fn check_text_output() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &with_an_answer());
    for (set, expected, part) in
        [("rsi(14)", 0, "Verdict: no leak found"), ("a = col(answer)", 1, "Verdict: leak"), ("rsi(14", 2, "rsi(14")]
    {
        let output = place.run(&["check", "lookahead", "BTCUSDT.csv", "--features", set, "--cuts", "4"]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(code(&output) != 0 || expected == 0, "{said}");
        assert!(said.contains(part), "{said}");
        assert!(expected != 0 || said.contains("standard deviations (1e-3 is allowed)"), "{said}");
    }
    let (value, code) = place.json(&["check", "lookahead", "BTCUSDT.csv", "--labels", "tripel(3)"]);
    assert_eq!((value["schema"].as_str(), code), (Some("check/1"), 2), "{value}");
}

#[test]
fn market_features_are_checked_or_reported() {
    let place = Place::new();
    let synth = ["data", "synth", "--count", "24", "--bars", "300", "--name", "many"];
    let (value, code) = place.json(&synth);
    assert_eq!(code, 0, "{value}");
    let check = |set: &str, more: &[&str]| {
        let args = ["check", "lookahead", "many", "--labels", "none", "--cuts", "4", "--features", set];
        place.json(&[&args[..], more].concat())
    };
    // Eight symbols are a sample, but not for what looks at twenty.
    let (value, code) = check("r = rsi(14), m = market_return(1, 20)", &[]);
    assert_eq!((code, value["symbols"].as_u64()), (0, Some(20)), "{value}");
    let prefix = &value["tests"][0];
    assert_eq!((prefix["test"].as_str(), prefix["columns"].as_u64()), (Some("prefix"), Some(3)), "{value}");
    // A set that looks at nothing else is looked at as well.
    let (value, code) = check("m = market_return(1, 20)", &[]);
    assert_eq!((code, value["tests"][0]["columns"].as_u64()), (0, Some(2)), "{value}");
    // What is left out is named, with its reason.
    let (value, code) = check("r = rsi(14), m = market_return(1, 30)", &[]);
    let notes = value["notes"].to_string();
    assert!(code == 0 && notes.contains("not checked: m: 24 symbols are too few"), "{value}");
    let (value, code) = check("m = market_return(1, 30)", &[]);
    let error = value["error"].to_string();
    assert!(code != 0 && error.contains("24 symbols") && !error.contains("volume"), "{value}");
}
