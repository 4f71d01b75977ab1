//! Profiles as a user captures and reads them: the real Go runtime's, under a real load, beside
//! what `go tool pprof` says of the same files.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{
    Double, Place, alone, busily, json_at, program, skip, stolen, subjects, together,
};

/// A run of `profile` at a subject of ours, for two seconds.
fn profiled(place: &Place, subject: &str, path: &str, more: &[&str]) -> Value {
    let url = format!("http://subject:0{path}");
    let args = [
        "profile",
        "--subject",
        subject,
        &url,
        "-c",
        "16",
        "-d",
        "2s",
        "--no-calibrate",
    ];
    place.run(&[&args, more].concat()).ends_with(0);
    place.step()["profiles"].clone()
}

fn reading<'p>(profiles: &'p Value, kind: &str) -> &'p Value {
    let readings = profiles["readings"].as_array().unwrap();
    let found = readings.iter().find(|reading| reading["kind"] == kind);
    found.unwrap_or_else(|| panic!("no reading of {kind} in {profiles}"))
}

/// CPU in the profile over that which the kernel counts of the same processes.
fn of_the_kernels_count(profiles: &Value) -> f64 {
    let cores = |name: &str| json_at(profiles, &format!("/reconciliation/{name}")).as_f64();
    cores("profile_cores").unwrap() / cores("process_cores").unwrap()
}

/// What `go tool pprof -top` says of a file: own and with callees by function, in this unit; of
/// what it has more than another, where there is one.
fn top(
    go: &Path,
    file: &Path,
    before: Option<&Path>,
    measure: &str,
    unit: &str,
) -> BTreeMap<String, (i64, i64)> {
    let mut command = Command::new(go);
    command
        .args(["tool", "pprof", "-top", "-nodefraction=0"])
        .args(["-edgefraction=0", "-nodecount=100000"])
        .arg(format!("-sample_index={measure}"))
        .arg(format!("-unit={unit}"));
    if let Some(before) = before {
        command.arg("-diff_base").arg(before);
    }
    let ran = command.arg(file).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let mut functions = BTreeMap::new();
    let rows = text.lines().skip_while(|line| !line.contains("flat%"));
    for line in rows.skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [own, _, _, with_callees, _, name, ..] = words[..] else {
            continue;
        };
        let number = |text: &str| text.trim_end_matches(unit).parse::<f64>().unwrap() as i64;
        let value = (number(own), number(with_callees));
        functions.insert(name.to_owned(), value);
    }
    functions
}

#[test]
fn a_servers_profiles_are_captured_in_one_window_and_read_as_go_reads_them() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    let profiles = profiled(&place, "catalogue --server nethttp", "/compute", &["-q"]);
    assert_eq!(profiles["missing"], Value::Array(Vec::new()), "{profiles}");
    let cpu = reading(&profiles, "cpu");
    let total = cpu["total"].as_i64().unwrap();
    // A server that computes uses its processor, and the profile knows by whom.
    let seen = of_the_kernels_count(&profiles);
    assert!((0.7..1.3).contains(&seen), "{seen} of the kernel's cores");
    assert!(cpu["named_share"].as_f64().unwrap() >= 0.99, "{cpu}");
    // Its own profiler names every frame, and does not write where goroutines begin.
    let frames = json_at(cpu, "/whole/frames_named_share").as_f64();
    assert!(frames.unwrap() >= 0.99, "{cpu}");
    assert_eq!(*json_at(cpu, "/whole/rooted_share"), Value::Null);
    let run = place.last_run();
    for file in profiles["files"].as_array().unwrap() {
        let file = run.join(file.as_str().unwrap());
        assert!(file.is_file(), "{} is missing", file.display());
    }
    let Some(go) = program("go") else {
        return skip("go is not installed");
    };
    // Of contention it leaves out frames of those who unlock, so mutexes are not compared.
    for (kind, measure, unit, functions_min) in [
        ("cpu", "cpu", "ns", 20),
        ("block", "delay", "ns", 2),
        ("allocs", "alloc_space", "B", 20),
        ("heap", "inuse_space", "B", 2),
    ] {
        let file = run.join(format!("profiles/0-{kind}.pb.gz"));
        let theirs = top(&go, &file, None, measure, unit);
        let reading = reading(&profiles, kind);
        let ours = reading["functions"].as_array().unwrap();
        assert!(ours.len() >= functions_min, "{kind}: {ours:?}");
        for function in ours {
            let name = function["name"].as_str().unwrap();
            // Names with blanks are cut by its columns.
            let Some((own, with_callees)) = theirs.get(name) else {
                assert!(
                    name.contains(' ') || name.contains('['),
                    "{kind}: {name} is not theirs"
                );
                continue;
            };
            let of = |value: &str| function[value].as_i64();
            assert_eq!(of("own"), Some(*own), "{kind}: {name} of {total}");
            assert_eq!(of("with_callees"), Some(*with_callees), "{kind}: {name}");
        }
    }
}

