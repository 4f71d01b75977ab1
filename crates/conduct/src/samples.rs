//! Every request of a step, on its way from the workers to a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wallfinder_engine::samples::{RequestSample, SampleChannel, SampleReceiver, class_of};
use wallfinder_model::record::Samples;
use wallfinder_store::{Folder, SampleRow, SampleWriter, StoreError};
use wallfinder_sys::process;

use crate::ConductError;

/// How often what the workers have filled is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(20);

/// A thread that writes while there is load. Dropped, it ends, and what it wrote has no name.
pub(crate) struct Keeping {
    over: Arc<AtomicBool>,
    writing: Option<JoinHandle<Result<SampleWriter, StoreError>>>,
    channel: SampleChannel,
    file: String,
}

impl Keeping {
    pub(crate) fn start(folder: &Folder, step: u32) -> Result<Keeping, ConductError> {
        let writer = SampleWriter::create(folder, step, class_of).map_err(kept)?;
        let file = writer.name().to_owned();
        let over = Arc::new(AtomicBool::new(false));
        let channel = SampleChannel::default();
        let (until, from) = (Arc::clone(&over), channel.receiver());
        let writing = thread::Builder::new()
            .name("samples".to_owned())
            .spawn(move || write(writer, &from, &until))
            .map_err(|error| ConductError::Samples(error.to_string()))?;
        Ok(Keeping {
            over,
            writing: Some(writing),
            channel,
            file,
        })
    }

    /// Where workers give what is to be kept.
    pub(crate) fn channel(&self) -> SampleChannel {
        self.channel.clone()
    }

    /// The workers have ended: writes what is left.
    pub(crate) fn finish(mut self) -> Result<Samples, ConductError> {
        self.over.store(true, Ordering::Relaxed);
        let writing = self.writing.take().expect("it is finished once");
        let panicked = |_| ConductError::Samples("the writer of samples panicked".to_owned());
        let writer = writing.join().map_err(panicked)?.map_err(kept)?;
        Ok(Samples {
            rows: writer.finish().map_err(kept)?,
            dropped: self.channel.receiver().dropped(),
            file: std::mem::take(&mut self.file),
        })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn kept(error: StoreError) -> ConductError {
    ConductError::Samples(error.to_string())
}

fn write(
    mut writer: SampleWriter,
    samples: &SampleReceiver,
    over: &AtomicBool,
) -> Result<SampleWriter, StoreError> {
    process::lower_priority();
    loop {
        // Looked at first: what was handed on before is fetched in this turn.
        let ends = over.load(Ordering::Relaxed);
        samples.drain(|block| writer.append(block.iter().map(row)))?;
        if ends {
            return Ok(writer);
        }
        thread::sleep(FETCH_EVERY);
    }
}

fn row(sample: &RequestSample) -> SampleRow {
    let since_sent = |at_ns: u64| match (sample.sent_ns, at_ns) {
        (0, _) | (_, 0) => -1,
        (sent_ns, at_ns) => at_ns.saturating_sub(sent_ns) as i64,
    };
    SampleRow {
        done_ns: sample.done_ns as i64,
        latency_ns: sample.done_ns.saturating_sub(sample.intended_ns) as i64,
        service_ns: since_sent(sample.done_ns),
        first_byte_ns: since_sent(sample.first_byte_ns),
        bytes: sample.bytes,
        status: sample.status,
        request: sample.kind,
        host: sample.host,
        failed: sample.failed,
    }
}
