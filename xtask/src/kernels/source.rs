//! The `.cu` files: where they are, what they include, what they ask for, and one hash over all of it.
//!
//! A `.cu` file may say, each in a comment line of its own, `// flags: --fmad=false` (added for NVRTC), `// registers:
//! 128` (the most a thread of any of its kernels may take) and `// targets: 90a` (the only architectures it is for,
//! instead of all). Quoted includes are found beside the file that names them; those in angle brackets are the
//! compiler's, and its version is part of the hash.

use crate::{Result, root};
use std::path::{Path, PathBuf};

/// What every kernel is compiled with.
const FLAGS: [&str; 2] = ["--std=c++17", "-default-device"];
/// The architectures people have; a file may ask for others.
const TARGETS: [&str; 4] = ["80", "86", "89", "90"];
/// What a thread can have at all.
const REGISTERS: u64 = 255;

/// One `.cu` file with everything that shapes what becomes of it.
#[derive(Debug, PartialEq)]
pub struct Source {
    /// The folder of its room: `crates/compute`.
    pub room: String,
    /// Its file name without ending.
    pub name: String,
    /// Itself, then what it includes, sorted; from the root, with `/`.
    pub files: Vec<String>,
    pub flags: Vec<String>,
    /// Architectures, oldest first; the PTX is for the first.
    pub targets: Vec<String>,
    /// The most a thread may take.
    pub registers: u64,
    /// The most bytes of spills a function may have, stores and loads each; none unless the file says why.
    pub spills: u64,
    pub hash: String,
}

/// Every `.cu` under `crates/*/src` and `crates/*/tests`, by room and name.
pub fn find(compiler: &str) -> Result<Vec<Source>> {
    let root = root().canonicalize().map_err(|e| format!("the working tree: {e}."))?;
    let mut paths = Vec::new();
    for room in entries(&root.join("crates"))? {
        walk(&room.join("src"), &["cu"], &mut paths)?;
        walk(&room.join("tests"), &["cu"], &mut paths)?;
    }
    let mut sources = paths.iter().map(|path| read(&root, path, compiler)).collect::<Result<Vec<_>>>()?;
    sources.sort_by(|a, b| (&a.room, &a.name).cmp(&(&b.room, &b.name)));
    match sources.windows(2).find(|w| (&w[0].room, &w[0].name) == (&w[1].room, &w[1].name)) {
        Some(two) => Err(format!(
            "{} and {} would both become {}.ptx; rename one.",
            two[0].files[0], two[1].files[0], two[0].name
        )),
        None => Ok(sources),
    }
}

fn read(root: &Path, path: &Path, compiler: &str) -> Result<Source> {
    let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let mut seen = vec![path.to_path_buf()];
    let mut at = 0;
    while at < seen.len() {
        let text = text(&seen[at])?;
        for name in text.lines().filter_map(included) {
            let found = seen[at].parent().unwrap_or(root).join(name).canonicalize();
            let found = found.map_err(|_| format!("{} includes \"{name}\", which is not there.", shown(&seen[at])))?;
            if !found.starts_with(root) {
                return Err(format!("{} includes \"{name}\" from outside the working tree.", shown(&seen[at])));
            }
            if !seen.contains(&found) {
                seen.push(found);
            }
        }
        at += 1;
    }
    seen[1..].sort();
    let own = text(path)?;
    // Wrapped into prose, a flag would be lost without a word.
    if let Some(line) = own.lines().find(|l| l.starts_with("//") && l.find("flags: --").is_some_and(|at| at > 3)) {
        return Err(format!("{}: `{line}`: flags are on a comment line of their own.", shown(path)));
    }
    let asked = |key: &'static str| own.lines().filter_map(move |l| l.strip_prefix("//")?.trim().strip_prefix(key));
    let flags = FLAGS.into_iter().chain(asked("flags:").flat_map(str::split_whitespace)).map(String::from).collect();
    let mut targets: Vec<String> = asked("targets:").flat_map(str::split_whitespace).map(String::from).collect();
    if targets.is_empty() {
        targets = TARGETS.map(String::from).to_vec();
    }
    let number = |key: &'static str, none: u64| match asked(key).next() {
        None => Ok(none),
        Some(n) => n.trim().parse().map_err(|_| format!("{}: `{key}{n}` is not a number.", shown(path))),
    };
    let (registers, spills) = (number("registers:", REGISTERS)?, number("spills:", 0)?);
    let files: Vec<String> = seen.iter().map(|p| shown(p)).collect();
    let contents = seen.iter().map(|p| text(p)).collect::<Result<Vec<_>>>()?;
    let hash = hash(files.iter().zip(&contents), &flags, compiler);
    let parts: Vec<&str> = files[0].split('/').collect();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source { room: parts[..2.min(parts.len())].join("/"), name, files, flags, targets, registers, spills, hash })
}

