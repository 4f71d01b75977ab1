//! Flags as data: parsed before anything is touched. Short names keep the meaning that
//! most load testers' users have in their fingers.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use wallfinder_model::ProfileKind;
use wallfinder_model::scenario::Hub;
use wallfinder_model::units::{self, Bytes, Nanos, Rate};
use wallfinder_protocol::Grant;

use crate::reach::Network;
use wallfinder_study::Size;
use wallfinder_testbed::lab::HOSTS_MAX;
use wallfinder_testbed::tune::Tuning;

/// What flags are about, in the order that help shows. A heading stands where its first flag does, which may
/// be one that only `--help-all` shows.
mod heading {
    pub(super) const TARGET: &str = "Target";
    pub(super) const LOAD: &str = "Load";
    pub(super) const CLIENT: &str = "Client";
    pub(super) const SERVER: &str = "Server";
    pub(super) const LINK: &str = "Link";
    pub(super) const PROTOCOL: &str = "Protocol and TLS";
    pub(super) const B: &str = "Setting B (what is not given is as for A)";
    pub(super) const WATCHING: &str = "Watching";
    pub(super) const PROOF: &str = "Proof";
    pub(super) const CHECKS: &str = "Checks";
    pub(super) const OUTPUT: &str = "Output";
    pub(super) const GENERAL: &str = "Help and log";
}

/// Load testing that names the wall, and proves it.
#[derive(Debug, Parser)]
#[command(
    name = "wallfinder",
    version = crate::VERSION,
    about,
    long_about = "Wallfinder drives load at a network service, watches client, server and link, and says \
                  which one thing keeps throughput from rising.",
    after_help = "Examples:\n  \
        wallfinder run http://127.0.0.1:8083/simple -c 100 -d 10s\n  \
        wallfinder ramp http://127.0.0.1:8083/read --connections 10,100,1000\n  \
        wallfinder run --subject catalogue http://subject:8083/compute -c 64\n  \
        wallfinder run grpc://127.0.0.1:50051/shop.v1.Orders/Put --proto shop.proto -b '{\"name\": \"x\"}'\n  \
        wallfinder run --driver 'autocannon -c 100 -p 100 {url}' http://127.0.0.1:8083/simple\n\n\
        Exit codes:\n  \
        0 done, 1 could not run or nothing was answered well, 2 bad arguments, 3 a threshold was breached,\n  \
        4 --require did not hold, 130/143 interrupted (the partial record is sealed)",
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) general: GeneralFlags,
}

/// What every command has.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::GENERAL)]
pub(crate) struct GeneralFlags {
    /// Print help.
    #[arg(short = 'h', long, action = ArgAction::Help, global = true)]
    help: Option<bool>,

    /// Print help with every flag.
    #[arg(long, action = ArgAction::HelpLong, global = true)]
    help_all: Option<bool>,

    /// Log decisions on standard error; -vv logs details too. WALLFINDER_LOG takes a filter, such as
    /// debug or wallfinder_testbed=debug.
    #[arg(short = 'v', long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,

    /// Print the version.
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold one load at a target, and say what was the wall.
    Run(RunFlags),
    /// Hold one load after the other, and print one table with its "bound by" column.
    Ramp(RampFlags),
    /// Ramp to the ceiling, squeeze each resource there, and name the wall, proved.
    Find(FindFlags),
    /// Compare two settings of one lever, interleaved, with an interval on the ratio.
    Ab(Box<AbFlags>),
    /// Load answers of several sizes and codings: what bytes cost, and from which size compressing pays.
    #[command(after_help = "The URL may hold sizes in braces, such as \
        'http://subject:8085/realistic/{1k,8k,64k}.txt': quote it, or the shell takes it apart.")]
    Bytes(Box<BytesFlags>),
    /// Run the built-in studies, and judge their claims.
    Study(StudyFlags),
    /// Look inside a server under load: Go's profiles, or stacks that the kernel samples.
    Profile(Box<ProfileFlags>),
    /// Read profiles from files of pprof's format.
    Pprof(PprofFlags),
    /// Judge a record again, and a study's claims.
    Judge(JudgeFlags),
    /// Print a record again, and write its HTML report.
    Report(ReportFlags),
    /// Compare two records step by step, and say where their environments differ.
    Compare(CompareFlags),
    /// Print quantiles of kept requests, exact and with intervals.
    Samples(SamplesFlags),
    /// Find the most that this machine's workers can drive.
    Calibrate(CalibrateFlags),
    /// Say what this machine offers, what is missing, and the way out.
    Doctor(DoctorFlags),
    /// Stand in for this host: watch and squeeze what a controller asks for, as long as it asks.
    Agent(AgentFlags),
    /// Hosts on this machine with an sshd each, to try what is meant for other machines.
    Lab(LabFlags),
    /// Run a hub, at which agents of other hosts meet their controller.
    Hub(HubFlags),
    /// Say what other hosts are, and what can be squeezed there.
    Hosts(HostsFlags),
    /// Make traffic files from what others have: a HAR, an access log, a line of curl, OpenAPI.
    Traffic(TrafficFlags),
    /// Print the JSON Schema of `--format json`, of study, scenario or traffic files.
    Schema(SchemaFlags),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder.
    #[command(hide = true)]
    Man {
        /// The folder, which is there.
        folder: PathBuf,
    },
}

/// What a traffic file is made from.
#[derive(Debug, Args)]
#[command(after_help = TRAFFIC_HELP)]
pub(crate) struct TrafficFlags {
    #[command(subcommand)]
    pub(crate) from: TrafficFrom,
}

const TRAFFIC_HELP: &str = r#"A traffic file is TOML; `wallfinder schema traffic` has every key:

  [data.users]                     # rows: CSV, JSON lines, or a list here
  file = "users.csv"
  order = "random"                 # or "in-order", "once"

  [[request]]                      # chosen by weight
  name = "search"
  weight = 60
  get = "/search?q={users.term}"
  check = { status = 200, body-contains = "results" }

  [[session]]                      # steps in order, on one connection
  name = "buy"
  weight = 5
  steps = [
    { name = "login", post = "/login", body = '{"user": "{users.name}"}', take = { token = "json:/token" } },
    { name = "pay", post = "/pay", header = { authorization = "Bearer {token}" }, think = "exp(300ms)" },
  ]

Examples:
  wallfinder run http://10.0.0.5:8080/ --traffic shop.toml
  wallfinder traffic from-log access.log -o shop.toml
  wallfinder traffic from-curl 'curl -d x=1 http://10.0.0.5:8080/cart'
  wallfinder run http://10.0.0.5:8080/ --replay access.log --speed 2"#;

