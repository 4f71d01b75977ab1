//! What was not answered well, in every form that a record is shown in.

mod sample;

use wallfinder_judge::proof::ab::weigh;
use wallfinder_model::record::{Drained, Outage};
use wallfinder_model::{Caveat, Record};
use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, csv, html};

const LOOK: Look = Look {
    width: 200,
    colour: false,
    ascii: false,
};

/// A run whose server was away for a part of its window, and whose client had too few connections.
fn troubled() -> Record {
    let mut record = sample::one_step();
    let step = &mut record.steps[0];
    step.load.warmup.0 = 0;
    step.window_ns = 5_000_000_000;
    let counts = &mut step.counts;
    counts.failed.insert("timeout.total".into(), 879);
    counts.expired_unsent = 679;
    counts.connect_failures.insert("net.refused".into(), 9);
    counts.unreachable_ns = 3_500_000_000;
    counts.statuses.clear();
    counts.statuses.extend([(200, 9_000), (302, 1_000)]);
    step.outages.push(Outage {
        at_ns: 1_500_000_000,
        for_ns: 3_500_000_000,
    });
    let server = step.telemetry.server.as_mut().expect("it was seen");
    server.processes = 0;
    step.verdict = Some(wallfinder_judge::judge_step(step, &record.environment));
    record
}

