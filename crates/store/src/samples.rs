//! `samples-N.parquet`: one row for each request that ended in the window of step N.
//!
//! ```text
//!  done_ns │ latency_ns service_ns first_byte_ns │ bytes status request host │ failed
//! ```
//!
//! `done_ns` counts from the schedule's zero; the three times end there: from the intended
//! instant to the last byte, from sending to the last byte, from sending to the first byte.
//! -1 stands for what never came to pass. `request` is the place of its kind among the step's requests, of a mix; `host` that of
//! its client host among the step's clients. `failed` is the class of a failure, null for a
//! good answer. Rows of one worker are in the order in which its requests ended.
//!
//! Numbers are packed as differences, some 8 bytes for a row: that takes less of a processor than the
//! kernel takes to be given all 40, so that it is done while there is load.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::statistics::Statistics;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use wallfinder_sys::memory::in_large_pages;

use crate::StoreError;
use crate::folder::{Folder, open_file};
use crate::groups::{Chunk, Group, Groups};
use crate::packed::{BLOCK, Packed, varint};

/// Rows in one row group, a megabyte: the first, and whole blocks.
const GROUP_ROWS: usize = 1 + 512 * BLOCK;
/// Values decoded at a time.
const BATCH: usize = 1 << 16;
/// Rows that are believed before they are read.
const ROWS_RESERVED: usize = 1 << 26;
/// Rows that are read, 4 GiB of each clock: an hour and more at 100,000 in a second.
const ROWS_MAX: i64 = 1 << 29;
/// The largest file: so many rows that pack badly.
const BYTES_MAX: u64 = 32 << 30;

const SCHEMA: &str = "message samples {
    REQUIRED INT64 done_ns;
    REQUIRED INT64 latency_ns;
    REQUIRED INT64 service_ns;
    REQUIRED INT64 first_byte_ns;
    REQUIRED INT32 bytes;
    REQUIRED INT32 status;
    REQUIRED INT32 request;
    REQUIRED INT32 host;
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
    /// Which kind of request it was, of a mix; else 0.
    pub request: u16,
    /// Which client host it came from, where several made the load; else 0.
    pub host: u16,
    /// 0: answered well; else a number that [`ClassName`] explains.
    pub failed: u16,
}

/// The name of the class behind [`SampleRow::failed`].
pub type ClassName = fn(u16) -> &'static str;

/// Rows on their way to a file, which has its name once it is whole. They are packed here, and
/// written by another thread.
pub struct SampleWriter {
    folder: Folder,
    name: String,
    part_name: String,
    /// The file, until there are groups.
    part: Option<File>,
    groups: Option<Groups>,
    group: Columns,
}

impl SampleWriter {
    /// Opens what will be the samples of a step in this folder, under another name.
    pub fn create(
        folder: &Folder,
        step: u32,
        class: ClassName,
    ) -> Result<SampleWriter, StoreError> {
        let part_name = format!("samples-{step}.part");
        Ok(SampleWriter {
            folder: folder.clone(),
            name: format!("samples-{step}.parquet"),
            part: Some(folder.create_anew(&part_name)?),
            part_name,
            groups: None,
            group: Columns::new(class),
        })
    }

