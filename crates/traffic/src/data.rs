//! Rows of data, from a CSV, JSON lines, or a list in the traffic file itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;
use wallfinder_model::traffic::{Data, RowOrder, Scalar};
use wallfinder_scenario::Fault;
use wallfinder_wire::mix::{Order, Row, Table};

use crate::World;
use crate::slots::is_word;

/// Most bytes of a file of rows.
pub const DATA_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of one value.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Most rows: each takes a hundred bytes and more of memory.
const ROWS_MAX: usize = 4_000_000;

/// The rows of `[data.name]`.
pub(crate) fn table(name: &str, data: &Data, world: &dyn World) -> Result<Table, Fault> {
    let key = format!("traffic.data.{name}");
    let fault = |part: &str, why: String| Fault::at(format!("{key}{part}"), why);
    if !is_word(name) {
        let why =
            "its name is a letter and then letters, digits, `_` or `-`: so it stands in braces";
        return Err(fault("", why.to_owned()));
    }
    let (columns, rows) = match (&data.file, data.rows.as_slice()) {
        (None, []) => Err(fault(
            "",
            "it has no rows: name their file, or list them as rows".to_owned(),
        )),
        (Some(_), [_, ..]) => Err(fault(
            "",
            "its rows stand in its file or in the list: leave one of them out".to_owned(),
        )),
        (None, rows) => listed(&data.columns, rows).map_err(|why| fault(".rows", why)),
        (Some(file), []) => {
            let bytes = world.read(file).map_err(|why| fault(".file", why))?;
            let shown = file.display().to_string();
            let rows = match is_json_lines(file) {
                true => json_lines(&shown, &bytes, &data.columns),
                false => csv(&shown, &bytes, &data.columns),
            };
            rows.map_err(|why| fault(".file", why))
        }
    }?;
    if rows.is_empty() {
        return Err(fault("", "it has no rows".to_owned()));
    }
    Ok(Table {
        name: name.to_owned(),
        order: match data.order {
            RowOrder::Random => Order::Random,
            RowOrder::InOrder => Order::InOrder,
            RowOrder::Once => Order::Once,
        },
        columns,
        cells: rows.into(),
    })
}

type Rows = (Vec<String>, Vec<Row>);

fn is_json_lines(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("jsonl" | "ndjson" | "json"))
}

fn listed(columns: &[String], rows: &[BTreeMap<String, Scalar>]) -> Result<Rows, String> {
    let first = rows.first().into_iter().flat_map(BTreeMap::keys).cloned();
    let columns = if columns.is_empty() {
        first.collect()
    } else {
        columns.to_vec()
    };
    let row = |(nth, row): (usize, &BTreeMap<String, Scalar>)| {
        if let Some(other) = row.keys().find(|key| !columns.contains(key)) {
            return Err(format!(
                "row {} has a column `{other}`, and the first has none",
                nth + 1
            ));
        }
        let cell = |column: &String| match row.get(column) {
            Some(value) => Ok(value.to_string().into_bytes()),
            None => Err(format!("row {} has no column `{column}`", nth + 1)),
        };
        columns.iter().map(cell).collect::<Result<_, _>>().map(Row)
    };
    let rows = rows.iter().enumerate().map(row).collect::<Result<_, _>>()?;
    Ok((columns, rows))
}

/// Comma-separated values (RFC 4180).
fn csv(file: &str, bytes: &[u8], columns: &[String]) -> Result<Rows, String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(columns.is_empty())
        .from_reader(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let columns = match columns.is_empty() {
        false => columns.to_vec(),
        true => {
            let first = reader.headers().map_err(|error| broken(file, &error))?;
            first.iter().map(|name| name.trim().to_owned()).collect()
        }
    };
    if let Some(column) = columns.iter().find(|column| !is_word(column)) {
        return Err(format!(
            "{file}:1: `{column}` is no name for a column: a letter and then letters, digits, `_` or `-`; where the first \
             line is a row like the others, name them: columns = [\"id\"]"
        ));
    }
    if let Some((nth, column)) = columns
        .iter()
        .enumerate()
        .find(|(nth, column)| columns[..*nth].contains(column))
    {
        return Err(format!(
            "{file}:1: column {} is called `{column}` as well",
            nth + 1
        ));
    }
    let mut rows = Vec::new();
    let mut record = csv::ByteRecord::new();
    loop {
        let line = reader.position().line();
        if !reader
            .read_byte_record(&mut record)
            .map_err(|error| broken(file, &error))?
        {
            return Ok((columns, rows));
        }
        if record.len() != columns.len() {
            return Err(format!(
                "{file}:{line}: it has {} values, and {} columns have names",
                record.len(),
                columns.len()
            ));
        }
        if let Some(at) = record.iter().position(|cell| cell.len() > VALUE_BYTES_MAX) {
            return Err(too_long(file, line, &columns[at], record[at].len()));
        }
        if rows.len() == ROWS_MAX {
            return Err(too_many(file));
        }
        rows.push(Row(record.iter().map(<[u8]>::to_vec).collect()));
    }
}

fn broken(file: &str, error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("{file}:{line}: it has {len} values, and {expected_len} columns have names")
        }
        csv::ErrorKind::Utf8 { .. } => {
            format!("{file}:{line}: the names of its columns are not UTF-8")
        }
        _ => format!("{file}:{line}: {error}"),
    }
}

