//! What black-box tests need: the stand-in for the tool, ports, and a look at processes.

#![allow(dead_code)] // each test binary uses its own part

pub(crate) mod steps;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use wallfinder_testbed::child::Shim;

/// The example that stands in for the tool. Cargo builds it with the tests, unless it was
/// told to build a single test.
pub(crate) fn helper_path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("a path");
        let profile = test.ancestors().nth(2).expect("target/debug/deps/test");
        let path = profile.join("examples/testbed_helper");
        if !path.exists() {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args([
                "build",
                "--package",
                "wallfinder-testbed",
                "--example",
                "testbed_helper",
            ]);
            assert!(build.status().expect("cargo").success());
        }
        path
    })
}

/// Starts a subject below another process, which is to be killed.
pub(crate) fn parent(command: &str, port: u16) -> (Child, u32) {
    let mut parent = Command::new(helper_path())
        .args(["parent", command, &port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a parent");
    let mut line = String::new();
    let stdout = parent.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    (parent, line.trim().parse().expect("a pid"))
}

pub(crate) fn shim() -> Shim {
    Shim::at(helper_path().clone())
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// State and process group of a process, from `/proc/<pid>/stat`.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// Whether a process is there, and not just waiting to be reaped.
pub(crate) fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The running processes of a group.
pub(crate) fn group_of(leader: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|(state, group)| group == leader && state != 'Z'))
        .collect()
}

/// Processes with a variable in their environment.
pub(crate) fn bearing(variable: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let has = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|given| given == variable.as_bytes())
    };
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(has)
        .filter(|pid| is_running(*pid))
        .collect()
}

/// What somebody else on the processor may spoil is measured again, twice at the most: a lever that is
/// wrong is wrong each time.
pub(crate) fn one_of_three(mut is_right: impl FnMut() -> bool) {
    assert!((0..3).any(|_| is_right()), "not once of three times");
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{what}: not within 30 s"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
