//! Records of the first version, `wallfinder.record/1`, brought into today's shape.
//!
//! ```text
//!  bytes ─► JSON value ─► fields renamed, verdicts taken out ─► today's types
//! ```
//!
//! Fields are renamed by their place, so that a text with an old word in it stays as it is. Verdicts of the
//! first version were finished sentences. They are left out, and a record keeps the schema that it was
//! written with: who opens it sees by that that its steps are to be judged anew from what was measured.
//!
//! It is not a validator: what has not the shape of the first version stays as it is, and today's types refuse it.

use serde_json::Value;
use wallfinder_model::Json;

/// The schema that is read here.
pub(crate) const SCHEMA: &str = "wallfinder.record/1";

/// A caveat that the first version knew and no program ever gave.
const NEVER_SAID: &str = "counters-unavailable";

/// What a piece of a record or of its journal is.
pub(crate) trait Piece: Json {
    /// Brings one of the first version into today's shape.
    fn upgrade(value: &mut Value);
}

/// Reads a piece of the first version.
pub(crate) fn read<T: Piece>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut value = serde_json::from_slice(bytes)?;
    T::upgrade(&mut value);
    T::from_json(&serde_json::to_vec(&value)?)
}

impl Piece for wallfinder_model::Record {
    fn upgrade(value: &mut Value) {
        if let Some(plan) = value.get_mut("plan") {
            each(plan, "steps", |step| within(step, "load", load));
        }
        each(value, "steps", step);
        caveats(value);
    }
}

impl Piece for wallfinder_model::Step {
    fn upgrade(value: &mut Value) {
        step(value);
    }
}

impl Piece for wallfinder_model::Caveat {
    fn upgrade(value: &mut Value) {
        caveat(value);
    }
}

impl Piece for crate::journal::StepExperiment {
    fn upgrade(value: &mut Value) {
        within(value, "experiment", experiment);
    }
}

impl Piece for crate::journal::StepWindow {
    fn upgrade(value: &mut Value) {
        within(value, "window", reference_loops);
    }
}

fn step(value: &mut Value) {
    within(value, "load", load);
    within(value, "telemetry", reference_loops);
    within(value, "ceiling", |ceiling| {
        rename(ceiling, &[("lanes_saturated", "workers_saturated")]);
    });
    rename(value, &[("lanes", "workers")]);
    each(value, "workers", |worker| {
        let names = [
            ("lane", "worker"),
            ("gathering_waits", "batching_waits"),
            ("gathering_ns", "batching_ns"),
        ];
        rename(worker, &names);
    });
    within(value, "experiment", experiment);
    caveats(value);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("verdict");
    }
}

fn load(value: &mut Value) {
    let names = [
        ("permits", "max_in_flight"),
        ("lanes", "workers"),
        ("one_by_one", "no_batching"),
    ];
    rename(value, &names);
}

fn experiment(value: &mut Value) {
    each(value, "windows", reference_loops);
}

fn reference_loops(value: &mut Value) {
    let names = [
        ("server_yard_ns", "server_reference_ns"),
        ("client_yard_ns", "client_reference_ns"),
    ];
    rename(value, &names);
}

fn caveats(value: &mut Value) {
    if let Some(list) = value.get_mut("caveats").and_then(Value::as_array_mut) {
        list.retain(|caveat| caveat.get("kind").is_none_or(|kind| kind != NEVER_SAID));
    }
    each(value, "caveats", caveat);
}

fn caveat(value: &mut Value) {
    if let Some(kind) = value.get_mut("kind")
        && kind == "lanes-late"
    {
        *kind = "workers-late".into();
    }
}

/// Gives fields other names. One that has the new name already is not written over.
fn rename(value: &mut Value, names: &[(&str, &str)]) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    for (from, to) in names {
        if let Some(held) = fields.remove(*from) {
            fields.entry(*to).or_insert(held);
        }
    }
}

fn within(value: &mut Value, name: &str, change: impl FnOnce(&mut Value)) {
    if let Some(held) = value.get_mut(name) {
        change(held);
    }
}