#[test]
fn prefork_children_are_profiled_as_one() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    let subject = "catalogue --prefork --children 2";
    let profiles = profiled(&place, subject, "/read", &["-q", "--kinds", "cpu,heap"]);
    assert_eq!(profiles["processes"], 3, "the parent and its children");
    let seen = of_the_kernels_count(&profiles);
    assert!((0.6..1.4).contains(&seen), "{seen} of the kernel's cores");
    let kinds: Vec<&Value> = profiles["readings"].as_array().unwrap().iter().collect();
    assert_eq!(kinds.len(), 2, "only what was asked for");
}

/// What is not Go's is seen by the kernel: knownwall burns its processor in a function of its
/// own, under a lock.
#[test]
fn stacks_of_any_process_are_sampled_with_their_names() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    let subject = "knownwall --lock-spin-us 300 --workers 4";
    if let Err(why) = kernel_tells() {
        return skip(&why);
    }
    let profiles = profiled(&place, subject, "/", &["-q"]);
    let stacks = reading(&profiles, "stacks");
    assert!(stacks["named_share"].as_f64().unwrap() >= 0.99, "{stacks}");
    let seen = of_the_kernels_count(&profiles);
    assert!((0.6..1.4).contains(&seen), "{seen} of the kernel's cores");
    let most = stacks["functions"][0]["name"].as_str().unwrap();
    assert!(most.contains("knownwall"), "{most} of {stacks}");
    let share = stacks["functions"][0]["own"].as_f64().unwrap() / stacks["total"].as_f64().unwrap();
    assert!(share > 0.5, "{most} has {share}");
    // Its code and the kernel's are told apart.
    let origins = stacks["origins"].as_array().unwrap();
    let origins: Vec<&str> = origins
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    assert!(
        origins.contains(&"application") && origins.contains(&"kernel"),
        "{origins:?}"
    );
    // Four workers and one lock: where they wait for it is known, and that they do.
    assert_eq!(profiles["missing"], Value::Array(Vec::new()), "{profiles}");
    let waits = reading(&profiles, "waits");
    let sites = waits["sites"].as_array().unwrap();
    let lock = sites.iter().find(|site| site["idle"] == false).unwrap();
    let (function, within) = (lock["function"].as_str(), lock["waits_in"].as_str());
    assert!(function.unwrap().contains("knownwall"), "{lock}");
    assert_eq!(within, Some("futex"), "{lock}");
    let waiting = lock["value"].as_f64().unwrap() / waits["duration_ns"].as_f64().unwrap();
    assert!(
        (0.1..=3.5).contains(&waiting),
        "{waiting} threads wait for the lock"
    );
    let folded = place.last_run().join("stacks/0-stacks.folded");
    assert!(folded.is_file(), "folded stacks are kept");
}

