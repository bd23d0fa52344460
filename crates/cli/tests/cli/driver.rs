//! Machines whose CUDA driver is missing, foreign, or does not work: everything starts, and says so plainly.
//!
//! The driver here is a real shared library under the driver's name, built by the compiler that built the tests, found
//! as the real one is found.

use super::{Place, code, text};
use std::process::Command;

/// Runs with a driver of our own in front of the machine's. Its functions answer with these codes; none leaves the
/// function out.
fn with(init: i32, count: Option<[i32; 3]>) -> (Place, std::path::PathBuf) {
    let place = Place::new();
    let folder = place.path().join("lib");
    std::fs::create_dir(&folder).expect("a folder");
    let count = count.map_or(String::new(), |[version, status, cards]| {
        format!(
            "#[no_mangle] pub extern \"C\" fn cuDriverGetVersion(v: &mut i32) -> i32 {{ *v = {version}; 0 }}\n\
             #[no_mangle] pub extern \"C\" fn cuDeviceGetCount(n: &mut i32) -> i32 {{ *n = {cards}; {status} }}\n"
        )
    });
    let source = format!("#[no_mangle] pub extern \"C\" fn cuInit(_: u32) -> i32 {{ {init} }}\n{count}");
    place.write("driver.rs", &source);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2021", "--crate-type", "cdylib", "--crate-name", "cuda", "-O", "-o"])
        .arg(folder.join("libcuda.so.1"))
        .arg(place.path().join("driver.rs"))
        .output()
        .expect("rustc starts");
    assert!(built.status.success(), "{}", text(&built.stderr));
    (place, folder)
}

#[test]
fn every_verb_starts_with_any_driver_state() {
    let works = Some([12_040, 0, 1]);
    let cases = [
        (803, works, "of different versions"),
        (34, works, "stand-in, not a driver"),
        (999, works, "cuInit gave error 999"),
        (100, works, "sees no GPU"),
        (0, Some([12_040, 0, 0]), "sees no GPU"),
        (0, Some([12_040, 2, 0]), "cuDeviceGetCount gave error 2"),
        (0, Some([12_020, 0, 1]), "speaks CUDA 12.2 and 12.4 is the oldest"),
        (0, None, "has no cuDriverGetVersion"),
        // It says that there is a card, and can do nothing else.
        (0, works, "has no cuCtxSetCurrent"),
    ];
    for (init, count, said) in cases {
        let (place, folder) = with(init, count);
        let run = |args: &[&str]| place.command(args).env("LD_LIBRARY_PATH", &folder).output().expect("it starts");
        let probed = run(&["probe", "--quick"]);
        let words = format!("{}{}", text(&probed.stdout), text(&probed.stderr));
        assert!(words.contains(said), "{init} {count:?}: {words}");
        assert!(!words.contains("panicked"), "{init} {count:?}: {words}");
        // A job that may choose takes the processor; one that was told to use a card is refused with the reason.
        let auto = run(&["bench", "net", "4-8-2", "--batch", "16", "--seconds", "0.02", "--device", "auto"]);
        let words = format!("{}{}", text(&auto.stdout), text(&auto.stderr));
        assert_eq!(code(&auto), 0, "{init} {count:?}: {words}");
        let asked = run(&["bench", "net", "4-8-2", "--batch", "16", "--seconds", "0.02", "--device", "cuda"]);
        let words = text(&asked.stderr);
        assert!(code(&asked) == 4 && !words.contains("panicked"), "{init} {count:?}: {} {words}", code(&asked));
    }
}
