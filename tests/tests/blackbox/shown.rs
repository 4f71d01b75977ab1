//! What others say is shown and does not act: not on a terminal, not in a spreadsheet.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wallfinder_tests::{Double, Place, alone, together};

const SHORT: [&str; 7] = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--no-calibrate"];
/// A title, a cleared screen, a turned line, a hidden mark, and C1's own way of beginning a sequence.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\u{200b}\u{9b}31m\u{7f}";

/// Nothing in it acts on a terminal.
#[track_caller]
fn assert_harmless(text: &str) {
    let acts = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(acts), "{text:?}");
    assert!(!text.replace("\r\n", "\n").contains('\r'), "{text:?}");
}

#[test]
fn what_a_driver_and_a_subject_say_does_not_act() {
    // What others send over loopback would be taken for the driver's load.
    let _turn = alone();
    let (place, double) = (Place::new(), Double::plain());
    let words = place.file("words", [HOSTILE.as_bytes(), b"\xff\xfe said\n"].concat());
    let say = format!("sh -c 'cat {} >&2; exit 3'", words.display());
    let driver = format!("{say} {{url}}");
    let url = double.url("/");
    for args in [
        &["run", &url, "-q", "--driver", &driver][..],
        &["run", "http://subject:8083/", "-q", "--subject", &say],
    ] {
        let ran = place.run(args).ends_with(1);
        assert!(ran.err.contains("said"), "{}", ran.err);
        assert!(ran.err.contains("\\x1b]0;owned\\x07"), "{}", ran.err);
        assert_harmless(&ran.err);
    }
}

#[test]
fn arguments_that_are_refused_do_not_act() {
    let place = Place::new();
    let url = format!("http://{HOSTILE}/");
    let scheme = format!("{HOSTILE}://h/");
    for args in [
        &["run", &url][..],
        &["run", &scheme],
        &["run", "http://127.0.0.1:1/", "-c", HOSTILE],
        &["run", "http://127.0.0.1:1/", "--threshold", HOSTILE],
        &["study", "show", HOSTILE],
        &["report", HOSTILE],
        &[HOSTILE],
    ] {
        let ran = place.run(args);
        assert_ne!(ran.code, Some(0));
        assert!(!ran.err.is_empty());
        assert_harmless(&ran.err);
    }
}

/// Puts the words into every text of a document that a reader may change without breaking it.
fn foreign(run: &Path, words: &str) {
    let path = run.join("record.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for place in [
        "/plan/name",
        "/plan/subject",
        "/steps/0/name",
        "/steps/0/target/url",
    ] {
        if let Some(text) = record.pointer_mut(place) {
            *text = words.into();
        }
    }
    record["caveats"] = serde_json::json!([{"kind": "note", "text": words}]);
    record["steps"][0]["driver"]["name"] = words.into();
    fs::write(&path, record.to_string()).unwrap();
}

#[test]
fn a_foreign_record_does_not_act() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    place
        .run(&[&["run", &double.url("/"), "-q"], &SHORT[..]].concat())
        .ends_with(0);
    let run = place.last_run();
    let name = run.display().to_string();
    foreign(&run, HOSTILE);
    for format in ["text", "csv", "json"] {
        let ran = place
            .run(&["report", &name, "--format", format])
            .ends_with(0);
        assert_harmless(&ran.out);
        assert_harmless(&ran.err);
        if format == "json" {
            // It is read as what it was.
            assert_eq!(ran.json()["steps"][0]["name"], HOSTILE);
        }
    }
    assert_harmless(&fs::read_to_string(run.join("report.html")).unwrap());
    let ran = place.run(&["compare", &name, &name]);
    assert_harmless(&ran.said());
}

#[test]
fn a_foreign_label_is_no_formula() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    place
        .run(&[&["run", &double.url("/"), "-q"], &SHORT[..]].concat())
        .ends_with(0);
    let run = place.last_run();
    let name = run.display().to_string();
    for formula in [
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(1)",
        "\t=1+1",
        "\r=1+1",
    ] {
        foreign(&run, formula);
        let ran = place
            .run(&["report", &name, "--format", "csv"])
            .ends_with(0);
        let cells = ran.out.lines().flat_map(|line| line.split(','));
        for cell in cells.map(|cell| cell.trim_start_matches('"')) {
            let begins = cell.starts_with(['=', '+', '@', '\t', '\r']);
            let is_number = cell.parse::<f64>().is_ok();
            let is_formula = begins || (cell.starts_with('-') && !is_number);
            assert!(!is_formula, "{formula:?}: {cell:?}");
        }
        assert!(ran.out.contains('\''), "{formula:?}");
    }
}
