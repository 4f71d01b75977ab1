//! Where groups of one controller are, in both versions.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use wallfinder_probe::parse::cgroup::{self, Mount};

use super::Control;
use crate::error::TestbedError;

/// Limits of a group in version 2 that do not hold who is moved beside it.
const LIMITS: [&str; 2] = ["memory.max", "memory.high"];
/// What is to be the same in two groups for a move between them to change nothing.
const ALIKE: [&str; 4] = [
    "cpuset.cpus.effective",
    "cpuset.mems.effective",
    "cpu.weight",
    "cpu.idle",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The mounted hierarchy of a controller.
#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Where it is mounted.
    pub(super) top: PathBuf,
    /// What part of it is mounted there.
    root: String,
    /// The controller's name in version 1.
    controller: &'static str,
}

impl Hierarchy {
    /// The one that has the controller: version 1 where it is mounted that way.
    pub(super) fn of(control: Control) -> Result<Hierarchy, TestbedError> {
        let bytes = fs::read("/proc/self/mountinfo").unwrap_or_default();
        Hierarchy::among(&cgroup::mounts(&bytes), control)
    }

    fn among(mounts: &[Mount], control: Control) -> Result<Hierarchy, TestbedError> {
        let controller = match control {
            Control::Cpu => "cpu",
            Control::Freezer => "freezer",
        };
        let one = mounts.iter().find(|mount| {
            mount.kind == "cgroup" && mount.options.split(',').any(|option| option == controller)
        });
        // Version 2 freezes without a controller.
        let has_controller = |mount: &&Mount| {
            control == Control::Freezer || has_word(&controllers(Path::new(&mount.point)), "cpu")
        };
        let two = mounts.iter().find(|mount| mount.kind == "cgroup2");
        let (version, mount) = match (one, two.filter(has_controller)) {
            (Some(mount), _) => (Version::One, mount),
            (None, Some(mount)) => (Version::Two, mount),
            (None, None) => {
                let what = format!("a control group with the `{controller}` controller");
                let why = match two {
                    Some(_) => {
                        "version 2 is mounted without it, and version 1 is not mounted with it"
                    }
                    None => "no control groups are mounted",
                };
                return Err(TestbedError::no_privilege(what, why));
            }
        };
        Ok(Hierarchy {
            version,
            top: PathBuf::from(&mount.point),
            root: mount.root.clone(),
            controller,
        })
    }

    /// The folder of a process's group.
    pub(super) fn folder_of(&self, pid: u32) -> Option<PathBuf> {
        self.folder(&fs::read(format!("/proc/{pid}/cgroup")).ok()?)
    }

    fn folder(&self, cgroup_file: &[u8]) -> Option<PathBuf> {
        let groups = cgroup::memberships(cgroup_file);
        let group = groups.iter().find(|group| match self.version {
            Version::One => group.controllers.iter().any(|name| name == self.controller),
            Version::Two => group.is_unified(),
        })?;
        let below = Path::new(&group.path).strip_prefix(&self.root).ok()?;
        let is_below = |part: Component| matches!(part, Component::Normal(_));
        below
            .components()
            .all(is_below)
            .then(|| match below.as_os_str().is_empty() {
                true => self.top.clone(),
                false => self.top.join(below),
            })
    }

    /// Below which group one of ours can stand, for processes that are in `origin`.
    pub(super) fn parent_for(
        &self,
        control: Control,
        origin: &Path,
    ) -> Result<PathBuf, TestbedError> {
        if self.version == Version::One || control == Control::Freezer {
            return Ok(origin.to_owned());
        }
        let what = "a quota around the processes";
        // The root group may have processes of its own and hand the controller on.
        let parent = if origin == self.top {
            origin
        } else {
            if let Some((cores, _)) = quota(Version::Two, origin) {
                let why = format!(
                    "they have one already, of {cores:.2} cores at {}, which holds others as \
                     well, and version 2 allows none below it",
                    origin.display()
                );
                return Err(TestbedError::refused(what, why));
            }
            if let Some((file, text)) = limit(origin) {
                let why = format!(
                    "others are in {} as well, so they would be moved beside it, where its \
                     {file} of {text} does not hold",
                    origin.display()
                );
                return Err(TestbedError::refused(what, why));
            }
            origin.parent().unwrap_or(origin)
        };
        let handed_on = fs::read_to_string(parent.join("cgroup.subtree_control"));
        if has_word(&handed_on.unwrap_or_default(), "cpu") {
            return Ok(parent.to_owned());
        }
        let why = format!(
            "{} does not hand the cpu controller on; `echo +cpu > {}/cgroup.subtree_control` \
             would change that",
            parent.display(),
            parent.display()
        );
        Err(TestbedError::no_privilege(what, why))
    }

