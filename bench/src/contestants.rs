//! Who races: their commands, whether they are here, and how they are read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;

use crate::null_client::{Refill, Way};
use crate::outputs::{self, Tally, Unreadable};
use crate::scenario::{MESSAGE, Scenario, Speaks};

/// A load generator in one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// The whole tool: `wallfinder run`.
    Wallfinder,
    /// The same with default flags: with a warm-up, and with a ceiling that is measured or kept.
    WallfinderDefaults,
    /// The tool with one fixed request, where others send a mix.
    WallfinderFixed,
    /// Our engine alone, as it chooses to wait (io_uring where there is one).
    Engine,
    /// Our engine alone, on epoll.
    EngineEpoll,
    /// The client that does nothing.
    Null {
        /// How it waits.
        way: Way,
        /// For how many completions.
        batch: u32,
        /// When it sends again.
        refill: Refill,
    },
    /// wg/wrk.
    Wrk,
    /// nghttp2's h2load, speaking HTTP/1.1.
    H2load,
    /// hatoo/shb.
    Shb,
    /// hatoo/oha.
    Oha,
    /// mcollina/autocannon.
    Autocannon,
    /// bojand/ghz.
    Ghz,
    /// grafana/k6.
    K6,
    /// tsenart/vegeta.
    Vegeta,
}

const fn null(way: Way, batch: u32, refill: Refill) -> Contestant {
    Contestant::Null { way, batch, refill }
}

impl Contestant {
    /// The null client on epoll.
    pub const NULL_EPOLL: Contestant = null(Way::Epoll, 1, Refill::Each);
    /// The null client on io_uring, waiting for each completion.
    pub const NULL_URING_1: Contestant = null(Way::Uring, 1, Refill::Each);
    /// The null client on io_uring, waiting for eight.
    pub const NULL_URING_8: Contestant = null(Way::Uring, 8, Refill::Each);
    /// The null client on io_uring, waiting for thirty-two.
    pub const NULL_URING_32: Contestant = null(Way::Uring, 32, Refill::Each);
    /// On epoll, sending again when all is answered, as wrk does.
    pub const NULL_EPOLL_ALL: Contestant = null(Way::Epoll, 1, Refill::All);
    /// On io_uring, the same.
    pub const NULL_URING_8_ALL: Contestant = null(Way::Uring, 8, Refill::All);

