"""What the PPO peers share: their options, the market, the clock, and the JSON line.

The environment is the same for all of them, and smaller than ours: 62 features, position and equity are observed,
short, flat or long is chosen, 5 bp are paid on every change of position, 200,000 bars, rows begin anew at the end.
"""

import argparse
import json
import resource
import statistics
import time

import numpy as np

BARS, FEATURES, COST = 200_000, 62, 5e-4
GAMMA, LAMBDA, CLIP, VALUE, ENTROPY, RATE, NORM, EPS = 0.99, 0.95, 0.2, 0.5, 0.01, 3e-4, 0.5, 1e-5


def arguments(what, **more):
    p = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", default="64,64", help="hidden layers of each of the two towers")
    p.add_argument("--activation", choices=["tanh", "relu"], default="tanh")
    p.add_argument("--envs", type=int, default=1024)
    p.add_argument("--steps", type=int, default=128, help="of each environment in an update")
    p.add_argument("--minibatches", type=int, default=8)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--members", type=int, default=1)
    p.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--threads", type=int, default=2, help="on a CPU")
    p.add_argument("--seconds", type=float, default=5.0, help="how long updates are timed")
    for name, default in more.items():
        p.add_argument("--" + name, default=default)
    told = p.parse_args()
    told.net = [int(n) for n in told.net.split(",")]
    return told


def market():
    """`[BARS, FEATURES]` features that know nothing, and `[BARS]` the return of the bar behind each."""
    random = np.random.default_rng(1)
    features = random.standard_normal((BARS, FEATURES), dtype=np.float32)
    returns = np.exp(1e-3 * random.standard_normal(BARS)) - 1.0
    return features, returns.astype(np.float32)


def seconds(update, wait, least=5, most_seconds=5.0, warm=2):
    """Median seconds of an update after some that warm up; how many were timed, and their sum."""
    for _ in range(warm):
        update()
    wait()
    times, begin = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - begin < most_seconds:
        start = time.perf_counter()
        update()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times), len(times), sum(times)


def report(told, program, timed, **more):
    each, updates, whole = timed
    rows = told.envs * told.steps * told.members
    said = {"program": program, "net": told.net, "activation": told.activation, "envs": told.envs}
    said |= {"horizon": told.steps, "minibatches": told.minibatches, "epochs": told.epochs, "members": told.members}
    said |= {"precision": told.precision, "device": told.device, "threads": told.threads}
    said |= {"steps_per_s": rows / each, "steps_per_s_mean": rows * updates / whole}
    said |= {"seconds_per_update": each, "updates": updates, **more}
    said["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(said))
