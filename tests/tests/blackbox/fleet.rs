//! One load of several client hosts of a lab, by the real ssh.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wallfinder_tests::{
    Ran, Running, alone, assert_balanced, binary, may_set_quotas, program, quietly, quotas, skip,
    squeezed, together,
};

use crate::hosts::{Lab, WAITS};

pub(crate) const LIMIT: Duration = Duration::from_secs(90);
pub(crate) const CLIENTS: [&str; 3] = ["h2", "h3", "h4"];
const FOUR: [&str; 4] = ["h2", "h3", "h4", "h5"];

/// A server on processor 0, and three hosts for clients on the other.
pub(crate) fn lab(dials: &str) -> Option<Lab> {
    Lab::of(&["4", "--cpus", "0", "--cpus", "1"], dials)
}

pub(crate) fn clients(hosts: &[&str]) -> Vec<String> {
    let each = hosts.iter();
    each.flat_map(|host| ["--client-host".to_owned(), format!("ssh://{host}")])
        .collect()
}

pub(crate) fn started(lab: &Lab, command: &str, more: &[&str]) -> Running {
    started_on(lab, &CLIENTS, command, more)
}

fn started_on(lab: &Lab, hosts: &[&str], command: &str, more: &[&str]) -> Running {
    let clients = clients(hosts);
    let clients = clients.iter().map(String::as_str);
    let args: Vec<&str> = clients.chain(more.iter().copied()).collect();
    lab.start(command, &args)
}

/// A ramp with these connections.
fn ramp(lab: &Lab, connections: &str, more: &[&str]) -> Running {
    let url = format!("http://{}:8090/", lab.addresses[0]);
    let ssh = format!("ssh -F {}", lab.settings.display());
    let clients = clients(&CLIENTS);
    let clients = clients.iter().map(String::as_str);
    let own = [
        "ramp",
        &url,
        "--ssh",
        &ssh,
        "-q",
        "--connections",
        connections,
    ];
    let own = own
        .into_iter()
        .chain(["--client-cpus", "1", "--no-calibrate"]);
    let args: Vec<&str> = own.chain(clients).chain(more.iter().copied()).collect();
    lab.place.start(&args)
}

fn step(lab: &Lab) -> Value {
    lab.place.record()["steps"][0].clone()
}

fn run(lab: &Lab, more: &[&str]) -> (Ran, Value) {
    let ran = started(lab, "run", more).wait(LIMIT).ends_with(0);
    (ran, step(lab))
}

pub(crate) fn parts(step: &Value) -> Vec<Value> {
    parts_of(step, &CLIENTS)
}

fn parts_of(step: &Value, hosts: &[&str]) -> Vec<Value> {
    let parts = step["clients"].as_array().expect("several hosts");
    let names: Vec<&str> = parts.iter().filter_map(|of| of["host"].as_str()).collect();
    assert_eq!(names, hosts);
    // What holds for the whole holds for each, and the sums are those of the parts.
    parts.iter().for_each(assert_balanced);
    assert_balanced(step);
    for count in [
        "scheduled",
        "answered",
        "in_flight_end",
        "bytes_in",
        "connects",
    ] {
        let of = |of: &Value| of["counts"][count].as_u64().unwrap_or(0);
        assert_eq!(parts.iter().map(of).sum::<u64>(), of(step), "{count}");
    }
    let unknown = |of: &Value| of["counts"]["unknown"].as_u64().unwrap_or(0);
    assert_eq!(parts.iter().map(unknown).sum::<u64>(), unknown(step));
    let values = |of: &Value| of["latency"]["count"].as_u64().unwrap_or(0);
    assert_eq!(parts.iter().map(values).sum::<u64>(), values(step));
    parts.clone()
}

/// The quantiles of the merged histogram are those of all requests by themselves.
fn merged_as_sampled(lab: &Lab, step: &Value, requests: u64) {
    let samples = &step["samples"];
    assert_eq!(
        (&samples["rows"], &samples["dropped"]),
        (&requests.into(), &0.into())
    );
    let folder = lab.place.last_run();
    let read = lab.place.run(&[
        "samples",
        folder.to_str().expect("a path"),
        "--format",
        "json",
    ]);
    let read = read.ends_with(0).json();
    assert_eq!(read[0]["answered"], requests);
    for quantile in read[0]["latency"].as_array().expect("quantiles") {
        let name = quantile["name"].as_str().expect("a name");
        let (exact, merged) = (
            quantile["value_ns"].as_f64().expect("a time"),
            step["latency"]["quantiles_ns"][name].as_f64(),
        );
        let Some(merged) = merged else { continue };
        assert!(
            (merged / exact - 1.0).abs() < 0.0015,
            "{name}: {merged}, {exact}"
        );
    }
}

