//! Every shape of JSON that holds a table.

use files::{Data, JsonShape, read_json};

use crate::{bytes, caps, check_data, check_error, seed, text};

#[track_caller]
fn check(json: &str, shape: JsonShape, columns: &[(&str, Data)], scalars: &[(&str, &str)]) {
    let got = read_json(&bytes("a.json", json), &caps()).unwrap();
    assert_eq!(got.shape, shape);
    let names: Vec<&str> = got.table.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, columns.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (column, (_, want)) in got.table.columns.iter().zip(columns) {
        check_data(&column.data, want);
        assert_eq!(column.data.len(), got.table.rows);
    }
    let got: Vec<(&str, &str)> = got.scalars.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(got, scalars);
}

#[test]
fn shapes() {
    use Data::{F64, I64};
    use JsonShape::*;
    let nan = f64::NAN;
    check("[[1, 2.5], [3, 4]]", Arrays, &[("0", I64(vec![1, 3])), ("1", F64(vec![2.5, 4.0]))], &[]);
    check("[]", Arrays, &[], &[]);
    check("\u{feff}[[1]]", Arrays, &[("0", I64(vec![1]))], &[]);
    check(
        r#"[[1, "2", null, true], [null, 3.5, "x", false]]"#,
        Arrays,
        &[("0", F64(vec![1.0, nan])), ("1", text(&["2", "3.5"])), ("2", text(&["", "x"])), ("3", I64(vec![1, 0]))],
        &[],
    );
    check(
        r#"[{"a": 1, "b": 2}, {"c": "x", "a": 3}]"#,
        Objects,
        &[("a", I64(vec![1, 3])), ("b", F64(vec![2.0, nan])), ("c", text(&["", "x"]))],
        &[],
    );
    check(
        r#"{"instrument": "EUR_USD", "n": 2, "candles": [{"time": "t", "mid": {"o": "1.1", "c": "1.2"}, "l": [1]}]}"#,
        Objects,
        &[("time", text(&["t"])), ("mid.o", text(&["1.1"])), ("mid.c", text(&["1.2"]))],
        &[("instrument", "EUR_USD"), ("n", "2"), ("rows", "candles"), ("ignored", "l")],
    );
    check(
        r#"{"error": [], "result": {"XXBTZUSD": [[1, "2"]], "last": 7}}"#,
        Arrays,
        &[("0", I64(vec![1])), ("1", text(&["2"]))],
        &[("result.last", "7"), ("rows", "result.XXBTZUSD")],
    );
    check(r#"{"data": []}"#, Arrays, &[], &[("rows", "data")]);
    check(
        r#"{"s": "ok", "t": [1, 2], "c": [1.5, null]}"#,
        Columns,
        &[("t", I64(vec![1, 2])), ("c", F64(vec![1.5, nan]))],
        &[("s", "ok")],
    );
    check(
        r#"{"open": {"0": 1, "1": 2}, "close": {"0": 1.5, "1": 2.5}}"#,
        Columns,
        &[("open", I64(vec![1, 2])), ("close", F64(vec![1.5, 2.5]))],
        &[("open.0", "1"), ("open.1", "2"), ("close.0", "1.5"), ("close.1", "2.5")][..0],
    );
    check(
        r#"{"columns": ["open", "close"], "index": [7, 8], "data": [[1, 2], [3, 4]]}"#,
        Arrays,
        &[("index", I64(vec![7, 8])), ("open", I64(vec![1, 3])), ("close", I64(vec![2, 4]))],
        &[("rows", "data")],
    );
    check(
        r#"{"Meta": {"1. Symbol": "IBM"}, "Series": {"2024-01-01": {"1. open": "1"}, "2024-01-02": {"1. open": "2"}}}"#,
        Objects,
        &[("index", text(&["2024-01-01", "2024-01-02"])), ("1. open", text(&["1", "2"]))],
        &[("Meta.1. Symbol", "IBM"), ("rows", "Series")],
    );
    check("{\"a\": 1}\n{\"a\": 2, \"b\": 3}\n", Objects, &[("a", I64(vec![1, 2])), ("b", F64(vec![nan, 3.0]))], &[]);
    check("[1, 2]\n\n[3, 4]", Arrays, &[("0", I64(vec![1, 3])), ("1", I64(vec![2, 4]))], &[]);
    check("[[18446744073709551615]]", Arrays, &[("0", F64(vec![u64::MAX as f64]))], &[]);
}

#[test]
fn pandas_orients() {
    for (name, rows) in [
        ("objects", 6),
        ("pandas_columns", 6),
        ("pandas_index", 6),
        ("pandas_split", 6),
        ("pandas_table", 6),
        ("lines", 6),
    ] {
        let json = read_json(&seed("json", &format!("{name}.json")), &caps()).unwrap();
        assert_eq!(json.table.rows, rows, "{name}");
        let close = json.table.column("close").unwrap_or_else(|| panic!("{name}: {:?}", json.table));
        let Data::F64(close) = &close.data else { panic!("{name}: {close:?}") };
        assert!(close.iter().all(|x| (90.0..110.0).contains(x)), "{name}");
    }
}

#[test]
fn errors_say_where() {
    let check = |json: &str, says: &str, line: Option<u64>| {
        let error = read_json(&bytes("a.json", json), &caps()).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        check_error(error, says);
    };
    check("[[1,2],\n[1,2,3]]", "row 2 has 3 values, the first has 2", Some(2));
    check("[[1,2],\n[1]]", "row 2 has 1 values", Some(2));
    check("[[1],\n{\"a\":1}]", "row 2 is not of the kind", Some(2));
    check("[[1,\n[2]]]", "single value", Some(2));
    check("[1, 2]", "single values, not rows", Some(1));
    check("[[1], 5]", "row 2", Some(1));
    check("[{\"a\":1,\n\"a\":2}]", "twice", Some(2));
    check("[{\"a\":1},\n{\"a\":NaN}]", "not valid JSON", Some(2));
    check("[{\"a\":1}", "too early", Some(1));
    check("[[1]] x", "not valid JSON", Some(1));
    check(&"[".repeat(5000), "single value", Some(1));
    check(&format!("[{{\"a\": {}", "[".repeat(5000)), "too early", Some(1));
    check(r#"{"a": [[1]], "b": [[2]]}"#, "two lists of rows, a and b", None);
    check(r#"{"a": [1], "b": [1, 2]}"#, "column a has 1 values, another has 2", None);
    check(r#"{"a": 1}"#, "no table", None);
    check("{\"a\":1}\n{\"a\":2}\n{\"a\"", "too early", Some(3));
}

#[test]
fn a_table_inside_the_only_object_of_a_list() {
    use Data::I64;
    use JsonShape::*;
    // What is no table beside it is passed over; columns of such objects join where they are equally long.
    check(
        r#"{"c": {"r": [{"m": {"s": "A", "p": [[{"x": 1}]], "v": ["a", 1, [2]], "w": [1, 2, 3]}, "t": [1, 2],
            "i": {"q": [{"o": [3, 4]}], "z": [[1, 2], [3]]}}], "e": null}}"#,
        Columns,
        &[("t", I64(vec![1, 2])), ("o", I64(vec![3, 4]))],
        &[("c.e", ""), ("c.r.m.s", "A"), ("rows", "c.r")],
    );
    check(
        r#"[{"ticker": "x", "rows": [{"a": 1}, {"a": 2}]}]"#,
        Objects,
        &[("a", I64(vec![1, 2]))],
        &[("ticker", "x"), ("rows", "rows")],
    );
    // Two such objects are two rows, and their lists are left out as ever.
    check(r#"[{"a": 1, "l": [1, 2]}, {"a": 2, "l": [3]}]"#, Objects, &[("a", I64(vec![1, 2]))], &[("ignored", "l")]);
    check(
        r#"{"bars": {"AA": [{"a": 1}], "BB": [{"a": 2}, {"a": 3}]}}"#,
        Objects,
        &[("a", I64(vec![1, 2, 3])), ("symbol", text(&["AA", "BB", "BB"]))],
        &[],
    );
    check_error(
        read_json(&bytes("a.json", r#"{"bids": [[1, 2]], "asks": [[3, 4]]}"#), &caps()).unwrap_err(),
        "it has two lists of rows, bids and asks",
    );
}
