//! The processor: model, cores, vector instructions, caches.
//!
//! On Linux from `/proc/cpuinfo` and `/sys/devices`, on macOS from `sysctl`, elsewhere from `sysinfo`.

use crate::os;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A processor, and how much of it we may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// As its maker calls it; `unknown` where nobody says.
    pub model: String,
    /// Cores, without their second threads; null where nobody says.
    pub physical_cores: Option<usize>,
    /// What the system schedules on.
    pub logical_cores: usize,
    /// Fast cores, where there are two kinds.
    pub performance_cores: Option<usize>,
    /// Slow cores, where there are two kinds.
    pub efficiency_cores: Option<usize>,
    /// Threads we start by default: within affinity and the group's quota.
    pub usable_threads: usize,
    /// Found at run time.
    pub simd: Vec<String>,
    /// Of the first core.
    pub caches: Vec<Cache>,
}

/// One cache of the first core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Its size.
    pub size_bytes: u64,
    /// Logical cores that share it; null where nobody says.
    pub shared_by: Option<usize>,
}

type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks at this machine.
pub(crate) fn detect_cpu(usable_threads: usize) -> Cpu {
    let simd = compute::cpu_rate::simd().into_iter().map(str::to_string).collect();
    let told = read_cpu_facts(&os::read, &os::sysctl);
    let system = sysinfo::System::new().ok().map(|mut system| {
        system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
        system
    });
    let listed = system.as_ref().map_or(&[][..], |s| s.cpus());
    let brand = listed.first().map(|c| c.brand().trim().to_string()).filter(|b| !b.is_empty());
    Cpu {
        model: told.model.or(brand).unwrap_or_else(|| "unknown".into()),
        physical_cores: told.physical.or_else(|| sysinfo::System::physical_core_count().ok()),
        logical_cores: told.logical.unwrap_or(listed.len()).max(usable_threads),
        performance_cores: told.kinds.map(|k| k.0),
        efficiency_cores: told.kinds.map(|k| k.1),
        usable_threads,
        simd,
        caches: told.caches,
    }
}

/// What files and `sysctl` tell.
#[derive(Debug, Default, PartialEq)]
struct CpuFacts {
    model: Option<String>,
    physical: Option<usize>,
    logical: Option<usize>,
    kinds: Option<(usize, usize)>, // performance, efficiency
    caches: Vec<Cache>,
}

fn read_cpu_facts(read: Read<'_>, sysctl: Read<'_>) -> CpuFacts {
    if let Some(text) = read("/proc/cpuinfo") {
        let mut told = parse_cpuinfo(&text);
        told.kinds = count_core_kinds(read);
        told.caches = read_caches(read);
        return told;
    }
    let number = |name: &str| sysctl(name)?.parse::<usize>().ok();
    let kinds = number("hw.perflevel0.physicalcpu").zip(number("hw.perflevel1.physicalcpu"));
    let cache = |level, kind: &str, name: &str, shared: &str| {
        let size_bytes = number(name).filter(|n| *n > 0)? as u64;
        Some(Cache { level, kind: kind.into(), size_bytes, shared_by: number(shared) })
    };
    // Apple's first level of cores is the fast one; other Macs have only the plain names.
    let caches = [
        cache(1, "data", "hw.perflevel0.l1dcachesize", "").or_else(|| cache(1, "data", "hw.l1dcachesize", "")),
        cache(1, "instruction", "hw.perflevel0.l1icachesize", "")
            .or_else(|| cache(1, "instruction", "hw.l1icachesize", "")),
        cache(2, "unified", "hw.perflevel0.l2cachesize", "hw.perflevel0.cpusperl2")
            .or_else(|| cache(2, "unified", "hw.l2cachesize", "")),
        cache(3, "unified", "hw.l3cachesize", ""),
    ];
    CpuFacts {
        model: sysctl("machdep.cpu.brand_string"),
        physical: number("hw.physicalcpu"),
        logical: number("hw.logicalcpu"),
        kinds,
        caches: caches.into_iter().flatten().collect(),
    }
}

/// Reads `/proc/cpuinfo` as x86 and Arm kernels write it.
fn parse_cpuinfo(text: &str) -> CpuFacts {
    let (mut model, mut implementer, mut part) = (None, None, None);
    let (mut logical, mut package) = (0, String::new());
    let mut cores = BTreeSet::new(); // (package, core)
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().to_string();
        match key.trim() {
            "processor" if value.parse::<u64>().is_ok() => logical += 1,
            "model name" if !value.is_empty() => drop(model.get_or_insert(value)),
            "CPU implementer" => implementer = Some(value),
            // Where there are two kinds, the fast cores come last and name the machine.
            "CPU part" => part = Some(value),
            "physical id" => package = value,
            "core id" => drop(cores.insert((package.clone(), value))),
            _ => {}
        }
    }
    let arm = || Some(arm(&implementer?, &part?));
    CpuFacts {
        model: model.or_else(arm),
        physical: (!cores.is_empty()).then_some(cores.len()),
        logical: (logical > 0).then_some(logical),
        ..CpuFacts::default()
    }
}

/// Arm cores say two numbers instead of a name.
fn arm(implementer: &str, part: &str) -> String {
    let known = match (implementer, part) {
        ("0x41", "0xd03") => "Arm Cortex-A53",
        ("0x41", "0xd08") => "Arm Cortex-A72",
        ("0x41", "0xd0b") => "Arm Cortex-A76",
        ("0x41", "0xd0c") => "Arm Neoverse-N1",
        ("0x41", "0xd40") => "Arm Neoverse-V1",
        ("0x41", "0xd49") => "Arm Neoverse-N2",
        ("0x41", "0xd4f") => "Arm Neoverse-V2",
        ("0x61", "0x022" | "0x023") => "Apple M1",
        ("0x61", "0x032" | "0x033") => "Apple M2",
        ("0xc0", _) => "Ampere",
        _ => return format!("Arm core {implementer}/{part}"),
    };
    known.to_string()
}

/// Performance and efficiency cores: Intel lists the two kinds, Arm gives each core a capacity.
fn count_core_kinds(read: Read<'_>) -> Option<(usize, usize)> {
    let listed = |name: &str| count_list(&read(&format!("/sys/devices/{name}/cpus"))?);
    if let Some(both) = listed("cpu_core").zip(listed("cpu_atom")) {
        return Some(both);
    }
    let capacity = |i: usize| read(&format!("/sys/devices/system/cpu/cpu{i}/cpu_capacity"))?.trim().parse::<u64>().ok();
    let capacities: Vec<u64> = (0..).map_while(capacity).collect();
    let most = capacities.iter().max()?;
    let fast = capacities.iter().filter(|c| *c == most).count();
    (fast < capacities.len()).then_some((fast, capacities.len() - fast))
}

fn read_caches(read: Read<'_>) -> Vec<Cache> {
    let one = |i: usize| {
        let file = |name: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{name}"));
        Some(Cache {
            level: file("level")?.trim().parse().ok()?,
            kind: file("type")?.trim().to_lowercase(),
            size_bytes: parse_size(file("size")?.trim())?,
            shared_by: file("shared_cpu_list").and_then(|list| count_list(&list)),
        })
    };
    (0..8).map_while(one).collect()
}

/// `32K`, `1M`
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// How many a kernel's list names: `0-3,8` are five.
pub(crate) fn count_list(text: &str) -> Option<usize> {
    let mut count = 0usize;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
