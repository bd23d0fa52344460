//! `MANIFEST`: one JSON object that says what belongs to a generation, and ends with a hash of all that stands before
//! it.
//!
//! Every version, past and future, writes `format`, and ends the file in `,\n "xxh3": "…"\n}\n`, where the hash is of
//! every byte before that. So a manifest of a newer program is told from a damaged one.

use std::path::Path;

use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::About;

/// The format this program writes, and the newest it reads.
pub const FORMAT: u64 = 1;
/// No generation has more parts.
pub const MAX_PARTS: usize = 1024;
/// The name of the file.
pub(super) const MANIFEST: &str = "MANIFEST";
/// No manifest is longer.
pub(super) const MAX_BYTES: usize = 4 << 20;
const MAX_NAME: usize = 64;
const TAIL: &str = ",\n  \"xxh3\": \"";

/// What belongs to a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u64,
    pub(super) program: String,
    /// Its number, so that a folder under another's name is noticed.
    pub(super) generation: u64,
    pub(super) about: About,
    pub(super) parts: Vec<Part>,
}

/// One file of a generation, or of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name in the folder.
    pub name: String,
    /// How many bytes it has.
    pub length: u64,
    /// Their hash.
    pub xxh3: String,
}

impl Part {
    /// The entry of these bytes.
    pub fn of(name: &str, bytes: &[u8]) -> Part {
        Part { name: name.to_string(), length: bytes.len() as u64, xxh3: hash(bytes) }
    }

    /// Whether these are the bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.length == bytes.len() as u64 && self.xxh3 == hash(bytes)
    }
}

/// Why a manifest, or its generation, is not used.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// It is not what was written.
    Damaged(String),
    /// It is of a format this program does not know.
    Newer(String),
}

impl Manifest {
    /// The manifest of these parts, whose names are checked.
    pub(super) fn of(generation: u64, about: &About, parts: &[(&str, &[u8])]) -> Result<Manifest> {
        let parts: Vec<Part> = parts.iter().map(|(name, bytes)| Part::of(name, bytes)).collect();
        check(&parts).map_err(|why| Error::new(Kind::State, format!("this cannot be saved: {why}")))?;
        let program = env!("CARGO_PKG_VERSION").to_string();
        Ok(Manifest { format: FORMAT, program, generation, about: about.clone(), parts })
    }

    /// The file.
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        let fail =
            |why: String| Error::new(Kind::State, format!("the manifest of a checkpoint cannot be written: {why}"));
        let text = sealed_json(self).map_err(|e| fail(e.to_string()))?;
        if text.len() > MAX_BYTES {
            return Err(fail(format!("it would have {} bytes, at most {MAX_BYTES} are read", text.len())));
        }
        Ok(text)
    }

    /// Reads the file, whatever stands in it.
    pub(super) fn parse(text: &[u8]) -> std::result::Result<Manifest, Fault> {
        #[derive(Deserialize)]
        struct Any {
            format: u64,
        }
        let damaged = |why: &str| Fault::Damaged(format!("its {MANIFEST} {why}"));
        if !is_sealed(text) {
            return Err(damaged("is damaged: its hash does not agree"));
        }
        let any: Any = serde_json::from_slice(text).map_err(|e| damaged(&format!("cannot be read: {e}")))?;
        if any.format > FORMAT {
            return Err(Fault::Newer(format!("it has format {}, this program knows {FORMAT}", any.format)));
        }
        let manifest: Manifest = serde_json::from_slice(text).map_err(|e| damaged(&format!("cannot be read: {e}")))?;
        if manifest.format != FORMAT {
            return Err(damaged(&format!("has format {}, which does not exist", manifest.format)));
        }
        check(&manifest.parts).map_err(|why| damaged(&format!("is not one of ours: {why}")))?;
        Ok(manifest)
    }
}

/// An object as JSON that ends with the hash of all that stands before it.
pub fn sealed_json(object: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(object)?;
    // The closing brace comes behind the hash.
    text.truncate(text.len().saturating_sub("\n}".len()));
    let tail = tail(&text);
    text.extend(tail.as_bytes());
    Ok(text)
}

/// Whether the hash at the end of such a text agrees with the rest.
pub fn is_sealed(text: &[u8]) -> bool {
    let body = text.len().checked_sub(tail(b"").len()).map(|at| &text[..at]);
    body.is_some_and(|body| &text[body.len()..] == tail(body).as_bytes())
}

/// The hash of some bytes as it is written down.
pub fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// Where a part is.
pub(super) fn path(folder: &Path, part: &Part) -> std::path::PathBuf {
    folder.join(&part.name)
}

/// How a manifest with that beginning ends.
pub(super) fn tail(body: &[u8]) -> String {
    format!("{TAIL}{}\"\n}}\n", hash(body))
}

/// Names are plain, so that none leaves its folder; no two are one file, even where case does not count.
fn check(parts: &[Part]) -> std::result::Result<(), String> {
    if parts.len() > MAX_PARTS {
        return Err(format!("{} parts, at most {MAX_PARTS} are known", parts.len()));
    }
    let mut seen = std::collections::HashSet::new();
    for Part { name, .. } in parts {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') || !name.chars().all(plain) {
            let shown: String = name.chars().take(MAX_NAME).collect();
            return Err(format!("a part may not be called {shown:?}"));
        }
        let small = name.to_ascii_lowercase();
        if small == "manifest" || small == "manifest.tmp" || !seen.insert(small) {
            return Err(format!("the name {name:?} is taken"));
        }
    }
    Ok(())
}
