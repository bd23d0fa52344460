//! One checkpoint that was found whole, and how that is found out.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use files::{Error, Kind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::About;
use super::manifest::{self, Fault, MANIFEST, MAX_BYTES, Manifest, Part};

/// A checkpoint whose hashes agreed.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Its number: one more than that of the save before.
    pub number: u64,
    /// What it belongs to.
    pub about: About,
    /// The version of the program that wrote it.
    pub program: String,
    /// A sentence for each newer one that was passed over, newest first.
    pub passed: Vec<String>,
    folder: PathBuf,
    parts: Vec<Part>,
}

impl Generation {
    /// Names and lengths of the parts, as they were saved.
    pub fn parts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.parts.iter().map(|p| (p.name.as_str(), p.length))
    }

    /// A part, verified again.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let state = |message: String| Error::new(Kind::State, message).at(&self.folder);
        let part = self.parts.iter().find(|p| p.name == name);
        let part = part.ok_or_else(|| state(format!("the checkpoint has no part `{name}`")))?;
        let file = open(&self.folder, part).map_err(|why| state(format!("the checkpoint is damaged: {why}")))?;
        // The file is as long as the manifest says, so the memory is not taken on the word of either alone.
        let mut bytes = Vec::new();
        let reserved = compute::allocator::fallible(|| bytes.try_reserve_exact(part.length as usize));
        reserved.map_err(|_| {
            let message = format!("no memory for the part `{name}` of a checkpoint ({} bytes)", part.length);
            Error::new(Kind::Memory, message).at(&self.folder)
        })?;
        file.take(part.length).read_to_end(&mut bytes).map_err(|e| Error::io(&self.folder, "reading a part", &e))?;
        if bytes.len() as u64 != part.length || manifest::hash(&bytes) != part.xxh3 {
            return Err(state(format!("the checkpoint is damaged: the hash of {name} does not agree")));
        }
        Ok(bytes)
    }

    /// Refuses a checkpoint of another version, net, device or precision, of other data or other settings, and says
    /// what differs.
    pub fn expect(&self, about: &About) -> Result<()> {
        expect("the checkpoint", &self.about, &self.program, about).map_err(|e| e.at(&self.folder))
    }
}

/// Refuses to go on as `ours` from something that says it is `saved`, written by that version of the program, and says
/// why. What it leaves empty is not compared.
pub fn expect(what: &str, saved: &About, program: &str, ours: &About) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    // A version first: the hash of the settings has it too, and would only say that something is different.
    if program != version {
        let message =
            format!("{what} is of version {program}, this is version {version}: it would not end with the same bits");
        return Err(Error::new(Kind::State, message)
            .remedy(format!("resume it with version {program}, or start a new run in another folder")));
    }
    let named = [
        ("net", &saved.net, &ours.net),
        ("data", &saved.data, &ours.data),
        ("device", &saved.device, &ours.device),
        ("precision", &saved.precision, &ours.precision),
    ];
    let other = |(_, saved, ours): &(&str, &String, &String)| !saved.is_empty() && saved != ours;
    let mut differ: Vec<_> = named.into_iter().filter(other).collect();
    // Another precision is in that hash too, and is already said.
    if !differ.iter().any(|d| d.0 == "precision") {
        differ.extend([("settings", &saved.config, &ours.config)].into_iter().filter(other));
    }
    if differ.is_empty() {
        return Ok(());
    }
    let remedy = if differ.iter().any(|d| ["device", "precision"].contains(&d.0)) {
        "resume on the device it was trained on (`fullbore probe <quick>` says which are seen), or start a new run in another folder"
    } else {
        "resume with the data and settings of that run, or start a new one in another folder"
    };
    let differ: Vec<String> =
        differ.iter().map(|(what, saved, ours)| format!("its {what} is `{saved}`, this run's is `{ours}`")).collect();
    Err(Error::new(Kind::State, format!("{what} is of another run: {}", differ.join("; "))).remedy(remedy))
}

/// Looks at every byte of a generation. `buffer` is where the parts pass through.
pub(super) fn verify(folder: &Path, number: u64, buffer: &mut Vec<u8>) -> Result<Generation, Fault> {
    let damaged = |why: String| Fault::Damaged(why);
    let text = read_manifest(&folder.join(MANIFEST)).map_err(damaged)?;
    let manifest = Manifest::parse(&text)?;
    if manifest.generation != number {
        return Err(damaged(format!("its {MANIFEST} is that of generation {:06}", manifest.generation)));
    }
    for part in &manifest.parts {
        check(folder, part, buffer).map_err(damaged)?;
    }
    let Manifest { program, about, parts, .. } = manifest;
    Ok(Generation { number, about, program, passed: Vec::new(), folder: folder.to_path_buf(), parts })
}

fn read_manifest(path: &Path) -> Result<Vec<u8>, String> {
    let length = plain_length(path, MANIFEST)?;
    if length > MAX_BYTES as u64 {
        return Err(format!("its {MANIFEST} has {length} bytes, at most {MAX_BYTES} are read"));
    }
    let file = File::open(path).map_err(|e| format!("its {MANIFEST} cannot be opened: {e}"))?;
    let mut text = Vec::with_capacity(length as usize);
    file.take(MAX_BYTES as u64).read_to_end(&mut text).map_err(|e| format!("its {MANIFEST} cannot be read: {e}"))?;
    Ok(text)
}

fn check(folder: &Path, part: &Part, buffer: &mut Vec<u8>) -> Result<(), String> {
    let name = &part.name;
    let mut file = open(folder, part)?;
    buffer.resize(1 << 20, 0);
    let (mut hash, mut seen) = (Xxh3::new(), 0u64);
    loop {
        let n = match file.read(buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(format!("{name} cannot be read: {e}")),
        };
        hash.update(&buffer[..n]);
        seen += n as u64;
        if seen > part.length {
            break;
        }
    }
    if seen != part.length || format!("{:032x}", hash.digest128()) != part.xxh3 {
        return Err(format!("the hash of {name} does not agree"));
    }
    Ok(())
}

/// Opens a part that is as long as it should be.
fn open(folder: &Path, part: &Part) -> Result<File, String> {
    let (name, path) = (&part.name, manifest::path(folder, part));
    let length = plain_length(&path, name)?;
    if length != part.length {
        return Err(format!("{name} has {length} bytes, {} were written", part.length));
    }
    File::open(&path).map_err(|e| format!("{name} cannot be opened: {e}"))
}

/// The length of a plain file: a link may lead anywhere, and a pipe would make us wait for ever.
fn plain_length(path: &Path, name: &str) -> Result<u64, String> {
    let found = fs::symlink_metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("it has no {name}"),
        _ => format!("{name} cannot be opened: {e}"),
    })?;
    if found.is_file() { Ok(found.len()) } else { Err(format!("{name} is no plain file")) }
}
