//! Killed without a word, at any moment: what was measured can be read, and nothing is
//! left running.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Double, Place, alive, descendants, end_soon, free_port, listens_on, subjects, together,
};

/// Change it to see other moments.
const SEED: u64 = 20261120;
const KILLS: u32 = 20;
/// Two and a half intervals.
const LOSS_MAX: Duration = Duration::from_millis(250);

fn wait_until(limit: Duration, what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !what() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Since midnight, in milliseconds, of an instant such as `2026-11-20T15:14:47.834Z`.
fn ms_of_day(utc: &str) -> u64 {
    let time = utc.split_once('T').unwrap().1.trim_end_matches('Z');
    let mut parts = time.split(':');
    let mut next = || parts.next().unwrap().parse::<f64>().unwrap();
    ((next() * 3600.0 + next() * 60.0 + next()) * 1000.0).round() as u64
}

const DAY_MS: u64 = 86_400_000;

fn now_ms_of_day() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64 % DAY_MS
}

/// What passed between the last interval that is kept (or the begin of the step) and the
/// kill; `None` where no step had begun.
fn lost(record: &Value, killed_ms: u64) -> Option<Duration> {
    let step = record["steps"].get(0)?;
    let began_ms = ms_of_day(step["started_utc"].as_str()?);
    let last_ms = step["intervals"].as_array()?.last().map_or(0, |interval| {
        interval["at_ns"].as_u64().unwrap() / 1_000_000
    });
    let passed = (killed_ms + DAY_MS - began_ms) % DAY_MS;
    Some(Duration::from_millis(passed.saturating_sub(last_ms)))
}

#[test]
fn a_killed_run_keeps_its_intervals_and_leaves_nothing_behind() {
    let _turn = together();
    println!("seed {SEED}");
    let mut random = fastrand::Rng::with_seed(SEED);
    let catalogue = subjects().is_some();
    let double = Double::plain();
    let mut late = Vec::new();
    for nth in 0..KILLS {
        let place = Place::new();
        let with_subject = catalogue && nth % 4 == 0;
        let port = with_subject.then(free_port);
        let url = match port {
            Some(port) => format!("http://subject:{port}/simple"),
            None => double.url("/"),
        };
        let mut args = vec![
            "run", &url, "-c", "2", "-d", "30s", "--warmup", "100ms", "-q",
        ];
        if with_subject {
            args.extend(["--subject", "catalogue"]);
        }
        let running = place.start(&args);
        let header = || {
            let run = place.runs().pop();
            run.and_then(|run| std::fs::metadata(run.join("journal.wfj")).ok())
                .is_some_and(|journal| journal.len() > 100)
        };
        // With a subject, sometimes before it listens.
        let from_the_start = with_subject && nth % 8 == 0;
        if !from_the_start {
            assert!(
                wait_until(Duration::from_secs(10), header),
                "no run is begun"
            );
        }
        std::thread::sleep(Duration::from_millis(random.u64(..700)));
        let below = descendants(running.pid());
        let begun = header();
        running.signal(Signal::KILL);
        let killed_ms = now_ms_of_day();
        let ran = running.wait(Duration::from_secs(10));
        assert_eq!(ran.code, None, "{}", ran.said());

        assert!(
            end_soon(&below),
            "kill {nth}: left running: {:?}",
            below.iter().filter(|pid| alive(**pid)).collect::<Vec<_>>()
        );
        // A subject that was started after the look at who is there ends with the others.
        if let Some(port) = port {
            assert!(
                wait_until(Duration::from_secs(10), || !listens_on(port)),
                "kill {nth}: somebody listens on {port}"
            );
        }
        if !begun {
            continue;
        }
        let run = place.last_run();
        let record = recovered(&place, &run);
        assert_eq!(record["complete"], false, "kill {nth}");
        assert!(
            record.to_string().contains("incomplete"),
            "kill {nth}: it says what is missing: {}",
            record["caveats"]
        );
        let lost = lost(&record, killed_ms);
        late.extend(lost.filter(|lost| *lost > LOSS_MAX).map(|lost| (nth, lost)));
    }
    // A machine that is busy with other things, or stands still, may delay a slice now and then.
    assert!(late.len() <= 3, "more than an interval is lost: {late:?}");
}

fn recovered(place: &Place, run: &Path) -> Value {
    let run = run.to_str().unwrap();
    let ran = place.run(&["report", run, "--format", "json"]).ends_with(0);
    let text = place.run(&["report", run]).ends_with(0);
    assert!(text.out.contains("PARTIAL"), "{}", text.out);
    place.run(&["judge", run]).ends_with(0);
    ran.json()
}

#[test]
fn a_killed_ramp_keeps_the_steps_that_had_ended_with_their_verdicts() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        "ramp",
        &url,
        "--connections",
        "1,2,3",
        "-d",
        "400ms",
        "--warmup",
        "0s",
        "-q",
        "--no-calibrate",
    ];
    let running = place.start(&args);
    let kept = || {
        let run = place.runs().pop()?;
        let run = run.to_str().unwrap();
        let said = place.run(&["report", run, "--format", "json"]);
        let record: Value = serde_json::from_str(&said.out).ok()?;
        let steps = record["steps"].as_array()?.clone();
        steps
            .first()
            .is_some_and(|step| step["verdict"]["wall"].is_string())
            .then_some(steps)
    };
    let has_ended = wait_until(Duration::from_secs(20), || kept().is_some());
    assert!(
        has_ended,
        "no step of 0.4 s has ended in 20 s: {}",
        running.err()
    );
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    let record = recovered(&place, &place.last_run());
    let steps = record["steps"].as_array().unwrap();
    let first = &steps[0];
    assert!(
        first["latency"]["count"].as_u64().unwrap() > 0,
        "{}",
        first["latency"]
    );
    assert!(first["verdict"]["wall"].is_string());
}

#[test]
fn a_killed_run_takes_its_driver_along() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let driver = "sh -c 'sleep 61 & sleep 62; true'";
    let running = place.start(&["run", &url, "--driver", driver, "-q"]);
    let started = wait_until(Duration::from_secs(10), || {
        descendants(running.pid()).len() >= 2
    });
    assert!(started, "the driver is not there: {}", running.err());
    let below = descendants(running.pid());
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    // Its own children are its own affair; the driver itself is ours.
    let driver = below[0];
    assert!(
        wait_until(Duration::from_secs(10), || !alive(driver)),
        "{driver} is left"
    );
    end_soon(&below);
    let left: Vec<u32> = below.into_iter().filter(|pid| alive(*pid)).collect();
    for pid in &left {
        let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    assert!(left.is_empty(), "children of the driver are left: {left:?}");
}
