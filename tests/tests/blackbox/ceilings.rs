//! The engine's own ceiling: by itself, and beside a result, where it is of the same load or there is
//! none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{Double, Place, busily, json_at, program, skip, together};

fn number(value: &Value, pointer: &str) -> f64 {
    json_at(value, pointer).as_f64().expect("a number")
}

/// A ceiling must be more than nothing, and no less than what was driven.
#[track_caller]
fn assert_is_one(ceiling: &Value) {
    let throughput = number(ceiling, "/throughput");
    assert!(throughput > 0.0, "{ceiling}");
    assert!(throughput >= number(ceiling, "/driven"), "{ceiling}");
    assert!(number(ceiling, "/driven") > 0.0, "{ceiling}");
    assert!(number(ceiling, "/cpu_per_request_ns") > 0.0, "{ceiling}");
}

/// The step of a short load at a server that closes nothing by itself, and what was printed.
#[track_caller]
fn step(place: &Place, more: &[&str]) -> (Value, String) {
    let double = Double::plain();
    let url = double.url("/");
    let args = ["run", &url, "-c", "4", "-d", "300ms", "--warmup", "100ms"];
    let ran = place.run(&[&args[..], more].concat()).ends_with(0);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    (place.step(), words.join(" "))
}

/// What is said where there is no ceiling.
const NONE: &str = "no-ceiling";

#[track_caller]
fn assert_none(step: &Value, printed: &str, why: &str) {
    assert!(step["ceiling"].is_null(), "{}", step["ceiling"]);
    let caveats = step["caveats"].to_string();
    assert!(caveats.contains(NONE), "{caveats}");
    assert!(caveats.contains(why), "{caveats}");
    assert!(printed.contains(why), "{printed}");
    assert!(!printed.contains("of what these workers can drive"));
}

#[test]
fn calibrate_tells_what_the_workers_can_drive() {
    let _turn = busily();
    let place = Place::new();
    for more in [&[][..], &["--http2", "--streams", "4"], &["--tls"]] {
        let args = ["calibrate", "-c", "8", "-d", "300ms", "--format", "json"];
        let ran = place.run(&[&args[..], more].concat()).ends_with(0);
        let told = ran.json();
        assert_is_one(json_at(&told, "/ceiling"));
        assert_eq!(json_at(&told, "/load/connections"), 8);
    }
    let ran = place.run(&["calibrate", "-c", "8", "-d", "200ms"]);
    let ran = ran.ends_with(0);
    assert!(ran.out.contains("requests/s"), "{}", ran.out);
}

#[test]
fn a_result_stands_beside_the_ceiling_of_its_own_load() {
    let _turn = busily();
    let place = Place::new();
    let (kept, printed) = step(&place, &[]);
    assert_is_one(&kept["ceiling"]);
    assert!(
        printed.contains("of what these workers can drive"),
        "{printed}"
    );
    let (each, printed) = step(&place, &["--no-keepalive"]);
    assert!(number(&each, "/counts/connects") > 0.0, "{each}");
    if each["ceiling"].is_null() {
        // Where ports run out, for one.
        assert_none(&each, &printed, "null server");
    } else {
        assert_is_one(&each["ceiling"]);
        let of = |step: &Value| number(step, "/ceiling/throughput");
        let ratio = of(&each) / of(&kept);
        assert!(ratio < 0.8, "{} of {}", each["ceiling"], kept["ceiling"]);
    }
    let (none, _) = step(&place, &["--no-calibrate"]);
    assert!(none["ceiling"].is_null(), "{}", none["ceiling"]);
    assert!(!none["caveats"].to_string().contains(NONE));
}

/// A ceiling is measured once for a load on a machine: the next run takes it where the processors are as fast as then, and says so.
#[test]
fn a_ceiling_is_kept_for_the_next_run_of_the_load() {
    let _turn = busily();
    let place = Place::new();
    let (first, _) = step(&place, &[]);
    assert!(first["ceiling"]["age_s"].is_null(), "{}", first["ceiling"]);
    let kept = place.path().join("cache/wallfinder/ceilings.json");
    let text = fs::read_to_string(&kept).expect("it is kept");
    assert!(!text.contains("127.0.0.1"), "an address: {text}");
    // A machine whose pace changes between two runs measures anew, as it must.
    let again = (0..5)
        .map(|_| step(&place, &[]))
        .find(|(again, _)| !again["ceiling"]["age_s"].is_null());
    let (again, printed) = again.expect("one of five runs is at the pace of the one before");
    assert_is_one(&again["ceiling"]);
    assert!(
        printed.contains("; measured ") && printed.contains(" ago)"),
        "{printed}"
    );
    let (other, _) = step(&place, &["--pipeline", "4"]);
    assert!(
        other["ceiling"]["age_s"].is_null(),
        "of another load: {}",
        other["ceiling"]
    );
    fs::write(&kept, "{ no cache").expect("it is ours");
    let (anew, _) = step(&place, &[]);
    assert!(anew["ceiling"]["age_s"].is_null(), "{}", anew["ceiling"]);
}

#[test]
fn what_is_decoded_has_no_ceiling_of_what_is_not() {
    let _turn = together();
    let place = Place::new();
    let (step, printed) = step(&place, &["--decode", "inflate"]);
    assert_none(&step, &printed, "every body is decoded");
}

#[test]
fn answers_that_are_looked_into_have_no_ceiling_of_answers_that_are_not() {
    let _turn = together();
    let place = Place::new();
    let of = |check: &str| {
        place.file("mix.toml", format!("[[request]]\nget = \"/\"\n{check}"));
        step(&place, &["--traffic", "mix.toml"])
    };
    let (plain, _) = of("check = { status = 200 }");
    assert_is_one(&plain["ceiling"]);
    let (checked, printed) = of("check = { body-contains = \"o\" }");
    assert_none(&checked, &printed, "bodies of answers are looked into");
}

/// A null server has as many descriptors as its client, of one process: where there are too few for both,
/// a result has no ceiling, and `calibrate` nothing to say.
#[test]
fn too_few_descriptors_for_both_ends_are_named() {
    let _turn = together();
    if !rustix::process::geteuid().is_root() {
        return skip("it needs root, to give its privilege up");
    }
    let (Some(prlimit), Some(setpriv)) = (program("prlimit"), program("setpriv")) else {
        return skip("it needs prlimit and setpriv");
    };
    let (place, double) = (Place::new(), Double::plain());
    // Who it becomes keeps its run here.
    let everybody = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.path(), everybody).expect("the folder is ours");
    let wrapper = [
        prlimit.to_str().unwrap(),
        "--nofile=320:320",
        setpriv.to_str().unwrap(),
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    // 256 are kept for other things: enough for 40 connections, and not for their other ends.
    let started = place.start_as(&wrapper, &["calibrate", "-c", "40", "-d", "200ms"]);
    let ran = started.wait(Duration::from_secs(20)).ends_with(1);
    assert!(ran.err.contains("40 connections to a null server"));
    assert!(ran.err.contains("ulimit -n 336"), "{}", ran.err);
    let url = double.url("/");
    let load = ["run", &url, "-c", "40", "-d", "200ms", "--warmup", "0s"];
    let started = place.start_as(&wrapper, &load);
    let ran = started.wait(Duration::from_secs(20)).ends_with(0);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert_none(&place.step(), &words.join(" "), "336 open descriptors");
}
