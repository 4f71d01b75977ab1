//! Servers that end each connection after one answer: with connections open on which nothing is sent, their
//! workers would wait for the load generator, and what is squeezed would be another thing than it is called.

use serde_json::Value;
use wallfinder_tests::{Place, alone, free_port, quietly, skip, squeezed};

const SERVER: &str = env!("CARGO_BIN_EXE_closing-server");

/// What `find` records of 16 connections at such a server, each side on a processor of its own.
fn found(place: &Place, server: &str) -> Value {
    let port = free_port();
    let subject = format!("{SERVER} {port} {server}");
    let url = format!("http://subject:{port}/");
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        "250ms",
        "--warmup",
        "300ms",
        "-d",
        "1s",
        "-c",
        "16",
        "-q",
        "--no-calibrate",
        "--server-cpus",
        "0",
        "--client-cpus",
        "1",
        "--subject",
        &subject,
        &url,
    ];
    place.run(&args).ends_with(0);
    let run = place
        .runs()
        .into_iter()
        .find(|run| run.to_string_lossy().contains("find"));
    place.record_of(&run.expect("a run of find"))
}

/// The middle of the throughput of windows, with nothing squeezed or with this.
fn middle(step: &Value, squeeze: Option<&str>) -> f64 {
    middle_of(step, squeeze, |_| 1.0)
}

/// The same of windows as at one pace of the server's processors, which a shared machine changes by a third.
fn middle_at_one_pace(step: &Value, squeeze: Option<&str>) -> f64 {
    let pace = |window: &Value| window["server_reference_ns"].as_f64();
    middle_of(step, squeeze, |window| pace(window).unwrap_or(1.0))
}

fn middle_of(step: &Value, squeeze: Option<&str>, weight: impl Fn(&Value) -> f64) -> f64 {
    let experiment = &step["experiment"];
    let windows = experiment["windows"].as_array().unwrap();
    let is_of = |window: &&Value| {
        let condition = window["condition"].as_u64().unwrap() as usize;
        experiment["conditions"][condition]["squeeze"].as_str() == squeeze
    };
    let mut rates: Vec<f64> = windows
        .iter()
        .filter(is_of)
        .map(|window| window["throughput"].as_f64().unwrap() * weight(window))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// No alarm of Little's law, and windows that go as fast as the load before them.
#[track_caller]
fn holds(step: &Value) {
    let before = step["throughput"].as_f64().unwrap();
    for squeeze in [None, Some("in-flight"), Some("client-speed")] {
        let ratio = middle(step, squeeze) / before;
        assert!(
            (0.6..1.5).contains(&ratio),
            "{squeeze:?}: {ratio} of {before}/s"
        );
    }
    let law = step["experiment"]["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|window| {
            let number = |name: &str| window[name].as_f64().unwrap();
            number("in_flight_mean") / (number("throughput") * number("latency_mean_ns") / 1e9)
        });
    let mut law: Vec<f64> = law.collect();
    law.sort_by(f64::total_cmp);
    let law = law[law.len() / 2];
    assert!((0.7..1.3).contains(&law), "N over X·R is {law}");
}

fn may_pin() -> bool {
    let may = rustix::process::geteuid().is_root()
        && std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    if !may {
        skip("it needs root, and two processors");
    }
    may
}

#[test]
fn a_pool_of_workers_that_close_is_not_called_too_little_in_flight() {
    let _turn = quietly();
    if !may_pin() {
        return;
    }
    for server in ["4 sleep 10", "4 sleep 10 1.0"] {
        let place = Place::new();
        let record = found(&place, server);
        let step = squeezed(&record);
        holds(step);
        let wall = step["verdict"]["wall"].as_str().unwrap();
        assert!(
            ["wait", "inconclusive"].contains(&wall),
            "{}",
            step["verdict"]
        );
    }
}

#[test]
fn a_busy_server_that_closes_is_squeezed_like_any_other() {
    let _turn = alone();
    if !may_pin() {
        return;
    }
    let place = Place::new();
    let record = found(&place, "1 spin 1");
    let step = squeezed(&record);
    holds(step);
    let wall = step["verdict"]["wall"].as_str().unwrap();
    assert!(
        ["server-cpu", "server-serial", "inconclusive"].contains(&wall),
        "{}",
        step["verdict"]
    );
    // With its processor slowed by a fifth it answers a fifth less, as far as this short look can tell.
    let slowed = middle_at_one_pace(step, Some("server-speed")) / middle_at_one_pace(step, None);
    assert!(slowed < 0.93, "{slowed}");
}