/// From what.
#[derive(Debug, Subcommand)]
pub(crate) enum TrafficFrom {
    /// From a HAR, as browsers save it: one session of its requests, in order.
    #[command(name = "from-har")]
    Har {
        #[command(flatten)]
        import: ImportFlags,

        /// Write a request for each route, weighted by how often it was asked, in the place of a session: `find` then tells
        /// which of them holds the wall.
        #[arg(long)]
        by_route: bool,

        /// Seed the choice of paths to keep, where a route has more than 1,000.
        #[arg(long, value_name = "N", default_value = "1", requires = "by_route")]
        seed: u64,
    },
    /// From an access log: its routes by how often each was asked, with the paths that were asked.
    #[command(name = "from-log")]
    Log {
        #[command(flatten)]
        import: ImportFlags,

        /// How its lines are written: combined, common, json, or nginx's own, such as '$msec "$request"'.
        #[arg(long, value_name = "FORMAT", default_value = "combined")]
        log_format: String,

        /// Seed of which paths are kept, where there are very many.
        #[arg(long, value_name = "N", default_value = "1")]
        seed: u64,
    },
    /// From a command of curl: quoted as one word, or its words behind `--`.
    #[command(name = "from-curl")]
    Curl {
        /// The command.
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "COMMAND"
        )]
        words: Vec<String>,
    },
    /// From an OpenAPI description, in JSON or YAML: each operation once, with its examples.
    #[command(name = "from-openapi")]
    Openapi(ImportFlags),
}

/// A file that is imported.
#[derive(Debug, Args)]
pub(crate) struct ImportFlags {
    /// Read this file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Write the traffic file here instead of to standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What an agent is started with.
#[derive(Debug, Args)]
#[command(
    after_help = "A controller starts one by itself with --server-host ssh://USER@HOST. To say what it may do, name one \
    in a line of authorized_keys:\n  \
    command=\"wallfinder agent --stdio --grant observe\",restrict ssh-ed25519 AAAA… key\n\
    One that has joined a hub waits for its controllers until it is ended.",
    group(clap::ArgGroup::new("how").required(true).args(["stdio", "join", "stop"]))
)]
pub(crate) struct AgentFlags {
    /// Talk on standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Join the hub of this file of credentials (`hub invite` writes one; `-`: standard input), and wait for controllers.
    #[arg(long, value_name = "FILE")]
    pub(crate) join: Option<PathBuf>,

    /// Join a cluster of NATS at these addresses, with credentials of its own.
    #[arg(long, value_name = "URL", requires_all = ["join", "name"])]
    pub(crate) nats: Option<String>,

    /// Join the hub under this name.
    #[arg(long, requires = "nats")]
    pub(crate) name: Option<String>,

    /// Allow only this; may be repeated: observe, squeeze, profile, load, start. It narrows what a hub's credentials grant;
    /// with a token of NATS, which grants nothing, it is observe and load unless said.
    #[arg(long, value_name = "GRANT", value_delimiter = ',')]
    pub(crate) grant: Vec<Grant>,

    /// Make loads only to this address or network, such as 10.0.0.0/8; may be repeated.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) target: Vec<Network>,

    /// Start this server when it is asked for by name, such as 'shop=/usr/bin/shop --port 8080'; may be repeated.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = named_command)]
    pub(crate) subject: Vec<(String, String)>,

    /// Leave its loads this much of their speed, such as 5%, for the rest of which workers spin: shows what a slow client
    /// does to a load of several.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) client_speed: Option<f64>,

    /// Keep results of loads in this folder until their controller has them on disk.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) results: Option<PathBuf>,

    /// End every agent of this host; each puts back what it changed.
    #[arg(long, conflicts_with_all = ["grant", "target", "subject", "client_speed"])]
    pub(crate) stop: bool,
}

/// A hub, or what is done to one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HubFlags {
    #[command(subcommand)]
    pub(crate) command: Option<HubCommand>,

    #[command(flatten)]
    pub(crate) up: HubUpFlags,
}

/// A hub that runs until it is interrupted.
#[derive(Debug, Args)]
pub(crate) struct HubUpFlags {
    /// Keep its authority and its identities in this folder, which is made where it is not there.
    #[arg(long, value_name = "FOLDER", required = true)]
    pub(crate) dir: Option<PathBuf>,

    /// Listen there [default: as before, else 127.0.0.1:4222].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Tell agents to dial this name or address [default: where it listens].
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) reached_as: Option<String>,

    /// Invite this agent if it is not invited; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) invite: Vec<String>,

    /// Grant this to those who are invited now; may be repeated [default: observe and load].
    #[arg(long, value_name = "GRANT", value_delimiter = ',')]
    pub(crate) grant: Vec<Grant>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HubCommand {
    /// Make an identity for an agent, and print the line to type on its machine.
    Invite {
        /// What it is called: small letters, digits and hyphens.
        name: String,
        /// What it may be asked for; may be repeated [default: observe and load].
        #[arg(long, value_name = "GRANT", value_delimiter = ',')]
        grant: Vec<Grant>,
        /// The hub's folder.
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
    },
    /// Put an agent out, and let it in no more.
    Revoke {
        /// What it is called.
        name: String,
        /// The hub's folder.
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
    },
    /// Say whether the hub runs, who was invited, and who is there.
    Status {
        /// The hub's folder.
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
    },
}

/// Where agents that dialled out are met.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HubAtFlags {
    /// Meet agents at the hub of this folder (`wallfinder hub`); hosts are then named as they were invited.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["nats", "creds"], help_heading = heading::SERVER)]
    pub(crate) hub: Option<PathBuf>,

    /// Meet agents at a cluster of NATS of your own: nats://a,b,c.
    #[arg(long, value_name = "URL", requires = "creds", hide = true, help_heading = heading::SERVER)]
    pub(crate) nats: Option<String>,

    /// Be known there by this file: a hub's controller.json, or credentials of NATS.
    #[arg(long, value_name = "FILE", hide = true, help_heading = heading::SERVER)]
    pub(crate) creds: Option<PathBuf>,
}

impl HubAtFlags {
    /// As a scenario has it.
    pub(crate) fn place(&self) -> Hub {
        Hub {
            creds: self
                .creds
                .clone()
                .or_else(|| Some(self.hub.as_ref()?.join("controller.json"))),
            nats: self.nats.clone(),
        }
    }
}

/// Which hosts.
#[derive(Debug, Args)]
pub(crate) struct HostsFlags {
    /// Ask these hosts, as ssh://USER@HOST or by their names at the hub [default: all that are at the hub].
    #[arg(required_unless_present_any = ["hub", "creds"], value_name = "HOST")]
    pub(crate) hosts: Vec<String>,

    #[command(flatten)]
    pub(crate) at: HubAtFlags,

    /// How ssh is called, such as 'ssh -F lab/config'.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) ssh: Option<String>,
}

/// A lab of hosts.
#[derive(Debug, Args)]
pub(crate) struct LabFlags {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Put hosts up, and keep them until they are interrupted or `lab down` is called.
    Up(LabUpFlags),
    /// End every lab of this machine.
    Down,
}

#[derive(Debug, Args)]
pub(crate) struct LabUpFlags {
    /// Make so many hosts.
    #[arg(default_value = "1", value_parser = clap::value_parser!(u8).range(1..=HOSTS_MAX as i64))]
    pub(crate) hosts: u8,

    /// The link of each to the bridge between them, as for --link.
    #[arg(long, default_value = "1gbit")]
    pub(crate) link: String,

    /// Processors of the first host, such as 0 or 0-3; given again: of the next. The last list is of all that
    /// are left; without any all hosts have all.
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpus: Vec<CpuList>,

    /// Limit the first host to this many cores' worth of time, such as 0.1, or `none`; given again: the next. The
    /// last is of all that are left.
    #[arg(long = "quota", value_name = "CORES", value_parser = host_quota)]
    pub(crate) quotas: Vec<HostQuota>,
}

