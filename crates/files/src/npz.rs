//! Numpy arrays: `.npy`, and `.npz`, which is a zip of them.
//!
//! The header of an array is a Python literal; a small parser reads just that grammar, so nothing is evaluated. Numbers, booleans,
//! `datetime64` and fixed-width strings are read, of either byte order, in C or Fortran order; structured arrays are split into
//! one array per field. Object arrays hold pickles, which run code when they are opened: they are refused.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::source::{Caps, Source};
use crate::table::{Data, MISSING_TIME, Text};
use crate::zip::Archive;

/// A named array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its key in the archive, or the name of its file; `key.field` for a field of a structured array.
    pub name: String,
    /// Length along each axis; empty for a single value.
    pub shape: Vec<usize>,
    /// Its values in C order (the last axis runs fastest). `datetime64` has no zone by definition and is read as UTC, as numpy
    /// itself prints and parses it.
    pub data: Data,
}

/// All arrays of a `.npz`. A lone `.npy` is taken too, and is how the fields of a structured one are reached.
pub fn read_npz(source: &Source, caps: &Caps) -> Result<Vec<Array>> {
    if source.head(6)?.starts_with(MAGIC) {
        return decode(&stem(source), source, caps);
    }
    let archive = Archive::open(source, caps)?;
    let mut arrays = Vec::new();
    for (i, member) in archive.members().iter().enumerate() {
        let Some(name) = member.name.strip_suffix(".npy") else {
            return Err(Error::input(format!("{} is no numpy array", member.name))
                .at(source.path())
                .remedy("an .npz holds only .npy arrays; write it with np.savez"));
        };
        arrays.extend(decode(name, &archive.source(i)?, caps)?);
        caps.check_columns(arrays.len()).map_err(|e| e.at(source.path()))?;
    }
    Ok(arrays)
}

/// The array of a `.npy`.
pub fn read_npy(source: &Source, caps: &Caps) -> Result<Array> {
    let mut arrays = decode(&stem(source), source, caps)?;
    match arrays.pop() {
        Some(array) if arrays.is_empty() => Ok(array),
        _ => Err(Error::input("it is a structured array, which has several columns")
            .at(source.path())
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})")),
    }
}

const MAGIC: &[u8] = b"\x93NUMPY";
/// Numpy itself stops at 10,000 bytes.
const HEADER: usize = 1 << 16;
/// Characters of a fixed-width string.
const WIDTH: usize = 1 << 16;
/// Numpy's own limit is 64.
const AXES: usize = 64;

fn stem(source: &Source) -> String {
    source.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn decode(name: &str, source: &Source, caps: &Caps) -> Result<Vec<Array>> {
    decode_bytes(name, &source.bytes(caps)?, caps).map_err(|e| e.at(source.path()))
}

fn decode_bytes(name: &str, file: &Bytes, caps: &Caps) -> Result<Vec<Array>> {
    let (header, body) = split(file)?;
    let header = Header::parse(header)?;
    let damaged =
        |what: &str| Err(Error::input(format!("damaged numpy array: {what}")).remedy("write it with np.save"));
    if header.shape.len() > AXES {
        return damaged("it has too many axes");
    }
    let Some(count) = header.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)) else {
        return damaged("its shape is too large");
    };
    caps.check_rows(header.shape.first().map_or(1, |n| *n as u64))?;
    let fields = fields(&header.descr)?;
    let size: usize = fields.iter().map(|f| f.size()).sum();
    if count.checked_mul(size) != Some(body.len()) {
        return Err(Error::input(format!(
            "its header declares shape {:?} of {size}-byte values, but {} bytes follow",
            header.shape,
            body.len()
        ))
        .remedy("get the file again; it is cut or damaged"));
    }
    if count > 0 && size == 0 {
        return damaged("its values have no bytes");
    }
    let structured = matches!(header.descr, Py::Seq(_));
    if structured && header.shape.len() != 1 {
        return Err(Error::input("it is a structured array of more than one axis, only lists of records are read")
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})"));
    }
    let mut arrays = Vec::new();
    let mut offset = 0;
    for field in &fields {
        // Padding between aligned fields has no name.
        if field.kind != Kind::Skip {
            let items = Items { body, count, stride: size, offset, size: field.size() };
            let mut data = field.read(&items)?;
            if header.fortran && header.shape.len() > 1 {
                data = c_order(data, &header.shape);
            }
            let name = if structured { format!("{name}.{}", field.name) } else { name.to_string() };
            arrays.push(Array { name, shape: header.shape.clone(), data });
        }
        offset += field.size();
    }
    Ok(arrays)
}

