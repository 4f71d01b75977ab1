//! Journals as a stranger, a broken disk or another container would have them: nothing of them is
//! done. And that what is written is read again.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use proptest::prelude::*;
use rustix::process::{Signal, geteuid};

use super::folder::Paper;
use super::*;
use crate::affinity::Narrowed;

/// A folder of journals of the test's own.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("wf-test-undo-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.expect("a folder");
        Room(path)
    }

    fn open(&self) -> Arc<Folder> {
        let folder = Folder::open(&self.0).expect("it is ours");
        Arc::new(folder.expect("it is there"))
    }

    /// A journal's file with these bytes.
    fn file(&self, tag: Tag, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(tag.file());
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("closed");
        path
    }

    fn paper(&self, tag: Tag) -> Result<Option<Paper>, TestbedError> {
        self.open().journal(&tag.file())
    }

    /// Undoes what stands in one, and says why not where it is refused.
    fn undo(&self, tag: Tag) -> Result<(), String> {
        let paper = self.paper(tag).map_err(|e| e.to_string())?;
        let paper = paper.expect("it is there");
        paper.undo_all().map_err(|e| e.to_string())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that sleeps. Dropping it ends it.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        let sleeper = Command::new("sleep").arg("60").process_group(0).spawn();
        Sleeper(sleeper.expect("sleep"))
    }

    fn stopped() -> Sleeper {
        let sleeper = Sleeper::start();
        sleeper.process().signal(Signal::STOP).expect("it is ours");
        sleeper.wait_for('T');
        sleeper
    }

    fn process(&self) -> Process {
        Process::of(self.0.id()).expect("it lives")
    }

    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it lives");
        let (_, rest) = stat.rsplit_once(") ").expect("a name");
        rest.chars().next().expect("a state")
    }

    fn wait_for(&self, state: char) {
        for _ in 0..1_000 {
            if self.state() == state {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("it is not {state} but {} after 5 s", self.state());
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The tag of a process that is gone.
fn dead() -> Tag {
    let world = World::own().expect("this world");
    let mut tag = world.own_tag().expect("this process");
    tag.process.start += 1;
    tag
}

/// What a run of this owner would have written, in this world but for what is replaced.
fn written(tag: Tag, changes: &[Undo]) -> String {
    let mut bytes = Vec::new();
    let world = World::own().expect("this world");
    let mut add = |line: Line| bytes.extend(line.bytes().expect("JSON"));
    add(Line::head(tag.process, world));
    for (id, by) in changes.iter().enumerate() {
        add(Line::change(id as u64, by.clone()));
    }
    String::from_utf8(bytes).expect("text")
}

fn go_on(sleeper: &Sleeper) -> Undo {
    Undo::Continue {
        processes: vec![sleeper.process()],
    }
}

#[test]
fn a_dead_owners_changes_are_undone_and_the_journal_is_gone() {
    let room = Room::new("dead");
    let sleeper = Sleeper::stopped();
    let path = room.file(dead(), written(dead(), &[go_on(&sleeper)]).as_bytes());
    assert_eq!(room.undo(dead()), Ok(()));
    sleeper.wait_for('S');
    assert!(!path.exists());
}

#[test]
fn a_process_that_has_the_number_of_another_is_left_alone() {
    let room = Room::new("number");
    let sleeper = Sleeper::stopped();
    let mut other = sleeper.process();
    other.start -= 1;
    let processes = vec![other];
    let narrowed = Narrowed {
        processes: processes.clone(),
        left: vec![0],
        taken: 1,
        threads: vec![(other, vec![0])],
    };
    let status = || fs::read_to_string(format!("/proc/{}/status", other.pid)).expect("it lives");
    let allowed = |status: String| {
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("Cpus_allowed_list"));
        line.expect("it is there").to_owned()
    };
    let before = allowed(status());
    let changes = [
        Undo::Continue { processes },
        Undo::RestoreAffinity(narrowed),
        Undo::RestoreAllowed {
            threads: vec![(other, vec![0])],
        },
    ];
    room.file(dead(), written(dead(), &changes).as_bytes());
    assert_eq!(room.undo(dead()), Ok(()));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(sleeper.state(), 'T');
    assert_eq!(allowed(status()), before);
}

#[test]
fn a_file_that_another_could_have_made_is_not_read() {
    let room = Room::new("file");
    let sleeper = Sleeper::stopped();
    let (tag, text) = (dead(), written(dead(), &[go_on(&sleeper)]));
    let refused = |why: &str| {
        let said = room.undo(tag).expect_err(why);
        assert!(said.contains(why), "{why}: {said}");
        assert!(room.0.join(tag.file()).symlink_metadata().is_ok(), "{why}");
        assert_eq!(sleeper.state(), 'T', "{why}");
    };
    for mode in [0o622, 0o660, 0o604, 0o666] {
        let path = room.file(tag, text.as_bytes());
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("opened");
        refused("others have rights to it");
    }
    let path = room.file(tag, text.as_bytes());
    if geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None).expect("given away");
        refused("it belongs to another user");
    }
    fs::remove_file(&path).expect("removed");
    let elsewhere = room.0.join("elsewhere");
    fs::write(&elsewhere, &text).expect("written");
    symlink(&elsewhere, &path).expect("a link");
    refused("it is a link");
    fs::remove_file(&path).expect("removed");
    let fifo = Command::new("mkfifo").arg(&path).status();
    assert!(fifo.expect("mkfifo").success());
    refused("it is no regular file");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a folder");
    let said = room.undo(tag).expect_err("a folder");
    assert!(said.contains("directory"), "{said}");
}

