//! Parquet, in and out.
//!
//! Before anything is decoded, the footer's counts and sizes are held against the caps and the file, and the headers of
//! all pages that will be read are walked: a page that declares gigabytes in a few hundred bytes is refused before
//! memory is taken. Reading gives batches; the writer makes one row group per call, and the same tables give the same
//! bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use ::parquet::arrow::{ArrowWriter, ProjectionMask};
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{KeyValue, ParquetMetaData};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnPath;
use arrow_schema::SchemaRef;
use bytes::Bytes;

use crate::arrow::{self, BATCH, guard};
use crate::error::{Error, Result};
use crate::replace::Replace;
use crate::source::{Caps, Pieces, Source};
use crate::table::{Data, Table};

/// Reads a file in batches of at most 65,536 rows; `columns` picks some, in file order, and all that can be read
/// otherwise.
///
/// Strings come as `Names`, numbered anew in each batch. A column of whole numbers is `F64` in a batch where it has
/// holes.
pub fn read_parquet(
    source: &Source,
    caps: &Caps,
    columns: Option<&[String]>,
    each: &mut dyn FnMut(Table) -> Result<()>,
) -> Result<()> {
    let at = |e: Error| e.at(source.path());
    let open = Opened::new(source, caps).map_err(at)?;
    let wanted = open.pick(columns).map_err(at)?;
    let mut reader = guard("Parquet", || {
        check_pages(&open, &wanted, caps)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(open.input()?, open.meta.clone());
        let mask = ProjectionMask::roots(open.meta.parquet_schema(), wanted.iter().copied());
        builder.with_batch_size(BATCH).with_projection(mask).build().map_err(wrong)
    })
    .map_err(at)?;
    loop {
        let table = guard("Parquet", || {
            reader.next().transpose().map_err(|e| wrong(e.into()))?.map(|batch| arrow::to_table(&batch)).transpose()
        });
        match table.map_err(at)? {
            Some(table) => each(table)?,
            None => return Ok(()),
        }
    }
}

/// The columns by name, and whether each can be read; nested and binary ones cannot.
pub fn parquet_columns(source: &Source, caps: &Caps) -> Result<Vec<(String, bool)>> {
    let open = Opened::new(source, caps).map_err(|e| e.at(source.path()))?;
    let fields = open.meta.schema().fields().iter();
    Ok(fields.map(|f| (f.name().clone(), arrow::readable(f.data_type()))).collect())
}

/// The number of rows, from the footer.
pub fn parquet_rows(source: &Source, caps: &Caps) -> Result<u64> {
    Ok(Opened::new(source, caps).map_err(|e| e.at(source.path()))?.file().file_metadata().num_rows() as u64)
}

/// The value of a key in the file's own metadata.
pub fn parquet_metadata(source: &Source, key: &str) -> Result<Option<String>> {
    let open = Opened::new(source, &Caps::default()).map_err(|e| e.at(source.path()))?;
    let pairs = open.file().file_metadata().key_value_metadata();
    Ok(pairs.and_then(|pairs| pairs.iter().find(|kv| kv.key == key)).and_then(|kv| kv.value.clone()))
}

/// A file whose footer has been read and checked.
struct Opened {
    source: Source, // without gzip around it
    meta: ArrowReaderMetadata,
}

impl Opened {
    fn new(source: &Source, caps: &Caps) -> Result<Opened> {
        let source = source.plain(caps)?;
        guard("Parquet", || {
            let input = Input::new(&source)?;
            let meta = ArrowReaderMetadata::load(&input, ArrowReaderOptions::new()).map_err(wrong)?;
            let open = Opened { source: source.clone(), meta };
            open.check(caps)?;
            Ok(open)
        })
    }

    fn file(&self) -> &ParquetMetaData {
        self.meta.metadata()
    }

    fn input(&self) -> Result<Input> {
        Input::new(&self.source)
    }

