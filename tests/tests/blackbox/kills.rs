//! Many runs with everything in force, each killed at a random moment by a random signal,
//! and after each: nothing of it is left on the machine, and its record can be read.
//!
//! ```sh
//! WALLFINDER_KILLS=200 cargo test -p wallfinder-tests --test blackbox kills -- --ignored --nocapture
//! ```
//!
//! A seed that is printed brings the same moments back: `WALLFINDER_KILLS_SEED`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use rustix::process::Signal;
use wallfinder_tests::{
    Place, Ran, alone, binary, free_port, listens_on, network, processes_with, program, skip,
    stopped, subjects, things_of_ours,
};

/// Marks every process that a run starts, CPU stealers, subjects and drivers included.
const MARK: &str = "WALLFINDER_KILLS_MARK";
/// How long what a killed run left may take to go away.
const CLEAN_WITHIN: Duration = Duration::from_secs(5);
/// How long an interrupted run may take to end.
const END_WITHIN: Duration = Duration::from_secs(20);
/// While links, groups and servers are put up.
const SETTING_UP_MS: u64 = 1_500;
/// Into the experiment of a `find` whose load is given.
const UNDER_WAY_MS: u64 = 12_000;

const DRIVER: &str = "{bin}/knownwall-client -c {connections} -d {duration} {url}";

/// Without any privilege: the server is stopped and continued by signals.
const NOBODY: [&str; 7] = [
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--no-new-privs",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--",
];

/// What is killed.
struct Victim {
    name: &'static str,
    /// Words, in which what stands in braces is to be filled in.
    words: &'static str,
    /// Whether it runs as nobody.
    unprivileged: bool,
}

const fn victim(name: &'static str, words: &'static str) -> Victim {
    Victim {
        name,
        words,
        unprivileged: false,
    }
}

const VICTIMS: [Victim; 9] = [
    victim(
        "find over a link",
        "find|--subject|catalogue|--link|100mbit|-c|16|http://subject:{port}/read",
    ),
    victim(
        "find under a quota",
        "find|--subject|knownwall --spin-us 200|--server-quota|0.5|-c|16|http://subject:{port}/",
    ),
    victim(
        "find with a driver",
        "find|--subject|knownwall --spin-us 200|--driver|{driver}|-c|16|http://subject:{port}/",
    ),
    victim(
        "find at a server that stands",
        "find|--client-cpus|1|-c|16|http://127.0.0.1:{standing}/",
    ),
    Victim {
        name: "find without privilege",
        words: "find|--client-cpus|1|-c|16|http://127.0.0.1:{nobodys}/",
        unprivileged: true,
    },
    victim(
        "find with a backend that is paused",
        "find|--subject|knownwall --spin-us 200|--backend-pid|{burner}|-c|16|http://subject:{port}/",
    ),
    victim(
        "ab over a link",
        "ab|--subject|catalogue|--link|1gbit|--path|/read,/read-gz|http://subject:{port}/",
    ),
    victim(
        "run over a link, under quotas",
        "run|-d|20s|--subject|knownwall|--link|20mbit,delay=5ms|--server-quota|0.5|--client-quota|0.5|http://subject:{port}/",
    ),
    victim(
        "run with a driver",
        "run|-d|20s|--subject|knownwall|--driver|{driver}|http://subject:{port}/",
    ),
];

/// A process that the tool does not start, and must leave as it was. Dropping it ends it.
struct Standing {
    child: Child,
    groups: String,
}

