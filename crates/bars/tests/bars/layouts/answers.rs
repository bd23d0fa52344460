//! What the large venues and vendors answer over REST: columns without names in any order, numbers as strings, rows in
//! objects, newest first. Every sample is made here; every one is read right or refused by name.

use super::{HOUR_MS, JAN_2024_MS, day};
use bars::Options;
use std::fmt::Write as _;

/// One made bar: seconds since 1970, open, high, low, close, volume, trades, average price.
#[derive(Clone, Copy)]
struct Made {
    t: i64,
    o: f64,
    h: f64,
    l: f64,
    c: f64,
    v: f64,
    n: u64,
    w: f64,
}

/// A walk around `level`; the open follows the close before.
fn walk(n: usize, level: f64, at: impl Fn(usize) -> i64) -> Vec<Made> {
    let mut state = 7u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut price = (level * 100.0) as i64;
    let cents = |x: i64| x as f64 / 100.0;
    (0..n)
        .map(|i| {
            let open = price + draw(3) as i64 - 1;
            let close = open + draw(200) as i64 - 100;
            let (high, low) = (open.max(close) + 1 + draw(60) as i64, open.min(close) - 1 - draw(60) as i64);
            price = close;
            let v = (1 + draw(9_000)) as f64 / 100.0;
            let w = cents((high + low) / 2);
            Made { t: at(i), o: cents(open), h: cents(high), l: cents(low), c: cents(close), v, n: 1 + draw(900), w }
        })
        .collect()
}

/// 24 hours of a coin, oldest first.
fn hours() -> Vec<Made> {
    walk(24, 30_000.0, |i| (JAN_2024_MS + HOUR_MS * i as i64) / 1000)
}

/// 24 minutes of a share from 14:30 UTC on.
fn minutes() -> Vec<Made> {
    walk(24, 180.0, |i| 1_704_205_800 + 60 * i as i64)
}

/// The rows of an answer.
fn rows(bars: &[Made], row: impl Fn(&Made) -> String) -> String {
    format!("[{}]", bars.iter().map(row).collect::<Vec<_>>().join(","))
}

fn newest_first(mut bars: Vec<Made>) -> Vec<Made> {
    bars.reverse();
    bars
}

/// What was read: format, symbols, classes, and whether time, prices and volume of every bar are those made.
fn read(name: &str, json: &str, made: &[Made]) -> String {
    let (market, audit) = match bars::read_bytes(name, json.as_bytes(), &Options::default()) {
        Ok(read) => read,
        Err(error) => return format!("error {error}"),
    };
    let mut out = audit.format.clone();
    for b in &market.bars {
        let same = b.len() == made.len()
            && made.iter().enumerate().all(|(i, m)| {
                (b.start[i], b.open[i], b.high[i], b.low[i], b.close[i]) == (m.t * 1_000_000_000, m.o, m.h, m.l, m.c)
            });
        let volume = match () {
            () if b.volume.is_empty() => "no volume",
            () if made.iter().zip(&b.volume).all(|(m, v)| (m.v - v).abs() < 1e-9) => "volume",
            () if made.iter().zip(&b.volume).all(|(m, v)| *v == (m.v * 100.0).round()) => "volume in hundredths",
            () => "ANOTHER VOLUME",
        };
        let _ = write!(out, "; {} {} {} {volume}", b.symbol, b.timeframe, if same { "right" } else { "WRONG" });
        b.extras.iter().for_each(|(name, _)| out.push_str(&format!(" +{name}")));
    }
    for why in audit.files[0].why.iter().filter(|w| w.starts_with("left out") || w.contains("only")) {
        let _ = write!(out, "; {why}");
    }
    audit.warnings.iter().filter(|w| w.contains("unfinished")).for_each(|w| out.push_str(&format!("; {}", &w[..31])));
    out
}

