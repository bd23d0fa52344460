"""An MLP classifier in PyTorch, at its best: one training step, or one forward pass.

Usage: torch_mlp.py --net 128-2048-1024-512-3 --batch 4096 --precision bf16 [--mode train|infer] [--device cuda|cpu]
[--variants A,B] ... Prints one JSON object on the last line: every variant with its time, and the best one. Run by
`cargo xtask bench gpu` and `bench cpu-net`.

A step is forward, cross-entropy, backward, clipping by global norm (unless `--clip none`) and AdamW, on random data
that lies on the device. Its variants differ in what PyTorch offers, and the fastest is the peer:

- `graph`        modules in f32 (under autocast in bf16), fused AdamW, the whole step one CUDA graph; on a CPU there is
                 no graph, so `eager`
- `master`       bf16 only: bf16 weights for the products, f32 master weights for a fused AdamW, one CUDA graph
- `compiled`     the model and its loss through torch.compile (max-autotune), then as above

each once with the rows of the batch gathered inside the step from a table of 200,000 rows by index (`gather`), as ours
does it, and once with the batch lying ready (`ready`). Gradients are dropped, not zeroed, before the capture, so that
the graph holds neither zeroing nor accumulation. A variant that fails is reported with its reason. Times are medians of
`--repeats` runs of `--replays` steps, by CUDA events.
"""

import time

BEGIN = time.perf_counter()

import argparse
import json
import os

DTYPES = ["f32", "tf32", "bf16"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", required=True, help="short form: features, hidden layers (t for tanh, else ReLU), classes")
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--precision", choices=DTYPES, required=True)
    p.add_argument("--mode", choices=["train", "infer"], default="train")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--threads", type=int, default=0, help="on a CPU; 0 is all")
    p.add_argument("--clip", default="1.0", help="largest gradient norm, or none")
    p.add_argument("--rows", type=int, default=200_000)
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--replays", type=int, default=30)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--variants", default="all", help="names as printed, separated by commas; all; or quick for all but compiled")
    return p.parse_args()


TOLD = arguments()
if TOLD.threads:
    os.environ["OMP_NUM_THREADS"] = str(TOLD.threads)

import torch
import torch.nn.functional as F

CUDA = TOLD.device == "cuda"
CLIP = None if TOLD.clip == "none" else float(TOLD.clip)
HALF = torch.bfloat16


def widths():
    """[(inputs, outputs, tanh)] of every layer, the head last."""
    words = TOLD.net.replace(" ", "").split("-")
    sizes = [int(w.rstrip("t")) for w in words]
    return [(a, b, w.endswith("t")) for a, b, w in zip(sizes, sizes[1:], words[1:])]


def flops():
    """Of the products that are needed: forward, dW, and dX where something is before it."""
    products = [a * b for a, b, _ in widths()]
    per_row = sum(products) if TOLD.mode == "infer" else 3 * sum(products) - products[0]
    return 2.0 * TOLD.batch * per_row


def model():
    layers = []
    for i, (a, b, tanh) in enumerate(widths()):
        layers.append(torch.nn.Linear(a, b))
        if i + 1 < len(widths()):
            layers.append(torch.nn.Tanh() if tanh else torch.nn.ReLU())
    return torch.nn.Sequential(*layers).to(TOLD.device)


class Data:
    """A table that stays on the device, and one batch of row ids in random order."""

    def __init__(self, gather):
        features, classes = widths()[0][0], widths()[-1][1]
        dtype = HALF if TOLD.precision == "bf16" else torch.float32
        self.table = torch.randn(TOLD.rows, features, device=TOLD.device).to(dtype)
        self.labels = torch.randint(0, classes, (TOLD.rows,), device=TOLD.device)
        self.ids = torch.randint(0, TOLD.rows, (TOLD.batch,), device=TOLD.device)
        self.gather = gather
        self.ready = self.pick()

    def pick(self):
        return self.table.index_select(0, self.ids), self.labels.index_select(0, self.ids)

    def batch(self):
        return self.pick() if self.gather else self.ready


