//! Records read back: sealed, torn, hostile, of another version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use wallfinder_tests::{Double, Place, Ran, json_at, together};

fn sealed(place: &Place, more: &[&str]) -> PathBuf {
    let double = Double::plain();
    let url = double.url("/");
    let args = [
        "run", &url, "-c", "2", "-d", "600ms", "--warmup", "100ms", "-q",
    ];
    place.run(&[&args, more].concat()).ends_with(0);
    place.last_run()
}

fn on<'a>(place: &Place, command: &'a str, run: &'a Path, more: &[&'a str]) -> Ran {
    place.run(&[&[command, run.to_str().unwrap()], more].concat())
}

#[test]
fn a_record_is_judged_as_it_was_when_it_was_measured() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &[]);
    let then = place.record();
    let now = on(&place, "judge", &run, &["--format", "json"])
        .ends_with(0)
        .json();
    assert_eq!(now["steps"][0]["verdict"], then["steps"][0]["verdict"]);
    assert_eq!(now, then, "judging changes nothing else");
    assert_eq!(place.record(), then, "nor what is kept");
    // The file itself is as good as its folder.
    let file = run.join("record.json");
    let again = on(&place, "judge", &file, &["--format", "json"])
        .ends_with(0)
        .json();
    assert_eq!(again, then);
    // And `runs/latest` is the last one.
    let latest = place
        .run(&["judge", "runs/latest", "--format", "json"])
        .ends_with(0);
    assert_eq!(latest.json(), then);
}

#[test]
fn report_prints_again_and_writes_the_page_again() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &[]);
    let page = run.join("report.html");
    let before = fs::read(&page).unwrap();
    fs::remove_file(&page).unwrap();
    let ran = on(&place, "report", &run, &[]).ends_with(0);
    assert!(ran.out.contains("Requests/sec:"), "{}", ran.out);
    assert!(
        fs::read(&page).unwrap() == before,
        "the page is a function of the record"
    );
}

#[test]
fn runs_are_compared_step_by_step() {
    let _turn = together();
    let (before, after) = (Place::new(), Place::new());
    let (first, second) = (sealed(&before, &[]), sealed(&after, &[]));
    let pair = [first.to_str().unwrap(), second.to_str().unwrap()];
    let ran = before.run(&["compare", pair[0], pair[1]]).ends_with(0);
    assert!(ran.out.contains("throughput"), "{}", ran.out);
    let same = before.run(&["compare", pair[0], pair[0]]).ends_with(0);
    assert!(same.out.contains("1.000 x"), "{}", same.out);
    assert!(same.out.contains("p99 1.00 x"), "{}", same.out);
    let args = ["compare", pair[0], pair[0], "--format", "json"];
    let same = before.run(&args).ends_with(0).json();
    assert_eq!(json_at(&same, "/steps/0/throughput/value"), 1.0);
    assert_eq!(json_at(&same, "/environment"), &serde_json::json!([]));
    // A bound that no machine reaches, and one that every machine does.
    let bound = |ratio| before.run(&["compare", pair[0], pair[1], "--at-least", ratio]);
    bound("0.001").ends_with(0);
    let short = bound("1000").ends_with(3);
    assert!(short.err.contains("surely below 1000"), "{}", short.err);
    assert!(short.out.contains("throughput"), "{}", short.out);
    bound("0").ends_with(2);
    let none = before.path().join("none");
    let ran = before
        .run(&["compare", pair[0], none.to_str().unwrap()])
        .ends_with(1);
    assert!(ran.err.contains("none"), "{}", ran.err);
}

/// A journal of a killed run.
fn journal(place: &Place) -> PathBuf {
    let double = Double::plain();
    let url = double.url("/");
    let args = ["run", &url, "-c", "2", "-d", "30s", "--warmup", "0s", "-q"];
    let running = place.start(&args);
    // On a busy machine it takes seconds to begin.
    let since = Instant::now();
    while written(place) < ENTRIES && since.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::KILL);
    running.wait(Duration::from_secs(10));
    place.last_run()
}

/// Entries that a journal of these tests has at the least.
const ENTRIES: usize = 12;

