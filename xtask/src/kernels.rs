//! `.cu` files become PTX and cubins that are checked in, so that a machine with nothing but a driver can run them.
//!
//! `crates/<room>/src/**/name.cu` (or `tests/**/name.cu`) becomes `crates/<room>/kernels/name.ptx.gz` (for cards that
//! are not here yet) and `name.sm_80.cubin.gz` and so on, with `manifest.toml` beside them. The compiler comes from
//! PyPI by name into its own virtual environment in the cache folder and needs no card. A file may ask for
//! architectures of its own (see `source`); its PTX is then for them alone, and lies there only to be compared. Without
//! `--check` only what is stale is compiled; with it everything is, and every byte is compared as the compiler made it:
//! digests are of uncompressed files. Spills, broken register budgets, asynchronous products that wait for each other
//! and rooms whose images take more bytes than `rooms.toml` allows fail both ways.

mod manifest;
pub mod source;

use crate::process::command;
use crate::{Result, cache, rooms, root};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use manifest::Made;
use serde_json::{Value, json};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const LOCK: &str = "xtask/src/kernels/requirements.lock";
const SCRIPT: &str = "xtask/src/kernels/nvrtc.py";
const AGAIN: &str = "run `cargo xtask kernels` and check in what it writes";

/// The compiler's Python, or why it cannot be had.
pub fn python() -> Result<PathBuf> {
    cache::python_of("kernels", &root().join(LOCK))
}

/// Whether a room has kernels.
pub fn has(room: &str) -> bool {
    root().join("crates").join(room).join("kernels").is_dir()
}

/// Compiles what is stale and writes it.
pub fn write() -> Result<String> {
    let sources = source::find(&compiler()?)?;
    let known = unchanged(&sources)?;
    let stale: Vec<&Source> = sources.iter().filter(|s| !known.contains_key(&key(s))).collect();
    let draft = Draft::new()?;
    let new = if stale.is_empty() { BTreeMap::new() } else { compile(&stale, &draft.0)? };
    for (s, made) in stale.iter().filter_map(|s| Some((s, new.get(&key(s))?))) {
        let folder = folder_of(&s.room);
        cache::make(&folder)?;
        for name in made.outputs.keys() {
            let bytes = compress(&read(&draft.of(&s.room).join(name))?)?;
            std::fs::write(folder.join(stored(name)), bytes).map_err(|e| format!("{name}: {e}."))?;
        }
        println!("{} compiled", s.files[0]);
        print_figures(made);
    }
    let mut made = known;
    made.extend(new);
    for (room, text, wanted) in contents(&sources, &made)? {
        let folder = folder_of(&room);
        let wanted: Vec<String> = wanted.iter().map(|n| stored(n)).collect();
        for name in names_in(&folder).into_iter().filter(|n| !wanted.contains(n)) {
            std::fs::remove_file(folder.join(&name)).map_err(|e| format!("{name}: {e}."))?;
            println!("{room}/kernels/{name} has no source any more and was removed");
        }
        match wanted.is_empty() {
            true => drop(std::fs::remove_dir(&folder)),
            false => std::fs::write(folder.join(manifest::FILE), text).map_err(|e| format!("{room}: {e}."))?,
        }
    }
    check_figures(&sources, &made)?;
    let bytes = check_budgets(&sources)?;
    Ok(format!("{} kernel files, {} compiled anew, {} KiB", sources.len(), stale.len(), bytes / 1024))
}

/// Whether a file that is not PTX may differ, because the PTX it comes from does while being alike. The manifest holds
/// digests and registers of every kernel, so it may follow any of them; `check_figures` still holds the fresh one to
/// its budgets.
fn may_differ(draft: &Path, folder: &Path, name: &str) -> Result<bool> {
    let stem = name.split('.').next().unwrap_or(name);
    let mut any = false;
    for ptx in names_in(folder).iter().filter_map(|n| n.strip_suffix(".gz").filter(|n| n.ends_with(".ptx"))) {
        if name == manifest::FILE || ptx == format!("{stem}.ptx") {
            let (fresh, stored) = (read(&draft.join(ptx))?, read_stored(folder, ptx)?);
            any |= fresh != stored && same_instructions(&fresh, &stored);
        }
    }
    Ok(any)
}

/// Whether two PTX files have the same functions with the same instructions, but for one in two hundred.
fn same_instructions(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (instructions(one), instructions(other));
    let functions = |of: &BTreeMap<(String, String), usize>| of.keys().map(|k| k.0.clone()).collect::<BTreeSet<_>>();
    let count = |of: &BTreeMap<(String, String), usize>, key: &(String, String)| of.get(key).copied().unwrap_or(0);
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let apart: usize = keys.iter().map(|k| count(&one, k).abs_diff(count(&other, k))).sum();
    functions(&one) == functions(&other) && apart * 200 <= one.values().sum()
}