#[test]
fn files_are_read_merged_and_compared() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    let capture = |path: &str| {
        let profiles = profiled(&place, "catalogue", path, &["-q", "--kinds", "cpu"]);
        let file = place.last_run().join("profiles/0-cpu.pb.gz");
        (profiles, file.to_str().unwrap().to_owned())
    };
    let (before, earlier) = capture("/read");
    let (profiles, file) = capture("/compute");
    let file = file.as_str();
    let one = place
        .run(&["pprof", file, "--format", "json"])
        .ends_with(0)
        .json();
    let two = place
        .run(&["pprof", file, file, "--format", "json"])
        .ends_with(0)
        .json();
    let total = one["total"].as_i64().unwrap();
    assert!(total > 0, "{one}");
    assert_eq!(two["total"].as_i64(), Some(2 * total));
    let same = place.run(&["pprof", file, "--before", file]).ends_with(0);
    assert!(same.out.contains("nothing changed"), "{}", same.out);
    // Beside another load's, for each request that their records have.
    let changed = place
        .run(&["pprof", file, "--before", &earlier, "--format", "json"])
        .ends_with(0)
        .json();
    for (side, profiles) in [("before", &before), ("after", &profiles)] {
        let cpu = reading(profiles, "cpu");
        let number = |value: &Value| value.as_f64().unwrap();
        let total = number(&cpu["total"]);
        let seconds = number(&cpu["duration_ns"]) / 1e9;
        let windows = number(&cpu["duration_ns"]) / number(&profiles["window_ns"]);
        let answered = number(&profiles["answered"]) * windows;
        for (measure, expected) in [
            ("per_second", total / seconds),
            ("per_request", total / answered),
        ] {
            let found = json_at(&changed, &format!("/all/own/{measure}/{side}"));
            let ratio = number(found) / expected;
            assert!((ratio - 1.0).abs() < 1e-9, "{measure} {side}: {found}");
        }
        let answered_there = json_at(&changed, &format!("/{side}/answered"));
        assert!((number(answered_there) / answered - 1.0).abs() < 1e-9);
    }
    let text = place
        .run(&["pprof", file, "--before", &earlier])
        .ends_with(0);
    let said = text.out.contains("for each request") && text.out.contains("(all)");
    assert!(said, "{}", text.out);
    // A copy stands beside no record: nobody knows what was answered.
    let copy = place.file("copy.pb.gz", std::fs::read(file).unwrap());
    let copy = copy.to_str().unwrap();
    let changed = place
        .run(&["pprof", copy, "--before", &earlier, "--format", "json"])
        .ends_with(0)
        .json();
    assert_eq!(
        *json_at(&changed, "/all/own/per_request"),
        Value::Null,
        "{changed}"
    );
    let folded = place.run(&["pprof", file, "--folded"]).ends_with(0).out;
    let sum: i64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap())
        .sum();
    assert_eq!(sum, total, "folded lines add up");
    // The table of rules is printed to be edited, and taken back.
    let table = place.run(&["pprof", "--rules-default"]).ends_with(0).out;
    let mine = place.file("mine.toml", &table);
    let mine = mine.to_str().unwrap();
    let again = place
        .run(&["pprof", file, "--rules", mine, "--format", "json"])
        .ends_with(0)
        .json();
    assert_eq!(again["categories"], one["categories"]);
}

/// A message of protocol buffers, field after field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

/// What a sample of a processor is, in nanoseconds.
const SAMPLE_NS: u64 = 10_000_000;

