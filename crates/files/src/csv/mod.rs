//! Delimited text: sniffed from its head, then read in blocks by all threads.
//!
//! [`CsvHead::sniff`] looks at the first megabyte: delimiter, decimal sign, lines above the data, and what each column
//! holds. The caller decides which columns it wants as what ([`Kind`]); [`Csv::read`] then parses the whole file and
//! hands over typed blocks in file order. One thread at a time cuts the next two megabytes at a line end, the others
//! parse: plain files, gzip and zip members are the same to it. Memory is a few blocks, however long the file.
//!
//! A row that cannot be read is left out and kept as [`Unreadable`] with line, field and text; whether that is a repair
//! or the end is the caller's policy. A quoted field may hold the delimiter but not a line end: bars never do, and so
//! any newline is a border.

mod block;
mod head;

use crate::number::Decimal;
use crate::{Caps, Error, Result, Source, Table, time};
use block::Parser;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, mpsc};

pub use head::CsvHead;

/// Text is cut into pieces of about this many bytes; small enough to stay in the second-level cache while it is parsed.
const BLOCK: usize = 2 << 20;

/// What a column is wanted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not wanted.
    Skip,
    /// A number that the row cannot do without; missing is NaN, anything else makes the row unreadable.
    Number,
    /// A number that travels along; what is no number becomes NaN and is counted.
    Extra,
    /// A stamp written as text.
    Time(time::Column),
    /// A time of day.
    Clock,
    /// A whole number of seconds, milliseconds, … since 1970, handed over as it stands.
    Epoch,
    /// A short text that repeats.
    Names,
}

/// A text file and what is wanted from it.
#[derive(Debug, Clone)]
pub struct Csv {
    /// Where the text is.
    pub source: Source,
    /// Between fields.
    pub delimiter: u8,
    /// How numbers are written.
    pub decimal: Decimal,
    /// Lines above the data.
    pub header_lines: usize,
    /// One entry a field; a row with more fields is unreadable, one with fewer only if a wanted field that is no
    /// `Extra` is missing.
    pub kinds: Vec<Kind>,
    /// Limits.
    pub caps: Caps,
}

/// A stretch of rows in file order.
#[derive(Debug)]
pub struct CsvBlock {
    /// One column for each wanted field, named by its index.
    pub table: Table,
    /// Bytes of text it came from.
    pub bytes: usize,
    /// Rows left out.
    pub unreadable: Vec<Unreadable>,
    /// Values of `Extra` columns that were text.
    pub bad_extras: u64,
    lines: Vec<(usize, u64)>, // from that row on, rows stand on consecutive lines that begin with that one
}

/// A row that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Line in the file, from 1.
    pub line: u64,
    /// Field, from 1.
    pub field: u64,
    /// What stands there, shortened.
    pub text: String,
    /// What was wanted: `a time`, `a number`, `6 fields`.
    pub wanted: String,
}

impl CsvBlock {
    /// The line of a row, from 1.
    pub fn line(&self, row: usize) -> u64 {
        let at = self.lines.partition_point(|(from, _)| *from <= row);
        match self.lines.get(at.wrapping_sub(1)) {
            Some((from, line)) => line + (row - from) as u64,
            None => 0,
        }
    }
}

impl Csv {
    /// Parses the file on that many threads, puts each block through `map` there, and hands the results over in file
    /// order; an error of `each` ends it.
    pub fn read<T: Send>(
        &self,
        threads: usize,
        map: &(dyn Fn(CsvBlock) -> Result<T> + Sync),
        each: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let mut cutter = LineCutter::new(self)?;
        let parse = |piece: &TextPiece| map(Parser::new(self).parse(&piece.text, piece.first_line)?);
        if threads <= 1 {
            while let Some(piece) = cutter.next()? {
                each(parse(&piece)?)?;
            }
            return Ok(());
        }
        let parse = &parse;
        let ahead = threads as u64 * 3;
        let gate =
            Backpressure { state: Mutex::new(BackpressureState { delivered: 0, stop: false }), moved: Condvar::new() };
        let cutter = Mutex::new(cutter);
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let send = send.clone();
                let (cutter, gate) = (&cutter, &gate);
                scope.spawn(move || {
                    loop {
                        let piece = {
                            let Ok(mut cutter) = cutter.lock() else { return };
                            // The cutter is held while waiting on purpose: nobody may run further ahead.
                            if !gate.wait(cutter.cut, ahead) {
                                return;
                            }
                            cutter.next()
                        };
                        let (index, parsed) = match piece {
                            Ok(Some(piece)) => (piece.index, parse(&piece)),
                            Ok(None) => return,
                            Err(error) => (u64::MAX, Err(error)),
                        };
                        let failed = parsed.is_err();
                        if send.send((index, parsed)).is_err() || failed {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let outcome = deliver_in_order(&receive, &gate, each);
            gate.stop();
            outcome
        })
    }
}

/// Hands blocks over in file order; the error that comes first in the file is the one reported.
fn deliver_in_order<T>(
    receive: &mpsc::Receiver<(u64, Result<T>)>,
    gate: &Backpressure,
    each: &mut dyn FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut early: BTreeMap<u64, Result<T>> = BTreeMap::new();
    let mut next = 0;
    for (index, parsed) in receive {
        early.insert(index, parsed);
        while let Some(parsed) = early.remove(&next) {
            each(parsed?)?;
            next += 1;
            gate.pass();
        }
    }
    // What is left when all threads are done begins with the error that kept its successors waiting.
    early.into_values().find_map(std::result::Result::err).map_or(Ok(()), Err)
}

struct Backpressure {
    state: Mutex<BackpressureState>,
    moved: Condvar,
}

struct BackpressureState {
    delivered: u64,
    stop: bool,
}

impl Backpressure {
    fn wait(&self, cut: u64, ahead: u64) -> bool {
        let Ok(mut state) = self.state.lock() else { return false };
        while !state.stop && cut > state.delivered + ahead {
            match self.moved.wait(state) {
                Ok(woken) => state = woken,
                Err(_) => return false,
            }
        }
        !state.stop
    }

    fn pass(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.delivered += 1;
        }
        self.moved.notify_all();
    }

    fn stop(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.stop = true;
        }
        self.moved.notify_all();
    }
}

