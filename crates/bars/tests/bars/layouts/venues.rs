//! What venues, brokers and frameworks write: Yahoo, MetaTrader, Binance, qlib, LEAN.

use super::{HOUR_MS, JAN_2024_MS, check, check_folder, day};
use crate::make::{self, bar, minute, ohlcv, text};

#[test]
fn yahoo_and_yfinance() {
    check(
        "MSFT.csv",
        &text("Date,Open,High,Low,Close,Adj Close,Volume", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},{o},{h},{l},{c},{},{v}", day(i), c * 0.5)
        }),
        "yahoo csv with adj close = fine\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 Adj Close=53",
    );
    check(
        "MSFT.csv",
        &text("Datetime,Open,High,Low,Close,Adj Close,Volume,Dividends,Stock Splits", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{} 00:00:00-05:00,{o},{h},{l},{c},{c},{v},0.0,0.0", day(i))
        }),
        "yahoo csv with adj close = fine\n\
         MSFT 1d equity 6: 2024-01-02 05:00..2024-01-03 05:00 | 2024-01-09 05:00..2024-01-10 05:00 | 105 107 103.5 106 60 Adj Close=106 Dividends=0 Stock Splits=0",
    );
    let chlov = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{},{c},{h},{l},{o},{v}", day(i))
    };
    check(
        "download.csv",
        &text("Price,Close,High,Low,Open,Volume\nTicker,AAPL,AAPL,AAPL,AAPL,AAPL\nDate,,,,,", 6, chlov),
        "yfinance csv, three-line header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    check(
        "download.csv",
        &text("Date,Close,High,Low,Open,Volume\n,AAPL,AAPL,AAPL,AAPL,AAPL", 6, chlov),
        "yfinance csv, two-line header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    let adj = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{},{},{c},{h},{l},{o},{v}", day(i), c / 2.0)
    };
    check(
        "download.csv",
        &text("Price,Adj Close,Close,High,Low,Open,Volume\nTicker,AAPL,AAPL,AAPL,AAPL,AAPL,AAPL\nDate,,,,,,", 6, adj),
        "yfinance csv, three-line header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 Adj Close=53",
    );
    let two = |i: usize| {
        let ([o, h, l, c, v], [p, q, r, s, w]) = (bar(i), bar(i + 50));
        format!("{},{c},{s},{h},{q},{l},{r},{o},{p},{v},{w}", day(i))
    };
    check(
        "download.csv",
        &text(
            "Price,Close,Close,High,High,Low,Low,Open,Open,Volume,Volume\nTicker,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT\nDate,,,,,,,,,,",
            6,
            two,
        ),
        "yfinance csv, three-line header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 155 157 153.5 156 560",
    );
    let grouped = |i: usize| {
        let ([o, h, l, c, v], [p, q, r, s, w]) = (bar(i), bar(i + 50));
        format!("{},{o},{h},{l},{c},{v},{p},{q},{r},{s},{w}", day(i))
    };
    check(
        "download.csv",
        &text(
            "Ticker,AAPL,AAPL,AAPL,AAPL,AAPL,MSFT,MSFT,MSFT,MSFT,MSFT\nPrice,Open,High,Low,Close,Volume,Open,High,Low,Close,Volume\nDate,,,,,,,,,,",
            6,
            grouped,
        ),
        "yfinance csv, three-line header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 155 157 153.5 156 560",
    );
}

