//! A server that everybody has, started as its users start it: nginx, with a worker that has
//! a processor of its own below a master that may run anywhere.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wallfinder_tests::{Place, alone, free_port, json_at, listens_on, program, skip, together};

/// The file of the labelled suite.
const CONFIGURATION: &str = include_str!("../../../walls/servers/nginx-worker-affinity.conf");
/// Where that listens.
const ITS_PORT: &str = "18181";

/// Dropping it ends it, by the signal that takes its worker along.
struct Nginx {
    child: Child,
    port: u16,
}

impl Nginx {
    /// `None`, with the reason printed, where it cannot be had.
    fn start(place: &Place) -> Option<Nginx> {
        let (Some(setpriv), Some(_)) = (program("setpriv"), nginx()) else {
            skip("it needs nginx (Debian: apt-get install nginx-light) and setpriv");
            return None;
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if processors < 2 || !rustix::process::geteuid().is_root() {
            skip("it needs root and two processors");
            return None;
        }
        let port = free_port();
        let text = CONFIGURATION.replace(ITS_PORT, &port.to_string());
        let file = place.file("nginx.conf", text);
        let child = Command::new(setpriv)
            .args(["--pdeathsig", "TERM"])
            .arg(nginx()?)
            .arg("-p")
            .arg(place.path())
            .arg("-c")
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !listens_on(port) {
            assert!(Instant::now() < until, "nginx does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Some(Nginx { child, port })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/BSD", self.port)
    }
}

fn nginx() -> Option<std::path::PathBuf> {
    // Debian has servers in a folder that the path of a user may lack.
    let in_sbin = || Some(Path::new("/usr/sbin/nginx").to_owned()).filter(|path| path.is_file());
    program("nginx").or_else(in_sbin)
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_is_where_its_workers_are_and_the_client_is_elsewhere() {
    let _turn = together();
    let place = Place::new();
    let Some(nginx) = Nginx::start(&place) else {
        return;
    };
    let args = [
        "run",
        &nginx.url(),
        "-c",
        "8",
        "-d",
        "1s",
        "--no-calibrate",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    let server = json_at(&step, "/telemetry/server");
    assert_eq!(server["name"], "nginx");
    assert_eq!(server["processes"], 2, "master and worker: {server:#}");
    assert_eq!(server["cpus_allowed"], serde_json::json!([0]));
    // Nobody said where the client should be.
    let client = json_at(&step, "/telemetry/client/cpus_allowed");
    assert!(!client.as_array().unwrap().contains(&0.into()), "{client}");
}

#[test]
fn a_server_that_stands_is_squeezed_and_left_as_it_was() {
    let _turn = alone();
    let place = Place::new();
    let Some(nginx) = Nginx::start(&place) else {
        return;
    };
    let groups = || fs::read_to_string(format!("/proc/{}/cgroup", nginx.child.id())).unwrap();
    let before = groups();
    let url = nginx.url();
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        "200ms",
        "--no-calibrate",
        "--no-inside",
        "-c",
        "16",
        "-q",
        &url,
    ];
    place
        .start(&args)
        .wait(Duration::from_secs(150))
        .ends_with(0);
    let record = place.record();
    let steps = record["steps"].as_array().unwrap();
    let verdict = &steps.last().unwrap()["verdict"];
    let speed = json_at(verdict, "/elasticities/server-speed/value").as_f64();
    assert!(speed.unwrap() > 0.4, "the worker is the wall: {verdict:#}");
    assert_eq!(groups(), before);
}
