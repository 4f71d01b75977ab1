//! A hub and agents that join it, with the real nats-server: two commands are enough, an identity is worth what it was
//! given, and whatever is lost, hosts are as they were.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, Subscriber};
use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wallfinder_protocol::LEASE;
use wallfinder_tests::{
    Place, Ran, Running, alive, alone, assert_balanced, binary, comm, descendants, free_port,
    own_ip, quietly, skip, squeezed, subjects, things_of_ours, together, until,
};

use crate::hosts::{Lab, WAITS};
use crate::hub_away::{Counting, NO_WAY_OUT};

/// Longer than any find here takes.
const LIMIT: Duration = Duration::from_secs(120);
/// What holds by a lease is undone within this beyond it.
pub(crate) const MARGIN: Duration = Duration::from_secs(3);
/// An agent that is revoked while it is connected is out within this.
const OUT_WITHIN: Duration = Duration::from_secs(5);
/// A load that keeps nobody busy, of which each request is of the window.
pub(crate) const BY_RATE: [&str; 5] = ["--rate", "300", "--warmup", "0s", "--no-calibrate"];

/// A hub of this machine.
pub(crate) struct Hub {
    pub(crate) place: Place,
    dir: PathBuf,
    address: SocketAddr,
    running: Option<Running>,
}

impl Hub {
    /// One that listens there and invites these; says what is missing where it cannot be.
    pub(crate) fn up(ip: &str, invited: &[&str], grants: &str) -> Option<Hub> {
        let bin = subjects()?;
        if !bin.join("nats-server").is_file() {
            skip("nats-server is not built: make nats-server");
            return None;
        }
        let place = Place::new();
        let address = SocketAddr::new(ip.parse().expect("an address"), free_port());
        let mut hub = Hub {
            dir: place.path().join("hub"),
            place,
            address,
            running: None,
        };
        let mut words = vec!["--grant", grants];
        for name in invited {
            words.extend(["--invite", name]);
        }
        hub.start(&words);
        Some(hub)
    }

    pub(crate) fn start(&mut self, more: &[&str]) {
        let (dir, listen) = (self.dir(), self.address.to_string());
        let words = ["hub", "--dir", &dir, "--listen", &listen];
        let running = self.place.start(&[&words, more].concat());
        until("hub", || running.out().contains("Use them"));
        self.running = Some(running);
    }

    /// Where agents keep results for it.
    pub(crate) fn results(&self) -> PathBuf {
        self.place.path().join("results")
    }

    pub(crate) fn results_kept(&self) -> usize {
        fs::read_dir(self.results()).map_or(0, Iterator::count)
    }

    /// As `kill -9` ends it.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    pub(crate) fn dir(&self) -> String {
        self.dir.display().to_string()
    }

    fn out(&self) -> String {
        self.running.as_ref().expect("it runs").out()
    }

    fn credentials(&self, agent: &str) -> PathBuf {
        self.dir.join(format!("agents/{agent}.json"))
    }

    /// An agent of this host.
    pub(crate) fn agent(&self, name: &str, more: &[&str]) -> Running {
        let path = self.credentials(name).display().to_string();
        let agent = self
            .place
            .start(&[&["agent", "--join", &path], more].concat());
        until("agent", || agent.err().contains("joined"));
        agent
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.place.run(&[words, &["--hub", &self.dir()]].concat())
    }

    /// Processes of the server of messages.
    pub(crate) fn servers(&self) -> Vec<u32> {
        let running = self.running.as_ref().expect("it runs");
        let below = descendants(running.pid()).into_iter();
        below.filter(|pid| comm(*pid) == "nats-server").collect()
    }
}

