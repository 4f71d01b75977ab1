//! Programs that go into the background, by every way that there is: each is told of, and ended.

mod helper;

use std::time::Duration;

use helper::{free_port, is_running, parent, shim, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use wallfinder_testbed::child::left_over;
use wallfinder_testbed::driver::{DriveOptions, Driver, DriverSpec};
use wallfinder_testbed::subject::{Subject, SubjectError, SubjectSpec};

/// A number that one process on this machine sleeps for: its mark.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("60.0{:07}{nth:03}", std::process::id())
}

/// Running processes that have a mark in their command line, but for guards.
fn marked(mark: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let has_it = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        words.contains(mark) && !words.contains("__child")
    };
    let found: Vec<u32> = numbers.filter(has_it).collect();
    found.into_iter().filter(|pid| is_running(*pid)).collect()
}

/// Whether what sleeps for so long has begun to: what starts it has the mark before that, and a session of its own later.
fn sleeps(mark: &str) -> bool {
    let begins = format!("sleep\0{mark}");
    let words = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    marked(mark)
        .iter()
        .any(|pid| words(pid).starts_with(begins.as_bytes()))
}

fn spec(command: &str, port: Option<u16>) -> SubjectSpec {
    let mut spec = SubjectSpec::new(command);
    spec.shim = shim();
    spec.expect_port = port;
    spec.listen_timeout = Duration::from_secs(5);
    spec
}

/// For a shell: waits until what it last left in the background has become the program of this name.
fn is_now(name: &str) -> String {
    format!("until grep -qx {name} /proc/$!/comm; do sleep 0.01; done")
}

