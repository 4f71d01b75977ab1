//! Reading one process, thread by thread, from descriptors that stay open.
//!
//! **Which CPU time.** The sum of `task/*/schedstat` over the threads that live, plus what ended
//! threads had used: exact to the clock tick of a thread that is running at that instant (4 ms at
//! 250 Hz), and no error adds up. (`/proc/PID/schedstat` itself is the first thread's alone.) What
//! a thread used between its last reading and its end is recovered from `/proc/PID/stat`, whose
//! `utime + stime` is the scheduler's sum too, ended threads included, rounded down to 10 ms twice:
//! a process whose threads come and go reads at most 40 ms low over any window. Where threads
//! cannot all be read one by one (too many of them, or no descriptors left), that rounded sum is
//! used alone, and the time spent waiting to run is that of the threads that are read. A thread that
//! is read only from later on counts from then: what it did before is in that sum alone.
//!
//! Interrupts that come while a thread runs are in its time, as the kernel counts it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::online;
use crate::parse::process::{Schedstat, Stat, schedstat, stat, status};
use crate::parse::{decimal_u32, words};
use crate::procfile::{Buffer, contents, is_gone};
use crate::sample::family::Totals;

/// When a process came into the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// It ran before sampling began: what it had used by then is not counted.
    Before,
    /// It was started under observation: all that it used counts.
    Now,
}

/// Units of `/proc`, asked once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    tick_ns: u64,
    page_bytes: u64,
}

impl Units {
    pub(crate) fn of_this_kernel() -> Units {
        Units {
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            page_bytes: rustix::param::page_size() as u64,
        }
    }

    pub(crate) fn ns(self, ticks: u64) -> u64 {
        ticks * self.tick_ns
    }

    pub(crate) fn bytes(self, pages: u64) -> u64 {
        pages * self.page_bytes
    }

    /// How far a sum of two rounded times may be below the truth.
    pub(crate) fn rounding_ns(self) -> u64 {
        2 * self.tick_ns
    }
}

/// One process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) cgroup: File,
    pub(crate) threads: Vec<Thread>,
    task: PathBuf,
    stat_file: File,
    stat: Stat,
    /// Whether all threads are read one by one.
    complete: bool,
    /// CPU of the whole process, as counted here; never falls.
    cpu_ns: u64,
    /// Counters of threads that have ended.
    ended: Schedstat,
    ended_switches: (u64, u64),
    /// What `stat` says more (or less) than what is counted here: by threads that had ended when
    /// sampling began, and by what those that were not read had used by then.
    offset_ns: i64,
}

