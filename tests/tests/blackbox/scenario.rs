//! Scenarios: a file runs as its flags do, flags beside it count, secrets are only referred to, and what is
//! wrong with a file is told with its place.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{Double, Place, Ran, binary, json_at, together};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the binary with a secret in its environment.
fn with_token(place: &Place, args: &[&str]) -> Ran {
    let mut command = Command::new(binary());
    command.args(args).env("SCENARIO_TOKEN", "hush-token");
    place.start_command(command).wait(LIMIT)
}

/// What `--print-scenario` prints, as a file.
fn printed(place: &Place, name: &str, args: &[&str]) -> String {
    let args = [args, &["--print-scenario"]].concat();
    let ran = place.run(&args).ends_with(0);
    let path = place.file(name, &ran.out);
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_file_plans_what_its_flags_plan() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/a?b=c");
    let flags = [
        "run",
        &url,
        "-c",
        "3",
        "-d",
        "250ms",
        "--warmup",
        "0s",
        "--pipeline",
        "2",
        "--max-in-flight",
        "4",
        "--timeout",
        "1500ms",
        "-H",
        "Accept: text/html",
        "-m",
        "PUT",
        "--body-bytes",
        "1KiB",
        "--seed",
        "7",
        "--no-calibrate",
        "--threshold",
        "errors<1%",
    ];
    let file = printed(&place, "s.toml", &flags);
    assert!(
        place.runs().is_empty(),
        "a scenario that is printed is not run"
    );
    assert_eq!(double.connections(), 0, "nobody was to be called");
    place.run(&[&flags[..], &["-q"]].concat()).ends_with(0);
    let by_flags = place.record();
    place.run(&["run", "--scenario", &file, "-q"]).ends_with(0);
    let by_file = place.record();
    assert_eq!(place.runs().len(), 2);
    assert_eq!(by_file["plan"], by_flags["plan"]);
    assert_eq!(by_file["scenario"], by_flags["scenario"]);
    assert_eq!(json_at(&by_file, "/scenario/load/connections"), 3);
    assert_eq!(json_at(&by_file, "/scenario/target/body_bytes"), 1024);
    assert_eq!(json_at(&by_file, "/scenario/load/timeout"), "1500ms");
    // The record's own is one that runs, in JSON.
    let own = by_file["scenario"].to_string();
    let own = place.file("own.json", own);
    let own = own.to_str().unwrap();
    place.run(&["run", "--scenario", own, "-q"]).ends_with(0);
    assert_eq!(place.record()["plan"], by_flags["plan"]);
}

#[test]
fn flags_beside_a_file_take_the_place_of_what_it_says() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let file = format!(
        "[target]\nurl = \"{}\"\nbody = \"x\"\nmethod = \"POST\"\n\
         [load]\nconnections = 2\nduration = \"250ms\"\nwarmup = \"0s\"\nrate = \"1k\"\npoisson = true\n\
         [watch]\nno_calibrate = true\n[ramp]\nconnections = [1, 2]\n",
        double.url("/of-file")
    );
    let file = place.file("s.toml", file);
    let file = file.to_str().unwrap();
    let other = double.url("/of-flag");
    let args = ["run", &other, "--scenario", file, "-q", "-R", "200"];
    let more = ["--body-bytes", "3", "--rate-to", "400"];
    place.run(&[&args[..], &more].concat()).ends_with(0);
    let record = place.record();
    let load = json_at(&record, "/plan/steps/0/load");
    assert_eq!(load["connections"], 2);
    assert_eq!(load["arrival"]["model"], "ramp");
    assert_eq!(load["arrival"]["to"], 400.0);
    assert_eq!(load["body_bytes"], 3);
    assert_eq!(json_at(&record, "/plan/target/path"), "/of-flag");
    let scenario = &record["scenario"];
    assert!(scenario.get("ramp").is_none(), "{scenario}");
    // The same file is a ramp's as well.
    let args = ["ramp", "--scenario", file, "-q", "--rates", "100"];
    place.run(&args).ends_with(0);
    let steps = json_at(&place.record(), "/plan/steps").clone();
    let steps = steps.as_array().unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0]["load"]["connections"], 2);
}

