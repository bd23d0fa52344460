//! A policy through an account, step by step.

use super::beside::{Lane, decide_beside};
use super::record::{Incident, PositionRow, Trade, Walked};
use account::{Account, Action, Bar, Event, Outcome, Params, Portfolio, SymbolFill, step};
use bars::Bars;
use features::{Clock, Span};
use files::Result;
use market::{Needs, OBSERVED, Policy, PriceTable, RowTime, Targets, View, legal_sides, observe, row_times};

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
pub fn buy_and_hold(clock: &Clock) -> Targets {
    if clock.symbols() == 1 {
        return clock.tick.iter().map(|_| 1.0).collect();
    }
    let mut listed = vec![0u32; clock.times.len()];
    clock.tick.iter().for_each(|tick| listed[*tick as usize] += 1);
    clock.tick.iter().map(|tick| 1.0 / f64::from(listed[*tick as usize].max(1))).collect()
}

/// What a policy decides. Who does not look at an account is asked at every close there is, others on their way through
/// the course, which ends with their positions open: what they want at the last close is of the account as it stands.
///
/// # Errors
///
/// The policy's own.
pub fn decide(course: &Course<'_>, policy: &dyn Policy) -> Result<Targets> {
    if !policy.needs().account {
        return decide_beforehand(course.clock, policy);
    }
    if course.market.len() == 1 {
        let lane = Lane { span: course.span, keeps: true };
        let decided = decide_beside(course, &[lane], policy)?.into_iter().find_map(|end| end.targets);
        return Ok(decided.unwrap_or_else(|| Targets::none(course.clock.tick.len())));
    }
    let mut decided = Targets::none(course.clock.tick.len());
    walk_many(course, &course.table.params, policy, Some(&mut decided))?;
    Ok(decided)
}

/// What a policy that does not look at an account decides at every close.
///
/// # Errors
///
/// The policy's own.
///
/// # Panics
///
/// If it does look at an account.
pub fn decide_beforehand(clock: &Clock, policy: &dyn Policy) -> Result<Targets> {
    assert!(!policy.needs().account, "a policy that looks at an account needs one");
    let mut decided = Targets::none(clock.tick.len());
    let moments = Moments::new(clock, 0..clock.times.len());
    let mut asking = Asking::new(policy, clock.symbols());
    for at in 0..moments.len() {
        asking.ask(moments.at(at), |_, _, _, _| {}, Some(&mut decided))?;
    }
    Ok(decided)
}

/// Walks a policy through one account, or one portfolio where there are several symbols; `params` `[S]` are the rules.
///
/// # Errors
///
/// The policy's own.
///
/// # Panics
///
/// If there are no rules for a symbol.
pub fn walk(course: &Course<'_>, params: &[Params], policy: &dyn Policy) -> Result<Walked> {
    assert_eq!(params.len(), course.market.len(), "rules for every symbol");
    match course.market {
        [_] => walk_one(course, &params[0], policy),
        _ => walk_many(course, params, policy, None),
    }
}

/// A policy that is asked at one close after the other.
pub(super) struct Asking<'a> {
    policy: &'a dyn Policy,
    needs: Needs,
    memory: Vec<f64>,
    counter: u64,
    observed: Vec<f32>,
    legal: Vec<bool>,
    actions: Vec<Action>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(policy: &'a dyn Policy, slots: usize) -> Asking<'a> {
        let memory = policy.start(slots);
        let (observed, legal, actions) = (Vec::new(), Vec::new(), Vec::new());
        Asking { policy, needs: policy.needs(), memory, counter: 0, observed, legal, actions }
    }

    /// What is decided at a close. `show` writes, where the policy looks at it, what row and slot are shown of their
    /// account, and what is legal.
    pub(super) fn ask(
        &mut self,
        moment: Moment<'_>,
        mut show: impl FnMut(usize, usize, &mut [f32], &mut [bool]),
        decided: Option<&mut Targets>,
    ) -> Result<&[Action]> {
        let Moment { rows, slots, .. } = moment;
        if self.needs.account {
            self.observed.resize(rows.len() * OBSERVED, 0.0);
            self.legal.resize(rows.len() * 3, true);
            let to = self.observed.chunks_exact_mut(OBSERVED).zip(self.legal.chunks_exact_mut(3));
            for ((row, slot), (observed, legal)) in rows.iter().zip(slots).zip(to) {
                show(*row as usize, *slot as usize, observed, legal);
            }
        }
        self.actions.clear();
        self.actions.resize(rows.len(), Action::target(f64::NAN));
        let (observed, legal, counter) = (&self.observed[..], &self.legal[..], self.counter);
        let view = View { rows, slots, observed, legal, counter, seed: None };
        self.policy.act(&view, &mut self.memory, &mut self.actions)?;
        self.counter += 1;
        if let Some(decided) = decided {
            rows.iter().zip(&self.actions).for_each(|(row, action)| decided.actions[*row as usize] = *action);
        }
        Ok(&self.actions)
    }
}

