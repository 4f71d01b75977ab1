//! The JSON document and its schema.

mod sample;

use serde_json::Value;
use wallfinder_model::Record;
use wallfinder_report::json;

#[test]
fn every_document_obeys_the_published_schema() {
    let schema = include_str!("../../../schemas/record-2.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, mut record) in sample::all() {
        check(&validator, name, &record);
        for step in &mut record.steps {
            step.throughput = f64::NAN;
            step.in_flight_mean = f64::INFINITY;
        }
        check(&validator, name, &record);
    }
    let mut document: Value = serde_json::from_str(&json::document(&sample::one_step())).unwrap();
    document["steps"][0]["throughput"] = "many".into();
    assert!(!validator.is_valid(&document));
}

fn check(validator: &jsonschema::Validator, name: &str, record: &Record) {
    let document: Value = serde_json::from_str(&json::document(record)).unwrap();
    if let Err(error) = validator.validate(&document) {
        panic!("{name}: {error} at {}", error.instance_path());
    }
}

#[test]
fn a_document_is_the_record_without_telemetry_rows() {
    let record = sample::seven_steps();
    let mut read: Record = serde_json::from_str(&json::document(&record)).unwrap();
    assert!(read.steps.iter().all(|step| step.series.is_empty()));
    for (read, step) in read.steps.iter_mut().zip(&record.steps) {
        read.series.clone_from(&step.series);
    }
    assert_eq!(read, record);
}
