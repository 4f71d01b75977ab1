//! The one JSON document: the record as it is on disk, verdicts included, telemetry rows
//! left out; and the schema that it obeys.
//!
//! A number that is not finite is written as `null`, for JSON has no other way; the
//! schema allows `null` wherever a fraction stands.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use wallfinder_model::json::indented;
use wallfinder_model::{Json, Reason, Record};

use crate::said;

/// The schema's `$id`.
pub const SCHEMA_ID: &str = "urn:wallfinder:record:2";

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

/// The published JSON Schema (2020-12) of [`document`].
pub fn schema() -> Value {
    // Of what is written: words stand in it that are never read.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Record>();
    let mut schema = schema.to_value();
    allow_unknown(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("$id".into(), json!(SCHEMA_ID));
        root.insert("title".into(), json!("Wallfinder record"));
    }
    schema
}

/// [`schema`] as it is committed: indented, with a line end.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// Lets `null` stand for a fraction that is not finite.
fn allow_unknown(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type") == Some(&json!("number")) {
                fields.insert("type".into(), json!(["number", "null"]));
            }
            fields.values_mut().for_each(allow_unknown);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_unknown),
        _ => {}
    }
}
