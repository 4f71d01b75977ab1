//! The way between a controller and its agents is gone for half a minute, or a server of a cluster is: the load goes on, and
//! its sums are exact. So are they where one of two agents is cut off; where it stays so, it is named as lost. An identity is
//! taken over by who joins with it anew.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use wallfinder_tests::{
    Place, Ran, Running, alone, assert_balanced, binary, free_port, own_ip, program, quietly, skip,
    subjects, together, until,
};

use crate::hosts::WAITS;
use crate::hub::{BY_RATE, Hub, Joined, are_listed, send};

const LIMIT: Duration = Duration::from_secs(120);
/// Longer than any lease, and shorter than a session lasts without its hub.
const AWAY: Duration = Duration::from_secs(30);

pub(crate) const NO_WAY_OUT: &str = "it needs a way out of this host: an address beside loopback";

/// A server of HTTP/1.1 that counts what it answers.
pub(crate) struct Counting {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Counting {
    pub(crate) fn start(ip: IpAddr) -> Counting {
        Counting::taking(Duration::ZERO, ip)
    }

    /// One that takes so long for each request.
    fn taking(each: Duration, ip: IpAddr) -> Counting {
        let listener = TcpListener::bind((ip, 0)).expect("an address of this host");
        let address = listener.local_addr().expect("an address");
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || answer(stream, &counted, each));
            }
        });
        Counting { address, answered }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Requests that it has answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, counted: &AtomicU64, each: Duration) {
    let (mut bytes, mut left) = ([0; 4096], Vec::new());
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        left.extend_from_slice(&bytes[..read]);
        while let Some(at) = left.windows(4).position(|four| four == b"\r\n\r\n") {
            left.drain(..at + 4);
            counted.fetch_add(1, Ordering::SeqCst);
            sleep(each);
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .is_err()
            {
                return;
            }
        }
    }
}

/// The sums of a load of two agents that lost nothing are those of the server. How many requests there were.
#[track_caller]
fn assert_sums(ran: &Ran, step: &Value, server: &Counting) -> u64 {
    assert_balanced(step);
    let of = |name: &str| step["counts"][name].as_u64().unwrap_or(0);
    let drained = |name: &str| step["drained"][name].as_u64().expect("a count");
    assert_eq!(step["counts"]["failed"], json!({}), "{}", ran.said());
    assert_eq!(of("unknown"), 0, "{}", ran.said());
    assert_eq!(drained("failed") + drained("in_flight"), 0, "{step:#}");
    let all = of("answered") + drained("answered");
    assert_eq!(all, server.answered(), "{}", ran.said());
    let clients = step["clients"].as_array().expect("two hosts");
    assert_eq!(clients.len(), 2);
    for client in clients {
        assert!(client["lost"].is_null(), "{client:#}");
    }
    all
}

/// The same, and each request was kept and told of.
#[track_caller]
fn assert_exact(ran: &Ran, record: &Value, server: &Counting) {
    let step = &record["steps"][0];
    let all = assert_sums(ran, step, server);
    // Of the window, and of those that were answered after it.
    assert_eq!(step["samples"]["rows"], all, "{}", step["samples"]);
    let answered = step["counts"]["answered"].as_u64().expect("a count");
    let series = step["intervals"].as_array().expect("a series");
    let told: u64 = series
        .iter()
        .map(|one| one["answered"].as_u64().expect("a count"))
        .sum();
    assert!(
        (answered..=all).contains(&told),
        "what was told while the way was gone came afterwards: {told}"
    );
}

/// A load of both agents at a rate that keeps nobody busy.
fn load(hub: &Hub, server: &Counting, lasts: &str, to: &[&str]) -> Running {
    let url = server.url();
    let words = [
        "run", &url, "-c", "8", "--rate", "300", "--warmup", "0s", "-d", lasts, "-q",
    ];
    let own = server.address.ip().to_string();
    let hosts = [
        "--client-host",
        "c*",
        "--samples",
        "--no-calibrate",
        "--i-may-load",
        &own,
    ];
    hub.place.start(&[&words[..], &hosts, to].concat())
}

/// A hub with two agents that keep results, and a server for their loads; `None`: what is missing was said.
fn loaded() -> Option<(Hub, [Running; 2], Counting)> {
    let Some(ip) = own_ip() else {
        skip(NO_WAY_OUT);
        return None;
    };
    let hub = Hub::up(&ip.to_string(), &["c1", "c2"], "observe,load")?;
    let results = hub.results().display().to_string();
    let agents = ["c1", "c2"].map(|name| hub.agent(name, &["--results", &results]));
    Some((hub, agents, Counting::start(ip)))
}

