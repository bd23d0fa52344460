//! `data synth`: a market of known properties into the catalogue.

use crate::add::checked;
use crate::progress::{Sink, Update, check_stop, patiently};
use crate::{Settings, data_folder};
use bars::Timeframe;
use bars::store::Entry;
use bars::synth::{MarketKind as Market, Plant};
use files::{Error, Kind, Result, format_bytes};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Where the market goes; what it is like is in the settings.
#[derive(Debug, Clone, Default)]
pub struct Synth {
    /// What to call it; `None` makes a name from kind, size and seed.
    pub name: Option<String>,
    /// The folder of the catalogue; `None` takes the one at home.
    pub out: Option<PathBuf>,
    /// Whether an entry of that name may be replaced.
    pub replace: bool,
}

/// What was made.
#[derive(Debug, Clone, Serialize)]
pub struct Synthesised {
    /// In the catalogue.
    pub name: String,
    /// The folder of the catalogue.
    pub folder: String,
    /// `stocks`, `crypto` or `fx`.
    pub kind: String,
    /// Length of a bar.
    pub timeframe: String,
    /// The same seed gives the same bits.
    pub seed: u64,
    /// How many.
    pub symbols: u64,
    /// Of all symbols.
    pub bars: u64,
    /// Making them took this long.
    pub make_seconds: f64,
    /// Bars made over that time.
    pub made_bars_per_s: f64,
    /// Writing them took this long.
    pub write_seconds: f64,
    /// What only the maker knows, in words.
    pub truth: String,
    /// The planted signal's figures; null without one.
    pub planted: Option<Planted>,
    /// As the catalogue has it.
    pub entries: Vec<Entry>,
}

/// A planted signal and the best that can be earned from it, per bar in hundredths of a percent of the notional.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planted {
    /// Mean return in the signal's direction.
    pub mu_bp: f64,
    /// Noise of one bar's return.
    pub sigma_bp: f64,
    /// How likely the signal stays.
    pub stay: f64,
    /// Cost of one side.
    pub cost_bp: f64,
    /// The best mean net return of positions -1, 0, 1.
    pub best_value_bp: f64,
    /// What always holding the signal earns.
    pub always_in_bp: f64,
    /// Its mean growth of log equity when compounded.
    pub log_growth_bp: f64,
    /// The best share of directions that can be told.
    pub best_accuracy: f64,
    /// The best Matthews correlation.
    pub best_mcc: f64,
}

/// Makes the market and puts it into the catalogue.
pub fn synth(request: &Synth, settings: &Settings, sink: Sink<'_>) -> Result<Synthesised> {
    let plan = plan(settings)?;
    let kind = settings.synth.kind_name().to_string();
    let name = match &request.name {
        Some(name) => checked(name)?,
        None => format!("{kind}-{}x{}-{}-seed{}", plan.symbols, plan.bars, plan.timeframe, plan.seed),
    };
    let folder = match &request.out {
        Some(out) => out.clone(),
        None => data_folder()?,
    };
    if !request.replace && bars::store::find_set(&folder, &name)?.is_some() {
        return Err(Error::new(Kind::State, format!("`{name}` is already in the catalogue"))
            .remedy("add <replace>, or give another <name>"));
    }
    let threads = settings.threads();
    let (seed, timeframe) = (plan.seed, plan.timeframe.to_string());
    let clock = Instant::now();
    let made = patiently("making", sink, move || plan.make_market(threads))?;
    let make_seconds = clock.elapsed().as_secs_f64();
    let bars = made.market.iter().map(|b| b.len() as u64).sum();

    check_stop()?;
    sink(Update { phase: "writing", done: 0, total: 0, unit: "" });
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "making the folder of the catalogue", &e))?;
    let clock = Instant::now();
    let origin = format!("{} {kind}, seed {seed}", bars::store::SYNTHETIC);
    let entries = bars::store::write_set(&made.market, &folder, &name, request.replace, &origin)?;
    Ok(Synthesised {
        name,
        folder: folder.display().to_string(),
        kind,
        timeframe,
        seed,
        symbols: made.market.len() as u64,
        bars,
        make_seconds,
        made_bars_per_s: bars as f64 / make_seconds.max(1e-9),
        write_seconds: clock.elapsed().as_secs_f64(),
        truth: made.truth.to_string(),
        planted: made.truth.plant.as_ref().map(planted),
        entries,
    })
}

