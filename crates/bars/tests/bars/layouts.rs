//! Every layout people bring, each with a small sample made here, through one `check`.
//!
//! What is compared is one line for the file (format and verdict) and one for each series: symbol, timeframe, class, number of bars,
//! first and last bar as `start..end`, then open, high, low, close, volume and extras of the last bar.

use crate::make::{self, bar, minute, ohlcv, text};
use bars::Options;
use files::{Column, Data};

fn check(name: &str, bytes: &[u8], expected: &str) {
    let got = match bars::read_bytes(name, bytes, &Options::default()) {
        Ok((market, audit)) => make::shown(&market, &audit),
        Err(error) => format!("error {error}"),
    };
    let wanted: Vec<&str> = expected.lines().map(str::trim).collect();
    if std::env::var_os("LAYOUT_SHOW").is_some() && got != wanted.join("\n") {
        println!("=== {name}\n{got}");
        return;
    }
    assert_eq!(got, wanted.join("\n"), "{name}:\n{}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
}

/// The same through a folder with these files.
fn check_folder(members: &[(&str, &[u8])], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in members {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let got = match crate::read(folder.path(), &Options::default()) {
        Ok((market, audit)) => make::shown(&market, &audit),
        Err(error) => format!("error {error}"),
    };
    let wanted: Vec<&str> = expected.lines().map(str::trim).collect();
    if std::env::var_os("LAYOUT_SHOW").is_some() && got != wanted.join("\n") {
        println!("=== {}\n{got}", members[0].0);
        return;
    }
    assert_eq!(got, wanted.join("\n"), "{}", members[0].0);
}

/// January days 2024 that are trading days: 2, 3, 4, 5, 8, 9, 10, 11, 12, 16, …
fn day(i: usize) -> String {
    let days = [2, 3, 4, 5, 8, 9, 10, 11, 12, 16, 17, 18, 19, 22, 23, 24, 25, 26, 29, 30, 31];
    format!("2024-01-{:02}", days[i])
}

const HOUR_MS: i64 = 3_600_000;
const JAN_2024_MS: i64 = 1_704_067_200_000;

#[test]
fn generic_csv() {
    check("AAPL.csv", &text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i))), "");
    let odd = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{v},{c},{l},{},{h},{o},{}", day(i), i * 3)
    };
    check("msft.csv", &text("VOL,Close_Price,LOW,timestamp,hIgH,Open,rsi", 6, odd), "");
    check(
        "EURUSD_H1.csv",
        &text("time;open;high;low;close;volume", 6, |i| format!("{};{}", minute(60 * i), ohlcv(i).replace(',', ";"))),
        "",
    );
    check(
        "ETHUSDT_5m.csv",
        &text("unix,open,high,low,close,volume", 6, |i| format!("{},{}", 1_704_067_200 + 300 * i, ohlcv(i))),
        "",
    );
    check(
        "BTCUSDT.csv",
        &text("timestamp,open,high,low,close,volume", 6, |i| {
            format!("{},{}", JAN_2024_MS + HOUR_MS * i as i64, ohlcv(i))
        }),
        "",
    );
    check(
        "BTCUSDT.csv",
        &text("ts_event,open,high,low,close,volume", 6, |i| {
            format!("{}000000,{}", JAN_2024_MS + HOUR_MS * i as i64, ohlcv(i))
        }),
        "",
    );
    check(
        "SPY.csv",
        &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", day(i).replace('-', ""), ohlcv(i))),
        "",
    );
    check(
        "XAUUSD.csv",
        &text("time,open,high,low,close", 6, |i| {
            format!("{}+02:00,{}", minute(60 * i).replace(' ', "T"), &ohlcv(i)[..ohlcv(i).rfind(',').unwrap()])
        }),
        "",
    );
    check(
        "bars.csv",
        &text("start,end,open,high,low,close,volume", 6, |i| {
            format!("{},{},{}", minute(15 * i), minute(15 * i + 15), ohlcv(i))
        }),
        "",
    );
    check(
        "ES_1m.txt",
        &text("date,time,open,high,low,close,volume", 6, |i| format!("20240102,{:06},{}", 93_000 + 100 * i, ohlcv(i))),
        "",
    );
    check(
        "data.csv",
        &text("symbol,time,open,high,low,close,volume", 8, |i| {
            format!("{},{},{}", ["BTC-USD", "ETH-USD"][i % 2], minute(i / 2), ohlcv(i))
        }),
        "",
    );
}

