//! Many finds over two hosts of a lab, each disturbed at a random moment: a process killed or stopped, a link down, a
//! disk full. After each both hosts are as they were, and the record can be read.
//!
//! ```sh
//! WALLFINDER_KILLS=200 cargo test -p wallfinder-tests --test blackbox kills_on_hosts -- --ignored --nocapture
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use wallfinder_protocol::LEASE;
use wallfinder_tests::{Place, alone, descendants, program, skip, stopped, things_of_ours};

use crate::hosts::Lab;
use crate::kills::{many_times, unreadable};

/// A find is disturbed at some moment until here: later it has ended.
const UNDER_WAY_MS: u64 = 9_000;
/// How long what is stopped or down stays so: longer than a lease.
const FOR: Duration = Duration::from_secs(10);
/// How long after the lease a host may take: the keeper looks, and what was put up is taken down.
const MARGIN: Duration = Duration::from_secs(1);
/// How long a find may take to end once it was disturbed: it waits for a steady server for half a minute at most.
const END_WITHIN: Duration = Duration::from_secs(120);

/// What happens to a find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Controller(Signal),
    Agent(Signal),
    Ssh(Signal),
    LinkDown,
    DiskFull,
}

const EVENTS: [Event; 10] = [
    Event::Controller(Signal::KILL),
    Event::Controller(Signal::INT),
    Event::Controller(Signal::STOP),
    Event::Agent(Signal::KILL),
    Event::Agent(Signal::TERM),
    Event::Agent(Signal::STOP),
    Event::Ssh(Signal::KILL),
    Event::Ssh(Signal::STOP),
    Event::LinkDown,
    Event::DiskFull,
];

pub(crate) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

pub(crate) fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    // Who has ended is gone.
    let _ = kill_process(pid, signal);
}

/// A host of the lab, seen from this machine.
pub(crate) struct Seen {
    sshd: u32,
    before: String,
}

impl Seen {
    /// A host of this lab.
    pub(crate) fn of(name: &str) -> Seen {
        let is_it = |pid: &u32| command_line(*pid).contains(&format!("/sshd-{name}"));
        let mut found: Vec<u32> = processes().into_iter().filter(is_it).collect();
        // The first is what unshares, and its child is the host's init.
        found.sort_unstable();
        let seen = Seen {
            sshd: *found.last().expect("an sshd"),
            before: String::new(),
        };
        Seen {
            before: seen.now(),
            ..seen
        }
    }

    /// Gives what it writes to so much room.
    fn sized(&self, room: &str) {
        let each =
            format!("for each in /var/log /run; do mount -o remount,size={room} $each; done");
        self.inside(&["sh", "-c", &each]);
    }

    fn inside(&self, words: &[&str]) -> String {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.sshd.to_string(), "-n", "-m", "--"]);
        let ran = command.args(words).output().expect("nsenter");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    pub(crate) fn is_as_before(&self) -> bool {
        self.now() == self.before
    }

    /// Rates of its interface, files of ours, and processes of ours.
    pub(crate) fn now(&self) -> String {
        let own = namespace(self.sshd);
        let here = processes().into_iter().filter(|pid| namespace(*pid) == own);
        let names = here
            .map(command_line)
            .filter(|line| line.contains("wallfinder"));
        let mut names: Vec<String> = names.filter(|line| !line.contains("sshd")).collect();
        names.sort();
        let files = "cd /run/wallfinder 2>/dev/null && ls -A | grep -v lock && cat *.jsonl";
        self.levers() + &self.inside(&["sh", "-c", files]) + &names.join("\n")
    }

    /// What is squeezed there.
    fn levers(&self) -> String {
        let qdiscs = self.inside(&["tc", "qdisc", "show", "dev", "eth0"]);
        let ours = qdiscs
            .lines()
            .filter(|line| line.contains("htb") || line.contains("tbf"));
        ours.collect()
    }
}

/// Does it. Of what lasts for longer than a lease, what is still squeezed at its end is wrong.
fn disturb(event: Event, controller: u32, hosts: &[Seen; 2], random: &mut Rng) -> Vec<String> {
    let agents = || {
        let is_agent = |pid: &u32| {
            let line = command_line(*pid);
            let is_one = line.contains(" agent --stdio") && line.starts_with('/');
            is_one
                && hosts
                    .iter()
                    .any(|host| namespace(*pid) == namespace(host.sshd))
        };
        processes()
            .into_iter()
            .filter(is_agent)
            .collect::<Vec<u32>>()
    };
    let sshs = || {
        let below = descendants(controller).into_iter();
        let sshs = below.filter(|pid| {
            command_line(*pid).starts_with("ssh ") || command_line(*pid).contains("/ssh ")
        });
        sshs.collect::<Vec<u32>>()
    };
    let squeezed = || {
        sleep(FOR);
        let levers = hosts.iter().map(Seen::levers);
        levers
            .filter(|levers| !levers.is_empty())
            .collect::<Vec<String>>()
    };
    let signalled = |pid: Option<u32>, signal: Signal| {
        let Some(pid) = pid else { return Vec::new() };
        send(pid, signal);
        if signal != Signal::STOP {
            return Vec::new();
        }
        let wrong = squeezed();
        send(pid, Signal::CONT);
        wrong
    };
    let host = random.choice(hosts).expect("a host");
    match event {
        Event::Controller(signal) => signalled(Some(controller), signal),
        Event::Agent(signal) => signalled(random.choice(agents()), signal),
        Event::Ssh(signal) => signalled(random.choice(sshs()), signal),
        Event::LinkDown => {
            host.inside(&["ip", "link", "set", "eth0", "down"]);
            let wrong = squeezed();
            host.inside(&["ip", "link", "set", "eth0", "up"]);
            wrong
        }
        Event::DiskFull => {
            host.sized("64k");
            Vec::new()
        }
    }
}

