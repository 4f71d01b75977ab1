//! Loads that are not answered, or not well: what is said, and how the command ends.

use std::time::Duration;

use wallfinder_tests::{Double, Place, free_port, json_at, program, skip, together};

const SHORT: [&str; 6] = ["-d", "400ms", "--warmup", "0s", "--no-calibrate", "-q"];

const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
const MOVED: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn short<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SHORT].concat()
}

/// Answers by path: `/missing`, `/moved`, `/mixed` (half of each good and moved), else good.
fn by_path() -> Double {
    Double::start(|peer| {
        while let Some(request) = peer.request() {
            let is = |path: &str| request.starts_with(format!("GET {path} ").as_bytes());
            let answer = match peer.served % 2 {
                _ if is("/missing") => MISSING,
                _ if is("/moved") => MOVED,
                0 if is("/mixed") => MOVED,
                _ => GOOD,
            };
            if !peer.say(answer) {
                return;
            }
        }
    })
}

#[test]
fn a_load_without_a_good_answer_ends_with_1_and_says_how_all_ended() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let dropping = Double::start(|peer| drop(peer.request()));
    let silent = Double::start(|peer| while peer.request().is_some() {});
    for (url, why) in [
        (double.url("/missing"), "failed as status.4xx (404)"),
        (dropping.url("/"), "failed as net.closed.wait"),
        (silent.url("/"), "2 in flight when the window closed"),
    ] {
        let ran = place.run(&short(&["run", &url, "-c", "2", "--timeout", "1s"]));
        let ran = ran.ends_with(1);
        assert!(
            ran.err.contains("nothing was answered well: "),
            "{}",
            ran.err
        );
        assert!(ran.err.contains(why), "{}", ran.err);
        // What was measured is shown and kept all the same.
        assert!(ran.out.contains("Requests/sec:"), "{}", ran.out);
        assert_eq!(place.record()["complete"], true);
    }
}

#[test]
fn a_ramp_without_a_good_answer_ends_with_1_and_one_with_some_does_not() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let ramp = |path: &str| {
        let url = double.url(path);
        place.run(&short(&["ramp", &url, "--connections", "1,2"]))
    };
    let ran = ramp("/missing").ends_with(1);
    assert!(
        ran.err.contains("nothing was answered well in 2 steps"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("no step had a good answer"), "{}", ran.out);
    ramp("/").ends_with(0);
}

#[test]
fn ab_with_a_side_without_a_good_answer_says_so_and_ends_with_1() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let args = [
        "-c",
        "2",
        "-d",
        "900ms",
        "--warmup",
        "50ms",
        "--rounds",
        "3",
        "--no-calibrate",
        "-q",
    ];
    for (paths, side) in [("/,/missing", "B"), ("/missing,/", "A")] {
        let url = double.url("/");
        let ran = place.run(&[&["ab", &url, "--path", paths], &args[..]].concat());
        let ran = ran.ends_with(1);
        let answer = format!("Not compared: {side} had no good answer in 3 rounds");
        assert!(ran.out.contains(&answer), "{}", ran.out);
        assert!(
            ran.err.contains("failed as status.4xx (404)"),
            "{}",
            ran.err
        );
    }
    let url = double.url("/");
    let ran = place.run(&[&["ab", &url, "--path", "/,/mixed"], &args[..]].concat());
    ran.ends_with(0);
}

