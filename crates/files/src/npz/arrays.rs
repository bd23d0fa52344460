//! Arrays one by one: headers first, then numbers straight into the caller's rows.
//!
//! [`Arrays::open`] reads headers and no value, so that a caller knows what a file will need before it takes memory.
//! [`Arrays::read_f32`] turns numbers of any kind and order into f32 where they will stay; between the file and there
//! is one block of bounded size. An archive's member may inflate to any length that its header declares: the caller has
//! seen the length, and deflate itself ends at 1032:1, so caps on ratios are the caller's to lift.

use std::io::{self, Read};

use super::field::{Field, Kind, fields, half};
use super::header::{Header, MAGIC, Py};
use super::{Array, check_size, decode_bytes, stem};
use crate::error::{Error, Kind as Fault, Result};
use crate::source::{Caps, Source};
use crate::zip::Archive;

/// Bytes between the file and the rows.
const BLOCK: usize = 1 << 20;
/// The same for Fortran order, where a block of many columns saves far jumps; whole columns are put together, this many
/// samples at a time.
const COLUMNS: usize = 16 << 20;
const TILE: usize = 64;

/// What an array is, by its header alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayHead {
    /// Its key in the archive, or the name of its file.
    pub name: String,
    /// As numpy spells it: `<f4`, `|O`, `<M8[ns]`; `structured` where it has fields.
    pub dtype: String,
    /// Length along each axis; empty for a single value.
    pub shape: Vec<usize>,
    /// Whether the first axis runs fastest.
    pub fortran: bool,
    /// Bytes of its values, inflated.
    pub bytes: u64,
}

impl ArrayHead {
    /// Number of values.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds Python objects, which are never read.
    pub fn is_object(&self) -> bool {
        self.dtype.trim_start_matches(['|', '<', '>', '=']).starts_with('O')
    }

    /// Whether its values are numbers (or booleans) that can be read.
    pub fn is_number(&self) -> bool {
        Field::parse(String::new(), &self.dtype).is_ok_and(|field| field.is_number())
    }
}

/// The arrays of a `.npz` (or a lone `.npy`), none of them read yet.
pub struct Arrays {
    source: Source, // of the archive, without gzip around it
    archive: Option<Archive>,
    caps: Caps,
    heads: Vec<ArrayHead>, // in the order of the archive's members
}

impl Arrays {
    /// Reads the headers and refuses those that disagree with the length of their bytes.
    pub fn open(source: &Source, caps: &Caps) -> Result<Arrays> {
        if source.head(MAGIC.len())? == MAGIC {
            let source = source.plain(caps)?;
            let head = head(stem(&source), source.len(), &mut source.reader()?).map_err(|e| e.at(source.path()))?;
            return Ok(Arrays { source, archive: None, caps: caps.clone(), heads: vec![head] });
        }
        let archive = Archive::open(source, caps)?;
        caps.check_columns(archive.members().len()).map_err(|e| e.at(source.path()))?;
        let mut heads = Vec::new();
        for (i, member) in archive.members().iter().enumerate() {
            let Some(name) = member.name.strip_suffix(".npy") else {
                return Err(Error::input(format!("{} is not a numpy array", member.name))
                    .at(source.path())
                    .remedy("an .npz holds only .npy arrays; write it with np.savez"));
            };
            let head = head(name.to_string(), member.size, &mut archive.reader(i)?);
            heads.push(head.map_err(|e| e.at(&source.path().join(&member.name)))?);
        }
        Ok(Arrays { source: source.clone(), archive: Some(archive), caps: caps.clone(), heads })
    }

    /// What there is.
    pub fn heads(&self) -> &[ArrayHead] {
        &self.heads
    }

    /// The array of that name.
    pub fn head(&self, name: &str) -> Option<&ArrayHead> {
        self.heads.iter().find(|h| h.name == name)
    }

    /// Reads one array as a whole, twice its length in memory for a moment: for the small ones. `seen` is shown the
    /// bytes of its values, as they stand in the file.
    pub fn read(&self, name: &str, seen: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Array> {
        let mut open = self.start(name)?;
        // Not one byte more than was declared: what follows is an error, not memory.
        let mut file = Vec::new();
        open.reader.by_ref().take(open.length).read_to_end(&mut file).map_err(|e| self.unreadable(name, &e))?;
        self.finish(name, &mut open.reader)?;
        let file = bytes::Bytes::from(file);
        seen(file.get(open.header as usize..).unwrap_or_default())?;
        let mut arrays = decode_bytes(name, &file, &self.caps).map_err(|e| e.at(&self.place(name)))?;
        match arrays.pop() {
            Some(array) if arrays.is_empty() => Ok(array),
            _ => Err(Error::input("it is a structured array, which has several columns")
                .at(&self.place(name))
                .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})")),
        }
    }

