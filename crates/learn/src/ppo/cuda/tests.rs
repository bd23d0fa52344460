//! What a card did in an update, done again on the host from what was seen.

use super::super::advantage::advantages;
use super::super::collect::Block;
use super::super::memory::state_of;
use super::super::training::{Group, Member, PpoTraining};
use super::super::{
    Actions, Clip, Ended, EntropyBand, Hypers, LossSums, Ppo, Reward, Spec, Taken, Terms, policy_loss, value_loss,
};
use super::arrays::Arrays;
use super::{Cuda, Path};
use crate::{Config, DeviceBudget, Learner, MemberKey, Problem, Training};
use account::{Bar, Params};
use compute::nets::{Forward, OnCard, Rows, Stepper};
use compute::population::{Pins, Precision, Recipe};
use compute::random::Permutation;
use compute::{Budget, Choice, Net, Opened};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use market::{EpisodeData, OBSERVED, PriceTable, RowTime};
use std::ops::Range;
use std::sync::Arc;

const BARS: usize = 900;
pub(crate) const FEATURES: usize = 11;

/// Two symbols whose bars wander, with splits, dividends, wild swings and closed bars between; columns of noise.
pub(crate) fn market(seed: u64) -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let mut random = random::SplitMix::new(seed);
    let (mut bars, mut values, mut price) = (Vec::new(), Vec::new(), 100.0f64);
    for t in 0..BARS {
        let open = price * (1.0 + 0.01 * (random.unit() - 0.5));
        let swing = if random.unit() < 0.01 { 0.6 } else { 0.02 };
        price = open * (1.0 + swing * (random.unit() - 0.5));
        let (high, low) = (open.max(price) * 1.001, open.min(price) * 0.999);
        let odd = t % 37 == 0;
        bars.push(Bar {
            open,
            high,
            low,
            close: price,
            sigma: 0.01,
            volume: 1e6,
            half_spread: 1e-4,
            tradable: if t % 53 == 7 { 0.0 } else { 1.0 },
            split: if t % 211 == 5 { 2.0 } else { 1.0 },
            dividend: if odd { 0.1 } else { 0.0 },
            borrow_open: if odd { 0.003 } else { 0.0 },
            flat_next: if t % 97 == 11 { 1.0 } else { 0.0 },
            ..Bar::flat(price)
        });
        values.extend((0..FEATURES).map(|_| random.unit() as f32 - 0.5));
        values.push(0.0);
    }
    let rules = Params { fee: 5e-4, impact: 0.1, borrow: 0.02, leverage: 2.0, ..Params::default() };
    let table = PriceTable {
        offsets: vec![0, BARS / 2, BARS],
        params: vec![rules, Params { shortable: false, ..rules }],
        bars,
        currency: "USD".into(),
        risk_free: 0.0,
        notes: Vec::new(),
    };
    let times = (0..BARS).map(|t| RowTime { time_of_day: (t % 24) as f32 / 24.0, bars_to_close: (t % 7) as f32 });
    let data = Arc::new(EpisodeData::new(table, times.collect()));
    let columns = (0..FEATURES).map(|c| format!("c{c}")).collect();
    let input = crate::Input { name: "row".into(), columns, stride: 12, values, map: None, window: 0 };
    // Rows of both symbols, with a hole between them.
    let rows: Vec<u32> = (0..BARS as u32 - 1).filter(|row| *row != BARS as u32 / 2 - 1).collect();
    let n = rows.len();
    let samples = Samples {
        rows,
        t0: (0..n as i64).collect(),
        t1: (1..=n as i64).collect(),
        class: Vec::new(),
        weight: vec![1.0; n],
    };
    let span = |from: u32, to: u32| Span::new(i64::from(from), i64::from(to)).unwrap();
    let [a, b, c] = [600u32, 750, n as u32];
    let spans = FoldSpans { train: span(0, a), valid: span(a + 1, b), test: span(b + 1, c) };
    let [train, valid, test] = [0..a, a + 1..b, b + 1..c].map(|list| list.collect::<Vec<u32>>());
    let fold = Fold { number: 0, kind: FoldKind::Forward, train, valid, test, spans, purged: 2, embargoed: 0 };
    let problem = Problem { inputs: vec![input], ids: BARS, classes: 0, samples, ..Problem::default() };
    (Arc::new(problem), data, vec![fold])
}

