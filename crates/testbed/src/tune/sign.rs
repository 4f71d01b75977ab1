//! Whether a setting of the host acts, turn by turn: memory in huge pages, receive work that went to
//! another processor, packets that were polled for, interrupts where they were asked for.
//!
//! ```text
//!  watch ─► counts as they are ─► the turn's load ─► counts again ─► seen
//! ```
//!
//! It says how much there was of it, in either setting; whether that is a difference is the judge's
//! to say. A count is of the whole machine where the kernel keeps no other, so others are in it too.

use std::fs;
use std::path::{Path, PathBuf};

use wallfinder_model::record::SignKind;
use wallfinder_probe::parse::decimal;
use wallfinder_probe::parse::host::cpulist;
use wallfinder_probe::parse::network;

use super::{Interface, Knob, Tuning, interrupts};

/// Of every processor a line, for all network namespaces.
const SOFTNET: &str = "/proc/net/softnet_stat";
/// Which number of such a line says how often another processor handed receive work over.
const STEERED: usize = 9;

impl Tuning {
    /// What shows whether it acts.
    pub fn sign(&self) -> SignKind {
        match self.knob {
            Knob::HugePages => SignKind::HugeBytes,
            Knob::Rps | Knob::Rfs => SignKind::Steered,
            Knob::BusyPoll => SignKind::Polled,
            Knob::IrqAffinity => SignKind::Interrupts,
        }
    }

    /// Begins to look, before a turn's load. `server` are the processes under load.
    pub fn watch(&self, interfaces: &[Interface], server: &[u32]) -> Watch {
        Watch {
            kind: self.sign(),
            server: server.to_vec(),
            cpus: match self.knob {
                Knob::IrqAffinity => cpulist(self.value.as_bytes()).unwrap_or_default(),
                _ => Vec::new(),
            },
            interrupts: match self.knob {
                Knob::IrqAffinity => interfaces
                    .iter()
                    .filter(|interface| interface.netns.is_none())
                    .flat_map(interrupts)
                    .collect(),
                _ => Vec::new(),
            },
            before: counted(self.sign(), server),
        }
    }
}

/// A turn that is looked at.
#[derive(Debug)]
pub struct Watch {
    kind: SignKind,
    server: Vec<u32>,
    /// Processors that were asked for, where interrupts are the setting.
    cpus: Vec<u32>,
    interrupts: Vec<PathBuf>,
    before: Option<Vec<u64>>,
}

/// What was seen in a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// How much, in the unit of the sign; `None` where it could not be seen.
    pub amount: Option<f64>,
    /// Interrupts that the kernel delivers elsewhere than was asked, in words.
    pub elsewhere: Vec<String>,
}

impl Watch {
    /// The turn's load has ended, and the setting is still in force.
    pub fn seen(self) -> Seen {
        match self.kind {
            SignKind::HugeBytes => Seen {
                amount: huge_bytes_of(&self.server).map(|bytes| bytes as f64),
                ..Seen::default()
            },
            SignKind::Steered | SignKind::Polled => {
                let after = counted(self.kind, &self.server);
                let grown = self.before.zip(after).map(|(before, after)| {
                    let pairs = before.iter().zip(&after);
                    pairs
                        .map(|(before, after)| after.saturating_sub(*before))
                        .sum::<u64>()
                });
                Seen {
                    amount: grown.map(|count| count as f64),
                    ..Seen::default()
                }
            }
            SignKind::Interrupts => delivered(&self.interrupts, &self.cpus),
        }
    }
}

/// Counts that only grow.
fn counted(kind: SignKind, server: &[u32]) -> Option<Vec<u64>> {
    match kind {
        SignKind::HugeBytes | SignKind::Interrupts => None,
        SignKind::Steered => steered(&fs::read(SOFTNET).ok()?),
        SignKind::Polled => {
            let bytes = fs::read(format!("/proc/{}/net/netstat", server.first()?)).ok()?;
            let [polled] = network::counters(&bytes, "TcpExt", ["BusyPollRxPackets"]);
            Some(vec![polled?])
        }
    }
}

/// How often each processor was handed receive work, from `/proc/net/softnet_stat`.
fn steered(bytes: &[u8]) -> Option<Vec<u64>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let count = |line: &str| {
        let number = line.split_ascii_whitespace().nth(STEERED)?;
        u64::from_str_radix(number, 16).ok()
    };
    text.lines().map(count).collect()
}

/// Memory of these processes in huge pages; `None` where it may be seen of none of them.
fn huge_bytes_of(server: &[u32]) -> Option<u64> {
    let of = |pid: &u32| huge_bytes(&fs::read(format!("/proc/{pid}/smaps_rollup")).ok()?);
    server.iter().filter_map(of).reduce(u64::saturating_add)
}

