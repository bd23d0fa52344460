"""Every indicator beside TA-Lib: the same value on every bar, the same first valid bar.

Usage: features.py PATH_OF_FULLBORE [PART_OF_A_CASE_NAME]. Run by `cargo xtask test`, which builds `fullbore-bench`
beside `fullbore`.

A case is one line of `TABLE` with one set of parameters on one market. Each market is written as a file of stored bars,
`fullbore-bench columns` computes all features of all cases in one run, TA-Lib computes them here, symbol by symbol. A
value is right within 1e-9 of the larger of the two or of the column's largest value (a sum that crosses zero has no
digits of its own there).

Where TA-Lib itself is off (small moves on a large price lose digits in differences of averages), its 1e-9 proves
nothing: the lines with a `precise` definition are then judged by long double, and ours passes within 1e-9 or with at
most four times TA-Lib's own error.

Left out, and counted: bars on which nothing moved and a ratio is 0/0 (`neutral` in `TABLE`). TA-Lib says 0, or divides
what rounding left of one sum by what it left of another; ours says the middle: 50 for rsi, stoch, stochrsi and mfi, -50
for williams_r.

| function | what TA-Lib means by it |
| --- | --- |
| ema, dema, tema, trix | seeded with the mean of the first `n` values, each stage anew |
| macd | the fast average is seeded late, with x[slow - fast .. slow - 1]; all outputs start with the signal |
| ppo | both averages are seeded at the first bar |
| rsi, cmo, atr | mean of bars 1 .. n, then Wilder |
| plus_di, minus_di, dx, adx | sum of bars 1 .. n - 1, then `p - p / n + x` from bar n; dx repeats itself where both are zero |
| kama | starts from the close before its first value; a window without movement counts as fully efficient |
| adosc | both averages start with the first bar's value of the line |
| sar | short only if the first move down is the larger one |
| aroon | `n + 1` bars, the newest of equals |
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import talib as ta

FIELDS = ["open", "high", "low", "close", "volume"]
TOLERANCE = 1e-9
PERIODS = [(2,), (3,), (5,), (14,), (50,), (200,)]
MACDS = [(12, 26, 9), (3, 10, 16), (5, 35, 5), (2, 3, 2)]
STOCHS = [(14, 3, 3), (5, 3, 3), (14, 1, 1), (3, 5, 2), (50, 3, 10)]


# ---------------------------------------------------------------- long double, for the lines where doubles run out of
# digits


def blank(x):
    return np.full(len(x), np.nan, dtype=np.longdouble)


def ema(x, n, first=0):
    out, start = blank(x), first + n - 1
    if start >= len(x):
        return out
    last = out[start] = x[first : start + 1].mean()
    k = np.longdouble(2) / (n + 1)
    for i in range(start + 1, len(x)):
        last = out[i] = last + k * (x[i] - last)
    return out


def again(x, n):
    """The average of an average: it starts where the first one does."""
    valid = np.flatnonzero(~np.isnan(x))
    return ema(x, n, valid[0] if len(valid) else len(x))


def lag(x, n):
    out = blank(x)
    out[n:] = x[:-n] if len(x) > n else []
    return out


def macd(x, fast, slow, signal):
    line = ema(x, fast, slow - fast) - ema(x, slow)
    smooth = again(line, signal)
    return np.where(np.isnan(smooth), np.nan, line), smooth, line - smooth


def ppo(x, fast, slow):
    return 100 * (ema(x, fast) / ema(x, slow) - 1)


def trix(x, n):
    smooth = again(again(ema(x, n), n), n)
    return 100 * (smooth - lag(smooth, 1)) / lag(smooth, 1)


def roc(x, n):
    return 100 * (x - lag(x, n)) / lag(x, n)


def windows(x, n):
    out = np.full((len(x), n), np.nan, dtype=np.longdouble)
    if len(x) >= n:
        out[n - 1 :] = np.lib.stride_tricks.sliding_window_view(x, n)
    return out


def slope(x, n):
    at = np.arange(n) - np.longdouble(n - 1) / 2
    return (windows(x, n) - lag(x, n - 1)[:, None]) @ at / (at * at).sum()


def cci(high, low, close, n):
    typical = (high + low + close) / 3
    window = windows(typical, n)
    middle = window.mean(axis=1)
    deviation = np.abs(window - middle[:, None]).mean(axis=1)
    with np.errstate(all="ignore"):
        out = (typical - middle) / (np.longdouble(0.015) * deviation)
    return np.where(deviation == 0, 0, out)


def variance(x, n):
    return windows(x, n).var(axis=1)


def bands(x, n, k):
    middle, width = windows(x, n).mean(axis=1), k * np.sqrt(variance(x, n))
    return middle + width, middle, middle - width


# ---------------------------------------------------------------- bars on which a ratio is 0/0


def spread(high, low, n):
    """Largest high minus smallest low of the last `n` bars; NaN before."""
    return ta.MAX(high, n) - ta.MIN(low, n) if n > 1 else high - low


def still(x):
    """Nothing has moved yet. (After a move Wilder's averages only fade; their ratio stays one.)"""
    moved = np.concatenate([[0.0], np.abs(np.diff(x))])
    return np.cumsum(moved) == 0


def widen(flags, n):
    """A bar whose average over `n` bars holds a flagged one."""
    return np.convolve(flags, np.ones(n))[: len(flags)] > 0


def flat_range(x, n, *smooth):
    flags = spread(x.high, x.low, n) == 0
    for s in smooth:
        flags = widen(flags, s)
    return flags


def flat_flow(x, n):
    typical = (x.high + x.low + x.close) / 3
    # Differences by the rounding of the mean alone are none, on both sides.
    flow = (np.abs(np.diff(typical, prepend=typical[:1])) > 2e-14 * typical) & (x.volume > 0)
    return ~widen(flow, n)


def flat_rsi(x, n, k, d):
    """Where RSI moves by rounding alone, its range is noise on both sides."""
    rsi = np.nan_to_num(ta.RSI(x.close, n), nan=1e3)
    return widen(spread(rsi, rsi, k) < 1e-7, d) | widen(still(x.close), k + d)


def flat_typical(x, n):
    typical = (x.high + x.low + x.close) / 3
    return spread(typical, typical, n) == 0


def flat_true_range(x, *periods):
    moved = np.nan_to_num(ta.TRANGE(x.high, x.low, x.close)) > 0
    return ~widen(moved, min(periods)) | ~widen(moved, max(periods))


# ---------------------------------------------------------------- the table: our expression, TA-Lib's call
# (name, parameters to sweep, outputs, TA-Lib's call in the order of the outputs, {precise, neutral})


def line(name, sweep, call, outputs=(None,), precise=None, neutral=None):
    return name, sweep, outputs, call, precise, neutral


TABLE = [
    line("sma", PERIODS, lambda x, n: ta.SMA(x.close, n)),
    line("ema", PERIODS, lambda x, n: ta.EMA(x.close, n)),
    line("wma", PERIODS, lambda x, n: ta.WMA(x.close, n)),
    line("dema", PERIODS, lambda x, n: ta.DEMA(x.close, n)),
    line("tema", PERIODS, lambda x, n: ta.TEMA(x.close, n)),
    line("kama", PERIODS, lambda x, n: ta.KAMA(x.close, n)),
    line("rsi", PERIODS, lambda x, n: ta.RSI(x.close, n), neutral=lambda x, n: still(x.close)),
    line("cmo", PERIODS, lambda x, n: ta.CMO(x.close, n)),
    line("stochrsi", [(14, 5, 3), (14, 14, 3), (5, 3, 3), (2, 2, 5), (50, 10, 2)], lambda x, n, k, d: ta.STOCHRSI(x.close, n, k, d, 0), ("k", "d"), neutral=flat_rsi),
    line("stoch", STOCHS, lambda x, n, k, d: ta.STOCH(x.high, x.low, x.close, n, k, 0, d, 0), ("k", "d"), neutral=flat_range),
    line("macd", MACDS, lambda x, f, s, g: ta.MACD(x.close, f, s, g), ("line", "signal", "hist"), lambda x, *p: macd(x.close, *p)),
    line("ppo", MACDS, lambda x, f, s, g: ta.PPO(x.close, f, s, 1), ("line",), lambda x, f, s, g: ppo(x.close, f, s)),
    line("roc", PERIODS, lambda x, n: ta.ROC(x.close, n), precise=lambda x, n: roc(x.close, n)),
    line("mom", PERIODS, lambda x, n: ta.MOM(x.close, n)),
    line("cci", PERIODS, lambda x, n: ta.CCI(x.high, x.low, x.close, n), precise=lambda x, n: cci(x.high, x.low, x.close, n), neutral=flat_typical),
    line("williams_r", PERIODS, lambda x, n: ta.WILLR(x.high, x.low, x.close, n), neutral=flat_range),
    line("ultimate", [(7, 14, 28), (2, 3, 5), (5, 10, 20)], lambda x, *p: ta.ULTOSC(x.high, x.low, x.close, *p), neutral=flat_true_range),
    line("adx", PERIODS, lambda x, n: ta.ADX(x.high, x.low, x.close, n)),
    line("plus_di", PERIODS, lambda x, n: ta.PLUS_DI(x.high, x.low, x.close, n)),
    line("minus_di", PERIODS, lambda x, n: ta.MINUS_DI(x.high, x.low, x.close, n)),
    line("dx", PERIODS, lambda x, n: ta.DX(x.high, x.low, x.close, n)),
    line("aroon", PERIODS, lambda x, n: (*ta.AROON(x.high, x.low, n), ta.AROONOSC(x.high, x.low, n)), ("down", "up", "osc")),
    line("atr", PERIODS, lambda x, n: ta.ATR(x.high, x.low, x.close, n)),
    line("natr", PERIODS, lambda x, n: ta.NATR(x.high, x.low, x.close, n)),
    line("true_range", [()], lambda x: ta.TRANGE(x.high, x.low, x.close)),
    line("bollinger", [(n, k) for (n,) in PERIODS for k in (1, 2.5)], lambda x, n, k: ta.BBANDS(x.close, n, float(k), float(k), 0), ("upper", "middle", "lower"), lambda x, n, k: bands(x.close, n, k)),
    line("donchian", PERIODS, lambda x, n: (ta.MAX(x.high, n), ta.MIDPRICE(x.high, x.low, n), ta.MIN(x.low, n)), ("upper", "middle", "lower")),
    line("sar", [(0.02, 0.2), (0.01, 0.1), (0.05, 0.5)], lambda x, a, m: ta.SAR(x.high, x.low, a, m)),
    line("obv", [()], lambda x: ta.OBV(x.close, x.volume)),
    line("ad", [()], lambda x: ta.AD(x.high, x.low, x.close, x.volume)),
    line("adosc", [(3, 10), (2, 5), (12, 50)], lambda x, f, s: ta.ADOSC(x.high, x.low, x.close, x.volume, f, s)),
    line("mfi", PERIODS, lambda x, n: ta.MFI(x.high, x.low, x.close, x.volume, n), neutral=flat_flow),
    line("std", PERIODS, lambda x, n: ta.STDDEV(x.close, n, 1.0), precise=lambda x, n: np.sqrt(variance(x.close, n))),
    line("variance", PERIODS, lambda x, n: ta.VAR(x.close, n, 1.0), precise=lambda x, n: variance(x.close, n)),
    line("linreg", PERIODS, lambda x, n: ta.LINEARREG(x.close, n)),
    line("linreg_slope", PERIODS, lambda x, n: ta.LINEARREG_SLOPE(x.close, n), precise=lambda x, n: slope(x.close, n)),
    line("trix", PERIODS, lambda x, n: ta.TRIX(x.close, n), precise=lambda x, n: trix(x.close, n)),
    line("bop", [()], lambda x: ta.BOP(x.open, x.high, x.low, x.close)),
]


# ---------------------------------------------------------------- the markets


class Bars:
    """One symbol: five columns of doubles (or of long doubles, for the precise definitions)."""

    def __init__(self, open_, high, low, close, volume):
        self.open, self.high, self.low, self.close, self.volume = (np.ascontiguousarray(v) for v in (open_, high, low, close, volume))

    def wide(self):
        return Bars(*(getattr(self, name).astype(np.longdouble) for name in FIELDS))


def walk(n, scale, seed, decimals=None, step=0.01, flats=()):
    rng = np.random.default_rng(seed)
    close = scale * np.exp(np.cumsum(rng.normal(0, step, n)))
    open_ = np.concatenate([[scale], close[:-1]]) * (1 + rng.normal(0, step / 10, n))
    high = np.maximum(open_, close) * (1 + np.abs(rng.normal(0, step / 2, n)))
    low = np.minimum(open_, close) * (1 - np.abs(rng.normal(0, step / 2, n)))
    volume = np.round(rng.lognormal(8, 1, n)) + 1
    if decimals is not None:
        open_, high, low, close = (np.round(v, decimals) for v in (open_, high, low, close))
    for begin, end in flats:
        for v in (open_, high, low, close):
            v[begin:end] = close[begin]
    return Bars(open_, high, low, close, volume)


def level(n, seed):
    """A price of a million that moves by a hundredth."""
    rng = np.random.default_rng(seed)
    close = 1e6 + np.cumsum(rng.normal(0, 0.003, n))
    open_ = np.concatenate([[1e6], close[:-1]])
    high, low = np.maximum(open_, close) + rng.random(n) * 0.005, np.minimum(open_, close) - rng.random(n) * 0.005
    return Bars(open_, high, low, close, np.round(rng.lognormal(8, 1, n)) + 1)


def real(file, rows, symbols):
    path = Path(__file__).parents[2] / "shared/data/bars" / file
    if not path.exists():
        return None
    table = pq.read_table(path, columns=[*FIELDS, *(["symbol"] if symbols else [])])
    arrays = {name: table[name].to_numpy().astype("f8") for name in FIELDS}
    if not symbols:
        return {"A": Bars(*(arrays[name][:rows] for name in FIELDS))}
    names = table["symbol"].cast(pa.string()).to_numpy(zero_copy_only=False)
    return {s: Bars(*(arrays[name][names == s][:rows] for name in FIELDS)) for s in symbols}


MARKETS = {
    "daily at 100": lambda: {s: walk(n, 100.0, seed) for s, n, seed in [("A", 1250, 1), ("B", 700, 2), ("C", 30, 3)]},
    "FX at 1.1, five decimals": lambda: {"A": walk(2000, 1.1, 4, 5, 0.0004)},
    "price 1e-8": lambda: {"A": walk(1000, 1e-8, 5)},
    "price 1e8": lambda: {"A": walk(1000, 1e8, 6)},
    "a million, moves of 0.01": lambda: {"A": level(1500, 7)},
    "ties and flat stretches": lambda: {"A": walk(1200, 100.0, 8, 0, 0.01, [(0, 40), (300, 380), (700, 900)]), "B": walk(900, 5.0, 9, 1)},
    "flat stretches at 1.1, five decimals": lambda: {"A": walk(1200, 1.1, 10, 5, 0.0004, [(300, 380), (700, 1000)])},
    "S&P 500, real": lambda: real("sp500_daily_2010_2017.parquet", 1500, ["A", "AAPL", "MSFT"]),
    "gold 5m, real": lambda: real("xauusd_m5_2014_2019.parquet", 5000, None),
}


def store(path, market):
    """As `fullbore data add` stores bars."""
    day = 86_400_000_000_000
    columns = {"symbol": [], "start": []} | {name: [] for name in FIELDS}
    for symbol, x in market.items():
        columns["symbol"] += [symbol] * len(x.close)
        columns["start"].append(1_262_563_200_000_000_000 + day * np.arange(len(x.close)))
        for name in FIELDS:
            columns[name].append(getattr(x, name))
    start = np.concatenate(columns["start"])
    stamps = {name: pa.array(v, pa.timestamp("ns", "UTC")) for name, v in [("start", start), ("end", start + day)]}
    pq.write_table(pa.table({"symbol": columns["symbol"], **stamps, **{n: np.concatenate(columns[n]) for n in FIELDS}}), path)


# ---------------------------------------------------------------- the check


def expressions():
    """Case -> [(column, expression)]."""
    cases = {}
    for entry in TABLE:
        for parameters in entry[1]:
            name = entry[0] + (f"({', '.join(map(str, parameters))})" if parameters else "")
            cases[name] = entry, parameters, [name + (f".{o}" if o else "") for o in entry[2]]
    return cases


def compute(program, folder, market, wanted):
    """Our columns, by symbol: name of the column -> values, NaN where there is none."""
    store(folder / "bars.parquet", market)
    text = "".join(f"c{i} = {expression}\n" for i, expression in enumerate(wanted))
    (folder / "set.txt").write_text(text)
    command = [program, "columns", folder / "bars.parquet", "--features", folder / "set.txt", "--out", folder / "out.parquet"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout.strip()[-600:]} {done.stderr.strip()[-600:]}"
    table = pq.read_table(folder / "out.parquet")
    symbol = table["symbol"].cast(pa.string()).to_numpy(zero_copy_only=False)
    out = {}
    for i, expression in enumerate(wanted):
        values = table[f"c{i}"].to_numpy(zero_copy_only=False).astype("f8")
        out[expression] = {s: values[symbol == s] for s in market}
    return out


def as_tuple(values):
    return values if isinstance(values, tuple) else (values,)


# TA-Lib hides these until the other output of the call exists; ours are shown as soon as they are known. (Its OBV
# begins with the first bar's whole volume; ours has no value there, because no price came before, and the same ones
# after.)
EARLIER = {"stoch.k", "stochrsi.k", "macd.line"}


def check(entry, parameters, outputs, ours, market):
    """Compares one case; gives (bars compared, bars left out, whether long double decided)."""
    _, _, _, call, precise, neutral = entry
    bars, left_out, by_precise = 0, 0, False
    for symbol, x in market.items():
        wanted = as_tuple(call(x, *parameters))
        skip = neutral(x, *parameters) if neutral else np.zeros(len(x.close), dtype=bool)
        exact = None
        for k, name in enumerate(outputs):
            got, want = ours[name][symbol], wanted[k]
            assert len(got) == len(want), f"{name} of {symbol}: {len(got)} rows, not {len(want)}"
            differs = np.isnan(got) != np.isnan(want)
            if name.split("(")[0] + "." + name.rsplit(".", 1)[-1] in EARLIER:
                differs &= np.isnan(got)
            if name == "obv":
                differs[0] = False
            wrong = np.flatnonzero(differs)
            if len(wrong):
                i = wrong[0]
                raise AssertionError(f"{name} of {symbol}: valid on other bars, {len(wrong)} of them, first at {i}: {float(got[i])!r}, not {float(want[i])!r}")
            use = ~np.isnan(want) & ~skip
            bars += int(use.sum())
            left_out += int((~np.isnan(want) & skip).sum())
            if not use.any():
                continue
            error, room = judge(got, want, use)
            if (error > room).any() and precise:
                exact = exact or as_tuple(precise(x.wide(), *parameters))
                truth = exact[k]
                theirs, _ = judge(want, truth, use)
                error, room = judge(got, truth, use)
                room = np.maximum(room, 4 * theirs.max())
                by_precise, want = True, truth
            if (error > room).any():
                worst = np.argmax(error / np.maximum(room, 5e-324))
                i = np.flatnonzero(use)[worst]
                raise AssertionError(
                    f"{name} of {symbol}: {(error > room).sum()} of {use.sum()} bars, worst at {i}: {float(got[i])!r}, not {float(want[i])!r}"
                    f" (off by {float(error[worst]):.2e}, allowed {float(room[worst]):.2e})"
                )
    return bars, left_out, by_precise


def judge(got, want, use):
    """Error of each used bar, and what is allowed."""
    got, want = got[use], want[use]
    return np.abs(got - want), TOLERANCE * np.maximum(np.maximum(np.abs(got), np.abs(want)), np.abs(want).max())


def main():
    fullbore = Path(sys.argv[1]).resolve()
    program = fullbore.with_name("fullbore-bench" + fullbore.suffix)
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    passed, failed, skipped = 0, 0, 0
    for place, make in MARKETS.items():
        cases = {name: case for name, case in expressions().items() if part in f"{name}, {place}"}
        if not cases:
            continue
        market = make()
        if market is None:
            print(f"SKIP: ../shared/data is missing ({place})")
            skipped += 1
            continue
        wanted = [expression for _, _, outputs in cases.values() for expression in outputs]
        bars, left_out, precise = 0, 0, 0
        good = passed
        with tempfile.TemporaryDirectory(prefix="fullbore-oracle-") as folder:
            try:
                ours = compute(program, Path(folder), market, wanted)
            except (AssertionError, OSError, KeyError, subprocess.TimeoutExpired) as why:
                print(f"FAILED  {place}: {why}", flush=True)
                failed += len(cases)
                continue
        for name, (entry, parameters, outputs) in cases.items():
            try:
                b, l, p = check(entry, parameters, outputs, ours, market)
                bars, left_out, precise, passed = bars + b, left_out + l, precise + p, passed + 1
            except AssertionError as why:
                print(f"FAILED  {name}, {place}: {why}", flush=True)
                failed += 1
        rest = f", {left_out} left out as 0/0" if left_out else ""
        rest += f", {precise} cases judged by long double" if precise else ""
        verdict = "ok    " if passed - good == len(cases) else "FAILED"
        print(f"{verdict}  {place}: {passed - good} of {len(cases)} cases, {bars} values{rest}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
