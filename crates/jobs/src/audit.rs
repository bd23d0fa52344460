//! `data audit`: what is behind a path, and may it be used?

use crate::progress::{Sink, shared};
use crate::{Select, Settings, find};
use bars::audit::Audit;
use files::Result;
use serde::Serialize;
use std::time::Instant;

/// What was seen, and how fast.
#[derive(Debug, Clone, Serialize)]
pub struct Audited {
    /// The path that was read.
    pub data: String,
    /// What was seen.
    #[serde(flatten)]
    pub audit: Audit,
    /// Wall clock of reading and auditing.
    pub seconds: f64,
    /// Rows of the files over that time.
    pub rows_per_s: f64,
    /// Bytes of the files over that time.
    pub bytes_per_s: f64,
}

/// Reads everything behind a path and says what is wrong with it; writes nothing.
pub fn audit(select: &Select, settings: &Settings, sink: Sink<'_>) -> Result<Audited> {
    let path = find(&select.data)?;
    let options = select.narrow(settings.options()?);
    let clock = Instant::now();
    let (_, audit) = shared(sink, |progress| bars::read(&path, &options, progress))?;
    Ok(Audited::new(path.display().to_string(), audit, clock.elapsed().as_secs_f64()))
}

impl Audited {
    pub(crate) fn new(data: String, audit: Audit, seconds: f64) -> Audited {
        let over = seconds.max(1e-9);
        Audited { rows_per_s: audit.rows as f64 / over, bytes_per_s: audit.bytes as f64 / over, data, audit, seconds }
    }
}