/// Anonymous memory in huge pages, from `/proc/PID/smaps_rollup`.
fn huge_bytes(smaps: &[u8]) -> Option<u64> {
    let mut lines = smaps.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(b"AnonHugePages:"))?;
    let kilobytes = rest.trim_ascii().strip_suffix(b" kB")?;
    decimal(kilobytes)?.checked_mul(1024)
}

/// How many of these interrupts go to one of `cpus` and no other, and where the others go.
fn delivered(interrupts: &[PathBuf], cpus: &[u32]) -> Seen {
    let mut seen = Seen::default();
    for folder in interrupts {
        let Some(goes_to) = goes_to(folder).filter(|goes_to| !goes_to.is_empty()) else {
            continue;
        };
        let amount = seen.amount.get_or_insert(0.0);
        if goes_to.iter().all(|cpu| cpus.contains(cpu)) {
            *amount += 1.0;
        } else {
            let number = folder.file_name().unwrap_or_default().to_string_lossy();
            let goes_to: Vec<String> = goes_to.iter().map(u32::to_string).collect();
            seen.elsewhere.push(format!(
                "interrupt {number} goes to processor {}",
                goes_to.join(",")
            ));
        }
    }
    seen
}

/// The processors that the kernel delivers an interrupt to; older ones do not tell it from those that
/// were asked for.
fn goes_to(interrupt: &Path) -> Option<Vec<u32>> {
    let list = |name: &str| fs::read(interrupt.join(name));
    let bytes = list("effective_affinity_list").or_else(|_| list("smp_affinity_list"));
    cpulist(&bytes.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_read_from_the_sum_over_a_processes_memory() {
        let smaps = b"55d0a000-7ffe3000 ---p 00000000 00:00 0    [rollup]\n\
            Rss:              151480 kB\n\
            Anonymous:        143360 kB\n\
            AnonHugePages:    131072 kB\n\
            ShmemPmdMapped:        0 kB\n";
        assert_eq!(huge_bytes(smaps), Some(128 << 20));
        assert_eq!(huge_bytes(b"AnonHugePages:   0 kB\n"), Some(0));
        for odd in [
            &b""[..],
            b"Rss: 4 kB\n",
            b"AnonHugePages: x kB",
            b"AnonHugePages: 4",
        ] {
            assert_eq!(huge_bytes(odd), None);
        }
    }

    #[test]
    fn memory_is_of_those_that_are_there_and_of_nobody_is_not_known() {
        let own = std::process::id();
        let seen = huge_bytes_of(&[own]).is_some();
        assert_eq!(huge_bytes_of(&[u32::MAX, own]).is_some(), seen);
        assert_eq!(huge_bytes_of(&[u32::MAX]), None);
        assert_eq!(huge_bytes_of(&[]), None);
    }

    #[test]
    fn steered_work_is_the_tenth_number_of_each_processor() {
        let of_two = b"0e965337 00000000 00000008 0 0 0 0 0 0 00000010 00000000 0 00000000\n\
            0d845e8f 00000636 00000009 0 0 0 0 0 0 0000000a 00000000 0 00000001\n";
        assert_eq!(steered(of_two), Some(vec![16, 10]));
        assert_eq!(steered(b"0e965337 00000000\n"), None, "an old kernel");
        assert_eq!(steered(b"0 0 0 0 0 0 0 0 0 x\n"), None);
    }

    #[test]
    fn interrupts_count_where_they_go_to_what_was_asked_for_alone() {
        let folder = std::env::temp_dir().join(format!("wf-irq-{}", std::process::id()));
        let interrupt = |number: &str, asked: &str, effective: Option<&str>| {
            let path = folder.join(number);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("smp_affinity_list"), asked).unwrap();
            if let Some(effective) = effective {
                fs::write(path.join("effective_affinity_list"), effective).unwrap();
            }
            path
        };
        let interrupts = [
            interrupt("24", "1\n", Some("1\n")),
            interrupt("25", "1\n", Some("0\n")),
            interrupt("26", "1\n", Some("\n")),
            interrupt("27", "1\n", None),
        ];
        let seen = delivered(&interrupts, &[1]);
        assert_eq!(seen.amount, Some(2.0));
        assert_eq!(seen.elsewhere, ["interrupt 25 goes to processor 0"]);
        assert_eq!(delivered(&interrupts[2..3], &[1]), Seen::default());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn counts_of_a_turn_are_what_they_grew_by() {
        let rps: Tuning = "rps=0".parse().unwrap();
        let mut watch = rps.watch(&[], &[]);
        assert!(watch.before.is_some(), "every process may read {SOFTNET}");
        watch.before = watch.before.map(|before| vec![0; before.len()]);
        let all = steered(&fs::read(SOFTNET).unwrap()).unwrap();
        let seen = watch.seen().amount.unwrap();
        assert!(seen >= all.iter().sum::<u64>() as f64, "{seen}, {all:?}");
        let huge: Tuning = "huge-pages=never".parse().unwrap();
        assert_eq!(huge.watch(&[], &[]).seen().amount, None);
    }
}