    /// Reads numbers (`[N]`, `[N, F]` or `[N, T, F]`) into rows of f32: value `f` of row `n · T + t` goes to `out[(n ·
    /// T + t) · stride + f]`, and what lies between rows stays as it is. `seen` is shown the bytes as they stand in the
    /// file, block by block; its error ends the reading.
    ///
    /// Doubles are rounded to the nearest f32; those beyond its range become infinite.
    ///
    /// # Panics
    ///
    /// If `out` is not as long as the rows, or a row is longer than the stride.
    pub fn read_f32(
        &self,
        name: &str,
        stride: usize,
        out: &mut [f32],
        seen: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut open = self.start(name)?;
        let place = self.place(name);
        let header = Header::take(&mut open.reader).map_err(|e| e.at(&place))?;
        let (n, t, f) = match header.shape[..] {
            [n] => (n, 1, 1),
            [n, f] => (n, 1, f),
            [n, t, f] => (n, t, f),
            _ => {
                return Err(Error::input(format!(
                    "{name} has the shape {:?}, which is not a list of rows",
                    header.shape
                ))
                .at(&place)
                .remedy("save it as [N, F] or [N, T, F]"));
            }
        };
        assert!(f <= stride && out.len() == n * t * stride, "{name} does not fit its place");
        let fields = fields(&header.descr).map_err(|e| e.at(&place))?;
        let field = match (&fields[..], &header.descr) {
            ([field], Py::Str(_)) if field.is_number() => field,
            _ => {
                return Err(Error::input(format!("{name} does not hold numbers"))
                    .at(&place)
                    .remedy(format!("convert it: {name} = np.asarray({name}, dtype=np.float32)")));
            }
        };
        let shape = Shape { n, t, f, stride };
        let column = n * field.width;
        let fortran = header.fortran && t * f > 1;
        let block = if fortran && column <= COLUMNS / 2 { COLUMNS / column.max(1) * column } else { BLOCK };
        let mut block = vec![0; block.max(8).min((header.count * field.width).max(8))];
        let mut at = 0; // values before the block
        while at < header.count {
            let want = block.len().min((header.count - at) * field.width) / field.width * field.width;
            let bytes = &mut block[..want];
            open.reader.read_exact(bytes).map_err(|e| self.unreadable(name, &e))?;
            seen(bytes)?;
            field.put(bytes, at, fortran, &shape, out);
            at += want / field.width;
        }
        self.finish(name, &mut open.reader)
    }

    /// An array's bytes from the start of its header.
    fn start(&self, name: &str) -> Result<Open> {
        let Some(i) = self.heads.iter().position(|h| h.name == name) else {
            return Err(Error::input(format!("it has no array called {name}")).at(self.source.path()));
        };
        let (reader, length) = match &self.archive {
            Some(archive) => (archive.reader(i)?, archive.members()[i].size),
            None => (self.source.reader()?, self.source.len()),
        };
        Ok(Open { reader, length, header: length - self.heads[i].bytes })
    }

    /// The end of a member is where its checksum is looked at.
    fn finish(&self, name: &str, reader: &mut dyn Read) -> Result<()> {
        match reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::input(format!("bytes follow the values of {name}"))
                .at(&self.place(name))
                .remedy("get the file again; it is damaged")),
            Err(e) => Err(self.unreadable(name, &e)),
        }
    }

    fn unreadable(&self, name: &str, e: &io::Error) -> Error {
        use io::ErrorKind as K;
        match e.kind() {
            K::InvalidData | K::InvalidInput | K::UnexpectedEof => Error::input(format!("{name}: {e}"))
                .at(&self.place(name))
                .remedy("get the file again; it is cut or damaged"),
            K::OutOfMemory => Error::new(Fault::Memory, format!("not enough memory for {name}")).at(&self.place(name)),
            _ => Error::io(&self.place(name), "reading the file", e),
        }
    }

    fn place(&self, name: &str) -> std::path::PathBuf {
        match &self.archive {
            Some(_) => self.source.path().join(format!("{name}.npy")),
            None => self.source.path().to_path_buf(),
        }
    }
}

struct Open {
    reader: Box<dyn Read + Send>,
    length: u64,
    header: u64, // bytes
}

