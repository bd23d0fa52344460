//! Text columns of JSON and the like become numbers or times where most of their cells are.

use files::{Data, MISSING_TIME, Table, time};

/// Types every text column by its cells.
pub(crate) fn coerce(table: &mut Table) {
    for column in &mut table.columns {
        if let Data::Text(text) = &column.data
            && let Some(data) = typed(text)
        {
            column.data = data;
        }
    }
}

fn typed(text: &files::Text) -> Option<Data> {
    let filled = text.iter().filter(|t| !t.is_empty()).count();
    if filled == 0 {
        return Some(Data::F64(vec![f64::NAN; text.len()]));
    }
    let enough = |good: usize| good * 50 >= filled * 49 || (filled - good <= 1 && good >= 7);
    let whole: Option<Vec<i64>> = text.iter().map(|t| t.parse().ok()).collect();
    if let Some(whole) = whole {
        return Some(Data::I64(whole));
    }
    let numbers: Vec<Option<f64>> = text.iter().map(|t| files::parse_f64(t.trim().as_bytes())).collect();
    if enough(numbers.iter().flatten().count()) {
        return Some(Data::F64(numbers.into_iter().map(|n| n.unwrap_or(f64::NAN)).collect()));
    }
    let cells: Vec<&[u8]> = text.iter().filter(|t| !t.is_empty()).map(str::as_bytes).take(4096).collect();
    let column = time::Column::guess(cells.iter().copied())?;
    let stamps: Vec<Option<time::Stamp>> = text.iter().map(|t| time::parse(t.as_bytes(), column.order)).collect();
    enough(stamps.iter().flatten().count()).then(|| Data::Time {
        ns: stamps.iter().map(|s| s.filter(|s| s.zoned == column.zoned).map_or(MISSING_TIME, |s| s.ns)).collect(),
        utc: column.zoned,
    })
}