fn each(value: &mut Value, name: &str, change: impl FnMut(&mut Value)) {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().for_each(change);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;
    use wallfinder_model::{Caveat, Record};

    use super::*;
    use crate::journal::entry::{self, Kind};
    use crate::journal::recover::recover;
    use crate::open;

    /// A ramp's step and an experiment, as the last program of the first version wrote them.
    const WRITTEN: &str = include_str!("../testdata/record-1.json");

    fn written() -> Value {
        serde_json::from_str(WRITTEN).expect("JSON")
    }

    /// What a record of the first version must read as, whichever way it was written.
    fn check(record: &Record) {
        assert_eq!(record.schema, SCHEMA);
        let [ramp, squeezed] = &record.steps[..] else {
            panic!("two steps");
        };
        assert_eq!(
            (
                ramp.load.max_in_flight,
                ramp.load.workers,
                ramp.load.no_batching
            ),
            (Some(64), 1, true)
        );
        assert_eq!(record.plan.steps[0].load, ramp.load);
        assert_eq!(ramp.telemetry.server_reference_ns, Some(7_000.5));
        assert_eq!(ramp.telemetry.client_reference_ns, Some(6_900.25));
        assert!(
            ramp.ceiling
                .as_ref()
                .is_some_and(|ceiling| ceiling.workers_saturated)
        );
        let late = |p999_ns| Caveat::WorkersLate { p999_ns };
        assert!(
            ramp.caveats.contains(&late(9_000_000)) && record.caveats.contains(&late(8_000_000))
        );
        // A text is a text.
        let text = "2 lanes took turns on 1 processors".to_owned();
        assert!(ramp.caveats.contains(&Caveat::Note { text }));
        let worker = &squeezed.workers[0];
        assert_eq!(
            (worker.batching_waits, worker.batching_ns),
            (170_000, 14_110_000_000)
        );
        let windows = &squeezed.experiment.as_ref().expect("squeezes").windows;
        assert_eq!(windows.len(), 130);
        assert_eq!(windows[3].server_reference_ns, Some(7_000.0));
        assert_eq!(windows[3].client_reference_ns, Some(6_800.0));
        assert!(record.steps.iter().all(|step| step.verdict.is_none()));
    }

    #[test]
    fn a_record_of_the_first_version_opens() {
        let folder = std::env::temp_dir().join(format!("wf-record-1-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path: PathBuf = folder.join("record.json");
        std::fs::write(&path, WRITTEN).expect("written");
        let opened = open(&path);
        let _ = std::fs::remove_dir_all(&folder);
        check(&opened.expect("readable"));
    }

    #[test]
    fn a_journal_of_the_first_version_is_recovered() {
        let mut header = written();
        let mut steps = std::mem::take(&mut header["steps"]);
        let caveats = std::mem::replace(&mut header["caveats"], json!([]));
        header["steps"] = json!([]);
        let windows = std::mem::replace(&mut steps[1]["experiment"]["windows"], json!([]));
        let experiment = steps[1]["experiment"].take();
        let mut bytes = entry::MAGIC.to_vec();
        let mut put = |kind, value: &Value| {
            let payload = serde_json::to_vec(value).expect("JSON");
            bytes.extend(entry::encode(kind, &payload).expect("short enough"));
        };
        put(Kind::Header, &header);
        for caveat in caveats.as_array().expect("caveats") {
            put(Kind::Caveat, caveat);
        }
        for step in steps.as_array().expect("steps") {
            put(Kind::StepBegins, step);
            put(Kind::StepEnds, step);
        }
        put(
            Kind::Experiment,
            &json!({ "step": 1, "experiment": experiment }),
        );
        for window in windows.as_array().expect("windows") {
            put(Kind::Window, &json!({ "step": 1, "window": window }));
        }
        check(&recover(&bytes[..]).expect("recovered"));
    }

    #[test]
    fn what_is_no_record_is_no_reason_to_panic() {
        for hostile in [
            "null",
            "[]",
            "7",
            r#"{"steps":{},"plan":[],"caveats":[1,{"kind":2}]}"#,
        ] {
            assert!(read::<Record>(hostile.as_bytes()).is_err(), "{hostile}");
        }
        let mut both = json!({ "permits": 1, "max_in_flight": 2 });
        load(&mut both);
        assert_eq!(both, json!({ "max_in_flight": 2 }));
        let mut never = json!({ "caveats": [{ "kind": NEVER_SAID }, { "kind": "not-verified" }] });
        caveats(&mut never);
        assert_eq!(never, json!({ "caveats": [{ "kind": "not-verified" }] }));
    }
}
