//! Many loads and finds by agents of a hub, each disturbed at a random moment: the hub, its server of messages, an agent
//! that joined, one of its sessions, or the controller is killed or stopped. After each both hosts are as they were, and
//! the record can be read; of a load that ended well it has what the server counted, and of any other no more than that.
//!
//! ```sh
//! WALLFINDER_KILLS=300 cargo test -p wallfinder-tests --test blackbox kills_at_a_hub -- --ignored --nocapture
//! ```

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::Value;
use wallfinder_protocol::LEASE;
use wallfinder_tests::{Place, alone, assert_balanced, program, skip, things_of_ours};

use crate::hub::{self, Joined, put_up, send};
use crate::hub_away::Counting;
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
/// The same where the hub was away: its controller may dial for as long as a connection may take.
const SESSION_ENDS_BEHIND_A_HUB_WITHIN: Duration = Duration::from_secs(25);
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

const EVENTS: [Event; 9] = [
    Event::Hub,
    Event::Server(Signal::KILL),
    Event::Server(Signal::STOP),
    Event::Joined(Signal::KILL),
    Event::Joined(Signal::STOP),
    Event::Session(Signal::KILL),
    Event::Controller(Signal::KILL),
    Event::Controller(Signal::INT),
    Event::Controller(Signal::STOP),
];

/// At a rate that keeps nobody busy, and without requests that no window has.
const LOAD: [&str; 8] = [
    "-d",
    "5s",
    "--rate",
    "1000",
    "--warmup",
    "0s",
    "--samples",
    "--no-calibrate",
];

/// Does it, and puts right what is not the tool's to put right. Of a controller that stands still for longer than a lease,
/// what is squeezed then is wrong.
fn disturb(
    event: Event,
    joined: &mut Joined,
    controller: u32,
    things_before: &[String],
    random: &mut Rng,
) -> Vec<String> {
    let mut wrong = Vec::new();
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
        Event::Controller(Signal::STOP) => {
            send(controller, Signal::STOP);
            let since = Instant::now();
            sleep(gone);
            if gone > LEASE {
                let squeezed = || put_up(things_before, controller);
                while !squeezed().is_empty() && since.elapsed() < LEASE + hub::MARGIN {
                    sleep(Duration::from_millis(100));
                }
                wrong.extend(squeezed());
            }
            send(controller, Signal::CONT);
        }
        Event::Controller(signal) => signalled(Some(controller), signal),
    }
    wrong
}

/// Requests as a record has them, or a result that an agent keeps.
#[derive(Debug, PartialEq, Eq)]
struct Requests {
    /// In the window and after it.
    answered: u64,
    /// Begun and not answered: a server may have counted them.
    others: u64,
}

impl Requests {
    fn of(measured: &Value) -> Requests {
        let number = |of: &Value| of.as_u64().unwrap_or(0);
        let (counts, drained) = (&measured["counts"], &measured["drained"]);
        let failed = counts["failed"].as_object().into_iter().flatten();
        let failed: u64 = failed.map(|(_, count)| number(count)).sum();
        let unanswered = number(&drained["failed"]) + number(&drained["in_flight"]);
        Requests {
            answered: number(&counts["answered"]) + number(&drained["answered"]),
            others: failed + number(&counts["unknown"]) + unanswered,
        }
    }

    /// Whether it can be so where a server counted so many; a `whole` load has all of them.
    fn are_of(&self, counted: u64, whole: bool) -> bool {
        self.answered <= counted && (!whole || counted <= self.answered + self.others)
    }
}

/// Results that agents keep; what goes on or is being written is none.
fn results(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_none()).collect()
}

/// What is wrong with the results that a load left at its agents: there is one at the most, with no more than was counted.
/// One of a load that ended well is what its record has.
fn kept_wrongly(kept: &[PathBuf], counted: u64, in_record: Option<&Requests>) -> Vec<String> {
    let read = |path: &PathBuf| -> Requests {
        let text = fs::read_to_string(path).expect("a result that nobody comes for");
        Requests::of(&serde_json::from_str(&text).expect("a result is JSON"))
    };
    let each: Vec<Requests> = kept.iter().map(read).collect();
    let is_right = |kept: &Requests| {
        kept.are_of(counted, false) && in_record.is_none_or(|record| record == kept)
    };
    match each.len() <= 1 && each.iter().all(is_right) {
        true => Vec::new(),
        false => vec![format!(
            "kept at agents: {each:?}; counted: {counted}; in the record: {in_record:?}"
        )],
    }
}

