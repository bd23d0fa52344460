//! Where to begin on machines people name.
//!
//! Starting points, not results: they are reasoned from cores and memory, so that the tuner begins near the answer
//! instead of at nothing. Members at once are about the number of multiprocessors (a small net fills one) or half of it
//! where memory is short; on a CPU four a thread, so that none idles while the last ones end. Batches grow until a
//! product fills the device: by memory bandwidth for the small net, by memory for the recurrent one. A desktop card
//! shares its memory with the screen, an Apple machine with everything.

use crate::{Cpu, Gpu, Memory, Profile, cpu, gpu, limits};
use serde::Serialize;

/// Settings to begin with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartSettings {
    /// Which line of the table, or `by size`.
    #[serde(rename = "of")]
    pub source: String,
    /// `cuda` or `cpu`.
    pub device: &'static str,
    /// Nets trained side by side.
    pub members: usize,
    /// Rows a batch and member, nets of some ten thousand parameters.
    pub small_mlp_batch: usize,
    /// Rows a batch and member, recurrent nets.
    pub lstm_batch: usize,
    /// Rows a batch and member, nets of millions of parameters.
    pub wide_mlp_batch: usize,
    /// Environments a member.
    pub environments: usize,
    /// What products are computed in; weights are f32.
    pub precision: &'static str,
    /// Threads of the CPU.
    pub threads: usize,
    /// Part of the free memory to plan with; the rest is margin.
    pub memory_share: f64,
}

/// One line: what the name holds, then the memory in GiB (of the card; 0 where it does not decide) and the settings.
struct Line {
    name: &'static str,
    device: &'static str,
    gib: u64,
    members: usize,
    batches: [usize; 3], // small MLP, LSTM, wide MLP
    environments: usize,
    threads: usize, // 0: all that may be used
    memory_share: f64,
}

const fn cuda(
    name: &'static str,
    gib: u64,
    members: usize,
    batches: [usize; 3],
    environments: usize,
    memory_share: f64,
) -> Line {
    Line { name, device: "cuda", gib, members, batches, environments, threads: 0, memory_share }
}

/// Work stays on the fast cores: a slice on a slow one makes all wait.
const fn apple(name: &'static str, fast_cores: usize, environments: usize) -> Line {
    let (members, batches) = (4 * fast_cores, [512, 256, 1024]);
    Line { name, device: "cpu", gib: 0, members, batches, environments, threads: fast_cores, memory_share: 0.6 }
}

#[rustfmt::skip]
const TABLE: &[Line] = &[
    //   name           GiB  members  small  lstm  wide        environments  share
    cuda("rtx 3070",      8,   24, [2048, 1024,  4096],  4096, 0.70), //  46 multiprocessors
    cuda("rtx 3090",     24,   64, [4096, 3072,  8192],  8192, 0.80), //  82
    cuda("rtx 4080",     16,   48, [4096, 2048,  8192],  8192, 0.75), //  76
    cuda("h100",         80,  128, [8192, 3072, 16384], 16384, 0.85), // 132
    cuda("h200",        141,  128, [8192, 3072, 65536], 16384, 0.85), // 132, and twice the memory
    apple("apple m1",      4,  256),
    apple("apple m1 pro",  8,  512),
    apple("apple m1 max",  8,  512),
    apple("apple m2",      4,  256),
    apple("apple m2 pro",  8,  512),
    apple("apple m2 max",  8,  512),
    apple("apple m4 max", 12, 1024),
];

impl StartSettings {
    /// Rows of a batch to begin with, for a net of so many parameters.
    pub fn batch(&self, recurrent: bool, parameters: u64) -> usize {
        match (recurrent, parameters) {
            (true, _) => self.lstm_batch,
            (false, 1_000_000..) => self.wide_mlp_batch,
            (false, _) => self.small_mlp_batch,
        }
    }
}

