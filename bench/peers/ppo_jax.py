"""PPO in JAX, whole updates in one compiled function, as PureJaxRL does it: rollout, advantages, epochs of minibatches.

Usage: ppo_jax.py [--net 64,64] [--envs N] [--steps N] [--minibatches N] [--epochs N] [--members N] [--precision P]
[--device cpu|cuda] [--flags XLA_FLAGS] ... Prints one JSON object. Adam and its clipping are written here, so that
nothing but jax is needed. Members are a `vmap` over the whole update. In bf16 the observations are kept and the
products taken in bf16, with f32 masters and losses; `tf32` and `f32` are the precision of f32 products.
"""

import os
import time

import ppo_peer
from ppo_peer import BARS, CLIP, COST, ENTROPY, EPS, FEATURES, GAMMA, LAMBDA, NORM, RATE, VALUE

TOLD = ppo_peer.arguments(__doc__, flags="")
if TOLD.flags:
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " " + TOLD.flags).strip()
if TOLD.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_matmul_precision", {"f32": "highest", "tf32": "tensorfloat32", "bf16": "default"}[TOLD.precision])
HALF = jnp.bfloat16 if TOLD.precision == "bf16" else jnp.float32
E, H, MB, EPOCHS = TOLD.envs, TOLD.steps, TOLD.minibatches, TOLD.epochs
ACTIVATION = jnp.tanh if TOLD.activation == "tanh" else jax.nn.relu


def tower(key, outputs):
    sizes = [FEATURES + 2, *TOLD.net, outputs]
    keys = jax.random.split(key, len(sizes))
    draw = lambda k, a, b: jax.random.normal(k, (a, b)) * np.sqrt(1 / a)
    return [(draw(k, a, b), jnp.zeros(b)) for k, a, b in zip(keys, sizes, sizes[1:])]


def through(layers, x):
    for w, b in layers[:-1]:
        x = ACTIVATION(x @ w.astype(HALF) + b.astype(HALF))
    w, b = layers[-1]
    return (x @ w.astype(HALF)).astype(jnp.float32) + b


def net(params, x):
    policy, value = params
    return through(policy, x), through(value, x)[..., 0]


def begin(key):
    """Parameters, Adam's means, its count, and the environments."""
    a, b, c = jax.random.split(key, 3)
    params = (tower(a, 3), tower(b, 1))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    at = jax.random.randint(c, (E,), 0, BARS - 2)
    return params, (zeros(), zeros(), jnp.zeros((), jnp.int32)), (at, jnp.zeros(E), jnp.ones(E)), key + 0


def observe(table, env):
    at, position, equity = env
    return jnp.concatenate([table[at], position[:, None].astype(HALF), equity[:, None].astype(HALF)], 1)


def adam(params, state, gradient):
    mean, square, count = state
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    factor = jnp.minimum(1.0, NORM / (norm + 1e-6))
    count = count + 1
    t = count.astype(jnp.float32)
    by, root = RATE / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * (g * factor), mean, gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * (g * factor) ** 2, square, gradient)
    params = jax.tree.map(lambda p, m, s: p - by * m / (jnp.sqrt(s) / root + EPS), params, mean, square)
    return params, (mean, square, count)


def loss(params, batch):
    x, action, old, advantage, target = batch
    logits, value = net(params, x)
    log = jax.nn.log_softmax(logits)
    new = jnp.take_along_axis(log, action[:, None], 1)[:, 0]
    ratio = jnp.exp(new - old)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    entropy = -(jnp.exp(log) * log).sum(-1).mean()
    return policy + VALUE * ((value - target) ** 2).mean() - ENTROPY * entropy


def update(table, returns, state):
    params, adam_state, env, key = state
    key, draws, orders = jax.random.split(key, 3)

    def step(env, k):
        x = observe(table, env)
        logits, value = net(params, x)
        action = jax.random.categorical(k, logits)
        log = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
        at, position, equity = env
        target = action - 1.0
        reward = target * returns[at] - COST * jnp.abs(target - position)
        env = (jnp.where(at + 1 >= BARS - 2, 0, at + 1), target, equity * (1 + reward))
        return env, (x, action, log, value, reward)

    env, (x, action, log, value, reward) = jax.lax.scan(step, env, jax.random.split(draws, H))
    _, last = net(params, observe(table, env))

    def back(carry, now):
        advantage, following = carry
        reward, value = now
        advantage = reward + GAMMA * following - value + GAMMA * LAMBDA * advantage
        return (advantage, value), advantage

    _, advantage = jax.lax.scan(back, (jnp.zeros(E), last), (reward, value), reverse=True)
    flat = lambda a: a.reshape((E * H,) + a.shape[2:])
    seen = tuple(map(flat, (x, action, log, advantage, advantage + value)))

    def epoch(carry, k):
        order = jax.random.permutation(k, E * H)
        batches = tuple(a[order].reshape((MB, E * H // MB) + a.shape[1:]) for a in seen)

        def minibatch(carry, batch):
            params, adam_state = carry
            return adam(params, adam_state, jax.grad(loss)(params, batch)), None

        return jax.lax.scan(minibatch, carry, batches)[0], None

    (params, adam_state), _ = jax.lax.scan(epoch, (params, adam_state), jax.random.split(orders, EPOCHS))
    return params, adam_state, env, key


features, returns = ppo_peer.market()
TABLE, RETURNS = jnp.asarray(features).astype(HALF), jnp.asarray(returns)
many = TOLD.members > 1
keys = jax.random.split(jax.random.PRNGKey(1), TOLD.members)
state = jax.vmap(begin)(keys) if many else begin(keys[0])
run = jax.vmap(update, in_axes=(None, None, 0)) if many else update
run = jax.jit(run, donate_argnums=2)
clock = time.perf_counter()
state = run(TABLE, RETURNS, state)
jax.block_until_ready(state)
compiled = time.perf_counter() - clock


def advance():
    global state
    state = run(TABLE, RETURNS, state)


timed = ppo_peer.seconds(advance, lambda: jax.block_until_ready(state), most_seconds=TOLD.seconds)
finite = all(bool(jnp.isfinite(p).all()) for p in jax.tree.leaves(state[0]))
memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
versions = {"jax": jax.__version__, "device": jax.devices()[0].device_kind}
ppo_peer.report(TOLD, "jax", timed, first_update_s=compiled, finite=finite, device_bytes=memory, flags=TOLD.flags, versions=versions)
