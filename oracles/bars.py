"""Bars through the real libraries and back, every value compared.

Usage: bars.py PATH_OF_FULLBORE [PART_OF_A_CASE_NAME]. Run by `cargo xtask test` with the Python of the pinned
environment.

Each case writes a file or folder with the library that people write it with (pandas, polars, pyarrow, numpy, the
standard library), has `fullbore data add` convert it, and reads the Parquet that comes out with pyarrow and with
polars. What must be equal is equal to the bit: prices, volumes and extra columns as doubles, starts in nanoseconds UTC
(zones by zoneinfo). A 32-bit float is widened exactly. Symbols are compared without punctuation and case: `BTC/USDT`
and `BTC_USDT` are one.
"""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
import zipfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

FIELDS = ["open", "high", "low", "close", "volume"]
CASES = {}


def case(name):
    """Registers a function `(folder) -> Sample` (or a list of functions' results by name)."""

    def register(make):
        assert name not in CASES, name
        CASES[name] = make
        return make

    return register


@dataclass
class Sample:
    """A path to add, and what must come out: symbol -> frame with `start` (int64 ns), the fields and extras."""

    path: Path
    expected: dict
    args: list = field(default_factory=list)
    timeframe: int | None = None  # ns, when end - start must equal it


MINUTE = 60_000_000_000
M5 = 5 * MINUTE
DAY = 24 * 60 * MINUTE


def walk(n, seed=1, decimals=2, scale=100.0):
    """Bars that break no rule: high and low hold open and close, prices are above zero."""
    rng = np.random.default_rng(seed)
    close = scale * np.exp(np.cumsum(rng.normal(0, 0.001, n)))
    open_ = np.concatenate([[scale], close[:-1]]) * (1 + rng.normal(0, 0.0001, n))
    high = np.maximum(open_, close) * (1 + np.abs(rng.normal(0, 0.0005, n)) + 1e-4)
    low = np.minimum(open_, close) * (1 - np.abs(rng.normal(0, 0.0005, n)) - 1e-4)
    frame = pd.DataFrame({"open": open_, "high": high, "low": low, "close": close})
    if decimals is not None:
        frame = frame.round(decimals)
    frame["volume"] = np.round(rng.lognormal(5, 1, n) + 1, 3)
    return frame


def at_5m(n=300, start="2024-03-01"):
    """5-minute starts in ns, without a hole."""
    return pd.Timestamp(start, tz="UTC").value + M5 * np.arange(n, dtype=np.int64)


def daily(n=300, start="2023-01-02"):
    """Business days at midnight, ns."""
    return pd.bdate_range(start, periods=n).as_unit("ns").asi8.copy()


def want(frame, starts):
    """What must come out of `frame` at these starts."""
    out = frame.copy()
    out.insert(0, "start", np.asarray(starts, dtype=np.int64))
    return out.reset_index(drop=True)


def naive(starts, form="%Y-%m-%d %H:%M:%S"):
    return pd.DatetimeIndex(np.asarray(starts, dtype="datetime64[ns]")).strftime(form)


# ---------------------------------------------------------------- CSV

STAMPS = {
    "seconds": lambda s: naive(s),
    "minutes": lambda s: naive(s, "%Y-%m-%d %H:%M"),
    "iso T": lambda s: naive(s, "%Y-%m-%dT%H:%M:%S"),
    "iso Z": lambda s: naive(s, "%Y-%m-%dT%H:%M:%SZ"),
    "iso millis Z": lambda s: naive(s, "%Y-%m-%dT%H:%M:%S.000Z"),
    "offset": lambda s: pd.DatetimeIndex(s, tz="UTC").tz_convert("Asia/Tokyo").strftime("%Y-%m-%d %H:%M:%S+09:00"),
    "compact": lambda s: naive(s, "%Y%m%d %H%M%S"),
    "dots": lambda s: naive(s, "%Y.%m.%d %H:%M"),
    "slashes": lambda s: naive(s, "%Y/%m/%d %H:%M:%S"),
    "day first": lambda s: naive(s, "%d/%m/%Y %H:%M"),
    "day first dots": lambda s: naive(s, "%d.%m.%Y %H:%M:%S"),
    "us": lambda s: naive(s, "%m/%d/%Y %H:%M"),
    "us 12 hours": lambda s: naive(s, "%m/%d/%Y %I:%M:%S %p"),
    "epoch s": lambda s: s // 10**9,
    "epoch ms": lambda s: s // 10**6,
    "epoch us": lambda s: s // 10**3,
    "epoch ns": lambda s: s,
    "epoch float s": lambda s: [f"{v // 10**9}.0" for v in s],
}


def register_stamps():
    for name, stamp in STAMPS.items():

        def make(folder, stamp=stamp):
            # From the 10th on 20 days, so that a day above 12 says which number is the day.
            starts = at_5m(6000, "2024-03-10")
            frame = walk(6000)
            table = frame.copy()
            table.insert(0, "timestamp", np.asarray(stamp(starts)))
            table.to_csv(folder / "ABC.csv", index=False)
            return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)

        case(f"csv, stamps: {name}")(make)


