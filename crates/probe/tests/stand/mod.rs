//! What the tests stand on: processes of this test binary in other roles, and things that clean up
//! after themselves.

#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// Name of the variable that gives a child its role.
pub(crate) const ROLE: &str = "WALLFINDER_PROBE_TEST_ROLE";

/// A child that ends with its owner.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The next line that the child prints, without what the test harness prints around it.
    pub(crate) fn line(&mut self) -> String {
        let stdout = self.0.stdout.as_mut().expect("the child's output is piped");
        let mut reader = BufReader::with_capacity(1, stdout);
        loop {
            let mut line = String::new();
            let length = reader.read_line(&mut line).expect("the child prints text");
            assert!(
                length > 0,
                "the child ended without saying what was expected"
            );
            if let Some((_, said)) = line.split_once("SAYS ") {
                return said.trim().to_owned();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell script.
pub(crate) fn shell(script: &str) -> Running {
    let child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .spawn();
    Running(child.expect("there is a shell"))
}

/// Starts this binary again in a role, through `before` (such as `ip netns exec NAME`).
pub(crate) fn role(before: &[&str], name: &str) -> Running {
    let own = std::env::current_exe().expect("the test knows its binary");
    let mut words = before
        .iter()
        .map(|word| (*word).to_owned())
        .chain([own.display().to_string()]);
    let child = Command::new(words.next().expect("there is a program"))
        .args(words)
        .args([
            "--exact",
            "plays_its_role",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("the test binary runs again"))
}

/// Tells the owner something, past the test harness.
pub(crate) fn say(what: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\nSAYS {what}")
        .and_then(|()| out.flush())
        .expect("the owner listens");
}

/// Waits until the owner has gone.
pub(crate) fn stay() {
    let mut nothing = [0; 1];
    while std::io::stdin()
        .read(&mut nothing)
        .is_ok_and(|length| length > 0)
    {}
}

/// Listens on a port that others may share.
pub(crate) fn listen_shared(address: SocketAddr) -> TcpListener {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_reuseport(&socket, true).expect("ports can be shared");
    bind(&socket, &address).expect("the port is free or shared");
    listen(&socket, 16).expect("the socket listens");
    TcpListener::from(socket)
}

/// Whether privileged tests can run; says so when they cannot.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        wallfinder_skip::skip(format_args!("{test} takes root"));
    }
    root
}

/// Whether a test may lay links between namespaces; says so when it may not.
pub(crate) fn lays_links(test: &str) -> bool {
    let has_ip = try_to("ip -V >/dev/null 2>&1");
    if !has_ip {
        wallfinder_skip::skip("there is no `ip` (Debian: iproute2)");
    }
    has_ip && is_root(test)
}

/// Runs a command that must succeed.
pub(crate) fn must(command: &str) {
    assert!(try_to(command), "failed: {command}");
}

/// Runs a command and says whether it succeeded.
pub(crate) fn try_to(command: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Does something when it goes out of scope, also when a test fails.
pub(crate) struct AtEnd<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
