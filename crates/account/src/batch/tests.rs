//! Lanes against the reference, over random accounts and bars.

use super::*;
use crate::lanes_simd::{advance_one_way, ways};
use crate::tests::made::{next_bar, some_action, some_params};
use crate::{Action, step};
use random::SplitMix;

fn bits(account: &Account) -> Vec<u64> {
    let Account { equity, peak, quantity, target, action, mark, fx, entry, bars_held, stop, limit, flows, .. } =
        account;
    let Flows { fee, spread, impact, swap, borrow, funding, dividend, traded, closed } = flows;
    [equity, peak, quantity, target, action, mark, fx, entry, bars_held, stop, limit]
        .into_iter()
        .chain([fee, spread, impact, swap, borrow, funding, dividend, traded, closed])
        // No bit of sign on zero: it says nothing of money.
        .map(|x| (x + 0.0).to_bits())
        .chain([u64::from(account.terminated)])
        .collect()
}

/// Every way of lanes, over random accounts on bars of their own and on common ones.
#[test]
fn lanes_equal_the_reference_over_100_000_steps() {
    for way in ways() {
        let mut random = SplitMix::new(7);
        let (mut seen, mut steps) = (0u8, 0);
        while steps < 100_000 {
            let params: [Params; GROUP] = std::array::from_fn(|_| some_params(&mut random));
            let mut group = Group::new(params);
            let mut accounts = params.map(|p| Account::new(&p));
            let common = random.below(2) == 0;
            let mut now = [Bar::flat(100.0); GROUP];
            for _ in 0..500 {
                let mut row = Row::same(&now[0], &now[0]);
                let mut next = now.map(|bar| next_bar(&mut random, &bar));
                if common {
                    next = [next[0]; GROUP];
                }
                let actions: [Action; GROUP] = std::array::from_fn(|_| some_action(&mut random));
                for lane in 0..GROUP {
                    row.put(lane, &now[lane], &next[lane]);
                    row.wanted[lane] = actions[lane].target;
                    row.stop_distance[lane] = actions[lane].stop;
                    row.limit_distance[lane] = actions[lane].limit;
                }
                group.events = [0; GROUP];
                advance_one_way(way, &mut group, &row);
                let (own, groups) = (params.to_vec(), vec![group.clone()]);
                let all = Accounts { params: own, groups, placed: Vec::new(), row_of: Vec::new(), rewards: true };
                for lane in 0..GROUP {
                    let before = accounts[lane];
                    let outcome = step(&params[lane], &mut accounts[lane], actions[lane], &now[lane], &next[lane]);
                    let given = (way, params[lane], before, actions[lane], now[lane], next[lane]);
                    let (own, twin) = (accounts[lane], all.account(lane));
                    assert_eq!(bits(&own), bits(&twin), "{given:#?}");
                    assert_eq!(outcome.reward.to_bits(), (group.reward[lane] + 0.0).to_bits(), "{given:#?}");
                    assert_eq!(outcome.events, all.events(lane), "{given:#?}");
                    seen |= outcome.events.0;
                }
                // A bar without prices leaves the last ones.
                for (now, next) in now.iter_mut().zip(next) {
                    *now = if next.tradable == 0.0 { Bar { tradable: 0.0, ..*now } } else { next };
                }
                steps += GROUP;
            }
        }
        assert_eq!(seen, 63, "everything that can happen did");
    }
}

fn single_accounts(params: &[Params]) -> Vec<Account> {
    params.iter().map(Account::new).collect()
}

#[test]
fn odd_numbers_of_accounts_step_like_single_ones() {
    for n in [1, 2, 7, 8, 9, 17] {
        let mut random = SplitMix::new(n as u64);
        let params: Vec<Params> = (0..n).map(|_| some_params(&mut random)).collect();
        let mut bars = vec![Bar::flat(100.0)];
        for _ in 0..400 {
            let bar = next_bar(&mut random, bars.last().unwrap());
            bars.push(if bar.tradable == 0.0 { Bar::flat(bars.last().unwrap().close) } else { bar });
        }
        let (mut same, mut each) = (Accounts::new(&params), Accounts::new(&params));
        let (mut placed, mut shared) = (Accounts::new(&params), Accounts::new(&params));
        let mut beside = single_accounts(&params);
        let mut single = single_accounts(&params);
        let mut apart = single.clone();
        for at in 0..200 {
            let actions: Vec<Action> = (0..n).map(|_| some_action(&mut random)).collect();
            let column = |of: fn(&Action) -> f64| actions.iter().map(of).collect::<Vec<f64>>();
            let (target, stop, limit) = (column(|a| a.target), column(|a| a.stop), column(|a| a.limit));
            same.step(Orders { target: &target, stop: &stop, limit: &limit }, &bars[at], &bars[at + 1]);
            let rows: Vec<u32> = (0..n).map(|i| (at + 7 * i) as u32).collect();
            each.step_each(Orders::targets(&target), &bars, &rows);
            placed.place(&bars, &rows);
            let seen: Vec<Seen<'_>> = placed.seen().collect();
            for i in 0..n {
                let (seen, lane, bar) = (&seen[i / GROUP], i % GROUP, &bars[rows[i] as usize]);
                let found = [seen.equity, seen.quantity, seen.close, seen.fx, seen.sigma].map(|of| of[lane]);
                assert_eq!(found, [apart[i].equity, apart[i].quantity, bar.close, bar.fx_close, bar.sigma]);
            }
            placed.step_placed(&target);
            let common: Vec<u32> = (0..n).map(|i| (at + i % GROUP) as u32).collect();
            shared.place(&bars, &common);
            shared.step_placed(&target);
            for i in 0..n {
                step(&params[i], &mut single[i], actions[i], &bars[at], &bars[at + 1]);
                let row = rows[i] as usize;
                step(&params[i], &mut apart[i], Action::target(target[i]), &bars[row], &bars[row + 1]);
                assert_eq!((bits(&same.account(i)), bits(&each.account(i))), (bits(&single[i]), bits(&apart[i])));
                assert_eq!(bits(&placed.account(i)), bits(&apart[i]));
                let row = common[i] as usize;
                step(&params[i], &mut beside[i], Action::target(target[i]), &bars[row], &bars[row + 1]);
                assert_eq!(bits(&shared.account(i)), bits(&beside[i]));
            }
        }
        // What is taken out and put back is the same account; a reset one is new.
        let copy = each.account(n - 1);
        each.reset(n - 1);
        assert_eq!(each.account(n - 1), Account::new(&params[n - 1]));
        each.set_account(n - 1, &copy);
        assert_eq!(each.account(n - 1), copy);
    }
}