pub(crate) fn ppo((actions, precision, layers, reward): Case, n_envs: u32, batch: usize) -> Ppo {
    let (problem, data, folds) = market(9);
    let mut recipe = Recipe::new(batch, precision, 7);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, Some(0.5));
    let outputs = actions.outputs();
    // Heads of one trunk are added, those of towers lie beside each other.
    let between = if layers.contains('|') { '|' } else { '+' };
    let net = format!("row:{FEATURES} + account:dense8 / {layers} / policy:{outputs} {between} value:1");
    let net = net.parse().unwrap();
    let entropy = match actions {
        Actions::Discrete => EntropyBand { least: 0.2, most: 0.8 },
        Actions::Continuous => EntropyBand { least: -1.5, most: 0.5 },
    };
    let hypers = Hypers {
        n_envs,
        n_steps: 24,
        n_epochs: 2,
        gamma: 0.97,
        gae_lambda: 0.9,
        clip: Clip { policy: 0.2, value: Some(0.3) },
        normalize_advantage: true,
        vf_coef: 0.5,
        target_kl: None,
        entropy,
        episode: 10,
        actions,
        reward,
    };
    // Outputs of wide nets run away at the rate of small ones, and with them what rounding does to a density.
    let rate = if layers.contains("512") { 3e-4 } else { 3e-3 };
    let configs = vec![Config { net, recipe, rate }];
    Ppo::new(
        &problem,
        &data,
        &folds,
        Spec { configs, hypers: vec![hypers], units: vec![4], stop_after: None, patience: 4, seeds: 3 },
    )
    .unwrap()
}

pub(crate) fn card() -> Option<DeviceBudget> {
    match compute::cuda::gpus() {
        Ok(found) if !found.is_empty() => {
            Some(DeviceBudget { device: Opened::new(Choice::Cuda(0), 1).unwrap().0, budget: Budget::default() })
        }
        _ => {
            skip("no GPU");
            None
        }
    }
}

/// As xtask's `test.rs` reads it.
#[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
pub(crate) fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
        None => println!("SKIP: {why}"),
    }
}

