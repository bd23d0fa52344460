//! Arrays of an NPZ or NPY file to tables: one array for each field, for each symbol, or for each field with a column a
//! symbol.

use crate::recognise::names::{self, Role};
use files::{Array, Column, Data, Table};

/// A table, and its symbol where the arrays name it.
pub(crate) struct NamedTable {
    pub symbol: Option<String>,
    pub table: Table,
    pub why: String,
}

/// Sorts arrays into tables; the arrays that fit nowhere are named.
pub(crate) fn arrays_to_tables(arrays: Vec<Array>) -> (Vec<NamedTable>, Vec<String>) {
    let fields = |a: &Array| names::column_role(&a.name).is_some();
    let price =
        |a: &Array| matches!(names::column_role(&a.name), Some(Role::Open | Role::High | Role::Low | Role::Close));
    // open[T], high[T], …
    let long = arrays.iter().filter(|a| price(a) && a.shape.len() == 1).map(|a| a.shape[0]).max();
    if let Some(rows) = long {
        let (mine, rest): (Vec<Array>, Vec<Array>) = arrays.into_iter().partition(|a| a.shape == [rows]);
        let columns = mine.into_iter().map(|a| Column { name: a.name, data: a.data }).collect();
        let mut table = Table { columns, rows };
        super::coerce::coerce_text_columns(&mut table);
        let why = "one array for each field".to_string();
        return (vec![NamedTable { symbol: None, table, why }], rest.into_iter().map(|a| a.name).collect());
    }
    // open[T, S], high[T, S], … with symbols[S] and time[T]
    let numeric = |a: &Array| matches!(a.data, Data::F64(_) | Data::I64(_));
    if let Some(shape) = arrays.iter().find(|a| price(a) && numeric(a) && a.shape.len() == 2).map(|a| a.shape.clone()) {
        return by_column(arrays, &shape, &fields);
    }
    // BTCUSDT[n, 6], one array for each symbol; or a single nameless one
    let mut found = Vec::new();
    let mut left = Vec::new();
    let single = arrays.iter().filter(|a| a.shape.len() == 2).count() == 1;
    for array in arrays {
        let numeric = matches!(array.data, Data::F64(_) | Data::I64(_));
        if !numeric || array.shape.len() != 2 || array.shape[1] < 5 || array.shape[1] > 64 {
            left.push(array.name);
            continue;
        }
        let (rows, width) = (array.shape[0], array.shape[1]);
        let nameless = array.name.is_empty()
            || array.name.starts_with("arr_")
            || (single && ["data", "candles", "bars", "ohlcv", "arr"].contains(&array.name.as_str()));
        let symbol = (!nameless).then(|| array.name.clone());
        let columns =
            (0..width).map(|at| Column { name: at.to_string(), data: column(&array.data, rows, width, at) }).collect();
        found.push(NamedTable {
            symbol,
            table: Table { columns, rows },
            why: format!("array `{}` of {rows} × {width}", array.name),
        });
    }
    (found, left)
}

fn by_column(arrays: Vec<Array>, shape: &[usize], fields: &dyn Fn(&Array) -> bool) -> (Vec<NamedTable>, Vec<String>) {
    let (rows, width) = (shape[0], shape[1]);
    let time = arrays.iter().find(|a| a.shape == [rows] && matches!(names::column_role(&a.name), Some(Role::Time(_))));
    let labels = arrays.iter().find(|a| a.shape == [width] && matches!(a.data, Data::Text(_)));
    let symbol =
        |at: usize| labels.and_then(|a| a.data.text(at)).map_or_else(|| format!("S{:04}", at + 1), str::to_string);
    let mut found = Vec::new();
    for at in 0..width {
        let mut columns: Vec<Column> = Vec::new();
        if let Some(time) = time {
            columns.push(Column { name: time.name.clone(), data: time.data.clone() });
        }
        for array in
            arrays.iter().filter(|a| a.shape == shape && fields(a) && matches!(a.data, Data::F64(_) | Data::I64(_)))
        {
            columns.push(Column { name: array.name.clone(), data: column(&array.data, rows, width, at) });
        }
        let why = format!("arrays of {rows} times × {width} symbols");
        // A symbol's rows without any price are days it was not listed.
        let present: Vec<usize> = (0..rows)
            .filter(|row| columns.iter().any(|c| matches!(&c.data, Data::F64(v) if v[*row].is_finite())))
            .collect();
        let whole = present.len() == rows || present.is_empty();
        let keep = |data: &Data| match data {
            Data::F64(v) => Data::F64(present.iter().map(|r| v[*r]).collect()),
            Data::I64(v) => Data::I64(present.iter().map(|r| v[*r]).collect()),
            Data::Time { ns, utc } => Data::Time { ns: present.iter().map(|r| ns[*r]).collect(), utc: *utc },
            other => other.clone(),
        };
        let mut table = if whole {
            Table { columns, rows }
        } else {
            let columns = columns.iter().map(|c| Column { name: c.name.clone(), data: keep(&c.data) }).collect();
            Table { columns, rows: present.len() }
        };
        super::coerce::coerce_text_columns(&mut table);
        found.push(NamedTable { symbol: Some(symbol(at)), table, why });
    }
    let left = arrays
        .iter()
        .filter(|a| a.shape != shape && !fields(a) && a.shape != [width])
        .map(|a| a.name.clone())
        .collect();
    (found, left)
}

fn column(data: &Data, rows: usize, width: usize, at: usize) -> Data {
    let index = (0..rows).map(|row| row * width + at);
    match data {
        Data::F64(v) => Data::F64(index.map(|i| v[i]).collect()),
        Data::I64(v) => Data::I64(index.map(|i| v[i]).collect()),
        other => other.clone(),
    }
}
