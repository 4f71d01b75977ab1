//! What a study becomes at each size.

use std::collections::BTreeSet;

use wallfinder_model::{Arrival, Nanos, Rate};
use wallfinder_scenario::check::check;
use wallfinder_study::{Size, Speaks, Study, StudyStep, builtin};

use crate::files::SMALL;

#[test]
fn a_size_has_the_steps_that_it_names() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    assert_eq!(study.sizes(), [Size::Smoke, Size::Full]);
    let labels: Vec<String> = study
        .expand(Size::Smoke)
        .into_iter()
        .map(|step| step.label)
        .collect();
    assert_eq!(
        labels,
        [
            "simple/engine/c1",
            "simple/engine/c10",
            "simple/wrk/c1",
            "simple/wrk/c10"
        ]
    );
    assert_eq!(study.expand(Size::Demo), []);
}

#[test]
fn a_step_carries_the_load_that_was_asked_for() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    let step = &study.expand(Size::Full)[1];
    assert_eq!(step.path, "/simple");
    assert_eq!(step.subject, "catalogue");
    assert_eq!(step.load.connections, 10);
    assert_eq!(step.load.in_flight_bound(), 100);
    assert_eq!(step.load.workers, 1);
    assert_eq!(step.load.warmup, Nanos::from_millis(100));
    assert_eq!(step.load.stop.after, Nanos::from_secs(1));
}

#[test]
fn a_group_may_send_traffic_in_the_place_of_one_request() {
    let one = "path = \"/simple\"\npipeline = 10\n";
    let mix = "[group.traffic.data.ids]\nfile = \"ids.csv\"\n\
               [[group.traffic.request]]\nweight = 3\nget = \"/read?x={ids.id}\"\n\
               [[group.traffic.session]]\nname = \"buy\"\nsteps = [ { get = \"/simple\" }, { get = \"/read\" } ]\n";
    let text = SMALL.replace(one, mix);
    let study = |text: &str| Study::parse("studies/my.toml", text);
    // A foreign driver sends one request.
    let refused = study(&text).expect_err("wrk would not").to_string();
    assert!(refused.contains("`wrk` sends one request"), "{refused}");
    let text = text.replace("drivers = [\"engine\", \"wrk\"]", "drivers = [\"engine\"]");
    let step = study(&text)
        .expect("it is one")
        .expand(Size::Smoke)
        .remove(0);
    let scenario = step.scenario("127.0.0.1:8083", false);
    check(&scenario).expect("it is a scenario");
    assert_eq!(scenario.traffic.request[0].weight, Some(3));
    assert_eq!(scenario.traffic.session[0].steps.len(), 2);
    // Its files stand beside the study.
    let file = scenario.traffic.data["ids"].file.as_deref();
    assert_eq!(file, Some(std::path::Path::new("studies/ids.csv")));
    let framed = text.replace(
        "[group.traffic.data.ids]",
        "speaks = \"framed\"\n[group.traffic.data.ids]",
    );
    let refused = study(&framed).expect_err("framed").to_string();
    assert!(
        refused.contains("traffic of a study is of HTTP"),
        "{refused}"
    );
}

#[test]
fn a_step_is_a_scenario_that_any_command_takes() {
    for builtin in builtin::ALL {
        let study = builtin.study().unwrap();
        for step in Size::ALL.iter().flat_map(|size| study.expand(*size)) {
            for is_secure in [false, true] {
                let scenario = step.scenario("127.0.0.1:8083", is_secure);
                check(&scenario).unwrap_or_else(|fault| panic!("{}: {fault:?}", step.label));
                let load = &scenario.load;
                assert_eq!(load.arrival(), step.load.arrival, "{}", step.label);
                assert_eq!(load.warmup(), step.load.warmup);
                assert_eq!(load.duration, step.load.stop.after);
                assert_eq!(load.connections, Some(step.load.connections));
                assert_eq!(scenario.target.tls.insecure, is_secure);
            }
        }
    }
    let study = Study::parse("my.toml", SMALL).unwrap();
    let mut step = study.expand(Size::Smoke).remove(0);
    step.payload = Some(64);
    let target = step.scenario("127.0.0.1:8083", false).target;
    assert_eq!(target.url, "http://127.0.0.1:8083/simple");
    assert_eq!(
        (target.method.as_str(), target.echo_bytes),
        ("POST", Some(64))
    );
    step.speaks = Speaks::FramedCredit;
    step.path = String::new();
    let target = step.scenario("127.0.0.1:8083", true).target;
    assert_eq!(target.url, "tcps://127.0.0.1:8083");
    assert_eq!(target.frame.as_deref(), Some("u32be,credit"));
    assert_eq!(target.method, "GET");
}

#[test]
fn rates_make_an_open_loop_of_each_step() {
    let text = SMALL.replace("warmup =", "rates = [\"1k\", \"20k\"]\nwarmup =");
    let study = Study::parse("my.toml", &text).unwrap();
    let steps = study.expand(Size::Smoke);
    assert_eq!(steps.len(), 8);
    assert_eq!(steps[1].label, "simple/engine/c1/r20000");
    assert_eq!(
        steps[1].load.arrival,
        Arrival::Constant {
            rate: Rate(20_000.0)
        }
    );
}

#[test]
fn client_ceiling_has_the_steps_of_its_description() {
    let study = builtin::find("client-ceiling").unwrap().study().unwrap();
    assert_eq!(study.sizes(), Size::ALL);
    let steps = |size: Size| study.expand(size).len();
    assert_eq!(
        (steps(Size::Smoke), steps(Size::Demo), steps(Size::Full)),
        (18, 99, 282)
    );
    let full = study.expand(Size::Full);
    let is_of_depth = |step: &&StudyStep| step.group.contains("-deep-");
    assert!(
        full.iter()
            .filter(|step| !is_of_depth(step))
            .all(|step| step.load.in_flight_per_connection == 100)
    );
    let drivers: BTreeSet<&str> = full.iter().map(|s| s.driver.name.as_str()).collect();
    assert_eq!(
        drivers,
        BTreeSet::from([
            "engine",
            "autocannon",
            "autocannon-everywhere",
            "autocannon-one-everywhere",
            "autocannon-two",
            "wrk",
            "h2load"
        ])
    );
    let connections: Vec<u32> = full
        .iter()
        .filter(|step| step.group == "simple" && step.driver.is_engine())
        .map(|step| step.load.connections)
        .collect();
    assert_eq!(connections, [1, 10, 50, 100, 500, 1000, 2000, 5000]);
}

#[test]
fn client_ceiling_keeps_to_its_time() {
    let study = builtin::find("client-ceiling").unwrap().study().unwrap();
    assert!(study.duration(Size::Smoke) < Nanos::from_secs(30));
    assert!(study.duration(Size::Demo) <= Nanos::from_secs(330));
    // The source's points are of half a minute.
    assert!(study.duration(Size::Full) < Nanos::from_secs(38 * 60));
}

#[test]
fn all_studies_at_full_size_are_four_hours() {
    let studies = builtin::ALL.iter().map(|builtin| builtin.study().unwrap());
    let all: u64 = studies.map(|study| study.duration(Size::Full).0).sum();
    assert!(
        all < Nanos::from_secs(263 * 60).0,
        "{} s",
        all / 1_000_000_000
    );
}