/// The header's text and the bytes of the values.
fn split(file: &[u8]) -> Result<(&[u8], &[u8])> {
    let short = || Error::input("the file ends inside the header of a numpy array").remedy("get the file again");
    let rest = file
        .strip_prefix(MAGIC)
        .ok_or_else(|| Error::input("this is no numpy array").remedy("write it with np.save"))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(short)?;
    let (len, rest) = match version[0] {
        1 => {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        other => {
            return Err(
                Error::input(format!("numpy file version {other} is not known")).remedy("write it with np.save")
            );
        }
    };
    if len > HEADER {
        return Err(Error::input(format!("its header claims {len} bytes, the limit is {HEADER}"))
            .remedy("save it as plain columns"));
    }
    rest.split_at_checked(len).ok_or_else(short)
}

struct Header {
    descr: Py,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &[u8]) -> Result<Header> {
        let mut parser = Parser { text, at: 0 };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        for (key, value) in parser.dict()? {
            match (key.as_str(), value) {
                ("descr", value) => descr = Some(value),
                ("fortran_order", Py::Bool(value)) => fortran = Some(value),
                ("shape", Py::Seq(axes)) => {
                    let axes: Option<Vec<usize>> = axes.iter().map(Py::index).collect();
                    shape = axes;
                }
                _ => return Err(parser.wrong()),
            }
        }
        match (descr, fortran, shape) {
            (Some(descr), Some(fortran), Some(shape)) => Ok(Header { descr, fortran, shape }),
            _ => Err(parser.wrong()),
        }
    }
}

/// The Python values that a header can hold.
enum Py {
    Str(String),
    Int(u64),
    Bool(bool),
    None,
    Seq(Vec<Py>),
}

impl Py {
    fn index(&self) -> Option<usize> {
        if let Py::Int(n) = self { usize::try_from(*n).ok() } else { None }
    }
}

/// Reads Python literals: a dict of strings, numbers, `True`, `False`, `None`, tuples and lists.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn dict(&mut self) -> Result<Vec<(String, Py)>> {
        let mut items = Vec::new();
        self.expect(b'{')?;
        while !self.take(b'}') {
            let Py::Str(key) = self.value(0)? else { return Err(self.wrong()) };
            self.expect(b':')?;
            items.push((key, self.value(0)?));
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        if self.peek().is_some() { Err(self.wrong()) } else { Ok(items) }
    }

    fn value(&mut self, depth: usize) -> Result<Py> {
        if depth > 8 {
            return Err(self.wrong());
        }
        match self.peek() {
            Some(quote @ (b'\'' | b'"')) => self.string(quote).map(Py::Str),
            Some(b'(') => self.sequence(b')', depth),
            Some(b'[') => self.sequence(b']', depth),
            Some(b'0'..=b'9') => self.number(),
            Some(b'T') => self.word("True", Py::Bool(true)),
            Some(b'F') => self.word("False", Py::Bool(false)),
            Some(b'N') => self.word("None", Py::None),
            _ => Err(self.wrong()),
        }
    }

    fn sequence(&mut self, close: u8, depth: usize) -> Result<Py> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value(depth + 1)?);
            if !self.take(b',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(Py::Seq(items))
    }

    fn string(&mut self, quote: u8) -> Result<String> {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => return Err(self.wrong()),
                b if *b == quote => {
                    let raw = &self.text[start..self.at - 1];
                    // Versions 1 and 2 say Latin-1, version 3 says UTF-8.
                    let latin = || raw.iter().map(|b| char::from(*b)).collect();
                    return Ok(std::str::from_utf8(raw).map_or_else(|_| latin(), str::to_string));
                }
                _ => {}
            }
        }
        Err(self.wrong())
    }

    fn number(&mut self) -> Result<Py> {
        let mut n = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            n = n.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))).ok_or_else(|| self.wrong())?;
            self.at += 1;
        }
        // Python 2 wrote long integers as `3L`.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Ok(Py::Int(n))
    }

    fn word(&mut self, word: &str, value: Py) -> Result<Py> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.wrong());
        }
        self.at += word.len();
        Ok(value)
    }

    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong()) }
    }

    fn wrong(&self) -> Error {
        Error::input(format!("the header of the numpy array is wrong at byte {}", self.at))
            .remedy("write it with np.save")
    }
}

