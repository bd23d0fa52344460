//! Hostile bytes as parquet.
//!
//! libFuzzer ends the process at every panic, caught or not. Ours are caught (arrow's readers panic on damage, and are
//! guarded), so the hook is replaced by one that lets them pass; a panic that nobody catches still ends it.

#![no_main]

static QUIET: std::sync::Once = std::sync::Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    files::fuzz::parquet(bytes);
});
