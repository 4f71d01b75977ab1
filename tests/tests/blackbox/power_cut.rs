//! The power is cut at a random moment of a load by an agent of a hub: what an agent said that it keeps is on its disk, what it
//! was told to forget is on the controller's, and nothing is there twice. Where the agent's power alone is cut, its
//! controller fetches the result from what is found on the disk.
//!
//! ```sh
//! WALLFINDER_KILLS=100 cargo test -p wallfinder-tests --test blackbox power_cut -- --ignored --nocapture
//! ```
//!
//! The disks are one file system in a file, mounted by a loop device. A cut stops every process and copies that file: what
//! was written and not synced is in the memory of the file system above it, and so not in the copy, whose journal is
//! replayed when it is mounted. Each cut proves that by a file that was never synced, whose bytes must be missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use wallfinder_tests::{
    Running, alone, assert_balanced, descendants, own_ip, program, quietly, skip, until,
};

use crate::hub::Hub;
use crate::hub_away::{Counting, NO_WAY_OUT};
use crate::kills::many_times;

/// Longer than such a load takes, with what is put up before it.
const UNDER_WAY: Duration = Duration::from_secs(10);
/// A cut comes so soon after what it waits for.
const SOON_MS: u64 = 25;
/// Of the load whose agent alone is cut: it lasts three seconds.
const REQUESTS: u64 = 600;
/// A controller notices that its agent is gone, and asks for the result for a minute.
const ASKED_WITHIN: Duration = Duration::from_secs(90);
const NO_DISK: &str = "it needs ext4 on a loop device";

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    let quiet = command
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// A file system in a file, mounted. Dropping it takes it down.
struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// A new one; `None`: this host cannot.
    fn new(folder: &Path) -> Option<Disk> {
        let image = folder.join("disk");
        let file = fs::File::create(&image).expect("a file of ours");
        file.set_len(64 << 20).expect("a sparse file");
        let path = image.to_str().expect("a name");
        succeeds(&["mkfs.ext4", "-q", "-F", path]).then_some(())?;
        Disk::mounted(image, folder.join("mounted"))
    }

    /// What is in memory goes to the device when it is synced, and not by the passing of time.
    fn mounted(image: PathBuf, at: PathBuf) -> Option<Disk> {
        fs::create_dir_all(&at).expect("a folder of ours");
        let of = |path: &Path| path.display().to_string();
        let words = ["mount", "-o", "loop,commit=600", &of(&image), &of(&at)];
        succeeds(&words).then_some(Disk { image, at })
    }

    /// It, as it would be found after a cut at this moment.
    fn after_a_cut(&self, folder: &Path) -> Disk {
        let copy = folder.join("copy");
        fs::copy(&self.image, &copy).expect("room for it");
        Disk::mounted(copy, folder.join("found")).expect("what could be mounted before")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        succeeds(&["umount", "-l", &self.at.display().to_string()]);
    }
}

/// What stands on a disk.
#[derive(Debug, Default)]
struct Stands {
    /// Results whose load is over, by name: an agent has said, or is about to say, that it keeps them.
    kept: BTreeMap<String, Vec<u8>>,
    /// Sealed records, by the run's name.
    sealed: BTreeMap<String, Vec<u8>>,
}

impl Stands {
    /// While agents run: results of loads that go on are none yet.
    fn on(disk: &Path) -> Stands {
        let mut stands = Stands::all_on(disk);
        let goes_on = |name: &str| {
            disk.join("results")
                .join(name)
                .with_extension("under-way")
                .exists()
        };
        stands.kept.retain(|name, _| !goes_on(name));
        stands
    }

    fn all_on(disk: &Path) -> Stands {
        let names = |folder: &str| {
            let entries = fs::read_dir(disk.join(folder))
                .into_iter()
                .flatten()
                .flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let results = names("results");
        let whole = results.iter().filter(|path| path.extension().is_none());
        let runs = names("runs").into_iter().filter(|path| !path.is_symlink());
        Stands {
            kept: whole
                .filter_map(|path| Some((name(path), fs::read(path).ok()?)))
                .collect(),
            sealed: runs
                .filter_map(|path| Some((name(&path), fs::read(path.join("record.json")).ok()?)))
                .collect(),
        }
    }
}

/// What a cut waits for.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Any,
    ResultIsThere,
    RecordIsThere,
    RunHasEnded,
}

