//! An allocator that counts what a thread allocates while it has promised not to.
//!
//! A test makes it the global allocator; the engine's workers enter [`forbid`] for the
//! time of the run. In a build that does not make it the global allocator, entering costs
//! one thread-local write.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

static BROKEN_PROMISES: AtomicU64 = AtomicU64::new(0);

/// Allocations made by threads while they had promised to make none.
pub fn broken_promises() -> u64 {
    BROKEN_PROMISES.load(Ordering::Relaxed)
}

/// The promise, kept until it is dropped.
#[derive(Debug)]
pub struct Promise {
    before: bool,
}

/// The calling thread promises to allocate nothing until the value is dropped.
pub fn forbid() -> Promise {
    Promise {
        before: FORBIDDEN.replace(true),
    }
}

/// Lifts the promise for the time of the value: for work outside the measured path.
pub fn permit() -> Promise {
    Promise {
        before: FORBIDDEN.replace(false),
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        FORBIDDEN.set(self.before);
    }
}

/// The system's allocator, watching over the promise.
#[derive(Debug)]
pub struct Watchful;

fn note() {
    if FORBIDDEN.try_with(Cell::get).unwrap_or(false) {
        BROKEN_PROMISES.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator, which upholds the
// contract; `note` neither allocates nor unwinds.
unsafe impl GlobalAlloc for Watchful {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
