//! LEAN's zipped CSV: what path and member name tell.
//!
//! `equity/usa/minute/aapl/20140605_trade.zip` holds `20140605_aapl_minute_trade.csv` with milliseconds since midnight
//! and prices times 10,000; `equity/usa/daily/spy.zip` holds `spy.csv` with dates. Other security types store plain
//! decimals.

use crate::recognise::read_value;
use crate::{Class, Timeframe};
use files::{Table, time};
use std::path::Path;

/// What path and member name tell of a LEAN file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lean {
    pub symbol: String,
    pub timeframe: Option<Timeframe>,
    /// Midnight of the day an intraday file covers, as a wall clock.
    pub day: Option<i64>,
    /// Bid and ask instead of trades.
    pub quote: bool,
    kind: String,   // equity, crypto, cfd, forex, future, …; empty if the path does not tell
    market: String, // usa, india, oanda, …
}

impl Lean {
    /// Recognises a member of a zip, or `None`.
    pub(crate) fn from_path(archive: &Path, member: &str) -> Option<Lean> {
        let stem = member.strip_suffix(".csv")?;
        let folders: Vec<String> = archive
            .components()
            .rev()
            .skip(1)
            .take(5)
            .map(|c| c.as_os_str().to_string_lossy().to_lowercase())
            .collect();
        let resolution = folders.iter().position(|f| ["minute", "second", "hour", "daily"].contains(&f.as_str()));
        let market = resolution.and_then(|at| folders.get(at + 1)).cloned().unwrap_or_default();
        let kind = resolution.and_then(|at| folders.get(at + 2)).cloned().unwrap_or_default();
        let parts: Vec<&str> = stem.split('_').collect();
        let side = parts.iter().position(|p| *p == "trade" || *p == "quote");
        if let Some(side) = side
            && side >= 3
            && let Some(day) = parse_day(parts[0])
        {
            let timeframe = match parts[side - 1] {
                "minute" => Timeframe::M1,
                "second" => Timeframe::Fixed(1_000_000_000),
                _ => return None,
            };
            let mut symbol = parts[1..side - 1].join("_").to_uppercase();
            for expiry in &parts[side + 1..] {
                symbol = format!("{symbol}_{expiry}");
            }
            return Some(Lean {
                symbol,
                timeframe: Some(timeframe),
                day: Some(day),
                quote: parts[side] == "quote",
                kind,
                market,
            });
        }
        // Daily and hourly zips: the folder says so and the member has the archive's name.
        let stem_of = archive.file_stem()?.to_string_lossy();
        let resolution = folders.first().filter(|f| *f == "daily" || *f == "hour")?;
        let timeframe = if resolution == "daily" { Timeframe::D1 } else { Timeframe::H1 };
        let name = stem_of.strip_suffix("_trade").or_else(|| stem_of.strip_suffix("_quote")).unwrap_or(&stem_of);
        let known =
            ["equity", "crypto", "cfd", "forex", "future", "index", "cryptofuture", "option"].contains(&kind.as_str());
        (known && stem.starts_with(name)).then(|| Lean {
            symbol: name.to_uppercase(),
            timeframe: Some(timeframe),
            day: None,
            quote: stem_of.ends_with("_quote"),
            kind,
            market,
        })
    }

    pub(crate) fn format(&self) -> String {
        let what = if self.quote { "quotes" } else { "trades" };
        let timeframe = self.timeframe.map(|t| t.to_string()).unwrap_or_default();
        format!("LEAN zipped CSV, {timeframe} {what}")
    }

    pub(crate) fn evidence(&self) -> Vec<String> {
        let mut why = Vec::new();
        if !self.kind.is_empty() {
            why.push(format!("the path says {} of market {}", self.kind, self.market));
        }
        if self.quote {
            why.push("bid and ask bars: prices are their middle, `spread` is an extra column".into());
        }
        why
    }

    pub(crate) fn wrong_width(&self, width: usize) -> String {
        let wanted = if self.quote { 11 } else { 6 };
        format!(
            "a LEAN file of {} has {wanted} columns, this one {width}",
            if self.quote { "quotes" } else { "trades" }
        )
    }

    /// The zone LEAN stores this market in.
    pub(crate) fn zone(&self) -> &'static str {
        match (self.kind.as_str(), self.market.as_str()) {
            ("equity" | "index" | "option", "usa") | ("", _) => "America/New_York",
            ("equity" | "index", "india") => "Asia/Kolkata",
            _ => "UTC",
        }
    }

    pub(crate) fn class(&self) -> Option<Class> {
        Some(match self.kind.as_str() {
            "equity" => Class::Equity,
            "index" => Class::Index,
            "crypto" => Class::CryptoSpot,
            "cryptofuture" => Class::CryptoPerp,
            "forex" => Class::Fx,
            "future" => Class::Future,
            _ => return None,
        })
    }

    /// Equities are stored times 10,000; where the path does not tell, whole numbers do.
    pub(crate) fn price_scale(&self, sample: &Table) -> f64 {
        let whole = || {
            let close = &sample.columns[4].data;
            (0..sample.rows).all(|row| read_value(close, row).fract() == 0.0 && read_value(close, row) >= 1_000.0)
        };
        match self.kind.as_str() {
            "equity" | "option" => 1e4,
            "" if whole() => 1e4,
            _ => 1.0,
        }
    }
}

fn parse_day(text: &str) -> Option<i64> {
    let date = time::parse(text.as_bytes(), time::Order::Ymd)?;
    (text.len() == 8).then_some(date.ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lean_paths_are_parsed() {
        let check = |path: &str, member: &str| {
            Lean::from_path(Path::new(path), member).map(|l| (l.symbol.clone(), l.quote, l.zone(), l.kind))
        };
        assert_eq!(
            check("lean/equity/usa/minute/aapl/20140605_trade.zip", "20140605_aapl_minute_trade.csv"),
            Some(("AAPL".into(), false, "America/New_York", "equity".into()))
        );
        assert_eq!(
            check("lean/future/cme/minute/es/20131007_trade.zip", "20131007_es_minute_trade_201312.csv"),
            Some(("ES_201312".into(), false, "UTC", "future".into()))
        );
        assert_eq!(
            check("lean/equity/usa/daily/spy.zip", "spy.csv"),
            Some(("SPY".into(), false, "America/New_York", "equity".into()))
        );
        assert_eq!(check("downloads/BTCUSDT-1m-2024-01.zip", "BTCUSDT-1m-2024-01.csv"), None);
        assert_eq!(check("my/daily/spy.zip", "spy.csv"), None);
    }
}