/// The candidate a tuner begins with: the nearest of rising sizes to the one that is wanted, by their ratio.
pub fn nearest_index(sizes: &[usize], wanted: usize) -> usize {
    let apart = |size: usize| (size.max(1) as f64 / wanted.max(1) as f64).ln().abs();
    let best = sizes.iter().enumerate().min_by(|a, b| apart(*a.1).total_cmp(&apart(*b.1)));
    best.map_or(0, |(at, _)| at)
}

/// Where to begin on the profile's machine: by the name of its first card or of its processor, else by their size.
pub fn start_settings_for(profile: &Profile) -> StartSettings {
    let gpu = profile.gpus.first().filter(|_| profile.cuda.usable);
    choose_settings(&profile.cpu, &profile.memory, gpu)
}

/// Where to begin on this machine, without measuring anything: on a card by its number, else on the processor.
pub fn start_settings_here(card: Option<usize>) -> StartSettings {
    let limits = limits::limits();
    let (cpu, memory) = (cpu::detect_cpu(limits::usable_threads()), limits::memory(&limits));
    let gpus = if card.is_some() { gpu::detect_gpus().1 } else { Vec::new() };
    choose_settings(&cpu, &memory, gpus.iter().find(|g| Some(g.index) == card))
}

fn choose_settings(cpu: &Cpu, memory: &Memory, gpu: Option<&Gpu>) -> StartSettings {
    let threads = cpu.usable_threads.max(1);
    let device = if gpu.is_some() { "cuda" } else { "cpu" };
    let name = gpu.map_or(&cpu.model, |gpu| &gpu.name);
    let lines = || TABLE.iter().filter(|line| line.device == device);
    // The longest name that fits: an M1 Pro is no M1.
    let named = lines().filter(|line| name_contains(name, line.name)).max_by_key(|line| line.name.len());
    if let Some(line) = named {
        return settings_of_line(line, line.name.to_string(), threads);
    }
    if let Some(gpu) = gpu {
        let apart = |line: &&Line| gpu.memory_total_bytes.abs_diff(line.gib << 30);
        // The nearest that is not larger, so that a first try fits; the smallest for cards below them all.
        let fits = lines().filter(|line| line.gib << 30 <= gpu.memory_total_bytes + (1 << 30)).min_by_key(apart);
        if let Some(line) = fits.or_else(|| lines().min_by_key(|line| line.gib)) {
            return settings_of_line(line, format!("by size, as {}", line.name), threads);
        }
    }
    let fast = cpu.performance_cores.unwrap_or(threads).clamp(1, threads);
    // A recurrent batch keeps about 1 MiB a row and member alive at most; small machines get half.
    let small = memory.available_bytes < 8 << 30;
    let batches = if small { [256, 128, 512] } else { [512, 256, 1024] };
    let line = Line {
        name: "",
        device: "cpu",
        gib: 0,
        members: 4 * fast,
        batches,
        environments: 64 * fast.next_power_of_two(),
        threads: fast,
        memory_share: 0.7,
    };
    settings_of_line(&line, "by size".into(), threads)
}

fn settings_of_line(line: &Line, of: String, threads: usize) -> StartSettings {
    let [small_mlp_batch, lstm_batch, wide_mlp_batch] = line.batches;
    StartSettings {
        source: of,
        device: line.device,
        members: line.members,
        small_mlp_batch,
        lstm_batch,
        wide_mlp_batch,
        environments: line.environments,
        precision: if line.device == "cuda" { "bf16" } else { "f32" },
        threads: if line.threads == 0 { threads } else { line.threads.min(threads) },
        memory_share: line.memory_share,
    }
}

