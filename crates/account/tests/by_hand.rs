//! Cases that can be followed with a pencil: each states its arithmetic.

use account::{Account, Accounts, Action, Bar, Event, Orders, Params, Portfolio, step};

const LONG: Action = Action { target: 1.0, stop: 0.0, limit: 0.0 };
const SHORT: Action = Action { target: -1.0, stop: 0.0, limit: 0.0 };

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

/// A bar from one price to another, in the account's currency.
fn bar(open: f64, close: f64) -> Bar {
    Bar { open, high: open.max(close), low: open.min(close), close, ..Bar::flat(close) }
}

#[test]
fn a_decision_fills_at_the_next_open_and_not_at_the_close() {
    let params = Params::default();
    let mut account = Account::new(&params);
    // Decided at 100; the next bar opens at 110 and closes at 121. 1,000 units were wanted, 100,000 / 110 = 909.09 can
    // be paid, and they gain 11 each. The gap from 100 to 110 belongs to nobody.
    step(&params, &mut account, LONG, &bar(100.0, 100.0), &bar(110.0, 121.0));
    near(account.quantity, 100_000.0 / 110.0);
    near(account.equity, 110_000.0);
    // Said again: nothing trades. Turned: the old position carries the gap to 130, the new one starts there.
    step(&params, &mut account, LONG, &bar(110.0, 121.0), &bar(121.0, 121.0));
    near(account.quantity, 100_000.0 / 110.0);
    let outcome = step(&params, &mut account, SHORT, &bar(121.0, 121.0), &bar(130.0, 120.0));
    let equity = 110_000.0 + 100_000.0 / 110.0 * 9.0;
    near(outcome.equity_open, equity);
    // 110,000 / 121 units were wanted short, at the close before; margin allows equity / 130, which is more.
    near(account.quantity, -110_000.0 / 121.0);
    near(account.equity, equity + 110_000.0 / 121.0 * 10.0);
    near(outcome.reward, (account.equity / 110_000.0).ln());
}

#[test]
fn usdjpy_in_a_dollar_account_converts_profits_not_the_notional() {
    // One unit is one dollar, its price is in yen. A yen is worth 1/price dollars, at every moment.
    let yen = |open: f64, close: f64| Bar { fx_open: 1.0 / open, fx_close: 1.0 / close, ..bar(open, close) };
    let params = Params { fee_per_unit: 0.01, ..Params::default() };
    let mut account = Account::new(&params);
    // 100,000 dollars long at 150 yen; the fee is 0.01 yen a unit, 1,000 yen / 150 = 6.67 dollars, and what is bought
    // is a little less than everything: q + q · 0.01 / 150 = 100,000.
    let quantity = 100_000.0 / (1.0 + 0.01 / 150.0);
    step(&params, &mut account, LONG, &yen(150.0, 150.0), &yen(150.0, 153.0));
    near(account.quantity, quantity);
    // 3 yen a unit, at 1/153.
    near(account.equity, 100_000.0 - quantity * 0.01 / 150.0 + quantity * 3.0 / 153.0);
}

#[test]
fn an_es_contract_moves_fifty_dollars_a_point() {
    let params = Params {
        capital: 300_000.0,
        multiplier: 50.0,
        lot: 1.0,
        tick: 0.25,
        fee_per_unit: 2.25,
        leverage: 10.0,
        lots: 2.0,
        ..Params::default()
    };
    let mut account = Account::new(&params);
    // Two contracts at 5,000.10 plus half a spread of 0.5 bp (0.25): 5,000.35, rounded up to 5,000.50.
    let now = Bar { half_spread: 0.00005, ..bar(5000.0, 5000.0) };
    let outcome = step(&params, &mut account, LONG, &now, &bar(5000.1, 5010.1));
    assert_eq!((outcome.fill.quantity, outcome.fill.price), (2.0, 5000.5));
    // 10 points gained from the open, 0.40 points lost at the fill, two fees.
    near(account.equity, 300_000.0 + 2.0 * 50.0 * 10.0 - 2.0 * 50.0 * 0.4 - 2.0 * 2.25);
    near(account.flows.fee, 4.5);
    near(account.flows.spread, 40.0);
    near(account.flows.traded, 2.0 * 50.0 * 5000.5);
}

#[test]
fn a_perpetual_pays_funding_for_the_position_before_the_fill() {
    let params = Params { leverage: 2.0, ..Params::default() };
    let mut account = Account::new(&params);
    let flat = bar(50_000.0, 50_000.0);
    step(&params, &mut account, LONG, &flat, &flat);
    near(account.quantity, 2.0);
    // Funding falls due at the next open, at which the position turns: the long pays 2 · 50,000 · 0.0001 = 10.
    let funding = Bar { funding_open: 50_000.0 * 0.0001, ..flat };
    step(&params, &mut account, SHORT, &flat, &funding);
    near(account.equity, 99_990.0);
    // Inside a bar the position after the fill pays; a short one receives.
    let short = account.quantity;
    let inside = Bar { funding_inside: 50_000.0 * 0.0001, ..flat };
    step(&params, &mut account, SHORT, &flat, &inside);
    near(account.equity, 99_990.0 - short * 5.0);
    assert!(short < 0.0 && account.equity > 99_990.0);
    near(account.flows.funding, 10.0 + short * 5.0);
}

