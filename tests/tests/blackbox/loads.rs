//! Loads as they arrive at the server: how many, how fast, byte for byte.

use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{
    Double, Place, alone, busily, free_port, json_at, program, quietly, skip, subjects, together,
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn number(value: &Value, pointer: &str) -> f64 {
    json_at(value, pointer).as_f64().expect(pointer)
}

fn failures(step: &Value) -> String {
    format!(
        "{} {}",
        step["counts"]["failed"], step["counts"]["connect_failures"]
    )
}

#[test]
fn a_counted_load_is_exactly_as_many_requests() {
    let _turn = together();
    let shapes: [&[&str]; 4] = [
        &["-c", "1"],
        &["-c", "3", "-t", "2"],
        &["-c", "2", "--pipeline", "7"],
        &["-c", "4", "-R", "5k"],
    ];
    for shape in shapes {
        let (place, double) = (Place::new(), Double::plain());
        let url = double.url("/");
        let args = [&["run", &url, "-n", "333", "--no-calibrate", "-q"], shape].concat();
        place.run(&args).ends_with(0);
        assert_eq!(double.requests(), 333, "{shape:?}");
        let step = place.step();
        assert_eq!(step["counts"]["answered"], 333, "{shape:?}");
        // What was to start before the window opened stands in an interval of its own.
        let slices = step["intervals"].as_array().unwrap();
        let due: f64 = slices.iter().map(|slice| number(slice, "/scheduled")).sum();
        assert_eq!(due, 333.0, "{shape:?}");
    }
}

#[test]
fn an_open_loop_offers_its_rate_and_a_low_one_is_the_wall_itself() {
    let _turn = quietly();
    for more in [&[][..], &["--poisson"]] {
        let (place, double) = (Place::new(), Double::plain());
        let url = double.url("/");
        let args = [
            "run", &url, "-R", "300", "-c", "8", "-d", "1500ms", "--warmup", "200ms", "-q",
        ];
        place.run(&[&args, more].concat()).ends_with(0);
        let step = place.step();
        // 450 are to start; Poisson's own spread is 21 of them.
        let ratio = number(&step, "/throughput") / 300.0;
        assert!(
            (0.75..1.25).contains(&ratio),
            "{more:?}: {ratio} of the rate"
        );
        assert_eq!(
            step["load"]["arrival"]["model"],
            if more.is_empty() {
                "constant"
            } else {
                "poisson"
            }
        );
        assert_eq!(
            step["verdict"]["wall"], "offered-load",
            "{more:?}: {:#}",
            step["verdict"]
        );
    }
}

#[test]
fn a_rate_that_grows_is_offered_in_the_mean() {
    let _turn = busily();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "-R",
        "100",
        "--rate-to",
        "700",
        "-c",
        "8",
        "-d",
        "1500ms",
        "--warmup",
        "0s",
        "--no-calibrate",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    let ratio = number(&step, "/throughput") / 400.0;
    assert!((0.75..1.25).contains(&ratio), "{ratio} of the mean rate");
    let slices = step["intervals"].as_array().unwrap();
    let answered = |part: &[Value]| -> f64 { part.iter().map(|i| number(i, "/answered")).sum() };
    let (early, late) = slices.split_at(slices.len() / 2);
    assert!(answered(late) > 1.5 * answered(early), "it grows");
}

#[test]
fn a_stall_of_the_server_shows_in_latency_from_the_intended_instant() {
    let _turn = busily();
    let place = Place::new();
    let double = Double::start(|peer| {
        while peer.request().is_some() {
            if peer.served == 100 {
                std::thread::sleep(Duration::from_millis(500));
            }
            if !peer.say(OK) {
                return;
            }
        }
    });
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "-R",
        "400",
        "-c",
        "1",
        "-d",
        "1500ms",
        "--warmup",
        "0s",
        "--no-calibrate",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    // 200 of 600 requests were to start in the stall, evenly: half of them waited for more than
    // 250 ms, so that the 80th percentile is 200 ms. Service time knows of one request.
    let p90_ms = number(&step, "/latency/quantiles_ns/p90") / 1e6;
    assert!(
        p90_ms > 200.0,
        "p90 from the intended instant is {p90_ms} ms"
    );
    let max_ms = number(&step, "/latency/max_ns") / 1e6;
    assert!(max_ms > 480.0, "the longest is {max_ms} ms");
    let service_p90_ms = number(&step, "/service/quantiles_ns/p90") / 1e6;
    assert!(
        service_p90_ms < p90_ms / 2.0,
        "service p90 is {service_p90_ms} ms"
    );
    assert_eq!(failures(&step), "{} {}");
}

#[test]
fn a_request_is_byte_for_byte_what_was_asked_for() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/put/here?a=1&b=%20#fragment");
    let args = [
        "run",
        &url,
        "-n",
        "3",
        "-c",
        "1",
        "-q",
        "--no-calibrate",
        "-m",
        "POST",
        "-H",
        "Content-Type: text/plain",
        "-H",
        "X-Twice: 1",
        "-H",
        "X-Twice:2",
        "-b",
        "one\r\n\r\ntwo",
    ];
    place.run(&args).ends_with(0);
    let expected = format!(
        "POST /put/here?a=1&b=%20 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nUser-Agent: wallfinder/{}\r\n\
         Accept: */*\r\nContent-Type: text/plain\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 10\r\n\r\n\
         one\r\n\r\ntwo",
        double.port(),
        env!("CARGO_PKG_VERSION"),
    );
    let sorted = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let (first, fields) = head.split_once("\r\n").unwrap();
        let mut fields: Vec<String> = fields.split("\r\n").map(str::to_owned).collect();
        fields.sort();
        (first.to_owned(), fields, body.to_owned())
    };
    let first = double.seen().first.lock().unwrap().clone();
    assert_eq!(first.len(), 3);
    for request in first {
        assert_eq!(
            sorted(&String::from_utf8(request).unwrap()),
            sorted(&expected)
        );
    }
}

