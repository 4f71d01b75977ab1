//! Settings of this host that a comparison tries: in force for a while, and then as they were.
//!
//! ```text
//!  "huge-pages=always"   how the kernel hands out memory, for everybody
//!  "rps=0-1"             processors that share an interface's receive work (receive packet steering)
//!  "rfs=4096"            flows whose work follows the thread that reads them
//!  "busy-poll=50"        microseconds that a socket polls its device before it sleeps
//!  "irq-affinity=1"      processors that take an interface's interrupts
//! ```
//!
//! They are the host's, so others feel them too. Each is written to the journal before it is changed,
//! and is put back when it is dropped, after a kill by whoever keeps the journal. Those of a link's
//! ends in namespaces of ours need no journal: who removes the namespace removes them. What cannot act
//! on an interface (there is no interrupt of loopback) is refused as not applicable: measured anyway,
//! it would read as "no effect". What was written is read back, and [`Watch`] sees whether it acts.

mod setting;
mod sign;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::OFlags;
use rustix::io::Errno;
use wallfinder_probe::parse::host::cpulist;

use crate::child::Shim;
use crate::error::TestbedError;
use crate::iproute;
use crate::undo::{Change, Journal, Undo};

pub(crate) use setting::{Setting, Text};
pub use sign::{Seen, Watch};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const BUSY: [&str; 2] = [
    "/proc/sys/net/core/busy_read",
    "/proc/sys/net/core/busy_poll",
];
const FLOWS: &str = "/proc/sys/net/core/rps_sock_flow_entries";
/// Settings in it are the host's, and only its own network namespace shows them.
const CORE: &str = "/proc/sys/net/core";
const HOST_NETNS: &str = "/proc/1/ns/net";
const INTERFACES: &str = "/sys/class/net";

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knob {
    HugePages,
    Rps,
    Rfs,
    BusyPoll,
    IrqAffinity,
}

impl Knob {
    const ALL: [Knob; 5] = [
        Knob::HugePages,
        Knob::Rps,
        Knob::Rfs,
        Knob::BusyPoll,
        Knob::IrqAffinity,
    ];

    fn name(self) -> &'static str {
        match self {
            Knob::HugePages => "huge-pages",
            Knob::Rps => "rps",
            Knob::Rfs => "rfs",
            Knob::BusyPoll => "busy-poll",
            Knob::IrqAffinity => "irq-affinity",
        }
    }

    /// Whether a file says what was written to it, in the kernel's own way of saying it.
    fn agrees(self, written: &str, found: &str) -> bool {
        match self {
            Knob::HugePages | Knob::BusyPoll => found == written,
            Knob::Rps => cpus_of_mask(written) == cpus_of_mask(found),
            Knob::IrqAffinity => cpulist(written.as_bytes()) == cpulist(found.as_bytes()),
            // Tables are as large as the next power of two.
            Knob::Rfs => {
                let table = |flows: u32| match flows {
                    0 => 0,
                    flows => flows.next_power_of_two(),
                };
                written.parse::<u32>().map(table) == found.parse::<u32>()
            }
        }
    }
}

/// A setting and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    knob: Knob,
    value: String,
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.knob.name(), self.value)
    }
}

impl FromStr for Tuning {
    type Err = String;

    fn from_str(text: &str) -> Result<Tuning, String> {
        let names = Knob::ALL.map(Knob::name).join(", ");
        let bad = || format!("`{text}` is no KEY=VALUE of a setting; there are {names}");
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let knob = Knob::ALL.into_iter().find(|knob| knob.name() == name);
        let knob = knob.ok_or_else(bad)?;
        let is_good = match knob {
            Knob::HugePages => ["always", "madvise", "never"].contains(&value),
            Knob::Rps | Knob::IrqAffinity => cpulist(value.as_bytes()).is_some(),
            Knob::Rfs => value.parse::<u32>().is_ok_and(|flows| flows <= 1 << 20),
            Knob::BusyPoll => value.parse::<u32>().is_ok_and(|us| us <= 1000),
        };
        if !is_good {
            let wanted = match knob {
                Knob::HugePages => "always, madvise or never",
                Knob::Rps | Knob::IrqAffinity => "processors, such as 0-1",
                Knob::Rfs => "flows, up to 1048576",
                Knob::BusyPoll => "microseconds, up to 1000",
            };
            return Err(format!("{name} takes {wanted}, not `{value}`"));
        }
        Ok(Tuning {
            knob,
            value: value.to_owned(),
        })
    }
}

