"""The walk forward of a finished run of the two-timeframe classifier, trained in PyTorch fold after fold.

Usage: torch_walk.py RUN/result.json [--way streams|graph|eager] [--timed 3] [--every 1] Prints one JSON object.

The folds, their samples, the seeds, the batch and how many epochs each member needed until its early stopping are
read from the run; so are the net's inputs. Rows are random, of the same widths. Windows are gathered from the table
by their ends, on the card. A step is a CUDA graph with fused AdamW, one seed after the other (`graph`) or all seeds
of a fold side by side on streams (`streams`); `eager` is step by step without a graph, as most people run it. Of
every so many folds some epochs are timed, validation included, and taken times the epochs of all members; features,
backtest, shifts and report are not done here at all.
"""

import argparse
import json
import re
import time

import torch
import torch.nn.functional as F

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("result")
p.add_argument("--way", choices=["streams", "graph", "eager"], default="graph")
p.add_argument("--precision", choices=["bf16", "f32"], default="bf16")
p.add_argument("--timed", type=int, default=3)
p.add_argument("--every", type=int, default=1, help="time every so many folds, and take the others as the nearest, by their samples")
TOLD = p.parse_args()
HALF = TOLD.precision == "bf16"
DEVICE = "cuda"

run = json.load(open(TOLD.result))
# fast:16x50-lstm64 + slow:12x24-lstm24 + strategy:9 / 16 / direction:3
branches = {name: (int(wide), int(window or 1), int(units or 0)) for name, wide, window, units in
            re.findall(r"(\w+):(\d+)(?:x(\d+))?(?:-lstm(\d+))?", run["net"].split("/")[0])}
hidden = [int(h) for h in re.findall(r"\d+", run["net"].split("/")[1])]
rows = max(f["train"] + f["valid"] for f in run["folds"]) + 100
torch.manual_seed(1)
kind = torch.bfloat16 if HALF else torch.float32
tables = {name: torch.randn(rows, wide, device=DEVICE).to(kind) for name, (wide, _, _) in branches.items()}
y = torch.randint(0, 3, (rows,), device=DEVICE)
weights = torch.ones(3, device=DEVICE)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.ModuleDict({n: torch.nn.LSTM(w, u, batch_first=True) for n, (w, _, u) in branches.items() if u})
        wide = sum(u or w for w, _, u in branches.values())
        layers = []
        for h in hidden:
            layers += [torch.nn.Linear(wide, h), torch.nn.ReLU()]
            wide = h
        self.head = torch.nn.Sequential(*layers, torch.nn.Linear(wide, 3))

    def forward(self, ids):
        parts = []
        for name, (_, window, units) in branches.items():
            if units:
                at = ids[:, None] + torch.arange(1 - window, 1, device=DEVICE)
                parts.append(self.lstm[name](tables[name][at.clamp_min(0)])[0][:, -1])
            else:
                parts.append(tables[name][ids])
        return self.head(torch.cat(parts, 1))


def of(net, ids):
    with torch.autocast(DEVICE, torch.bfloat16, enabled=HALF, cache_enabled=False):
        return net(ids).float()


class Member:
    def __init__(self, train):
        self.net = Net().to(DEVICE)
        self.params = list(self.net.parameters())
        rate = torch.tensor(run["rate"], device=DEVICE)
        self.optimiser = torch.optim.AdamW(self.params, lr=rate, weight_decay=0.01, fused=True, capturable=True)
        self.order = train.clone()

    def step(self, at):
        self.optimiser.zero_grad(set_to_none=True)
        ids = self.order[at]
        loss = F.cross_entropy(of(self.net, ids), y[ids], weight=weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimiser.step()

    def validate(self, valid):
        with torch.no_grad():
            table = torch.zeros(9, device=DEVICE)
            for ids in valid.split(16384):
                table += torch.bincount(y[ids] * 3 + of(self.net, ids).argmax(1), minlength=9)
            return table


def fold(train_rows, valid_rows, seeds):
    """Seconds of setting up, and of an epoch of all its members."""
    begin = time.perf_counter()
    train = torch.arange(60, 60 + train_rows, device=DEVICE)
    valid = torch.arange(60 + train_rows, 60 + train_rows + valid_rows, device=DEVICE).clamp_max(rows - 1)
    members = [Member(train) for _ in range(seeds if TOLD.way == "streams" else 1)]
    batch = min(run["batch"], train_rows)
    steps = train_rows // batch
    counter = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    offsets = torch.arange(batch, device=DEVICE)

    def all_members():
        at = counter * batch + offsets
        main = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in members]
        for s, m in zip(streams, members):
            s.wait_stream(main)
            with torch.cuda.stream(s):
                m.step(at)
        for s in streams:
            main.wait_stream(s)
        counter.add_(1)

    graph = None
    if TOLD.way != "eager":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                all_members()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        for m in members:
            m.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            all_members()
    torch.cuda.synchronize()
    ready = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(TOLD.timed):
        for m in members:
            m.order.copy_(train[torch.randperm(train_rows, device=DEVICE)])
        counter.zero_()
        for step in range(steps):
            if graph:
                graph.replay()
            else:
                members[0].step(step * batch + offsets)
        for table in [m.validate(valid) for m in members]:
            table.cpu()
    torch.cuda.synchronize()
    return ready, (time.perf_counter() - begin) / TOLD.timed


total, shown, timed = 0.0, [], None
for number, row in enumerate(run["folds"]):
    epochs = [m["epochs"] for m in run["members"] if m["fold"] == row["fold"]]
    if number % TOLD.every == 0:
        ready, epoch = fold(row["train"], row["valid"], len(epochs))
        timed = epoch / (row["train"] + row["valid"])
    epoch = timed * (row["train"] + row["valid"])
    # Seeds side by side go on until the last has ended; one after the other each has its own end.
    whole = ready + epoch * max(epochs) if TOLD.way == "streams" else ready * len(epochs) + epoch * sum(epochs)
    total += whole
    shown.append({"fold": row["fold"], "ready": ready, "epoch": epoch, "epochs": epochs, "seconds": whole})
print(json.dumps({"way": TOLD.way, "precision": TOLD.precision, "batch": run["batch"], "net": run["net"],
                  "seconds": total, "ours": run["seconds"], "ratio": total / run["seconds"], "folds": shown}))
