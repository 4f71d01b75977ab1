//! The client-ceiling study on data shaped like each of its outcomes.

use std::collections::BTreeMap;

use wallfinder_model::record::Outcome;
use wallfinder_study::{Ran, Size, StudyStep, builtin, run};

use crate::double::{Costs, DoubleApparatus};

fn outcomes(ran: &Ran) -> BTreeMap<String, Outcome> {
    assert_eq!(ran.faults, Vec::<String>::new());
    for claim in &ran.claims {
        assert!(!claim.because.is_empty(), "{}", claim.id);
    }
    ran.claims
        .iter()
        .map(|claim| (claim.id.clone(), claim.outcome))
        .collect()
}

fn run_with(apparatus: DoubleApparatus, size: Size) -> Ran {
    let study = builtin::find("client-ceiling").unwrap().study().unwrap();
    let mut apparatus = apparatus;
    run(&study, size, &mut apparatus)
}

#[track_caller]
fn expect(outcomes: &BTreeMap<String, Outcome>, ids: &[&str], outcome: Outcome) {
    for id in ids {
        assert_eq!(outcomes.get(*id), Some(&outcome), "{id}");
    }
}

/// Costs as the source states them: 1.5 µs for the server, 12 µs for any client.
fn as_the_source_says(step: &StudyStep) -> Costs {
    Costs {
        client_us: 12.0,
        server_us: if step.path == "/compute" { 600.0 } else { 1.5 },
    }
}

/// A lean engine beside a heavy client, and a server cheaper than the one and dearer than
/// the other.
fn as_a_lean_engine_finds(step: &StudyStep) -> Costs {
    Costs {
        client_us: match step.driver.name.as_str() {
            "engine" => 0.2,
            "autocannon" => 8.5,
            _ => 0.5,
        },
        server_us: if step.path == "/compute" { 66.0 } else { 3.2 },
    }
}

const OF_THE_SOURCE: [(&str, Outcome); 12] = [
    ("server-cost-source", Outcome::Contradicted),
    ("client-cost-source", Outcome::Contradicted),
    ("client-to-server-source", Outcome::Contradicted),
    ("client-ceiling-source", Outcome::Contradicted),
    ("compute-cost-source", Outcome::Contradicted),
    ("compute-serialises-source", Outcome::Contradicted),
    ("little-p50-source", Outcome::Contradicted),
    ("link-share-source", Outcome::Confirmed),
    ("drop-is-latency-source", Outcome::Open),
    ("queue-per-worker-source", Outcome::Confirmed),
    ("server-busy-source", Outcome::Contradicted),
    ("compute-busy-source", Outcome::Contradicted),
];

#[test]
fn the_sources_figures_are_judged_by_themselves_whatever_was_measured() {
    for model in [as_the_source_says, as_a_lean_engine_finds] {
        let ran = run_with(DoubleApparatus::new(model), Size::Smoke);
        let found = outcomes(&ran);
        for (id, outcome) in OF_THE_SOURCE {
            expect(&found, &[id], outcome);
        }
        let because = |id: &str| {
            let claim = ran.claims.iter().find(|claim| claim.id == id).unwrap();
            claim.because.clone()
        };
        assert_eq!(
            because("server-cost-source"),
            "44 % of 128 cores over 18,164,736/s is 3.1 µs"
        );
        assert!(because("client-cost-source").ends_with("is 6.76 µs"));
        assert!(because("compute-cost-source").ends_with("is 66.8 µs"));
        assert!(because("compute-serialises-source").contains("524 bytes"));
        assert!(because("little-p50-source").contains("1.38, 1.28, 1.09"));
    }
}

#[test]
fn on_data_like_the_sources_words_its_claims_are_confirmed() {
    let ran = run_with(DoubleApparatus::new(as_the_source_says), Size::Full);
    let found = outcomes(&ran);
    let unmeasured = |text: &str| text.contains("not measured");
    assert!(ran.claims.iter().all(|claim| !unmeasured(&claim.because)));
    for driver in ["engine", "autocannon", "wrk", "h2load"] {
        for id in [
            "simple-client-bound",
            "compute-server-bound",
            "compute-past-knee",
            "client-cost-here",
        ] {
            expect(&found, &[&format!("{id}/{driver}")], Outcome::Confirmed);
        }
        expect(
            &found,
            &[&format!("client-to-server-here/{driver}")],
            Outcome::Confirmed,
        );
        expect(
            &found,
            &[&format!("simple-drop/{driver}")],
            Outcome::Contradicted,
        );
    }
    expect(
        &found,
        &[
            "no-client-fixes-it",
            "compute-client-irrelevant",
            "simple-past-knee/engine",
            "simple-past-knee/autocannon",
            "server-cost-here",
            "compute-cost-here",
            "little-mean",
        ],
        Outcome::Confirmed,
    );
    expect(
        &found,
        &["engine-has-room", "little-p50"],
        Outcome::Contradicted,
    );
}

