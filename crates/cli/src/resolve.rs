//! Flags and a scenario file become a scenario, once: after this no command that makes load sees flags.
//!
//! ```text
//!  --scenario FILE, or the defaults ─► what was given on the command line ─► Scenario
//! ```
//!
//! A flag counts where it was given. One that contradicts what the file says takes its place.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::ArgMatches;
use clap::parser::ValueSource;
use wallfinder_model::scenario::{Deal, Io, OnLostClient, Probe, Telling, TlsVersion};
use wallfinder_model::traffic::{Data, Replay, Traffic};
use wallfinder_model::{Decode, Effort, Nanos, Scenario};
use wallfinder_scenario::change::with_path;
use wallfinder_scenario::{Fault, FileError, ScenarioFile};
use wallfinder_sys::file::{self, Source, Unread};
use wallfinder_sys::process;
use wallfinder_testbed::redact::{HIDDEN, is_telling};
use wallfinder_traffic::{TRAFFIC_BYTES_MAX, TrafficFile, of_urls};

use crate::exit::{self, Failed};
use crate::flags::{
    AbFlags, BytesFlags, ChildFlags, CpuList, DealFlag, DecodeFlag, EffortFlag, FindFlags, IoFlag,
    OnLostFlag, ProbeFlag, ProfileFlags, RampFlags, RunFlags, TargetFlags, TlsVersionFlag,
};
use crate::given;
use crate::job::{Around, Job, Values};
use crate::reach::Reach;
use crate::secrets;
use crate::target::Url;

/// Longest replay of a log that is not cut by -d.
const REPLAY_AT_MOST: Nanos = Nanos::from_secs(3600);
/// Most secrets in the rows of a traffic file itself: each is looked for in all that is written.
const SECRET_CELLS_MAX: usize = 2_000;

/// A command's scenario, and what is around it.
pub(crate) struct Resolved {
    pub(crate) scenario: Scenario,
    pub(crate) around: Around,
    /// Whether the scenario is to be printed, and nothing run.
    pub(crate) is_printed: bool,
}

impl Resolved {
    /// What a command is given. From here on messages hold none of its secrets.
    pub(crate) fn job(self) -> Result<Job, Failed> {
        self.around.job(self.scenario)
    }
}

/// Which flags were given, and where their values go.
struct Given<'m> {
    matches: &'m ArgMatches,
}

impl Given<'_> {
    fn is(&self, flag: &str) -> bool {
        self.matches.value_source(flag) == Some(ValueSource::CommandLine)
    }

    fn set<T: Clone>(&self, flag: &str, place: &mut T, value: &T) {
        if self.is(flag) {
            place.clone_from(value);
        }
    }

    fn some<T: Clone>(&self, flag: &str, place: &mut Option<T>, value: &T) {
        if self.is(flag) {
            *place = Some(value.clone());
        }
    }

    /// A flag that takes the place of others that the file may have.
    fn clear<T: Default>(&self, flag: &str, place: &mut T) {
        if self.is(flag) {
            *place = T::default();
        }
    }
}

pub(crate) fn run(flags: &RunFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    resolved(&flags.target, matches, Part::None, |given, scenario| {
        own_of_run(given, flags, scenario);
    })
}

fn own_of_run(given: &Given<'_>, flags: &RunFlags, scenario: &mut Scenario) {
    let load = &mut scenario.load;
    given.some("connections", &mut load.connections, &flags.connections);
    given.set("rate", &mut load.rate, &flags.rate);
    given.clear("rate_to", &mut load.poisson);
    given.set("rate_to", &mut load.rate_to, &flags.rate_to);
    given.clear("poisson", &mut load.rate_to);
    given.set("poisson", &mut load.poisson, &flags.poisson);
    given.set("requests", &mut load.requests, &flags.requests);
    given.set("samples", &mut scenario.watch.samples, &flags.samples);
    if let Some(file) = &flags.replay {
        scenario.traffic = Traffic {
            replay: Some(Replay {
                file: file.clone(),
                format: flags.log_format.clone(),
                speed: flags.speed,
                again: flags.again,
            }),
            ..Traffic::default()
        };
        // It ends with its log, and what begins it is no start of a server's.
        let load = &mut scenario.load;
        if !given.is("duration") {
            load.duration = REPLAY_AT_MOST;
        }
        if !given.is("warmup") {
            load.warmup = Some(Nanos(0));
        }
    }
}

