//! A claim's outcome is what the data decide, and nothing else.

use wallfinder_model::Caveat;
use wallfinder_model::record::{ClaimOutcome, Outcome, Step};
use wallfinder_study::{Size, Study, claims, run, vocabulary};

use crate::double::{Costs, DoubleApparatus};
use crate::files::SMALL;

/// A server of this cost, under a client that costs nothing to speak of.
fn server(server_us: f64) -> DoubleApparatus {
    DoubleApparatus::new(move |_| Costs {
        client_us: 0.5,
        server_us,
    })
}

fn with_claim(claim: &str) -> Study {
    let start = SMALL.find("[[claim]]").unwrap();
    let text = format!("{}{claim}", &SMALL[..start]);
    Study::parse("my.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn judge(study: &Study, mut apparatus: DoubleApparatus) -> Vec<ClaimOutcome> {
    let ran = run(study, Size::Smoke, &mut apparatus);
    assert_eq!(ran.faults, Vec::<String>::new());
    ran.claims
}

#[test]
fn the_data_confirm_contradict_or_leave_open() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    for (cost_us, outcome, because) in [
        (500.0, Outcome::Confirmed, "2,000/s"),
        (4_000.0, Outcome::Contradicted, "250/s"),
        (1_333.3, Outcome::Open, "neither way: 750/s"),
    ] {
        let claims = judge(&study, server(cost_us));
        assert_eq!(claims[0].outcome, outcome);
        assert_eq!(claims[0].because, because);
        assert_eq!(claims[0].claim, "It is fast");
    }
}

#[test]
fn a_driver_that_is_missing_leaves_its_claims_open_and_says_so() {
    let study = with_claim(
        r#"[[claim]]
id = "fast"
claim = "It is fast with {driver}"
source = "a page"
for_each = ["engine", "wrk"]
confirmed = 'best("simple", driver).throughput > 1000'
contradicted = 'best("simple", driver).throughput < 500'
because = '{best("simple", driver).throughput | rate}/s'
"#,
    );
    let claims = judge(&study, server(500.0).engine_alone());
    assert_eq!(claims[0].id, "fast/engine");
    assert_eq!(claims[0].outcome, Outcome::Confirmed);
    assert_eq!(claims[1].id, "fast/wrk");
    assert_eq!(claims[1].claim, "It is fast with wrk");
    assert_eq!(claims[1].outcome, Outcome::Open);
    assert_eq!(
        claims[1].because,
        "`simple` did not run with wrk: not installed"
    );
}

#[test]
fn what_was_not_measured_leaves_a_claim_open_and_says_what() {
    let study = with_claim(
        r#"[[claim]]
id = "cheap"
claim = "It is cheap"
source = "a page"
let.us = 'best("simple", "engine").server.cpu_per_request_us'
confirmed = 'us < 600'
contradicted = 'us > 900'
because = '{us | us}'
"#,
    );
    let mut blind = server(500.0);
    blind.server_seen = false;
    let claims = judge(&study, blind);
    assert_eq!(claims[0].outcome, Outcome::Open);
    assert_eq!(claims[0].because, "`server` was not measured");
    assert_eq!(judge(&study, server(500.0))[0].outcome, Outcome::Confirmed);
}

#[test]
fn a_claim_that_lacks_what_it_needs_is_open_and_says_what() {
    let judged = |needs: &str, apparatus: DoubleApparatus| {
        let study = with_claim(&format!(
            r#"[[claim]]
id = "fast"
claim = "It is fast, loaded by several hosts"
source = "a page"
let.top = 'best("simple", "engine")'
needs = '{needs}'
confirmed = 'top.throughput > 1000'
contradicted = 'top.throughput < 500'
because = 'hosts that load it: {{top.client.hosts}}'
"#
        ));
        judge(&study, apparatus).remove(0)
    };
    let alone = judged("top.client.hosts >= 2", server(500.0));
    assert_eq!(alone.outcome, Outcome::Open);
    assert_eq!(alone.because, "something is lacking: hosts that load it: 1");
    let met = judged("top.client.hosts >= 1", server(500.0));
    assert_eq!(met.outcome, Outcome::Confirmed);
    assert_eq!(met.because, "hosts that load it: 1");
    // Whether it is met may itself not have been measured.
    let mut blind = server(500.0);
    blind.server_seen = false;
    let unknown = judged("top.server.cpus > 1", blind);
    assert_eq!(unknown.outcome, Outcome::Open);
    assert_eq!(unknown.because, "`server` was not measured");
}

