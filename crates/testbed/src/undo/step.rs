//! One change, taken back. Each may be done twice, and does nothing where its thing is gone.
//!
//! A change says what is to be restored in values of its own types, each of which is checked when it
//! is read. No word of a command, and no path that is written to, comes from a journal as it stands.

use std::fs::File;
use std::ops::Deref;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::cgroup::{self, GroupPath, OwnGroup, QuotaText};
use super::netns::{self, Netns};
use super::owner::{Process, Tag};
use crate::affinity::Narrowed;
use crate::error::TestbedError;
use crate::group;
use crate::iproute::InterfaceName;
use crate::lab::{Handle, Rate};
use crate::tune::{Setting, Text};

/// Where `ip netns` keeps its names.
pub(crate) const NETNS_FOLDER: &str = "/run/netns";
/// What the link is called in a namespace of ours.
pub(crate) const LINK: &str = "link0";

/// A name that bears a tag of ours: `wf-4711-1a2b3c-effffffc-0s`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct OwnName(String);

impl TryFrom<String> for OwnName {
    type Error = String;

    fn try_from(name: String) -> Result<OwnName, String> {
        match Tag::of_name(&name) {
            Some(_) => Ok(OwnName(name)),
            None => Err("a name that Wallfinder does not give".into()),
        }
    }
}

impl From<OwnName> for String {
    fn from(name: OwnName) -> String {
        name.0
    }
}

impl Deref for OwnName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What takes a change back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Undo {
    /// Deletes a network namespace of ours, and its links with it.
    DeleteNetns { name: OwnName },
    /// Deletes the queueing discipline that we added; one with another handle is not ours.
    DeleteQdisc {
        netns: Netns,
        interface: InterfaceName,
    },
    /// Puts back a rate that stood there.
    RestoreRate {
        netns: Netns,
        interface: InterfaceName,
        rate: Rate,
    },
    /// Moves what is in a group of ours back to where it was, and removes the group.
    RemoveGroup { group: OwnGroup, back: GroupPath },
    /// Puts back the quota (`cpu.max`) of a group of version 2 that was there before us.
    RestoreQuota {
        group: GroupPath,
        /// The number of its folder: a group of that name that is made later is another.
        id: u64,
        text: QuotaText,
    },
    /// Puts back where threads might run before they were moved to another group.
    RestoreAllowed { threads: Vec<(Process, Vec<u32>)> },
    /// Lets a frozen group of ours go on.
    Thaw { group: OwnGroup },
    /// Lets stopped processes go on.
    Continue { processes: Vec<Process> },
    /// Puts back where threads may run.
    RestoreAffinity(Narrowed),
    /// Writes a setting of the host as it was.
    RestoreSetting { setting: Setting, text: Text },
}

impl Undo {
    /// Whether a journal of this owner may hold it.
    pub(super) fn check(&self, owner: Tag) -> Result<(), String> {
        let of_owner = |tag: Option<Tag>| match tag == Some(owner) {
            true => Ok(()),
            false => Err("its name is another owner's".to_owned()),
        };
        match self {
            Undo::DeleteNetns { name } => of_owner(Tag::of_name(name)),
            Undo::RemoveGroup { group, .. } | Undo::Thaw { group } => of_owner(group.tag()),
            Undo::RestoreRate { rate, .. } => rate.check(),
            Undo::RestoreSetting { setting, text } => setting.check(text),
            Undo::DeleteQdisc { .. }
            | Undo::RestoreQuota { .. }
            | Undo::RestoreAllowed { .. }
            | Undo::Continue { .. }
            | Undo::RestoreAffinity(_) => Ok(()),
        }
    }

    /// Takes the change back. `lock` is held by what is run for it.
    pub(crate) fn perform(&self, lock: &File) -> Result<(), TestbedError> {
        match self {
            Undo::DeleteNetns { name } => netns::delete(name, lock),
            Undo::DeleteQdisc { netns, interface } => {
                let handle = Handle::OWN.to_string();
                let words = [
                    "tc", "qdisc", "delete", "dev", interface, "root", "handle", &handle,
                ];
                run_tc(netns, interface, &words, lock)
            }
            Undo::RestoreRate {
                netns,
                interface,
                rate,
            } => {
                let words = rate.words(interface, 1.0);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                run_tc(netns, interface, &words, lock)
            }
            Undo::RemoveGroup { group, back } => group.remove(back),
            Undo::RestoreQuota { group, id, text } => cgroup::restore_quota(group, *id, text),
            Undo::RestoreAllowed { threads } => {
                group::restore_allowed(threads);
                Ok(())
            }
            Undo::Thaw { group } => group.thaw(),
            Undo::Continue { processes } => {
                for process in processes {
                    let _ = process.signal(Signal::CONT);
                }
                Ok(())
            }
            Undo::RestoreAffinity(narrowed) => {
                narrowed.restore();
                Ok(())
            }
            Undo::RestoreSetting { setting, text } => setting.restore(text),
        }
    }

    /// Whether it only lets go on what may be stopped, and may be done while its owner lives.
    pub(super) fn is_of_a_stop(&self) -> bool {
        matches!(self, Undo::Thaw { .. } | Undo::Continue { .. })
    }

    /// Whether it is about a group of ours that holds no process, and neither do those below it.
    pub(super) fn is_of_empty_group(&self) -> bool {
        match self {
            Undo::RemoveGroup { group: own, .. } | Undo::Thaw { group: own } => {
                group::processes(own.path()).is_some_and(|inside| inside.is_empty())
            }
            _ => false,
        }
    }

    /// What it is about, for people: `network namespace wf-4711-1a-effffffc-0s`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Undo::DeleteNetns { name } => format!("network namespace {}", &**name),
            Undo::DeleteQdisc { interface, .. } => format!("tbf on {interface}"),
            Undo::RestoreRate { interface, .. } => format!("lowered rate of {interface}"),
            Undo::RemoveGroup { group, .. } => format!("control group {}", group.path().display()),
            Undo::RestoreQuota { group, .. } => {
                format!("quota of group {}", group.path().display())
            }
            Undo::RestoreAllowed { threads } => {
                format!("processors of {} moved threads", threads.len())
            }
            Undo::Thaw { group } => format!("frozen group {}", group.path().display()),
            Undo::Continue { processes } => match processes.len() {
                1 => "1 stopped process".to_owned(),
                many => format!("{many} stopped processes"),
            },
            Undo::RestoreAffinity(narrowed) => {
                format!("{} threads on fewer processors", narrowed.threads.len())
            }
            Undo::RestoreSetting { setting, .. } => format!("setting {setting}"),
        }
    }
}

/// Runs a command about an interface, unless that or its namespace is gone.
fn run_tc(
    netns: &Netns,
    interface: &InterfaceName,
    words: &[&str],
    lock: &File,
) -> Result<(), TestbedError> {
    match netns.run(words, lock) {
        Err(TestbedError::Failed { why, .. }) if is_gone(&why, interface) => Ok(()),
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
