"""Makes the seed corpora of the fuzz targets: small honest files, and hostile ones.

Run by hand, from this folder, when a seed is added:  python make_corpus.py
Needs numpy, pandas and pyarrow. tests/files/hostile.rs names what each hostile file must be refused for.
Not made here, but found by mutating or written by hand: parquet/page_size_hidden.parquet (its footer hides the page
that lies), feather/arrow_buffer_panic.feather, zip/two_records.zip, zip/records_differ.zip, and everything in bars.
"""

import gzip
import io
import json
import pathlib
import struct
import zipfile
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    path = HERE / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def frame(rows=20):
    time = pd.date_range("2024-01-01", periods=rows, freq="min", tz="UTC")
    close = 100 + np.cumsum(np.random.default_rng(1).normal(size=rows))
    return pd.DataFrame({
        "time": time, "open": close - 0.1, "high": close + 1, "low": close - 1, "close": close,
        "volume": np.arange(rows), "symbol": pd.Categorical(["BTC", "ETH"] * (rows // 2)),
        "note": [None, "a"] * (rows // 2), "flag": [True, False] * (rows // 2),
    })


# Zip, by hand, so that every field can lie.

def member(name, data, **lie):
    name = name if isinstance(name, bytes) else name.encode()
    method = lie.get("method", 8)
    packed = lie.get("packed_bytes")
    if packed is None:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = deflate.compress(data) + deflate.flush() if method == 8 else data
    return {
        "name": name, "packed": packed, "crc": lie.get("crc", zlib.crc32(data)), "size": lie.get("size", len(data)),
        "method": method, "flags": lie.get("flags", 0), "mode": lie.get("mode", 0o100644),
        "local_name": lie.get("local_name", name), "at": lie.get("at"), "zip64": lie.get("zip64", False),
    }


def archive(*members, before=b"", count=None, after=b""):
    out, directory = before, b""
    for m in members:
        at = len(out) if m["at"] is None else m["at"]
        if m["at"] is None:
            sizes = (m["crc"], len(m["packed"]), m["size"], len(m["local_name"]), 0)
            out += struct.pack("<4s5H3I2H", b"PK\3\4", 20, m["flags"], m["method"], 0, 0, *sizes) + m["local_name"] + m["packed"]
        packed, size, extra = len(m["packed"]), m["size"], b""
        if m["zip64"]:
            extra = struct.pack("<HHQQ", 1, 16, size, packed)
            packed = size = 0xFFFFFFFF
        directory += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 3 << 8 | 20, 20, m["flags"], m["method"], 0, 0, m["crc"], packed, size,
            len(m["name"]), len(extra), 0, 0, 0, m["mode"] << 16, at) + m["name"] + extra
    count = len(members) if count is None else count
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(out), 0)
    return out + directory + end + after


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version=version, allow_pickle=True)
    return out.getvalue()


def forged_npy(header, body=b""):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body


def npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def make_zip():
    csv = b"time,open\n2024-01-01,1\n" * 20
    put("zip", "plain.zip", archive(member("a.csv", csv), member("dir/b.csv", csv, method=0)))
    put("zip", "zip64.zip", archive(member("a.csv", csv, zip64=True)))
    put("zip", "empty.zip", archive())
    put("zip", "nested.zip", archive(member("inner.zip", archive(member("a.csv", csv))), member("b.csv.gz", gzip.compress(csv, mtime=0))))
    put("zip", "xlsx.zip", archive(member("[Content_Types].xml", b"<Types/>"), member("xl/workbook.xml", b"<w/>")))
    put("zip", "macos.zip", archive(member("a.csv", csv), member("__MACOSX/._a.csv", b"\0\5\x16\7")))
    put("zip", "climb.zip", archive(member("../evil.csv", csv)))
    put("zip", "absolute.zip", archive(member("/etc/passwd", csv)))
    put("zip", "drive.zip", archive(member("C:evil.csv", csv)))
    put("zip", "backslash.zip", archive(member("..\\evil.csv", csv)))
    put("zip", "nul.zip", archive(member(b"a\0.csv", csv)))
    put("zip", "symlink.zip", archive(member("link", b"/etc/passwd", mode=0o120777)))
    put("zip", "twice.zip", archive(member("a.csv", csv), member("a.csv", b"other")))
    put("zip", "encrypted.zip", archive(member("a.csv", csv, flags=1)))
    put("zip", "method.zip", archive(member("a.csv", csv, method=12)))
    put("zip", "size_too_small.zip", archive(member("a.csv", csv, size=10)))
    put("zip", "size_too_large.zip", archive(member("a.csv", csv, size=1 << 20)))
    put("zip", "size_huge.zip", archive(member("a.csv", csv, size=(1 << 32) - 2)))
    put("zip", "crc.zip", archive(member("a.csv", csv, crc=1)))
    put("zip", "two_names.zip", archive(member("a.csv", csv, local_name=b"b.csv")))
    inner = archive(member("b.csv", csv, method=0))
    local = inner[: inner.index(b"PK\1\2")]
    put("zip", "overlap.zip", archive(member("a.csv", local, method=0), member("b.csv", csv, method=0, at=35)))
    put("zip", "count.zip", archive(member("a.csv", csv), count=3))
    put("zip", "glued.zip", archive(member("a.csv", csv), after=b"glued on"))
    put("zip", "cut.zip", archive(member("a.csv", csv))[:-30])
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(100)) + deflate.flush()
    put("zip", "bomb.zip", archive(member("a.csv", b"", packed_bytes=bomb, size=100 << 20)))
    put("zip", "bomb_liar.zip", archive(member("a.csv", b"", packed_bytes=bomb, size=1 << 20)))


