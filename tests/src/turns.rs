//! Who may use the machine: tests that measure have it alone, all others share it, a few at a
//! time. The lock is a file, so that it holds between test programs too.
//!
//! A test that waits for its turn holds a thread of the test program, and needs nothing else: with as many
//! threads as there are tests (`RUST_TEST_THREADS`), those that share go first, and those that
//! measure afterwards, one by one.

use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};

/// Held for as long as the machine is used.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
    _seats: Option<Seats>,
}

/// Who shares the machine has seats. Most tests wait most of their time, for a load to end or a deadline
/// to pass: three of them at a time leave a sampler its turn.
const SEATS: usize = 3;

static TAKEN: Mutex<usize> = Mutex::new(0);
static SEATS_FREE: Condvar = Condvar::new();

#[derive(Debug)]
struct Seats(usize);

impl Seats {
    fn take(wanted: usize) -> Seats {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = SEATS_FREE
            .wait_while(taken, |taken| *taken + wanted > SEATS)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += wanted;
        Seats(wanted)
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        SEATS_FREE.notify_all();
    }
}

fn lock_file() -> File {
    let path = std::env::temp_dir().join("wallfinder-tests.lock");
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Waits until no other test runs, and keeps them waiting.
pub fn alone() -> Turn {
    let lock = lock_file();
    lock.lock().expect("the lock file can be locked");
    Turn {
        _lock: lock,
        _seats: None,
    }
}

/// Waits until no test measures and a seat is free.
pub fn together() -> Turn {
    seated(1)
}

/// As [`together`], for a test that keeps the processors busy for seconds: there is at most one beside it,
/// and that is not of its kind.
pub fn busily() -> Turn {
    seated(2)
}

fn seated(wanted: usize) -> Turn {
    let seats = Seats::take(wanted);
    let lock = lock_file();
    lock.lock_shared().expect("the lock file can be locked");
    Turn {
        _lock: lock,
        _seats: Some(seats),
    }
}
