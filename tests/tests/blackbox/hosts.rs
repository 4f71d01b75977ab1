//! A server on another host of a lab: a network, processes and an sshd of its own, reached by the real ssh.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_protocol::clock::{Offset, Offsets, RoundTrip};
use wallfinder_protocol::{Answer, Ask};
use wallfinder_tests::{
    Place, Ran, Running, alone, binary, busily, descendants, free_port, has_apparatus, program,
    quietly, skip, squeezed, subjects, things_of_ours, together, until,
};

use crate::agents::Agent;

/// Longer than any find here takes.
const LIMIT: Duration = Duration::from_secs(90);

/// A lab of one host, on processor 0, and a server on it.
pub(crate) struct Lab {
    pub(crate) place: Place,
    /// The first host's.
    address: String,
    /// Of all.
    pub(crate) addresses: Vec<String>,
    pub(crate) settings: PathBuf,
    _server: Running,
    _lab: Running,
}

impl Lab {
    /// With a server of these dials behind such a link; says what is missing where it cannot be.
    fn up(link: &str, dials: &str) -> Option<Lab> {
        Lab::of(&["1", "--cpus", "0", "--link", link], dials)
    }

    /// Hosts as asked for, the first with a server.
    pub(crate) fn of(asked: &[&str], dials: &str) -> Option<Lab> {
        for needed in ["ssh", "sshd", "ssh-keygen", "unshare"] {
            if program(needed).is_none() {
                skip(format!("it needs {needed}"));
                return None;
            }
        }
        let bin = subjects()?;
        if !has_apparatus() {
            return None;
        }
        let place = Place::new();
        let lab = place.start(&[&["lab", "up"], asked].concat());
        let said = || lab.out();
        until("lab", || said().contains("Ctrl-C"));
        let said = said();
        let words: Vec<&str> = said.split_whitespace().collect();
        let after = |word: &str| {
            let at = words.iter().position(|it| *it == word).expect("it is said");
            words[at + 1].to_owned()
        };
        let (address, settings) = (after("h1"), PathBuf::from(after("-F")));
        let hosts = said.lines().map_while(|line| line.split_once("  "));
        let addresses = hosts.map(|(_, address)| address.to_owned()).collect();
        // The host starts an agent by itself, so that none is sent over a slow link.
        let key = settings.with_file_name("user.pub");
        let public = fs::read_to_string(&key).expect("a key");
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(&settings).arg("h1");
        ssh.arg(format!(
            "{} --host {address} {dials}",
            bin.join("knownwall").display()
        ));
        let server = place.start_command(ssh);
        let port = dials.split_once("--port ").map_or("8090", |(_, port)| port);
        let there = format!("{address}:{port}").parse().expect("an address");
        until("server", || {
            TcpStream::connect_timeout(&there, Duration::from_millis(200)).is_ok()
        });
        let lab = Lab {
            place,
            address,
            addresses,
            settings,
            _server: server,
            _lab: lab,
        };
        lab.grants("", &public);
        Some(lab)
    }

    /// From now on the host's own command is what runs, with these flags.
    fn grants(&self, flags: &str, public: &str) {
        self.forces(
            &format!("{} agent --stdio {flags}", binary().display()),
            public,
        );
    }

    /// From now on this is what runs, whatever is asked for.
    pub(crate) fn forces(&self, command: &str, public: &str) {
        let forced = format!("command=\"{command}\",restrict {public}");
        fs::write(self.settings.with_file_name("user.pub"), forced).expect("a file of ours");
    }

    /// The first host's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The file that ssh is called with.
    pub(crate) fn settings(&self) -> &Path {
        &self.settings
    }

    /// From now on any command runs on its hosts.
    pub(crate) fn lets_in(&self) {
        let key = self.settings.with_file_name("user.pub");
        let forced = fs::read_to_string(&key).expect("a key");
        let (_, public) = forced.split_once("restrict ").expect("a line of ours");
        fs::write(&key, public).expect("a file of ours");
    }

