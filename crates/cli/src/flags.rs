//! Flags as data: parsed before anything is touched. Short names keep the meaning that
//! most load testers' users have in their fingers.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use wallfinder_model::ProfileKind;
use wallfinder_model::units::{self, Bytes, Nanos, Rate};
use wallfinder_study::Size;
use wallfinder_testbed::tune::Tuning;

/// Load testing that names the wall, and proves it.
#[derive(Debug, Parser)]
#[command(
    name = "wallfinder",
    version,
    about,
    long_about = "Wallfinder drives load at a network service, watches client, server and link, and says \
                  which one thing keeps throughput from rising.",
    after_help = "Examples:\n  \
        wallfinder run http://127.0.0.1:8083/simple -c 100 -d 10s\n  \
        wallfinder ramp http://127.0.0.1:8083/read --connections 10,100,1000\n  \
        wallfinder run --subject catalogue http://subject:8083/compute -c 64\n  \
        wallfinder run grpc://127.0.0.1:50051/shop.v1.Orders/Put --proto shop.proto -b '{\"name\": \"x\"}'\n  \
        wallfinder run --driver 'autocannon -c 100 -p 100 {url}' http://127.0.0.1:8083/simple\n\n\
        Exit codes: 0 done, 1 could not run or nothing was answered well, 2 bad arguments, 3 a threshold was breached,\n  \
        4 --require did not hold, 130/143 interrupted (the partial record is sealed).",
    disable_help_subcommand = true
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold one load at a target, and say what was the wall.
    Run(RunFlags),
    /// Hold one load after the other, and print one table with its "bound by" column.
    Ramp(RampFlags),
    /// Ramp to the ceiling, squeeze each resource there, and name the wall, proved.
    Find(FindFlags),
    /// Two settings of one lever, interleaved, with an interval on the ratio.
    Ab(Box<AbFlags>),
    /// Answers of several sizes and codings: what bytes cost, and from which size compressing pays.
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
    /// Quantiles of kept requests, exact and with intervals.
    Samples(SamplesFlags),
    /// Find the most that this machine's workers can drive.
    Calibrate(CalibrateFlags),
    /// Say what this machine offers, what is missing, and the way out.
    Doctor(DoctorFlags),
    /// Print the JSON Schema of `--format json`, of study files, or of scenario files.
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

/// What `doctor` does beside looking.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Remove what a killed run of Wallfinder left behind, and nothing else.
    #[arg(long)]
    pub(crate) clean: bool,

    /// Try the squeezes of `find` too: on a process that sleeps, and on a link of its own.
    #[arg(long, conflicts_with = "clean")]
    pub(crate) squeezes: bool,

    /// What is printed.
    #[arg(long, value_enum, default_value = "text", conflicts_with = "clean")]
    pub(crate) format: PlainFormat,
}