pub(crate) fn ramp(flags: &RampFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    resolved(&flags.target, matches, Part::Ramp, |given, scenario| {
        let ramp = scenario.ramp.get_or_insert_default();
        given.set("connections", &mut ramp.connections, &flags.connections);
        given.clear("rates", &mut ramp.depths);
        given.set("rates", &mut ramp.rates, &flags.rates);
        given.clear("depths", &mut ramp.rates);
        given.set("depths", &mut ramp.depths, &flags.depths);
        given.set("samples", &mut scenario.watch.samples, &flags.samples);
    })
}

pub(crate) fn find(flags: &FindFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    resolved(&flags.target, matches, Part::Squeeze, |given, scenario| {
        let (load, watch) = (&mut scenario.load, &mut scenario.watch);
        given.set("connections", &mut load.connections, &flags.connections);
        given.set("rate", &mut load.rate, &flags.rate);
        given.clear("pprof", &mut watch.no_inside);
        given.set("pprof", &mut watch.pprof, &flags.pprof);
        given.clear("no_inside", &mut watch.pprof);
        given.set("no_inside", &mut watch.no_inside, &flags.no_inside);
        let squeeze = scenario.squeeze.get_or_insert_default();
        given.set("effort", &mut squeeze.effort, &flags.effort.into());
        given.set("window", &mut squeeze.window, &flags.window);
        given.set("what_if", &mut squeeze.what_if, &flags.what_if);
        given.set("lift", &mut squeeze.lift, &flags.lift);
        given.set("null", &mut squeeze.null, &flags.null);
    })
}

pub(crate) fn ab(flags: &AbFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    let resolved = resolved(&flags.target, matches, Part::Ab, |given, scenario| {
        let load = &mut scenario.load;
        given.some("connections", &mut load.connections, &flags.connections);
        given.set("rate", &mut load.rate, &flags.rate);
        let ab = scenario.ab.get_or_insert_default();
        given.set("rounds", &mut ab.rounds, &flags.rounds);
        given.set("at_most_cost", &mut ab.at_most_cost, &flags.at_most_cost);
        let tunings: Vec<String> = flags.tune_b.iter().map(ToString::to_string).collect();
        given.set("tune_b", &mut ab.tune, &tunings);
        let probes: Vec<_> = flags
            .observe_b
            .iter()
            .map(|probe| (*probe).into())
            .collect();
        given.set("observe_b", &mut ab.observe, &probes);
        let b = &mut ab.b;
        if let [path_a, path_b] = flags.path.as_slice() {
            scenario.target.url = with_path(&scenario.target.url, path_a);
            b.path = Some(path_b.clone());
            b.url = None;
        }
        given.clear("url_b", &mut b.path);
        given.set("url_b", &mut b.url, &flags.url_b);
        given.set("header_b", &mut b.headers, &flags.header_b);
        given.set("subject_b", &mut b.subject, &flags.subject_b);
        given.set("link_b", &mut b.link, &flags.link_b);
        given.set("server_quota_b", &mut b.server_quota, &flags.server_quota_b);
        given.set("driver_b", &mut b.driver, &flags.driver_b);
        given.set("connections_b", &mut b.connections, &flags.connections_b);
        given.set("pipeline_b", &mut b.pipeline, &flags.pipeline_b);
        given.set(
            "max_in_flight_b",
            &mut b.max_in_flight,
            &flags.max_in_flight_b,
        );
        given.set("no_batching_b", &mut b.no_batching, &flags.no_batching_b);
        given.set("threads_b", &mut b.threads, &flags.threads_b);
        given.set(
            "server_cpus_b",
            &mut b.server_cpus,
            &cpus(&flags.server_cpus_b),
        );
    })?;
    match flags.path.len() {
        0 | 2 => Ok(resolved),
        _ => Err(Failed::usage(
            "--path takes two paths with a comma between them, such as /read,/read-gz",
        )),
    }
}

pub(crate) fn bytes(flags: &BytesFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    resolved(&flags.target, matches, Part::Bytes, |given, scenario| {
        let connections = &mut scenario.load.connections;
        given.some("connections", connections, &flags.connections);
        let bytes = scenario.bytes.get_or_insert_default();
        given.set("codings", &mut bytes.codings, &flags.codings);
        given.set("rounds", &mut bytes.rounds, &flags.rounds);
    })
}