    /// The name that the file will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends rows. Every now and then a group of them is full, and is handed on to be written.
    pub fn append(&mut self, rows: impl Iterator<Item = SampleRow>) -> Result<(), StoreError> {
        for row in rows {
            self.group.push(row);
            if self.group.rows == GROUP_ROWS {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    /// Writes what is left, gives the file its name, and says how many rows it has.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        if self.group.rows > 0 {
            self.hand_on()?;
        }
        let finished = self.groups().and_then(Groups::finish);
        let rows = finished.map_err(|error| self.cannot_write(error))?;
        self.folder.rename(&self.part_name, &self.name)?;
        Ok(rows)
    }

    fn hand_on(&mut self) -> Result<(), StoreError> {
        let group = self.group.end();
        let appended = self.groups().and_then(|groups| groups.append(group));
        appended.map_err(|error| self.cannot_write(error))
    }

    /// What writes groups. It is begun by who appends, to have the same priority.
    fn groups(&mut self) -> Result<&mut Groups, ParquetError> {
        if let Some(part) = self.part.take() {
            let schema = parse_message_type(SCHEMA).expect("the schema is one");
            let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
            self.groups = Some(Groups::begin(part, schema)?);
        }
        let none = || ParquetError::General("no thread could be had to write".to_owned());
        self.groups.as_mut().ok_or_else(none)
    }

    fn cannot_write(&self, error: ParquetError) -> StoreError {
        let path = self.folder.path().join(&self.part_name);
        StoreError::io("write", &path, &of_parquet(error))
    }
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
struct Columns {
    /// The group's rows, those that are pending included.
    rows: usize,
    /// Rows that make no block yet.
    pending: Box<[SampleRow; BLOCK]>,
    /// All but `failed`, in the order of the file.
    numbers: [Packed; NUMBERS],
    failed: Failed,
    name: ClassName,
}

/// Columns of numbers.
const NUMBERS: usize = 8;

impl Columns {
    fn new(name: ClassName) -> Columns {
        Columns {
            rows: 0,
            pending: Box::new([SampleRow::default(); BLOCK]),
            numbers: Default::default(),
            failed: Failed::default(),
            name,
        }
    }

    #[inline]
    fn push(&mut self, row: SampleRow) {
        self.rows += 1;
        let Some(at) = self.rows.checked_sub(2) else {
            return self.begin(&row);
        };
        let at = at % BLOCK;
        self.pending[at] = row;
        if at + 1 == BLOCK {
            self.pack(BLOCK);
        }
    }

    /// The first row of a group is part of no block.
    fn begin(&mut self, row: &SampleRow) {
        let [
            done,
            latency,
            service,
            first_byte,
            bytes,
            status,
            request,
            host,
        ] = &mut self.numbers;
        done.begin(row.done_ns);
        latency.begin(row.latency_ns);
        service.begin(row.service_ns);
        first_byte.begin(row.first_byte_ns);
        bytes.begin(row.bytes());
        status.begin(row.status.into());
        request.begin(row.request.into());
        host.begin(row.host.into());
        self.failed.push(&[*row], self.name);
    }

    /// The first of what is pending become a block of each column.
    fn pack(&mut self, rows: usize) {
        let rows = &self.pending[..rows];
        let [
            done,
            latency,
            service,
            first_byte,
            bytes,
            status,
            request,
            host,
        ] = &mut self.numbers;
        done.append(rows.iter().map(|row| row.done_ns));
        latency.append(rows.iter().map(|row| row.latency_ns));
        service.append(rows.iter().map(|row| row.service_ns));
        first_byte.append(rows.iter().map(|row| row.first_byte_ns));
        bytes.append(rows.iter().map(SampleRow::bytes));
        status.append(rows.iter().map(|row| row.status.into()));
        request.append(rows.iter().map(|row| row.request.into()));
        host.append(rows.iter().map(|row| row.host.into()));
        self.failed.push(rows, self.name);
    }

    /// The group, which ends here. Another begins.
    fn end(&mut self) -> Group {
        let pending = (self.rows - 1) % BLOCK;
        if pending > 0 {
            self.pack(pending);
        }
        let numbers = self.numbers.iter_mut().map(Packed::end).map(Chunk::numbers);
        Group {
            columns: numbers.chain([self.failed.end()]).collect(),
            rows: std::mem::take(&mut self.rows),
        }
    }
}

impl SampleRow {
    /// What an INT32 holds of `bytes`.
    fn bytes(&self) -> i64 {
        self.bytes.min(i32::MAX as u32).into()
    }
}

/// The column `failed` on its way into a page: levels, 1 where there is a name, as runs of one level
/// ([RLE](https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE)), and the names.
#[derive(Debug, Default)]
struct Failed {
    is_bad: bool,
    /// Rows of the run that goes on.
    run: u64,
    levels: Vec<u8>,
    names: Vec<u8>,
    good: u32,
}

impl Failed {
    fn push(&mut self, rows: &[SampleRow], name: ClassName) {
        if rows.iter().all(|row| row.failed == 0) {
            return self.push_good(rows.len());
        }
        for row in rows {
            match row.failed {
                0 => self.push_good(1),
                failed => self.push_bad(name(failed)),
            }
        }
    }

    fn push_good(&mut self, rows: usize) {
        self.go_on(false, rows);
        self.good += rows as u32;
    }

    fn push_bad(&mut self, name: &str) {
        self.go_on(true, 1);
        self.names
            .extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.names.extend_from_slice(name.as_bytes());
    }

    fn go_on(&mut self, is_bad: bool, rows: usize) {
        if is_bad != self.is_bad {
            self.end_run();
        }
        self.run += rows as u64;
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            varint(self.run << 1, &mut self.levels);
            self.levels.push(self.is_bad.into());
        }
        self.is_bad = !self.is_bad;
        self.run = 0;
    }

    fn end(&mut self) -> Chunk {
        self.end_run();
        let Failed {
            levels: mut page,
            names,
            good,
            ..
        } = std::mem::take(self);
        let levels = page.len() as u32;
        page.extend_from_slice(&names);
        Chunk {
            page: page.into(),
            encoding: Encoding::PLAIN,
            levels,
            nulls: Some(good),
        }
    }
}

/// A clock that samples can be read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the intended instant.
    Intended,
    /// From sending.
    Sent,
}

