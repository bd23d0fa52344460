//! How predictions become positions. The defaults are the judge's own ([`PortfolioRule`]).

use super::form::{choice, number, truth, whole};
use super::key::section;
use judge::backtest::{Exit, PortfolioRule, Weighting};

section! {
    /// How predictions become positions: of one symbol, or a portfolio of several.
    TradingSettings at trading, "trading.";

    /// Where a position of one symbol ends without a new signal; label also leaves at the barriers of a triple label.
    exit: Exit = Exit::Horizon, choice(Exit::NAMES);
    /// Symbols on each side of a portfolio; auto is a share of those that have a bar, at most 50.
    positions: Option<usize> = None, whole(1..=100_000).or_auto();
    /// Share of the symbols on each side, where their number is auto.
    share: f64 = PortfolioRule::default().share, number(0.001..=0.5);
    /// Notional of both sides together, as a multiple of equity.
    gross: f64 = PortfolioRule::default().gross, number(0.01..=20.0);
    /// Most that the long side has more than the short side, as a multiple of equity.
    net: f64 = PortfolioRule::default().net, number(0.01..=20.0);
    /// How a side is shared out; equally, or inversely to the volatility known at the close.
    weighting: Weighting = PortfolioRule::default().weighting, choice(Weighting::NAMES);
    /// Whether nothing is sold short.
    long_only: bool = PortfolioRule::default().long_only, truth();
}

impl TradingSettings {
    /// As the judge has it.
    pub(crate) fn rule(&self) -> PortfolioRule {
        let TradingSettings { positions, share, gross, net, weighting, long_only, .. } = *self;
        PortfolioRule { positions, share, gross, net, weighting, long_only }
    }

    /// Everything in it that changes what predictions earn, as text; empty for the defaults.
    pub(crate) fn identity(&self) -> String {
        let usual = TradingSettings::default();
        let rule = if self.rule() == usual.rule() { String::new() } else { format!(" {:?}", self.rule()) };
        if self.exit == usual.exit { rule } else { format!("{rule} exit {:?}", self.exit) }
    }
}
