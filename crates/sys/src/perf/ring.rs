//! The ring in which the kernel writes of one processor: stacks, some times a second (`cpu-clock`) or
//! whenever a thread gives it up, and what a tracepoint says.
//!
//! Hardware counters are not needed: the clock is the kernel's own timer. Root, or
//! `kernel.perf_event_paranoid` of 0 or less, is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Attributes, Of, TYPE_SOFTWARE, TYPE_TRACEPOINT, open};

/// Of the software's events, `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE_CPU_CLOCK: u64 = 0;
/// What a sample has: instruction pointer, process and thread, time, call chain, and what a
/// tracepoint says.
const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
/// What of it stacks have.
const STACKS: u64 = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN;
/// Bits of the attributes' flags.
const DISABLED: u64 = 1 << 0;
const EXCLUDE_HV: u64 = 1 << 6;
const EXCLUDE_IDLE: u64 = 1 << 7;
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK_ID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// Requests.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;

/// Pages of a ring's data, a power of two: two megabytes take a second of long chains.
const DATA_PAGES: usize = 512;
/// Places in the ring's first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Records of one processor, as the kernel writes them.
#[derive(Debug)]
pub struct EventRing {
    event: OwnedFd,
    ring: *mut u8,
    ring_bytes: usize,
    page_bytes: usize,
}

// SAFETY: the ring is owned by this value alone; the kernel writes to it from anywhere, which
// the acquire and release of its head and tail order.
unsafe impl Send for EventRing {}

impl EventRing {
    /// Stacks of whatever runs on a processor, some times a second from
    /// [`EventRing::enable`] on; idle time is left out.
    ///
    /// # Errors
    ///
    /// `EACCES` or `EPERM` without the privilege, `ENODEV` for a processor that is not there.
    pub fn open_stacks(cpu: u32, per_second: u32) -> io::Result<EventRing> {
        EventRing::open_with(
            cpu,
            Attributes {
                kind: TYPE_SOFTWARE,
                config: SOFTWARE_CPU_CLOCK,
                frequency_or_period: u64::from(per_second),
                sample_type: STACKS,
                flags: DISABLED | EXCLUDE_HV | EXCLUDE_IDLE | FREQUENCY,
                ..Attributes::default()
            },
        )
    }

    /// Stacks of threads that give a processor up, each time, and a record whenever one gets it
    /// back. `tracepoint` is the number of `sched:sched_switch`.
    ///
    /// # Errors
    ///
    /// As [`EventRing::open_stacks`].
    pub fn open_switches(cpu: u32, tracepoint: u64) -> io::Result<EventRing> {
        EventRing::open_with(
            cpu,
            Attributes {
                kind: TYPE_TRACEPOINT,
                config: tracepoint,
                frequency_or_period: 1,
                sample_type: STACKS,
                flags: DISABLED | SAMPLE_ID_ALL | CONTEXT_SWITCH | USE_CLOCK_ID,
                clock_id: libc::CLOCK_MONOTONIC,
                ..Attributes::default()
            },
        )
    }

    /// What a tracepoint says, each time that anybody on the processor passes it, and when by the
    /// monotonic clock; no stacks.
    ///
    /// # Errors
    ///
    /// As [`EventRing::open_stacks`].
    pub fn open_points(cpu: u32, tracepoint: u64) -> io::Result<EventRing> {
        EventRing::open_with(
            cpu,
            Attributes {
                kind: TYPE_TRACEPOINT,
                config: tracepoint,
                frequency_or_period: 1,
                sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
                flags: DISABLED | USE_CLOCK_ID,
                clock_id: libc::CLOCK_MONOTONIC,
                ..Attributes::default()
            },
        )
    }

    fn open_with(cpu: u32, attributes: Attributes) -> io::Result<EventRing> {
        let event = open(attributes, Of::Cpu(cpu))?;
        let page_bytes = rustix::param::page_size();
        let ring_bytes = (1 + DATA_PAGES) * page_bytes;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing of ours.
        let ring = unsafe {
            mmap(
                ptr::null_mut(),
                ring_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &event,
                0,
            )
        }?;
        Ok(EventRing {
            event,
            ring: ring.cast(),
            ring_bytes,
            page_bytes,
        })
    }

    /// Begins to sample.
    pub fn enable(&self) -> io::Result<()> {
        self.ask(ENABLE)
    }

    /// Samples no more; what was sampled stays to be drained.
    pub fn disable(&self) -> io::Result<()> {
        self.ask(DISABLE)
    }

    fn ask(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: both requests take no pointer, and the event is open.
        match unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Appends the records that have come, whole and in order, and gives their room back.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        let data_bytes = DATA_PAGES * self.page_bytes;
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        let len = head.wrapping_sub(tail) as usize;
        let len = len.min(data_bytes);
        let start = tail as usize % data_bytes;
        let first = len.min(data_bytes - start);
        // SAFETY: the data begin after the first page and are `data_bytes` long; the kernel has
        // written up to the head, which was read with acquire, and writes nothing between tail
        // and head before the tail moves.
        unsafe {
            let data = self.ring.add(self.page_bytes);
            into.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, len - first));
        }
        fence(Ordering::SeqCst);
        self.position(DATA_TAIL)
            .store(tail.wrapping_add(len as u64), Ordering::Release);
    }

    /// The head or the tail.
    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both lie within the first page, aligned to eight, and are only ever read and
        // written as a whole by the kernel and by this value.
        unsafe { AtomicU64::from_ptr(self.ring.add(at).cast()) }
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        // SAFETY: it is this value's own mapping, and nothing refers to it any more.
        let _ = unsafe { munmap(self.ring.cast(), self.ring_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_busy_thread_is_sampled_where_that_is_allowed() {
        let cpu = crate::process::allowed_cpus()[0];
        let mut sampler = match EventRing::open_stacks(cpu, 999) {
            Ok(sampler) => sampler,
            Err(why) => return wallfinder_skip::skip(format_args!("no perf events here: {why}")),
        };
        std::thread::spawn(move || {
            crate::process::pin_to(&[cpu]).unwrap();
            sampler.enable().unwrap();
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            sampler.disable().unwrap();
            let mut records = Vec::new();
            sampler.drain(&mut records);
            // 300 samples of at least a header, ids and a frame, if nobody else was there.
            assert!(records.len() > 1000, "{} bytes", records.len());
            let have = records.len();
            sampler.drain(&mut records);
            assert_eq!(records.len(), have, "what was drained is gone");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(EventRing::open_stacks(1_000_000, 99).is_err());
    }
}
