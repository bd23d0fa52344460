//! Ready arrays become a problem: the shapes and labels people have, times, and what is refused.

mod make;

use files::{Error, Kind};
use learn::ready::{Only, ReadSpec, Ready, read};
use make::{f32s, f64s, i64s, npy, npz, strings};
use std::path::Path;

const SPEC: ReadSpec = ReadSpec { label_horizon: None, memory: 1 << 30, only: Only::ALL };

fn load(arrays: &[(&str, Vec<u8>)], horizon: Option<usize>) -> Result<Ready, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    std::fs::write(&path, npz(arrays)).unwrap();
    read(&path, &ReadSpec { label_horizon: horizon, ..SPEC }, &mut |_, _| Ok(()))
}

/// Six samples of 3 rows of 2, and what else is given; `y` unless given.
fn six<'a>(more: &[(&'a str, Vec<u8>)]) -> Vec<(&'a str, Vec<u8>)> {
    let mut arrays = vec![("x_fast", f32s(&[6, 3, 2], (0..36).map(|x| x as f32)))];
    if more.iter().all(|a| !["y", "labels", "label"].contains(&a.0)) {
        arrays.push(("y", i64s(&[-1, 0, 1, -1, 0, 1])));
    }
    arrays.retain(|a| more.iter().all(|m| m.0 != a.0));
    arrays.extend(more.iter().cloned());
    arrays
}

/// It is refused, for this reason, with this remedy, and the file is named.
#[track_caller]
fn check_refused(arrays: &[(&str, Vec<u8>)], horizon: Option<usize>, kind: Kind, says: &str, remedy: &str) {
    let error = load(arrays, horizon).err().unwrap_or_else(|| panic!("it was not refused: {says}"));
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(says), "{says:?} is not in {:?}", error.message);
    assert!(error.remedy.as_ref().is_some_and(|r| r.contains(remedy)), "{remedy:?} is not in {:?}", error.remedy);
    assert!(error.file.as_ref().is_some_and(|f| f.to_string_lossy().contains("a.npz")), "{error:?}");
}

#[track_caller]
fn check_note(ready: &Ready, says: &str) {
    assert!(ready.notes.iter().any(|n| n.contains(says)), "{says:?} is not in {:?}", ready.notes);
}

/// Written by numpy itself: packed, three inputs of three types and orders, stamps of two units, names.
#[test]
fn numpy_files_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/npz/ready.npz");
    let mut heard = Vec::new();
    let ready = read(&path, &SPEC, &mut |done, all| {
        heard.push((done, all));
        Ok(())
    })
    .unwrap();
    assert!(heard.is_sorted() && heard.last().is_some_and(|(done, all)| done == all), "{heard:?}");
    let problem = &ready.problem;
    let of = |i: usize| {
        let input = &problem.inputs[i];
        (input.name.as_str(), input.columns.len(), input.stride, input.rows(), input.window)
    };
    assert_eq!([of(0), of(1), of(2)], [("fast", 2, 4, 18, 3), ("slow", 5, 8, 6, 1), ("strategy", 4, 4, 6, 1)]);
    for row in 0..18 {
        let values = &problem.inputs[0].values[row * 4..][..4];
        assert_eq!(values, [(row * 2) as f32, (row * 2 + 1) as f32, 0.0, 0.0]);
    }
    assert_eq!(problem.inputs[1].values[8..16], [5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0]);
    assert_eq!(problem.inputs[2].values, (0..24).map(|x| x as f32).collect::<Vec<_>>());
    assert_eq!(problem.inputs[0].map.as_deref(), Some(&[2, 5, 8, 11, 14, 17][..]));
    assert_eq!(problem.inputs[2].map, None);
    assert_eq!((problem.ids, problem.classes), (6, 3));
    let samples = &problem.samples;
    const DAY: i64 = 86_400_000_000_000;
    assert_eq!(samples.rows, [0, 1, 2, 3, 4, 5]);
    assert_eq!(samples.class, [-1, 0, 1, -1, 0, 1]);
    assert_eq!(samples.t0, (0..6).map(|d| (19_723 + d) * DAY).collect::<Vec<_>>());
    assert_eq!(samples.t1, (1..7).map(|d| (19_723 + d) * DAY).collect::<Vec<_>>());
    // A label lives a day, its symbol's rows are two days apart: it has its time to itself.
    assert_eq!(samples.weight, [1.0; 6]);
    assert_eq!(
        (&ready.symbols[..], ready.symbol.as_deref()),
        (&["B".to_string(), "A".to_string()][..], Some(&[0, 1, 0, 1, 0, 1][..]))
    );
    assert_eq!(ready.close, Some((0..6).map(|x| 100.0 + f64::from(x) * 0.5).collect()));
    check_note(&ready, "0 is down, 1 is flat, 2 is up");
    check_note(&ready, "not used: note []");
}