#[test]
fn how_text_is_written() {
    let plain = text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i)));
    let mut bom = b"\xef\xbb\xbf".to_vec();
    bom.extend(&plain);
    check("AAPL.csv", &bom, "");
    check("AAPL.csv", String::from_utf8(plain.clone()).unwrap().replace('\n', "\r\n").as_bytes(), "");
    let newest = text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(5 - i), ohlcv(5 - i)));
    check("AAPL.csv", &newest, "");
    let comma = |i: usize| format!("{};{}", day(i), ohlcv(i).replace(',', ";").replace('.', ","));
    check(
        "SAP.csv",
        &text("Datum;Open;High;Low;Close;Volume".replace("Datum", "Date").as_str(), 6, |i| {
            comma(i).replace(";100;", ";100,0;")
        }),
        "",
    );
    let quoted = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("\"{}\",\"1,{o:06.2}\",\"1,{h:06.2}\",\"1,{l:06.2}\",\"1,{c:06.2}\",\"{v},000\"", day(i))
    };
    check("BRK-A.csv", &text("\"Date\",\"Open\",\"High\",\"Low\",\"Close\",\"Volume\"", 6, quoted), "");
    check(
        "EURUSD.csv",
        &text("Gmt time,Open,High,Low,Close,Volume", 20, |i| {
            format!("{:02}.01.2024 {:02}:00:00.000,{}", 2 + i / 10, i % 10, ohlcv(i))
        }),
        "",
    );
    check(
        "SPX.csv",
        &text("Date,Open,High,Low,Close,Volume", 21, |i| {
            let d = day(i);
            format!("1/{}/2024,{}", d[8..].trim_start_matches('0'), ohlcv(i))
        }),
        "",
    );
    let am = |i: usize| {
        format!(
            "2024-01-02 {:02}-{},BTCUSD,{},7",
            if i % 12 == 0 { 12 } else { i % 12 },
            if i < 12 { "AM" } else { "PM" },
            ohlcv(i)
        )
    };
    check(
        "Coinbase_BTCUSD_1h.csv",
        &text("https://www.CryptoDataDownload.com\nDate,Symbol,Open,High,Low,Close,Volume BTC,Volume USD", 24, am),
        "",
    );
    check(
        "FESX_1m.txt",
        &text("Date,Open,High,Low,Close,Volume,OpenInterest", 6, |i| format!("2024-01-02,09:0{i}:00,{},0", ohlcv(i))),
        "",
    );
    check("SPY.csv", &text(",Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i))), "");
    check("SPY.csv", &text(",date,open,high,low,close,volume", 6, |i| format!("{i},{},{}", day(i), ohlcv(i))), "");
    check(
        "DAT_ASCII_EURUSD_M1_2024.csv",
        &text("", 6, |i| format!("20240102 00{:02}00;{}", i, ohlcv(i).replace(',', ";"))),
        "",
    );
    check(
        "JPYUSD.csv",
        &text("Time,Open,High,Low,Last,Change,Volume", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},{o},{h},{l},{c},-0.5,{v}", day(i))
        }),
        "",
    );
    check(
        "TSLA.csv",
        &text("Date,Close/Last,Volume,Open,High,Low", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},${c},{v},${o},${h},${l}", day(i))
        }),
        "",
    );
}