#[test]
fn on_data_of_a_lean_engine_the_sources_conclusion_is_contradicted() {
    let ran = run_with(DoubleApparatus::new(as_a_lean_engine_finds), Size::Full);
    let found = outcomes(&ran);
    expect(
        &found,
        &[
            "simple-client-bound/engine",
            "simple-client-bound/wrk",
            "no-client-fixes-it",
            "client-cost-here/engine",
            "client-to-server-here/engine",
            "client-to-server-here/autocannon",
            "compute-cost-here",
            "server-cost-here",
        ],
        Outcome::Contradicted,
    );
    expect(
        &found,
        &[
            "simple-client-bound/autocannon",
            "compute-server-bound/engine",
            "compute-server-bound/autocannon",
            "engine-has-room",
            "compute-client-irrelevant",
            "little-mean",
        ],
        Outcome::Confirmed,
    );
    // 8.4 µs is neither 10 to 20 within a tenth nor a quarter off.
    expect(&found, &["client-cost-here/autocannon"], Outcome::Open);
}

#[test]
fn without_other_drivers_their_claims_are_open_and_say_why() {
    let ran = run_with(
        DoubleApparatus::new(as_a_lean_engine_finds).engine_alone(),
        Size::Demo,
    );
    let found = outcomes(&ran);
    for id in [
        "simple-client-bound",
        "compute-server-bound",
        "client-cost-here",
    ] {
        expect(&found, &[&format!("{id}/autocannon")], Outcome::Open);
    }
    expect(&found, &["compute-client-irrelevant"], Outcome::Open);
    let reason = |id: &str| {
        let claim = ran.claims.iter().find(|claim| claim.id == id).unwrap();
        claim.because.clone()
    };
    assert_eq!(
        reason("simple-client-bound/autocannon"),
        "`simple-deep-100` did not run with autocannon: not installed"
    );
    // A driver that the size does not run is another size's to judge.
    assert!(
        !found.iter().any(|(id, _)| id.ends_with("/wrk")),
        "{found:?}"
    );
    // The engine alone can already contradict that no client fixes it.
    expect(&found, &["no-client-fixes-it"], Outcome::Contradicted);
    assert_eq!(ran.skipped.len(), 33);
}

#[test]
fn one_client_bound_driver_alone_does_not_confirm_that_none_fixes_it() {
    let ran = run_with(
        DoubleApparatus::new(as_the_source_says).engine_alone(),
        Size::Demo,
    );
    expect(&outcomes(&ran), &["no-client-fixes-it"], Outcome::Open);
}

#[test]
fn a_drop_at_many_connections_is_told_by_driver() {
    let model = |step: &StudyStep| {
        let crowded = step.load.connections >= 5_000 && step.driver.name == "autocannon";
        Costs {
            client_us: if crowded { 20.0 } else { 7.0 },
            server_us: if step.path == "/compute" { 66.0 } else { 3.0 },
        }
    };
    let found = outcomes(&run_with(DoubleApparatus::new(model), Size::Full));
    expect(&found, &["simple-drop/autocannon"], Outcome::Confirmed);
    expect(&found, &["simple-drop/wrk"], Outcome::Contradicted);
}

#[test]
fn clients_that_differ_at_compute_contradict_that_they_are_irrelevant() {
    let model = |step: &StudyStep| Costs {
        client_us: if step.driver.name == "autocannon" {
            300.0
        } else {
            1.0
        },
        server_us: if step.path == "/compute" { 66.0 } else { 3.0 },
    };
    let found = outcomes(&run_with(DoubleApparatus::new(model), Size::Demo));
    expect(
        &found,
        &[
            "compute-client-irrelevant",
            "compute-server-bound/autocannon",
        ],
        Outcome::Contradicted,
    );
}

#[test]
fn a_symmetric_distribution_confirms_the_law_with_the_median_too() {
    let mut apparatus = DoubleApparatus::new(as_a_lean_engine_finds);
    apparatus.p50_share = 0.99;
    expect(
        &outcomes(&run_with(apparatus, Size::Demo)),
        &["little-p50"],
        Outcome::Confirmed,
    );
}

#[test]
fn a_noisy_machine_decides_costs_and_arithmetic_and_no_walls() {
    let mut apparatus = DoubleApparatus::new(as_a_lean_engine_finds);
    apparatus.others_on_client = 0.6;
    let found = outcomes(&run_with(apparatus, Size::Demo));
    expect(
        &found,
        &[
            "simple-client-bound/engine",
            "compute-server-bound/engine",
            "no-client-fixes-it",
            "compute-past-knee/engine",
        ],
        Outcome::Open,
    );
    expect(
        &found,
        &["server-cost-source", "client-cost-here/engine"],
        Outcome::Contradicted,
    );
}

#[test]
fn an_unseen_server_leaves_costs_open() {
    let mut apparatus = DoubleApparatus::new(as_a_lean_engine_finds);
    apparatus.server_seen = false;
    let found = outcomes(&run_with(apparatus, Size::Demo));
    expect(
        &found,
        &[
            "server-cost-here",
            "compute-cost-here",
            "client-to-server-here/engine",
        ],
        Outcome::Open,
    );
    expect(
        &found,
        &["simple-client-bound/engine", "no-client-fixes-it"],
        Outcome::Open,
    );
}