pub(crate) fn profile(flags: &ProfileFlags, matches: &ArgMatches) -> Result<Resolved, Failed> {
    resolved(&flags.target, matches, Part::None, |given, scenario| {
        let (load, watch) = (&mut scenario.load, &mut scenario.watch);
        given.some("connections", &mut load.connections, &flags.connections);
        given.set("rate", &mut load.rate, &flags.rate);
        given.set("pprof", &mut watch.pprof, &flags.pprof);
        given.set("stacks", &mut watch.stacks, &flags.stacks);
        given.set("calls", &mut watch.calls, &flags.calls);
        given.set("client", &mut watch.client, &flags.client);
        let kinds: Vec<_> = flags.kinds.iter().map(|kind| (*kind).into()).collect();
        given.set("kinds", &mut watch.kinds, &kinds);
        given.set("trace", &mut watch.trace, &flags.trace);
        given.set("rules", &mut watch.rules, &flags.rules);
    })
}

/// The part of a scenario that is of one command alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    Ramp,
    Squeeze,
    Ab,
    Bytes,
}

/// What all commands that make load have in common; `own` adds what is this one's.
fn resolved(
    flags: &TargetFlags,
    matches: &ArgMatches,
    part: Part,
    own: impl FnOnce(&Given<'_>, &mut Scenario),
) -> Result<Resolved, Failed> {
    let file = flags.scenario.as_deref().map(read).transpose()?;
    let read = file.as_ref().map(|file| file.scenario.clone());
    let read = read.unwrap_or_default();
    let mut scenario = Scenario {
        ramp: read.ramp.clone().filter(|_| part == Part::Ramp),
        squeeze: read.squeeze.clone().filter(|_| part == Part::Squeeze),
        ab: read.ab.clone().filter(|_| part == Part::Ab),
        bytes: read.bytes.clone().filter(|_| part == Part::Bytes),
        ..read
    };
    let given = Given { matches };
    if let (Some(_), Part::Ab | Part::Bytes) = (flags.more_urls.first(), part) {
        return Err(Failed::usage(
            "it takes one URL: `ab` has the other as --url-b, or both paths as --path A,B; of `bytes` braces in its path \
             stand for several",
        ));
    }
    common(&given, flags, &mut scenario);
    let (sent, traffic_file) = traffic(flags)?;
    if let Some(sent) = sent {
        scenario.traffic = sent;
    }
    own(&given, &mut scenario);
    if let Some(fault) = unknown_processor(&scenario) {
        return Err(Failed::usage(fault.message));
    }
    let values = match flags.print_scenario {
        true => Values::default(),
        false => Values::read(&scenario)?,
    };
    secrets::learn_scenario(&scenario, &values);
    Ok(Resolved {
        scenario,
        around: Around {
            output: flags.output.clone(),
            reach: Reach::of(&flags.i_may_load),
            file: file.map(Arc::new),
            traffic: traffic_file.map(Arc::new),
            values: Arc::new(values),
        },
        is_printed: flags.print_scenario,
    })
}

/// What users send by a file that was named, where one was, and that file.
fn traffic(flags: &TargetFlags) -> Result<(Option<Traffic>, Option<TrafficFile>), Failed> {
    let text = |path: &Path| {
        let read = file::read_text(
            Source::FileOrPipe(path.into()),
            TRAFFIC_BYTES_MAX,
            file::PATIENCE,
        );
        read.map_err(|error| unread(path, &error))
    };
    match (&flags.traffic, &flags.urls_from) {
        (Some(path), _) => {
            let text = text(path)?;
            let file = TrafficFile::parse(&path.display().to_string(), &text)
                .map_err(|error| refused(&error, &text))?;
            let fault = too_many_secrets(&file.traffic);
            if let Some(error) = fault.and_then(|fault| file.error(&fault)) {
                return Err(refused(&error, &text));
            }
            if file.traffic.is_empty() {
                return Err(Failed::usage(format!(
                    "{}: it has no [[request]] and no [[session]]",
                    path.display()
                )));
            }
            Ok((Some(file.traffic.clone()), Some(file)))
        }
        (None, Some(path)) => of_urls(&text(path)?, &is_telling)
            .map(|traffic| (Some(traffic), None))
            .map_err(|why| Failed::usage(format!("--urls-from {}: {why}", path.display()))),
        (None, None) if flags.more_urls.is_empty() => Ok((None, None)),
        (None, None) => {
            let urls = flags.url.iter().chain(&flags.more_urls);
            let traffic = of_urls(&list_of(urls)?, &is_telling).map_err(Failed::usage)?;
            Ok((Some(traffic), None))
        }
    }
}

/// URLs as a list with weights, those of the first one's origin by their paths, which are then their names.
fn list_of<'u>(urls: impl Iterator<Item = &'u String>) -> Result<String, Failed> {
    let mut lines: Vec<(String, u32)> = Vec::new();
    let mut first = None;
    for given in urls {
        let line = match given.starts_with('/') {
            true => given.clone(),
            false => {
                let url = Url::parse(given)?;
                let origin = (url.scheme, url.authority, url.user_info);
                match *first.get_or_insert_with(|| origin.clone()) == origin {
                    true => url.path_and_query,
                    false => given.clone(),
                }
            }
        };
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, times)) => *times += 1,
            None => lines.push((line, 1)),
        }
    }
    let lines = lines.into_iter();
    Ok(lines
        .map(|(line, times)| format!("{times} {line}\n"))
        .collect())
}