#[test]
fn a_disturbed_step_leaves_a_claim_open_unless_it_does_not_mind() {
    let claim = |calm: &str| {
        with_claim(&format!(
            r#"[[claim]]
id = "fast"
claim = "It is fast"
source = "a page"
{calm}
confirmed = 'best("simple", "engine").throughput > 1000'
contradicted = 'best("simple", "engine").throughput < 500'
because = '{{best("simple", "engine").throughput | rate}}/s'
"#
        ))
    };
    let noisy = || {
        let mut apparatus = server(500.0);
        apparatus.others_on_client = 0.6;
        apparatus
    };
    let claims = judge(&claim(""), noisy());
    assert_eq!(claims[0].outcome, Outcome::Open);
    assert_eq!(
        claims[0].because,
        "`simple/engine/c1` was disturbed: others used 0.60 cores of the client's processors; else: 2,000/s"
    );
    assert_eq!(
        judge(&claim("calm = false"), noisy())[0].outcome,
        Outcome::Confirmed
    );
    assert_eq!(
        judge(&claim("calm = true"), server(500.0))[0].outcome,
        Outcome::Confirmed
    );
}

#[test]
fn what_others_did_is_told_before_what_a_step_itself_lets_doubt() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    let mut apparatus = server(500.0);
    apparatus.others_on_client = 0.6;
    apparatus.disturbed = vec!["simple/engine/c10".to_owned()];
    let mut steps = run(&study, Size::Smoke, &mut apparatus).steps;
    let first = steps
        .iter_mut()
        .find(|step| step.name == "simple/engine/c1");
    first.unwrap().caveats.push(Caveat::RelayBehind {
        delay_ns: 500_000,
        dropped: 0,
        late_p99_ns: 0,
        busy_share: 0.8,
    });
    let said = |steps: &[Step]| {
        let judged = claims::judge(&study, Size::Smoke, steps, &[]);
        judged.outcomes[0].because.clone()
    };
    let because = said(&steps);
    assert!(
        because.starts_with("`simple/engine/c10` was disturbed: others used"),
        "{because}"
    );
    steps.retain(|step| step.name != "simple/engine/c10");
    let because = said(&steps);
    let doubted = "`simple/engine/c1` was disturbed: its relay was behind, 80 % busy; else: ";
    assert!(because.starts_with(doubted), "{because}");
}

/// A claim of figures, or of none, with these conditions.
fn of_figures(figures: &str, confirmed: &str) -> Result<Study, String> {
    let start = SMALL.find("[[claim]]").unwrap();
    let text = format!(
        r#"{}[[claim]]
id = "arithmetic"
claim = "A quarter of them"
source = "a page"
{figures}
confirmed = '{confirmed}'
contradicted = '!({confirmed})'
because = "so it is"
"#,
        &SMALL[..start]
    );
    Study::parse("my.toml", &text).map_err(|error| error.to_string())
}

#[test]
fn figures_of_the_source_decide_a_claim_and_its_outcome_says_so() {
    let figures = "figures = { all = 8, some = [2, 4] }";
    for (confirmed, outcome) in [
        ("some[0] / all == 0.25", Outcome::Confirmed),
        ("some[1] / all == 0.25", Outcome::Contradicted),
    ] {
        let study = of_figures(figures, confirmed).unwrap();
        let found = judge(&study, server(500.0)).remove(0);
        assert_eq!((found.outcome, found.by_figures), (outcome, true));
    }
    let measured = Study::parse("my.toml", SMALL).unwrap();
    assert!(!judge(&measured, server(500.0))[0].by_figures);
}

#[test]
fn a_claim_is_of_figures_or_of_steps_and_never_of_neither_or_both() {
    let neither = of_figures("", "8 / 2 == 4").unwrap_err();
    assert!(neither.contains("looks at no step"), "{neither}");
    let both = of_figures("figures = { all = 8 }", "size(steps) < all").unwrap_err();
    assert!(both.contains("make two claims"), "{both}");
    let twice = of_figures("figures = { all = 8 }\nlet.all = '8'", "all == 8").unwrap_err();
    assert!(twice.contains("a figure and a `let`"), "{twice}");
}

