//! An agent on another host, by the system's own ssh: its keys, its known hosts, its settings and jump hosts.
//!
//! ```text
//!  ssh DESTINATION 'exec sh -c …' ─┬─ the agent is there: it is run, and greets
//!                                  ├─ it is not: NEEDS ─► the binary is sent, kept, checked, run
//!                                  └─ a forced command of the host's: an agent greets at once
//! ```
//!
//! Nothing listens there, and nothing stays but the binary in the user's cache. What ssh said is in the error.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use wallfinder_protocol::{Answer, Ask, Frames, Greeting, Hello, VERSION, Welcome};
use wallfinder_testbed::programs;

use crate::channel::{Channel, HostError};

/// How long a host may take until its agent greets, its binary's way there not counted.
const GREETING_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long a binary may take to get there.
const COPY_WAIT_MAX: Duration = Duration::from_secs(120);
/// How long ssh may take to end when its input has.
const END_WAIT_MAX: Duration = Duration::from_secs(3);
/// What the far shell says where the binary is missing, followed by system and architecture.
const NEEDS: &str = "wallfinder-agent-needs:";
/// What it says where nothing can be done.
const FAILS: &str = "wallfinder-agent-fails:";
/// So much of what ssh and the far shell say is kept.
const SAID_BYTES_MAX: usize = 4 << 10;

/// Where an agent is wanted: `ssh://[user@]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}: a host is written as ssh://user@host, with :port where it is not 22"
            )
        };
        let rest = text
            .strip_prefix("ssh://")
            .ok_or_else(|| wrong("does not begin with ssh://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']').ok_or_else(|| wrong("has no `]`"))?;
                (host, rest.strip_prefix(':'))
            }
            None => match rest.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port
            .map(|port| port.parse().map_err(|_| wrong("has no such port")))
            .transpose()?;
        // Words that ssh would take for options, or a shell apart.
        let is_plain = |word: &str| {
            let plain = |c: char| c.is_alphanumeric() || "._:-%".contains(c);
            !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
        };
        if !is_plain(host) || user.as_deref().is_some_and(|user| !is_plain(user)) {
            return Err(wrong("names no host"));
        }
        Ok(Destination {
            user,
            host: host.to_owned(),
            port,
        })
    }
}

impl Destination {
    /// What the host is called in output.
    pub fn name(&self) -> &str {
        &self.host
    }
}

/// An agent that was started by ssh. Dropping it ends ssh, and with it the agent.
#[derive(Debug)]
pub struct Ssh {
    channel: Option<Arc<Channel>>,
    welcome: Welcome,
    process: Arc<Mutex<Child>>,
}

impl Ssh {
    /// Starts an agent there. `command` is how ssh is called: `ssh -F config`, say.
    pub fn start(
        destination: &Destination,
        command: &[String],
        controller: &str,
    ) -> Result<Ssh, HostError> {
        let failed = |why: String| HostError {
            host: destination.host.clone(),
            why,
        };
        let version = env!("CARGO_PKG_VERSION");
        let binary = std::fs::read("/proc/self/exe").map_err(|e| failed(e.to_string()))?;
        let binary = Arc::new(binary);
        let script = script(version, &binary);
        let mut child = spawned(destination, command, &script).map_err(&failed)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("ssh has no pipes".to_owned()));
        };
        let said = Arc::new(Mutex::new(String::new()));
        keep_said(stderr, Arc::clone(&said));
        let process = Arc::new(Mutex::new(child));
        let why = {
            let (said, process) = (Arc::clone(&said), Arc::clone(&process));
            move || why_it_ended(&process, &said)
        };
        let mut came = Came::of(stdout);
        let frames = match greeted(&mut came, &mut stdin, &binary) {
            Ok(frames) => frames,
            Err(NoAgent::Ended) => return Err(failed(why())),
            Err(NoAgent::Because(what)) => {
                end(&process);
                return Err(failed(what));
            }
        };
        let why_over = Box::new(why);
        let channel = Channel::open(destination.name(), came, frames, stdin, why_over)?;
        let hello = Hello {
            protocol: VERSION,
            version: version.to_owned(),
            controller: controller.to_owned(),
        };
        let welcome = match channel.call(Ask::Hello(hello))? {
            Answer::Welcome(welcome) => welcome,
            other => return Err(channel.strange(&other)),
        };
        if welcome.protocol != VERSION {
            end(&process);
            return Err(failed(format!(
                "the agent there is Wallfinder {} and speaks protocol {}, this is {version} with protocol {VERSION}: \
                 install the same version on both, or remove the one that a forced command names",
                welcome.version, welcome.protocol
            )));
        }
        let epoch = welcome.epoch;
        Ok(Ssh {
            channel: Some(channel.keep(epoch)?),
            welcome,
            process,
        })
    }

    /// The channel to it.
    pub fn channel(&self) -> Arc<Channel> {
        Arc::clone(
            self.channel
                .as_ref()
                .expect("it is there until it is dropped"),
        )
    }

    /// What it said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // Its end of input is the agent's.
        self.channel = None;
        end(&self.process);
    }
}

