"""An LSTM classifier in PyTorch, at its best: one training step of one or many members, or one forward pass.

Usage: torch_lstm.py --net 16x50-lstm64-3 --batch 3072 --precision bf16 [--members 32] [--mode train|infer] [--device
cuda|cpu] ... Prints one JSON object on the last line: every variant with its time, and the best one. Run by `cargo
xtask bench gpu` and `bench cpu-net`.

A step is forward (`nn.LSTM`, its last h, a linear head), cross-entropy, backward, clipping by global norm (unless
`--clip none`) and AdamW, for every member, on random data that lies on the device. Its variants differ in what PyTorch
offers, and the fastest is the peer:

- `eager`         modules in f32 (under autocast in bf16), fused AdamW, launched one by one; on a CPU this is what there
                  is
- `graph`         the same as one CUDA graph, members one after the other
- `master`        bf16 only: bf16 weights for cuDNN, f32 master weights for a fused AdamW, one CUDA graph
- `N streams`     several members: one CUDA graph in which they run on N streams side by side

each once with the windows of the batch gathered inside the step from a table of 200,000 rows by index (`gather`), as
ours does it, and once with the batch lying ready (`ready`), steps first, which is the order nn.LSTM likes. A variant
that fails is reported with its reason. Times are medians of `--repeats` runs of `--replays` steps, by CUDA events.
"""

import time

BEGIN = time.perf_counter()

import argparse
import contextlib
import json
import os


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", required=True, help="short form: FEATURESxWINDOW-lstmUNITS[-lstmUNITS...]-CLASSES")
    p.add_argument("--batch", type=int, required=True, help="of each member")
    p.add_argument("--members", type=int, default=1)
    p.add_argument("--precision", choices=["f32", "tf32", "bf16"], required=True)
    p.add_argument("--mode", choices=["train", "infer"], default="train")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--threads", type=int, default=0, help="on a CPU; 0 is all")
    p.add_argument("--clip", default="1.0", help="largest gradient norm, or none")
    p.add_argument("--rows", type=int, default=200_000)
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--replays", type=int, default=30)
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--variants", default="all", help="names as printed, separated by commas; all or quick for all")
    return p.parse_args()


TOLD = arguments()
if TOLD.threads:
    os.environ["OMP_NUM_THREADS"] = str(TOLD.threads)

import torch
import torch.nn.functional as F

CUDA = TOLD.device == "cuda"
CLIP = None if TOLD.clip == "none" else float(TOLD.clip)
HALF = torch.bfloat16


def shape():
    """features, window, units of every layer, classes."""
    first, *units, classes = TOLD.net.replace(" ", "").split("-")
    features, window = (int(w) for w in first.split("x"))
    if not units or not all(u.startswith("lstm") for u in units):
        raise SystemExit(f"{TOLD.net}: FEATURESxWINDOW-lstmUNITS-CLASSES is what this peer knows")
    return features, window, [int(u.removeprefix("lstm")) for u in units], int(classes)


FEATURES, WINDOW, UNITS, CLASSES = shape()


def flops():
    """Of the products that are needed: forward, dW, and the gradient of what has parameters before it."""
    train = TOLD.mode == "train"
    per_row, inputs = 0, FEATURES
    for i, units in enumerate(UNITS):
        x, h = inputs * 4 * units, units * 4 * units
        per_row += WINDOW * ((3 if i else 2) * x + 3 * h if train else x + h)
        inputs = units
    return 2.0 * TOLD.members * TOLD.batch * (per_row + (3 if train else 1) * inputs * CLASSES)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # Layers of one width are one module, as cuDNN likes them.
        if len(set(UNITS)) == 1:
            walks = [torch.nn.LSTM(FEATURES, UNITS[0], num_layers=len(UNITS))]
        else:
            walks = [torch.nn.LSTM(a, b) for a, b in zip([FEATURES, *UNITS], UNITS)]
        self.walks, self.head = torch.nn.ModuleList(walks), torch.nn.Linear(UNITS[-1], CLASSES)

    def forward(self, x):
        for walk in self.walks:
            x, _ = walk(x)
        return self.head(x[-1])


class Data:
    """A table that stays on the device, and one batch of row ids in random order for each member."""

    def __init__(self, gather):
        dtype = HALF if TOLD.precision == "bf16" else torch.float32
        self.table = torch.randn(TOLD.rows, FEATURES, device=TOLD.device).to(dtype)
        self.labels = torch.randint(0, CLASSES, (TOLD.rows,), device=TOLD.device)
        ids = torch.randint(WINDOW - 1, TOLD.rows, (TOLD.members, TOLD.batch), device=TOLD.device)
        steps = torch.arange(1 - WINDOW, 1, device=TOLD.device)
        self.ids, self.rows = ids, ids[:, None, :] + steps[None, :, None]  # [members, window, batch]
        self.gather = gather
        self.ready = [self.pick(m) for m in range(TOLD.members)]

    def pick(self, member):
        rows = self.rows[member]
        x = self.table.index_select(0, rows.reshape(-1)).view(WINDOW, TOLD.batch, FEATURES)
        return x, self.labels.index_select(0, self.ids[member])

    def batch(self, member):
        return self.pick(member) if self.gather else self.ready[member]


def clip(params):
    if CLIP is not None:
        torch.nn.utils.clip_grad_norm_(params, CLIP)


def adamw(params):
    return torch.optim.AdamW(params, lr=1e-3, fused=True, capturable=CUDA)


