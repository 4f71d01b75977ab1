//! How a run goes: in order, on through failures, with a way out of everything.

use wallfinder_model::Wall;
use wallfinder_model::record::Outcome;
use wallfinder_study::{Size, Study, claims, resume, run};

use crate::double::{Costs, DoubleApparatus};
use crate::files::SMALL;

fn study() -> Study {
    Study::parse("my.toml", SMALL).unwrap()
}

fn apparatus() -> DoubleApparatus {
    DoubleApparatus::new(|_| Costs {
        client_us: 0.5,
        server_us: 500.0,
    })
}

#[test]
fn each_driver_is_asked_for_once_and_each_subject_started_once() {
    let mut apparatus = apparatus();
    let ran = run(&study(), Size::Smoke, &mut apparatus);
    assert_eq!(
        apparatus.log,
        [
            "ask engine",
            "ask wrk",
            "start catalogue",
            "run simple/engine/c1",
            "run simple/engine/c10",
            "run simple/wrk/c1",
            "run simple/wrk/c10",
            "stop",
        ]
    );
    let names: Vec<&str> = ran.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names[1], "simple/engine/c10");
    assert_eq!(ran.steps[3].index, 3);
    assert!(!ran.interrupted && ran.skipped.is_empty());
}

#[test]
fn steps_are_judged_with_their_neighbours() {
    let mut apparatus = DoubleApparatus::new(|_| Costs {
        client_us: 1.0,
        server_us: 5.0,
    });
    let ran = run(&study(), Size::Smoke, &mut apparatus);
    let walls: Vec<Wall> = ran
        .steps
        .iter()
        .map(|step| step.verdict.as_ref().unwrap().wall)
        .collect();
    assert_eq!(walls[0], Wall::Concurrency);
    assert_eq!(walls[1], Wall::ServerCpu);
}

#[test]
fn a_step_that_fails_leaves_the_others_running() {
    let mut apparatus = apparatus();
    apparatus.failing.push("simple/engine/c1".to_owned());
    let ran = run(&study(), Size::Smoke, &mut apparatus);
    assert_eq!(ran.steps.len(), 3);
    assert_eq!(ran.skipped[0].label, "simple/engine/c1");
    assert_eq!(ran.skipped[0].why, "it exploded");
    assert_eq!(ran.claims[0].outcome, Outcome::Confirmed);
}