/// Whether a list of hosts has all of these.
pub(crate) fn are_listed(said: &str, names: &[&str]) -> bool {
    let is_listed = |name: &&str| {
        said.lines()
            .any(|line| line.starts_with(&format!("{name}  ")))
    };
    names.iter().all(is_listed)
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

/// Processes that a shell started, ended with the test.
struct Ended(Vec<u32>);

impl Drop for Ended {
    fn drop(&mut self) {
        for pid in self.0.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn two_commands_are_enough_and_the_server_of_messages_ends_with_its_hub() {
    let _turn = together();
    let Some(hub) = Hub::up("127.0.0.1", &["c1"], "observe") else {
        return;
    };
    // The line as it is printed, in a shell.
    let said = hub.out();
    let line = said.lines().find(|line| line.starts_with("echo "));
    let line = line.expect("a line to be typed");
    let mut shell = Command::new("sh");
    let folder = binary();
    let folder = folder.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").expect("a path");
    shell
        .args(["-c", line])
        .env("PATH", format!("{folder}:{path}"));
    let agent = hub.place.start_command(shell);
    until("agent", || agent.err().contains("joined"));
    let _ended = Ended(descendants(agent.pid()));
    let secret: Value = serde_json::from_slice(&fs::read(hub.credentials("c1")).unwrap()).unwrap();
    let secret = secret["key"].as_str().expect("a key");
    for pid in descendants(agent.pid()) {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(secret));
    }
    let ran = hub.run(&["hosts"]).ends_with(0);
    assert!(
        ran.out.starts_with("c1  ") && ran.out.contains("grants observe ·"),
        "{}",
        ran.out
    );
    let ran = hub.run(&["doctor", "--host", "c1"]).ends_with(0);
    assert!(ran.out.contains("its clock is known to"), "{}", ran.out);
    let ran = hub.run(&["hosts", "c2"]).ends_with(1);
    assert!(
        ran.out.contains("c2: it is not at the hub; there are c1"),
        "{}",
        ran.out
    );
    let ran = hub
        .place
        .run(&["hub", "status", "--dir", &hub.dir()])
        .ends_with(0);
    assert!(ran.out.contains("c1  observe  is there"), "{}", ran.out);
    // A second hub of the same folder changes nothing, and a name that is taken.
    let words = ["hub", "--dir", &hub.dir(), "--listen", "127.0.0.1:1"];
    let ran = hub.place.run(&words).ends_with(1);
    assert!(ran.err.contains("runs from"), "{}", ran.err);
    hub.place
        .run(&["hub", "invite", "c2", "--dir", &hub.dir()])
        .ends_with(0);
    hub.run(&["hosts", "c1"]).ends_with(0);
    let ran = hub
        .place
        .run(&["hub", "invite", "c1", "--dir", &hub.dir()])
        .ends_with(1);
    assert!(ran.err.contains("invited already"), "{}", ran.err);
    // No word of the agent's makes its grants more than they are.
    let path = hub.credentials("c1").display().to_string();
    let ran = hub
        .place
        .run(&["agent", "--join", &path, "--grant", "squeeze"])
        .ends_with(2);
    assert!(ran.err.contains("narrows"), "{}", ran.err);
    let servers = hub.servers();
    assert_eq!(servers.len(), 1);
    hub.running.as_ref().expect("it runs").signal(Signal::KILL);
    until("end of nats-server", || !alive(servers[0]));
}

/// A connection with the credentials of this file, as another program would make it.
async fn connected(path: &Path) -> Result<Client, async_nats::ConnectError> {
    let text = fs::read(path).expect("credentials");
    let credentials: Value = serde_json::from_slice(&text).expect("credentials");
    let of = |key: &str| credentials[key].as_str().expect("a value").to_owned();
    let authority = path.with_extension("pem");
    fs::write(&authority, of("authority")).expect("a file of ours");
    ConnectOptions::with_nkey(of("key"))
        .require_tls(true)
        .add_root_certificates(authority)
        .connect(credentials["servers"][0].as_str().expect("a server"))
        .await
}

/// What comes within a moment.
async fn heard(from: &mut Subscriber) -> Vec<String> {
    let mut heard = Vec::new();
    let moment = Duration::from_millis(400);
    while let Ok(Some(message)) = tokio::time::timeout(moment, from.next()).await {
        heard.push(format!(
            "{} {}",
            message.subject,
            String::from_utf8_lossy(&message.payload)
        ));
    }
    heard
}

#[test]
fn an_identity_reads_nobody_elses_subjects_and_speaks_in_no_other_name() {
    let _turn = together();
    let Some(hub) = Hub::up("127.0.0.1", &["c1", "c2"], "observe,load") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let controller = connected(&hub.dir.join("controller.json"))
            .await
            .expect("it is known");
        let [one, two] = [hub.credentials("c1"), hub.credentials("c2")];
        let one = connected(&one).await.expect("it is known");
        let two = connected(&two).await.expect("it is known");
        // What is asked of the second.
        let mut listens = Vec::new();
        for subject in [
            "wallfinder.agent.c2.ask.*.*",
            "wallfinder.agent.c2.ask.i.s",
            "wallfinder.agent.*.ask.*.*",
            "wallfinder.agent.c2.say.*",
            "wallfinder.agent.c2.here",
            "wallfinder.>",
            ">",
            "_INBOX.>",
            "$SYS.>",
        ] {
            listens.push(one.subscribe(subject).await.expect("it may be tried"));
        }
        let mut own = one
            .subscribe("wallfinder.agent.c1.ask.*.*")
            .await
            .expect("its own");
        let mut asked = two
            .subscribe("wallfinder.agent.c2.ask.*.*")
            .await
            .expect("its own");
        let mut said = controller
            .subscribe("wallfinder.agent.*.say.*")
            .await
            .expect("all");
        let mut here = controller
            .subscribe("wallfinder.agent.*.here")
            .await
            .expect("all");
        for client in [&one, &two, &controller] {
            client.flush().await.expect("it is there");
        }
        // What they asked for is known at the server a moment later.
        sleep(Duration::from_millis(300));
        for (subject, text) in [
            ("wallfinder.agent.c2.ask.i.s", "for two"),
            ("wallfinder.agent.c1.ask.i.s", "for one"),
        ] {
            controller
                .publish(subject, text.into())
                .await
                .expect("it may");
        }
        for subject in [
            "wallfinder.agent.c2.say.s",
            "wallfinder.agent.c2.here",
            "wallfinder.agent.c2.ask.i.s",
            "wallfinder.agent.c1.ask.i.s",
            "wallfinder.all",
            "_INBOX.x",
            "wallfinder.agent.c1.say.s",
        ] {
            one.publish(subject, "from one".into())
                .await
                .expect("it may be tried");
        }
        one.flush().await.expect("it is there");
        two.publish("wallfinder.agent.c2.say.s", "from two".into())
            .await
            .expect("it may");
        assert_eq!(
            heard(&mut asked).await,
            ["wallfinder.agent.c2.ask.i.s for two"]
        );
        assert_eq!(
            heard(&mut own).await,
            ["wallfinder.agent.c1.ask.i.s for one"]
        );
        let mut said = heard(&mut said).await;
        said.sort();
        let expected = [
            "wallfinder.agent.c1.say.s from one",
            "wallfinder.agent.c2.say.s from two",
        ];
        assert_eq!(said, expected, "each in its own name");
        assert_eq!(heard(&mut here).await, [""; 0]);
        for mut listen in listens {
            assert_eq!(heard(&mut listen).await, [""; 0]);
        }
    });
}

