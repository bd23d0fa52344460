//! Settings of the machine and of the shell that would mislead: each one found is a sentence that says what it changes
//! for us.

use crate::{Cpu, Limits, Memory, os};
use files::format_bytes;
use serde::{Deserialize, Serialize};

/// One setting, and what it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Its name: `OMP_NUM_THREADS`, `cpu quota`.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// What that changes for Fullbore, in a sentence.
    pub says: String,
}

/// What is asked of the world, so that tests can answer.
pub(crate) struct Environment<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) read: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) on_battery: Option<bool>,
}

/// Everything found on this machine.
pub(crate) fn find_warnings(cpu: &Cpu, memory: &Memory, limits: &Limits) -> Vec<Warning> {
    let variable = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    warnings_in(
        cpu,
        memory,
        limits,
        &Environment { variable: &variable, read: &os::read, on_battery: os::on_battery() },
    )
}

const OTHERS: &str = "changes nothing here: Fullbore has no OpenMP, MKL or OpenBLAS in it and takes the setting `threads`; NumPy and PyTorch \
                      beside it obey, so a comparison would be unfair to one side";

/// Variables that are judged by being set at all.
const VARIABLES: &[(&str, &str)] = &[
    ("OMP_NUM_THREADS", OTHERS),
    ("MKL_NUM_THREADS", OTHERS),
    ("OPENBLAS_NUM_THREADS", OTHERS),
    (
        "RAYON_NUM_THREADS",
        "changes nothing here: Fullbore makes thread pools of the size that the setting `threads` has; other Rust programs obey",
    ),
    ("XLA_FLAGS", "has no effect here: Fullbore does not use XLA (a JAX program on this machine does)"),
    (
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "changes nothing here, but a JAX program on the same GPU takes that part of its memory at start, and Fullbore can use only the rest",
    ),
    (
        "XLA_PYTHON_CLIENT_PREALLOCATE",
        "changes nothing here; where it is not false, a JAX program on the same GPU takes three quarters of its memory at start",
    ),
    (
        "PYTORCH_CUDA_ALLOC_CONF",
        "has no effect here: Fullbore reserves GPU memory as one block (PyTorch on this machine uses it)",
    ),
    (
        "CUDA_LAUNCH_BLOCKING",
        "makes every launch wait for its end unless it is 0: GPU rates measured this way are too low",
    ),
    (
        "NVIDIA_TF32_OVERRIDE",
        "overrules which precision cuBLASLt uses for f32 products: rates and bits differ from a run without it",
    ),
    ("CUDA_DEVICE_ORDER", "changes which card is cuda:0"),
    (
        "FULLBORE_NO_AMX",
        "keeps bf16 out of the tile registers of Intel's processors (AMX): it is slower there and has other bits; nothing changes on processors without them",
    ),
    (
        "MALLOC_ARENA_MAX",
        "limits the arenas of the C library's allocator: threads wait for each other where much is allocated",
    ),
    ("MALLOC_CONF", "configures jemalloc where that is loaded: memory figures differ from a run without it"),
    (
        "MALLOC_PERTURB_",
        "makes the C library fill memory it gives out: copies and allocations are slower than they could be",
    ),
    ("MALLOC_CHECK_", "makes the C library check its memory: allocations are slower than they could be"),
];

