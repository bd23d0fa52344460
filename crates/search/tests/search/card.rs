//! Searches on a card beside those of the processor. Without a card they skip aloud.

use compute::Net;
use compute::cuda::{Context, gpus};
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::random::philox;
use search::cuda::{LinearSearch, TableSearch};
use search::{
    LinearRow, LinearWorld, Mode, NetEvaluator, Outcomes, Root, RootRule, Search, Settings, TableEvaluator, TableWorld,
};
use std::sync::Arc;

/// A card, or none, aloud.
pub(crate) fn card() -> Option<Arc<Context>> {
    let opened = match gpus() {
        Ok(found) if !found.is_empty() => Context::open(0).map_err(|e| e.to_string()),
        _ => Err("no GPU".into()),
    };
    opened.map_err(|why| skip(&why)).ok()
}

/// As xtask's `test.rs` reads it.
#[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
        None => println!("SKIP: {why}"),
    }
}

/// The same roots, with numbers that differ by no more than `most`.
pub(crate) fn close(own: &Outcomes, other: &Outcomes, most: f32) {
    assert_eq!((own.actions, own.len()), (other.actions, other.len()));
    assert_eq!((&own.chosen, &own.held), (&other.chosen, &other.held));
    let pairs = [(&own.q, &other.q), (&own.policy, &other.policy), (&own.value, &other.value)];
    for (a, b) in pairs.into_iter().flat_map(|(own, other)| own.iter().zip(other)) {
        assert!((a - b).abs() <= most, "{a} beside {b}");
    }
}

/// A number in (-1, 1) for each index.
pub(crate) fn drawn(key: u64, index: u32) -> f32 {
    philox(key, [index, 0, 0, 0])[0] as f32 / 2_147_483_648.0 - 1.0
}

fn table(actions: usize, codes: usize, states: usize) -> TableWorld {
    let numbers = |key: u64, count: usize| (0..count as u32).map(move |i| drawn(key, i));
    let all = states * actions * codes;
    TableWorld {
        actions,
        codes,
        logits: numbers(1, states * actions).collect(),
        value: numbers(2, states).collect(),
        reward: numbers(3, all).collect(),
        discount: numbers(4, all).map(|x| 0.9 + 0.1 * x.abs()).collect(),
        next: numbers(5, all).map(|x| ((x + 1.0) * 0.5 * states as f32) as u32 % states as u32).collect(),
        chance_logits: numbers(6, codes * codes).collect(),
        afterstate: numbers(7, states * actions).collect(),
    }
}

fn reference(rule: RootRule, simulations: u32, depth: u32, codes: usize) -> Settings {
    Settings { simulations, depth, codes, rule, mode: Mode::Reference, ..Settings::default() }
}

#[test]
fn visits_on_tables_are_the_processors() {
    let Some(context) = card() else { return };
    for rule in [RootRule::PUCT, RootRule::GUMBEL] {
        for (actions, codes, simulations, depth, roots) in
            [(1, 1, 3, 8, 1), (3, 1, 32, u32::MAX, 63), (3, 1, 128, 5, 200), (32, 1, 50, 9, 65), (5, 4, 64, 6, 64)]
        {
            let (table, settings) = (table(actions, codes, 500), reference(rule, simulations, depth, codes));
            let states: Vec<u32> = (0..roots).map(|root| root * 7 % 500).collect();
            let all: Vec<Root<u32>> = states.iter().map(|state| Root { known: *state, counter: 0 }).collect();
            let gumbels: Vec<f32> = (0..roots * actions as u32).map(|i| 2.0 * drawn(8, i)).collect();
            let mut own = TableSearch::new(&context, &table, &settings, states.len()).unwrap();
            let on_card = own.run_with(&states, &gumbels).unwrap();
            let mut search = Search::new(&table, &settings, 1, u64::MAX).unwrap();
            let other = search.run_with(&table, &mut [TableEvaluator(&table)], &all, &gumbels).unwrap();
            assert_eq!(on_card.visits, other.visits, "{rule:?}, {actions} actions, {codes} codes");
            close(&on_card, &other, 1e-5);
            assert_eq!(own.run_with(&states, &gumbels).unwrap(), on_card, "a search leaves nothing behind");
        }
    }
}

struct Case {
    net: &'static str,
    actions: usize,
    roots: u32,
    settings: Settings,
}

impl Case {
    fn world(&self) -> LinearWorld {
        LinearWorld { inputs: 40, actions: self.actions, shrink: 0.9, push: 0.2, discount: 0.95 }
    }

    fn net(&self) -> (Net, Vec<f32>) {
        let net: Net = format!("all:40 / {} / policy:{} + value:1", self.net, self.actions).parse().unwrap();
        let params = init(&Layout::new(&net).unwrap(), 3, 0);
        (net, params)
    }

    fn known(&self) -> Vec<Root<LinearRow>> {
        let row = |root: u32| LinearRow::new(&(0..40).map(|i| drawn(9, root * 40 + i)).collect::<Vec<f32>>());
        (0..self.roots).map(|root| Root { known: row(root), counter: u64::from(root) }).collect()
    }

