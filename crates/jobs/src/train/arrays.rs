//! Ready arrays as what a training is read from.
//!
//! They come with features and labels made, so what shapes those has nothing to do here: asked for by a flag it is
//! refused, said in a settings file it is named as not used.

use super::holdout::Holdings;
use super::source::{Ids, Source, nets};
use crate::progress::{Sink, Update, check_stop};
use crate::{Select, Settings};
use features::labels::Rule;
use files::{Error, Kind, Result};
use learn::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a path is a file of ready arrays: by what is in it, since bars come as NPZ and NPY too.
pub(super) fn are_ready(path: &Path) -> bool {
    let numpy = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz") || e.eq_ignore_ascii_case("npy"));
    // What cannot be opened is what it would be for the reader of bars, who says what is wrong with it.
    numpy && path.is_file() && ready::is_ready(path).unwrap_or(false)
}

/// Reads them.
pub(super) fn read(
    path: PathBuf,
    select: &Select,
    set: Option<&str>,
    settings: &Settings,
    sink: Sink<'_>,
) -> Result<Source> {
    let clock = std::time::Instant::now();
    refuse(set, settings).map_err(|e| e.at(&path))?;
    let mut progress = |done: u64, total: u64| {
        sink(Update { phase: "reading", done, total, unit: "bytes" });
        check_stop()
    };
    let only = ready::Only { symbols: select.symbols.clone(), from: select.from, to: select.to };
    let spec =
        ready::ReadSpec { label_horizon: settings.train.label_horizon, memory: settings.general.memory.bytes(), only };
    let read = ready::read(&path, &spec, &mut progress)?;
    let mut notes = read.notes;
    notes.extend(unused(settings));
    let problem = Arc::new(read.problem);
    let nets = nets(settings, &problem.inputs, problem.classes)?;
    let mut ticks = problem.samples.t0.clone();
    ticks.dedup();
    let ids = Ids::Ready { symbol: read.symbol, symbols: read.symbols, timed: read.timed };
    let fingerprint = problem.data.clone();
    let seconds = [clock.elapsed().as_secs_f64(), 0.0];
    let instruments = None;
    let names = Some(ids.symbols()).filter(|names| !names.is_empty()).unwrap_or_else(|| vec![fingerprint.clone()]);
    let holdings = Holdings::of_arrays(&names, &ticks, settings).map_err(|e| e.at(&path))?;
    let mut source = Source { path, problem, nets, ticks, fingerprint, ids, instruments, holdings, notes, seconds };
    if select.symbols.is_empty() {
        source.notes.extend(source.without_samples());
    }
    Ok(source)
}

/// Refuses what makes features and labels of bars: nobody shall believe that it was done.
fn refuse(set: Option<&str>, settings: &Settings) -> Result<()> {
    const FEATURES: &str = "their features are made";
    const LABELS: &str = "their labels are made";
    const TIMES: &str = "t0 and t1 are taken as they are, in UTC";
    const UNIVERSE: &str = "their samples were chosen when they were made";
    const PRICES: &str = "their features were already computed from prices";
    let keys = [
        (set.is_some() || settings.features.set != "auto", "features.set", FEATURES),
        (settings.labels.rule != Some(Rule::Auto), "label.rule", LABELS),
        (settings.universe.membership.is_some(), "universe.membership", UNIVERSE),
        (settings.universe.factors.is_some(), "universe.factors", PRICES),
        (settings.bars.timezone.is_some(), "bars.timezone", TIMES),
        (settings.bars.stamp != Settings::default().bars.stamp, "bars.stamp", TIMES),
    ];
    match keys.into_iter().find(|(is_set, ..)| *is_set) {
        None => Ok(()),
        Some((_, key, why)) => Err(Error::new(Kind::Usage, format!("`{key}` has no effect on ready arrays: {why}"))
            .remedy(format!("leave <{key}> out, or give the bars that the arrays were made of"))),
    }
}

/// Names the settings that only bars have a use for.
fn unused(settings: &Settings) -> Option<String> {
    let names = settings.read_settings().differing_names(&Settings::default().read_settings());
    (!names.is_empty()).then(|| format!("ignored, because it applies only to bars: {}", names.join(", ")))
}