/// One hash over files with their names, flags and compiler. `crates/compute/tests/kernels.rs` computes the same from
/// the manifest.
fn hash<'a>(
    files: impl Iterator<Item = (&'a String, &'a String)>,
    flags: &'a Vec<String>,
    compiler: &'a str,
) -> String {
    let mut all = String::new();
    for (name, content) in files {
        all.extend([name, "\0", content, "\0"]);
    }
    for flag in flags {
        all.extend([flag, "\0"]);
    }
    all.push_str(compiler);
    digest(all.as_bytes())
}

/// FNV-1a in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", crate::cache::fnv(bytes))
}

/// The file a line includes by a quoted name.
pub fn included(line: &str) -> Option<&str> {
    line.trim()
        .strip_prefix('#')?
        .trim_start()
        .strip_prefix("include")?
        .trim_start()
        .strip_prefix('"')?
        .split('"')
        .next()
}

/// Line ends are those of the repository, whatever git made of them.
fn text(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}.", path.display()))?;
    Ok(text.replace('\r', ""))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}.", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Files with one of these endings in a folder and below it, in order.
pub fn walk(folder: &Path, endings: &[&str], into: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for path in entries(folder)? {
        if path.is_dir() {
            walk(&path, endings, into)?;
        } else if path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending)) {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_read() {
        assert_eq!(included("#include \"../a/b.cuh\""), Some("../a/b.cuh"));
        assert_eq!(included("  #  include \"b.cuh\" // why"), Some("b.cuh"));
        assert_eq!(included("#include <cuda_bf16.h>"), None);
        assert_eq!(included("// #include \"b.cuh\""), None);
    }

    #[test]
    fn everything_that_matters_changes_the_hash() {
        let files = [("a.cu".to_string(), "x".to_string()), ("b.cuh".to_string(), "y".to_string())];
        let of = |files: &[(String, String)], flags: &[&str], compiler: &str| {
            let flags = flags.iter().map(|f| f.to_string()).collect();
            hash(files.iter().map(|(a, b)| (a, b)), &flags, compiler)
        };
        let first = of(&files, &["-f"], "c");
        assert_eq!(first, of(&files, &["-f"], "c"));
        let moved = [("a.cu".to_string(), "xb.cuh".to_string()), (String::new(), "y".to_string())];
        let others =
            [of(&files[..1], &["-f"], "c"), of(&files, &[], "c"), of(&files, &["-f"], "d"), of(&moved, &["-f"], "c")];
        assert!(!others.contains(&first));
    }

    #[test]
    fn source_lists_its_includes_and_directives() {
        let folder = std::env::temp_dir().join(format!("fullbore-kernels-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        std::fs::create_dir_all(&folder).unwrap();
        let root = folder.canonicalize().unwrap();
        write("crates/r/src/z.cuh", "#include \"../src/a.cuh\"\n");
        write("crates/r/src/a.cuh", "#include \"z.cuh\"\n");
        write("crates/r/src/k/k.cu", "// flags: --fmad=false -g\r\n// registers: 64\n#include \"../z.cuh\"\n");
        let path = root.join("crates/r/src/k/k.cu");
        let source = read(&root, &path, "c").unwrap();
        assert_eq!(source.files, ["crates/r/src/k/k.cu", "crates/r/src/a.cuh", "crates/r/src/z.cuh"]);
        assert_eq!((source.room.as_str(), source.name.as_str(), source.registers), ("crates/r", "k", 64));
        assert_eq!(source.flags[2..], ["--fmad=false", "-g"]);
        assert_eq!(source.targets, TARGETS);
        let narrow = write("crates/r/src/k/n.cu", "// targets: 90a 100a\n").canonicalize().unwrap();
        assert_eq!(read(&root, &narrow, "c").unwrap().targets, ["90a", "100a"]);
        let lost = write("crates/r/src/k/l.cu", "// What it is. flags: --fmad=false\n").canonicalize().unwrap();
        assert!(read(&root, &lost, "c").unwrap_err().contains("line of their own"));
        write("crates/r/src/a.cuh", "#include \"z.cuh\"\nint x;\n");
        assert_ne!(read(&root, &path, "c").unwrap().hash, source.hash);
        write("crates/r/src/a.cuh", "#include \"gone.cuh\"\n");
        assert!(read(&root, &path, "c").unwrap_err().contains("gone.cuh"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
