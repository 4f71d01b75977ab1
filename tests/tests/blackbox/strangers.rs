//! Run in a folder that is somebody else's, and with a path and an environment that are: what lies
//! there is not run, what is ours is not handed on, and who runs what is as asked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use wallfinder_tests::{
    Double, Place, Ran, alive, descendants, free_port, listens_on, program, skip, subjects,
    together,
};

const NOBODY: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(60);

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("it needs root");
    }
    is_root
}

/// A program that says that it was run, by a file.
fn plant(path: &Path, sign: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let script = format!("#!/bin/sh\ntouch '{}'\nexec sleep 1\n", sign.display());
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Names that the tool asks for.
const NAMES: [&str; 12] = [
    "knownwall",
    "catalogue",
    "echo-client",
    "autocannon",
    "wrk",
    "oha",
    "ip",
    "tc",
    "ethtool",
    "node",
    "sleep",
    "planted",
];

/// A folder that looks like the tool's own, with a program of each name in each place that might be
/// looked into, and one below it. Whoever runs any of them leaves `sign`.
fn trap(place: &Place) -> (PathBuf, PathBuf) {
    let (top, sign) = (place.path().join("trap"), place.path().join("was-run"));
    let deep = top.join("a/b");
    fs::create_dir_all(&deep).unwrap();
    for folder in ["subjects", "crates"] {
        fs::create_dir_all(top.join(folder)).unwrap();
        fs::create_dir_all(deep.join(folder)).unwrap();
    }
    for within in [&top, &deep] {
        for folder in [
            "",
            "bin",
            "node_modules/.bin",
            ".peers/bin",
            "bench/node_modules/.bin",
            "bench/.peers/bin",
            "target/release",
            "libexec/wallfinder",
        ] {
            for name in NAMES {
                plant(&within.join(folder).join(name), &sign);
            }
        }
    }
    (deep, sign)
}

/// Runs the binary there, with this path.
fn run_in(place: &Place, folder: &Path, path: &str, args: &[&str]) -> Ran {
    let path = format!("PATH={path}");
    let folder = folder.display().to_string();
    let runs = place.path().join("elsewhere").display().to_string();
    let wrapper = ["env", "-C", &folder, "-u", "WALLFINDER_SUBJECTS", &path];
    let kept = [args, &["--runs", &runs]].concat();
    let args = if args[0] == "doctor" { args } else { &kept };
    place.start_as(&wrapper, args).wait(LIMIT)
}

#[test]
fn nothing_is_run_from_the_current_folder_or_from_those_above_it() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let (folder, sign) = trap(&place);
    let url = double.url("/");
    let short = ["-q", "-d", "200ms", "--no-calibrate"];
    for path in [
        "/usr/bin:/bin",
        ":/usr/bin:/bin",
        ".:bin:./node_modules/.bin:/usr/bin:/bin::",
    ] {
        let ran = |args: &[&str]| {
            let ran = run_in(&place, &folder, path, args);
            assert!(!sign.exists(), "PATH={path} {args:?}: {}", ran.said());
            ran
        };
        for subject in ["knownwall", "catalogue"] {
            let port = free_port().to_string();
            let url = format!("http://subject:{port}/");
            // Where this tool's own are built they are run, and else none.
            let ran = ran(&[&["run", &url, "--subject", subject][..], &short].concat());
            assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.said());
        }
        for driver in [
            "autocannon -d 1 {url}",
            "wrk -d 1s {url}",
            "oha -z 1s {url}",
            "echo-client rest {url}",
        ] {
            ran(&[&["run", &url, "--driver", driver][..], &short].concat());
        }
        let missing = ran(&[&["run", &url, "--driver", "planted {url}"][..], &short].concat());
        let missing = missing.ends_with(1);
        assert!(
            missing.err.contains("`planted` was not found on PATH"),
            "{}",
            missing.err
        );
        let says = missing
            .err
            .contains("entries of PATH that mean the current folder");
        assert_eq!(says, path != "/usr/bin:/bin", "{}", missing.err);
        // Nor by what is run.
        ran(&[
            &["run", &url, "--driver", "sh -c 'planted; ip; sleep 0.1'"][..],
            &short,
        ]
        .concat());
        ran(&[&["run", &url][..], &short].concat()).ends_with(0);
        let doctor = ran(&["doctor"]).ends_with(0);
        let says = doctor.out.contains("means the current folder by");
        assert_eq!(says, path != "/usr/bin:/bin", "{}", doctor.out);
    }
    // What the user gives by its path is the user's to run.
    run_in(
        &place,
        &folder,
        "/usr/bin:/bin",
        &["run", &url, "-q", "--driver", "./planted {url}"],
    );
    assert!(sign.exists(), "the trap works");
}

