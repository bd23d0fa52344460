"""vectorbt walks accounts through bars: a peer of `fullbore-bench backtest`.

Usage: vectorbt_backtest.py BARS ACCOUNTS ROUNDS. One JSON object out. Signals to go long, short and flat come at 2 % of
the bars each, orders fill at the open with fees and slippage of 1 bp; the first call compiles and is not counted.
`seconds` is the simulation alone, `all_seconds` has equity and Sharpe ratios too.
"""

import json
import sys
import time
import warnings

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
import vectorbt as vbt  # noqa: E402

bars, accounts, rounds = (int(word) for word in sys.argv[1:4])
random = np.random.default_rng(0)
close = 1500 * np.exp(np.cumsum(random.normal(0, 2e-4, bars)))
index = pd.date_range("2014-01-01", periods=bars, freq="5min")
opened = pd.Series(np.r_[close[0], close[:-1]], index)
close = pd.Series(close, index)
draw = random.random((bars, accounts))
long, short, flat = (pd.DataFrame((low <= draw) & (draw < low + 0.02), index) for low in (0.0, 0.02, 0.04))


def walk():
    return vbt.Portfolio.from_signals(
        close, long, flat, short, flat, price=opened, fees=1e-4, slippage=1e-4, freq="5min", init_cash=1e5
    )


def measure(portfolio):
    # By day, as ours does.
    portfolio.value()
    return float(portfolio.sharpe_ratio().sum())


measure(walk())
simulated, whole = [], []
for _ in range(rounds):
    start = time.perf_counter()
    portfolio = walk()
    simulated.append(time.perf_counter() - start)
    total = measure(portfolio)
    whole.append(time.perf_counter() - start)
steps = (bars - 1) * accounts
print(
    json.dumps(
        {
            "version": vbt.__version__,
            "seconds": min(simulated),
            "all_seconds": min(whole),
            "bar_accounts_per_s": steps / min(simulated),
            "sharpe_sum": total,
        }
    )
)
