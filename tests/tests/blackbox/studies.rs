//! Studies as a user runs them: the real subjects, engine and clients, in a few short steps.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Place, Running, alive, alone, busily, descendants, has_apparatus, json_at, skip, subjects,
    things_of_ours, together,
};

/// The echo subjects: a name, what is spoken, and where.
const PROTOCOLS: [(&str, &str, &str); 3] = [
    ("tcp", "framed", ""),
    ("rest", "http1", "path = \"/echo\""),
    ("grpc", "grpc", "path = \"/wallfinder.echo.Echo/Call\""),
];

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
    for (name, speaks, path) in PROTOCOLS {
        let shared = match name {
            "grpc" => "clients_per_connection = 4",
            _ => "",
        };
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
{path}
{shared}

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
    // What is kept is what the run was asked and came to, as its folder has it.
    std::fs::create_dir(place.path().join("kept")).expect("a folder");
    let keep = || place.run(&["study", "keep", &run, "--into", "kept"]);
    let counted = || {
        let kept = std::fs::read_to_string(place.path().join("kept/small.toml")).expect("kept");
        let kept: toml::Table = toml::from_str(&kept).expect("TOML");
        let claims = kept["claim"].as_array().expect("claims");
        let is_it = |claim: &&toml::Value| claim["id"].as_str() == Some("counted");
        let found = claims.iter().find(is_it).expect("a claim").clone();
        (found, kept["as_run"].as_bool())
    };
    let refused = |because: &str| {
        let refused = keep().ends_with(2);
        assert!(refused.err.contains(because), "{}", refused.err);
    };
    keep().ends_with(0);
    let (first, as_run) = counted();
    assert_eq!(first["outcome"].as_str(), Some("confirmed"));
    assert_eq!(as_run, Some(true));
    let asked = place.last_run().join("study.toml");
    std::fs::write(&asked, text.replace("800", "801")).expect("another study");
    refused("it was changed since");
    // Of a record of before it is not known what was asked; its outcomes stand all the same.
    let sealed = place.last_run().join("record.json");
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(&sealed).expect("a record")).expect("JSON");
    let plan = record["plan"].as_object_mut().expect("a plan");
    assert!(plan.remove("study").is_some());
    std::fs::write(&sealed, record.to_string()).expect("a record");
    keep().ends_with(0);
    let (second, as_run) = counted();
    assert_eq!(second["outcome"].as_str(), Some("confirmed"));
    assert_eq!(as_run, Some(false));
    // What is kept of a built-in study is no other file's.
    std::fs::write(&asked, text.replace("id = \"small\"", "id = \"lock\"")).expect("a study");
    refused("the built-in study `lock`");
    std::fs::remove_file(&asked).expect("it was there");
    refused("there is no study.toml");
    let foreign = judge("gzip-wall").ends_with(2);
    assert!(
        foreign.err.contains("none of the record's steps"),
        "{}",
        foreign.err
    );
}

/// Eight steps of a third of a second on one server.
fn steps(port: u16) -> String {
    format!(
        r#"schema = "wallfinder.study/1"
id = "steps"
title = "Step by step"
source = "a page"
question = "Do they answer?"
method = "One message."

[[driver]]
name = "engine"

[[subject]]
name = "tcp"
command = ["echo", "--protocol", "tcp"]
port = {port}

[[group]]
id = "tcp"
subject = "tcp"
speaks = "framed"

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
payload = [100]
clients = [1, 2, 3, 4]
rounds = 2
warmup = "50ms"
window = "300ms"

[[claim]]
id = "all-answered"
claim = "Every step is there"
source = "a page"
calm = false
confirmed = 'size(steps) == 8'
contradicted = 'size(steps) < 8'
because = "{{size(steps)}} steps"
"#
    )
}

