//! Hostile bytes as feather.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::fuzz::feather(bytes));
