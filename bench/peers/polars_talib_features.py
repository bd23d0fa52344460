"""polars_talib computes the features of `features.txt`: a peer of `fullbore-bench features`.

Usage: polars_talib_features.py BARS.parquet (--time | --columns OUT.parquet) [--threads N] [--rounds N]. One JSON
object out.

The expressions run on a frame in memory, one call for all outputs of a function. Variants: `with_columns` of every
expression `.over("symbol")`, eager, lazy and streaming; one `select` a symbol, shared out over threads (Polars releases
the GIL); and, for one symbol, one `select`. The best counts. (Tried and left out: `group_by().agg()`, twice as slow,
and `collect_all` of a query a symbol, which takes minutes. Streaming is the slowest of those that stayed and is timed
once.) A feature that polars_talib has not is left out and named under `missing`.
"""

import os
import sys

if "--threads" in sys.argv:  # Polars reads it once, when it is imported.
    os.environ["POLARS_MAX_THREADS"] = sys.argv[sys.argv.index("--threads") + 1]

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import polars_talib as ta

import peer

O, H, L, C, V = (pl.col(name) for name in peer.FIELDS)

# Outputs -> the expression; several outputs are one struct, in the order of its fields, "" for one that is not asked
# for.
EXPRESSIONS = {
    ("sma",): lambda: C.ta.sma(20),
    ("ema",): lambda: C.ta.ema(20),
    ("wma",): lambda: C.ta.wma(20),
    ("dema",): lambda: C.ta.dema(20),
    ("tema",): lambda: C.ta.tema(20),
    ("kama",): lambda: C.ta.kama(10),
    ("rsi",): lambda: C.ta.rsi(14),
    ("stochrsi_k", "stochrsi_d"): lambda: C.ta.stochrsi(14, 5, 3, 0),
    ("stoch_k", "stoch_d"): lambda: C.ta.stoch(H, L, 14, 3, 0, 3, 0),
    ("macd", "macd_signal", "macd_hist"): lambda: C.ta.macd(12, 26, 9),
    ("ppo",): lambda: C.ta.ppo(12, 26, 1),
    ("roc",): lambda: C.ta.roc(10),
    ("mom",): lambda: C.ta.mom(10),
    ("cci",): lambda: C.ta.cci(H, L, 20),
    ("cmo",): lambda: C.ta.cmo(14),
    ("williams_r",): lambda: C.ta.willr(H, L, 14),
    ("ultimate",): lambda: C.ta.ultosc(H, L, 7, 14, 28),
    ("adx",): lambda: C.ta.adx(H, L, 14),
    ("plus_di",): lambda: C.ta.plus_di(H, L, 14),
    ("minus_di",): lambda: C.ta.minus_di(H, L, 14),
    ("dx",): lambda: C.ta.dx(H, L, 14),
    ("aroon_down", "aroon_up"): lambda: H.ta.aroon(L, 14),
    ("aroon_osc",): lambda: H.ta.aroonosc(L, 14),
    ("atr",): lambda: C.ta.atr(H, L, 14),
    ("natr",): lambda: C.ta.natr(H, L, 14),
    ("true_range",): lambda: C.ta.trange(H, L),
    ("bollinger_upper", "bollinger_middle", "bollinger_lower"): lambda: C.ta.bbands(20, 2.0, 2.0, 0),
    ("donchian_upper",): lambda: H.ta.max(20),
    ("donchian_lower",): lambda: L.ta.min(20),
    ("donchian_middle",): lambda: H.ta.midprice(L, 20),
    ("sar",): lambda: H.ta.sar(L, 0.02, 0.2),
    ("obv",): lambda: C.ta.obv(V),
    ("ad",): lambda: C.ta.ad(H, L, V),
    ("adosc",): lambda: C.ta.adosc(H, L, V, 3, 10),
    ("mfi",): lambda: C.ta.mfi(H, L, V, 14),
    ("std",): lambda: C.ta.stddev(20, 1.0),
    ("variance",): lambda: C.ta.var(20, 1.0),
    ("linreg",): lambda: C.ta.linearreg(14),
    ("linreg_slope",): lambda: C.ta.linearreg_slope(14),
    ("trix",): lambda: C.ta.trix(15),
    ("bop",): lambda: O.ta.bop(H, L, C),
}


def build():
    """Expressions that this release has, as `(outputs, expression)`, and the features it has not."""
    have, missing = [], []
    for outputs, make in EXPRESSIONS.items():
        try:
            expression = make()
        except AttributeError:
            missing += outputs
            continue
        if len(outputs) > 1:
            expression = expression.struct.rename_fields(list(outputs))
        have.append((outputs, expression.alias("+".join(outputs))))
    return have, missing


def main():
    told = peer.arguments(__doc__)
    table, spans = peer.read(told.bars)
    have, missing = build()
    names = [name for outputs, _ in have for name in outputs]
    assert set(names) | set(missing) == set(peer.names()), (set(names) | set(missing)) ^ set(peer.names())
    structs = ["+".join(outputs) for outputs, _ in have if len(outputs) > 1]
    alone = [expression for _, expression in have]
    over = [expression.over("symbol") for expression in alone]
    frame = pl.from_arrow(table).with_columns(pl.col("symbol").cast(pl.Categorical)).rechunk()

    lazy = frame.lazy().with_columns(over).unnest(structs)
    variants = {
        "with_columns over(symbol)": lambda: frame.with_columns(over).unnest(structs),
        "lazy, over(symbol), streaming": lambda: lazy.collect(engine="streaming"),
    }
    with ThreadPoolExecutor(told.threads) as pool:
        if len(spans) == 1:
            variants["one select"] = lambda: frame.select(alone).unnest(structs)
            variants["one lazy select, streaming"] = lambda: frame.lazy().select(alone).unnest(structs).collect(engine="streaming")
        else:
            # Slices share the frame's memory; the outputs are joined into one frame as `over` gives it.
            parts = [frame.slice(begin, end - begin) for begin, end in spans]
            variants["select a symbol, threads"] = lambda: pl.concat(list(pool.map(lambda f: f.select(alone), parts))).unnest(structs)
            variants["select a symbol, serial"] = lambda: pl.concat([f.select(alone) for f in parts]).unnest(structs)
        result = frame.with_columns(over).unnest(structs)
        columns = {name: result[name].fill_null(float("nan")).to_numpy() for name in names}
        if told.columns:
            peer.write(told.columns, table, columns)
            return
        times = {name: peer.seconds(work, 1 if "streaming" in name else told.rounds) for name, work in variants.items()}
        as_table = peer.seconds(lambda: frame.with_columns(over).unnest(structs).select(pl.col(names).cast(pl.Float32)).to_numpy(order="c"), told.rounds)
    version = f"{ta.__version__}, polars {pl.__version__}"
    more = {"table_seconds": as_table, "threads": pl.thread_pool_size(), "version": version, "missing": missing}
    peer.report(table.num_rows, spans, columns, times, list(times), **more)


if __name__ == "__main__":
    main()
