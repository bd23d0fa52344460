//! The market that `data synth` makes. The defaults are the maker's own ([`bars::synth`]).

use super::form::{Form, choice, number, parsed, positive, truth, whole};
use super::key::section;
use ::bars::Timeframe;
use ::bars::synth::{MarketKind, Plant, Synth};

section! {
    /// The market that `data synth` makes.
    SynthSettings at synth, "synth.";

    /// Kind of market to make.
    kind: MarketKind = Synth::default().kind, choice(KINDS).flag("kind", "KIND");
    /// Number of symbols.
    count: usize = Synth::default().symbols, whole(1..=100_000).flag("count", "N");
    /// Bars of each symbol; auto follows from years, or is 1250.
    bars: Option<usize> = None, whole(1..=1 << 40).or_auto().flag("bars", "N");
    /// Years of each symbol, instead of bars.
    years: Option<f64> = None, positive(200.0).or_auto().flag("years", "Y");
    /// Length of a bar.
    timeframe: Timeframe = Synth::default().timeframe, parsed("5m, 1h, 1d and so on").flag("timeframe", "T");
    /// Whether a signal of known value is planted.
    plant: bool = false, truth().switch("plant", "true", "Plant a signal whose best possible result is known");
    /// How often the planted signal is right.
    accuracy: f64 = Plant::default().accuracy, number(0.5..=0.9999).flag("accuracy", "P");
    /// Probability that the planted state stays the same from one bar to the next.
    stay: f64 = Plant::default().stay, number(0.0..=1.0).flag("stay", "P");
    /// Cost of one side of a trade, in basis points (0.01 %).
    cost_bp: f64 = Plant::default().cost_bp, number(0.0..=10_000.0).flag("cost-bp", "BP");
    /// Noise of one bar's return under the planted signal, in basis points (0.01 %).
    sigma_bp: f64 = Plant::default().sigma_bp, number(0.001..=800.0);
    /// Whether some symbols are listed late and some delisted.
    ragged: bool = Synth::default().ragged, truth();
    /// No bar starts before this.
    start: i64 = Synth::default().start, date();
}

const KINDS: &[(&str, MarketKind)] =
    &[("stocks", MarketKind::Stocks), ("crypto", MarketKind::Crypto), ("fx", MarketKind::Fx)];

impl SynthSettings {
    /// The kind of market as settings write it.
    pub(crate) fn kind_name(&self) -> &'static str {
        KINDS.iter().find(|k| k.1 == self.kind).map_or("", |k| k.0)
    }
}

/// A date in nanoseconds; TOML has dates of its own, and text is taken too.
fn date() -> Form<i64> {
    let read = |value: &toml::Value| {
        let text = value.as_str().map(str::to_string).or_else(|| value.as_datetime().map(|d| d.to_string()));
        let stamp = text.and_then(|text| files::time::parse(text.as_bytes(), files::time::Order::Ymd));
        stamp.map(|stamp| stamp.ns).ok_or(None)
    };
    Form::new("a date, as in 2019-01-02", read, |ns| files::time::rfc3339(*ns).into())
}