#[test]
fn a_folder_of_subjects_that_others_may_change_is_refused_as_root() {
    let _turn = together();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let sign = place.path().join("was-run");
    let folder = place.path().join("theirs");
    plant(&folder.join("knownwall"), &sign);
    let url = format!("http://subject:{}/", free_port());
    let run = |named: &Path, from: &[&str]| {
        let named = format!("WALLFINDER_SUBJECTS={}", named.display());
        let wrapper = [&["env", &named][..], from].concat();
        let args = ["run", &url, "--subject", "knownwall", "-q", "-d", "200ms"];
        let ran = place.start_as(&wrapper, &args).wait(LIMIT);
        assert_eq!(ran.code, Some(1), "{}", ran.said());
        ran.err
    };
    let refused = |named: &Path, by: &str| {
        let err = run(named, &[]);
        assert!(!sign.exists(), "{err}");
        assert!(
            err.contains("is not run as root") && err.contains(by),
            "{err}"
        );
    };
    let program = folder.join("knownwall");
    for theirs in [&folder, &program] {
        chown(theirs, Some(NOBODY), None).unwrap();
        refused(&folder, "belongs to user 65534");
        // Who calls by sudo may have them.
        chown(theirs, Some(NOBODY - 1), None).unwrap();
        let err = run(&folder, &["SUDO_UID=65533", "SUDO_USER=root"]);
        assert!(
            err.contains("ended before it listened") || err.contains("did not"),
            "{err}"
        );
        assert!(sign.exists());
        fs::remove_file(&sign).unwrap();
        chown(theirs, Some(0), None).unwrap();
    }
    for (open, mode) in [(&folder, 0o777), (&program, 0o757)] {
        fs::set_permissions(open, fs::Permissions::from_mode(mode)).unwrap();
        refused(&folder, "may be written to by everybody");
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // A link of ours to a place of theirs.
    chown(&folder, Some(NOBODY), None).unwrap();
    let link = place.path().join("link");
    symlink(&folder, &link).unwrap();
    refused(&link, "belongs to user 65534");
}

/// What a driver wrote with a script of this, in a folder where all may write.
fn said_by_driver(place: &Place, wrapper: &[&str], flags: &[&str], script: &str) -> (String, Ran) {
    let folder = place.path().join("open");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.join("said");
    let _ = fs::remove_file(&file);
    let double = Double::plain();
    let file_name = file.display();
    // What it says itself it may open by name, too.
    let named = format!("echo x >/dev/stdout && echo x >/dev/stderr && echo opened >>{file_name}");
    let driver = format!("sh -c '({script}) >{file_name}; {named}'");
    let url = double.url("/");
    let args = [&["run", &url, "-q", "--driver", &driver][..], flags].concat();
    let ran = place.start_as(wrapper, &args).wait(LIMIT);
    (fs::read_to_string(&file).unwrap_or_default(), ran)
}

#[test]
fn children_are_given_the_variables_that_are_named_and_no_others() {
    let _turn = together();
    let place = Place::new();
    let wrapper = [
        "env",
        "AWS_SECRET_ACCESS_KEY=hush1",
        "GITHUB_TOKEN=hush1",
        "LD_LIBRARY_PATH=hush1",
        "GOPROXY=hush1",
        "LC_WF=kept",
        "GOMAXPROCS=3",
        "MINE=asked",
        "PATH=/usr/bin:.:/bin",
    ];
    let flags = ["--env", "MINE", "--env", "PIN=hush2", "--env", "TZ=UTC7"];
    let (said, _) = said_by_driver(&place, &wrapper, &flags, "env");
    for line in [
        "LC_WF=kept",
        "GOMAXPROCS=3",
        "MINE=asked",
        "PIN=hush2",
        "TZ=UTC7",
        "PATH=/usr/bin:/bin",
    ] {
        assert!(said.lines().any(|given| given == line), "{line} in\n{said}");
    }
    assert!(!said.contains("hush1") && !said.contains("AWS"), "{said}");
    assert!(!said.contains("WALLFINDER_GIVES"), "{said}");
    // Their values are in nothing that is kept.
    for run in place.runs() {
        for file in ["plan.json", "record.json", "journal.wfj"] {
            let kept = fs::read(run.join(file)).unwrap_or_default();
            let kept = String::from_utf8_lossy(&kept);
            assert!(!kept.contains("hush2"), "{file}: {kept}");
        }
    }
    let double = Double::plain();
    let url = double.url("/");
    let ran = place.run(&["run", &url, "--driver", "true", "--env", "WF_NOT_THERE"]);
    assert!(ran.ends_with(2).err.contains("WF_NOT_THERE=VALUE"));
    let ran = place.run(&["run", &url, "--env", "A=1", "-d", "100ms"]);
    assert!(ran.ends_with(2).err.contains("--subject and --driver"));
}

const WHO: &str = "id -u; id -g; id -G; echo $HOME $USER; env";

#[test]
fn a_driver_runs_as_whom_was_asked_for_and_under_sudo_as_who_asked() {
    let _turn = together();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let first = |said: &str| {
        said.lines()
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let nobody = [
        "env",
        "SUDO_USER=nobody",
        "SUDO_UID=65534",
        "HOME=/root",
        "TMPDIR=/tmp",
    ];
    let nobodys = |said: &str| {
        assert_eq!(first(said), "65534 65534 65534", "{said}");
        let home = said.lines().nth(3).unwrap();
        assert!(
            home.ends_with(" nobody") && !home.contains("/root"),
            "{home}"
        );
        assert!(
            !said.contains("TMPDIR") && !said.contains("SUDO_"),
            "{said}"
        );
        assert!(said.ends_with("\nopened\n"), "{said}");
    };
    nobodys(&said_by_driver(&place, &["env"], &["--as", "nobody"], WHO).0);
    nobodys(&said_by_driver(&place, &["env"], &["--as", "65534"], WHO).0);
    nobodys(&said_by_driver(&place, &nobody, &[], WHO).0);
    let (said, _) = said_by_driver(&place, &nobody, &["--as", "root"], WHO);
    assert!(first(&said).starts_with("0 0"), "{said}");
    let (said, _) = said_by_driver(&place, &["env", "-u", "SUDO_USER"], &[], WHO);
    assert!(first(&said).starts_with("0 0"), "{said}");
    for (wrapper, flags) in [
        (&["env", "SUDO_USER=no-such-user"][..], &[][..]),
        (&["env"], &["--as", "no-such-user"]),
    ] {
        let (said, ran) = said_by_driver(&place, wrapper, flags, WHO);
        assert_eq!(said, "", "nothing is run");
        assert!(
            ran.ends_with(2)
                .err
                .contains("there is no user `no-such-user`")
        );
    }
}

#[test]
fn a_subject_runs_as_whom_was_asked_for_and_is_measured_as_any_other() {
    let _turn = together();
    if !is_root() || subjects().is_none() {
        return;
    }
    let place = Place::new();
    let url = format!("http://subject:{}/simple", free_port());
    let args = [
        "run",
        &url,
        "--subject",
        "catalogue",
        "--as",
        "nobody",
        "-q",
        "-d",
        "1s",
        "-c",
        "4",
        "--no-calibrate",
    ];
    let running = place.start(&args);
    let user = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("Uid:"))?;
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        Some(words.join(" "))
    };
    let is_catalogue = |pid: &u32| {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.ends_with("catalogue")
    };
    let until = std::time::Instant::now() + Duration::from_secs(10);
    let (pid, runs_as) = loop {
        let below = descendants(running.pid());
        if let Some(pid) = below.iter().copied().find(is_catalogue) {
            break (pid, user(pid));
        }
        assert!(std::time::Instant::now() < until, "it does not start");
    };
    assert_eq!(runs_as.as_deref(), Some("65534 65534 65534 65534"));
    running.wait(LIMIT).ends_with(0);
    assert!(!alive(pid), "it is gone with the run");
    let step = place.step();
    assert!(step["throughput"].as_f64().unwrap() > 100.0, "{step:#}");
    let server = &step["telemetry"]["server"]["cpu_cores_mean"];
    assert!(
        !step["telemetry"]["server"].is_null(),
        "its processes are seen: {server}"
    );
}