#[test]
fn a_hub_that_is_gone_for_half_a_minute_costs_no_request() {
    let _turn = quietly();
    let Some((mut hub, agents, server)) = loaded() else {
        return;
    };
    let dir = hub.dir();
    let running = load(&hub, &server, "36s", &["--hub", &dir]);
    sleep(Duration::from_secs(4));
    hub.kill();
    let before = server.answered.load(Ordering::SeqCst);
    sleep(AWAY);
    let meanwhile = server.answered.load(Ordering::SeqCst) - before;
    assert!(meanwhile > 8_000, "the load went on: {meanwhile}");
    // Nothing is stored at a hub: one that comes back knows of nothing.
    hub.start(&[]);
    let ran = running.wait(LIMIT).ends_with(0);
    assert_exact(&ran, &hub.place.record(), &server);
    let telemetry = &hub.place.step()["telemetry"];
    let window_ns = telemetry["window_ns"].as_u64().expect("a length");
    assert!(
        window_ns.abs_diff(36_000_000_000) < 1_000_000_000,
        "{window_ns}"
    );
    assert_eq!(hub.results_kept(), 0);
    for agent in &agents {
        assert!(agent.err().contains("disconnected"), "{}", agent.err());
    }
}

#[test]
fn a_server_of_messages_that_stands_still_for_a_while_costs_no_request() {
    let _turn = quietly();
    let Some((hub, agents, server)) = loaded() else {
        return;
    };
    let dir = hub.dir();
    let running = load(&hub, &server, "20s", &["--hub", &dir]);
    sleep(Duration::from_secs(4));
    // Nobody is told: each end finds out by itself, and dials one that answers no more than before.
    let servers = hub.servers();
    assert_eq!(servers.len(), 1);
    servers.iter().for_each(|pid| send(*pid, Signal::STOP));
    sleep(Duration::from_secs(12));
    servers.iter().for_each(|pid| send(*pid, Signal::CONT));
    let ran = running.wait(LIMIT).ends_with(0);
    assert_exact(&ran, &hub.place.record(), &server);
    for agent in &agents {
        assert!(agent.err().contains("disconnected"), "{}", agent.err());
    }
}

#[test]
fn a_load_is_given_up_by_a_second_interrupt_while_the_hub_is_away() {
    let _turn = quietly();
    let Some((mut hub, _agents, server)) = loaded() else {
        return;
    };
    let dir = hub.dir();
    let running = load(&hub, &server, "60s", &["--hub", &dir]);
    sleep(Duration::from_secs(4));
    hub.kill();
    sleep(Duration::from_secs(2));
    running.signal(Signal::INT);
    sleep(Duration::from_secs(1));
    let since = Instant::now();
    running.signal(Signal::INT);
    let ran = running.wait(LIMIT);
    let took = since.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}: {}", ran.said());
    assert_ne!(ran.code, Some(0), "{}", ran.said());
    assert!(ran.err.contains("ends by itself"), "{}", ran.said());
}

#[test]
fn an_agent_that_is_cut_off_for_ten_seconds_costs_no_request() {
    let _turn = quietly().with_hosts();
    let Some(joined) = Joined::up(WAITS) else {
        return;
    };
    let server = Counting::start(joined.own());
    let asked = [&BY_RATE[..], &["-d", "14s"]].concat();
    let place = &joined.hub.place;
    let running = joined.load_in(place, &["db", "c"], &server.url(), &asked);
    until("load", || server.answered() > 300);
    let cut = joined.cut_off("c", 10);
    sleep(Duration::from_secs(2));
    let before = server.answered();
    sleep(Duration::from_secs(7));
    let meanwhile = server.answered() - before;
    assert!(meanwhile > 1_600, "both go on: {meanwhile}");
    cut.wait(LIMIT).ends_with(0);
    // It was silent for longer than its controller waits, who fetches what it has on disk.
    let ran = running.wait(LIMIT).ends_with(1);
    assert!(ran.err.contains("c: nothing came"), "{}", ran.err);
    assert_sums(&ran, &place.step(), &server);
    assert_eq!(joined.hub.results_kept(), 0);
}

