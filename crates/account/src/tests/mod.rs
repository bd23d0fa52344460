//! The twins for a card (`step.cuh`, `portfolio.cuh`) against the reference, to the bit.
//!
//! The same walks run on a card, where there is one, and here as a C++ program, where there is a compiler.

pub(crate) mod made;

use crate::portfolio::Portfolio;
use crate::{Account, Action, Bar, Event, Flows, Params, close_out, step};
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Plain, Stream, gpus};
use made::{next_bar, some_action, some_params};
use random::SplitMix;
use std::process::{Command, Stdio};

static TWIN: Image = compute::image!("twin");

compute::arguments! {
    /// Accounts over their bars.
    struct Walk in "twin.cu" {
        params: Array<f64>,
        bars: Array<f64>,
        actions: Array<f64>,
        state: Array<f64>,
        rewards: Array<f64>,
        digests: Array<u64>,
        n: u64,
        steps: u64,
    }
}

compute::arguments! {
    /// Portfolios over common bars.
    struct WalkPortfolios in "twin.cu" {
        params: Array<f64>,
        bars: Array<f64>,
        targets: Array<f64>,
        common: Array<f64>,
        positions: Array<f64>,
        rewards: Array<f64>,
        digests: Array<u64>,
        n: u64,
        symbols: u64,
        steps: u64,
    }
}

/// What a walk is given and what it must give.
struct Case {
    name: &'static str,
    n: usize,
    steps: usize,
    symbols: usize,
    /// Params, bars, actions or targets.
    inputs: [Vec<f64>; 3],
    /// State, or common numbers and positions, before the walk.
    before: Vec<Vec<f64>>,
    expected: Walked,
}

/// What a walk gave.
#[derive(Default)]
struct Walked {
    after: Vec<Vec<f64>>,
    /// `[steps, n]`
    rewards: Vec<f64>,
    /// `[steps, n]` of everything else that a step gave.
    digests: Vec<u64>,
    events: u8,
}

/// As `Digest` in `walk.cuh`.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn take(mut self, numbers: &[f64]) -> Digest {
        for number in numbers {
            self.0 = (self.0 ^ number.to_bits()).wrapping_mul(0x100_0000_01b3);
        }
        self
    }
}

/// Whether one that has ended begins again: now and then, so that walks go on without it too.
fn begins_again(t: usize, terminated: bool) -> bool {
    t % 64 == 63 && terminated
}

/// Whether an episode ends before its account does: the position is closed at the close.
fn ends_early(t: usize) -> bool {
    t % 50 == 49
}

/// The numbers of each, field by field: `[fields, n]`.
fn field_major<const N: usize>(rows: &[[f64; N]]) -> Vec<f64> {
    (0..N).flat_map(|field| rows.iter().map(move |row| row[field])).collect()
}

/// Accounts on bars of their own, which `meets` gives with the decision before them; `lean` is without stops, limits
/// and flows.
fn walk_accounts(
    params: &[Params],
    steps: usize,
    lean: bool,
    mut meets: impl FnMut(usize, usize, &Account, &Bar) -> (Action, Bar),
) -> Case {
    let n = params.len();
    let mut accounts: Vec<Account> = params.iter().map(Account::new).collect();
    let before = field_major(&accounts.iter().map(Account::numbers).collect::<Vec<_>>());
    let (mut bars, mut actions) = (vec![vec![Bar::flat(100.0)]; n], Vec::new());
    let mut expected = Walked::default();
    let mut now = vec![Bar::flat(100.0); n];
    for t in 0..steps {
        for (i, account) in accounts.iter_mut().enumerate() {
            let (action, next) = meets(t, i, account, &now[i]);
            let action = if lean { Action::target(action.target) } else { action };
            actions.extend([action.target, action.stop, action.limit]);
            bars[i].push(next);
            let outcome = step(&params[i], account, action, &now[i], &next);
            if next.tradable != 0.0 {
                now[i] = next;
            }
            if ends_early(t) {
                close_out(&params[i], account, &now[i]);
            }
            if lean {
                account.flows = Flows::default();
            }
            let fills = [outcome.fill, outcome.exit].map(|fill| [fill.quantity, fill.price, fill.cost]);
            let digest = Digest::new().take(&account.numbers()).take(&[outcome.equity_open]).take(&fills.concat());
            expected.digests.push(digest.take(&[f64::from(outcome.events.0)]).0);
            expected.rewards.push(outcome.reward);
            expected.events |= outcome.events.0;
            if begins_again(t, account.terminated) {
                *account = Account::new(&params[i]);
            }
        }
    }
    expected.after = vec![field_major(&accounts.iter().map(Account::numbers).collect::<Vec<_>>())];
    let inputs = [
        params.iter().flat_map(Params::numbers).collect(),
        bars.iter().flatten().flat_map(Bar::numbers).collect(),
        actions,
    ];
    Case { name: if lean { "lean" } else { "accounts" }, n, steps, symbols: 1, inputs, before: vec![before], expected }
}

