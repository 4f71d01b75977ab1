//! Studies as a user runs them: the real subjects, engine and clients, in a few short steps.

use serde_json::Value;
use wallfinder_tests::{Place, alone, busily, json_at, program, skip, subjects, things_of_ours};

/// The echo subjects in three protocols, each by the engine and by Go's clients, twice.
fn study(port: u16) -> String {
    let mut text = String::from(
        r#"schema = "wallfinder.study/1"
id = "small"
title = "Three protocols, in short"
source = "a page"
question = "Do they answer?"
method = "One message."

[[driver]]
name = "engine"

[[driver]]
name = "two-permits"
program = "echo-client"
arguments = ["--semaphore", "2"]

[[claim]]
id = "all-answered"
claim = "Every request is answered, in each protocol"
source = "a page"
calm = false
let.failed = 'steps.filter(s, s.errors_share > 0)'
confirmed = 'size(failed) == 0 && size(steps) == 12'
contradicted = 'size(failed) > 0'
because = "{size(steps)} steps, {size(failed)} with failures"

[[claim]]
id = "counted"
claim = "A counted step has as many answers as were asked for"
source = "a page"
calm = false
let.counted = 'rounds("tcp", "engine", 1000, 4).map(s, s.answered)'
confirmed = 'min(counted) == 800 && max(counted) == 800'
contradicted = 'min(counted) != 800 || max(counted) != 800'
because = "{counted} answers"
"#,
    );
    let protocols = [
        ("tcp", "framed", ""),
        ("rest", "http1", "path = \"/echo\""),
        (
            "grpc",
            "grpc",
            "path = \"/wallfinder.echo.Echo/Call\"\nclients_per_connection = 4",
        ),
    ];
    for (name, speaks, more) in protocols {
        text.push_str(&format!(
            r#"
[[subject]]
name = "{name}"
command = ["echo", "--protocol", "{name}"]
port = {port}

[[group]]
id = "{name}"
subject = "{name}"
speaks = "{speaks}"
{more}

[[group.run]]
sizes = ["smoke"]
drivers = ["engine", "two-permits"]
payload = [1000]
clients = [4]
requests = 200
samples = true
rounds = 2
warmup = "50ms"
window = "20s"
"#
        ));
    }
    text
}

#[test]
fn a_study_of_three_protocols_counts_judges_and_is_shown_cell_by_cell() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let file = place.file("small.toml", study(wallfinder_tests::free_port()));
    let file = file.to_string_lossy();
    let ran = place
        .run(&["study", "run", &file, "--size", "smoke"])
        .ends_with(0);
    assert!(ran.out.contains("2 confirmed"), "{}", ran.out);
    // One row for both rounds of a cell.
    for row in ["tcp    engine", "grpc   two-permits"] {
        assert_eq!(ran.out.matches(row).count(), 1, "{row}: {}", ran.out);
    }
    let record = place.record();
    // What the machine disturbed was measured again, and stands beside the cells.
    let steps = json_at(&record, "/steps").as_array().expect("steps");
    let steps: Vec<&Value> = steps
        .iter()
        .filter(|step| step.get("cell").is_some())
        .collect();
    assert_eq!(steps.len(), 12);
    for step in steps {
        assert_eq!(json_at(step, "/cell/clients"), 4);
        let by_engine = json_at(step, "/cell/driver") == "engine";
        assert_eq!(step.get("samples").is_some(), by_engine);
        if by_engine {
            assert_eq!(json_at(step, "/counts/answered"), 800, "{step:.300}");
            assert_eq!(json_at(step, "/samples/rows"), 800);
            assert_eq!(json_at(step, "/samples/dropped"), 0);
        } else {
            // Its run is shorter than a tick of telemetry: only it knows.
            assert_eq!(json_at(step, "/driver/answered"), 800, "{step:.300}");
            // With two permits for four clients a request waits about as long as it takes.
            let mean = |clock: &str| json_at(step, &format!("/{clock}/mean_ns")).as_f64();
            assert!(mean("latency") > mean("service"), "{step:.300}");
        }
    }
    let page = std::fs::read_to_string(place.last_run().join("report.html")).expect("a report");
    assert!(page.contains("Cell by cell"));
    // The same steps are judged again by the same claims, or by others.
    let run = place.last_run();
    let run = run.to_string_lossy();
    let judge = |study: &str| place.run(&["judge", &run, "--study", study, "--format", "json"]);
    let again = judge(&file).ends_with(0).json();
    assert_eq!(again["claims"], record["claims"]);
    let text = std::fs::read_to_string(&*file).expect("the study");
    let other = place.file("other.toml", text.replace("800", "801"));
    let other = judge(&other.to_string_lossy()).ends_with(0).json();
    assert_eq!(json_at(&other, "/claims/1/outcome"), "contradicted");
    let foreign = judge("gzip-wall").ends_with(2);
    assert!(
        foreign.err.contains("none of the record's steps"),
        "{}",
        foreign.err
    );
}