#[test]
fn conditions_that_are_true_together_are_a_fault_and_no_outcome() {
    // Exclusive on the made-up data of the check, not on these.
    let study = with_claim(
        r#"[[claim]]
id = "odd"
claim = "It is odd"
source = "a page"
let.x = 'best("simple", "engine").throughput'
confirmed = 'x < 5000'
contradicted = 'x < 4000'
because = '{x | rate}'
"#,
    );
    let ran = run(&study, Size::Smoke, &mut server(500.0));
    assert_eq!(ran.claims[0].outcome, Outcome::Open);
    assert!(
        ran.faults[0].contains("both confirm and contradict"),
        "{:?}",
        ran.faults
    );
}

#[test]
fn functions_find_the_steps_that_they_name() {
    let study = with_claim(
        r#"[[claim]]
id = "found"
claim = "Steps are found"
source = "a page"
let.first = 'first("simple", "engine")'
let.end = 'last("simple", "engine")'
let.all = 'ramp("simple", "engine")'
confirmed = '''
first.connections == 1 && end.connections == 10 && size(all) == 2
  && at("simple", "engine", 10).label == end.label
  && ran("simple", "wrk") && drivers_of("simple") == ["engine", "wrk"]
  && near(max(all.map(s, s.in_flight)), 10 * min(all.map(s, s.in_flight)), 0.01)
  && mean([1, 3]) == 2 && 2 * size(all) == 4 && size == "smoke"
  && steps.exists_one(s, s.label == "simple/wrk/c10") && has(end.client.cores)
  && end.bound_by == "server-cpu" && end.server_bound && end.mb_per_s > 0
'''
contradicted = 'size(steps) == 0'
because = '{all.map(s, s.label)} of {size(steps)} at {size}'
"#,
    );
    let claims = judge(&study, server(500.0));
    assert_eq!(
        claims[0].outcome,
        Outcome::Confirmed,
        "{}",
        claims[0].because
    );
    assert_eq!(
        claims[0].because,
        "simple/engine/c1, simple/engine/c10 of 4 at smoke"
    );
}

#[test]
fn a_step_that_was_wholly_measured_has_every_documented_field() {
    let mut claims = String::new();
    for (i, (path, _, _)) in vocabulary::FIELDS.iter().enumerate() {
        let there = format!(r#"has(last("simple", "engine").{path})"#);
        claims.push_str(&format!(
            "[[claim]]\nid = \"field-{i}\"\nclaim = \"There is {path}\"\nsource = \"here\"\n\
             confirmed = '{there}'\ncontradicted = '!{there}'\nbecause = \"\"\n"
        ));
    }
    let start = SMALL.find("[[claim]]").unwrap();
    let text = format!("{}{claims}", &SMALL[..start]).replace(
        "window = \"1s\"",
        "window = \"1s\"\ncalibrate = true\npayload = [64]\nprofiles = true\n\
         kernel = [\"stacks\", \"calls\", \"counters\"]\nsqueeze = \"quick\"",
    );
    let study = Study::parse("my.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    for claim in judge(&study, server(500.0)) {
        assert_eq!(claim.outcome, Outcome::Confirmed, "{}", claim.claim);
    }
}

#[test]
fn send_buffers_are_those_of_the_servers_sockets() {
    let study = with_claim(
        r#"[[claim]]
id = "buffers"
claim = "Send buffers are the limit for an eighth of the time: for a quarter of the half in which there is data to send"
source = "a page"
let.top = 'best("simple", "engine")'
confirmed = 'top.server.send_buffer_limited == 0.125'
contradicted = 'top.server.send_buffer_limited > 0.2'
because = '{top.server.send_buffer_limited * 8}'
"#,
    );
    let found = judge(&study, server(500.0)).remove(0);
    assert_eq!(
        (found.outcome, found.because.as_str()),
        (Outcome::Confirmed, "1")
    );
}

#[test]
fn every_word_of_conditions_is_in_the_documentation() {
    let page = include_str!("../../../../docs/studies/README.md");
    let words = vocabulary::FIELDS
        .iter()
        .map(|(word, _, _)| word)
        .chain(vocabulary::FUNCTIONS.iter().map(|(word, _)| word))
        .chain(vocabulary::VARIABLES.iter().map(|(word, _)| word));
    for word in words {
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}
