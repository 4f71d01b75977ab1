//! What a fleet costs its controller and its hub: loads by 10, 100, 300 and 1,000 agents, of which only the load is made up.
//!
//! ```sh
//! cargo run -p wallfinder-tests --example many_agents -- [AGENTS,…] [SECONDS]
//! ```
//!
//! The hub is `wallfinder hub` with its nats-server, the controller `wallfinder run`. The agents are one process of this
//! program: each has an identity, a connection under TLS and sessions of its own, and speaks the protocol as
//! `wallfinder agent --join` does, by the same code up to where that starts a process. What they say of requests is made
//! up; the sums of the record are compared with what they said.

mod simulated;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use wallfinder_tests::{Place, Running, comm, descendants, free_port, own_ip};

/// How often what processes have used is read.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a hub, and agents, may take to be there.
const UP_WITHIN: Duration = Duration::from_secs(120);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [simulate, dir, agents] = words.as_slice()
        && simulate == "simulate"
    {
        return simulated::agents(Path::new(dir), agents.parse().expect("a number"));
    }
    let counts = words.first().map_or("10,100,300,1000", String::as_str);
    let seconds: u64 = words
        .get(1)
        .map_or(10, |text| text.parse().expect("seconds"));
    println!(
        "agents  set up   merged in   controller: CPU, busiest second, memory, threads     hub: CPU, busiest, memory   \
         agents: CPU, busiest, memory   sums"
    );
    let mut is_whole = true;
    for count in counts.split(',') {
        let (row, closes) = measured(count.trim().parse().expect("a number"), seconds);
        println!("{row}");
        is_whole &= closes;
    }
    std::process::exit(i32::from(!is_whole));
}

/// One load by so many agents, as a row of the table; and whether its sums close.
fn measured(count: usize, seconds: u64) -> (String, bool) {
    let place = Place::new();
    let own = SocketAddr::new(own_ip().expect("a way out of this host"), 0);
    let server = answering(own);
    let hub = Hub::up(&place, own, count);
    let mut agents = Simulator::start(&hub.dir, count);
    let url = format!("http://{server}/");
    let (connections, lasts) = ((count * 4).to_string(), format!("{seconds}s"));
    let words = [
        "run",
        &url,
        "-c",
        &connections,
        "-d",
        &lasts,
        "--warmup",
        "1s",
        "-q",
        "--no-calibrate",
    ];
    let own = own.ip().to_string();
    let hosts = [
        "--client-host",
        "s*",
        "--hub",
        &hub.dir,
        "--i-may-load",
        &own,
    ];
    let began = SystemTime::now();
    let mut running = place.start(&[&words[..], &hosts].concat());
    let mut of = [
        Process::of(running.pid()),
        Process::of(hub.server()),
        Process::of(agents.child.id()),
    ];
    while running.runs() {
        of.iter_mut().for_each(Process::look);
        sleep(LOOK_EVERY);
    }
    running.wait(Duration::from_secs(10)).ends_with(0);
    let record = place.last_run().join("record.json");
    let sealed = fs::metadata(&record).and_then(|found| found.modified());
    let told = agents.told(count);
    let step = place.step();
    let since = |from: SystemTime, to: SystemTime| {
        to.duration_since(from)
            .map_or(0.0, |span| span.as_secs_f64())
    };
    let first = told.iter().map(|of| of.began).min().expect("a load");
    let last = told.iter().map(|of| of.ended).max().expect("a load");
    let [controller, hub, agents] = of.map(Process::used);
    let (sums, closes) = sums(&step, &told);
    let row = format!(
        "{count:>6}  {:>5.1} s  {:>8.2} s   {controller}   {}   {}   {}",
        since(began, first),
        since(last, sealed.expect("a record")),
        hub.without_threads(),
        agents.without_threads(),
        sums
    );
    (row, closes)
}

/// Whether the record's sums close, and are those of the agents to the last request.
fn sums(step: &Value, told: &[Told]) -> (String, bool) {
    let of = |name: &str| step["counts"][name].as_u64().unwrap_or(0);
    let came = of("in_flight_start") + of("scheduled");
    let went = of("answered") + of("in_flight_end") + of("unknown");
    let answered: u64 = told.iter().map(|of| of.answered).sum();
    let latencies = step["latency"]["count"].as_u64();
    let by_host = step["clients"].as_array().map_or(0, Vec::len);
    let is_whole = came == went
        && of("answered") == answered
        && latencies == Some(answered)
        && by_host == told.len()
        && step["counts"]["unknown"].is_null();
    let text = match is_whole {
        true => format!("close: {answered} answers of {by_host} hosts"),
        false => format!(
            "DIFFER: {answered} were told, the record has {} of {by_host} hosts; {came} came, {went} went, {latencies:?} latencies",
            of("answered")
        ),
    };
    (text, is_whole)
}

