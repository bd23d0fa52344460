//! Our side of the nets beside PyTorch: one net, one batch, one precision, training or inference.

use compute::population::Precision;
use compute::{Budget, Choice, Opened};
use machine::{NetLoad, StepKind, measure_net};
use serde_json::{Value, json};

/// `--net N --batch B --precision P --mode train|infer --device cuda|cpu [--members N] [--threads N] [--tune]
/// [--seconds S] [--json]`
pub(crate) fn time(words: &[&str], threads: usize) -> Result<Value, String> {
    let mut load = NetLoad {
        net: "128-2048-1024-512-3".parse().map_err(text)?,
        batch: 4096,
        members: 1,
        precision: Precision::Bf16,
        step: StepKind::Train,
        tune: false,
        seconds: 2.0,
    };
    let (mut device, mut threads) = (Choice::Auto, threads);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or(format!("{word} wants a value"));
        match *word {
            "--net" => load.net = value()?.parse().map_err(text)?,
            "--batch" => load.batch = whole(value()?)?,
            "--members" => load.members = whole(value()?)?,
            "--threads" => threads = whole(value()?)?,
            "--device" => device = value()?.parse().map_err(text)?,
            "--seconds" => load.seconds = value()?.parse().map_err(|e| format!("{e}"))?,
            "--tune" => load.tune = true,
            "--json" => {}
            "--precision" => {
                load.precision = match value()? {
                    "f32" => Precision::F32,
                    "tf32" => Precision::Tf32,
                    "bf16" => Precision::Bf16,
                    other => return Err(format!("{other} is not a precision: f32, tf32 and bf16 are")),
                }
            }
            "--mode" => {
                load.step = match value()? {
                    "train" => StepKind::Train,
                    "infer" => StepKind::Infer,
                    other => return Err(format!("{other} is not a mode: train and infer are")),
                }
            }
            other => return Err(format!("{other} is not known here")),
        }
    }
    let (device, device_name) = Opened::new(device, threads).map_err(text)?;
    let seen = measure_net(&device, Budget::default(), &load).map_err(text)?;
    Ok(json!({
        "net": load.net.to_string(),
        "batch": load.batch,
        "members": load.members,
        "precision": load.precision,
        "mode": load.step,
        "device": device_name,
        "ms_per_step": seen.ms_per_step,
        "spread": seen.spread,
        "tflops": seen.tflops,
        "samples_per_s": seen.samples_per_s,
        "peak_bytes": seen.bytes,
        "first_use_s": seen.first_use_s,
        "steps": seen.steps,
        "ways": seen.ways,
    }))
}

fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|e| format!("{text}: {e}"))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
