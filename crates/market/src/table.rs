//! Bars become the table of money: one [`account::Bar`] for each row of the market.

use crate::currency::{Conversion, find_conversion};
use crate::flows::{Flows, Funding};
use crate::known;
use crate::options::{AccountOptions, FlatBefore, Sizing};
use account::{Bar, Params};
use bars::{Bars, Class, Costs};
use files::{Error, Result, format_list, format_plural};
use std::collections::BTreeMap;

/// What accounts on a market live on, row by row, and the rules of an account on each symbol.
#[derive(Debug, Clone)]
pub struct PriceTable {
    /// `[rows]` symbol after symbol, as the feature table has them.
    pub bars: Vec<Bar>,
    /// `[S + 1]` first row of each symbol.
    pub offsets: Vec<usize>,
    /// `[S]` an account that trades the symbol alone.
    pub params: Vec<Params>,
    /// Currency of the account.
    pub currency: String,
    /// What money earns without risk, per year.
    pub risk_free: f64,
    /// What was assumed, a sentence each.
    pub notes: Vec<String>,
}

/// The equity that accounts start with where none is set.
pub const CAPITAL: f64 = 100_000.0;

impl PriceTable {
    /// The table of a market; `funding` are rates of perpetual swaps, where a file has them.
    ///
    /// # Errors
    ///
    /// For inverse contracts, whose profit is in the coin that is traded.
    pub fn new(market: &[Bars], options: &AccountOptions, funding: Option<&Funding>) -> Result<PriceTable> {
        let currency = account_currency(market, options);
        let mut notes = Notes::default();
        let mut table = PriceTable {
            bars: Vec::with_capacity(market.iter().map(Bars::len).sum()),
            offsets: vec![0],
            params: Vec::with_capacity(market.len()),
            currency: currency.clone(),
            risk_free: options.risk_free,
            notes: Vec::new(),
        };
        for bars in market {
            refuse_inverse(bars)?;
            let own = &bars.instrument.currency;
            let conversion = find_conversion(market, own, &currency).unwrap_or_else(|| {
                notes.hedged.entry(own.clone()).or_default().push(bars.symbol.clone());
                Conversion::One
            });
            let flows = Flows::new(bars, funding, options.total_return);
            table.params.push(params(bars, options, &flows));
            notes.look_at(bars, &flows, options);
            table.bars.extend(rows(market, bars, &conversion, &flows, options));
            table.offsets.push(table.bars.len());
        }
        table.notes = notes.sentences(&table, options);
        Ok(table)
    }

    /// The rows of a symbol.
    pub fn symbol(&self, symbol: usize) -> &[Bar] {
        &self.bars[self.offsets[symbol]..self.offsets[symbol + 1]]
    }
}

fn account_currency(market: &[Bars], options: &AccountOptions) -> String {
    if let Some(currency) = &options.currency {
        return currency.to_ascii_uppercase();
    }
    let first = market.first().map_or("USD", |bars| bars.instrument.currency.as_str());
    if market.iter().all(|bars| bars.instrument.currency == first) { first.to_string() } else { "USD".to_string() }
}

/// A contract on a coin that is paid in the coin: `BTCUSD_PERP`, `XBTUSD`, `BTC-USD-SWAP`.
fn refuse_inverse(bars: &Bars) -> Result<()> {
    let letters: String = bars.symbol.to_ascii_uppercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let dollars = letters.ends_with("USDPERP") || letters.ends_with("USDSWAP") || letters == "XBTUSD";
    let linear = letters.contains("USDT") || letters.contains("USDC");
    if bars.instrument.class == Class::CryptoPerp && dollars && !linear {
        return Err(Error::input(format!(
            "{} is an inverse contract: its profit is in the coin, which accounts here do not count",
            bars.symbol
        ))
        .remedy("take the linear contract, which is paid in dollars"));
    }
    Ok(())
}

