//! One change, taken back. Each may be done twice, and does nothing where its thing is gone.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use wallfinder_probe::parse::cgroup;
use wallfinder_sys::namespace::netns_id;

use super::owner::{GROUP_PREFIX, Process};
use crate::affinity::Narrowed;
use crate::error::StageError;
use crate::group;
use crate::iproute;
use crate::tune;

/// Where `ip netns` keeps its names.
pub(crate) const NETNS_FOLDER: &str = "/run/netns";
/// The handle of the queueing disciplines that we add: "WF".
pub(crate) const HANDLE: &str = "5746:";
/// What the link is called in a namespace of ours.
pub(crate) const LINK: &str = "link0";
/// How long a group may take to become empty.
const EMPTY_WAIT_MAX: Duration = Duration::from_secs(3);
/// The longest text of a quota.
const QUOTA_BYTES_MAX: usize = 64;
/// Processes moved out of one group, at the most, in one go.
const MOVES_MAX: usize = 100_000;

/// A network namespace, found again whoever looks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Netns {
    /// Its number; see [`netns_id`].
    pub(crate) id: u64,
    /// A name that it had.
    pub(crate) path: Option<PathBuf>,
}

/// Where a namespace is, as seen from here.
enum Found {
    Here,
    At(PathBuf),
    Gone,
}

impl Netns {
    /// The one that a path names; for `None` that of the calling thread.
    pub(crate) fn of(path: Option<&Path>) -> io::Result<Netns> {
        Ok(Netns {
            id: netns_id(path)?,
            path: path.map(Path::to_owned),
        })
    }

    fn find(&self) -> Found {
        let is_it = |path: &Path| netns_id(Some(path)).is_ok_and(|id| id == self.id);
        if netns_id(None).is_ok_and(|id| id == self.id) {
            return Found::Here;
        }
        if let Some(path) = self.path.as_deref().filter(|path| is_it(path)) {
            return Found::At(path.to_owned());
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut namespaces = processes.map(|process| process.path().join("ns/net"));
        namespaces
            .find(|path| is_it(path))
            .map_or(Found::Gone, Found::At)
    }
}

/// What takes a change back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub(crate) enum Undo {
    /// Deletes a network namespace of ours, and its links with it.
    DeleteNetns { name: String },
    /// Deletes the queueing discipline that we added; one with another handle is not ours.
    DeleteQdisc { netns: Netns, interface: String },
    /// Puts back a rate that stood there: the words of `tc` that set it.
    RestoreRate {
        netns: Netns,
        interface: String,
        words: Vec<String>,
    },
    /// Moves what is in a group of ours back to where it was, and removes the group.
    RemoveGroup { group: PathBuf, back: PathBuf },
    /// Puts back the quota (`cpu.max`) of a group of version 2 that was there before us.
    RestoreQuota { group: PathBuf, text: String },
    /// Puts back where threads might run before they were moved to another group.
    RestoreAllowed { threads: Vec<(Process, Vec<u32>)> },
    /// Lets a frozen group of ours go on.
    Thaw { group: PathBuf },
    /// Lets stopped processes go on.
    Continue { processes: Vec<Process> },
    /// Puts back where threads may run.
    RestoreAffinity(Narrowed),
    /// Writes a setting of the host as it was.
    RestoreSetting { path: PathBuf, text: String },
    /// Ends a helper of ours.
    Kill { process: Process },
}