#[test]
fn every_breached_threshold_is_told() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let bounds = [
        "--threshold",
        "p99<1ns",
        "--threshold",
        "rps>900M",
        "--threshold",
        "errors<1%",
    ];
    let url = double.url("/");
    let ran = place
        .run(&short(&[&["run", &url], &bounds[..]].concat()))
        .ends_with(3);
    for told in ["p99<1ns: breached", "rps>900M: breached"] {
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    assert!(!ran.err.contains("errors<1%"), "{}", ran.err);
    // In a ramp, the step too.
    let ramp = ["ramp", &url, "--connections", "1,2"];
    let ran = place
        .run(&short(&[&ramp[..], &bounds[..]].concat()))
        .ends_with(3);
    assert!(
        ran.err.contains("c=1; breached in 2 of 2 steps"),
        "{}",
        ran.err
    );
    // Without samples, what failed.
    let url = double.url("/missing");
    let ran = place
        .run(&short(&[&["run", &url], &bounds[..]].concat()))
        .ends_with(3);
    for told in [
        "p99<1ns: failed, nothing was answered well: ",
        "rps>900M: failed, nothing was answered well: ",
        "errors<1%: breached, it was 100 %",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn redirects_are_named_and_statuses_shown_where_not_all_are_200() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let run = |path: &str| {
        let url = double.url(path);
        place.run(&short(&["run", &url, "-c", "1"])).ends_with(0)
    };
    let out = run("/moved").out;
    assert!(out.contains("answers were redirects (302)"), "{out}");
    assert!(out.contains("Give the final URL"), "{out}");
    assert!(out.contains("statuses   302 "), "{out}");
    let record = place.record();
    let caveats = json_at(&record, "/steps/0/verdict/caveats")
        .as_array()
        .unwrap();
    let typed = caveats.iter().find(|caveat| caveat["kind"] == "redirects");
    assert_eq!(typed.expect("typed")["statuses"], serde_json::json!([302]));
    let page = std::fs::read_to_string(place.last_run().join("report.html")).unwrap();
    assert!(
        page.contains("answers were redirects (302)"),
        "the page says it"
    );
    let out = run("/mixed").out;
    assert!(out.contains("statuses   ") && out.contains("302 "), "{out}");
    assert!(out.contains("answers were redirects (302)"), "{out}");
    let out = run("/").out;
    assert!(
        !out.contains("statuses") && !out.contains("redirects"),
        "{out}"
    );
}

#[test]
fn a_rate_that_grows_is_told_by_its_mean_and_is_no_unsteadiness() {
    let _turn = together();
    let (place, double) = (Place::new(), by_path());
    let url = double.url("/");
    let load = [
        "run",
        &url,
        "-c",
        "4",
        "-R",
        "20",
        "--rate-to",
        "400",
        "-d",
        "3s",
    ];
    let ran = place
        .run(&[&load[..], &["--no-calibrate", "-q"]].concat())
        .ends_with(0);
    assert!(ran.out.contains("asked for on average"), "{}", ran.out);
    assert!(!ran.out.contains("400 asked for"), "{}", ran.out);
    assert!(!ran.out.contains("Warm up longer"), "{}", ran.out);
}

#[test]
fn a_subject_that_ends_during_the_load_makes_the_run_partial_with_its_last_words() {
    let _turn = together();
    if program("python3").is_none() {
        skip("no python3");
        return;
    }
    let place = Place::new();
    // Serves for a while, and gives up.
    let server = "import http.server, os, sys, threading, time\n\
        class H(http.server.BaseHTTPRequestHandler):\n    \
            protocol_version = 'HTTP/1.1'\n    \
            def do_GET(self): self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()\n    \
            def log_message(self, *a): pass\n\
        def end():\n    \
            time.sleep(1.2); sys.stderr.write('first\\nout of luck\\n'); sys.stderr.flush(); os._exit(7)\n\
        s = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H)\n\
        threading.Thread(target=end, daemon=True).start()\n\
        s.serve_forever()\n";
    let file = place.file("server.py", server);
    let port = free_port();
    let subject = format!("python3 {} {port}", file.display());
    let url = format!("http://127.0.0.1:{port}/");
    let ramp = [
        "ramp",
        &url,
        "--subject",
        &subject,
        "--connections",
        "1,2,4",
    ];
    let args = [
        "-d",
        "1500ms",
        "--warmup",
        "0s",
        "--timeout",
        "1s",
        "--no-calibrate",
        "-q",
    ];
    let find = [
        "find",
        &url,
        "--subject",
        &subject,
        "-c",
        "2",
        "-q",
        "--effort=quick",
    ];
    for words in [[&ramp[..], &args[..]].concat(), find.to_vec()] {
        let ran = place.start(&words).wait(Duration::from_secs(90));
        let ran = ran.ends_with(1);
        assert!(ran.err.contains("exit code 7"), "{words:?}: {}", ran.err);
        assert!(ran.err.contains("out of luck"), "{words:?}: {}", ran.err);
        let told = ran.out.contains("PARTIAL") && ran.out.contains("exit code 7");
        assert!(told, "{words:?}: {}", ran.out);
        assert_eq!(place.record()["complete"], false);
    }
    let runs = place.runs();
    let steps = &place.record_of(&runs[0])["steps"];
    assert_eq!(
        steps.as_array().unwrap().len(),
        1,
        "what follows would measure nobody"
    );
}