#[test]
fn a_folder_that_another_could_write_to_is_not_opened() {
    let room = Room::new("folder");
    let refused = |path: &Path, why: &str| {
        let said = Folder::open(path).expect_err(why).to_string();
        assert!(said.contains(why), "{why}: {said}");
    };
    let path = room.0.join("wallfinder");
    let made = Folder::make(&path).expect("made");
    assert_eq!(made.path(), path);
    for mode in [0o720, 0o702, 0o755, 0o777] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("opened");
        refused(&path, "others have rights to it");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("closed");
    symlink(&path, room.0.join("link")).expect("a link");
    let said = Folder::open(&room.0.join("link")).expect_err("a link");
    println!("{said}");
    fs::write(room.0.join("file"), "").expect("a file");
    assert!(Folder::open(&room.0.join("file")).is_err());
    assert!(matches!(Folder::open(&room.0.join("none")), Ok(None)));
    // Whoever may write to the folder above could put another one there.
    fs::set_permissions(&room.0, Permissions::from_mode(0o722)).expect("opened");
    refused(&path, "others may rename what is in the folder above it");
    fs::set_permissions(&room.0, Permissions::from_mode(0o1777)).expect("sticky");
    assert!(Folder::open(&path).is_ok());
    if geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None).expect("given away");
        refused(&path, "it belongs to another user");
        assert!(Folder::make(&path).is_err(), "it is not taken over");
    }
}

#[test]
fn a_journal_that_is_put_in_the_place_of_the_one_that_was_checked_is_not_removed() {
    let room = Room::new("place");
    let sleeper = Sleeper::stopped();
    room.file(dead(), written(dead(), &[]).as_bytes());
    let paper = room.paper(dead()).expect("ours").expect("there");
    let path = room.file(dead(), written(dead(), &[go_on(&sleeper)]).as_bytes());
    paper.undo_all().expect("nothing to do");
    assert!(path.exists());
    assert_eq!(sleeper.state(), 'T');
}

#[test]
fn a_journal_of_a_living_owner_is_left_alone() {
    let room = Room::new("living");
    let world = World::own().expect("this world");
    let own = world.own_tag().expect("this process");
    let path = room.file(own, written(own, &[]).as_bytes());
    let content = room.paper(own).expect("ours").expect("there").read();
    let fate = content.expect("sound").fate(&world, own);
    assert_eq!(fate, owner::Fate::Alive);
    assert!(path.exists());
}