#[test]
fn a_revoked_agent_is_out_at_once_and_the_others_stay() {
    let _turn = together();
    let Some(hub) = Hub::up("127.0.0.1", &["c1", "c2"], "observe") else {
        return;
    };
    let (one, two) = (hub.agent("c1", &[]), hub.agent("c2", &[]));
    let copied = hub.place.path().join("copy.json");
    fs::copy(hub.credentials("c1"), &copied).expect("a copy");
    let since = Instant::now();
    let ran = hub
        .place
        .run(&["hub", "revoke", "c1", "--dir", &hub.dir()])
        .ends_with(0);
    assert!(ran.out.contains("c1 is out"), "{}", ran.out);
    until("disconnection", || one.err().contains("disconnected"));
    let took = since.elapsed();
    assert!(took < OUT_WITHIN, "it was connected for {took:?}");
    let ran = hub.run(&["hosts"]).ends_with(0);
    let took = since.elapsed();
    assert!(took < OUT_WITHIN, "it was listed for {took:?}");
    assert!(
        ran.out.starts_with("c2  ") && !ran.out.contains("c1  "),
        "{}",
        ran.out
    );
    assert!(!two.err().contains("disconnected"), "{}", two.err());
    // Neither it nor who has a copy comes back.
    let copied = copied.display().to_string();
    let again = hub.place.start(&["agent", "--join", &copied]);
    until("refusal", || again.err().contains("not reached"));
    sleep(Duration::from_secs(2));
    assert!(!again.err().contains("joined"), "{}", again.err());
    let ran = hub.run(&["hosts"]).ends_with(0);
    assert!(!ran.out.contains("c1  "), "{}", ran.out);
}

