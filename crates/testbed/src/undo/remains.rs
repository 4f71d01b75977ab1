//! What processes of ours left behind that were killed together with their keepers.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wallfinder_probe::parse::cgroup;

use super::cgroup::OwnGroup;
use super::folder::{ELSEWHERE, Folder, Paper};
use super::folders;
use super::owner::{Fate, Tag, World};
use super::step::{NETNS_FOLDER, OwnName, Undo};
use crate::error::TestbedError;

/// Folders looked into for groups, at the most.
const GROUPS_MAX: usize = 100_000;
/// Groups above one another, at the most.
const DEPTH_MAX: usize = 16;

/// What was found.
#[derive(Debug, Default)]
pub struct Left {
    /// What can be removed, since its owner is gone.
    pub remains: Vec<Remain>,
    /// What is left alone, each with its reason: it belongs to a run elsewhere, or cannot be trusted.
    pub left_alone: Vec<String>,
}

/// Something of ours whose owner is gone.
#[derive(Debug, Clone)]
pub struct Remain {
    /// What it is: `network namespace wf-4711-1a2b3c-effffffc-0s`.
    pub what: String,
    undo: How,
}

#[derive(Debug, Clone)]
enum How {
    /// By the journal that tells of it.
    Journal(Arc<Paper>),
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
pub fn remains() -> Left {
    let mut left = Left::default();
    let world = match World::own() {
        Ok(world) => world,
        Err(error) => {
            left.left_alone.push(error.to_string());
            return left;
        }
    };
    let mut told = BTreeSet::new();
    let mut held = BTreeSet::new();
    let mut elsewhere = BTreeSet::new();
    for paper in journals(&mut left.left_alone) {
        if paper.is_held() {
            held.insert(paper.tag);
            continue;
        }
        let name = format!("journal {}", paper.path().display());
        let content = match paper.read() {
            Ok(content) => content,
            Err(error) => {
                held.insert(paper.tag);
                left.left_alone.push(format!("{name}: {error}"));
                continue;
            }
        };
        let paper = Arc::new(paper);
        let mut remain = |what| {
            let undo = How::Journal(Arc::clone(&paper));
            left.remains.push(Remain { what, undo });
        };
        match content.fate(&world, paper.tag) {
            Fate::Alive => drop(held.insert(paper.tag)),
            Fate::Elsewhere => {
                elsewhere.insert(paper.tag);
                left.left_alone.push(format!("{name}: {ELSEWHERE}"));
            }
            Fate::Dead if !content.standing.is_empty() => {
                for what in content.shown() {
                    told.insert(what.clone());
                    remain(what);
                }
            }
            Fate::Dead | Fate::BeforeBoot => remain(name),
        }
    }
    let names = named().into_iter().filter(|(tag, _)| !held.contains(tag));
    // All processes are looked at only where a name asks for it, and after the names were: who made one of these is
    // there, or gone for good.
    let inhabited = LazyCell::new(|| world.inhabited());
    let is_deserted = |tag: Tag| inhabited.as_ref().is_some_and(|all| !tag.is_among(all));
    for (tag, undo) in names {
        let what = undo.shown();
        let is_told = elsewhere.contains(&tag);
        let is_over = match world.knows(tag) {
            true => !is_told && !tag.process.is_alive(),
            // Paths mean something else there: a group that holds nobody is the same from everywhere.
            false => is_deserted(tag) && undo.is_of_empty_group(),
        };
        if is_over {
            if told.insert(what.clone()) {
                let undo = How::Name(undo);
                left.remains.push(Remain { what, undo });
            }
        } else if !world.knows(tag) && !is_told {
            left.left_alone.push(format!("{what}: {ELSEWHERE}"));
        }
    }
    left
}

/// Removes them.
pub fn clean(remains: &[Remain]) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut done: Vec<(*const Paper, Result<(), TestbedError>)> = Vec::new();
    for remain in remains {
        let result = match &remain.undo {
            How::Journal(paper) => {
                let of = Arc::as_ptr(paper);
                let known = done.iter().position(|(known, _)| *known == of);
                let known = known.unwrap_or_else(|| {
                    done.push((of, paper.undo_all()));
                    done.len() - 1
                });
                done[known].1.clone()
            }
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
    let Ok(world) = World::own() else {
        return false;
    };
    journals(&mut Vec::new()).into_iter().any(|paper| {
        let content = paper.read().ok();
        let content = content.filter(|it| it.fate(&world, paper.tag) != Fate::BeforeBoot);
        let mut standing = content.into_iter().flat_map(|content| content.standing);
        standing.any(|undo| {
            matches!(undo, Undo::RestoreQuota { group: lowered, .. } if lowered.path() == group)
        })
    })
}

/// Those in all folders that are ours; of the rest, why not.
fn journals(refused: &mut Vec<String>) -> Vec<Paper> {
    let mut found = Vec::new();
    for path in folders() {
        let folder = match Folder::open(&path) {
            Ok(Some(folder)) => Arc::new(folder),
            Ok(None) => continue,
            Err(error) => {
                refused.push(error.to_string());
                continue;
            }
        };
        for name in folder.names() {
            match folder.journal(&name) {
                Ok(paper) => found.extend(paper),
                Err(error) => refused.push(error.to_string()),
            }
        }
    }
    found
}

/// What bears a tag of ours, and how it is removed.
fn named() -> Vec<(Tag, Undo)> {
    let entries = fs::read_dir(NETNS_FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<(Tag, Undo)> = names
        .filter_map(|name| {
            let tag = Tag::of_name(&name)?;
            let name = OwnName::try_from(name).ok()?;
            Some((tag, Undo::DeleteNetns { name }))
        })
        .collect();
    found.extend(groups());
    found
}

/// Groups of ours, the innermost first.
fn groups() -> Vec<(Tag, Undo)> {
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
        found.extend(group(&folder).into_iter().flatten());
        seen += 1;
        if depth < DEPTH_MAX && seen < GROUPS_MAX {
            let below = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| (entry.path(), depth + 1)));
        }
    }
    // Nested ones of ours come out before what holds them; each is thawed before it goes.
    let deep = |undo: &Undo| match undo {
        Undo::RemoveGroup { group, .. } | Undo::Thaw { group } => group.path().components().count(),
        _ => 0,
    };
    found.sort_by_key(|(_, undo)| std::cmp::Reverse(deep(undo)));
    found
}

/// What is to be done about a group, if it is one of ours.
fn group(folder: &Path) -> Option<Vec<(Tag, Undo)>> {
    let group = OwnGroup::try_from(folder.to_owned()).ok()?;
    let tag = group.tag()?;
    let back = folder.parent()?.to_owned().try_into().ok()?;
    let thaw = is_frozen(folder).then(|| {
        let group = group.clone();
        (tag, Undo::Thaw { group })
    });
    let remove = (tag, Undo::RemoveGroup { group, back });
    Some(thaw.into_iter().chain([remove]).collect())
}

fn is_frozen(group: &Path) -> bool {
    let says = |file: &str, word: &str| {
        fs::read_to_string(group.join(file)).is_ok_and(|text| text.trim() == word)
    };
    says("cgroup.freeze", "1")
        || says("freezer.state", "FROZEN")
        || says("freezer.state", "FREEZING")
}
