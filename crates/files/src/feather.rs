//! Feather version 2, which is the Arrow file format, in and out.
//!
//! The footer is read first and every block it lists is held against the file and the caps; then block by block is
//! read, the sizes its compressed buffers declare are added up, and only then is it decoded. Arrow's own validation
//! stays on.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_ipc::{Block, CompressionType, MessageHeader};
use arrow_schema::ArrowError;
use bytes::Bytes;

use crate::arrow::{self, BATCH, guard};
use crate::error::{Error, Result};
use crate::replace::Replace;
use crate::source::{Caps, Pieces, Source};
use crate::table::Table;

/// Reads a file in batches of at most 65,536 rows; columns that cannot be read (nested, binary) are left out.
///
/// Strings come as `Names`, numbered anew in each batch. A column of whole numbers is `F64` in a batch where it has
/// holes.
pub fn read_feather(source: &Source, caps: &Caps, each: &mut dyn FnMut(Table) -> Result<()>) -> Result<()> {
    let at = |e: Error| e.at(source.path());
    let source = source.plain(caps)?;
    let mut reader = guard("feather", || Reader::open(&source, caps)).map_err(at)?;
    while let Some(batch) = guard("feather", || reader.next(caps)).map_err(at)? {
        for start in (0..batch.num_rows()).step_by(BATCH) {
            let rows = BATCH.min(batch.num_rows() - start);
            each(guard("feather", || arrow::to_table(&batch.slice(start, rows))).map_err(at)?)?;
        }
    }
    Ok(())
}

/// Writes a table at `path`, whole or not at all; buffers are lz4-compressed, as pandas does it.
pub fn write_feather(path: &Path, table: &Table) -> Result<()> {
    let at = |e: Error| e.at(path);
    let failed = |e: ArrowError| match e {
        ArrowError::IoError(_, io) => Error::io(path, "writing the file", &io),
        other => Error::input(format!("writing feather: {other}")).at(path),
    };
    let schema = arrow::schema(table);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).map_err(failed)?;
    let mut writer = FileWriter::try_new_with_options(Replace::create(path)?, &schema, options).map_err(failed)?;
    // One batch, sliced: the slices then share their dictionaries, which the format demands.
    let batch = arrow::to_batch(table, &schema, 0..table.rows).map_err(at)?;
    for start in (0..table.rows).step_by(BATCH) {
        writer.write(&batch.slice(start, BATCH.min(table.rows - start))).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    let mut replace = writer.into_inner().map_err(failed)?;
    replace.flush().map_err(|e| Error::io(path, "writing the file", &e))?;
    replace.commit()
}

const MAGIC: &[u8] = b"ARROW1";
/// A footer with the largest number of columns is far below this.
const FOOTER: u64 = 64 << 20;

struct Reader {
    pieces: Pieces,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
    rows: u64, // so far
}

