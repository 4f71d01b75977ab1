//! All that a command needs, as data: what is loaded and how, where server and client are, what lies
//! between them, what is watched, and what is varied or squeezed.
//!
//! ```text
//!  flags ──┐
//!          ├─► Scenario ─► testbed, load, probes ─► Record { scenario, … }
//!  file ───┘
//! ```
//!
//! A key is called as the flag of the command line that sets it. A part that belongs to one command alone
//! (`ramp`, `squeeze`, `ab`, `bytes`) is there for that command.
//!
//! What it is not: what was measured, or where. Processors that were not named, an address that was looked
//! up, what TLS agreed on are known when the testbed stands, and are of [`Plan`](crate::Plan).
//!
//! Secrets are references: `env:NAME` or `file:PATH` in the place of a header field's value or of a
//! variable's. In records a value that was given in plain text is `***`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::experiment::Effort;
use crate::plan::{self, Arrival, DRAIN_DEFAULT, Decode};
use crate::profile::ProfileKind;
use crate::traffic::{Scalar, Traffic};
use crate::units::{self, Bytes, Nanos, Rate};

/// Version of the shape below.
pub const SCHEMA: &str = "wallfinder.scenario/1";

/// Our own engine, where a driver is named.
pub const ENGINE: &str = "wallfinder";

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// [`SCHEMA`].
    pub schema: String,
    /// What is loaded, and what is asked of it.
    pub target: Target,
    /// What users send, in the place of the target's one request.
    #[serde(skip_serializing_if = "Traffic::is_empty")]
    pub traffic: Traffic,
    /// How much is asked, and in which pattern.
    pub load: Load,
    /// The server's side.
    #[serde(skip_serializing_if = "is_default")]
    pub server: Server,
    /// The client's side.
    #[serde(skip_serializing_if = "is_default")]
    pub client: Client,
    /// Where agents that dialled out are met.
    #[serde(skip_serializing_if = "is_default")]
    pub hub: Hub,
    /// As whom the subject and the driver run, and what they are given.
    #[serde(skip_serializing_if = "is_default")]
    pub programs: Programs,
    /// What lies between the two sides.
    #[serde(skip_serializing_if = "is_default")]
    pub link: Link,
    /// What is watched.
    #[serde(skip_serializing_if = "is_default")]
    pub watch: Watch,
    /// What has to hold at the end.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: Expect,
    /// Which loads `ramp` holds, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Ramp>,
    /// What `find` squeezes, and what it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub squeeze: Option<Squeeze>,
    /// What `ab` compares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ab: Option<Ab>,
    /// Which answers `bytes` asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Answers>,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            schema: SCHEMA.to_owned(),
            target: Target::default(),
            traffic: Traffic::default(),
            load: Load::default(),
            server: Server::default(),
            client: Client::default(),
            hub: Hub::default(),
            programs: Programs::default(),
            link: Link::default(),
            watch: Watch::default(),
            expect: Expect::default(),
            ramp: None,
            squeeze: None,
            ab: None,
            bytes: None,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// What is loaded, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Target {
    /// The URL; the host `subject` is the server that is started for the run. For `bytes` it may hold sizes
    /// in braces.
    pub url: String,
    /// Request method.
    pub method: String,
    /// Header fields, or metadata of gRPC, `Name: value`; a value may be `env:NAME` or `file:PATH`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The body, `@FILE`, or `@-` for standard input; JSON for gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// A body of so many bytes in its place.
    #[serde(with = "units::loose_bytes", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub body_bytes: Option<Bytes>,
    /// The message of the echo subjects in its place, with so many bytes of data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo_bytes: Option<u32>,
    /// HTTP/2, by prior knowledge.
    #[serde(skip_serializing_if = "is_false")]
    pub http2: bool,
    /// How messages of tcp:// are framed: `u32be`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Files that describe the method of grpc://.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proto: Vec<PathBuf>,
    /// Folders that their imports are looked for in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proto_path: Vec<PathBuf>,
    /// A `FileDescriptorSet` that describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protoset: Option<PathBuf>,
    /// How long the server of grpc:// is told that it may take.
    #[serde(with = "units::text_or_none", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub deadline: Option<Nanos>,
    /// Each message of a call is sent when the one before it is answered.
    #[serde(skip_serializing_if = "is_false")]
    pub in_turn: bool,
    /// Which coded bodies are decoded.
    #[serde(skip_serializing_if = "is_default")]
    pub decode: Decode,
    /// How long the load waits until the target listens.
    #[serde(with = "units::text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub wait: Nanos,
    /// What is asked of TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub tls: Tls,
}

