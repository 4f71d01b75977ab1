//! Foreign load generators, run as children that can be watched like any other process.
//!
//! ```text
//!  DriverSpec::parse("wrk -c 100") ─► Driver::start ─► poll, poll, … ─► finish
//!                  │                        │                             │
//!                  └─ shape: the load       └─ pid, for the probes        └─ report
//! ```
//!
//! It adds the URL and a flag for a readable report where they lack, pins, limits the
//! time, and reads what was reported. It does not believe it: throughput and CPU are
//! observed from outside as well.

mod flags;
mod kind;
mod shape;
mod spec;
mod targets;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use kind::DriverKind;
pub use shape::Shape;
pub use spec::DriverSpec;
pub use targets::{Destination, Targets};

use crate::child::{self, Child, ChildSpec, Ended, Keep, Place, Shim, SpawnError, Stray};
use crate::command::CommandError;
use crate::report::{self, DriverReport, Unread};
use crate::scratch::Scratch;

/// The longest report that is read: ghz tells of each single request.
const REPORT_BYTES_MAX: usize = 256 << 20;
/// How much of standard error is kept.
const STDERR_BYTES_MAX: usize = 64 << 10;
/// How long a tool may take to say its version, and to turn results into a report.
const HELPER_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long an interrupted tool may take to report what it has.
const INTERRUPT_GRACE: Duration = Duration::from_secs(3);
/// How long an ended one may take until it is killed.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// How often a running driver is looked at while it is waited for.
const POLL: Duration = Duration::from_millis(5);

/// How to run a driver.
#[derive(Debug, Clone)]
pub struct DriveOptions {
    /// The URL under load.
    pub url: String,
    /// Processors it may run on; empty: those of this process.
    pub cpus: Vec<u32>,
    /// Network namespace and control groups; by default those of this process.
    pub place: Place,
    /// More of its environment.
    pub env: Vec<(String, String)>,
    /// When it counts as hung.
    pub time_limit: Duration,
    /// What turns itself into the child.
    pub shim: Shim,
}

impl DriveOptions {
    /// For a URL, unpinned, with the time limit that fits the command.
    pub fn new(url: impl Into<String>, spec: &DriverSpec) -> DriveOptions {
        DriveOptions {
            url: url.into(),
            cpus: Vec::new(),
            place: Place::default(),
            env: Vec::new(),
            time_limit: spec.time_limit(),
            shim: Shim::of_this_process(),
        }
    }
}

/// Why a driver did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The command cannot be run.
    #[error(transparent)]
    Command(CommandError),
    /// The system would not start it.
    #[error(transparent)]
    Spawn(SpawnError),
    /// There is no place for its report.
    #[error("could not make a folder for the driver's report: {why}")]
    NoScratch {
        /// Where, and in the system's words.
        why: String,
    },
}

/// A driver at work. Dropping it ends all that it started.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    spec: DriverSpec,
    invocation: spec::Invocation,
    options: DriveOptions,
    version: Option<String>,
    started: Instant,
    stopped: Option<Stopped>,
    /// Holds its files until it is dropped.
    scratch: Scratch,
}

/// Why a driver did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It ran longer than its limit.
    TimeLimit,
    /// It was interrupted on request.
    OnRequest,
}

/// What became of a driver.
#[derive(Debug, Clone)]
pub struct DriverOutcome {
    /// How its process ended.
    pub ended: Ended,
    /// Why it was stopped, if it did not end by itself.
    pub stopped: Option<Stopped>,
    /// From its start until it was gone.
    pub elapsed: Duration,
    /// Its version, where it is known.
    pub version: Option<String>,
    /// Its command line as it ran, without its secrets.
    pub command: Vec<String>,
    /// Its report, or why there is none.
    pub report: Result<DriverReport, Unread>,
    /// What it reported, as it is: for the record's folder.
    pub raw_report: Vec<u8>,
    /// The end of what it said on standard error.
    pub stderr: String,
    /// What still ran when it had ended by itself, and was ended then.
    pub left_behind: Vec<Stray>,
}

