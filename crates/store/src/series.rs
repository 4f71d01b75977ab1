//! `series.parquet`: one row for each telemetry tick of each step, in flat columns.
//!
//! ```text
//!  step at_ns span_ns switches runnable │ core0_usr core0_sys … │ client_… server_… link_… tcp_…
//! ```
//!
//! Units are those of [`Sample`]: `_ns` nanoseconds, shares 0..1, counts of the tick. What
//! was not seen is null: a side without a family, a processor missing in a tick. Columns
//! unknown to this version are passed over when reading, missing ones are 0.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{DataType, FloatType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use wallfinder_model::Step;
use wallfinder_model::telemetry::{CoreSample, FamilySample, LinkSample, Sample, TcpSample};

/// Rows in one row group.
const GROUP_ROWS_MAX: usize = 1 << 16;
/// Rows that are read: a day at twenty a second.
const ROWS_MAX: usize = 2 << 20;
/// Columns that are read: more than a thousand processors.
const COLUMNS_MAX: usize = 8192;
/// Values that are read: a day at twenty a second, of some hundred processors.
const CELLS_MAX: usize = 1 << 30;
/// Values decoded at a time.
const BATCH: usize = 8192;

/// Writes the telemetry rows of all steps.
pub(crate) fn write(out: impl Write + Send, steps: &[Step]) -> Result<()> {
    let rows: Vec<Row<'_>> = steps
        .iter()
        .flat_map(|step| step.series.iter().map(|sample| (step.index, sample)))
        .collect();
    let columns = columns_for(&rows);
    let schema = Arc::new(parse_message_type(&message_type(&columns))?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    for rows in rows.chunks(GROUP_ROWS_MAX) {
        let mut group = file.next_row_group()?;
        for column in &columns {
            match column.place.kind() {
                Kind::Real => {
                    write_column::<FloatType, _>(&mut group, column, rows, |v| match v {
                        Value::Real(value) => value,
                        Value::Int(_) => unreachable!("a place keeps its kind"),
                    })?
                }
                _ => write_column::<Int64Type, _>(&mut group, column, rows, |v| match v {
                    Value::Int(value) => value as i64,
                    Value::Real(_) => unreachable!("a place keeps its kind"),
                })?,
            }
        }
        group.close()?;
    }
    file.close().map(|_| ())
}

/// Reads rows back into their steps. On an error no step has any.
pub(crate) fn read(file: File, steps: &mut [Step]) -> std::result::Result<(), String> {
    // The reader of `parquet` bounds what it allocates, and promises no freedom from panics
    // on hostile files.
    let rows = catch_unwind(AssertUnwindSafe(|| read_rows(file)))
        .map_err(|_| "the file is malformed".to_string())?
        .map_err(|e| e.to_string())?;
    for (index, sample) in rows {
        if let Some(step) = steps.iter_mut().find(|step| step.index == index) {
            step.series.push(sample);
        }
    }
    Ok(())
}

/// A telemetry row and the index of its step.
type Row<'a> = (u32, &'a Sample);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Unsigned,
    Signed,
    Real,
}

/// A value on its way to or from a column; signed ones by their bits.
#[derive(Clone, Copy)]
enum Value {
    Int(u64),
    Real(f32),
}

/// A field of one of the structs that make a row.
struct Field<T> {
    name: &'static str,
    kind: Kind,
    get: fn(&T) -> Value,
    set: fn(&mut T, Value),
}

macro_rules! fields {
    ($name:ident of $type:ty: $($field:ident $kind:ident $as:ty),* $(,)?) => {
        const $name: &[Field<$type>] = &[$(Field {
            name: stringify!($field),
            kind: Kind::$kind,
            get: |from| fields!(@get $kind from.$field),
            set: |to, value| fields!(@set $kind to.$field, value, $as),
        }),*];
    };
    (@get Real $from:expr) => { Value::Real($from) };
    (@get $kind:ident $from:expr) => { Value::Int($from as u64) };
    (@set Real $to:expr, $value:ident, $as:ty) => {
        if let Value::Real(value) = $value { $to = value }
    };
    (@set $kind:ident $to:expr, $value:ident, $as:ty) => {
        if let Value::Int(value) = $value { $to = value as $as }
    };
}