impl Member {
    /// An error may mean that the process is gone already; see [`is_gone`].
    pub(crate) fn open(
        pid: u32,
        since: Since,
        threads_left: usize,
        units: Units,
        buffer: &mut Buffer,
    ) -> io::Result<Member> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        Member::open_in(&folder, pid, since, threads_left, units, buffer)
    }

    fn open_in(
        folder: &Path,
        pid: u32,
        since: Since,
        threads_left: usize,
        units: Units,
        buffer: &mut Buffer,
    ) -> io::Result<Member> {
        let stat_file = File::open(folder.join("stat"))?;
        let stat = stat(buffer.read(&stat_file)?).ok_or(io::ErrorKind::InvalidData)?;
        let mut member = Member {
            pid,
            cgroup: File::open(folder.join("cgroup"))?,
            threads: Vec::new(),
            task: folder.join("task"),
            stat_file,
            stat,
            complete: true,
            cpu_ns: 0,
            ended: Schedstat::default(),
            ended_switches: (0, 0),
            offset_ns: 0,
        };
        member.list_threads(threads_left, buffer);
        if since == Since::Before {
            member.offset_ns = member.stat_cpu_ns(units) as i64 - member.threads_cpu_ns() as i64;
        }
        member.cpu_ns = member.threads_cpu_ns();
        Ok(member)
    }

    /// Brings all counters up to date and takes its threads from `threads_left`; an error means
    /// that the process has ended.
    pub(crate) fn read(
        &mut self,
        threads_left: &mut usize,
        units: Units,
        buffer: &mut Buffer,
    ) -> io::Result<()> {
        let bytes = buffer.read(&self.stat_file)?;
        self.stat = stat(bytes).ok_or(io::ErrorKind::InvalidData)?;
        self.read_threads(buffer);
        let was_complete = self.complete;
        if self.threads.len() != self.stat.threads as usize {
            self.list_threads(*threads_left, buffer);
        }
        *threads_left = threads_left.saturating_sub(self.threads.len());
        if self.complete && !was_complete {
            self.join_counts(units);
        } else {
            self.count_cpu(units);
        }
        Ok(())
    }

    /// All threads are read from here on: the process's sum counts once more, and what the threads
    /// count goes on from it.
    fn join_counts(&mut self, units: Units) {
        let rounded_ns = self.rounded_ns(units);
        let seen_ns = self.threads_cpu_ns();
        self.cpu_ns = self.cpu_ns.max(rounded_ns).max(seen_ns);
        self.ended.cpu_ns += self.cpu_ns - seen_ns;
        self.offset_ns = self.stat_cpu_ns(units) as i64 - self.cpu_ns as i64;
    }

    /// See the head of this module.
    fn count_cpu(&mut self, units: Units) {
        let rounded_ns = self.rounded_ns(units);
        if self.complete {
            let seen_ns = self.threads_cpu_ns();
            self.ended.cpu_ns += rounded_ns.saturating_sub(seen_ns + units.rounding_ns());
            self.cpu_ns = self.cpu_ns.max(self.threads_cpu_ns());
        } else {
            self.cpu_ns = self.cpu_ns.max(rounded_ns);
        }
    }

    fn stat_cpu_ns(&self, units: Units) -> u64 {
        units.ns(self.stat.user_ticks + self.stat.system_ticks)
    }

    /// CPU of the whole process by its sum.
    fn rounded_ns(&self, units: Units) -> u64 {
        (self.stat_cpu_ns(units) as i64 - self.offset_ns).max(0) as u64
    }

    fn threads_cpu_ns(&self) -> u64 {
        let living = self.threads.iter().map(|thread| thread.counted().cpu_ns);
        self.ended.cpu_ns + living.sum::<u64>()
    }

    /// Reads the known threads; those that have ended leave their counters behind.
    fn read_threads(&mut self, buffer: &mut Buffer) {
        let (ended, switches) = (&mut self.ended, &mut self.ended_switches);
        self.threads.retain_mut(|thread| match thread.read(buffer) {
            Err(error) if is_gone(&error) => {
                let counted = thread.counted();
                ended.cpu_ns += counted.cpu_ns;
                ended.run_wait_ns += counted.run_wait_ns;
                ended.slices += counted.slices;
                let switched = thread.counted_switches();
                switches.0 += switched.0;
                switches.1 += switched.1;
                false
            }
            Ok(()) | Err(_) => true,
        });
    }

    /// Opens threads that are new, or that could not be read before.
    fn list_threads(&mut self, threads_max: usize, buffer: &mut Buffer) {
        let Ok(entries) = fs::read_dir(&self.task) else {
            self.complete = false;
            return;
        };
        let late = !self.complete;
        self.complete = true;
        for entry in entries.flatten() {
            let Some(tid) = decimal_u32(entry.file_name().as_encoded_bytes()) else {
                continue;
            };
            if self.threads.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            if self.threads.len() >= threads_max {
                self.complete = false;
                return;
            }
            match Thread::open(tid, &self.task, buffer) {
                Ok(mut thread) => {
                    if late {
                        thread.count_from_here();
                    }
                    self.threads.push(thread);
                }
                Err(error) if is_gone(&error) => {}
                Err(_) => self.complete = false,
            }
        }
    }

    /// Brings switches, names and processors of the threads up to date.
    pub(crate) fn read_statuses(&mut self) {
        for thread in &mut self.threads {
            thread.read_status(&self.task);
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals {
            cpu_ns: self.cpu_ns,
            user_ticks: self.stat.user_ticks,
            system_ticks: self.stat.system_ticks,
            run_wait_ns: self.ended.run_wait_ns,
            slices: self.ended.slices,
            faults_minor: self.stat.faults_minor,
            faults_major: self.stat.faults_major,
            switches_voluntary: self.ended_switches.0,
            switches_involuntary: self.ended_switches.1,
        };
        for thread in &self.threads {
            let counted = thread.counted();
            totals.run_wait_ns += counted.run_wait_ns;
            totals.slices += counted.slices;
            let switched = thread.counted_switches();
            totals.switches_voluntary += switched.0;
            totals.switches_involuntary += switched.1;
        }
        totals
    }

    /// All CPU time since the process began, also from before it was looked at.
    pub(crate) fn lifetime_ns(&self) -> u64 {
        (self.cpu_ns as i64 + self.offset_ns).max(0) as u64
    }

    /// CPU time of children that were waited for, and theirs.
    pub(crate) fn reaped_ns(&self, units: Units) -> u64 {
        units.ns(self.stat.reaped_ticks)
    }

    pub(crate) fn threads(&self) -> u32 {
        self.stat.threads
    }

    pub(crate) fn rss_bytes(&self, units: Units) -> u64 {
        units.bytes(self.stat.rss_pages)
    }

    /// Ended, and not waited for yet; a process whose first thread alone has ended lives on.
    pub(crate) fn is_zombie(&self) -> bool {
        self.stat.is_zombie()
    }

    pub(crate) fn hottest_since_last_tick(&mut self) -> u64 {
        let used = self.threads.iter_mut().map(Thread::used_since_last_tick);
        used.max().unwrap_or(0)
    }

    /// Children that any of the threads started.
    pub(crate) fn children(&self) -> Vec<u32> {
        let mut children = Vec::new();
        for thread in &self.threads {
            let file = self.task.join(thread.tid.to_string()).join("children");
            let bytes = contents(file).unwrap_or_default();
            children.extend(words(&bytes).filter_map(decimal_u32));
        }
        children
    }
}