/// A rate is kept by all of them together, each has its part of it, and they begin together.
fn keeps(step: &Value, each: &[Value], rate: f64) {
    let throughput = step["throughput"].as_f64().expect("a rate");
    assert!((throughput / rate - 1.0).abs() < 0.001, "{throughput}");
    for part in each {
        let own = part["throughput"].as_f64().expect("a rate");
        let asked = rate / each.len() as f64;
        assert!((own / asked - 1.0).abs() < 0.004, "{own}");
        let (began_ns, error_ns) = (
            part["began_ns"].as_i64().expect("it is recorded"),
            part["clock_error_ns"].as_u64().expect("it is recorded"),
        );
        assert!(error_ns > 0 && error_ns < 20_000_000, "{part:#}");
        assert!(
            began_ns.unsigned_abs() <= 2 * error_ns + 1_000_000,
            "{part:#}"
        );
    }
}

#[test]
fn three_hosts_make_one_load_that_adds_up_to_the_last_request() {
    let _turn = quietly().with_hosts();
    let Some(lab) = lab("--spin-us 60") else {
        return;
    };
    let (ran, step) = run(&lab, &["-n", "5000", "--samples", "--no-calibrate"]);
    let each: Vec<Value> = parts(&step);
    let answered: Vec<u64> = each
        .iter()
        .filter_map(|of| of["counts"]["answered"].as_u64())
        .collect();
    assert_eq!(answered, [1_667, 1_667, 1_666], "{}", ran.out);
    let connections: Vec<u64> = each
        .iter()
        .filter_map(|of| of["connections"].as_u64())
        .collect();
    assert_eq!(connections, [6, 5, 5]);
    assert_eq!(step["open_connections"]["most"], 16);
    assert_eq!(step["latency"]["count"], 5_000);
    let intervals = step["intervals"].as_array().expect("intervals");
    let told = intervals.iter().filter_map(|of| of["answered"].as_u64());
    assert_eq!(told.sum::<u64>(), 5_000);
    for host in CLIENTS {
        assert!(ran.out.contains(&format!("\n {host} ")), "{}", ran.out);
    }
    merged_as_sampled(&lab, &step, 5_000);
    let (_, step) = run(&lab, &["--rate", "3000", "-d", "3s", "--no-calibrate"]);
    keeps(&step, &parts(&step), 3_000.0);
    // Arrivals at random are dealt as well.
    let (_, step) = run(
        &lab,
        &["--rate", "3000", "--poisson", "-d", "3s", "--no-calibrate"],
    );
    parts(&step);
    let scheduled = step["counts"]["scheduled"].as_f64().expect("a count");
    // Four standard deviations of a count whose mean is 9,000.
    assert!((scheduled - 9_000.0).abs() < 380.0, "{scheduled}");
    // A ramp has steps with less than one connection for each.
    let ramped = ramp(&lab, "1,6", &["-d", "500ms"]);
    let ran = ramped.wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let hosts = |nth: usize| record["steps"][nth]["clients"].as_array().map(Vec::len);
    assert_eq!((hosts(0), hosts(1)), (Some(1), Some(3)), "{}", ran.out);
    // Twice the same host, and flags about several.
    let twice = started(&lab, "run", &["--client-host", "ssh://h2"]);
    let ran = twice.wait(LIMIT).ends_with(2);
    assert!(ran.err.contains("named twice"), "{}", ran.err);
    let one = ["--client-host", "ssh://h2", "--on-lost-client", "abort"];
    let ran = lab.start("run", &one).wait(LIMIT).ends_with(2);
    assert!(ran.err.contains("several hosts"), "{}", ran.err);
}

