//! An agent on another host, by the system's own ssh: its keys, its known hosts, its settings and jump hosts.
//!
//! ```text
//!  ssh DESTINATION 'exec sh -c …' ─┬─ the agent is there: it is run, and greets
//!                                  ├─ it is not: NEEDS ─► the binary is sent, kept, checked, run
//!                                  └─ a forced command of the host's: an agent greets at once
//! ```
//!
//! Programs of servers that the agent is to start ([`Allowed`]) go the same way. Who calls has the shell there, and
//! could start them by hand; a forced command has a list of its own, and none of this is heard.
//!
//! Nothing listens there, and nothing stays but these files in the user's cache. What ssh said is in the error.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use wallfinder_protocol::{Frames, Greeting};
use wallfinder_testbed::programs;

use crate::{Agent, HostError, Kept, Way};

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

/// A server that the agent is allowed to start, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// What it is asked for by.
    pub name: String,
    /// Variables of its environment, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Its program.
    pub program: Program,
    /// What the program is given.
    pub arguments: Vec<String>,
}

/// Where a program comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This file, which is sent where the host has none like it.
    Sent(PathBuf),
    /// What is called so there.
    There(String),
}

/// A file for the cache there.
struct Sent {
    /// With its checksum.
    name: String,
    bytes: Vec<u8>,
    sum: String,
}

impl Sent {
    fn of(name: &str, path: &Path) -> Result<Sent, String> {
        let bytes = std::fs::read(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let sum: String = digits.collect();
        let name = format!("{name}-{}", &sum[..12]);
        Ok(Sent { name, bytes, sum })
    }
}

/// ssh, whose end is the agent's.
struct Ssh(Arc<Mutex<Child>>);

impl Kept for Ssh {}

impl Drop for Ssh {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Starts an agent there that may start these servers. `command` is how ssh is called: `ssh -F config`, say. Dropping
/// the agent ends ssh, and with it the agent there.
pub fn start(
    destination: &Destination,
    command: &[String],
    controller: &str,
    servers: &[Allowed],
) -> Result<Agent, HostError> {
    let failed = |why: String| HostError {
        host: destination.host.clone(),
        why,
    };
    let own = format!("wallfinder-{}", env!("CARGO_PKG_VERSION"));
    let own = Sent::of(&own, Path::new("/proc/self/exe")).map_err(&failed)?;
    let (files, allowed) = beside(own, servers).map_err(&failed)?;
    let script = script(&files, &allowed);
    let mut child = spawned(destination, command, &script).map_err(&failed)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed("ssh has no pipes".to_owned()));
    };
    let said = Arc::new(Mutex::new(String::new()));
    keep_said(stderr, Arc::clone(&said));
    let process = Arc::new(Mutex::new(child));
    let kept = Box::new(Ssh(Arc::clone(&process)));
    let why = move || why_it_ended(&process, &said);
    let mut came = Came::of(stdout);
    let frames = match greeted(&mut came, &mut stdin, &files) {
        Ok(frames) => frames,
        Err(NoAgent::Ended) => return Err(failed(why())),
        Err(NoAgent::Because(what)) => return Err(failed(what)),
    };
    let name = destination.name();
    let way = Way {
        kept,
        why_over: Box::new(why),
        away: None,
    };
    Agent::greeted(name, controller, (came, frames), stdin, way)
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

/// The files that are wanted there, the agent's own the first, and what it is told of servers: `NAME=COMMAND`, where
/// `$s1` stands for the second file.
fn beside(own: Sent, servers: &[Allowed]) -> Result<(Vec<Sent>, Vec<String>), String> {
    let mut files = vec![own];
    let mut paths: Vec<&Path> = Vec::new();
    let mut told = Vec::new();
    for server in servers {
        let program = match &server.program {
            Program::There(name) => plain(name)?.to_owned(),
            Program::Sent(path) => {
                let known = paths.iter().position(|known| known == path);
                let nth = match known {
                    Some(nth) => nth,
                    None => {
                        let name = path.file_name().and_then(|name| name.to_str());
                        files.push(Sent::of(plain(name.unwrap_or(""))?, path)?);
                        paths.push(path);
                        paths.len() - 1
                    }
                };
                format!("$s{}", nth + 1)
            }
        };
        let words = |words: &[String]| -> Result<String, String> {
            words.iter().try_fold(String::new(), |mut all, word| {
                all.push_str(plain(word)?);
                all.push(' ');
                Ok(all)
            })
        };
        let (env, arguments) = (words(&server.env)?, words(&server.arguments)?);
        let command = format!("{env}{program} {arguments}");
        told.push(format!("{}={}", plain(&server.name)?, command.trim_end()));
    }
    Ok((files, told))
}

/// A word that any shell passes on as it is.
fn plain(word: &str) -> Result<&str, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/=,+@%-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Ok(word),
        false => Err(format!(
            "`{word}` does not pass through the shells of another host: write a script there, and allow that by \
             name with a forced command of its authorized_keys, `wallfinder agent --stdio --subject NAME=SCRIPT`"
        )),
    }
}

