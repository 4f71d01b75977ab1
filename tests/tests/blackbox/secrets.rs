//! Secrets of the command line reach the server and nobody else: no artefact of a run, no
//! output, no message of an error.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use wallfinder_tests::{Double, Place, alone, together};

/// In none of these words may anything be found.
const SECRETS: [&str; 13] = [
    "hush-user-info",
    "hush-bearer",
    "hush-header-key",
    "hush-cookie",
    "hush-query",
    "hush-attached",
    // Base64 of `me:hush-user-info`.
    "bWU6aHVzaC11c2VyLWluZm8",
    "hush-body",
    // The same in base64, and percent-encoded.
    "aHVzaC1ib2R5",
    "%68ush%2dbody",
    "hush-user-word",
    "hush-variable",
    // A body of less than six bytes.
    "pin=7",
];

fn leaks_in(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            leaks_in(&path, found);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for secret in SECRETS {
            if bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes())
            {
                let name = path.file_name().unwrap().to_string_lossy();
                found.push(format!("{secret} in {name}"));
            }
        }
    }
}

/// Looks through everything in the place: runs, and what commands have printed.
#[track_caller]
fn assert_no_leak(place: &Place) {
    let mut found = Vec::new();
    leaks_in(place.path(), &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

const LOAD: [&str; 15] = [
    "-H",
    "Authorization: Bearer hush-bearer",
    "-H",
    "X-Api-Key:hush-header-key",
    "--header=Cookie: session=hush-cookie",
    "-HX-Auth-Token: hush-attached",
    "-c",
    "2",
    "-d",
    "300ms",
    "--warmup",
    "0s",
    "--no-calibrate",
    "-q",
    "--latency",
];

fn with_secrets(double: &Double) -> String {
    double
        .url("/in?api_key=hush-query&page=2")
        .replace("http://", "http://me:hush-user-info@")
}

#[test]
fn secrets_reach_the_server_and_no_artefact() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = with_secrets(&double);
    // A field of one's own takes the place of the URL's user information.
    place
        .run(&[&["run", &url], &LOAD[..]].concat())
        .ends_with(0);
    let request = double.first_request();
    for secret in [
        "hush-bearer",
        "hush-header-key",
        "hush-cookie",
        "hush-attached",
        "hush-query",
    ] {
        assert!(request.contains(secret), "{secret} is not sent: {request}");
    }
    let run = place.last_run();
    let run = run.to_str().unwrap();
    for format in ["text", "json", "csv"] {
        place.run(&["report", run, "--format", format]).ends_with(0);
    }
    assert!(
        fs::read_dir(run).unwrap().count() >= 4,
        "plan, record, series and page"
    );
    assert_no_leak(&place);
}

#[test]
fn secrets_of_a_url_without_a_scheme_are_kept_secret_too() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = with_secrets(&double).replace("http://", "");
    place
        .run(&[&["run", &url], &LOAD[6..]].concat())
        .ends_with(0);
    assert!(double.first_request().contains("hush-query"));
    assert_no_leak(&place);
}

#[test]
fn a_killed_run_keeps_secrets_too() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = with_secrets(&double);
    let args = [&["run", &url, "-d", "20s", "-q"], &LOAD[..6]].concat();
    let running = place.start(&args);
    double.await_requests(1);
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    assert!(place.last_run().join("journal.wfj").exists());
    assert_no_leak(&place);
}

#[test]
fn errors_tell_no_secrets() {
    let _turn = together();
    let place = Place::new();
    for args in [
        &[
            "run",
            "gopher://me:hush-user-info@127.0.0.1/?api_key=hush-query",
        ][..],
        &[
            "run",
            "http://me:hush-user-info@127.0.0.1:x/?api_key=hush-query",
        ],
        &["run", "me:hush-user-info@127.0.0.1:x/?api_key=hush-query"],
        &[
            "run",
            "http://me:hush-user-info@8.8.8.8/?api_key=hush-query",
        ],
        &[
            "run",
            "http://me:hush-user-info@127.0.0.1:1/?api_key=hush-query",
            "-d",
            "100ms",
        ],
        &[
            "run",
            "http://127.0.0.1:1/",
            "-H",
            "Authorization Bearer hush-bearer",
        ],
        &[
            "run",
            "http://127.0.0.1:1/",
            "-H",
            "Authorization: hush-bearer\r\nX: y",
        ],
    ] {
        let ran = place.run(args);
        assert!(matches!(ran.code, Some(1 | 2)), "{args:?}: {:?}", ran.code);
    }
    assert_no_leak(&place);
}

#[test]
fn secrets_given_to_a_driver_are_kept_secret_too() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = with_secrets(&double);
    let script = place.file(
        &format!("../wallfinder-test-driver-{}.sh", std::process::id()),
        "for i in 1 2 3; do curl -s -o /dev/null \"$@\"; done\n",
    );
    let driver = format!(
        "sh {} -H 'Authorization: Bearer hush-bearer' -H 'X-Api-Key: hush-header-key' {{url}}",
        script.display()
    );
    // Whether it makes enough load to be measured is no matter here.
    place.run(&["run", &url, "-q", "--driver", &driver]);
    let failing = "sh -c 'echo cannot reach $WALLFINDER_URL >&2; exit 3'";
    place.run(&["run", &url, "-q", "--name", "b", "--driver", failing]);
    let _ = fs::remove_file(script);
    assert_no_leak(&place);
}

