//! The clocks that the sampler reads, as nanoseconds.

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// `CLOCK_MONOTONIC`: what `std::time::Instant` and the engine's schedule use. Stands still in a suspend.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`: the time spent suspended since boot.
pub(crate) fn suspended_ns() -> i64 {
    let monotonic = monotonic_ns();
    match clock_gettime_dynamic(DynamicClockId::Boottime) {
        Ok(boottime) => nanos(boottime) as i64 - monotonic as i64,
        Err(_) => 0,
    }
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`: moves when the wall clock is stepped, and with a suspend.
pub(crate) fn wall_offset_ns() -> i64 {
    let monotonic = monotonic_ns();
    nanos(clock_gettime(ClockId::Realtime)) as i64 - monotonic as i64
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