impl Clock {
    fn column(self) -> &'static str {
        match self {
            Clock::Intended => "latency_ns",
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

/// Which request of a mix each answer is of, by its place among the step's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Of good answers, in the order of the file and of [`Times::good_ns`].
    pub good: Vec<u16>,
    /// Requests that failed, by place.
    pub failed: Vec<u64>,
}

/// A file of samples that somebody names, or that lies in a folder that somebody names.
#[derive(Debug, Clone)]
pub struct SampleFile {
    path: PathBuf,
    folder: Option<Folder>,
}

impl SampleFile {
    /// All that a path stands for: itself, or those of a folder in their order.
    pub fn all(path: &Path) -> Result<Vec<SampleFile>, StoreError> {
        let folder = match Folder::open(path) {
            Ok(folder) => folder,
            Err(StoreError::Io {
                kind: io::ErrorKind::NotADirectory,
                ..
            }) => {
                let path = path.to_owned();
                return Ok(vec![SampleFile { path, folder: None }]);
            }
            Err(error) => return Err(error),
        };
        let is_of_samples = |name: &OsStr| {
            let name = name.to_string_lossy();
            name.starts_with("samples-") && name.ends_with(".parquet")
        };
        let names = folder.names()?.into_iter();
        let found = names.filter(|name| is_of_samples(name));
        let files: Vec<SampleFile> = found
            .map(|name| SampleFile {
                path: path.join(name),
                folder: Some(folder.clone()),
            })
            .collect();
        match files.is_empty() {
            false => Ok(files),
            true => Err(StoreError::NotARun {
                path: path.to_owned(),
                why: "it holds no samples: `run --samples` keeps them".to_owned(),
            }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the times of good answers.
    pub fn times(&self, clock: Clock) -> Result<Times, StoreError> {
        let mut failed = 0;
        let good_ns = self.good(clock.column(), longs, |_| failed += 1)?;
        Ok(Times { good_ns, failed })
    }

    /// Reads which request of a mix each answer is of.
    pub fn places(&self) -> Result<Places, StoreError> {
        let mut failed: Vec<u64> = Vec::new();
        let good = self.good("request", places, |place| {
            let place = usize::from(place);
            failed.resize(failed.len().max(place + 1), 0);
            failed[place] += 1;
        })?;
        Ok(Places { good, failed })
    }

    /// Reads a column's values of good answers; of those that failed they are handed over.
    fn good<T: Copy>(
        &self,
        column: &str,
        values: ReadColumn<T>,
        failed: impl FnMut(T),
    ) -> Result<Vec<T>, StoreError> {
        let file = match (&self.folder, self.path.file_name()) {
            (Some(folder), Some(name)) => folder.read(name, BYTES_MAX),
            _ => open_file(&self.path, BYTES_MAX),
        }?;
        // The reader of `parquet` promises no freedom from panics on hostile files.
        let read = catch_unwind(AssertUnwindSafe(|| read_good(file, column, values, failed)));
        let why = match read {
            Ok(Ok(good)) => return Ok(good),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it is malformed".to_owned(),
        };
        Err(StoreError::BadRecord {
            path: self.path.clone(),
            why: format!("it holds no samples: {why}"),
        })
    }
}

/// Appends the values of a column that has so many.
type ReadColumn<T> = fn(ColumnReader, usize, &mut Vec<T>) -> Result<(), ParquetError>;

fn read_good<T: Copy>(
    file: File,
    column: &str,
    values: ReadColumn<T>,
    mut failed: impl FnMut(T),
) -> Result<Vec<T>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr_ptr();
    let place = |name: &str| {
        let columns = schema.columns();
        let found = columns.iter().position(|column| column.name() == name);
        found.ok_or_else(|| ParquetError::General(format!("it has no column `{name}`")))
    };
    let (value, class) = (place(column)?, place("failed")?);
    let rows = metadata.file_metadata().num_rows();
    let of_groups = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    if rows.max(of_groups.fold(0, i64::saturating_add)) > ROWS_MAX {
        let many = format!("it has {rows} rows; at most {ROWS_MAX} are read");
        return Err(ParquetError::General(many));
    }
    let rows = usize::try_from(rows).unwrap_or(0);
    let mut good = Vec::with_capacity(rows.min(ROWS_RESERVED));
    in_large_pages(&mut good);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let from = good.len();
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        values(group.get_column_reader(value)?, rows, &mut good)?;
        let statistics = group.metadata().column(class).statistics();
        let nulls = statistics.and_then(Statistics::null_count_opt);
        if nulls == u64::try_from(group.metadata().num_rows()).ok() {
            continue;
        }
        let bad = failures(group.get_column_reader(class)?, rows)?;
        if bad.len() != good.len() - from {
            return Err(ParquetError::General("its columns differ in length".into()));
        }
        let mut kept = from;
        for (at, bad) in bad.into_iter().enumerate() {
            if bad {
                failed(good[from + at]);
            } else {
                good[kept] = good[from + at];
                kept += 1;
            }
        }
        good.truncate(kept);
    }
    Ok(good)
}

/// What a column holds beyond the rows that its group tells is more than was agreed to.
fn more() -> ParquetError {
    ParquetError::General("a column has more values than rows".into())
}

fn longs(column: ColumnReader, rows: usize, into: &mut Vec<i64>) -> Result<(), ParquetError> {
    let ColumnReader::Int64ColumnReader(mut column) = column else {
        return Err(ParquetError::General("a time is not an INT64".into()));
    };
    let until = into.len() + rows;
    while column.read_records(BATCH, None, None, into)?.0 > 0 {
        if into.len() > until {
            return Err(more());
        }
    }
    Ok(())
}

/// Places of requests, which are small numbers in a column of larger ones.
fn places(column: ColumnReader, rows: usize, into: &mut Vec<u16>) -> Result<(), ParquetError> {
    let ColumnReader::Int32ColumnReader(mut column) = column else {
        return Err(ParquetError::General("`request` is not an INT32".into()));
    };
    let until = into.len() + rows;
    let mut read = Vec::with_capacity(BATCH);
    while column.read_records(BATCH, None, None, &mut read)?.0 > 0 {
        for place in read.drain(..) {
            let none = || ParquetError::General(format!("no request has the place {place}"));
            into.push(u16::try_from(place).map_err(|_| none())?);
        }
        if into.len() > until {
            return Err(more());
        }
    }
    Ok(())
}

/// Whether each row failed.
fn failures(column: ColumnReader, rows: usize) -> Result<Vec<bool>, ParquetError> {
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
        if bad.len() > rows {
            return Err(more());
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::fs;

    use super::*;

    fn read(path: &Path, clock: Clock) -> Result<Times, StoreError> {
        let files = SampleFile::all(path)?;
        assert_eq!(files.len(), 1);
        files[0].times(clock)
    }

    fn row(n: i64) -> SampleRow {
        SampleRow {
            request: (n % 7) as u16,
            host: (n % 3) as u16,
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
        let folder = Folder::open(&dir).unwrap();
        let mut writer = SampleWriter::create(&folder, 0, |_| "timeout.total").unwrap();
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
        let times = |clock| read(&path, clock).unwrap();
        assert_eq!(times(Clock::Intended), of(|row| row.latency_ns));
        assert_eq!(times(Clock::Sent), of(|row| row.service_ns));
        assert_eq!(read(&dir, Clock::Intended).unwrap(), times(Clock::Intended));
        let places = SampleFile::all(&path).unwrap()[0].places().unwrap();
        let of_good: Vec<u16> = good.iter().map(|row| row.request).collect();
        assert_eq!(places.good, of_good);
        let mut of_failed = [0; 7];
        for row in (0..rows).map(row).filter(|row| row.failed != 0) {
            of_failed[usize::from(row.request)] += 1;
        }
        assert_eq!(places.failed, of_failed);
        // Cut off anywhere it is an error, and no panic.
        let whole = fs::read(&path).unwrap();
        for end in (0..whole.len()).step_by(whole.len() / 50) {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(read(&path, Clock::Intended).is_err(), "{end} bytes");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    proptest! {
        #[test]
        fn failures_are_told_apart_wherever_they_are(
            runs in prop::collection::vec((any::<bool>(), 1_u16..600), 0..12),
        ) {
            let dir = std::env::temp_dir().join(format!("wallfinder-failed-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            let path = dir.join("samples-0.parquet");
            let is_bad = runs.iter().flat_map(|(bad, many)| vec![*bad; usize::from(*many)]);
            let rows = is_bad.enumerate().map(|(n, bad)| SampleRow {
                failed: bad.into(),
                ..row(n as i64)
            });
            let rows: Vec<SampleRow> = rows.collect();
            let folder = Folder::open(&dir).unwrap();
            let mut writer = SampleWriter::create(&folder, 0, |_| "timeout.total").unwrap();
            writer.append(rows.iter().copied()).unwrap();
            prop_assert_eq!(writer.finish().unwrap(), rows.len() as u64);
            let read = read(&path, Clock::Intended).unwrap();
            let good = rows.iter().filter(|row| row.failed == 0);
            prop_assert_eq!(read.failed, rows.len() as u64 - good.clone().count() as u64);
            prop_assert_eq!(read.good_ns, good.map(|row| row.latency_ns).collect::<Vec<_>>());
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}
