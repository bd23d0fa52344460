//! The account that decisions are turned into money with.

use super::form::{choice, number, parsed, path, positive, text, truth};
use super::key::section;
use market::{AccountOptions, FlatBefore, Sizing};
use std::path::PathBuf;

section! {
    /// The account that decisions are turned into money with.
    AccountSettings at account, "account.";

    /// Equity at the start, in the account's currency. Where it is set, lots, ticks and smallest orders apply; auto is
    /// 100,000 with fractional quantities.
    capital: Option<f64> = None, positive(1e15).or_auto().flag("capital", "MONEY");
    /// Currency of the account; auto is that of the prices, USD where there are several.
    currency: Option<String> = None, text("a currency such as USD").or_auto();
    /// How large a full position is; a share of equity, a deviation of returns per year, or units.
    sizing: Sizing = AccountOptions::default().sizing,
        parsed("fraction(0.5), vol-target(0.1) or lots(2)").flag("sizing", "RULE");
    /// Most notional as a multiple of equity.
    leverage: f64 = AccountOptions::default().leverage, number(0.01..=500.0).flag("leverage", "X");
    /// Equity as a share of notional below which the next open cuts a position; auto is half of what the leverage
    /// asks for.
    maintenance: Option<f64> = None, number(0.0..=1.0).or_auto();
    /// Equity as a share of notional below which a position is closed at once; auto is half of the maintenance.
    liquidation: Option<f64> = None, number(0.0..=1.0).or_auto();
    /// Close positions before the end of every session, or before days without one.
    flat_before_close: FlatBefore = FlatBefore::Never, choice(FlatBefore::NAMES).flag("flat-before-close", "PAUSE");
    /// Prices include dividends, so that none are paid beside them.
    total_return: bool = false, truth();
    /// What a position gains when its symbol's data end before the others' do, beside its costs: -0.3 loses 30 %.
    delisting_return: f64 = 0.0, number(-1.0..=1.0);
    /// What money earns without risk, per year; Sharpe, Sortino and alpha are of what is earned beyond it. 0.03 is 3 %.
    risk_free: f64 = AccountOptions::default().risk_free, number(-0.1..=1.0);
    /// File with symbol, time, funding rate and, where known, mark price, for perpetual swaps. Empty for none.
    funding: Option<PathBuf> = None, path().flag("funding", "FILE");
}

impl AccountSettings {
    /// What the table of money is made with.
    pub(crate) fn options(&self) -> AccountOptions {
        AccountOptions {
            capital: self.capital,
            currency: self.currency.clone(),
            sizing: self.sizing,
            leverage: self.leverage,
            maintenance: self.maintenance,
            liquidation: self.liquidation,
            flat: self.flat_before_close,
            total_return: self.total_return,
            risk_free: self.risk_free,
        }
    }

    /// Everything in it that changes what decisions earn, as text.
    pub(crate) fn identity(&self) -> String {
        let AccountSettings { capital, currency, sizing, leverage, maintenance, liquidation, .. } = self;
        let AccountSettings { flat_before_close, total_return, delisting_return, .. } = self;
        format!(
            "{capital:?} {currency:?} {sizing} {leverage} {maintenance:?} {liquidation:?} {flat_before_close} \
             {total_return} {delisting_return}"
        )
    }
}