    /// Why a group could not be made.
    pub(super) fn may_not(&self, doing: &str, folder: &Path, error: &io::Error) -> TestbedError {
        match error.kind() {
            io::ErrorKind::AlreadyExists => TestbedError::refused(
                format!("making {}", folder.display()),
                "it is there already",
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                let why = format!(
                    "{} may not be written to ({error}): it needs root, or a group that is \
                     handed over to this user",
                    folder.parent().unwrap_or(folder).display()
                );
                TestbedError::no_privilege(
                    format!("a group with the `{}` controller", self.controller),
                    why,
                )
            }
            _ => TestbedError::at(doing, folder, error),
        }
    }
}

/// The quota that stands at one group: cores, and its period in microseconds.
pub(super) fn quota(version: Version, folder: &Path) -> Option<(f64, u64)> {
    let read = |file: &str| fs::read(folder.join(file)).ok();
    let (quota, period) = match version {
        Version::One => {
            let period = read("cpu.cfs_period_us")?;
            (
                cgroup::cfs_quota(&read("cpu.cfs_quota_us")?, &period)?,
                period,
            )
        }
        Version::Two => {
            let text = read("cpu.max")?;
            let period = text.split(|byte| *byte == b' ').nth(1)?.to_vec();
            (cgroup::cpu_max(&text)?, period)
        }
    };
    let period_us = std::str::from_utf8(&period).ok()?.trim().parse().ok()?;
    match quota {
        cgroup::Quota::Cores(cores) => Some((cores, period_us)),
        cgroup::Quota::Unlimited => None,
    }
}

/// A limit that stands at a group of version 2: the file, and what it says.
fn limit(group: &Path) -> Option<(&'static str, String)> {
    LIMITS.into_iter().find_map(|file| {
        let text = trimmed(&group.join(file))?;
        (text != "max").then_some((file, text))
    })
}

/// Whether processes would have in one group of version 2 what they have in another. What either
/// does not show is that of the groups above, which are the same.
pub(super) fn same_beside(origin: &Path, group: &Path) -> Result<(), TestbedError> {
    for file in ALIKE {
        let (Some(there), Some(here)) = (trimmed(&origin.join(file)), trimmed(&group.join(file)))
        else {
            continue;
        };
        if there != here {
            let why = format!(
                "they would be moved from {}, whose {file} is `{there}`, to where it is `{here}`",
                origin.display()
            );
            return Err(TestbedError::refused("a quota around the processes", why));
        }
    }
    Ok(())
}

