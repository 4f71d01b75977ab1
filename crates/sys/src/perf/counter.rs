//! A counter of one thread and of those that it starts: what the processor counts where it
//! can, and what the kernel counts of it.

use std::io;
use std::os::fd::OwnedFd;

use super::{Attributes, Of, TYPE_HARDWARE, TYPE_SOFTWARE, open};

/// Bits of the attributes' flags.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_HV: u64 = 1 << 6;
/// What a read gives beside the value: the time that it was enabled, and that it counted.
const TOTAL_TIME_ENABLED: u64 = 1 << 0;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;

/// What may be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// Cycles of the processor, in user code and in the kernel.
    Cycles,
    /// Instructions that it ended.
    Instructions,
    /// Looks into its last cache.
    CacheReferences,
    /// Of them, those that found nothing.
    CacheMisses,
    /// Branches that it took the wrong way.
    BranchMisses,
    /// Times that the thread got onto another processor.
    Migrations,
    /// Context switches.
    Switches,
    /// Page faults.
    Faults,
}

impl Counted {
    /// Type and number of the event.
    fn event(self) -> (u32, u64) {
        match self {
            Counted::Cycles => (TYPE_HARDWARE, 0),
            Counted::Instructions => (TYPE_HARDWARE, 1),
            Counted::CacheReferences => (TYPE_HARDWARE, 2),
            Counted::CacheMisses => (TYPE_HARDWARE, 3),
            Counted::BranchMisses => (TYPE_HARDWARE, 5),
            Counted::Faults => (TYPE_SOFTWARE, 2),
            Counted::Switches => (TYPE_SOFTWARE, 3),
            Counted::Migrations => (TYPE_SOFTWARE, 4),
        }
    }
}

/// A counter; it counts from when it was opened.
#[derive(Debug)]
pub struct Counter(OwnedFd);

/// What a counter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// How often.
    pub value: u64,
    /// Time that it was wanted, in nanoseconds of its threads.
    pub wanted_ns: u64,
    /// Time that it counted: less where a processor has too few counters for all.
    pub counted_ns: u64,
}

impl Counter {
    /// Counts of a thread, and of threads that it starts from now on.
    ///
    /// # Errors
    ///
    /// `ENOENT` or `EOPNOTSUPP` where the machine has no such counter, `EACCES` or `EPERM` without the
    /// privilege, `ESRCH` for a thread that is gone.
    pub fn open(what: Counted, tid: u32) -> io::Result<Counter> {
        let (kind, config) = what.event();
        let attributes = Attributes {
            kind,
            config,
            read_format: TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING,
            flags: INHERIT | EXCLUDE_HV,
            ..Attributes::default()
        };
        open(attributes, Of::Thread(tid)).map(Counter)
    }

    /// What it has so far.
    pub fn read(&self) -> io::Result<Count> {
        let mut bytes = [0; 24];
        let len = rustix::io::read(&self.0, &mut bytes)?;
        if len != bytes.len() {
            return Err(io::Error::other(format!("a counter gave {len} bytes")));
        }
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("24 bytes");
            u64::from_ne_bytes(*bytes)
        };
        Ok(Count {
            value: word(0),
            wanted_ns: word(8),
            counted_ns: word(16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_a_thread_are_counted_with_those_of_threads_that_it_starts() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let counter = match Counter::open(Counted::Switches, tid) {
            Ok(counter) => counter,
            Err(why) => return wallfinder_skip::skip(format_args!("no perf events here: {why}")),
        };
        let before = counter.read().unwrap();
        let sleep = || {
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        sleep();
        let own = counter.read().unwrap().value - before.value;
        assert!(own >= 20, "{own} switches");
        std::thread::spawn(sleep).join().unwrap();
        let with_child = counter.read().unwrap().value - before.value;
        assert!(with_child >= own + 20, "{with_child} switches");
    }

    #[test]
    fn a_thread_that_is_gone_is_refused() {
        assert!(Counter::open(Counted::Faults, i32::MAX as u32).is_err());
    }
}