/// An interface that a load uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The name of the namespace of ours that it stands in; `None`: it is one that this process's
    /// `/sys` shows.
    pub netns: Option<String>,
    /// Its own name.
    pub name: String,
}

impl Interface {
    fn folder(&self) -> PathBuf {
        Path::new(INTERFACES).join(&self.name)
    }
}

/// A file, as it is seen from a namespace of ours or (`None`) from here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    netns: Option<String>,
    path: PathBuf,
}

impl Place {
    fn here(path: impl Into<PathBuf>) -> Place {
        Place {
            netns: None,
            path: path.into(),
        }
    }

    /// What the setting says, as it can be written again: of a choice the word in brackets.
    fn read(&self) -> Result<String, TestbedError> {
        let text = match &self.netns {
            None => where_seen(&self.path, || {
                fs::read_to_string(&self.path).map_err(|e| TestbedError::at("read", &self.path, &e))
            })?,
            Some(netns) => look_inside(netns, &["cat", &self.path.to_string_lossy()])?,
        };
        let chosen = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map(|(chosen, _)| chosen);
        Ok(chosen.unwrap_or(text.trim()).to_owned())
    }

    fn write(&self, text: &str, journal: &Journal) -> Result<(), TestbedError> {
        let Some(netns) = &self.netns else {
            return where_seen(&self.path, || write(&self.path, text));
        };
        let path = self.path.to_string_lossy();
        let words = in_netns(netns, &["sh", "-c", WRITE, text, &path]);
        iproute::change(None, &words, &journal.held()?)
    }
}

/// Writes its first word to the file that is its second.
const WRITE: &str = r#"printf %s "$0" > "$1""#;

/// A command that finds itself in a namespace of ours, where `/sys` shows that namespace's interfaces.
fn in_netns<'w>(netns: &'w str, command: &[&'w str]) -> Vec<&'w str> {
    [&["ip", "netns", "exec", netns][..], command].concat()
}

/// What a command prints there.
fn look_inside(netns: &str, command: &[&str]) -> Result<String, TestbedError> {
    iproute::look(None, &in_netns(netns, command))
}

/// Does something about a file of the host from where it is seen.
fn where_seen<T: Send>(
    path: &Path,
    act: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    let elsewhere = path.starts_with(CORE) && !path.exists();
    iproute::inside(elsewhere.then_some(Path::new(HOST_NETNS)), act)
}

/// A setting that is in force. Dropping it puts back what was there.
#[derive(Debug, Default)]
pub struct Tuned {
    changes: Vec<Change>,
    inside: Vec<Inside>,
    kept: Vec<String>,
}

impl Tuned {
    /// Of several interrupts, those that the kernel keeps where they are, in words.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        while self.inside.pop().is_some() {}
        while self.changes.pop().is_some() {}
    }
}

/// A file of a namespace of ours, which takes it along when it goes. Dropping this puts it back.
#[derive(Debug)]
struct Inside {
    place: Place,
    before: String,
    journal: &'static Journal,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Without its namespace there is nothing to put back.
        let _ = self.place.write(&self.before, self.journal);
    }
}

impl Tuning {
    /// Whether a process has it from its start: memory that is there stays as it was handed out, and a
    /// socket that is accepted has what its listener had.
    pub fn acts_at_start(&self) -> bool {
        matches!(self.knob, Knob::HugePages | Knob::BusyPoll)
    }