#[test]
fn one_table_whatever_the_bytes() {
    let values = |k: usize| (k as f64 * 0.25) - 2.0; // exact in halves too
    let (n, t, f) = (5, 4, 3);
    let labels = || ("y", i64s(&[0, 1, 0, 1, 1]));
    let mut prints = std::collections::HashSet::new();
    let mut first: Option<Ready> = None;
    for code in ["<f2", "<f4", ">f4", "<f8", ">f8"] {
        for fortran in [false, true] {
            let mut body = Vec::new();
            for k in 0..n * t * f {
                let c = if fortran { (k % n * t + k / n % t) * f + k / n / t } else { k };
                let x = values(c);
                match code {
                    "<f2" => {
                        let (bits, sign) = (x.abs() as f32, u16::from(x < 0.0) << 15);
                        let half = if bits == 0.0 { 0 } else { ((bits.to_bits() >> 13) - (112 << 10)) as u16 };
                        body.extend((half | sign).to_le_bytes());
                    }
                    "<f4" => body.extend((x as f32).to_le_bytes()),
                    ">f4" => body.extend((x as f32).to_be_bytes()),
                    "<f8" => body.extend(x.to_le_bytes()),
                    _ => body.extend(x.to_be_bytes()),
                }
            }
            let ready = load(&[("x", npy(code, fortran, &[n, t, f], &body)), labels()], Some(1)).unwrap();
            assert!(prints.insert(ready.problem.data.clone()), "two files of one name");
            for (row, values_of) in ready.problem.inputs[0].values.chunks(4).enumerate() {
                assert_eq!(values_of[..3], [0, 1, 2].map(|c| values(row * 3 + c) as f32), "{code} {fortran}");
            }
            let first = first.get_or_insert_with(|| ready.clone());
            // Files of other bytes have other names; all else is the same.
            let named = learn::Problem { data: ready.problem.data.clone(), ..first.problem.clone() };
            assert_eq!(named, ready.problem);
        }
    }
    let rows = load(&[("X", f32s(&[5, 3], (0..15).map(|x| x as f32))), labels()], Some(1)).unwrap();
    let input = &rows.problem.inputs[0];
    assert_eq!((input.name.as_str(), input.window, &input.map, rows.problem.classes), ("strategy", 1, &None, 2));
    let again = load(&[labels(), ("X", f32s(&[5, 3], (0..15).map(|x| x as f32)))], Some(1)).unwrap();
    assert_eq!(rows, again, "the order in the archive is nobody's business");
}

