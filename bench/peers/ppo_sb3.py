"""PPO of Stable-Baselines3 with an environment of numpy arrays, the best case for it.

Usage: ppo_sb3.py [--net 64,64] [--envs N] [--steps N] [--minibatches N] [--epochs N] [--device cpu|cuda] ... Prints one
JSON object.
"""

import os
import warnings

import ppo_peer
from ppo_peer import BARS, CLIP, COST, ENTROPY, EPS, FEATURES, GAMMA, LAMBDA, NORM, RATE, VALUE

TOLD = ppo_peer.arguments(__doc__)
os.environ["OMP_NUM_THREADS"] = str(TOLD.threads)

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

warnings.filterwarnings("ignore")
torch.set_num_threads(TOLD.threads)
assert TOLD.members == 1 and TOLD.precision == "f32", "Stable-Baselines3 trains one policy in f32"


class Market(VecEnv):
    """All environments as rows of arrays."""

    def __init__(self):
        space = gymnasium.spaces.Box(-10, 10, (FEATURES + 2,), np.float32)
        super().__init__(TOLD.envs, space, gymnasium.spaces.Discrete(3))
        self.features, self.returns = ppo_peer.market()
        self.at = np.random.default_rng(1).integers(0, BARS - 2, TOLD.envs)
        self.position = np.zeros(TOLD.envs, np.float32)
        self.equity = np.ones(TOLD.envs, np.float32)
        self.never = np.zeros(TOLD.envs, bool)
        self.infos = [{} for _ in range(TOLD.envs)]

    def observe(self):
        return np.concatenate([self.features[self.at], self.position[:, None], self.equity[:, None]], 1)

    def reset(self):
        return self.observe()

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        target = (self.actions - 1).astype(np.float32)
        reward = target * self.returns[self.at] - COST * np.abs(target - self.position)
        self.position, self.equity = target, self.equity * (1 + reward)
        self.at = (self.at + 1) % (BARS - 2)
        return self.observe(), reward, self.never, self.infos

    def close(self):
        pass

    def get_attr(self, name, indices=None):
        return [None] * self.num_envs

    def set_attr(self, name, value, indices=None):
        pass

    def env_method(self, name, *arguments, indices=None, **more):
        pass

    def env_is_wrapped(self, wrapper, indices=None):
        return [False] * self.num_envs


activation = torch.nn.Tanh if TOLD.activation == "tanh" else torch.nn.ReLU
policy = {"net_arch": {"pi": TOLD.net, "vf": TOLD.net}, "activation_fn": activation}
model = PPO(
    "MlpPolicy", Market(), n_steps=TOLD.steps, batch_size=TOLD.envs * TOLD.steps // TOLD.minibatches, n_epochs=TOLD.epochs,
    learning_rate=RATE, gamma=GAMMA, gae_lambda=LAMBDA, clip_range=CLIP, ent_coef=ENTROPY, vf_coef=VALUE, max_grad_norm=NORM,
    policy_kwargs=policy, device=TOLD.device, seed=1,
)
rows = TOLD.envs * TOLD.steps
model.learn(rows)
timed = ppo_peer.seconds(
    lambda: model.learn(rows, reset_num_timesteps=False), lambda: None, least=3, most_seconds=TOLD.seconds, warm=1
)
versions = {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__}
ppo_peer.report(TOLD, "sb3", timed, versions=versions)