    /// Puts it in force. `interfaces` are those that the load uses, where they can be reached.
    pub fn apply(&self, interfaces: &[Interface], shim: &Shim) -> Result<Tuned, TestbedError> {
        let settings = self.settings(interfaces)?;
        let journal = Journal::open(shim)?;
        let mut tuned = Tuned::default();
        let mut refused = None;
        for (place, text) in settings {
            match self.set(place, &text, journal, &mut tuned) {
                Ok(()) => {}
                Err(error @ TestbedError::Refused { .. }) if self.knob == Knob::IrqAffinity => {
                    tuned.kept.push(error.to_string());
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error) if tuned.changes.is_empty() => Err(error),
            _ => Ok(tuned),
        }
    }

    /// Writes a setting, and sees that the kernel has taken it.
    fn set(
        &self,
        place: Place,
        text: &str,
        journal: &'static Journal,
        tuned: &mut Tuned,
    ) -> Result<(), TestbedError> {
        let before = place.read()?;
        if place.netns.is_some() {
            let inside = Inside {
                place: place.clone(),
                before,
                journal,
            };
            tuned.inside.push(inside);
            return self.write(&place, text, journal);
        }
        let setting = Setting::try_from(place.path.display().to_string());
        let setting = setting.map_err(|why| TestbedError::failed(format!("set {self}"), why))?;
        let undo = Undo::RestoreSetting {
            setting,
            text: before,
        };
        let (change, ()) = journal.change(undo, |_| self.write(&place, text, journal))?;
        tuned.changes.push(change);
        Ok(())
    }

    fn write(&self, place: &Place, text: &str, journal: &Journal) -> Result<(), TestbedError> {
        place.write(text, journal)?;
        let found = place.read()?;
        tracing::info!(setting = %self, file = %place.path.display(), %found, "host setting is changed");
        match self.knob.agrees(text, &found) {
            true => Ok(()),
            false => Err(TestbedError::failed(
                format!("set {self}"),
                format!(
                    "after `{text}` was written, {} says `{found}`",
                    place.path.display()
                ),
            )),
        }
    }

    /// Files, and what is written to them.
    fn settings(&self, interfaces: &[Interface]) -> Result<Vec<(Place, String)>, TestbedError> {
        let value = |place: Place| (place, self.value.clone());
        if self.knob == Knob::HugePages {
            return Ok(vec![value(Place::here(HUGE_PAGES))]);
        }
        let is_seen = |of: &Interface| of.netns.is_some() || of.folder().is_dir();
        if interfaces.is_empty() || !interfaces.iter().all(is_seen) {
            return Err(TestbedError::refused(
                self.to_string(),
                "it is not supported here, for the interface of the load stands in a namespace that \
                 is not ours: with --subject and --link one is laid",
            ));
        }
        let own = interfaces.iter().filter(|of| of.netns.is_none());
        let mut settings = Vec::new();
        let nothing = match self.knob {
            Knob::HugePages => unreachable!("it is of no interface"),
            Knob::Rps => {
                let mask = mask(&cpulist(self.value.as_bytes()).unwrap_or_default());
                let places = queues(interfaces, "rps_cpus")?.into_iter();
                settings.extend(places.map(|place| (place, mask.clone())));
                "the interface has no receive queue"
            }
            Knob::Rfs => {
                let places = queues(interfaces, "rps_flow_cnt")?;
                if !places.is_empty() {
                    settings.push(value(Place::here(FLOWS)));
                }
                settings.extend(places.into_iter().map(value));
                "the interface has no receive queue"
            }
            Knob::BusyPoll => {
                let mut folders = own.map(Interface::folder);
                if folders.any(|folder| folder.join("device").exists()) {
                    settings.extend(BUSY.map(Place::here).map(value));
                }
                "the interface has no device whose queue could be polled"
            }
            Knob::IrqAffinity => {
                let places = own.flat_map(interrupts);
                let places = places.map(|folder| Place::here(folder.join("smp_affinity_list")));
                settings.extend(places.map(value));
                "the interface has no interrupt of its own"
            }
        };
        match settings.is_empty() {
            true => Err(TestbedError::refused(
                self.to_string(),
                format!("it is not applicable here, for {nothing}"),
            )),
            false => Ok(settings),
        }
    }
}

/// The folders of an interface's interrupts.
fn interrupts(interface: &Interface) -> Vec<PathBuf> {
    // The interrupts hang on the bus device: for virtio one above the interface's.
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let folder = interface.folder();
    let found = places
        .iter()
        .find_map(|place| fs::read_dir(folder.join(place)).ok());
    let numbers = found.into_iter().flatten().flatten();
    let folders = numbers.map(|entry| Path::new("/proc/irq").join(entry.file_name()));
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    folders
}

/// One setting of each receive queue of these interfaces.
fn queues(interfaces: &[Interface], setting: &str) -> Result<Vec<Place>, TestbedError> {
    let mut places = Vec::new();
    for interface in interfaces {
        let folder = interface.folder().join("queues");
        let mut names = match &interface.netns {
            None => {
                let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
                let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
                names.collect::<Vec<String>>()
            }
            Some(netns) => {
                let shown = look_inside(netns, &["ls", &folder.to_string_lossy()])?;
                shown.split_whitespace().map(str::to_owned).collect()
            }
        };
        names.retain(|name| name.starts_with("rx-"));
        names.sort();
        places.extend(names.into_iter().map(|name| Place {
            netns: interface.netns.clone(),
            path: folder.join(name).join(setting),
        }));
    }
    Ok(places)
}

/// As the kernel takes processors: hexadecimal words of 32, the highest first.
fn mask(cpus: &[u32]) -> String {
    let last = cpus.iter().max().map_or(0, |cpu| cpu / 32);
    let word = |nth: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == nth);
        bits.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words = (0..=last).rev().map(|nth| format!("{:08x}", word(nth)));
    words.collect::<Vec<_>>().join(",")
}

