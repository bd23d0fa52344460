//! `fullbore probe`

use super::{Place, code, text};
use serde_json::Value;

/// Keeps the names of the fields; what they hold depends on the machine.
fn shape(value: &mut Value) {
    let Value::Object(map) = value else { return *value = "[...]".into() };
    map.iter_mut().filter(|(key, _)| !["schema", "ok"].contains(&key.as_str())).for_each(|(_, value)| shape(value));
}

fn shaped(mut value: Value) -> String {
    shape(&mut value);
    serde_json::to_string_pretty(&value).expect("it was JSON")
}

#[test]
fn json_of_probe_and_the_profile_it_keeps() {
    let place = Place::new();
    let (value, code) = place.json(&["probe"]);
    assert_eq!(code, 0, "{value}");
    for rate in value["cpu_rates"].as_object().expect("rates").values() {
        assert!(rate.as_f64().is_some_and(|r| r > 0.0), "{value}");
    }
    let threads = value["cpu"]["usable_threads"].as_u64().expect("threads");
    assert!(threads >= 1 && value["start"]["threads"].as_u64().is_some_and(|n| n >= 1 && n <= threads), "{value}");
    let file = value["file"].as_str().expect("a file");
    assert!(file.starts_with(&*place.path().join("home").to_string_lossy()), "{file}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(file).expect("kept")).expect("JSON");
    assert_eq!((&kept["key"], &kept["cpu"]), (&value["key"], &value["cpu"]));
    insta::assert_snapshot!(shaped(value));
}

#[test]
fn probe_text_lists_warnings() {
    let place = Place::new();
    let output = place.command(&["probe"]).env("OMP_NUM_THREADS", "1").output().expect("the binary starts");
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{said}{}", text(&output.stderr));
    for part in
        ["cores", "memory", "CUDA", "f32 matrix product", "GFLOP/s", "OMP_NUM_THREADS=1: ", "Tuning begins", "Saved in"]
    {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    // The file's name is one word and may be longer.
    assert!(said.lines().filter(|l| !l.contains(".json")).all(|l| l.chars().count() <= 100), "{said}");
}

#[test]
fn quick_probe_writes_nothing() {
    let place = Place::new();
    let (value, code) = place.json(&["probe", "--quick"]);
    match code {
        0 => {
            let device = value["device"].as_str().expect("a device");
            assert!(device == "cpu" || device == "cuda:0", "{value}");
            insta::assert_snapshot!("json_of_probe_quick", shaped(value));
        }
        4 => assert_eq!(value["error"]["kind"], "machine", "{value}"),
        other => panic!("{other}: {value}"),
    }
    let output = place.run(&["probe", "--quick"]);
    assert_eq!(super::code(&output), code);
    assert_eq!(text(&output.stdout).starts_with("pass"), code == 0);
    assert!(!place.path().join("home").exists());
}

#[test]
fn watch_streams_samples() {
    let place = Place::new();
    let (mut value, code) = place.json(&["probe", "--watch", "2"]);
    assert_eq!((value["samples"].as_array().map(Vec::len), code), (Some(2), 0), "{value}");
    let sample = value["samples"][0].take();
    insta::assert_snapshot!("json_of_probe_watch", format!("{}\n{}", shaped(value), shaped(sample)));
    let output = place.run(&["probe", "--watch", "1"]);
    let said = text(&output.stdout);
    assert!(said.lines().count() >= 2 && said.lines().next().is_some_and(|l| l.contains("busiest")), "{said}");
    assert!(!place.path().join("home").exists());
}

#[test]
fn probe_refuses_flags_without_effect() {
    let place = Place::new();
    for args in [
        &["probe", "--quick", "--watch", "3"][..],
        &["probe", "--watch", "0"],
        &["probe", "--watch", "soon"],
        &["probe", "--threads", "2"],
        &["probe", "GPU"],
    ] {
        let (value, code) = place.json(args);
        assert_eq!((value["schema"].as_str(), code), (Some("probe/1"), 2), "{args:?} {value}");
    }
}
