//! Licences of everything we build with, from `cargo metadata`.
//!
//! A crate passes when its licence expression can be satisfied by licences of the list below. GPL, LGPL and AGPL are
//! not on it, nor is anything unknown: a new licence is read by a person before it is added.

use crate::Result;
use crate::process::metadata;

/// Permissive, or weak copyleft per file (MPL), and read by a person.
const KNOWN: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Fails with the name of every crate whose licence does not do.
pub fn check() -> Result<String> {
    let metadata = metadata(&[])?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages.")?;
    let mut bad = Vec::new();
    let mut seen = 0;
    for package in packages.iter().filter(|p| !p["source"].is_null()) {
        seen += 1;
        let name =
            format!("{} {}", package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"));
        match package["license"].as_str() {
            None => bad.push(format!("{name}: names no licence")),
            Some(text) => match satisfiable(text) {
                Ok(true) => {}
                Ok(false) => bad.push(format!("{name}: `{text}` is not on the list in xtask/src/licences.rs")),
                Err(why) => bad.push(format!("{name}: `{text}` cannot be read: {why}")),
            },
        }
    }
    match bad.as_slice() {
        [] => Ok(format!("{seen} third-party crates, all under known licences, none GPL, LGPL or AGPL")),
        _ => Err(format!(
            "licences that do not do (take another crate, or read the licence and add it):\n  {}",
            bad.join("\n  ")
        )),
    }
}

/// Whether an SPDX expression (`/` is an old way to write OR) can be met by what is known.
fn satisfiable(text: &str) -> std::result::Result<bool, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = either(&mut words)?;
    match words.next() {
        None => Ok(met),
        Some(word) => Err(format!("`{word}` stands where the expression should end")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>) -> std::result::Result<bool, String> {
    let mut met = both(words)?;
    while words.next_if(|w| w.eq_ignore_ascii_case("or")).is_some() {
        met |= both(words)?;
    }
    Ok(met)
}

fn both(words: &mut Words<'_>) -> std::result::Result<bool, String> {
    let mut met = one(words)?;
    while words.next_if(|w| w.eq_ignore_ascii_case("and")).is_some() {
        met &= one(words)?;
    }
    Ok(met)
}

fn one(words: &mut Words<'_>) -> std::result::Result<bool, String> {
    let word = words.next().ok_or("it ends too early")?;
    if word == "(" {
        let met = either(words)?;
        return if words.next() == Some(")") { Ok(met) } else { Err("a bracket is not closed".into()) };
    }
    if word == ")" || ["and", "or", "with"].iter().any(|w| word.eq_ignore_ascii_case(w)) {
        return Err(format!("`{word}` stands where a licence should"));
    }
    // An exception only grants more.
    if words.next_if(|w| w.eq_ignore_ascii_case("with")).is_some() {
        words.next().ok_or("WITH names no exception")?;
    }
    Ok(KNOWN.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::satisfiable;

    #[test]
    fn expressions() {
        for (text, expected) in [
            ("MIT", Ok(true)),
            ("MIT/Apache-2.0", Ok(true)),
            ("MIT OR Apache-2.0", Ok(true)),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", Ok(true)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Ok(true)),
            ("GPL-3.0-only OR MIT", Ok(true)),
            ("LGPL-2.1-or-later", Ok(false)),
            ("MIT AND GPL-2.0", Ok(false)),
            ("GPL-2.0 WITH Classpath-exception-2.0", Ok(false)),
            ("MIT OR Apache-2.0 AND LGPL-3.0", Ok(true)),
            ("(MIT OR Apache-2.0) AND LGPL-3.0", Ok(false)),
            ("AGPL-3.0", Ok(false)),
            ("Something-1.0", Ok(false)),
        ] {
            assert_eq!(satisfiable(text), expected, "{text}");
        }
        for text in ["", "MIT OR", "(MIT", "MIT MIT", "OR MIT", "MIT)", "MIT WITH"] {
            assert!(satisfiable(text).is_err(), "{text}");
        }
    }
}
