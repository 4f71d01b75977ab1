//! Requests of a load, one by one, kept in a file without a name until they are fetched or the next load begins.
//! Whatever ends the agent, the file is gone with it.
//!
//! Invariant: each request is kept whole or counted as dropped, also where the disk is full: the load is measured all
//! the same.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Write};
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
    writing: Option<JoinHandle<()>>,
}

/// What was kept.
pub(super) struct Kept {
    file: Arc<File>,
    channel: SampleReceiver,
    /// Beyond what may be kept, and what the disk did not take.
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
        let writing = writing.spawn(move || write(Place::of(&to, &*to, &more), &from, &until));
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
            Some(Ok(())) => Ok(()),
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
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let why = format!("requests cannot be kept one by one there: {error}");
                    return Err(why);
                }
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

/// Where requests go while there is room.
struct Place<'f, W: Write> {
    file: &'f File,
    /// Writes into it; `None`: the disk takes no more.
    to: Option<BufWriter<W>>,
    /// Requests that went there.
    kept: u64,
    beyond: &'f AtomicU64,
}

impl<'f, W: Write> Place<'f, W> {
    /// In a file that is empty, by what writes into it; what finds no room is counted in `beyond`.
    fn of(file: &'f File, to: W, beyond: &'f AtomicU64) -> Place<'f, W> {
        Place {
            file,
            to: Some(BufWriter::new(to)),
            kept: 0,
            beyond,
        }
    }

    fn keep(&mut self, block: &[RequestSample]) {
        let left = match self.to {
            Some(_) => KEPT_MAX - self.kept,
            None => 0,
        };
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        self.drop_of((block.len() - room) as u64);
        self.kept += room as u64;
        let mut each = block[..room].iter();
        self.write(|to| each.try_for_each(|sample| to.write_all(&sample.to_bytes())));
    }

    fn flush(&mut self) {
        self.write(BufWriter::flush);
    }

    /// Where the disk does not take it, no more is written: what it took in part, or not at all, is dropped.
    fn write(&mut self, write: impl FnOnce(&mut BufWriter<W>) -> io::Result<()>) {
        let Some(Err(error)) = self.to.as_mut().map(write) else {
            return;
        };
        tracing::warn!(%error, "no more requests are kept one by one");
        // Taken apart: its end would try to write the rest.
        drop(self.to.take().map(BufWriter::into_parts));
        let bytes = self.file.metadata().map_or(0, |file| file.len());
        let whole = (bytes / RequestSample::BYTES as u64).min(self.kept);
        // A part that stays is noticed by who fetches.
        let _ = self.file.set_len(whole * RequestSample::BYTES as u64);
        self.drop_of(self.kept - whole);
        self.kept = whole;
    }

    fn drop_of(&self, requests: u64) {
        self.beyond.fetch_add(requests, Ordering::Relaxed);
    }
}

fn write<W: Write>(mut place: Place<'_, W>, samples: &SampleReceiver, is_over: &AtomicBool) {
    process::lower_priority();
    loop {
        // Looked at first: what was handed on before is written in this turn.
        let ends = is_over.load(Ordering::Acquire);
        let Ok(()) = samples.drain(|block| {
            place.keep(block);
            Ok::<(), Infallible>(())
        });
        if ends {
            return place.flush();
        }
        thread::sleep(WRITE_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(from: u64, to: u64) -> Vec<RequestSample> {
        let sample = |n: u64| RequestSample {
            done_ns: n,
            ..RequestSample::default()
        };
        (from..to).map(sample).collect()
    }

    /// All that is fetched, and how many were dropped.
    fn fetched(kept: &Kept) -> (Vec<RequestSample>, u64) {
        let mut came: Vec<u8> = Vec::new();
        loop {
            let (bytes, dropped) = kept.piece(came.len() as u64).expect("a piece");
            if bytes.is_empty() {
                let (chunks, rest) = came.as_chunks::<{ RequestSample::BYTES }>();
                assert!(rest.is_empty());
                let came = chunks.iter().map(RequestSample::from_bytes);
                return (came.collect(), dropped);
            }
            came.extend(bytes);
        }
    }

    #[test]
    fn what_was_kept_is_fetched_piece_by_piece() {
        let channel = SampleChannel::default();
        let file = Arc::new(nameless().expect("a folder"));
        let samples = samples(0, 40_000);
        channel.of_elsewhere(samples.clone(), 3);
        let (over, beyond) = (AtomicBool::new(true), Arc::default());
        let place = Place::of(&file, &*file, &beyond);
        write(place, &channel.receiver(), &over);
        let kept = Kept {
            file,
            channel: channel.receiver(),
            beyond,
        };
        assert_eq!(fetched(&kept), (samples, 3));
    }

    /// A disk with room for so many bytes.
    struct Disk<'f> {
        file: &'f File,
        room: usize,
    }

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.file.write_all(&bytes[..taken]).map(|()| taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_keeps_whole_requests_and_all_others_are_dropped() {
        // It is full within a block, and when the last of all is written.
        for (room, whole) in [(100_000, 100_000 / RequestSample::BYTES as u64), (50, 1)] {
            for ends in [5, 40_000] {
                let channel = SampleChannel::default();
                let file = Arc::new(nameless().expect("a folder"));
                channel.of_elsewhere(samples(0, ends), 3);
                channel.of_elsewhere(samples(ends, ends + 7), 0);
                let (over, beyond) = (AtomicBool::new(true), Arc::default());
                let disk = Disk { file: &file, room };
                let place = Place::of(&file, disk, &beyond);
                write(place, &channel.receiver(), &over);
                let kept = Kept {
                    file,
                    channel: channel.receiver(),
                    beyond,
                };
                let whole = whole.min(ends + 7);
                let expected = (samples(0, whole), 3 + ends + 7 - whole);
                assert_eq!(fetched(&kept), expected, "{room} bytes of {ends}");
            }
        }
    }
}
