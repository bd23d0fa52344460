"""PPO in PyTorch with the environment as tensors on the device.

Usage: ppo_torch.py [--net 64,64] [--envs N] [--steps N] [--minibatches N] [--epochs N] [--precision P]
[--device cpu|cuda] [--variants A,B] ... Prints one JSON object: every variant with its rate, and the best one.

- `eager`      modules and fused Adam as they are; on a GPU the steps of the rollout, the advantages and a whole
               minibatch are CUDA graphs that are replayed. In bf16 under autocast
- `master`     bf16 only: bf16 weights for the products, f32 masters for the fused Adam
- `compiled`   policy step and loss through torch.compile, then as `eager`
- `fused`      bf16 only: `master` with policy step and loss through torch.compile

A variant that fails is reported with its reason. Members of a population are not offered here: JAX's `vmap` is.
"""

import os
import time

import ppo_peer
from ppo_peer import BARS, CLIP, COST, ENTROPY, EPS, FEATURES, GAMMA, LAMBDA, NORM, RATE, VALUE

TOLD = ppo_peer.arguments(__doc__, variants="")
if TOLD.device == "cpu":
    os.environ["OMP_NUM_THREADS"] = str(TOLD.threads)

import torch
import torch.nn.functional as F

if TOLD.device == "cpu":
    torch.set_num_threads(TOLD.threads)
