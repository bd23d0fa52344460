"""Many small MLPs at once in PyTorch, at its best: their layers stacked into batched products, the whole training step
as one CUDA graph.

Usage: torch_members.py --net 64-128-128-3 --batch 256 --members 64 --precision bf16 [--device cuda|cpu] ...
Prints one JSON object on the last line. Run by `cargo xtask bench gpu` and `bench cpu-net`.

A step is forward (`baddbmm` and ReLU), cross-entropy, backward and AdamW for all members, on a batch that lies ready on
the device. Nothing is gathered and nothing clipped, which spares PyTorch both. Variants: `f32` with TF32 products,
`autocast` in bf16, and `bf16` weights throughout with an optimiser in bf16, which is less than ours does; on a GPU each
as a CUDA graph (`--variants quick` and `all` are the same). The fastest is the peer.
"""

import argparse
import contextlib
import json
import time

import torch

BEGIN = time.perf_counter()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", required=True)
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--members", type=int, required=True)
    p.add_argument("--precision", choices=["f32", "bf16"], required=True)
    p.add_argument("--mode", choices=["train"], default="train")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--replays", type=int, default=50)
    p.add_argument("--variants", default="all")
    return p.parse_args()


TOLD = arguments()
CUDA = TOLD.device == "cuda"
if TOLD.threads:
    torch.set_num_threads(TOLD.threads)


def stepper(kind):
    """A function that does one step of all members."""
    sizes = [int(n) for n in TOLD.net.split("-")]
    held = torch.bfloat16 if kind == "bf16" else torch.float32
    torch.manual_seed(1)
    weights, biases = [], []
    for a, b in zip(sizes, sizes[1:]):
        weights.append((torch.randn(TOLD.members, a, b, device=TOLD.device) * a**-0.5).to(held).requires_grad_())
        biases.append(torch.zeros(TOLD.members, 1, b, device=TOLD.device, dtype=held, requires_grad=True))
    options = {"fused": True, "capturable": True} if CUDA else {"fused": True}
    optimiser = torch.optim.AdamW(weights + biases, **options)
    x = torch.randn(TOLD.members, TOLD.batch, sizes[0], device=TOLD.device).to(held)
    y = torch.randint(0, sizes[-1], (TOLD.members * TOLD.batch,), device=TOLD.device)

    def step():
        optimiser.zero_grad(set_to_none=False)
        cast = torch.autocast(TOLD.device, torch.bfloat16) if kind == "autocast" else contextlib.nullcontext()
        with cast:
            h = x
            for i, (w, b) in enumerate(zip(weights, biases)):
                h = torch.baddbmm(b, h, w)
                if i + 1 < len(weights):
                    h = torch.relu(h)
        torch.nn.functional.cross_entropy(h.reshape(-1, sizes[-1]).float(), y).backward()
        optimiser.step()

    return step


def milliseconds(step):
    """Median time of a step."""
    if not CUDA:
        for _ in range(3):
            step()
        times = []
        for _ in range(TOLD.repeats):
            begin = time.perf_counter()
            for _ in range(TOLD.replays):
                step()
            times.append((time.perf_counter() - begin) / TOLD.replays * 1e3)
        return sorted(times)[len(times) // 2]
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(TOLD.repeats + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(TOLD.replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / TOLD.replays)
    return sorted(times[1:])[TOLD.repeats // 2]


def main():
    torch.set_float32_matmul_precision("high")
    kinds = ["f32"] if TOLD.precision == "f32" or not CUDA else ["f32", "autocast", "bf16"]
    if TOLD.variants not in ("all", "quick"):
        kinds = [TOLD.variants]
    seen, failed = {}, {}
    for kind in kinds:
        try:
            seen[kind] = milliseconds(stepper(kind))
        except RuntimeError as why:
            failed[kind] = str(why)[:200]
    best = min(seen, key=seen.get)
    said = {key: getattr(TOLD, key) for key in ("net", "batch", "members", "precision", "mode")}
    peak = torch.cuda.max_memory_allocated() if CUDA else None
    said |= {"variant": best, "ms_per_step": seen[best], "variants": seen, "failed": failed, "peak_bytes": peak}
    said |= {"first_use_s": time.perf_counter() - BEGIN, "torch": torch.__version__}
    print(json.dumps(said))


main()
