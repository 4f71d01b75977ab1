//! What a killed run leaves on the machine, and `doctor --clean`.
//!
//! The left-overs are made by hand here, in the form in which a run that was killed together
//! with its keeper leaves them: a journal, and things with its tag.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use wallfinder_tests::{Place, alone, has_apparatus, quotas, things_of_ours};

fn sh(command: &str) -> String {
    let out = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(out.status.success(), "{command}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// A process that is gone: nobody has its number and its start.
fn dead_tag(nth: u32) -> String {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    format!("wf-{pid}-{nth:x}")
}

/// A journal of an owner, as the tool writes one.
fn journal(tag: &str, changes: &[String]) -> PathBuf {
    let folder = Path::new("/run/wallfinder");
    let _ = fs::DirBuilder::new().mode(0o700).create(folder);
    let mut parts = tag.split('-').skip(1);
    let pid = parts.next().unwrap();
    let start = u64::from_str_radix(parts.next().unwrap(), 16).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let pids = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let path = folder.join(format!("{tag}.jsonl"));
    let mut file = fs::File::create(&path).unwrap();
    let boot = boot.trim();
    writeln!(
        file,
        r#"{{"owner":{{"pid":{pid},"start":{start},"boot":"{boot}","pid_namespace":{pids}}}}}"#
    )
    .unwrap();
    for (id, change) in changes.iter().enumerate() {
        writeln!(file, r#"{{"change":{{"id":{id},"by":{change}}}}}"#).unwrap();
    }
    // Torn: it announced a change that was never made.
    write!(file, r#"{{"change":{{"id":99,"by":{{"undo":"delete-ne"#).unwrap();
    path
}

#[test]
fn doctor_tries_the_squeezes_and_takes_them_down() {
    let _turn = alone();
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
    let _turn = alone();
    if !has_apparatus() {
        return;
    }
    let place = Place::new();
    let (told, untold) = (dead_tag(0x1a), dead_tag(0x2b));
    // Somebody else's, with names that are nearly ours; and a living process's.
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own_start: u64 = own[own.rfind(')').unwrap()..]
        .split(' ')
        .nth(20)
        .unwrap()
        .parse()
        .unwrap();
    let living = format!("wf-{}-{own_start:x}-0s", std::process::id());
    let others = [
        format!("wf-{}", std::process::id()),
        format!("wfx-{}-1a-0s", std::process::id()),
        living,
    ];
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
    let netns = fs::metadata(format!("/run/netns/{}", others[0]))
        .unwrap()
        .ino();
    let at = format!(
        r#""netns":{{"id":{netns},"path":"/run/netns/{}"}}"#,
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
    let words = r#"["tc","qdisc","change","dev","d0","root","handle","7:","tbf","rate","10mbit","burst","10000b","limit","100000b"]"#;
    let journal = journal(
        &told,
        &[
            format!(r#"{{"undo":"delete-netns","name":"{named}"}}"#),
            format!(
                r#"{{"undo":"remove-group","group":"{}","back":"{}"}}"#,
                held.display(),
                top.display()
            ),
            format!(r#"{{"undo":"restore-rate",{at},"interface":"d0","words":{words}}}"#),
            format!(r#"{{"undo":"delete-qdisc",{at},"interface":"d1"}}"#),
            r#"{"undo":"delete-netns","name":"wf-1-1-gone-long-ago"}"#.into(),
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