/// What `make demo` runs, in its smallest size: every step and every claim of a built-in study.
#[test]
fn a_built_in_study_runs_from_its_first_step_to_its_last_claim() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let args = ["study", "run", "client-ceiling", "--size", "smoke", "-q"];
    place.run(&args).ends_with(0);
    let record = place.record();
    let list = |path: &str| {
        json_at(&record, path)
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let loaded = |path: &str, driver: &str| {
        list("/steps").into_iter().any(|step| {
            let is_it = json_at(&step, "/target/path") == path;
            let by = json_at(&step, "/driver/name").as_str();
            let answered = json_at(&step, "/throughput").as_f64();
            is_it && by.is_some_and(|by| by.contains(driver)) && answered.is_some_and(|x| x > 100.0)
        })
    };
    for path in ["/simple", "/compute"] {
        assert!(
            loaded(path, "wallfinder"),
            "{path}: {:.2000}",
            record["steps"]
        );
    }
    // Claims of drivers that are not there are open, and say so.
    let claims = list("/claims");
    assert!(claims.len() >= 10, "{claims:#?}");
    for claim in &claims {
        let because = claim["because"].as_str().unwrap_or_default();
        assert!(!because.is_empty(), "{claim:#}");
        assert!(!because.contains("the study is wrong"), "{claim:#}");
    }
    let decided = |claim: &&Value| claim["outcome"] != "open";
    assert!(claims.iter().filter(decided).count() >= 3, "{claims:#?}");
}

/// Files as they are and compressed behind a narrow link, and with a client that may do little.
const LINKED: &str = r#"schema = "wallfinder.study/1"
id = "linked"
title = "A link, a quota, header fields"
source = "a page"
question = "Are they in force?"
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
quota_cores = 0.2

[[driver]]
name = "engine"

[[claim]]
id = "in-force"
claim = "The link holds both, and a compressed file is smaller"
source = "a page"
calm = false
let.raw = 'last("raw", "engine")'
let.gzip = 'last("gzip", "engine")'
let.weak = 'last("weak", "engine")'
let.served = 'last("slow", "engine")'
confirmed = 'raw.throughput < 385 && raw.link.downlink_share > 0.9 && gzip.throughput > 1.5 * raw.throughput && weak.client.cores < 0.16 && served.server.cores < 0.25'
contradicted = 'raw.throughput > 385'
because = "{raw.throughput}/s of 16 KB, {gzip.throughput}/s compressed; {weak.client.cores} cores of the client, {served.server.cores} of the server; {raw.link.segments_out} segments"
"#;

#[test]
fn a_link_quotas_and_header_fields_are_a_studys_to_set() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let has_groups = std::path::Path::new("/sys/fs/cgroup/cpu/cgroup.procs").exists();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !has_groups || program("ip").is_none() || program("tc").is_none() {
        return skip("it needs root, ip and tc, and version 1 of control groups");
    }
    let _turn = alone();
    let mut text = LINKED.to_owned();
    for (id, subject, coding, more) in [
        ("raw", "linked", "identity", ""),
        ("gzip", "linked", "gzip", ""),
        ("weak", "open", "gzip", "client_quota = 0.1"),
        ("slow", "open", "gzip", ""),
    ] {
        text.push_str(&format!(
            r#"
[[group]]
id = "{id}"
subject = "{subject}"
path = "/realistic/16k.txt"
headers = ["Accept-Encoding: {coding}"]

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
connections = [8]
warmup = "200ms"
window = "800ms"
{more}
"#
        ));
    }
    let place = Place::new();
    place.file("linked.toml", text);
    place
        .run(&["study", "run", "linked.toml", "-q"])
        .ends_with(0);
    let record = place.record();
    let claim = json_at(&record, "/claims/0");
    assert_eq!(
        claim["outcome"], "confirmed",
        "{claim:#}\n{:#}",
        record["caveats"]
    );
    assert_eq!(things_of_ours(), Vec::<String>::new());
}
