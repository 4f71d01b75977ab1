//! Reading a family of processes, thread by thread, from descriptors that stay open.
//!
//! **Which CPU time.** The sum of `task/*/schedstat` over the threads that live, plus what ended threads had
//! used: exact to the clock tick of a thread that is running at that instant (4 ms at 250 Hz), and no error
//! adds up. What a thread used between its last reading and its end is recovered from `/proc/PID/stat`, whose
//! `utime + stime` is the scheduler's sum too, ended threads included, rounded down to 10 ms twice: families
//! whose threads come and go read at most 40 ms low over any window. Beyond [`THREADS_MAX`] threads the
//! rounded sum is used alone.
//!
//! **Ended processes.** A child that is waited for shows in its parent's `cutime + cstime`; of that, what was
//! seen before is not counted twice, and children too short-lived to be seen are counted as they end. A child
//! that nobody in the family waits for counts as far as it was seen.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::discover::{Family, server_of};
use crate::groups::{Groups, Hierarchies};
use crate::parse::process::{Schedstat, Stat, schedstat, stat, stat_name, status};
use crate::parse::{decimal_u32, words};
use crate::procfile::{Buffer, contents, is_gone};
use crate::sample::reading::{FamilyDetail, FamilyReading, ThreadDetail};

/// Threads of a family that are read one by one, at the most: each takes a descriptor.
pub(crate) const THREADS_MAX: usize = 256;
/// Processes of a family, at the most: each takes two descriptors.
pub(crate) const PROCESSES_MAX: usize = 256;
const PIDS_SHOWN_MAX: usize = 256;
/// Rounding of a process's `cutime + cstime`: two clock ticks.
const REAPED_ROUNDING_TICKS: u64 = 2;

/// How much of a family is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Counters that the ticks are made of.
    Tick,
    /// And who the threads and processes are, their switches, groups and processors.
    Detail,
}

/// When a process came into the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    /// It ran before sampling began: what it had used by then is not counted.
    Before,
    /// It was started under observation: all that it used counts.
    Now,
}

/// Units of `/proc`, asked once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    pub(crate) tick_ns: u64,
    pub(crate) page_bytes: u64,
}

impl Units {
    pub(crate) fn of_this_kernel() -> Units {
        Units {
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            page_bytes: rustix::param::page_size() as u64,
        }
    }
}

/// A family under observation.
#[derive(Debug)]
pub(crate) struct FamilyReader {
    family: Family,
    /// Processes of the other side, which are never ours.
    excluded: BTreeSet<u32>,
    members: Vec<Member>,
    groups: Groups,
    units: Units,
    ended: Totals,
    /// CPU of ended members that their parents may still report as theirs.
    unclaimed_ns: u64,
    switches_voluntary: u64,
    switches_involuntary: u64,
}

/// Counters of processes that have ended, so that the family's never fall.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    cpu_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
    run_wait_ns: u64,
    slices: u64,
    faults_minor: u64,
    faults_major: u64,
}

impl FamilyReader {
    pub(crate) fn new(
        family: Family,
        excluded: BTreeSet<u32>,
        buffer: &mut Buffer,
    ) -> FamilyReader {
        let mut reader = FamilyReader {
            groups: Groups::new(Hierarchies::mounted()),
            units: Units::of_this_kernel(),
            members: Vec::new(),
            excluded,
            ended: Totals::default(),
            unclaimed_ns: 0,
            switches_voluntary: 0,
            switches_involuntary: 0,
            family,
        };
        for pid in reader.family.pids.clone() {
            reader.admit(pid, Since::Before, buffer);
        }
        reader
    }

