//! `traffic`: a traffic file from what others have.

use std::path::Path;

use wallfinder_sys::file::{self, Source};
use wallfinder_testbed::command;
use wallfinder_testbed::redact::is_telling;
use wallfinder_traffic::DATA_BYTES_MAX;
use wallfinder_traffic::import::{Format, Imported, from_curl, from_har, from_log, from_openapi};

use crate::exit::Failed;
use crate::flags::{ImportFlags, TrafficFrom};
use crate::output;

/// `wallfinder traffic`.
pub(crate) fn traffic(from: &TrafficFrom) -> Result<(), Failed> {
    match from {
        TrafficFrom::Har(import) => {
            let made = from_har(&read(&import.file)?, &is_telling);
            put(made, import)
        }
        TrafficFrom::Log {
            import,
            log_format,
            seed,
        } => {
            let format = Format::parse(log_format).map_err(Failed::usage)?;
            let made = from_log(&read(&import.file)?, &format, &is_telling, *seed);
            put(made, import)
        }
        TrafficFrom::Curl { words } => {
            let words = match words.as_slice() {
                [one] => command::split(one).map_err(Failed::usage)?,
                several => several.to_vec(),
            };
            let made = from_curl(&words, &is_telling).map_err(Failed::usage)?;
            say(&made);
            output::put(&made.written(), None)
        }
        TrafficFrom::Openapi(import) => {
            let text = read(&import.file)?;
            let description = match text.trim_start().starts_with('{') {
                true => serde_json::from_str(&text).map_err(|error| error.to_string()),
                false => serde_saphyr::from_str(&text).map_err(|error| error.to_string()),
            };
            let named = |why: String| Failed::usage(format!("{}: {why}", import.file.display()));
            let description = description.map_err(named)?;
            put(from_openapi(&description, &is_telling), import)
        }
    }
}

fn read(path: &Path) -> Result<String, Failed> {
    let source = match path.as_os_str() == "-" {
        true => Source::StandardInput,
        false => Source::FileOrPipe(path.into()),
    };
    let bytes = file::read(source, DATA_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(format!("{}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn put(made: Result<Imported, String>, import: &ImportFlags) -> Result<(), Failed> {
    let named = |why: String| Failed::usage(format!("{}: {why}", import.file.display()));
    let made = made.map_err(named)?;
    if import.output.is_some() {
        say(&made);
    }
    output::put(&made.written(), import.output.as_deref())
}

/// What was left out is told beside the file as well as in it.
fn say(made: &Imported) {
    for line in &made.left_out {
        tracing::warn!("left out: {line}");
    }
}
