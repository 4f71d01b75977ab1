//! Servers that listen late, are started anew, or start their workers after they listen: they are waited
//! for, and their processes are seen.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wallfinder_tests::{Place, free_port, json_at, program, skip, subjects, together};

const QUIET: [&str; 2] = ["--no-calibrate", "-q"];

/// A shell's work, ended with all that it started.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Shell {
        // A group of its own, to be ended as one.
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Shell(command.spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The server's part of the telemetry of the only step.
fn server(place: &Place) -> Value {
    json_at(&place.step(), "/telemetry/server").clone()
}

#[test]
fn a_server_that_is_started_together_with_the_load_is_waited_for_and_seen() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    let port = free_port();
    let catalogue = folder.join("catalogue");
    let script = format!("sleep 0.5; exec {} --port {port}", catalogue.display());
    let _shell = Shell::start(&script);
    let place = Place::new();
    let url = format!("http://127.0.0.1:{port}/simple");
    let load = ["run", &url, "-c", "2", "-d", "600ms", "--warmup", "100ms"];
    let ran = place.run(&[&load[..], &QUIET].concat()).ends_with(0);
    let server = server(&place);
    assert_eq!(server["name"], "catalogue", "{server:#}");
    assert!(server["cpu_ns"].as_u64().unwrap() > 0, "{server:#}");
    let step = place.step();
    assert_eq!(step["counts"]["connect_failures"], serde_json::json!({}));
    assert!(!ran.said().contains("nobody listens"), "{}", ran.said());
}

#[test]
fn a_wait_ends_when_it_was_said_to_and_names_the_way_out() {
    let _turn = together();
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let ran = place.run(&["run", &url, "-d", "30s", "--wait", "300ms", "-q"]);
    let ran = ran.ends_with(1);
    assert!(
        ran.err.contains("nobody listens on 127.0.0.1"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("300 ms") && ran.err.contains("--wait"),
        "{}",
        ran.err
    );
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
    assert!(place.runs().is_empty(), "nothing was measured");
}

#[test]
fn a_server_that_is_started_anew_during_the_warm_up_is_seen_in_the_window() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    let port = free_port();
    let command = format!("exec {} --port {port}", folder.join("catalogue").display());
    let first = Shell::start(&command);
    let place = Place::new();
    let url = format!("http://127.0.0.1:{port}/simple");
    let load = ["run", &url, "-c", "2", "-d", "600ms", "--warmup", "2500ms"];
    let running = place.start(&[&load[..], &QUIET].concat());
    // Its folder is there once the load begins, whose warm-up is longer than a start takes.
    let until = Instant::now() + Duration::from_secs(20);
    while place.runs().is_empty() {
        assert!(Instant::now() < until, "no load begins: {}", running.err());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(first);
    let _second = Shell::start(&command);
    running.wait(Duration::from_secs(60)).ends_with(0);
    let server = server(&place);
    let pids = server["pids"].as_array().unwrap();
    assert_eq!(pids.len(), 1, "{server:#}");
    assert_eq!(server["processes"], 1, "{server:#}");
    // All of its work in the window, and not from when it was found on.
    let answered = place.step()["counts"]["answered"].as_f64().unwrap();
    let each_us = server["cpu_ns"].as_f64().unwrap() / answered / 1e3;
    assert!(
        each_us > 3.0,
        "{each_us} us of CPU for each answer: {server:#}"
    );
}

#[test]
fn workers_that_are_started_after_the_server_listens_are_its_processes() {
    let _turn = together();
    if program("python3").is_none() {
        skip("no python3");
        return;
    }
    let place = Place::new();
    let port = free_port();
    let script = "import os, socket, sys, time\n\
        l = socket.socket(); l.bind(('127.0.0.1', int(sys.argv[1]))); l.listen(64)\n\
        time.sleep(0.6)\n\
        for _ in range(2):\n    \
            if os.fork() == 0:\n        \
                while True:\n            \
                    c, _ = l.accept()\n            \
                    while c.recv(4096): c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n\
        l.close()\n\
        os.wait()\n";
    let file = place.file("server.py", script);
    let _shell = Shell::start(&format!("exec python3 {} {port}", file.display()));
    let url = format!("http://127.0.0.1:{port}/");
    let load = ["run", &url, "-c", "2", "-d", "800ms", "--warmup", "1500ms"];
    place.run(&[&load[..], &QUIET].concat()).ends_with(0);
    let server = server(&place);
    assert_eq!(server["processes"], 3, "{server:#}");
    assert!(server["utilisation"].as_f64().unwrap() > 0.02, "{server:#}");
}