/// What `doctor` does beside looking.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Remove what a killed run of Wallfinder left behind, and nothing else.
    #[arg(long)]
    pub(crate) clean: bool,

    /// Try the squeezes of `find` too, on a process that sleeps and on a link of its own.
    #[arg(long, conflicts_with = "clean")]
    pub(crate) squeezes: bool,

    /// Look at another host, as `hosts` does: what its agent grants, and what may be squeezed there.
    #[arg(long, value_name = "HOST", conflicts_with_all = ["clean", "squeezes", "format"])]
    pub(crate) host: Vec<String>,

    #[command(flatten)]
    pub(crate) at: HubAtFlags,

    /// How ssh is called.
    #[arg(long, value_name = "COMMAND", requires = "host")]
    pub(crate) ssh: Option<String>,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", conflicts_with = "clean")]
    pub(crate) format: PlainFormat,
}

/// What to load, and how it is shown: shared by the commands that make load.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetFlags {
    /// Load this URL; the host `subject` stands for the server that --subject starts.
    #[arg(value_name = "URL", required_unless_present = "scenario")]
    pub(crate) url: Option<String>,

    /// Load these URLs of the same server too, each as often as the first.
    #[arg(value_name = "MORE URLS", conflicts_with_all = ["traffic", "urls_from"])]
    pub(crate) more_urls: Vec<String>,

    /// Use this request method.
    #[arg(short = 'm', long, default_value = "GET", help_heading = heading::TARGET)]
    pub(crate) method: String,

    /// Send this header field, such as 'Accept: text/html' (metadata of grpc://); may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = heading::TARGET)]
    pub(crate) headers: Vec<String>,

    /// Send this body, at most 64 MiB. @FILE reads it from a file or a pipe, @- from standard input.
    /// For grpc:// give JSON: an object, or an array of them where the client streams.
    #[arg(short = 'b', long, conflicts_with = "body_bytes", help_heading = heading::TARGET)]
    pub(crate) body: Option<String>,

    /// Send a body of this many bytes.
    #[arg(long, value_name = "N", hide = true, help_heading = heading::TARGET)]
    pub(crate) body_bytes: Option<Bytes>,

    /// Send the requests of this traffic file (TOML) in the place of one: kinds of request, each drawn by its weight.
    #[arg(long, value_name = "FILE", conflicts_with = "urls_from", help_heading = heading::TARGET)]
    pub(crate) traffic: Option<PathBuf>,

    /// Read the mix from this list: on each line a path or URL, with a weight before it where that is not 1.
    #[arg(long, value_name = "FILE", hide = true, help_heading = heading::TARGET)]
    pub(crate) urls_from: Option<PathBuf>,

    /// Is refused, in words.
    #[arg(long, value_name = "URL", hide = true, value_parser = no_proxy, help_heading = heading::TARGET)]
    pub(crate) proxy: Option<String>,

    /// Allow load on this host, which is not loopback, private or a lab address.
    #[arg(long, value_name = "HOST", help_heading = heading::TARGET)]
    pub(crate) i_may_load: Vec<String>,

    /// Wait this long for the target to listen; 0s begins at once.
    #[arg(long, value_name = "TIME", default_value = "5s", hide = true, help_heading = heading::TARGET)]
    pub(crate) wait: Nanos,

    /// Run the scenario in this file, TOML or JSON. Flags override what it says.
    #[arg(long, value_name = "FILE", help_heading = heading::TARGET)]
    pub(crate) scenario: Option<PathBuf>,

    /// Print the scenario that the flags mean, as TOML, and run nothing.
    #[arg(long, hide = true, help_heading = heading::TARGET)]
    pub(crate) print_scenario: bool,

    /// Measure each step for this long.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "10s", help_heading = heading::LOAD)]
    pub(crate) duration: Nanos,

    /// Load for this long before each step's window opens [default: a twentieth of the duration, 0.3 s
    /// to 5 s].
    #[arg(long, value_name = "TIME", help_heading = heading::LOAD)]
    pub(crate) warmup: Option<Nanos>,

    /// Keep this many requests in flight on each connection: pipelined requests of HTTP/1.1, streams of
    /// HTTP/2, calls of grpc://, messages of tcp://.
    #[arg(long = "pipeline", aliases = ["pipelining", "streams"], value_name = "N", default_value = "1",
          value_parser = count_u32, help_heading = heading::LOAD)]
    pub(crate) pipeline: u32,

    /// Keep at most this many requests in flight over all connections; the others wait in turn. Latency
    /// counts from a request's intended start, service time from when it was sent.
    #[arg(long, value_name = "REQUESTS", value_parser = count_u32, help_heading = heading::LOAD)]
    pub(crate) max_in_flight: Option<u32>,

    /// Pause between an answer and the next request of a closed loop.
    #[arg(long, value_name = "TIME", default_value = "0s", hide = true, help_heading = heading::LOAD)]
    pub(crate) think: Nanos,

    /// End a request this long after its intended start. An answer that comes later is a timeout.
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = heading::LOAD)]
    pub(crate) timeout: Nanos,

    /// Wait this long after the window for answers to requests that are still in flight. Their latencies
    /// count; requests without an answer are listed with their age.
    #[arg(long, value_name = "TIME", default_value = "1s", hide = true, help_heading = heading::LOAD)]
    pub(crate) drain: Nanos,

    /// Open a new connection for each request.
    #[arg(long, hide = true, help_heading = heading::LOAD)]
    pub(crate) no_keepalive: bool,

    /// Seed everything that is drawn at random with this number.
    #[arg(long, value_name = "N", default_value = "1", hide = true, help_heading = heading::LOAD)]
    pub(crate) seed: u64,

    /// Use this many engine threads [default: one for each processor of the client].
    #[arg(short = 't', long = "threads", alias = "workers", value_name = "N", value_parser = count_u32,
          help_heading = heading::CLIENT)]
    pub(crate) workers: Option<u32>,

    /// Run the workers or the driver on these processors, such as 1 or 2-3,6.
    #[arg(long, value_name = "CPUS", value_parser = numbers, help_heading = heading::CLIENT)]
    pub(crate) client_cpus: Option<CpuList>,

    /// Make the load on another host: an agent drives it there, by ssh or at the hub. Give it once for each host of
    /// several, or a pattern of names at the hub; they make one load.
    #[arg(long, value_name = "HOST", help_heading = heading::CLIENT)]
    pub(crate) client_host: Vec<String>,

    /// Choose what follows where one of several client hosts is lost: end with a marked step, deal later steps to
    /// those that are left, or end at once.
    #[arg(long, value_enum, default_value_t = OnLostFlag::Mark, value_name = "WAY", hide = true, help_heading = heading::CLIENT)]
    pub(crate) on_lost_client: OnLostFlag,

    /// Split the load over several client hosts evenly, or in proportion to what each can drive at most.
    #[arg(long, value_enum, default_value_t = DealFlag::Even, value_name = "HOW", hide = true, help_heading = heading::CLIENT)]
    pub(crate) deal: DealFlag,

    /// Let another load generator produce the load, under the same observation. In the command {url}
    /// stands for the target, {connections}, {pipeline} and {duration} for the step's.
    #[arg(long, value_name = "COMMAND", help_heading = heading::CLIENT)]
    pub(crate) driver: Option<String>,

    /// Limit the load generator to this many cores' worth of time.
    #[arg(long, value_name = "CORES", value_parser = cores, hide = true, help_heading = heading::CLIENT)]
    pub(crate) client_quota: Option<f64>,

    /// Run the load inside this network namespace: a name in /run/netns, or a path.
    #[arg(long, value_name = "NAME", conflicts_with = "link", hide = true, help_heading = heading::CLIENT)]
    pub(crate) client_netns: Option<String>,

    /// Run the load inside this control group: the folder that holds its cgroup.procs.
    #[arg(long, value_name = "PATH", conflicts_with = "client_quota", hide = true,
          help_heading = heading::CLIENT)]
    pub(crate) client_cgroup: Option<PathBuf>,

    /// Wait for sockets in this way.
    #[arg(long, value_enum, default_value = "auto", hide = true, help_heading = heading::CLIENT)]
    pub(crate) io: IoFlag,

    /// Handle each answer as it comes. By default answers that queue at the server anyway may wait for
    /// one another at the client, so that the server need not wake it for each.
    #[arg(long, hide = true, help_heading = heading::CLIENT)]
    pub(crate) no_batching: bool,

    /// Start this server for the run and stop it afterwards; built-in: 'catalogue [FLAGS]'. With --server-host:
    /// the name of one that its host allows (agent --subject).
    #[arg(long, value_name = "COMMAND", help_heading = heading::SERVER)]
    pub(crate) subject: Option<String>,

    /// Run the subject on these processors.
    #[arg(long, value_name = "CPUS", value_parser = numbers, help_heading = heading::SERVER)]
    pub(crate) server_cpus: Option<CpuList>,

    /// Limit the subject to this many cores' worth of time (a control group's quota).
    #[arg(long, value_name = "CORES", value_parser = cores, help_heading = heading::SERVER)]
    pub(crate) server_quota: Option<f64>,

    /// Watch and squeeze the server on its own host, ssh://USER@HOST: an agent is started there by ssh, with your keys
    /// and settings; or by the agent of this name at the hub. Give it once for each host behind one address, and with ,PORT where it listens on another there.
    #[arg(long, value_name = "HOST[,PORT]", conflicts_with = "link", help_heading = heading::SERVER)]
    pub(crate) server_host: Vec<String>,

    /// Squeeze what the server asks in turn on this host, such as its database's.
    #[arg(long, value_name = "ssh://USER@HOST", hide = true, help_heading = heading::SERVER)]
    pub(crate) backend_host: Option<String>,

    /// How ssh is called, for hosts that are others, such as 'ssh -F lab/config'.
    #[arg(long, value_name = "COMMAND", hide = true, help_heading = heading::SERVER)]
    pub(crate) ssh: Option<String>,

    #[command(flatten)]
    pub(crate) at: HubAtFlags,

    /// Watch this process as the server, where it cannot be found from the URL.
    #[arg(long, value_name = "PID", help_heading = heading::SERVER)]
    pub(crate) server_pid: Option<u32>,

    /// Watch the processes of this control group's folder as the server, where they cannot be found from
    /// the URL.
    #[arg(long, value_name = "DIR", conflicts_with = "server_pid", hide = true,
          help_heading = heading::SERVER)]
    pub(crate) server_cgroup: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) children: ChildFlags,

    /// Lay a link between client and subject, each a host of its own:
    /// RATE[,mtu=N][,up=RATE][,delay=TIME][,buffer=SIZE], such as 1gbit or 20mbit,up=5mbit,delay=10ms.
    /// The delay is one way: delay=10ms adds 20 ms to a round trip. Needs root.
    #[arg(long, value_name = "LINK", help_heading = heading::LINK)]
    pub(crate) link: Option<String>,

    /// Speak HTTP/2 by prior knowledge; --pipeline is then the streams of a connection.
    #[arg(long, help_heading = heading::PROTOCOL)]
    pub(crate) http2: bool,

    /// Skip certificate verification of https://, grpcs:// and tcps://. The report says so.
    #[arg(short = 'k', long, help_heading = heading::PROTOCOL)]
    pub(crate) insecure: bool,

    /// Trust the certificate authorities in this file (PEM), and no others.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = heading::PROTOCOL)]
    pub(crate) cacert: Option<PathBuf>,

    /// Require the server's certificate to be for this name [default: the URL's host].
    #[arg(long, value_name = "NAME", hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) server_name: Option<String>,

    /// Present this certificate, and the chain to its root, to a server that asks for one (PEM).
    #[arg(long, value_name = "FILE", requires = "key", hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) cert: Option<PathBuf>,

    /// Use this key for --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) key: Option<PathBuf>,

    /// Offer these groups for the key exchange, the preferred one first: x25519, secp256r1, secp384r1.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) tls_groups: Vec<String>,

    /// Speak this version of TLS only.
    #[arg(long, value_enum, hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) tls_version: Option<TlsVersionFlag>,

    /// Resume no TLS session. With --no-keepalive every request is then a full handshake.
    #[arg(long, hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) no_tls_resumption: bool,

    /// Frame messages of tcp:// in this way: `u32be`, `u16le,inclusive`, `u32be,id=u64be@0`,
    /// `…,max=65536`. The message is the body.
    #[arg(long, value_name = "FORMAT", help_heading = heading::PROTOCOL)]
    pub(crate) frame: Option<wallfinder_wire::framed::Format>,

    /// Read the method of grpc://host:port/package.Service/Method from this .proto file; may be repeated.
    /// Without it, and without --protoset, the server is asked (reflection).
    #[arg(long, value_name = "FILE", help_heading = heading::PROTOCOL)]
    pub(crate) proto: Vec<PathBuf>,

    /// Look for imports of --proto in this folder; may be repeated.
    #[arg(short = 'I', long = "proto-path", value_name = "DIR", requires = "proto", hide = true,
          help_heading = heading::PROTOCOL)]
    pub(crate) proto_path: Vec<PathBuf>,

    /// Read the method of grpc:// from this FileDescriptorSet.
    #[arg(long, value_name = "FILE", conflicts_with = "proto", hide = true,
          help_heading = heading::PROTOCOL)]
    pub(crate) protoset: Option<PathBuf>,

    /// Tell the server of grpc:// how long it may take (grpc-timeout), and wait no longer.
    #[arg(long, value_name = "DURATION", hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) deadline: Option<Nanos>,

    /// Send each message of a grpc:// call after the answer to the one before, where both sides stream.
    #[arg(long, hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) in_turn: bool,

    /// Decode and verify these coded bodies (gzip, deflate, br, zstd). Ask for a coding with
    /// -H "Accept-Encoding: br".
    #[arg(long, value_enum, value_name = "WHICH", default_value = "none", hide = true,
          help_heading = heading::PROTOCOL)]
    pub(crate) decode: DecodeFlag,

    /// Short for --decode inflate.
    #[arg(long, conflicts_with = "decode", hide = true, help_heading = heading::PROTOCOL)]
    pub(crate) inflate: bool,

    /// Do not measure the engine's own ceiling after each step.
    #[arg(long, hide = true, help_heading = heading::WATCHING)]
    pub(crate) no_calibrate: bool,

    /// Squeeze the rate of this interface on the way from server to client: [NETNS/]IFACE[,RATE], with its
    /// full rate where it has no tbf. The change is journalled first and put back. Without NETNS the
    /// interface is in the namespace that the command is started in, whatever --client-netns says.
    #[arg(long, value_name = "DEV", conflicts_with = "link", hide = true, help_heading = heading::PROOF)]
    pub(crate) downlink_dev: Option<String>,

    /// Squeeze the rate of this interface on the way from client to server.
    #[arg(long, value_name = "DEV", conflicts_with = "link", hide = true, help_heading = heading::PROOF)]
    pub(crate) uplink_dev: Option<String>,

    /// Squeeze this process behind the server apart from it; may be repeated.
    #[arg(long, value_name = "PID", hide = true, help_heading = heading::PROOF)]
    pub(crate) backend_pid: Vec<u32>,

    /// Fail with exit code 3 unless this holds, such as 'p99<5ms', 'rps>20k', 'errors<0.1%',
    /// 'unavailable<1%'.
    #[arg(long, value_name = "CONDITION", help_heading = heading::CHECKS)]
    pub(crate) threshold: Vec<String>,

    /// Fail with exit code 4 unless the verdict is `server-bound`, or the wall named.
    #[arg(long, value_name = "WALL", help_heading = heading::CHECKS)]
    pub(crate) require: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,

    /// Do nothing: latencies are always printed. Accepted for scripts of other tools.
    #[arg(long, hide = true, help_heading = heading::OUTPUT)]
    pub(crate) latency: bool,
}

