//! An agent, asked by a controller that this test is: what it grants, how long it holds, and what it leaves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use wallfinder_model::drive::{LeverSetting, Progress, Share};
use wallfinder_model::scenario::Io;
use wallfinder_model::{Load, Nanos, Squeeze};
use wallfinder_protocol::{
    Answer, Ask, Frames, Grant, Greeting, Hello, LEASE, LeversOrder, LoadOrder, News, Refusal,
    Request, Role, Said, Side, VERSION, frame,
};
use wallfinder_tests::{binary, descendants, quietly, skip, things_of_ours, together};
use wallfinder_wire::Exchange;

use crate::hub::MARGIN;

pub(crate) struct Agent {
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
        Agent::of(command)
    }

    /// One that this command starts, here or elsewhere.
    pub(crate) fn of(mut command: Command) -> Agent {
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

    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Answer, Refusal> {
        let number = self.begin(ask);
        self.reply_to(number)
    }

    fn reply_to(&mut self, number: u64) -> Result<Answer, Refusal> {
        self.hear_until(|said| match said {
            Said::Reply(reply) => {
                assert_eq!(reply.number, number);
                Some(reply.answer)
            }
            Said::News(_) => None,
        })
    }

    /// Asks for what is answered later.
    fn begin(&mut self, ask: Ask) -> u64 {
        self.number += 1;
        let request = Request {
            number: self.number,
            epoch: self.epoch,
            ask,
        };
        let stdin = self.stdin.as_mut().expect("it is not cut");
        let bytes = frame(&request).expect("a frame");
        stdin.write_all(&bytes).expect("it reads");
        self.number
    }

    /// What it says next.
    fn hear(&mut self) -> Said {
        loop {
            if let Some(said) = self.frames.take::<Said>().expect("a message") {
                return said;
            }
            let mut bytes = [0; 65_536];
            let read = self.stdout.read(&mut bytes).expect("it answers");
            assert!(read > 0, "it ended instead of answering");
            self.frames.push(&bytes[..read]);
        }
    }

    /// Listens until something like this is said.
    fn hear_until<T>(&mut self, mut is_it: impl FnMut(Said) -> Option<T>) -> T {
        loop {
            if let Some(found) = is_it(self.hear()) {
                return found;
            }
        }
    }

    fn levers(&mut self, pid: u32) -> Result<Answer, Refusal> {
        self.ask(Ask::Levers(LeversOrder {
            role: Role::Server,
            own: Side {
                pids: vec![pid],
                cpus: vec![0],
            },
            backend: None,
            backend_cores: None,
            way_out: None,
            seed: 1,
        }))
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
        away: Nanos(0),
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
    let _turn = quietly().changing_the_host();
    if !geteuid().is_root() {
        return skip("squeezing processors takes root");
    }
    let before = things_of_ours();
    // What others had put up may go meanwhile.
    let is_as_before = || things_of_ours().iter().all(|thing| before.contains(thing));
    let victim = Victim::start();
    let within = LEASE + MARGIN;
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

/// Answers each request with two bytes, on an address of its own.
fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4_096];
    while let Ok(read) = stream.read(&mut bytes)
        && read > 0
    {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

fn load(address: SocketAddr, seconds: u64) -> Ask {
    let mut load = Load::closed(4);
    load.stop.after = Nanos::from_secs(seconds);
    load.warmup = Nanos::from_millis(100);
    Ask::Drive(Box::new(LoadOrder {
        load,
        address,
        request: Exchange::Http1(wallfinder_wire::Request::get("h", "/")),
        tls: None,
        cpus: Vec::new(),
        io: Io::Auto,
        seed: 1,
        share: Share::WHOLE,
        slots: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        keeps: false,
    }))
}

fn ready(said: Said) -> Option<()> {
    match said {
        Said::News(News::Progress(progress)) => matches!(*progress, Progress::Ready).then_some(()),
        _ => None,
    }
}

#[test]
fn a_load_begins_when_its_conductor_says_so_follows_its_levers_and_counts_to_the_last() {
    let _turn = together();
    let mut agent = Agent::start(&[]);
    let driven = agent.begin(load(served(), 60));
    agent.hear_until(ready);
    // Another one has to wait, and so does this one.
    let second = agent.ask(load(served(), 1));
    assert!(
        matches!(&second, Err(Refusal::Failed { why }) if why.contains("under way")),
        "{second:?}"
    );
    agent
        .ask(Ask::Proceed { zero_ns: None })
        .expect("it begins");
    agent.hear_until(|said| match said {
        Said::News(News::Progress(progress)) => match *progress {
            Progress::Interval { interval, .. } => (interval.answered > 0).then_some(()),
            _ => None,
        },
        other => panic!("{other:?}"),
    });
    for (version, speed) in [(7, Some(0.5)), (8, None)] {
        let setting = LeverSetting {
            window: version,
            speed,
            ..LeverSetting::FREE
        };
        let number = agent.begin(Ask::Steer { version, setting });
        let (mut is_done, mut is_followed) = (false, false);
        agent.hear_until(|said| {
            match said {
                Said::Reply(reply) if reply.number == number => is_done = reply.answer.is_ok(),
                Said::News(News::Followed { version: v }) => is_followed = v == version,
                _ => {}
            }
            (is_done && is_followed).then_some(())
        });
    }
    let wrong = LeverSetting {
        in_flight: 0.0,
        ..LeverSetting::FREE
    };
    let beyond = agent.ask(Ask::Steer {
        version: 9,
        setting: wrong,
    });
    assert!(beyond.is_err(), "{beyond:?}");
    agent
        .ask(Ask::EndLoad { abort: false })
        .expect("it is told");
    let Ok(Answer::Measured(measured)) = agent.reply_to(driven) else {
        panic!("nothing was measured");
    };
    let counts = &measured.counts;
    assert!(counts.answered > 0 && counts.balanced(), "{counts:?}");
    assert_eq!(counts.failed_total(), 0, "{counts:?}");
    // The next one may begin.
    let next = agent.begin(load(served(), 60));
    agent.hear_until(ready);
    agent.ask(Ask::EndLoad { abort: true }).expect("it is told");
    let _ = agent.reply_to(next);
}

#[test]
fn a_load_ends_with_its_lease() {
    let _turn = together();
    let mut agent = Agent::start(&[]);
    let driven = agent.begin(load(served(), 60));
    agent.hear_until(ready);
    agent
        .ask(Ask::Proceed { zero_ns: None })
        .expect("it begins");
    let since = Instant::now();
    // Nothing more is asked.
    let ended = agent.reply_to(driven);
    let took = since.elapsed();
    assert!((LEASE..LEASE + MARGIN).contains(&took), "{took:?}");
    assert!(matches!(ended, Ok(Answer::Measured(_))), "{ended:?}");
    let late = agent.ask(load(served(), 1));
    assert!(matches!(late, Err(Refusal::LeaseOver)), "{late:?}");
}
