//! A worker that is made slower: it spins for a part of its working time.

/// Spins for a part of the calling worker's working time.
#[derive(Debug)]
pub(crate) struct Slowdown {
    /// Spinning for each unit of work.
    per_work: f64,
    /// What of it a lever is answerable for, 0..1.
    of_lever: f64,
    counted_ns: u64,
    owed_ns: f64,
}

/// Shorter turns would be mostly spent reading the clock.
const SPIN_NS_MIN: f64 = 20_000.0;

impl Slowdown {
    /// At most so much of the worker's speed is left from now on, by the CPU time of its thread: of that which it has all
    /// the time, what a lever leaves, where there is one. `None`: there is nothing to spin for, or to keep accounts of.
    pub(crate) fn to(always: f64, lever: Option<f64>, cpu_ns: u64) -> Option<Slowdown> {
        if always == 1.0 && lever.is_none() {
            return None;
        }
        let lever = lever.unwrap_or(1.0);
        let speed = always * lever;
        Some(Slowdown {
            per_work: (1.0 - speed) / speed,
            of_lever: if lever < 1.0 {
                (1.0 - lever) / (1.0 - speed)
            } else {
                0.0
            },
            counted_ns: cpu_ns,
            owed_ns: 0.0,
        })
    }

    /// After some work; gives the time spun for a lever.
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
        (spun_ns as f64 * self.of_lever) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that goes on by 100 ns whenever it is read.
    fn read(cpu: &Cell<u64>) -> u64 {
        cpu.set(cpu.get() + 100);
        cpu.get()
    }

    #[test]
    fn a_worker_at_half_speed_spins_as_long_as_it_works() {
        let cpu = Cell::new(0);
        let read = || read(&cpu);
        let mut slow = Slowdown::to(1.0, Some(0.5), 0).expect("a lever needs it");
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

    #[test]
    fn of_a_worker_that_is_always_slow_a_lever_is_answerable_for_its_part() {
        let work = |always: f64, lever: Option<f64>| {
            let cpu = Cell::new(0);
            let read = || read(&cpu);
            let mut slow = Slowdown::to(always, lever, 0).expect("it is slow");
            let (mut worked_ns, mut of_lever_ns) = (0, 0);
            for _ in 0..200 {
                cpu.set(cpu.get() + 50_000);
                worked_ns += 50_000;
                of_lever_ns += slow.spin(read);
            }
            let all_ns = cpu.get() as f64;
            (all_ns / worked_ns as f64, of_lever_ns as f64 / all_ns)
        };
        let is_near = |(times, part): (f64, f64), (asked, lever): (f64, f64)| {
            assert!((times / asked - 1.0).abs() < 0.02, "{times}");
            assert!((part - lever).abs() < 0.01, "{part}");
        };
        is_near(work(0.1, None), (10.0, 0.0));
        is_near(work(0.1, Some(1.0)), (10.0, 0.0));
        // Four fifths of the speed that it had are left.
        is_near(work(0.1, Some(0.8)), (12.5, 0.2));
        is_near(work(1.0, Some(0.8)), (1.25, 0.2));
        assert!(Slowdown::to(1.0, None, 0).is_none());
    }
}
