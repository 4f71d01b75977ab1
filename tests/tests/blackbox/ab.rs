//! Levers of `ab`: what is given for B is there in B's turns, and in no other.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::profiles::observed;
use serde_json::Value;
use wallfinder_tests::{
    Double, Place, alone, busily, json_at, may_set_quotas, ratio_of, skip, subjects, together,
};

/// The steps of a record, and whether each is of B.
#[track_caller]
fn turns(record: &Value) -> Vec<(&Value, bool)> {
    let steps = json_at(record, "/steps").as_array().unwrap();
    let order = json_at(record, "/ab/order").as_array().unwrap();
    assert_eq!(steps.len(), order.len(), "{:#}", record["caveats"]);
    let is_b = order.iter().map(|turn| turn[1].as_bool().unwrap());
    steps.iter().zip(is_b).collect()
}

#[test]
fn a_header_connections_and_depth_of_b_are_its_own() {
    let _turn = together();
    let place = Place::new();
    // Ten bytes, and a hundred times as many where they are asked for.
    let double = Double::start(|peer| {
        while let Some(request) = peer.request() {
            let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let bytes = match request.contains("\r\nx-large: yes\r\n") {
                true => 1_000,
                false => 10,
            };
            let body = "x".repeat(bytes);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            if !peer.say(head + &body) {
                return;
            }
        }
    });
    let url = double.url("/");
    let args = [
        "ab",
        &url,
        "--header-b",
        "X-Large: yes",
        "-c",
        "2",
        "--connections-b",
        "4",
        "--pipeline-b",
        "3",
        "--rounds",
        "3",
        "-d",
        "900ms",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    let ab = &record["ab"];
    assert_eq!(ab["a"], "without X-Large, 2 connections, depth 1");
    assert_eq!(ab["b"], "with X-Large, 4 connections, depth 3");
    for (step, is_b) in turns(&record) {
        let (connections, depth, bytes) = match is_b {
            true => (4, 3, 1_000.0),
            false => (2, 1, 10.0),
        };
        let load = &step["load"];
        assert_eq!(load["connections"], connections, "{load:#}");
        assert_eq!(load["in_flight_per_connection"], depth, "{load:#}");
        let count = |name: &str| step["counts"][name].as_f64().unwrap();
        let each = count("body_bytes") / count("answered");
        assert!((each / bytes - 1.0).abs() < 0.05, "{each} bytes, B: {is_b}");
    }
}

#[test]
fn answers_gather_in_a_and_are_taken_one_by_one_in_b() {
    let _turn = together();
    let place = Place::new();
    // One request at a time is served, so that forty connections queue.
    let served = Mutex::new(());
    let double = Double::start(move |peer| {
        while peer.request().is_some() {
            let _turn = served.lock().unwrap();
            thread::sleep(Duration::from_micros(100));
            if !peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
                return;
            }
        }
    });
    let url = double.url("/");
    let args = [
        "ab",
        &url,
        "--no-batching-b",
        "-c",
        "40",
        "-t",
        "1",
        "--rounds",
        "3",
        "-d",
        "1200ms",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["a"], "answers may gather");
    assert_eq!(record["ab"]["b"], "one by one");
    for (step, is_b) in turns(&record) {
        assert_eq!(step["load"]["no_batching"].as_bool().unwrap_or(false), is_b);
        let gathers = !is_b && step["driver"]["io"] == "io_uring";
        let ns = json_at(step, "/workers/0/batching_ns").as_u64().unwrap();
        assert_eq!(ns > 0, gathers, "{ns} ns, B: {is_b}, {}", step["driver"]);
    }
}

#[test]
fn requests_of_a_mix_are_compared_by_name() {
    let _turn = together();
    let place = Place::new();
    // One of them waits for as long as B's field says.
    let double = Double::start(|peer| {
        while let Some(request) = peer.request() {
            let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let is_late = request.contains("get /report") && request.contains("x-late");
            thread::sleep(Duration::from_millis(if is_late { 12 } else { 2 }));
            if !peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
                return;
            }
        }
    });
    place.file(
        "mix.toml",
        "[[request]]\nname = \"item\"\nget = \"/item\"\n[[request]]\nname = \"report\"\nget = \"/report\"\n",
    );
    let url = double.url("/");
    let args = [
        "ab",
        &url,
        "--traffic",
        "mix.toml",
        "--header-b",
        "x-late: yes",
        "-c",
        "4",
        "--rounds",
        "3",
        "-d",
        "6s",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    let ratio = |name: &str| ratio_of(&record, name)["ratio"].as_f64().unwrap();
    let (item, report) = (ratio("p50 of item"), ratio("p50 of report"));
    assert!(report > 2.0 * item, "{item} and {report}");
}

#[test]
fn a_subject_with_another_environment_and_another_driver_take_turns() {
    let _turn = busily();
    let Some(subjects) = subjects() else { return };
    let place = Place::new();
    let driver = format!(
        "{}/knownwall-client -c {{connections}} -d {{duration}} {{url}}",
        subjects.display()
    );
    let args = [
        "ab",
        "--subject",
        "GOMAXPROCS=2 catalogue",
        "--subject-b",
        "GOMAXPROCS=3 catalogue",
        "--driver-b",
        &driver,
        "-c",
        "4",
        "--rounds",
        "3",
        "-d",
        "3s",
        "-q",
        "http://subject:0/simple",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["a"], "GOMAXPROCS=2 catalogue, wallfinder");
    let b = record["ab"]["b"].as_str().unwrap();
    assert!(b.starts_with("GOMAXPROCS=3 catalogue, "), "{b}");
    for (step, is_b) in turns(&record) {
        let server = json_at(step, "/telemetry/server");
        let processors = if is_b { 3 } else { 2 };
        assert_eq!(server["gomaxprocs"], processors, "{server:#}");
        let command = step["driver"]["command"].as_str();
        let is_theirs = command.is_some_and(|command| command.contains("knownwall-client"));
        assert_eq!(is_theirs, is_b, "{}", step["driver"]);
        assert_eq!(step["driver"]["name"] == "wallfinder", !is_b);
        assert!(step["throughput"].as_f64() > Some(100.0), "B: {is_b}");
    }
}

