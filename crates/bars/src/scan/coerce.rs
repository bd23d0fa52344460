//! Text columns of JSON and the like become numbers or times where most of their cells are.

use crate::recognise::names::{self, Role};
use files::{Data, MISSING_TIME, Table, time};

/// Types every text column by its cells; a column of symbols stays text, even where they are numbers.
pub(crate) fn coerce_text_columns(table: &mut Table) {
    for column in table.columns.iter_mut().filter(|c| names::column_role(&c.name) != Some(Role::Symbol)) {
        let typed = match &column.data {
            Data::Text(text) => parse_text_column(text),
            // Strings of Parquet and feather: dates repeat in long tables, so each is read once.
            Data::Names { codes, names } => {
                let mut distinct = files::Text::default();
                names.iter().for_each(|name| distinct.push(name));
                parse_text_column(&distinct).map(|data| expand_codes(data, codes))
            }
            _ => None,
        };
        if let Some(data) = typed {
            column.data = data;
        }
    }
}

/// The value of each row, from those of the distinct names.
fn expand_codes(data: Data, codes: &[u32]) -> Data {
    let whole = codes.iter().all(|code| *code != u32::MAX);
    match data {
        Data::Time { ns, utc } => {
            Data::Time { ns: codes.iter().map(|c| ns.get(*c as usize).copied().unwrap_or(MISSING_TIME)).collect(), utc }
        }
        Data::I64(v) if whole => Data::I64(codes.iter().map(|c| v[*c as usize]).collect()),
        Data::I64(v) => Data::F64(codes.iter().map(|c| v.get(*c as usize).map_or(f64::NAN, |x| *x as f64)).collect()),
        Data::F64(v) => Data::F64(codes.iter().map(|c| v.get(*c as usize).copied().unwrap_or(f64::NAN)).collect()),
        other => other,
    }
}

fn parse_text_column(text: &files::Text) -> Option<Data> {
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
