//! Open, high, low, close and volume by the names above them; `positions` has columns without names.

use super::names::{self, FileName, Role};
use super::values::is_epoch;
use super::{Evidence, PriceColumns, Prices};
use files::{Data, format_plural};

pub(super) struct ColumnHeader {
    pub names: Vec<String>,
    pub named: bool,
    pub tickers: Option<Vec<String>>,
    pub format: Option<String>,
}

/// The names of the columns, from the container or from the lines above the data.
pub(super) fn find_header(given: &Evidence<'_>, why: &mut Vec<String>) -> ColumnHeader {
    let width = given.sample.columns.len();
    let container: Vec<String> = given.sample.columns.iter().map(|c| c.name.clone()).collect();
    if given.container != "CSV" {
        let named =
            container.iter().filter(|n| names::column_role(n).is_some() || names::split_wide_name(n).is_some()).count()
                >= 2;
        let nameless = container.iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()));
        return if nameless {
            without_header(given)
        } else {
            ColumnHeader { names: container, named, tickers: None, format: None }
        };
    }
    let score = |line: &Vec<String>| {
        line.iter().filter(|n| names::column_role(n).is_some() || names::split_wide_name(n).is_some()).count()
    };
    let best = given.header.iter().enumerate().max_by_key(|(at, line)| (score(line), std::cmp::Reverse(*at)));
    let Some((at, line)) = best.filter(|(_, line)| score(line) >= 2) else {
        if !given.header.is_empty() {
            why.push(format!(
                "no known column names in {} above the data",
                format_plural(given.header.len() as u64, "line")
            ));
        }
        return without_header(given);
    };
    let mut names = line.clone();
    let mut format = None;
    if names.len() + 1 == width {
        let clock = matches!(given.sample.columns.get(1).map(|c| &c.data), Some(Data::Clock(_)));
        let place = usize::from(clock);
        names.insert(place, if clock { "Time".into() } else { String::new() });
        why.push(format!(
            "the header names {} columns, rows have {width}: {}",
            width - 1,
            if clock { "date and time share one name" } else { "the first column has no name" }
        ));
    }
    names.resize(width, String::new());
    // yfinance writes the tickers on a line of their own.
    let other = given.header.iter().enumerate().find(|(i, other)| {
        let filled = other.iter().filter(|c| !c.is_empty()).count();
        *i != at && filled >= 4 && other.len() + 1 >= width && score(other) < 3
    });
    let mut tickers = None;
    if let Some((_, other)) = other {
        let mut line = other.clone();
        line.resize(width, String::new());
        let label =
            ["ticker", "tickers", "symbol"].contains(&names::normalise_name(&line[0]).as_str()) || line[0].is_empty();
        if label || names::column_role(&line[0]).is_none() {
            line[0] = String::new();
            let mut distinct: Vec<&String> = line.iter().filter(|c| !c.is_empty()).collect();
            distinct.sort();
            distinct.dedup();
            why.push(format!(
                "line {} of the header names {}",
                other_line(given, other),
                format_plural(distinct.len() as u64, "ticker")
            ));
            format = Some(match given.header.len() {
                3 => "yfinance CSV, three-line header".to_string(),
                _ => "yfinance CSV, two-line header".to_string(),
            });
            // A third line names the index; the first line's `Price` labels the others.
            if given
                .header
                .iter()
                .any(|l| l.first().is_some_and(|c| matches!(names::column_role(c), Some(Role::Time(_)))))
            {
                names[0] = "Date".into();
            }
            tickers = Some(line);
        }
    }
    if format.is_none() {
        format = name_csv_format(&names, given);
    }
    if at > 0 && tickers.is_none() {
        why.push(format!(
            "{} above the header skipped: `{}`",
            format_plural(at as u64, "line"),
            shorten(&given.header[0].join(","))
        ));
    }
    ColumnHeader { names, named: true, tickers, format }
}

