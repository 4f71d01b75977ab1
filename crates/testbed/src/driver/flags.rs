//! The flags of each load generator, as data: which take a value, and what they mean for
//! the load. From their `--help` in the versions of November 2026.

use super::DriverKind;

/// What a flag says of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    Connections,
    InFlight,
    /// Requests in flight over all connections.
    InFlightTotal,
    Workers,
    Duration,
    Requests,
    RequestsPerClient,
    Rate,
    RatePerConnection,
    Warmup,
    Timeout,
    Method,
    /// A fixed method, without a value.
    MethodIs(&'static str),
    Header,
    Body,
    BodyFile,
    BodyBytes,
    Url,
    /// A connection for each request, or not any more.
    ConnectionPerRequest(bool),
    /// The output is set: nothing is added.
    Output,
    /// Quantiles are on.
    Latency,
    /// Where requests come from, instead of the command line.
    Targets,
    /// A script makes the requests: how many at a time, it alone knows.
    Script,
    /// It calls a server of gRPC, and not of HTTP.
    Grpc,
    /// The version of HTTP.
    HttpVersion,
    /// It is HTTP/2.
    Http2,
    /// Latency is counted from the intended start.
    LatencyFromDue,
    /// A secret, which is never kept.
    Secret,
    /// Something that changes no part of the load known here.
    Else,
}

/// Names of a flag, whether a value follows, and its meaning.
pub(super) struct Flag {
    pub(super) names: &'static [&'static str],
    pub(super) takes_value: bool,
    pub(super) means: Means,
}

const fn value(names: &'static [&'static str], means: Means) -> Flag {
    Flag {
        names,
        takes_value: true,
        means,
    }
}

const fn switch(names: &'static [&'static str], means: Means) -> Flag {
    Flag {
        names,
        takes_value: false,
        means,
    }
}

/// How a program reads its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `-c100`, `-c 100`, `-lj`, `--connections=100`.
    Getopt,
    /// Go's `flag`: `-rate 50`, `-rate=50`, `--rate=50`; nothing attached, nothing bundled.
    Go,
}

pub(super) fn style(kind: DriverKind) -> Style {
    match kind {
        DriverKind::Hey | DriverKind::Vegeta | DriverKind::Fortio | DriverKind::EchoClient => {
            Style::Go
        }
        _ => Style::Getopt,
    }
}

/// The flags of a kind. Those unknown here are taken for switches.
pub(super) fn of(kind: DriverKind) -> &'static [Flag] {
    match kind {
        DriverKind::Autocannon => AUTOCANNON,
        DriverKind::Wrk | DriverKind::Wrk2 => WRK,
        DriverKind::Oha => OHA,
        DriverKind::H2load => H2LOAD,
        DriverKind::K6 => K6,
        DriverKind::Ghz => GHZ,
        DriverKind::Ab => AB,
        DriverKind::Hey => HEY,
        DriverKind::Bombardier => BOMBARDIER,
        DriverKind::Vegeta => VEGETA,
        DriverKind::Fortio => FORTIO,
        DriverKind::EchoClient => ECHO_CLIENT,
        DriverKind::Other => &[],
    }
}

use Means::*;

const AUTOCANNON: &[Flag] = &[
    value(&["-c", "--connections"], Connections),
    value(&["-p", "--pipelining"], InFlight),
    value(&["-d", "--duration"], Duration),
    value(&["-a", "--amount"], Requests),
    value(&["-O", "--maxOverallRequests"], Requests),
    value(&["-w", "--workers"], Workers),
    value(&["-R", "--overallRate"], Rate),
    value(&["-r", "--connectionRate"], RatePerConnection),
    value(&["-t", "--timeout"], Timeout),
    value(&["-m", "--method"], Method),
    value(&["-H", "--headers"], Header),
    value(&["-b", "--body"], Body),
    value(&["-i", "--input"], BodyFile),
    switch(&["-j", "--json"], Output),
    switch(&["-W", "--warmup"], Warmup),
    value(
        &[
            "-L",
            "-S",
            "--socketPath",
            "-T",
            "--title",
            "-F",
            "--form",
            "--har",
        ],
        Else,
    ),
    value(&["-B", "--bailout", "-M", "--maxConnectionRequests"], Else),
    value(
        &[
            "-D",
            "--reconnectRate",
            "-s",
            "--servername",
            "-E",
            "--expectBody",
        ],
        Else,
    ),
    value(&["--cert", "--key", "--ca"], Else),
];