pub(crate) type Case = (Actions, Precision, &'static str, Reward);

pub(super) const CASES: [Case; 10] = [
    (Actions::Discrete, Precision::F32, "16t-16t | 16t-16t", Reward::Growth),
    (Actions::Continuous, Precision::F32, "16t-16t", Reward::Drawdown(0.5)),
    (Actions::Discrete, Precision::Bf16, "16t-16t | 16t-16t", Reward::Sharpe),
    (Actions::Continuous, Precision::Bf16, "64-40t | 24t", Reward::Growth),
    (Actions::Discrete, Precision::Bf16, "300-16 | 16t", Reward::Drawdown(2.0)),
    (Actions::Discrete, Precision::Bf16, "64t-64t | 64t-64t", Reward::Growth),
    (Actions::Continuous, Precision::Bf16, "64-64t | 64t-64", Reward::Growth),
    (Actions::Discrete, Precision::Bf16, "1024-600t-520 | 16t", Reward::Growth),
    (Actions::Continuous, Precision::Bf16, "2048-1024-512 | 2048-1024-512", Reward::Sharpe),
    (Actions::Discrete, Precision::Bf16, "2048t-1024t-512t | 16t", Reward::Drawdown(1.0)),
];

/// Those whose towers have two layers of 64.
pub(crate) const HOPPER_CASES: [Case; 2] = [CASES[5], CASES[6]];

/// Members in the middle of their training, with what the card has of them.
pub(super) fn begun(case: Case, at: &DeviceBudget, updates: u32) -> PpoTraining {
    begun_with(case, at, updates, 0..3)
}

/// The same of some seeds alone.
fn begun_with(case: Case, at: &DeviceBudget, updates: u32, seeds: Range<u32>) -> PpoTraining {
    begun_as(&ppo(case, 37, 300), at, updates, seeds)
}

/// The same with so many accounts that sixteen members have large minibatches.
pub(super) fn begun_large(case: Case, at: &DeviceBudget, updates: u32, seeds: Range<u32>) -> PpoTraining {
    begun_as(&ppo(case, 512, 8192), at, updates, seeds)
}

fn begun_as(ppo: &Ppo, at: &DeviceBudget, updates: u32, seeds: Range<u32>) -> PpoTraining {
    let tables = ppo.problem().tables(&at.device, at.budget).unwrap();
    let keys: Vec<MemberKey> = seeds.map(|seed| MemberKey { config: 0, fold: 0, seed }).collect();
    let mut training = PpoTraining::new(ppo, at, &tables, &keys, &Pins::default()).unwrap();
    for _ in 0..updates {
        training.update().unwrap();
    }
    training
}

/// Accounts, rewards, observations and endings of a rollout are those of the host's environment, to the bit; advantages
/// are those of the definition; probabilities of actions are those of the net.
#[test]
fn a_rollout_is_that_of_the_host() {
    let Some(at) = card() else { return };
    for case in CASES {
        for updates in 1..4 {
            let mut training = begun(case, &at, updates - 1);
            let before: Vec<Vec<f32>> = (0..3).map(|p| training.nets().params(p).unwrap()).collect();
            let states: Vec<Vec<f64>> = (0..3).map(|p| training.cuda().state(p).unwrap()).collect();
            training.update().unwrap();
            let (group, members, cuda) = training.parts();
            replay(case, group, members, cuda, &before, &states);
        }
    }
}

/// The same of a group whose episodes are longer than those of the first config: they begin where its own length
/// allows.
#[test]
fn a_rollout_goes_by_the_episodes_of_its_group() {
    let Some(at) = card() else { return };
    let mut ppo = ppo(CASES[0], 37, 300);
    let spec = &mut ppo.spec;
    spec.configs.push(spec.configs[0].clone());
    spec.hypers.push(Hypers { episode: 15, ..spec.hypers[0] });
    spec.units.push(spec.units[0]);
    let tables = ppo.problem().tables(&at.device, at.budget).unwrap();
    let keys: Vec<MemberKey> = (0..3).map(|seed| MemberKey { config: 1, fold: 0, seed }).collect();
    let mut training = PpoTraining::new(&ppo, &at, &tables, &keys, &Pins::default()).unwrap();
    let before: Vec<Vec<f32>> = (0..3).map(|p| training.nets().params(p).unwrap()).collect();
    let states: Vec<Vec<f64>> = (0..3).map(|p| training.cuda().state(p).unwrap()).collect();
    training.update().unwrap();
    let (group, members, cuda) = training.parts();
    replay(CASES[0], group, members, cuda, &before, &states);
}

fn replay(case: Case, group: &Group, members: &[Member], cuda: &Cuda, before: &[Vec<f32>], states: &[Vec<f64>]) {
    let (Arrays { seen, .. }, stream) = (&cuda.arrays, &cuda.stream);
    let Hypers { n_envs, n_steps, actions, gamma, gae_lambda, .. } = group.shape;
    let (n, t) = (n_envs as usize, n_steps as usize);
    let (rows, observed) = (seen.rows.get(stream).unwrap(), seen.observed.get(stream).unwrap());
    let (legal, ended) = (seen.legal.get(stream).unwrap(), seen.ended.get(stream).unwrap());
    let (action, log) = (seen.action.get(stream).unwrap(), seen.log_probability.get(stream).unwrap());
    let (value, reward) = (seen.value.get(stream).unwrap(), seen.reward.get(stream).unwrap());
    let advantage = seen.advantage.get(stream).unwrap();
    let later_value = seen.later_value.get(stream).unwrap();
    let later = seen.later as usize;
    let cpu = Opened::new(Choice::Cpu, 1).unwrap().0;
    let tables = Problem::clone(group.ppo.problem()).tables(&cpu, Budget::default()).unwrap();
    let (mut worst, mut flips) = (0.0f32, 0);
    for (p, member) in members.iter().enumerate() {
        // One block of all accounts, from where they stood.
        let state = state_of(&group.net);
        let mut block = Block::new(
            &group.ppo.folds.data,
            &group.ppo.folds.train[0],
            0..n_envs,
            &member.hypers,
            group.episode_seed(member),
            state,
        );
        assert!(block.restore(&in_one_block(&states[p], n, state)));
        let wide = actions.outputs() + 1;
        let mut pass = HostPass::new(&group.net, case.1, &before[p]);
        let apart = |a: f32, b: f32| (a - b).abs() / a.abs().max(1.0);
        let (mut cuts, mut kept) = (vec![0usize; n], vec![0.0f32; t * n]);
        let mut endings = vec![Ended::Not; t * n];
        for step in 0..t {
            let from = (p * t + step) * n;
            let view = block.environment.view();
            assert_eq!(&rows[from..from + n], view.rows, "{case:?}: rows of step {step}");
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            let own = &observed[from * OBSERVED..(from + n) * OBSERVED];
            assert_eq!(bits(own), bits(view.observed), "{case:?}: what is shown at step {step}");
            let mut out = vec![0.0; n * wide];
            let at_rows = Rows { tables: &tables, scales: &member.scales, ids: view.rows, extras: view.observed };
            pass.run(at_rows, &mut block.memory, &mut out);
            let mut targets = vec![0.0; n];
            for i in 0..n {
                let sides = view.legal[i * 3..(i + 1) * 3].iter().enumerate();
                let bits = sides.fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a);
                assert_eq!(legal[from + i], bits);
                let z = &out[i * wide..(i + 1) * wide];
                let found = super::super::loss::log_probability(actions, z, bits, action[from + i]);
                worst = worst.max(apart(found, log[from + i])).max(apart(z[wide - 1], value[from + i]));
                targets[i] = match actions {
                    Actions::Discrete => f64::from(action[from + i]) - 1.0,
                    Actions::Continuous => super::super::collect::continuous_target(action[from + i], bits),
                };
            }
            block.environment.step(&targets);
            for i in 0..n {
                let growth = block.environment.rewards()[i];
                let wanted = member.hypers.reward.step(&mut block.remembered[i], growth) as f32;
                assert_eq!(wanted.to_bits(), reward[from + i].to_bits(), "{case:?}: reward of {i} at {step}");
                let end = match (block.environment.terminated()[i], block.environment.truncated()[i]) {
                    (true, _) => Ended::Terminated,
                    (_, true) => Ended::Truncated,
                    _ => Ended::Not,
                };
                assert_eq!(ended[from + i], end as u8, "{case:?}: ending of {i} at {step}");
                endings[step * n + i] = end;
                if end == Ended::Truncated {
                    cuts[i] += 1;
                    kept[step * n + i] = later_value[(p * n + i) * later + cuts[i]];
                    let (row, shown) = block.environment.last(i);
                    let (mut out, ids) = (vec![0.0; wide], [row]);
                    let there = Rows { tables: &tables, scales: &member.scales, ids: &ids, extras: shown };
                    pass.run(there, &mut block.memory[i * state..(i + 1) * state].to_vec(), &mut out);
                    worst = worst.max(apart(out[wide - 1], kept[step * n + i]));
                }
                if end != Ended::Not {
                    block.remembered[i] = Default::default();
                    block.memory[i * state..(i + 1) * state].fill(0.0);
                    flips += 1;
                }
            }
        }
        let last: Vec<f32> = (0..n).map(|i| later_value[(p * n + i) * later]).collect();
        let (view, mut out) = (block.environment.view(), vec![0.0; n * wide]);
        let there = Rows { tables: &tables, scales: &member.scales, ids: view.rows, extras: view.observed };
        pass.run(there, &mut block.memory.clone(), &mut out);
        last.iter().zip(out.chunks_exact(wide)).for_each(|(last, z)| worst = worst.max(apart(z[wide - 1], *last)));
        let (from, to) = (p * t * n, (p + 1) * t * n);
        let scale = cuda.arrays.scale.get(stream).unwrap()[p];
        let scaled: Vec<f32> = reward[from..to].iter().map(|r| (r * scale).clamp(-10.0, 10.0)).collect();
        let wanted = advantages(&scaled, &value[from..to], &endings, &kept, &last, [gamma, gae_lambda]);
        for (wanted, found) in wanted.iter().zip(&advantage[from..to]) {
            assert_eq!(wanted.to_bits(), found.to_bits(), "{case:?}: an advantage");
        }
        // The scale is one over the deviation of returns.
        assert!((f64::from(scale) * member.returns.deviation() - 1.0).abs() < 1e-5, "{case:?}: {scale}");
    }
    assert!(flips > 20, "{case:?}: episodes end");
    let most = if case.1 == Precision::F32 { 2e-4 } else { 0.06 };
    assert!(worst < most, "{case:?}: outputs are {worst} apart");
}