def member(data, m):
    """f32 weights; bf16 through autocast. The step, and what drops its gradients."""
    net = Net().to(TOLD.device)
    if TOLD.mode == "infer":
        net = net.to(HALF) if TOLD.precision == "bf16" else net

        def forward():
            with torch.no_grad():
                return net(data.batch(m)[0])

        return forward, lambda: None
    params = list(net.parameters())
    optimiser = adamw(params)

    def step():
        optimiser.zero_grad(set_to_none=True)
        x, y = data.batch(m)
        with torch.autocast(TOLD.device, HALF, enabled=TOLD.precision == "bf16", cache_enabled=False):
            z = net(x)
        F.cross_entropy(z.float(), y).backward()
        clip(params)
        optimiser.step()

    return step, lambda: optimiser.zero_grad(set_to_none=True)


def master(data, m):
    """bf16 weights for the library, f32 ones for the optimiser: no casts inside autograd."""
    net = Net().to(TOLD.device)
    params = [p.detach().clone() for p in net.parameters()]
    net = net.to(HALF)
    halves = list(net.parameters())
    for p in params:
        p.grad = torch.zeros_like(p)
    optimiser = adamw(params)

    def drop():
        for h in halves:
            h.grad = None

    def step():
        drop()
        x, y = data.batch(m)
        F.cross_entropy(net(x).float(), y).backward()
        torch._foreach_copy_([p.grad for p in params], [h.grad for h in halves])
        clip(params)
        optimiser.step()
        with torch.no_grad():
            torch._foreach_copy_(halves, params)

    return step, drop


def population(make, data, streams):
    """All members once; on several streams side by side, which only a capture may do for free."""
    made = [make(data, m) for m in range(TOLD.members)]
    side = [torch.cuda.Stream() for _ in range(streams)]

    def step():
        for s in side:
            s.wait_stream(torch.cuda.current_stream())
        for m, (one, _) in enumerate(made):
            with torch.cuda.stream(side[m % streams]) if side else contextlib.nullcontext():
                one()
        for s in side:
            torch.cuda.current_stream().wait_stream(s)

    def drop():
        for _, forget in made:
            forget()

    return step, drop


def captured(step, drop):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    drop()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def variants():
    """Name -> (maker of a member, streams, whether it is captured, whether it gathers)."""
    makers = {"eager": (member, 0, False)}
    if CUDA:
        makers["graph"] = (member, 0, True)
        halves = TOLD.precision == "bf16" and TOLD.mode == "train"
        if halves:
            makers["master"] = (master, 0, True)
        if TOLD.members > 1:
            makers["8 streams"] = (member, 8, True)
            if halves:
                makers["master, 8 streams"] = (master, 8, True)
    both = {f"{name} {how}": (*kind, how == "gather") for name, kind in makers.items() for how in ["gather", "ready"]}
    return both if TOLD.variants in ("all", "quick") else {name: both[name] for name in TOLD.variants.split(",")}


def milliseconds(work):
    """[repeats] of one step."""
    for _ in range(TOLD.warmup):
        work()
    out = []
    for _ in range(TOLD.repeats):
        if CUDA:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            for _ in range(TOLD.replays):
                work()
            end.record()
            torch.cuda.synchronize()
            out.append(begin.elapsed_time(end) / TOLD.replays)
        else:
            begin = time.perf_counter()
            for _ in range(TOLD.replays):
                work()
            out.append((time.perf_counter() - begin) * 1e3 / TOLD.replays)
    return out


def measure(make, streams, graph, gather):
    torch.manual_seed(1)
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    step, drop = population(make, Data(gather), streams)
    work = captured(step, drop) if graph else step
    work()
    if CUDA:
        torch.cuda.synchronize()
    prepared = time.perf_counter() - begin
    times = sorted(milliseconds(work))
    ms = times[len(times) // 2]
    return {
        "ms_per_step": ms,
        "fastest_ms": times[0],
        "slowest_ms": times[-1],
        "tflops": flops() / ms / 1e9,
        "samples_per_s": TOLD.members * TOLD.batch / ms * 1e3,
        "peak_bytes": torch.cuda.max_memory_reserved() if CUDA else None,
        "prepare_s": prepared,
    }


def main():
    imported = time.perf_counter() - BEGIN
    if CUDA and not torch.cuda.is_available():
        raise SystemExit("this PyTorch sees no CUDA device")
    torch.set_float32_matmul_precision("high" if TOLD.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = TOLD.precision == "tf32"
    if TOLD.threads:
        torch.set_num_threads(TOLD.threads)
    results = []
    for name, kind in variants().items():
        try:
            results.append({"variant": name} | measure(*kind))
        except Exception as e:  # a variant that does not work here is reported, and the others still count
            results.append({"variant": name, "failed": f"{type(e).__name__}: {e}"[:300]})
        print(json.dumps(results[-1]), flush=True)
    worked = [r for r in results if "failed" not in r]
    if not worked:
        raise SystemExit("no variant worked")
    best = min(worked, key=lambda r: r["ms_per_step"])
    words = ["net", "batch", "members", "precision", "mode"]
    out = {w: getattr(TOLD, w) for w in words} | best
    out |= {
        "clip": CLIP,
        "device": torch.cuda.get_device_name() if CUDA else f"cpu, {torch.get_num_threads()} threads",
        "version": torch.__version__,
        "import_s": imported,
        "first_use_s": imported + best["prepare_s"],
        "variants": results,
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
