//! What is written reads back as it was.

mod records;

use std::time::{Duration, UNIX_EPOCH};

use records::{Scratch, interval, record, step_begun, step_ended};
use wallfinder_store::{RunFolder, StoreError, open};

#[test]
fn a_sealed_run_reads_back_as_it_was() {
    let scratch = Scratch::new();
    let now = UNIX_EPOCH + Duration::from_secs(1_795_183_331);
    let runs = scratch.0.join("runs");
    let folder = RunFolder::create(&runs, "ramp /read", now).expect("a new folder");
    assert_eq!(folder.id(), "20261120T140211Z-ramp-read");
    let mut record = record(folder.id(), 2);
    let journal = folder.begin(&record).expect("a journal");
    for index in 0..2 {
        journal.step_begins(&step_begun(index)).expect("noted");
        for nth in 0..12 {
            journal.interval(index, &interval(nth)).expect("noted");
        }
        let step = step_ended(index);
        journal.step_ends(&step).expect("noted");
        record.steps.push(step);
    }
    let unsealed = open(folder.path()).expect("readable while it runs");
    assert!(!unsealed.complete);
    let path = folder.seal(&journal, &record).expect("sealed");
    assert_eq!(open(folder.path()).expect("readable"), record);
    assert_eq!(open(&path).expect("readable"), record);
    assert_eq!(open(&runs.join("latest")).expect("readable"), record);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["plan.json", "record.json", "series.parquet"]);
    assert!(matches!(
        RunFolder::create(&runs, "ramp /read", now),
        Err(StoreError::Exists { .. })
    ));
    assert!(
        journal.interval(1, &interval(12)).is_err(),
        "the run is over"
    );
}