/// One field of a structured array, or the array itself.
struct Field {
    name: String,
    kind: Kind,
    width: usize, // bytes; characters for `Wide`
    big: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    Time { step: i64 }, // nanoseconds of one unit
    Narrow,             // bytes as text
    Wide,               // UTF-32 text
    Skip,               // padding
}

fn fields(descr: &Py) -> Result<Vec<Field>> {
    let complex = || {
        Error::input("it is a structured array with nested or titled fields, which is not read")
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})")
    };
    match descr {
        Py::Str(code) => Ok(vec![Field::parse(String::new(), code)?]),
        Py::Seq(list) if list.len() <= 4096 => list
            .iter()
            .map(|item| match item {
                Py::Seq(pair) => match &pair[..] {
                    [Py::Str(name), Py::Str(code)] if name.is_empty() && code.starts_with("|V") => {
                        let width = code[2..].parse().ok().filter(|w| *w <= WIDTH).ok_or_else(complex)?;
                        Ok(Field { name: String::new(), kind: Kind::Skip, width, big: false })
                    }
                    [Py::Str(name), Py::Str(code)] => Field::parse(name.clone(), code),
                    _ => Err(complex()),
                },
                _ => Err(complex()),
            })
            .collect(),
        _ => Err(complex()),
    }
}

impl Field {
    fn parse(name: String, code: &str) -> Result<Field> {
        let unknown = || {
            Error::input(format!("arrays of dtype {code} are not read")).remedy(
                "convert it: a.astype('float64') for numbers, a.astype('datetime64[ns]') for times, a.astype('U32') for names",
            )
        };
        let (order, rest) = match code.as_bytes().first() {
            Some(order @ (b'<' | b'>' | b'|' | b'=')) => (*order, &code[1..]),
            _ => (b'|', code),
        };
        let mut letters = rest.chars();
        let letter = letters.next().ok_or_else(unknown)?;
        let rest = letters.as_str();
        if letter == 'O' {
            return Err(Error::input("it is an object array, which holds Python pickles and is not read")
                .remedy("convert it first: np.savez(path, **{k: v.astype('float64') for k, v in arrays.items()})"));
        }
        let (width, unit) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
        let width: usize = width.parse().map_err(|_| unknown())?;
        let kind = match (letter, width, unit) {
            ('b', 1, "") => Kind::Bool,
            ('i', 1 | 2 | 4 | 8, "") => Kind::Int,
            ('u', 1 | 2 | 4 | 8, "") => Kind::Uint,
            ('f', 2 | 4 | 8, "") => Kind::Float,
            ('M', 8, unit) => Kind::Time { step: step(unit).ok_or_else(unknown)? },
            ('S' | 'a', 0..=WIDTH, "") => Kind::Narrow,
            ('U', 0..=WIDTH, "") => Kind::Wide,
            _ => return Err(unknown()),
        };
        Ok(Field { name, kind, width, big: order == b'>' })
    }

    /// Bytes of one value.
    fn size(&self) -> usize {
        if self.kind == Kind::Wide { self.width * 4 } else { self.width }
    }

