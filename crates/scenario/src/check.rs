//! What a scenario may not say, whether flags or a file say it. What only the machine knows, such as which
//! processors there are, is checked where the testbed is set up.

use std::fmt::Display;

use wallfinder_model::scenario::{Ab, Changes, Client, Deal, Load, OnLostClient, SCHEMA, Target};
use wallfinder_model::traffic::RowOrder;
use wallfinder_model::{LinkSpec, Nanos, Scenario};

/// Most that can be counted to: connections, requests in flight.
const COUNT_MAX: u32 = 1_000_000;
/// Rounds of a comparison: fewer give no interval.
const ROUNDS: std::ops::RangeInclusive<u32> = 3..=200;
/// Shorter windows end before anything settles; longer ones are another effort.
const WINDOW: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(100)..=Nanos::from_secs(30);
/// Cores of a quota.
const CORES: std::ops::RangeInclusive<f64> = 0.01..=4096.0;
/// Shares of throughput that can be asked about.
const SHARE: std::ops::RangeInclusive<f64> = 0.0001..=0.5;

/// What is wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key: `load.rate_to`; `target.headers.0` for an element of a list.
    pub key: String,
    /// What is wrong, and the way out.
    pub message: String,
}

impl Fault {
    /// At a key.
    pub fn at(key: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault {
            key: key.into(),
            message: message.into(),
        }
    }
}

/// Refuses where it holds.
fn refuse(wrong: bool, key: &str, message: &str) -> Result<(), Fault> {
    match wrong {
        true => Err(Fault::at(key, message)),
        false => Ok(()),
    }
}

/// What contradicts itself, and what lacks something that it needs.
///
/// # Errors
///
/// The first fault.
pub fn check(scenario: &Scenario) -> Result<(), Fault> {
    if scenario.schema != SCHEMA {
        let message = format!("this version reads `{SCHEMA}`, not `{}`", scenario.schema);
        return Err(Fault::at("schema", message));
    }
    target(&scenario.target)?;
    mixed(scenario)?;
    load(scenario)?;
    sides(scenario)?;
    if let Some(squeeze) = &scenario.squeeze {
        let message = "--lift makes the changes of --what-if, and there is none";
        refuse(
            squeeze.lift && squeeze.what_if.is_empty(),
            "squeeze.lift",
            message,
        )?;
        let is_apart = scenario.server.host.is_some() || scenario.client.host.is_some();
        let message =
            "--lift changes what is on this host: leave out --server-host and --client-host";
        refuse(squeeze.lift && is_apart, "squeeze.lift", message)?;
        let window = squeeze.window;
        refuse(
            window.is_some_and(|window| !WINDOW.contains(&window)),
            "squeeze.window",
            "a window is between 100ms and 30s long",
        )?;
    }
    let watch = &scenario.watch;
    refuse(
        watch.no_inside && !watch.pprof.is_empty() && scenario.squeeze.is_some(),
        "watch.no_inside",
        "--no-inside looks at no profiles, and --pprof says where they are: leave one of them out",
    )?;
    if let Some(ab) = &scenario.ab {
        comparison(scenario, ab)?;
    }
    let rounds = scenario.bytes.as_ref().map(|bytes| bytes.rounds);
    rounds_in("bytes.rounds", rounds)
}