/// Why a file of traffic was not read.
fn unread(path: &Path, error: &Unread) -> Failed {
    let way_out = match error {
        Unread::TooLong { .. } => {
            "; put its rows into a CSV file beside it, as [data.NAME] with `file = \"rows.csv\"`"
        }
        _ => "",
    };
    let file = path.display();
    Failed::usage(format!("{file} cannot be read: {error}{way_out}"))
}

/// Rows of a traffic file that hold more secrets than are looked for.
fn too_many_secrets(traffic: &Traffic) -> Option<Fault> {
    let secrets = |data: &Data| {
        let columns = data.rows.iter().flat_map(BTreeMap::keys);
        columns.filter(|column| is_telling(column)).count()
    };
    let counts = traffic.data.iter().map(|(name, of)| (name, secrets(of)));
    let count: usize = counts.clone().map(|(_, count)| count).sum();
    let (name, _) = counts.max_by_key(|(_, count)| *count)?;
    if count <= SECRET_CELLS_MAX {
        return None;
    }
    let why = format!(
        "its rows hold {count} secrets, and {SECRET_CELLS_MAX} are the most in a traffic file itself: put them into a CSV \
         file beside it, `file = \"{name}.csv\"`"
    );
    Some(Fault::at(format!("traffic.data.{name}.rows"), why))
}

fn cpus(list: &Option<CpuList>) -> Option<Vec<u32>> {
    list.clone().map(|list| list.0)
}

