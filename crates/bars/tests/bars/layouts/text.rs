//! Text: generic CSV, how it is written, long and wide tables, and which end of a bar a stamp marks.

use super::{HOUR_MS, JAN_2024_MS, check, day};
use crate::make::{bar, minute, ohlcv, text};

#[test]
fn generic_csv() {
    check(
        "AAPL.csv",
        &text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i))),
        "csv with header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    let odd = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("{v},{c},{l},{},{h},{o},{}", day(i), i * 3)
    };
    check(
        "msft.csv",
        &text("VOL,Close_Price,LOW,timestamp,hIgH,Open,rsi", 6, odd),
        "csv with header = fine\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 rsi=15",
    );
    check(
        "EURUSD_H1.csv",
        &text("time;open;high;low;close;volume", 6, |i| format!("{};{}", minute(60 * i), ohlcv(i).replace(',', ";"))),
        "csv with header = fine\n\
         EURUSD 1h fx 6: 2024-01-02 00:00..2024-01-02 01:00 | 2024-01-02 05:00..2024-01-02 06:00 | 105 107 103.5 106 60",
    );
    check(
        "ETHUSDT_5m.csv",
        &text("unix,open,high,low,close,volume", 6, |i| format!("{},{}", 1_704_067_200 + 300 * i, ohlcv(i))),
        "csv with header = fine\n\
         ETHUSDT 5m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:25..2024-01-01 00:30 | 105 107 103.5 106 60",
    );
    check(
        "BTCUSDT.csv",
        &text("timestamp,open,high,low,close,volume", 6, |i| {
            format!("{},{}", JAN_2024_MS + HOUR_MS * i as i64, ohlcv(i))
        }),
        "csv with header = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60",
    );
    check(
        "BTCUSDT.csv",
        &text("ts_event,open,high,low,close,volume", 6, |i| {
            format!("{}000000,{}", JAN_2024_MS + HOUR_MS * i as i64, ohlcv(i))
        }),
        "csv with header = fine\n\
         BTCUSDT 1h crypto_spot 6: 2024-01-01 00:00..2024-01-01 01:00 | 2024-01-01 05:00..2024-01-01 06:00 | 105 107 103.5 106 60",
    );
    check(
        "SPY.csv",
        &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", day(i).replace('-', ""), ohlcv(i))),
        "csv with header = fine\n\
         SPY 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    check(
        "XAUUSD.csv",
        &text("time,open,high,low,close", 6, |i| {
            format!("{}+02:00,{}", minute(60 * i).replace(' ', "T"), &ohlcv(i)[..ohlcv(i).rfind(',').unwrap()])
        }),
        "csv with header = fine\n\
         XAUUSD 1h metal 6: 2024-01-01 22:00..2024-01-01 23:00 | 2024-01-02 03:00..2024-01-02 04:00 | 105 107 103.5 106 -",
    );
    check(
        "bars.csv",
        &text("start,end,open,high,low,close,volume", 6, |i| {
            format!("{},{},{}", minute(15 * i), minute(15 * i + 15), ohlcv(i))
        }),
        "csv with header = fine\n\
         BARS 15m equity 6: 2024-01-02 00:00..2024-01-02 00:15 | 2024-01-02 01:15..2024-01-02 01:30 | 105 107 103.5 106 60",
    );
    check(
        "ES_1m.txt",
        &text("date,time,open,high,low,close,volume", 6, |i| format!("20240102,{:06},{}", 93_000 + 100 * i, ohlcv(i))),
        "csv with header = fine\n\
         ES 1m equity 6: 2024-01-02 09:30..2024-01-02 09:31 | 2024-01-02 09:35..2024-01-02 09:36 | 105 107 103.5 106 60",
    );
    check(
        "data.csv",
        &text("symbol,time,open,high,low,close,volume", 8, |i| {
            format!("{},{},{}", ["BTC-USD", "ETH-USD"][i % 2], minute(i / 2), ohlcv(i))
        }),
        "csv with header = fine\n\
         BTC-USD 1m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:01 | 2024-01-02 00:03..2024-01-02 00:04 | 106 108 104.5 107 70\n\
         ETH-USD 1m crypto_spot 4: 2024-01-02 00:00..2024-01-02 00:01 | 2024-01-02 00:03..2024-01-02 00:04 | 107 109 105.5 108 80",
    );
}