register_stamps()


def csv_names(folder, names, **to_csv):
    starts, frame = at_5m(), walk(300)
    table = frame.copy()
    table.insert(0, "time", naive(starts))
    table = table[list(names)].rename(columns=names)
    table.to_csv(folder / "ABC.csv", index=False, **to_csv)
    return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)


@case("csv, capitals in another order")
def _(folder):
    names = {"volume": "Volume", "close": "Close", "time": "Datetime", "low": "Low", "high": "High", "open": "Open"}
    return csv_names(folder, names)


@case("csv, upper case")
def _(folder):
    return csv_names(folder, {"time": "DATE", "open": "OPEN", "high": "HIGH", "low": "LOW", "close": "CLOSE", "volume": "VOLUME"})


@case("csv, short names")
def _(folder):
    return csv_names(folder, {"time": "t", "open": "o", "high": "h", "low": "l", "close": "c", "volume": "v"})


@case("csv, byte order mark and CRLF")
def _(folder):
    same = {k: k for k in ["time", *FIELDS]}
    return csv_names(folder, same, encoding="utf-8-sig", lineterminator="\r\n")


@case("csv, everything quoted")
def _(folder):
    return csv_names(folder, {k: k for k in ["time", *FIELDS]}, quoting=1)


@case("csv, semicolons and decimal commas")
def _(folder):
    return csv_names(folder, {k: k for k in ["time", *FIELDS]}, sep=";", decimal=",")


@case("csv, gzip by pandas")
def _(folder):
    sample = csv_names(folder, {k: k for k in ["time", *FIELDS]})
    (folder / "gz").mkdir()
    pd.read_csv(sample.path, dtype=str).to_csv(folder / "gz" / "ABC.csv.gz", index=False)
    sample.path = folder / "gz" / "ABC.csv.gz"
    return sample


@case("csv, newest first")
def _(folder):
    starts, frame = at_5m(), walk(300)
    table = frame.copy()
    table.insert(0, "date", naive(starts))
    table.iloc[::-1].to_csv(folder / "ABC.csv", index=False)
    return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)


@case("csv, date and time in two columns")
def _(folder):
    starts, frame = at_5m(), walk(300)
    table = frame.copy()
    table.insert(0, "Date", naive(starts, "%Y-%m-%d"))
    table.insert(1, "Time", naive(starts, "%H:%M:%S"))
    table.to_csv(folder / "ABC.csv", index=False)
    return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)


@case("csv, extra columns travel along")
def _(folder):
    starts, frame = at_5m(), walk(300)
    frame["vwap"] = walk(300, 7, None)["close"]
    frame["trades"] = np.arange(300, dtype=float)
    table = frame.copy()
    table.insert(0, "timestamp", naive(starts))
    table.to_csv(folder / "ABC.csv", index=False)
    return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)


@case("csv, long table by FinRL")
def _(folder):
    expected, tables = {}, []
    for seed, tic in enumerate(["AAPL", "MSFT", "BRK-B"]):
        starts, frame = daily(), walk(300, seed)
        expected[tic] = want(frame, starts)
        table = frame.copy()
        table.insert(0, "date", naive(starts, "%Y-%m-%d"))
        table["tic"] = tic
        table["day"] = pd.DatetimeIndex(np.asarray(starts, dtype="datetime64[ns]")).day_of_week
        tables.append(table)
    long = pd.concat(tables).sort_values(["date", "tic"], kind="stable").reset_index(drop=True)
    long.to_csv(folder / "train_data.csv")  # with its unnamed index, as FinRL's notebooks write it
    return Sample(folder / "train_data.csv", expected)


@case("csv, one file a symbol")
def _(folder):
    expected = {}
    for seed, symbol in enumerate(["EURUSD", "GBPUSD", "USDJPY"]):
        starts, frame = at_5m(), walk(300, seed, 5, 1.1)
        expected[symbol] = want(frame, starts)
        table = frame.copy()
        table.insert(0, "datetime", naive(starts))
        table.to_csv(folder / f"{symbol}.csv", index=False)
    return Sample(folder, expected, timeframe=M5)


@case("yfinance, one header line, Adj Close")
def _(folder):
    starts, frame = daily(), walk(300, 3, None)
    frame["volume"] = np.round(frame["volume"]) * 1000
    frame["Adj Close"] = frame["close"]
    table = frame.rename(columns=str.capitalize).rename(columns={"Adj close": "Adj Close"})
    table["Volume"] = table["Volume"].astype("int64")
    table.index = pd.DatetimeIndex(np.asarray(starts, dtype="datetime64[ns]"), name="Date")
    table[["Open", "High", "Low", "Close", "Adj Close", "Volume"]].to_csv(folder / "AAPL.csv")
    return Sample(folder / "AAPL.csv", {"AAPL": want(frame[["open", "high", "low", "close", "volume"]], starts)})


