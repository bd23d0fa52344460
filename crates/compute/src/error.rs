//! What can go wrong here: the device, the memory, a library, a number, or what was asked.

/// An error of this room: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no such device, or it cannot be used.
    #[error("{what}")]
    Device {
        /// What is wrong, with the driver's own words.
        what: String,
        /// What to do; a setting is named in angle brackets: `<device=cpu>`.
        remedy: String,
    },
    /// It would not fit; nothing was started.
    #[error("{what} needs {} of {device} memory and the budget is {}; {fits}", format_bytes(*.needed), format_bytes(*.budget))]
    Memory {
        /// Which work.
        what: String,
        /// `cpu` or `cuda:0`.
        device: String,
        /// Bytes it needs.
        needed: u64,
        /// Bytes it may have.
        budget: u64,
        /// What would fit.
        fits: String,
    },
    /// The system, the driver or a library had no memory for a call, though the budget allowed it.
    #[error("{device} has not enough free memory for {call}: {why}; {}", others(.device))]
    OutOfMemory {
        /// The function that was called, or what the memory is for.
        call: String,
        /// On which device.
        device: String,
        /// The library's own words.
        why: String,
    },
    /// The driver or a library refused a call.
    #[error("{call} failed on {device}: {why}")]
    Call {
        /// The function that was called.
        call: String,
        /// On which device.
        device: String,
        /// The library's own words.
        why: String,
    },
    /// A number became infinite or NaN.
    #[error(
        "member {member}, step {step}: {tensor} is not finite; a smaller learning rate, clipping or cleaner inputs help"
    )]
    NotFinite {
        /// The member's id.
        member: u32,
        /// The step at which it was seen.
        step: u32,
        /// The tensor's readable name.
        tensor: String,
    },
    /// Invalid input or setting; the message says what is valid.
    #[error("{0}")]
    Invalid(String),
}

/// Why memory that was free when it was planned with is not.
pub(crate) const OTHERS: &str = "another program has taken memory meanwhile; `nvidia-smi` shows which";

/// Why there is too little memory on a device where the budget allowed more, and what helps.
fn others(device: &str) -> &'static str {
    match device {
        "cpu" => "another program has taken memory meanwhile, or a limit (`ulimit -v`) is lower than the budget",
        _ => OTHERS,
    }
}

impl Error {
    /// Whether the device has too little memory for what was asked: by our own count, or by the driver's word.
    pub fn is_memory(&self) -> bool {
        matches!(self, Error::Memory { .. } | Error::OutOfMemory { .. })
    }
}

/// A result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// `1.5 GiB`, as `files::format_bytes` writes it: this room names no other, a test of `machine` holds the two equal.
pub(crate) fn format_bytes(n: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| n >= *size).map(|(size, unit)| (n as f64 / *size as f64, unit)) {
        Some((amount, unit)) if amount >= 99.95 => format!("{amount:.0} {unit}"),
        Some((amount, unit)) => format!("{amount:.1} {unit}"),
        None => format!("{n} byte{}", if n == 1 { "" } else { "s" }),
    }
}