#[test]
fn yahoo_and_yfinance() {
    check(
        "MSFT.csv",
        &text("Date,Open,High,Low,Close,Adj Close,Volume", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},{o},{h},{l},{c},{},{v}", day(i), c * 0.5)
        }),
        "",
    );
    check(
        "MSFT.csv",
        &text("Datetime,Open,High,Low,Close,Adj Close,Volume,Dividends,Stock Splits", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{} 00:00:00-05:00,{o},{h},{l},{c},{c},{v},0.0,0.0", day(i))
        }),
        "",
    );
    let chlov = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{},{c},{h},{l},{o},{v}", day(i))
    };
    check(
        "download.csv",
        &text("Price,Close,High,Low,Open,Volume\nTicker,AAPL,AAPL,AAPL,AAPL,AAPL\nDate,,,,,", 6, chlov),
        "",
    );
    check("download.csv", &text("Date,Close,High,Low,Open,Volume\n,AAPL,AAPL,AAPL,AAPL,AAPL", 6, chlov), "");
    let adj = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{},{},{c},{h},{l},{o},{v}", day(i), c / 2.0)
    };
    check(
        "download.csv",
        &text("Price,Adj Close,Close,High,Low,Open,Volume\nTicker,AAPL,AAPL,AAPL,AAPL,AAPL,AAPL\nDate,,,,,,", 6, adj),
        "",
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
        "",
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
        "",
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
        "",
    );
    check(
        "EURUSD_D1.csv",
        &text("<DATE>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{}\t{o}\t{h}\t{l}\t{c}\t{v}\t0\t3", day(i).replace('-', "."))
        }),
        "",
    );
    let kline = |i: usize, unit: i64| {
        let open = (JAN_2024_MS + HOUR_MS * i as i64) * unit;
        let [o, h, l, c, v] = bar(i);
        format!("{open},{o:.8},{h:.8},{l:.8},{c:.8},{v:.8},{},{:.8},99,5.5,550.0,0", open + HOUR_MS * unit - 1, v * c)
    };
    let header = "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,taker_buy_quote_volume,ignore";
    check("BTCUSDT-1h-2024-01.csv", &text("", 6, |i| kline(i, 1)), "");
    check("BTCUSDT-1h-2024-01.csv", &text("", 6, |i| kline(i, 1000)), "");
    check("BTCUSDT-1h-2024-01.csv", &text(header, 6, |i| kline(i, 1)), "");
    check("BTCUSDT-1h-2024-01.zip", &make::zip(&[("BTCUSDT-1h-2024-01.csv", &text("", 6, |i| kline(i, 1000)))]), "");
    check_folder(
        &[
            ("spot/BTCUSDT-1h-2024-01.csv", &text("", 4, |i| kline(i, 1))),
            ("spot/BTCUSDT-1h-2025-01.csv", &text("", 3, |i| kline(i + 4, 1000))),
        ],
        "",
    );
    check_folder(
        &[(
            "futures/um/BTCUSDT-1h-2024-01.zip",
            &make::zip(&[("BTCUSDT-1h-2024-01.csv", &text(header, 6, |i| kline(i, 1)))]),
        )],
        "",
    );
    let scaled = |i: usize| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1000.0) as i64);
        format!("{},{o},{h},{l},{c},{v}", day(i))
    };
    check("AUDUSD_D1.csv", &text("Date,Open,High,Low,Close,tick_volume", 6, scaled), "");
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
        "",
    );
    let quote = |i: usize| {
        let [o, h, l, c, _] = bar(i);
        format!("{},{o},{h},{l},{c},{},{},{},{}", minute(i), o + 0.5, h + 0.5, l + 0.5, c + 0.5)
    };
    check("EURUSD.csv", &text("time,BidOpen,BidHigh,BidLow,BidClose,AskOpen,AskHigh,AskLow,AskClose", 6, quote), "");
    let side = |up: f64| {
        text("timestamp,open,high,low,close", 6, |i| {
            let [o, h, l, c, _] = bar(i).map(|x| x + up);
            format!("{}+00:00,{o},{h},{l},{c}", minute(i))
        })
    };
    check_folder(&[("usdjpy-m1-ask.csv", &side(0.25)), ("usdjpy-m1-bid.csv", &side(0.0))], "");
    check("usdjpy-m1-ask.csv", &side(0.25), "");
}

