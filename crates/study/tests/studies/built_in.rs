//! What claims of the built-in studies rest on: each is held against data shaped like its cause, and
//! against data shaped like another.

use std::collections::BTreeMap;

use wallfinder_model::record::Outcome;
use wallfinder_study::{Size, StudyStep, builtin, run};

use crate::double::{Costs, DoubleApparatus};

/// What becomes of a study's claims where requests cost so much.
fn outcomes(name: &str, model: fn(&StudyStep) -> Costs) -> BTreeMap<String, Outcome> {
    let mut study = builtin::find(name).unwrap().study().unwrap();
    study.keep_parts(&[]).unwrap();
    let ran = run(&study, Size::Demo, &mut DoubleApparatus::new(model));
    assert_eq!(ran.faults, Vec::<String>::new());
    let claims = ran.claims.into_iter();
    claims.map(|claim| (claim.id, claim.outcome)).collect()
}

#[track_caller]
fn expect(found: &BTreeMap<String, Outcome>, expected: &[(&str, Outcome)]) {
    for (id, outcome) in expected {
        assert_eq!(found.get(*id), Some(outcome), "{id}");
    }
}

fn server(server_us: f64) -> Costs {
    Costs {
        client_us: 1.0,
        server_us,
    }
}

/// gRPC takes longer from so many bytes on.
fn grpc_steps_at(step: &StudyStep, bytes: u32) -> Costs {
    let is_above = step.group.starts_with("grpc") && step.payload >= Some(bytes);
    server(if is_above { 150.0 } else { 50.0 })
}

#[test]
fn a_step_is_the_tiers_where_its_byte_has_most_of_it() {
    let at_tier = outcomes("size-sweep", |step| grpc_steps_at(step, 32_737));
    expect(
        &at_tier,
        &[
            ("step-at-pool-tier", Outcome::Confirmed),
            ("tier-carries-the-sweep", Outcome::Confirmed),
            ("tier-explains-the-jump", Outcome::Confirmed),
            ("step-at-third-frame", Outcome::Contradicted),
            ("tcp-does-not-step", Outcome::Confirmed),
            ("rest-does-not-step", Outcome::Confirmed),
        ],
    );
    let at_frame = outcomes("size-sweep", |step| grpc_steps_at(step, 32_732));
    expect(
        &at_frame,
        &[
            ("step-at-pool-tier", Outcome::Contradicted),
            ("tier-carries-the-sweep", Outcome::Contradicted),
            ("tier-explains-the-jump", Outcome::Contradicted),
            ("step-at-third-frame", Outcome::Confirmed),
        ],
    );
    // The byte after the tier's is another place.
    let after = outcomes("size-sweep", |step| grpc_steps_at(step, 32_738));
    expect(&after, &[("step-at-pool-tier", Outcome::Contradicted)]);
}

/// All take longer from the tier's byte on.
fn all_step(step: &StudyStep) -> Costs {
    let is_above = step.payload >= Some(32_737);
    server(if is_above { 150.0 } else { 50.0 })
}

#[test]
fn what_tcp_does_as_well_is_no_step_of_grpcs() {
    let found = outcomes("size-sweep", all_step);
    expect(
        &found,
        &[
            ("tcp-does-not-step", Outcome::Contradicted),
            ("rest-does-not-step", Outcome::Contradicted),
            ("tcp-does-not-jump/echo-client", Outcome::Contradicted),
        ],
    );
}

/// REST alone, from 2 KB on.
fn is_large_rest(step: &StudyStep) -> bool {
    step.group == "rest" && step.payload >= Some(2_048)
}

fn rest_rises(step: &StudyStep) -> Costs {
    server(if is_large_rest(step) { 150.0 } else { 50.0 })
}

fn rest_falls(step: &StudyStep) -> Costs {
    server(if is_large_rest(step) { 50.0 } else { 150.0 })
}

#[test]
fn a_crossover_is_gradual_where_no_size_changes_much_up_or_down() {
    const GRADUAL: &str = "first-crossover-is-gradual/echo-client";
    let alike = outcomes("size-sweep", |_| server(50.0));
    expect(&alike, &[(GRADUAL, Outcome::Confirmed)]);
    for model in [rest_rises, rest_falls] {
        let found = outcomes("size-sweep", model);
        expect(&found, &[(GRADUAL, Outcome::Contradicted)]);
    }
}

/// As the source has it where no call is watched, and alike where calls are.
fn unlike_where_plain(step: &StudyStep) -> Costs {
    let us = match step.group.as_str() {
        "tcp-plain" => 10.0,
        "rest-plain" => 24.0,
        "grpc-plain" => 28.0,
        _ => 50.0,
    };
    Costs {
        client_us: us,
        server_us: us,
    }
}

#[test]
fn time_is_judged_where_no_call_is_watched() {
    let found = outcomes("anatomy", unlike_where_plain);
    expect(
        &found,
        &[
            ("cpu-time", Outcome::Confirmed),
            ("server-pays-alike", Outcome::Confirmed),
            // Stacks are not taken there.
            ("stacks-have-names", Outcome::Confirmed),
            // Nor were events counted.
            ("instructions", Outcome::Open),
            ("cycles", Outcome::Open),
            // A tenth of all requests wait for a lock there, and 13 in 100 call futex.
            ("futexes-are-locks", Outcome::Confirmed),
        ],
    );
}

#[test]
fn one_processor_tells_nothing_of_a_locks_wall() {
    let found = outcomes("lock", |_| server(20.0));
    expect(
        &found,
        &[
            ("lock-is-not-the-wall", Outcome::Open),
            // Half a goroutine waits in the profiles of the double.
            ("goroutines-waiting", Outcome::Contradicted),
        ],
    );
}