/// As whom programs run that are started for a run, and what they are given.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = heading::SERVER)]
pub(crate) struct ChildFlags {
    /// Run the subject and the driver as this user, with its groups [default: under sudo the user who
    /// called it; else as wallfinder itself]. `--as root` keeps root. Needs root.
    #[arg(long = "as", value_name = "USER", hide = true)]
    pub(crate) as_user: Option<String>,

    /// Give the subject and the driver this variable too; may be repeated. Without it they have PATH,
    /// HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ, TERM, TMPDIR, GOMAXPROCS, GOGC, GOMEMLIMIT,
    /// GODEBUG, GOTRACEBACK and WALLFINDER_*, and what stands before the program in their command.
    #[arg(long, value_name = "NAME[=VALUE]", hide = true)]
    pub(crate) env: Vec<String>,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub(crate) struct OutputFlags {
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,

    /// Write the result to this file instead.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Keep records in this folder.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) runs: PathBuf,

    /// Name the run; the name is part of its folder's.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Show no live view and no progress.
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,

    /// Print ASCII only.
    #[arg(long, hide = true)]
    pub(crate) ascii: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Open this many connections in all.
    #[arg(short = 'c', long, value_name = "N", default_value = "64", value_parser = count_u32,
          display_order = 0, help_heading = heading::LOAD)]
    pub(crate) connections: u32,

    /// Send this many requests per second in all, whatever the answers do (open loop).
    #[arg(short = 'R', long, value_name = "RATE", display_order = 1, help_heading = heading::LOAD)]
    pub(crate) rate: Option<Rate>,

    /// Grow the rate linearly to this one over the run (open loop).
    #[arg(long, value_name = "RATE", conflicts_with = "poisson", display_order = 2,
          help_heading = heading::LOAD)]
    pub(crate) rate_to: Option<Rate>,

    /// Space requests by exponential gaps instead of even ones (open loop).
    #[arg(long, display_order = 3, help_heading = heading::LOAD)]
    pub(crate) poisson: bool,

    /// Stop after this many requests, and after -d at the latest. They are counted from the end of
    /// --warmup, which is none unless it is given.
    #[arg(short = 'n', long, value_name = "N", value_parser = units::parse_count,
          help_heading = heading::LOAD)]
    pub(crate) requests: Option<u64>,

    /// Keep every request of the window, one by one, in samples-N.parquet beside the record.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) samples: bool,

    /// Send what this access log or HAR holds, when it was logged (open loop).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "urls_from", "more_urls", "rate"], help_heading = heading::TARGET)]
    pub(crate) replay: Option<PathBuf>,

    /// How the log's lines are written: combined, common, json, or nginx's own, such as '$msec "$request" $request_time'.
    #[arg(long, value_name = "FORMAT", requires = "replay", help_heading = heading::TARGET)]
    pub(crate) log_format: Option<String>,

    /// Replay this many times as fast.
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "replay", help_heading = heading::TARGET)]
    pub(crate) speed: f64,

    /// Replay over and over, until -d.
    #[arg(long = "loop", requires = "replay", help_heading = heading::TARGET)]
    pub(crate) again: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RampFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Run one step for each of these numbers of connections.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count_u32,
          default_value = "1,4,16,64,256", display_order = 0, help_heading = heading::LOAD)]
    pub(crate) connections: Vec<u32>,

    /// Run one step for each of these rates, at the largest number of connections (open loop).
    #[arg(long, value_name = "LIST", value_delimiter = ',', display_order = 1,
          help_heading = heading::LOAD)]
    pub(crate) rates: Vec<Rate>,

    /// Run one step for each of these numbers in flight on a connection (see --pipeline), at the largest
    /// number of connections.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count_u32,
          conflicts_with = "rates", display_order = 2, help_heading = heading::LOAD)]
    pub(crate) depths: Vec<u32>,

    /// Keep every request of the window, one by one, in samples-N.parquet beside the record.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) samples: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FindFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Open this many connections in all [default: as many as reach the ceiling, which a ramp finds].
    #[arg(short = 'c', long, value_name = "N", value_parser = count_u32, display_order = 0,
          help_heading = heading::LOAD)]
    pub(crate) connections: Option<u32>,

    /// Send this many requests per second in all (open loop). Below the ceiling the wall is the rate
    /// itself.
    #[arg(short = 'R', long, value_name = "RATE", display_order = 1, help_heading = heading::LOAD)]
    pub(crate) rate: Option<Rate>,

    /// Spend this much time: quick (about 25 seconds, likely at best), normal (about a minute), thorough (about
    /// five).
    #[arg(long, value_enum, default_value = "normal", display_order = 0, help_heading = heading::PROOF)]
    pub(crate) effort: EffortFlag,

    /// Measure windows of this length, 100ms to 30s [default: long enough for a thousand answers, within
    /// the effort]. Longer ones steady a server that works in bursts.
    #[arg(long, value_name = "TIME", value_parser = window, help_heading = heading::PROOF)]
    pub(crate) window: Option<Nanos>,

    /// Ask for Go's profiles here (/debug/pprof/) at the wall, and name the function behind it. A subject
    /// that says where it offers them is asked by itself; of others the kernel samples stacks, where that
    /// is allowed.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', help_heading = heading::WATCHING)]
    pub(crate) pprof: Vec<String>,

    /// Do not look inside the server once the wall is known. The load ends a few seconds sooner, and no
    /// function is named.
    #[arg(long, conflicts_with = "pprof", hide = true, help_heading = heading::WATCHING)]
    pub(crate) no_inside: bool,

    /// Predict a change, such as downlink=2 (twice the rate), link=10gbit, cpu=2x (the server's),
    /// client=2x, bytes=0.5.
    #[arg(long, value_name = "RESOURCE=FACTOR", help_heading = heading::PROOF)]
    pub(crate) what_if: Vec<String>,

    /// Make the changes of --what-if that can be made here (the rate of --link, --server-quota, free
    /// processors, engine threads, requests in flight), and measure each beside its prediction.
    #[arg(long, help_heading = heading::PROOF)]
    pub(crate) lift: bool,

    /// Say what would be done to whom, and what it may cost; load nothing and squeeze nothing.
    #[arg(long, help_heading = heading::PROOF)]
    pub(crate) dry_run: bool,

    /// Put the sham in the place of every squeeze: no wall may then be named.
    #[arg(long, hide = true, help_heading = heading::PROOF)]
    pub(crate) null: bool,
}