#[test]
fn a_server_of_messages_that_does_not_hear_of_a_revocation_is_started_anew() {
    let _turn = together();
    let Some(mut hub) = Hub::up("127.0.0.1", &["c1", "c2"], "observe") else {
        return;
    };
    let (one, two) = (hub.agent("c1", &[]), hub.agent("c2", &[]));
    let stopped = hub.servers();
    send(stopped[0], Signal::STOP);
    let ran = hub
        .place
        .run(&["hub", "revoke", "c1", "--dir", &hub.dir()])
        .ends_with(0);
    assert!(ran.out.contains("c1 is out"), "{}", ran.out);
    assert_ne!(hub.servers(), stopped);
    until("disconnection", || one.err().contains("disconnected"));
    until("the other", || {
        let said = hub.run(&["hosts"]).out;
        assert!(!said.contains("c1  "), "{said}");
        said.starts_with("c2  ")
    });
    drop((one, two));
    // Credentials that were taken away cannot be shown again, and the hub runs all the same.
    fs::remove_file(hub.credentials("c2")).expect("they were there");
    hub.kill();
    hub.start(&["--invite", "c2"]);
    assert!(hub.out().contains("was taken away"), "{}", hub.out());
}

#[test]
fn two_agents_of_one_identity_serve_nobody_until_one_is_ended() {
    let _turn = together();
    let Some(hub) = Hub::up("127.0.0.1", &["c1"], "observe") else {
        return;
    };
    // A folder for results that cannot be made is no reason not to serve.
    let one = hub.agent("c1", &["--results", "/proc/none"]);
    hub.run(&["hosts", "c1"]).ends_with(0);
    assert!(one.err().contains("no results are kept"), "{}", one.err());
    let two = hub.agent("c1", &[]);
    let ran = hub.run(&["hosts", "c1"]).ends_with(1);
    assert!(
        ran.out.contains("two agents answer as c1: end one of them"),
        "{}",
        ran.said()
    );
    let ran = hub
        .place
        .run(&["hub", "status", "--dir", &hub.dir()])
        .ends_with(0);
    assert!(ran.out.contains("there more than once"), "{}", ran.out);
    two.signal(Signal::KILL);
    until("the other alone", || {
        hub.run(&["hosts", "c1"]).code == Some(0)
    });
}