    /// Counts and places, before anything is decoded.
    fn check(&self, caps: &Caps) -> Result<()> {
        let file = self.file();
        let rows = u64::try_from(file.file_metadata().num_rows())
            .map_err(|_| damaged("it declares a negative number of rows"))?;
        caps.check_rows(rows)?;
        caps.check_columns(self.meta.schema().fields().len())?;
        caps.check_columns(self.meta.parquet_schema().num_columns())?;
        let (mut total, mut stored) = (0u64, 0u64);
        for group in file.row_groups() {
            total = total.saturating_add(
                u64::try_from(group.num_rows()).map_err(|_| damaged("a row group has a negative number of rows"))?,
            );
            for chunk in group.columns() {
                let (start, len) = place(chunk)?;
                stored = stored.saturating_add(len);
                if start.checked_add(len).is_none_or(|end| end > self.source.len()) {
                    return Err(damaged("a column reaches beyond the end of the file"));
                }
            }
        }
        if total != rows {
            return Err(damaged(&format!("it declares {rows} rows, its row groups {total}")));
        }
        if stored > self.source.len() {
            return Err(damaged("its columns share bytes"));
        }
        Ok(())
    }

    /// Indices of the columns to read.
    fn pick(&self, columns: Option<&[String]>) -> Result<Vec<usize>> {
        let fields = self.meta.schema().fields();
        if let Some(missing) = columns.into_iter().flatten().find(|name| fields.iter().all(|f| f.name() != *name)) {
            let known: Vec<&str> = fields.iter().take(20).map(|f| f.name().as_str()).collect();
            return Err(Error::input(format!("it has no column {missing}"))
                .remedy(format!("its columns are {}", known.join(", "))));
        }
        let wanted = |name: &String| columns.is_none_or(|columns| columns.contains(name));
        let picked: Vec<usize> = (0..fields.len())
            .filter(|i| arrow::readable(fields[*i].data_type()) && wanted(fields[*i].name()))
            .collect();
        if picked.is_empty() && !fields.is_empty() {
            return Err(Error::input("none of its columns can be read; nested and binary columns are not")
                .remedy("write plain columns of numbers, times and strings"));
        }
        Ok(picked)
    }
}

type Chunk = ::parquet::file::metadata::ColumnChunkMetaData;

/// Where a column chunk starts and how long it is.
fn place(chunk: &Chunk) -> Result<(u64, u64)> {
    let start = chunk.dictionary_page_offset().filter(|at| *at > 0).unwrap_or(chunk.data_page_offset());
    let start = start.min(chunk.data_page_offset());
    match (u64::try_from(start), u64::try_from(chunk.compressed_size())) {
        (Ok(start), Ok(len)) => Ok((start, len)),
        _ => Err(damaged("a column lies at a negative place")),
    }
}

/// No page of a real file comes near this.
const PAGE: u64 = 1 << 30;

/// Walks the headers of all pages that will be read. The reader takes the sizes in them at their word.
fn check_pages(open: &Opened, wanted: &[usize], caps: &Caps) -> Result<()> {
    let schema = open.meta.parquet_schema();
    let mut pieces = open.source.pieces()?;
    let mut total = 0u64;
    for group in open.file().row_groups() {
        for (leaf, chunk) in group.columns().iter().enumerate() {
            if !wanted.contains(&schema.get_column_root_idx(leaf)) {
                continue;
            }
            let (mut at, len) = place(chunk)?;
            let end = at + len;
            // To the chunk's very end, as the reader does, whatever number of values the footer declares.
            while at < end {
                let (page, header) = read_page_header(&mut pieces, at, end)?;
                let body = at + header;
                at = body + page.packed;
                if at > end {
                    return Err(damaged("a page reaches beyond its column"));
                }
                total = total.saturating_add(page.size);
                let limit = caps.in_memory().min(PAGE);
                caps.check_inflated(page.size, page.packed, limit)?;
                match chunk.compression() {
                    Compression::UNCOMPRESSED => {}
                    // These decoders look at no declared size and go on while there is data.
                    Compression::GZIP(_) => check_gzip(&pieces.get(body, page.packed).map_err(lost)?, page.size)?,
                    Compression::LZ4 if page.packed.saturating_mul(255) > limit => {
                        return Err(damaged("a page is too large for the old LZ4 format"));
                    }
                    _ => {}
                }
            }
        }
    }
    caps.check_inflated(total, open.source.len().max(total / caps.ratio.max(1)), caps.inflated)
}

