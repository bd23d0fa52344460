//! Decisions through an account, step by step.

use super::record::{Incident, PositionRow, Trade, Walked};
use account::{Account, Action, Bar, Event, Outcome, Params, Portfolio, SymbolFill, step};
use bars::Bars;
use features::{Clock, Span};
use market::PriceTable;

/// What was decided at each close: `[S][n]`. A target that is not finite decides nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Targets {
    /// By symbol and bar.
    pub actions: Vec<Vec<Action>>,
}

impl Targets {
    /// Nothing decided anywhere.
    pub fn none(market: &[Bars]) -> Targets {
        Targets { actions: market.iter().map(|bars| vec![Action::target(f64::NAN); bars.len()]).collect() }
    }

    /// The same decisions, so many bars later.
    pub fn delayed(&self, bars: usize) -> Targets {
        let late = |own: &Vec<Action>| {
            let none = std::iter::repeat_n(Action::target(f64::NAN), bars.min(own.len()));
            none.chain(own.iter().copied()).take(own.len()).collect()
        };
        Targets { actions: self.actions.iter().map(late).collect() }
    }
}

/// Where a walk goes: bars with their table of money, and the time that is walked through.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// `[S]`
    pub market: &'a [Bars],
    /// Their common clock.
    pub clock: &'a Clock,
    /// What bars mean for money.
    pub table: &'a PriceTable,
    /// Bars that became known in it are walked through.
    pub span: Span,
    /// What a position loses beside its costs when its symbol's data end before the others' do: -0.3 is 30 %.
    pub delisting_return: f64,
}

impl Course<'_> {
    /// The bars of a symbol in the span.
    pub(super) fn rows(&self, symbol: usize) -> std::ops::Range<usize> {
        let rows = self.clock.rows(symbol);
        // Rows of a symbol become known in their order.
        let known = |time: i64| {
            let (mut low, mut high) = (rows.start, rows.end);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.clock.time(middle) < time { low = middle + 1 } else { high = middle }
            }
            low - rows.start
        };
        let from = known(self.span.from());
        from..known(self.span.to()).max(from)
    }
}

/// Buying everything at once and holding it: all of one symbol, or the same weight of each symbol that has a bar.
pub fn buy_and_hold(market: &[Bars], clock: &Clock) -> Targets {
    let mut listed = vec![0u32; clock.times.len()];
    clock.tick.iter().for_each(|tick| listed[*tick as usize] += 1);
    let actions = (0..market.len()).map(|symbol| {
        let weight = |row: usize| 1.0 / f64::from(listed[clock.tick[row] as usize].max(1));
        clock.rows(symbol).map(|row| Action::target(if market.len() == 1 { 1.0 } else { weight(row) })).collect()
    });
    Targets { actions: actions.collect() }
}

/// Walks targets through one account, or one portfolio where there are several symbols; `params` `[S]` are the rules.
///
/// # Panics
///
/// If there are no targets or rules for a symbol or a bar.
pub fn walk(course: &Course<'_>, params: &[Params], targets: &Targets) -> Walked {
    assert_eq!(params.len(), course.market.len(), "rules for every symbol");
    assert_eq!(targets.actions.len(), course.market.len(), "targets for every symbol");
    match course.market {
        [_] => walk_one(course, &params[0], &targets.actions[0]),
        _ => walk_many(course, params, targets),
    }
}