/// Random accounts on random bars, some of which end exactly at a stop or limit, or below zero.
fn accounts(n: usize, steps: usize, lean: bool) -> Case {
    let mut random = SplitMix::new(11 + n as u64);
    let params: Vec<Params> = (0..n).map(|_| some_params(&mut random)).collect();
    walk_accounts(&params, steps, lean, |_, _, account, now| {
        let mut next = next_bar(&mut random, now);
        if next.tradable != 0.0 {
            match random.below(40) {
                0 if account.stop > 0.0 && account.quantity > 0.0 => next.low = account.stop,
                1 if account.stop > 0.0 && account.quantity < 0.0 => next.high = account.stop,
                2 if account.limit > 0.0 && account.quantity > 0.0 => next.high = account.limit,
                3 if account.limit > 0.0 && account.quantity < 0.0 => next.low = account.limit,
                4 if random.below(10) == 0 => (next.low, next.close) = (-40.0, [0.0, -37.0][random.below(2)]),
                5 if random.below(10) == 0 => (next.open, next.low) = ([0.0, -5.0][random.below(2)], -5.0),
                _ => {}
            }
        }
        (some_action(&mut random), next)
    })
}

/// Rules and bars at which equity exactly meets ruin or what is needed, and an account that closing ruins; with what
/// happens to an account and to a portfolio.
fn borders() -> Vec<(Params, [Bar; 2], [u8; 2])> {
    let params = Params { leverage: 10.0, maintenance: 0.0, liquidation: 0.0, ..Params::default() };
    let to = |close: f64| Bar { low: close, close, ..Bar::flat(100.0) };
    let last = |close: f64| Bar { close_out: 1.0, ..Bar::flat(close) };
    let [liquidated, closed_out, ruined] =
        [Event::Liquidated, Event::ClosedOut, Event::Ruined].map(|event| event as u8);
    vec![
        // 10 units from 100 to 1 leave 10, which is ruin.
        (Params { capital: 1000.0, lots: 10.0, ..params }, [to(1.0), last(1.0)], [closed_out | ruined; 2]),
        // 1,500 + 20 · (50 - 100) is half of 20 · 50.
        (
            Params { capital: 1500.0, lots: 20.0, liquidation: 0.5, ..params },
            [to(50.0), last(50.0)],
            [liquidated, liquidated | closed_out],
        ),
        // Half of 1,000 is the fee; 10 units lose 470, and 30 is above ruin; to sell them costs 265.
        (
            Params { capital: 1000.0, lots: 10.0, fee: 0.5, ..params },
            [Bar { close_out: 1.0, ..to(53.0) }, last(53.0)],
            [closed_out | ruined; 2],
        ),
    ]
}

/// What a card holds of portfolios: common numbers `[3, n]` and those of positions `[17, symbols, n]`.
fn portfolio_numbers(portfolios: &[Portfolio]) -> Vec<Vec<f64>> {
    let truth = |yes: bool| f64::from(u8::from(yes));
    let common: Vec<[f64; 3]> = portfolios.iter().map(|p| [p.equity, p.peak, truth(p.terminated)]).collect();
    let mut positions = Vec::new();
    let symbols = portfolios.first().map_or(0, Portfolio::len);
    for field in 0..17 {
        for k in 0..symbols {
            positions.extend(portfolios.iter().map(|portfolio| {
                let Account { quantity, target, action, mark, fx, entry, bars_held, flows, .. } = portfolio.position(k);
                let own = [quantity, target, action, mark, fx, entry, bars_held, portfolio.earned(k)];
                if field < 8 { own[field] } else { flows.numbers()[field - 8] }
            }));
        }
    }
    vec![field_major(&common), positions]
}