/// The processors of such a mask, in ascending order.
fn cpus_of_mask(mask: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (nth, word) in mask.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        let first = u32::try_from(nth).ok()? * 32;
        let bits = (0..32).filter(|bit| (word >> bit) & 1 == 1);
        cpus.extend(bits.map(|bit| first + bit));
    }
    Some(cpus)
}

/// A file that is there, and no link.
fn write(path: &Path, text: &str) -> Result<(), TestbedError> {
    let doing = || format!("writing {}", path.display());
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(path);
    match opened.and_then(|mut file| file.write_all(text.as_bytes())) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Err(TestbedError::no_privilege(doing(), "it takes root"))
        }
        Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
            Err(TestbedError::refused(doing(), "the kernel keeps it so"))
        }
        done => done.map_err(|e| TestbedError::at("write", path, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(name: &str) -> [Interface; 1] {
        [Interface {
            netns: None,
            name: name.to_owned(),
        }]
    }

    #[test]
    fn a_setting_says_what_it_takes() {
        for good in [
            "huge-pages=never",
            "rps=0-1",
            "rfs=0",
            "busy-poll=50",
            "irq-affinity=1",
        ] {
            assert_eq!(good.parse::<Tuning>().unwrap().to_string(), good);
        }
        for (bad, says) in [
            ("huge-pages", "no KEY=VALUE"),
            ("swappiness=1", "there are huge-pages"),
            ("huge-pages=sometimes", "always, madvise or never"),
            ("rps=two", "processors"),
            ("rfs=-1", "flows"),
            ("busy-poll=2000", "microseconds"),
        ] {
            let why = bad.parse::<Tuning>().unwrap_err();
            assert!(why.contains(says), "{bad}: {why}");
        }
    }

    #[test]
    fn processors_are_a_mask_of_words() {
        for (cpus, text) in [
            (&[0, 1][..], "00000003"),
            (&[33][..], "00000002,00000000"),
            (&[][..], "00000000"),
        ] {
            assert_eq!(mask(cpus), text);
            assert_eq!(cpus_of_mask(text).as_deref(), Some(cpus));
        }
        assert_eq!(cpus_of_mask("x"), None);
    }

    #[test]
    fn what_was_written_is_known_again_in_the_kernels_words() {
        for (knob, written, found, agrees) in [
            (Knob::HugePages, "never", "never", true),
            (Knob::HugePages, "never", "madvise", false),
            (Knob::Rps, "00000003", "3", true),
            (Knob::Rps, "00000003", "00000000,00000003", true),
            (Knob::Rps, "00000003", "1", false),
            (Knob::Rps, "00000003", "", false),
            (Knob::Rfs, "1000", "1024", true),
            (Knob::Rfs, "0", "0", true),
            (Knob::Rfs, "4096", "0", false),
            (Knob::IrqAffinity, "0-1", "0,1", true),
            (Knob::IrqAffinity, "1", "0-1", false),
            (Knob::BusyPoll, "50", "0", false),
        ] {
            assert_eq!(
                knob.agrees(written, found),
                agrees,
                "{knob:?}: {written} as {found}"
            );
        }
    }

    #[test]
    fn what_cannot_act_on_loopback_is_not_applicable() {
        for text in ["busy-poll=50", "irq-affinity=0"] {
            let tuning: Tuning = text.parse().unwrap();
            let why = tuning.settings(&here("lo")).unwrap_err().to_string();
            assert!(why.contains("not applicable"), "{why}");
        }
        let rps: Tuning = "rps=0".parse().unwrap();
        assert!(
            rps.settings(&here("lo"))
                .is_ok_and(|settings| !settings.is_empty())
        );
    }

    #[test]
    fn an_interface_that_is_not_in_sight_is_not_supported() {
        for text in ["rps=0", "rfs=64", "busy-poll=50", "irq-affinity=0"] {
            let tuning: Tuning = text.parse().unwrap();
            for interfaces in [&here("wf-nowhere")[..], &[]] {
                let why = tuning.settings(interfaces).unwrap_err().to_string();
                assert!(why.contains("not supported here"), "{why}");
            }
        }
        let huge: Tuning = "huge-pages=never".parse().unwrap();
        assert!(huge.settings(&[]).is_ok(), "it is of no interface");
    }
}
