//! Every request as it ended, for whoever wants more than histograms.
//!
//! ```text
//!   worker ─push─► block ─full─► Exchange ─take─► Inlet ─► a file
//!                  ▲                               │
//!                  └───────────── empty ◄─give_back┘
//! ```
//!
//! A worker fills blocks that were set aside for it, and never waits: where its reader has
//! not given one back in time, samples are dropped and counted. It tries to hand a block on
//! before it is full, so that a reader who holds the lock for a moment costs nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::Class;

/// One request. Times count from the schedule's zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// When it was due.
    pub due_ns: u64,
    /// When its first byte was handed to the socket; 0: it never was.
    pub sent_ns: u64,
    /// When the first byte of its answer came; 0: none did.
    pub first_byte_ns: u64,
    /// When it ended, well or not.
    pub done_ns: u64,
    /// Bytes of the answer on the wire, as far as they fit.
    pub bytes: u32,
    /// HTTP status; 0: none.
    pub status: u16,
    /// Its failure, to be named by [`class_of`]; 0: it was answered well.
    pub failed: u16,
}

/// The class that stands behind [`Sample::failed`]; empty for 0.
pub fn class_of(failed: u16) -> &'static str {
    match failed.checked_sub(1) {
        Some(index) => Class::name_at(usize::from(index)),
        None => "",
    }
}

impl Sample {
    /// A request that ended well, as far as this says.
    pub(crate) fn new(due_ns: u64, done_ns: u64) -> Sample {
        Sample {
            due_ns,
            done_ns,
            ..Sample::default()
        }
    }

    /// The same where it failed.
    pub(crate) fn failed(self, class: Class) -> Sample {
        Sample {
            failed: class.index() as u16 + 1,
            ..self
        }
    }

    /// Counted from an instant instead of from the clock's own beginning. What never was stays 0.
    fn since(mut self, zero_ns: u64) -> Sample {
        for at in [&mut self.sent_ns, &mut self.first_byte_ns] {
            if *at > 0 {
                *at = at.saturating_sub(zero_ns).max(1);
            }
        }
        self.due_ns = self.due_ns.saturating_sub(zero_ns);
        self.done_ns = self.done_ns.saturating_sub(zero_ns);
        self
    }
}

/// Samples in a block.
const BLOCK: usize = 16 * 1024;
/// From so many on a worker tries to hand it on.
const HAND_ON: usize = BLOCK * 3 / 4;
/// Blocks of a worker, the one that it fills among them: 10 MiB.
const BLOCKS: usize = 16;

/// Samples of one worker, in the order in which requests ended.
pub type Block = Vec<Sample>;

#[derive(Debug)]
struct Exchange {
    full: VecDeque<Block>,
    empty: Vec<Block>,
    dropped: u64,
}

type Shared = Arc<Mutex<Exchange>>;

fn locked(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    // Nobody panics in here but for want of memory.
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where workers begin: part of a step's spec.
#[derive(Debug, Clone, Default)]
pub struct Outlet {
    workers: Arc<Mutex<Vec<Shared>>>,
}

impl Outlet {
    /// For whoever reads what comes.
    pub fn inlet(&self) -> Inlet {
        Inlet {
            workers: Arc::clone(&self.workers),
        }
    }

    /// One more worker, with its blocks set aside.
    pub(crate) fn sink(&self) -> Sink {
        let mut empty: Vec<Block> = Vec::with_capacity(BLOCKS);
        empty.extend((1..BLOCKS).map(|_| Vec::with_capacity(BLOCK)));
        let exchange = Arc::new(Mutex::new(Exchange {
            full: VecDeque::with_capacity(BLOCKS),
            empty,
            dropped: 0,
        }));
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&exchange));
        Sink {
            exchange,
            block: Vec::with_capacity(BLOCK),
            window: None,
            until_ns: u64::MAX,
            dropped: 0,
        }
    }
}

/// Where samples are read.
#[derive(Debug, Clone)]
pub struct Inlet {
    workers: Arc<Mutex<Vec<Shared>>>,
}