fn common(given: &Given<'_>, flags: &TargetFlags, scenario: &mut Scenario) {
    let target = &mut scenario.target;
    if let Some(url) = &flags.url {
        target.url.clone_from(url);
    }
    given.set("method", &mut target.method, &flags.method);
    given.set("headers", &mut target.headers, &flags.headers);
    given.clear("body_bytes", &mut target.body);
    given.clear("body", &mut target.body_bytes);
    if given.is("body") || given.is("body_bytes") {
        target.echo_bytes = None;
    }
    given.set("body", &mut target.body, &flags.body);
    given.set("body_bytes", &mut target.body_bytes, &flags.body_bytes);
    given.set("http2", &mut target.http2, &flags.http2);
    let frame = flags.frame.as_ref().map(ToString::to_string);
    given.set("frame", &mut target.frame, &frame);
    given.clear("protoset", &mut target.proto);
    given.clear("protoset", &mut target.proto_path);
    given.clear("proto", &mut target.protoset);
    given.set("proto", &mut target.proto, &flags.proto);
    given.set("proto_path", &mut target.proto_path, &flags.proto_path);
    given.set("protoset", &mut target.protoset, &flags.protoset);
    given.set("deadline", &mut target.deadline, &flags.deadline);
    given.set("in_turn", &mut target.in_turn, &flags.in_turn);
    given.set("decode", &mut target.decode, &flags.decode.into());
    given.set("inflate", &mut target.decode, &DecodeFlag::Inflate.into());
    given.set("wait", &mut target.wait, &flags.wait);
    let tls = &mut target.tls;
    given.clear("insecure", &mut tls.cacert);
    given.clear("cacert", &mut tls.insecure);
    given.set("insecure", &mut tls.insecure, &flags.insecure);
    given.set("cacert", &mut tls.cacert, &flags.cacert);
    given.set("server_name", &mut tls.server_name, &flags.server_name);
    given.set("cert", &mut tls.cert, &flags.cert);
    given.set("key", &mut tls.key, &flags.key);
    given.set("tls_groups", &mut tls.tls_groups, &flags.tls_groups);
    let version = flags.tls_version.map(Into::into);
    given.set("tls_version", &mut tls.tls_version, &version);
    let fresh = &mut tls.no_tls_resumption;
    given.set("no_tls_resumption", fresh, &flags.no_tls_resumption);
    let load = &mut scenario.load;
    given.set("pipeline", &mut load.pipeline, &flags.pipeline);
    given.set(
        "max_in_flight",
        &mut load.max_in_flight,
        &flags.max_in_flight,
    );
    given.set("think", &mut load.think, &flags.think);
    given.set("duration", &mut load.duration, &flags.duration);
    given.set("warmup", &mut load.warmup, &flags.warmup);
    given.set("timeout", &mut load.timeout, &flags.timeout);
    given.set("drain", &mut load.drain, &flags.drain);
    given.set("no_keepalive", &mut load.no_keepalive, &flags.no_keepalive);
    given.set("no_batching", &mut load.no_batching, &flags.no_batching);
    given.set("workers", &mut load.threads, &flags.workers);
    given.set("io", &mut load.io, &flags.io.into());
    given.set("seed", &mut load.seed, &flags.seed);
    let (server, client) = (&mut scenario.server, &mut scenario.client);
    given.set("subject", &mut server.subject, &flags.subject);
    given.set("server_cpus", &mut server.cpus, &cpus(&flags.server_cpus));
    given.set("server_quota", &mut server.quota, &flags.server_quota);
    given.clear("server_cgroup", &mut server.pid);
    given.clear("server_pid", &mut server.cgroup);
    given.set("server_pid", &mut server.pid, &flags.server_pid);
    given.set("server_cgroup", &mut server.cgroup, &flags.server_cgroup);
    given.set("backend_pid", &mut server.backend_pid, &flags.backend_pid);
    let (first, more) = first_and_more(&flags.server_host);
    given.set("server_host", &mut server.host, &first);
    given.set("server_host", &mut server.more_hosts, &more);
    let (first, more) = first_and_more(&flags.client_host);
    given.set("client_host", &mut client.host, &first);
    given.set("client_host", &mut client.more_hosts, &more);
    let on_lost = flags.on_lost_client.into();
    given.set("on_lost_client", &mut client.on_lost, &on_lost);
    given.set("deal", &mut client.deal, &flags.deal.into());
    given.set(
        "backend_host",
        &mut server.backend_host,
        &flags.backend_host,
    );
    if server.host.is_some() || server.backend_host.is_some() {
        given.set("ssh", &mut server.ssh, &flags.ssh);
    }
    if client.host.is_some() {
        given.set("ssh", &mut client.ssh, &flags.ssh);
    }
    for flag in ["hub", "nats", "creds"] {
        given.set(flag, &mut scenario.hub, &flags.at.place());
    }
    given.set("driver", &mut client.driver, &flags.driver);
    given.set("client_cpus", &mut client.cpus, &cpus(&flags.client_cpus));
    given.clear("client_cgroup", &mut client.quota);
    given.clear("client_quota", &mut client.cgroup);
    given.set("client_quota", &mut client.quota, &flags.client_quota);
    given.set("client_netns", &mut client.netns, &flags.client_netns);
    given.set("client_cgroup", &mut client.cgroup, &flags.client_cgroup);
    let ChildFlags { as_user, env } = &flags.children;
    given.set("as_user", &mut scenario.programs.as_user, as_user);
    given.set("env", &mut scenario.programs.env, env);
    let link = &mut scenario.link;
    given.set("link", &mut link.lay, &flags.link);
    given.set("downlink_dev", &mut link.downlink_dev, &flags.downlink_dev);
    given.set("uplink_dev", &mut link.uplink_dev, &flags.uplink_dev);
    let uncalibrated = &mut scenario.watch.no_calibrate;
    given.set("no_calibrate", uncalibrated, &flags.no_calibrate);
    let expect = &mut scenario.expect;
    given.set("threshold", &mut expect.threshold, &flags.threshold);
    given.set("require", &mut expect.require, &flags.require);
}