/// The rules of an account that trades one symbol.
fn params(bars: &Bars, options: &AccountOptions, flows: &Flows) -> Params {
    let instrument = &bars.instrument;
    let Costs { fee_bp, fee_per_unit, borrow_bp_per_year, impact, volume_cap, .. } = instrument.costs;
    let BP { swap_long, swap_short } = financing(&instrument.costs, flows);
    let whole = options.capital.is_some();
    let maintenance = options.maintenance.unwrap_or(0.5 / options.leverage);
    let (fraction, vol_target, lots) = match options.sizing {
        Sizing::Fraction(share) => (share, 0.0, 0.0),
        Sizing::VolTarget(year) => (1.0, year / bars_per_year(bars).sqrt(), 0.0),
        Sizing::Lots(units) => (1.0, 0.0, units),
    };
    Params {
        capital: options.capital.unwrap_or(CAPITAL),
        fraction,
        vol_target,
        lots,
        leverage: options.leverage,
        maintenance,
        liquidation: options.liquidation.unwrap_or(0.5 * maintenance),
        shortable: instrument.shortable,
        owned: matches!(instrument.class, Class::Equity | Class::CryptoSpot),
        multiplier: instrument.multiplier,
        lot: if whole { instrument.lot } else { 0.0 },
        tick: if whole { instrument.tick } else { 0.0 },
        min_notional: if whole { instrument.min_notional } else { 0.0 },
        fee: fee_bp * 1e-4,
        fee_per_unit,
        impact,
        volume_cap,
        borrow: borrow_bp_per_year * 1e-4,
        swap_long,
        swap_short,
        ..Params::default()
    }
}

struct BP {
    swap_long: f64,
    swap_short: f64,
}

/// Rates per year of what a position costs overnight. Where funding rates are missing longs pay 1 bp per 8 hours and
/// shorts receive nothing.
fn financing(costs: &Costs, flows: &Flows) -> BP {
    if flows.assumed_funding {
        return BP { swap_long: 1e-4 * 3.0 * 365.0, swap_short: 0.0 };
    }
    BP { swap_long: costs.swap_long_bp_per_year * 1e-4, swap_short: costs.swap_short_bp_per_year * 1e-4 }
}

/// Measured over all bars; at least one.
pub(crate) fn bars_per_year(bars: &Bars) -> f64 {
    let span = bars.end.last().zip(bars.start.first()).map_or(0, |(last, first)| last - first);
    let years = span as f64 / (365.25 * 86_400e9);
    if years > 0.0 { (bars.len() as f64 / years).max(1.0) } else { 1.0 }
}

/// `[n]` the bars of one symbol.
fn rows(
    market: &[Bars],
    bars: &Bars,
    conversion: &Conversion,
    flows: &Flows,
    options: &AccountOptions,
) -> impl Iterator<Item = Bar> {
    let (fx_open, fx_close) = conversion.rates(market, bars);
    let (sigma, volume) = (known::sigma(bars), known::usual_volume(bars));
    let flat_next = flat_next(bars, options.flat);
    let half_spread = 0.5 * bars.instrument.costs.spread_bp * 1e-4;
    let mut borders = bars.segments.iter().copied().skip(1).peekable();
    // What falls due in a bar that cannot be traded is due at the next one that can.
    let mut late = [0.0; 5];
    (0..bars.len()).map(move |t| {
        let prices = [bars.open[t], bars.high[t], bars.low[t], bars.close[t]];
        let tradable = prices.iter().all(|p| p.is_finite());
        let due = [
            flows.dividend[t],
            flows.funding_open[t] + if tradable { 0.0 } else { flows.funding_inside[t] },
            flows.swap_open[t] + if tradable { 0.0 } else { flows.swap_inside[t] },
            flows.borrow_open[t],
        ];
        due.iter().zip(&mut late).for_each(|(due, late)| *late += due);
        let [dividend, funding_open, swap_open, borrow_open, _] =
            if tradable { std::mem::take(&mut late) } else { [0.0; 5] };
        let border = borders.next_if(|border| *border == t + 1).is_some();
        Bar {
            open: prices[0],
            high: prices[1],
            low: prices[2],
            close: prices[3],
            fx_open: fx_open[t],
            fx_close: fx_close[t],
            tradable: f64::from(u8::from(tradable)),
            split: 1.0,
            dividend,
            funding_open,
            funding_inside: if tradable { flows.funding_inside[t] } else { 0.0 },
            swap_open,
            swap_inside: if tradable { flows.swap_inside[t] } else { 0.0 },
            borrow_open,
            borrow_inside: 0.0,
            close_out: f64::from(u8::from(border)),
            sigma: sigma[t],
            volume: volume[t],
            half_spread,
            flat_next: f64::from(u8::from(flat_next[t])),
        }
    })
}