impl Standing {
    fn start(bin: &Path, words: &[&str], unprivileged: bool) -> Standing {
        let knownwall = bin.join("knownwall");
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        if unprivileged {
            command.arg("setpriv").args(NOBODY);
        }
        let child = command
            .arg(knownwall)
            .args(words)
            .env("WALLFINDER_SUBJECT", "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let groups = groups_of(child.id());
        Standing { child, groups }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// All that stand, and where the servers among them listen.
struct Standings {
    port: u16,
    nobodys_port: u16,
    /// Two servers, and one that uses the processor of the subjects.
    processes: [Standing; 3],
}

impl Standings {
    fn start(bin: &Path) -> Standings {
        let (port, nobodys_port) = (free_port(), free_port());
        let server = |port: u16, unprivileged| {
            let port = port.to_string();
            Standing::start(bin, &["--spin-us", "200", "--port", &port], unprivileged)
        };
        let processes = [
            server(port, false),
            server(nobodys_port, true),
            Standing::start(bin, &["--burn"], false),
        ];
        let listen = || listens_on(port) && listens_on(nobodys_port);
        assert!(within(Duration::from_secs(10), listen).is_some());
        Standings {
            port,
            nobodys_port,
            processes,
        }
    }

    fn burner(&self) -> u32 {
        self.processes[2].pid()
    }

    /// Those that are not as they were.
    fn moved(&self) -> Vec<String> {
        self.processes
            .iter()
            .map(|one| (one, groups_of(one.pid())))
            .filter(|(one, groups)| *groups != one.groups)
            .map(|(one, groups)| format!("process {} in {groups}", one.pid()))
            .collect()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn groups_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// How long it took until it was so; `None`: longer than that.
fn within(limit: Duration, is_so: impl Fn() -> bool) -> Option<Duration> {
    let since = Instant::now();
    while !is_so() {
        if since.elapsed() > limit {
            return None;
        }
        thread::sleep(Duration::from_millis(50));
    }
    Some(since.elapsed())
}

/// When and how a run is killed.
#[derive(Debug)]
struct Kill {
    after: Duration,
    signal: Signal,
    /// A second kill, while the first one is being answered.
    then_kill_after: Option<Duration>,
}

impl Kill {
    fn by_chance(random: &mut Rng) -> Kill {
        let most_ms = random.choice([SETTING_UP_MS, UNDER_WAY_MS]).expect("one");
        let after = Duration::from_millis(random.u64(..most_ms));
        let signal = random
            .choice([Signal::KILL, Signal::TERM, Signal::INT])
            .expect("one");
        let twice = signal != Signal::KILL && random.u64(..4) == 0;
        Kill {
            after,
            signal,
            then_kill_after: twice.then(|| Duration::from_millis(random.u64(..400))),
        }
    }
}

/// Runs a victim, kills it, and says what is wrong afterwards.
fn kill_one(
    nth: u32,
    random: &mut Rng,
    bin: &Path,
    standing: &Standings,
) -> Result<String, String> {
    let victim = random.choice(&VICTIMS).expect("one");
    let kill = Kill::by_chance(random);
    let driver = DRIVER.replace("{bin}", &bin.display().to_string());
    let words = victim
        .words
        .replace("{port}", &free_port().to_string())
        .replace("{standing}", &standing.port.to_string())
        .replace("{nobodys}", &standing.nobodys_port.to_string())
        .replace("{burner}", &standing.burner().to_string());
    let words = words
        .split('|')
        .map(|word| word.replace("{driver}", &driver));
    let (place, mark) = (Place::new(), format!("{}-{nth}", std::process::id()));
    let (network_before, stopped_before) = (network(), stopped());
    // What a shell puts in the background inherits that SIGINT is ignored, until it is caught.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT");
    if victim.unprivileged {
        let everybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path(), everybody).unwrap();
        command.arg("setpriv").args(NOBODY);
    }
    command.arg(binary()).args(words).env(MARK, &mark);
    let running = place.start_command(command);
    thread::sleep(kill.after);
    running.signal(kill.signal);
    if let Some(later) = kill.then_kill_after {
        thread::sleep(later);
        running.signal(Signal::KILL);
    }
    let ran = running.wait(END_WITHIN);
    let left = || {
        let mut left = things_of_ours();
        left.extend(processes_with(MARK, &mark));
        left.extend(new_in(network(), &network_before));
        left.extend(new_in(stopped(), &stopped_before));
        left.extend(standing.moved());
        left
    };
    let clean = within(CLEAN_WITHIN, || left().is_empty());
    let what = format!("kill {nth}: {}, {kill:?}", victim.name);
    let mut wrong = Vec::new();
    if clean.is_none() {
        wrong.push(format!("left: {:?}", left()));
    }
    wrong.extend(odd_end(&kill, &ran));
    wrong.extend(unreadable(&place));
    match wrong.is_empty() {
        true => Ok(format!(
            "{what}: clean after {:?}",
            clean.unwrap_or_default()
        )),
        false => Err(format!("{what}: {}", wrong.join("; "))),
    }
}

fn new_in(now: Vec<String>, before: &[String]) -> Vec<String> {
    now.into_iter()
        .filter(|thing| !before.contains(thing))
        .collect()
}

/// An end that such a kill does not explain.
fn odd_end(kill: &Kill, ran: &Ran) -> Option<String> {
    // A signal that comes before it is caught ends the process as it ends any; and it may
    // have ended before the second one.
    let caught = match kill.signal {
        signal if signal == Signal::TERM => Some(143),
        signal if signal == Signal::INT => Some(130),
        _ => None,
    };
    let expected = [None, caught];
    let panicked = ran.err.contains("panicked");
    (panicked || !expected.contains(&ran.code))
        .then(|| format!("it ended with {:?}: {}", ran.code, ran.err))
}

/// A run that was begun and cannot be read.
pub(crate) fn unreadable(place: &Place) -> Option<String> {
    let run = place.runs().pop()?;
    let has = |name: &str| fs::metadata(run.join(name)).is_ok_and(|file| file.len() > 100);
    if !has("journal.wfj") && !has("record.json") {
        return None;
    }
    let run = run.to_str().unwrap();
    ["report", "judge"].into_iter().find_map(|command| {
        let ran = place.run(&[command, run]);
        (ran.code != Some(0)).then(|| format!("{command}: {:?} {}", ran.code, ran.err))
    })
}

/// Does something as often as the environment says, by a seed that it says or that is told, and fails at the end for all
/// times that went wrong.
pub(crate) fn many_times(mut once: impl FnMut(u32, &mut Rng) -> Result<String, String>) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let times = number("WALLFINDER_KILLS").unwrap_or(20);
    let seed = number("WALLFINDER_KILLS_SEED");
    let seed = seed.unwrap_or(since_1970.expect("it is later").as_millis() as u64);
    println!("{times} times, seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut failures = Vec::new();
    for nth in 1..=times as u32 {
        match once(nth, &mut random) {
            Ok(said) => println!("{nth}: {said}"),
            Err(said) => {
                println!("WRONG {nth}: {said}");
                failures.push(said);
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {times}: {failures:#?}",
        failures.len()
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

#[test]
#[ignore = "takes four seconds for each kill; see the head of this file"]
fn killed_at_random_moments_nothing_is_left() {
    let _turn = alone();
    let is_root = rustix::process::geteuid().is_root();
    let programs = ["ip", "tc", "setpriv", "taskset"];
    let has_all = is_root && programs.iter().all(|name| program(name).is_some());
    let Some(bin) = subjects().filter(|_| has_all) else {
        return skip("it needs root, the subjects, ip, tc, setpriv and taskset");
    };
    assert_eq!(things_of_ours(), Vec::<String>::new(), "before anything");
    let mut standing = Standings::start(&bin);
    many_times(|nth, random| kill_one(nth, random, &bin, &standing));
    let mut ended = standing
        .processes
        .iter_mut()
        .map(|one| one.child.try_wait());
    assert!(
        ended.all(|ended| matches!(ended, Ok(None))),
        "one that stood is gone"
    );
}
