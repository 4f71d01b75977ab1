//! Pauses by signals, of processes that are born while an experiment goes on.

mod helper;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use helper::steps::Steps;
use helper::{group_of, shim, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use wallfinder_model::experiment::Squeeze;
use wallfinder_testbed::Lever;
use wallfinder_testbed::pauses::Pauses;
use wallfinder_testbed::squeeze::Speed;

/// A shell that starts one more child each time it is sent SIGUSR1, as a server does whose workers
/// are replaced.
struct Server(Child);

impl Server {
    fn start() -> Server {
        let script = "trap 'sleep 300 &' USR1; while :; do :; done";
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).process_group(0).spawn();
        let server = Server(child.expect("a shell"));
        wait_until("its trap is set", || {
            caught(server.pid()) & (1 << (Signal::USR1.as_raw() - 1)) != 0
        });
        server
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn raw(&self) -> Pid {
        Pid::from_raw(self.pid() as i32).expect("a pid")
    }

    /// The worker that it starts now.
    fn next_worker(&self) -> u32 {
        let before = group_of(self.pid());
        kill_process(self.raw(), Signal::USR1).expect("sent");
        let new = || {
            let mut now = group_of(self.pid());
            now.retain(|pid| !before.contains(pid));
            now
        };
        wait_until("a worker is born", || !new().is_empty());
        new()[0]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process_group(self.raw(), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn status(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(field));
    value.unwrap_or_default().trim().to_owned()
}

/// The signals that a process catches.
fn caught(pid: u32) -> u64 {
    u64::from_str_radix(&status(pid, "SigCgt:"), 16).unwrap_or(0)
}

/// Whether a process is ever seen stopped within some time.
fn is_paused(pid: u32) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        status(pid, "State:").starts_with('T')
    })
}

#[test]
fn who_is_born_after_the_first_window_is_paused_from_the_next_on() {
    let server = Server::start();
    let pauses = Pauses::by_signals(&[server.pid()], 7, &shim()).unwrap();
    let mut lever = Speed::by_pauses(Squeeze::ServerSpeed, pauses, "server");
    lever.set(0.8).unwrap();
    lever.begin_window();
    let worker = server.next_worker();
    assert!(is_paused(server.pid()));
    let check = lever.end_window();
    assert!(check.text.ends_with("; 1 born meanwhile"), "{check:?}");
    lever.begin_window();
    assert!(is_paused(worker), "a window has begun since");
    let check = lever.end_window();
    assert!(check.text.ends_with("of the time"), "{check:?}");
    drop(lever);
    assert!(!is_paused(worker), "it goes on");
}

/// Lets a process go on when it is dropped.
struct GoesOn(u32);

impl Drop for GoesOn {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0 as i32).expect("a pid");
        let _ = kill_process(pid, Signal::CONT);
    }
}

#[test]
fn nobody_stands_while_the_one_who_pauses_is_stopped() {
    let server = Server::start();
    let step = format!("paused={}", server.pid());
    let mut steps = Steps::begin(&[step.as_str()]);
    steps.next();
    // A test that fails waits for its end.
    let goes_on = GoesOn(steps.pid());
    let pauser = Pid::from_raw(steps.pid() as i32).expect("a pid");
    let stands = || status(server.pid(), "State:").starts_with('T');
    // A fifth of the time it is in a pause.
    let is_caught = (0..200).any(|_| {
        kill_process(pauser, Signal::STOP).expect("sent");
        std::thread::sleep(Duration::from_millis(20));
        let is_caught = stands();
        if !is_caught {
            kill_process(pauser, Signal::CONT).expect("sent");
            std::thread::sleep(Duration::from_millis(7));
        }
        is_caught
    });
    assert!(is_caught, "it was stopped within a pause");
    wait_until("the server goes on", || !stands());
    assert!(status(steps.pid(), "State:").starts_with('T'));
    drop(goes_on);
    wait_until("the pauses go on", || is_paused(server.pid()));
    steps.end();
    assert!(!is_paused(server.pid()), "it goes on for good");
}
