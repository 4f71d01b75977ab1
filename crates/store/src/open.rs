//! Reading a run back, sealed or not, whoever wrote the files.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use wallfinder_model::record::SCHEMA;
use wallfinder_model::{Caveat, Record};

use crate::folder::{JOURNAL, RECORD, SERIES};
use crate::journal::recover;
use crate::{StoreError, series};

/// The largest `record.json` that is read.
const RECORD_BYTES_MAX: u64 = 512 << 20;

/// Reads a run: its folder, or the `record.json` inside. A run that was never sealed is
/// recovered from its journal, marked incomplete, with a caveat that says what is missing;
/// telemetry rows that cannot be read cost a caveat, not the record.
pub fn open(path: &Path) -> Result<Record, StoreError> {
    let metadata = fs::metadata(path).map_err(|e| StoreError::io("open", path, &e))?;
    if metadata.is_file() {
        let mut record = read_record(path)?;
        if let Some(folder) = path.parent() {
            add_series(folder, &mut record);
        }
        return Ok(record);
    }
    if !metadata.is_dir() {
        return Err(StoreError::NotARun {
            path: path.to_owned(),
            why: "neither a folder nor a file".into(),
        });
    }
    let sealed = path.join(RECORD);
    match read_record(&sealed) {
        Ok(mut record) => {
            add_series(path, &mut record);
            Ok(record)
        }
        Err(StoreError::Io {
            kind: io::ErrorKind::NotFound,
            ..
        }) => recover_from(path),
        Err(error) => Err(error),
    }
}

fn recover_from(folder: &Path) -> Result<Record, StoreError> {
    let path = folder.join(JOURNAL);
    let file = open_regular(&path).map_err(|error| match error {
        StoreError::Io {
            kind: io::ErrorKind::NotFound,
            ..
        } => StoreError::NotARun {
            path: folder.to_owned(),
            why: format!("it holds neither {RECORD} nor {JOURNAL}"),
        },
        other => other,
    })?;
    let record = recover::recover(BufReader::new(file)).map_err(|damage| StoreError::Damaged {
        path: path.clone(),
        offset_bytes: damage.offset_bytes,
        why: damage.why,
    })?;
    check_schema(&path, &record.schema)?;
    Ok(record)
}

fn read_record(path: &Path) -> Result<Record, StoreError> {
    let file = open_regular(path)?;
    let size = file
        .metadata()
        .map_err(|e| StoreError::io("read", path, &e))?
        .len();
    if size > RECORD_BYTES_MAX {
        return Err(StoreError::TooLarge {
            path: path.to_owned(),
            bytes: size,
            bytes_max: RECORD_BYTES_MAX,
        });
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|e| StoreError::io("read", path, &e))?;
    let bad = |e: serde_json::Error| StoreError::BadRecord {
        path: path.to_owned(),
        why: e.to_string(),
    };
    // The schema first: a newer record need not fit the shape below.
    let versioned: Versioned = serde_json::from_slice(&bytes).map_err(bad)?;
    check_schema(path, &versioned.schema)?;
    serde_json::from_slice(&bytes).map_err(bad)
}

#[derive(Deserialize)]
struct Versioned {
    schema: String,
}

/// Opens a file without waiting for a pipe's other end.
fn open_regular(path: &Path) -> Result<File, StoreError> {
    let metadata = fs::metadata(path).map_err(|e| StoreError::io("open", path, &e))?;
    if !metadata.is_file() {
        return Err(StoreError::NotARun {
            path: path.to_owned(),
            why: "not a plain file".into(),
        });
    }
    File::open(path).map_err(|e| StoreError::io("open", path, &e))
}

/// Refuses what is newer than [`SCHEMA`], and what is none of ours.
fn check_schema(path: &Path, found: &str) -> Result<(), StoreError> {
    let version = |schema: &str| -> Option<u32> {
        let (name, version) = schema.split_once('/')?;
        (name == "wallfinder.record").then(|| version.parse().ok())?
    };
    let known = version(SCHEMA).expect("our own schema has a version");
    match version(found) {
        Some(found) if found <= known => Ok(()),
        Some(_) => Err(StoreError::NewerSchema {
            path: path.to_owned(),
            found: found.to_owned(),
        }),
        None => Err(StoreError::BadRecord {
            path: path.to_owned(),
            why: format!("`{}` is no schema of ours", shortened(found)),
        }),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

fn add_series(folder: &Path, record: &mut Record) {
    let path = folder.join(SERIES);
    let read = match open_regular(&path) {
        Ok(file) => series::read(file, &mut record.steps),
        Err(StoreError::Io {
            kind: io::ErrorKind::NotFound,
            ..
        }) => return,
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = read {
        record.caveats.push(Caveat::Note {
            text: format!(
                "telemetry rows in {SERIES} could not be read: {}",
                shortened(&why)
            ),
        });
    }
}