fn check_gzip(packed: &Bytes, size: u64) -> Result<()> {
    let mut inflated = flate2::read::MultiGzDecoder::new(packed.as_ref()).take(size + 1);
    match std::io::copy(&mut inflated, &mut std::io::sink()) {
        Ok(n) if n == size => Ok(()),
        _ => Err(damaged("a page inflates to another size than it declares")),
    }
}

/// What a page header says.
struct PageHeader {
    size: u64,
    packed: u64,
}

fn read_page_header(pieces: &mut Pieces, at: u64, end: u64) -> Result<(PageHeader, u64)> {
    // Mostly under a hundred bytes; statistics of long strings make it longer.
    let mut window = 512;
    loop {
        let len = window.min(end - at);
        let bytes = pieces.get(at, len).map_err(lost)?;
        let mut thrift = Thrift { bytes: &bytes, at: 0 };
        match page_header(&mut thrift) {
            Some(page) => return Ok((page?, thrift.at as u64)),
            None if len < window || window > 8 << 20 => return Err(damaged("a page header is cut")),
            None => window *= 32,
        }
    }
}

/// `None` where the bytes end too early.
fn page_header(thrift: &mut Thrift<'_>) -> Option<Result<PageHeader>> {
    let (mut sizes, mut values, mut dictionary) = ([-1i64; 2], 0i64, 0i64);
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match (id, kind) {
            (2, 5) => sizes[0] = thrift.zigzag()?,
            (3, 5) => sizes[1] = thrift.zigzag()?,
            // Data page, dictionary page, data page of version 2: their first field counts values.
            (5 | 7 | 8, 12) => {
                let mut inner = 0;
                while let Some(kind) = thrift.field(&mut inner)? {
                    match (inner, kind) {
                        (1, 5) if id == 7 => dictionary = thrift.zigzag()?,
                        (1, 5) => values = thrift.zigzag()?,
                        _ => thrift.skip(kind, 0)?,
                    }
                }
            }
            _ => thrift.skip(kind, 0)?,
        }
    }
    let [Ok(size), Ok(packed)] = sizes.map(u64::try_from) else {
        return Some(Err(damaged("a page has no size")));
    };
    // Data pages may repeat one value for long; a dictionary stores each of its values.
    if values < 0 || !u64::try_from(dictionary).is_ok_and(|n| n <= size) {
        return Some(Err(damaged("a page declares more values than it has bytes")));
    }
    Some(Ok(PageHeader { size, packed }))
}

