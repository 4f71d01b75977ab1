//! A server under load, started for the experiment and gone after it.
//!
//! A built-in subject says when it listens, with one line of JSON on standard output:
//! `{"listening":"127.0.0.1:8083","pid":4711,…}`. Any other server is ready when a socket
//! of its network namespace listens on the port in question, as `/proc/<pid>/net/tcp` has
//! it; nothing connects to it before the load does.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::child::{Child, ChildSpec, Ended, Keep, Place, RunAs, Shim, SpawnError, Stray};
use crate::command::{CommandError, CommandLine};
use crate::cpu_stealer::shown_cpus;
use crate::iproute;
use crate::programs;

/// How much of what a subject says is kept.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How often readiness is looked at.
const POLL: Duration = Duration::from_millis(5);
/// How long a server that listens on its port is looked at before it counts as ready.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a `--version` may take.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(2);

/// Which server to start, and how.
#[derive(Debug, Clone)]
pub struct SubjectSpec {
    /// The command, as in a shell: `catalogue --prefork`, `nginx -c bench.conf`.
    pub command: String,
    /// Processors it may run on; empty: those of this process.
    pub cpus: Vec<u32>,
    /// Network namespace and control groups; by default those of this process.
    pub place: Place,
    /// As whom it runs, and what it is told of our environment.
    pub run_as: RunAs,
    /// More of its environment.
    pub env: Vec<(String, String)>,
    /// How long it may take until it listens.
    pub listen_timeout: Duration,
    /// The port on which it should listen: that of the URL.
    pub expect_port: Option<u16>,
    /// How long it may take to end after SIGTERM, before SIGKILL.
    pub grace: Duration,
    /// What turns itself into the child.
    pub shim: Shim,
}

impl SubjectSpec {
    /// A command with ten seconds to listen and three to end.
    pub fn new(command: impl Into<String>) -> SubjectSpec {
        SubjectSpec {
            command: command.into(),
            cpus: Vec::new(),
            place: Place::default(),
            run_as: RunAs::default(),
            env: Vec::new(),
            listen_timeout: Duration::from_secs(10),
            expect_port: None,
            grace: Duration::from_secs(3),
            shim: Shim::of_this_process(),
        }
    }
}

/// What a built-in subject says of itself when it listens.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Announcement {
    /// `host:port`, with the real port.
    pub listening: String,
    /// The process to signal.
    #[serde(default)]
    pub pid: u32,
    /// What serves: `fiber`.
    #[serde(default)]
    pub server: Option<String>,
    /// Processes that serve in its stead.
    #[serde(default)]
    pub children: Vec<u32>,
    /// Processors that Go's runtime uses at once, in each process that serves.
    #[serde(default)]
    pub gomaxprocs: Option<u32>,
    /// Where each process offers profiles.
    #[serde(default)]
    pub pprof: Vec<String>,
    /// What it is built from.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// Why there is no subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectError {
    /// The command cannot be run.
    Command(CommandError),
    /// The system would not start it.
    Spawn(SpawnError),
    /// Somebody listens on the port already.
    PortTaken {
        /// The port.
        port: u16,
    },
    /// It ended before it listened.
    EndedEarly {
        /// The program.
        program: String,
        /// How.
        ended: Ended,
        /// The end of what it said on standard error.
        stderr: String,
        /// The user that it ran as, where that is not ours.
        user: Option<String>,
    },
    /// It went on in the background when its first process had ended.
    InBackground(InBackground),
    /// It did not listen in time.
    NotListening {
        /// The program.
        program: String,
        /// The port waited for.
        port: Option<u16>,
        /// How long was waited.
        waited: Duration,
        /// The end of what it said on standard error.
        stderr: String,
    },
    /// It listens on another port than the URL names.
    OtherPort {
        /// Where it listens.
        listening: String,
        /// The port expected.
        port: u16,
    },
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubjectError::Command(error) => error.fmt(f),
            SubjectError::Spawn(error) => error.fmt(f),
            SubjectError::PortTaken { port } => write!(
                f,
                "port {port} is taken already; stop who listens there, or choose another port"
            ),
            SubjectError::EndedEarly {
                program,
                ended,
                stderr,
                user,
            } => {
                write!(
                    f,
                    "the subject `{program}` ended before it listened, with {ended}"
                )?;
                said(f, stderr)?;
                match user {
                    Some(user) => write!(
                        f,
                        "\n  It ran as `{user}`; --as USER runs it as another user, --as root as root"
                    ),
                    None => Ok(()),
                }
            }
            SubjectError::InBackground(went) => went.fmt(f),
            SubjectError::NotListening {
                program,
                port,
                waited,
                stderr,
            } => {
                write!(f, "the subject `{program}` did not ")?;
                match port {
                    Some(port) => write!(f, "listen on port {port}")?,
                    None => f.write_str("say where it listens, and no port was named,")?,
                }
                write!(
                    f,
                    " within {:.1} s; it must run in the foreground",
                    waited.as_secs_f64()
                )?;
                said(f, stderr)
            }
            SubjectError::OtherPort { listening, port } => write!(
                f,
                "the subject listens on {listening}, not on port {port}; make the URL and the \
                 subject's command agree"
            ),
        }
    }
}

