//! `/proc/stat` (proc_stat(5)) and lists of processors as the kernel prints them (`0-3,7`).

use super::{decimal, decimal_u32, lines, words};

/// Processors with a higher number are not believed.
pub const CPUS_MAX: u32 = 8192;

/// Time of one processor since boot, in ticks of `USER_HZ` (usually 10 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// Processor number.
    pub cpu: u32,
    /// User code: `user` and `nice`. Guests are inside `user` already.
    pub usr: u64,
    /// Kernel code on behalf of tasks.
    pub sys: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Software interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
    /// Idle, waiting for disk included.
    pub idle: u64,
}

/// What `/proc/stat` says of the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostStat {
    /// Context switches since boot.
    pub switches: u64,
    /// Tasks that could run at this instant.
    pub runnable: u32,
}

/// Reads `/proc/stat`; the processors that are online go into `cpus`, which is cleared first.
///
/// `None` when a processor line is broken, out of order, or the totals are missing.
pub fn stat(bytes: &[u8], cpus: &mut Vec<CpuTicks>) -> Option<HostStat> {
    cpus.clear();
    let (mut switches, mut runnable) = (None, None);
    for line in lines(bytes) {
        if let Some(rest) = line.strip_prefix(b"cpu") {
            if rest.first().is_some_and(u8::is_ascii_digit) {
                let ticks = cpu_line(rest)?;
                if cpus.last().is_some_and(|last| last.cpu >= ticks.cpu) {
                    return None;
                }
                cpus.push(ticks);
            }
        } else if let Some(rest) = line.strip_prefix(b"ctxt ") {
            switches = Some(decimal(rest)?);
        } else if let Some(rest) = line.strip_prefix(b"procs_running ") {
            runnable = Some(decimal_u32(rest)?);
        }
    }
    Some(HostStat {
        switches: switches?,
        runnable: runnable?,
    })
}

/// `0 user nice system idle iowait irq softirq steal [guest guest_nice]`.
fn cpu_line(rest: &[u8]) -> Option<CpuTicks> {
    let mut words = words(rest);
    let cpu = decimal_u32(words.next()?).filter(|cpu| *cpu < CPUS_MAX)?;
    let mut next = || decimal(words.next()?);
    let (user, nice, sys) = (next()?, next()?, next()?);
    let (idle, iowait, irq, softirq, steal) = (next()?, next()?, next()?, next()?, next()?);
    Some(CpuTicks {
        cpu,
        usr: user.checked_add(nice)?,
        sys,
        irq,
        softirq,
        steal,
        idle: idle.checked_add(iowait)?,
    })
}

/// A list of processors: `0-3,7`. Empty text is an empty list; anything else that is odd is `None`.
pub fn cpulist(bytes: &[u8]) -> Option<Vec<u32>> {
    let text = bytes.trim_ascii();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(|byte| *byte == b',') {
        let mut ends = part.splitn(2, |byte| *byte == b'-');
        let first = decimal_u32(ends.next()?)?;
        let last = match ends.next() {
            Some(end) => decimal_u32(end)?,
            None => first,
        };
        let ascending = cpus.last().is_none_or(|before| *before < first);
        if !ascending || last < first || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_two_core_machine() {
        let mut cpus = Vec::new();
        let host = stat(include_bytes!("../../testdata/stat"), &mut cpus).unwrap();
        assert_eq!(cpus.len(), 2);
        assert_eq!(cpus[1].cpu, 1);
        assert!(cpus[0].usr > 0 && cpus[0].idle > cpus[0].usr);
        assert!(host.switches > 500_000 && host.runnable >= 1);
    }

    #[test]
    fn keeps_the_columns_apart() {
        let mut cpus = Vec::new();
        let text =
            b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu2 1 2 3 4 5 6 7 8 100 200\nctxt 12\nprocs_running 3\n";
        stat(text, &mut cpus).unwrap();
        let expected = CpuTicks {
            cpu: 2,
            usr: 3,
            sys: 3,
            irq: 6,
            softirq: 7,
            steal: 8,
            idle: 9,
        };
        assert_eq!(cpus, [expected]);
    }

    #[test]
    fn refuses_short_lines_and_repeated_processors() {
        let mut cpus = Vec::new();
        assert_eq!(
            stat(b"cpu0 1 2 3\nctxt 1\nprocs_running 1\n", &mut cpus),
            None
        );
        let twice = b"cpu0 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\nctxt 1\nprocs_running 1\n";
        assert_eq!(stat(twice, &mut cpus), None);
        assert_eq!(stat(b"", &mut cpus), None);
    }

    #[test]
    fn cpulists() {
        assert_eq!(cpulist(b"0-3,7\n"), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(cpulist(b"5"), Some(vec![5]));
        assert_eq!(cpulist(b"\n"), Some(vec![]));
        for bad in ["3-1", "1,1", "2,1", "0-", "-3", "0-4294967295", "a", "0,,2"] {
            assert_eq!(cpulist(bad.as_bytes()), None, "{bad}");
        }
    }
}