/// A daemon by the book: forks, leaves its session, forks again, closes what it has open.
fn by_the_book(mark: &str) -> String {
    format!(
        "python3 -c 'import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir(\"/\")
for fd in range(3): os.close(fd)
time.sleep(float(\"{mark}\"))'"
    )
}

#[test]
fn a_subject_that_goes_into_the_background_is_an_error_that_says_how_to_keep_it_and_is_ended() {
    let ways = [
        |mark: &str| format!("sh -c 'sleep {mark} & exit 0'"),
        |mark: &str| format!("sh -c 'setsid sleep {mark} & exit 0'"),
        |mark: &str| {
            format!("sh -c 'setsid setsid sleep {mark} >/dev/null 2>&1 </dev/null & exit 3'")
        },
        |mark: &str| format!("sh -c 'env -i setsid sleep {mark} & exit 0'"),
        |mark: &str| format!("sh -c '(setsid sh -c \"sleep {mark} & sleep {mark}\" &) & exit 0'"),
        by_the_book,
    ];
    for way in ways {
        let mark = mark();
        let command = way(&mark);
        let error = Subject::start(spec(&command, Some(free_port()))).expect_err(&command);
        assert!(
            matches!(error, SubjectError::InBackground(_)),
            "{command}: {error}"
        );
        let words = error.to_string();
        assert!(words.contains("went into the background"), "{words}");
        assert!(words.contains("has to run in the foreground"), "{words}");
        assert!(marked(&mark).is_empty(), "{command}");
    }
}

#[test]
fn well_known_servers_are_told_by_name_how_they_stay() {
    let folder = std::env::temp_dir().join(format!("wf-names-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("new");
    for (name, way_out) in [
        ("nginx", "daemon off;"),
        ("haproxy", "-D"),
        ("gunicorn", "--daemon"),
    ] {
        let mark = mark();
        let server = folder.join(name);
        std::fs::copy("/bin/sleep", &server).expect("a copy");
        let server = server.display();
        let command = format!("sh -c 'setsid {server} {mark} & {}; exit 0'", is_now(name));
        let error = Subject::start(spec(&command, Some(free_port()))).expect_err(name);
        let words = error.to_string();
        assert!(words.contains(&format!("`{name}` (")), "{words}");
        assert!(words.contains(way_out), "{words}");
    }
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_subject_that_goes_into_the_background_later_is_told_of_and_ended() {
    let (mark, port) = (mark(), free_port());
    let server = format!(
        "python3 -c \"import socket,time; s=socket.socket(); s.bind((str(),{port})); s.listen(); time.sleep({mark})\""
    );
    // Its first process runs for as long as this is there.
    let folder = std::env::temp_dir().join(format!("wf-stays-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("new");
    let stays = folder.display();
    let command = format!("sh -c 'setsid {server} & while [ -e {stays} ]; do sleep 0.02; done'");
    let subject = Subject::start(spec(&command, Some(port))).expect("it listens");
    assert_eq!(subject.in_background(), None, "its first process runs");
    assert!(!marked(&mark).is_empty());
    std::fs::remove_dir(&folder).expect("ours");
    wait_until("it is told of", || subject.in_background().is_some());
    let words = subject.in_background().expect("told").to_string();
    assert!(words.contains("foreground"), "{words}");
    assert!(marked(&mark).is_empty());
}

#[test]
fn what_leaves_its_group_and_its_session_ends_with_a_subject_that_is_stopped() {
    let (mark, port) = (mark(), free_port());
    let command = format!(
        "python3 -c 'import os,socket,time
s=socket.socket(); s.bind((\"127.0.0.1\",{port})); s.listen()
if os.fork()==0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.execvpe(\"sleep\", [\"sleep\", \"{mark}\"], {{}})
time.sleep(60)'"
    );
    let subject = Subject::start(spec(&command, Some(port))).expect("it listens");
    wait_until("the daemon is there", || marked(&mark).len() == 2);
    assert_eq!(subject.in_background(), None, "its first process runs");
    subject.stop();
    assert!(marked(&mark).is_empty());
}

/// A server with a daemon beside it that nothing ties to it but its descent.
fn with_daemon(mark: &str, port: u16, environment: &str) -> String {
    format!(
        "sh -c '(setsid env {environment} sleep {mark} </dev/null >/dev/null 2>&1 &)
exec python3 -c \"import socket,time; s=socket.socket(); s.bind((str(),{port})); s.listen(); time.sleep(60)\"'"
    )
}

#[test]
fn a_daemon_without_its_environment_ends_with_a_tool_that_is_killed() {
    let (mark, port) = (mark(), free_port());
    let (mut parent, pid) = parent(&with_daemon(&mark, port, "-i"), port);
    wait_until("the daemon is there", || sleeps(&mark));
    parent.kill().expect("SIGKILL");
    parent.wait().expect("gone");
    wait_until("all is gone", || {
        marked(&mark).is_empty() && !is_running(pid)
    });
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].split(' ').nth(1)?.parse().ok()
}

#[test]
fn what_outlives_the_tool_and_all_its_helpers_is_found_afterwards() {
    let (mark, port) = (mark(), free_port());
    let (mut parent, pid) = parent(&with_daemon(&mark, port, "A=1"), port);
    wait_until("the daemon is there", || sleeps(&mark));
    // Its guard, and the keeper: all of ours, before any of them can act.
    let ours: Vec<u32> = std::fs::read_dir("/proc")
        .expect("proc")
        .flatten()
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|one: &u32| *one != pid && is_running(*one) && parent_of(*one) == Some(parent.id()))
        .collect();
    let guard = parent_of(pid).expect("running");
    assert!(ours.contains(&guard) && ours.len() == 2, "{ours:?}");
    let send = |pid: u32, signal| {
        let _ = kill_process(Pid::from_raw(pid as i32).expect("a process"), signal);
    };
    for one in &ours {
        send(*one, Signal::STOP);
    }
    parent.kill().expect("SIGKILL");
    parent.wait().expect("gone");
    for one in &ours {
        send(*one, Signal::KILL);
    }
    wait_until("the server is gone", || !is_running(pid));
    let alive = marked(&mark);
    assert_eq!(alive.len(), 1, "the daemon alone: {alive:?}");
    let strays = left_over();
    let stray = strays.iter().find(|stray| stray.pid == alive[0]);
    assert!(stray.expect("found by its tag").kill());
    wait_until("it is gone", || marked(&mark).is_empty());
    assert!(!left_over().iter().any(|stray| stray.pid == alive[0]));
}

#[test]
fn what_a_driver_leaves_running_is_ended_and_told_of() {
    let mark = mark();
    let command = format!(
        "sh -c 'setsid sleep {mark} & {}; echo done'",
        is_now("sleep")
    );
    let spec = DriverSpec::parse(&command).expect("fine");
    let mut options = DriveOptions::new("http://127.0.0.1:1/", &spec);
    options.shim = shim();
    let outcome = Driver::start(&spec, options).expect("it starts").wait();
    assert!(outcome.ended.is_success());
    assert_eq!(outcome.left_behind.len(), 1, "{:?}", outcome.left_behind);
    assert_eq!(outcome.left_behind[0].name, "sleep");
    assert!(marked(&mark).is_empty());
    // What ends with its first process, or in a moment, was not left.
    let spec = DriverSpec::parse("sh -c 'sleep 0.02 & exit 0'").expect("fine");
    let mut options = DriveOptions::new("http://127.0.0.1:1/", &spec);
    options.shim = shim();
    let outcome = Driver::start(&spec, options).expect("it starts").wait();
    assert_eq!(outcome.left_behind, []);
}
