//! Which processors are threads of one core.
//!
//! Siblings share what computes: one is slower while the other works. A processor of which the
//! kernel says nothing has a core of its own.

use std::collections::BTreeMap;
use std::path::Path;

use crate::parse::host;
use crate::procfile::line;

/// Where the kernel tells of each processor.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The core of each processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores(BTreeMap<u32, u32>);

impl Cores {
    /// Of these processors, as the kernel tells.
    pub fn of(cpus: &[u32]) -> Cores {
        Cores::below(Path::new(PROCESSORS), cpus)
    }

    fn below(folder: &Path, cpus: &[u32]) -> Cores {
        Cores::of_siblings(cpus.iter().filter_map(|cpu| {
            let file = folder.join(format!("cpu{cpu}/topology/thread_siblings_list"));
            host::cpulist(line(file)?.as_bytes())
        }))
    }

    /// Of lists of processors, each of them all threads of one core.
    pub fn of_siblings(lists: impl IntoIterator<Item = Vec<u32>>) -> Cores {
        let mut cores = BTreeMap::new();
        for siblings in lists {
            for cpu in &siblings {
                cores.insert(*cpu, siblings[0]);
            }
        }
        Cores(cores)
    }

    /// The core of a processor, by the number of its first thread.
    pub fn core(&self, cpu: u32) -> u32 {
        self.0.get(&cpu).copied().unwrap_or(cpu)
    }

    /// Whether a processor is a thread of a core that one of the others is a thread of, or is one
    /// of them.
    pub fn meets(&self, cpu: u32, others: &[u32]) -> bool {
        let core = self.core(cpu);
        others.iter().any(|other| self.core(*other) == core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_of_one_core_and_who_is_not_told_of_is_alone() {
        let top = std::env::temp_dir().join(format!("wf-cores-{}", std::process::id()));
        for (cpu, list) in [(0, "0,2\n"), (1, "1,3\n"), (2, "0,2\n"), (4, "4-5\n")] {
            let folder = top.join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("thread_siblings_list"), list).expect("a file");
        }
        let cores = Cores::below(&top, &[0, 1, 2, 4, 7]);
        let _ = std::fs::remove_dir_all(&top);
        let each: Vec<u32> = (0..8).map(|cpu| cores.core(cpu)).collect();
        assert_eq!(each, [0, 1, 0, 1, 4, 4, 6, 7]);
        assert!(cores.meets(2, &[1, 0]) && cores.meets(7, &[7]));
        assert!(!cores.meets(2, &[1, 3]) && !cores.meets(2, &[]));
    }
}