impl std::error::Error for SubjectError {}

fn said(f: &mut fmt::Formatter<'_>, stderr: &str) -> fmt::Result {
    let stderr = stderr.trim_end();
    if stderr.is_empty() {
        return f.write_str(". It said nothing");
    }
    f.write_str(". It said:")?;
    for line in stderr.lines() {
        write!(f, "\n    {line}")?;
    }
    Ok(())
}

/// A subject whose first process ended while others that it started went on: a daemon. They were
/// ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InBackground {
    program: String,
    ended: Ended,
    left: Vec<Stray>,
}

/// How well-known servers are kept in the foreground.
const IN_FOREGROUND: &[(&str, &str)] = &[
    ("nginx", "add `-g 'daemon off;'`"),
    ("haproxy", "leave out -D, and `daemon` in its configuration"),
    ("gunicorn", "leave out --daemon"),
    ("uwsgi", "leave out --daemonize"),
    ("apache2", "add -DFOREGROUND"),
    ("httpd", "add -DFOREGROUND"),
    ("lighttpd", "add -D"),
    ("php-fpm", "add --nodaemonize"),
    ("redis-server", "add `--daemonize no`"),
    ("memcached", "leave out -d"),
    ("varnishd", "add -F"),
];

impl InBackground {
    /// What keeps it in the foreground, by the names that are known of it.
    fn way_out(&self) -> &'static str {
        let names = || {
            let left = self.left.iter().map(|stray| stray.name.as_str());
            left.chain(self.program.rsplit('/').next())
        };
        let known = IN_FOREGROUND.iter();
        let mut known = known.filter(|(server, _)| names().any(|name| name == *server));
        known.next().map_or(
            "leave out what makes it a daemon; a script ends with `exec SERVER`, or with `wait`",
            |(_, way_out)| way_out,
        )
    }
}

impl fmt::Display for InBackground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Processes that are named, at the most.
        const SHOWN_MAX: usize = 5;
        let mut names: Vec<String> = self.left.iter().map(Stray::to_string).collect();
        let more = names.len().saturating_sub(SHOWN_MAX);
        names.truncate(SHOWN_MAX);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        write!(
            f,
            "the subject `{}` went into the background: its first process ended with {} and left {}{more} \
             running, which were ended too. A subject has to run in the foreground: {}",
            self.program,
            self.ended,
            names.join(", "),
            self.way_out()
        )
    }
}

/// A subject that listens. Dropping it ends all that it started.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    named: String,
    program: PathBuf,
    address: String,
    announced: Option<Announcement>,
    version: Option<String>,
    grace: Duration,
}