const WRK: &[Flag] = &[
    value(&["-c", "--connections"], Connections),
    value(&["-d", "--duration"], Duration),
    value(&["-t", "--threads"], Workers),
    value(&["-R", "--rate"], Rate),
    value(&["--timeout"], Timeout),
    value(&["-H", "--header"], Header),
    value(&["-s", "--script"], Script),
    switch(&["-L", "--latency", "-U", "--u_latency"], Latency),
];

const OHA: &[Flag] = &[
    value(&["-c"], Connections),
    value(&["-p"], InFlight),
    value(&["-z"], Duration),
    value(&["-n"], Requests),
    value(&["-q"], Rate),
    value(&["-t"], Timeout),
    value(&["-m", "--method"], Method),
    value(&["-H"], Header),
    value(&["-d"], Body),
    value(&["-D"], BodyFile),
    value(&["--output-format"], Output),
    switch(&["-j", "--json"], Output),
    switch(&["--disable-keepalive"], ConnectionPerRequest(true)),
    switch(&["--latency-correction"], LatencyFromDue),
    switch(&["--http2"], Http2),
    value(&["--http-version"], HttpVersion),
    value(&["--worker-threads"], Workers),
    value(
        &[
            "--burst-delay",
            "--burst-rate",
            "--max-repeat",
            "--dump-urls",
            "--fps",
        ],
        Else,
    ),
    value(
        &["--connect-timeout", "-A", "-Z", "-F", "--form", "-T"],
        Else,
    ),
    value(&["--aws-sigv4", "-x", "--proxy-http-version"], Else),
    value(&["--host", "-r", "--redirect", "--cacert", "--cert"], Else),
    value(
        &[
            "--key",
            "--connect-to",
            "--unix-socket",
            "--db-url",
            "-o",
            "--output",
        ],
        Else,
    ),
    value(&["-u", "--time-unit"], Else),
    value(&["-a", "--aws-session", "--proxy-header"], Secret),
];

const H2LOAD: &[Flag] = &[
    value(&["-c", "--clients"], Connections),
    value(&["-m", "--max-concurrent-streams"], InFlight),
    value(&["-D", "--duration"], Duration),
    value(&["-n", "--requests"], Requests),
    value(&["-t", "--threads"], Workers),
    value(&["--rps"], RatePerConnection),
    value(&["--warm-up-time"], Warmup),
    value(&["-N", "--connection-inactivity-timeout"], Timeout),
    value(&["-H", "--header"], Header),
    value(&["-d", "--data"], BodyFile),
    value(&["-i", "--input-file", "--timing-script-file"], Targets),
    value(&["-B", "--base-uri"], Url),
    value(
        &["-f", "--max-frame-size", "-w", "--window-bits", "-W"],
        Else,
    ),
    value(
        &[
            "--connection-window-bits",
            "--ciphers",
            "--tls13-ciphers",
            "-p",
        ],
        Else,
    ),
    value(
        &["--no-tls-proto", "-r", "--rate", "--rate-period", "-T"],
        Else,
    ),
    value(
        &["--connection-active-timeout", "--npn-list", "--alpn-list"],
        Else,
    ),
    value(
        &[
            "--header-table-size",
            "--encoder-header-table-size",
            "--log-file",
        ],
        Else,
    ),
    value(
        &["--qlog-file-base", "--connect-to", "--groups", "--sni"],
        Else,
    ),
    value(&["--max-udp-payload-size", "--output-file"], Else),
];

