//! Clocks in nanoseconds. Only the edges of the program read them: cores take time as an
//! argument.

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Monotonic time (`CLOCK_MONOTONIC`): the time base of everything measured.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Monotonic time that goes on while the machine is suspended (`CLOCK_BOOTTIME`).
pub fn boottime_ns() -> u64 {
    read(ClockId::Boottime)
}

/// Wall-clock time since 1970 (`CLOCK_REALTIME`).
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// CPU time of the calling thread, user and system.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of this process, all threads, user and system.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Clock ticks of `/proc` in a second.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let mut last = monotonic_ns();
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
