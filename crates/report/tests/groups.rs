//! A study's groups: a row for all rounds of each under each load, what its server waits for, and what
//! squeezes say.

mod sample;

use serde_json::json;
use wallfinder_model::profile::Profiles;
use wallfinder_model::record::Cell;
use wallfinder_model::{Arrival, Rate, Record, Step};
use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, html};

/// Two groups under two loads in three rounds, each of the throughput that it is told to have by group,
/// connections and round.
fn study(throughput: impl Fn(&str, u32, u32) -> f64) -> Record {
    let mut record = sample::cells();
    let model = record.steps[0].clone();
    record.plan.name = "prefork-demo".to_owned();
    record.steps.clear();
    for round in 1..=3 {
        for group in ["one", "prefork"] {
            for connections in [100, 1000] {
                let mut step = model.clone();
                step.index = record.steps.len() as u32;
                step.name = format!("{group}/engine/c{connections}/round{round}");
                step.load.connections = connections;
                step.throughput = throughput(group, connections, round);
                step.cell = Some(Cell {
                    group: group.into(),
                    driver: "engine".into(),
                    payload: 0,
                    clients: connections,
                    round,
                    rival: false,
                });
                record.steps.push(step);
            }
        }
    }
    record
}

fn by_round(group: &str, connections: u32, round: u32) -> f64 {
    let one = if group == "one" { 0.0 } else { 5.0 };
    f64::from(connections) * 10.0 + one + f64::from(round) * 10.0
}

fn text_of(record: &Record) -> String {
    text::record(record, &Paths::default(), &Look::default())
}

/// The line of a table that begins so, its words apart.
fn row<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.trim().starts_with(begin));
    line.unwrap_or_else(|| panic!("no {begin} in:\n{text}"))
        .split_whitespace()
        .collect()
}

#[test]
fn a_group_has_one_row_for_all_of_its_rounds() {
    let record = study(by_round);
    let text = text_of(&record);
    let rows = text
        .lines()
        .filter(|line| line.starts_with(" one ") || line.starts_with(" prefork "));
    assert_eq!(rows.count(), 4, "{text}");
    // The middle one of 1,010, 1,020 and 1,030.
    let first = row(&text, "one");
    assert_eq!(first[1], "100", "{text}");
    assert!(first.contains(&"1,020"), "{text}");
    assert!(text.contains("the middle one of the rounds"), "{text}");
    assert!(text.contains("prefork-demo · 12 steps"), "{text}");
    let page = html::render(&record);
    assert!(page.contains("Group by group") && page.contains("12 steps in up to 3 rounds"));
    assert!(page.contains("<td>1,020</td>"));
    // Each step can still be looked at.
    assert!(page.contains("one/engine/c1000/round3"));
}

#[test]
fn loads_of_one_group_are_told_apart_by_their_rate() {
    let mut record = study(by_round);
    for step in &mut record.steps {
        let rate = if step.load.connections == 100 {
            500.0
        } else {
            700.0
        };
        step.load.connections = 100;
        step.load.arrival = Arrival::Constant { rate: Rate(rate) };
    }
    let text = text_of(&record);
    assert_eq!(row(&text, "one")[..3], ["one", "100", "500"], "{text}");
    let of_one = text.lines().filter(|line| line.starts_with(" one "));
    assert_eq!(of_one.count(), 2, "{text}");
}

#[test]
fn what_was_measured_again_stands_beside_the_groups() {
    let mut record = study(by_round);
    let mut disturbed = record.steps[0].clone();
    disturbed.cell = None;
    disturbed.throughput = 7.0;
    let why = "others used 0.4 cores".to_owned();
    let again = wallfinder_model::Caveat::MeasuredAgain { why };
    disturbed.caveats.push(again);
    record.steps.push(disturbed);
    let text = text_of(&record);
    assert!(row(&text, "one").contains(&"1,020"), "{text}");
}

#[test]
fn sizes_and_single_rounds_are_shown_as_they_were() {
    let mut sized = study(by_round);
    for step in &mut sized.steps {
        step.cell.as_mut().unwrap().payload = 64;
    }
    assert!(text_of(&sized).contains("bytes"));
    assert!(!html::render(&sized).contains("Group by group"));
    let mut single = study(by_round);
    single.steps.retain(|step| step.name.ends_with("round1"));
    assert!(!text_of(&single).contains("the middle one of the rounds"));
}

/// Goroutines that wait at one lock, of so many in all, and time that others waited for mutexes.
fn profiles(waiting: f64, at_lock: f64, mutexes: f64) -> Profiles {
    let ns = |seconds: f64| (seconds * 1e9) as i64;
    let reading = |kind: &str, total: f64, idle: f64, at_lock: f64| {
        json!({
            "kind": kind,
            "measure": { "name": "delay", "unit": "nanoseconds" },
            "duration_ns": 1_000_000_000,
            "total": ns(total),
            "count": 7,
            "idle": ns(idle),
            "named_share": 1.0,
            "origins": [], "categories": [], "functions": [], "tree": [],
            "sites": [{
                "function": "github.com/shop/random.(*Source).Next", "line": "random.go:88",
                "waits_in": "sync.(*Mutex).Lock", "value": ns(at_lock), "count": 3, "idle": false,
                "path": []
            }],
        })
    };
    Profiles {
        window_ns: 1_000_000_000,
        readings: [
            reading("block", waiting + 3.0, 3.0, at_lock),
            reading("mutex", mutexes, 0.0, mutexes / 4.0),
        ]
        .map(|reading| serde_json::from_value(reading).unwrap())
        .to_vec(),
        ..Profiles::default()
    }
}

#[test]
fn what_waits_is_told_beside_what_the_mutex_profile_says_of_it() {
    let mut record = study(by_round);
    let of_one = |step: &&mut Step| step.name.starts_with("one/engine/c100/");
    for (round, step) in record.steps.iter_mut().filter(of_one).enumerate() {
        let waiting = 6.0 + round as f64;
        step.profiles = Some(profiles(waiting, waiting / 2.0, 2.0));
    }
    let text = text_of(&record);
    let waits = &text[text.find("what waits").expect("a title")..];
    let told = row(waits, "one").join(" ").replace(".00", "");
    let expected = "one 100 7 3 random.(*Source).Next 50 % 2 s 25 %";
    assert_eq!(told, expected, "{text}");
    assert!(!waits.contains(" prefork "), "{text}");
    let page = html::render(&record);
    assert!(page.contains("What waits in the server"));
    assert!(page.contains("random.(*Source).Next"));
}

#[test]
fn every_group_that_was_squeezed_is_told_with_its_wall() {
    let mut record = study(by_round);
    let proved = sample::proved().steps.pop().unwrap();
    let of_prefork = |step: &&mut Step| step.name == "prefork/engine/c1000/round3";
    let step = record.steps.iter_mut().find(of_prefork).unwrap();
    (step.verdict, step.experiment) = (proved.verdict, proved.experiment);
    let text = text_of(&record);
    let from = text.find("what squeezes say").expect("a title");
    let told = &text[from..];
    assert!(told.contains("prefork, 1,000 connections"), "{told}");
    assert!(told.contains("downlink (proved"), "{told}");
    assert!(!told.contains("one, "), "{told}");
    assert!(html::render(&record).contains("What squeezes say"));
}
