//! How much memory a job may take: `8GiB`, `512MiB`, `80%` or `auto`.

use std::fmt;
use std::str::FromStr;

/// A memory budget as the user writes it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Memory {
    /// Half of what is available.
    #[default]
    Auto,
    /// That many bytes.
    Bytes(u64),
    /// That part of what is available, `0..=1`.
    Share(f64),
}

/// Taken for available where the system does not say.
const UNKNOWN: u64 = 4 << 30;

/// The least a reader can work with.
const LEAST: u64 = 64 << 20;

/// Bytes this process could still take: what is free, within the limits of its group. 4 GiB where the system does not
/// say.
pub fn available() -> u64 {
    machine::available_memory().unwrap_or(UNKNOWN)
}

impl Memory {
    /// The budget in bytes on this machine, now.
    pub fn bytes(self) -> u64 {
        match self {
            Memory::Auto => (available() / 2).max(LEAST),
            Memory::Bytes(bytes) => bytes,
            Memory::Share(share) => ((available() as f64 * share) as u64).max(LEAST),
        }
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let bad = || format!("`{text}` is not an amount of memory (write 8GiB, 512MiB, 80% or auto)");
        let clean = text.trim().to_ascii_lowercase();
        if clean == "auto" {
            return Ok(Memory::Auto);
        }
        let at = clean.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(clean.len());
        let number: f64 = clean[..at].parse().map_err(|_| bad())?;
        let unit = match clean[at..].trim() {
            "%" if number > 0.0 && number <= 100.0 => return Ok(Memory::Share(number / 100.0)),
            "" | "b" => 1u64,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        let bytes = number * unit as f64;
        if !(bytes.is_finite() && bytes < 9e18) {
            return Err(bad());
        }
        if (bytes as u64) < LEAST {
            return Err(format!("`{text}` is too little memory to work with (at least 64MiB)"));
        }
        Ok(Memory::Bytes(bytes as u64))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Memory::Auto => f.write_str("auto"),
            Memory::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Memory::Bytes(bytes) => {
                for (unit, name) in [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
                    if bytes.is_multiple_of(unit) {
                        return write!(f, "{}{name}", bytes / unit);
                    }
                }
                write!(f, "{bytes}B")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_are_parsed_and_printed_back() {
        for (text, shown) in [
            ("8GiB", "8GiB"),
            ("512MiB", "512MiB"),
            ("80%", "80%"),
            ("auto", "auto"),
            ("8g", "8GiB"),
            ("1.5GiB", "1536MiB"),
            ("2GB", "1953125KiB"),
            ("33.3%", "33.3%"),
            (" 1 tib ", "1TiB"),
            ("1073741824", "1GiB"),
            ("67108865", "67108865B"),
        ] {
            let memory: Memory = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(memory.to_string(), shown, "{text}");
            assert_eq!(memory.to_string().parse(), Ok(memory));
        }
        for text in
            ["", "x", "GiB", "0%", "101%", "1KiB", "-8GiB", "8XiB", "1e99GiB", "99999999999999999999GiB", "8 GiB each"]
        {
            assert!(text.parse::<Memory>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_lies_within_available_memory() {
        assert!(Memory::Auto.bytes() >= LEAST && Memory::Auto.bytes() <= available().max(LEAST));
    }
}