const K6: &[Flag] = &[
    value(&["-u", "--vus"], Connections),
    value(&["-d", "--duration"], Duration),
    value(&["-i", "--iterations"], Requests),
    value(&["--rps"], Rate),
    value(&["--summary-export"], Output),
    value(&["--summary-trend-stats"], Latency),
    switch(
        &["--no-connection-reuse", "--no-vu-connection-reuse"],
        ConnectionPerRequest(true),
    ),
    value(
        &[
            "-s",
            "--stage",
            "--execution-segment",
            "--execution-segment-sequence",
        ],
        Else,
    ),
    value(
        &[
            "--max-redirects",
            "--batch",
            "--batch-per-host",
            "--user-agent",
        ],
        Else,
    ),
    value(
        &[
            "--min-iteration-duration",
            "--blacklist-ip",
            "--block-hostnames",
        ],
        Else,
    ),
    value(
        &[
            "--summary-time-unit",
            "--system-tags",
            "--tag",
            "--console-output",
        ],
        Else,
    ),
    value(
        &[
            "--local-ips",
            "--dns",
            "--compatibility-mode",
            "-t",
            "--type",
            "-e",
        ],
        Else,
    ),
    value(
        &["--env", "--summary-mode", "--traces-output", "-o", "--out"],
        Else,
    ),
    value(
        &[
            "-c",
            "--config",
            "-a",
            "--address",
            "--log-output",
            "--log-format",
        ],
        Else,
    ),
];

const GHZ: &[Flag] = &[
    value(&["--connections"], Connections),
    value(&["-c", "--concurrency"], InFlightTotal),
    value(&["-z", "--duration"], Duration),
    value(&["-n", "--total"], Requests),
    value(&["-r", "--rps"], Rate),
    value(&["-t", "--timeout"], Timeout),
    value(&["--cpus"], Workers),
    value(&["-O", "--format"], Output),
    value(&["-d", "--data"], Body),
    value(&["-D", "--data-file", "-B", "--binary-file"], BodyFile),
    value(
        &[
            "--config",
            "--proto",
            "--protoset",
            "--call",
            "-i",
            "--import-paths",
        ],
        Else,
    ),
    value(
        &["--cacert", "--cert", "--key", "--cname", "--authority"],
        Else,
    ),
    value(
        &[
            "--load-schedule",
            "--load-start",
            "--load-step",
            "--load-end",
        ],
        Else,
    ),
    value(&["--load-step-duration", "--load-max-duration"], Else),
    value(
        &[
            "--concurrency-schedule",
            "--concurrency-start",
            "--concurrency-end",
        ],
        Else,
    ),
    value(&["--concurrency-step", "--concurrency-step-duration"], Else),
    value(
        &["--concurrency-max-duration", "-x", "--max-duration"],
        Else,
    ),
    value(&["--duration-stop", "-M", "--metadata-file"], Else),
    value(
        &[
            "--stream-interval",
            "--stream-call-duration",
            "--stream-call-count",
        ],
        Else,
    ),
    value(&["-o", "--output", "--skipFirst"], Else),
    value(
        &[
            "--connect-timeout",
            "--keepalive",
            "--name",
            "--tags",
            "--debug",
        ],
        Else,
    ),
    value(&["--lb-strategy"], Else),
    value(&["-m", "--metadata", "--reflect-metadata"], Secret),
];

const AB: &[Flag] = &[
    value(&["-c"], Connections),
    value(&["-t"], Duration),
    value(&["-n"], Requests),
    value(&["-s"], Timeout),
    value(&["-m"], Method),
    switch(&["-i"], MethodIs("HEAD")),
    value(&["-p"], BodyFile),
    value(&["-u"], BodyFile),
    value(&["-H"], Header),
    switch(&["-k"], ConnectionPerRequest(false)),
    value(&["-b", "-B", "-T", "-v", "-x", "-y", "-z", "-X"], Else),
    value(&["-g", "-e", "-Z", "-f", "-E"], Else),
    value(&["-A", "-P", "-C"], Secret),
];

const HEY: &[Flag] = &[
    value(&["-c"], Connections),
    value(&["-z"], Duration),
    value(&["-n"], Requests),
    value(&["-q"], RatePerConnection),
    value(&["-t"], Timeout),
    value(&["-m"], Method),
    value(&["-H"], Header),
    value(&["-d"], Body),
    value(&["-D"], BodyFile),
    value(&["-cpus"], Workers),
    value(&["-o"], Output),
    switch(&["-disable-keepalive"], ConnectionPerRequest(true)),
    value(&["-A", "-T", "-x", "-host", "-U"], Else),
    value(&["-a"], Secret),
];