#[test]
fn kraken() {
    let row = |m: &Made| format!(r#"[{},"{}","{}","{}","{}","{}","{}",{}]"#, m.t, m.o, m.h, m.l, m.c, m.w, m.v, m.n);
    let answer = |rows: String| format!(r#"{{"error":[],"result":{{"XXBTZUSD":{rows},"last":1704153600}}}}"#);
    let left = "left out: column 6 (average price, between low and high), \
                column 8 (whole numbers, perhaps a count of trades)";
    assert_eq!(
        read("answer.json", &answer(rows(&hours(), row)), &hours()),
        format!("ccxt arrays (JSON); XBTUSD 1h right volume; {left}")
    );
    // Hours without a trade have the average 0.
    let mut thin = hours();
    for i in (1..thin.len()).filter(|i| i % 2 == 1) {
        let c = thin[i - 1].c;
        thin[i] = Made { o: c, h: c, l: c, c, v: 0.0, n: 0, w: 0.0, ..thin[i] };
    }
    assert_eq!(
        read("answer.json", &answer(rows(&thin, row)), &thin),
        format!("ccxt arrays (JSON); XBTUSD 1h right volume; {left}")
    );
    assert_eq!(
        read("answer.json", &answer(rows(&hours()[..3], row)), &hours()[..3]),
        format!("ccxt arrays (JSON); XBTUSD 1h right volume; {left}")
    );
    // Its downloads have no average and no header.
    let csv: String =
        hours().iter().map(|m| format!("{},{},{},{},{},{},{}\n", m.t, m.o, m.h, m.l, m.c, m.v, m.n)).collect();
    assert_eq!(
        read("XBTUSD_60.csv", &csv, &hours()),
        "CSV without column names; XBTUSD 1h right volume; \
         left out: column 7 (whole numbers, perhaps a count of trades)"
    );
}

#[test]
fn coinbase_bitstamp_and_bitfinex() {
    let newest = newest_first(hours());
    assert_eq!(
        read(
            "BTC-USD.json",
            &rows(&newest, |m| format!("[{},{},{},{},{},{}]", m.t, m.l, m.h, m.o, m.c, m.v)),
            &hours()
        ),
        "JSON arrays (Coinbase order); BTC-USD 1h right volume"
    );
    let candle = |m: &Made| {
        let Made { t, o, h, l, c, v, .. } = m;
        format!(r#"{{"start":"{t}","low":"{l}","high":"{h}","open":"{o}","close":"{c}","volume":"{v}"}}"#)
    };
    assert_eq!(
        read("BTC-USD.json", &format!(r#"{{"candles":{}}}"#, rows(&newest, candle)), &hours()),
        "JSON; BTC-USD 1h right volume"
    );
    let ohlc = |m: &Made| {
        let Made { t, o, h, l, c, v, .. } = m;
        format!(r#"{{"close":"{c}","high":"{h}","low":"{l}","open":"{o}","timestamp":"{t}","volume":"{v}"}}"#)
    };
    assert_eq!(
        read("answer.json", &format!(r#"{{"data":{{"ohlc":{},"pair":"BTC/USD"}}}}"#, rows(&hours(), ohlc)), &hours()),
        "JSON; BTC/USD 1h right volume"
    );
    let bitfinex = |m: &Made| format!("[{},{},{},{},{},{}]", m.t * 1000, m.o, m.c, m.h, m.l, m.v);
    assert_eq!(
        read("BTCUSD.json", &rows(&newest, bitfinex), &hours()),
        "JSON arrays (Jesse and Bitfinex order); BTCUSD 1h right volume"
    );
}

#[test]
fn okx_and_bybit() {
    let okx = |m: &Made, more: String| format!(r#"["{}","{}","{}","{}","{}",{more}]"#, m.t * 1000, m.o, m.h, m.l, m.c);
    let answer = |rows: String| format!(r#"{{"code":"0","msg":"","data":{rows}}}"#);
    let newest = newest_first(hours());
    let last = hours()[23].t;
    let spot = |m: &Made| {
        let turnover = m.v * m.w;
        okx(m, format!(r#""{}","{turnover}","{turnover}","{}""#, m.v, u8::from(m.t != last)))
    };
    assert_eq!(
        read("BTC-USDT.json", &answer(rows(&newest, spot)), &hours()),
        "ccxt arrays (JSON); BTC-USDT 1h right volume; left out: column 7 (turnover, volume times price), \
         column 8 (turnover, volume times price), column 9 (whether the bar is finished); 1 bar is marked as unfinished: "
    );
    // A swap counts contracts first, then coins, then dollars.
    let swap = |m: &Made| okx(m, format!(r#""{}","{}","{}","1""#, (m.v * 1000.0).round(), m.v, m.v * m.w));
    assert_eq!(
        read("BTC-USDT-SWAP.json", &answer(rows(&newest, swap)), &hours()),
        "ccxt arrays (JSON); BTC-USDT-SWAP 1h right volume; \
         left out: column 6 (whole numbers, perhaps a count of trades), column 8 (turnover, volume times price), \
         column 9 (whether the bar is finished)"
    );
    assert_eq!(
        read("BTC-USDT.json", &answer(rows(&newest, |m| okx(m, r#""1""#.into()))), &hours()),
        "ccxt arrays (JSON); BTC-USDT 1h right no volume; left out: column 6 (whether the bar is finished)"
    );
    let bybit = |category: &str, rows: String| {
        format!(
            r#"{{"retCode":0,"retMsg":"OK","result":{{"symbol":"BTCUSDT","category":"{category}","list":{rows}}},
               "retExtInfo":{{}},"time":1704153600000}}"#
        )
    };
    let linear = |m: &Made| okx(m, format!(r#""{}","{}""#, m.v, m.v * m.w));
    let inverse = |m: &Made| okx(m, format!(r#""{}","{}""#, (m.v * m.w).round(), m.v));
    for (category, row, column) in [("linear", &linear as &dyn Fn(&Made) -> String, 7), ("inverse", &inverse, 6)] {
        assert_eq!(
            read("answer.json", &bybit(category, rows(&newest, row)), &hours()),
            format!(
                "ccxt arrays (JSON); BTCUSDT 1h right volume; left out: column {column} (turnover, volume times price)"
            )
        );
    }
}

#[test]
fn kucoin_gate_and_binance() {
    let newest = newest_first(hours());
    let kucoin = |m: &Made| {
        let Made { t, o, h, l, c, v, w, .. } = m;
        format!(r#"["{t}","{o}","{c}","{h}","{l}","{v}","{}"]"#, v * w)
    };
    assert_eq!(
        read("BTC-USDT.json", &format!(r#"{{"code":"200000","data":{}}}"#, rows(&newest, kucoin)), &hours()),
        "JSON arrays (Jesse and Bitfinex order); BTC-USDT 1h right volume; \
         left out: column 7 (turnover, volume times price)"
    );
    let gate = |m: &Made| {
        let Made { t, o, h, l, c, v, w, .. } = m;
        format!(r#"["{t}","{}","{c}","{h}","{l}","{o}","{v}","true"]"#, v * w)
    };
    assert_eq!(
        read("BTC_USDT.json", &rows(&hours(), gate), &hours()),
        "JSON arrays (Gate order); BTC_USDT 1h right volume; left out: column 2 (turnover, volume times price), \
         column 8 (whether the bar is finished)"
    );
    let future = |m: &Made| {
        let Made { t, o, h, l, c, v, w, .. } = m;
        format!(r#"{{"o":"{o}","v":{},"t":{t},"c":"{c}","l":"{l}","h":"{h}","sum":"{}"}}"#, (v * 100.0).round(), v * w)
    };
    assert_eq!(
        read("BTC_USDT.json", &rows(&hours(), future), &hours()),
        "JSON; BTC_USDT 1h right volume in hundredths +sum"
    );
    let binance = |m: &Made| {
        let Made { o, h, l, c, v, w, n, .. } = m;
        let t = m.t * 1000;
        format!(r#"[{t},"{o}","{h}","{l}","{c}","{v}",{},"{}",{n},"1.5","4500.5","0"]"#, t + HOUR_MS - 1, v * w)
    };
    assert_eq!(
        read("BTCUSDT.json", &rows(&hours(), binance), &hours()),
        "Binance kline JSON without header; BTCUSDT 1h right volume +quote_volume +count +taker_buy_volume \
         +taker_buy_quote_volume"
    );
}

#[test]
fn orders_that_no_venue_has() {
    let at = |m: &Made| m.t * 1000;
    // Charts of the web put low before high; open and close are told by what follows what.
    assert_eq!(
        read("X.json", &rows(&hours(), |m| format!("[{},{},{},{},{},{}]", at(m), m.o, m.c, m.l, m.h, m.v)), &hours()),
        "JSON arrays; X 1h right volume"
    );
    assert_eq!(
        read("X.json", &rows(&hours(), |m| format!("[{},{},{},{},{},{}]", at(m), m.c, m.h, m.l, m.o, m.v)), &hours()),
        "JSON arrays; X 1h right volume"
    );
    // Without a row to follow nothing tells them apart: refused, not guessed.
    let two = &hours()[..2];
    let refused = read("X.json", &rows(two, |m| format!("[{},{},{},{},{},{}]", at(m), m.o, m.c, m.l, m.h, m.v)), two);
    assert!(refused.starts_with("error ") && refused.contains("no order of open, high, low, close fits"), "{refused}");
}

#[test]
fn alpaca_polygon_and_tiingo() {
    let iso = |t: i64| files::time::rfc3339(t * 1_000_000_000);
    let alpaca = |m: &Made| {
        let Made { o, h, l, c, v, n, w, .. } = m;
        format!(
            r#"{{"t":"{}","o":{o},"h":{h},"l":{l},"c":{c},"v":{},"n":{n},"vw":{w}}}"#,
            iso(m.t),
            (v * 100.0).round()
        )
    };
    let list = rows(&minutes(), alpaca);
    let one = format!(r#"{{"bars":{list},"symbol":"AAPL","next_page_token":null}}"#);
    assert_eq!(read("answer.json", &one, &minutes()), "JSON; AAPL 1m right volume in hundredths +n +vw");
    let many = format!(r#"{{"bars":{{"AAPL":{list}}},"next_page_token":null}}"#);
    assert_eq!(read("answer.json", &many, &minutes()), "JSON; AAPL 1m right volume in hundredths +n +vw");
    let other = rows(&walk(24, 400.0, |i| minutes()[i].t), alpaca);
    let two = format!(r#"{{"bars":{{"AAPL":{list},"MSFT":{other}}},"next_page_token":null}}"#);
    assert_eq!(
        read("answer.json", &two, &minutes()),
        "JSON; AAPL 1m right volume in hundredths +n +vw; MSFT 1m WRONG volume in hundredths +n +vw"
    );
    let polygon = |m: &Made| {
        let Made { o, h, l, c, v, n, w, .. } = m;
        format!(
            r#"{{"v":{},"vw":{w},"o":{o},"c":{c},"h":{h},"l":{l},"t":{},"n":{n}}}"#,
            (v * 100.0).round(),
            m.t * 1000
        )
    };
    let answer = format!(
        r#"{{"ticker":"AAPL","queryCount":24,"resultsCount":24,"adjusted":true,"results":{},"status":"OK","count":24}}"#,
        rows(&minutes(), polygon)
    );
    assert_eq!(read("answer.json", &answer, &minutes()), "JSON; AAPL 1m right volume in hundredths +vw +n");
    let flat: String = std::iter::once("ticker,volume,open,close,high,low,window_start,transactions\n".to_string())
        .chain(minutes().iter().map(|m| {
            let Made { o, h, l, c, v, n, .. } = m;
            format!("AAPL,{},{o},{c},{h},{l},{},{n}\n", (v * 100.0).round(), m.t * 1_000_000_000)
        }))
        .collect();
    assert_eq!(
        read("2024-01-02.csv", &flat, &minutes()),
        "CSV with header; AAPL 1m right volume in hundredths +transactions"
    );
    let days = walk(20, 180.0, |i| crate::at(&format!("{} 00:00:00", day(i))) / 1_000_000_000);
    let tiingo = |m: &Made| {
        let Made { o, h, l, c, v, .. } = m;
        format!(
            r#"{{"date":"{}","close":{c},"high":{h},"low":{l},"open":{o},"volume":{v},"adjClose":{},"adjVolume":{v},
               "divCash":0.0,"splitFactor":1.0}}"#,
            iso(m.t).replace('Z', ".000Z"),
            c / 2.0
        )
    };
    assert_eq!(
        read("AAPL.json", &rows(&days, tiingo), &days),
        "JSON; AAPL 1d right volume +adjClose +adjVolume +divCash +splitFactor"
    );
    let coin = |m: &Made| {
        let Made { o, h, l, c, v, n, w, .. } = m;
        let date = iso(m.t).replace('Z', "+00:00");
        format!(
            r#"{{"tradesDone":{n},"close":{c},"volume":{v},"open":{o},"date":"{date}","high":{h},"low":{l},
               "volumeNotional":{}}}"#,
            v * w
        )
    };
    let coins = format!(
        r#"[{{"ticker":"btcusd","baseCurrency":"btc","quoteCurrency":"usd","priceData":{}}}]"#,
        rows(&hours(), coin)
    );
    assert_eq!(read("answer.json", &coins, &hours()), "JSON; BTCUSD 1h right volume +tradesDone +volumeNotional");
}

#[test]
fn oanda() {
    let candle = |m: &Made, sides: &[(&str, f64)], complete: bool| {
        let side = |(name, up): &(&str, f64)| {
            let [o, h, l, c] = [m.o, m.h, m.l, m.c].map(|x| x + up);
            format!(r#""{name}":{{"o":"{o}","h":"{h}","l":"{l}","c":"{c}"}}"#)
        };
        let prices: Vec<String> = sides.iter().map(side).collect();
        let time = files::time::rfc3339(m.t * 1_000_000_000).replace('Z', ".000000000Z");
        format!(r#"{{"complete":{complete},"volume":{},"time":"{time}",{}}}"#, m.v, prices.join(","))
    };
    let answer = |sides: &[(&str, f64)], all: bool| {
        let last = hours()[23].t;
        let rows = rows(&hours(), |m| candle(m, sides, all || m.t != last));
        format!(r#"{{"instrument":"EUR_USD","granularity":"H1","candles":{rows}}}"#)
    };
    assert_eq!(
        read("answer.json", &answer(&[("mid", 0.0)], false), &hours()),
        "JSON; EUR_USD 1h right volume +complete; 1 bar is marked as unfinished: "
    );
    assert_eq!(
        read("answer.json", &answer(&[("bid", -0.25), ("ask", 0.25)], true), &hours()),
        "JSON; EUR_USD 1h right volume +complete +spread"
    );
    assert_eq!(
        read("answer.json", &answer(&[("bid", 0.0)], true), &hours()),
        "JSON; EUR_USD 1h right volume +complete; there are bid prices only: they are used as they are"
    );
}

#[test]
fn yahoo_chart() {
    let list = |of: &dyn Fn(&Made) -> String| rows(&minutes(), of);
    let answer = |more: &str, periods: &str| {
        format!(
            r#"{{"chart":{{"result":[{{"meta":{{"currency":"USD","symbol":"AAPL","exchangeName":"NMS","gmtoffset":-18000,
            "currentTradingPeriod":{{"pre":{{"start":1,"end":2}}}},{periods}"validRanges":["1d","5d","1mo"]}},
            "timestamp":{},"events":{{"dividends":{{"1704205800":{{"amount":0.24,"date":1704205800}}}}}},
            "indicators":{{"quote":[{{"volume":{},"low":{},"open":{},"high":{},"close":{}}}]{more}}}}}],"error":null}}}}"#,
            list(&|m| m.t.to_string()),
            list(&|m| m.v.to_string()),
            list(&|m| m.l.to_string()),
            list(&|m| m.o.to_string()),
            list(&|m| m.h.to_string()),
            list(&|m| m.c.to_string()),
        )
    };
    let periods = r#""tradingPeriods":[[{"timezone":"EST","start":1,"end":2}]],"#;
    assert_eq!(read("answer.json", &answer("", periods), &minutes()), "JSON; AAPL 1m right volume");
    let adjusted = format!(r#","adjclose":[{{"adjclose":{}}}]"#, list(&|m| (m.c / 2.0).to_string()));
    assert_eq!(read("answer.json", &answer(&adjusted, ""), &minutes()), "JSON; AAPL 1m right volume +adjclose");
    let missing = r#"{"chart":{"result":null,"error":{"code":"Not Found","description":"No data found"}}}"#;
    assert!(read("answer.json", missing, &[]).starts_with("error "));
}

#[test]
fn other_vendors() {
    let huobi = |m: &Made| {
        let Made { t, o, h, l, c, v, n, w } = m;
        format!(
            r#"{{"id":{t},"open":{o},"close":{c},"low":{l},"high":{h},"amount":{},"volume":{v},"count":{n}}}"#,
            v * w
        )
    };
    assert_eq!(
        read("btcusdt.json", &format!(r#"{{"status":"ok","data":{}}}"#, rows(&newest_first(hours()), huobi)), &hours()),
        "JSON; BTCUSDT 1h right volume +amount +count"
    );
    let list = |of: &dyn Fn(&Made) -> String| rows(&hours(), of);
    let deribit = format!(
        r#"{{"result":{{"volume":{},"ticks":{},"status":"ok","open":{},"low":{},"high":{},"close":{}}},"jsonrpc":"2.0"}}"#,
        list(&|m| m.v.to_string()),
        list(&|m| (m.t * 1000).to_string()),
        list(&|m| m.o.to_string()),
        list(&|m| m.l.to_string()),
        list(&|m| m.h.to_string()),
        list(&|m| m.c.to_string()),
    );
    assert_eq!(read("BTC-PERPETUAL.json", &deribit, &hours()), "JSON; BTC-PERPETUAL 1h right volume");
    let moex = |m: &Made| {
        let Made { o, h, l, c, v, w, .. } = m;
        let begin = files::time::rfc3339(m.t * 1_000_000_000).replace('T', " ").replace('Z', "");
        format!(r#"[{o},{c},{h},{l},{},{v},"{begin}"]"#, v * w)
    };
    let moex = format!(
        r#"{{"candles":{{"metadata":{{"open":{{"type":"double"}}}},
           "columns":["open","close","high","low","value","volume","begin"],"data":{}}}}}"#,
        rows(&hours(), moex)
    );
    assert_eq!(read("SBER.json", &moex, &hours()), "JSON; SBER 1h right volume +value");
}