#[test]
fn a_quota_of_b_halves_what_it_answers() {
    let _turn = alone();
    if subjects().is_none() || !may_set_quotas() {
        return;
    }
    let place = Place::new();
    let args = [
        "ab",
        "--subject",
        "knownwall --spin-us 500",
        "--server-quota-b",
        "0.5",
        "-c",
        "4",
        "--rounds",
        "3",
        "-d",
        "1500ms",
        "-q",
        "http://subject:0/",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["a"], "no quota");
    assert_eq!(record["ab"]["b"], "0.5 processors' quota");
    for (step, is_b) in turns(&record) {
        let quota = json_at(step, "/telemetry/server/quota_cores").as_f64();
        assert_eq!(quota == Some(0.5), is_b, "{quota:?}");
    }
    let throughput = ratio_of(&record, "throughput");
    let ratio = throughput["ratio"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&ratio), "{throughput:#}");
}

/// One in twenty would be shown by chance.
#[test]
fn a_server_does_not_differ_from_itself() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let args = [
        "ab",
        "--subject",
        "knownwall --spin-us 200",
        "-c",
        "16",
        "--rounds",
        "4",
        "-d",
        "2s",
        "-q",
        "http://subject:0/",
    ];
    for attempts_left in [1, 0] {
        let place = Place::new();
        let ran = place.run(&args).ends_with(0);
        let record = place.record();
        assert_eq!(record["ab"]["a"], "the same as the other");
        assert_eq!(record["ab"]["b"], "the same as the other");
        assert_eq!(turns(&record).len(), 8);
        let throughput = ratio_of(&record, "throughput");
        let ratio = throughput["ratio"].as_f64().unwrap();
        let differs = throughput["differs"].as_bool().unwrap();
        if !differs && (0.9..1.1).contains(&ratio) {
            let words: Vec<&str> = ran.out.split_whitespace().collect();
            let said = words.join(" ");
            assert!(said.contains("No difference shown"), "{}", ran.out);
            return;
        }
        assert!(attempts_left > 0, "twice: {throughput:#}");
    }
}

/// A bound on cost is one question, with an answer of its own: met, not met, or not decided.
#[test]
fn a_bound_on_cost_is_met_by_what_is_equal_and_not_by_what_is_slow() {
    let _turn = together();
    let double = Double::start(|peer| {
        while let Some(request) = peer.request() {
            let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
            // It waits, so that what else the machine does is no matter.
            let is_slow = request.contains("\r\nx-slow: yes\r\n");
            thread::sleep(Duration::from_millis(if is_slow { 20 } else { 4 }));
            if !peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
                return;
            }
        }
    });
    let url = double.url("/");
    let args = [
        "ab", &url, "-c", "2", "--rounds", "6", "-d", "1200ms", "--warmup", "50ms", "-q",
    ];
    for (more, outcome, says) in [
        (
            ["--at-most-cost", "10%", "--header-b", "X-Slow: yes"],
            "not-met",
            "B costs more than 10 % of A's throughput",
        ),
        (
            ["--at-most-cost", "50%", "--header-b", "X-Slow: no"],
            "shown",
            "B costs at most 50 % of A's throughput: shown",
        ),
    ] {
        let place = Place::new();
        let ran = place.run(&[&args[..], &more].concat()).ends_with(0);
        let record = place.record();
        assert_eq!(record["ab"]["at_most_cost"]["outcome"], outcome);
        let words: Vec<&str> = ran.out.split_whitespace().collect();
        assert!(words.join(" ").contains(says), "{}", ran.out);
    }
    let place = Place::new();
    let open_loop = ["--at-most-cost", "2%", "-R", "100"];
    place.run(&[&args[..], &open_loop].concat()).ends_with(2);
}

#[test]
fn a_trace_is_taken_in_bs_turns_alone() {
    let _turn = busily();
    if subjects().is_none() {
        return;
    }
    let place = Place::new();
    place.run(&observed("2400ms", "trace")).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["b"], "looked into by trace");
    for (step, is_b) in turns(&record) {
        assert_eq!(step["profiles"].is_object(), is_b);
        if is_b {
            let files = json_at(step, "/profiles/files").as_array().unwrap();
            let names: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
            let is_trace = |name: &&str| name.contains("trace") && name.ends_with(".out");
            assert!(names.len() == 1 && names.iter().all(is_trace), "{names:?}");
        }
    }
}

#[test]
fn the_client_is_looked_into_in_bs_turns_alone() {
    let _turn = busily();
    if subjects().is_none() || !rustix::process::geteuid().is_root() {
        return skip("it needs root, and the subjects");
    }
    let place = Place::new();
    let ran = place.run(&observed("2400ms", "client"));
    if ran.code == Some(1) && ran.err.contains("cannot be sampled") {
        return skip(&ran.err);
    }
    ran.ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["a"], "its client not looked into");
    assert_eq!(record["ab"]["b"], "its client looked into");
    for (step, is_b) in turns(&record) {
        assert_eq!(step["client_profiles"].is_object(), is_b);
        assert!(!step["profiles"].is_object(), "nobody asked for the server");
    }
}
