//! Control groups of a family: the quota that holds it, and how often it was throttled.
//!
//! A group's quota binds all groups below it, so the whole chain from a process's group to the root
//! is read. Version 1 (`cpu.cfs_quota_us`, `throttled_time`) is used where the `cpu` controller is
//! mounted that way, version 2 (`cpu.max`, `throttled_usec`) otherwise; hybrids have the controller
//! in one of the two.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::parse::cgroup::{
    CpuStat, Mount, Quota, cfs_quota, cpu_max, cpu_stat, memberships, mounts,
};
use crate::procfile::{Buffer, contents};

/// Groups watched for one family, at the most.
const GROUPS_MAX: usize = 128;
/// Groups above a process, at the most.
const DEPTH_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where the `cpu` controller's groups are mounted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hierarchies {
    one: Option<Mount>,
    two: Option<Mount>,
}

impl Hierarchies {
    /// As this process sees them.
    pub(crate) fn mounted() -> Hierarchies {
        Hierarchies::from(mounts(
            &contents("/proc/self/mountinfo").unwrap_or_default(),
        ))
    }

    fn from(mounts: Vec<Mount>) -> Hierarchies {
        let has_cpu = |mount: &Mount| mount.options.split(',').any(|option| option == "cpu");
        let find =
            |wanted: &dyn Fn(&Mount) -> bool| mounts.iter().find(|mount| wanted(mount)).cloned();
        Hierarchies {
            one: find(&|mount| mount.kind == "cgroup" && has_cpu(mount)),
            two: find(&|mount| mount.kind == "cgroup2"),
        }
    }

    /// `v1`, `v2`, or `hybrid` when both are mounted.
    pub(crate) fn version(mounts: &[Mount]) -> Option<&'static str> {
        let has = |kind: &str| mounts.iter().any(|mount| mount.kind == kind);
        match (has("cgroup"), has("cgroup2")) {
            (true, true) => Some("hybrid"),
            (true, false) => Some("v1"),
            (false, true) => Some("v2"),
            (false, false) => None,
        }
    }

    /// The folders of the groups that a process is in, its own first, from its `/proc/PID/cgroup`.
    fn chain(&self, cgroup_file: &[u8]) -> Vec<(Version, PathBuf)> {
        let groups = memberships(cgroup_file);
        let one = groups
            .iter()
            .find(|group| group.controllers.iter().any(|name| name == "cpu"));
        let two = groups.iter().find(|group| group.is_unified());
        let (version, mount, group) = match (&self.one, one, &self.two, two) {
            (Some(mount), Some(group), _, _) => (Version::One, mount, group),
            (_, _, Some(mount), Some(group)) => (Version::Two, mount, group),
            _ => return Vec::new(),
        };
        // The mount shows the part of the hierarchy below its root.
        let Ok(below) = Path::new(&group.path).strip_prefix(&mount.root) else {
            return Vec::new();
        };
        if below.components().any(|part| part.as_os_str() == "..") {
            return Vec::new();
        }
        let leaf = Path::new(&mount.point).join(below);
        leaf.ancestors()
            .take_while(|folder| folder.starts_with(&mount.point))
            .take(DEPTH_MAX)
            .map(|folder| (version, folder.to_owned()))
            .collect()
    }
}

/// The quota of one process in cores: the least of those above it.
pub(crate) fn quota_cores_of(hierarchies: &Hierarchies, cgroup_file: &[u8]) -> Option<f64> {
    let chain = hierarchies.chain(cgroup_file);
    let quotas = chain
        .iter()
        .filter_map(|(version, folder)| quota(*version, folder));
    quotas.reduce(f64::min)
}

/// The quota that stands at one group, in cores.
fn quota(version: Version, folder: &Path) -> Option<f64> {
    let read = match version {
        Version::One => cfs_quota(
            &contents(folder.join("cpu.cfs_quota_us")).ok()?,
            &contents(folder.join("cpu.cfs_period_us")).ok()?,
        ),
        Version::Two => cpu_max(&contents(folder.join("cpu.max")).ok()?),
    };
    match read? {
        Quota::Cores(cores) => Some(cores),
        Quota::Unlimited => None,
    }
}

/// Throttling of a family since it was first looked at, summed over the groups that hold it up: one
/// of those above each process, else the periods of one that lets it run would count against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Throttling {
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
    pub(crate) throttled_ns: u64,
}

/// The groups of a family. Groups stay once they were seen.
#[derive(Debug)]
pub(crate) struct Groups {
    hierarchies: Hierarchies,
    watched: Vec<Group>,
    /// The folder that holds each process, and whether none does.
    holding: BTreeSet<PathBuf>,
    some_unlimited: bool,
    /// The folder that holds up each process: the one above it that was throttled longest, which a
    /// sibling may have used up, else the least.
    throttling: BTreeSet<PathBuf>,
    throttled: Throttling,
}

#[derive(Debug)]
struct Group {
    version: Version,
    folder: PathBuf,
    stat: Option<File>,
    quota_cores: Option<f64>,
    first: CpuStat,
    last: CpuStat,
}

