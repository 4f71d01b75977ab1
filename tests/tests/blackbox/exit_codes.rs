//! How commands end: the exit code tells a script what happened, standard error tells a
//! person.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_tests::{
    Double, Place, Running, alone, free_port, json_at, skip, stolen, subjects, together,
};

const SHORT: [&str; 6] = ["-d", "300ms", "--warmup", "0s", "--no-calibrate", "-q"];

fn short<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SHORT].concat()
}

#[test]
fn a_run_that_is_done_ends_with_0() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    place
        .run(&short(&["run", &double.url("/"), "-c", "2"]))
        .ends_with(0);
    let record = place.record();
    assert_eq!(record["complete"], true);
    assert!(record["interrupted"].is_null());
}

#[test]
fn nobody_listening_ends_with_1_and_says_so() {
    let _turn = together();
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let ran = place
        .run(&short(&["run", &url, "--wait", "0s"]))
        .ends_with(1);
    assert!(ran.err.contains("net.refused"), "{}", ran.err);
    assert!(
        ran.err.contains("is the server running there?"),
        "{}",
        ran.err
    );
    assert!(ran.out.is_empty(), "{}", ran.out);
}

#[test]
fn a_runs_folder_that_cannot_be_written_is_refused_before_any_load() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let file = place.file("taken", "not a folder");
    for runs in [
        "/proc/wallfinder-runs",
        "/sys/wallfinder-runs",
        file.to_str().unwrap(),
    ] {
        let ran = place
            .run(&short(&["run", &double.url("/"), "--runs", runs]))
            .ends_with(1);
        assert!(ran.err.contains(runs), "{}", ran.err);
    }
    assert_eq!(double.requests(), 0, "nothing was to be sent");
    assert_eq!(double.connections(), 0, "nobody was to be called");
}

