//! Settings of the host that `ab` tries: in force in B's turns, and as they were afterwards, whatever
//! becomes of the run; and whether they acted.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Double, Place, Ran, Running, busily, free_port, json_at, program, skip, subjects, together,
};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const FLOWS: &str = "/proc/sys/net/core/rps_sock_flow_entries";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What the kernel does now: the word in brackets.
fn chosen() -> Option<String> {
    let text = fs::read_to_string(HUGE_PAGES).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Another choice than the present one, where it may be made here and a subject be started.
fn another() -> Option<(String, &'static str)> {
    subjects()?;
    let before = chosen()?;
    let other = if before == "never" {
        "madvise"
    } else {
        "never"
    };
    // What may be written as it is may be changed.
    let may = is_root() && fs::write(HUGE_PAGES, &before).is_ok();
    may.then_some((before, other))
}

fn begun(place: &Place, tuning: &str) -> Running {
    let url = format!("http://subject:{}/simple", free_port());
    place.start(&[
        "ab",
        "--subject",
        "catalogue",
        &url,
        "-c",
        "2",
        "-d",
        "1s",
        "--rounds",
        "4",
        "--tune-b",
        tuning,
        "-q",
    ])
}

fn becomes(wanted: &str, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while chosen().as_deref() != Some(wanted) {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// What was seen of the only setting, in A's turns and in B's.
#[track_caller]
fn seen(record: &Value) -> [Vec<f64>; 2] {
    let steps = json_at(record, "/ab/signs/0/steps").as_array().unwrap();
    let order = json_at(record, "/ab/order").as_array().unwrap();
    assert_eq!(steps.len(), order.len(), "{:#}", record["ab"]);
    let of = |is_b: bool| -> Vec<f64> {
        let own = steps.iter().zip(order).filter(|(_, turn)| turn[1] == is_b);
        own.map(|(value, _)| value.as_f64().unwrap()).collect()
    };
    [of(false), of(true)]
}

/// What was printed, in one line.
fn words(ran: &Ran) -> String {
    ran.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_setting_is_in_force_in_turns_and_put_back_however_the_run_ends() {
    let _turn = together().changing_the_host();
    let Some((before, other)) = another() else {
        return skip("huge pages cannot be set here");
    };
    let tuning = format!("huge-pages={other}");
    for (signal, code) in [
        (None, Some(0)),
        (Some(Signal::INT), Some(130)),
        (Some(Signal::KILL), None),
    ] {
        let place = Place::new();
        let running = begun(&place, &tuning);
        assert!(becomes(other, Duration::from_secs(10)), "never in force");
        if let Some(signal) = signal {
            running.signal(signal);
        } else {
            assert!(
                becomes(&before, Duration::from_secs(10)),
                "A has it as it was"
            );
        }
        let ran = running.wait(Duration::from_secs(30));
        assert_eq!(ran.code, code, "{}", ran.said());
        assert!(
            becomes(&before, Duration::from_secs(5)),
            "{signal:?}: not put back"
        );
    }
}

/// Memory that a process has stays as it was handed out: one that served B's turn and then A's would
/// compare B with itself.
#[test]
fn each_turn_has_a_server_of_its_own_with_the_huge_pages_of_its_setting() {
    let _turn = busily().changing_the_host();
    let Some((before, _)) = another() else {
        return skip("huge pages cannot be set here");
    };
    let value = match before.as_str() {
        "always" => "never",
        _ => "always",
    };
    let tuning = format!("huge-pages={value}");
    let url = format!("http://subject:{}/simple", free_port());
    let place = Place::new();
    let args = [
        "ab",
        "--subject",
        "catalogue --products 8000",
        &url,
        "-c",
        "4",
        "-d",
        "900ms",
        "--rounds",
        "3",
        "--tune-b",
        &tuning,
        "-q",
    ];
    let ran = place.run(&args).ends_with(0);
    let record = place.record();
    let steps = json_at(&record, "/steps").as_array().unwrap();
    let pid = |step: &Value| json_at(step, "/telemetry/server/pids/0").as_u64().unwrap();
    let pids: BTreeSet<u64> = steps.iter().map(pid).collect();
    assert_eq!(pids.len(), 6, "each turn has its own: {pids:?}");
    let sign = json_at(&record, "/ab/signs/0");
    assert_eq!(sign["setting"], tuning.as_str());
    assert_eq!(sign["kind"], "huge-bytes");
    let [a, b] = seen(&record);
    let (with, without) = match value {
        "always" => (&b, &a),
        _ => (&a, &b),
    };
    if with.contains(&0.0) {
        return skip("the kernel had no huge page to give");
    }
    let most = without.iter().copied().fold(0.0, f64::max);
    assert!(with.iter().all(|bytes| *bytes > most), "{a:?}, {b:?}");
    assert_eq!(sign["acted"], true, "{sign:#}");
    assert!(words(&ran).contains("in huge pages, A"), "{}", ran.out);
}

#[test]
fn a_setting_that_changes_nothing_is_not_told_as_no_difference() {
    let _turn = busily().changing_the_host();
    let is_off = fs::read_to_string(FLOWS).is_ok_and(|flows| flows.trim() == "0");
    if !is_root() || !is_off || fs::write(FLOWS, "0").is_err() {
        return skip("it needs root, and a host that steers no flows");
    }
    let double = Double::plain();
    let place = Place::new();
    let url = double.url("/");
    let args = [
        "ab", &url, "-c", "2", "-d", "1s", "--rounds", "3", "--tune-b", "rfs=0", "-q",
    ];
    let ran = place.run(&args).ends_with(0);
    let record = place.record();
    let sign = json_at(&record, "/ab/signs/0");
    assert_eq!(sign["kind"], "steered");
    assert_eq!(sign["acted"], false, "{sign:#}");
    let said = words(&ran);
    assert!(said.contains("rfs=0 did not act here"), "{said}");
    assert!(!said.contains("o difference shown"), "{said}");
}

#[test]
fn receive_work_is_steered_on_a_link_of_ours() {
    let _turn = busily().changing_the_host();
    let tools = program("ip").is_some() && program("tc").is_some();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if !is_root() || !tools || cpus < 2 || subjects().is_none() {
        return skip("it needs root, two processors, and ip and tc of iproute2");
    }
    let place = Place::new();
    let url = format!("http://subject:{}/simple", free_port());
    let args = [
        "ab",
        "--subject",
        "catalogue",
        "--link",
        "1gbit",
        &url,
        "-c",
        "8",
        "-d",
        "900ms",
        "--rounds",
        "3",
        "--tune-b",
        "rps=0",
        "-q",
    ];
    let ran = place.run(&args).ends_with(0);
    let record = place.record();
    let [a, b] = seen(&record);
    let most = a.iter().copied().fold(0.0, f64::max);
    assert!(b.iter().all(|times| *times > most), "{a:?}, {b:?}");
    assert_eq!(json_at(&record, "/ab/signs/0/acted"), true);
    assert!(words(&ran).contains("B had receive work handed over"));
}

#[test]
fn what_cannot_act_is_said_to_be_not_applicable() {
    let place = Place::new();
    let double = Double::plain();
    let args = ["ab", &double.url("/"), "-d", "1s", "-q", "--tune-b"];
    let ran = place.run(&[&args[..], &["irq-affinity=0"]].concat());
    let ran = ran.ends_with(1);
    assert!(ran.err.contains("not applicable"), "{}", ran.err);
    let ran = place.run(&[&args[..], &["swappiness=1"]].concat());
    assert!(ran.ends_with(2).err.contains("huge-pages"));
    // What a process has from its start takes one that is ours to start.
    for tuning in ["huge-pages=always", "busy-poll=50"] {
        let ran = place.run(&[&args[..], &[tuning]].concat()).ends_with(2);
        assert!(ran.err.contains("--subject"), "{}", ran.err);
        let args = ["ab", "--subject", "catalogue", "http://subject:0/simple"];
        let ran = place.run(&[&args[..], &["--tune-b", tuning]].concat());
        let ran = ran.ends_with(2);
        assert!(ran.err.contains("name a free port"), "{}", ran.err);
    }
    if subjects().is_some() {
        let url = format!("http://subject:{}/simple", free_port());
        let args = ["ab", "--subject", "catalogue", &url, "-d", "1s", "-q"];
        let ran = place.run(&[&args[..], &["--tune-b", "busy-poll=50"]].concat());
        let ran = ran.ends_with(1);
        assert!(ran.err.contains("not applicable"), "{}", ran.err);
    }
}
