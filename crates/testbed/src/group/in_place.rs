//! A quota on a group that is there already, where it holds the family and nobody else
//! (version 2).
//!
//! Nobody is moved: what limits the group (memory, processors, weight) stays in force, and who
//! keeps it (systemd, a container's runtime) never finds it empty. It may have a quota, which is
//! then the one that is squeezed.
//!
//! What it is not: the change itself, which is journalled where groups are made.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::TestbedError;
use crate::undo::QuotaText;

/// Groups below one that are looked into, at the most.
const GROUPS_MAX: usize = 1_000;
/// How often it is looked who is inside: processes come and go meanwhile.
const LOOKS_MAX: usize = 4;

/// The group whose quota holds the processes in `origin`: that itself, or the first above it that
/// has the controller; `None` where there is but the root, which has no quota.
pub(super) fn seat(origin: &Path, top: &Path) -> Option<PathBuf> {
    let mut folders = origin
        .ancestors()
        .take_while(|folder| folder.starts_with(top));
    let seat = folders.find(|folder| folder.join("cpu.max").exists());
    seat.map(Path::to_owned)
}

/// Whether a group holds the family and nobody else. The family is asked for after each look.
pub(super) fn holds_only(group: &Path, family: impl Fn() -> Vec<u32>) -> bool {
    (0..LOOKS_MAX).any(|_| {
        let inside = processes(group);
        let family: BTreeSet<u32> = family().into_iter().collect();
        !family.is_empty() && inside == Some(family)
    })
}

/// Whether a group would hold nobody without these processes.
pub(super) fn is_empty_without(group: &Path, family: &[u32]) -> bool {
    processes(group).is_some_and(|inside| inside.iter().all(|pid| family.contains(pid)))
}

/// The processes of a group and of those below it; `None` where they cannot all be seen. One of
/// another namespace is 0.
pub(crate) fn processes(group: &Path) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![group.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > GROUPS_MAX {
            return None;
        }
        let text = fs::read_to_string(folder.join("cgroup.procs")).ok()?;
        for line in text.lines() {
            found.insert(line.parse().ok()?);
        }
        let below = fs::read_dir(&folder).ok()?.flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
    }
    Some(found)
}