/// What the far shell runs. It holds no quote, line break or backslash, so that any login shell passes it on.
fn script(files: &[Sent], servers: &[String]) -> String {
    let folders = "\"$HOME/.cache/wallfinder\" \"/var/tmp/wallfinder-$(id -u)\" \"/dev/shm/wallfinder-$(id -u)\"";
    // Name, bytes, checksum, number.
    let get = format!(
        "get() {{ g=; for d in {folders}; do b=\"$d/$1\"; \
         [ ! -L \"$d\" ] && [ -O \"$d\" ] && [ -x \"$b\" ] || continue; \
         case \"$(sha256sum < \"$b\" 2>/dev/null)\" in \"$3\"*) ;; *) continue;; esac; \
         if [ \"$4\" != 0 ] || \"$b\" --version >/dev/null 2>&1; then g=\"$b\"; return; fi; done; \
         echo \"{NEEDS}$4:$(uname -s):$(uname -m):\"; for d in {folders}; do \
         mkdir -p \"$d\" 2>/dev/null && chmod 700 \"$d\" && [ -O \"$d\" ] && [ ! -L \"$d\" ] || continue; \
         t=\"$d/.$1.$$\"; cp /bin/true \"$t\" 2>/dev/null && \"$t\" 2>/dev/null || {{ rm -f \"$t\"; continue; }}; \
         rm -f \"$t\"; head -c \"$2\" > \"$t\" || return; chmod 700 \"$t\"; \
         case \"$(sha256sum < \"$t\")\" in \"$3\"*) mv -f \"$t\" \"$d/$1\" && g=\"$d/$1\";; *) rm -f \"$t\";; esac; \
         return; done; }}"
    );
    let mut script = get;
    for (nth, Sent { name, bytes, sum }) in files.iter().enumerate() {
        let bytes = bytes.len();
        script.push_str(&format!(
            "; get {name} {bytes} {sum} {nth}; s{nth}=\"$g\"; if [ -z \"$g\" ]; then echo \"{FAILS}\"; exit 1; fi"
        ));
    }
    script.push_str("; set -- agent --stdio");
    for server in servers {
        script.push_str(&format!(" --subject \"{server}\""));
    }
    script.push_str(
        "; if [ \"$(id -u)\" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n \"$s0\" \"$@\"; fi; \
         exec \"$s0\" \"$@\"",
    );
    script
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

/// Waits for the greeting; sends the files that are missing.
fn greeted(came: &mut Came, stdin: &mut impl Write, files: &[Sent]) -> Result<Frames, NoAgent> {
    let mut greeting = Greeting::default();
    let mut until = Instant::now() + GREETING_WAIT_MAX;
    let mut sent = 0;
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
                "the agent, or a server that it is to start, could not be put there: its disk is full, or it may not run programs from \
                 ~/.cache/wallfinder, /var/tmp or /dev/shm; install Wallfinder there, and name it in a forced command"
                    .to_owned(),
            ));
        }
        let asked = before.split(NEEDS).skip(1);
        let asked = asked.filter_map(|rest| rest.split_once('\n'));
        for (needs, _) in asked.skip(sent) {
            let file = wanted(needs, files).map_err(NoAgent::Because)?;
            tracing::info!(file = file.name, bytes = file.bytes.len(), "a file is sent");
            sent += 1;
            until = Instant::now() + COPY_WAIT_MAX;
            // That it went nowhere is told by what comes next.
            let _ = stdin.write_all(&file.bytes).and_then(|()| stdin.flush());
        }
    }
}

