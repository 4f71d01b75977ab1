//! Rings of perf events, drained by a thread of their own until they are told to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wallfinder_sys::perf::StackSampler;

use crate::parse::perf::{Record, records};

/// What a thread drains, and what it makes of it.
#[derive(Debug)]
pub(crate) struct Rings<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(T, Duration)>>,
}

/// How a thread drains rings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// The thread's name.
    pub(crate) name: &'static str,
    /// How often.
    pub(crate) every: Duration,
    /// For how long at the most.
    pub(crate) most: Duration,
}

impl<T: Send + 'static> Rings<T> {
    /// Begins; `take` is given every record.
    pub(crate) fn start(
        mut samplers: Vec<StackSampler>,
        habits: Habits,
        mut state: T,
        take: impl Fn(&mut T, Record) + Send + 'static,
    ) -> io::Result<Rings<T>> {
        for sampler in &samplers {
            sampler.enable()?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let drain = move || {
            let began = Instant::now();
            let mut bytes = Vec::new();
            loop {
                let is_last = began.elapsed() >= habits.most || stopped.load(Ordering::Relaxed);
                for sampler in &mut samplers {
                    if is_last {
                        sampler.disable()?;
                    }
                    bytes.clear();
                    sampler.drain(&mut bytes);
                    for record in records(&bytes) {
                        take(&mut state, record);
                    }
                }
                if is_last {
                    return Ok((state, began.elapsed()));
                }
                thread::sleep(habits.every);
            }
        };
        let named = thread::Builder::new().name(habits.name.into());
        Ok(Rings {
            stop,
            thread: named.spawn(drain)?,
        })
    }

    /// Takes no more.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends, and gives what it came to and how long it was.
    pub(crate) fn join(self) -> io::Result<(T, Duration)> {
        self.end();
        match self.thread.join() {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("who drained the rings gave up")),
        }
    }
}
