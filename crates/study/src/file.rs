//! The study file as it is written: TOML, every key known, every value with its place.
//!
//! Meaning is checked in [`crate::study`]; here stands the shape alone.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use wallfinder_model::traffic::Traffic;

/// Version of the shape below.
pub(crate) const SCHEMA: &str = "wallfinder.study/1";

/// A study.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct StudyFile {
    /// Version of the file's shape: `wallfinder.study/1`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) schema: Spanned<String>,
    /// Short name: lower case letters, digits and hyphens.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) id: Spanned<String>,
    /// One line.
    pub(crate) title: String,
    /// The document whose experiment this is.
    pub(crate) source: String,
    /// What is to be found out.
    pub(crate) question: String,
    /// How.
    pub(crate) method: String,
    /// Groups that answer the same question in different ways: the report says which of them
    /// is best in each cell, by how much, and where that changes.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) rivals: Vec<Spanned<String>>,
    /// What the two sides may use.
    #[serde(default)]
    pub(crate) machine: MachineFile,
    /// Servers that are started for the study.
    #[serde(rename = "subject")]
    pub(crate) subjects: Vec<SubjectFile>,
    /// What produces load.
    #[serde(rename = "driver")]
    pub(crate) drivers: Vec<DriverFile>,
    /// Steps that belong together: one ramp for each driver.
    #[serde(rename = "group")]
    pub(crate) groups: Vec<GroupFile>,
    /// Sentences that the data may confirm or contradict.
    #[serde(rename = "claim", default)]
    pub(crate) claims: Vec<ClaimFile>,
    /// Pictures of its numbers.
    #[serde(rename = "chart", default)]
    pub(crate) charts: Vec<ChartFile>,
}

/// What the two sides may use.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// Processors of the server.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub(crate) server_cpus: Spanned<u32>,
    /// Processors of the client, and workers of the engine.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub(crate) client_cpus: Spanned<u32>,
    /// The host that servers are started on, `ssh://user@host`; left out: this one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) server_host: Option<Spanned<String>>,
    /// By which address the load reaches it; left out: by the host's name.
    pub(crate) server_address: Option<String>,
    /// The host that the engine drives its load on, `ssh://user@host`; left out: this one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) client_host: Option<Spanned<String>>,
    /// Further hosts that it is driven on: they make one load together.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) more_client_hosts: Vec<Spanned<String>>,
    /// How ssh is called, such as `ssh -F lab/config`.
    pub(crate) ssh: Option<String>,
}

impl Default for MachineFile {
    fn default() -> MachineFile {
        MachineFile {
            server_cpus: one(),
            client_cpus: one(),
            server_host: None,
            server_address: None,
            client_host: None,
            more_client_hosts: Vec::new(),
            ssh: None,
        }
    }
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

fn yes() -> bool {
    true
}

/// A server that is started for the study.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SubjectFile {
    /// Short name, for groups to refer to.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) name: Spanned<String>,
    /// Command and arguments; the first may name a subject that comes with the tool.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) command: Spanned<Vec<String>>,
    /// Port it listens on.
    #[cfg_attr(feature = "schema", schemars(with = "u16"))]
    pub(crate) port: Spanned<u16>,
    /// Environment variables added to its own.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Whether it may run on every processor, the client's among them: what is shared can be
    /// profiled, and not squeezed.
    #[serde(default)]
    pub(crate) everywhere: bool,
    /// Whether it serves TLS, as its command has to ask for. Its certificate is its own, and believed.
    #[serde(default)]
    pub(crate) tls: bool,
    /// Quota in cores, below its processors.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub(crate) quota_cores: Option<Spanned<f64>>,
    /// A link between it and the client, in network namespaces of their own: `1gbit`,
    /// `200mbit,mtu=9001,delay=10ms`. Takes root.
    #[serde(default)]
    pub(crate) link: Option<String>,
    /// Groups of subjects before this one. The rate of `link`, spelt `between`, is then the
    /// geometric mean of what they fill of their links: `link = "between,mtu=9001"`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) link_between: Vec<Spanned<String>>,
}

