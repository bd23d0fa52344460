//! Zip archives, read from their central directory.
//!
//! Written by hand because a general reader forgives what we must refuse: two members of one name, members that share
//! bytes, names that climb out of the archive. Nothing is ever unpacked to disk. Stored and deflated members are read,
//! zip64 too; encrypted members, symlinks, archives in several parts and bytes before or after the archive are refused.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::source::{Caps, Pieces, Source};

/// A zip archive whose directory has been read and checked; members are inflated one by one.
pub struct Archive {
    source: Source,
    caps: Caps,
    members: Vec<Member>,
    entries: Vec<Entry>, // of each member
}

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path inside the archive, with `/` between folders.
    pub name: String,
    /// Its inflated size, as declared.
    pub size: u64,
}

/// Where a member's bytes are.
#[derive(Clone, Copy)]
struct Entry {
    header: u64, // of the local header
    start: u64,  // of the data
    packed: u64,
    size: u64,
    crc: u32,
    deflated: bool,
}

/// The directory of 100,000 members with ordinary names is far below this.
const DIRECTORY: u64 = 64 << 20;

impl Archive {
    /// Reads the directory and refuses what no honest archive of data has.
    pub fn open(source: &Source, caps: &Caps) -> Result<Archive> {
        let source = source.plain(caps)?;
        let (members, entries) = read_directory(&source, caps).map_err(|e| e.at(source.path()))?;
        Ok(Archive { source, caps: caps.clone(), members, entries })
    }

    /// The files in it, in directory order; folders and the notes macOS adds are left out.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Inflates a member into memory.
    pub fn source(&self, i: usize) -> Result<Source> {
        let (Some(member), Some(entry)) = (self.members.get(i), self.entries.get(i)) else {
            return Err(Error::input(format!("it has no member {i}")).at(self.source.path()));
        };
        let path = self.source.path().join(&member.name);
        let packed = self
            .source
            .pieces()?
            .get(entry.start, entry.packed)
            .map_err(|e| Error::io(&path, "reading the archive", &e))?;
        let bytes = inflate(packed, entry, &self.caps).map_err(|e| e.at(&path))?;
        Ok(Source::from_bytes(path, bytes))
    }

    /// A member's bytes in order, inflated on the way; what it declares of length and checksum is held against it at
    /// its end.
    pub(crate) fn reader(&self, i: usize) -> Result<Box<dyn Read + Send>> {
        let Some(entry) = self.entries.get(i) else {
            return Err(Error::input(format!("it has no member {i}")).at(self.source.path()));
        };
        let packed = self.source.part(entry.start, entry.packed)?;
        let inner: Box<dyn Read + Send> = if entry.deflated {
            let packed = BufReader::with_capacity(1 << 18, packed);
            Box::new(flate2::bufread::DeflateDecoder::new(packed))
        } else {
            packed
        };
        Ok(Box::new(Checked { inner, seen: 0, crc: flate2::Crc::new(), entry: *entry }))
    }
}

/// A member on its way out, counted and summed.
struct Checked {
    inner: Box<dyn Read + Send>,
    seen: u64,
    crc: flate2::Crc,
    entry: Entry,
}

impl Read for Checked {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let n = match self.inner.read(buf) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted && self.entry.deflated => {
                return wrong(format!("damaged deflate data: {e}"));
            }
            read => read?,
        };
        self.crc.update(&buf[..n]);
        self.seen += n as u64;
        if self.seen > self.entry.size || (n == 0 && self.seen < self.entry.size) {
            let more = if n == 0 { "" } else { " or more" };
            return wrong(format!("it has {} bytes{more}, the archive declares {}", self.seen, self.entry.size));
        }
        if n == 0 && self.crc.sum() != self.entry.crc {
            return wrong("its checksum does not match".to_string());
        }
        Ok(n)
    }
}

fn inflate(packed: Bytes, entry: &Entry, caps: &Caps) -> Result<Bytes> {
    let bytes = if entry.deflated {
        caps.check_inflated(entry.size, entry.packed, caps.in_memory())?;
        // Deflate cannot do better than 1032:1, so a forged size buys no memory.
        let expect = entry.size.min(entry.packed.saturating_mul(1032) + 64);
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(expect as usize + 1)
            .map_err(|_| Error::new(crate::error::Kind::Memory, "not enough memory to inflate it"))?;
        flate2::read::DeflateDecoder::new(packed.as_ref())
            .take(entry.size.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| damaged(format!("damaged deflate data: {e}")))?;
        Bytes::from(bytes)
    } else {
        packed
    };
    if bytes.len() as u64 != entry.size {
        return Err(damaged(format!(
            "it inflates to {} bytes or more, the archive declares {}",
            bytes.len(),
            entry.size
        )));
    }
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    if crc.sum() != entry.crc {
        return Err(damaged("its checksum does not match".to_string()));
    }
    Ok(bytes)
}

