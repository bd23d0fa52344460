//! Hostile bytes as parquet.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::fuzz::parquet(bytes));