/// One thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) name: Arc<str>,
    pub(crate) cpus_allowed: Arc<[u32]>,
    last: Schedstat,
    /// Where counting begins: at zero, or at what it had when it was opened late.
    first: Schedstat,
    schedstat: File,
    cpu_ns_at_tick: u64,
    /// Voluntary and involuntary.
    switches: (u64, u64),
    switches_first: (u64, u64),
}

impl Thread {
    fn open(tid: u32, task: &Path, buffer: &mut Buffer) -> io::Result<Thread> {
        let folder = task.join(tid.to_string());
        let mut thread = Thread {
            tid,
            name: Arc::from(""),
            cpus_allowed: Arc::from([]),
            last: Schedstat::default(),
            first: Schedstat::default(),
            schedstat: File::open(folder.join("schedstat"))?,
            cpu_ns_at_tick: 0,
            switches: (0, 0),
            switches_first: (0, 0),
        };
        thread.read(buffer)?;
        thread.cpu_ns_at_tick = thread.last.cpu_ns;
        thread.read_status(task);
        Ok(thread)
    }

    /// What it did before is not counted.
    fn count_from_here(&mut self) {
        self.first = self.last;
        self.switches_first = self.switches;
    }

    /// What it did since counting began.
    pub(crate) fn counted(&self) -> Schedstat {
        let (last, first) = (self.last, self.first);
        Schedstat {
            cpu_ns: last.cpu_ns.saturating_sub(first.cpu_ns),
            run_wait_ns: last.run_wait_ns.saturating_sub(first.run_wait_ns),
            slices: last.slices.saturating_sub(first.slices),
        }
    }

    /// Voluntary and involuntary, likewise.
    fn counted_switches(&self) -> (u64, u64) {
        let (last, first) = (self.switches, self.switches_first);
        (
            last.0.saturating_sub(first.0),
            last.1.saturating_sub(first.1),
        )
    }

