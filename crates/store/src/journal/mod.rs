//! The journal: what was measured, written down as it is measured.
//!
//! ```text
//!  caller ──try_send──► bounded queue ──► writer thread ── one write(2) an entry ──► file
//!                                             └─ once a second ─► syncer thread ── fsync
//! ```
//!
//! Writing and syncing are two threads, so that a slow fsync delays neither the caller nor
//! the next write: an entry survives a SIGKILL as soon as it is written, and a power cut
//! about a second later. It is no log for reading while it is written, though
//! [`open`](crate::open()) may do so.

pub(crate) mod entry;
pub(crate) mod medium;
pub(crate) mod recover;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wallfinder_model::experiment::{Experiment, Window};
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::Sample;
use wallfinder_model::{Caveat, Record, Step};

use crate::StoreError;
use entry::Kind;
use medium::Medium;
use writer::{Message, Shared};

/// What a journal may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Messages that may wait for the writer.
    queue: usize,
    /// Bytes beyond which intervals and telemetry are left out and counted.
    bytes: u64,
    /// How long a step's begin or end, which may not be left out, waits for room.
    room_wait: Duration,
}

const LIMITS: Limits = Limits {
    // At ten intervals and twenty samples a second, half a minute of a disk that takes nothing.
    queue: 1024,
    bytes: 2 << 30,
    room_wait: Duration::from_secs(20),
};
/// How long the end waits for the disk.
const END_WAIT_MAX: Duration = Duration::from_secs(60);
/// Telemetry rows in one entry.
const SAMPLES_PER_ENTRY: usize = 64;

/// A run's journal, open for writing. Clones share it; it may be used from any thread.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    /// Telemetry rows written so far, by step.
    samples: Mutex<HashMap<u32, usize>>,
    room_wait: Duration,
}

/// Payload of [`Kind::Interval`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StepInterval {
    pub(crate) step: u32,
    pub(crate) interval: Interval,
}

/// Payload of [`Kind::Samples`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StepSamples {
    pub(crate) step: u32,
    /// Whether these take the place of those before.
    pub(crate) replace: bool,
    pub(crate) samples: Vec<Sample>,
}

/// Payload of [`Kind::Experiment`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StepExperiment {
    pub(crate) step: u32,
    pub(crate) experiment: Experiment,
}

/// Payload of [`Kind::Window`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StepWindow {
    pub(crate) step: u32,
    pub(crate) window: Window,
}

/// Payload of [`Kind::LeftOut`]: totals so far.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) intervals: u64,
    pub(crate) samples: u64,
}

wallfinder_model::kept_as_json!(
    LeftOut,
    StepExperiment,
    StepInterval,
    StepSamples,
    StepWindow
);

impl Journal {
    /// Starts a journal on an empty medium. When this returns, the header is on the disk.
    pub(crate) fn start(
        path: PathBuf,
        medium: Box<dyn Medium>,
        header: &Record,
    ) -> Result<Journal, StoreError> {
        Journal::start_within(LIMITS, path, medium, header)
    }

    fn start_within(
        limits: Limits,
        path: PathBuf,
        medium: Box<dyn Medium>,
        header: &Record,
    ) -> Result<Journal, StoreError> {
        let header = without_steps(header);
        let payload = writer::json(&path, &header)?;
        let shared = Arc::new(Shared::default());
        let queue = writer::start(
            path.clone(),
            Arc::from(medium),
            payload,
            Arc::clone(&shared),
            limits,
        )?;
        Ok(Journal {
            inner: Arc::new(Inner {
                path,
                queue,
                shared,
                samples: Mutex::new(HashMap::new()),
                room_wait: limits.room_wait,
            }),
        })
    }

    /// Notes that a step begins: `step` as far as it is known, without measurements.
    /// Waits for room in the queue, so call it outside the measured window.
    pub fn step_begins(&self, step: &Step) -> Result<(), StoreError> {
        self.must_send(Kind::StepBegins, writer::json(&self.inner.path, step)?)
    }

    /// Notes an interval that ended. Never waits: when the queue is full, the interval is
    /// left out and counted. An error says that writing failed for good, now or before:
    /// stop the load.
    pub fn interval(&self, step: u32, interval: &Interval) -> Result<(), StoreError> {
        self.may_send(Message::Interval(StepInterval {
            step,
            interval: interval.clone(),
        }))
    }

    /// Notes telemetry rows of a step; those before stay. Never waits, as
    /// [`interval`](Journal::interval).
    pub fn samples(&self, step: u32, samples: Vec<Sample>) -> Result<(), StoreError> {
        if samples.is_empty() {
            return self.check();
        }
        *self.samples_noted().entry(step).or_default() += samples.len();
        self.may_send(Message::Samples(StepSamples {
            step,
            replace: false,
            samples,
        }))
    }