    /// Reads everything; a family without a living process reads on with its last totals.
    pub(crate) fn read(
        &mut self,
        depth: Depth,
        span_ns: Option<u64>,
        buffer: &mut Buffer,
    ) -> FamilyReading {
        if depth == Depth::Detail {
            self.refresh(buffer);
        }
        let mut budget = THREADS_MAX;
        let mut reaped_ns = 0;
        let mut at = 0;
        while at < self.members.len() {
            let member = &mut self.members[at];
            let reaped_before = member.stat.reaped_ticks;
            match member.read(&mut budget, self.units, buffer) {
                Ok(()) => {
                    reaped_ns +=
                        member.stat.reaped_ticks.saturating_sub(reaped_before) * self.units.tick_ns;
                    at += 1;
                }
                Err(_) => {
                    let member = self.members.swap_remove(at);
                    let own_ns = (member.cpu_ns as i64 + member.offset_ns).max(0) as u64;
                    self.unclaimed_ns += own_ns + member.stat.reaped_ticks * self.units.tick_ns;
                    self.ended.add(&member.totals());
                    self.switches_voluntary += member
                        .threads
                        .iter()
                        .map(|thread| thread.switches.0)
                        .sum::<u64>();
                    self.switches_involuntary += member
                        .threads
                        .iter()
                        .map(|thread| thread.switches.1)
                        .sum::<u64>();
                }
            }
        }
        self.settle(reaped_ns);
        self.reading(depth, span_ns, buffer)
    }

    /// Adds what parents report of children that were not seen to the end.
    fn settle(&mut self, reaped_ns: u64) {
        if !self.family.follows_children {
            return;
        }
        let seen = reaped_ns.min(self.unclaimed_ns);
        self.ended.cpu_ns += reaped_ns - seen;
        self.unclaimed_ns -= seen;
        if reaped_ns > 0 {
            // The rest was of children that nobody in the family waited for, or is rounding still to come.
            self.unclaimed_ns = self
                .unclaimed_ns
                .min(REAPED_ROUNDING_TICKS * self.units.tick_ns);
        }
    }

    fn reading(
        &mut self,
        depth: Depth,
        span_ns: Option<u64>,
        buffer: &mut Buffer,
    ) -> FamilyReading {
        let throttling = self.groups.throttling(depth == Depth::Detail, buffer);
        let mut totals = self.ended;
        let mut reading = FamilyReading::default();
        let mut hottest_ns = 0;
        for member in &mut self.members {
            totals.add(&member.totals());
            reading.processes += u32::from(!member.is_zombie());
            reading.threads += member.stat.threads;
            reading.rss_bytes += member.stat.rss_pages * self.units.page_bytes;
            if span_ns.is_some() {
                hottest_ns = hottest_ns.max(member.hottest_since_last_tick());
            }
        }
        FamilyReading {
            cpu_ns: totals.cpu_ns,
            user_ticks: totals.user_ticks,
            system_ticks: totals.system_ticks,
            run_wait_ns: totals.run_wait_ns,
            slices: totals.slices,
            faults_minor: totals.faults_minor,
            faults_major: totals.faults_major,
            periods: throttling.periods,
            throttled_periods: throttling.throttled_periods,
            throttled_ns: throttling.throttled_ns,
            hottest_thread_share: match span_ns {
                Some(span_ns) if span_ns > 0 => {
                    (hottest_ns as f64 / span_ns as f64).min(1.0) as f32
                }
                _ => 0.0,
            },
            ..reading
        }
    }

    /// The family thread by thread, after a read in detail.
    pub(crate) fn detail(&self) -> FamilyDetail {
        let threads = || self.members.iter().flat_map(|member| &member.threads);
        let ended = self.members.iter().map(|member| member.ended_switches);
        let (ended_voluntary, ended_involuntary) =
            ended.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        let mut pids: Vec<u32> = self.members.iter().map(|member| member.pid).collect();
        pids.truncate(PIDS_SHOWN_MAX);
        FamilyDetail {
            pids,
            threads: threads()
                .map(|thread| ThreadDetail {
                    tid: thread.tid,
                    name: thread.name.clone(),
                    cpus_allowed: thread.cpus_allowed.clone(),
                    cpu_ns: thread.last.cpu_ns,
                })
                .collect(),
            quota_cores: self.groups.quota_cores(),
            switches_voluntary: self.switches_voluntary
                + ended_voluntary
                + threads().map(|thread| thread.switches.0).sum::<u64>(),
            switches_involuntary: self.switches_involuntary
                + ended_involuntary
                + threads().map(|thread| thread.switches.1).sum::<u64>(),
        }
    }

