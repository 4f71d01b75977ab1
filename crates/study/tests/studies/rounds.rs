//! Cells that are run several times over, and what their rounds say.

use std::collections::BTreeSet;

use wallfinder_model::record::{ClaimOutcome, Outcome};
use wallfinder_study::{Ran, Size, Study, StudyStep, builtin, run};

use crate::double::{Costs, DoubleApparatus};

/// Two protocols, two sizes, three rounds.
const CELLS: &str = r#"schema = "wallfinder.study/1"
id = "cells"
title = "Cells"
source = "a page"
question = "Which?"
method = "So."

[[subject]]
name = "plain"
command = ["echo"]
port = 8084

[[subject]]
name = "rpc"
command = ["echo", "--protocol", "grpc"]
port = 8084

[[driver]]
name = "engine"

[[driver]]
name = "few"
program = "echo-client"
arguments = ["--semaphore", "5"]

[[group]]
id = "plain"
subject = "plain"
speaks = "framed"

[[group.run]]
sizes = ["smoke"]
drivers = ["engine", "few"]
payload = [64, 1024]
clients = [1, 50]
rounds = 3
warmup = "10ms"
window = "1s"

[[group]]
id = "rpc"
subject = "rpc"
speaks = "grpc"
path = "/echo.Echo/Call"
clients_per_connection = 50

[[group.run]]
sizes = ["smoke"]
drivers = ["engine"]
payload = [64, 1024]
clients = [1, 50]
rounds = 3
warmup = "10ms"
window = "1s"
"#;

fn judged(claims: &str, cost: fn(&StudyStep) -> f64) -> Vec<ClaimOutcome> {
    let study = Study::parse("my.toml", &format!("{CELLS}{claims}"))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut apparatus = DoubleApparatus::new(move |step| Costs {
        client_us: 0.5,
        server_us: cost(step),
    });
    let ran = run(&study, Size::Smoke, &mut apparatus);
    assert_eq!(ran.faults, Vec::<String>::new());
    ran.claims
}

fn claim(confirmed: &str, contradicted: &str) -> String {
    format!(
        r#"[[claim]]
id = "claim"
claim = "So it is"
source = "a page"
let.rpc = 'rounds("rpc", "engine", 1024, 50).map(s, s.throughput)'
let.plain = 'rounds("plain", "engine", 1024, 50).map(s, s.throughput)'
confirmed = '{confirmed}'
contradicted = '{contradicted}'
because = "{{ratio(plain, rpc) | times}} [{{ratio_low(plain, rpc) | times}}, {{ratio_high(plain, rpc) | times}}]"
"#
    )
}

#[test]
fn a_round_runs_every_cell_once_and_begins_with_another_subject() {
    let study = Study::parse("my.toml", CELLS).unwrap();
    let steps = study.expand(Size::Smoke);
    assert_eq!(steps.len(), 3 * 12);
    let labels: BTreeSet<&str> = steps.iter().map(|step| step.label.as_str()).collect();
    assert_eq!(labels.len(), steps.len());
    assert_eq!(steps[0].label, "plain/engine/64B/c1/round1");
    let order: Vec<(u32, &str)> = steps
        .chunk_by(|a, b| (a.round, &a.subject) == (b.round, &b.subject))
        .map(|block| (block[0].round, block[0].subject.as_str()))
        .collect();
    assert_eq!(
        order,
        [
            (1, "plain"),
            (1, "rpc"),
            (2, "rpc"),
            (2, "plain"),
            (3, "plain"),
            (3, "rpc")
        ]
    );
}

#[test]
fn groups_of_a_subject_take_turns_in_being_first() {
    let study = builtin::find("lock").unwrap().study().unwrap();
    let steps = study.expand(Size::Demo);
    let of = |round: u32| -> Vec<&str> {
        let is_its = |step: &&StudyStep| step.subject == "unobserved" && step.round == round;
        let its = steps.iter().filter(is_its);
        its.map(|step| step.group.as_str()).collect()
    };
    let (before, after) = ("before-unobserved", "after-unobserved");
    assert_eq!(of(1), [before, after]);
    assert_eq!(of(2), [after, before]);
    assert_eq!(of(3), of(1));
}

#[test]
fn a_subject_is_started_anew_in_every_round() {
    let study = Study::parse("my.toml", CELLS).unwrap();
    let mut apparatus = DoubleApparatus::new(|_| Costs {
        client_us: 1.0,
        server_us: 1.0,
    });
    run(&study, Size::Smoke, &mut apparatus);
    let starts = |line: &&String| line.starts_with("start");
    assert_eq!(apparatus.log.iter().filter(starts).count(), 6);
}