#[test]
fn nothing_is_accepted_without_tls_and_without_credentials() {
    let _turn = together();
    // On loopback as off it.
    let off_loopback = own_ip().map(|own| own.to_string());
    if off_loopback.is_none() {
        skip(NO_WAY_OUT);
    }
    for ip in ["127.0.0.1".to_owned()].into_iter().chain(off_loopback) {
        let Some(hub) = Hub::up(&ip, &["c1"], "observe") else {
            return;
        };
        let mut plain = TcpStream::connect(hub.address).expect("it listens");
        plain
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a limit");
        let connect =
            b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPUB wallfinder.all 0\r\n\r\nPING\r\n";
        plain.write_all(connect).expect("it reads");
        let mut said = Vec::new();
        // It may end by a reset.
        let _ = plain.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.contains("\"tls_required\":true") && !said.contains("PONG"),
            "{said}"
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let authority = hub.dir.join("authority.pem");
            let server = format!("tls://{}", hub.address);
            let nobody = ConnectOptions::new().add_root_certificates(authority.clone());
            let refused = nobody
                .connect(server.as_str())
                .await
                .expect_err("nobody is known");
            assert!(
                format!("{refused:?}").contains("Authorization"),
                "{refused:?}"
            );
            let stranger = "SUAGFXTDJFJUSAOAVO23SHT5LJOC37R4EJSMAXDIPBNQKEC5SVKWXWEYZU";
            let stranger = ConnectOptions::with_nkey(stranger.to_owned());
            let stranger = stranger
                .add_root_certificates(authority)
                .connect(server.as_str());
            assert!(stranger.await.is_err(), "a key that was never invited");
            // Who is not vouched for by the hub's authority is not believed.
            let known = ConnectOptions::new().connect(server.as_str()).await;
            assert!(known.is_err(), "an authority that the system does not know");
        });
    }
}

/// A lab whose hosts have joined a hub of this machine: `db` is the one with the server, `c` makes load.
pub(crate) struct Joined {
    pub(crate) hub: Hub,
    /// ssh to each, which ends with the agent there.
    agents: Vec<Running>,
    pub(crate) lab: Lab,
}

impl Joined {
    /// With a server of these dials; says what is missing where it cannot be.
    pub(crate) fn up(dials: &str) -> Option<Joined> {
        Joined::with(dials, &["c"])
    }

    /// The same with these to make load, all of one host.
    pub(crate) fn with(dials: &str, clients: &[&str]) -> Option<Joined> {
        let lab = Lab::of(&["2", "--cpus", "0", "--cpus", "1"], dials)?;
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect((lab.address(), 9)).expect("a way there");
        let own = socket.local_addr().expect("an address").ip().to_string();
        let names = [&["db"], clients].concat();
        let hub = Hub::up(&own, &names, "observe,load,squeeze,profile")?;
        lab.lets_in();
        let mut joined = Joined {
            hub,
            agents: Vec::new(),
            lab,
        };
        for name in names {
            joined.join_again(name);
        }
        Some(joined)
    }

    /// An agent joins from its host.
    pub(crate) fn join_again(&mut self, name: &str) {
        self.join(name, host_of(name), "");
    }

    /// The same from a host, with these flags.
    pub(crate) fn join(&mut self, name: &str, host: &str, flags: &str) {
        let join = format!(
            "{} agent --join {} --results {} {flags}",
            binary().display(),
            self.hub.credentials(name).display(),
            self.hub.results().display()
        );
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.lab.settings()).args([host, &join]);
        let agent = self.hub.place.start_command(ssh);
        until("agent", || agent.err().contains("joined"));
        self.agents.push(agent);
    }

    /// Both are at the hub.
    pub(crate) fn wait_for_both(&self) {
        until("agents", || {
            are_listed(&self.hub.run(&["hosts"]).out, &["db", "c"])
        });
    }

    /// The process that an agent joined by, wherever it is.
    pub(crate) fn agent(&self, name: &str) -> u32 {
        let joins = format!("agent\0--join\0{}\0", self.hub.credentials(name).display());
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_it = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&joins) && comm(*pid) == "wallfinder"
        };
        numbers.find(is_it).expect("it runs")
    }

    /// This machine, as its hosts reach it.
    pub(crate) fn own(&self) -> IpAddr {
        self.hub.address.ip()
    }

    /// A load of these agents, of a server of this machine; its record is there.
    pub(crate) fn load_in(
        &self,
        place: &Place,
        names: &[&str],
        url: &str,
        more: &[&str],
    ) -> Running {
        let (dir, own) = (self.hub.dir(), self.own().to_string());
        let common = ["run", url, "-c", "16", "-q", "--i-may-load", &own];
        let hosts = names.iter().flat_map(|name| ["--client-host", *name]);
        let hosts: Vec<&str> = hosts.chain(["--hub", &dir]).collect();
        place.start(&[&common[..], &hosts, more].concat())
    }

    /// Nothing goes from the host of this agent to the hub for so long; all else does. Ends when it does again.
    pub(crate) fn cut_off(&self, name: &str, seconds: u32) -> Running {
        let (ip, port) = (self.own(), self.hub.address.port());
        let rule = format!("to {ip} ipproto tcp dport {port} blackhole");
        let cut = format!("ip rule add {rule} && sleep {seconds} && ip rule del {rule}");
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.lab.settings());
        ssh.args([host_of(name), &cut]);
        self.hub.place.start_command(ssh)
    }

    fn start(&self, command: &str, more: &[&str]) -> Running {
        self.start_in(&self.hub.place, command, more)
    }

    /// The same with its record elsewhere.
    pub(crate) fn start_in(&self, place: &Place, command: &str, more: &[&str]) -> Running {
        let url = format!("http://{}:8090/", self.lab.address());
        let dir = self.hub.dir();
        let common = [command, &url, "-c", "16", "-q", "--server-host", "db"];
        let hosts = ["--client-host", "c*", "--hub", &dir];
        place.start(&[&common[..], &hosts, more].concat())
    }
}