/// What a mix of requests has in the place of the target's one request.
fn mixed(scenario: &Scenario) -> Result<(), Fault> {
    let Scenario {
        target, traffic, ..
    } = scenario;
    if traffic.is_empty() {
        return Ok(());
    }
    let has_own = target.method != "GET"
        || target.body.is_some()
        || target.body_bytes.is_some()
        || target.echo_bytes.is_some();
    refuse(
        has_own,
        "traffic",
        "the requests of --traffic have methods and bodies of their own: leave out -m, -b and --body-bytes",
    )?;
    refuse(
        target.frame.is_some(),
        "traffic",
        "requests are mixed over HTTP and gRPC, and a plain stream has none: leave out --frame, or --traffic",
    )?;
    refuse(
        target.in_turn,
        "traffic",
        "--in-turn is of one call, and the calls of --traffic are others: leave one of them out",
    )?;
    let once = traffic
        .data
        .iter()
        .find(|(_, data)| data.order == RowOrder::Once);
    if let Some((name, _)) = once {
        let varies = scenario.ramp.is_some() || scenario.squeeze.is_some() || scenario.ab.is_some();
        refuse(
            varies,
            &format!("traffic.data.{name}.order"),
            "rows that are used once end a load, and this command makes several: use `run`, or order = \"in-order\"",
        )?;
    }
    if let Some(replay) = &traffic.replay {
        let load = &scenario.load;
        refuse(
            load.rate.is_some() || load.think > Nanos(0),
            "traffic.replay",
            "a replay has the pace of its log: leave out --rate and --think, or scale it with --speed",
        )?;
        let varies = scenario.ramp.is_some() || scenario.squeeze.is_some() || scenario.ab.is_some();
        refuse(
            varies,
            "traffic.replay",
            "a replay is one load, which is held: use `run`; what the log asks for as a mix is told by `traffic from-log`",
        )?;
        refuse(
            !(0.001..=1000.0).contains(&replay.speed),
            "traffic.replay.speed",
            "--speed is between 0.001 and 1000 times that of the log",
        )?;
    }
    refuse(
        scenario.driver().is_some(),
        "traffic",
        "the requests of --traffic are sent by our own engine: leave out --driver",
    )?;
    let b = scenario.ab.as_ref().map(|ab| &ab.b);
    refuse(
        b.is_some_and(|b| b.url.is_some() || b.path.is_some()) || scenario.bytes.is_some(),
        "traffic",
        "A and B are asked the same mix, and `bytes` one path after the other: leave out --traffic, or --url-b and --path",
    )
}

fn target(target: &Target) -> Result<(), Fault> {
    let message = "there is no target: name its URL, such as http://127.0.0.1:8083/simple";
    refuse(target.url.is_empty(), "target.url", message)?;
    let bodies = [
        target.body.is_some(),
        target.body_bytes.is_some(),
        target.echo_bytes.is_some(),
    ];
    refuse(
        bodies.into_iter().filter(|given| *given).count() > 1,
        "target.body_bytes",
        "a request has one body: keep one of body, body_bytes and echo_bytes",
    )?;
    let tls = &target.tls;
    refuse(
        tls.insecure && tls.cacert.is_some(),
        "target.tls.cacert",
        "--insecure believes any certificate, and --cacert those of a file alone: leave one of them out",
    )?;
    refuse(
        tls.cert.is_some() && tls.key.is_none(),
        "target.tls.cert",
        "--cert needs its --key",
    )?;
    refuse(
        tls.key.is_some() && tls.cert.is_none(),
        "target.tls.key",
        "--key needs its --cert",
    )?;
    refuse(
        !target.proto.is_empty() && target.protoset.is_some(),
        "target.protoset",
        "the method is described by --proto or by --protoset: leave one of them out",
    )?;
    refuse(
        !target.proto_path.is_empty() && target.proto.is_empty(),
        "target.proto_path",
        "--proto-path is where imports of --proto are looked for, and there is no --proto",
    )
}

fn count(key: &str, count: Option<u32>) -> Result<(), Fault> {
    match count {
        Some(0) => Err(Fault::at(key, "it must be at least 1")),
        Some(count) if count > COUNT_MAX => {
            Err(Fault::at(key, format!("`{count}` is more than a million")))
        }
        _ => Ok(()),
    }
}

fn rounds_in(key: &str, rounds: Option<u32>) -> Result<(), Fault> {
    refuse(
        rounds.is_some_and(|rounds| !ROUNDS.contains(&rounds)),
        key,
        "from 3 to 200 rounds: fewer give no interval",
    )
}

fn cores(key: &str, quota: Option<f64>) -> Result<(), Fault> {
    refuse(
        quota.is_some_and(|cores| !CORES.contains(&cores)),
        key,
        "a number of cores from 0.01 on, such as 0.5",
    )
}