#[test]
fn labels_as_people_write_them() {
    for (values, class, classes) in [
        ([-1, 0, 1, 0, 0, 1], [-1, 0, 1, 0, 0, 1], 3),
        ([0, 1, 2, 2, 1, 0], [-1, 0, 1, 1, 0, -1], 3),
        ([0, 1, 1, 1, 0, 0], [-1, 1, 1, 1, -1, -1], 2),
        ([-1, 1, 1, 1, -1, -1], [-1, 1, 1, 1, -1, -1], 2),
        ([0, 2, 2, 2, 0, 0], [-1, 1, 1, 1, -1, -1], 3),
        ([-1, 0, 0, 0, 0, -1], [-1, 0, 0, 0, 0, -1], 3),
    ] {
        for (name, array) in [
            ("y", i64s(&values)),
            ("labels", f64s(&[6], values.map(|x| x as f64))),
            ("label", f32s(&[6, 1], values.map(|x| x as f32))),
        ] {
            // Whole numbers that rise, one too many for the horizon of the last.
            let more = [(name, array), ("t0", i64s(&[1, 2, 3, 4, 5, 6])), ("t1", i64s(&[2, 3, 4, 5, 6, 7]))];
            let ready = load(&six(&more), None).unwrap();
            assert_eq!((&ready.problem.samples.class[..], ready.problem.classes), (&class[..], classes), "{values:?}");
        }
    }
    let nan = f64s(&[6], [0.0, 1.0, f64::NAN, 1.0, 0.0, 1.0]);
    let ready = load(&six(&[("y", nan)]), Some(1)).unwrap();
    assert_eq!(ready.problem.samples.rows, [0, 1, 3, 4]);
    check_note(&ready, "1 of 6 labels (y) are NaN");
    let input = Kind::Input;
    check_refused(&six(&[("y", i64s(&[0, 1, 2, 3, 0, 1]))]), Some(1), input, "y[3] is 3", "digitize");
    check_refused(&six(&[("y", i64s(&[-1, 0, 1, 2, 0, 1]))]), Some(1), input, "-1 and 2", "one way");
    check_refused(&six(&[("y", f64s(&[6], [0.5; 6]))]), Some(1), input, "y[0] is 0.5", "sign");
    check_refused(&six(&[("y", i64s(&[1; 6]))]), Some(1), input, "every label in y is 1", "0/1");
    check_refused(&six(&[("y", f64s(&[6], [f64::NAN; 6]))]), Some(1), input, "every label in y is NaN", "0/1");
    check_refused(&six(&[("y", strings(&["up"; 6]))]), Some(1), input, "y does not hold numbers", "np.int8");
    check_refused(&six(&[("y", f32s(&[6, 3], [0.0; 18]))]), Some(1), input, "y has the shape [6, 3]", "argmax");
    check_refused(
        &six(&[("y", i64s(&[0, 1, 0, 1, 0, 1])), ("label", i64s(&[0; 6]))]),
        Some(1),
        input,
        "y and label",
        "one of them",
    );
}

#[test]
fn shapes_that_do_not_fit() {
    let input = Kind::Input;
    for (more, says, remedy) in [
        (("x_fast", f32s(&[6, 2], [0.0; 12])), "x_fast has the shape [6, 2]", "x_fast[:, None, :]"),
        (("x_fast", f32s(&[6], [0.0; 6])), "x_fast has the shape [6]", "reshape"),
        (("x_fast", f32s(&[0, 3, 2], [])), "x_fast has the shape [0, 3, 2]", "empty"),
        (("x_fast", f32s(&[6, 3, 0], [])), "x_fast has the shape [6, 3, 0]", "empty"),
        (("x_strategy", f32s(&[6], [0.0; 6])), "x_strategy has the shape [6]", "x_strategy[:, None]"),
        (("x_strategy", f32s(&[6, 1, 1], [0.0; 6])), "x_strategy has the shape [6, 1, 1]", "x_fast"),
        (("x_strategy", f32s(&[5, 2], [0.0; 10])), "x_strategy has 5 samples, x_fast has 6", "one entry per sample"),
        (("y", i64s(&[0, 1, 0])), "y has 3 samples, x_fast has 6", "one entry per sample"),
        (("close", f32s(&[2, 3], [0.0; 6])), "close has the shape [2, 3]", "ravel"),
        (("close", strings(&["a"; 6])), "close does not hold numbers", "np.float64"),
        (("symbol", f32s(&[6], [0.0; 6])), "symbol holds neither", "dtype=str"),
        (("t0", strings(&["a"; 6])), "t0 holds neither", "datetime64[ns]"),
        (("x_slow", strings(&["a"; 6])), "x_slow is of type |S8", "np.float32"),
        (
            ("x_fast", npy("|O", false, &[6, 3, 2], b"pickle")),
            "x_fast is an object array of shape [6, 3, 2]",
            "np.savez(path, ..., x_fast=np.asarray(x_fast, dtype=np.float32))",
        ),
        (("symbol", npy("|O", false, &[6], b"pickle")), "symbol is an object array", "dtype=str"),
        (("y", npy("|O", false, &[6], b"pickle")), "y is an object array", "dtype=np.int8"),
        (("x_fast", npy("<f4", false, &[1 << 40, 3, 2], &[0; 16])), "bytes follow", "cut or damaged"),
    ] {
        check_refused(&six(&[more]), Some(1), input, says, remedy);
    }
    check_refused(&[("a", i64s(&[1])), ("y", i64s(&[1]))], Some(1), input, "the file has a, y", "x_fast [N, T, F]");
    check_refused(
        &[("x", f32s(&[1, 1], [0.0]))],
        Some(1),
        input,
        "there are no labels: the file has x",
        "y=np.asarray",
    );
    check_refused(&[], Some(1), input, "no array", "x_fast");
    // Objects nobody asked for are nobody's trouble.
    let ready = load(&six(&[("meta", npy("|O", false, &[], b"pickle")), ("x", f32s(&[1], [0.0]))]), Some(1)).unwrap();
    check_note(&ready, "not used: meta [], x [1]");
}