pub(crate) fn warnings_in(cpu: &Cpu, memory: &Memory, limits: &Limits, world: &Environment<'_>) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: String, says: String| all.push(Warning { name: name.into(), value, says });
    let (threads, logical) = (cpu.usable_threads, cpu.logical_cores);
    let we_use = format!("{threads} thread{} used", if threads == 1 { "" } else { "s" });
    if let Some(cores) = limits.group_cores.filter(|cores| *cores < logical as f64) {
        let says = format!("the control group grants {cores:.1} of {logical} cores: {we_use}");
        add("cpu quota", format!("{cores:.1}"), says);
    }
    if let Some(allowed) = limits.affinity_cores.filter(|allowed| *allowed < logical) {
        let says = format!("this process may run on {allowed} of {logical} cores: {we_use}");
        add("cpu affinity", allowed.to_string(), says);
    }
    if let Some(limit) = memory.limit_bytes.filter(|limit| *limit < memory.total_bytes) {
        let says = format!(
            "the control group grants {} of {}: memory budgets are computed from that, and a process that uses more is killed",
            format_bytes(limit),
            format_bytes(memory.total_bytes)
        );
        add("memory limit", format_bytes(limit), says);
    }
    let policy = |name: &str| {
        let text = (world.read)(&format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}"))?;
        Some(text.trim().to_string())
    };
    // These two drivers raise the clock under load with `powersave` as well; it is their ordinary governor.
    let raises = |driver: String| driver == "intel_pstate" || driver == "amd-pstate-epp";
    if policy("scaling_governor").as_deref() == Some("powersave") && !policy("scaling_driver").is_some_and(raises) {
        let says = "the clock stays at its lowest: every rate below is too low; `performance` or `schedutil` lifts it";
        add("scaling governor", "powersave".into(), says.into());
    }
    if world.on_battery == Some(true) {
        let says = "the machine runs on its battery and saves power: rates are lower than on the mains";
        add("battery", "discharging".into(), says.into());
    }
    if let Some(visible) = (world.variable)("CUDA_VISIBLE_DEVICES") {
        let says = match visible.trim() {
            "" | "-1" => "hides every GPU: work runs on the CPU".to_string(),
            list => format!("Fullbore sees only GPU {list}, and cuda:0 is the first of them"),
        };
        add("CUDA_VISIBLE_DEVICES", visible, says);
    }
    for (name, says) in VARIABLES {
        if let Some(value) = (world.variable)(name) {
            add(name, value, says.to_string());
        }
    }
    if let Some(value) = (world.variable)("LD_PRELOAD").filter(|v| v.contains("malloc")) {
        add("LD_PRELOAD", value, "replaces the allocator: memory figures differ from a run without it".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(usable_threads: usize) -> Cpu {
        Cpu {
            model: "x".into(),
            physical_cores: Some(8),
            logical_cores: 16,
            performance_cores: None,
            efficiency_cores: None,
            usable_threads,
            simd: Vec::new(),
            caches: Vec::new(),
        }
    }

    fn check(limits: Limits, variables: &[(&str, &str)], files: &[(&str, &str)], battery: bool, expected: &[&str]) {
        let memory = Memory { total_bytes: 64 << 30, available_bytes: 1 << 30, limit_bytes: limits.group_memory_bytes };
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        let read = |path: &str| files.iter().find(|(n, _)| path.ends_with(n)).map(|(_, v)| v.to_string());
        let world = Environment { variable: &variable, read: &read, on_battery: Some(battery) };
        let all = warnings_in(&cpu(2), &memory, &limits, &world);
        let said: Vec<String> = all.iter().map(|w| format!("{}={}: {}", w.name, w.value, w.says)).collect();
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, part) in said.iter().zip(expected) {
            assert!(said.contains(part), "{said} lacks {part}");
        }
    }

    #[test]
    fn each_environment_variable_is_explained() {
        let none = Limits::default;
        check(none(), &[], &[], false, &[]);
        let tight = Limits { group_cores: Some(2.0), group_memory_bytes: Some(8 << 30), affinity_cores: Some(4) };
        let said = ["grants 2.0 of 16 cores: 2 threads used", "may run on 4 of 16 cores", "grants 8.0 GiB of 64.0 GiB"];
        check(tight, &[], &[], false, &said);
        let wide = Limits { group_cores: Some(16.0), group_memory_bytes: Some(64 << 30), affinity_cores: Some(16) };
        check(wide, &[], &[], false, &[]);
        check(none(), &[("CUDA_VISIBLE_DEVICES", "")], &[], false, &["hides every GPU"]);
        check(none(), &[("CUDA_VISIBLE_DEVICES", "1,0")], &[], true, &["battery", "sees only GPU 1,0"]);
        check(
            none(),
            &[("OMP_NUM_THREADS", "1"), ("XLA_FLAGS", "")],
            &[],
            false,
            &["OMP_NUM_THREADS=1", "XLA_FLAGS=:"],
        );
        check(none(), &[("LD_PRELOAD", "/usr/lib/libtcmalloc.so")], &[], false, &["replaces the allocator"]);
        check(none(), &[("LD_PRELOAD", "/usr/lib/libother.so")], &[], false, &[]);
        // Our own: it changes bits, so a profile says that it was set.
        check(none(), &[("FULLBORE_NO_AMX", "1")], &[], false, &["FULLBORE_NO_AMX=1: keeps bf16 out of the tile"]);
    }

    #[test]
    fn powersave_is_judged_by_its_driver() {
        let with = |driver: &'static str| [("scaling_governor", "powersave\n"), ("scaling_driver", driver)];
        check(Limits::default(), &[], &with("acpi-cpufreq\n"), false, &["scaling governor=powersave"]);
        check(Limits::default(), &[], &with("intel_pstate\n"), false, &[]);
        check(Limits::default(), &[], &[("scaling_governor", "schedutil\n")], false, &[]);
    }

    #[test]
    fn each_variable_is_reported_once() {
        for name in VARIABLES.iter().map(|v| v.0) {
            check(Limits::default(), &[(name, "7")], &[], false, &[&format!("{name}=7: ")]);
        }
    }
}