#[test]
fn json() {
    let ms = |i: usize| JAN_2024_MS + 300_000 * i as i64;
    let array =
        |line: &dyn Fn(usize) -> String| format!("[{}]", (0..8).map(line).collect::<Vec<_>>().join(",")).into_bytes();
    let ccxt = array(&|i| {
        let [o, h, l, c, v] = bar(i);
        format!("[{},{o},{h},{l},{c},{v}]", ms(i))
    });
    check("BTC_USDT-5m.json", &ccxt, "");
    check("ETH_BTC-5m.json.gz", &make::gzip(&ccxt), "");
    check("BTC_USDT_USDT-5m-futures.json", &ccxt, "");
    check(
        "candles-BTCUSDT-5m.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(i);
            format!("[{},{o},{c},{h},{l},{v}]", ms(i))
        }),
        "",
    );
    check(
        "BTC-USD.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(7 - i);
            format!("[{},{l},{h},{o},{c},{v}]", ms(7 - i) / 1000)
        }),
        "",
    );
    check(
        "BTCUSDT.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(i);
            format!("[{},\"{o}\",\"{h}\",\"{l}\",\"{c}\",\"{v}\",{},\"1\",2,\"3\",\"4\",\"0\"]", ms(i), ms(i) + 299_999)
        }),
        "",
    );
    check(
        "XAUUSD.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(i);
            format!(
                "{{\"time\":\"2024-01-02T00:{:02}:00.000000000Z\",\"volume\":{v},\"open\":\"{o}\",\"high\":\"{h}\",\"low\":\"{l}\",\"close\":\"{c}\",\"complete\":true}}",
                5 * i
            )
        }),
        "",
    );
    let rows = String::from_utf8(array(&|i| { let [o, h, l, c, v] = bar(i); format!("{{\"start\":\"{}\",\"low\":\"{l}\",\"high\":\"{h}\",\"open\":\"{o}\",\"close\":\"{c}\",\"volume\":\"{v}\"}}", ms(i) / 1000) })).unwrap();
    check("BTCUSD.json", format!("{{\"candles\":{rows}}}").as_bytes(), "");
    let kraken = String::from_utf8(array(&|i| {
        let [o, h, l, c, v] = bar(i);
        format!("[{},\"{o}\",\"{h}\",\"{l}\",\"{c}\",\"{c}\",\"{v}\",12]", ms(i) / 1000)
    }))
    .unwrap();
    check(
        "XBTUSD.json",
        format!("{{\"error\":[],\"result\":{{\"XXBTZUSD\":{kraken},\"last\":1704069300}}}}").as_bytes(),
        "",
    );
    let column = |k: usize| (0..8).map(|i| bar(i)[k].to_string()).collect::<Vec<_>>().join(",");
    let times = (0..8).map(|i| (ms(i) / 1000).to_string()).collect::<Vec<_>>().join(",");
    check(
        "ETHUSDT.json",
        format!(
            "{{\"t\":[{times}],\"o\":[{}],\"h\":[{}],\"l\":[{}],\"c\":[{}],\"v\":[{}],\"s\":\"ok\"}}",
            column(0),
            column(1),
            column(2),
            column(3),
            column(4)
        )
        .as_bytes(),
        "",
    );
    check(
        "BTC_USDT-5m.jsonl",
        &text("", 8, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{{\"ts\":{},\"o\":{o},\"h\":{h},\"l\":{l},\"c\":{c},\"v\":{v}}}", ms(i))
        }),
        "",
    );
}

#[test]
fn arrow_files() {
    let ns = |i: usize| crate::at("2024-01-02 00:00:00") + 300_000_000_000 * i as i64;
    let times = |name: &str, n: usize| Column::time(name, (0..n).map(ns).collect());
    check("BTC_USDT-5m.feather", &make::feather(&make::table(times("date", 6), 6)), "");
    check("BTC_USDT_USDT-1h-futures.feather", &make::feather(&make::table(times("date", 6), 6)), "");
    check("AAPL.parquet", &make::parquet(&make::table(times("__index_level_0__", 6), 6)), "");
    let naive = Column { name: "Datetime".into(), data: Data::Time { ns: (0..6).map(ns).collect(), utc: false } };
    check("AAPL_5m.parquet", &make::parquet(&make::table(naive, 6)), "");
    let epochs = Column { name: "open_time".into(), data: Data::I64((0..6).map(|i| ns(i) / 1_000_000).collect()) };
    check("SOLUSDT.parquet", &make::parquet(&make::table(epochs, 6)), "");
    let seconds = Column::f64("timestamp", (0..6).map(|i| ns(i) as f64 / 1e9).collect());
    check("SOLUSDT.feather", &make::feather(&make::table(seconds, 6)), "");
    let mut long = make::table(Column::time("ts", (0..8).map(|i| ns(i / 2)).collect()), 8);
    long.columns.insert(
        0,
        make::names(
            "symbol",
            &["BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT"],
        ),
    );
    check("universe_m5.parquet", &make::parquet(&long), "");
    check("universe_m5.feather", &make::feather(&long), "");
    let mut words = make::table(Column { name: "date".into(), data: text_column(6, &|i| day(i)) }, 6);
    words.columns[5].data = Data::I64((0..6).map(|i| i as i64 + 7).collect());
    check("MSFT.parquet", &make::parquet(&words), "");
    let one = |add: usize| make::parquet(&make::table(times("timestamp", 6 + add), 6 + add));
    check_folder(&[("BTCUSDT.parquet", &one(0)), ("ETHUSDT.parquet", &one(1))], "");
}

