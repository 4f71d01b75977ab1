//! Work for a processor: loop iterations, so many to a microsecond of CPU time.
//!
//! A loop that ran until a clock says so would take as long on a processor that somebody
//! else uses half of the time. This one takes twice as long, as real work does. Only its
//! calibration looks at a clock, and that clock stands still while the thread does not run.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Iterations of a piece that is timed: a fraction of a millisecond on any machine.
const PIECE: u64 = 200_000;
/// How many pieces are timed.
const PIECES: usize = 60;

/// A processor's speed at this work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spinner {
    iterations_per_us: f64,
}

impl Spinner {
    /// Times the work against this thread's CPU time, some tens of milliseconds of it.
    /// Disturbance only adds, so the fastest piece is the truth, and what is asked for is
    /// what is spent at the least.
    pub fn calibrate() -> Spinner {
        let fastest = (0..PIECES).map(|_| time_of_piece_ns()).min().unwrap_or(1);
        Spinner::with_speed(PIECE as f64 * 1e3 / fastest.max(1) as f64)
    }

    /// A speed from elsewhere, in iterations per microsecond: several starts then do exactly
    /// the same work.
    pub fn with_speed(iterations_per_us: f64) -> Spinner {
        Spinner { iterations_per_us }
    }

    /// Iterations per microsecond of CPU time.
    pub fn iterations_per_us(&self) -> f64 {
        self.iterations_per_us
    }

    /// Works for this many microseconds of CPU time.
    pub fn spin_us(&self, us: f64) {
        iterate((us * self.iterations_per_us) as u64);
    }
}

fn time_of_piece_ns() -> u64 {
    let before = thread_cpu_ns();
    iterate(PIECE);
    thread_cpu_ns() - before
}

/// CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Each step needs the one before it, and no compiler knows a shorter way to the end.
fn iterate(iterations: u64) {
    let mut x = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..iterations {
        x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ (x >> 29);
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_of_work_is_a_millisecond_of_cpu_time() {
        let spinner = Spinner::calibrate();
        // The best of many: others may be at work on this processor.
        let best = (0..20)
            .map(|_| {
                let before = thread_cpu_ns();
                spinner.spin_us(1_000.0);
                thread_cpu_ns() - before
            })
            .min()
            .unwrap();
        assert!((900_000..1_300_000).contains(&best), "{best} ns");
    }

    #[test]
    fn no_work_is_no_work() {
        Spinner::with_speed(1e3).spin_us(0.0);
        Spinner::with_speed(1e3).spin_us(-1.0);
    }
}
