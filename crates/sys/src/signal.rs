//! Interrupts as a count that others read: the handler does nothing else.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU32 = AtomicU32::new(0);

/// From now on SIGINT and SIGTERM are counted instead of ending the process.
pub fn catch_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler = note as extern "C" fn(libc::c_int);
        // SAFETY: the handler is a function for the whole life of the process, and does
        // nothing but store into atomics, which is allowed in a signal handler.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

extern "C" fn note(signal: libc::c_int) {
    LAST.store(signal as u32, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// How many interrupts came since [`catch_interrupts`].
pub fn interrupts() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// The last one: its number, and its name.
pub fn last_interrupt() -> Option<(u32, &'static str)> {
    match LAST.load(Ordering::Relaxed) as libc::c_int {
        libc::SIGINT => Some((libc::SIGINT as u32, "SIGINT")),
        libc::SIGTERM => Some((libc::SIGTERM as u32, "SIGTERM")),
        _ => None,
    }
}