impl Default for Target {
    fn default() -> Target {
        Target {
            url: String::new(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            body_bytes: None,
            echo_bytes: None,
            http2: false,
            frame: None,
            proto: Vec::new(),
            proto_path: Vec::new(),
            protoset: None,
            deadline: None,
            in_turn: false,
            decode: Decode::None,
            wait: Nanos::from_secs(5),
            tls: Tls::default(),
        }
    }
}

/// What is asked of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Any certificate is believed.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Certificates that those in this file have signed are believed, and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// The name that the server's certificate must be for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The certificate that is shown to a server that asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Groups for the exchange of keys, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_groups: Vec<String>,
    /// This version only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<TlsVersion>,
    /// No connection resumes what an earlier one agreed on.
    #[serde(skip_serializing_if = "is_false")]
    pub no_tls_resumption: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V13,
}

/// How much is asked, and in which pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Connections in all; `None`: as many as the command holds of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Requests in flight on each connection.
    pub pipeline: u32,
    /// Requests in flight over all connections at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Open loop: requests per second in all. `None`: a closed loop.
    #[serde(with = "units::loose_rate", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub rate: Option<Rate>,
    /// The rate grows to this one over the run.
    #[serde(with = "units::loose_rate", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub rate_to: Option<Rate>,
    /// Exponential gaps between requests.
    #[serde(skip_serializing_if = "is_false")]
    pub poisson: bool,
    /// Pause between an answer and the next request of a closed loop.
    #[serde(with = "units::text", skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub think: Nanos,
    /// Length of the measured window.
    #[serde(with = "units::text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub duration: Nanos,
    /// Not measured at the start.
    #[serde(with = "units::text_or_none", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub warmup: Option<Nanos>,
    /// The load ends with so many requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Total deadline of a request.
    #[serde(with = "units::text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub timeout: Nanos,
    /// How long answers are waited for after the window.
    #[serde(with = "units::text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub drain: Nanos,
    /// A connection for each request.
    #[serde(skip_serializing_if = "is_false")]
    pub no_keepalive: bool,
    /// Each answer is handled as it comes.
    #[serde(skip_serializing_if = "is_false")]
    pub no_batching: bool,
    /// Engine threads; `None`: one for each processor of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// How sockets are waited for.
    #[serde(skip_serializing_if = "is_default")]
    pub io: Io,
    /// Seed of everything drawn at random.
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            connections: None,
            pipeline: 1,
            max_in_flight: None,
            rate: None,
            rate_to: None,
            poisson: false,
            think: Nanos(0),
            duration: Nanos::from_secs(10),
            warmup: None,
            requests: None,
            timeout: Nanos::from_secs(10),
            drain: DRAIN_DEFAULT,
            no_keepalive: false,
            no_batching: false,
            threads: None,
            io: Io::Auto,
            seed: 1,
        }
    }
}

impl Load {
    /// What is not measured at the start, in so many words or by the length of the window. A counted load is
    /// counted from its first request.
    pub fn warmup(&self) -> Nanos {
        let by_duration = Nanos((self.duration.0 / 20).clamp(300_000_000, 5_000_000_000));
        let default = match self.requests {
            Some(_) => Nanos(0),
            None => by_duration,
        };
        self.warmup.unwrap_or(default)
    }

    /// When requests start.
    pub fn arrival(&self) -> Arrival {
        match (self.rate, self.rate_to, self.poisson) {
            (None, _, _) => Arrival::Closed { think: self.think },
            (Some(from), Some(to), _) => Arrival::Ramp {
                from,
                to,
                over: Nanos(self.duration.0 + self.warmup().0),
            },
            (Some(rate), None, true) => Arrival::Poisson { rate },
            (Some(rate), None, false) => Arrival::Constant { rate },
        }
    }