/// What to load, and how it is shown: shared by the commands that make load.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetFlags {
    /// The URL under load; the host `subject` is the one started by --subject.
    #[arg(value_name = "URL", required_unless_present = "scenario")]
    pub(crate) url: Option<String>,

    /// Run the scenario in this file, TOML or JSON; flags beside it take the place of what it says.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,

    /// Print the scenario that the flags mean, as TOML, and run nothing.
    #[arg(long)]
    pub(crate) print_scenario: bool,

    /// Engine threads; by default one for each processor of the client.
    #[arg(short = 't', long = "threads", alias = "workers", value_parser = count_u32)]
    pub(crate) workers: Option<u32>,

    /// Length of the measured window of each step.
    #[arg(short = 'd', long, default_value = "10s")]
    pub(crate) duration: Nanos,

    /// Not measured at the start of each step [default: a twentieth of the duration, 0.3 s to 5 s].
    #[arg(long)]
    pub(crate) warmup: Option<Nanos>,

    /// Requests in flight on each connection (HTTP/1.1 pipelining, streams of HTTP/2 and calls
    /// of grpc://, messages of tcp://).
    #[arg(long = "pipeline", aliases = ["pipelining", "streams"], default_value = "1", value_parser = count_u32)]
    pub(crate) pipeline: u32,

    /// Keep at most this many requests in flight over all connections; the others wait in turn.
    /// Latency counts from when they were to be sent, service time from when they were.
    #[arg(long, value_name = "REQUESTS", value_parser = count_u32)]
    pub(crate) max_in_flight: Option<u32>,

    /// Pause between an answer and the next request of a closed loop.
    #[arg(long, default_value = "0s")]
    pub(crate) think: Nanos,

    /// Request method.
    #[arg(short = 'm', long, default_value = "GET")]
    pub(crate) method: String,

    /// Header field, such as 'Accept: text/html', or metadata of grpc://; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,

    /// Speak HTTP/2, by prior knowledge; --pipeline is then the streams of a connection.
    #[arg(long)]
    pub(crate) http2: bool,

    /// Believe any certificate of https://, grpcs:// and tcps://. The report says so.
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// Believe certificates that those in this file have signed (PEM), and no others.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,

    /// The name that the server's certificate must be for [default: the URL's host].
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,

    /// Show this certificate to a server that asks for one, and what leads to its root (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// The key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// Groups for the exchange of keys, the best first: x25519, secp256r1, secp384r1.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tls_groups: Vec<String>,

    /// Speak this version only.
    #[arg(long, value_enum)]
    pub(crate) tls_version: Option<TlsVersionFlag>,

    /// Begin each connection from nothing, and resume none: with --no-keepalive every request is
    /// a full handshake.
    #[arg(long)]
    pub(crate) no_tls_resumption: bool,

    /// How messages of tcp:// are framed: `u32be`, `u16le,inclusive`, `u32be,id=u64be@0`,
    /// `…,max=65536`. The message is the body.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) frame: Option<wallfinder_wire::framed::Format>,

    /// A .proto file that describes the method of grpc://host:port/package.Service/Method; may
    /// be repeated. Without it, and without --protoset, the server is asked (reflection).
    #[arg(long, value_name = "FILE")]
    pub(crate) proto: Vec<PathBuf>,

    /// A folder that imports of --proto are looked for in; may be repeated.
    #[arg(
        short = 'I',
        long = "proto-path",
        value_name = "DIR",
        requires = "proto"
    )]
    pub(crate) proto_path: Vec<PathBuf>,

    /// A FileDescriptorSet that describes the method of grpc://.
    #[arg(long, value_name = "FILE", conflicts_with = "proto")]
    pub(crate) protoset: Option<PathBuf>,

    /// Tell the server of grpc:// how long it may take, and wait no longer (grpc-timeout).
    #[arg(long, value_name = "DURATION")]
    pub(crate) deadline: Option<Nanos>,

    /// Send each message of a grpc:// call when the one before it is answered, where both sides
    /// stream: a conversation.
    #[arg(long)]
    pub(crate) in_turn: bool,

    /// Request body, of 64 MiB at the most; @FILE reads it from a file or a pipe, @- from standard
    /// input. For grpc:// it is JSON: an object, or an array of them where the client streams.
    #[arg(short = 'b', long, conflicts_with = "body_bytes")]
    pub(crate) body: Option<String>,

    /// Request body of this many bytes.
    #[arg(long, value_name = "N")]
    pub(crate) body_bytes: Option<Bytes>,

    /// Total deadline of a request, from its intended instant. An answer that comes later is a timeout.
    #[arg(long, default_value = "10s")]
    pub(crate) timeout: Nanos,

    /// Wait this long after the window for answers to requests that are still in flight. Their latencies
    /// count; what has no answer then is told with its age.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) drain: Nanos,

    /// Wait this long for the target to listen before the load begins, where it does not yet; 0s: begin at
    /// once.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) wait: Nanos,

    /// Open a connection for each request.
    #[arg(long)]
    pub(crate) no_keepalive: bool,

    /// Which coded bodies (gzip, deflate, br, zstd) are decoded and verified. Ask for a coding
    /// with -H "Accept-Encoding: br".
    #[arg(long, value_enum, value_name = "WHICH", default_value = "none")]
    pub(crate) decode: DecodeFlag,

    /// Short for --decode inflate.
    #[arg(long, conflicts_with = "decode")]
    pub(crate) inflate: bool,

    /// Handle each answer as it comes. Else answers that queue at the server anyway may wait for one
    /// another at the client, so that the server need not wake it for each.
    #[arg(long)]
    pub(crate) no_batching: bool,

    /// How sockets are waited for.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) io: IoFlag,

    /// Processors for the workers or the driver, such as 1 or 2-3,6.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list)]
    pub(crate) client_cpus: Option<CpuList>,

    /// Processors for the subject.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list)]
    pub(crate) server_cpus: Option<CpuList>,

    /// Start this server for the run and stop it afterwards; built-in: 'catalogue [FLAGS]'.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) subject: Option<String>,

    #[command(flatten)]
    pub(crate) children: ChildFlags,

    /// Lay a link between the client and the subject, each a host of its own:
    /// RATE[,mtu=N][,up=RATE][,delay=TIME][,buffer=SIZE], such as 1gbit or 20mbit,up=5mbit,delay=10ms.
    /// The delay is one way, in each direction: delay=10ms adds 20 ms to a round trip. Needs root.
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Option<String>,

    /// Let the subject use this many cores' worth of time (a control group's quota).
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub(crate) server_quota: Option<f64>,

    /// Let the load generator use this many cores' worth of time.
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub(crate) client_quota: Option<f64>,

    /// Run the load inside this network namespace: a name in /run/netns, or a path.
    #[arg(long, value_name = "NAME", conflicts_with = "link")]
    pub(crate) client_netns: Option<String>,

    /// Run the load inside this control group: the folder that holds its cgroup.procs.
    #[arg(long, value_name = "PATH", conflicts_with = "client_quota")]
    pub(crate) client_cgroup: Option<PathBuf>,

    /// An interface whose rate may be squeezed on the way from server to client, and its full
    /// rate where it has no tbf: [NETNS/]IFACE[,RATE]. It is journalled first and put back. Without
    /// NETNS it is of the namespace that the command is started in, whatever --client-netns says.
    #[arg(long, value_name = "DEV", conflicts_with = "link")]
    pub(crate) downlink_dev: Option<String>,

    /// The same on the way from client to server.
    #[arg(long, value_name = "DEV", conflicts_with = "link")]
    pub(crate) uplink_dev: Option<String>,

    /// A process behind the server, squeezed apart from it; may be repeated.
    #[arg(long, value_name = "PID")]
    pub(crate) backend_pid: Vec<u32>,

    /// Let another load generator produce the load, under the same observation: {url} in the
    /// command is the target; {connections}, {pipeline} and {duration} are the step's.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) driver: Option<String>,

    /// The server's process, where it cannot be found from the URL.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,

    /// The folder of the control group that the server's processes are in, where they cannot be
    /// found from the URL.
    #[arg(long, value_name = "DIR", conflicts_with = "server_pid")]
    pub(crate) server_cgroup: Option<PathBuf>,

    /// Do not measure the engine's own ceiling after each step.
    #[arg(long)]
    pub(crate) no_calibrate: bool,

    /// Seed of everything drawn at random.
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,

    /// You may load this host although it is not loopback, private or a lab address.
    #[arg(long, value_name = "HOST")]
    pub(crate) i_may_load: Vec<String>,

    /// Fail with exit code 3 unless it holds, such as 'p99<5ms', 'rps>20k', 'errors<0.1%', 'unavailable<1%'.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) threshold: Vec<String>,

    /// Fail with exit code 4 unless the verdict is server-bound, or the wall named.
    #[arg(long, value_name = "WALL")]
    pub(crate) require: Option<String>,

    /// Accepted for scripts of other tools: latencies are always printed.
    #[arg(long)]
    pub(crate) latency: bool,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// As whom programs run that are started for a run, and what they are given.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChildFlags {
    /// Run the subject and the driver as this user, with its groups [default: under sudo the user who
    /// called it; else as wallfinder itself]. `--as root` keeps root. Needs root.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Give the subject and the driver this variable too; may be repeated. Without it they have PATH,
    /// HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ, TERM, TMPDIR, GOMAXPROCS, GOGC, GOMEMLIMIT,
    /// GODEBUG, GOTRACEBACK and WALLFINDER_*, and what stands before the program in their command.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputFlags {
    /// What is printed.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,

    /// Write what is printed to this file instead.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Folder that records are kept in.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) runs: PathBuf,

    /// Name of the run, part of its folder's name.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// No live view and no progress.
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,

    /// Keep to ASCII.
    #[arg(long)]
    pub(crate) ascii: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Connections in all.
    #[arg(short = 'c', long, default_value = "64", value_parser = count_u32)]
    pub(crate) connections: u32,

    /// Open loop: requests per second in all, whatever the answers do.
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,

    /// Open loop: the rate grows linearly to this one over the run.
    #[arg(long, conflicts_with = "poisson")]
    pub(crate) rate_to: Option<Rate>,

    /// Open loop: exponential gaps between requests instead of even ones.
    #[arg(long)]
    pub(crate) poisson: bool,

    /// Stop after this many requests, counted from the end of --warmup, which is then none
    /// unless it is given; -d is the longest it may take.
    #[arg(short = 'n', long, value_parser = units::parse_count)]
    pub(crate) requests: Option<u64>,

    /// Keep every request of the window, one by one, in samples-N.parquet beside the record.
    #[arg(long)]
    pub(crate) samples: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RampFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Connections of each step.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count_u32,
          default_value = "1,4,16,64,256")]
    pub(crate) connections: Vec<u32>,

    /// Open loop: one step for each of these rates, at the largest number of connections.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rates: Vec<Rate>,

    /// One step for each of these numbers in flight on a connection, at the largest number of connections:
    /// pipelined requests, streams, messages.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count_u32, conflicts_with = "rates")]
    pub(crate) depths: Vec<u32>,

    /// Keep every request of the window, one by one, in samples-N.parquet beside the record.
    #[arg(long)]
    pub(crate) samples: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FindFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Connections in all; without it a ramp finds how many reach the ceiling.
    #[arg(short = 'c', long, value_parser = count_u32)]
    pub(crate) connections: Option<u32>,

    /// Open loop: requests per second in all. Below the ceiling the wall is the rate itself.
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,

    /// How much time it may take: quick (about a minute, likely at best), normal (about four),
    /// thorough (about a quarter of an hour).
    #[arg(long, value_enum, default_value = "normal")]
    pub(crate) effort: EffortFlag,

    /// Length of each measured window, 100ms to 30s; without it long enough for a thousand
    /// answers, within what the effort has time for. Longer ones steady a server that works in
    /// bursts.
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub(crate) window: Option<Nanos>,

    /// Where the server offers Go's /debug/pprof/: at the wall it is asked for its profiles, and
    /// the function behind the wall is named. A subject that says where it does is asked by
    /// itself; of others the kernel samples stacks, where that is allowed.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) pprof: Vec<String>,

    /// Do not look inside the server once the wall is known: the load ends a few seconds sooner, and no
    /// function is named.
    #[arg(long, conflicts_with = "pprof")]
    pub(crate) no_inside: bool,

    /// Predict a change, such as downlink=2 (twice the rate), link=10gbit, cpu=2x (the server's), client=2x,
    /// bytes=0.5.
    #[arg(long, value_name = "RESOURCE=FACTOR")]
    pub(crate) what_if: Vec<String>,

    /// Make the changes of --what-if that are ours to make (the rate of --link, --server-quota,
    /// processors that are free, engine threads, requests in flight), and measure each beside its
    /// prediction.
    #[arg(long)]
    pub(crate) lift: bool,

    /// Put the sham in the place of every squeeze: nothing may then be named a wall.
    #[arg(long, hide = true)]
    pub(crate) null: bool,
}