CUDA = TOLD.device == "cuda"
BF16 = TOLD.precision == "bf16"
torch.backends.cuda.matmul.allow_tf32 = TOLD.precision == "tf32"
E, H = TOLD.envs, TOLD.steps
ROWS = E * H // TOLD.minibatches
# Steps of a rollout that are one graph.
CHUNK = min(H, 128)


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.policy, self.value = self.tower(3), self.tower(1)

    @staticmethod
    def tower(outputs):
        sizes, layers = [FEATURES + 2, *TOLD.net, outputs], []
        for a, b in zip(sizes, sizes[1:]):
            layers += [torch.nn.Linear(a, b), torch.nn.Tanh() if TOLD.activation == "tanh" else torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.policy(x).float(), self.value(x).float()[..., 0]


class Trainer:
    """One way to train: its nets, its environments, its buffers, and what an update is."""

    def __init__(self, variant):
        assert TOLD.members == 1, "one member"
        self.halved = variant in ("master", "fused")
        assert not self.halved or BF16, "for bf16"
        torch.manual_seed(1)
        device = TOLD.device
        features, returns = (torch.from_numpy(a) for a in ppo_peer.market())
        self.kind = torch.bfloat16 if BF16 else torch.float32
        self.table, self.returns = features.to(device, self.kind), returns.to(device)
        self.net = Towers().to(device)
        self.masters = list(self.net.parameters())
        if self.halved:
            self.masters = [p.detach().clone().requires_grad_() for p in self.net.parameters()]
            self.net = self.net.to(torch.bfloat16)
        self.params = list(self.net.parameters())
        self.adam = torch.optim.Adam(self.masters, lr=RATE, eps=EPS, fused=True, capturable=CUDA)
        self.at = torch.randint(0, BARS - 2, (E,), device=device)
        self.position, self.equity = torch.zeros(E, device=device), torch.ones(E, device=device)
        zeros = lambda *shape, dtype=torch.float32: torch.zeros(*shape, device=device, dtype=dtype)
        buffers = lambda n: [zeros(n, E, FEATURES + 2, dtype=self.kind), zeros(n, E, dtype=torch.int64)] + [zeros(n, E) for _ in range(3)]
        # Observations, actions, log-probabilities, values, rewards.
        self.chunk, self.seen = buffers(CHUNK), buffers(H)
        self.last, self.advantage, self.target = zeros(E), zeros(H, E), zeros(H, E)
        self.rows = zeros(ROWS, dtype=torch.int64)
        compiled = variant in ("compiled", "fused")
        self.policy_step = torch.compile(self._policy_step) if compiled else self._policy_step
        self.loss = torch.compile(self._loss) if compiled else self._loss
        # The same work, as graphs on a GPU.
        self.walk, self.estimate, self.step = self.graph(self._walk), self.graph(self._estimate), self.graph(self._step)

    def autocast(self):
        return torch.autocast(TOLD.device, torch.bfloat16, enabled=BF16 and not self.halved, cache_enabled=False)

    def _policy_step(self, at, position, equity):
        x = torch.cat([self.table[at], position[:, None].to(self.kind), equity[:, None].to(self.kind)], 1)
        with self.autocast():
            logits, value = self.net(x)
        log = F.log_softmax(logits, 1)
        # Gumbel's maximum: a draw without a round trip.
        drawn = torch.rand_like(log).clamp_(1e-10, 1 - 1e-7)
        action = (log - torch.log(-torch.log(drawn))).argmax(1)
        target = action.float() - 1
        reward = target * self.returns[at] - COST * (target - position).abs()
        following = torch.where(at + 1 >= BARS - 2, 0, at + 1)
        return x, action, log.gather(1, action[:, None])[:, 0], value, reward, following, target, equity * (1 + reward)

    def _walk(self):
        with torch.no_grad():
            for t in range(CHUNK):
                *seen, at, position, equity = self.policy_step(self.at, self.position, self.equity)
                for to, now in zip(self.chunk, seen):
                    to[t].copy_(now)
                self.at.copy_(at)
                self.position.copy_(position)
                self.equity.copy_(equity)

    def _estimate(self):
        with torch.no_grad():
            self.last.copy_(self.policy_step(self.at, self.position, self.equity)[3])
            _, _, _, value, reward = self.seen
            following = torch.cat([value[1:], self.last[None]])
            delta = reward + GAMMA * following - value
            self.advantage[H - 1].copy_(delta[H - 1])
            for t in range(H - 2, -1, -1):
                torch.add(delta[t], self.advantage[t + 1], alpha=GAMMA * LAMBDA, out=self.advantage[t])
            torch.add(self.advantage, value, out=self.target)

    def _loss(self, x, action, old, advantage, target):
        with self.autocast():
            logits, value = self.net(x)
        log = F.log_softmax(logits, 1)
        ratio = (log.gather(1, action[:, None])[:, 0] - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = -torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        entropy = -(log.exp() * log).sum(1).mean()
        return policy + VALUE * (value - target).square().mean() - ENTROPY * entropy

    def _step(self):
        x, action, old, _, _ = self.seen
        flat = [x.view(E * H, -1), action.view(-1), old.view(-1), self.advantage.view(-1), self.target.view(-1)]
        for p in self.params:
            p.grad = None
        self.loss(*[a.index_select(0, self.rows) for a in flat]).backward()
        if self.halved:
            for master, p in zip(self.masters, self.params):
                master.grad = p.grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters, NORM)
        self.adam.step()
        if self.halved:
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)

    def graph(self, work):
        if not CUDA:
            return work
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        for p in self.params + self.masters:
            p.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def update(self):
        for first in range(0, H, CHUNK):
            self.walk()
            for to, now in zip(self.seen, self.chunk):
                n = min(CHUNK, H - first)
                to[first : first + n].copy_(now[:n])
        self.estimate()
        for _ in range(TOLD.epochs):
            order = torch.randperm(E * H, device=TOLD.device)
            for first in range(0, ROWS * TOLD.minibatches, ROWS):
                self.rows.copy_(order[first : first + ROWS])
                self.step()


def wait():
    if CUDA:
        torch.cuda.synchronize()


names = ["eager", "compiled"] + (["master", "fused"] if BF16 else [])
if TOLD.variants:
    names = TOLD.variants.split(",")
seen, best = {}, None
for name in names:
    try:
        clock = time.perf_counter()
        trainer = Trainer(name)
        trainer.update()
        wait()
        first = time.perf_counter() - clock
        timed = ppo_peer.seconds(trainer.update, wait, most_seconds=TOLD.seconds)
        assert all(bool(torch.isfinite(p).all()) for p in trainer.masters), "not finite"
        seen[name] = {"steps_per_s": E * H / timed[0], "first_update_s": first}
        if best is None or timed[0] < best[1][0]:
            best = (name, timed)
    except Exception as why:  # a variant that this machine cannot do is none
        seen[name] = {"failed": f"{type(why).__name__}: {str(why)[:200]}"}
    trainer = None
    if CUDA:
        torch.cuda.empty_cache()
if best is None:
    raise SystemExit(f"no variant ran: {seen}")
memory = torch.cuda.max_memory_allocated() if CUDA else None
versions = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if CUDA else "cpu"}
ppo_peer.report(TOLD, "torch", best[1], variant=best[0], variants=seen, device_bytes=memory, versions=versions)
