//! `samples-N.parquet`: one row for each request that ended in the window of step N.
//!
//! ```text
//!  done_ns │ latency_ns service_ns first_byte_ns │ bytes status │ failed
//! ```
//!
//! `done_ns` counts from the schedule's zero; the three times end there: from the intended
//! instant to the last byte, from sending to the last byte, from sending to the first byte.
//! -1 stands for what never came to pass. `failed` is the class of a failure, null for a
//! good answer. Rows of one lane are in the order in which its requests ended.
//!
//! Numbers are packed as differences, some 8 bytes for a row: that takes less of a processor than the
//! kernel takes to be given all 40, so that it is done while there is load.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, ColumnPath};

use crate::StoreError;
use crate::packed::{BLOCK, Packed};

/// Rows in one row group, a megabyte: the first, and whole blocks.
const GROUP_ROWS: usize = 1 + 512 * BLOCK;
/// Values decoded at a time.
const BATCH: usize = 1 << 16;
/// Rows that are believed before they are read.
const ROWS_RESERVED: usize = 1 << 26;

const SCHEMA: &str = "message samples {
    REQUIRED INT64 done_ns;
    REQUIRED INT64 latency_ns;
    REQUIRED INT64 service_ns;
    REQUIRED INT64 first_byte_ns;
    REQUIRED INT32 bytes;
    REQUIRED INT32 status;
    OPTIONAL BYTE_ARRAY failed (UTF8);
}";

/// A request that ended; the columns of the file, with -1 for what never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleRow {
    /// End, from the schedule's zero.
    pub done_ns: i64,
    /// From the intended instant to the end.
    pub latency_ns: i64,
    /// From sending to the end.
    pub service_ns: i64,
    /// From sending to the first byte.
    pub first_byte_ns: i64,
    /// Bytes of the answer on the wire.
    pub bytes: u32,
    /// HTTP status; 0: none.
    pub status: u16,
    /// 0: answered well; else a number that [`ClassName`] explains.
    pub failed: u16,
}

/// The name of the class behind [`SampleRow::failed`].
pub type ClassName = fn(u16) -> &'static str;

/// Rows on their way to a file, which has its name once it is whole.
#[derive(Debug)]
pub struct SampleWriter {
    path: PathBuf,
    part_path: PathBuf,
    part: SerializedFileWriter<File>,
    group: Columns,
    rows: u64,
    name: ClassName,
}

impl SampleWriter {
    /// Opens what will be `path`, beside it.
    pub fn create(path: &Path, name: ClassName) -> Result<SampleWriter, StoreError> {
        let part_path = path.with_extension("part");
        let part = File::create(&part_path)
            .map_err(|error| StoreError::io("create", &part_path, &error))?;
        let part = parse_message_type(SCHEMA)
            .and_then(|schema| SerializedFileWriter::new(part, Arc::new(schema), properties()))
            .map_err(|error| StoreError::io("write", &part_path, &of_parquet(error)))?;
        Ok(SampleWriter {
            path: path.to_owned(),
            part_path,
            part,
            group: Columns::default(),
            rows: 0,
            name,
        })
    }