/// Few accounts of wide nets act in one kernel. A member's rollout has the same bits alone and beside others, however
/// the card is divided among them.
#[test]
fn rollouts_of_wide_nets_do_not_depend_on_company() {
    let Some(at) = card() else { return };
    for case in CASES.into_iter().filter(|case| case.1 == Precision::Bf16) {
        let (mut beside, mut alone) = (begun(case, &at, 1), begun_with(case, &at, 1, 2..3));
        if !matches!(&beside.cuda().path, Path::Passes(passes) if passes.has_rollout()) {
            assert!(!case.2.contains("512"), "{case:?}: is wide");
            continue;
        }
        // Both go on from the same weights and the same accounts.
        let (params, state) = (beside.nets().params(2).unwrap(), beside.cuda().state(2).unwrap());
        assert_eq!(state, alone.cuda().state(0).unwrap(), "{case:?}: the first rollout");
        alone.nets().set_params(0, &params).unwrap();
        beside.update().unwrap();
        alone.update().unwrap();
        let of = |training: &mut PpoTraining, p: usize| {
            let (_, _, cuda) = training.parts();
            let (seen, stream) = (&cuda.arrays.seen, &cuda.stream);
            let rows = cuda.arrays.sizes.n * cuda.arrays.sizes.t;
            let logs = seen.log_probability.part(p * rows, rows).unwrap().get(stream).unwrap();
            let actions = seen.action.part(p * rows, rows).unwrap().get(stream).unwrap();
            logs.iter().chain(&actions).map(|x| x.to_bits()).collect::<Vec<u32>>()
        };
        assert_eq!(of(&mut beside, 2), of(&mut alone, 0), "{case:?}: the second rollout");
    }
}