impl Undo {
    /// Takes the change back. `lock` is held by what is run for it.
    pub(crate) fn perform(&self, lock: &File) -> Result<(), StageError> {
        match self {
            Undo::DeleteNetns { name } => delete_netns(name, lock),
            Undo::DeleteQdisc { netns, interface } => {
                let words = [
                    "tc", "qdisc", "delete", "dev", interface, "root", "handle", HANDLE,
                ];
                run_tc(netns, interface, &words, lock)
            }
            Undo::RestoreRate {
                netns,
                interface,
                words,
            } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                run_tc(netns, interface, &words, lock)
            }
            Undo::RemoveGroup { group, back } => remove_group(group, back),
            Undo::RestoreQuota { group, text } => restore_quota(group, text),
            Undo::RestoreAllowed { threads } => {
                group::restore_allowed(threads);
                Ok(())
            }
            Undo::Thaw { group } => thaw(group),
            Undo::Continue { processes } => {
                for process in processes {
                    signal(*process, Signal::CONT);
                }
                Ok(())
            }
            Undo::RestoreAffinity(narrowed) => {
                narrowed.restore();
                Ok(())
            }
            Undo::RestoreSetting { path, text } => tune::restore(path, text),
            Undo::Kill { process } => {
                signal(*process, Signal::KILL);
                Ok(())
            }
        }
    }

    /// What it is about, for people: `network namespace wf-4711-1a-0s`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Undo::DeleteNetns { name } => format!("network namespace {name}"),
            Undo::DeleteQdisc { interface, .. } => format!("tbf on {interface}"),
            Undo::RestoreRate { interface, .. } => format!("lowered rate of {interface}"),
            Undo::RemoveGroup { group, .. } => format!("control group {}", group.display()),
            Undo::RestoreQuota { group, .. } => format!("quota of group {}", group.display()),
            Undo::RestoreAllowed { threads } => {
                format!("processors of {} moved threads", threads.len())
            }
            Undo::Thaw { group } => format!("frozen group {}", group.display()),
            Undo::Continue { processes } => format!("{} stopped processes", processes.len()),
            Undo::RestoreAffinity(narrowed) => {
                format!("{} threads on fewer processors", narrowed.threads.len())
            }
            Undo::RestoreSetting { path, .. } => format!("setting {}", path.display()),
            Undo::Kill { process } => format!("helper process {}", process.pid),
        }
    }
}

/// A journal could be wrong; a name that is not of our making is never acted on.
fn ours(name: &str, kind: &str) -> Result<(), StageError> {
    match Process::of_name(name) {
        Some(_) if !name.contains('/') => Ok(()),
        _ => Err(StageError::refused(
            format!("removing the {kind} {name}"),
            "its name is not one that Wallfinder gives",
        )),
    }
}

fn delete_netns(name: &str, lock: &File) -> Result<(), StageError> {
    ours(name, "network namespace")?;
    let path = Path::new(NETNS_FOLDER).join(name);
    if !path.exists() {
        return Ok(());
    }
    // The link goes at once, also its other end, which may be in a namespace that stays; the
    // namespace itself goes when nobody is in it any more.
    let _ = iproute::change(Some(&path), &["ip", "link", "delete", "dev", LINK], lock);
    let done = iproute::change(None, &["ip", "netns", "delete", name], lock);
    if path.exists() { done } else { Ok(()) }
}

/// Runs a command about an interface, unless that or its namespace is gone.
fn run_tc(netns: &Netns, interface: &str, words: &[&str], lock: &File) -> Result<(), StageError> {
    let path = match netns.find() {
        Found::Here => None,
        Found::At(path) => Some(path),
        Found::Gone => return Ok(()),
    };
    let done = iproute::change(path.as_deref(), words, lock);
    match done {
        Err(StageError::Failed { why, .. }) if is_gone(&why, interface) => Ok(()),
        done => done,
    }
}

/// Whether a complaint of `ip` or `tc` says that there is nothing to undo.
fn is_gone(why: &str, interface: &str) -> bool {
    why.contains(&format!("Cannot find device \"{interface}\""))
        || why.contains("Cannot delete qdisc with handle of zero")
        || why.contains("Invalid handle")
        || why.contains("Specified qdisc handle not found")
        || why.contains("Specified qdisc not found")
        || why.contains("Failed to find qdisc with specified handle")
}

