//! How many accounts, steps and minibatches an update has where nothing was set or tuned: a fixed rule of data, net and
//! kind of device.
//!
//! Accounts are recipe: another number gives other bits. So the rule looks at no clock and at no free memory, and what
//! it gave is written into the settings of the run. It differs between a processor and a card in one number, the most
//! accounts: a processor is busy with 64, a card is not.

use crate::Settings;
use compute::{Net, Opened};

/// Accounts and steps of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct UpdateShape {
    pub(in super::super) n_envs: usize,
    pub(in super::super) n_steps: usize,
}

impl UpdateShape {
    /// Of settings that were filled in; without that, what a processor takes for long trainings on enough data.
    pub(in super::super) fn of(settings: &Settings) -> UpdateShape {
        let own = &settings.ppo;
        UpdateShape { n_envs: own.n_envs.unwrap_or(ON_PROCESSOR), n_steps: own.n_steps.unwrap_or(STEPS) }
    }

    /// Of settings that were tuned for others: fewer accounts and then steps, where they would leave fewer than
    /// [`UPDATES_LEAST`] updates in the timesteps.
    pub(in super::super) fn fitted(settings: &Settings) -> UpdateShape {
        let (mut own, room) = (UpdateShape::of(settings), timesteps(settings) / UPDATES_LEAST);
        own.n_envs = own.n_envs.min((room / own.n_steps).max(LEAST));
        while own.rows() > room && own.n_steps / 2 >= STEPS_LEAST {
            own.n_steps /= 2;
        }
        own
    }

    /// Steps of all accounts.
    pub(in super::super) fn rows(self) -> usize {
        self.n_envs * self.n_steps
    }
}

/// Accounts at most.
const ON_PROCESSOR: usize = 64;
const ON_CARD: usize = 2048;
/// Accounts at least: those that step in one vector.
const LEAST: usize = 8;
/// Steps of an account.
const STEPS: usize = 128;
const STEPS_LEAST: usize = 16;
/// Updates that the timesteps should be enough for.
pub(crate) const UPDATES: usize = 64;
/// Fewer updates are no training.
pub(crate) const UPDATES_LEAST: usize = 16;
/// Minibatches of an update; of nets with more parameters than [`WIDE`] twice as many.
const MINIBATCHES: usize = 8;
const WIDE: u64 = 1 << 20;

/// Steps of all accounts of a member in its whole training.
pub(super) fn timesteps(settings: &Settings) -> usize {
    settings.ppo.timesteps.unwrap_or(2_000_000)
}

/// Accounts and steps for data of so many samples: as many accounts as the device has use for, but at least
/// [`UPDATES`] updates in the timesteps, and no more accounts than there are stretches of so many samples.
pub(super) fn rule(settings: &Settings, samples: usize, device: &Opened) -> UpdateShape {
    let own = &settings.ppo;
    let n_steps = own.n_steps.unwrap_or(STEPS);
    let most = match device {
        Opened::Cpu { .. } => ON_PROCESSOR,
        Opened::Cuda(_) => ON_CARD,
    };
    let most = most.min(timesteps(settings) / (UPDATES * n_steps)).min(samples / n_steps).max(LEAST);
    UpdateShape { n_envs: own.n_envs.unwrap_or(1 << most.ilog2()), n_steps }
}

/// Rows of a minibatch of updates of this shape.
pub(super) fn minibatch(shape: UpdateShape, net: &Net) -> usize {
    let many = if crate::train::parameters(net) > WIDE { 2 * MINIBATCHES } else { MINIBATCHES };
    shape.rows().div_ceil(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_follow_from_timesteps_data_and_device() {
        let cpu = Opened::Cpu { threads: 2 };
        for (timesteps, samples, set, expected) in [
            (2_000_000, 100_000, "auto", (64, 128)),
            // 64 updates of 128 steps leave 12 accounts; a power of two.
            (100_000, 100_000, "auto", (8, 128)),
            (300_000, 100_000, "auto", (32, 128)),
            (2_000_000, 3_000, "auto", (16, 128)),
            (1, 1, "auto", (8, 128)),
            (2_000_000, 100_000, "16", (64, 16)),
            (2_000_000, 100_000, "2048", (8, 2048)),
        ] {
            let mut settings = Settings::default();
            settings.set(&format!("ppo.timesteps={timesteps}")).unwrap();
            settings.set(&format!("ppo.n_steps={set}")).unwrap();
            let UpdateShape { n_envs, n_steps } = rule(&settings, samples, &cpu);
            assert_eq!((n_envs, n_steps), expected, "{timesteps} {samples} {set}");
            settings.set("ppo.n_envs=7").unwrap();
            assert_eq!(rule(&settings, samples, &cpu).n_envs, 7);
        }
    }

    #[test]
    fn wide_nets_have_smaller_minibatches() {
        let net = |layers: &str| {
            format!("row:3 + account:dense8 / {layers} | {layers} / policy:3 | value:1").parse().unwrap()
        };
        let shape = UpdateShape { n_envs: 64, n_steps: 128 };
        assert_eq!(minibatch(shape, &net("64t-64t")), 1024);
        assert_eq!(minibatch(shape, &net("2048-1024-512")), 512);
        assert_eq!(minibatch(UpdateShape { n_envs: 1, n_steps: 2 }, &net("8")), 1);
    }
}
