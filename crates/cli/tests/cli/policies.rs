//! What tests of policies share: planted markets, small trainings, and what every learner of policies owes.

use super::Place;
use serde_json::Value;

/// Makes a market of hours whose column `plant` tells the next bar as often as is said; gives the best growth a bar.
pub(crate) fn market(place: &Place, name: &str, count: &str, bars: &str, accuracy: &str) -> f64 {
    let synth =
        ["data", "synth", "--plant", "--kind", "crypto", "--timeframe", "1h", "--stay", "0.9", "--cost-bp", "1"];
    let more = ["--count", count, "--bars", bars, "--accuracy", accuracy, "--name", name];
    let (made, exit) = place.json(&[&synth[..], &more].concat());
    assert_eq!(exit, 0, "{made}");
    number(&made["planted"]["log_growth_bp"])
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Growth of a bar in basis points of a line of a backtest.
pub(crate) fn growth(line: &Value, record: &Value) -> f64 {
    1e4 * (1.0 + number(&line["total_return"])).ln() / number(&record["steps"])
}

/// Two trainings that are one.
pub(crate) fn same_run(run: &Value, again: &Value) {
    for field in ["judged", "members", "backtest"] {
        assert_eq!(run[field], again[field], "{field}");
    }
}

/// What was earned is no evidence of anything.
pub(crate) fn claims_nothing(run: &Value) {
    let net = &run["backtest"]["net"];
    let low = net["sharpe_annual"].as_f64().zip(net["sharpe_annual_error"].as_f64());
    assert!(low.is_none_or(|(sharpe, error)| sharpe - 1.96 * error <= 0.0), "{net}");
}

/// A model decides the same when its account walks bar by bar.
pub(crate) fn has_parity(place: &Place, run: &str) -> Value {
    let (parity, exit) = place.json(&["check", "parity", run]);
    assert_eq!((exit, &parity["equal"]), (0, &true.into()), "{parity}");
    parity
}

/// The model of a run earns what the run did.
pub(crate) fn earns_again(place: &Place, run: &str, record: &Value) {
    let (tested, exit) = place.json(&["backtest", run, "--out", "tested"]);
    assert_eq!((exit, &tested["backtest"]["net"]), (0, &record["net"]), "{tested}");
}

/// A learner of policies, and what keeps its trainings small.
pub(crate) struct Policies {
    pub(crate) learner: &'static str,
    pub(crate) small: &'static [&'static str],
}

impl Policies {
    fn args<'a>(&self, data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["train", data, "--learner", self.learner, "--device", "cpu"], more].concat()
    }

    pub(crate) fn small<'a>(&self, data: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let row = ["--features", "p = col(plant), log_return(1), volatility(20)", "--out", out];
        self.args(data, &[&row[..], self.small, more].concat())
    }

    /// A small training.
    pub(crate) fn train(&self, place: &Place, data: &str, out: &str, more: &[&str]) -> Value {
        let (run, exit) = place.json(&self.small(data, out, more));
        assert_eq!((exit, &run["learner"]), (0, &self.learner.into()), "{more:?}: {run}");
        run
    }

    /// The same, killed just before its model is written, goes on to the same one.
    pub(crate) fn goes_on(&self, place: &Place, data: &str, more: &[&str], (out, run): (&str, &Value)) {
        place.abort(&self.small(data, "cut", more), "model.json");
        let (resumed, exit) = place.json(&["runs", "resume", "cut"]);
        assert_eq!((exit, &resumed["members"]), (0, &run["members"]), "{resumed}");
        place.same_files(&format!("{out}/model/model.json"), "cut/model/model.json");
    }

    /// What would be trained on `planted`.
    pub(crate) fn plan(&self, place: &Place, more: &[&str]) -> Value {
        let (plan, exit) = place.json(&[&self.args("planted", more)[..], &["--dry-run"]].concat());
        assert_eq!(exit, 0, "{more:?}: {plan}");
        plan
    }

    /// That flags are no usage of this learner, and that the error says why.
    pub(crate) fn refuses(&self, place: &Place, cases: &[(&[&str], &str)]) {
        for (more, wanted) in cases {
            let (refused, exit) = place.json(&[&self.args("planted", more)[..], &["--out", "x"]].concat());
            let error = refused.to_string();
            assert!(exit == 2 && error.contains(wanted), "{} {more:?}: {exit} {error}", self.learner);
        }
    }
}

/// That learners refuse flags which are not theirs, naming the section.
pub(crate) fn others_refuse(place: &Place, learners: &[&'static str], more: &[&str], wanted: &str) {
    learners.iter().for_each(|learner| Policies { learner, small: &[] }.refuses(place, &[(more, wanted)]));
}
