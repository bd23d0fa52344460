//! Hostile bytes as npz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::fuzz::npz(bytes));