#[test]
fn brokers_and_venues() {
    let mt5 = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("2024.01.02\t{:02}:00:00\t{o}\t{h}\t{l}\t{c}\t{v}\t0\t3", i)
    };
    check(
        "EURUSD_H1_202401020000_202401020500.csv",
        &text("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>", 6, mt5),
        "metatrader 5 csv = fine\n\
         EURUSD 1h fx 6: 2024-01-02 00:00..2024-01-02 01:00 | 2024-01-02 05:00..2024-01-02 06:00 | 105 107 103.5 106 60 <VOL>=0 <SPREAD>=3",
    );
    check(
        "EURUSD_D1.csv",
        &text("<DATE>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{}\t{o}\t{h}\t{l}\t{c}\t{v}\t0\t3", day(i).replace('-', "."))
        }),
        "metatrader 5 csv = fine\n\
         EURUSD 1d fx 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 <VOL>=0 <SPREAD>=3",
    );
    let kline = |i: usize, unit: i64| {
        let open = (JAN_2024_MS + HOUR_MS * i as i64) * unit;
        let [o, h, l, c, v] = bar(i);
        format!("{open},{o:.8},{h:.8},{l:.8},{c:.8},{v:.8},{},{:.8},99,5.5,550.0,0", open + HOUR_MS * unit - 1, v * c)
    };
    let header = "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,taker_buy_quote_volume,ignore";
    check(
        "BTCUSDT-1h-2024-01.csv",
        &text("", 6, |i| kline(i, 1)),
        "binance kline csv without header = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60 quote_volume=6360 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    check(
        "BTCUSDT-1h-2024-01.csv",
        &text("", 6, |i| kline(i, 1000)),
        "binance kline csv without header = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60 quote_volume=6360 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    check(
        "BTCUSDT-1h-2024-01.csv",
        &text(header, 6, |i| kline(i, 1)),
        "binance kline csv = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60 quote_volume=6360 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    check(
        "BTCUSDT-1h-2024-01.zip",
        &make::zip(&[("BTCUSDT-1h-2024-01.csv", &text("", 6, |i| kline(i, 1000)))]),
        "binance kline csv without header = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60 quote_volume=6360 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    check_folder(
        &[
            ("spot/BTCUSDT-1h-2024-01.csv", &text("", 4, |i| kline(i, 1))),
            ("spot/BTCUSDT-1h-2025-01.csv", &text("", 3, |i| kline(i + 4, 1000))),
        ],
        "binance kline csv without header = fine\n\
         BTCUSDT 1h crypto_spot 7: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 06:00..2024-01-01 07:00 | 106 108 104.5 107 70 quote_volume=7490 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    check_folder(
        &[(
            "futures/um/BTCUSDT-1h-2024-01.zip",
            &make::zip(&[("BTCUSDT-1h-2024-01.csv", &text(header, 6, |i| kline(i, 1)))]),
        )],
        "binance kline csv = fine\n\
         BTCUSDT 1h crypto_perp 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60 quote_volume=6360 count=99 taker_buy_volume=5.5 taker_buy_quote_volume=550",
    );
    let scaled = |i: usize| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1000.0) as i64);
        format!("{},{o},{h},{l},{c},{v}", day(i))
    };
    check(
        "AUDUSD_D1.csv",
        &text("Date,Open,High,Low,Close,tick_volume", 6, scaled),
        "csv with header = fine\n\
         AUDUSD 1d fx 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 1.05 1.07 1.035 1.06 60000",
    );
    check(
        "wiki.csv",
        &text(
            "Date,Open,High,Low,Close,Volume,Ex-Dividend,Split Ratio,Adj. Open,Adj. High,Adj. Low,Adj. Close,Adj. Volume",
            6,
            |i| {
                let [o, h, l, c, v] = bar(i);
                format!("{},{o},{h},{l},{c},{v},0.0,1.0,{o},{h},{l},{c},{v}", day(i))
            },
        ),
        "quandl wiki csv = fine\n\
         WIKI 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 Ex-Dividend=0 Split Ratio=1 Adj. Open=105 Adj. High=107 Adj. Low=103.5 Adj. Close=106 Adj. Volume=60",
    );
    let quote = |i: usize| {
        let [o, h, l, c, _] = bar(i);
        format!("{},{o},{h},{l},{c},{},{},{},{}", minute(i), o + 0.5, h + 0.5, l + 0.5, c + 0.5)
    };
    check(
        "EURUSD.csv",
        &text("time,BidOpen,BidHigh,BidLow,BidClose,AskOpen,AskHigh,AskLow,AskClose", 6, quote),
        "csv with header = fine\n\
         EURUSD 1m fx 6: 2024-01-02 00:00..2024-01-02 00:01 | 2024-01-02 00:05..2024-01-02 00:06 | 105.25 107.25 103.75 106.25 - spread=0.5",
    );
    let side = |up: f64| {
        text("timestamp,open,high,low,close", 6, |i| {
            let [o, h, l, c, _] = bar(i).map(|x| x + up);
            format!("{}+00:00,{o},{h},{l},{c}", minute(i))
        })
    };
    check_folder(
        &[("usdjpy-m1-ask.csv", &side(0.25)), ("usdjpy-m1-bid.csv", &side(0.0))],
        "csv with header = fine\n\
         USDJPY 1m fx 6: 2024-01-02 00:00..2024-01-02 00:01 | 2024-01-02 00:05..2024-01-02 00:06 | 105.125 107.125 103.625 106.125 - spread=0.25",
    );
    check(
        "usdjpy-m1-ask.csv",
        &side(0.25),
        "csv with header = fine\n\
         USDJPY 1m fx 6: 2024-01-02 00:00..2024-01-02 00:01 | 2024-01-02 00:05..2024-01-02 00:06 | 105.25 107.25 103.75 106.25 -",
    );
}

