//! A process or thread: `/proc/PID/stat`, `status`, `schedstat` and the same files under
//! `task/TID`.
//!
//! `stat` counts CPU in ticks of `USER_HZ` (10 ms) but scales them to the scheduler's exact sum, so
//! that `utime + stime` is the exact time rounded down twice; only the split between them is
//! sampled by clock tick. `schedstat` is in nanoseconds, for one thread.

use super::{decimal, decimal_u32, host::cpulist, lines, value_of, words};

/// `/proc/PID/stat`, proc_pid_stat(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Process id in the reader's namespace.
    pub pid: u32,
    /// State: `R`, `S`, `Z`, ...
    pub state: u8,
    /// Parent's process id.
    pub parent: u32,
    /// Page faults without disk.
    pub faults_minor: u64,
    /// Page faults with disk.
    pub faults_major: u64,
    /// CPU in user code, all threads, exited ones included; in ticks.
    pub user_ticks: u64,
    /// CPU in the kernel, likewise.
    pub system_ticks: u64,
    /// CPU of children that were waited for, and of theirs, user and system; in ticks.
    pub reaped_ticks: u64,
    /// Threads.
    pub threads: u32,
    /// Start, in ticks since boot: with the id it names a process for good.
    pub start_ticks: u64,
    /// Resident memory in pages.
    pub rss_pages: u64,
}

impl Stat {
    /// Ended, and not waited for yet; a process whose first thread alone has ended lives on.
    pub fn is_zombie(&self) -> bool {
        self.state == b'Z' && self.threads <= 1
    }
}

/// Reads `/proc/PID/stat`. The name stands in parentheses and may itself hold blanks and
/// parentheses.
pub fn stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let pid = decimal_u32(bytes.get(..open)?.trim_ascii())?;
    let mut words = words(bytes.get(close + 1..)?);
    let state = *words.next()?.first()?;
    let parent = decimal_u32(words.next()?)?;
    // Fields by their numbers in the manual page; `parent` is the fourth.
    let mut at = 4;
    let mut field = |number: usize| {
        let skipped = number - at - 1;
        at = number;
        words.nth(skipped)
    };
    let faults_minor = decimal(field(10)?)?;
    let faults_major = decimal(field(12)?)?;
    let user_ticks = decimal(field(14)?)?;
    let system_ticks = decimal(field(15)?)?;
    let reaped_user = decimal(field(16)?)?;
    let reaped_system = decimal(field(17)?)?;
    let threads = decimal_u32(field(20)?)?;
    let start_ticks = decimal(field(22)?)?;
    let rss_pages = decimal(field(24)?)?;
    Some(Stat {
        pid,
        state,
        parent,
        faults_minor,
        faults_major,
        user_ticks,
        system_ticks,
        reaped_ticks: reaped_user.checked_add(reaped_system)?,
        threads,
        start_ticks,
        rss_pages,
    })
}

/// The command name inside a `stat` file, 15 bytes at the most on Linux.
pub fn stat_name(bytes: &[u8]) -> Option<String> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let name = bytes.get(open + 1..close)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// `/proc/PID/status` or `task/TID/status`; the switches are those of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Context switches by waiting.
    pub switches_voluntary: u64,
    /// Context switches by preemption.
    pub switches_involuntary: u64,
    /// Processors that it may run on, those that are offline as well: see [`crate::online`].
    pub cpus_allowed: Vec<u32>,
    /// Threads of the process.
    pub threads: u32,
    /// Resident memory in bytes; absent for kernel threads and zombies.
    pub rss_bytes: Option<u64>,
    /// Real user id.
    pub user: u32,
}

/// Reads a `status` file. The first line, the name, is under the process's control and is not
/// looked at.
pub fn status(bytes: &[u8]) -> Option<Status> {
    let name_end = bytes.iter().position(|byte| *byte == b'\n')?;
    let rest = bytes.get(name_end + 1..)?;
    Some(Status {
        switches_voluntary: decimal(value_of(rest, "voluntary_ctxt_switches")?)?,
        switches_involuntary: decimal(value_of(rest, "nonvoluntary_ctxt_switches")?)?,
        cpus_allowed: cpulist(value_of(rest, "Cpus_allowed_list")?)?,
        threads: decimal_u32(value_of(rest, "Threads")?)?,
        rss_bytes: value_of(rest, "VmRSS").and_then(kibibytes),
        user: decimal_u32(words(value_of(rest, "Uid")?).next()?)?,
    })
}

