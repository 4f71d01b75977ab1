//! The one JSON document: the record as it is on disk, verdicts included, telemetry rows
//! left out. Its schema is published as `schemas/record-2.json`.
//!
//! A number that is not finite is written as `null`, for JSON has no other way; the
//! schema allows `null` wherever a fraction stands.

use wallfinder_model::json::indented;
use wallfinder_model::{Json, Reason, Record};

use crate::said;

/// The record with its verdicts in words beside their data, for who reads the document. Nothing reads the
/// words back.
pub fn worded(record: &Record) -> Record {
    let mut record = record.clone();
    for verdict in record
        .steps
        .iter_mut()
        .filter_map(|step| step.verdict.as_mut())
    {
        verdict.sentence = Some(said::verdict(verdict));
        verdict.made_of = verdict.detail.as_ref().map(said::detail);
        if let Reason::NothingAnswered { ended, why } = &mut verdict.reason
            && !ended.is_empty()
        {
            *why = Some(said::ended(ended));
        }
        for evidence in &mut verdict.evidence {
            evidence.text = Some(said::fact(&evidence.fact));
        }
    }
    record
}

/// The document, indented, with a line end.
pub fn document(record: &Record) -> String {
    let record = worded(record);
    // Every key is a string and every value plain data: this cannot fail.
    let text = record.to_json().map(|json| indented(&json));
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    format!("{text}\n")
}
