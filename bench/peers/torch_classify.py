"""The two-timeframe LSTM classifier in PyTorch, written as a good engineer would today: whole epochs, with validation.

Usage: torch_classify.py DATA.npz --train 0:350000 --valid 350000:420000 --batch 3072 --epochs 5 [--members 24]
[--precision bf16] [--device cuda|cpu] Prints one JSON object: seconds of every epoch, and loss and MCC of every member
after each. `cargo xtask bench classify` runs it.

DATA has x_fast [N,T1,F1], x_slow [N,T2,F2], x_strategy [N,F3] and labels y (0, 1, 2). Everything lies on the device
from the start; scaling (mean and deviation of the training part) is applied once; the order of samples is a permutation
made on the device; a step is gather, forward, weighted cross-entropy, backward, clipping at 1, fused AdamW with a
cosine schedule. On a card the whole step of all members is one CUDA graph, members on `--streams` streams side by side,
autocast to bf16; the index of the batch is read from the permutation inside the graph. On a processor it runs eagerly.
"""

import argparse
import json
import math
import os
import time

BEGIN = time.perf_counter()


def span(text):
    a, b = text.split(":")
    return range(int(a), int(b))


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("data")
p.add_argument("--train", type=span, required=True)
p.add_argument("--valid", type=span, required=True)
p.add_argument("--batch", type=int, required=True)
p.add_argument("--epochs", type=int, default=5)
p.add_argument("--total", type=int, default=0, help="epochs of the schedule; 0 is --epochs")
p.add_argument("--members", type=int, default=1)
p.add_argument("--streams", type=int, default=8)
p.add_argument("--units", default="64,24")
p.add_argument("--hidden", type=int, default=16)
p.add_argument("--rate", type=float, default=1e-3)
p.add_argument("--warmup", type=float, default=0.02)
p.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="bf16")
p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
p.add_argument("--threads", type=int, default=0)
p.add_argument("--seed", type=int, default=1)
TOLD = p.parse_args()
if TOLD.threads:
    os.environ["OMP_NUM_THREADS"] = str(TOLD.threads)

import numpy as np
import torch
import torch.nn.functional as F

CUDA = TOLD.device == "cuda"
HALF = TOLD.precision == "bf16"
torch.manual_seed(TOLD.seed)
if TOLD.precision == "tf32":
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

archive = np.load(TOLD.data)
arrays = [torch.from_numpy(np.ascontiguousarray(archive[k], dtype=np.float32)) for k in ("x_fast", "x_slow", "x_strategy")]
y = torch.from_numpy(archive["y"].astype(np.int64)).to(TOLD.device)
train = torch.arange(TOLD.train.start, TOLD.train.stop, device=TOLD.device)
valid = torch.arange(TOLD.valid.start, TOLD.valid.stop, device=TOLD.device)
tables = []
for x in arrays:
    part = x[TOLD.train.start : TOLD.train.stop].reshape(-1, x.shape[-1])
    mean, deviation = part.mean(0), part.std(0, unbiased=False).clamp_min(1e-12)
    x = ((x - mean) / deviation).to(TOLD.device)
    tables.append(x.to(torch.bfloat16) if HALF else x)
counts = torch.bincount(y[train], minlength=3).double()
weights = (counts.sum() / (3 * counts)).float()
UNITS = [int(u) for u in TOLD.units.split(",")]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        wide = [t.shape[-1] for t in tables]
        self.fast = torch.nn.LSTM(wide[0], UNITS[0], batch_first=True)
        self.slow = torch.nn.LSTM(wide[1], UNITS[1], batch_first=True)
        self.mix = torch.nn.Linear(sum(UNITS) + wide[2], TOLD.hidden)
        self.head = torch.nn.Linear(TOLD.hidden, 3)

    def forward(self, fast, slow, row):
        a, b = self.fast(fast)[0][:, -1], self.slow(slow)[0][:, -1]
        return self.head(F.relu(self.mix(torch.cat([a, b, row], 1))))


def of(net, ids):
    with torch.autocast(TOLD.device, torch.bfloat16, enabled=HALF, cache_enabled=False):
        return net(*(t.index_select(0, ids) for t in tables)).float()


# One rate for all members: a single small write a step.
RATE = torch.tensor(TOLD.rate, device=TOLD.device)


