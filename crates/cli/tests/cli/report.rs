//! The report of a run: written by `train`, made again from the folder alone, and sensible for every kind of run.

use super::train::{ROW, market, small};
use super::{Place, code, text};
use serde_json::{Value, json};

fn read(place: &Place, path: &str) -> String {
    std::fs::read_to_string(place.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Makes the report again and gives the page, the answer, and what the verb said.
fn report(place: &Place, run: &str) -> (String, String) {
    let (made, exit) = place.json(&["report", run]);
    assert_eq!((exit, &made["schema"]), (0, &json!("report/1")), "{made}");
    let page = std::fs::read_to_string(place.path().join(made["page"].as_str().unwrap())).unwrap();
    // Nothing but numbers is drawn, nothing is asked of the network, and no name is left in brackets.
    for wrong in ["NaN", "http:", "https:", "src=", "undefined"] {
        let within = page.split("<script").next().unwrap();
        assert!(!within.contains(wrong), "{wrong}");
    }
    assert!(page.contains("default-src 'none'") && page.len() < 2_000_000, "{} bytes", page.len());
    (page, made["verdict"].as_str().unwrap().to_string())
}

/// Changes `result.json`.
fn edit(place: &Place, run: &str, change: impl Fn(&mut Value)) {
    let path = format!("{run}/result.json");
    let mut result: Value = serde_json::from_str(&read(place, &path)).unwrap();
    change(&mut result);
    place.write(&path, &result.to_string());
}

fn headings(page: &str) -> Vec<&str> {
    page.split("<h2>").skip(1).map(|part| part.split("</h2>").next().unwrap()).collect()
}

#[test]
fn a_run_has_a_page_whatever_it_left_behind() {
    let place = Place::new();
    market(&place, true, "6000");
    let set = format!("p = col(plant), {ROW}");
    let mut args = small(&set, "runs/planted", "3");
    let folds = args.iter().position(|arg| *arg == "2").unwrap();
    args[folds] = "5";
    let (run, exit) = place.json(&args);
    assert_eq!((exit, &run["report"]), (0, &json!("runs/planted/report.html")), "{run}");
    let first = read(&place, "runs/planted/report.html");
    let all = ["Verdict", "Returns", "Trades", "Breakdown", "Predictions", "Training", "Machine", "Notes"];
    assert_eq!(headings(&first), all);
    // The verdict that `train` printed is the first thing on the page, with the trials it counts.
    let verdict = run["evidence"]["verdict"].as_str().unwrap().replace('-', " ");
    let shown = first.split("class=\"verdict").nth(1).unwrap();
    assert!(shown.split("</div>").next().unwrap().to_lowercase().contains(&verdict), "{verdict}");
    assert!(first.contains("What evidence takes") && first.contains("after 1 trial"));
    // By its name, from the folder alone, to the same bytes.
    std::fs::remove_file(place.path().join("runs/planted/report.html")).unwrap();
    assert_eq!(report(&place, "planted").0, first);
    for part in ["Equity over all test blocks", "before costs", "buy and hold", "fold 5", "Net return by month"] {
        assert!(first.contains(part), "{part}");
    }
    for part in ["price and trades", "\"trades\":", "Precision and recall", "Reliability", "one bar late"] {
        assert!(first.contains(part), "{part}");
    }
    let data: Value = serde_json::from_str(&read(&place, "runs/planted/report.json")).unwrap();
    let daily = &data["daily"];
    let days = daily["day"].as_array().unwrap().len();
    for series in ["net", "gross", "hold", "drawdown", "long", "short", "rolling_sharpe"] {
        assert_eq!(daily[series].as_array().unwrap().len(), days, "{series}");
    }
    let last = |series: &str| daily[series][days - 1].as_f64().unwrap();
    let close = |a: f64, b: &Value| (a - 1.0 - b.as_f64().unwrap()).abs() < 1e-9;
    assert!(close(last("net"), &run["backtest"]["net"]["total_return"]), "{}", last("net"));
    assert!(close(last("gross"), &run["backtest"]["gross_return"]), "{}", last("gross"));
    assert!(close(last("hold"), &run["backtest"]["hold_return"]), "{}", last("hold"));
    assert_eq!(data["result"]["judged"], run["judged"]);
    assert!(data["curves"].as_array().is_some_and(|curves| curves.len() == 10), "{}", data["curves"]);

    // Of an earlier version: no prices, no reliability table.
    std::fs::remove_file(place.path().join("runs/planted/backtest/prices.parquet")).unwrap();
    edit(&place, "runs/planted", |result| {
        drop(result["judged"].as_object_mut().unwrap().shift_remove("reliability"));
        drop(result.as_object_mut().unwrap().shift_remove("evidence"));
    });
    let (page, verdict) = report(&place, "planted");
    // Twenty days are too few for a verdict, by whichever version.
    assert_eq!(verdict, "Not enough data");
    assert!(!page.contains("price and trades") && !page.contains("Reliability") && headings(&page) == all);
    // Without prices at all, as ready arrays are: no money, and rows instead of times.
    std::fs::remove_dir_all(place.path().join("runs/planted/backtest")).unwrap();
    edit(&place, "runs/planted", |result| {
        (result["backtest"], result["label"], result["instruments"]) = (Value::Null, Value::Null, Value::Null);
        for fold in result["folds"].as_array_mut().unwrap() {
            let times = fold.as_object_mut().unwrap().iter_mut();
            times.filter(|(name, _)| name.contains('_')).for_each(|(_, time)| *time = json!("1234"));
        }
    });
    let (page, _) = report(&place, "planted");
    assert_eq!(headings(&page), ["Verdict", "Predictions", "Training", "Machine", "Notes"]);
    // Cut before its end: the learning curves, and how to go on.
    std::fs::remove_file(place.path().join("runs/planted/result.json")).unwrap();
    let file = "runs/planted/run.json";
    place.write(file, &read(&place, file).replace("\"state\": \"finished\"", "\"state\": \"interrupted\""));
    let (page, verdict) = report(&place, "planted");
    assert_eq!((verdict.as_str(), headings(&page)), ("Not finished", vec!["Verdict", "Training", "Notes"]));
    assert!(page.contains("fullbore runs resume") && page.contains("Loss after each epoch"));
    // No run at all.
    std::fs::create_dir(place.path().join("runs/nothing")).unwrap();
    let wrong = place.run(&["report", "runs/nothing"]);
    assert!(code(&wrong) == 3 && text(&wrong.stderr).contains("there is no run"), "{}", text(&wrong.stderr));
}

#[test]
fn a_run_that_never_trades_says_so() {
    let place = Place::new();
    market(&place, false, "4000");
    let mut args = small(ROW, "run", "2");
    args.extend(["--set", "instrument.SYN001USDT.spread_bp=500"]);
    let (run, exit) = place.json(&args);
    assert_eq!((exit, &run["backtest"]["costs"]["traded"]), (0, &json!(0.0)), "{run}");
    let (page, _) = report(&place, "run");
    assert!(page.contains("Nothing was traded.") && page.contains("Equity over all test blocks"));
    assert_eq!(headings(&page), ["Verdict", "Trades", "Predictions", "Training", "Machine", "Notes"]);
}