fn load(scenario: &Scenario) -> Result<(), Fault> {
    let load: &Load = &scenario.load;
    count("load.connections", load.connections)?;
    count("load.pipeline", Some(load.pipeline))?;
    count("load.max_in_flight", load.max_in_flight)?;
    count("load.threads", load.threads)?;
    let needs_rate = "it is of an open loop, and there is no --rate";
    refuse(
        load.rate_to.is_some() && load.rate.is_none(),
        "load.rate_to",
        needs_rate,
    )?;
    refuse(
        load.poisson && load.rate.is_none(),
        "load.poisson",
        needs_rate,
    )?;
    refuse(
        load.poisson && load.rate_to.is_some(),
        "load.poisson",
        "a rate that grows has even gaps: leave out --poisson, or --rate-to",
    )?;
    let ramp = scenario.ramp.as_ref();
    refuse(
        ramp.is_some_and(|ramp| ramp.connections.is_empty()),
        "ramp.connections",
        "a ramp has a step at least: name the connections of each, such as 1,4,16",
    )?;
    for connections in ramp.iter().flat_map(|ramp| &ramp.connections) {
        count("ramp.connections", Some(*connections))?;
    }
    for depth in ramp.iter().flat_map(|ramp| &ramp.depths) {
        count("ramp.depths", Some(*depth))?;
    }
    refuse(
        ramp.is_some_and(|ramp| !ramp.rates.is_empty() && !ramp.depths.is_empty()),
        "ramp.depths",
        "a ramp goes over --rates or over --depths: leave one of them out",
    )?;
    let is_open = load.rate.is_some() || ramp.is_some_and(|ramp| !ramp.rates.is_empty());
    refuse(
        is_open && load.think > Nanos(0),
        "load.think",
        "--think is the pause of a closed loop; in an open loop requests start by the clock: leave out \
         --think, or the rate",
    )?;
    if scenario.driver().is_none() {
        return Ok(());
    }
    refuse(
        scenario.watch.samples,
        "watch.samples",
        "--samples keeps the requests of our own engine; --driver makes its own",
    )?;
    refuse(
        load.max_in_flight.is_some(),
        "load.max_in_flight",
        "--max-in-flight is of our own engine; a --driver has its own, by its flags, or none",
    )?;
    refuse(
        load.no_batching,
        "load.no_batching",
        "--no-batching is of our own engine; a --driver takes answers as it does",
    )
}

fn sides(scenario: &Scenario) -> Result<(), Fault> {
    let (server, client, link) = (&scenario.server, &scenario.client, &scenario.link);
    cores("server.quota", server.quota)?;
    cores("client.quota", client.quota)?;
    let programs = &scenario.programs;
    let is_given = programs.as_user.is_some() || !programs.env.is_empty();
    let has_subject = server.subject.is_some();
    refuse(
        is_given && !has_subject && client.driver.is_none(),
        "programs",
        "--as and --env are for the programs that --subject and --driver start, and there is \
         neither",
    )?;
    refuse(
        is_given && server.host.is_some() && client.driver.is_none(),
        "programs",
        "--as and --env are for programs that are started here; on --server-host its agent decides",
    )?;
    refuse(
        server.cpus.is_some() && !has_subject,
        "server.cpus",
        "--server-cpus places the server that --subject starts, and there is no \
         --subject; place a server of your own with taskset",
    )?;
    refuse(
        server.quota.is_some() && !has_subject,
        "server.quota",
        "--server-quota holds the server that --subject starts, and there is no --subject",
    )?;
    refuse(
        server.quota.is_some() && server.host.is_some(),
        "server.quota",
        "--server-quota holds a server that is started here, and --server-host starts it elsewhere",
    )?;
    let is_several = !server.more_hosts.is_empty();
    let one = [
        (has_subject, "--subject starts one server"),
        (server.pid.is_some(), "--server-pid is of one host"),
        (server.cgroup.is_some(), "--server-cgroup is of one host"),
        (
            !server.backend_pid.is_empty(),
            "--backend-pid is of one host",
        ),
        (link.downlink_dev.is_some(), "--downlink-dev is of one host"),
    ];
    for (is_given, what) in one {
        let message = format!("{what}, and there are several of --server-host");
        refuse(is_given && is_several, "server.more_hosts", &message)?;
    }
    refuse(
        server.host.as_ref().is_some_and(|host| host.contains(','))
            && (server.pid.is_some() || server.cgroup.is_some()),
        "server.host",
        "the port of --server-host says who the server is, as --server-pid and --server-cgroup do: leave one of them out",
    )?;
    refuse(
        server.host.is_none() && is_several,
        "server.more_hosts",
        "server.more_hosts stand beside server.host, and there is none",
    )?;
    refuse(
        server.pid.is_some() && server.cgroup.is_some(),
        "server.cgroup",
        "the server is found by --server-pid or by --server-cgroup: leave one of them out",
    )?;
    refuse(
        !server.backend_pid.is_empty() && server.backend_host.is_some(),
        "server.backend_host",
        "--backend-pid is of the server's host, and --backend-host another: leave one of them out",
    )?;
    refuse(
        client.quota.is_some() && client.cgroup.is_some(),
        "client.cgroup",
        "a --client-quota makes a control group of its own: leave out --client-cgroup, or the quota",
    )?;
    elsewhere(scenario)?;
    let Some(lay) = &link.lay else {
        return Ok(());
    };
    let spec = lay.parse::<LinkSpec>();
    spec.map_err(|why| Fault::at("link.lay", why.to_string()))?;
    refuse(
        !has_subject,
        "link.lay",
        "--link lies between the client and the server that --subject starts, and there \
         is no --subject; for a link that stands, name its interface with \
         --downlink-dev and --uplink-dev",
    )?;
    let is_elsewhere =
        client.netns.is_some() || link.downlink_dev.is_some() || link.uplink_dev.is_some();
    refuse(
        is_elsewhere,
        "link.lay",
        "--link has interfaces and a client's namespace of its own: leave out --client-netns, \
         --downlink-dev and --uplink-dev",
    )
}