def autocast():
    on = TOLD.precision == "bf16"
    return torch.autocast(TOLD.device, HALF, enabled=on, cache_enabled=False)


def clip(params):
    if CLIP is not None:
        torch.nn.utils.clip_grad_norm_(params, CLIP)


def adamw(params):
    return torch.optim.AdamW(params, lr=1e-3, fused=True, capturable=CUDA)


def modules(data, compiled):
    """f32 weights; bf16 through autocast. The step, and what drops its gradients."""
    net = model()
    if TOLD.mode == "infer":
        net = net.to(HALF) if TOLD.precision == "bf16" else net
        forward = torch.compile(net, mode=compiled) if compiled else net

        def step():
            with torch.no_grad():
                return forward(data.batch()[0])

        return step, lambda: None

    def loss(x, y):
        with autocast():
            z = net(x)
        return F.cross_entropy(z.float(), y)

    loss = torch.compile(loss, mode=compiled) if compiled else loss
    params = list(net.parameters())
    optimiser = adamw(params)

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss(*data.batch()).backward()
        clip(params)
        optimiser.step()

    return step, lambda: optimiser.zero_grad(set_to_none=True)


def master(data):
    """bf16 weights for the products, f32 ones for the optimiser: no casts inside autograd."""
    net = model()
    params = [p.detach().clone() for p in net.parameters()]
    net = net.to(HALF)
    halves = list(net.parameters())
    for p in params:
        p.grad = torch.zeros_like(p)
    optimiser = adamw(params)

    def step():
        for h in halves:
            h.grad = None
        x, y = data.batch()
        F.cross_entropy(net(x).float(), y).backward()
        torch._foreach_copy_([p.grad for p in params], [h.grad for h in halves])
        clip(params)
        optimiser.step()
        with torch.no_grad():
            torch._foreach_copy_(halves, params)

    def drop():
        for h in halves:
            h.grad = None

    return step, drop


def variants():
    base = "graph" if CUDA else "eager"
    # max-autotune brings graphs of its own, which our capture of the whole step replaces.
    compiled = "max-autotune-no-cudagraphs"
    makers = {base: lambda d: modules(d, None)}
    if TOLD.precision == "bf16" and TOLD.mode == "train" and CUDA:
        makers["master"] = master
    # Last, because a capture that fails can spoil those behind it.
    makers["compiled"] = lambda d: modules(d, compiled)
    both = {f"{name} {how}": (make, how == "gather") for name, make in makers.items() for how in ["gather", "ready"]}
    if TOLD.variants == "all":
        return both
    if TOLD.variants == "quick":
        return {name: v for name, v in both.items() if not name.startswith("compiled")}
    return {name: both[name] for name in TOLD.variants.split(",")}


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


def measure(make, gather):
    torch.manual_seed(1)
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    step, drop = make(Data(gather))
    work = captured(step, drop) if CUDA else step
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
        "samples_per_s": TOLD.batch / ms * 1e3,
        "peak_bytes": torch.cuda.max_memory_reserved() if CUDA else None,
        "prepare_s": prepared,
    }


def main():
    imported = time.perf_counter() - BEGIN
    if CUDA and not torch.cuda.is_available():
        raise SystemExit("this PyTorch sees no CUDA device")
    torch.set_float32_matmul_precision("high" if TOLD.precision == "tf32" else "highest")
    if TOLD.threads:
        torch.set_num_threads(TOLD.threads)
    results = []
    for name, (make, gather) in variants().items():
        try:
            results.append({"variant": name} | measure(make, gather))
        except Exception as e:  # a variant that does not work here is reported, and the others still count
            results.append({"variant": name, "failed": f"{type(e).__name__}: {e}"[:300]})
        print(json.dumps(results[-1]), flush=True)
        torch.compiler.reset()
    worked = [r for r in results if "failed" not in r]
    if not worked:
        raise SystemExit("no variant worked")
    best = min(worked, key=lambda r: r["ms_per_step"])
    words = ["net", "batch", "precision", "mode"]
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