const MOMENTS: [Moment; 4] = [
    Moment::Any,
    Moment::ResultIsThere,
    Moment::RecordIsThere,
    Moment::RunHasEnded,
];

fn wait_for(moment: Moment, disk: &Path, running: &mut Running, random: &mut Rng) {
    if matches!(moment, Moment::Any) {
        return sleep(Duration::from_millis(random.u64(..3_500)));
    }
    let began = Instant::now();
    let has_come = |running: &mut Running| match moment {
        Moment::ResultIsThere => !Stands::on(disk).kept.is_empty(),
        Moment::RecordIsThere => !Stands::on(disk).sealed.is_empty(),
        _ => !running.runs(),
    };
    while !has_come(running) && began.elapsed() < UNDER_WAY {
        sleep(Duration::from_micros(500));
    }
    sleep(Duration::from_millis(random.u64(..SOON_MS)));
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// Makes a load, cuts the power, and says what is wrong with what is found then.
fn cut_one(
    nth: u32,
    random: &mut Rng,
    hub: &Hub,
    disk: &Disk,
    (url, own): (&str, &str),
) -> Result<String, String> {
    let of = |name: &str| disk.at.join(name).display().to_string();
    let (results, runs, dir) = (of("results"), of("runs"), hub.dir());
    let agent = hub.agent("c1", &["--results", &results]);
    let words = [
        "run", url, "-c", "2", "--rate", "200", "--warmup", "0s", "-d", "1s", "-q",
    ];
    let hosts = [
        "--no-calibrate",
        "--client-host",
        "c1",
        "--hub",
        &dir,
        "--runs",
        &runs,
        "--i-may-load",
        own,
    ];
    let mut running = hub.place.start(&[&words[..], &hosts].concat());
    let moment = MOMENTS[random.usize(..MOMENTS.len())];
    wait_for(moment, &disk.at, &mut running, random);
    let never_synced = format!("never-synced-{nth}");
    fs::write(disk.at.join(&never_synced), "x").expect("room");
    let mut all = vec![agent.pid()];
    all.extend(descendants(agent.pid()));
    let has_ended = !running.runs();
    if !has_ended {
        all.push(running.pid());
    }
    signal(&all, Signal::STOP);
    let before = Stands::on(&disk.at);
    let found = disk.after_a_cut(hub.place.path());
    signal(&all, Signal::KILL);
    let after = Stands::all_on(&found.at);
    let mut wrong = Vec::new();
    // Its name may have gone with what others synced.
    if fs::read(found.at.join(&never_synced)).is_ok_and(|bytes| !bytes.is_empty()) {
        wrong.push("what was never synced was found: this was no power cut".to_owned());
    }
    for (name, bytes) in &before.kept {
        if after.kept.get(name) != Some(bytes) {
            wrong.push(format!("result {name} was kept, and is not found"));
        }
    }
    // Its result was forgotten, or the run has ended: the record is all that there is.
    if before.kept.is_empty() || has_ended {
        for (name, bytes) in &before.sealed {
            if after.sealed.get(name) != Some(bytes) {
                wrong.push(format!("record {name} was sealed, and is not found"));
            }
        }
    }
    if has_ended && before.sealed.is_empty() {
        wrong.push("the run ended without a record".to_owned());
    }
    for (name, bytes) in &after.sealed {
        let record: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let steps = record["steps"].as_array().map_or(0, Vec::len);
        if steps != 1 {
            wrong.push(format!("record {name} holds {steps} steps of one load"));
        }
    }
    if after.kept.len() > 1 {
        wrong.push(format!("one load left {} results", after.kept.len()));
    }
    for run in fs::read_dir(found.at.join("runs"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = run.path();
        let has = |name: &str| fs::metadata(path.join(name)).is_ok_and(|file| file.len() > 100);
        if !path.is_symlink() && (has("journal.wfj") || has("record.json")) {
            let ran = hub.place.run(&["report", &path.display().to_string()]);
            wrong.extend((ran.code != Some(0)).then(|| ran.said()));
        }
    }
    let what = format!(
        "{moment:?}: {} kept and {} sealed before the cut, {} and {} after it",
        before.kept.len(),
        before.sealed.len(),
        after.kept.len(),
        after.sealed.len()
    );
    drop(found);
    drop((agent, running));
    for folder in [&results, &runs] {
        let _ = fs::remove_dir_all(folder);
    }
    match wrong.is_empty() {
        true => Ok(what),
        false => Err(format!("{what}: {}", wrong.join("; "))),
    }
}

/// This host's address, a hub with the agent c1, a disk of its own, and what it loads; says what is missing.
fn set_up() -> Option<(String, Hub, Disk, Counting)> {
    if !geteuid().is_root() || program("mkfs.ext4").is_none() {
        skip("it needs root and mkfs.ext4");
        return None;
    }
    let Some(ip) = own_ip() else {
        skip(NO_WAY_OUT);
        return None;
    };
    let own = ip.to_string();
    let hub = Hub::up(&own, &["c1"], "observe,load")?;
    let Some(disk) = Disk::new(hub.place.path()) else {
        skip(NO_DISK);
        return None;
    };
    Some((own, hub, disk, Counting::start(ip)))
}

#[test]
#[ignore = "takes four seconds for each cut; see the head of this file"]
fn what_was_acknowledged_outlasts_a_power_cut_and_is_there_once() {
    let _turn = alone();
    let Some((own, hub, disk, server)) = set_up() else {
        return;
    };
    let url = server.url();
    many_times(|nth, random| cut_one(nth, random, &hub, &disk, (&url, &own)));
}

#[test]
fn a_result_that_was_not_heard_is_fetched_from_an_agent_whose_power_was_cut() {
    let _turn = quietly();
    let Some((own, hub, disk, server)) = set_up() else {
        return;
    };
    let (url, dir, requests) = (server.url(), hub.dir(), REQUESTS.to_string());
    let results = |disk: &Disk| disk.at.join("results").display().to_string();
    let agent = hub.agent("c1", &["--results", &results(&disk)]);
    let words = [
        "run", &url, "-c", "2", "--rate", "200", "-n", &requests, "-q",
    ];
    let hosts = [
        "--no-calibrate",
        "--client-host",
        "c1",
        "--hub",
        &dir,
        "--i-may-load",
        &own,
    ];
    let running = hub.place.start(&[&words[..], &hosts].concat());
    until("half of the load", || server.answered() >= REQUESTS / 2);
    // What relays is stopped: the result goes to disk, is said, and is not heard.
    signal(&[agent.pid()], Signal::STOP);
    until("result", || !Stands::on(&disk.at).kept.is_empty());
    let never_synced = "never-synced";
    fs::write(disk.at.join(never_synced), "x").expect("room");
    let mut all = descendants(agent.pid());
    all.push(agent.pid());
    signal(&all, Signal::STOP);
    let before = Stands::on(&disk.at).kept;
    let found = disk.after_a_cut(hub.place.path());
    signal(&all, Signal::KILL);
    drop(agent);
    let is_there = fs::read(found.at.join(never_synced)).is_ok_and(|bytes| !bytes.is_empty());
    assert!(!is_there, "what was never synced: this was no power cut");
    let kept = || Stands::all_on(&found.at).kept;
    assert!(kept() == before, "{:?}", kept().keys());
    // Its machine is there again, and its controller comes back for the result.
    let _again = hub.agent("c1", &["--results", &results(&found)]);
    let ran = running.wait(ASKED_WITHIN).ends_with(1);
    assert!(ran.err.contains("over the hub"), "{}", ran.said());
    let step = hub.place.step();
    assert_balanced(&step);
    let answered = step["counts"]["answered"].as_u64().expect("a count");
    let later = step["drained"]["answered"].as_u64().expect("a count");
    assert_eq!(answered + later, REQUESTS, "{step:#}");
    assert_eq!(server.answered(), REQUESTS);
    assert_eq!(step["counts"]["failed"], json!({}));
    assert!(step["counts"]["unknown"].is_null(), "{step:#}");
    let series = step["intervals"].as_array().expect("a series");
    let of = |one: &Value| one["answered"].as_u64().expect("a count");
    let told: u64 = series.iter().map(of).sum();
    assert!((answered..=REQUESTS).contains(&told), "{told}: {step:#}");
    assert!(
        kept().is_empty(),
        "the record is on the controller's disk: {:?}",
        kept().keys()
    );
}