impl Group {
    fn throttled_ns(&self) -> u64 {
        self.last
            .throttled_ns
            .saturating_sub(self.first.throttled_ns)
    }
}

impl Groups {
    pub(crate) fn new(hierarchies: Hierarchies) -> Groups {
        Groups {
            hierarchies,
            watched: Vec::new(),
            holding: BTreeSet::new(),
            some_unlimited: false,
            throttling: BTreeSet::new(),
            throttled: Throttling::default(),
        }
    }

    /// Starts a new look at who is in which group: then [`Groups::place`] for each process.
    pub(crate) fn begin(&mut self) {
        self.holding.clear();
        self.throttling.clear();
        self.some_unlimited = false;
        for group in &mut self.watched {
            group.quota_cores = quota(group.version, &group.folder);
        }
    }

    /// Says where a process is, from its `/proc/PID/cgroup`.
    pub(crate) fn place(&mut self, cgroup_file: &[u8], buffer: &mut Buffer) {
        let chain = self.hierarchies.chain(cgroup_file);
        // Cores, time throttled, folder.
        let mut limits: Vec<(f64, u64, PathBuf)> = Vec::new();
        for (version, folder) in chain {
            let Some(group) = self.watch(version, folder, buffer) else {
                continue;
            };
            if let Some(cores) = group.quota_cores {
                limits.push((cores, group.throttled_ns(), group.folder.clone()));
            }
        }
        // The first of equals, which is the nearest to the process.
        limits.sort_by(|one, other| one.0.total_cmp(&other.0));
        match limits.first() {
            Some((.., folder)) => drop(self.holding.insert(folder.clone())),
            None => self.some_unlimited = true,
        }
        let throttled_longest = limits
            .into_iter()
            .reduce(|one, other| if other.1 > one.1 { other } else { one });
        self.throttling
            .extend(throttled_longest.map(|(.., folder)| folder));
    }

    fn watch(&mut self, version: Version, folder: PathBuf, buffer: &mut Buffer) -> Option<&Group> {
        if let Some(at) = self.watched.iter().position(|group| group.folder == folder) {
            return self.watched.get(at);
        }
        if self.watched.len() >= GROUPS_MAX {
            return None;
        }
        let stat = File::open(folder.join("cpu.stat")).ok();
        let first = stat
            .as_ref()
            .and_then(|file| cpu_stat(buffer.read(file).ok()?))
            .unwrap_or_default();
        self.watched.push(Group {
            version,
            quota_cores: quota(version, &folder),
            folder,
            stat,
            first,
            last: first,
        });
        self.watched.last()
    }

    /// The family's quota in cores: the sum over the groups that hold its processes; none when a
    /// process is held by none.
    pub(crate) fn quota_cores(&self) -> Option<f64> {
        if self.some_unlimited || self.holding.is_empty() {
            return None;
        }
        let held = self
            .watched
            .iter()
            .filter(|group| self.holding.contains(&group.folder));
        Some(held.filter_map(|group| group.quota_cores).sum())
    }

    /// Reads the counters of the groups that have a quota; of all when `thorough`. What is given never
    /// falls.
    pub(crate) fn throttling(&mut self, thorough: bool, buffer: &mut Buffer) -> Throttling {
        let total = &mut self.throttled;
        for group in &mut self.watched {
            if (thorough || group.quota_cores.is_some())
                && let Some(file) = &group.stat
                && let Ok(bytes) = buffer.read(file)
                && let Some(now) = cpu_stat(bytes)
            {
                let before = std::mem::replace(&mut group.last, now);
                if !self.throttling.contains(&group.folder) {
                    continue;
                }
                total.periods += now.periods.saturating_sub(before.periods);
                total.throttled_periods += now
                    .throttled_periods
                    .saturating_sub(before.throttled_periods);
                total.throttled_ns += now.throttled_ns.saturating_sub(before.throttled_ns);
            }
        }
        *total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, root: &str, point: &str, options: &str) -> Mount {
        Mount {
            root: root.to_owned(),
            point: point.to_owned(),
            kind: kind.to_owned(),
            options: options.to_owned(),
        }
    }

    fn folders(hierarchies: &Hierarchies, cgroup_file: &str) -> Vec<String> {
        let chain = hierarchies.chain(cgroup_file.as_bytes());
        chain
            .into_iter()
            .map(|(_, folder)| folder.display().to_string())
            .collect()
    }

