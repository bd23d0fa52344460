//! The real files of `../shared/data`: what is recognised, counted and refused, held against their README and
//! `manifest.json`.
//!
//! The folder lies beside the project and not in it. Where it is missing the tests are skipped, aloud; with CI=true
//! that is a failure.

use crate::read;
use bars::audit::{Audit, Verdict, Verdict::*};
use bars::{Factors, Market, Options};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if folder.join("manifest.json").is_file() {
        return Some(folder);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "../shared/data is not there");
    skip("../shared/data is not there");
    None
}

/// As xtask's `test.rs` asks for.
#[expect(clippy::print_stdout, reason = "this is how a skip is told")]
fn skip(why: &str) {
    use std::io::Write;
    println!("SKIP: {why}");
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    if let Some(mut file) = log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        file.write_all(format!("SKIP: {why}\n").as_bytes()).unwrap();
    }
}

fn manifest(data: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(data.join("manifest.json")).unwrap()).unwrap()
}

fn sum(audit: &Audit, count: impl Fn(&bars::audit::SymbolAudit) -> u64) -> u64 {
    audit.symbols.iter().map(count).sum()
}

/// First and last start of all series.
fn range(audit: &Audit) -> (String, String) {
    let first = audit.symbols.iter().map(|s| s.first.clone()).min().unwrap();
    let last = audit.symbols.iter().map(|s| s.last.clone()).max().unwrap();
    (first, last)
}

/// The manifest counted with pandas; every count of ours must be the same.
#[test]
fn joined_sets_match_their_manifest() {
    let Some(data) = data() else { return };
    let manifest = manifest(&data);
    for (name, told) in manifest.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("bars/")) {
        let outcome = read(&data.join(name), &Options::default());
        if name.contains("funding") {
            let error = outcome.unwrap_err();
            assert!(error.message.contains("funding rates, not bars") && error.remedy.is_some(), "{name}: {error}");
            continue;
        }
        let (market, audit) = outcome.unwrap();
        let stamp = |key: &str| told[key].as_str().unwrap().replace(' ', "T");
        assert_eq!(range(&audit), (stamp("first"), stamp("last")), "{name}");
        let zero_volume = told["zero_volume_rows"].as_u64().unwrap_or(0);
        let counts = [
            ("rows", audit.rows),
            ("symbols", audit.symbols.len() as u64),
            ("duplicate_keys", sum(&audit, |s| s.duplicates + s.conflicts)),
            ("ohlc_violations", sum(&audit, |s| s.range_violations)),
            ("gaps_longer_than_bar", sum(&audit, |s| s.closures + s.holes)),
        ];
        for (key, count) in counts {
            if let Some(wanted) = told[key].as_u64() {
                assert_eq!(count, wanted, "{name}: {key}");
            }
        }
        assert_eq!(sum(&audit, |s| s.zero_volume.unwrap_or(0)), zero_volume, "{name}: zero_volume_rows");
        assert_eq!(sum(&audit, |s| s.bars), audit.rows - told["duplicate_keys"].as_u64().unwrap(), "{name}: bars");
        assert_eq!(market.bars.iter().map(|b| b.len() as u64).sum::<u64>(), audit.bars, "{name}");
        assert_ne!(audit.verdict, Refuse, "{name}: {:?}", audit.reasons);
        for b in &market.bars {
            assert!(
                b.start.is_sorted_by(|x, y| x < y) && b.start.iter().zip(&b.end).all(|(s, e)| s < e),
                "{name} {}",
                b.symbol
            );
        }
    }
}

/// Rows, repeated times, broken ranges and zero volumes of every raw file that has bars.
#[test]
fn raw_files_match_their_manifest() {
    let Some(data) = data() else { return };
    let manifest = manifest(&data);
    for (name, told) in manifest.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("raw/")) {
        let Ok((_, audit)) = read(&data.join(name), &Options::default()) else { continue };
        let check = &told["check"];
        assert_eq!(Some(audit.rows), check["rows"].as_u64(), "{name}: rows");
        if let Some(n) = check["duplicate_times"].as_u64() {
            assert_eq!(sum(&audit, |s| s.duplicates + s.conflicts), n, "{name}: duplicate_times");
        }
        if let Some(n) = check["ohlc_violations"].as_u64() {
            assert_eq!(sum(&audit, |s| s.range_violations), n, "{name}: ohlc_violations");
        }
        // MetaTrader's tick volume is taken, the manifest counted the empty real volume; dropped rows had volumes too.
        let same = !name.contains("mt5_angle") && sum(&audit, |s| s.bars) == audit.rows;
        if let Some(n) = check["zero_volume"].as_u64().filter(|_| same) {
            assert_eq!(sum(&audit, |s| s.zero_volume.unwrap_or(0)), n, "{name}: zero_volume");
        }
        let descending = check["order"].as_str() == Some("descending");
        assert_eq!(
            audit.warnings.iter().any(|w| w.contains("newest first")),
            descending || name.contains("cryptodata"),
            "{name}: order"
        );
    }
}

