//! Ctrl-C: the first one ends the window and the record is sealed, the second one stops
//! at once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wallfinder_engine::Signals;
use wallfinder_sys::signal;

use crate::exit::Failed;

/// Passes interrupts on to the step that runs now.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    now: Arc<Mutex<Arc<Signals>>>,
}

impl Interrupts {
    /// From now on interrupts end steps, not the process.
    pub(crate) fn catch() -> Interrupts {
        signal::catch_interrupts();
        let interrupts = Interrupts {
            now: Arc::new(Mutex::new(Arc::new(Signals::default()))),
        };
        let watching = interrupts.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(20));
                let count = signal::interrupts();
                if count > 0 {
                    let signals = watching.current();
                    signals.stop.store(true, Ordering::Relaxed);
                    signals.abort.store(count > 1, Ordering::Relaxed);
                }
            }
        });
        interrupts
    }

    /// Signals for a step that begins; interrupts go to it from now on.
    pub(crate) fn next_step(&self) -> Arc<Signals> {
        let signals = Arc::new(Signals::default());
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&signals);
        signals
    }

    fn current(&self) -> Arc<Signals> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the step that runs now.
    pub(crate) fn stop_step(&self) {
        self.current().stop.store(true, Ordering::Relaxed);
    }

    /// Whoever was interrupted ends so, with what there is already sealed.
    pub(crate) fn none_came(&self) -> Result<(), Failed> {
        self.came()
            .map_or(Ok(()), |(code, _)| Err(Failed::with_code(code, "")))
    }

    /// The signal that came, if one did: its exit code, and its name.
    pub(crate) fn came(&self) -> Option<(u8, &'static str)> {
        let (number, name) = signal::last_interrupt()?;
        Some((128 + number as u8, name))
    }
}