fn trimmed(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn controllers(top: &Path) -> String {
    fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|there| there == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, point: &str, root: &str, options: &str) -> Mount {
        Mount {
            root: root.into(),
            point: point.into(),
            kind: kind.into(),
            options: options.into(),
        }
    }

    #[test]
    fn the_hierarchy_with_the_controller_is_taken() {
        let hybrid = [
            mount("cgroup2", "/sys/fs/cgroup/unified", "/", "rw"),
            mount("cgroup", "/sys/fs/cgroup/cpuset", "/", "rw,cpuset"),
            mount(
                "cgroup",
                "/sys/fs/cgroup/cpu",
                "/docker/a",
                "rw,cpu,cpuacct",
            ),
        ];
        let cpu = Hierarchy::among(&hybrid, Control::Cpu).expect("version 1");
        assert_eq!(cpu.version, Version::One);
        let folder = |file: &str| {
            cpu.folder(file.as_bytes())
                .map(|path| path.display().to_string())
        };
        let at = |path: &str| Some(format!("/sys/fs/cgroup/cpu{path}"));
        assert_eq!(folder("1:cpu,cpuacct:/docker/a/b\n0::/x\n"), at("/b"));
        assert_eq!(folder("1:cpu,cpuacct:/docker/a\n"), at(""));
        for outside in [
            "1:cpu:/docker/b\n",
            "1:cpu:/docker/a/../b\n",
            "0::/docker/a\n",
            "",
        ] {
            assert_eq!(folder(outside), None, "{outside}");
        }
        let freezer = Hierarchy::among(&hybrid, Control::Freezer).expect("version 2");
        assert_eq!(freezer.version, Version::Two);
        let error = Hierarchy::among(&[], Control::Cpu)
            .expect_err("none")
            .to_string();
        assert!(error.contains("no control groups are mounted"), "{error}");
        let error = Hierarchy::among(&hybrid[..2], Control::Cpu).expect_err("none");
        assert!(error.to_string().contains("without it"), "{error}");
    }

    /// In a folder that stands for the mount: this machine need not have version 2's cpu.
    #[test]
    fn version_2_puts_a_quota_beside_the_group_or_says_why_not() {
        let top = std::env::temp_dir().join(format!("wf-test-two-{}", std::process::id()));
        let leaf = top.join("user.slice/a.scope");
        fs::create_dir_all(&leaf).expect("folders");
        let write = |file: &str, text: &str| fs::write(top.join(file), text).expect("a file");
        write("cgroup.controllers", "cpuset cpu io\n");
        let point = top.to_str().expect("text");
        let mounts = [mount("cgroup2", point, "/", "rw")];
        let two = Hierarchy::among(&mounts, Control::Cpu).expect("version 2");
        let parent = |folder: &Path| two.parent_for(Control::Cpu, folder);
        let error = parent(&leaf).expect_err("not handed on").to_string();
        assert!(error.contains("subtree_control"), "{error}");
        write("user.slice/cgroup.subtree_control", "cpu memory\n");
        assert_eq!(parent(&leaf), Ok(top.join("user.slice")));
        write("user.slice/a.scope/cpu.max", "50000 100000\n");
        assert_eq!(quota(Version::Two, &leaf), Some((0.5, 100_000)));
        let error = parent(&leaf).expect_err("a quota is there").to_string();
        assert!(error.contains("0.50 cores"), "{error}");
        assert_eq!(two.parent_for(Control::Freezer, &leaf), Ok(leaf.clone()));
        // Beside a group, its limits do not hold.
        write("user.slice/a.scope/cpu.max", "max 100000\n");
        write("user.slice/a.scope/memory.max", "max\n");
        assert_eq!(parent(&leaf), Ok(top.join("user.slice")));
        write("user.slice/a.scope/memory.max", "536870912\n");
        let error = parent(&leaf).expect_err("a limit is there").to_string();
        assert!(error.contains("memory.max of 536870912"), "{error}");
        fs::remove_dir_all(&top).expect("removed");
    }

    #[test]
    fn who_would_run_elsewhere_beside_the_group_is_not_moved() {
        let top = std::env::temp_dir().join(format!("wf-test-alike-{}", std::process::id()));
        let (origin, beside) = (top.join("a.scope"), top.join("wallfinder-wf-1-2-0-server"));
        fs::create_dir_all(&origin).expect("a folder");
        fs::create_dir_all(&beside).expect("a folder");
        let write = |folder: &Path, file: &str, text: &str| {
            fs::write(folder.join(file), text).expect("a file");
        };
        assert_eq!(same_beside(&origin, &beside), Ok(()));
        write(&origin, "cpuset.cpus.effective", "0-1\n");
        assert_eq!(same_beside(&origin, &beside), Ok(()), "no controller there");
        write(&beside, "cpuset.cpus.effective", "0-1\n");
        write(&origin, "cpu.weight", "100\n");
        write(&beside, "cpu.weight", "100\n");
        assert_eq!(same_beside(&origin, &beside), Ok(()));
        write(&beside, "cpuset.cpus.effective", "0-7\n");
        let error = same_beside(&origin, &beside).expect_err("more processors");
        assert!(error.to_string().contains("`0-1`"), "{error}");
        write(&beside, "cpuset.cpus.effective", "0-1\n");
        write(&origin, "cpu.weight", "500\n");
        let error = same_beside(&origin, &beside).expect_err("less weight");
        assert!(error.to_string().contains("cpu.weight"), "{error}");
        fs::remove_dir_all(&top).expect("removed");
    }
}
