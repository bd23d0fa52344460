"""Searches of mctx: trees of all roots in one compiled function.

Usage: search_mctx.py [--net 256,256] [--roots N] [--simulations N] [--rule gumbel|muzero] [--device cpu|cuda]
[--precision f32|bf16] [--threads N] [--seconds S] Prints one JSON object. The world is 64 numbers that shrink and move
with the action, the first of which is the reward; the net reads them and gives three logits and a value. bf16 holds
weights and activations so; sums and trees are f32. No Dirichlet noise.
"""

import argparse
import json
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--net", default="256,256")
parser.add_argument("--roots", type=int, default=128)
parser.add_argument("--simulations", type=int, default=32)
parser.add_argument("--rule", choices=["gumbel", "muzero"], default="gumbel")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=3.0)
TOLD = parser.parse_args()
if TOLD.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: TOLD.threads])

import jax
import jax.numpy as jnp
import mctx
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")
ACTIONS, INPUTS = 3, 64
HELD = jnp.bfloat16 if TOLD.precision == "bf16" else jnp.float32


def layers(sizes):
    random = np.random.default_rng(1)
    draw = lambda a, b: jnp.asarray(random.standard_normal((a, b)) * np.sqrt(2 / a), jnp.float32)
    return [(draw(a, b).astype(HELD), jnp.zeros(b)) for a, b in zip(sizes, sizes[1:])]


def product(x, w, b):
    return jnp.matmul(x.astype(HELD), w, preferred_element_type=jnp.float32) + b


def net(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(product(x, w, b))
    w, b = params[-1]
    out = product(x, w, b)
    return out[:, :ACTIONS], out[:, ACTIONS]


def recurrent(params, rng, action, row):
    row = row * 0.99 + (action[:, None] - 1.0) * 0.01
    logits, value = net(params, row)
    discount = jnp.full(row.shape[0], 0.99)
    return mctx.RecurrentFnOutput(reward=row[:, 0], discount=discount, prior_logits=logits, value=value), row


@jax.jit
def search(params, key, rows):
    logits, value = net(params, rows)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=rows)
    if TOLD.rule == "gumbel":
        return mctx.gumbel_muzero_policy(params, key, root, recurrent, TOLD.simulations).action_weights
    out = mctx.muzero_policy(params, key, root, recurrent, TOLD.simulations, dirichlet_fraction=0.0)
    return out.action_weights


def main():
    params = layers([INPUTS, *map(int, TOLD.net.split(",")), ACTIONS + 1])
    rows = jax.random.normal(jax.random.PRNGKey(1), (TOLD.roots, INPUTS))
    start = time.perf_counter()
    search(params, jax.random.PRNGKey(0), rows).block_until_ready()
    compile_s = time.perf_counter() - start
    times, begin = [], time.perf_counter()
    while len(times) < 7 or time.perf_counter() - begin < TOLD.seconds:
        start = time.perf_counter()
        search(params, jax.random.PRNGKey(len(times)), rows).block_until_ready()
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    print(json.dumps({"program": f"mctx {TOLD.rule}, {TOLD.precision}", "search_s": seconds, "compile_s": compile_s,
                      "simulations_per_s": TOLD.roots * TOLD.simulations / seconds,
                      "versions": f"mctx {mctx.__version__}, JAX {jax.__version__}"}))


main()
