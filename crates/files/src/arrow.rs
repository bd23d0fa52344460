//! Arrow batches to tables and back, shared by feather and Parquet; and the guard around both.
//!
//! Arrow's readers are meant to return errors on bad input, yet fuzzers keep finding panics in them. [`guard`] turns
//! those into errors. The callbacks of our callers run outside it, so that our own bugs still show.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    RecordBatch, StringArray, Time64NanosecondArray, TimestampNanosecondArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};
use crate::table::{Column, Data, MISSING_TIME, Table};

/// Rows handed out at once.
pub(crate) const BATCH: usize = 65_536;

/// Runs a foreign reader; its panics become errors of the file.
pub(crate) fn guard<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(Error::input(format!("damaged {what} file: its parts contradict each other"))
            .remedy("get the file again, or write it again with pyarrow"))
    })
}

/// Whether a column of that type can be read.
pub(crate) fn readable(kind: &DataType) -> bool {
    use DataType::*;
    match kind {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float16 | Float32
        | Float64 | Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_) | Utf8 | LargeUtf8 | Utf8View
        | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => true,
        Dictionary(_, values) => matches!(**values, Utf8 | LargeUtf8 | Utf8View),
        _ => false,
    }
}

/// A batch as a table; all its columns are [`readable`].
pub(crate) fn to_table(batch: &RecordBatch) -> Result<Table> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, array)| {
        let data =
            to_data(array).map_err(|e| Error { message: format!("column {}: {}", field.name(), e.message), ..e })?;
        Ok(Column { name: field.name().clone(), data })
    });
    Ok(Table { columns: columns.collect::<Result<_>>()?, rows: batch.num_rows() })
}

fn to_data(array: &ArrayRef) -> Result<Data> {
    use DataType::*;
    macro_rules! whole {
        ($kind:ty) => {
            whole(array, |i| array.as_primitive::<$kind>().value(i) as i64)
        };
    }
    macro_rules! decimal {
        ($kind:ty, $scale:expr) => {{
            let values = array.as_primitive::<$kind>();
            numbers(array, |i| decimal(&values.value(i).to_string(), $scale))
        }};
    }
    Ok(match array.data_type() {
        Null => Data::F64(vec![f64::NAN; array.len()]),
        Boolean => whole(array, |i| i64::from(array.as_boolean().value(i))),
        Int8 => whole!(Int8Type),
        Int16 => whole!(Int16Type),
        Int32 => whole!(Int32Type),
        Int64 => whole!(Int64Type),
        UInt8 => whole!(UInt8Type),
        UInt16 => whole!(UInt16Type),
        UInt32 => whole!(UInt32Type),
        UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            match values.iter().flatten().all(|v| i64::try_from(v).is_ok()) {
                true => whole!(UInt64Type),
                false => numbers(array, |i| values.value(i) as f64),
            }
        }
        Float16 => numbers(array, |i| array.as_primitive::<Float16Type>().value(i).to_f64()),
        Float32 => numbers(array, |i| f64::from(array.as_primitive::<Float32Type>().value(i))),
        Float64 => numbers(array, |i| array.as_primitive::<Float64Type>().value(i)),
        Decimal32(_, scale) => decimal!(Decimal32Type, *scale),
        Decimal64(_, scale) => decimal!(Decimal64Type, *scale),
        Decimal128(_, scale) => decimal!(Decimal128Type, *scale),
        Decimal256(_, scale) => decimal!(Decimal256Type, *scale),
        // A date has no zone: it is a wall clock's.
        Date32 => times(array, false, |i| i64::from(array.as_primitive::<Date32Type>().value(i)), 86_400_000_000_000)?,
        Date64 => times(array, false, |i| array.as_primitive::<Date64Type>().value(i), 1_000_000)?,
        Timestamp(unit, zone) => {
            let utc = zone.is_some();
            match unit {
                TimeUnit::Second => {
                    times(array, utc, |i| array.as_primitive::<TimestampSecondType>().value(i), per(unit))?
                }
                TimeUnit::Millisecond => {
                    times(array, utc, |i| array.as_primitive::<TimestampMillisecondType>().value(i), per(unit))?
                }
                TimeUnit::Microsecond => {
                    times(array, utc, |i| array.as_primitive::<TimestampMicrosecondType>().value(i), per(unit))?
                }
                TimeUnit::Nanosecond => {
                    times(array, utc, |i| array.as_primitive::<TimestampNanosecondType>().value(i), per(unit))?
                }
            }
        }
        Time32(TimeUnit::Second) => {
            clock(array, |i| i64::from(array.as_primitive::<Time32SecondType>().value(i)), 1_000_000_000)?
        }
        Time32(_) => clock(array, |i| i64::from(array.as_primitive::<Time32MillisecondType>().value(i)), 1_000_000)?,
        Time64(TimeUnit::Microsecond) => {
            clock(array, |i| array.as_primitive::<Time64MicrosecondType>().value(i), 1_000)?
        }
        Time64(_) => clock(array, |i| array.as_primitive::<Time64NanosecondType>().value(i), 1)?,
        Utf8 => names(array, |i| array.as_string::<i32>().value(i)),
        LargeUtf8 => names(array, |i| array.as_string::<i64>().value(i)),
        Utf8View => names(array, |i| array.as_string_view().value(i)),
        Dictionary(..) => dictionary(array)?,
        other => return Err(Error::input(format!("values of type {other} are not read"))),
    })
}

