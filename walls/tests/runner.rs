//! The runner as a program, with a `find` that always says the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a `wallfinder` that prints a record, and subjects that are never started.
fn stage(name: &str, script: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let wallfinder =
        format!("#!/bin/sh\n[ \"$1\" != --version ] || exec echo wallfinder 1\n{script}\n");
    for (file, text) in [
        ("wallfinder", wallfinder.as_str()),
        ("knownwall", "#!/bin/sh\n"),
    ] {
        let path = folder.join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn says_the_record() -> String {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/record.json");
    format!("exec cat '{record}'")
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
fn right_answers_meet_the_bar_and_say_how_alike_they_are() {
    let folder = stage("right", &says_the_record());
    let output = walls(&folder, &["--only", "spin-200us", "--repeat", "2"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("right 2 of 2 answered") && text.contains("the bar is met"));
    assert!(text.contains("2 of 2 the same verdict, server-cpu (2 proved)"));
}

#[test]
fn results_of_two_tools_stand_beside_each_other_and_restless_ones_apart() {
    let folder = stage("beside", &says_the_record());
    let results = folder.join("results");
    let kept = [
        "--results",
        results.to_str().unwrap(),
        "--only",
        "spin-200us",
    ];
    let run = |flags: &[&str]| said(&walls(&folder, &[&kept[..], flags].concat()));
    run(&[]);
    run(&["--restless"]);
    assert!(results.join("spin-200us-normal-restless-1.json").is_file());
    let beside = ["--beside", results.to_str().unwrap()];
    for flags in [&beside[..], &["--restless", beside[0], beside[1]]] {
        let text = run(flags);
        assert!(
            text.contains("of 1 in both: proved 1 before and 1 now; only before 0, only now 0"),
            "{text}"
        );
    }
    // None was made with more effort.
    let text = run(&["--effort", "thorough", beside[0], beside[1]]);
    assert!(text.contains("of 0 in both"), "{text}");
}

#[test]
fn what_is_kept_is_not_run_again_and_is_scored_with_the_rest() {
    let counted = |name: &str| {
        let count = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-count"));
        let _ = fs::remove_file(&count);
        let script = format!("echo >> '{}'\n{}", count.display(), says_the_record());
        (stage(name, &script), count)
    };
    let (folder, count) = counted("kept");
    let runs = || fs::read(&count).unwrap_or_default().len();
    let results = folder.join("results");
    let run = |flags: &[&str]| {
        let kept = ["--results", results.to_str().unwrap()];
        said(&walls(&folder, &[&kept[..], flags].concat()))
    };
    run(&["--only", "spin-200us"]);
    let file = results.join("spin-200us-normal-1.json");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(kept["outcome"]["found"]["Ok"]["wall"], "server-cpu");
    assert!(kept["tool"].as_str().unwrap().starts_with("wallfinder 1"));
    // The second seed and another scenario are run; the first is taken as it was.
    let text = run(&["--only", "spin-", "--only", "pool-4x", "--repeat", "2"]);
    let scenarios = 5;
    assert!(text.contains("1 of these runs were made before"), "{text}");
    assert_eq!(runs(), 2 * scenarios, "{text}");
    // The score is of all that match, however they were run.
    let text = run(&["--only", "spin-200us"]);
    assert!(text.contains("right 2 of 2 answered"), "{text}");
    assert_eq!(runs(), 2 * scenarios);
    let text = run(&["--only", "spin-200us", "--effort", "quick"]);
    assert!(text.contains("right 1 of 1 answered"), "{text}");
    run(&["--only", "spin-200us", "--fresh"]);
    assert_eq!(runs(), 2 * scenarios + 2);
    // A label that was corrected counts for what was kept before.
    let wrong = fs::read_to_string(&file)
        .unwrap()
        .replace("\"right\"", "\"wrong\"");
    fs::write(&file, wrong).unwrap();
    assert!(run(&["--only", "spin-200us"]).contains("right 2 of 2 answered"));
}

#[test]
fn a_score_of_several_tools_says_so_and_one_with_a_broken_file_is_none() {
    let folder = stage("mixed", &says_the_record());
    let results = folder.join("results");
    let flags = [
        "--only",
        "spin-200us",
        "--results",
        results.to_str().unwrap(),
    ];
    assert!(!said(&walls(&folder, &flags)).contains("different tools"));
    let file = results.join("spin-200us-normal-1.json");
    let other = fs::read_to_string(&file).unwrap();
    let other = other
        .replace("wallfinder 1", "wallfinder 0")
        .replace("\"seed\": 1", "\"seed\": 2");
    fs::write(results.join("spin-200us-normal-2.json"), other).unwrap();
    let text = said(&walls(&folder, &flags));
    assert!(
        text.contains("different tools") && text.contains("1 by wallfinder 0"),
        "{text}"
    );
    fs::write(&file, "{").unwrap();
    assert_eq!(walls(&folder, &flags).status.code(), Some(2));
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
    let output = walls(&folder, &["--only", "next-cpu-then-link"]);
    assert!(
        said(&output).contains("off by +38.0 %"),
        "{}",
        said(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

/// A `find` that says `wait`, and a `judge` that reads what `find` measured as a CPU wall.
#[test]
fn what_was_measured_is_judged_again_and_by_whom_is_said() {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/record.json");
    let said_first = fs::read_to_string(record)
        .unwrap()
        .replace("server-cpu", "wait");
    let folder = stage("judges", "");
    let (first, runs) = (folder.join("first.json"), folder.join("runs"));
    fs::write(&first, &said_first).unwrap();
    let script = format!(
        "#!/bin/sh\ncase $1 in\n--version) cat '{0}/version';;\njudge) exec cat '{record}';;\n*) exec cat '{1}';;\nesac\n",
        folder.display(),
        first.display()
    );
    fs::write(folder.join("wallfinder"), script).unwrap();
    fs::write(folder.join("version"), "wallfinder 1").unwrap();
    let results = folder.join("results");
    let walls = |flags: &[&str]| {
        let kept = [
            "--only",
            "spin-200us",
            "--results",
            results.to_str().unwrap(),
        ];
        let kept = [&kept[..], &["--runs", runs.to_str().unwrap()], flags].concat();
        walls(&folder, &kept)
    };
    assert!(said(&walls(&[])).contains("right 0 of 1"));
    // The record of another run of the scenario is not taken for it.
    let kept = |name: &str, text: &str| {
        let run = runs.join(format!("{name}-spin-200us"));
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("record.json"), text).unwrap();
    };
    kept("20260101T000000Z", &said_first.replace("4710.0", "4720.0"));
    let output = walls(&["--judge-again"]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("no record of spin-200us"), "{why}");
    kept("20260101T000001Z", &said_first);
    fs::write(folder.join("version"), "wallfinder 2").unwrap();
    let text = said(&walls(&["--judge-again"]));
    assert!(text.contains("right 1 of 1"), "{text}");
    let file = results.join("spin-200us-normal-1.json");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(kept["tool"].as_str().unwrap().starts_with("wallfinder 1"));
    let judge = kept["judged_by"].as_str().unwrap();
    assert!(judge.starts_with("wallfinder 2"), "{judge}");
}

#[test]
fn a_find_that_fails_is_no_answer_and_says_why() {
    let folder = stage("fails", "echo 'no such flag' >&2; exit 2");
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
