//! `bytes`: answers of several sizes in turn, behind a link and without it.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{Double, Place, alone, program, skip, subjects, together};

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The point of a path in a coding.
fn point<'r>(sizes: &'r Value, path: &str, coding: &str) -> &'r Value {
    let answers = sizes["answers"].as_array().unwrap();
    let at = answers
        .iter()
        .position(|answer| answer["path"] == path && answer["coding"] == coding);
    let at = at.unwrap_or_else(|| panic!("{path} {coding} in {answers:?}"));
    let mut points = sizes["points"].as_array().unwrap().iter();
    points.find(|point| point["answer"] == at).unwrap()
}

/// Behind 100 Mbit/s 64 KB come 182 times a second whatever the machine: that is predicted without
/// having been there, measured, and what gzip saves of it is known.
#[test]
fn a_link_is_predicted_from_bytes_and_measured() {
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || program("ip").is_none() || program("tc").is_none() {
        return skip("a link takes root, ip and tc");
    }
    let _turn = alone();
    let place = Place::new();
    let url = "http://subject:0/realistic/{4k,64k,128k}.txt";
    let run = [
        "bytes",
        url,
        "--subject",
        "content --threshold 0",
        "--link",
        "100mbit",
    ];
    let ran = place.run(
        &[
            &run[..],
            &[
                "--rounds", "3", "-d", "900ms", "--warmup", "100ms", "-c", "4", "-q",
            ],
        ]
        .concat(),
    );
    let ran = ran.ends_with(0);
    let record = place.record();
    let sizes = &record["sizes"];
    // Three sizes in two codings, on both sides of the link, in three rounds.
    assert_eq!(sizes["order"].as_array().unwrap().len(), 36);
    assert_eq!(record["steps"].as_array().unwrap().len(), 36);

    let raw = point(sizes, "/realistic/64k.txt", "identity");
    assert_eq!(number(&raw["raw_bytes"]), 65_536.0);
    let wire = number(&raw["downlink_bytes"]);
    // 46 segments of 1,448 bytes at the most, each with 66 bytes of headers, and the head.
    assert!((68_000.0..70_500.0).contains(&wire), "{wire} bytes");
    let expected = 100e6 / 8.0 / wire;
    for (what, value) in [("predicted", &raw["predicted"]), ("behind", &raw["behind"])] {
        let value = number(&value["value"]);
        // A window of 0.3 s has some 53 answers, four of them more or fewer: those in flight at its ends.
        assert!(
            (value / expected - 1.0).abs() < 0.1,
            "{what} {value}, {expected} expected"
        );
    }
    assert!(number(&raw["open"]["value"]) > 2.0 * expected, "{raw:#}");
    let coded = point(sizes, "/realistic/64k.txt", "gzip");
    assert_eq!(number(&coded["raw_bytes"]), 65_536.0);
    assert!(number(&coded["body_bytes"]) < 30_000.0, "{coded:#}");

    let of_downlink = |cost: &&Value| cost["whose"] == "downlink" && cost["coding"] == "identity";
    let downlink = sizes["costs"]
        .as_array()
        .unwrap()
        .iter()
        .find(of_downlink)
        .unwrap();
    // 66 bytes of header for each 1,448 of data.
    let per_byte = number(&downlink["per_byte"]["value"]);
    assert!((1.03..1.07).contains(&per_byte), "{downlink:#}");

    let behind = |pays: &&Value| pays["link"] == "100mbit";
    let pays = sizes["pays"]
        .as_array()
        .unwrap()
        .iter()
        .find(behind)
        .unwrap();
    assert_eq!(pays["predicted"], false);
    assert!(number(&pays["largest"]["low"]) > 2.0, "{pays:#}");
    assert!(number(&pays["from_bytes"]["value"]) < 65_536.0, "{pays:#}");
    assert!(ran.said().contains("gzip pays from"), "{}", ran.said());
    let page = std::fs::read_to_string(place.last_run().join("report.html")).unwrap();
    assert!(page.contains("Size by size") && page.contains("Behind 100mbit"));
}

/// The double does not negotiate: that is said, and no coding is praised.
#[test]
fn a_server_that_does_not_compress_is_said_to() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let ran = place
        .run(&[
            "bytes",
            &double.url("/"),
            "--rounds",
            "3",
            "-d",
            "900ms",
            "-c",
            "2",
            "-q",
        ])
        .ends_with(0);
    assert!(
        ran.said().contains("does not answer in gzip"),
        "{}",
        ran.said()
    );
    assert_eq!(place.record()["sizes"]["costs"], Value::Array(Vec::new()));
}

#[test]
fn what_makes_no_sense_is_refused_before_any_load() {
    let _turn = together();
    let place = Place::new();
    let url = "http://127.0.0.1:9/";
    let braces = |path: &str| format!("{url}{path}");
    let many: Vec<String> = (0..40).map(|at| at.to_string()).collect();
    for (args, word) in [
        (vec!["bytes".into(), braces("{a")], "braces"),
        (vec!["bytes".into(), braces("{a,a}")], "twice"),
        (
            vec!["bytes".into(), braces(&format!("{{{}}}", many.join(",")))],
            "80 answers",
        ),
        (
            vec!["bytes".into(), url.into(), "--codings".into(), "a b".into()],
            "--codings",
        ),
        (
            vec![
                "bytes".into(),
                url.into(),
                "-H".into(),
                "accept-encoding: br".into(),
            ],
            "Accept-Encoding",
        ),
        (
            vec!["bytes".into(), url.into(), "--rounds".into(), "2".into()],
            "rounds",
        ),
        (
            vec!["bytes".into(), url.into(), "--link".into(), "1gbit".into()],
            "--subject",
        ),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = place.run(&args).ends_with(2);
        assert!(ran.err.contains(word), "{args:?}: {}", ran.err);
    }
    assert!(place.runs().is_empty());
}

/// What was asked for is journalled before the first window: a killed run says what its steps were.
#[test]
fn a_killed_run_still_knows_what_its_steps_were() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/{a,b}");
    let running = place.start(&[
        "bytes", &url, "--rounds", "50", "-d", "15s", "-c", "2", "-q",
    ]);
    // Two rounds of four windows of 0.6 s with two connections each, and some.
    let until = Instant::now() + Duration::from_secs(30);
    let enough = || double.connections() >= 20;
    while !enough() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    let ran = place
        .run(&["report", place.last_run().to_str().unwrap()])
        .ends_with(0);
    assert!(
        ran.said().contains("does not answer in gzip"),
        "{}",
        ran.said()
    );
    let run = place.last_run();
    let report = ["report", run.to_str().unwrap(), "--format", "json"];
    let record = place.run(&report).ends_with(0).json();
    let sizes = &record["sizes"];
    assert_eq!(sizes["answers"].as_array().unwrap().len(), 4);
    assert_eq!(sizes["order"].as_array().unwrap().len(), 200);
}
