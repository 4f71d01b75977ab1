//! `find` and `ab` as their users run them: what is squeezed, what is said without
//! privilege, what is left behind when they are stopped.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Double, Place, alone, busily, has_apparatus, json_at, program, quietly, ratio_of, skip,
    squeezed, stolen, subjects, things_of_ours, together,
};

/// Short ones: these tests ask whether all happens that should, and not how sure it makes.
const WINDOW: &str = "120ms";

/// The windows that have ended by now, as the journal has them.
fn windows_of(place: &Place, run: &Path) -> Vec<Value> {
    let ran = place.run(&["report", run.to_str().unwrap(), "--format", "json"]);
    let record = ran.ends_with(0).json();
    let steps = record["steps"].as_array().unwrap();
    let windows = steps.last().map(|step| &step["experiment"]["windows"]);
    let windows = windows.and_then(Value::as_array);
    windows.cloned().unwrap_or_default()
}

#[test]
fn find_squeezes_every_resource_in_turn_and_judge_keeps_the_proof() {
    let _turn = alone();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    let place = Place::new();
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        WINDOW,
        "--subject",
        "catalogue --pprof 0",
        "--link",
        "200mbit",
        "--what-if",
        "downlink=2",
        "--lift",
        "--no-calibrate",
        "-c",
        "32",
        "-q",
        "http://subject:8083/read",
    ];
    let ran = place.run(&args).ends_with(0);
    let said = ran.said();
    assert!(said.contains("WHAT IF"), "{said}");
    // What was predicted is made, and the two stand side by side.
    let words: Vec<&str> = said.split_whitespace().collect();
    let lifted = words.join(" ");
    let lifted = &lifted[lifted.find("LIFTED").expect("it was lifted")..];
    assert!(lifted.contains("predicted"), "{lifted}");
    let gain = lifted.split("measured ").nth(1).expect("it was measured");
    let gain = gain.split(' ').next().map(str::parse::<f64>);
    let is_twice = |gain| (1.85..2.15).contains(&gain);
    assert!(
        gain.is_some_and(|gain| gain.is_ok_and(is_twice)),
        "{lifted}"
    );
    let runs = place.runs();
    let run = runs
        .iter()
        .find(|run| run.to_string_lossy().contains("find"));
    let run = run.expect("a run of find").clone();
    let record = place.record_of(&run);
    let step = squeezed(&record);
    let experiment = &step["experiment"];
    assert_eq!(experiment["cut_short"], Value::Null);
    let conditions = experiment["conditions"].as_array().unwrap();
    let squeezes: Vec<&str> = conditions
        .iter()
        .filter_map(|condition| condition["squeeze"].as_str())
        .collect();
    for squeeze in [
        "server-speed",
        "server-capacity",
        "client-speed",
        "downlink",
        "uplink",
        "in-flight",
    ] {
        assert!(squeezes.contains(&squeeze), "{squeeze}: {squeezes:?}");
    }
    for window in experiment["windows"].as_array().unwrap() {
        assert_ne!(window["in_force"], false, "{window:#}");
    }
    // How fast the machine was meanwhile is known of both sides, but where it was slow indeed.
    let windows = experiment["windows"].as_array().unwrap();
    let is_paced = |window: &&Value| {
        let yards = ["server_reference_ns", "client_reference_ns"];
        yards.iter().all(|yard| window[yard].is_f64())
    };
    let paced = windows.iter().filter(is_paced).count();
    assert!(2 * paced > windows.len(), "{paced} of {}", windows.len());
    // At the wall it was profiled, over the link, and the reasons name functions.
    let inside = step["profiles"]["readings"].as_array().unwrap();
    assert_eq!(inside.len(), 6, "{}", step["profiles"]);
    assert!(
        said.contains("INSIDE") && said.contains("of the server's CPU"),
        "{said}"
    );
    // A fifth of the rate of a tbf is taken from everybody alike: no noise hides this.
    let downlink = json_at(&step["verdict"], "/elasticities/downlink/value");
    let value = downlink.as_f64().unwrap();
    assert!((0.8..1.2).contains(&value), "{:#}", step["verdict"]);
    assert_ne!(
        step["verdict"]["how"], "proved",
        "three rounds prove nothing"
    );
    place.run(&["judge", run.to_str().unwrap()]).ends_with(0);
    let again = place.run(&["judge", run.to_str().unwrap(), "--format", "json"]);
    let judged = again.ends_with(0).json();
    assert_eq!(squeezed(&judged)["verdict"], step["verdict"]);
    assert_eq!(things_of_ours(), Vec::<String>::new());
}

