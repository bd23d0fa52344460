//! Where bytes come from, and what they are.
//!
//! A [`Source`] is a path on disk or bytes in memory (a member of an archive, a test). Gzip is seen by its magic bytes
//! and undone on the way, at every level. What a file *is* ([`Container`]) is told from its content, never from its
//! extension alone: files are mislabelled all the time.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::format_bytes;
use crate::regular::open_file;
use crate::zip::Archive;

/// Limits that hold before memory is taken. The defaults let every honest file of bars through.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Rows of one table; row ids are 32 bits wide with one value kept for "none".
    pub rows: u64,
    /// Columns of one table.
    pub columns: usize,
    /// Bytes one file may inflate to when it is streamed. What is inflated into memory as a whole is held to 2 GiB
    /// besides.
    pub inflated: u64,
    /// Largest ratio of inflated to compressed bytes, looked at once 64 MiB are passed: small files may repeat
    /// themselves. Real bars stay below 30:1; deflate's own maximum is about 1032:1.
    pub ratio: u64,
    /// Bytes of one line of text or one string.
    pub line: usize,
    /// Members of one archive.
    pub members: usize,
}

/// Below this many inflated bytes no ratio is suspicious.
const RATIO_FROM: u64 = 64 << 20;
/// Inflated bytes held in memory at once.
const IN_MEMORY: u64 = 2 << 30;
/// Bytes that gzip may inflate to in memory: what must be read as a whole comes packed by its own means when large.
const GUNZIPPED: u64 = 512 << 20;
/// What [`Source::container`] looks at.
const SNIFF: usize = 64 << 10;

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            rows: u64::from(u32::MAX) - 1,
            columns: 4096,
            inflated: 16 << 30,
            ratio: 200,
            line: 1 << 20,
            members: 100_000,
        }
    }
}

impl Caps {
    /// Refuses `inflated` bytes out of `compressed` when that is too much for `limit`, or looks like a bomb.
    pub(crate) fn check_inflated(&self, inflated: u64, compressed: u64, limit: u64) -> Result<()> {
        if inflated > limit {
            return Err(Error::input(format!("it inflates to more than the limit of {}", format_bytes(limit)))
                .remedy("split it into smaller files, or decompress it first"));
        }
        if inflated > RATIO_FROM && inflated / self.ratio.max(1) > compressed {
            return Err(Error::input(format!(
                "{} of compressed data inflate to {} or more, beyond {}:1, which looks like a decompression bomb",
                format_bytes(compressed),
                format_bytes(inflated),
                self.ratio
            ))
            .remedy("if you trust the file, decompress it first"));
        }
        Ok(())
    }

    /// The limit for what is inflated into memory as a whole.
    pub(crate) fn in_memory(&self) -> u64 {
        self.inflated.min(IN_MEMORY)
    }

    /// Refuses more columns than the cap.
    pub(crate) fn check_columns(&self, columns: usize) -> Result<()> {
        if columns > self.columns {
            return Err(Error::input(format!("it has {columns} columns, the limit is {}", self.columns))
                .remedy("keep only the columns that are needed"));
        }
        Ok(())
    }

    /// Refuses more rows than the cap.
    pub(crate) fn check_rows(&self, rows: u64) -> Result<()> {
        if rows > self.rows {
            return Err(Error::input(format!("it has {rows} rows, the limit is {}", self.rows))
                .remedy("split it into smaller files"));
        }
        Ok(())
    }
}

/// What a file is, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Lines of text: CSV and its relatives.
    Text,
    /// JSON, or one JSON value per line.
    Json,
    /// Apache Parquet.
    Parquet,
    /// Feather version 2, which is the Arrow file format.
    Feather,
    /// A zip of `.npy` arrays.
    Npz,
    /// One numpy array.
    Npy,
    /// A zip of other files.
    Zip,
    /// None of these.
    Unknown,
}

