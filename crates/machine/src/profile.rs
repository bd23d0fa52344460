//! What one machine is and how fast, kept at home as `machines/KEY.json`.
//!
//! The key is made of what a tuned setting depends on, so a new driver or a new card is another machine, and several
//! machines may share one home.

use crate::{Cpu, CpuRates, Cuda, Gpu, Limits, Memory, Warning};
use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A machine, as `fullbore probe` saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Says which machine: the same for the same processor, memory, cards and driver.
    pub key: String,
    /// When it was measured, RFC 3339 UTC.
    pub measured_at: String,
    /// The system.
    pub os: Os,
    /// The processor.
    pub cpu: Cpu,
    /// The memory.
    pub memory: Memory,
    /// What bounds this process.
    pub limits: Limits,
    /// The way to the cards.
    pub cuda: Cuda,
    /// The cards.
    pub gpus: Vec<Gpu>,
    /// Measured rates of the processor.
    pub cpu_rates: CpuRates,
    /// Settings that would mislead.
    pub warnings: Vec<Warning>,
}

/// The operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Os {
    /// `Debian GNU/Linux 12`
    pub name: String,
    /// Version of its kernel; null where nobody says.
    pub kernel: Option<String>,
    /// `x86_64`
    pub architecture: String,
}

impl Os {
    pub(crate) fn look() -> Os {
        let name = sysinfo::System::long_os_version().or_else(|_| sysinfo::System::name());
        Os {
            name: name.unwrap_or_else(|_| std::env::consts::OS.into()),
            kernel: sysinfo::System::kernel_version().ok(),
            architecture: std::env::consts::ARCH.into(),
        }
    }
}

/// The machine's key: sixteen hexadecimal digits.
pub(crate) fn key(cpu: &Cpu, memory: &Memory, cuda: &Cuda, gpus: &[Gpu]) -> String {
    // Kernels keep a varying few megabytes for themselves, so memory counts in whole GiB.
    let gib = (memory.total_bytes + (1 << 29)) >> 30;
    let mut text = format!("{}|{:?}|{}|{gib}", cpu.model, cpu.physical_cores, cpu.logical_cores);
    for gpu in gpus {
        let parts = (&gpu.name, gpu.memory_total_bytes >> 20, &gpu.capability, &gpu.driver);
        text += &format!("|{parts:?}");
    }
    text += cuda.version.as_deref().unwrap_or("no CUDA");
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

impl Profile {
    /// The file of a machine's profile.
    pub fn path(home: &Path, key: &str) -> PathBuf {
        home.join("machines").join(format!("{key}.json"))
    }

    /// Keeps the profile at home, whole or not at all, and says where.
    pub fn save(&self, home: &Path) -> Result<PathBuf> {
        let path = Profile::path(home, &self.key);
        let folder = home.join("machines");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "making the folder", &e))?;
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")).at(&path))?;
        text.push('\n');
        files::replace_bytes(&path, text.as_bytes())?;
        Ok(path)
    }

    /// The profile of this machine, where `fullbore probe` has left one. A damaged one is an error that says so.
    pub fn load(home: &Path, key: &str) -> Result<Option<Profile>> {
        let path = Profile::path(home, key);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_file(&path, 16 << 20)?;
        let damaged = |e: serde_json::Error| {
            Error::new(Kind::State, format!("the machine's profile cannot be read: {e}"))
                .at(&path)
                .remedy("`fullbore probe` makes a new one")
        };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::GpuRates;

    /// A machine of so many threads and GiB.
    pub(crate) fn profile(model: &str, threads: usize, gib: u64, gpus: &[(&str, u64)]) -> Profile {
        let cpu = Cpu {
            model: model.into(),
            physical_cores: Some(threads.div_ceil(2)),
            logical_cores: threads,
            performance_cores: None,
            efficiency_cores: None,
            usable_threads: threads,
            simd: vec!["avx2".into()],
            caches: Vec::new(),
        };
        let memory = Memory { total_bytes: gib << 30, available_bytes: gib << 29, limit_bytes: None };
        let gpu = |(index, (name, gib)): (usize, &(&str, u64))| Gpu {
            index,
            name: name.to_string(),
            uuid: None,
            memory_total_bytes: gib << 30,
            memory_free_bytes: gib << 30,
            capability: Some("8.6".into()),
            driver: Some("550.54".into()),
            multiprocessors: Some(82),
            blaslt: None,
            rates: GpuRates::default(),
        };
        let gpus: Vec<Gpu> = gpus.iter().enumerate().map(gpu).collect();
        let version = (!gpus.is_empty()).then(|| "12.4".to_string());
        let cuda = Cuda { usable: version.is_some(), version, says: "as told".into() };
        Profile {
            key: key(&cpu, &memory, &cuda, &gpus),
            measured_at: "2026-01-01T00:00:00Z".into(),
            os: Os::look(),
            cpu,
            memory,
            limits: Limits::default(),
            cuda,
            gpus,
            cpu_rates: CpuRates {
                threads,
                copy_one_thread_bytes_per_s: 1e10,
                copy_all_threads_bytes_per_s: 0.1 + 0.2,
                product_one_thread_flop_per_s: 1e11,
                product_all_threads_flop_per_s: 1e12 / 3.0,
            },
            warnings: vec![Warning { name: "battery".into(), value: "low".into(), says: "slow".into() }],
        }
    }

    #[test]
    fn the_key_changes_with_the_machine_and_with_nothing_else() {
        let base = profile("Ryzen", 16, 64, &[("RTX 3090", 24)]);
        let same = |other: &Profile| other.key == base.key;
        assert!(base.key.len() == 16 && same(&profile("Ryzen", 16, 64, &[("RTX 3090", 24)])));
        assert!(!same(&profile("Xeon", 16, 64, &[("RTX 3090", 24)])));
        assert!(!same(&profile("Ryzen", 32, 64, &[("RTX 3090", 24)])));
        assert!(!same(&profile("Ryzen", 16, 32, &[("RTX 3090", 24)])));
        assert!(!same(&profile("Ryzen", 16, 64, &[("RTX 3090", 24), ("RTX 3090", 24)])));
        assert!(!same(&profile("Ryzen", 16, 64, &[])));
        let key_of = |p: &Profile| key(&p.cpu, &p.memory, &p.cuda, &p.gpus);
        let mut other = base.clone();
        other.memory.total_bytes -= 40 << 20;
        other.memory.available_bytes = 1;
        other.gpus[0].memory_free_bytes = 1;
        other.cpu.usable_threads = 1;
        assert_eq!(key_of(&other), base.key, "what varies from day to day does not count");
        other.gpus[0].driver = Some("560.1".into());
        assert_ne!(key_of(&other), base.key, "another driver is another machine");
    }

    #[test]
    fn profile_round_trips_and_damage_is_reported() {
        let home = tempfile::tempdir().expect("a folder");
        let made = profile("Ryzen", 16, 64, &[("RTX 3090", 24)]);
        assert_eq!(Profile::load(home.path(), &made.key).expect("none yet"), None);
        let path = made.save(home.path()).expect("saved");
        assert_eq!(Profile::load(home.path(), &made.key).expect("read"), Some(made.clone()));
        made.save(home.path()).expect("saved again");
        std::fs::write(&path, "{\"key\": 1").expect("damaged");
        let error = Profile::load(home.path(), &made.key).expect_err("damaged");
        assert!(error.kind == Kind::State && error.file.as_deref() == Some(&*path), "{error:?}");
        let left = std::fs::read_dir(home.path().join("machines")).expect("there").count();
        assert_eq!(left, 1, "nothing but the profile");
    }
}