impl Subject {
    /// Starts a server and waits until it listens.
    pub fn start(spec: SubjectSpec) -> Result<Subject, SubjectError> {
        let line = CommandLine::parse(&spec.command).map_err(SubjectError::Command)?;
        let program = programs::find_subject(&line.program).map_err(SubjectError::Command)?;
        if let Some(port) = spec.expect_port
            && is_taken(&spec.place, port)
        {
            return Err(SubjectError::PortTaken { port });
        }
        let mut env = line.env;
        env.extend(spec.env.iter().cloned());
        env.push(("WALLFINDER_SUBJECT".into(), "1".into()));
        let child = Child::start(ChildSpec {
            shim: &spec.shim,
            program: &program.path,
            args: &line.args,
            env: &env,
            cpus: &spec.cpus,
            place: &spec.place,
            run_as: &spec.run_as,
            stdin: None,
            stdout: Keep::Head(OUTPUT_BYTES_MAX),
            stderr: Keep::Tail(OUTPUT_BYTES_MAX),
        })
        .map_err(SubjectError::Spawn)?;
        // A built-in subject may listen a moment before it is ready, and says when it is.
        let wait_for = spec.expect_port.filter(|_| program.built_in.is_none());
        let ready = wait_until_ready(child, &line.program, wait_for, &spec)?;
        let (child, address, announced) = ready;
        if let (Some(announced), Some(port)) = (&announced, spec.expect_port)
            && port_of(&announced.listening) != Some(port)
        {
            return Err(SubjectError::OtherPort {
                listening: announced.listening.clone(),
                port,
            });
        }
        let version = announced
            .as_ref()
            .and_then(version_announced)
            .or_else(|| version_asked(&spec, &program.path, &env));
        tracing::info!(
            program = %program.path.display(),
            pid = child.pid(),
            %address,
            says_so = announced.is_some(),
            cpus = %shown_cpus(&spec.cpus),
            "subject listens"
        );
        Ok(Subject {
            child,
            named: line.program,
            program: program.path,
            address,
            announced,
            version,
            grace: spec.grace,
        })
    }

    /// The process that was started; its group has the same id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Its executable.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where it listens, `host:port`: as it says, or the port on loopback.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it said of itself, if it is one that does.
    pub fn announced(&self) -> Option<&Announcement> {
        self.announced.as_ref()
    }

    /// Its version in one line, where it is known.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// How it ended, if it is no longer there.
    pub fn exited(&self) -> Option<Ended> {
        self.child.exited()
    }

    /// Whether it went into the background, since it listened: it is no more, then.
    pub fn in_background(&self) -> Option<InBackground> {
        in_background(&self.child, &self.named)
    }

    /// The end of what it said on standard error.
    pub fn stderr(&self) -> String {
        self.child.stderr.text()
    }

    /// Ends it: SIGTERM for its group, and after the grace SIGKILL for all that it started.
    pub fn stop(mut self) -> Ended {
        self.end()
    }

    fn end(&mut self) -> Ended {
        let by_itself = self.child.exited().is_some();
        let ended = self.child.stop(self.grace);
        tracing::debug!(program = %self.named, by_itself, %ended, "subject is gone");
        ended
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.end();
    }
}

type Ready = (Child, String, Option<Announcement>);

fn wait_until_ready(
    mut child: Child,
    program: &str,
    port: Option<u16>,
    spec: &SubjectSpec,
) -> Result<Ready, SubjectError> {
    let since = Instant::now();
    let net = PathBuf::from(format!("/proc/{}/net", child.pid()));
    let mut seen_bytes = 0;
    loop {
        let said_bytes = child.stdout.len();
        if said_bytes > seen_bytes {
            seen_bytes = said_bytes;
            if let Some(announced) = announcement(&child.stdout.bytes()) {
                return Ok((child, announced.listening.clone(), Some(announced)));
            }
        }
        if let Some(went) = in_background(&child, program) {
            return Err(SubjectError::InBackground(went));
        }
        if let Some(ended) = child.exited() {
            child.stop(Duration::ZERO);
            return Err(SubjectError::EndedEarly {
                program: program.to_owned(),
                ended,
                stderr: child.stderr.text(),
                user: spec.run_as.user().map(|user| user.name.clone()),
            });
        }
        if let Some(port) = port
            && listens(&net, port)
        {
            // A daemon may listen before its first process ends.
            std::thread::sleep(SETTLE);
            if child.exited().is_none() {
                return Ok((child, format!("127.0.0.1:{port}"), None));
            }
            continue;
        }
        if since.elapsed() >= spec.listen_timeout {
            child.stop(spec.grace);
            return Err(SubjectError::NotListening {
                program: program.to_owned(),
                port: spec.expect_port,
                waited: spec.listen_timeout,
                stderr: child.stderr.text(),
            });
        }
        std::thread::sleep(POLL);
    }
}