    /// Notes a step as it ended, with its telemetry rows as far as they were not noted
    /// before. A step noted twice counts as it was noted last, so that a verdict may follow.
    pub fn step_ends(&self, step: &Step) -> Result<(), StoreError> {
        let noted = self
            .samples_noted()
            .insert(step.index, step.series.len())
            .unwrap_or(0);
        if noted != step.series.len() {
            for (nth, rows) in step.series.chunks(SAMPLES_PER_ENTRY).enumerate() {
                let rows = StepSamples {
                    step: step.index,
                    replace: nth == 0,
                    samples: rows.to_vec(),
                };
                self.must_send(Kind::Samples, writer::json(&self.inner.path, &rows)?)?;
            }
        }
        self.must_send(Kind::StepEnds, writer::json(&self.inner.path, step)?)
    }

    /// Notes an experiment of a step that ended, without windows and slices: at its first
    /// window, and again whenever it has more conditions. Waits for room in the queue.
    pub fn experiment(&self, step: u32, experiment: &Experiment) -> Result<(), StoreError> {
        let experiment = Experiment {
            windows: Vec::new(),
            intervals: Vec::new(),
            ..experiment.clone()
        };
        let payload = writer::json(&self.inner.path, &StepExperiment { step, experiment })?;
        self.must_send(Kind::Experiment, payload)
    }

    /// Notes a window of a step's experiment that ended. Waits for room in the queue.
    pub fn window(&self, step: u32, window: &Window) -> Result<(), StoreError> {
        let window = window.clone();
        let payload = writer::json(&self.inner.path, &StepWindow { step, window })?;
        self.must_send(Kind::Window, payload)
    }

    /// Notes a caveat of the run as a whole.
    pub fn caveat(&self, caveat: &Caveat) -> Result<(), StoreError> {
        self.must_send(Kind::Caveat, writer::json(&self.inner.path, caveat)?)
    }

    /// The first failure to write or sync, if there was one. It stays.
    pub fn failure(&self) -> Option<StoreError> {
        self.inner.shared.failure()
    }

    /// Intervals and batches of telemetry left out so far, because the disk did not keep up.
    pub fn left_out(&self) -> u64 {
        let left_out = self.inner.shared.left_out();
        left_out.intervals + left_out.samples
    }

    /// Writes how the run ended, syncs, and ends the journal. Whatever is noted afterwards
    /// is an error.
    pub(crate) fn end(&self, record: &Record) -> Result<(), StoreError> {
        let payload = writer::json(&self.inner.path, &without_steps(record))?;
        let (ack, acked) = std::sync::mpsc::sync_channel(1);
        self.wait_for_room(Message::End { payload, ack })?;
        match acked.recv_timeout(END_WAIT_MAX) {
            Ok(result) => result,
            Err(_) => Err(self.inner.shared.fail(StoreError::DiskTooSlow {
                path: self.inner.path.clone(),
                waited_s: END_WAIT_MAX.as_secs(),
            })),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failure().map_or(Ok(()), Err)
    }

    fn samples_noted(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        let noted = self.inner.samples.lock();
        noted.unwrap_or_else(PoisonError::into_inner)
    }

    fn may_send(&self, message: Message) -> Result<(), StoreError> {
        self.check()?;
        match self.inner.queue.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => {
                self.inner.shared.leave_out(&message);
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(self.over()),
        }
    }

    fn must_send(&self, kind: Kind, payload: Vec<u8>) -> Result<(), StoreError> {
        self.check()?;
        self.wait_for_room(Message::Entry(kind, payload))
    }

    fn wait_for_room(&self, mut message: Message) -> Result<(), StoreError> {
        let since = Instant::now();
        loop {
            match self.inner.queue.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(self.over()),
                Err(TrySendError::Full(back)) if since.elapsed() < self.inner.room_wait => {
                    message = back;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TrySendError::Full(_)) => {
                    return Err(self.inner.shared.fail(StoreError::DiskTooSlow {
                        path: self.inner.path.clone(),
                        waited_s: self.inner.room_wait.as_secs(),
                    }));
                }
            }
        }
    }

    /// The writer is gone: by its failure, or because the run was ended.
    fn over(&self) -> StoreError {
        self.failure().unwrap_or_else(|| StoreError::Io {
            doing: "add to the ended",
            path: self.inner.path.clone(),
            kind: std::io::ErrorKind::BrokenPipe,
            why: "the run is over".into(),
        })
    }
}

/// The record as it stands in headers.
fn without_steps(record: &Record) -> Record {
    Record {
        schema: record.schema.clone(),
        id: record.id.clone(),
        started_utc: record.started_utc.clone(),
        tool_version: record.tool_version.clone(),
        command_line: record.command_line.clone(),
        scenario: record.scenario.clone(),
        plan: record.plan.clone(),
        environment: record.environment.clone(),
        server_environment: record.server_environment.clone(),
        steps: Vec::new(),
        caveats: record.caveats.clone(),
        complete: record.complete,
        interrupted: record.interrupted.clone(),
        ab: record.ab.clone(),
        sizes: record.sizes.clone(),
        charts: record.charts.clone(),
        claims: record.claims.clone(),
    }
}

#[cfg(test)]
mod tests;
