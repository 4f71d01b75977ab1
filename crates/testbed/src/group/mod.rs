//! A control group of ours around the processes of one side (cgroups(7)).
//!
//! ```text
//!  version 1, cpu and freezer       /outer ──► /outer/wallfinder-TAG-server
//!  version 2, freezer               the same
//!  version 2, cpu
//!    nobody else is in /outer       /outer itself has the quota, and nobody is moved
//!    others are                     /outer ──► /wallfinder-TAG-server beside it, since a group
//!                                   with processes of its own may not hand the controller on
//! ```
//!
//! It is made below the group in which the processes are, so a quota that stands there stays
//! in force. Where version 2 forbids that, and the outer group has a limit that would not hold
//! them beside it, it is refused.
//!
//! Invariants: processes go back to where they were when it is dropped, by the journal when
//! it cannot be; only groups that are ours are written to, but for `cpu.max` of one that holds
//! nobody else, which is put back in the same ways.

mod allowed;
mod hierarchy;
mod in_place;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wallfinder_probe::parse::cgroup::{self, CpuStat};
use wallfinder_probe::parse::process;

use crate::child::Shim;
use crate::error::TestbedError;
use crate::undo::{Change, GROUP_PREFIX, GroupPath, Journal, OwnGroup, Undo, is_lowered};
pub(crate) use allowed::restore as restore_allowed;
use hierarchy::{Hierarchy, Version};
pub(crate) use in_place::processes;

/// The period of a quota of ours. Shorter ones cost more; longer ones stop a server for longer.
const PERIOD_US: u64 = 10_000;
/// The period where the quota in one of the above would be less than the kernel's least.
const LONG_PERIOD_US: u64 = 100_000;
/// The kernel's least quota.
const QUOTA_US_MIN: u64 = 1_000;
/// How often children that are born while their parents are moved are looked for.
const LOOKS_MAX: usize = 8;
/// How long a group may take to be frozen.
const FREEZE_WAIT_MAX: Duration = Duration::from_millis(200);
/// How often they are looked at meanwhile.
const FREEZE_LOOK_EVERY: Duration = Duration::from_micros(20);

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Quotas.
    Cpu,
    /// Pauses.
    Freezer,
}

/// How often a quota held a group up, since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttling {
    /// Periods in which it ran.
    pub periods: u64,
    /// Of them, those in which it was held up.
    pub throttled: u64,
    /// For how long, summed over processors.
    pub throttled_ns: u64,
}

/// How processes come to be in it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seat {
    /// It is ours, and they are moved into it.
    Made,
    /// It is where they were, with this quota in cores and its period in microseconds, if any.
    InPlace(Option<(f64, u64)>),
}

/// A control group around processes. Dropping it puts them back and removes it; of one that was
/// there already, it puts back the quota.
#[derive(Debug)]
pub struct Group {
    control: Control,
    version: Version,
    seat: Seat,
    folder: PathBuf,
    /// Where its processes came from.
    origin: PathBuf,
    /// The mount, above which there is nothing.
    top: PathBuf,
    period_us: u64,
    changes: Vec<Change>,
}

impl Group {
    /// Puts a group around processes and their descendants. `side` becomes part of its name.
    pub fn around(
        pids: &[u32],
        side: &str,
        control: Control,
        shim: &Shim,
    ) -> Result<Group, TestbedError> {
        let what = || format!("a control group around the {side}");
        let hierarchy = Hierarchy::of(control)?;
        let mut origin: Option<PathBuf> = None;
        for pid in pids {
            let Some(folder) = hierarchy.folder_of(*pid) else {
                let why = format!("the group of process {pid} is not below its mount here");
                return Err(TestbedError::refused(what(), why));
            };
            match &origin {
                Some(first) if *first != folder => {
                    let why = format!(
                        "its processes are in several: {} and {}",
                        first.display(),
                        folder.display()
                    );
                    return Err(TestbedError::refused(what(), why));
                }
                _ => origin = Some(folder),
            }
        }
        let origin = origin.ok_or_else(|| TestbedError::refused(what(), "it has no processes"))?;
        if hierarchy.version == Version::Two && control == Control::Cpu {
            return Group::in_version_2(&hierarchy, origin, pids, side, shim);
        }
        let group = Group::below(&hierarchy, origin, side, control, shim)?;
        group.include(pids)?;
        Ok(group)
    }