impl Driver {
    /// Starts a driver. It loads as soon as it gets to it.
    pub fn start(spec: &DriverSpec, options: DriveOptions) -> Result<Driver, DriverError> {
        let program = spec.program().map_err(DriverError::Command)?;
        let run_as = spec.run_as();
        let version = version(spec, &program, &options.shim);
        let scratch = Scratch::new(run_as.user()).map_err(|error| DriverError::NoScratch {
            why: error.to_string(),
        })?;
        let invocation = spec
            .invocation(&options.url, version.as_deref(), scratch.path())
            .map_err(DriverError::Command)?;
        let mut env = invocation.env.clone();
        env.extend(options.env.iter().cloned());
        let child = Child::start(ChildSpec {
            shim: &options.shim,
            program: &invocation.program,
            args: &invocation.args,
            env: &env,
            cpus: &options.cpus,
            place: &options.place,
            run_as,
            stdin: invocation.stdin.clone(),
            stdout: Keep::Head(REPORT_BYTES_MAX),
            stderr: Keep::Tail(STDERR_BYTES_MAX),
        })
        .map_err(DriverError::Spawn)?;
        tracing::info!(
            kind = spec.kind().name(),
            program = %invocation.program.display(),
            pid = child.pid(),
            version = version.as_deref().unwrap_or("unknown"),
            time_limit_s = options.time_limit.as_secs(),
            "driver starts"
        );
        Ok(Driver {
            child,
            spec: spec.clone(),
            invocation,
            options,
            version,
            started: Instant::now(),
            stopped: None,
            scratch,
        })
    }

    /// Its process; its group has the same id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Its version in one line, where it is known.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Whether it still runs. One beyond its limit is stopped here.
    pub fn poll(&mut self) -> bool {
        if self.child.exited().is_some() {
            return false;
        }
        if self.started.elapsed() < self.options.time_limit {
            return true;
        }
        self.stopped.get_or_insert(Stopped::TimeLimit);
        self.child.stop(STOP_GRACE);
        false
    }

    /// Ends it on request: as Ctrl-C would, so that it reports what it has.
    pub fn interrupt(&mut self) {
        if self.child.exited().is_none() {
            self.stopped.get_or_insert(Stopped::OnRequest);
            self.child.interrupt(INTERRUPT_GRACE);
        }
    }

    /// Waits until it ends or its limit is over, and reads its report.
    pub fn wait(mut self) -> DriverOutcome {
        while self.poll() {
            std::thread::sleep(POLL);
        }
        self.finish()
    }

    /// Ends it if it still runs, and reads its report.
    pub fn finish(mut self) -> DriverOutcome {
        self.interrupt();
        let ended = self.child.stop(STOP_GRACE);
        let elapsed = self.started.elapsed();
        let (raw_report, complete) = self.raw_report();
        let stderr = self.child.stderr.bytes();
        let report = match self.stopped {
            _ if !complete => Err(Unread {
                why: format!("its report is longer than {REPORT_BYTES_MAX} bytes"),
            }),
            Some(Stopped::TimeLimit) => Err(Unread {
                why: format!(
                    "it ran longer than its limit of {:.0} s and was stopped",
                    self.options.time_limit.as_secs_f64()
                ),
            }),
            _ => report::parse(self.spec.kind(), &raw_report, &stderr),
        };
        let report = report.map(|report| report.under(self.spec.kind(), self.spec.shape()));
        let report = report.map_err(|mut unread| {
            if !ended.is_success() && self.stopped.is_none() {
                unread.why = format!("it ended with {ended}: {}", unread.why);
            }
            unread
        });
        tracing::info!(
            %ended,
            took_ms = elapsed.as_millis() as u64,
            stopped = ?self.stopped,
            report = %report.as_ref().map_or_else(|unread| unread.why.as_str(), |_| "read"),
            "driver has ended"
        );
        let program = self.invocation.program.to_string_lossy().into_owned();
        DriverOutcome {
            ended,
            stopped: self.stopped,
            elapsed,
            version: self.version.clone(),
            command: [vec![program], self.spec.shown(&self.invocation.args)].concat(),
            report,
            raw_report,
            stderr: self.child.stderr.text(),
            left_behind: self.child.left_behind(),
        }
    }

