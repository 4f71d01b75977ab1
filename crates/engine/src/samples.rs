//! Every request as it ended, where histograms are not enough.
//!
//! ```text
//!   SampleSender ─push─► block ─full─► Blocks ─► SampleReceiver ─► a file
//!                        ▲                            │
//!                        └─────────── empty ◄─────────┘
//! ```
//!
//! A worker fills blocks that were set aside for it, and never waits: where its reader has
//! not given one back in time, samples are dropped and counted. It tries to hand a block on
//! before it is full, so that a reader that holds the lock for a moment costs nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::Class;

/// One request. Times count from the schedule's zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestSample {
    /// Its intended start.
    pub intended_ns: u64,
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
    /// Which kind of request it was, of a mix; else 0.
    pub kind: u16,
    /// Of several hosts that make a load the place of its own; not among its bytes, for who fetches them knows it.
    pub host: u16,
}

/// The class that stands behind [`RequestSample::failed`]; empty for 0.
pub fn class_of(failed: u16) -> &'static str {
    match failed.checked_sub(1) {
        Some(index) => Class::name_at(usize::from(index)),
        None => "",
    }
}

impl RequestSample {
    /// A request that ended well, as far as this says.
    pub(crate) fn new(intended_ns: u64, done_ns: u64) -> RequestSample {
        RequestSample {
            intended_ns,
            done_ns,
            ..RequestSample::default()
        }
    }

    /// The same where it failed.
    pub(crate) fn failed(self, class: Class) -> RequestSample {
        RequestSample {
            failed: class.index() as u16 + 1,
            ..self
        }
    }

    /// Length of [`RequestSample::to_bytes`].
    pub const BYTES: usize = 42;

    /// As bytes, for files and channels: the fields in turn, the least significant byte first.
    pub fn to_bytes(self) -> [u8; RequestSample::BYTES] {
        let mut bytes = [0; RequestSample::BYTES];
        let times = [
            self.intended_ns,
            self.sent_ns,
            self.first_byte_ns,
            self.done_ns,
        ];
        for (place, at) in bytes.chunks_exact_mut(8).zip(times) {
            place.copy_from_slice(&at.to_le_bytes());
        }
        bytes[32..36].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.status.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.failed.to_le_bytes());
        bytes[40..].copy_from_slice(&self.kind.to_le_bytes());
        bytes
    }

    /// From what [`RequestSample::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8; RequestSample::BYTES]) -> RequestSample {
        let mut left = &bytes[..];
        RequestSample {
            intended_ns: u64::from_le_bytes(taken(&mut left)),
            sent_ns: u64::from_le_bytes(taken(&mut left)),
            first_byte_ns: u64::from_le_bytes(taken(&mut left)),
            done_ns: u64::from_le_bytes(taken(&mut left)),
            bytes: u32::from_le_bytes(taken(&mut left)),
            status: u16::from_le_bytes(taken(&mut left)),
            failed: u16::from_le_bytes(taken(&mut left)),
            kind: u16::from_le_bytes(taken(&mut left)),
            host: 0,
        }
    }

    /// Counted from an instant instead of from the clock's own beginning. What never was stays 0.
    fn since(mut self, zero_ns: u64) -> RequestSample {
        for at in [&mut self.sent_ns, &mut self.first_byte_ns] {
            if *at > 0 {
                *at = at.saturating_sub(zero_ns).max(1);
            }
        }
        self.intended_ns = self.intended_ns.saturating_sub(zero_ns);
        self.done_ns = self.done_ns.saturating_sub(zero_ns);
        self
    }
}

/// The next bytes, which are there.
fn taken<const N: usize>(left: &mut &[u8]) -> [u8; N] {
    let (first, rest) = left
        .split_first_chunk()
        .expect("the lengths of the fields add up");
    *left = rest;
    *first
}

/// Samples in a block.
const BLOCK: usize = 16 * 1024;
/// From so many on a worker tries to hand it on.
const HAND_ON: usize = BLOCK * 3 / 4;
/// Blocks of a worker, the one that it fills among them: 10 MiB.
const BLOCKS: usize = 16;

/// Samples of one worker, in the order in which requests ended.
pub type Block = Vec<RequestSample>;

#[derive(Debug)]
struct Blocks {
    full: VecDeque<Block>,
    empty: Vec<Block>,
    /// Whether anybody fills them again.
    are_filled_again: bool,
    dropped: u64,
}

type Shared = Arc<Mutex<Blocks>>;

fn locked(blocks: &Mutex<Blocks>) -> MutexGuard<'_, Blocks> {
    // Nobody panics in here but for want of memory.
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the workers to one reader: part of a step's spec.
#[derive(Debug, Clone, Default)]
pub struct SampleChannel {
    workers: Arc<Mutex<Vec<Shared>>>,
    /// The place of the host that what is added is of.
    host: u16,
}

impl SampleChannel {
    /// Where what comes is read.
    pub fn receiver(&self) -> SampleReceiver {
        SampleReceiver {
            workers: Arc::clone(&self.workers),
        }
    }

    /// The same channel for one of several hosts, by its place.
    pub fn of_host(&self, host: u16) -> SampleChannel {
        SampleChannel {
            host,
            ..self.clone()
        }
    }

