//! Where the time went and how full the machine was, phase by phase, with a verdict in words.

use machine::{Sample, Sampler};
use serde::Serialize;
use std::time::{Duration, Instant};

/// One phase of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// `read`, `features`, `setup`, `train`, `validate`, `save`, `judge`.
    pub name: &'static str,
    /// How long.
    pub seconds: f64,
    /// Mean over all cores; null where the phase was too short to be seen.
    pub cpu_percent: Option<f64>,
    /// Mean of the core that was least busy; null where the phase was too short to be seen.
    pub idlest_core_percent: Option<f64>,
    /// Mean of the card; null without one.
    pub gpu_percent: Option<f64>,
    /// The most this process held.
    pub memory_bytes: Option<u64>,
    /// The most of the card's memory that was taken.
    pub gpu_memory_bytes: Option<u64>,
}

/// Watches a run.
pub(crate) struct Phases {
    began: Instant,
    sampler: Sampler,
    rows: Vec<Phase>,
}

impl Phases {
    pub(crate) fn start() -> Phases {
        Phases { began: Instant::now(), sampler: Sampler::start(Duration::from_millis(250)), rows: Vec::new() }
    }

    /// Since the beginning.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The newest look at the machine.
    pub(crate) fn latest(&self) -> Option<Sample> {
        self.sampler.latest()
    }

    /// What was taken down so far.
    pub(crate) fn so_far(&self) -> &[Phase] {
        &self.rows
    }

    /// Takes a phase down that began so many seconds after the beginning and ends now. Where phases take turns too
    /// quickly to be told apart (training and validating), `parts` shares the time out and all get what was seen over
    /// the whole.
    pub(crate) fn end(&mut self, since: f64, parts: &[(&'static str, f64)]) {
        let seen = self.sampler.samples_since(since);
        let mean = |of: &dyn Fn(&Sample) -> Option<f64>| {
            let all: Vec<f64> = seen.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let cpu = mean(&|s| Some(f64::from(s.cpu_mean_percent())));
        let cores = seen.iter().map(|s| s.cpu_percent.len()).min().unwrap_or(0);
        let core = |core: usize| mean(&|s| s.cpu_percent.get(core).map(|busy| f64::from(*busy)));
        let idlest = (0..cores).filter_map(core).min_by(f64::total_cmp);
        let gpu = mean(&|s| s.gpus.first().and_then(|g| g.busy_percent).map(f64::from));
        let memory = seen.iter().filter_map(|s| s.process_memory_bytes).max();
        let gpu_memory = seen.iter().filter_map(|s| s.gpus.first().and_then(|g| g.memory_used_bytes)).max();
        for (name, seconds) in parts {
            self.rows.push(Phase {
                name,
                seconds: *seconds,
                cpu_percent: cpu,
                idlest_core_percent: idlest,
                gpu_percent: gpu,
                memory_bytes: memory,
                gpu_memory_bytes: gpu_memory,
            });
        }
    }

    /// All phases, and what they mean.
    pub(crate) fn finish(self, cuda: bool) -> (Vec<Phase>, String) {
        let verdict = verdict(&self.rows, cuda);
        (self.rows, verdict)
    }
}

/// What limited the run, in a sentence.
fn verdict(rows: &[Phase], cuda: bool) -> String {
    let total: f64 = rows.iter().map(|r| r.seconds).sum();
    let Some(longest) = rows.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { return String::new() };
    let share = 100.0 * longest.seconds / total.max(1e-9);
    let full = match (cuda, longest.gpu_percent, longest.cpu_percent) {
        (true, Some(gpu), _) => format!("; GPU {gpu:.0} % busy"),
        (_, _, Some(cpu)) => {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            // One core that waits is lost in the mean of many.
            let each = longest.idlest_core_percent.filter(|_| cores > 1);
            let each = each.map_or(String::new(), |idlest| format!(", each at least {idlest:.0} %"));
            format!("; {:.1} of {cores} cores busy{each}", cpu / 100.0 * cores as f64)
        }
        _ => String::new(),
    };
    format!("{share:.0} % of the time went into `{}`{full}", longest.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_the_longest_phase_and_what_was_busy() {
        let row = |name, seconds, cpu, gpu| Phase {
            name,
            seconds,
            cpu_percent: cpu,
            idlest_core_percent: cpu.map(|cpu| cpu - 5.0),
            gpu_percent: gpu,
            memory_bytes: None,
            gpu_memory_bytes: None,
        };
        let rows = [row("read", 1.0, Some(50.0), None), row("train", 9.0, Some(20.0), Some(93.0))];
        assert_eq!(verdict(&rows, true), "90 % of the time went into `train`; GPU 93 % busy");
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let busy = format!("{:.1} of {cores} cores busy", 0.2 * cores as f64);
        let each = if cores > 1 { ", each at least 15 %" } else { "" };
        assert_eq!(verdict(&rows, false), format!("90 % of the time went into `train`; {busy}{each}"));
        assert_eq!(verdict(&[], false), "");
    }
}
