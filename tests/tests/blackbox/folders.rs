//! Folders and files that somebody else has prepared where records are kept and read.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wallfinder_tests::{Double, Place, Ran, skip, together};

const SOMEBODY: u32 = 12_345;
const SHORT: [&str; 9] = [
    "-c",
    "1",
    "-d",
    "300ms",
    "--warmup",
    "50ms",
    "--no-calibrate",
    "-q",
    "--name=x",
];

/// Runs a short load with further flags; how many requests there were, and what was said.
fn load(place: &Place, more: &[&str]) -> (u64, Ran) {
    let double = Double::plain();
    let url = double.url("/");
    let ran = place.run(&[&["run", &url], &SHORT[..], more].concat());
    (double.requests(), ran)
}

fn sealed(place: &Place) -> PathBuf {
    load(place, &[]).1.ends_with(0);
    place.last_run()
}

fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        skip("only root can give a folder to another user");
    }
    is
}

/// Gives a folder and all that is in it to another user.
fn give(folder: &Path) {
    lchown(folder, Some(SOMEBODY), None).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => give(&path),
            false => lchown(&path, Some(SOMEBODY), None).unwrap(),
        }
    }
}

#[test]
fn a_page_is_not_written_through_a_link() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place);
    let precious = place.file("precious", "kept");
    let (page, name) = (run.join("report.html"), run.to_str().unwrap());
    fs::remove_file(&page).unwrap();
    symlink(&precious, &page).unwrap();
    // In a folder of ours it takes the link's place.
    place.run(&["report", name]).ends_with(0);
    assert!(fs::symlink_metadata(&page).unwrap().is_file());
    assert_eq!(fs::read(&precious).unwrap(), b"kept");
    assert_eq!(fs::metadata(&page).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_root_writes_for_who_called_it_is_that_users() {
    let _turn = together();
    if !is_root() {
        return;
    }
    let place = Place::new();
    give(place.path());
    let double = Double::plain();
    let url = double.url("/");
    let sudo = [
        format!("SUDO_UID={SOMEBODY}"),
        format!("SUDO_GID={SOMEBODY}"),
    ];
    let sudo = ["env", &sudo[0], &sudo[1]];
    for _ in 0..2 {
        // The second time `runs/` is there, and belongs to the caller.
        let running = place.start_as(&sudo, &[&["run", &url], &SHORT[..]].concat());
        running.wait(Duration::from_secs(60)).ends_with(0);
    }
    let run = place.last_run();
    for part in [&place.path().join("runs"), &run] {
        let found = fs::metadata(part).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (SOMEBODY, 0o700));
    }
    for name in ["record.json", "report.html", "series.parquet", "plan.json"] {
        assert_eq!(
            fs::metadata(run.join(name)).unwrap().uid(),
            SOMEBODY,
            "{name}"
        );
    }
    // Without sudo, root is nobody's deputy.
    load(&place, &[]).1.ends_with(1);
}

#[test]
fn another_users_run_is_read_and_nothing_is_written_there() {
    let _turn = together();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let run = sealed(&place);
    let precious = place.file("precious", "kept");
    let (page, name) = (run.join("report.html"), run.to_str().unwrap());
    fs::remove_file(&page).unwrap();
    symlink(&precious, &page).unwrap();
    give(&run);
    let ran = place.run(&["report", name]).ends_with(1);
    assert!(ran.out.contains("Requests/sec:"), "{}", ran.out);
    assert!(ran.err.contains("--page"), "{}", ran.err);
    assert_eq!(fs::read(&precious).unwrap(), b"kept");
    assert!(fs::symlink_metadata(&page).unwrap().is_symlink());
    let ran = place
        .run(&["report", name, "--page", "mine.html"])
        .ends_with(0);
    assert!(ran.out.contains("mine.html"), "{}", ran.out);
    let mine = fs::read_to_string(place.path().join("mine.html")).unwrap();
    assert!(mine.starts_with("<!doctype html>"), "{}", &mine[..40]);
    place.run(&["judge", name]).ends_with(0);
    place.run(&["compare", name, name]).ends_with(0);
    // By way of their link to what is ours, nothing is written either.
    fs::rename(&run, place.path().join("theirs")).unwrap();
    let ours = sealed(&place);
    fs::remove_file(ours.join("report.html")).unwrap();
    let latest = place.path().join("theirs/latest");
    symlink(&ours, &latest).unwrap();
    place
        .run(&["report", latest.to_str().unwrap()])
        .ends_with(1);
    assert!(!ours.join("report.html").exists());
}