/// A net on the host, row by row or with what it remembers of each.
pub(crate) enum HostPass {
    Plain(Box<Forward>, Vec<f32>),
    Memory(Box<Stepper>),
}

impl HostPass {
    pub(crate) fn new(net: &Net, precision: Precision, params: &[f32]) -> HostPass {
        if net.has_memory() {
            let mut stepper = Stepper::new(net, precision, 64).unwrap();
            stepper.take(params).unwrap();
            return HostPass::Memory(Box::new(stepper));
        }
        HostPass::Plain(Box::new(Forward::new(net, precision, 64).unwrap()), params.to_vec())
    }

    pub(crate) fn run(&mut self, rows: Rows<'_>, states: &mut [f32], out: &mut [f32]) {
        match self {
            HostPass::Plain(pass, params) => pass.with(params).unwrap().run(rows, out).unwrap(),
            HostPass::Memory(stepper) => stepper.step(rows, states, out).unwrap(),
        }
    }
}

/// A state whose accounts are in blocks, as one block; a net remembers `numbers` of each.
fn in_one_block(state: &[f64], n: usize, numbers: usize) -> Vec<f64> {
    let mut parts = [const { Vec::new() }; 4];
    let mut rest = state;
    for block in super::super::collect::block_sizes(n as u32) {
        for (part, each) in parts.iter_mut().zip([1, 2, numbers, market::STATE]) {
            let (own, after) = rest.split_at(block.len() * each);
            part.extend_from_slice(own);
            rest = after;
        }
    }
    parts.concat()
}

/// LSTM layers over whole windows and step by step, towers that remember and one that does not, and a shared trunk.
const REMEMBERING: [(Actions, Precision, &str, Reward); 7] = [
    (Actions::Discrete, Precision::F32, "lstm16-16t | lstm12", Reward::Growth),
    (Actions::Continuous, Precision::F32, "lstm9-lstm8-8t | 16t", Reward::Drawdown(0.5)),
    (Actions::Discrete, Precision::F32, "lstm12-8t", Reward::Sharpe),
    (Actions::Discrete, Precision::Tf32, "lstm20-16t | lstm20-16t", Reward::Growth),
    (Actions::Discrete, Precision::Bf16, "lstm64-64t | lstm64-64t", Reward::Growth),
    (Actions::Continuous, Precision::Bf16, "lstm72 | lstm20-lstm8", Reward::Growth),
    (Actions::Discrete, Precision::Bf16, "lstm12-8t", Reward::Drawdown(1.0)),
];

/// The same of policies that remember, with what they remember where episodes go on, end and are cut off.
#[test]
fn a_rollout_that_remembers_is_that_of_the_host() {
    let Some(at) = card() else { return };
    for case in REMEMBERING {
        for updates in 1..4 {
            let mut training = begun(case, &at, updates - 1);
            assert!(matches!(training.cuda().path, Path::Recurrent(_)), "{case:?}");
            let before: Vec<Vec<f32>> = (0..3).map(|p| training.nets().params(p).unwrap()).collect();
            let states: Vec<Vec<f64>> = (0..3).map(|p| training.cuda().state(p).unwrap()).collect();
            training.update().unwrap();
            let (group, members, cuda) = training.parts();
            replay(case, group, members, cuda, &before, &states);
        }
    }
}

