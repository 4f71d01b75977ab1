//! Client hosts side by side, three of them and a hundred.

mod sample;

use unicode_width::UnicodeWidthStr;
use wallfinder_model::Record;
use wallfinder_model::record::{ClientPart, Counts, Drained, LostClient, WorkerSummary};
use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, html};

/// A step of so many hosts, of which the fortieth answers most and the seventieth was lost.
fn fleet(hosts: u32) -> Record {
    let mut record = sample::one_step();
    let step = &mut record.steps[0];
    let worker = step.workers[0].clone();
    step.workers = (0..hosts)
        .map(|nth| WorkerSummary {
            worker: nth,
            busy_share: 0.2 + f64::from(nth) / 1_000.0,
            ..worker.clone()
        })
        .collect();
    let latency = step.latency.clone();
    step.clients = (1..=hosts)
        .map(|nth| ClientPart {
            host: format!("client-{nth}"),
            connections: 4,
            dealt: 1.0 / f64::from(hosts),
            workers: 1,
            began_ns: i64::from(nth) * 1_000,
            clock_error_ns: 250_000,
            counts: Counts::default(),
            throughput: if nth == 40 {
                9_000.0
            } else {
                1_000.0 + f64::from(nth)
            },
            in_flight_mean: 4.0,
            drained: Drained::default(),
            latency: latency.clone(),
            lateness: None,
            lost: (nth == 70).then(|| LostClient {
                why: "its ssh ended".to_owned(),
                heard_ns: 3_000_000_000,
            }),
        })
        .collect();
    record
}

fn look(width: u16) -> Look {
    Look {
        width,
        colour: false,
        ascii: false,
    }
}

fn rows(text: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.trim_start().starts_with("client-");
    text.lines().filter(is_row).collect()
}

#[test]
fn each_of_a_few_hosts_has_a_row() {
    let text = text::run(&fleet(3), &Paths::default(), &look(120));
    assert_eq!(rows(&text).len(), 3, "{text}");
    assert!(
        text.contains("3 client hosts began within 2.00 µs"),
        "{text}"
    );
}

#[test]
fn of_a_hundred_hosts_those_that_stand_out_have_one() {
    let record = fleet(100);
    for width in [60, 80, 120] {
        let text = text::run(&record, &Paths::default(), &look(width));
        assert!((4..=12).contains(&rows(&text).len()), "{text}");
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(usize::from(width)), "{text}");
    }
    let text = text::run(&record, &Paths::default(), &look(120));
    let row = |host: &str| {
        let mut all = rows(&text).into_iter();
        let found = all.find(|row| row.trim_start().starts_with(&format!("{host} ")));
        found.unwrap_or_else(|| panic!("{host}: {text}"))
    };
    assert!(row("client-1").contains("slowest"));
    assert!(row("client-40").contains("fastest"));
    assert!(row("client-70").contains("lost after 3"));
    assert!(row("client-100").contains("busiest"));
    assert!(text.contains("median"), "{text}");
    assert!(text.contains("hosts more in the record"), "{text}");
    let page = html::render(&record);
    assert!(page.contains("Client hosts") && page.contains("client-70"));
    assert!(!page.contains("client-33<"));
}