/// Printed, read and printed again, it is the same for each command.
#[test]
fn every_commands_scenario_survives_its_file() {
    let _turn = together();
    let place = Place::new();
    let url = "http://subject:8083/a/{1k,8k}.txt";
    let common = "--threads 2 -d 3s --warmup 1s --pipeline 2 --max-in-flight 8 --think 1ms --http2 \
                  --timeout 2s --drain 0s --wait 1s --decode check --no-batching --io epoll \
                  --client-cpus 0 --subject catalogue --env NAME --link 1gbit,delay=1ms \
                  --server-quota 0.5 --backend-pid 1 --no-calibrate --seed 3 --require server-bound";
    for own in [
        "run -c 4 -n 100 --samples",
        "ramp --connections 1,2 --depths 2,4",
        "find -c 4 --effort quick --window 200ms --what-if downlink=2 --lift --pprof 127.0.0.1:1",
        "ab --rounds 4 --path /x,/y --header-b X:y --subject-b nginx --link-b 2gbit --threads-b 1 \
         --connections-b 8 --pipeline-b 3 --max-in-flight-b 4 --server-quota-b 1 --server-cpus-b 0 \
         --tune-b busy-poll=50 --observe-b stacks,client --at-most-cost 2%",
        "bytes --codings gzip,br --rounds 5 -c 9",
        "profile --stacks --calls --client --kinds cpu,heap --trace",
    ] {
        // B's own way of taking answers is told by --no-batching-b alone.
        let words: Vec<&str> = own.split_whitespace().collect();
        let (command, own) = words.split_first().unwrap();
        let common: Vec<&str> = common.split_whitespace().collect();
        let args = [&[*command, url], own, &common].concat();
        let file = printed(&place, "first.toml", &args);
        let first = fs::read_to_string(&file).unwrap();
        for word in own.iter().filter(|word| word.starts_with("--")) {
            let key = word.trim_start_matches("--").replace('-', "_");
            let key = key.trim_end_matches("_b").to_owned();
            let key = match key.as_str() {
                "header" => "headers".to_owned(),
                key => key.to_owned(),
            };
            assert!(first.contains(&key), "{command} {word}:\n{first}");
        }
        let again = printed(&place, "second.toml", &[*command, "--scenario", &file]);
        let second = fs::read_to_string(again).unwrap();
        assert_eq!(first, second, "{command}");
    }
}

#[test]
fn secrets_are_referred_to_and_never_written() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/in?api_key=hush-query");
    let url = url.replace("http://", "http://me:hush-user@");
    let flags = [
        "run",
        &url,
        "-H",
        "Authorization: Bearer hush-bearer",
        "-H",
        "X-Auth-Token: env:SCENARIO_TOKEN",
        "-b",
        "hush-body",
        "-c",
        "1",
        "-n",
        "3",
        "--no-calibrate",
    ];
    let shown = with_token(&place, &[&flags[..], &["--print-scenario"]].concat());
    let shown = shown.ends_with(0).out;
    with_token(&place, &[&flags[..], &["-q"]].concat()).ends_with(0);
    let sent = double.first_request();
    for secret in [
        "hush-bearer",
        "hush-body",
        "hush-query",
        "X-Auth-Token: hush-token",
    ] {
        assert!(sent.contains(secret), "{secret} is not sent: {sent}");
    }
    let scenario = place.record()["scenario"].clone();
    let headers = json_at(&scenario, "/target/headers");
    let kept = ["Authorization: ***", "X-Auth-Token: env:SCENARIO_TOKEN"];
    assert_eq!(*headers, Value::from(kept.to_vec()));
    let record = fs::read_to_string(place.last_run().join("record.json")).unwrap();
    let page = fs::read_to_string(place.last_run().join("report.html")).unwrap();
    for text in [&shown, &record, &page] {
        assert!(!text.contains("hush-"), "{text}");
    }
    // What was hidden has to be given anew.
    let file = place.file("s.toml", &shown);
    let file = file.to_str().unwrap();
    let ran = with_token(&place, &["run", "--scenario", file]).ends_with(2);
    assert!(
        ran.err.contains("hidden when the scenario was written"),
        "{}",
        ran.err
    );
}