/// Minibatches of whole accounts move weights as the processor moves them, from the same rollout. Validations walk
/// alike.
#[test]
fn an_update_that_remembers_is_that_of_the_processor() {
    let Some(at) = card() else { return };
    let host = DeviceBudget { device: Opened::new(Choice::Cpu, 1).unwrap().0, budget: Budget::default() };
    for case in REMEMBERING {
        for updates in [0, 2] {
            let (mut training, mut processor) = (begun(case, &at, updates), begun(case, &host, 0));
            for p in 0..3u32 {
                let id = MemberKey { config: 0, fold: 0, seed: p }.id();
                let snapshot = training.snapshot(id).unwrap();
                processor.restore(&snapshot).unwrap();
                assert_eq!(processor.snapshot(id).unwrap(), snapshot, "{case:?}: a state goes to the processor");
            }
            let before: Vec<Vec<f32>> = (0..3).map(|p| training.nets().params(p).unwrap()).collect();
            training.update().unwrap();
            let (_, _, cuda) = training.parts();
            let Path::Recurrent(recurrent) = &cuda.path else { panic!("{case:?}: it remembers") };
            let (seen, stream, sizes) = (&cuda.arrays.seen, &cuda.stream, cuda.arrays.sizes);
            let (rows, observed) = (seen.rows.get(stream).unwrap(), seen.observed.get(stream).unwrap());
            let (legal, ended) = (seen.legal.get(stream).unwrap(), seen.ended.get(stream).unwrap());
            let (action, log) = (seen.action.get(stream).unwrap(), seen.log_probability.get(stream).unwrap());
            let (value, advantage) = (seen.value.get(stream).unwrap(), seen.advantage.get(stream).unwrap());
            let began: Vec<Vec<f32>> = (0..3).map(|p| recurrent.began(stream, p).unwrap()).collect();
            // What the card saw, in the processor's blocks.
            processor.update_from(|p, block| {
                let numbers = began[p].len() / sizes.n;
                let own = block.accounts.start as usize..block.accounts.end as usize;
                block.rollout.began = began[p][own.start * numbers..own.end * numbers].to_vec();
                for t in 0..sizes.t {
                    let from = (p * sizes.t + t) * sizes.n;
                    for i in own.clone().map(|account| from + account) {
                        let r = &mut block.rollout;
                        r.rows.push(rows[i]);
                        r.observed.extend_from_slice(&observed[i * OBSERVED..(i + 1) * OBSERVED]);
                        r.legal.push(legal[i]);
                        r.action.push(action[i]);
                        r.log_probability.push(log[i]);
                        r.value.push(value[i]);
                        r.advantage.push(advantage[i]);
                        r.ended.push([Ended::Not, Ended::Terminated, Ended::Truncated][ended[i] as usize]);
                    }
                }
            });
            for (p, before) in before.iter().enumerate() {
                let (ours, theirs) = (training.nets().params(p).unwrap(), processor.nets().params(p).unwrap());
                let apart =
                    |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
                let (moved, off) = (apart(&theirs, before), apart(&ours, &theirs));
                let most = match case.1 {
                    Precision::F32 => 1e-3,
                    Precision::Tf32 => 0.1,
                    Precision::Bf16 => 0.5,
                };
                assert!(off < most * moved, "{case:?} after {updates}: moved by {moved}, {off} apart");
            }
            // Both go on from the same weights.
            for p in 0..3 {
                let params = processor.nets().params(p).unwrap();
                training.nets().set_params(p, &params).unwrap();
            }
            for (a, b) in training.walks().unwrap().iter().flatten().zip(processor.walks().unwrap().iter().flatten()) {
                assert_eq!(a.1, b.1);
                let most = if case.1 == Precision::F32 { 1e-3 } else { f64::INFINITY };
                assert!((a.0 - b.0).abs() <= most, "{case:?}: a piece grew by {} and {}", a.0, b.0);
            }
        }
    }
}

