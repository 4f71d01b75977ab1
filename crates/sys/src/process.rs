//! Where threads run and what becomes of them.

use std::cell::Cell;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock;

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

/// What this host is called; empty where it is not told.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Number of the parent process, asked of the kernel each time: the shortest system call.
pub fn parent() -> Option<u32> {
    getppid().map(|pid| pid.as_raw_nonzero().get() as u32)
}

/// Has the kernel send SIGTERM to what a command starts when the thread that starts it ends, however it ends.
pub fn end_with_this_thread(command: &mut Command) -> &mut Command {
    let ours = rustix::process::getpid();
    let follow = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that died before the line above sends nothing any more.
        match getppid() == Some(ours) {
            true => Ok(()),
            false => Err(io::Error::from(Errno::SRCH)),
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(follow) }
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

/// Asks the scheduler for short turns for the calling thread: when it wakes, it takes its
/// processor from a thread with longer ones at once, instead of waiting for the end of that
/// turn. Needs no privilege; kernels before 6.12 take no notice.
pub fn set_short_slice() {
    /// `struct sched_attr` of <linux/sched/types.h>, in its first version.
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    /// The shortest turn that the kernel grants.
    const TURN_NS: u64 = 100_000;
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        // SAFETY: asks for the calling thread's own value and touches no memory.
        nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        priority: 0,
        runtime_ns: TURN_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: `attr` has the kernel's layout, says its own size, and lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Lets every other thread go first: for work beside a worker, on its processor, that must
/// not hold it up. Threads that the calling one starts inherit it.
pub fn lower_priority() {
    // Not vital: without it the worker waits a little now and then.
    let _ = rustix::process::setpriority_process(None, 15);
}

/// Lets the calling thread go before others, as far as its privilege allows: for work that
/// must come at its time on a processor that a crowd of other threads fills.
pub fn go_first() {
    // Not vital: without it ticks come late, and say so.
    let _ = rustix::process::setpriority_process(None, -10);
    set_short_slice();
}

/// Lets whoever waits for this processor go first, once. Workers that poll and the work beside
/// them pass it to and fro in turns of some microseconds; the kernel's own turns are as long
/// as its tick, 4 ms on many machines.
pub fn give_way() {
    rustix::thread::sched_yield();
}

/// As [`give_way`], for the work of a thread that goes last ([`lower_priority`]) and must not fall behind: where
/// giving way once took long, the thread keeps its processor for a while. Where others fill every
/// processor, the kernel lets such a thread wait tenths of a second each time.
pub fn yield_adaptive() {
    const DEAR_NS: u64 = 5_000_000;
    const KEPT_NS: u64 = 100_000_000;
    thread_local! {
        static KEPT_UNTIL_NS: Cell<u64> = const { Cell::new(0) };
    }
    let began_ns = clock::monotonic_ns();
    if began_ns < KEPT_UNTIL_NS.get() {
        return;
    }
    give_way();
    let now_ns = clock::monotonic_ns();
    if now_ns - began_ns > DEAR_NS {
        KEPT_UNTIL_NS.set(now_ns + KEPT_NS);
    }
}

/// Puts the calling thread before every thread of the ordinary classes (`SCHED_FIFO`,
/// sched(7)), at a real-time priority: 1 is the lowest. Needs `CAP_SYS_NICE`, and a control
/// group with real-time bandwidth where the kernel hands that out by groups.
pub fn before_all_others(priority: i32) -> Result<(), Errno> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` lives through the call, which only reads it; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_starts_may_end_with_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_this_thread(command.arg("60")).spawn().unwrap()
        });
        let mut child = started.join().unwrap();
        let ended = child.wait().unwrap();
        let by = std::os::unix::process::ExitStatusExt::signal(&ended);
        assert_eq!(by, Some(libc::SIGTERM));
    }

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
