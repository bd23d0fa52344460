//! Chromium for `oracles/report.py`.
//!
//! `$FULLBORE_BROWSER`, else the first of [`NAMES`] on the PATH, else installed with `apt-get` where that is there and
//! we are root; what it prints goes to `browser.log` in the cache folder. This is the only thing that is installed
//! outside the cache folder: a browser needs libraries of the system, which no virtual environment holds.

use crate::process::{command, output};
use crate::{Result, cache};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What Chromium is called; `oracles/report.py` has the same list for those who run it alone.
const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// What `apt-get` does, one after the other: it waits for another that runs, and gives up on a network that is not
/// there.
const STEPS: [&[&str]; 2] = [&["update"], &["install", "-y", "--no-install-recommends", "chromium"]];
const PATIENCE: [&str; 6] =
    ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30"];

/// The program, installed if there is none; the error says why it could not be.
pub fn find_or_install() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("FULLBORE_BROWSER").filter(|v| !v.is_empty()) {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(found) = installed(&path) {
        return Ok(found);
    }
    let root = output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    install(&path, root, &cache::folder()?.join("browser.log"))
}

fn installed(path: &OsStr) -> Option<PathBuf> {
    NAMES.iter().find_map(|name| on_path(name, path))
}

fn install(path: &OsStr, root: bool, log: &Path) -> Result<PathBuf> {
    let apt = on_path("apt-get", path).ok_or("Chromium is not installed: there is no apt-get here.")?;
    if !root {
        return Err("Chromium is not installed: apt-get needs root.".into());
    }
    println!("installing Chromium with apt-get, for oracles/report.py; its output is in {}", log.display());
    let writing = |e| format!("{}: {e}.", log.display());
    let file = std::fs::File::create(log).map_err(writing)?;
    for step in STEPS {
        let (out, err) = (file.try_clone().map_err(writing)?, file.try_clone().map_err(writing)?);
        let mut apt = command(&apt);
        apt.args(PATIENCE).args(step).env("DEBIAN_FRONTEND", "noninteractive");
        let done = apt.env("PATH", path).stdin(Stdio::null()).stdout(out).stderr(err).status();
        let status = done.map_err(|e| format!("apt-get could not be started: {e}."))?;
        if !status.success() {
            return Err(format!(
                "Chromium could not be installed: `apt-get {}` ended with {status}; {} says why.",
                step.join(" "),
                log.display()
            ));
        }
    }
    let found =
        installed(path).ok_or_else(|| "apt-get installed Chromium, but the PATH has no program of it.".to_string())?;
    // Where the package only points to a store of other packages, the program is a script that refuses.
    output(command(&found).arg("--version")).map_err(|why| format!("apt-get's Chromium does not start: {why}"))?;
    Ok(found)
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    let file = OsString::from(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    std::env::split_paths(path).map(|folder| folder.join(&file)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder that is the whole PATH, with programs of its own.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Machine {
            let folder = std::env::temp_dir().join(format!("fullbore-browser-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Machine(folder)
        }

        fn log(&self) -> PathBuf {
            self.0.join("log")
        }

        fn install(&self, root: bool) -> Result<PathBuf> {
            install(self.0.as_os_str(), root, &self.log())
        }

        #[cfg(unix)]
        fn program(&self, name: &str, script: &str) {
            // Written by another process: a test beside this one may fork while we hold the file open for writing, and
            // the system starts no program that someone writes.
            let draft = self.0.join("draft");
            fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
            output(command("install").args(["-m", "755"]).arg(&draft).arg(self.0.join(name))).unwrap();
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_first_name_on_the_path_is_taken() {
        let machine = Machine::new("names");
        let path = machine.0.as_os_str();
        assert_eq!(installed(path), None);
        for name in ["google-chrome", "chromium"] {
            let file = machine.0.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            fs::write(&file, "").unwrap();
            assert_eq!(installed(path), Some(file));
        }
        // A folder of that name is no program.
        let file = format!("chrome{}", std::env::consts::EXE_SUFFIX);
        fs::create_dir(machine.0.join(file)).unwrap();
        assert_eq!(on_path("chrome", path), None);
    }

    #[test]
    fn without_apt_get_or_root_the_error_says_so() {
        let machine = Machine::new("none");
        assert!(machine.install(true).unwrap_err().contains("no apt-get"));
        fs::write(machine.0.join(format!("apt-get{}", std::env::consts::EXE_SUFFIX)), "").unwrap();
        assert!(machine.install(false).unwrap_err().contains("needs root"));
        assert!(!machine.log().exists(), "nothing was tried");
    }

    #[cfg(unix)]
    #[test]
    fn apt_get_updates_and_installs() {
        let machine = Machine::new("apt");
        let place = machine.0.display().to_string();
        let fake = format!(
            "echo \"$DEBIAN_FRONTEND: $*\"\n\
             case \"$*\" in *install*) /bin/cp {place}/ready {place}/chromium;; esac"
        );
        machine.program("apt-get", &fake);
        machine.program("ready", "echo Chromium 1");
        assert_eq!(machine.install(true), Ok(machine.0.join("chromium")));
        let said = fs::read_to_string(machine.log()).unwrap();
        let steps: Vec<&str> = said.lines().map(|l| l.rsplit_once("Timeout=30 ").unwrap().1).collect();
        assert_eq!(steps, ["update", "install -y --no-install-recommends chromium"]);
        assert!(said.lines().all(|l| l.starts_with("noninteractive: ")), "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn an_install_that_fails_names_its_step_and_log() {
        let machine = Machine::new("fails");
        machine.program("apt-get", "echo no such package >&2; case \"$*\" in *install*) exit 100;; esac");
        let why = machine.install(true).unwrap_err();
        assert!(why.contains("`apt-get install") && why.contains("100") && why.contains("log says why"), "{why}");
        assert_eq!(fs::read_to_string(machine.log()).unwrap(), "no such package\nno such package\n");

        machine.program("apt-get", "");
        assert!(machine.install(true).unwrap_err().contains("no program"), "nothing was installed");
        machine.program("chromium", "echo get it from the store >&2; exit 10");
        assert!(machine.install(true).unwrap_err().contains("get it from the store"));
    }
}
