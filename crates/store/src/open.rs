//! Reading a run back, sealed or not, whoever wrote the files: none is waited for, none has no end, and
//! none is read through a link.

use std::ffi::OsStr;
use std::io::{self, BufReader};
use std::path::Path;

use serde::Deserialize;
use wallfinder_model::record::SCHEMA;
use wallfinder_model::{Caveat, Json, Record};

use crate::folder::{Folder, read_whole};
use crate::journal::recover;
use crate::run_folder::{JOURNAL, RECORD, SERIES};
use crate::{StoreError, record_1, series};

/// The largest `record.json` that is read.
const RECORD_BYTES_MAX: u64 = 512 << 20;
/// The largest of the first version, which is held as a tree of values while it is brought into today's shape.
const RECORD_1_BYTES_MAX: usize = 64 << 20;
/// The largest journal: what is written beyond 2 GiB are steps and ends.
const JOURNAL_BYTES_MAX: u64 = 4 << 30;
/// The largest file of telemetry.
const SERIES_BYTES_MAX: u64 = 2 << 30;

/// Reads a run: its folder, or the `record.json` inside. A run that was never sealed is
/// recovered from its journal, marked incomplete, with a caveat that says what is missing;
/// telemetry rows that cannot be read cost a caveat, not the record.
///
/// A record of an older version has today's shape, but for its verdicts, which are left out: its `schema`
/// stays that of its files, and says that its steps are to be judged anew.
pub fn open(path: &Path) -> Result<Record, StoreError> {
    open_with_folder(path).map(|(record, _)| record)
}

/// The same, and the folder that it was read from.
pub fn open_with_folder(path: &Path) -> Result<(Record, Folder), StoreError> {
    let (folder, read) = match Folder::open(path) {
        Ok(folder) => {
            let read = read_from(&folder, RECORD.as_ref());
            (folder, read)
        }
        Err(StoreError::Io {
            kind: io::ErrorKind::NotADirectory,
            ..
        }) => {
            let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
            let named = path.file_name().unwrap_or_default();
            let record = read_from(&folder, named)?;
            (folder, Ok(record))
        }
        Err(error) => return Err(error),
    };
    match read {
        Ok(mut record) => {
            add_series(&folder, &mut record);
            Ok((record, folder))
        }
        Err(StoreError::Io {
            kind: io::ErrorKind::NotFound,
            ..
        }) => Ok((recover_from(&folder)?, folder)),
        Err(error) => Err(error),
    }
}

fn read_from(folder: &Folder, name: &OsStr) -> Result<Record, StoreError> {
    let file = folder.read(name, RECORD_BYTES_MAX)?;
    let path = folder.path().join(name);
    read_record(&path, &read_whole(file, &path, RECORD_BYTES_MAX)?)
}

fn recover_from(folder: &Folder) -> Result<Record, StoreError> {
    let path = folder.path().join(JOURNAL);
    let file = folder.read(JOURNAL.as_ref(), JOURNAL_BYTES_MAX);
    let file = file.map_err(|error| match error {
        StoreError::Io {
            kind: io::ErrorKind::NotFound,
            ..
        } => StoreError::NotARun {
            path: folder.path().to_owned(),
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

fn read_record(path: &Path, bytes: &[u8]) -> Result<Record, StoreError> {
    let bad = |e: serde_json::Error| StoreError::BadRecord {
        path: path.to_owned(),
        why: e.to_string(),
    };
    // The schema first: a newer record need not fit the shape below.
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(bad)?;
    check_schema(path, &versioned.schema)?;
    if versioned.schema == record_1::SCHEMA {
        if bytes.len() > RECORD_1_BYTES_MAX {
            return Err(StoreError::TooLarge {
                path: path.to_owned(),
                bytes: bytes.len() as u64,
                bytes_max: RECORD_1_BYTES_MAX as u64,
            });
        }
        return record_1::read(bytes).map_err(bad);
    }
    Record::from_json(bytes).map_err(bad)
}

#[derive(Deserialize)]
struct Versioned {
    schema: String,
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

fn add_series(folder: &Folder, record: &mut Record) {
    let read = match folder.read(SERIES.as_ref(), SERIES_BYTES_MAX) {
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
