//! `data audit`: what is behind a path, and may it be used?

use crate::progress::{Sink, shared};
use crate::{Select, Settings, find};
use bars::Bars;
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

/// What the audit found that whoever computes with these bars must know: its warnings, what was repaired, and what
/// speaks against them where nothing was.
pub(crate) fn findings(audit: &Audit) -> Vec<String> {
    let repaired = audit.repairs.iter().map(|repair| match repair.example.as_str() {
        "" => format!("repaired: {}", repair.describe()),
        example => format!("repaired: {}; for example {example}", repair.describe()),
    });
    let mut found: Vec<String> = audit.warnings.iter().cloned().chain(repaired).collect();
    if audit.repairs.is_empty() {
        found.extend(audit.reasons.iter().cloned());
    }
    found
}

/// Instruments, costs and sessions in one line, alike ones together, most first.
pub(crate) fn describe_instruments(market: &[Bars]) -> String {
    const KINDS: usize = 3;
    let mut alike: Vec<(String, u64)> = Vec::new();
    for text in market.iter().map(|bars| bars.instrument.in_short()) {
        match alike.iter_mut().find(|(known, _)| *known == text) {
            Some((_, n)) => *n += 1,
            None => alike.push((text, 1)),
        }
    }
    alike.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut parts: Vec<String> = match (market, &alike[..]) {
        ([one], [(text, _)]) => vec![format!("{}: {text}", one.symbol)],
        (_, alike) => alike.iter().take(KINDS).map(|(text, n)| format!("{n} {text}")).collect(),
    };
    if alike.len() > KINDS {
        let rest: u64 = alike[KINDS..].iter().map(|(_, n)| n).sum();
        parts.push(format!("{rest} of other kinds (`fullbore data audit` lists them)"));
    }
    parts.join("; ")
}

impl Audited {
    pub(crate) fn new(data: String, audit: Audit, seconds: f64) -> Audited {
        let over = seconds.max(1e-9);
        Audited { rows_per_s: audit.rows as f64 / over, bytes_per_s: audit.bytes as f64 / over, data, audit, seconds }
    }
}