#[test]
fn horizons() {
    let usage = Kind::Usage;
    check_refused(&six(&[]), None, usage, "no t1", "<train.label_horizon=12>");
    check_refused(&six(&[]), Some(0), usage, "0 rows", "<train.label_horizon=1>");
    check_refused(
        &six(&[("t0", i64s(&[1, 2, 3, 4, 5, 6])), ("t1", i64s(&[2, 3, 4, 5, 6, 7]))]),
        Some(2),
        usage,
        "has t1",
        "leave out <train.label_horizon>",
    );
    check_refused(&six(&[]), Some(6), Kind::Input, "no label ends", "shorter");

    // Row numbers stand for time.
    let ready = load(&six(&[]), Some(2)).unwrap();
    let samples = &ready.problem.samples;
    assert_eq!(
        (&samples.rows[..], &samples.t0[..], &samples.t1[..]),
        (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..], &[2, 3, 4, 5][..])
    );
    // Labels of rows 0..4 span steps 1-2, 2-3, 3-4, 4-5: alone, two, two, two, alone.
    assert_eq!(samples.weight, [0.75, 0.5, 0.5, 0.75]);
    check_note(&ready, "no t0");
    check_note(&ready, "2 samples have labels that end after the last row");
    check_note(&ready, "no prices");

    // Of the same symbol, in the order of time and not of the file.
    let t0 = i64s(&[30, 10, 20, 10, 20, 30]);
    let symbol = i64s(&[7, 7, 7, 9, 9, 9]);
    let ready = load(&six(&[("t0", t0.clone()), ("symbol", symbol.clone())]), Some(1)).unwrap();
    let samples = &ready.problem.samples;
    assert_eq!((&samples.rows[..], &samples.t0[..]), (&[1, 3, 2, 4][..], &[10, 10, 20, 20][..]));
    assert_eq!((&samples.t1[..], &samples.class[..]), (&[20, 20, 30, 30][..], &[0, -1, 1, 0][..]));
    assert_eq!(
        (&ready.symbols[..], ready.symbol.clone()),
        (&["7".to_string(), "9".to_string()][..], Some(vec![0, 0, 0, 1, 1, 1]))
    );
    check_note(&ready, "not in the order of time");
    // Without symbols the horizon counts times, else the second row of a time would end it.
    let ready = load(&six(&[("t0", t0)]), Some(1)).unwrap();
    assert_eq!(ready.problem.samples.t1, [20, 20, 30, 30]);
    check_note(&ready, "share a time");
    // Symbols one behind the other without times: which rows are of one day?
    check_refused(&six(&[("symbol", symbol)]), Some(1), Kind::Input, "one behind the other", "save t0");
    assert!(load(&six(&[("symbol", i64s(&[1, 2, 1, 2, 1, 2]))]), Some(1)).is_ok());
}