    /// Everyone, in the order of tables.
    pub const ALL: [Contestant; 19] = [
        Contestant::Wallfinder,
        Contestant::WallfinderDefaults,
        Contestant::WallfinderFixed,
        Contestant::Engine,
        Contestant::EngineEpoll,
        Contestant::NULL_EPOLL,
        Contestant::NULL_URING_1,
        Contestant::NULL_URING_8,
        Contestant::NULL_URING_32,
        Contestant::NULL_EPOLL_ALL,
        Contestant::NULL_URING_8_ALL,
        Contestant::Wrk,
        Contestant::H2load,
        Contestant::Shb,
        Contestant::Oha,
        Contestant::Autocannon,
        Contestant::Ghz,
        Contestant::K6,
        Contestant::Vegeta,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> String {
        match self {
            Contestant::Wallfinder => "wallfinder".into(),
            Contestant::WallfinderDefaults => "wallfinder-defaults".into(),
            Contestant::WallfinderFixed => "wallfinder-fixed".into(),
            Contestant::Engine => "engine".into(),
            Contestant::EngineEpoll => "engine-epoll".into(),
            Contestant::Null { way, batch, refill } => {
                let way = match way {
                    Way::Epoll => "epoll".to_owned(),
                    Way::Uring => format!("uring-{batch}"),
                };
                let refill = match refill {
                    Refill::Each => "",
                    Refill::All => "-all",
                };
                format!("null-{way}{refill}")
            }
            Contestant::Wrk => "wrk".into(),
            Contestant::H2load => "h2load".into(),
            Contestant::Shb => "shb".into(),
            Contestant::Oha => "oha".into(),
            Contestant::Autocannon => "autocannon".into(),
            Contestant::Ghz => "ghz".into(),
            Contestant::K6 => "k6".into(),
            Contestant::Vegeta => "vegeta".into(),
        }
    }

    /// Its command for a scenario, or why it does not take part.
    pub fn command(
        self,
        tools: &Tools,
        scenario: &Scenario,
        address: SocketAddr,
        seconds: f64,
    ) -> Result<Command, String> {
        let pipelined = scenario.depth > 1;
        let scheme = if scenario.speaks.is_secure() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{address}{}", scenario.path);
        let (connections, depth) = (scenario.connections.to_string(), scenario.depth.to_string());
        // Not every peer takes fractions of a second.
        // Ten seconds are a run as users make it; a second is for tests.
        let seconds = match scenario.is_of_defaults() && seconds > 1.0 {
            true => seconds.max(10.0),
            false => seconds,
        };
        let whole = format!("{}", seconds.ceil().max(1.0));
        let no_pipelining = || Err("it does not pipeline HTTP/1.1".to_owned());
        let is_whole_tool = matches!(
            self,
            Contestant::Wallfinder | Contestant::WallfinderDefaults
        );
        let is_of_mixes = scenario.is_of_mixes();
        if is_of_mixes && !self.stands_beside_mixes() {
            let is_pipeline = pipelined && !scenario.speaks.multiplexes();
            if !self.sends_mixes() {
                return Err("it sends one request".into());
            }
            if is_pipeline && !matches!(self, Contestant::Wallfinder | Contestant::Wrk) {
                return Err("it does not pipeline mixes".into());
            }
        }
        let races_in_mixes_alone = matches!(
            self,
            Contestant::WallfinderFixed | Contestant::K6 | Contestant::Vegeta
        );
        if races_in_mixes_alone && !is_of_mixes {
            return Err("it races where mixes are sent".into());
        }
        let mixes = tools.bench.join("mixes");
        if scenario.is_of_defaults() && !is_whole_tool {
            return Err("it has no defaults of ours".into());
        }
        if self == Contestant::WallfinderDefaults && !scenario.is_of_defaults() {
            return Err("it races where defaults do".into());
        }
        if !self.can_speak(scenario.speaks) {
            return Err("it does not speak the protocol".into());
        }
        let speaks = scenario.speaks;
        let (http2, grpc) = (speaks.multiplexes(), speaks == Speaks::Grpc);
        let mut command;
        match self {
            Contestant::Wallfinder
            | Contestant::WallfinderDefaults
            | Contestant::WallfinderFixed => {
                command = Command::new(tools.wallfinder()?);
                let url = match speaks {
                    Speaks::Framed => format!("tcp://{address}"),
                    Speaks::Grpc => format!("grpc://{address}{}", scenario.path),
                    _ => url,
                };
                command.args(["run", &url, "-c", &connections, "-t", "1"]);
                command.args(["-d", &format!("{whole}s"), "--pipeline", &depth]);
                if http2 {
                    command.arg("--http2");
                }
                if speaks.is_secure() {
                    command.arg("-k");
                }
                match speaks {
                    Speaks::Framed => {
                        let message = format!("@{}", tools.message(&MESSAGE)?.display());
                        command.args(["--frame", "u32be", "-b", &message]);
                    }
                    Speaks::Grpc => {
                        command.arg("--proto").arg(tools.proto());
                        command.args(["-b", &message_as_json()]);
                    }
                    Speaks::Http1 | Speaks::Http2 | Speaks::Https | Speaks::Http2Tls => {}
                }
                if is_of_mixes && self == Contestant::Wallfinder {
                    command.arg("--traffic").arg(mixes.join("ten.toml"));
                }
                command.args(["--format", "json"]);
                if self != Contestant::WallfinderDefaults {
                    command.args(["--warmup", "0ms", "--no-calibrate"]);
                }
                if let Some(cpu) = tools.client_cpu {
                    command.args(["--client-cpus", &cpu.to_string()]);
                }
            }
            Contestant::Engine | Contestant::EngineEpoll => {
                command = Command::new(&tools.this);
                command.args(["engine", &address.to_string(), scenario.path]);
                command.args(["-c", &connections, "-p", &depth, "-d", &whole]);
                command.args(["--speaks", scenario.speaks.name()]);
                if self == Contestant::EngineEpoll {
                    command.args(["--io", "epoll"]);
                }
            }
            Contestant::Null { refill, .. } if refill == Refill::All && !pipelined => {
                return Err("at depth 1 it is its twin without `-all`".into());
            }
            Contestant::Null { way, batch, refill } => {
                command = Command::new(&tools.this);
                command.args(["null-client", &address.to_string(), scenario.path]);
                command.args(["-c", &connections, "-p", &depth, "-d", &whole]);
                command.args(["--speaks", scenario.speaks.name()]);
                if way == Way::Uring {
                    command.args(["--io", "uring", "--batch", &batch.to_string()]);
                }
                if refill == Refill::All {
                    command.args(["--refill", "all"]);
                }
            }
            Contestant::Wrk => {
                command = Command::new(tools.find("wrk")?);
                command.args(["-t1", "-c", &connections, "-d", &whole]);
                if is_of_mixes {
                    command.arg("-s").arg(mixes.join("ten.lua"));
                    command.args([&url, "--"]).arg(mixes.join("terms.csv"));
                    command.arg(&depth);
                } else if pipelined {
                    command.arg("-s").arg(tools.bench.join("pipeline.lua"));
                    command.args([&url, "--", &depth]);
                } else {
                    command.arg(&url);
                }
            }
            Contestant::H2load => {
                command = Command::new(tools.find("h2load")?);
                if grpc {
                    let message = tools.message(&prefixed())?;
                    command.arg("-d").arg(message);
                    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
                } else if !http2 {
                    command.arg("--h1");
                }
                command.args(["-t1", "-c", &connections, "-m", &depth]);
                command.args(["-D", &whole, &url]);
            }
            Contestant::Shb if pipelined && !http2 => return no_pipelining(),
            Contestant::Shb => {
                command = Command::new(tools.find("shb")?);
                command.args(["--json", "-t1", "-c", &connections]);
                if http2 {
                    command.args(["--http2", "-p", &depth]);
                }
                command.args(["-z", &format!("{whole}s"), &url]);
            }
            Contestant::Oha if pipelined && !http2 => return no_pipelining(),
            Contestant::Oha => {
                command = Command::new(tools.find("oha")?);
                command.args([
                    "--no-tui",
                    "--output-format",
                    "json",
                    "--worker-threads",
                    "1",
                ]);
                if http2 {
                    command.args(["--http2", "-p", &depth]);
                }
                if speaks.is_secure() {
                    command.arg("--insecure");
                }
                command.args(["-c", &connections, "-z", &format!("{whole}s")]);
                match is_of_mixes {
                    true => command
                        .arg("--urls-from-file")
                        .arg(tools.mix_of_urls(address)?),
                    false => command.arg(&url),
                };
            }
            Contestant::K6 => {
                command = Command::new(tools.find("k6")?);
                command
                    .env("GOMAXPROCS", "1")
                    .args(["run", "--quiet", "--no-usage-report"]);
                for (name, value) in [
                    ("TERMS", mixes.join("terms.csv").display().to_string()),
                    ("SECONDS", whole.clone()),
                    ("VUS", connections.clone()),
                    ("DEPTH", depth.clone()),
                    ("ORIGIN", format!("{scheme}://{address}")),
                ] {
                    command.args(["-e", &format!("{name}={value}")]);
                }
                command.arg(mixes.join("ten.js"));
            }
            Contestant::Vegeta => {
                let vegeta = tools.find("vegeta")?;
                let targets = tools.mix_of_targets(address)?;
                command = Command::new("sh");
                command.env("GOMAXPROCS", "1").args(["-c", "\"$0\" attack -targets \"$1\" -rate 0 -max-workers \"$2\" -workers \"$2\" -connections \"$2\" -duration \"$3\" | \"$0\" report -type json"]);
                command
                    .arg(vegeta)
                    .arg(targets)
                    .args([&connections, &format!("{whole}s")]);
            }
            Contestant::Ghz => {
                command = Command::new(tools.find("ghz")?);
                let workers = (scenario.connections * scenario.depth).to_string();
                command.args(["--insecure", "--cpus", "1", "-O", "json"]);
                command.arg("--proto").arg(tools.proto());
                command.args(["--call", scenario.path.trim_start_matches('/')]);
                command.args(["-d", &message_as_json(), "-z", &format!("{whole}s")]);
                command.args(["-c", &workers, "--connections", &connections]);
                command.arg(address.to_string());
            }
            Contestant::Autocannon => {
                command = Command::new(tools.find("node")?);
                command.arg(tools.autocannon()?);
                command.args(["--json", "-c", &connections, "-p", &depth]);
                command.args(["-d", &whole, &url]);
            }
        }
        Ok(command)
    }

    /// Whether it sends one request where others send mixes: what the same load costs without a mix, and without a tool.
    fn stands_beside_mixes(self) -> bool {
        [
            Contestant::WallfinderFixed,
            Contestant::NULL_EPOLL,
            Contestant::NULL_URING_8,
        ]
        .contains(&self)
    }

    fn sends_mixes(self) -> bool {
        matches!(
            self,
            Contestant::Wallfinder
                | Contestant::Wrk
                | Contestant::Oha
                | Contestant::K6
                | Contestant::Vegeta
        )
    }

    fn can_speak(self, protocol: Speaks) -> bool {
        let ours = matches!(
            self,
            Contestant::Wallfinder
                | Contestant::WallfinderDefaults
                | Contestant::WallfinderFixed
                | Contestant::Engine
                | Contestant::EngineEpoll
        );
        let multiplexes = matches!(self, Contestant::H2load | Contestant::Shb | Contestant::Oha);
        match protocol {
            Speaks::Http1 => self != Contestant::Ghz,
            Speaks::Http2 => ours || multiplexes || matches!(self, Contestant::Null { .. }),
            Speaks::Framed => ours || matches!(self, Contestant::Null { .. }),
            Speaks::Grpc => ours || matches!(self, Contestant::H2load | Contestant::Ghz),
            Speaks::Http2Tls => ours || matches!(self, Contestant::Oha | Contestant::K6),
            // The null client sends bytes, and whether shb takes any certificate it does not say.
            Speaks::Https => !matches!(
                self,
                Contestant::Null { .. } | Contestant::Shb | Contestant::Ghz
            ),
        }
    }

    /// Reads its standard output.
    pub fn read(self, stdout: &str) -> Result<Tally, Unreadable> {
        match self {
            Contestant::Wallfinder
            | Contestant::WallfinderDefaults
            | Contestant::WallfinderFixed => outputs::wallfinder(stdout),
            Contestant::Engine | Contestant::EngineEpoll | Contestant::Null { .. } => {
                outputs::own(stdout)
            }
            Contestant::Wrk => outputs::wrk(stdout),
            Contestant::H2load => outputs::h2load(stdout),
            Contestant::Shb => outputs::shb(stdout),
            Contestant::Oha => outputs::oha(stdout),
            Contestant::Autocannon => outputs::autocannon(stdout),
            Contestant::Ghz => outputs::ghz(stdout),
            Contestant::K6 => outputs::k6(stdout),
            Contestant::Vegeta => outputs::vegeta(stdout),
        }
    }

    /// What it says its version is.
    pub fn version(self, tools: &Tools) -> Option<String> {
        let mut command = match self {
            Contestant::Wrk => Command::new(tools.find("wrk").ok()?),
            Contestant::H2load => Command::new(tools.find("h2load").ok()?),
            Contestant::Oha => Command::new(tools.find("oha").ok()?),
            Contestant::Ghz => Command::new(tools.find("ghz").ok()?),
            Contestant::K6 => Command::new(tools.find("k6").ok()?),
            Contestant::Autocannon => {
                let mut command = Command::new(tools.find("node").ok()?);
                command.arg(tools.autocannon().ok()?);
                command
            }
            // shb does not tell; install-peers.sh fixes the version.
            _ => return None,
        };
        // wrk answers on either stream, with a failure.
        let output = command.arg("--version").output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Some(text.lines().next()?.trim().to_owned())
    }
}

/// Where programs are.
#[derive(Debug, Clone)]
pub struct Tools {
    /// This program, which is also the null client and the engine alone.
    pub this: PathBuf,
    /// The folder of this crate: our script for wrk, and what `install-peers.sh` installs.
    pub bench: PathBuf,
    /// The `wallfinder` binary, if it was named.
    pub wallfinder: Option<PathBuf>,
    /// Where clients run.
    pub client_cpu: Option<u32>,
}

impl Tools {
    /// The description of the echo's method.
    fn proto(&self) -> PathBuf {
        self.bench.join("../subjects/go/echo/payload/echo.proto")
    }

