//! How much of the machine this process may have: control groups of version 1 and 2, affinity, memory.

use crate::{cpu, os};
use serde::{Deserialize, Serialize};

/// What bounds this process below what the machine has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Cores' worth of time the tightest group grants; null without a quota.
    pub group_cores: Option<f64>,
    /// Bytes the tightest group grants; null without a limit.
    pub group_memory_bytes: Option<u64>,
    /// Logical cores the process may run on; null where the system does not say.
    pub affinity_cores: Option<usize>,
}

/// The machine's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All there is.
    pub total_bytes: u64,
    /// What could still be taken, within the limits of every group above us.
    pub available_bytes: u64,
    /// The tightest group's limit; null without one.
    pub limit_bytes: Option<u64>,
}

type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Bytes this process could still take; `None` where the system does not say.
pub fn available_memory() -> Option<u64> {
    let free = match os::read("/proc/meminfo") {
        Some(text) => meminfo(&text, "MemAvailable:")?,
        None => system_memory()?.1,
    };
    let groups = os::read("/proc/self/cgroup").unwrap_or_default();
    Some(group_room(&groups, &os::read).map_or(free, |room| free.min(room)))
}

pub(crate) fn memory(limits: &Limits) -> Memory {
    let total = os::read("/proc/meminfo").and_then(|text| meminfo(&text, "MemTotal:"));
    Memory {
        total_bytes: total.or_else(|| Some(system_memory()?.0)).unwrap_or(0),
        available_bytes: available_memory().unwrap_or(0),
        limit_bytes: limits.group_memory_bytes,
    }
}

pub(crate) fn limits() -> Limits {
    let groups = os::read("/proc/self/cgroup").unwrap_or_default();
    let status = os::read("/proc/self/status").unwrap_or_default();
    Limits {
        group_cores: group_cores(&groups, &os::read),
        group_memory_bytes: group_memory(&groups, &os::read),
        affinity_cores: status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).and_then(cpu::count_list),
    }
}

/// Threads to start by default; the standard library minds affinity and quota.
pub(crate) fn usable_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Total and available, where there is no `/proc`.
fn system_memory() -> Option<(u64, u64)> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    Some((system.total_memory(), system.available_memory()))
}

fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Every folder of a controller from our group up to the root, with whether it is of version 2. A container often names
/// a path that only its host has; the walk up then ends at the root, where the container's own limits are.
fn folders(groups: &str, controller: &str, mounts: &[&str]) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let new = controllers.is_empty();
        if !new && controllers.split(',').all(|c| c != controller) {
            continue;
        }
        for mount in if new { &["/sys/fs/cgroup"] } else { mounts } {
            let mut path = path.trim_end_matches('/');
            loop {
                found.push((new, format!("{mount}{path}")));
                match path.rfind('/') {
                    Some(at) => path = &path[..at],
                    None => break,
                }
            }
        }
    }
    found
}

fn number<T: std::str::FromStr>(read: Read<'_>, path: &str) -> Option<T> {
    // "max" is no number: no limit there.
    read(path)?.trim().parse().ok()
}

/// The tightest quota, in cores.
fn group_cores(groups: &str, read: Read<'_>) -> Option<f64> {
    let quota = |(new, folder): (bool, String)| {
        let (quota, period) = if new {
            let text = read(&format!("{folder}/cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        } else {
            let file = |name: &str| number::<f64>(read, &format!("{folder}/{name}"));
            (file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?)
        };
        // Version 1 says -1 for no quota.
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    };
    folders(groups, "cpu", &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"])
        .into_iter()
        .filter_map(quota)
        .min_by(f64::total_cmp)
}

const MEMORY_V1: &[&str] = &["/sys/fs/cgroup/memory"];

/// A limit this large is the kernel's way to say there is none.
const NO_LIMIT: u64 = 1 << 60;

/// The tightest limit on memory, in bytes.
fn group_memory(groups: &str, read: Read<'_>) -> Option<u64> {
    let limit = |(new, folder): (bool, String)| {
        number(read, &format!("{folder}/{}", if new { "memory.max" } else { "memory.limit_in_bytes" }))
    };
    folders(groups, "memory", MEMORY_V1).into_iter().filter_map(limit).filter(|max| *max < NO_LIMIT).min()
}

/// The least room any group leaves.
fn group_room(groups: &str, read: Read<'_>) -> Option<u64> {
    let room = |(new, folder): (bool, String)| {
        let (limit, usage) = match new {
            true => ("memory.max", "memory.current"),
            false => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        let max: u64 = number(read, &format!("{folder}/{limit}"))?;
        let used: u64 = number(read, &format!("{folder}/{usage}"))?;
        // Page cache counts as used but can be taken back, so it is given back here.
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let cache = stat
            .lines()
            .find_map(|l| l.strip_prefix("inactive_file "))
            .and_then(|v| v.trim().parse().ok())
            .unwrap_or(0);
        Some(max.saturating_sub(used.saturating_sub(cache)))
    };
    folders(groups, "memory", MEMORY_V1).into_iter().filter_map(room).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn check(groups: &str, files: &[(&str, &str)], cores: Option<f64>, limit: Option<u64>, room: Option<u64>) {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        let read = |path: &str| files.get(path).map(|s| s.to_string());
        assert_eq!(group_cores(groups, &read), cores, "{groups}");
        assert_eq!(group_memory(groups, &read), limit, "{groups}");
        assert_eq!(group_room(groups, &read), room, "{groups}");
    }

    #[test]
    fn tightest_control_group_limit_applies() {
        assert_eq!(meminfo("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", "MemAvailable:"), Some(2 << 20));
        assert_eq!(meminfo("MemAvailable: x kB", "MemAvailable:"), None);
        check("0::/\n", &[], None, None, None);
        check("", &[("/sys/fs/cgroup/cpu.max", "1 1")], None, None, None);
        check(
            "0::/\n",
            &[
                ("/sys/fs/cgroup/memory.max", "max\n"),
                ("/sys/fs/cgroup/memory.current", "5\n"),
                ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
            ],
            None,
            None,
            None,
        );
        check(
            "0::/a/b\n",
            &[
                ("/sys/fs/cgroup/a/b/memory.max", "1000"),
                ("/sys/fs/cgroup/a/b/memory.current", "100"),
                ("/sys/fs/cgroup/a/memory.max", "800\n"),
                ("/sys/fs/cgroup/a/memory.current", "400\n"),
                ("/sys/fs/cgroup/a/memory.stat", "anon 3\ninactive_file 300\n"),
                ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
                ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ],
            Some(1.5),
            Some(800),
            Some(700),
        );
    }

    #[test]
    fn cgroup_v1_and_containers_are_read() {
        check(
            "5:cpu,memory:/x\n4:pids:/\n",
            &[
                ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500"),
                ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "200"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "200000"),
                ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
            ],
            Some(2.0),
            Some(500),
            Some(300),
        );
        // A path of the host: only the root is seen from inside.
        check("0::/docker/0123\n", &[("/sys/fs/cgroup/cpu.max", "50000 100000\n")], Some(0.5), None, None);
        check("nonsense\n1:\n::\n", &[("/sys/fs/cgroup/cpu.max", "nonsense\n")], None, None, None);
    }

    #[test]
    fn this_machine_has_memory_and_a_thread() {
        let limits = limits();
        let memory = memory(&limits);
        assert!(memory.total_bytes > 0 && memory.available_bytes <= memory.total_bytes, "{memory:?}");
        assert!(usable_threads() >= 1);
    }
}