    /// Appends rows. Every now and then a group of them is full, and is written.
    pub fn append(&mut self, rows: impl Iterator<Item = SampleRow>) -> Result<(), StoreError> {
        for row in rows {
            self.group.push(row);
            if self.group.rows == GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Writes what is left, gives the file its name, and says how many rows it has.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        if self.group.rows > 0 {
            self.write_group()?;
        }
        let closed = self.part.close().map_err(of_parquet);
        closed.map_err(|error| StoreError::io("write", &self.part_path, &error))?;
        fs::rename(&self.part_path, &self.path)
            .map_err(|error| StoreError::io("rename", &self.part_path, &error))?;
        Ok(self.rows)
    }

    fn write_group(&mut self) -> Result<(), StoreError> {
        let wrote = self.group.write(&mut self.part, self.name);
        wrote.map_err(|error| StoreError::io("write", &self.part_path, &of_parquet(error)))?;
        self.rows += self.group.rows as u64;
        self.group.clear();
        Ok(())
    }
}

fn properties() -> Arc<WriterProperties> {
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_encoding(Encoding::PLAIN)
        .set_dictionary_enabled(false)
        // A page of `failed` in a group, and that in one go.
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_write_batch_size(GROUP_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        // Whether anything failed in a group is known without a look at its rows.
        .set_column_statistics_enabled(ColumnPath::from("failed"), EnabledStatistics::Chunk);
    Arc::new(properties.build())
}

/// What the file system said, where it was that.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

/// The rows of a group, a column each.
#[derive(Debug, Default)]
struct Columns {
    rows: usize,
    /// Rows that make no block yet.
    pending: Vec<SampleRow>,
    /// All but `failed`, in the order of the file.
    numbers: [Packed; 6],
    /// 1: it failed.
    failed: Vec<i16>,
    classes: Vec<u16>,
}

impl Columns {
    fn push(&mut self, row: SampleRow) {
        if self.rows == 0 {
            for (column, value) in self.numbers.iter_mut().zip(numbers(&row)) {
                column.begin(value);
            }
            self.fail(&row);
        } else {
            self.pending.push(row);
            if self.pending.len() == BLOCK {
                self.pack();
            }
        }
        self.rows += 1;
    }

    /// What is pending becomes a block of each column.
    fn pack(&mut self) {
        let rows = std::mem::take(&mut self.pending);
        for (at, column) in self.numbers.iter_mut().enumerate() {
            // Matched here and not per row: each arm is a loop of its own.
            match at {
                0 => column.append(rows.iter().map(|row| numbers(row)[0])),
                1 => column.append(rows.iter().map(|row| numbers(row)[1])),
                2 => column.append(rows.iter().map(|row| numbers(row)[2])),
                3 => column.append(rows.iter().map(|row| numbers(row)[3])),
                4 => column.append(rows.iter().map(|row| numbers(row)[4])),
                _ => column.append(rows.iter().map(|row| numbers(row)[5])),
            }
        }
        rows.iter().for_each(|row| self.fail(row));
        self.pending = rows;
        self.pending.clear();
    }

    fn fail(&mut self, row: &SampleRow) {
        self.failed.push((row.failed != 0).into());
        if row.failed != 0 {
            self.classes.push(row.failed);
        }
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.failed.clear();
        self.classes.clear();
    }

    fn write(
        &mut self,
        file: &mut SerializedFileWriter<File>,
        name: ClassName,
    ) -> Result<(), ParquetError> {
        if !self.pending.is_empty() {
            self.pack();
        }
        let columns = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for (column, packed) in columns.into_iter().zip(&self.numbers) {
            write_packed(&mut group, column, packed)?;
        }
        let named = |class: &u16| ByteArray::from(name(*class));
        let classes: Vec<ByteArray> = self.classes.iter().map(named).collect();
        let missing = || ParquetError::General("the schema has no column `failed`".into());
        let mut failed = group.next_column()?.ok_or_else(missing)?;
        let values = failed.typed::<ByteArrayType>();
        values.write_batch(&classes, Some(&self.failed), None)?;
        failed.close()?;
        group.close()?;
        Ok(())
    }
}

/// The numbers of a row, in the order of the file.
fn numbers(row: &SampleRow) -> [i64; 6] {
    [
        row.done_ns,
        row.latency_ns,
        row.service_ns,
        row.first_byte_ns,
        // What an INT32 holds.
        i64::from(row.bytes.min(i32::MAX as u32)),
        row.status.into(),
    ]
}

/// The next column of a group: one page, which its chunk begins and ends with.
fn write_packed(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column: ColumnDescPtr,
    packed: &Packed,
) -> Result<(), ParquetError> {
    let rows = packed.values() as u32;
    let page = Page::DataPageV2 {
        buf: packed.page().into(),
        num_values: rows,
        encoding: Encoding::DELTA_BINARY_PACKED,
        num_nulls: 0,
        num_rows: rows,
        def_levels_byte_len: 0,
        rep_levels_byte_len: 0,
        is_compressed: false,
        statistics: None,
    };
    let length = page.buffer().len();
    let mut chunk = TrackedWrite::new(Vec::with_capacity(length + 64));
    SerializedPageWriter::new(&mut chunk).write_page(CompressedPage::new(page, length))?;
    let chunk = Bytes::from(chunk.into_inner()?);
    let length = chunk.len() as i64;
    let metadata = ColumnChunkMetaData::builder(column)
        .set_encodings(vec![Encoding::DELTA_BINARY_PACKED])
        .set_compression(Compression::UNCOMPRESSED)
        .set_num_values(rows.into())
        .set_total_compressed_size(length)
        .set_total_uncompressed_size(length)
        .set_data_page_offset(0)
        .build()?;
    let closed = ColumnCloseResult {
        bytes_written: chunk.len() as u64,
        rows_written: rows.into(),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&chunk, closed)
}

/// A clock that samples can be read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the intended instant.
    Due,
    /// From sending.
    Sent,
}

impl Clock {
    fn column(self) -> &'static str {
        match self {
            Clock::Due => "latency_ns",
            Clock::Sent => "service_ns",
        }
    }
}