/// The host that an agent joins from.
fn host_of(name: &str) -> &'static str {
    if name == "db" { "h1" } else { "h2" }
}

/// What the agents of the lab's hosts are and have: processes of sessions, and what is put up.
pub(crate) fn put_up(before: &[String], controller: u32) -> Vec<String> {
    let own = format!("wf-{controller}-");
    let mut things = things_of_ours();
    things.retain(|thing| !thing.contains(&own) && !before.contains(thing));
    things
}

#[test]
fn agents_that_a_pattern_means_make_one_load() {
    let _turn = together().with_hosts();
    let Some(joined) = Joined::with("--spin-us 300", &["c1", "c2"]) else {
        return;
    };
    let asked = ["-n", "5001", "--samples", "--no-calibrate"];
    let ran = joined.start("run", &asked).wait(LIMIT).ends_with(0);
    let step = joined.hub.place.step();
    assert_balanced(&step);
    assert_eq!(step["counts"]["answered"], 5001, "{}", ran.out);
    assert_eq!(step["samples"]["rows"], 5001);
    let clients = step["clients"].as_array().expect("two hosts");
    let of = |nth: usize, key: &str| &clients[nth][key];
    assert_eq!((of(0, "host"), of(1, "host")), (&"c1".into(), &"c2".into()));
    let answered = [0, 1].map(|nth| of(nth, "counts")["answered"].as_u64());
    assert_eq!(answered, [Some(2501), Some(2500)]);
    // What each had on its disk goes once the record is on this one.
    assert_eq!(joined.hub.results_kept(), 0);
}

#[test]
fn a_wall_is_proved_by_agents_of_a_hub() {
    let _turn = alone();
    let Some(joined) = Joined::up("--spin-us 300") else {
        return;
    };
    let quickly = ["--effort", "quick", "--window", "200ms"];
    let ran = joined.start("find", &quickly).wait(LIMIT).ends_with(0);
    let record = joined.hub.place.record();
    let step = squeezed(&record);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    let telemetry = &step["telemetry"];
    assert_eq!(telemetry["server_host"]["name"], "db");
    assert_eq!(telemetry["client_host"]["name"], "c");
    assert!(ran.out.contains("on cpu 0 of db"), "{}", ran.out);
}

#[test]
fn a_load_by_an_agent_of_a_hub_is_counted_to_the_last_request() {
    let _turn = alone();
    let Some(joined) = Joined::up("--spin-us 300") else {
        return;
    };
    // All together, and each by itself.
    let asked = ["-n", "5000", "--samples", "--no-calibrate"];
    joined.start("run", &asked).wait(LIMIT).ends_with(0);
    let step = joined.hub.place.step();
    assert_eq!(step["counts"]["answered"], 5000);
    assert_eq!(step["samples"]["rows"], 5000);
}