/// Entries of the last run's journal so far.
fn written(place: &Place) -> usize {
    let runs = place.runs();
    let journal = runs.last().map(|run| fs::read(run.join("journal.wfj")));
    journal.map_or(0, |bytes| entries(&bytes.unwrap_or_default()).len())
}

/// Where a journal's entries begin, read as ARCHITECTURE and the store document it.
fn entries(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (8, Vec::new());
    while at + 9 <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if at + 9 + length > bytes.len() {
            break;
        }
        found.push(at);
        at += 9 + length;
    }
    found
}

#[test]
fn a_flipped_bit_in_a_journal_is_found_and_its_place_is_named() {
    let _turn = together();
    let place = Place::new();
    let run = journal(&place);
    let file = run.join("journal.wfj");
    let whole = fs::read(&file).unwrap();
    let starts = entries(&whole);
    assert!(starts.len() > 6, "{} entries", starts.len());
    let intact = on(&place, "report", &run, &["--format", "json"])
        .ends_with(0)
        .json();
    let kept = |record: &Value| record["steps"][0]["intervals"].as_array().unwrap().len();
    // In the payload, the kind, the checksum and the length of an entry past the middle.
    let nth = starts.len() / 2 + 1;
    for (offset, bit) in [(20, 3), (8, 0), (5, 7), (0, 1)] {
        let mut flipped = whole.clone();
        flipped[starts[nth] + offset] ^= 1 << bit;
        fs::write(&file, &flipped).unwrap();
        let ran = on(&place, "report", &run, &["--format", "json"]).ends_with(0);
        let record = ran.json();
        assert!(
            record["caveats"]
                .to_string()
                .contains(&starts[nth].to_string()),
            "byte {} is not named: {}",
            starts[nth],
            record["caveats"]
        );
        let text = on(&place, "report", &run, &[]).ends_with(0);
        let digits: String = text
            .out
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '\n')
            .collect();
        assert!(digits.contains(&starts[nth].to_string()), "{}", text.out);
        assert!(
            (1..kept(&intact)).contains(&kept(&record)),
            "the prefix is kept"
        );
    }
    // In the header nothing can be kept, and that is said.
    let mut flipped = whole.clone();
    flipped[starts[0] + 30] ^= 4;
    fs::write(&file, &flipped).unwrap();
    let ran = on(&place, "report", &run, &[]).ends_with(1);
    assert!(ran.err.contains("damaged at byte 8"), "{}", ran.err);
}

#[test]
fn a_torn_journal_is_read_up_to_the_tear() {
    let _turn = together();
    let place = Place::new();
    let run = journal(&place);
    let file = run.join("journal.wfj");
    let whole = fs::read(&file).unwrap();
    let starts = entries(&whole);
    for cut in [starts[1], starts[3] + 4, starts[5] + 20, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        let record = on(&place, "report", &run, &["--format", "json"])
            .ends_with(0)
            .json();
        assert_eq!(record["complete"], false, "cut at {cut}");
    }
    for cut in [0, 4, 8, 12, starts[1] - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        let ran = on(&place, "report", &run, &[]).ends_with(1);
        assert!(ran.err.contains("journal.wfj"), "{}", ran.err);
    }
}

#[test]
fn a_hostile_record_is_an_error_and_no_panic() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &["--no-calibrate"]);
    let file = run.join("record.json");
    let good = fs::read_to_string(&file).unwrap();
    let schema = "{\"schema\":\"wallfinder.record/2\"";
    let hostile: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        good.as_bytes()[..good.len() / 2].to_vec(),
        format!("{schema}}}").into_bytes(),
        format!("{schema},\"steps\":{}", "[".repeat(100_000)).into_bytes(),
        good.replacen("\"index\": 0", "\"index\": -1", 1)
            .into_bytes(),
        good.replacen("\"throughput\": ", "\"throughput\": 1e999, \"x\": ", 1)
            .into_bytes(),
        good.replacen("wallfinder.record/2", "wallfinder.record/x", 1)
            .into_bytes(),
        good.replacen("wallfinder.record/2", "somebody.else/1", 1)
            .into_bytes(),
    ];
    for bytes in hostile {
        fs::write(&file, &bytes).unwrap();
        for command in ["judge", "report"] {
            let ran = on(&place, command, &run, &[]);
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            assert_eq!(ran.code, Some(1), "{command} of {shown:?}: {}", ran.said());
            assert!(ran.err.contains("record.json"), "{}", ran.err);
            assert!(!ran.err.contains("panicked"), "{}", ran.err);
        }
    }
}

