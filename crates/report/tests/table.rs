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
        let steps = rows(&csv::each_step(&record));
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
fn a_find_has_a_row_for_each_window() {
    let record = sample::proved();
    let experiment = record.steps.last().unwrap().experiment.as_ref().unwrap();
    let table = rows(&csv::steps(&record));
    assert_eq!(table.len(), experiment.windows.len() + 1);
    assert!(
        table
            .iter()
            .all(|row| row.len() == csv::WINDOW_COLUMNS.len())
    );
    let at = |name: &str| table[0].iter().position(|column| column == name).unwrap();
    let downlink = table
        .iter()
        .find(|row| row[at("squeeze")] == "downlink" && row[at("retained_asked")] == "0.8")
        .unwrap();
    let relative: f64 = downlink[at("relative")].parse().unwrap();
    assert!((relative - 0.8).abs() < 0.03, "{relative}");
}

#[test]
fn a_study_with_squeezes_keeps_its_steps_rows() {
    let mut record = sample::proved();
    record.plan.command = "study".to_owned();
    let windows: usize = record
        .steps
        .iter()
        .flat_map(|step| &step.experiment)
        .map(|of| of.windows.len())
        .sum();
    let table = rows(&csv::steps(&record));
    let empty = table.iter().position(|row| row == &[""]).unwrap();
    assert_eq!(empty, record.steps.len() + 1);
    assert_eq!(table.len(), empty + 1 + windows + 1);
    assert_eq!(table[empty + 2][0], record.steps.last().unwrap().name);
}

#[test]
fn an_ab_has_a_row_for_each_step_and_each_ratio() {
    let record = sample::ab();
    let ab = record.ab.as_ref().unwrap();
    let table = rows(&csv::steps(&record));
    let empty = table.iter().position(|row| row == &[""]).unwrap();
    assert_eq!(empty, record.steps.len() + 1);
    assert_eq!(table[1][..2], [if ab.order[0].1 { "B" } else { "A" }, "0"]);
    assert!(
        table[..empty]
            .iter()
            .all(|row| row.len() == csv::STEP_COLUMNS.len() + 2)
    );
    assert_eq!(table.len(), empty + 2 + ab.ratios.len());
    assert_eq!(table[empty + 2][0], "throughput");
}

#[test]
fn other_records_have_a_row_for_each_step() {
    let record = sample::seven_steps();
    assert_eq!(csv::steps(&record), csv::each_step(&record));
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
        let rows = rows(&csv::each_step(&record));
        let name = &rows[1][1];
        assert!(!name.starts_with(['=', '+', '-', '@', '\t']), "{name:?}");
        assert!(name.ends_with(label), "{name:?}");
    }
}