#[test]
fn an_agent_that_stays_cut_off_is_named_and_the_counts_of_the_other_are_whole() {
    let _turn = quietly().with_hosts();
    let Some(joined) = Joined::up(WAITS) else {
        return;
    };
    // Some request of each host is in flight at any time.
    let server = Counting::taking(Duration::from_millis(15), joined.own());
    let asked = [&BY_RATE[..], &["-d", "6s", "--samples"]].concat();
    let place = &joined.hub.place;
    let running = joined.load_in(place, &["db", "c"], &server.url(), &asked);
    until("load", || server.answered() > 300);
    let _cut = joined.cut_off("c", 60);
    // Its controller notices after six seconds, and would ask for a minute for what it has on disk.
    sleep(Duration::from_secs(10));
    running.signal(Signal::INT);
    sleep(Duration::from_millis(500));
    running.signal(Signal::INT);
    let ran = running.wait(LIMIT).ends_with(130);
    let step = place.step();
    assert_balanced(&step);
    let clients = step["clients"].as_array().expect("two hosts");
    let [whole, lost] = &clients[..] else {
        panic!("two hosts: {step:#}");
    };
    assert_eq!((&whole["host"], &lost["host"]), (&"db".into(), &"c".into()));
    let of = |part: &Value, name: &str| part["counts"][name].as_u64().unwrap_or(0);
    let why = lost["lost"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("over the hub"), "{lost:#}: {}", ran.said());
    assert_balanced(lost);
    assert!(of(lost, "unknown") > 0, "{lost:#}");
    assert!(whole["lost"].is_null(), "{whole:#}");
    assert_eq!(of(whole, "unknown"), 0);
    for name in ["answered", "unknown"] {
        assert_eq!(of(&step, name), of(whole, name) + of(lost, name));
    }
    let later = whole["drained"]["answered"].as_u64().expect("a count");
    let all = of(whole, "answered") + later;
    // Half of 300 a second for six seconds, each of which was kept; none of the other's could be fetched.
    assert!((890..=910).contains(&all), "{whole:#}");
    assert_eq!(step["samples"]["rows"], all, "{}", step["samples"]);
    let told = all + of(lost, "answered");
    let counted = server.answered();
    assert!(told < counted, "{told} of {counted}: it loaded on");
}

#[test]
fn an_agent_that_is_revoked_loads_no_more() {
    let _turn = quietly();
    let Some((hub, agents, server)) = loaded() else {
        return;
    };
    let dir = hub.dir();
    let _running = load(&hub, &server, "60s", &["--hub", &dir]);
    let answered = || server.answered.load(Ordering::SeqCst);
    until("load", || answered() > 300);
    for name in ["c1", "c2"] {
        let revoke = ["hub", "revoke", name, "--dir", &dir];
        hub.place.run(&revoke).ends_with(0);
    }
    sleep(Duration::from_secs(3));
    let before = answered();
    sleep(Duration::from_secs(1));
    assert_eq!(answered(), before, "{}", agents[0].err());
    for agent in &agents {
        assert!(agent.err().contains("refuses this"), "{}", agent.err());
    }
}

/// One of three nats-servers that know each other, by the keys and permissions of a hub's folder.
struct Member {
    program: PathBuf,
    settings: PathBuf,
    child: Option<Child>,
}

impl Member {
    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.settings);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("it can be started"));
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster of three, and where its members are reached.
fn cluster(hub: &Hub, ip: &str, bin: &Path) -> ([Member; 3], String) {
    let text = fs::read_to_string(Path::new(&hub.dir()).join("nats.json")).expect("settings");
    let of_hub: Value = serde_json::from_str(&text).expect("settings");
    let routes = [0; 3].map(|_| free_port());
    let ports = [0; 3].map(|_| free_port());
    let members = [0, 1, 2].map(|nth| {
        let mut settings = of_hub.clone();
        settings["server_name"] = json!(format!("member-{nth}"));
        settings["listen"] = json!(format!("{ip}:{}", ports[nth]));
        settings["cluster"] = json!({
            "name": "three",
            "listen": format!("127.0.0.1:{}", routes[nth]),
            "routes": routes.map(|port| format!("nats://127.0.0.1:{port}")),
        });
        let path = hub
            .place
            .file(&format!("member-{nth}.json"), settings.to_string());
        let mut member = Member {
            program: bin.join("nats-server"),
            settings: path,
            child: None,
        };
        member.start();
        member
    });
    let each = ports.map(|port| format!("tls://{ip}:{port}"));
    (members, each.join(","))
}

#[test]
fn a_cluster_that_loses_each_of_its_servers_in_turn_loses_no_request() {
    let _turn = quietly();
    let Some(own) = own_ip() else {
        return skip(NO_WAY_OUT);
    };
    let ip = own.to_string();
    let (Some(mut hub), Some(bin)) = (Hub::up(&ip, &["c1", "c2"], "observe,load"), subjects())
    else {
        return;
    };
    // Its identities are all that is needed of it.
    hub.kill();
    let (mut members, servers) = cluster(&hub, &ip, &bin);
    let results = hub.results().display().to_string();
    let to_cluster = ["--results", &results, "--nats", &servers];
    let agents = ["c1", "c2"].map(|name| {
        let named = ["--name", name];
        hub.agent(name, &[&to_cluster[..], &named].concat())
    });
    let server = Counting::start(own);
    let creds = format!("{}/controller.json", hub.dir());
    // Each of them knows of both only once they have found each other.
    for member in servers.split(',') {
        until("agents at each server", || {
            let args = ["hosts", "--nats", member, "--creds", &creds];
            are_listed(&hub.place.run(&args).out, &["c1", "c2"])
        });
    }
    let running = load(
        &hub,
        &server,
        "14s",
        &["--nats", &servers, "--creds", &creds],
    );
    sleep(Duration::from_secs(4));
    // Whichever of them somebody is connected to is lost at some time, and only one at a time.
    for member in &mut members {
        member.kill();
        sleep(Duration::from_millis(1_500));
        member.start();
        sleep(Duration::from_millis(1_500));
    }
    let ran = running.wait(LIMIT).ends_with(0);
    assert_exact(&ran, &hub.place.record(), &server);
    let lost = agents
        .iter()
        .filter(|agent| agent.err().contains("disconnected"));
    assert_eq!(lost.count(), 2, "each was connected to one of them");
}

