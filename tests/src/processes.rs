//! Processes and listeners, as `/proc` has them.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// State and parent of a process; `None` when it is gone.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// Whether a process runs: it is there, and no zombie.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Whether all of these end within two seconds. Who watches over a tool (the keeper of what it
/// changed, the shim of a child) goes after it, when it sees that it is gone.
pub fn end_soon(pids: &[u32]) -> bool {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        let are_left = pids.iter().copied().any(alive);
        if !are_left || Instant::now() >= until {
            return !are_left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every process below another one, at this moment.
pub fn descendants(of: u32) -> Vec<u32> {
    let pids = || {
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
    };
    let parents: Vec<(u32, u32)> = pids().filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        next += 1;
        found.extend(
            parents
                .iter()
                .filter(|(_, p)| *p == parent)
                .map(|(pid, _)| *pid),
        );
    }
    found.split_off(1)
}

/// Whether a TCP socket listens on a port.
pub fn listens_on(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let text = fs::read_to_string(table).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            let state = fields.nth(1).unwrap_or_default();
            state == "0A" && local.ends_with(&format!(":{port:04X}"))
        })
    })
}

/// What a process is called; empty when it is gone.
pub fn comm(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// This host as others see it, where it has a way out: no load of another host goes to loopback.
pub fn own_ip() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().expect("an address").ip())
}

/// Waits until something is so, for a minute at the most: what does not come then does not come.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "no {what}");
        sleep(Duration::from_millis(20));
    }
}
