//! What is printed, and where: results on standard output, everything else on standard
//! error.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wallfinder_tests::{Double, Place, binary, json_at, program, skip, together};

const SHORT: [&str; 7] = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--no-calibrate"];

/// A whole number or decimal after a word at the start of a line, as a script takes it.
fn scraped(text: &str, word: &str) -> Option<String> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    Some(rest.trim().to_owned())
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_any_load() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let ran = place.run(&["run", &url, "-d", "60s", "-q", "-o", "nowhere/result.txt"]);
    let ran = ran.ends_with(1);
    assert!(ran.err.contains("nowhere/result.txt"), "{}", ran.err);
    assert_eq!(double.requests(), 0);
    assert!(place.runs().is_empty());
}

/// On a terminal a frame is drawn over itself while the load runs; what stays is the result.
#[test]
fn a_terminal_has_a_live_view() {
    let _turn = together();
    let Some(script) = program("script") else {
        return skip("it needs `script`, which makes terminals (Debian: bsdutils)");
    };
    let (place, double) = (Place::new(), Double::plain());
    let line = format!(
        "{} run {} -c 2 -d 2s --warmup 0s --no-calibrate",
        binary().display(),
        double.url("/")
    );
    let mut command = Command::new(script);
    command.args(["-qefc", &line, "typed"]);
    let ran = place
        .start_command(command)
        .wait(Duration::from_secs(30))
        .ends_with(0);
    let frames = ran.out.matches("step 1 of 1").count();
    assert!(frames >= 3, "{frames} frames in {:?}", ran.out);
    for label in ["throughput", "latency", "in flight", "client", "so far"] {
        assert!(ran.out.contains(label), "{label}: {:?}", ran.out);
    }
    // Up, and away with what was there.
    assert!(ran.out.contains("\u{1b}["), "{:?}", ran.out);
    let last_frame = ran.out.rfind("step 1 of 1").unwrap();
    let result = ran.out.find("Requests/sec");
    assert!(result > Some(last_frame), "{:?}", &ran.out[last_frame..]);
}

#[test]
fn json_is_one_document_that_obeys_the_published_schema() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let schema: Value = place.run(&["schema", "record"]).ends_with(0).json();
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let url = double.url("/a?b=c");
    let loads: [&[&str]; 4] = [
        &["run", &url],
        &["run", &url, "-R", "200", "--poisson"],
        &["run", &url, "-n", "10"],
        &["ramp", &url, "--connections", "1,2"],
    ];
    for load in loads {
        let place = Place::new();
        let mut args = load.to_vec();
        let with = if load[0] == "ramp" {
            &SHORT[2..]
        } else {
            &SHORT
        };
        args.extend(with);
        args.extend(["--format", "json"]);
        let ran = place.run(&args).ends_with(0);
        let document = ran.json();
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{load:?}: {}", faults.join("\n"));
        assert!(!ran.err.is_empty(), "progress goes to standard error");
        assert!(!ran.err.contains("\"schema\""), "{}", ran.err);
    }
}

#[test]
fn what_is_printed_is_what_is_kept() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let printed = place
        .run(&[&["run", &url, "--format", "json"], &SHORT[..]].concat())
        .ends_with(0)
        .json();
    assert_eq!(printed, place.record());
    let run = place.last_run();
    let again = place
        .run(&["report", run.to_str().unwrap(), "--format", "json"])
        .ends_with(0)
        .json();
    assert_eq!(printed, again);
}

#[test]
fn csv_has_the_documented_header_and_a_row_for_each_step() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        &["ramp", &url, "--connections", "1,3", "--format", "csv"],
        &SHORT[2..],
    ]
    .concat();
    let ran = place.run(&args).ends_with(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.out);
    let columns: Vec<&str> = lines[0].split(',').collect();
    let documented = [
        "index",
        "name",
        "url",
        "driver",
        "throughput_from",
        "connections",
        "in_flight_per_connection",
        "max_in_flight",
        "workers",
        "arrival",
        "rate_asked",
    ];
    assert_eq!(columns[..documented.len()], documented);
    let at = |name: &str| {
        let found = columns.iter().position(|column| *column == name);
        found.unwrap_or_else(|| panic!("no column {name} in {columns:?}"))
    };
    for (line, connections) in lines[1..].iter().zip(["1", "3"]) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), columns.len(), "{line}");
        assert_eq!(fields[at("connections")], connections);
        assert_eq!(fields[at("arrival")], "closed");
        assert!(fields[at("throughput")].parse::<f64>().unwrap() > 0.0);
    }
}