#[test]
fn what_cannot_be_understood_ends_with_2_before_any_load() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let bad: &[&[&str]] = &[
        &[],
        &["run"],
        &["dance"],
        &["run", &url, "--no-such-flag"],
        &["run", &url, "-c", "0"],
        &["run", &url, "-c", "-1"],
        &["run", &url, "-c", "99999999999999999999"],
        &["run", &url, "-R", "nan"],
        &["run", &url, "-R", "inf"],
        &["run", &url, "-R", "-5"],
        &["run", &url, "-R", "1e999"],
        &["run", &url, "-d", "nan"],
        &["run", &url, "-d", "-1s"],
        &["run", &url, "-d", "99999999999h"],
        &["run", &url, "-H", "no colon here"],
        &["run", &url, "-H", "Evil: a\r\nInjected: b"],
        &["run", &url, "-H", ": nameless"],
        &["run", &url, "-m", "GE T"],
        &["run", &url, "-b", "@/no/such/file"],
        &["run", &url, "-b", "x", "--body-bytes", "3"],
        &["run", &url, "--rate-to", "50"],
        &["run", &url, "--poisson"],
        &["run", &url, "--threshold", "p99"],
        &["run", &url, "--threshold", "p99<5"],
        &["run", &url, "--require", "a-wish"],
        &["run", &url, "--driver", ""],
        &["run", &url, "--driver", "wrk 'open"],
        &["run", &url, "--client-cpus", "4000"],
        &["run", "http://"],
        &["run", "http://127.0.0.1:x/"],
        &["run", "http://127.0.0.1:70000/"],
        &["run", "http://127.0.0.1/a b"],
        &["run", "gopher://127.0.0.1/"],
        &["run", "ftp://127.0.0.1/"],
        &["run", "http://subject:8083/"],
        &["ramp", &url, "--connections", "1,x"],
        &["judge"],
        &["compare", "one"],
        &["schema", "nothing"],
    ];
    let mut wrong = Vec::new();
    for args in bad {
        let ran = place.run(args);
        if ran.code != Some(2) || ran.err.trim().is_empty() || ran.err.contains("panicked") {
            wrong.push(format!("{args:?}: {:?}, {}", ran.code, ran.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(double.connections(), 0, "nobody was to be called");
    assert!(place.runs().is_empty(), "no run was to be begun");
}

#[test]
fn a_public_target_is_refused_without_consent() {
    let _turn = together();
    let place = Place::new();
    for host in [
        "8.8.8.8",
        "[2001:db8::1]",
        "[::ffff:8.8.8.8]",
        "203.0.113.9",
    ] {
        let url = format!("http://{host}:81/");
        let ran = place.run(&short(&["run", &url])).ends_with(2);
        assert!(ran.err.contains("--i-may-load"), "{}", ran.err);
        assert!(ran.took < Duration::from_secs(5), "{:?}", ran.took);
    }
}

#[test]
fn a_metadata_address_is_refused_whatever_is_said() {
    let _turn = together();
    let place = Place::new();
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "2852039166",
        "0xa9fea9fe",
    ] {
        let url = format!("http://{host}:81/latest/meta-data/");
        let bare = host.trim_matches(['[', ']']);
        let mut args = short(&["run", &url, "--i-may-load", bare]);
        let ran = place.run(&args).ends_with(2);
        assert!(ran.err.contains("never loaded"), "{host}: {}", ran.err);
        args.extend(["--driver", "sh -c 'touch loaded'"]);
        place.run(&args).ends_with(2);
    }
    assert!(!place.path().join("loaded").exists());
}

#[test]
fn no_packet_is_sent_to_a_target_without_consent() {
    let _turn = together();
    // In a network of its own, loopback bears a public address, and counts packets.
    let packets = |consent: &str| -> Option<(u64, String)> {
        let place = Place::new();
        let script = format!(
            "ip link set lo up && ip addr add 203.0.113.9/32 dev lo || exit 77; \
             '{}' run http://203.0.113.9:81/ -d 200ms -q {consent}; echo \"exit $?\"; \
             grep lo: /proc/net/dev",
            wallfinder_tests::binary().canonicalize().unwrap().display()
        );
        let mut command = Command::new("unshare");
        command.args(["-rn", "sh", "-c", &script]);
        let ran = place.start_command(command).wait(Duration::from_secs(30));
        if ran.code != Some(0) {
            skip(format!("no network namespace here: {}", ran.said()));
            return None;
        }
        let line = ran.out.lines().find(|line| line.contains("lo:"))?;
        let count = line.split_ascii_whitespace().nth(2)?.parse().ok()?;
        Some((count, ran.out))
    };
    let Some((sent, out)) = packets("") else {
        return;
    };
    assert!(out.contains("exit 2"), "{out}");
    assert_eq!(sent, 0, "{out}");
    let (sent, out) = packets("--i-may-load 203.0.113.9").unwrap();
    assert!(out.contains("exit 1"), "{out}");
    assert!(sent > 0, "the count does not count: {out}");
}

#[test]
fn a_breached_threshold_ends_with_3_and_says_which() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let ran = place
        .run(&short(&["run", &url, "--threshold", "p50<1ns"]))
        .ends_with(3);
    assert!(ran.err.contains("p50<1ns"), "{}", ran.err);
    assert!(
        ran.out.contains("Requests/sec"),
        "the result is still shown"
    );
    let place = Place::new();
    place
        .run(&short(&[
            "run",
            &url,
            "--threshold",
            "rps>1",
            "--threshold",
            "errors<1%",
        ]))
        .ends_with(0);
    let run = place.last_run();
    let run = run.to_str().unwrap();
    place
        .run(&["judge", run, "--threshold", "rps>1G"])
        .ends_with(3);
    place
        .run(&["report", run, "--threshold", "rps>1G"])
        .ends_with(3);
    place
        .run(&["report", run, "--threshold", "rps>1"])
        .ends_with(0);
}

#[test]
fn a_threshold_without_samples_is_breached() {
    let _turn = together();
    let place = Place::new();
    let silent = Double::start(|peer| while peer.request().is_some() {});
    let url = silent.url("/");
    let args = short(&[
        "run",
        &url,
        "-c",
        "1",
        "--threshold",
        "p99<1h",
        "--timeout",
        "100ms",
    ]);
    place.run(&args).ends_with(3);
}

#[test]
fn a_requirement_that_does_not_hold_ends_with_4() {
    let _turn = alone();
    let place = Place::new();
    let slow = Double::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(4));
            if !peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
                return;
            }
        }
    });
    // One connection that mostly thinks: whatever binds, it is not the server.
    let url = slow.url("/");
    let args = [
        "run",
        &url,
        "-c",
        "1",
        "--think",
        "20ms",
        "-d",
        "800ms",
        "-q",
        "--require",
        "server-bound",
    ];
    let ran = place.run(&args).ends_with(4);
    assert!(ran.err.contains("server-bound"), "{}", ran.err);
    let run = place.last_run();
    let run = run.to_str().unwrap();
    for command in ["judge", "report"] {
        let ran = place.run(&[command, run, "--require", "server-bound"]);
        assert!(ran.ends_with(4).err.contains("server-bound"), "{command}");
    }
}

