//! What a killed run leaves on the machine, and `doctor --clean`.
//!
//! The left-overs are made by hand here, in the form in which a run that was killed together
//! with its keeper leaves them: a journal, and things with its tag.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use wallfinder_tests::{Place, has_apparatus, quietly, quotas, things_of_ours, together};

fn sh(command: &str) -> String {
    let out = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(out.status.success(), "{command}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// How the names of a process's things begin.
fn tag(pid: u32, start: u64) -> String {
    format!("wf-{pid}-{start:x}-{:x}", inode("/proc/self/ns/pid"))
}

/// A process that is gone: nobody has its number and its start.
fn dead_tag(nth: u64) -> String {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    tag(pid, nth)
}

fn start_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(19).unwrap().parse().unwrap()
}

/// A journal of an owner, as the tool writes one.
fn journal(tag: &str, changes: &[String]) -> PathBuf {
    let folder = Path::new("/run/wallfinder");
    let _ = fs::DirBuilder::new().mode(0o700).create(folder);
    let mut parts = tag.split('-').skip(1);
    let pid: u32 = parts.next().unwrap().parse().unwrap();
    let start = u64::from_str_radix(parts.next().unwrap(), 16).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let kinds = ["pid", "mnt", "user", "cgroup", "time"];
    let namespaces = kinds.into_iter().filter_map(|kind| {
        let found = fs::metadata(format!("/proc/self/ns/{kind}")).ok()?;
        Some((
            kind.to_owned(),
            json!({"dev": found.dev(), "ino": found.ino()}),
        ))
    });
    let namespaces: serde_json::Map<_, _> = namespaces.collect();
    let head = json!({"head": {
        "format": 2,
        "owner": {"pid": pid, "start": start},
        "world": {"boot": boot.trim(), "namespaces": namespaces},
    }});
    let path = folder.join(format!("{tag}.jsonl"));
    let mut file = fs::File::options();
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(&path).unwrap();
    writeln!(file, "{head}").unwrap();
    for (id, change) in changes.iter().enumerate() {
        writeln!(file, r#"{{"change":{{"id":{id},"by":{change}}}}}"#).unwrap();
    }
    // Torn: it announced a change that was never made.
    write!(file, r#"{{"change":{{"id":99,"by":{{"undo":"delete-ne"#).unwrap();
    path
}

/// A process that is stopped. Dropping it ends it.
struct Stopped(Child);

impl Stopped {
    fn start() -> Stopped {
        let stopped = Stopped(Command::new("sleep").arg("60").spawn().unwrap());
        sh(&format!("kill -STOP {}", stopped.0.id()));
        assert!(stopped.becomes('T'));
        stopped
    }

    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn becomes(&self, state: char) -> bool {
        let since = Instant::now();
        while self.state() != state {
            if since.elapsed() > Duration::from_secs(2) {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The change that lets it go on; with another start it is another process's.
    fn go_on(&self, start: u64) -> String {
        let pid = self.0.id();
        let processes = json!([{"pid": pid, "start": start}]);
        json!({"undo": "continue", "processes": processes}).to_string()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn doctor_tries_the_squeezes_and_takes_them_down() {
    let _turn = quietly().changing_the_host();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let args = ["doctor", "--squeezes", "--format", "json"];
    let tried = place.run(&args).ends_with(0).json();
    let found = |what: &str| {
        let all = tried.as_array().unwrap().iter();
        let mut named = all.filter(|one| one["what"] == what);
        let one = named
            .next()
            .unwrap_or_else(|| panic!("no {what}: {tried:#}"));
        assert!(named.next().is_none(), "{what} twice: {tried:#}");
        one["good"].as_bool().unwrap()
    };
    // Which processors and groups may be squeezed is the machine's; a link is our own.
    for squeeze in [
        "server-speed",
        "server-capacity",
        "client-speed",
        "client-capacity",
    ] {
        found(squeeze);
    }
    assert!(found("downlink") && found("uplink"), "{tried:#}");
    assert_eq!(things_of_ours(), Vec::<String>::new());
    let plain = place.run(&["doctor"]).ends_with(0);
    assert!(!plain.out.contains("downlink"), "{}", plain.out);
}

#[test]
fn doctor_cleans_what_dead_runs_left_and_nothing_else() {
    let _turn = together().changing_the_host();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let (told, untold) = (dead_tag(0x1a), dead_tag(0x2b));
    // Somebody else's, with names that are nearly ours; and a living process's.
    let own = std::process::id();
    let living = format!("{}-0s", tag(own, start_of(own)));
    let others = [format!("wf-{own}"), format!("wfx-{own}-1a-2b-0s"), living];
    let top = quotas().expect("there are groups");
    let group = |name: &str| top.join(name);
    let other_groups = [
        group(&format!("wallfinder-mine-{}", std::process::id())),
        group(&format!("wallfinder-{}", others[2])),
    ];
    for name in &others {
        sh(&format!("ip netns add {name}"));
    }
    for folder in &other_groups {
        fs::create_dir(folder).unwrap();
    }
    // A host's interface with a tbf that was lowered, and with one that we added.
    sh(&format!(
        "n={}; ip -n $n link add d0 type veth peer name d1 && \
         tc -n $n qdisc add dev d0 root handle 7: tbf rate 8mbit burst 10000 limit 100000 && \
         tc -n $n qdisc add dev d1 root handle 5746: tbf rate 8mbit burst 10000 limit 100000",
        others[0]
    ));
    let netns = inode(format!("/run/netns/{}", others[0]));
    let at = format!(
        r#""netns":{{"id":{netns},"cookie":null,"path":"/run/netns/{}"}}"#,
        others[0]
    );

    let named = format!("{told}-0s");
    let held = group(&format!("wallfinder-{told}-1-server"));
    let unnamed = format!("{untold}-0c");
    let bare = group(&format!("wallfinder-{untold}-1-server"));
    sh(&format!("ip netns add {named}; ip netns add {unnamed}"));
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    for folder in [&held, &bare] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(held.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    let rate = r#"{"tbf":{"handle":{"major":7,"minor":0},"tbf":{"rate_bits":10000000,"burst_bytes":10000,"limit_bytes":100000}}}"#;
    let stopped = Stopped::start();
    let journal = journal(
        &told,
        &[
            format!(r#"{{"undo":"delete-netns","name":"{named}"}}"#),
            format!(
                r#"{{"undo":"remove-group","group":"{}","back":"{}"}}"#,
                held.display(),
                top.display()
            ),
            format!(r#"{{"undo":"restore-rate",{at},"interface":"d0","rate":{rate}}}"#),
            format!(r#"{{"undo":"delete-qdisc",{at},"interface":"d1"}}"#),
            format!(r#"{{"undo":"delete-netns","name":"{told}-gone-long-ago"}}"#),
            stopped.go_on(start_of(stopped.0.id())),
        ],
    );

    // Plain `doctor` tells and touches nothing.
    let ran = place.run(&["doctor"]).ends_with(0);
    assert!(ran.out.contains("doctor --clean"), "{}", ran.out);
    for thing in [&named, &unnamed] {
        assert!(ran.out.contains(thing.as_str()), "{thing}: {}", ran.out);
    }
    assert!(journal.exists() && held.exists());

    let ran = place.run(&["doctor", "--clean"]).ends_with(0);
    println!("{}", ran.out);
    for name in [&named, &unnamed] {
        assert!(
            !Path::new("/run/netns").join(name).exists(),
            "{name} is left"
        );
    }
    assert!(
        !held.exists() && !bare.exists() && !journal.exists(),
        "left"
    );
    assert!(stopped.becomes('S'), "it goes on");
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap();
    let is_back = groups.contains(":cpu:/\n") || groups.contains("0::/\n");
    assert!(is_back, "it is back where it was: {groups}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let rates = sh(&format!("tc -n {} qdisc show", others[0]));
    assert!(
        rates.contains("rate 10Mbit") && !rates.contains("5746:"),
        "{rates}"
    );
    // The others' stay.
    for name in &others {
        assert!(
            Path::new("/run/netns").join(name).exists(),
            "{name} was touched"
        );
        sh(&format!("ip netns delete {name}"));
    }
    for folder in &other_groups {
        fs::remove_dir(folder).expect("not touched");
    }
    place.run(&["doctor", "--clean"]).ends_with(0);
}

/// What a stranger's journal, or one of another process's number, asks for is not done; and why not
/// is said.
#[test]
fn doctor_does_nothing_that_a_forged_journal_asks_for() {
    let _turn = together().changing_the_host();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let stopped = Stopped::start();
    let start = start_of(stopped.0.id());
    let proof = place.path().join("proof");
    let run = format!(
        r#"{{"undo":"restore-rate","netns":{{"id":{},"cookie":null,"path":null}},"interface":"lo","words":["touch","{}"]}}"#,
        inode("/proc/self/ns/net"),
        proof.display()
    );
    let go_on = stopped.go_on(start);
    let forged = |nth| journal(&dead_tag(nth), &[go_on.clone(), run.clone()]);
    let sound = |nth| journal(&dead_tag(nth), std::slice::from_ref(&go_on));
    let link = Path::new("/run/wallfinder").join(format!("{}.jsonl", dead_tag(0x41)));
    let target = place.path().join("target");
    let checked = sound(0x42);
    fs::copy(&checked, &target).unwrap();
    fs::remove_file(&checked).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let open = sound(0x43);
    sh(&format!("chmod 666 {}", open.display()));
    let others = sound(0x44);
    sh(&format!("chown 65534 {}", others.display()));
    let fifo = Path::new("/run/wallfinder").join(format!("{}.jsonl", dead_tag(0x45)));
    sh(&format!("mkfifo -m 600 {}", fifo.display()));
    let cases = [
        (forged(0x40), "so nothing of it is done"),
        (link, "it is a link"),
        (open, "others have rights to it"),
        (others, "it belongs to another user"),
        (fifo, "it is no regular file"),
    ];
    let ran = place.run(&["doctor", "--clean"]).ends_with(0);
    println!("{}", ran.out);
    for (path, why) in &cases {
        let shown = path.display().to_string();
        let told = |line: &str| line.contains(&shown) && line.contains(why);
        assert!(ran.out.lines().any(told), "{why}: {}", ran.out);
        assert!(path.symlink_metadata().is_ok(), "{why}: it is gone");
        fs::remove_file(path).unwrap();
    }
    assert!(!proof.exists(), "a program of the journal was run");
    assert_eq!(stopped.state(), 'T');
    // Its number is right, and its start another's: nobody is signalled, and the journal goes.
    let reused = journal(&dead_tag(0x46), &[stopped.go_on(start - 1)]);
    place.run(&["doctor", "--clean"]).ends_with(0);
    assert!(!reused.exists());
    assert!(!stopped.becomes('S'), "another process was signalled");
}

/// Whether every process of this machine is seen, so that a namespace can be known to have none.
fn sees_all() -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut processes = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok())
    });
    let is_seen = |entry: fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let is_here = numbers.is_none_or(|numbers| numbers.split_whitespace().count() == 1);
        let link = fs::metadata(entry.path().join("ns/pid"));
        is_here || !link.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    inode("/proc/self/ns/pid") == 0xefff_fffc && processes.all(is_seen)
}

/// Groups of labs in namespaces of process ids of their own: of one that is gone, of one that is gone while a process
/// stayed in its group, and of one that lives.
#[test]
fn doctor_removes_empty_groups_of_a_namespace_that_is_gone() {
    let _turn = together().changing_the_host();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let top = quotas().unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "sleep", "60"]);
    let mut lab = unshare.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    let until = Instant::now() + Duration::from_secs(5);
    let living = loop {
        let init = fs::read_to_string(&children).unwrap_or_default();
        let number = fs::metadata(format!("/proc/{}/ns/pid", init.trim()));
        match number.map(|found| found.ino()) {
            Ok(number) if !init.trim().is_empty() => break number,
            _ => assert!(Instant::now() < until, "unshare starts nothing"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    // No namespace has the number 1.
    let groups = [(1, "gone"), (1, "held"), (living, "living")].map(|(namespace, side)| {
        let group = top.join(format!("wallfinder-wf-7-1a-{namespace:x}-0-{side}"));
        fs::create_dir(&group).unwrap();
        group
    });
    let [gone, held, living] = &groups;
    fs::write(held.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    let sees_all = sees_all();
    let said = place.run(&["doctor", "--clean"]).ends_with(0).out;
    let left_alone = |group: &Path| {
        let shown = group.display().to_string();
        let told = |line: &str| line.contains(&shown) && line.contains("another container");
        group.exists() && said.lines().any(told)
    };
    assert!(left_alone(held) && left_alone(living), "{said}");
    match sees_all {
        true => assert!(!gone.exists(), "{said}"),
        false => assert!(left_alone(gone), "{said}"),
    }
    for child in [&mut sleeper, &mut lab] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for group in groups.iter().filter(|group| group.exists()) {
        let until = Instant::now() + Duration::from_secs(5);
        while let Err(error) = fs::remove_dir(group) {
            assert!(Instant::now() < until, "{error}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A run that lives on the host, seen from where its number is nobody's; and one of a container that
/// is gone.
#[test]
fn doctor_in_another_namespace_leaves_the_hosts_run_alone() {
    let _turn = together().changing_the_host();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let stopped = Stopped::start();
    let (living, gone) = (Stopped::start(), dead_tag(0x51));
    let own = tag(living.0.id(), start_of(living.0.id()));
    let change = stopped.go_on(start_of(stopped.0.id()));
    let journals = [&own, &gone].map(|tag| journal(tag, std::slice::from_ref(&change)));
    // One that stands without its journal in sight: by its name alone it is the host's.
    let named = format!("{}-0s", dead_tag(0x52));
    let group = quotas().unwrap().join(format!("wallfinder-{own}-1-server"));
    sh(&format!("ip netns add {named}"));
    fs::create_dir(&group).unwrap();
    let inside = |words: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--net", "--mount", "--fork"]);
        let binary = wallfinder_tests::binary();
        let command = format!("{words} exec {} doctor --clean", binary.display());
        let ran = unshare.args(["sh", "-c", &command]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let said = String::from_utf8(ran.stdout).unwrap();
        println!("{said}");
        assert!(!said.contains("removed"), "{said}");
        for path in &journals {
            assert!(path.exists(), "{said}");
        }
        assert!(group.exists() && Path::new("/run/netns").join(&named).exists());
        assert_eq!(stopped.state(), 'T', "{said}");
        said
    };
    let said = inside("mount -t proc proc /proc &&");
    for thing in [&own, &gone, &named] {
        let told =
            |line: &str| line.contains(thing) && line.contains("another container or namespace");
        assert!(said.lines().any(told), "{thing}: {said}");
    }
    // The folder of journals out of sight, as in a container: names alone are left.
    inside("mount -t proc proc /proc && mount -t tmpfs none /run/wallfinder &&");
    // With the host's /proc every number is another's.
    let said = inside("");
    assert!(said.contains("/proc shows another namespace"), "{said}");
    // On the host the dead one's is undone, and the living one's is not.
    place.run(&["doctor", "--clean"]).ends_with(0);
    assert!(stopped.becomes('S'));
    assert!(journals[0].exists() && !journals[1].exists());
    assert!(!Path::new("/run/netns").join(&named).exists());
    assert!(group.exists());
    fs::remove_file(&journals[0]).unwrap();
    fs::remove_dir(&group).unwrap();
}