const BOMBARDIER: &[Flag] = &[
    value(&["-c", "--connections"], Connections),
    value(&["-d", "--duration"], Duration),
    value(&["-n", "--requests"], Requests),
    value(&["-r", "--rate"], Rate),
    value(&["-t", "--timeout"], Timeout),
    value(&["-m", "--method"], Method),
    value(&["-H", "--header"], Header),
    value(&["-b", "--body"], Body),
    value(&["-f", "--body-file"], BodyFile),
    value(&["-o", "--format"], Output),
    switch(&["-l", "--latencies"], Latency),
    switch(&["-a", "--disableKeepAlives"], ConnectionPerRequest(true)),
    value(&["--cert", "--key", "-p", "--print"], Else),
];

const VEGETA: &[Flag] = &[
    value(&["-max-connections"], Connections),
    value(&["-duration"], Duration),
    value(&["-rate"], Rate),
    value(&["-timeout"], Timeout),
    value(&["-header"], Header),
    value(&["-body"], BodyFile),
    value(&["-targets"], Targets),
    value(&["-output"], Output),
    value(
        &[
            "-cert",
            "-chunked",
            "-connect-to",
            "-connections",
            "-dns-ttl",
            "-format",
        ],
        Else,
    ),
    value(
        &[
            "-key",
            "-laddr",
            "-max-body",
            "-max-workers",
            "-name",
            "-opentelemetry-addr",
        ],
        Else,
    ),
    value(
        &["-prometheus-addr", "-promql", "-redirects", "-resolvers"],
        Else,
    ),
    value(&["-root-certs", "-unix-socket", "-workers"], Else),
    switch(&["-keepalive"], ConnectionPerRequest(false)),
    value(&["-proxy-header"], Secret),
];

const FORTIO: &[Flag] = &[
    value(&["-c"], Connections),
    value(&["-s"], InFlight),
    value(&["-t"], Duration),
    value(&["-n"], Requests),
    value(&["-qps"], Rate),
    value(&["-timeout"], Timeout),
    value(&["-X"], Method),
    value(&["-H"], Header),
    value(&["-payload"], Body),
    value(&["-payload-file"], BodyFile),
    value(&["-payload-size"], BodyBytes),
    value(&["-json"], Output),
    value(&["-r"], Latency),
    switch(&["-keepalive"], ConnectionPerRequest(false)),
    switch(&["-grpc"], Grpc),
    value(&["-grpc-method"], Else),
    value(&["-p", "-offset", "-labels", "-runid", "-data-dir"], Else),
    value(
        &["-content-type", "-resolve", "-cert", "-key", "-cacert"],
        Else,
    ),
    value(
        &[
            "-loglevel",
            "-abort-on",
            "-httpbufferkb",
            "-connection-reuse",
        ],
        Else,
    ),
    value(
        &["-access-log-file", "-access-log-format", "-healthservice"],
        Else,
    ),
    value(&["-grpc-ping-delay", "-grpc-max-streams", "-profile"], Else),
    value(&["-user", "-grpc-metadata"], Secret),
];

const ECHO_CLIENT: &[Flag] = &[
    value(&["-clients"], Connections),
    value(&["-clients-per-channel"], InFlight),
    value(&["-requests"], RequestsPerClient),
    value(&["-duration"], Duration),
    value(&["-warmup"], Warmup),
    value(&["-timeout"], Timeout),
    value(&["-payload"], BodyBytes),
    // What a semaphore leaves in flight stands in the report.
    value(&["-semaphore", "-answer", "-latencies"], Else),
    value(&["-transport", "-idle-connections", "-body"], Else),
    value(&["-read-buffer", "-write-buffer", "-buffer-pool"], Else),
    value(&["-window", "-connection-window"], Else),
    value(&["-gogc", "-memory-limit"], Else),
    value(&["-pprof", "-mutex-fraction", "-block-rate"], Else),
];