/// Whether the words of `wanted` stand in the name, in a row and whole.
fn name_contains(name: &str, wanted: &str) -> bool {
    let words: Vec<String> =
        name.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(Into::into).collect();
    let wanted: Vec<&str> = wanted.split(' ').collect();
    words.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    fn check(model: &str, threads: usize, gib: u64, gpus: &[(&str, u64)], of: &str) -> StartSettings {
        let start = start_settings_for(&profile(model, threads, gib, gpus));
        assert_eq!(start.source, of, "{model} {gpus:?}");
        let least = [start.members, start.small_mlp_batch, start.lstm_batch, start.wide_mlp_batch, start.environments];
        assert!(least.iter().all(|n| *n >= 1) && (1..=threads.max(1)).contains(&start.threads), "{start:?}");
        assert!(start.memory_share > 0.0 && start.memory_share < 1.0);
        start
    }

    #[test]
    fn known_machines_have_start_settings() {
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 3070", 8)], "rtx 3070");
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 3070 Laptop GPU", 8)], "rtx 3070");
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 3090", 24)], "rtx 3090");
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 4080", 16)], "rtx 4080");
        check("Xeon", 64, 512, &[("NVIDIA H100 80GB HBM3", 80)], "h100");
        let h200 = check("Xeon", 64, 512, &[("NVIDIA H200", 141)], "h200");
        assert_eq!((h200.device, h200.precision, h200.threads), ("cuda", "bf16", 64));
        for name in ["m1", "m1 pro", "m1 max", "m2", "m2 pro", "m2 max", "m4 max"] {
            let start = check(&format!("Apple {}", name.to_uppercase()), 12, 16, &[], &format!("apple {name}"));
            assert_eq!((start.device, start.precision), ("cpu", "f32"));
        }
        assert_eq!(check("Apple M1", 8, 8, &[], "apple m1").threads, 4, "the slow cores are left alone");
        assert_eq!(check("Apple M1 Max", 2, 8, &[], "apple m1 max").threads, 2, "no more than may be used");
    }

    #[test]
    fn unknown_machines_start_by_size() {
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 4090", 24)], "by size, as rtx 3090");
        check("Ryzen", 16, 32, &[("NVIDIA A10", 22)], "by size, as rtx 4080");
        check("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 3050", 4)], "by size, as rtx 3070");
        check("Xeon", 16, 32, &[("NVIDIA B200", 180)], "by size, as h200");
        let box16 = check("AMD Ryzen 9 5950X", 32, 64, &[], "by size");
        assert_eq!((box16.threads, box16.members), (32, 128));
        let small = check("AMD EPYC", 1, 2, &[], "by size");
        assert!(small.small_mlp_batch < box16.small_mlp_batch);
        check("Apple M12 Max", 10, 16, &[], "by size");
    }

    #[test]
    fn a_tuner_begins_at_the_candidate_nearest_to_the_start() {
        let check = |wanted: usize, at: usize| {
            assert_eq!(nearest_index(&[32, 64, 128, 2048, 3072, 4096], wanted), at, "{wanted}")
        };
        for (wanted, at) in [(1, 0), (64, 1), (100, 2), (2400, 3), (2600, 4), (3072, 4), (9999, 5), (0, 0)] {
            check(wanted, at);
        }
        assert_eq!(nearest_index(&[], 7), 0);
        let start = check_h200();
        let batches = [(true, 26_000), (false, 26_000), (false, 3_000_000)].map(|(r, n)| start.batch(r, n));
        assert_eq!(batches, [3072, 8192, 65536]);
        // Whatever this machine is, its processor has somewhere to begin.
        let here = start_settings_here(None);
        assert!(here.device == "cpu" && here.threads >= 1 && here.small_mlp_batch >= 1, "{here:?}");
    }

    fn check_h200() -> StartSettings {
        check("Xeon", 64, 512, &[("NVIDIA H200", 141)], "h200")
    }

    #[test]
    fn unusable_gpu_is_ignored() {
        let mut broken = profile("Ryzen", 16, 32, &[("NVIDIA GeForce RTX 3090", 24)]);
        broken.cuda.usable = false;
        assert_eq!(start_settings_for(&broken).device, "cpu");
        let mut hybrid = profile("Intel Core i9-13900K", 32, 64, &[]);
        hybrid.cpu.performance_cores = Some(8);
        assert_eq!(start_settings_for(&hybrid).threads, 8);
    }
}