    fn read(&mut self, buffer: &mut Buffer) -> io::Result<()> {
        let bytes = buffer.read(&self.schedstat)?;
        self.last = schedstat(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(())
    }

    fn read_status(&mut self, task: &Path) {
        let folder = task.join(self.tid.to_string());
        let Some(status) = contents(folder.join("status"))
            .ok()
            .and_then(|bytes| status(&bytes))
        else {
            return;
        };
        self.switches = (status.switches_voluntary, status.switches_involuntary);
        let cpus_allowed = online::only(status.cpus_allowed);
        if *self.cpus_allowed != cpus_allowed[..] {
            self.cpus_allowed = Arc::from(cpus_allowed);
        }
        // Threads name themselves after they have started, some of them late.
        if let Ok(bytes) = contents(folder.join("comm")) {
            let name = String::from_utf8_lossy(bytes.trim_ascii_end());
            if *self.name != *name {
                self.name = Arc::from(name);
            }
        }
    }

    fn used_since_last_tick(&mut self) -> u64 {
        let used = self.last.cpu_ns.saturating_sub(self.cpu_ns_at_tick);
        self.cpu_ns_at_tick = self.last.cpu_ns;
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units {
        tick_ns: 10_000_000,
        page_bytes: 4_096,
    };

    /// A folder that stands for `/proc/PID` of a process with two threads that do the same.
    struct Twins {
        folder: PathBuf,
    }

    impl Twins {
        fn new(name: &str, used_ms: u64) -> Twins {
            let name = format!("wf-test-member-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            for tid in ["1", "2"] {
                fs::create_dir_all(folder.join("task").join(tid)).unwrap();
            }
            fs::write(folder.join("cgroup"), "").unwrap();
            let twins = Twins { folder };
            twins.used(used_ms);
            twins
        }

        /// Each has used so much, waited ten times as long, and was put on a processor once in 1 ms.
        fn used(&self, used_ms: u64) {
            let (used_ns, waited_ns) = (used_ms * 1_000_000, used_ms * 10_000_000);
            let schedstat = format!("{used_ns} {waited_ns} {used_ms}\n");
            let status = format!(
                "Name:\tx\nUid:\t0\t0\t0\t0\nThreads:\t2\nCpus_allowed_list:\t0\n\
                 voluntary_ctxt_switches:\t{used_ms}\nnonvoluntary_ctxt_switches:\t{used_ms}\n"
            );
            for tid in ["1", "2"] {
                let task = self.folder.join("task").join(tid);
                fs::write(task.join("schedstat"), &schedstat).unwrap();
                fs::write(task.join("status"), &status).unwrap();
            }
            let ticks = 2 * used_ms / 10;
            let stat = format!("7 (x) S 1 7 7 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 2 0 5 0 9 1\n");
            fs::write(self.folder.join("stat"), stat).unwrap();
        }

        fn open(&self, since: Since, threads_left: usize, buffer: &mut Buffer) -> Member {
            Member::open_in(&self.folder, 7, since, threads_left, UNITS, buffer).unwrap()
        }
    }

    impl Drop for Twins {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn read(member: &mut Member, mut threads_left: usize, buffer: &mut Buffer) -> Totals {
        member.read(&mut threads_left, UNITS, buffer).unwrap();
        member.read_statuses();
        member.totals()
    }

    #[test]
    fn a_thread_that_is_opened_late_counts_from_then_on() {
        let mut buffer = Buffer::new();
        let twins = Twins::new("late", 500);
        let mut member = twins.open(Since::Before, 1, &mut buffer);
        let begin = read(&mut member, 1, &mut buffer);
        twins.used(600);
        let one_read = read(&mut member, 1, &mut buffer);
        assert_eq!(one_read.cpu_ns - begin.cpu_ns, 200_000_000, "of both");
        assert_eq!(one_read.run_wait_ns - begin.run_wait_ns, 1_000_000_000);

        let both_read = read(&mut member, 2, &mut buffer);
        assert_eq!(member.threads.len(), 2);
        assert_eq!(both_read.cpu_ns, one_read.cpu_ns, "nothing ran between");
        assert_eq!(both_read.run_wait_ns, one_read.run_wait_ns);
        assert_eq!(both_read.slices, one_read.slices);
        assert_eq!(both_read.switches_voluntary, one_read.switches_voluntary);
        let lifetime_ns = member.lifetime_ns();
        assert_eq!(lifetime_ns, 1_200_000_000, "as ever");

        twins.used(700);
        let later = read(&mut member, 2, &mut buffer);
        assert_eq!(later.cpu_ns - both_read.cpu_ns, 200_000_000);
        assert_eq!(later.run_wait_ns - both_read.run_wait_ns, 2_000_000_000);
        assert_eq!(later.slices - both_read.slices, 200);
        assert_eq!(member.threads[0].counted().cpu_ns, 700_000_000);
        let late = member.threads[1].counted();
        assert_eq!(late.cpu_ns, 100_000_000, "since it is read");
    }

    #[test]
    fn threads_of_a_process_that_is_read_whole_count_from_their_beginning() {
        let mut buffer = Buffer::new();
        let twins = Twins::new("whole", 500);
        let mut member = twins.open(Since::Now, 2, &mut buffer);
        let totals = read(&mut member, 2, &mut buffer);
        assert_eq!(totals.cpu_ns, 1_000_000_000);
        assert_eq!((totals.slices, totals.switches_voluntary), (1_000, 1_000));
    }
}
