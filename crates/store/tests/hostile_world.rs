//! Kills, full and read-only disks, and files by somebody else.

mod records;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use records::{Scratch, record, step_begun, step_ended};
use wallfinder_model::Caveat;
use wallfinder_store::{RunFolder, StoreError, open};

/// The example that is killed. Cargo builds it with the tests, unless told to build one test.
fn writer() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.ancestors().nth(2).expect("target/debug/deps/test");
    let path = profile.join("examples/journal_writer");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args([
            "build",
            "--package",
            "wallfinder-store",
            "--example",
            "journal_writer",
        ]);
        assert!(build.status().expect("cargo").success());
    }
    path
}

#[test]
fn a_killed_run_loses_at_most_one_interval() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for round in 0..10 {
            let runs = scratch.0.join(format!("runs{round}"));
            scope.spawn(move || is_killed(&runs, round));
        }
    });
}

fn is_killed(runs: &Path, round: u32) {
    let mut child = Command::new(writer())
        .arg("intervals")
        .arg(runs)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let folder = lines.next().expect("a folder").expect("text");
    let first = lines.next().expect("an interval").expect("text");
    // A moment drawn from the clock, another one for each; printed, should it matter.
    let drawn = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let within = u64::from(drawn.expect("after 1970").subsec_nanos()) % 100_000;
    let wait = Duration::from_micros(u64::from(round) * 100_000 + within);
    std::thread::sleep(wait);
    child.kill().expect("SIGKILL");
    child.wait().expect("gone");
    let last = lines.map_while(Result::ok).last().unwrap_or(first);
    let noted: usize = last.parse().expect("a number");
    let record = open(Path::new(&folder)).expect("readable");
    let kept = record.steps[0].intervals.len();
    println!("killed after {wait:?}: {noted} noted, {kept} kept");
    assert!(
        kept + 1 >= noted,
        "killed after {wait:?}: {noted} noted, {kept} kept"
    );
    assert!(!record.complete);
}

/// Runs the example on a file system of its own; what it says and its exit code. None
/// without the privilege.
fn on_tmpfs(options: &str, what: &str) -> Option<(String, Option<i32>)> {
    let scratch = Scratch::new();
    let mount = format!(
        "mount -t tmpfs -o {options} tmpfs {dir} || exit 99; exec {writer} {what} {dir}/runs",
        dir = scratch.0.display(),
        writer = writer().display(),
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &mount])
        .output()
        .ok()?;
    let code = output.status.code();
    if code == Some(99) || String::from_utf8_lossy(&output.stderr).contains("unshare") {
        wallfinder_skip::skip("no privilege to mount a tmpfs");
        return None;
    }
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), code))
}

#[test]
fn a_disk_that_fills_up_stops_the_run_and_what_was_written_is_readable() {
    let Some((said, code)) = on_tmpfs("size=256k", "fill") else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    let readable: u64 = said
        .split_ascii_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    assert!(readable > 500, "{said}");
    assert!(said.contains("No space left"), "{said}");
    assert!(said.contains("not sealed"), "{said}");
    assert!(
        said.contains(&format!("still {readable} readable")),
        "{said}"
    );
}

#[test]
fn a_full_disk_stops_the_run_before_any_load() {
    let Some((said, code)) = on_tmpfs("size=4k", "fill") else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.starts_with("could not write") && said.contains("No space left"),
        "{said}"
    );
}

#[test]
fn a_read_only_disk_stops_the_run_before_any_load() {
    let Some((said, code)) = on_tmpfs("ro", "intervals") else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("Read-only") && said.contains("choose a folder"),
        "{said}"
    );
}

#[test]
fn neither_a_run_nor_a_link_nor_a_file_is_written_into() {
    let scratch = Scratch::new();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_183_331);
    let name = "20261120T140211Z-x";
    let elsewhere = scratch.0.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let links: [fn(&Path, &Path) -> std::io::Result<()>; 3] = [
        |_, at| std::fs::create_dir(at),
        |to, at| std::os::unix::fs::symlink(to, at),
        |_, at| std::fs::write(at, "precious"),
    ];
    for link in links {
        let runs = scratch.0.join("runs");
        std::fs::create_dir_all(&runs).expect("a folder");
        link(&elsewhere, &runs.join(name)).expect("in the way");
        let error = RunFolder::create(&runs, "x", now).expect_err("in the way");
        assert!(matches!(error, StoreError::Exists { .. }), "{error}");
        assert_eq!(std::fs::read_dir(&elsewhere).expect("a folder").count(), 0);
        std::fs::remove_dir_all(&runs).expect("removed");
    }
    std::fs::write(scratch.0.join("file"), "").expect("written");
    let error = RunFolder::create(&scratch.0.join("file"), "x", now).expect_err("a file");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
}

#[test]
fn a_foreign_latest_is_left_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("latest"), "mine").expect("written");
    RunFolder::create(&scratch.0, "x", SystemTime::now()).expect("created");
    assert_eq!(
        std::fs::read(scratch.0.join("latest")).expect("there"),
        b"mine"
    );
}

fn sealed(scratch: &Scratch) -> (PathBuf, String) {
    let folder = RunFolder::create(&scratch.0, "x", SystemTime::now()).expect("created");
    let mut record = record(folder.id(), 1);
    let journal = folder.begin(&record).expect("begun");
    journal.step_begins(&step_begun(0)).expect("noted");
    record.steps.push(step_ended(0));
    let path = folder.seal(&journal, &record).expect("sealed");
    let text = std::fs::read_to_string(&path).expect("text");
    (path, text)
}