/// The head of an array of `length` bytes, held against that length where its values have one.
fn head(name: String, length: u64, reader: &mut dyn Read) -> Result<ArrayHead> {
    let header = Header::take(&mut { reader })?;
    let bytes = length.saturating_sub(header.bytes);
    let dtype = match &header.descr {
        Py::Str(code) => code.clone(),
        _ => "structured".to_string(),
    };
    let head = ArrayHead { name, dtype, shape: header.shape.clone(), fortran: header.fortran, bytes };
    // What is not read needs no length: the bytes of objects are pickles.
    if head.is_number() {
        check_size(&header, &fields(&header.descr)?, bytes)?;
    }
    Ok(head)
}

/// Rows of `f` numbers, `t` of them a sample, `stride` apart.
struct Shape {
    n: usize,
    t: usize,
    f: usize,
    stride: usize,
}

impl Field {
    fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Bool | Kind::Int | Kind::Uint | Kind::Float)
    }

    /// Puts a block of values, the first of which is number `at` of the array, where they belong.
    fn put(&self, bytes: &[u8], at: usize, fortran: bool, shape: &Shape, out: &mut [f32]) {
        // One loop for each kind, in which the compiler sees the width.
        match (self.kind, self.width, self.big) {
            (Kind::Float, 4, false) => place(bytes, at, fortran, shape, out, f32::from_le_bytes),
            (Kind::Float, 8, false) => place(bytes, at, fortran, shape, out, |b| f64::from_le_bytes(b) as f32),
            (Kind::Float, 2, false) => place(bytes, at, fortran, shape, out, |b| half(u16::from_le_bytes(b))),
            (Kind::Float, 4, true) => place(bytes, at, fortran, shape, out, f32::from_be_bytes),
            (Kind::Float, 8, true) => place(bytes, at, fortran, shape, out, |b| f64::from_be_bytes(b) as f32),
            (Kind::Float, 2, true) => place(bytes, at, fortran, shape, out, |b| half(u16::from_be_bytes(b))),
            (_, 1, _) => place(bytes, at, fortran, shape, out, |b: [u8; 1]| self.whole(&b)),
            (_, 2, _) => place(bytes, at, fortran, shape, out, |b: [u8; 2]| self.whole(&b)),
            (_, 4, _) => place(bytes, at, fortran, shape, out, |b: [u8; 4]| self.whole(&b)),
            _ => place(bytes, at, fortran, shape, out, |b: [u8; 8]| self.whole(&b)),
        }
    }

    /// A whole number or a boolean.
    fn whole(&self, bytes: &[u8]) -> f32 {
        match self.kind {
            Kind::Bool => f32::from(u8::from(bytes[0] != 0)),
            Kind::Int => self.int(bytes) as f32,
            _ => self.bits(bytes) as f32,
        }
    }
}

fn place<const W: usize>(
    bytes: &[u8],
    at: usize,
    fortran: bool,
    shape: &Shape,
    out: &mut [f32],
    number: impl Fn([u8; W]) -> f32,
) {
    let (values, _) = bytes.as_chunks::<W>();
    if !fortran {
        // Rows without gaps are one long row.
        let (f, stride) = if shape.f == shape.stride { (out.len(), out.len()) } else { (shape.f, shape.stride) };
        let (mut row, mut column, mut rest) = (at / f, at % f, values);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(f - column));
            for (to, from) in out[row * stride + column..].iter_mut().zip(now) {
                *to = number(*from);
            }
            (row, column, rest) = (row + 1, 0, later);
        }
        return;
    }
    // Column after column, each with one value of every sample; `k` columns came before.
    let far = shape.t * shape.stride; // from sample to sample
    let near = |k: usize| k % shape.t * shape.stride + k / shape.t;
    if at.is_multiple_of(shape.n) && values.len().is_multiple_of(shape.n) {
        // Whole columns: a few samples at a time of all of them, whose rows lie together.
        for from in (0..shape.n).step_by(TILE) {
            let to = shape.n.min(from + TILE);
            for (k, column) in values.chunks_exact(shape.n).enumerate() {
                let near = near(at / shape.n + k);
                for (n, value) in (from..to).zip(&column[from..to]) {
                    out[n * far + near] = number(*value);
                }
            }
        }
        return;
    }
    let (mut k, mut n, mut rest) = (at / shape.n, at % shape.n, values);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(shape.n - n));
        let near = near(k);
        for (n, value) in (n..).zip(now) {
            out[n * far + near] = number(*value);
        }
        (k, n, rest) = (k + 1, 0, later);
    }
}
