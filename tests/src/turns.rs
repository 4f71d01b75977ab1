//! Who may use the machine, and beside whom: first the tests that share it, then those that measure but leave
//! the processors idle, then those that measure processors, one by one.
//!
//! A test that waits for its turn holds a thread of the test program, and needs nothing else: there are as many
//! threads as tests (`RUST_TEST_THREADS`). A second test program waits until this one has ended.
//! `WALLFINDER_TURNS=FILE` gets a line for each turn: seconds, kind, test.

use std::fs::File;
use std::io::Write;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::traces;

/// Held for as long as the machine is used.
#[derive(Debug)]
pub struct Turn {
    kind: Kind,
    host: Host,
    since: Instant,
}

/// What a test does to this host, which others may be disturbed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Untouched,
    HasOthers,
    Changed,
}

/// In the order in which they have their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Together,
    Busily,
    Quietly,
    Alone,
}

/// Seats of those that share the machine. Most of them wait most of their time, for a load to end or a deadline
/// to pass: so many at a time leave a sampler its turn.
const SEATS: usize = 6;
/// What a test takes that keeps the processors busy: there is one of them at a time.
const BUSY_SEATS: usize = 3;
/// Of those that measure and leave the processors idle, so many are side by side.
const QUIET_MAX: usize = 3;

impl Kind {
    fn seats(self) -> usize {
        match self {
            Kind::Together => 1,
            Kind::Busily => BUSY_SEATS,
            Kind::Quietly | Kind::Alone => 0,
        }
    }
}

static ROOM: Mutex<Room> = Mutex::new(Room {
    taken: [0; 4],
    waiting: [0; 4],
    busy_waiting: 0,
    has_others: 0,
    is_changed: false,
});
static CHANGED: Condvar = Condvar::new();

struct Room {
    /// By [`Kind`].
    taken: [usize; 4],
    waiting: [usize; 4],
    /// Of those that wait for nothing but a place.
    busy_waiting: usize,
    /// Tests with hosts within this one.
    has_others: usize,
    /// A test changes the host.
    is_changed: bool,
}

impl Room {
    fn has_place_for(&self, kind: Kind) -> bool {
        let taken = |kind: Kind| self.taken[kind as usize];
        let waiting = |kind: Kind| self.waiting[kind as usize];
        let seats = taken(Kind::Together) + taken(Kind::Busily) * BUSY_SEATS;
        let is_shared = seats > 0 || waiting(Kind::Together) + waiting(Kind::Busily) > 0;
        let free = match kind {
            // Who is busy goes first, so that the last of them do not follow each other on a machine that has
            // nothing else to do.
            Kind::Together if taken(Kind::Busily) == 0 && self.busy_waiting > 0 => {
                SEATS - BUSY_SEATS
            }
            Kind::Together | Kind::Busily => SEATS,
            Kind::Quietly => {
                return !is_shared && taken(Kind::Alone) == 0 && taken(kind) < QUIET_MAX;
            }
            Kind::Alone => {
                let is_quiet = taken(Kind::Quietly) + waiting(Kind::Quietly) > 0;
                return !is_shared && !is_quiet && taken(kind) == 0;
            }
        };
        let measures = taken(Kind::Quietly) + taken(Kind::Alone) > 0;
        let is_second = kind == Kind::Busily && taken(kind) > 0;
        !measures && !is_second && seats + kind.seats() <= free
    }
}

fn room() -> MutexGuard<'static, Room> {
    ROOM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a place, and takes it.
fn enter(kind: Kind, host: Host) {
    let is_busy = usize::from(kind == Kind::Busily && host == Host::Untouched);
    let mut waiting = room();
    waiting.waiting[kind as usize] += 1;
    waiting.busy_waiting += is_busy;
    let waited = CHANGED.wait_while(waiting, |room| {
        let is_free = match host {
            Host::Untouched => true,
            Host::HasOthers => !room.is_changed,
            Host::Changed => !room.is_changed && room.has_others == 0,
        };
        !is_free || !room.has_place_for(kind)
    });
    let mut room = waited.unwrap_or_else(PoisonError::into_inner);
    room.waiting[kind as usize] -= 1;
    room.busy_waiting -= is_busy;
    room.taken[kind as usize] += 1;
    room.has_others += usize::from(host == Host::HasOthers);
    room.is_changed |= host == Host::Changed;
}

fn leave(kind: Kind, host: Host) {
    let mut room = room();
    room.taken[kind as usize] -= 1;
    room.has_others -= usize::from(host == Host::HasOthers);
    room.is_changed &= host != Host::Changed;
    drop(room);
    CHANGED.notify_all();
}

impl Turn {
    fn of(kind: Kind) -> Turn {
        keep_others_out();
        enter(kind, Host::Untouched);
        Turn {
            kind,
            host: Host::Untouched,
            since: Instant::now(),
        }
    }

    /// Waits until no other test changes the host, and has none do so: for one with hosts within this one, whose
    /// agents leave things here. Its place is free while it waits.
    #[must_use]
    pub fn with_hosts(self) -> Turn {
        self.again(Host::HasOthers)
    }

    /// Waits until no other test changes the host or has hosts within it: for one that sets something of the host, or
    /// looks for what is left there ([`things_of_ours`](crate::things_of_ours)). Its place is free while it waits.
    #[must_use]
    pub fn changing_the_host(self) -> Turn {
        self.again(Host::Changed)
    }

    fn again(mut self, host: Host) -> Turn {
        leave(self.kind, self.host);
        enter(self.kind, host);
        self.host = host;
        self.since = Instant::now();
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        traces::over();
        leave(self.kind, self.host);
        if let Some(path) = std::env::var_os("WALLFINDER_TURNS") {
            let (took, thread) = (self.since.elapsed().as_secs_f64(), thread::current());
            let line = format!(
                "{took:.2} {:?} {}\n",
                self.kind,
                thread.name().unwrap_or("?")
            );
            let file = File::options().create(true).append(true).open(path);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.expect("the file of turns can be written");
        }
    }
}

/// Two programs that test do so one after the other.
fn keep_others_out() {
    static LOCK: LazyLock<File> = LazyLock::new(|| {
        let path = std::env::temp_dir().join("wallfinder-tests.lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.lock().expect("the lock file can be locked");
        file
    });
    LazyLock::force(&LOCK);
}

/// Waits until a seat is free, and nobody measures.
pub fn together() -> Turn {
    Turn::of(Kind::Together)
}

/// As [`together`], for a test that keeps the processors busy for seconds: there are few beside it, and none of its
/// kind.
pub fn busily() -> Turn {
    Turn::of(Kind::Busily)
}

/// For a test that measures what waits, a link or a server that sleeps, and uses a fifth of a processor at most:
/// some of its kind are beside it.
pub fn quietly() -> Turn {
    Turn::of(Kind::Quietly)
}

/// Waits until all others have run, and keeps those of its kind waiting.
pub fn alone() -> Turn {
    Turn::of(Kind::Alone)
}
