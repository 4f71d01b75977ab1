//! A hostile or failing server: each failure in its class, the run goes on, nothing hangs.

use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{Double, Place, Ran, assert_balanced, together};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn run(place: &Place, double: &Double, more: &[&str]) -> (Ran, Value) {
    let url = double.url("/");
    let mut args = vec![
        "run",
        &url,
        "-c",
        "2",
        "--warmup",
        "0s",
        "-q",
        "--no-calibrate",
    ];
    if !more.contains(&"-d") {
        args.extend(["-d", "500ms"]);
    }
    args.extend(more);
    let ran = place.run(&args);
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
    let step = place.step();
    // Whether anything was answered well decides how it ends.
    let code = i32::from(step["counts"]["answered"] == 0);
    (ran.ends_with(code), step)
}

fn failed(step: &Value, class: &str) -> u64 {
    step["counts"]["failed"][class].as_u64().unwrap_or(0)
}

/// Failures of a class, of requests and of connections that no request was on.
fn met(step: &Value, class: &str) -> u64 {
    failed(step, class)
        + step["counts"]["connect_failures"][class]
            .as_u64()
            .unwrap_or(0)
}

#[test]
fn refusals_of_the_server_are_failures_not_throughput() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        while peer.request().is_some() {
            let answer = match peer.served % 4 {
                0 => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
                2 => "HTTP/1.1 404 Gone\r\nContent-Length: 2\r\n\r\nno",
                _ => OK,
            };
            if !peer.say(answer) {
                return;
            }
        }
    });
    let (ran, step) = run(&place, &double, &[]);
    let answered = step["counts"]["answered"].as_u64().unwrap();
    for class in ["status.5xx", "status.4xx"] {
        let share = failed(&step, class) as f64 / answered.max(1) as f64;
        assert!((0.4..0.6).contains(&share), "{class}: {}", step["counts"]);
        assert!(ran.out.contains(class), "{}", ran.out);
    }
    let seconds = step["window_ns"].as_f64().unwrap() / 1e9;
    let ratio = step["throughput"].as_f64().unwrap() * seconds / answered as f64;
    assert!(
        (0.95..1.05).contains(&ratio),
        "throughput is of good answers alone: {ratio}"
    );
    assert_balanced(&step);
}

#[test]
fn broken_answers_are_counted_by_class_and_the_run_goes_on() {
    let _turn = together();
    let long_head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "y".repeat(400 << 10));
    let cases: Vec<(&str, String)> = vec![
        ("h1.status", "HTTZ/1.1 200 OK\r\n\r\n".into()),
        ("h1.status", "HTTP/1.1 99999 OK\r\n\r\n".into()),
        ("h1.head_limit", long_head),
        (
            "h1.head",
            "HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n".into(),
        ),
        (
            "h1.head",
            "HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 0\r\n\r\n".into(),
        ),
        (
            "h1.length",
            "HTTP/1.1 200 OK\r\nContent-Length: 42s\r\n\r\n".into(),
        ),
        (
            "h1.length",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".into(),
        ),
        (
            "h1.length",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n".into(),
        ),
        (
            "h1.length",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc".into(),
        ),
        (
            "h1.framing",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13, chunked\r\n\r\n0\r\n\r\n".into(),
        ),
        (
            "h1.chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n".into(),
        ),
        (
            "h1.chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n".into(),
        ),
        ("h1.unsolicited", format!("{OK}{OK}")),
        (
            "h1.interim",
            format!("{}{OK}", "HTTP/1.1 100 Continue\r\n\r\n".repeat(40)),
        ),
    ];
    let mut wrong = Vec::new();
    for (class, broken) in cases {
        let place = Place::new();
        let shown: String = broken.chars().take(80).collect();
        let double = Double::start(move |peer| {
            while peer.request().is_some() {
                let answer = if peer.served == 3 {
                    broken.as_str()
                } else {
                    OK
                };
                if !peer.say(answer) {
                    return;
                }
            }
        });
        let (ran, step) = run(&place, &double, &["-d", "400ms"]);
        let answered = step["counts"]["answered"].as_u64().unwrap();
        if met(&step, class) < 2 || answered < 4 || !ran.out.contains(class) {
            let said = ran.said();
            wrong.push(format!("{class}, {shown:?}: {}\n{said}", step["counts"]));
        }
        assert_balanced(&step);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_answer_that_ends_early_is_none() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        while peer.request().is_some() {
            let whole = peer.served < 3;
            if !peer.say(if whole { OK } else { &OK[..OK.len() - 2] }) || !whole {
                return;
            }
        }
    });
    let (_, step) = run(&place, &double, &[]);
    assert!(failed(&step, "h1.truncated") >= 2, "{}", step["counts"]);
    assert_balanced(&step);
}

