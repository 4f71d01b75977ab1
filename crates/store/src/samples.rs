//! `samples-N.parquet`: one row for each request that ended in the window of step N.
//!
//! ```text
//!  done_ns │ latency_ns service_ns first_byte_ns │ bytes status │ failed
//! ```
//!
//! `done_ns` counts from the schedule's zero; the three times end there: from the intended
//! instant to the last byte, from sending to the last byte, from sending to the first byte.
//! -1 stands for what never came to pass. `failed` is the class of a failure, empty for a
//! good answer. Rows of one lane are in the order in which its requests ended.
//!
//! While there is load, rows go to a spool file as they are in memory, which costs next to
//! nothing; they are packed when the load is over.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::StoreError;

/// Rows in one row group.
const GROUP_ROWS: usize = 1 << 20;
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
    REQUIRED BYTE_ARRAY failed (UTF8);
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
    /// 0: answered well; else a number that the names given to [`SampleWriter::pack`] explain.
    pub failed: u16,
}

const ROW_BYTES: usize = 40;

impl SampleRow {
    fn to_bytes(self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.done_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.latency_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.service_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_byte_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.status.to_le_bytes());
        bytes[38..].copy_from_slice(&self.failed.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8; ROW_BYTES]) -> SampleRow {
        let long = |at: usize| {
            let part: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
            i64::from_le_bytes(part)
        };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let part: [u8; 4] = bytes[32..36].try_into().expect("four bytes");
        SampleRow {
            done_ns: long(0),
            latency_ns: long(8),
            service_ns: long(16),
            first_byte_ns: long(24),
            bytes: u32::from_le_bytes(part),
            status: short(36),
            failed: short(38),
        }
    }
}

/// Rows on their way to a file.
#[derive(Debug)]
pub struct SampleWriter {
    path: PathBuf,
    spool_path: PathBuf,
    spool: BufWriter<File>,
    rows: u64,
}

impl SampleWriter {
    /// Opens the spool beside `path`.
    pub fn create(path: &Path) -> Result<SampleWriter, StoreError> {
        let spool_path = path.with_extension("spool");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&spool_path)
            .map_err(|error| StoreError::io("create", &spool_path, &error))?;
        Ok(SampleWriter {
            path: path.to_owned(),
            spool: BufWriter::with_capacity(1 << 20, file),
            spool_path,
            rows: 0,
        })
    }

    /// Appends rows to the spool.
    pub fn append(&mut self, rows: impl Iterator<Item = SampleRow>) -> Result<(), StoreError> {
        for row in rows {
            self.spool
                .write_all(&row.to_bytes())
                .map_err(|error| StoreError::io("write", &self.spool_path, &error))?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Packs the spool into the file, removes it, and gives the number of rows.
    pub fn pack(self, name: &dyn Fn(u16) -> &'static str) -> Result<u64, StoreError> {
        let SampleWriter {
            path,
            spool_path,
            spool,
            rows,
        } = self;
        let packed = (|| -> io::Result<()> {
            let mut file = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
            io::Seek::rewind(&mut file)?;
            let out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            pack(
                &mut BufReader::with_capacity(1 << 20, file),
                rows,
                out,
                name,
            )
        })();
        packed.map_err(|error| StoreError::io("write", &path, &error))?;
        fs::remove_file(&spool_path)
            .map_err(|error| StoreError::io("remove", &spool_path, &error))?;
        Ok(rows)
    }
}

fn pack(
    spool: &mut impl Read,
    rows: u64,
    out: impl Write + Send,
    name: &dyn Fn(u16) -> &'static str,
) -> io::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(io::Error::other)?);
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false);
    // Neighbours are alike, and their differences take few bits.
    for column in ["done_ns", "latency_ns", "service_ns", "first_byte_ns"] {
        let column = ColumnPath::from(column);
        properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    for column in ["bytes", "status", "failed"] {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(column), true);
    }
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))
        .map_err(io::Error::other)?;
    let mut left = rows;
    let mut group = Vec::with_capacity(GROUP_ROWS.min(rows as usize));
    while left > 0 {
        group.clear();
        for _ in 0..left.min(GROUP_ROWS as u64) {
            let mut bytes = [0; ROW_BYTES];
            spool.read_exact(&mut bytes)?;
            group.push(SampleRow::of_bytes(&bytes));
        }
        left -= group.len() as u64;
        write_group(&mut file, &group, name).map_err(io::Error::other)?;
    }
    file.close().map_err(io::Error::other)?;
    Ok(())
}

fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &[SampleRow],
    name: &dyn Fn(u16) -> &'static str,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    let longs: [fn(&SampleRow) -> i64; 4] = [
        |row| row.done_ns,
        |row| row.latency_ns,
        |row| row.service_ns,
        |row| row.first_byte_ns,
    ];
    for get in longs {
        write_column::<Int64Type, W>(&mut group, rows, get)?;
    }
    let shorts: [fn(&SampleRow) -> i32; 2] = [
        |row| i32::try_from(row.bytes).unwrap_or(i32::MAX),
        |row| i32::from(row.status),
    ];
    for get in shorts {
        write_column::<Int32Type, W>(&mut group, rows, get)?;
    }
    write_column::<ByteArrayType, W>(&mut group, rows, |row| match row.failed {
        0 => ByteArray::from(""),
        class => ByteArray::from(name(class)),
    })?;
    group.close()?;
    Ok(())
}

/// The next column of a group.
fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[SampleRow],
    get: impl Fn(&SampleRow) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(get).collect();
    let missing = || ParquetError::General("the schema has fewer columns".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
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
        // Where the last class by the alphabet is none, there is none.
        let statistics = group.metadata().column(failed).statistics();
        let all_good = statistics
            .and_then(Statistics::max_bytes_opt)
            .is_some_and(<[u8]>::is_empty);
        if all_good {
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

fn failures(column: ColumnReader) -> Result<Vec<bool>, ParquetError> {
    let ColumnReader::ByteArrayColumnReader(mut column) = column else {
        return Err(ParquetError::General("`failed` is no text".into()));
    };
    let (mut bad, mut values) = (Vec::new(), Vec::new());
    while column.read_records(BATCH, None, None, &mut values)?.0 > 0 {
        bad.extend(values.drain(..).map(|class: ByteArray| !class.is_empty()));
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
        let mut writer = SampleWriter::create(&path).unwrap();
        for part in 0..10 {
            writer
                .append((0..1_000).map(|n| row(part * 1_000 + n)))
                .unwrap();
        }
        assert_eq!(writer.pack(&|_| "timeout.total").unwrap(), 10_000);
        assert!(!path.with_extension("spool").exists());
        let good: Vec<SampleRow> = (0..10_000).map(row).filter(|row| row.failed == 0).collect();
        let of = |get: fn(&SampleRow) -> i64| Times {
            good_ns: good.iter().map(get).collect(),
            failed: 100,
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

    #[test]
    fn rows_survive_the_spool() {
        let odd = SampleRow {
            done_ns: i64::MAX,
            latency_ns: -1,
            service_ns: i64::MIN,
            first_byte_ns: 7,
            bytes: u32::MAX,
            status: 65_535,
            failed: 66,
        };
        assert_eq!(SampleRow::of_bytes(&odd.to_bytes()), odd);
    }
}