#[test]
fn bodies_come_from_files_and_by_size() {
    let _turn = together();
    let place = Place::new();
    place.file("body.bin", [0, 1, 2, 255, b'\n']);
    for (flags, body) in [
        (["-b", "@body.bin"], vec![0, 1, 2, 255, b'\n']),
        (["--body-bytes", "2k"], vec![b'x'; 2000]),
    ] {
        let (here, double) = (Place::new(), Double::plain());
        let url = double.url("/");
        let file = place.path().join("body.bin");
        let at = format!("@{}", file.display());
        let value = if flags[1].starts_with('@') {
            &at
        } else {
            flags[1]
        };
        let args = [
            "run",
            &url,
            "-n",
            "1",
            "-c",
            "1",
            "-q",
            "--no-calibrate",
            "-m",
            "PUT",
            flags[0],
            value,
        ];
        here.run(&args).ends_with(0);
        let first = double.seen().first.lock().unwrap()[0].clone();
        let head = first.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        assert!(
            first[head..] == body,
            "{flags:?}: {} bytes",
            first.len() - head
        );
    }
}

#[test]
fn user_information_of_the_url_is_sent_as_basic_authorization() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double
        .url("/")
        .replace("http://", "http://Aladdin:open%20sesame@");
    place
        .run(&["run", &url, "-n", "1", "-c", "1", "-q", "--no-calibrate"])
        .ends_with(0);
    let request = double.first_request();
    assert!(request.contains("\r\nAuthorization: Basic "), "{request}");
    assert!(!request.contains('@'), "{request}");
}

#[test]
fn without_keepalive_each_request_has_its_connection() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        if peer.request().is_some() {
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "--no-keepalive",
        "-n",
        "50",
        "-c",
        "2",
        "-q",
        "--no-calibrate",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    assert_eq!(step["counts"]["answered"], 50);
    assert_eq!(failures(&step), "{} {}");
    assert!(double.connections() >= 50, "{}", double.connections());
    assert!(double.first_request().contains("\r\nConnection: close\r\n"));
}

#[test]
fn head_has_no_body_whatever_its_length_says() {
    let _turn = together();
    let place = Place::new();
    let double = Double::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "-m",
        "HEAD",
        "-n",
        "40",
        "-c",
        "2",
        "-q",
        "--no-calibrate",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    assert_eq!(step["counts"]["answered"], 40);
    assert_eq!(failures(&step), "{} {}");
    assert_eq!(step["counts"]["body_bytes"], 0);
}