#[test]
fn a_study_that_was_killed_goes_on_where_it_ended() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let file = place.file("steps.toml", steps(wallfinder_tests::free_port()));
    let file = file.to_string_lossy();
    let args = ["study", "run", &file, "--size", "smoke"];
    let running = place.start(&args);
    let until = Instant::now() + Duration::from_secs(30);
    while !running.err().contains("100B/c3") && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(20));
    let killed = place.last_run();
    let of_killed = place.run(&["report", &killed.to_string_lossy(), "--format", "json"]);
    // The last of them may not be whole. Where others disturbed one, it was measured twice.
    let killed = of_killed.json();
    let names = list(&killed, "/steps").iter();
    let names: Vec<&str> = names.filter_map(|step| step["name"].as_str()).collect();
    let mut before: BTreeSet<&str> = names.iter().copied().collect();
    before.remove(names.last().expect("steps"));
    assert!(!before.is_empty(), "{killed:.500}");

    // It is asked something else by now, with these steps in sight.
    let text = std::fs::read_to_string(&*file).expect("the study");
    place.file(
        "steps.toml",
        text.replace("size(steps) < 8", "size(steps) < 7"),
    );
    let resumed = place.run(&[&args[..], &["--resume"]].concat()).ends_with(0);
    let said = format!("{} of 8 steps were measured before", before.len());
    assert!(resumed.err.contains(&said), "{said}: {}", resumed.err);
    let record = place.record();
    assert_eq!(json_at(&record, "/complete"), true);
    assert_eq!(claim(&record, "all-answered")["outcome"], "confirmed");
    // What was taken over is what was measured then.
    let first = |record: &Value| list(record, "/steps")[0]["started_utc"].clone();
    assert_eq!(first(&record), first(&killed));
    assert!(record["caveats"].to_string().contains("measured-before"));
    std::fs::create_dir(place.path().join("kept")).expect("a folder");
    let kept = ["study", "keep", "runs/latest", "--into", "kept"];
    place.run(&kept).ends_with(0);
    let kept = std::fs::read_to_string(place.path().join("kept/steps.toml")).expect("kept");
    assert!(kept.contains("as_run = false"), "{kept}");

    // It is whole: there is nothing left to do, and it is printed as it was.
    let whole = place.last_run();
    let to_file = ["--resume", "--format", "json", "-o", "again.json"];
    let again = place.run(&[&args[..], &to_file].concat()).ends_with(0);
    assert!(again.err.contains("has it whole"), "{}", again.err);
    assert_eq!(place.last_run(), whole);
    let printed = std::fs::read(place.path().join("again.json")).expect("a file");
    let printed: Value = serde_json::from_slice(&printed).expect("a record");
    assert_eq!(printed["id"], record["id"]);
    // Servers that were told something else are other servers, and another load is another question.
    let told = ["--resume", "--env", "WF_TOKEN=hunter22"];
    let other = place.run(&[&args[..], &told].concat()).ends_with(0);
    let said = "0 of 8 steps were measured before";
    assert!(other.err.contains(said), "{}", other.err);
    let left = "nothing is taken from 2 earlier runs";
    assert!(other.err.contains(left), "{}", other.err);
    let sums = place.last_run().join("study.sums");
    let sums = std::fs::read_to_string(sums).expect("checksums");
    assert!(
        sums.contains(" run\n") && sums.contains(" echo\n"),
        "{sums}"
    );
    let text = std::fs::read_to_string(&*file).expect("the study");
    place.file("steps.toml", text.replace("300ms", "310ms"));
    let other = place.run(&[&args[..], &["--resume"]].concat()).ends_with(0);
    assert!(
        other.err.contains("0 of 8 steps were measured before"),
        "{}",
        other.err
    );
}

/// Starts all studies, and waits until the first one has a run.
#[track_caller]
fn all_of_them(place: &Place, more: &[&str]) -> Running {
    let runs = place.runs().len();
    let args = ["study", "run", "--size=smoke", "all"];
    let running = place.start(&[&args[..], more].concat());
    let until = Instant::now() + Duration::from_secs(30);
    while place.runs().len() == runs {
        assert!(Instant::now() < until, "no run: {}", running.err());
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

#[test]
fn all_studies_are_interrupted_with_the_one_that_runs_and_none_outlives_them() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let running = all_of_them(&place, &[]);
    let is_study = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("run\0--size=smoke\0client-ceiling\0")
    };
    let below = descendants(running.pid());
    assert!(below.iter().any(is_study), "{}", running.err());
    running.signal(Signal::INT);
    let ran = running.wait(Duration::from_secs(30)).ends_with(130);
    let said = "client-ceiling was cut short: the same command with --resume goes on there";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert!(ran.err.contains("studies, about "), "{}", ran.err);
    assert_eq!(place.record()["interrupted"], "SIGINT");

    // What is killed cannot pass anything on: the kernel does.
    let running = all_of_them(&place, &["--resume"]);
    assert!(running.err().contains("studies, at the most "));
    let study = descendants(running.pid()).into_iter().find(is_study);
    let study = study.expect("a study runs");
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(5));
    let until = Instant::now() + Duration::from_secs(30);
    while alive(study) {
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(place.record()["interrupted"], "SIGTERM");
}

