"""OpenAI-ES in JAX, whole generations in one compiled function: ask, roll out, tell.

Usage: evolve_jax.py [--variant evosax|plain] [--population N] [--envs N] [--steps N] [--net 64,64] [--device cpu|cuda]
[--precision f32|tf32|bf16] [--seconds S]

Prints one JSON object. `evosax` asks and tells evosax's Open_ES with Adam; `plain` is the same search written out,
without a copy of the population as a tree. The environment is smaller than ours: 16 features, position and equity are
observed, short, flat or long is chosen, 5 bp are paid on every change of position, 200,000 bars. All individuals trade
the same spans. In bf16 weights, inputs and activations are bf16; sums, biases and outputs are f32. With tf32 a card's
products of f32 are in tf32, which is what JAX does there on its own.
"""

import argparse
import importlib.metadata
import json
import os
import resource
import statistics
import time

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--variant", choices=["evosax", "plain"], default="plain")
p.add_argument("--population", type=int, default=256)
p.add_argument("--envs", type=int, default=4)
p.add_argument("--steps", type=int, default=256)
p.add_argument("--net", default="64,64")
p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
p.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
p.add_argument("--threads", type=int, default=2, help="told for the record; JAX takes all cores")
p.add_argument("--seconds", type=float, default=5.0)
TOLD = p.parse_args()
if TOLD.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

if TOLD.precision == "tf32":
    jax.config.update("jax_default_matmul_precision", "tensorfloat32")
BARS, FEATURES, COST, SIGMA, RATE = 200_000, 16, 5e-4, 0.02, 0.01
SIZES = [FEATURES + 2, *[int(n) for n in TOLD.net.split(",")], 3]
P, E, H = TOLD.population, TOLD.envs, TOLD.steps
random = np.random.default_rng(1)
TABLE = jnp.asarray(random.standard_normal((BARS, FEATURES), dtype=np.float32))
RETURNS = jnp.asarray((np.exp(1e-3 * random.standard_normal(BARS)) - 1.0).astype(np.float32))


NUMBER = jnp.bfloat16 if TOLD.precision == "bf16" else jnp.float32


def product(x, w):
    return jnp.matmul(x, w, preferred_element_type=jnp.float32)


def earned(layers, starts):
    """The mean over accounts of what an individual earns on its spans."""
    layers = [(w.astype(NUMBER), b) for w, b in layers]

    def step(account, _):
        at, position, equity = account
        x = jnp.concatenate([TABLE[at], position[:, None], equity[:, None]], 1).astype(NUMBER)
        for w, b in layers[:-1]:
            x = jnp.tanh(product(x, w) + b).astype(NUMBER)
        w, b = layers[-1]
        target = jnp.argmax(product(x, w) + b, -1) - 1.0
        reward = target * RETURNS[at] - COST * jnp.abs(target - position)
        return (at + 1, target, equity * (1 + reward)), reward

    _, rewards = jax.lax.scan(step, (starts, jnp.zeros(E), jnp.ones(E)), None, length=H)
    return rewards.sum(0).mean()


def spans(key):
    return jax.random.randint(key, (E,), 0, BARS - H - 2)


def begin(key):
    draw = lambda k, a, b: (jax.random.normal(k, (a, b)) * np.sqrt(1 / a), jnp.zeros(b))
    return [draw(jax.random.fold_in(key, i), a, b) for i, (a, b) in enumerate(zip(SIZES, SIZES[1:]))]


def by_evosax(key):
    import optax
    from evosax.algorithms import Open_ES

    first = begin(key)
    search = Open_ES(
        population_size=P, solution=first, optimizer=optax.adam(RATE), std_schedule=optax.constant_schedule(SIGMA)
    )
    params = search.default_params
    state = search.init(key, first, params)

    @jax.jit
    def generation(state, key):
        ask, where, tell = jax.random.split(key, 3)
        population, state = search.ask(ask, state, params)
        starts = spans(where)
        fitness = jax.vmap(lambda layers: earned(layers, starts))(population)
        state, _ = search.tell(tell, population, -fitness, state, params)
        return state, fitness.mean()

    return state, generation


def by_hand(key):
    flat = jnp.concatenate([jnp.concatenate([w.ravel(), b]) for w, b in begin(key)])

    def layers_of(x):
        layers, at = [], 0
        for a, b in zip(SIZES, SIZES[1:]):
            layers.append((x[at : at + a * b].reshape(a, b), x[at + a * b : at + a * b + b]))
            at += a * b + b
        return layers

    @jax.jit
    def generation(state, key):
        mean, first, second, count = state
        draws, where = jax.random.split(key)
        z = jax.random.normal(draws, (P // 2, mean.shape[0]))
        population = mean + SIGMA * jnp.concatenate([z, -z])
        starts = spans(where)
        fitness = jax.vmap(lambda x: earned(layers_of(x), starts))(population)
        ranks = jnp.argsort(jnp.argsort(fitness)) / (P - 1) - 0.5
        gradient = (ranks[: P // 2] - ranks[P // 2 :]) @ z / (P * SIGMA)
        count = count + 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = (first / (1 - 0.9**count)) / (jnp.sqrt(second / (1 - 0.999**count)) + 1e-8)
        return (mean + RATE * step, first, second, count), fitness.mean()

    return (flat, jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.zeros(())), generation


state, generation = (by_evosax if TOLD.variant == "evosax" else by_hand)(jax.random.PRNGKey(0))
clock = time.perf_counter()
state, mean = generation(state, jax.random.PRNGKey(1))
jax.block_until_ready(mean)
compiled = time.perf_counter() - clock
times, started, number = [], time.perf_counter(), 2
while len(times) < 5 or time.perf_counter() - started < TOLD.seconds:
    clock = time.perf_counter()
    state, mean = generation(state, jax.random.PRNGKey(number))
    jax.block_until_ready((state, mean))
    times.append(time.perf_counter() - clock)
    number += 1
each = statistics.median(times)
versions = {"jax": jax.__version__}
if TOLD.variant == "evosax":
    versions["evosax"] = importlib.metadata.version("evosax")
print(
    json.dumps(
        {
            "program": "jax",
            "variant": TOLD.variant,
            "population": P,
            "envs": E,
            "steps": H,
            "device": TOLD.device,
            "precision": TOLD.precision,
            "steps_per_s": P * E * H / each,
            "seconds_per_generation": each,
            "generations": len(times),
            "compile_s": compiled,
            "finite": bool(jnp.isfinite(mean)),
            "versions": versions,
            "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