/// Cuts a stream at line ends.
struct LineCutter<'a> {
    csv: &'a Csv,
    reader: Box<dyn Read + Send>,
    rest: Vec<u8>,
    cut: u64,
    lines: u64, // lines handed out or skipped so far
    skip: usize,
    ended: bool,
}

struct TextPiece {
    index: u64,
    text: Vec<u8>,
    first_line: u64,
}

impl<'a> LineCutter<'a> {
    fn new(csv: &'a Csv) -> Result<LineCutter<'a>> {
        let reader = csv.source.reader()?;
        Ok(LineCutter { csv, reader, rest: Vec::new(), cut: 0, lines: 0, skip: csv.header_lines, ended: false })
    }

    fn next(&mut self) -> Result<Option<TextPiece>> {
        let mut text = std::mem::take(&mut self.rest);
        text.reserve(BLOCK + 4096);
        loop {
            if !self.ended {
                let wanted = BLOCK.saturating_sub(text.len()).max(64 << 10) as u64;
                let got = self.reader.by_ref().take(wanted).read_to_end(&mut text);
                let got = got.map_err(|e| Error::io(self.csv.source.path(), "reading", &e))?;
                self.ended = (got as u64) < wanted;
            }
            while self.skip > 0 && !text.is_empty() {
                let Some(at) = memchr::memchr(b'\n', &text).or(self.ended.then(|| text.len() - 1)) else { break };
                text.drain(..=at);
                self.skip -= 1;
                self.lines += 1;
            }
            let cut = if self.ended { Some(text.len()) } else { memchr::memrchr(b'\n', &text).map(|at| at + 1) };
            match cut {
                Some(0) if self.ended => return Ok(None),
                Some(cut) if self.skip == 0 => {
                    self.rest.extend_from_slice(&text[cut..]);
                    text.truncate(cut);
                    break;
                }
                _ if text.len() > self.csv.caps.line => {
                    return Err(Error::input(format!("a line is longer than {} bytes", self.csv.caps.line))
                        .at(self.csv.source.path())
                        .line(self.lines + 1)
                        .remedy("this does not look like a table; check that the file is complete and has line ends"));
                }
                _ => {}
            }
        }
        let first_line = self.lines + 1;
        self.lines += memchr::memchr_iter(b'\n', &text).count() as u64;
        let index = self.cut;
        self.cut += 1;
        Ok(Some(TextPiece { index, text, first_line }))
    }
}

/// Reads bytes as a hostile stranger would send them; see `fuzz`.
pub(crate) fn fuzz(bytes: &[u8]) {
    let caps = Caps::default();
    let source = Source::from_bytes("fuzz.csv", bytes.to_vec());
    let Ok(head) = CsvHead::sniff(&source, &caps) else { return };
    for all in [Kind::Number, Kind::Extra, Kind::Epoch, Kind::Clock, Kind::Names] {
        let guessed = |column: &Option<time::Column>| column.map_or(all, Kind::Time);
        let kinds = head.times.iter().map(guessed).collect();
        let mut rows = 0;
        let csv = head.csv(source.clone(), kinds, caps.clone());
        let _ = csv.read(1, &Ok, &mut |block| {
            rows += block.table.rows;
            let _ = block.line(0);
            Ok(())
        });
    }
}