/// Longer than the smallest size of a built-in study takes, on a machine that others use too.
const SMOKE_LIMIT: Duration = Duration::from_secs(180);

/// Runs a built-in study in its smallest size, and gives its record.
#[track_caller]
fn smoke(place: &Place, study: &str) -> Value {
    let args = ["study", "run", study, "--size", "smoke", "-q"];
    place.start(&args).wait(SMOKE_LIMIT).ends_with(0);
    place.record()
}

/// A list in a record.
#[track_caller]
fn list<'v>(of: &'v Value, pointer: &str) -> &'v [Value] {
    let found = json_at(of, pointer).as_array();
    found.map_or(&[][..], Vec::as_slice)
}

/// The steps of a group, without those that were measured again.
fn of_group<'v>(record: &'v Value, group: &str) -> Vec<&'v Value> {
    let begins = format!("{group}/");
    let is_its = |step: &&Value| {
        let name = step["name"].as_str().unwrap_or_default();
        name.starts_with(&begins) && !name.contains("/disturbed")
    };
    list(record, "/steps").iter().filter(is_its).collect()
}

#[track_caller]
fn claim<'v>(record: &'v Value, id: &str) -> &'v Value {
    let claims = list(record, "/claims");
    let found = claims.iter().find(|claim| claim["id"] == id);
    found.unwrap_or_else(|| panic!("no claim `{id}` in {claims:#?}"))
}

/// Claims have an outcome and a reason, and none is wrong in itself.
#[track_caller]
fn are_told(claims: &[Value]) {
    for claim in claims {
        let outcome = claim["outcome"].as_str().unwrap_or_default();
        let is_outcome = ["confirmed", "contradicted", "open"].contains(&outcome);
        let because = claim["because"].as_str().unwrap_or_default();
        assert!(is_outcome && !because.is_empty(), "{claim:#}");
        assert!(!because.contains("the study is wrong"), "{claim:#}");
    }
}

/// Every step that was planned has run and was answered, and every claim of the study's file, none of
/// which is for each driver, has been judged.
#[track_caller]
fn is_whole(record: &Value, study: &str) {
    let steps = list(record, "/steps");
    for planned in list(record, "/plan/steps") {
        let name = &planned["name"];
        let step = steps.iter().find(|step| step["name"] == *name);
        let step = step.unwrap_or_else(|| panic!("{name} did not run: {:#}", record["caveats"]));
        assert!(step["throughput"].as_f64() > Some(100.0), "{step:.300}");
    }
    let study: toml::Table = toml::from_str(study).expect("a study");
    let claims = study.get("claim").and_then(toml::Value::as_array);
    let ids = claims.expect("claims").iter().map(|claim| {
        let id = claim.get("id").and_then(toml::Value::as_str);
        id.expect("a claim has a name")
    });
    let ids: Vec<&str> = ids.collect();
    for id in &ids {
        claim(record, id);
    }
    let judged = list(record, "/claims");
    assert_eq!(judged.len(), ids.len(), "{judged:#?}");
    are_told(judged);
}