    /// As a load that was planned has it, the number of threads left open.
    pub fn of(load: &plan::Load, seed: u64) -> Load {
        let (rate, rate_to, poisson, think) = match load.arrival {
            Arrival::Closed { think } => (None, None, false, think),
            Arrival::Constant { rate } => (Some(rate), None, false, Nanos(0)),
            Arrival::Poisson { rate } => (Some(rate), None, true, Nanos(0)),
            Arrival::Ramp { from, to, .. } => (Some(from), Some(to), false, Nanos(0)),
            // The log says when.
            Arrival::Replay { .. } => (None, None, false, Nanos(0)),
        };
        Load {
            connections: Some(load.connections),
            pipeline: load.in_flight_per_connection,
            max_in_flight: load.max_in_flight,
            rate,
            rate_to,
            poisson,
            think,
            duration: load.stop.after,
            warmup: Some(load.warmup),
            requests: load.stop.requests,
            timeout: load.timeout,
            drain: load.drain,
            no_keepalive: load.connection_per_request,
            no_batching: load.no_batching,
            threads: None,
            io: Io::Auto,
            seed,
        }
    }
}

/// How sockets are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// What the kernel has.
    #[default]
    Auto,
    /// By io_uring.
    Uring,
    /// By epoll.
    Epoll,
}

/// The server's side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The command of a server that is started for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// Its quota, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// The process of a server that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The folder of its control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// Processes behind the server, squeezed apart from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_pid: Vec<u32>,
    /// The host that it is on, where that is another: `ssh://user@host`, or the name of an agent at the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Hosts on which the same server answers for that address as well, behind who deals requests out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_hosts: Vec<String>,
    /// The host of what it asks in turn, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_host: Option<String>,
    /// How ssh is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
}

/// The client's side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Client {
    /// The command of another load generator; [`ENGINE`], or none: ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Processors of the workers, or of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// Its quota, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// The network namespace that the load is made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The host that it comes from, where that is another: `ssh://user@host`, or the name of an agent at the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Further hosts that it comes from: the load is dealt to all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_hosts: Vec<String>,
    /// What is done about one of several that is lost.
    #[serde(skip_serializing_if = "is_default")]
    pub on_lost: OnLostClient,
    /// How the load is dealt to several.
    #[serde(skip_serializing_if = "is_default")]
    pub deal: Deal,
    /// How ssh is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// The control group that it is made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

/// What is done about a client host of several that is lost during a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnLostClient {
    /// The others go on to the end of the step, which is marked; the run ends with it.
    #[default]
    Mark,
    /// The same, and later steps are dealt to those that are left.
    Rebalance,
    /// The load ends at once, and the run with it.
    Abort,
}

/// How a load is dealt to several client hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Deal {
    /// As much to each.
    #[default]
    Even,
    /// In proportion to what each can drive at most, which is measured before the first load.
    ByCeiling,
}

/// Where agents that dialled out are met, and who asks for them there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Hub {
    /// The file of a controller's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creds: Option<PathBuf>,
    /// Where a cluster of NATS is reached, where the credentials do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nats: Option<String>,
}

/// As whom programs run that are started for a run, and what they are given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Programs {
    /// The user.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_user: Option<String>,
    /// Variables, `NAME` or `NAME=VALUE`; a value may be `env:NAME` or `file:PATH`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

/// What lies between the two sides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// A link that is laid for the run: `1gbit,delay=10ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lay: Option<String>,
    /// An interface that stands and may be squeezed on the way from server to client: `[NETNS/]IFACE[,RATE]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downlink_dev: Option<String>,
    /// The same on the way from client to server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink_dev: Option<String>,
}

/// What is watched, beside telemetry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// The engine's own ceiling is not measured.
    #[serde(skip_serializing_if = "is_false")]
    pub no_calibrate: bool,
    /// Every request is kept.
    #[serde(skip_serializing_if = "is_false")]
    pub samples: bool,
    /// Where the server offers Go's profiles: `HOST:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pprof: Vec<String>,
    /// `find` does not look inside the server.
    #[serde(skip_serializing_if = "is_false")]
    pub no_inside: bool,
    /// `profile`: stacks that the kernel samples.
    #[serde(skip_serializing_if = "is_false")]
    pub stacks: bool,
    /// `profile`: system calls by name.
    #[serde(skip_serializing_if = "is_false")]
    pub calls: bool,
    /// `profile`: the client as well.
    #[serde(skip_serializing_if = "is_false")]
    pub client: bool,
    /// `profile`: these kinds of Go's profiles alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ProfileKind>,
    /// `profile`: the trace of Go's runtime too.
    #[serde(skip_serializing_if = "is_false")]
    pub trace: bool,
    /// `profile`: a file that says what names of functions mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<PathBuf>,
}

/// What has to hold at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Conditions, such as `p99<5ms`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threshold: Vec<String>,
    /// `server-bound`, or the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require: Option<String>,
}

