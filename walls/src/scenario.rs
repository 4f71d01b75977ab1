//! What a labelled scenario consists of.

use std::path::Path;

use wallfinder_model::Detail;
use wallfinder_model::verdict::Wall;

use crate::clients::SlowedBy;

/// A load whose wall is known.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// In kebab case; `--only` looks for parts of it.
    pub name: &'static str,
    /// The server.
    pub server: Server,
    /// `--link`, where there is one.
    pub link: Option<&'static str>,
    /// `http` or `grpc`.
    pub scheme: &'static str,
    /// The path under load.
    pub path: &'static str,
    /// Other flags of `find`: how much load, quotas, a driver. `{bin}` is the folder of the subjects, `{echo}` the
    /// file that defines the bundled echo's calls, `{kilobyte}` a call's request of a thousand bytes, `{mixes}` the folder of traffic files. Split at spaces; what stands in single quotes is one word.
    pub flags: &'static str,
    /// Processors of the server; the client has processor 1.
    pub server_cpus: &'static str,
    /// A process beside the server, on its processors.
    pub beside: Option<&'static str>,
    /// One beside the client, on its own.
    pub beside_client: Option<&'static str>,
    /// What slows one of several client hosts.
    pub slow_client: Option<SlowedBy>,
    /// What must come out.
    pub expect: Expect,
    /// A word of the function or the part of the runtime behind the wall, which what is seen inside
    /// the server should hold.
    pub function: Option<&'static str>,
    /// The rates, least and most, in answers per second, between which the label holds:
    /// arithmetic, not experience. Outside, the build does not do what it says.
    pub rate: Option<(f64, f64)>,
    /// A file of the project, got by `make drivers`, without which it is left out.
    pub needs: Option<&'static str>,
    /// How to take the wall away, to see which is the next.
    pub lift: Option<Lift>,
    /// Requests of its mix that are held alone too, by their names in it and their paths, to know what they take.
    pub alone: &'static [(&'static str, &'static str)],
}

impl Scenario {
    /// Whether `find` is to look inside the server.
    pub fn looks_inside(&self) -> bool {
        let is_of_functions = |check: &Check| matches!(check, Check::Together(_));
        let checks = match self.expect {
            Expect::Wall { checks, .. } => checks,
            Expect::NoEffect => &[],
        };
        self.function.is_some() || checks.iter().any(is_of_functions)
    }

    /// Why it cannot be run, where something of the project's folder is not there.
    pub fn missing(&self, root: &Path) -> Option<String> {
        let needed = self.needs.filter(|needed| !root.join(needed).is_file())?;
        Some(format!("{needed} is not there; `make drivers` gets it"))
    }
}

/// Who is under load.
#[derive(Debug, Clone, Copy)]
pub enum Server {
    /// A command that the tool starts itself, as `--subject`.
    Subject(&'static str),
    /// One that stands when the tool comes.
    Ordinary(Ordinary),
}

impl Server {
    /// Its command.
    pub const fn command(&self) -> &'static str {
        match self {
            Server::Subject(command) => command,
            Server::Ordinary(server) => server.command,
        }
    }
}

/// A server that everybody has, and its settings. In its commands `{folder}` is the folder
/// with its file, and `{bin}` that of the subjects.
#[derive(Debug, Clone, Copy)]
pub struct Ordinary {
    /// The program, looked for where programs are.
    pub program: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
    /// How it is started, in the foreground.
    pub command: &'static str,
    /// Its configuration: name and text.
    pub file: (&'static str, &'static str),
    /// A process behind it, to be squeezed apart from it.
    pub backend: Option<Behind>,
    /// Whether the tool is told of that process, or has to find it.
    pub backend_is_named: bool,
}

/// A process behind a server.
#[derive(Debug, Clone, Copy)]
pub struct Behind {
    /// How it is started, in the foreground.
    pub command: &'static str,
    /// Its processors.
    pub cpus: &'static str,
}

/// What must come out of a scenario.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// One of these walls. What `detail` says of what it is made of counts apart.
    Wall {
        /// Labels that are right; the first is the label proper.
        walls: &'static [Wall],
        /// What it is made of.
        detail: Option<fn(&Detail) -> bool>,
        /// Numbers that must be right as well.
        checks: &'static [Check],
    },
    /// Nothing was squeezed: no wall may be named from squeezes.
    NoEffect,
}

/// A number that must be within bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// An elasticity, by its key in the verdict.
    Elasticity {
        /// Such as `in-flight`.
        squeeze: &'static str,
        /// Least.
        low: f64,
        /// Most.
        high: f64,
    },
    /// The 99th percentile of latency from the intended instant, at the least.
    P99AtLeastMs(f64),
    /// A wall that is named is not said to be proved: the throughput that it rests on does not stay.
    Unproved,
    /// A request's share of the wall, to a tenth of it.
    Share {
        /// The request.
        name: &'static str,
        /// Of what.
        of: Of,
        /// The share that it has by arithmetic, 0..1.
        truth: f64,
    },
    /// What one request takes of the server's processors more than another does, to a tenth and the intervals of both.
    Added {
        /// The one.
        name: &'static str,
        /// The other.
        over: &'static str,
        /// So much more, in microseconds.
        us: f64,
    },
    /// The requests that cost each other: these pairs, and no others.
    Pairs(&'static [[&'static str; 2]]),
    /// This function, or one with this word in its name, is told of requests that cost each other; the server is looked
    /// into.
    Together(&'static str),
}

/// What a wall is made of, of which requests have shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The server's CPU time.
    Server,
    /// Bytes of answers.
    Bytes,
    /// The time for which requests are held.
    Held,
    /// The CPU time of what the server asks.
    Backend,
}

/// The same scenario without its wall: what is named takes the place of what it had.
#[derive(Debug, Clone, Copy)]
pub struct Lift {
    /// The server's command.
    pub subject: Option<&'static str>,
    /// The link.
    pub link: Option<&'static str>,
    /// The load.
    pub flags: Option<&'static str>,
    /// What is held against the rate that then comes.
    pub told: Told,
}

/// What was told of a change before it was made.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// The ceiling of the wall that then binds.
    Next(Wall),
    /// The throughput where this request of a mix takes half as much of what the wall is made of.
    Half(&'static str),
}

impl Lift {
    /// Lifted by another server.
    pub const fn by_subject(subject: &'static str, next: Wall) -> Option<Lift> {
        Some(Lift {
            subject: Some(subject),
            link: None,
            flags: None,
            told: Told::Next(next),
        })
    }

    /// By another link.
    pub const fn by_link(link: &'static str, next: Wall) -> Option<Lift> {
        Some(Lift {
            subject: None,
            link: Some(link),
            flags: None,
            told: Told::Next(next),
        })
    }

    /// By another load.
    pub const fn by_flags(flags: &'static str, next: Wall) -> Option<Lift> {
        Some(Lift {
            subject: None,
            link: None,
            flags: Some(flags),
            told: Told::Next(next),
        })
    }

    /// By a mix in which this request is half as dear.
    pub const fn by_half(flags: &'static str, name: &'static str) -> Option<Lift> {
        Some(Lift {
            subject: None,
            link: None,
            flags: Some(flags),
            told: Told::Half(name),
        })
    }

    /// The scenario with its wall lifted.
    pub fn of(&self, scenario: &Scenario) -> Scenario {
        Scenario {
            server: self.subject.map_or(scenario.server, Server::Subject),
            link: self.link.or(scenario.link),
            flags: self.flags.unwrap_or(scenario.flags),
            lift: None,
            ..*scenario
        }
    }
}
