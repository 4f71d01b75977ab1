//! Groups of rows on their way to the kernel: a thread of their own writes them, while who appends packs
//! the next.
//!
//! ```text
//!   who appends:  pack 1 │ pack 2  │ pack 3  │ ...
//!   this thread:         │ write 1 │ write 2 │ ...     at most two groups wait: some 1 MB
//! ```
//!
//! It packs none itself. Rows that are not packed are five times the bytes, and to hand those from one
//! processor to another takes longer than to pack them.
//!
//! Pages are handed over as they are: `parquet`'s writer of files would copy each twice. It still writes
//! what describes them.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};

/// What a file begins with.
const MAGIC: &[u8] = b"PAR1";
/// Of the format: pages have heads of the second kind.
const VERSION: i32 = 2;
const WRITER: &str = concat!("wallfinder version ", env!("CARGO_PKG_VERSION"));
/// Groups that may wait to be written. Whoever appends then waits as well.
const WAITING: usize = 2;

/// A group of rows as pages, one for each column in the order of the schema.
pub(crate) struct Group {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Chunk>,
}

/// Where groups go. Dropped before its end, it leaves a file that is none.
pub(crate) struct Groups {
    into: Option<SyncSender<Group>>,
    /// `None` once it has been waited for.
    writing: Option<JoinHandle<Result<u64, ParquetError>>>,
}

impl Groups {
    /// Begins a file. Its thread inherits the priority of the one that calls.
    pub(crate) fn begin(file: File, schema: SchemaDescPtr) -> Result<Groups, ParquetError> {
        let (into, from) = mpsc::sync_channel(WAITING);
        let writing = thread::Builder::new()
            .name("row-groups".to_owned())
            .spawn(move || write(file, &schema, &from))?;
        Ok(Groups {
            into: Some(into),
            writing: Some(writing),
        })
    }

    /// Appends a group. An error is of this one or of one before it.
    pub(crate) fn append(&mut self, group: Group) -> Result<(), ParquetError> {
        let is_taken = self.into.as_ref().is_some_and(|i| i.send(group).is_ok());
        match is_taken {
            true => Ok(()),
            false => self.finish().map(|_| ()),
        }
    }

    /// Ends the file, and says how many rows it has.
    pub(crate) fn finish(&mut self) -> Result<u64, ParquetError> {
        self.into = None;
        let gone = || ParquetError::General("the thread that writes has ended".to_owned());
        let writing = self.writing.take().ok_or_else(gone)?;
        writing.join().map_err(|_| gone())?
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.into = None;
        if let Some(writing) = self.writing.take() {
            // Nobody is left to be told.
            let _ = writing.join();
        }
    }
}

fn write(file: File, schema: &SchemaDescPtr, from: &Receiver<Group>) -> Result<u64, ParquetError> {
    let mut file = TrackedWrite::new(file);
    file.write_all(MAGIC)?;
    let mut written = Vec::new();
    for group in from {
        written.push(group.write(&mut file, schema)?);
    }
    let rows = written.iter().map(RowGroupMetaData::num_rows).sum();
    let writer = Some(WRITER.to_owned());
    let about = FileMetaData::new(VERSION, rows, writer, None, schema.clone(), None);
    let mut end = Vec::new();
    ParquetMetaDataWriter::new(&mut end, &ParquetMetaData::new(about, written)).finish()?;
    file.write_all(&end)?;
    file.flush()?;
    Ok(rows as u64)
}

impl Group {
    /// Writes it, and says where.
    fn write(
        self,
        file: &mut TrackedWrite<File>,
        schema: &SchemaDescPtr,
    ) -> Result<RowGroupMetaData, ParquetError> {
        let from = file.bytes_written();
        let columns = schema.columns().iter().zip(self.columns);
        let columns: Result<Vec<ColumnChunkMetaData>, ParquetError> = columns
            .map(|(column, chunk)| chunk.write(self.rows as u32, column.clone(), file))
            .collect();
        RowGroupMetaData::builder(schema.clone())
            .set_num_rows(self.rows as i64)
            .set_total_byte_size((file.bytes_written() - from) as i64)
            .set_column_metadata(columns?)
            .build()
    }
}

/// A column of a group: one page, which it begins and ends with.
pub(crate) struct Chunk {
    pub(crate) page: Bytes,
    pub(crate) encoding: Encoding,
    /// Bytes of levels, before the values.
    pub(crate) levels: u32,
    /// How many have no value, where that may be.
    pub(crate) nulls: Option<u32>,
}

impl Chunk {
    pub(crate) fn numbers(page: Bytes) -> Chunk {
        Chunk {
            page,
            encoding: Encoding::DELTA_BINARY_PACKED,
            levels: 0,
            nulls: None,
        }
    }

    fn write(
        self,
        rows: u32,
        column: ColumnDescPtr,
        file: &mut TrackedWrite<File>,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        let from = file.bytes_written() as i64;
        let length = self.page.len();
        let page = Page::DataPageV2 {
            buf: self.page,
            num_values: rows,
            encoding: self.encoding,
            num_nulls: self.nulls.unwrap_or(0),
            num_rows: rows,
            def_levels_byte_len: self.levels,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        };
        SerializedPageWriter::new(file).write_page(CompressedPage::new(page, length))?;
        let length = file.bytes_written() as i64 - from;
        let levels = self.nulls.map(|_| Encoding::RLE);
        let encodings = [Some(self.encoding), levels];
        let mut chunk = ColumnChunkMetaData::builder(column)
            .set_encodings(encodings.into_iter().flatten().collect())
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(rows.into())
            .set_total_compressed_size(length)
            .set_total_uncompressed_size(length)
            .set_data_page_offset(from);
        if let Some(nulls) = self.nulls {
            let nulls = Some(nulls.into());
            chunk = chunk.set_statistics(Statistics::byte_array(None, None, None, nulls, false));
        }
        chunk.build()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn a_disk_that_is_full_is_told_and_nobody_waits_for_it() {
        let schema = parse_message_type("message numbers { REQUIRED INT64 number; }").unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut groups = Groups::begin(full, schema).unwrap();
        let group = || Group {
            rows: 1,
            columns: vec![Chunk::numbers(vec![0; 100_000].into())],
        };
        // More than may wait.
        let told = (0..2 * WAITING + 2).find_map(|_| groups.append(group()).err());
        let told = told.expect("the disk is full").to_string();
        assert!(told.contains("No space left"), "{told}");
        assert!(groups.append(group()).is_err(), "it stays so");
        assert!(groups.finish().is_err(), "and at the end");
    }
}
