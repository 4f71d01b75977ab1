//! What befalls a run: the machine stands still for a while, its disk fills up, a driver hangs.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_tests::{
    Double, Place, assert_balanced, binary, descendants, end_soon, program, skip, together,
};

/// The gap is flagged, and what is caught up with is bounded by connections and
/// deadlines.
#[test]
fn a_run_that_was_stopped_for_ten_seconds_flags_the_gap_and_catches_up_within_bounds() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let args = [
        "run",
        &url,
        "-c",
        "2",
        "-R",
        "200",
        "-d",
        "16s",
        "--warmup",
        "100ms",
        "--timeout",
        "3s",
        "--no-calibrate",
        "-q",
    ];
    let running = place.start(&args);
    double.await_requests(200);
    let since = Instant::now();
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(10));
    let before = double.requests();
    running.signal(Signal::CONT);
    // On a machine that is busy, seconds longer than it was meant to be.
    let stopped = since.elapsed().as_secs_f64();
    running.wait(Duration::from_secs(30)).ends_with(0);
    let step = place.step();
    let caveats = step["caveats"].as_array().unwrap();
    // The longest: others may hold it up as well, for a moment.
    let gaps = caveats
        .iter()
        .filter_map(|caveat| caveat["gap_ns"].as_u64());
    let gap = gaps.max().unwrap_or_else(|| panic!("no gap: {caveats:#?}"));
    let gap = gap as f64 / 1e9;
    assert!(
        (stopped - 1.0..stopped + 1.5).contains(&gap),
        "{gap} of {stopped}"
    );
    // Two hundred were to start in each second. Those within their deadline were sent, the others are
    // failures, and none is lost.
    let counts = &step["counts"];
    assert_balanced(&step);
    let late = counts["failed"]["timeout.total"].as_u64().unwrap_or(0) as f64 / 200.0;
    assert!(
        (gap - 4.0..gap - 2.0).contains(&late),
        "{gap} s: {counts:#}"
    );
    // The deadline's three seconds of the gap, and of the sixteen what is left after it and the first.
    let sent = double.requests() - before;
    assert!(sent < 200 * (3 + 6), "{sent} requests after the gap");
    // A request that was under way when all stopped is past its deadline, and its connection given up.
    assert!((2..=4).contains(&double.connections()));
}

/// Wherever the disk fills up, the load stops, the exit code says so, and what
/// was written can be read.
#[test]
fn a_disk_that_fills_up_anywhere_ends_the_load_and_leaves_a_prefix() {
    let _turn = together();
    if !rustix::process::geteuid().is_root() || program("unshare").is_none() {
        skip("it needs root and unshare, for a small file system of its own");
        return;
    }
    let double = Double::plain();
    let url = double.url("/");
    let full = [
        ("8k", 4),
        ("64k", 20),
        ("160k", 20),
        ("320k", 20),
        ("220k", 2),
    ];
    // Each has a disk of its own, and waits for it to fill up most of the time.
    let codes: Vec<String> = thread::scope(|scope| {
        let runs = full.map(|(size, seconds)| {
            let url = &url;
            scope.spawn(move || code_on_a_disk_of(size, seconds, url))
        });
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(
        codes[..4],
        ["1", "1", "1", "1"],
        "a journal that grew beyond its disk"
    );
}

/// The exit code of a run whose record lies on so small a disk, and which is read afterwards.
fn code_on_a_disk_of(size: &str, seconds: u64, url: &str) -> String {
    let wallfinder = binary().display().to_string();
    let place = Place::new();
    let dir = place.path().display().to_string();
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs {dir} || exit 99
         {wallfinder} run {url} -c 4 -R 400 -d {seconds}s --no-calibrate -q --runs {dir}/runs
         echo \"code $?\"
         for run in {dir}/runs/2*; do
             test -e $run/journal.wfj || test -e $run/record.json || continue
             {wallfinder} judge $run --format json > /dev/null
             echo \"read $?\"
         done"
    );
    let began = Instant::now();
    let out = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .output()
        .unwrap();
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_ne!(out.status.code(), Some(99), "{error}");
    println!("{size}: {took:?}: {said}{error}");
    let line = |what: &str| said.lines().find_map(|line| line.strip_prefix(what));
    let code = line("code ").expect("it ended").to_owned();
    assert!(!error.contains("panicked"), "{error}");
    if code != "0" {
        assert_eq!(code, "1", "{said}{error}");
        let full = error.contains("No space left") || error.contains("bytes went in");
        assert!(full, "{error}");
        // The larger ones may fill up only when the record is sealed, at the end.
        assert!(
            seconds <= 4 || took < Duration::from_secs(19) || size == "320k",
            "the load went on for {took:?}"
        );
    }
    // Where not even the header could be written, there is nothing to be read.
    assert!(size == "8k" || line("read ") == Some("0"), "{said}{error}");
    code
}

#[test]
fn a_driver_that_hangs_is_stopped() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let script = "#!/bin/sh\ncase \"$1\" in -v*|--version) echo wrk 4.2; exit 0;; esac\n\
        trap '' INT TERM\nwhile :; do sleep 1; done\n";
    let wrk = place.file("wrk", script);
    std::fs::set_permissions(&wrk, std::fs::Permissions::from_mode(0o755)).unwrap();
    let url = double.url("/");
    let driver = format!("{} -c 1 -d 1s {{url}}", wrk.display());
    let running = place.start(&["run", &url, "-q", "--driver", &driver]);
    let pid = running.pid();
    std::thread::sleep(Duration::from_secs(2));
    let below = descendants(pid);
    let ran = running.wait(Duration::from_secs(50));
    assert!(
        matches!(ran.code, Some(0 | 1)),
        "{:?} {}",
        ran.code,
        ran.err
    );
    assert!(end_soon(&below), "the driver is left");
}
