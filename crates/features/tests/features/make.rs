//! Markets with everything that happens to data, feature sets of the whole catalogue, and what must hold of every
//! table.

use bars::{Bars, Hints, Instrument, Timeframe};
use features::{Dataset, Indicator, Kind, Options, Plan, Stream, Table, catalogue};
use random::SplitMix;

/// Whether something happens that does so once in `times` draws.
pub(crate) fn once_in(random: &mut SplitMix, times: usize) -> bool {
    random.below(times) == 0
}

/// 2024-01-02, a Tuesday, in nanoseconds.
const BEGIN: i64 = 1_704_153_600_000_000_000;

/// A wandering price without a hole: `bars` bars of a symbol, with volume and the columns `rate` and `Funding Rate`.
pub(crate) fn clean(symbol: &str, timeframe: &str, bars: usize, seed: u64) -> Bars {
    let timeframe: Timeframe = timeframe.parse().unwrap();
    let mut random = SplitMix::new(seed);
    let start: Vec<i64> = (0..bars as i64).map(|i| BEGIN + i * timeframe.ns()).collect();
    let mut made = Bars {
        symbol: symbol.into(),
        instrument: Instrument::guess(symbol, &Hints::default()).0,
        timeframe,
        end: start.iter().map(|t| t + timeframe.ns()).collect(),
        start,
        open: Vec::new(),
        high: Vec::new(),
        low: Vec::new(),
        close: Vec::new(),
        volume: Vec::new(),
        extras: vec![("rate".into(), Vec::new()), ("Funding Rate".into(), Vec::new())],
        segments: vec![0],
        member: Vec::new(),
    };
    let mut price = 100.0;
    for _ in 0..bars {
        let open = price * (1.0 + 0.001 * (random.unit() - 0.5));
        price = open * (1.0 + 0.01 * (random.unit() - 0.5));
        made.open.push(open);
        made.high.push(open.max(price) * (1.0 + 0.003 * random.unit()));
        made.low.push(open.min(price) * (1.0 - 0.003 * random.unit()));
        made.close.push(price);
        made.volume.push(1000.0 * random.unit());
        made.extras[0].1.push(random.unit() - 0.5);
        made.extras[1].1.push(0.0001 * random.unit());
    }
    made
}

/// The same with what happens: bars left out, long holes, segment borders, missing volumes and columns, prices that do
/// not move, volume 0; where `broken`, prices that are missing.
pub(crate) fn rough(symbol: &str, timeframe: &str, bars: usize, seed: u64, broken: bool) -> Bars {
    let mut made = clean(symbol, timeframe, bars, seed);
    let mut random = SplitMix::new(seed ^ 0xabcd);
    let (mut shift, step) = (0, made.timeframe.ns());
    for i in 0..bars {
        if once_in(&mut random, 40) {
            shift += step * (1 + random.below(5) as i64);
        }
        if once_in(&mut random, 500) {
            shift += step * (20 + random.below(60) as i64);
        }
        if i > 0 && once_in(&mut random, 700) {
            made.segments.push(i);
        }
        made.start[i] += shift;
        made.end[i] += shift;
        if once_in(&mut random, 50) {
            made.volume[i] = f64::NAN;
        }
        if once_in(&mut random, 20) {
            made.volume[i] = 0.0;
        }
        if once_in(&mut random, 30) {
            made.extras[0].1[i] = f64::NAN;
        }
        if once_in(&mut random, 15) && i > 0 {
            let price = made.close[i - 1];
            (made.open[i], made.high[i], made.low[i], made.close[i]) = (price, price, price, price);
        }
        if broken && once_in(&mut random, 300) {
            made.close[i] = f64::NAN;
        }
        if broken && once_in(&mut random, 400) {
            made.high[i] = f64::NAN;
        }
    }
    made
}

/// The first `n` bars.
pub(crate) fn first(bars: &Bars, n: usize) -> Bars {
    piece(bars, 0..n)
}

/// Some of the bars, without their segments.
pub(crate) fn piece(bars: &Bars, range: std::ops::Range<usize>) -> Bars {
    let cut = |x: &Vec<f64>| if x.is_empty() { Vec::new() } else { x[range.clone()].to_vec() };
    let segments = bars.segments.iter().filter(|s| **s > range.start && **s < range.end).map(|s| s - range.start);
    Bars {
        start: bars.start[range.clone()].to_vec(),
        end: bars.end[range.clone()].to_vec(),
        open: cut(&bars.open),
        high: cut(&bars.high),
        low: cut(&bars.low),
        close: cut(&bars.close),
        volume: cut(&bars.volume),
        extras: bars.extras.iter().map(|(name, x)| (name.clone(), cut(x))).collect(),
        segments: std::iter::once(0).chain(segments).collect(),
        ..bars.clone()
    }
}

/// How an indicator is written with these numbers.
pub(crate) fn written(indicator: &Indicator, numbers: &[f64], output: Option<&str>) -> String {
    let free = ["close", "open"];
    let mut args: Vec<String> =
        indicator.sources.iter().zip(free).filter(|(s, _)| s.is_empty()).map(|(_, f)| f.into()).collect();
    args.extend(numbers.iter().map(f64::to_string));
    let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
    format!("{}{args}{}", indicator.name, output.map_or_else(String::new, |o| format!(".{o}")))
}

