//! Hostile bytes as zip.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::fuzz::zip(bytes));