/// Two settings: what is not given for B is as for A. With nothing given for B the two are
/// the same, and no difference should be shown.
#[derive(Debug, Args)]
pub(crate) struct AbFlags {
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Connections in all.
    #[arg(short = 'c', long, default_value = "64", value_parser = count_u32)]
    pub(crate) connections: u32,

    /// Open loop: requests per second in all.
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,

    /// Rounds; each holds both settings once. -d is the time measured for each setting, over
    /// all rounds.
    #[arg(long, default_value = "8", value_parser = rounds)]
    pub(crate) rounds: u32,

    /// Paths of A and B, such as /read,/read-gz; the URL's own path is then not used.
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    pub(crate) path: Vec<String>,

    /// The URL of B.
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    pub(crate) url_b: Option<String>,

    /// A header field that B sends as well; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header_b: Vec<String>,

    /// The subject of B, such as 'catalogue --prefork' or 'GOGC=off catalogue'.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) subject_b: Option<String>,

    /// The link of B.
    #[arg(long, value_name = "LINK")]
    pub(crate) link_b: Option<String>,

    /// The quota of B's subject, in processors.
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub(crate) server_quota_b: Option<f64>,

    /// The driver of B, or `wallfinder` for our own engine.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) driver_b: Option<String>,

    /// Connections of B.
    #[arg(long, value_name = "N", value_parser = count_u32)]
    pub(crate) connections_b: Option<u32>,