@case("yfinance, history with zone and dividends")
def _(folder):
    starts = pd.bdate_range("2023-01-02", periods=300, tz="America/New_York").as_unit("ns")
    frame = walk(300, 4, None)
    table = frame.rename(columns=str.capitalize)
    table["Dividends"] = 0.0
    table["Stock Splits"] = 0.0
    table.index = starts.rename("Date")
    table.to_csv(folder / "MSFT.csv")
    return Sample(folder / "MSFT.csv", {"MSFT": want(frame, starts.asi8)})


def yfinance_download(folder, tickers):
    starts = daily()
    frames = {t: walk(300, seed, None) for seed, t in enumerate(tickers)}
    columns = {(f.capitalize(), t): frames[t][f].to_numpy() for f in ["close", "high", "low", "open", "volume"] for t in tickers}
    table = pd.DataFrame(columns, index=pd.DatetimeIndex(np.asarray(starts, dtype="datetime64[ns]"), name="Date"))
    table.columns = pd.MultiIndex.from_tuples(columns, names=["Price", "Ticker"])
    table.to_csv(folder / "download.csv")
    return Sample(folder / "download.csv", {t: want(frames[t], starts) for t in tickers})


@case("yfinance, three header lines, one ticker")
def _(folder):
    return yfinance_download(folder, ["AAPL"])


@case("yfinance, three header lines, three tickers")
def _(folder):
    return yfinance_download(folder, ["AAPL", "BRK-B", "^GSPC"])


@case("MetaTrader 5 export")
def _(folder):
    starts, frame = at_5m(), walk(300, 5, 2, 2000)
    table = pd.DataFrame({"<DATE>": naive(starts, "%Y.%m.%d"), "<TIME>": naive(starts, "%H:%M:%S")})
    for f in ["open", "high", "low", "close"]:
        table[f"<{f.upper()}>"] = frame[f].map("{:.2f}".format)
    frame["volume"] = np.round(frame["volume"])
    table["<TICKVOL>"] = frame["volume"].astype(int)
    table["<VOL>"] = 0
    table["<SPREAD>"] = 12
    table.to_csv(folder / "XAUUSD_M5_202403010000_202403020055.csv", sep="\t", index=False)
    return Sample(folder / "XAUUSD_M5_202403010000_202403020055.csv", {"XAUUSD": want(frame, starts)}, timeframe=M5)


