"""Boosted trees on the very rows of a run: LightGBM, fold after fold, beside the run's own figures.

Usage: lightgbm_universe.py RUN_FOLDER FEATURES.parquet [--threads 2] Prints one JSON object.

FEATURES is what `fullbore features DATA --features SET --labels RULE` wrote, with the run's set and labels; which row
is training, validation or test of which fold is read from the run's `split.parquet`. Trees stop early by the
validation's log-loss, as the nets do. Needs lightgbm, numpy, pyarrow.
"""

import argparse
import json
import time

import lightgbm
import numpy as np
import pyarrow.parquet as parquet

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("run")
p.add_argument("features")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--rounds", type=int, default=500)
p.add_argument("--folds", type=int, default=0, help="only the first so many; 0 is all")
TOLD = p.parse_args()

table = parquet.read_table(TOLD.features)
names = table.column_names
columns = names[names.index("volume") + 1 : names.index("settled")]
x = np.column_stack([table[c].to_numpy().astype(np.float32) for c in columns])
symbols = {s: i for i, s in enumerate(sorted(set(table["symbol"].to_pylist())))}


def keys(of, time_name):
    dictionary = of["symbol"].combine_chunks().dictionary_encode()
    if hasattr(dictionary, "chunk"):
        dictionary = dictionary.chunk(0)
    code = np.array([symbols[s] for s in dictionary.dictionary.to_pylist()])[dictionary.indices.to_numpy()]
    at = of[time_name].to_numpy().astype("datetime64[ns]").astype(np.int64)
    return code.astype(np.int64) << 40 | at // 60_000_000_000


row_keys = keys(table, "end")
order = np.argsort(row_keys, kind="stable")
split = parquet.read_table(f"{TOLD.run}/split.parquet")
split = split.set_column(split.column_names.index("symbol"), "symbol", split["symbol"].cast("string"))
split_keys = keys(split, "t0")
place = np.searchsorted(row_keys[order], split_keys).clip(0, len(order) - 1)
rows = order[place]
assert (row_keys[rows] == split_keys).all(), "rows of the split are not in the features"
fold, part = split["fold"].to_numpy(), np.array(split["part"].cast("string").to_pylist())
label = split["label"].to_numpy().astype(np.int64) + 1


def mcc(truth, guess, classes):
    c = np.zeros((classes, classes))
    np.add.at(c, (truth, guess), 1)
    s, t, q = c.sum(), c.sum(1), c.sum(0)
    root = np.sqrt((s * s - (q * q).sum()) * (s * s - (t * t).sum()))
    return float((np.trace(c) * s - (q * t).sum()) / root) if root else 0.0


begin, said, truths = time.perf_counter(), [], []
numbers = sorted(set(fold))
for number in numbers[: TOLD.folds or None]:
    of = {name: (fold == number) & (part == name) for name in ("train", "valid", "test")}
    data = {name: (x[rows[mask]], label[mask]) for name, mask in of.items()}
    train = lightgbm.Dataset(*data["train"], free_raw_data=True)
    valid = lightgbm.Dataset(*data["valid"], reference=train)
    settings = {"objective": "multiclass", "num_class": 3, "learning_rate": 0.05, "num_leaves": 31, "verbosity": -1,
                "num_threads": TOLD.threads, "min_data_in_leaf": 200, "feature_fraction": 0.8, "seed": 1}
    model = lightgbm.train(settings, train, TOLD.rounds, valid_sets=[valid],
                           callbacks=[lightgbm.early_stopping(30, verbose=False)])
    said.append(model.predict(data["test"][0], num_threads=TOLD.threads))
    truths.append(data["test"][1])
p_test, truth = np.concatenate(said), np.concatenate(truths)
guess = p_test.argmax(1)
moved = (truth != 1) & (guess != 1)  # direction: true and predicted class are both up or down
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "folds": len(said),
    "samples": len(truth),
    "log_loss": float(-np.log(p_test[np.arange(len(truth)), truth].clip(1e-12)).mean()),
    "mcc": mcc(truth, guess, 3),
    "direction_mcc": mcc(truth[moved] // 2, guess[moved] // 2, 2),
    "version": lightgbm.__version__,
}))
