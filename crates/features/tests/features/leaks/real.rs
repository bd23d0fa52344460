//! The presets on the files of `../shared/data`, with everything that real files have.

use super::*;
use features::read_set;
use std::path::Path;

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

#[test]
fn presets_on_real_bars() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bars");
    if !folder.is_dir() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "../shared/data is not there");
        return skip("../shared/data is not there");
    }
    for (file, set, from, to) in [
        ("sp500_daily_2010_2017.parquet", "full", "2014-01-01", "2017-01-01"),
        ("futures_daily_1968_2021.parquet", "basic", "2015-01-01", "2019-01-01"),
        ("xauusd_m5_2022_2023.parquet", "two_timeframe", "2022-11-01", "2023-01-01"),
        ("nse_m5_2016_2020.parquet", "two_timeframe", "2018-01-01", "2018-03-01"),
        ("btcusdt_spot_h1_2017_2024.parquet", "full", "2018-01-01", "2018-06-01"),
    ] {
        let ns = |day: &str| files::time::parse(day.as_bytes(), files::time::Order::Ymd).unwrap().ns;
        let options = bars::Options { from: Some(ns(from)), to: Some(ns(to)), ..bars::Options::default() };
        let (market, _) = bars::read(&folder.join(file), &options, &|_| {}).unwrap();
        let some: Vec<Bars> = market.bars.into_iter().filter(|b| b.len() > 200).take(3).collect();
        assert!(!some.is_empty(), "{file}");
        for settle in [features::SETTLE, 1e-6] {
            let plan = Plan::with_settle(&read_set(set).unwrap(), settle).unwrap();
            let spec = LeakTests { cuts: 4, starts: 4, settle, ..LeakTests::default() };
            check(file, &some, &plan, labeling("auto"), &spec);
        }
    }
}