fn read_directory(source: &Source, caps: &Caps) -> Result<(Vec<Member>, Vec<Entry>)> {
    let mut pieces = source.pieces()?;
    let mut get = |at, len| pieces_get(&mut pieces, at, len);
    let end = find_end(source.len(), &mut get)?;
    if end.count > caps.members as u64 {
        return Err(Error::input(format!("the archive has {} members, the limit is {}", end.count, caps.members))
            .remedy("split it into smaller archives"));
    }
    if end.size > DIRECTORY {
        return Err(damaged(format!("its directory claims {} bytes", end.size)));
    }
    let directory = get(end.start, end.size)?;
    let mut rest = directory.as_ref();
    let (mut members, mut entries) = (Vec::new(), Vec::new());
    let (mut names, mut all, mut total) = (HashSet::new(), Vec::new(), 0u64);
    for _ in 0..end.count {
        let header = read_header(&mut rest)?;
        if !names.insert(header.name.clone()) {
            return Err(hostile(format!("two members are called {:?}", header.name)));
        }
        check_name(&header.name)?;
        let entry = locate(&header, end.start, &mut get)?;
        all.push(entry);
        if header.name.ends_with('/') {
            continue;
        }
        check_member(&header)?;
        let sized = caps.check_inflated(entry.size, entry.packed, caps.inflated);
        sized.map_err(|e| Error { message: format!("{}: {}", header.name, e.message), ..e })?;
        total = total.saturating_add(entry.size);
        let file = header.name.rsplit('/').next().unwrap_or_default();
        if header.name.starts_with("__MACOSX/") || file == ".DS_Store" {
            continue;
        }
        members.push(Member { name: header.name, size: entry.size });
        entries.push(entry);
    }
    if !rest.is_empty() {
        return Err(damaged("its directory has more bytes than members".to_string()));
    }
    caps.check_inflated(total, source.len(), caps.inflated)?;
    // Bombs let many members share the same compressed bytes.
    all.sort_by_key(|e| e.header);
    if let Some(pair) = all.windows(2).find(|pair| pair[0].start + pair[0].packed > pair[1].header) {
        return Err(hostile(format!("members overlap at byte {}", pair[1].header)));
    }
    Ok((members, entries))
}

fn pieces_get(pieces: &mut Pieces, at: u64, len: u64) -> Result<Bytes> {
    pieces.get(at, len).map_err(|e| damaged(e.to_string()))
}

/// Where the central directory is.
struct End {
    count: u64,
    size: u64,
    start: u64,
}

fn find_end(len: u64, get: &mut impl FnMut(u64, u64) -> Result<Bytes>) -> Result<End> {
    let tail_len = len.min(22 + 0xffff);
    let tail_at = len - tail_len;
    let tail = get(tail_at, tail_len)?;
    // The comment must end where the file ends: otherwise two readers could find two different directories.
    let at = (0..tail.len().saturating_sub(21))
        .rev()
        .find(|at| tail[*at..].starts_with(b"PK\x05\x06") && at + 22 + u16_at(&tail, at + 20) as usize == tail.len());
    let Some(at) = at else {
        return Err(damaged("its directory is missing at the end (a broken download?)".to_string()));
    };
    let record = tail.slice(at..at + 22);
    let mut position = tail_at + at as u64;
    let mut end = End {
        count: u64::from(u16_at(&record, 10)),
        size: u64::from(u32_at(&record, 12)),
        start: u64::from(u32_at(&record, 16)),
    };
    let mut parts = u16_at(&record, 4) != 0 || u16_at(&record, 6) != 0 || u16_at(&record, 8) != u16_at(&record, 10);
    let full = end.count == 0xffff || end.size == 0xffff_ffff || end.start == 0xffff_ffff;
    // Python writes the longer record from 2 GiB on, although the numbers of the short one still fit.
    let longer = !full && end.start.checked_add(end.size).is_some_and(|ends| ends + 76 == position);
    if full || longer {
        let locator = get(position.checked_sub(20).ok_or_else(no_zip64)?, 20)?;
        if !locator.starts_with(b"PK\x06\x07") {
            return Err(no_zip64());
        }
        position = u64_at(&locator, 8);
        let record = get(position, 56)?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(no_zip64());
        }
        parts = u32_at(&record, 16) != 0 || u32_at(&record, 20) != 0 || u64_at(&record, 24) != u64_at(&record, 32);
        let long = End { count: u64_at(&record, 32), size: u64_at(&record, 40), start: u64_at(&record, 48) };
        // Two records that differ would be two directories.
        if longer && (long.count, long.size, long.start) != (end.count, end.size, end.start) {
            return Err(damaged("its two directory records differ".to_string()));
        }
        end = long;
    }
    if parts {
        return Err(Error::input("it is one part of a split archive").remedy("join the parts first: zip -s 0"));
    }
    if end.start.checked_add(end.size) != Some(position) {
        return Err(damaged("its directory is not where it says (bytes before the archive?)".to_string()));
    }
    Ok(end)
}

fn no_zip64() -> Error {
    damaged("its zip64 directory is missing".to_string())
}

/// One record of the central directory.
struct Header {
    name: String,
    raw_name: Vec<u8>,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    local: u64,
    mode: u32, // Unix file mode, 0 where another system made it
}

