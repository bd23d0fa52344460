//! Arrays one by one: headers before values, and numbers of every kind and order straight into rows.

use files::{Arrays, Caps, Error, Kind, Source};

use crate::hostile::ARRAYS;
use crate::npz::npy;
use crate::{bytes, caps, check_error, corpus, seed};

/// Reads `[n, t, f]` numbers into rows `stride` apart, gaps marked.
#[track_caller]
fn check(source: &Source, name: &str, [n, t, f]: [usize; 3], stride: usize, want: impl Fn(usize, usize, usize) -> f32) {
    let arrays = Arrays::open(source, &caps()).unwrap();
    let mut rows = vec![-7.0; n * t * stride];
    let mut seen = 0;
    let mut see = |bytes: &[u8]| {
        seen += bytes.len() as u64;
        Ok(())
    };
    arrays.read_f32(name, stride, &mut rows, &mut see).unwrap();
    assert_eq!(seen, arrays.head(name).unwrap().bytes);
    for (at, got) in rows.iter().enumerate() {
        let (row, f_at) = (at / stride, at % stride);
        let want = if f_at < f { want(row / t, row % t, f_at) } else { -7.0 };
        assert!(*got == want, "{name} sample {}, row {}, column {f_at}: {got}, not {want}", row / t, row % t);
    }
}

#[test]
fn every_kind_and_order_that_numpy_writes() {
    for file in ["cubes.npz", "cubes_stored.npz"] {
        let source = seed("npz", file);
        let arrays = Arrays::open(&source, &caps()).unwrap();
        assert_eq!(arrays.heads().len(), 38);
        for head in arrays.heads() {
            assert_eq!((&head.shape[..], head.fortran), (&[2, 3, 4][..], head.name.ends_with('F')), "{}", head.name);
            assert!(head.is_number() && !head.is_object());
            for stride in [4, 5, 8] {
                check(&source, &head.name, [2, 3, 4], stride, |n, t, f| {
                    let value = (n * 12 + t * 4 + f) as f32;
                    if head.name.starts_with('b') { value.min(1.0) } else { value }
                });
            }
        }
    }
}

