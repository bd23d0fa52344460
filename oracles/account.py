"""The account beside a second one, written from the rules in docs/method.md and the documentation of crates/account.

Usage: account.py PATH_OF_FULLBORE [PART_OF_A_CASE_NAME]. Run by `cargo xtask test`, which builds `fullbore-bench`
beside `fullbore`; `fullbore-bench account` takes all trajectories in one run.

This account keeps books as a broker does. Owned units are bought with cash and are worth `units · price · rate`; of
contracts every change of price is settled in cash at once. `account::step` instead carries equity from mark to mark,
so the two share rules and no arithmetic. Each case is a family of random rules, bars and actions in which some things
happen often; "everything" has them all. Over more than 100,000 steps, every number of the account and of the outcome
is within 1e-9 of itself (money: at least of a thousandth of the capital), events and counts are equal, and everything
in `MUST_HAPPEN` did.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np

TOLERANCE = 1e-9
STEPS = 500
ROUNDING = 1e-9  # a whole number of lots or ticks may be missed by this share of one

# In the order of `Params`: the value that changes nothing, and what a case draws from.
RULES = {
    "capital": (1e5, [1e3, 1e5, 1e7]),
    "fraction": (1.0, [1.0, 0.5, 2.0]),
    "vol_target": (0.0, [0.0, 0.005, 0.02]),
    "lots": (0.0, [0.0, 7.0]),
    "leverage": (1.0, [1.0, 3.0, 10.0]),
    "maintenance": (0.5, [0.5, 0.05, 0.3]),
    "liquidation": (0.25, [0.25, 0.02, 0.0]),
    "shortable": (1.0, [0.0, 1.0, 1.0]),
    "owned": (0.0, [0.0, 1.0]),
    "band": (-1.0, [-1.0, 0.05, 0.2]),
    "band_of_target": (0.0, [0.0, 1.0]),
    "multiplier": (1.0, [1.0, 50.0, 0.1]),
    "lot": (0.0, [0.0, 1.0, 0.001]),
    "tick": (0.0, [0.0, 0.01, 0.25]),
    "min_notional": (0.0, [0.0, 100.0, 2e4]),
    "fee": (0.0, [0.0, 0.0005, 0.01]),
    "fee_per_unit": (0.0, [0.0, 0.01]),
    "spread": (1.0, [1.0, 2.0, 0.0]),
    "impact": (0.0, [0.0, 1.0]),
    "volume_cap": (0.0, [0.0, 0.01]),
    "borrow": (0.0, [0.0, 0.3]),
    "swap_long": (0.0, [0.05, -0.01]),
    "swap_short": (0.0, [0.02, -0.03]),
}

BAR = (
    "open high low close fx_open fx_close tradable split dividend funding_open funding_inside swap_open swap_inside "
    "borrow_open borrow_inside close_out sigma volume half_spread flat_next"
).split()

FLOWS = "fee spread impact swap borrow funding dividend traded closed".split()
OUTPUT = [
    *"equity peak quantity target action entry bars_held stop limit terminated".split(),
    *FLOWS,
    *"reward equity_open fill.quantity fill.price fill.cost exit.quantity exit.price exit.cost events".split(),
]
MONEY = {"equity", "peak", "equity_open", "fill.cost", "exit.cost", *FLOWS}
FILL = OUTPUT.index("fill.quantity")
MARGIN_CALL, LIQUIDATED, STOPPED, LIMITED, CLOSED_OUT, RUINED = 1, 2, 4, 8, 16, 32

MUST_HAPPEN = [
    "bought", "sold", "reversed", "rounded to lots", "rounded to ticks", "cut by volume", "cut by leverage", "too small",
    "too small, but closes", "kept inside the band", "kept because repeated", "left the band", "short refused",
    "margin call", "liquidated", "stopped", "stopped before a liquidation", "liquidated before a stop", "stopped at the open",
    "limit", "funding", "dividend", "split", "split of an order that waits", "swap", "borrow", "closed out", "ruined",
    "invalid bar", "no price", "no decision", "flat before a pause", "entered again after a stop",
]


# ---------------------------------------------------------------- the second account


class Broker:
    """One account, one symbol; `do` is a decision at a close and the bar that follows."""

    def __init__(self, rules, seen):
        self.rules, self.seen = rules, seen
        self.cash, self.units, self.price, self.rate = rules.capital, 0.0, 0.0, 1.0
        self.order = 0.0  # units that are wanted
        self.last_target = 0.0
        self.peak, self.entry, self.held, self.stop, self.limit = rules.capital, 0.0, 0, 0.0, 0.0
        self.paid = dict.fromkeys(FLOWS, 0.0)
        self.closed = False

    def equity(self):
        return self.cash + (self.units * self.rules.multiplier * self.price * self.rate if self.rules.owned else 0.0)

    def move_to(self, price, rate):
        """What a contract gained since the last price is settled at the rate of this one; owned units just move."""
        if not self.rules.owned and self.units:
            self.cash += self.units * self.rules.multiplier * (price - self.price) * rate
        self.price, self.rate = price, rate

    def pay(self, kind, money):
        self.cash -= money
        self.paid[kind] += money
        if money:
            self.seen[kind] += 1

    def whole_lots(self, units):
        lot = self.rules.lot
        if not lot:
            return units
        whole = math.copysign(math.floor(abs(units) / lot + ROUNDING) * lot, units)
        self.seen["rounded to lots"] += whole != units
        return whole

    def do(self, action, now, bar):
        before = start = self.equity()
        fill = left = (0.0, 0.0, 0.0)
        events = 0
        if self.closed:
            return [0.0, start, *fill, *left, events]
        events |= self.decide(action, now)
        if bar.tradable:
            self.go_to_open(bar)
            start = self.equity()
            fill = self.fill(now, bar)
            self.set_exits(action, bar)
            self.charge(bar, bar.funding_inside, bar.swap_inside, bar.borrow_inside)
            left, event = self.leave(now, bar)
            events |= event
            self.move_to(bar.close, bar.fx_close)
            self.held += self.units != 0
            ruin = 0.01 * self.rules.capital
            self.closed = self.equity() <= ruin
            if self.closed or bar.close_out:
                if self.units:
                    events |= CLOSED_OUT
                    self.seen["closed out"] += 1
                    left = self.close_all(bar, bar.close)
                self.order = self.last_target = 0.0
            if self.closed or self.equity() <= ruin:
                events |= RUINED
                self.seen["ruined" if self.closed else "ruined by a close-out"] += 1
                self.closed = True
            self.peak = max(self.peak, self.equity())
        else:
            self.seen["invalid bar"] += 1
        reward = math.log(max(self.equity(), 1e-4 * self.rules.capital) / before)
        return [reward, start, *fill, *left, events]

    def decide(self, action, now):
        """Fixes the wanted quantity from equity and close; a margin call overrules it."""
        rules, equity = self.rules, self.equity()
        unit = rules.multiplier * now.close * now.fx_close  # value of one unit
        has_price = math.isfinite(unit) and unit > 0
        if now.flat_next:
            self.order = self.last_target = 0.0
            self.seen["flat before a pause"] += self.units != 0
        elif has_price and math.isfinite(action.target):
            target = action.target
            if target < 0 and not rules.shortable:
                self.seen["short refused"] += 1
                target = 0.0
            wanted = self.whole_lots(target * self.full_position(equity, unit, now.sigma))
            if rules.band < 0:
                again = self.units == 0 and (action.stop > 0 or action.limit > 0)
                trades = target != self.last_target or again
                self.seen["kept because repeated"] += not trades and target != 0
                self.seen["entered again after a stop"] += again and target == self.last_target != 0
            else:
                crosses = wanted * self.units <= 0
                width = rules.band * (abs(wanted) * unit if rules.band_of_target else equity)
                trades = crosses or abs(wanted - self.units) * unit > width
                self.seen["kept inside the band"] += not trades
                self.seen["left the band"] += trades and not crosses
            if trades:
                self.order, self.last_target = wanted, target
        else:
            self.seen["no decision"] += 1
        if has_price and self.units and equity < rules.maintenance * abs(self.units) * unit:
            most = self.whole_lots(max(rules.leverage * equity / unit, 0.0))
            if abs(self.order) > most:
                self.order = math.copysign(most, self.order)
                self.seen["margin call"] += 1
                return MARGIN_CALL
        return 0

    def full_position(self, equity, unit, sigma):
        rules = self.rules
        if rules.lots:
            return rules.lots
        share = rules.fraction
        if rules.vol_target:
            share = min(rules.vol_target / sigma, rules.leverage) if sigma else 0.0
        return max(equity, 0.0) * share / unit

    def go_to_open(self, bar):
        """The split, the gap, and what is due to who held the position before the open."""
        if bar.split != 1:
            self.seen["split" if self.units else "split of an order that waits"] += self.units != 0 or self.order != 0
            self.order *= bar.split
            self.units *= bar.split
            self.price, self.entry, self.stop, self.limit = (x / bar.split for x in (self.price, self.entry, self.stop, self.limit))
        self.move_to(bar.open, bar.fx_open)
        self.pay("dividend", -self.units * self.rules.multiplier * self.rate * bar.dividend)
        self.charge(bar, bar.funding_open, bar.swap_open, bar.borrow_open)

    def charge(self, bar, funding, swap_years, borrow_years):
        """Funding and financing, at the open's price and rate; the position's side decides which rate it pays."""
        rules = self.rules
        position = self.units * rules.multiplier * bar.fx_open
        self.pay("funding", position * funding)
        value = abs(position * bar.open)
        self.pay("swap", value * swap_years * (rules.swap_short if position < 0 else rules.swap_long))
        self.pay("borrow", value * borrow_years * rules.borrow if position < 0 else 0.0)

    def offer(self, known, side, size, reference):
        """Price for a market order of this size and the share of it that is impact; `known` at the decision."""
        rules = self.rules
        impact = rules.impact * known.sigma * math.sqrt(size / known.volume) if known.volume else 0.0
        price = max(reference + side * reference * (rules.spread * known.half_spread + impact), 0.0)
        if rules.tick:
            ticks = price / rules.tick
            ticks = math.ceil(ticks - ROUNDING) if side > 0 else math.floor(ticks + ROUNDING)
            self.seen["rounded to ticks"] += ticks * rules.tick != price
            price = ticks * rules.tick
        return price, impact

    def fill(self, now, bar):
        """The order at the open: nearer to zero without limit, away from it as volume and margin allow."""
        rules, nothing = self.rules, (0.0, 0.0, 0.0)
        if self.order == self.units:
            return nothing
        if bar.open <= 0:
            self.seen["no price"] += 1
            return nothing
        side = 1 if self.order > self.units else -1
        held, goal = side * self.units, side * self.order  # held is below zero where the order first closes
        base = max(held, 0.0)
        most = goal
        if rules.volume_cap and now.volume and goal > base + rules.volume_cap * now.volume:
            most = base + rules.volume_cap * now.volume
            self.seen["cut by volume"] += 1
        price, impact = self.offer(now, side, most - held, bar.open)
        value = price * rules.multiplier * bar.fx_open
        if goal > base:
            # The largest position p, marked at the open, with p · worth ≤ leverage · (equity - cost · (p - held)).
            worth = bar.open * rules.multiplier * bar.fx_open
            cost = side * (price - bar.open) * rules.multiplier * bar.fx_open + rules.fee * value + rules.fee_per_unit * bar.fx_open
            carried = rules.leverage * (self.equity() + cost * held) / (worth + rules.leverage * cost)
            if carried < most:
                # What margin does not carry is given up; what volume does not allow waits.
                most = max(self.whole_lots(carried), base)
                self.order = side * most
                self.seen["cut by leverage"] += 1
            elif most < goal:
                most = max(self.whole_lots(most), base)
        size = most - held
        if size == 0:
            return nothing
        if size * value < rules.min_notional:
            closes = held < 0 <= goal
            self.seen["too small, but closes" if closes else "too small"] += 1
            if not closes:
                return nothing
        return self.trade(side, size, side * most, price, impact, bar.open)

    def trade(self, side, size, after, price, impact, reference):
        rules = self.rules
        self.seen["bought" if side > 0 else "sold"] += 1
        contracts = size * rules.multiplier * self.rate
        fee = rules.fee * contracts * price + rules.fee_per_unit * size * self.rate
        slip = side * contracts * (price - reference)
        # Owned units are bought at the price; a contract starts at the price and is settled to the reference.
        self.cash -= fee + (side * contracts * price if rules.owned else slip)
        self.paid["fee"] += fee
        self.paid["impact"] += contracts * reference * impact
        self.paid["spread"] += slip - contracts * reference * impact
        self.paid["traded"] += contracts * price
        reversed_ = self.units * after < 0
        self.seen["reversed"] += reversed_
        # A position ends where nothing is left of it, or where it is on the other side.
        self.paid["closed"] += self.units != 0 and self.units * after <= 0
        if after == 0:
            self.entry = 0.0
        elif self.units == 0 or reversed_:
            self.entry = price
        elif abs(after) > abs(self.units):
            self.entry = (abs(self.units) * self.entry + size * price) / abs(after)
        if self.units == 0 or reversed_ or after == 0:
            self.held, self.stop, self.limit = 0, 0.0, 0.0
        self.units = after
        return side * size, price, fee + slip

    def close_all(self, known, reference):
        side, size = (-1 if self.units > 0 else 1), abs(self.units)
        return self.trade(side, size, 0.0, *self.offer(known, side, size, reference), reference)

    def set_exits(self, action, bar):
        if self.units:
            side = math.copysign(1, self.units)
            if action.stop > 0:
                self.stop = max(bar.open - side * action.stop * bar.open, 0.0)
            if action.limit > 0:
                self.limit = max(bar.open + side * action.limit * bar.open, 0.0)

    def leave(self, now, bar):
        """Inside the bar the price first goes against the position, from the open to the worst price."""
        nothing = (0.0, 0.0, 0.0), 0
        if not self.units:
            return nothing
        side = math.copysign(1, self.units)
        adverse, favourable = (bar.low, bar.high) if side > 0 else (bar.high, bar.low)
        self.move_to(bar.open, bar.fx_close)  # what is earned inside the bar is converted at its close
        position = self.units * self.rules.multiplier * bar.fx_close
        equity = self.equity()

        def further(a, b):  # whether a is reached after b
            return side * (b - a) > 0

        # Equity at p, less what it must not fall below, is linear in p.
        def spare(p):
            return equity + position * (p - bar.open) - self.rules.liquidation * abs(position * p)

        touched = []
        if spare(adverse) <= 0:
            zero = bar.open + spare(bar.open) / (self.rules.liquidation * abs(position) - position)
            zero = bar.open if further(bar.open, zero) else adverse if further(zero, adverse) else zero
            touched.append((zero, 1, LIQUIDATED, "liquidated"))
        if self.stop and not further(self.stop, adverse):
            price = bar.open if further(bar.open, self.stop) else self.stop
            self.seen["stopped at the open"] += price == bar.open
            touched.append((price, 0, STOPPED, "stopped"))
        if touched:
            price, _, event, name = min(touched, key=lambda it: (-side * it[0], it[1]))
            if len(touched) == 2:
                self.seen["stopped before a liquidation" if event == STOPPED else "liquidated before a stop"] += 1
        elif self.limit and not further(favourable, self.limit):
            price, event, name = self.limit, LIMITED, "limit"
        else:
            return nothing
        self.seen[name] += 1
        self.move_to(price, bar.fx_close)
        left = self.close_all(now, price)
        self.order = 0.0
        if event == LIQUIDATED:
            self.last_target = 0.0  # may come back with the same action
        return left, event

    def state(self):
        return [
            self.equity(), self.peak, self.units, self.order, self.last_target, self.entry, self.held, self.stop, self.limit, self.closed,
            *self.paid.values(),
        ]


# ---------------------------------------------------------------- random cases


ALWAYS = {"fx_open": 1.0, "fx_close": 1.0, "tradable": 1.0, "split": 1.0}  # other columns are 0 where a case has none
COSTS = ["capital", "fraction", "owned", "fee", "fee_per_unit", "spread", "impact", "multiplier"]
KNOWN = ["sigma", "volume", "half_spread"]

# Rules and columns of the bar that vary; `fixed` rules; one in how many actions has a stop or limit, and a stop is far
# away, and one in how many bars falls to a third or more than doubles.
CASES = {
    "costs": dict(rules=COSTS, bars=KNOWN),
    "lots and ticks": dict(rules=[*COSTS, "lot", "tick", "min_notional", "lots"], bars=KNOWN, fixed={"capital": 1e5}),
    "volume": dict(rules=[*COSTS, "volume_cap", "lot", "min_notional"], bars=[*KNOWN, "split"], fixed={"volume_cap": 0.01}),
    "band": dict(rules=[*COSTS, "band", "band_of_target", "vol_target", "shortable", "lot"], bars=KNOWN),
    "margin": dict(rules=[*COSTS, "leverage", "maintenance", "liquidation", "lot"], bars=KNOWN, fixed={"fraction": 3.0}, jumps=60, brackets=2, far_stops=1, accounts=40),
    "stops and limits": dict(rules=[*COSTS, "leverage", "liquidation", "band", "tick"], bars=KNOWN, brackets=3, jumps=100),
    "flows": dict(
        rules=["owned", "borrow", "swap_long", "swap_short", "leverage", "fraction"],
        bars="split dividend funding_open funding_inside swap_open swap_inside borrow_open borrow_inside".split(),
    ),
    "exchange rates": dict(rules=[*COSTS, "leverage", "liquidation"], bars=[*KNOWN, "fx_open", "fx_close", "dividend", "funding_open"], brackets=4),
    "invalid bars and close-outs": dict(rules=COSTS, bars=[*KNOWN, "tradable", "close_out", "flat_next", "split"], brackets=6),
    "prices at and below zero": dict(rules=COSTS, bars=KNOWN, fixed={"fraction": 0.5, "maintenance": 0.0, "liquidation": 0.0}, below_zero=True),
    "everything": dict(rules=list(RULES), bars=BAR[4:], brackets=6, jumps=300, accounts=120),
}


def some_rules(draw, case):
    rules = {name: draw.choice(values) if name in case["rules"] else none for name, (none, values) in RULES.items()}
    return {name: float(value) for name, value in {**rules, **case.get("fixed", {})}.items()}


def some_bars(draw, case, rules):
    """`[STEPS + 1, 20]`: a walk from 100, with everything that can happen to a bar now and then."""
    n = STEPS + 1
    noise = (draw.random((n, 6)) + draw.random((n, 6)) - 1.0) * [0.01, 0.02, 0.005, 0.005, 0.002, 0.002]

    def rarely(one_in, value, none=0.0):
        return np.where(draw.integers(one_in, size=n) == 0, value, none)

    jump = rarely(case["jumps"], 0.3, 1.0) * rarely(case["jumps"], 2.5, 1.0) if "jumps" in case else np.ones(n)
    split = rarely(60, 2.0, 1.0) * rarely(120, 0.1, 1.0)
    gap = 1.0 / split if "split" in case["bars"] else np.ones(n)
    grid = rules["tick"] if draw.integers(2) else 0.0
    prices, last = np.empty((n, 4)), 100.0
    for i in range(n):
        first = last * (1 + noise[i, 0]) * gap[i]
        last = first * (1 + noise[i, 1]) * jump[i]
        last = last if 2.0 < last < 1e4 else 100.0
        prices[i] = first, max(first, last) * (1 + abs(noise[i, 2])), min(first, last) * (1 - abs(noise[i, 3])), last
    prices = np.round(prices / grid) * grid if grid else prices
    rates = 0.8 * np.cumprod(1 + noise[:, 4:].ravel()).reshape(n, 2)
    columns = {
        **dict(zip(BAR, prices.T)),
        "fx_open": rates[:, 0],
        "fx_close": rates[:, 1],
        "tradable": rarely(30, 0.0, 1.0),
        "split": split,
        "dividend": rarely(40, 0.02 * prices[:, 0]),
        "funding_open": rarely(8, 0.0003 * prices[:, 0]),
        "funding_inside": rarely(8, -0.0002 * prices[:, 0]),
        "swap_open": rarely(5, 3 / 365),
        "swap_inside": rarely(5, 1 / 365),
        "borrow_open": rarely(5, 3 / 365),
        "borrow_inside": rarely(5, 1 / 365),
        "close_out": rarely(60, 1.0),
        "sigma": rarely(50, 0.0, 0.01 + noise[:, 1] / 4),
        "volume": rarely(20, 0.0, np.floor(10 ** draw.uniform(2, 5) * (1 + 40 * noise[:, 1]))),
        "half_spread": 0.0003 + 0.04 * noise[:, 2],
        "flat_next": rarely(40, 1.0),
    }
    bars = np.column_stack([columns[name] if i < 4 or name in case["bars"] else np.full(n, ALWAYS.get(name, 0.0)) for i, name in enumerate(BAR)])
    bars[bars[:, BAR.index("tradable")] == 0, :4] = np.nan
    if case.get("below_zero"):
        low = draw.integers(12, size=n) == 0
        bars[low, 0] = draw.choice([0.0, -1.5], size=low.sum())
        bars[low, 2] = np.minimum(bars[low, 2], bars[low, 0])
    return bars


def some_actions(draw, case):
    """`[STEPS, 3]`: targets that are often repeated, stops and limits."""
    targets = draw.choice([-1.0, -1.0, 0.0, 0.5, 1.0, 1.0, math.nan], size=STEPS)
    part = draw.integers(8, size=STEPS) == 0
    targets[part] = draw.uniform(-1, 1, part.sum())
    for i in np.flatnonzero(draw.integers(2, size=STEPS)):
        targets[i] = targets[i - 1]
    distances = np.where(draw.integers(case.get("brackets", 1), size=(STEPS, 2)) == 0, draw.uniform(0.002, 0.03, (STEPS, 2)), 0.0)
    distances[draw.integers(case.get("far_stops", 8), size=STEPS) == 0, 0] *= 20
    return np.column_stack([targets, distances if "brackets" in case else np.zeros((STEPS, 2))])


def expect(rules, bars, actions, seen):
    """`[STEPS, 27]`: the second account over one trajectory."""
    broker = Broker(SimpleNamespace(**rules), seen)
    rows = [SimpleNamespace(**dict(zip(BAR, row))) for row in bars.tolist()]
    found = []
    for action, now, bar in zip(actions.tolist(), rows, rows[1:]):
        seen["live steps"] += not broker.closed
        outcome = broker.do(SimpleNamespace(target=action[0], stop=action[1], limit=action[2]), now, bar)
        found.append([*broker.state(), *outcome])
    return np.array(found, dtype="f8")


def compare(found, expected, capital):
    """The first number that is wrong, or None. Where margin is used up, rounding decides whether a last dust of units
    still fills: such a fill is none, in either account."""
    position = np.abs(expected[:, OUTPUT.index("quantity")]) + np.abs(expected[:, FILL + 3])
    for rows in (found, expected):
        rows[np.abs(rows[:, FILL]) <= TOLERANCE * position, FILL : FILL + 3] = 0.0
    least = [1e-3 * capital if name in MONEY else 1e-3 if name == "reward" else 0.0 for name in OUTPUT]
    least = np.tile(least, (len(expected), 1))
    least[:, FILL] = position
    wrong = ~(np.abs(found - expected) <= TOLERANCE * np.maximum(np.abs(expected), least))
    if not wrong.any():
        return None
    step, column = np.argwhere(wrong)[0]
    return f"step {step}: {OUTPUT[column]} is {found[step, column]!r}, expected {expected[step, column]!r}"


def run(program, accounts):
    """`[accounts, steps, 27]`: what `account::step` gives for each (rules, bars, actions)."""
    with tempfile.TemporaryDirectory(prefix="fullbore-oracle-") as folder:
        cases, out = Path(folder) / "cases", Path(folder) / "out"
        with cases.open("wb") as file:
            for rules, bars, actions in accounts:
                head = [float(len(actions)), *rules.values(), *bars[0]]
                np.concatenate([head, np.hstack([actions, bars[1:]]).ravel()]).astype("<f8").tofile(file)
        done = subprocess.run([program, "account", cases, out], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"fullbore-bench account ended with {done.returncode}: {done.stderr}"
        steps = sum(len(actions) for *_, actions in accounts)
        assert json.loads(done.stdout) == {"accounts": len(accounts), "steps": steps}, done.stdout
        return np.fromfile(out, "<f8").reshape(len(accounts), -1, len(OUTPUT))


def main():
    fullbore = Path(sys.argv[1]).resolve()
    program = fullbore.with_name("fullbore-bench" + fullbore.suffix)
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    accounts = []
    for number, (name, case) in enumerate(CASES.items()):
        if part in f"account, {name}":
            for seed in range(case.get("accounts", 10)):
                draw = np.random.default_rng([number, seed])
                rules = some_rules(draw, case)
                accounts.append((name, seed, rules, some_bars(draw, case, rules), some_actions(draw, case)))
    found = run(program, [account[2:] for account in accounts])
    seen, steps, failed = Counter(), Counter(), Counter()
    for (name, seed, rules, bars, actions), rows in zip(accounts, found):
        steps[name] += STEPS
        why = compare(rows, expect(rules, bars, actions, seen), rules["capital"])
        if why:
            failed[name] += 1
            special = {key: value for key, value in rules.items() if value != RULES[key][0]}
            print(f"FAILED  account, {name}, seed {seed}, {special}: {why}", flush=True)
    for name, n in steps.items():
        print(f"{'FAILED' if failed[name] else 'ok    '}  account, {name}: {n} steps", flush=True)
    passed = len(steps) - len(failed)
    missing = [] if part else [what for what in MUST_HAPPEN if seen[what] < 10]
    if missing or (not part and seen["live steps"] < 100_000):
        print(f"FAILED  account: {seen['live steps']} live steps; these happened less than 10 times: {missing}", flush=True)
        failed["coverage"] += 1
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