    /// Requests in flight on each connection of B.
    #[arg(long, value_name = "N", value_parser = count_u32)]
    pub(crate) pipeline_b: Option<u32>,

    /// Requests in flight over all connections of B at most.
    #[arg(long, value_name = "REQUESTS", value_parser = count_u32)]
    pub(crate) max_in_flight_b: Option<u32>,

    /// B takes answers one by one (--no-batching): shows what batching them is worth.
    #[arg(long, conflicts_with = "no_batching")]
    pub(crate) no_batching_b: bool,

    /// Engine threads of B.
    #[arg(long, value_name = "N", value_parser = count_u32)]
    pub(crate) threads_b: Option<u32>,

    /// Processors for B's subject, where they are to be others than A's.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list)]
    pub(crate) server_cpus_b: Option<CpuList>,

    /// A setting of this host while B is held, such as huge-pages=always, rps=0-1, rfs=4096,
    /// busy-poll=50, irq-affinity=1; put back after each turn. May be repeated. Takes root. With
    /// huge-pages and busy-poll, which a process has from its start, each turn of A and of B has a
    /// server of its own: they need --subject.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) tune_b: Vec<Tuning>,

    /// What looks into B's server, or into what loads it (`client`), or `telemetry`, which every run
    /// has and A then does without: the ratio is what observing itself costs.
    #[arg(long, value_enum, value_name = "PROBE", value_delimiter = ',')]
    pub(crate) observe_b: Vec<ProbeFlag>,