/// The quota that stands at a group, in the kernel's words, where it can be changed and put back:
/// `max 100000`.
pub(super) fn present(group: &Path) -> Result<QuotaText, TestbedError> {
    let what = || format!("a quota on {}", group.display());
    let burst = fs::read_to_string(group.join("cpu.max.burst")).unwrap_or_default();
    if !matches!(burst.trim(), "" | "0") {
        let why = format!(
            "it may burst above one by {} us (cpu.max.burst), and no quota below that is allowed",
            burst.trim()
        );
        return Err(TestbedError::refused(what(), why));
    }
    let path = group.join("cpu.max");
    let text = fs::read_to_string(&path).map_err(|e| TestbedError::at("read", &path, &e))?;
    // Before anything is journalled: what may not be written could not be put back either.
    match OpenOptions::new().write(true).open(&path) {
        Ok(_) => QuotaText::try_from(text.trim().to_owned())
            .map_err(|why| TestbedError::failed(format!("read {}", path.display()), why)),
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                let why = format!(
                    "{} may not be written to ({error}): it needs root, or a group that is \
                     handed over to this user",
                    path.display()
                );
                Err(TestbedError::no_privilege(what(), why))
            }
            _ => Err(TestbedError::at("open", &path, &error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::super::hierarchy::{Version, quota};
    use super::super::{Control, Group, PERIOD_US, Seat};
    use super::*;
    use crate::undo::OpenGroup;

    /// A folder that stands for the mount, with files as the kernel has them.
    fn made_up(name: &str) -> PathBuf {
        let top = std::env::temp_dir().join(format!("wf-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(&top).expect("a folder");
        top
    }

    fn write(folder: &Path, file: &str, text: &str) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join(file), text).expect("a file");
    }

    /// As `Group::around` has it, but for the journal.
    fn group(top: &Path, folder: &Path) -> Group {
        let mut group = Group {
            control: Control::Cpu,
            version: Version::Two,
            seat: Seat::InPlace(quota(Version::Two, folder)),
            folder: folder.to_owned(),
            origin: folder.to_owned(),
            top: top.to_owned(),
            period_us: PERIOD_US,
            changes: Vec::new(),
        };
        group.settle_period().expect("it has the controller");
        group
    }

    #[test]
    fn a_group_that_holds_the_family_alone_has_its_quota_set_in_place() {
        let top = made_up("alone");
        let scope = top.join("system.slice/docker-a.scope");
        write(&top, "cgroup.procs", "1\n2\n");
        write(&scope, "cpu.max", "max 100000\n");
        write(&scope, "cgroup.procs", "10\n11\n");
        assert_eq!(seat(&scope, &top), Some(scope.clone()));
        let alone = |family: &[u32]| holds_only(&scope, || family.to_vec());
        assert!(alone(&[11, 10]));
        assert!(!alone(&[10]), "somebody else is in it");
        assert!(!alone(&[10, 11, 12]), "one of them is elsewhere");
        assert!(!alone(&[]));
        assert!(is_empty_without(&scope, &[10, 11, 12]) && !is_empty_without(&scope, &[10]));
        // Whoever is below it is held by its quota as well.
        let below = scope.join("wallfinder-wf-1-2-0-server");
        write(&below, "cgroup.procs", "12\n");
        assert!(!alone(&[10, 11]) && alone(&[10, 11, 12]));
        assert_eq!(seat(&below, &top), Some(scope.clone()));
        // One of another namespace of process ids.
        write(&below, "cgroup.procs", "0\n");
        assert!(!alone(&[10, 11]));
        // The root has no quota.
        assert_eq!(seat(&top, &top), None);
        assert!(!holds_only(&top.join("gone"), || vec![10]));
        fs::remove_dir_all(&top).expect("removed");
    }

    #[test]
    fn a_quota_that_stands_there_is_the_sham_and_is_put_back() {
        let top = made_up("quota");
        let scope = top.join("kubepods.slice/a.scope");
        write(&scope, "cpu.max", "200000 100000\n");
        write(&scope, "cpu.max.burst", "0\n");
        write(&scope, "cpu.stat", "nr_periods 0\n");
        write(&scope, "cgroup.procs", "10\n");
        let text = present(&scope).expect("it can be put back");
        assert_eq!(String::from(text.clone()), "200000 100000");
        let mut group = group(&top, &scope);
        let stands = || fs::read_to_string(scope.join("cpu.max")).expect("there");
        assert_eq!(group.outer_quota_cores(), Some(2.0));
        group.set_quota(Some(0.8 * 2.0)).expect("set");
        assert_eq!(stands(), "160000 100000");
        // What was there before us is what is remembered, not what we wrote.
        assert_eq!(group.outer_quota_cores(), Some(2.0));
        let sham = group.sham_cores(8.0);
        group.set_quota(Some(sham)).expect("set");
        assert_eq!(stands(), "200000 100000");
        group.set_quota(Some(1.0)).expect("set");
        let id = fs::metadata(&scope).expect("there").ino();
        let open = || OpenGroup::folder(&scope).expect("no link").expect("there");
        open()
            .restore_quota(id + 1, &text)
            .expect("another group's");
        assert_eq!(
            stands(),
            "100000 100000",
            "it is not the one that was lowered"
        );
        for _ in 0..2 {
            open().restore_quota(id, &text).expect("put back");
            assert_eq!(stands().trim(), "200000 100000");
        }
        write(&scope, "cpu.max.burst", "5000\n");
        let why = present(&scope).expect_err("it may burst").to_string();
        assert!(why.contains("5000 us"), "{why}");
        fs::remove_dir_all(&top).expect("removed");
    }

    #[test]
    fn where_no_quota_stands_the_sham_binds_nobody() {
        let top = made_up("max");
        let scope = top.join("a.scope");
        write(&scope, "cpu.max", "max 100000\n");
        write(&scope, "cpu.stat", "nr_periods 0\n");
        let mut group = group(&top, &scope);
        assert_eq!(group.outer_quota_cores(), None);
        assert_eq!(group.sham_cores(8.0), 8.0);
        group.set_quota(Some(8.0)).expect("set");
        let stands = fs::read_to_string(scope.join("cpu.max")).expect("there");
        assert_eq!(stands, "80000 10000");
        fs::remove_dir_all(&top).expect("removed");
    }
}