/// A file on disk, or bytes in memory with a name to show. Cheap to clone.
#[derive(Clone)]
pub struct Source {
    path: Arc<Path>,
    memory: Option<Bytes>, // None: on disk at `path`
    len: u64,
}

impl Source {
    /// A file on disk; it must exist and be no folder.
    pub fn open(path: &Path) -> Result<Source> {
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, "opening the file", &e))?;
        if meta.is_dir() {
            return Err(Error::input("this is a folder, not a file").at(path).remedy("name the files in it"));
        }
        if !meta.is_file() {
            return Err(Error::input("this is not a regular file").at(path).remedy("save the data to a file first"));
        }
        Ok(Source { path: path.into(), memory: None, len: meta.len() })
    }

    /// Bytes in memory; `name` is shown in errors.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: impl Into<Bytes>) -> Source {
        let bytes = bytes.into();
        Source { path: name.into().into(), len: bytes.len() as u64, memory: Some(bytes) }
    }

    /// The path, as it is shown in errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes as stored, before any gunzip.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `n` bytes after gunzip; fewer where there are fewer.
    pub fn head(&self, n: usize) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        match self.reader()?.take(n as u64).read_to_end(&mut head) {
            // A damaged tail is the reader's to report, with its place.
            Err(e) if head.is_empty() => Err(Error::io(self.path(), "reading the file", &e)),
            _ => Ok(head),
        }
    }

    /// Everything in order, gunzipped where it is gzip; inflation is capped by [`Caps::default`].
    pub fn reader(&self) -> Result<Box<dyn Read + Send>> {
        self.reader_under(&Caps::default())
    }

    /// As [`Source::reader`], under these caps.
    pub(crate) fn reader_under(&self, caps: &Caps) -> Result<Box<dyn Read + Send>> {
        if self.is_gzip()? {
            return Ok(Box::new(Gunzip {
                inner: Some(flate2::bufread::GzDecoder::new(BufReader::with_capacity(1 << 16, self.raw()?))),
                inflated: 0,
                compressed: self.len,
                caps: caps.clone(),
                limit: caps.inflated,
            }));
        }
        self.raw()
    }

    /// Whether it is stored as gzip.
    pub fn is_gzip(&self) -> Result<bool> {
        let mut magic = [0; 3];
        let mut raw = self.raw()?;
        let mut got = 0;
        while got < magic.len() {
            match raw.read(&mut magic[got..]).map_err(|e| Error::io(self.path(), "reading the file", &e))? {
                0 => return Ok(false),
                n => got += n,
            }
        }
        Ok(magic == [0x1f, 0x8b, 8])
    }

    /// The whole content, gunzipped, under these caps.
    pub fn bytes(&self, caps: &Caps) -> Result<Bytes> {
        if !self.is_gzip()? {
            if let Some(bytes) = &self.memory {
                return Ok(bytes.clone());
            }
            if self.len > caps.inflated {
                return Err(Error::input(format!("it is larger than the limit of {}", format_bytes(caps.inflated)))
                    .at(self.path())
                    .remedy("split it into smaller files"));
            }
        }
        let gzip = self.is_gzip()?;
        let caps =
            Caps { inflated: if gzip { caps.in_memory().min(GUNZIPPED) } else { caps.inflated }, ..caps.clone() };
        let mut all = Vec::new();
        self.reader_under(&caps)?
            .take(caps.inflated.saturating_add(1))
            .read_to_end(&mut all)
            .map_err(|e| Error::io(self.path(), "reading the file", &e))?;
        Ok(all.into())
    }

    /// What it is, by its content. Formats that are known and not read are an error that says how to convert them.
    pub fn container(&self) -> Result<Container> {
        let head = self.head(SNIFF)?;
        sniff(self, &head).map_err(|e| e.at(self.path()))
    }

    /// This source without gzip around it: itself, or its inflated bytes.
    pub(crate) fn plain(&self, caps: &Caps) -> Result<Source> {
        Ok(if self.is_gzip()? { Source::from_bytes(self.path.as_ref(), self.bytes(caps)?) } else { self.clone() })
    }

    /// Pieces of the stored bytes, in any order.
    pub(crate) fn pieces(&self) -> Result<Pieces> {
        Ok(match &self.memory {
            Some(bytes) => Pieces::Memory(bytes.clone()),
            None => Pieces::Disk(self.file()?, self.len),
        })
    }

    /// The stored bytes `at .. at + len` in order; fewer where the file ends before.
    pub(crate) fn part(&self, at: u64, len: u64) -> Result<Box<dyn Read + Send>> {
        Ok(match &self.memory {
            Some(bytes) => {
                let at = at.min(self.len) as usize;
                let end = (at as u64).saturating_add(len).min(self.len) as usize;
                Box::new(io::Cursor::new(bytes.slice(at..end)))
            }
            None => {
                let mut file = self.file()?;
                file.seek(SeekFrom::Start(at)).map_err(|e| Error::io(self.path(), "reading the file", &e))?;
                Box::new(file.take(len))
            }
        })
    }

    /// The bytes, when they are in memory.
    pub(crate) fn memory(&self) -> Option<&Bytes> {
        self.memory.as_ref()
    }

    /// The file on disk, opened read-only.
    pub(crate) fn file(&self) -> Result<File> {
        open_file(&self.path).map_err(|e| Error::io(self.path(), "opening the file", &e))
    }

    fn raw(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match &self.memory {
            Some(bytes) => Box::new(io::Cursor::new(bytes.clone())),
            None => Box::new(self.file()?),
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.path.display(), self.len)
    }
}

