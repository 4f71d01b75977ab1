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
//! and is put back when it is dropped, after a kill by whoever keeps the journal. What cannot act
//! on an interface (there is no interrupt of loopback) is refused as not applicable: measured anyway,
//! it would read as "no effect".

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use wallfinder_probe::parse::host::cpulist;

use crate::child::Shim;
use crate::error::StageError;
use crate::undo::{Change, Journal, Undo};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const BUSY: [&str; 2] = [
    "/proc/sys/net/core/busy_read",
    "/proc/sys/net/core/busy_poll",
];
const FLOWS: &str = "/proc/sys/net/core/rps_sock_flow_entries";
const INTERFACES: &str = "/sys/class/net";
/// Longest text of a setting.
const TEXT_BYTES_MAX: usize = 4096;

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

/// A setting that is in force. Dropping it puts back what was there.
#[derive(Debug)]
pub struct Tuned {
    /// Undone in reverse.
    _changes: Vec<Change>,
}

impl Tuning {
    /// Puts it in force. `interface` is the one that the load uses, where it can be seen from here.
    pub fn apply(&self, interface: Option<&str>, shim: &Shim) -> Result<Tuned, StageError> {
        let settings = self.settings(interface)?;
        let journal = Journal::open(shim)?;
        let mut changes = Vec::new();
        for (path, text) in settings {
            let before = read(&path)?;
            let undo = Undo::RestoreSetting {
                path: path.clone(),
                text: before,
            };
            let (change, ()) = journal.change(undo, |_| write(&path, &text))?;
            changes.push(change);
        }
        changes.reverse();
        Ok(Tuned { _changes: changes })
    }

    /// Files, and what is written to them.
    fn settings(&self, interface: Option<&str>) -> Result<Vec<(PathBuf, String)>, StageError> {
        let not_applicable = |why: &str| {
            Err(StageError::refused(
                self.to_string(),
                format!("it is not applicable here, {why}"),
            ))
        };
        let seen = interface.map(|name| Path::new(INTERFACES).join(name));
        let interface = seen.filter(|folder| folder.is_dir());
        match (self.knob, interface) {
            (Knob::HugePages, _) => Ok(vec![(HUGE_PAGES.into(), self.value.clone())]),
            (_, None) => {
                not_applicable("for the interface of the load stands in a namespace of its own")
            }
            (Knob::Rps, Some(folder)) => {
                let cpus = cpulist(self.value.as_bytes()).unwrap_or_default();
                let mask = mask(&cpus);
                Ok(queues(&folder, "rps_cpus")
                    .into_iter()
                    .map(|path| (path, mask.clone()))
                    .collect())
            }
            (Knob::Rfs, Some(folder)) => {
                let mut settings = vec![(PathBuf::from(FLOWS), self.value.clone())];
                let queues = queues(&folder, "rps_flow_cnt");
                settings.extend(queues.into_iter().map(|path| (path, self.value.clone())));
                Ok(settings)
            }
            (Knob::BusyPoll, Some(folder)) => match folder.join("device").exists() {
                true => Ok(BUSY.map(|path| (path.into(), self.value.clone())).into()),
                false => {
                    not_applicable("for the interface has no device whose queue could be polled")
                }
            },
            (Knob::IrqAffinity, Some(folder)) => {
                // The interrupts hang on the bus device: for virtio one above the interface's.
                let places = ["device/msi_irqs", "device/../msi_irqs"];
                let found = places
                    .iter()
                    .find_map(|place| fs::read_dir(folder.join(place)).ok());
                let numbers = found.into_iter().flatten().flatten();
                let settings: Vec<(PathBuf, String)> = numbers
                    .map(|entry| Path::new("/proc/irq").join(entry.file_name()))
                    .map(|folder| (folder.join("smp_affinity_list"), self.value.clone()))
                    .collect();
                match settings.is_empty() {
                    true => not_applicable("for the interface has no interrupt of its own"),
                    false => Ok(settings),
                }
            }
        }
    }
}

/// One setting of each of an interface's receive queues.
fn queues(interface: &Path, setting: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(interface.join("queues"));
    let queues = folder.into_iter().flatten().flatten();
    let receive = queues.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"));
    let mut paths: Vec<PathBuf> = receive.map(|entry| entry.path().join(setting)).collect();
    paths.sort();
    paths
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

/// What a setting says, as it can be written again: of a choice the word in brackets.
fn read(path: &Path) -> Result<String, StageError> {
    let text = fs::read_to_string(path).map_err(|e| StageError::at("read", path, &e))?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(chosen, _)| chosen);
    Ok(chosen.unwrap_or(text.trim()).to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), StageError> {
    match fs::write(path, text) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Err(
            StageError::no_privilege(format!("writing {}", path.display()), "it takes root"),
        ),
        done => done.map_err(|e| StageError::at("write", path, &e)),
    }
}

/// Puts a setting back, where it is one of those that are set here: a journal could be wrong.
pub(crate) fn restore(path: &Path, text: &str) -> Result<(), StageError> {
    if !is_a_setting(path) || text.len() > TEXT_BYTES_MAX {
        return Err(StageError::refused(
            format!("writing {}", path.display()),
            "it is no setting that Wallfinder changes",
        ));
    }
    match path.exists() {
        true => write(path, text),
        // The interface is gone, and its settings with it.
        false => Ok(()),
    }
}

fn is_a_setting(path: &Path) -> bool {
    let Some(text) = path.to_str() else {
        return false;
    };
    if text.split('/').any(|part| part == "..") {
        return false;
    }
    let of_queue = |rest: &str| {
        let parts: Vec<&str> = rest.split('/').collect();
        matches!(parts.as_slice(), [_, "queues", queue, "rps_cpus" | "rps_flow_cnt"]
            if queue.starts_with("rx-"))
    };
    let of_interrupt = |rest: &str| {
        let parts: Vec<&str> = rest.split('/').collect();
        matches!(parts.as_slice(), [number, "smp_affinity_list"]
            if number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    text == HUGE_PAGES
        || text == FLOWS
        || BUSY.contains(&text)
        || text.strip_prefix("/sys/class/net/").is_some_and(of_queue)
        || text.strip_prefix("/proc/irq/").is_some_and(of_interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(mask(&[0, 1]), "00000003");
        assert_eq!(mask(&[33]), "00000002,00000000");
        assert_eq!(mask(&[]), "00000000");
    }

    #[test]
    fn what_cannot_act_on_loopback_is_not_applicable() {
        for text in ["busy-poll=50", "irq-affinity=0"] {
            let tuning: Tuning = text.parse().unwrap();
            let why = tuning.settings(Some("lo")).unwrap_err().to_string();
            assert!(why.contains("not applicable"), "{why}");
        }
        let rps: Tuning = "rps=0".parse().unwrap();
        assert!(
            rps.settings(Some("lo"))
                .is_ok_and(|settings| !settings.is_empty())
        );
        assert!(rps.settings(Some("wf-nowhere")).is_err());
    }

    #[test]
    fn a_journal_cannot_make_us_write_what_is_no_setting() {
        for path in [
            "/etc/passwd",
            "/sys/class/net/lo/mtu",
            "/sys/class/net/../../etc/queues/rx-0/rps_cpus",
            "/proc/irq/x/smp_affinity_list",
            "/proc/sys/net/core/somaxconn",
        ] {
            assert!(restore(Path::new(path), "1").is_err(), "{path}");
        }
        let gone = "/sys/class/net/wf-nowhere/queues/rx-0/rps_cpus";
        assert!(restore(Path::new(gone), "0").is_ok());
    }
}