/// When a connection is reset decides what is said of the request on it.
#[test]
fn resets_are_told_apart_by_when_they_come() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        peer.will_reset();
        peer.request();
    });
    let (_, step) = run(&place, &double, &[]);
    assert!(failed(&step, "net.reset.wait") > 0, "{}", step["counts"]);
    assert_balanced(&step);

    let double = Double::start(|peer| {
        peer.will_reset();
        if peer.request().is_some() {
            peer.say(&OK[..OK.len() - 2]);
            // What was said is read before the end is heard of.
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (_, step) = run(&place, &double, &[]);
    assert!(failed(&step, "net.reset.body") > 0, "{}", step["counts"]);
    assert_eq!(step["counts"]["answered"], 0);
    assert_balanced(&step);
}

/// A server that gives idle connections up meets a request that is already on its way: that is no
/// failure of the server's work, and is told apart.
#[test]
fn requests_on_connections_that_are_given_up_meanwhile_are_a_class_of_their_own() {
    let _turn = together();
    let place = Place::new();
    for resets in [false, true] {
        let double = Double::start(move |peer| {
            if resets {
                peer.will_reset();
            }
            if peer.request().is_some() && peer.say(OK) {
                peer.request();
            }
        });
        let (_, step) = run(&place, &double, &["--think", "20ms"]);
        let stale = failed(&step, "net.stale_reuse");
        assert!(stale > 0, "{}", step["counts"]);
        let answered = step["counts"]["answered"].as_u64().unwrap();
        assert!(answered.abs_diff(stale) <= 4, "{}", step["counts"]);
        assert_balanced(&step);
    }
}

#[test]
fn a_server_that_hangs_up_is_not_called_in_a_hot_loop() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        peer.request();
    });
    let (_, step) = run(&place, &double, &["-d", "1s"]);
    assert_eq!(step["counts"]["answered"], 0);
    assert!(failed(&step, "net.closed.wait") > 0, "{}", step["counts"]);
    assert!(
        double.connections() < 300,
        "{} connections in a second",
        double.connections()
    );
}

#[test]
fn a_server_that_restarts_costs_failures_of_a_class_and_nothing_else() {
    let _turn = together();
    let place = Place::new();
    let double = Double::plain();
    let (url, port) = (double.url("/"), double.port());
    let args = [
        "run",
        &url,
        "-c",
        "4",
        "-d",
        "2500ms",
        "--warmup",
        "0s",
        "-q",
        "--no-calibrate",
    ];
    let running = place.start(&args);
    double.await_requests(100);
    std::thread::sleep(Duration::from_millis(300));
    drop(double);
    std::thread::sleep(Duration::from_millis(400));
    let again = Double::start_on(
        port,
        |peer| while peer.request().is_some() && peer.say(OK) {},
    );
    running.wait(Duration::from_secs(20)).ends_with(0);
    let step = place.step();
    assert_balanced(&step);
    assert!(again.requests() > 0, "the run was to find the new server");
    let counts = &step["counts"];
    let classes: Vec<&String> = counts["failed"]
        .as_object()
        .unwrap()
        .keys()
        .chain(counts["connect_failures"].as_object().unwrap().keys())
        .collect();
    assert!(!classes.is_empty(), "a restart leaves traces: {counts}");
    assert!(
        classes
            .iter()
            .all(|class| class.starts_with("net.") || *class == "h1.truncated"),
        "{classes:?}"
    );
    assert!(
        counts["connect_failures"]["net.refused"]
            .as_u64()
            .unwrap_or(0)
            + failed(&step, "net.refused")
            < 2_000,
        "connections are tried again with a pause: {counts}"
    );
    let slices = step["intervals"].as_array().unwrap();
    assert!(
        slices.last().unwrap()["answered"].as_u64().unwrap() > 0,
        "it goes on to the end"
    );
}

#[test]
fn silence_from_the_start_ends_with_the_window() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| while peer.request().is_some() {});
    let (ran, step) = run(&place, &double, &["--timeout", "5s"]);
    assert_eq!(step["counts"]["answered"], 0);
    // The drain may last as long as the deadline of what is in flight, not longer.
    assert!(ran.took < Duration::from_secs(8), "{:?}", ran.took);
    assert_balanced(&step);
}

#[test]
fn an_open_loop_goes_on_through_silence() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| while peer.request().is_some() {});
    let (_, step) = run(
        &place,
        &double,
        &["-R", "200", "--timeout", "300ms", "-d", "1s"],
    );
    let scheduled = step["counts"]["scheduled"].as_u64().unwrap();
    assert!(
        (150..=250).contains(&scheduled),
        "{scheduled} were to start"
    );
    assert!(failed(&step, "timeout.total") > 20, "{}", step["counts"]);
    assert_balanced(&step);
}