fields!(SAMPLE of Sample:
    at_ns Signed i64, span_ns Unsigned u64, switches Unsigned u64, runnable Unsigned u32,
);
fields!(CORE of CoreSample:
    usr Real f32, sys Real f32, irq Real f32, softirq Real f32, steal Real f32, idle Real f32,
);
fields!(FAMILY of FamilySample:
    processes Unsigned u32, threads Unsigned u32, cpu_ns Unsigned u64, cpu_user_ns Unsigned u64,
    run_wait_ns Unsigned u64, switches_voluntary Unsigned u64,
    switches_involuntary Unsigned u64, faults_minor Unsigned u64, faults_major Unsigned u64,
    rss_bytes Unsigned u64, throttled_ns Unsigned u64, throttled_periods Unsigned u64,
    hottest_thread_share Real f32,
);
fields!(LINK of LinkSample:
    rx_bytes Unsigned u64, rx_packets Unsigned u64, tx_bytes Unsigned u64,
    tx_packets Unsigned u64, drops Unsigned u64,
);
fields!(TCP of TcpSample:
    segments_in Unsigned u64, segments_out Unsigned u64, retransmits Unsigned u64,
    listen_overflows Unsigned u64, listen_drops Unsigned u64, opens_active Unsigned u64,
    opens_passive Unsigned u64, resets_out Unsigned u64,
);

