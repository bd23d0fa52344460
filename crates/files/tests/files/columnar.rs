//! Parquet and feather: round trips, what pyarrow writes, types, caps.

use std::path::Path;

use files::{
    Caps, Column, Data, MISSING_TIME, ParquetWriter, Result, Source, Table, parquet_columns, parquet_metadata,
    parquet_rows, read_feather, read_parquet, write_feather,
};

use crate::{caps, check_data, check_error, seed, text};

fn table() -> Table {
    let names = Data::Names { codes: vec![0, u32::MAX, 1], names: vec!["BTC".into(), "ETH".into()] };
    let column = |name: &str, data| Column { name: name.into(), data };
    Table {
        columns: vec![
            column("time", Data::Time { ns: vec![1, MISSING_TIME, 1_700_000_000_000_000_001], utc: true }),
            column("local", Data::Time { ns: vec![-1, 0, MISSING_TIME], utc: false }),
            column("close", Data::F64(vec![1.5, f64::NAN, -0.0])),
            column("volume", Data::I64(vec![i64::MIN, 0, i64::MAX])),
            column("clock", Data::Clock(vec![0, MISSING_TIME, 86_399_999_999_999])),
            column("symbol", names),
        ],
        rows: 3,
    }
}

fn read_all(read: impl FnOnce(&mut dyn FnMut(Table) -> Result<()>) -> Result<()>) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    read(&mut |table| {
        tables.push(table);
        Ok(())
    })?;
    Ok(tables)
}

fn parquet(source: &Source) -> Result<Vec<Table>> {
    read_all(|each| read_parquet(source, &caps(), None, each))
}

fn feather(source: &Source) -> Result<Vec<Table>> {
    read_all(|each| read_feather(source, &caps(), each))
}

#[track_caller]
fn check_same(got: &Table, want: &Table) {
    assert_eq!((got.rows, got.columns.len()), (want.rows, want.columns.len()));
    for (got, want) in got.columns.iter().zip(&want.columns) {
        assert_eq!(got.name, want.name);
        check_data(&got.data, &want.data);
    }
}

fn write_parquet(path: &Path, tables: &[Table]) -> u64 {
    let mut writer = ParquetWriter::create(path, &[("fullbore".into(), "1".into())]).unwrap();
    tables.iter().for_each(|t| writer.write(t).unwrap());
    writer.finish().unwrap()
}

#[test]
fn parquet_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let bytes = write_parquet(&path, &[table(), table()]);
    assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
    let source = Source::open(&path).unwrap();
    let got = parquet(&source).unwrap();
    let rows: usize = got.iter().map(|t| t.rows).sum();
    assert_eq!((rows, parquet_rows(&source, &caps()).unwrap()), (6, 6));
    let memory = Source::from_bytes("m", std::fs::read(&path).unwrap());
    assert_eq!(parquet(&memory).unwrap().len(), got.len());
    assert_eq!(parquet_metadata(&source, "fullbore").unwrap().as_deref(), Some("1"));
    assert_eq!(parquet_metadata(&source, "other").unwrap(), None);
    write_parquet(&path, &[table()]);
    check_same(&parquet(&Source::open(&path).unwrap()).unwrap()[0], &table());
    // The same tables, the same bytes.
    let again = dir.path().join("b.parquet");
    write_parquet(&again, &[table()]);
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    // Some columns only.
    let some = ["close".to_string(), "time".to_string()];
    let got = read_all(|each| read_parquet(&Source::open(&path).unwrap(), &caps(), Some(&some), each)).unwrap();
    assert_eq!(got[0].columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["time", "close"]);
    let none = ["none".to_string()];
    let error = read_all(|each| read_parquet(&Source::open(&path).unwrap(), &caps(), Some(&none), each)).unwrap_err();
    check_error(error, "no column none");
}

