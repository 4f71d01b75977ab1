//! A worker that is made slower: it spins for a part of its working time.

/// Spins for a part of the calling worker's working time.
#[derive(Debug)]
pub(crate) struct Slowdown {
    /// Spinning for each unit of work.
    per_work: f64,
    counted_ns: u64,
    owed_ns: f64,
}

/// Shorter turns would be mostly spent reading the clock.
const SPIN_NS_MIN: f64 = 20_000.0;

impl Slowdown {
    /// At most `speed` of the worker's speed is left from now on, by the CPU time of its thread.
    pub(crate) fn to(speed: f64, cpu_ns: u64) -> Slowdown {
        Slowdown {
            per_work: (1.0 - speed) / speed,
            counted_ns: cpu_ns,
            owed_ns: 0.0,
        }
    }

    /// After some work; gives the time spun.
    pub(crate) fn spin(&mut self, cpu_ns: impl Fn() -> u64) -> u64 {
        let mut spun_ns = 0;
        let mut now_ns = cpu_ns();
        self.owed_ns += (now_ns - self.counted_ns) as f64 * self.per_work;
        if self.owed_ns >= SPIN_NS_MIN {
            let began_ns = now_ns;
            while ((now_ns - began_ns) as f64) < self.owed_ns {
                std::hint::spin_loop();
                now_ns = cpu_ns();
            }
            spun_ns = now_ns - began_ns;
            self.owed_ns -= spun_ns as f64;
        }
        self.counted_ns = now_ns;
        spun_ns
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_worker_at_half_speed_spins_as_long_as_it_works() {
        // A clock that goes on by 100 ns whenever it is read.
        let cpu = Cell::new(0);
        let read = || {
            cpu.set(cpu.get() + 100);
            cpu.get()
        };
        let mut slow = Slowdown::to(0.5, 0);
        let (mut worked_ns, mut spun_ns) = (0, 0);
        for _ in 0..200 {
            cpu.set(cpu.get() + 49_900);
            worked_ns += 50_000;
            spun_ns += slow.spin(read);
        }
        assert_eq!(spun_ns, worked_ns);
        assert_eq!(cpu.get(), worked_ns + spun_ns);
        // Turns that are too short to spin after are owed.
        assert_eq!((slow.spin(|| cpu.get() + 19_000)), 0);
        cpu.set(cpu.get() + 20_000);
        assert_eq!(slow.spin(read), 20_100);
    }
}