/// Refuses hosts of a load of which one is named twice.
pub fn named_once<T: PartialEq + Display>(hosts: &[T]) -> Result<(), String> {
    match (1..hosts.len()).find(|nth| hosts[..*nth].contains(&hosts[*nth])) {
        Some(nth) => Err(format!(
            "{} is named twice, and a host makes one part of a load",
            hosts[nth]
        )),
        None => Ok(()),
    }
}

/// Whether it is the name of an agent that dialled out to a hub, or a pattern of such names.
pub fn is_at_hub(host: &str) -> bool {
    !host.contains("://")
}

/// Whether it stands for every agent of a hub with such a name, which may be several.
pub fn is_pattern(host: &str) -> bool {
    host.contains('*') && is_at_hub(host)
}

/// Whether several hosts make the load together, or may: as many as a pattern means.
pub fn is_several(client: &Client) -> bool {
    !client.more_hosts.is_empty() || client.host.as_deref().is_some_and(is_pattern)
}

/// What is not to be had where the load comes from another host.
fn elsewhere(scenario: &Scenario) -> Result<(), Fault> {
    let (server, client) = (&scenario.server, &scenario.client);
    let is_several = is_several(client);
    refuse(
        client.host.is_none() && !client.more_hosts.is_empty(),
        "client.more_hosts",
        "client.more_hosts stand beside client.host, and there is none",
    )?;
    refuse(
        client.on_lost != OnLostClient::default() && !is_several,
        "client.on_lost",
        "--on-lost-client is about several hosts that make a load together: give --client-host for each",
    )?;
    refuse(
        client.deal != Deal::default() && !is_several,
        "client.deal",
        "--deal is about several hosts that make a load together: give --client-host for each",
    )?;
    let all: Vec<&String> = client.host.iter().chain(&client.more_hosts).collect();
    named_once(&all).map_err(|why| Fault::at("client.more_hosts", why))?;
    if client.host.is_none() {
        return Ok(());
    }
    let key = "client.host";
    let is_server = |host: &&String| {
        server
            .host
            .iter()
            .chain(&server.more_hosts)
            .any(|of| of == *host)
    };
    refuse(
        all.iter().any(is_server),
        key,
        "client and server are on one host there: run Wallfinder on it",
    )?;
    let left_out = [
        (
            server.subject.is_some() && server.host.is_none(),
            "--subject starts the server here",
        ),
        (
            scenario.link.lay.is_some(),
            "--link lies between two hosts of this one",
        ),
        (scenario.driver().is_some(), "--driver runs here"),
        (client.quota.is_some(), "--client-quota holds this process"),
        (
            client.cgroup.is_some(),
            "--client-cgroup takes this process in",
        ),
        (client.netns.is_some(), "--client-netns is of this host"),
    ];
    for (is_given, what) in left_out {
        let message =
            format!("{what}, and --client-host has the load made elsewhere: leave one of them out");
        refuse(is_given, key, &message)?;
    }
    Ok(())
}