fn read_header(rest: &mut &[u8]) -> Result<Header> {
    let short = || damaged("its directory ends too early".to_string());
    let (fixed, tail) = rest.split_at_checked(46).ok_or_else(short)?;
    if !fixed.starts_with(b"PK\x01\x02") {
        return Err(damaged("its directory is damaged".to_string()));
    }
    let (name, tail) = tail.split_at_checked(u16_at(fixed, 28).into()).ok_or_else(short)?;
    let (extra, tail) = tail.split_at_checked(u16_at(fixed, 30).into()).ok_or_else(short)?;
    let (_comment, tail) = tail.split_at_checked(u16_at(fixed, 32).into()).ok_or_else(short)?;
    *rest = tail;
    let mut header = Header {
        // Names are UTF-8 by flag or by luck; else they are shown byte by byte.
        name: String::from_utf8(name.to_vec()).unwrap_or_else(|_| name.iter().map(|b| char::from(*b)).collect()),
        raw_name: name.to_vec(),
        flags: u16_at(fixed, 8),
        method: u16_at(fixed, 10),
        crc: u32_at(fixed, 16),
        packed: u64::from(u32_at(fixed, 20)),
        size: u64::from(u32_at(fixed, 24)),
        local: u64::from(u32_at(fixed, 42)),
        mode: if fixed[5] == 3 { u32_at(fixed, 38) >> 16 } else { 0 },
    };
    widen(&mut header, extra)?;
    Ok(header)
}

/// Takes 64-bit values from the zip64 extra field where the 32-bit ones are full.
fn widen(header: &mut Header, mut extra: &[u8]) -> Result<()> {
    const FULL: u64 = 0xffff_ffff;
    while let Some((head, tail)) = extra.split_at_checked(4) {
        let Some((field, next)) = tail.split_at_checked(u16_at(head, 2).into()) else { break };
        if u16_at(head, 0) == 1 {
            let mut values = field.chunks_exact(8).map(|v| u64_at(v, 0));
            for value in [&mut header.size, &mut header.packed, &mut header.local] {
                if *value == FULL {
                    *value = values.next().ok_or_else(|| damaged("a zip64 size is missing".to_string()))?;
                }
            }
            return Ok(());
        }
        extra = next;
    }
    if [header.size, header.packed, header.local].contains(&FULL) {
        return Err(damaged("a zip64 size is missing".to_string()));
    }
    Ok(())
}

/// Goes through the local header to where the data start; both headers must name the same file.
fn locate(header: &Header, directory: u64, get: &mut impl FnMut(u64, u64) -> Result<Bytes>) -> Result<Entry> {
    let wrong = || damaged(format!("{}: its two headers disagree", header.name));
    let local = get(header.local, 30)?;
    let name = u64::from(u16_at(&local, 26));
    if !local.starts_with(b"PK\x03\x04") || name != header.raw_name.len() as u64 {
        return Err(wrong());
    }
    let name_at = header.local + 30;
    if get(name_at, name)? != header.raw_name || (u16_at(&local, 6) ^ header.flags) & 1 != 0 {
        return Err(wrong());
    }
    let start = name_at + name + u64::from(u16_at(&local, 28));
    if start.checked_add(header.packed).is_none_or(|end| end > directory) {
        return Err(damaged(format!("{}: it reaches beyond the archive's data", header.name)));
    }
    let (packed, size) = (header.packed, header.size);
    Ok(Entry { header: header.local, start, packed, size, crc: header.crc, deflated: header.method == 8 })
}

fn check_name(name: &str) -> Result<()> {
    let bytes = name.as_bytes();
    let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    let climbs = name.split('/').any(|part| part == "..");
    if name.is_empty() || drive || climbs || name.starts_with('/') || name.contains(['\\', '\0']) {
        return Err(hostile(format!("a member is called {name:?}, which is not a plain relative path")));
    }
    Ok(())
}

fn check_member(header: &Header) -> Result<()> {
    let name = &header.name;
    if header.flags & (1 | 1 << 6 | 1 << 13) != 0 || header.method == 99 {
        return Err(Error::input(format!("{name} is encrypted")).remedy("unpack the archive and give the files in it"));
    }
    if header.mode & 0o170_000 == 0o120_000 {
        return Err(hostile(format!("{name} is a symbolic link")));
    }
    match header.method {
        8 => Ok(()),
        0 if header.packed == header.size => Ok(()),
        0 => Err(damaged(format!("{name}: it is stored, yet its two sizes differ"))),
        other => {
            Err(Error::input(format!("{name} is compressed with method {other}, only stored and deflate are read"))
                .remedy("unpack the archive and give the files in it"))
        }
    }
}

fn damaged(what: String) -> Error {
    Error::input(format!("damaged zip archive: {what}"))
        .remedy("get the file again, or unpack it and give the files in it")
}

fn hostile(what: String) -> Error {
    Error::input(format!("refused zip archive: {what}")).remedy("if you trust it, unpack it and give the files in it")
}

// The callers have checked the length; a short slice reads as 0 and fails the signature.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
