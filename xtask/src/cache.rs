//! The cache folder, and the virtual environments in it.
//!
//! `$FULLBORE_CACHE`, else `$XDG_CACHE_HOME/fullbore`, else `~/.cache/fullbore`. An environment is `<kind>-<hash>`
//! (`venv` for the oracles, `kernels` for the compiler of kernels), keyed by its lock and the Python it was made with,
//! so a changed lock never meets old packages. It is made under another name and renamed when complete: an install that
//! was killed is not used. The two newest of a kind stay, older ones go.

use crate::process::{command, output};
use crate::{Result, root};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The cache folder, made if missing.
pub fn folder() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = set("FULLBORE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|p| p.join("fullbore")))
        .or_else(|| set("HOME").or_else(|| set("USERPROFILE")).map(|p| p.join(".cache/fullbore")))
        .ok_or("there is no home folder; set FULLBORE_CACHE to a folder for tools and inputs.")?;
    make(&folder)?;
    Ok(folder)
}

/// Makes a folder and its parents.
pub fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{} could not be made: {e}.", folder.display()))
}

/// The Python of a virtual environment that holds exactly `oracles/requirements.lock`.
pub fn python() -> Result<PathBuf> {
    python_of("venv", &root().join("oracles/requirements.lock"))
}

/// The Python of a virtual environment of some kind that holds exactly what a lock names.
pub fn python_of(kind: &str, lock: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(lock).map_err(|e| format!("{}: {e}.", lock.display()))?;
    let base = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let version = output(command(&base).args(["-c", "import sys; print(sys.version, sys.executable)"]))?;

    let folder = folder()?;
    let home = folder.join(format!("{kind}-{:016x}", fnv(format!("{text}\n{version}").as_bytes())));
    if !python_in(&home).exists() {
        println!("making {} from {}", home.display(), lock.display());
        let draft = folder.join(format!("draft-{kind}-venv-{}", std::process::id()));
        let made = install(&base, &draft, lock).and_then(|()| {
            // Someone else may have been faster; theirs is as good.
            std::fs::rename(&draft, &home)
                .or_else(|e| if python_in(&home).exists() { Ok(()) } else { Err(e) })
                .map_err(|e| format!("{} could not be renamed: {e}.", draft.display()))
        });
        let _ = std::fs::remove_dir_all(&draft);
        made?;
    }
    prune(&folder, kind, &home);
    Ok(python_in(&home))
}

fn install(base: &std::ffi::OsStr, draft: &Path, lock: &Path) -> Result<()> {
    output(command(base).args(["-m", "venv"]).arg(draft))?;
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"];
    output(command(python_in(draft)).args(pip).args(["--retries", "3", "--timeout", "30", "--requirement"]).arg(lock))?;
    output(command(python_in(draft)).args(["-m", "pip", "check"])).map(drop)
}

fn python_in(home: &Path) -> PathBuf {
    home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// Leaves the one in use and the newest other of its kind.
fn prune(folder: &Path, kind: &str, used: &Path) {
    let prefix = format!("{kind}-");
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut others: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix) && e.path() != used)
        .map(|e| (e.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH), e.path()))
        .collect();
    others.sort();
    others.pop();
    for (_, old) in others {
        let _ = std::fs::remove_dir_all(old);
    }
}

/// FNV-1a: the same on every platform and release, which the standard hasher does not promise.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