/// Times of good answers, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    /// To the last byte, in nanoseconds.
    pub good_ns: Vec<i64>,
    /// Requests that failed.
    pub failed: u64,
}

/// Reads the times of good answers.
pub fn read_times(path: &Path, clock: Clock) -> Result<Times, StoreError> {
    let file = File::open(path).map_err(|error| StoreError::io("open", path, &error))?;
    // The reader of `parquet` promises no freedom from panics on hostile files.
    let read = catch_unwind(AssertUnwindSafe(|| read_good(file, clock)));
    let why = match read {
        Ok(Ok(times)) => return Ok(times),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it is malformed".to_owned(),
    };
    Err(StoreError::BadRecord {
        path: path.to_owned(),
        why: format!("it holds no samples: {why}"),
    })
}

fn read_good(file: File, clock: Clock) -> Result<Times, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr_ptr();
    let place = |name: &str| {
        let columns = schema.columns();
        let found = columns.iter().position(|column| column.name() == name);
        found.ok_or_else(|| ParquetError::General(format!("it has no column `{name}`")))
    };
    let (time, failed) = (place(clock.column())?, place("failed")?);
    let rows = usize::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let mut times = Times {
        good_ns: Vec::with_capacity(rows.min(ROWS_RESERVED)),
        failed: 0,
    };
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let from = times.good_ns.len();
        longs(group.get_column_reader(time)?, &mut times.good_ns)?;
        let statistics = group.metadata().column(failed).statistics();
        let nulls = statistics.and_then(Statistics::null_count_opt);
        if nulls == u64::try_from(group.metadata().num_rows()).ok() {
            continue;
        }
        let bad = failures(group.get_column_reader(failed)?)?;
        if bad.len() != times.good_ns.len() - from {
            return Err(ParquetError::General("its columns differ in length".into()));
        }
        let mut kept = from;
        for (at, bad) in bad.into_iter().enumerate() {
            if bad {
                times.failed += 1;
            } else {
                times.good_ns[kept] = times.good_ns[from + at];
                kept += 1;
            }
        }
        times.good_ns.truncate(kept);
    }
    Ok(times)
}

fn longs(column: ColumnReader, into: &mut Vec<i64>) -> Result<(), ParquetError> {
    let ColumnReader::Int64ColumnReader(mut column) = column else {
        return Err(ParquetError::General("a time is not an INT64".into()));
    };
    while column.read_records(BATCH, None, None, into)?.0 > 0 {}
    Ok(())
}

/// Whether each row failed.
fn failures(column: ColumnReader) -> Result<Vec<bool>, ParquetError> {
    let ColumnReader::ByteArrayColumnReader(mut column) = column else {
        return Err(ParquetError::General("`failed` is no text".into()));
    };
    let (mut bad, mut levels, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    while column
        .read_records(BATCH, Some(&mut levels), None, &mut classes)?
        .0
        > 0
    {
        bad.extend(levels.drain(..).map(|level| level > 0));
        classes.clear();
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: i64) -> SampleRow {
        SampleRow {
            done_ns: 1_000_000 + n * 100,
            latency_ns: 5_000 + n % 977,
            service_ns: 4_000 + n % 877,
            first_byte_ns: if n % 100 == 0 { -1 } else { 3_000 + n % 777 },
            bytes: 120,
            status: 200,
            failed: u16::from(n % 100 == 0),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = std::env::temp_dir().join(format!("wallfinder-samples-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("samples-0.parquet");
        let mut writer = SampleWriter::create(&path, |_| "timeout.total").unwrap();
        // A group and the beginning of another.
        let rows = GROUP_ROWS as i64 + 10_000;
        for from in (0..rows).step_by(1_000) {
            let block = from..rows.min(from + 1_000);
            writer.append(block.map(row)).unwrap();
        }
        assert!(!path.exists(), "it has its name once it is whole");
        assert_eq!(writer.finish().unwrap(), rows as u64);
        assert!(!path.with_extension("part").exists());
        let good: Vec<SampleRow> = (0..rows).map(row).filter(|row| row.failed == 0).collect();
        let of = |get: fn(&SampleRow) -> i64| Times {
            good_ns: good.iter().map(get).collect(),
            failed: rows as u64 - good.len() as u64,
        };
        let read = |clock| read_times(&path, clock).unwrap();
        assert_eq!(read(Clock::Due), of(|row| row.latency_ns));
        assert_eq!(read(Clock::Sent), of(|row| row.service_ns));
        // Cut off anywhere it is an error, and no panic.
        let whole = fs::read(&path).unwrap();
        for end in (0..whole.len()).step_by(whole.len() / 50) {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(read_times(&path, Clock::Due).is_err(), "{end} bytes");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