/// An agent stands still for ten seconds of a load by it.
fn assert_no_request_is_lost_by_an_agent_that_stands_still(joined: &Joined) {
    let server = Counting::start(joined.own());
    let asked = [&BY_RATE[..], &["-d", "20s"]].concat();
    let running = joined.load_in(&joined.hub.place, &["c"], &server.url(), &asked);
    sleep(Duration::from_secs(3));
    let agent = joined.agent("c");
    send(agent, Signal::STOP);
    sleep(Duration::from_secs(10));
    send(agent, Signal::CONT);
    let ran = running.wait(LIMIT).ends_with(1);
    assert!(ran.err.contains("over the hub"), "{}", ran.err);
    let step = joined.hub.place.step();
    assert_balanced(&step);
    assert_eq!(step["counts"]["failed"], json!({}), "{step:#}");
    assert_eq!(step["counts"]["unknown"], Value::Null, "{step:#}");
    let answered = step["counts"]["answered"].as_u64().expect("a count");
    assert!(answered > 1_000, "{step:#}");
    let drained = |name: &str| step["drained"][name].as_u64().expect("a count");
    let all = answered + drained("answered");
    // Where the load ended at once, the last requests have no answer.
    let unanswered = drained("failed") + drained("in_flight");
    let counted = server.answered();
    assert!(
        (all..=all + unanswered).contains(&counted),
        "the server counted {counted}: {step:#}"
    );
    assert_eq!(joined.hub.results_kept(), 0);
}

#[test]
fn whatever_is_lost_of_a_hub_the_hosts_are_as_they_were() {
    let _turn = quietly().changing_the_host();
    let Some(mut joined) = Joined::up(WAITS) else {
        return;
    };
    // The server of messages is killed while a load runs, and is there again before a lease is over.
    let asked = ["-d", "4s", "--no-calibrate"];
    let running = joined.start("run", &asked);
    sleep(Duration::from_secs(2));
    for server in joined.hub.servers() {
        send(server, Signal::KILL);
    }
    let ran = running.wait(LIMIT).ends_with(0);
    assert_balanced(&joined.hub.place.step());
    assert_eq!(
        joined.hub.place.step()["counts"]["unknown"],
        Value::Null,
        "{}",
        ran.out
    );
    // An agent is silent for longer than its controller waits, and than it waits for its controller. The load ends by
    // that, and what it was until then is not lost: its agent has it on disk until the record is on this one.
    assert_no_request_is_lost_by_an_agent_that_stands_still(&joined);
    let before = things_of_ours();
    for lost in ["controller", "hub", "client's agent"] {
        let finding = joined.start("find", &["--effort", "quick", "--no-inside"]);
        let controller = finding.pid();
        until("squeeze", || !put_up(&before, controller).is_empty());
        match lost {
            "controller" => finding.signal(Signal::KILL),
            "hub" => joined.hub.kill(),
            _ => send(joined.agent("c"), Signal::KILL),
        }
        let since = Instant::now();
        until("host as it was", || put_up(&before, controller).is_empty());
        let took = since.elapsed();
        assert!(took < LEASE + MARGIN, "{lost}: {took:?}");
        if lost == "hub" {
            // It was away for longer than a lease, and knows nothing of what was.
            joined.hub.start(&[]);
            joined.wait_for_both();
        }
        let ran = finding.wait(LIMIT);
        assert_ne!(ran.code, Some(0), "{lost}: {}", ran.said());
        if lost == "hub" {
            assert!(ran.err.contains("lease"), "{}", ran.err);
        }
        if lost != "client's agent" {
            let asked = ["-n", "1000", "--no-calibrate"];
            joined.start("run", &asked).wait(LIMIT).ends_with(0);
            assert_eq!(
                joined.hub.place.step()["counts"]["answered"],
                1000,
                "after {lost}"
            );
        }
    }
    let ran = joined
        .start("run", &["-n", "1000"])
        .wait(LIMIT)
        .ends_with(1);
    assert!(ran.err.contains("`c*` means no agent"), "{}", ran.err);
}