/// Hosts as a scenario has them.
fn first_and_more(hosts: &[String]) -> (Option<String>, Vec<String>) {
    match hosts.split_first() {
        Some((first, more)) => (Some(first.clone()), more.to_vec()),
        None => (None, Vec::new()),
    }
}

/// Reads a scenario file. What it says in plain text must be no secret, and it names no processor that there
/// is not.
fn read(path: &Path) -> Result<ScenarioFile, Failed> {
    let name = path.display().to_string();
    // It may hold a traffic file.
    let text = file::read_text(Source::File(path.into()), TRAFFIC_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(format!("--scenario {name}: {error}")))?;
    let file = ScenarioFile::parse(&name, &text).map_err(|error| refused(&error, &text))?;
    let fault = plain_secret(&file.scenario).or_else(|| unknown_processor(&file.scenario));
    match fault.and_then(|fault| file.error(&fault)) {
        Some(error) => Err(refused(&error, &text)),
        None => Ok(file),
    }
}

/// Why a file is refused, without the secrets that stand in the lines that are shown.
fn refused(error: &FileError, text: &str) -> Failed {
    secrets::learn_texts(text.split(['"', '\'', '\n']));
    exit::in_file(error)
}

/// The first secret that a scenario holds itself, or what stands in the place of one.
fn plain_secret(scenario: &Scenario) -> Option<Fault> {
    let mut found = None;
    scenario.clone().map_telling(|kind, key, text| {
        let is_named = kind.reference(text).is_some();
        let name = text.split([':', '=']).next().unwrap_or_default();
        let why = match kind {
            _ if is_named => None,
            _ if text.contains(HIDDEN) => {
                Some("it was hidden when the scenario was written, and has to be given anew")
            }
            Telling::Header | Telling::Variable => (is_telling(name) && kind.value(text).is_some())
                .then_some("a secret does not stand in a scenario file"),
            Telling::Url | Telling::Command => given::shown(kind, text)
                .contains(HIDDEN)
                .then_some("a secret does not stand in a scenario file"),
            Telling::Cell => {
                is_telling(name).then_some("a secret does not stand in a scenario file")
            }
            Telling::Body => None,
        };
        let way_out = match kind {
            Telling::Header => format!("write `{name}: env:NAME`, or `{name}: file:PATH`"),
            Telling::Variable => format!("write `{name}=env:NAME`, or `{name}=file:PATH`"),
            Telling::Url => {
                "give it in a header field, such as `Authorization: env:NAME`, or as URL on the \
                             command line"
                    .to_owned()
            }
            Telling::Command => {
                "give the program a variable, by programs.env = [\"NAME=env:NAME\"], or its \
                                 command by a flag"
                    .to_owned()
            }
            Telling::Cell => "put the rows into a file, and write `file = \"FILE\"`".to_owned(),
            Telling::Body => "write `@FILE`".to_owned(),
        };
        let fault = why.map(|why| Fault::at(key, format!("{why}: {way_out}")));
        found = found.take().or(fault);
        String::new()
    });
    found
}

fn unknown_processor(scenario: &Scenario) -> Option<Fault> {
    let there = process::allowed_cpus();
    // Those of another host are known there.
    let client = scenario.client.cpus.as_ref();
    let client = client.filter(|_| scenario.client.host.is_none());
    let server = scenario.server.cpus.as_ref();
    let server = server.filter(|_| scenario.server.host.is_none());
    let b = scenario
        .ab
        .as_ref()
        .and_then(|ab| ab.b.server_cpus.as_ref());
    let lists = [
        ("server.cpus", server),
        ("client.cpus", client),
        ("ab.b.server_cpus", b),
    ];
    lists.into_iter().find_map(|(key, list)| {
        let cpu = list?.iter().find(|cpu| !there.contains(cpu))?;
        let message = format!("processor {cpu} is not one that this process may use: {there:?}");
        Some(Fault::at(key, message))
    })
}