    /// A quota in version 2: on the group that they are in where nobody else is in it, else on
    /// one beside it.
    fn in_version_2(
        hierarchy: &Hierarchy,
        origin: PathBuf,
        pids: &[u32],
        side: &str,
        shim: &Shim,
    ) -> Result<Group, TestbedError> {
        // What this process starts later is born in its group, and may be the other side.
        let are_others = !pids.contains(&std::process::id());
        let seat = in_place::seat(&origin, &hierarchy.top).filter(|_| are_others);
        if let Some(folder) = seat.filter(|seat| in_place::holds_only(seat, || family(pids))) {
            return Group::in_place(hierarchy, folder, origin, shim);
        }
        let what = format!("moving the {side} to a control group");
        if origin != hierarchy.top && in_place::is_empty_without(&origin, &family(pids)) {
            let why = format!(
                "{} would hold nobody then, and whoever keeps it might remove it",
                origin.display()
            );
            return Err(TestbedError::refused(what, why));
        }
        let threads = allowed::of(pids);
        let undo = Undo::RestoreAllowed {
            threads: threads.clone(),
        };
        // Before the group is made: so it is undone after they were moved back.
        let (allowed, ()) = Journal::open(shim)?.change(undo, |_| Ok(()))?;
        let mut group = Group::below(hierarchy, origin, side, Control::Cpu, shim)?;
        group.changes.insert(0, allowed);
        group.include(pids)?;
        // Before 6.2 the kernel forgets what `taskset` set.
        allowed::restore(&threads);
        match allowed::changed(&threads, &allowed::of(pids)) {
            None => Ok(group),
            // Dropping the group undoes it.
            Some(thread) => {
                let why = format!("thread {} might run on other processors there", thread.pid);
                Err(TestbedError::refused(what, why))
            }
        }
    }

    /// The group that holds them and nobody else.
    fn in_place(
        hierarchy: &Hierarchy,
        folder: PathBuf,
        origin: PathBuf,
        shim: &Shim,
    ) -> Result<Group, TestbedError> {
        if is_lowered(&folder) {
            let what = format!("a quota on {}", folder.display());
            let why = "another experiment lowers its quota, or left it lowered: `wallfinder doctor \
                       --clean` puts back what was left";
            return Err(TestbedError::refused(what, why));
        }
        let text = in_place::present(&folder)?;
        let found = fs::metadata(&folder).map_err(|e| TestbedError::at("look at", &folder, &e))?;
        let undo = Undo::RestoreQuota {
            group: in_journal(&folder)?,
            id: found.ino(),
            text,
        };
        let own = hierarchy::quota(hierarchy.version, &folder);
        let (change, ()) = Journal::open(shim)?.change(undo, |_| Ok(()))?;
        let mut group = Group {
            control: Control::Cpu,
            version: hierarchy.version,
            seat: Seat::InPlace(own),
            folder,
            origin,
            top: hierarchy.top.clone(),
            period_us: PERIOD_US,
            changes: vec![change],
        };
        group.settle_period()?;
        Ok(group)
    }

    /// An empty group, below that of this process, for children to be started in.
    pub fn for_children(side: &str, control: Control, shim: &Shim) -> Result<Group, TestbedError> {
        let hierarchy = Hierarchy::of(control)?;
        let own = hierarchy.folder_of(std::process::id());
        let origin = own.ok_or_else(|| {
            let what = format!("a control group for the {side}");
            TestbedError::refused(what, "this process's group is not below its mount here")
        })?;
        Group::below(&hierarchy, origin, side, control, shim)
    }

    fn below(
        hierarchy: &Hierarchy,
        origin: PathBuf,
        side: &str,
        control: Control,
        shim: &Shim,
    ) -> Result<Group, TestbedError> {
        let journal = Journal::open(shim)?;
        let parent = hierarchy.parent_for(control, &origin)?;
        let name = format!("{GROUP_PREFIX}{}", journal.name(&format!("-{side}")));
        let folder = parent.join(name);
        let own = OwnGroup::try_from(folder.clone());
        let own = own.map_err(|why| TestbedError::failed("name a control group", why))?;
        let undo = Undo::RemoveGroup {
            group: own.clone(),
            back: in_journal(&origin)?,
        };
        let make = |_: &fs::File| {
            fs::create_dir(&folder).map_err(|e| hierarchy.may_not("make the group", &folder, &e))
        };
        let (made, ()) = journal.change(undo, make)?;
        let mut group = Group {
            control,
            version: hierarchy.version,
            seat: Seat::Made,
            folder,
            origin,
            top: hierarchy.top.clone(),
            period_us: PERIOD_US,
            changes: vec![made],
        };
        match control {
            Control::Cpu => {
                if group.version == Version::Two {
                    hierarchy::same_beside(&group.origin, &group.folder)?;
                }
                group.settle_period()?;
            }
            Control::Freezer => {
                let undo = Undo::Thaw { group: own };
                let (thawed, ()) = journal.change(undo, |_| Ok(()))?;
                group.changes.push(thawed);
            }
        }
        Ok(group)
    }

