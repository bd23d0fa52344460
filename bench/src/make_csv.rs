//! A CSV of 1-minute bars that is the same on every machine: `timestamp,open,high,low,close,volume`, stamps like
//! `1996-01-01 00:00:00`.
//!
//! Prices walk like a liquid coin's in cents (a pull towards the middle keeps the number of digits), volumes have five
//! decimals and cluster. Only additions and products of doubles are used, so the bytes do not depend on a mathematics
//! library. It starts in 1996 because a gigabyte is 28 years of minutes, and a bar from the future would not pass the
//! audit.

use random::SplitMix;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const MIDDLE: f64 = 30_000.0;

/// Writes whole lines until either limit would be passed.
pub(crate) fn make(path: &Path, bytes: u64, rows: u64) -> Result<Value, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(fail)?);
    let head = b"timestamp,open,high,low,close,volume\n";
    out.write_all(head).map_err(fail)?;
    let (mut random, mut clock) = (SplitMix::new(0x5EED), Clock::new(1996));
    let (mut close, mut heat) = (MIDDLE, 1.0_f64);
    let (mut written, mut made) = (head.len() as u64, 0);
    let mut line = Vec::with_capacity(128);
    while made < rows {
        // Volatility clusters: heat decays towards one and jumps now and then.
        heat += 0.002 * (1.0 - heat) + if random.unit() < 0.0005 { 2.0 * random.unit() } else { 0.0 };
        let open = close + 0.02 * normal(&mut random);
        close = open * (1.0 + 0.0004 * heat * normal(&mut random)) + (MIDDLE - open) * 0.000_02;
        let spread = open * 0.0002 * heat;
        let high = open.max(close) + spread * random.unit();
        let low = open.min(close) - spread * random.unit();
        let volume = heat * (0.5 + 20.0 * random.unit() * random.unit());

        line.clear();
        clock.write(&mut line);
        for price in [open, high, low, close] {
            line.push(b',');
            fixed(&mut line, (price * 100.0).round() as u64, 2);
        }
        line.push(b',');
        fixed(&mut line, (volume * 100_000.0).round() as u64, 5);
        line.push(b'\n');
        if written + line.len() as u64 > bytes {
            break;
        }
        out.write_all(&line).map_err(fail)?;
        written += line.len() as u64;
        made += 1;
        clock.tick();
    }
    out.flush().map_err(fail)?;
    Ok(json!({"rows": made, "bytes": written}))
}

/// `value / 10^decimals` in decimal digits.
fn fixed(line: &mut Vec<u8>, value: u64, decimals: u32) {
    let unit = 10_u64.pow(decimals);
    digits(line, value / unit, 1);
    line.push(b'.');
    digits(line, value % unit, decimals as usize);
}

fn digits(line: &mut Vec<u8>, mut value: u64, least: usize) {
    let mut back = [b'0'; 20];
    let mut n = 0;
    while value > 0 {
        back[n] = b'0' + (value % 10) as u8;
        value /= 10;
        n += 1;
    }
    line.extend(back[..n.max(least)].iter().rev());
}

/// A wall clock of minutes.
struct Clock {
    year: u64,
    month: usize, // 0 to 11
    day: u64,     // from 1
    minute: u64,  // of the day
}

impl Clock {
    fn new(year: u64) -> Clock {
        Clock { year, month: 0, day: 1, minute: 0 }
    }

    fn tick(&mut self) {
        self.minute += 1;
        if self.minute < 24 * 60 {
            return;
        }
        self.minute = 0;
        self.day += 1;
        let leap = self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let length = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][self.month];
        if self.day > length {
            self.day = 1;
            self.month += 1;
        }
        if self.month == 12 {
            self.month = 0;
            self.year += 1;
        }
    }

    fn write(&self, line: &mut Vec<u8>) {
        digits(line, self.year, 4);
        for (mark, value) in
            [(b'-', self.month as u64 + 1), (b'-', self.day), (b' ', self.minute / 60), (b':', self.minute % 60)]
        {
            line.push(mark);
            digits(line, value, 2);
        }
        line.extend_from_slice(b":00");
    }
}

/// Nearly normal: four uniforms, scaled to variance one.
fn normal(random: &mut SplitMix) -> f64 {
    let sum: f64 = (0..4).map(|_| random.unit()).sum();
    (sum - 2.0) * 1.732_050_807_568_877_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_handles_leap_years() {
        let mut clock = Clock::new(1996);
        for _ in 0..(31 + 29) * 24 * 60 {
            clock.tick();
        }
        let mut line = Vec::new();
        clock.write(&mut line);
        assert_eq!(line, b"1996-03-01 00:00:00");
    }

    #[test]
    fn decimals() {
        for (value, decimals, expected) in
            [(5, 2, "0.05"), (123_456, 2, "1234.56"), (100_000, 5, "1.00000"), (0, 2, "0.00")]
        {
            let mut line = Vec::new();
            fixed(&mut line, value, decimals);
            assert_eq!(String::from_utf8_lossy(&line), expected);
        }
    }
}
