//! Those who do not serve: threads that fight over a lock, and a process that burns.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::spin::Spinner;

/// How long each holds the lock.
const HELD: Duration = Duration::from_millis(1);
/// How long each does without it, so that it changes hands.
const BETWEEN: Duration = Duration::from_micros(10);

/// Starts threads that wait for one another nearly all the time, use next to no CPU, and
/// are worth nothing to any request: a wait profile shows little else.
pub fn contend(threads: u32) {
    let lock = Arc::new(Mutex::new(()));
    for _ in 0..threads {
        let lock = Arc::clone(&lock);
        thread::spawn(move || fight(&lock));
    }
}

/// A function of its own in every build: profiles are to name it.
#[inline(never)]
fn fight(lock: &Mutex<()>) -> ! {
    loop {
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        thread::sleep(HELD);
        drop(held);
        thread::sleep(BETWEEN);
    }
}

/// Uses a processor until the process is killed.
pub fn burn() -> ! {
    let spinner = Spinner::with_speed(1e3);
    loop {
        spinner.spin_us(1e6);
    }
}