/// The file that is asked for, where it runs on such a host: `0:Linux:x86_64:`.
fn wanted<'f>(needs: &str, files: &'f [Sent]) -> Result<&'f Sent, String> {
    let mut parts = needs.split(':');
    let mut part = || parts.next().unwrap_or("");
    let (nth, system, machine) = (part(), part(), part());
    let own = std::env::consts::ARCH;
    let file = nth.parse::<usize>().ok().and_then(|nth| files.get(nth));
    match (file, system, machine) {
        (Some(file), "Linux", machine) if machine == own => Ok(file),
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

    fn sent(name: &str) -> Sent {
        Sent {
            name: name.to_owned(),
            bytes: b"binary".to_vec(),
            sum: "00".repeat(32),
        }
    }

    #[test]
    fn any_login_shell_passes_the_script_on() {
        let script = script(&[sent("wallfinder-0")], &["a=$s1 --port 80".to_owned()]);
        assert!(!script.contains(['\'', '\n', '\\']), "{script}");
    }

    /// What the far shell says whose user has this home, and no other folder for the cache.
    fn said_at(home: &Path, file: Sent) -> String {
        let folder = home.to_str().expect("a plain path");
        let script = script(&[file], &[]).replace("/var/tmp", folder);
        let shell = Command::new("sh")
            .args(["-c", &script.replace("/dev/shm", folder)])
            .env("HOME", home)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        String::from_utf8_lossy(&shell.expect("a shell").stdout).into_owned()
    }

    /// A home with this as its cache, in which a program is that says that it runs.
    fn home_with(name: &str, cache: &str) -> (PathBuf, Sent) {
        use std::os::unix::fs::PermissionsExt;

        let home = std::env::temp_dir().join(format!("wf-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(home.join(".cache")).expect("a folder");
        let folder = home.join(cache);
        std::fs::create_dir_all(&folder).expect("a folder");
        let program = home.join("program");
        std::fs::write(&program, "#!/bin/sh\necho it runs\n").expect("a file");
        let file = Sent::of("tool", &program).expect("it is there");
        let kept = folder.join(&file.name);
        std::fs::copy(&program, &kept).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&kept, mode).expect("a file of ours");
        (home, file)
    }

    #[test]
    fn what_is_in_the_cache_is_run_where_it_is_what_was_put_there() {
        let (home, file) = home_with("cache", ".cache/wallfinder");
        let kept = home.join(".cache/wallfinder").join(&file.name);
        assert_eq!(said_at(&home, file), "it runs\n");
        let file = Sent::of("tool", &home.join("program")).expect("it is there");
        std::fs::write(&kept, "#!/bin/sh\necho another runs\n").expect("a file of ours");
        let said = said_at(&home, file);
        assert!(said.starts_with(NEEDS) && said.contains(FAILS), "{said}");
        std::fs::remove_dir_all(&home).expect("a folder of ours");
    }

    #[test]
    fn a_cache_behind_a_link_is_not_looked_into() {
        let (home, file) = home_with("linked-cache", "elsewhere");
        let link = home.join(".cache/wallfinder");
        std::os::unix::fs::symlink(home.join("elsewhere"), link).expect("a link");
        let said = said_at(&home, file);
        assert!(said.starts_with(NEEDS) && said.contains(FAILS), "{said}");
        std::fs::remove_dir_all(&home).expect("a folder of ours");
    }

    #[test]
    fn a_program_of_several_servers_is_sent_once_and_words_that_a_shell_would_read_are_refused() {
        let server = |name: &str, argument: &str| Allowed {
            name: name.to_owned(),
            env: vec!["GOGC=off".to_owned()],
            program: Program::Sent("/proc/self/exe".into()),
            arguments: vec!["--port".to_owned(), argument.to_owned()],
        };
        let named = Allowed {
            env: Vec::new(),
            program: Program::There("nginx".to_owned()),
            arguments: Vec::new(),
            ..server("web", "")
        };
        let servers = [server("one", "1"), named, server("two", "2")];
        let (files, told) = beside(sent("own"), &servers).unwrap();
        assert_eq!(files.len(), 2);
        assert!(files[1].name.starts_with("exe-"));
        let expected = [
            "one=GOGC=off $s1 --port 1",
            "web=nginx",
            "two=GOGC=off $s1 --port 2",
        ];
        assert_eq!(told, expected);
        for wrong in ["a b", "$HOME", "`id`", "'", "\"", ";", "a\nb", ""] {
            let why = beside(sent("own"), &[server("one", wrong)]).map(drop);
            assert!(why.unwrap_err().contains("forced command"), "{wrong}");
        }
    }

    #[test]
    fn another_machine_is_refused_with_the_way_out() {
        let (own, files) = (std::env::consts::ARCH, [sent("wallfinder-0")]);
        assert!(wanted(&format!("0:Linux:{own}:"), &files).is_ok());
        for other in ["0:Linux:riscv64:", "0:FreeBSD:amd64:", ""] {
            let why = wanted(other, &files).map(drop).unwrap_err();
            assert!(why.contains("forced command"));
        }
    }
}