/// Losses of such a minibatch are those of the host, to the bit: steps first, of whole accounts in the order of the
/// epoch.
#[test]
fn losses_of_whole_accounts_are_those_of_the_host() {
    let Some(at) = card() else { return };
    for case in REMEMBERING {
        let mut training = begun(case, &at, 2);
        let unit = training.parts().1[0].unit;
        training.update().unwrap();
        let (group, members, cuda) = training.parts();
        let Path::Recurrent(recurrent) = &cuda.path else { panic!("{case:?}: it remembers") };
        let (stream, seen, sizes) = (&cuda.stream, &cuda.arrays.seen, cuda.arrays.sizes);
        let (chosen, loss) = recurrent.last_minibatch();
        let (places, reset) = (chosen.places.get(stream).unwrap(), chosen.reset.get(stream).unwrap());
        let [z, value, d_z, d_value] =
            [&loss.z, &loss.value, &loss.d_z, &loss.d_value].map(|array| array.get(stream).unwrap());
        let (legal, action, ended) =
            (seen.legal.get(stream).unwrap(), seen.action.get(stream).unwrap(), seen.ended.get(stream).unwrap());
        let (log, old) = (seen.log_probability.get(stream).unwrap(), seen.value.get(stream).unwrap());
        let (advantage, centre) = (seen.advantage.get(stream).unwrap(), cuda.arrays.centre.get(stream).unwrap());
        let (all, wide, a, n) = (sizes.n * sizes.t, sizes.outputs, sizes.accounts, sizes.n);
        assert!(a > 1 && n % a != 0, "the last minibatch is not whole");
        for (p, member) in members.iter().enumerate() {
            let order = Permutation::new(n as u32, group.seed, member.key.id(), unit * member.hypers.n_epochs + 1);
            let first = (sizes.per_epoch - 1) * a;
            let own: Vec<usize> = (first..n).map(|i| order.at(i as u32) as usize).collect();
            let rows = own.len() * sizes.t;
            let norm = &centre[(p * sizes.minibatches + sizes.minibatches - 1) * 2..][..2];
            let each = |account: &usize| (0..sizes.t).map(move |t| t * n + account).collect::<Vec<_>>();
            let advantages: Vec<f64> =
                own.iter().flat_map(each).map(|place| f64::from(advantage[p * all + place])).collect();
            let mean = advantages.iter().sum::<f64>() / rows as f64;
            let variance = advantages.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (rows - 1) as f64;
            assert!(
                (f64::from(norm[0]) - mean).abs() < 1e-5 && (f64::from(norm[1]) * variance.sqrt() - 1.0).abs() < 1e-4
            );
            let terms = Terms {
                actions: group.shape.actions,
                clip: member.hypers.clip,
                entropy_weight: cuda.arrays.members.entropy_weight.get(stream).unwrap()[p],
                value_weight: member.hypers.vf_coef,
                rows: rows as f32,
            };
            for (t, i) in (0..sizes.t).flat_map(|t| (0..a).map(move |i| (t, i))) {
                let at = p * sizes.batch + t * a + i;
                let (mut wanted, mut wanted_value) = (vec![0.0; wide], 0.0);
                if let Some(account) = own.get(i) {
                    assert_eq!(places[at] as usize, t * n + account);
                    let from = p * all + t * n + account;
                    let began = t > 0 && ended[from - n] != 0;
                    assert_eq!(reset[(t * sizes.p + p) * a + i], u8::from(began), "{case:?}: step {t} of {account}");
                    let taken = Taken {
                        action: action[from],
                        legal: legal[from],
                        log_probability: log[from],
                        advantage: (advantage[from] - norm[0]) * norm[1],
                    };
                    let (mut sums, goal) = (LossSums::default(), advantage[from] + old[from]);
                    policy_loss(&terms, &z[at * wide..(at + 1) * wide], &taken, &mut wanted, &mut sums);
                    wanted_value = value_loss(&terms, value[at], old[from], goal, &mut sums);
                }
                let found = &d_z[at * wide..(at + 1) * wide];
                let bits = |x: &[f32]| x.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<u32>>();
                assert_eq!(bits(&wanted), bits(found), "{case:?}: step {t} of place {i}");
                assert_eq!((wanted_value + 0.0).to_bits(), (d_value[at] + 0.0).to_bits(), "{case:?}: value {t} {i}");
            }
        }
    }
}

/// Losses of a minibatch and the gradients at the outputs are those of the host, to the bit.
#[test]
fn losses_are_those_of_the_host() {
    let Some(at) = card() else { return };
    for case in CASES {
        let mut training = begun(case, &at, 2);
        let unit = training.parts().1[0].unit;
        training.update().unwrap();
        let (group, members, cuda) = training.parts();
        let Path::Passes(passes) = &cuda.path else { continue };
        let stream = &cuda.stream;
        let (seen, sizes) = (&cuda.arrays.seen, cuda.arrays.sizes);
        let (chosen, loss) = passes.last_minibatch();
        let places = chosen.places.get(stream).unwrap();
        let [z, value, d_z, d_value] =
            [&loss.z, &loss.value, &loss.d_z, &loss.d_value].map(|array| array.get(stream).unwrap());
        let (legal, action) = (seen.legal.get(stream).unwrap(), seen.action.get(stream).unwrap());
        let (log, old) = (seen.log_probability.get(stream).unwrap(), seen.value.get(stream).unwrap());
        let (advantage, centre) = (seen.advantage.get(stream).unwrap(), cuda.arrays.centre.get(stream).unwrap());
        let (all, wide, batch) = (sizes.n * sizes.t, sizes.outputs, sizes.batch);
        for (p, member) in members.iter().enumerate() {
            let order = Permutation::new(all as u32, group.seed, member.key.id(), unit * member.hypers.n_epochs + 1);
            let first = (sizes.per_epoch - 1) * batch;
            let rows = all - first;
            let norm = &centre[(p * sizes.minibatches + sizes.minibatches - 1) * 2..][..2];
            let own: Vec<f64> =
                (0..rows).map(|b| f64::from(advantage[p * all + order.at((first + b) as u32) as usize])).collect();
            let mean = own.iter().sum::<f64>() / rows as f64;
            let variance = own.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (rows - 1) as f64;
            assert!(
                (f64::from(norm[0]) - mean).abs() < 1e-5 && (f64::from(norm[1]) * variance.sqrt() - 1.0).abs() < 1e-4
            );
            let terms = Terms {
                actions: group.shape.actions,
                clip: member.hypers.clip,
                entropy_weight: cuda.arrays.members.entropy_weight.get(stream).unwrap()[p],
                value_weight: member.hypers.vf_coef,
                rows: rows as f32,
            };
            for b in 0..batch {
                let at = p * batch + b;
                let (mut wanted, mut wanted_value) = (vec![0.0; wide], 0.0);
                if b < rows {
                    let place = order.at((first + b) as u32) as usize;
                    assert_eq!(places[at], place as u32);
                    let from = p * all + place;
                    let taken = Taken {
                        action: action[from],
                        legal: legal[from],
                        log_probability: log[from],
                        advantage: (advantage[from] - norm[0]) * norm[1],
                    };
                    let (mut sums, goal) = (LossSums::default(), advantage[from] + old[from]);
                    policy_loss(&terms, &z[at * wide..(at + 1) * wide], &taken, &mut wanted, &mut sums);
                    wanted_value = value_loss(&terms, value[at], old[from], goal, &mut sums);
                }
                let found = &d_z[at * wide..(at + 1) * wide];
                let bits = |x: &[f32]| x.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<u32>>();
                assert_eq!(bits(&wanted), bits(found), "{case:?}: row {b}");
                assert_eq!((wanted_value + 0.0).to_bits(), (d_value[at] + 0.0).to_bits(), "{case:?}: value {b}");
            }
        }
    }
}