fn text_column(n: usize, cell: &dyn Fn(usize) -> String) -> Data {
    let mut all = files::Text::default();
    (0..n).for_each(|i| all.push(&cell(i)));
    Data::Text(all)
}

#[test]
fn numpy_arrays() {
    let n = 6usize;
    let ms: Vec<i64> = (0..n).map(|i| JAN_2024_MS + 60_000 * i as i64).collect();
    let field = |k: usize| make::npy_f64("(6,)", &(0..n).map(|i| bar(i)[k]).collect::<Vec<_>>());
    let fields: Vec<(String, Vec<u8>)> = ["open", "high", "low", "close", "volume"]
        .iter()
        .enumerate()
        .map(|(k, f)| (format!("{f}.npy"), field(k)))
        .collect();
    let with = |time: (&str, Vec<u8>)| {
        let mut members: Vec<(&str, &[u8])> = vec![(time.0, &time.1)];
        members.extend(fields.iter().map(|(name, data)| (name.as_str(), data.as_slice())));
        make::zip(&members)
    };
    check("BTCUSDT.npz", &with(("timestamp.npy", make::npy_i64("'<i8'", "(6,)", &ms))), "");
    check("BTCUSDT.npz", &with(("time.npy", make::npy_i64("'<M8[ms]'", "(6,)", &ms))), "");
    let block = |order: [usize; 5], add: usize| {
        let rows = |i: usize| std::iter::once(ms[i] as f64).chain(order.map(|k| bar(i + add)[k])).collect::<Vec<_>>();
        make::npy_f64("(6, 6)", &(0..n).flat_map(rows).collect::<Vec<_>>())
    };
    check(
        "crypto.npz",
        &make::zip(&[("BTCUSDT.npy", &block([0, 1, 2, 3, 4], 0)), ("ETHUSDT.npy", &block([0, 1, 2, 3, 4], 9))]),
        "",
    );
    check("BTC-USDT-1m.npy", &block([0, 3, 1, 2, 4], 0), "");
    check("jesse_BTCUSDT.npz", &make::zip(&[("arr_0.npy", &block([0, 3, 1, 2, 4], 0))]), "");
    let wide = |k: usize| make::npy_f64("(6, 2)", &(0..n).flat_map(|i| [bar(i)[k], bar(i + 9)[k]]).collect::<Vec<_>>());
    let mut members: Vec<(String, Vec<u8>)> = vec![
        ("dates.npy".into(), make::npy_i64("'<M8[D]'", "(6,)", &[19724, 19725, 19726, 19727, 19730, 19731])),
        ("symbols.npy".into(), make::npy_text(&["AAPL", "MSFT"])),
    ];
    members.extend(
        ["open", "high", "low", "close", "volume"].iter().enumerate().map(|(k, f)| (format!("{f}.npy"), wide(k))),
    );
    let refs: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (a.as_str(), b.as_slice())).collect();
    check("panel.npz", &make::zip(&refs), "");
    members[0].0 = "date.npy".into();
    let refs: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (a.as_str(), b.as_slice())).collect();
    check("panel.npz", &make::zip(&refs), "");
}

