//! Requests of a load, one by one, kept in a file without a name until they are fetched or the next load begins.
//! Whatever ends the agent, the file is gone with it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use wallfinder_engine::StepSpec;
use wallfinder_engine::samples::{RequestSample, SampleChannel, SampleReceiver};
use wallfinder_protocol::FRAME_BYTES_MAX;
use wallfinder_sys::process;

/// Bytes of a piece: whole requests, and with base64 well within one message.
const PIECE_BYTES: usize = 16 * 1_024 * RequestSample::BYTES;
const _: () = assert!(PIECE_BYTES * 4 / 3 < FRAME_BYTES_MAX / 2);
/// How often what the workers have filled is written.
const WRITE_EVERY: Duration = Duration::from_millis(20);
/// So many requests are kept of a load; more are counted.
const KEPT_MAX: u64 = 1 << 26;
/// Where such files are, the first that takes one.
const FOLDERS: [&str; 3] = ["/var/tmp", "/tmp", "/dev/shm"];

/// A thread that writes while there is load.
pub(super) struct Keeping {
    file: Arc<File>,
    channel: SampleChannel,
    beyond: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    writing: Option<JoinHandle<Result<(), String>>>,
}

/// What was kept.
pub(super) struct Kept {
    file: Arc<File>,
    channel: SampleReceiver,
    /// Beyond what may be kept.
    beyond: Arc<AtomicU64>,
}

impl Keeping {
    /// Begins to keep the requests of this load.
    pub(super) fn start(spec: &mut StepSpec) -> Result<Keeping, String> {
        let file = Arc::new(nameless()?);
        let channel = SampleChannel::default();
        spec.samples = Some(channel.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let beyond = Arc::new(AtomicU64::new(0));
        let (to, from, until) = (Arc::clone(&file), channel.receiver(), Arc::clone(&is_over));
        let more = Arc::clone(&beyond);
        let writing = thread::Builder::new().name("wf-kept".to_owned());
        let writing = writing.spawn(move || write(&to, &from, &until, &more));
        Ok(Keeping {
            file,
            channel,
            beyond,
            is_over,
            writing: Some(writing.map_err(|error| error.to_string())?),
        })
    }

    /// Where they will be.
    pub(super) fn kept(&self) -> Kept {
        Kept {
            file: Arc::clone(&self.file),
            channel: self.channel.receiver(),
            beyond: Arc::clone(&self.beyond),
        }
    }

    /// The workers have ended: all is written.
    pub(super) fn finish(mut self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Release);
        match self.writing.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            _ => Err("the thread that keeps requests panicked".to_owned()),
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Kept {
    /// As many bytes from there on as a message holds, and for how many requests there was no room.
    pub(super) fn piece(&self, from: u64) -> Result<(Vec<u8>, u64), String> {
        let mut bytes = vec![0; PIECE_BYTES];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], from + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(not_kept(error)),
            }
        }
        bytes.truncate(read);
        let beyond = self.beyond.load(Ordering::Relaxed);
        Ok((bytes, self.channel.dropped() + beyond))
    }
}

fn nameless() -> Result<File, String> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = |folder: &str| rustix::fs::open(Path::new(folder), flags, mode);
    let mut files = FOLDERS.iter().map(|folder| opened(folder));
    let file = files.find_map(Result::ok).map(File::from);
    file.ok_or_else(|| {
        let folders = FOLDERS.join(", ");
        format!("requests cannot be kept one by one there: none of {folders} takes a file")
    })
}

fn write(
    file: &File,
    samples: &SampleReceiver,
    is_over: &AtomicBool,
    beyond: &AtomicU64,
) -> Result<(), String> {
    process::lower_priority();
    let (mut to, mut left) = (BufWriter::new(file), KEPT_MAX);
    loop {
        // Looked at first: what was handed on before is written in this turn.
        let ends = is_over.load(Ordering::Acquire);
        samples.drain(|block| {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            left -= room as u64;
            beyond.fetch_add((block.len() - room) as u64, Ordering::Relaxed);
            let mut each = block[..room].iter();
            each.try_for_each(|sample| to.write_all(&sample.to_bytes()))
                .map_err(not_kept)
        })?;
        if ends {
            return to.flush().map_err(not_kept);
        }
        thread::sleep(WRITE_EVERY);
    }
}

fn not_kept(error: std::io::Error) -> String {
    format!("requests cannot be kept one by one there: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_fetched_piece_by_piece() {
        let channel = SampleChannel::default();
        let file = Arc::new(nameless().expect("a folder"));
        let samples: Vec<RequestSample> = (0..40_000)
            .map(|n| RequestSample {
                done_ns: n,
                ..RequestSample::default()
            })
            .collect();
        channel.of_elsewhere(samples.clone(), 3);
        let (over, beyond) = (AtomicBool::new(true), Arc::default());
        write(&file, &channel.receiver(), &over, &beyond).expect("it is written");
        let kept = Kept {
            file,
            channel: channel.receiver(),
            beyond,
        };
        let mut came = Vec::new();
        loop {
            let (bytes, dropped) = kept.piece(came.len() as u64).expect("a piece");
            assert_eq!(dropped, 3);
            if bytes.is_empty() {
                break;
            }
            came.extend(bytes);
        }
        let (chunks, rest) = came.as_chunks::<{ RequestSample::BYTES }>();
        let came: Vec<RequestSample> = chunks.iter().map(RequestSample::from_bytes).collect();
        assert!(rest.is_empty());
        assert_eq!(came, samples);
    }
}