/// Its text, however it wraps.
fn one_line(record: &Record) -> String {
    let text = text::run(record, &Paths::default(), &LOOK);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn text_page_and_csv_say_what_was_not_sent_not_reached_and_not_200() {
    let record = troubled();
    let text = one_line(&record);
    for told in [
        "timeout.total 879 (679 of them never sent: no connection was free in time)",
        "net.refused 9",
        "unreachable for 3.5 s from 1.5 s on (70 % of the window)",
        "statuses 200 9,000 (90 %) · 302 1,000 (10 %)",
        "1,000 of 10,000 answers were redirects (302)",
        "before whose end it had ended",
        "The server could not be reached for 3.5",
    ] {
        assert!(text.contains(told), "{told}:\n{text}");
    }
    let page = html::render(&record);
    for told in [
        "679 of them never sent",
        "for 3.5 s from 1.5 s on",
        "302 1,000 (10 %)",
        "answers were redirects (302)",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let csv = csv::each_step(&record);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for (name, value) in [
        ("expired_unsent", "679"),
        ("unreachable_ns", "3500000000"),
        ("statuses", "200:9000 302:1000"),
    ] {
        let column = rows[0].iter().position(|head| *head == name);
        let column = column.unwrap_or_else(|| panic!("a column {name}"));
        assert!(rows[1].contains(&value), "{name} {column}: {:?}", rows[1]);
    }
}

#[test]
fn connections_that_were_refused_have_failed_in_every_form() {
    let mut record = sample::one_step();
    let counts = &mut record.steps[0].counts;
    counts.answered = 9_000;
    counts.failed.insert("timeout.total".into(), 100);
    counts.connect_failures.insert("net.refused".into(), 900);
    let text = one_line(&record);
    let told = "10 % of requests: net.refused 900 · timeout.total 100";
    assert!(text.contains(told), "{told}:\n{text}");
    let page = html::render(&record);
    let told = "<dt>Failed</dt><dd><span class=\"value\">10</span> <span class=\"unit\">%</span>\
                <small>net.refused 900</small>";
    assert!(page.contains(told), "{told}");
    let csv = csv::each_step(&record);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for (name, value) in [("failed", "100"), ("connect_failures", "900")] {
        let column = rows[0].iter().position(|head| *head == name);
        let column = column.unwrap_or_else(|| panic!("a column {name}"));
        assert_eq!(rows[1][column], value, "{name}");
    }
}

#[test]
fn lower_bounds_of_latency_are_marked_in_the_pages_headline() {
    let marked = |record: &Record| {
        let page = html::render(record);
        [
            "<dt>Latency, median</dt><dd><span class=\"value\">≥\u{a0}",
            "<dt>Latency, p99</dt><dd><span class=\"value\">≥\u{a0}",
            "<small>p99.9 ≥\u{a0}",
        ]
        .map(|told| page.contains(told))
    };
    let mut record = sample::one_step();
    assert_eq!(marked(&record), [false; 3]);
    let step = &mut record.steps[0];
    step.drained = Some(Drained {
        in_flight: step.counts.answered / 20,
        oldest_ns: 5_000_000_000,
        ..Drained::default()
    });
    assert_eq!(marked(&record), [false, true, true]);
}

#[test]
fn a_tail_that_is_a_lower_bound_is_in_no_ratio_and_that_is_said() {
    let mut record = sample::ab();
    let ab = record.ab.as_mut().expect("two settings");
    for (step, (_, is_b)) in record.steps.iter_mut().zip(&ab.order) {
        step.drained = is_b.then(|| Drained {
            in_flight: step.counts.answered / 50,
            oldest_ns: 5_000_000_000,
            ..Drained::default()
        });
    }
    weigh(&record.steps, ab);
    let measures: Vec<&str> = ab.ratios.iter().map(|of| of.measure.as_str()).collect();
    assert!(measures.contains(&"p50") && !measures.contains(&"p99"));
    let told =
        "requests without an answer make it a lower bound: p99 in 6, p99.9 in 6 of 12 windows";
    let text = text::record(&record, &Paths::default(), &LOOK);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(told), "{told}:\n{text}");
    let page = html::render(&record);
    assert!(page.contains(told), "{told}");
    let rounds = page.split_once("<table class=\"rounds\">");
    let (_, rounds) = rounds.expect("each round");
    let (rounds, _) = rounds.split_once("</table>").expect("its end");
    assert_eq!(rounds.matches("<td>≥ ").count(), 6, "{rounds}");
}

#[test]
fn without_trouble_nothing_is_said_of_it() {
    let text = one_line(&sample::one_step());
    for told in [
        "statuses",
        "unreachable",
        "never sent",
        "redirect",
        "had ended",
    ] {
        assert!(!text.contains(told), "{told}:\n{text}");
    }
}

#[test]
fn a_subject_that_ended_is_the_reason_of_a_partial_run_and_told_once() {
    let mut record = sample::one_step();
    record.complete = false;
    record.caveats.push(Caveat::SubjectEnded {
        how: "exit code 7".into(),
        said: "first\nout of luck".into(),
    });
    let text = one_line(&record);
    let told = "ended during the load, with exit code 7. It said: first / out of luck";
    assert!(text.contains("PARTIAL"), "{text}");
    assert_eq!(text.matches(told).count(), 1, "{text}");
    assert!(html::render(&record).contains("exit code 7"));
}

#[test]
fn the_document_has_how_requests_ended_as_data_and_in_words_and_reads_back() {
    let mut record = sample::one_step();
    let step = &mut record.steps[0];
    step.counts.answered = 0;
    step.counts.failed = [("status.4xx".to_owned(), 1_200)].into();
    step.counts.statuses = [(404, 1_200)].into();
    step.verdict = Some(wallfinder_judge::judge_step(step, &record.environment));
    let document = wallfinder_report::json::document(&record);
    let value: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let verdict = &value["steps"][0]["verdict"];
    let ended = &verdict["reason"]["ended"][0];
    assert_eq!(ended["kind"], "failed");
    assert_eq!(ended["statuses"], serde_json::json!([[404, 1_200]]));
    let why = "1,200 failed as status.4xx (404)";
    let told = verdict["reason"]["why"].as_str().expect("words");
    assert!(told.starts_with(why), "{told}");
    let sentence = verdict["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains(why), "{sentence}");
    let read: Record = serde_json::from_str(&document).expect("a record");
    assert_eq!(
        wallfinder_report::json::document(&read),
        document,
        "words are made of the data again"
    );
}