/// The market the settings describe, checked against the memory budget.
fn plan(settings: &Settings) -> Result<bars::synth::Synth> {
    let s = &settings.synth;
    let bars = match (s.bars, s.years) {
        (Some(_), Some(_)) => {
            return Err(
                Error::new(Kind::Usage, "synth.bars and synth.years are both set").remedy("set one of them to auto")
            );
        }
        (Some(bars), None) => bars,
        (None, Some(years)) => bars_of(s.kind, s.timeframe, years),
        (None, None) => 1250,
    };
    let plan = bars::synth::Synth {
        seed: settings.general.seed,
        symbols: s.count,
        bars,
        timeframe: s.timeframe,
        kind: s.kind,
        start: s.start,
        ragged: s.ragged,
        plant: s.plant.then_some(Plant {
            accuracy: s.accuracy,
            stay: s.stay,
            cost_bp: s.cost_bp,
            sigma_bp: s.sigma_bp,
        }),
    };
    plan.check().map_err(|wrong| Error::new(Kind::Usage, format!("synth.{wrong}")))?;
    // Start, end, four prices, volume and the signal, 8 bytes each.
    let need = (s.count as u64).saturating_mul(bars as u64).saturating_mul(64);
    let budget = settings.general.memory.bytes();
    if need > budget {
        return Err(Error::new(
            Kind::Memory,
            format!(
                "this market takes {}, more than the {} that may be used",
                format_bytes(need),
                format_bytes(budget)
            ),
        )
        .remedy("make fewer symbols or bars, or raise <memory>"));
    }
    Ok(plan)
}

/// Bars in that many years: 252 sessions of 6.5 hours, 365 days round the clock, or 260 of them.
fn bars_of(kind: Market, timeframe: Timeframe, years: f64) -> usize {
    let hours = timeframe.ns() as f64 / 3.6e12;
    let (days, session) = match kind {
        Market::Stocks => (252.0, 6.5),
        Market::Crypto => (365.25, 24.0),
        Market::Fx => (260.0, 24.0),
    };
    let a_year = match timeframe {
        Timeframe::Months(n) => 12.0 / n as f64,
        _ if hours > 24.0 => 365.25 * 24.0 / hours,
        _ if hours == 24.0 => days,
        _ => days * (session / hours).ceil(),
    };
    ((a_year * years).round() as usize).max(1)
}

pub(crate) fn planted(plant: &bars::synth::Optimum) -> Planted {
    let bp = |x: f64| x * 1e4;
    Planted {
        mu_bp: bp(plant.mu),
        sigma_bp: bp(plant.sigma),
        stay: plant.stay,
        cost_bp: bp(plant.cost),
        best_value_bp: bp(plant.value),
        always_in_bp: bp(plant.always_in),
        log_growth_bp: bp(plant.log_growth),
        best_accuracy: plant.accuracy,
        best_mcc: plant.mcc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_converted_to_bars() {
        for (kind, timeframe, years, bars) in [
            (Market::Stocks, Timeframe::D1, 5.0, 1260),
            (Market::Stocks, Timeframe::M5, 1.0, 252 * 78),
            (Market::Crypto, Timeframe::M5, 6.0, 631_152),
            (Market::Fx, Timeframe::H1, 1.0, 6240),
            (Market::Stocks, Timeframe::Months(1), 2.0, 24),
            (Market::Stocks, Timeframe::H1, 1.0, 252 * 7),
        ] {
            assert_eq!(bars_of(kind, timeframe, years), bars, "{kind:?} {timeframe} {years}");
        }
    }

    #[test]
    fn a_market_beyond_the_budget_is_refused_before_it_is_made() {
        let mut settings = Settings::default();
        for pair in ["memory=64MiB", "synth.count=10000", "synth.bars=10000"] {
            settings.set(pair).expect("a legal setting");
        }
        assert_eq!(plan(&settings).map_err(|e| e.kind).err(), Some(Kind::Memory));
        settings.set("synth.years=3").expect("a legal setting");
        assert_eq!(plan(&settings).map_err(|e| e.kind).err(), Some(Kind::Usage));
    }
}