fn remove_group(group: &Path, back: &Path) -> Result<(), StageError> {
    let name = group.file_name().and_then(|name| name.to_str());
    let tag = name.and_then(|name| name.strip_prefix(GROUP_PREFIX));
    ours(tag.unwrap_or_default(), "control group")?;
    let until = Instant::now() + EMPTY_WAIT_MAX;
    loop {
        let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().take(MOVES_MAX) {
            // One that ended meanwhile needs no moving.
            let _ = fs::write(back.join("cgroup.procs"), pid);
        }
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if Instant::now() > until => {
                // Where they were may be gone. They stay, and are held no more.
                let _ = lift(group);
                return Err(StageError::at("remove the control group", group, &e));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Takes the quota off a group of version 2.
fn lift(group: &Path) -> io::Result<()> {
    let file = group.join("cpu.max");
    match file.exists() {
        true => fs::write(file, "max"),
        false => Ok(()),
    }
}

fn restore_quota(group: &Path, text: &str) -> Result<(), StageError> {
    let is_plain =
        group.is_absolute() && !group.components().any(|part| part == Component::ParentDir);
    if !is_plain || text.len() > QUOTA_BYTES_MAX || cgroup::cpu_max(text.as_bytes()).is_none() {
        return Err(StageError::refused(
            format!("writing the quota of {}", group.display()),
            "it is none that Wallfinder changes",
        ));
    }
    let file = group.join("cpu.max");
    match fs::exists(&file) {
        Ok(false) => Ok(()),
        _ => match fs::write(&file, text) {
            // It is being removed.
            Err(_) if !file.exists() => Ok(()),
            done => done.map_err(|e| StageError::at("put back the quota in", &file, &e)),
        },
    }
}

fn thaw(group: &Path) -> Result<(), StageError> {
    for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        let file = group.join(file);
        if file.exists() {
            fs::write(&file, word).map_err(|e| StageError::at("thaw", &file, &e))?;
        }
    }
    Ok(())
}

fn signal(process: Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| process.is_alive()) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_cannot_make_us_remove_what_is_not_ours() {
        let lock = File::open("/dev/null").expect("a file");
        for name in [
            "default",
            "wf-x",
            "../wf-1-2-s",
            "wf-1-2-s/../../x",
            "",
            "wfx-1-2-s",
        ] {
            let name = name.to_owned();
            let undo = Undo::DeleteNetns { name: name.clone() };
            assert!(undo.perform(&lock).is_err(), "{name}");
        }
        for group in [
            "/sys/fs/cgroup/cpu/wallfinder",
            "/sys/fs/cgroup/cpu",
            "/",
            "wallfinder-x",
        ] {
            let (group, back) = (PathBuf::from(group), PathBuf::from("/sys/fs/cgroup/cpu"));
            assert!(Undo::RemoveGroup { group, back }.perform(&lock).is_err());
        }
        for (group, text) in [
            ("/sys/fs/cgroup/a.scope", "max"),
            ("/sys/fs/cgroup/a.scope", "no quota"),
            ("/sys/fs/cgroup/../../etc", "max 100000"),
            ("a.scope", "max 100000"),
        ] {
            let (group, text) = (PathBuf::from(group), text.to_owned());
            assert!(Undo::RestoreQuota { group, text }.perform(&lock).is_err());
        }
    }

    #[test]
    fn undoing_what_is_gone_is_fine() {
        let lock = File::open("/dev/null").expect("a file");
        let nobody = Process {
            pid: std::process::id(),
            start: 1,
        };
        for undo in [
            Undo::DeleteNetns {
                name: "wf-1-2-s".into(),
            },
            Undo::DeleteQdisc {
                netns: Netns { id: 1, path: None },
                interface: "eth0".into(),
            },
            Undo::RemoveGroup {
                group: "/sys/fs/cgroup/cpu/wallfinder-wf-1-2-s".into(),
                back: "/sys/fs/cgroup/cpu".into(),
            },
            Undo::Thaw {
                group: "/sys/fs/cgroup/freezer/wallfinder-wf-1-2-s".into(),
            },
            Undo::RestoreQuota {
                group: "/sys/fs/cgroup/wf-gone.scope".into(),
                text: "max 100000".into(),
            },
            Undo::RestoreAllowed {
                threads: vec![(nobody, vec![0])],
            },
            Undo::Continue {
                processes: vec![nobody],
            },
            Undo::Kill { process: nobody },
            Undo::RestoreSetting {
                path: "/sys/class/net/wf-gone/queues/rx-0/rps_cpus".into(),
                text: "0".into(),
            },
            Undo::RestoreAffinity(Narrowed {
                pids: vec![u32::MAX],
                left: vec![0],
                taken: 1,
                threads: vec![(nobody, vec![0])],
            }),
        ] {
            let text = serde_json::to_string(&undo).expect("JSON");
            let again: Undo = serde_json::from_str(&text).expect("the same");
            assert_eq!(again, undo);
            undo.perform(&lock)
                .unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }
}