/// What a value looks like in the file.
type Kinds = (&'static str, fn(usize) -> Vec<u8>);
const KINDS: [Kinds; 5] = [
    ("<f4", |x| (x as f32).to_le_bytes().to_vec()),
    (">f8", |x| (x as f64).to_be_bytes().to_vec()),
    ("<f8", |x| (x as f64).to_le_bytes().to_vec()),
    ("<u2", |x| (x as u16).to_le_bytes().to_vec()),
    ("|i1", |x| vec![(x % 128) as u8]),
];

/// Blocks end inside rows and inside columns, columns are longer than a block, samples no multiple of anything.
#[test]
fn blocks_end_anywhere() {
    for (i, [n, t, f]) in
        [[1, 1, 1], [1, 5, 3], [77, 1, 1], [70_001, 3, 2], [40_000, 1, 7], [1_100_001, 1, 2], [2_100_001, 2, 1]]
            .into_iter()
            .enumerate()
    {
        for (code, put) in KINDS.into_iter().skip(i % 2).step_by(2) {
            let value = |n: usize, t_at: usize, f_at: usize| (n * 31 + t_at * 7 + f_at) % 60_000;
            for fortran in [false, true] {
                let mut body = Vec::new();
                for k in 0..n * t * f {
                    let (a, b, c) = if fortran { (k % n, k / n % t, k / n / t) } else { (k / t / f, k / f % t, k % f) };
                    body.extend(put(value(a, b, c)));
                }
                let source = bytes("a.npy", npy(&format!("'{code}'"), fortran, &format!("({n}, {t}, {f})"), &body));
                let want = |n, t, f| {
                    let value = value(n, t, f);
                    if code == "|i1" { (value % 128) as f32 } else { value as f32 }
                };
                check(&source, "a", [n, t, f], f.next_multiple_of(4), want);
                check(&source, "a", [n, t, f], f, want);
            }
        }
    }
}

#[test]
fn rows_of_every_rank() {
    let body: Vec<u8> = (0..6).flat_map(|x| (x as f32).to_le_bytes()).collect();
    for (shape, [n, t, f]) in
        [("(6,)", [6, 1, 1]), ("(2, 3)", [2, 1, 3]), ("(1, 3, 2)", [1, 3, 2]), ("(0, 3)", [0, 1, 3])]
    {
        let body = if n == 0 { &[][..] } else { &body[..] };
        let source = bytes("a.npy", npy("'<f4'", false, shape, body));
        check(&source, "a", [n, t, f], f, |n, t_at, f_at| ((n * t + t_at) * f + f_at) as f32);
    }
    for shape in ["()", "(1, 1, 1, 6)"] {
        let body = if shape == "()" { &body[..4] } else { &body[..] };
        let arrays = Arrays::open(&bytes("a.npy", npy("'<f4'", false, shape, body)), &caps()).unwrap();
        check_error(arrays.read_f32("a", 4, &mut [], &mut |_| Ok(())).unwrap_err(), "not a list of rows");
    }
}

#[test]
fn rounds_doubles_and_keeps_every_half() {
    let body: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let arrays = Arrays::open(&bytes("a.npy", npy("'<f2'", false, "(65536,)", &body)), &caps()).unwrap();
    let mut halves = vec![0.0; 65536];
    arrays.read_f32("a", 1, &mut halves, &mut |_| Ok(())).unwrap();
    for (bits, got) in halves.iter().enumerate() {
        let (sign, exponent, fraction) = (bits >> 15, (bits >> 10 & 31) as i32, (bits & 1023) as f64);
        let size = match exponent {
            31 if fraction > 0.0 => f64::NAN,
            31 => f64::INFINITY,
            0 => fraction * 2f64.powi(-24),
            e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
        };
        let want = if sign == 1 { -size } else { size };
        assert!(f64::from(*got) == want || (want.is_nan() && got.is_nan()), "{bits:#x}: {got}, not {want}");
        assert!(got.is_sign_negative() == (sign == 1), "{bits:#x}");
    }
    let body: Vec<u8> = [0.1f64, 1e300, -1e300, 1e-300].into_iter().flat_map(f64::to_le_bytes).collect();
    let arrays = Arrays::open(&bytes("a.npy", npy("'<f8'", false, "(4,)", &body)), &caps()).unwrap();
    let mut rounded = [0.0; 4];
    arrays.read_f32("a", 1, &mut rounded, &mut |_| Ok(())).unwrap();
    assert_eq!(rounded, [0.1f32, f32::INFINITY, f32::NEG_INFINITY, 0.0]);
}

#[test]
fn small_arrays_are_read_in_one_block() {
    let arrays = Arrays::open(&seed("npz", "ready.npz"), &caps()).unwrap();
    let names: Vec<&str> = arrays.heads().iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["x_fast", "x_slow", "x_strategy", "y", "symbol", "t0", "t1", "close", "note"]);
    for head in arrays.heads() {
        let mut seen = 0;
        let array = arrays.read(&head.name, &mut |bytes| {
            seen += bytes.len() as u64;
            Ok(())
        });
        assert_eq!((array.unwrap().shape, seen), (head.shape.clone(), head.bytes), "{}", head.name);
    }
    assert!(!arrays.head("symbol").unwrap().is_number());
    assert!(arrays.head("missing").is_none());
    let error = arrays.read("missing", &mut |_| Ok(())).unwrap_err();
    assert!(error.message.contains("no array called missing"), "{error}");
    // Who watches may stop it.
    let stop = || Err(Error::new(Kind::Interrupted, "stopped"));
    assert_eq!(arrays.read("y", &mut |_| stop()).unwrap_err().kind, Kind::Interrupted);
    assert_eq!(arrays.read_f32("close", 1, &mut [0.0; 6], &mut |_| stop()).unwrap_err().kind, Kind::Interrupted);
}

/// Every array of a file, read both ways; the first error.
fn read_all(source: &Source) -> Result<(), Error> {
    let arrays = Arrays::open(source, &caps())?;
    for head in arrays.heads() {
        if head.is_number() && head.shape.len() == 1 {
            arrays.read_f32(&head.name, 1, &mut vec![0.0; head.count()], &mut |_| Ok(()))?;
        }
        arrays.read(&head.name, &mut |_| Ok(()))?;
    }
    Ok(())
}

#[test]
fn hostile_arrays_are_refused() {
    // Reading in blocks finds the missing bytes of a huge shape before any limit.
    let whole = ARRAYS.iter().filter(|(name, _)| *name != "huge_shape.npy");
    for (name, says) in whole.chain(&[("huge_shape.npy", "bytes follow"), ("records.npy", "structured")]) {
        let error = read_all(&seed("npz", name)).err().unwrap_or_else(|| panic!("{name} was not refused"));
        check_error(error, says);
    }
}

/// A flipped bit anywhere among the values is found, packed or not.
#[test]
fn flipped_bits_are_found() {
    for name in ["cubes.npz", "cubes_stored.npz"] {
        let file = std::fs::read(corpus("npz").join(name)).unwrap();
        let honest = read_all(&bytes(name, &file));
        assert_eq!(honest, Ok(()));
        // Behind the first local header; before the directory.
        let directory = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let mut found = 0;
        for at in (60..directory).step_by(97) {
            let mut flipped = file.clone();
            flipped[at] ^= 16;
            let error = read_all(&bytes(name, flipped)).err();
            assert!(error.as_ref().is_none_or(|e| e.file.is_some()), "{error:?}");
            found += usize::from(error.is_some());
        }
        // Only bits of local headers that nobody reads go unseen.
        let tried = (60..directory).step_by(97).count();
        assert!(found * 10 >= tried * 7, "{name}: {found} of {tried} found");
    }
    let few = Caps { columns: 3, ..caps() };
    check_error(Arrays::open(&seed("npz", "cubes.npz"), &few).err().unwrap(), "limit is 3");
}