/// Random access to stored bytes; a length is checked against the file before it is allocated.
pub(crate) enum Pieces {
    Memory(Bytes),
    Disk(File, u64),
}

impl Pieces {
    /// The bytes `at .. at + len`, or an error when the file ends before.
    pub(crate) fn get(&mut self, at: u64, len: u64) -> io::Result<Bytes> {
        let size = match self {
            Pieces::Memory(bytes) => bytes.len() as u64,
            Pieces::Disk(_, size) => *size,
        };
        if at.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("it refers to bytes {at} to {}, but has only {size}", at.saturating_add(len)),
            ));
        }
        match self {
            Pieces::Memory(bytes) => Ok(bytes.slice(at as usize..(at + len) as usize)),
            Pieces::Disk(file, _) => {
                let mut piece = vec![0; len as usize];
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut piece)?;
                Ok(piece.into())
            }
        }
    }
}

/// Gzip members one after another, counted against the caps.
struct Gunzip<R> {
    inner: Option<flate2::bufread::GzDecoder<R>>, // None after the end
    inflated: u64,
    compressed: u64,
    caps: Caps,
    limit: u64,
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while let Some(inner) = &mut self.inner {
            let n = inner.read(buf).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => {
                    io::Error::new(e.kind(), "the gzip data end too early (a broken download?)")
                }
                io::ErrorKind::Interrupted => e,
                kind => io::Error::new(kind, format!("damaged gzip data: {e}")),
            })?;
            if n > 0 {
                self.inflated += n as u64;
                self.caps
                    .check_inflated(self.inflated, self.compressed, self.limit)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.message))?;
                return Ok(n);
            }
            self.next_member()?;
        }
        Ok(0)
    }
}

