//! The header of an array: what its values are and how many.
//!
//! It is a Python literal behind a magic number and a length; a small parser reads just that grammar, so nothing is
//! evaluated.

use std::io::{ErrorKind, Read};

use crate::error::{Error, Result};

/// What the files of numpy begin with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";
/// Numpy itself stops at 10,000 bytes.
const LONGEST: usize = 1 << 16;
/// Numpy's own limit is 64.
const AXES: usize = 64;

/// What the values are, in which order, and how many along each axis.
pub(super) struct Header {
    pub descr: Py,
    pub fortran: bool,
    pub shape: Vec<usize>,
    /// Product of the shape.
    pub count: usize,
    /// Bytes it takes in the file, all that stands before the values.
    pub bytes: u64,
}

impl Header {
    /// Takes the header off the front of a reader, and nothing of the values behind it.
    pub(super) fn take(reader: &mut impl Read) -> Result<Header> {
        let magic = bytes(reader, MAGIC.len())?;
        if magic != MAGIC {
            return Err(Error::input("this is not a numpy array").remedy("write it with np.save"));
        }
        let version = bytes(reader, 2)?[0];
        let width = match version {
            1 => 2,
            2 | 3 => 4,
            other => {
                return Err(
                    Error::input(format!("numpy file version {other} is not known")).remedy("write it with np.save")
                );
            }
        };
        let len = bytes(reader, width)?.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        if len > LONGEST {
            return Err(Error::input(format!("its header claims {len} bytes, the limit is {LONGEST}"))
                .remedy("save it as plain columns"));
        }
        let header = Header::parse(&bytes(reader, len)?)?;
        Ok(Header { bytes: (MAGIC.len() + 2 + width + len) as u64, ..header })
    }

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
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else { return Err(parser.wrong()) };
        if shape.len() > AXES {
            return Err(damaged("it has too many axes"));
        }
        // An empty axis must not hide what the others would overflow.
        let Some(count) = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)) else {
            return Err(damaged("its shape is too large"));
        };
        Ok(Header { descr, fortran, shape, count, bytes: 0 })
    }
}

/// The next bytes of a header; there must be that many.
fn bytes(reader: &mut impl Read, n: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; n];
    reader.read_exact(&mut bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => {
            Error::input("the file ends inside the header of a numpy array").remedy("get the file again")
        }
        _ => Error::input(format!("reading the header of a numpy array: {e}")).remedy("get the file again"),
    })?;
    Ok(bytes)
}

pub(super) fn damaged(what: &str) -> Error {
    Error::input(format!("damaged numpy array: {what}")).remedy("write it with np.save")
}

/// The Python values that a header can hold.
pub(super) enum Py {
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