#[test]
fn a_subject_that_goes_into_the_background_is_an_error_and_nothing_is_left() {
    let _turn = together();
    let Some(folder) = subjects() else {
        return;
    };
    let place = Place::new();
    let catalogue = folder.canonicalize().unwrap().join("catalogue");
    let port = free_port();
    let url = format!("http://subject:{port}/simple");
    for (tail, detach) in [
        ("sleep 0.7", "setsid env -u WALLFINDER_SUBJECT"),
        ("exit 0", "setsid env -i"),
        ("exit 0", "setsid setsid env -u WALLFINDER_SUBJECT"),
    ] {
        let subject = format!(
            "sh -c '{detach} {} --port {port} >/dev/null 2>&1 </dev/null & {tail}'",
            catalogue.display()
        );
        let args = [
            "run",
            &url,
            "--subject",
            &subject,
            "-q",
            "-d",
            "1500ms",
            "-c",
            "2",
            "--no-calibrate",
        ];
        let ran = place.run(&args).ends_with(1);
        assert!(ran.err.contains("went into the background"), "{}", ran.err);
        assert!(
            ran.err.contains("has to run in the foreground"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("`catalogue` ("), "{}", ran.err);
        assert!(!listens_on(port), "{detach}: it serves on");
    }
}

/// How many of the words of a call are paths that are looked up: what follows is a command, or an answer.
fn names_of(call: &str) -> usize {
    let name = call.trim_start().split('(').next().unwrap_or_default();
    match name {
        "rename" | "renameat" | "renameat2" | "link" | "linkat" | "mount" => 2,
        // The first is what a link is to say.
        "symlink" | "symlinkat" | "getcwd" => 0,
        _ => 1,
    }
}

/// Paths that a program named to the kernel, resolved, from `strace -y`: the last folder that a call
/// names stands in angle brackets, `AT_FDCWD</home/x>`.
fn paths(trace: &str, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for line in trace.lines() {
        let Some((_, call)) = line.split_once(' ') else {
            continue;
        };
        let arguments = call.split_once('(').map_or("", |(_, rest)| rest);
        let mut at = folder.to_path_buf();
        let mut rest = arguments;
        for _ in 0..names_of(call) {
            let Some(open) = rest.find('"') else {
                break;
            };
            if let Some(base) = rest[..open].rsplit_once('<') {
                at = PathBuf::from(base.1.split('>').next().unwrap_or_default());
            }
            let Some(length) = rest[open + 1..].find('"') else {
                break;
            };
            let path = &rest[open + 1..open + 1 + length];
            if !path.is_empty() {
                found.push(at.join(path).display().to_string());
            }
            rest = &rest[open + length + 2..];
        }
    }
    found
}

#[test]
fn as_root_in_somebody_elses_folder_nothing_there_is_run_opened_or_followed() {
    let _turn = together();
    let (Some(strace), true) = (program("strace"), is_root()) else {
        skip("it needs strace (Debian: apt-get install strace), and root");
        return;
    };
    let Some(subjects) = subjects() else {
        return;
    };
    let place = Place::new();
    let (folder, sign) = trap(&place);
    for name in [
        "runs",
        ".env",
        "wallfinder.toml",
        "package.json",
        "go.mod",
        "proto",
        ".wallfinder",
    ] {
        symlink("/etc/shadow", folder.join(name)).unwrap();
    }
    let owned = std::process::Command::new("chown")
        .args(["-hR", "nobody"])
        .arg(place.path().join("trap"))
        .status();
    assert!(owned.unwrap().success());
    let subjects = format!(
        "WALLFINDER_SUBJECTS={}",
        subjects.canonicalize().unwrap().display()
    );
    let runs = place.path().join("elsewhere").display().to_string();
    let place_of_trap = place.path().join("trap").display().to_string();
    let url = format!("http://subject:{}/simple", free_port());
    let load = [
        &url,
        "--subject",
        "catalogue",
        "-q",
        "-c",
        "4",
        "--no-calibrate",
        "--runs",
        &runs,
    ];
    let find = [
        "find",
        "--effort",
        "quick",
        "--window",
        "100ms",
        "--no-inside",
    ];
    for (nth, args) in [
        vec!["doctor"],
        [&["run", "-d", "300ms"][..], &load].concat(),
        [&["run", "-d", "300ms", "--as", "nobody"][..], &load].concat(),
        [&find[..], &load].concat(),
    ]
    .iter()
    .enumerate()
    {
        let trace = place.path().join(format!("trace-{nth}"));
        let (trace_name, folder_name) = (trace.display().to_string(), folder.display().to_string());
        let wrapper = [
            "env",
            "-C",
            &folder_name,
            &subjects,
            "PATH=:.:/usr/sbin:/usr/bin:/sbin:/bin",
            strace.to_str().unwrap(),
            "-f",
            "-y",
            "-qq",
            "-s",
            "4096",
            "-e",
            "trace=%file",
            "-e",
            "signal=none",
            "--seccomp-bpf",
            "-o",
            &trace_name,
        ];
        let ran = place.start_as(&wrapper, args).wait(LIMIT).ends_with(0);
        assert!(!sign.exists(), "{args:?}: {}", ran.said());
        let trace = String::from_utf8_lossy(&fs::read(&trace).unwrap()).into_owned();
        let paths = paths(&trace, &folder);
        assert!(
            paths.iter().any(|path| path.starts_with("/proc/")),
            "it is traced: {}",
            trace.len()
        );
        let there: Vec<&String> = paths
            .iter()
            .filter(|path| path.starts_with(&place_of_trap))
            .collect();
        assert!(there.is_empty(), "{args:?} looks at {there:#?}");
    }
}
