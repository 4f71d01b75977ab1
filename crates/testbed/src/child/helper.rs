//! A helper: this tool again, under its hidden subcommand, obeying a pipe.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;

use super::spawn::{ARG0, in_nursery};
use super::{BETWEEN_VARIABLE, SUBCOMMAND, Shim, keeper};

/// A running helper. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Helper {
    child: std::process::Child,
    group: Pid,
}

impl Helper {
    /// Starts one, with the pipes to it and from it.
    pub(crate) fn start(
        shim: &Shim,
        args: &[&str],
    ) -> io::Result<(Helper, ChildStdin, ChildStdout)> {
        if std::env::var_os(BETWEEN_VARIABLE).is_some() {
            let why = format!("this program does not handle `{SUBCOMMAND}`");
            return Err(io::Error::other(why));
        }
        let mut command = Command::new(&shim.program);
        command
            .arg0(ARG0)
            .args([SUBCOMMAND, "--parent", &std::process::id().to_string()])
            .args(args)
            .env(BETWEEN_VARIABLE, "1")
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = in_nursery(command)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("no process id"))?;
        keeper::watch(shim, group);
        let helper = Helper { child, group };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((helper, stdin, stdout)),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What a helper says, line by line, as it comes: heard by a thread of this name until the
    /// helper ends. Lines that are nothing of the kind are passed over.
    pub(crate) fn answers<T>(stdout: ChildStdout, thread: &str) -> io::Result<Receiver<T>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (heard, answers) = channel();
        let listen = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line);
                if said.is_ok_and(|said| heard.send(said).is_err()) {
                    break;
                }
            }
        };
        let named = std::thread::Builder::new().name(thread.into());
        named.spawn(listen).map(|_| answers)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        keeper::forget(self.group);
    }
}