#[test]
fn large_tables_are_split_into_groups_and_batches() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (1 << 20) + 5;
    let long = Table { columns: vec![Column::time("t", (0..rows as i64).collect())], rows };
    let path = dir.path().join("a.parquet");
    write_parquet(&path, std::slice::from_ref(&long));
    let source = Source::open(&path).unwrap();
    let got = parquet(&source).unwrap();
    assert!(got.iter().all(|t| t.rows <= 65_536));
    assert_eq!(got.iter().map(|t| t.rows).sum::<usize>(), rows);
    let path = dir.path().join("a.feather");
    write_feather(&path, &long).unwrap();
    let mut next = 0;
    for table in feather(&Source::open(&path).unwrap()).unwrap() {
        assert!(table.rows <= 65_536);
        let Data::Time { ns, .. } = &table.columns[0].data else { panic!() };
        assert!(ns.iter().all(|t| {
            next += 1;
            *t == next - 1
        }));
    }
    assert_eq!(next as usize, rows);
    let few = Caps { rows: 1000, ..caps() };
    check_error(read_parquet(&source, &few, None, &mut |_| Ok(())).unwrap_err(), "the limit is 1000");
    check_error(read_feather(&Source::open(&path).unwrap(), &few, &mut |_| Ok(())).unwrap_err(), "the limit is 1000");
}

#[test]
fn feather_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.feather");
    write_feather(&path, &table()).unwrap();
    check_same(&feather(&Source::open(&path).unwrap()).unwrap()[0], &table());
    let words = Table { columns: vec![Column { name: "w".into(), data: text(&["a", "", "a"]) }], rows: 3 };
    write_feather(&path, &words).unwrap();
    let got = feather(&Source::open(&path).unwrap()).unwrap();
    check_data(&got[0].columns[0].data, &Data::Names { codes: vec![0, 1, 0], names: vec!["a".into(), String::new()] });
    write_feather(&path, &Table { columns: vec![Column::f64("x", vec![])], rows: 0 }).unwrap();
    assert_eq!(feather(&Source::open(&path).unwrap()).unwrap(), []);
    let ragged = Table { columns: vec![Column::f64("x", vec![])], rows: 1 };
    assert!(write_feather(&path, &ragged).is_err());
}

/// The frame that make_corpus.py writes in every format and compression.
#[track_caller]
fn check_frame(tables: &[Table]) {
    assert_eq!(tables.iter().map(|t| t.rows).sum::<usize>(), 20);
    let first = &tables[0];
    let Data::Time { ns, utc: true } = &first.column("time").unwrap().data else { panic!("{first:?}") };
    assert_eq!(ns[..2], [1_704_067_200_000_000_000, 1_704_067_260_000_000_000]);
    assert!(matches!(&first.column("close").unwrap().data, Data::F64(v) if v[0] > 90.0));
    assert!(matches!(&first.column("volume").unwrap().data, Data::I64(v) if v[..2] == [0, 1]));
    assert!(matches!(&first.column("flag").unwrap().data, Data::I64(v) if v[..2] == [1, 0]));
    let symbol = &first.column("symbol").unwrap().data;
    assert_eq!((symbol.text(0), symbol.text(1)), (Some("BTC"), Some("ETH")));
    let note = &first.column("note").unwrap().data;
    assert_eq!((note.text(0), note.text(1)), (None, Some("a")));
}

#[test]
fn pyarrow_files_are_read() {
    for name in ["none", "snappy", "gzip", "zstd", "lz4"] {
        check_frame(&parquet(&seed("parquet", &format!("{name}.parquet"))).unwrap());
    }
    for name in ["uncompressed", "lz4", "zstd"] {
        check_frame(&feather(&seed("feather", &format!("{name}.feather"))).unwrap());
    }
}

