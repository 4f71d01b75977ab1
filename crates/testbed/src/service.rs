//! A program that serves the tool itself for as long as it runs, and never outlives it.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{Child, ChildSpec, Ended, Keep, Place, RunAs, Shim, SpawnError};

/// How much of what it says is kept.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How long it may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// One that runs. Dropping it ends it, and all that it started.
#[derive(Debug)]
pub struct Service {
    child: Child,
}

impl Service {
    /// Starts it, as whom the tool runs as.
    pub fn start(program: &Path, args: &[String], shim: &Shim) -> Result<Service, SpawnError> {
        let child = Child::start(ChildSpec {
            shim,
            program,
            args,
            env: &[],
            cpus: &[],
            place: &Place::default(),
            run_as: &RunAs::default(),
            stdin: None,
            stdout: Keep::Tail(OUTPUT_BYTES_MAX),
            stderr: Keep::Tail(OUTPUT_BYTES_MAX),
        })?;
        Ok(Service { child })
    }

    /// Its process id, which is nobody else's while this is kept.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Tells it by a signal to do something, such as to read its settings anew.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.ok_or(rustix::io::Errno::SRCH)?, signal)
    }

    /// How many bytes it has said.
    pub fn said_bytes(&self) -> u64 {
        self.child.stderr.came()
    }

    /// What it said after this many bytes, as far as it is kept.
    pub fn said_after(&self, bytes: u64) -> String {
        let came = self.child.stderr.came().saturating_sub(bytes);
        // What comes in between is seen at the next call.
        let kept = self.child.stderr.bytes();
        let new = kept.len().min(usize::try_from(came).unwrap_or(usize::MAX));
        String::from_utf8_lossy(&kept[kept.len() - new..]).into_owned()
    }

    /// Ends it, and all that it started.
    pub fn stop(&mut self) {
        self.child.stop(GRACE);
    }

    /// How it ended, and the end of what it said, if it did.
    pub fn ended(&self) -> Option<(Ended, String)> {
        let ended = self.child.exited()?;
        Some((ended, self.child.stderr.text()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}
