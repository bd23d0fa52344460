//! Nets on the GPU: whole training steps and forward passes beside PyTorch's best.
//!
//! Runs where there may be neither cargo nor the folder this was built in: with `--ours` nothing is built, and the root
//! is `--root` or the current folder.

use super::machine;
use super::nets::{BenchFlags, Case, Sides, table};
use crate::Result;
use crate::process::{build, command, output};
use std::path::{Path, PathBuf};

const TRAIN: Case =
    Case { net: "128-2048-1024-512-3", batch: 4096, members: 1, precision: "bf16", mode: "train", floor: None };

/// The floors first: wide nets, recurrent ones, members; then precisions, small nets and inference.
const CASES: [Case; 17] = [
    Case { floor: Some(1.8), ..TRAIN },
    Case { net: "256-2048-1024-512-3", batch: 65536, floor: Some(1.3), ..TRAIN },
    Case { net: "16x50-lstm64-3", batch: 3072, floor: Some(8.0), ..TRAIN },
    Case { net: "32x60-lstm64-3", floor: Some(10.0), ..TRAIN },
    Case { net: "16x50-lstm64-3", batch: 512, members: 32, floor: Some(12.0), ..TRAIN },
    Case { net: "16x50-lstm32-3", batch: 512, members: 24, floor: Some(15.0), ..TRAIN },
    Case { net: "64-128-128-3", batch: 256, members: 64, floor: Some(5.0), ..TRAIN },
    Case { net: "16x50-lstm128-3", batch: 3072, ..TRAIN },
    Case { precision: "tf32", ..TRAIN },
    Case { precision: "f32", ..TRAIN },
    Case { net: "64-128-128-3", batch: 64, precision: "f32", ..TRAIN },
    Case { net: "64-128-128-3", precision: "f32", ..TRAIN },
    Case { net: "64-128-128-3", batch: 256, ..TRAIN },
    Case { net: "128-256-256-128-3", batch: 512, mode: "infer", ..TRAIN },
    Case { net: "128-256-256-128-3", mode: "infer", ..TRAIN },
    Case { net: "128-256-256-128-3", batch: 65536, mode: "infer", ..TRAIN },
    Case { mode: "infer", ..TRAIN },
];

pub(super) fn run(flags: &BenchFlags) -> Result<String> {
    let device = card()?;
    let python = flags.python.clone().unwrap_or_else(|| "python3".into());
    let seen =
        "import torch, sys; sys.exit('no CUDA device') if not torch.cuda.is_available() else print(torch.__version__)";
    let version = output(command(&python).args(["-c", seen])).map_err(|why| {
        format!("{} has no PyTorch that sees the GPU; name one with --python PATH. ({why})", python.display())
    })?;
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let sides = Sides { ours: &ours, python: &python, device: "cuda", threads: None };
    Ok(format!(
        "## Nets on the GPU\n\n{}\nPyTorch {}{}.\n\n{device}. {}\n",
        table(flags, &sides, &CASES)?,
        version.trim(),
        flags.without_compile(),
        machine(&python)
    ))
}

/// The card with its driver, or that there is none.
pub(super) fn card() -> Result<String> {
    let query = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"];
    match output(command("nvidia-smi").args(query)) {
        Ok(said) if !said.trim().is_empty() => Ok(said.lines().next().unwrap_or_default().trim().to_string()),
        // A container may have the driver and not the program.
        _ if Path::new("/proc/driver/nvidia/version").exists() || PathBuf::from("/dev/nvidia0").exists() => {
            Ok("An NVIDIA card (there is no nvidia-smi to name it)".into())
        }
        _ => Err("there is no NVIDIA GPU on this machine, or its driver is not installed; nothing was measured. \
                  `cargo xtask bench cpu-net` runs without one."
            .into()),
    }
}
