//! Subjects and foreign drivers: started for a run, watched, and gone after it.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_tests::{
    Double, Place, alone, comm, descendants, end_soon, free_port, json_at, listens_on, program,
    quietly, skip, subjects, together, until,
};

#[test]
fn a_subject_listens_on_the_port_of_the_url_and_is_gone_afterwards() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    for command in [
        "catalogue",
        "catalogue --server nethttp",
        "catalogue --prefork",
    ] {
        let place = Place::new();
        let port = free_port();
        let url = format!("http://subject:{port}/simple");
        let args = [
            "run",
            "--subject",
            command,
            &url,
            "-d",
            "500ms",
            "-c",
            "4",
            "-q",
            "--no-calibrate",
        ];
        let ran = place.run(&args);
        if ran.code == Some(1) && command != "catalogue" && ran.err.contains("ended before") {
            skip(format!("{command}: {}", ran.err));
            continue;
        }
        ran.ends_with(0);
        assert!(!listens_on(port), "{command} is left");
        let record = place.record();
        assert_eq!(record["plan"]["subject"], command);
        assert_eq!(json_at(&record, "/steps/0/target/port"), port);
        assert!(
            json_at(&record, "/steps/0/counts/answered")
                .as_u64()
                .unwrap()
                > 10
        );
        assert!(
            !json_at(&record, "/steps/0/telemetry/server").is_null(),
            "it is watched"
        );
    }
}

#[test]
fn a_subject_is_gone_after_an_interrupt() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let port = free_port();
        let url = format!("http://subject:{port}/simple");
        let running = place.start(&[
            "run",
            "--subject",
            "catalogue",
            &url,
            "-d",
            "30s",
            "-q",
            "--no-calibrate",
        ]);
        let until = Instant::now() + Duration::from_secs(10);
        // Its folder is made when interrupts are caught.
        while (!listens_on(port) || place.runs().is_empty()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(700));
        let below = descendants(running.pid());
        assert!(!below.is_empty());
        running.signal(signal);
        running.wait(Duration::from_secs(10)).ends_with(code);
        assert!(end_soon(&below) && !listens_on(port), "{below:?}");
    }
}

#[test]
fn an_interrupt_while_a_subject_starts_ends_both() {
    let _turn = together();
    // A shell has what it starts in the background ignore SIGINT.
    let in_background = ["sh", "-c", r#"trap '' INT; exec "$0" "$@""#];
    for (wrapper, signal, code) in [
        (&[][..], Signal::TERM, 143),
        (&[][..], Signal::INT, 130),
        (&in_background[..], Signal::INT, 130),
    ] {
        let place = Place::new();
        let url = format!("http://subject:{}/", free_port());
        // It never listens.
        let running = place.start_as(wrapper, &["run", "--subject", "sleep 63", &url, "-q"]);
        until("subject", || {
            let below = descendants(running.pid());
            below.iter().any(|pid| comm(*pid) == "sleep")
        });
        let below = descendants(running.pid());
        running.signal(signal);
        let ran = running.wait(Duration::from_secs(5));
        assert!(
            ran.code == Some(code) || ran.code.is_none(),
            "{signal:?}: {:?} {}",
            ran.code,
            ran.err
        );
        assert!(end_soon(&below), "the subject is left");
    }
}

#[test]
fn a_subject_that_cannot_serve_is_one_clear_error() {
    let _turn = together();
    let place = Place::new();
    let url = format!("http://subject:{}/", free_port());
    let ran = place
        .run(&["run", "--subject", "no-such-server-anywhere", &url])
        .ends_with(1);
    assert!(ran.err.contains("no-such-server-anywhere"), "{}", ran.err);
    let ran = place
        .run(&[
            "run",
            "--subject",
            "sh -c 'echo broken config >&2; exit 7'",
            &url,
        ])
        .ends_with(1);
    assert!(
        ran.err.contains("broken config") && ran.err.contains('7'),
        "{}",
        ran.err
    );
    if subjects().is_some() {
        let taken = Double::plain();
        let url = format!("http://subject:{}/", taken.port());
        let ran = place
            .run(&["run", "--subject", "catalogue", &url])
            .ends_with(1);
        assert!(ran.err.contains("taken"), "{}", ran.err);
    }
}

#[test]
fn wrk_is_run_and_its_report_is_read() {
    // When its load was on is seen by what loopback carried, whoever sent that.
    let _turn = alone();
    if program("wrk").is_none() {
        skip("wrk is not installed");
        return;
    }
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    place
        .run(&["run", &url, "-q", "--driver", "wrk -t 1 -c 3 -d 4s {url}"])
        .ends_with(0);
    let step = place.step();
    assert_eq!(step["driver"]["name"], "wrk");
    assert_eq!(step["driver"]["throughput_from"], "report");
    assert_eq!(step["load"]["connections"], 3);
    // What the server has counted, over about four seconds.
    let ratio = 4.0 * step["throughput"].as_f64().unwrap() / double.requests() as f64;
    assert!(
        (0.6..1.4).contains(&ratio),
        "{ratio} of what the server counted"
    );
    // They are looked at while they are there.
    for side in ["client", "server"] {
        let sockets = json_at(&step, &format!("/telemetry/{side}_sockets"));
        assert_eq!(sockets["sockets"], 3, "{side}: {sockets}");
    }
}

#[test]
fn an_unknown_driver_is_measured_on_the_wire() {
    let _turn = quietly();
    if subjects().is_none() || program("python3").is_none() {
        skip("no catalogue, or no python3");
        return;
    }
    // In a network of its own, where no other traffic can be mistaken for the driver's.
    let place = Place::new();
    let port = free_port();
    let client = "import http.client, time\n\
        c = http.client.HTTPConnection('127.0.0.1', PORT)\n\
        n, until = 0, time.time() + 1.5\n\
        while time.time() < until:\n    c.request('GET', '/simple'); c.getresponse().read(); n += 1\n\
        open('count', 'w').write(str(n))\n";
    place.file("client.py", client.replace("PORT", &port.to_string()));
    let script = format!(
        "ip link set lo up || exit 77; exec '{}' run --subject catalogue http://subject:{port}/simple \
         -q --driver 'python3 client.py'",
        wallfinder_tests::binary().canonicalize().unwrap().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", &script]);
    let ran = place.start_command(command).wait(Duration::from_secs(30));
    if ran.code == Some(77) || ran.err.contains("unshare") {
        skip(format!("no network namespace here: {}", ran.err));
        return;
    }
    ran.ends_with(0);
    let step = place.step();
    assert_eq!(step["driver"]["throughput_from"], "wire");
    let count = std::fs::read_to_string(place.path().join("count")).unwrap();
    let ratio = step["throughput"].as_f64().unwrap() / (count.parse::<f64>().unwrap() / 1.5);
    // Its requests are longer than ours, and are weighed as they are.
    assert!(
        (0.8..1.25).contains(&ratio),
        "{ratio} of what the client counted"
    );
    let caveats = step["caveats"].to_string();
    assert!(!caveats.contains("driver-not-weighed"), "{caveats}");
}

#[test]
fn a_driver_that_does_nothing_is_an_error_that_shows_what_it_said() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let ran = place
        .run(&[
            "run",
            &url,
            "-q",
            "--driver",
            "no-such-driver-anywhere {url}",
        ])
        .ends_with(1);
    assert!(ran.err.contains("no-such-driver-anywhere"), "{}", ran.err);
}