/// What of a row is shown beside the account; nothing where the policy does not look.
pub(super) fn times_of(course: &Course<'_>, policy: &dyn Policy) -> Vec<RowTime> {
    if policy.needs().account { row_times(course.market, course.table) } else { Vec::new() }
}

/// Rows by the moment at which they became known.
pub(super) struct Moments {
    /// `[moments]`
    times: Vec<i64>,
    /// `[moments + 1]` where the rows of each begin.
    first: Vec<u32>,
    rows: Vec<u32>,
    slots: Vec<u32>,
}

/// The rows that became known at a moment, and their symbols.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) time: i64,
    pub(super) rows: &'a [u32],
    pub(super) slots: &'a [u32],
}

impl Moments {
    /// Those of a course.
    pub(super) fn of(course: &Course<'_>) -> Moments {
        let within = |time: i64| course.clock.times.partition_point(|known| *known < time);
        let from = within(course.span.from());
        Moments::new(course.clock, from..within(course.span.to()).max(from))
    }

    /// Those of some ticks.
    fn new(clock: &Clock, ticks: std::ops::Range<usize>) -> Moments {
        let (first, all) = clock.rows_by_tick();
        let all = &all[first[ticks.start] as usize..first[ticks.end] as usize];
        let (slots, rows) = all.iter().copied().unzip();
        let first = first[ticks.start..=ticks.end].iter().map(|at| at - first[ticks.start]).collect();
        Moments { times: clock.times[ticks].to_vec(), first, rows, slots }
    }

    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    pub(super) fn at(&self, at: usize) -> Moment<'_> {
        let own = self.first[at] as usize..self.first[at + 1] as usize;
        Moment { time: self.times[at], rows: &self.rows[own.clone()], slots: &self.slots[own] }
    }
}

impl Moment<'_> {
    /// Rows with their symbols.
    fn each(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rows.iter().zip(self.slots).map(|(row, symbol)| (*row as usize, *symbol as usize))
    }
}