#[test]
fn times() {
    let seconds = [1_700_000_000i64, 1_700_000_300, 1_700_000_600, 1_700_000_900, 1_700_001_200, 1_700_001_500];
    let ns = seconds.map(|s| s * 1_000_000_000);
    for (scale, word) in
        [(1, "seconds"), (1_000, "milliseconds"), (1_000_000, "microseconds"), (1_000_000_000, "nanoseconds")]
    {
        let ready = load(&six(&[("t0", i64s(&seconds.map(|s| s * scale)))]), Some(1)).unwrap();
        assert_eq!(ready.problem.samples.t0, ns[..5], "{word}");
        check_note(&ready, &format!("t0 is read as {word}"));
    }
    let ready = load(&six(&[("t0", f64s(&[6], seconds.map(|s| s as f64 + 0.25)))]), Some(1)).unwrap();
    assert_eq!(ready.problem.samples.t0, ns.map(|t| t + 250_000_000)[..5]);
    let stamps = npy("<M8[s]", false, &[6], &seconds.iter().flat_map(|s| s.to_le_bytes()).collect::<Vec<u8>>());
    let ready = load(&six(&[("t0", stamps.clone()), ("t1", i64s(&ns.map(|t| t + 1)))]), None).unwrap();
    assert_eq!((&ready.problem.samples.t0[..], &ready.problem.samples.t1[..]), (&ns[..], &ns.map(|t| t + 1)[..]));
    let mut lost = seconds;
    lost[2] = i64::MIN;
    let lost = npy("<M8[s]", false, &[6], &lost.iter().flat_map(|s| s.to_le_bytes()).collect::<Vec<u8>>());
    let ready = load(&six(&[("t0", lost.clone())]), Some(1)).unwrap();
    assert_eq!(ready.problem.samples.rows, [0, 1, 3, 4]);
    check_note(&ready, "1 of 6 samples have no time");
    let ready =
        load(&six(&[("t0", i64s(&[1, 2, 3, 4, 5, 6])), ("t1", f64s(&[6], [2.0, 3.0, f64::NAN, 5.0, 6.0, 7.0]))]), None)
            .unwrap();
    assert_eq!(ready.problem.samples.rows, [0, 1, 3, 4, 5]);
    check_note(&ready, "1 samples have no t1");
    // Rows that are counted, and labels that say in which row they end.
    assert!(load(&six(&[("t1", i64s(&[2, 3, 4, 5, 6, 7]))]), None).is_ok());

    let input = Kind::Input;
    check_refused(
        &six(&[("t0", stamps.clone()), ("t1", i64s(&[1, 2, 3, 4, 5, 6]))]),
        None,
        input,
        "one clock",
        "save t0",
    );
    check_refused(&six(&[("t1", stamps.clone())]), None, input, "t1 but no t0", "save t0");
    check_refused(&six(&[("t0", stamps.clone()), ("t1", stamps)]), None, input, "t1[0] is not after t0[0]", "later");
    let mixed: Vec<i64> = (0..40).map(|i| if i == 37 { 1_700_000_000_000 } else { 1_700_000_000 + i }).collect();
    let arrays = [("x", f32s(&[40, 1], [0.0; 40])), ("y", i64s(&[0, 1].repeat(20))), ("t0", i64s(&mixed))];
    check_refused(&arrays, Some(1), input, "t0[37] is 1700000000000", "datetime64");
    check_refused(&six(&[("t0", f64s(&[6], [0.5; 6]))]), Some(1), input, "fractions", "datetime64");
}