    /// Takes in new children, looks for a server that was started anew, and asks who is in which group.
    fn refresh(&mut self, buffer: &mut Buffer) {
        if self.family.follows_children {
            let mut at = 0;
            while at < self.members.len() {
                for child in self.members[at].children(buffer) {
                    self.admit(child, Since::Now, buffer);
                }
                at += 1;
            }
        }
        if self.members.is_empty()
            && let Some(address) = self.family.address
            && let Ok(anew) = server_of(address)
        {
            for pid in anew.pids {
                self.admit(pid, Since::Now, buffer);
            }
        }
        self.groups.begin();
        for member in &mut self.members {
            if let Ok(bytes) = buffer.read(&member.cgroup) {
                let bytes = bytes.to_vec();
                self.groups.place(&bytes, buffer);
            }
            for thread in &mut member.threads {
                thread.read_status(&member.task);
            }
        }
    }

    fn admit(&mut self, pid: u32, since: Since, buffer: &mut Buffer) {
        let known = self.members.iter().any(|member| member.pid == pid);
        if known || self.excluded.contains(&pid) || self.members.len() >= PROCESSES_MAX {
            return;
        }
        self.members.extend(Member::open(pid, since, buffer));
    }
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.cpu_ns += other.cpu_ns;
        self.user_ticks += other.user_ticks;
        self.system_ticks += other.system_ticks;
        self.run_wait_ns += other.run_wait_ns;
        self.slices += other.slices;
        self.faults_minor += other.faults_minor;
        self.faults_major += other.faults_major;
    }
}

/// One process.
#[derive(Debug)]
struct Member {
    pid: u32,
    task: PathBuf,
    stat_file: File,
    cgroup: File,
    threads: Vec<Thread>,
    /// Whether all threads are read one by one.
    complete: bool,
    stat: Stat,
    /// CPU of the whole process.
    cpu_ns: u64,
    /// Of ended threads.
    ended: Schedstat,
    ended_switches: (u64, u64),
    /// What `stat` said more (or less) than the threads when sampling began: threads that had ended by then.
    offset_ns: i64,
}

