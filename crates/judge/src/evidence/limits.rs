//! Every constant of a verdict, in one place (docs/method.md, Verdict).

/// A net Sharpe ratio must be above what the best of so many trials reaches by chance with this probability.
pub const DEFLATED: f64 = 0.95;
/// The probability that choosing overfits is at most this.
pub const OVERFITTING: f64 = 0.2;
/// Chance is at least as good at most this often.
pub const CHANCE: f64 = 0.01;
/// Seeds of a run whose spread is judged.
pub const SEEDS: usize = 10;
/// Costs that the holdout must survive.
pub const HOLDOUT_COSTS: f64 = 2.0;

/// Directional correlations above this are too good.
pub const SUSPICIOUS_DIRECTION: f64 = 0.2;
/// Yearly net Sharpe ratios above this are too good, over at least [`SUSPICIOUS_SHARPE_DAYS`].
pub const SUSPICIOUS_SHARPE: f64 = 4.0;
/// Trading days that make it so.
pub const SUSPICIOUS_SHARPE_DAYS: usize = 250;
/// Shares of round trips that won above this are too good, of at least [`SUSPICIOUS_TRADES`].
pub const SUSPICIOUS_HIT_RATE: f64 = 0.7;
/// Round trips that make it so.
pub const SUSPICIOUS_TRADES: usize = 200;
/// A symbol that earns more than this share of what all winners earn carries the result, where there are at least
/// [`SUSPICIOUS_SYMBOLS`].
pub const SUSPICIOUS_SYMBOL_SHARE: f64 = 0.5;
/// Symbols that make it so.
pub const SUSPICIOUS_SYMBOLS: usize = 10;
/// A column without which this share of the directional correlation is gone carries the result, where the correlation
/// is above [`SUSPICIOUS_COLUMN_DIRECTION`] and there are at least [`SUSPICIOUS_COLUMNS`].
pub const SUSPICIOUS_COLUMN_SHARE: f64 = 0.8;
/// Below this, one weak column that tells something is what an honest result looks like.
pub const SUSPICIOUS_COLUMN_DIRECTION: f64 = 0.1;
/// Columns that make it so.
pub const SUSPICIOUS_COLUMNS: usize = 4;
/// A yearly Sharpe ratio above this that loses more than half with one bar of delay is suspicious, for horizons of at
/// least [`DELAY_HORIZON`] bars; below, it is fragile.
pub const DELAY_SHARPE: f64 = 0.5;
/// Bars.
pub const DELAY_HORIZON: usize = 6;
/// Significance of what is told as found.
pub const SIGNIFICANCE: f64 = 0.05;