    #[test]
    fn walks_up_to_the_mount() {
        let two = Hierarchies::from(vec![mount(
            "cgroup2",
            "/",
            "/sys/fs/cgroup",
            "rw,nsdelegate",
        )]);
        let expected = [
            "/sys/fs/cgroup/user.slice/a.scope",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(folders(&two, "0::/user.slice/a.scope\n"), expected);
    }

    #[test]
    fn version_1_wins_where_it_has_the_controller() {
        let hybrid = Hierarchies::from(vec![
            mount("cgroup", "/", "/sys/fs/cgroup/cpuset", "rw,cpuset"),
            mount("cgroup", "/", "/sys/fs/cgroup/cpu", "rw,cpu,cpuacct"),
            mount("cgroup2", "/", "/sys/fs/cgroup/unified", "rw"),
        ]);
        let file = "3:cpuset:/x\n1:cpu,cpuacct:/half\n0::/u\n";
        assert_eq!(
            folders(&hybrid, file),
            ["/sys/fs/cgroup/cpu/half", "/sys/fs/cgroup/cpu"]
        );
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy() {
        let inside = Hierarchies::from(vec![mount(
            "cgroup",
            "/docker/abc",
            "/sys/fs/cgroup/cpu",
            "rw,cpu",
        )]);
        assert_eq!(
            folders(&inside, "1:cpu:/docker/abc/w\n"),
            ["/sys/fs/cgroup/cpu/w", "/sys/fs/cgroup/cpu"]
        );
        assert!(folders(&inside, "1:cpu:/docker/other\n").is_empty());
        assert!(folders(&inside, "1:cpu:/docker/abc/../x\n").is_empty());
    }

    /// Both versions, in a folder that stands for the mount: this machine need not have them.
    #[test]
    fn reads_quotas_and_throttling_of_the_whole_chain() {
        let cases = [
            (
                "cgroup2",
                "rw",
                "0::/outer/inner\n",
                "cpu.max",
                "throttled_usec 3000",
            ),
            (
                "cgroup",
                "rw,cpu",
                "4:cpu:/outer/inner\n",
                "cpu.cfs_quota_us",
                "throttled_time 3000000",
            ),
        ];
        for (kind, options, cgroup_file, quota_file, throttled) in cases {
            let root = std::env::temp_dir().join(format!("wf-test-{kind}-{}", std::process::id()));
            let inner = root.join("outer/inner");
            std::fs::create_dir_all(&inner).unwrap();
            let write = |folder: &Path, file: &str, text: &str| {
                std::fs::write(folder.join(file), text).unwrap()
            };
            let set_quota = |folder: &Path, quota: &str| match kind {
                "cgroup2" => write(folder, quota_file, &format!("{quota} 10000\n")),
                _ => {
                    write(folder, quota_file, &quota.replace("max", "-1"));
                    write(folder, "cpu.cfs_period_us", "10000\n");
                }
            };
            let stat = |counts: &str| format!("{counts}\n{throttled}\n");
            set_quota(&inner, "max");
            set_quota(&root.join("outer"), "5000");
            write(&inner, "cpu.stat", &stat("nr_periods 0\nnr_throttled 0"));
            let outer = |counts: &str| write(&root.join("outer"), "cpu.stat", counts);
            outer(&stat("nr_periods 10\nnr_throttled 5"));

            let point = root.to_str().unwrap();
            let mut groups = Groups::new(Hierarchies::from(vec![mount(kind, "/", point, options)]));
            let mut buffer = Buffer::new();
            groups.begin();
            groups.place(cgroup_file.as_bytes(), &mut buffer);
            assert_eq!(groups.quota_cores(), Some(0.5), "the one above holds it");
            assert_eq!(
                groups.throttling(true, &mut buffer),
                Throttling::default(),
                "counted from here on"
            );
            outer(&stat("nr_periods 30\nnr_throttled 20"));
            let since = groups.throttling(false, &mut buffer);
            assert_eq!((since.periods, since.throttled_periods), (20, 15));

            set_quota(&inner, "2500");
            groups.begin();
            groups.place(cgroup_file.as_bytes(), &mut buffer);
            groups.place(cgroup_file.as_bytes(), &mut buffer);
            assert_eq!(
                groups.quota_cores(),
                Some(0.25),
                "the least, once for both processes"
            );
            write(&inner, "cpu.stat", &stat("nr_periods 10\nnr_throttled 10"));
            outer(&stat("nr_periods 40\nnr_throttled 20"));
            let since = groups.throttling(true, &mut buffer);
            let counted = (since.periods, since.throttled_periods);
            assert_eq!(counted, (30, 25), "of the least from here on");

            // What is beside the inner group uses the quota of the outer one up.
            let longer = |counts: &str| stat(counts).replace("3000", "5000");
            outer(&longer("nr_periods 50\nnr_throttled 30"));
            let since = groups.throttling(true, &mut buffer);
            assert_eq!((since.periods, since.throttled_periods), (30, 25));
            groups.begin();
            groups.place(cgroup_file.as_bytes(), &mut buffer);
            outer(&longer("nr_periods 60\nnr_throttled 40"));
            let since = groups.throttling(false, &mut buffer);
            let counted = (since.periods, since.throttled_periods);
            assert_eq!(counted, (40, 35), "of the one that holds it up");
            assert_eq!(groups.quota_cores(), Some(0.25), "the least as ever");
            groups.place(b"", &mut buffer);
            assert_eq!(groups.quota_cores(), None, "a process that nothing holds");
            std::fs::remove_dir_all(&root).unwrap();
        }
    }
}