/// The instructions of each function with how often they come, whatever the registers are called. Moves are left out:
/// how many are needed depends on the names.
fn instructions(ptx: &[u8]) -> BTreeMap<(String, String), usize> {
    let mut seen = BTreeMap::new();
    let mut function = String::new();
    for line in String::from_utf8_lossy(ptx).lines() {
        let line = line.trim();
        if let Some((_, rest)) = line.split_once(".entry ") {
            function = rest.split('(').next().unwrap_or(rest).to_string();
        }
        let line =
            if line.starts_with('@') { line.split_once(char::is_whitespace).map_or(line, |l| l.1) } else { line };
        let word = line.split_whitespace().next().unwrap_or_default();
        let plain = word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.starts_with("mov");
        if plain {
            *seen.entry((function.clone(), word.to_string())).or_default() += 1;
        }
    }
    seen
}

/// Compiles everything and compares every byte, or nearly every instruction where the compiler's own bytes differ.
pub fn check() -> Result<String> {
    let sources = source::find(&compiler()?)?;
    let draft = Draft::new()?;
    let made = compile(&sources.iter().collect::<Vec<_>>(), &draft.0)?;
    let mut bad = Vec::new();
    for (room, text, wanted) in contents(&sources, &made)? {
        let folder = folder_of(&room);
        for name in names_in(&folder).iter().filter(|n| !wanted.iter().any(|w| stored(w) == **n)) {
            bad.push(format!("{room}/kernels/{name} has no source"));
        }
        for name in &wanted {
            let fresh = match name == manifest::FILE {
                true => text.clone().into_bytes(),
                false => read(&draft.of(&room).join(name))?,
            };
            let name_here = stored(name);
            match read_stored(&folder, name) {
                Ok(bytes) if bytes == fresh => {}
                // The compiler decides some things by addresses, which differ from machine to machine: nearly the same
                // instructions will do, and the cubins and the manifest follow the PTX. That the source is the same is
                // held by its hash.
                Ok(bytes) if name.ends_with(".ptx") && same_instructions(&bytes, &fresh) => {}
                Ok(_) if !name.ends_with(".ptx") && may_differ(&draft.of(&room), &folder, name)? => {}
                Ok(_) => bad.push(format!("{room}/kernels/{name_here} is not what its source gives")),
                Err(_) => bad.push(format!("{room}/kernels/{name_here} is missing or damaged")),
            }
        }
    }
    if !bad.is_empty() {
        return Err(format!("kernels are stale; {AGAIN}:\n  {}", bad.join("\n  ")));
    }
    check_figures(&sources, &made)?;
    let bytes = check_budgets(&sources)?;
    Ok(format!("{} kernel files are fresh, {} KiB, no spills", sources.len(), bytes / 1024))
}

/// `[room and name]` what became of each source.
type All = BTreeMap<(String, String), Made>;

fn key(source: &Source) -> (String, String) {
    (source.room.clone(), source.name.clone())
}

/// The packages of the lock, in one line.
fn compiler() -> Result<String> {
    let text = std::fs::read_to_string(root().join(LOCK)).map_err(|e| format!("{LOCK}: {e}."))?;
    let packages = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(packages.collect::<Vec<_>>().join(", "))
}

/// Sources whose manifest has their hash and whose files are as the manifest says.
fn unchanged(sources: &[Source]) -> Result<All> {
    let mut all = BTreeMap::new();
    for s in sources {
        let folder = folder_of(&s.room);
        let text = std::fs::read_to_string(folder.join(manifest::FILE)).unwrap_or_default();
        let Some((hash, made)) = manifest::parse(&text).remove(&s.name) else { continue };
        let whole =
            |(name, d): (&String, &String)| read_stored(&folder, name).is_ok_and(|bytes| source::digest(&bytes) == *d);
        if hash == s.hash && made.outputs.iter().all(whole) {
            all.insert(key(s), made);
        }
    }
    Ok(all)
}