/// `[n]` whether the next open closes a position: the symbol does not belong any more, or the next bar is the last one
/// before a pause, by the hours of its session.
fn flat_next(bars: &Bars, flat: FlatBefore) -> Vec<bool> {
    let belongs =
        |time: i64| bars.member.is_empty() || bars.member.iter().any(|(from, to)| (*from..*to).contains(&time));
    let mut clock = bars.instrument.session.session_clock();
    let (step, days) = (bars.timeframe.ns(), bars.instrument.session.days);
    let mut last_of_session = |t: usize| {
        if flat == FlatBefore::Never || bars.timeframe.is_daily_or_longer() {
            return false;
        }
        let session = clock.session_at(bars.start[t].saturating_add(step));
        let ends = bars.end[t].saturating_add(step) >= session.close;
        ends && (flat == FlatBefore::Day || !days.contains(session.day + 1))
    };
    (0..bars.len()).map(|t| !belongs(bars.start[t]) || last_of_session(t)).collect()
}

/// What is said aloud.
#[derive(Default)]
struct Notes {
    hedged: BTreeMap<String, Vec<String>>, // symbols by currency without a pair
    unfinanced: Vec<String>,
    assumed_funding: Vec<String>,
    futures: usize,
    fractional: bool,
    without_volume: usize,
    dividends: usize,
    borders: usize,
    cannot_be_flat: bool,
    symbols: usize,
}

impl Notes {
    fn look_at(&mut self, bars: &Bars, flows: &Flows, options: &AccountOptions) {
        let Costs { swap_long_bp_per_year, swap_short_bp_per_year, .. } = bars.instrument.costs;
        let class = bars.instrument.class;
        if matches!(class, Class::Fx | Class::Metal | Class::Index | Class::Commodity)
            && swap_long_bp_per_year == 0.0
            && swap_short_bp_per_year == 0.0
        {
            self.unfinanced.push(bars.symbol.clone());
        }
        if flows.assumed_funding {
            self.assumed_funding.push(bars.symbol.clone());
        }
        self.futures += usize::from(class == Class::Future);
        self.fractional |= options.capital.is_none() && bars.instrument.lot > 0.0;
        let units = matches!(bars.instrument.volume, bars::VolumeKind::Units | bars::VolumeKind::Quote);
        self.without_volume += usize::from(!units || bars.volume.is_empty());
        self.dividends += flows.dividends;
        self.cannot_be_flat |= options.flat != FlatBefore::Never && bars.timeframe.is_daily_or_longer();
        self.borders += bars.segments.len().saturating_sub(1);
        self.symbols += 1;
    }

    fn sentences(self, table: &PriceTable, options: &AccountOptions) -> Vec<String> {
        let mut all = Vec::new();
        let capital = options.capital.unwrap_or(CAPITAL);
        let whole = if self.fractional { "; quantities are fractional, since no capital was set" } else { "" };
        all.push(format!("account of {} {}{whole}", files::format_count(capital as u64), table.currency));
        for (currency, symbols) in &self.hedged {
            all.push(format!(
                "no rate from {currency} to {} is in the data: returns of {} are earned on notional of the account's \
                 currency, as if hedged",
                table.currency,
                few(symbols)
            ));
        }
        if !self.unfinanced.is_empty() {
            all.push(format!("overnight financing of {} counts as 0: no rate is set", few(&self.unfinanced)));
        }
        if !self.assumed_funding.is_empty() {
            all.push(format!(
                "no funding rates for {}: longs pay 1 bp per 8 hours, shorts receive nothing",
                few(&self.assumed_funding)
            ));
        }
        if self.futures > 0 {
            all.push(
                "gaps at the rolls of continuous futures count as profit or loss unless prices are adjusted".into(),
            );
        }
        if self.without_volume > 0 && self.without_volume < self.symbols {
            let n = format_plural(self.without_volume as u64, "symbol");
            all.push(format!("{n} without volume in units: market impact and the cap on order size are off for them"));
        } else if self.without_volume > 0 {
            all.push("volume does not count units: market impact and the cap on order size are off".into());
        }
        if self.dividends > 0 {
            let n = format_plural(self.dividends as u64, "dividend");
            all.push(format!("{n} found in the adjusted close: longs receive them, shorts pay them"));
        }
        if self.cannot_be_flat {
            all.push("bars of a day or longer have no open before their close: positions are held overnight".into());
        }
        if self.borders > 0 {
            let n = format_plural(self.borders as u64, "suspected split");
            all.push(format!("{n}: positions are closed before them at the last close"));
        }
        all
    }
}

/// The first few names, and how many more there are.
fn few(names: &[String]) -> String {
    const FEW: usize = 3;
    if names.len() <= FEW {
        return format_list(names, "and");
    }
    format!("{} and {} more", names[..FEW].join(", "), names.len() - FEW)
}
