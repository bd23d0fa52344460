//! What only one operating system knows. Every `cfg` has its counterpart.
//!
//! Linux tells through text files, which [`read`] gives anywhere (elsewhere there are none, and every reader of them
//! says `None`); macOS through `sysctl`; Windows through `sysinfo` alone.

use crate::GpuSample;

/// A small text file of the system, or nothing.
pub(crate) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Names in a folder of the system, sorted; none where there is no such folder.
pub(crate) fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// One figure of the kernel: `hw.perflevel0.physicalcpu`.
#[cfg(target_os = "macos")]
pub(crate) fn sysctl(name: &str) -> Option<String> {
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Only macOS has these names.
#[cfg(not(target_os = "macos"))]
pub(crate) fn sysctl(_name: &str) -> Option<String> {
    None
}

/// Whether the machine runs on its battery.
#[cfg(target_os = "macos")]
pub(crate) fn on_battery() -> Option<bool> {
    let output = std::process::Command::new("/usr/bin/pmset").args(["-g", "batt"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.contains("Battery Power"))
}

/// Whether the machine runs on its battery: a battery is discharging and no mains supply is on.
#[cfg(target_os = "linux")]
pub(crate) fn on_battery() -> Option<bool> {
    let root = "/sys/class/power_supply";
    supplies(names(root).iter().map(|name| {
        let file = |what: &str| read(&format!("{root}/{name}/{what}")).unwrap_or_default().trim().to_string();
        (file("type"), file("scope"), file("online"), file("status"))
    }))
}

/// Not asked for here: the system's answer needs foreign calls.
#[cfg(not(any(target_os = "macos", target_os = "linux")))]
pub(crate) fn on_battery() -> Option<bool> {
    None
}

/// Judges supplies as (type, scope, online, status); the battery of a mouse has the scope `Device` and does not count.
#[cfg(any(target_os = "linux", test))]
fn supplies(found: impl Iterator<Item = (String, String, String, String)>) -> Option<bool> {
    let (mut battery, mut discharging, mut mains) = (false, false, false);
    for (kind, scope, online, status) in found {
        match &*kind {
            "Battery" if scope != "Device" => {
                battery = true;
                discharging |= status == "Discharging";
            }
            "Mains" | "USB" => mains |= online == "1",
            _ => {}
        }
    }
    battery.then_some(discharging && !mains)
}

/// The place for Apple's sensors. GPU use and power are told by IOReport, through foreign calls that belong in
/// `compute`; nothing is read until they are there, and nothing is made up.
#[cfg(target_os = "macos")]
pub(crate) fn apple_gpus() -> Vec<GpuSample> {
    Vec::new()
}

/// There is no Apple GPU here.
#[cfg(not(target_os = "macos"))]
pub(crate) fn apple_gpus() -> Vec<GpuSample> {
    Vec::new()
}

/// NVIDIA cards on the bus, whether or not a driver serves them.
pub(crate) fn nvidia_cards(names: &[String], read: &dyn Fn(&str) -> Option<String>) -> usize {
    let is = |name: &String| {
        let file = |what: &str| read(&format!("/sys/bus/pci/devices/{name}/{what}")).unwrap_or_default();
        // Class 0x03 is a display or 3D controller; a card also has sound and USB functions, which are not counted.
        file("vendor").trim() == "0x10de" && file("class").trim().starts_with("0x03")
    };
    names.iter().filter(|name| is(name)).count()
}

/// Seconds of processor time the calling thread has used.
pub(crate) fn thread_seconds() -> Option<f64> {
    // Linux alone has the file; its first field is in nanoseconds.
    let text = read("/proc/thread-self/schedstat")?;
    Some(text.split_whitespace().next()?.parse::<u64>().ok()? as f64 * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_on_battery_when_one_drains_and_no_mains_is_on() {
        let check = |found: &[[&str; 4]], expected: Option<bool>| {
            let found = found.iter().map(|s| s.map(str::to_string)).map(|[a, b, c, d]| (a, b, c, d));
            assert_eq!(supplies(found), expected);
        };
        check(&[], None);
        check(&[["Mains", "", "1", ""]], None);
        check(&[["Mains", "", "0", ""], ["Battery", "System", "", "Discharging"]], Some(true));
        check(&[["Mains", "", "1", ""], ["Battery", "", "", "Charging"]], Some(false));
        check(&[["Mains", "", "1", ""], ["Battery", "", "", "Discharging"]], Some(false));
        check(&[["Battery", "Device", "", "Discharging"]], None);
    }

    #[test]
    fn gpus_are_counted_without_audio_devices() {
        let read = |path: &str| {
            let text = match path.strip_prefix("/sys/bus/pci/devices/")? {
                "0000:01:00.0/vendor" | "0000:01:00.1/vendor" => "0x10de\n",
                "0000:01:00.0/class" => "0x030000\n",
                "0000:01:00.1/class" => "0x040300\n",
                "0000:00:02.0/vendor" => "0x8086\n",
                "0000:00:02.0/class" => "0x030000\n",
                _ => return None,
            };
            Some(text.to_string())
        };
        let names = ["0000:00:02.0", "0000:01:00.0", "0000:01:00.1", "gone"].map(str::to_string);
        assert_eq!(nvidia_cards(&names, &read), 1);
        assert_eq!(nvidia_cards(&[], &read), 0);
    }
}
