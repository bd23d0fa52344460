//! The reference mode beside `mctx` on fixed tables: equal visit counts. The file is written by
//! `oracles/fixtures/search.py`.

use compute::Result;
use search::{Chance, Draws, Evaluate, Mode, Root, RootRule, Search, Settings, Step, World};
use serde_json::Value;

struct Table {
    actions: usize,
    codes: usize,
    logits: Vec<f32>,        // [states, A]
    value: Vec<f32>,         // [states]
    reward: Vec<f32>,        // [states, A, K]
    discount: Vec<f32>,      // [states, A, K]
    next: Vec<f32>,          // [states, A, K]
    chance_logits: Vec<f32>, // [K, K] by the code before
    afterstate: Vec<f32>,    // [states, A]
}

/// The market is the code that was drawn; the state is the account.
impl World for Table {
    type Known = usize;
    type Market = usize;
    type Account = usize;

    fn actions(&self) -> usize {
        self.actions
    }

    fn inputs(&self) -> usize {
        1
    }

    fn start(&self, known: &usize) -> (usize, usize) {
        (0, *known)
    }

    fn draw(&self, _: &usize, market: &usize, _: Draws, count: usize, to: &mut Vec<Chance<usize>>) {
        assert_eq!(count, self.codes);
        let own = &self.chance_logits[market * self.codes..(market + 1) * self.codes];
        let sum: f32 = own.iter().map(|z| z.exp()).sum();
        let code = |(market, z): (usize, &f32)| Chance { probability: z.exp() / sum, market };
        to.extend(own.iter().enumerate().map(code));
    }

    fn step(&self, _: &usize, account: &usize, action: usize, _: &usize, next: &usize) -> Step<usize> {
        let at = (account * self.actions + action) * self.codes + next;
        Step { account: self.next[at] as usize, reward: self.reward[at], discount: self.discount[at] }
    }

    fn legal(&self, _: &usize, _: &usize, _: &usize) -> u32 {
        (1 << self.actions) - 1
    }

    fn held(&self, _: &usize) -> usize {
        0
    }

    fn observe(&self, _: &usize, _: &usize, account: &usize, to: &mut [f32]) {
        to[0] = *account as f32;
    }

    fn afterstate(&self, _: &usize, account: &usize, action: usize, _: f32) -> f32 {
        self.afterstate[account * self.actions + action]
    }
}

struct Priors<'a>(&'a Table);

impl Evaluate for Priors<'_> {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        let each = logits.chunks_exact_mut(self.0.actions).zip(values).zip(shown);
        for ((logits, value), state) in each {
            let state = *state as usize;
            logits.copy_from_slice(&self.0.logits[state * self.0.actions..][..self.0.actions]);
            *value = self.0.value[state];
        }
        Ok(())
    }
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn visit_counts_are_those_of_mctx() {
    let file: Value = serde_json::from_str(include_str!("../fixtures/search_mctx.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let of = |name: &str| numbers(&case["table"][name]);
        let count = |name: &str| case[name].as_u64().unwrap() as usize;
        let table = Table {
            actions: count("actions"),
            codes: count("codes"),
            logits: of("logits"),
            value: of("value"),
            reward: of("reward"),
            discount: of("discount"),
            next: of("next"),
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
        let roots: Vec<Root<usize>> =
            numbers(&case["roots"]).iter().map(|state| Root { known: *state as usize, counter: 0 }).collect();
        let gumbels = numbers(&case["gumbels"]);
        let mut search = Search::new(&table, &settings, 1, u64::MAX).unwrap();
        let seen = search.run_with(&table, &mut [Priors(&table)], &roots, &gumbels).unwrap();
        let visits: Vec<u32> = numbers(&case["visits"]).iter().map(|n| *n as u32).collect();
        assert_eq!(seen.visits, visits, "{kind}, {} actions, {} codes", table.actions, table.codes);
        for (own, theirs) in seen.policy.iter().zip(numbers(&case["weights"])) {
            assert!((own - theirs).abs() < 2e-5, "{kind}: {own} beside {theirs}");
        }
    }
}
