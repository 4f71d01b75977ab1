//! Perf events (perf_event_open(2)): rings of what the kernel tells of one processor, and counters of
//! one thread.

mod counter;
mod ring;

pub use counter::{Count, Counted, Counter};
pub use ring::EventRing;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`, `PERF_TYPE_TRACEPOINT`.
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
/// The event ends with a program that replaces this one.
const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;

/// `struct perf_event_attr`, as far as version 5 goes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    /// Samples per second, or events per sample.
    frequency_or_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock_id: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Whom an event is of.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Whatever runs on a processor.
    Cpu(u32),
    /// A thread, wherever it runs.
    Thread(u32),
}

/// Opens an event.
fn open(attributes: Attributes, of: Of) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        ..attributes
    };
    let (tid, cpu): (libc::pid_t, libc::c_int) = match of {
        Of::Cpu(cpu) => (-1, cpu as libc::c_int),
        Of::Thread(tid) => (tid as libc::pid_t, -1),
    };
    let no_group: libc::c_int = -1;
    // SAFETY: the attributes are whole, of the size that they state, and outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(&attributes),
            tid,
            cpu,
            no_group,
            FLAG_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
