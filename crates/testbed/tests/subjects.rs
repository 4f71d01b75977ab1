//! Real processes, from outside: they start, are seen, and are gone.

mod helper;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helper::{bearing, free_port, group_of, helper_path, is_running, parent, shim, wait_until};
use wallfinder_testbed::child::Ended;
use wallfinder_testbed::subject::{Subject, SubjectError, SubjectSpec};

/// A server in Python that listens on a port, and with `fork` has a child that waits.
fn server(port: u16, more: &str) -> String {
    format!(
        "python3 -c 'import socket,time,os,sys,signal
{more}
s=socket.socket(); s.bind((\"127.0.0.1\",{port})); s.listen()
while True: time.sleep(9)'"
    )
}

fn spec(command: String, port: u16) -> SubjectSpec {
    let mut spec = SubjectSpec::new(command);
    spec.shim = shim();
    spec.expect_port = Some(port);
    spec
}

#[test]
fn any_server_is_ready_when_its_port_listens_and_gone_when_stopped() {
    let port = free_port();
    let subject = Subject::start(spec(server(port, "os.fork()==0 and time.sleep(60)"), port));
    let subject = subject.expect("it listens");
    assert_eq!(subject.address(), format!("127.0.0.1:{port}"));
    assert!(
        subject
            .version()
            .is_some_and(|version| version.starts_with("Python 3"))
    );
    let pid = subject.pid();
    let group = group_of(pid);
    assert_eq!(group.len(), 2, "with its child");
    assert_eq!(subject.exited(), None);
    assert_eq!(subject.stop(), Ended::Signal(15));
    assert!(
        group.iter().all(|pid| !is_running(*pid)),
        "nothing stays behind"
    );
}

#[test]
fn a_subject_runs_where_it_was_pinned() {
    let port = free_port();
    let mut spec = spec(server(port, ""), port);
    spec.cpus = vec![1];
    spec.env = vec![("SEEN".into(), "yes".into())];
    let subject = Subject::start(spec).expect("it listens");
    let proc = format!("/proc/{}", subject.pid());
    let status = std::fs::read_to_string(format!("{proc}/status")).expect("running");
    assert!(status.contains("Cpus_allowed_list:\t1\n"), "{status}");
    let environ = std::fs::read_to_string(format!("{proc}/environ")).expect("running");
    assert!(environ.contains("WALLFINDER_SUBJECT=1\0") && environ.contains("SEEN=yes\0"));
}

#[test]
fn an_announcement_names_the_address() {
    let line = r#"print("""{"listening":"127.0.0.1:4711","pid":1,"versions":{"go":"1.26"}}""",flush=True)"#;
    let mut spec = SubjectSpec::new(server(free_port(), line));
    spec.shim = shim();
    let subject = Subject::start(spec).expect("it announces");
    assert_eq!(subject.address(), "127.0.0.1:4711");
    assert_eq!(subject.version(), Some("go 1.26"));
}

#[test]
fn an_early_end_shows_what_was_said() {
    let command = r#"sh -c 'echo "cannot open bench.conf" >&2; exit 3'"#;
    let error = Subject::start(spec(command.into(), free_port())).expect_err("it ends");
    let SubjectError::EndedEarly {
        ended, ref stderr, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(ended, Ended::Code(3));
    assert_eq!(stderr, "cannot open bench.conf\n");
    assert!(error.to_string().contains("exit code 3"), "{error}");
}

#[test]
fn a_taken_port_is_refused_before_anything_starts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let error = Subject::start(spec("touch /nowhere/started".into(), port));
    assert_eq!(error.err(), Some(SubjectError::PortTaken { port }));
}

#[test]
fn a_subject_that_never_listens_is_stopped_at_its_limit() {
    let mut spec = spec("sleep 60".into(), free_port());
    spec.listen_timeout = Duration::from_millis(300);
    let since = Instant::now();
    let error = Subject::start(spec).expect_err("it never listens");
    assert!(
        matches!(error, SubjectError::NotListening { .. }),
        "{error}"
    );
    assert!(since.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_subject_that_ignores_the_request_to_end_is_killed() {
    let port = free_port();
    let mut spec = spec(
        server(port, "signal.signal(signal.SIGTERM,signal.SIG_IGN)"),
        port,
    );
    spec.grace = Duration::from_millis(200);
    let subject = Subject::start(spec).expect("it listens");
    let pid = subject.pid();
    let since = Instant::now();
    assert_eq!(subject.stop(), Ended::Signal(9));
    assert!(since.elapsed() < Duration::from_secs(20));
    assert!(!is_running(pid));
}

#[test]
fn a_family_dies_with_a_parent_that_is_killed() {
    for _ in 0..3 {
        let port = free_port();
        let (mut parent, pid) = parent(&server(port, "os.fork()==0 and time.sleep(60)"), port);
        let group = group_of(pid);
        assert_eq!(group.len(), 2, "with its child");
        parent.kill().expect("SIGKILL");
        parent.wait().expect("gone");
        wait_until("the family is gone", || {
            group.iter().all(|pid| !is_running(*pid))
        });
    }
}

#[test]
fn a_parent_killed_at_any_moment_leaves_nothing() {
    for round in 0..20_u64 {
        let port = free_port();
        let mark = format!("WALLFINDER_TEST_MARK={}-{round}", std::process::id());
        let mut parent = Command::new(helper_path())
            .arg("parent")
            .arg(format!(
                "{mark} {}",
                server(port, "os.fork()==0 and time.sleep(60)")
            ))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a parent");
        // From before the first fork until the server listens.
        std::thread::sleep(Duration::from_millis(round * 4));
        parent.kill().expect("SIGKILL");
        parent.wait().expect("gone");
        // Whatever was about to start has started by then.
        std::thread::sleep(Duration::from_millis(30));
        wait_until(&format!("all is gone after {} ms", round * 4), || {
            bearing(&mark).is_empty()
        });
    }
}

#[test]
fn a_program_that_does_not_know_the_subcommand_does_not_start_itself_without_end() {
    let mut command = Command::new(helper_path());
    command
        .args(["parent", "sleep 60", "1"])
        .env("WALLFINDER_CHILD", "1");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not handle `__child`"), "{said}");
}

#[test]
fn a_processor_that_is_not_there_is_said_to_be_the_reason() {
    let mut spec = spec("sleep 60".into(), free_port());
    spec.cpus = vec![1000];
    let error = Subject::start(spec).expect_err("no such processor");
    assert!(
        error
            .to_string()
            .contains("run on the processors asked for"),
        "{error}"
    );
}