#[test]
fn types_and_what_is_left_out() {
    let source = seed("parquet", "types.parquet");
    let columns = parquet_columns(&source, &caps()).unwrap();
    let left: Vec<&str> = columns.iter().filter(|(_, ok)| !ok).map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["l", "s", "b"]);
    let got = parquet(&source).unwrap().remove(0);
    let want = [
        ("d", Data::Time { ns: vec![86_400_000_000_000, MISSING_TIME], utc: false }),
        ("dec", Data::F64(vec![1.0, f64::NAN])),
        ("u", Data::F64(vec![1.0, u64::MAX as f64])),
        ("ms", Data::Time { ns: vec![1_000_000, MISSING_TIME], utc: false }),
        ("delta", Data::I64(vec![5, 6])),
    ];
    let columns = want.map(|(name, data)| Column { name: name.into(), data }).to_vec();
    check_same(&got, &Table { columns, rows: 2 });
    let got = feather(&seed("feather", "types.feather")).unwrap().remove(0);
    let want = [
        ("d", Data::Time { ns: vec![86_400_000_000_000, MISSING_TIME], utc: false }),
        ("n", Data::F64(vec![f64::NAN; 2])),
        ("v", Data::Names { codes: vec![0, u32::MAX], names: vec!["a".into()] }),
        ("t", Data::Clock(vec![1000, 2000])),
        ("dec", Data::F64(vec![1.0, f64::NAN])),
        ("h", Data::F64(vec![1.0, 2.0])),
    ];
    let columns = want.map(|(name, data)| Column { name: name.into(), data }).to_vec();
    check_same(&got, &Table { columns, rows: 2 });
}

#[test]
fn callback_error_is_returned() {
    let stop = || files::Error::new(files::Kind::Interrupted, "stopped");
    let error = read_parquet(&seed("parquet", "zstd.parquet"), &caps(), None, &mut |_| Err(stop())).unwrap_err();
    assert_eq!(error, stop());
}

#[test]
fn narrow_columns_are_written_and_read_back_wide_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let column = |name: &str, data| Column { name: name.into(), data };
    let n = 3000;
    let mut columns: Vec<Column> = (0..7)
        .map(|c| {
            let value = |i: usize| if i % 11 < c { f32::NAN } else { (i * (c + 1)) as f32 * 0.37 };
            Column::f32(format!("f{c}"), (0..n).map(value).collect())
        })
        .collect();
    columns.push(column(
        "class",
        Data::I8((0..n).map(|i| if i % 5 == 0 { i8::MIN } else { (i % 3) as i8 - 1 }).collect()),
    ));
    columns.push(column("row", Data::U32((0..n).map(|i| if i < 9 { u32::MAX } else { i as u32 / 12 }).collect())));
    columns.push(column("settled", Data::Bool((0..n).map(|i| i > 100).collect())));
    let table = Table { columns, rows: n };
    let write = |threads: usize| {
        let path = folder.path().join(format!("{threads}.parquet"));
        let mut writer = ParquetWriter::create(&path, &[]).unwrap().threads(threads);
        writer.write(&table).unwrap();
        writer.write(&table).unwrap();
        writer.finish().unwrap();
        path
    };
    let one = write(1);
    for threads in [2, 5, 64] {
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(write(threads)).unwrap(), "{threads} threads");
    }
    let read = parquet(&Source::open(&one).unwrap()).unwrap();
    assert_eq!(read.iter().map(|t| t.rows).sum::<usize>(), 2 * n);
    for (got, want) in read[0].columns.iter().zip(&table.columns) {
        for row in 0..n {
            let want = match &want.data {
                Data::F32(v) => f64::from(v[row]),
                Data::I8(v) => {
                    if v[row] == i8::MIN {
                        f64::NAN
                    } else {
                        f64::from(v[row])
                    }
                }
                Data::U32(v) => {
                    if v[row] == u32::MAX {
                        f64::NAN
                    } else {
                        f64::from(v[row])
                    }
                }
                Data::Bool(v) => f64::from(u8::from(v[row])),
                other => panic!("{other:?}"),
            };
            let got = match &got.data {
                Data::F64(v) => v[row],
                Data::I64(v) => v[row] as f64,
                other => panic!("{} came as {other:?}", got.name),
            };
            assert!(got == want || (got.is_nan() && want.is_nan()), "{row}: {got} {want}");
        }
    }
}
