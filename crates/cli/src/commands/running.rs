//! Runs of this tool that stay until they are ended.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_sys::pidfd::PidFd;

use crate::exit::Failed;

/// How long one may take to end.
const END_WAIT_MAX: Duration = Duration::from_secs(10);

/// The words of a command line of this tool, without its name.
pub(crate) type Words<'w> = Vec<&'w [u8]>;

/// Ends every run that this is, and says how many there were. Each puts back what it changed.
pub(crate) fn end(what: &str, is_it: fn(&Words<'_>) -> bool) -> Result<String, Failed> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let asked: Vec<u32> = numbers
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            // Held first, and looked at then.
            let held = PidFd::open(*pid);
            held.is_ok_and(|held| runs(*pid, is_it) && held.signal(Signal::TERM).is_ok())
        })
        .collect();
    let since = Instant::now();
    while asked.iter().any(|pid| runs(*pid, is_it)) {
        if since.elapsed() > END_WAIT_MAX {
            return Err(Failed::run(format!(
                "{what} does not end; `wallfinder doctor --clean` puts back what it changed once it is killed"
            )));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(match asked.len() {
        0 => format!("no {what} runs here\n"),
        1 => format!("1 {what} was ended\n"),
        more => format!("{more} {what}s were ended\n"),
    })
}

/// Whether a process is such a run. One that has ended keeps its number until its parent has heard of it, and has no
/// command line.
fn runs(pid: u32, is_it: fn(&Words<'_>) -> bool) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    own_words(&line).is_some_and(|words| is_it(&words))
}

/// The words of a command line, where its program is this tool.
fn own_words(command_line: &[u8]) -> Option<Words<'_>> {
    let mut words = command_line.split(|byte| *byte == 0);
    let program = str::from_utf8(words.next()?).ok()?;
    let name = Path::new(program).file_name()?.to_str()?;
    name.starts_with("wallfinder").then(|| words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_tool_is_told_from_whoever_speaks_of_it() {
        let words = own_words(b"/opt/cache/wallfinder-0.1.0-abc\0agent\0--stdio\0");
        assert_eq!(words.expect("its words")[..2], [&b"agent"[..], b"--stdio"]);
        for other in [
            &b"sudo\0-n\0wallfinder\0agent\0--stdio\0"[..],
            b"sh\0-c\0wallfinder agent --stdio\0",
            b"",
        ] {
            assert_eq!(own_words(other), None);
        }
    }
}