#[test]
fn a_file_gives_a_secret_by_reference() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let token = place.file("../wallfinder-test-scenario-token", "hush-in-file\n");
    let text = format!(
        "[target]\nurl = \"{}\"\nheaders = [\"Authorization: env:SCENARIO_TOKEN\", \"X-Key: file:{}\"]\n\
         [load]\nconnections = 1\nrequests = 3\n[watch]\nno_calibrate = true\n",
        double.url("/"),
        token.display()
    );
    let file = place.file("s.toml", text);
    let args = ["run", "--scenario", file.to_str().unwrap(), "-q"];
    let ran = place.run(&args).ends_with(2);
    assert!(
        ran.err.contains("`SCENARIO_TOKEN` is not set"),
        "{}",
        ran.err
    );
    with_token(&place, &args).ends_with(0);
    let _ = fs::remove_file(token);
    let sent = double.first_request();
    assert!(sent.contains("Authorization: hush-token\r\n"), "{sent}");
    assert!(sent.contains("X-Key: hush-in-file\r\n"), "{sent}");
    let record = fs::read_to_string(place.last_run().join("record.json")).unwrap();
    assert!(!record.contains("hush-"), "{record}");
}

#[test]
fn a_bad_file_names_its_line_and_the_way_out() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    for (text, line, says) in [
        ("[load]\nconections = 3\n", 4, "conections"),
        ("[load]\nduration = \"soon\"\n", 4, "a duration such as"),
        ("[load]\nrate_to = 5\n", 4, "--rate"),
        ("[load]\n\npipeline = 0\n", 5, "at least 1"),
        ("[server]\nquota = 0.5\n", 4, "--subject"),
        (
            "[server]\nsubject = \"x\"\ncpus = [4000]\n",
            5,
            "processor 4000",
        ),
        ("[link]\nlay = \"fast\"\n", 4, "`fast` is no link"),
        (
            "headers = [\"A: b\",\n\"Authorization: hush-plain\"]\n",
            4,
            "env:NAME",
        ),
        (
            "[programs]\nenv = [\"API_TOKEN=hush-plain\"]\n",
            4,
            "env:NAME",
        ),
        ("[nowhere]\n", 3, "nowhere"),
    ] {
        let text = format!("[target]\nurl = \"{url}\"\n{text}");
        let file = place.file("bad.toml", &text);
        let ran = place.run(&["run", "--scenario", file.to_str().unwrap(), "-q"]);
        let ran = ran.ends_with(2);
        let at = format!("bad.toml:{line}:");
        assert!(ran.err.contains(&at), "{text}\n{}", ran.err);
        assert!(ran.err.contains(says), "{text}\n{}", ran.err);
        assert!(!ran.err.contains("hush-plain"), "{text}\n{}", ran.err);
    }
    let json = place.file(
        "bad.json",
        "{\n \"load\": {\n  \"pipeline\": \"two\"\n }\n}",
    );
    let ran = place.run(&["run", &url, "--scenario", json.to_str().unwrap()]);
    let ran = ran.ends_with(2);
    assert!(ran.err.contains("bad.json:3:"), "{}", ran.err);
    let ran = place
        .run(&["run", "--scenario", "missing.toml"])
        .ends_with(2);
    assert!(ran.err.contains("missing.toml"), "{}", ran.err);
    assert_eq!(double.connections(), 0, "nobody was to be called");
}
