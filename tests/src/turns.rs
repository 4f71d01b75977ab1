//! Who may use the machine: tests that measure have it alone, all others share it. The
//! lock is a file, so that it holds between test binaries too.

use std::fs::File;

/// Held for as long as the machine is used.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
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
    Turn { _lock: lock }
}

/// Waits until no test measures.
pub fn together() -> Turn {
    let lock = lock_file();
    lock.lock_shared().expect("the lock file can be locked");
    Turn { _lock: lock }
}
