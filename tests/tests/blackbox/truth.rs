//! What the counts must not hide: answers after their deadline, requests without an answer, a server that dies.

use std::thread::sleep;
use std::time::Duration;

use crate::reach::three_hundred_curls;
use wallfinder_tests::{Double, Place, alone, program, skip, together};

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const QUIET: [&str; 4] = ["--warmup", "0s", "--no-calibrate", "-q"];

/// Answers each request after a time, of which every twentieth has one of its own.
fn slow(usual: Duration, twentieth: Duration) -> Double {
    let turn = std::sync::atomic::AtomicU64::new(0);
    Double::start(move |peer| {
        while peer.request().is_some() {
            let turn = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            sleep(if turn % 20 == 7 { twentieth } else { usual });
            if !peer.say(GOOD) {
                return;
            }
        }
    })
}

#[test]
fn answers_after_their_deadline_are_timeouts() {
    let _turn = together();
    let place = Place::new();
    let after = Duration::from_millis(20);
    let (double, load) = (slow(after, after), ["-c", "4", "-d", "600ms"]);
    let url = double.url("/sleep/20");
    let args = [&["run", &url, "--timeout", "15ms"], &load[..], &QUIET].concat();
    let ran = place.run(&args).ends_with(1);
    let counts = &place.step()["counts"];
    assert_eq!(counts["answered"], 0, "{counts}");
    assert!(ran.err.contains("timeout.total"), "{}", ran.err);
    // In time, the same load is good.
    let args = [&["run", &url, "--timeout", "2s"], &load[..], &QUIET].concat();
    place.run(&args).ends_with(0);
    assert_eq!(place.step()["counts"]["failed"].to_string(), "{}");
}

/// A connection for each request: most of the bytes on the link are headers, which are none of the answers'.
#[test]
fn answers_counted_on_the_wire_are_those_that_were_given() {
    let _turn = alone();
    if program("curl").is_none() {
        return skip("it needs curl");
    }
    let (place, double) = (Place::new(), Double::plain());
    let script = three_hundred_curls(&place);
    let driver = format!("sh {} {{url}}", script.display());
    place
        .run(&["run", &double.url("/"), "-q", "--driver", &driver])
        .ends_with(0);
    let step = place.step();
    assert_eq!(step["driver"]["throughput_from"], "wire");
    let slices = step["intervals"].as_array().cloned().unwrap_or_default();
    let answered = slices.iter().filter_map(|slice| slice["answered"].as_f64());
    let answered: f64 = answered.sum();
    assert!((answered / 300.0 - 1.0).abs() < 0.2, "{answered} of 300");
}

#[test]
fn requests_without_an_answer_are_told_and_percentiles_are_lower_bounds() {
    let _turn = together();
    let place = Place::new();
    let double = slow(Duration::ZERO, Duration::from_millis(2800));
    let url = double.url("/");
    let load = ["-c", "200", "-R", "100", "-d", "1500ms"];
    let args = [&["run", &url], &load[..], &QUIET].concat();
    let with = |more: &[&str]| place.run(&[&args[..], more].concat());
    let ran = with(&["--drain", "300ms"]).ends_with(0);
    assert!(ran.out.contains("had no answer"), "{}", ran.out);
    assert!(ran.out.contains('≥'), "{}", ran.out);
    let drained = &place.step()["drained"];
    assert!(drained["in_flight"].as_u64().unwrap() >= 3, "{drained}");
    assert!(
        drained["oldest_ns"].as_u64().unwrap() > 1_000_000_000,
        "{drained}"
    );
    let csv = with(&["--drain", "300ms", "--format", "csv"])
        .ends_with(0)
        .out;
    let (heads, row) = csv.split_once("\r\n").expect("a row of heads");
    let at = heads
        .split(',')
        .position(|head| head == "latency_lower_bounds");
    let bounds = row.split(',').nth(at.expect("a column")).unwrap();
    assert!(bounds.contains("p99"), "{bounds}");
    let page = std::fs::read_to_string(place.last_run().join("report.html")).unwrap();
    assert!(page.contains('≥') && page.contains("had no answer"));
    // Nobody knows that it was kept.
    let ran = with(&["--drain", "300ms", "--threshold", "p99<1s"]).ends_with(3);
    assert!(ran.said().contains("had no answer"), "{}", ran.said());
    // Who waits for them knows how long they took.
    let ran = with(&["--drain", "8s", "--threshold", "p99<1s"]).ends_with(3);
    assert!(!ran.out.contains('≥'), "{}", ran.out);
    let step = place.step();
    assert_eq!(step["drained"]["in_flight"], 0);
    let p99 = step["latency"]["quantiles_ns"]["p99"].as_u64().unwrap();
    assert!(p99 > 2_700_000_000, "{p99}");
}

#[test]
fn a_server_that_dies_is_missed_by_thresholds_and_is_no_wall() {
    let _turn = together();
    for open in [false, true] {
        let (place, double) = (Place::new(), slow(Duration::ZERO, Duration::ZERO));
        let url = double.url("/");
        let loop_of: &[&str] = if open { &["-R", "300"] } else { &[] };
        let thresholds = ["--threshold", "errors<1%", "--threshold", "unavailable<1%"];
        let load = [&["run", &url, "-c", "4", "-d", "2500ms"], loop_of].concat();
        let running = place.start(&[&load[..], &thresholds, &QUIET].concat());
        sleep(Duration::from_millis(1200));
        drop(double);
        let ran = running.wait(Duration::from_secs(60)).ends_with(3);
        let said = ran.said();
        for threshold in ["errors<1%: breached", "unavailable<1%: breached"] {
            assert!(said.contains(threshold), "{said}");
        }
        assert!(said.contains("could not be reached"), "{said}");
        let step = place.step();
        assert_eq!(step["verdict"]["wall"], "inconclusive", "{said}");
        let [outage] = &step["outages"].as_array().unwrap()[..] else {
            panic!("{}", step["outages"]);
        };
        let (at, long) = (outage["at_ns"].as_u64(), outage["for_ns"].as_u64());
        let end = at.unwrap() + long.unwrap();
        assert!(end.abs_diff(2_500_000_000) < 100_000_000, "{outage}");
        assert!(long.unwrap() > 500_000_000, "{outage}");
    }
}

#[test]
fn connections_that_never_opened_are_told() {
    let _turn = together();
    let place = Place::new();
    let open = std::sync::atomic::AtomicU64::new(0);
    let double = Double::start(move |peer| {
        if open.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 5 {
            open.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            return;
        }
        while peer.request().is_some() && peer.say(GOOD) {
            sleep(Duration::from_millis(1));
        }
        open.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    });
    let url = double.url("/");
    let args = [&["run", &url, "-c", "50", "-d", "800ms"], &QUIET[..]].concat();
    let ran = place.run(&args);
    assert!(
        ran.out.contains("50 connections were asked for"),
        "{}",
        ran.out
    );
    let open = &place.step()["open_connections"];
    assert!(open["answering"].as_u64().unwrap() <= 8, "{open}");
}