fn walk_one(course: &Course<'_>, params: &Params, actions: &[Action]) -> Walked {
    let (bars, rows) = (&course.market[0], course.rows(0));
    let table = course.table.symbol(0);
    let starts: Vec<i64> = rows.clone().skip(1).map(|t| bars.start[t]).collect();
    let mut walked = Walked {
        days: bars.instrument.session.trading_days(&starts),
        equity: vec![params.capital],
        earned: vec![0.0],
        ..Walked::default()
    };
    let mut account = Account::new(params);
    let mut open: Option<OpenTrade> = None;
    for t in rows.start..rows.end.saturating_sub(1) {
        let mut next = table[t + 1];
        let last = t + 2 == rows.end;
        let border = next.close_out != 0.0;
        if last {
            next.close_out = 1.0;
        }
        let (held, equity) = (account.quantity, account.equity);
        let outcome = step(params, &mut account, actions[t], &table[t], &next);
        let (start, end) = (bars.start[t + 1], bars.end[t + 1]);
        let at = Moment { start, end, held, after: account.equity };
        walked.take_trades(&mut open, &outcome, at);
        for (fill, base) in [(outcome.fill, equity), (outcome.exit, outcome.equity_open)] {
            if fill.quantity != 0.0 && base > 0.0 {
                walked.traded += (fill.quantity * fill.price).abs() * params.multiplier * next.fx_open / base;
            }
        }
        if outcome.events != account::Events::default() {
            let beyond = table.get(t + 2).filter(|_| border).map(|after| {
                let units = held_before_exit(&outcome) * params.multiplier;
                units * (after.open - next.close) * after.fx_open
            });
            walked.note(&bars.symbol, end, &outcome, border, last, beyond);
        }
        let value = account.quantity * params.multiplier * account.mark * account.fx;
        let weight = if account.equity > 0.0 { value / account.equity } else { 0.0 };
        walked.times.push(end);
        walked.equity.push(account.equity);
        walked.exposure.push(weight.abs());
        if account.quantity != 0.0 {
            walked.positions.push(PositionRow { time: end, symbol: 0, quantity: account.quantity, weight });
        }
    }
    walked.flows = account.flows;
    walked.earned = vec![account.equity - params.capital];
    walked
}

fn held_before_exit(outcome: &Outcome) -> f64 {
    -outcome.exit.quantity
}

/// A position that is not closed yet.
struct OpenTrade {
    opened: i64,
    quantity: f64,
    entry: f64,
    /// Equity, or what the symbol had earned, before it was opened.
    from: f64,
    equity: f64,
}

/// Around one step of a single account.
struct Moment {
    start: i64,
    end: i64,
    /// Units held before the step.
    held: f64,
    /// Equity behind it.
    after: f64,
}

impl Walked {
    /// Opens and closes round trips by the fills of a step.
    fn take_trades(&mut self, open: &mut Option<OpenTrade>, outcome: &Outcome, at: Moment) {
        let (fill, held) = (outcome.fill, at.held);
        let after = held + fill.quantity;
        let mut equity = outcome.equity_open;
        if fill.quantity != 0.0 {
            let turns = held * after < 0.0;
            // A fill that turns a position closes one trade and opens another; its cost is shared by quantity.
            let closing = if turns { held.abs() / (held.abs() + after.abs()) } else { 1.0 };
            if held != 0.0 && (turns || is_flat(after, held)) {
                let left = equity - fill.cost * closing;
                self.close_trade(open.take(), 0, at.start, fill.price, left);
                equity = left;
            }
            if (held == 0.0 || turns) && !is_flat(after, held) {
                let from = if turns { equity } else { outcome.equity_open };
                *open = Some(OpenTrade { opened: at.start, quantity: after, entry: fill.price, from, equity: from });
            }
        }
        if outcome.exit.quantity != 0.0 {
            self.close_trade(open.take(), 0, at.end, outcome.exit.price, at.after);
        }
    }

    fn close_trade(&mut self, open: Option<OpenTrade>, symbol: usize, closed: i64, exit: f64, to: f64) {
        let Some(OpenTrade { opened, quantity, entry, from, equity }) = open else { return };
        let result = to - from;
        let result_share = if equity > 0.0 { result / equity } else { 0.0 };
        self.trades.push(Trade { symbol, opened, closed, quantity, entry, exit, result, result_share });
    }