/// The compact Thrift protocol, as far as page headers need it.
struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        Some(value)
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The kind of the next field, and its id; `Some(None)` at the end of the struct.
    #[expect(clippy::option_option, reason = "the bytes may end, or the struct may")]
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = if byte >> 4 == 0 { self.zigzag()? } else { *id + i64::from(byte >> 4) };
        Some(Some(byte & 15))
    }

    fn forward(&mut self, n: u64) -> Option<()> {
        self.at = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n)).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > 16 {
            return None;
        }
        match kind {
            1 | 2 => Some(()),
            3 => self.forward(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.forward(8),
            8 => self.varint().and_then(|n| self.forward(n)),
            9 | 10 => {
                let head = self.byte()?;
                let n = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..n {
                    // Booleans in a list take a byte each, unlike booleans in a field.
                    if matches!(head & 15, 1 | 2) { self.forward(1)? } else { self.skip(head & 15, depth + 1)? }
                }
                Some(())
            }
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

/// A file or bytes, for the Parquet reader.
enum Input {
    Disk(File),
    Memory(Bytes),
}

impl Input {
    fn new(source: &Source) -> Result<Input> {
        Ok(match source.memory() {
            Some(bytes) => Input::Memory(bytes.clone()),
            None => Input::Disk(source.file()?),
        })
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        match self {
            Input::Disk(file) => Length::len(file),
            Input::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Input {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ::parquet::errors::Result<Box<dyn Read>> {
        Ok(match self {
            Input::Disk(file) => Box::new(file.get_read(start)?),
            Input::Memory(bytes) => Box::new(bytes.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ::parquet::errors::Result<Bytes> {
        // The length is the file's word; ask the file before memory is taken.
        if start.checked_add(length as u64).is_none_or(|end| end > Length::len(self)) {
            return Err(ParquetError::EOF("it ends before its data do".to_string()));
        }
        match self {
            Input::Disk(file) => file.get_bytes(start, length),
            Input::Memory(bytes) => bytes.get_bytes(start, length),
        }
    }
}

fn wrong(cause: ParquetError) -> Error {
    let text = cause.to_string();
    let text = text.strip_prefix("Parquet error: ").unwrap_or(&text);
    damaged(text)
}

fn lost(cause: std::io::Error) -> Error {
    damaged(&cause.to_string())
}

fn damaged(what: &str) -> Error {
    Error::input(format!("damaged Parquet file: {what}")).remedy("get the file again, or write it again with pyarrow")
}

/// Writes tables of the same columns into one file, which appears at [`ParquetWriter::finish`] and not before.
pub struct ParquetWriter {
    path: std::path::PathBuf,
    metadata: Vec<(String, String)>,
    threads: usize,
    replace: Option<Replace>, // until the first table
    writer: Option<Writer>,
}

/// A file whose columns are known.
struct Writer {
    file: SerializedFileWriter<Replace>,
    columns: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    groups: usize,
}

/// Rows of one row group at most.
const GROUP: usize = 1 << 20;

impl ParquetWriter {
    /// Starts a file at `path` that carries these key-value pairs.
    pub fn create(path: &Path, metadata: &[(String, String)]) -> Result<ParquetWriter> {
        let replace = Some(Replace::create(path)?);
        Ok(ParquetWriter { path: path.to_path_buf(), metadata: metadata.to_vec(), threads: 1, replace, writer: None })
    }

    /// Encodes columns on that many threads; the bytes do not depend on their number.
    pub fn threads(mut self, threads: usize) -> ParquetWriter {
        self.threads = threads.max(1);
        self
    }

    /// Adds a table as a row group of its own, or several where it has more than 1,048,576 rows. The first fixes the
    /// columns.
    ///
    /// NaN and missing values are stored as nulls.
    pub fn write(&mut self, table: &Table) -> Result<()> {
        let path = self.path.clone();
        self.write_groups(table).map_err(|e| e.at(&path))
    }

    fn write_groups(&mut self, table: &Table) -> Result<()> {
        let threads = self.threads;
        let writer = self.start(table)?;
        arrow::fits(table, &writer.schema)?;
        let mut start = 0;
        while start < table.rows {
            let end = table.rows.min(start + GROUP);
            writer.group(table, start..end, threads)?;
            start = end;
        }
        Ok(())
    }

    fn start(&mut self, table: &Table) -> Result<&mut Writer> {
        if let Some(replace) = self.replace.take() {
            let schema = arrow::schema(table);
            let properties = properties(table, &self.metadata)?;
            let writer = ArrowWriter::try_new(replace, schema.clone(), Some(properties)).map_err(failed)?;
            let (file, columns) = writer.into_serialized_writer().map_err(failed)?;
            self.writer = Some(Writer { file, columns, schema, groups: 0 });
        }
        self.writer.as_mut().ok_or_else(|| Error::input("an earlier write to this file failed"))
    }

    /// Adds a key-value pair that is known only now.
    pub fn annotate(&mut self, key: &str, value: String) {
        match &mut self.writer {
            Some(writer) => writer.file.append_key_value_metadata(KeyValue::new(key.to_string(), value)),
            None => self.metadata.push((key.to_string(), value)),
        }
    }

    /// Writes the footer, puts the file in its place and says how long it is.
    pub fn finish(mut self) -> Result<u64> {
        let path = self.path.clone();
        let at = |e: Error| e.at(&path);
        if self.writer.is_none() {
            self.write(&Table::default())?;
        }
        let Some(writer) = self.writer.take() else { return Err(at(Error::input("nothing was written"))) };
        writer.file.into_inner().map_err(|e| at(failed(e)))?.commit()?;
        let meta = std::fs::metadata(&path).map_err(|e| Error::io(&path, "reading the file back", &e))?;
        Ok(meta.len())
    }
}

impl Writer {
    /// Encodes the columns of some rows side by side, then appends them in order.
    fn group(&mut self, table: &Table, rows: std::ops::Range<usize>, threads: usize) -> Result<()> {
        let writers = self.columns.create_column_writers(self.groups).map_err(failed)?;
        self.groups += 1;
        let jobs: Vec<_> = writers.into_iter().zip(&table.columns).zip(self.schema.fields()).collect();
        let encode = |((mut writer, column), field): ((_, &crate::table::Column), &arrow_schema::FieldRef)| {
            let array = arrow::to_array(&column.data, rows.clone())?;
            for leaf in compute_leaves(field, &array).map_err(failed)? {
                ::parquet::arrow::arrow_writer::ArrowColumnWriter::write(&mut writer, &leaf).map_err(failed)?;
            }
            writer.close().map_err(failed)
        };
        let chunks = side_by_side(jobs, threads, encode)?;
        let mut group = self.file.next_row_group().map_err(failed)?;
        for chunk in chunks {
            ArrowColumnChunk::append_to_row_group(chunk, &mut group).map_err(failed)?;
        }
        group.close().map(|_| ()).map_err(failed)
    }
}

/// The answers to many questions, in their order, each thread taking the next that nobody has.
fn side_by_side<Q: Send, A: Send>(
    questions: Vec<Q>,
    threads: usize,
    answer: impl Fn(Q) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    if threads <= 1 || questions.len() <= 1 {
        return questions.into_iter().map(answer).collect();
    }
    let threads = threads.min(questions.len());
    let next = std::sync::Mutex::new(questions.into_iter().enumerate());
    let take = || next.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((at, question)) = take() {
            done.push((at, answer(question)));
        }
        done
    };
    let mut all: Vec<(usize, Result<A>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let theirs = others.into_iter().map(|o| o.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        mine.into_iter().chain(theirs.flatten()).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, answer)| answer).collect()
}

fn properties(table: &Table, metadata: &[(String, String)]) -> Result<WriterProperties> {
    let pairs = metadata.iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())).collect();
    let zstd = |level| ZstdLevel::try_new(level).map(Compression::ZSTD).map_err(failed);
    let mut properties = WriterProperties::builder()
        // Fixed, so that the same tables give the same bytes whatever library version wrote them.
        .set_created_by("fullbore".to_string())
        .set_compression(zstd(3)?)
        .set_max_row_group_row_count(Some(GROUP))
        .set_key_value_metadata(Some(pairs));
    for column in &table.columns {
        let path = ColumnPath::from(column.name.as_str());
        // Prices hardly repeat: a dictionary costs time and gives nothing. Their bytes sorted by place compress better,
        // and so do the steps between stamps.
        let encoding = match column.data {
            Data::F64(_) => Encoding::BYTE_STREAM_SPLIT,
            // There are many of these and they are mostly noise: what little there is to gain is gained quickly.
            Data::F32(_) => {
                properties = properties
                    .set_column_compression(path.clone(), zstd(1)?)
                    .set_column_statistics_enabled(path.clone(), EnabledStatistics::None);
                Encoding::BYTE_STREAM_SPLIT
            }
            Data::Time { .. } | Data::I64(_) | Data::U32(_) | Data::Clock(_) => Encoding::DELTA_BINARY_PACKED,
            Data::Text(_) | Data::Names { .. } | Data::I8(_) | Data::Bool(_) => continue,
        };
        properties = properties.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding);
    }
    Ok(properties.build())
}

/// A failed write: the disk's error where there is one.
fn failed(cause: ParquetError) -> Error {
    if let ParquetError::External(inner) = &cause
        && let Some(io) = inner.downcast_ref::<std::io::Error>()
    {
        let error = Error::io(Path::new(""), "writing the file", io);
        return Error { file: None, ..error };
    }
    Error::input(format!("writing Parquet: {cause}"))
}