def make_npz():
    n = np.arange(6)
    put("npz", "plain.npz", npz(time=n.astype("M8[s]"), close=n * 1.5, volume=n, up=n > 2, name=np.array(["a", "bc"] * 3)))
    put("npz", "matrix.npz", npz(bars=np.asfortranarray(np.arange(12.0).reshape(4, 3)), big=n.astype(">f4")))
    for version in (1, 2, 3):
        put("npz", f"v{version}.npy", npy(n * 1.5, (version, 0)))
    put("npz", "scalar.npy", npy(3.5))
    put("npz", "empty.npy", npy(np.zeros((0, 5))))
    records = np.array([(1, 2.5, b"x"), (2, 3.5, b"y")], dtype=[("time", "<i8"), ("close", "<f4"), ("name", "S2")])
    put("npz", "records.npy", npy(records))
    put("npz", "aligned.npy", npy(np.zeros(3, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True))))
    put("npz", "object.npy", npy(np.array([1, "a"], dtype=object)))
    put("npz", "object.npz", npz(a=n, b=np.array([None, {}], dtype=object)))
    put("npz", "complex.npy", npy(n * 1j))
    put("npz", "month.npy", npy(n.astype("M8[M]")))
    good = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    put("npz", "huge_shape.npy", forged_npy(good % ("<f8", "(1000000000000,)"), bytes(16)))
    put("npz", "overflow_shape.npy", forged_npy(good % ("<f8", "(4294967296, 4294967296)"), bytes(16)))
    put("npz", "no_bytes.npy", forged_npy(good % ("<U0", "(4000000,)")))
    put("npz", "wide.npy", forged_npy(good % ("<U400000000", "(1,)"), bytes(16)))
    put("npz", "many_axes.npy", forged_npy(good % ("<f8", "(" + "1," * 30 + "1" * 20 + ")"), bytes(8)))
    put("npz", "subarray.npy", forged_npy("{'descr': [('a', '<f8', (2,))], 'fortran_order': False, 'shape': (1,), }", bytes(16)))
    put("npz", "deep.npy", forged_npy("{'descr': " + "[" * 40 + "]" * 40 + ", 'fortran_order': False, 'shape': (1,), }"))
    put("npz", "header_len.npy", b"\x93NUMPY\2\0" + struct.pack("<I", 0xFFFFFFF0) + b"{}")
    put("npz", "far_date.npy", npy(np.array([2**62], dtype="i8").view("M8[s]")))
    put("npz", "cut.npy", npy(n * 1.5)[:-5])
    put("npz", "long.npy", npy(n * 1.5) + b"tail")
    put("npz", "climb.npz", archive(member("../a.npy", npy(n))))
    cube = np.arange(24).reshape(2, 3, 4)
    kinds = ["b1", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
    cubes = {f"{kind} {order}": np.asarray(cube, dtype=kind, order=order) for kind in kinds for order in "CF"}
    put("npz", "cubes.npz", npz(**cubes))
    stored = io.BytesIO()
    np.savez(stored, **cubes)
    put("npz", "cubes_stored.npz", stored.getvalue())
    put("npz", "ready.npz", npz(
        x_fast=np.asfortranarray(np.arange(36, dtype="f2").reshape(6, 3, 2)), x_slow=np.arange(30.0).reshape(6, 1, 5),
        x_strategy=np.arange(24, dtype=">f4").reshape(6, 4), y=np.array([0, 1, 2, 0, 1, 2]), symbol=np.array(["B", "A"] * 3),
        t0=np.datetime64("2024-01-01") + n, t1=(np.datetime64("2024-01-02") + n).astype("M8[ns]"), close=100 + n * 0.5, note=np.array("by hand")))
    put("npz", "other.npz", archive(member("a.npy", npy(n)), member("readme.txt", b"hello")))


def make_json():
    df = frame(6)
    put("json", "arrays.json", json.dumps([[1700000000000 + i, "1.5", 2, 0.5, None, True] for i in range(5)]))
    put("json", "objects.json", df.to_json(orient="records", date_format="iso"))
    for orient in ("columns", "index", "split", "table"):
        put("json", f"pandas_{orient}.json", df.drop(columns="symbol").to_json(orient=orient, date_format="iso"))
    put("json", "lines.json", df.to_json(orient="records", lines=True, date_format="iso"))
    put("json", "lines_arrays.json", "[1, 2]\n[3, 4]\n")
    put("json", "candles.json", json.dumps({"candles": [{"t": 1, "mid": {"o": "1", "c": "2"}}], "granularity": "M1"}))
    put("json", "kraken.json", json.dumps({"error": [], "result": {"XXBTZUSD": [[1, "2", "3"]], "last": 1}}))
    put("json", "udf.json", json.dumps({"s": "ok", "t": [1, 2], "o": [1.5, 2.5]}))
    put("json", "alpha.json", json.dumps({"Meta Data": {"2. Symbol": "IBM"}, "Time Series (5min)": {"2024-01-01": {"1. open": "1"}}}))
    put("json", "bom.json", b"\xef\xbb\xbf[[1,2]]")
    put("json", "ragged.json", "[[1,2],[1,2,3]]")
    put("json", "mixed.json", '[[1,2],{"a":1}]')
    put("json", "twice.json", '[{"a":1,"a":2}]')
    put("json", "deep.json", "[" * 5000)
    put("json", "deep_objects.json", '{"a":' * 200 + "1" + "}" * 200)
    put("json", "cut.json", '[{"a":1},{"a":')
    put("json", "nan.json", '[{"a":NaN}]')
    put("json", "range.json", "[[1e999, 123456789012345678901234567890, -9223372036854775808, 18446744073709551615]]")
    put("json", "sparse.json", "[" + json.dumps({f"k{i}": 1 for i in range(200)}) + ",{}" * 2000 + "]")
    put("json", "escapes.json", '[{"\\u0061\\ud83d\\ude00": "\\n\\u0000"}]')
    put("json", "latin.json", b'[{"a":"\xe9"}]')


def make_feather():
    df = frame()
    table = pa.Table.from_pandas(df)
    for compression in ("uncompressed", "lz4", "zstd"):
        out = io.BytesIO()
        pyarrow.feather.write_feather(df, out, compression=compression, chunksize=7)
        put("feather", f"{compression}.feather", out.getvalue())
    good = (HERE / "feather" / "lz4.feather").read_bytes()
    types = pa.table({
        "d": pa.array([1, None], pa.date32()), "n": pa.nulls(2), "v": pa.array(["a", None], pa.string_view()),
        "l": pa.array([[1], None]), "s": pa.array([{"a": 1}, None]), "t": pa.array([1, 2], pa.time64("us")),
        "dec": pa.array([1, None], pa.decimal128(10, 2)), "h": pa.array([1, 2], pa.float16()),
    })
    out = io.BytesIO()
    pyarrow.feather.write_feather(types, out, compression="lz4")
    put("feather", "types.feather", out.getvalue())
    put("feather", "cut.feather", good[: len(good) // 2])
    put("feather", "no_magic.feather", good[:-6] + b"ARROW0")
    put("feather", "footer_len.feather", good[:-10] + struct.pack("<I", 0x7FFFFFF0) + b"ARROW1")
    out = io.BytesIO()
    big = pa.table({"x": pa.array(np.zeros(1 << 16))})
    pyarrow.feather.write_feather(big, out, compression="lz4")
    forged = out.getvalue().replace(struct.pack("<q", 8 << 16), struct.pack("<q", 1 << 45))
    assert forged != out.getvalue()
    put("feather", "declares_terabytes.feather", forged)
    put("feather", "version1.feather", b"FEA1" + bytes(30) + b"FEA1")
    assert table.num_rows == 20


def make_parquet():
    df = frame()
    for compression in ("none", "snappy", "gzip", "zstd", "lz4"):
        out = io.BytesIO()
        df.to_parquet(out, compression=compression, row_group_size=7, engine="pyarrow")
        put("parquet", f"{compression}.parquet", out.getvalue())
    good = (HERE / "parquet" / "snappy.parquet").read_bytes()
    out = io.BytesIO()
    types = pa.table({
        "d": pa.array([1, None], pa.date32()), "l": pa.array([[1], None]), "s": pa.array([{"a": 1}, None]),
        "dec": pa.array([1, None], pa.decimal128(30, 2)), "u": pa.array([1, 2**64 - 1], pa.uint64()),
        "b": pa.array([b"x", None]), "ms": pa.array([1, None], pa.timestamp("ms")), "delta": pa.array([5, 6]),
    })
    pa.parquet.write_table(types, out, data_page_version="2.0", use_dictionary=False,
                           column_encoding={"delta": "DELTA_BINARY_PACKED"})
    put("parquet", "types.parquet", out.getvalue())
    put("parquet", "cut.parquet", good[: len(good) // 2])
    put("parquet", "cut_footer.parquet", good[:-100] + good[-8:])
    put("parquet", "footer_len.parquet", good[:-8] + struct.pack("<I", 0x7FFFFFF0) + b"PAR1")
    # One column of 100 zeros: find the varints that say 100 rows and raise them; find a page's sizes and raise those.
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"x": pa.array(np.zeros(99))}), out, compression="snappy", use_dictionary=False,
                           write_statistics=False, store_schema=False)
    small = out.getvalue()
    footer = len(small) - 8 - struct.unpack("<I", small[-8:-4])[0]
    rows = bytes([0x16]) + varint(99 * 2)
    body, tail = small[:footer], small[footer:-8]
    assert rows in tail
    tail = tail.replace(rows, bytes([0x16]) + varint(2**33 * 2))
    put("parquet", "rows.parquet", body + tail + struct.pack("<I", len(tail)) + b"PAR1")
    # 803 inflated bytes (levels and values) in the page header: i32 field 2 right after the page type.
    at = body.index(b"\x15\x00\x15") + 3
    size = body[at:at + 2]
    forged = body[:at] + varint(0x7FFFFFF0 * 2) + body[at + 2:]
    shift = len(forged) - len(body)
    # Keep the chunk's stored size in step, so that only the page lies.
    stored = footer - 4
    tail = small[footer:-8].replace(bytes([0x16]) + varint(stored * 2), bytes([0x16]) + varint((stored + shift) * 2))
    assert size and tail != small[footer:-8]
    put("parquet", "page_size.parquet", forged + tail + struct.pack("<I", len(tail)) + b"PAR1")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def make_csv():
    df = frame()
    put("csv", "plain.csv", df.to_csv(index=False))
    put("csv", "semicolon.csv", df.to_csv(index=False, sep=";", decimal=","))
    put("csv", "tabs.tsv", df.to_csv(index=False, sep="\t"))
    put("csv", "bom.csv", b"\xef\xbb\xbf" + df.to_csv(index=False).encode())
    put("csv", "crlf.csv", df.to_csv(index=False, lineterminator="\r\n"))
    put("csv", "quotes.csv", 'a,b\n"x,1","y\n2"\n"un""even",3\n"open')
    put("csv", "histdata.csv", "20240101 170000;1.1;1.2;1.0;1.15;0\n20240101 170100;1.1;1.2;1.0;1.15;0\n")
    put("csv", "epoch.csv", "1700000000000,1,2,0.5,1.5,10\n1700000060000,1,2,0.5,1.5,10\n")
    put("csv", "nul.csv", b"a,b\n1,\x002\n")
    put("csv", "latin.csv", b"name,close\ncaf\xe9,1\n")
    put("csv", "ragged.csv", "a,b\n1\n1,2,3\n,,,,\n")
    put("csv", "numbers.csv", "a\n1e308\n1e999\nnan\ninf\n-0\n1,5\n0x10\n" + "9" * 400 + "\n")
    put("csv", "long_line.csv", "a,b\n" + "x" * 70000 + "\n")
    put("csv", "blank.csv", "\n\n\r\n \n")
    put("csv", "gz.csv.gz", gzip.compress(df.to_csv(index=False).encode(), mtime=0))


if __name__ == "__main__":
    for make in (make_csv, make_json, make_npz, make_zip, make_feather, make_parquet):
        make()
