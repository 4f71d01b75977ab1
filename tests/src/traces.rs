//! What a run may leave on the machine: things with this tool's tag, links and queues,
//! processes that it started, and processes that it stopped.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Control groups above one another, at the most.
const DEPTH_MAX: u32 = 8;

/// Runs by their process, and the tests that started them.
static RUNS: LazyLock<Mutex<HashMap<u32, String>>> = LazyLock::new(Mutex::default);

/// What stood without its process when a test failed: that is its failure, and not that of whoever looks afterwards.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// This thread, which bears the name of its test, started a run.
pub(crate) fn started(pid: u32) {
    if let Some(test) = thread::current().name() {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert(pid, test.to_owned());
    }
}

/// This thread's test is over: what its runs have left behind is nobody's, and is seen by whoever looks, unless the test
/// has failed.
pub(crate) fn over() {
    if thread::panicking() {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(tagged().into_iter().filter(|thing| owner(thing).is_none()));
    }
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let name = thread::current().name().map(str::to_owned);
    runs.retain(|_, test| Some(&*test) != name.as_ref());
}

/// Network namespaces, control groups and journals that bear this tool's tag, but for those of a run that another
/// test started, of one that lives in another session, where somebody measures beside the tests, and what a failed test
/// has left behind.
pub fn things_of_ours() -> Vec<String> {
    let mut found = tagged();
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    found.retain(|thing| !is_somebody_elses(thing) && !left.contains(thing));
    found
}

/// All of them.
fn tagged() -> Vec<String> {
    let mut found = Vec::new();
    let temporary = entries(&std::env::temp_dir()).into_iter();
    // Journals of those who may not write to /run.
    let of_users = temporary.filter(|path| name(path).starts_with("wallfinder-"));
    let tagged = ["/run/netns", "/run/wallfinder"].map(PathBuf::from);
    for folder in tagged.into_iter().chain(of_users) {
        let names = entries(&folder).into_iter().map(|path| name(&path));
        found.extend(names.filter(|name| name.starts_with("wf-")));
    }
    groups(Path::new("/sys/fs/cgroup"), DEPTH_MAX, &mut found);
    found
}

/// Whether the run whose tag this bears, `wf-PID-START`, is another test's, or lives, and not in our session. What a
/// test has left behind stays in it.
fn is_somebody_elses(thing: &str) -> bool {
    let Some((pid, _)) = tag(thing) else {
        return false;
    };
    let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let test = pid.parse().ok().and_then(|pid: u32| runs.get(&pid));
    if test.is_some_and(|test| Some(test.as_str()) != thread::current().name()) {
        return true;
    }
    let ours = process("self").map(|process| process.session);
    owner(thing).is_some_and(|owner| Some(owner.session) != ours)
}

/// The process that a thing's tag names, and when it began.
fn tag(thing: &str) -> Option<(&str, &str)> {
    let (_, tag) = thing.rsplit_once("wf-")?;
    let mut parts = tag.split(['-', '.']);
    Some((parts.next()?, parts.next()?))
}

/// That process, where it lives.
fn owner(thing: &str) -> Option<Process> {
    let (pid, start) = tag(thing)?;
    process(pid).filter(|owner| u64::from_str_radix(start, 16) == Ok(owner.start))
}

struct Process {
    /// 0 if its leader is outside this PID namespace, as that of a container's first process is.
    session: u32,
    /// Ticks after the boot.
    start: u64,
}

fn process(pid: &str) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let session = fields.get(3)?.parse().ok()?;
    let start = fields.get(19)?.parse().ok()?;
    Some(Process { session, start })
}

fn groups(folder: &Path, depth: u32, found: &mut Vec<String>) {
    let folders = entries(folder)
        .into_iter()
        .filter(|path| path.is_dir() && !path.is_symlink());
    for path in folders {
        if name(&path).starts_with("wallfinder-") {
            found.push(path.display().to_string());
        } else if depth > 0 {
            groups(&path, depth - 1, found);
        }
    }
}

/// Links, and queueing disciplines, of this network namespace.
pub fn network() -> Vec<String> {
    let said = |program: &str, words: &[&str]| {
        let ran = Command::new(program).args(words).output();
        let text = ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned());
        let text = text.unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    [said("ip", &["-o", "link"]), said("tc", &["qdisc", "show"])].concat()
}

/// Processes that have this variable with this value from whoever started them.
pub fn processes_with(variable: &str, value: &str) -> Vec<String> {
    let wanted = format!("{variable}={value}");
    let has_it = |pid: &PathBuf| {
        let environ = fs::read(pid.join("environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|pair| pair == wanted.as_bytes())
    };
    processes()
        .into_iter()
        .filter(has_it)
        .map(|pid| shown(&pid))
        .collect()
}

/// Processes that a signal has stopped.
pub fn stopped() -> Vec<String> {
    let is_stopped = |pid: &PathBuf| {
        let stat = fs::read_to_string(pid.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    processes()
        .into_iter()
        .filter(is_stopped)
        .map(|pid| shown(&pid))
        .collect()
}

fn processes() -> Vec<PathBuf> {
    let is_number = |path: &PathBuf| name(path).bytes().all(|byte| byte.is_ascii_digit());
    entries(Path::new("/proc"))
        .into_iter()
        .filter(is_number)
        .collect()
}

/// `4711 wallfinder __child --parent 4710`.
fn shown(pid: &Path) -> String {
    let words = fs::read(pid.join("cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    format!("{} {}", name(pid), words.trim_end())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_tests_run_left_is_not_this_ones() {
        let tags = [u32::MAX, u32::MAX - 1].map(|pid| format!("wf-{pid}-1-0-server"));
        started(u32::MAX);
        let other = thread::Builder::new().name("another".to_owned());
        let other = other.spawn(|| started(u32::MAX - 1)).unwrap();
        other.join().unwrap();
        assert_eq!(tags.map(|tag| is_somebody_elses(&tag)), [false, true]);
    }

    #[test]
    fn only_what_lives_in_another_session_is_somebody_elses() {
        let start_of = |pid: u32| process(&pid.to_string()).unwrap().start;
        let own = std::process::id();
        let own_tag = format!("wf-{own}-{:x}-0-server", start_of(own));
        assert!(!is_somebody_elses(&own_tag));
        let mut other = Command::new("setsid")
            .args(["sleep", "60"])
            .spawn()
            .unwrap();
        // It has its own session once it is `sleep`.
        let is_sleep = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n";
        while !is_sleep(other.id()) {
            std::thread::yield_now();
        }
        let (pid, start) = (other.id(), start_of(other.id()));
        let tag = |start| format!("/sys/fs/cgroup/cpu/wallfinder-wf-{pid}-{start:x}-0-server");
        assert!(is_somebody_elses(&tag(start)));
        assert!(
            !is_somebody_elses(&tag(start + 1)),
            "another process had this number"
        );
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_somebody_elses(&tag(start)), "it is dead");
    }
}