/// What `make demo` runs, in its smallest size: every step and every claim of a built-in study.
#[test]
fn a_built_in_study_runs_from_its_first_step_to_its_last_claim() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let record = smoke(&place, "client-ceiling");
    let loaded = |path: &str, driver: &str| {
        list(&record, "/steps").iter().any(|step| {
            let is_it = json_at(step, "/target/path") == path;
            let by = json_at(step, "/driver/name").as_str();
            let answered = json_at(step, "/throughput").as_f64();
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
    let claims = list(&record, "/claims");
    assert!(claims.len() >= 10, "{claims:#?}");
    are_told(claims);
    let decided = |claim: &&Value| claim["outcome"] != "open";
    assert!(claims.iter().filter(decided).count() >= 3, "{claims:#?}");
    // Of what was measured every outcome can be kept, and of the source's figures none is.
    let args = ["study", "keep", "runs/latest", "--into", "."];
    place.run(&args).ends_with(0);
    let kept = std::fs::read_to_string(place.path().join("client-ceiling.toml")).expect("kept");
    let kept: toml::Table = toml::from_str(&kept).expect("TOML");
    assert_eq!(kept["size"].as_str(), Some("smoke"));
    let ids: Vec<&str> = kept["claim"]
        .as_array()
        .expect("claims")
        .iter()
        .filter_map(|claim| claim.get("id")?.as_str())
        .collect();
    let measured = claims.iter().filter(|claim| claim["by_figures"] != true);
    assert_eq!(ids.len(), measured.count(), "{ids:?}");
}

/// The results of a built-in study are kept of no file but one that says the same.
#[test]
fn a_file_that_says_what_a_built_in_study_says_is_kept_as_it() {
    let _turn = together();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    let place = Place::new();
    let text = include_str!("../../../studies/client-machines.toml");
    let keep = |text: &str| {
        let file = place.file("file.toml", text);
        let run = ["study", "run", &file.to_string_lossy(), "--size", "smoke"];
        place.run(&run).ends_with(0);
        place.run(&["study", "keep", "runs/latest", "--into", "."])
    };
    keep(text).ends_with(0);
    let kept = std::fs::read_to_string(place.path().join("client-machines.toml")).expect("kept");
    // It ran without client hosts, so nothing is decided.
    assert!(kept.contains("several client hosts"), "{kept}");
    let changed = keep(&format!("{text}\n# Mine.\n")).ends_with(2).err;
    assert!(changed.contains("give it another id"), "{changed}");
}

/// Where goroutines waited for something in a step, the longest first: the function, and what it waited
/// in.
fn waits(step: &Value) -> Vec<(&str, &str)> {
    let readings = list(step, "/profiles/readings").iter();
    let block = readings.filter(|reading| reading["kind"] == "block");
    let sites = block.flat_map(|reading| list(reading, "/sites"));
    let busy = sites.filter(|site| site["idle"] == false);
    busy.filter_map(|site| Some((site["function"].as_str()?, site["waits_in"].as_str()?)))
        .collect()
}

/// The lock is found by who waits for it, and nobody waits for it where it is not taken.
#[test]
fn the_study_of_the_lock_finds_it_by_name() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built (make subjects)");
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("a lock needs two processors that want it");
    }
    // Where others have one of the two, it may be that nobody waits: in one of three runs both are its own.
    let mut records = (0..3).map(|_| smoke(&Place::new(), "lock"));
    let somebody_waits = |record: &Value| {
        let before = of_group(record, "before");
        before.iter().any(|step| !waits(step).is_empty())
    };
    let record = records.find(somebody_waits).expect("somebody waits");
    is_whole(&record, include_str!("../../../studies/lock.toml"));
    let before = of_group(&record, "before");
    assert_eq!(before.len(), 2);
    let longest: Vec<_> = before
        .iter()
        .filter_map(|step| waits(step).first().copied())
        .collect();
    let is_the_lock = |(function, within): &(&str, &str)| {
        function.contains("gofakeit") && within.contains("Mutex")
    };
    assert!(longest.iter().any(is_the_lock), "{longest:?}");
    for step in of_group(&record, "after") {
        let found = waits(step);
        let still = found.iter().any(|(name, _)| name.contains("gofakeit"));
        assert!(!still, "{found:?}");
    }
    // The parent and its children, merged.
    for step in of_group(&record, "before-prefork") {
        assert_eq!(json_at(step, "/profiles/processes"), 3, "{step:.300}");
    }
    let outcome = |id: &str| &claim(&record, id)["outcome"];
    let found = claim(&record, "lock-waits-most");
    assert_ne!(found["outcome"], "contradicted", "{found:#}");
    assert_eq!(outcome("own-arithmetic"), "confirmed");
    // Seconds squeeze nothing, and no wall is told by looking alone.
    assert_eq!(outcome("lock-is-not-the-wall"), "open");
}

/// Calls of a name for each request by one side of a step; nothing where they were not watched.
fn calls_of(profiles: &Value, name: &str) -> Option<f64> {
    let answered = profiles.pointer("/calls/answered")?.as_f64()?;
    let calls = profiles.pointer("/calls/calls")?.as_array()?;
    let made = calls.iter().find(|call| call["name"] == name);
    let count = made.and_then(|call| call["count"].as_f64());
    Some(count.unwrap_or(0.0) / answered)
}

