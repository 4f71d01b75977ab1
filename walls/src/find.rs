//! Runs `wallfinder find` on a scenario, as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wallfinder_bench::child::{self, Held};

use crate::elsewhere::Elsewhere;
use crate::found::{self, Found};
use crate::ordinary::{self, Standing};
use crate::restless::Restless;
use crate::scenario::{Scenario, Server};

/// The client's processor. The server has another, unless a scenario says otherwise.
pub(crate) const CLIENT_CPU: &str = "1";
/// What defines the calls of the bundled echo.
const ECHO_PROTO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../subjects/go/echo/payload/echo.proto"
);
/// Traffic files.
const MIXES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mixes");
/// Port of every subject.
const SUBJECT_PORT: u16 = 8090;
/// How long a load lasts whose throughput alone is asked for.
const LIFTED_LASTS: &str = "5s";
/// How often two loads are held in turn, of which one is compared with the other, and each for so long.
const TURNS: u32 = 2;
const TURN_LASTS: &str = "3s";
/// How long an interrupted find may take to put everything back.
const INTERRUPT_GRACE: Duration = Duration::from_secs(30);

/// How hard to try, as `find --effort` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// About 25 seconds.
    Quick,
    /// About a minute.
    Normal,
    /// About five minutes.
    Thorough,
}

impl Effort {
    /// As the flag has it.
    pub const fn label(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Normal => "normal",
            Effort::Thorough => "thorough",
        }
    }

    /// What one `find` may take, from its start to its end.
    pub const fn within(self) -> Duration {
        Duration::from_secs(match self {
            Effort::Quick => 45,
            Effort::Normal => 100,
            Effort::Thorough => 420,
        })
    }

    /// When it counts as hung: three times what it should take.
    const fn time_limit(self) -> Duration {
        Duration::from_secs(match self {
            Effort::Quick => 135,
            Effort::Normal => 300,
            Effort::Thorough => 1_260,
        })
    }
}

/// What does not change from one scenario to the next.
#[derive(Debug, Clone)]
pub struct Apparatus {
    /// The binary.
    pub wallfinder: PathBuf,
    /// Folder of the subjects' binaries.
    pub bin: PathBuf,
    /// Where records are kept.
    pub runs: PathBuf,
    /// How hard to try.
    pub effort: Effort,
    /// Length of windows, where the effort's own is not wanted: `400ms`.
    pub window: Option<&'static str>,
    /// With servers on another host, those that can be: how many client hosts make the load; 0: this one.
    pub elsewhere: Option<u32>,
    /// Whether something else takes a processor now and then.
    pub restless: bool,
}

impl Apparatus {
    /// Runs a scenario once.
    pub fn find(&self, scenario: &Scenario, seed: u64) -> Result<Found, String> {
        let of_server = scenario
            .beside
            .map(|command| (command, scenario.server_cpus));
        let of_client = scenario.beside_client.map(|command| (command, CLIENT_CPU));
        let start = |(command, cpus): (&str, &str)| beside(command, &self.bin, cpus);
        let neighbours = of_server.into_iter().chain(of_client).map(start);
        let _neighbours: Vec<Held> = neighbours.collect::<Result<_, String>>()?;
        let restless = self.restless.then(|| Restless::begin(&self.bin, seed));
        let found = self.found_by_find(scenario, seed);
        restless.map_or(Ok(()), Restless::end)?;
        found
    }

    fn found_by_find(&self, scenario: &Scenario, seed: u64) -> Result<Found, String> {
        if let Some(clients) = self.elsewhere {
            let (wallfinder, bin) = (&self.wallfinder, &self.bin);
            let elsewhere = Elsewhere::start(scenario, wallfinder, bin, SUBJECT_PORT, clients)?;
            let json = self.run(&self.arguments_there(scenario, seed, &elsewhere))?;
            return found::read(json.as_bytes());
        }
        let standing = self.standing(scenario)?;
        let is_named = |server: &Server| match server {
            Server::Ordinary(server) => server.backend_is_named,
            Server::Subject(_) => false,
        };
        let backend = standing.as_ref().and_then(Standing::backend);
        let backend = backend.filter(|_| is_named(&scenario.server));
        let json = self.run(&self.arguments(scenario, seed, backend))?;
        found::read(json.as_bytes())
    }

    /// Has the record of a run judged again.
    pub fn judge(&self, run: &Path) -> Result<Found, String> {
        let run = run.display().to_string();
        let json = self.run(&["judge", "--format", "json", &run].map(str::to_owned))?;
        found::read(json.as_bytes())
    }

    /// The tool: what it says of itself, and a checksum of what it was built from, for builds
    /// between two versions differ too; of its binary where that is not known.
    pub fn tool(&self) -> Result<String, String> {
        let at = |error: std::io::Error| format!("{}: {error}", self.wallfinder.display());
        let said = Command::new(&self.wallfinder)
            .arg("--version")
            .output()
            .map_err(at)?;
        let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if let Some(sources) = sources(&self.wallfinder) {
            return Ok(format!("{said}, sources {:016x}", fnv1a(&sources)));
        }
        let binary = std::fs::read(&self.wallfinder).map_err(at)?;
        Ok(format!("{said}, binary {:016x}", fnv1a(&binary)))
    }