#[test]
fn clients_share_connections_where_the_group_says_so() {
    let study = Study::parse("my.toml", CELLS).unwrap();
    let shape = |group: &str| -> Vec<(u32, u32)> {
        let steps = study.expand(Size::Smoke);
        let of = steps.iter().filter(|step| {
            step.group == group && step.driver.is_engine() && step.payload == Some(64)
        });
        of.filter(|step| step.round == 1)
            .map(|step| (step.load.connections, step.load.in_flight_per_connection))
            .collect()
    };
    assert_eq!(shape("plain"), [(1, 1), (50, 1)]);
    assert_eq!(shape("rpc"), [(1, 1), (1, 50)]);
}

#[test]
fn a_ratio_holds_against_what_all_rounds_drift_by() {
    // The machine slows by half from round to round; one takes twice the other's time.
    let drifting = |step: &StudyStep| {
        let own = if step.group == "rpc" { 200.0 } else { 100.0 };
        own * 1.5f64.powi(step.round as i32)
    };
    let claims = judged(
        &claim(
            "ratio_low(plain, rpc) > 1.9",
            "ratio_high(plain, rpc) < 1.9",
        ),
        drifting,
    );
    assert_eq!(
        claims[0].outcome,
        Outcome::Confirmed,
        "{}",
        claims[0].because
    );
    assert!(
        claims[0].because.starts_with("2.00 ×"),
        "{}",
        claims[0].because
    );
}

#[test]
fn rounds_that_disagree_leave_a_claim_open() {
    let moody = |step: &StudyStep| match (step.group.as_str(), step.round) {
        ("rpc", 2) => 400.0,
        _ => 100.0,
    };
    let claims = judged(
        &claim(
            "ratio_low(plain, rpc) > 1.1",
            "ratio_high(plain, rpc) < 1.1",
        ),
        moody,
    );
    assert_eq!(claims[0].outcome, Outcome::Open, "{}", claims[0].because);
}

#[test]
fn a_driver_has_a_name_of_its_own_beside_its_program() {
    let study = Study::parse("my.toml", CELLS).unwrap();
    let few = study.driver("few").unwrap();
    assert_eq!(few.program, "echo-client");
    assert_eq!(study.driver("engine").unwrap().program, "engine");
}

#[test]
fn the_protocol_study_makes_the_sources_counts() {
    let study = builtin::find("protocols").unwrap().study().unwrap();
    let counted: Vec<StudyStep> = study
        .expand(Size::Full)
        .into_iter()
        .filter(|step| step.load.stop.requests.is_some())
        .collect();
    assert_eq!(counted.len(), 75);
    let requests = counted.iter().filter_map(|step| step.load.stop.requests);
    assert_eq!(requests.sum::<u64>(), 9_915_000);
    assert!(
        counted
            .iter()
            .all(|step| step.samples && step.driver.is_engine())
    );
}

/// What comes of a claim where others disturbed some steps, and went on when they were measured again.
fn disturbed(rounds: u32, labels: &[&str]) -> ClaimOutcome {
    with_others(rounds, labels, usize::MAX).0.claims.remove(0)
}

#[test]
fn disturbed_rounds_are_left_out_of_all_cells_where_enough_are_left() {
    let one = ["plain/engine/1024B/c50/round2"];
    let without = disturbed(6, &one);
    assert_eq!(without.outcome, Outcome::Confirmed, "{}", without.because);
    assert!(
        without
            .because
            .ends_with("(without round 2, which was disturbed)"),
        "{}",
        without.because
    );
    // Four are too few.
    let few = disturbed(5, &one);
    assert_eq!(few.outcome, Outcome::Open);
    assert!(few.because.contains("was disturbed"), "{}", few.because);
    // And so are two of three.
    let many = [
        "rpc/engine/1024B/c50/round1",
        one[0],
        "plain/engine/1024B/c50/round5",
    ];
    assert_eq!(disturbed(8, &many).outcome, Outcome::Open);
    let two = disturbed(8, &many[..2]);
    assert_eq!(two.outcome, Outcome::Confirmed, "{}", two.because);
    assert!(
        two.because.contains("without rounds 1, 2"),
        "{}",
        two.because
    );
    // What the claim does not look at does not matter to it.
    let elsewhere = disturbed(6, &["plain/engine/64B/c1/round2"]);
    assert!(
        !elsewhere.because.contains("without"),
        "{}",
        elsewhere.because
    );
}

