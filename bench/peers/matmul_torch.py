"""How fast the matrix products of a training step are when nothing else is done: the limit that the step is divided by.

Usage: matmul_torch.py [--device cuda|cpu] [--threads N] NET@BATCH@PRECISION ... (f32, tf32 or bf16). One JSON object on
the last line.

For every layer forward `X Wᵀ`, backward `dZ W` (not for the first) and `dZᵀ X`, with operands laid out as
torch.nn.Linear has them, on random data, 20 products in one CUDA graph (on a CPU, a few calls). Of an LSTM layer
(`16x50-lstm64-3`) the inputs of all steps are one product, as are both of its weights' gradients; what goes through h
is one product a step, and that one's time counts once for each step. Both of PyTorch's libraries for CUDA (cuBLAS and
cuBLASLt) are timed and the faster one counts for each product. The rate of a case is its work divided by the sum of its
times; `hidden` leaves out the head, which is too narrow for any library.
"""

import argparse
import json
import time

import torch

PRODUCTS = 20
REPEATS = 7
REPLAYS = 5


def time_of(work):
    """Median seconds of one product."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(PRODUCTS):
            work()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / REPLAYS / PRODUCTS)
    return sorted(times)[REPEATS // 2]


def time_on_cpu(work):
    """Median seconds of one product."""
    times = []
    for _ in range(REPEATS + 2):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return sorted(times[2:])[REPEATS // 2]


def product(a, b):
    """The faster of the two libraries."""
    out = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    if a.device.type == "cpu":
        return time_on_cpu(lambda: torch.mm(a, b, out=out)), "cpu"
    best = None
    for library in ["cublas", "cublaslt"]:
        torch.backends.cuda.preferred_blas_library(library)
        seconds = time_of(lambda: torch.mm(a, b, out=out))
        best = min(best or (seconds, library), (seconds, library))
    return best


def case(device, net, batch, precision):
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    first, *words = net.split("-")
    features, _, window = first.partition("x")
    window, recurrent = int(window or 1), "lstm" in net
    inputs = int(features) * (1 if recurrent else window)
    random = lambda *shape: torch.randn(*shape, device=device).to(dtype)
    products = []

    def add(layer, what, a, b, times=1):
        seconds, library = product(a, b)
        work = 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
        products.append({
            "layer": layer, "what": what, "m": a.shape[0], "n": b.shape[1], "k": a.shape[1], "us": times * seconds * 1e6,
            "tflops": work / seconds / 1e12, "library": library, "head": layer + 1 == len(words),
        })

    def linear(layer, rows, inputs, outputs, passes_back):
        x, w, dz = random(rows, inputs), random(outputs, inputs), random(rows, outputs)
        add(layer, "forward", x, w.t())
        if passes_back:
            add(layer, "dx", dz, w)
        add(layer, "dw", dz.t(), x)

    for i, word in enumerate(words):
        if word.startswith("lstm"):
            units = int(word.removeprefix("lstm"))
            linear(i, window * batch, inputs, 4 * units, i > 0)
            h, w, dz = random(window * batch, units), random(4 * units, units), random(window * batch, 4 * units)
            add(i, "forward", h[:batch], w.t(), window)
            add(i, "dx", dz[:batch], w, window)
            add(i, "dw", dz.t(), h)
            inputs = units
        else:
            linear(i, batch, inputs, int(word.rstrip("t")), i > 0)
            inputs = int(word.rstrip("t"))

    def rate(of):
        seconds = sum(p["us"] for p in of) / 1e6
        return sum(p["tflops"] * p["us"] for p in of) / 1e6 / seconds if seconds else None

    hidden = [p for p in products if not p["head"]]
    return {
        "net": net, "batch": batch, "precision": precision, "tflops": rate(products), "tflops_hidden": rate(hidden),
        "ms": sum(p["us"] for p in products) / 1e3, "ms_hidden": sum(p["us"] for p in hidden) / 1e3,
        "tflops_forward": rate([p for p in products if p["what"] == "forward"]), "products": products,
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("cases", nargs="+", metavar="NET@BATCH@PRECISION")
    told = p.parse_args()
    if told.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("this PyTorch sees no CUDA device")
    if told.threads:
        torch.set_num_threads(told.threads)
    torch.manual_seed(1)
    cases = []
    for word in told.cases:
        net, batch, precision = word.split("@")
        cases.append(case(told.device, net, int(batch), precision))
        print(f"{word}: {cases[-1]['tflops']:.3g} TFLOP/s", flush=True)
    name = torch.cuda.get_device_name() if told.device == "cuda" else "cpu"
    print(json.dumps({"cases": cases, "device": name, "version": torch.__version__}))


if __name__ == "__main__":
    main()
