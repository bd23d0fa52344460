//! Hostile bytes as csv.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::fuzz::csv(bytes));
