//! `traffic`: a traffic file from what others have.

use std::path::Path;

use wallfinder_sys::file::{self, Source, Unread};
use wallfinder_testbed::command;
use wallfinder_testbed::redact::is_telling;
use wallfinder_traffic::DATA_BYTES_MAX;
use wallfinder_traffic::import::{
    Format, Imported, from_curl, from_har, from_har_by_route, from_log, from_openapi, is_gzip,
};

use crate::exit::Failed;
use crate::flags::{ImportFlags, TrafficFrom};
use crate::output;

/// `wallfinder traffic`.
pub(crate) fn traffic(from: &TrafficFrom) -> Result<(), Failed> {
    match from {
        TrafficFrom::Har {
            import,
            by_route,
            seed,
        } => {
            let text = read(&import.file)?;
            let made = match by_route {
                true => from_har_by_route(&text, &is_telling, *seed),
                false => from_har(&text, &is_telling),
            };
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
    let bytes = file::read(source, DATA_BYTES_MAX, file::PATIENCE);
    text(path, bytes)
}

/// What was read, as text; or why it is none, with the way out.
fn text(path: &Path, bytes: Result<Vec<u8>, Unread>) -> Result<String, Failed> {
    let file = path.display();
    match bytes {
        Ok(bytes) if is_gzip(&bytes) => Err(Failed::usage(format!(
            "{file}: it is compressed by gzip: unpack it, such as `zcat access.log.gz | wallfinder traffic from-log -`"
        ))),
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error @ Unread::TooLong { .. }) => Err(Failed::usage(format!(
            "{file}: {error}: split it; of a log a part will do, such as \
             `shuf -n 500000 access.log | wallfinder traffic from-log -`"
        ))),
        Err(error) => Err(Failed::usage(format!("{file}: {error}"))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_packed_or_too_long_is_told_the_way_out() {
        let why = |bytes| {
            let failed = text(Path::new("a.log"), bytes).expect_err("it is no text");
            assert_eq!(failed.code, 2);
            failed.message
        };
        let packed = why(Ok(b"\x1f\x8b\x08\x00".to_vec()));
        assert!(
            packed.starts_with("a.log: it is compressed by gzip"),
            "{packed}"
        );
        assert!(packed.contains("zcat"), "{packed}");
        let long = why(Err(Unread::TooLong {
            bytes_max: DATA_BYTES_MAX,
        }));
        assert!(
            long.contains("longer than 256 MiB: split it") && long.contains("from-log -"),
            "{long}"
        );
        let plain = text(Path::new("a.log"), Ok(b"GET /".to_vec()));
        assert_eq!(plain.as_deref(), Ok("GET /"));
    }
}