    fn on_card(&self, context: &Arc<Context>) -> Outcomes {
        let (net, params) = self.net();
        let mut own =
            LinearSearch::new(context, &self.world(), &net, &params, &self.settings, self.roots as usize).unwrap();
        let found = own.run(&self.known()).unwrap();
        assert_eq!(own.run(&self.known()).unwrap(), found, "a search leaves nothing behind");
        found
    }

    /// With the weights that a card computes with.
    fn on_processor(&self) -> Outcomes {
        let ((net, params), world) = (self.net(), self.world());
        let params: Vec<f32> = params.into_iter().map(bf16).collect();
        let mut evaluators = NetEvaluator::several(&net, &params, Precision::F32, 2).unwrap();
        let mut search = Search::new(&world, &self.settings, 2, u64::MAX).unwrap();
        search.run(&world, &mut evaluators, &self.known()).unwrap()
    }
}

/// The nearest number of 16 bits.
pub(crate) fn bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// A card rounds activations to bf16 and the processor does not, so that trees differ here and there; what they say is
/// the same.
pub(crate) fn alike(own: &Outcomes, other: &Outcomes, what: &str) {
    let sums = |outcomes: &Outcomes| -> Vec<u32> {
        outcomes.visits.chunks_exact(outcomes.actions).map(|visits| visits.iter().sum()).collect()
    };
    assert_eq!(sums(own), sums(other), "{what}: all simulations are counted");
    let roots = own.len();
    let same = own.chosen.iter().zip(&other.chosen).filter(|(a, b)| a == b).count();
    assert!(same * 10 >= roots * 9, "{what}: {same} of {roots} choose the same");
    let mean = own.value.iter().zip(&other.value).map(|(a, b)| (a - b).abs()).sum::<f32>() / roots as f32;
    let size = other.value.iter().map(|value| value.abs()).sum::<f32>() / roots as f32;
    assert!(mean < 0.02 * size, "{what}: values of {size} are {mean} apart in the mean");
}

#[test]
fn small_nets_search_on_a_card_as_on_the_processor() {
    let Some(context) = card() else { return };
    let (gumbel, puct) = (RootRule::GUMBEL, RootRule::PUCT);
    // Blocks of one root and of 16, 32 and 64 rows; weights inside and outside; trees inside and outside.
    for (net, actions, roots, settings) in [
        ("256-256", 3, 1, reference(gumbel, 32, u32::MAX, 1)),
        ("256-256", 3, 129, reference(gumbel, 32, 4, 1)),
        ("256-256", 3, 1024, reference(puct, 48, u32::MAX, 1)),
        ("64t-40", 2, 3000, reference(gumbel, 16, u32::MAX, 1)),
        ("256-256", 3, 6000, reference(gumbel, 16, u32::MAX, 1)),
        ("32", 3, 600, reference(puct, 700, 12, 1)),
        ("128-96-64", 7, 300, reference(gumbel, 24, u32::MAX, 1)),
    ] {
        let case = Case { net, actions, roots, settings };
        alike(&case.on_card(&context), &case.on_processor(), &format!("{net}, {actions} actions, {roots} roots"));
    }
}

#[test]
fn wide_nets_search_on_a_card_as_on_the_processor() {
    let Some(context) = card() else { return };
    for (net, actions, roots, rule) in
        [("512-300", 3, 100, RootRule::GUMBEL), ("512-300", 3, 1, RootRule::PUCT), ("320", 6, 700, RootRule::GUMBEL)]
    {
        let case = Case { net, actions, roots, settings: reference(rule, 24, 6, 1) };
        alike(&case.on_card(&context), &case.on_processor(), &format!("{net}, {actions} actions, {roots} roots"));
    }
}

#[test]
fn what_a_card_cannot_search_is_refused() {
    let Some(context) = card() else { return };
    let case = Case { net: "32", actions: 3, roots: 4, settings: Settings::default() };
    let (net, params) = case.net();
    let refused = |settings: &Settings, world: &LinearWorld| {
        LinearSearch::new(&context, world, &net, &params, settings, 4).err().unwrap().to_string()
    };
    let good = reference(RootRule::PUCT, 8, 8, 1);
    assert!(refused(&Settings::default(), &case.world()).contains("honest"));
    assert!(refused(&Settings { codes: 2, ..good.clone() }, &case.world()).contains("2 codes"));
    assert!(refused(&Settings { simulations: 70_000, ..good.clone() }, &case.world()).contains("70000"));
    assert!(refused(&good, &LinearWorld { inputs: 41, ..case.world() }).contains("41"));
    let mut search = LinearSearch::new(&context, &case.world(), &net, &params, &good, 4).unwrap();
    assert!(search.run(&case.known()[..3]).is_err());
    assert_eq!(search.run(&case.known()).unwrap().len(), 4);
}
