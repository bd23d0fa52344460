//! Checked-in kernels are those of their sources, and take no more than they may; without compiler, network or card.
//!
//! For every room: each `.cu` is in `kernels/manifest.toml`, its hash is that of today's files, what it became is there
//! (compressed, and byte for byte behind that), and no function spills or breaks its budget. `cargo xtask kernels
//! --check` compiles again and compares; this catches the rest at once.

use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Value;

const AGAIN: &str = "run `cargo xtask kernels` and check in what it writes";

#[test]
fn kernels_are_fresh() {
    let root = root();
    for (room, manifest) in manifests(&root) {
        let compiler = manifest["compiler"].as_str().unwrap();
        let kernels = manifest["kernel"].as_array().unwrap();
        let found = sources(&room);
        for path in &found {
            let listed = |k: &&Value| root.join(words(&k["sources"])[0]) == *path;
            assert_eq!(kernels.iter().filter(listed).count(), 1, "{} is not compiled; {AGAIN}", path.display());
        }
        assert_eq!(kernels.len(), found.len(), "{} has kernels whose .cu is gone; {AGAIN}", room.display());
        for kernel in kernels {
            let fresh = hash(&root, kernel, compiler);
            let name = words(&kernel["sources"])[0];
            assert_eq!(kernel["hash"].as_str(), Some(fresh.as_str()), "{name} or an include changed; {AGAIN}");
            check_outputs(&room.join("kernels"), kernel);
        }
    }
}

#[test]
fn kernels_do_not_spill_and_keep_their_budget() {
    for kernel in manifests(&root()).iter().flat_map(|(_, m)| m["kernel"].as_array().unwrap()) {
        let budget = kernel["registers"].as_integer().unwrap();
        // A file may allow some, and says why.
        let spills = kernel.get("spills").map_or(0, |n| n.as_integer().unwrap());
        let takes = kernel["takes"].as_table().unwrap();
        assert_eq!(takes.keys().collect::<Vec<_>>(), words(&kernel["targets"]));
        for (architecture, functions) in takes {
            for (function, t) in functions.as_table().unwrap() {
                let number = |key: &str| t[key].as_integer().unwrap();
                let spilled = number("spill_stores").max(number("spill_loads"));
                assert!(spilled <= spills, "{function} on {architecture} spills {spilled} bytes, {spills} are allowed");
                assert!(number("registers") <= budget, "{function} on {architecture} is over its budget {budget}: {t}");
            }
        }
    }
}

/// Every room with kernels, and its manifest.
fn manifests(root: &Path) -> Vec<(PathBuf, toml::Table)> {
    let mut found = Vec::new();
    for room in entries(&root.join("crates")) {
        let file = room.join("kernels/manifest.toml");
        match std::fs::read_to_string(&file) {
            Ok(text) => found.push((room, text.parse().unwrap())),
            Err(e) => assert!(sources(&room).is_empty(), "{} is missing ({e}); {AGAIN}", file.display()),
        }
    }
    assert!(!found.is_empty(), "this room has kernels; {AGAIN}");
    found
}

/// The same as `source::hash` in xtask: files with their names, flags, compiler.
fn hash(root: &Path, kernel: &Value, compiler: &str) -> String {
    let mut all = String::new();
    for name in words(&kernel["sources"]) {
        let content = std::fs::read_to_string(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}; {AGAIN}"));
        all.extend([name, "\0", &content.replace('\r', ""), "\0"]);
    }
    for flag in words(&kernel["flags"]) {
        all.extend([flag, "\0"]);
    }
    all.push_str(compiler);
    digest(all.as_bytes())
}

/// PTX and a cubin for each target, as the manifest has them.
fn check_outputs(folder: &Path, kernel: &Value) {
    let outputs = kernel["outputs"].as_table().unwrap();
    let targets = words(&kernel["targets"]);
    let known: [&[&str]; 3] = [&["sm_80", "sm_86", "sm_89", "sm_90"], &["sm_90"], &["sm_90a"]];
    assert!(known.contains(&targets.as_slice()), "{targets:?}");
    assert_eq!(outputs.len(), 1 + targets.len());
    for (name, expected) in outputs {
        let file = std::fs::File::open(folder.join(format!("{name}.gz")));
        let file = file.unwrap_or_else(|e| panic!("{name}.gz: {e}; {AGAIN}"));
        let mut bytes = Vec::new();
        let read = flate2::read::GzDecoder::new(file).read_to_end(&mut bytes);
        read.unwrap_or_else(|e| panic!("{name}.gz: {e}; {AGAIN}"));
        assert_eq!(expected.as_str(), Some(digest(&bytes).as_str()), "{name} is not what was compiled; {AGAIN}");
    }
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> String {
    let hash = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// The `.cu` files of a room.
fn sources(room: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![room.join("src"), room.join("tests")]);
    while let Some(folder) = open.pop() {
        for path in entries(&folder) {
            match path.extension() {
                Some(e) if e == "cu" => found.push(path),
                _ if path.is_dir() => open.push(path),
                _ => {}
            }
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().map(|e| e.unwrap().path()).collect()
}