impl Inlet {
    /// Gives everything that is full to `read`, and the blocks back to their workers. The first
    /// error ends it.
    pub fn drain<E>(&self, mut read: impl FnMut(&[Sample]) -> Result<(), E>) -> Result<(), E> {
        let workers = self
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for worker in workers {
            loop {
                let Some(mut block) = locked(&worker).full.pop_front() else {
                    break;
                };
                read(&block)?;
                block.clear();
                locked(&worker).empty.push(block);
            }
        }
        Ok(())
    }

    /// Samples for which there was no room; known when the workers have ended.
    pub fn dropped(&self) -> u64 {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().map(|worker| locked(worker).dropped).sum()
    }
}

/// A worker's end.
#[derive(Debug)]
pub(crate) struct Sink {
    exchange: Shared,
    block: Block,
    /// Once the window is open: the schedule's zero.
    window: Option<u64>,
    /// Requests that were due later are not kept.
    until_ns: u64,
    dropped: u64,
}

impl Sink {
    /// From now on requests are kept; times count from this instant.
    pub(crate) fn open(&mut self, zero_ns: u64) {
        self.window = Some(zero_ns);
    }

    /// The window is over: of the requests that end from now on those are kept that were due by an instant.
    pub(crate) fn close(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    #[inline]
    pub(crate) fn push(&mut self, sample: Sample) {
        let Some(zero_ns) = self.window else { return };
        if sample.due_ns > self.until_ns {
            return;
        }
        let sample = sample.since(zero_ns);
        if self.block.len() >= HAND_ON {
            self.hand_on();
        }
        if self.block.len() < BLOCK {
            self.block.push(sample);
        } else {
            self.dropped += 1;
        }
    }

    #[cold]
    fn hand_on(&mut self) {
        let Ok(mut exchange) = self.exchange.try_lock() else {
            return;
        };
        if let Some(empty) = exchange.empty.pop() {
            let full = std::mem::replace(&mut self.block, empty);
            exchange.full.push_back(full);
        }
    }

    /// The worker has ended: hands on what there is.
    pub(crate) fn finish(self) {
        let mut exchange = locked(&self.exchange);
        exchange.full.push_back(self.block);
        exchange.dropped = self.dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64) -> Sample {
        Sample::new(n, n + 1)
    }

    #[test]
    fn everything_that_is_read_in_time_arrives_in_order() {
        let outlet = Outlet::default();
        let inlet = outlet.inlet();
        let mut sink = outlet.sink();
        sink.push(sample(0));
        sink.open(0);
        let mut seen = Vec::new();
        let mut read = |block: &[Sample]| {
            seen.extend(block.iter().map(|sample| sample.due_ns));
            Ok::<(), ()>(())
        };
        for n in 0..200_000 {
            sink.push(sample(n));
            if n % 5_000 == 0 {
                inlet.drain(&mut read).unwrap();
            }
        }
        sink.finish();
        inlet.drain(&mut read).unwrap();
        assert_eq!(inlet.dropped(), 0);
        assert!(seen.iter().copied().eq(0..200_000));
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let outlet = Outlet::default();
        let inlet = outlet.inlet();
        let mut sink = outlet.sink();
        sink.open(0);
        for n in 0..1_000_000 {
            sink.push(sample(n));
        }
        sink.finish();
        let mut read = 0;
        let count = |block: &[Sample]| {
            read += block.len() as u64;
            Ok::<(), ()>(())
        };
        inlet.drain(count).unwrap();
        assert!(read >= (BLOCKS as u64 - 1) * HAND_ON as u64);
        assert_eq!(read + inlet.dropped(), 1_000_000);
    }

    #[test]
    fn a_failure_has_its_name() {
        let class = Class::Other(wallfinder_model::Failure::TimeoutTotal);
        assert_eq!(
            class_of(Sample::new(1, 2).failed(class).failed),
            "timeout.total"
        );
        assert_eq!(class_of(sample(1).failed), "");
    }

    #[test]
    fn times_count_from_zero_and_what_never_was_stays_so() {
        let late = Sample {
            sent_ns: 0,
            first_byte_ns: 1_000,
            ..sample(1_500)
        };
        let expected = Sample {
            due_ns: 500,
            done_ns: 501,
            first_byte_ns: 1,
            ..Sample::default()
        };
        assert_eq!(late.since(1_000), expected);
    }
}
