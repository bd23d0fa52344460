//! `probe`: what this machine is, how fast, and how full.

use crate::home;
use crate::progress::{Sink, check_stop, patiently};
use files::{Error, Kind, Result};
use machine::{Profile, QuickProbe, Sample, Sampler, StartSettings};
use serde::Serialize;
use std::time::Duration;

/// The machine's profile, and where it is kept.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    /// What was found and measured.
    #[serde(flatten)]
    pub profile: Profile,
    /// Where tuning begins on this machine.
    pub start: StartSettings,
    /// The file the profile is in.
    pub file: String,
}

/// How full the machine was.
#[derive(Debug, Clone, Serialize)]
pub struct Watched {
    /// One a second.
    pub samples: Vec<Sample>,
    /// What sampling took, as a part of one core; null where the system does not tell.
    pub sampler_cores: Option<f64>,
}

/// Looks, measures for a second or two, and keeps the profile at home.
pub fn probe(sink: Sink<'_>) -> Result<Probed> {
    let home = home()?;
    let profile = patiently("measuring", sink, machine::probe)?;
    let file = profile.save(&home)?;
    let start = machine::start_settings_for(&profile);
    Ok(Probed { profile, start, file: file.display().to_string() })
}

/// Says within five seconds whether the accelerator works; writes nothing.
pub fn quick(sink: Sink<'_>) -> Result<QuickProbe> {
    patiently("checking", sink, machine::probe_quick)?
}

/// Samples the machine once a second, so many times; each one is also handed on as it comes.
pub fn watch<E: From<Error>>(seconds: usize, each: &mut dyn FnMut(&Sample) -> Result<(), E>) -> Result<Watched, E> {
    let sampler = Sampler::start(Duration::from_secs(1));
    let mut samples: Vec<Sample> = Vec::new();
    let mut idle = 0;
    while samples.len() < seconds {
        check_stop()?;
        let last = samples.last().map_or(0.0, |s| s.at_seconds);
        match sampler.wait_for_sample(last, Duration::from_millis(100)) {
            Some(sample) => {
                each(&sample)?;
                samples.push(sample);
                idle = 0;
            }
            None if idle < 300 => idle += 1,
            None => return Err(Error::new(Kind::Machine, "no sample came for 30 seconds").into()),
        }
    }
    Ok(Watched { sampler_cores: sampler.cost_seconds(), samples })
}