#[test]
fn the_deadline_of_a_request_ends_it_in_spite_of_progress() {
    let _turn = together();
    let place = Place::new();
    let double = Double::start(|peer| {
        peer.request();
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n");
        while peer.say("x") {
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "--timeout",
        "150ms",
        "-c",
        "2",
        "-d",
        "800ms",
        "--warmup",
        "0s",
        "-q",
        "--no-calibrate",
    ];
    // Nothing was answered well.
    let ran = place.run(&args).ends_with(1);
    assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
    let step = place.step();
    // Two at a time, each ended at its deadline.
    assert!(
        number(&step, "/counts/failed/timeout.total") >= 6.0,
        "{}",
        failures(&step)
    );
    assert_eq!(step["counts"]["answered"], 0);
    assert!(ran.out.contains("timeout.total"), "{}", ran.out);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_counted_once() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "--pipeline",
        "16",
        "-c",
        "2",
        "-d",
        "400ms",
        "--warmup",
        "0s",
        "-q",
        "--no-calibrate",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    assert_eq!(failures(&step), "{} {}");
    assert!(number(&step, "/in_flight_mean") > 2.0);
    assert!(number(&step, "/counts/answered") <= double.requests() as f64);
}

#[test]
fn both_ways_of_waiting_see_the_same_server() {
    let _turn = busily();
    for io in ["epoll", "uring", "auto"] {
        let (place, double) = (Place::new(), Double::plain());
        let url = double.url("/");
        let args = [
            "run",
            &url,
            "--io",
            io,
            "-n",
            "100",
            "-c",
            "3",
            "-q",
            "--no-calibrate",
        ];
        let ran = place.run(&args);
        if io == "uring" && ran.code == Some(1) && ran.err.contains("io_uring") {
            skip(format!("no io_uring here: {}", ran.err));
            continue;
        }
        ran.ends_with(0);
        assert_eq!(place.step()["counts"]["answered"], 100, "{io}");
    }
}

/// A step with so many connections; none where the machine does not allow them.
fn with_connections(count: u32) -> Option<Value> {
    let place = Place::new();
    let url = format!("http://subject:{}/simple", free_port());
    let connections = count.to_string();
    let args = [
        "run",
        "--subject",
        "catalogue",
        &url,
        "-c",
        &connections,
        "-d",
        "1s",
        "--warmup",
        "500ms",
        "-q",
        "--no-calibrate",
    ];
    let ran = place.run(&args);
    if ran.code == Some(1) && ran.err.contains("descriptor") {
        skip(&ran.err);
        return None;
    }
    ran.ends_with(0);
    Some(place.step())
}

#[test]
fn ten_thousand_connections_are_clean_and_small() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let (Some(few), Some(many)) = (with_connections(16), with_connections(10_000)) else {
        return;
    };
    assert_eq!(failures(&many), "{} {}");
    assert!(number(&many, "/counts/answered") > 10_000.0);
    let mean = number(&many, "/in_flight_mean");
    assert!((8_000.0..=10_000.5).contains(&mean), "{mean} in flight");
    let resident = |step: &Value| number(step, "/telemetry/client/rss_bytes_max");
    let each = (resident(&many) - resident(&few)) / 10_000.0;
    assert!(each < 8_192.0, "{each} B of our memory for a connection");
}

/// Who may open too few descriptors hears of it, and of the way out, before the first packet.
#[test]
fn too_few_descriptors_are_told_before_any_load() {
    let _turn = together();
    if !rustix::process::geteuid().is_root() {
        return skip("it needs root, to give its privilege up");
    }
    let (Some(prlimit), Some(setpriv)) = (program("prlimit"), program("setpriv")) else {
        return skip("it needs prlimit and setpriv");
    };
    let (place, double) = (Place::new(), Double::plain());
    let (limit, url) = ("--nofile=300:300", double.url("/"));
    let wrapper = [prlimit.to_str().unwrap(), limit, setpriv.to_str().unwrap()];
    // Root may have as many as it likes.
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let ran = place
        .start_as(
            &[&wrapper[..], &nobody].concat(),
            &["run", &url, "-c", "1000", "-q"],
        )
        .wait(Duration::from_secs(20))
        .ends_with(1);
    assert!(ran.err.contains("ulimit -n"), "{}", ran.err);
    assert_eq!(double.connections(), 0);
}
