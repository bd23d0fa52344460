//! Episodes: where they start and end, what is shown, and that it is the account's own accounting.

use account::{Account, Action, Params, step};
use bars::Timeframe;
use bars::synth::Synth;
use market::{AccountOptions, Constant, Environment, EpisodeData, OBSERVED, Policy, PriceTable, observe, row_times};
use random::SplitMix;
use std::sync::Arc;

fn made() -> (Vec<bars::Bars>, PriceTable) {
    let market = Synth { symbols: 2, bars: 600, timeframe: Timeframe::H1, ragged: false, ..Synth::default() };
    let market = market.make_market(4).market;
    let table = PriceTable::new(&market, &AccountOptions::default(), None).unwrap();
    (market, table)
}

#[test]
fn an_environment_is_the_account_step_by_step() {
    let (market, table) = made();
    let times = row_times(&market, &table);
    let end = table.offsets[1] as u32;
    // Two stretches of the first symbol and one of the second.
    let stretches = [10..200, 210..end, end + 5..end + 300];
    let n = 13;
    let data = Arc::new(EpisodeData::new(table.clone(), times.clone()));
    let mut world = Environment::new(&data, &stretches, 0..n as u32, 40, 9);
    let mut single: Vec<(Params, Account)> = Vec::new();
    let symbol = |row: u32| usize::from(row >= end);
    for i in 0..n {
        let params = table.params[symbol(world.view().rows[i])];
        single.push((params, Account::new(&params)));
    }
    let (mut random, mut cut) = (SplitMix::new(3), 0);
    for _ in 0..400 {
        let rows = world.view().rows.to_vec();
        assert!(rows.iter().all(|row| stretches.iter().any(|s| s.contains(row) && s.contains(&(row + 1)))));
        let targets: Vec<f64> = (0..n).map(|_| [-1.0, 0.0, 1.0, f64::NAN][random.below(4)]).collect();
        world.step(&targets);
        for i in 0..n {
            let (params, account) = &mut single[i];
            let now = rows[i] as usize;
            let action = Action::target(targets[i]);
            let outcome = step(params, account, action, &table.bars[now], &table.bars[now + 1]);
            assert_eq!(world.rewards()[i].to_bits(), (outcome.reward + 0.0).to_bits());
            if world.truncated()[i] || world.terminated()[i] {
                cut += 1;
                assert_eq!(world.last(i).0, rows[i] + 1);
                // A cut episode is not closed out.
                assert_eq!(world.last(i).1[0] == 0.0, account.quantity == 0.0);
                *params = table.params[symbol(world.view().rows[i])];
                *account = Account::new(params);
            }
            assert_eq!(world.account(i).equity.to_bits(), account.equity.to_bits());
            let shown = &world.view().observed[i * OBSERVED..(i + 1) * OBSERVED];
            // What is shown is the definition, to the bit.
            let (row, mut expected) = (world.view().rows[i] as usize, [0.0; OBSERVED]);
            observe(params, account, &table.bars[row], times[row], &mut expected);
            assert_eq!(shown.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected.map(f32::to_bits));
            assert!(shown.iter().all(|x| x.is_finite()));
            assert_eq!(shown[0] == 0.0, account.quantity == 0.0);
            assert!(world.view().legal[i * 3 + 1], "flat is always legal");
        }
    }
    assert!(cut > 100, "{cut} episodes ended");
    // The same seed, the same episodes; another seed, others.
    let rows = |seed: u64| Environment::new(&data, &stretches, 0..n as u32, 40, seed).view().rows.to_vec();
    assert_eq!(rows(9), rows(9));
    assert_ne!(rows(9), rows(10));
}

/// An account's episodes do not depend on its neighbours, and go on where their state was taken.
#[test]
fn episodes_are_an_accounts_own_and_go_on_from_their_state() {
    let (market, table) = made();
    let times = row_times(&market, &table);
    let stretches = [10..200, 210..table.bars.len() as u32 - 600];
    let data = Arc::new(EpisodeData::new(table, times));
    let new = |accounts: std::ops::Range<u32>| Environment::new(&data, &stretches, accounts, 30, 5);
    let (mut all, mut part) = (new(0..12), new(3..7));
    let target = |step: usize, account: usize| [-1.0, 0.0, 1.0][(step / 5 + account) % 3];
    let bits = |world: &Environment, i: usize| {
        let own = i * OBSERVED..(i + 1) * OBSERVED;
        let shown: Vec<u32> = world.view().observed[own].iter().map(|x| x.to_bits()).collect();
        (world.view().rows[i], shown, world.rewards()[i].to_bits())
    };
    let play = |world: &mut Environment, step: usize, first: usize, n: usize| {
        world.step(&(first..first + n).map(|account| target(step, account)).collect::<Vec<_>>());
    };
    let mut taken = None;
    for step in 0..100 {
        if step == 47 {
            taken = Some(part.state());
        }
        play(&mut all, step, 0, 12);
        play(&mut part, step, 3, 4);
        (0..4).for_each(|i| assert_eq!(bits(&part, i), bits(&all, i + 3), "step {step}"));
    }
    let (taken, mut again) = (taken.expect("a state"), new(3..7));
    assert!(again.restore(&taken));
    (47..100).for_each(|step| play(&mut again, step, 3, 4));
    (0..4).for_each(|i| assert_eq!(bits(&again, i), bits(&part, i)));
    assert_eq!(again.state(), part.state());
    // What is of other accounts, or no state at all, is refused.
    assert!(!again.restore(&taken[1..]) && !again.restore(&vec![-1.0; taken.len()]));
}

/// Bars behind the close that were changed on purpose are not seen.
#[test]
fn an_observation_ends_at_its_close() {
    let (market, table) = made();
    let times = row_times(&market, &table);
    let stretch = 50..table.offsets[1] as u32;
    let shown = |table: &PriceTable, steps: usize| {
        let data = Arc::new(EpisodeData::new(table.clone(), times.clone()));
        let mut world = Environment::new(&data, std::slice::from_ref(&stretch), 0..4, 1000, 2);
        let mut seen = Vec::new();
        let policy = Constant(1.0);
        let (mut actions, mut memory) = (vec![Action::target(0.0); 4], policy.start(4));
        for _ in 0..steps {
            policy.act(&world.view(), &mut memory, &mut actions).unwrap();
            world.step(&actions.iter().map(|action| action.target).collect::<Vec<f64>>());
            seen.extend(world.view().observed.iter().map(|x| x.to_bits()));
        }
        (seen, world.view().rows.to_vec())
    };
    let steps = 20;
    let (before, rows) = shown(&table, steps);
    let mut poisoned = table.clone();
    let last = *rows.iter().max().unwrap() as usize;
    for bar in &mut poisoned.bars[last + 1..] {
        (bar.open, bar.high, bar.low, bar.close) = (1e6, 1e6, 1e6, 1e6);
        (bar.sigma, bar.volume, bar.dividend) = (9.0, 9.0, 9.0);
    }
    assert_eq!(shown(&poisoned, steps).0, before);
}
