//! NVIDIA's management library: what each card is, and how full.
//!
//! It is looked for at run time. Without it, or where a card does not tell a figure, the answer is `None` or empty.

use crate::GpuSample;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

/// The library, open.
pub(crate) struct NvmlCards(Nvml);

/// What a card is, as far as the library tells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NvmlCard {
    pub(crate) name: String,
    pub(crate) uuid: Option<String>,
    pub(crate) free: u64,
}

impl NvmlCards {
    /// `None` where there is no library, or no driver behind it.
    pub(crate) fn open() -> Option<NvmlCards> {
        Nvml::init().ok().map(NvmlCards)
    }

    /// `550.54.15`
    pub(crate) fn driver(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    /// Every card, in the library's order; one that does not answer is left out.
    pub(crate) fn cards(&self) -> Vec<NvmlCard> {
        let one = |index: u32| {
            let card = self.0.device_by_index(index).ok()?;
            let memory = card.memory_info().ok()?;
            Some(NvmlCard { name: card.name().ok()?, uuid: card.uuid().ok(), free: memory.free })
        };
        (0..self.0.device_count().unwrap_or(0)).filter_map(one).collect()
    }

    /// How full each card is, now.
    pub(crate) fn sample(&self) -> Vec<GpuSample> {
        let one = |index: u32| {
            let card = self.0.device_by_index(index).ok()?;
            let (used, memory) = (card.utilization_rates().ok(), card.memory_info().ok());
            Some(GpuSample {
                index: index as usize,
                busy_percent: used.as_ref().map(|u| u.gpu as f32),
                memory_busy_percent: used.map(|u| u.memory as f32),
                memory_used_bytes: memory.as_ref().map(|m| m.used),
                memory_total_bytes: memory.map(|m| m.total),
                // The library speaks of milliwatts.
                power_watts: card.power_usage().ok().map(|mw| mw as f32 / 1000.0),
                clock_mhz: card.clock_info(Clock::SM).ok(),
                memory_clock_mhz: card.clock_info(Clock::Memory).ok(),
                temperature_celsius: card.temperature(TemperatureSensor::Gpu).ok(),
            })
        };
        (0..self.0.device_count().unwrap_or(0)).filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_or_without_the_library_gives_an_answer() {
        let Some(cards) = NvmlCards::open() else {
            return assert!(NvmlCards::open().is_none(), "the same answer twice");
        };
        for (card, sample) in cards.cards().iter().zip(cards.sample()) {
            assert!(!card.name.is_empty(), "{card:?}");
            assert!(sample.busy_percent.is_none_or(|p| (0.0..=100.0).contains(&p)), "{sample:?}");
        }
    }
}