/// A CPU profile as Go's runtime writes it: functions that `main.main` calls, with their samples.
fn written(seconds: u64, functions: &[(String, u64)]) -> Vec<u8> {
    let strings = ["", "samples", "count", "cpu", "nanoseconds", "a.go"];
    let first_name = strings.len() as u64;
    let of_type = |kind, unit| Message::default().number(1, kind).number(2, unit).0;
    let mut profile = Message::default()
        .bytes(1, &of_type(1, 2))
        .bytes(1, &of_type(3, 4));
    // The caller is the first function.
    for (at, (_, samples)) in (2..).zip(functions) {
        let sample = Message::default().number(1, at).number(1, 1);
        let sample = sample.number(2, *samples).number(2, samples * SAMPLE_NS);
        profile = profile.bytes(2, &sample.0);
    }
    let names = ["main.main"].into_iter();
    let names: Vec<&str> = names
        .chain(functions.iter().map(|(name, _)| name.as_str()))
        .collect();
    for id in 1..=names.len() as u64 {
        let line = Message::default().number(1, id).number(2, 7);
        let location = Message::default().number(1, id).bytes(4, &line.0);
        let name = first_name + id - 1;
        let function = Message::default().number(1, id).number(2, name);
        let function = function.number(3, name).number(4, 5);
        profile = profile.bytes(4, &location.0).bytes(5, &function.0);
    }
    for string in strings.iter().chain(&names) {
        profile = profile.bytes(6, string.as_bytes());
    }
    let duration = profile.number(10, seconds * 1_000_000_000);
    let period = duration.bytes(11, &of_type(3, 4)).number(12, SAMPLE_NS);
    period.0
}