fn in_background(child: &Child, program: &str) -> Option<InBackground> {
    let ended = child.exited()?;
    let left = child.left_behind();
    (!left.is_empty()).then(|| InBackground {
        program: program.to_owned(),
        ended,
        left,
    })
}

/// The first whole line that announces a subject.
fn announcement(stdout: &[u8]) -> Option<Announcement> {
    let whole = stdout.iter().rposition(|byte| *byte == b'\n')?;
    stdout[..whole]
        .split(|byte| *byte == b'\n')
        .find_map(|line| serde_json::from_slice(line).ok())
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

fn version_announced(announced: &Announcement) -> Option<String> {
    if announced.versions.is_empty() {
        return None;
    }
    let versions = announced.versions.iter();
    let versions: Vec<String> = versions.map(|(name, v)| format!("{name} {v}")).collect();
    Some(versions.join(", "))
}

/// How well-known servers are asked for their version. Others are not asked: an unknown
/// program may take the question for a reason to serve.
const VERSION_FLAGS: &[(&str, &str)] = &[
    ("caddy", "version"),
    ("catalogue", "--version"),
    ("content", "--version"),
    ("envoy", "--version"),
    ("haproxy", "-v"),
    ("httpd", "-v"),
    ("apache2", "-v"),
    ("lighttpd", "-v"),
    ("nghttpd", "--version"),
    ("nginx", "-v"),
    ("node", "--version"),
    ("python3", "--version"),
    ("redis-server", "--version"),
];

fn version_asked(spec: &SubjectSpec, program: &Path, env: &[(String, String)]) -> Option<String> {
    let name = program.file_name()?.to_str()?;
    let (_, flag) = VERSION_FLAGS.iter().find(|(known, _)| *known == name)?;
    let args = [(*flag).to_owned()];
    let (shim, run_as) = (&spec.shim, &spec.run_as);
    crate::child::version(shim, program, &args, env, run_as, VERSION_WAIT_MAX)
}

/// Whether somebody listens on the port where the subject is to run. A namespace that cannot
/// be entered is the child's to complain of.
fn is_taken(place: &Place, port: u16) -> bool {
    let look = || Ok(listens(Path::new("/proc/thread-self/net"), port));
    iproute::inside(place.netns.as_deref(), look).unwrap_or(false)
}

/// Whether a socket of a network namespace listens on a TCP port, of either family.
fn listens(net: &Path, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let mut bytes = Vec::new();
        // A machine with a million sockets has a table of 150 MB.
        let read = std::fs::File::open(net.join(table))
            .and_then(|file| file.take(256 << 20).read_to_end(&mut bytes));
        read.is_ok() && listening_ports(&bytes).any(|listening| listening == port)
    })
}

/// Local ports of sockets in state LISTEN (0A), from `/proc/net/tcp`, proc_net_tcp.txt:
/// `  0: 0100007F:1F93 00000000:0000 0A …`.
fn listening_ports(table: &[u8]) -> impl Iterator<Item = u16> {
    table
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
            let (_, port) = fields.nth(1)?.rsplit_once(':')?;
            let state = fields.nth(1)?;
            (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count() {
        let table = include_bytes!("../testdata/proc_net_tcp");
        let ports: Vec<u16> = listening_ports(table).collect();
        assert_eq!(ports, [8083, 443]);
        for bad in [&b""[..], b"\n\n", b"x\n 0: y z 0A", b"x\n 0: 00:G0 0:0 0A"] {
            assert_eq!(listening_ports(bad).count(), 0);
        }
    }

    #[test]
    fn the_announcement_is_found_among_other_lines() {
        let said =
            b"starting\n{\"a\":1}\n{\"listening\":\"127.0.0.1:8083\",\"pid\":7,\"more\":[]}\nx";
        let announced = announcement(said).expect("there");
        assert_eq!(
            (announced.listening.as_str(), announced.pid),
            ("127.0.0.1:8083", 7)
        );
        assert_eq!(announcement(b"{\"listening\":\"torn"), None);
        assert_eq!(
            announcement(b"{\"listening\":\"a:1\"}"),
            None,
            "not whole yet"
        );
    }
}
