//! What processes of ours left behind that were killed together with their keepers.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use wallfinder_probe::parse::cgroup;

use super::owner::{Fate, GROUP_PREFIX, Process};
use super::step::{NETNS_FOLDER, Undo};
use super::{folders, is_private, read, undo_all_of};

/// Folders looked into for groups, at the most.
const GROUPS_MAX: usize = 100_000;
/// Groups above one another, at the most.
const DEPTH_MAX: usize = 16;

/// Something of ours whose owner is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remain {
    /// What it is: `network namespace wf-4711-1a2b3c-0s`.
    pub what: String,
    undo: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// By the journal that tells of it.
    Journal(PathBuf),
    /// By its name alone.
    Name(Undo),
}

/// What became of left-overs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What is gone now.
    pub removed: Vec<String>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
}

/// Finds what is left of dead owners: in their journals, and by our names. Things of
/// processes that live, and of anybody else, are not in it.
pub fn remains() -> Vec<Remain> {
    let mut remains = Vec::new();
    let mut told = BTreeSet::new();
    let mut held = BTreeSet::new();
    for path in journals() {
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let is_held = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
        let Ok(found) = read(&file) else {
            continue;
        };
        let fate = found.owner.fate();
        if is_held || matches!(fate, Fate::Alive | Fate::Elsewhere) {
            held.insert(found.owner.process);
            continue;
        }
        if fate == Fate::BeforeBoot || found.standing.is_empty() {
            remains.push(Remain {
                what: format!("journal {}", path.display()),
                undo: How::Journal(path),
            });
            continue;
        }
        for undo in found.standing {
            told.insert(undo.shown());
            remains.push(Remain {
                what: undo.shown(),
                undo: How::Journal(path.clone()),
            });
        }
    }
    let is_left = |owner: &Process| !owner.is_alive() && !held.contains(owner);
    for undo in netns_of_dead(&is_left)
        .into_iter()
        .chain(groups_of_dead(&is_left))
    {
        if told.insert(undo.shown()) {
            remains.push(Remain {
                what: undo.shown(),
                undo: How::Name(undo),
            });
        }
    }
    remains
}

/// Removes them.
pub fn clean(remains: &[Remain]) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut done = BTreeSet::new();
    for remain in remains {
        let result = match &remain.undo {
            How::Journal(path) if !done.insert(path.clone()) => {
                // Undone with the first of its journal, or failed with it.
                if path.exists() { continue } else { Ok(()) }
            }
            How::Journal(path) => undo_all_of(path).map(drop),
            How::Name(undo) => match File::open("/dev/null") {
                Ok(file) => undo.perform(&file),
                Err(_) => continue,
            },
        };
        match result {
            Ok(()) => cleaned.removed.push(remain.what.clone()),
            Err(error) => cleaned.failed.push(format!("{}: {error}", remain.what)),
        }
    }
    cleaned
}

/// Whether a journal says that the quota of a group was lowered: what is read there is then not
/// what stood there.
pub(crate) fn is_lowered(group: &Path) -> bool {
    let found = journals().into_iter().filter_map(|path| {
        let file = File::open(path).ok()?;
        read(&file).ok()
    });
    let mut standing = found
        .filter(|found| found.owner.fate() != Fate::BeforeBoot)
        .flat_map(|found| found.standing);
    standing
        .any(|undo| matches!(undo, Undo::RestoreQuota { group: lowered, .. } if lowered == group))
}

fn journals() -> Vec<PathBuf> {
    let private = folders().into_iter().filter(|folder| is_private(folder));
    let entries = private
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten();
    let files = entries.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect()
}

fn netns_of_dead(is_left: &impl Fn(&Process) -> bool) -> Vec<Undo> {
    let entries = fs::read_dir(NETNS_FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| Process::of_name(name).is_some_and(|owner| is_left(&owner)))
        .map(|name| Undo::DeleteNetns { name })
        .collect()
}

/// Groups of ours, the innermost first.
fn groups_of_dead(is_left: &impl Fn(&Process) -> bool) -> Vec<Undo> {
    let mounts = cgroup::mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default());
    let roots = mounts
        .iter()
        .filter(|mount| mount.kind == "cgroup" || mount.kind == "cgroup2")
        .filter(|mount| {
            let mut options = mount.options.split(',');
            mount.kind == "cgroup2" || options.any(|word| word == "cpu" || word == "freezer")
        });
    let mut found = Vec::new();
    let mut folders: Vec<(PathBuf, usize)> = roots
        .map(|mount| (PathBuf::from(&mount.point), 0))
        .collect();
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        let name = folder.file_name().and_then(|name| name.to_str());
        let tag = name.and_then(|name| name.strip_prefix(GROUP_PREFIX));
        if tag
            .and_then(Process::of_name)
            .is_some_and(|owner| is_left(&owner))
        {
            let back = folder.parent().unwrap_or(Path::new("/")).to_owned();
            if is_frozen(&folder) {
                found.push(Undo::Thaw {
                    group: folder.clone(),
                });
            }
            found.push(Undo::RemoveGroup {
                group: folder.clone(),
                back,
            });
        }
        seen += 1;
        if depth < DEPTH_MAX && seen < GROUPS_MAX {
            let below = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| (entry.path(), depth + 1)));
        }
    }
    // Nested ones of ours come out before what holds them; each is thawed before it goes.
    let deep = |undo: &Undo| match undo {
        Undo::RemoveGroup { group, .. } | Undo::Thaw { group } => group.components().count(),
        _ => 0,
    };
    found.sort_by_key(|undo| std::cmp::Reverse(deep(undo)));
    found
}

fn is_frozen(group: &Path) -> bool {
    let says = |file: &str, word: &str| {
        fs::read_to_string(group.join(file)).is_ok_and(|text| text.trim() == word)
    };
    says("cgroup.freeze", "1")
        || says("freezer.state", "FROZEN")
        || says("freezer.state", "FREEZING")
}