/// 130 functions, of which a reading keeps 60: one of the smallest grows to be the largest, another
/// one falls, and the second window is twice as long.
#[test]
fn a_difference_is_of_whole_profiles_as_go_tells_it() {
    let _turn = together();
    let place = Place::new();
    let functions = |rising: u64, falling: u64| -> Vec<(String, u64)> {
        let others = (0..130).map(|nth| (format!("main.f{nth:03}"), 100 + nth));
        let both = [("main.rising", rising), ("main.falling", falling)];
        let both = both.map(|(name, samples)| (name.to_owned(), samples));
        others.chain(both).collect()
    };
    let (before, after) = (functions(3, 600), functions(500, 4));
    let earlier = place.file("before.pb", written(1, &before));
    let later = place.file("after.pb", written(2, &after));
    let [earlier_name, later_name] = [&earlier, &later].map(|path| path.to_str().unwrap());
    let args = ["pprof", later_name, "--before", earlier_name];
    let changed = place.run(&[&args[..], &["--format", "json"]].concat());
    let changed = changed.ends_with(0).json();
    let rows = changed["functions"].as_array().unwrap();
    assert_eq!(
        rows.len(),
        133,
        "every function has another rate: {changed}"
    );
    let number = |value: &Value| value.as_f64().unwrap();
    let rates = |row: &Value, amounts: &str| {
        let rates = &row[amounts]["per_second"];
        (number(&rates["before"]), number(&rates["after"]))
    };
    let of = |samples: u64, seconds: u64| (samples * SAMPLE_NS / seconds) as f64;
    for ((name, earlier), (_, later)) in before.iter().zip(&after) {
        let row = rows.iter().find(|row| row["function"] == name.as_str());
        let row = row.unwrap_or_else(|| panic!("no {name} in {changed}"));
        let expected = (of(*earlier, 1), of(*later, 2));
        assert_eq!(rates(row, "own"), expected, "{name}");
        assert_eq!(rates(row, "with_callees"), expected, "{name}");
        assert_eq!(row["own"]["per_request"], Value::Null, "no record says it");
        let large = ["main.rising", "main.falling"].contains(&name.as_str());
        if large {
            assert_eq!(row["own"]["per_second"]["shown"], true, "{row}");
        }
    }
    let all = |functions: &[(String, u64)]| -> u64 {
        let samples = functions.iter().map(|(_, samples)| samples);
        samples.sum()
    };
    let whole = (of(all(&before), 1), of(all(&after), 2));
    assert_eq!(rates(&changed["all"], "own"), whole);
    let main = rows.iter().find(|row| row["function"] == "main.main");
    assert_eq!(rates(main.unwrap(), "with_callees"), whole);
    let text = place.run(&args).ends_with(0).out;
    for part in ["in a second", "(all)", "main.falling", "main.rising"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // What counts something else is refused.
    let mut other = written(1, &before);
    let at = other
        .windows(7)
        .position(|word| word == b"samples")
        .unwrap();
    other[at..at + 7].copy_from_slice(b"objects");
    let other = place.file("other.pb", other);
    let refused = place.run(&["pprof", later_name, "--before", other.to_str().unwrap()]);
    let said = refused.ends_with(2).err;
    assert!(said.contains("counts something else"), "{said}");
    let Some(go) = program("go") else {
        return skip("go is not installed");
    };
    // Go's tool takes one sum from the other, whatever the windows' lengths.
    let theirs = top(&go, &later, Some(&earlier), "cpu", "ns");
    let sums = |row: &Value, amounts: &str| {
        let (before, after) = rates(row, amounts);
        (2.0 * after - before).round() as i64
    };
    assert!(theirs.len() >= 2, "{theirs:?}");
    for row in rows {
        let name = row["function"].as_str().unwrap();
        let ours = (sums(row, "own"), sums(row, "with_callees"));
        // What is the same in both has no row there.
        let theirs = theirs.get(name).copied().unwrap_or_default();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn what_cannot_be_profiled_is_said_before_any_load() {
    let _turn = together();
    let place = Place::new();
    let double = Double::plain();
    let url = double.url("/");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let ran = place
        .run(&["profile", &url, "-q", "--pprof", &address])
        .ends_with(1);
    assert!(
        ran.err.contains("does the server offer /debug/pprof/"),
        "{}",
        ran.err
    );
    let ran = place
        .run(&["profile", &url, "-q", "-d", "500ms", "--pprof", &address])
        .ends_with(2);
    assert!(ran.err.contains("whole seconds"), "{}", ran.err);
    assert_eq!(double.requests(), 0, "nothing was loaded");
    // A page where a profile should be.
    let other = Double::answering(b"HTTP/1.0 404 Not Found\r\nContent-Length: 4\r\n\r\nnope");
    let port = other.port().to_string();
    let ran = place
        .run(&["profile", &url, "-q", "--pprof", &port])
        .ends_with(1);
    assert!(ran.err.contains("status 404"), "{}", ran.err);
    // Files.
    let page = place.file("page.html", "<html></html>");
    let ran = place.run(&["pprof", page.to_str().unwrap()]).ends_with(2);
    assert!(
        ran.err.contains("page.html") && ran.err.contains("no profile of pprof's format"),
        "{}",
        ran.err
    );
    let rules = place.file("rules.toml", "[[rule]]\ncategory = 1\nframes = []\n");
    let ran = place
        .run(&[
            "pprof",
            page.to_str().unwrap(),
            "--rules",
            rules.to_str().unwrap(),
        ])
        .ends_with(2);
    assert!(
        ran.err.contains("rules.toml") && ran.err.contains("line 2"),
        "{}",
        ran.err
    );
}

/// Whether the kernel may be asked about other processes here; if not, why. Asked once.
fn kernel_tells() -> Result<(), String> {
    static TELLS: OnceLock<Result<(), String>> = OnceLock::new();
    TELLS.get_or_init(ask_the_kernel).clone()
}

fn ask_the_kernel() -> Result<(), String> {
    let place = Place::new();
    if !rustix::process::geteuid().is_root() {
        return Err("asking the kernel about other processes takes root".into());
    }
    let subject = ["profile", "--subject", "knownwall", "http://subject:0/"];
    let tried = place.run(&[&subject[..], &["-q", "-d", "1s", "--calls"]].concat());
    if tried.code == Some(1) && tried.err.contains("cannot be sampled") {
        return Err(tried.err);
    }
    match place.step()["profiles"]["missing"].to_string() {
        missing if missing.contains("tracepoint") => Err(missing),
        _ => Ok(()),
    }
}

fn call_of(profiles: &Value, name: &str) -> (f64, f64) {
    let calls = &profiles["calls"];
    let list = calls["calls"].as_array().unwrap();
    let found = list.iter().find(|call| call["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {calls}"));
    let each = |key: &str| found[key].as_f64().unwrap() / calls["answered"].as_f64().unwrap();
    (each("count"), each("failed"))
}

/// net/http reads a request and then once more for nothing, and writes an answer at once.
#[test]
fn system_calls_are_counted_for_each_request() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    if let Err(why) = kernel_tells() {
        return skip(&why);
    }
    let profiles = profiled(
        &place,
        "catalogue --server fasthttp",
        "/simple",
        &["-q", "--calls", "--kinds", "cpu"],
    );
    let missing = profiles["missing"].to_string();
    if missing.contains("stood still") {
        return skip(format_args!("the machine stood still: {missing}"));
    }
    assert_eq!(profiles["missing"], Value::Array(Vec::new()), "{profiles}");
    assert_eq!(profiles["calls"]["lost"], 0);
    let (writes, failed) = call_of(&profiles, "write");
    assert!((0.9..1.15).contains(&writes), "{writes} writes");
    assert_eq!(failed, 0.0);
    let (reads, found_nothing) = call_of(&profiles, "read");
    // One that has the request, and where that was the last for now, one that finds nothing.
    assert!((0.9..2.2).contains(&reads), "{reads} reads");
    assert!(found_nothing <= reads - 0.85, "{found_nothing} of {reads}");
    let counted = profiles["counts"].as_array().unwrap();
    for event in counted {
        let known = event["value"].is_u64();
        assert!(known != event["unavailable"].is_string(), "{event}");
    }
}

/// A driver has ended when its stacks are named: what it had mapped is known all the same.
#[test]
fn a_foreign_driver_is_looked_into_as_the_server_is() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    if program("unshare").is_none() || program("ip").is_none() {
        return skip("it needs unshare and ip, for a loopback of its own");
    }
    let _turn = busily();
    let place = Place::new();
    if let Err(why) = kernel_tells() {
        return skip(&why);
    }
    let driver = "echo-client tcp --payload 64 --clients 8 --duration 3s {address}";
    let args = [
        "profile",
        "--subject",
        "echo",
        "tcp://subject:0/",
        "--frame",
        "u32be",
        "--body-bytes",
        "1",
        "--driver",
        driver,
        "--client",
        "--calls",
        "--stacks",
        "--kinds",
        "cpu",
        "-q",
    ];
    // What a driver has had answered is counted on loopback: on one of its own, where nobody else is.
    let apart = [
        "unshare",
        "-n",
        "sh",
        "-c",
        "ip link set lo up && exec \"$0\" \"$@\"",
    ];
    let ran = place.start_as(&apart, &args).wait(Duration::from_secs(60));
    ran.ends_with(0);
    let step = place.step();
    for (side, function) in [
        ("profiles", "wallfinder.dev/subjects/echo/tcp"),
        ("client_profiles", "wallfinder.dev/subjects/echo/load"),
    ] {
        let profiles = &step[side];
        let stacks = reading(profiles, "stacks");
        assert!(stacks["named_share"].as_f64().unwrap() >= 0.99, "{stacks}");
        let functions = stacks["functions"].as_array().unwrap();
        let mut names = functions.iter().filter_map(|one| one["name"].as_str());
        assert!(
            names.any(|name| name.starts_with(function)),
            "{side}: {stacks}"
        );
        let (writes, _) = call_of(profiles, "write");
        assert!((0.8..1.3).contains(&writes), "{writes} writes of {side}");
    }
}

/// Three rounds of a load with probes and without them.
pub(crate) fn observed<'f>(duration: &'f str, probes: &'f str) -> [&'f str; 13] {
    [
        "ab",
        "--subject",
        "catalogue",
        "http://subject:0/simple",
        "-c",
        "8",
        "-d",
        duration,
        "--rounds",
        "3",
        "--observe-b",
        probes,
        "-q",
    ]
}

