//! The two threads behind a journal: one writes, one syncs.
//!
//! The first failure of either is kept for good; nothing is written after it, so a torn
//! entry is always the last one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wallfinder_model::Json;

use super::entry::{self, Kind};
use super::medium::Medium;
use super::{LeftOut, Limits, StepInterval, StepSamples};
use crate::StoreError;

/// How often written entries are made durable.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What the caller hands over.
pub(super) enum Message {
    Interval(StepInterval),
    Samples(StepSamples),
    Entry(Kind, Vec<u8>),
    End {
        payload: Vec<u8>,
        ack: SyncSender<Result<(), StoreError>>,
    },
}

/// What the caller and both threads look at.
#[derive(Default)]
pub(super) struct Shared {
    has_failed: AtomicBool,
    first_failure: Mutex<Option<StoreError>>,
    intervals_left_out: AtomicU64,
    samples_left_out: AtomicU64,
}

impl Shared {
    /// Keeps the first failure, and returns it.
    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        let mut first = self
            .first_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let kept = first.get_or_insert(error).clone();
        self.has_failed.store(true, Ordering::Release);
        kept
    }

    pub(super) fn failure(&self) -> Option<StoreError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.first_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn leave_out(&self, message: &Message) {
        match message {
            Message::Interval(_) => self.intervals_left_out.fetch_add(1, Ordering::Relaxed),
            Message::Samples(_) => self.samples_left_out.fetch_add(1, Ordering::Relaxed),
            Message::Entry(..) | Message::End { .. } => {
                unreachable!("steps and ends are never left out")
            }
        };
    }

    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut {
            intervals: self.intervals_left_out.load(Ordering::Relaxed),
            samples: self.samples_left_out.load(Ordering::Relaxed),
        }
    }
}

/// JSON of a value of ours.
pub(super) fn json(path: &Path, value: &impl Json) -> Result<Vec<u8>, StoreError> {
    value.to_json().map_err(|e| StoreError::BadRecord {
        path: path.to_owned(),
        why: e.to_string(),
    })
}

/// Writes magic and header, syncs them, and starts the threads.
pub(super) fn start(
    path: PathBuf,
    medium: Arc<dyn Medium>,
    header: Vec<u8>,
    shared: Arc<Shared>,
    limits: Limits,
) -> Result<SyncSender<Message>, StoreError> {
    let (queue, messages) = sync_channel(limits.queue);
    let (wake, woken) = sync_channel(1);
    let mut writer = Writer {
        path: path.clone(),
        medium: Arc::clone(&medium),
        shared: Arc::clone(&shared),
        written_bytes: 0,
        bytes_max: limits.bytes,
        left_out_noted: LeftOut::default(),
    };
    writer.write_bytes(&entry::MAGIC)?;
    writer.write(Kind::Header, &header)?;
    sync(&*medium, &path, &shared)?;
    let spawned = |e: std::io::Error| StoreError::io("start a thread for", &path, &e);
    let syncer_path = path.clone();
    let syncer = std::thread::Builder::new()
        .name("journal-sync".into())
        .spawn(move || {
            for () in woken {
                if sync(&*medium, &syncer_path, &shared).is_err() {
                    break;
                }
            }
        })
        .map_err(spawned)?;
    std::thread::Builder::new()
        .name("journal-write".into())
        .spawn(move || writer.run(&messages, wake, syncer))
        .map_err(spawned)?;
    Ok(queue)
}

/// Makes what was written durable. A failed sync is final: the kernel may have dropped the
/// pages, and a second attempt would report success for data that is lost.
fn sync(medium: &dyn Medium, path: &Path, shared: &Shared) -> Result<(), StoreError> {
    medium
        .sync()
        .map_err(|e| shared.fail(StoreError::io("sync", path, &e)))
}

struct Writer {
    path: PathBuf,
    medium: Arc<dyn Medium>,
    shared: Arc<Shared>,
    written_bytes: u64,
    bytes_max: u64,
    left_out_noted: LeftOut,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>, wake: SyncSender<()>, syncer: JoinHandle<()>) {
        let mut synced = Instant::now();
        let mut dirty = false;
        loop {
            let until_sync = SYNC_EVERY.saturating_sub(synced.elapsed());
            match messages.recv_timeout(until_sync) {
                Ok(Message::End { payload, ack }) => {
                    drop(wake);
                    let _ = syncer.join();
                    let _ = ack.send(self.end(&payload));
                    return;
                }
                Ok(message) => {
                    dirty = true;
                    let _ = self.handle(message);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if synced.elapsed() >= SYNC_EVERY {
                // A syncer still at work has the next round waiting for it already.
                if dirty && wake.try_send(()).is_ok() {
                    dirty = false;
                }
                let _ = self.note_left_out();
                synced = Instant::now();
            }
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), StoreError> {
        let optional = !matches!(message, Message::Entry(..));
        if optional && self.written_bytes > self.bytes_max {
            // Noted once a second, with all others.
            self.shared.leave_out(&message);
            Ok(())
        } else {
            let (kind, payload) = match message {
                Message::Interval(interval) => (Kind::Interval, json(&self.path, &interval)?),
                Message::Samples(samples) => (Kind::Samples, json(&self.path, &samples)?),
                Message::Entry(kind, payload) => (kind, payload),
                Message::End { .. } => unreachable!("handled where it was received"),
            };
            self.write(kind, &payload)?;
            self.note_left_out()
        }
    }

    fn note_left_out(&mut self) -> Result<(), StoreError> {
        let left_out = self.shared.left_out();
        if left_out == self.left_out_noted {
            return Ok(());
        }
        self.left_out_noted = left_out;
        let payload = json(&self.path, &left_out)?;
        self.write(Kind::LeftOut, &payload)
    }

    fn end(&mut self, payload: &[u8]) -> Result<(), StoreError> {
        self.note_left_out()?;
        self.write(Kind::End, payload)?;
        sync(&*self.medium, &self.path, &self.shared)?;
        self.shared.failure().map_or(Ok(()), Err)
    }

    fn write(&mut self, kind: Kind, payload: &[u8]) -> Result<(), StoreError> {
        let Some(bytes) = entry::encode(kind, payload) else {
            return Err(self.shared.fail(StoreError::TooLarge {
                path: self.path.clone(),
                bytes: payload.len() as u64,
                bytes_max: entry::PAYLOAD_BYTES_MAX as u64,
            }));
        };
        self.write_bytes(&bytes)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if let Some(failure) = self.shared.failure() {
            return Err(failure);
        }
        let fail = |kind, why: String| {
            Err(self.shared.fail(StoreError::Io {
                doing: "write to",
                path: self.path.clone(),
                kind,
                why,
            }))
        };
        loop {
            match self.medium.write(bytes) {
                Ok(written) if written == bytes.len() => {
                    self.written_bytes += written as u64;
                    return Ok(());
                }
                Ok(written) => {
                    let why = format!("only {written} of {} bytes went in", bytes.len());
                    return fail(std::io::ErrorKind::StorageFull, why);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return fail(e.kind(), e.to_string()),
            }
        }
    }
}