    fn note(&mut self, symbol: &str, time: i64, outcome: &Outcome, border: bool, last: bool, if_real: Option<f64>) {
        let events = outcome.events;
        let mut add = |what: &'static str, if_real: Option<f64>| {
            self.incidents.push(Incident { symbol: symbol.to_string(), time, what, if_real });
        };
        for (event, what) in [
            (Event::MarginCall, "margin call"),
            (Event::Liquidated, "liquidation"),
            (Event::Stopped, "stop"),
            (Event::Limited, "limit"),
            (Event::Ruined, "ruin"),
        ] {
            if events.contains(event) {
                add(what, None);
            }
        }
        if events.contains(Event::ClosedOut) && !events.contains(Event::Ruined) {
            match (border, last) {
                (true, _) => add("suspected split", if_real),
                (false, true) => add("end of data", None),
                (false, false) => {}
            }
        }
    }
}

/// What a fill left of a position is nothing.
fn is_flat(after: f64, before: f64) -> bool {
    after.abs() <= 1e-12 * before.abs()
}

/// The rows of a tick, by symbol.
struct Tick {
    time: i64,
    rows: Vec<(usize, usize)>, // symbol, its bar
}

fn ticks(course: &Course<'_>) -> Vec<Tick> {
    let mut all: Vec<(u32, usize, usize)> = Vec::new();
    for symbol in 0..course.market.len() {
        let first = course.clock.rows(symbol).start;
        all.extend(course.rows(symbol).map(|t| (course.clock.tick[first + t], symbol, t)));
    }
    all.sort_unstable();
    let one = |rows: &[(u32, usize, usize)]| Tick {
        time: course.clock.times[rows[0].0 as usize],
        rows: rows.iter().map(|(_, symbol, t)| (*symbol, *t)).collect(),
    };
    all.chunk_by(|a, b| a.0 == b.0).map(one).collect()
}

fn walk_many(course: &Course<'_>, params: &[Params], targets: &Targets) -> Walked {
    let symbols = course.market.len();
    // Weights trade only beyond a band around them.
    let params: Vec<Params> = params.iter().map(|p| Params { band: 0.2, band_of_target: true, ..*p }).collect();
    let ticks = ticks(course);
    let ends: Vec<usize> = (0..symbols).map(|symbol| course.rows(symbol).end).collect();
    let last_time = ticks.last().map_or(0, |tick| tick.time);
    let mut walked = Walked { equity: vec![params[0].capital], ..Walked::default() };
    let mut portfolio = Portfolio::new(&params[0], symbols);
    let mut open: Vec<Option<OpenTrade>> = (0..symbols).map(|_| None).collect();
    let closed = Bar { tradable: 0.0, ..Bar::flat(1.0) };
    let mut pairs = vec![(closed, closed); symbols];
    let mut wanted = vec![f64::NAN; symbols];
    let mut before: Vec<Option<usize>> = vec![None; symbols];
    for (number, tick) in ticks.iter().enumerate() {
        for (symbol, t) in &tick.rows {
            let table = course.table.symbol(*symbol);
            let mut next = table[*t];
            if t + 1 == ends[*symbol] {
                next.close_out = 1.0;
                if tick.time < last_time && course.delisting_return != 0.0 {
                    next.close *= 1.0 + course.delisting_return;
                    (next.low, next.high) = (next.low.min(next.close), next.high.max(next.close));
                }
            }
            let now = before[*symbol].map_or(Bar { close: f64::NAN, ..closed }, |t| table[t]);
            pairs[*symbol] = (now, next);
            wanted[*symbol] = before[*symbol].map_or(f64::NAN, |t| targets.actions[*symbol][t].target);
        }
        let held: Vec<(usize, f64)> = tick.rows.iter().map(|(s, _)| (*s, portfolio.quantity(*s))).collect();
        let equity = portfolio.equity;
        let outcome = portfolio.step(&params, &wanted, &pairs);
        for filled in &outcome.fills {
            let SymbolFill { symbol, fill, .. } = *filled;
            let fx = pairs[symbol].1.fx_open;
            if equity > 0.0 {
                walked.traded += (fill.quantity * fill.price).abs() * params[symbol].multiplier * fx / equity;
            }
            let bar = &course.market[symbol];
            let t = tick.rows.iter().find(|(s, _)| *s == symbol).map(|(_, t)| *t);
            let (start, end) = t.map_or((tick.time, tick.time), |t| (bar.start[t], bar.end[t]));
            walked.take_fill(&mut open[symbol], filled, if filled.at_close { end } else { start }, equity);
        }
        walked.note_many(course, &outcome.events, tick, &held, &ends);
        if number > 0 {
            walked.times.push(tick.time);
            walked.equity.push(portfolio.equity);
            let gross = portfolio.gross(&params);
            walked.exposure.push(if portfolio.equity > 0.0 { gross / portfolio.equity } else { 0.0 });
            for symbol in (0..symbols).filter(|k| portfolio.quantity(*k) != 0.0) {
                let weight = portfolio.value(&params[symbol], symbol) / portfolio.equity;
                let quantity = portfolio.quantity(symbol);
                walked.positions.push(PositionRow { time: tick.time, symbol, quantity, weight });
            }
        }
        for (symbol, t) in &tick.rows {
            before[*symbol] = Some(*t);
            pairs[*symbol] = (course.table.symbol(*symbol)[*t], closed);
            wanted[*symbol] = f64::NAN;
        }
    }
    walked.flows = portfolio.flows();
    walked.earned = (0..symbols).map(|symbol| portfolio.earned(symbol)).collect();
    // A close belongs to the day that ends with it.
    let moments: Vec<i64> = walked.times.iter().map(|time| time - 1).collect();
    walked.days = course.market[0].instrument.session.trading_days(&moments);
    walked
}

