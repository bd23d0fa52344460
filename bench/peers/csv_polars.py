"""Polars reads the CSV of bars, with the timestamp parsed: the peer of `fullbore-bench read-csv`.

Usage: csv_polars.py PATH VARIANT. One fresh process a variant, one JSON line out. The variants are the ways Polars'
documentation shows; the best of them counts. POLARS_MAX_THREADS is set by the caller.
"""

import json
import resource
import sys
import time

import polars as pl

STAMP = pl.col("timestamp").str.to_datetime("%Y-%m-%d %H:%M:%S")
TYPES = {"timestamp": pl.String, **{name: pl.Float64 for name in ("open", "high", "low", "close", "volume")}}

VARIANTS = {
    "read_csv, try_parse_dates": lambda path: pl.read_csv(path, try_parse_dates=True),
    "read_csv, types given, str.to_datetime": lambda path: pl.read_csv(path, schema_overrides=TYPES).with_columns(STAMP),
    "scan_csv, types given, str.to_datetime": lambda path: pl.scan_csv(path, schema=TYPES).with_columns(STAMP).collect(),
    "scan_csv, try_parse_dates": lambda path: pl.scan_csv(path, try_parse_dates=True).collect(),
}


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(list(VARIANTS)))
        return
    path, variant = sys.argv[1:]
    start = time.perf_counter()
    frame = VARIANTS[variant](path)
    seconds = time.perf_counter() - start
    assert frame.schema["timestamp"].is_temporal(), frame.schema
    print(
        json.dumps(
            {
                "rows": frame.height,
                "seconds": seconds,
                "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "threads": pl.thread_pool_size(),
                "close_sum": frame["close"].sum(),
                "version": pl.__version__,
            }
        )
    )


main()