#[test]
fn a_requirement_that_holds_ends_with_0() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let args = [
        "run",
        "--subject",
        "knownwall --spin-us 1000",
        "http://subject:0/",
        "-c",
        "8",
        "-d",
        "1s",
        "-q",
        "--require",
        "server-bound",
    ];
    for attempts_left in [2, 1, 0] {
        let place = Place::new();
        let ran = place.run(&args);
        if ran.code != Some(0) {
            let ran = ran.ends_with(4);
            let step = place.step();
            let is_over = attempts_left == 0 && !stolen(&step["verdict"]);
            assert!(!is_over, "{}", ran.said());
            continue;
        }
        let run = place.last_run();
        let run = run.to_str().unwrap();
        for command in ["judge", "report"] {
            let required = |wall: &str| place.run(&[command, run, "--require", wall]);
            required("server-bound").ends_with(0);
            let ran = required("client-cpu").ends_with(4);
            assert!(ran.err.contains("client-cpu"), "{}", ran.err);
        }
        return;
    }
    skip("the hypervisor took too much of the processors");
}

/// A run of half a minute, once it measures: so many requests are there, and intervals are kept.
fn long_run(place: &Place, double: &Double, requests: u64, more: &[&str]) -> Running {
    let url = double.url("/");
    let args = [
        &["run", &url, "-c", "2", "-d", "30s", "--warmup", "0s", "-q"],
        more,
    ]
    .concat();
    let running = place.start(&args);
    double.await_requests(requests);
    // What is added to the journal from here on are intervals.
    let journal = place.last_run().join("journal.wfj");
    let bytes = || std::fs::metadata(&journal).map_or(0, |file| file.len());
    let (before, until) = (bytes(), Instant::now() + Duration::from_secs(20));
    while bytes() < before + 2_000 {
        assert!(Instant::now() < until, "no interval: {}", running.err());
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

#[test]
fn an_interrupt_seals_what_there_is() {
    let _turn = together();
    for (signal, code, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let (place, double) = (Place::new(), Double::plain());
        let running = long_run(&place, &double, 100, &["--no-calibrate"]);
        running.signal(signal);
        let ran = running.wait(Duration::from_secs(8)).ends_with(code);
        assert!(ran.out.contains("Requests/sec"), "{}", ran.said());
        let record = place.record();
        assert_eq!(record["interrupted"], name);
        assert_eq!(record["complete"], false);
        assert!(
            json_at(&record, "/steps/0/counts/answered")
                .as_u64()
                .unwrap()
                > 0
        );
        assert!(
            !place.last_run().join("journal.wfj").exists(),
            "it is sealed"
        );
        let run = place.last_run();
        let report = place.run(&["report", run.to_str().unwrap()]).ends_with(0);
        assert!(report.out.contains(name), "{}", report.out);
    }
}

#[test]
fn an_interrupted_ramp_keeps_the_steps_that_it_has() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        "ramp",
        &url,
        "--connections",
        "1,2,3,4,5,6,7,8",
        "-d",
        "600ms",
        "--warmup",
        "0s",
        "--no-calibrate",
        "-q",
    ];
    let running = place.start(&args);
    double.await_requests(1);
    std::thread::sleep(Duration::from_millis(1_500));
    running.signal(Signal::INT);
    running.wait(Duration::from_secs(8)).ends_with(130);
    let record = place.record();
    let steps = record["steps"].as_array().unwrap().len();
    assert!((1..8).contains(&steps), "{steps} steps");
    assert_eq!(record["complete"], false);
    assert!(
        record["caveats"].to_string().contains("of 8 steps"),
        "{}",
        record["caveats"]
    );
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let _turn = together();
    let place = Place::new();
    // Never answered: draining would last until the deadline of the requests.
    let silent = Double::start(|peer| while peer.request().is_some() {});
    let running = long_run(&place, &silent, 2, &["--timeout", "60s"]);
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    let since = Instant::now();
    running.signal(Signal::INT);
    running.wait(Duration::from_secs(50)).ends_with(130);
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(place.record()["interrupted"], "SIGINT");
}

#[test]
fn help_and_version_are_no_failures_and_go_to_standard_output() {
    let place = Place::new();
    for args in [
        &["--help"][..],
        &["-V"],
        &["run", "--help"],
        &["schema", "record"],
    ] {
        let ran = place.run(args).ends_with(0);
        assert!(
            !ran.out.is_empty() && ran.err.is_empty(),
            "{args:?}: {}",
            ran.err
        );
    }
}