    /// Samples that another host's workers kept; those that were dropped there are counted here.
    pub fn of_elsewhere(&self, mut samples: Block, dropped: u64) {
        for sample in &mut samples {
            sample.host = self.host;
        }
        let blocks = Blocks {
            full: VecDeque::from([samples]),
            empty: Vec::new(),
            are_filled_again: false,
            dropped,
        };
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::new(Mutex::new(blocks)));
    }

    /// One more worker, with its blocks set aside.
    pub(crate) fn sender(&self) -> SampleSender {
        let mut empty: Vec<Block> = Vec::with_capacity(BLOCKS);
        empty.extend((1..BLOCKS).map(|_| Vec::with_capacity(BLOCK)));
        let blocks = Arc::new(Mutex::new(Blocks {
            full: VecDeque::with_capacity(BLOCKS),
            empty,
            are_filled_again: true,
            dropped: 0,
        }));
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&blocks));
        SampleSender {
            blocks,
            block: Vec::with_capacity(BLOCK),
            window: None,
            until_ns: u64::MAX,
            dropped: 0,
        }
    }
}

/// The reader's end of the channel.
#[derive(Debug, Clone)]
pub struct SampleReceiver {
    workers: Arc<Mutex<Vec<Shared>>>,
}

impl SampleReceiver {
    /// Gives everything that is full to `read`, and the blocks back to their workers. The first
    /// error ends it.
    pub fn drain<E>(
        &self,
        mut read: impl FnMut(&[RequestSample]) -> Result<(), E>,
    ) -> Result<(), E> {
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
                let mut blocks = locked(&worker);
                if blocks.are_filled_again {
                    blocks.empty.push(block);
                }
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

/// A worker's end of the channel.
#[derive(Debug)]
pub(crate) struct SampleSender {
    blocks: Shared,
    block: Block,
    /// Once the window is open: the schedule's zero.
    window: Option<u64>,
    /// Requests with a later intended start are not kept.
    until_ns: u64,
    dropped: u64,
}

impl SampleSender {
    /// From now on requests are kept; times count from this instant.
    pub(crate) fn open(&mut self, zero_ns: u64) {
        self.window = Some(zero_ns);
    }

    /// The window is over: of the requests that end from now on those are kept that were to start by an instant.
    pub(crate) fn close(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    #[inline]
    pub(crate) fn push(&mut self, sample: RequestSample) {
        let Some(zero_ns) = self.window else { return };
        if sample.intended_ns > self.until_ns {
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
        let Ok(mut blocks) = self.blocks.try_lock() else {
            return;
        };
        if let Some(empty) = blocks.empty.pop() {
            let full = std::mem::replace(&mut self.block, empty);
            blocks.full.push_back(full);
        }
    }

    /// The worker has ended: hands on what there is.
    pub(crate) fn finish(self) {
        let mut blocks = locked(&self.blocks);
        blocks.full.push_back(self.block);
        blocks.dropped = self.dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64) -> RequestSample {
        RequestSample::new(n, n + 1)
    }

    #[test]
    fn everything_that_is_read_in_time_arrives_in_order() {
        let channel = SampleChannel::default();
        let receiver = channel.receiver();
        let mut sender = channel.sender();
        sender.push(sample(0));
        sender.open(0);
        let mut seen = Vec::new();
        let mut read = |block: &[RequestSample]| {
            seen.extend(block.iter().map(|sample| sample.intended_ns));
            Ok::<(), ()>(())
        };
        for n in 0..200_000 {
            sender.push(sample(n));
            if n % 5_000 == 0 {
                receiver.drain(&mut read).unwrap();
            }
        }
        sender.finish();
        receiver.drain(&mut read).unwrap();
        assert_eq!(receiver.dropped(), 0);
        assert!(seen.iter().copied().eq(0..200_000));
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let channel = SampleChannel::default();
        let receiver = channel.receiver();
        let mut sender = channel.sender();
        sender.open(0);
        for n in 0..1_000_000 {
            sender.push(sample(n));
        }
        sender.finish();
        let mut read = 0;
        let count = |block: &[RequestSample]| {
            read += block.len() as u64;
            Ok::<(), ()>(())
        };
        receiver.drain(count).unwrap();
        assert!(read >= (BLOCKS as u64 - 1) * HAND_ON as u64);
        assert_eq!(read + receiver.dropped(), 1_000_000);
    }

    #[test]
    fn what_comes_from_elsewhere_is_read_as_it_was() {
        let samples: Vec<RequestSample> = (1..100)
            .map(|n| RequestSample {
                sent_ns: n << 40,
                first_byte_ns: u64::MAX - n,
                bytes: u32::MAX - n as u32,
                status: 200 + n as u16,
                failed: n as u16,
                ..sample(n)
            })
            .collect();
        let bytes: Vec<[u8; RequestSample::BYTES]> =
            samples.iter().map(|sample| sample.to_bytes()).collect();
        let channel = SampleChannel::default();
        let came = bytes.iter().map(RequestSample::from_bytes).collect();
        channel.of_elsewhere(came, 7);
        let mut seen = Vec::new();
        let read = |block: &[RequestSample]| {
            seen.extend_from_slice(block);
            Ok::<(), ()>(())
        };
        channel.receiver().drain(read).unwrap();
        assert_eq!(seen, samples);
        assert_eq!(channel.receiver().dropped(), 7);
    }

    #[test]
    fn a_failure_has_its_name() {
        let class = Class::Other(wallfinder_model::Failure::TimeoutTotal);
        assert_eq!(
            class_of(RequestSample::new(1, 2).failed(class).failed),
            "timeout.total"
        );
        assert_eq!(class_of(sample(1).failed), "");
    }

    #[test]
    fn times_count_from_zero_and_what_never_was_stays_so() {
        let late = RequestSample {
            sent_ns: 0,
            first_byte_ns: 1_000,
            ..sample(1_500)
        };
        let expected = RequestSample {
            intended_ns: 500,
            done_ns: 501,
            first_byte_ns: 1,
            ..RequestSample::default()
        };
        assert_eq!(late.since(1_000), expected);
    }
}
