//! The sampler against processes whose behaviour is known.

mod stand;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use wallfinder_model::telemetry::{FamilySummary, Telemetry};
use wallfinder_probe::{Family, Sampler, Setup, family_of, family_of_self};
use wallfinder_sys::clock::monotonic_ns;

use stand::{AtEnd, Running, is_root, shell, try_to};

const SPIN: &str = "while :; do :; done";

/// Observes a server for a while, between two marks.
fn observe(server: Family, window: Duration) -> Telemetry {
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(server),
        ..Setup::default()
    });
    let sampler = sampler.expect("sampling starts");
    let from = sampler.mark("open");
    sleep(window);
    let to = sampler.mark("close");
    let live = sampler.summarise(from, to);
    let series = sampler.stop();
    let telemetry = series.summarise(from, to);
    assert_eq!(
        telemetry, live,
        "a summary is the same before and after the end"
    );
    assert_eq!(telemetry.window_ns, (to - from) as u64, "marks are exact");
    assert_eq!(
        series.marks(),
        [("open".to_owned(), from), ("close".to_owned(), to)]
    );
    assert!(telemetry.observer_cpu_ns > 0);
    telemetry
}

#[test]
fn between_marks_nothing_is_looked_at_where_nobody_asks_for_it() {
    let child = spinning_on(0);
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(10),
        server: Some(family_of(child.pid()).unwrap()),
        marks_only: true,
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    sleep(Duration::from_millis(100));
    let from = sampler.mark("open");
    sleep(Duration::from_millis(400));
    let to = sampler.mark("close");
    assert!(sampler.latest().is_none());
    let series = sampler.stop();
    let telemetry = series.summarise(from, to);
    assert_eq!((telemetry.samples, series.samples.len()), (0, 0));
    assert!(series.gaps().is_empty());
    let server = server_of(&telemetry);
    assert!(
        server.utilisation > 0.5 && server.utilisation < 1.1,
        "{server:#?}"
    );
}

fn server_of(telemetry: &Telemetry) -> &FamilySummary {
    telemetry.server.as_ref().expect("the server was observed")
}

fn spinning_on(cpu: u32) -> Running {
    shell(&format!("exec taskset -c {cpu} sh -c '{SPIN}'"))
}

#[test]
fn a_busy_process_runs_or_waits_to_run() {
    let child = spinning_on(0);
    sleep(Duration::from_millis(50));
    let telemetry = observe(family_of(child.pid()).unwrap(), Duration::from_millis(800));
    let server = server_of(&telemetry);
    let wall = telemetry.window_ns as f64;
    let accounted = server.cpu_ns as f64 + server.run_wait_cores * wall;
    assert!((accounted / wall - 1.0).abs() < 0.1, "{telemetry:#?}");
    assert_eq!(server.cpus_allowed, [0]);
    assert_eq!(
        (server.processes, server.threads, server.name.as_str()),
        (1, 1, "sh")
    );
    assert!((server.utilisation - server.cpu_ns as f64 / wall).abs() < 1e-9);
    assert!(server.cpu_user_ns <= server.cpu_ns, "{server:#?}");
    let hottest = server.hottest_thread.as_ref().unwrap();
    assert_eq!(hottest.tid, child.pid());
    assert!((hottest.share - server.utilisation).abs() < 0.05);
    assert!(server.cpus_busy > 0.9, "{server:#?}");
    assert!(server.rss_bytes_max > 100_000);
}

#[test]
fn an_idle_process_uses_nothing() {
    let child = shell("exec sleep 60");
    let telemetry = observe(family_of(child.pid()).unwrap(), Duration::from_millis(300));
    let server = server_of(&telemetry);
    assert!(server.cpu_ns < 5_000_000, "{server:#?}");
    assert!(server.utilisation < 0.02);
}

