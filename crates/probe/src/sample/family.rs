//! Reading a family of processes.
//!
//! **Ended processes.** A child that is waited for shows in its parent's `cutime + cstime`; of
//! that, what was seen before is not counted twice, and children too short-lived to be seen are
//! counted as they end. A child that nobody in the family waits for counts as far as it was seen.
//!
//! **Large families.** Beyond [`PROCESSES_MAX`] processes one counts by [`Outline`], read with the
//! details; children that it starts count when it has waited for them. Beyond [`OUTLINES_MAX`] of
//! those a reading says that it is partial, and where a process that lives cannot be opened.
//!
//! How one process is read, and which CPU time is meant, stands in [`super::member`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::discover::{Family, server_of};
use crate::groups::{Groups, Hierarchies};
use crate::procfile::{Buffer, is_gone};
use crate::reference_loop::THREAD;
use crate::sample::member::{Member, Since, Units};
use crate::sample::outline::Outline;
use crate::sample::reading::{FamilyDetail, FamilyReading, ThreadDetail};

/// Threads of a family that are read one by one, at the most: each takes a descriptor and some 2 µs
/// a tick.
const THREADS_MAX: usize = 512;
/// Processes of a family that are read thread by thread, at the most: each takes two descriptors.
const PROCESSES_MAX: usize = 256;
/// Further processes of a family that are counted, at the most: each takes one file opened and read
/// with every reading in detail.
const OUTLINES_MAX: usize = 4_096;
/// A server that is gone is looked for at every so many readings in detail.
const SEARCH_EVERY: u32 = 2;

/// How much of a family is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Counters that the ticks are made of.
    Tick,
    /// And who the threads and processes are, their switches, groups and processors.
    Detail,
}

/// A family under observation.
#[derive(Debug)]
pub(crate) struct FamilyReader {
    family: Family,
    /// Processes of the other side, which are never ours.
    excluded: BTreeSet<u32>,
    members: Vec<Member>,
    /// Those beyond the first, by process id.
    outlines: BTreeMap<u32, Outline>,
    /// Whether there were more than can be counted, or some that could not be opened.
    is_partial: bool,
    groups: Groups,
    units: Units,
    ended: Totals,
    /// CPU of ended members that their parents may still report as theirs.
    unclaimed_ns: u64,
    /// CPU of children that parents have reported, and that is yet to be set against that.
    reaped_ns: u64,
    searches: u32,
}

/// How closely a process is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closeness {
    Threads,
    Outline,
    NotAtAll,
}

/// How closely one more process of a family is looked at.
fn closeness(members: usize, outlines: usize) -> Closeness {
    match (members < PROCESSES_MAX, outlines < OUTLINES_MAX) {
        (true, _) => Closeness::Threads,
        (false, true) => Closeness::Outline,
        (false, false) => Closeness::NotAtAll,
    }
}