/// Which loads `ramp` holds: so many connections each, or at the most of them so many rates or depths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ramp {
    /// Connections of each step.
    pub connections: Vec<u32>,
    /// Open loop: one step for each of these rates.
    #[serde(with = "units::loose_rates", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<f64>"))]
    pub rates: Vec<Rate>,
    /// One step for each of these numbers in flight on a connection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depths: Vec<u32>,
}

impl Default for Ramp {
    fn default() -> Ramp {
        Ramp {
            connections: vec![1, 4, 16, 64, 256],
            rates: Vec::new(),
            depths: Vec::new(),
        }
    }
}

/// What `find` squeezes, and what it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Squeeze {
    /// How much time it may take.
    pub effort: Effort,
    /// Length of each measured window.
    #[serde(with = "units::text_or_none", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub window: Option<Nanos>,
    /// Changes whose effect is predicted, such as `downlink=2`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<String>,
    /// Those that are ours to make are made, and measured.
    #[serde(skip_serializing_if = "is_false")]
    pub lift: bool,
    /// The sham stands in the place of every squeeze.
    #[serde(skip_serializing_if = "is_false")]
    pub null: bool,
}

impl Default for Squeeze {
    fn default() -> Squeeze {
        Squeeze {
            effort: Effort::Normal,
            window: None,
            what_if: Vec::new(),
            lift: false,
            null: false,
        }
    }
}

/// What `ab` compares: the scenario as it is, which is A, and B, which is the same with changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ab {
    /// Rounds; each holds both once.
    pub rounds: u32,
    /// The question is whether B costs at most this share of A's throughput: `0.02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_cost: Option<f64>,
    /// Settings of the host while B is held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<String>,
    /// What looks into B.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<Probe>,
    /// What else differs.
    #[serde(skip_serializing_if = "is_default")]
    pub b: Changes,
}

impl Default for Ab {
    fn default() -> Ab {
        Ab {
            rounds: 8,
            at_most_cost: None,
            tune: Vec::new(),
            observe: Vec::new(),
            b: Changes::default(),
        }
    }
}

/// What another scenario has in the place of this one's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// The URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The URL's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Header fields that are sent as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The subject's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The subject's quota, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_quota: Option<f64>,
    /// The driver, or [`ENGINE`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Requests in flight on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<u32>,
    /// Requests in flight over all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Each answer is handled as it comes.
    #[serde(skip_serializing_if = "is_false")]
    pub no_batching: bool,
    /// Engine threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The subject's processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpus: Option<Vec<u32>>,
}

/// Probes whose cost can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// What every run watches; A then does without.
    Telemetry,
    /// Go's own profiles.
    Go,
    /// The trace of Go's runtime.
    Trace,
    /// Stacks that the kernel samples.
    Stacks,
    /// Where threads wait.
    Waits,
    /// System calls by name.
    Calls,
    /// Events of processors.
    Counters,
    /// Stacks, waits and counters of what makes the load.
    Client,
}

impl Probe {
    /// As it is asked for.
    pub const fn label(self) -> &'static str {
        match self {
            Probe::Telemetry => "telemetry",
            Probe::Go => "go",
            Probe::Trace => "trace",
            Probe::Stacks => "stacks",
            Probe::Waits => "waits",
            Probe::Calls => "calls",
            Probe::Counters => "counters",
            Probe::Client => "client",
        }
    }
}

/// Which answers `bytes` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Answers {
    /// Codings, one at a time.
    pub codings: Vec<String>,
    /// Rounds; each holds every answer once.
    pub rounds: u32,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            codings: vec!["identity".to_owned(), "gzip".to_owned()],
            rounds: 6,
        }
    }
}

/// A value that is named and not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference<'t> {
    /// A variable of the environment.
    Variable(&'t str),
    /// A file, whose last line break is no part of the value.
    File(&'t str),
}

impl Reference<'_> {
    /// `env:NAME` or `file:PATH`; `None`: the text is the value itself.
    pub fn of(text: &str) -> Option<Reference<'_>> {
        let named = |rest: &'_ str| !rest.is_empty();
        let variable = text.strip_prefix("env:").filter(|rest| named(rest));
        let file = text.strip_prefix("file:").filter(|rest| named(rest));
        match (variable, file) {
            (Some(name), _) => Some(Reference::Variable(name)),
            (None, Some(path)) => Some(Reference::File(path)),
            (None, None) => None,
        }
    }
}