#[test]
fn whom_a_living_owner_stopped_can_be_let_go_on_and_its_journal_stays() {
    let room = Room::new("let-go-on");
    let world = World::own().expect("this world");
    let own = world.own_tag().expect("this process");
    let sleeper = Sleeper::stopped();
    assert!(sleeper.process().is_stopped());
    let text = written(own, &[go_on(&sleeper)]);
    let path = room.file(own, text.as_bytes());
    let_go_on(&room.open(), &own.file()).expect("done");
    sleeper.wait_for('S');
    assert!(!sleeper.process().is_stopped());
    assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
    // A dead owner's is undone, or left alone.
    let sleeper = Sleeper::stopped();
    room.file(dead(), written(dead(), &[go_on(&sleeper)]).as_bytes());
    let_go_on(&room.open(), &dead().file()).expect("nothing to do");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(sleeper.state(), 'T');
}

#[test]
fn of_another_boot_nothing_is_done_and_the_journal_goes() {
    let room = Room::new("boot");
    let sleeper = Sleeper::stopped();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("there");
    let text = written(dead(), &[go_on(&sleeper)]);
    let text = text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
    let path = room.file(dead(), text.as_bytes());
    assert_eq!(room.undo(dead()), Ok(()));
    assert!(!path.exists());
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(sleeper.state(), 'T');
}

#[test]
fn of_another_namespace_nothing_is_done_and_the_journal_stays() {
    let room = Room::new("elsewhere");
    let sleeper = Sleeper::stopped();
    let text = written(dead(), &[go_on(&sleeper)]);
    for kind in ["pid", "mnt", "user", "cgroup"] {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut head: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        let number = &mut head["head"]["world"]["namespaces"][kind]["ino"];
        *number = (number.as_u64().expect("a number") + 1).into();
        lines[0] = head.to_string();
        let path = room.file(dead(), format!("{}\n", lines.join("\n")).as_bytes());
        let said = room.undo(dead()).expect_err(kind);
        assert!(said.contains("another container or namespace"), "{said}");
        assert!(path.exists());
        assert_eq!(sleeper.state(), 'T', "{kind}");
    }
}