/// `1612 kB`.
fn kibibytes(value: &[u8]) -> Option<u64> {
    let mut words = words(value);
    let count = decimal(words.next()?)?;
    (words.next()? == b"kB").then(|| count.checked_mul(1024))?
}

/// `schedstat` of one thread, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedstat {
    /// Time on a processor, in nanoseconds; brought up to date at each clock tick and switch.
    pub cpu_ns: u64,
    /// Time runnable and not running, in nanoseconds.
    pub run_wait_ns: u64,
    /// Times that it was put on a processor.
    pub slices: u64,
}

/// Reads `/proc/PID/schedstat` or `task/TID/schedstat`; kernels without it print zeros, which is
/// `None` here only when the line is broken.
pub fn schedstat(bytes: &[u8]) -> Option<Schedstat> {
    let mut words = words(lines(bytes).next()?);
    let cpu_ns = decimal(words.next()?)?;
    let run_wait_ns = decimal(words.next()?)?;
    let slices = decimal(words.next()?)?;
    words.next().is_none().then_some(Schedstat {
        cpu_ns,
        run_wait_ns,
        slices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_real_stat() {
        let bytes = include_bytes!("../../testdata/pid_stat");
        let stat = stat(bytes).unwrap();
        assert_eq!(stat.state, b'R');
        assert_eq!(stat.threads, 1);
        assert!(stat.pid > 1 && stat.parent > 1 && stat.rss_pages > 100);
        assert!(stat.start_ticks > 100_000);
        assert_eq!(stat_name(bytes).unwrap(), "cat");
    }

    #[test]
    fn a_hostile_name_moves_no_field() {
        let text = b"7 (a) R 1 (b\n) S 3 7 7 0 -1 4194304 103 11 5 12 21 22 31 32 20 0 9 0 152011 3133440 359 1\n";
        let stat = stat(text).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.state), (7, 3, b'S'));
        assert_eq!((stat.faults_minor, stat.faults_major), (103, 5));
        assert_eq!((stat.user_ticks, stat.system_ticks), (21, 22));
        assert_eq!((stat.reaped_ticks, stat.threads), (63, 9));
        assert_eq!((stat.start_ticks, stat.rss_pages), (152_011, 359));
        assert_eq!(stat_name(text).unwrap(), "a) R 1 (b\n");
    }

    #[test]
    fn reads_a_real_status() {
        let status = status(include_bytes!("../../testdata/pid_status")).unwrap();
        assert_eq!(status.cpus_allowed, [0, 1]);
        assert_eq!(status.threads, 1);
        assert_eq!(status.user, 0);
        assert!(status.rss_bytes.unwrap() > 1_000_000);
    }

    #[test]
    fn a_name_cannot_pose_as_a_field() {
        // The kernel escapes line ends in names, so such a line can only be the first.
        let mut text = b"Threads:\t999\n".to_vec();
        text.extend_from_slice(include_bytes!("../../testdata/pid_status"));
        assert_eq!(status(&text).unwrap().threads, 1);
    }

    #[test]
    fn reads_schedstat() {
        let read = schedstat(b"149203 2068063 2\n").unwrap();
        assert_eq!(
            (read.cpu_ns, read.run_wait_ns, read.slices),
            (149_203, 2_068_063, 2)
        );
        assert!(schedstat(include_bytes!("../../testdata/pid_schedstat")).is_some());
        for bad in [
            "",
            "1 2",
            "1 2 3 4",
            "-1 2 3",
            "1 2 99999999999999999999999",
        ] {
            assert_eq!(schedstat(bad.as_bytes()), None, "{bad}");
        }
    }
}
