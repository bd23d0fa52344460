"""What the indicator peers share: the bars in memory, the clock, the sums that both sides must agree on."""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIELDS = ["open", "high", "low", "close", "volume"]


def arguments(what):
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("bars", type=Path)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--time", action="store_true")
    action.add_argument("--columns", type=Path, metavar="OUT.parquet")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def names():
    """The features of `features.txt`, in its order."""
    lines = (Path(__file__).parent / "features.txt").read_text().splitlines()
    return [line.split("=")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def read(path):
    """The stored table and, for each symbol in turn, its first row and the row after its last."""
    table = pq.read_table(path, columns=["symbol", "start", *FIELDS]).combine_chunks()
    symbol = table["symbol"].cast(pa.string()).to_numpy(zero_copy_only=False)
    edges = np.flatnonzero(symbol[1:] != symbol[:-1]) + 1
    edges = [0, *edges.tolist(), len(symbol)]
    spans = list(zip(edges[:-1], edges[1:]))
    assert len(spans) == len(set(symbol.tolist())), "the rows of a symbol are not side by side"
    return table, spans


def seconds(work, rounds):
    """Median of the rounds after one that warms up. What `work` gives is alive until its round has ended."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        kept = work()
        times.append(time.perf_counter() - start)
        del kept
    return statistics.median(times)


# Bars of each symbol that are left out of the sums: TA-Lib hides some outputs for longer than they need.
WARM = 100


def checksum(columns, spans):
    """Name -> [finite values, their sum, the sum of their sizes]; a difference of sums is judged against the last."""
    out = {}
    warm = np.concatenate([np.arange(begin + WARM, end) for begin, end in spans])
    for name, values in columns.items():
        values = values[warm]
        values = values[np.isfinite(values)]
        out[name] = [len(values), float(values.sum()), float(np.abs(values).sum())]
    return out


def write(path, table, columns):
    """The columns as `fullbore-bench columns` writes them."""
    pq.write_table(pa.table({"symbol": table["symbol"], "start": table["start"], **columns}), path)


def report(rows, spans, columns, times, counted, **more):
    """One JSON object; `counted` are the variants that give what is asked for, the best of them is the peer's time."""
    best = min(counted, key=times.get)
    said = {"rows": rows, "outputs": len(columns), "seconds": times[best], "variant": best, "ns_per_bar": times[best] / rows * 1e9}
    said |= {"variants": times, "checksum": checksum(columns, spans), **more}
    said["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(said))
