//! What only the operating system knows: where a program keeps its data, how much memory is left, and how much was taken.
//!
//! Every `cfg` has its counterpart. Linux is built and tested; the others are written and say `None` where they do not know.

use std::path::PathBuf;

/// The platform's folder for data of programs, without our name.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) fn data_home() -> Option<PathBuf> {
    absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
}

/// The platform's folder for data of programs, without our name.
#[cfg(target_os = "macos")]
pub(crate) fn data_home() -> Option<PathBuf> {
    Some(absolute("HOME")?.join("Library/Application Support"))
}

/// The platform's folder for data of programs, without our name.
#[cfg(windows)]
pub(crate) fn data_home() -> Option<PathBuf> {
    absolute("APPDATA").or_else(|| Some(absolute("USERPROFILE")?.join("AppData").join("Roaming")))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Bytes that could still be taken: what the kernel calls available, within the limits of every control group above us.
#[cfg(target_os = "linux")]
pub(crate) fn available_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let free = meminfo_available(&read("/proc/meminfo")?)?;
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    Some(group_room(&groups, &read).map_or(free, |room| free.min(room)))
}

/// Not asked for here: the system's figure needs foreign calls. The default budget then stands on 4 GiB.
#[cfg(not(target_os = "linux"))]
pub(crate) fn available_memory() -> Option<u64> {
    None
}

/// The most memory this process ever held, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Not asked for here: the system's figure needs foreign calls.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peak_memory() -> Option<u64> {
    None
}

#[cfg(any(target_os = "linux", test))]
fn meminfo_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least room any group leaves: version 2 (`0::/path`) and version 1 (`N:memory:/path`), each from our group up to the root.
#[cfg(any(target_os = "linux", test))]
fn group_room(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |path: String| read(&path)?.trim().parse::<u64>().ok();
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mount, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            // "max" is no number: no limit here. Page cache counts as used but can be taken back, so it is given back here.
            if let (Some(max), Some(used)) =
                (number(format!("{mount}{path}/{limit}")), number(format!("{mount}{path}/{usage}")))
            {
                let stat = read(&format!("{mount}{path}/memory.stat")).unwrap_or_default();
                let cache = stat
                    .lines()
                    .find_map(|l| l.strip_prefix("inactive_file "))
                    .and_then(|v| v.trim().parse().ok())
                    .unwrap_or(0);
                let room = max.saturating_sub(used.saturating_sub(cache));
                least = Some(least.map_or(room, |l: u64| l.min(room)));
            }
            match path.rfind('/') {
                Some(at) => path = &path[..at],
                None => break,
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn check(groups: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        let read = |path: &str| files.get(path).map(|s| s.to_string());
        assert_eq!(group_room(groups, &read), expected, "{groups}");
    }

    #[test]
    fn the_tightest_group_counts() {
        assert_eq!(meminfo_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(meminfo_available("MemAvailable: x kB"), None);
        let root = "/sys/fs/cgroup";
        check("0::/\n", &[], None);
        check("0::/\n", &[("/sys/fs/cgroup/memory.max", "max\n"), ("/sys/fs/cgroup/memory.current", "5\n")], None);
        let (a, b, c, d, e) = (
            format!("{root}/a/b/memory.max"),
            format!("{root}/a/b/memory.current"),
            format!("{root}/a/memory.max"),
            format!("{root}/a/memory.current"),
            format!("{root}/a/memory.stat"),
        );
        let files = [(&*a, "1000"), (&*b, "100"), (&*c, "800\n"), (&*d, "400\n"), (&*e, "anon 3\ninactive_file 300\n")];
        check("0::/a/b\n", &files, Some(700));
        check(
            "5:cpu,memory:/x\n4:pids:/\n",
            &[
                ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500"),
                ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "200"),
            ],
            Some(300),
        );
    }
}
