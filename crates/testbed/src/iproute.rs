//! `ip` and `tc`, run for one small change or one look, in a network namespace.
//!
//! Each holds the journal's lock while it runs: whoever undoes our changes after we were
//! killed then waits for the one that was under way.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wallfinder_sys::namespace::Netns;
use wallfinder_sys::programs;

use crate::error::TestbedError;

/// How long one may take on a machine that is busy.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How much of what one says is read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The name of a network interface, as the kernel allows them, in ASCII; never an option of `ip` or
/// `tc`, nor two words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct InterfaceName(String);

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(name: &str) -> Result<InterfaceName, String> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':');
        let is_name = (1..16).contains(&name.len())
            && !name.starts_with('-')
            && ![".", ".."].contains(&name)
            && name.bytes().all(is_plain);
        match is_name {
            true => Ok(InterfaceName(name.to_owned())),
            false => Err(format!("`{}` is no interface's name", name.escape_debug())),
        }
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = String;

    fn try_from(name: String) -> Result<InterfaceName, String> {
        name.parse()
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> String {
        name.0
    }
}

impl Deref for InterfaceName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs `act` in the network namespace that a path names; for `None` right here.
pub(crate) fn inside<T: Send>(
    netns: Option<&Path>,
    act: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    let open = |path: &Path| {
        Netns::open(path).map_err(|e| TestbedError::at("enter the network namespace", path, &e))
    };
    within(netns.map(open).transpose()?.as_ref(), act)
}

/// Runs `act` in a network namespace that is held open, on a thread of its own; for `None` right
/// here.
pub(crate) fn within<T: Send>(
    netns: Option<&Netns>,
    act: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    let Some(netns) = netns else {
        return act();
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("wf-netns".into());
        let thread = thread.spawn_scoped(scope, || {
            let entered = netns.enter();
            entered.map_err(|e| TestbedError::failed("enter the network namespace", e))?;
            act()
        });
        let thread = thread.map_err(|e| TestbedError::failed("start a thread", e))?;
        let panicked = |_| {
            Err(TestbedError::failed(
                "work in a network namespace",
                "a panic",
            ))
        };
        thread.join().unwrap_or_else(panicked)
    })
}

/// Looks: `tc -j qdisc show dev eth0`. What it printed.
pub(crate) fn look(netns: Option<&Path>, words: &[&str]) -> Result<String, TestbedError> {
    inside(netns, || run(words, None))
}

/// Changes: `ip netns add NAME`, holding the lock.
pub(crate) fn change(
    netns: Option<&Path>,
    words: &[&str],
    lock: &File,
) -> Result<(), TestbedError> {
    let lock = lock.try_clone();
    let lock = lock.map_err(|e| TestbedError::failed("share the journal's lock", e))?;
    inside(netns, || run(words, Some(lock)).map(drop))
}

/// One change after the other, in one namespace, until one fails.
pub(crate) fn change_all(
    netns: Option<&Path>,
    commands: &[&[&str]],
    lock: &File,
) -> Result<(), TestbedError> {
    commands
        .iter()
        .try_for_each(|words| change(netns, words, lock))
}

/// Runs a command where the calling thread is. Whoever reads a journal passes no word of it.
pub(crate) fn run(words: &[&str], lock: Option<File>) -> Result<String, TestbedError> {
    let doing = || format!("run `{}`", words.join(" "));
    let failed = |e: io::Error| TestbedError::failed(doing(), e);
    let (name, args) = words.split_first().expect("a program");
    let mut child = Command::new(program(name)?)
        .args(args)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(lock.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Its complaints are short, and fit in the pipe while its answer is read.
    let (said, heard) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("wf-iproute".into());
    let reader = reader.spawn(move || {
        let _ = said.send((text(stdout), text(stderr)));
    });
    reader.map_err(failed)?;
    let until = Instant::now() + WAIT_MAX;
    let answer = heard.recv_timeout(WAIT_MAX);
    let mut pause = Duration::from_micros(100);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if answer.is_err() || Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            let why = format!("it did not end within {} s", WAIT_MAX.as_secs());
            return Err(TestbedError::failed(doing(), why));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    };
    let (out, err) = answer.unwrap_or_default();
    if status.success() {
        return Ok(out);
    }
    let why = err.trim();
    if why.contains("Operation not permitted") || why.contains("Permission denied") {
        let why = format!("{why}; it needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root");
        return Err(TestbedError::no_privilege(
            format!("`{}`", words.join(" ")),
            why,
        ));
    }
    if why.contains("File exists") {
        let why = "something of that name is there already";
        return Err(TestbedError::refused(format!("`{}`", words.join(" ")), why));
    }
    let why = if why.is_empty() {
        status.to_string()
    } else {
        why.replace('\n', "; ")
    };
    Err(TestbedError::failed(doing(), why))
}

fn text(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The program's file: where systems keep it, and only then where an absolute part of the path has
/// it. Nothing is taken from the current folder.
fn program(name: &str) -> Result<PathBuf, TestbedError> {
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut files = system.iter().map(|folder| folder.join(name));
    let found = files.find(|file| file.is_file());
    found.or_else(|| programs::on_path(name)).ok_or_else(|| {
        let why = "it is not installed: it comes with iproute2 (Debian: apt-get install iproute2)";
        TestbedError::no_privilege(format!("`{name}`"), why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_a_name_that_is_one_word_and_no_option() {
        for good in ["eth0", "lo", "enp3s0.100", "veth-a@b", "123456789012345"] {
            assert_eq!(
                good.parse::<InterfaceName>().map(String::from),
                Ok(good.into())
            );
        }
        for bad in [
            "",
            "-batch",
            "--",
            "eth0 root",
            "eth0\n",
            "../eth0",
            "a/b",
            "..",
            "eth0:1",
            "1234567890123456",
            "ethé",
            "eth\u{0}",
        ] {
            assert!(bad.parse::<InterfaceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn its_complaint_is_the_error() {
        if program("ip").is_err() {
            wallfinder_skip::skip("no ip here");
            return;
        }
        let error = look(None, &["ip", "link", "show", "dev", "wf-no-such"]);
        let error = error.expect_err("no such link").to_string();
        assert!(error.contains("does not exist"), "{error}");
        let error = look(None, &["wf-no-such-tool"]).expect_err("no such tool");
        assert!(error.to_string().contains("iproute2"), "{error}");
        let gone = Path::new("/run/netns/wf-no-such");
        assert!(look(Some(gone), &["ip", "link"]).is_err());
    }
}