#[test]
fn a_neighbour_on_the_same_processor_is_seen() {
    let server = spinning_on(1);
    let _neighbour = spinning_on(1);
    sleep(Duration::from_millis(50));
    let telemetry = observe(family_of(server.pid()).unwrap(), Duration::from_millis(800));
    let summary = server_of(&telemetry);
    assert!(summary.neighbour_cores > 0.3, "{summary:#?}");
    assert!(summary.run_wait_cores > 0.3, "{summary:#?}");
}

#[test]
fn children_too_short_to_be_seen_are_counted() {
    // Each child spins for some milliseconds, far below the half second between looks for children.
    let script = "n=0; while [ $n -lt 60 ]; do sh -c 'i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done'; n=$((n+1)); done; exec sleep 60";
    let child = shell(script);
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(family_of(child.pid()).unwrap()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    let stat = |pid: u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
        wallfinder_probe::parse::process::stat(&bytes).unwrap()
    };
    let before = stat(child.pid());
    while wallfinder_probe::parse::process::stat_name(
        &std::fs::read(format!("/proc/{}/stat", child.pid())).unwrap(),
    )
    .unwrap()
        != "sleep"
    {
        sleep(Duration::from_millis(20));
    }
    let to = sampler.mark("close");
    let after = stat(child.pid());
    let ticks = |stat: wallfinder_probe::parse::process::Stat| {
        stat.user_ticks + stat.system_ticks + stat.reaped_ticks
    };
    let truth_ns = (ticks(after) - ticks(before)) as f64 * 1e7;
    let seen_ns = server_of(&sampler.stop().summarise(from, to)).cpu_ns as f64;
    assert!(truth_ns > 1e8, "the children used {truth_ns} ns");
    assert!(
        (seen_ns - truth_ns).abs() < 0.1 * truth_ns + 4e7,
        "seen {seen_ns}, truth {truth_ns}"
    );
}