/// What the kernel tells of Go's clients and of their servers: calls where they are watched, and none where
/// time is what counts.
#[test]
fn the_study_of_a_requests_anatomy_counts_both_sides() {
    let Some(folder) = subjects() else {
        return skip("the subjects are not built (make subjects)");
    };
    if !folder.join("echo-client").is_file() {
        return skip("echo-client is not built (make subjects)");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("asking the kernel about other processes takes root");
    }
    // What a driver has had answered meanwhile is counted on loopback, where nobody else may be.
    let _turn = alone();
    let place = Place::new();
    let record = smoke(&place, "anatomy");
    is_whole(&record, include_str!("../../../studies/anatomy.toml"));
    for step in ["tcp-plain", "rest-plain", "grpc-plain"]
        .into_iter()
        .flat_map(|group| of_group(&record, group))
    {
        for side in ["profiles", "client_profiles"] {
            assert_eq!(calls_of(&step[side], "futex"), None, "{step:.300}");
            for event in list(step, &format!("/{side}/counts")) {
                let is_known = event["value"].is_u64();
                assert_ne!(is_known, event["unavailable"].is_string(), "{event}");
            }
        }
        let used = json_at(step, "/telemetry/client/cpu_ns").as_u64();
        assert!(used > Some(0), "{step:.300}");
    }
    // What decides it is in the servers' profiles.
    for step in ["rest-locks", "grpc-locks"]
        .into_iter()
        .flat_map(|group| of_group(&record, group))
    {
        let kinds = list(step, "/profiles/readings").iter();
        let has_locks = kinds.map(|of| &of["kind"]).any(|kind| kind == "mutex");
        assert!(has_locks, "{step:.300}");
    }
    // A whole process, from an empty heap.
    for step in of_group(&record, "rest-counted") {
        let faults = json_at(step, "/telemetry/client/faults_since_start").as_u64();
        assert!(faults > Some(500), "{step:.300}");
    }
    let watched = of_group(&record, "tcp");
    assert_eq!(watched.len(), 2);
    let (mut counted, mut missing) = (0, String::new());
    for step in watched {
        for side in ["profiles", "client_profiles"] {
            let profiles = &step[side];
            missing.push_str(&profiles["missing"].to_string());
            // A message is written at once, on either side.
            if let Some(writes) = calls_of(profiles, "write") {
                assert!((0.8..1.3).contains(&writes), "{writes} writes of {side}");
                counted += 1;
            }
        }
    }
    if counted == 0 {
        if missing.contains("stood still") {
            return skip(format_args!("the machine stood still: {missing}"));
        }
        let reasons = ["tracepoint", "cannot be sampled"];
        let is_told = reasons.iter().any(|why| missing.contains(why));
        assert!(
            is_told,
            "no calls were watched, and nothing says why: {missing}"
        );
        skip(&missing);
    }
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
    if !has_apparatus() {
        return;
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

#[test]
fn every_protocol_of_a_study_is_spoken_under_tls_where_its_subject_serves_that() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let mut text = String::from(
        r#"schema = "wallfinder.study/1"
id = "secured"
title = "Under TLS"
source = "a page"
question = "Do they answer?"
method = "One message."

[[driver]]
name = "engine"
"#,
    );
    let echoes = PROTOCOLS.map(|(name, speaks, path)| {
        let command = format!(r#"["echo", "--protocol", "{name}", "--tls"]"#);
        (
            name,
            command,
            speaks,
            format!("{path}\n"),
            "payload = [1000]",
        )
    });
    let content = (
        "content",
        r#"["content", "--tls"]"#.to_owned(),
        "http2",
        "path = \"/realistic/1k.txt\"\n".to_owned(),
        "",
    );
    for (name, command, speaks, path, payload) in echoes.into_iter().chain([content]) {
        let port = wallfinder_tests::free_port();
        text.push_str(&format!(
            r#"
[[subject]]
name = "{name}"
command = {command}
port = {port}
tls = true

[[group]]
id = "{name}"
subject = "{name}"
speaks = "{speaks}"
{path}
[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
{payload}
clients = [4]
requests = 50
warmup = "50ms"
window = "20s"
"#
        ));
    }
    let place = Place::new();
    place.file("secured.toml", text);
    place
        .run(&["study", "run", "secured.toml", "-q"])
        .ends_with(0);
    let record = place.record();
    let steps = json_at(&record, "/steps").as_array().expect("steps");
    // What the machine disturbed was measured again, and stands beside the cells.
    let steps = steps.iter().filter(|step| step.get("cell").is_some());
    let steps: Vec<&Value> = steps.collect();
    assert_eq!(steps.len(), 4, "{:#}", record["caveats"]);
    let agreed = [
        ("tcps", Value::Null),
        ("https", "http/1.1".into()),
        ("grpcs", "h2".into()),
        ("https", "h2".into()),
    ];
    for (step, (scheme, alpn)) in steps.into_iter().zip(agreed) {
        assert_eq!(json_at(step, "/target/scheme"), scheme);
        assert_eq!(json_at(step, "/target/tls/alpn"), &alpn, "{step:.600}");
        assert_eq!(json_at(step, "/target/tls/verified"), false);
        assert_eq!(json_at(step, "/counts/answered"), 200, "{step:.300}");
    }
}
