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

/// What a shell starts in the background ignores SIGINT: one that came before interrupts are caught would be lost. From
/// now on SIGINT and SIGTERM end the process until they are caught.
pub fn heed_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the kernel's own disposition; no code of this process runs in it.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// SIGHUP is counted as well, which comes when a terminal is closed; not where it is ignored, as below nohup.
pub fn catch_hang_ups() {
    let handler = note as extern "C" fn(libc::c_int);
    // SAFETY: as above; what it was before is read and set within the calls.
    unsafe {
        if libc::signal(libc::SIGHUP, handler as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}

/// The first process of a container is ended by no signal that it has no handler for: from now on SIGINT and SIGTERM end
/// it at once, and all that it started with it, with the status that a shell gives to who ended so. Other processes end
/// as they did.
pub fn end_as_first_process() {
    if std::process::id() != 1 {
        return;
    }
    let handler = end as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler is a function for the whole life of the process, and calls only `_exit`, as a handler may.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

extern "C" fn end(signal: libc::c_int) {
    // SAFETY: it ends the process, and runs nothing else of it.
    unsafe { libc::_exit(128 + signal) }
}

extern "C" fn note(signal: libc::c_int) {
    LAST.store(signal as u32, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// How many came since they are caught.
pub fn interrupts() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// The last one: its number, and its name.
pub fn last_interrupt() -> Option<(u32, &'static str)> {
    match LAST.load(Ordering::Relaxed) as libc::c_int {
        libc::SIGINT => Some((libc::SIGINT as u32, "SIGINT")),
        libc::SIGTERM => Some((libc::SIGTERM as u32, "SIGTERM")),
        libc::SIGHUP => Some((libc::SIGHUP as u32, "SIGHUP")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_up_is_counted_unless_it_is_ignored() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
        let is_ignored = ignored & (1 << (libc::SIGHUP - 1)) != 0;
        catch_hang_ups();
        let before = interrupts();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::HUP).unwrap();
        // It may come to another thread of this process.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(interrupts(), before + u32::from(!is_ignored));
        let last = (!is_ignored).then_some((libc::SIGHUP as u32, "SIGHUP"));
        assert_eq!(last_interrupt(), last);
    }
}