/// What every run watches is what its cost is asked of: one of the two does without.
#[test]
fn the_cost_of_telemetry_is_measured_in_turn() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    let args = observed("1500ms", "telemetry");
    place.run(&args).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["b"], "watched every 50 ms");
    let ratios = record["ab"]["ratios"].as_array().unwrap();
    assert!(!ratios.is_empty(), "{:#}", record["ab"]);
    let steps = record["steps"].as_array().unwrap();
    for (step, turn) in steps.iter().zip(record["ab"]["order"].as_array().unwrap()) {
        let is_b = turn[1].as_bool().unwrap();
        let samples = step["telemetry"]["samples"].as_u64().unwrap();
        assert_eq!(samples > 0, is_b, "{samples} in {turn}");
        // Looked at as the window opens and closes, all is counted that is divided by it.
        let cpu_ns = json_at(step, "/telemetry/server/cpu_ns").as_u64();
        assert!(cpu_ns.unwrap() > 0, "{turn}");
    }
    let refused = place.run(&[&args[..], &["--driver", "wrk -c 8 -d 1s {url}"]].concat());
    assert!(refused.ends_with(2).err.contains("--observe-b telemetry"));
}

/// What looking costs is a comparison like any other.
#[test]
fn the_cost_of_looking_is_measured_in_turn() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let _turn = busily();
    let place = Place::new();
    if let Err(why) = kernel_tells() {
        return skip(&why);
    }
    place.run(&observed("2400ms", "calls,go")).ends_with(0);
    let record = place.record();
    assert_eq!(record["ab"]["b"], "looked into by calls, go");
    let steps = record["steps"].as_array().unwrap();
    for (step, turn) in steps.iter().zip(record["ab"]["order"].as_array().unwrap()) {
        let is_b = turn[1].as_bool().unwrap();
        assert_eq!(step["profiles"].is_object(), is_b, "{turn}");
    }
    let first = &steps
        .iter()
        .find(|step| step["profiles"].is_object())
        .unwrap()["profiles"];
    assert!(
        first["calls"]["calls"].as_array().unwrap().len() > 2,
        "{first}"
    );
    assert!(reading(first, "cpu")["total"].as_i64().unwrap() > 0);
}

