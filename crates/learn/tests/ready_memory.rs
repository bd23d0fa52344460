//! Ready arrays are read without a second copy, in both orders. Alone in its process: the peak is the process's.
#![cfg(target_os = "linux")]

#[path = "ready/make.rs"]
#[expect(dead_code, reason = "one of its makers is needed here")]
mod make;

use learn::ready::{Only, ReadSpec, read};
use std::io::Write;

/// A figure of this process in bytes.
fn status(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Says why a test did not run; `cargo xtask test` counts it.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skip(why: &str) {
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    let file = log.and_then(|path| std::fs::OpenOptions::new().append(true).create(true).open(path).ok());
    match file {
        Some(mut file) => file.write_all(format!("ready_memory: {why}\n").as_bytes()).unwrap(),
        None => eprintln!("SKIP: {why}"),
    }
}

#[test]
fn loading_ready_arrays_makes_no_second_copy() {
    let (n, t, f) = (40_000, 32, 12);
    let table = n * t * f * 4; // 61 MB; twice that in the file
    let folder = tempfile::tempdir().unwrap();
    for fortran in [false, true] {
        let path = folder.path().join(format!("{fortran}.npz"));
        let body: Vec<u8> = (0..n * t * f).flat_map(|k| ((k % 1000) as f64).to_le_bytes()).collect();
        let labels: Vec<i64> = (0..n as i64).map(|k| k % 3 - 1).collect();
        let arrays = [("x_fast", make::npy("<f8", fortran, &[n, t, f], &body)), ("y", make::i64s(&labels))];
        drop(body);
        std::fs::File::create(&path).unwrap().write_all(&make::npz(&arrays)).unwrap();
        drop(arrays);
        drop(labels);
        // The peak begins anew.
        if let Err(e) = std::fs::write("/proc/self/clear_refs", "5") {
            return skip(&format!("the peak of memory cannot be reset here: {e}"));
        }
        let before = status("VmRSS");
        let spec = ReadSpec { label_horizon: Some(3), memory: 1 << 30, only: Only::ALL };
        let ready = read(&path, &spec, &mut |_, _| Ok(())).unwrap();
        let taken = status("VmHWM").saturating_sub(before);
        assert_eq!(ready.problem.samples.len(), n - 3);
        assert!(taken < table + table / 2, "{} MB were taken for a table of {} MB", taken >> 20, table >> 20);
    }
}
