//! What a request costs the thread that serves it: CPU time, sections under one lock, and what a cache does not have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::draws::Draws;
use crate::http::Route;
use crate::options::Options;
use crate::spin::Spinner;

/// What all workers share.
#[derive(Debug, Default)]
pub struct Shared {
    lock: Mutex<()>,
    /// Whether the cache has what `/cached` asks for.
    is_cached: AtomicBool,
}

/// Which half of an alternation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All work, and a small answer.
    Cpu,
    /// The full answer, and no work.
    Answer,
    /// No alternation: both.
    Both,
}

/// The costs of one worker's requests.
#[derive(Debug)]
pub struct Work {
    options: Options,
    spinner: Spinner,
    shared: Arc<Shared>,
    draws: Draws,
}

impl Work {
    /// As the flags say.
    pub fn new(options: &Options, spinner: Spinner, shared: Arc<Shared>, draws: Draws) -> Work {
        Work {
            options: options.clone(),
            spinner,
            shared,
            draws,
        }
    }

    /// How much longer everything takes by now: the drift, and what a runtime takes that still compiles.
    pub fn stretch(&self, now_ns: u64) -> f64 {
        let seconds = now_ns as f64 / 1e9;
        let drift = self.options.drift_percent_per_min / 100.0 * seconds / 60.0;
        let cold = self.options.cold_percent / 100.0 * (-seconds / self.options.warm_s).exp();
        (1.0 + drift + cold).max(0.01)
    }

    /// Which phase it is.
    pub fn phase(&self, now_ns: u64) -> Phase {
        match now_ns.checked_div(self.options.phase_ns) {
            None => Phase::Both,
            Some(number) if number % 2 == 0 => Phase::Cpu,
            Some(_) => Phase::Answer,
        }
    }

    /// The cost of a batch, whatever is in it.
    pub fn batch(&self, now_ns: u64) {
        self.spin(self.options.batch_us, self.stretch(now_ns));
    }

    /// The cost of one request, with what its path asks for.
    pub fn request(&mut self, now_ns: u64, route: Route) {
        let stretch = self.stretch(now_ns);
        if self.phase(now_ns) != Phase::Answer {
            self.spin(self.options.spin_us, stretch);
        }
        self.spin(self.options.each_us + f64::from(route.spin_us), stretch);
        if route.evicts {
            self.shared.is_cached.store(false, Ordering::Relaxed);
        }
        if route.cached_us > 0 && !self.shared.is_cached.swap(true, Ordering::Relaxed) {
            self.fill_cache(f64::from(route.cached_us), stretch);
        }
        if self.draws.one_in(self.options.burst_one_in) {
            self.spin(self.options.burst_us, stretch);
        }
        let slept_us = self.options.lock_sleep_us + f64::from(route.lock_us);
        if slept_us > 0.0 || self.options.lock_spin_us > 0.0 {
            let held = self
                .shared
                .lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if slept_us > 0.0 {
                thread::sleep(Duration::from_secs_f64(slept_us * stretch / 1e6));
            }
            self.spin(self.options.lock_spin_us, stretch);
            drop(held);
        }
    }

    /// Apart from other work, so that profiles show it.
    #[inline(never)]
    fn fill_cache(&self, us: f64, stretch: f64) {
        self.spin(us, stretch);
    }

    fn spin(&self, us: f64, stretch: f64) {
        if us > 0.0 {
            self.spinner.spin_us(us * stretch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(flags: &[&str]) -> Work {
        let flags = flags.iter().map(|flag| flag.to_string());
        let options = Options::parse(flags).expect("good flags");
        Work::new(
            &options,
            Spinner::with_speed(1.0),
            Arc::default(),
            Draws::new(1, 0),
        )
    }

    #[test]
    fn what_is_cold_gets_warm() {
        let work = work(&["--spin-us", "10", "--cold-percent", "50", "--warm-s", "10"]);
        assert_eq!(work.stretch(0), 1.5);
        assert!((work.stretch(10_000_000_000) - 1.0 - 0.5 / std::f64::consts::E).abs() < 1e-9);
    }

    #[test]
    fn what_was_evicted_is_filled_in_again_once() {
        let mut work = work(&[]);
        let cached = Route {
            cached_us: 1,
            ..Route::default()
        };
        let evicting = Route {
            evicts: true,
            ..Route::default()
        };
        let is_cached = |work: &Work| work.shared.is_cached.load(Ordering::Relaxed);
        assert!(!is_cached(&work));
        work.request(0, cached);
        assert!(is_cached(&work));
        work.request(0, Route::default());
        assert!(is_cached(&work));
        work.request(0, evicting);
        assert!(!is_cached(&work));
    }

    #[test]
    fn drift_grows_by_the_minute() {
        let work = work(&["--spin-us", "10", "--drift-percent-per-min", "20"]);
        assert_eq!(work.stretch(0), 1.0);
        assert!((work.stretch(90_000_000_000) - 1.3).abs() < 1e-9);
    }

    #[test]
    fn phases_alternate() {
        let work = work(&["--spin-us", "10", "--phase-ms", "200"]);
        let phases = [0, 199, 200, 399, 400].map(|ms| work.phase(ms * 1_000_000));
        use Phase::{Answer, Cpu};
        assert_eq!(phases, [Cpu, Cpu, Answer, Answer, Cpu]);
    }

    #[test]
    fn without_phases_there_is_one() {
        assert_eq!(work(&[]).phase(7), Phase::Both);
    }
}