#[test]
fn non_finite_rows_are_left_out() {
    let mut values: Vec<f32> = (0..36).map(|x| x as f32).collect();
    values[6] = f32::NAN;
    values[17] = f32::INFINITY;
    let ready = load(&six(&[("x_fast", f32s(&[6, 3, 2], values))]), Some(1)).unwrap();
    assert_eq!(ready.problem.samples.rows, [0, 3, 4]);
    check_note(&ready, "2 of 6 samples hold a number that is not finite");
    let wide = f64s(&[6, 1], [1.0, 1e200, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(load(&six(&[("x_strategy", wide)]), Some(1)).unwrap().problem.samples.rows, [0, 2, 3, 4]);
    check_refused(&six(&[("x_fast", f32s(&[6, 3, 2], [f32::NAN; 36]))]), Some(1), Kind::Input, "every sample", "isnan");
    let mut only = vec![f32::NAN; 36];
    only[..12].fill(1.0);
    let same = [("x_fast", f32s(&[6, 3, 2], only)), ("y", i64s(&[1, 1, 0, 0, 0, 0]))];
    check_refused(&six(&same), Some(1), Kind::Input, "0 down, 0 flat and 2 up", "more samples");
    let ready = load(&six(&[("close", f64s(&[6], [1.0, 0.0, f64::NAN, 2.0, 3.0, 4.0]))]), Some(1)).unwrap();
    check_note(&ready, "2 of 6 prices (close)");
}

#[test]
fn memory_is_counted_before_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    std::fs::write(&path, npz(&six(&[]))).unwrap();
    let mut heard = 0;
    let spec = ReadSpec { label_horizon: Some(1), memory: 1 << 20, only: Only::ALL };
    let error = read(&path, &spec, &mut |_, _| {
        heard += 1;
        Ok(())
    })
    .unwrap_err();
    assert_eq!((error.kind, heard), (Kind::Memory, 0), "{error}");
    assert!(error.message.contains("6 samples need 32.0 MiB of memory, the budget is 1.0 MiB"), "{error}");
    assert!(error.remedy.unwrap().contains("<memory>"));
    // Who listens may stop it.
    let spec = ReadSpec { label_horizon: Some(1), memory: 1 << 30, only: Only::ALL };
    let stopped = read(&path, &spec, &mut |_, _| Err(Error::new(Kind::Interrupted, "stopped")));
    assert_eq!(stopped.unwrap_err().kind, Kind::Interrupted);
}

/// Reads what `only` takes of six daily samples of two symbols, whose labels are known two days later.
fn some(only: Only) -> Result<Ready, Error> {
    const DAY: i64 = 86_400;
    let days = |later: i64| i64s(&[0, 1, 2, 3, 4, 5].map(|d| 1_700_000_000 + (d + later) * DAY));
    let symbol = strings(&["A", "B", "A", "B", "A", "B"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    std::fs::write(&path, npz(&six(&[("t0", days(0)), ("t1", days(2)), ("symbol", symbol)]))).unwrap();
    read(&path, &ReadSpec { only, ..SPEC }, &mut |_, _| Ok(()))
}

#[test]
fn only_the_selected_samples_are_read() {
    let at = |day: i64| Some((1_700_000_000 + day * 86_400) * 1_000_000_000);
    let rows = |only: Only| some(only).map(|ready| ready.problem.samples.rows);
    let all = some(Only::ALL).unwrap();
    assert_eq!(all.problem.samples.rows, [0, 1, 2, 3, 4, 5]);
    assert_eq!(rows(Only { from: at(2), ..Only::ALL }).unwrap(), [2, 3, 4, 5]);
    // A label that is known only behind `to` would tell of what was kept aside.
    let early = some(Only { to: at(4), ..Only::ALL }).unwrap();
    assert_eq!(early.problem.samples.rows, [0, 1, 2]);
    check_note(
        &early,
        "2 of 6 samples are outside the chosen time and left out, and 1 more whose labels are known only after its end",
    );
    let a = some(Only { symbols: vec!["A".into()], ..Only::ALL }).unwrap();
    assert_eq!(a.problem.samples.rows, [0, 2, 4]);
    check_note(&a, "3 of 6 samples are of other symbols and left out");
    // Others are other data, and their labels do not count in the weights.
    assert_ne!(a.problem.data, all.problem.data);
    assert_ne!(early.problem.data, all.problem.data);
    let refused = |only: Only, says: &str, remedy: &str| {
        let error = some(only).unwrap_err();
        assert_eq!(error.kind, Kind::Usage, "{error}");
        assert!(error.message.contains(says) && error.remedy.as_ref().unwrap().contains(remedy), "{error:?}");
    };
    refused(Only { symbols: vec!["C".into()], ..Only::ALL }, "no sample of the symbol C", "A, B");
    refused(Only { from: at(90), ..Only::ALL }, "no sample is of the chosen", "2023-11-14");
    // What the file does not say cannot be asked for.
    let lacking = |more: &[(&str, Vec<u8>)], only: Only| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        std::fs::write(&path, npz(&six(more))).unwrap();
        let spec = ReadSpec { label_horizon: Some(1), only, ..SPEC };
        read(&path, &spec, &mut |_, _| Ok(())).unwrap_err()
    };
    for (more, only, says) in [
        (vec![], Only { to: at(3), ..Only::ALL }, "by time: the file has no t0"),
        (vec![], Only { symbols: vec!["A".into()], ..Only::ALL }, "the file has no symbol"),
        (vec![("t0", i64s(&[0, 1, 2, 3, 4, 5]))], Only { from: at(0), ..Only::ALL }, "by time: t0 holds whole numbers"),
    ] {
        let error = lacking(&more, only);
        assert!(error.kind == Kind::Usage && error.message.contains(says), "{error}");
    }
}

#[test]
fn ready_arrays_are_recognised_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let check = |arrays: &[(&str, Vec<u8>)], ready: bool| {
        let path = folder.path().join("a.npz");
        std::fs::write(&path, npz(arrays)).unwrap();
        assert_eq!(learn::ready::is_ready(&path).unwrap(), ready);
    };
    let one = || f64s(&[2], [1.0, 2.0]);
    for name in ["x", "X", "x_fast", "x_slow", "x_strategy"] {
        check(&[(name, one()), ("y", one())], true);
    }
    check(&[("time", one()), ("open", one()), ("close", one())], false);
    check(&[("BTCUSDT", one())], false);
    // A share is called X.
    check(&[("X", one()), ("AAPL", one())], false);
    check(&[("x_fast", one())], true);
    // Windows under other names: what is wrong with them is said by those who want windows.
    check(&[("X_train", f64s(&[2, 1, 1], [1.0, 2.0])), ("y_train", one())], true);
}

#[test]
fn shuffled_windows_without_times_are_refused() {
    // A random walk, windows of ten rows of two, one a bar.
    let (n, t) = (400usize, 10usize);
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let walk: Vec<[f32; 2]> = (0..n + t).map(|_| [draw(), draw()]).collect();
    let labels: Vec<i64> = (0..n).map(|_| (draw() * 3.0) as i64 - 1).collect();
    let arrays = |order: &[usize], t0: Option<Vec<i64>>| {
        let x = order.iter().flat_map(|at| walk[*at..at + t].iter().flatten().copied());
        let mut arrays =
            vec![("x", f32s(&[n, t, 2], x)), ("y", i64s(&order.iter().map(|at| labels[*at]).collect::<Vec<_>>()))];
        arrays.extend(t0.map(|t0| ("t0", i64s(&t0))));
        arrays
    };
    let in_order: Vec<usize> = (0..n).collect();
    let shuffled: Vec<usize> = (0..n).map(|i| i * 147 % n).collect();
    let reversed: Vec<usize> = (0..n).rev().collect();
    let ready = load(&arrays(&in_order, None), Some(1)).unwrap();
    assert!(!ready.timed);
    check_refused(&arrays(&shuffled, None), Some(1), Kind::Input, "not in the order of time (shuffled?)", "save t0");
    check_refused(&arrays(&reversed, None), Some(1), Kind::Input, "newest first", "oldest first");
    // With times it is known, and samples are put in order; times that are wrong are seen.
    let t0 = |order: &[usize]| Some(order.iter().map(|at| *at as i64).collect());
    let ready = load(&arrays(&shuffled, t0(&shuffled)), Some(1)).unwrap();
    assert!(ready.timed && ready.problem.samples.rows[..2] != [0, 1]);
    check_refused(&arrays(&shuffled, t0(&in_order)), Some(1), Kind::Input, "t0 contradicts the windows", "save in t0");
    // Several samples of one bar, and constant rows, contradict nothing.
    let twice: Vec<usize> = (0..n).map(|i| i / 2).collect();
    load(&arrays(&twice, None), Some(1)).unwrap();
    let still = vec![("x", f32s(&[n, t, 2], (0..n * t * 2).map(|_| 0.0))), ("y", i64s(&labels))];
    load(&still, Some(1)).unwrap();
}