/// Nanoseconds of one unit.
fn per(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn numbers(array: &ArrayRef, value: impl Fn(usize) -> f64) -> Data {
    Data::F64((0..array.len()).map(|i| if array.is_null(i) { f64::NAN } else { value(i) }).collect())
}

fn whole(array: &ArrayRef, value: impl Fn(usize) -> i64) -> Data {
    match array.null_count() {
        0 => Data::I64((0..array.len()).map(value).collect()),
        _ => numbers(array, |i| value(i) as f64),
    }
}

/// An unscaled whole number, as text, times ten to the minus `scale`; the parser rounds once, so the result is the
/// nearest double.
fn decimal(unscaled: &str, scale: i8) -> f64 {
    match unscaled.parse::<i64>() {
        // Both parts are exact doubles, so their quotient is the nearest one too.
        Ok(n) if n.unsigned_abs() < 1 << 53 && (0..=22).contains(&scale) => n as f64 / 10f64.powi(i32::from(scale)),
        _ => format!("{unscaled}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN),
    }
}

fn instants(array: &ArrayRef, value: impl Fn(usize) -> i64, step: i64) -> Result<Vec<i64>> {
    (0..array.len())
        .map(|i| match array.is_null(i) {
            true => Ok(MISSING_TIME),
            false => value(i).checked_mul(step).ok_or_else(|| {
                Error::input(format!("row {} of the batch is a date outside the years 1677 to 2262", i + 1))
                    .remedy("check the unit of the column")
            }),
        })
        .collect()
}

fn times(array: &ArrayRef, utc: bool, value: impl Fn(usize) -> i64, step: i64) -> Result<Data> {
    Ok(Data::Time { ns: instants(array, value, step)?, utc })
}

fn clock(array: &ArrayRef, value: impl Fn(usize) -> i64, step: i64) -> Result<Data> {
    Ok(Data::Clock(instants(array, value, step)?))
}

fn names<'a>(array: &ArrayRef, value: impl Fn(usize) -> &'a str) -> Data {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    let mut names = Vec::new();
    let codes = (0..array.len()).map(|i| {
        if array.is_null(i) {
            return u32::MAX;
        }
        let name = value(i);
        *seen.entry(name).or_insert_with(|| {
            names.push(name.to_string());
            names.len() as u32 - 1
        })
    });
    Data::Names { codes: codes.collect(), names }
}

/// Indices into strings, numbered anew in order of appearance.
fn dictionary(array: &ArrayRef) -> Result<Data> {
    let any = array.as_any_dictionary();
    let keys = any.normalized_keys_checked()?;
    let strings = to_data(any.values())?;
    let Data::Names { codes: strings, names: all } = strings else {
        return Err(Error::input("a dictionary of other values than strings is not read"));
    };
    let mut renumbered = vec![u32::MAX; all.len()];
    let mut names = Vec::new();
    let codes = keys.into_iter().enumerate().map(|(i, key)| {
        // The dictionary itself may hold a null, or be empty where all rows are null.
        let code = match (array.is_null(i), strings.get(key)) {
            (false, Some(code)) if *code != u32::MAX => *code as usize,
            _ => return u32::MAX,
        };
        if renumbered[code] == u32::MAX {
            renumbered[code] = names.len() as u32;
            names.push(all[code].clone());
        }
        renumbered[code]
    });
    Ok(Data::Names { codes: codes.collect(), names })
}

trait Keys {
    fn normalized_keys_checked(&self) -> Result<Vec<usize>>;
}

impl Keys for dyn arrow_array::array::AnyDictionaryArray + '_ {
    /// Arrow's own `normalized_keys` panics on an empty dictionary, which stands for "all rows are null".
    fn normalized_keys_checked(&self) -> Result<Vec<usize>> {
        Ok(if self.values().is_empty() { vec![usize::MAX; self.keys().len()] } else { self.normalized_keys() })
    }
}