fn comparison(scenario: &Scenario, ab: &Ab) -> Result<(), Fault> {
    rounds_in("ab.rounds", Some(ab.rounds))?;
    refuse(
        ab.at_most_cost.is_some_and(|share| !SHARE.contains(&share)),
        "ab.at_most_cost",
        "a share from 0.01% to 50%, such as 2%",
    )?;
    refuse(
        ab.at_most_cost.is_some() && scenario.load.rate.is_some(),
        "ab.at_most_cost",
        "at one rate both have the same throughput: leave out --rate, or --at-most-cost",
    )?;
    let b: &Changes = &ab.b;
    cores("ab.b.server_quota", b.server_quota)?;
    count("ab.b.connections", b.connections)?;
    count("ab.b.pipeline", b.pipeline)?;
    count("ab.b.max_in_flight", b.max_in_flight)?;
    count("ab.b.threads", b.threads)?;
    refuse(
        b.url.is_some() && b.path.is_some(),
        "ab.b.path",
        "B has a URL of its own, or another path of A's: leave one of them out",
    )?;
    refuse(
        b.no_batching && scenario.load.no_batching,
        "ab.b.no_batching",
        "A takes answers one by one as well: leave out --no-batching",
    )?;
    let of_subject = [
        ("ab.b.subject", b.subject.is_some()),
        ("ab.b.server_quota", b.server_quota.is_some()),
        ("ab.b.server_cpus", b.server_cpus.is_some()),
    ];
    for (key, given) in of_subject {
        let message = "it is of the server that --subject starts, and there is no --subject";
        refuse(given && scenario.server.subject.is_none(), key, message)?;
    }
    let Some(link) = &b.link else {
        return Ok(());
    };
    let spec = link.parse::<LinkSpec>();
    spec.map_err(|why| Fault::at("ab.b.link", why.to_string()))?;
    refuse(
        scenario.link.lay.is_none(),
        "ab.b.link",
        "B's link takes the place of A's --link, and there is none",
    )
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Rate;

    use super::*;

    fn of(change: impl FnOnce(&mut Scenario)) -> Result<(), String> {
        let mut scenario = Scenario::default();
        scenario.target.url = "http://127.0.0.1/".into();
        change(&mut scenario);
        check(&scenario).map_err(|fault| fault.key)
    }

    #[test]
    fn what_makes_sense_passes() {
        assert_eq!(of(|_| ()), Ok(()));
        let linked = |scenario: &mut Scenario| {
            scenario.server.subject = Some("catalogue".into());
            scenario.link.lay = Some("1gbit".into());
            scenario.programs.env = vec!["A=b".into()];
            scenario.ab = Some(Ab::default());
        };
        assert_eq!(of(linked), Ok(()));
    }

    #[test]
    fn what_makes_none_is_told_at_its_key() {
        type Change = fn(&mut Scenario);
        let cases: [(&str, Change); 14] = [
            ("schema", |s| s.schema = "wallfinder.study/1".into()),
            ("target.url", |s| s.target.url.clear()),
            ("target.tls.cert", |s| s.target.tls.cert = Some("c".into())),
            ("load.pipeline", |s| s.load.pipeline = 0),
            ("load.poisson", |s| s.load.poisson = true),
            ("load.rate_to", |s| s.load.rate_to = Some(Rate(1.0))),
            ("load.think", |s| {
                s.load.rate = Some(Rate(1.0));
                s.load.think = Nanos(1);
            }),
            ("watch.samples", |s| {
                s.client.driver = Some("wrk {url}".into());
                s.watch.samples = true;
            }),
            ("programs", |s| s.programs.as_user = Some("nobody".into())),
            ("server.quota", |s| s.server.quota = Some(0.5)),
            ("client.quota", |s| s.client.quota = Some(f64::NAN)),
            ("link.lay", |s| s.link.lay = Some("1gbit".into())),
            ("ab.rounds", |s| {
                s.ab = Some(Ab {
                    rounds: 2,
                    ..Ab::default()
                });
            }),
            ("ab.b.link", |s| {
                let mut ab = Ab::default();
                ab.b.link = Some("1gbit".into());
                s.ab = Some(ab);
            }),
        ];
        for (key, change) in cases {
            assert_eq!(of(change), Err(key.to_owned()));
        }
    }

    #[test]
    fn a_pattern_of_hosts_may_be_several() {
        let with = |host: &str, more: &[&str]| {
            of(|scenario| {
                scenario.client.host = Some(host.into());
                scenario.client.more_hosts = more.iter().map(|host| (*host).into()).collect();
                scenario.client.on_lost = OnLostClient::Rebalance;
            })
        };
        assert_eq!(with("c1", &[]), Err("client.on_lost".to_owned()));
        for (host, more) in [("c1", &["c2"][..]), ("c*", &[])] {
            assert_ne!(with(host, more), Err("client.on_lost".to_owned()), "{host}");
        }
        assert!(is_pattern("c*") && !is_pattern("c1") && !is_pattern("ssh://c*"));
    }

    #[test]
    fn our_own_engine_may_be_named() {
        let named = |scenario: &mut Scenario| {
            scenario.client.driver = Some("wallfinder".into());
            scenario.watch.samples = true;
        };
        assert_eq!(of(named), Ok(()));
    }
}
