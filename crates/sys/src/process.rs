//! Where threads run and what becomes of them.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors that the calling thread may run on, ascending.
pub fn allowed_cpus() -> Vec<u32> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .map(|cpu| cpu as u32)
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Keeps the calling thread, and what it starts, on these processors.
pub fn pin_to(cpus: &[u32]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu as usize >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(*cpu as usize);
    }
    sched_setaffinity(None, &set)
}

/// Makes the kernel's timers of the calling thread as exact as it can: by default it may
/// fire them up to 50 µs late to batch wake-ups, which an open loop would see.
pub fn exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_nowhere_else() {
        let first = allowed_cpus()[0];
        std::thread::spawn(move || {
            pin_to(&[first]).unwrap();
            assert_eq!(allowed_cpus(), vec![first]);
        })
        .join()
        .unwrap();
        assert_eq!(pin_to(&[1_000_000]), Err(Errno::INVAL));
    }
}
