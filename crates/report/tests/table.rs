//! The CSV: every row has every column, and labels stay in their field.

mod sample;

use wallfinder_report::csv;

/// Fields of one record of CSV text, quotes taken off.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                row.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\r' if !quoted => {}
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => row.last_mut().unwrap().push(c),
        }
    }
    assert!(!quoted);
    assert_eq!(rows.pop(), Some(vec![String::new()]), "ends with a line");
    rows
}

#[test]
fn every_row_has_every_column() {
    for (name, record) in sample::all() {
        let steps = rows(&csv::steps(&record));
        assert_eq!(steps.len(), record.steps.len() + 1, "{name}");
        assert!(steps.iter().all(|row| row.len() == csv::STEP_COLUMNS.len()));
        let intervals = rows(&csv::intervals(&record));
        let count: usize = record.steps.iter().map(|step| step.intervals.len()).sum();
        assert_eq!(intervals.len(), count + 1, "{name}");
        assert!(
            intervals
                .iter()
                .all(|row| row.len() == csv::INTERVAL_COLUMNS.len())
        );
    }
}

#[test]
fn columns_are_documented_and_distinct() {
    let mut names: Vec<&str> = csv::STEP_COLUMNS.iter().map(|column| column.name).collect();
    assert!(
        csv::STEP_COLUMNS
            .iter()
            .all(|column| !column.about.is_empty())
    );
    assert!(
        csv::INTERVAL_COLUMNS
            .iter()
            .all(|column| !column.about.is_empty())
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), csv::STEP_COLUMNS.len());
}

#[test]
fn labels_are_no_formulas() {
    let mut record = sample::one_step();
    for label in ["=1+1", "+1", "-1", "@x", "a,\"b\"\r\nc", "\t=1"] {
        record.steps[0].name = label.into();
        let rows = rows(&csv::steps(&record));
        let name = &rows[1][1];
        assert!(!name.starts_with(['=', '+', '-', '@', '\t']), "{name:?}");
        assert!(name.ends_with(label), "{name:?}");
    }
}
