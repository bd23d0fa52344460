//! A device is a value: which one, what may be taken of its memory, and the device once opened.

use crate::cuda::{Context, NoDriver, driver, gpus};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Where work is done. The place for `Wgpu { index }` is here; nothing stands in it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Device {
    /// This computer's processor, with so many threads.
    Cpu {
        /// At least 1.
        threads: usize,
    },
    /// An NVIDIA card, by the driver's numbering.
    Cuda {
        /// From 0.
        index: usize,
    },
}

/// What a user says: `auto`, `cpu`, `cuda`, `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The first card that works, else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// A card.
    Cuda(usize),
}

impl std::str::FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Choice> {
        let wrong = || Error::Invalid(format!("`{text}` is not a device; write auto, cpu, cuda or cuda:1"));
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Choice::Auto),
            "cpu" => Ok(Choice::Cpu),
            "cuda" => Ok(Choice::Cuda(0)),
            other => other.strip_prefix("cuda:").and_then(|n| n.parse().ok()).map(Choice::Cuda).ok_or_else(wrong),
        }
    }
}

/// A device that is ready.
#[derive(Clone)]
pub enum Opened {
    /// The processor.
    Cpu {
        /// At least 1.
        threads: usize,
    },
    /// A card.
    Cuda(Arc<Context>),
}

impl Opened {
    /// Opens what the user chose. `auto` takes the first card that works; the sentence says what was taken and why.
    pub fn new(choice: Choice, threads: usize) -> Result<(Opened, String)> {
        let threads = threads.max(1);
        let cpu = Opened::Cpu { threads };
        let processor = format!("the processor with {threads} thread{}", if threads == 1 { "" } else { "s" });
        match choice {
            Choice::Cpu => Ok((cpu, processor)),
            Choice::Cuda(index) => {
                let context = Context::open(index)?;
                let description = described(&context);
                Ok((Opened::Cuda(context), description))
            }
            Choice::Auto => {
                let found = gpus().and_then(|found| {
                    if found.is_empty() {
                        return Err(Error::Device {
                            what: "the CUDA driver lists no GPU".into(),
                            remedy: String::new(),
                        });
                    }
                    // The first that opens; what the last one said where none does.
                    let mut tried = Context::open(0);
                    for gpu in &found[1..] {
                        tried = tried.or_else(|_| Context::open(gpu.index));
                    }
                    tried
                });
                match found {
                    Ok(context) => {
                        let description = described(&context);
                        Ok((Opened::Cuda(context), description))
                    }
                    // The rule on most machines, and no news: `probe` says more.
                    Err(_) if matches!(driver(), Err(NoDriver::Absent(_))) => {
                        Ok((cpu, format!("{processor} (no NVIDIA driver)")))
                    }
                    Err(Error::Device { what, .. }) => Ok((cpu, format!("{processor}: {what}"))),
                    Err(why) => Ok((cpu, format!("{processor}: {why}"))),
                }
            }
        }
    }

    /// Which one it is.
    pub fn device(&self) -> Device {
        match self {
            Opened::Cpu { threads } => Device::Cpu { threads: *threads },
            Opened::Cuda(context) => Device::Cuda { index: context.gpu().index },
        }
    }

    /// `cpu` or `cuda:0`.
    pub fn name(&self) -> String {
        match self {
            Opened::Cpu { .. } => "cpu".into(),
            Opened::Cuda(context) => context.device().into(),
        }
    }

    /// Bytes that one more population or net may take beside its tables, which are there already. Populations
    /// (`shares`) have scratch memory in common, so that may be there too.
    pub(crate) fn room(&self, budget: Budget, tables: u64, shares: bool) -> Result<u64> {
        let there = match self {
            Opened::Cuda(context) if shares => context.shared_bytes(),
            _ => 0,
        };
        Ok(budget.bytes(self.free()? + tables + there).saturating_sub(tables))
    }

    /// Bytes of its memory that are free now.
    pub fn free(&self) -> Result<u64> {
        match self {
            Opened::Cpu { .. } => Ok(crate::os::available_memory()),
            Opened::Cuda(context) => context.memory().map(|m| m.0),
        }
    }
}

fn described(context: &Context) -> String {
    let products = match context.library() {
        Ok(found) => found,
        Err(why) => format!("our own kernels for products ({why})"),
    };
    format!("{} ({}) with {products}", context.device(), context.gpu().name)
}

/// How much of a device's memory may be taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// So much of what is free.
    Share(f64),
    /// So many bytes, and no more than is free.
    Bytes(u64),
}

impl Default for Budget {
    /// 80 % of what is free.
    fn default() -> Budget {
        Budget::Share(0.8)
    }
}

impl Budget {
    /// The bytes that may be taken where so many are free.
    pub fn bytes(self, free: u64) -> u64 {
        match self {
            Budget::Share(share) => (free as f64 * share.clamp(0.0, 1.0)) as u64,
            Budget::Bytes(bytes) => bytes.min(free),
        }
    }
}

impl std::str::FromStr for Budget {
    type Err = Error;

    /// `80%`, `8GiB`, `500MB`.
    fn from_str(text: &str) -> Result<Budget> {
        let wrong = || Error::Invalid(format!("`{text}` is not an amount of memory; write 80%, 8GiB or 500MB"));
        let text_ = text.trim();
        if let Some(percent) = text_.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            return if percent > 0.0 && percent <= 100.0 { Ok(Budget::Share(percent / 100.0)) } else { Err(wrong()) };
        }
        let digits = text_.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text_[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kib" | "k" => 1024.0,
            "mib" | "m" => 1048576.0,
            "gib" | "g" => 1073741824.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        if number > 0.0 && number.is_finite() { Ok(Budget::Bytes((number * unit) as u64)) } else { Err(wrong()) }
    }
}