/// What is left on hosts whose agent has ended, once a lease is over.
fn left_where_no_agent_is(hosts: &[Seen; 2]) -> Vec<String> {
    let since = Instant::now();
    loop {
        let has_agent = |host: &Seen| {
            let of_host = |pid: &u32| namespace(*pid) == namespace(host.sshd);
            let mut agents = processes().into_iter().filter(of_host);
            agents.any(|pid| command_line(pid).contains(" agent --stdio"))
        };
        let ended: Vec<&Seen> = hosts.iter().filter(|host| !has_agent(host)).collect();
        let left = ended.iter().filter(|host| host.now() != host.before);
        let left: Vec<String> = left.map(|host| host.now()).collect();
        let is_over = since.elapsed() > LEASE + MARGIN;
        match (ended.is_empty(), left.is_empty()) {
            (true, _) if is_over => return vec!["an agent still runs".to_owned()],
            (false, true) => return Vec::new(),
            (false, false) if is_over => return left,
            _ => {}
        }
        sleep(Duration::from_millis(100));
    }
}

/// Runs a find, disturbs it, and says what is wrong afterwards.
fn disturb_one(lab: &Lab, hosts: &[Seen; 2], random: &mut Rng) -> Result<String, String> {
    let event = random.choice(EVENTS).expect("one");
    let after = Duration::from_millis(random.u64(..UNDER_WAY_MS));
    let (things_before, stopped_before) = (things_of_ours(), stopped());
    let place = Place::new();
    let asked = [
        "--client-host",
        "ssh://h2",
        "--effort",
        "quick",
        "--no-inside",
    ];
    let finding = lab.start_in(&place, "find", &asked);
    sleep(after);
    let mut wrong = disturb(event, finding.pid(), hosts, random);
    if let Event::Agent(Signal::KILL | Signal::TERM) | Event::Ssh(Signal::KILL) = event {
        // Whatever the find goes on with, where an agent ended nothing is left.
        wrong.extend(left_where_no_agent_is(hosts));
    }
    let new = |now: Vec<String>, before: &[String]| -> Vec<String> {
        now.into_iter().filter(|it| !before.contains(it)).collect()
    };
    let left = || {
        let hosts = hosts.iter().filter(|host| host.now() != host.before);
        let mut left: Vec<String> = hosts.map(Seen::now).collect();
        left.extend(new(things_of_ours(), &things_before));
        left.extend(new(stopped(), &stopped_before));
        left
    };
    let disturbed = Instant::now();
    // A controller that was killed says no more; whoever else goes on undoes its levers before it ends.
    let ran = finding.wait(END_WITHIN);
    let lasted = disturbed.elapsed();
    let ended = Instant::now();
    while !left().is_empty() && ended.elapsed() < LEASE + MARGIN {
        sleep(Duration::from_millis(100));
    }
    let took = ended.elapsed();
    wrong.extend(left());
    hosts.iter().for_each(|host| host.sized("50%"));
    wrong.extend(ran.err.contains("panicked").then(|| ran.said()));
    wrong.extend(unreadable(&place));
    let what = format!(
        "{event:?} after {after:?}, ended with {:?} in {lasted:.1?}",
        ran.code
    );
    match wrong.is_empty() {
        true => Ok(format!("{what}: as it was after {took:?}")),
        false => Err(format!("{what}: {}", wrong.join("; "))),
    }
}

#[test]
#[ignore = "takes ten seconds for each; see the head of this file"]
fn hosts_are_as_they_were_whatever_happens_to_a_find() {
    let _turn = alone();
    if program("nsenter").is_none() {
        return skip("it needs nsenter");
    }
    let asked = ["2", "--cpus", "0", "--cpus", "1"];
    let Some(lab) = Lab::of(&asked, "--spin-us 300") else {
        return;
    };
    let hosts = ["h1", "h2"].map(Seen::of);
    many_times(|_, random| disturb_one(&lab, &hosts, random));
}