#[test]
fn a_share_is_worth_the_same_over_a_dividend_and_a_split() {
    for (action, side) in [(LONG, 1.0), (SHORT, -1.0)] {
        let params = Params { owned: true, fraction: 0.5, borrow: 0.0365, ..Params::default() };
        let mut account = Account::new(&params);
        step(&params, &mut account, action, &bar(100.0, 100.0), &bar(100.0, 100.0));
        near(account.quantity, side * 500.0);
        // 2 dollars of dividend, and the price opens 2 lower: nothing gained, nothing lost.
        let ex = Bar { dividend: 2.0, ..bar(98.0, 98.0) };
        step(&params, &mut account, action, &bar(100.0, 100.0), &ex);
        near(account.equity, 100_000.0);
        near(account.flows.dividend, -side * 1000.0);
        // Two for one: 1,000 shares at 49.
        let split = Bar { split: 2.0, ..bar(49.0, 49.0) };
        step(&params, &mut account, action, &ex, &split);
        near(account.quantity, side * 1000.0);
        near(account.equity, 100_000.0);
        near(account.entry, 50.0);
        // Three days over a weekend: a short borrows 49,000 at 3.65 % a year, 0.01 % a day.
        let monday = Bar { borrow_open: 3.0 / 365.0, ..bar(49.0, 49.0) };
        step(&params, &mut account, action, &split, &monday);
        near(account.equity, if side > 0.0 { 100_000.0 } else { 100_000.0 - 14.7 });
    }
}

#[test]
fn a_delisted_share_is_closed_at_its_last_close_at_cost() {
    let params = Params { owned: true, fee: 0.001, fraction: 0.5, ..Params::default() };
    let mut account = Account::new(&params);
    step(&params, &mut account, LONG, &bar(10.0, 10.0), &bar(10.0, 10.0));
    // 5,000 shares, 50 of fee. The last bar falls to 4; half a spread of 1 % is lost on the way out.
    let last = Bar { close_out: 1.0, half_spread: 0.01, ..bar(10.0, 4.0) };
    let outcome = step(&params, &mut account, LONG, &bar(10.0, 10.0), &last);
    assert!(outcome.events.contains(Event::ClosedOut) && account.quantity == 0.0);
    near(outcome.exit.price, 3.96);
    near(account.equity, 100_000.0 - 50.0 - 5000.0 * 6.0 - 5000.0 * 0.04 - 5000.0 * 3.96 * 0.001);
    // The share is gone and the account goes on with another, or with nothing.
    step(&params, &mut account, Action::target(0.0), &last, &bar(4.0, 1.0));
    near(account.equity, 69_730.2);
}

#[test]
fn a_margin_call_cuts_and_a_liquidation_closes() {
    let params = Params { leverage: 4.0, fraction: 4.0, maintenance: 0.2, liquidation: 0.1, ..Params::default() };
    let mut account = Account::new(&params);
    let flat = bar(100.0, 100.0);
    step(&params, &mut account, LONG, &flat, &flat);
    near(account.quantity, 4000.0);
    // At 93: equity 72,000 on 372,000 of notional is 19.4 %, below 20 %. The next open cuts to 4 · 72,000 / 93.
    let low = bar(100.0, 93.0);
    step(&params, &mut account, LONG, &flat, &low);
    near(account.equity, 72_000.0);
    let outcome = step(&params, &mut account, LONG, &low, &bar(93.0, 93.0));
    assert!(outcome.events.contains(Event::MarginCall));
    let held = 4.0 * 72_000.0 / 93.0;
    near(account.quantity, held);
    // Then it falls through: equity 72,000 + q (p - 93) meets a tenth of q · p at p = (93 q - 72,000) / 0.9 q.
    let price = (93.0 * held - 72_000.0) / (0.9 * held);
    let outcome = step(&params, &mut account, LONG, &bar(93.0, 93.0), &bar(93.0, 60.0));
    assert!(outcome.events.contains(Event::Liquidated) && account.quantity == 0.0);
    near(outcome.exit.price, price);
    near(account.equity, 72_000.0 + held * (price - 93.0));
    // A gap behind that price is paid in full.
    let mut account = Account::new(&params);
    step(&params, &mut account, LONG, &flat, &flat);
    let outcome = step(&params, &mut account, LONG, &flat, &bar(74.0, 90.0));
    assert!(outcome.events.contains(Event::Ruined) || outcome.events.contains(Event::Liquidated));
    near(account.equity, 100_000.0 - 4000.0 * 26.0);
    assert!(account.terminated && outcome.reward.is_finite());
}