    /// An outer quota's period is kept: the kernel compares shares, and two quotas with one
    /// period stop and go together.
    fn settle_period(&mut self) -> Result<(), TestbedError> {
        if let Some((_, period_us)) = self.outer_quota() {
            self.period_us = period_us;
        }
        if self.version == Version::One {
            self.write("cpu.cfs_period_us", &self.period_us.to_string())?;
        }
        self.read("cpu.stat").map(drop)
    }

    /// The folder that holds its `cgroup.procs`, for children to join.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves processes into it, with their descendants as far as they are not ours. Into one that
    /// was there already nobody is moved: who is in it, [`Group::members`] says.
    pub fn include(&self, pids: &[u32]) -> Result<(), TestbedError> {
        if self.is_in_place() {
            return Ok(());
        }
        let (mut moved, mut looks) = (BTreeSet::new(), 0);
        loop {
            let mut news = family(pids);
            // In version 2 one that is in a group below stays there.
            let inside = self.members();
            news.retain(|pid| !moved.contains(pid) && !inside.contains(pid));
            if news.is_empty() || looks == LOOKS_MAX {
                return Ok(());
            }
            for pid in news {
                let path = self.folder.join("cgroup.procs");
                match fs::write(&path, pid.to_string()) {
                    Ok(()) => drop(moved.insert(pid)),
                    // ESRCH: it ended meanwhile.
                    Err(e) if e.raw_os_error() == Some(3) => drop(moved.insert(pid)),
                    Err(e) => {
                        let doing = format!("move process {pid} into");
                        return Err(TestbedError::at(&doing, &self.folder, &e));
                    }
                }
            }
            looks += 1;
        }
    }

