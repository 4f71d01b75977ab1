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
/// to pass: four of them at a time leave a sampler its turn.
const SEATS: usize = 4;

static SEATED: Mutex<Seated> = Mutex::new(Seated {
    taken: 0,
    busy: 0,
    busy_waiting: 0,
});
static SEATS_FREE: Condvar = Condvar::new();

struct Seated {
    taken: usize,
    busy: usize,
    busy_waiting: usize,
}

impl Seated {
    /// Who is busy goes first and with one other beside it, so that the last of them do not
    /// follow each other on a machine that has nothing else to do.
    fn has_room(&self, wanted: usize) -> bool {
        if wanted == BUSY {
            return self.busy == 0 && self.taken + BUSY <= SEATS;
        }
        let kept = if self.busy == 0 && self.busy_waiting > 0 {
            BUSY
        } else {
            0
        };
        self.taken + wanted + kept <= SEATS
    }
}

/// What a test takes that keeps the processors busy.
const BUSY: usize = 2;

#[derive(Debug)]
struct Seats(usize);

impl Seats {
    fn take(wanted: usize) -> Seats {
        let is_busy = usize::from(wanted == BUSY);
        let mut seated = SEATED.lock().unwrap_or_else(PoisonError::into_inner);
        seated.busy_waiting += is_busy;
        let mut seated = SEATS_FREE
            .wait_while(seated, |seated| !seated.has_room(wanted))
            .unwrap_or_else(PoisonError::into_inner);
        seated.busy_waiting -= is_busy;
        seated.busy += is_busy;
        seated.taken += wanted;
        Seats(wanted)
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        let mut seated = SEATED.lock().unwrap_or_else(PoisonError::into_inner);
        seated.busy -= usize::from(self.0 == BUSY);
        seated.taken -= self.0;
        drop(seated);
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
    seated(BUSY)
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