/// Each is a change that was sound once and has one value of a stranger's.
#[test]
fn a_forged_change_refuses_the_whole_journal() {
    let room = Room::new("forged");
    let sleeper = Sleeper::stopped();
    let tag = dead();
    let group = format!("/sys/fs/cgroup/cpu/wallfinder-{tag}-1-server");
    let netns = r#""netns":{"id":1,"cookie":null,"path":null}"#;
    let tbf = r#"{"tbf":{"handle":{"major":7,"minor":0},"tbf":{"rate_bits":8,"burst_bytes":9,"limit_bytes":9}}}"#;
    let sound = [
        format!(r#"{{"undo":"delete-netns","name":"{tag}-0s"}}"#),
        format!(r#"{{"undo":"remove-group","group":"{group}","back":"/sys/fs/cgroup/cpu"}}"#),
        format!(r#"{{"undo":"thaw","group":"{group}"}}"#),
        format!(r#"{{"undo":"delete-qdisc",{netns},"interface":"d0"}}"#),
        format!(r#"{{"undo":"restore-rate",{netns},"interface":"d0","rate":{tbf}}}"#),
        r#"{"undo":"restore-quota","group":"/sys/fs/cgroup/a","id":1,"text":"max 100000"}"#.into(),
        r#"{"undo":"restore-setting","setting":"/proc/sys/net/core/busy_poll","text":"0"}"#.into(),
        r#"{"undo":"continue","processes":[{"pid":1,"start":99999999999}]}"#.into(),
    ];
    let journal = |change: &str| {
        let sure = written(tag, &[go_on(&sleeper)]);
        format!("{sure}{{\"change\":{{\"id\":7,\"by\":{change}}}}}\n")
    };
    for change in &sound {
        let read = lines::read(journal(change).as_bytes(), tag);
        assert!(read.is_ok(), "{change}: {read:?}");
    }
    let (netns_name, other) = (format!("{tag}-0s"), format!("{tag}").replace("wf-", "wf-1"));
    let forgeries: &[(usize, &str, &str)] = &[
        // Programs and their words.
        (4, tbf, r#"["sh","-c","touch /tmp/x"]"#),
        (
            4,
            r#""rate":"#,
            r#""words":["sh","-c","touch /tmp/x"],"rate":"#,
        ),
        (4, r#"{"major":7,"minor":0}"#, r#""7: ; sh""#),
        (4, r#""rate_bits":8"#, r#""rate_bits":"8bit -batch x""#),
        (4, r#""rate_bits":8"#, r#""rate_bits":0"#),
        (4, r#""limit_bytes":9"#, r#""limit_bytes":99999999999999"#),
        (4, r#""limit_bytes":9"#, r#""limit_bytes":-1"#),
        (3, "\"d0\"", "\"-batch\""),
        (3, "\"d0\"", "\"d0 root\""),
        (3, "\"d0\"", "\"../d0\""),
        (3, "\"d0\"", "\"a-name-that-is-too-long\""),
        // Names and paths.
        (0, &netns_name, "default"),
        (0, &netns_name, "../../etc/x"),
        (0, &netns_name, "/etc/passwd"),
        (0, &netns_name, &other),
        (1, &group, "/etc"),
        (1, &group, "/"),
        (1, &group, "wallfinder-x"),
        (
            1,
            "/sys/fs/cgroup/cpu/wallfinder",
            "/sys/fs/../../etc/wallfinder",
        ),
        (1, "\"/sys/fs/cgroup/cpu\"", "\"../cpu\""),
        (2, &group, "/sys/fs/cgroup/freezer/docker"),
        (2, &tag.to_string(), &other),
        (5, "/sys/fs/cgroup/a", "/sys/fs/cgroup/../../etc"),
        (5, "/sys/fs/cgroup/a", "a.scope"),
        (5, "max 100000", "no quota"),
        (6, "/proc/sys/net/core/busy_poll", "/etc/passwd"),
        (
            6,
            "/proc/sys/net/core/busy_poll",
            "/proc/sys/kernel/core_pattern",
        ),
        (6, "\"0\"", "\"|/tmp/x\""),
        // Kinds and fields that there are none of.
        (7, "continue", "kill"),
        (7, "continue", "run"),
        (7, "\"start\"", "\"signal\":9,\"start\""),
        (7, "99999999999", "\"any\""),
        (7, "\"start\"", r#""\u001b[2J":9,"start""#),
    ];
    for (nth, from, to) in forgeries {
        let change = sound[*nth].replacen(from, to, 1);
        assert_ne!(change, sound[*nth], "{from}");
        let path = room.file(tag, journal(&change).as_bytes());
        let said = room.undo(tag).expect_err(&change);
        assert!(said.contains("nothing of it is done"), "{change}: {said}");
        assert!(said.contains("line 3"), "{change}: {said}");
        assert!(!said.contains(char::is_control), "{change}: {said:?}");
        assert!(path.exists());
        assert_eq!(sleeper.state(), 'T', "{change}");
    }
}

#[test]
fn a_journal_of_another_version_is_refused_with_a_way_out() {
    let room = Room::new("version");
    let Process { pid, start } = dead().process;
    let world = r#""boot":"x","pid_namespace":1"#;
    for text in [
        format!("{{\"owner\":{{\"pid\":{pid},\"start\":{start},{world}}}}}\n"),
        written(dead(), &[]).replace("\"format\":2", "\"format\":3"),
        "\n".to_owned(),
        "{}\n".to_owned(),
    ] {
        let path = room.file(dead(), text.as_bytes());
        let said = room.undo(dead()).expect_err(&text);
        assert!(said.contains("not written by this version"), "{said}");
        let way_out = format!("`rm {}`", path.display());
        assert!(said.contains(&way_out), "{said}");
        assert!(path.exists());
    }
    let mut other = dead();
    other.process.start += 1;
    room.file(other, written(dead(), &[]).as_bytes());
    let said = room.undo(other).expect_err("another's head");
    assert!(said.contains("another owner"), "{said}");
}

#[test]
fn a_journal_that_came_no_further_than_to_be_made_is_removed() {
    let room = Room::new("made");
    for torn in ["", "{\"head\":{\"format\":2,\"ow"] {
        let path = room.file(dead(), torn.as_bytes());
        assert_eq!(room.undo(dead()), Ok(()));
        assert!(!path.exists());
    }
}

#[test]
fn a_last_line_that_is_torn_announced_nothing() {
    let room = Room::new("torn");
    let sleeper = Sleeper::stopped();
    let whole = written(dead(), &[go_on(&sleeper)]);
    let torn = whole.trim_end();
    room.file(dead(), torn.as_bytes());
    assert_eq!(room.undo(dead()), Ok(()));
    assert_eq!(sleeper.state(), 'T', "its change was never made");
}

#[test]
fn a_journal_without_bound_is_refused() {
    let room = Room::new("bound");
    let path = room.file(dead(), b"");
    let file = fs::File::options().write(true).open(path).expect("ours");
    file.set_len(BYTES_MAX + 1).expect("sparse");
    let said = room.undo(dead()).expect_err("it is too large");
    assert!(said.contains("larger than"), "{said}");
}

#[test]
fn changes_that_come_and_go_leave_a_journal_of_what_stands() {
    let room = Room::new("grows");
    let world = World::own().expect("this world");
    let tag = world.own_tag().expect("this process");
    let folder = Folder::open(&room.0).expect("ours").expect("there");
    let journal: &'static Journal = Box::leak(Box::new(Journal::new(folder, world, tag)));
    let path = room.0.join(tag.file());
    let change = |start| {
        let processes = vec![Process {
            pid: std::process::id(),
            start,
        }];
        let (change, ()) = journal
            .change(Undo::Continue { processes }, |_| Ok(()))
            .expect("written");
        change
    };
    let starts = || {
        let bytes = fs::read(&path).expect("there");
        let standing = lines::read(&bytes, tag).expect("sound").standing;
        let start = |undo: &Undo| match undo {
            Undo::Continue { processes } => processes[0].start,
            other => panic!("{other:?}"),
        };
        standing.iter().map(start).collect::<Vec<u64>>()
    };
    let (first, second) = (change(1), change(2));
    let bytes = || fs::metadata(&path).expect("there").len();
    let before = bytes();
    for start in 10..1_010 {
        drop(change(start));
    }
    assert_eq!(bytes(), before, "it grew with what is gone");
    assert_eq!(starts(), [1, 2]);
    let third = change(3);
    drop(second);
    assert_eq!(starts(), [1, 3]);
    let fourth = change(4);
    drop(first);
    assert_eq!(starts(), [3, 4], "the first stands before what stands");
    drop(fourth);
    assert_eq!(starts(), [3], "and is not told of again");
    drop(third);
    assert!(!path.exists());
    // And once more from the beginning.
    let again = change(5);
    assert_eq!(starts(), [5]);
    assert_eq!(
        fs::metadata(&path).expect("there").permissions().mode() & 0o777,
        0o600
    );
    drop(again);
}

#[test]
fn undoing_what_is_gone_is_fine() {
    let lock = File::open("/dev/null").expect("a file");
    let nobody = Process {
        pid: std::process::id(),
        start: 1,
    };
    let netns = || Netns {
        id: 1,
        cookie: None,
        path: Some("/dev/null".into()),
    };
    let own = |path: &str| OwnGroup::try_from(PathBuf::from(path)).expect("ours");
    let path = |path: &str| GroupPath::try_from(PathBuf::from(path)).expect("plain");
    let interface: crate::iproute::InterfaceName = "eth0".parse().expect("a name");
    for undo in [
        Undo::DeleteNetns {
            name: OwnName::try_from("wf-1-2-3-s".to_owned()).expect("ours"),
        },
        Undo::DeleteQdisc {
            netns: netns(),
            interface: interface.clone(),
        },
        Undo::RestoreRate {
            netns: netns(),
            interface,
            rate: crate::lab::Rate::own(crate::lab::Tbf::of(8_000, 1_500)),
        },
        Undo::RemoveGroup {
            group: own("/sys/fs/cgroup/cpu/wallfinder-wf-1-2-3-s"),
            back: path("/sys/fs/cgroup/cpu"),
        },
        Undo::Thaw {
            group: own("/sys/fs/cgroup/freezer/wallfinder-wf-1-2-3-s"),
        },
        Undo::RestoreQuota {
            group: path("/sys/fs/cgroup/wf-gone.scope"),
            id: 1,
            text: QuotaText::try_from("max 100000".to_owned()).expect("a quota"),
        },
        Undo::RestoreAllowed {
            threads: vec![(nobody, vec![0])],
        },
        Undo::Continue {
            processes: vec![nobody],
        },
        Undo::RestoreSetting {
            setting: "/sys/class/net/wf-gone/queues/rx-0/rps_cpus"
                .to_owned()
                .try_into()
                .expect("a setting"),
            text: "0".into(),
        },
        Undo::RestoreAffinity(Narrowed {
            processes: vec![nobody],
            left: vec![0],
            taken: 1,
            threads: vec![(nobody, vec![0])],
        }),
    ] {
        let text = serde_json::to_string(&undo).expect("JSON");
        let again: Undo = serde_json::from_str(&text).expect("the same");
        assert_eq!(again, undo);
        undo.perform(&lock)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn what_has_a_groups_name_and_is_none_is_not_touched() {
    let lock = File::open("/dev/null").expect("a file");
    let room = Room::new("group");
    let folder = room.0.join("wallfinder-wf-1-2-3-s");
    fs::create_dir(&folder).expect("a folder");
    for file in ["cgroup.procs", "cgroup.freeze", "cpu.max"] {
        fs::write(folder.join(file), "1 1").expect("a file");
    }
    let link = room.0.join("wallfinder-wf-1-2-3-l");
    symlink("/sys/fs/cgroup", &link).expect("a link");
    for place in [&folder, &link] {
        let group = OwnGroup::try_from(place.clone()).expect("its name is ours");
        let back = GroupPath::try_from(room.0.clone()).expect("plain");
        let quota = Undo::RestoreQuota {
            group: place.clone().try_into().expect("plain"),
            id: std::os::unix::fs::MetadataExt::ino(&fs::metadata(place).expect("there")),
            text: QuotaText::try_from("max 1".to_owned()).expect("a quota"),
        };
        let thaw = Undo::Thaw {
            group: group.clone(),
        };
        for undo in [Undo::RemoveGroup { group, back }, thaw, quota] {
            assert!(undo.perform(&lock).is_err(), "{undo:?}");
        }
    }
    for file in ["cgroup.procs", "cgroup.freeze", "cpu.max"] {
        assert_eq!(fs::read_to_string(folder.join(file)).expect("there"), "1 1");
    }
}

/// Bytes as a journal may have them: sound lines, torn, doubled and changed at some places.
fn nearly_a_journal() -> impl Strategy<Value = Vec<u8>> {
    let tag = dead();
    let name = OwnName::try_from(format!("{tag}-0s")).expect("ours");
    let processes = vec![Process { pid: 1, start: 1 }];
    let changes = [Undo::DeleteNetns { name }, Undo::Continue { processes }];
    let sound = written(tag, &changes).into_bytes();
    let end = sound.len();
    let edit = (0..end, any::<u8>(), 0_u8..3);
    (prop::collection::vec(edit, 0..6), 0..=end).prop_map(move |(edits, cut)| {
        let mut bytes = sound.clone();
        for (at, byte, how) in edits {
            let at = at.min(bytes.len() - 1);
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.splice(at..at, sound.clone())),
            }
        }
        bytes.truncate(cut.max(bytes.len() / 2));
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let _ = lines::read(&bytes, dead());
    }

    #[test]
    fn what_is_taken_from_a_changed_journal_is_still_its_owners(bytes in nearly_a_journal()) {
        let tag = dead();
        if let Ok(content) = lines::read(&bytes, tag) {
            for undo in content.standing {
                prop_assert_eq!(undo.check(tag), Ok(()));
                let is_known = matches!(undo, Undo::DeleteNetns { .. } | Undo::Continue { .. });
                prop_assert!(is_known, "{:?}", undo);
            }
        }
    }
}