/// The agents that the command drives loads by, by the address of their host.
fn agent_at(address: &str) -> Pid {
    let since = Instant::now();
    loop {
        let all = fs::read_dir("/proc").expect("processes").flatten();
        let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let found = pids.find(|pid| {
            let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
            let variables = String::from_utf8_lossy(&read("environ")).into_owned();
            words.contains("agent\0--stdio") && variables.contains(&format!(" {address} 22\0"))
        });
        if let Some(pid) = found {
            return Pid::from_raw(pid).expect("a pid");
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "no agent at {address}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run of some seconds during which this happens to the agent of the second client host.
fn disturbed(lab: &Lab, signal: Signal, more: &[&str]) -> Ran {
    // One that stands still is lost when its lease is over.
    let duration = if signal == Signal::STOP { "9s" } else { "4s" };
    let args = [&["-d", duration, "--no-calibrate"], more].concat();
    let running = started(lab, "run", &args);
    let agent = agent_at(&lab.addresses[2]);
    std::thread::sleep(Duration::from_millis(2_500));
    kill_process(agent, signal).expect("it is there");
    if signal == Signal::STOP {
        std::thread::sleep(Duration::from_secs(8));
        // Its keeper has ended it by now.
        let _ = kill_process(agent, Signal::CONT);
    }
    running.wait(LIMIT)
}

#[test]
fn a_client_host_that_is_lost_is_named_and_the_sums_before_and_after_are_exact() {
    let _turn = together().with_hosts();
    let Some(lab) = lab(WAITS) else {
        return;
    };
    for signal in [Signal::KILL, Signal::STOP] {
        let ran = disturbed(&lab, signal, &[]).ends_with(1);
        assert!(ran.err.contains("h3: "), "{}", ran.err);
        let step = step(&lab);
        let parts = parts(&step);
        let lost = &parts[1];
        let heard_ns = lost["lost"]["heard_ns"].as_u64().expect("it is lost");
        assert!(
            (1_000_000_000..9_000_000_000).contains(&heard_ns),
            "{lost:#}"
        );
        // Each of its five connections had a request in flight, or was about to send one.
        let unknown = lost["counts"]["unknown"].as_u64().expect("a count");
        assert!((1..=5).contains(&unknown), "{lost:#}");
        assert!(lost["counts"]["answered"].as_u64() > Some(200), "{lost:#}");
        assert!(parts[0]["lost"].is_null() && parts[2]["lost"].is_null());
        assert_eq!(step["verdict"]["wall"], "inconclusive");
        assert!(ran.out.contains("h3 was lost"), "{}", ran.out);
        assert_eq!(lab.place.record()["complete"], false);
    }
    let since = Instant::now();
    let ran = disturbed(&lab, Signal::KILL, &["--on-lost-client", "abort"]).ends_with(1);
    assert!(
        since.elapsed() < Duration::from_secs(8),
        "{:?}",
        since.elapsed()
    );
    assert!(ran.err.contains("h3: "), "{}", ran.err);
    assert_eq!(lab.place.record()["steps"], Value::Array(Vec::new()));
    // The next steps are dealt to those that are left.
    let args = ["-d", "3s", "--on-lost-client", "rebalance"];
    let running = ramp(&lab, "6,9", &args);
    let agent = agent_at(&lab.addresses[2]);
    std::thread::sleep(Duration::from_millis(1_500));
    kill_process(agent, Signal::KILL).expect("it is there");
    let ran = running.wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let lost = |nth: usize| {
        let clients = record["steps"][nth]["clients"].as_array().expect("several");
        let lost = clients.iter().filter(|of| !of["lost"].is_null());
        (clients.len(), lost.count())
    };
    assert_eq!((lost(0), lost(1)), ((3, 1), (2, 0)), "{}", ran.out);
    assert_eq!(record["steps"][1]["open_connections"]["most"], 9);
}

/// Control groups with a quota for agents of some hosts, one each, whichever version of control groups there is. Dropping
/// it removes them: they are empty once the agents have ended.
struct Quotas(Vec<PathBuf>);

impl Quotas {
    /// So many percent of a processor for each of these hosts, in periods of 17 to 29 ms: of one length, hosts of one
    /// processor would meet there in each period or in none, for seconds.
    fn of(lab: &Lab, hosts: &[&str], percent: u32) -> Option<Quotas> {
        Quotas::with_a_slow_one(lab, hosts, percent, None)
    }

    /// The same, and of one of them the loads spin for 19 of 20 parts of their working time.
    fn with_a_slow_one(
        lab: &Lab,
        hosts: &[&str],
        percent: u32,
        slow: Option<&str>,
    ) -> Option<Quotas> {
        if !may_set_quotas() {
            return None;
        }
        let root = quotas()?.display();
        let script = lab.settings.with_file_name("slow.sh");
        let folder = format!("wf-test-slow-{}", std::process::id());
        let slows = slow.map_or(String::new(), |slow| {
            format!("[ $(hostname) != {slow} ] || set -- --client-speed 5%\n")
        });
        let text = format!(
            "#!/bin/sh\ncase \" {} \" in *\" $(hostname) \"*)\n\
             d={root}/{folder}-$(hostname)\nmkdir -p $d\n\
             n=$(hostname)\nperiod=$((14000 + 3000 * ${{n#h}}))\nquota=$((period * {percent} / 100))\n\
             if [ -e $d/cpu.max ]; then echo $quota $period >$d/cpu.max\n\
             else echo $period >$d/cpu.cfs_period_us; echo $quota >$d/cpu.cfs_quota_us; fi\n\
             echo $$ >$d/cgroup.procs;;\nesac\n\
             {slows}exec {} agent --stdio \"$@\"\n",
            hosts.join(" "),
            binary().display()
        );
        fs::write(&script, text).expect("a file of ours");
        let key = fs::read_to_string(lab.settings.with_file_name("user.pub")).expect("a key");
        let public = key
            .split_once("restrict ")
            .expect("a line of ours")
            .1
            .to_owned();
        lab.forces(&format!("/bin/sh {}", script.display()), &public);
        let folders = hosts.iter().map(|host| format!("{root}/{folder}-{host}"));
        Some(Quotas(folders.map(PathBuf::from).collect()))
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        for group in &self.0 {
            let _ = fs::remove_dir(group);
        }
    }
}

#[test]
fn the_client_host_that_is_the_wall_is_named() {
    let _turn = alone();
    let Some(lab) = lab("") else { return };
    let Some(_quota) = Quotas::of(&lab, &["h4"], 10) else {
        return;
    };
    // A third of this is more than a tenth of a processor can drive.
    h4_is_the_wall_at(&lab, "60000");
}

#[test]
fn the_client_host_that_its_own_spin_slows_is_named() {
    let _turn = alone();
    let Some(lab) = lab("") else { return };
    let hosts = ["h2", "h3", "h4"];
    let Some(_quotas) = Quotas::with_a_slow_one(&lab, &hosts, 20, Some("h4")) else {
        return;
    };
    // A fifth of a processor drives a third of it, where it does not spin.
    h4_is_the_wall_at(&lab, "6000");
}

fn h4_is_the_wall_at(lab: &Lab, rate: &str) {
    let (ran, step) = run(lab, &["--rate", rate, "-d", "2s", "--no-calibrate"]);
    parts(&step);
    let verdict = &step["verdict"];
    assert_eq!(verdict["wall"], "client-cpu", "{}", ran.out);
    let hosts = &verdict["detail"]["hosts"];
    assert_eq!(hosts, &serde_json::json!(["h4"]), "{verdict:#}");
    assert!(
        ran.out.contains("of 3 client hosts h4 was full"),
        "{}",
        ran.out
    );
}

#[test]
fn four_hosts_with_quotas_that_sum_below_a_processor_make_one_load() {
    let _turn = alone();
    let lab = Lab::of(&["5", "--cpus", "0", "--cpus", "1"], "--spin-us 60");
    let Some(lab) = lab else { return };
    let Some(quotas) = Quotas::of(&lab, &FOUR, 20) else {
        return;
    };
    let run = |more: &[&str]| {
        let more = [more, &["--no-calibrate", "--samples"]].concat();
        let ran = started_on(&lab, &FOUR, "run", &more)
            .wait(LIMIT)
            .ends_with(0);
        let step = step(&lab);
        let parts = parts_of(&step, &FOUR);
        (ran, step, parts)
    };
    let (ran, step, each) = run(&["-n", "4001"]);
    let answered = each
        .iter()
        .filter_map(|of| of["counts"]["answered"].as_u64());
    let answered: Vec<u64> = answered.collect();
    assert_eq!(answered, [1_001, 1_000, 1_000, 1_000], "{}", ran.out);
    merged_as_sampled(&lab, &step, 4_001);
    let (_, step, each) = run(&["--rate", "2000", "-d", "8s"]);
    keeps(&step, &each, 2_000.0);
    // Dealt by what each can drive: the first has half of what the others have.
    drop(quotas);
    let Some(_quota) = Quotas::of(&lab, &FOUR[..1], 10) else {
        return;
    };
    let loads: [(&[&str], u32); 2] = [
        (&["-n", "4001"], 4_001),
        (&["--rate", "2000", "-d", "2s"], 4_000),
    ];
    for (load, whole) in loads {
        let more = [load, &["--deal", "by-ceiling"]].concat();
        let (ran, step, each) = run(&more);
        let dealt: Vec<f64> = each.iter().filter_map(|of| of["dealt"].as_f64()).collect();
        assert!((dealt.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{dealt:?}");
        assert!(dealt[0] < 0.7 * dealt[1], "{dealt:?}: {}", ran.out);
        let answered = step["counts"]["answered"].as_f64().expect("a count");
        assert!((answered - f64::from(whole)).abs() <= 8.0, "{answered}");
        for (part, dealt) in each.iter().zip(dealt) {
            let own = part["counts"]["answered"].as_f64().expect("a count");
            assert!((own / answered - dealt).abs() < 0.02, "{own}, {dealt}");
        }
    }
}

/// A load that is squeezed with three client hosts, and what more of them would carry.
fn found(lab: &Lab, more: &[&str]) -> (Ran, Value, f64) {
    let clients = clients(&CLIENTS);
    let clients = clients.iter().map(String::as_str);
    let all: Vec<&str> = clients.chain(more.iter().copied()).collect();
    let (ran, step) = lab.find_in_windows_of("300ms", &all);
    let more_clients = &step["verdict"]["elasticities"]["more-clients"]["value"];
    let more_clients = more_clients.as_f64().unwrap_or(f64::NAN);
    (ran, step, more_clients)
}

#[test]
fn more_clients_carry_more_where_they_are_the_wall() {
    let _turn = alone();
    let Some(lab) = lab("") else { return };
    let Some(_quotas) = Quotas::of(&lab, &CLIENTS, 10) else {
        return;
    };
    // Hosts that share a processor are not as fast from second to second, and what is quick may leave it undecided: one of
    // three tells all, and none tells another wall. With few connections each, fewer in flight would make a batch dearer.
    let is_told = (0..3).any(|_| {
        let (ran, step, more) = found(&lab, &["-c", "192"]);
        let wall = step["verdict"]["wall"].as_str().expect("a wall");
        let walls = ["client-cpu", "inconclusive"];
        assert!(walls.contains(&wall), "{}", ran.out);
        // As much was in flight as before, whoever rested, and less was carried.
        let windows = step["experiment"]["windows"].as_array().expect("windows");
        let check = |window: &Value| window["check"].as_str().unwrap_or_default().to_owned();
        let throughput_of = |is_of: &dyn Fn(&Value) -> bool| {
            let of = windows.iter().filter(|window| is_of(window));
            let of: Vec<f64> = of.filter_map(|of| of["throughput"].as_f64()).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        let rested = throughput_of(&|window| check(window).contains(" rested"));
        let part = rested / throughput_of(&|window| window["condition"] == 0);
        assert!((0.45..0.87).contains(&part), "{part}: {}", ran.out);
        let has_rested = |host: &&str| {
            let of_host = format!("{host} rested");
            windows
                .iter()
                .any(|window| check(window).starts_with(&of_host))
        };
        wall == "client-cpu"
            && (0.75..1.3).contains(&more)
            && ran.out.contains("more clients (33 %)")
            && ran.out.contains("More client machines would carry more")
            && CLIENTS.iter().filter(|host| has_rested(host)).count() >= 2
    });
    assert!(is_told, "in none of three");
}

/// An nginx on the first host that answers each client's address 1,500 times a second, and makes what is above that wait.
fn limits_each_client(lab: &Lab) -> Option<Running> {
    let Some(nginx) = program("nginx") else {
        skip("it needs nginx");
        return None;
    };
    let folder = lab.place.path().join("nginx");
    fs::create_dir(&folder).expect("a folder of ours");
    fs::write(folder.join("index.html"), "ok").expect("a file of ours");
    // It gives its privilege away, and reads this.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
    let at = folder.display();
    let settings = format!(
        "daemon off;\npid {at}/pid;\nerror_log stderr;\nworker_processes 1;\nuser root;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000;\n\
         limit_req_zone $binary_remote_addr zone=each:1m rate=1500r/s;\n\
         server {{ listen 8091; root {at}; location / {{ limit_req zone=each burst=1000; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), settings).expect("a file of ours");
    lab.lets_in();
    let key = lab.settings.with_file_name("user.pub");
    let public = fs::read_to_string(&key).expect("a key");
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(&lab.settings).arg("h1");
    ssh.arg(format!("{} -c {at}/nginx.conf", nginx.display()));
    let nginx = lab.place.start_command(ssh);
    let there: SocketAddr = format!("{}:8091", lab.addresses[0])
        .parse()
        .expect("it is one");
    let since = Instant::now();
    while TcpStream::connect_timeout(&there, Duration::from_millis(200)).is_err() {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", nginx.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.forces(&format!("{} agent --stdio", binary().display()), &public);
    Some(nginx)
}

#[test]
fn a_limit_of_the_servers_for_each_client_is_told_from_one_of_its_own() {
    let _turn = alone();
    let Some(lab) = lab("") else { return };
    let Some(_nginx) = limits_each_client(&lab) else {
        return;
    };
    let url = format!("http://{}:8091/", lab.addresses[0]);
    let ssh = format!("ssh -F {}", lab.settings.display());
    let own = [
        "find",
        &url,
        "-c",
        "24",
        "-q",
        "--effort",
        "quick",
        "--window",
        "200ms",
        "--no-inside",
    ];
    let hosts = [
        "--server-host",
        "ssh://h1",
        "--ssh",
        &ssh,
        "--client-cpus",
        "1",
    ];
    let clients = clients(&CLIENTS);
    let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
    let args = [&own[..], &hosts, &clients].concat();
    let ran = lab.place.start(&args).wait(LIMIT).ends_with(0);
    let record = lab.place.record();
    let verdict = &squeezed(&record)["verdict"];
    assert_eq!(verdict["wall"], "wait", "{}", ran.out);
    assert_eq!(verdict["detail"]["kind"], "held-per-client", "{}", ran.out);
    assert!(
        ran.out.contains("More client machines would carry more"),
        "{}",
        ran.out
    );
}

#[test]
fn the_downlink_towards_several_clients_is_squeezed_for_all_of_them() {
    let _turn = alone();
    let link = ["4", "--cpus", "0", "--cpus", "1", "--link", "20mbit"];
    let Some(lab) = Lab::of(&link, "--answer-bytes 10000") else {
        return;
    };
    let (ran, step, more) = found(&lab, &["--downlink-dev", "eth0,20mbit"]);
    assert_eq!(step["verdict"]["wall"], "downlink", "{}", ran.out);
    let downlink = &step["verdict"]["elasticities"]["downlink"]["value"];
    let downlink = downlink.as_f64().unwrap_or(f64::NAN);
    assert!((0.8..1.2).contains(&downlink), "{}", ran.out);
    assert!(more < 0.25, "{more}: {}", ran.out);
}

#[test]
fn a_wall_is_proved_with_the_clients_of_three_hosts() {
    let _turn = alone();
    let Some(lab) = lab("--spin-us 300") else {
        return;
    };
    let (ran, step, more) = found(&lab, &[]);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    let elasticity = |squeeze: &str| {
        let value = &step["verdict"]["elasticities"][squeeze]["value"];
        value.as_f64().unwrap_or(f64::NAN)
    };
    assert!(
        (0.8..1.2).contains(&elasticity("server-speed")),
        "{}",
        ran.out
    );
    assert!(more < 0.25, "{more}: {}", ran.out);
    for slack in ["client-speed", "think-time"] {
        assert!(elasticity(slack) < 0.3, "{slack}: {}", ran.out);
    }
}