fn walk_one(course: &Course<'_>, params: &Params, policy: &dyn Policy) -> Result<Walked> {
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
    let (times, mut asking) = (times_of(course, policy), Asking::new(policy, 1));
    for t in rows.clone() {
        let moment = Moment { time: bars.end[t], rows: &[t as u32], slots: &[0] };
        let show = |row: usize, _, observed: &mut [f32], may: &mut [bool]| {
            observe(params, &account, &table[row], times[row], observed);
            may.copy_from_slice(&legal_sides(params, &table[row]));
        };
        let action = asking.ask(moment, show, None)?[0];
        // The last close decides on an open that nobody walks to.
        if t + 1 == rows.end {
            break;
        }
        let mut next = table[t + 1];
        let last = t + 2 == rows.end;
        let border = next.close_out != 0.0;
        if last {
            next.close_out = 1.0;
        }
        let (held, equity) = (account.quantity, account.equity);
        let outcome = step(params, &mut account, action, &table[t], &next);
        let (start, end) = (bars.start[t + 1], bars.end[t + 1]);
        let around = Around { start, end, held, after: account.equity };
        walked.take_trades(&mut open, &outcome, around);
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
    Ok(walked)
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
struct Around {
    start: i64,
    end: i64,
    /// Units held before the step.
    held: f64,
    /// Equity behind it.
    after: f64,
}

impl Walked {
    /// Opens and closes round trips by the fills of a step.
    fn take_trades(&mut self, open: &mut Option<OpenTrade>, outcome: &Outcome, at: Around) {
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

fn walk_many(
    course: &Course<'_>,
    params: &[Params],
    policy: &dyn Policy,
    mut decided: Option<&mut Targets>,
) -> Result<Walked> {
    let symbols = course.market.len();
    // Weights trade only beyond a band around them.
    let params: Vec<Params> = params.iter().map(|p| Params { band: 0.2, band_of_target: true, ..*p }).collect();
    let (table, offsets) = (&course.table.bars, &course.table.offsets);
    let moments = Moments::of(course);
    let ends: Vec<usize> = (0..symbols).map(|symbol| offsets[symbol] + course.rows(symbol).end).collect();
    let last_time = moments.times.last().copied().unwrap_or(0);
    let mut walked = Walked { equity: vec![params[0].capital], ..Walked::default() };
    let mut portfolio = Portfolio::new(&params[0], symbols);
    let mut open: Vec<Option<OpenTrade>> = (0..symbols).map(|_| None).collect();
    let closed = Bar { tradable: 0.0, ..Bar::flat(1.0) };
    let mut pairs = vec![(closed, closed); symbols];
    // What was decided at each symbol's last close, and what of it counts at this moment.
    let (mut targets, mut wanted) = (vec![f64::NAN; symbols], vec![f64::NAN; symbols]);
    let mut before: Vec<Option<usize>> = vec![None; symbols];
    let mut held: Vec<f64> = Vec::new();
    let (times, mut asking) = (times_of(course, policy), Asking::new(policy, symbols));
    for number in 0..moments.len() {
        let moment = moments.at(number);
        held.clear();
        for (row, symbol) in moment.each() {
            let mut next = table[row];
            // Whoever is asked what it wants at the end keeps what it has until then.
            let stays = decided.is_some() && moment.time == last_time;
            if row + 1 == ends[symbol] && !stays {
                next.close_out = 1.0;
                if moment.time < last_time && course.delisting_return != 0.0 {
                    next.close *= 1.0 + course.delisting_return;
                    (next.low, next.high) = (next.low.min(next.close), next.high.max(next.close));
                }
            }
            let now = before[symbol].map_or(Bar { close: f64::NAN, ..closed }, |row| table[row]);
            pairs[symbol] = (now, next);
            wanted[symbol] = targets[symbol];
            held.push(portfolio.quantity(symbol));
        }
        let equity = portfolio.equity;
        let outcome = portfolio.step(&params, &wanted, &pairs);
        for filled in &outcome.fills {
            let SymbolFill { symbol, fill, .. } = *filled;
            let fx = pairs[symbol].1.fx_open;
            if equity > 0.0 {
                walked.traded += (fill.quantity * fill.price).abs() * params[symbol].multiplier * fx / equity;
            }
            let bars = &course.market[symbol];
            let t = moment.each().find(|(_, s)| *s == symbol).map(|(row, _)| row - offsets[symbol]);
            let (start, end) = t.map_or((moment.time, moment.time), |t| (bars.start[t], bars.end[t]));
            walked.take_fill(&mut open[symbol], filled, if filled.at_close { end } else { start }, equity);
        }
        walked.note_many(course, &outcome.events, moment, &held, &ends);
        if number > 0 {
            walked.times.push(moment.time);
            walked.equity.push(portfolio.equity);
            let gross = portfolio.gross(&params);
            walked.exposure.push(if portfolio.equity > 0.0 { gross / portfolio.equity } else { 0.0 });
            for symbol in (0..symbols).filter(|k| portfolio.quantity(*k) != 0.0) {
                let weight = portfolio.value(&params[symbol], symbol) / portfolio.equity;
                let quantity = portfolio.quantity(symbol);
                walked.positions.push(PositionRow { time: moment.time, symbol, quantity, weight });
            }
        }
        let show = |row: usize, symbol: usize, observed: &mut [f32], may: &mut [bool]| {
            observe(&params[symbol], &portfolio.position(symbol), &table[row], times[row], observed);
            may.copy_from_slice(&legal_sides(&params[symbol], &table[row]));
        };
        let actions = asking.ask(moment, show, decided.as_deref_mut())?;
        for ((row, symbol), action) in moment.each().zip(actions) {
            before[symbol] = Some(row);
            pairs[symbol] = (table[row], closed);
            (targets[symbol], wanted[symbol]) = (action.target, f64::NAN);
        }
    }
    walked.flows = portfolio.flows();
    walked.earned = (0..symbols).map(|symbol| portfolio.earned(symbol)).collect();
    // A close belongs to the day that ends with it.
    let moments: Vec<i64> = walked.times.iter().map(|time| time - 1).collect();
    walked.days = course.market[0].instrument.session.trading_days(&moments);
    Ok(walked)
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
        moment: Moment<'_>,
        held: &[f64],
        ends: &[usize],
    ) {
        for (event, what) in
            [(Event::MarginCall, "margin call"), (Event::Liquidated, "liquidation"), (Event::Ruined, "ruin")]
        {
            if events.contains(event) {
                let symbol = "portfolio".to_string();
                self.incidents.push(Incident { symbol, time: moment.time, what, if_real: None });
            }
        }
        for ((row, symbol), quantity) in moment.each().zip(held).filter(|(_, held)| **held != 0.0) {
            let (bar, time) = (&course.table.bars[row], moment.time);
            let name = || course.market[symbol].symbol.clone();
            if bar.close_out != 0.0 {
                let params = &course.table.params[symbol];
                let real = |after: &Bar| quantity * params.multiplier * (after.open - bar.close) * after.fx_open;
                let if_real = (row + 1 < course.table.offsets[symbol + 1]).then(|| real(&course.table.bars[row + 1]));
                self.incidents.push(Incident { symbol: name(), time, what: "suspected split", if_real });
            } else if row + 1 == ends[symbol] {
                self.incidents.push(Incident { symbol: name(), time, what: "end of data", if_real: None });
            }
        }
    }
}