/// Where a column's values stand in a row.
#[derive(Clone, Copy)]
enum Place {
    Step,
    Sample(&'static Field<Sample>),
    Core(u32, &'static Field<CoreSample>),
    Client(&'static Field<FamilySample>),
    Server(&'static Field<FamilySample>),
    Link(&'static Field<LinkSample>),
    Tcp(&'static Field<TcpSample>),
}

struct Column {
    name: String,
    place: Place,
}

impl Column {
    fn at(place: Place) -> Column {
        let name = match place {
            Place::Step => "step".into(),
            Place::Sample(field) => field.name.into(),
            Place::Core(cpu, field) => format!("core{cpu}_{}", field.name),
            Place::Client(field) => format!("client_{}", field.name),
            Place::Server(field) => format!("server_{}", field.name),
            Place::Link(field) => format!("link_{}", field.name),
            Place::Tcp(field) => format!("tcp_{}", field.name),
        };
        Column { name, place }
    }

    /// The column of a name, if this version knows it.
    fn named(name: &str) -> Option<Column> {
        let core = || {
            let (cpu, field) = name.strip_prefix("core")?.split_once('_')?;
            let cpu = cpu.parse().ok()?;
            Some(Place::Core(cpu, CORE.iter().find(|f| f.name == field)?))
        };
        let fixed = fixed_places().find(|place| Column::at(*place).name == name);
        fixed.or_else(core).map(Column::at)
    }
}

impl Place {
    fn kind(self) -> Kind {
        match self {
            Place::Step => Kind::Unsigned,
            Place::Sample(field) => field.kind,
            Place::Core(_, field) => field.kind,
            Place::Client(field) | Place::Server(field) => field.kind,
            Place::Link(field) => field.kind,
            Place::Tcp(field) => field.kind,
        }
    }

    fn get(self, (step, sample): Row<'_>) -> Option<Value> {
        Some(match self {
            Place::Step => Value::Int(u64::from(step)),
            Place::Sample(field) => (field.get)(sample),
            Place::Core(cpu, field) => {
                (field.get)(sample.cores.iter().find(|core| core.cpu == cpu)?)
            }
            Place::Client(field) => (field.get)(sample.client.as_ref()?),
            Place::Server(field) => (field.get)(sample.server.as_ref()?),
            Place::Link(field) => (field.get)(sample.link.as_ref()?),
            Place::Tcp(field) => (field.get)(sample.tcp.as_ref()?),
        })
    }

    fn set(self, (step, sample): &mut (u32, Sample), value: Value) {
        match self {
            Place::Step => {
                if let Value::Int(value) = value {
                    // Out of range names no step.
                    *step = u32::try_from(value).unwrap_or(u32::MAX);
                }
            }
            Place::Sample(field) => (field.set)(sample, value),
            Place::Core(cpu, field) => {
                let at = match sample.cores.binary_search_by_key(&cpu, |core| core.cpu) {
                    Ok(at) => at,
                    Err(at) => {
                        let core = CoreSample {
                            cpu,
                            ..CoreSample::default()
                        };
                        sample.cores.insert(at, core);
                        at
                    }
                };
                (field.set)(&mut sample.cores[at], value);
            }
            Place::Client(field) => (field.set)(sample.client.get_or_insert_default(), value),
            Place::Server(field) => (field.set)(sample.server.get_or_insert_default(), value),
            Place::Link(field) => (field.set)(sample.link.get_or_insert_default(), value),
            Place::Tcp(field) => (field.set)(sample.tcp.get_or_insert_default(), value),
        }
    }
}

fn fixed_places() -> impl Iterator<Item = Place> {
    std::iter::once(Place::Step)
        .chain(SAMPLE.iter().map(Place::Sample))
        .chain(FAMILY.iter().map(Place::Client))
        .chain(FAMILY.iter().map(Place::Server))
        .chain(LINK.iter().map(Place::Link))
        .chain(TCP.iter().map(Place::Tcp))
}

fn columns_for(rows: &[Row<'_>]) -> Vec<Column> {
    let cpus: BTreeSet<u32> = rows
        .iter()
        .flat_map(|(_, sample)| sample.cores.iter().map(|core| core.cpu))
        .collect();
    let cores = cpus
        .into_iter()
        .flat_map(|cpu| CORE.iter().map(move |field| Place::Core(cpu, field)));
    fixed_places().chain(cores).map(Column::at).collect()
}

/// The schema in Parquet's own notation.
fn message_type(columns: &[Column]) -> String {
    let mut text = String::from("message series {\n");
    for Column { name, place } in columns {
        let repetition = match place {
            Place::Step | Place::Sample(_) => "required",
            _ => "optional",
        };
        let (physical, logical) = match place.kind() {
            Kind::Unsigned => ("int64", " (INTEGER(64,false))"),
            Kind::Signed => ("int64", ""),
            Kind::Real => ("float", ""),
        };
        text += &format!("  {repetition} {physical} {name}{logical};\n");
    }
    text + "}"
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    rows: &[Row<'_>],
    native: fn(Value) -> T::T,
) -> Result<()> {
    let found: Vec<Option<Value>> = rows.iter().map(|row| column.place.get(*row)).collect();
    let values: Vec<T::T> = found.iter().flatten().map(|value| native(*value)).collect();
    let present: Vec<i16> = found.iter().map(|v| i16::from(v.is_some())).collect();
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("fewer columns than in the schema".into()))?;
    let optional = !matches!(column.place, Place::Step | Place::Sample(_));
    writer
        .typed::<T>()
        .write_batch(&values, optional.then_some(&present[..]), None)?;
    writer.close()
}

fn read_rows(file: File) -> Result<Vec<(u32, Sample)>> {
    let refuse = |why: &str| Err(ParquetError::General(why.into()));
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr_ptr();
    if schema.num_columns() > COLUMNS_MAX {
        return refuse("more columns than are read");
    }
    let mut rows: Vec<(u32, Sample)> = Vec::new();
    for index in 0..metadata.num_row_groups() {
        let group_rows =
            usize::try_from(metadata.row_group(index).num_rows()).unwrap_or(usize::MAX);
        if group_rows > ROWS_MAX - rows.len() {
            return refuse("more rows than are read");
        }
        if (rows.len() + group_rows).saturating_mul(schema.num_columns()) > CELLS_MAX {
            return refuse("more values than are read");
        }
        let from = rows.len();
        rows.resize(from + group_rows, (u32::MAX, Sample::default()));
        let group = reader.get_row_group(index)?;
        for nth in 0..schema.num_columns() {
            let described = schema.column(nth);
            if let Some(column) = Column::named(described.name()) {
                if described.max_rep_level() > 0 || described.max_def_level() > 1 {
                    return refuse("a nested column");
                }
                let optional = described.max_def_level() == 1;
                read_column(&*group, nth, optional, column.place, &mut rows[from..])?;
            }
        }
    }
    Ok(rows)
}

fn read_column(
    group: &dyn RowGroupReader,
    nth: usize,
    optional: bool,
    place: Place,
    rows: &mut [(u32, Sample)],
) -> Result<()> {
    match group.get_column_reader(nth)? {
        ColumnReader::Int64ColumnReader(mut reader) => fill(
            |defs, values| Ok(reader.read_records(BATCH, defs, None, values)?.0),
            optional,
            rows,
            |row, value: i64| place.set(row, Value::Int(value as u64)),
        ),
        ColumnReader::FloatColumnReader(mut reader) => fill(
            |defs, values| Ok(reader.read_records(BATCH, defs, None, values)?.0),
            optional,
            rows,
            |row, value: f32| place.set(row, Value::Real(value)),
        ),
        _ => Err(ParquetError::General("a column of another type".into())),
    }
}

/// Spreads a column's values over the rows in which they are present.
fn fill<V: Copy>(
    mut read: impl FnMut(Option<&mut Vec<i16>>, &mut Vec<V>) -> Result<usize>,
    optional: bool,
    rows: &mut [(u32, Sample)],
    set: impl Fn(&mut (u32, Sample), V),
) -> Result<()> {
    let short = || ParquetError::General("a column has fewer or more values than rows".into());
    let mut rest = rows;
    while !rest.is_empty() {
        let (mut present, mut values) = (Vec::new(), Vec::new());
        let got = read(optional.then_some(&mut present), &mut values)?;
        if got == 0 || got > rest.len() || (optional && present.len() != got) {
            return Err(short());
        }
        let (now, later) = rest.split_at_mut(got);
        let mut values = values.into_iter();
        for (nth, row) in now.iter_mut().enumerate() {
            if !optional || present[nth] == 1 {
                set(row, values.next().ok_or_else(short)?);
            }
        }
        rest = later;
    }
    Ok(())
}