/// Runs the script once for each room; its outputs are left in the draft.
fn compile(sources: &[&Source], draft: &Path) -> Result<All> {
    let python = python()?;
    let mut all = BTreeMap::new();
    for group in sources.chunk_by(|a, b| a.room == b.room) {
        let folder = draft.join(&group[0].room);
        cache::make(&folder)?;
        let jobs: Vec<Value> = group
            .iter()
            .map(|s| json!({"source": s.files[0], "name": s.name, "flags": s.flags, "targets": s.targets}))
            .collect();
        let answers = run_script(&python, &folder, &Value::from(jobs))?;
        for (at, s) in group.iter().enumerate() {
            let answer = &answers[at];
            if let Some(error) = answer["error"].as_str() {
                return Err(error.to_string());
            }
            if let Some(log) = answer["log"].as_str().filter(|l| !l.is_empty()) {
                println!("{log}");
            }
            let mut made = Made::default();
            let said = answer["ptxas"].as_object().ok_or("nvrtc.py did not say what ptxas said.")?;
            for (architecture, said) in said {
                let functions = manifest::read_ptxas(said.as_str().unwrap_or_default())
                    .map_err(|e| format!("{}: {e}", s.files[0]))?;
                made.figures.insert(architecture.clone(), functions);
            }
            let cubins = made.figures.keys().map(|a| format!("{}.{a}.cubin", s.name));
            for name in cubins.chain([format!("{}.ptx", s.name)]) {
                let bytes = read(&folder.join(&name))?;
                made.outputs.insert(name, source::digest(&bytes));
            }
            all.insert(key(s), made);
        }
    }
    Ok(all)
}

fn run_script(python: &Path, folder: &Path, jobs: &Value) -> Result<Value> {
    let mut script = command(python);
    script.arg(SCRIPT).arg(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let spawned = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|e| format!("{} could not be started: {e}.", python.display()))?;
    let mut into = child.stdin.take().ok_or("a pipe was not made.")?;
    // The script reads all of it before it writes.
    into.write_all(jobs.to_string().as_bytes()).map_err(|e| format!("{SCRIPT}: {e}."))?;
    drop(into);
    let out = child.wait_with_output().map_err(|e| format!("{SCRIPT}: {e}."))?;
    if !out.status.success() {
        return Err(format!("{SCRIPT} ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim()));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| format!("{SCRIPT} did not print JSON: {e}."))
}

/// For each room with sources or with a `kernels` folder: its name, its manifest and the files that belong there, under
/// their uncompressed names.
fn contents(sources: &[Source], made: &All) -> Result<Vec<(String, String, Vec<String>)>> {
    let compiler = compiler()?;
    let mut names: Vec<String> = sources.iter().map(|s| s.room.clone()).collect();
    for entry in std::fs::read_dir(root().join("crates")).map_err(|e| format!("crates: {e}."))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        names.extend(has(&name).then(|| format!("crates/{name}")));
    }
    names.sort();
    names.dedup();
    let one = |room: String| {
        let kernels: Vec<(&Source, &Made)> =
            sources.iter().filter(|s| s.room == room).filter_map(|s| Some((s, made.get(&key(s))?))).collect();
        let mut wanted: Vec<String> = kernels.iter().flat_map(|(_, m)| m.outputs.keys().cloned()).collect();
        if !kernels.is_empty() {
            wanted.push(manifest::FILE.to_string());
        }
        (room, manifest::render(&compiler, &kernels), wanted)
    };
    Ok(names.into_iter().map(one).collect())
}

fn check_figures(sources: &[Source], made: &All) -> Result<()> {
    let bad: Vec<String> =
        sources.iter().filter_map(|s| Some(manifest::find_faults(s, &made.get(&key(s))?.figures))).flatten().collect();
    match bad.as_slice() {
        [] => Ok(()),
        _ => Err(format!("kernels take too much:\n  {}", bad.join("\n  "))),
    }
}

/// One line for each function: what it takes on each architecture.
fn print_figures(made: &Made) {
    let Some(first) = made.figures.values().next() else { return };
    for function in first.keys() {
        let each = made.figures.iter().filter_map(|(architecture, functions)| {
            let t = functions.get(function)?;
            let spills = t.spill_stores + t.spill_loads;
            let spills = if spills == 0 { String::new() } else { format!(" SPILLS {spills}") };
            Some(format!("{architecture} {} registers{spills}", t.registers))
        });
        let shared = first.get(function).map_or(0, |t| t.shared);
        println!("  {function:<28} {}, {shared} bytes shared", each.collect::<Vec<_>>().join(", "));
    }
}

/// The bytes of every room's `kernels` folder; an error where one has more than `rooms.toml` allows it.
fn check_budgets(sources: &[Source]) -> Result<u64> {
    let mut all = 0;
    let mut bad = Vec::new();
    for room in sources.chunk_by(|a, b| a.room == b.room).map(|group| &group[0].room) {
        let folder = folder_of(room);
        let size = |name: &String| std::fs::metadata(folder.join(name)).map_or(0, |m| m.len());
        let bytes: u64 = names_in(&folder).iter().map(size).sum();
        bad.extend(over_budget(room, bytes, rooms::kernel_bytes(room)?));
        all += bytes;
    }
    match bad.as_slice() {
        [] => Ok(all),
        _ => Err(bad.join("\n")),
    }
}

fn over_budget(room: &str, bytes: u64, budget: Option<u64>) -> Option<String> {
    match budget {
        None => {
            Some(format!("{room} has kernels and no budget; give it `kernel_bytes = {bytes}` in xtask/rooms.toml."))
        }
        Some(most) if bytes > most => Some(format!(
            "{room}/kernels takes {bytes} bytes and xtask/rooms.toml allows {most}; make fewer variants, or raise \
             `kernel_bytes` there."
        )),
        Some(_) => None,
    }
}

/// The name under which a file lies in a `kernels` folder: images are compressed, the manifest is not.
fn stored(name: &str) -> String {
    if name == manifest::FILE { name.to_string() } else { format!("{name}.gz") }
}

/// A file of a `kernels` folder as the compiler made it.
fn read_stored(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let bytes = read(&folder.join(stored(name)))?;
    if name == manifest::FILE {
        return Ok(bytes);
    }
    let mut whole = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut whole).map_err(|e| format!("{name}.gz: {e}."))?;
    Ok(whole)
}

/// gzip without a name or a time: the same bytes from the same content on every machine.
fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|e| format!("compression: {e}."))
}

