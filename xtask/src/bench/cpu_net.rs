//! Nets on the CPU: whole training steps and forward passes beside PyTorch's best.

use super::nets::{BenchFlags, Case, Sides, table};
use super::{machine, threads};
use crate::process::{build, command, output};
use crate::{Result, cache, root};

const TRAIN: Case = Case { net: "64-128-128-3", batch: 256, members: 1, precision: "f32", mode: "train", floor: None };
const LSTM: Case = Case { net: "16x50-lstm64-3", batch: 64, floor: Some(3.0), ..TRAIN };

const CASES: [Case; 12] = [
    Case { batch: 64, ..TRAIN },
    Case { floor: Some(2.5), ..TRAIN },
    Case { members: 8, floor: Some(3.0), ..TRAIN },
    Case { batch: 4096, ..TRAIN },
    Case { net: "128-512-256-3", batch: 1024, ..TRAIN },
    Case { net: "128-2048-1024-512-3", ..TRAIN },
    Case { batch: 64, mode: "infer", ..TRAIN },
    Case { net: "128-512-256-3", batch: 1024, mode: "infer", ..TRAIN },
    LSTM,
    Case { batch: 1024, ..LSTM },
    Case { net: "16x50-lstm64-lstm64-3", batch: 256, floor: None, ..LSTM },
    Case { batch: 1024, mode: "infer", floor: None, ..LSTM },
];

pub(super) fn run(flags: &BenchFlags) -> Result<String> {
    let python = match &flags.python {
        Some(path) => path.clone(),
        None => cache::python_of("torch", &root().join("bench/peers/torch.lock"))?,
    };
    let version = output(command(&python).args(["-c", "import torch; print(torch.__version__)"]))?;
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let n = threads();
    let sides = Sides { ours: &ours, python: &python, device: "cpu", threads: Some(n) };
    Ok(format!(
        "## Nets on the CPU\n\n{}\nPyTorch {}{}; {n} threads.\n\n{}\n",
        table(flags, &sides, &CASES)?,
        version.trim(),
        flags.without_compile(),
        machine(&python)
    ))
}