#[test]
fn runs_of_another_user_or_a_link_are_refused_before_any_load() {
    let _turn = together();
    let place = Place::new();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let runs = place.path().join("runs");
    symlink(&elsewhere, &runs).unwrap();
    let is_refused = |why: &str| {
        let (requests, ran) = load(&place, &[]);
        let ran = ran.ends_with(1);
        assert!(
            ran.err.contains(why) && ran.err.contains("--runs"),
            "{}",
            ran.err
        );
        assert_eq!(requests, 0, "{why}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{why}");
    };
    is_refused("is a link");
    fs::remove_file(&runs).unwrap();
    if is_root() {
        fs::create_dir(&runs).unwrap();
        chown(&runs, Some(SOMEBODY), None).unwrap();
        is_refused("belongs to user 12345");
        fs::remove_dir(&runs).unwrap();
        // A whole folder of theirs, as where somebody asks for help: our runs are ours there.
        chown(place.path(), Some(SOMEBODY), None).unwrap();
        sealed(&place);
        assert_eq!(fs::metadata(&runs).unwrap().uid(), 0);
        chown(place.path(), Some(0), None).unwrap();
    }
    load(&place, &["--runs", "elsewhere"]).1.ends_with(0);
    assert_eq!(
        fs::read_dir(&elsewhere).unwrap().count(),
        2,
        "a run, and the latest"
    );
}

#[test]
fn output_goes_where_it_was_named_and_through_no_link_of_another() {
    let _turn = together();
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    let precious = place.file("precious", "kept");
    symlink("text", at("ours")).unwrap();
    load(&place, &["-o", "ours"]).1.ends_with(0);
    assert!(
        fs::read_to_string(at("text"))
            .unwrap()
            .contains("Requests/sec:")
    );
    let (_, ran) = load(&place, &["-o", "/dev/stdout", "--format", "json"]);
    ran.ends_with(0).json();
    if is_root() {
        for (link, to) in [("link", "precious"), ("fresh", "made")] {
            symlink(to, at(link)).unwrap();
            lchown(at(link), Some(SOMEBODY), None).unwrap();
            let (requests, ran) = load(&place, &["-o", link]);
            let ran = ran.ends_with(1);
            assert!(ran.err.contains("link of user 12345"), "{}", ran.err);
            assert_eq!(requests, 0);
        }
        assert_eq!(fs::read(&precious).unwrap(), b"kept");
        assert!(!at("made").exists());
    }
}

#[test]
fn what_is_no_plain_file_in_a_run_is_not_waited_for() {
    let _turn = together();
    let place = Place::new();
    let run = sealed(&place);
    let name = run.to_str().unwrap();
    let record = run.join("record.json");
    fs::remove_file(&record).unwrap();
    let pipe = Command::new("mkfifo").arg(&record).status().unwrap();
    assert!(pipe.success());
    for words in [
        vec!["report", name],
        vec!["judge", record.to_str().unwrap()],
        vec!["compare", name, name],
    ] {
        let ran = place.run(&words);
        assert!(matches!(ran.code, Some(1 | 2)), "{words:?}: {:?}", ran.code);
        assert!(
            ran.err.contains("not a plain file"),
            "{words:?}: {}",
            ran.err
        );
    }
    fs::remove_file(&record).unwrap();
    fs::File::create(&record)
        .unwrap()
        .set_len(10_000_000_000)
        .unwrap();
    let ran = place.run(&["report", name]).ends_with(1);
    assert!(ran.err.contains("10000000000 bytes"), "{}", ran.err);
    // Parquet of all zeros, and a pipe of that name.
    fs::remove_file(&record).unwrap();
    let samples = run.join("samples-0.parquet");
    let pipe = Command::new("mkfifo").arg(&samples).status().unwrap();
    assert!(pipe.success());
    for path in [name, samples.to_str().unwrap()] {
        let ran = place.run(&["samples", path]).ends_with(1);
        assert!(ran.err.contains("not a plain file"), "{}", ran.err);
    }
}