#[test]
fn hostile_records_are_errors() {
    let scratch = Scratch::new();
    let (path, text) = sealed(&scratch);
    let folder = path.parent().expect("a folder").to_owned();
    let deep = format!(
        "{{\"schema\":\"wallfinder.record/2\",\"x\":{}",
        "[".repeat(1_000_000)
    );
    for (what, hostile) in [
        ("empty", String::new()),
        ("no JSON", "<html>".into()),
        ("an array", "[]".into()),
        ("truncated", text[..text.len() / 2].into()),
        ("deep", deep),
        (
            "a wrong type",
            text.replace("\"steps\": [", "\"steps\": 7, \"y\": ["),
        ),
        (
            "a negative count",
            text.replace("\"answered\": 10065", "\"answered\": -1"),
        ),
        (
            "too large a number",
            text.replace("\"answered\": 10065", "\"answered\": 1e400"),
        ),
        (
            "a null",
            text.replace("\"throughput\": 10065.0", "\"throughput\": null"),
        ),
        (
            "a field twice",
            text.replace("\"steps\": [", "\"steps\": [], \"steps\": ["),
        ),
        (
            "another schema",
            text.replace("wallfinder.record/2", "somebody.else/1"),
        ),
        (
            "no version",
            text.replace("wallfinder.record/2", "wallfinder.record"),
        ),
    ] {
        std::fs::write(&path, hostile).expect("written");
        let error = open(&folder).expect_err(what);
        assert!(
            matches!(error, StoreError::BadRecord { .. }),
            "{what}: {error}"
        );
    }
    std::fs::write(
        &path,
        text.replace("record/2", "record/3")
            .replace("steps", "stages"),
    )
    .expect("written");
    let error = open(&folder).expect_err("newer");
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{error}");
    assert!(
        error.to_string().contains("use a newer wallfinder"),
        "{error}"
    );
    let file = std::fs::File::create(&path).expect("created");
    file.set_len(1 << 40).expect("sparse");
    assert!(matches!(open(&folder), Err(StoreError::TooLarge { .. })));
}

#[test]
fn what_is_no_run_is_said_to_be_none() {
    let scratch = Scratch::new();
    let error = open(&scratch.0).expect_err("empty");
    assert!(
        error
            .to_string()
            .contains("neither record.json nor journal.wfj"),
        "{error}"
    );
    assert!(matches!(
        open(Path::new("/dev/null")),
        Err(StoreError::NotAFile { .. })
    ));
    assert!(open(&scratch.0.join("nothing")).is_err());
    // A pipe would be waited for.
    let pipe = scratch.0.join("record.json");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(matches!(open(&scratch.0), Err(StoreError::NotAFile { .. })));
        assert!(matches!(open(&pipe), Err(StoreError::NotAFile { .. })));
    }
    std::fs::remove_file(&pipe).expect("removed");
    std::fs::write(scratch.0.join("journal.wfj"), "WFJRNL1\n\x05\0").expect("written");
    let error = open(&scratch.0).expect_err("torn");
    assert!(
        matches!(
            error,
            StoreError::Damaged {
                offset_bytes: 8,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn broken_telemetry_costs_a_caveat_and_not_the_record() {
    let scratch = Scratch::new();
    let (path, _) = sealed(&scratch);
    let folder = path.parent().expect("a folder");
    let series = folder.join("series.parquet");
    let whole = std::fs::read(&series).expect("there");
    assert_eq!(open(folder).expect("readable").steps[0].series.len(), 24);
    std::panic::set_hook(Box::new(|_| {}));
    let mut noted = 0;
    let mut note = || {
        let record = open(folder).expect("the record itself is fine");
        noted += usize::from(matches!(record.caveats[..], [Caveat::Note { .. }]));
    };
    for bytes in [&[], &b"PAR1PAR1"[..], &whole[..whole.len() / 2], &whole] {
        std::fs::write(&series, bytes).expect("written");
        note();
    }
    // Every byte of the footer, and some of the rest, turned into what surprises a parser. In place: a
    // file that is written anew is flushed to its disk as it is closed, by ext4.
    let file = std::fs::File::options().write(true).open(&series);
    let file = file.expect("there");
    let footer = whole.len() - 3_000;
    for at in (footer..whole.len()).chain((0..footer).step_by(97)) {
        let put = |byte: u8| file.write_all_at(&[byte], at as u64).expect("written");
        put([0x00, 0xff, 0x7f, 0x80][at % 4]);
        note();
        put(whole[at]);
    }
    let _ = std::panic::take_hook();
    assert!(noted > 100, "{noted}");
}

#[test]
fn a_number_that_is_not_finite_is_refused_and_the_journal_stays() {
    let scratch = Scratch::new();
    let folder = RunFolder::create(&scratch.0, "x", SystemTime::now()).expect("created");
    let mut record = record(folder.id(), 1);
    let journal = folder.begin(&record).expect("begun");
    journal.step_ends(&step_ended(0)).expect("noted");
    record.steps.push(step_ended(0));
    record.steps[0].throughput = f64::NAN;
    let error = folder.seal(&journal, &record).expect_err("NaN");
    assert!(matches!(error, StoreError::BadRecord { .. }), "{error}");
    assert_eq!(
        open(folder.path()).expect("from the journal").steps,
        [step_ended(0)]
    );
}
