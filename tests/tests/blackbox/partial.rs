//! What was measured before a step could not be run: it is printed, marked, and sealed with the reason.

use std::time::{Duration, Instant};

use wallfinder_tests::{Double, Place, Ran, free_port, json_at, skip, subjects, together};

/// Runs a command whose server goes away once it has been connected to so often: a step was measured by
/// then, and another one is not.
fn while_the_server_goes(place: &Place, after: u64, args: impl Fn(&str) -> Vec<String>) -> Ran {
    let double = Double::plain();
    let url = double.url("/");
    let words = args(url.trim_end_matches('/'));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let running = place.start(&words);
    let since = Instant::now();
    while double.connections() < after && since.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(double.connections() >= after, "{}", running.err());
    drop(double);
    running.wait(Duration::from_secs(60))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// What is said, and what is kept, where `planned` steps were not all measured.
fn is_partial(place: &Place, ran: Ran, planned: usize) -> Ran {
    let ran = ran.ends_with(1);
    assert!(ran.out.contains("PARTIAL"), "{}", ran.out);
    let run = place.last_run();
    let name = run.file_name().unwrap().to_str().unwrap();
    let way = format!("wallfinder report runs/{name}");
    assert!(ran.err.contains(&way), "{}", ran.err);
    let record = place.record();
    assert_eq!(record["complete"], false);
    let steps = json_at(&record, "/steps").as_array().unwrap();
    assert!(
        !steps.is_empty() && steps.len() < planned,
        "{} of {planned}",
        steps.len()
    );
    assert!(steps[0]["counts"]["answered"].as_u64() > Some(0));
    let caveats = json_at(&record, "/caveats").to_string();
    assert!(caveats.contains("refused"), "the reason: {caveats}");
    // Sealed, with its page; and read as any other.
    assert!(!run.join("journal.wfj").exists());
    assert!(run.join("report.html").is_file());
    let again = place.run(&["report", run.to_str().unwrap()]).ends_with(0);
    assert!(again.out.contains("PARTIAL"), "{}", again.out);
    ran
}

const SHORT: &str = "-d 400ms --warmup 50ms --no-calibrate -q";

#[test]
fn a_ramp_whose_server_dies_prints_the_steps_before() {
    let _turn = together();
    let place = Place::new();
    // The first steps have one connection and two.
    let ran = while_the_server_goes(&place, 4, |url| {
        words(&format!(
            "ramp {url}/ --connections 1,2,4,8,16,32,64,128 {SHORT}"
        ))
    });
    let ran = is_partial(&place, ran, 8);
    assert!(
        ran.out.contains("latency") || ran.out.contains("p50"),
        "{}",
        ran.out
    );
}

#[test]
fn a_ramp_in_json_is_one_document_with_the_steps_before() {
    let _turn = together();
    let place = Place::new();
    let ran = while_the_server_goes(&place, 4, |url| {
        let ramp = format!("ramp {url}/ --connections 1,2,4,8,16,32,64,128 --format json");
        words(&format!("{ramp} {SHORT}"))
    });
    let ran = ran.ends_with(1);
    let record = ran.json();
    assert_eq!(record["complete"], false);
    assert_eq!(record, place.record());
}

#[test]
fn an_ab_whose_server_dies_prints_the_rounds_before() {
    let _turn = together();
    let place = Place::new();
    let ran = while_the_server_goes(&place, 7, |url| {
        words(&format!(
            "ab {url}/ -c 2 --connections-b 3 --rounds 10 -d 4s --warmup 50ms -q"
        ))
    });
    is_partial(&place, ran, 20);
}

#[test]
fn bytes_whose_server_dies_prints_the_answers_before() {
    let _turn = together();
    let place = Place::new();
    let ran = while_the_server_goes(&place, 5, |url| {
        words(&format!(
            "bytes {url}/{{a,b}} -c 2 --rounds 8 -d 3s --warmup 50ms -q"
        ))
    });
    is_partial(&place, ran, 16);
}

#[test]
fn a_find_whose_server_dies_ends_early_and_prints_what_it_had() {
    let _turn = together();
    let place = Place::new();
    // Four connections of the ceiling, and four that are squeezed.
    let ran = while_the_server_goes(&place, 8, |url| {
        words(&format!(
            "find {url}/ -c 4 --effort quick --window 300ms --no-calibrate --no-inside -q"
        ))
    });
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
    let ran = ran.ends_with(1);
    assert!(ran.out.contains("PARTIAL"), "{}", ran.out);
    assert!(ran.err.contains("wallfinder report runs/"), "{}", ran.err);
    let record = place.record();
    assert_eq!(record["complete"], false);
    assert!(record["steps"][0]["counts"]["answered"].as_u64() > Some(0));
    let why = json_at(&record, "/caveats").to_string();
    let is_told = ["nothing was answered", "refused"];
    assert!(is_told.iter().any(|what| why.contains(what)), "{why}");
}

#[test]
fn what_breaks_down_before_any_step_prints_no_result() {
    let _turn = together();
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let ramp = words(&format!("ramp {url} --connections 1,2 {SHORT}"));
    let ramp: Vec<&str> = ramp.iter().map(String::as_str).collect();
    let ran = place.run(&ramp).ends_with(1);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("refused"), "{}", ran.err);
}

#[test]
fn a_study_whose_subject_dies_says_so_and_prints_the_steps_before() {
    let _turn = together();
    let Some(subjects) = subjects() else {
        return skip("the subjects are not built (make subjects)");
    };
    let place = Place::new();
    let study = format!(
        r#"schema = "wallfinder.study/1"
id = "dying"
title = "A server that ends"
source = "a page"
question = "Does it answer?"
method = "Steps, until it is gone."

[[driver]]
name = "engine"

[[claim]]
id = "any"
claim = "There are steps"
source = "a page"
calm = false
confirmed = 'size(steps) > 0'
contradicted = 'size(steps) == 0'
because = "{{size(steps)}} steps"

[[subject]]
name = "rest"
command = ["timeout", "-s", "KILL", "5", "{}", "--protocol", "rest", "--port", "{port}"]
port = {port}

[[group]]
id = "rest"
subject = "rest"
speaks = "http1"
path = "/echo"

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
payload = [100]
clients = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
rounds = 1
warmup = "100ms"
window = "700ms"
"#,
        subjects.join("echo").display(),
        port = free_port(),
    );
    let file = place.file("dying.toml", study);
    let ran = place.run(&[
        "study",
        "run",
        &file.to_string_lossy(),
        "--size",
        "smoke",
        "-q",
    ]);
    is_partial(&place, ran, 10);
}
