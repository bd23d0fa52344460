//! What people call their columns, and what file names tell.

use crate::Timeframe;

/// What a column is, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// A stamp, a date or an epoch; the number ranks names that often stand side by side (lower is better).
    Time(u8),
    /// The end of the bar.
    End,
    Open,
    High,
    Low,
    Close,
    /// A close used only where there is no other.
    LateClose,
    /// Lower is better.
    Volume(u8),
    Symbol,
    /// Whether the bar is finished.
    Finished,
    Bid(usize), // open, high, low, close
    Ask(usize),
}

/// The role a name tells; `None` for anything else.
pub(crate) fn column_role(name: &str) -> Option<Role> {
    use Role::*;
    let key = normalise_name(name);
    Some(match key.as_str() {
        "opentime" | "timeopen" | "opentimestamp" | "timeperiodstart" | "starttime" | "start" | "startat" | "begin"
        | "begins" | "windowstart" => Time(0),
        "unix" | "unixtimestamp" | "unixtime" | "epoch" | "timestampms" | "openms" => Time(1),
        "timestamp" | "datetime" | "datetimeutc" | "timestamputc" | "timeutc" | "dateutc" | "gmttime" | "utc"
        | "utctime" | "ts" | "tsevent" => Time(2),
        "date" | "dates" | "time" | "times" | "timestamps" | "dt" | "t" | "day" | "localtime" | "bartime"
        | "tradedate" | "tradingday" | "asofdate" | "period" | "month" => Time(3),
        "indexlevel0" | "index" | "level0" => Time(4),
        "closetime" | "endtime" | "timeclose" | "timeperiodend" | "end" | "barend" | "closetimestamp" => End,
        "open" | "o" | "openprice" | "first" | "priceopen" | "openlast" | "mido" | "midopen" | "openmid" | "op" => Open,
        "high" | "h" | "max" | "highprice" | "pricehigh" | "midh" | "midhigh" | "hi" | "highest" => High,
        "low" | "l" | "min" | "lowprice" | "pricelow" | "midl" | "midlow" | "lo" | "lowest" => Low,
        "close" | "c" | "closeprice" | "closelast" | "priceclose" | "midc" | "midclose" | "cl" => Close,
        "last" | "price" | "settle" | "settlement" | "lastprice" | "latest" => LateClose,
        "adjclose" | "adjustedclose" | "adjusted" | "closeadj" => LateClose,
        "volume" | "vol" | "v" | "qty" | "quantity" | "totaltradequantity" | "volumetraded" | "basevolume"
        | "volumefrom" => Volume(1),
        "tickvol" | "tickvolume" => Volume(0),
        "ticks" | "trades" => Volume(3),
        "realvolume" | "totalvolume" | "shares" | "volumebase" => Volume(2),
        "symbol" | "tic" | "ticker" | "instrument" | "asset" | "code" | "pair" | "name" | "security" | "contract"
        | "stock" | "sym" | "tradingsymbol" | "instrumentid" | "symbolid" | "coin" | "market" | "tscode"
        | "stockcode" | "secid" => Symbol,
        "complete" | "confirm" | "confirmed" | "isclosed" | "iscomplete" | "isfinal" => Finished,
        "bidopen" | "openbid" | "bido" => Bid(0),
        "bidhigh" | "highbid" | "bidh" => Bid(1),
        "bidlow" | "lowbid" | "bidl" => Bid(2),
        "bidclose" | "closebid" | "bidc" => Bid(3),
        "askopen" | "openask" | "asko" => Ask(0),
        "askhigh" | "highask" | "askh" => Ask(1),
        "asklow" | "lowask" | "askl" => Ask(2),
        "askclose" | "closeask" | "askc" => Ask(3),
        _ => return None,
    })
}

/// A name's letters and digits in lower case, without leading numbering (`1. open`, `<OPEN>`, `Open_Price`).
pub(crate) fn normalise_name(name: &str) -> String {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let letters = plain.trim_start_matches(|c: char| c.is_ascii_digit());
    if letters.is_empty() { plain } else { letters.to_string() }
}

/// `AAPL.Open`, `BTC:open`, `Open_AAPL`, `('Open', 'AAPL')`: the symbol and the price or volume of a wide table.
pub(crate) fn split_wide_name(name: &str) -> Option<(String, Role)> {
    let name = name.trim_matches(['(', ')', ' ']).replace('\'', "");
    let cuts = [':', '.', '|', ',', '_', ' ', '/', '-'];
    for cut in cuts {
        for (at, _) in name.match_indices(cut) {
            let (left, right) = (name[..at].trim(), name[at + cut.len_utf8()..].trim());
            for (symbol, field) in [(left, right), (right, left)] {
                let price = column_role(field)
                    .filter(|r| matches!(r, Role::Open | Role::High | Role::Low | Role::Close | Role::Volume(_)));
                if let Some(found) = price
                    && !symbol.is_empty()
                    && column_role(symbol).is_none()
                    && field.len() > 1
                    && !["adj", "adjusted", "prev", "previous"].contains(&normalise_name(symbol).as_str())
                {
                    return Some((symbol.to_string(), found));
                }
            }
        }
    }
    None
}