#[test]
fn text_ends_with_the_lines_that_scripts_of_wrk_scrape() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let ran = place
        .run(&[&["run", &url], &SHORT[..]].concat())
        .ends_with(0);
    let requests: f64 = scraped(&ran.out, "Requests/sec:").unwrap().parse().unwrap();
    let throughput = json_at(&place.step(), "/throughput").as_f64().unwrap();
    assert!(
        (requests - throughput).abs() < 0.01,
        "{requests} and {throughput}"
    );
    let transfer = scraped(&ran.out, "Transfer/sec:").unwrap();
    let number = transfer
        .trim_end_matches('B')
        .trim_end_matches(['K', 'M', 'G', 'T']);
    assert!(
        transfer.ends_with('B') && number.parse::<f64>().unwrap() > 0.0,
        "{transfer}"
    );
    let widest = ran
        .out
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap();
    assert!(widest <= 100, "a line has {widest} columns:\n{}", ran.out);
    assert!(!ran.out.contains('\x1b'), "no colour into a file");
}

#[test]
fn ascii_output_is_ascii() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        &["ramp", &url, "--ascii", "--connections", "1,2"],
        &SHORT[2..],
    ]
    .concat();
    let ran = place.run(&args).ends_with(0);
    let strange: String = ran.said().chars().filter(|c| !c.is_ascii()).collect();
    assert!(strange.is_empty(), "{strange:?} in\n{}", ran.said());
}

#[test]
fn output_goes_to_a_file_where_one_is_named_and_quiet_is_quiet() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        &["run", &url, "-q", "--format", "json", "-o", "out.json"],
        &SHORT[..],
    ]
    .concat();
    let ran = place.run(&args).ends_with(0);
    assert_eq!(ran.said(), "");
    let text = std::fs::read_to_string(place.path().join("out.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["complete"], true);
}

#[test]
fn the_page_is_one_file_that_fetches_nothing() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/x?q=<script>alert(1)</script>");
    let name = "<script>alert(2)</script>";
    let args = [&["run", &url, "-q", "--name", name], &SHORT[..]].concat();
    place.run(&args).ends_with(0);
    let page = std::fs::read_to_string(place.last_run().join("report.html")).unwrap();
    for bad in [
        "<script>alert",
        " src=\"http",
        " src=\"//",
        "href=\"http",
        "@import",
        "url(http",
    ] {
        assert!(!page.contains(bad), "the page has {bad}");
    }
}

#[test]
fn runs_within_one_second_do_not_get_in_each_others_way() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    for _ in 0..3 {
        let args = ["run", &url, "-n", "1", "-c", "1", "--no-calibrate", "-q"];
        place.run(&args).ends_with(0);
    }
    assert_eq!(place.runs().len(), 3);
}

#[test]
fn every_request_is_kept_where_that_is_asked_for() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = ["run", &url, "-c", "2", "-d", "600ms", "--warmup", "200ms"];
    let kept = ["--samples", "--no-calibrate", "-q"];
    let ran = place.run(&[&args[..], &kept].concat()).ends_with(0);
    assert!(ran.said().contains("samples-0.parquet"), "{}", ran.said());
    let step = place.step();
    let (counts, samples) = (&step["counts"], &step["samples"]);
    // What is in the histograms, and nothing failed.
    let ended = &step["latency"]["count"];
    assert_eq!(&samples["rows"], ended, "{counts:#}");
    assert_eq!(samples["dropped"], 0);
    let run = place.last_run();
    let folder = run.to_str().unwrap();
    assert!(!run.join("samples-0.part").exists());
    let read = place
        .run(&["samples", folder, "--format", "json"])
        .ends_with(0);
    let read = &read.json()[0];
    assert_eq!(&read["answered"], ended);
    // The histogram keeps three digits; the samples are what it was filled from.
    for (name, of) in [("latency", &step["latency"]), ("service", &step["service"])] {
        let quantiles = read[name].as_array().unwrap();
        let p99 = quantiles
            .iter()
            .find(|found| found["name"] == "p99")
            .unwrap();
        let exact = p99["value_ns"].as_f64().unwrap();
        let shown = of["quantiles_ns"]["p99"].as_f64().unwrap();
        assert!(
            (shown / exact - 1.0).abs() < 0.002,
            "{name}: {shown} of {exact}"
        );
    }
    let text = place.run(&["samples", folder]).ends_with(0).said();
    assert!(
        text.contains("p99.99") && text.contains("from start"),
        "{text}"
    );
    let none = place.run(&["samples", place.path().to_str().unwrap()]);
    assert!(none.ends_with(2).said().contains("--samples"));
    place
        .run(&[&args[..], &["--samples", "--driver", "wrk {url}"]].concat())
        .ends_with(2);
}