    /// The server, where it stands when the tool comes.
    fn standing(&self, scenario: &Scenario) -> Result<Option<Standing>, String> {
        match &scenario.server {
            Server::Subject(_) => Ok(None),
            Server::Ordinary(server) => {
                Standing::start(server, scenario.server_cpus, &self.bin).map(Some)
            }
        }
    }

    /// Answers per second of a scenario, by `run`.
    pub fn rate(&self, scenario: &Scenario, seed: u64) -> Result<f64, String> {
        let json = self.load(scenario, seed, LIFTED_LASTS)?;
        Ok(found::read(json.as_bytes())?.rate)
    }

    /// The same of two scenarios that are held in turn, so that a machine which changes its pace moves both.
    pub fn rates(&self, two: [&Scenario; 2], seed: u64) -> Result<[f64; 2], String> {
        let mut sums = [0.0; 2];
        for _ in 0..TURNS {
            for (scenario, sum) in two.iter().zip(&mut sums) {
                let json = self.load(scenario, seed, TURN_LASTS)?;
                *sum += found::read(json.as_bytes())?.rate;
            }
        }
        Ok(sums.map(|sum| sum / f64::from(TURNS)))
    }

    /// What `run` says of a scenario's load.
    pub fn load(&self, scenario: &Scenario, seed: u64, lasts: &str) -> Result<String, String> {
        let _standing = self.standing(scenario)?;
        let run = self.of_run("run", scenario, seed);
        let lasts = ["-d", lasts].map(str::to_owned).to_vec();
        let (load, target) = (self.load_of(scenario), vec![target(scenario)]);
        self.run(&[run, server_of(scenario), lasts, load, target].concat())
    }

    /// What `find` says of a server that it starts.
    pub fn found(&self, scenario: &Scenario, seed: u64) -> Result<String, String> {
        self.run(&self.arguments(scenario, seed, None))
    }

    /// The arguments of `wallfinder`; `backend` is the process behind a server that stands.
    pub fn arguments(&self, scenario: &Scenario, seed: u64, backend: Option<u32>) -> Vec<String> {
        let finding = self.finding(scenario, backend);
        let run = self.of_run("find", scenario, seed);
        let target = vec![target(scenario)];
        [run, server_of(scenario), finding, target].concat()
    }

    /// The same for a server on another host.
    fn arguments_there(&self, scenario: &Scenario, seed: u64, there: &Elsewhere) -> Vec<String> {
        let (scheme, path) = (scenario.scheme, scenario.path);
        let url = format!("{scheme}://{}:{SUBJECT_PORT}{path}", there.address());
        let server = there.flags().to_vec();
        let run = self.of_run("find", scenario, seed);
        [run, server, self.finding(scenario, None), vec![url]].concat()
    }

    /// How it is squeezed, and under which load.
    fn finding(&self, scenario: &Scenario, backend: Option<u32>) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |flag: &str, value: &str| arguments.extend([flag, value].map(str::to_owned));
        add("--effort", self.effort.label());
        if let Some(pid) = backend {
            add("--backend-pid", &pid.to_string());
        }
        if let Some(window) = self.window {
            add("--window", window);
        }
        // Only where a function is to be named.
        if !scenario.looks_inside() {
            arguments.push("--no-inside".to_owned());
        }
        arguments.extend(self.load_of(scenario));
        arguments
    }

    /// A command, where its record goes, and the client's processor.
    fn of_run(&self, command: &str, scenario: &Scenario, seed: u64) -> Vec<String> {
        let seed = seed.to_string();
        let runs = self.runs.display().to_string();
        let mut arguments: Vec<&str> = vec![command, "--format", "json", "--quiet"];
        arguments.extend(["--seed", &seed, "--runs", &runs, "--name", scenario.name]);
        arguments.extend(["--client-cpus", CLIENT_CPU]);
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// What a scenario says of its load.
    fn load_of(&self, scenario: &Scenario) -> Vec<String> {
        let bin = self.bin.display().to_string();
        let request = format!("{{\"id\":\"{}\"}}", "x".repeat(1_000));
        let flags = words(scenario.flags).into_iter().map(|word| {
            let word = word.replace("{bin}", &bin).replace("{echo}", ECHO_PROTO);
            word.replace("{kilobyte}", &request)
                .replace("{mixes}", MIXES)
        });
        flags.collect()
    }

    fn run(&self, arguments: &[String]) -> Result<String, String> {
        // Ended early, this leaves no experiment behind: the kernel interrupts it.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "INT"])
            .arg(&self.wallfinder)
            .args(arguments)
            .env("WALLFINDER_SUBJECTS", &self.bin);
        let limit = self.effort.time_limit();
        let ended = child::run(&mut command, limit, INTERRUPT_GRACE)
            .map_err(|error| format!("{}: {error}", self.wallfinder.display()))?;
        if !ended.in_time {
            return Err(format!("not done within {limit:?}"));
        }
        if !ended.status.success() {
            return Err(format!("{}: {}", ended.status, ended.last_words()));
        }
        Ok(ended.stdout)
    }
}