/// Two settings: what is not given for B is as for A. With nothing given for B the two are
/// the same, and no difference should be shown.
#[derive(Debug, Args)]
pub(crate) struct AbFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Open this many connections in all.
    #[arg(short = 'c', long, value_name = "N", default_value = "64", value_parser = count_u32,
          display_order = 0, help_heading = heading::LOAD)]
    pub(crate) connections: u32,

    /// Send this many requests per second in all (open loop).
    #[arg(short = 'R', long, value_name = "RATE", display_order = 1, help_heading = heading::LOAD)]
    pub(crate) rate: Option<Rate>,

    /// Run this many rounds; each holds both settings once. -d is the time measured for each setting, over
    /// all rounds.
    #[arg(long, value_name = "N", default_value = "8", value_parser = rounds, display_order = 0,
          help_heading = heading::PROOF)]
    pub(crate) rounds: u32,

    /// Load these paths as A and B, such as /read,/read-gz, in place of the URL's own.
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, help_heading = heading::B)]
    pub(crate) path: Vec<String>,

    /// Load this URL as B.
    #[arg(long, value_name = "URL", conflicts_with = "path", help_heading = heading::B)]
    pub(crate) url_b: Option<String>,

    /// Send this header field as well; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", help_heading = heading::B)]
    pub(crate) header_b: Vec<String>,

    /// Start this subject, such as 'catalogue --prefork' or 'GOGC=off catalogue'.
    #[arg(long, value_name = "COMMAND", help_heading = heading::B)]
    pub(crate) subject_b: Option<String>,

    /// Lay this link.
    #[arg(long, value_name = "LINK", help_heading = heading::B)]
    pub(crate) link_b: Option<String>,

    /// Limit B's subject to this many cores' worth of time.
    #[arg(long, value_name = "CORES", value_parser = cores, help_heading = heading::B)]
    pub(crate) server_quota_b: Option<f64>,

    /// Let this driver produce the load, or `wallfinder`, its own engine.
    #[arg(long, value_name = "COMMAND", help_heading = heading::B)]
    pub(crate) driver_b: Option<String>,

    /// Open this many connections.
    #[arg(long, value_name = "N", value_parser = count_u32, help_heading = heading::B)]
    pub(crate) connections_b: Option<u32>,

    /// Keep this many requests in flight on each connection.
    #[arg(long, value_name = "N", value_parser = count_u32, help_heading = heading::B)]
    pub(crate) pipeline_b: Option<u32>,

    /// Keep at most this many requests in flight over all connections.
    #[arg(long, value_name = "REQUESTS", value_parser = count_u32, hide = true,
          help_heading = heading::B)]
    pub(crate) max_in_flight_b: Option<u32>,

    /// Handle each answer as it comes (--no-batching): shows what batching is worth.
    #[arg(long, conflicts_with = "no_batching", hide = true, help_heading = heading::B)]
    pub(crate) no_batching_b: bool,

    /// Use this many engine threads.
    #[arg(long, value_name = "N", value_parser = count_u32, hide = true, help_heading = heading::B)]
    pub(crate) threads_b: Option<u32>,

    /// Run B's subject on these processors.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list, hide = true, help_heading = heading::B)]
    pub(crate) server_cpus_b: Option<CpuList>,

    /// Set this on the host while B is held, such as huge-pages=always, rps=0-1, rfs=4096, busy-poll=50,
    /// irq-affinity=1; may be repeated. It is put back after each turn. A process has huge-pages and
    /// busy-poll from its start, so these need --subject: each turn of A and of B then has a server of its
    /// own. Needs root.
    #[arg(long, value_name = "KEY=VALUE", hide = true, help_heading = heading::B)]
    pub(crate) tune_b: Vec<Tuning>,

    /// Run this probe on B's server, or on its load generator (`client`); the ratio is what the probe costs.
    /// `telemetry` is what every run has: A then does without.
    #[arg(long, value_enum, value_name = "PROBE", value_delimiter = ',', hide = true,
          help_heading = heading::B)]
    pub(crate) observe_b: Vec<ProbeFlag>,

    /// Ask only whether B costs at most this share of A's throughput, such as 2%. The answer is yes where
    /// the whole 95 % interval lies within it, no where it lies beyond, and else not decided. Small shares
    /// take many rounds: --rounds 150 -d 375s.
    #[arg(long, value_name = "SHARE", conflicts_with = "rate", value_parser = share,
          help_heading = heading::PROOF)]
    pub(crate) at_most_cost: Option<f64>,
}