/// Every output of every indicator of one symbol: with its defaults and, where `many`, its smallest numbers and others.
pub(crate) fn everything(many: bool) -> Vec<String> {
    let mut all = Vec::new();
    for indicator in catalogue().filter(|i| i.kind != Kind::Market) {
        let params = indicator.params;
        let defaults: Vec<f64> = params.iter().map(|p| p.default.unwrap_or(p.range.0)).collect();
        let mut choices = vec![defaults.clone()];
        if many {
            choices.push(params.iter().map(|p| p.range.0).collect());
            choices.push(
                params
                    .iter()
                    .zip(&defaults)
                    .map(|(p, d)| if p.whole { d + 3.0 } else { (d * 1.5).min(p.range.1) })
                    .collect(),
            );
            choices.push(params.iter().map(|p| if p.whole { p.range.0 + 6.0 } else { p.range.0 + 0.01 }).collect());
        }
        for numbers in choices {
            for output in 0..indicator.outputs.len().max(1) {
                all.push(written(indicator, &numbers, indicator.outputs.get(output).copied()));
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// A plan from the text of a set.
pub(crate) fn plan(text: &str) -> Plan {
    Plan::new(&features::language::parse(text, None).unwrap()).unwrap()
}

/// A data set on so many threads.
pub(crate) fn dataset(market: Vec<Bars>, plan: &Plan, threads: usize) -> Dataset {
    try_dataset(market, plan, threads).unwrap()
}

pub(crate) fn try_dataset(market: Vec<Bars>, plan: &Plan, threads: usize) -> files::Result<Dataset> {
    let options = Options { threads, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
    let made = Dataset::new(market, plan, &options)?;
    check_table(&made.base);
    made.slow.iter().for_each(|slow| check_table(&slow.table));
    Ok(made)
}

/// A stream for the bars of a symbol.
pub(crate) fn stream(bars: &Bars, plan: &Plan) -> Stream {
    let names: Vec<String> = bars.extras.iter().map(|e| e.0.clone()).collect();
    Stream::new(plan, &bars.instrument, bars.timeframe, &names, !bars.volume.is_empty(), None).unwrap()
}

/// What must hold of every table.
pub(crate) fn check_table(table: &Table) {
    let (rows, width, words) = (table.rows(), table.columns.len(), table.words());
    assert_eq!(table.stride, width.next_multiple_of(4));
    assert_eq!((table.values.len(), table.valid.len(), table.settled.len()), (rows * table.stride, rows * words, rows));
    assert_eq!(table.offsets.len(), table.market.len() + 1);
    for (s, bars) in table.market.iter().enumerate() {
        assert_eq!(table.offsets[s + 1] - table.offsets[s], bars.len());
        let mut at = 0;
        for run in &table.runs[s] {
            assert!(run.start == at && run.end > at, "runs lie one behind the other");
            at = run.end;
        }
        assert_eq!(at, bars.len());
    }
    let mut invalid = vec![0u64; width];
    for row in 0..rows {
        let values = table.row(row);
        for (f, value) in values.iter().enumerate() {
            let name = &table.columns[f].name;
            assert_eq!(table.is_valid(row, f), value.is_finite(), "{name} at row {row}: {value}");
            assert!(value.is_finite() || value.to_bits() == f32::NAN.to_bits(), "{name} at row {row}: {value}");
            invalid[f] += u64::from(!value.is_finite());
        }
        let padding = &table.values[row * table.stride + width..(row + 1) * table.stride];
        assert!(padding.iter().all(|x| x.to_bits() == 0), "padding at row {row}: {padding:?}");
        assert!(
            !table.settled[row] || values.iter().all(|x| x.is_finite()),
            "row {row} settled, and something is missing"
        );
        let bits: u32 = table.valid[row * words..(row + 1) * words].iter().map(|w| w.count_ones()).sum();
        assert_eq!(bits as usize, values.iter().filter(|x| x.is_finite()).count(), "bits beyond the columns are 0");
    }
    assert_eq!(table.columns.iter().map(|c| c.invalid).collect::<Vec<_>>(), invalid);
    // Nothing is there before its first bar, and nothing has settled before its bar.
    for (s, runs) in table.runs.iter().enumerate() {
        for run in runs {
            for (f, column) in table.columns.iter().enumerate() {
                for row in run.clone().take(column.first_valid) {
                    assert!(!table.is_valid(table.offsets[s] + row, f), "{} is there at {row} of {run:?}", column.name);
                }
                let unsettled = column.settled.unwrap_or(usize::MAX);
                assert!(
                    run.clone().take(unsettled).all(|row| !table.settled[table.offsets[s] + row]),
                    "{} in {run:?}",
                    column.name
                );
            }
        }
    }
}

/// All that a table says, as bits.
pub(crate) fn bits(table: &Table) -> (Vec<u32>, &[u64], &[bool], Vec<u64>) {
    let values = table.values.iter().map(|v| v.to_bits()).collect();
    (values, &table.valid, &table.settled, table.columns.iter().map(|c| c.invalid).collect())
}
