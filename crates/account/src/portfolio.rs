//! One balance and one margin over several symbols, with the accounting of [`crate::step()`].

use crate::state::{Account, Action, Event, Events, Fill, Flows};
use crate::step::{Order, absolute, carry, decide, fill_order, hold, larger, mark, order, sell_all, smaller};
use crate::{Bar, Params, ln_1p};

/// An account that holds weights over K symbols.
///
/// Each symbol's position is kept as an [`Account`] whose equity is the common one while it is worked on, and whose
/// flows are its own.
#[derive(Debug, Clone)]
pub struct Portfolio {
    /// Money and the value of all positions at the last mark.
    pub equity: f64,
    /// Largest equity at any close so far.
    pub peak: f64,
    /// Whether it was closed for good.
    pub terminated: bool,
    /// `[K]`
    positions: Vec<Account>,
    /// `[K]` what each symbol has earned, costs counted.
    earned: Vec<f64>,
}

/// What one step of a portfolio gave.
#[derive(Debug, Clone, PartialEq)]
pub struct PortfolioOutcome {
    /// `ln` of equity at this close over equity at the close before.
    pub reward: f64,
    /// Fills of the step, in their order.
    pub fills: Vec<SymbolFill>,
    /// What happened to the portfolio.
    pub events: Events,
}

/// An execution of one symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SymbolFill {
    /// Which symbol.
    pub symbol: usize,
    /// What was bought or sold.
    pub fill: Fill,
    /// Units held behind it.
    pub held: f64,
    /// What the symbol has earned, this fill counted.
    pub earned: f64,
    /// Whether it was at the close and not at the open.
    pub at_close: bool,
}