impl From<EffortFlag> for Effort {
    fn from(flag: EffortFlag) -> Effort {
        match flag {
            EffortFlag::Quick => Effort::Quick,
            EffortFlag::Normal => Effort::Normal,
            EffortFlag::Thorough => Effort::Thorough,
        }
    }
}

impl From<DealFlag> for Deal {
    fn from(flag: DealFlag) -> Deal {
        match flag {
            DealFlag::Even => Deal::Even,
            DealFlag::ByCeiling => Deal::ByCeiling,
        }
    }
}

impl From<OnLostFlag> for OnLostClient {
    fn from(flag: OnLostFlag) -> OnLostClient {
        match flag {
            OnLostFlag::Mark => OnLostClient::Mark,
            OnLostFlag::Rebalance => OnLostClient::Rebalance,
            OnLostFlag::Abort => OnLostClient::Abort,
        }
    }
}

impl From<DecodeFlag> for Decode {
    fn from(flag: DecodeFlag) -> Decode {
        match flag {
            DecodeFlag::None => Decode::None,
            DecodeFlag::Check => Decode::Check,
            DecodeFlag::Inflate => Decode::Inflate,
        }
    }
}

impl From<IoFlag> for Io {
    fn from(flag: IoFlag) -> Io {
        match flag {
            IoFlag::Auto => Io::Auto,
            IoFlag::Uring => Io::Uring,
            IoFlag::Epoll => Io::Epoll,
        }
    }
}

impl From<TlsVersionFlag> for TlsVersion {
    fn from(flag: TlsVersionFlag) -> TlsVersion {
        match flag {
            TlsVersionFlag::V12 => TlsVersion::V12,
            TlsVersionFlag::V13 => TlsVersion::V13,
        }
    }
}

