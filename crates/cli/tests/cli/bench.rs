//! `fullbore bench net`

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