/// What produces load.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DriverFile {
    /// Short name, for runs and claims to refer to: `engine`, or a foreign load generator's
    /// own, such as `autocannon`, `wrk`, `h2load`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) name: Spanned<String>,
    /// The foreign load generator, where the name is not its own.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) program: Option<Spanned<String>>,
    /// Arguments added to a foreign driver's command line.
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    /// Environment variables added to a foreign driver's own.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Whether a foreign driver may run on every processor, the server's among them: a runtime that
    /// finds one processor schedules otherwise than one that finds several.
    #[serde(default)]
    pub(crate) everywhere: bool,
}

/// Steps that belong together.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupFile {
    /// Short name, for claims to refer to.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) id: Spanned<String>,
    /// Name of the subject.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) subject: Spanned<String>,
    /// The part of the study that it belongs to: run only where that is asked for (`--with`).
    #[serde(default)]
    pub(crate) part: Option<String>,
    /// `http1`, `http2`, `grpc`, `framed-credit`, or `framed`: messages behind their length, four bytes,
    /// big-endian. `http1` where left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) speaks: Option<Spanned<String>>,
    /// Path, with a query where wanted; of gRPC the method, `/package.Service/Method`.
    /// Framed messages have none.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) path: Option<Spanned<String>>,
    /// What is sent in the place of one request, as a traffic file has it: of HTTP and the engine. Files that it names stand
    /// beside the study's.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Traffic>"))]
    pub(crate) traffic: Option<Spanned<Traffic>>,
    /// Header fields of the request, `Name: value`; of HTTP alone.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) headers: Vec<Spanned<String>>,
    /// Which compressed bodies the engine decodes: `none`, `check` (the first of each
    /// connection) or `inflate` (all). `none` where left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) decode: Option<Spanned<String>>,
    /// Short for `decode = "inflate"`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "bool"))]
    pub(crate) inflate: Option<Spanned<bool>>,
    /// Requests in flight on each connection.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub(crate) pipeline: Option<Spanned<u32>>,
    /// Clients that share a connection, over HTTP/2 and gRPC: 1 where left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub(crate) clients_per_connection: Option<Spanned<u32>>,
    /// What is run, at which sizes.
    #[serde(rename = "run")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RunFile>"))]
    pub(crate) runs: Spanned<Vec<RunFile>>,
}

/// A ramp for each of its drivers.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFile {
    /// `smoke`, `demo`, `full`.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) sizes: Vec<Spanned<String>>,
    /// Names of drivers.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) drivers: Vec<Spanned<String>>,
    /// Bytes of data in each request: the message of the echo subjects, by POST over HTTP.
    /// Every step is run with each. Left out: nothing is sent, by GET.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<u32>"))]
    pub(crate) payload: Vec<Spanned<u32>>,
    /// Connections of each step. Either these or `clients`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<u32>>"))]
    pub(crate) connections: Option<Spanned<Vec<Spanned<u32>>>>,
    /// Clients of each step, with one request at a time each.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<u32>"))]
    pub(crate) clients: Vec<Spanned<u32>>,
    /// Requests of each client after the warm-up: the window is then as long as they take,
    /// and `window` the longest that it may.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub(crate) requests: Option<Spanned<u32>>,
    /// How often the run is repeated: 1 where left out. A round runs everything of a size
    /// once, with subjects started anew, before the next begins.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub(crate) rounds: Option<Spanned<u32>>,
    /// Whether the engine's requests are kept one by one, in Parquet.
    #[serde(default)]
    pub(crate) samples: bool,
    /// Whether the server's profiles are captured within the engine's windows, of whole seconds.
    /// The subject must offer them (`--pprof 0`).
    #[serde(default)]
    pub(crate) profiles: bool,
    /// What the kernel is to tell of both sides within the window: `stacks` that it samples, `waits` of
    /// threads, system `calls` by name, `counters` of processors. Takes root.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) kernel: Vec<Spanned<String>>,
    /// Squeezes every resource in reach at each of the engine's steps, with so much effort:
    /// `quick`, `normal`, `thorough`. The verdict is then theirs.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) squeeze: Option<Spanned<String>>,
    /// Requests of the engine's in flight over all connections at the most: the others wait
    /// in turn.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub(crate) max_in_flight: Option<Spanned<u32>>,
    /// Quota in cores of what drives the load: a weak client. Takes root.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub(crate) client_quota: Option<Spanned<f64>>,
    /// Rates of an open loop, such as `10k`: each connection count with each rate. Left
    /// out: a closed loop.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) rates: Vec<Spanned<String>>,
    /// Not measured at the start: `500ms`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) warmup: Spanned<String>,
    /// Measured: `5s`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) window: Spanned<String>,
    /// Total deadline of a request: `10s` where left out.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) timeout: Option<Spanned<String>>,
    /// Whether the engine's own ceiling is measured beside each of its steps.
    #[serde(default)]
    pub(crate) calibrate: bool,
}