impl Portfolio {
    /// A portfolio that has only its capital, over so many symbols.
    pub fn new(params: &Params, symbols: usize) -> Portfolio {
        Portfolio {
            equity: params.capital,
            peak: params.capital,
            terminated: false,
            positions: vec![Account::new(params); symbols],
            earned: vec![0.0; symbols],
        }
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Units of a symbol.
    pub fn quantity(&self, symbol: usize) -> f64 {
        self.positions[symbol].quantity
    }

    /// A symbol's position as an account that has the common equity.
    pub fn position(&self, symbol: usize) -> Account {
        Account { equity: self.equity, peak: self.peak, terminated: self.terminated, ..self.positions[symbol] }
    }

    /// What a symbol has earned so far, costs counted.
    pub fn earned(&self, symbol: usize) -> f64 {
        self.earned[symbol]
    }

    /// Value of a symbol's position at its last mark, negative when short, in account currency.
    pub fn value(&self, params: &Params, symbol: usize) -> f64 {
        let position = &self.positions[symbol];
        position.quantity * params.multiplier * position.mark * position.fx
    }

    /// What was paid and traded so far, over all symbols.
    pub fn flows(&self) -> Flows {
        let mut all = Flows::default();
        for Flows { fee, spread, impact, swap, borrow, funding, dividend, traded, closed } in
            self.positions.iter().map(|position| position.flows)
        {
            all.fee += fee;
            all.spread += spread;
            all.impact += impact;
            all.swap += swap;
            all.borrow += borrow;
            all.funding += funding;
            all.dividend += dividend;
            all.traded += traded;
            all.closed += closed;
        }
        all
    }

    /// Takes the portfolio over one moment of the clock: `targets` `[K]` are weights decided at the close before (not
    /// finite: as before), `bars` `[K]` are each symbol's bar before and the one that has just ended; a symbol without
    /// a new bar has one that is not tradable. `params` `[K]` share capital and leverage.
    ///
    /// Orders that bring positions nearer to zero fill first. Where margin does not carry all increases, each is cut by
    /// the same share.
    ///
    /// # Panics
    ///
    /// If there is not one of each for every symbol.
    pub fn step(&mut self, params: &[Params], targets: &[f64], bars: &[(Bar, Bar)]) -> PortfolioOutcome {
        let symbols = self.positions.len();
        assert_eq!([params.len(), targets.len(), bars.len()], [symbols; 3], "one of each for every symbol");
        let mut outcome = PortfolioOutcome { reward: 0.0, fills: Vec::new(), events: Events::default() };
        if self.terminated || symbols == 0 {
            return outcome;
        }
        let (before, leverage, capital) = (self.equity, params[0].leverage, params[0].capital);
        for k in 0..symbols {
            // Margin is that of all together, below.
            let own = Params { maintenance: 0.0, ..params[k] };
            self.work_on(k, |position| {
                decide(&own, position, Action::target(targets[k]), &bars[k].0, &mut Events::default())
            });
        }
        self.call_margin(params, &mut outcome.events);
        let going: Vec<usize> = (0..symbols).filter(|k| bars[*k].1.tradable != 0.0).collect();
        going.iter().for_each(|k| self.work_on(*k, |position| carry(&params[*k], position, &bars[*k].1)));
        for k in &going {
            let (own, (now, next)) = (&params[*k], &bars[*k]);
            let filled = self.work_on(*k, |position| reduce(own, position, now, next));
            self.note(*k, filled, false, &mut outcome.fills);
        }
        let orders: Vec<(usize, Order)> = going
            .iter()
            .filter_map(|k| Some((*k, order(&params[*k], &self.positions[*k], &bars[*k].0, &bars[*k].1)?)))
            .filter(|(_, order)| order.increase > 0.0 && order.reduce == 0.0)
            .collect();
        let needed: f64 = orders
            .iter()
            .map(|(_, order)| order.increase * (order.quote.value + leverage * order.quote.unit_cost))
            .sum();
        let free = larger(leverage * self.equity - self.gross(params), 0.0);
        let share = if needed > free { free / needed } else { 1.0 };
        for (k, order) in orders {
            let room = order.increase * smaller(share, 1.0);
            let filled = self.work_on(k, |position| fill_order(&params[k], position, order, room, &bars[k].1));
            self.note(k, filled, false, &mut outcome.fills);
        }
        for k in &going {
            self.work_on(*k, |position| {
                hold(&params[*k], position, &bars[*k].1);
                mark(&params[*k], position, &bars[*k].1);
            });
        }
        let ruined = self.equity <= Params::RUIN * capital;
        let broke = self.equity <= params[0].liquidation * self.gross(params);
        if ruined {
            outcome.events.add(Event::Ruined);
            self.terminated = true;
        }
        let holds = self.positions.iter().any(|position| position.quantity != 0.0);
        if broke && holds {
            outcome.events.add(Event::Liquidated);
        }
        for k in 0..symbols {
            let own = &bars[k].1;
            let (price, fx) = (self.positions[k].mark, self.positions[k].fx);
            let leaves = ruined || broke || (own.tradable != 0.0 && own.close_out != 0.0);
            if leaves && self.positions[k].quantity != 0.0 {
                outcome.events.add(Event::ClosedOut);
                let known = if own.tradable != 0.0 { own } else { &bars[k].0 };
                let filled = self.work_on(k, |position| sell_all(&params[k], position, known, price, fx));
                self.note(k, filled, true, &mut outcome.fills);
            }
            if leaves {
                (self.positions[k].target, self.positions[k].action) = (0.0, 0.0);
            }
        }
        // What closing costs may be the end, too.
        let empty = self.positions.iter().all(|position| position.quantity == 0.0);
        if !ruined && empty && self.equity <= Params::RUIN * capital {
            outcome.events.add(Event::Ruined);
            self.terminated = true;
        }
        self.peak = larger(self.peak, self.equity);
        outcome.reward = ln_1p((larger(self.equity, crate::step::FLOOR * capital) - before) / before);
        outcome
    }

    fn note(&self, symbol: usize, fill: Fill, at_close: bool, fills: &mut Vec<SymbolFill>) {
        if fill.quantity != 0.0 {
            let (held, earned) = (self.positions[symbol].quantity, self.earned[symbol]);
            fills.push(SymbolFill { symbol, fill, held, earned, at_close });
        }
    }

    /// Notional of all positions at their marks.
    pub fn gross(&self, params: &[Params]) -> f64 {
        (0..self.positions.len()).map(|k| absolute(self.value(&params[k], k))).sum()
    }

    /// Cuts all targets to what leverage allows, where equity no longer carries what is held.
    fn call_margin(&mut self, params: &[Params], events: &mut Events) {
        let gross = self.gross(params);
        if gross * params[0].maintenance <= self.equity {
            return;
        }
        let most = larger(params[0].leverage * self.equity / gross, 0.0);
        for position in &mut self.positions {
            let limit = absolute(position.quantity) * most;
            if absolute(position.target) > limit {
                events.add(Event::MarginCall);
                position.target = if position.target < 0.0 { -limit } else { limit };
            }
        }
    }

    /// Does something to one position with the common equity, and books what it changed.
    fn work_on<R>(&mut self, symbol: usize, work: impl FnOnce(&mut Account) -> R) -> R {
        let position = &mut self.positions[symbol];
        position.equity = self.equity;
        let result = work(position);
        self.earned[symbol] += position.equity - self.equity;
        self.equity = position.equity;
        result
    }
}

/// The part of an order that brings the position nearer to zero.
fn reduce(params: &Params, position: &mut Account, now: &Bar, next: &Bar) -> Fill {
    let wanted = position.target;
    let crosses = wanted * position.quantity < 0.0;
    if position.quantity == 0.0 || (!crosses && absolute(wanted) >= absolute(position.quantity)) {
        return Fill::default();
    }
    position.target = if crosses { 0.0 } else { wanted };
    let filled = match order(params, position, now, next) {
        Some(order) => fill_order(params, position, order, 0.0, next),
        None => Fill::default(),
    };
    position.target = wanted;
    filled
}