fn too_long(file: &str, line: u64, column: &str, bytes: usize) -> String {
    format!(
        "{file}:{line}: the value of `{column}` has {bytes} bytes, and 1 MiB is the most: shorten it, or send it as a body, @FILE"
    )
}

/// An object of JSON on each line. Values that are no text are kept as they are written, numbers with all their digits.
fn json_lines(file: &str, bytes: &[u8], columns: &[String]) -> Result<Rows, String> {
    let mut columns = columns.to_vec();
    let mut rows = Vec::new();
    for (line, at) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let strange =
            |error: serde_json::Error| format!("{file}:{at}: it is no object of JSON: {error}");
        let object: BTreeMap<String, &RawValue> = serde_json::from_slice(line).map_err(strange)?;
        if columns.is_empty() {
            columns = object.keys().cloned().collect();
        }
        let mut row = Vec::with_capacity(columns.len());
        for column in &columns {
            let value = object.get(column).ok_or_else(|| {
                format!("{file}:{at}: it has no `{column}`, which the first row has")
            })?;
            let text = match value.get() {
                text if text.starts_with('"') => {
                    serde_json::from_str::<String>(text).map_err(strange)?
                }
                other => other.to_owned(),
            };
            if text.len() > VALUE_BYTES_MAX {
                return Err(too_long(file, at, column, text.len()));
            }
            row.push(text.into_bytes());
        }
        if rows.len() == ROWS_MAX {
            return Err(too_many(file));
        }
        rows.push(Row(row));
    }
    Ok((columns, rows))
}

fn too_many(file: &str) -> String {
    format!(
        "{file}: it has more than {ROWS_MAX} rows: take some of them, such as `shuf -n 1000000`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::tests::Files;

    fn read(file: &str, text: &str, columns: &[&str]) -> Result<Table, String> {
        let data = Data {
            file: Some(file.into()),
            columns: columns.iter().map(ToString::to_string).collect(),
            ..Data::default()
        };
        let files = Files([(file.into(), text.as_bytes().to_vec())].into());
        table("users", &data, &files).map_err(|fault| fault.message)
    }

    fn cells(table: &Table) -> Vec<Vec<String>> {
        let text = |cell: &Vec<u8>| String::from_utf8_lossy(cell).into_owned();
        table
            .rows()
            .iter()
            .map(|row| row.0.iter().map(text).collect())
            .collect()
    }

    #[test]
    fn rows_are_read_in_each_form() {
        let csv = read(
            "u.csv",
            "\u{feff}name,term\r\nann,\"a \"\"b\"\", c\"\r\nbob,\n",
            &[],
        )
        .unwrap();
        assert_eq!(csv.columns, ["name", "term"]);
        assert_eq!(cells(&csv), [["ann", "a \"b\", c"], ["bob", ""]]);
        let plain = read("ids", "17\n18\n", &["id"]).unwrap();
        assert_eq!(cells(&plain), [["17"], ["18"]]);
        let lines = read(
            "u.jsonl",
            "{\"id\": 1.50, \"name\": \"a\\nb\"}\n\n{\"name\": null, \"id\": [1]}\n",
            &[],
        )
        .unwrap();
        assert_eq!(lines.columns, ["id", "name"]);
        assert_eq!(cells(&lines), [["1.50", "a\nb"], ["[1]", "null"]]);
    }

    #[test]
    fn numbers_of_json_lines_keep_the_digits_that_the_file_has() {
        let numbers = [
            "1.50",
            "123456789012345678901234567890",
            "-9223372036854775809",
            "1E400",
            "[1.0, 2]",
        ];
        let lines = numbers.map(|number| format!("{{\"id\": {number} }}\n"));
        let read = read("u.jsonl", &lines.concat(), &[]).unwrap();
        assert_eq!(cells(&read), numbers.map(|number| [number]));
    }

    #[test]
    fn what_is_wrong_has_its_file_and_line() {
        let long = format!("id\n1\n{}\n", "x".repeat(VALUE_BYTES_MAX + 1));
        for (file, text, part) in [
            ("u.csv", "name,term\nann\n", "u.csv:2: it has 1 values"),
            ("u.csv", "17\n18\n", "u.csv:1: `17` is no name for a column"),
            ("u.csv", "name\n", "it has no rows"),
            (
                "u.csv",
                "a,b,a\n1,2,3\n",
                "u.csv:1: column 3 is called `a` as well",
            ),
            (
                "u.csv",
                long.as_str(),
                "u.csv:3: the value of `id` has 1048577 bytes",
            ),
            (
                "u.jsonl",
                "{\"a\": 1}\n{\"b\": 1}\n",
                "u.jsonl:2: it has no `a`",
            ),
            ("u.jsonl", "{\"a\": 1}\n[1]\n", "u.jsonl:2: it is no object"),
            (
                "u.jsonl",
                "{\"a\": \"\\ud800\"}\n",
                "u.jsonl:1: it is no object",
            ),
        ] {
            let why = read(file, text, &[]).expect_err(text);
            assert!(why.contains(part), "{why}");
        }
    }
}