/// A server that nobody loads: it is looked at before the load.
fn answering(at: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(at).expect("an address of this host");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    address
}

/// A hub that has invited so many. Dropping it ends it.
struct Hub {
    running: Running,
    dir: String,
}

impl Hub {
    fn up(place: &Place, own: SocketAddr, count: usize) -> Hub {
        let dir = place.path().join("hub").display().to_string();
        let listen = SocketAddr::new(own.ip(), free_port()).to_string();
        let mut words: Vec<String> = ["hub", "--dir", &dir, "--listen", &listen]
            .map(str::to_owned)
            .into();
        words.extend((0..count).flat_map(|nth| ["--invite".to_owned(), simulated::name(nth)]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let running = place.start(&words);
        let since = Instant::now();
        while !running.out().contains("Use them") {
            assert!(since.elapsed() < UP_WITHIN, "no hub: {}", running.err());
            sleep(LOOK_EVERY);
        }
        Hub { running, dir }
    }

    /// The server of messages.
    fn server(&self) -> u32 {
        let mut below = descendants(self.running.pid()).into_iter();
        let server = below.find(|pid| comm(*pid) == "nats-server");
        server.expect("it runs")
    }
}

/// What an agent said of its load.
struct Told {
    answered: u64,
    began: SystemTime,
    ended: SystemTime,
}

/// The process of all agents. Dropping it ends it.
struct Simulator {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Simulator {
    fn start(dir: &str, count: usize) -> Simulator {
        let own = std::env::current_exe().expect("this program");
        let mut command = Command::new(own);
        command.args(["simulate", dir, &count.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it can be started");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut simulator = Simulator { child, said };
        (0..count).for_each(|_| assert_eq!(simulator.line(), "joined"));
        simulator
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        line.trim_end().to_owned()
    }

    /// What each said of the load that ended.
    fn told(&mut self, count: usize) -> Vec<Told> {
        let at = |nanos: &str| {
            SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos.parse().expect("an instant"))
        };
        let told = (0..count).map(|_| {
            let line = self.line();
            let words: Vec<&str> = line.split(' ').collect();
            Told {
                answered: words[0].parse().expect("a count"),
                began: at(words[1]),
                ended: at(words[2]),
            }
        });
        told.collect()
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// What a process uses, looked at while it runs.
struct Process {
    pid: u32,
    /// CPU time of all its threads, with when it was read.
    read: Vec<(Instant, Duration)>,
    memory_kib: u64,
    threads: u64,
}

impl Process {
    fn of(pid: u32) -> Process {
        let mut process = Process {
            pid,
            read: Vec::new(),
            memory_kib: 0,
            threads: 0,
        };
        process.look();
        process
    }

    fn look(&mut self) {
        const TICKS_PER_S: u64 = 100;
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.pid));
        let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else {
            return;
        };
        // After the name, which may hold anything: the state, and from the twelfth on CPU time.
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        let ticks = |nth: usize| fields.get(nth).and_then(|text| text.parse::<u64>().ok());
        if let (Some(user), Some(system)) = (ticks(11), ticks(12)) {
            let used = Duration::from_millis((user + system) * 1_000 / TICKS_PER_S);
            self.read.push((Instant::now(), used));
        }
        let of = |key: &str| {
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(key));
            let number = lines.next().and_then(|rest| rest.split_whitespace().next());
            number.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        self.memory_kib = self.memory_kib.max(of("VmHWM:"));
        self.threads = self.threads.max(of("Threads:"));
    }

    fn used(self) -> Used {
        let whole = self.read.first().zip(self.read.last());
        let busiest = self
            .read
            .iter()
            .enumerate()
            .filter_map(|(nth, (from, before))| {
                let mut later = self.read[nth..].iter();
                let (to, after) =
                    later.find(|(at, _)| at.duration_since(*from).as_secs_f64() >= 1.0)?;
                Some((*after - *before).as_secs_f64() / to.duration_since(*from).as_secs_f64())
            });
        Used {
            cpu: whole.map_or(Duration::ZERO, |((_, from), (_, to))| *to - *from),
            busiest: busiest.fold(0.0, f64::max),
            memory_kib: self.memory_kib,
            threads: self.threads,
        }
    }
}

/// What a process has used while a load was made.
struct Used {
    cpu: Duration,
    /// Cores in its busiest second.
    busiest: f64,
    memory_kib: u64,
    threads: u64,
}

impl Used {
    fn without_threads(&self) -> String {
        format!(
            "{:>5.1} s {:>5.2} cores {:>5} MiB",
            self.cpu.as_secs_f64(),
            self.busiest,
            self.memory_kib / 1_024
        )
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:>5}", self.without_threads(), self.threads)
    }
}