#[test]
fn qlib_and_lean() {
    let bin = |start: f32, values: &[f64]| {
        std::iter::once(start).chain(values.iter().map(|v| *v as f32)).flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    };
    let calendar: String = (0..8).map(|i| day(i) + "\n").collect();
    let mut members: Vec<(String, Vec<u8>)> = vec![
        ("calendars/day.txt".into(), calendar.into_bytes()),
        ("instruments/all.txt".into(), b"SH600000\t2024-01-02\t2024-01-11\n".to_vec()),
    ];
    for (symbol, start, n) in [("sh600000", 0usize, 8usize), ("sz000001", 2, 5)] {
        for (k, field) in ["open", "high", "low", "close", "volume"].iter().enumerate() {
            members.push((
                format!("features/{symbol}/{field}.day.bin"),
                bin(start as f32, &(start..start + n).map(|i| bar(i)[k]).collect::<Vec<_>>()),
            ));
        }
        members.push((format!("features/{symbol}/factor.day.bin"), bin(start as f32, &vec![0.5; n])));
    }
    let refs: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (a.as_str(), b.as_slice())).collect();
    check_folder(
        &refs,
        "qlib folder = fine\n\
         SH600000 1d equity 8: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-11 00:00..2024-01-12 00:00 | 107 109 105.5 108 80 factor=0.5\n\
         SZ000001 1d equity 5: 2024-01-04 00:00..2024-01-05 00:00 | 2024-01-10 00:00..2024-01-11 00:00 | 106 108 104.5 107 70 factor=0.5",
    );
    let trade = text("", 6, |i| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1e4) as i64);
        format!("{},{o},{h},{l},{c},{}", 34_200_000 + 60_000 * i, v / 10_000)
    });
    check(
        "equity/usa/minute/spy/20240102_trade.zip",
        &make::zip(&[("20240102_spy_minute_trade.csv", &trade)]),
        "lean zipped csv, 1m trades = fine\n\
         SPY 1m equity 6: 2024-01-02 14:30..2024-01-02 14:31 | 2024-01-02 14:35..2024-01-02 14:36 | 105 107 103.5 106 60",
    );
    let quote = text("", 6, |i| {
        let [o, h, l, c, _] = bar(i);
        format!("{},{o},{h},{l},{c},7,{},{},{},{},9", 60_000 * i, o + 0.5, h + 0.5, l + 0.5, c + 0.5)
    });
    check(
        "forex/oanda/minute/eurusd/20240702_quote.zip",
        &make::zip(&[("20240702_eurusd_minute_quote.csv", &quote)]),
        "lean zipped csv, 1m quotes = fine\n\
         EURUSD 1m fx 6: 2024-07-02 00:00..2024-07-02 00:01 | 2024-07-02 00:05..2024-07-02 00:06 | 105.25 107.25 103.75 106.25 - spread=0.5",
    );
    let daily = text("", 6, |i| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1e4) as i64);
        format!("{} 00:00,{o},{h},{l},{c},{v}", day(i).replace('-', ""))
    });
    check(
        "equity/usa/daily/spy.zip",
        &make::zip(&[("spy.csv", &daily)]),
        "lean zipped csv, 1d trades = fine\n\
         SPY 1d equity 6: 2024-01-02 05:00..2024-01-03 05:00 | 2024-01-09 05:00..2024-01-10 05:00 | 105 107 103.5 106 600000",
    );
    let future = make::zip(&[
        ("20131007_es_minute_trade_201312.csv", &text("", 6, |i| format!("{},{}", 60_000 * i, ohlcv(i)))),
        ("20131007_es_minute_trade_201403.csv", &text("", 6, |i| format!("{},{}", 60_000 * i, ohlcv(i + 9)))),
    ]);
    check(
        "future/cme/minute/es/20131007_trade.zip",
        &future,
        "lean zipped csv, 1m trades = fine\n\
         ES_201312 1m future 6: 2013-10-07 00:00..2013-10-07 00:01 | 2013-10-07 00:05..2013-10-07 00:06 | 105 107 103.5 106 60\n\
         ES_201403 1m future 6: 2013-10-07 00:00..2013-10-07 00:01 | 2013-10-07 00:05..2013-10-07 00:06 | 114 116 112.5 115 150",
    );
}
