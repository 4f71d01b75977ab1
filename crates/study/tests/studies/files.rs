//! What is wrong with a study file is told with line and column, before anything runs.

use proptest::prelude::*;
use wallfinder_model::Decode;
use wallfinder_study::builtin::Builtin;
use wallfinder_study::{Study, StudyError, builtin, schema};

/// A small study that is right.
pub(crate) const SMALL: &str = r#"schema = "wallfinder.study/1"
id = "small"
title = "Small"
source = "a page"
question = "Why?"
method = "So."

[[subject]]
name = "catalogue"
command = ["catalogue"]
port = 8083

[[driver]]
name = "engine"

[[driver]]
name = "wrk"

[[group]]
id = "simple"
subject = "catalogue"
path = "/simple"
pipeline = 10

[[group.run]]
sizes = ["smoke", "full"]
drivers = ["engine", "wrk"]
connections = [1, 10]
warmup = "100ms"
window = "1s"

[[claim]]
id = "fast"
claim = "It is fast"
source = "a page, line 3"
let.top = 'best("simple", "engine")'
confirmed = 'top.throughput > 1000'
contradicted = 'top.throughput < 500'
because = '{top.throughput | rate}/s'
"#;

fn refuse(text: &str) -> StudyError {
    Study::parse("my.toml", text).expect_err("it is wrong")
}

/// Replaces one line's text and expects the error at a place.
#[track_caller]
fn broken(old: &str, new: &str, message: &str) {
    assert_eq!(
        SMALL.matches(old).count(),
        1,
        "`{old}` stands once in the file"
    );
    let text = SMALL.replace(old, new);
    let error = refuse(&text);
    assert!(
        error.message().contains(message),
        "`{}` should say `{message}`",
        error.message()
    );
    let at = SMALL.find(old).unwrap();
    let first = text[..at].matches('\n').count() + 1;
    let last = first + new.matches('\n').count();
    assert!(
        (first..=last).contains(&error.line()),
        "{error}: expected line {first} to {last}"
    );
    let shown = error.to_string();
    let place = format!("my.toml:{}:{}: ", error.line(), error.column());
    assert!(shown.starts_with(&place), "{shown}");
}

#[test]
fn the_small_study_is_right() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    assert_eq!(study.id, "small");
    assert_eq!(study.subjects[0].port, 8083);
    assert!(study.driver("engine").unwrap().is_engine());
}

#[test]
fn what_is_unknown_is_refused_where_it_stands() {
    broken("title = ", "titel = ", "unknown field `titel`");
    broken(
        "pipeline = 10",
        "pipelining = 10",
        "unknown field `pipelining`",
    );
    broken(
        r#"window = "1s""#,
        r#"window = "1s"
surprise = 1"#,
        "unknown field `surprise`",
    );
    broken(
        r#"subject = "catalogue""#,
        r#"subject = "catalog""#,
        "no subject `catalog`",
    );
    broken(
        r#"drivers = ["engine", "wrk"]"#,
        r#"drivers = ["engine", "wrk2"]"#,
        "no driver `wrk2`",
    );
    broken(
        r#"sizes = ["smoke", "full"]"#,
        r#"sizes = ["smoke", "huge"]"#,
        "`huge` is not smoke",
    );
    broken(
        r#"schema = "wallfinder.study/1""#,
        r#"schema = "wallfinder.study/9""#,
        "this version reads",
    );
}

