"""TA-Lib computes the features of `features.txt`: the peer of `fullbore-bench features`.

Usage: talib_features.py BARS.parquet (--time | --columns OUT.parquet) [--threads N] [--rounds N]. One JSON object out.

As fast as TA-Lib can be driven from Python: the Cython functions without the wrapper that looks for pandas and polars;
one call for all outputs of a function; numpy where a step from another output is quicker than a call (`std`, `natr`,
...); the GIL is released inside, so threads share out symbols, or, where there are fewer symbols than threads,
functions. glibc is told to keep freed memory, so that no round pays for fresh pages. The best of the variants counts. A
training table (float32, row-major) is a step more for a user of TA-Lib; it is timed too, as information.
"""

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import talib
from talib import _ta_lib as ta

import peer


def bollinger(x):
    upper, middle, lower = ta.BBANDS(x.close, 20, 2.0, 2.0, 0)
    return {"bollinger_upper": upper, "bollinger_middle": middle, "bollinger_lower": lower}


def donchian(x):
    upper, lower = ta.MAX(x.high, 20), ta.MIN(x.low, 20)
    middle = upper + lower
    middle *= 0.5
    return {"donchian_upper": upper, "donchian_middle": middle, "donchian_lower": lower}


def aroon(x):
    down, up = ta.AROON(x.high, x.low, 14)
    return {"aroon_up": up, "aroon_down": down, "aroon_osc": up - down}


def atr(x):
    value = ta.ATR(x.high, x.low, x.close, 14)
    natr = value / x.close
    natr *= 100.0
    return {"atr": value, "natr": natr}


def variance(x):
    value = ta.VAR(x.close, 20, 1.0)
    return {"variance": value, "std": np.sqrt(value)}


def several(names, call):
    return lambda x: dict(zip(names, call(x)))


def one(name, call):
    return lambda x: {name: call(x)}


# Longest first, so that threads that share out functions end together.
TASKS = [
    donchian,
    one("cci", lambda x: ta.CCI(x.high, x.low, x.close, 20)),
    several(["stoch_k", "stoch_d"], lambda x: ta.STOCH(x.high, x.low, x.close, 14, 3, 0, 3, 0)),
    several(["stochrsi_k", "stochrsi_d"], lambda x: ta.STOCHRSI(x.close, 14, 5, 3, 0)),
    one("ultimate", lambda x: ta.ULTOSC(x.high, x.low, x.close, 7, 14, 28)),
    one("adx", lambda x: ta.ADX(x.high, x.low, x.close, 14)),
    one("dx", lambda x: ta.DX(x.high, x.low, x.close, 14)),
    one("plus_di", lambda x: ta.PLUS_DI(x.high, x.low, x.close, 14)),
    one("minus_di", lambda x: ta.MINUS_DI(x.high, x.low, x.close, 14)),
    aroon,
    several(["macd", "macd_signal", "macd_hist"], lambda x: ta.MACD(x.close, 12, 26, 9)),
    one("mfi", lambda x: ta.MFI(x.high, x.low, x.close, x.volume, 14)),
    bollinger,
    one("tema", lambda x: ta.TEMA(x.close, 20)),
    one("trix", lambda x: ta.TRIX(x.close, 15)),
    one("dema", lambda x: ta.DEMA(x.close, 20)),
    one("williams_r", lambda x: ta.WILLR(x.high, x.low, x.close, 14)),
    one("linreg", lambda x: ta.LINEARREG(x.close, 14)),
    one("linreg_slope", lambda x: ta.LINEARREG_SLOPE(x.close, 14)),
    one("adosc", lambda x: ta.ADOSC(x.high, x.low, x.close, x.volume, 3, 10)),
    one("ppo", lambda x: ta.PPO(x.close, 12, 26, 1)),
    atr,
    one("rsi", lambda x: ta.RSI(x.close, 14)),
    one("cmo", lambda x: ta.CMO(x.close, 14)),
    one("sar", lambda x: ta.SAR(x.high, x.low, 0.02, 0.2)),
    one("kama", lambda x: ta.KAMA(x.close, 10)),
    variance,
    one("ema", lambda x: ta.EMA(x.close, 20)),
    one("ad", lambda x: ta.AD(x.high, x.low, x.close, x.volume)),
    one("obv", lambda x: ta.OBV(x.close, x.volume)),
    one("wma", lambda x: ta.WMA(x.close, 20)),
    one("sma", lambda x: ta.SMA(x.close, 20)),
    one("true_range", lambda x: ta.TRANGE(x.high, x.low, x.close)),
    one("bop", lambda x: ta.BOP(x.open, x.high, x.low, x.close)),
    one("roc", lambda x: ta.ROC(x.close, 10)),
    one("mom", lambda x: ta.MOM(x.close, 10)),
]