/// file, rows, bars, symbols, timeframe, first and last start, verdict
type Row = (&'static str, u64, u64, &'static str, &'static str, &'static str, &'static str, Verdict);

#[rustfmt::skip]
const RAW: &[Row] = &[
    ("backtesting_py_BTCUSD.csv", 156, 156, "BTCUSD", "1mo", "2012-01-01T00:00:00Z", "2024-12-01T00:00:00Z", Fine),
    ("backtesting_py_EURUSD.csv", 5000, 5000, "EURUSD", "1h", "2017-04-19T09:00:00Z", "2018-02-07T15:00:00Z", Usable),
    ("backtesting_py_GOOG.csv", 2148, 2148, "GOOG", "1d", "2004-08-19T00:00:00Z", "2013-03-01T00:00:00Z", Fine),
    ("barchart_JPYUSD_D1.csv", 519, 519, "JPYUSD", "1d", "2018-03-12T00:00:00Z", "2020-03-11T00:00:00Z", Fine),
    ("binance_kline12_BTCUSDT_D1.csv", 2142, 2142, "BTCUSDT", "1d", "2017-08-17T00:00:00Z", "2023-06-28T00:00:00Z", Fine),
    ("binance_rest_klines_BTCUSDT_M1.json", 10, 10, "BTCUSDT", "1m", "2021-10-22T23:03:00Z", "2021-10-22T23:12:00Z", Fine),
    ("bitfinex_ochl_arrays_BTCUSD_M1.json", 1000, 1000, "BTCUSD", "1m", "2018-08-10T00:09:00Z", "2018-08-10T16:48:00Z", Fine),
    ("bitstamp_30min_empty_adjclose.csv", 1968, 1968, "BITSTAMP", "30m", "2014-06-23T22:00:00Z", "2014-08-03T23:00:00Z", Fine),
    ("bittrex_reordered_BTCUSDT_D1.csv", 874, 874, "BTCUSDT", "1d", "2015-12-12T00:00:00Z", "2018-06-18T00:00:00Z", Usable),
    ("bom_SPY_M1_2020_12.csv", 1564, 1564, "SPY", "1m", "2020-12-15T14:30:00Z", "2020-12-18T21:00:00Z", Fine),
    ("bom_us_dates_SPX_D1_1990_2022.csv", 8111, 8111, "SPX", "1d", "1990-01-02T00:00:00Z", "2022-03-10T00:00:00Z", Fine),
    ("ccxt_arrays_M1_with_holes.json", 13681, 13681, "CCXT_ARRAYS_M1_WITH_HOLES", "1m", "2017-11-04T23:02:00Z", "2017-11-14T22:59:00Z", Usable),
    ("cme_6EH4_M1_2024_01.csv.gz", 29996, 29996, "6EH4", "1m", "2024-01-01T23:00:00Z", "2024-01-31T23:58:00Z", Usable),
    ("coinbase_candles_BTCUSD_D1.json", 118, 118, "BTCUSD", "1d", "2023-06-16T00:00:00Z", "2023-10-11T00:00:00Z", Fine),
    ("cryptodatadownload_BTCUSD_H1.csv", 20111, 20111, "BTCUSD", "1h", "2017-07-01T11:00:00Z", "2019-10-17T09:00:00Z", Usable),
    ("freqtrade_ADA_BTC_M5.feather", 5720, 5720, "ADA_BTC", "5m", "2018-01-10T04:55:00Z", "2018-01-30T04:50:00Z", Usable),
    ("freqtrade_BTCUSDT_mark_8h.feather", 266, 266, "BTCUSDT", "8h", "2025-03-06T16:00:00Z", "2025-06-03T00:00:00Z", Fine),
    ("freqtrade_ETH_BTC_M5.feather", 5760, 5760, "ETH_BTC", "5m", "2018-01-10T04:55:00Z", "2018-01-30T04:50:00Z", Fine),
    ("ftx_BTCPERP_M1_2022_01.csv", 45031, 45031, "BTCPERP", "1m", "2021-12-31T23:01:00Z", "2022-02-01T05:31:00Z", Fine),
    ("fxcm_USDJPY_M1_2013_ask.csv", 28761, 28761, "USDJPY", "1m", "2013-02-01T00:00:00Z", "2013-03-01T00:00:00Z", Fine),
    ("fxcm_USDJPY_M1_2013_bid.csv", 28761, 28761, "USDJPY", "1m", "2013-02-01T00:00:00Z", "2013-03-01T00:00:00Z", Fine),
    ("gym_anytrading_EURUSD_H1_ask.csv", 6225, 6225, "EURUSD", "1h", "2017-01-01T22:00:00Z", "2017-12-29T21:00:00Z", Fine),
    ("gym_anytrading_GOOGL_D1.csv", 2335, 2335, "GOOGL", "1d", "2009-05-22T00:00:00Z", "2018-08-29T00:00:00Z", Fine),
    ("header_short_by_one_M1_2006.txt", 30889, 30889, "HEADER", "1m", "2006-01-02T09:00:00Z", "2006-02-27T21:59:00Z", Usable),
    ("histdata_ascii_ETXEUR_M1_2010.csv", 19671, 19671, "ETXEUR", "1m", "2010-11-15T07:00:00Z", "2010-12-30T22:03:00Z", Usable),
    ("indexed_SPY_D1_1999.csv", 5241, 5241, "SPY", "1d", "1999-11-01T00:00:00Z", "2020-08-28T00:00:00Z", Fine),
    ("iso_blocks/XAGUSD_PT5M_20230918_012000-20231005_095500.csv", 3689, 3689, "XAGUSD", "5m", "2023-09-18T01:20:00Z", "2023-10-05T09:55:00Z", Fine),
    ("iso_blocks/XAGUSD_PT5M_20231005_100000-20231020_205000.csv", 3164, 3164, "XAGUSD", "5m", "2023-10-05T10:00:00Z", "2023-10-20T20:50:00Z", Fine),
    ("lean/cfd/oanda/minute/xauusd/20140501_quote.zip", 1375, 1375, "XAUUSD", "1m", "2014-05-01T00:00:00Z", "2014-05-01T23:59:00Z", Fine),
    ("lean/cfd/oanda/minute/xauusd/20140502_quote.zip", 1257, 1257, "XAUUSD", "1m", "2014-05-02T00:00:00Z", "2014-05-02T20:59:00Z", Fine),
    ("lean/cfd/oanda/minute/xauusd/20140504_quote.zip", 120, 120, "XAUUSD", "1m", "2014-05-04T22:00:00Z", "2014-05-04T23:59:00Z", Fine),
    ("lean/cfd/oanda/minute/xauusd/20140505_quote.zip", 1389, 1389, "XAUUSD", "1m", "2014-05-05T00:00:00Z", "2014-05-05T23:59:00Z", Fine),
    ("lean/crypto/coinbase/minute/btcusd/20171217_trade.zip", 1440, 1440, "BTCUSD", "1m", "2017-12-17T00:00:00Z", "2017-12-17T23:59:00Z", Fine),
    ("lean/equity/india/minute/yesbank/20190709_trade.zip", 377, 377, "YESBANK", "1m", "2019-07-09T03:45:00Z", "2019-07-09T10:10:00Z", Fine),
    ("lean/equity/india/minute/yesbank/20190710_trade.zip", 376, 376, "YESBANK", "1m", "2019-07-10T03:45:00Z", "2019-07-10T10:10:00Z", Fine),
    ("lean/equity/india/minute/yesbank/20190711_trade.zip", 377, 377, "YESBANK", "1m", "2019-07-11T03:45:00Z", "2019-07-11T10:10:00Z", Fine),
    ("lean/equity/usa/daily/eem.zip", 5245, 5245, "EEM", "1d", "1998-01-06T05:00:00Z", "2021-03-31T04:00:00Z", Usable),
    ("lean/equity/usa/daily/spy.zip", 5849, 5849, "SPY", "1d", "1998-01-02T05:00:00Z", "2021-03-31T04:00:00Z", Usable),
    ("lean/equity/usa/daily/uso.zip", 3910, 3910, "USO", "1d", "1998-01-02T05:00:00Z", "2021-03-31T04:00:00Z", Usable),
    ("lean/equity/usa/minute/aapl/20140605_quote.zip", 830, 830, "AAPL", "1m", "2014-06-05T08:00:00Z", "2014-06-06T00:00:00Z", Fine),
    ("lean/equity/usa/minute/aapl/20140605_trade.zip", 686, 686, "AAPL", "1m", "2014-06-05T08:15:00Z", "2014-06-05T23:59:00Z", Fine),
    ("lean/equity/usa/minute/aapl/20140606_quote.zip", 835, 835, "AAPL", "1m", "2014-06-06T08:00:00Z", "2014-06-07T00:00:00Z", Fine),
    ("lean/equity/usa/minute/aapl/20140606_trade.zip", 783, 783, "AAPL", "1m", "2014-06-06T08:00:00Z", "2014-06-06T23:59:00Z", Fine),
    ("lean/equity/usa/minute/aapl/20140609_quote.zip", 847, 847, "AAPL", "1m", "2014-06-09T08:00:00Z", "2014-06-10T00:00:00Z", Fine),
    ("lean/equity/usa/minute/aapl/20140609_trade.zip", 834, 834, "AAPL", "1m", "2014-06-09T08:00:00Z", "2014-06-09T23:59:00Z", Fine),
    ("lean/future/cme/minute/es/20131007_trade.zip", 1671, 1671, "ES_201312,ES_201403,ES_201406", "1m", "2013-10-07T00:00:00Z", "2013-10-07T23:59:00Z", Fine),
    ("lean/future/cme/minute/es/20131008_trade.zip", 1721, 1721, "ES_201312,ES_201403,ES_201406,ES_201409", "1m", "2013-10-08T00:00:00Z", "2013-10-08T23:59:00Z", Fine),
    ("mislabelled/AAPL_data.csv", 1258, 1257, "AAPL", "1d", "2012-08-10T00:00:00Z", "2017-08-10T00:00:00Z", Usable),
    ("mislabelled/MSFT_data.csv", 1258, 1257, "MSFT", "1d", "2012-08-10T00:00:00Z", "2017-08-10T00:00:00Z", Usable),
    ("mislabelled/NMDC_M5.csv", 16647, 16647, "NMDC", "5m", "2015-10-12T15:45:00Z", "2020-04-15T18:40:00Z", Refuse),
    ("mislabelled/POWERGRID_M5.csv", 3056, 3056, "POWERGRID", "25m", "2019-06-14T03:45:00Z", "2020-04-15T07:55:00Z", Usable),
    ("mislabelled/XOM_data.csv", 1258, 1257, "XOM", "1d", "2012-08-10T00:00:00Z", "2017-08-10T00:00:00Z", Usable),
    ("mt5_angle_header_EURUSD_H1.csv", 45779, 45779, "EURUSD", "1h", "2015-03-09T11:00:00Z", "2022-07-19T19:00:00Z", Fine),
    ("mt_scaled_ints_AUDUSD_D1.csv", 2400, 2400, "AUDUSD", "1d", "2012-12-04T00:00:00Z", "2022-03-04T00:00:00Z", Fine),
    ("nasdaq_site_TSLA_D1.csv", 757, 756, "TSLA", "1d", "2015-10-15T00:00:00Z", "2018-10-15T00:00:00Z", Usable),
    ("ninjatrader_SPY_M1_2011_03.csv", 17577, 17577, "SPY", "1m", "2011-03-01T09:01:00Z", "2011-03-31T23:59:00Z", Usable),
    ("nse_BPCL_D1_2000_2020.csv", 5020, 5017, "BPCL", "1d", "2000-01-03T00:00:00Z", "2020-02-28T00:00:00Z", Usable),
    ("oanda_json_XAUUSD_H2.json", 2984, 2984, "XAUUSD", "2h", "2019-03-31T23:00:00Z", "2020-03-17T23:00:00Z", Usable),
    ("ohlc_objects_ETHUSD_M5.json", 580, 580, "ETH/USD", "5m", "2023-03-13T18:00:00Z", "2023-03-15T18:15:00Z", Fine),
    ("prefixed_columns_AAPL_D1.csv", 506, 506, "AAPL", "1d", "2015-02-17T00:00:00Z", "2017-02-16T00:00:00Z", Fine),
    ("quandl_wiki_AAPL_2011.csv", 252, 252, "AAPL", "1d", "2011-01-03T00:00:00Z", "2011-12-30T00:00:00Z", Fine),
    ("quandl_wiki_AAPL_2012.csv", 250, 250, "AAPL", "1d", "2012-01-03T00:00:00Z", "2012-12-31T00:00:00Z", Fine),
    ("revised_history/CZCE_CF_P1D_20160104_160000-20230927_160000.csv", 1884, 1884, "CZCE_CF", "1d", "2016-01-04T16:00:00Z", "2023-09-27T16:00:00Z", Usable),
    ("revised_history/CZCE_CF_P1D_20160104_160000-20240418_160000.csv", 2015, 2015, "CZCE_CF", "1d", "2016-01-04T16:00:00Z", "2024-04-18T16:00:00Z", Usable),
    ("revised_history/CZCE_CF_P1D_20160105_000000-20230814_000000.csv", 1851, 1851, "CZCE_CF", "1d", "2016-01-04T16:00:00Z", "2023-08-13T16:00:00Z", Usable),
    ("split_date_time_M5_2006.txt", 2142, 2142, "SPLIT", "5m", "2006-01-02T09:00:00Z", "2006-01-30T17:25:00Z", Fine),
    ("us_dates_SPX_M1_2019_11.csv", 1563, 1563, "SPX", "1m", "2019-11-05T14:30:00Z", "2019-11-08T20:59:00Z", Fine),
    ("wide_multi_symbol_BTC_ETH_LTC_D1.csv", 1865, 3578, "BTC,ETH,LTC", "1d", "2014-11-28T00:00:00Z", "2020-01-17T00:00:00Z", Fine),
    ("yahoo_classic_YHOO_1996_2014.txt", 4713, 4713, "YHOO", "1d", "1996-04-12T00:00:00Z", "2014-12-31T00:00:00Z", Fine),
    ("yahoo_errors/4063-T-1d-bad-stock-split-fixed.csv", 22, 22, "T", "1d", "2023-03-14T15:00:00Z", "2023-04-13T15:00:00Z", Fine),
    ("yahoo_errors/4063-T-1d-bad-stock-split.csv", 22, 22, "T", "1d", "2023-03-14T15:00:00Z", "2023-04-13T15:00:00Z", Usable),
    ("yahoo_errors/8TRA-DE-1d-missing-div-adjust-fixed.csv", 5, 5, "8TRA-DE", "1d", "2023-05-29T22:00:00Z", "2023-06-05T22:00:00Z", Fine),
    ("yahoo_errors/8TRA-DE-1d-missing-div-adjust.csv", 5, 5, "8TRA-DE", "1d", "2023-05-29T22:00:00Z", "2023-06-05T22:00:00Z", Fine),
    ("yahoo_errors/ABDP-L-1d-bad-div-fixed.csv", 665, 621, "ABDP-L", "1d", "2022-01-04T00:00:00Z", "2024-08-21T23:00:00Z", Refuse),
    ("yahoo_errors/ABDP-L-1d-bad-div.csv", 665, 621, "ABDP-L", "1d", "2022-01-04T00:00:00Z", "2024-08-21T23:00:00Z", Refuse),
    ("yahoo_errors/AET-L-1d-100x-error-fixed.csv", 23, 23, "AET-L", "1d", "2022-05-02T23:00:00Z", "2022-06-05T23:00:00Z", Fine),
    ("yahoo_errors/AET-L-1d-100x-error.csv", 23, 23, "AET-L", "1d", "2022-05-02T23:00:00Z", "2022-06-05T23:00:00Z", Usable),
    ("yahoo_errors/ALPHA-PA-1d-bad-stock-split-fixed.csv", 29, 29, "ALPHA-PA", "1d", "2023-04-19T22:00:00Z", "2023-05-30T22:00:00Z", Fine),
    ("yahoo_errors/ALPHA-PA-1d-bad-stock-split.csv", 29, 29, "ALPHA-PA", "1d", "2023-04-19T22:00:00Z", "2023-05-30T22:00:00Z", Usable),
    ("yahoo_errors/ASAI-L-1h-bad-unit-fixed.csv", 20, 20, "ASAI-L", "1h", "2024-10-21T09:00:00Z", "2024-10-30T14:00:00Z", Usable),
    ("yahoo_errors/ASAI-L-1h-bad-unit.csv", 20, 20, "ASAI-L", "1h", "2024-10-21T09:00:00Z", "2024-10-30T14:00:00Z", Usable),
    ("yahoo_errors/DEX-AX-1d-bad-stock-split-fixed.csv", 23, 23, "DEX-AX", "1d", "2023-04-30T14:00:00Z", "2023-05-30T14:00:00Z", Fine),
    ("yahoo_errors/DEX-AX-1d-bad-stock-split.csv", 23, 23, "DEX-AX", "1d", "2023-04-30T14:00:00Z", "2023-05-30T14:00:00Z", Fine),
    ("yahoo_errors/KEN-TA-1d-bad-div-fixed.csv", 651, 646, "KEN-TA", "1d", "2022-01-01T22:00:00Z", "2024-08-21T21:00:00Z", Usable),
    ("yahoo_errors/KEN-TA-1d-bad-div.csv", 651, 646, "KEN-TA", "1d", "2022-01-01T22:00:00Z", "2024-08-21T21:00:00Z", Usable),
    ("yahoo_errors/LSC-L-1d-bad-div-fixed.csv", 670, 561, "LSC-L", "1d", "2022-01-05T00:00:00Z", "2024-08-29T23:00:00Z", Refuse),
    ("yahoo_errors/LSC-L-1d-bad-div.csv", 670, 561, "LSC-L", "1d", "2022-01-05T00:00:00Z", "2024-08-29T23:00:00Z", Refuse),
    ("yahoo_errors/MOB-ST-1d-bad-stock-split-fixed.csv", 16, 16, "MOB-ST", "1d", "2023-05-07T22:00:00Z", "2023-05-29T22:00:00Z", Fine),
    ("yahoo_errors/MOB-ST-1d-bad-stock-split.csv", 16, 16, "MOB-ST", "1d", "2023-05-07T22:00:00Z", "2023-05-29T22:00:00Z", Usable),
    ("yahoo_index_NSEI_D1.csv", 2028, 2028, "NSEI", "1d", "2012-01-03T00:00:00Z", "2020-04-23T00:00:00Z", Fine),
    ("yfinance_three_line_header_AAPL_D1.csv", 1006, 1006, "AAPL", "1d", "2020-01-02T00:00:00Z", "2023-12-29T00:00:00Z", Fine),
    ("yfinance_two_line_header_TSLA_D1.csv", 1258, 1258, "TSLA", "1d", "2019-01-02T00:00:00Z", "2023-12-29T00:00:00Z", Fine),
    ("zipline_csvdir_AAPL_D1.csv.gz", 754, 754, "AAPL", "1d", "2012-01-03T00:00:00Z", "2014-12-31T00:00:00Z", Fine),
    ("zipline_csvdir_IBM_D1.csv.gz", 754, 754, "IBM", "1d", "2012-01-03T00:00:00Z", "2014-12-31T00:00:00Z", Fine),
];

#[test]
fn every_raw_file_is_read_or_refused_with_a_reason() {
    let Some(data) = data() else { return };
    for (name, rows, bars, symbols, timeframe, first, last, verdict) in RAW {
        let (_, audit) =
            read(&data.join("raw").join(name), &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let seen: Vec<&str> = audit.symbols.iter().map(|s| s.symbol.as_str()).collect();
        let (from, to) = range(&audit);
        let got = (
            audit.rows,
            sum(&audit, |s| s.bars),
            seen.join(","),
            audit.symbols[0].timeframe.as_str(),
            from.as_str(),
            to.as_str(),
            audit.verdict,
        );
        assert_eq!(
            got,
            (*rows, *bars, symbols.to_string(), *timeframe, *first, *last, *verdict),
            "{name}: {:?}",
            audit.reasons
        );
        assert!(audit.files.iter().all(|f| !f.why.is_empty()), "{name} says why it was read that way");
    }
    let manifest = manifest(&data);
    let raw = manifest.as_object().unwrap().keys().filter_map(|k| k.strip_prefix("raw/"));
    for name in raw.filter(|name| !RAW.iter().any(|row| row.0 == *name)) {
        let error = read(&data.join("raw").join(name), &Options::default()).expect_err(name);
        let word = match name {
            n if n.contains("ticks") => "ticks, not bars",
            n if n.contains("funding") => "funding rates, not bars",
            n if n.contains("factor_files") => "4 columns",
            _ => "no line holds numbers",
        };
        assert!(error.message.contains(word) && error.remedy.is_some(), "{name}: {error}");
        assert_eq!(error.file.as_deref(), Some(data.join("raw").join(name).as_path()));
    }
}

fn raw(data: &Path, name: &str) -> (Market, Audit) {
    read(&data.join("raw").join(name), &Options::default()).unwrap()
}

#[test]
fn known_defects_are_found() {
    let Some(data) = data() else { return };
    let (market, audit) = raw(&data, "nse_BPCL_D1_2000_2020.csv");
    let bpcl = &audit.symbols[0];
    let splits: Vec<&str> = bpcl.suspected_splits.iter().map(|s| &s.at[..10]).collect();
    assert_eq!(splits, ["2000-12-20", "2012-07-13", "2016-07-13", "2017-07-13"]);
    assert_eq!((bpcl.duplicates, bpcl.conflicts, market.bars[0].segments.len()), (3, 0, 5));
    assert_eq!(bpcl.instrument.currency, "INR");

    let (_, audit) = raw(&data, "cryptodatadownload_BTCUSD_H1.csv");
    assert_eq!((audit.symbols[0].out_of_order, audit.symbols[0].holes), (5, 0));
    let (_, audit) = raw(&data, "nasdaq_site_TSLA_D1.csv");
    assert_eq!(audit.repairs[0].what, "dropped_unreadable");
    assert!(audit.repairs[0].example.contains("nasdaq_site_TSLA_D1.csv:2:1: `11:34`"), "{}", audit.repairs[0].example);
    let (_, audit) = raw(&data, "bittrex_reordered_BTCUSDT_D1.csv");
    assert_eq!((audit.symbols[0].holes, audit.symbols[0].missing_bars), (34, 46));
    let (market, audit) = raw(&data, "mt_scaled_ints_AUDUSD_D1.csv");
    assert!(audit.symbols[0].high < 1.2 && market.bars[0].low.iter().all(|l| *l > 0.5));
    let (market, _) = raw(&data, "histdata_ascii_ETXEUR_M1_2010.csv");
    assert_eq!(market.bars[0].start[0], crate::at("2010-11-15 07:00:00"), "EST without daylight saving");
}

#[test]
fn stamp_end_is_inferred_from_sessions() {
    let Some(data) = data() else { return };
    // README: 09:01 .. 22:00, 09:05 .. 17:30 and 18:04:59.999 are ends; FTX's ends show no evidence and are read as
    // starts, later.
    for (name, start, end) in [
        ("header_short_by_one_M1_2006.txt", "2006-01-02 09:00:00", "2006-01-02 09:01:00"),
        ("split_date_time_M5_2006.txt", "2006-01-02 09:00:00", "2006-01-02 09:05:00"),
        ("ohlc_objects_ETHUSD_M5.json", "2023-03-13 18:00:00", "2023-03-13 18:05:00"),
        ("cme_6EH4_M1_2024_01.csv.gz", "2024-01-01 23:00:00", "2024-01-01 23:01:00"),
        ("backtesting_py_BTCUSD.csv", "2012-01-01 00:00:00", "2012-02-01 00:00:00"),
        ("ftx_BTCPERP_M1_2022_01.csv", "2021-12-31 23:01:00", "2021-12-31 23:02:00"),
        ("us_dates_SPX_M1_2019_11.csv", "2019-11-05 14:30:00", "2019-11-05 14:31:00"),
        ("bom_SPY_M1_2020_12.csv", "2020-12-15 14:30:00", "2020-12-15 14:31:00"),
    ] {
        let (market, _) = raw(&data, name);
        assert_eq!((market.bars[0].start[0], market.bars[0].end[0]), (crate::at(start), crate::at(end)), "{name}");
    }
}

#[test]
fn real_folders_are_read() {
    let Some(data) = data() else { return };
    let (market, audit) = raw(&data, "mislabelled");
    let kept: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!((audit.verdict, kept), (Usable, vec!["AAPL", "POWERGRID"]), "{:?}", audit.reasons);
    for name in ["MSFT", "XOM"] {
        let symbol = audit.symbols.iter().find(|s| s.symbol == name).unwrap();
        assert!(symbol.verdict == Refuse && symbol.reasons[0].contains("same series as AAPL"), "{:?}", symbol.reasons);
    }
    let (market, audit) = raw(&data, "revised_history");
    assert_eq!((audit.verdict, market.bars.len(), audit.rows), (Refuse, 0, 1884 + 2015 + 1851));
    // 687 closes were rewritten, and with the second vintage as many rows again; every row but the newest vintage's
    // repeats a time.
    assert_eq!(audit.symbols[0].conflicts + audit.symbols[0].duplicates, 1884 + 1851);
    assert!(audit.symbols[0].conflicts > 687 && audit.symbols[0].reasons[0].contains("in conflict"));
    let (market, audit) = raw(&data, "iso_blocks");
    assert_eq!(
        (market.bars.len(), market.bars[0].len(), audit.verdict),
        (1, 3689 + 3164, Fine),
        "two blocks, one series"
    );

    let folder = tempfile::tempdir().unwrap();
    for side in ["bid", "ask"] {
        let name = format!("fxcm_USDJPY_M1_2013_{side}.csv");
        std::fs::copy(data.join("raw").join(&name), folder.path().join(&name)).unwrap();
    }
    let (market, audit) = read(folder.path(), &Options::default()).unwrap();
    let pair = &market.bars[0];
    assert_eq!((market.bars.len(), pair.len(), pair.extras[0].0.as_str()), (1, 28_761, "spread"));
    assert!(
        pair.extras[0].1.iter().all(|s| (-0.05..0.2).contains(s))
            && audit.warnings.iter().any(|w| w.contains("middle"))
    );
}

#[test]
fn lean_folder_and_its_factors() {
    let Some(data) = data() else { return };
    let (market, audit) = raw(&data, "lean");
    let names: Vec<&str> = market.bars.iter().map(|b| b.symbol.as_str()).collect();
    assert_eq!(
        names,
        [
            "AAPL",
            "AAPL:quote",
            "BTCUSD",
            "EEM",
            "ES_201312",
            "ES_201403",
            "ES_201406",
            "ES_201409",
            "SPY",
            "USO",
            "XAUUSD",
            "YESBANK"
        ]
    );
    assert_eq!(audit.left_out.len(), 8, "factor and map files");
    let aapl = &audit.symbols[0];
    assert_eq!((aapl.suspected_splits.len(), &aapl.suspected_splits[0].at[..10]), (1, "2014-06-09"));
    assert!((aapl.suspected_splits[0].ratio - 1.0 / 7.0).abs() < 0.003);

    let path = data.join("raw/lean/equity/usa/factor_files/aapl.csv");
    let factors = Factors::parse(&path, &std::fs::read_to_string(&path).unwrap()).unwrap();
    let options = Options { factors: Some(factors), ..Options::default() };
    let (market, audit) = read(&data.join("raw/lean/equity/usa/minute"), &options).unwrap();
    assert_eq!(
        audit.symbols[0].suspected_splits.iter().filter(|s| !s.factored).count(),
        0,
        "{:?}",
        audit.symbols[0].reasons
    );
    assert_eq!(market.bars[0].segments, [0], "a factored split begins no segment");
}

/// Through the store and back: the same bars to the bit. (Instruments are guessed anew, and a path that told them is
/// gone.)
#[test]
fn raw_files_round_trip_through_the_store() {
    let Some(data) = data() else { return };
    let home = tempfile::tempdir().unwrap();
    for (at, (name, ..)) in RAW.iter().enumerate().filter(|(_, row)| row.7 != Refuse) {
        let path = data.join("raw").join(name);
        let set = format!("set{at}");
        let (before, _) = read(&path, &Options::default()).unwrap();
        let (entries, _) = bars::store::add_set(&path, &Options::default(), home.path(), &set, false, &|_| {}).unwrap();
        let (after, audit) = read(&home.path().join(&entries[0].file), &Options::default()).unwrap();
        assert_eq!(before.bars.len(), after.bars.len(), "{name}");
        for (b, a) in before.bars.iter().zip(&after.bars) {
            assert!(crate::same(b, a), "{name} {}: {:?}", b.symbol, audit.files);
            assert_eq!(b.segments, a.segments, "{name} {}", b.symbol);
            assert_eq!(b.instrument, a.instrument, "{name} {}", b.symbol);
        }
    }
}