#[test]
fn a_protocol_is_refused_what_it_cannot_do() {
    let path = r#"path = "/simple"
pipeline = 10"#;
    let with = |lines: &str| format!("{path}\n{lines}");
    broken(path, &with(r#"speaks = "spdy""#), "no protocol `spdy`");
    broken(path, &with(r#"speaks = "framed""#), "have no path");
    broken(path, r#"speaks = "framed""#, "what framed sends is missing");
    broken(
        path,
        &with(r#"speaks = "grpc""#),
        "what grpc sends is missing",
    );
    broken(
        path,
        &with("clients_per_connection = 5"),
        "over http1 each client has its connection",
    );
    broken(
        "connections = [1, 10]",
        "connections = [1, 10]\nclients = [1]",
        "either connections or clients",
    );
    broken(
        "connections = [1, 10]",
        "connections = [1, 10]\nrequests = 100",
        "requests are those of `clients`",
    );
    broken(
        "connections = [1, 10]",
        "connections = [1, 10]\nrounds = 0",
        "rounds: 0 is not in 1",
    );
    broken(
        "connections = [1, 10]",
        "connections = [1, 10]\npayload = [5000000]",
        "bytes of data: 5000000 is not in 0",
    );
    broken(
        r#"name = "engine""#,
        "name = \"engine\"\nprogram = \"wrk\"",
        "is no program",
    );
}

#[test]
fn what_a_step_is_given_beside_its_load_is_checked() {
    let (pipeline, connections) = ("pipeline = 10", "connections = [1, 10]");
    let group = |line: &str| format!("{pipeline}\n{line}");
    let run = |line: &str| format!("{connections}\n{line}");
    broken(pipeline, &group(r#"headers = ["Accept"]"#), "`Name: value`");
    broken(
        r#"path = "/simple"
pipeline = 10"#,
        "speaks = \"framed\"\nheaders = [\"A: b\"]",
        "fields are of HTTP",
    );
    broken(
        pipeline,
        &group(r#"decode = "gzip""#),
        "no way to decode `gzip`",
    );
    broken(
        pipeline,
        &group("decode = \"check\"\ninflate = true"),
        "one of the two is enough",
    );
    broken(
        r#"path = "/simple"
pipeline = 10"#,
        "speaks = \"framed\"\ninflate = true",
        "coded in HTTP alone",
    );
    for quota in ["0", "nan", "65"] {
        let line = format!("client_quota = {quota}");
        broken(
            connections,
            &run(&line),
            if quota == "0" { "" } else { "quota" },
        );
    }
    broken(connections, &run(r#"kernel = ["bpf"]"#), "not of bpf");
    broken(
        r#"name = "engine""#,
        "name = \"engine\"\neverywhere = true",
        "has a worker for each",
    );
}

#[test]
fn the_engine_decodes_what_a_group_says_and_foreign_drivers_as_they_do() {
    for (line, expected) in [
        ("", Decode::None),
        (r#"decode = "none""#, Decode::None),
        (r#"decode = "check""#, Decode::Check),
        (r#"decode = "inflate""#, Decode::Inflate),
        ("inflate = true", Decode::Inflate),
        ("inflate = false", Decode::None),
        ("decode = \"check\"\ninflate = false", Decode::Check),
    ] {
        let text = SMALL.replace("pipeline = 10", &format!("pipeline = 10\n{line}"));
        let study = Study::parse("my.toml", &text).unwrap();
        for step in study.expand(wallfinder_study::Size::Smoke) {
            let decodes = match step.driver.is_engine() {
                true => expected,
                false => Decode::None,
            };
            assert_eq!(step.load.decode, decodes, "{line}: {}", step.label);
        }
    }
}

#[test]
fn max_in_flight_is_the_engines() {
    let with = |drivers: &str| {
        let text = SMALL.replace(
            r#"drivers = ["engine", "wrk"]"#,
            &format!("drivers = [{drivers}]\nmax_in_flight = 5"),
        );
        Study::parse("my.toml", &text)
    };
    let study = with(r#""engine""#).unwrap();
    for step in study.expand(wallfinder_study::Size::Smoke) {
        // Ten requests on each connection are wanted, and five let.
        assert_eq!(
            (step.load.wanted_max() % 10, step.load.in_flight_bound()),
            (0, 5)
        );
    }
    let refused = with(r#""engine", "wrk""#).expect_err("wrk has none");
    assert!(refused.message().contains("max_in_flight is the engine's"));
}

#[test]
fn a_part_is_run_only_where_it_is_asked_for() {
    let text = SMALL.replace("pipeline = 10", "part = \"more\"\npipeline = 10");
    let text = text.replace(
        "source = \"a page, line 3\"",
        "source = \"here\"\npart = \"more\"",
    );
    let study = || Study::parse("my.toml", &text).unwrap();
    let (mut without, mut with) = (study(), study());
    assert_eq!(Vec::from_iter(without.parts()), ["more"]);
    without.keep_parts(&[]).unwrap();
    assert!(without.expand(wallfinder_study::Size::Smoke).is_empty());
    assert!(without.claims.is_empty());
    with.keep_parts(&["more".to_owned()]).unwrap();
    assert_eq!(
        (
            with.claims.len(),
            with.expand(wallfinder_study::Size::Smoke).len()
        ),
        (1, 4)
    );
    let why = study().keep_parts(&["less".to_owned()]).unwrap_err();
    assert!(why.contains("no part `less`; there are: more"), "{why}");
}

#[test]
fn only_framed_messages_do_without_a_path() {
    let text = SMALL.replace("path = \"/simple\"\n", "");
    let error = refuse(&text);
    assert!(error.message().contains("`path` is missing"), "{error}");
}

#[test]
fn clients_are_shared_out_alike_or_not_at_all() {
    let text = SMALL
        .replace(
            "pipeline = 10",
            "speaks = \"http2\"\nclients_per_connection = 10",
        )
        .replace("connections = [1, 10]", "clients = [15]");
    let error = Study::parse("my.toml", &text).expect_err("7.5 on each");
    assert!(
        error.to_string().contains("cannot be shared out"),
        "{error}"
    );
}

#[test]
fn what_is_no_number_is_refused_where_it_stands() {
    broken("port = 8083", "port = nan", "invalid type");
    broken("port = 8083", "port = 99999", "invalid value");
    broken("port = 8083", "port = 0", "1 to 65535");
    broken("port = 8083", "port = 8083\nquota_cores = nan", "quota");
    broken("port = 8083", "port = 8083\nquota_cores = inf", "quota");
    broken("port = 8083", "port = 8083\nquota_cores = -0.5", "quota");
    broken(
        "connections = [1, 10]",
        "connections = [1, 99999999999]",
        "invalid value",
    );
    broken(
        "connections = [1, 10]",
        "connections = [1, -3]",
        "invalid value",
    );
    broken(
        "connections = [1, 10]",
        "connections = [0]",
        "0 is not in 1",
    );
    broken(
        "connections = [1, 10]",
        "connections = []",
        "needs sizes, drivers, and connections or clients",
    );
    broken("pipeline = 10", "pipeline = 0", "0 is not in 1");
    broken(r#"window = "1s""#, r#"window = "nan""#, "is not a duration");
    broken(
        r#"window = "1s""#,
        r#"window = "1e9s""#,
        "is not a duration",
    );
    broken(r#"window = "1s""#, r#"window = "2h""#, "is not in");
    broken(r#"window = "1s""#, r#"window = "1ns""#, "is not in");
    broken(r#"window = "1s""#, "window = 1s", "");
}

#[test]
fn the_column_is_that_of_the_value() {
    let error = refuse(&SMALL.replace("connections = [1, 10]", "connections = [1, 2000000]"));
    assert_eq!((error.line(), error.column()), (28, 19), "{error}");
    let error = refuse(&SMALL.replace("top.throughput > 1000", "top.throughput >> 1000"));
    assert_eq!(error.line(), 37);
    assert!((30..=34).contains(&error.column()), "{error}");
}

#[test]
fn conditions_are_tried_before_anything_runs() {
    let good = "confirmed = 'top.throughput > 1000'";
    for (bad, message) in [
        (
            "confirmed = 'top.thruput > 1000'",
            "a step has no field `thruput`",
        ),
        (
            "confirmed = 'top.server.cpu > 1'",
            "a step has no field `server.cpu`",
        ),
        ("confirmed = 'tip.throughput > 1000'", "no variable `tip`"),
        ("confirmed = 'fastest(top) > 1000'", "no function `fastest`"),
        (
            "confirmed = 'best(\"simple\").throughput > 1'",
            "is called otherwise",
        ),
        (
            "confirmed = 'best(\"simpel\", \"engine\").throughput > 1'",
            "no group `simpel`",
        ),
        (
            "confirmed = 'best(\"simple\", \"oha\").throughput > 1'",
            "no driver `oha`",
        ),
        (
            "confirmed = 'at(\"simple\", \"wrk\", 77).throughput > 1'",
            "77 connections",
        ),
        ("confirmed = 'top.throughput'", "neither"),
        (
            "needs = 'top.throughput'\nconfirmed = 'top.throughput > 1000'",
            "neither",
        ),
        (
            "needs = 'tip.throughput > 1'\nconfirmed = 'top.throughput > 1000'",
            "no variable `tip`",
        ),
        (
            "confirmed = 'top.throughput > \"fast\"'",
            "cannot be evaluated",
        ),
        ("confirmed = ''", "an empty expression"),
    ] {
        broken(good, bad, message);
    }
    broken(
        "{top.throughput | rate}",
        "{top.throughput | furlongs}",
        "no format `furlongs`",
    );
    broken(
        "{top.throughput | rate}",
        "{top.throughput",
        "without its `}`",
    );
    broken(
        "let.top = 'best(\"simple\", \"engine\")'",
        "let.top = 'other'\nlet.other = 'top'",
        "need each other",
    );
}

#[test]
fn a_claim_that_needs_what_its_driver_never_tells_is_refused() {
    let in_flight = |driver: &str| format!("best(\"simple\", \"{driver}\").in_flight");
    let old = "confirmed = 'top.throughput > 1000'";
    let scripted = format!("confirmed = '{} > 1e9'", in_flight("wrk"));
    broken(old, &scripted, "`in_flight` was not measured");
    // Without pipelining it runs no script, and the engine counts.
    let plain = SMALL.replace(old, &scripted);
    let plain = plain.replace("pipeline = 10", "pipeline = 1");
    let counted = SMALL.replace(old, &format!("confirmed = '{} > 1e9'", in_flight("engine")));
    for text in [plain, counted] {
        Study::parse("my.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_claim_that_can_be_both_is_refused() {
    broken(
        "contradicted = 'top.throughput < 500'",
        "contradicted = 'top.throughput > 2000'",
        "cannot be both",
    );
}

#[test]
fn both_conditions_are_needed() {
    let error = refuse(&SMALL.replace("contradicted = 'top.throughput < 500'\n", ""));
    assert!(
        error.message().contains("missing field `contradicted`"),
        "{error}"
    );
}

#[test]
fn a_name_is_taken_once() {
    broken("name = \"wrk\"", "name = \"engine\"", "is taken");
}

#[test]
fn a_step_is_named_once() {
    let error = refuse(&SMALL.replace("connections = [1, 10]", "connections = [1, 1]"));
    let message = error.message();
    assert!(message.contains("`simple/engine/c1` twice"), "{message}");
    assert_eq!(error.line(), 20, "the group's");
}

#[test]
fn every_error_renders_with_its_line() {
    let error = refuse(&SMALL.replace("pipeline = 10", "pipeline = 0"));
    let mut text = String::new();
    miette::NarratableReportHandler::new()
        .render_report(&mut text, &error)
        .unwrap();
    assert!(text.contains("pipeline = 0"), "{text}");
}

#[test]
fn built_in_studies_parse_under_their_own_name() {
    let parses = |builtin: &Builtin| {
        let study = builtin.study().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(study.id, builtin.name);
        // Every condition is tried, as the built-in study's is not.
        let copy = builtin.copy("mine");
        let copied = Study::parse("mine.toml", &copy).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(copied.id, "mine");
    };
    std::thread::scope(|scope| {
        for builtin in builtin::ALL {
            scope.spawn(move || parses(builtin));
        }
    });
}

#[test]
fn the_schema_knows_every_key_of_a_study() {
    let schema = schema();
    let text = schema.as_value().to_string();
    for key in [
        "subject",
        "driver",
        "group",
        "claim",
        "for_each",
        "contradicted",
        "calibrate",
    ] {
        assert!(text.contains(&format!("\"{key}\"")), "{key}");
    }
    assert!(text.contains("\"additionalProperties\":false"));
}

proptest! {
    #[test]
    fn no_text_panics(at in 0..SMALL.len(), cut in 0..40usize, add in "[a-z\"'{}\\[\\]=|.0-9\n ]{0,12}") {
        let mut text = SMALL.to_owned();
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &add);
        if let Err(error) = Study::parse("my.toml", &text) {
            prop_assert!(error.line() >= 1 && error.column() >= 1);
        }
    }

    #[test]
    fn no_condition_panics(condition in "[a-z0-9.()\"<>=!&|+*/ \\[\\],{}]{0,60}") {
        let text = SMALL.replace("top.throughput > 1000", &condition);
        let _ = Study::parse("my.toml", &text);
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let deep = format!("{}1{}", "(".repeat(1_900), ")".repeat(1_900));
    let text = SMALL.replace("top.throughput > 1000", &deep);
    assert!(Study::parse("my.toml", &text).is_err());
    let long = format!("true{}", " && true".repeat(480));
    let text = SMALL.replace("top.throughput > 1000", &long);
    let _ = Study::parse("my.toml", &text);
}

#[test]
fn a_chart_stands_for_drivers_that_there_are() {
    let with_chart = |driver: &str| {
        format!(
            "{SMALL}\n[[chart]]\ntitle = \"by {{driver}}\"\nfor_each = [\"{driver}\"]\ncategories = [\"10\"]\n\
             bars_unit = \"requests/s\"\n\n[[chart.bars]]\nname = \"all\"\n\
             value = 'best(\"simple\", driver).throughput'\n"
        )
    };
    Study::parse("my.toml", &with_chart("engine")).expect("it is fine");
    let error = refuse(&with_chart("wkr"));
    assert!(
        error.message().contains("there is no driver `wkr`"),
        "{error}"
    );
}