impl Reader {
    fn open(source: &Source, caps: &Caps) -> Result<Reader> {
        let mut pieces = source.pieces()?;
        let len = source.len();
        let head = pieces.get(0, len.min(8)).map_err(lost)?;
        if head.starts_with(b"FEA1") {
            return Err(Error::input("this is feather version 1, which is not read").remedy(
                "re-save it with pyarrow: pyarrow.feather.write_feather(pyarrow.feather.read_feather(path), 'bars.feather')",
            ));
        }
        if !head.starts_with(MAGIC) || len < 18 {
            return Err(Error::input("this is not a feather file").remedy("write it with df.to_feather(path)"));
        }
        let tail = pieces.get(len - 10, 10).map_err(lost)?;
        if !tail.ends_with(MAGIC) {
            return Err(damaged("its end is missing (a broken download?)"));
        }
        let footer_len = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        if footer_len > FOOTER || footer_len > len - 18 {
            return Err(damaged("its footer claims more bytes than there are"));
        }
        let footer = pieces.get(len - 10 - footer_len, footer_len).map_err(lost)?;
        let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| damaged(&format!("its footer: {e}")))?;
        let schema = footer.schema().ok_or_else(|| damaged("it has no schema"))?;
        if schema.endianness() != arrow_ipc::Endianness::Little {
            return Err(
                Error::input("it is a big-endian feather file").remedy("re-save it with pyarrow on this machine")
            );
        }
        let schema = Arc::new(try_fb_to_schema(schema).map_err(wrong)?);
        caps.check_columns(schema.fields().len())?;
        let wanted: Vec<usize> =
            (0..schema.fields().len()).filter(|i| arrow::readable(schema.field(*i).data_type())).collect();
        if wanted.is_empty() && !schema.fields().is_empty() {
            return Err(Error::input("none of its columns can be read; nested and binary columns are not")
                .remedy("write plain columns of numbers, times and strings"));
        }
        // Rows of nothing but nulls take no bytes, so their number would have no bound.
        let bounded = wanted.iter().any(|i| *schema.field(*i).data_type() != arrow_schema::DataType::Null);
        let dictionaries: Vec<Block> = footer.dictionaries().map(|b| b.iter().copied().collect()).unwrap_or_default();
        let mut blocks: Vec<Block> = footer.recordBatches().map(|b| b.iter().copied().collect()).unwrap_or_default();
        check_blocks(dictionaries.iter().chain(&blocks), len)?;
        if !bounded {
            blocks.clear();
        }
        let mut decoder = FileDecoder::new(schema, footer.version()).with_projection(wanted);
        for block in dictionaries {
            let bytes = read_block(&mut pieces, &block, caps)?;
            decoder.read_dictionary(&block, &bytes.into()).map_err(wrong)?;
        }
        Ok(Reader { pieces, decoder, blocks: blocks.into_iter(), rows: 0 })
    }

    fn next(&mut self, caps: &Caps) -> Result<Option<arrow_array::RecordBatch>> {
        for block in self.blocks.by_ref() {
            let bytes = read_block(&mut self.pieces, &block, caps)?;
            if let Some(batch) = self.decoder.read_record_batch(&block, &bytes.into()).map_err(wrong)? {
                self.rows += batch.num_rows() as u64;
                caps.check_rows(self.rows)?;
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Blocks must lie in the file and share no bytes; a thousand blocks over the same bytes would be a bomb.
fn check_blocks<'a>(blocks: impl Iterator<Item = &'a Block>, len: u64) -> Result<()> {
    let mut total = 0u64;
    for block in blocks {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()].map(u64::try_from);
        let [Ok(offset), Ok(head), Ok(body)] = parts else { return Err(damaged("a block lies at a negative place")) };
        let size = head.saturating_add(body);
        total = total.saturating_add(size);
        if offset.saturating_add(size) > len || total > len {
            return Err(damaged("its blocks reach beyond the end of the file"));
        }
    }
    Ok(())
}

/// The bytes of a block, once the sizes that its header declares are found to be in order.
fn read_block(pieces: &mut Pieces, block: &Block, caps: &Caps) -> Result<Bytes> {
    let (head, body) = (block.metaDataLength() as u64, block.bodyLength() as u64);
    let bytes = pieces.get(block.offset() as u64, head + body).map_err(lost)?;
    if head < 8 {
        return Err(damaged("a block has no header"));
    }
    let (header, body) = bytes.split_at(head as usize);
    // Old files leave out the continuation mark before the length.
    let skip = if header.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = arrow_ipc::root_as_message(&header[skip..]).map_err(|e| damaged(&format!("a block: {e}")))?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|d| d.data()),
        _ => None,
    };
    let Some(batch) = batch else { return Err(damaged("a block is not a batch")) };
    caps.check_rows(u64::try_from(batch.length()).map_err(|_| damaged("a batch has a negative number of rows"))?)?;
    let mut inflated = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let packed = range.and_then(|(at, len)| body.get(at..at.checked_add(len)?));
        let Some(packed) = packed else { return Err(damaged("a column reaches beyond its block")) };
        let declared = match packed.first_chunk::<8>() {
            // -1 stands for "stored as it is".
            Some(size) if batch.compression().is_some() => u64::try_from(i64::from_le_bytes(*size)).unwrap_or(0),
            _ => packed.len() as u64,
        };
        caps.check_inflated(declared, packed.len() as u64, caps.in_memory())?;
        inflated = inflated.saturating_add(declared);
    }
    caps.check_inflated(inflated, body.len() as u64, caps.in_memory())?;
    Ok(bytes)
}

fn wrong(cause: ArrowError) -> Error {
    damaged(&cause.to_string())
}

fn lost(cause: std::io::Error) -> Error {
    damaged(&cause.to_string())
}

fn damaged(what: &str) -> Error {
    Error::input(format!("damaged feather file: {what}")).remedy("get the file again, or write it again with pyarrow")
}