#[test]
fn a_find_that_is_stopped_seals_what_it_has_and_leaves_nothing() {
    let _turn = together().changing_the_host();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    for (signal, code, after_ms) in [
        (Signal::INT, Some(130), 4_500),
        (Signal::TERM, Some(143), 1_500),
        (Signal::KILL, None, 4_000),
    ] {
        let place = Place::new();
        let running = place.start(&[
            "find",
            "--subject",
            "catalogue",
            "--link",
            "100mbit",
            "-c",
            "16",
            "http://subject:8083/read",
        ]);
        thread::sleep(Duration::from_millis(after_ms));
        running.signal(signal);
        let ran = running.wait(Duration::from_secs(20));
        if let Some(code) = code {
            ran.ends_with(code);
            let record = place.record();
            assert_eq!(record["complete"], false);
        } else {
            // The keeper cleans up after it.
            for _ in 0..100 {
                if things_of_ours().is_empty() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        assert_eq!(things_of_ours(), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn a_client_under_a_hard_quota_is_squeezed_to_the_end_and_not_misnamed() {
    let _turn = quietly().changing_the_host();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    let place = Place::new();
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        WINDOW,
        // Others that are quiet have the port that it usually has.
        "--subject",
        "knownwall --port 8094",
        "-c",
        "64",
        "--client-quota",
        "0.1",
        "--no-calibrate",
        "--no-inside",
        "-q",
        "http://subject:8094/",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    let step = squeezed(&record);
    assert_eq!(step["experiment"]["cut_short"], Value::Null);
    // A quota that is spent in a tenth of each period makes short windows differ widely.
    let wall = step["verdict"]["wall"].as_str().expect("a wall");
    assert!(
        ["client-cpu", "inconclusive"].contains(&wall),
        "{:#}",
        step["verdict"]
    );
    assert_eq!(things_of_ours(), Vec::<String>::new());
}

/// The server is started anew after two rounds.
#[test]
fn the_server_is_started_anew_between_rounds_and_windows_survive_a_kill() {
    let _turn = busily();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    let place = Place::new();
    let args = [
        "find",
        "--window",
        WINDOW,
        "--subject",
        "knownwall --spin-us 200",
        "-c",
        "16",
        "--client-quota",
        "0.9",
        "--no-calibrate",
        "--no-inside",
        "http://subject:8090/",
    ];
    let running = place.start(&args);
    let windows = |run: &Path| windows_of(&place, run);
    let restarted = |windows: &[Value]| windows.last().is_some_and(|w| w["restart"] == 1);
    let mut seen = 0;
    for _ in 0..100 {
        thread::sleep(Duration::from_secs(1));
        if let Some(run) = place.runs().pop() {
            let windows = windows(&run);
            seen = windows.len();
            if restarted(&windows) {
                break;
            }
        }
    }
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(20));
    let run = place.last_run();
    let kept = windows(&run);
    assert!(
        kept.len() >= seen && restarted(&kept),
        "{} of {seen}",
        kept.len()
    );
    for window in &kept {
        assert_ne!(window["in_force"], false, "{window:#}");
        assert_ne!(window["answered"], 0, "{window:#}");
        assert_eq!(window["failed"], 0, "{window:#}");
    }
    // Others may take the processors from one of them.
    let throughput = |window: &Value| window["throughput"].as_f64().expect("a rate");
    let mut rates: Vec<f64> = kept.iter().map(throughput).collect();
    rates.sort_by(f64::total_cmp);
    assert!(rates[rates.len() / 2] > 500.0, "{rates:?}");
    let rounds = |of: u64| {
        kept.iter()
            .filter(move |w| w["restart"] == of)
            .map(|w| &w["round"])
    };
    assert!(rounds(0).all(|round| round.as_u64() < Some(1)));
    assert!(rounds(1).all(|round| round.as_u64() >= Some(1)));
    let judged = place.run(&["judge", run.to_str().unwrap()]).ends_with(0);
    assert!(judged.said().contains("cut short"), "{}", judged.said());
    for _ in 0..100 {
        if things_of_ours().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(things_of_ours(), Vec::<String>::new());
}

/// Whoever measures stood still for three seconds: what fell into them is measured again.
#[test]
fn a_find_that_was_stopped_for_a_while_says_so_and_measures_again() {
    let _turn = quietly();
    let Some(_) = subjects() else { return };
    let place = Place::new();
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        WINDOW,
        "--subject",
        "knownwall --permits 4 --permit-sleep-us 5000",
        "-c",
        "16",
        "--no-calibrate",
        "--no-inside",
        "http://subject:8090/",
    ];
    let running = place.start(&args);
    let is_squeezing = || {
        let run = place.runs().pop();
        run.is_some_and(|run| windows_of(&place, &run).len() >= 5)
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !is_squeezing() {
        assert!(Instant::now() < until, "no window ends");
        thread::sleep(Duration::from_millis(300));
    }
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(3));
    running.signal(Signal::CONT);
    running.wait(Duration::from_secs(120)).ends_with(0);
    let record = place.record();
    let step = squeezed(&record);
    let gaps: Vec<u64> = step["caveats"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|caveat| caveat["gap_ns"].as_u64())
        .collect();
    assert!(
        gaps.iter()
            .any(|ns| (2_500_000_000..4_000_000_000).contains(ns)),
        "{gaps:?}"
    );
    // Eight hundred a second by the permits' arithmetic, whoever is squeezed, and some dozens
    // more or less in a short window. One that held the three seconds would have fifty.
    for window in step["experiment"]["windows"].as_array().unwrap() {
        let rate = window["throughput"].as_f64().unwrap();
        assert!((400.0..1_200.0).contains(&rate), "{window:#}");
    }
}

/// A host behind a link that is not ours: a network namespace with a rate on the way there.
struct Beyond {
    name: String,
    server: std::process::Child,
}

impl Beyond {
    const ADDRESS: &str = "10.232.77.2";

    /// `knownwall` there, behind an uplink of this rate.
    fn uplink(rate: &str) -> Beyond {
        let name = format!("wfx-{}", std::process::id());
        let device = format!("wfx{}", std::process::id());
        let script = format!(
            "set -e; ip netns add {name}
             ip link add {device} type veth peer name eth0 netns {name}
             ip addr add 10.232.77.1/30 dev {device}; ip link set {device} up
             ip -n {name} addr add {there}/30 dev eth0; ip -n {name} link set eth0 up
             tc qdisc add dev {device} root tbf rate {rate} burst 20000 limit 200000",
            there = Beyond::ADDRESS,
        );
        let made = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let knownwall = subjects().unwrap().join("knownwall");
        let server = Command::new("ip")
            .args(["netns", "exec", &name, "taskset", "-c", "0"])
            .arg(knownwall)
            .args(["--host", Beyond::ADDRESS, "--port", "8090"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect((Beyond::ADDRESS, 8090)).is_err() {
            assert!(Instant::now() < until, "nobody listens there");
            thread::sleep(Duration::from_millis(50));
        }
        Beyond { name, server }
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        // The link goes with the namespace.
        let delete = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .status();
        assert!(delete.unwrap().success());
    }
}

#[test]
fn an_uplink_whose_rate_is_not_ours_is_squeezed_by_padding() {
    let _turn = quietly();
    if !has_apparatus() || subjects().is_none() {
        return;
    }
    let (place, beyond) = (Place::new(), Beyond::uplink("20mbit"));
    let url = format!("http://{}:8090/", Beyond::ADDRESS);
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        WINDOW,
        "-c",
        "16",
        "-m",
        "POST",
        "--body-bytes",
        "2000",
        "--client-cpus",
        "1",
        "--no-calibrate",
        "--no-inside",
        "-q",
        &url,
    ];
    place.run(&args).ends_with(0);
    drop(beyond);
    let record = place.record();
    let step = squeezed(&record);
    let conditions = step["experiment"]["conditions"].as_array().unwrap();
    let uplink = conditions
        .iter()
        .find(|c| c["squeeze"] == "uplink")
        .unwrap();
    assert_eq!(uplink["how"], "requests are padded");
    let value = json_at(&step["verdict"], "/elasticities/uplink/value");
    let value = value.as_f64().unwrap();
    assert!((0.8..1.2).contains(&value), "{:#}", step["verdict"]);
    // No verdict is named over a hypervisor that takes its time.
    if !stolen(&step["verdict"]) {
        assert_eq!(step["verdict"]["wall"], "uplink", "{:#}", step["verdict"]);
    }
}

#[test]
fn without_privilege_find_proves_less_and_says_what_is_missing() {
    let _turn = busily();
    if !rustix::process::geteuid().is_root() {
        skip("it needs root, to give its privilege up");
        return;
    }
    let Some(setpriv) = program("setpriv") else {
        skip("it needs setpriv");
        return;
    };
    let (place, double) = (Place::new(), Double::plain());
    // The place is root's: let everybody write there.
    Command::new("chmod")
        .args(["-R", "a+rwx", place.path().to_str().unwrap()])
        .status()
        .unwrap();
    let url = double.url("/");
    let wrapper = [
        setpriv.to_str().unwrap(),
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ];
    let args = [
        "find", "--effort", "quick", "--window", WINDOW, "-c", "8", "-q", &url,
    ];
    let ran = place
        .start_as(&wrapper, &args)
        .wait(Duration::from_secs(120))
        .ends_with(0);
    let record = place.record();
    let verdict = &squeezed(&record)["verdict"];
    assert_ne!(verdict["how"], "proved", "{verdict:#}");
    let missing = squeezed(&record)["experiment"]["out_of_reach"].to_string();
    assert!(missing.contains("server-speed"), "{missing}");
    assert!(ran.said().contains("out of reach"), "{}", ran.said());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    let _turn = together();
    let place = Place::new();
    let url = "http://127.0.0.1:9/";
    for (args, word) in [
        (&["find", url, "--what-if", "memory=2"][..], "memory"),
        (&["find", url, "--what-if", "downlink=0"], "downlink"),
        (&["find", url, "--link", "1gbit"], "--subject"),
        (
            &["find", url, "--subject", "catalogue", "--link", "1gbit"],
            "subject",
        ),
        (
            &[
                "find",
                "http://subject/",
                "--subject",
                "catalogue",
                "--link",
                "fast",
            ],
            "fast",
        ),
        (&["find", url, "--server-quota", "0"], "server-quota"),
        (&["find", url, "--window", "50ms"], "100ms"),
        (&["ab", url, "--rounds", "2"], "rounds"),
        (&["ab", url, "--path", "/a"], "--path"),
        (&["ab", url, "--subject-b", "catalogue"], "--subject"),
    ] {
        let ran = place.run(args).ends_with(2);
        assert!(ran.err.contains(word), "{args:?}: {}", ran.err);
    }
    assert!(place.runs().is_empty());
}

#[test]
fn two_settings_are_held_in_turn_and_their_ratio_has_an_interval() {
    let _turn = alone();
    let Some(_) = subjects() else { return };
    let place = Place::new();
    let args = [
        "ab",
        "--subject",
        "catalogue",
        "--path",
        "/simple,/compute",
        "--rounds",
        "4",
        "-d",
        "2s",
        "-c",
        "16",
        "-q",
        "http://subject:8083/",
    ];
    let ran = place.run(&args).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["order"].as_array().unwrap().len(), 8);
    // The machine's pace is watched on both sides, and that is no work of the client's on the server's
    // processor. Of some steps telemetry may be starved by the load itself.
    let steps = record["steps"].as_array().unwrap();
    let is_paced = |step: &&Value| {
        let yards = ["server_reference_ns", "client_reference_ns"];
        yards.iter().all(|yard| step["telemetry"][yard].is_f64())
    };
    assert!(steps.iter().any(|step| is_paced(&step)), "{steps:#?}");
    for step in steps.iter().filter(is_paced) {
        let cpus_of = |side: &str| step["telemetry"][side]["cpus_allowed"].clone();
        assert_ne!(cpus_of("server"), cpus_of("client"));
        assert_eq!(cpus_of("client").as_array().unwrap().len(), 1);
    }
    // `/compute` takes several times the CPU of `/simple`. Four rounds on a busy machine may have
    // an interval that shows no difference: then that is what is said.
    let cpu = ratio_of(&record, "server-cpu");
    let of = |ratio: &serde_json::Value, what: &str| ratio[what].as_f64().unwrap();
    assert!(of(cpu, "b") > 1.5 * of(cpu, "a"), "{cpu:#}");
    let throughput = ratio_of(&record, "throughput");
    assert!(of(throughput, "b") < of(throughput, "a"), "{throughput:#}");
    for ratio in [cpu, throughput] {
        let (low, value, high) = (of(ratio, "low"), of(ratio, "ratio"), of(ratio, "high"));
        assert!(low < value && value < high, "{ratio:#}");
        if low < 1.0 && high > 1.0 {
            assert_eq!(ratio["differs"], false, "{ratio:#}");
        }
    }
    assert!(ran.said().contains("/compute"), "{}", ran.said());
}

#[test]
fn a_second_url_is_a_second_server() {
    let _turn = together();
    let (place, first, second) = (Place::new(), Double::plain(), Double::plain());
    let (a, b) = (first.url("/"), second.url("/"));
    let args = [
        "ab", &a, "--url-b", &b, "--rounds", "3", "-d", "900ms", "-c", "2", "-q",
    ];
    place.run(&args).ends_with(0);
    assert!(first.requests() > 10 && second.requests() > 10);
}

#[test]
fn of_a_mix_the_request_that_holds_the_wall_is_named_and_costed() {
    let _turn = alone();
    if subjects().is_none() || !has_apparatus() {
        return;
    }
    // 40 microseconds each, and what the path adds: one in ten is dear, and has half of the processor.
    let mix = [("light", 70, 0), ("middle", 20, 60), ("dear", 10, 500)];
    let place = Place::new();
    let text = mix.map(|(name, weight, us)| {
        format!("[[request]]\nname = \"{name}\"\nweight = {weight}\nget = \"/spin/{us}\"\n")
    });
    place.file("mix.toml", text.concat());
    let subject = "knownwall --spin-us 40";
    let asked = [
        "find",
        "http://subject:0/",
        "--subject",
        subject,
        "--traffic",
        "mix.toml",
    ];
    let load = [
        "-c",
        "16",
        "--effort",
        "quick",
        "--window",
        "250ms",
        "--no-inside",
        "-q",
        "--what-if",
        "dear=0.5",
        "--threshold",
        "light: p99<1h",
    ];
    let ran = place
        .start(&[&asked[..], &load].concat())
        .wait(Duration::from_secs(120))
        .ends_with(0);
    let record = place.record();
    let step = squeezed(&record);
    assert_eq!(step["verdict"]["wall"], "server-cpu", "{}", ran.out);
    assert!(
        ran.out.contains("dear is 10 % of the requests"),
        "{}",
        ran.out
    );
    let costs: Vec<&Value> = step["requests"].as_array().expect("kinds").iter().collect();
    let of = |name: &str| {
        costs
            .iter()
            .find(|kind| kind["name"] == name)
            .expect("it is there")
    };
    let number = |name: &str, key: &str| {
        of(name)["costs"]["server"][key]
            .as_f64()
            .expect("it is costed")
    };
    // What the paths differ by is known; what an answer costs by itself is not.
    let own = number("light", "each");
    for (name, _, us) in mix {
        let added = number(name, "each") - own;
        let half = (number(name, "high") - number(name, "low")) / 2.0;
        let known = f64::from(us) * 1e3;
        assert!(
            (added - known).abs() < 0.1 * known + half + 4_000.0,
            "{name}: {added} of {known} ± {half}"
        );
    }
    let whole: f64 = mix
        .iter()
        .map(|(_, weight, us)| f64::from(*weight) * (own + f64::from(*us) * 1e3))
        .sum();
    let share = 10.0 * (own + 500e3) / whole;
    let (low, high) = (number("dear", "share_low"), number("dear", "share_high"));
    assert!(
        (low - 0.04..=high + 0.04).contains(&share),
        "{share} in [{low}, {high}]"
    );
    assert!(number("dear", "share") > 0.4, "{}", ran.out);
    // Costs are told of the windows anew, as verdicts are.
    let run = place.last_run();
    let mut bare = record.clone();
    for kind in bare["steps"][0]["requests"].as_array_mut().expect("kinds") {
        kind["costs"] = Value::Null;
    }
    fs::write(run.join("record.json"), bare.to_string()).unwrap();
    let again = place
        .run(&["judge", run.to_str().unwrap(), "--format", "json"])
        .ends_with(0);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["steps"][0]["requests"], step["requests"]);
}
