"""Compiles kernels: NVRTC makes PTX for each architecture, ptxas makes cubins of it and says what they take.

Run in the root of the working tree by `cargo xtask kernels`, with the Python of the compiler's own environment:

    python nvrtc.py FOLDER < jobs.json

A job is {"source": "crates/x/src/y.cu", "name": "y", "flags": ["--std=c++17"], "targets": ["80", "90"]}; FOLDER gets
y.ptx (of the first target) and y.sm_80.cubin and so on. Standard output is one JSON list, in the order of the jobs:
{"log": what NVRTC said, "error": or null, "ptxas": {"sm_80": what ptxas said}}.
"""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import subprocess
import sys


def find(root, patterns):
    """The first file that any pattern finds."""
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            return path
    raise SystemExit(f"none of {patterns} is in {root}")


def load(wheels):
    """NVRTC; its builtins lie beside it and are found by it."""
    library = find(wheels, ["cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/bin/nvrtc64_120_0.dll"])
    if hasattr(os, "add_dll_directory"):
        os.add_dll_directory(str(library.parent))
    return ctypes.CDLL(str(library))


def text(nvrtc, program, size, get):
    """A string that NVRTC holds for a program."""
    length = ctypes.c_size_t()
    getattr(nvrtc, size)(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    getattr(nvrtc, get)(program, buffer)
    return buffer.raw[: length.value].rstrip(b"\0").decode()


def to_ptx(source, flags):
    """(PTX or None, what NVRTC said), from a process of its own.

    The compiler orders some of its work by addresses, so that a large kernel comes out with other register names
    whenever its memory lies elsewhere. A fresh process at fixed addresses gives the same bytes each time on one
    machine.
    """
    command = [sys.executable, __file__, "--one", source, *flags]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"})
    if done.returncode != 0:
        return None, f"the compiler's process ended with {done.returncode}: {done.stderr.strip()}"
    answer = json.loads(done.stdout)
    return answer["ptx"], answer["log"]


def one(source, flags):
    """The process of its own."""
    fixed_addresses = 0x0040000
    if sys.platform == "linux" and not os.environ.get("FULLBORE_FIXED"):
        if ctypes.CDLL(None).personality(fixed_addresses) != -1:
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "FULLBORE_FIXED": "1"})
    nvrtc = load(wheels())
    program = ctypes.c_void_p()
    code = pathlib.Path(source).read_bytes().replace(b"\r", b"")
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), code, source.encode(), 0, None, None) != 0:
        raise SystemExit("nvrtcCreateProgram failed")
    options = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), options) != 0
    log = text(nvrtc, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").strip()
    ptx = None if failed else text(nvrtc, program, "nvrtcGetPTXSize", "nvrtcGetPTX")
    json.dump({"ptx": ptx, "log": log}, sys.stdout)


def plain(ptx):
    """Without comments and empty lines: they name builds, and nobody reads them on a card."""
    lines = [line.rstrip() for line in ptx.splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("//")) + "\n"


def compile_one(ptxas, includes, folder, job, architecture):
    """(what NVRTC said, error or None, what ptxas said)"""
    flags = [*job["flags"], f"--gpu-architecture=compute_{architecture}", *[f"--include-path={i}" for i in includes]]
    ptx, log = to_ptx(job["source"], flags)
    if ptx is None:
        return log, f"NVRTC refuses {job['source']} for compute_{architecture}", ""
    ptx = plain(ptx)
    stem = folder / f"{job['name']}.sm_{architecture}"
    # The same file name for all: it would be the only thing about this machine that could get into a cubin.
    work = pathlib.Path(f"{stem}.work")
    work.mkdir()
    (work / "kernel.ptx").write_text(ptx, newline="\n")
    if architecture == job["targets"][0]:
        (folder / f"{job['name']}.ptx").write_text(ptx, newline="\n")
    command = [str(ptxas), "-v", f"-arch=sm_{architecture}", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        return log, f"ptxas refuses {job['source']} for sm_{architecture}:\n{said}", ""
    os.replace(work / "kernel.cubin", f"{stem}.cubin")
    return log, None, said


def wheels():
    """The folder of NVIDIA's packages in this environment."""
    import nvidia

    return pathlib.Path(list(nvidia.__path__)[0])


def main():
    if sys.argv[1] == "--one":
        return one(sys.argv[2], sys.argv[3:])
    folder = pathlib.Path(sys.argv[1])
    packages = wheels()
    ptxas = find(packages, ["cuda_nvcc/bin/ptxas", "cuda_nvcc/bin/ptxas.exe"])
    includes = [packages / "cuda_runtime/include", packages / "cuda_nvcc/include"]
    jobs = json.load(sys.stdin)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = [
            {a: pool.submit(compile_one, ptxas, includes, folder, job, a) for a in job["targets"]} for job in jobs
        ]
        answers = []
        for each in work:
            done = {a: future.result() for a, future in each.items()}
            answers.append(
                {
                    "log": next(log for log, _, _ in done.values()),
                    "error": next((f"{error}\n{log}".strip() for log, error, _ in done.values() if error), None),
                    "ptxas": {f"sm_{a}": said for a, (_, _, said) in done.items()},
                }
            )
    json.dump(answers, sys.stdout)


main()