/// Answers of several sizes, each in several codings. With --link each is measured behind it and without
/// it, in turn, and what the link lets through is predicted from the bytes alone.
#[derive(Debug, Args)]
pub(crate) struct BytesFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Open this many connections in all.
    #[arg(short = 'c', long, value_name = "N", default_value = "20", value_parser = count_u32,
          display_order = 0, help_heading = heading::LOAD)]
    pub(crate) connections: u32,

    /// Ask for these codings, one at a time (Accept-Encoding). Answers as they are (identity) are always
    /// among them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "identity,gzip",
          help_heading = heading::TARGET)]
    pub(crate) codings: Vec<String>,

    /// Run this many rounds; each holds every answer once on each side of the link. -d is the time measured
    /// for each answer, over all rounds.
    #[arg(long, value_name = "N", default_value = "6", value_parser = rounds, display_order = 0,
          help_heading = heading::PROOF)]
    pub(crate) rounds: u32,
}

/// Probes whose cost can be asked for. All but the first are only used where they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeFlag {
    /// What every run watches of both sides, every 50 ms: A is looked at when its window opens and
    /// when it closes, and not between.
    Telemetry,
    /// Go's own profiles, all kinds.
    Go,
    /// The trace of Go's runtime, for a second of each window.
    Trace,
    /// Stacks that the kernel samples.
    Stacks,
    /// Where threads wait, for a second of each window.
    Waits,
    /// System calls by name, for up to a second of each window.
    Calls,
    /// Events of processors and migrations.
    Counters,
    /// Stacks, waits and counters of what makes the load.
    Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EffortFlag {
    Quick,
    Normal,
    Thorough,
}