/// What a file's name tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FileName {
    /// The symbol; the whole stem where nothing better is found.
    pub symbol: String,
    /// `5m`, `M5`, `PT5M`, `1d`, …
    pub timeframe: Option<Timeframe>,
    /// A bid or ask file.
    pub side: Option<Side>,
    /// freqtrade's `-futures`, `-mark`, `-funding_rate`.
    pub words: Vec<String>,
    /// The timeframe is stated beyond doubt: the file is one of our own.
    pub stated: bool,
}

/// Which side of the book a file's prices are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Bid,
    Ask,
}

/// Words in file names that are neither symbol nor timeframe.
const NOISE: &[&str] = &[
    "freqtrade",
    "binance",
    "yahoo",
    "yfinance",
    "fxcm",
    "histdata",
    "dat",
    "ascii",
    "ccxt",
    "arrays",
    "ohlcv",
    "ohlc",
    "data",
    "candles",
    "klines",
    "kline",
    "bars",
    "csv",
    "spot",
    "futures",
    "trade",
    "quote",
    "mt5",
    "mt4",
    "metatrader",
    "coinbase",
    "bitfinex",
    "bittrex",
    "kraken",
    "oanda",
    "history",
    "historical",
    "hist",
    "stock",
    "stocks",
    "prices",
    "price",
    "export",
    "train",
    "test",
    "sample",
    "backtesting",
    "py",
    "gym",
    "anytrading",
    "forex",
    "cryptodatadownload",
    "nse",
    "nasdaq",
    "quandl",
    "wiki",
    "barchart",
    "zipline",
    "csvdir",
    "adj",
    "adjusted",
    "with",
    "holes",
    "mark",
    "funding",
    "rate",
    "table",
    "minute",
    "daily",
    "hour",
];

/// Reads symbol, timeframe and side out of a file's name.
pub(crate) fn parse_file_name(stem: &str) -> FileName {
    let mut found = FileName::default();
    let mut stem = stem;
    // The dots of `.csv.gz` and the like.
    for ending in [
        ".gz", ".zip", ".csv", ".txt", ".tsv", ".json", ".jsonl", ".parquet", ".feather", ".arrow", ".ipc", ".npz",
        ".npy", ".pq",
    ] {
        stem = strip_ending(stem, ending);
    }
    for ending in [".gz", ".csv", ".txt", ".json"] {
        stem = strip_ending(stem, ending);
    }
    // freqtrade: BTC_USDT-5m, BTC_USDT_USDT-5m-futures.
    if let Some((pair, rest)) = stem.split_once('-') {
        let mut rest = rest.split('-');
        let parts: Vec<&str> = pair.split('_').collect();
        if let Some(Ok(timeframe)) = rest.next().map(str::parse::<Timeframe>)
            && (2..=3).contains(&parts.len())
            && parts.iter().all(|p| !p.is_empty() && p.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()))
        {
            found.symbol =
                if parts.len() == 3 { format!("{}/{}:{}", parts[0], parts[1], parts[2]) } else { parts.join("/") };
            found.timeframe = Some(timeframe);
            found.words = rest.map(str::to_lowercase).collect();
            return found;
        }
    }
    let tokens: Vec<&str> = stem.split(['_', '-', ' ', '(', ')', ',', '@', '+']).filter(|t| !t.is_empty()).collect();
    let mut symbol: Vec<&str> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let lower = token.to_lowercase();
        found.words.push(lower.clone());
        if lower == "bid" || lower == "ask" {
            found.side = Some(if lower == "bid" { Side::Bid } else { Side::Ask });
        } else if let Some(timeframe) = parse_timeframe(token, at > 0) {
            found.timeframe.get_or_insert(timeframe);
        } else if token.chars().all(|c| c.is_ascii_digit()) || NOISE.contains(&lower.as_str()) || is_date(token) {
        } else if found.timeframe.is_none() {
            symbol.push(token);
        }
    }
    // Capital letters are a ticker, small ones a description; without capitals the first word has to do.
    let capital = |t: &&&str| t.chars().any(|c| c.is_ascii_uppercase()) && !t.chars().any(|c| c.is_ascii_lowercase());
    let tickers: Vec<&str> = symbol.iter().filter(capital).copied().collect();
    // Written as the file writes it where the parts stand side by side: BRK-A, ADA_BTC.
    let between = |a: &str, b: &str| b.as_ptr().addr() - a.as_ptr().addr();
    let joined = match (tickers.first(), tickers.last()) {
        (Some(first), Some(last)) => {
            let from = between(stem, first);
            let whole = &stem[from..between(stem, last) + last.len()];
            if whole.len() < tickers.iter().map(|t| t.len() + 1).sum() { whole.to_string() } else { tickers.join("_") }
        }
        _ => symbol.first().copied().unwrap_or_default().to_uppercase(),
    };
    found.symbol = if joined.is_empty() { stem.to_uppercase() } else { joined };
    found
}