impl Member {
    fn open(pid: u32, since: Since, buffer: &mut Buffer) -> Option<Member> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat_file = File::open(folder.join("stat")).ok()?;
        let stat = stat(buffer.read(&stat_file).ok()?)?;
        let mut member = Member {
            pid,
            cgroup: File::open(folder.join("cgroup")).ok()?,
            task: folder.join("task"),
            stat_file,
            threads: Vec::new(),
            complete: true,
            stat,
            cpu_ns: 0,
            ended: Schedstat::default(),
            ended_switches: (0, 0),
            offset_ns: 0,
        };
        let units = Units::of_this_kernel();
        let mut budget = THREADS_MAX;
        member.list_threads(&mut budget, buffer);
        member.read_threads(buffer);
        if since == Since::Before {
            member.offset_ns = member.stat_cpu_ns(units) as i64 - member.threads_cpu_ns() as i64;
        }
        member.cpu_ns = member.threads_cpu_ns();
        Some(member)
    }

    /// Brings all counters up to date; an error means that the process has ended.
    fn read(&mut self, budget: &mut usize, units: Units, buffer: &mut Buffer) -> io::Result<()> {
        let bytes = buffer.read(&self.stat_file)?;
        self.stat = stat(bytes).ok_or(io::ErrorKind::InvalidData)?;
        let ended = self.read_threads(buffer);
        let listed = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        if ended || (self.complete && listed != self.stat.threads) {
            self.list_threads(budget, buffer);
        }
        *budget = budget.saturating_sub(self.threads.len());
        self.count_cpu(units);
        Ok(())
    }

    /// See the head of this module. Never falls.
    fn count_cpu(&mut self, units: Units) {
        let rounded = (self.stat_cpu_ns(units) as i64 - self.offset_ns).max(0) as u64;
        if self.complete {
            let lost_ns = rounded.saturating_sub(self.threads_cpu_ns() + 2 * units.tick_ns);
            self.ended.cpu_ns += lost_ns;
            self.cpu_ns = self.cpu_ns.max(self.threads_cpu_ns());
        } else {
            self.cpu_ns = self.cpu_ns.max(rounded);
        }
    }

    fn stat_cpu_ns(&self, units: Units) -> u64 {
        (self.stat.user_ticks + self.stat.system_ticks) * units.tick_ns
    }

    fn threads_cpu_ns(&self) -> u64 {
        self.ended.cpu_ns
            + self
                .threads
                .iter()
                .map(|thread| thread.last.cpu_ns)
                .sum::<u64>()
    }

    /// Reads the known threads; says whether some have ended.
    fn read_threads(&mut self, buffer: &mut Buffer) -> bool {
        let before = self.threads.len();
        let (ended, ended_switches) = (&mut self.ended, &mut self.ended_switches);
        self.threads.retain_mut(|thread| match thread.read(buffer) {
            Ok(()) => true,
            Err(error) if is_gone(&error) => {
                ended.cpu_ns += thread.last.cpu_ns;
                ended.run_wait_ns += thread.last.run_wait_ns;
                ended.slices += thread.last.slices;
                ended_switches.0 += thread.switches.0;
                ended_switches.1 += thread.switches.1;
                false
            }
            Err(_) => true,
        });
        self.threads.len() < before
    }

    /// Opens threads that are new.
    fn list_threads(&mut self, budget: &mut usize, buffer: &mut Buffer) {
        let Ok(entries) = fs::read_dir(&self.task) else {
            return;
        };
        self.complete = true;
        for entry in entries.flatten() {
            let Some(tid) = decimal_u32(entry.file_name().as_encoded_bytes()) else {
                continue;
            };
            if self.threads.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            if self.threads.len() >= *budget {
                self.complete = false;
                return;
            }
            self.threads.extend(Thread::open(tid, &self.task, buffer));
        }
    }

    fn totals(&self) -> Totals {
        let threads = |value: fn(&Schedstat) -> u64| {
            self.threads
                .iter()
                .map(|thread| value(&thread.last))
                .sum::<u64>()
        };
        Totals {
            cpu_ns: self.cpu_ns,
            user_ticks: self.stat.user_ticks,
            system_ticks: self.stat.system_ticks,
            run_wait_ns: self.ended.run_wait_ns + threads(|last| last.run_wait_ns),
            slices: self.ended.slices + threads(|last| last.slices),
            faults_minor: self.stat.faults_minor,
            faults_major: self.stat.faults_major,
        }
    }

    fn is_zombie(&self) -> bool {
        self.stat.state == b'Z' && self.stat.threads <= 1
    }

    fn hottest_since_last_tick(&mut self) -> u64 {
        let used = self.threads.iter_mut().map(Thread::used_since_last_tick);
        used.max().unwrap_or(0)
    }

    /// Children that any of the threads started.
    fn children(&self, _buffer: &mut Buffer) -> Vec<u32> {
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
struct Thread {
    tid: u32,
    name: Arc<str>,
    schedstat: File,
    cpus_allowed: Arc<[u32]>,
    last: Schedstat,
    cpu_ns_at_tick: u64,
    /// Voluntary and involuntary.
    switches: (u64, u64),
}

impl Thread {
    fn open(tid: u32, task: &std::path::Path, buffer: &mut Buffer) -> Option<Thread> {
        let folder = task.join(tid.to_string());
        let mut thread = Thread {
            tid,
            name: Arc::from(""),
            schedstat: File::open(folder.join("schedstat")).ok()?,
            cpus_allowed: Arc::from([]),
            last: Schedstat::default(),
            cpu_ns_at_tick: 0,
            switches: (0, 0),
        };
        thread.read(buffer).ok()?;
        thread.cpu_ns_at_tick = thread.last.cpu_ns;
        thread.read_status(task);
        Some(thread)
    }

    fn read(&mut self, buffer: &mut Buffer) -> io::Result<()> {
        let bytes = buffer.read(&self.schedstat)?;
        self.last = schedstat(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(())
    }

    fn read_status(&mut self, task: &std::path::Path) {
        let folder = task.join(self.tid.to_string());
        let Some(status) = contents(folder.join("status"))
            .ok()
            .and_then(|bytes| status(&bytes))
        else {
            return;
        };
        self.switches = (status.switches_voluntary, status.switches_involuntary);
        if *self.cpus_allowed != status.cpus_allowed[..] {
            self.cpus_allowed = Arc::from(status.cpus_allowed);
        }
        if self.name.is_empty()
            && let Ok(bytes) = contents(folder.join("stat"))
        {
            self.name = Arc::from(stat_name(&bytes).unwrap_or_default());
        }
    }

    fn used_since_last_tick(&mut self) -> u64 {
        let used = self.last.cpu_ns.saturating_sub(self.cpu_ns_at_tick);
        self.cpu_ns_at_tick = self.last.cpu_ns;
        used
    }
}