/// Each way of giving a body: switches in front of it, attached, with an equals sign.
#[test]
fn a_body_is_kept_in_no_artefact_however_its_flag_is_written() {
    let _turn = together();
    for body in ["hush-body", "pin=7"] {
        let attached = [
            format!("-qb{body}"),
            format!("-qb={body}"),
            format!("--body={body}"),
        ];
        for flags in [
            &["-qb", body][..],
            &[&attached[0]],
            &[&attached[1]],
            &[&attached[2]],
            &["-q", "--body", body],
        ] {
            let (place, double) = (Place::new(), Double::plain());
            let url = double.url("/in");
            let load = [
                "run",
                &url,
                "-n",
                "2",
                "-c",
                "1",
                "-m",
                "POST",
                "--no-calibrate",
            ];
            place.run(&[&load[..], flags].concat()).ends_with(0);
            assert!(double.first_request().ends_with(body));
            assert_no_leak(&place);
        }
    }
}

/// A driver says what it was given: as it is, in base64, percent-encoded, in its report and on standard
/// error; and so does one that gets it by the environment.
#[test]
fn what_a_driver_echoes_is_kept_in_no_artefact() {
    // What others send over loopback would be taken for the driver's load.
    let _turn = alone();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/in");
    let echo = "echo hush-body aHVzaC1ib2R5 %68ush%2dbody hush-bearer hush-user-word $API_TOKEN";
    let given = "-d hush-body -u me:hush-user-word -H 'Authorization: Bearer hush-bearer'";
    for say in [format!("{echo} >&2"), echo.to_owned()] {
        let script = place.file(
            &format!("../wallfinder-test-echo-{}.sh", std::process::id()),
            format!("{say}\nexit 3\n"),
        );
        let driver = format!(
            "API_TOKEN=hush-variable sh {} curl {given} {{url}}",
            script.display()
        );
        let ran = place
            .run(&["run", &url, "-q", "--driver", &driver])
            .ends_with(1);
        assert!(!ran.err.is_empty());
        let _ = fs::remove_file(script);
    }
    assert_no_leak(&place);
}

#[test]
fn a_killed_run_keeps_no_body_of_a_driver() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/in");
    let driver = "sh -c 'curl -su me:hush-user-word -d hush-body $0; sleep 20' {url}";
    let running = place.start(&["run", &url, "-q", "--driver", driver]);
    double.await_requests(17);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    assert_no_leak(&place);
}

/// A variable of the environment of this program reaches what it starts, and no further.
#[test]
fn secrets_of_the_environment_are_kept_in_no_artefact() {
    // What others send over loopback would be taken for the driver's load.
    let _turn = alone();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/in");
    let driver = "sh -c 'echo I was given $API_TOKEN or hush-variable >&2; exit 3' {url}";
    let args = ["run", &url, "-q", "--driver", driver];
    let ran = place
        .start_as(&["env", "API_TOKEN=hush-variable"], &args)
        .wait(Duration::from_secs(20));
    assert!(ran.err.contains("I was given"), "{}", ran.err);
    assert_eq!(ran.code, Some(1));
    // The command line holds it here as a word that looks like none: it is hidden all the same.
    assert_no_leak(&place);
}

#[test]
fn what_a_studys_server_says_of_its_secrets_is_not_kept() {
    let _turn = together();
    let place = Place::new();
    let study = format!(
        r#"schema = "wallfinder.study/1"
id = "telling"
title = "A server that tells"
source = "a page"
question = "Does it answer?"
method = "It ends at once."

[[driver]]
name = "engine"

[[claim]]
id = "any"
claim = "There are steps"
source = "a page"
calm = false
confirmed = 'size(steps) > 0'
contradicted = 'size(steps) == 0'
because = "{{{{size(steps)}}}} steps"

[[subject]]
name = "rest"
command = ["sh", "-c", "echo said $API_TOKEN >&2; exit 3"]
port = {}
env = {{ API_TOKEN = "hush-of-the-study" }}

[[group]]
id = "rest"
subject = "rest"
speaks = "http1"
path = "/echo"

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
payload = [100]
clients = [1]
rounds = 1
warmup = "100ms"
window = "300ms"
"#,
        wallfinder_tests::free_port(),
    );
    let file = place.file("telling.toml", study);
    let name = file.to_string_lossy();
    let ran = place.run(&["study", "run", &name, "--size", "smoke", "-q"]);
    let said = ran.said();
    assert!(said.contains("said ***"), "{said}");
    assert!(!said.contains("hush-of-the-study"), "{said}");
    for run in place.runs() {
        for name in ["plan.json", "record.json", "report.html"] {
            let kept = std::fs::read_to_string(run.join(name)).unwrap_or_default();
            assert!(!kept.contains("hush-of-the-study"), "{name}");
        }
    }
}
