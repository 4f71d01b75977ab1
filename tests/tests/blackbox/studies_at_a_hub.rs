//! A study whose hosts have joined a hub.

use serde_json::Value;
use wallfinder_tests::{Place, Ran, subjects, together};

use crate::hub::Joined;

/// One short step.
const STUDY: &str = r#"schema = "wallfinder.study/1"
id = "joined"
title = "One file"
source = "a page"
question = "Do they load it together?"
method = "Files."

[[subject]]
name = "files"
command = ["content"]
port = 8085

[[driver]]
name = "engine"

[[group]]
id = "files"
subject = "files"
path = "/realistic/16k.txt"
headers = ["Accept-Encoding: identity"]

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
connections = [8]
warmup = "100ms"
window = "400ms"
"#;

/// Runs the study with every agent that is called `c…` as a client.
fn run(joined: &Joined, server: &[&str]) -> Ran {
    let ssh = format!("ssh -F {}", joined.lab.settings().display());
    let dir = joined.hub.dir();
    let words = ["study", "run", "joined.toml", "-q", "--ssh", &ssh];
    let clients = ["--client-host", "c*", "--hub", &dir];
    let words = [&words[..], &clients, server].concat();
    joined.hub.place.run(&words)
}

/// The study's step is of both clients, each with a part of it.
fn assert_of_both(step: &Value, server: &str) {
    let clients = step["clients"].as_array().expect("several hosts");
    let names: Vec<&str> = clients
        .iter()
        .filter_map(|of| of["host"].as_str())
        .collect();
    assert_eq!(names, ["c1", "c2"]);
    let own = clients.iter().map(|of| of["counts"]["answered"].as_u64());
    let own: Vec<u64> = own.map(|own| own.expect("a count")).collect();
    assert!(own.iter().all(|own| *own > 0), "{own:?}");
    assert_eq!(own.iter().sum::<u64>(), step["counts"]["answered"]);
    assert_eq!(step["telemetry"]["server_host"]["name"], server);
}

#[test]
fn agents_of_a_hub_make_a_studys_load_and_start_its_servers_by_name() {
    let _turn = together().with_hosts();
    let Some(mut joined) = Joined::with("--spin-us 300", &["c1", "c2"]) else {
        return;
    };
    let Some(bin) = subjects() else { return };
    joined.hub.place.file("joined.toml", STUDY);
    let address = joined.lab.address().to_owned();
    // The servers are sent by ssh, and the load comes from agents of the hub.
    let by_ssh = ["--server-host", "ssh://h1", "--server-address", &address];
    run(&joined, &by_ssh).ends_with(0);
    assert_of_both(&joined.hub.place.step(), "h1");
    // At a hub a host has its own word on what is started there, and its name is no address.
    let ran = run(&joined, &["--server-host", "db"]).ends_with(2);
    assert!(ran.err.contains("--server-address"), "{}", ran.err);
    let at_hub = ["--server-host", "db", "--server-address", &address];
    let ran = run(&joined, &at_hub).ends_with(1);
    assert!(ran.err.contains("--subject NAME=COMMAND"), "{}", ran.err);
    let dir = joined.hub.dir();
    let grants = ["--grant", "observe,start", "--dir", &dir];
    let invite = [&["hub", "invite", "s1"][..], &grants].concat();
    joined.hub.place.run(&invite).ends_with(0);
    let server = bin.join("content");
    let server = format!("{} --host {address} --port 8085", server.display());
    joined.join("s1", "h1", &format!("--subject 'files={server}'"));
    let at_hub = ["--server-host", "s1", "--server-address", &address];
    run(&joined, &at_hub).ends_with(0);
    assert_of_both(&joined.hub.place.step(), "s1");
}

#[test]
fn hosts_of_a_study_without_a_hub_are_written_as_ssh_reaches_them() {
    let _turn = together();
    let place = Place::new();
    let study = ["study", "run", "lock", "--server-host", "ssh://127.0.0.1"];
    for (more, why) in [
        (&["--client-host", "c1"][..], "--hub FOLDER"),
        (&["--client-host", "c*"][..], "--hub FOLDER"),
        (
            &["--client-host", "ssh://h2", "--deal", "by-ceiling"][..],
            "several hosts",
        ),
    ] {
        let ran = place.run(&[&study[..], more].concat()).ends_with(2);
        assert!(ran.err.contains(why), "{more:?}: {}", ran.err);
    }
}