/// Portfolios on common bars, with rules and targets of their own.
fn walk_portfolios(
    params: &[Vec<Params>],
    steps: usize,
    random: &mut SplitMix,
    target: impl Fn(&mut SplitMix) -> f64,
    next: impl Fn(&mut SplitMix, usize, &Bar) -> Bar,
) -> Case {
    let (n, symbols) = (params.len(), params[0].len());
    let new = |i: usize| Portfolio::new(&params[i][0], symbols);
    let mut portfolios: Vec<Portfolio> = (0..n).map(new).collect();
    let before = portfolio_numbers(&portfolios);
    let (mut bars, mut all_targets) = (Vec::new(), Vec::new());
    let mut expected = Walked::default();
    let mut now = vec![Bar::flat(100.0); symbols];
    for t in 0..steps {
        let pairs: Vec<(Bar, Bar)> = now.iter().map(|bar| (*bar, next(random, t, bar))).collect();
        bars.extend(pairs.iter().flat_map(|(now, next)| [now.numbers(), next.numbers()].concat()));
        for (i, portfolio) in portfolios.iter_mut().enumerate() {
            let targets: Vec<f64> = (0..symbols).map(|_| target(random)).collect();
            all_targets.extend(&targets);
            let outcome = portfolio.step(&params[i], &targets, &pairs);
            let events = outcome.events.0;
            let mut digest = Digest::new().take(&[portfolio.equity, portfolio.peak, f64::from(events)]);
            for k in 0..symbols {
                digest = digest.take(&portfolio.position(k).numbers()).take(&[portfolio.earned(k)]);
            }
            expected.digests.push(digest.0);
            expected.rewards.push(outcome.reward);
            expected.events |= events;
            if begins_again(t, portfolio.terminated) {
                *portfolio = new(i);
            }
        }
        for (now, (_, next)) in now.iter_mut().zip(&pairs).filter(|(_, (_, next))| next.tradable != 0.0) {
            *now = *next;
        }
    }
    expected.after = portfolio_numbers(&portfolios);
    let inputs = [params.iter().flatten().flat_map(Params::numbers).collect(), bars, all_targets];
    Case { name: "portfolios", n, steps, symbols, inputs, before, expected }
}

/// Random portfolios on random bars.
fn portfolios(n: usize, steps: usize, symbols: usize) -> Case {
    let mut random = SplitMix::new(23 + symbols as u64);
    let params: Vec<Vec<Params>> = (0..n)
        .map(|_| {
            let Params { capital, leverage, maintenance, liquidation, .. } = some_params(&mut random);
            let common = |own: Params| Params { capital, leverage, maintenance, liquidation, ..own };
            (0..symbols).map(|_| common(some_params(&mut random))).collect()
        })
        .collect();
    walk_portfolios(
        &params,
        steps,
        &mut random,
        |random| some_action(random).target,
        |random, _, now| next_bar(random, now),
    )
}

/// The walks that both twins are held to: 100,000 steps of each kind, and odd sizes.
fn cases() -> Vec<Case> {
    let large = [accounts(256, 400, false), accounts(256, 400, true), portfolios(128, 800, 3)];
    assert_eq!(large[0].expected.events, 63, "everything that can happen to an account did");
    assert_eq!(large[1].expected.events, 63 - 12, "and without stop and limit");
    assert_eq!(large[2].expected.events, 63 - 12, "and to a portfolio");
    let small = [accounts(1, 70, false), accounts(33, 9, true), portfolios(5, 500, 1), portfolios(5, 130, 7)];
    let borders = borders().into_iter().flat_map(|(params, bars, events)| {
        let long = Action::target(1.0);
        let account = walk_accounts(&[params], 2, false, |t, _, _, _| (long, bars[t]));
        let portfolio = walk_portfolios(&[vec![params]], 2, &mut SplitMix::new(1), |_| 1.0, |_, t, _| bars[t]);
        assert_eq!([account.expected.events, portfolio.expected.events], events);
        [account, portfolio]
    });
    large.into_iter().chain(small).chain(borders).collect()
}

/// Compares to the bit, and names the first step that differs.
fn check(case: &Case, walked: &Walked) {
    let Case { name, n, expected, .. } = case;
    let at = |i: usize| format!("{name}: step {} of number {} of {n}", i / n, i % n);
    for (i, (own, twin)) in expected.rewards.iter().zip(&walked.rewards).enumerate() {
        assert_eq!(own.to_bits(), twin.to_bits(), "{}: rewards {own} and {twin}", at(i));
    }
    for (i, (own, twin)) in expected.digests.iter().zip(&walked.digests).enumerate() {
        assert_eq!(own, twin, "{}: another state", at(i));
    }
    let bits = |all: &[Vec<f64>]| all.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&expected.after), bits(&walked.after), "{name}: the end");
    assert_eq!((expected.rewards.len(), expected.digests.len()), (walked.rewards.len(), walked.digests.len()));
}