/// A study of so many rounds on a machine on which others disturb these steps so often.
fn with_others(rounds: u32, labels: &[&str], times: usize) -> (Ran, Vec<String>) {
    let claim = claim("ratio(plain, rpc) > 1.5", "ratio(plain, rpc) < 1.5");
    of_rounds(rounds, &claim, |apparatus| {
        apparatus.others_on_client = 0.6;
        apparatus.disturbed = owned(labels);
        apparatus.disturbed_for = times;
    })
}

/// A study of so many rounds with a claim, on a machine that was prepared for it.
fn of_rounds(
    rounds: u32,
    claim: &str,
    prepare: impl FnOnce(&mut DoubleApparatus),
) -> (Ran, Vec<String>) {
    let text = CELLS.replace("rounds = 3", &format!("rounds = {rounds}"));
    let study = Study::parse("my.toml", &format!("{text}{claim}"))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut apparatus = DoubleApparatus::new(|step| Costs {
        client_us: 0.5,
        server_us: if step.group == "rpc" { 20.0 } else { 10.0 },
    });
    prepare(&mut apparatus);
    let ran = run(&study, Size::Smoke, &mut apparatus);
    assert_eq!(ran.faults, Vec::<String>::new());
    (ran, apparatus.log)
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// What comes of a claim about numbers where others disturb one step of six rounds.
fn numbers(mine: &str, disturbed: &str) -> ClaimOutcome {
    let claim = format!(
        r#"[[claim]]
id = "claim"
claim = "So it is"
source = "a page"
let.mine = '{mine}'
confirmed = 'min(mine) > 1000'
contradicted = 'min(mine) < 500'
because = "{{size(mine)}} numbers"
"#
    );
    let (mut ran, _) = of_rounds(6, &claim, |apparatus| {
        apparatus.others_on_client = 0.6;
        apparatus.disturbed = owned(&[disturbed]);
    });
    ran.claims.remove(0)
}

#[test]
fn a_filter_of_a_ramp_looks_at_the_steps_that_pass_it() {
    let of_size = |bytes: u32| {
        format!(r#"ramp("plain", "engine").filter(s, s.payload == {bytes}.0).map(s, s.throughput)"#)
    };
    let disturbed = "plain/engine/1024B/c50/round2";
    // Another size: all twelve of its steps stand.
    let elsewhere = numbers(&of_size(64), disturbed);
    assert_eq!(elsewhere.outcome, Outcome::Confirmed);
    assert_eq!(elsewhere.because, "12 numbers");
    // Its own: both cells do without the round.
    let here = numbers(&of_size(1024), disturbed);
    assert_eq!(here.outcome, Outcome::Confirmed, "{}", here.because);
    assert_eq!(
        here.because,
        "10 numbers (without round 2, which was disturbed)"
    );
}

#[test]
fn a_filter_by_what_was_measured_looks_at_all_of_a_ramp() {
    let fast = r#"ramp("plain", "engine").filter(s, s.throughput > 1.0).map(s, s.throughput)"#;
    let found = numbers(fast, "plain/engine/1024B/c50/round2");
    assert_eq!(found.outcome, Outcome::Confirmed, "{}", found.because);
    assert_eq!(
        found.because,
        "20 numbers (without round 2, which was disturbed)"
    );
}

#[test]
fn a_round_that_a_claim_names_is_not_left_out() {
    let first = r#"ramp("plain", "engine").filter(s, s.payload == 64.0 && s.round == 1.0).map(s, s.throughput)"#;
    let named = numbers(first, "plain/engine/64B/c50/round1");
    assert_eq!(named.outcome, Outcome::Open);
    assert!(named.because.contains("was disturbed"), "{}", named.because);
    assert!(named.because.contains("2 numbers"), "{}", named.because);
    let other = numbers(first, "plain/engine/64B/c50/round2");
    assert_eq!(other.outcome, Outcome::Confirmed, "{}", other.because);
    assert_eq!(other.because, "2 numbers");
}

#[test]
fn who_asks_for_sizes_and_clients_looks_at_no_step() {
    let plan =
        r#"(sizes_of("plain", "engine", 50) + clients_of("plain", "engine", 64)).map(n, n + 1000)"#;
    let asked = numbers(plan, "plain/engine/64B/c50/round1");
    assert_eq!(asked.outcome, Outcome::Confirmed, "{}", asked.because);
    assert_eq!(asked.because, "4 numbers");
    // What it has of them is judged without the round, be it the first.
    let sizes = r#"sizes_of("plain", "engine", 50).map(p, mean(rounds("plain", "engine", p, 50).map(s, s.throughput)))"#;
    let used = numbers(sizes, "plain/engine/64B/c50/round1");
    assert_eq!(used.outcome, Outcome::Confirmed, "{}", used.because);
    assert_eq!(
        used.because,
        "2 numbers (without round 1, which was disturbed)"
    );
}

#[test]
fn sizes_and_clients_are_those_that_were_run() {
    let claim = r#"[[claim]]
id = "claim"
claim = "So it is"
source = "a page"
let.fits = 'sizes_of("plain", "engine", 1) == [64, 1024] && clients_of("rpc", "engine", 64) == [1, 50]'
confirmed = 'fits'
contradicted = '!fits'
because = ""

[[claim]]
id = "seven"
claim = "There are seven"
source = "a page"
confirmed = 'size(sizes_of("plain", "engine", 7)) > 0'
contradicted = 'size(sizes_of("plain", "engine", 7)) == 0'
because = ""
"#;
    let refused = Study::parse("my.toml", &format!("{CELLS}{claim}"));
    let why = refused.expect_err("nobody has seven clients").to_string();
    assert!(why.contains("at 7 clients was not run"), "{why}");
    let (first, _) = claim.split_once("\n[[claim]]").unwrap();
    let (ran, _) = of_rounds(2, first, |_| {});
    assert_eq!(ran.claims[0].outcome, Outcome::Confirmed);
}

#[test]
fn cells_that_lack_different_rounds_are_not_paired() {
    let lacking = |labels: &[&str]| {
        let claim = claim("ratio(plain, rpc) > 1.5", "ratio(plain, rpc) < 1.5");
        let (mut ran, _) = of_rounds(6, &claim, |apparatus| apparatus.failing = owned(labels));
        ran.claims.remove(0)
    };
    let (plain, rpc) = ("plain/engine/1024B/c50", "rpc/engine/1024B/c50");
    let different = lacking(&[&format!("{plain}/round2"), &format!("{rpc}/round3")]);
    assert_eq!(different.outcome, Outcome::Open);
    assert!(
        different.because.contains("lack different rounds"),
        "{}",
        different.because
    );
    let same = lacking(&[&format!("{plain}/round2"), &format!("{rpc}/round2")]);
    assert_eq!(same.outcome, Outcome::Confirmed, "{}", same.because);
}

#[test]
fn a_disturbed_step_is_measured_again_and_kept_beside_what_counts() {
    let label = "plain/engine/1024B/c50/round2";
    let (ran, log) = with_others(5, &[label], 1);
    let times = |label: &str| {
        let line = format!("run {label}");
        log.iter().filter(|said| **said == line).count()
    };
    assert_eq!(times(label), 2);
    let named = |name: &str| ran.steps.iter().find(|step| step.name == name);
    let calm = named(label).expect("it was measured again");
    let first = named(&format!("{label}/disturbed1")).expect("nothing is lost");
    assert_eq!(calm.index, first.index + 1);
    assert!(calm.cell.is_some() && first.cell.is_none());
    assert!(first.measured_again() && !calm.measured_again());
    let indices = ran.steps.iter().map(|step| step.index);
    assert!(indices.eq(0..ran.steps.len() as u32));
    let claim = &ran.claims[0];
    assert_eq!(claim.outcome, Outcome::Confirmed, "{}", claim.because);
    assert!(!claim.because.contains("disturbed"), "{}", claim.because);
}

#[test]
fn what_is_disturbed_each_time_is_not_measured_again_without_end() {
    let labels: Vec<String> = (1..=6)
        .map(|round| format!("plain/engine/1024B/c50/round{round}"))
        .collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let (ran, log) = with_others(6, &labels, usize::MAX);
    let times: Vec<usize> = labels
        .iter()
        .map(|label| {
            let line = format!("run {label}");
            log.iter().filter(|said| **said == line).count()
        })
        .collect();
    assert_eq!(times, [3, 3, 1, 1, 1, 1]);
    assert_eq!(ran.claims[0].outcome, Outcome::Open);
}