#[test]
fn a_family_that_starts_children_grows() {
    let child = shell("sleep 0.2; sleep 60 & sleep 60 & wait");
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(family_of(child.pid()).unwrap()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    sleep(Duration::from_millis(900));
    let to = sampler.mark("close");
    let series = sampler.stop();
    let telemetry = series.summarise(from, to);
    let server = server_of(&telemetry);
    assert_eq!(server.processes, 3, "{server:#?}");
    assert!(series.samples.len() >= 10);
    for pid in server.pids.iter().filter(|pid| **pid != child.pid()) {
        try_to(&format!("kill {pid}"));
    }
}

#[test]
fn the_death_of_a_server_is_survived() {
    let child = shell(SPIN);
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(family_of(child.pid()).unwrap()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    sleep(Duration::from_millis(300));
    drop(child);
    sleep(Duration::from_millis(200));
    let to = sampler.mark("close");
    let telemetry = sampler.stop().summarise(from, to);
    let server = server_of(&telemetry);
    assert_eq!(server.processes, 0);
    assert!(
        server.cpu_ns > 30_000_000,
        "what it used stays: {server:#?}"
    );
}

#[test]
fn both_sides_and_the_live_view() {
    let child = spinning_on(0);
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        client: Some(family_of_self()),
        server: Some(family_of(child.pid()).unwrap()),
        interface: Some("lo".to_owned()),
        pin: Some(1),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    sleep(Duration::from_millis(250));
    let sample = sampler.latest().expect("ticks have come");
    assert!(sample.span_ns > 20_000_000);
    assert!(sample.client.is_some() && sample.server.is_some());
    assert!(sample.link.is_some() && sample.tcp.is_some());
    assert!(!sample.cores.is_empty());
    for core in &sample.cores {
        let all = core.busy() + core.steal + core.idle;
        assert!(all == 0.0 || (all - 1.0).abs() < 1e-3, "{core:?}");
    }
    let series = sampler.stop();
    assert!(
        series
            .samples
            .windows(2)
            .all(|pair| pair[0].at_ns < pair[1].at_ns)
    );
    let whole = series.summarise(i64::MIN, i64::MAX);
    assert!(whole.samples as usize == series.samples.len());
    assert_eq!(
        series.summarise(0, 0),
        Telemetry::default(),
        "an empty window has no summary"
    );
}

/// Puts a spinning process under a quota of a fifth of a core and looks at the throttling.
fn throttled_in(group: &str, set_quota: &str) {
    let folder = group.to_owned();
    let child = shell(SPIN);
    let pid = child.pid();
    let _clean = AtEnd(move || {
        try_to(&format!(
            "kill -9 {pid} 2>/dev/null; sleep 0.1; rmdir {folder}"
        ));
    });
    stand::must(&format!(
        "mkdir {group} && cd {group} && {set_quota} && echo {pid} > cgroup.procs"
    ));
    let telemetry = observe(family_of(pid).unwrap(), Duration::from_millis(1000));
    let server = server_of(&telemetry);
    assert_eq!(server.quota_cores, Some(0.2));
    assert!(server.throttled_share > 0.5, "{server:#?}");
    assert!(server.throttled_ns > 300_000_000, "{server:#?}");
    assert!(
        (0.5..1.3).contains(&server.utilisation),
        "a full quota is full use: {server:#?}"
    );
}

/// Whether a test may set quotas of version 1; says so when it may not.
fn has_version_1(test: &str) -> bool {
    let is_root = is_root(test);
    let has = try_to("test -w /sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    if !has {
        wallfinder_skip::skip("no version 1 cpu controller here");
    }
    has && is_root
}

#[test]
fn throttling_shows_in_version_1() {
    if !has_version_1("throttling_shows_in_version_1") {
        return;
    }
    let group = format!("/sys/fs/cgroup/cpu/wf-test-probe-{}", std::process::id());
    throttled_in(
        &group,
        "echo 20000 > cpu.cfs_period_us && echo 4000 > cpu.cfs_quota_us",
    );
}

#[test]
fn throttling_shows_in_version_2() {
    if !is_root("throttling_shows_in_version_2") {
        return;
    }
    if !try_to("grep -qw cpu /sys/fs/cgroup/cgroup.subtree_control") {
        wallfinder_skip::skip("no version 2 cpu controller here");
        return;
    }
    let group = format!("/sys/fs/cgroup/wf-test-probe-{}", std::process::id());
    throttled_in(&group, "echo '4000 20000' > cpu.max");
}

#[test]
fn a_quota_set_while_sampling_is_seen_at_the_next_mark() {
    if !has_version_1("a_quota_set_while_sampling_is_seen_at_the_next_mark") {
        return;
    }
    let group = format!("/sys/fs/cgroup/cpu/wf-test-later-{}", std::process::id());
    let child = shell(SPIN);
    let pid = child.pid();
    let folder = group.clone();
    let _clean = AtEnd(move || {
        try_to(&format!(
            "kill -9 {pid} 2>/dev/null; sleep 0.1; rmdir {folder}"
        ));
    });
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(family_of(pid).unwrap()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let first = sampler.mark("before");
    sleep(Duration::from_millis(200));
    let second = sampler.mark("between");
    stand::must(&format!(
        "mkdir {group} && cd {group} && echo 10000 > cpu.cfs_quota_us && echo {pid} > cgroup.procs"
    ));
    let third = sampler.mark("squeezed");
    sleep(Duration::from_millis(500));
    let fourth = sampler.mark("after");
    let series = sampler.stop();
    let free = series.summarise(first, second);
    assert_eq!(
        (server_of(&free).quota_cores, server_of(&free).throttled_ns),
        (None, 0)
    );
    let held = series.summarise(third, fourth);
    assert_eq!(server_of(&held).quota_cores, Some(0.1));
    assert!(server_of(&held).throttled_ns > 200_000_000, "{held:#?}");
}

#[test]
fn taskset_is_there() {
    assert!(
        Command::new("taskset").arg("--version").output().is_ok(),
        "the tests pin processes with taskset"
    );
}
