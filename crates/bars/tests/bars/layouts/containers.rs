//! JSON, feather, Parquet and NumPy arrays.

use super::{JAN_2024_MS, check, check_folder, day};
use crate::make::{self, bar, text};
use files::{Column, Data};

#[test]
fn json() {
    let ms = |i: usize| JAN_2024_MS + 300_000 * i as i64;
    let array =
        |line: &dyn Fn(usize) -> String| format!("[{}]", (0..8).map(line).collect::<Vec<_>>().join(",")).into_bytes();
    let ccxt = array(&|i| {
        let [o, h, l, c, v] = bar(i);
        format!("[{},{o},{h},{l},{c},{v}]", ms(i))
    });
    check(
        "BTC_USDT-5m.json",
        &ccxt,
        "freqtrade json = fine\n\
         BTC/USDT 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "ETH_BTC-5m.json.gz",
        &make::gzip(&ccxt),
        "freqtrade json = fine\n\
         ETH/BTC 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "BTC_USDT_USDT-5m-futures.json",
        &ccxt,
        "freqtrade json = fine\n\
         BTC/USDT:USDT 5m crypto_perp 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "candles-BTCUSDT-5m.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(i);
            format!("[{},{o},{c},{h},{l},{v}]", ms(i))
        }),
        "json arrays (jesse and bitfinex order) = fine\n\
         BTCUSDT 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "BTC-USD.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(7 - i);
            format!("[{},{l},{h},{o},{c},{v}]", ms(7 - i) / 1000)
        }),
        "json arrays (coinbase order) = fine\n\
         BTC-USD 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "BTCUSDT.json",
        &array(&|i| {
            let [o, h, l, c, v] = bar(i);
            format!("[{},\"{o}\",\"{h}\",\"{l}\",\"{c}\",\"{v}\",{},\"1\",2,\"3\",\"4\",\"0\"]", ms(i), ms(i) + 299_999)
        }),
        "binance kline json without header = fine\n\
         BTCUSDT 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80 quote_volume=1 count=2 taker_buy_volume=3 taker_buy_quote_volume=4",
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
        "json = fine\n\
         XAUUSD 5m metal 8: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:35..2024-01-02 00:40 | 107 109 105.5 108 80 complete=1",
    );
    let rows = String::from_utf8(array(&|i| { let [o, h, l, c, v] = bar(i); format!("{{\"start\":\"{}\",\"low\":\"{l}\",\"high\":\"{h}\",\"open\":\"{o}\",\"close\":\"{c}\",\"volume\":\"{v}\"}}", ms(i) / 1000) })).unwrap();
    check(
        "BTCUSD.json",
        format!("{{\"candles\":{rows}}}").as_bytes(),
        "json = fine\n\
         BTCUSD 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    let kraken = String::from_utf8(array(&|i| {
        let [o, h, l, c, v] = bar(i);
        format!("[{},\"{o}\",\"{h}\",\"{l}\",\"{c}\",\"{c}\",\"{v}\",12]", ms(i) / 1000)
    }))
    .unwrap();
    check(
        "XBTUSD.json",
        format!("{{\"error\":[],\"result\":{{\"XXBTZUSD\":{kraken},\"last\":1704069300}}}}").as_bytes(),
        "ccxt arrays (json) = fine\n\
         XBTUSD 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
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
        "json = fine\n\
         ETHUSDT 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
    check(
        "BTC_USDT-5m.jsonl",
        &text("", 8, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{{\"ts\":{},\"o\":{o},\"h\":{h},\"l\":{l},\"c\":{c},\"v\":{v}}}", ms(i))
        }),
        "json = fine\n\
         BTC/USDT 5m crypto_spot 8: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:35..2024-01-01 00:40 | 107 109 105.5 108 80",
    );
}