#[test]
fn stop_and_limit_in_one_bar_is_the_stop() {
    let params = Params::default();
    let both = Bar { open: 100.0, high: 110.0, low: 95.0, close: 108.0, ..Bar::flat(108.0) };
    for (stop, limit, low, price, event) in [
        (0.04, 0.05, 95.0, 96.0, Event::Stopped),
        (0.06, 0.05, 95.0, 105.0, Event::Limited),
        (0.05, 0.05, 95.0, 95.0, Event::Stopped),
    ] {
        let mut account = Account::new(&params);
        let bracket = Action { target: 1.0, stop, limit };
        let outcome = step(&params, &mut account, bracket, &Bar::flat(100.0), &Bar { low, ..both });
        assert!(outcome.events.contains(event), "{stop} {limit}");
        near(account.equity, 1000.0 * price);
    }
    // On a later bar the stop fills at the worse of stop and open.
    let mut account = Account::new(&params);
    step(&params, &mut account, Action { target: 1.0, stop: 0.04, limit: 0.0 }, &Bar::flat(100.0), &Bar::flat(100.0));
    let outcome = step(&params, &mut account, LONG, &Bar::flat(100.0), &bar(90.0, 100.0));
    assert!(outcome.events.contains(Event::Stopped));
    near(account.equity, 90_000.0);
}

#[test]
fn volume_caps_increases_and_prices_them() {
    let params = Params { volume_cap: 0.01, impact: 1.0, ..Params::default() };
    let mut account = Account::new(&params);
    let known = Bar { volume: 10_000.0, sigma: 0.02, ..Bar::flat(100.0) };
    // 1,000 wanted, 100 a bar. Impact: 0.02 · √(100 / 10,000) = 0.2 %.
    for n in 1..=3 {
        step(&params, &mut account, LONG, &known, &known);
        near(account.quantity, f64::from(n) * 100.0);
        near(account.flows.impact, f64::from(n) * 100.0 * 100.0 * 0.002);
    }
    // Leaving is not capped, and costs 0.02 · √(300 / 10,000).
    let before = account.flows.impact;
    step(&params, &mut account, Action::target(0.0), &known, &known);
    assert_eq!(account.quantity, 0.0);
    near(account.flows.impact - before, 300.0 * 100.0 * 0.02 * 0.03f64.sqrt());
}

#[test]
fn a_band_lets_small_changes_pass() {
    let params = Params { band: 0.05, ..Params::default() };
    let mut account = Account::new(&params);
    let flat = Bar::flat(100.0);
    for (target, held) in
        [(0.5, 500.0), (0.54, 500.0), (0.56, 560.0), (0.52, 560.0), (0.0, 0.0), (0.01, 10.0), (-0.01, -10.0)]
    {
        step(&params, &mut account, Action::target(target), &flat, &flat);
        near(account.quantity, held);
    }
}

#[test]
fn nothing_fills_without_a_price() {
    let params = Params::default();
    let mut account = Account::new(&params);
    let missing = Bar { tradable: 0.0, open: f64::NAN, ..Bar::flat(100.0) };
    step(&params, &mut account, LONG, &Bar::flat(100.0), &missing);
    assert_eq!((account.quantity, account.target), (0.0, 1000.0));
    // Oil on 2020-04-20: the price is valid and below zero. What is held is marked, nothing trades.
    step(&params, &mut account, LONG, &Bar::flat(100.0), &Bar::flat(100.0));
    near(account.quantity, 1000.0);
    let mut account = Account { quantity: 10.0, target: 10.0, action: 1.0, mark: 10.0, ..Account::new(&params) };
    let below = Bar { open: -5.0, high: 1.0, low: -40.0, close: -37.0, ..Bar::flat(1.0) };
    step(&params, &mut account, Action::target(0.0), &Bar::flat(10.0), &below);
    assert_eq!(account.quantity, 10.0);
    near(account.equity, 100_000.0 - 470.0);
}