#[test]
fn long_and_wide_tables() {
    let finrl = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{},{},{o},{h},{l},{c},{v},{}", i, day(i / 2), i / 2 % 5).replacen(
            &format!("{i},"),
            &format!("{i},"),
            1,
        ) + &format!(",{}", ["AAPL", "MSFT"][i % 2])
    };
    check("train_data.csv", &text(",date,open,high,low,close,volume,day,tic", 12, finrl), "");
    check(
        "BTC_ETH.csv",
        &text(
            "date,BTC:open,BTC:high,BTC:low,BTC:close,BTC:volume,ETH:open,ETH:high,ETH:low,ETH:close,ETH:volume",
            6,
            |i| format!("{},{},{}", day(i), ohlcv(i), if i < 2 { ",,,,".to_string() } else { ohlcv(i + 9) }),
        ),
        "",
    );
    check(
        "AAPL.csv",
        &text("Date,AAPL.Open,AAPL.High,AAPL.Low,AAPL.Close,AAPL.Volume,mavg,direction", 6, |i| {
            format!("{},{},{},Increasing", day(i), ohlcv(i), i)
        }),
        "",
    );
    check(
        "panel.csv",
        &text(
            "Date,\"('Open', 'AAPL')\",\"('High', 'AAPL')\",\"('Low', 'AAPL')\",\"('Close', 'AAPL')\",\"('Open', 'BRK-B')\",\"('High', 'BRK-B')\",\"('Low', 'BRK-B')\",\"('Close', 'BRK-B')\"",
            6,
            |i| {
                let ([o, h, l, c, _], [p, q, r, s, _]) = (bar(i), bar(i + 9));
                format!("{},{o},{h},{l},{c},{p},{q},{r},{s}", day(i))
            },
        ),
        "",
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
    check_folder(&refs, "");
    let trade = text("", 6, |i| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1e4) as i64);
        format!("{},{o},{h},{l},{c},{}", 34_200_000 + 60_000 * i, v / 10_000)
    });
    check("equity/usa/minute/spy/20240102_trade.zip", &make::zip(&[("20240102_spy_minute_trade.csv", &trade)]), "");
    let quote = text("", 6, |i| {
        let [o, h, l, c, _] = bar(i);
        format!("{},{o},{h},{l},{c},7,{},{},{},{},9", 60_000 * i, o + 0.5, h + 0.5, l + 0.5, c + 0.5)
    });
    check(
        "forex/oanda/minute/eurusd/20240702_quote.zip",
        &make::zip(&[("20240702_eurusd_minute_quote.csv", &quote)]),
        "",
    );
    let daily = text("", 6, |i| {
        let [o, h, l, c, v] = bar(i).map(|x| (x * 1e4) as i64);
        format!("{} 00:00,{o},{h},{l},{c},{v}", day(i).replace('-', ""))
    });
    check("equity/usa/daily/spy.zip", &make::zip(&[("spy.csv", &daily)]), "");
    let future = make::zip(&[
        ("20131007_es_minute_trade_201312.csv", &text("", 6, |i| format!("{},{}", 60_000 * i, ohlcv(i)))),
        ("20131007_es_minute_trade_201403.csv", &text("", 6, |i| format!("{},{}", 60_000 * i, ohlcv(i + 9)))),
    ]);
    check("future/cme/minute/es/20131007_trade.zip", &future, "");
}

#[test]
fn which_end_a_stamp_marks() {
    // Five New York sessions, 09:31 to 16:00, stamped by the end of the minute.
    let session = |from: usize| {
        text("date,open,high,low,close,volume", 5 * 390, |i| {
            let at = from + i % 390;
            format!("{} {:02}:{:02}:00,{}", day(i / 390), at / 60, at % 60, ohlcv(i % 50))
        })
    };
    check("SPY_1m.csv", &session(571), "");
    check("SPY_1m.csv", &session(570), "");
    let just_before = text("close_time,open,high,low,close,volume", 6, |i| {
        format!("{},{}", JAN_2024_MS + 300_000 * (i as i64 + 1) - 1, ohlcv(i))
    });
    check("ETHUSDT.csv", &just_before, "");
    check(
        "ETHUSDT.csv",
        &text("time,open,high,low,close,volume", 6, |i| format!("2024-01-02 00:{:02}:59.999,{}", 5 * i + 4, ohlcv(i))),
        "",
    );
    let ends = ["2023-01-31", "2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31", "2023-06-30"];
    check("BTCUSD.csv", &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", ends[i], ohlcv(i))), "");
    let firsts = ["2023-01-01", "2023-02-01", "2023-03-01", "2023-04-01", "2023-05-01", "2023-06-01"];
    check("BTCUSD.csv", &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", firsts[i], ohlcv(i))), "");
    check(
        "BTCUSD.csv",
        &text("date,open,high,low,close,volume", 6, |i| {
            format!("2024-01-{:02},{}", 1 + 7 * (i % 4), ohlcv(i))
                .replace("2024-01", if i < 4 { "2024-01" } else { "2024-02" })
        }),
        "",
    );
}
