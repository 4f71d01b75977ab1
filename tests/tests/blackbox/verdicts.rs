//! Verdicts on real processes, with room: a busy machine may leave the wall open, but not each time, and a
//! wall that cannot be is never named.

use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;
use wallfinder_tests::{Place, alone, free_port, quietly, skip, stolen, subjects};

/// How often a load is held until its wall is named, at most.
const ATTEMPTS: usize = 3;

/// What a verdict may be instead, where the server's processor is the wall: another wall of the server's
/// side, or none.
const OF_THE_SERVER: [&str; 5] = [
    "server-serial",
    "wait",
    "backend",
    "co-limited",
    "inconclusive",
];
/// The same where it is the load generator's.
const OF_THE_CLIENT: [&str; 3] = ["concurrency", "co-limited", "inconclusive"];

/// Runs a load at the catalogue, each on its own processors, and gives the verdict.
fn verdict(path: &str, load: &[&str]) -> Value {
    let place = Place::new();
    let url = format!("http://subject:{}{path}", free_port());
    let args = ["run", "--subject", "catalogue", &url, "-q"];
    place.run(&[&args, load].concat()).ends_with(0);
    place.step()["verdict"].clone()
}

/// Holds a load until the verdict is this wall. One before it may be any of `others`, and nothing else.
#[track_caller]
fn is_named(wall: &str, others: &[&str], path: &str, load: &[&str]) {
    let mut open = Vec::new();
    while open.len() < ATTEMPTS {
        let verdict = verdict(path, load);
        let named = verdict["wall"].as_str().unwrap();
        if named == wall {
            return;
        }
        assert!(others.contains(&named), "not {wall}: {verdict:#}");
        open.push(verdict);
    }
    // No verdict is named over a hypervisor that takes its time.
    assert!(
        open.iter().all(stolen),
        "{wall} is never named: {:#}",
        Value::Array(open)
    );
    skip("the hypervisor took too much of the processors, each time");
}

#[test]
fn computing_on_one_core_is_bound_by_the_server() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let load = ["-c", "32", "-d", "1500ms"];
    is_named("server-cpu", &OF_THE_SERVER, "/compute", &load);
}

#[test]
fn a_client_that_thinks_is_never_taken_for_a_busy_server() {
    let _turn = quietly();
    if subjects().is_none() {
        return;
    }
    let load = ["-c", "1", "--think", "10ms", "-d", "1500ms"];
    let is_busy = |wall: &str| matches!(wall, "server-cpu" | "server-serial" | "client-cpu");
    // Others may have been: then it is looked at once more.
    for attempts_left in [1, 0] {
        let verdict = verdict("/simple", &load);
        if !is_busy(verdict["wall"].as_str().unwrap()) {
            return;
        }
        assert!(attempts_left > 0, "{verdict:#}");
    }
}

#[test]
fn a_low_rate_is_its_own_wall() {
    let _turn = quietly();
    if subjects().is_none() {
        return;
    }
    let load = ["-R", "200", "-c", "8", "-d", "1500ms"];
    let others = ["concurrency", "wait", "inconclusive"];
    is_named("offered-load", &others, "/simple", &load);
}

/// The demonstration's own point: of the same requests one load generator is the wall, and the other
/// is not.
#[test]
fn pipelined_requests_are_held_back_by_autocannon_and_not_by_us() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let load = ["-c", "16", "--pipeline", "100", "-d", "1500ms"];
    is_named("server-cpu", &OF_THE_SERVER, "/simple", &load);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let autocannon = here.join("../bench/node_modules/.bin/autocannon");
    if !autocannon.is_file() {
        return skip("autocannon is not installed");
    }
    let driver = format!("{} -c 16 -p 100 -d 3 {{url}}", autocannon.display());
    let load = ["--driver", driver.as_str()];
    is_named("client-cpu", &OF_THE_CLIENT, "/simple", &load);
}

/// Loops that use all the processors that they are given, until they are dropped.
struct Strangers(Vec<Child>);

impl Strangers {
    fn one_more_than_processors() -> Strangers {
        let count = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let burn = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            command.spawn().expect("a shell")
        };
        Strangers((0..count).map(burn).collect())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Neither side uses anything of processors that others fill, and neither of them is the wall.
#[test]
fn among_strangers_who_fill_the_machine_no_idle_side_is_the_wall() {
    let _turn = alone();
    if subjects().is_none() {
        return;
    }
    let strangers = Strangers::one_more_than_processors();
    // At processors of their own, and at all together.
    for pinned in [&["--server-cpus", "0"][..], &[]] {
        let place = Place::new();
        let port = free_port();
        let url = format!("http://subject:{port}/");
        let subject = &format!("knownwall --port {port} --async-sleep-us 200000");
        let args = [
            "run",
            "--subject",
            subject,
            &url,
            "-q",
            "-c",
            "10",
            "-d",
            "2s",
        ];
        place.run(&[&args, pinned].concat()).ends_with(0);
        let step = place.step();
        let verdict = &step["verdict"];
        if stolen(verdict) {
            return skip("the hypervisor took too much of the processors");
        }
        assert_eq!(verdict["wall"], "inconclusive", "{verdict:#}");
        let sentence = verdict["sentence"].as_str().unwrap();
        assert!(
            sentence.contains("others' processes had the processors"),
            "{sentence}"
        );
        let evidence = verdict["evidence"].as_array().unwrap();
        let others = evidence
            .iter()
            .find(|fact| fact["measure"] == "client.neighbour");
        let cores = others.expect("who had them")["value"].as_f64().unwrap();
        assert!(cores > 0.5, "{verdict:#}");
    }
    drop(strangers);
}