/// Heads in one kernel leave what the net's own heads and a whole way back leave, but for rounding.
#[test]
fn heads_in_one_kernel_are_those_of_the_net() {
    let Some(at) = card() else { return };
    let mut seen = 0;
    for (case, members) in CASES.into_iter().flat_map(|case| [(case, 1), (case, 3)]) {
        let mut training = begun_with(case, &at, 1, 0..members);
        let (group, cuda) = training.parts_mut();
        let Path::Passes(passes) = &cuda.path else { continue };
        let Some(heads) = passes.heads() else { continue };
        seen += 1;
        let (stream, nets, sizes) = (&cuda.stream, &mut group.nets, cuda.arrays.sizes);
        let (chosen, loss) = passes.last_minibatch();
        cuda.arrays.clock.put(stream, &[0, sizes.minibatches as u32 - 1]).unwrap();
        let given = OnCard { rows: sizes.batch, ids: Some(&chosen.ids), extras: Some(&chosen.observed) };
        let (gradient, out) = (nets.gradient_on_card().unwrap(), nets.head_arrays(sizes.batch).unwrap());
        nets.rows_on(stream, given).unwrap();
        nets.hidden_on(stream).unwrap();
        heads.launch(stream).unwrap();
        nets.backward_past_heads_on(stream).unwrap();
        let ours = [&loss.z, &loss.value, &gradient].map(|array| array.get(stream).unwrap());
        nets.forward_on(stream, given, &out).unwrap();
        nets.backward_on(stream, &[loss.d_z.clone(), loss.d_value.clone()]).unwrap();
        let theirs = [&out[0], &out[1], &gradient].map(|array| array.get(stream).unwrap());
        for ((what, ours), theirs) in ["outputs", "values", "gradient"].into_iter().zip(&ours).zip(&theirs) {
            let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let off = norm(&mut ours.iter().zip(theirs).map(|(a, b)| a - b)) / norm(&mut theirs.iter().copied());
            assert!(off < 5e-3, "{case:?}, {members} members: {what} {off} apart");
        }
    }
    assert!(seen > 0);
}

/// One kernel for each phase does what passes in between do: an update moves weights by the same, but for rounding.
#[test]
fn small_nets_move_as_others_do() {
    let Some(at) = card() else { return };
    for case in CASES.into_iter().filter(|case| case.1 == Precision::Bf16) {
        let mut small = begun(case, &at, 1);
        let mut plain = begun((case.0, Precision::F32, case.2, case.3), &at, 1);
        if !matches!(small.cuda().path, Path::Small(_)) {
            continue;
        }
        // Both go on from the same weights.
        for p in 0..3 {
            let (a, (mean, square, step)) = (small.nets().params(p).unwrap(), small.nets().optimiser(p).unwrap());
            plain.nets().set_params(p, &a).unwrap();
            plain.nets().set_optimiser(p, &mean, &square, step).unwrap();
        }
        let before: Vec<Vec<f32>> = (0..3).map(|p| small.nets().params(p).unwrap()).collect();
        let walks = |training: &mut PpoTraining| training.walks().unwrap();
        let (a, b) = (walks(&mut small), walks(&mut plain));
        for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
            assert_eq!(a.1, b.1);
        }
        small.update().unwrap();
        plain.update().unwrap();
        for (p, before) in before.iter().enumerate() {
            let (ours, theirs) = (small.nets().params(p).unwrap(), plain.nets().params(p).unwrap());
            let apart =
                |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
            let (moved, off) = (apart(&theirs, before), apart(&ours, &theirs));
            assert!(off < 0.5 * moved, "{case:?}: moved by {moved}, {off} apart");
        }
    }
}