#[test]
fn text_encodings_and_number_formats_are_read() {
    let plain = text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i)));
    let mut bom = b"\xef\xbb\xbf".to_vec();
    bom.extend(&plain);
    check(
        "AAPL.csv",
        &bom,
        "csv with header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    check(
        "AAPL.csv",
        String::from_utf8(plain.clone()).unwrap().replace('\n', "\r\n").as_bytes(),
        "csv with header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    let newest = text("Date,Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(5 - i), ohlcv(5 - i)));
    check(
        "AAPL.csv",
        &newest,
        "csv with header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    let comma = |i: usize| format!("{};{}", day(i), ohlcv(i).replace(',', ";").replace('.', ","));
    check(
        "SAP.csv",
        &text("Datum;Open;High;Low;Close;Volume".replace("Datum", "Date").as_str(), 6, |i| {
            comma(i).replace(";100;", ";100,0;")
        }),
        "csv with header = fine\n\
         SAP 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    let quoted = |i: usize| {
        let [o, h, l, c, v] = bar(i);
        format!("\"{}\",\"1,{o:06.2}\",\"1,{h:06.2}\",\"1,{l:06.2}\",\"1,{c:06.2}\",\"{v},000\"", day(i))
    };
    check(
        "BRK-A.csv",
        &text("\"Date\",\"Open\",\"High\",\"Low\",\"Close\",\"Volume\"", 6, quoted),
        "csv with header = fine\n\
         BRK-A 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 1105 1107 1103.5 1106 60000",
    );
    check(
        "EURUSD.csv",
        &text("Gmt time,Open,High,Low,Close,Volume", 20, |i| {
            format!("{:02}.01.2024 {:02}:00:00.000,{}", 2 + i / 10, i % 10, ohlcv(i))
        }),
        "csv with header = fine\n\
         EURUSD 1h fx 20: 2024-01-02 00:00..2024-01-02 01:00 | 2024-01-03 09:00..2024-01-03 10:00 | 119 121 117.5 120 200",
    );
    check(
        "SPX.csv",
        &text("Date,Open,High,Low,Close,Volume", 21, |i| {
            let d = day(i);
            format!("1/{}/2024,{}", d[8..].trim_start_matches('0'), ohlcv(i))
        }),
        "csv with header = fine\n\
         SPX 1d index 21: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-31 00:00..2024-02-01 00:00 | 120 122 118.5 121 210",
    );
    let am = |i: usize| {
        format!("2024-01-02 {:02}-{},BTCUSD,{},7", (i + 11) % 12 + 1, if i < 12 { "AM" } else { "PM" }, ohlcv(i))
    };
    check(
        "Coinbase_BTCUSD_1h.csv",
        &text("https://www.CryptoDataDownload.com\nDate,Symbol,Open,High,Low,Close,Volume BTC,Volume USD", 24, am),
        "cryptodatadownload csv = fine\n\
         BTCUSD 1h crypto_spot 24: 2024-01-02 00:00..2024-01-02 01:00 | 2024-01-02 23:00..2024-01-03 00:00 | 123 125 121.5 124 240 Volume USD=7",
    );
    check(
        "FESX_1m.txt",
        &text("Date,Open,High,Low,Close,Volume,OpenInterest", 6, |i| format!("2024-01-02,09:0{i}:00,{},0", ohlcv(i))),
        "csv with header = fine\n\
         FESX 1m equity 6: 2024-01-02 09:00..2024-01-02 09:01 | 2024-01-02 09:05..2024-01-02 09:06 | 105 107 103.5 106 60 OpenInterest=0",
    );
    check(
        "SPY.csv",
        &text(",Open,High,Low,Close,Volume", 6, |i| format!("{},{}", day(i), ohlcv(i))),
        "csv with header = fine\n\
         SPY 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    check(
        "SPY.csv",
        &text(",date,open,high,low,close,volume", 6, |i| format!("{i},{},{}", day(i), ohlcv(i))),
        "csv with header = fine\n\
         SPY 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
    check(
        "DAT_ASCII_EURUSD_M1_2024.csv",
        &text("", 6, |i| format!("20240102 00{:02}00;{}", i, ohlcv(i).replace(',', ";"))),
        "csv without column names = fine\n\
         EURUSD 1m fx 6: 2024-01-02 05:00..2024-01-02 05:01 | 2024-01-02 05:05..2024-01-02 05:06 | 105 107 103.5 106 60",
    );
    check(
        "JPYUSD.csv",
        &text("Time,Open,High,Low,Last,Change,Volume", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},{o},{h},{l},{c},-0.5,{v}", day(i))
        }),
        "csv with header = fine\n\
         JPYUSD 1d fx 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 Change=-0.5",
    );
    check(
        "TSLA.csv",
        &text("Date,Close/Last,Volume,Open,High,Low", 6, |i| {
            let [o, h, l, c, v] = bar(i);
            format!("{},${c},{v},${o},${h},${l}", day(i))
        }),
        "csv with header = fine\n\
         TSLA 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60",
    );
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
    check(
        "train_data.csv",
        &text(",date,open,high,low,close,volume,day,tic", 12, finrl),
        "finrl long csv = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 110 112 108.5 111 110\n\
         MSFT 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 111 113 109.5 112 120",
    );
    check(
        "BTC_ETH.csv",
        &text(
            "date,BTC:open,BTC:high,BTC:low,BTC:close,BTC:volume,ETH:open,ETH:high,ETH:low,ETH:close,ETH:volume",
            20,
            |i| format!("2024-01-{:02},{},{}", i + 1, ohlcv(i), if i < 2 { ",,,,".to_string() } else { ohlcv(i + 9) }),
        ),
        "wide csv of 2 symbols = fine\n\
         BTC 1d crypto_spot 20: 2024-01-01 00:00..2024-01-02 00:00 | 2024-01-20 00:00..2024-01-21 00:00 | 119 121 117.5 120 200\n\
         ETH 1d crypto_spot 18: 2024-01-03 00:00..2024-01-04 00:00 | 2024-01-20 00:00..2024-01-21 00:00 | 128 130 126.5 129 290",
    );
    check(
        "AAPL.csv",
        &text("Date,AAPL.Open,AAPL.High,AAPL.Low,AAPL.Close,AAPL.Volume,mavg,direction", 6, |i| {
            format!("{},{},{},Increasing", day(i), ohlcv(i), i)
        }),
        "csv with header = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 60 mavg=5",
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
        "wide csv of 2 symbols = fine\n\
         AAPL 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 105 107 103.5 106 -\n\
         BRK-B 1d equity 6: 2024-01-02 00:00..2024-01-03 00:00 | 2024-01-09 00:00..2024-01-10 00:00 | 114 116 112.5 115 -",
    );
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
    check(
        "SPY_1m.csv",
        &session(571),
        "csv with header = fine\n\
         SPY 1m equity 1950: 2024-01-02 14:30..2024-01-02 14:31 | 2024-01-08 20:59..2024-01-08 21:00 | 149 151 147.5 150 500",
    );
    check(
        "SPY_1m.csv",
        &session(570),
        "csv with header = fine\n\
         SPY 1m equity 1950: 2024-01-02 14:30..2024-01-02 14:31 | 2024-01-08 20:59..2024-01-08 21:00 | 149 151 147.5 150 500",
    );
    let just_before = text("close_time,open,high,low,close,volume", 6, |i| {
        format!("{},{}", JAN_2024_MS + 300_000 * (i as i64 + 1) - 1, ohlcv(i))
    });
    check(
        "ETHUSDT.csv",
        &just_before,
        "csv with header = fine\n\
         ETHUSDT 5m crypto_spot 6: 2024-01-01 00:00..2024-01-01 00:05 | 2024-01-01 00:25..2024-01-01 00:30 | 105 107 103.5 106 60",
    );
    check(
        "ETHUSDT.csv",
        &text("time,open,high,low,close,volume", 6, |i| format!("2024-01-02 00:{:02}:59.999,{}", 5 * i + 4, ohlcv(i))),
        "csv with header = fine\n\
         ETHUSDT 5m crypto_spot 6: 2024-01-02 00:00..2024-01-02 00:05 | 2024-01-02 00:25..2024-01-02 00:30 | 105 107 103.5 106 60",
    );
    let ends = ["2023-01-31", "2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31", "2023-06-30"];
    check(
        "BTCUSD.csv",
        &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", ends[i], ohlcv(i))),
        "csv with header = fine\n\
         BTCUSD 1mo crypto_spot 6: 2023-01-01 00:00..2023-02-01 00:00 | 2023-06-01 00:00..2023-07-01 00:00 | 105 107 103.5 106 60",
    );
    let firsts = ["2023-01-01", "2023-02-01", "2023-03-01", "2023-04-01", "2023-05-01", "2023-06-01"];
    check(
        "BTCUSD.csv",
        &text("date,open,high,low,close,volume", 6, |i| format!("{},{}", firsts[i], ohlcv(i))),
        "csv with header = fine\n\
         BTCUSD 1mo crypto_spot 6: 2023-01-01 00:00..2023-02-01 00:00 | 2023-06-01 00:00..2023-07-01 00:00 | 105 107 103.5 106 60",
    );
    check(
        "BTCUSD.csv",
        &text("date,open,high,low,close,volume", 6, |i| {
            format!("2024-01-{:02},{}", 1 + 7 * (i % 4), ohlcv(i))
                .replace("2024-01", if i < 4 { "2024-01" } else { "2024-02" })
        }),
        "csv with header = fine\n\
         BTCUSD 1w crypto_spot 6: 2024-01-01 00:00..2024-01-08 00:00 | 2024-02-08 00:00..2024-02-15 00:00 | 105 107 103.5 106 60",
    );
}
