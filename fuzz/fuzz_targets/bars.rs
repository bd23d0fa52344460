//! Hostile bytes as a file of bars, whatever their container: recognised, put in order, audited.
//!
//! The panic hook is replaced as in the feather and Parquet targets: what the guards catch may pass.

#![no_main]

static QUIET: std::sync::Once = std::sync::Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let _ = bars::read_bytes("BTC_USDT-5m.csv", bytes, &bars::Options::default());
});
