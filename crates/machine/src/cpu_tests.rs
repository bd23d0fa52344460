//! Processors as their kernels tell of them, written by hand after real ones.

use super::*;
use std::collections::HashMap;

fn reader(files: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let files: HashMap<String, String> = files.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    move |path: &str| files.get(path).cloned()
}

fn nothing(_: &str) -> Option<String> {
    None
}

/// So many processors of a package, each core with so many threads.
fn x86(model: &str, packages: usize, cores: usize, threads: usize) -> String {
    let mut text = String::new();
    for processor in 0..packages * cores * threads {
        let (package, core) = (processor / cores % packages, processor % cores);
        text += &format!(
            "processor\t: {processor}\nvendor_id\t: GenuineIntel\nmodel\t\t: 1\nmodel name\t: {model}\nphysical id\t: {package}\n\
             core id\t\t: {core}\ncpu cores\t: {cores}\nflags\t\t: fpu avx2\n\n"
        );
    }
    text
}

#[test]
fn cpuinfo_of_several_machines() {
    let check = |text: &str, model: Option<&str>, physical: Option<usize>, logical: Option<usize>| {
        let told = parse_cpuinfo(text);
        assert_eq!((told.model.as_deref(), told.physical, told.logical), (model, physical, logical));
    };
    let ryzen = "AMD Ryzen 9 5950X 16-Core Processor";
    check(&x86(ryzen, 1, 16, 2), Some(ryzen), Some(16), Some(32));
    let xeon = "Intel(R) Xeon(R) Platinum 8480+";
    check(&x86(xeon, 2, 56, 2), Some(xeon), Some(112), Some(224));
    // A virtual machine whose host tells no topology.
    check("processor : 0\nmodel name : QEMU Virtual CPU\nprocessor : 1\n", Some("QEMU Virtual CPU"), None, Some(2));
    // A Raspberry Pi: the last lines speak of the board.
    let pi = "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nHardware\t: BCM2835\nModel\t: x\n";
    check(pi, Some("Arm Cortex-A76"), None, Some(1));
    check(
        "processor : 0\nCPU implementer : 0x61\nCPU part : 0x022\nprocessor : 1\nCPU part : 0x023\n",
        Some("Apple M1"),
        None,
        Some(2),
    );
    check("processor : 0\nCPU implementer : 0x99\nCPU part : 0x1\n", Some("Arm core 0x99/0x1"), None, Some(1));
    // Old Arm kernels put a name where the number belongs.
    check("processor : ARMv7 Processor rev 4 (v7l)\n", None, None, None);
    check("", None, None, None);
    check("\0\0:::\nprocessor:\nmodel name:\n", None, None, None);
}

#[test]
fn performance_and_efficiency_cores_are_counted() {
    let intel = reader(&[("/sys/devices/cpu_core/cpus", "0-15\n"), ("/sys/devices/cpu_atom/cpus", "16-31\n")]);
    assert_eq!(count_core_kinds(&intel), Some((16, 16)));
    let capacity: Vec<(String, &str)> = [("446"), "446", "446", "446", "1024", "1024"]
        .into_iter()
        .enumerate()
        .map(|(i, c)| (format!("/sys/devices/system/cpu/cpu{i}/cpu_capacity"), c))
        .collect();
    let files: Vec<(&str, &str)> = capacity.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    assert_eq!(count_core_kinds(&reader(&files)), Some((2, 4)));
    assert_eq!(count_core_kinds(&reader(&files[..4])), None, "all of one kind");
    assert_eq!(count_core_kinds(&nothing), None);
}

#[test]
fn caches_of_the_first_core() {
    let root = "/sys/devices/system/cpu/cpu0/cache";
    let files = [
        (format!("{root}/index0/level"), "1\n"),
        (format!("{root}/index0/type"), "Data\n"),
        (format!("{root}/index0/size"), "32K\n"),
        (format!("{root}/index0/shared_cpu_list"), "0,16\n"),
        (format!("{root}/index1/level"), "3\n"),
        (format!("{root}/index1/type"), "Unified\n"),
        (format!("{root}/index1/size"), "32M\n"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let found = read_caches(&reader(&files));
    let sizes: Vec<_> = found.iter().map(|c| (c.level, &*c.kind, c.size_bytes, c.shared_by)).collect();
    assert_eq!(sizes, [(1, "data", 32 << 10, Some(2)), (3, "unified", 32 << 20, None)]);
    assert_eq!(
        (parse_size("x"), parse_size(""), parse_size("99999999999999999999K"), parse_size("512")),
        (None, None, None, Some(512))
    );
}

#[test]
fn a_mac_by_sysctl() {
    let mac = reader(&[
        ("machdep.cpu.brand_string", "Apple M1 Pro"),
        ("hw.physicalcpu", "10"),
        ("hw.logicalcpu", "10"),
        ("hw.perflevel0.physicalcpu", "8"),
        ("hw.perflevel1.physicalcpu", "2"),
        ("hw.perflevel0.l1dcachesize", "131072"),
        ("hw.perflevel0.l2cachesize", "12582912"),
        ("hw.perflevel0.cpusperl2", "4"),
    ]);
    let told = read_cpu_facts(&nothing, &mac);
    assert_eq!((told.model.as_deref(), told.physical, told.logical), (Some("Apple M1 Pro"), Some(10), Some(10)));
    assert_eq!(told.kinds, Some((8, 2)));
    assert_eq!(told.caches.iter().map(|c| c.size_bytes).collect::<Vec<_>>(), [131_072, 12_582_912]);
    assert_eq!(super::read_cpu_facts(&nothing, &nothing), CpuFacts::default());
}

#[test]
fn lists_of_the_kernel() {
    for (text, expected) in
        [("0-3,8\n", Some(5)), ("7", Some(1)), ("", None), ("3-1", None), ("a", None), ("0-18446744073709551615", None)]
    {
        assert_eq!(count_list(text), expected, "{text}");
    }
}

#[test]
fn this_machine_has_a_processor() {
    let cpu = detect_cpu(1);
    assert!(cpu.logical_cores >= 1 && !cpu.model.is_empty(), "{cpu:?}");
    assert!(cpu.physical_cores.is_none_or(|n| n >= 1 && n <= cpu.logical_cores), "{cpu:?}");
}
