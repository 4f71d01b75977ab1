//! Verdicts on real processes, with room: a busy machine may leave the wall open, but a
//! wall that cannot be is never named.

use std::path::Path;

use serde_json::Value;
use wallfinder_tests::{Place, alone, free_port, skip, stolen, subjects};

/// Runs a load at the catalogue, each on its own processors, and gives the verdict; once
/// more where `fits` does not like the first one.
fn verdict(path: &str, load: &[&str], fits: impl Fn(&str) -> bool) -> Option<Value> {
    verdict_of(path, &[load, &["-d", "1500ms"]].concat(), fits)
}

/// The same, with a load that says itself how long it is.
fn verdict_of(path: &str, load: &[&str], fits: impl Fn(&str) -> bool) -> Option<Value> {
    subjects()?;
    let mut last = Value::Null;
    for _ in 0..2 {
        let place = Place::new();
        let url = format!("http://subject:{}{path}", free_port());
        let args = ["run", "--subject", "catalogue", &url, "-q"];
        place.run(&[&args, load].concat()).ends_with(0);
        last = place.step()["verdict"].clone();
        if fits(last["wall"].as_str().unwrap()) {
            return Some(last);
        }
    }
    // No verdict is named over a hypervisor that takes its time.
    if stolen(&last) {
        skip("the hypervisor took too much of the processors, twice");
        return None;
    }
    Some(last)
}

#[test]
fn computing_on_one_core_is_bound_by_the_server() {
    let _turn = alone();
    let fits = |wall: &str| matches!(wall, "server-cpu" | "co-limited" | "inconclusive");
    let Some(verdict) = verdict("/compute", &["-c", "32"], fits) else {
        return;
    };
    let wall = verdict["wall"].as_str().unwrap();
    assert!(fits(wall), "{verdict:#}");
}

#[test]
fn a_client_that_thinks_is_never_taken_for_a_busy_server() {
    let _turn = alone();
    let fits = |wall: &str| !matches!(wall, "server-cpu" | "server-serial" | "client-cpu");
    let Some(verdict) = verdict("/simple", &["-c", "1", "--think", "10ms"], fits) else {
        return;
    };
    assert!(fits(verdict["wall"].as_str().unwrap()), "{verdict:#}");
}

#[test]
fn a_low_rate_is_its_own_wall() {
    let _turn = alone();
    let fits = |wall: &str| wall == "offered-load";
    let Some(verdict) = verdict("/simple", &["-R", "200", "-c", "8"], fits) else {
        return;
    };
    assert!(fits(verdict["wall"].as_str().unwrap()), "{verdict:#}");
}

/// The demonstration's own point: of the same requests one load generator is the wall, and the other
/// is not.
#[test]
fn pipelined_requests_are_held_back_by_autocannon_and_not_by_us() {
    let _turn = alone();
    let ours = |wall: &str| !matches!(wall, "client-cpu" | "client-serial" | "concurrency");
    let load = ["-c", "16", "--pipeline", "100"];
    let Some(verdict) = verdict("/simple", &load, ours) else {
        return;
    };
    assert!(ours(verdict["wall"].as_str().unwrap()), "{verdict:#}");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let autocannon = here.join("../bench/node_modules/.bin/autocannon");
    if !autocannon.is_file() {
        return skip("autocannon is not installed");
    }
    let theirs = |wall: &str| matches!(wall, "client-cpu" | "client-serial" | "inconclusive");
    let driver = format!("{} -c 16 -p 100 -d 3 {{url}}", autocannon.display());
    let Some(verdict) = verdict_of("/simple", &["--driver", &driver], theirs) else {
        return;
    };
    assert!(theirs(verdict["wall"].as_str().unwrap()), "{verdict:#}");
}