#[derive(Debug, Args)]
pub(crate) struct StudyFlags {
    #[command(subcommand)]
    pub(crate) command: StudyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// List the built-in studies.
    List,
    /// Show what a study asks, does and claims.
    Show {
        /// Name a built-in study, or a file.
        study: String,
    },
    /// Run a study and judge its claims.
    Run(Box<StudyRunFlags>),
    /// Save the outcomes of a run's claims, of which the results page is made.
    Keep {
        /// Name a run's folder, or `runs/latest`.
        run: PathBuf,
        /// Write into this folder, a file for each study.
        #[arg(long, default_value = "studies/results", value_name = "FOLDER")]
        into: PathBuf,
    },
    /// Write a copy of a built-in study to edit.
    New {
        /// Write this file.
        file: PathBuf,
        /// Start from this study.
        #[arg(long, default_value = "client-ceiling")]
        from: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct StudyRunFlags {
    /// Name a built-in study, or a file; `all` runs every built-in one with all of its parts.
    pub(crate) study: String,
    /// Run this much of it: smoke (seconds), demo (minutes), full (as the source, if it can be).
    #[arg(long, default_value = "smoke", help_heading = heading::LOAD)]
    pub(crate) size: Size,
    /// Run this part of it too, such as size-sweep's `anomalies`; `study show` lists them.
    #[arg(long, value_name = "PART", value_delimiter = ',', help_heading = heading::LOAD)]
    pub(crate) with: Vec<String>,
    /// Reuse what interrupted runs in --runs have measured of it, and run the rest. `all` leaves out studies
    /// that such a run has whole.
    #[arg(long, help_heading = heading::LOAD)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) hosts: StudyHostFlags,
    #[command(flatten)]
    pub(crate) children: ChildFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The hosts of a study, in the place of those that its file names.
#[derive(Debug, Args)]
pub(crate) struct StudyHostFlags {
    /// Start the study's servers on another host, ssh://USER@HOST: an agent does so, started by ssh; programs that come
    /// with Wallfinder are sent. An agent at the hub starts those that its host allows by the study's names for them
    /// (agent --subject).
    #[arg(long, value_name = "HOST", help_heading = heading::SERVER)]
    pub(crate) server_host: Option<String>,

    /// Reach the servers there by this address [default: the host's name; a name at the hub is no address].
    #[arg(long, value_name = "ADDRESS", requires = "server_host", help_heading = heading::SERVER)]
    pub(crate) server_address: Option<String>,

    /// Make the engine's load on another host, ssh://USER@HOST or a name at the hub. Give it once for each host of
    /// several, or a pattern of names at the hub, such as 'c*'; they make one load.
    #[arg(long, value_name = "HOST", help_heading = heading::CLIENT)]
    pub(crate) client_host: Vec<String>,

    /// Split the load over several client hosts evenly, or in proportion to what each can drive at most.
    #[arg(long, value_enum, default_value_t = DealFlag::Even, value_name = "HOW", hide = true, help_heading = heading::CLIENT)]
    pub(crate) deal: DealFlag,

    /// How ssh is called, such as 'ssh -F lab/config'.
    #[arg(long, value_name = "COMMAND", help_heading = heading::SERVER)]
    pub(crate) ssh: Option<String>,

    #[command(flatten)]
    pub(crate) at: HubAtFlags,
}

#[derive(Debug, Args)]
pub(crate) struct JudgeFlags {
    #[command(flatten)]
    pub(crate) record: RecordFlags,

    /// Judge the claims of this study, a name or a file, by the record's steps [default: those of the
    /// built-in study that the record is of].
    #[arg(long)]
    pub(crate) study: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    pub(crate) record: RecordFlags,

    /// Write the page to this file instead of `report.html` in the run's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordFlags {
    /// Read the record in this run's folder; `runs/latest` is the last one.
    pub(crate) run: PathBuf,

    /// Fail with exit code 4 unless the verdict is `server-bound`, or the wall named.
    #[arg(long, value_name = "WALL")]
    pub(crate) require: Option<String>,

    /// Fail with exit code 3 unless this holds, such as 'p99<5ms'; may be repeated.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) threshold: Vec<String>,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,

    /// Write the result to this file instead.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print ASCII only.
    #[arg(long)]
    pub(crate) ascii: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// Compare with this run.
    pub(crate) before: PathBuf,
    /// Compare this run.
    pub(crate) after: PathBuf,

    /// Fail with exit code 3 where a step is missing, or its throughput is surely below this many times
    /// the earlier one's, such as 0.9. Two runs of the same thing differ by some per cent; `ab` finds
    /// smaller differences.
    #[arg(long, value_name = "RATIO", value_parser = positive_ratio)]
    pub(crate) at_least: Option<f64>,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SamplesFlags {
    /// Read these files of `run --samples`, or folders of runs that hold some.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlainFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Open this many connections in all.
    #[arg(short = 'c', long, value_name = "N", default_value = "64", value_parser = count_u32,
          display_order = 0, help_heading = heading::LOAD)]
    pub(crate) connections: u32,

    /// Send this many requests per second in all, whatever the answers do (open loop).
    #[arg(short = 'R', long, value_name = "RATE", display_order = 1, help_heading = heading::LOAD)]
    pub(crate) rate: Option<Rate>,

    /// Ask for Go's profiles here (/debug/pprof/); several, such as prefork children, are merged. Bundled
    /// subjects are asked by themselves. Without any the kernel samples the server's stacks.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', help_heading = heading::WATCHING)]
    pub(crate) pprof: Vec<String>,

    /// Let the kernel sample the server's stacks beside Go's profiles, user and kernel, whatever it is
    /// written in. Needs root.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) stacks: bool,

    /// Watch system calls by name, until enough are known, a second at most: how often for each request,
    /// how long, how many failed. A server that calls often is slower meanwhile. Needs root.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) calls: bool,

    /// Look inside the client as well, this tool or the --driver, by what the kernel tells of it. Needs
    /// root.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) client: bool,

    /// Capture these only [default: all].
    #[arg(long, value_enum, value_delimiter = ',', help_heading = heading::WATCHING)]
    pub(crate) kinds: Vec<KindFlag>,

    /// Keep the runtime's trace of the first second too, for `go tool trace`. It costs the server much more
    /// than the others.
    #[arg(long, help_heading = heading::WATCHING)]
    pub(crate) trace: bool,

    /// Read from this file what functions do by their names, in place of the table that `wallfinder pprof
    /// --rules-default` prints.
    #[arg(long, value_name = "FILE", hide = true, help_heading = heading::WATCHING)]
    pub(crate) rules: Option<PathBuf>,
}

/// Kinds of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindFlag {
    Cpu,
    Block,
    Mutex,
    Allocs,
    Heap,
    Goroutine,
}

impl From<KindFlag> for ProfileKind {
    fn from(kind: KindFlag) -> ProfileKind {
        match kind {
            KindFlag::Cpu => ProfileKind::Cpu,
            KindFlag::Block => ProfileKind::Block,
            KindFlag::Mutex => ProfileKind::Mutex,
            KindFlag::Allocs => ProfileKind::Allocs,
            KindFlag::Heap => ProfileKind::Heap,
            KindFlag::Goroutine => ProfileKind::Goroutine,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PprofFlags {
    /// Read these profiles, compressed or not; several of one kind are merged.
    #[arg(required_unless_present = "rules_default")]
    pub(crate) files: Vec<PathBuf>,

    /// Take the profiles for this kind, where what they count does not tell it: waits and contention look
    /// alike.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<KindFlag>,

    /// Show what changed since this profile: each function, for a second, and for a request where that is
    /// known.
    #[arg(long, value_name = "FILE")]
    pub(crate) before: Option<PathBuf>,

    /// Print stacks as folded lines, for tools that draw flame graphs.
    #[arg(long, conflicts_with = "before")]
    pub(crate) folded: bool,

    /// Read from this file what functions do by their names, in place of the table that ships.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Print the table that ships, to be edited.
    #[arg(long)]
    pub(crate) rules_default: bool,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateFlags {
    /// Open this many connections in all.
    #[arg(short = 'c', long, value_name = "N", default_value = "64", value_parser = count_u32,
          help_heading = heading::LOAD)]
    pub(crate) connections: u32,

    /// Keep this many requests in flight on each connection.
    #[arg(long = "pipeline", aliases = ["pipelining", "streams"], value_name = "N", default_value = "1",
          value_parser = count_u32, help_heading = heading::LOAD)]
    pub(crate) pipeline: u32,

