//! An agent, asked by a controller that this test is: what it grants, how long it holds, and what it leaves.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use wallfinder_model::Squeeze;
use wallfinder_protocol::{
    Answer, Ask, Frames, Grant, Greeting, Hello, LEASE, Refusal, Reply, Request, Side, VERSION,
    frame,
};
use wallfinder_tests::{alone, binary, descendants, skip, things_of_ours, together};

struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    frames: Frames,
    number: u64,
    epoch: u64,
}

impl Agent {
    fn start(flags: &[&str]) -> Agent {
        let mut command = Command::new(binary());
        command.args(["agent", "--stdio"]).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("an agent");
        let mut stdout = child.stdout.take().expect("a pipe");
        let mut greeting = Greeting::default();
        let frames = loop {
            let mut bytes = [0; 4_096];
            let read = stdout.read(&mut bytes).expect("a greeting");
            assert!(read > 0, "it ended: {}", greeting.before());
            if let Some(frames) = greeting.push(&bytes[..read]).expect("a greeting") {
                break frames;
            }
        };
        Agent {
            stdin: child.stdin.take(),
            child,
            stdout,
            frames,
            number: 0,
            epoch: 1,
        }
    }

    fn ask(&mut self, ask: Ask) -> Result<Answer, Refusal> {
        self.number += 1;
        let request = Request {
            number: self.number,
            epoch: self.epoch,
            ask,
        };
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin
            .write_all(&frame(&request).expect("a frame"))
            .expect("it reads");
        loop {
            if let Some(reply) = self.frames.take::<Reply>().expect("a reply") {
                assert_eq!(reply.number, self.number);
                return reply.answer;
            }
            let mut bytes = [0; 65_536];
            let read = self.stdout.read(&mut bytes).expect("it answers");
            assert!(read > 0, "it ended instead of answering");
            self.frames.push(&bytes[..read]);
        }
    }

    fn levers(&mut self, pid: u32) -> Result<Answer, Refusal> {
        self.ask(Ask::Levers {
            server: Side {
                pids: vec![pid],
                cpus: vec![0],
            },
            backend: None,
            backend_cores: None,
            downlink: None,
            seed: 1,
        })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        until(limit, || matches!(self.child.try_wait(), Ok(Some(_))))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !self.ends_within(Duration::from_secs(5)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn until(limit: Duration, mut what: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if what() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server, as far as squeezes care: a process on processor 0.
struct Victim(Child);

impl Victim {
    fn start() -> Victim {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sleep", "1000"]);
        Victim(command.spawn().expect("taskset"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_says_who_it_is_and_ends_with_its_input() {
    let _turn = together();
    let mut agent = Agent::start(&[]);
    let hello = Hello {
        protocol: VERSION,
        version: "test".to_owned(),
        controller: "this test".to_owned(),
    };
    let Ok(Answer::Welcome(welcome)) = agent.ask(Ask::Hello(hello)) else {
        panic!("no welcome");
    };
    assert_eq!((welcome.protocol, welcome.pid), (VERSION, agent.pid()));
    assert_eq!(welcome.grants, Grant::ALL);
    let Ok(Answer::Times(times)) = agent.ask(Ask::Times) else {
        panic!("no times");
    };
    assert!(times.of.contains_key(&std::process::id()));
    let nobody = agent.ask(Ask::Find {
        address: ([127, 0, 0, 1], 1).into(),
        named: wallfinder_protocol::Named::Nobody,
    });
    let why = nobody.expect_err("nobody listens there").to_string();
    assert!(why.contains("nobody listens on 127.0.0.1:1"), "{why}");
    drop(agent.stdin.take());
    assert!(agent.ends_within(Duration::from_secs(5)));
}

#[test]
fn what_is_no_message_ends_an_agent() {
    let _turn = together();
    let mut agent = Agent::start(&[]);
    let stdin = agent.stdin.as_mut().expect("it is open");
    stdin.write_all(&[0xff; 64]).expect("it reads");
    assert!(agent.ends_within(Duration::from_secs(5)));
    assert_eq!(agent.child.wait().expect("it ended").code(), Some(1));
}

#[test]
fn the_host_decides_what_it_grants() {
    let _turn = together();
    let mut agent = Agent::start(&["--grant", "observe"]);
    let refused = agent.levers(std::process::id());
    let grant = Grant::Squeeze;
    assert_eq!(refused, Err(Refusal::NotGranted { grant }));
    assert!(matches!(agent.ask(Ask::Clock), Ok(Answer::Clock { .. })));
}

/// Silent for longer than a lease, stopped, killed, ended by its host: each leaves the host as it was.
#[test]
fn squeezes_end_with_their_lease_whatever_becomes_of_the_agent() {
    let _turn = alone();
    if !geteuid().is_root() {
        return skip("squeezing processors takes root");
    }
    let before = things_of_ours();
    let is_as_before = || things_of_ours() == before;
    let victim = Victim::start();
    let within = LEASE + Duration::from_secs(3);
    let set = || Ask::Set {
        settings: vec![(Squeeze::ServerSpeed, 0.8)],
    };
    let squeezed = || {
        let mut agent = Agent::start(&[]);
        let levers = agent.levers(victim.0.id());
        let Ok(Answer::Levers { levers, .. }) = levers else {
            panic!("no levers: {levers:?}");
        };
        let has = |squeeze| levers.iter().any(|lever| lever.squeeze == squeeze);
        assert!(has(Squeeze::ServerSpeed), "{levers:?}");
        assert_eq!(agent.ask(set()), Ok(Answer::Done));
        assert!(!is_as_before(), "nothing was put up");
        agent
    };
    // It hears nothing, and goes on.
    let mut silent = squeezed();
    assert!(
        until(within, is_as_before),
        "silent: {:?}",
        things_of_ours()
    );
    assert_eq!(silent.ask(set()), Err(Refusal::LeaseOver));
    assert!(matches!(silent.ask(Ask::Clock), Ok(Answer::Clock { .. })));
    drop(silent);
    // It was stopped, and is ended.
    let mut stopped = squeezed();
    let helpers = descendants(stopped.pid());
    assert!(!helpers.is_empty());
    stopped.signal(Signal::STOP);
    assert!(
        stopped.ends_within(within),
        "it was stopped, and is there still"
    );
    assert!(
        until(within, is_as_before),
        "stopped: {:?}",
        things_of_ours()
    );
    // It was killed.
    let mut killed = squeezed();
    killed.signal(Signal::KILL);
    assert!(killed.ends_within(within));
    assert!(
        until(within, is_as_before),
        "killed: {:?}",
        things_of_ours()
    );
    // One controller at a time; and the host ends them all.
    let mut first = squeezed();
    let mut second = Agent::start(&[]);
    let refused = second
        .levers(victim.0.id())
        .expect_err("the first one squeezes");
    assert!(
        refused.to_string().contains("another controller"),
        "{refused}"
    );
    let ended = Command::new(binary()).args(["agent", "--stop"]).output();
    let ended = ended.expect("the binary runs");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(said.contains("agents were ended"), "{said}");
    assert!(first.ends_within(within) && second.ends_within(within));
    assert!(until(within, is_as_before), "ended: {:?}", things_of_ours());
}