    /// Whether it is the group that its processes were in before.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.seat, Seat::InPlace(_))
    }

    /// Its processes now, with those of groups below: who is paused there has its quota as well.
    pub fn members(&self) -> BTreeSet<u32> {
        in_place::processes(&self.folder).unwrap_or_default()
    }

    /// Lets its processes use this many cores' worth of time together; `None`: all there is.
    pub fn set_quota(&mut self, cores: Option<f64>) -> Result<(), TestbedError> {
        assert_eq!(self.control, Control::Cpu, "a group for quotas");
        let quota_us = |period_us: u64| {
            let cores = cores.filter(|cores| *cores > 0.0)?;
            Some(((cores * period_us as f64).round() as u64).max(QUOTA_US_MIN))
        };
        if cores.is_some_and(|cores| cores * (self.period_us as f64) < QUOTA_US_MIN as f64) {
            self.period_us = LONG_PERIOD_US;
            if self.version == Version::One {
                self.write("cpu.cfs_quota_us", "-1")?;
                self.write("cpu.cfs_period_us", &self.period_us.to_string())?;
            }
        }
        tracing::debug!(group = %self.folder.display(), cores, period_us = self.period_us, "quota is set");
        let quota = quota_us(self.period_us);
        match self.version {
            Version::One => {
                let text = quota.map_or_else(|| "-1".to_owned(), |us| us.to_string());
                self.write("cpu.cfs_quota_us", &text)
            }
            Version::Two => {
                let text = quota.map_or_else(|| "max".to_owned(), |us| us.to_string());
                self.write("cpu.max", &format!("{text} {}", self.period_us))
            }
        }
    }

    /// Its quota in cores, as the kernel has it.
    pub fn quota_cores(&self) -> Option<f64> {
        hierarchy::quota(self.version, &self.folder).map(|(cores, _)| cores)
    }

    /// The least quota of the groups that its processes were in, in cores: what was there before
    /// us.
    pub fn outer_quota_cores(&self) -> Option<f64> {
        self.outer_quota().map(|(cores, _)| cores)
    }

    /// The least outer quota and its period in microseconds.
    fn outer_quota(&self) -> Option<(f64, u64)> {
        let own = match self.seat {
            Seat::Made => None,
            Seat::InPlace(own) => own,
        };
        let above = self.folder.ancestors().skip(1);
        let above = above.take_while(|folder| folder.starts_with(&self.top));
        let quotas = above.filter_map(|folder| hierarchy::quota(self.version, folder));
        quotas.chain(own).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The quota in cores that leaves its processes what they had, where `loose` cores bind nobody:
    /// no more than an outer one in version 1, which refuses it; in place, the one that stood there.
    pub(crate) fn sham_cores(&self, loose: f64) -> f64 {
        match (self.seat, self.version) {
            (Seat::InPlace(own), _) => own.map_or(loose, |(cores, _)| cores),
            (Seat::Made, Version::One) => self
                .outer_quota_cores()
                .map_or(loose, |outer| loose.min(outer)),
            (Seat::Made, Version::Two) => loose,
        }
    }

    /// How often its quota held it up so far.
    pub fn throttling(&self) -> Result<Throttling, TestbedError> {
        let text = self.read("cpu.stat")?;
        let CpuStat {
            periods,
            throttled_periods,
            throttled_ns,
        } = cgroup::cpu_stat(text.as_bytes()).ok_or_else(|| {
            let doing = format!("read {}", self.folder.join("cpu.stat").display());
            TestbedError::failed(doing, "it counts no throttling")
        })?;
        Ok(Throttling {
            periods,
            throttled: throttled_periods,
            throttled_ns,
        })
    }

    /// Stops all its processes where they are, and waits until they stand: whether they do. One that waits for a
    /// disk, or for a host that is gone, may not come to a stand.
    pub fn freeze(&self) -> Result<bool, TestbedError> {
        assert_eq!(self.control, Control::Freezer, "a group for pauses");
        let (file, word, sign) = match self.version {
            Version::One => ("freezer.state", "FROZEN", "freezer.state"),
            Version::Two => ("cgroup.freeze", "1", "cgroup.events"),
        };
        self.write(file, word)?;
        let until = Instant::now() + FREEZE_WAIT_MAX;
        while Instant::now() < until {
            let text = self.read(sign)?;
            if text.trim() == "FROZEN" || text.contains("frozen 1") {
                return Ok(true);
            }
            // Not a spin: they may need this very processor to come to a stand.
            std::thread::sleep(FREEZE_LOOK_EVERY);
        }
        Ok(false)
    }

    /// Lets them go on.
    pub fn thaw(&self) -> Result<(), TestbedError> {
        match self.version {
            Version::One => self.write("freezer.state", "THAWED"),
            Version::Two => self.write("cgroup.freeze", "0"),
        }
    }

    /// Puts its processes back and removes it, and says if that could not be done.
    pub fn remove(mut self) -> Result<(), TestbedError> {
        while let Some(change) = self.changes.pop() {
            change.undo()?;
        }
        Ok(())
    }

    /// Where its processes were before.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    fn read(&self, file: &str) -> Result<String, TestbedError> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).map_err(|e| TestbedError::at("read", &path, &e))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), TestbedError> {
        let path = self.folder.join(file);
        fs::write(&path, text)
            .map_err(|e| TestbedError::at(&format!("write `{text}` to"), &path, &e))
    }
}

/// A group's folder, as a journal has it.
fn in_journal(folder: &Path) -> Result<GroupPath, TestbedError> {
    let path = GroupPath::try_from(folder.to_owned());
    path.map_err(|why| TestbedError::failed("write a group down", why))
}

/// The folder of the group that this process is in, for children that are to stay out of
/// those made around it later; `None` where it is not below a mount here.
pub fn of_this_process(control: Control) -> Option<PathBuf> {
    Hierarchy::of(control).ok()?.folder_of(std::process::id())
}

impl Drop for Group {
    fn drop(&mut self) {
        while self.changes.pop().is_some() {}
    }
}

/// Processes and their descendants. This process counts for itself alone: its children are
/// the other side, the CPU stealer, the keeper.
pub fn family(pids: &[u32]) -> Vec<u32> {
    let own = std::process::id();
    let mut children: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read(entry.path().join("stat")).ok();
        let stat = stat.and_then(|bytes| process::stat(&bytes));
        if let Some(stat) = stat.filter(|stat| stat.state != b'Z') {
            children.push((stat.parent, pid));
        }
    }
    let is_there = |pid: &u32| children.iter().any(|(_, there)| there == pid);
    let mut found: Vec<u32> = pids.iter().copied().filter(is_there).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        if parent == own {
            continue;
        }
        for (of, pid) in &children {
            if *of == parent && *pid != own && !found.contains(pid) {
                found.push(*pid);
            }
        }
    }
    found
}