/// Counters of a process, or of those that have ended, so that the family's never fall.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) cpu_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) run_wait_ns: u64,
    pub(crate) slices: u64,
    pub(crate) faults_minor: u64,
    pub(crate) faults_major: u64,
    pub(crate) switches_voluntary: u64,
    pub(crate) switches_involuntary: u64,
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
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
    }
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
            outlines: BTreeMap::new(),
            is_partial: false,
            excluded,
            ended: Totals::default(),
            unclaimed_ns: 0,
            reaped_ns: 0,
            searches: 0,
            family,
        };
        for pid in reader.family.pids.clone() {
            reader.admit(pid, Since::Before, buffer);
        }
        reader
    }

    /// Reads everything; a family without a living process reads on with its last totals. `span_ns`
    /// is the time since the last tick, when this is one.
    pub(crate) fn read(
        &mut self,
        depth: Depth,
        span_ns: Option<u64>,
        buffer: &mut Buffer,
    ) -> FamilyReading {
        if depth == Depth::Detail {
            self.refresh(buffer);
        }
        let mut threads_left = THREADS_MAX;
        let mut at = 0;
        while let Some(member) = self.members.get_mut(at) {
            let reaped_before_ns = member.reaped_ns(self.units);
            match member.read(&mut threads_left, self.units, buffer) {
                Ok(()) => {
                    self.reaped_ns += member
                        .reaped_ns(self.units)
                        .saturating_sub(reaped_before_ns);
                    at += 1;
                }
                Err(_) => self.bury(at),
            }
        }
        if depth == Depth::Detail {
            self.read_outlines(buffer);
        }
        self.settle(depth);
        self.reading(depth, span_ns, buffer)
    }

    /// Keeps what an ended process had counted.
    fn bury(&mut self, at: usize) {
        let member = self.members.remove(at);
        self.unclaimed_ns += member.lifetime_ns() + member.reaped_ns(self.units);
        self.ended.add(&member.totals());
    }

    /// Brings those beyond the first up to date, and keeps what ended ones had counted.
    fn read_outlines(&mut self, buffer: &mut Buffer) {
        let (units, reaped_ns) = (self.units, &mut self.reaped_ns);
        let (unclaimed_ns, ended) = (&mut self.unclaimed_ns, &mut self.ended);
        self.outlines.retain(|_, outline| {
            let reaped_before_ns = outline.reaped_ns(units);
            if outline.read(buffer) {
                *reaped_ns += outline.reaped_ns(units).saturating_sub(reaped_before_ns);
                return true;
            }
            let totals = outline.totals(units);
            *unclaimed_ns += totals.cpu_ns + reaped_before_ns;
            ended.add(&totals);
            false
        });
    }

    /// Adds what parents report of children that were not seen to the end. Which of those beyond
    /// the first have ended is known with the details.
    fn settle(&mut self, depth: Depth) {
        if depth == Depth::Tick && !self.outlines.is_empty() {
            return;
        }
        let reaped_ns = std::mem::take(&mut self.reaped_ns);
        if !self.family.follows_children || reaped_ns == 0 {
            return;
        }
        let seen_ns = reaped_ns.min(self.unclaimed_ns);
        self.ended.cpu_ns += reaped_ns - seen_ns;
        // What is left was of children that nobody in the family waited for, or is rounding still
        // to come.
        self.unclaimed_ns = (self.unclaimed_ns - seen_ns).min(self.units.rounding_ns());
    }

    fn reading(
        &mut self,
        depth: Depth,
        span_ns: Option<u64>,
        buffer: &mut Buffer,
    ) -> FamilyReading {
        let throttling = self.groups.throttling(depth == Depth::Detail, buffer);
        let totals = self.totals();
        let hottest_ns = match span_ns {
            Some(_) => self
                .members
                .iter_mut()
                .map(Member::hottest_since_last_tick)
                .max(),
            None => None,
        };
        let share = hottest_ns.unwrap_or(0) as f64 / span_ns.unwrap_or(0).max(1) as f64;
        let members = self.members.iter();
        let outlines = self.outlines.values();
        let living = members.clone().filter(|member| !member.is_zombie()).count()
            + outlines.clone().filter(|one| !one.is_zombie()).count();
        FamilyReading {
            processes: count(living),
            threads: members
                .clone()
                .map(Member::threads)
                .chain(outlines.clone().map(Outline::threads))
                .sum(),
            cpu_ns: totals.cpu_ns,
            user_ticks: totals.user_ticks,
            system_ticks: totals.system_ticks,
            run_wait_ns: totals.run_wait_ns,
            slices: totals.slices,
            faults_minor: totals.faults_minor,
            faults_major: totals.faults_major,
            rss_bytes: members
                .map(|member| member.rss_bytes(self.units))
                .chain(outlines.map(|one| one.rss_bytes(self.units)))
                .sum(),
            periods: throttling.periods,
            throttled_periods: throttling.throttled_periods,
            throttled_ns: throttling.throttled_ns,
            hottest_thread_share: share.min(1.0) as f32,
            is_partial: self.is_partial,
        }
    }

    fn totals(&self) -> Totals {
        let mut totals = self.ended;
        for member in &self.members {
            totals.add(&member.totals());
        }
        for outline in self.outlines.values() {
            totals.add(&outline.totals(self.units));
        }
        totals
    }

    /// The family thread by thread, after a read in detail.
    pub(crate) fn detail(&self) -> FamilyDetail {
        let totals = self.totals();
        // Threads of our own that stand on the other side's processors do not work there.
        let is_reference_loop = |pid: u32, name: &str| pid == std::process::id() && name == THREAD;
        let threads = self.members.iter().flat_map(|member| {
            let threads = member.threads.iter();
            threads.filter(|thread| !is_reference_loop(member.pid, &thread.name))
        });
        FamilyDetail {
            pids: self.members.iter().map(|member| member.pid).collect(),
            threads: threads
                .map(|thread| ThreadDetail {
                    tid: thread.tid,
                    name: thread.name.clone(),
                    cpus_allowed: thread.cpus_allowed.clone(),
                    cpu_ns: thread.counted().cpu_ns,
                })
                .collect(),
            quota_cores: self.groups.quota_cores(),
            switches_voluntary: totals.switches_voluntary,
            switches_involuntary: totals.switches_involuntary,
        }
    }

    /// Takes in new children, looks for a server that was started anew, and asks who is in which
    /// group.
    fn refresh(&mut self, buffer: &mut Buffer) {
        if self.family.follows_children {
            let mut at = 0;
            while let Some(member) = self.members.get(at) {
                for child in member.children() {
                    self.admit(child, Since::Now, buffer);
                }
                at += 1;
            }
        }
        if self.members.is_empty() {
            self.search(buffer);
        }
        self.groups.begin();
        for member in &mut self.members {
            member.read_statuses();
            if let Ok(bytes) = buffer.read(&member.cgroup) {
                let bytes = bytes.to_vec();
                self.groups.place(&bytes, buffer);
            }
        }
    }

    /// Looks now and then whether somebody listens again where the family was found.
    fn search(&mut self, buffer: &mut Buffer) {
        self.searches += 1;
        if self.searches.is_multiple_of(SEARCH_EVERY) {
            self.find_again(buffer);
        }
    }

    /// Takes in who listens now where the family was found, beside those of it that still run: a server
    /// that was started anew.
    pub(crate) fn find_again(&mut self, buffer: &mut Buffer) {
        let found = self
            .family
            .address
            .and_then(|address| server_of(address).ok());
        for pid in found.into_iter().flat_map(|family| family.pids) {
            self.admit(pid, Since::Now, buffer);
        }
    }

    fn admit(&mut self, pid: u32, since: Since, buffer: &mut Buffer) {
        let known =
            self.members.iter().any(|member| member.pid == pid) || self.outlines.contains_key(&pid);
        if known || self.excluded.contains(&pid) {
            return;
        }
        match closeness(self.members.len(), self.outlines.len()) {
            Closeness::Threads => {
                let taken: usize = self.members.iter().map(|member| member.threads.len()).sum();
                let threads_left = THREADS_MAX.saturating_sub(taken);
                let member = Member::open(pid, since, threads_left, self.units, buffer);
                let member = self.opened(member);
                self.members.extend(member);
            }
            Closeness::Outline => {
                let outline = self.opened(Outline::open(pid, buffer));
                self.outlines.extend(outline.map(|outline| (pid, outline)));
            }
            Closeness::NotAtAll => self.is_partial = true,
        }
    }

    /// A process that cannot be opened is gone, or is one that is not counted.
    fn opened<T>(&mut self, process: io::Result<T>) -> Option<T> {
        match process {
            Ok(process) => Some(process),
            Err(error) => {
                self.is_partial |= !is_gone(&error);
                None
            }
        }
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::process::Stat;

    #[test]
    fn only_what_is_beyond_thousands_is_not_counted() {
        assert_eq!(closeness(0, 0), Closeness::Threads);
        assert_eq!(closeness(PROCESSES_MAX, 0), Closeness::Outline);
        let all_but_one = OUTLINES_MAX - 1;
        assert_eq!(closeness(PROCESSES_MAX, all_but_one), Closeness::Outline);
        let last = closeness(PROCESSES_MAX, OUTLINES_MAX);
        assert_eq!(last, Closeness::NotAtAll);
        let room_again = closeness(PROCESSES_MAX - 1, OUTLINES_MAX);
        assert_eq!(room_again, Closeness::Threads);
    }

    #[test]
    fn a_process_that_cannot_be_opened_is_missing_unless_it_is_gone() {
        let mut buffer = Buffer::new();
        let family = Family::default();
        let mut reader = FamilyReader::new(family, BTreeSet::new(), &mut buffer);
        // No process has this number.
        reader.admit(u32::MAX, Since::Now, &mut buffer);
        assert!(!reader.is_partial);
        let no_descriptors = io::Error::from_raw_os_error(24);
        assert!(reader.opened::<Member>(Err(no_descriptors)).is_none());
        assert!(reader.read(Depth::Tick, None, &mut buffer).is_partial);
    }

    #[test]
    fn a_child_beyond_the_first_that_ends_is_counted_once() {
        let mut buffer = Buffer::new();
        let family = Family {
            follows_children: true,
            ..Family::default()
        };
        let mut reader = FamilyReader::new(family, BTreeSet::new(), &mut buffer);
        // No process has this number: it has ended by the first look.
        let child = Stat {
            pid: u32::MAX,
            state: b'S',
            threads: 2,
            user_ticks: 300,
            system_ticks: 200,
            ..Stat::default()
        };
        reader.outlines.insert(child.pid, Outline::of(child));
        let used_ns = reader.units.ns(500);
        reader.reaped_ns = used_ns;
        let tick = reader.read(Depth::Tick, None, &mut buffer);
        assert_eq!((tick.cpu_ns, tick.processes, tick.threads), (used_ns, 1, 2));
        let detail = reader.read(Depth::Detail, None, &mut buffer);
        assert_eq!((detail.cpu_ns, detail.processes), (used_ns, 0));
        assert_eq!(detail.user_ticks, 300);
        assert!(!detail.is_partial);
    }
}
