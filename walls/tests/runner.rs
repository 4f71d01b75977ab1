//! The runner as a program, with a `find` that always says the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a `wallfinder` that prints a record, and subjects that are never started.
fn stage(name: &str, script: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in [("wallfinder", script), ("knownwall", "#!/bin/sh\n")] {
        let path = folder.join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn says_the_record() -> String {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/record.json");
    format!("#!/bin/sh\nexec cat '{record}'\n")
}

fn walls(folder: &Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wallfinder-walls"))
        .arg("--wallfinder")
        .arg(folder.join("wallfinder"))
        .arg("--bin")
        .arg(folder)
        .args(flags)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_right_answer_meets_the_bar_and_is_kept() {
    let folder = stage("right", &says_the_record());
    let file = folder.join("kept.json");
    let flags = ["--only", "spin-200us", "--repeat", "2", "--json"];
    let output = walls(&folder, &[&flags[..], &[file.to_str().unwrap()]].concat());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("right 2 of 2 answered") && text.contains("the bar is met"));
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(kept["score"]["right"], 2);
    assert_eq!(kept["outcomes"][1]["seed"], 2);
    assert_eq!(kept["outcomes"][0]["found"]["Ok"]["wall"], "server-cpu");
}

#[test]
fn wrong_answers_and_false_walls_miss_it() {
    let folder = stage("wrong", &says_the_record());
    for (only, says) in [
        ("pool-4x5ms", "0 of 1 answered are right"),
        ("null-spin", "1 false walls"),
        ("next-link", "0 of 1 answered are right"),
    ] {
        let output = walls(&folder, &["--only", only]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(says), "{}", said(&output));
    }
}

#[test]
fn the_next_wall_is_measured_by_lifting_the_first() {
    // The same rate before and after: a predicted ratio of 1.38 is then off by 38 %.
    let folder = stage("next", &says_the_record());
    let output = walls(&folder, &["--only", "next-cpu"]);
    assert!(
        said(&output).contains("off by +38.0 %"),
        "{}",
        said(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_find_that_fails_is_no_answer_and_says_why() {
    let folder = stage("fails", "#!/bin/sh\necho 'no such flag' >&2\nexit 2\n");
    let output = walls(&folder, &["--smoke"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("no such flag") && text.contains("0 of 2 are answered"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_run_ends_with_2() {
    let folder = stage("cannot", "");
    assert_eq!(walls(&folder, &["--only", "nobody"]).status.code(), Some(2));
    fs::remove_file(folder.join("knownwall")).unwrap();
    assert_eq!(walls(&folder, &[]).status.code(), Some(2));
    let listed = walls(&folder, &["--list"]);
    assert!(said(&listed).contains("spin-200us"));
}