class Bars:
    """One symbol: contiguous doubles."""

    __slots__ = peer.FIELDS

    def __init__(self, table, begin, end):
        for name in peer.FIELDS:
            setattr(self, name, np.ascontiguousarray(table[name].to_numpy()[begin:end], dtype="f8"))


def compute(x):
    out = {}
    for task in TASKS:
        out.update(task(x))
    return out


def over_symbols(pool, symbols, chunk):
    parts = [symbols[i : i + chunk] for i in range(0, len(symbols), chunk)]
    done = pool.map(lambda part: [compute(x) for x in part], parts)
    return list(itertools.chain.from_iterable(done))


def over_functions(pool, symbols):
    out = []
    for x in symbols:
        columns = {}
        for part in pool.map(lambda task: task(x), TASKS):
            columns.update(part)
        out.append(columns)
    return out


def assemble(pool, computed, names, block=1024):
    """The table that training reads: block by block, so that a block stays in the cache while its columns arrive."""
    rows = [len(columns[names[0]]) for columns in computed]
    table = np.empty((sum(rows), len(names)), dtype="f4")
    jobs, at = [], 0
    for columns, n in zip(computed, rows):
        in_order = [columns[name] for name in names]
        jobs += [(in_order, at, b, min(b + block, n)) for b in range(0, n, block)]
        at += n

    def fill(part):
        for in_order, at, begin, end in part:
            target = table[at + begin : at + end]
            for k, values in enumerate(in_order):
                target[:, k] = values[begin:end]

    list(pool.map(fill, [jobs[i::8] for i in range(8)]))
    return table


def keep_freed_memory():
    """Freed arrays stay with the process; without this every array is mapped, faulted in and given back."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-8, 1)  # M_ARENA_MAX: what one thread frees, another finds
    except OSError:
        pass  # not glibc


def main():
    told = peer.arguments(__doc__)
    table, spans = peer.read(told.bars)
    symbols = [Bars(table, *span) for span in spans]
    names = peer.names()
    n = told.threads

    with ThreadPoolExecutor(n) as pool:
        computed = over_symbols(pool, symbols, 1)
        assert set(computed[0]) == set(names), set(computed[0]) ^ set(names)
        columns = {name: np.concatenate([c[name] for c in computed]) for name in names}
        del computed
        if told.columns:
            peer.write(told.columns, table, columns)
            return
        variants = {"serial": lambda: [compute(x) for x in symbols]}
        if len(symbols) >= n:
            for chunk in sorted({1, max(1, len(symbols) // (8 * n))}):
                variants[f"{n} threads over symbols, {chunk} a task"] = lambda chunk=chunk: over_symbols(pool, symbols, chunk)
        if len(symbols) <= n:
            variants[f"{n} threads over functions"] = lambda: over_functions(pool, symbols)
        plain = {name: peer.seconds(work, told.rounds) for name, work in variants.items()}
        keep_freed_memory()
        kept = {f"{name}, freed memory kept": peer.seconds(work, told.rounds) for name, work in variants.items()}
        times = plain | kept
        best = variants[min(times, key=times.get).removesuffix(", freed memory kept")]
        as_table = peer.seconds(lambda: assemble(pool, best(), names), told.rounds)
    more = {"table_seconds": as_table, "threads": n, "version": talib.__version__, "missing": []}
    peer.report(table.num_rows, spans, columns, times, list(times), **more)


if __name__ == "__main__":
    main()