/// No names at all; Binance's twelve columns are known by their two epochs.
fn without_header(given: &Evidence<'_>) -> ColumnHeader {
    const BINANCE: [&str; 12] = [
        "open_time",
        "open",
        "high",
        "low",
        "close",
        "volume",
        "close_time",
        "quote_volume",
        "count",
        "taker_buy_volume",
        "taker_buy_quote_volume",
        "ignore",
    ];
    let columns = &given.sample.columns;
    let epoch = |at: usize| columns.get(at).is_some_and(|c| is_epoch(&c.data));
    if given.lean.is_none() && (11..=12).contains(&columns.len()) && epoch(0) && epoch(6) {
        let names = BINANCE[..columns.len()].iter().map(|n| n.to_string()).collect();
        let format = Some(format!("Binance kline {} without header", given.container));
        return ColumnHeader { names, named: true, tickers: None, format };
    }
    ColumnHeader { names: vec![String::new(); columns.len()], named: false, tickers: None, format: None }
}

fn other_line(given: &Evidence<'_>, line: &Vec<String>) -> usize {
    given.header.iter().position(|l| l == line).map_or(0, |at| at + 1)
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A name for well-known headers.
fn name_csv_format(names: &[String], given: &Evidence<'_>) -> Option<String> {
    let keys: Vec<String> = names.iter().map(|n| names::normalise_name(n)).collect();
    let has = |k: &str| keys.iter().any(|x| x == k);
    let angle = names.iter().any(|n| n.starts_with('<'));
    Some(
        if angle && has("ticker") {
            "Stooq CSV"
        } else if angle {
            "MetaTrader 5 CSV"
        } else if has("opentime") && has("closetime") {
            "Binance kline CSV"
        } else if has("tic") && has("date") {
            "FinRL long CSV"
        } else if has("exdividend") {
            "Quandl WIKI CSV"
        } else if has("adjclose") && has("close") && (has("date") || has("datetime")) {
            "Yahoo CSV with Adj Close"
        } else if given.header.first().is_some_and(|l| l.join(",").to_lowercase().contains("cryptodatadownload")) {
            "CryptoDataDownload CSV"
        } else if has("deliverablevolume") {
            "NSE daily report CSV"
        } else {
            return Some("CSV with header".into());
        }
        .into(),
    )
}

/// yfinance's ticker line: one group for each ticker.
pub(super) fn group_by_ticker(roles: &[Option<Role>], tickers: &[String]) -> Vec<PriceColumns> {
    let mut order: Vec<&String> = Vec::new();
    for t in tickers.iter().filter(|t| !t.is_empty()) {
        if !order.contains(&t) {
            order.push(t);
        }
    }
    let group = |ticker: &String| {
        let at = |role: Role| (0..roles.len()).find(|i| roles[*i] == Some(role) && tickers[*i] == *ticker);
        let close = at(Role::Close).or_else(|| at(Role::LateClose))?;
        Some(PriceColumns {
            symbol: Some(ticker.clone()),
            prices: Prices::Ohlc([at(Role::Open)?, at(Role::High)?, at(Role::Low)?, close]),
            volume: at(Role::Volume(1)),
        })
    };
    order.into_iter().filter_map(group).collect()
}

/// Open, high, low, close by their names.
pub(super) fn group_by_name(
    names: &[String],
    roles: &[Option<Role>],
    file: &FileName,
    why: &mut Vec<String>,
) -> Option<PriceColumns> {
    let at = |role: Role| roles.iter().position(|r| *r == Some(role));
    let volume = (0..roles.len())
        .filter_map(|i| if let Some(Role::Volume(rank)) = roles[i] { Some((rank, i)) } else { None })
        .min()
        .map(|(_, i)| i);
    // `volume_btc` beside `volume`: the coin's own is in units.
    let coin = names.iter().position(|n| {
        let key = names::normalise_name(n);
        key.strip_prefix("volume").is_some_and(|coin| coin.len() >= 3 && file.symbol.to_lowercase().starts_with(coin))
    });
    let volume = coin.or(volume);
    let quad = |side: fn(usize) -> Role| Some([at(side(0))?, at(side(1))?, at(side(2))?, at(side(3))?]);
    if let (Some(bid), Some(ask)) = (quad(Role::Bid), quad(Role::Ask)) {
        why.push("bid and ask columns: prices are their middle, `spread` is an extra column".into());
        return Some(PriceColumns { symbol: None, prices: Prices::Quote { bid, ask }, volume });
    }
    let mid = [Role::Open, Role::High, Role::Low].iter().all(|role| at(*role).is_some());
    if let Some(prices) = quad(Role::Bid).or_else(|| quad(Role::Ask)).filter(|_| !mid) {
        let side = if quad(Role::Bid).is_some() { "bid" } else { "ask" };
        why.push(format!("there are {side} prices only: they are used as they are"));
        return Some(PriceColumns { symbol: None, prices: Prices::Ohlc(prices), volume });
    }
    let late = || {
        let late = (0..roles.len()).filter(|i| roles[*i] == Some(Role::LateClose));
        late.min_by_key(|i| names::normalise_name(&names[*i]).contains("adj"))
    };
    let close = at(Role::Close).or_else(late)?;
    if roles[close] == Some(Role::LateClose) {
        why.push(format!("column `{}` is used as the close; there is no other", names[close]));
    }
    Some(PriceColumns {
        symbol: None,
        prices: Prices::Ohlc([at(Role::Open)?, at(Role::High)?, at(Role::Low)?, close]),
        volume,
    })
}

/// A wide table: `AAPL.Open`, `BTC:close`.
pub(super) fn group_wide_table(names: &[String], why: &mut Vec<String>) -> Vec<PriceColumns> {
    let cells: Vec<Option<(String, Role)>> = names.iter().map(|n| names::split_wide_name(n)).collect();
    let mut symbols: Vec<&String> = Vec::new();
    for (symbol, _) in cells.iter().flatten() {
        if !symbols.contains(&symbol) {
            symbols.push(symbol);
        }
    }
    let at = |symbol: &String, role: fn(&Role) -> bool| {
        cells.iter().position(|c| c.as_ref().is_some_and(|(s, r)| s == symbol && role(r)))
    };
    let groups: Vec<PriceColumns> = symbols
        .into_iter()
        .filter_map(|symbol| {
            let prices = [
                at(symbol, |r| *r == Role::Open)?,
                at(symbol, |r| *r == Role::High)?,
                at(symbol, |r| *r == Role::Low)?,
                at(symbol, |r| *r == Role::Close)?,
            ];
            let volume = at(symbol, |r| matches!(r, Role::Volume(_)));
            Some(PriceColumns { symbol: Some(symbol.clone()), prices: Prices::Ohlc(prices), volume })
        })
        .collect();
    if !groups.is_empty() {
        let list: Vec<&str> = groups.iter().take(5).filter_map(|g| g.symbol.as_deref()).collect();
        why.push(format!(
            "column names carry the symbol: {}{}",
            list.join(", "),
            if groups.len() > 5 { ", …" } else { "" }
        ));
    }
    groups
}

pub(super) fn lean_columns_by_position(lean: &crate::scan::lean::Lean, width: usize) -> Option<PriceColumns> {
    if lean.quote {
        return (width >= 11).then(|| PriceColumns {
            symbol: Some(lean.symbol.clone()),
            prices: Prices::Quote { bid: [1, 2, 3, 4], ask: [6, 7, 8, 9] },
            volume: None,
        });
    }
    (width >= 6).then(|| PriceColumns {
        symbol: Some(lean.symbol.clone()),
        prices: Prices::Ohlc([1, 2, 3, 4]),
        volume: Some(5),
    })
}