    /// Speak HTTP/2.
    #[arg(long, help_heading = heading::PROTOCOL)]
    pub(crate) http2: bool,

    /// Speak TLS around it.
    #[arg(long, help_heading = heading::PROTOCOL)]
    pub(crate) tls: bool,

    /// Use this many engine threads [default: one for each processor of the client].
    #[arg(short = 't', long = "threads", alias = "workers", value_name = "N", value_parser = count_u32,
          help_heading = heading::CLIENT)]
    pub(crate) workers: Option<u32>,

    /// Measure for this long each time.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "2s", help_heading = heading::LOAD)]
    pub(crate) duration: Nanos,

    /// Answer with bodies of this many bytes.
    #[arg(long, value_name = "N", default_value = "16", help_heading = heading::LOAD)]
    pub(crate) answer_bytes: Bytes,

    /// Wait for sockets in this way.
    #[arg(long, value_enum, default_value = "auto", help_heading = heading::CLIENT)]
    pub(crate) io: IoFlag,

    /// Run the workers on these processors, such as 1 or 2-3,6.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list, help_heading = heading::CLIENT)]
    pub(crate) client_cpus: Option<CpuList>,

    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", help_heading = heading::OUTPUT)]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaFlags {
    /// Print this one.
    #[arg(value_enum, default_value = "record")]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    Record,
    Study,
    Scenario,
    Traffic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecodeFlag {
    /// None: bodies are not looked at.
    None,
    /// The first of each connection: a wrong coding is found at next to no cost.
    Check,
    /// All of them, as a client does that uses what it is sent.
    Inflate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLostFlag {
    /// The others end the step, which is marked, and the run with it.
    Mark,
    /// The same, and later steps go on with those that are left.
    Rebalance,
    /// The load ends at once.
    Abort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DealFlag {
    /// As much to each.
    Even,
    /// In proportion to each one's ceiling, which is measured before the first load.
    ByCeiling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoFlag {
    Auto,
    Uring,
    Epoll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsVersionFlag {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

/// Processors by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// Cores that a host of a lab may use; `None`: all that it has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HostQuota(pub(crate) Option<f64>);

fn host_quota(text: &str) -> Result<HostQuota, String> {
    let cores = match text {
        "none" => None,
        _ => Some(cores(text).map_err(|why| format!("{why}, or none"))?),
    };
    Ok(HostQuota(cores))
}

/// Processors that this process may use.
fn cpu_list(text: &str) -> Result<CpuList, String> {
    let list = numbers(text)?;
    let there = wallfinder_sys::process::allowed_cpus();
    match list.0.iter().find(|cpu| !there.contains(cpu)) {
        Some(cpu) => Err(format!(
            "processor {cpu} is not one that this process may use: {there:?}"
        )),
        None => Ok(list),
    }
}

fn numbers(text: &str) -> Result<CpuList, String> {
    let bad = || format!("`{text}` is not a list of processors such as 0 or 2-3,6");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last > 4095 {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

/// A load through a proxy measures the proxy.
fn no_proxy(_: &str) -> Result<String, String> {
    Err("requests go straight to the server: through a proxy the proxy would be measured; give its own URL to measure it".into())
}

fn named_command(text: &str) -> Result<(String, String), String> {
    let (name, command) = text
        .split_once('=')
        .ok_or("a server is allowed as NAME=COMMAND, such as 'shop=/usr/bin/shop --port 8080'")?;
    Ok((name.to_owned(), command.to_owned()))
}

fn cores(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cores) if (0.01..=4096.0).contains(&cores) => Ok(cores),
        _ => Err("a number of cores from 0.01 on, such as 0.5".into()),
    }
}

fn positive_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio.is_finite() => Ok(ratio),
        _ => Err("a ratio above 0, such as 0.9".into()),
    }
}

/// A share of a whole, in per cent.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(str::trim);
    match number.map(str::parse::<f64>) {
        Some(Ok(percent)) if (0.01..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a share from 0.01% to 50%, such as 2%".to_owned()),
    }
}

/// Shorter ones end before anything settles; longer ones are another effort.
fn window(text: &str) -> Result<Nanos, String> {
    let window: Nanos = text.parse().map_err(|why| format!("{why}"))?;
    match (Nanos::from_millis(100)..=Nanos::from_secs(30)).contains(&window) {
        true => Ok(window),
        false => Err("between 100ms and 30s".to_owned()),
    }
}

fn rounds(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rounds @ 3..=200) => Ok(rounds),
        _ => Err("from 3 to 200 rounds: fewer give no interval".into()),
    }
}

fn count_u32(text: &str) -> Result<u32, String> {
    let count = units::parse_count(text).map_err(|error| error.to_string())?;
    match u32::try_from(count) {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(count) if count <= 1_000_000 => Ok(count),
        _ => Err(format!("`{text}` is more than a million")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_well_formed() {
        Flags::command().debug_assert();
    }

    #[test]
    fn users_fingers_are_understood() {
        let line = "wallfinder run http://127.0.0.1/ -c 10k -d 30s -t 1 -R 20k -n 1M -m POST \
                    -b x --latency --timeout 2s --pipeline 100";
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["-H", "Accept: text/html"]);
        let flags = Flags::try_parse_from(words).unwrap();
        let Command::Run(run) = flags.command else {
            panic!("not a run");
        };
        assert_eq!(run.connections, 10_000);
        assert_eq!(run.requests, Some(1_000_000));
        assert_eq!(run.rate, Some(Rate(20_000.0)));
        assert_eq!(run.target.pipeline, 100);
    }

    #[test]
    fn a_bound_on_cost_is_a_share_of_throughput() {
        for (text, share) in [("2%", 0.02), ("0.5 %", 0.005), ("50%", 0.5)] {
            let line = [
                "wallfinder",
                "ab",
                "http://127.0.0.1/",
                "--at-most-cost",
                text,
            ];
            let flags = Flags::try_parse_from(line).unwrap();
            let Command::Ab(ab) = flags.command else {
                panic!("no ab");
            };
            assert_eq!(ab.at_most_cost, Some(share));
        }
        for bad in ["2", "0%", "-1%", "51%", "nan%", "%", "x%"] {
            assert!(super::share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "wallfinder ab http://127.0.0.1/ --at-most-cost 2% -R 100",
            "wallfinder run http://127.0.0.1/ -c 0",
            "wallfinder run http://127.0.0.1/ -d -1s",
            "wallfinder run http://127.0.0.1/ -R nan",
            "wallfinder run http://127.0.0.1/ --client-cpus 9999",
            "wallfinder run",
            "wallfinder run --print-scenario",
        ] {
            assert!(
                Flags::try_parse_from(line.split_whitespace()).is_err(),
                "{line}"
            );
        }
    }
}