    fn args(&self, command: &str, more: &[&str]) -> Vec<String> {
        let url = format!("http://{}:8090/", self.address);
        let ssh = format!("ssh -F {}", self.settings.display());
        let mut common = vec![command, &url, "-q", "--client-cpus", "1"];
        if !more.contains(&"-c") {
            common.extend(["-c", "16"]);
        }
        let host = ["--server-host", "ssh://h1", "--ssh", &ssh];
        let all = common.iter().chain(&host).chain(more);
        all.map(|word| (*word).to_owned()).collect()
    }

    pub(crate) fn start(&self, command: &str, more: &[&str]) -> Running {
        self.start_in(&self.place, command, more)
    }

    /// The same with its record elsewhere.
    pub(crate) fn start_in(&self, place: &Place, command: &str, more: &[&str]) -> Running {
        let args = self.args(command, more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        place.start(&args)
    }

    pub(crate) fn find(&self, more: &[&str]) -> (Ran, Value) {
        self.find_in_windows_of("200ms", more)
    }

    pub(crate) fn find_in_windows_of(&self, window: &str, more: &[&str]) -> (Ran, Value) {
        let quickly = ["--effort", "quick", "--window", window];
        let more = [&quickly, more].concat();
        let ran = self.start("find", &more).wait(LIMIT).ends_with(0);
        let record = self.place.record();
        (ran, squeezed(&record).clone())
    }
}

/// Dials of a server that waits, and leaves the processors to others.
pub(crate) const WAITS: &str = "--async-sleep-us 10000";

fn elasticity(step: &Value, squeeze: &str) -> f64 {
    let value = &step["verdict"]["elasticities"][squeeze]["value"];
    value.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn a_processor_of_another_host_is_named_by_squeezes_there() {
    let _turn = alone();
    let Some(lab) = Lab::up("1gbit", "--spin-us 300") else {
        return;
    };
    let (ran, step) = lab.find(&[]);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    let speed = elasticity(&step, "server-speed");
    assert!((0.8..1.2).contains(&speed), "{}", ran.out);
    let telemetry = &step["telemetry"];
    assert_eq!(telemetry["server_host"]["name"], "h1");
    assert_eq!(telemetry["server"]["name"], "knownwall");
    assert_eq!(telemetry["server"]["cpus_allowed"], serde_json::json!([0]));
    assert!(lab.place.record()["server_environment"]["kernel"].is_string());
    assert!(ran.out.contains("on cpu 0 of h1"), "{}", ran.out);
    // Stacks are taken there as well.
    assert!(ran.out.contains("Work::request"), "{}", ran.out);
}

/// A controller that is killed, and one whose ssh stands still.
#[test]
fn a_controller_that_is_lost_leaves_the_host_as_it_was() {
    let _turn = together().changing_the_host();
    let Some(lab) = Lab::up("1gbit", WAITS) else {
        return;
    };
    let before = things_of_ours();
    let now_there = |controller: u32| {
        // What the controller put up here is not the host's.
        let own = format!("wf-{controller}-");
        let mut things = things_of_ours();
        things.retain(|thing| !thing.contains(&own));
        things
    };
    for stops in [false, true] {
        let finding = lab.start("find", &["--effort", "quick", "--no-inside"]);
        let controller = finding.pid();
        until("squeeze", || now_there(controller) != before);
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let below = descendants(finding.pid());
        match stops {
            false => finding.signal(Signal::KILL),
            true => {
                let ssh = below.iter().find(|pid| name(pid).trim() == "ssh");
                let ssh = i32::try_from(*ssh.expect("ssh runs")).expect("a pid");
                let ssh = rustix::process::Pid::from_raw(ssh).expect("a pid");
                rustix::process::kill_process(ssh, Signal::STOP).expect("it is there");
            }
        }
        let since = Instant::now();
        until("host as it was", || now_there(controller) == before);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        let ran = finding.wait(LIMIT);
        assert_ne!(ran.code, Some(0), "{}", ran.said());
    }
}

/// The clock of a lab's first host is so far ahead of this one's.
const AHEAD_NS: i64 = 100_000_000_000_000;

#[test]
fn the_clock_of_another_host_is_known_within_the_error_that_is_told() {
    let _turn = quietly().with_hosts();
    if !Path::new("/proc/self/ns/time").exists() {
        skip("this kernel has no clocks of a namespace");
        return;
    }
    let Some(lab) = Lab::up("1gbit", "") else {
        return;
    };
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(&lab.settings).args(["-T", "h1"]);
    let mut agent = Agent::of(ssh);
    let here_ns = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let (mut offsets, mut within) = (Offsets::default(), 0);
    for _ in 0..1_000 {
        let asked_ns = here_ns();
        let Ok(Answer::Clock { monotonic_ns }) = agent.ask(Ask::Clock) else {
            panic!("no clock");
        };
        let answered_ns = here_ns();
        let trip = RoundTrip {
            asked_ns,
            there_ns: monotonic_ns,
            answered_ns,
        };
        let is_within = |offset: Offset| offset.ns.abs_diff(AHEAD_NS) <= offset.error_ns;
        let mut alone = Offsets::default();
        alone.add(trip);
        within += u32::from(alone.at(answered_ns).is_some_and(is_within));
        // Of all so far the shortest counts.
        offsets.add(trip);
        let known = offsets.at(answered_ns).expect("a round trip was made");
        assert!(is_within(known), "{known:?}");
    }
    assert!(within >= 990, "{within} of 1,000");
    let known = offsets.at(here_ns()).expect("round trips were made");
    assert!(known.error_ns < 5_000_000, "{known:?}");
}

#[test]
fn a_load_is_made_by_a_host_and_squeezed_there() {
    let _turn = alone();
    let asked = ["2", "--cpus", "0", "--cpus", "1"];
    let Some(lab) = Lab::of(&asked, "--spin-us 300") else {
        return;
    };
    let (ran, step) = lab.find(&["--client-host", "ssh://h2"]);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    for (squeeze, most) in [("client-speed", 0.3), ("in-flight", 0.3)] {
        assert!(elasticity(&step, squeeze) < most, "{}", ran.out);
    }
    let telemetry = &step["telemetry"];
    assert_eq!(telemetry["client_host"]["name"], "h2");
    assert_eq!(telemetry["server_host"]["name"], "h1");
    assert_eq!(telemetry["client"]["cpus_allowed"], serde_json::json!([1]));
    // Nothing of the load goes through here: the controller opened no connection to the server.
    assert_eq!(step["open_connections"]["most"], 16);
    let setting = &step["experiment"]["setting"];
    assert_eq!(setting["client_host"], "h2");
    assert!(ran.out.contains("client on cpu 1 of h2"), "{}", ran.out);
    // Only so many requests, counted there to the last.
    let asked = ["--client-host", "ssh://h2", "-n", "5000"];
    let ran = lab.start("run", &asked).wait(LIMIT).ends_with(0);
    let counts = &lab.place.record()["steps"][0]["counts"];
    assert_eq!(counts["answered"], 5000, "{}", ran.out);
    // They stay open until both hosts have looked at them.
    let telemetry = &lab.place.record()["steps"][0]["telemetry"];
    for side in ["server_sockets", "client_sockets"] {
        assert_eq!(telemetry[side]["sockets"], 16, "{telemetry:#}");
        assert_eq!(telemetry[side]["path_mtu"], 1500, "{telemetry:#}");
    }
    // Each of them by itself, fetched when the load has ended.
    let asked = [&asked[..], &["--samples", "--no-calibrate"]].concat();
    lab.start("run", &asked).wait(LIMIT).ends_with(0);
    let samples = &lab.place.record()["steps"][0]["samples"];
    assert_eq!(
        (&samples["rows"], &samples["dropped"]),
        (&5000.into(), &0.into())
    );
    let run = lab.place.last_run();
    let read = lab
        .place
        .run(&["samples", run.to_str().expect("a path"), "--format", "json"]);
    assert_eq!(read.ends_with(0).json()[0]["answered"], 5000);
    // A host that grants no load, and flags of this host.
    let key = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
    let public = key.split_once("restrict ").expect("a line of ours").1;
    lab.grants("--target 192.0.2.0/24", public);
    let asked = ["--client-host", "ssh://h2", "-d", "1s"];
    let ran = lab.start("run", &asked).wait(LIMIT).ends_with(1);
    assert!(ran.err.contains("--target"), "{}", ran.err);
    lab.grants("--grant observe", public);
    let ran = lab.start("run", &asked).wait(LIMIT).ends_with(1);
    assert!(ran.err.contains("does not grant `load`"), "{}", ran.err);
    let asked = ["--client-host", "ssh://h1", "-d", "1s"];
    let ran = lab.start("run", &asked).wait(LIMIT).ends_with(2);
    assert!(ran.err.contains("on one host"), "{}", ran.err);
    let asked = ["--client-host", "ssh://h2", "--client-quota", "0.5"];
    let ran = lab.start("run", &asked).wait(LIMIT).ends_with(2);
    assert!(ran.err.contains("--client-quota"), "{}", ran.err);
}

#[test]
fn a_server_of_a_hosts_own_list_is_started_there_and_again() {
    let _turn = alone();
    let Some(lab) = Lab::up("1gbit", "--spin-us 100 --port 9000") else {
        return;
    };
    let Some(bin) = subjects() else { return };
    let key = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
    let public = key.split_once("restrict ").expect("a line of ours").1;
    let server = bin.join("knownwall");
    let shop = format!(
        "--subject 'shop={} --host {} --spin-us 300'",
        server.display(),
        lab.address
    );
    lab.grants(&shop, public);
    let asked = [
        "--subject",
        "shop",
        "--effort",
        "normal",
        "--window",
        "100ms",
    ];
    let ran = lab.start("find", &asked).wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let step = squeezed(&record);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    let windows = step["experiment"]["windows"].as_array().expect("windows");
    let starts = windows.iter().map(|window| window["restart"].as_u64());
    assert!(starts.max().flatten() >= Some(1), "{}", ran.out);
    // It goes with the run.
    let there = format!("{}:8090", lab.address).parse().expect("an address");
    let refused = TcpStream::connect_timeout(&there, Duration::from_secs(1));
    assert!(refused.is_err(), "it still listens");
    let ran = lab
        .start("run", &["--subject", "other", "-d", "1s"])
        .wait(LIMIT)
        .ends_with(1);
    assert!(ran.err.contains("it starts shop"), "{}", ran.err);
}

/// Files behind a link that the server's host is to have, and one that it cannot have.
const STUDY: &str = r#"schema = "wallfinder.study/1"
id = "apart"
title = "A link of another host"
source = "a page"
question = "Is it in force?"
method = "One file."

[[subject]]
name = "linked"
command = ["content"]
port = 8085
link = "50mbit,mtu=1500"

[[subject]]
name = "open"
command = ["content"]
port = 8085

[[subject]]
name = "jumbo"
command = ["content"]
port = 8085
link = "50mbit,mtu=9001"

[[driver]]
name = "engine"

[[claim]]
id = "in-force"
claim = "The link holds one of them"
source = "a page"
calm = false
let.linked = 'last("linked", "engine")'
let.open = 'last("open", "engine")'
confirmed = 'linked.throughput < 385 && linked.link.downlink_share > 0.9 && open.throughput > 1.5 * linked.throughput'
contradicted = 'linked.throughput > 385'
because = "{linked.throughput}/s of 16 KB, {open.throughput}/s"
"#;

#[test]
fn a_studys_servers_stand_on_hosts_with_the_links_that_they_can_have() {
    let _turn = quietly().with_hosts();
    let asked = [
        "3",
        "--cpus",
        "0",
        "--cpus",
        "1",
        "--cpus",
        "1",
        "--link",
        "1gbit,mtu=1500",
    ];
    let Some(lab) = Lab::of(&asked, "--spin-us 300") else {
        return;
    };
    let mut text = STUDY.to_owned();
    for subject in ["linked", "open", "jumbo"] {
        text.push_str(&format!(
            r#"
[[group]]
id = "{subject}"
subject = "{subject}"
path = "/realistic/16k.txt"
headers = ["Accept-Encoding: identity"]

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
connections = [8]
warmup = "200ms"
window = "800ms"
"#
        ));
    }
    lab.place.file("apart.toml", text);
    let ssh = format!("ssh -F {}", lab.settings.display());
    let hosts = ["--server-host", "ssh://h1", "--client-host", "ssh://h2"];
    let how = ["--server-address", &lab.address, "--ssh", &ssh, "-q"];
    let words = [&["study", "run", "apart.toml"][..], &hosts, &how].concat();
    // By the host's own word, which names none of its servers.
    lab.place.run(&words).ends_with(1);
    let caveats = lab.place.record()["caveats"].to_string();
    assert!(
        caveats.contains("its host allows servers by name"),
        "{caveats}"
    );
    // Who has the shell there may start what he likes, so it is sent.
    let key = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
    let public = key.split_once("restrict ").expect("a line of ours").1;
    fs::write(lab.settings.with_file_name("user.pub"), public).expect("a file of ours");
    lab.place.run(&words).ends_with(0);
    let record = lab.place.record();
    let claim = &record["claims"][0];
    assert_eq!(claim["outcome"], "confirmed", "{claim:#}");
    let caveats = record["caveats"].to_string();
    assert!(
        caveats.contains("MTU of 9001, and eth0 of h1 has 1500"),
        "{caveats}"
    );
    let telemetry = &record["steps"][0]["telemetry"];
    assert_eq!(telemetry["client_host"]["name"], "h2");
    assert_eq!(telemetry["server_host"]["name"], "h1");
    // Two hosts make a study's loads together.
    let words = [&words[..], &["--client-host", "ssh://h3"]].concat();
    lab.place.run(&words).ends_with(0);
    let record = lab.place.record();
    assert_eq!(record["claims"][0]["outcome"], "confirmed", "{record:#}");
    for step in record["steps"].as_array().expect("steps") {
        let of = step["clients"].as_array().expect("several hosts");
        let own = of.iter().map(|host| host["counts"]["answered"].as_u64());
        let own: Vec<u64> = own.map(|own| own.expect("a count")).collect();
        assert_eq!(own.len(), 2, "{of:?}");
        assert!(own.iter().all(|own| *own > 0), "{own:?}");
        assert_eq!(
            own.iter().sum::<u64>(),
            step["counts"]["answered"],
            "{own:?}"
        );
    }
    assert!(record["server_environment"]["cpus"].is_u64());
}

#[test]
fn servers_behind_one_address_are_watched_and_squeezed_together() {
    let _turn = alone();
    if program("haproxy").is_none() {
        return skip("it needs haproxy");
    }
    // Each answers two at a time, 5 ms each: neither processors nor whoever deals requests out are the wall.
    let dials = "--permits 2 --permit-sleep-us 5000";
    let asked = ["2", "--cpus", "0", "--cpus", "1"];
    let Some(lab) = Lab::of(&asked, dials) else {
        return;
    };
    let Some(bin) = subjects() else { return };
    let mut other = Command::new("ssh");
    other.arg("-F").arg(&lab.settings).arg("h2");
    let key = lab.settings.with_file_name("user.pub");
    let forced = fs::read_to_string(&key).expect("a key");
    let public = forced.split_once("restrict ").expect("a line of ours").1;
    fs::write(&key, public).expect("a file of ours");
    let server = bin.join("knownwall");
    other.arg(format!(
        "{} --host {} {dials}",
        server.display(),
        lab.addresses[1]
    ));
    let _other = lab.place.start_command(other);
    for address in &lab.addresses {
        let there = format!("{address}:8090").parse().expect("an address");
        until("server", || {
            TcpStream::connect_timeout(&there, Duration::from_millis(200)).is_ok()
        });
    }
    fs::write(&key, &forced).expect("a file of ours");
    let port = free_port();
    let settings = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\nlisten shop\n \
         bind 127.0.0.1:{port}\n balance roundrobin\n server a {}:8090\n server b {}:8090\n",
        lab.addresses[0], lab.addresses[1]
    );
    let settings = lab.place.file("haproxy.cfg", settings);
    let mut deals = Command::new("haproxy");
    deals.arg("-db").arg("-f").arg(settings);
    let _deals = lab.place.start_command(deals);
    let there = SocketAddr::from(([127, 0, 0, 1], port));
    until("who deals out", || {
        TcpStream::connect_timeout(&there, Duration::from_millis(200)).is_ok()
    });
    let ssh = format!("ssh -F {}", lab.settings.display());
    let hosts = [
        "--server-host",
        "ssh://h1,8090",
        "--server-host",
        "ssh://h2,8090",
        "--ssh",
        &ssh,
    ];
    let url = format!("http://127.0.0.1:{port}/");
    let how = [
        "find", &url, "-c", "16", "-q", "--effort", "quick", "--window", "200ms",
    ];
    let ran = lab.place.run(&[&how[..], &hosts].concat()).ends_with(0);
    let record = lab.place.record();
    let step = squeezed(&record);
    assert_eq!(step["verdict"]["wall"], "wait", "{}", ran.out);
    // Four at a time of 5 ms each, and both are seen.
    let throughput = step["throughput"].as_f64().expect("a number");
    assert!((600.0..=850.0).contains(&throughput), "{throughput}");
    let telemetry = &step["telemetry"];
    assert_eq!(telemetry["server"]["processes"], 2);
    assert_eq!(telemetry["server_sockets"]["sockets"], 16);
    assert_eq!(telemetry["server_host"]["name"], "h1 and h2");
    assert!(elasticity(step, "server-speed") < 0.3, "{}", ran.out);
    let levers = step["experiment"].to_string();
    assert!(
        levers.contains("of h1; ") && levers.contains("of h2"),
        "{levers}"
    );
    let no_port = ["run", &url, "--server-host", "ssh://h1,shop", "--ssh", &ssh];
    assert!(
        lab.place
            .run(&no_port)
            .ends_with(2)
            .err
            .contains("names no port")
    );
}

#[test]
fn what_a_server_asks_on_a_third_host_is_squeezed_there() {
    let _turn = alone();
    if program("nginx").is_none() {
        skip("it needs nginx");
        return;
    }
    let asked = ["2", "--cpus", "0", "--cpus", "1"];
    let Some(lab) = Lab::of(&asked, "--spin-us 300") else {
        return;
    };
    // The first host's server is the backend of one on the second.
    let second = &lab.addresses[1];
    let settings = lab.settings.with_file_name("nginx.conf");
    let text = format!(
        "daemon off; pid {folder}/nginx.pid; error_log stderr; events {{ }} http {{ access_log off;\n\
         upstream b {{ server {backend}:8090; keepalive 64; }} server {{ listen {second}:8080;\n\
         location / {{ proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}",
        folder = settings.parent().expect("a folder").display(),
        backend = lab.address,
    );
    fs::write(&settings, text).expect("a file of ours");
    let forced = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
    let public = forced.split_once("restrict ").expect("a line of ours").1;
    fs::write(lab.settings.with_file_name("user.pub"), public).expect("a file of ours");
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(&lab.settings).arg("h2");
    ssh.arg(format!("nginx -c {}", settings.display()));
    let _proxy = lab.place.start_command(ssh);
    let there = format!("{second}:8080").parse().expect("an address");
    until("proxy", || {
        TcpStream::connect_timeout(&there, Duration::from_millis(200)).is_ok()
    });
    fs::write(lab.settings.with_file_name("user.pub"), forced).expect("a file of ours");
    let url = format!("http://{second}:8080/");
    let ssh = format!("ssh -F {}", lab.settings.display());
    let hosts = ["--server-host", "ssh://h2", "--backend-host", "ssh://h1"];
    let find = [
        "find",
        &url,
        "-q",
        "-c",
        "16",
        "--client-cpus",
        "1",
        "--ssh",
        &ssh,
    ];
    let quickly = ["--effort", "quick", "--window", "200ms", "--no-inside"];
    let args = [&find[..], &hosts, &quickly].concat();
    let ran = lab.place.start(&args).wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let step = squeezed(&record);
    assert_eq!(step["verdict"]["wall"], "backend", "{}", ran.out);
    assert!(ran.out.contains(") of h1."), "{}", ran.out);
    assert!(
        (0.8..1.2).contains(&elasticity(step, "backend-speed")),
        "{}",
        ran.out
    );
    assert!(elasticity(step, "server-speed") < 0.3, "{}", ran.out);
}

#[test]
fn a_link_is_named_by_a_squeeze_of_the_loads_flows() {
    let _turn = quietly().with_hosts();
    let Some(lab) = Lab::up("20mbit", "--answer-bytes 10000") else {
        return;
    };
    let (ran, step) = lab.find(&["--downlink-dev", "eth0,20mbit"]);
    assert_eq!(step["verdict"]["wall"], "downlink", "{}", ran.out);
    assert!(
        (0.8..1.2).contains(&elasticity(&step, "downlink")),
        "{}",
        ran.out
    );
    // Where no squeeze reaches it, its sockets tell.
    let busy = step["telemetry"]["server_sockets"]["busy_share"].as_f64();
    assert!(busy.is_some_and(|busy| busy > 0.9), "{busy:?}");
}

#[test]
fn what_a_host_does_not_grant_or_cannot_be_is_said_in_a_sentence() {
    let _turn = together().changing_the_host();
    let Some(lab) = Lab::up("1gbit", WAITS) else {
        return;
    };
    let ssh = format!("ssh -F {}", lab.settings.display());
    let ran = lab
        .place
        .run(&["hosts", "ssh://h1", "--ssh", &ssh])
        .ends_with(0);
    assert!(
        ran.out
            .contains("grants observe, squeeze, profile, load, start"),
        "{}",
        ran.out
    );
    let key = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
    let public = key.split_once("restrict ").expect("a line of ours").1;
    lab.grants("--grant observe", public);
    let (_, step) = lab.find(&[]);
    let out_of_reach = step["experiment"]["out_of_reach"].to_string();
    assert!(
        out_of_reach.contains("does not grant `squeeze`"),
        "{out_of_reach}"
    );
    // A key that the host does not have.
    let known = lab.settings.with_file_name("known");
    let keys = fs::read_to_string(&known).expect("keys");
    let other = keys.replace(keys.split_whitespace().nth(2).expect("a key"), {
        let other = public.split_whitespace().nth(1);
        other.expect("another key")
    });
    fs::write(&known, other).expect("a file of ours");
    let ran = lab.start("run", &["-d", "1s"]).wait(LIMIT).ends_with(1);
    assert!(
        ran.err.contains("h1") && ran.err.to_lowercase().contains("host key"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("@@@"), "{}", ran.err);
    let url = format!("http://{}:8090/", lab.address);
    let nowhere = |host: &str| {
        lab.place
            .run(&["run", &url, "-d", "1s", "--server-host", host])
    };
    let ran = nowhere("ssh://nobody.invalid").ends_with(1);
    assert!(ran.err.contains("nobody.invalid"), "{}", ran.err);
    let ran = nowhere("db1").ends_with(2);
    assert!(ran.err.contains("is no ssh://USER@HOST"), "{}", ran.err);
    // Its keys go with the lab.
    let folder: PathBuf = lab.settings.parent().expect("a folder").to_owned();
    lab.place.run(&["lab", "down"]).ends_with(0);
    assert!(!Path::new(&folder).exists());
}

#[test]
fn a_host_of_a_lab_is_held_to_its_quota() {
    let _turn = busily().with_hosts();
    let asked = [
        "2", "--cpus", "0", "--cpus", "1", "--quota", "none", "--quota", "0.1",
    ];
    let Some(lab) = Lab::of(&asked, "--spin-us 0") else {
        return;
    };
    lab.lets_in();
    // What a busy loop of a second had of it, in hundredths.
    let had = |host: &str| -> f64 {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(&lab.settings).arg(host);
        ssh.arg("timeout 1 sh -c 'while :; do :; done'; cut -d ' ' -f 16,17 /proc/$$/stat");
        let said = ssh.output().expect("a session").stdout;
        let said = String::from_utf8(said).expect("text");
        said.split_whitespace()
            .map(|ticks| ticks.parse::<f64>().expect("ticks"))
            .sum()
    };
    // A tenth of a second, and what a period lets through.
    let held = had("h2");
    assert!(held > 0.0 && held < 20.0, "{held}");
    // Others may keep a processor busy for a while.
    let is_free = |_| had("h1") > 40.0;
    assert!((0..10).any(is_free), "a host without a quota is held");
    let ran = lab.place.run(&["lab", "up", "1", "--quota", "some"]);
    assert!(ran.ends_with(2).err.contains("number of cores"));
}
