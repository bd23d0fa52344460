//! Hostile bytes as a file of bars, whatever their container: recognised, put in order, audited.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = bars::read_bytes("BTC_USDT-5m.csv", bytes, &bars::Options::default());
});