fn strip_ending<'a>(stem: &'a str, ending: &str) -> &'a str {
    let at = stem.len().wrapping_sub(ending.len());
    match stem.get(at..) {
        Some(tail) if tail.eq_ignore_ascii_case(ending) => &stem[..at],
        _ => stem,
    }
}

fn parse_timeframe(token: &str, not_first: bool) -> Option<Timeframe> {
    let lower = token.to_lowercase();
    // Bare words such as `day` count, single letters and plain numbers do not.
    let shaped =
        token.len() >= 2 && token.chars().any(|c| c.is_ascii_digit()) && token.chars().any(|c| c.is_ascii_alphabetic());
    let word = ["daily", "hourly", "minute", "weekly", "monthly"].contains(&lower.as_str());
    let d = lower == "d" && not_first;
    if d { Some(Timeframe::D1) } else { (shaped || word).then(|| token.parse().ok())? }
}

fn is_date(token: &str) -> bool {
    let digits = token.chars().filter(char::is_ascii_digit).count();
    digits >= 4 && token.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'T' || c == 'Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_parsed() {
        for (name, symbol, timeframe) in [
            ("BTC_USDT-5m.feather", "BTC/USDT", Some("5m")),
            ("BTC_USDT_USDT-1h-futures.feather", "BTC/USDT:USDT", Some("1h")),
            ("BTCUSDT-1m-2024-01.zip", "BTCUSDT", Some("1m")),
            ("EURUSD_H1.csv", "EURUSD", Some("1h")),
            ("AAPL.csv", "AAPL", None),
            ("XAGUSD_PT5M_20230918_012000-20231005_095500.csv", "XAGUSD", Some("5m")),
            ("fxcm_USDJPY_M1_2013_bid.csv", "USDJPY", Some("1m")),
            ("freqtrade_ADA_BTC_M5.feather", "ADA_BTC", Some("5m")),
            ("BTC_USDT-1d.json.gz", "BTC/USDT", Some("1d")),
            ("^NSEI.csv", "^NSEI", None),
            ("DAT_ASCII_ETXEUR_M1_2010.csv", "ETXEUR", Some("1m")),
            ("RELIANCE.NS.csv", "RELIANCE.NS", None),
            ("aapl.csv", "AAPL", None),
            ("Coinbase_BTCUSD_1h.csv", "BTCUSD", Some("1h")),
            ("CZCE_CF_P1D_20160104_160000-20230927_160000.csv", "CZCE_CF", Some("1d")),
            ("0700.HK.csv", "0700.HK", None),
        ] {
            let found = parse_file_name(name);
            assert_eq!(
                (found.symbol.as_str(), found.timeframe.map(|t| t.to_string())),
                (symbol, timeframe.map(str::to_string)),
                "{name}"
            );
        }
        assert_eq!(parse_file_name("fxcm_USDJPY_M1_2013_ask.csv").side, Some(Side::Ask));
    }

    #[test]
    fn column_names_are_recognised() {
        for (name, expected) in [
            ("<OPEN>", Some(Role::Open)),
            ("1. open", Some(Role::Open)),
            ("Close/Last", Some(Role::Close)),
            ("Adj Close", Some(Role::LateClose)),
            ("TIC", Some(Role::Symbol)),
            ("open_time", Some(Role::Time(0))),
            ("BidClose", Some(Role::Bid(3))),
            ("rsi", None),
            ("", None),
            ("__index_level_0__", Some(Role::Time(4))),
            ("mid.h", Some(Role::High)),
            ("%Deliverble", None),
            ("Prev Close", None),
        ] {
            assert_eq!(column_role(name), expected, "{name}");
        }
        assert_eq!(split_wide_name("AAPL.Open"), Some(("AAPL".into(), Role::Open)));
        assert_eq!(split_wide_name("BTC:volume"), Some(("BTC".into(), Role::Volume(1))));
        assert_eq!(split_wide_name("('Close', 'BRK-B')"), Some(("BRK-B".into(), Role::Close)));
        assert_eq!(split_wide_name("close_BRK.B"), Some(("BRK.B".into(), Role::Close)));
        assert_eq!(split_wide_name("Adj. Open"), None);
        assert_eq!(split_wide_name("Prev Close"), None);
        assert_eq!(split_wide_name("sma_20"), None);
    }
}
