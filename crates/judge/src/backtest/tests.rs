//! Walks through accounts: what they keep, and what a record says of them.

use super::*;
use account::{Account, Action, step};
use bars::synth::Synth;
use bars::{Bars, Timeframe};
use features::{Clock, Span};
use market::{AccountOptions, PriceTable};

fn market(symbols: usize, bars: usize) -> Vec<Bars> {
    let timeframe = Timeframe::H1;
    Synth { symbols, bars, timeframe, ragged: symbols > 1, ..Synth::default() }.make_market(3).market
}

struct Case {
    market: Vec<Bars>,
    clock: Clock,
    table: PriceTable,
}

impl Case {
    fn new(market: Vec<Bars>) -> Case {
        let table = PriceTable::new(&market, &AccountOptions::default(), None).unwrap();
        Case { clock: Clock::new(&market), market, table }
    }

    fn course(&self) -> Course<'_> {
        let times = &self.clock.times;
        let span = Span::new(times[0], times[times.len() - 1] + 1).unwrap();
        Course { market: &self.market, clock: &self.clock, table: &self.table, span, delisting_return: 0.0 }
    }

    /// Targets that change now and then.
    fn targets(&self, weight: f64) -> Targets {
        let mut targets = Targets::none(&self.market);
        for (symbol, own) in targets.actions.iter_mut().enumerate() {
            for (t, action) in own.iter_mut().enumerate() {
                *action = Action::target(weight * [1.0, 1.0, 0.0, -1.0][(t / 17 + symbol) % 4]);
            }
        }
        targets
    }
}

#[test]
fn a_walk_is_the_account_step_by_step() {
    let case = Case::new(market(1, 800));
    let targets = case.targets(1.0);
    let walked = walk(&case.course(), &case.table.params, &targets);
    let params = case.table.params[0];
    let mut account = Account::new(&params);
    let bars = case.table.symbol(0);
    for t in 0..bars.len() - 1 {
        let mut next = bars[t + 1];
        if t + 2 == bars.len() {
            next.close_out = 1.0;
        }
        step(&params, &mut account, targets.actions[0][t], &bars[t], &next);
        assert_eq!(walked.equity[t + 1].to_bits(), account.equity.to_bits());
    }
    assert_eq!(walked.times, case.market[0].end[1..]);
    // Round trips earn what the account earned, and nothing is left open.
    let earned: f64 = walked.trades.iter().map(|trade| trade.result).sum();
    assert!((earned - (account.equity - params.capital)).abs() < 1e-6, "{earned}");
    assert!(walked.trades.len() > 20 && account.quantity == 0.0);
    assert!(walked.trades.windows(2).all(|pair| pair[0].closed <= pair[1].opened));
}

#[test]
fn a_portfolio_earns_what_its_symbols_earn() {
    let case = Case::new(market(6, 500));
    let walked = walk(&case.course(), &case.table.params, &case.targets(0.2));
    let capital = case.table.params[0].capital;
    let end = walked.equity[walked.equity.len() - 1];
    let symbols: f64 = walked.earned.iter().sum();
    assert!((end - capital - symbols).abs() < 1e-6, "{end} {symbols}");
    let trades: f64 = walked.trades.iter().map(|trade| trade.result).sum();
    assert!((trades - symbols).abs() < 1e-6, "{trades} {symbols}");
    assert!(walked.exposure.iter().all(|share| *share <= 1.5));
    assert_eq!(walked.equity.len(), walked.times.len() + 1);
}

#[test]
fn decisions_of_the_future_change_nothing_before() {
    for symbols in [1, 4] {
        let case = Case::new(market(symbols, 400));
        let targets = case.targets(1.0 / symbols as f64);
        let whole = walk(&case.course(), &case.table.params, &targets);
        let mut poisoned = targets.clone();
        for own in &mut poisoned.actions {
            let from = own.len() / 2;
            own[from..].iter_mut().for_each(|action| action.target = -0.7);
        }
        let changed = walk(&case.course(), &case.table.params, &poisoned);
        let early = case.market.iter().map(|bars| bars.end[bars.len() / 2]).min().unwrap();
        let same = whole.times.iter().take_while(|time| **time <= early).count();
        assert!(same > 50);
        assert_eq!(whole.equity[..=same], changed.equity[..=same], "{symbols} symbols");
    }
}

#[test]
fn a_record_replays_costs_and_delay() {
    let case = Case::new(market(1, 3000));
    let (record, walked) = backtest(&case.course(), &case.targets(1.0), &[(1, 0)], 2).unwrap();
    let returns: Vec<f64> = record.multiples.iter().map(|m| m.total_return).collect();
    assert!(returns.windows(2).all(|pair| pair[1] < pair[0]), "{returns:?}");
    assert!((record.multiples[1].total_return - record.net.total_return).abs() < 1e-12);
    assert_eq!((record.gross_return, record.net.round_trips.count), (returns[0], walked.trades.len()));
    assert_ne!(record.delayed.total_return, record.net.total_return);
    let years: f64 = record.years.iter().map(|part| (1.0 + part.total_return).ln()).sum();
    assert!((years - (1.0 + record.net.total_return).ln()).abs() < 1e-9);
    assert_eq!(record.years.iter().map(|part| part.trades).sum::<usize>(), walked.trades.len());
    assert_eq!(record.folds.len(), 1);
    // Nothing decided, nothing earned.
    let (none, _) = backtest(&case.course(), &Targets::none(&case.market), &[], 2).unwrap();
    assert_eq!((none.net.total_return, none.costs.total, none.break_even_bp_per_side), (0.0, 0.0, None));
    assert!(record.hold_return != 0.0 && record.hold_return == none.hold_return);
}

#[test]
fn a_suspected_split_closes_and_is_listed() {
    let mut bars = market(1, 300);
    let own = &mut bars[0];
    own.segments = vec![0, 150];
    for column in [&mut own.open, &mut own.high, &mut own.low, &mut own.close] {
        column[150..].iter_mut().for_each(|price| *price /= 10.0);
    }
    let case = Case::new(bars);
    let (record, walked) = backtest(&case.course(), &buy_and_hold(&case.market, &case.clock), &[], 2).unwrap();
    assert!(record.net.total_return > -0.5, "the jump is no loss: {}", record.net.total_return);
    let split = record.incidents.iter().find(|kind| kind.what == "suspected split").unwrap();
    assert!(split.count == 1 && split.if_real.unwrap() < -80_000.0, "{split:?}");
    // It is bought again behind the jump.
    assert_eq!(walked.trades.len(), 2);
}
