//! Walks through accounts: what they keep, and what a record says of them.

use super::*;
use account::{Account, Action, step};
use bars::synth::Synth;
use bars::{Bars, Timeframe};
use features::{Clock, Span};
use market::{AccountOptions, Constant, Needs, OBSERVED, Policy, PriceTable, Targets, View};
use std::sync::Arc;

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

    fn follower(&self, horizon: usize, portfolio: PortfolioRule) -> Follower<'_> {
        Follower { market: &self.market, table: Some(&self.table), horizon, portfolio, barriers: Arc::default() }
    }

    /// Targets that change now and then.
    fn targets(&self, weight: f64) -> Targets {
        let side = |symbol: usize, t: usize| weight * [1.0, 1.0, 0.0, -1.0][(t / 17 + symbol) % 4];
        let symbols = self.market.iter().enumerate();
        symbols.flat_map(|(symbol, bars)| (0..bars.len()).map(move |t| side(symbol, t))).collect()
    }
}

#[test]
fn a_walk_is_the_account_step_by_step() {
    let case = Case::new(market(1, 800));
    let targets = case.targets(1.0);
    let walked = walk(&case.course(), &case.table.params, &targets).unwrap();
    let params = case.table.params[0];
    let mut account = Account::new(&params);
    let bars = case.table.symbol(0);
    for t in 0..bars.len() - 1 {
        let mut next = bars[t + 1];
        if t + 2 == bars.len() {
            next.close_out = 1.0;
        }
        step(&params, &mut account, targets.actions[t], &bars[t], &next);
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
    let walked = walk(&case.course(), &case.table.params, &case.targets(0.2)).unwrap();
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
        let whole = walk(&case.course(), &case.table.params, &targets).unwrap();
        let mut poisoned = targets.clone();
        for symbol in 0..symbols {
            let rows = case.clock.rows(symbol);
            poisoned.actions[rows.start + rows.len() / 2..rows.end].iter_mut().for_each(|action| action.target = -0.7);
        }
        let changed = walk(&case.course(), &case.table.params, &poisoned).unwrap();
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
    let (none, _) = backtest(&case.course(), &Targets::none(case.table.bars.len()), &[], 2).unwrap();
    assert_eq!((none.net.total_return, none.costs.total, none.break_even_bp_per_side), (0.0, 0.0, None));
    assert!(record.hold_return != 0.0 && record.hold_return == none.hold_return);
}

#[test]
fn ratios_are_of_what_is_earned_beyond_money_without_risk() {
    let mut case = Case::new(market(1, 3000));
    let targets = case.targets(1.0);
    let (plain, _) = backtest(&case.course(), &targets, &[(1, 0)], 1).unwrap();
    case.table.risk_free = 0.05;
    let (net, _) = backtest(&case.course(), &targets, &[(1, 0)], 1).unwrap();
    let daily = 0.05 / net.net.days_per_year;
    let deviation = plain.net.volatility_annual.unwrap() / net.net.days_per_year.sqrt();
    let less = plain.net.sharpe_daily.unwrap() - daily / deviation;
    assert!((net.net.sharpe_daily.unwrap() - less).abs() < 1e-9, "{:?} and {less}", net.net.sharpe_daily);
    assert!(net.net.sortino_annual < plain.net.sortino_annual && net.hold_sharpe_annual < plain.hold_sharpe_annual);
    assert_ne!(net.net.benchmark.unwrap().alpha_annual, plain.net.benchmark.unwrap().alpha_annual);
    assert_eq!((net.net.total_return, net.costs.fee), (plain.net.total_return, plain.costs.fee));
    assert!(net.multiples[2].sharpe_annual < plain.multiples[2].sharpe_annual);
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
    let (record, walked) = backtest(&case.course(), &buy_and_hold(&case.clock), &[], 2).unwrap();
    assert!(record.net.total_return > -0.5, "the jump is no loss: {}", record.net.total_return);
    let split = record.incidents.iter().find(|kind| kind.what == "suspected split").unwrap();
    assert!(split.count == 1 && split.if_real.unwrap() < -80_000.0, "{split:?}");
    // It is bought again behind the jump.
    assert_eq!(walked.trades.len(), 2);
}

/// Targets of one symbol that know the sign of the move from the next open on, right so often.
fn informed(bars: &Bars, right: f64, seed: u64) -> Targets {
    let mut random = random::SplitMix::new(seed);
    let knows = |t: usize| {
        let ahead = (t + 25).min(bars.len() - 1);
        let up = bars.open[ahead] > bars.open[(t + 1).min(ahead)];
        if (random.unit() < right) == up { 1.0 } else { -1.0 }
    };
    let mut side = 0.0;
    let mut knows = knows;
    let actions = (0..bars.len()).map(|t| {
        if t % 24 == 0 {
            side = knows(t);
        }
        side
    });
    actions.collect()
}

#[test]
fn shifted_positions_are_what_chance_earns() {
    let case = Case::new(market(1, 7 * 400));
    let bars = &case.market[0];
    let test = |targets: &Targets| shift_positions(&case.course(), targets, 2, 1, 2).unwrap();
    let knows = test(&informed(bars, 0.7, 3));
    assert!(knows.p < 0.01 && knows.sharpe_daily > knows.high && knows.draws >= 380, "{knows:?}");
    // It is the Sharpe ratio of the walk itself.
    let (record, _) = backtest(&case.course(), &informed(bars, 0.7, 3), &[], 1).unwrap();
    assert!((record.net.sharpe_daily.unwrap() - knows.sharpe_daily).abs() < 1e-9, "{record:?}");
    // Of those that know nothing few are better than nineteen of twenty shifts.
    let lucky = (0..20).filter(|seed| test(&informed(bars, 0.5, 100 + seed)).p <= 0.05).count();
    assert!(lucky <= 4, "{lucky} of 20");
    // Threads change nothing, and few days are not judged.
    assert_eq!(shift_positions(&case.course(), &informed(bars, 0.7, 3), 2, 1, 1), Ok(knows));
    let short = Case::new(market(1, 7 * 150));
    let why = shift_positions(&short.course(), &Constant(f64::NAN), 1, 1, 1).unwrap_err();
    assert!(why.contains("200 are needed"), "{why}");
}

#[test]
fn a_symbol_that_carries_a_portfolio_is_named() {
    let case = Case::new(market(12, 400));
    // One symbol knows its next open, the others never trade much.
    let mut targets = case.targets(1e-4);
    let bars = &case.market[7];
    let first = case.clock.rows(7).start;
    for t in 0..bars.len() - 2 {
        let side = if bars.open[t + 2] > bars.open[t + 1] { 0.5 } else { -0.5 };
        targets.actions[first + t] = Action::target(side);
    }
    let (record, _) = backtest(&case.course(), &targets, &[(1, 0)], 1).unwrap();
    let found = crate::evidence::Findings::new(Some(&record), None, 1);
    let (symbol, share) = found.best_symbol.clone().unwrap();
    assert!(symbol == bars.symbol && share > 0.9 && found.symbols == 12, "{symbol} {share}");
    let said = found.weigh("run");
    assert!(said.suspicions.iter().any(|line| line.contains(&format!("{symbol} alone earned"))), "{said:?}");
}

#[test]
fn scores_that_change_hands_are_what_chance_earns() {
    let made = Synth { symbols: 24, bars: 300, timeframe: Timeframe::D1, ..Synth::default() }.make_market(5).market;
    let case = Case::new(made);
    let scores = |right: f64| -> Arc<Beliefs> {
        let mut random = random::SplitMix::new(9);
        let score = |bars: &Bars| {
            (0..bars.len())
                .map(|t| {
                    let ahead = (t + 6).min(bars.len() - 1);
                    let up = bars.open[ahead] > bars.open[(t + 1).min(ahead)];
                    let up = if (random.unit() < right) == up { 0.6 } else { 0.4 };
                    Some([1.0 - up + 0.01 * random.unit(), up])
                })
                .collect::<Beliefs>()
        };
        Arc::new(case.market.iter().flat_map(score).collect())
    };
    let course = case.course();
    let portfolio = |beliefs| case.follower(5, PortfolioRule::default()).policy(beliefs);
    let test = |beliefs: &Arc<Beliefs>, threads| permute_scores(&course, beliefs, &portfolio, 3, threads).unwrap();
    let knows = test(&scores(0.9), 2);
    assert!(knows.p < 0.005 && knows.sharpe_daily > knows.high, "{knows:?}");
    let random = test(&scores(0.5), 2);
    assert!(random.p > 0.01, "{random:?}");
    assert_eq!(test(&scores(0.5), 1), random);
}

#[test]
fn a_portfolio_that_knows_is_told_from_chance() {
    let case = Case::new(market(4, 3000));
    let course = case.course();
    // Knows the next bar of its symbol, or one of a month ago.
    let targets = |late: usize| -> Targets {
        let side = |bars: &Bars, t: usize| {
            let at = t.checked_sub(late).map_or(0, |t| (t + 1).min(bars.len() - 1));
            0.25 * (bars.close[at] - bars.open[at]).signum()
        };
        case.market.iter().flat_map(|bars| (0..bars.len()).map(move |t| side(bars, t))).collect()
    };
    let test = |late: usize, threads: usize| shift_portfolio(&course, &targets(late), 3, threads).unwrap();
    let knows = test(0, 2);
    assert!(knows.p < 0.01 && knows.sharpe_daily > knows.high && knows.draws >= 199, "{knows:?}");
    let late = test(150, 2);
    assert!(late.p > 0.02, "{late:?}");
    assert_eq!(test(150, 1), late);
    // The Sharpe ratio is that of the walk itself.
    let walked = walk(&course, &case.table.params, &targets(0)).unwrap();
    let (_, returns) = walked.daily_returns();
    let mean = returns.iter().sum::<f64>() / returns.len() as f64;
    let variance = returns.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / (returns.len() - 1) as f64;
    assert!((mean / variance.sqrt() - knows.sharpe_daily).abs() < 1e-9, "{knows:?}");
    let few = Case::new(market(4, 300));
    let why = shift_portfolio(&few.course(), &few.targets(0.2), 3, 1).unwrap_err();
    assert!(why.contains("trading days"), "{why}");
}

/// Holds one side until the position has moved by half a deviation, then turns.
struct Turns;

impl Policy for Turns {
    fn needs(&self) -> Needs {
        Needs { memory: 1, account: true, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> files::Result<()> {
        let shown = view.observed.chunks_exact(OBSERVED).zip(view.legal.chunks_exact(3));
        let share = 1.0 / memory.len() as f64;
        for ((slot, (observed, legal)), action) in view.slots.iter().zip(shown).zip(actions) {
            let side = &mut memory[*slot as usize];
            if *side == 0.0 || observed[2].abs() > 0.5 {
                *side = if *side > 0.0 { -1.0 } else { 1.0 };
            }
            assert!(legal[1], "flat is always legal");
            *action = Action::target(if legal[if *side > 0.0 { 2 } else { 0 }] { *side * share } else { 0.0 });
        }
        Ok(())
    }
}

#[test]
fn who_looks_at_the_account_is_asked_on_the_way_and_replayed() {
    for symbols in [1, 4] {
        let case = Case::new(market(symbols, 900));
        let course = case.course();
        let walked = walk(&course, &case.table.params, &Turns).unwrap();
        assert!(walked.trades.len() > 10, "{} round trips", walked.trades.len());
        // What it decided is walked again at its own cost, and at others.
        let decided = decide(&course, &Turns).unwrap();
        let again = walk(&course, &case.table.params, &decided).unwrap();
        assert_eq!((&again.equity, &again.trades), (&walked.equity, &walked.trades));
        let (record, tested) = backtest(&course, &Turns, &[], 2).unwrap();
        assert_eq!((tested.equity, record.net.round_trips.count), (walked.equity, walked.trades.len()));
        assert!(record.multiples[3].total_return < record.multiples[0].total_return);
    }
}

#[test]
fn lanes_decide_as_each_would_alone() {
    let case = Case::new(market(1, 900));
    let course = case.course();
    let time = |row: usize| case.course().clock.times[row];
    let part = |from: usize, to: usize| Span::new(time(from), time(to)).unwrap();
    let spans = [course.span, part(100, 400), part(400, 700), part(250, 650), part(300, 301)];
    let lanes: Vec<Lane> =
        spans.iter().flat_map(|span| [true, false].map(|keeps| Lane { span: *span, keeps })).collect();
    let ends = decide_beside(&course, &lanes, &Halves).unwrap();
    for (lane, end) in lanes.iter().zip(&ends) {
        let own = Course { span: lane.span, ..course };
        let walked = walk(&own, &case.table.params, &Halves).unwrap();
        assert_eq!(end.steps + 1, walked.equity.len(), "{lane:?}");
        match &end.targets {
            Some(targets) => {
                let bits = |all: &Targets| all.actions.iter().map(|a| a.target.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(targets), bits(&decide(&own, &Halves).unwrap()), "{lane:?}");
            }
            None => assert_eq!(end.growth, walked.equity.last().unwrap() / walked.equity[0], "{lane:?}"),
        }
    }
    assert!(ends[1].growth != 1.0 && ends[9].growth == 1.0, "{} {}", ends[1].growth, ends[9].growth);
}

/// A policy that is asked about many closes at once decides what it decides close by close, whether it goes on as
/// expected for long, turns often, or wants another size at every close.
#[test]
fn who_is_asked_ahead_decides_as_close_by_close() {
    let case = Case::new(market(1, 900));
    let course = case.course();
    let time = |row: usize| case.course().clock.times[row];
    let lanes = [(course.span, true), (Span::new(time(37), time(640)).unwrap(), false)];
    let lanes = lanes.map(|(span, keeps)| Lane { span, keeps });
    for (kind, fewest, most) in [(Moves::Rare, 8, 60), (Moves::Often, 120, 899), (Moves::Always, 200, 900)] {
        let [alone, ahead] = [0, 64].map(|closes_at_once| {
            let policy = Moved { kind, closes_at_once, asked: Default::default() };
            let ends = decide_beside(&course, &lanes, &policy).unwrap();
            (ends, policy.asked.into_inner())
        });
        let bits = |ends: &[LaneEnd]| {
            let targets = ends.iter().filter_map(|end| end.targets.as_ref()).flat_map(|all| &all.actions);
            let targets: Vec<u64> = targets.map(|action| action.target.to_bits()).collect();
            (targets, ends.iter().map(|end| end.growth.to_bits()).collect::<Vec<_>>())
        };
        assert_eq!(bits(&alone.0), bits(&ahead.0), "{kind:?}");
        assert_eq!(alone.1, 900, "{kind:?}: closes one after the other");
        assert!((fewest..=most).contains(&ahead.1), "{kind:?}: asked {} times", ahead.1);
    }
}

#[derive(Debug, Clone, Copy)]
enum Moves {
    Rare,
    Often,
    Always,
}

/// Decides by what is shown of a row and its account alone.
struct Moved {
    kind: Moves,
    closes_at_once: usize,
    asked: std::cell::Cell<usize>,
}

impl Policy for Moved {
    fn needs(&self) -> Needs {
        Needs { account: true, closes_at_once: self.closes_at_once, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> files::Result<()> {
        self.asked.set(self.asked.get() + 1);
        let shown = view.rows.iter().zip(view.observed.chunks_exact(OBSERVED));
        for ((row, observed), action) in shown.zip(actions) {
            let (held, moved) = (f64::from(observed[0]), f64::from(observed[2]));
            *action = Action::target(match self.kind {
                Moves::Rare => [1.0, 1.0, 0.0, -1.0][(*row as usize / 130) % 4],
                Moves::Often if moved.abs() > 0.2 => -held.signum(),
                Moves::Often => [1.0, -1.0, 0.0][(*row as usize / 5) % 3],
                Moves::Always => 0.5 * (0.3 * f64::from(*row)).sin() - 0.25 * held,
            });
        }
        Ok(())
    }
}

/// Wants everything while it has nothing, else half of it.
struct Halves;

impl Policy for Halves {
    fn needs(&self) -> Needs {
        Needs { account: true, ..Needs::default() }
    }

    fn act(&self, view: &View<'_>, _: &mut [f64], actions: &mut [Action]) -> files::Result<()> {
        let held = view.observed.chunks_exact(OBSERVED).map(|observed| observed[0]);
        held.zip(actions).for_each(|(held, action)| *action = Action::target(if held == 0.0 { 0.2 } else { 0.1 }));
        Ok(())
    }
}

#[test]
fn what_is_wanted_at_the_last_close_is_of_an_account_that_was_not_closed() {
    for symbols in [1, 4] {
        let case = Case::new(market(symbols, 300));
        let decided = decide(&case.course(), &Halves).unwrap();
        for rows in case.table.offsets.windows(2).filter(|rows| rows[1] > rows[0] + 2) {
            let [first, last] = [rows[0], rows[1] - 1].map(|row| decided.actions[row].target);
            assert_eq!((first, last), (0.2, 0.1), "{symbols} symbols");
        }
    }
}

#[test]
fn signals_are_asked_beforehand_or_on_the_way() {
    for symbols in [1, 4] {
        let case = Case::new(market(symbols, 500));
        let mut random = random::SplitMix::new(7);
        let mut belief = |_| (random.below(3) > 0).then(|| [random.unit() - 0.5, random.unit() - 0.5]);
        let beliefs: Arc<Beliefs> = Arc::new((0..case.table.bars.len()).map(&mut belief).collect());
        for weighting in [Weighting::Equal, Weighting::Volatility] {
            let rule = PortfolioRule { weighting, ..PortfolioRule::default() };
            let policy = case.follower(6, rule).policy(beliefs.clone());
            let decided = decide_beforehand(&case.clock, &*policy).unwrap();
            let [known, asked] = [&decided as &dyn Policy, &*policy]
                .map(|policy| walk(&case.course(), &case.table.params, policy).unwrap());
            assert!(known.equity == asked.equity && known.trades.len() > 20, "{symbols} symbols, {weighting:?}");
            let most = decided.actions.iter().fold(0.0f64, |most, action| most.max(action.target.abs()));
            assert!(most <= 1.0 + 1e-9 && most > 0.0, "{most}");
        }
    }
}

/// Accounts side by side end with what each gives alone, and count the same round trips.
#[test]
fn accounts_side_by_side_are_walks() {
    let case = Case::new(market(1, 2000));
    let course = case.course();
    let mut targets = case.targets(1.0);
    // Now and then with a stop and a limit, so that positions are also closed inside a bar.
    for (t, action) in targets.actions.iter_mut().enumerate().filter(|(t, _)| t % 5 == 0) {
        (action.stop, action.limit) = (0.004, if t % 2 == 0 { 0.006 } else { 0.0 });
    }
    let late = targets.delayed(1, &case.table.offsets);
    let multiples = [0.0, 1.0, 2.0, 3.0, 1.0];
    let params: Vec<account::Params> = multiples.iter().map(|m| case.table.params[0].with_costs(*m)).collect();
    let policy = beside::Replays(vec![&targets, &targets, &targets, &targets, &late]);
    let mut equity = vec![Vec::new(); params.len()];
    let accounts = beside::walk_beside(&course, &params, &policy, |_, now| {
        equity.iter_mut().zip(now).for_each(|(all, now)| all.push(now.to_bits()));
    });
    let mut closed = vec![0.0; params.len()];
    accounts.unwrap().closed(&mut closed);
    for (at, own) in params.iter().enumerate() {
        let walked = walk(&course, &[*own], policy.0[at]).unwrap();
        let alone: Vec<u64> = walked.equity[1..].iter().map(|equity| equity.to_bits()).collect();
        assert!(alone == equity[at] && closed[at] == walked.trades.len() as f64, "account {at}: {}", closed[at]);
        assert!(
            walked.incidents.iter().any(|i| i.what == "stop") && walked.incidents.iter().any(|i| i.what == "limit")
        );
    }
}

#[test]
fn thresholds_side_by_side_are_walks() {
    let case = Case::new(market(1, 1500));
    let mut random = random::SplitMix::new(11);
    let mut belief = |_| (random.below(5) > 0).then(|| [random.unit(), random.unit()]);
    let beliefs: Arc<Beliefs> = Arc::new((0..case.table.bars.len()).map(&mut belief).collect());
    let (course, params) = (case.course(), &case.table.params);
    let mut follower = case.follower(4, PortfolioRule::default());
    // At the horizon alone, and at barriers that are often touched.
    for barriers in [Vec::new(), vec![0.004; case.table.bars.len()]] {
        follower.barriers = Arc::new(barriers);
        let tried = try_thresholds(&course, params, &beliefs, &follower).unwrap();
        assert!(tried.len() > 10);
        for (at, tried) in tried.iter().enumerate() {
            let policy = follower.signals(beliefs.clone(), vec![signals::THRESHOLDS[at]]);
            let walked = walk(&course, params, &policy).unwrap();
            assert_eq!((&tried.returns, tried.trades), (&walked.daily_returns().1, walked.trades.len()), "{at}");
            assert!(tried.trades > 30);
        }
    }
}

/// By hand: barriers at 100 · exp(± 0.02), which is 102.0201 and 98.0199, without costs.
#[test]
fn a_position_ends_at_the_barriers_of_its_label() {
    let (up, none) = (Some([-0.2, 0.2]), Some([-0.1, -0.1]));
    let down = Some([0.2, -0.2]);
    // Open, high, low and close of the bars behind the signal; what a position of 100,000 is worth at the end.
    let check = |signals: &[Option<[f64; 2]>], prices: &[[f64; 4]], what: &str, end: f64| {
        let mut bars = market(1, signals.len());
        for (t, [open, high, low, close]) in std::iter::once(&[100.0; 4]).chain(prices).enumerate() {
            let own = &mut bars[0];
            (own.open[t], own.high[t], own.low[t], own.close[t]) = (*open, *high, *low, *close);
        }
        let mut case = Case::new(bars);
        case.table.params[0] = case.table.params[0].with_costs(0.0);
        let follower =
            Follower { barriers: Arc::new(vec![0.02; signals.len()]), ..case.follower(3, PortfolioRule::default()) };
        let policy = follower.policy(Arc::new(signals.to_vec()));
        let walked = walk(&case.course(), &case.table.params, &*policy).unwrap();
        let last = walked.equity[walked.equity.len() - 1];
        assert!((last - end).abs() < 0.01, "{what}: {last}");
        let stops = walked.incidents.iter().map(|incident| incident.what).filter(|what| *what != "end of data");
        assert_eq!(stops.collect::<Vec<_>>(), what.split_whitespace().collect::<Vec<_>>());
    };
    let still = [100.0; 4];
    let (gain, loss) = (0.02f64.exp(), (-0.02f64).exp());
    // From the bar of the fill on: its high touches the upper barrier.
    check(&[up, none, none, none], &[[100.0, 103.0, 99.0, 101.0], still, still], "limit", 1e5 * gain);
    // Both inside one bar: the stop is taken.
    check(&[up, none, none, none], &[[100.0, 103.0, 97.0, 101.0], still, still], "stop", 1e5 * loss);
    // An open beyond the stop fills there.
    check(&[up, none, none, none], &[still, [97.0, 99.0, 96.0, 98.0], still], "stop", 0.97e5);
    // Short: the barriers change sides. 1000 units sold at 100 are bought back at 98.0199.
    check(
        &[down, none, none, none],
        &[[100.0, 101.0, 98.0, 99.0], still, still],
        "limit",
        1e5 + 1e3 * (100.0 - 100.0 * loss),
    );
    // Untouched it ends at the horizon: bought at 100, sold at the open three bars later, at 101.
    let quiet = [100.0, 101.0, 99.0, 100.0];
    check(&[up, none, none, none, none], &[quiet, quiet, quiet, [101.0, 101.5, 100.0, 100.5]], "", 1.01e5);
    // Who was stopped out stays out until the next signal of any side, which sets barriers anew: from 100 to 102.02.
    let stopped = [100.0, 101.0, 97.0, 99.0];
    let again = 1e5 * loss * gain;
    check(
        &[up, none, up, none],
        &[stopped, [99.0, 104.0, 98.5, 100.0], [100.0, 103.0, 99.0, 100.0]],
        "stop limit",
        again,
    );
    // A signal of its own side renews them without trading: 101 · exp(-0.02) is 98.9999, and 98.5 touches it.
    let higher = [101.0, 101.5, 100.0, 101.0];
    check(&[up, up, none, none], &[quiet, higher, [101.0, 101.0, 98.5, 99.0]], "stop", 1e3 * 101.0 * loss);
}

/// On few bars every sequence of positions is tried: none earns more than the oracle.
#[test]
fn nothing_earns_more_than_the_oracle() {
    for bars in [2usize, 3, 9] {
        let case = Case::new(market(1, 800));
        let from = 400;
        let span = Span::new(case.market[0].end[from], case.market[0].end[from + bars - 1] + 1).unwrap();
        let course = Course { span, ..case.course() };
        let equity = |targets: &Targets| {
            let walked = walk(&course, &case.table.params, targets).unwrap();
            walked.equity[walked.equity.len() - 1]
        };
        let best = equity(&oracle(&course));
        let mut most: f64 = 0.0;
        for number in 0..3usize.pow(bars as u32 - 1) {
            let mut targets = Targets::none(case.clock.tick.len());
            for t in 0..bars - 1 {
                targets.actions[from + t] = Action::target((number / 3usize.pow(t as u32) % 3) as f64 - 1.0);
            }
            most = most.max(equity(&targets));
        }
        // Of two ways to a position the richer one goes on, whatever it drifted to: that is exact to a hair.
        assert!(best >= most * (1.0 - 1e-6), "{bars} bars: {best} and {most}");
    }
}

#[test]
fn four_lines_say_who_knew_what_comes() {
    for symbols in [1, 3] {
        let case = Case::new(market(symbols, 500));
        let (course, targets) = (case.course(), case.targets(1.0 / symbols as f64));
        let walked = walk(&course, &case.table.params, &targets).unwrap();
        let lines = four_lines(&course, &Constant(0.0), &walked).unwrap();
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["net alone", "net with search", "ORACLE", "flat"]);
        assert!(lines.iter().all(|line| line.knows_the_future == (line.name == "ORACLE")));
        assert_eq!((lines[0].total_return, lines[3].total_return, lines[3].trades), (0.0, 0.0, 0));
        assert!(lines[2].total_return > 0.1 && lines[2].total_return > lines[1].total_return, "{lines:?}");
    }
}