    /// A file with the message of framed scenarios, or of gRPC, which has a prefix.
    fn message(&self, bytes: &[u8]) -> Result<PathBuf, String> {
        let name = format!("results/message-{}.bin", bytes.len());
        let file = self.bench.join(name);
        let written = std::fs::create_dir_all(file.with_file_name(""))
            .and_then(|()| std::fs::write(&file, bytes));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// The mix of `mixes/ten.toml` as a list: each route as often as its weight has it, with each of ten terms.
    fn mix(&self, address: SocketAddr) -> Result<Vec<String>, String> {
        let file = self.bench.join("mixes/terms.csv");
        let terms = std::fs::read_to_string(&file);
        let terms = terms.map_err(|error| format!("{}: {error}", file.display()))?;
        let terms: Vec<&str> = terms.lines().skip(1).take(10).collect();
        let routes = (0..10).flat_map(|route| std::iter::repeat_n(route, 10 - route));
        let urls = routes.flat_map(|route| {
            let of = move |term: &&str| format!("http://{address}/simple?r={route}&q={term}");
            terms.iter().map(of).collect::<Vec<String>>()
        });
        Ok(urls.collect())
    }

    fn mix_of_urls(&self, address: SocketAddr) -> Result<PathBuf, String> {
        self.write("mix.urls", &self.mix(address)?.join("\n"))
    }

    fn mix_of_targets(&self, address: SocketAddr) -> Result<PathBuf, String> {
        let targets = self
            .mix(address)?
            .into_iter()
            .map(|url| format!("GET {url}\n"));
        self.write("mix.targets", &targets.collect::<String>())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.bench.join("results").join(name);
        let written = std::fs::create_dir_all(file.with_file_name(""))
            .and_then(|()| std::fs::write(&file, text));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// A program of `.peers`, of the path, or of the system's folder of servers.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, String> {
        let local = self.bench.join(".peers/bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::iter::once(local)
            .chain(std::env::split_paths(&path))
            .chain([PathBuf::from("/usr/sbin")])
            .map(|folder| folder.join(name))
            .find(|file| is_program(file))
            .ok_or_else(|| format!("`{name}` is not installed; see bench/install-peers.sh"))
    }

    fn autocannon(&self) -> Result<PathBuf, String> {
        let script = self.bench.join("node_modules/autocannon/autocannon.js");
        match script.exists() {
            true => Ok(script),
            false => Err("`autocannon` is not installed; see bench/install-peers.sh".into()),
        }
    }

    /// The binary that was named, or the one that stands beside this one, if it can run.
    fn wallfinder(&self) -> Result<PathBuf, String> {
        let beside = self.this.with_file_name("wallfinder");
        let binary = self.wallfinder.clone().unwrap_or(beside);
        let help = Command::new(&binary).args(["run", "--help"]).output();
        match help {
            Ok(output) if output.status.success() && !output.stdout.is_empty() => Ok(binary),
            _ => Err(format!(
                "{} cannot `run`; build it with `cargo build --release -p wallfinder`",
                binary.display()
            )),
        }
    }
}

/// [`MESSAGE`] as gRPC sends it: not compressed, and behind its length.
fn prefixed() -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(MESSAGE.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&MESSAGE);
    bytes
}

/// [`MESSAGE`] as those take it who encode it themselves.
fn message_as_json() -> String {
    let data = base64::engine::general_purpose::STANDARD.encode([b'x'; 64]);
    format!(r#"{{"id":"1","data":"{data}"}}"#)
}

fn is_program(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    #[test]
    fn everyone_has_a_name_of_their_own() {
        let mut names: Vec<_> = Contestant::ALL.map(Contestant::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Contestant::ALL.len());
    }

    #[test]
    fn whoever_is_aimed_at_races() {
        for aim in SCENARIOS.iter().flat_map(|scenario| scenario.aims) {
            assert!(Contestant::ALL.contains(&aim.against));
        }
    }

    #[test]
    fn who_is_missing_says_how_to_come() {
        let tools = Tools {
            this: "/nowhere/this".into(),
            bench: "/nowhere".into(),
            wallfinder: None,
            client_cpu: None,
        };
        let address = "127.0.0.1:80".parse().unwrap();
        let command = |who: Contestant| who.command(&tools, &SCENARIOS[0], address, 1.0);
        for who in [Contestant::Autocannon, Contestant::Wallfinder] {
            if let Err(why) = command(who) {
                assert!(why.contains("install") || why.contains("build"), "{why}");
            }
        }
        assert!(command(Contestant::NULL_EPOLL).is_ok());
        assert!(command(Contestant::NULL_EPOLL_ALL).is_err());
    }
}