#[test]
fn a_card_walks_like_the_reference() {
    let opened = match gpus() {
        Ok(found) if !found.is_empty() => Context::open(0).map_err(|e| e.to_string()),
        _ => Err("no GPU".into()),
    };
    let context = match opened {
        Ok(context) => context,
        Err(why) => return skip(&why),
    };
    let (stream, module) = (Stream::new(&context).unwrap(), Module::load(&context, &TWIN).unwrap());
    for case in cases() {
        let Case { n, steps, symbols, inputs, before, .. } = &case;
        let numbers = inputs.iter().chain(before).map(Vec::len).sum::<usize>() + 2 * n * steps;
        let mut slab = context.slab(8 * numbers as u64 + (1 << 16)).unwrap();
        let mut array = |from: &[f64]| put(&stream, slab.array(from.len()).unwrap(), from);
        let [params, bars, actions] = inputs.each_ref().map(|from| array(from));
        let state: Vec<Array<f64>> = before.iter().map(|from| array(from)).collect();
        let rewards = array(&vec![0.0; n * steps]);
        let digests: Array<u64> = slab.array(n * steps).unwrap();
        let (n, steps, symbols) = (*n as u64, *steps as u64, *symbols as u64);
        let grid = Grid::row(case.n, 64);
        if let [common, positions] = state.as_slice() {
            let kernel: Kernel<WalkPortfolios> = module.kernel("walk_portfolios").unwrap();
            let (common, positions) = (common.clone(), positions.clone());
            let (rewards, digests, targets) = (rewards.clone(), digests.clone(), actions);
            let given =
                WalkPortfolios { params, bars, targets, common, positions, rewards, digests, n, symbols, steps };
            kernel.launch(&stream, grid, &given).unwrap();
        } else {
            let name = if case.name == "lean" { "walk_lean" } else { "walk" };
            let kernel: Kernel<Walk> = module.kernel(name).unwrap();
            let (state, rewards, digests) = (state[0].clone(), rewards.clone(), digests.clone());
            let given = Walk { params, bars, actions, state, rewards, digests, n, steps };
            kernel.launch(&stream, grid, &given).unwrap();
        }
        let walked = Walked {
            after: state.iter().map(|numbers| numbers.get(&stream).unwrap()).collect(),
            rewards: rewards.get(&stream).unwrap(),
            digests: digests.get(&stream).unwrap(),
            events: 0,
        };
        check(&case, &walked);
    }
}

fn put<T: Plain>(stream: &Stream, array: Array<T>, from: &[T]) -> Array<T> {
    array.put(stream, from).unwrap();
    array
}

/// The twins' own code, compiled for the processor: what a card would do, but for the card's arithmetic.
#[test]
#[cfg(target_os = "linux")]
fn the_twins_code_walks_like_the_reference() {
    let folder = std::env::temp_dir().join(format!("fullbore-account-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("host");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/host.cpp");
    // Products that are summed are not fused.
    let flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-o"];
    match Command::new("g++").args(flags).arg(&program).arg(source).output() {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return skip("no g++"),
        done => {
            let done = done.unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
    for case in cases() {
        let Case { name, n, steps, symbols, inputs, before, .. } = &case;
        let sizes = [*n, *steps, *symbols].map(|size| size.to_string());
        let mut child =
            Command::new(&program).arg(name).args(sizes).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The program reads everything before it writes.
        let mut bytes = Vec::new();
        for number in inputs.iter().chain(before).flatten() {
            bytes.extend(number.to_le_bytes());
        }
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{name}: {}", done.status);
        let words: Vec<u64> =
            done.stdout.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let mut rest = words.as_slice();
        let mut take = |len: usize| {
            let (first, behind) = rest.split_at(len);
            rest = behind;
            first
        };
        let numbers = |words: &[u64]| words.iter().map(|word| f64::from_bits(*word)).collect::<Vec<f64>>();
        let walked = Walked {
            after: before.iter().map(|numbers_of| numbers(take(numbers_of.len()))).collect(),
            rewards: numbers(take(n * steps)),
            digests: take(n * steps).to_vec(),
            events: 0,
        };
        assert!(rest.is_empty());
        check(&case, &walked);
    }
    std::fs::remove_dir_all(&folder).unwrap();
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