def binance(folder, name, unit, header, zipped=True):
    starts = at_5m(300, "2025-02-01" if unit == 10**3 else "2024-02-01")
    frame = walk(300, 6, 2, 40_000)
    frame["volume"] = np.round(frame["volume"], 5)
    frame["quote_volume"] = np.round(frame["volume"] * frame["close"], 8)
    frame["count"] = np.arange(300, dtype=float) + 5
    rows = pd.DataFrame({"open_time": starts // unit})
    for f in FIELDS:
        rows[f] = frame[f].map("{:.8f}".format)
    rows["close_time"] = (starts + M5) // unit - 1
    rows["quote_volume"] = frame["quote_volume"].map("{:.8f}".format)
    rows["count"] = frame["count"].astype(int)
    rows["taker_buy_volume"] = "1.00000000"
    rows["taker_buy_quote_volume"] = "2.00000000"
    rows["ignore"] = 0
    frame = frame[FIELDS]
    text = rows.to_csv(index=False, header=header)
    if not zipped:
        (folder / f"{name}.csv").write_text(text)
        return Sample(folder / f"{name}.csv", {"BTCUSDT": want(frame, starts)}, timeframe=M5)
    with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.csv", text)
    return Sample(folder / f"{name}.zip", {"BTCUSDT": want(frame, starts)}, timeframe=M5)


@case("Binance zip, milliseconds, no header")
def _(folder):
    return binance(folder, "BTCUSDT-5m-2024-02", 10**6, False)


@case("Binance zip, milliseconds, header")
def _(folder):
    return binance(folder, "BTCUSDT-5m-2024-02", 10**6, True)


@case("Binance zip, microseconds, no header")
def _(folder):
    return binance(folder, "BTCUSDT-5m-2025-02", 10**3, False)


@case("Binance csv, microseconds, header")
def _(folder):
    return binance(folder, "BTCUSDT-5m-2025-02", 10**3, True, zipped=False)


@case("LEAN minute zips, equity, prices times 10,000")
def _(folder):
    new_york = ZoneInfo("America/New_York")
    place = folder / "equity" / "usa" / "minute" / "spy"
    place.mkdir(parents=True)
    frames, starts = [], []
    for seed, day in enumerate([datetime(2024, 3, 8), datetime(2024, 3, 11), datetime(2024, 3, 12)]):
        frame = walk(390, 20 + seed, 2, 470)
        frame["volume"] = np.round(frame["volume"])
        lines = []
        for i, row in enumerate(frame.itertuples()):
            ms = (9 * 60 + 30 + i) * 60_000
            prices = ",".join(str(round(v * 10_000)) for v in (row.open, row.high, row.low, row.close))
            lines.append(f"{ms},{prices},{int(row.volume)}")
            local = day.replace(hour=9 + (30 + i) // 60, minute=(30 + i) % 60, tzinfo=new_york)
            starts.append(int(local.timestamp()) * 10**9)
        stamp = day.strftime("%Y%m%d")
        with zipfile.ZipFile(place / f"{stamp}_trade.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{stamp}_spy_minute_trade.csv", "\n".join(lines) + "\n")
        frames.append(frame)
    return Sample(folder, {"SPY": want(pd.concat(frames), starts)}, timeframe=MINUTE)


# ---------------------------------------------------------------- zones


def zoned(folder, zone, days, args):
    """Wall clocks without a zone, told by flag; expected by zoneinfo. Around a change of clocks, outside the doubtful
    hour."""
    local = [
        datetime(d.year, d.month, d.day, 9, 30).replace(tzinfo=ZoneInfo(zone)).timestamp() + 300 * i
        for d in pd.bdate_range(days, periods=10)
        for i in range(78)
    ]
    starts = np.array([int(t) * 10**9 for t in local], dtype=np.int64)
    frame = walk(len(starts), 8)
    wall = pd.DatetimeIndex(starts, tz="UTC").tz_convert(zone).strftime("%Y-%m-%d %H:%M:%S")
    table = frame.copy()
    table.insert(0, "datetime", wall)
    table.to_csv(folder / "SPY.csv", index=False)
    return Sample(folder / "SPY.csv", {"SPY": want(frame, starts)}, args, timeframe=M5)


for _zone in ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Sydney"]:
    for _days in ["2024-03-04", "2024-10-24"]:
        case(f"zone {_zone} from {_days}")(lambda f, z=_zone, d=_days: zoned(f, z, d, ["--timezone", z]))


@case("zone, offsets that change with the clocks")
def _(folder):
    sample = zoned(folder, "America/New_York", "2024-03-04", [])
    starts = sample.expected["SPY"]["start"].to_numpy()
    table = sample.expected["SPY"].drop(columns="start")
    table.insert(0, "Datetime", pd.DatetimeIndex(starts, tz="UTC").tz_convert("America/New_York").astype(str))
    table.to_csv(sample.path, index=False)
    return sample


# ---------------------------------------------------------------- Parquet and feather by pandas


def pandas_frame(starts, unit, zone):
    """The stamps as pandas holds them: `unit` s, ms, us or ns; zone or none (then a UTC wall clock)."""
    index = pd.DatetimeIndex(np.asarray(starts).astype("datetime64[ns]").astype(f"datetime64[{unit}]"))
    return index if zone is None else index.tz_localize("UTC").tz_convert(zone)


def by_pandas(folder, kind, unit, zone):
    starts, frame = at_5m(), walk(300, 9, None)
    table = frame.copy()
    table.insert(0, "timestamp", pandas_frame(starts, unit, zone))
    path = folder / f"ABC.{kind}"
    getattr(table, f"to_{kind}")(path)
    return Sample(path, {"ABC": want(frame, starts)}, timeframe=M5)


for _kind in ["parquet", "feather"]:
    for _unit in ["s", "ms", "us", "ns"]:
        for _zone in [None, "UTC", "America/New_York"]:
            _make = lambda f, k=_kind, u=_unit, z=_zone: by_pandas(f, k, u, z)  # noqa: E731
            case(f"pandas {_kind}, {_unit}, {_zone or 'no zone'}")(_make)


@case("pandas parquet, unnamed DatetimeIndex")
def _(folder):
    starts, frame = at_5m(), walk(300, 10, None)
    table = frame.copy()
    table.index = pandas_frame(starts, "ns", "UTC")
    table.to_parquet(folder / "ABC.parquet")
    assert "__index_level_0__" in pq.read_schema(folder / "ABC.parquet").names
    return Sample(folder / "ABC.parquet", {"ABC": want(frame, starts)}, timeframe=M5)


@case("pandas parquet, named DatetimeIndex, capitals")
def _(folder):
    starts, frame = daily(), walk(300, 11, None)
    table = frame.rename(columns=str.capitalize)
    table.index = pd.DatetimeIndex(np.asarray(starts, dtype="datetime64[ns]"), name="Date")
    table.to_parquet(folder / "AAPL.parquet")
    return Sample(folder / "AAPL.parquet", {"AAPL": want(frame, starts)})


def long_table(symbols, starts, symbol_type):
    expected, tables = {}, []
    for seed, symbol in enumerate(symbols):
        frame = walk(len(starts), 30 + seed, None)
        expected[symbol] = want(frame, starts)
        table = frame.copy()
        table.insert(0, "symbol", symbol)
        table.insert(1, "timestamp", pandas_frame(starts, "us", "UTC"))
        tables.append(table)
    long = pd.concat(tables, ignore_index=True)
    long["symbol"] = long["symbol"].astype(symbol_type)
    return long, expected


for _kind in ["parquet", "feather"]:
    for _type in ["category", "str", "object"]:

        def _make(folder, kind=_kind, symbol_type=_type):
            long, expected = long_table(["AAA", "BBB", "CCC"], at_5m(), symbol_type)
            getattr(long, f"to_{kind}")(folder / f"all.{kind}")
            return Sample(folder / f"all.{kind}", expected, timeframe=M5)

        case(f"pandas {_kind}, long, symbols as {_type}")(_make)


@case("pandas parquet, long, sorted by time, small row groups")
def _(folder):
    long, expected = long_table(["AAA", "BBB", "CCC"], at_5m(), "str")
    long = long.sort_values(["timestamp", "symbol"]).reset_index(drop=True)
    long.to_parquet(folder / "all.parquet", row_group_size=100)
    return Sample(folder / "all.parquet", expected, timeframe=M5)


@case("pandas parquet, one file a symbol")
def _(folder):
    expected = {}
    for seed, symbol in enumerate(["AAA", "BBB"]):
        starts, frame = at_5m(), walk(300, 40 + seed, None)
        expected[symbol] = want(frame, starts)
        table = frame.copy()
        table.insert(0, "timestamp", pandas_frame(starts, "ms", None))
        table.to_parquet(folder / f"{symbol}.parquet", index=False)
    return Sample(folder, expected, timeframe=M5)


@case("pandas parquet, float32 and int64 columns, epoch milliseconds")
def _(folder):
    starts, frame = at_5m(), walk(300, 12, None).astype("float32")
    frame["volume"] = np.arange(300, dtype=np.int64) + 1
    table = frame.copy()
    table.insert(0, "time", starts // 10**6)
    table.to_parquet(folder / "ABC.parquet", index=False)
    return Sample(folder / "ABC.parquet", {"ABC": want(frame.astype("float64"), starts)}, timeframe=M5)


for _codec in ["snappy", "gzip", "zstd", "lz4", None]:

    def _make(folder, codec=_codec):
        starts, frame = at_5m(), walk(300, 13, None)
        table = frame.copy()
        table.insert(0, "timestamp", pandas_frame(starts, "ns", None))
        table.to_parquet(folder / "ABC.parquet", index=False, compression=codec)
        return Sample(folder / "ABC.parquet", {"ABC": want(frame, starts)}, timeframe=M5)

    case(f"pandas parquet, codec {_codec}")(_make)


@case("pyarrow parquet, int96 stamps and decimal prices")
def _(folder):
    starts, frame = at_5m(), walk(300, 14, 2)
    columns = {"timestamp": pa.array(starts, pa.timestamp("ns"))}
    for f in ["open", "high", "low", "close"]:
        columns[f] = pa.array([f"{v:.2f}" for v in frame[f]]).cast(pa.decimal128(12, 2))
    columns["volume"] = pa.array(frame["volume"])
    pq.write_table(pa.table(columns), folder / "ABC.parquet", use_deprecated_int96_timestamps=True)
    return Sample(folder / "ABC.parquet", {"ABC": want(frame, starts)}, timeframe=M5)


@case("freqtrade feather, pair and timeframe in the name")
def _(folder):
    starts, frame = at_5m(), walk(300, 15, 2, 60_000)
    table = frame.copy()
    table.insert(0, "date", pandas_frame(starts, "ms", "UTC"))
    table.to_feather(folder / "BTC_USDT-5m.feather", compression_level=9, compression="lz4")
    return Sample(folder / "BTC_USDT-5m.feather", {"BTC/USDT": want(frame, starts)}, timeframe=M5)


@case("freqtrade feather, futures in the name, a folder of two pairs")
def _(folder):
    expected = {}
    for seed, (name, symbol) in enumerate([("BTC_USDT_USDT-5m-futures", "BTC/USDT:USDT"), ("ETH_USDT_USDT-5m-futures", "ETH/USDT:USDT")]):
        starts, frame = at_5m(), walk(300, 50 + seed, 2, 3000)
        expected[symbol] = want(frame, starts)
        table = frame.copy()
        table.insert(0, "date", pandas_frame(starts, "ms", "UTC"))
        table.to_feather(folder / f"{name}.feather", compression="lz4")
    return Sample(folder, expected, timeframe=M5)


# ---------------------------------------------------------------- polars


def by_polars(folder, write, starts, stamp_type, **kwargs):
    frame = walk(len(starts), 16, None)
    table = pl.DataFrame({"timestamp": starts, **{f: frame[f].to_numpy() for f in FIELDS}})
    table = table.with_columns(pl.col("timestamp").cast(pl.Datetime("ns")).cast(stamp_type))
    path = folder / ("ABC.parquet" if write == "write_parquet" else "ABC.arrow")
    getattr(table, write)(path, **kwargs)
    return Sample(path, {"ABC": want(frame, starts)})


for _write in ["write_parquet", "write_ipc"]:
    for _stamp in ["ms", "us", "ns"]:
        _make = lambda f, w=_write, u=_stamp: by_polars(f, w, at_5m(), pl.Datetime(u))  # noqa: E731
        case(f"polars {_write}, {_stamp}")(_make)
    case(f"polars {_write}, dates")(lambda f, w=_write: by_polars(f, w, daily(), pl.Date))

for _codec in ["uncompressed", "snappy", "lz4", "zstd", "gzip"]:
    _make = lambda f, c=_codec: by_polars(f, "write_parquet", at_5m(), pl.Datetime("us"), compression=c)  # noqa: E731
    case(f"polars write_parquet, codec {_codec}")(_make)
for _codec in ["uncompressed", "lz4", "zstd"]:
    _make = lambda f, c=_codec: by_polars(f, "write_ipc", at_5m(), pl.Datetime("us"), compression=c)  # noqa: E731
    case(f"polars write_ipc, codec {_codec}")(_make)

for _write, _ending in [("write_parquet", "parquet"), ("write_ipc", "feather")]:
    for _type in ["String", "Categorical"]:

        def _make(folder, write=_write, ending=_ending, symbol_type=_type):
            long, expected = long_table(["AAA", "BBB", "CCC"], at_5m(), "str")
            table = pl.from_pandas(long).with_columns(pl.col("symbol").cast(getattr(pl, symbol_type)))
            getattr(table, write)(folder / f"all.{ending}")
            return Sample(folder / f"all.{ending}", expected, timeframe=M5)

        case(f"polars {_write}, long, symbols as {_type}")(_make)


@case("polars write_csv")
def _(folder):
    starts, frame = at_5m(), walk(300, 17, None)
    table = pl.DataFrame({"timestamp": starts, **{f: frame[f].to_numpy() for f in FIELDS}})
    table.with_columns(pl.col("timestamp").cast(pl.Datetime("ns")).cast(pl.Datetime("us"))).write_csv(folder / "ABC.csv")
    return Sample(folder / "ABC.csv", {"ABC": want(frame, starts)}, timeframe=M5)


# ---------------------------------------------------------------- numpy


def npz(folder, save, stamp, price_type, volume_type):
    starts, frame = at_5m(), walk(300, 18, None)
    frame["volume"] = np.round(frame["volume"])
    arrays = {f: frame[f].to_numpy().astype(price_type) for f in FIELDS}
    arrays["volume"] = frame["volume"].to_numpy().astype(volume_type)
    save(folder / "ABC.npz", timestamp=stamp(starts), **arrays)
    values = pd.DataFrame({f: arrays[f].astype("f8") for f in FIELDS})
    return Sample(folder / "ABC.npz", {"ABC": want(values, starts)}, timeframe=M5)


NPZ = {
    "f8, ms": (np.savez, lambda s: s // 10**6, "<f8", "<f8"),
    "f4, i8 volume, s": (np.savez, lambda s: s // 10**9, "<f4", "<i8"),
    "big endian": (np.savez, lambda s: (s // 10**6).astype(">i8"), ">f8", ">f8"),
    "big endian f4, compressed": (np.savez_compressed, lambda s: (s // 10**6).astype(">i8"), ">f4", ">i8"),
    "datetime64[ms], compressed": (np.savez_compressed, lambda s: (s // 10**6).astype("datetime64[ms]"), "<f8", "<i8"),
    "datetime64[ns]": (np.savez, lambda s: s.astype("datetime64[ns]"), "<f8", "<f8"),
    "datetime64[s]": (np.savez, lambda s: (s // 10**9).astype("datetime64[s]"), "<f8", "<i4"),
    "float64 ms stamps": (np.savez, lambda s: (s // 10**6).astype("f8"), "<f8", "<f8"),
}
for _name, _how in NPZ.items():
    case(f"npz, an array a field, {_name}")(lambda f, how=_how: npz(f, *how))


def matrix(starts, frame, order=("open", "high", "low", "close", "volume"), dtype="<f8"):
    return np.column_stack([starts // 10**6, *(frame[f] for f in order)]).astype(dtype)


def npz_symbols(folder, save, shape):
    expected, arrays = {}, {}
    for seed, symbol in enumerate(["BTCUSDT", "ETHUSDT"]):
        starts, frame = at_5m(), walk(300, 60 + seed, None)
        expected[symbol] = want(frame, starts)
        arrays[symbol] = shape(matrix(starts, frame))
    save(folder / "market.npz", **arrays)
    return Sample(folder / "market.npz", expected, timeframe=M5)


case("npz, an array a symbol, [n, 6]")(lambda f: npz_symbols(f, np.savez, np.ascontiguousarray))
case("npz, an array a symbol, Fortran order, compressed")(lambda f: npz_symbols(f, np.savez_compressed, np.asfortranarray))
case("npz, an array a symbol, big endian")(lambda f: npz_symbols(f, np.savez, lambda m: m.astype(">f8")))


def jesse(folder, name, save, shape=np.ascontiguousarray):
    # With 1-minute candles, as Jesse keeps them; close stands before high.
    starts = pd.Timestamp("2024-03-01", tz="UTC").value + MINUTE * np.arange(600, dtype=np.int64)
    frame = walk(600, 19, None, 60_000)
    save(folder / name, shape(matrix(starts, frame, ["open", "close", "high", "low", "volume"])))
    return Sample(folder / name, {"BTC-USDT": want(frame, starts)}, timeframe=MINUTE)


case("Jesse npy, close before high")(lambda f: jesse(f, "BTC-USDT.npy", np.save))
case("Jesse npy, Fortran order")(lambda f: jesse(f, "BTC-USDT.npy", np.save, np.asfortranarray))
case("Jesse npz")(lambda f: jesse(f, "any.npz", lambda p, m: np.savez(p, **{"BTC-USDT": m})))


# ---------------------------------------------------------------- JSON


def arrays_json(frame, starts):
    rows = zip(*((starts // 10**6).tolist(), *(frame[f].tolist() for f in FIELDS)), strict=True)
    return json.dumps([list(row) for row in rows])


@case("ccxt arrays")
def _(folder):
    starts, frame = at_5m(), walk(300, 21, None, 60_000)
    (folder / "BTCUSDT.json").write_text(arrays_json(frame, starts))
    return Sample(folder / "BTCUSDT.json", {"BTCUSDT": want(frame, starts)}, timeframe=M5)


@case("freqtrade json")
def _(folder):
    starts, frame = at_5m(), walk(300, 22, 2, 60_000)
    (folder / "BTC_USDT-5m.json").write_text(arrays_json(frame, starts))
    return Sample(folder / "BTC_USDT-5m.json", {"BTC/USDT": want(frame, starts)}, timeframe=M5)


@case("freqtrade json.gz")
def _(folder):
    starts, frame = at_5m(), walk(300, 23, 2, 60_000)
    with gzip.open(folder / "ETH_USDT-5m.json.gz", "wt") as out:
        out.write(arrays_json(frame, starts))
    return Sample(folder / "ETH_USDT-5m.json.gz", {"ETH/USDT": want(frame, starts)}, timeframe=M5)


@case("pandas json, records")
def _(folder):
    starts, frame = at_5m(), walk(300, 24, 2)
    table = frame.copy()
    table.insert(0, "timestamp", pandas_frame(starts, "ns", "UTC"))
    table.to_json(folder / "ABC.json", orient="records", date_format="iso", double_precision=15)
    return Sample(folder / "ABC.json", {"ABC": want(frame, starts)}, timeframe=M5)


# ---------------------------------------------------------------- qlib


@case("qlib binary folder, symbols that start late and end early")
def _(folder):
    starts = daily(400)
    for name in ["calendars", "instruments", "features"]:
        (folder / name).mkdir()
    days = naive(starts, "%Y-%m-%d")
    (folder / "calendars" / "day.txt").write_text("\n".join(days) + "\n")
    expected, lines = {}, []
    for seed, (symbol, first, last) in enumerate([("SH600000", 0, 400), ("SZ000001", 37, 400), ("SH600036", 5, 311)]):
        frame = walk(last - first, 70 + seed, None, 12.0).astype("float32")
        frame["factor"] = np.float32(1.0)
        place = folder / "features" / symbol.lower()
        place.mkdir()
        for name in frame.columns:
            values = np.concatenate([[first], frame[name].to_numpy()]).astype("<f4")
            values.tofile(place / f"{name}.day.bin")
        lines.append(f"{symbol}\t{days[first]}\t{days[last - 1]}")
        expected[symbol] = want(frame[FIELDS].astype("float64"), starts[first:last])
    (folder / "instruments" / "all.txt").write_text("\n".join(lines) + "\n")
    return Sample(folder, expected)


# ---------------------------------------------------------------- doubles

PRINT = {
    "repr": repr,
    "%.8f": lambda x: f"{x:.8f}",
    "%.17g": lambda x: f"{x:.17g}",
    "%.16e": lambda x: f"{x:.16e}",
    "%.20E": lambda x: f"{x:.20E}",
    "mixed": None,
}


def doubles(folder, form):
    n = 100_000
    rng = np.random.default_rng(99)
    starts, frame = at_5m(n, "2020-01-01"), walk(n, 25, None, 1000.0)
    wild = rng.integers(0, 2**64, n, dtype=np.uint64).view("f8")
    wild = np.where(np.isfinite(wild), wild, 1.0)
    wild[:8] = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 9007199254740993.0, 2.2250738585072011e-308, 1e23, 8.5e-5]
    forms = list(PRINT.values())[:-1]
    table = {"timestamp": naive(starts)}
    for name in [*FIELDS, "wild"]:
        values = wild.tolist() if name == "wild" else frame[name].tolist()
        if form is None:
            texts = [forms[i % len(forms)](x) for i, x in enumerate(values)]
        else:
            texts = [form(x) for x in values]
        if name == "wild" and form is PRINT["%.8f"]:
            texts = [repr(x) for x in values]  # eight decimals of 1e308 are not a test of anything
        if name == "wild" and form is None:
            texts = [repr(x) if "." in t and len(t) > 60 else t for t, x in zip(texts, values, strict=True)]
        table[name] = texts
    out = pd.DataFrame({name: [float(t) for t in table[name]] for name in [*FIELDS, "wild"]})
    # Rounding may lift a body above its wick by one unit of the last place printed; then it is no bar.
    out["high"] = out[["open", "high", "close"]].max(axis=1)
    out["low"] = out[["open", "low", "close"]].min(axis=1)
    for name in ["high", "low"]:
        table[name] = [t if float(t) == v else repr(v) for t, v in zip(table[name], out[name].tolist(), strict=True)]
    pd.DataFrame(table).to_csv(folder / "ABC.csv", index=False)
    return Sample(folder / "ABC.csv", {"ABC": want(out, starts)}, timeframe=M5)


for _name, _form in PRINT.items():
    case(f"100,000 doubles by {_name}")(lambda f, form=_form: doubles(f, form))


# ---------------------------------------------------------------- the check


def plain(name):
    return re.sub(r"[^0-9a-z]", "", name.lower())


def bits(values):
    """Doubles as integers, every NaN the same."""
    values = np.ascontiguousarray(values, dtype="f8").copy()
    values[np.isnan(values)] = np.nan
    return values.view("i8")


def by_pyarrow(path):
    table = pq.read_table(path)
    for name in ["start", "end"]:
        kind = table.schema.field(name).type
        assert kind == pa.timestamp("ns", "UTC"), f"`{name}` is {kind}, not timestamp[ns, UTC]"
    out = {"symbol": table["symbol"].cast(pa.string()).to_numpy(zero_copy_only=False)}
    for name in table.column_names:
        if name in ("start", "end"):
            out[name] = table[name].cast(pa.int64()).to_numpy()
        elif name != "symbol" and (pa.types.is_floating(table[name].type) or pa.types.is_integer(table[name].type)):
            out[name] = table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return out


def by_polars_read(path):
    table = pl.read_parquet(path)
    for name in ["start", "end"]:
        assert table.schema[name] == pl.Datetime("ns", "UTC"), f"polars sees `{name}` as {table.schema[name]}"
    out = {"symbol": table["symbol"].cast(pl.String).to_numpy()}
    for name in table.columns:
        if name in ("start", "end"):
            out[name] = table[name].to_physical().to_numpy()
        elif name != "symbol" and table.schema[name].is_numeric():
            out[name] = table[name].cast(pl.Float64).to_numpy()
    return out


def compare(read, sample, reader):
    symbols = {plain(str(s)): str(s) for s in np.unique(read["symbol"].astype(str))}
    expected = {plain(s): frame for s, frame in sample.expected.items()}
    assert symbols.keys() == expected.keys(), f"symbols {sorted(symbols.values())}, not {sorted(sample.expected)}"
    columns = {plain(name): name for name in read if name not in ("symbol", "start", "end")}
    for key, frame in expected.items():
        rows = read["symbol"] == symbols[key]
        start, end = read["start"][rows], read["end"][rows]
        assert len(start) == len(frame), f"{symbols[key]}: {len(start)} bars by {reader}, not {len(frame)}"
        check_equal(start, frame["start"].to_numpy(), f"{symbols[key]}: start", str)
        assert (end > start).all() and (end[:-1] <= start[1:]).all(), f"{symbols[key]}: a bar ends before it starts or after the next starts"
        if sample.timeframe is not None:
            check_equal(end - start, np.full(len(start), sample.timeframe), f"{symbols[key]}: end - start", str)
        for name in frame.columns.drop("start"):
            assert plain(name) in columns, f"column `{name}` is missing; there are {sorted(columns.values())}"
            got, wanted = read[columns[plain(name)]][rows], frame[name].to_numpy(dtype="f8")
            check_equal(bits(got), bits(wanted), f"{symbols[key]}: {name}", lambda v: repr(float(np.int64(v).view("f8"))))


def check_equal(got, wanted, what, show):
    wrong = np.flatnonzero(got != wanted)
    if len(wrong):
        i = wrong[0]
        raise AssertionError(f"{what}: {len(wrong)} of {len(got)} differ, first at {i}: {show(got[i])}, not {show(wanted[i])}")


def run(fullbore, make, home):
    (home / "in").mkdir()
    sample = make(home / "in")
    command = [fullbore, "data", "add", sample.path, "--out", home / "out", "--name", "x", "--json", *sample.args]
    environment = {**os.environ, "FULLBORE_HOME": str(home / "home"), "TZ": "Pacific/Auckland"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout.strip()[-600:]} {done.stderr.strip()[-600:]}"
    said = json.loads(done.stdout)
    assert said.get("ok", True) is True, said
    (written,) = (home / "out").glob("*.parquet")
    one, two = by_pyarrow(written), by_polars_read(written)
    compare(one, sample, "pyarrow")
    compare(two, sample, "polars")
    return sum(len(frame) for frame in sample.expected.values())


def main():
    fullbore = Path(sys.argv[1]).resolve()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    passed, failed = 0, []
    for name, make in CASES.items():
        if part not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="fullbore-oracle-") as home:
            try:
                print(f"ok      {name}: {run(fullbore, make, Path(home))} bars", flush=True)
                passed += 1
            except (AssertionError, subprocess.TimeoutExpired, ValueError) as why:
                print(f"FAILED  {name}: {why}", flush=True)
                failed.append(name)
            except Exception:
                print(f"FAILED  {name}: the oracle itself:\n{traceback.format_exc()}", flush=True)
                failed.append(name)
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