/// The record of the last run, if it has one.
fn record(place: &Place) -> Option<Value> {
    let text = fs::read_to_string(place.runs().pop()?.join("record.json")).ok()?;
    Some(serde_json::from_str(&text).expect("a record is JSON"))
}

/// What is wrong with the sums of each step in a record, beside what the server `counted` of a load; of one that ended well
/// each request was kept.
fn not_whole(record: &Value, counted: Option<u64>, ended_well: bool) -> Vec<String> {
    let steps = record["steps"].as_array().expect("steps");
    let wrong = steps.iter().filter_map(|step| {
        let is_balanced = catch_unwind(|| assert_balanced(step)).is_ok();
        let answered = step["counts"]["answered"].as_u64().unwrap_or(0);
        let later = step["drained"]["answered"].as_u64().unwrap_or(0);
        let rows = step["samples"]["rows"].as_u64().unwrap_or(0);
        let is_kept = !ended_well || (answered..=answered + later).contains(&rows);
        let are_of_server =
            counted.is_none_or(|counted| Requests::of(step).are_of(counted, ended_well));
        let sums = || {
            format!(
                "its sums do not close, counted {counted:?}: {:#}, {:#}, {:#}",
                step["counts"], step["drained"], step["samples"]
            )
        };
        (!is_balanced || !is_kept || !are_of_server).then(sums)
    });
    wrong.collect()
}

/// What is wrong with what a run left, here and at its agents; `counted`: by the server of a load.
fn kept_and_told(
    place: &Place,
    kept: &[PathBuf],
    counted: Option<u64>,
    code: Option<i32>,
) -> Vec<String> {
    let ended_well = code == Some(0) && counted.is_some();
    let record = record(place);
    let mut wrong = Vec::new();
    if ended_well && record.is_none() {
        wrong.push("it ended well without a record".to_owned());
    }
    if let Some(record) = &record {
        wrong.extend(not_whole(record, counted, ended_well));
    }
    if let Some(counted) = counted {
        let step = record.as_ref().filter(|_| ended_well);
        let in_record = step.map(|record| Requests::of(&record["steps"][0]));
        wrong.extend(kept_wrongly(kept, counted, in_record.as_ref()));
    }
    wrong
}

/// Runs something, disturbs it, and says what is wrong afterwards.
fn disturb_one(joined: &mut Joined, hosts: &[Seen; 2], random: &mut Rng) -> Result<String, String> {
    let event = random.choice(EVENTS).expect("one");
    let after = Duration::from_millis(random.u64(..UNDER_WAY_MS));
    let things_before = things_of_ours();
    let kept_before = results(&joined.hub.results());
    let place = Place::new();
    let is_find = random.bool();
    // It counts the requests of this load alone.
    let server = (!is_find).then(|| Counting::start(joined.own()));
    let running = match &server {
        None => joined.start_in(&place, "find", &["--effort", "quick", "--no-inside"]),
        Some(server) => joined.load_in(&place, &["c"], &server.url(), &LOAD),
    };
    sleep(after);
    let new = || -> Vec<String> {
        let now = things_of_ours().into_iter();
        now.filter(|thing| !things_before.contains(thing)).collect()
    };
    let mut wrong = disturb(event, joined, running.pid(), &things_before, random);
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
    let is_hub = matches!(event, Event::Hub | Event::Server(_));
    let ends_within = match is_hub {
        true => SESSION_ENDS_BEHIND_A_HUB_WITHIN,
        false => SESSION_ENDS_WITHIN,
    };
    while !left().is_empty() && ended.elapsed() < ends_within {
        sleep(Duration::from_millis(100));
    }
    let took = ended.elapsed();
    wrong.extend(left());
    wrong.extend(ran.err.contains("panicked").then(|| ran.said()));
    wrong.extend(unreadable(&place));
    let mut kept = results(&joined.hub.results());
    kept.retain(|path| !kept_before.contains(path));
    let counted = server.as_ref().map(Counting::answered);
    wrong.extend(kept_and_told(&place, &kept, counted, ran.code));
    // A load outlasts its hub, once it is under way.
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
