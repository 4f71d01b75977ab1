//! Rings of perf events, drained by a thread of their own until they are told to end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use wallfinder_sys::perf::EventRing;

use crate::parse::decimal;

/// Where tracing is mounted, if it is.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The number of a tracepoint, such as `sched/sched_switch`.
pub(crate) fn tracepoint(name: &str) -> io::Result<u64> {
    let mut missing = io::Error::other(format!("there is no tracepoint {name}"));
    for tracing in TRACING {
        let path = format!("{tracing}/events/{name}/id");
        match std::fs::read(&path) {
            Ok(bytes) => {
                let number = decimal(bytes.trim_ascii());
                return number.ok_or_else(|| io::Error::other(format!("{path} has no number")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => missing = error,
        }
    }
    match detached_tracing().and_then(|tracing| number_in(&tracing, name)) {
        Ok(number) => Ok(number),
        // Who may not look at it where it is not mounted cannot tell that it is not there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(io::Error::other(
            format!("tracefs is not mounted, so there is no tracepoint {name}"),
        )),
        Err(_) => Err(missing),
    }
}

/// The file system of tracing, where nobody has mounted it: open here, mounted nowhere, and gone
/// when it is closed. Takes root.
fn detached_tracing() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, read_only)?)
}

fn number_in(tracing: &OwnedFd, name: &str) -> io::Result<u64> {
    let path = format!("events/{name}/id");
    let file = openat(
        tracing,
        &path,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes)?;
    decimal(bytes.trim_ascii()).ok_or_else(|| io::Error::other(format!("{path} has no number")))
}

/// What a thread drains, and what it makes of it.
#[derive(Debug)]
pub(crate) struct Rings<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(T, Duration)>>,
}

/// How a thread drains rings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// The thread's name.
    pub(crate) name: &'static str,
    /// How often.
    pub(crate) every: Duration,
    /// For how long at the most.
    pub(crate) most: Duration,
}

/// A ring of each processor.
pub(crate) fn of_each(
    cpus: &[u32],
    open: impl Fn(u32) -> io::Result<EventRing>,
) -> io::Result<Vec<EventRing>> {
    cpus.iter().map(|cpu| open(*cpu)).collect()
}

impl<T: Send + 'static> Rings<T> {
    /// Begins; `take` is given the bytes of whole records, and says whether it wants more.
    pub(crate) fn start(
        mut rings: Vec<EventRing>,
        habits: Habits,
        mut state: T,
        take: impl Fn(&mut T, &[u8]) -> bool + Send + 'static,
    ) -> io::Result<Rings<T>> {
        for ring in &rings {
            ring.enable()?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let drain = move || {
            let began = Instant::now();
            let mut bytes = Vec::new();
            let mut wants_more = true;
            loop {
                let is_told = stopped.load(Ordering::Relaxed);
                let is_last = !wants_more || is_told || began.elapsed() >= habits.most;
                for ring in &mut rings {
                    if is_last {
                        ring.disable()?;
                    }
                    bytes.clear();
                    ring.drain(&mut bytes);
                    wants_more &= take(&mut state, &bytes);
                }
                if is_last {
                    return Ok((state, began.elapsed()));
                }
                thread::sleep(habits.every);
            }
        };
        let named = thread::Builder::new().name(habits.name.into());
        Ok(Rings {
            stop,
            thread: named.spawn(drain)?,
        })
    }

    /// Takes no more.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends, and gives what it came to and how long it was.
    pub(crate) fn join(self) -> io::Result<(T, Duration)> {
        self.end();
        match self.thread.join() {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("who drained the rings gave up")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_has_the_same_number_where_tracing_is_mounted_and_where_it_is_not() {
        let detached = match detached_tracing() {
            Ok(detached) => detached,
            Err(error) => {
                wallfinder_skip::skip(format_args!("tracefs cannot be opened here: {error}"));
                return;
            }
        };
        for name in ["raw_syscalls/sys_enter", "sched/sched_switch"] {
            let number = number_in(&detached, name).unwrap();
            assert!(number > 0);
            assert_eq!(tracepoint(name).unwrap(), number);
        }
        let unknown = tracepoint("sched/there_is_none_such").unwrap_err();
        assert!(unknown.to_string().contains("no tracepoint"), "{unknown}");
    }
}
