//! Bars to table: the time of it, and the columns in full precision for whoever checks them.

use features::{Dataset, Options, Plan};
use files::{Column, Data, ParquetWriter, Table};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Instant;

/// Bars of each symbol that the sums leave out, as `bench/peers/peer.py` does.
const WARM: usize = 100;

/// Times the computation, bars in memory before the clock starts; the median of the rounds after the first.
pub(crate) fn time(path: &Path, set: &str, threads: usize, rounds: usize) -> Result<Value, String> {
    let (market, plan) = (read(path, threads)?, plan(set)?);
    let mut seconds = Vec::new();
    let (mut first, mut last) = (f64::NAN, None);
    for round in 0..=rounds.max(1) {
        let bars = market.clone();
        let options = Options { threads, max_hole: None, labels: None, progress: &|_, _, _| {}, stop: &|| false };
        // In the memory of the round before, as the peers' rounds are: the first one had to be given it.
        let spare = last.take().map(|d: Dataset| d.base);
        let clock = Instant::now();
        let made = Dataset::new_in(spare, bars, &plan, &options).map_err(|e| e.to_string())?;
        let spent = clock.elapsed().as_secs_f64();
        if round == 0 {
            first = spent;
        } else {
            seconds.push(spent);
        }
        last = Some(made);
    }
    seconds.sort_by(f64::total_cmp);
    let (median, base) = (seconds[seconds.len() / 2], last.ok_or("no round was run")?.base);
    let mut sums = Map::new();
    for (f, column) in base.columns.iter().enumerate() {
        let warm = base.offsets.windows(2).flat_map(|o| (o[0] + WARM).min(o[1])..o[1]);
        let values = warm.map(|row| base.values[row * base.stride + f]).filter(|v| v.is_finite());
        let (count, sum) = values.fold((0u64, 0.0), |(n, sum), v| (n + 1, sum + f64::from(v)));
        sums.insert(column.name.clone(), json!([count, sum]));
    }
    Ok(json!({
        "seconds": median, "first_seconds": first, "rows": base.rows(), "columns": base.columns.len(),
        "ns_per_bar": median * 1e9 / base.rows() as f64, "threads": threads, "rounds": rounds,
        "peak_rss_mib": super::peak_rss_mib(), "checksum": sums,
    }))
}

/// Every feature as a column of doubles, as Parquet.
pub(crate) fn columns(path: &Path, set: &str, out: &Path, threads: usize) -> Result<Value, String> {
    let (market, plan) = (read(path, threads)?, plan(set)?);
    let mut writer = ParquetWriter::create(out, &[]).map_err(|e| e.to_string())?;
    let mut rows = 0;
    for bars in &market {
        let columns = features::precise(bars, &plan, None).map_err(|e| e.to_string())?;
        rows += bars.len();
        let names = Data::Names { codes: vec![0; bars.len()], names: vec![bars.symbol.clone()] };
        let mut table = Table { rows: bars.len(), columns: vec![Column { name: "symbol".into(), data: names }] };
        table.columns.push(Column::time("start", bars.start.clone()));
        table.columns.extend(columns.into_iter().map(|(name, values)| Column::f64(name, values)));
        writer.write(&table).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())?;
    Ok(json!({ "rows": rows, "columns": plan.width() }))
}

fn read(path: &Path, threads: usize) -> Result<Vec<bars::Bars>, String> {
    // The peers know nothing of suspected splits.
    let repairs = bars::Repairs { splits: bars::Splits::Keep, ..bars::Repairs::default() };
    let options = bars::Options { threads, repairs, ..bars::Options::default() };
    let (market, audit) = bars::read(path, &options, &|_| {}).map_err(|e| e.to_string())?;
    if market.bars.is_empty() {
        return Err(format!("{}: refused: {}", path.display(), audit.reasons.join("; ")));
    }
    Ok(market.bars)
}

/// A preset by name, or a file.
fn plan(set: &str) -> Result<Plan, String> {
    let set = features::read_set(set).map_err(|e| e.to_string())?;
    Plan::new(&set).map_err(|e| e.to_string())
}