    /// Ask one thing alone: whether B costs at most this share of A's throughput, such as 2%. The
    /// answer is yes where the whole 95 % interval lies within it, no where it lies beyond, and else
    /// not decided. Small shares take many rounds: --rounds 150 -d 375s.
    #[arg(long, value_name = "SHARE", conflicts_with = "rate", value_parser = share)]
    pub(crate) at_most_cost: Option<f64>,
}

/// Answers of several sizes, each in several codings. With --link every one of them is measured behind
/// it and without it, in turn, and what it lets through is predicted from the bytes alone.
#[derive(Debug, Args)]
pub(crate) struct BytesFlags {
    /// Here the URL may hold sizes in braces, such as 'http://subject:8085/realistic/{1k,8k,64k}.txt':
    /// quote it, or the shell takes it apart.
    #[command(flatten)]
    pub(crate) target: TargetFlags,

    /// Connections in all.
    #[arg(short = 'c', long, default_value = "20", value_parser = count_u32)]
    pub(crate) connections: u32,

    /// Codings that are asked for one at a time (Accept-Encoding); answers as they are (identity) are
    /// always among them.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "identity,gzip"
    )]
    pub(crate) codings: Vec<String>,

    /// Rounds; each holds every answer once on each side of the link. -d is the time measured for
    /// each of them, over all rounds.
    #[arg(long, default_value = "6", value_parser = rounds)]
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
    /// The built-in studies.
    List,
    /// What a study asks, does and claims.
    Show {
        /// Name of a built-in study, or a file.
        study: String,
    },
    /// Run a study and judge its claims.
    Run {
        /// Name of a built-in study, or a file.
        study: String,
        /// How much of it: smoke (seconds), demo (minutes), full (as the source, if it can be).
        #[arg(long, default_value = "smoke")]
        size: Size,
        /// Run this part of it too, such as size-sweep's `anomalies`; `study show` lists them.
        #[arg(long, value_name = "PART", value_delimiter = ',')]
        with: Vec<String>,
        #[command(flatten)]
        children: ChildFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Write a copy of a built-in study to edit.
    New {
        /// File to write.
        file: PathBuf,
        /// The study to start from.
        #[arg(long, default_value = "client-ceiling")]
        from: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JudgeFlags {
    #[command(flatten)]
    pub(crate) record: RecordFlags,

    /// Judge the claims of this study by the record's steps: a name or a file. A record of a built-in
    /// study is judged by that.
    #[arg(long)]
    pub(crate) study: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    pub(crate) record: RecordFlags,

    /// Write the page to this file, and not to `report.html` in the run's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordFlags {
    /// The run's folder; `runs/latest` is the last one.
    pub(crate) run: PathBuf,

    /// Fail with exit code 4 unless the verdict is server-bound, or the wall named.
    #[arg(long, value_name = "WALL")]
    pub(crate) require: Option<String>,

    /// Fail with exit code 3 unless it holds.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) threshold: Vec<String>,

    /// What is printed.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,

    /// Write what is printed to this file instead.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Keep to ASCII.
    #[arg(long)]
    pub(crate) ascii: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// The run to compare with.
    pub(crate) before: PathBuf,
    /// The run to compare.
    pub(crate) after: PathBuf,

    /// Fail with exit code 3 where a step's throughput is surely below this many times the earlier
    /// one's, or a step is missing: 0.9. Two runs of the same thing differ by some per cent; what is
    /// less than that, `ab` finds.
    #[arg(long, value_name = "RATIO", value_parser = positive_ratio)]
    pub(crate) at_least: Option<f64>,

    /// What is printed.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SamplesFlags {
    /// Files of `run --samples`, or folders of runs that hold some.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// What is printed.
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

    /// Connections in all.
    #[arg(short = 'c', long, default_value = "64", value_parser = count_u32)]
    pub(crate) connections: u32,

    /// Open loop: requests per second in all, whatever the answers do.
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,

    /// Where the server offers Go's /debug/pprof/; several, such as prefork children, are merged.
    /// Subjects of ours are asked by themselves. Without any the kernel samples its stacks.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) pprof: Vec<String>,

    /// Let the kernel sample the server's stacks beside Go's profiles: whatever it is written in,
    /// user and kernel. Takes root.
    #[arg(long)]
    pub(crate) stacks: bool,

    /// Watch the system calls too, by name, until enough are known, a second at most: how often for each
    /// request, how long, how many failed. Takes root; a server that calls often is slower meanwhile.
    #[arg(long)]
    pub(crate) calls: bool,

    /// Look inside the client as well, this tool or the --driver, by what the kernel tells of it.
    /// Takes root.
    #[arg(long)]
    pub(crate) client: bool,

    /// Capture these alone [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) kinds: Vec<KindFlag>,

    /// Keep the runtime's trace of the first second too, for `go tool trace`. It costs the server
    /// much more than the others.
    #[arg(long)]
    pub(crate) trace: bool,

    /// What names of functions say of what they do, in place of the table that
    /// `wallfinder pprof --rules-default` prints.
    #[arg(long, value_name = "FILE")]
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
    /// Files of profiles, compressed or not; several of one kind are merged.
    #[arg(required_unless_present = "rules_default")]
    pub(crate) files: Vec<PathBuf>,

    /// What they are of, where that is not clear from what they count: waits and contention look
    /// alike.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<KindFlag>,

    /// Show what changed since this profile: each function, for a second and where it is known for a request.
    #[arg(long, value_name = "FILE")]
    pub(crate) before: Option<PathBuf>,

    /// Print stacks as folded lines, for tools that draw flame graphs.
    #[arg(long, conflicts_with = "before")]
    pub(crate) folded: bool,

    /// What names of functions say of what they do, in place of the table that ships.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Print the table that ships, to be edited.
    #[arg(long)]
    pub(crate) rules_default: bool,

    /// What is printed.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateFlags {
    /// Connections in all.
    #[arg(short = 'c', long, default_value = "64", value_parser = count_u32)]
    pub(crate) connections: u32,

    /// Requests in flight on each connection.
    #[arg(long = "pipeline", aliases = ["pipelining", "streams"], default_value = "1", value_parser = count_u32)]
    pub(crate) pipeline: u32,

    /// Speak HTTP/2.
    #[arg(long)]
    pub(crate) http2: bool,

    /// Speak TLS around it.
    #[arg(long)]
    pub(crate) tls: bool,

    /// Engine threads; by default one for each processor of the client.
    #[arg(short = 't', long = "threads", alias = "workers", value_parser = count_u32)]
    pub(crate) workers: Option<u32>,

    /// Length of each measurement.
    #[arg(short = 'd', long, default_value = "2s")]
    pub(crate) duration: Nanos,

    /// Bytes of the answers' bodies.
    #[arg(long, default_value = "16")]
    pub(crate) answer_bytes: Bytes,

    /// How sockets are waited for.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) io: IoFlag,

    /// Processors for the workers.
    #[arg(long, value_name = "CPUS", value_parser = cpu_list)]
    pub(crate) client_cpus: Option<CpuList>,

    /// What is printed.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: PlainFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaFlags {
    /// Which schema.
    #[arg(value_enum, default_value = "record")]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    Record,
    Study,
    Scenario,
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

fn cpu_list(text: &str) -> Result<CpuList, String> {
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
    let there = wallfinder_sys::process::allowed_cpus();
    match cpus.iter().find(|cpu| !there.contains(cpu)) {
        Some(cpu) => Err(format!(
            "processor {cpu} is not one that this process may use: {there:?}"
        )),
        None => Ok(CpuList(cpus)),
    }
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
