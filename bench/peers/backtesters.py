"""The account beside vectorbt and backtesting.py, on what they can express.

Usage: backtesters.py PATH_OF_FULLBORE. Run by `cargo xtask oracles --peers`: vectorbt and what it needs are too large
for every test run. Decided at a close, filled at the next open; equity at every close agrees to 1e-9.

| case | by |
| --- | --- |
| units, long and short, fee and half spread | vectorbt, `from_orders` with target amounts and slippage |
| all of the equity or nothing, fee and half spread | vectorbt, `from_signals` with slippage; opens are not below the close before, so that cash cuts every order |
| units, long and short, fee | backtesting.py, whose spread is paid only on the way in |

What they cannot express (margin calls, volume, lots, ticks, funding, exchange rates and more) is in oracles/account.py.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import vectorbt as vbt
from backtesting import Backtest, Strategy

sys.path.insert(0, str(Path(__file__).parents[2] / "oracles"))
import account  # noqa: E402

UNITS, FEE, HALF_SPREAD = 100.0, 0.0005, 0.0003
SEEDS = range(5)


def case(seed, targets, half_spread=0.0, **rules):
    """A random walk and random targets, NaN where nothing is decided."""
    draw = np.random.default_rng(seed)
    rules = {**{name: none for name, (none, _) in account.RULES.items()}, "fee": FEE, **rules}
    bars = account.some_bars(draw, {"bars": []}, rules)
    bars[:, account.BAR.index("half_spread")] = half_spread
    return rules, bars, draw.choice([*targets, np.nan], size=account.STEPS)


def equity(program, rules, bars, targets):
    actions = np.column_stack([targets, np.zeros((len(targets), 2))])
    return account.run(program, [(rules, bars, actions)])[0, :, account.OUTPUT.index("equity")]


def units(seed, half_spread):
    """Fixed quantities, with margin that never matters."""
    return case(seed, [-1.0, 0.0, 0.5, 1.0], half_spread, lots=UNITS, leverage=1e3, maintenance=0.0, liquidation=0.0)


def vectorbt_units(program, seed):
    rules, bars, targets = units(seed, HALF_SPREAD)
    close, opens = pd.Series(bars[1:, 3]), pd.Series(bars[1:, 0])
    peer = vbt.Portfolio.from_orders(
        close, pd.Series(UNITS * targets), "targetamount", price=opens, fees=FEE, slippage=HALF_SPREAD, init_cash=rules["capital"]
    )
    return equity(program, rules, bars, targets), peer.value().to_numpy()


def vectorbt_all(program, seed):
    rules, bars, targets = case(seed, [0.0, 1.0], HALF_SPREAD, owned=1.0)
    bars[1:, 0] = np.maximum(bars[1:, 0], bars[:-1, 3])
    bars[:, 1] = bars[:, :4].max(axis=1)
    close, opens = pd.Series(bars[1:, 3]), pd.Series(bars[1:, 0])
    peer = vbt.Portfolio.from_signals(
        close, pd.Series(targets == 1), pd.Series(targets == 0), price=opens, fees=FEE, slippage=HALF_SPREAD, init_cash=rules["capital"]
    )
    return equity(program, rules, bars, targets), peer.value().to_numpy()


def backtesting_units(program, seed):
    rules, bars, targets = units(seed, 0.0)
    targets[0] = np.nan  # its first decision is at the second bar

    class Targets(Strategy):
        def init(self):
            pass

        def next(self):
            now = len(self.data) - 1
            change = UNITS * targets[now] - self.position.size if now < len(targets) else 0.0
            if change > 0:
                self.buy(size=change)
            elif change < 0:
                self.sell(size=-change)

    table = pd.DataFrame(bars[:, :4], columns=["Open", "High", "Low", "Close"], index=pd.date_range("2020", periods=len(bars)))
    peer = Backtest(table, Targets, cash=rules["capital"], commission=FEE, margin=0.1).run()
    return equity(program, rules, bars, targets), peer._equity_curve.Equity.to_numpy()[1:]


def main():
    warnings.filterwarnings("ignore")
    fullbore = Path(sys.argv[1]).resolve()
    program = fullbore.with_name("fullbore-bench" + fullbore.suffix)
    cases = {"vectorbt, units": vectorbt_units, "vectorbt, all or nothing": vectorbt_all, "backtesting.py, units": backtesting_units}
    failed = 0
    for name, compute in cases.items():
        worst = 0.0
        for seed in SEEDS:
            ours, theirs = compute(program, seed)
            assert len(ours) == len(theirs) and np.ptp(theirs) > 0
            worst = max(worst, np.abs(ours / theirs - 1).max())
        good = worst <= account.TOLERANCE
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'}  {name}: equity differs by at most {worst:.1e}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