#[test]
fn a_subject_that_does_not_start_is_the_reason_of_every_open_claim() {
    let mut apparatus = apparatus();
    apparatus.dead_subjects.push("catalogue".to_owned());
    let ran = run(&study(), Size::Smoke, &mut apparatus);
    assert_eq!((ran.steps.len(), ran.skipped.len()), (0, 4));
    assert_eq!(ran.claims[0].outcome, Outcome::Open);
    assert!(ran.claims[0].because.contains("port 8083 is taken"));
    assert!(
        !apparatus.log.contains(&"stop".to_owned()),
        "nothing runs that could be stopped"
    );
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_stops_the_subject() {
    let mut apparatus = apparatus();
    apparatus.interrupt_at = Some("simple/wrk/c1".to_owned());
    let ran = run(&study(), Size::Smoke, &mut apparatus);
    assert!(ran.interrupted);
    assert_eq!((ran.steps.len(), ran.skipped.len()), (2, 2));
    assert_eq!(apparatus.log.last().unwrap(), "stop");
    assert!(!apparatus.log.contains(&"run simple/wrk/c10".to_owned()));
}

#[test]
fn a_run_that_was_cut_short_goes_on_where_it_ended() {
    let mut cut = apparatus();
    cut.interrupt_at = Some("simple/wrk/c1".to_owned());
    let before = run(&study(), Size::Smoke, &mut cut).steps;
    let mut rest = apparatus();
    let resumed = resume(&study(), Size::Smoke, &mut rest, before.clone());
    assert_eq!(
        rest.log,
        [
            "ask engine",
            "ask wrk",
            "start catalogue",
            "take simple/engine/c1",
            "take simple/engine/c10",
            "run simple/wrk/c1",
            "run simple/wrk/c10",
            "stop",
        ]
    );
    let whole = run(&study(), Size::Smoke, &mut apparatus());
    assert_eq!(resumed.steps, whole.steps);
    assert_eq!(resumed.claims, whole.claims);
    // Nothing is left to run: nothing is started.
    let mut none = apparatus();
    let all = resume(&study(), Size::Smoke, &mut none, whole.steps.clone());
    assert_eq!(all.steps, whole.steps);
    assert!(!none.log.contains(&"start catalogue".to_owned()));
}

#[test]
fn what_was_disturbed_is_taken_over_beside_what_was_measured_again() {
    let disturbed = || {
        let mut apparatus = apparatus();
        apparatus.others_on_client = 0.6;
        apparatus.disturbed = vec!["simple/engine/c10".to_owned()];
        apparatus.disturbed_for = 1;
        apparatus
    };
    let whole = run(&study(), Size::Smoke, &mut disturbed());
    assert_eq!(whole.steps[1].name, "simple/engine/c10/disturbed1");
    // As a journal has them: what a run makes of them at its end is not there yet.
    let mut journalled = whole.steps[..3].to_vec();
    for step in &mut journalled {
        step.name = wallfinder_study::label_of(step).to_owned();
        (step.cell, step.verdict) = (None, None);
        step.caveats.clear();
    }
    let resumed = resume(&study(), Size::Smoke, &mut disturbed(), journalled);
    assert_eq!(resumed.steps, whole.steps);
    // One that was to be measured again, and was not, is measured.
    let mut alone = disturbed();
    let again = resume(&study(), Size::Smoke, &mut alone, whole.steps[..2].to_vec());
    assert!(alone.log.contains(&"run simple/engine/c10".to_owned()));
    assert_eq!(again.steps.len(), 5);
}

#[test]
fn a_record_can_be_judged_again_by_the_names_of_its_steps() {
    let ran = run(&study(), Size::Smoke, &mut apparatus());
    let again = claims::judge(&study(), Size::Smoke, &ran.steps, &ran.skipped);
    assert_eq!(again.outcomes, ran.claims);
}

#[test]
fn only_steps_that_ask_for_it_are_calibrated() {
    let text = SMALL.replace("window = \"1s\"", "window = \"1s\"\ncalibrate = true");
    let study = Study::parse("my.toml", &text).unwrap();
    let ran = run(&study, Size::Smoke, &mut apparatus());
    let with: Vec<bool> = ran
        .steps
        .iter()
        .map(|step| step.ceiling.is_some())
        .collect();
    assert_eq!(
        with,
        [true, true, false, false],
        "a foreign driver has no workers"
    );
}

/// A second subject, whose link's rate is decided by two groups of the first.
fn between() -> String {
    let group = |id: &str, subject: &str, path: &str, rounds: u32| {
        format!(
            r#"
[[group]]
id = "{id}"
subject = "{subject}"
path = "{path}"

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
connections = [100]
rounds = {rounds}
warmup = "100ms"
window = "1s"
"#
        )
    };
    let groups = [
        group("simple", "catalogue", "/simple", 1),
        group("slow", "catalogue", "/slow", 1),
        group("narrow", "narrow", "/simple", 2),
    ];
    let subject = r#"[[subject]]
name = "narrow"
command = ["catalogue"]
port = 8083
link = "between,mtu=9001"
link_between = ["simple", "slow"]

[[driver]]
name = "engine"
"#;
    let head = SMALL.split("[[group]]").next().unwrap();
    let claim = SMALL.split("[[claim]]").nth(1).unwrap();
    let text = format!("{head}{}\n[[claim]]{claim}", groups.concat());
    text.replacen("[[driver]]\nname = \"engine\"\n", subject, 1)
}

#[test]
fn a_link_lies_between_what_two_groups_fill_and_stays_there() {
    let mut apparatus = DoubleApparatus::new(|step| Costs {
        client_us: 0.5,
        server_us: if step.path == "/slow" { 20.0 } else { 5.0 },
    });
    let study = Study::parse("my.toml", &between()).unwrap();
    let ran = run(&study, Size::Smoke, &mut apparatus);
    assert_eq!(ran.skipped, []);
    // 124 B for each answer, 200,000/s of one and 50,000/s of the other: 100,000/s would be 99 Mbit/s.
    let links: Vec<&str> = apparatus
        .log
        .iter()
        .filter_map(|line| line.strip_prefix("start narrow on "))
        .collect();
    let mbit = |link: &str| -> f64 {
        let rate = link.strip_suffix("mbit,mtu=9001").unwrap();
        rate.parse().unwrap()
    };
    assert_eq!(links.len(), 2);
    assert!((mbit(links[0]) / 99.0 - 1.0).abs() < 0.1, "{links:?}");
    assert_eq!(links[0], links[1]);
}

#[test]
fn a_link_that_nothing_decides_is_not_laid() {
    let mut apparatus = apparatus();
    apparatus.failing.push("slow/engine/c100".to_owned());
    let study = Study::parse("my.toml", &between()).unwrap();
    let ran = run(&study, Size::Smoke, &mut apparatus);
    let left_out = ran
        .skipped
        .iter()
        .find(|step| step.label.starts_with("narrow"));
    let why = &left_out.unwrap().why;
    assert!(why.contains("`slow`") && why.contains("nothing"), "{why}");
    assert!(
        !apparatus
            .log
            .iter()
            .any(|line| line.starts_with("start narrow"))
    );
}

#[test]
fn a_link_between_is_refused_where_it_cannot_be_settled() {
    let refused = |from: &str, to: &str| {
        let text = between().replacen(from, to, 1);
        let error = Study::parse("my.toml", &text).expect_err("it is wrong");
        error.message().to_owned()
    };
    let groups = r#"link_between = ["simple", "slow"]"#;
    assert!(refused(groups, "").contains("needs link_between"));
    assert!(refused("between,mtu", "1gbit,mtu").contains("is spelt `between`"));
    assert!(refused(groups, r#"link_between = ["fast"]"#).contains("no group `fast`"));
    assert!(refused(groups, r#"link_between = ["narrow"]"#).contains("not before this one"));
}
