//! Many loads and finds by agents of a hub, each disturbed at a random moment: the hub, its server of messages, an agent
//! that joined, one of its sessions, or the controller is killed or stopped. After each both hosts are as they were, and
//! the record can be read; what ended well is whole.
//!
//! ```sh
//! WALLFINDER_KILLS=300 cargo test -p wallfinder-tests --test blackbox kills_at_a_hub -- --ignored --nocapture
//! ```

use std::fs;
use std::panic::catch_unwind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::Value;
use wallfinder_protocol::LEASE;
use wallfinder_tests::{Place, alone, assert_balanced, program, skip, things_of_ours};

use crate::hub::{Joined, send};
use crate::kills::{many_times, unreadable};
use crate::kills_on_hosts::{Seen, command_line, processes};

/// A run is disturbed at some moment until here: later it has ended.
const UNDER_WAY_MS: u64 = 7_000;
/// Before this it is put up, and needs its hub.
const SET_UP: Duration = Duration::from_millis(2_500);
/// How long a hub is gone at the most, and what is stopped stands still: longer than a lease.
const GONE_MS_MAX: u64 = 9_000;
/// What holds by a lease is undone so long after it.
const MARGIN: Duration = Duration::from_secs(1);
/// A session whose controller is gone ends within this.
const SESSION_ENDS_WITHIN: Duration = Duration::from_secs(14);
/// How long a run may take to end once it was disturbed: it asks for its result for a minute.
const END_WITHIN: Duration = Duration::from_secs(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Killed, and started again by whoever runs it.
    Hub,
    Server(Signal),
    Joined(Signal),
    Session(Signal),
    Controller(Signal),
}

const EVENTS: [Event; 8] = [
    Event::Hub,
    Event::Server(Signal::KILL),
    Event::Server(Signal::STOP),
    Event::Joined(Signal::KILL),
    Event::Joined(Signal::STOP),
    Event::Session(Signal::KILL),
    Event::Controller(Signal::KILL),
    Event::Controller(Signal::INT),
];

/// Does it, and puts right what is not the tool's to put right.
fn disturb(event: Event, joined: &mut Joined, controller: u32, random: &mut Rng) {
    let gone = Duration::from_millis(random.u64(..GONE_MS_MAX));
    let signalled = |pid: Option<u32>, signal: Signal| {
        let Some(pid) = pid else { return };
        send(pid, signal);
        if signal == Signal::STOP {
            sleep(gone);
            send(pid, Signal::CONT);
        }
    };
    match event {
        Event::Hub => {
            joined.hub.kill();
            sleep(gone);
            joined.hub.start(&[]);
        }
        Event::Server(signal) => signalled(joined.hub.servers().pop(), signal),
        Event::Joined(signal) => {
            let name = random.choice(["db", "c"]).expect("one");
            signalled(Some(joined.agent(name)), signal);
            if signal == Signal::KILL {
                sleep(gone);
                joined.join_again(name);
            }
        }
        Event::Session(signal) => {
            let is_one = |pid: &u32| command_line(*pid).starts_with("wallfinder agent --stdio");
            let sessions: Vec<u32> = processes().into_iter().filter(is_one).collect();
            signalled(random.choice(sessions), signal);
        }
        Event::Controller(signal) => signalled(Some(controller), signal),
    }
}

/// What is wrong with the sums of each step in the record, if it has one; of a load that ended well each request was kept.
fn not_whole(place: &Place, ended_well: bool) -> Vec<String> {
    let Some(run) = place.runs().pop() else {
        return Vec::new();
    };
    let Ok(text) = fs::read_to_string(run.join("record.json")) else {
        return match ended_well {
            true => vec!["it ended well without a record".to_owned()],
            false => Vec::new(),
        };
    };
    let record: Value = serde_json::from_str(&text).expect("a record is JSON");
    let steps = record["steps"].as_array().expect("steps");
    let wrong = steps.iter().filter_map(|step| {
        let is_balanced = catch_unwind(|| assert_balanced(step)).is_ok();
        let answered = step["counts"]["answered"].as_u64().unwrap_or(0);
        let later = step["drained"]["answered"].as_u64().unwrap_or(0);
        let rows = step["samples"]["rows"].as_u64().unwrap_or(0);
        let is_kept = !ended_well || (answered..=answered + later).contains(&rows);
        let sums = || {
            format!(
                "its sums do not close: {:#}, {:#}",
                step["counts"], step["samples"]
            )
        };
        (!is_balanced || !is_kept).then(sums)
    });
    wrong.collect()
}

/// Runs something, disturbs it, and says what is wrong afterwards.
fn disturb_one(joined: &mut Joined, hosts: &[Seen; 2], random: &mut Rng) -> Result<String, String> {
    let event = random.choice(EVENTS).expect("one");
    let after = Duration::from_millis(random.u64(..UNDER_WAY_MS));
    let things_before = things_of_ours();
    let place = Place::new();
    let is_find = random.bool();
    let running = match is_find {
        true => joined.start_in(&place, "find", &["--effort", "quick", "--no-inside"]),
        false => joined.start_in(&place, "run", &["-d", "5s", "--samples", "--no-calibrate"]),
    };
    sleep(after);
    let new = || -> Vec<String> {
        let now = things_of_ours().into_iter();
        now.filter(|thing| !things_before.contains(thing)).collect()
    };
    disturb(event, joined, running.pid(), random);
    let mut wrong = Vec::new();
    if event == Event::Controller(Signal::KILL) {
        sleep(LEASE + MARGIN);
        wrong.extend(new());
    }
    let disturbed = Instant::now();
    let ran = running.wait(END_WITHIN);
    let (lasted, ended) = (disturbed.elapsed(), Instant::now());
    let left = || {
        let hosts = hosts.iter().filter(|host| !host.is_as_before());
        let mut left: Vec<String> = hosts.map(Seen::now).collect();
        left.extend(new());
        left
    };
    while !left().is_empty() && ended.elapsed() < SESSION_ENDS_WITHIN {
        sleep(Duration::from_millis(100));
    }
    let took = ended.elapsed();
    wrong.extend(left());
    wrong.extend(ran.err.contains("panicked").then(|| ran.said()));
    wrong.extend(unreadable(&place));
    wrong.extend(not_whole(&place, ran.code == Some(0) && !is_find));
    // A load outlasts its hub, once it is under way.
    let is_hub = matches!(event, Event::Hub | Event::Server(_));
    if is_hub && !is_find && after > SET_UP && ran.code != Some(0) {
        wrong.push(format!("a load did not outlast its hub: {}", ran.said()));
    }
    let what = format!(
        "{} disturbed by {event:?} after {after:?}, ended with {:?} in {lasted:.1?}",
        if is_find { "find" } else { "run" },
        ran.code
    );
    match wrong.is_empty() {
        true => Ok(format!("{what}: as it was after {took:?}")),
        false => Err(format!("{what}: {}", wrong.join("; "))),
    }
}

#[test]
#[ignore = "takes fifteen seconds for each; see the head of this file"]
fn hosts_of_a_hub_are_as_they_were_whatever_is_killed() {
    let _turn = alone();
    if program("nsenter").is_none() {
        return skip("it needs nsenter");
    }
    let Some(mut joined) = Joined::up("--spin-us 300") else {
        return;
    };
    let hosts = ["h1", "h2"].map(Seen::of);
    many_times(|_, random| {
        let said = disturb_one(&mut joined, &hosts, random);
        joined.wait_for_both();
        said
    });
}