class Member:
    def __init__(self):
        self.net = Net().to(TOLD.device)
        self.params = list(self.net.parameters())
        self.optimiser = torch.optim.AdamW(self.params, lr=RATE if CUDA else TOLD.rate, weight_decay=0.01, fused=True, capturable=CUDA)
        self.order = train.clone()
        self.sums = torch.zeros(2, device=TOLD.device)  # loss, weight

    def step(self, at):
        self.optimiser.zero_grad(set_to_none=True)
        ids = self.order[at]
        z, t = of(self.net, ids), y[ids]
        loss = F.cross_entropy(z, t, weight=weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimiser.step()
        w = weights[t].sum()
        self.sums += torch.stack([loss.detach() * w, w])


members = [Member() for _ in range(TOLD.members)]
steps = len(train) // TOLD.batch
total = (TOLD.total or TOLD.epochs) * steps
counter = torch.zeros(1, dtype=torch.int64, device=TOLD.device)
offsets = torch.arange(TOLD.batch, device=TOLD.device)


def all_members():
    at = counter * TOLD.batch + offsets
    if not CUDA or TOLD.members == 1:
        for m in members:
            m.step(at)
    else:
        main = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in range(min(TOLD.streams, TOLD.members))]
        for s in streams:
            s.wait_stream(main)
        for i, m in enumerate(members):
            with torch.cuda.stream(streams[i % len(streams)]):
                m.step(at)
        for s in streams:
            main.wait_stream(s)
    counter.add_(1)


if CUDA:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            all_members()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    for m in members:
        m.optimiser.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        all_members()
    # The rehearsal moved the weights: begin again.
    for m in members:
        fresh = Net().to(TOLD.device)
        with torch.no_grad():
            for a, b in zip(m.net.parameters(), fresh.parameters()):
                a.copy_(b)
        for state in m.optimiser.state.values():
            for v in state.values():
                v.zero_()


def validate(m):
    """Weighted loss and the confusion matrix, counted on the device."""
    with torch.no_grad():
        table, loss, weight = torch.zeros(9, device=TOLD.device), 0.0, 0.0
        for ids in valid.split(16384):
            z, t = of(m.net, ids), y[ids]
            w = weights[t]
            loss = loss + (F.cross_entropy(z, t, reduction="none") * w).sum()
            weight = weight + w.sum()
            table += torch.bincount(t * 3 + z.argmax(1), minlength=9)
        return table, loss / weight


def mcc(table):
    c = np.asarray(table, dtype=np.float64).reshape(3, 3)
    s, t, q = c.sum(), c.sum(1), c.sum(0)
    root = math.sqrt(max(0.0, (s * s - (q * q).sum()) * (s * s - (t * t).sum())))
    return float((np.trace(c) * s - (q * t).sum()) / root) if root else 0.0


if CUDA:
    torch.cuda.synchronize()
ready = time.perf_counter() - BEGIN
epochs, done = [], 0
for epoch in range(TOLD.epochs):
    begin = time.perf_counter()
    for m in members:
        m.order.copy_(train[torch.randperm(len(train), device=TOLD.device)])
        m.sums.zero_()
    counter.zero_()
    for _ in range(steps):
        done += 1
        warm = TOLD.warmup * total
        falling = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (done - warm) / max(1.0, total - warm)))
        rate = TOLD.rate * (done / warm if done < warm else falling)
        RATE.fill_(rate)
        if not CUDA:
            for m in members:
                m.optimiser.param_groups[0]["lr"] = rate
        graph.replay() if CUDA else all_members()
    seen = [validate(m) for m in members]
    train_loss = [float(m.sums[0] / m.sums[1]) for m in members]
    valid_loss = [float(v[1]) for v in seen]
    scores = [mcc(v[0].tolist()) for v in seen]
    epochs.append({"seconds": time.perf_counter() - begin, "train_loss": train_loss, "valid_loss": valid_loss, "mcc": scores})
parameters = sum(x.numel() for x in members[0].params)
print(json.dumps({"torch": torch.__version__, "device": TOLD.device, "batch": TOLD.batch, "members": TOLD.members, "parameters": parameters,
                  "precision": TOLD.precision, "ready_s": ready, "epochs": epochs}))