    /// Its report from wherever it writes it, and whether that is all of it.
    fn raw_report(&self) -> (Vec<u8>, bool) {
        let stdout = || {
            (
                self.child.stdout.bytes(),
                self.child.stdout.left_out_bytes() == 0,
            )
        };
        let Some(path) = &self.invocation.report else {
            return stdout();
        };
        if let Some(args) = &self.invocation.afterwards {
            return self.turned_into_report(args).unwrap_or_default();
        }
        let name = path.file_name().and_then(|name| name.to_str());
        match self
            .scratch
            .read(name.unwrap_or_default(), REPORT_BYTES_MAX as u64)
        {
            Ok(None) => (Vec::new(), false),
            read => (read.ok().flatten().unwrap_or_default(), true),
        }
    }

    /// Runs the same program once more, over its own results.
    fn turned_into_report(&self, args: &[String]) -> Option<(Vec<u8>, bool)> {
        let mut child = Child::start(ChildSpec {
            shim: &self.options.shim,
            program: &self.invocation.program,
            args,
            env: &self.invocation.env,
            cpus: &[],
            place: &Place::default(),
            run_as: self.spec.run_as(),
            stdin: None,
            stdout: Keep::Head(REPORT_BYTES_MAX),
            stderr: Keep::Tail(STDERR_BYTES_MAX),
        })
        .ok()?;
        let since = Instant::now();
        while child.exited().is_none() && since.elapsed() < HELPER_WAIT_MAX {
            std::thread::sleep(POLL);
        }
        child.stop(Duration::ZERO);
        Some((child.stdout.bytes(), child.stdout.left_out_bytes() == 0))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.child.stop(STOP_GRACE);
        if self.spec.kind() == DriverKind::Autocannon {
            remove_logs(Path::new("."), self.child.pid());
        }
    }
}

/// Removes what V8 wrote into the current folder of a process, where it was told to write maps of its code
/// (`--perf-basic-prof`): an empty log for each of its isolates, `isolate-0x7f…-PID-v8.log`.
fn remove_logs(folder: &Path, pid: u32) {
    let ends = format!("-{pid}-v8.log");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("isolate") && name.ends_with(&ends) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The tool's version. It is asked once: Node alone takes a good part of a second.
fn version(spec: &DriverSpec, program: &Path, shim: &Shim) -> Option<String> {
    type Known = HashMap<(PathBuf, Vec<String>), Option<String>>;
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let args = spec.version_args()?;
    let key = (program.to_owned(), args);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(version) = known.get(&key) {
        return version.clone();
    }
    let version = child::version(shim, program, &key.1, &[], spec.run_as(), HELPER_WAIT_MAX);
    known.insert(key, version.clone());
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_a_process_are_removed_and_nothing_else() {
        let scratch = Scratch::new(None).unwrap();
        let others = [
            "isolate-0x1-412-v8.log",
            "v8.log",
            "isolate-0x1-12-v8.log.kept",
        ];
        for name in [
            &["isolate-0x1-12-v8.log", "isolate-0x2-12-v8.log"],
            &others[..],
        ]
        .concat()
        {
            scratch.write(name, b"").unwrap();
        }
        remove_logs(scratch.path(), 12);
        let left = fs::read_dir(scratch.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut others = others.map(std::ffi::OsString::from);
        others.sort();
        assert_eq!(left, others);
    }
}