#[test]
fn an_identity_is_taken_over_by_who_joins_with_it_anew() {
    let _turn = together();
    let Some(own) = own_ip() else {
        return skip(NO_WAY_OUT);
    };
    let ip = own.to_string();
    let Some(hub) = Hub::up(&ip, &["c1"], "observe,load") else {
        return;
    };
    let server = Counting::start(own);
    let (dir, url) = (hub.dir(), server.url());
    let loads = || {
        let words = ["run", &url, "-c", "2", "-n", "50", "-q", "--no-calibrate"];
        let hosts = ["--client-host", "c1", "--hub", &dir, "--i-may-load", &ip];
        hub.place.run(&[&words[..], &hosts].concat())
    };
    let first = hub.agent("c1", &[]);
    loads().ends_with(0);
    // Its machine is gone without a word: the hub takes it for connected a while longer.
    first.signal(Signal::STOP);
    let second = hub.agent("c1", &[]);
    loads().ends_with(0);
    assert_eq!(hub.place.step()["counts"]["answered"], 50);
    // It was not gone after all.
    first.signal(Signal::CONT);
    let asked = || hub.place.run(&["hosts", "c1", "--hub", &dir]);
    until("two", || asked().out.contains("two agents answer as c1"));
    loads().ends_with(1);
    first.signal(Signal::KILL);
    until("the one that is left", || asked().code == Some(0));
    loads().ends_with(0);
    second.signal(Signal::KILL);
    sleep(Duration::from_millis(500));
    let third = hub.agent("c1", &[]);
    loads().ends_with(0);
    drop(third);
}

/// The measurement of `many_agents` at its small size.
#[test]
fn the_sums_of_many_agents_are_theirs() {
    let _turn = alone();
    if !subjects().is_some_and(|bin| bin.join("nats-server").is_file()) {
        return skip("nats-server is not built: make nats-server");
    }
    if own_ip().is_none() {
        return skip(NO_WAY_OUT);
    }
    let program = std::env::current_exe().expect("this program");
    let built = program
        .parent()
        .and_then(Path::parent)
        .expect("cargo's folder");
    let example = built.join("examples/many_agents");
    if !example.is_file() {
        return skip(
            "many_agents is not built: cargo build -p wallfinder-tests --example many_agents",
        );
    }
    let ran = Command::new(example).args(["40", "2"]).output();
    let ran = ran.expect("it can be started");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("of 40 hosts"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn the_service_of_an_agent_is_sound_and_confined() {
    if program("systemd-analyze").is_none() {
        return skip("it needs systemd-analyze");
    }
    let place = Place::new();
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../install/wallfinder-agent.service");
    let text = fs::read_to_string(installed).expect("it is in the tree");
    let text = text.replace("/usr/local/bin/wallfinder", &binary().display().to_string());
    // As it stands, and with everything that other grants need.
    let all: String = text
        .lines()
        .map(|line| {
            match line
                .strip_prefix('#')
                .filter(|rest| rest.starts_with(char::is_uppercase))
            {
                Some(more) => format!("{more}\n"),
                None => format!("{line}\n"),
            }
        })
        .collect();
    assert_ne!(all, text);
    for (name, text, exposure_max) in [("agent", &text, "3.5"), ("agent-of-all", &all, "4.5")] {
        let unit = place.file(&format!("{name}.service"), text);
        let unit = unit.to_str().expect("a name");
        let asked = |words: &[&str]| {
            let ran = Command::new("systemd-analyze")
                .args(words)
                .arg(unit)
                .output();
            let ran = ran.expect("it can be started");
            let said = [ran.stdout, ran.stderr].concat();
            (
                ran.status.success(),
                String::from_utf8_lossy(&said).into_owned(),
            )
        };
        let (is_sound, said) = asked(&["verify"]);
        assert!(is_sound && said.trim().is_empty(), "{said}");
        let threshold = format!("--threshold={}", exposure_max.replace('.', ""));
        let (is_confined, said) = asked(&["security", "--offline=true", "--no-pager", &threshold]);
        assert!(is_confined, "more than {exposure_max}: {said}");
    }
}