fn folder_of(room: &str) -> PathBuf {
    root().join(room).join("kernels")
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| format!("{}: {e}.", path.display()))
}

/// A folder in the cache that goes when it is dropped.
struct Draft(PathBuf);

impl Draft {
    fn new() -> Result<Draft> {
        let folder = cache::folder()?.join(format!("draft-kernels-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        cache::make(&folder)?;
        Ok(Draft(folder))
    }

    fn of(&self, room: &str) -> PathBuf {
        self.0.join(room)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{compress, over_budget, read_stored, same_instructions};

    #[test]
    fn images_are_compressed_to_the_same_bytes_everywhere() {
        let text: Vec<u8> =
            (0..20_000u32).flat_map(|i| format!("add.f32 %f{}, %f2;\n", i * i % 97).into_bytes()).collect();
        let packed = compress(&text).unwrap();
        // A compressor that gave other bytes would make another file of every stored image.
        assert_eq!((packed.len(), super::source::digest(&packed).as_str()), (2279, "d8ea656b3f2f5bb8"));
        let folder = std::env::temp_dir().join(format!("fullbore-compress-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("k.ptx.gz"), &packed).unwrap();
        assert_eq!(read_stored(&folder, "k.ptx").unwrap(), text);
        std::fs::write(folder.join("k.ptx.gz"), &packed[..packed.len() - 9]).unwrap();
        assert!(read_stored(&folder, "k.ptx").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_room_keeps_its_budget() {
        assert_eq!(over_budget("crates/r", 10, Some(10)), None);
        assert!(over_budget("crates/r", 11, Some(10)).unwrap().contains("11 bytes"));
        assert!(over_budget("crates/r", 11, None).unwrap().contains("kernel_bytes = 11"));
    }

    #[test]
    fn renamed_symbols_are_alike_and_other_code_is_not() {
        let body = |ops: &[&str]| format!(".visible .entry f(\n)\n{{\n{}\n}}\n", ops.join("\n"));
        let many = |op: &'static str, n: usize| vec![op; n];
        let one = body(&many("\tadd.f32 \t%f1, %f2, %f3;", 400));
        let renamed = body(&many("\tadd.f32 \t%f7, %f8, %f9;", 400));
        let moved = body(&[many("\tadd.f32 \t%f1, %f2, %f3;", 400), many("\tmov.f32 \t%f1, %f2;", 50)].concat());
        let nearly =
            body(&[many("\tadd.f32 \t%f1, %f2, %f3;", 399), many("\t@%p1 sub.f32 \t%f1, %f2, %f3;", 1)].concat());
        let other = body(&[many("\tadd.f32 \t%f1, %f2, %f3;", 396), many("\tsub.f32 \t%f1, %f2, %f3;", 4)].concat());
        let elsewhere = one.replace(".entry f(", ".entry g(");
        for (name, text, wanted) in [
            ("renamed", &renamed, true),
            ("moved", &moved, true),
            ("nearly", &nearly, true),
            ("other", &other, false),
            ("elsewhere", &elsewhere, false),
            ("empty", &String::new(), false),
        ] {
            assert_eq!(same_instructions(one.as_bytes(), text.as_bytes()), wanted, "{name}");
        }
    }
}
