//! Rules of the house that no lint holds: where the unchecked keyword may stand, where the operating system may be
//! named, how files begin and what they may not be called.

use crate::{Result, root};
use std::path::{Path, PathBuf};

/// Split, so that this file passes its own check.
const KEYWORD: &str = concat!("un", "safe");

/// Fails with file and line of everything that breaks a rule.
pub fn check() -> Result<String> {
    let root = root();
    let mut files = Vec::new();
    for folder in ["crates", "bench", "xtask", "fuzz"] {
        sources(&root.join(folder), &mut files);
    }
    files.sort();
    let mut bad = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}.", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        bad.extend(broken(&shown, &text));
    }
    match bad.as_slice() {
        [] => Ok(format!("{} source files keep the rules", files.len())),
        _ => Err(format!("rules of the house are broken:\n  {}", bad.join("\n  "))),
    }
}

fn broken(path: &str, text: &str) -> Vec<String> {
    let mut bad = Vec::new();
    let name = path.rsplit('/').next().unwrap_or(path);
    if !text.starts_with("//!") && !text.starts_with("#!") {
        bad.push(format!("{path}:1: a file opens with `//!` and what it is"));
    }
    if ["base.rs", "utils.rs", "common.rs", "helpers.rs"].contains(&name) {
        bad.push(format!("{path}: name the file after what it holds"));
    }
    let unchecked_here = path.starts_with("crates/compute/") || name.contains("simd");
    let os_here = name == "os.rs" || !path.starts_with("crates/") || path.contains("/tests/");
    for (at, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if !unchecked_here && uses_keyword(code) {
            bad.push(format!("{path}:{}: `{KEYWORD}` belongs in crates/compute and in files named *simd*", at + 1));
        }
        let names_os = ["cfg(unix", "cfg(windows", "target_os", "cfg(not(unix", "cfg(not(windows", "std::os::"];
        if !os_here && names_os.iter().any(|os| code.contains(os)) {
            bad.push(format!("{path}:{}: code for one operating system belongs in os.rs of its room", at + 1));
        }
    }
    bad
}

/// The keyword before a block, a function, an implementation, a trait, an extern block or an attribute's bracket.
fn uses_keyword(code: &str) -> bool {
    code.match_indices(KEYWORD).any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].trim_start();
        let whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '`' || c == '"');
        whole && ["{", "(", "fn ", "impl", "trait ", "extern "].iter().any(|next| after.starts_with(next))
    })
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYWORD, broken};

    #[test]
    fn the_keyword_is_found_where_it_acts() {
        let bad = |path: &str, line: String| !broken(path, &format!("//! A file.\n{line}\n")).is_empty();
        assert!(bad("crates/bars/src/a.rs", format!("let x = {KEYWORD} {{ 1 }};")));
        assert!(bad("crates/bars/src/a.rs", format!("pub {KEYWORD} fn f() {{}}")));
        assert!(!bad("crates/bars/src/simd.rs", format!("pub {KEYWORD} fn f() {{}}")));
        assert!(!bad("crates/compute/src/a.rs", format!("{KEYWORD} impl Send for A {{}}")));
        assert!(!bad("crates/bars/src/a.rs", format!("// {KEYWORD} {{ }} is absent")));
        assert!(!bad("crates/bars/src/a.rs", format!("#![warn({KEYWORD}_code)]")));
    }

    #[test]
    fn systems_are_named_in_one_file() {
        let line = "//! A file.\n#[cfg(windows)]\n";
        assert!(!broken("crates/files/src/a.rs", line).is_empty());
        assert!(broken("crates/files/src/os.rs", line).is_empty());
        assert!(!broken("crates/files/src/base.rs", "//! A file.\n").is_empty());
        assert!(!broken("crates/files/src/a.rs", "fn f() {}\n").is_empty());
    }
}