/// A sentence that the data may confirm or contradict.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimFile {
    /// Short name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) id: Spanned<String>,
    /// The claim in words; `{driver}` where there is one for each driver.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) claim: Spanned<String>,
    /// Where it was made.
    pub(crate) source: String,
    /// The part of the study whose groups it is about.
    #[serde(default)]
    pub(crate) part: Option<String>,
    /// Drivers: the claim is judged once for each, and `driver` is its name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) for_each: Vec<Spanned<String>>,
    /// Whether steps that others on the machine disturbed leave it open. Costs per request
    /// bear company; throughputs do not.
    #[serde(default = "yes")]
    pub(crate) calm: bool,
    /// Figures of the source by name. A claim that has some is decided by them alone, and may not look at
    /// steps; one that has none has to.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, Figure>"))]
    pub(crate) figures: BTreeMap<Spanned<String>, Figure>,
    /// Names for expressions that the conditions share.
    #[serde(default, rename = "let")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    pub(crate) lets: BTreeMap<Spanned<String>, Spanned<String>>,
    /// What has to be there for the claim to be decided, such as a second client host. Where it is false the claim
    /// is open for lack of it, and `because` says of what.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(crate) needs: Option<Spanned<String>>,
    /// A condition that supports the claim.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) confirmed: Spanned<String>,
    /// A condition that speaks against it; never true together with the other.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) contradicted: Spanned<String>,
    /// The numbers that decide, with `{expression}` and `{expression | format}`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) because: Spanned<String>,
}

/// A number of the source, or a column of its table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Figure {
    /// One number.
    One(f64),
    /// Several, in the order of the source.
    Several(Vec<f64>),
}

/// Bars on the left axis, areas on the right one, for each category.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ChartFile {
    /// What it shows; `{driver}` and `{payload}` where there is one for each.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) title: Spanned<String>,
    /// One for each of these drivers; `driver` is its name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(crate) for_each: Vec<Spanned<String>>,
    /// One for each of these payloads; `payload` is its bytes.
    #[serde(default)]
    pub(crate) payloads: Vec<u32>,
    /// What stands on the horizontal axis.
    pub(crate) categories: Vec<String>,
    /// What bars count.
    pub(crate) bars_unit: String,
    /// Bars, beside each other.
    pub(crate) bars: Vec<SeriesFile>,
    /// What areas count.
    #[serde(default)]
    pub(crate) areas_unit: String,
    /// Areas, behind the bars.
    #[serde(default)]
    pub(crate) areas: Vec<SeriesFile>,
}

/// A number for each category.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesFile {
    /// What it is of.
    pub(crate) name: String,
    /// An expression of `category`. What was not measured is left out.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) value: Spanned<String>,
}

/// The JSON Schema of study files, for editors.
#[cfg(feature = "schema")]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(StudyFile)
}