#[test]
fn arrow_files() {
    let ns = |i: usize| crate::at("2024-01-02 00:00:00") + 300_000_000_000 * i as i64;
    let times = |name: &str, n: usize| Column::time(name, (0..n).map(ns).collect());
    check(
        "BTC_USDT-5m.feather",
        &make::feather(&make::table(times("date", 6), 6)),
        "freqtrade feather = fine\n\
         BTC/USDT 5m crypto_spot 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    check(
        "BTC_USDT_USDT-1h-futures.feather",
        &make::feather(&make::table(times("date", 6), 6)),
        "freqtrade feather = fine\n\
         BTC/USDT:USDT 5m crypto_perp 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    check(
        "AAPL.parquet",
        &make::parquet(&make::table(times("__index_level_0__", 6), 6)),
        "parquet = fine\n\
         AAPL 5m equity 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    let naive = Column { name: "Datetime".into(), data: Data::Time { ns: (0..6).map(ns).collect(), utc: false } };
    check(
        "AAPL_5m.parquet",
        &make::parquet(&make::table(naive, 6)),
        "parquet = fine\n\
         AAPL 5m equity 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    let epochs = Column { name: "open_time".into(), data: Data::I64((0..6).map(|i| ns(i) / 1_000_000).collect()) };
    check(
        "SOLUSDT.parquet",
        &make::parquet(&make::table(epochs, 6)),
        "parquet = fine\n\
         SOLUSDT 5m crypto_spot 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    let seconds = Column::f64("timestamp", (0..6).map(|i| ns(i) as f64 / 1e9).collect());
    check(
        "SOLUSDT.feather",
        &make::feather(&make::table(seconds, 6)),
        "feather = fine\n\
         SOLUSDT 5m crypto_spot 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    let mut long = make::table(Column::time("ts", (0..8).map(|i| ns(i / 2)).collect()), 8);
    long.columns.insert(
        0,
        make::names(
            "symbol",
            &["BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT", "BTCUSDT", "ETHUSDT"],
        ),
    );
    check(
        "universe_m5.parquet",
        &make::parquet(&long),
        "parquet = fine\n\
         BTCUSDT 5m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:15..2024-01-02 00:20 | 106 108 104.5 107 70\n\
         ETHUSDT 5m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:15..2024-01-02 00:20 | 107 109 105.5 108 80",
    );
    check(
        "universe_m5.feather",
        &make::feather(&long),
        "feather = fine\n\
         BTCUSDT 5m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:15..2024-01-02 00:20 | 106 108 104.5 107 70\n\
         ETHUSDT 5m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:15..2024-01-02 00:20 | 107 109 105.5 108 80",
    );
    let mut words = make::table(Column { name: "date".into(), data: text_column(6, &|i| day(i)) }, 6);
    words.columns[5].data = Data::I64((0..6).map(|i| i as i64 + 7).collect());
    check(
        "MSFT.parquet",
        &make::parquet(&words),
        "parquet = fine\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 12",
    );
    let one = |add: usize| make::parquet(&make::table(times("timestamp", 6 + add), 6 + add));
    check_folder(
        &[("BTCUSDT.parquet", &one(0)), ("ETHUSDT.parquet", &one(1))],
        "parquet = fine\n\
         BTCUSDT 5m crypto_spot 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60\n\
         ETHUSDT 5m crypto_spot 7: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:30..2024-01-02 00:35 | 106 108 104.5 107 70",
    );
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
    check(
        "BTCUSDT.npz",
        &with(("timestamp.npy", make::npy_i64("'<i8'", "(6,)", &ms))),
        "npz = fine\n\
         BTCUSDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 105 107 103.5 106 60",
    );
    check(
        "BTCUSDT.npz",
        &with(("time.npy", make::npy_i64("'<M8[ms]'", "(6,)", &ms))),
        "npz = fine\n\
         BTCUSDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 105 107 103.5 106 60",
    );
    let block = |order: [usize; 5], add: usize| {
        let rows = |i: usize| std::iter::once(ms[i] as f64).chain(order.map(|k| bar(i + add)[k])).collect::<Vec<_>>();
        make::npy_f64("(6, 6)", &(0..n).flat_map(rows).collect::<Vec<_>>())
    };
    check(
        "crypto.npz",
        &make::zip(&[("BTCUSDT.npy", &block([0, 1, 2, 3, 4], 0)), ("ETHUSDT.npy", &block([0, 1, 2, 3, 4], 9))]),
        "npz without column names = fine\n\
         BTCUSDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 105 107 103.5 106 60\n\
         ETHUSDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 114 116 112.5 115 150",
    );
    check(
        "BTC-USDT-1m.npy",
        &block([0, 3, 1, 2, 4], 0),
        "npy arrays (jesse and bitfinex order) = fine\n\
         BTC-USDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 105 107 103.5 106 60",
    );
    check(
        "jesse_BTCUSDT.npz",
        &make::zip(&[("arr_0.npy", &block([0, 3, 1, 2, 4], 0))]),
        "npz arrays (jesse and bitfinex order) = fine\n\
         BTCUSDT 1m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:01 | 2024-01-01 00:05..2024-01-01 00:06 | 105 107 103.5 106 60",
    );
    let wide = |k: usize| make::npy_f64("(6, 2)", &(0..n).flat_map(|i| [bar(i)[k], bar(i + 9)[k]]).collect::<Vec<_>>());
    let mut members: Vec<(String, Vec<u8>)> = vec![
        ("dates.npy".into(), make::npy_i64("'<M8[D]'", "(6,)", &[19724, 19725, 19726, 19727, 19730, 19731])),
        ("symbols.npy".into(), make::npy_text(&["AAPL", "MSFT"])),
    ];
    members.extend(
        ["open", "high", "low", "close", "volume"].iter().enumerate().map(|(k, f)| (format!("{f}.npy"), wide(k))),
    );
    let refs: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (a.as_str(), b.as_slice())).collect();
    check(
        "panel.npz",
        &make::zip(&refs),
        "npz = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 114 116 112.5 115 150",
    );
    members[0].0 = "date.npy".into();
    let refs: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (a.as_str(), b.as_slice())).collect();
    check(
        "panel.npz",
        &make::zip(&refs),
        "npz = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 114 116 112.5 115 150",
    );
}
