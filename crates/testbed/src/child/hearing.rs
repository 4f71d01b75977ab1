//! What a guard says, heard without waiting longer than asked.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::guard::Said;
use super::spawn::Ended;
use super::tree::Stray;

/// The longest that a guard says: a line with all strays.
const SAID_BYTES_MAX: usize = 16 << 20;

/// Our end of the control socket. Closing it ends the guard, and all below it.
#[derive(Debug)]
pub(super) struct Hearing {
    control: UnixStream,
    bytes: Vec<u8>,
    is_closed: bool,
    started: Option<Result<Pid, String>>,
    end: Option<(Ended, Vec<Stray>)>,
}

impl Hearing {
    pub(super) fn of(control: UnixStream) -> io::Result<Hearing> {
        control.set_nonblocking(true)?;
        Ok(Hearing {
            control,
            bytes: Vec::new(),
            is_closed: false,
            started: None,
            end: None,
        })
    }

    /// The program's process, once it is there.
    pub(super) fn started(&mut self, limit: Duration) -> io::Result<Pid> {
        let until = Instant::now() + limit;
        while self.started.is_none() && !self.is_closed && Instant::now() < until {
            self.wait(until);
        }
        match self.started.take() {
            Some(Ok(program)) => Ok(program),
            Some(Err(why)) => Err(io::Error::other(why)),
            None if self.is_closed => Err(io::Error::other("it ended before it began")),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// How the program ended, if it did. A guard that is gone has taken it along.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        self.take_in();
        let told = self.end.as_ref().map(|(ended, _)| *ended);
        told.or(self.is_closed.then_some(Ended::Signal(9)))
    }

    /// What it left running.
    pub(super) fn left(&mut self) -> &[Stray] {
        self.take_in();
        self.end.as_ref().map_or(&[], |(_, left)| left)
    }

    /// Has everything ended, and says how the program did; `None` if the guard does not say.
    pub(super) fn close(&mut self, limit: Duration) -> Option<Ended> {
        let _ = self.control.shutdown(Shutdown::Write);
        let until = Instant::now() + limit;
        while !self.is_closed && Instant::now() < until {
            self.wait(until);
        }
        self.end.as_ref().map(|(ended, _)| *ended)
    }

    fn wait(&mut self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let limit = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&self.control, PollFlags::IN)];
        let _ = poll(&mut watched, Some(&limit));
        self.take_in();
    }

    fn take_in(&mut self) {
        let mut buffer = [0; 4 << 10];
        while !self.is_closed {
            match self.control.read(&mut buffer) {
                Ok(0) => self.is_closed = true,
                Ok(_) if self.bytes.len() > SAID_BYTES_MAX => self.is_closed = true,
                Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_closed = true,
            }
        }
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Said::Started(pid)) => {
                    let program = Pid::from_raw(pid).ok_or_else(|| "no process id".to_owned());
                    self.started = Some(program);
                }
                Ok(Said::Failed(why)) => self.started = Some(Err(why)),
                Ok(Said::Ended(ended, left)) => self.end = Some((ended, left)),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_comes_in_pieces_is_heard_whole_and_silence_is_not_waited_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut hearing = Hearing::of(ours).unwrap();
        let short = Duration::from_millis(20);
        assert!(hearing.started(short).is_err(), "nothing was said");
        theirs.write_all(b"{\"started\":47").unwrap();
        assert!(hearing.started(short).is_err(), "half of it was");
        theirs.write_all(b"11}\n{\"ended\":[{\"code\":3},").unwrap();
        assert_eq!(hearing.started(short).unwrap().as_raw_pid(), 4711);
        assert_eq!(hearing.ended(), None);
        theirs
            .write_all(b"[{\"pid\":7,\"start\":1,\"name\":\"nginx\"}]]}\n")
            .unwrap();
        assert_eq!(hearing.ended(), Some(Ended::Code(3)));
        assert_eq!(hearing.left()[0].name, "nginx");
        drop(theirs);
        assert_eq!(hearing.close(short), Some(Ended::Code(3)));
    }

    #[test]
    fn a_guard_that_is_gone_has_taken_its_program_along() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut hearing = Hearing::of(ours).unwrap();
        assert_eq!(hearing.ended(), None);
        drop(theirs);
        assert_eq!(hearing.ended(), Some(Ended::Signal(9)));
        assert_eq!(hearing.close(Duration::ZERO), None);
    }
}
