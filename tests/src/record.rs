//! What a record says, as plain JSON.

use serde_json::Value;

use crate::json_at;

/// The step in which resources were squeezed.
#[track_caller]
pub fn squeezed(record: &Value) -> &Value {
    let steps = json_at(record, "/steps").as_array().expect("steps");
    let found = steps.iter().find(|step| step["experiment"].is_object());
    found.unwrap_or_else(|| panic!("no step was squeezed: {record:#}"))
}

/// What two settings differ by in a measure.
#[track_caller]
pub fn ratio_of<'r>(record: &'r Value, measure: &str) -> &'r Value {
    let ratios = json_at(record, "/ab/ratios").as_array().expect("ratios");
    let found = ratios.iter().find(|ratio| ratio["measure"] == measure);
    found.unwrap_or_else(|| panic!("{measure}: {ratios:#?}"))
}

/// The identity of the counts: nothing is lost, nothing is counted twice.
#[track_caller]
pub fn assert_balanced(step: &Value) {
    let counts = &step["counts"];
    let of = |name: &str| counts[name].as_i64().unwrap();
    let failures: i64 = counts["failed"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_i64().unwrap())
        .sum();
    assert_eq!(
        of("in_flight_start") + of("scheduled"),
        of("answered")
            + failures
            + of("not_sent")
            + of("in_flight_end")
            + counts["unknown"].as_i64().unwrap_or(0),
        "{counts:#}"
    );
}

/// Whether a verdict says that the hypervisor took so much time that nothing is decided over it: this
/// machine's fault, and no test's.
pub fn stolen(verdict: &Value) -> bool {
    let caveats = json_at(verdict, "/caveats").as_array();
    let is_stolen = |caveat: &Value| caveat["kind"] == "steal-above";
    verdict["wall"] == "inconclusive" && caveats.is_some_and(|all| all.iter().any(is_stolen))
}