impl From<ProbeFlag> for Probe {
    fn from(flag: ProbeFlag) -> Probe {
        match flag {
            ProbeFlag::Telemetry => Probe::Telemetry,
            ProbeFlag::Go => Probe::Go,
            ProbeFlag::Trace => Probe::Trace,
            ProbeFlag::Stacks => Probe::Stacks,
            ProbeFlag::Waits => Probe::Waits,
            ProbeFlag::Calls => Probe::Calls,
            ProbeFlag::Counters => Probe::Counters,
            ProbeFlag::Client => Probe::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use wallfinder_model::traffic::Scalar;

    use super::*;
    use crate::flags::{Command, Flags};

    #[test]
    fn several_urls_are_a_list_of_paths_of_the_first_ones_origin() {
        let list = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            list_of(urls.iter()).map_err(|failed| failed.message)
        };
        let same = [
            "http://h:1?x=1",
            "http://h:1/b",
            "http://h:1/b",
            "http://h:1",
        ];
        assert_eq!(list(&same).as_deref(), Ok("1 /?x=1\n2 /b\n1 /\n"));
        // Others are left as they are, for those who refuse them to name.
        let others = ["http://h/a", "http://h2/b", "http://h:80/c", "/d"];
        let kept = "1 /a\n1 http://h2/b\n1 http://h:80/c\n1 /d\n";
        assert_eq!(list(&others).as_deref(), Ok(kept));
        assert!(list(&["http://h/a b"]).unwrap_err().contains("white space"));
    }

    /// The scenario of a command line, without its secrets being learned.
    fn of(line: &str) -> Scenario {
        let words = line.split_whitespace();
        let matches = Flags::command().try_get_matches_from(words).expect(line);
        let flags = Flags::from_arg_matches(&matches).unwrap();
        let (_, own) = matches.subcommand().expect("a command");
        let given = Given { matches: own };
        let mut scenario = Scenario::default();
        match &flags.command {
            Command::Run(flags) => {
                common(&given, &flags.target, &mut scenario);
                own_of_run(&given, flags, &mut scenario);
            }
            other => panic!("{other:?}"),
        }
        scenario
    }

    #[test]
    fn a_replay_lasts_for_an_hour_or_as_long_as_it_is_told_to_whether_it_begins_anew_or_not() {
        for (more, lasts) in [
            ("", REPLAY_AT_MOST),
            (" --loop", REPLAY_AT_MOST),
            (" -d 5s", Nanos::from_secs(5)),
            (" --loop -d 5s", Nanos::from_secs(5)),
        ] {
            let scenario = of(&format!("wallfinder run http://h/ --replay a.log{more}"));
            assert_eq!(scenario.load.duration, lasts, "{more}");
            let replay = scenario.traffic.replay.expect("it is one");
            assert_eq!(replay.again, more.contains("--loop"));
        }
    }

    #[test]
    fn a_secret_in_a_row_is_refused_and_what_looks_like_a_reference_is_data() {
        let of = |column: &str, value: &str| {
            let mut scenario = Scenario::default();
            let row = [(column.to_owned(), Scalar::Text(value.to_owned()))];
            let data = Data {
                rows: vec![row.into()],
                ..Data::default()
            };
            scenario.traffic.data = [("users".to_owned(), data)].into();
            plain_secret(&scenario).map(|fault| fault.message)
        };
        assert_eq!(of("name", "env:NAME"), None);
        for value in ["hunter22", "env:NAME"] {
            let why = of("password", value).expect(value);
            assert!(why.contains("put the rows into a file"), "{why}");
        }
    }

    #[test]
    fn a_traffic_file_may_be_long_and_one_that_is_too_long_is_told_the_way_out() {
        let path = std::env::temp_dir().join(format!("wf-traffic-{}.toml", std::process::id()));
        let line = format!("wallfinder run http://h/ --traffic {}", path.display());
        let read = || {
            let matches = Flags::command().try_get_matches_from(line.split_whitespace());
            let flags = Flags::from_arg_matches(&matches.expect(&line)).unwrap();
            match &flags.command {
                Command::Run(flags) => traffic(&flags.target).map(|(read, _)| read.is_some()),
                other => panic!("{other:?}"),
            }
        };
        let comment = "x".repeat(2 << 20);
        std::fs::write(&path, format!("# {comment}\n[[request]]\nget = \"/\"\n")).unwrap();
        let long = read();
        // It has no blocks behind these.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(TRAFFIC_BYTES_MAX + 1).unwrap();
        let too_long = read();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(long, Ok(true));
        let why = too_long.expect_err("it is too long").message;
        assert!(why.contains("longer than 64 MiB"), "{why}");
        assert!(why.contains("put its rows into a CSV file"), "{why}");
    }

    #[test]
    fn rows_with_more_secrets_than_are_looked_for_are_referred_to_a_file() {
        let of = |column: &str, rows: [usize; 2]| {
            let row = || [(column.to_owned(), Scalar::Whole(1))].into();
            let data = |rows| Data {
                rows: vec![row(); rows],
                ..Data::default()
            };
            let [few, many] = rows.map(data);
            let traffic = Traffic {
                data: [("admins".to_owned(), few), ("users".to_owned(), many)].into(),
                ..Traffic::default()
            };
            too_many_secrets(&traffic)
        };
        let half = SECRET_CELLS_MAX / 2;
        assert!(of("token", [half, half]).is_none());
        assert!(of("name", [half, half + 1]).is_none());
        let fault = of("token", [half, half + 1]).expect("too many");
        assert_eq!(fault.key, "traffic.data.users.rows");
        assert!(fault.message.contains("users.csv"), "{}", fault.message);
    }

    /// What the help says of defaults, and what a file gets where it says nothing.
    #[test]
    fn defaults_of_flags_are_those_of_scenarios() {
        let plain = of("wallfinder run http://h/");
        let named = of(
            "wallfinder run http://h/ -d 10s --pipeline 1 --think 0s -m GET --timeout 10s --drain 1s \
             --wait 5s --decode none --io auto --seed 1",
        );
        assert_eq!(plain, named);
        let definitions = Flags::command();
        let run = definitions.find_subcommand("run").expect("it is one");
        for (flag, value) in [
            ("duration", "10s"),
            ("pipeline", "1"),
            ("think", "0s"),
            ("method", "GET"),
            ("timeout", "10s"),
            ("drain", "1s"),
            ("wait", "5s"),
            ("decode", "none"),
            ("io", "auto"),
            ("seed", "1"),
            ("connections", "64"),
        ] {
            let flag = run.get_arguments().find(|known| known.get_id() == flag);
            let defaults = flag.expect("it is one").get_default_values();
            assert_eq!(defaults, [value]);
        }
        assert_eq!(wallfinder_scenario::loads::CONNECTIONS, 64);
    }
}