#[test]
fn absurd_numbers_in_a_record_are_no_panic() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &["--no-calibrate"]);
    let file = run.join("record.json");
    let good = place.record();
    let change = |pointer: &str, value: Value| {
        let mut record = good.clone();
        *record
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}")) = value;
        record
    };
    let absurd = [
        change("/steps/0/window_ns", json!(0)),
        change("/steps/0/window_ns", json!(u64::MAX)),
        change("/steps/0/throughput", json!(-1.0)),
        change("/steps/0/throughput", json!(1e308)),
        change("/steps/0/counts/answered", json!(u64::MAX)),
        change("/steps/0/counts/in_flight_start", json!(u64::MAX)),
        change("/steps/0/load/connections", json!(u32::MAX)),
        change("/steps/0/load/in_flight_per_connection", json!(u32::MAX)),
        change("/steps/0/load/warmup", json!(u64::MAX)),
        change("/steps/0/latency/hdr_v2", json!("AAAA")),
        change("/steps/0/latency/quantiles_ns/p50", json!(u64::MAX)),
        change("/steps/0/latency/mean_ns", json!(-1e300)),
        change("/steps/0/intervals", json!([])),
        change("/steps/0/intervals/0/span_ns", json!(0)),
        change("/steps/0/intervals/0/at_ns", json!(u64::MAX)),
        change("/steps/0/workers", json!([])),
        change("/steps/0/telemetry/window_ns", json!(0)),
        change("/steps", json!([])),
        change(
            "/steps/0/name",
            json!("\u{1b}[31m<script>alert(1)</script>\u{0}\u{202e}"),
        ),
    ];
    for record in absurd {
        fs::write(&file, record.to_string()).unwrap();
        for command in ["judge", "report"] {
            for format in ["text", "csv", "json"] {
                let ran = on(&place, command, &run, &["--format", format]);
                assert!(
                    matches!(ran.code, Some(0 | 1)) && !ran.err.contains("panicked"),
                    "{command} --format {format}: {:?} {}",
                    ran.code,
                    ran.err
                );
                assert!(
                    !ran.out.contains('\x1b'),
                    "{command} --format {format} passes on an escape sequence"
                );
            }
        }
        let pair = run.to_str().unwrap();
        let ran = place.run(&["compare", pair, pair]);
        assert!(
            matches!(ran.code, Some(0 | 1)) && !ran.err.contains("panicked"),
            "{}",
            ran.err
        );
        let page = fs::read_to_string(run.join("report.html")).unwrap();
        assert!(!page.contains("<script>alert"), "a label is escaped");
    }
}

#[test]
fn a_newer_record_is_refused_by_name() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &["--no-calibrate"]);
    let file = run.join("record.json");
    fs::write(
        &file,
        "{\"schema\": \"wallfinder.record/3\", \"new\": true}",
    )
    .unwrap();
    let ran = on(&place, "report", &run, &[]).ends_with(1);
    assert!(ran.err.contains("wallfinder.record/3"), "{}", ran.err);
    assert!(ran.err.contains("newer"), "{}", ran.err);
}

#[test]
fn what_is_no_run_is_said_to_be_none() {
    let place = Place::new();
    fs::create_dir(place.path().join("empty")).unwrap();
    place.file("text", "hello");
    for path in ["empty", "text", "missing", "/dev/null", "/proc/self/mem"] {
        let ran = place.run(&["report", path]);
        assert_eq!(ran.code, Some(1), "{path}: {}", ran.said());
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }
}

#[test]
fn telemetry_that_cannot_be_read_costs_a_caveat_and_not_the_record() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place, &["--no-calibrate"]);
    for bytes in [
        &b""[..],
        b"PAR1",
        b"PAR1\xff\xff\xff\xffPAR1",
        &[0xff; 4096],
    ] {
        fs::write(run.join("series.parquet"), bytes).unwrap();
        let record = on(&place, "report", &run, &["--format", "json"])
            .ends_with(0)
            .json();
        assert!(
            record["caveats"].to_string().contains("series.parquet"),
            "{}",
            record["caveats"]
        );
    }
}
