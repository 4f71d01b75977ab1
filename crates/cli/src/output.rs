//! Where results go and how they look: standard output or a file, text, JSON or CSV; and what is said on
//! standard error.
//!
//! Everything that leaves for a terminal leaves here, or as a frame of [`crate::present`]: other
//! programs' text cannot act on it, and messages hold no secrets of the command line.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use wallfinder_model::Record;
use wallfinder_report::look::Look;
use wallfinder_report::safe;
use wallfinder_report::text::Paths;
use wallfinder_sys::folder::write_path;

use crate::exit::Failed;
use crate::flags::Format;
use crate::secrets;

/// Prints a record in a format, to a file where one is named.
pub(crate) fn print(
    record: &Record,
    paths: &Paths<'_>,
    format: Format,
    file: Option<&Path>,
    ascii: bool,
) -> Result<(), Failed> {
    let text = match format {
        Format::Text => {
            let to_terminal = file.is_none() && io::stdout().is_terminal();
            let look = look(to_terminal, ascii);
            let text = wallfinder_report::text::record(record, paths, &look);
            return write(&text, file, look.colour);
        }
        Format::Json => wallfinder_report::json::document(record),
        Format::Csv => wallfinder_report::csv::steps(record),
    };
    put(&text, file)
}

/// Writes text to a file or to standard output. A reader that went away is no error.
pub(crate) fn put(text: &str, file: Option<&Path>) -> Result<(), Failed> {
    write(text, file, false)
}

fn write(text: &str, file: Option<&Path>, colours: bool) -> Result<(), Failed> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let Some(path) = file else {
        let text = safe::on_terminal(text, colours);
        let mut out = io::stdout().lock();
        return match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failed::run(format!(
                "standard output cannot be written: {error}"
            ))),
            _ => Ok(()),
        };
    };
    let written = write_path(path, false)
        .and_then(|mut file| file.write_all(format!("{text}{newline}").as_bytes()));
    written.map_err(|error| unwritten(path, &error))
}

/// Says why a command failed, on standard error.
pub(crate) fn complain(message: &str) {
    tell(&format!("wallfinder: {message}"));
}

/// Says a message on standard error: without secrets, bounded, and unable to act on a terminal. That
/// nobody hears it is no error.
pub(crate) fn tell(message: &str) {
    let message = secrets::ours().scrub(message);
    let _ = writeln!(io::stderr(), "{}", safe::message(&message));
}

/// Logs an event as one line on standard error, under the same rules.
pub(crate) fn log(event: &str) {
    let event = secrets::scrubbed_so_far(event);
    let line = safe::message(&safe::clean(event.trim_end()));
    let _ = writeln!(io::stderr(), "{line}");
}

/// Shows a part of a report on standard error.
pub(crate) fn show(text: &str, look: &Look) {
    let _ = write!(io::stderr(), "{}", safe::on_terminal(text, look.colour));
}

/// Lets a panic, which is a bug of ours, tell no secrets either.
pub(crate) fn guard_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, |at| format!(" at {at}"));
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name").to_owned();
        let what = panic.payload_as_str().unwrap_or("no message");
        complain(&format!(
            "this is a bug: the thread {thread} panicked{place}: {what}"
        ));
    }));
}

/// Whether a file can be written, which it is made for. What is in it stays until there is more to
/// say.
pub(crate) fn check(file: Option<&Path>) -> Result<(), Failed> {
    let Some(path) = file else { return Ok(()) };
    let opened = write_path(path, true);
    opened.map(drop).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failed {
    Failed::run(format!("{} cannot be written: {error}", path.display()))
}

/// What the place of output can show.
pub(crate) fn look(to_terminal: bool, ascii: bool) -> Look {
    let colour = to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    // Pipes and files get UTF-8 as everything else does; a terminal may say that it cannot.
    let plain =
        to_terminal && locale.is_some_and(|value| !value.to_ascii_lowercase().contains("utf"));
    Look {
        width: if to_terminal { columns() } else { 100 },
        colour,
        ascii: ascii || plain,
    }
}

fn columns() -> u16 {
    rustix::termios::tcgetwinsize(io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()))
        .map(|size| size.ws_col)
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(100)
}
