//! The reference mode beside `mctx` on fixed tables: equal visit counts. The file is written by
//! `oracles/fixtures/search.py`.

use super::card;
use search::cuda::TableSearch;
use search::{Mode, Root, RootRule, Search, Settings, TableEvaluator, TableWorld};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn visit_counts_are_those_of_mctx() {
    let file: Value = serde_json::from_str(include_str!("../fixtures/search_mctx.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    let card = card::card();
    for case in cases {
        let of = |name: &str| numbers(&case["table"][name]);
        let count = |name: &str| case[name].as_u64().unwrap() as usize;
        let table = TableWorld {
            actions: count("actions"),
            codes: count("codes"),
            logits: of("logits"),
            value: of("value"),
            reward: of("reward"),
            discount: of("discount"),
            next: of("next").iter().map(|state| *state as u32).collect(),
            chance_logits: of("chance_logits"),
            afterstate: of("afterstate"),
        };
        let kind = case["kind"].as_str().unwrap();
        let settings = Settings {
            simulations: count("simulations") as u32,
            depth: u32::MAX,
            codes: table.codes,
            rule: if kind == "gumbel" { RootRule::GUMBEL } else { RootRule::PUCT },
            mode: Mode::Reference,
            ..Settings::default()
        };
        table.check().unwrap();
        let states: Vec<u32> = numbers(&case["roots"]).iter().map(|state| *state as u32).collect();
        let roots: Vec<Root<u32>> = states.iter().map(|state| Root { known: *state, counter: 0 }).collect();
        let gumbels = numbers(&case["gumbels"]);
        let mut search = Search::new(&table, &settings, 1, u64::MAX).unwrap();
        let seen = search.run_with(&table, &mut [TableEvaluator(&table)], &roots, &gumbels).unwrap();
        let visits: Vec<u32> = numbers(&case["visits"]).iter().map(|n| *n as u32).collect();
        assert_eq!(seen.visits, visits, "{kind}, {} actions, {} codes", table.actions, table.codes);
        for (own, theirs) in seen.policy.iter().zip(numbers(&case["weights"])) {
            assert!((own - theirs).abs() < 2e-5, "{kind}: {own} beside {theirs}");
        }
        if let Some(context) = &card {
            let mut search = TableSearch::new(context, &table, &settings, states.len()).unwrap();
            let on_card = search.run_with(&states, &gumbels).unwrap();
            assert_eq!(on_card.visits, visits, "{kind} on a card, {} actions, {} codes", table.actions, table.codes);
            card::close(&on_card, &seen, 1e-5);
        }
    }
}