impl<R: BufRead> Gunzip<R> {
    /// After a member: another one, zero padding (tapes and some tools add it), or the end. Anything else is damage: a
    /// file cut and glued would otherwise lose its second half without a word.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(mut rest) = self.inner.take().map(flate2::bufread::GzDecoder::into_inner) else { return Ok(()) };
        let mut padded = false;
        loop {
            let buffered = rest.fill_buf()?;
            let zeros = buffered.iter().take_while(|b| **b == 0).count();
            match buffered.get(zeros) {
                None if buffered.is_empty() => return Ok(()),
                None => {
                    padded = true;
                    rest.consume(zeros);
                }
                Some(0x1f) if zeros == 0 && !padded => {
                    self.inner = Some(flate2::bufread::GzDecoder::new(rest));
                    return Ok(());
                }
                Some(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "other bytes follow the end of the gzip data (two files glued together?)",
                    ));
                }
            }
        }
    }
}

/// Formats that are known and not read: first bytes, name, and how to convert.
const REFUSED: &[(&[u8], &str, &str)] = &[
    (b"\x89HDF", "an HDF5 file", "convert it with pandas: pd.read_hdf(path).to_parquet('bars.parquet')"),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "convert it with pandas: pd.read_sql('select * from bars', sqlite3.connect(path)).to_parquet('bars.parquet')",
    ),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "convert it with pandas: pd.read_excel(path).to_csv('bars.csv')"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it first: zstd -d"),
    (b"\xfd7zXZ\0", "xz-compressed", "decompress it first: xz -d"),
    (b"BZh91AY&SY", "bzip2-compressed", "decompress it first: bzip2 -d"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive", "unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first"),
    (b"\x04\x22\x4d\x18", "lz4-compressed", "decompress it first: lz4 -d"),
    (b"%PDF", "a PDF document", "ask for the data as CSV"),
];

fn refuse(what: &str, remedy: &str) -> Error {
    Error::input(format!("this is {what}, which is not read")).remedy(remedy)
}

fn sniff(source: &Source, head: &[u8]) -> Result<Container> {
    if head.starts_with(b"PAR1") {
        return Ok(Container::Parquet);
    }
    if head.starts_with(b"ARROW1") {
        return Ok(Container::Feather);
    }
    if head.starts_with(b"FEA1") {
        return Ok(Container::Unknown);
    }
    if head.starts_with(b"\x93NUMPY") {
        return Ok(Container::Npy);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        let archive = Archive::open(source, &Caps::default())?;
        let members = archive.members();
        if members.iter().any(|m| m.name == "[Content_Types].xml") {
            return Err(refuse("an Excel workbook", "convert it with pandas: pd.read_excel(path).to_csv('bars.csv')"));
        }
        let npz = !members.is_empty() && members.iter().all(|m| m.name.ends_with(".npy"));
        return Ok(if npz { Container::Npz } else { Container::Zip });
    }
    if let [0x80, 2..=5, ..] = head {
        // A pickle runs code when it is opened, so it is never opened.
        return Err(refuse(
            "a Python pickle",
            "convert it with pandas, if you trust it: pd.read_pickle(path).to_parquet('bars.parquet')",
        ));
    }
    if let Some((_, what, remedy)) = REFUSED.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Err(refuse(what, remedy));
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || looks_utf16(head) {
        return Err(refuse("UTF-16 text", "save it as UTF-8"));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    if let Some(b'[' | b'{') = text.iter().find(|b| !b.is_ascii_whitespace()) {
        return Ok(Container::Json);
    }
    // Latin-1 gives every byte a meaning, so only NUL and a crowd of control characters tell text from the rest.
    let controls = text.iter().filter(|b| matches!(b, 1..=8 | 14..=25 | 28..=31)).count();
    let text = !text.contains(&0) && controls <= text.len() / 100;
    Ok(if text { Container::Text } else { Container::Unknown })
}

/// Text of one script in UTF-16 without a mark: every second byte is NUL.
fn looks_utf16(head: &[u8]) -> bool {
    let n = head.len().min(256) / 2;
    let zeros = |from: usize| head.iter().skip(from).step_by(2).take(n).filter(|b| **b == 0).count();
    n >= 8 && ((zeros(1) == n && zeros(0) == 0) || (zeros(0) == n && zeros(1) == 0))
}