impl Walked {
    /// Opens or closes a symbol's round trip by one fill; what it earned is counted on the symbol alone.
    fn take_fill(&mut self, open: &mut Option<OpenTrade>, filled: &SymbolFill, time: i64, equity: f64) {
        let SymbolFill { symbol, fill, held, earned, .. } = *filled;
        let before = held - fill.quantity;
        if is_flat(before, held) && open.is_none() {
            let from = earned + fill.cost;
            *open = Some(OpenTrade { opened: time, quantity: held, entry: fill.price, from, equity });
        } else if held == 0.0 {
            self.close_trade(open.take(), symbol, time, fill.price, earned);
        }
    }

    fn note_many(
        &mut self,
        course: &Course<'_>,
        events: &account::Events,
        tick: &Tick,
        held: &[(usize, f64)],
        ends: &[usize],
    ) {
        for (event, what) in
            [(Event::MarginCall, "margin call"), (Event::Liquidated, "liquidation"), (Event::Ruined, "ruin")]
        {
            if events.contains(event) {
                let symbol = "portfolio".to_string();
                self.incidents.push(Incident { symbol, time: tick.time, what, if_real: None });
            }
        }
        for ((symbol, t), (_, quantity)) in tick.rows.iter().zip(held).filter(|(_, (_, held))| *held != 0.0) {
            let table = course.table.symbol(*symbol);
            let name = || course.market[*symbol].symbol.clone();
            if table[*t].close_out != 0.0 {
                let params = &course.table.params[*symbol];
                let real = |after: &Bar| quantity * params.multiplier * (after.open - table[*t].close) * after.fx_open;
                let if_real = table.get(t + 1).map(real);
                self.incidents.push(Incident { symbol: name(), time: tick.time, what: "suspected split", if_real });
            } else if t + 1 == ends[*symbol] {
                self.incidents.push(Incident { symbol: name(), time: tick.time, what: "end of data", if_real: None });
            }
        }
    }
}
