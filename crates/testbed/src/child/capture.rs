//! What a child says, kept within a limit. Its pipe is always drained, so it never waits.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Which part is kept of what is longer than the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// This many bytes from the start.
    Head(usize),
    /// This many bytes up to the end.
    Tail(usize),
}

/// A stream on its way, or as it ended.
#[derive(Debug)]
pub(crate) struct Capture {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    left_out_bytes: u64,
    ended: bool,
}

impl Capture {
    /// Reads a stream on a thread of its own until it ends.
    pub(super) fn of(
        mut stream: impl Read + Send + 'static,
        keep: Keep,
    ) -> std::io::Result<Capture> {
        let shared = Arc::new(Shared::default());
        let to = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("child-output".into())
            .spawn(move || {
                let mut buffer = [0; 16 << 10];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(n) => to.lock().add(&buffer[..n], keep),
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                        Err(_) => break,
                    }
                    to.changed.notify_all();
                }
                to.lock().ended = true;
                to.changed.notify_all();
            })?;
        Ok(Capture { shared })
    }

    /// What is kept so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shared.lock().bytes.clone()
    }

    /// How much is kept so far.
    pub(crate) fn len(&self) -> usize {
        self.shared.lock().bytes.len()
    }

    /// How much came so far, kept or not.
    pub(crate) fn came(&self) -> u64 {
        let state = self.shared.lock();
        state.bytes.len() as u64 + state.left_out_bytes
    }

    /// How much was not kept.
    pub(crate) fn left_out_bytes(&self) -> u64 {
        self.shared.lock().left_out_bytes
    }

    /// What is kept, as text. It is another program's: who shows it makes it safe.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).replace("\r\n", "\n")
    }

    /// Waits for the stream's end; whether it came.
    pub(crate) fn wait_end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.shared.lock();
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, new: &[u8], keep: Keep) {
        match keep {
            Keep::Head(most) => {
                let room = most.saturating_sub(self.bytes.len()).min(new.len());
                self.bytes.extend_from_slice(&new[..room]);
                self.left_out_bytes += (new.len() - room) as u64;
            }
            Keep::Tail(most) => {
                self.bytes.extend_from_slice(new);
                let over = self.bytes.len().saturating_sub(most);
                self.bytes.drain(..over);
                self.left_out_bytes += over as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_keeps_the_part_asked_for() {
        let said: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        for (keep, kept) in [
            (Keep::Head(1000), &said[..1000]),
            (Keep::Tail(1000), &said[said.len() - 1000..]),
            (Keep::Head(1 << 20), &said[..]),
        ] {
            let stream = std::io::Cursor::new(said.clone());
            let capture = Capture::of(stream, keep).expect("a thread");
            assert!(capture.wait_end(Duration::from_secs(10)));
            assert_eq!(capture.bytes(), kept);
            assert_eq!(capture.left_out_bytes() as usize, said.len() - kept.len());
        }
    }

    #[test]
    fn text_is_as_it_was_said() {
        let capture = Capture::of(&b"a\x1b[2Jb\r\nc\x07"[..], Keep::Tail(100)).expect("a thread");
        capture.wait_end(Duration::from_secs(10));
        assert_eq!(capture.text(), "a\x1b[2Jb\nc\x07");
    }
}