/// What git lists of the sources of a tool that `make build` built here, where it has them as they
/// are: the same on every machine, which a binary is not. Without those that only draw pages and
/// run studies: no verdict of `find` passes through them.
fn sources(wallfinder: &Path) -> Option<Vec<u8>> {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    const SOURCES: [&str; 5] = [
        "crates/*/src/*",
        "Cargo.lock",
        ":(exclude)crates/report",
        ":(exclude)crates/study",
        ":(exclude)crates/cli/src/commands/study.rs",
    ];
    let built_here = Path::new(ROOT).join("target/release/wallfinder");
    if built_here.canonicalize().ok()? != wallfinder.canonicalize().ok()? {
        return None;
    }
    let git = |command: [&str; 2]| {
        let output = Command::new("git")
            .args(["-C", ROOT])
            .args(command)
            .arg("--")
            .args(SOURCES)
            .output()
            .ok()?;
        output.status.success().then_some(output.stdout)
    };
    let changed = git(["status", "--porcelain"])?;
    if !changed.is_empty() {
        return None;
    }
    git(["ls-files", "--stage"])
}

/// The FNV-1a hash (Fowler, Noll, Vo) of 64 bits: the same with every build of this runner.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A server that the tool starts, and the link that it lays.
fn server_of(scenario: &Scenario) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Server::Subject(command) = scenario.server {
        arguments.extend(["--server-cpus", scenario.server_cpus, "--subject", command]);
    }
    if let Some(link) = scenario.link {
        arguments.extend(["--link", link]);
    }
    arguments.into_iter().map(str::to_owned).collect()
}

fn target(scenario: &Scenario) -> String {
    let host = match scenario.server {
        Server::Subject(_) => format!("subject:{SUBJECT_PORT}"),
        Server::Ordinary(_) => format!("127.0.0.1:{}", ordinary::PORT),
    };
    format!("{}://{host}{}", scenario.scheme, scenario.path)
}

/// Starts a process beside a side, on its processors.
pub(crate) fn beside(command: &str, bin: &Path, cpus: &str) -> Result<Held, String> {
    let command = words(command);
    let (program, arguments) = command.split_first().ok_or("no neighbour is named")?;
    // Whatever ends the suite, a neighbour does not stay.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "taskset", "-c", cpus])
        .arg(bin.join(program))
        .args(arguments)
        .env("WALLFINDER_SUBJECT", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map(Held::killed)
        .map_err(|error| format!("the neighbour: taskset: {error}"))
}

/// Splits at spaces; what stands in single quotes is one word.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (nth, part) in line.split('\'').enumerate() {
        if nth % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{SUITE, scenarios};

    fn apparatus() -> Apparatus {
        Apparatus {
            wallfinder: "/bin/false".into(),
            bin: "/b".into(),
            runs: "/r".into(),
            effort: Effort::Quick,
            window: None,
            elsewhere: None,
            restless: false,
        }
    }

    fn arguments(name: &str) -> Vec<String> {
        let scenario = scenarios().find(|s| s.name == name).unwrap();
        apparatus().arguments(scenario, 7, None)
    }

    #[test]
    fn a_scenario_becomes_a_command() {
        let line = arguments("uplink-20mbit").join(" ");
        for part in [
            "find --format json --quiet --seed 7 --runs /r --name uplink-20mbit",
            "--client-cpus 1 --server-cpus 0 --subject knownwall --link 20mbit --effort quick",
            "-c 16 -m POST --body-bytes 10000 http://subject:8090/",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_server_that_stands_is_named_by_its_url_alone() {
        let line = arguments("nginx-limit-rate").join(" ");
        assert!(
            line.ends_with("-c 16 http://127.0.0.1:18181/Apache-2.0"),
            "{line}"
        );
        assert!(
            !line.contains("subject") && !line.contains("--server-cpus"),
            "{line}"
        );
    }

    #[test]
    fn a_driver_is_one_word_and_knows_where_it_is() {
        let arguments = arguments("client-pool-4-of-64");
        let at = arguments
            .iter()
            .position(|word| word == "--driver")
            .unwrap();
        let driver = &arguments[at + 1];
        assert_eq!(
            driver,
            "/b/knownwall-client -c 64 --pool 4 -d {duration} {url}"
        );
    }

    #[test]
    fn a_find_that_fails_says_why() {
        let failed = apparatus().find(&SUITE[0], 1).unwrap_err();
        assert!(failed.contains("said nothing"), "{failed}");
        let mut missing = apparatus();
        missing.wallfinder = "/nowhere/wallfinder".into();
        let failed = missing.find(&SUITE[0], 1).unwrap_err();
        assert!(failed.contains("/nowhere/wallfinder"), "{failed}");
    }

    #[test]
    fn the_checksum_is_that_of_its_authors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