fn end(process: &Mutex<Child>) {
    let mut child = process.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    );
    let since = Instant::now();
    while since.elapsed() < END_WAIT_MAX {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn spawned(destination: &Destination, command: &[String], script: &str) -> Result<Child, String> {
    let (program, own) = command.split_first().ok_or("--ssh names no program")?;
    let program: PathBuf = programs::find(program).map_err(|error| error.to_string())?;
    let mut ssh = Command::new(program);
    ssh.args(own);
    // What the user has set counts first.
    ssh.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    ssh.args(["-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"]);
    if let Some(user) = &destination.user {
        ssh.args(["-l", user]);
    }
    if let Some(port) = destination.port {
        ssh.args(["-p", &port.to_string()]);
    }
    ssh.arg("--").arg(&destination.host);
    ssh.arg(format!("exec sh -c '{script}'"));
    // An interrupt of the terminal is for the controller, which ends the run in order.
    ssh.process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ssh could not be started: {error}"))
}

/// What the far shell runs. It holds no quote, line break or backslash, so that any login shell passes it on.
fn script(version: &str, binary: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, binary);
    let sum: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (name, bytes) = (format!("wallfinder-{version}-{}", &sum[..12]), binary.len());
    let folders = "\"$HOME/.cache/wallfinder\" \"/var/tmp/wallfinder-$(id -u)\" \"/dev/shm/wallfinder-$(id -u)\"";
    let find = format!(
        "f=; for d in {folders}; do b=\"$d/{name}\"; if [ -O \"$d\" ] && [ -x \"$b\" ] && \
         \"$b\" --version >/dev/null 2>&1; then f=\"$b\"; break; fi; done"
    );
    let copy = format!(
        "if [ -z \"$f\" ]; then echo \"{NEEDS}$(uname -s):$(uname -m):\"; for d in {folders}; do \
         mkdir -p \"$d\" 2>/dev/null && chmod 700 \"$d\" && [ -O \"$d\" ] && [ ! -L \"$d\" ] || continue; \
         t=\"$d/.{name}.$$\"; cp /bin/true \"$t\" 2>/dev/null && \"$t\" 2>/dev/null || {{ rm -f \"$t\"; continue; }}; \
         rm -f \"$t\"; head -c {bytes} > \"$t\" || break; chmod 700 \"$t\"; \
         case \"$(sha256sum < \"$t\")\" in {sum}*) mv -f \"$t\" \"$d/{name}\" && f=\"$d/{name}\";; *) rm -f \"$t\";; esac; \
         break; done; fi"
    );
    let run = format!(
        "if [ -z \"$f\" ]; then echo \"{FAILS}\"; exit 1; fi; \
         if [ \"$(id -u)\" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n \"$f\" agent --stdio; fi; \
         exec \"$f\" agent --stdio"
    );
    format!("{find}; {copy}; {run}")
}

/// Bytes as they come from ssh, by a thread of its own, so that they can be waited for with a limit.
struct Came {
    chunks: Receiver<Vec<u8>>,
    left: Vec<u8>,
}

impl Came {
    fn of(mut stdout: ChildStdout) -> Came {
        let (tell, chunks) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(read) = stdout.read(&mut bytes)
                && read > 0
                && tell.send(bytes[..read].to_vec()).is_ok()
            {}
        });
        Came {
            chunks,
            left: Vec::new(),
        }
    }
}

impl Read for Came {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left.is_empty() {
            // Its end is the end of the input.
            self.left = self.chunks.recv().unwrap_or_default();
        }
        let read = self.left.len().min(into.len());
        into[..read].copy_from_slice(&self.left[..read]);
        self.left.drain(..read);
        Ok(read)
    }
}

/// Why there is no agent.
enum NoAgent {
    /// ssh ended: it has said why.
    Ended,
    Because(String),
}