impl Scenario {
    /// A text in the place of each that may hold a secret: header fields, variables, bodies, rows, URLs and commands.
    /// `map` is told what it is of, its key, such as `target.headers.0`, and the text.
    pub fn map_telling(&mut self, mut map: impl FnMut(Telling, &str, &str) -> String) {
        let mut each = |kind: Telling, key: &str, text: &mut String| *text = map(kind, key, text);
        each(Telling::Url, "target.url", &mut self.target.url);
        for (nth, header) in self.target.headers.iter_mut().enumerate() {
            each(Telling::Header, &format!("target.headers.{nth}"), header);
        }
        for (key, request) in self.traffic.requests_mut() {
            // A value that is one place, behind a word perhaps, is no secret itself.
            let is_place = |value: &str| {
                let last = value.rsplit(' ').next().unwrap_or_default();
                let inner = last
                    .strip_prefix('{')
                    .and_then(|rest| rest.strip_suffix('}'));
                let is_word = inner.is_some_and(|inner| !inner.contains(['{', '}']));
                is_word && value.split(' ').count() <= 2
            };
            let fields = request.header.iter_mut();
            for (name, value) in fields.filter(|(_, value)| !is_place(value)) {
                let mut text = format!("{name}: {value}");
                let key = format!("traffic.{key}.header.{name}");
                each(Telling::Header, &key, &mut text);
                *value = Telling::Header.value(&text).unwrap_or_default().to_owned();
            }
            for path in request.paths_mut() {
                each(Telling::Url, &format!("traffic.{key}"), path);
            }
            if let Some(body) = &mut request.body {
                each(Telling::Body, &format!("traffic.{key}.body"), body);
            }
            for part in &mut request.multipart {
                if let Some(value) = &mut part.value {
                    each(Telling::Body, &format!("traffic.{key}.multipart"), value);
                }
            }
        }
        for (name, data) in &mut self.traffic.data {
            for (column, value) in data.rows.iter_mut().flatten() {
                if let Scalar::Text(value) = value {
                    let column = format!("{column}: ");
                    let mut text = format!("{column}{value}");
                    let key = format!("traffic.data.{name}.rows");
                    each(Telling::Cell, &key, &mut text);
                    *value = text.strip_prefix(&column).unwrap_or_default().to_owned();
                }
            }
        }
        for (nth, variable) in self.programs.env.iter_mut().enumerate() {
            each(Telling::Variable, &format!("programs.env.{nth}"), variable);
        }
        let mut b = self.ab.as_mut().map(|ab| &mut ab.b);
        let b_headers = b.iter_mut().flat_map(|b| &mut b.headers);
        for (nth, header) in b_headers.enumerate() {
            each(Telling::Header, &format!("ab.b.headers.{nth}"), header);
        }
        let mut texts = vec![
            (Telling::Body, "target.body", &mut self.target.body),
            (Telling::Command, "server.subject", &mut self.server.subject),
            (Telling::Command, "client.driver", &mut self.client.driver),
        ];
        if let Some(b) = b {
            texts.extend([
                (Telling::Url, "ab.b.url", &mut b.url),
                (Telling::Url, "ab.b.path", &mut b.path),
                (Telling::Command, "ab.b.subject", &mut b.subject),
                (Telling::Command, "ab.b.driver", &mut b.driver),
            ]);
        }
        for (kind, key, text) in texts {
            if let Some(text) = text {
                each(kind, key, text);
            }
        }
    }

    /// The driver's command, where it is not our own engine.
    pub fn driver(&self) -> Option<&str> {
        let driver = self.client.driver.as_deref();
        driver.filter(|command| *command != ENGINE)
    }
}

/// What a text may be telling of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// `Name: value`.
    Header,
    /// `NAME=VALUE`.
    Variable,
    /// A request's body, or `@FILE`.
    Body,
    /// A URL, or a path with a query.
    Url,
    /// Another program's command.
    Command,
    /// `column: value`, of a row of data: it refers to nothing.
    Cell,
}

impl Telling {
    /// The value in a header field or a variable.
    pub fn value(self, text: &str) -> Option<&str> {
        let value = match self {
            Telling::Header => text.split_once(':')?.1,
            Telling::Variable => text.split_once('=')?.1,
            Telling::Body | Telling::Url | Telling::Command | Telling::Cell => return None,
        };
        Some(value.trim())
    }

    /// What that refers to, where it is no value itself.
    pub fn reference(self, text: &str) -> Option<Reference<'_>> {
        self.value(text).and_then(Reference::of)
    }
}
