//! Wide and narrow instructions give the same bits, in one lane, in four and in eight.

use super::*;
use crate::dataset::{Dataset, Options};
use crate::indicators::{Kind, catalogue};
use crate::plan::Plan;
use bars::{Hints, Instrument};

/// A wandering symbol, with missing volumes and prices in places.
pub(crate) fn symbol(bars: usize, mut seed: u64) -> Bars {
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1u64 << 24) as f64
    };
    let start: Vec<i64> = (0..bars as i64).map(|i| i * 300_000_000_000).collect();
    let mut price = 100.0;
    let close: Vec<f64> = start
        .iter()
        .map(|_| {
            price *= 1.0 + 0.01 * (random() - 0.5);
            if random() < 0.002 { f64::NAN } else { price }
        })
        .collect();
    Bars {
        symbol: "BTCUSDT".into(),
        instrument: Instrument::guess("BTCUSDT", &Hints::default()).0,
        timeframe: Timeframe::M5,
        end: start.iter().map(|t| t + 300_000_000_000).collect(),
        open: close.iter().map(|x| x * (1.0 + 0.004 * (random() - 0.5))).collect(),
        high: close.iter().map(|x| x * (1.002 + 0.004 * random())).collect(),
        low: close.iter().map(|x| x * (0.998 - 0.004 * random())).collect(),
        volume: close.iter().map(|_| if random() < 0.01 { f64::NAN } else { random() }).collect(),
        close,
        start,
        extras: Vec::new(),
        segments: vec![0],
        member: Vec::new(),
    }
}

/// A set with every output of every indicator of one symbol.
pub(crate) fn everything() -> String {
    let mut text = String::new();
    for indicator in catalogue().filter(|i| i.kind != Kind::Market) {
        let free: Vec<&str> =
            indicator.sources.iter().zip(["close", "open"]).filter(|s| s.0.is_empty()).map(|s| s.1).collect();
        let call = if free.is_empty() {
            indicator.name.to_string()
        } else {
            format!("{}({})", indicator.name, free.join(", "))
        };
        text += &format!("{call}\n");
        indicator.outputs.iter().skip(1).for_each(|output| text += &format!("{call}.{output}\n"));
    }
    text
}

#[test]
fn scalar_and_simd_give_the_same_bits() {
    let text = everything() + "slow = ema(rsi(5), 3)@1h\n";
    let plan = Plan::new(&crate::language::parse(&text, None).unwrap()).unwrap();
    let make = |market: &[Bars], narrow: bool| {
        crate::simd::force_narrow(narrow);
        let options = Options { threads: 2, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        let table = Dataset::new(market.to_vec(), &plan, &options).unwrap().base;
        crate::simd::force_narrow(false);
        (table.values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>(), table.valid, table.settled)
    };
    for lengths in [
        &[3000][..],
        &[500, 400, 300, 200, 7],
        &[300, 280, 260, 250, 240, 230, 220, 210, 200, 190, 180, 33, 2, 1, 500, 90, 80],
    ] {
        let market: Vec<Bars> = lengths.iter().enumerate().map(|(s, n)| symbol(*n, s as u64)).collect();
        assert!(make(&market, false) == make(&market, true), "{lengths:?}");
    }
    assert_eq!(
        choose_width(&[300; 17], 2).0,
        8,
        "many symbols go eight abreast, so the last case is not like the first"
    );
}

/// Many symbols share lanes and what they are worked on with; one alone has both for itself.
#[test]
fn lanes_do_not_affect_each_other() {
    let plan = Plan::new(&crate::language::parse(&everything(), None).unwrap()).unwrap();
    let make = |market: &[Bars]| {
        let options = Options { threads: 1, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        let table = Dataset::new(market.to_vec(), &plan, &options).unwrap().base;
        (table.values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>(), table.valid, table.settled)
    };
    let lengths: Vec<usize> = (0..27).map(|s| 700 - s * s).collect();
    assert_eq!(choose_width(&lengths, 1).0, 8, "four groups, one after another");
    let market: Vec<Bars> = lengths.iter().enumerate().map(|(s, n)| symbol(*n, s as u64)).collect();
    let mut alone = (Vec::new(), Vec::new(), Vec::new());
    for bars in &market {
        let (values, valid, settled) = make(std::slice::from_ref(bars));
        alone.0.extend(values);
        alone.1.extend(valid);
        alone.2.extend(settled);
    }
    assert!(make(&market) == alone);
}