/// A load generator is a program like any other: where it is the wall, it is looked into.
#[test]
fn a_driver_that_is_the_wall_is_looked_into() {
    let _turn = alone();
    let Some(subjects) = subjects() else {
        return skip("the subjects are not built");
    };
    if let Err(why) = kernel_tells() {
        return skip(&why);
    }
    let place = Place::new();
    let driver = format!(
        "{}/knownwall-client --spin-us 300 -c {{connections}} -d {{duration}} {{url}}",
        subjects.display()
    );
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        "200ms",
        "--subject",
        "knownwall",
        "-c",
        "16",
        "--driver",
        &driver,
        "-q",
        "http://subject:8090/",
    ];
    let ran = place.run(&args).ends_with(0);
    let record = place.record();
    let step = record["steps"].as_array().unwrap().last().unwrap();
    if stolen(&step["verdict"]) {
        return skip("the hypervisor took the time of a verdict");
    }
    assert_eq!(
        step["verdict"]["wall"], "client-cpu",
        "{:#}",
        step["verdict"]
    );
    let stacks = step["client_profiles"]["readings"].as_array().unwrap();
    assert!(!stacks.is_empty(), "{}", step["client_profiles"]);
    // The server is seen as well, and comes second.
    assert!(step["profiles"].is_object());
    let said = ran.said();
    let inside = &said[said.find("INSIDE").expect("it was looked into")..];
    // The function is the client's own, or one of the library's that it shares with the server, where that has
    // a name of its own.
    let names_its_code = ["knownwall_client::", "knownwall::"]
        .iter()
        .any(|crate_name| inside.contains(crate_name));
    assert!(
        inside.contains("of the load generator's CPU") && names_its_code,
        "{said}"
    );
}