    fn read(&self, items: &Items<'_>) -> Result<Data> {
        Ok(match self.kind {
            Kind::Bool => Data::I64(items.iter().map(|b| i64::from(b[0] != 0)).collect()),
            Kind::Int => Data::I64(items.iter().map(|b| self.int(b)).collect()),
            Kind::Uint if self.width == 8 => {
                let values: Vec<u64> = items.iter().map(|b| self.bits(b)).collect();
                if values.iter().all(|v| i64::try_from(*v).is_ok()) {
                    Data::I64(values.into_iter().map(|v| v as i64).collect())
                } else {
                    Data::F64(values.into_iter().map(|v| v as f64).collect())
                }
            }
            Kind::Uint => Data::I64(items.iter().map(|b| self.bits(b) as i64).collect()),
            Kind::Float => Data::F64(items.iter().map(|b| self.float(b)).collect()),
            Kind::Time { step } => {
                let mut ns = Vec::with_capacity(items.count);
                for (i, bytes) in items.iter().enumerate() {
                    let value = self.bits(bytes) as i64;
                    // Not-a-time is the smallest integer in numpy too.
                    let value = if value == i64::MIN { Some(MISSING_TIME) } else { value.checked_mul(step) };
                    ns.push(value.ok_or_else(|| {
                        Error::input(format!("value {i} is a date outside the years 1677 to 2262"))
                            .remedy("check the unit of the datetime64 array")
                    })?);
                }
                Data::Time { ns, utc: true }
            }
            Kind::Narrow | Kind::Wide => {
                let mut text = Text::default();
                let mut one = String::new();
                for bytes in items.iter() {
                    one.clear();
                    if self.kind == Kind::Narrow {
                        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
                        match std::str::from_utf8(&bytes[..end]) {
                            Ok(s) => one.push_str(s),
                            Err(_) => one.extend(bytes[..end].iter().map(|b| char::from(*b))),
                        }
                    } else {
                        for unit in bytes.chunks_exact(4) {
                            one.push(char::from_u32(self.bits(unit) as u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                        }
                        one.truncate(one.trim_end_matches('\0').len());
                    }
                    text.push(&one);
                }
                Data::Text(text)
            }
            Kind::Skip => Data::F64(Vec::new()),
        })
    }

    /// The value's bits, lowest first.
    fn bits(&self, bytes: &[u8]) -> u64 {
        let fold = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        if self.big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    }

    fn int(&self, bytes: &[u8]) -> i64 {
        let unused = 64 - 8 * bytes.len() as u32;
        ((self.bits(bytes) << unused) as i64) >> unused
    }

    fn float(&self, bytes: &[u8]) -> f64 {
        match self.width {
            2 => half(self.bits(bytes) as u16),
            4 => f64::from(f32::from_bits(self.bits(bytes) as u32)),
            _ => f64::from_bits(self.bits(bytes)),
        }
    }
}

/// Nanoseconds of a `datetime64` unit such as `[ms]` or `[15m]`; years and months have no fixed length, and finer units no room.
fn step(unit: &str) -> Option<i64> {
    let unit = unit.strip_prefix('[')?.strip_suffix(']')?;
    let (many, unit) = unit.split_at(unit.find(|c: char| !c.is_ascii_digit())?);
    let many: i64 = if many.is_empty() { 1 } else { many.parse().ok()? };
    let ns = match unit {
        "ns" => 1,
        "us" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "D" => 86_400_000_000_000,
        "W" => 604_800_000_000_000,
        _ => return None,
    };
    many.checked_mul(ns).filter(|step| *step > 0)
}

/// IEEE half precision.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match (exponent, fraction) {
        (31, 0.0) => f64::INFINITY,
        (31, _) => f64::NAN,
        (0, f) => f * 2f64.powi(-24),
        (e, f) => (1.0 + f / 1024.0) * 2f64.powi(e - 15),
    }
}

/// The values of one field, one after another.
struct Items<'a> {
    body: &'a [u8],
    count: usize,
    stride: usize,
    offset: usize,
    size: usize,
}

impl<'a> Items<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let (body, stride, offset, size) = (self.body, self.stride, self.offset, self.size);
        (0..self.count).map(move |i| &body[i * stride + offset..][..size])
    }
}

/// From Fortran order (the first axis runs fastest) to C order.
fn c_order(data: Data, shape: &[usize]) -> Data {
    let n = data.len();
    let mut strides = Vec::with_capacity(shape.len()); // in the Fortran layout
    let mut stride = 1;
    for axis in shape {
        strides.push(stride);
        stride *= axis;
    }
    let mut at = vec![0; shape.len()];
    let mut from = 0;
    let mut order = Vec::with_capacity(n);
    for _ in 0..n {
        order.push(from);
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            from += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    match data {
        Data::F64(v) => Data::F64(order.iter().map(|i| v[*i]).collect()),
        Data::I64(v) => Data::I64(order.iter().map(|i| v[*i]).collect()),
        Data::Time { ns, utc } => Data::Time { ns: order.iter().map(|i| ns[*i]).collect(), utc },
        Data::Text(text) => {
            let mut out = Text::default();
            order.iter().for_each(|i| out.push(text.get(*i)));
            Data::Text(out)
        }
        other => other,
    }
}