/// The schema of a table, as it is written.
pub(crate) fn schema(table: &Table) -> SchemaRef {
    let fields: Vec<Field> = table.columns.iter().map(|c| Field::new(&c.name, kind(&c.data), true)).collect();
    Arc::new(Schema::new(fields))
}

fn kind(data: &Data) -> DataType {
    match data {
        Data::F64(_) => DataType::Float64,
        Data::F32(_) => DataType::Float32,
        Data::I8(_) => DataType::Int8,
        Data::U32(_) => DataType::UInt32,
        Data::Bool(_) => DataType::Boolean,
        Data::I64(_) => DataType::Int64,
        Data::Time { utc: true, .. } => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Data::Time { utc: false, .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Data::Clock(_) => DataType::Time64(TimeUnit::Nanosecond),
        Data::Text(_) => DataType::Utf8,
        Data::Names { .. } => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    }
}

/// Whether a table can be written under that schema.
pub(crate) fn fits(table: &Table, schema: &SchemaRef) -> Result<()> {
    if let Some(column) = table.columns.iter().find(|c| c.data.len() != table.rows) {
        return Err(Error::input(format!(
            "column {} has {} values, the table has {} rows",
            column.name,
            column.data.len(),
            table.rows
        )));
    }
    let same = schema.fields().len() == table.columns.len()
        && schema
            .fields()
            .iter()
            .zip(&table.columns)
            .all(|(f, c)| *f.name() == c.name && *f.data_type() == kind(&c.data));
    if !same {
        return Err(Error::input("the columns are not those of the first table written"));
    }
    Ok(())
}

/// Rows of a table as a batch of that schema; NaN and missing values become nulls.
pub(crate) fn to_batch(table: &Table, schema: &SchemaRef, rows: std::ops::Range<usize>) -> Result<RecordBatch> {
    fits(table, schema)?;
    let arrays = table.columns.iter().map(|c| to_array(&c.data, rows.clone())).collect::<Result<Vec<_>>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|e| Error::input(e.to_string()))
}

/// Rows of one column; NaN and missing values become nulls.
pub(crate) fn to_array(data: &Data, rows: std::ops::Range<usize>) -> Result<ArrayRef> {
    let some = |ns: &i64| (*ns != MISSING_TIME).then_some(*ns);
    Ok(match data {
        Data::F64(v) => Arc::new(v[rows].iter().map(|x| (!x.is_nan()).then_some(*x)).collect::<Float64Array>()),
        Data::F32(v) => {
            let valid = validity(&v[rows.clone()], |x| !x.is_nan());
            Arc::new(Float32Array::new(v[rows].to_vec().into(), valid.map(Into::into)))
        }
        Data::I8(v) => Arc::new(v[rows].iter().map(|x| (*x != i8::MIN).then_some(*x)).collect::<Int8Array>()),
        Data::U32(v) => Arc::new(v[rows].iter().map(|x| (*x != u32::MAX).then_some(*x)).collect::<UInt32Array>()),
        Data::Bool(v) => Arc::new(BooleanArray::from(v[rows].to_vec())),
        Data::I64(v) => Arc::new(Int64Array::from(v[rows].to_vec())),
        Data::Time { ns, utc } => {
            let array: TimestampNanosecondArray = ns[rows].iter().map(some).collect();
            Arc::new(if *utc { array.with_timezone("UTC") } else { array })
        }
        Data::Clock(v) => Arc::new(v[rows].iter().map(some).collect::<Time64NanosecondArray>()),
        Data::Text(text) => Arc::new(rows.map(|row| Some(text.get(row))).collect::<StringArray>()),
        Data::Names { codes, names } => {
            let keys = codes[rows].iter().map(|c| if *c == u32::MAX { None } else { Some(*c as i32) });
            let names = Arc::new(StringArray::from_iter_values(names));
            let array = DictionaryArray::try_new(keys.collect::<Int32Array>(), names);
            Arc::new(array.map_err(|e| Error::input(e.to_string()))?)
        }
    })
}

/// Which values exist; `None`: all of them.
fn validity<T>(values: &[T], exists: impl Fn(&T) -> bool) -> Option<Vec<bool>> {
    if values.iter().all(&exists) { None } else { Some(values.iter().map(exists).collect()) }
}
