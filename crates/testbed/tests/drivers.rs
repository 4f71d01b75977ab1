//! Foreign load generators, from outside: whichever of them is here, and stand-ins.

mod helper;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use helper::{group_of, is_running, shim, wait_until};
use wallfinder_testbed::driver::{DriveOptions, Driver, DriverError, DriverSpec, Stopped};
use wallfinder_testbed::programs::find_driver;

/// An HTTP server of three lines; it lives as long as the test process.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {
                    let answer =
                        b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    format!("http://{address}/")
}

fn start(command: &str, url: &str) -> Driver {
    let spec = DriverSpec::parse(command).expect(command);
    let mut options = DriveOptions::new(url, &spec);
    options.shim = shim();
    Driver::start(&spec, options).expect(command)
}

#[test]
fn the_generators_that_are_here_report_what_they_did() {
    let url = server();
    for command in [
        "wrk -c 2 -t 1 -d 1s",
        "autocannon -c 2 -d 1",
        "oha -c 2 -n 100",
        "h2load --h1 -c 2 -n 100",
        "ab -k -n 100 -c 2",
        "hey -n 100 -c 2",
        "bombardier -c 2 -n 100",
        "wrk2 -c 2 -t 1 -d 2s -R 100",
        "vegeta attack -rate=100 -duration=1s",
    ] {
        let spec = DriverSpec::parse(command).expect(command);
        let name = spec.kind().name();
        if find_driver(name).is_err() {
            match name {
                "wrk" | "h2load" => wallfinder_skip::skip(format_args!("no {name} (make drivers)")),
                _ => {
                    wallfinder_skip::skip(format_args!("a generator of the user's own: no {name}"))
                }
            }
            continue;
        }
        let outcome = start(command, &url).wait();
        assert!(outcome.ended.is_success(), "{name}: {}", outcome.stderr);
        let report = outcome.report.expect(name);
        assert!(report.good() >= 90, "{name}: {report:?}");
        assert!(
            report.throughput > 0.0 && report.latency.is_some(),
            "{name}: {report:?}"
        );
        assert!(report.errors.is_empty(), "{name}: {report:?}");
        let version = outcome.version.or(report.version);
        assert!(version.is_some() || name == "hey", "{name}: no version");
    }
}

#[test]
fn a_driver_runs_where_it_was_pinned_and_knows_the_url() {
    let spec = DriverSpec::parse(
        "sh -c 'echo $0 $WALLFINDER_URL; grep Cpus_allowed_list /proc/self/status' {url}",
    );
    let spec = spec.expect("fine");
    let mut options = DriveOptions::new("http://h:1/p", &spec);
    options.shim = shim();
    options.cpus = vec![1];
    let outcome = Driver::start(&spec, options).expect("sh").wait();
    let said = String::from_utf8(outcome.raw_report).expect("text");
    assert_eq!(said, "http://h:1/p http://h:1/p\nCpus_allowed_list:\t1\n");
    assert!(outcome.report.is_err(), "a shell has no report");
}

#[test]
fn a_hung_driver_is_stopped_at_its_limit() {
    let spec = DriverSpec::parse("sh -c 'trap \"\" INT TERM; sleep 60 & sleep 60'").expect("fine");
    let mut options = DriveOptions::new("http://h/", &spec);
    options.shim = shim();
    options.time_limit = Duration::from_millis(300);
    let since = Instant::now();
    let driver = Driver::start(&spec, options).expect("sh");
    wait_until("its children run", || group_of(driver.pid()).len() == 3);
    let group = group_of(driver.pid());
    let outcome = driver.wait();
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(outcome.stopped, Some(Stopped::TimeLimit));
    let why = outcome.report.expect_err("none").why;
    assert!(why.contains("limit"), "{why}");
    assert!(
        group.iter().all(|pid| !is_running(*pid)),
        "nothing stays behind"
    );
}

#[test]
fn a_failed_driver_is_reported_in_its_own_words() {
    let spec = DriverSpec::parse("sh -c 'echo unable to resolve >&2; exit 9'").expect("fine");
    let mut options = DriveOptions::new("http://h/", &spec);
    options.shim = shim();
    let why = Driver::start(&spec, options)
        .expect("sh")
        .wait()
        .report
        .expect_err("none")
        .why;
    assert!(
        why.contains("exit code 9") && why.contains("unable to resolve"),
        "{why}"
    );
}

#[test]
fn an_interrupted_driver_reports_what_it_has() {
    let url = server();
    if find_driver("wrk").is_err() {
        wallfinder_skip::skip("no wrk (make drivers)");
        return;
    }
    let mut driver = start("wrk -c 2 -t 1 -d 30s", &url);
    std::thread::sleep(Duration::from_millis(600));
    assert!(driver.poll());
    driver.interrupt();
    let outcome = driver.finish();
    assert_eq!(outcome.stopped, Some(Stopped::OnRequest));
    assert!(outcome.elapsed < Duration::from_secs(10));
    let report = outcome.report.expect("wrk reports on SIGINT");
    assert!(report.requests > 0, "{report:?}");
}

#[test]
fn a_dropped_driver_is_gone() {
    let driver = start("sh -c 'sleep 60 & sleep 60'", "http://h/");
    wait_until("its children run", || group_of(driver.pid()).len() == 3);
    let group = group_of(driver.pid());
    drop(driver);
    assert!(group.iter().all(|pid| !is_running(*pid)));
}

#[test]
fn a_missing_generator_is_said_to_be_missing() {
    let spec = DriverSpec::parse("no-such-generator {url}").expect("fine");
    let options = DriveOptions::new("http://h/", &spec);
    let error = Driver::start(&spec, options).expect_err("missing");
    assert!(matches!(error, DriverError::Command(_)));
    assert!(error.to_string().contains("no-such-generator"), "{error}");
}
