//! Real files, when the folder of raw data is there.

use std::path::PathBuf;

use files::{Archive, Container, Data, JsonShape, Source, read_feather, read_json};

use crate::caps;

/// The raw files that end so, or nothing with a line that says it.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn raw(ending: &str) -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/raw");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    if found.is_empty() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", root.display());
        eprintln!("skipped: no *{ending} in {}", root.display());
    }
    found
}

#[test]
fn json() {
    for path in raw(".json") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = Source::open(&path).unwrap();
        assert_eq!(source.container().unwrap(), Container::Json);
        let Ok(json) = read_json(&source, &caps()) else {
            // Answers of a server that hold no bars.
            assert!(path.to_string_lossy().contains("errors"), "{name}");
            continue;
        };
        let first = |column: &str| json.table.column(column).map(|c| c.data.text(0).map(str::to_string));
        match name.as_str() {
            "binance_rest_klines_BTCUSDT_M1.json" => {
                assert_eq!((json.shape, json.table.columns.len()), (JsonShape::Arrays, 12));
                assert_eq!(first("1"), Some(Some("60685.22000000".into())));
            }
            "coinbase_candles_BTCUSD_D1.json" => {
                assert!(json.scalars.contains(&("rows".into(), "candles".into())));
                assert_eq!(first("start"), Some(Some("1696982400".into())));
            }
            "ohlc_objects_ETHUSD_M5.json" => {
                assert_eq!(json.scalars[0], ("name".into(), "ETH/USD_PT5M@BinanceUS".into()));
                assert!(
                    matches!(&json.table.column("endTime").unwrap().data, Data::I64(v) if v[0] == 1_678_730_699_999)
                );
            }
            "oanda_json_XAUUSD_H2.json" => assert_eq!(first("open"), Some(Some("1292.367".into()))),
            _ => {}
        }
        assert!(json.table.rows > 0, "{name}");
    }
}

#[test]
fn feather() {
    for path in raw(".feather") {
        let source = Source::open(&path).unwrap();
        assert_eq!(source.container().unwrap(), Container::Feather);
        let mut rows = 0;
        read_feather(&source, &caps(), &mut |table| {
            rows += table.rows;
            assert!(matches!(&table.column("date").unwrap().data, Data::Time { utc: true, .. }));
            assert!(matches!(&table.column("open").unwrap().data, Data::F64(_)));
            Ok(())
        })
        .unwrap();
        assert!(rows > 100, "{}", path.display());
    }
}

#[test]
fn zips() {
    for path in raw(".zip") {
        let source = Source::open(&path).unwrap();
        assert_eq!(source.container().unwrap(), Container::Zip);
        let archive = Archive::open(&source, &caps()).unwrap();
        assert!(!archive.members().is_empty());
        for i in 0..archive.members().len() {
            assert_eq!(archive.source(i).unwrap().container().unwrap(), Container::Text, "{}", path.display());
        }
    }
}

#[test]
fn gzips() {
    for path in raw(".gz") {
        let source = Source::open(&path).unwrap();
        assert_eq!(source.container().unwrap(), Container::Text, "{}", path.display());
        assert!(source.bytes(&caps()).unwrap().len() as u64 > source.len());
    }
}
