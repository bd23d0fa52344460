//! What holds for any account on any bars: identities of accounting, and costs that never pay.

use account::{Account, Action, Bar, Params, step};
use random::SplitMix;

/// Bars of a random walk without drift, with spread and volume.
fn walk(random: &mut SplitMix, n: usize) -> Vec<Bar> {
    let mut close = 100.0;
    let mut draw = |width: f64| (random.unit() + random.unit() + random.unit() - 1.5) * width;
    (0..n)
        .map(|_| {
            let open = close * (1.0 + draw(0.001));
            close = open * (1.0 + draw(0.01));
            let (high, low) = (open.max(close) * 1.001, open.min(close) * 0.999);
            Bar { open, high, low, close, half_spread: 0.0002, sigma: 0.01, volume: 1e5, ..Bar::flat(close) }
        })
        .collect()
}

/// Cash that goes in and out by hand, beside the account: what was paid for units, what was received for them.
#[test]
fn equity_is_cash_and_what_the_position_is_worth() {
    for seed in 0..20 {
        let mut random = SplitMix::new(seed);
        let params = Params { fee: 0.0005, impact: 1.0, leverage: 2.0, owned: seed % 2 == 0, ..Params::default() };
        let bars = walk(&mut random, 2000);
        let mut account = Account::new(&params);
        let (mut cash, mut units) = (params.capital, 0.0);
        for pair in bars.windows(2) {
            let action = [-1.0, 0.0, 0.5, 1.0, f64::NAN][random.below(5)];
            let outcome = step(&params, &mut account, Action::target(action), &pair[0], &pair[1]);
            for fill in [outcome.fill, outcome.exit] {
                cash -= fill.quantity * fill.price + params.fee * (fill.quantity * fill.price).abs();
                units += fill.quantity;
            }
            assert!((units - account.quantity).abs() < 1e-9 * params.capital);
            let worth = cash + units * pair[1].close;
            assert!((worth - account.equity).abs() < 1e-9 * params.capital, "{worth} {}", account.equity);
        }
        // Costs by kind are all that lies between what was traded at the open and what was paid.
        let flows = account.flows;
        assert!((flows.fee - flows.traded * 0.0005).abs() < 1e-6 && flows.spread > 0.0 && flows.impact > 0.0);
        assert_eq!((flows.swap, flows.borrow, flows.funding, flows.dividend), (0.0, 0.0, 0.0, 0.0));
    }
}

/// The same quantities at a higher cost never end with more.
#[test]
fn more_cost_never_helps_fixed_quantities() {
    for seed in 0..20 {
        let mut random = SplitMix::new(seed);
        let bars = walk(&mut random, 1000);
        let actions: Vec<f64> = bars.iter().map(|_| [-1.0, 0.0, 1.0][random.below(3)]).collect();
        // A fixed number of units that margin never cuts, and no liquidation.
        let params = Params {
            lots: 10.0,
            leverage: 100.0,
            maintenance: 0.0,
            liquidation: 0.0,
            fee: 0.0005,
            impact: 1.0,
            swap_long: 0.03,
            borrow: 0.01,
            ..Params::default()
        };
        let ends: Vec<f64> = [0.0, 0.5, 1.0, 2.0, 3.0]
            .iter()
            .map(|multiple| {
                let params = params.with_costs(*multiple);
                let mut account = Account::new(&params);
                for (pair, action) in bars.windows(2).zip(&actions) {
                    step(&params, &mut account, Action::target(*action), &pair[0], &pair[1]);
                }
                assert!(*multiple > 0.0 || account.flows.costs() == 0.0);
                account.equity
            })
            .collect();
        assert!(ends.windows(2).all(|pair| pair[1] < pair[0]), "{ends:?}");
        // And what it costs is what is missing, but for the fee on the spread.
        let once = ends[0] - ends[2];
        assert!((ends[0] - ends[3] - 2.0 * once).abs() < 1e-4 * once, "{ends:?}");
    }
}

/// A policy that knows nothing loses what it pays: over many accounts the mean is minus the costs.
#[test]
fn a_random_policy_loses_its_costs() {
    let (mut gained, mut squares, mut costs, n) = (0.0, 0.0, 0.0, 400);
    for seed in 0..n {
        let mut random = SplitMix::new(1000 + seed);
        let bars = walk(&mut random, 500);
        let params = Params { fee: 0.001, fraction: 0.5, ..Params::default() };
        let mut account = Account::new(&params);
        for pair in bars.windows(2) {
            let action = if random.below(5) == 0 { [-1.0, 0.0, 1.0][random.below(3)] } else { f64::NAN };
            step(&params, &mut account, Action::target(action), &pair[0], &pair[1]);
        }
        let net = account.equity - params.capital + account.flows.costs();
        gained += net;
        squares += net * net;
        costs += account.flows.costs();
    }
    let n = n as f64;
    let (mean, error) = (gained / n, (squares / n / n).sqrt());
    assert!(mean.abs() < 3.0 * error, "{mean} ± {error} before costs");
    assert!(costs / n > 10.0 * error, "costs of {} stand out", costs / n);
}