#[test]
fn an_account_that_closing_ruins_has_ended() {
    let params =
        Params { capital: 1000.0, lots: 10.0, leverage: 10.0, liquidation: 0.0, fee: 0.5, ..Params::default() };
    let (now, last) = (bar(100.0, 100.0), Bar { close_out: 1.0, ..bar(100.0, 53.0) });
    let (mut account, mut lanes) = (Account::new(&params), Accounts::new(&[params]));
    // Half of 1,000 is the fee; 10 units lose 470, and 30 is above ruin; to sell them for 530 costs 265.
    let outcome = step(&params, &mut account, LONG, &now, &last);
    near(account.equity, 500.0 - 470.0 - 265.0);
    assert!(account.terminated && account.quantity == 0.0);
    assert!(outcome.events.contains(Event::ClosedOut) && outcome.events.contains(Event::Ruined));
    lanes.step(Orders::targets(&[1.0]), &now, &last);
    assert_eq!((lanes.account(0), lanes.events(0)), (account, outcome.events));
    let mut portfolio = Portfolio::new(&params, 1);
    portfolio.step(&[params], &[1.0], &[(now, last)]);
    near(portfolio.equity, account.equity);
    assert!(portfolio.terminated);
    // Nothing happens to it any more.
    assert_eq!(step(&params, &mut account, LONG, &last, &now).reward, 0.0);
}

#[test]
fn all_of_the_cash_buys_what_it_can_pay_spread_included() {
    let params = Params { owned: true, fee: 0.001, ..Params::default() };
    let mut account = Account::new(&params);
    // Half a spread of 1 %: 101 a share, and a fee of 0.101. 100,000 / 101.101 shares, worth 100 each behind the fill.
    let now = Bar { half_spread: 0.01, ..Bar::flat(100.0) };
    step(&params, &mut account, LONG, &now, &Bar::flat(100.0));
    near(account.quantity, 100_000.0 / 101.101);
    near(account.equity, 100_000.0 / 101.101 * 100.0);
}

#[test]
fn a_position_below_zero_is_closed_out_at_its_price() {
    let params = Params { fee: 0.001, leverage: 10.0, ..Params::default() };
    let held = Account { quantity: 100.0, target: 100.0, action: 1.0, mark: 10.0, ..Account::new(&params) };
    let mut account = held;
    let last =
        Bar { open: 5.0, high: 5.0, low: -40.0, close: -37.0, close_out: 1.0, half_spread: 0.01, ..Bar::flat(1.0) };
    step(&params, &mut account, LONG, &Bar::flat(10.0), &last);
    // 47 lost a unit, and a fee on the size of the price.
    near(account.equity, 100_000.0 - 100.0 * 47.0 - 0.001 * 100.0 * 37.0);
    assert_eq!(account.quantity, 0.0);
}

#[test]
fn a_portfolio_of_one_is_an_account() {
    let params = Params { fee: 0.001, owned: true, ..Params::default() };
    let (mut account, mut portfolio) = (Account::new(&params), Portfolio::new(&params, 1));
    let prices = [100.0, 103.0, 99.0, 104.0, 104.0, 98.0, 120.0];
    let actions = [1.0, 1.0, 0.5, -1.0, -1.0, 0.0];
    let bars: Vec<Bar> = prices.windows(2).map(|w| bar(w[0], w[1])).collect();
    for (at, target) in actions[..5].iter().enumerate() {
        step(&params, &mut account, Action::target(*target), &bars[at], &bars[at + 1]);
        portfolio.step(&[params], &[*target], &[(bars[at], bars[at + 1])]);
        near(portfolio.equity, account.equity);
        near(portfolio.quantity(0), account.quantity);
    }
    near(portfolio.earned(0), portfolio.equity - 100_000.0);
}

#[test]
fn a_portfolio_shares_its_margin() {
    let params = [Params { fee: 0.01, owned: true, band: 0.2, band_of_target: true, ..Params::default() }; 2];
    let mut portfolio = Portfolio::new(&params[0], 2);
    let flat = [(Bar::flat(100.0), Bar::flat(100.0)), (Bar::flat(50.0), Bar::flat(50.0))];
    // Weights of 1 and 1 are twice what there is: each is cut by the same share, fees counted. 100,000 = 2 · v · 1.01.
    portfolio.step(&params, &[1.0, 1.0], &flat);
    near(portfolio.value(&params[0], 0), 100_000.0 / 2.02);
    near(portfolio.value(&params[1], 1), 100_000.0 / 2.02);
    // One is sold and the other bought in one step: what is sold pays for it.
    portfolio.step(&params, &[0.0, 1.0], &flat);
    assert_eq!(portfolio.quantity(0), 0.0);
    let gross = portfolio.gross(&params);
    near(gross, portfolio.equity);
    // A symbol without a bar waits.
    let closed = [flat[0], (Bar::flat(50.0), Bar { tradable: 0.0, ..Bar::flat(50.0) })];
    let before = portfolio.quantity(1);
    portfolio.step(&params, &[0.0, 0.0], &closed);
    assert_eq!(portfolio.quantity(1), before);
    portfolio.step(&params, &[f64::NAN, f64::NAN], &flat);
    assert_eq!(portfolio.quantity(1), 0.0);
    near(portfolio.flows().fee, portfolio.flows().traded * 0.01);
}