/// Waits for the greeting; sends the binary where it is missing.
fn greeted(came: &mut Came, stdin: &mut impl Write, binary: &[u8]) -> Result<Frames, NoAgent> {
    let mut greeting = Greeting::default();
    let mut until = Instant::now() + GREETING_WAIT_MAX;
    let mut is_sent = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let chunk = match came.chunks.recv_timeout(left) {
            Ok(chunk) => chunk,
            Err(RecvTimeoutError::Disconnected) => return Err(NoAgent::Ended),
            Err(RecvTimeoutError::Timeout) => {
                return Err(NoAgent::Because(
                    "no agent answered in time; what its login shell runs may wait for somebody"
                        .to_owned(),
                ));
            }
        };
        match greeting.push(&chunk) {
            Ok(Some(frames)) => return Ok(frames),
            Ok(None) => {}
            Err(error) => return Err(NoAgent::Because(error.to_string())),
        }
        let before = greeting.before();
        if before.contains(FAILS) {
            return Err(NoAgent::Because(
                "the agent could not be put there: its disk is full, or it may not run programs from \
                 ~/.cache/wallfinder, /var/tmp or /dev/shm; install Wallfinder there, and name it in a forced command"
                    .to_owned(),
            ));
        }
        let needs = before
            .split_once(NEEDS)
            .and_then(|(_, needs)| needs.split_once('\n'));
        if let (Some((needs, _)), false) = (needs, is_sent) {
            fits(needs).map_err(NoAgent::Because)?;
            tracing::info!(bytes = binary.len(), "the agent's binary is sent");
            is_sent = true;
            until = Instant::now() + COPY_WAIT_MAX;
            // That it went nowhere is told by what comes next.
            let _ = stdin.write_all(binary).and_then(|()| stdin.flush());
        }
    }
}

/// Whether this binary runs on such a host: `Linux:x86_64:`.
fn fits(needs: &str) -> Result<(), String> {
    let mut parts = needs.split(':');
    let (system, machine) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let own = std::env::consts::ARCH;
    match (system, machine) {
        ("Linux", machine) if machine == own => Ok(()),
        _ => Err(format!(
            "it is {system} on {machine}, and this binary is for Linux on {own}: build and install Wallfinder there, \
             and name it in a forced command of its authorized_keys"
        )),
    }
}

fn keep_said(mut stderr: impl Read + Send + 'static, said: Arc<Mutex<String>>) {
    thread::spawn(move || {
        let mut bytes = [0; 1_024];
        while let Ok(read) = stderr.read(&mut bytes)
            && read > 0
        {
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() < SAID_BYTES_MAX {
                said.push_str(&text);
            }
        }
    });
}

/// ssh's own last words, in one line, and how it ended.
fn why_it_ended(process: &Mutex<Child>, said: &Mutex<String>) -> String {
    let status = {
        let mut child = process.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(None) if since.elapsed() < END_WAIT_MAX => {
                    thread::sleep(Duration::from_millis(10))
                }
                Ok(Some(status)) => break Some(status),
                _ => break None,
            }
        }
    };
    // Its last words may still be under way.
    thread::sleep(Duration::from_millis(50));
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    // A banner of alarm stands before what it is about.
    let is_frame = |line: &&str| !line.chars().all(|c| c == '@');
    let lines: Vec<&str> = lines.filter(is_frame).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    let how = status.map_or("ssh did not end".to_owned(), |status| {
        format!("ssh ended with {status}")
    });
    match last.as_str() {
        "" => how,
        last => format!("{how}: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_as_urls() {
        let destination: Destination = "ssh://root@db1:2222".parse().unwrap();
        assert_eq!(
            (
                destination.user.as_deref(),
                destination.name(),
                destination.port
            ),
            (Some("root"), "db1", Some(2222))
        );
        let v6: Destination = "ssh://[fe80::1]:22".parse().unwrap();
        assert_eq!((v6.name(), v6.port), ("fe80::1", Some(22)));
        let plain: Destination = "ssh://db1/".parse().unwrap();
        assert_eq!((plain.user, plain.port), (None, None));
        for wrong in [
            "db1",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://a'b",
            "ssh://-l@db1",
            "ssh://db1:no",
            "ssh://[fe80::1",
        ] {
            let why = wrong.parse::<Destination>().unwrap_err();
            assert!(why.contains("ssh://user@host"), "{why}");
        }
    }

    #[test]
    fn any_login_shell_passes_the_script_on() {
        let script = script("0.1.0", b"binary");
        assert!(!script.contains(['\'', '\n', '\\']), "{script}");
    }

    #[test]
    fn another_machine_is_refused_with_the_way_out() {
        let own = std::env::consts::ARCH;
        assert_eq!(fits(&format!("Linux:{own}:")), Ok(()));
        for other in ["Linux:riscv64:", "FreeBSD:amd64:", ""] {
            assert!(fits(other).unwrap_err().contains("forced command"));
        }
    }
}
